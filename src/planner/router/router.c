/*
 * router.c
 *	  Routes statements that can run on one shard, as determined by the shard key.
 *
 * A statement is routed if all of its sharded tables are colocated and restricted to the same key value, at every
 * query level.  The value is a constant, a parameter, or another expression without columns that the coordinator can
 * compute.  Then all data that the statement reads and writes is on one shard, and the shard's node runs the
 * statement unchanged.
 *
 * The restriction follows from equalities that must hold for the rows in question (route_scope.c).
 *
 * Tables with a single shard for all keys need no restriction: if they are colocated, the whole statement runs on
 * that shard.
 *
 * The planner need not know the values.  The executor finds the shard, so one plan serves all executions.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/colocate.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "catalog/route.h"
#include "parser/parsetree.h"
#include "planner/path/refusal.h"
#include "planner/router/route_scope.h"
#include "planner/router/statement.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/*
 * If the map of a two-level table has more shards than this, its statements are not routed: the plan would have to
 * depend on all of them.
 */
#define MAX_LEVEL_SHARDS 5000

typedef struct RouteContext
{
	const char *reason;			/* why the statement is not routed; NULL: it can be routed, so far */
	Oid			relid;			/* first sharded table; InvalidOid: none yet */
	List	   *keys;			/* values of its key; NIL: it has one shard for all keys */
	bool		inserts_key;
} RouteContext;

/* Context of a walk over the expressions of a level. */
typedef struct SublinkContext
{
	RouteContext *cxt;
	ShardRouteLevel *level;
	ShardRouteScope *scope;
} SublinkContext;

static void route_level(RouteContext *cxt, ShardRouteLevel *level);

static void
refuse(RouteContext *cxt, const char *reason)
{
	if (cxt->reason == NULL)
		cxt->reason = reason;
}

/* ---------- tables ---------- */

/* Are these surely the same values? */
static bool
same_values(List *keys, List *others)
{
	ListCell   *lc;
	ListCell   *lc2;

	if (list_length(keys) != list_length(others))
		return false;
	forboth(lc, keys, lc2, others)
	{
		if (!shard_route_scope_same_value(lfirst(lc), lfirst(lc2)))
			return false;
	}
	return true;
}

/* Adds a table of the statement, with these values of its key. */
static void
add_table(RouteContext *cxt, Oid relid, List *keys)
{
	if (!OidIsValid(cxt->relid))
	{
		cxt->relid = relid;
		cxt->keys = keys;
	}
	else if (!shard_colocated(cxt->relid, relid))
		refuse(cxt, "tables are not colocated");
	else if (!shard_map_get_levels(relid, true)->takes_all && !same_values(cxt->keys, keys))
		refuse(cxt, "tables have different keys");
}

/* Finds the single value that a table's rows have in column keyno (0-based) of the key. */
typedef Node *(*KeyFinder) (ShardRouteLevel *level, int varno, PartitionKey key, int keyno, void *arg);

/* Adds the values of all columns of a key. */
static void
find_keys(RouteContext *cxt, ShardRouteLevel *level, int varno, PartitionKey key, KeyFinder find, void *arg,
		  List **keys)
{
	for (int i = 0; i < key->partnatts; i++)
	{
		Node	   *value = key->partattrs[i] == 0 ? NULL : find(level, varno, key, i, arg);

		if (value == NULL)
		{
			refuse(cxt, "the shard key is not known to be one value");
			return;
		}
		*keys = lappend(*keys, value);
	}
}

static void
route_table(RouteContext *cxt, ShardRouteLevel *level, int varno, KeyFinder find, void *arg)
{
	Oid			relid = rt_fetch(varno, level->query->rtable)->relid;
	const ShardMap *map = shard_map_get_levels(relid, true);
	Relation	rel;
	PartitionKey key;
	List	   *keys = NIL;

	if (cxt->reason != NULL)
		return;
	if (map->takes_all)
	{
		add_table(cxt, relid, NIL);
		return;
	}
	if (map->nparts > 0 && map->nshards > MAX_LEVEL_SHARDS)
	{
		refuse(cxt, "too many shards of a table of two levels");
		return;
	}
	rel = table_open(relid, NoLock);
	key = RelationGetPartitionKey(rel);
	if (key != NULL)
		find_keys(cxt, level, varno, key, find, arg, &keys);
	if (map->nparts > 0)
		find_keys(cxt, level, varno, shard_route_part_key(map), find, arg, &keys);
	if (cxt->reason == NULL && keys != NIL)
		add_table(cxt, relid, keys);
	else
		refuse(cxt, "single shard");
	table_close(rel, NoLock);
}

