/*
 * place.c
 *	  The objects of a move on its nodes, and the switch of the shards to the target.
 *
 *	 target: schema.t --rows, indexes--> schema.t --(1) committed--> t
 *	 source: t ------------------------------------(2) prepared----> t, which raises "moved" --> dropped
 *	 here:	 t is on the source -------------------(3) commit------> t is on the target (also on other coordinators, placement.c)
 *
 * A split has two or more tables for t, a merge has one for several tables.  Source and target are the same node.
 * The new tables get their names in (1).  In (3) new foreign tables replace the old ones.
 *
 * (1) comes first: no session looks for t on the target before (3), and every session finds it there afterwards.  (2)
 * and (3) commit together (remote/xact/twophase.c), so the two tables never accept writes at the same time.
 *
 * The tables of the move have a comment until (3) is done, and a trigger after (2).  Recovery identifies the tables
 * that it drops only by these marks.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/group.h"
#include "catalog/moving.h"
#include "catalog/node_list.h"
#include "catalog/partition.h"
#include "compat.h"
#include "fault.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "move/job/table.h"
#include "move/place.h"
#include "move/placement.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "remote/run/command.h"
#include "remote/wire/wait.h"
#include "service/recover.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define POLL_MS 100				/* for older transactions, and for locks of the old tables */
#define DROP_LOCK_MS 200
#define TARGET_LOCK_MS 500
#define MAX_RELEASE_MS 5000		/* between such attempts */

PG_FUNCTION_INFO_V1(shardfdw_has_older_snapshots);

/* ---------- before ---------- */

/* Appends the commands of a part, if any, and a semicolon. */
static void
append_commands(StringInfo buf, const ShardMoveTable *table, const char *part)
{
	char	   *commands = shard_move_commands(table, part);

	if (commands)
		appendStringInfo(buf, "%s; ", commands);
}

/*
 * Appends the final commands for a table on the target, except foreign keys.  The owner is last, since it may be
 * another role.
 */
static void
append_finish(StringInfo buf, const ShardMoveTable *table)
{
	append_commands(buf, table, "comment");
	append_commands(buf, table, "owner");
}

/* Appends the old tables, for recovery, as elements of an array. */
static void
append_sources(const ShardMove *move, StringInfo buf)
{
	for (int i = 0; i < move->ntables; i++)
	{
		const ShardMoveTable *table = &move->tables[i];

		appendStringInfo(buf, "%s{\"side\": \"source\", \"name\": ", i > 0 ? ", " : "");
		escape_json(buf, table->remote_name);
		appendStringInfoString(buf, ", \"schema\": ");
		escape_json(buf, table->remote_schema);
		appendStringInfoString(buf, ", \"table\": ");
		escape_json(buf, table->remote_table);
		if (move->job.online && !table->identified)
			appendStringInfo(buf, ", \"identity\": \"%c\"", table->identity);
		appendStringInfoChar(buf, '}');
	}
}

/* Appends the new tables.  The first piece of a table has the commands for all pieces. */
static void
append_targets(const ShardMove *move, StringInfo buf)
{
	for (int i = 0; i < move->ntables; i++)
	{
		char	   *validate = shard_move_commands(&move->tables[i], "validate");
		StringInfoData finish;

		initStringInfo(&finish);
		append_finish(&finish, &move->tables[i]);
		foreach_ptr(const ShardMovePart, part, move->tables[i].parts)
		{
			if (strcmp(part->part, "piece") != 0)
				continue;
			/* {"name": ..., "schema": ..., "table": ...} */
			Assert(part->text[0] == '{');
			appendStringInfo(buf, "%s{\"side\": \"target\", \"finish\": ", buf->data[buf->len - 1] == '[' ? "" : ", ");
			escape_json(buf, finish.data);
			if (validate)
			{
				appendStringInfoString(buf, ", \"validate\": ");
				escape_json(buf, validate);
			}
			appendStringInfo(buf, ", %s", part->text + 1);
			resetStringInfo(&finish);
			validate = NULL;
		}
	}
}

/*
 * Makes the schemas of the move on a node, which is its source, its target, or both.  The first has a comment for
 * recovery, and for jobs of other coordinators: these must not work on the same tables.
 */
