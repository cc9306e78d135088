/*
 * import_batch.c
 *	  Collects changes of the source of an import by key, and writes their result to the shards.
 *
 *	 change --> entry of its key: was there a row before the batch?  is there a row after it?
 *
 *	 write: values that the source did not send <-- SELECT
 *			[TRUNCATE] --> DELETE of all keys that existed --> COPY of all rows that exist
 *			reference tables: DELETE of removed keys --> UPDATE of keys that remain --> COPY of new ones
 *
 * So many changes become two statements, which run on all nodes in parallel.  The shards see no intermediate state:
 * rows may exchange keys or other unique values, or change their shard, in any order.  A move applies changes one by
 * one (apply.c), since it has a single target, needs no shard key, and its switch waits for the last change.
 *
 * Nodes check foreign keys from any table to reference tables.  So a remaining row of a reference table is never
 * deleted: that would fail, or delete referencing rows.  Of several tables, referencing tables are deleted from first
 * and filled last.
 *
 * The first change of a row in the batch shows that the row existed.  So DELETE must find each such row exactly once.
 *
 * A source with REPLICA IDENTITY FULL may temporarily have rows with equal keys, if its key is deferrable or missing.
 * It sends all values of a changed row, which distinguish such rows.
 *
 * The source does not send unchanged TOASTed values.  They are read from the table before the row is deleted.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/reference.h"
#include "commands/copy.h"
#include "common/hashfn.h"
#include "compat.h"
#include "executor/spi.h"
#include "move/import/import_batch.h"
#include "move/import/import_copy.h"
#include "own_sql.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define KEYS_BY_GROUPS 1000		/* maximum number of keys in a statement that lists keys or groups of keys */
#define KEYS_BY_ARRAY 20000		/* the same for a statement that has all keys in one array */

/* The text of the values of a key, each after its length. */
typedef struct BatchKey
{
	const char *data;
	int			len;
} BatchKey;

typedef struct BatchEntry
{
	BatchKey	key;			/* hash key */
	const char **key_values;	/* of the key columns */
	bool		existed;		/* before the batch */
	bool		present;		/* after it */
	ShardChangeValue *values;	/* of all columns, if present */
	struct BatchEntry *origin;	/* the entry whose key the table still has for this row; unsent values are read
								 * from that row */
	List	   *others;			/* values of other rows with the same key, within a transaction of the source */
} BatchEntry;

struct ShardImportBatch
{
	const ShardImportTable *table;
	const char *relation;		/* qualified, quoted name on the coordinator, while the batch is written */
	MemoryContext cxt;			/* for one batch */
	HTAB	   *entries;
	bool		truncated;		/* before all other changes */
	bool		updates;		/* while the batch is written: remaining rows are updated */
	int64		nchanges;
};

static uint32
hash_key(const void *key, Size size)
{
	const BatchKey *k = key;

	return DatumGetUInt32(hash_any((const unsigned char *) k->data, k->len));
}

static int
compare_keys(const void *left, const void *right, Size size)
{
	const BatchKey *l = left;
	const BatchKey *r = right;

	return l->len != r->len || memcmp(l->data, r->data, l->len) != 0;
}

static HTAB *
make_entries(MemoryContext cxt, Size entry_size)
{
	HASHCTL		ctl = {.keysize = sizeof(BatchKey), .entrysize = entry_size, .hash = hash_key, .match = compare_keys, .hcxt = cxt};

	return hash_create("shardfdw changes of an import", 1024, &ctl, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

ShardImportBatch *
shard_import_batch_create(MemoryContext cxt, const ShardImportTable *table)
{
	ShardImportBatch *batch = MemoryContextAllocZero(cxt, sizeof(ShardImportBatch));

	batch->table = table;
	batch->cxt = AllocSetContextCreate(cxt, "shardfdw changes of an import", ALLOCSET_DEFAULT_SIZES);
	batch->entries = make_entries(batch->cxt, sizeof(BatchEntry));
	return batch;
}

int64
shard_import_batch_count(const ShardImportBatch *batch)
{
	return batch->nchanges;
}

Size
shard_import_batch_bytes(const ShardImportBatch *batch)
{
	return MemoryContextMemAllocated(batch->cxt, true);
}

void
shard_import_batch_reset(ShardImportBatch *batch)
{
	MemoryContextReset(batch->cxt);
	batch->entries = make_entries(batch->cxt, sizeof(BatchEntry));
	batch->truncated = false;
	batch->nchanges = 0;
}

/* ---------- collecting changes ---------- */

static void raise_lost(const ShardImportTable *table) __attribute__((noreturn));

static void
raise_lost(const ShardImportTable *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a change made on the source does not find its row in table %s", table->relation),
			 errhint("Start the import again; for a subscription, put the row back.")));
}

