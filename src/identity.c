/*
 * identity.c
 *	  The table shardfdw_internal.coordinator: identities of this coordinator, and how far its log
 *	  of commits goes back.
 *
 * A copy of a data directory (a clone, a restored backup, a promoted standby) has the same tables
 * and control file as its original.  It must not decide about transactions that the original may be
 * committing.  So the table contains the fingerprint of the data directory: inode and time of birth
 * of its file PG_VERSION.  A restart, a crash or a moved mount point does not change it; a copy has
 * another one. (A copy below the file system, of a disk or volume, has the same one.  The device's
 * number and the time of change are not part of the fingerprint, since they can change while a
 * server exists.)
 *
 *	 row of this system and database	fingerprint		this server is
 *	 --------------------------------------------------------------------------
 *	 none								-				confirmed: created by CREATE EXTENSION,
 *														a dump, pg_upgrade, or
 *														CREATE DATABASE ... TEMPLATE
 *	 exists								its own			confirmed
 *	 exists								another			not confirmed, until promote_coordinator()
 *
 * Without a row, the identity is a hash of the fingerprint and the table's OID.  So all sessions
 * compute the same identity before one has stored it, and it is not lost if a transaction is rolled
 * back. promote_coordinator() creates a random one.
 *
 * The scan of the table returns all versions of rows that have committed by now.  Values only
 * change in one direction, so old versions are harmless.  SnapshotSelf checks the versions at
 * different times, so it could miss a row that is updated during the scan.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "compat.h"
#include "conninfo.h"
#include "executor/spi.h"
#include "fault.h"
#include "flush_commit.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity.h"
#include "miscadmin.h"
#include "own_lock.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "own_table.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(shardfdw_store_identity);
PG_FUNCTION_INFO_V1(shardfdw_server_mark);
PG_FUNCTION_INFO_V1(shardfdw_replace_identity);
PG_FUNCTION_INFO_V1(shardfdw_coordinator_identity);
PG_FUNCTION_INFO_V1(shardfdw_declare_commits_received);
PG_FUNCTION_INFO_V1(shardfdw_decided_identities);

enum
{
	COORDINATOR_IDENTITY = 1,
	COORDINATOR_SYSTEM,
	COORDINATOR_DATABASE,
	COORDINATOR_FINGERPRINT,
	COORDINATOR_MADE_AT,
	COORDINATOR_TAKEN_OVER_AT,
	COORDINATOR_COMPLETE,
	COORDINATOR_FORGOTTEN_UNTIL,
	COORDINATOR_SETTLED_BELOW
};

#define COORDINATOR_TABLE "coordinator"

#define FINGERPRINT_LEN 64

/* A row of the table: an identity that is or was this server's, or a predecessor's. */
typedef struct KnownIdentity
{
	uint64		system_identifier;
	Oid			database;
	char		identity[SHARD_IDENTITY_LEN + 1];
	bool		has_our_fingerprint;
	bool		taken_over;
	bool		complete;
} KnownIdentity;

/* The content of the table, cached by the session. */
typedef struct Identity
{
	bool		is_valid;
	Oid			relid;
	bool		is_stored;
	bool		is_confirmed;
	char		identity[SHARD_IDENTITY_LEN + 1];
	KnownIdentity *known;		/* in TopMemoryContext */
	int			nknown;
} Identity;

static Identity cached = {0};

/*
 * The (sub)transactions that have replaced the identity (replaced_by), and that have changed the
 * table in any way (changed_by).  Until they commit, this session prepares nothing with the new
 * identity, and decides nothing by what the table says.
 */
static TransactionId replaced_by = InvalidTransactionId;
static TransactionId changed_by = InvalidTransactionId;

/* With replaced_by: the identity before that change, and the role that has called the function. */
static char predecessor[SHARD_IDENTITY_LEN + 1];
static Oid	replaced_for = InvalidOid;

/* Does the current transaction contain the change, and has not rolled it back? */
static bool
is_current_change(TransactionId by)
{
	return TransactionIdIsValid(by) && TransactionIdIsCurrentTransactionId(by);
}

/*
 * Notes a change.  An earlier change of this transaction stays noted: either both are rolled back together, or only
 * this one.
 */
