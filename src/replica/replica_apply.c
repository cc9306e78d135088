/*
 * replica_apply.c
 *	  Sends a transaction's changes of shards to the replicas of these shards.
 *
 * Triggers of a shard note the keys of the rows that each write changes, whatever code has sent the write.  They refuse
 * to let the transaction commit while there are notes (49_replica.sql).  So the executor needs no code for replicas:
 *
 *	 each connection that has written --> which shards have notes?
 *	 primary --> keys whose rows existed before --> DELETE on the replicas, counts compared
 *			`--> rows of all noted keys, as they are now --> COPY into the replicas
 *	 primary: notes are deleted
 *
 * If few keys are noted, the primary returns the rows together with the keys.  Then each replica gets all changes in
 * one message, while the notes are deleted (replica_few.c).
 *
 * All of this is part of the transaction, which then commits in two phases.  The primary has locked the rows and
 * checked unique keys.  So transactions wait for each other on the primary only, and never on replicas.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "catalog/table_right.h"
#include "compat.h"
#include "replica/replica.h"
#include "replica/replica_few.h"
#include "replica/replica_rows.h"
#include "replica/replica_sql.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "remote/run/command.h"
#include "remote/run/settle.h"
#include "remote/xact/txn_private.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

/* The setting in which triggers list the shards that have notes: a text[] of qualified names. */
#define NOTED "shardfdw_replica.noted"
#define APPLIED "shardfdw_replica.applied"

/* If this setting is on, the trigger that looks for notes at the commit deletes them. */
#define FORGET "shardfdw_replica.forget"

/* The setting in which triggers count the keys that they have noted, of all shards together. */
#define NOTED_KEYS "shardfdw_replica.noted_keys"

/* Maximum size of the keys that one shard may return. */
#define MAX_KEY_BYTES ((size_t) 1024 * 1024 * 1024)

/* A shard with notes, on a connection that has written. */
typedef struct NotedShard
{
	Oid			userid;			/* the user whose mapping was used for the writes */
	const ShardMap *map;
	const Shard *shard;
	ShardReplicaSql sql;
	bool		may_read;		/* rights of the user on the primary: to read all columns, not only those of the key */
	bool		may_insert;
	bool		may_delete;
	bool		is_few;			/* few keys: changes are read by sql.few; otherwise by sql.keys and COPY */
	ShardReplicaFew few;
	ShardCommand *answer;		/* to sql.keys */
	int64		nrows;			/* number of rows that exist now */
} NotedShard;

/*
 * Start time of the last transaction that has changed shards with replicas, including shards whose replicas are stale.
 */
static TimestampTz sent_by = 0;

/* ---------- which shards ---------- */

static NotedShard *
make_noted(const char *name, const ShardWriter *writer)
{
	NotedShard *noted = palloc0(sizeof(NotedShard));
	const RangeVar *shard = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));
	Oid			relid;
	int			shardno = -1;

	/* the user that is current now may have no rights on a schema to which a function has written */
	relid = shard->schemaname == NULL ? InvalidOid : get_relname_relid(shard->relname, get_namespace_oid(shard->schemaname, true));
	noted->userid = writer->userid;
	if (OidIsValid(relid) && get_rel_relispartition(relid))
	{
		noted->map = shard_map_get(get_partition_parent(relid, false));
		shardno = noted->map ? shard_map_find(noted->map, relid) : -1;
	}
	if (shardno < 0 || noted->map->shards[shardno].serverid != writer->serverid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s on node \"%s\" has replicas, but is no shard of this coordinator there", name, writer->node),
				 errdetail("Triggers on the node note what has to be sent to replicas.")));
	noted->shard = &noted->map->shards[shardno];
	shard_replica_sql(noted->map, shardno, &noted->sql);
	return noted;
}