/* Appends a value of a key to the text of the key. */
static void
append_key(StringInfo buf, const char *data, int len)
{
	appendBinaryStringInfo(buf, (const char *) &len, sizeof(len));
	appendBinaryStringInfo(buf, data, len);
}

/* The entry for the key of values; creates it if needed.  Memory: the batch's. */
static BatchEntry *
get_entry(ShardImportBatch *batch, const ShardChangeValue *values, bool *found)
{
	const ShardImportTable *table = batch->table;
	StringInfoData buf;
	BatchKey	key;
	BatchEntry *entry;
	int64		number = batch->nchanges;

	initStringInfo(&buf);
	/* without a key, rows are only inserted */
	if (table->nkeys == 0)
		append_key(&buf, (const char *) &number, sizeof(number));
	for (int i = 0; i < table->nkeys; i++)
	{
		const ShardChangeValue *value = &values[table->keys[i]];

		if (value->kind != 't')
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("a change made on the source has no value of column \"%s\", which identifies the row", table->columns[table->keys[i]].name)));
		append_key(&buf, value->data, value->len);
	}
	key.data = buf.data;
	key.len = buf.len;
	entry = hash_search(batch->entries, &key, HASH_ENTER, found);
	if (*found)
	{
		pfree(buf.data);
		return entry;
	}
	entry->key_values = palloc(sizeof(char *) * Max(table->nkeys, 1));
	for (int i = 0; i < table->nkeys; i++)
		entry->key_values[i] = pnstrdup(values[table->keys[i]].data, values[table->keys[i]].len);
	entry->existed = entry->present = false;
	entry->values = NULL;
	entry->origin = NULL;
	entry->others = NIL;
	return entry;
}

/* May both be the same row?  Ignores unknown values. */
static bool
is_same_row(const ShardImportTable *table, const ShardChangeValue *left, const ShardChangeValue *right)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (left[i].kind == 'u' || right[i].kind == 'u')
			continue;
		if (left[i].kind != right[i].kind)
			return false;
		if (left[i].kind == 't' && (left[i].len != right[i].len || memcmp(left[i].data, right[i].data, left[i].len) != 0))
			return false;
	}
	return true;
}

/* Removes a row from the other rows of a key, and returns it.  NULL if it is not among them. */
static ShardChangeValue *
take_other(const ShardImportTable *table, BatchEntry *entry, const ShardChangeValue *values)
{
	ListCell   *lc;

	foreach(lc, entry->others)
	{
		ShardChangeValue *other = lfirst(lc);

		if (is_same_row(table, other, values))
		{
			entry->others = list_delete_cell(entry->others, lc);
			return other;
		}
	}
	return NULL;
}

/*
 * Removes the row that a change is for. old_values: all values if whole, else the key.  Returns the known values of
 * the row, or NULL.  *origin: the entry whose row has the rest.
 */
