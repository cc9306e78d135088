/*
 * route_scope.h
 *	  Equalities of a statement, by where they hold.
 */
#ifndef SHARDFDW_ROUTE_SCOPE_H
#define SHARDFDW_ROUTE_SCOPE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "partitioning/partdefs.h"

/* A query level, and where its FROM items stand. */
typedef struct ShardRouteLevel
{
	struct ShardRouteLevel *parent;
	Query	   *query;
	struct ShardRouteScope *scope; /* of the level as a whole */
	struct ShardRouteScope **scopes; /* of each range table entry; NULL: the level's */
	struct ShardRouteLevel **subs;	/* of each sub-select in FROM that was collected */
} ShardRouteLevel;

/* A column of a level's FROM item, or a value (level NULL). */
typedef struct ShardRouteTerm
{
	ShardRouteLevel *level;
	int			varno;
	AttrNumber	attno;
	Node	   *value;
} ShardRouteTerm;

/* Equalities that hold together, with those of the scopes outside. */
typedef struct ShardRouteScope
{
	struct ShardRouteScope *outer;
	List	   *equalities;		/* of RouteEquality, private to route_scope.c */
} ShardRouteScope;

/* A level with its scopes; conditions outside of it are in outer. */
extern ShardRouteLevel *shard_route_scope_collect(ShardRouteLevel *parent, Query *query,
												  ShardRouteScope *outer);

/*
 * What node, an expression of level, is: a column, where its name comes from, or
 * a value.  False when neither.
 */
extern bool shard_route_scope_term(ShardRouteLevel *level, Node *node, ShardRouteTerm *term);

/* In scope left equals right, by operator opno; InvalidOid: they are the same thing. */
extern void shard_route_scope_add(ShardRouteScope *scope, ShardRouteTerm left, ShardRouteTerm right,
								  Oid opno, Oid collation);

/* A value that start, a column of the key's kind, is equal to wherever scope holds; or NULL. */
extern Node *shard_route_scope_find_value(const ShardRouteScope *scope, ShardRouteTerm start,
										  PartitionKey key, int keyno);

/* Do conditions on the sub-select's columns hold for its own rows before anything is made of them? */
extern bool shard_route_scope_is_transparent(const Query *query);

/* Can the coordinator compute node, one value, without any column? */
extern bool shard_route_scope_is_value(Node *node);

/* Are these surely the same values?  Numbers may be of different integer types. */
extern bool shard_route_scope_same_value(Node *a, Node *b);

#endif
