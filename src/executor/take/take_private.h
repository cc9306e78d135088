/*
 * take_private.h
 *	  Internals of the plan node that takes rows of a table as jobs from a queue.  See take_exec.c.
 *
 * All functions allocate in the statement's run_cxt, unless they say otherwise.
 */
#ifndef SHARDFDW_EXECUTOR_TAKE_PRIVATE_H
#define SHARDFDW_EXECUTOR_TAKE_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/scan/param.h"
#include "executor/shard_run.h"
#include "executor/take/take_claim.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "plan/plan_private.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

/* Number of columns of candidates before the sort columns. */
#define SHARD_TAKE_CANDIDATE_COLUMNS 4

typedef struct ShardTakeCandidate
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
} ShardTakeCandidate;

/* What a shard must do with some candidates. */
typedef struct ShardTakeWork
{
	int			shardno;
	List	   *candidates;		/* of ShardTakeCandidate */
	ShardRunTarget target;
} ShardTakeWork;

typedef struct ShardTakeState
{
	CustomScanState css;		/* must be first */
	ShardTakePlan *plan;
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
	uint64		since;			/* candidates were read after this moment, see take_claim.h */
	ShardTakeCandidate  *candidates;		/* in order */
	int			ncandidates;
	ShardTakeCandidate  *tried;			/* the last one that was tried; NULL: none */
	List	   *locked;			/* of ShardTakeCandidate, in order */
	int64		nchanged;
	Tuplestorestate *rows;		/* rows to return; NULL: none */
	TupleTableSlot *row_slot;	/* for one of these rows */
} ShardTakeState;

/* Candidates of one node. */
typedef struct ShardTakeNode
{
	int			nodeno;
	uint64		limit;
	List	   *rows;			/* of ShardTakeCandidate */
} ShardTakeNode;

typedef void (*ShardTakeRowTaker) (ShardTakeState *state, int i, const ShardRow *row, void *arg);

/* ---------- take_candidates.c ---------- */

/* Looks up the table's present map. */
extern void shard_take_resolve_map(ShardTakeState *state);

/*
 * Runs the statements of run, and calls take with each row and the number of its target.  Then deletes run->cxt,
 * which ends the readers.
 */
extern void shard_take_read(ShardTakeState *state, ShardRun *run, ShardSnapshot *snapshot, ShardTakeRowTaker take, void *arg);

/* Creates the decoder and the sort support for candidates.  Memory: current context. */
extern void shard_take_candidates_init(ShardTakeState *state);

/* Returns the query that a node runs. limit 0: all candidates.  Memory: current context. */
extern char *shard_take_candidates_sql(const ShardTakeState *state, int nodeno, uint64 limit);

/*
 * Reads limit candidates of each node.  Sorts those that may be tried, up to the last one of a node
 * that has more.  Returns whether there are more to read after them.
 */
extern bool shard_take_candidates_read(ShardTakeState *state, ShardTakeNode *nodes, int nnodes, uint64 limit);

/*
 * May candidates be read for, or by, other sessions?  Not if the transaction has changed rows,
 * which others do not see, or has its own snapshot.  And only if one row is wanted, since several
 * need many candidates.
 */
extern bool shard_take_candidates_may_share(const ShardTakeState *state);

/* Like shard_take_candidates_read(), for all nodes; or returns what another session has read. */
extern bool shard_take_candidates_share(ShardTakeState *state, ShardTakeNode *nodes, int nnodes, uint64 limit);

/* Compares candidates (ListCell) by their place. */
extern int	shard_take_compare_places(const ListCell *a, const ListCell *b);

/* Returns the candidate at the place of key from a list sorted with shard_take_compare_places(); NULL: none. */
extern ShardTakeCandidate *shard_take_candidates_find(const List *sorted, ShardTakeCandidate *key);

/* ---------- take_work.c ---------- */

extern ShardClaimRow shard_take_claim_row(const ShardTakeState *state, const ShardTakeCandidate *candidate);

/* Returns the text of template for a shard.  Memory: current context. */
extern char *shard_take_work_sql(const ShardMap *map, const ShardTemplate *template, int shardno);

/* Groups candidates (of ShardTakeCandidate) by shard: returns a List of ShardTakeWork. */
extern List *shard_take_works_make(List *candidates);

/*
 * Locks the rows of works, and changes the row if one is wanted.  False: the table's map has
 * changed, and nothing has been locked. has_locks: the statement has locked rows before.
 */
extern bool shard_take_works_try(ShardTakeState *state, List *works, bool has_locks);

/* Locks the first n rows of a shard, as the shard does for its own clients. */
extern void shard_take_works_lock_first(ShardTakeState *state, int shardno, int n);

/* Changes the rows that were locked. */
extern void shard_take_works_change(ShardTakeState *state);

/* ---------- take_choose.c ---------- */

/* Does the statement have as many rows as it wants? */
extern bool shard_take_has_enough(const ShardTakeState *state);

/* Takes rows of some nodes.  False: the table's map has changed, and rows of all nodes were taken instead. */
extern bool shard_take_from(ShardTakeState *state, int first, int nnodes);

#endif
