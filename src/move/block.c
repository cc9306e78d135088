/*
 * block.c
 *	  A move during which writers wait.
 *
 *	 lock --> copy --> index --> compare --> switch --> commit
 *
 * The whole move is one local transaction.  Its locks do not block readers.  Rows are read and written over separate
 * connections of the move.  They see committed rows of the source, which cannot change because of the locks.
 *
 * The reading connection also locks the tables, before they are locked against writers.  Otherwise a session on the
 * node that waits for a lock against readers (VACUUM FULL) could cause a deadlock that no server detects.  That
 * session would wait for the lock against writers, the reading connection for that session, and the job for the
 * reading connection.
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

#define AGAIN_MS 200			/* pause before another attempt to lock */

static void
lock(const ShardAttempts *attempts, void *arg)
{
	shard_place_lock(arg, attempts);
}

void
shard_block_lock(ShardMove *move, void (*before_each) (void *arg), void *arg)
{
	shard_attempts_insist(&move->job, SHARD_MOVE_REPLACES(move) ? "transactions that use the tables, or have written to their shards" :
						  "transactions that have written to the shards, or locked rows of them", before_each, arg, lock, move);
}

typedef struct BlockMove
{
	ShardMove  *move;
	ShardConn  *from;			/* reads from the source */
} BlockMove;

/*
 * Call it before each attempt to lock the tables against writers.  Locks them for reading again, so that sessions
 * which wait can run in between.
 */
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
shard_block_run(ShardMove *move)
{
	BlockMove	block = {.move = move};
	ShardConn  *from;
	ShardConn  *into;
	TimestampTz locked_at;

	shard_job_enter_stage(&move->job, "copying");
	shard_move_begin(move->job.userid);
	from = shard_link_open(move->source, move->job.userid, false);
	into = shard_link_open(move->target, move->job.userid, false);
	shard_move_commit();

	block.from = from;
	shard_block_lock(move, hold_tables, &block);
	locked_at = GetCurrentTimestamp();
	shard_move_check_unchanged(move);
	for (int i = 0; i < move->ntables; i++)
		shard_relay_copy(move, &move->tables[i], from, into);
	SHARD_FAULT_POINT("move_copied");
	shard_place_index(move);
	if (move->job.verify)
		shard_relay_verify(move, from, into);
	shard_link_exec(from, "COMMIT");
	while (!shard_place_switch(move))
		shard_wait_pause(AGAIN_MS, false);
	shard_move_commit();
	move->switched = true;
	SHARD_FAULT_POINT("move_switched");
	shard_job_set_pause(&move->job, GetCurrentTimestamp() - locked_at);
	shard_job_set_progress(&move->job);
	shard_link_close(&from);
	shard_link_close(&into);
}
