/*
 * early_stop.c
 *	  Decides whether a node should plan a query for its actual values (custom plan).
 *
 *	  WHERE status = $1 ORDER BY created LIMIT 10
 *		a frequent status	scan an index on created until ten rows are found: soon
 *		a rare status		use an index on status; the scan by created would read the whole table
 *
 * For a prepared statement, a node compares the cost of the generic plan with the costs of the first custom plans.
 * It takes the scan by created for the cheaper one.  So queries that stop early, by LIMIT, min() or max(), are
 * planned for their values each time.  An exception are queries that give values for all columns of a unique index,
 * as when an ORM looks up an object.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_am.h"
#include "catalog/route.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/path/early_stop.h"
#include "query_parts.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Attribute number of the table's column that node is, or 0 if node is something else. */
static AttrNumber
column_of(const Node *node, Index varno)
{
	node = shard_route_strip_relabel(node);
	if (node == NULL || !IsA(node, Var) || ((const Var *) node)->varno != varno || ((const Var *) node)->varlevelsup != 0)
		return 0;
	return ((const Var *) node)->varattno;
}

/* Does one of the clauses compare column keyno of the index with a value by equality? */
static bool
is_equal_to_value(List *clauses, Index varno, Relation index, int keyno)
{
	AttrNumber	attno = index->rd_index->indkey.values[keyno];

	foreach_ptr(const OpExpr, op, clauses)
	{
		if (!IsA(op, OpExpr) || list_length(op->args) != 2 ||
			get_op_opfamily_strategy(op->opno, index->rd_opfamily[keyno]) != BTEqualStrategyNumber)
			continue;
		if ((column_of(linitial(op->args), varno) == attno && !contain_var_clause(lsecond(op->args))) ||
			(column_of(lsecond(op->args), varno) == attno && !contain_var_clause(linitial(op->args))))
			return true;
	}
	return false;
}

/* Is the index unique, and do the clauses give a value for each of its columns? */
static bool
finds_one_row(Relation index, Index varno, List *clauses)
{
	if (!index->rd_index->indisunique || index->rd_rel->relam != BTREE_AM_OID || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		if (index->rd_index->indkey.values[i] == 0 || !is_equal_to_value(clauses, varno, index, i))
			return false;
	}
	return true;
}

/* Do the clauses select the same number of rows for all values: one row, or the whole table? */
static bool
is_steady(Oid relid, Index varno, List *clauses)
{
	Relation	table;
	List	   *indexes;
	bool		result = clauses == NIL;

	if (result)
		return true;
	table = table_open(relid, NoLock);
	indexes = RelationGetIndexList(table);
	foreach_oid(indexid, indexes)
	{
		/* unique indexes of a sharded parent are markers (ddl/marker.c): not valid, but nodes enforce them */
		Relation	index = index_open(indexid, AccessShareLock);

		result = result || finds_one_row(index, varno, clauses);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	table_close(table, NoLock);
	return result;
}

/* Is it min(), max() or another aggregate that an index scan can answer? */
static bool
has_sort_operator(const Aggref *agg)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->aggfnoid));
	bool		result = HeapTupleIsValid(tuple) &&
		OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

/* Finds an aggregate that has to read all rows. */
static bool
needs_all_walker(Node *node, void *context)
{
	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, Aggref))
		return !has_sort_operator((const Aggref *) node);
	return expression_tree_walker(node, needs_all_walker, context);
}

/* ---------- remote queries ---------- */

static bool
from_stops_early(const ShardFrom *from)
{
	switch (from->kind)
	{
		case SHARD_FROM_QUERY:
			return shard_early_stop_of_remote(from->query);
		case SHARD_FROM_JOIN:
			return from_stops_early(from->outer) || from_stops_early(from->inner);
		default:
			return false;
	}
}

bool
shard_early_stop_of_remote(const ShardRemoteQuery *query)
{
	if (query == NULL)
		return false;
	if (query->limit != NULL ||
		(query->aggregated && query->group_exprs == NIL && query->grouping_sets == NIL &&
		 !needs_all_walker((Node *) query->tlist, NULL)))
		return query->from->kind != SHARD_FROM_TABLE ||
			!is_steady(query->from->relid, query->from->rtindex, query->from->where);
	return from_stops_early(query->from);
}

/* ---------- statements ---------- */

static bool
level_stops_early(Query *query)
{
	const RangeTblRef *ref;
	const RangeTblEntry *rte;

	if (query->limitCount == NULL &&
		!(query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		  !needs_all_walker((Node *) query->targetList, NULL) && !needs_all_walker(query->havingQual, NULL)))
		return false;
	if (query->jointree == NULL || query->jointree->fromlist == NIL)
		return false;
	ref = linitial(query->jointree->fromlist);
	if (list_length(query->jointree->fromlist) > 1 || !IsA(ref, RangeTblRef))
		return true;
	rte = rt_fetch(ref->rtindex, query->rtable);
	return rte->rtekind != RTE_RELATION ||
		!is_steady(rte->relid, ref->rtindex, make_ands_implicit((Expr *) query->jointree->quals));
}

bool
shard_early_stop_of_statement(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		if (level_stops_early(level))
			return true;
	}
	return false;
}
