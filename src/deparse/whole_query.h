/*
 * whole_query.h
 *	  Makes the text of a whole statement that nodes run unchanged.
 *
 * Statements come from the parser and the rewriter, not from the planner.  Their range tables, sub-selects, CTEs, ON
 * CONFLICT and RETURNING are core's Query, and core's pg_get_querydef() prints them.
 */
#ifndef SHARDFDW_WHOLE_QUERY_H
#define SHARDFDW_WHOLE_QUERY_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/* The text of a statement, its parameters and result columns. */
typedef struct ShardWholeQuery
{
	List	   *template;		/* ShardTemplate (plan/plan_private.h), places in the order of relids */
	List	   *relids;			/* OidList: sharded tables, one for each range table entry */
	List	   *params;			/* list of Expr, as executed: evaluated once by the coordinator, for $1... */
	List	   *sources;		/* list of Node: each of params as it is in the query */
	List	   *assigned;		/* INSERT: IntList, for each entry of its target list the parameter that is its
								 * value, or 0 */
	List	   *outputs;		/* list of ShardOutput: its result columns; NIL without RETURNING */
} ShardWholeQuery;

/*
 * Returns NULL if the result of query might differ between a node and the coordinator, or if its text would lack a part
 * of query (row security, check options).  Then *reason is set (a message for DEBUG1, not translated).
 *
 * Checks all levels.  Relations must be sharded tables, or reference tables that are only read.  Functions, operators,
 * types and collations must mean the same on every node (see shippable.h).  Expressions without columns that only the
 * coordinator can evaluate become parameters.  Stable functions may be anywhere in such an expression.  Volatile
 * functions are allowed only where they are evaluated exactly once (the columns of INSERT's rows).  Returns NULL if the
 * coordinator must handle triggers, generated or identity columns of the target.
 *
 * The caller has to decide whether the statement is exact on the shards to which it is sent. query is not changed.
 * Memory: current context.
 */
extern ShardWholeQuery *shard_whole_query_print(Query *query, const char **reason);

/*
 * The same, with columns (of TargetEntry) before the result columns.  These columns are not checked, so they may be
 * system columns. keep_constants: constants stay in the text.
 */
extern ShardWholeQuery *shard_whole_query_print_columns(Query *query, List *columns, bool keep_constants, const char **reason);

/* The same for a statement whose tables are all single foreign tables of one server. */
extern ShardWholeQuery *shard_whole_query_print_single(Query *query, const char **reason);

#endif
