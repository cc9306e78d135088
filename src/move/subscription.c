/*
 * subscription.c
 *	  The process that applies a subscription which has sharded tables.
 *
 *	 new tables --> temporary slot, snapshot --> other tables follow up to that moment --> COPY, one transaction each
 *	 slot of the subscription --> change --> batch of its table, by key --> a transaction over all nodes
 *
 * A local transaction has all changes of one transaction of the publisher, or of several consecutive ones.  Each
 * batch becomes one DELETE and one COPY (import/import_batch.c).  The subscription's replication origin has the
 * position up to which changes are applied.  The position is in the record of the local commit, which also decides
 * the nodes' transactions.  So after a crash of any server, changes continue where they stopped, without loss or
 * repetition.  A transaction of the publisher that does not fit into memory is written in parts, and committed as
 * one.
 *
 * An error is recorded, and the process restarts after a pause, like PostgreSQL's apply worker.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/moving.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_subscription.h"
#include "catalog/qualified.h"
#include "catch.h"
#include "commands/extension.h"
#include "compat.h"
#include "conninfo.h"
#include "fault.h"
#include "identity.h"
#include "miscadmin.h"
#include "move/import/import_copy.h"
#include "move/import/import_target.h"
#include "move/job/change.h"
#include "move/job/follow.h"
#include "move/job/link.h"
#include "move/job/slot.h"
#include "move/job/table.h"
#include "move/subscription.h"
#include "nodes/value.h"
#include "own_schema.h"
#include "own_sql.h"
#include "pgstat.h"
#include "remote/wire/wait.h"
#include "service/background_worker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "version.h"

#define BATCH_CHANGES 5000		/* the local transaction then ends with the publisher's */
#define BATCH_BYTES (64 * 1024 * 1024)	/* maximum of changes in memory */
#define CHECK_MS 1000			/* interval in which an idle process checks whether the subscription has changed */
#define FILTER_VERSION 150000	/* first version with row filters of publications */
#define TWO_PHASE_VERSION 140000	/* first version with slots that may send prepared transactions */
#define ORIGIN_VERSION 160000	/* first version in which pgoutput knows the origin of changes */

/* A table whose changes the publisher has sent. */
typedef struct Table
{
	uint32		source_oid;
	Oid			relid;			/* InvalidOid: not in the subscription */
	XLogRecPtr	from;			/* the table has the rows that committed on the publisher before this position */
	int			rank;			/* references only tables of a lower rank */
	MemoryContext cxt;
	ShardImportTable columns;
	ShardImportTarget target;
} Table;

typedef struct Applied
{
	MemoryContext cxt;
	Oid			oid;
	TransactionId version;		/* xmin of its catalog row */
	Oid			owner;
	const char *name;
	const char *conninfo;
	const char *place;			/* address of the publisher, for messages */
	const char *slot_name;
	const char *origin;			/* requested origin of changes: any, none */
	bool		disable_on_error;
	bool		run_as_owner;	/* run as owner of the subscription, not of the table */
	List	   *publications;	/* String */
	ShardConn  *source;			/* for queries and copies */
	ShardFollow follow;			/* reads the changes of the slot */
	List	   *tables;			/* Table, by rank */
	XLogRecPtr	ready;			/* position from which all changes apply to all tables; invalid: all changes do already */
	XLogRecPtr	end;			/* after the last commit of the publisher that was read */
	TimestampTz time;			/* of that commit */
	int64		ntransactions;	/* of the publisher, to be committed locally */
	int64		nchanges;		/* number of their changes that were written */
	TimestampTz checked_at;
} Applied;

/* ---------- the subscription ---------- */

/* Reads the definition.  Leaves publications empty if there is nothing to apply.  Call it in a transaction. */
static void
read_definition(Applied *sub)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(sub->cxt);

	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(psprintf("SELECT version, owner, name, slot, origin, disable_on_error, run_as_owner, publication FROM " SHARD_INTERNAL_SCHEMA ".subscription_definition(%u)", sub->oid), InvalidSnapshot))
	{
		sub->version = strtoul(row[0], NULL, 10);
		sub->owner = atooid(row[1]);
		sub->name = row[2];
		sub->slot_name = row[3];
		sub->origin = row[4];
		sub->disable_on_error = strcmp(row[5], "t") == 0;
		sub->run_as_owner = strcmp(row[6], "t") == 0;
		sub->publications = lappend(sub->publications, makeString(row[7]));
	}
	MemoryContextSwitchTo(oldcxt);
}

