/*
 * system_row.h
 *	  Which column of a table an expression names, by way of sub-selects, and whether its rows are of one shard.
 */
#ifndef SHARDFDW_SYSTEM_ROW_H
#define SHARDFDW_SYSTEM_ROW_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* Of a level and those below; in system_row.c. */
typedef struct ShardRowOutputs ShardRowOutputs;

typedef struct ShardRowLevel
{
	struct ShardRowLevel *parent;
	const Query *query;
	int			depth;			/* 1 is the statement's */
	ShardRowOutputs *outputs;	/* what is known of results of sub-selects */
} ShardRowLevel;

/* Conditions of which all must hold. */
typedef struct ShardRowFrame
{
	struct ShardRowFrame *outer;
	ShardRowLevel *level;			/* in which they stand */
	const SubLink *sublink;		/* of whose test they are, so that Params are columns of its sub-select; or NULL */
	List	   *conditions;
} ShardRowFrame;

/* A column of a table, as an expression names it by way of sub-selects. */
typedef struct ShardRowColumn
{
	/* what the expression names: an entry of a level's range table, or (0) the result of a sub-select in an expression */
	ShardRowLevel *level;
	Index		varno;
	const SubLink *sublink;
	struct ShardRowColumn *inner;		/* the same column within the sub-select; NULL: the entry is the table */
	ShardRowFrame *inner_frame;	/* conditions there */

	/* the table */
	Oid			relid;
	AttrNumber	attno;
	const Query *table_query;	/* whose range table has it, as entry table_varno */
	Index		table_varno;
	bool		sharded;		/* it is a sharded table */
	bool		one_shard;		/* with one shard */
	bool		mixed;			/* the value is not, or not only, that of this row: UNION, a computed column */
} ShardRowColumn;

/* Where an expression stands. */
typedef struct ShardRowScope
{
	ShardRowLevel *level;
	ShardRowFrame *frame;
	const Query *conflict;		/* in ON CONFLICT of this one; or NULL */
} ShardRowScope;

/* The level of query, which stands in parent (NULL: query is the statement). */
extern ShardRowLevel *shard_system_row_level(ShardRowLevel *parent, const Query *query);

/* The conditions that an AND consists of, or the one that there is. */
extern List *shard_system_row_parts(Node *condition);

/* What must hold for every row of a FROM item: the conditions of inner joins. */
extern List *shard_system_row_conditions(Node *from);

/* The expression below casts, and what else only converts one value. */
extern const Node *shard_system_row_without_casts(const Node *expr);

/* The map of entry varno of query's range table, if that is a sharded table; else NULL. */
extern const ShardMap *shard_system_row_map(const Query *query, Index varno);

/* The column that expr names, as it is, cast, or aggregated by min() and the like.  False: none. */
extern bool shard_system_row_resolve(const ShardRowScope *scope, const Node *expr, ShardRowColumn *column);

/* Column attno of the result of query, a sub-select in level.  attno 0: the first system column that there is. */
extern bool shard_system_row_resolve_output(ShardRowLevel *level, const Query *query, AttrNumber attno, ShardRowColumn *column);

/* Does every row of the set operation part, of level, that has a system column have its tableoid as column attno, too? */
extern bool shard_system_row_is_told(ShardRowLevel *level, const Node *part, AttrNumber attno);

/* Which conditions of a scope say that rows are of one shard. */
typedef enum ShardRowPins
{
	SHARD_ROW_PINS_NONE,
	SHARD_ROW_PINS_CONSTANT,	/* that with a value, which is the same for all rows */
	SHARD_ROW_PINS_ANY			/* also that with columns of other tables: of one shard for each row of these */
} ShardRowPins;

/* Are the rows of which use is a column of one shard, by the conditions of the scope or by exprs, what else is compared with it? */
extern bool shard_system_row_is_one_shard(const ShardRowScope *scope, const ShardRowColumn *use, List *exprs, ShardRowPins pins);

/* Are the rows of both of one shard, the same one?  left, right: what is compared with each other at the same time. */
extern bool shard_system_row_is_same_shard(const ShardRowScope *scope, const ShardRowColumn *a, const ShardRowColumn *b,
										   List *left, List *right);

#endif
