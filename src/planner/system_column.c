/*
 * system_column.c
 *	  Refuses statements in which a ctid alone says which row of a sharded table is meant.
 *
 * A ctid is the place of a row in its shard, so rows of several shards have the same ctid.
 * A user who comes from a plain table takes a ctid for the name of one row.  So a
 * comparison of a ctid of a table with several shards is an error, unless it is sure
 * that only rows of one shard are compared.  That is so when, in conditions that must
 * hold as well,
 *
 *	 tableoid of the table is equal to something, or
 *	 all columns of its shard key are equal to something
 *
 * where "something" does not depend on the same row.  The same goes for what compares
 * values by itself: GROUP BY, DISTINCT, PARTITION BY, UNION and the like.
 *
 * Core may put the body of a SQL function in the place of its call, which the statement as given does not show.  If
 * the plan of a shard reads a ctid which the statement does not name, it is such a function's; that is
 * refused, too, unless one shard is left (shard_system_column_check_scan).
 *
 * Conditions that must hold are kept as a stack of frames.  The first frame of a query
 * level has its WHERE and its inner joins; each AND below adds a frame of its own.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/system_column.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* Conditions of which all must hold. */
typedef struct Frame
{
	struct Frame *outer;
	int			depth;			/* query level in which they stand: 1 is the statement's */
	List	   *conditions;
} Frame;

typedef struct Level
{
	struct Level *parent;
	const Query *query;
	int			depth;
} Level;

typedef struct CheckContext
{
	Level	   *level;
	Frame	   *frame;
	List	   *tables;			/* OIDs of sharded tables of which the statement names a ctid */
} CheckContext;

/* A ctid that is compared. */
typedef struct CtidUse
{
	const Var  *var;
	int			depth;			/* query level of its table */
	Oid			relid;
} CtidUse;

/* Sharded tables of which the statement that is being planned names a ctid. */
static List *named = NIL;

static bool check_walker(Node *node, CheckContext *cxt);

static void __attribute__((noreturn))
refuse(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot tell rows of sharded table \"%s\" by ctid alone", get_rel_name(relid)),
			 errdetail("Rows of several shards have the same ctid."),
			 errhint("Compare tableoid, too, as in (tableoid, ctid) = (...), or the shard key, or use a unique key.")));
}

/* Is var the ctid of a table with several shards, as seen from level?  Fills *use. */
static bool
is_ctid(const Level *level, const Var *var, CtidUse *use)
{
	const RangeTblEntry *rte;
	const ShardMap *map;

	if (var->varattno != SelfItemPointerAttributeNumber)
		return false;
	for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
		level = level->parent;
	if (level == NULL)
		return false;
	rte = rt_fetch(var->varno, level->query->rtable);
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE || !rte->inh)
		return false;
	map = shard_map_get_levels(rte->relid, true);
	use->var = var;
	use->depth = level->depth;
	use->relid = rte->relid;
	return map != NULL && map->nshards > 1;
}

typedef struct FindContext
{
	const Level *level;
	List	   *uses;			/* of CtidUse */
} FindContext;

/* Finds the ctids in an expression, outside of its sub-selects, of IS NULL and of count(). */
static bool
find_walker(Node *node, void *arg)
{
	FindContext *cxt = arg;
	CtidUse		use;

	if (node == NULL || IsA(node, Query) || IsA(node, NullTest) ||
		(IsA(node, Aggref) && ((Aggref *) node)->aggtype == INT8OID))
		return false;
	if (IsA(node, Var) && is_ctid(cxt->level, (Var *) node, &use))
	{
		CtidUse    *copy = palloc(sizeof(CtidUse));

		*copy = use;
		cxt->uses = lappend(cxt->uses, copy);
	}
	return expression_tree_walker(node, find_walker, arg);
}

/* ---------- which rows ---------- */

/* Is expr, which stands at depth, column attno of the table of use? */
static bool
is_column(const Node *expr, int depth, const CtidUse *use, AttrNumber attno)
{
	const Var  *var = (const Var *) expr;

	return IsA(expr, Var) && var->varno == use->var->varno && depth - (int) var->varlevelsup == use->depth &&
		var->varattno == attno;
}

/* Does expr, which stands at depth, depend on the table of use? */
static bool
depends_on(Node *expr, int depth, const CtidUse *use)
{
	return bms_is_member(use->var->varno, pull_varnos_of_level(NULL, expr, depth - use->depth));
}