/*
 * Waits for sessions that change the subscription.  Returns false if there is nothing to apply, another process applies
 * it, or this server is an unconfirmed copy of the coordinator, whose original applies it.
 */
static bool
begin(Applied *sub)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	bool		found;

	shard_move_begin(BOOTSTRAP_SUPERUSERID);
	LockSharedObject(SubscriptionRelationId, sub->oid, 0, AccessShareLock);
	found = OidIsValid(get_extension_oid("shardfdw", true)) && shard_identity_is_confirmed() && shard_moving_claim(-(int64) sub->oid);
	if (found)
	{
		shard_version_check();
		read_definition(sub);
		found = sub->publications != NIL;
	}
	if (found)
		sub->conninfo = MemoryContextStrdup(sub->cxt, shard_subscription_conninfo(sub->oid));
	shard_move_commit();
	MemoryContextSwitchTo(oldcxt);
	if (found)
		sub->place = shard_conninfo_place(sub->conninfo);
	return found;
}

/*
 * Ends this process if a session changes, or has changed, the subscription.  Call it in a transaction.  Other
 * sessions cannot change the subscription until the transaction ends.
 */
static void
hold_subscription(Applied *sub)
{
	LOCKTAG		tag;
	HeapTuple	tuple;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, SubscriptionRelationId, sub->oid, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		proc_exit(1);
	AcceptInvalidationMessages();
	tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(sub->oid));
	if (!HeapTupleIsValid(tuple) || HeapTupleHeaderGetRawXmin(tuple->t_data) != sub->version)
		proc_exit(1);
	ReleaseSysCache(tuple);
	sub->checked_at = GetCurrentTimestamp();
}

/* Begins a local transaction, unless one is open. */
static void
ensure_transaction(Applied *sub)
{
	MemoryContext oldcxt = CurrentMemoryContext;

	if (IsTransactionState())
		return;
	shard_move_begin(sub->owner);
	hold_subscription(sub);
	MemoryContextSwitchTo(oldcxt);
}

static ShardConn *
open_link(Applied *sub, bool replicates)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	ShardConn  *link;

	shard_move_begin(sub->owner);
	link = shard_link_open_string(sub->conninfo, sub->place, sub->owner, replicates);
	shard_move_commit();
	MemoryContextSwitchTo(oldcxt);
	return link;
}

/* ---------- writing ---------- */

static int64
count_changes(const Applied *sub)
{
	int64		n = 0;

	foreach_ptr(const Table, table, sub->tables)
		n += OidIsValid(table->relid) ? shard_import_batch_count(table->target.batch) : 0;
	return n;
}

/* Writes the changes of all batches in the open transaction.  Begins one if needed, which stays open. */
static void
write_batches(Applied *sub)
{
	MemoryContext oldcxt;
	List	   *batches = NIL;

	ensure_transaction(sub);
	oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	foreach_ptr(Table, table, sub->tables)
	{
		if (OidIsValid(table->relid) && shard_import_batch_count(table->target.batch) > 0)
			batches = lappend(batches, table->target.batch);
	}
	shard_import_batches_write(batches);
	foreach_ptr(ShardImportBatch, batch, batches)
	{
		sub->nchanges += shard_import_batch_count(batch);
		shard_import_batch_reset(batch);
	}
	MemoryContextSwitchTo(oldcxt);
}

static void
commit(Applied *sub)
{
	if (!shard_move_commit_confirmed())
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("a node did not confirm a commit of subscription \"%s\"", sub->name)));
}

/*
 * Sets the position for the record of the local commit.  The record exists, since the transaction has written a row
 * of the extension or a catalog.
 */
