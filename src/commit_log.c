/*
 * commit_log.c
 *	  Access to the table shardfdw_internal.commit_log without SQL.  Rights, row security, read-only
 *	  transactions and the snapshot of the transaction do not apply.
 *
 * Rows are read with SnapshotSelf.  It sees what has committed by now, and it takes no predicate
 * locks, so serializable transactions do not fail because of each other's log rows.  But it can
 * miss all versions of a row that is updated during the scan. shard_commit_log_contains() must not
 * miss a row, so it accepts any version.  The other functions see the row at the next call: only
 * shard_commit_log_set_timelines() updates a row that remains unresolved, and it never runs
 * together with shard_commit_log_purge().
 *
 * If a transaction is not in the log, it has not committed, or its row was deleted.  Column logged_at of a
 * row is the time in the identifiers of its prepared transactions. forgotten_until (in
 * shardfdw_internal.coordinator) is the latest logged_at of all deleted rows; the transaction that
 * deletes rows writes it.  So
 *
 *	 identifier's time > forgotten_until, read after the row was not found
 *	 => no row with this time was deleted => the transaction has not committed
 *
 * This does not depend on clocks.  If a clock is set back, identifiers look older than they are;
 * then recovery reports the transaction and does not decide.  A row with a logged_at in the future
 * is not deleted before that time, since forgotten_until would be in the future, too.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commit_log.h"
#include "compat.h"
#include "guc.h"
#include "identity.h"
#include "own_table.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/xid8.h"

#define LOG_TABLE "commit_log"

enum
{
	LOG_XID = 1,
	LOG_TOKEN,
	LOG_NODES,
	LOG_LOGGED_AT,
	LOG_TIMELINES,
	LOG_SYSTEMS,
	LOG_DATABASES,
	LOG_CONFIRMS_XID,
	LOG_CONFIRMS_TOKEN,
	LOG_SETTLED_AT,
	LOG_NOTE
};

#define SETTLED_STEP 1000		/* settled_below is written only after it has moved by this many transactions, to save writes */

/* Begins a scan of the versions of key's row that are visible to snapshot. */
static void
begin_lookup(ShardOwnTable *log, ShardLogKey key, Snapshot snapshot)
{
	shard_own_table_key(log, LOG_XID, BTEqualStrategyNumber, F_XID8EQ, FullTransactionIdGetDatum(key.xid));
	shard_own_table_key(log, LOG_TOKEN, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(key.token));
	shard_own_table_begin(log, snapshot);
}

