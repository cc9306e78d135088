/*
 * import_job.c
 *	  Fills a sharded table with the rows of a table on another server, while that table is written to.
 *
 *	 checking --> mark here --> publication, slot, snapshot --> copy of the snapshot --> changes since
 *	   --> rows compared at one moment --> following, until a user requests the cut-over
 *	   --> lock there --> the last changes --> sequences --> closed there --> open here
 *
 * In mode copy the job ends with the comparison.  The coordinator is the source's client, by a connection string.
 * Nodes need no connection to the source.
 *
 * The mark is a trigger that refuses writes of other sessions.  So all rows in the table belong to the job, and can
 * be removed if it fails.  The job's process runs with session_replication_role = replica, so ordinary triggers do
 * not fire.
 *
 * The two tables never accept writes at the same time.  The source's table is closed first, by a trigger, in the
 * transaction that locks it.  Before that transaction commits, the mark on the coordinator records it.  If the result
 * of the COMMIT is lost, the source is queried again.  If it does not answer, or this process dies, the table stays
 * unchanged, with all rows, and a user must check it.
 */
#include "postgres.h"

#include <unistd.h>

#include "catalog/moving.h"
#include "catalog/pg_class.h"
#include "catalog/qualified.h"
#include "catch.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "conninfo.h"
#include "fault.h"
#include "fmgr.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "move/import/import_copy.h"
#include "move/import/import_stream.h"
#include "move/import/import_table.h"
#include "move/job/attempt.h"
#include "move/job/link.h"
#include "move/job/rate.h"
#include "move/job/slot.h"
#include "move/job/table.h"
#include "move/job/turn.h"
#include "nodes/value.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "remote/wire/wait.h"
#include "service/background_worker.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define LOCK_MS 100				/* how long others wait behind an attempt to lock a table */
#define LAST_CHANGES_MS 1000	/* how long writers on the source wait for the last changes */
#define AGAIN_MS 500			/* pause before another attempt to lock */
#define ASK_TRIES 20			/* attempts to find out whether the source has been closed, if the result was lost */
#define CHUNK_BYTES (64 * 1024 * 1024)	/* maximum size of rows in one transaction */
#define HASH_VERSION 110000		/* first version with hashtextextended() */
#define SERVER_SQL "SELECT concat_ws(' ', c.system_identifier, extract(epoch FROM pg_postmaster_start_time())) FROM pg_control_system() c"
#define FLOAT_VERSION 120000	/* first version that prints floats in the shortest exact form */

PG_FUNCTION_INFO_V1(shardfdw_start_import);

/* Determines the cleanup after an error. */
typedef enum ImportPhase
{
	IMPORT_STARTING,			/* nothing has been changed */
	IMPORT_BEGUN,				/* on the coordinator or on the source */
	IMPORT_DOUBTFUL,			/* the source may have been closed */
	IMPORT_SWITCHED				/* users write to this table now */
} ImportPhase;

typedef struct ShardTableImport
{
	ShardJob	job;
	const char *conninfo;
	const char *place;			/* address of the source, for messages */
	const char *plan;			/* jsonb for the SQL functions */
	ShardImportTable table;
	const char *copy_query;		/* what COPY reads on the source */
	const char *definition;		/* description of the table by the source */
	const char *server;			/* identifies the server, see SERVER_SQL */
	const char *schema;			/* schema of the job's objects on the source; its publication and slots have the
								 * same name */
	const char *publication;
	bool		publishes;		/* the job has created the publication */
	const char *published;		/* state of the publication, to detect changes */
	ImportPhase phase;
	ShardConn  *source;			/* for queries and the copy */
	ShardConn  *locker;			/* holds the lock on the source's table */
	ShardSlot  *slot;
	ShardImportStream stream;
	TimestampTz locked_at;
} ShardTableImport;

/* The value of an SQL expression on the coordinator, in a separate transaction.  Memory: the import's. */
static char *
ask_here(ShardTableImport *import, const char *sql)
{
	char	   *value;

	shard_move_begin(import->job.userid);
	value = shard_own_sql_value(sql, InvalidSnapshot);
	if (value)
		value = MemoryContextStrdup(import->job.cxt, value);
	shard_move_commit();
	return value;
}

