/*
 * scan.h
 *	  The state of a shard scan, shared by the scan, its asynchronous mode and EXPLAIN.
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

/* One open stream. */
typedef struct ShardScanSource
{
	int			nodeno;			/* index in maps[0]->nodes */
	int			shardno;		/* index in maps[0]->shards; of several the first one */
	StringInfoData sql;			/* its remote SQL */
	instr_time	opened;			/* if figures are collected */
	bool		has_rows;		/* the first row has arrived */
	double		first_ms;		/* time from opened to the first row */
	bool		counted;		/* included in figures */
	const char *cursor;			/* cursor on the node, for a scan that reads in batches; NULL: none */
	ShardTxnLevel *cursor_level;	/* undone: the rollback of a savepoint has removed the cursor */
	bool		cursor_made;	/* the command to declare it was sent */
	int			batch;			/* number of rows of the current batch */
} ShardScanSource;

/* Sums over the queries that begin with one shard. */
typedef struct ShardScanFigures
{
	uint64		nqueries;
	uint64		rows;
	uint64		bytes;
	double		first_ms;		/* to the first row, or to the end if there was none */
	double		total_ms;		/* to the end */
} ShardScanFigures;

/* A node's live shards that are not opened yet. */
typedef struct ShardScanNode
{
	int			nlive;			/* live shards there */
	int			nopened;		/* number of these opened so far in this scan */
	int			per_statement;	/* number of shards that one statement reads */
	int		   *shardnos;		/* nlive of them */
} ShardScanNode;

typedef struct ShardMerge ShardMerge;

/* The shards that one run reads, for callers that do not need all of them together. */
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
	List	   *rels;			/* these tables, open, so that this session cannot change their definitions */
	Oid			userid;			/* the user whose mappings are used */
	const List *rtable;			/* range table of the statement */
	ShardTxnLevel *level;		/* when the scan began */
	const ShardStreamView *view;	/* of its statement; NULL: it locks rows, and the statement writes none */

	/* sets of shardnos of maps[0] that must be read */
	Bitmapset  *planned;		/* after plan-time pruning */
	Bitmapset  *live;			/* after pruning by parameters, too; == planned until they are known */
	bool		prune_each_start;	/* conditions need values of the executor */
	ShardKeySplit *split;		/* NULL if all shards get the same values */
	Bitmapset  *unsplit;		/* live before the values of one execution have removed shards */
	Bitmapset  *first_shards;	/* see shard_scan_first_shards(); NULL until requested */
	ShardScanPart part;			/* part of live that the next run reads */

	ShardStreamLimit *limit;	/* rows of all scans of the statement; NULL: none */
	ShardSnapshot *snapshot;	/* NULL under plain EXPLAIN */
	ShardDecoder *decoder;
	int			max_streams;	/* of a node, if all must be open at the same time */
	ShardMerge *merge;			/* for sorted rows; NULL until needed */

	/* state of one execution of the remote query; everything below is in run_cxt */
	MemoryContext run_cxt;
	bool		running;
	Bitmapset  *turn;			/* shards of live that are read now: all, or those of some partitions */
	Bitmapset  *later;			/* shards of later partitions */
	int			turn_parts;		/* number of partitions in the present turn */
	ShardScanNode *nodes;		/* maps[0]->nnodes */
	int			nsources;		/* number of open streams */
	int			current;		/* the stream from which rows are taken */
	bool		merging;		/* streams keep their numbers, and are NULL after their end */
	ShardStream **streams;		/* nsources */
	ShardScanSource *sources;	/* nsources */
	const char *const *param_values;
	const char *const *split_values;	/* values of parameter split->paramno by shardno; or NULL */
	bool		may_copy;
	bool		use_copy;		/* for all statements; otherwise only if the node runs the statement within a transaction */
	ShardWaitSet *wait_set;

	/* asynchronous Append: set by the async callbacks, read by shardIterateForeignScan() */
	bool		async_mode;		/* return an empty slot instead of waiting */
	bool		would_wait;		/* it returned an empty slot, because nothing has arrived */
	bool		siblings_known; /* siblings_ours is set */
	bool		siblings_ours;	/* all asynchronous children of Append are scans of this extension */

	/* for EXPLAIN ANALYZE: sums over closed streams */
	uint64		rows;
	uint64		bytes;
	List	   *conns;			/* distinct connections */
	ShardScanFigures *figures;	/* maps[0]->nshards of them; NULL if not needed */
} ShardScanState;

