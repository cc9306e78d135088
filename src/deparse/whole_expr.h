/*
 * whole_expr.h
 *	  Converts expressions of a whole statement, as made by the parser, to the form in which nodes evaluate them.
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
	bool		once;			/* the expression is evaluated exactly once, so volatile functions are allowed */
	bool		no_params;		/* inside an expression of which nodes evaluate all parts */
	bool		keep_constants; /* constants have to stay in the text */
	bool		checks_domains; /* the text has to check the domains of the target's columns, because nodes may not
								 * check them */
	bool		checks_values;	/* such a check must be made before the statement begins */
	bool		casts_styled;	/* some text is made in the user's style of dates, intervals or floats */
	bool		system_columns; /* the statement uses system columns */
	bool		compares;		/* GROUP BY and similar: equal expressions must have the same text */

	/* converts a sub-select in an expression in place */
	void		(*convert_query) (Query *query, struct ShardWholeContext *cxt);
} ShardWholeContext;

/* Records why the statement cannot be shipped; the first reason is kept. */
static inline void
shard_whole_refuse(ShardWholeContext *cxt, const char *reason)
{
	if (cxt->reason == NULL)
		cxt->reason = reason;
}

/*
 * Returns node as it will be printed.  Sets cxt->reason if it cannot be shipped.  Constants, and parts that only the
 * coordinator can evaluate, become parameters.
 */
extern Node *shard_whole_expr(Node *node, ShardWholeContext *cxt);

/* The same for an expression that is assigned to a whole column. */
extern Node *shard_whole_assigned(Node *node, ShardWholeContext *cxt);

/* Checks that the operators of these clauses are the same on every node. order: they sort, over target list tlist. */
extern void shard_whole_clauses(List *clauses, List *tlist, bool order, ShardWholeContext *cxt);

#endif