/*
 * Raises an error if link is connected to another server than earlier links.  The connection string may have several
 * hosts, and a host several addresses.
 */
static void
check_server(ShardTableImport *import, ShardConn *link)
{
	char	   *server = shard_link_value(link, SERVER_SQL);

	if (import->server == NULL)
		import->server = MemoryContextStrdup(import->job.cxt, server);
	else if (strcmp(import->server, server) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the connection string does not always lead to the same server"),
				 errdetail("System identifiers and start times: %s and %s.", import->server, server),
				 errhint("Start the import again, with a connection string of one server, and do not restart that server.")));
}

static ShardConn *
open_link(ShardTableImport *import, bool replicates)
{
	ShardConn  *link;

	shard_move_begin(import->job.userid);
	link = shard_link_open_string(import->conninfo, import->place, import->job.userid, replicates);
	shard_move_commit();
	return link;
}

/* Sets *link before an error can occur, so that the caller can close it. */
static void
open_source(ShardTableImport *import, ShardConn **link)
{
	*link = open_link(import, false);
	check_server(import, *link);
}

/* ---------- beginning ---------- */

/* Splits the plan of shardfdw_start_import(). */
static void
read_plan(ShardTableImport *import)
{
	char	   *newline = strchr(import->job.plan, '\n');

	if (newline == NULL)
		elog(ERROR, "an import has no connection string");
	*newline = '\0';
	import->plan = quote_literal_cstr(import->job.plan);
	import->conninfo = newline + 1;
	import->place = shard_conninfo_place(import->conninfo);
}

static void
describe(ShardJob *job, const ShardJobArgs *args, ShardJobRow *row)
{
	ShardTableImport *import = (ShardTableImport *) job;
	char	   *place;

	read_plan(import);
	import->table.relid = job->relid;
	import->table.relation = row->names[0];
	place = pstrdup(import->place);
	place[pg_mbcliplen(place, strlen(place), NAMEDATALEN - 1)] = '\0';
	row->kind = "import";
	row->source_name = place;
	if (!job->online)
		row->mode = "copy";
}

static char *
source_query(const ShardTableImport *import)
{
	return psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".import_source_query(p->>'schema', p->>'table', (p->>'publication')::pg_catalog.name) FROM (SELECT %s::pg_catalog.jsonb) x(p)", import->plan);
}

/* Stores the columns that both tables have, and other facts about the source.  Call it in a transaction. */
static void
read_columns(ShardTableImport *import)
{
	ShardImportTable *table = &import->table;
	const char *definition = quote_literal_cstr(import->definition);
	MemoryContext oldcxt = MemoryContextSwitchTo(import->job.cxt);
	ShardSqlField *fact;

	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(psprintf("SELECT name, is_key FROM " SHARD_INTERNAL_SCHEMA ".import_columns(%u, %s)", table->relid, definition), InvalidSnapshot))
		shard_import_table_add(table, row[0], strcmp(row[1], "t") == 0);
	shard_import_table_finish(table);
	fact = linitial(shard_own_sql_rows(psprintf("SELECT pg_catalog.format('%%I.%%I', p->>'schema', p->>'table'), p->>'publication', coalesce(t->>'oid', '0'),"
											 " (SELECT count(*) FROM pg_catalog.jsonb_array_elements(t->'columns') c WHERE NOT (c->>'generated')::pg_catalog.bool),"
											 " t->>'kind' OPERATOR(pg_catalog.=) 'r' AND NOT (t->>'is_parent')::pg_catalog.bool"
											 " FROM (SELECT %s::pg_catalog.jsonb, %s::pg_catalog.jsonb->'table') x(p, t)", import->plan, definition), InvalidSnapshot));
	table->source = fact[0];
	import->publishes = fact[1] == NULL;
	import->publication = fact[1] ? fact[1] : import->schema;
	table->source_oid = atooid(fact[2]);
	table->nsent = atoi(fact[3]);
	/* a plain table is read faster by its name */
	import->copy_query = fact[4] && strcmp(fact[4], "t") == 0 ? psprintf("%s (%s)", table->source, table->column_list) :
		psprintf("(SELECT %s FROM %s)", table->column_list, table->source);
	MemoryContextSwitchTo(oldcxt);
	if (import->job.online && table->nkeys == 0)
		elog(ERROR, "an import has no key");
}

