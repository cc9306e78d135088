/*
 * transfer.c
 *	  Copies the shards of a move, and switches them to the target.
 *
 *	 while other sessions write:
 *	 publication --> slot, snapshot --> copy of the snapshot --> indexes --> changes since
 *	   --> rows compared at one moment --> definitions compared --> lock --> the last changes
 *	   --> definitions compared again --> switch --> commit
 *
 *	 while writers wait:
 *	 lock --> copy --> index --> compare --> switch --> commit
 *
 * In the first case, writers wait only between lock and commit.  The move tries to lock when hardly any changes are left
 * to apply.  It releases the lock if the last changes take too long.
 *
 * In the second case, the whole move is one local transaction.  Its locks do not block readers.  Rows are read and
 * written over separate connections of the move.  They see committed rows of the source, which cannot change because of
 * the locks.
 *
 * The reading connection then also locks the tables, before they are locked against writers.  Otherwise a session on the
 * node that waits for a lock against readers (VACUUM FULL) could cause a deadlock that no server detects.  That
 * session would wait for the lock against writers, the reading connection for that session, and the job for the
 * reading connection.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fault.h"
#include "miscadmin.h"
#include "move/apply.h"
#include "move/job/attempt.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "move/job/slot.h"
#include "move/job/table.h"
#include "move/place.h"
#include "move/relay.h"
#include "move/shard_definition.h"
#include "move/transfer.h"
#include "nodes/value.h"
#include "remote/wire/wait.h"
#include "utils/timestamp.h"

#define LAST_CHANGES_MS 1000	/* how long writers wait for the last changes */
#define AGAIN_MS 500			/* pause before another attempt to lock */
#define BLOCK_AGAIN_MS 200		/* pause before another attempt to switch, while writers wait */

typedef struct Transfer
{
	ShardMove  *move;
	ShardConn  *from;			/* reads from the source */
	ShardConn  *into;			/* writes to the target */
	TimestampTz locked_at;

	/* if other sessions write */
	ShardSlot  *slot;
	ShardFollow *follow;
	ShardDefinition *definition;
} Transfer;

/* ---------- in both cases ---------- */

/* Call it in a transaction. */
static void
open_links(Transfer *transfer)
{
	transfer->from = shard_link_open(transfer->move->source, transfer->move->job.userid, false);
	transfer->into = shard_link_open(transfer->move->target, transfer->move->job.userid, false);
}

static void
copy_tables(const Transfer *transfer)
{
	for (int i = 0; i < transfer->move->ntables; i++)
		shard_relay_copy(transfer->move, &transfer->move->tables[i], transfer->from, transfer->into);
}

static void
lock_step(const ShardAttempts *attempts, void *arg)
{
	shard_place_lock(arg, attempts);
}

/* Begins a transaction and locks the shards, see shard_attempts_insist(). */
static void
lock(Transfer *transfer, void (*before_each) (void *arg))
{
	shard_attempts_insist(&transfer->move->job, SHARD_MOVE_REPLACES(transfer->move) ? "transactions that use the tables, or have written to their shards" :
						  "transactions that have written to the shards, or locked rows of them", before_each, transfer, lock_step, transfer->move);
	transfer->locked_at = GetCurrentTimestamp();
}

/* Commits the switch. */
static void
commit_switch(Transfer *transfer)
{
	ShardMove  *move = transfer->move;

	shard_attempts_await(&move->job, "one of the servers");
	shard_move_commit();
	move->switched = true;
	/* the time may have been over during the commit */
	shard_attempts_await(&move->job, NULL);
	QueryCancelPending = false;
	SHARD_FAULT_POINT("move_switched");
	shard_wait_set_idle(NULL, NULL);
	shard_job_set_pause(&move->job, GetCurrentTimestamp() - transfer->locked_at);
	shard_job_set_progress(&move->job);
	shard_link_close(&transfer->from);
	shard_link_close(&transfer->into);
}

/* ---------- while other sessions write ---------- */

/*
 * Publishes the tables.  Tables without a replica identity get one first, since changes of a published table without
 * one fail.
 */
static void
publish(const ShardAttempts *attempts, void *arg)
{
	const ShardMove *move = arg;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SET LOCAL lock_timeout = %d; ", shard_attempts_left_ms(attempts));
	for (int i = 0; i < move->ntables; i++)
	{
		if (!move->tables[i].identified)
			appendStringInfo(&sql, "ALTER TABLE %s REPLICA IDENTITY FULL; ", move->tables[i].remote_name);
	}
	appendStringInfo(&sql, "CREATE PUBLICATION %s FOR TABLE ", move->schema);
	for (int i = 0; i < move->ntables; i++)
		appendStringInfo(&sql, "%sONLY %s", i > 0 ? ", " : "", move->tables[i].remote_name);
	shard_move_run(move, move->source, sql.data);
}

