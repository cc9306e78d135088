/*
 * apply.c
 *	  Applies changes of the source on the target.
 *
 *	 slot --> change --> prepared statement of its table --> pipeline to the target
 *
 * Changes are applied row by row, in the order of the source, so that they do not violate unique keys.  Statements
 * are sent through libpq's pipeline without waiting for each result.  Many transactions of the source become one
 * transaction on the target.  Deferrable constraints are checked at its end.  Every UPDATE and DELETE must find
 * exactly one row.
 */
#include "postgres.h"

#include "libpq-fe.h"
#include "move/apply.h"
#include "move/job/change.h"
#include "move/job/follow.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "remote/wire/error.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define BATCH_CHANGES 5000		/* minimum in one transaction on the target */
#define MAX_UNANSWERED 2000		/* statements without a result from the target */

/* The expected result of a statement. */
typedef enum Expected
{
	EXPECT_ANYTHING,
	EXPECT_ONE_ROW,
	EXPECT_SYNC
} Expected;

/* A column of a table whose changes are applied. */
typedef struct ApplyColumn
{
	char	   *name;			/* quoted */
	char	   *type;			/* in SQL */
	char	   *equals;			/* operator of the index of the replica identity; NULL: not in the replica identity */
} ApplyColumn;

/* A relation of the source, as described by its last RELATION message. */
typedef struct ApplyTable
{
	uint32		relid;			/* hash key */
	const ShardMoveTable *table;	/* NULL: not a table of the move */
	int			ncolumns;
	ApplyColumn *columns;
	int			number;			/* used in the names of its statements */
} ApplyTable;

/* Prepared statements. */
typedef struct ApplyStatement
{
	char		name[NAMEDATALEN];	/* hash key */
} ApplyStatement;

typedef struct Apply
{
	ShardMove  *move;
	ShardFollow follow;
	ShardConn  *target;
	HTAB	   *tables;
	HTAB	   *statements;
	int			ntables;		/* number of the last table that has one */
	Expected   *expected;		/* ring of MAX_UNANSWERED + 2: the expected results */
	int			first;
	int			nexpected;
	bool		in_transaction; /* on the target */
	int			nbatch;			/* number of its changes */
} Apply;

#define RING (MAX_UNANSWERED + 16)

/* ---------- the pipeline ---------- */

static void
expect(Apply *apply, Expected what)
{
	Assert(apply->nexpected < RING);
	apply->expected[(apply->first + apply->nexpected) % RING] = what;
	apply->nexpected++;
}

/* Checks the result of the oldest statement that has none. */
static void
take_answer(Apply *apply, PGresult *res)
{
	Expected	what = apply->expected[apply->first];
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_PIPELINE_SYNC)
		shard_error_report(ERROR, res, apply->target, NULL, NULL);
	if (what == EXPECT_ONE_ROW && strcmp(PQcmdTuples(res), "1") != 0)
	{
		PQclear(res);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a change made on node \"%s\" does not find its row on node \"%s\"",
						apply->move->source_name, apply->move->target_name),
				 errhint("The shard stays where it is.")));
	}
	PQclear(res);
	apply->first = (apply->first + 1) % RING;
	apply->nexpected--;
}

/* Processes the results that have arrived. */
static void
take_answers(void *arg)
{
	Apply	   *apply = arg;

	while (apply->nexpected > 0 && (PQstatus(apply->target->pg) == CONNECTION_BAD || !PQisBusy(apply->target->pg)))
	{
		PGresult   *res = PQgetResult(apply->target->pg);

		if (res != NULL)
			take_answer(apply, res);
		else if (PQstatus(apply->target->pg) == CONNECTION_BAD)
			shard_error_report(ERROR, NULL, apply->target, NULL, NULL);
	}
}

/* Waits until at most max statements have no result. */
static void
wait_answers(Apply *apply, int max)
{
	shard_connection_flush(apply->target);
	take_answers(apply);
	while (apply->nexpected > max)
	{
		shard_link_wait(&apply->target, 1);
		take_answers(apply);
	}
}