static void
append_schema(const ShardMove *move, bool of_source, bool of_target, StringInfo buf)
{
	StringInfoData note;
	char	   *turn;

	initStringInfo(&note);
	appendStringInfo(&note, "{\"server\": %u, \"other\": %u, \"tables\": [", of_source ? move->source : move->target,
					 of_source ? move->target : move->source);
	if (of_source)
		append_sources(move, &note);
	if (of_target)
		append_targets(move, &note);
	appendStringInfoString(&note, "]}");
	turn = of_source ? shard_own_sql_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".turn_command(%s)", quote_literal_cstr(note.data)), InvalidSnapshot) : NULL;
	if (turn)
		appendStringInfo(buf, "%s; ", turn);
	foreach_node(String, schema, shard_move_schemas(move))
		appendStringInfo(buf, "CREATE SCHEMA %s; %s; ", strVal(schema), shard_own_right_revoke("SCHEMA", strVal(schema)));
	appendStringInfo(buf, "COMMENT ON SCHEMA %s IS %s; ", move->schema, quote_literal_cstr(note.data));
	pfree(note.data);
}

/*
 * The trigger function of the old tables, which refuses changes.  It allows changes by a foreign key's action after a
 * row of a reference table has changed.  These are no longer visible, and the foreign key of the new table makes the
 * same change there.  Such changes come from within a trigger, and not from a function.
 */
static void
append_function(const ShardMove *move, StringInfo buf)
{
	appendStringInfo(buf, "CREATE FUNCTION %s.moved() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $moved$"
					 "DECLARE context text; "
					 "BEGIN GET DIAGNOSTICS context = PG_CONTEXT; "
					 "IF pg_trigger_depth() > 1 AND array_length(string_to_array(context, chr(10)), 1) = 2 THEN RETURN NULL; END IF; "
					 "RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', "
					 "MESSAGE = format('shard %%I.%%I has moved to another node', TG_TABLE_SCHEMA, TG_TABLE_NAME); END$moved$",
					 move->schema);
}

/*
 * Makes the keys, indexes and statistics objects of the staging tables.  Of several merged tables, one has the
 * commands.
 */
static void
make_indexes(const ShardMove *move)
{
	for (int i = 0; i < move->ntables; i++)
	{
		char	   *commands = shard_move_commands(&move->tables[i], "index");

		if (commands && shard_move_commands(&move->tables[i], "name"))
			shard_move_run(move, move->target, commands);
	}
}

/*
 * Names in a definition may mean other objects on the target than on the source.  So this checks which code a table
 * of another role would run there.  Only the job changes the staging table.
 */
static void
check_target(ShardMove *move)
{
	for (int i = 0; i < move->ntables; i++)
	{
		const ShardMoveTable *table = &move->tables[i];

		if (strcmp(shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".is_owner(%u)", table->parent)), "t") == 0)
			continue;
		if (!move->indexed && strcmp(shard_move_fact(table, "expressions"), "t") == 0)
		{
			make_indexes(move);
			move->indexed = true;
		}
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_owner_code_on_nodes(%u, 'move', %s, ARRAY[%s]::pg_catalog.name[], ARRAY[%s]::pg_catalog.name[])",
								 table->parent, quote_literal_cstr(table->staging_schema), quote_literal_cstr(table->remote_table), quote_literal_cstr(move->target_name)));
	}
}

void
shard_place_index(const ShardMove *move)
{
	if (!move->indexed)
		make_indexes(move);
	for (int i = 0; i < move->ntables; i++)
	{
		if (shard_move_commands(&move->tables[i], "name"))
			shard_move_run(move, move->target, psprintf("ANALYZE %s", move->tables[i].staging));
	}
	SHARD_FAULT_POINT("move_indexed");
}

static void
next_transaction(const ShardMove *move)
{
	shard_move_commit();
	shard_move_begin(move->job.userid);
}

/* Makes missing schemas of the tables on the target.  Existing ones must belong to roles that may replace the tables. */
static void
make_schemas(const ShardMove *move)
{
	for (int i = 0; i < move->ntables; i++)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".make_schema_on_nodes(%u, %s, ARRAY[%s]::pg_catalog.name[])", move->tables[i].parent,
								 quote_literal_cstr(move->tables[i].remote_schema), quote_literal_cstr(move->target_name)));
}