/* Checks all conditions that can be known, before anything is changed. */
static void
check(ShardTableImport *import)
{
	MemoryContext oldcxt;
	char	   *query;
	char	   *definition;

	shard_job_enter_stage(&import->job, "checking");
	open_source(import, &import->source);
	query = ask_here(import, source_query(import));
	definition = shard_link_value(import->source, query);
	oldcxt = MemoryContextSwitchTo(import->job.cxt);
	import->definition = pstrdup(definition);
	MemoryContextSwitchTo(oldcxt);
	import->schema = ask_here(import, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".job_schema(" INT64_FORMAT ")", import->job.id));
	shard_move_begin(import->job.userid);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_import_source(%u, %s, %s)", import->table.relid, import->plan, quote_literal_cstr(import->definition)));
	read_columns(import);
	shard_move_commit();
}

/* The step that refuses writes of other sessions to the table. */
static void
begin_here(const ShardAttempts *attempts, void *arg)
{
	const ShardTableImport *import = arg;

	shard_attempts_limit(attempts);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".begin_import(%u, " INT64_FORMAT ")", import->table.relid, import->job.id));
}

static void
drop_mark(const ShardAttempts *attempts, void *arg)
{
	const ShardTableImport *import = arg;

	shard_attempts_limit(attempts);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".drop_import_mark(%u)", import->table.relid));
}

/* Repeats a step on the coordinator until its locks are granted. */
static void
insist(ShardTableImport *import, void (*step) (const ShardAttempts *attempts, void *arg))
{
	shard_attempts_insist(&import->job, "transactions that use the table", NULL, NULL, step, import);
	shard_move_commit();
}

/* ---------- the source ---------- */

/* Removes publications of earlier jobs whose processes have died. */
static void
remove_publications(ShardTableImport *import)
{
	ShardBroadcast *item;
	const char *number = strchr(import->schema + strlen("shardfdw_"), '_') + 1;
	int			nprefix = number - import->schema;
	StringInfoData sql;

	item = shard_link_query(import->source, NULL, psprintf("SELECT pubname, substr(pubname, %d) FROM pg_publication WHERE left(pubname, %d) = %s AND substr(pubname, %d) ~ '^[0-9]{1,18}_[0-9a-f]{8}$' AND pg_has_role(pubowner, 'USAGE')",
											 nprefix + 1, nprefix, quote_literal_cstr(pnstrdup(import->schema, nprefix)), nprefix + 1), 2);
	initStringInfo(&sql);
	for (int i = 0; i < PQntuples(item->result); i++)
	{
		int64		id = strtoll(PQgetvalue(item->result, i, 1), NULL, 10);

		if (id != import->job.id && !shard_moving_is_running(id))
			appendStringInfo(&sql, "DROP PUBLICATION IF EXISTS %s; ", quote_identifier(PQgetvalue(item->result, i, 0)));
	}
	shard_broadcast_free(item);
	if (sql.len > 0)
		shard_link_exec(import->source, sql.data);
}

/* State that shows whether the publication still sends all changes of the table.  Memory: the import's. */
static char *
read_publication(ShardTableImport *import)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(import->job.cxt);
	char	   *state = shard_link_value(import->source,
										 psprintf("SELECT concat_ws(' ', (SELECT concat_ws(' ', p.oid, p.xmin, (SELECT r.xmin::text FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %u)) FROM pg_publication p WHERE p.pubname = %s), "
												  "(SELECT to_json(t)::text FROM pg_publication_tables t, pg_class c WHERE t.pubname = %s AND c.oid = %u AND (c.relnamespace::regnamespace::text, c.relname) = (quote_ident(t.schemaname), t.tablename)))",
												  import->table.source_oid, quote_literal_cstr(import->publication), quote_literal_cstr(import->publication), import->table.source_oid));

	MemoryContextSwitchTo(oldcxt);
	return state;
}