static void
set_position(Applied *sub, XLogRecPtr position)
{
	(void) DirectFunctionCall2(pg_replication_origin_xact_setup, LSNGetDatum(position), TimestampTzGetDatum(sub->time));
	if (sub->ready <= position)
		sub->ready = InvalidXLogRecPtr;
}

/*
 * before_shmem_exit callback.  Clears the position of this process's transactions.  It runs before a transaction is
 * aborted, since the abort of a transaction also advances the origin's position from PostgreSQL 16 on.
 */
static void
forget_position(int code, Datum arg)
{
	replorigin_xact_clear(true);
}

/* Commits all changes that were read, between two transactions of the publisher. */
static void
write_all(void *arg)
{
	Applied    *sub = arg;

	if (count_changes(sub) > 0)
		write_batches(sub);
	if (sub->nchanges > 0)
	{
		const ShardSqlParam params[] = {
			shard_sql_oid(sub->oid), shard_sql_lsn(sub->end), shard_sql_int8(sub->ntransactions), shard_sql_int8(sub->nchanges)
		};

		(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".note_subscription($1, $2, $3, $4)", lengthof(params), params);
		set_position(sub, sub->end);
		SHARD_FAULT_POINT("subscription_written");
		commit(sub);
		SHARD_FAULT_POINT("subscription_committed");
	}
	else if (IsTransactionState())
		shard_move_commit();
	sub->nchanges = sub->ntransactions = 0;
	MemoryContextSwitchTo(sub->cxt);
}

/* ---------- tables ---------- */

/* Is a name in the first column of rows, where names are quoted? */
static bool
is_listed(const List *rows, const char *name)
{
	foreach_ptr(ShardSqlField, row, rows)
	{
		if (strcmp(row[0], quote_identifier(name)) == 0)
			return true;
	}
	return false;
}

/* Is this column in the replica identity that the publisher sends? */
static bool
is_sent_as_key(const ShardChange *change, const char *name)
{
	for (int i = 0; i < change->ncolumns; i++)
	{
		if (strcmp(change->columns[i].name, name) == 0)
			return change->columns[i].is_key;
	}
	return false;
}

/*
 * Fills in the description of a table. change: NULL for a copy, which needs no key.  Call it in a transaction.
 * Memory: current context.
 */
static void
describe(Applied *sub, ShardImportTable *table, const ShardChange *change)
{
	List	   *keys = NIL;
	Relation	rel = table_open(table->relid, AccessShareLock);
	char	   *referring;

	table->relation = table->source = shard_qualified_relation(RelationGetRelid(rel));
	table->userid = sub->run_as_owner ? sub->owner : rel->rd_rel->relowner;
	if (!member_can_set_role(sub->owner, table->userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" cannot SET ROLE to \"%s\"", GetUserNameFromId(sub->owner, false), GetUserNameFromId(table->userid, false)),
				 errdetail("The owner of table %s writes the changes of subscription \"%s\".", table->relation, sub->name),
				 errhint("ALTER SUBSCRIPTION %s SET (run_as_owner = true) has the owner of the subscription write them.", quote_identifier(sub->name))));
	if (change && change->identity == REPLICA_IDENTITY_FULL)
	{
		keys = shard_own_sql_rows(psprintf("SELECT name FROM " SHARD_INTERNAL_SCHEMA ".identity_columns(%u)", table->relid), InvalidSnapshot);
		if (keys == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("subscription \"%s\" cannot write to table %s because it has no primary key", sub->name, table->relation),
					 errdetail("The publisher has REPLICA IDENTITY FULL. Changed rows are identified by a key of this table.")));
	}
	referring = shard_own_sql_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".subscription_referring(%u)", table->relid), InvalidSnapshot);
	if (referring)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" cannot write to table %s because table %s refers to it", sub->name, table->relation, referring),
				 errdetail("A changed row is deleted and inserted again. The nodes would delete the rows that refer to it, or refuse that."),
				 errhint("Drop the foreign key here.")));
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		const char *name = NameStr(att->attname);

		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		shard_import_table_add(table, name, change && (change->identity == REPLICA_IDENTITY_FULL ? is_listed(keys, name) : is_sent_as_key(change, name)));
	}
	shard_import_table_finish(table);
	table_close(rel, NoLock);
}