static ShardChangeValue *
take_row(ShardImportBatch *batch, const ShardChangeValue *old_values, bool whole, BatchEntry **origin)
{
	bool		found;
	BatchEntry *entry = get_entry(batch, old_values, &found);
	ShardChangeValue *values = NULL;

	*origin = NULL;
	if (entry->present && (whole ? is_same_row(batch->table, entry->values, old_values) : entry->others == NIL))
	{
		values = entry->values;
		*origin = entry->origin;
		entry->present = entry->others != NIL;
		entry->values = entry->present ? linitial(entry->others) : NULL;
		entry->origin = NULL;
		entry->others = list_delete_first(entry->others);
		return values;
	}
	if (whole)
		values = take_other(batch->table, entry, old_values);
	if (values)
		return values;
	if (entry->existed || batch->truncated || (found && !whole))
		raise_lost(batch->table);
	/* the row existed before the batch */
	entry->existed = true;
	*origin = entry;
	return NULL;
}

static ShardChangeValue *
copy_values(const ShardImportTable *table, const ShardChangeRow *row)
{
	ShardChangeValue *values = palloc(sizeof(ShardChangeValue) * Max(table->ncolumns, 1));

	for (int i = 0; i < table->ncolumns; i++)
	{
		values[i] = row->values[i];
		if (values[i].kind == 't')
			values[i].data = pnstrdup(values[i].data, values[i].len);
	}
	return values;
}

/* Adds a row. */
static void
add_row(ShardImportBatch *batch, ShardChangeValue *values, BatchEntry *origin)
{
	bool		found;
	BatchEntry *entry = get_entry(batch, values, &found);

	if (entry->present)
	{
		entry->others = lappend(entry->others, values);
		return;
	}
	entry->present = true;
	entry->values = values;
	entry->origin = origin;
}

void
shard_import_batch_insert(ShardImportBatch *batch, const ShardChangeRow *row)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(batch->cxt);

	add_row(batch, copy_values(batch->table, row), NULL);
	batch->nchanges++;
	MemoryContextSwitchTo(oldcxt);
}

/* Fills in unsent values of a row as far as possible, from an old row with all columns or from earlier changes. */
static void
fill_unsent(ShardChangeValue *values, int ncolumns, const ShardChangeValue *known)
{
	for (int i = 0; known && i < ncolumns; i++)
	{
		if (values[i].kind == 'u')
			values[i] = known[i];
	}
}

void
shard_import_batch_update(ShardImportBatch *batch, const ShardChangeRow *old_row, const ShardChangeRow *new_row)
{
	const ShardImportTable *table = batch->table;
	MemoryContext oldcxt = MemoryContextSwitchTo(batch->cxt);
	ShardChangeValue *values = copy_values(table, new_row);
	ShardChangeValue *known;
	BatchEntry *origin;

	if (old_row->present)
	{
		ShardChangeValue *old_values = copy_values(table, old_row);

		if (!old_row->key_only)
			fill_unsent(values, table->ncolumns, old_values);
		for (int i = 0; i < table->nkeys; i++)
		{
			if (values[table->keys[i]].kind == 'u')
				values[table->keys[i]] = old_values[table->keys[i]];
		}
		known = take_row(batch, old_values, !old_row->key_only, &origin);
	}
	else
		known = take_row(batch, values, false, &origin);
	fill_unsent(values, table->ncolumns, known);
	add_row(batch, values, origin);
	batch->nchanges++;
	MemoryContextSwitchTo(oldcxt);
}

void
shard_import_batch_delete(ShardImportBatch *batch, const ShardChangeRow *row)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(batch->cxt);
	BatchEntry *origin;

	(void) take_row(batch, row->values, !row->key_only, &origin);
	batch->nchanges++;
	MemoryContextSwitchTo(oldcxt);
}

void
shard_import_batch_truncate(ShardImportBatch *batch)
{
	int64		nchanges = batch->nchanges;

	shard_import_batch_reset(batch);
	batch->truncated = true;
	batch->nchanges = nchanges + 1;
}

/* ---------- finding rows ---------- */

static void
append_array_element(StringInfo buf, const char *value)
{
	appendStringInfo(buf, "%s\"", buf->len > 1 ? "," : "");
	for (; *value; value++)
	{
		if (*value == '"' || *value == '\\')
			appendStringInfoChar(buf, '\\');
		appendStringInfoChar(buf, *value);
	}
	appendStringInfoChar(buf, '"');
}

