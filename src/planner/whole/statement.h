/*
 * statement.h
 *	  Plans of statements that nodes run as they stand, tried in this order
 *	  before core's planner sees the statement:
 *
 *	   router	all its tables prune to one shard group by the shard key
 *	   take		it takes rows of one table as jobs from a queue, over all shards
 *	   push		it is exact group by group, and goes to all live groups at once
 *	   source	rows computed here (VALUES, SELECT) are routed to their groups, which
 *				run INSERT ... ON CONFLICT or MERGE over them
 *	   single	its tables are not sharded, but foreign tables of one server
 *
 * Each returns NULL when the statement is not of its kind; then the next one,
 * and at last core's planner, plans it. query is not changed in that case.
 * query_string is what query's stmt_location and stmt_len are places in.
 */
#ifndef SHARDFDW_STATEMENT_H
#define SHARDFDW_STATEMENT_H

#include "postgres.h"

#include "deparse/whole_query.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "plan/plan_private.h"

/* Where the parameters of a routed statement's plan come from. */
typedef struct ShardRouteOrigin
{
	List	   *sources;		/* of Node: the first parameters are these expressions of the statement's text */
	List	   *keys;			/* of Node: the other parameters are these values of the shard key, as in the query */
} ShardRouteOrigin;

/* *origin: filled in when there is a plan. */
extern PlannedStmt *shard_router_plan(Query *query, int cursor_options, ParamListInfo params,
									  ShardRouteOrigin *origin);
extern PlannedStmt *shard_take_plan(Query *query, int cursor_options, ShardRouteOrigin *origin);
extern PlannedStmt *shard_push_plan(Query *query, const char *query_string, int cursor_options,
									ParamListInfo params);
extern PlannedStmt *shard_source_plan(Query *query, const char *query_string, int cursor_options,
									  ParamListInfo params);
extern PlannedStmt *shard_single_plan(Query *query, int cursor_options, ParamListInfo params);

/*
 * The PlannedStmt of a statement whose plan is one CustomScan named
 * SHARD_STATEMENT_NAME. It keeps the range table entries (permission infos from
 * 16 on) of every level of query, since permissions and locks follow them, and
 * is invalidated by changes of the shards.
 *
 * plan: operation, set_processed, returns_rows, on_writer, check_as_user and all
 * that text says (relids, template, outputs) are filled in here; the caller sets
 * all_shards, shards, inserts_key.  keys: for each column of the shard key the
 * expression that is its value, of the query or equal to one there; or NIL.
 */
extern PlannedStmt *shard_statement_make(Query *query, const ShardWholeQuery *text,
										 ShardStatementPlan *plan, List *keys);

/*
 * The same of a plan that is another CustomScan, named name: over exprs, returning rows or not, and depending on the shards
 * of the tables relids.
 */
extern PlannedStmt *shard_statement_make_scan(Query *query, const char *name, List *exprs, List *custom_private,
											  bool returns_rows, List *relids);

/*
 * Makes changes of the domains that check query's values invalidate stmt: which domains
 * have constraints, and where these are checked, is part of the plan.
 */
extern void shard_statement_add_domains(PlannedStmt *stmt, Query *query);

/* User whose rights and mappings all tables of text are used with; 0 is the current one.  False when they differ. */
extern bool shard_statement_user(Query *query, Oid *check_as_user);

#endif