/* Call it after sending a statement. */
static void
sent(Apply *apply, int ok, Expected what)
{
	if (!ok)
		shard_error_report(ERROR, NULL, apply->target, NULL, NULL);
	expect(apply, what);
	if (apply->nexpected > MAX_UNANSWERED)
		wait_answers(apply, MAX_UNANSWERED / 2);
}

static void
send_plain(Apply *apply, const char *sql)
{
	sent(apply, PQsendQueryParams(apply->target->pg, sql, 0, NULL, NULL, NULL, NULL, 0), EXPECT_ANYTHING);
}

static void
begin_batch(Apply *apply)
{
	if (apply->in_transaction)
		return;
	apply->in_transaction = true;
	apply->nbatch = 0;
	send_plain(apply, "BEGIN ISOLATION LEVEL READ COMMITTED");
	send_plain(apply, "SET CONSTRAINTS ALL DEFERRED");
}

/* Commits the changes that were sent, and waits for the target. */
static void
end_batch(void *arg)
{
	Apply	   *apply = arg;

	if (apply->in_transaction)
	{
		send_plain(apply, "COMMIT");
		apply->in_transaction = false;
	}
	if (apply->nexpected > 0)
	{
		if (PQpipelineSync(apply->target->pg) != 1)
			shard_error_report(ERROR, NULL, apply->target, NULL, NULL);
		expect(apply, EXPECT_SYNC);
		wait_answers(apply, 0);
	}
}

/* ---------- statements ---------- */

/* Sends the execution of statement name, which changes one row, and its preparation from sql at the first use. */
static void
execute(Apply *apply, const char *name, const char *sql, int nparams, const char *const *params)
{
	bool		found;

	/* a truncated name could mean two statements */
	if (strlen(name) >= NAMEDATALEN)
		sent(apply, PQsendQueryParams(apply->target->pg, sql, nparams, NULL, params, NULL, NULL, 0), EXPECT_ONE_ROW);
	else
	{
		(void) hash_search(apply->statements, name, HASH_ENTER, &found);
		if (!found)
			sent(apply, PQsendPrepare(apply->target->pg, name, sql, 0, NULL), EXPECT_ANYTHING);
		sent(apply, PQsendQueryPrepared(apply->target->pg, name, nparams, params, NULL, NULL, 0), EXPECT_ONE_ROW);
	}
	apply->nbatch++;
	apply->move->job.progress.nchanges++;
}

/* A value as a parameter, or NULL. */
static const char *
param(const ShardChangeValue *value)
{
	return value->kind == 't' ? pnstrdup(value->data, value->len) : NULL;
}

static void
apply_insert(Apply *apply, const ApplyTable *table, const ShardChangeRow *row)
{
	char		name[NAMEDATALEN];
	StringInfoData columns;
	StringInfoData values;
	const char **params = palloc0(sizeof(char *) * Max(row->nvalues, 1));

	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < row->nvalues; i++)
	{
		appendStringInfo(&columns, "%s%s", i > 0 ? ", " : "", table->columns[i].name);
		appendStringInfo(&values, "%s$%d", i > 0 ? ", " : "", i + 1);
		params[i] = param(&row->values[i]);
	}
	snprintf(name, sizeof(name), "i%d", table->number);
	execute(apply, name, row->nvalues == 0 ? psprintf("INSERT INTO %s DEFAULT VALUES", table->table->staging) :
			psprintf("INSERT INTO %s (%s) VALUES (%s)", table->table->staging, columns.data, values.data),
			row->nvalues, params);
}

/*
 * Appends the condition that finds row, and its values to params. row: an old row, or one whose identity has not
 * changed.  Without an index of the identity, the condition finds one of the rows that are equal in all columns, byte
 * by byte.
 */