/*
 * Number of leading key columns that keys in one condition share.  Such keys differ in the last column only.  If that
 * column is an array, they share it too, since the elements of an array of arrays are not arrays.
 */
static int
shared_columns(const ShardImportTable *table)
{
	if (table->nkeys == 0)
		return 0;
	return table->columns[table->keys[table->nkeys - 1]].is_array ? table->nkeys : table->nkeys - 1;
}

static int
compare_entries(const void *left, const void *right, void *arg)
{
	const ShardImportTable *table = arg;
	const BatchEntry *l = *(BatchEntry *const *) left;
	const BatchEntry *r = *(BatchEntry *const *) right;

	for (int i = 0; i < shared_columns(table); i++)
	{
		int			order = strcmp(l->key_values[i], r->key_values[i]);

		if (order != 0)
			return order;
	}
	return 0;
}

/* The condition that is true for the rows of n sorted entries. */
static char *
find_rows(const ShardImportTable *table, BatchEntry *const *entries, int n)
{
	int			nshared = shared_columns(table);
	StringInfoData sql;
	int			next;

	initStringInfo(&sql);
	for (int first = 0; first < n; first = next)
	{
		appendStringInfoString(&sql, first > 0 ? " OR (" : "(");
		for (int i = 0; i < nshared; i++)
		{
			const ShardImportColumn *column = &table->columns[table->keys[i]];

			appendStringInfo(&sql, "%s%s %s %s::%s", i > 0 ? " AND " : "", column->quoted, column->equals,
							 quote_literal_cstr(entries[first]->key_values[i]), column->type);
		}
		for (next = first + 1; next < n && compare_entries(&entries[first], &entries[next], unconstify(ShardImportTable *, table)) == 0; next++)
			;
		if (nshared < table->nkeys)
		{
			const ShardImportColumn *column = &table->columns[table->keys[nshared]];
			StringInfoData array;

			initStringInfo(&array);
			appendStringInfoChar(&array, '{');
			for (int i = first; i < next; i++)
				append_array_element(&array, entries[i]->key_values[nshared]);
			appendStringInfoChar(&array, '}');
			appendStringInfo(&sql, "%s%s %s ANY (%s::%s[])", nshared > 0 ? " AND " : "", column->quoted, column->equals,
							 quote_literal_cstr(array.data), column->type);
		}
		appendStringInfoChar(&sql, ')');
	}
	return sql.data;
}

/* The entries that choose accepts, sorted by the columns that conditions share.  Memory: current context. */
static BatchEntry **
choose_entries(const ShardImportBatch *batch, bool (*choose) (const ShardImportBatch *batch, const BatchEntry *entry), int *n)
{
	BatchEntry **entries = palloc(sizeof(BatchEntry *) * Max(hash_get_num_entries(batch->entries), 1));
	HASH_SEQ_STATUS scan;
	BatchEntry *entry;

	*n = 0;
	hash_seq_init(&scan, batch->entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (choose(batch, entry))
			entries[(*n)++] = entry;
	}
	qsort_arg(entries, *n, sizeof(BatchEntry *), compare_entries, unconstify(ShardImportTable *, batch->table));
	return entries;
}

/* The maximum number of keys in a statement. */
static int
keys_at_once(const ShardImportTable *table)
{
	return table->nkeys == 1 && shared_columns(table) == 0 ? KEYS_BY_ARRAY : KEYS_BY_GROUPS;
}

/* ---------- writing ---------- */

/* Runs a statement within SPI. */
static void
run(const char *sql, int expected)
{
	(void) shard_own_sql_execute(sql, expected, 0, NULL);
}

/* Is its row updated, instead of deleted and inserted? */
static bool
is_updated(const ShardImportBatch *batch, const BatchEntry *entry)
{
	return batch->updates && entry->existed && entry->present;
}

static bool
is_deleted(const ShardImportBatch *batch, const BatchEntry *entry)
{
	return entry->existed && !is_updated(batch, entry);
}

