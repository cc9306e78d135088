/*
 * source_merge.c
 *	  MERGE over source rows that the coordinator computes.
 *
 *	   columns	finds what the coordinator computes: the source's columns, and
 *				expressions that nodes cannot compute and that do not use the target
 *	   build	MERGE INTO shard r1 USING (SELECT ... FROM unnest(...)) ON ...
 *
 * The join condition must contain an equality of the target's shard key (of both keys, for a two-level table) with an
 * expression over the source.  The value of the expression routes the source row: matching target rows are on that
 * shard only.  If no target row matches, the source row is inserted with the same key, so it stays on that shard.
 * The key is never updated.
 *
 * Nodes cannot compute some expressions (nextval(), functions and types of this database, sub-selects).  These are
 * computed for each source row, even if the action that uses them is not executed for the row.  WHEN NOT MATCHED BY
 * SOURCE has no source row, so such expressions are refused there.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/integer.h"
#include "catalog/pg_type.h"
#include "catalog/route.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "planner/source/source_modify.h"
#include "planner/router/multi_assign.h"
#include "query_parts.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* Routes a source row by one column of the shard key. */
typedef struct MergeKey
{
	AttrNumber	attno;			/* of the target */
	Node	   *expr;			/* compared with the column by the join condition */
	Node	   *value;			/* expr, converted to the key's type */
	Node	   *routed;			/* like value, but raises no error if the value does not fit the type */
} MergeKey;

typedef struct PlaceContext
{
	ShardSourceInfo *info;
	Relids		relids;			/* all relations of the statement */
	bool		by_source;		/* WHEN NOT MATCHED BY SOURCE: there is no source row */
} PlaceContext;

static bool
has_case_test(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, CaseTestExpr) || expression_tree_walker(node, has_case_test, context);
}

/* Replaces the parts of expr that do not use the target by source columns, if nodes cannot compute them. */
static Node *
place_mutator(Node *node, PlaceContext *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		if (((Var *) node)->varno == context->info->target ||
			((Var *) node)->varno == context->info->source)
			return copyObject(node);
		return (Node *) shard_source_add_column(context->info, (Expr *) node, true);
	}
	/* a sub-select over the target, which is refused when the remote statement is made */
	if (IsA(node, Query))
		return copyObject(node);
	if (IsA(node, Const) || IsA(node, List) || IsA(node, TargetEntry) || IsA(node, CaseWhen))
		return expression_tree_mutator(node, place_mutator, context);
	if (!shard_source_names_target(context->info, node) &&
		!has_case_test(node, NULL) &&
		!(shard_shippable_expr(NULL, context->relids, (Expr *) node) &&
		  shard_source_style_ok(context->info, node)))
	{
		if (context->by_source)
			shard_source_refuse(context->info, _("WHEN NOT MATCHED BY SOURCE uses a sub-select, a volatile function, or a type that nodes may not have."));
		return (Node *) shard_source_add_column(context->info, (Expr *) node, false);
	}
	/* SQL/JSON over the target, which is refused when the remote statement is made; its parts are not expressions */
	if (shard_is_sql_json(node))
		return copyObject(node);
	return expression_tree_mutator(node, place_mutator, context);
}

/* Replaces the Vars of the source in expr, which the coordinator evaluates, by columns of the remote statement. */
static Node *
place_columns_mutator(Node *node, ShardSourceInfo *info)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno != info->target)
		return (Node *) shard_source_add_column(info, (Expr *) node, true);
	return expression_tree_mutator(node, place_columns_mutator, info);
}

static Node *
place(ShardSourceInfo *info, Node *expr, bool by_source)
{
	PlaceContext context = {info, NULL, by_source};

	context.relids = bms_add_range(NULL, 1, list_length(info->query->rtable));
	return place_mutator(expr, &context);
}

