/*
 * resume_row.c
 *	  The table shardfdw_internal.resumable_load: the position of loads with COPY's option RESUME.
 *
 * The table is read and written below the SQL level: permissions, row security and the snapshot of the transaction do
 * not apply.  The snapshot of a statement is older than the lock of the load.  It would not show what the previous
 * holder of the lock has committed.
 *
 * Rows are written only under the lock of the load.  It is a session-level object lock, which PostgreSQL releases
 * when a transaction is rolled back.  Its key is a hash of role and name.  If two loads have the same hash, they
 * cannot run at the same time.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat.h"
#include "flush_commit.h"
#include "fmgr.h"
#include "load/input/resume_row.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_table.h"
#include "storage/lock.h"
#include "utils/acl.h"

#define MAX_ERROR_BYTES 1000

enum
{
	COL_ROLE = 1,
	COL_NAME,
	COL_RELATION,
	COL_DEFINITION,
	COL_BYTES,
	COL_LINES,
	COL_CHECKSUM,
	COL_EOL,
	COL_LEFT,
	COL_ROWS,
	COL_REJECTED,
	COL_DUPLICATES,
	COL_REPLACED,
	COL_OTHER_ERRORS,
	COL_REJECT_LOAD,
	COL_STARTED,
	COL_COMMITTED,
	COL_FINISHED,
	COL_WHOLE,
	COL_FAILED,
	COL_ERROR,
	COL_LOCK
};

#define LOAD_TABLE "resumable_load"

static uint32
lock_key(Oid userid, const char *name)
{
	return hash_combine(murmurhash32(userid), hash_bytes((const unsigned char *) name, strlen(name)));
}

static LOCKTAG
lock_tag(Oid userid, const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, shard_own_relation(LOAD_TABLE, false), lock_key(userid, name), 0);
	return tag;
}

bool
shard_resume_row_lock(Oid userid, const char *name, bool of_session)
{
	LOCKTAG		tag = lock_tag(userid, name);

	return LockAcquire(&tag, ExclusiveLock, of_session, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
shard_resume_row_unlock(Oid userid, const char *name)
{
	LOCKTAG		tag = lock_tag(userid, name);

	LockRelease(&tag, ExclusiveLock, true);
}

/* Opens the table and finds the row of userid and name.  False: there is no such row. */
static bool
begin_row(ShardOwnTable *loads, Oid userid, const char *name)
{
	shard_own_table_open(loads, LOAD_TABLE, RowExclusiveLock);
	shard_own_table_key(loads, COL_ROLE, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(userid));
	shard_own_table_key(loads, COL_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
	shard_own_table_begin(loads, SnapshotSelf);
	return shard_own_table_next(loads);
}

static void
end_row(ShardOwnTable *loads)
{
	shard_own_table_end(loads);
	shard_own_table_close(loads);
}

void
shard_resume_row_read(Oid userid, const char *name, ShardResumeRow *row)
{
	ShardOwnTable loads;
	const Datum *values = loads.values;
	const bool *nulls = loads.nulls;

	memset(row, 0, sizeof(*row));
	row->userid = userid;
	row->name = name;
	row->exists = begin_row(&loads, userid, name);
	if (row->exists)
	{
		row->relid = DatumGetObjectId(values[COL_RELATION]);
		row->definition = shard_own_table_text(&loads, COL_DEFINITION);
		row->nbytes = DatumGetInt64(values[COL_BYTES]);
		row->nlines = DatumGetInt64(values[COL_LINES]);
		row->checksum = (pg_crc32c) DatumGetInt64(values[COL_CHECKSUM]);
		row->eol = DatumGetInt32(values[COL_EOL]);
		row->nleft = nulls[COL_LEFT] ? -1 : DatumGetInt64(values[COL_LEFT]);
		row->nrows = DatumGetInt64(values[COL_ROWS]);
		row->rejects.nrejected = DatumGetInt64(values[COL_REJECTED]);
		row->rejects.nduplicates = DatumGetInt64(values[COL_DUPLICATES]);
		row->rejects.nreplaced = DatumGetInt64(values[COL_REPLACED]);
		row->rejects.other_errors = DatumGetBool(values[COL_OTHER_ERRORS]);
		row->rejects.load = nulls[COL_REJECT_LOAD] ? 0 : DatumGetInt64(values[COL_REJECT_LOAD]);
		row->started = DatumGetTimestampTz(values[COL_STARTED]);
		row->finished = nulls[COL_FINISHED] ? 0 : DatumGetTimestampTz(values[COL_FINISHED]);
		row->whole = DatumGetBool(values[COL_WHOLE]);
	}
	end_row(&loads);
}

/* Sets a column, or sets it to null if is_known is false. */
static void
set_known(ShardOwnTable *loads, AttrNumber column, bool is_known, Datum value)
{
	if (is_known)
		shard_own_table_set(loads, column, value);
	else
		shard_own_table_set_null(loads, column);
}

static void
set_row(ShardOwnTable *loads, const ShardResumeRow *row)
{
	shard_own_table_set(loads, COL_ROLE, ObjectIdGetDatum(row->userid));
	shard_own_table_set(loads, COL_NAME, CStringGetTextDatum(row->name));
	shard_own_table_set(loads, COL_RELATION, ObjectIdGetDatum(row->relid));
	shard_own_table_set(loads, COL_DEFINITION, CStringGetTextDatum(row->definition));
	shard_own_table_set(loads, COL_BYTES, Int64GetDatum(row->nbytes));
	shard_own_table_set(loads, COL_LINES, Int64GetDatum(row->nlines));
	shard_own_table_set(loads, COL_CHECKSUM, Int64GetDatum((int64) row->checksum));
	shard_own_table_set(loads, COL_EOL, Int32GetDatum(row->eol));
	set_known(loads, COL_LEFT, row->nleft >= 0, Int64GetDatum(row->nleft));
	shard_own_table_set(loads, COL_ROWS, Int64GetDatum(row->nrows));
	shard_own_table_set(loads, COL_REJECTED, Int64GetDatum(row->rejects.nrejected));
	shard_own_table_set(loads, COL_DUPLICATES, Int64GetDatum(row->rejects.nduplicates));
	shard_own_table_set(loads, COL_REPLACED, Int64GetDatum(row->rejects.nreplaced));
	shard_own_table_set(loads, COL_OTHER_ERRORS, BoolGetDatum(row->rejects.other_errors));
	set_known(loads, COL_REJECT_LOAD, row->rejects.load != 0, Int64GetDatum(row->rejects.load));
	shard_own_table_set(loads, COL_STARTED, TimestampTzGetDatum(row->started));
	shard_own_table_set(loads, COL_COMMITTED, TimestampTzGetDatum(GetCurrentTimestamp()));
	set_known(loads, COL_FINISHED, row->finished != 0, TimestampTzGetDatum(row->finished));
	shard_own_table_set(loads, COL_WHOLE, BoolGetDatum(row->whole));
	shard_own_table_set_null(loads, COL_FAILED);
	shard_own_table_set_null(loads, COL_ERROR);
	shard_own_table_set(loads, COL_LOCK, ObjectIdGetDatum(lock_key(row->userid, row->name)));
}

void
shard_resume_row_write(const ShardResumeRow *row)
{
	ShardOwnTable loads;
	bool		exists = begin_row(&loads, row->userid, row->name);

	set_row(&loads, row);
	if (exists)
		shard_own_table_update(&loads);
	else
		shard_own_table_insert(&loads);
	end_row(&loads);
}

void
shard_resume_row_note_error(Oid userid, const char *name, const char *message)
{
	ShardOwnTable loads;

	if (begin_row(&loads, userid, name))
	{
		int			len = pg_mbcliplen(message, strlen(message), MAX_ERROR_BYTES);

		shard_own_table_set(&loads, COL_FAILED, TimestampTzGetDatum(GetCurrentTimestamp()));
		shard_own_table_set(&loads, COL_ERROR, PointerGetDatum(cstring_to_text_with_len(message, len)));
		shard_own_table_update(&loads);
	}
	end_row(&loads);
}

PG_FUNCTION_INFO_V1(shardfdw_forget_load);

/* forget_load(name text, role name) -> boolean: did such a load exist? */
Datum
shardfdw_forget_load(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid			userid = get_role_oid(NameStr(*PG_GETARG_NAME(1)), false);
	ShardOwnTable loads;
	bool		exists;

	if (!has_privs_of_role(GetUserId(), userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to forget a load of role \"%s\"", NameStr(*PG_GETARG_NAME(1)))));

	/* until the transaction ends, so that no session continues the load */
	if (!shard_resume_row_lock(userid, name, false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("load \"%s\" is running", name)));
	/*
	 * the client then starts the load again: after a crash, the row that says that it has finished must not come back
	 */
	shard_flush_commit_force();
	exists = begin_row(&loads, userid, name);
	if (exists)
		shard_own_table_delete(&loads);
	end_row(&loads);
	PG_RETURN_BOOL(exists);
}