static bool
is_inserted(const ShardImportBatch *batch, const BatchEntry *entry)
{
	return entry->present && !is_updated(batch, entry);
}

static void
delete_rows(const ShardImportBatch *batch)
{
	const ShardImportTable *table = batch->table;
	int			n;
	BatchEntry **entries = choose_entries(batch, is_deleted, &n);

	for (int i = 0; i < n; i += keys_at_once(table))
	{
		int			ncount = Min(n - i, keys_at_once(table));

		run(psprintf("DELETE FROM %s WHERE %s", batch->relation, find_rows(table, entries + i, ncount)), SPI_OK_DELETE);
		if (SPI_processed != ncount)
			raise_lost(table);
	}
}

/* A row of the table from which unsent values are needed. */
typedef struct UnsentRow
{
	BatchKey	key;			/* hash key: as printed by this server */
	BatchEntry *entry;
	bool		found;
} UnsentRow;

static bool
has_unsent(const ShardImportTable *table, const BatchEntry *entry)
{
	for (int i = 0; entry->present && i < table->ncolumns; i++)
	{
		if (entry->values[i].kind == 'u')
			return true;
	}
	return false;
}

/* Appends a value of a key as printed by this server, since the source may be of another major version. */
static void
append_own_text(StringInfo buf, const ShardImportColumn *column, const char *value)
{
	Oid			input;
	Oid			param;
	Oid			output;
	bool		is_varlena;
	char	   *text;

	getTypeInputInfo(column->typid, &input, &param);
	getTypeOutputInfo(column->typid, &output, &is_varlena);
	text = OidOutputFunctionCall(output, OidInputFunctionCall(input, unconstify(char *, value), param, -1));
	append_key(buf, text, strlen(text));
}

/* Stores the needed values of a row of the table. */
static void
take_unsent(const ShardImportBatch *batch, HTAB *wanted, HeapTuple tuple, TupleDesc desc)
{
	const ShardImportTable *table = batch->table;
	StringInfoData buf;
	BatchKey	key;
	UnsentRow  *row;

	initStringInfo(&buf);
	for (int i = 0; i < table->nkeys; i++)
	{
		char	   *text = SPI_getvalue(tuple, desc, table->keys[i] + 1);

		append_key(&buf, text ? text : "", text ? strlen(text) : 0);
	}
	key.data = buf.data;
	key.len = buf.len;
	row = hash_search(wanted, &key, HASH_FIND, NULL);
	if (row == NULL || row->found)
		raise_lost(table);
	row->found = true;
	for (int i = 0; i < table->ncolumns; i++)
	{
		ShardChangeValue *value = &row->entry->values[i];
		char	   *text;

		if (value->kind != 'u')
			continue;
		text = SPI_getvalue(tuple, desc, i + 1);
		value->kind = text ? 't' : 'n';
		value->data = text ? MemoryContextStrdup(batch->cxt, text) : NULL;
		value->len = text ? strlen(text) : 0;
	}
}

/* Reads the values that the source did not send. */
static void
fetch_unsent(const ShardImportBatch *batch)
{
	const ShardImportTable *table = batch->table;
	HTAB	   *wanted = make_entries(CurrentMemoryContext, sizeof(UnsentRow));
	BatchEntry **origins = palloc(sizeof(BatchEntry *) * Max(hash_get_num_entries(batch->entries), 1));
	HASH_SEQ_STATUS scan;
	BatchEntry *entry;
	int			n = 0;

	hash_seq_init(&scan, batch->entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		StringInfoData buf;
		BatchKey	key;
		UnsentRow  *row;
		bool		found;

		if (!has_unsent(table, entry))
			continue;
		/* inserted rows were sent with all values */
		if (entry->origin == NULL)
			raise_lost(table);
		initStringInfo(&buf);
		for (int i = 0; i < table->nkeys; i++)
			append_own_text(&buf, &table->columns[table->keys[i]], entry->origin->key_values[i]);
		key.data = buf.data;
		key.len = buf.len;
		row = hash_search(wanted, &key, HASH_ENTER, &found);
		row->entry = entry;
		row->found = false;
		origins[n++] = entry->origin;
	}
	qsort_arg(origins, n, sizeof(BatchEntry *), compare_entries, unconstify(ShardImportTable *, table));
	for (int i = 0; i < n; i += keys_at_once(table))
	{
		int			ncount = Min(n - i, keys_at_once(table));

		run(psprintf("SELECT %s FROM %s WHERE %s", table->column_list, batch->relation, find_rows(table, origins + i, ncount)), SPI_OK_SELECT);
		if (SPI_processed != ncount)
			raise_lost(table);
		for (uint64 j = 0; j < SPI_processed; j++)
			take_unsent(batch, wanted, SPI_tuptable->vals[j], SPI_tuptable->tupdesc);
		SPI_freetuptable(SPI_tuptable);
	}
}