static void
append_identity(const ApplyTable *table, const ShardChangeRow *row, bool whole, StringInfo sql, const char **params, int *nparams)
{
	StringInfoData left;
	StringInfoData right;

	if (!whole)
	{
		const char *separator = "";

		for (int i = 0; i < row->nvalues; i++)
		{
			const ApplyColumn *column = &table->columns[i];

			if (column->equals == NULL)
				continue;
			params[*nparams] = param(&row->values[i]);
			appendStringInfo(sql, "%s%s %s $%d::%s", separator, column->name, column->equals, ++*nparams, column->type);
			separator = " AND ";
		}
		return;
	}
	initStringInfo(&left);
	initStringInfo(&right);
	for (int i = 0; i < row->nvalues; i++)
	{
		params[*nparams] = param(&row->values[i]);
		appendStringInfo(&left, "%s%s", i > 0 ? ", " : "", table->columns[i].name);
		appendStringInfo(&right, "%s$%d::%s", i > 0 ? ", " : "", ++*nparams, table->columns[i].type);
	}
	appendStringInfo(sql, "(tableoid, ctid) = (SELECT tableoid, ctid FROM %s WHERE ROW(%s)::record OPERATOR(pg_catalog.*=) ROW(%s)::record LIMIT 1)",
					 table->table->staging, left.data, right.data);
}

static void
apply_update(Apply *apply, const ApplyTable *table, const ShardChange *change)
{
	const ShardChangeRow *row = &change->new_row;
	const ShardChangeRow *old = change->old_row.present ? &change->old_row : row;
	bool		whole = change->old_row.present && !change->old_row.key_only;
	const char **params = palloc0(sizeof(char *) * Max(row->nvalues * 2, 1));
	int			nparams = 0;
	StringInfoData sql;
	StringInfoData name;

	initStringInfo(&sql);
	initStringInfo(&name);
	appendStringInfo(&name, "u%d%s_", table->number, whole ? "w" : "");
	appendStringInfo(&sql, "UPDATE %s SET ", table->table->staging);
	for (int i = 0; i < row->nvalues; i++)
	{
		/* an unchanged TOASTed value is not in the message */
		if (row->values[i].kind == 'u')
		{
			appendStringInfo(&name, "_%d", i);
			continue;
		}
		params[nparams] = param(&row->values[i]);
		appendStringInfo(&sql, "%s%s = $%d", nparams > 0 ? ", " : "", table->columns[i].name, nparams + 1);
		nparams++;
	}
	if (nparams == 0)
		return;
	appendStringInfoString(&sql, " WHERE ");
	append_identity(table, old, whole, &sql, params, &nparams);
	execute(apply, name.data, sql.data, nparams, params);
}

static void
apply_delete(Apply *apply, const ApplyTable *table, const ShardChangeRow *row)
{
	const char **params = palloc0(sizeof(char *) * Max(row->nvalues, 1));
	int			nparams = 0;
	char		name[NAMEDATALEN];
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "DELETE FROM %s WHERE ", table->table->staging);
	append_identity(table, row, !row->key_only, &sql, params, &nparams);
	snprintf(name, sizeof(name), "d%d%s", table->number, row->key_only ? "" : "w");
	execute(apply, name, sql.data, nparams, params);
}

static ApplyTable *
find_table(Apply *apply, uint32 relid)
{
	return hash_search(apply->tables, &relid, HASH_FIND, NULL);
}

/* Does a TRUNCATE truncate the table with these rows? */
static bool
is_truncated(Apply *apply, const ShardMoveTable *table, const ShardChange *change)
{
	for (int i = 0; i < change->nrelids; i++)
	{
		const ApplyTable *entry = find_table(apply, change->relids[i]);

		if (entry && entry->table == table)
			return true;
	}
	return false;
}