/* ---------- copies ---------- */

/* The text that COPY reads on the publisher: the rows that the publications send. */
static char *
copy_query(Applied *sub, const ShardImportTable *table)
{
	const char *source = quote_literal_cstr(table->source);
	char	   *filter = "";
	StringInfoData names;
	char	   *is_plain;

	initStringInfo(&names);
	foreach_ptr(String, publication, sub->publications)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", quote_literal_cstr(strVal(publication)));
	is_plain = shard_link_value(sub->source, psprintf("SELECT relkind = 'r' FROM pg_class WHERE oid = %s::regclass", source));
	if (sub->source->server_version >= FILTER_VERSION)
		filter = shard_link_value(sub->source,
								  psprintf("SELECT coalesce(CASE WHEN bool_and(t.rowfilter IS NOT NULL) THEN ' WHERE ' || string_agg(DISTINCT t.rowfilter, ' OR ') END, '') FROM pg_publication_tables t, pg_class c "
										   "WHERE c.oid = %s::regclass AND (c.relnamespace::regnamespace::text, c.relname) = (quote_ident(t.schemaname), t.tablename) AND t.pubname IN (%s)", source, names.data));
	return psprintf("(SELECT %s FROM %s%s%s)", table->column_list, is_plain[0] == 't' ? "ONLY " : "", table->source, filter);
}

/* Records that a table has the publisher's rows as of a position. */
static void
note_copy(const Applied *sub, Oid relid, XLogRecPtr from)
{
	const ShardSqlParam params[] = {shard_sql_oid(sub->oid), shard_sql_oid(relid), shard_sql_lsn(from)};

	(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".note_subscription_copy($1, $2, $3)", lengthof(params), params);
}

/* Sets a sequence to the publisher's current value.  Call it in a transaction. */
static void
copy_sequence(Applied *sub, Oid relid)
{
	const char *name = shard_qualified_relation(relid);
	char	   *said = shard_link_value(sub->source, psprintf("SELECT pg_catalog.concat_ws(' ', s.last_value, s.is_called) FROM pg_catalog.pg_get_sequence_data(%s) s", quote_literal_cstr(name)));
	int64		last_value;
	char		is_called;

	if (sscanf(said, INT64_FORMAT " %c", &last_value, &is_called) != 2)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the publisher of subscription \"%s\" does not show the value of sequence %s", sub->name, name)));
	(void) shard_move_value(psprintf("SELECT pg_catalog.setval(%u::pg_catalog.oid::pg_catalog.regclass, " INT64_FORMAT ", %s)", relid, last_value, is_called == 't' ? "true" : "false"));
}

/* Copies a table as of a position, after which the subscription's changes of it are applied; or sets a sequence. */
static void
copy_table(Applied *sub, Oid relid, XLogRecPtr from)
{
	MemoryContext cxt = AllocSetContextCreate(sub->cxt, "shardfdw copy of a subscription", ALLOCSET_DEFAULT_SIZES);
	ShardImportTable table = {.relid = relid};
	ShardImportCopy copy;

	ensure_transaction(sub);
	MemoryContextSwitchTo(cxt);
	if (get_rel_relkind(relid) == RELKIND_SEQUENCE)
		copy_sequence(sub, relid);
	else
	{
		describe(sub, &table, NULL);
		shard_move_commit();
		MemoryContextSwitchTo(cxt);
		shard_import_copy_begin(&copy, sub->source, copy_query(sub, &table));
		ensure_transaction(sub);
		if (shard_import_copy_has_row(&copy))
			(void) shard_import_copy_load(&copy, &table, PG_INT64_MAX);
	}
	note_copy(sub, relid, from);
	SHARD_FAULT_POINT("subscription_copied");
	commit(sub);
	MemoryContextSwitchTo(sub->cxt);
	MemoryContextDelete(cxt);
}

/* ---------- changes ---------- */