/* Raises an error if a key has several rows. */
static void
check_single(const ShardImportBatch *batch, BatchEntry *const *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (entries[i]->others != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_UNIQUE_VIOLATION),
					 errmsg("the source has several rows with a key that is unique in table %s", batch->table->relation),
					 errhint("Start the import again when the keys on the source are unique.")));
	}
}

static char *
update_statement(const ShardImportBatch *batch, BatchEntry *const *entries, int n)
{
	const ShardImportTable *table = batch->table;
	StringInfoData sql;
	const char *separator = "";

	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE %s AS t SET ", batch->relation);
	for (int i = 0; i < table->ncolumns; i++)
	{
		/* key columns do not change */
		if (table->columns[i].equals != NULL)
			continue;
		appendStringInfo(&sql, "%s%s = v.%s", separator, table->columns[i].quoted, table->columns[i].quoted);
		separator = ", ";
	}
	appendStringInfoString(&sql, " FROM (VALUES ");
	for (int j = 0; j < n; j++)
	{
		for (int i = 0; i < table->ncolumns; i++)
		{
			const ShardChangeValue *value = &entries[j]->values[i];

			appendStringInfo(&sql, "%s%s::%s", i > 0 ? ", " : j > 0 ? "), (" : "(",
							 value->kind == 't' ? quote_literal_cstr(pnstrdup(value->data, value->len)) : "NULL", table->columns[i].type);
		}
	}
	appendStringInfo(&sql, ")) AS v (%s)", table->column_list);
	separator = " WHERE ";
	for (int i = 0; i < table->nkeys; i++)
	{
		const ShardImportColumn *column = &table->columns[table->keys[i]];

		appendStringInfo(&sql, "%st.%s %s v.%s", separator, column->quoted, column->equals, column->quoted);
		separator = " AND ";
	}
	return sql.data;
}

static void
update_rows(const ShardImportBatch *batch)
{
	const ShardImportTable *table = batch->table;
	int			n;
	BatchEntry **entries = choose_entries(batch, is_updated, &n);

	check_single(batch, entries, n);
	if (table->nkeys == table->ncolumns)
		return;
	for (int i = 0; i < n; i += KEYS_BY_GROUPS)
	{
		int			ncount = Min(n - i, KEYS_BY_GROUPS);

		run(update_statement(batch, entries + i, ncount), SPI_OK_UPDATE);
		if (SPI_processed != ncount)
			raise_lost(table);
	}
}

/* Rows that COPY reads, as lines of its text format. */
typedef struct RowFeed
{
	const ShardImportTable *table;
	BatchEntry **entries;
	int			nentries;
	int			next;
	StringInfoData line;		/* cursor: the part that COPY has read */
} RowFeed;

static RowFeed *feed = NULL;

static void
append_copy_text(StringInfo line, const ShardChangeValue *value)
{
	const char *end = value->data + value->len;

	for (const char *c = value->data; c < end; c++)
	{
		switch (*c)
		{
			case '\\':
				appendStringInfoString(line, "\\\\");
				break;
			case '\n':
				appendStringInfoString(line, "\\n");
				break;
			case '\r':
				appendStringInfoString(line, "\\r");
				break;
			case '\t':
				appendStringInfoString(line, "\\t");
				break;
			default:
				appendStringInfoCharMacro(line, *c);
		}
	}
}

