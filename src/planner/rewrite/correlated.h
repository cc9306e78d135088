/*
 * correlated.h
 *	  A correlated sub-select, split into its parts.
 */
#ifndef SHARDFDW_CORRELATED_H
#define SHARDFDW_CORRELATED_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

typedef enum ShardCorrelatedKind
{
	SHARD_CORRELATED_AGGREGATE,		/* an expression over aggregates */
	SHARD_CORRELATED_VALUE,			/* a column of the only row */
	SHARD_CORRELATED_EXISTS			/* whether there are rows */
} ShardCorrelatedKind;

/* The parts point to the nodes of the sub-select, not to copies. */
typedef struct ShardCorrelated
{
	ShardCorrelatedKind kind;
	List	   *clauses;		/* OpExprs: inner = outer, or outer = inner */
	List	   *inner_exprs;	/* the inner sides of the clauses */
	List	   *inner_first;	/* IntList: is the inner side the left one? */
	List	   *others;			/* conditions without outer references */
	List	   *aggs;			/* distinct Aggrefs of the target; for a value: its max() and count(*) */
	Expr	   *target;
} ShardCorrelated;

/*
 * Splits a sub-select into its parts.  Returns false if the sub-select cannot become a join. conditional: the
 * sub-select may never be evaluated, so nothing in it may raise an error.  The caller zeroes *result, which is
 * undefined if the function returns false.
 */
extern bool shard_correlated_take_apart(const SubLink *sublink, bool conditional,
										ShardCorrelated *result);

/*
 * Has a level, or a sub-select in its FROM or WITH, which core may pull up, a FULL JOIN?  Core can plan a FULL JOIN
 * only with conditions that can be merged or hashed.  It does not notice another one if a WHERE condition reduces it to
 * another join type, which may be the condition that is taken out, or if WHERE is constant false, which does not hold
 * with another join above it.  This function does not test whether WHERE is false, because evaluating constants may
 * raise errors in levels that are never planned.
 */
extern bool shard_correlated_has_full_join(const Query *query);

/* Is the aggregate 0 for no rows?  All other accepted aggregates are NULL for no rows. */
extern bool shard_correlated_is_count(const Aggref *agg);

#endif