void
shard_place_prepare(ShardMove *move)
{
	StringInfoData source;
	StringInfoData target;

	/* a schema gets its owner while it is empty */
	make_schemas(move);
	next_transaction(move);
	initStringInfo(&target);
	for (int i = 0; i < move->ntables; i++)
		append_commands(&target, &move->tables[i], "schema");
	/* two concurrent GRANTs on a schema fail */
	if (target.len > 0)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".lock_new_objects(ARRAY[%s]::pg_catalog.name[])", quote_literal_cstr(move->target_name)));
	shard_move_run(move, move->target, target.data);
	/* again, since the source has returned the owner of the schema */
	make_schemas(move);
	for (int i = 0; i < move->ntables; i++)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".prepare_nodes(%u, 'move', ARRAY[%s]::pg_catalog.name[])",
								 move->tables[i].parent, quote_literal_cstr(move->target_name)));
	for (int i = 0; i < move->ntables && !SHARD_MOVE_REPLACES(move); i++)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_names_on_nodes(%u, 'move', ARRAY[%s]::pg_catalog.name[], %s)", move->tables[i].parent,
								 quote_literal_cstr(move->target_name), quote_literal_cstr(shard_move_fact(&move->tables[i], "names"))));
	next_transaction(move);

	initStringInfo(&source);
	append_schema(move, true, SHARD_MOVE_REPLACES(move), &source);
	append_function(move, &source);
	initStringInfo(&target);
	if (!SHARD_MOVE_REPLACES(move))
		append_schema(move, false, true, &target);
	for (int i = 0; i < move->ntables; i++)
		append_commands(&target, &move->tables[i], "table");
	move->on_nodes = true;
	shard_move_run(move, move->source, source.data);
	/* a job of another coordinator may have worked on the tables until now */
	shard_move_check_unchanged(move);
	shard_move_run(move, move->target, target.data);
	/* with replacement, the node stays the same and its names have been checked */
	if (!SHARD_MOVE_REPLACES(move))
		check_target(move);
	SHARD_FAULT_POINT("move_prepared");
}

/* ---------- the switch ---------- */

/* Raises an error if the group of shards that must stay on one node has changed. */
static void
check_group(const ShardMove *move)
{
	List	   *group = NIL;
	bool		same;

	for (int i = 0; i < move->nshards; i++)
		group = list_concat_unique_oid(group, shard_group_find(move->shards[i]));
	same = list_length(group) == move->ntables;
	for (int i = 0; i < move->ntables && same; i++)
		same = list_member_oid(group, move->tables[i].relid);
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the shards colocated with shard %s have changed while it was %s", move->tables[0].name, SHARD_MOVE_DONE(move)),
				 errhint("Start it again.")));
}

/* Locks out all other sessions from the tables, since their partitions are about to be exchanged. */
static void
lock_parents(const ShardMove *move, const ShardAttempts *attempts)
{
	for (int i = 0; i < move->ntables; i++)
	{
		shard_attempts_limit(attempts);
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".lock_schemas(%u)", move->tables[i].parent));
	}
	for (int i = 0; i < move->ntables; i++)
	{
		Oid			default_partition = get_default_partition_oid(move->tables[i].parent);

		shard_attempts_limit(attempts);
		LockRelationOid(move->tables[i].parent, AccessExclusiveLock);
		/* its bounds depend on those of the other partitions */
		if (OidIsValid(default_partition))
			LockRelationOid(default_partition, AccessExclusiveLock);
	}
}

/* Limits the wait for a node, see shard_attempts_await(). */
static void
await_node(ShardMove *move, Oid serverid)
{
	shard_attempts_await(&move->job, psprintf("node \"%s\"", serverid == move->source ? move->source_name : move->target_name));
}

/* Opens connections to all servers of the move, before other sessions wait for its locks. */
static void
open_connections(const ShardMove *move)
{
	ShardCommand command = {.serverid = move->source, .userid = move->job.userid, .sql = "SET LOCAL statement_timeout = 0"};

	shard_placement_open_peers(move);
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	shard_command_free(&command, 1);
	shard_move_run(move, move->target, "SET LOCAL lock_timeout = 0");
}

