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
	SHARD_CORRELATED_VALUE,			/* a column of the one row there is */
	SHARD_CORRELATED_EXISTS			/* whether there are rows */
} ShardCorrelatedKind;

/* A sub-select taken apart; its pieces are the sub-select's own nodes, not copies. */
typedef struct ShardCorrelated
{
	ShardCorrelatedKind kind;
	List	   *clauses;		/* OpExprs: inner = outer, or outer = inner */
	List	   *inner_exprs;	/* their sides */
	List	   *inner_first;	/* IntList: is the inner side the left one? */
	List	   *others;			/* conditions without outer references */
	List	   *aggs;			/* distinct Aggrefs of the target; of a value: its max() and count(*) */
	Expr	   *target;
} ShardCorrelated;

/*
 * Splits a sub-select into its parts; false when it is not of a form that can become a
 * join.  conditional: it stands where it may never be evaluated, so nothing in it may
 * fail.  The caller zeroes *result, which is not valid when the function returns false.
 */
extern bool shard_correlated_take_apart(const SubLink *sublink, bool conditional,
										ShardCorrelated *result);

/* Is the aggregate 0 when there are no rows?  The others that are accepted are NULL then. */
extern bool shard_correlated_is_count(const Aggref *agg);

#endif