/* Asks all connections that have written which shards have notes: List of NotedShard. */
static List *
find_noted(void)
{
	int			nwriters = list_length(shard_txn_writers);
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(nwriters, 1));
	List	   *noted = NIL;

	foreach_ptr(const ShardWriter, writer, shard_txn_writers)
	{
		ShardCommand *command = &commands[foreach_current_index(writer)];

		*command = (ShardCommand) {.serverid = writer->serverid, .userid = writer->userid,
			.sql = "SELECT pg_catalog.current_setting('" NOTED "', true), pg_catalog.current_setting('" NOTED_KEYS "', true)",
			.only_reads = true, .nfields = 2};
	}
	shard_command_run(commands, nwriters, SHARD_COMMAND_WRITE, false);
	foreach_ptr(ShardWriter, writer, shard_txn_writers)
	{
		const PGresult *res = commands[foreach_current_index(writer)].result;

		if (PQntuples(res) != 1 || PQgetisnull(res, 0, 0) || PQgetvalue(res, 0, 0)[0] == '\0')
			continue;
		foreach_ptr(char, shard_name, shard_option_list(PQgetvalue(res, 0, 0)))
		{
			NotedShard *one = make_noted(shard_name, writer);

			one->is_few = one->shard->nreplicas == 0 || strtoi64(PQgetvalue(res, 0, 1), NULL, 10) <= SHARD_REPLICA_FEW_KEYS;
			noted = lappend(noted, one);
		}
	}
	shard_command_free(commands, nwriters);
	return noted;
}

/* ---------- rights ---------- */

static void
report_rights(const NotedShard *noted)
{
	Oid			top = shard_map_top(noted->map->relid);
	const char *role = GetUserNameFromId(noted->userid, false);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" has too few privileges to change replicas of shards of table \"%s\"", role, get_rel_name(top)),
			 errdetail("Changed rows are read on node \"%s\", deleted from the replicas, and inserted there again.",
					   GetForeignServer(noted->shard->serverid)->servername),
			 errhint("The owner of the table can run: GRANT SELECT, INSERT, DELETE ON TABLE %s TO %s",
					 shard_qualified_relation(top), quote_identifier(role))));
}

/*
 * Raises an error if the user may not make the changes on the replicas. deletes, inserts: the operations that are
 * needed.
 */
static void
check_changes(const NotedShard *noted, bool deletes, bool inserts)
{
	if ((deletes && !noted->may_delete) || (inserts && (!noted->may_insert || !noted->may_read)))
		report_rights(noted);
}

/*
 * Finds the rights of the users.  If a user has too few rights here, asks the primary, because the user's role on the
 * node may have more rights.
 */
static void
find_rights(List *noted)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * list_length(noted));
	NotedShard **of = palloc(sizeof(NotedShard *) * list_length(noted));
	int			ncommands = 0;

	foreach_ptr(NotedShard, one, noted)
	{
		Oid			top = shard_map_top(one->map->relid);

		one->may_read = one->may_insert = one->may_delete = true;
		if (one->shard->nreplicas == 0 ||
			(shard_table_right_on_all(top, one->userid, ACL_SELECT) && shard_table_right_on_all(top, one->userid, ACL_INSERT) &&
			 pg_class_aclcheck(top, one->userid, ACL_DELETE) == ACLCHECK_OK))
			continue;
		commands[ncommands] = (ShardCommand) {.serverid = one->shard->serverid, .userid = one->userid,
			.sql = shard_replica_rights_query(one->map, one->shard), .label = one->shard->name, .only_reads = true, .nfields = 4};
		of[ncommands++] = one;
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
	{
		const PGresult *res = commands[i].result;
		bool		may[4];

		for (int j = 0; j < lengthof(may); j++)
			may[j] = PQntuples(res) == 1 && strcmp(PQgetvalue(res, 0, j), "t") == 0;
		/* without the columns of the key, the changed rows cannot be found */
		if (!may[1])
			report_rights(of[i]);
		of[i]->may_read = may[0];
		of[i]->is_few &= may[0];
		of[i]->may_insert = may[2];
		of[i]->may_delete = may[3];
	}
	shard_command_free(commands, ncommands);
}

