/*
 * source_row.c
 *	  INSERT ... ON CONFLICT that core executes row by row.
 *
 * The coordinator has to apply triggers, row security policies and check options of views to each row, and to
 * evaluate functions and sub-selects that nodes lack.  Core's ModifyTable does all that.  But core does not plan ON
 * CONFLICT with columns for this table, which has no valid index.  So the columns are removed, and passed on as a
 * junk entry of a list that core copies into the plan (plan_private.h).  Our executor uses them to find conflicts
 * (row_upsert.c).
 *
 *	 ON CONFLICT (a, b) DO UPDATE SET ...
 *		-> ON CONFLICT DO UPDATE SET ...  + {a, b}	-> core's planner
 *
 * Without columns core infers no index, for any action.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_private.h"
#include "planner/source/source_modify.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

typedef struct RowContext
{
	ShardSourceInfo *info;
	Index		levelsup;
	bool		returning;		/* the expression is in RETURNING */
} RowContext;

/*
 * Raises an error for references that are not supported row by row: system columns outside of RETURNING, and the old
 * row in RETURNING.
 */
static bool
check_walker(Node *node, RowContext *context)
{
	ShardSourceInfo *info = context->info;

	if (node == NULL)
		return false;
	if (shard_is_returning_expr(node))
		shard_source_refuse(info, _("There is an expression over the old or new row of a view in RETURNING."));
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varlevelsup != context->levelsup ||
			(var->varno != info->target && var->varno != info->excluded))
			return false;
		if (var->varattno < 0 && var->varattno != TableOidAttributeNumber && !context->returning)
			shard_source_refuse(info, _("It names a system column of the table."));
		if (!shard_var_is_plain(var))
			shard_source_refuse(info, _("It names the old or the new row in RETURNING."));
		return false;
	}
	if (IsA(node, Query))
	{
		bool		result;

		context->levelsup++;
		result = query_tree_walker((Query *) node, check_walker, context, 0);
		context->levelsup--;
		return result;
	}
	return expression_tree_walker(node, check_walker, context);
}

/* The columns that ON CONFLICT names. */
static List *
find_attnos(ShardSourceInfo *info, List *elements)
{
	List	   *attnos = NIL;

	foreach_node(InferenceElem, element, elements)
	{
		Var		   *var = (Var *) element->expr;

		if (!IsA(var, Var))
			shard_source_refuse(info, _("ON CONFLICT names an expression, and its rows have to go one by one."));
		if (OidIsValid(element->inferopclass) ||
			(OidIsValid(element->infercollid) && element->infercollid != var->varcollid))
			shard_source_refuse(info, _("ON CONFLICT names a collation or an operator class, and its rows have to go one by one."));
		attnos = list_append_unique_int(attnos, var->varattno);
	}
	return attnos;
}

static void
check_update(ShardSourceInfo *info)
{
	OnConflictExpr *conflict = info->query->onConflict;
	RowContext	context = {info};

	foreach_node(TargetEntry, original, conflict->onConflictSet)
	{
		TargetEntry *entry = flatCopyTargetEntry(original);

		if (entry->resjunk)
			continue;
		entry->expr = (Expr *) shard_source_prepare((Node *) entry->expr);
		shard_source_check_key(info, entry);
	}
	(void) check_walker((Node *) conflict->onConflictSet, &context);
	(void) check_walker(conflict->onConflictWhere, &context);
}

/* Core does not capture rows of foreign tables in transition tables. */
static bool
uses_transition_tables(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_new_table || triggers->trig_update_old_table ||
		 triggers->trig_update_new_table);
}

void
shard_source_go_by_row(ShardSourceInfo *info)
{
	OnConflictExpr *conflict = info->query->onConflict;
	List	   *elements = conflict->arbiterElems;
	RowContext	context = {info};
	TargetEntry *columns;

	if (uses_transition_tables(info->rel->trigdesc))
		shard_source_refuse(info, _("It has triggers with transition tables."));
	if (conflict->action != ONCONFLICT_NOTHING && conflict->action != ONCONFLICT_UPDATE)
		shard_source_refuse(info, _("ON CONFLICT has another action than DO NOTHING and DO UPDATE."));
	if (conflict->arbiterWhere != NULL)
		shard_source_refuse(info, _("ON CONFLICT has an index condition, and its rows have to go one by one."));
	if (OidIsValid(conflict->constraint))
		elements = shard_source_constraint_elements(info, conflict->constraint);
	shard_source_check_elements(info, elements, true);
	if (conflict->action == ONCONFLICT_UPDATE)
		check_update(info);
	context.returning = true;
	(void) check_walker((Node *) info->query->returningList, &context);

	columns = shard_plan_private_pack_conflict(find_attnos(info, elements),
											   list_length(conflict->exclRelTlist) + 1);
	conflict->arbiterElems = NIL;
	conflict->constraint = InvalidOid;
	conflict->exclRelTlist = lappend(list_copy(conflict->exclRelTlist), columns);
}