/* Is column attno of the table equal to something that does not depend on the same row, by an operator of opfamily? */
static bool
is_equal_to_something(const Frame *frame, const CtidUse *use, AttrNumber attno, Oid opfamily, Oid collation)
{
	for (; frame != NULL && frame->depth >= use->depth; frame = frame->outer)
	{
		ListCell   *lc;

		foreach(lc, frame->conditions)
		{
			const OpExpr *op = lfirst(lc);

			if (!IsA(op, OpExpr) || list_length(op->args) != 2 || !op_in_opfamily(op->opno, opfamily) ||
				!op_mergejoinable(op->opno, exprType(linitial(op->args))) ||
				(op->inputcollid != collation && OidIsValid(op->inputcollid) &&
				 !get_collation_isdeterministic(op->inputcollid)))
				continue;
			for (int side = 0; side < 2; side++)
			{
				Node	   *column = strip_implicit_coercions(list_nth(op->args, side));

				if (is_column(column, frame->depth, use, attno) &&
					!depends_on(list_nth(op->args, 1 - side), frame->depth, use))
					return true;
			}
		}
	}
	return false;
}

/* The expression below casts. */
static const Node *
without_casts(const Node *expr)
{
	for (;;)
	{
		if (IsA(expr, RelabelType))
			expr = (const Node *) ((const RelabelType *) expr)->arg;
		else if (IsA(expr, CoerceViaIO))
			expr = (const Node *) ((const CoerceViaIO *) expr)->arg;
		else if (IsA(expr, FuncExpr) && list_length(((const FuncExpr *) expr)->args) == 1)
			expr = linitial(((const FuncExpr *) expr)->args);
		else
			return expr;
	}
}

/* Is tableoid of the table equal to something that does not depend on the same row?  It may be cast (regclass, text). */
static bool
is_tableoid_compared(const Frame *frame, const CtidUse *use)
{
	for (; frame != NULL && frame->depth >= use->depth; frame = frame->outer)
	{
		ListCell   *lc;

		foreach(lc, frame->conditions)
		{
			const OpExpr *op = lfirst(lc);

			if (!IsA(op, OpExpr) || list_length(op->args) != 2 ||
				!op_mergejoinable(op->opno, exprType(linitial(op->args))))
				continue;
			for (int side = 0; side < 2; side++)
			{
				if (is_column(without_casts(list_nth(op->args, side)), frame->depth, use, TableOidAttributeNumber) &&
					!depends_on(list_nth(op->args, 1 - side), frame->depth, use))
					return true;
			}
		}
	}
	return false;
}

/* Is column attno among exprs, which are compared together with the ctid? */
static bool
is_compared_together(List *exprs, int depth, const CtidUse *use, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, exprs)
	{
		Node	   *expr = lfirst(lc);

		/* a row of values */
		if (IsA(expr, RowExpr) && is_compared_together(((RowExpr *) expr)->args, depth, use, attno))
			return true;
		if (is_column(expr, depth, use, attno))
			return true;
	}
	return false;
}

/* Are the rows whose ctids are compared of one shard?  exprs: what else is compared with them. */
static bool
is_one_shard(const CheckContext *cxt, const CtidUse *use, List *exprs)
{
	const ShardLevelKey *below = shard_map_get_levels(use->relid, true)->part_key;
	Relation	rel;
	PartitionKey key;
	bool		result = true;

	if (is_compared_together(exprs, cxt->level->depth, use, TableOidAttributeNumber) ||
		is_tableoid_compared(cxt->frame, use))
		return true;
	rel = table_open(use->relid, NoLock);
	key = RelationGetPartitionKey(rel);
	for (int i = 0; i < key->partnatts && result; i++)
		result = key->partattrs[i] != 0 &&
			(is_compared_together(exprs, cxt->level->depth, use, key->partattrs[i]) ||
			 is_equal_to_something(cxt->frame, use, key->partattrs[i], key->partopfamily[i], key->partcollation[i]));
	table_close(rel, NoLock);
	for (int i = 0; below != NULL && i < below->natts && result; i++)
		result = is_compared_together(exprs, cxt->level->depth, use, below->attnos[i]) ||
			is_equal_to_something(cxt->frame, use, below->attnos[i], below->opfamilies[i], below->collations[i]);
	return result;
}

/* ---------- what is compared ---------- */

static bool
is_tid(Oid type)
{
	return type == TIDOID || type == TIDARRAYOID;
}