/* Finds the value by the conditions in the scope of the table. */
static Node *
find_by_scope(ShardRouteLevel *level, int varno, PartitionKey key, int keyno, void *arg)
{
	ShardRouteTerm	term = {level, varno, key->partattrs[keyno], NULL};

	return shard_route_scope_find_value(level->scopes[varno], term, key, keyno);
}

/* Finds the value in arg, the target list of an INSERT.  Columns that are not in the list are NULL. */
static Node *
find_by_targets(ShardRouteLevel *level, int varno, PartitionKey key, int keyno, void *arg)
{
	ShardRouteTerm	term;

	foreach_node(TargetEntry, entry, (List *) arg)
	{
		if (entry->resno != key->partattrs[keyno])
			continue;
		/* a volatile function is allowed here, because it is called only once */
		if (level->query->commandType == CMD_INSERT && level->query->jointree->fromlist == NIL &&
			level->parent == NULL && shard_route_scope_is_value((Node *) entry->expr))
			return (Node *) entry->expr;
		if (!shard_route_scope_term(level, (Node *) entry->expr, &term))
			return NULL;
		return shard_route_scope_find_value(level->scope, term, key, keyno);
	}
	return (Node *) makeNullConst(key->parttypid[keyno], key->parttypmod[keyno], key->parttypcoll[keyno]);
}

/* Do the assignments change a column of the key, so that a row may belong to another shard? */
static bool
assigns_key(Oid relid, List *targets)
{
	return !shard_map_get_levels(relid, true)->takes_all && shard_route_assigns_key(relid, targets);
}

static void
route_merge(RouteContext *cxt, ShardRouteLevel *level)
{
	Query	   *query = level->query;
	Oid			relid = rt_fetch(query->resultRelation, query->rtable)->relid;

	route_table(cxt, level, query->resultRelation, find_by_scope, NULL);
	foreach_node(MergeAction, action, query->mergeActionList)
	{
		if (shard_merge_not_by_source(action))
			refuse(cxt, "rows that the source does not have");
		if (action->commandType == CMD_INSERT)
		{
			route_table(cxt, level, query->resultRelation, find_by_targets, action->targetList);
			cxt->inserts_key = true;
		}
		else if (action->commandType == CMD_UPDATE && assigns_key(relid, action->targetList))
			refuse(cxt, "shard key is changed");
	}
}

static void
route_target(RouteContext *cxt, ShardRouteLevel *level)
{
	Query	   *query = level->query;
	RangeTblEntry *rte = rt_fetch(query->resultRelation, query->rtable);

	if (shard_map_get_levels(rte->relid, false) == NULL)
	{
		refuse(cxt, "target is not sharded");
		return;
	}
	switch (query->commandType)
	{
		case CMD_INSERT:
			route_table(cxt, level, query->resultRelation, find_by_targets, query->targetList);
			cxt->inserts_key = true;
			if (query->onConflict != NULL && assigns_key(rte->relid, query->onConflict->onConflictSet))
				refuse(cxt, "shard key is changed");
			break;
		case CMD_MERGE:
			route_merge(cxt, level);
			break;
		case CMD_UPDATE:
			if (assigns_key(rte->relid, query->targetList))
				refuse(cxt, "shard key is changed");
			/* its rows are restricted like those of other tables */
			break;
		default:
			break;
	}
}

/* Routes sub-selects in expressions. */
static bool
route_sublinks_walker(Node *node, void *arg)
{
	SublinkContext *walk = arg;

	if (node == NULL || walk->cxt->reason != NULL)
		return false;
	if (IsA(node, SubLink))
	{
		SubLink    *sublink = (SubLink *) node;

		route_level(walk->cxt, shard_route_scope_collect(walk->level, castNode(Query, sublink->subselect),
														 walk->scope));
		return route_sublinks_walker(sublink->testexpr, arg);
	}
	if (IsA(node, Query))
		return false;
	return expression_tree_walker(node, route_sublinks_walker, arg);
}

/* Routes a sub-select in FROM.  If it is transparent, equalities of its columns hold inside of it, too. */
static void
route_subquery(RouteContext *cxt, ShardRouteLevel *level, int varno, ShardRouteLevel *sub)
{
	if (shard_route_scope_is_transparent(sub->query))
	{
		AttrNumber	attno = 0;

		foreach_node(TargetEntry, entry, sub->query->targetList)
		{
			ShardRouteTerm	column = {level, varno, ++attno, NULL};
			ShardRouteTerm	inner;

			if (!entry->resjunk && shard_route_scope_term(sub, (Node *) entry->expr, &inner) &&
				inner.level != NULL)
				shard_route_scope_add(sub->scope, inner, column, InvalidOid, InvalidOid);
		}
	}
	route_level(cxt, sub);
}

