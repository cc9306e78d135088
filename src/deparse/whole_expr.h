/*
 * whole_expr.h
 *	  Expressions of a whole statement, as the parser made them, in the form in
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
	bool		keep_constants; /* they have to stand in the text */
	bool		checks_domains; /* of the columns of this level's target: their nodes may not do it */
	bool		checks_values;	/* so of values before the statement begins: none of it can be done here */
	bool		casts_styled;	/* some text is made in the user's styles of dates, intervals or floats */
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
 * node as it will be printed; cxt->reason is set when it cannot be shipped.
 * What only the coordinator can tell, and constants, become parameters.
 */
extern Node *shard_whole_expr(Node *node, ShardWholeContext *cxt);

/* The same for an expression that is assigned to a column as a whole. */
extern Node *shard_whole_assigned(Node *node, ShardWholeContext *cxt);

/* Are these clauses' operators the same on every node?  order: they sort, over target list tlist. */
extern void shard_whole_clauses(List *clauses, List *tlist, bool order, ShardWholeContext *cxt);

#endif