/* expr as bigint, compared with a bound of a narrower type. */
static Node *
compare_bound(Oid function, Node *expr, int64 bound)
{
	return (Node *) makeFuncExpr(function, BOOLOID, list_make2(expr, shard_convert_int8(bound)), InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/*
 * Converts expr, of a wider integer type, to the key's type. value: expr with the plain conversion.  A number outside
 * the bounds of the key's type matches no row, so such a row may go to any shard.  If a node has to insert the row,
 * it raises the conversion's error.
 */
static Node *
narrow_integer(Oid wanted, Node *expr, Node *value)
{
	int64		min = wanted == INT2OID ? PG_INT16_MIN : PG_INT32_MIN;
	int64		max = wanted == INT2OID ? PG_INT16_MAX : PG_INT32_MAX;
	Node	   *wide = coerce_to_target_type(NULL, expr, exprType(expr), INT8OID, -1, COERCION_IMPLICIT,
											 COERCE_IMPLICIT_CAST, -1);
	CaseWhen   *below = makeNode(CaseWhen);
	CaseWhen   *above = makeNode(CaseWhen);
	CaseExpr   *result = makeNode(CaseExpr);

	below->expr = (Expr *) compare_bound(F_INT8LT, wide, min);
	above->expr = (Expr *) compare_bound(F_INT8GT, copyObject(wide), max);
	below->result = above->result = (Expr *)
		makeConst(wanted, -1, InvalidOid, get_typlen(wanted), wanted == INT2OID ? Int16GetDatum(0) : Int32GetDatum(0),
				  false, true);
	below->location = above->location = result->location = -1;
	result->casetype = wanted;
	result->args = list_make2(below, above);
	result->defresult = (Expr *) value;
	return (Node *) result;
}

/* Sets the expressions of key.  False if expr cannot be converted to the type of column keyno without loss. */
static bool
set_routing_value(MergeKey *key, PartitionKey partkey, int keyno, Node *expr)
{
	Oid			type = exprType(expr);
	Oid			wanted = partkey->parttypid[keyno];
	bool		narrows;

	key->expr = key->value = key->routed = expr;
	if (type == wanted || IsBinaryCoercible(type, partkey->partopcintype[keyno]))
		return true;
	narrows = partkey->strategy == PARTITION_STRATEGY_HASH && shard_integer_is_type(type) && shard_integer_is_type(wanted);
	key->value = coerce_to_target_type(NULL, expr, type, wanted, -1,
									   narrows ? COERCION_ASSIGNMENT : COERCION_IMPLICIT,
									   COERCE_IMPLICIT_CAST, -1);
	key->routed = key->value;
	if (narrows && get_typlen(type) > get_typlen(wanted))
		key->routed = narrow_integer(wanted, copyObject(expr), copyObject(key->value));
	return key->value != NULL;
}

/* Is side column keyno of key, a key of the target, and is opno its equality? */
static bool
is_key_side(ShardSourceInfo *info, PartitionKey key, int keyno, Node *side, Oid opno, Oid collation)
{
	int			equal = key->strategy == PARTITION_STRATEGY_HASH ?
		HTEqualStrategyNumber : BTEqualStrategyNumber;
	Var		   *var = (Var *) shard_route_strip_relabel(side);

	return var != NULL && IsA(var, Var) && var->varno == info->target && var->varlevelsup == 0 &&
		var->varattno == key->partattrs[keyno] && key->partcollation[keyno] == collation &&
		get_op_opfamily_strategy(opno, key->partopfamily[keyno]) == equal;
}

/* Finds an equality of column keyno of key with an expression over the source. */
static MergeKey *
find_key(ShardSourceInfo *info, PartitionKey key, int keyno, List *clauses)
{
	foreach_ptr(OpExpr, op, clauses)
	{
		if (!IsA(op, OpExpr) || list_length(op->args) != 2)
			continue;
		for (int i = 0; i < 2; i++)
		{
			Node	   *side = list_nth(op->args, i);
			Node	   *other = list_nth(op->args, 1 - i);
			Oid			opno = i == 0 ? op->opno : get_commutator(op->opno);
			MergeKey   *result;

			if (!OidIsValid(opno) || !is_key_side(info, key, keyno, side, opno, op->inputcollid) ||
				shard_source_names_target(info, other) || contain_volatile_functions(other))
				continue;
			result = palloc(sizeof(MergeKey));
			result->attno = key->partattrs[keyno];
			if (set_routing_value(result, key, keyno, other))
				return result;
		}
	}
	shard_source_refuse(info, psprintf(_("The condition that joins it has to compare column \"%s\" of its shard key with an expression of that type over the source."),
									   get_attname(RelationGetRelid(info->rel), key->partattrs[keyno], false)));
}

/* Is expr the expression with which the join condition compares the key? */
static bool
is_same_key(const MergeKey *key, Node *expr)
{
	Node	   *stripped = shard_route_strip_relabel(expr);

	return equal(expr, key->expr) || equal(expr, key->value) ||
		equal(stripped, shard_route_strip_relabel(key->expr)) ||
		equal(stripped, shard_route_strip_relabel(key->value));
}

/* Checks that THEN UPDATE or INSERT assigns to the key only the value that routed the row. */
static void
check_key(ShardSourceInfo *info, List *keys, MergeAction *action)
{
	foreach_ptr(MergeKey, key, keys)
	{
		TargetEntry *found = NULL;
		Var		   *var;

		foreach_node(TargetEntry, entry, action->targetList)
		{
			if (!entry->resjunk && entry->resno == key->attno)
				found = entry;
		}
		if (found != NULL && is_same_key(key, (Node *) found->expr))
			continue;
		if (action->commandType == CMD_INSERT)
			shard_source_refuse(info, psprintf(_("INSERT has to set column \"%s\" of the shard key to what the condition compares it with."),
											   get_attname(RelationGetRelid(info->rel), key->attno, false)));
		if (found == NULL)
			continue;
		var = (Var *) found->expr;
		if (!IsA(var, Var) || var->varno != info->target || var->varattno != key->attno)
			shard_source_refuse(info, psprintf(_("UPDATE changes column \"%s\" of the shard key."),
											   get_attname(RelationGetRelid(info->rel), key->attno, false)));
	}
}

/* Assigns NULL to columns that INSERT omits and that have no default, because the node may have a default. */
static void
add_nulls(ShardSourceInfo *info, MergeAction *action)
{
	TupleDesc	desc = RelationGetDescr(info->rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		found = false;

		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		foreach_node(TargetEntry, entry, action->targetList)
			found |= entry->resno == att->attnum;
		if (!found)
			action->targetList = lappend(action->targetList, shard_source_null(info, att));
		if (att->attidentity != '\0')
			action->override = OVERRIDING_SYSTEM_VALUE;
	}
}

static MergeAction *
plan_action(ShardSourceInfo *info, List *keys, const MergeAction *source)
{
	MergeAction *action = copyObject(unconstify(MergeAction *, source));

	if (action->commandType == CMD_UPDATE && action->targetList != NIL)
	{
		action->targetList = shard_multi_assign_split(action->targetList);
		if (action->targetList == NIL)
			shard_source_refuse(info, _("A multi-column assignment has a volatile function or a set operation in its sub-select."));
	}
	foreach_node(TargetEntry, entry, action->targetList)
		entry->expr = (Expr *) shard_source_prepare_assigned(info, (Node *) entry->expr);
	if (action->commandType == CMD_UPDATE && action->targetList == NIL)
		action->targetList = list_make1(shard_source_unchanged(info));
	if (action->commandType == CMD_INSERT || action->commandType == CMD_UPDATE)
		check_key(info, keys, action);
	if (action->commandType == CMD_INSERT)
		add_nulls(info, action);
	action->targetList = (List *) place(info, (Node *) action->targetList, shard_merge_is_by_source(action));
	if (action->qual != NULL)
		action->qual = place(info, shard_source_prepare(action->qual), shard_merge_is_by_source(action));
	return action;
}

/* Adds the routing expressions for the columns of key to keys and to info's columns. */
static List *
add_keys(ShardSourceInfo *info, PartitionKey key, List *clauses, List *keys)
{
	for (int i = 0; i < key->partnatts; i++)
	{
		MergeKey   *found = find_key(info, key, i, clauses);

		keys = lappend(keys, found);
		info->key_columns = lappend_int(info->key_columns,
										shard_source_add_column(info, (Expr *) found->routed, true)->varattno);
	}
	return keys;
}

void
shard_source_merge_columns(ShardSourceInfo *info)
{
	const ShardMap *map = shard_map_get_levels(RelationGetRelid(info->rel), true);
	Node	   *condition = shard_source_prepare(shard_merge_condition(info->query));
	List	   *clauses = NIL;
	List	   *keys = NIL;

	/* preparing the whole condition might reduce it to constant false */
	foreach_ptr(Node, clause, shard_query_conditions(shard_merge_condition(info->query)))
		clauses = lappend(clauses, shard_source_prepare(clause));
	info->skip_unrouted = true;
	keys = add_keys(info, RelationGetPartitionKey(info->rel), clauses, NIL);
	if (map->part_key != NULL)
		keys = add_keys(info, shard_route_part_key(map), clauses, keys);
	info->condition = place(info, condition, false);
	foreach_node(MergeAction, action, info->query->mergeActionList)
	{
		info->actions = lappend(info->actions, plan_action(info, keys, action));
		if (shard_merge_is_by_source(action))
			info->all_shards = true;
		else if (action->commandType == CMD_INSERT)
			info->skip_unrouted = false;
	}
	info->returning = (List *) place_columns_mutator((Node *) info->returning, info);
}

static MergeAction *
build_action(ShardSourceInfo *info, MergeAction *action)
{
	foreach_node(TargetEntry, entry, action->targetList)
		entry->expr = shard_source_convert(info, entry->expr,
										   psprintf(_("the new value of column \"%s\""),
													get_attname(RelationGetRelid(info->rel), entry->resno, false)));
	if (action->qual != NULL)
		action->qual = (Node *) shard_source_convert(info, (Expr *) action->qual, _("a condition of WHEN"));
	return action;
}

void
shard_source_merge_build(ShardSourceInfo *info)
{
	Query	   *query = info->level->query;
	List	   *values = NIL;

	query->commandType = CMD_MERGE;
	shard_merge_set_target(query, 1);
	foreach_ptr(TargetEntry, column, info->columns)
		values = lappend(values, makeVarFromTargetEntry(info->source, column));
	query->jointree->fromlist = list_make1(shard_source_add_rows(info, values));
	shard_merge_set_condition(query, (Node *) shard_source_convert(info, (Expr *) info->condition, _("the join condition")));
	foreach_ptr(MergeAction, action, info->actions)
		query->mergeActionList = lappend(query->mergeActionList,
										 build_action(info, action));
}
