/*
 * statement.h
 *	  Plans of statements that nodes run unchanged.  They are tried in this order before core's planner:
 *
 *	   router	all its tables prune to one shard group by the shard key
 *	   queue	it takes rows of one table as jobs from a queue, over all shards
 *	   push		it is exact group by group, and runs on all live groups in parallel
 *	   source	rows that the coordinator computes (VALUES, SELECT) are routed to their groups,
 *				which run INSERT ... ON CONFLICT or MERGE over them
 *	   single	its tables are not sharded, but foreign tables of one server
 *
 * A shard group is a set of colocated shards.  Each function returns NULL if it cannot plan the statement.  Then the
 * next function, and finally core's planner, plans it. query is not changed in that case. stmt_location and stmt_len
 * of query are positions in query_string.
 */
#ifndef SHARDFDW_STATEMENT_H
#define SHARDFDW_STATEMENT_H

#include "postgres.h"

#include "deparse/whole_query.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "plan/plan_private.h"

/* The origin of the parameters of a routed statement's plan. */
typedef struct ShardRouteOrigin
{
	List	   *sources;		/* list of Node: the first parameters are these expressions of the statement's text */
	List	   *keys;			/* list of Node: the other parameters are these values of the shard key, as in the
								 * query */
} ShardRouteOrigin;

/* *origin: set if there is a plan. */
extern PlannedStmt *shard_router_plan(Query *query, ShardRouteOrigin *origin);
extern PlannedStmt *shard_queue_plan(Query *query, ShardRouteOrigin *origin);
extern PlannedStmt *shard_push_plan(Query *query, const char *query_string, int cursor_options,
									ParamListInfo params);
extern PlannedStmt *shard_source_plan(Query *query, const char *query_string, int cursor_options,
									  ParamListInfo params);
extern PlannedStmt *shard_single_plan(Query *query, int cursor_options);

/*
 * The PlannedStmt of a statement whose plan is one CustomScan named SHARD_STATEMENT_NAME.  It keeps the range table
 * entries (permission infos from 16 on) of every level of query, for permissions and locks.  Changes of the shards
 * invalidate it.
 *
 * This function sets operation, set_processed, returns_rows, on_writer and check_as_user of plan, and the fields that
 * follow from text (relids, template, outputs).  The caller sets all_shards, shards and inserts_key. keys: for each
 * column of the shard key the expression that is its value, or NIL.  The expression is part of the query or equal to
 * such a part.
 */
extern PlannedStmt *shard_statement_make(Query *query, const ShardWholeQuery *text,
										 ShardStatementPlan *plan, List *keys);

/*
 * Makes the PlannedStmt for another CustomScan, called name, over exprs.  The plan depends on the shards of the
 * tables relids.
 */
extern PlannedStmt *shard_statement_make_scan(Query *query, const char *name, List *exprs, List *custom_private,
											  bool returns_rows, List *relids);

/*
 * Makes stmt depend on the domains that check values of query.  The plan relies on which domains have constraints,
 * and on where these are checked.
 */
extern void shard_statement_add_domains(PlannedStmt *stmt, Query *query);

/*
 * The user whose privileges and user mappings are used for all tables of query; 0 is the current user.  False if the
 * users differ.
 */
extern bool shard_statement_user(Query *query, Oid *check_as_user);

#endif