static void
publish(ShardTableImport *import)
{
	remove_publications(import);
	if (import->publishes)
		shard_link_exec(import->source, psprintf("CREATE PUBLICATION %s FOR TABLE ONLY %s", quote_identifier(import->publication), import->table.source));
	import->published = read_publication(import);
	SHARD_FAULT_POINT("import_published");
}

static void
unpublish(const ShardTableImport *import, ShardConn *link)
{
	if (import->publishes && import->publication)
		shard_link_exec(link, psprintf("DROP PUBLICATION IF EXISTS %s", quote_identifier(import->publication)));
}

static ShardSlot *
create_slot(ShardTableImport *import, const char *name)
{
	ShardConn  *link = open_link(import, true);

	check_server(import, link);
	return shard_slot_create(import->job.cxt, link, name);
}

/* ---------- the copy ---------- */

/*
 * Loads the rows of the source's COPY in chunks, each in one transaction.  No session needs the rows of the table
 * yet.
 */
static void
copy_rows(ShardTableImport *import)
{
	ShardImportCopy copy;
	ShardRate	rate = {0};

	shard_import_copy_begin(&copy, import->source, import->copy_query);
	while (shard_import_copy_has_row(&copy))
	{
		shard_move_begin(import->job.userid);
		import->job.progress.nrows += shard_import_copy_load(&copy, &import->table, shard_guc_max_move_rate_kb > 0 ? Min(CHUNK_BYTES, (int64) shard_guc_max_move_rate_kb * 1024) : CHUNK_BYTES);
		shard_move_commit_on_nodes(&import->job);
		import->job.progress.nbytes += copy.nbytes;
		shard_job_set_progress(&import->job);
		SHARD_FAULT_POINT("import_chunk");
		shard_rate_keep(&rate, copy.nbytes, &import->job);
	}
	shard_job_set_progress(&import->job);
}

/* ---------- comparing ---------- */

/* The sums of some of the rows. */
typedef struct Sums
{
	int64		nrows;
	int64		high;
	int64		low;
} Sums;

static void
add_sums(Sums *sums, ShardConn *link)
{
	ShardBroadcast *item = shard_link_answer(link, NULL, 1);
	long long	nrows = 0;
	long long	high = 0;
	long long	low = 0;

	if (PQntuples(item->result) == 1)
		(void) sscanf(PQgetvalue(item->result, 0, 0), "%lld %lld %lld", &nrows, &high, &low);
	shard_broadcast_free(item);
	sums->nrows += nrows;
	sums->high += high;
	sums->low += low;
}

/* Is text on the source encoded as on the nodes?  Nodes use the encoding of this database. */
static bool
is_encoded_alike(const ShardConn *source)
{
	const char *encoding = PQparameterStatus(source->pg, "server_encoding");

	return encoding && pg_char_to_encoding(encoding) == GetDatabaseEncoding();
}

/*
 * Compares the rows of the shards with the rows of the source.  The transaction of source uses a snapshot.  Returns
 * false if the snapshot is older than the file of the source's table (shard_link_is_rewritten()).
 */