/* Finds the keys of all sharded tables in level and below. */
static void
route_level(RouteContext *cxt, ShardRouteLevel *level)
{
	Query	   *query = level->query;
	SublinkContext walk = {cxt, level, level->scope};

	check_stack_depth();
	if (cxt->reason != NULL)
		return;
	if (query->resultRelation > 0)
		route_target(cxt, level);
	for (int varno = 1; varno <= list_length(query->rtable) && cxt->reason == NULL; varno++)
	{
		RangeTblEntry *rte = rt_fetch(varno, query->rtable);

		if (rte->rtekind == RTE_SUBQUERY)
			route_subquery(cxt, level, varno,
						   level->subs[varno] ? level->subs[varno] :
						   shard_route_scope_collect(level, rte->subquery, level->scope));
		else if (rte->rtekind == RTE_RELATION && level->scopes[varno] != NULL &&
				 (query->commandType != CMD_MERGE || varno != query->resultRelation) &&
				 shard_map_get_levels(rte->relid, false) != NULL)
			route_table(cxt, level, varno, find_by_scope, NULL);
	}
	foreach_node(CommonTableExpr, cte, query->cteList)
		route_level(cxt, shard_route_scope_collect(level, castNode(Query, cte->ctequery), level->scope));
	if (query->hasSubLinks)
		query_tree_walker(query, route_sublinks_walker, &walk,
						  QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES | QTW_IGNORE_JOINALIASES);
}

/*
 * Does the statement read all rows of one table?  A scan fetches many rows by COPY, which is faster than the result
 * of a statement.
 */
static bool
reads_whole_table(const Query *query)
{
	return query->commandType == CMD_SELECT && query->rowMarks == NIL && query->cteList == NIL && query->setOperations == NULL &&
		!query->hasAggs && !query->hasWindowFuncs && !query->hasSubLinks && !query->hasTargetSRFs && query->distinctClause == NIL && query->groupClause == NIL && query->groupingSets == NIL &&
		query->limitCount == NULL && query->jointree->quals == NULL && list_length(query->jointree->fromlist) == 1 &&
		IsA(linitial(query->jointree->fromlist), RangeTblRef) &&
		rt_fetch(linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex, query->rtable)->rtekind == RTE_RELATION;
}

/* Is it INSERT ... VALUES, with one row or several rows? */
static bool
inserts_values(const Query *query)
{
	ListCell   *lc;

	if (query->commandType != CMD_INSERT || query->hasTargetSRFs)
		return false;
	foreach(lc, query->jointree->fromlist)
	{
		if (!IsA(lfirst(lc), RangeTblRef) ||
			rt_fetch(lfirst_node(RangeTblRef, lc)->rtindex, query->rtable)->rtekind != RTE_VALUES)
			return false;
	}
	return true;
}

PlannedStmt *
shard_router_plan(Query *query, ShardRouteOrigin *origin)
{
	RouteContext cxt = {0};
	ShardStatementPlan plan = {0};
	ShardWholeQuery *text = NULL;
	PlannedStmt *stmt;
	Oid			user;
	ListCell   *lc;
	ListCell   *lc2;

	route_level(&cxt, shard_route_scope_collect(NULL, query, NULL));
	if (cxt.reason == NULL && !OidIsValid(cxt.relid))
		refuse(&cxt, "no sharded table");
	if (cxt.reason == NULL && cxt.keys == NIL && reads_whole_table(query))
		refuse(&cxt, "all rows of a table are read");
	if (cxt.reason == NULL && !shard_statement_user(query, &user))
		refuse(&cxt, "tables belong to several users");
	if (cxt.reason == NULL)
		text = shard_whole_query_print(query, &cxt.reason);
	if (text == NULL)
	{
		ereport(DEBUG2,
				(errmsg_internal("statement is not run by one shard: %s", cxt.reason)));
		/* push.c has other reasons for other statements */
		if (query->commandType == CMD_MERGE || query->hasModifyingCTE)
			shard_refusal_of_router(cxt.reason);
		return NULL;
	}
	plan.inserts_key = cxt.inserts_key;
	plan.inserts_values = inserts_values(query);
	if (cxt.keys == NIL)
		plan.shards = list_make1_oid(shard_map_get(linitial_oid(text->relids))->shards[0].relid);
	stmt = shard_statement_make(query, text, &plan, cxt.keys);

	origin->sources = text->sources;
	origin->keys = NIL;
	forboth(lc, cxt.keys, lc2, plan.key_params)
	{
		if (lfirst_int(lc2) > list_length(origin->sources))
			origin->keys = lappend(origin->keys, lfirst(lc));
	}
	return stmt;
}