void
shard_place_lock(ShardMove *move, const ShardAttempts *attempts)
{
	StringInfoData names;
	ShardCommand command = {0};

	open_connections(move);
	shard_attempts_limit(attempts);
	shard_placement_lock_peers(move, shard_attempts_left_ms(attempts), true);
	if (SHARD_MOVE_REPLACES(move))
		lock_parents(move, attempts);
	initStringInfo(&names);
	for (int i = 0; i < move->ntables; i++)
	{
		const ShardMoveTable *table = &move->tables[i];

		shard_attempts_limit(attempts);
		LockRelationOid(table->relid, SHARD_MOVE_REPLACES(move) ? AccessExclusiveLock : ExclusiveLock);
		if (!SearchSysCacheExists1(FOREIGNTABLEREL, ObjectIdGetDatum(table->relid)) ||
			GetForeignServerIdByRelId(table->relid) != move->source)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("shard %s is no longer on node \"%s\"", table->name, move->source_name)));
		appendStringInfo(&names, "%sONLY %s", i > 0 ? ", " : "", table->remote_name);
	}
	shard_placement_lock_peers(move, shard_attempts_left_ms(attempts), false);
	/*
	 * under the locks: a session that adds a shard to the group holds them (hold_shards()) until the shard is visible
	 */
	check_group(move);
	await_node(move, move->source);
	command.serverid = move->source;
	command.userid = move->job.userid;
	command.sql = psprintf(SHARD_LINK_GIVE_WAY_SQL "; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = %d; "
						   "LOCK TABLE %s IN EXCLUSIVE MODE; SET LOCAL lock_timeout = 0", shard_attempts_left_ms(attempts), names.data);
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	shard_command_free(&command, 1);
	shard_move_limit_locks(0);
	SHARD_FAULT_POINT("move_locked");
}

/* A piece has a new name and other rows than its source, so it names this transaction, as new shards do. */
static void
append_named_by(StringInfo buf, const ShardMoveTable *table)
{
	foreach_ptr(const ShardMovePart, part, table->parts)
	{
		if (strcmp(part->part, "named_by") == 0)
			appendStringInfo(buf, "%s%s; ", part->text, quote_literal_cstr(shard_identity_named_by()));
	}
}

/*
 * (1): the tables and their objects get their names on the target.  Returns false if another session has locked a
 * table that a foreign key references.
 */
static bool
finish_on_target(ShardMove *move)
{
	StringInfoData sql;

	await_node(move, move->target);
	initStringInfo(&sql);
	appendStringInfo(&sql, "SET LOCAL lock_timeout = %d; ", TARGET_LOCK_MS);
	for (int i = 0; i < move->ntables; i++)
	{
		append_commands(&sql, &move->tables[i], "name");
		append_named_by(&sql, &move->tables[i]);
	}
	for (int i = 0; i < move->ntables; i++)
		append_commands(&sql, &move->tables[i], "finish");
	if (!shard_move_try(move, move->target, sql.data))
		return false;
	SHARD_FAULT_POINT("move_named");
	return true;
}

/* (2): the old tables refuse changes. */
static void
close_on_source(ShardMove *move)
{
	ShardCommand command;
	StringInfoData sql;

	await_node(move, move->source);
	initStringInfo(&sql);
	for (int i = 0; i < move->ntables; i++)
		appendStringInfo(&sql, "%sCREATE TRIGGER shardfdw_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s"
						 " FOR EACH STATEMENT EXECUTE FUNCTION %s.moved(); ALTER TABLE %s ENABLE ALWAYS TRIGGER shardfdw_moved",
						 i > 0 ? "; " : "", move->tables[i].remote_name, move->schema, move->tables[i].remote_name);
	command = (ShardCommand) {.serverid = move->source, .userid = move->job.userid, .sql = sql.data};
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	shard_command_free(&command, 1);
	SHARD_FAULT_POINT("move_closed");
}

/* (3) for splits and merges: new partitions replace the old ones.  No other session uses the table. */
static void
set_partitions(const ShardMoveTable *table)
{
	char	   *commands = shard_move_commands(table, "place");

	if (commands)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".run_here(%s)", quote_literal_cstr(commands)));
}