/* ---------- keys ---------- */

static void
report_not_told(const NotedShard *noted)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("what was changed in shard %s cannot be told from its notes", noted->shard->name),
			 errhint("Its triggers on node \"%s\" may have been disabled, or its primary key may not hold there.",
					 GetForeignServer(noted->shard->serverid)->servername)));
}

/*
 * For shards with few keys, asks the primaries for the keys and the rows.  A shard with a long row does not count as a
 * shard with few keys any more.
 */
static void
ask_few(List *noted)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(list_length(noted), 1));
	NotedShard **of = palloc(sizeof(NotedShard *) * Max(list_length(noted), 1));
	int			ncommands = 0;

	foreach_ptr(NotedShard, one, noted)
	{
		/* if all replicas are stale, the notes are only deleted */
		if (!one->is_few || one->shard->nreplicas == 0)
			continue;
		commands[ncommands] = (ShardCommand) {.serverid = one->shard->serverid, .userid = one->userid,
			.sql = one->sql.few, .label = one->shard->name, .portable_text = true,
			.nfields = 3 + one->sql.nkeys + one->sql.ncolumns, .max_bytes = MAX_KEY_BYTES};
		of[ncommands++] = one;
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
	{
		shard_replica_few_read(commands[i].result, &of[i]->sql, &of[i]->few);
		if (!of[i]->few.is_told)
			report_not_told(of[i]);
		of[i]->is_few = of[i]->few.is_short;
		if (of[i]->is_few)
			check_changes(of[i], of[i]->few.nbefore > 0, of[i]->few.rows.len > 0);
	}
	shard_command_free(commands, ncommands);
}

/* Asks the primaries for the keys. */
static ShardCommand *
ask_keys(List *noted)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * list_length(noted));

	foreach_ptr(NotedShard, one, noted)
	{
		ShardCommand *command = &commands[foreach_current_index(one)];

		*command = (ShardCommand) {.serverid = one->shard->serverid, .userid = one->userid, .sql = one->sql.keys,
			.label = one->shard->name, .portable_text = true, .nfields = 3 + one->sql.nkeys,
			.max_bytes = MAX_KEY_BYTES};
		one->answer = command;
	}
	shard_command_run(commands, list_length(noted), SHARD_COMMAND_WRITE, false);
	return commands;
}

static int64
number_of(const PGresult *res, int row, int field)
{
	return PQgetisnull(res, row, field) ? 0 : strtoi64(PQgetvalue(res, row, field), NULL, 10);
}

/* A row of the answer: keys, some of whose rows existed before the transaction. */
typedef struct KeyChunk
{
	const NotedShard *noted;
	int64		nbefore;
	const char **arrays;
} KeyChunk;

/* Returns the chunks with rows that replicas must delete: List of KeyChunk.  Counts the rows that exist now. */
static List *
read_keys(List *noted)
{
	List	   *chunks = NIL;

	foreach_ptr(NotedShard, one, noted)
	{
		const PGresult *res = one->answer->result;

		for (int row = 0; row < PQntuples(res); row++)
		{
			KeyChunk   *chunk;

			one->nrows += number_of(res, row, 0);
			if (number_of(res, row, 2) != 0)
				report_not_told(one);
			if (number_of(res, row, 1) == 0)
				continue;
			chunk = palloc0(sizeof(KeyChunk));
			chunk->noted = one;
			chunk->nbefore = number_of(res, row, 1);
			chunk->arrays = palloc(sizeof(char *) * one->sql.nkeys);
			for (int i = 0; i < one->sql.nkeys; i++)
				chunk->arrays[i] = PQgetvalue(res, row, 3 + i);
			chunks = lappend(chunks, chunk);
		}
	}
	return chunks;
}

/* ---------- deleting ---------- */

