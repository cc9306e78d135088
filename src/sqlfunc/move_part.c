/*
 * move_part.c
 *	  Checks the commands by which the source node of a move describes the table for the target node.
 *
 * Answers of nodes are untrusted data.  These commands run on another node.  So each must be a command that creates a
 * table, and must refer to that table only.  Each field of a statement that could name another table is checked.
 * Expressions (of CHECK, generated columns, indexes, policies) are not checked.
 */
#include "postgres.h"

#include "array_loop.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "sqlfunc/definition.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(shardfdw_checked_part);
PG_FUNCTION_INFO_V1(shardfdw_checked_columns);

/* The names of the table during the move and afterwards, and of the tables that its foreign keys may reference. */
typedef struct PartNames
{
	RangeVar   *staging;
	RangeVar   *final;
	List	   *references;		/* list of RangeVar */
} PartNames;

static bool
is_named(const RangeVar *relation, const RangeVar *name)
{
	return relation != NULL && relation->catalogname == NULL && relation->schemaname != NULL && name->schemaname != NULL &&
		strcmp(relation->schemaname, name->schemaname) == 0 && strcmp(relation->relname, name->relname) == 0;
}

static bool
is_the_table(const RangeVar *relation, const PartNames *names)
{
	return is_named(relation, names->staging) || is_named(relation, names->final);
}

static bool
is_reference(const RangeVar *relation, const PartNames *names)
{
	foreach_node(RangeVar, name, names->references)
	{
		if (is_named(relation, name))
			return true;
	}
	return false;
}

/* Is it an index in the schema that has only tables of the move? */
static bool
is_index_of_move(const RangeVar *relation, const PartNames *names)
{
	return relation != NULL && relation->catalogname == NULL && relation->schemaname != NULL &&
		strcmp(relation->schemaname, names->staging->schemaname) == 0;
}

/*
 * The same for a list of names. nmore: number of further names after the table's name, for objects that belong to the
 * table.
 */
static bool
is_name_of_table(List *name, int nmore, const PartNames *names)
{
	return list_length(name) == 2 + nmore && is_the_table(makeRangeVarFromNameList(list_truncate(list_copy(name), 2)), names);
}

static bool
is_constraint_of_part(const Constraint *constraint, const PartNames *names)
{
	switch (constraint->contype)
	{
		case CONSTR_NOTNULL:
		case CONSTR_DEFAULT:
		case CONSTR_GENERATED:
		case CONSTR_CHECK:
			return true;
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
		case CONSTR_EXCLUSION:
			return constraint->indexname == NULL && constraint->indexspace == NULL;
		case CONSTR_FOREIGN:
			return is_reference(constraint->pktable, names);
		default:
			return false;
	}
}

static bool
are_constraints_of_part(List *constraints, const PartNames *names)
{
	foreach_node(Constraint, constraint, constraints)
	{
		if (!is_constraint_of_part(constraint, names))
			return false;
	}
	return true;
}

/* CREATE TABLE: columns and constraints, without references to other tables. */
static bool
is_create_of_part(const CreateStmt *stmt, const PartNames *names)
{
	if (!is_the_table(stmt->relation, names) || stmt->relation->relpersistence == RELPERSISTENCE_TEMP ||
		stmt->inhRelations != NIL || stmt->partbound != NULL || stmt->partspec != NULL || stmt->ofTypename != NULL ||
		stmt->tablespacename != NULL || stmt->accessMethod != NULL || stmt->oncommit != ONCOMMIT_NOOP || stmt->if_not_exists)
		return false;
	foreach_ptr(Node, element, stmt->tableElts)
	{
		if (IsA(element, ColumnDef) ? ((ColumnDef *) element)->fdwoptions != NIL || !are_constraints_of_part(((ColumnDef *) element)->constraints, names) :
			!IsA(element, Constraint) || !is_constraint_of_part((Constraint *) element, names))
			return false;
	}
	return true;
}

static bool
is_alter_of_part(const AlterTableStmt *stmt, const PartNames *names)
{
	if (stmt->objtype == OBJECT_INDEX ? !is_index_of_move(stmt->relation, names) :
		stmt->objtype != OBJECT_TABLE || !is_the_table(stmt->relation, names))
		return false;
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		switch (cmd->subtype)
		{
			case AT_SetStorage:
			case AT_SetStatistics:
			case AT_SetOptions:
			case AT_ClusterOn:
			case AT_ReplicaIdentity:
			case AT_EnableAlwaysTrig:
			case AT_EnableReplicaTrig:
			case AT_DisableTrig:
			case AT_EnableRowSecurity:
			case AT_ForceRowSecurity:
			case AT_ChangeOwner:
			case AT_ValidateConstraint:
				break;
			case AT_AddConstraint:
				if (!is_constraint_of_part(castNode(Constraint, cmd->def), names))
					return false;
				break;
			default:
				return false;
		}
	}
	return true;
}