/* Records the new shards in the journal, so that their definitions are not changed until the job has ended. */
static void
note_placed(const ShardMove *move)
{
	List	   *names = NIL;

	for (int i = 0; i < move->ntables; i++)
	{
		foreach_ptr(const ShardMovePart, part, move->tables[i].parts)
		{
			if (strcmp(part->part, "placed") == 0)
				names = lappend(names, unconstify(char *, part->text));
		}
	}
	shard_job_set_tables(&move->job, names);
}

bool
shard_place_switch(ShardMove *move)
{
	if (!finish_on_target(move))
		return false;
	close_on_source(move);
	if (SHARD_MOVE_REPLACES(move))
	{
		for (int i = 0; i < move->ntables; i++)
		{
			shard_attempts_await(&move->job, shard_node_is_member() ? "another coordinator" : NULL);
			set_partitions(&move->tables[i]);
		}
		note_placed(move);
	}
	else
		shard_placement_switch(move);
	shard_job_enter_stage(&move->job, "dropping");
	SHARD_FAULT_POINT("move_placed");
	return true;
}

/* ---------- after ---------- */

/*
 * Query for the old tables, under any name, that have the trigger of the move.  The format argument is the move's
 * schema.
 */
#define OLD_TABLES \
	"SELECT g.tgrelid FROM pg_trigger g WHERE g.tgname = 'shardfdw_moved' AND g.tgfoid = to_regprocedure('%s.moved()')"

/*
 * The switch is committed here.  The source may not have got the second phase, if it did not answer then.  Until it
 * does, its old tables are locked and have no trigger.
 */
static void
settle_source(const ShardMove *move)
{
	shard_move_begin(move->job.userid);
	shard_recover_log(shard_recover_settle(move->source));
	shard_move_commit();
}

/*
 * Tries to drop the foreign keys of the old tables.  Sessions that read these tables on the source block the attempt,
 * and wait behind it.
 */
static void
try_release(ShardMove *move)
{
	shard_move_begin(move->job.userid);
	move->released = shard_move_try(move, move->source, shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".release_command('%s')", move->schema)));
	shard_move_commit();
	SHARD_FAULT_POINT("move_released");
}

void
shard_place_finish(ShardMove *move)
{
	settle_source(move);
	try_release(move);
	shard_move_begin(move->job.userid);
	for (int i = 0; i < move->ntables; i++)
	{
		StringInfoData sql;

		initStringInfo(&sql);
		append_commands(&sql, &move->tables[i], "validate");
		append_finish(&sql, &move->tables[i]);
		shard_move_run(move, move->target, sql.data);
	}
	shard_move_commit();
	SHARD_FAULT_POINT("move_finished");
}

/* Finds the transactions with snapshots older than the end of limit.  *n: their number. */
static VirtualTransactionId *
find_older(TransactionId limit, int *n)
{
	return GetCurrentVirtualXIDs(limit, true, false, PROC_IS_AUTOVACUUM | PROC_IN_VACUUM, n);
}

static bool
is_among(VirtualTransactionId vxid, const VirtualTransactionId *others, int nothers)
{
	for (int i = 0; i < nothers; i++)
	{
		if (VirtualTransactionIdEquals(vxid, others[i]))
			return true;
	}
	return false;
}

/* Keeps in vxids the transactions that still have such snapshots and do not wait for a move.  Returns their number. */
static int
keep_older(TransactionId limit, VirtualTransactionId *vxids, int n)
{
	int			nnow;
	int			nwaiting;
	VirtualTransactionId *now = find_older(limit, &nnow);
	VirtualTransactionId *waiting = shard_moving_waiting(&nwaiting);
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		if (is_among(vxids[i], now, nnow) && !is_among(vxids[i], waiting, nwaiting))
			vxids[nkept++] = vxids[i];
	}
	pfree(now);
	pfree(waiting);
	return nkept;
}

/* has_older_snapshots(placed_by xid) -> boolean */
Datum
shardfdw_has_older_snapshots(PG_FUNCTION_ARGS)
{
	TransactionId limit = PG_GETARG_TRANSACTIONID(0);
	int			nolder;
	VirtualTransactionId *older = find_older(limit, &nolder);

	PG_RETURN_BOOL(keep_older(limit, older, nolder) > 0);
}

