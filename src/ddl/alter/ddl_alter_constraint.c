/*
 * ddl_alter_constraint.c
 *	  Does what core's parse analysis does with constraints, for constraints that core does not get.
 */
#include "postgres.h"

#include "catalog/pg_constraint.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_text.h"
#include "guc.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

ListCell *
shard_alter_take_attributes(Constraint *constraint, List *constraints, ListCell *next)
{
	bool		not_deferrable = false;

	for (; next != NULL; next = lnext(constraints, next))
	{
		switch ((int) lfirst_node(Constraint, next)->contype)
		{
			case CONSTR_ATTR_DEFERRABLE:
				constraint->deferrable = true;
				break;
			case CONSTR_ATTR_NOT_DEFERRABLE:
				not_deferrable = true;
				break;
			case CONSTR_ATTR_DEFERRED:
				constraint->deferrable = constraint->initdeferred = true;
				break;
			case CONSTR_ATTR_IMMEDIATE:
			case SHARD_CONSTR_ATTR_ENFORCED:
				break;
			case SHARD_CONSTR_ATTR_NOT_ENFORCED:
				shard_constraint_set_not_enforced(constraint);
				break;
			default:
				return next;
		}
		/* the same errors as in core's transformConstraintAttrs() */
		if (not_deferrable && constraint->deferrable)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 constraint->initdeferred ? errmsg("constraint declared INITIALLY DEFERRED must be DEFERRABLE") :
					 errmsg("multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed")));
	}
	return next;
}

/* Names that the statement gives to constraints. */
static List *
names_in_statement(const ShardAlterState *state)
{
	List	   *names = list_copy(state->chosen_names);

	foreach_node(AlterTableCmd, cmd, state->stmt->cmds)
	{
		if (cmd->subtype == AT_AddConstraint && castNode(Constraint, cmd->def)->conname)
			names = lappend(names, castNode(Constraint, cmd->def)->conname);
	}
	return names;
}

char *
shard_alter_choose_name(ShardAlterState *state, List *columns, const char *label)
{
	char	   *joined = NULL;
	char	   *name;

	foreach_node(String, column, columns)
		joined = joined ? psprintf("%s_%s", joined, strVal(column)) : strVal(column);
	do
	{
		name = ChooseConstraintName(state->table->name, joined, label,
									get_rel_namespace(state->table->relid), names_in_statement(state));
		state->chosen_names = lappend(state->chosen_names, name);
	} while (!shard_guc_follows_coordinator && shard_ddl_find_shard_constraint(state->table, name));
	return name;
}

char *
shard_alter_quoted_columns(List *columns)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_node(String, column, columns)
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", quote_identifier(strVal(column)));
	return text.data;
}

/* Has the table the column, or does the statement add it? */
static bool
has_column(const ShardAlterState *state, const char *name)
{
	foreach_node(AlterTableCmd, cmd, state->stmt->cmds)
	{
		if (cmd->subtype == AT_AddColumn && strcmp(castNode(ColumnDef, cmd->def)->colname, name) == 0)
			return true;
	}
	return get_attnum(state->table->relid, name) != InvalidAttrNumber;
}

/* Removes the table's name from columns that it qualifies, and refuses whole rows. context: ShardAlterState. */
static bool
unqualify_walker(Node *node, void *context)
{
	const ShardAlterState *state = context;
	Oid			relid = state->table->relid;

	if (node == NULL)
		return false;
	if (IsA(node, ColumnRef))
	{
		ColumnRef  *column = (ColumnRef *) node;
		int			nfields = list_length(column->fields);

		if (IsA(llast(column->fields), A_Star) ||
			(nfields == 1 && !has_column(state, strVal(linitial(column->fields))) &&
			 strcmp(strVal(linitial(column->fields)), state->table->name) == 0))
			shard_ddl_text_refuse_rows(relid);
		if (nfields >= 2 && IsA(llast(column->fields), String) &&
			strcmp(strVal(list_nth(column->fields, nfields - 2)), get_rel_name(relid)) == 0 &&
			(nfields == 2 || strcmp(strVal(list_nth(column->fields, nfields - 3)),
									get_namespace_name(get_rel_namespace(relid))) == 0))
			column->fields = list_make1(llast(column->fields));
		return false;
	}
	return raw_expression_tree_walker(node, unqualify_walker, context);
}

/*
 * Core parses CHECK constraints and generation expressions again for each partition, where the table's name is
 * unknown.
 */
void
shard_alter_unqualify(ShardAlterState *state)
{
	if (state->table->is_reference)
		return;
	foreach_node(AlterTableCmd, cmd, state->stmt->cmds)
	{
		if (cmd->subtype == AT_AddConstraint)
			(void) unqualify_walker(castNode(Constraint, cmd->def)->raw_expr, state);
		else if (cmd->subtype == SHARD_AT_SET_EXPRESSION)
			(void) unqualify_walker(cmd->def, state);
		else if (cmd->subtype == AT_AddColumn)
			foreach_node(Constraint, constraint, castNode(ColumnDef, cmd->def)->constraints)
				(void) unqualify_walker(constraint->raw_expr, state);
	}
}
