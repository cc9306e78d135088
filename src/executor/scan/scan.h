/*
 * scan.h
 *	  The state of a shard scan, shared by the scan itself, its async mode and
 *	  EXPLAIN.
 */
#ifndef SHARDFDW_SCAN_H
#define SHARDFDW_SCAN_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/scan/key_split.h"
#include "executor/scan/param.h"
#include "nodes/bitmapset.h"
#include "nodes/execnodes.h"
#include "plan/plan_private.h"
#include "portability/instr_time.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"

/* One open stream and what it reads. */
typedef struct ShardScanSource
{
	int			nodeno;			/* into maps[0]->nodes */
	int			shardno;		/* into maps[0]->shards; of several the first */
	StringInfoData sql;			/* its remote SQL */
	instr_time	opened;			/* when figures are wanted */
	bool		has_rows;		/* the first one has come */
	double		first_ms;		/* time from opened to that */
	bool		counted;		/* is in figures */
	const char *cursor;			/* on the node, of a scan that reads in batches; NULL: none */
	ShardTxnLevel *cursor_level;	/* undone: it has gone with the savepoint in which it was made */
	bool		cursor_made;	/* the node has been asked to make it */
	int			batch;			/* rows of the current one */
} ShardScanSource;

/* What the queries that begin with one shard have returned: sums over them. */
typedef struct ShardScanFigures
{
	uint64		nqueries;
	uint64		rows;
	uint64		bytes;
	double		first_ms;		/* to the first row, or to the end when there was none */
	double		total_ms;		/* to the end */
} ShardScanFigures;

/* A node's live shards that are still to be opened. */
typedef struct ShardScanNode
{
	int			nlive;			/* live shards there */
	int			nopened;		/* of them opened so far in this scan */
	int			per_statement;	/* shards that one statement reads */
	bool		waits;			/* for other nodes of its machine to finish */
	int		   *shardnos;		/* nlive of them */
} ShardScanNode;

typedef struct ShardMerge ShardMerge;

/* Which shards one run reads, for callers that do not need all of them at once. */
typedef enum ShardScanPart
{
	SHARD_SCAN_ALL,
	SHARD_SCAN_FIRST,			/* shard_scan_first_shards() */
	SHARD_SCAN_OTHERS
} ShardScanPart;

typedef struct ShardScanState
{
	ShardScanPlan *plan;
	ShardParams *params;
	int			nmaps;
	const ShardMap **maps;		/* one per table of plan->relids */
	List	   *rels;			/* these tables, open: this session must not change their definitions meanwhile */
	Oid			userid;			/* whose user mappings are used */
	ShardTxnLevel *level;		/* in which it began */
	const ShardStreamView *view;	/* of its statement; NULL: it locks rows and the statement writes none */

	/* shardnos of maps[0] that have to be read */
	Bitmapset  *planned;		/* by plan-time pruning */
	Bitmapset  *live;			/* by parameters as well; == planned until they are known */
	bool		prune_each_start;	/* conditions need values of the executor */
	ShardKeySplit *split;		/* NULL when all shards get the same values */
	Bitmapset  *unsplit;		/* live before the values of one execution have removed shards */
	Bitmapset  *first_shards;	/* see shard_scan_first_shards(); NULL until asked for */
	ShardScanPart part;			/* of live, which the next run reads */

	ShardStreamLimit *limit;	/* rows of all runs; NULL: none */
	ShardSnapshot *snapshot;	/* NULL under plain EXPLAIN */
	ShardDecoder *decoder;
	int			max_streams;	/* of a node, where all have to be open at once */
	ShardMerge *merge;			/* of a scan whose rows are in an order; NULL until needed */

	/* one execution of the remote query; everything below is in run_cxt */
	MemoryContext run_cxt;
	bool		running;
	Bitmapset  *turn;			/* shards of live that are read now: all, or those of some partitions */
	Bitmapset  *later;			/* those of the partitions that follow */
	int			turn_parts;		/* partitions of the present turn */
	ShardScanNode *nodes;		/* maps[0]->nnodes */
	bool		takes_turns;	/* nodes of one machine may have to wait for each other */
	int			nwaiting;		/* nodes that do */
	int			nsources;		/* open streams */
	int			current;		/* the one rows are taken from */
	bool		merging;		/* streams keep their numbers, and are NULL when they have ended */
	ShardStream **streams;		/* nsources */
	ShardScanSource *sources;	/* nsources */
	const char *const *param_values;
	const char *const *split_values;	/* by shardno: of parameter split->paramno; or NULL */
	bool		may_copy;
	bool		use_copy;		/* for every statement; else where the node runs it within a transaction */
	ShardWaitSet *wait_set;

	/* async Append: set by the async callbacks, read by shardIterateForeignScan */
	bool		async_mode;		/* return an empty slot instead of waiting */
	bool		would_wait;		/* it did, because nothing is here yet */
	bool		siblings_known; /* the next is set */
	bool		siblings_ours;	/* Append's other asynchronous children are scans of ours too */

	/* for EXPLAIN ANALYZE: of streams that were closed */
	uint64		rows;
	uint64		bytes;
	int			nconns;
	int			maxconns;
	const void **conns;			/* distinct connections */
	ShardScanFigures *figures;	/* maps[0]->nshards; NULL when nobody wants to know */
} ShardScanState;