static bool
compare_rows(ShardTableImport *import, ShardConn *source)
{
	bool		by_md5 = source->server_version < HASH_VERSION || !is_encoded_alike(source);
	const char *settings = source->server_version < FLOAT_VERSION ? "SET extra_float_digits = 0; " : "";
	Sums		here = {0};
	Sums		there = {0};
	List	   *links = NIL;
	char	   *query;
	MemoryContext oldcxt;

	query = ask_here(import, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".sums_query(ARRAY[%s], %s, %s)", quote_literal_cstr(import->table.source),
									  quote_literal_cstr(import->table.column_list), by_md5 ? "true" : "false"));
	shard_connection_send(source, psprintf("%s%s", settings, query));
	shard_move_begin(import->job.userid);
	oldcxt = MemoryContextSwitchTo(import->job.cxt);
	/* a link to each node that has any of the shards */
	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(psprintf("SELECT server, query FROM " SHARD_INTERNAL_SCHEMA ".import_sums_queries(%u, %s, %s)", import->table.relid,
															  quote_literal_cstr(import->table.column_list), by_md5 ? "true" : "false"), InvalidSnapshot))
	{
		links = lappend(links, shard_link_open(atooid(row[0]), import->job.userid, false));
		shard_connection_send(llast(links), psprintf("%s%s", settings, row[1]));
	}
	MemoryContextSwitchTo(oldcxt);
	shard_move_commit();
	foreach_ptr(ShardConn, link, links)
	{
		add_sums(&here, link);
		shard_link_close(&link);
	}
	add_sums(&there, source);
	SHARD_FAULT_POINT("import_compared");
	if (memcmp(&here, &there, sizeof(Sums)) == 0)
		return true;
	if (!shard_link_is_rewritten(source, psprintf("%u", import->table.source_oid)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the rows of table %s differ from those of the source", import->table.relation),
				 errdetail("Number of rows, and sums of their hashes: " INT64_FORMAT " " INT64_FORMAT " " INT64_FORMAT " here, " INT64_FORMAT " " INT64_FORMAT " " INT64_FORMAT " there.",
						   here.nrows, here.high, here.low, there.nrows, there.high, there.low)));
	return false;
}

/*
 * Compares the rows as of one moment, the snapshot of a second slot.  The table is brought to that position and held
 * there.  Returns false if the former rows of the source's table cannot be read. attempt: 1 for the first.
 */
static bool
compare(ShardTableImport *import, int attempt)
{
	/* the slot of the last attempt may still exist for a moment */
	ShardSlot  *slot = create_slot(import, psprintf("%s_v%d", import->schema, attempt));
	ShardConn  *source;
	bool		compared;

	open_source(import, &source);
	shard_link_exec(source, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(source, psprintf("SET TRANSACTION SNAPSHOT '%s'", slot->snapshot));
	shard_follow_to(&import->stream.follow, slot->start);
	shard_slot_close(slot);
	SHARD_FAULT_POINT("import_compare");
	compared = compare_rows(import, source);
	shard_link_close(&source);
	return compared;
}

/* ---------- following ---------- */

static void
copy(ShardTableImport *import)
{
	if (import->job.online)
	{
		shard_job_enter_stage(&import->job, "waiting for transactions of the source");
		publish(import);
		shard_job_set_waiting(&import->job, "transactions of the source that write, including prepared ones");
		import->slot = create_slot(import, import->schema);
	}
	shard_job_enter_stage(&import->job, "copying");
	shard_link_exec(import->source, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	if (import->job.online)
		shard_link_exec(import->source, psprintf("SET TRANSACTION SNAPSHOT '%s'", import->slot->snapshot));
	copy_rows(import);
	SHARD_FAULT_POINT("import_copied");
	if (!import->job.online && import->job.verify)
	{
		shard_job_enter_stage(&import->job, "comparing");
		/* the transaction has locked the table since its first statement */
		if (!compare_rows(import, import->source))
			elog(ERROR, "a table of the source has been rewritten under a lock");
	}
	shard_link_exec(import->source, "COMMIT");
}

static void
follow(ShardTableImport *import)
{
	shard_job_enter_stage(&import->job, "catching up");
	shard_slot_stream(import->slot, list_make1(makeString(pstrdup(import->publication))), "");
	shard_import_stream_begin(&import->stream, &import->job, &import->table, import->slot, import->source);
	shard_follow_catch_up(&import->stream.follow);
	if (import->job.verify)
	{
		shard_job_enter_stage(&import->job, "comparing");
		for (int attempt = 1; !compare(import, attempt); attempt++)
			;
	}
	shard_job_enter_stage(&import->job, SHARD_JOB_FOLLOWING);
}

/* ---------- cutting over ---------- */

static void
lock_there(void *arg)
{
	const ShardTableImport *import = arg;

	shard_link_exec(import->locker, psprintf("BEGIN; " SHARD_LINK_GIVE_WAY_SQL "; SET LOCAL lock_timeout = %d; LOCK TABLE ONLY %s IN EXCLUSIVE MODE", LOCK_MS, import->table.source));
}

/* Tries to lock the source's table against writers.  Returns false if a lock was not granted in time. */
static bool
lock_source(ShardTableImport *import)
{
	if (import->locker == NULL)
		open_source(import, &import->locker);
	import->locked_at = GetCurrentTimestamp();
	if (shard_catch_transaction(lock_there, import, shard_move_is_lock_timeout, false) == NULL)
		return true;
	shard_link_exec(import->locker, "ROLLBACK");
	return false;
}

/*
 * Raises an error if the source's table or its publication has changed.  A change of the definition may rewrite rows,
 * and such changes are not sent.
 */
static void
check_unchanged(ShardTableImport *import)
{
	char	   *query = ask_here(import, source_query(import));
	char	   *now = quote_literal_cstr(shard_link_value(import->source, query));
	char	   *same = ask_here(import, psprintf("SELECT (%s::pg_catalog.jsonb->'table') OPERATOR(pg_catalog.=) (%s::pg_catalog.jsonb->'table')", now, quote_literal_cstr(import->definition)));

	if (same == NULL || same[0] != 't')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the definition of table %s on the source has changed while it was imported", import->table.source),
				 errhint("Start the import again.")));
	if (strcmp(read_publication(import), import->published) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("publication \"%s\" of the source has changed while table %s was imported", import->publication, import->table.source),
				 errdetail("Changes may not have been sent."),
				 errhint("Start the import again.")));
}

