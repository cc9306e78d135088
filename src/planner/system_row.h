/*
 * system_row.h
 *	  Finds the table column that an expression stands for, through sub-selects, and decides whether its rows are
 *	  on one shard.
 */
#ifndef SHARDFDW_SYSTEM_ROW_H
#define SHARDFDW_SYSTEM_ROW_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* Cached results for a level and the levels below; private to system_row.c. */
typedef struct ShardRowOutputs ShardRowOutputs;

typedef struct ShardRowLevel
{
	struct ShardRowLevel *parent;
	const Query *query;
	int			depth;			/* 1 for the statement */
	ShardRowOutputs *outputs;	/* cached results for columns of sub-selects */
} ShardRowLevel;

/* Conditions that must all hold. */
typedef struct ShardRowFrame
{
	struct ShardRowFrame *outer;
	ShardRowLevel *level;			/* the level of the conditions */
	const SubLink *sublink;		/* the SubLink whose test has the conditions (Params are columns of its
								 * sub-select), or NULL */
	List	   *conditions;
} ShardRowFrame;

/* A table column whose value an expression has, possibly through sub-selects. */
typedef struct ShardRowColumn
{
	/*
	 * what the expression names: a range table entry of a level, or (varno 0) the result of a sub-select in an
	 * expression
	 */
	ShardRowLevel *level;
	Index		varno;
	const SubLink *sublink;
	struct ShardRowColumn *inner;		/* the same column inside of the sub-select; NULL: the entry is the table */
	ShardRowFrame *inner_frame;	/* conditions inside of the sub-select */

	/* the table */
	Oid			relid;
	AttrNumber	attno;
	const Query *table_query;	/* query whose range table has the table, as entry table_varno */
	Index		table_varno;
	bool		sharded;		/* the table is sharded */
	bool		one_shard;		/* the table has one shard */
	bool		is_ctid;		/* the value may come from a ctid */
	bool		is_version;		/* the value may come from an xmin, xmax, cmin or cmax */
	bool		mixed;			/* the value may come from other rows or tables, too: UNION, a computed column */
} ShardRowColumn;

/* The position of an expression. */
typedef struct ShardRowScope
{
	ShardRowLevel *level;
	ShardRowFrame *frame;
	const Query *conflict;		/* the query whose ON CONFLICT clause has the expression, or NULL */
} ShardRowScope;

/* The level of query, which is in parent (NULL: query is the statement). */
extern ShardRowLevel *shard_system_row_level(ShardRowLevel *parent, const Query *query);

/* Conditions that hold for every row of a FROM item: those of inner joins. */
extern List *shard_system_row_conditions(Node *from);

/* The expression below casts and other conversions of a single value. */
extern const Node *shard_system_row_without_casts(const Node *expr);

/* The map of entry varno of query's range table if it is a sharded table, otherwise NULL. */
extern const ShardMap *shard_system_row_map(const Query *query, Index varno);

/* The column that expr stands for, possibly below a cast, min() or a similar aggregate.  False if there is none. */
extern bool shard_system_row_resolve(const ShardRowScope *scope, const Node *expr, ShardRowColumn *column);

/* Column attno of the result of query, a sub-select at level. attno 0: the system columns of the result. */
extern bool shard_system_row_resolve_output(ShardRowLevel *level, const Query *query, AttrNumber attno, ShardRowColumn *column);

/* In each row of the set operation part that has a system column: is the tableoid of that row in column attno? */
extern bool shard_system_row_is_told(ShardRowLevel *level, const Node *part, AttrNumber attno);

/* The conditions of a scope that may prove that rows are on one shard. */
typedef enum ShardRowPins
{
	SHARD_ROW_PINS_NONE,
	SHARD_ROW_PINS_CONSTANT,	/* equality with a value that is the same for all rows */
	SHARD_ROW_PINS_ANY			/* also equality with columns of other tables: on one shard for each row of those
								 * tables */
} ShardRowPins;

/*
 * Are the rows of use on one shard, by the conditions of the scope or by exprs, which are compared together with use?
 */
extern bool shard_system_row_is_one_shard(const ShardRowScope *scope, const ShardRowColumn *use, List *exprs, ShardRowPins pins);

/* Are the rows of both on the same shard? left, right: values that the same row comparison compares. */
extern bool shard_system_row_is_same_shard(const ShardRowScope *scope, const ShardRowColumn *a, const ShardRowColumn *b,
										   List *left, List *right);

#endif