static void
note_change(TransactionId *by)
{
	if (!is_current_change(*by))
		*by = GetCurrentTransactionId();
}

/* ---------- fingerprint ---------- */

/* Adds the timeline: if a backup is restored over the old files, PG_VERSION may remain the same file. */
static void
add_timeline(char *text)
{
	size_t		len = strlen(text);

	if (!RecoveryInProgress())
		snprintf(text + len, FINGERPRINT_LEN - len, "@%u", GetWALInsertionTimeLine());
}

/* Returns the fingerprint of this server's data directory and timeline; it does not change while the server runs. */
static const char *
fingerprint(void)
{
	static char text[FINGERPRINT_LEN];
	char		path[MAXPGPATH];

	if (text[0] != '\0')
		return text;
	snprintf(path, sizeof(path), "%s/PG_VERSION", DataDir);
#ifdef STATX_BTIME
	{
		struct statx file;

		if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &file) == 0)
		{
			if (file.stx_mask & STATX_BTIME)
				snprintf(text, sizeof(text), "%llu/%lld.%09u", (unsigned long long) file.stx_ino,
						 (long long) file.stx_btime.tv_sec, (unsigned int) file.stx_btime.tv_nsec);
			else
				snprintf(text, sizeof(text), "%llu", (unsigned long long) file.stx_ino);
			add_timeline(text);
			return text;
		}
	}
#endif
	{
		struct stat file;

		if (stat(path, &file) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not stat file \"%s\": %m", path)));
		snprintf(text, sizeof(text), "%llu", (unsigned long long) file.st_ino);
	}
	add_timeline(text);
	return text;
}

static void
print_identity(uint64 number, char *identity)
{
	snprintf(identity, SHARD_IDENTITY_LEN + 1, "%016llx", (unsigned long long) number);
}

/*
 * Makes the identity of a server that has never stored one.  If the extension is dropped and
 * created again, its log is empty and its identity is another one.
 */
static void
make_first(char *identity)
{
	char	   *text = psprintf(UINT64_FORMAT "/%u/%u/%s", GetSystemIdentifier(), MyDatabaseId, cached.relid, fingerprint());

	print_identity(hash_bytes_extended((const unsigned char *) text, (int) strlen(text), 0), identity);
	pfree(text);
}

static void
make_random(char *identity)
{
	uint64		number;

	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	print_identity(number, identity);
}

/* ---------- the table ---------- */

/* Is this the row of this server's present identity? */
static bool
is_current(const ShardOwnTable *row)
{
	return (uint64) DatumGetInt64(row->values[COORDINATOR_SYSTEM]) == GetSystemIdentifier() &&
		DatumGetObjectId(row->values[COORDINATOR_DATABASE]) == MyDatabaseId &&
		row->nulls[COORDINATOR_TAKEN_OVER_AT];
}

/* Adds a version of a row to cached.known. */
static void
add_known(const ShardOwnTable *row)
{
	KnownIdentity read = {
		.system_identifier = (uint64) DatumGetInt64(row->values[COORDINATOR_SYSTEM]),
		.database = DatumGetObjectId(row->values[COORDINATOR_DATABASE]),
		.taken_over = !row->nulls[COORDINATOR_TAKEN_OVER_AT],
		.complete = DatumGetBool(row->values[COORDINATOR_COMPLETE])
	};
	char	   *noted = shard_own_table_text(row, COORDINATOR_FINGERPRINT);
	char	   *identity = shard_own_table_text(row, COORDINATOR_IDENTITY);

	strlcpy(read.identity, identity, sizeof(read.identity));
	read.has_our_fingerprint = strcmp(noted, fingerprint()) == 0;
	pfree(noted);
	pfree(identity);
	for (int i = 0; i < cached.nknown; i++)
	{
		KnownIdentity *known = &cached.known[i];

		if (known->system_identifier == read.system_identifier && known->database == read.database &&
			strcmp(known->identity, read.identity) == 0)
		{
			known->taken_over |= read.taken_over;
			known->complete |= read.complete;
			return;
		}
	}
	if (cached.known == NULL)
		cached.known = MemoryContextAlloc(TopMemoryContext, sizeof(KnownIdentity));
	else
		cached.known = repalloc(cached.known, (cached.nknown + 1) * sizeof(KnownIdentity));
	cached.known[cached.nknown++] = read;
}