static Table *
find_table(const Applied *sub, uint32 source_oid)
{
	foreach_ptr(Table, table, sub->tables)
	{
		if (table->source_oid == source_oid)
			return table;
	}
	return NULL;
}

/*
 * The table whose batch gets a change of the publisher's table.  NULL if it has the change already, or is not
 * subscribed.
 */
static Table *
table_of_change(const Applied *sub, uint32 source_oid)
{
	Table	   *table = find_table(sub, source_oid);

	return table && OidIsValid(table->relid) && table->from <= sub->follow.final ? table : NULL;
}

/* Does a table have all columns that are sent? */
static bool
has_columns(Oid relid, const ShardChange *change)
{
	for (int i = 0; i < change->ncolumns; i++)
	{
		if (get_attnum(relid, change->columns[i].name) == InvalidAttrNumber)
			return false;
	}
	return true;
}

static int
compare_ranks(const ListCell *left, const ListCell *right)
{
	return ((const Table *) lfirst(left))->rank - ((const Table *) lfirst(right))->rank;
}

/* Handles a RELATION message: reads the description of the table again. */
static void
take_relation(Applied *sub, const ShardChange *change)
{
	Table	   *table = find_table(sub, change->relid);
	Oid			schema;
	char	   *from = NULL;

	/*
	 * write changes under the old definition, together with all others: a part of a transaction may lack rows that it
	 * references
	 */
	if (table && OidIsValid(table->relid) && shard_import_batch_count(table->target.batch) > 0)
		write_batches(sub);
	ensure_transaction(sub);
	if (table == NULL)
	{
		table = MemoryContextAllocZero(sub->cxt, sizeof(Table));
		MemoryContextSwitchTo(sub->cxt);
		sub->tables = lappend(sub->tables, table);
	}
	else
		MemoryContextDelete(table->cxt);
	memset(table, 0, sizeof(*table));
	table->cxt = AllocSetContextCreate(sub->cxt, "shardfdw table of a subscription", ALLOCSET_DEFAULT_SIZES);
	table->source_oid = change->relid;
	schema = get_namespace_oid(change->schema, true);
	table->relid = OidIsValid(schema) ? get_relname_relid(change->table, schema) : InvalidOid;
	if (OidIsValid(table->relid))
		from = shard_own_sql_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".subscription_position(%u, %u)", sub->oid, table->relid), InvalidSnapshot);
	if (from == NULL)
	{
		table->relid = InvalidOid;
		return;
	}
	table->from = shard_slot_position(from);
	table->rank = atoi(shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".subscription_rank(%u)", table->relid)));
	list_sort(sub->tables, compare_ranks);
	MemoryContextSwitchTo(table->cxt);
	table->columns.relid = table->relid;
	table->columns.source_oid = change->relid;
	table->columns.nsent = change->ncolumns;
	describe(sub, &table->columns, change);
	shard_import_target_init(&table->target, table->cxt, &table->columns);
	if (!shard_import_target_relation(&table->target, change) || !has_columns(table->relid, change))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the columns of table %s are not those that the publisher sends", table->columns.relation),
				 errhint("Both tables must have the same columns, and the publication must send all of them.")));
	MemoryContextSwitchTo(sub->follow.change_cxt);
}

static Size
count_bytes(const Applied *sub)
{
	Size		nbytes = 0;

	foreach_ptr(const Table, table, sub->tables)
		nbytes += OidIsValid(table->relid) ? shard_import_batch_bytes(table->target.batch) : 0;
	return nbytes;
}

static void
take_change(void *arg, ShardChange *change)
{
	Applied    *sub = arg;
	Table	   *table;

	switch (change->kind)
	{
		case SHARD_CHANGE_COMMIT:
			sub->end = change->end;
			sub->time = change->time;
			sub->ntransactions++;
			break;
		case SHARD_CHANGE_RELATION:
			take_relation(sub, change);
			break;
		case SHARD_CHANGE_INSERT:
		case SHARD_CHANGE_UPDATE:
		case SHARD_CHANGE_DELETE:
			table = table_of_change(sub, change->relid);
			if (table)
			{
				shard_import_target_row(&table->target, sub->follow.slot->link, change);
				if (count_bytes(sub) > BATCH_BYTES)
					write_batches(sub);
			}
			break;
		case SHARD_CHANGE_TRUNCATE:
			for (int i = 0; i < change->nrelids; i++)
			{
				table = table_of_change(sub, change->relids[i]);
				if (table)
					shard_import_batch_truncate(table->target.batch);
			}
			break;
		default:
			break;
	}
}