/* Is expr a ctid that a sub-select has returned? */
static bool
is_returned_ctid(const CheckContext *cxt, const Node *expr)
{
	const Level *level = cxt->level;
	const Var  *var = (const Var *) expr;

	if (!is_tid(exprType(expr)))
		return false;
	if (IsA(expr, SubLink))
		return true;
	if (!IsA(expr, Var))
		return false;
	for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
		level = level->parent;
	return level != NULL && rt_fetch(var->varno, level->query->rtable)->rtekind != RTE_RELATION;
}

/* Checks values that are compared with something; exprs: these, and what else is compared at the same time. */
static void
check_compared(CheckContext *cxt, List *values, List *exprs)
{
	FindContext find = {cxt->level, NIL};
	ListCell   *lc;

	(void) find_walker((Node *) values, &find);
	foreach(lc, find.uses)
	{
		if (!is_one_shard(cxt, lfirst(lc), exprs))
			refuse(((CtidUse *) lfirst(lc))->relid);
	}
	foreach(lc, find.uses == NIL ? values : NIL)
	{
		ListCell   *lc2;
		bool		with_table = false;

		foreach(lc2, exprs)
			with_table |= exprType(lfirst(lc2)) == OIDOID;
		if (!with_table && is_returned_ctid(cxt, lfirst(lc)))
			refuse(linitial_oid(cxt->tables));
	}
}

/* Checks the columns of GROUP BY and its kind. */
static void
check_grouped(CheckContext *cxt, List *clauses, List *targets)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		const TargetEntry *target = get_sortgroupref_tle(lfirst_node(SortGroupClause, lc)->tleSortGroupRef, targets);
		Node	   *expr = (Node *) target->expr;

		if (IsA(expr, Var) && ((Var *) expr)->varlevelsup == 0)
		{
			List	  **groups = shard_rte_group_exprs(rt_fetch(((Var *) expr)->varno, cxt->level->query->rtable));

			/* from 18 on, grouped expressions are columns of a range table entry of their own */
			if (groups != NULL)
				expr = list_nth(*groups, ((Var *) expr)->varattno - 1);
		}
		exprs = lappend(exprs, expr);
	}
	check_compared(cxt, exprs, exprs);
}

static void
check_set_operation(const CheckContext *cxt, const Node *node)
{
	const SetOperationStmt *setop = (const SetOperationStmt *) node;
	ListCell   *lc;

	if (node == NULL || !IsA(node, SetOperationStmt))
		return;
	foreach(lc, setop->all && setop->op == SETOP_UNION ? NIL : setop->colTypes)
	{
		if (is_tid(lfirst_oid(lc)) && !list_member_oid(setop->colTypes, OIDOID))
			refuse(linitial_oid(cxt->tables));
	}
	check_set_operation(cxt, setop->larg);
	check_set_operation(cxt, setop->rarg);
}

/* ---------- the walk ---------- */

/* The conditions that an AND consists of, or the one that there is. */
static List *
parts_of(Node *condition)
{
	if (condition == NULL)
		return NIL;
	if (is_andclause(condition))
	{
		List	   *parts = NIL;
		ListCell   *lc;

		foreach(lc, ((BoolExpr *) condition)->args)
			parts = list_concat(parts, parts_of(lfirst(lc)));
		return parts;
	}
	return list_make1(condition);
}

/* Walks a condition whose parts must all hold. */
static void
check_condition(Node *condition, CheckContext *cxt)
{
	Frame		frame = {cxt->frame, cxt->level->depth, parts_of(condition)};

	cxt->frame = &frame;
	(void) check_walker((Node *) frame.conditions, cxt);
	cxt->frame = frame.outer;
}

/* What must hold for every row of a FROM item: the conditions of inner joins. */
static List *
conditions_of(Node *from)
{
	List	   *conditions = NIL;
	ListCell   *lc;

	if (IsA(from, FromExpr))
	{
		foreach(lc, ((FromExpr *) from)->fromlist)
			conditions = list_concat(conditions, conditions_of(lfirst(lc)));
		return list_concat(conditions, parts_of(((FromExpr *) from)->quals));
	}
	if (IsA(from, JoinExpr) && ((JoinExpr *) from)->jointype == JOIN_INNER)
	{
		conditions = list_concat(conditions_of(((JoinExpr *) from)->larg), conditions_of(((JoinExpr *) from)->rarg));
		return list_concat(conditions, parts_of(((JoinExpr *) from)->quals));
	}
	return NIL;
}