/* is_held: the node has prepared transactions that no session is about to end.  They may have changed these rows. */
static void
report_difference(const NotedShard *noted, Oid serverid, int64 nfound, int64 nwanted, bool is_held)
{
	const char *node = GetForeignServer(serverid)->servername;

	/* the node's snapshot may be older than a commit that the primary's snapshot shows */
	if (IsolationUsesXactSnapshot() && nfound < nwanted)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to the replica of shard %s on node \"%s\"", noted->shard->name, node),
				 errdetail("%lld rows were to be changed there, %lld were found.", (long long) nwanted, (long long) nfound),
				 errhint("The transaction might succeed if retried; shardfdw.compare_replicas() shows whether the replica differs.")));
	if (is_held)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("rows of the replica of shard %s on node \"%s\" are missing, and transactions are prepared there", noted->shard->name, node),
				 errdetail("%lld rows were to be changed there, %lld were found.", (long long) nwanted, (long long) nfound),
				 errhint("SELECT * FROM shardfdw.recover_prepared_transactions() commits them or rolls them back. Then try again.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the replica of shard %s on node \"%s\" differs", noted->shard->name, node),
			 errdetail("%lld rows were to be changed there, %lld were found.", (long long) nwanted, (long long) nfound),
			 errhint("Have it made again: SELECT shardfdw.disable_node(%s); SELECT shardfdw.enable_node(%s).",
					 quote_literal_cstr(node), quote_literal_cstr(node))));
}

/* Returns how many of the rows to be deleted a command for a replica has found. */
static int64
found_by(const ShardCommand *command, const NotedShard *noted)
{
	return noted->is_few ? number_of(command->result, 0, 0) : strtoi64(PQcmdTuples(command->result), NULL, 10);
}

/*
 * Checks whether a command for a replica has found nwanted rows.  If it has found fewer, the missing rows may belong to
 * prepared transactions of that node.
 */
static void
check_found(const ShardCommand *command, const NotedShard *noted, int64 nwanted)
{
	int64		nfound = found_by(command, noted);
	bool		is_held = false;

	if (nfound < nwanted && !IsolationUsesXactSnapshot())
	{
		ShardCommand again = *command;

		is_held = shard_settle_wait(list_make1_oid(command->serverid), command->userid, SHARD_COMMAND_WRITE) != NIL;
		if (noted->is_few)
			again.sql = shard_replica_few_command(&noted->sql, &noted->few, nwanted - nfound);
		shard_command_run(&again, 1, SHARD_COMMAND_WRITE, false);
		nfound += found_by(&again, noted);
		shard_command_free(&again, 1);
	}
	if (nfound != nwanted)
		report_difference(noted, command->serverid, nfound, nwanted, is_held);
}

