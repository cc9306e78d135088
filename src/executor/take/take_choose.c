/*
 * take_choose.c
 *	  Which candidates are tried, and in which order: see take_exec.c.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/take/take_private.h"
#include "miscadmin.h"

/*
 * Candidates that each node gives at first beyond those that are wanted, and as many again: others may be taking the same
 * ones, as many at a time as is wanted here.
 */
#define SPARE_CANDIDATES 7
#define MORE_CANDIDATES 8		/* times as many the next time */

/* Up to so many rows are locked in order where others are waited for; more on all shards at once. */
#define MAX_IN_ORDER 100

/* So often candidates are read anew before a shard has to lock its first ones by itself. */
#define MAX_READ_ANEW 20

bool
shard_take_has_enough(const ShardTakeState *state)
{
	return list_length(state->locked) >= state->nwanted;
}

/* Tries candidates until there are enough.  False: the table's map is another one now, and nothing has been locked. */
static bool
try_candidates(ShardTakeState *state)
{
	int			next = 0;

	while (!shard_take_has_enough(state) && next < state->ncandidates)
	{
		uint64		nlacking = state->nwanted - list_length(state->locked);
		List	   *tried = NIL;
		List	   *works;

		CHECK_FOR_INTERRUPTS();
		while (next < state->ncandidates && list_length(tried) < nlacking)
		{
			ShardTakeCandidate  *candidate = &state->candidates[next++];
			ShardClaimRow row = shard_take_claim_row(state, candidate);

			state->tried = candidate;
			if (!state->plan->is_exclusive || shard_claim_begin(&row, state->since))
				tried = lappend(tried, candidate);
		}
		if (tried == NIL)
			break;
		works = shard_take_works_make(tried);
		if (!shard_take_works_try(state, works, state->locked != NIL))
			return false;
		foreach_ptr(ShardTakeCandidate, candidate, tried)
		{
			ShardClaimRow row = shard_take_claim_row(state, candidate);

			if (candidate->locked)
				state->locked = lappend(state->locked, candidate);
			/* who has several changes them in the end */
			if (!candidate->locked || candidate->changed)
				shard_claim_end(&row, candidate->changed);
		}
	}
	return true;
}

static ShardTakeNode *
make_nodes(int first, int nnodes)
{
	ShardTakeNode *nodes = palloc0(sizeof(ShardTakeNode) * nnodes);

	for (int i = 0; i < nnodes; i++)
		nodes[i].nodeno = first + i;
	return nodes;
}

/* ---------- waiting for others ---------- */

typedef enum WaitingResult
{
	WAITING_DONE,				/* enough, or all candidates, are locked */
	WAITING_CHANGED,			/* a candidate was changed: they have to be read anew */
	WAITING_MOVED				/* the table's map is another one now, and nothing has been locked */
} WaitingResult;

/* The next candidates to be locked by one step, from *next on; those that are held, which sorted lists, count as locked before them. */
static List *
next_candidates(ShardTakeState *state, const List *sorted, int *next)
{
	List	   *step = NIL;

	while (*next < state->ncandidates && list_length(state->locked) + list_length(step) < state->nwanted)
	{
		ShardTakeCandidate  *candidate = &state->candidates[*next];
		ShardTakeCandidate  *own = shard_take_candidates_find(sorted, candidate);

		/* a lock of keys lets others write another version, and later another row there */
		if (own != NULL && (own->xmin != candidate->xmin || own->file != candidate->file))
			own = NULL;
		if (step != NIL && (own != NULL ||
							(state->nwanted <= MAX_IN_ORDER && ((ShardTakeCandidate *) linitial(step))->shardno != candidate->shardno)))
			break;
		if (own != NULL)
			state->locked = lappend(state->locked, own);
		else
			step = lappend(step, candidate);
		(*next)++;
	}
	return step;
}

/* How many candidates of its shard there are up to this one. */
static int
place_in_shard(const ShardTakeState *state, const ShardTakeCandidate *candidate)
{
	int			place = 0;

	for (const ShardTakeCandidate *other = state->candidates; other <= candidate; other++)
		place += other->shardno == candidate->shardno;
	return place;
}

/* Locks candidates until there are enough.  held: all that the statement has locked in this way; *changed: one that was changed. */
static WaitingResult
wait_for_candidates(ShardTakeState *state, List **held, const ShardTakeCandidate **changed)
{
	List	   *sorted = list_copy(*held);
	int			next = 0;
	List	   *step;

	list_sort(sorted, shard_take_compare_places);
	while ((step = next_candidates(state, sorted, &next)) != NIL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!shard_take_works_try(state, shard_take_works_make(step), *held != NIL || state->locked != NIL))
			return WAITING_MOVED;
		foreach_ptr(ShardTakeCandidate, candidate, step)
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

/* Takes rows of nodes, those that others have locked, too, when they let go of them.  Returns as shard_take_from(). */
static bool
take_waiting(ShardTakeState *state, int first, int nnodes)
{
	ShardTakeNode *nodes = make_nodes(first, nnodes);
	List	   *before = state->locked;
	List	   *held = NIL;
	int			ntimes = 0;
	WaitingResult result;

	do
	{
		const ShardTakeCandidate *changed = NULL;

		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		state->locked = list_copy(before);
		(void) shard_take_candidates_read(state, nodes, nnodes, Min(state->nwanted, PG_INT64_MAX));
		result = wait_for_candidates(state, &held, &changed);
		if (result == WAITING_CHANGED && ++ntimes % MAX_READ_ANEW == 0)
			shard_take_works_lock_first(state, changed->shardno, place_in_shard(state, changed));
	} while (result == WAITING_CHANGED);
	if (result == WAITING_MOVED)
		(void) take_waiting(state, 0, state->map->nnodes);
	return result != WAITING_MOVED;
}

/* ---------- leaving out what others have locked ---------- */

/* Takes rows of nodes until there are enough, or no more.  Returns as shard_take_from(). */
static bool
take_skipping(ShardTakeState *state, int first, int nnodes)
{
	ShardTakeNode *nodes = make_nodes(first, nnodes);
	uint64		limit = 2 * Min(state->nwanted, PG_INT32_MAX) + SPARE_CANDIDATES;
	bool		more = true;

	while (more && !shard_take_has_enough(state))
	{
		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		/* who has nothing yet may begin anew */
		if (state->locked == NIL)
			state->tried = NULL;
		more = shard_take_candidates_may_share(state) ? shard_take_candidates_share(state, nodes, nnodes, limit) : shard_take_candidates_read(state, nodes, nnodes, limit);
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
shard_take_from(ShardTakeState *state, int first, int nnodes)
{
	return state->plan->skips ? take_skipping(state, first, nnodes) : take_waiting(state, first, nnodes);
}