/*
 * Opens the tables of a plan, and the reference tables of its statement, which are locked already,
 * while it runs.  So the session's own DDL finds them in use.  Memory: current context.
 */
extern List *shard_scan_open_rels(const EState *estate, List *relids);
extern void shard_scan_close_rels(List *rels);

/*
 * Returns about a quarter of the planned shards, with some of each node; NULL if that would be all
 * of them.  Always the same for a scan.  Memory: the query's.
 */
extern const Bitmapset *shard_scan_first_shards(ForeignScanState *node);

/*
 * Do all runs of the scan see the same rows of a node?  They do not on a connection that writes,
 * and the answer may change from one run to the next.
 *
 * others_run: other statements of the
 * transaction may run before the last of these runs, in functions or between two rows of a cursor.
 * At REPEATABLE READ they would write on the connection that reads.
 */
extern bool shard_scan_sees_one_moment(const ForeignScanState *node, bool others_run);

/* Sets the shards that are read from the next start of the scan on.  It must not be running. */
extern void shard_scan_set_part(ForeignScanState *node, ShardScanPart part);

/* Evaluates the parameters, and sets state->live to the shards that can have matching rows. */
extern void shard_scan_bind(ForeignScanState *node);

/* Opens the streams, unless they are open.  Never blocks. */
extern void shard_scan_start(ForeignScanState *node);

/* Closes all streams.  The scan returns no more rows until it is rescanned. */
extern void shard_scan_close_streams(ForeignScanState *node);

/* ---- scan_source.c ---- */

/* Stores row, which comes from source i, in slot.  Memory: by-reference values in cxt. */
extern void shard_scan_store_row(ForeignScanState *node, int i, const ShardRow *row,
								 TupleTableSlot *slot, MemoryContext cxt);

/* Closes source i's stream, and keeps its figures. */
extern void shard_scan_close_stream(ForeignScanState *node, int i);

/* If figures are collected: adds those of source i when it ends.  Called once per source. */
extern void shard_scan_count_source(ShardScanState *state, int i);

/* Adds the rows and bytes that open streams have received.  Closes nothing. */
extern void shard_scan_totals(const ShardScanState *state, uint64 *rows, uint64 *bytes, int *nconns);

/* ---- scan_sql.c, merge.c ---- */

/*
 * Returns the output that is attribute attno of the slot, unchanged or as text; NULL: there is none.
 * *colno: number of its remote column (1-based).
 */
extern const ShardOutput *shard_scan_find_output(const ShardScanPlan *plan, AttrNumber attno, int *colno);

/* Appends " AS alias(c1, c2, ...)", with a name for each column of the remote query. */
extern void shard_scan_append_alias(const ShardScanPlan *plan, const char *alias, StringInfo buf);

/* Returns the parameters' values for the query of one shard.  Memory: current context. */
extern const char *const *shard_scan_values(const ShardScanState *state, int shardno);

/* Appends the statement that reads these shards of one node, with parameters as $n or literals. */
extern void shard_scan_sql(const ShardScanState *state, const int *shardnos, int nshards,
						   bool literals, StringInfo buf);

/*
 * Returns the next row in the scan's order, empty at the end.  The slot belongs to the scan.  Its
 * row is valid until the next call.
 */
extern TupleTableSlot *shard_merge_next(ForeignScanState *node);

/* Forgets the current rows, because the streams are closed or about to be. */
extern void shard_merge_reset(ShardMerge *merge);

/* ---- scan_cursor.c ---- */

/* Turns spec's query, which has no parameters, into a cursor of source, and spec into its first batch. */
extern void shard_scan_cursor_declare(ShardScanState *state, ShardScanSource *source, ShardStreamSpec *spec);

/*
 * Opens the next batch of source i, whose stream has ended, in its place.  False: that was the last
 * batch, or there is no cursor.
 */
extern bool shard_scan_cursor_next(ForeignScanState *node, int i);

/* Closes all cursors of this run, whose streams are closed, unless the transaction ends now. */
extern void shard_scan_cursor_close_all(ForeignScanState *node);

#endif