static void
apply_truncate(Apply *apply, const ShardChange *change)
{
	const ShardMove *move = apply->move;
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < move->ntables; i++)
	{
		const ShardMoveTable *table = &move->tables[i];

		if (!is_truncated(apply, table, change))
			continue;
		/* in a merge, the staging table also has rows of other shards */
		for (int j = 0; j < move->ntables; j++)
		{
			if (strcmp(move->tables[j].staging, table->staging) == 0 && !is_truncated(apply, &move->tables[j], change))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("shard %s was truncated while it was merged", table->name),
						 errhint("Start it again.")));
		}
		appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "TRUNCATE ", table->staging);
	}
	if (sql.len > 0)
		send_plain(apply, sql.data);
	apply->nbatch++;
}

/* ---------- tables ---------- */

/*
 * Query on the target for the columns of a table: names, types, and the equality operators of the index of the
 * identity.
 */
static char *
columns_query(const ShardMoveTable *table)
{
	return psprintf("SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), x.operator, a.attname"
					" FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
					/* one of the pieces, since all have the same indexes */
					" JOIN pg_class r ON r.oid = coalesce((SELECT min(h.inhrelid::bigint)::oid FROM pg_inherits h WHERE h.inhparent = c.oid), c.oid)"
					" LEFT JOIN LATERAL (SELECT format('OPERATOR(%%I.%%s)', n.nspname, o.oprname) AS operator"
					"  FROM pg_index i, unnest(i.indkey::smallint[], i.indclass::oid[]) WITH ORDINALITY k(attnum, opclass, ord)"
					"  JOIN pg_opclass g ON g.oid = k.opclass"
					/*
					 * the operator class of a key WITHOUT OVERLAPS is GiST, with && in place of =; use the default
					 * B-tree operator class of the type
					 */
					"  JOIN pg_opclass s ON s.opcmethod = (SELECT m.oid FROM pg_am m WHERE m.amname = 'btree')"
					"   AND CASE WHEN g.opcmethod = s.opcmethod THEN s.oid = g.oid ELSE s.opcdefault AND s.opcintype = g.opcintype END"
					"  JOIN pg_amop p ON p.amopfamily = s.opcfamily AND p.amoplefttype = s.opcintype AND p.amoprighttype = s.opcintype AND p.amopstrategy = 3"
					"  JOIN pg_operator o ON o.oid = p.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace"
					"  WHERE i.indrelid = r.oid AND CASE r.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END"
					"   AND k.attnum = a.attnum AND k.ord <= i.indnkeyatts LIMIT 1) x ON true"
					" WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum",
					quote_literal_cstr(table->staging));
}

static void
read_columns(Apply *apply, ApplyTable *entry, const ShardChange *change)
{
	ShardBroadcast *item;
	PGresult   *res;
	MemoryContext oldcxt;
	bool		same;

	/* leave pipeline mode, since its results are of one kind only */
	end_batch(apply);
	if (PQexitPipelineMode(apply->target->pg) != 1)
		shard_error_report(ERROR, NULL, apply->target, NULL, NULL);
	item = shard_link_query(apply->target, entry->table->name, columns_query(entry->table), 4);
	res = item->result;
	oldcxt = MemoryContextSwitchTo(apply->move->job.cxt);
	entry->ncolumns = PQntuples(res);
	entry->columns = palloc0(sizeof(ApplyColumn) * Max(entry->ncolumns, 1));
	same = entry->ncolumns == change->ncolumns;
	for (int i = 0; i < entry->ncolumns && same; i++)
	{
		entry->columns[i].name = pstrdup(PQgetvalue(res, i, 0));
		entry->columns[i].type = pstrdup(PQgetvalue(res, i, 1));
		entry->columns[i].equals = PQgetisnull(res, i, 2) ? NULL : pstrdup(PQgetvalue(res, i, 2));
		same = strcmp(PQgetvalue(res, i, 3), change->columns[i].name) == 0;
	}
	MemoryContextSwitchTo(oldcxt);
	shard_broadcast_free(item);
	if (PQenterPipelineMode(apply->target->pg) != 1)
		shard_error_report(ERROR, NULL, apply->target, NULL, NULL);
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the columns of shard %s have changed while it was %s", entry->table->name, SHARD_MOVE_DONE(apply->move)),
				 errhint("Start it again.")));
}

