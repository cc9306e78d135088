/*
 * route_scope.h
 *	  Equalities of a statement, and the scopes in which they hold.
 */
#ifndef SHARDFDW_ROUTE_SCOPE_H
#define SHARDFDW_ROUTE_SCOPE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "partitioning/partdefs.h"

/* A query level, and the scopes of its FROM items. */
typedef struct ShardRouteLevel
{
	struct ShardRouteLevel *parent;
	Query	   *query;
	struct ShardRouteScope *scope; /* of the level as a whole */
	struct ShardRouteScope **scopes; /* of each range table entry; NULL: that of the level */
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

/* Equalities that hold together, and together with those of the outer scopes. */
typedef struct ShardRouteScope
{
	struct ShardRouteScope *outer;
	List	   *equalities;		/* list of RouteEquality, private to route_scope.c */
} ShardRouteScope;

/* Makes a level with its scopes.  Conditions outside of the level are in outer. */
extern ShardRouteLevel *shard_route_scope_collect(ShardRouteLevel *parent, Query *query,
												  ShardRouteScope *outer);

/*
 * Sets *term to what node, an expression of level, stands for: a column at its origin, or a value.  False if it is
 * neither.
 */
extern bool shard_route_scope_term(ShardRouteLevel *level, Node *node, ShardRouteTerm *term);

/* Adds to scope that left equals right, by operator opno.  InvalidOid: both are the same value. */
extern void shard_route_scope_add(ShardRouteScope *scope, ShardRouteTerm left, ShardRouteTerm right,
								  Oid opno, Oid collation);

/* A value that start, a column, equals in scope by the equality of key column keyno; or NULL. */
extern Node *shard_route_scope_find_value(const ShardRouteScope *scope, ShardRouteTerm start,
										  PartitionKey key, int keyno);

/* Can conditions on the sub-select's columns be checked on its input rows? */
extern bool shard_route_scope_is_transparent(const Query *query);

/* Can the coordinator compute node as a single value, without columns? */
extern bool shard_route_scope_is_value(Node *node);

/* Are these surely the same values?  Integers may be of different types. */
extern bool shard_route_scope_same_value(Node *a, Node *b);

#endif