void
shard_identity_invalidate(Oid relid)
{
	if (relid == InvalidOid || relid == cached.relid)
		cached.is_valid = false;
}

/* Reads the table, unless the cached content is still valid. */
static const Identity *
look_up(void)
{
	ShardOwnTable table;

	/* otherwise the table is read again each time, since another session may store or confirm the identity */
	if (cached.is_valid && cached.is_stored && cached.is_confirmed)
		return &cached;
	cached.is_valid = false;
	if (cached.known != NULL)
		pfree(cached.known);
	cached.known = NULL;
	cached.nknown = 0;
	cached.is_stored = false;
	cached.is_confirmed = true;
	shard_own_table_open(&table, COORDINATOR_TABLE, AccessShareLock);
	cached.relid = RelationGetRelid(table.rel);
	cached.is_valid = true;		/* an invalidation during the scan resets it */
	shard_own_table_begin(&table, SnapshotAny);
	while (shard_own_table_next(&table))
		add_known(&table);
	shard_own_table_end(&table);
	shard_own_table_close(&table);
	for (int i = 0; i < cached.nknown; i++)
	{
		const KnownIdentity *known = &cached.known[i];

		if (known->taken_over || known->system_identifier != GetSystemIdentifier() || known->database != MyDatabaseId)
			continue;
		strlcpy(cached.identity, known->identity, sizeof(cached.identity));
		cached.is_stored = true;
		cached.is_confirmed = known->has_our_fingerprint;
	}
	if (!cached.is_stored)
		make_first(cached.identity);
	return &cached;
}

const char *
shard_identity_get(void)
{
	return look_up()->identity;
}

char *
shard_identity_named_by(void)
{
	return psprintf("%s " UINT64_FORMAT, shard_identity_get(), U64FromFullTransactionId(GetTopFullTransactionId()));
}

bool
shard_identity_is_stored(void)
{
	return look_up()->is_stored;
}

bool
shard_identity_is_confirmed(void)
{
	return look_up()->is_confirmed;
}

char *
shard_identity_problem(void)
{
	return psprintf("The identity \"%s\" of this coordinator was made by another server, of which this one is a clone, a restored backup or a promoted standby. The original may still use the same nodes.",
					shard_identity_get());
}

const char *
shard_identity_hint(void)
{
	return _("If this server takes the place of the original, which must not go on, run SELECT shardfdw.promote_coordinator(). Its predecessor's last transactions are rolled back where they did not commit if you can say that all of its commits are here: promote_coordinator('complete').");
}

void
shard_identity_require(void)
{
	if (!shard_identity_is_confirmed())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this server is not confirmed as the coordinator, and cannot change nodes"),
				 errdetail_internal("%s", shard_identity_problem()),
				 errhint("%s", shard_identity_hint())));
	if (is_current_change(replaced_by))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change nodes in the transaction that has called promote_coordinator()")));
}

void
shard_identity_require_committed(void)
{
	if (is_current_change(changed_by))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot resolve prepared transactions in the transaction that has called promote_coordinator() or resolve_transaction()"),
				 errhint("Commit first.")));
}

void
shard_identity_pre_commit(void)
{
	ShardOwnSql role;
	ShardOwnSql own;
	ShardSqlParam param;

	if (!is_current_change(replaced_by))
		return;
	SHARD_FAULT_POINT("take_over");
	param = shard_sql_text(predecessor);
	shard_own_sql_become(&role, replaced_for);
	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, GetTransactionSnapshot());
	(void) shard_own_sql_execute("SELECT shardfdw_internal.announce_identity($1)", SPI_OK_SELECT, 1, &param);
	shard_own_sql_end(&own);
	shard_own_sql_return(&role);
}

void
shard_identity_pre_prepare(void)
{
	if (is_current_change(replaced_by))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has called promote_coordinator()")));
}

bool
shard_identity_came_along(uint64 system_identifier, Oid database, const char *identity)
{
	const Identity *own = look_up();

	if (system_identifier == GetSystemIdentifier())
		return false;
	for (int i = 0; i < own->nknown; i++)
	{
		const KnownIdentity *known = &own->known[i];

		if (known->system_identifier == system_identifier && known->database == database &&
			strcmp(identity, known->identity) == 0)
			return true;
	}
	return false;
}