/* Sets sequences to the values of the source, and records the stage of the cut-over. */
static void
set_sequences(ShardTableImport *import, const char *stage)
{
	char	   *query = ask_here(import, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".sequences_query(%s)", quote_literal_cstr(import->table.source)));
	char	   *values = shard_link_value(import->source, query);

	shard_move_begin(import->job.userid);
	shard_move_limit_locks(import->stream.lock_ms);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".set_import_sequences(%u, %s)", import->table.relid, quote_literal_cstr(values)));
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".mark_import(%u, " INT64_FORMAT ", '%s')", import->table.relid, import->job.id, stage));
	shard_move_commit();
}

static bool
is_not_cancelled(int code)
{
	return code != ERRCODE_QUERY_CANCELED;
}

/* The question whether the source has closed its table. */
typedef struct ClosedArg
{
	ShardTableImport *import;
	ShardConn  *link;			/* NULL: closed */
	bool		closed;
} ClosedArg;

static void
look_closed(void *arg)
{
	ClosedArg  *question = arg;
	const ShardTableImport *import = question->import;
	char	   *value;

	question->link = open_link(question->import, false);
	/* the server may have been restarted */
	if (strncmp(shard_link_value(question->link, SERVER_SQL), import->server, strcspn(import->server, " ") + 1) != 0)
		elog(ERROR, "another server has answered");
	/* the lost session may still commit; this waits for it */
	shard_link_exec(question->link, psprintf("BEGIN; LOCK TABLE ONLY %s IN EXCLUSIVE MODE", import->table.source));
	value = shard_link_value(question->link, psprintf("SELECT count(*) FROM pg_namespace WHERE nspname = %s", quote_literal_cstr(import->schema)));
	question->closed = strcmp(value, "0") != 0;
}

/* Has the source committed the closing of its table?  Raises an error if the source does not answer. */
static bool
ask_closed(ShardTableImport *import)
{
	ClosedArg	question = {import, NULL, false};

	for (int ntries = 1;; ntries++)
	{
		ErrorData  *error = shard_catch_transaction(look_closed, &question, is_not_cancelled, false);

		/* after an error, too: each try opens a link */
		shard_link_close(&question.link);
		if (error == NULL)
			return question.closed;
		if (ntries == ASK_TRIES)
			ReThrowError(error);
		shard_wait_pause(AGAIN_MS, false);
	}
}

static void
commit_there(void *arg)
{
	shard_link_exec(((ShardTableImport *) arg)->locker, "COMMIT");
}