static bool
is_due(void *arg)
{
	const Applied *sub = arg;

	return count_changes(sub) >= BATCH_CHANGES || sub->nchanges > 0;
}

static bool
is_pending(void *arg)
{
	return count_changes(arg) > 0;
}

/*
 * Records that all further changes are newer than the copies.  Sets the position too, so that a publisher that has
 * lost the last confirmation does not send changes again.
 */
static void
note_ready(Applied *sub)
{
	const ShardSqlParam params[] = {shard_sql_oid(sub->oid), shard_sql_lsn(sub->follow.slot->received)};

	ensure_transaction(sub);
	(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".note_subscription_ready($1, $2)", lengthof(params), params);
	set_position(sub, sub->follow.slot->received);
	shard_move_commit();
	MemoryContextSwitchTo(sub->cxt);
}

/* Returns the position up to which changes are applied. */
static XLogRecPtr
begin_origin(Applied *sub)
{
	char	   *lsn;

	shard_move_begin(BOOTSTRAP_SUPERUSERID);
	shard_move_call(psprintf("SELECT pg_catalog.pg_replication_origin_session_setup('pg_%u')", sub->oid));
	lsn = shard_move_value("SELECT coalesce(pg_catalog.pg_replication_origin_session_progress(true), '0/0')");
	sub->end = shard_slot_position(lsn);
	shard_move_commit();
	MemoryContextSwitchTo(sub->cxt);
	return sub->end;
}

/* Opens the stream of changes. */
static void
open_stream(Applied *sub)
{
	static const ShardFollowTarget target = {take_change, is_due, write_all, is_pending, NULL};
	ShardSlot  *slot = shard_slot_use(sub->cxt, open_link(sub, true), sub->slot_name, begin_origin(sub));

	shard_slot_stream(slot, sub->publications,
					  strcmp(sub->origin, "none") == 0 && slot->link->server_version >= ORIGIN_VERSION ? ", origin 'none'" : "");
	sub->follow = (ShardFollow) {.slot = slot, .target = &target, .arg = sub};
	shard_follow_begin(&sub->follow, sub->cxt);
}

/*
 * Applies the transactions that committed on the publisher before a position, and no others.  Then a copy as of that
 * position finds the rows that it references.
 */
static void
follow_up_to(Applied *sub, XLogRecPtr position)
{
	open_stream(sub);
	shard_follow_to(&sub->follow, position);
	shard_wait_set_idle(NULL, NULL);
	shard_slot_close(sub->follow.slot);
}

/* List of the tables that must still be copied, by rank: OIDs. */
static List *
tables_to_copy(Applied *sub)
{
	List	   *relids;

	ensure_transaction(sub);
	MemoryContextSwitchTo(sub->cxt);
	relids = shard_own_sql_oids(psprintf("SELECT relation::pg_catalog.oid FROM " SHARD_INTERNAL_SCHEMA ".subscription_copies(%u) relation", sub->oid), InvalidSnapshot);
	shard_move_commit();
	MemoryContextSwitchTo(sub->cxt);
	return relids;
}

/* The latest position of a copy that changes must be compared with; invalid if there is none. */
static XLogRecPtr
latest_copy(Applied *sub, bool *has_replicas)
{
	char	   *lsn;

	ensure_transaction(sub);
	lsn = shard_own_sql_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".subscription_latest_copy(%u)", sub->oid), InvalidSnapshot);
	*has_replicas = lsn != NULL;
	shard_move_commit();
	MemoryContextSwitchTo(sub->cxt);
	return lsn ? shard_slot_position(lsn) : InvalidXLogRecPtr;
}

