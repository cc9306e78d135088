/*
 * resume_row.c
 *	  The table shardfdw_internal.resumable_load: how far loads with COPY's option
 *	  RESUME have come.
 *
 * It is read and written below the level of SQL: rights, row security and the snapshot of
 * the transaction do not apply.  The snapshot of a statement is older than the lock of the
 * load, and would not show what the session that had the lock before has committed.
 *
 * Rows are written under the lock of the load alone.  It is an object lock of the session,
 * which PostgreSQL gives back when a transaction is rolled back.  Its key is a hash of role
 * and name: two loads of the same hash, should there ever be any, cannot run at the same
 * time.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "compat.h"
#include "flush_commit.h"
#include "fmgr.h"
#include "load/input/resume_row.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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
	COL_LOCK,
	NCOLS = COL_LOCK
};

static Oid
find_relation(const char *name)
{
	Oid			relid = get_relname_relid(name, get_namespace_oid(SHARD_INTERNAL_SCHEMA, false));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table shardfdw_internal.resumable_load does not exist"),
				 errhint("Run ALTER EXTENSION shardfdw UPDATE.")));
	return relid;
}

static uint32
lock_key(Oid userid, const char *name)
{
	return hash_combine(murmurhash32(userid), hash_bytes((const unsigned char *) name, strlen(name)));
}

static LOCKTAG
lock_tag(Oid userid, const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, find_relation("resumable_load"), lock_key(userid, name), 0);
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

/* Calls do_row, if it is not NULL, with the row of userid and name; false: there is none. */
static bool
find_row(Oid userid, const char *name, void (*do_row) (Relation rel, HeapTuple tuple, void *arg), void *arg)
{
	Relation	rel = table_open(find_relation("resumable_load"), RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], COL_ROLE, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(userid));
	ScanKeyInit(&keys[1], COL_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
	scan = systable_beginscan(rel, find_relation("resumable_load_pkey"), true, SnapshotSelf, lengthof(keys), keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && do_row)
		do_row(rel, tuple, arg);
	systable_endscan(scan);

	/* the lock stays until the end of the transaction, as for any UPDATE */
	table_close(rel, NoLock);
	return HeapTupleIsValid(tuple);
}

static void
take_row(Relation rel, HeapTuple tuple, void *arg)
{
	ShardResumeRow *row = arg;
	Datum		values[NCOLS + 1];
	bool		nulls[NCOLS + 1];

	heap_deform_tuple(tuple, RelationGetDescr(rel), values + 1, nulls + 1);
	row->relid = DatumGetObjectId(values[COL_RELATION]);
	row->definition = TextDatumGetCString(values[COL_DEFINITION]);
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

void
shard_resume_row_read(Oid userid, const char *name, ShardResumeRow *row)
{
	memset(row, 0, sizeof(*row));
	row->userid = userid;
	row->name = name;
	row->exists = find_row(userid, name, take_row, row);
}

static HeapTuple
form_row(Relation rel, const ShardResumeRow *row)
{
	Datum		values[NCOLS + 1];
	bool		nulls[NCOLS + 1] = {false};

	values[COL_ROLE] = ObjectIdGetDatum(row->userid);
	values[COL_NAME] = CStringGetTextDatum(row->name);
	values[COL_RELATION] = ObjectIdGetDatum(row->relid);
	values[COL_DEFINITION] = CStringGetTextDatum(row->definition);
	values[COL_BYTES] = Int64GetDatum(row->nbytes);
	values[COL_LINES] = Int64GetDatum(row->nlines);
	values[COL_CHECKSUM] = Int64GetDatum((int64) row->checksum);
	values[COL_EOL] = Int32GetDatum(row->eol);
	values[COL_LEFT] = Int64GetDatum(row->nleft);
	nulls[COL_LEFT] = row->nleft < 0;
	values[COL_ROWS] = Int64GetDatum(row->nrows);
	values[COL_REJECTED] = Int64GetDatum(row->rejects.nrejected);
	values[COL_DUPLICATES] = Int64GetDatum(row->rejects.nduplicates);
	values[COL_REPLACED] = Int64GetDatum(row->rejects.nreplaced);
	values[COL_OTHER_ERRORS] = BoolGetDatum(row->rejects.other_errors);
	values[COL_REJECT_LOAD] = Int64GetDatum(row->rejects.load);
	nulls[COL_REJECT_LOAD] = row->rejects.load == 0;
	values[COL_STARTED] = TimestampTzGetDatum(row->started);
	values[COL_COMMITTED] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_FINISHED] = TimestampTzGetDatum(row->finished);
	nulls[COL_FINISHED] = row->finished == 0;
	values[COL_WHOLE] = BoolGetDatum(row->whole);
	values[COL_FAILED] = values[COL_ERROR] = (Datum) 0;
	nulls[COL_FAILED] = nulls[COL_ERROR] = true;
	values[COL_LOCK] = ObjectIdGetDatum(lock_key(row->userid, row->name));
	return heap_form_tuple(RelationGetDescr(rel), values + 1, nulls + 1);
}

static void
replace_row(Relation rel, HeapTuple tuple, void *arg)
{
	CatalogTupleUpdate(rel, &tuple->t_self, form_row(rel, arg));
}

void
shard_resume_row_write(const ShardResumeRow *row)
{
	Relation	rel;

	if (find_row(row->userid, row->name, replace_row, (void *) row))
		return;
	rel = table_open(find_relation("resumable_load"), RowExclusiveLock);
	CatalogTupleInsert(rel, form_row(rel, row));
	table_close(rel, NoLock);
}

static void
set_error(Relation rel, HeapTuple tuple, void *arg)
{
	const char *message = arg;
	Datum		values[NCOLS + 1] = {0};
	bool		nulls[NCOLS + 1] = {false};
	bool		replaces[NCOLS + 1] = {false};

	values[COL_FAILED] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_ERROR] = PointerGetDatum(cstring_to_text_with_len(message, pg_mbcliplen(message, strlen(message),
																					   MAX_ERROR_BYTES)));
	replaces[COL_FAILED] = replaces[COL_ERROR] = true;
	CatalogTupleUpdate(rel, &tuple->t_self,
					   heap_modify_tuple(tuple, RelationGetDescr(rel), values + 1, nulls + 1, replaces + 1));
}

void
shard_resume_row_note_error(Oid userid, const char *name, const char *message)
{
	(void) find_row(userid, name, set_error, (void *) message);
}

static void
delete_row(Relation rel, HeapTuple tuple, void *arg)
{
	CatalogTupleDelete(rel, &tuple->t_self);
}

PG_FUNCTION_INFO_V1(shardfdw_forget_load);

/* forget_load(name text, role name) -> boolean: was there such a load? */
Datum
shardfdw_forget_load(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid			userid = get_role_oid(NameStr(*PG_GETARG_NAME(1)), false);

	if (!has_privs_of_role(GetUserId(), userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to forget a load of role \"%s\"", NameStr(*PG_GETARG_NAME(1)))));

	/* until the transaction ends, so that nobody goes on with what it is about to forget */
	if (!shard_resume_row_lock(userid, name, false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("load \"%s\" is running", name)));
	/* the client begins the load again: a crash must not bring back that it has finished */
	shard_flush_commit_force();
	PG_RETURN_BOOL(find_row(userid, name, delete_row, NULL));
}