/* Closes the source's table, which is locked. */
static void
close_source(ShardTableImport *import)
{
	char		host[256] = "";
	char	   *place;
	char	   *commands;

	(void) gethostname(host, sizeof(host) - 1);
	shard_move_begin(import->job.userid);
	place = psprintf("%s, database %s", host, get_database_name(MyDatabaseId));
	commands = shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".import_close_commands(%s, %s, %s)", quote_literal_cstr(import->schema),
										 quote_literal_cstr(import->table.source), quote_literal_cstr(place)));
	commands = MemoryContextStrdup(import->job.cxt, commands);
	shard_move_commit();
	shard_link_exec(import->locker, commands);
	unpublish(import, import->locker);
	SHARD_FAULT_POINT("import_closing");
	import->phase = IMPORT_DOUBTFUL;
	if (shard_catch_transaction(commit_there, import, is_not_cancelled, false) != NULL && !ask_closed(import))
	{
		import->phase = IMPORT_BEGUN;
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("the source was lost while it was to be closed"),
				 errdetail("Its table still accepts writes."),
				 errhint("Start the import again.")));
	}
	SHARD_FAULT_POINT("import_closed");
}

typedef struct FollowArg
{
	ShardTableImport *import;
	bool		done;
} FollowArg;

/* Does the work for which writers on the source wait, except the switch.  If the last changes take too long, ends early. */
static void
follow_locked(void *arg)
{
	FollowArg  *follow = arg;

	if (!shard_follow_to_now(&follow->import->stream.follow, LAST_CHANGES_MS))
		return;
	check_unchanged(follow->import);
	set_sequences(follow->import, "switching");
	follow->done = true;
}

/*
 * Locks the table of the source, applies the last changes, and records that this table is about to replace it.
 * Returns false if that would take too long, or if another session has locked this table.
 */
static bool
lock_and_follow(ShardTableImport *import)
{
	FollowArg	follow = {import, false};

	shard_follow_catch_up(&import->stream.follow);
	if (!lock_source(import))
	{
		shard_job_set_waiting(&import->job, "transactions of the source that use the table");
		return false;
	}
	SHARD_FAULT_POINT("import_locked");
	import->stream.lock_ms = LOCK_MS;
	(void) shard_catch_transaction(follow_locked, &follow, shard_move_is_lock_timeout, false);
	import->stream.lock_ms = 0;
	if (follow.done)
		return true;
	shard_link_exec(import->locker, "ROLLBACK");
	shard_job_set_waiting(&import->job, "the last changes, or transactions that use the table here");
	return false;
}

/* Opens the table for writes. */
static void
open_here(ShardTableImport *import)
{
	(void) ask_here(import, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".mark_import(%u, " INT64_FORMAT ", 'done')", import->table.relid, import->job.id));
}

/* Tries to cut over as requested.  Returns false if the caller must try again, if still requested. */
static bool
try_cut_over(ShardTableImport *import, bool lock)
{
	if (!lock)
	{
		import->locked_at = GetCurrentTimestamp();
		(void) shard_follow_to_now(&import->stream.follow, -1);
		check_unchanged(import);
		set_sequences(import, "done");
		import->phase = IMPORT_SWITCHED;
		unpublish(import, import->source);
		return true;
	}
	if (!lock_and_follow(import))
		return false;
	SHARD_FAULT_POINT("import_switching");
	close_source(import);
	open_here(import);
	import->phase = IMPORT_SWITCHED;
	return true;
}

/* Follows the source until a cut-over is requested, then cuts over. */
static void
cut_over(ShardTableImport *import)
{
	for (;;)
	{
		ShardCutOver asked = shard_moving_cut_over_asked(import->job.id);

		if (asked == SHARD_CUT_OVER_NONE)
		{
			shard_follow_wait(&import->stream.follow);
			continue;
		}
		if (try_cut_over(import, asked == SHARD_CUT_OVER_LOCK))
			break;
		shard_follow_wait(&import->stream.follow);
		shard_wait_pause(AGAIN_MS, false);
	}
	shard_wait_set_idle(NULL, NULL);
	shard_job_set_pause(&import->job, GetCurrentTimestamp() - import->locked_at);
	shard_job_set_progress(&import->job);
}