/*
 * Handles a RELATION message, which is sent before the first change of a table, and again after changes of its
 * definition.
 */
static void
take_relation(Apply *apply, const ShardChange *change)
{
	bool		found;
	ApplyTable *entry = hash_search(apply->tables, &change->relid, HASH_ENTER, &found);

	entry->table = NULL;
	entry->ncolumns = 0;
	entry->number = ++apply->ntables;
	for (int i = 0; i < apply->move->ntables; i++)
	{
		const ShardMoveTable *table = &apply->move->tables[i];

		if (strcmp(table->remote_schema, change->schema) == 0 && strcmp(table->remote_table, change->table) == 0)
			entry->table = table;
	}
	if (entry->table)
		read_columns(apply, entry, change);
}

/*
 * The table that a row change is for; NULL: not a table of the move.  Raises an error if the row does not fit the
 * table.
 */
static const ApplyTable *
table_of(Apply *apply, const ShardChange *change)
{
	const ApplyTable *table = find_table(apply, change->relid);

	if (table == NULL)
		shard_error_protocol(apply->follow.slot->link, NULL, "a change of a table that has not been described");
	if (table->table == NULL)
		return NULL;
	if ((change->new_row.present && change->new_row.nvalues != table->ncolumns) ||
		(change->old_row.present && change->old_row.nvalues != table->ncolumns))
		shard_error_protocol(apply->follow.slot->link, table->table->name, "a row with another number of columns");
	return table;
}

/* ---------- the stream ---------- */

static void
take_change(void *arg, ShardChange *change)
{
	Apply	   *apply = arg;
	const ApplyTable *table;

	switch (change->kind)
	{
		case SHARD_CHANGE_RELATION:
			take_relation(apply, change);
			break;
		case SHARD_CHANGE_INSERT:
		case SHARD_CHANGE_UPDATE:
		case SHARD_CHANGE_DELETE:
			table = table_of(apply, change);
			if (table == NULL)
				break;
			begin_batch(apply);
			if (change->kind == SHARD_CHANGE_INSERT)
				apply_insert(apply, table, &change->new_row);
			else if (change->kind == SHARD_CHANGE_UPDATE)
				apply_update(apply, table, change);
			else
				apply_delete(apply, table, &change->old_row);
			break;
		case SHARD_CHANGE_TRUNCATE:
			begin_batch(apply);
			apply_truncate(apply, change);
			break;
		default:
			break;
	}
}

static bool
is_due(void *arg)
{
	const Apply *apply = arg;

	return apply->in_transaction && apply->nbatch >= BATCH_CHANGES;
}

static bool
is_pending(void *arg)
{
	return ((Apply *) arg)->in_transaction;
}

static const ShardFollowTarget follow_target = {take_change, is_due, end_batch, is_pending, take_answers};

ShardFollow *
shard_apply_begin(ShardMove *move, ShardSlot *slot, ShardConn *source, ShardConn *target)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(move->job.cxt);
	Apply	   *apply = palloc0(sizeof(Apply));
	HASHCTL		ctl = {0};

	apply->move = move;
	apply->target = target;
	apply->expected = palloc(sizeof(Expected) * RING);
	ctl.hcxt = move->job.cxt;
	ctl.keysize = sizeof(uint32);
	ctl.entrysize = sizeof(ApplyTable);
	apply->tables = hash_create("shardfdw tables of a move", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = NAMEDATALEN;
	ctl.entrysize = sizeof(ApplyStatement);
	apply->statements = hash_create("shardfdw statements of a move", 64, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	if (PQenterPipelineMode(target->pg) != 1)
		shard_error_report(ERROR, NULL, target, NULL, NULL);
	apply->follow = (ShardFollow) {.slot = slot, .target = &follow_target, .arg = apply, .link = target, .source = source, .job = &move->job};
	shard_follow_begin(&apply->follow, move->job.cxt);
	MemoryContextSwitchTo(oldcxt);
	return &apply->follow;
}