/*
 * Waits until no statement can still use the map from before the switch.  Each such statement has a snapshot older
 * than a transaction that starts now.  A statement that starts later may have such a snapshot, but not the old map.
 */
static void
wait_for_older(ShardMove *move)
{
	TransactionId limit;
	VirtualTransactionId *older;
	bool		told = false;
	int			nolder;
	int			release_ms = POLL_MS;

	shard_move_begin(move->job.userid);
	limit = GetTopTransactionId();
	shard_move_commit();
	older = find_older(limit, &nolder);
	while ((nolder = keep_older(limit, older, nolder)) > 0)
	{
		if (!told)
			shard_job_set_waiting(&move->job, "transactions on the coordinator that began before the switch, and may read the old tables");
		told = true;
		shard_wait_pause(move->released ? POLL_MS : release_ms, false);
		release_ms = Min(release_ms * 2, MAX_RELEASE_MS);
		if (!move->released)
			try_release(move);
	}
	pfree(older);
	if (told)
		shard_job_set_waiting(&move->job, NULL);
}

/* Repeats settle_source() from time to time during a wait for locks on the source. */
static void
settle_now_and_then(const ShardMove *move, TimestampTz *settled_at)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(*settled_at, now, MAX_RELEASE_MS))
		return;
	*settled_at = now;
	settle_source(move);
}

/*
 * Drops the old tables.  Returns false if a session, maybe of another coordinator, is reading them, or the source has
 * not committed the switch.  Errors: one of them accepts changes.
 */
static bool
try_drop(const ShardMove *move)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SET LOCAL lock_timeout = %d; SET LOCAL search_path = pg_catalog, pg_temp; DO $drop$DECLARE t regclass; old text; BEGIN "
					 "FOR t IN SELECT c.oid FROM pg_class c WHERE c.oid IN (", DROP_LOCK_MS);
	for (int i = 0; i < move->ntables; i++)
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "", shard_move_fact(&move->tables[i], "oid"));
	appendStringInfo(&sql, ") LOOP EXECUTE format('LOCK TABLE %%s IN ACCESS EXCLUSIVE MODE', t); "
					 "IF t NOT IN (" OLD_TABLES ") THEN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', "
					 "MESSAGE = format('table %%s has moved to another node, and takes changes', t); END IF; "
					 "old := concat_ws(', ', old, t::text); END LOOP; "
					 "IF old IS NOT NULL THEN EXECUTE 'DROP TABLE ' || old; END IF; END$drop$", move->schema);
	if (move->job.online)
		appendStringInfo(&sql, "; DROP PUBLICATION IF EXISTS %s", move->schema);
	appendStringInfo(&sql, "; %s", shard_move_drop_schemas(move));
	return shard_move_try(move, move->source, sql.data);
}

/* Runs ANALYZE on the coordinator for pieces of shards that had statistics there. */
static void
analyze_here(const ShardMove *move)
{
	for (int i = 0; i < move->ntables; i++)
	{
		const char *commands = shard_move_fact(&move->tables[i], "analyze");

		if (commands[0] == '\0')
			continue;
		shard_move_begin(move->job.userid);
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".run_here(%s)", quote_literal_cstr(commands)));
		shard_move_commit();
	}
}

void
shard_place_drop(ShardMove *move)
{
	bool		told = false;
	bool		dropped;
	TimestampTz settled_at = GetCurrentTimestamp();

	/* with replacement, no session has the old map, since all such sessions had locked the table */
	if (!SHARD_MOVE_REPLACES(move))
	{
		wait_for_older(move);
		shard_placement_wait_for_peers(move);
	}
	for (;;)
	{
		shard_move_begin(move->job.userid);
		dropped = try_drop(move);
		shard_move_commit();
		if (dropped)
			break;
		if (!told)
			shard_job_set_waiting(&move->job, psprintf("sessions on node \"%s\" that read the old tables, or a prepared transaction there", move->source_name));
		told = true;
		shard_wait_pause(POLL_MS, false);
		settle_now_and_then(move, &settled_at);
	}
	shard_move_begin(move->job.userid);
	shard_move_run(move, move->target, shard_move_drop_schemas(move));
	shard_move_commit();
	SHARD_FAULT_POINT("move_dropped");
	analyze_here(move);
}
