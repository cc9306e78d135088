/*
 * move_job.c
 *	  The job that moves, splits or merges shards.
 *
 *	 waiting for its turn --> checking --> preparing --> copying --> indexing --> [catching up -->
 *	 comparing -->] switching --> dropping --> done
 *
 * At a time, only one job works on a node until its shards have moved, and only one works on a shard.  Only one job
 * splits or merges shards of a table.  If a move fails before the switch, the shards stay on the source, and the
 * objects of the move are removed.  After the switch the shards are on the target.
 */
#include "postgres.h"

#include "catalog/moving.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catch.h"
#include "move/job/job.h"
#include "move/job/table.h"
#include "move/job/turn.h"
#include "move/leftover.h"
#include "move/place.h"
#include "move/transfer.h"
#include "own_schema.h"
#include "service/background_worker.h"
#include "service/recover.h"
#include "utils/builtins.h"

/*
 * Waits until no other job works on the shards.  If the shards are replaced, also waits until no other job numbers
 * new shards of the tables, so that two jobs do not choose the same names.  All jobs take these turns before those of
 * nodes, each kind by OID, which prevents deadlocks.
 */
static void
take_turns_of_tables(const ShardMove *move)
{
	List	   *relids = NIL;
	ListCell   *lc;

	for (int i = 0; i < move->ntables; i++)
	{
		relids = list_append_unique_oid(relids, move->tables[i].relid);
		if (SHARD_MOVE_REPLACES(move))
			relids = list_append_unique_oid(relids, move->tables[i].parent);
	}
	list_sort(relids, list_oid_cmp);
	foreach(lc, relids)
		shard_turn_take(&move->job, RelationRelationId, lfirst_oid(lc));
}

static void
give_turns_of_nodes(const ShardMove *move)
{
	shard_moving_give_turn(ForeignServerRelationId, move->source);
	if (move->source != move->target)
		shard_moving_give_turn(ForeignServerRelationId, move->target);
}

/*
 * Waits until no other job works on the nodes.  If the shards have been moved since, takes the turns of their new
 * node.  A waiting job has no turn of a node, or only that of the node with the lower OID, which prevents deadlocks.
 */
static void
take_turns_of_nodes(ShardMove *move)
{
	ShardMove	before;

	do
	{
		before = *move;
		shard_turn_take(&move->job, ForeignServerRelationId, Min(move->source, move->target));
		if (move->source != move->target)
			shard_turn_take(&move->job, ForeignServerRelationId, Max(move->source, move->target));
		shard_move_begin(move->job.userid);
		shard_move_find_tables(move);
		if (move->source != before.source)
		{
			give_turns_of_nodes(&before);
			if (SHARD_MOVE_REPLACES(move))
				shard_move_set_target(move, move->source);
			shard_job_set_nodes(&move->job, move->source_name, move->target_name);
		}
		shard_move_commit();
	} while (move->source != before.source);
	move->has_nodes = true;
}

static const char *
kind_of(const ShardMove *move)
{
	if (SHARD_MOVE_IS_SPLIT(move))
		return "split";
	return SHARD_MOVE_IS_MERGE(move) ? "merge" : "move";
}

static void
describe(ShardJob *job, const ShardJobArgs *args, ShardJobRow *row)
{
	ShardMove  *move = (ShardMove *) job;
	Oid		   *relids;
	const char **names;

	move->nshards = args->nshards;
	memcpy(move->shards, args->shards, sizeof(move->shards));
	move->target = args->target;
	move->npieces = args->npieces;
	shard_move_find_tables(move);
	relids = palloc(sizeof(Oid) * move->ntables);
	names = palloc(sizeof(char *) * move->ntables);
	for (int i = 0; i < move->ntables; i++)
	{
		relids[i] = move->tables[i].relid;
		names[i] = move->tables[i].name;
	}
	row->kind = kind_of(move);
	row->ntables = move->ntables;
	row->relids = relids;
	row->names = names;
	row->source_name = move->source_name;
	row->target_name = move->target_name;
}

/* Checks all conditions that can be known, before anything is changed. */
static void
check(ShardMove *move)
{
	const char *mode = move->job.online ? "online" : "block";
	const char *source;
	const char *target;

	shard_job_enter_stage(&move->job, "checking");
	source = quote_literal_cstr(move->source_name);
	target = quote_literal_cstr(move->target_name);
	shard_move_begin(move->job.userid);
	if (SHARD_MOVE_IS_SPLIT(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_split_here(%u, %d, %s, '%s')", move->shards[0], move->npieces, quote_literal_cstr(move->job.plan), mode));
	else if (SHARD_MOVE_IS_MERGE(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_merge_here(%s, '%s')", shard_move_array(move), mode));
	else
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_move_here(%u, %s, '%s')", move->shards[0], target, mode));
	/* no other job runs on these nodes, since this one has their turns */
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_recovered(%s, '%s', false)", shard_move_array(move), SHARD_MOVE_DONE(move)));
	/* tables locked by a prepared transaction cannot be checked, and the slot would wait for the transaction */
	shard_recover_log(list_concat(shard_recover_settle(move->source), move->target == move->source ? NIL : shard_recover_settle(move->target)));
	shard_leftover_remove(move, false);
	if (SHARD_MOVE_IS_SPLIT(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_split_node(%u, %s, '%s')", move->shards[0], source, mode));
	else if (SHARD_MOVE_IS_MERGE(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_job_nodes(%s, %s, %s, '%s', 'merged')", shard_move_array(move), source, source, mode));
	else
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_move_nodes(%u, %s, %s, '%s')", move->shards[0], source, target, mode));
	shard_move_read_parts(move);
	shard_move_commit();
}

static void
prepare(ShardMove *move)
{
	shard_job_enter_stage(&move->job, "preparing");
	shard_move_begin(move->job.userid);
	shard_place_prepare(move);
	shard_move_commit();
}

/*
 * The work after the switch, which cannot be undone.  The old tables may have to wait for transactions of others.
 * Other jobs of the nodes do not wait for that, but jobs of the same shards do.
 */
static void
finish(ShardMove *move)
{
	shard_place_finish(move);
	if (move->has_nodes)
		give_turns_of_nodes(move);
	move->has_nodes = false;
	shard_place_drop(move);
}

static void
run(ShardJob *job)
{
	ShardMove  *move = (ShardMove *) job;

	shard_job_enter_stage(job, "waiting for its turn");
	take_turns_of_tables(move);
	take_turns_of_nodes(move);
	check(move);
	prepare(move);
	if (job->online)
		shard_transfer_online(move);
	else
		shard_transfer_block(move);
	finish(move);
}

/* Removes the objects of a failed job. */
static void
remove_traces(void *arg)
{
	ShardMove  *move = arg;

	if (move->switched)
		finish(move);			/* waits for sessions that may read the old tables */
	shard_move_begin(move->job.userid);
	shard_leftover_remove(move, true);
	shard_move_commit();
}

static void
undo(ShardJob *job, ErrorData *error)
{
	ShardMove  *move = (ShardMove *) job;

	if (move->switched && error->hint == NULL)
		error->hint = "The shards are where they should be. What is left of the job is removed by SELECT shardfdw.recover_prepared_transactions().";
	if (!move->switched)
		shard_job_name_dropped(job, error);
	if (move->on_nodes)
		(void) shard_catch_transaction(remove_traces, move, NULL, true);
}

const ShardJobKind shard_move_kind = {sizeof(ShardMove), describe, run, undo};