/*
 * Opens the tables of a plan, and the reference tables of its statement, which are locked
 * already, for as long as it runs: the session's own DDL finds them in use.  Memory: current context.
 */
extern List *shard_scan_open_rels(const EState *estate, List *relids);
extern void shard_scan_close_rels(List *rels);

/*
 * About a quarter of the planned shards, with some of each node; NULL when that would
 * be all of them.  The same at each call.  Memory: the query's.
 */
extern const Bitmapset *shard_scan_first_shards(ForeignScanState *node);

/*
 * Do all runs of the scan see the same rows of a node?  They do not on a connection
 * that writes, and the answer may change from one run to the next.  others_run: other
 * statements of the transaction may run before the last of these runs, in functions or
 * between two rows of a cursor.  At REPEATABLE READ they would write on the connection
 * that reads.
 */
extern bool shard_scan_sees_one_moment(const ForeignScanState *node, bool others_run);

/* Which shards are read from the next start of the scan on.  It must not be running. */
extern void shard_scan_set_part(ForeignScanState *node, ShardScanPart part);

/* Evaluates the parameters, and sets state->live to the shards that can have rows for them. */
extern void shard_scan_bind(ForeignScanState *node);

/* Opens the streams; nothing when they are open. Never blocks. */
extern void shard_scan_start(ForeignScanState *node);

/* Closes all streams.  The scan gives no more rows until it is rescanned. */
extern void shard_scan_close_streams(ForeignScanState *node);

/* ---- scan_source.c ---- */

/* Turns row, which came from source i, into slot's row.  Memory: by-reference values in cxt. */
extern void shard_scan_store_row(ForeignScanState *node, int i, const ShardRow *row,
								 TupleTableSlot *slot, MemoryContext cxt);

/* Closes source i's stream and keeps its numbers. */
extern void shard_scan_close_stream(ForeignScanState *node, int i);

/* Adds what source i has brought to the figures, which are wanted, when it ends; once. */
extern void shard_scan_count_source(ShardScanState *state, int i);

/* Adds what open streams have received to the counters, closes nothing. */
extern void shard_scan_totals(const ShardScanState *state, uint64 *rows, uint64 *bytes, int *nconns);

/* ---- scan_sql.c, merge.c ---- */

/* The parameters' values for the query of one shard. Memory: current context. */
extern const char *const *shard_scan_values(const ShardScanState *state, int shardno);

/* Appends the statement that reads these shards of one node; parameters as $n or literals. */
extern void shard_scan_sql(const ShardScanState *state, const int *shardnos, int nshards,
						   bool literals, StringInfo buf);

/*
 * The next row in the scan's order, empty at the end.  The slot belongs
 * to the scan; its row is valid until the next call.
 */
extern TupleTableSlot *shard_merge_next(ForeignScanState *node);

/* Forgets the rows at hand: the streams are closed, or about to be. */
extern void shard_merge_reset(ShardMerge *merge);

/* ---- scan_cursor.c ---- */

/* spec's query, which has no parameters, becomes a cursor of source, and spec its first batch. */
extern void shard_scan_cursor_declare(ShardScanState *state, ShardScanSource *source, ShardStreamSpec *spec);

/* Opens the next batch of source i, whose stream has ended, in its place.  False: that was the last one, or there is no cursor. */
extern bool shard_scan_cursor_next(ForeignScanState *node, int i);

/* Closes all cursors of this run, whose streams are closed, unless they end with the transaction at once. */
extern void shard_scan_cursor_close_all(ForeignScanState *node);

#endif
