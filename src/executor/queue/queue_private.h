/*
 * queue_private.h
 *	  Internals of the plan node that takes rows of a table as jobs from a queue.  See queue_exec.c.
 *
 * All functions allocate in the statement's run_cxt, unless they say otherwise.
 */
#ifndef SHARDFDW_EXECUTOR_QUEUE_PRIVATE_H
#define SHARDFDW_EXECUTOR_QUEUE_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/queue/queue_claim.h"
#include "executor/scan/param.h"
#include "executor/shard_run.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "plan/plan_private.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

/* Number of columns of candidates before the sort columns. */
#define SHARD_QUEUE_CANDIDATE_COLUMNS 4

typedef struct ShardQueueCandidate
{
	int			shardno;
	ItemPointerData ctid;
	TransactionId xmin;
	Oid			file;			/* file of the shard that contains it */
	Datum	   *values;			/* of the sort columns */
	bool	   *isnull;
	bool		is_last;		/* the node has more rows after this one */
	bool		locked;
	bool		changed;
	MinimalTuple row;			/* SELECT: the row to return */
} ShardQueueCandidate;

/* What a shard must do with some candidates. */
typedef struct ShardQueueWork
{
	int			shardno;
	List	   *candidates;		/* of ShardQueueCandidate */
	ShardRunTarget target;
} ShardQueueWork;

typedef struct ShardQueueState
{
	CustomScanState css;		/* must be first */
	ShardQueuePlan *plan;
	ShardParams *params;
	int			nparams;		/* number of custom_exprs */
	const ShardMap *map;
	List	   *rels;			/* the table, open */
	ShardTxnLevel *level;		/* when the statement began */
	ShardRun	run;			/* for the statement's rows; decoder NULL: it has none */
	ShardDecoder *sort_decoder; /* for candidates */
	TupleTableSlot *sort_slot;
	SortSupport sort_keys;

	/* set from the first call on; in run_cxt */
	MemoryContext run_cxt;
	bool		started;
	const char **values;		/* text forms of the parameters */
	uint64		nwanted;
	uint64		since;			/* candidates were read after this moment, see queue_claim.h */
	ShardQueueCandidate  *candidates;		/* in order */
	int			ncandidates;
	ShardQueueCandidate  *tried;			/* the last one that was tried; NULL: none */
	List	   *locked;			/* of ShardQueueCandidate, in order */
	int64		nchanged;
	Tuplestorestate *rows;		/* rows to return; NULL: none */
	TupleTableSlot *row_slot;	/* for one of these rows */
} ShardQueueState;

/* Candidates of one node. */
typedef struct ShardQueueNode
{
	int			nodeno;
	uint64		limit;
	List	   *rows;			/* of ShardQueueCandidate */
} ShardQueueNode;

typedef void (*ShardQueueRowTaker) (ShardQueueState *state, int i, const ShardRow *row, void *arg);

/* ---------- queue_candidates.c ---------- */

/* Looks up the table's present map. */
extern void shard_queue_resolve_map(ShardQueueState *state);

/*
 * Runs the statements of run, and calls take with each row and the number of its target.  Then deletes run->cxt,
 * which ends the readers.
 */
extern void shard_queue_read(ShardQueueState *state, ShardRun *run, ShardSnapshot *snapshot, ShardQueueRowTaker take, void *arg);

/* Creates the decoder and the sort support for candidates.  Memory: current context. */
extern void shard_queue_candidates_init(ShardQueueState *state);

/* Returns the query that a node runs. limit 0: all candidates.  Memory: current context. */
extern char *shard_queue_candidates_sql(const ShardQueueState *state, int nodeno, uint64 limit);

/*
 * Reads limit candidates of each node.  Sorts those that may be tried, up to the last one of a node
 * that has more.  Returns whether there are more to read after them.
 */
extern bool shard_queue_candidates_read(ShardQueueState *state, ShardQueueNode *nodes, int nnodes, uint64 limit);

/*
 * May sessions share candidates?  They may not if the transaction has changed rows, which others do not see, or has its
 * own snapshot.  They may not if several rows are wanted, because that needs many candidates.
 */
extern bool shard_queue_candidates_may_share(const ShardQueueState *state);

/* Like shard_queue_candidates_read(), for all nodes; or returns what another session has read. */
extern bool shard_queue_candidates_share(ShardQueueState *state, ShardQueueNode *nodes, int nnodes, uint64 limit);

/* Compares candidates (ListCell) by their place. */
extern int	shard_queue_compare_places(const ListCell *a, const ListCell *b);

/* Returns the candidate at the place of key from a list sorted with shard_queue_compare_places(); NULL: none. */
extern ShardQueueCandidate *shard_queue_candidates_find(const List *sorted, ShardQueueCandidate *key);

/* ---------- queue_work.c ---------- */

extern ShardClaimRow shard_queue_claim_row(const ShardQueueState *state, const ShardQueueCandidate *candidate);

/* Returns the text of template for a shard.  Memory: current context. */
extern char *shard_queue_work_sql(const ShardMap *map, const ShardTemplate *template, int shardno);

/* Groups candidates (of ShardQueueCandidate) by shard: returns a List of ShardQueueWork. */
extern List *shard_queue_works_make(List *candidates);

/*
 * Locks the rows of works, and changes the row if one is wanted.  False: the table's map has
 * changed, and nothing has been locked. has_locks: the statement has locked rows before.
 */
extern bool shard_queue_works_try(ShardQueueState *state, List *works, bool has_locks);

/* Locks the first n rows of a shard, as the shard does for its own clients. */
extern void shard_queue_works_lock_first(ShardQueueState *state, int shardno, int n);

/* Changes the rows that were locked. */
extern void shard_queue_works_change(ShardQueueState *state);

/* ---------- queue_choose.c ---------- */

/* Does the statement have as many rows as it wants? */
extern bool shard_queue_has_enough(const ShardQueueState *state);

/* Takes rows of some nodes.  False: the table's map has changed, and rows of all nodes were taken instead. */
extern bool shard_queue_from(ShardQueueState *state, int first, int nnodes);

#endif
