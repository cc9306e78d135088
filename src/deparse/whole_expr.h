/*
 * whole_expr.h
 *	  Converts expressions of a whole statement, as the parser made them, to the form in
 *	  which nodes evaluate them.
 */
#ifndef SHARDFDW_WHOLE_EXPR_H
#define SHARDFDW_WHOLE_EXPR_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

typedef struct ShardWholeContext
{
	List	   *params;			/* see ShardWholeQuery */
	List	   *sources;
	const char *reason;			/* why the statement cannot be shipped; NULL: it can, so far */
	bool		conditional;	/* inside a construct that may skip evaluation */
	bool		once;			/* the expression is evaluated exactly once: volatile functions are, too */
	bool		no_params;		/* inside an expression of which nodes evaluate all parts */
	bool		keep_constants; /* constants have to stand in the text */
	bool		checks_domains; /* the text has to check domains of the target's columns: nodes may not */
	bool		checks_values;	/* such a check must be made before the statement begins */
	bool		casts_styled;	/* some text is made in the user's styles of dates, intervals or floats */
	bool		system_columns; /* some are named */
	bool		compares;		/* GROUP BY and the like: equal expressions must have the same text */

	/* a sub-select in an expression; converts it in place */
	void		(*convert_query) (Query *query, struct ShardWholeContext *cxt);
} ShardWholeContext;

/* Notes why the statement cannot be shipped; the first reason stays. */
static inline void
shard_whole_refuse(ShardWholeContext *cxt, const char *reason)
{
	if (cxt->reason == NULL)
		cxt->reason = reason;
}

/*
 * Returns node as it will be printed; cxt->reason is set when it cannot be shipped.
 * Constants, and parts that only the coordinator can evaluate, become parameters.
 */
extern Node *shard_whole_expr(Node *node, ShardWholeContext *cxt);

/* The same for an expression that is assigned to a column as a whole. */
extern Node *shard_whole_assigned(Node *node, ShardWholeContext *cxt);

/* Are these clauses' operators the same on every node?  order: they sort, over target list tlist. */
extern void shard_whole_clauses(List *clauses, List *tlist, bool order, ShardWholeContext *cxt);

#endif
