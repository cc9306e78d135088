/*
 * online.c
 *	  A move while other sessions write.
 *
 *	 publication --> slot, snapshot --> copy of the snapshot --> indexes --> changes since
 *	   --> rows compared at one moment --> definitions compared --> lock --> the last changes
 *	   --> definitions compared again --> switch --> commit
 *
 * Writers wait only between lock and commit.  The move tries to lock when hardly any changes are left to apply.  It
 * releases the lock if the last changes take too long.
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
#include "move/online.h"
#include "move/place.h"
#include "move/relay.h"
#include "move/shard_definition.h"
#include "nodes/value.h"
#include "remote/wire/wait.h"
#include "utils/timestamp.h"

#define LAST_CHANGES_MS 1000	/* how long writers wait for the last changes */
#define AGAIN_MS 500			/* pause before another attempt to lock */

typedef struct OnlineMove
{
	ShardMove  *move;
	ShardSlot  *slot;
	ShardConn  *from;			/* reads from the source */
	ShardConn  *into;			/* writes to the target */
	ShardFollow *follow;
	ShardDefinition *definition;
} OnlineMove;

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
copy(OnlineMove *online)
{
	ShardMove  *move = online->move;

	shard_link_exec(online->from, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(online->from, psprintf("SET TRANSACTION SNAPSHOT '%s'", online->slot->snapshot));
	for (int i = 0; i < move->ntables; i++)
		shard_relay_copy(move, &move->tables[i], online->from, online->into);
	shard_link_exec(online->from, "COMMIT");
	SHARD_FAULT_POINT("move_copied");
}

/* Before each attempt to lock: the work that can be done while writers continue. */
static void
get_ready(void *arg)
{
	OnlineMove *online = arg;

	shard_definition_look(online->definition);
	shard_follow_catch_up(online->follow);
}

/*
 * Compares the rows of both nodes as of one moment, the snapshot of a second slot.  The target is brought to that
 * position and held there.
 */
static void
compare(OnlineMove *online)
{
	ShardMove  *move = online->move;
	ShardSlot  *slot;
	ShardConn  *from;
	ShardConn  *into;

	shard_move_begin(move->job.userid);
	slot = shard_slot_create(move->job.cxt, shard_link_open(move->source, move->job.userid, true), psprintf("%s_v", move->schema));
	from = shard_link_open(move->source, move->job.userid, false);
	into = shard_link_open(move->target, move->job.userid, false);
	shard_move_commit();
	shard_link_exec(from, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(from, psprintf("SET TRANSACTION SNAPSHOT '%s'", slot->snapshot));
	shard_follow_to(online->follow, slot->start);
	shard_slot_close(slot);
	SHARD_FAULT_POINT("move_compare");
	shard_relay_verify(move, from, into);
	shard_link_close(&from);
	shard_link_close(&into);
	SHARD_FAULT_POINT("move_compared");
}

/*
 * Switches when all changes have been applied on the target.  Returns the time of the lock.  The transaction stays
 * open.
 */
static TimestampTz
lock_and_switch(OnlineMove *online)
{
	ShardMove  *move = online->move;
	TimestampTz locked_at;

	for (;;)
	{
		shard_block_lock(move, get_ready, online);
		locked_at = GetCurrentTimestamp();
		if (shard_follow_to_now(online->follow, LAST_CHANGES_MS))
		{
			shard_definition_check(online->definition);
			if (shard_place_switch(move))
				return locked_at;
		}
		/* let writers continue */
		AbortCurrentTransaction();
		shard_wait_pause(AGAIN_MS, false);
	}
}

void
shard_online_run(ShardMove *move)
{
	OnlineMove	online = {.move = move};
	TimestampTz locked_at;

	shard_job_enter_stage(&move->job, "waiting for transactions of the source");
	shard_attempts_insist(&move->job, psprintf("sessions on node \"%s\" that have locked the tables", move->source_name), NULL, NULL, publish, move);
	shard_move_commit();
	SHARD_FAULT_POINT("move_published");
	shard_job_set_waiting(&move->job, psprintf("transactions on node \"%s\" that write, including prepared ones", move->source_name));
	shard_move_begin(move->job.userid);
	online.slot = shard_slot_create(move->job.cxt, shard_link_open(move->source, move->job.userid, true), move->schema);
	online.from = shard_link_open(move->source, move->job.userid, false);
	online.into = shard_link_open(move->target, move->job.userid, false);
	shard_move_commit();

	shard_job_enter_stage(&move->job, "copying");
	copy(&online);
	shard_job_enter_stage(&move->job, "indexing");
	shard_move_begin(move->job.userid);
	shard_place_index(move);
	shard_move_commit();

	shard_job_enter_stage(&move->job, "catching up");
	shard_slot_stream(online.slot, list_make1(makeString(pstrdup(move->schema))), "");
	online.follow = shard_apply_begin(move, online.slot, online.from, online.into);
	online.definition = shard_definition_begin(move, online.from);
	shard_follow_catch_up(online.follow);
	if (move->job.verify)
	{
		shard_job_enter_stage(&move->job, "comparing");
		compare(&online);
	}

	shard_job_enter_stage(&move->job, "switching");
	locked_at = lock_and_switch(&online);
	shard_move_commit();
	move->switched = true;
	SHARD_FAULT_POINT("move_switched");
	shard_link_set_idle(NULL, NULL);
	shard_job_set_pause(&move->job, GetCurrentTimestamp() - locked_at);
	shard_job_set_progress(&move->job);
	shard_slot_close(online.slot);
	shard_link_close(&online.from);
	shard_link_close(&online.into);
}