void
shard_commit_log_insert(ShardLogKey key, TimestampTz time, const ShardLogNode *nodes, int nnodes,
						ShardLogKey confirms)
{
	ShardOwnTable log;
	Datum	   *names = palloc(nnodes * sizeof(Datum));
	Datum	   *timelines = palloc(nnodes * sizeof(Datum));
	Datum	   *systems = palloc(nnodes * sizeof(Datum));
	Datum	   *databases = palloc(nnodes * sizeof(Datum));

	for (int i = 0; i < nnodes; i++)
	{
		names[i] = CStringGetTextDatum(nodes[i].name);
		timelines[i] = Int32GetDatum((int32) nodes[i].timeline);
		systems[i] = Int64GetDatum(nodes[i].system_identifier);
		databases[i] = CStringGetTextDatum(nodes[i].database);
	}
	shard_own_table_open(&log, LOG_TABLE, RowExclusiveLock);
	shard_own_table_set(&log, LOG_XID, FullTransactionIdGetDatum(key.xid));
	shard_own_table_set(&log, LOG_TOKEN, Int64GetDatum(key.token));
	shard_own_table_set(&log, LOG_NODES, PointerGetDatum(construct_array(names, nnodes, TEXTOID, -1, false, TYPALIGN_INT)));
	shard_own_table_set(&log, LOG_LOGGED_AT, TimestampTzGetDatum(time));
	shard_own_table_set(&log, LOG_TIMELINES, PointerGetDatum(construct_array(timelines, nnodes, INT4OID, sizeof(int32), true, TYPALIGN_INT)));
	shard_own_table_set(&log, LOG_SYSTEMS, PointerGetDatum(construct_array(systems, nnodes, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
	shard_own_table_set(&log, LOG_DATABASES, PointerGetDatum(construct_array(databases, nnodes, TEXTOID, -1, false, TYPALIGN_INT)));
	if (FullTransactionIdIsValid(confirms.xid))
	{
		shard_own_table_set(&log, LOG_CONFIRMS_XID, FullTransactionIdGetDatum(confirms.xid));
		shard_own_table_set(&log, LOG_CONFIRMS_TOKEN, Int64GetDatum(confirms.token));
	}
	shard_own_table_insert(&log);
	shard_own_table_close(&log);
}

bool
shard_commit_log_contains(ShardLogKey key)
{
	ShardOwnTable log;
	bool		found;

	shard_own_table_open(&log, LOG_TABLE, AccessShareLock);
	/* any version of the row proves the commit, also an old one */
	begin_lookup(&log, key, SnapshotAny);
	found = shard_own_table_next(&log);
	shard_own_table_end(&log);
	shard_own_table_close(&log);
	return found;
}

/* Finds and locks the row of key.  False if it does not exist, or another transaction has locked it or the log. */
static bool
begin_update(ShardOwnTable *log, ShardLogKey key)
{
	if (!shard_own_table_try_open(log, LOG_TABLE, RowExclusiveLock))
		return false;
	begin_lookup(log, key, SnapshotSelf);
	if (shard_own_table_next(log) && shard_own_table_lock(log))
		return true;
	shard_own_table_end(log);
	shard_own_table_close(log);
	return false;
}

static void
finish_update(ShardOwnTable *log)
{
	shard_own_table_update(log);
	shard_own_table_end(log);
	shard_own_table_close(log);
	CommandCounterIncrement();
}

bool
shard_commit_log_settle(ShardLogKey key, const char *note)
{
	ShardOwnTable log;

	if (!begin_update(&log, key))
		return false;
	shard_own_table_set(&log, LOG_SETTLED_AT, TimestampTzGetDatum(GetCurrentTimestamp()));
	if (note)
		shard_own_table_set(&log, LOG_NOTE, CStringGetTextDatum(note));
	finish_update(&log);
	return true;
}

bool
shard_commit_log_set_timelines(ShardLogKey key, List *nodes)
{
	ShardOwnTable log;
	Datum	   *timelines = palloc(list_length(nodes) * sizeof(Datum));

	if (!shard_identity_lock(false) || !begin_update(&log, key))
		return false;
	foreach_ptr(const ShardLogNode, node, nodes)
		timelines[foreach_current_index(node)] = Int32GetDatum((int32) node->timeline);
	shard_own_table_set(&log, LOG_TIMELINES, PointerGetDatum(construct_array(timelines, list_length(nodes), INT4OID, sizeof(int32), true, TYPALIGN_INT)));
	finish_update(&log);
	return true;
}

/* ---------- reading ---------- */

/* Returns the n elements of an array column; missing elements are null. */
static void
take_array(const ShardOwnTable *log, AttrNumber column, Oid type, int n, Datum **elems, bool **nulls)
{
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *found = NULL;
	bool	   *found_nulls = NULL;
	int			nfound = 0;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	if (!log->nulls[column])
		deconstruct_array(DatumGetArrayTypeP(log->values[column]), type, typlen, typbyval, typalign, &found, &found_nulls, &nfound);
	*elems = palloc0(Max(n, 1) * sizeof(Datum));
	*nulls = palloc(Max(n, 1) * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		(*nulls)[i] = i >= nfound || found_nulls[i];
		if (!(*nulls)[i])
			(*elems)[i] = found[i];
	}
}

static List *
take_nodes(const ShardOwnTable *log)
{
	ArrayType  *array = DatumGetArrayTypeP(log->values[LOG_NODES]);
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	List	   *nodes = NIL;
	Datum	   *names,
			   *timelines,
			   *systems,
			   *databases;
	bool	   *name_nulls,
			   *timeline_nulls,
			   *system_nulls,
			   *database_nulls;

	take_array(log, LOG_NODES, TEXTOID, n, &names, &name_nulls);
	take_array(log, LOG_TIMELINES, INT4OID, n, &timelines, &timeline_nulls);
	take_array(log, LOG_SYSTEMS, INT8OID, n, &systems, &system_nulls);
	take_array(log, LOG_DATABASES, TEXTOID, n, &databases, &database_nulls);
	for (int i = 0; i < n; i++)
	{
		ShardLogNode *node;

		if (name_nulls[i])
			continue;
		node = palloc(sizeof(ShardLogNode));
		node->name = TextDatumGetCString(names[i]);
		node->timeline = timeline_nulls[i] ? 0 : (TimeLineID) DatumGetInt32(timelines[i]);
		node->system_identifier = system_nulls[i] ? 0 : DatumGetInt64(systems[i]);
		node->database = database_nulls[i] ? "" : TextDatumGetCString(databases[i]);
		nodes = lappend(nodes, node);
	}
	return nodes;
}

static ShardLogKey
key_of(const ShardOwnTable *log)
{
	ShardLogKey key = {DatumGetFullTransactionId(log->values[LOG_XID]), DatumGetInt64(log->values[LOG_TOKEN])};

	return key;
}

static bool
is_same(ShardLogKey a, ShardLogKey b)
{
	return a.token == b.token && FullTransactionIdEquals(a.xid, b.xid);
}

/*
 * Reads the rows of unresolved transactions.  If a row confirms an earlier one, that one is removed
 * from the list.  So the list stays short: it contains the last transaction of each session.
 */
static List *
read_unsettled(ShardOwnTable *log, FullTransactionId from)
{
	List	   *entries = NIL;

	shard_own_table_key(log, LOG_XID, BTGreaterEqualStrategyNumber, F_XID8GE, FullTransactionIdGetDatum(from));
	shard_own_table_begin_ordered(log, SnapshotSelf);
	while (shard_own_table_next(log))
	{
		if (!log->nulls[LOG_CONFIRMS_XID] && !log->nulls[LOG_CONFIRMS_TOKEN])
		{
			ShardLogKey confirmed = {DatumGetFullTransactionId(log->values[LOG_CONFIRMS_XID]),
			DatumGetInt64(log->values[LOG_CONFIRMS_TOKEN])};

			foreach_ptr(ShardLogEntry, entry, entries)
			{
				if (!is_same(entry->key, confirmed))
					continue;
				entries = foreach_delete_current(entries, entry);
				pfree(entry);
				break;
			}
		}
		if (log->nulls[LOG_SETTLED_AT])
		{
			ShardLogEntry *entry = palloc(sizeof(ShardLogEntry));

			entry->key = key_of(log);
			entry->nodes = NIL;
			entries = lappend(entries, entry);
		}
	}
	shard_own_table_end(log);
	return entries;
}

List *
shard_commit_log_read_unsettled(void)
{
	ShardOwnTable log;
	List	   *entries;

	shard_own_table_open(&log, LOG_TABLE, AccessShareLock);
	entries = read_unsettled(&log, shard_identity_read_reach().settled_below);
	foreach_ptr(ShardLogEntry, entry, entries)
	{
		begin_lookup(&log, entry->key, SnapshotSelf);
		if (shard_own_table_next(&log))
			entry->nodes = take_nodes(&log);
		else
			entries = foreach_delete_current(entries, entry);	/* purged in the meantime */
		shard_own_table_end(&log);
	}
	shard_own_table_close(&log);
	return entries;
}

/* ---------- purging ---------- */

/* All transactions before the result have ended, so they cannot add rows any more. */
static FullTransactionId
oldest_running(void)
{
	/* in this order: so next is not before xmin */
	TransactionId xmin = GetLatestSnapshot()->xmin;
	FullTransactionId next = ReadNextFullTransactionId();

	return FullTransactionIdFromU64(U64FromFullTransactionId(next) - (uint32) (XidFromFullTransactionId(next) - xmin));
}

static int64
count_rows(ShardOwnTable *log)
{
	int64		n = 0;

	shard_own_table_begin_ordered(log, SnapshotSelf);
	while (shard_own_table_next(log))
		n++;
	shard_own_table_end(log);
	return n;
}

/*
 * Deletes rows of transactions before xid, from the oldest on, until it reaches a row that may
 * stay.  Rows in unsettled, which has the same order, are kept.  So a row that confirms another one
 * is deleted after that one.
 */
static void
delete_rows(ShardOwnTable *log, FullTransactionId before, List *unsettled, ShardLogReach *reach)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz keep_from = TimestampTzPlusMilliseconds(now, -INT64CONST(1000) * shard_guc_commit_log_max_age_s);
	int64		surplus = count_rows(log) - shard_guc_commit_log_max_rows;
	ListCell   *stays = list_head(unsettled);

	shard_own_table_begin_ordered(log, SnapshotSelf);
	while (shard_own_table_next(log))
	{
		TimestampTz logged_at = DatumGetTimestampTz(log->values[LOG_LOGGED_AT]);
		TM_FailureData failure;

		if (!FullTransactionIdPrecedes(key_of(log).xid, before) || logged_at > now ||
			(surplus <= 0 && logged_at >= keep_from))
			break;
		if (stays && is_same(((ShardLogEntry *) lfirst(stays))->key, key_of(log)))
		{
			stays = lnext(unsettled, stays);
			continue;
		}
		/* another session is changing the row */
		if (shard_table_tuple_delete(log->rel, &log->tuple->t_self, GetCurrentCommandId(true), SnapshotSelf, InvalidSnapshot,
									 false, &failure) != TM_Ok)
			break;
		reach->forgotten_until = Max(reach->forgotten_until, logged_at);
		surplus--;
	}
	shard_own_table_end(log);
}

void
shard_commit_log_purge(void)
{
	ShardOwnTable log;
	FullTransactionId before;
	ShardLogReach reach;
	ShardLogReach old;
	List	   *unsettled;

	if (!shard_own_table_try_open(&log, LOG_TABLE, RowExclusiveLock))
		return;
	shard_identity_store();
	if (!shard_identity_is_stored() || !shard_identity_is_confirmed() || !shard_identity_lock(false))
	{
		shard_own_table_close(&log);
		return;
	}

	/* read before the rows: a transaction that ends later is not before it */
	before = oldest_running();
	old = reach = shard_identity_read_reach();
	unsettled = read_unsettled(&log, reach.settled_below);
	delete_rows(&log, before, unsettled, &reach);
	if (unsettled != NIL && FullTransactionIdPrecedes(((ShardLogEntry *) linitial(unsettled))->key.xid, before))
		before = ((ShardLogEntry *) linitial(unsettled))->key.xid;
	if (FullTransactionIdPrecedes(reach.settled_below, before))
		reach.settled_below = before;
	/* reading a few more rows the next time is cheaper than a write in each round */
	if (reach.forgotten_until != old.forgotten_until ||
		U64FromFullTransactionId(reach.settled_below) - U64FromFullTransactionId(old.settled_below) >= SETTLED_STEP)
		shard_identity_write_reach(&reach);
	list_free_deep(unsettled);
	shard_own_table_close(&log);
}