/* Copies all new tables, as of one position. */
static void
copy_tables(Applied *sub)
{
	List	   *relids = tables_to_copy(sub);
	bool		has_others;
	ShardSlot  *slot;

	if (relids == NIL)
		return;
	slot = shard_slot_create(sub->cxt, open_link(sub, true), psprintf("shardfdw_%u_" UINT64_FORMAT, sub->oid, GetSystemIdentifier()));
	shard_link_exec(sub->source, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	shard_link_exec(sub->source, psprintf("SET TRANSACTION SNAPSHOT '%s'", slot->snapshot));
	(void) latest_copy(sub, &has_others);
	if (has_others)
		follow_up_to(sub, slot->start);
	foreach_oid(relid, relids)
		copy_table(sub, relid, slot->start);
	shard_link_exec(sub->source, "COMMIT");
	shard_slot_close(slot);
	/* a new process starts the stream of changes, with all tables known */
	if (has_others)
		proc_exit(1);
}

/* Raises an error if the slot sends transactions when they are prepared. */
static void
check_slot(Applied *sub)
{
	char	   *prepared = "0";

	if (sub->source->server_version >= TWO_PHASE_VERSION)
		prepared = shard_link_value(sub->source, psprintf("SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND two_phase", quote_literal_cstr(sub->slot_name)));
	if (strcmp(prepared, "0") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("replication slot \"%s\" of subscription \"%s\" sends prepared transactions", sub->slot_name, sub->name),
				 errhint("Drop the subscription, and create it without two_phase.")));
}

static void
apply(void *arg)
{
	Applied    *sub = arg;
	bool		has_replicas;

	/* the next change may need rows that an earlier process has left prepared on nodes */
	ensure_transaction(sub);
	shard_move_call("SELECT shardfdw.recover_prepared_transactions()");
	shard_move_commit();
	MemoryContextSwitchTo(sub->cxt);
	sub->source = open_link(sub, false);
	check_slot(sub);
	copy_tables(sub);
	shard_link_close(&sub->source);
	sub->ready = latest_copy(sub, &has_replicas);
	open_stream(sub);
	for (;;)
	{
		shard_follow_wait(&sub->follow);
		if (sub->follow.in_transaction)
			continue;
		if (sub->ready != InvalidXLogRecPtr && sub->ready <= sub->follow.slot->received)
			note_ready(sub);
		if (TimestampDifferenceExceeds(sub->checked_at, GetCurrentTimestamp(), CHECK_MS))
		{
			ensure_transaction(sub);
			shard_move_commit();
			MemoryContextSwitchTo(sub->cxt);
		}
	}
}

/* ---------- the process ---------- */

/* Called for each error, before the transaction is aborted. */
static bool
forget_position_after_error(int code)
{
	forget_position(0, (Datum) 0);
	return true;
}

static void
note_error(const Applied *sub, const ErrorData *error)
{
	ShardSqlParam params[] = {shard_sql_oid(sub->oid), {0}, shard_sql_bool(sub->disable_on_error)};

	StartTransactionCommand();
	params[1] = shard_sql_text(error->message);
	(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".note_subscription_error($1, $2, $3)", lengthof(params), params);
	CommitTransactionCommand();
}

void
shard_subscription_main(Datum arg)
{
	Applied    *sub;
	Oid			database;
	ErrorData  *error;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(database));
	shard_background_worker_begin(database);
	/* runs before PostgreSQL's callback that aborts a transaction */
	before_shmem_exit(forget_position, (Datum) 0);
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "shardfdw subscription", ALLOCSET_DEFAULT_SIZES));
	sub = palloc0(sizeof(Applied));
	sub->cxt = CurrentMemoryContext;
	sub->oid = DatumGetObjectId(arg);
	if (!begin(sub))
		proc_exit(0);
	pgstat_report_activity(STATE_RUNNING, psprintf("subscription %s", sub->name));
	shard_import_set_settings();
	error = shard_catch_transaction(apply, sub, forget_position_after_error, true);
	note_error(sub, error);
	proc_exit(1);
}
