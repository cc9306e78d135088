/*
 * worker.c
 *	  The process that moves, splits and merges shards, converts a table (conversion.c), imports rows
 *	  (import/import_job.c), or runs such jobs one after the other (series.c).
 *
 *	 waiting for its turn --> checking --> preparing --> copying --> indexing --> [catching up -->
 *	 comparing -->] switching --> dropping --> done
 *
 * At a time, only one job works on a node until its shards have moved, and only one works on a shard.  Only one job
 * splits or merges shards of a table.  If a move fails before the switch, the shards stay on the source, and the
 * objects of the move are removed.  After the switch the shards are on the target.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/moving.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "miscadmin.h"
#include "move/block.h"
#include "move/conversion.h"
#include "move/import/import_job.h"
#include "move/job/job.h"
#include "move/job/table.h"
#include "move/job/turn.h"
#include "move/leftover.h"
#include "move/online.h"
#include "move/place.h"
#include "move/series.h"
#include "move/worker.h"
#include "own_schema.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "service/recover.h"
#include "service/worker_settings.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "version.h"

#define BEGIN_LOCK_TIMEOUT "5s"

static ShardMove *
make_move(const ShardJobArgs *args)
{
	ShardMove  *move = palloc0(sizeof(ShardMove));

	move->cxt = CurrentMemoryContext;
	move->userid = args->userid;
	move->nshards = args->nshards;
	memcpy(move->shards, args->shards, sizeof(move->shards));
	move->target = args->target;
	move->npieces = args->npieces;
	move->online = args->online;
	move->verify = args->verify;
	move->progress.lag_bytes = -1;
	return move;
}

static void
enter_stage(const ShardMove *move, const char *stage)
{
	pgstat_report_activity(STATE_RUNNING, psprintf("job " INT64_FORMAT ": %s", move->id, stage));
	shard_job_set_stage(move->id, stage);
}

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
	{
		shard_move_begin(move->userid);
		shard_turn_take(move->id, move->userid, RelationRelationId, lfirst_oid(lc));
		shard_move_commit();
	}
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
		shard_move_begin(move->userid);
		shard_turn_take(move->id, move->userid, ForeignServerRelationId, Min(move->source, move->target));
		if (move->source != move->target)
			shard_turn_take(move->id, move->userid, ForeignServerRelationId, Max(move->source, move->target));
		shard_move_find_tables(move);
		if (move->source != before.source)
		{
			give_turns_of_nodes(&before);
			if (SHARD_MOVE_REPLACES(move))
				shard_move_set_target(move, move->source);
			shard_job_set_nodes(move->id, move->source_name, move->target_name);
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
insert_row(const ShardMove *move)
{
	Oid		   *relids = palloc(sizeof(Oid) * move->ntables);
	const char **names = palloc(sizeof(char *) * move->ntables);
	ShardJobRow row = {
		.id = move->id, .kind = kind_of(move), .ntables = move->ntables, .relids = relids, .names = names,
		.source_name = move->source_name, .target_name = move->target_name, .mode = move->online ? "online" : "block", .userid = move->userid
	};

	for (int i = 0; i < move->ntables; i++)
	{
		relids[i] = move->tables[i].relid;
		names[i] = move->tables[i].name;
	}
	shard_job_insert(&row);
}

/* Begins the job: writes its row, and waits until no other job works on its nodes. */
static void
begin_job(ShardMove *move, const ShardJobArgs *args)
{
	MemoryContext oldcxt;
	char	   *plan;

	shard_move_begin(move->userid);
	shard_version_check();
	/* a session that waits for the row may have locked the tables */
	(void) set_config_option("lock_timeout", BEGIN_LOCK_TIMEOUT, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	oldcxt = MemoryContextSwitchTo(move->cxt);
	move->id = shard_job_link(args, &plan);
	move->at = plan;
	MemoryContextSwitchTo(oldcxt);
	shard_move_find_tables(move);
	insert_row(move);
	shard_move_commit();
	enter_stage(move, "waiting for its turn");
	take_turns_of_tables(move);
	take_turns_of_nodes(move);
}

/* Checks all conditions that can be known, before anything is changed. */
static void
check(ShardMove *move)
{
	const char *mode = move->online ? "online" : "block";
	const char *source;
	const char *target;

	enter_stage(move, "checking");
	source = quote_literal_cstr(move->source_name);
	target = quote_literal_cstr(move->target_name);
	shard_move_begin(move->userid);
	if (SHARD_MOVE_IS_SPLIT(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_split_here(%u, %d, %s, '%s')", move->shards[0], move->npieces, quote_literal_cstr(move->at), mode));
	else if (SHARD_MOVE_IS_MERGE(move))
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_merge_here(%s, '%s')", shard_move_array(move), mode));
	else
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_move_here(%u, %s, '%s')", move->shards[0], target, mode));
	/* no other job runs on these nodes, since this one has their turns */
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_recovered(%s, '%s', false)", shard_move_array(move), SHARD_MOVE_DONE(move)));
	/* tables locked by a prepared transaction cannot be checked, and the slot would wait for the transaction */
	shard_recover_log(list_concat(shard_recover_settle(move->source), move->target == move->source ? NIL : shard_recover_settle(move->target)));
	shard_leftover_remove_from(move->source, move->target);
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
	enter_stage(move, "preparing");
	shard_move_begin(move->userid);
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
	pgstat_report_activity(STATE_RUNNING, psprintf("job " INT64_FORMAT ": dropping", move->id));
	shard_place_finish(move);
	if (move->has_nodes)
		give_turns_of_nodes(move);
	move->has_nodes = false;
	shard_place_drop(move);
}

static void
run_move(ShardMove *move, const ShardJobArgs *args)
{
	begin_job(move, args);
	check(move);
	prepare(move);
	if (move->online)
		shard_online_run(move, enter_stage);
	else
		shard_block_run(move, enter_stage);
	finish(move);
	shard_job_end(move->id, NULL);
}

/* Removes the objects of a failed job.  Recovery removes the rest. */
static void
remove_traces(ShardMove *move)
{
	PG_TRY();
	{
		if (move->switched)
			finish(move);		/* waits for sessions that may read the old tables */
		shard_move_begin(move->userid);
		shard_leftover_remove_own(move);
		shard_move_commit();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/* Ends a job that has failed with error. */
static void
end_failed(ShardMove *move, ErrorData *error)
{
	QueryCancelPending = false;
	if (move->switched && error->hint == NULL)
		error->hint = "The shards are where they should be. What is left of the job is removed by SELECT shardfdw.recover_prepared_transactions().";
	if (!move->switched)
		shard_job_name_dropped(move->id, error);
	if (move->on_nodes)
		remove_traces(move);
	shard_job_end(move->id, error);
}

/* Exactly one of move, conversion, import and series is not NULL. */
static void
run_to_end(ShardMove *move, ShardConversion *conversion, ShardTableImport *import, ShardSeries *series, const ShardJobArgs *args)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		if (series)
			shard_series_run(series, args);
		else if (import)
			shard_import_run(import, args);
		else if (conversion)
			shard_conversion_run(conversion, args);
		else
			run_move(move, args);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		HOLD_INTERRUPTS();
		error = CopyErrorData();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
		MemoryContextSwitchTo(cxt);
		if (series)
			shard_series_end_failed(series, error);
		else if (import)
			shard_import_end_failed(import, error);
		else if (conversion)
			shard_conversion_end_failed(conversion, error);
		else
			end_failed(move, error);
	}
	PG_END_TRY();
}

void
shard_mover_main(Datum arg)
{
	ShardJobArgs args;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(args.database, InvalidOid, 0);
	shard_worker_settings_apply();
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "shardfdw job", ALLOCSET_DEFAULT_SIZES));
	if (args.series)
		run_to_end(NULL, NULL, NULL, shard_series_make(&args), &args);
	else if (args.imported)
		run_to_end(NULL, NULL, shard_import_make(&args), NULL, &args);
	else if (OidIsValid(args.converted))
		run_to_end(NULL, shard_conversion_make(&args), NULL, NULL, &args);
	else
		run_to_end(make_move(&args), NULL, NULL, NULL, &args);
}