static bool
is_comment_of_part(const CommentStmt *stmt, const PartNames *names)
{
	switch (stmt->objtype)
	{
		case OBJECT_TABLE:
			return is_name_of_table(castNode(List, stmt->object), 0, names);
		case OBJECT_TYPE:		/* the row type */
			return IsA(stmt->object, TypeName) && ((TypeName *) stmt->object)->arrayBounds == NIL &&
				is_name_of_table(((TypeName *) stmt->object)->names, 0, names);
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
			return is_name_of_table(castNode(List, stmt->object), 1, names);
		case OBJECT_INDEX:
			return list_length(castNode(List, stmt->object)) == 2 && is_index_of_move(makeRangeVarFromNameList(castNode(List, stmt->object)), names);
		default:
			return false;
	}
}

static bool
is_part(Node *stmt, const PartNames *names)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return is_create_of_part(castNode(CreateStmt, stmt), names);
		case T_AlterTableStmt:
			return is_alter_of_part(castNode(AlterTableStmt, stmt), names);
		case T_IndexStmt:
			return is_the_table(castNode(IndexStmt, stmt)->relation, names) && castNode(IndexStmt, stmt)->tableSpace == NULL &&
				!castNode(IndexStmt, stmt)->concurrent;
		case T_CreateTrigStmt:
			return is_the_table(castNode(CreateTrigStmt, stmt)->relation, names) && !castNode(CreateTrigStmt, stmt)->replace &&
				(castNode(CreateTrigStmt, stmt)->constrrel == NULL || is_reference(castNode(CreateTrigStmt, stmt)->constrrel, names));
		case T_CreatePolicyStmt:
			return is_the_table(castNode(CreatePolicyStmt, stmt)->table, names);
		case T_CreateStatsStmt:
			return list_length(castNode(CreateStatsStmt, stmt)->relations) == 1 &&
				IsA(linitial(castNode(CreateStatsStmt, stmt)->relations), RangeVar) &&
				is_the_table(linitial_node(RangeVar, castNode(CreateStatsStmt, stmt)->relations), names);
		case T_GrantStmt:
			return castNode(GrantStmt, stmt)->is_grant && castNode(GrantStmt, stmt)->targtype == ACL_TARGET_OBJECT &&
				castNode(GrantStmt, stmt)->objtype == OBJECT_TABLE && list_length(castNode(GrantStmt, stmt)->objects) == 1 &&
				is_the_table(linitial_node(RangeVar, castNode(GrantStmt, stmt)->objects), names);
		case T_CommentStmt:
			return is_comment_of_part(castNode(CommentStmt, stmt), names);
		default:
			return false;
	}
}

static RangeVar *
parse_name(text *name)
{
	return makeRangeVarFromNameList(textToQualifiedNameList(name));
}

static List *
parse_names(ArrayType *array)
{
	ShardArrayLoop loop;
	Datum		name;
	List	   *names = NIL;

	shard_array_loop_begin(&loop, array);
	while (shard_array_loop_next(&loop, &name))
		names = lappend(names, parse_name(DatumGetTextPP(name)));
	return names;
}

/* checked_part(command text, staging text, final text, referred text[]) -> text: returns the command */
Datum
shardfdw_checked_part(PG_FUNCTION_ARGS)
{
	const char *command = text_to_cstring(PG_GETARG_TEXT_PP(0));
	PartNames	names = {parse_name(PG_GETARG_TEXT_PP(1)), parse_name(PG_GETARG_TEXT_PP(2)), parse_names(PG_GETARG_ARRAYTYPE_P(3))};
	Node	   *stmt = shard_definition_statement(command);

	if (names.staging->schemaname == NULL || names.final->schemaname == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("names of tables must be qualified")));
	if (stmt == NULL || !is_part(stmt, &names))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that does not make table %s", text_to_cstring(PG_GETARG_TEXT_PP(2))),
				 errdetail("The command would be: %s", command)));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/* checked_columns(columns text) -> text: parses the names and returns them quoted again */
Datum
shardfdw_checked_columns(PG_FUNCTION_ARGS)
{
	const char *columns = text_to_cstring(PG_GETARG_TEXT_PP(0));
	StringInfoData names;
	CopyStmt   *copy;

	initStringInfo(&names);
	if (columns[0] != '\0')
	{
		copy = (CopyStmt *) shard_definition_statement(psprintf("COPY t (%s) TO STDOUT", columns));
		if (copy == NULL || !IsA(copy, CopyStmt) || copy->attlist == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("a node has answered with something that is no list of columns"),
					 errdetail("The list would be: %s", columns)));
		foreach_ptr(String, column, copy->attlist)
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", quote_identifier(strVal(column)));
	}
	PG_RETURN_TEXT_P(cstring_to_text(names.data));
}
