/*
 * take_private.h
 *	  The parts of the plan node that takes rows of a table as jobs from a queue: see take_exec.c.
 *
 * All of them allocate in the statement's run_cxt, unless they say otherwise.
 */
#ifndef SHARDFDW_EXECUTOR_TAKE_PRIVATE_H
#define SHARDFDW_EXECUTOR_TAKE_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/scan/param.h"
#include "executor/take/take_claim.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "plan/plan_private.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

/* Columns of candidates before those that they are sorted by. */
#define SHARD_TAKE_CANDIDATE_COLUMNS 4

typedef struct ShardTakeCandidate
{
	int			shardno;
	ItemPointerData ctid;
	TransactionId xmin;
	Oid			file;			/* of the shard, in which it is */
	Datum	   *values;			/* that it is sorted by */
	bool	   *isnull;
	bool		is_last;		/* the node has more behind this one */
	bool		locked;
	bool		changed;
	MinimalTuple row;			/* SELECT: what it returns */
} ShardTakeCandidate;

/* What a shard is asked to do with some candidates. */
typedef struct ShardTakeWork
{
	int			shardno;
	List	   *candidates;		/* of ShardTakeCandidate */
	const char *sql;
	int			nparams;
	const char **params;
} ShardTakeWork;

typedef struct ShardTakeState
{
	CustomScanState css;		/* first: core's */
	ShardTakePlan *plan;
	ShardParams *params;
	int			nparams;		/* custom_exprs */
	const ShardMap *map;
	List	   *rels;			/* the table, open */
	Oid			userid;			/* whose mappings are used */
	ShardTxnLevel *level;		/* in which it began */
	ShardDecoder *decoder;		/* of the statement's rows; NULL: it has none */
	ShardDecoder *sort_decoder; /* of candidates */
	TupleTableSlot *sort_slot;
	SortSupport sort_keys;

	/* from the first call on; in run_cxt */
	MemoryContext run_cxt;
	MemoryContext row_cxt;
	bool		started;
	const char **values;		/* text forms of the parameters */
	uint64		nwanted;
	uint64		since;			/* candidates were read after that: see take_claim.h */
	ShardTakeCandidate  *candidates;		/* in order */
	int			ncandidates;
	ShardTakeCandidate  *tried;			/* the last one that was tried; NULL: none */
	List	   *locked;			/* of ShardTakeCandidate, in order */
	int64		nchanged;
	Tuplestorestate *rows;		/* what it returns; NULL: nothing */
	TupleTableSlot *row_slot;	/* one of them */
	uint64		nrows;
	uint64		nbytes;
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

/* Looks at the table's map as it is now. */
extern void shard_take_resolve_map(ShardTakeState *state);

/* Reads all streams to their ends; take gets the number of the stream with each row. */
extern void shard_take_read_streams(ShardTakeState *state, ShardStream **streams, int nstreams, ShardTakeRowTaker take, void *arg);

/* Makes what decodes and compares candidates.  Memory: current context. */
extern void shard_take_candidates_init(ShardTakeState *state);

/* What a node is asked for; limit 0: all of them.  Memory: current context. */
extern char *shard_take_candidates_sql(const ShardTakeState *state, int nodeno, uint64 limit);

/*
 * Reads candidates of nodes, limit of each, and puts those that may be tried in order: up to the last one of a node
 * that has more.  Returns whether there are more to be read behind them.
 */
extern bool shard_take_candidates_read(ShardTakeState *state, ShardTakeNode *nodes, int nnodes, uint64 limit);

/*
 * May candidates be read for, or by, other sessions?  Not where the transaction has changed rows, which others do not see, or
 * has a snapshot of its own; and only by who wants one row, as many need many candidates.
 */
extern bool shard_take_candidates_may_share(const ShardTakeState *state);

/* As shard_take_candidates_read(), of all nodes; or what another session has read. */
extern bool shard_take_candidates_share(ShardTakeState *state, ShardTakeNode *nodes, int nnodes, uint64 limit);

/* Compares candidates (ListCell) by where they are. */
extern int	shard_take_compare_places(const ListCell *a, const ListCell *b);

/* The candidate of the list, which shard_take_compare_places() has sorted, that is where key is; NULL: none. */
extern ShardTakeCandidate *shard_take_candidates_find(const List *sorted, ShardTakeCandidate *key);

/* ---------- take_work.c ---------- */

extern ShardClaimRow shard_take_claim_row(const ShardTakeState *state, const ShardTakeCandidate *candidate);

/* The text of template for a shard.  Memory: current context. */
extern char *shard_take_work_sql(const ShardMap *map, const ShardTemplate *template, int shardno);

/* candidates (of ShardTakeCandidate) by their shards: of ShardTakeWork */
extern List *shard_take_works_make(List *candidates);

/*
 * Locks what works name, and changes it where one row is wanted.  False: the table's map is another one now, and nothing has been
 * locked (has_locks: by the statement).
 */
extern bool shard_take_works_try(ShardTakeState *state, List *works, bool has_locks);

/* Locks the first n rows of a shard, as it does for its own clients. */
extern void shard_take_works_lock_first(ShardTakeState *state, int shardno, int n);

/* Changes what has been locked. */
extern void shard_take_works_change(ShardTakeState *state);

/* ---------- take_choose.c ---------- */

/* Has the statement as many rows as it wants? */
extern bool shard_take_has_enough(const ShardTakeState *state);

/* Takes rows of some nodes.  False: the table's map has become another one, and rows of all nodes were taken instead. */
extern bool shard_take_from(ShardTakeState *state, int first, int nnodes);

#endif