/* ---------- the job ---------- */

static void
close_links(ShardTableImport *import)
{
	if (import->slot)
		shard_slot_close(import->slot);
	import->slot = NULL;
	shard_link_close(&import->source);
	shard_link_close(&import->locker);
}

static void
run(ShardJob *job)
{
	ShardTableImport *import = (ShardTableImport *) job;

	shard_import_set_settings();
	shard_job_enter_stage(job, "waiting for its turn");
	shard_turn_take(job, RelationRelationId, job->relid);
	check(import);
	shard_job_enter_stage(job, "preparing");
	import->phase = IMPORT_BEGUN;
	insist(import, begin_here);
	SHARD_FAULT_POINT("import_begun");
	copy(import);
	if (job->online)
	{
		follow(import);
		cut_over(import);
	}
	else
	{
		open_here(import);
		import->phase = IMPORT_SWITCHED;
	}
	close_links(import);
	SHARD_FAULT_POINT("import_switched");
	shard_job_enter_stage(job, "dropping");
	insist(import, drop_mark);
}

static void
undo_here(void *arg)
{
	ShardTableImport *import = arg;

	(void) ask_here(import, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".undo_own_import(%u, " INT64_FORMAT ")", import->table.relid, import->job.id));
}

static void
undo_there(void *arg)
{
	ShardTableImport *import = arg;
	ShardConn  *link;

	if (!import->publishes || !import->job.online)
		return;
	/* uses a new link, since the server may have been restarted */
	link = open_link(import, false);
	unpublish(import, link);
	shard_link_close(&link);
}

/* Empties the table, unless it has replaced the source's table. */
static void
undo(ShardJob *job, ErrorData *error)
{
	ShardTableImport *import = (ShardTableImport *) job;

	close_links(import);
	if (import->phase != IMPORT_DOUBTFUL && import->phase != IMPORT_SWITCHED)
		shard_job_name_dropped(job, error);
	if (import->phase == IMPORT_BEGUN)
	{
		if (shard_catch_transaction(undo_here, import, NULL, true) != NULL && error->hint == NULL)
			error->hint = "The table keeps rows, and refuses writes, until SELECT * FROM shardfdw.recover_prepared_transactions() has emptied it.";
		(void) shard_catch_transaction(undo_there, import, NULL, true);
	}
	else if (import->phase == IMPORT_DOUBTFUL)
		error->hint = psprintf("If the source refuses writes to its table as moved, all rows are here: DROP TRIGGER shardfdw_import ON %s. If the source accepts writes: DROP TRIGGER shardfdw_import ON %s; TRUNCATE %s; and import again.",
							   import->table.relation, import->table.relation, import->table.relation);
	else if (import->phase == IMPORT_SWITCHED && error->hint == NULL)
		error->hint = "The table has all rows, and can be written to.";
}

const ShardJobKind shard_import_kind = {sizeof(ShardTableImport), describe, run, undo};

/* start_import(relation oid, plan text, conninfo text, online boolean, verify boolean) -> bigint */
Datum
shardfdw_start_import(PG_FUNCTION_ARGS)
{
	char	   *plan = TextDatumGetCString(PG_GETARG_DATUM(1));
	char	   *conninfo = TextDatumGetCString(PG_GETARG_DATUM(2));
	ShardJobArgs args = {.type = SHARD_JOB_IMPORT, .relid = PG_GETARG_OID(0), .online = PG_GETARG_BOOL(3), .verify = PG_GETARG_BOOL(4)};
	const char **keywords;
	const char **values;

	/* import_table() is granted to roles that may connect the server to other servers */
	shard_own_right_check("import_table");
	if (get_rel_relkind(args.relid) != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation %u is not a table", args.relid)));
	if (!shard_class_ownercheck(args.relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(args.relid));
	/* check the connection string first; jsonb as text is one line */
	shard_conninfo_parse(conninfo, GetUserId(), &keywords, &values);
	PG_RETURN_INT64(shard_job_start(&args, psprintf("%s\n%s", plan, conninfo)));
}
