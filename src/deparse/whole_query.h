/*
 * whole_query.h
 *	  Makes the text of a whole statement that nodes run as it stands.
 *
 * Statements come from the parser and the rewriter, not from the planner: their
 * range tables, sub-selects, CTEs, ON CONFLICT and RETURNING are core's Query,
 * and core's own pg_get_querydef() prints them.
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
	List	   *params;			/* of Expr, as executed: what the coordinator evaluates, once, for $1... */
	List	   *sources;		/* of Node: each of params as it stands in the query */
	List	   *assigned;		/* INSERT: IntList, for each entry of its target list the parameter that is its value, or 0 */
	List	   *outputs;		/* of ShardSelectOutput: its result columns; none without RETURNING */
	bool		text_columns;
} ShardWholeQuery;

/*
 * NULL when a node could run query with another result than the coordinator
 * would, or when something of it is not in its text (row security, check
 * options); *reason then says what (a message for DEBUG1, not translated).
 *
 * Looks at all levels: relations are sharded or reference tables (those only
 * read), functions, operators, types and collations mean the same on every node
 * (see shippable.h).  Expressions without columns that only the coordinator can evaluate
 * become parameters: stable functions anywhere, volatile ones where they are evaluated
 * exactly once (the columns of INSERT's rows).  NULL when the coordinator must handle
 * triggers, generated or identity columns of the target.
 *
 * The caller has to find out whether the statement is exact on the shards that it is
 * sent to.  query is not changed.  Memory: current context.
 */
extern ShardWholeQuery *shard_whole_query_print(Query *query, const char **reason);

/*
 * The same, with columns (of TargetEntry) before those that the statement returns, as they stand: they may be
 * what nobody checks here, such as system columns.  keep_constants: constants stay in the text.
 */
extern ShardWholeQuery *shard_whole_query_print_columns(Query *query, List *columns, bool keep_constants, const char **reason);

/* The same for a statement all of whose tables are foreign tables by themselves, of one server. */
extern ShardWholeQuery *shard_whole_query_print_single(Query *query, const char **reason);

#endif
