/*
 * queue_choose.c
 *	  Chooses which candidates are tried, and in which order.  See queue_exec.c.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/queue/queue_private.h"
#include "miscadmin.h"

/*
 * Number of candidates that each node returns at first in addition to twice the wanted number.
 * Other sessions may be taking the same rows, and as many of them as this one.
 */
#define SPARE_CANDIDATES 7
#define MORE_CANDIDATES 8		/* growth factor for the next read */

/*
 * If the statement waits for locks, up to this many rows are locked in order.  More rows are locked
 * on all shards in parallel.
 */
#define MAX_IN_ORDER 100

/* After so many reads of candidates, a shard must lock its first rows by itself. */
#define MAX_READ_AGAIN 20

bool
shard_queue_has_enough(const ShardQueueState *state)
{
	return list_length(state->locked) >= state->nwanted;
}

/* Tries candidates until there are enough.  False: the table's map has changed, and nothing has been locked. */
static bool
try_candidates(ShardQueueState *state)
{
	int			next = 0;

	while (!shard_queue_has_enough(state) && next < state->ncandidates)
	{
		uint64		nlacking = state->nwanted - list_length(state->locked);
		List	   *tried = NIL;
		List	   *works;

		CHECK_FOR_INTERRUPTS();
		while (next < state->ncandidates && list_length(tried) < nlacking)
		{
			ShardQueueCandidate  *candidate = &state->candidates[next++];
			ShardClaimRow row = shard_queue_claim_row(state, candidate);

			state->tried = candidate;
			if (!state->plan->is_exclusive || shard_claim_begin(&row, state->since))
				tried = lappend(tried, candidate);
		}
		if (tried == NIL)
			break;
		works = shard_queue_works_make(tried);
		if (!shard_queue_works_try(state, works, state->locked != NIL))
			return false;
		foreach_ptr(ShardQueueCandidate, candidate, tried)
		{
			ShardClaimRow row = shard_queue_claim_row(state, candidate);

			if (candidate->locked)
				state->locked = lappend(state->locked, candidate);
			/* if there are several, they are changed at the end */
			if (!candidate->locked || candidate->changed)
				shard_claim_end(&row, candidate->changed);
		}
	}
	return true;
}

static ShardQueueNode *
make_nodes(int first, int nnodes)
{
	ShardQueueNode *nodes = palloc0(sizeof(ShardQueueNode) * nnodes);

	for (int i = 0; i < nnodes; i++)
		nodes[i].nodeno = first + i;
	return nodes;
}

/* ---------- waiting for other sessions ---------- */

typedef enum WaitingResult
{
	WAITING_DONE,				/* enough candidates, or all of them, are locked */
	WAITING_CHANGED,			/* a candidate was changed, so the candidates must be read again */
	WAITING_MOVED				/* the table's map has changed, and nothing has been locked */
} WaitingResult;

/*
 * Returns the next candidates, from *next on, that one step must lock.  Candidates that are held
 * (in the list sorted) before them count as locked.
 */
static List *
next_candidates(ShardQueueState *state, const List *sorted, int *next)
{
	List	   *step = NIL;

	while (*next < state->ncandidates && list_length(state->locked) + list_length(step) < state->nwanted)
	{
		ShardQueueCandidate  *candidate = &state->candidates[*next];
		ShardQueueCandidate  *own = shard_queue_candidates_find(sorted, candidate);

		/* a key lock lets other sessions write a new version, and later another row at this place */
		if (own != NULL && (own->xmin != candidate->xmin || own->file != candidate->file))
			own = NULL;
		if (step != NIL && (own != NULL ||
							(state->nwanted <= MAX_IN_ORDER && ((ShardQueueCandidate *) linitial(step))->shardno != candidate->shardno)))
			break;
		if (own != NULL)
			state->locked = lappend(state->locked, own);
		else
			step = lappend(step, candidate);
		(*next)++;
	}
	return step;
}

/* Number of candidates of its shard up to this one. */
static int
place_in_shard(const ShardQueueState *state, const ShardQueueCandidate *candidate)
{
	int			place = 0;

	for (const ShardQueueCandidate *other = state->candidates; other <= candidate; other++)
		place += other->shardno == candidate->shardno;
	return place;
}

/*
 * Locks candidates until there are enough. held: everything that the statement has locked in this
 * way. *changed: a candidate that was changed.
 */
static WaitingResult
wait_for_candidates(ShardQueueState *state, List **held, const ShardQueueCandidate **changed)
{
	List	   *sorted = list_copy(*held);
	int			next = 0;
	List	   *step;

	list_sort(sorted, shard_queue_compare_places);
	while ((step = next_candidates(state, sorted, &next)) != NIL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!shard_queue_works_try(state, shard_queue_works_make(step), *held != NIL || state->locked != NIL))
			return WAITING_MOVED;
		foreach_ptr(ShardQueueCandidate, candidate, step)
		{
			if (candidate->locked)
			{
				state->locked = lappend(state->locked, candidate);
				*held = lappend(*held, candidate);
			}
			else if (*changed == NULL)
				*changed = candidate;
		}
		if (*changed != NULL)
			return WAITING_CHANGED;
	}
	return WAITING_DONE;
}

/*
 * Takes rows of nodes, including rows that other sessions have locked, when these release them.
 * Result: see shard_queue_from().
 */
static bool
take_waiting(ShardQueueState *state, int first, int nnodes)
{
	ShardQueueNode *nodes = make_nodes(first, nnodes);
	List	   *before = state->locked;
	List	   *held = NIL;
	int			ntimes = 0;
	WaitingResult result;

	do
	{
		const ShardQueueCandidate *changed = NULL;

		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		state->locked = list_copy(before);
		(void) shard_queue_candidates_read(state, nodes, nnodes, Min(state->nwanted, PG_INT64_MAX));
		result = wait_for_candidates(state, &held, &changed);
		if (result == WAITING_CHANGED && ++ntimes % MAX_READ_AGAIN == 0)
			shard_queue_works_lock_first(state, changed->shardno, place_in_shard(state, changed));
	} while (result == WAITING_CHANGED);
	if (result == WAITING_MOVED)
		(void) take_waiting(state, 0, state->map->nnodes);
	return result != WAITING_MOVED;
}

/* ---------- skipping rows that other sessions have locked ---------- */

/* Takes rows of nodes until there are enough, or no more.  Result: see shard_queue_from(). */
static bool
take_skipping(ShardQueueState *state, int first, int nnodes)
{
	ShardQueueNode *nodes = make_nodes(first, nnodes);
	uint64		limit = 2 * Min(state->nwanted, PG_INT32_MAX) + SPARE_CANDIDATES;
	bool		more = true;

	while (more && !shard_queue_has_enough(state))
	{
		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		/* if nothing is locked yet, start again */
		if (state->locked == NIL)
			state->tried = NULL;
		more = shard_queue_candidates_may_share(state) ?
			shard_queue_candidates_share(state, nodes, nnodes, limit) :
			shard_queue_candidates_read(state, nodes, nnodes, limit);
		if (!try_candidates(state))
		{
			(void) take_skipping(state, 0, state->map->nnodes);
			return false;
		}
		limit = Min(limit * MORE_CANDIDATES, PG_INT64_MAX / MORE_CANDIDATES);
	}
	return true;
}

bool
shard_queue_from(ShardQueueState *state, int first, int nnodes)
{
	return state->plan->skips ? take_skipping(state, first, nnodes) : take_waiting(state, first, nnodes);
}