/* Copies the rows of the slot's snapshot. */
static void
copy(const Transfer *transfer)
{
	shard_link_exec(transfer->from, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(transfer->from, psprintf("SET TRANSACTION SNAPSHOT '%s'", transfer->slot->snapshot));
	copy_tables(transfer);
	shard_link_exec(transfer->from, "COMMIT");
	SHARD_FAULT_POINT("move_copied");
}

/* Before each attempt to lock: the work that can be done while writers continue. */
static void
get_ready(void *arg)
{
	Transfer   *transfer = arg;

	shard_definition_look(transfer->definition);
	shard_follow_catch_up(transfer->follow);
}

/*
 * Compares the rows of both nodes as of one moment, the snapshot of a second slot.  The target is brought to that
 * position and held there.  Returns false if the source has written new files for tables since that moment, so that
 * their former rows cannot be read. attempt: 1 for the first.
 */
static bool
compare(Transfer *transfer, int attempt)
{
	ShardMove  *move = transfer->move;
	ShardSlot  *slot;
	ShardConn  *from;
	ShardConn  *into;
	bool		compared;

	shard_move_begin(move->job.userid);
	/* the slot of the last attempt may still exist for a moment */
	slot = shard_slot_create(move->job.cxt, shard_link_open(move->source, move->job.userid, true),
							 psprintf("%s_v%d", move->schema, attempt));
	from = shard_link_open(move->source, move->job.userid, false);
	into = shard_link_open(move->target, move->job.userid, false);
	shard_move_commit();
	shard_link_exec(from, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(from, psprintf("SET TRANSACTION SNAPSHOT '%s'", slot->snapshot));
	shard_follow_to(transfer->follow, slot->start);
	shard_slot_close(slot);
	SHARD_FAULT_POINT("move_compare");
	compared = shard_relay_verify(move, from, into);
	shard_link_close(&from);
	shard_link_close(&into);
	SHARD_FAULT_POINT("move_compared");
	return compared;
}

/* Switches when all changes have been applied on the target.  The transaction stays open. */
static void
lock_and_switch(Transfer *transfer)
{
	for (;;)
	{
		lock(transfer, get_ready);
		shard_attempts_await(&transfer->move->job, psprintf("node \"%s\" or \"%s\"", transfer->move->source_name, transfer->move->target_name));
		if (shard_follow_to_now(transfer->follow, LAST_CHANGES_MS))
		{
			shard_definition_check(transfer->definition);
			if (shard_place_switch(transfer->move))
				return;
		}
		/* let writers continue */
		shard_attempts_await(&transfer->move->job, NULL);
		AbortCurrentTransaction();
		shard_wait_pause(AGAIN_MS, false);
	}
}

void
shard_transfer_online(ShardMove *move)
{
	Transfer	transfer = {.move = move};

	shard_job_enter_stage(&move->job, "waiting for transactions of the source");
	shard_attempts_insist(&move->job, psprintf("sessions on node \"%s\" that have locked the tables", move->source_name), NULL, NULL, publish, move);
	shard_move_commit();
	SHARD_FAULT_POINT("move_published");
	shard_job_set_waiting(&move->job, psprintf("transactions on node \"%s\" that write, including prepared ones", move->source_name));
	shard_move_begin(move->job.userid);
	transfer.slot = shard_slot_create(move->job.cxt, shard_link_open(move->source, move->job.userid, true), move->schema);
	open_links(&transfer);
	shard_move_commit();

	shard_job_enter_stage(&move->job, "copying");
	copy(&transfer);
	shard_job_enter_stage(&move->job, "indexing");
	shard_move_begin(move->job.userid);
	shard_place_index(move);
	shard_move_commit();

	shard_job_enter_stage(&move->job, "catching up");
	shard_slot_stream(transfer.slot, list_make1(makeString(pstrdup(move->schema))), "");
	transfer.follow = shard_apply_begin(move, transfer.slot, transfer.from, transfer.into);
	transfer.definition = shard_definition_begin(move, transfer.from);
	shard_follow_catch_up(transfer.follow);
	if (move->job.verify)
	{
		shard_job_enter_stage(&move->job, "comparing");
		for (int attempt = 1; !compare(&transfer, attempt); attempt++)
			;
	}

	shard_job_enter_stage(&move->job, "switching");
	lock_and_switch(&transfer);
	commit_switch(&transfer);
	shard_slot_close(transfer.slot);
}

/* ---------- while writers wait ---------- */

/*
 * Call it before each attempt to lock the tables against writers.  Locks them for reading again, so that sessions
 * which wait can run in between.
 */
static void
hold_tables(void *arg)
{
	const Transfer *transfer = arg;

	if (PQtransactionStatus(transfer->from->pg) == PQTRANS_INTRANS)
		shard_link_exec(transfer->from, "COMMIT");
	shard_link_exec(transfer->from, "BEGIN ISOLATION LEVEL READ COMMITTED");
	for (int i = 0; i < transfer->move->ntables; i++)
		shard_link_exec(transfer->from, psprintf("LOCK TABLE ONLY %s IN ACCESS SHARE MODE", transfer->move->tables[i].remote_name));
}

void
shard_transfer_block(ShardMove *move)
{
	Transfer	transfer = {.move = move};

	shard_job_enter_stage(&move->job, "copying");
	shard_move_begin(move->job.userid);
	open_links(&transfer);
	shard_move_commit();

	lock(&transfer, hold_tables);
	shard_attempts_await(&move->job, NULL);
	shard_move_check_unchanged(move);
	copy_tables(&transfer);
	SHARD_FAULT_POINT("move_copied");
	shard_place_index(move);
	/* false cannot happen, since the tables are locked */
	if (move->job.verify && !shard_relay_verify(move, transfer.from, transfer.into))
		elog(ERROR, "a table of the source has been rewritten under a lock");
	shard_link_exec(transfer.from, "COMMIT");
	while (!shard_place_switch(move))
	{
		shard_attempts_await(&move->job, NULL);
		shard_wait_pause(BLOCK_AGAIN_MS, false);
	}
	commit_switch(&transfer);
}
