/*
 * query_parts.h
 *	  Parts of a Query of the parser: its query levels, the conditions that an AND connects.
 */
#ifndef SHARDFDW_QUERY_PARTS_H
#define SHARDFDW_QUERY_PARTS_H

#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"

static inline bool
shard_query_levels_walker(Node *node, List **levels)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, shard_query_levels_walker, levels);
	*levels = lappend(*levels, node);
	return query_tree_walker((Query *) node, shard_query_levels_walker, levels, 0);
}

/*
 * query and all queries inside of it: sub-selects in FROM and in expressions, queries in WITH.  A query precedes those
 * inside of it.
 */
static inline List *
shard_query_levels(Query *query)
{
	List	   *levels = NIL;

	(void) shard_query_levels_walker((Node *) query, &levels);
	return levels;
}

/* The parts of an AND, also of ANDs inside of it; the condition itself if it is not an AND.  NIL for NULL. */
static inline List *
shard_query_conditions(Node *condition)
{
	List	   *parts = NIL;

	if (condition == NULL)
		return NIL;
	if (!is_andclause(condition))
		return list_make1(condition);
	foreach_ptr(Node, part, ((BoolExpr *) condition)->args)
		parts = list_concat(parts, shard_query_conditions(part));
	return parts;
}

#endif