ShardIdentityRelation
shard_identity_relation(uint64 system_identifier, Oid database, const char *identity)
{
	const Identity *own = look_up();

	if (system_identifier == GetSystemIdentifier() && database == MyDatabaseId && strcmp(identity, own->identity) == 0)
		return SHARD_IDENTITY_OWN;
	for (int i = 0; i < own->nknown; i++)
	{
		const KnownIdentity *known = &own->known[i];

		if (known->taken_over && known->system_identifier == system_identifier &&
			known->database == database && strcmp(identity, known->identity) == 0)
			return known->complete ? SHARD_IDENTITY_PREDECESSOR_COMPLETE : SHARD_IDENTITY_PREDECESSOR;
	}
	return SHARD_IDENTITY_OTHER;
}

ShardIdentityRelation
shard_identity_noted_relation(const char *identity)
{
	return shard_identity_relation(GetSystemIdentifier(), MyDatabaseId, identity);
}

/*
 * The schema is created as for partial aggregates, but only if it is missing: the role may not have
 * the right to create a schema.
 */
char *
shard_identity_note_command(const char *identity)
{
	char	   *name = shard_conninfo_note_name();

	return psprintf("DO $shardfdw$ BEGIN"
					" IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) '" SHARD_INTERNAL_SCHEMA "') THEN"
					" CREATE SCHEMA " SHARD_INTERNAL_SCHEMA "; %s; GRANT USAGE ON SCHEMA " SHARD_INTERNAL_SCHEMA " TO PUBLIC; END IF;"
					" IF pg_catalog.to_regclass('" SHARD_INTERNAL_SCHEMA ".%s') IS NULL THEN CREATE TABLE " SHARD_INTERNAL_SCHEMA ".%s (); %s; END IF;"
					" COMMENT ON TABLE " SHARD_INTERNAL_SCHEMA ".%s IS %s; END $shardfdw$",
					shard_own_right_revoke("SCHEMA", SHARD_INTERNAL_SCHEMA), name, name,
					shard_own_right_revoke("TABLE", psprintf(SHARD_INTERNAL_SCHEMA ".%s", name)), name, quote_literal_cstr(identity));
}

/* ---------- changes ---------- */