static void
make_line(StringInfo line, const ShardImportTable *table, const BatchEntry *entry)
{
	resetStringInfo(line);
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (i > 0)
			appendStringInfoChar(line, '\t');
		if (entry->values[i].kind == 't')
			append_copy_text(line, &entry->values[i]);
		else
			appendStringInfoString(line, "\\N");
	}
	appendStringInfoChar(line, '\n');
}

/* copy_data_source_cb */
static int
feed_rows(void *outbuf, int minread, int maxread)
{
	int			nbytes;

	if (feed->line.cursor == feed->line.len)
	{
		if (feed->next == feed->nentries)
			return 0;
		make_line(&feed->line, feed->table, feed->entries[feed->next++]);
	}
	nbytes = Min(maxread, feed->line.len - feed->line.cursor);
	memcpy(outbuf, feed->line.data + feed->line.cursor, nbytes);
	feed->line.cursor += nbytes;
	return nbytes;
}

static void
copy_rows(const ShardImportBatch *batch)
{
	RowFeed		rows = {.table = batch->table};

	rows.entries = choose_entries(batch, is_inserted, &rows.nentries);
	if (rows.nentries == 0)
		return;
	check_single(batch, rows.entries, rows.nentries);
	initStringInfo(&rows.line);
	feed = &rows;
	if (shard_import_copy_feed(batch->table, feed_rows, false) != rows.nentries)
		elog(ERROR, "an import has not loaded all rows");
	feed = NULL;
}

/*
 * The current name of the table, which the table keeps until the end of the transaction.  Another table may have the
 * name that the import started with.
 */
static char *
name_here(const ShardImportTable *table)
{
	char	   *name;

	LockRelationOid(table->relid, RowExclusiveLock);
	name = get_rel_name(table->relid);
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s does not exist any more", table->relation)));
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->relid)), name);
}

/* Runs a step of writing a batch within SPI. */
static void
run_step(void (*step) (const ShardImportBatch *batch), const ShardImportBatch *batch)
{
	ShardOwnSql own;

	Oid			userid = shard_import_become_writer(batch->table);

	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, GetTransactionSnapshot());
	step(batch);
	shard_own_sql_end(&own);
	shard_import_become(userid);
}

/* Truncates the tables of one writing user with one statement, since they may reference each other. */
static void
truncate_tables(const List *batches, const ShardImportTable *writer)
{
	ShardOwnSql own;
	StringInfoData sql;
	Oid			userid;

	initStringInfo(&sql);
	foreach_ptr(const ShardImportBatch, batch, batches)
	{
		if (batch->truncated && batch->table->userid == writer->userid)
			appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "TRUNCATE ", batch->relation);
	}
	userid = shard_import_become_writer(writer);
	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, GetTransactionSnapshot());
	run(sql.data, SPI_OK_UTILITY);
	shard_own_sql_end(&own);
	shard_import_become(userid);
}

void
shard_import_batches_write(const List *batches)
{
	const ListCell *lc;
	List	   *truncated = NIL;	/* users for whom tables were truncated */

	foreach_ptr(ShardImportBatch, batch, batches)
	{
		batch->relation = name_here(batch->table);
		batch->updates = shard_reference_is(batch->table->relid);
		run_step(fetch_unsent, batch);
	}
	foreach_ptr(const ShardImportBatch, batch, batches)
	{
		if (!batch->truncated || list_member_oid(truncated, batch->table->userid))
			continue;
		truncated = lappend_oid(truncated, batch->table->userid);
		truncate_tables(batches, batch->table);
	}
	for (int i = list_length(batches) - 1; i >= 0; i--)
		run_step(delete_rows, list_nth(batches, i));
	foreach(lc, batches)
	{
		run_step(update_rows, lfirst(lc));
		copy_rows(lfirst(lc));
		CommandCounterIncrement();
	}
}