/* Runs sql on all replicas of the shards, once for each connection. */
static void
run_on_replicas(List *noted, const char *sql)
{
	ShardCommand *commands;
	int			ncommands = 0;
	int			nmax = 0;

	foreach_ptr(NotedShard, one, noted)
		nmax += one->shard->nreplicas;
	commands = palloc0(sizeof(ShardCommand) * Max(nmax, 1));
	foreach_ptr(const NotedShard, one, noted)
	{
		for (int i = 0; i < one->shard->nreplicas; i++)
		{
			bool		found = false;

			for (int j = 0; j < ncommands && !found; j++)
				found = commands[j].serverid == one->shard->replicas[i] && commands[j].userid == one->userid;
			if (found)
				continue;
			commands[ncommands].serverid = one->shard->replicas[i];
			commands[ncommands].userid = one->userid;
			commands[ncommands++].sql = sql;
		}
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
}

static void
delete_rows(List *chunks)
{
	ShardCommand *commands;
	const KeyChunk **of;
	int			ncommands = 0;
	int			nmax = 0;

	foreach_ptr(KeyChunk, chunk, chunks)
		nmax += chunk->noted->shard->nreplicas;
	commands = palloc0(sizeof(ShardCommand) * Max(nmax, 1));
	of = palloc(sizeof(KeyChunk *) * Max(nmax, 1));
	foreach_ptr(const KeyChunk, chunk, chunks)
	{
		const Shard *shard = chunk->noted->shard;

		for (int i = 0; i < shard->nreplicas; i++)
		{
			ShardCommand *command = &commands[ncommands];

			*command = (ShardCommand) {.serverid = shard->replicas[i], .userid = chunk->noted->userid,
				.sql = chunk->noted->sql.delete, .label = shard->name, .nparams = chunk->noted->sql.nkeys,
				.params = chunk->arrays, .inlines = true};
			of[ncommands++] = chunk;
		}
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
		check_found(&commands[i], of[i]->noted, of[i]->nbefore);
	shard_command_free(commands, ncommands);
}

/* ---------- rows ---------- */

static void
send_rows(const NotedShard *noted, ShardCopySet *set, MemoryContext cxt)
{
	const Shard *shard = noted->shard;
	int64		nrows = shard_replica_rows_send(shard, noted->userid, noted->sql.rows, noted->sql.insert, shard->replicas, shard->nreplicas, set, cxt);

	if (nrows != noted->nrows)
		elog(ERROR, "shard %s has " INT64_FORMAT " rows to be copied instead of " INT64_FORMAT, shard->name, nrows, noted->nrows);
}

static void
insert_rows(List *noted, MemoryContext cxt)
{
	ShardCopySet *set = shard_copy_set_create(cxt, NULL, NULL);

	foreach_ptr(NotedShard, one, noted)
		if (one->nrows > 0)
			send_rows(one, set, cxt);
	shard_copy_set_finish(set);
}

/* Sends the changes of shards with many noted keys: deletes and inserts on all replicas. */
static void
send_many(List *noted, MemoryContext cxt)
{
	ShardCommand *commands;
	List	   *chunks;

	if (noted == NIL)
		return;
	commands = ask_keys(noted);
	chunks = read_keys(noted);
	foreach_ptr(const NotedShard, one, noted)
		check_changes(one, false, one->nrows > 0);
	foreach_ptr(const KeyChunk, chunk, chunks)
		check_changes(chunk->noted, true, false);
	run_on_replicas(noted, SHARD_REPLICA_APPLY_ON);
	delete_rows(chunks);
	insert_rows(noted, cxt);
	run_on_replicas(noted, SHARD_REPLICA_APPLY_OFF);
	shard_command_free(commands, list_length(noted));
}

/* ---------- few rows, and notes ---------- */

/*
 * Returns the commands that delete the notes of a connection.  The trigger that looks for notes at the commit deletes
 * them, with the rights of the shard's owner, because other roles may not delete notes.
 */
static char *
forget_command(const List *noted, const NotedShard *first)
{
	StringInfoData sql;
	List	   *schemas = NIL;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SET LOCAL " FORGET " = 'on'; ");
	foreach_ptr(const NotedShard, one, noted)
	{
		if (one->shard->serverid != first->shard->serverid || one->userid != first->userid)
			continue;
		schemas = list_append_unique(schemas, makeString(unconstify(char *, one->sql.schema)));
	}
	foreach_ptr(String, schema, schemas)
		appendStringInfo(&sql, "SET CONSTRAINTS %s.shardfdw_replicated IMMEDIATE; SET CONSTRAINTS %s.shardfdw_replicated DEFERRED; ",
						 strVal(schema), strVal(schema));
	appendStringInfoString(&sql, "SET LOCAL " FORGET " = ''; SET LOCAL " NOTED " = ''; SET LOCAL " NOTED_KEYS " = ''");
	return sql.data;
}

/* Is noted the first one of its connection? */
static bool
is_first(const List *all, const NotedShard *noted)
{
	foreach_ptr(const NotedShard, one, all)
	{
		if (one->shard->serverid == noted->shard->serverid && one->userid == noted->userid)
			return one == noted;
	}
	return false;
}

/* Sends the rows of shards with few changes to the replicas.  At the same time deletes the notes of all shards. */
static void
send_few_and_forget(List *noted)
{
	ShardCommand *commands;
	const NotedShard **of;		/* NULL: no command for a replica */
	int			ncommands = 0;
	int			nmax = 0;

	foreach_ptr(NotedShard, one, noted)
		nmax += 1 + one->shard->nreplicas;
	commands = palloc0(sizeof(ShardCommand) * nmax);
	of = palloc0(sizeof(NotedShard *) * nmax);
	foreach_ptr(const NotedShard, one, noted)
	{
		if (is_first(noted, one))
			commands[ncommands++] = (ShardCommand) {.serverid = one->shard->serverid, .userid = one->userid,
				.sql = forget_command(noted, one)};
		for (int i = 0; one->is_few && i < one->shard->nreplicas; i++)
		{
			if (one->few.keys.len == 0 && one->few.rows.len == 0)
				continue;
			commands[ncommands] = (ShardCommand) {.serverid = one->shard->replicas[i], .userid = one->userid,
				.sql = shard_replica_few_command(&one->sql, &one->few, one->few.nbefore), .has_values = true,
				.label = one->shard->name, .nfields = 1};
			of[ncommands++] = one;
		}
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
		if (of[i] != NULL)
			check_found(&commands[i], of[i], of[i]->few.nbefore);
	shard_command_free(commands, ncommands);
}

void
shard_replica_note_sent(void)
{
	sent_by = GetCurrentTransactionStartTimestamp();
}

void
shard_replica_mirror(ShardCopyTarget *target, Oid relid)
{
	const ShardMap *map = shard_map_get(relid);
	char	   *ask;

	if (map == NULL || !map->shards[0].is_noted)
		return;
	shard_replica_note_sent();
	if (map->shards[0].nreplicas == 0)
	{
		/* all replicas are stale, so triggers need not note the rows */
		shard_copy_target_mirror(target, NULL, 0, SHARD_REPLICA_APPLY_ON, SHARD_REPLICA_APPLY_ON, SHARD_REPLICA_APPLY_OFF);
		return;
	}
	/*
	 * If the shard has notes that are not applied yet, its replicas lack some of its changes.  Then triggers note these
	 * rows, too.
	 */
	ask = psprintf("SELECT pg_catalog.set_config('" APPLIED "', CASE WHEN %s = ANY (nullif(pg_catalog.current_setting('" NOTED "', true), '')::pg_catalog.text[])"
				   " THEN 'off' ELSE 'on' END, true)", quote_literal_cstr(map->shards[0].relation));
	shard_copy_target_mirror(target, map->shards[0].replicas, map->shards[0].nreplicas, ask, SHARD_REPLICA_APPLY_ON, SHARD_REPLICA_APPLY_OFF);
	pfree(ask);
}

const char *
shard_replica_hint(const char *node)
{
	if (!shard_map_seen_replicas())
		return NULL;
	return psprintf(_("Shards that have replicas go on without the node after SELECT shardfdw.disable_node(%s)."), quote_literal_cstr(node));
}

bool
shard_replica_apply(void)
{
	MemoryContext cxt;
	MemoryContext oldcxt;
	List	   *noted;

	if (shard_txn_writers == NIL || !shard_map_seen_replicas())
		return sent_by == GetCurrentTransactionStartTimestamp();
	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw replicas", ALLOCSET_DEFAULT_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	noted = find_noted();
	if (noted != NIL)
	{
		List	   *many = NIL;

		/*
		 * Also if all replicas are stale.  Then no other node has the rows, and only a commit in two phases notes the
		 * WAL position of the node.
		 */
		shard_replica_note_sent();
		find_rights(noted);
		ask_few(noted);
		foreach_ptr(NotedShard, one, noted)
		{
			if (!one->is_few)
				many = lappend(many, one);
		}
		send_many(many, cxt);
		send_few_and_forget(noted);
	}
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return sent_by == GetCurrentTransactionStartTimestamp();
}
