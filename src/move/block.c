/*
 * block.c
 *	  A move during which writers wait.
 *
 *	 lock --> copy --> index --> compare --> switch --> commit
 *
 * All of it is one local transaction, whose locks readers do not meet.  The rows are read
 * and written over connections of the move's own: what is committed on the source, and is
 * locked, stays as it is.
 *
 * The one that reads has locked the tables, too, before they are locked against writers.  Else somebody on the node
 * who waits for a lock that readers do not get beside (VACUUM FULL) would stand between the two: the
 * second would wait for him, he for the first, and the first for the job, for ever.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fault.h"
#include "miscadmin.h"
#include "move/block.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "move/job/table.h"
#include "move/place.h"
#include "move/relay.h"
#include "remote/wire/wait.h"

#define AGAIN_MS 200			/* before what a lock has kept from being done is tried again */

typedef struct LockAttempt
{
	const ShardMove *move;
	ShardAttempts attempts;
} LockAttempt;

static void
lock(void *arg)
{
	LockAttempt *attempt = arg;

	shard_attempts_start(&attempt->attempts);
	shard_place_lock(attempt->move, &attempt->attempts);
}

void
shard_block_lock(ShardMove *move, void (*before_each) (void *arg), void *arg)
{
	LockAttempt attempt = {move};
	bool		told = false;

	shard_attempts_init(&attempt.attempts);
	for (;;)
	{
		if (before_each)
			before_each(arg);
		if (shard_move_try_step(move->userid, NULL, lock, &attempt))
			break;
		if (!told)
			shard_job_set_waiting(move->id, SHARD_MOVE_REPLACES(move) ? "transactions that use the tables, or have written to their shards" :
								   "transactions that have written to the shards, or locked rows of them");
		told = true;
		shard_attempts_pause(&attempt.attempts);
	}
}

typedef struct BlockMove
{
	ShardMove  *move;
	ShardConn  *from;			/* reads on the source */
} BlockMove;

/* Before each attempt to lock the tables against writers: locks them for reading, anew, so that who has waited meanwhile is let through. */
static void
hold_tables(void *arg)
{
	const BlockMove *block = arg;

	if (PQtransactionStatus(block->from->pg) == PQTRANS_INTRANS)
		shard_link_exec(block->from, "COMMIT");
	shard_link_exec(block->from, "BEGIN ISOLATION LEVEL READ COMMITTED");
	for (int i = 0; i < block->move->ntables; i++)
		shard_link_exec(block->from, psprintf("LOCK TABLE ONLY %s IN ACCESS SHARE MODE", block->move->tables[i].remote_name));
}

void
shard_block_run(ShardMove *move, ShardMoveStage enter_stage)
{
	BlockMove	block = {.move = move};
	ShardConn  *from;
	ShardConn  *into;
	TimestampTz locked_at;

	enter_stage(move, "copying");
	shard_move_begin(move->userid);
	from = shard_link_open(move->source, move->userid, false);
	into = shard_link_open(move->target, move->userid, false);
	shard_move_commit();

	block.from = from;
	shard_block_lock(move, hold_tables, &block);
	locked_at = GetCurrentTimestamp();
	shard_move_check_unchanged(move);
	for (int i = 0; i < move->ntables; i++)
		shard_relay_copy(move, &move->tables[i], from, into);
	SHARD_FAULT_POINT("move_copied");
	shard_place_index(move);
	if (move->verify)
		shard_relay_verify(move, from, into);
	shard_link_exec(from, "COMMIT");
	while (!shard_place_switch(move))
		shard_wait_pause(AGAIN_MS, false);
	shard_move_commit();
	move->switched = true;
	SHARD_FAULT_POINT("move_switched");
	shard_job_set_pause(move->id, GetCurrentTimestamp() - locked_at);
	shard_job_set_progress(move->id, &move->progress);
	shard_link_close(&from);
	shard_link_close(&into);
}