bool
shard_identity_lock(bool wait)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_IDENTITY, 0, 0);

	return LockAcquire(&tag, ExclusiveLock, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/* Stores identity as this server's own. */
static void
insert_row(ShardOwnTable *table, const char *identity, const ShardLogReach *reach)
{
	shard_own_table_clear(table);
	shard_own_table_set(table, COORDINATOR_IDENTITY, CStringGetTextDatum(identity));
	shard_own_table_set(table, COORDINATOR_SYSTEM, Int64GetDatum((int64) GetSystemIdentifier()));
	shard_own_table_set(table, COORDINATOR_DATABASE, ObjectIdGetDatum(MyDatabaseId));
	shard_own_table_set(table, COORDINATOR_FINGERPRINT, CStringGetTextDatum(fingerprint()));
	shard_own_table_set(table, COORDINATOR_MADE_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	shard_own_table_set(table, COORDINATOR_COMPLETE, BoolGetDatum(false));
	shard_own_table_set(table, COORDINATOR_FORGOTTEN_UNTIL, TimestampTzGetDatum(reach->forgotten_until));
	shard_own_table_set(table, COORDINATOR_SETTLED_BELOW, FullTransactionIdGetDatum(reach->settled_below));
	shard_own_table_insert(table);
	CacheInvalidateRelcache(table->rel);
}

void
shard_identity_store(void)
{
	const Identity *own = look_up();
	ShardOwnTable table;
	ShardLogReach reach;

	if (own->is_stored || !shard_identity_lock(false) || look_up()->is_stored)
		return;
	shard_own_table_open(&table, COORDINATOR_TABLE, RowExclusiveLock);
	reach = shard_identity_read_reach();
	insert_row(&table, cached.identity, &reach);
	CommandCounterIncrement();
	shard_own_table_close(&table);
}

/*
 * Returns the values in the row of the present identity.  If it has no row, those of the latest
 * identity of this data: after pg_upgrade that of the old server, which had the same log.
 */
ShardLogReach
shard_identity_read_reach(void)
{
	ShardOwnTable table;
	ShardLogReach reach = {DT_NOBEGIN, InvalidFullTransactionId};

	shard_own_table_open(&table, COORDINATOR_TABLE, AccessShareLock);
	shard_own_table_begin(&table, SnapshotAny);
	while (shard_own_table_next(&table))
	{
		FullTransactionId settled_below = DatumGetFullTransactionId(table.values[COORDINATOR_SETTLED_BELOW]);

		/* both values only grow, and each row continues an earlier one: so old versions are harmless */
		reach.forgotten_until = Max(reach.forgotten_until, DatumGetTimestampTz(table.values[COORDINATOR_FORGOTTEN_UNTIL]));
		if (FullTransactionIdPrecedes(reach.settled_below, settled_below))
			reach.settled_below = settled_below;
	}
	shard_own_table_end(&table);
	shard_own_table_close(&table);
	return reach;
}

/* Changes a row; false: leaves it as it is. */
typedef bool (*ChangeRow) (ShardOwnTable *row, const void *arg);

/* Calls change for each row.  Returns the number of changed rows. */
static int
update_rows(ShardOwnTable *table, ChangeRow change, const void *arg)
{
	int			nchanged = 0;

	/* the scan also returns the new versions */
	shard_own_table_begin(table, SnapshotSelf);
	while (shard_own_table_next(table))
	{
		if (!change(table, arg))
			continue;
		shard_own_table_update(table);
		nchanged++;
	}
	shard_own_table_end(table);
	CommandCounterIncrement();
	return nchanged;
}

static bool
change_reach(ShardOwnTable *row, const void *arg)
{
	const ShardLogReach *reach = arg;

	if (!is_current(row) ||
		(DatumGetTimestampTz(row->values[COORDINATOR_FORGOTTEN_UNTIL]) == reach->forgotten_until &&
		 FullTransactionIdEquals(DatumGetFullTransactionId(row->values[COORDINATOR_SETTLED_BELOW]), reach->settled_below)))
		return false;
	shard_own_table_set(row, COORDINATOR_FORGOTTEN_UNTIL, TimestampTzGetDatum(reach->forgotten_until));
	shard_own_table_set(row, COORDINATOR_SETTLED_BELOW, FullTransactionIdGetDatum(reach->settled_below));
	return true;
}

void
shard_identity_write_reach(const ShardLogReach *reach)
{
	ShardOwnTable table;

	shard_own_table_open(&table, COORDINATOR_TABLE, RowExclusiveLock);
	(void) update_rows(&table, change_reach, reach);
	shard_own_table_close(&table);
}

/*
 * Is this the row of another existing database of this server, from which this database was created
 * (CREATE DATABASE ...  TEMPLATE)?
 */
static bool
is_of_neighbour(const ShardOwnTable *row)
{
	Oid			database = DatumGetObjectId(row->values[COORDINATOR_DATABASE]);

	return (uint64) DatumGetInt64(row->values[COORDINATOR_SYSTEM]) == GetSystemIdentifier() &&
		database != MyDatabaseId && SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
}

/*
 * Records that this server has taken over an identity.  A row that was taken over before remains as
 * it is: it describes the commits that this server, or its original, had received by then.  The
 * identity of another existing database is not taken over: that database decides about its
 * transactions itself.
 */
static bool
take_over(ShardOwnTable *row, const void *arg)
{
	const bool *all_received = arg;

	if (!row->nulls[COORDINATOR_TAKEN_OVER_AT] || is_of_neighbour(row))
		return false;
	shard_own_table_set(row, COORDINATOR_TAKEN_OVER_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	shard_own_table_set(row, COORDINATOR_COMPLETE, BoolGetDatum(*all_received));
	return true;
}

/* Records that all commits of a predecessor are known. */
static bool
mark_complete(ShardOwnTable *row, const void *arg)
{
	const char *identity = arg;

	if (row->nulls[COORDINATOR_TAKEN_OVER_AT] || DatumGetBool(row->values[COORDINATOR_COMPLETE]) ||
		strcmp(shard_own_table_text(row, COORDINATOR_IDENTITY), identity) != 0)
		return false;
	shard_own_table_set(row, COORDINATOR_COMPLETE, BoolGetDatum(true));
	return true;
}

/* ---------- SQL ---------- */

Datum
shardfdw_store_identity(PG_FUNCTION_ARGS)
{
	/* until the transaction ends, the lock blocks promote_coordinator() */
	if (!shard_own_right_has(GetUserId(), "add_node") && !shard_own_right_has(GetUserId(), "enable_node"))
		PG_RETURN_VOID();
	shard_identity_store();
	PG_RETURN_VOID();
}

/*
 * () -> text: the same in all databases of this server, different on all other servers, including
 * copies of this one.
 */
Datum
shardfdw_server_mark(PG_FUNCTION_ARGS)
{
	const char *print = fingerprint();

	PG_RETURN_TEXT_P(cstring_to_text(psprintf(UINT64_FORMAT ":" UINT64_FORMAT, GetSystemIdentifier(),
											  hash_bytes_extended((const unsigned char *) print, (int) strlen(print), 0))));
}

/* replace_identity(all_commits_received boolean) -> text: the new identity. */
Datum
shardfdw_replace_identity(PG_FUNCTION_ARGS)
{
	char		identity[SHARD_IDENTITY_LEN + 1];
	ShardLogReach reach;
	ShardOwnTable table;
	bool		all_received = PG_GETARG_BOOL(0);

	PreventCommandIfReadOnly("promote_coordinator()");
	PreventCommandDuringRecovery("promote_coordinator()");
	(void) shard_identity_lock(true);
	shard_flush_commit_force();	/* nodes will be told the new identity */
	if (!is_current_change(replaced_by))
	{
		strlcpy(predecessor, shard_identity_get(), sizeof(predecessor));
		replaced_for = GetUserId();
	}
	note_change(&replaced_by);
	note_change(&changed_by);
	shard_identity_store();
	shard_own_table_open(&table, COORDINATOR_TABLE, RowExclusiveLock);
	reach = shard_identity_read_reach();
	(void) update_rows(&table, take_over, &all_received);
	make_random(identity);
	insert_row(&table, identity, &reach);
	CommandCounterIncrement();
	shard_own_table_close(&table);
	PG_RETURN_TEXT_P(cstring_to_text(identity));
}

/* declare_commits_received(predecessor text) -> void */
Datum
shardfdw_declare_commits_received(PG_FUNCTION_ARGS)
{
	char	   *identity;
	ShardOwnTable table;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("predecessor must not be null")));
	identity = text_to_cstring(PG_GETARG_TEXT_PP(0));
	PreventCommandIfReadOnly("resolve_transaction()");
	PreventCommandDuringRecovery("resolve_transaction()");
	(void) shard_identity_lock(true);
	note_change(&changed_by);
	shard_own_table_open(&table, COORDINATOR_TABLE, RowExclusiveLock);
	if (update_rows(&table, mark_complete, identity) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("\"%s\" is no predecessor of this coordinator of which commits may be missing", identity),
				 errhint("recover_prepared_transactions() names those that have left something on nodes.")));
	CacheInvalidateRelcache(table.rel);
	shard_own_table_close(&table);
	PG_RETURN_VOID();
}

/* decided_identities() -> text[] */
Datum
shardfdw_decided_identities(PG_FUNCTION_ARGS)
{
	const Identity *own = look_up();
	Datum	   *elems = palloc((own->nknown + 1) * sizeof(Datum));
	int			n = 0;

	elems[n++] = CStringGetTextDatum(own->identity);
	for (int i = 0; i < own->nknown; i++)
	{
		const KnownIdentity *known = &own->known[i];

		if (known->taken_over && known->complete && strcmp(known->identity, own->identity) != 0)
			elems[n++] = CStringGetTextDatum(known->identity);
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* coordinator_identity(OUT identity text, OUT confirmed boolean, OUT note_name name, OUT note_command text) */
Datum
shardfdw_coordinator_identity(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(shard_identity_get());
	values[1] = BoolGetDatum(shard_identity_is_confirmed());
	values[2] = DirectFunctionCall1(namein, CStringGetDatum(shard_conninfo_note_name()));
	values[3] = CStringGetTextDatum(shard_identity_note_command(shard_identity_get()));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