static void
check_query(Query *query, CheckContext *cxt)
{
	Level		level = {cxt->level, query, cxt->level ? cxt->level->depth + 1 : 1};
	Frame		frame = {cxt->frame, level.depth, query->jointree ? conditions_of((Node *) query->jointree) : NIL};
	ListCell   *lc;

	cxt->level = &level;
	cxt->frame = &frame;
	check_grouped(cxt, query->groupClause, query->targetList);
	check_grouped(cxt, query->distinctClause, query->targetList);
	foreach(lc, query->windowClause)
		check_grouped(cxt, lfirst_node(WindowClause, lc)->partitionClause, query->targetList);
	check_set_operation(cxt, query->setOperations);
	(void) query_tree_walker(query, check_walker, cxt, 0);
	cxt->frame = frame.outer;
	cxt->level = level.parent;
}

static bool
check_walker(Node *node, CheckContext *cxt)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			check_query((Query *) node, cxt);
			return false;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			check_compared(cxt, ((OpExpr *) node)->args, ((OpExpr *) node)->args);
			break;
		case T_ScalarArrayOpExpr:
			check_compared(cxt, ((ScalarArrayOpExpr *) node)->args, ((ScalarArrayOpExpr *) node)->args);
			break;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcresulttype == BOOLOID)
				check_compared(cxt, ((FuncExpr *) node)->args, ((FuncExpr *) node)->args);
			break;
		case T_RowCompareExpr:
			check_compared(cxt, ((RowCompareExpr *) node)->largs, ((RowCompareExpr *) node)->largs);
			check_compared(cxt, ((RowCompareExpr *) node)->rargs, ((RowCompareExpr *) node)->rargs);
			break;
		case T_CaseExpr:
			if (((CaseExpr *) node)->arg != NULL)
				check_compared(cxt, list_make1(((CaseExpr *) node)->arg), NIL);
			break;
		case T_Aggref:
			check_grouped(cxt, ((Aggref *) node)->aggdistinct, ((Aggref *) node)->args);
			break;
		case T_BoolExpr:
			if (is_andclause(node))
			{
				check_condition(node, cxt);
				return false;
			}
			break;
		case T_SubLink:
			check_condition(((SubLink *) node)->testexpr, cxt);
			return check_walker(((SubLink *) node)->subselect, cxt);
		case T_JoinExpr:
			(void) check_walker(((JoinExpr *) node)->larg, cxt);
			(void) check_walker(((JoinExpr *) node)->rarg, cxt);
			check_condition(((JoinExpr *) node)->quals, cxt);
			return false;
		default:
			break;
	}
	return expression_tree_walker(node, check_walker, cxt);
}

/* Notes the sharded tables of which the statement names a ctid. */
static bool
find_table_walker(Node *node, CheckContext *cxt)
{
	CtidUse		use;
	bool		found;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Level		level = {cxt->level, (Query *) node, 0};

		cxt->level = &level;
		found = query_tree_walker((Query *) node, find_table_walker, cxt, 0);
		cxt->level = level.parent;
		return found;
	}
	if (IsA(node, Var) && is_ctid(cxt->level, (Var *) node, &use))
		cxt->tables = list_append_unique_oid(cxt->tables, use.relid);
	return expression_tree_walker(node, find_table_walker, cxt);
}

List *
shard_system_column_enter(Query *query)
{
	CheckContext cxt = {NULL, NULL, NIL};
	List	   *outer = named;

	if (query != NULL)
		(void) find_table_walker((Node *) query, &cxt);
	named = cxt.tables;
	return outer;
}

void
shard_system_column_leave(List *outer)
{
	named = outer;
}

void
shard_system_column_check(Query *query)
{
	CheckContext cxt = {NULL, NULL, named};

	if (named != NIL)
		check_query(query, &cxt);
}

void
shard_system_column_check_scan(PlannerInfo *root, Index rtindex, Bitmapset *columns)
{
	const AppendRelInfo *appinfo = root->append_rel_array ? root->append_rel_array[rtindex] : NULL;
	Index		parent = appinfo ? appinfo->parent_relid : 0;
	const ShardMap *map;

	/* rows that are changed or locked are known by their ctid in any case */
	if (parent == 0 || root->rowMarks != NIL || bms_is_member(rtindex, root->all_result_relids) ||
		!bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber, columns) ||
		bms_num_members(find_base_rel(root, parent)->live_parts) == 1)
		return;
	/* of a table of two levels the statement names the table at the top */
	while (root->append_rel_array[parent] != NULL)
		parent = root->append_rel_array[parent]->parent_relid;
	map = shard_map_get_levels(planner_rt_fetch(parent, root)->relid, true);
	if (map != NULL && map->nshards > 1 && !list_member_oid(named, map->relid))
		refuse(map->relid);
}
