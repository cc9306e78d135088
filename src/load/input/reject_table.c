/*
 * reject_table.c
 *	  Inserts rows into the table of REJECT_TABLE.
 *
 *	 add --> batch of arrays --(1,000 rows or 1 MB)--> INSERT ... SELECT FROM unnest(arrays)
 *
 * The statement runs like a statement of the user: with the rights of the user, and with the defaults, triggers,
 * partitions and shards of the table.  It runs when the load has ended (see reject.c), in the transaction of the
 * load.
 *
 * The load number comes from a sequence for which users need no privileges.  It is assigned when the table is opened.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "load/input/reject_table.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "own_table.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#define BATCH_ROWS 1000
#define BATCH_BYTES (1024 * 1024)

/* Columns after load.  They differ from row to row. */
enum
{
	COL_LINE,
	COL_COLUMN,
	COL_SHARD,
	COL_SQLSTATE,
	COL_MESSAGE,
	COL_RAW,
	NCOLS
};

static const char *const column_names[NCOLS] = {"line", "column_name", "shard", "sqlstate", "message", "raw"};

struct ShardRejectTable
{
	Oid			relid;
	int64		load;
	int			source_encoding;
	Oid			conversion;		/* from source_encoding; InvalidOid: not needed */
	char	   *insert_sql;

	MemoryContext batch_cxt;	/* context of the values below; reset after each batch */
	Datum	   *values[NCOLS];
	bool	   *nulls[NCOLS];
	int			nrows;
	Size		nbytes;
};

/* Raises an error unless the table has the columns, and the user may insert into them. */
static void
check_columns(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		whole = pg_class_aclcheck(RelationGetRelid(rel), GetUserId(), ACL_INSERT) == ACLCHECK_OK;

	for (int i = -1; i < NCOLS; i++)
	{
		const char *name = i < 0 ? "load" : column_names[i];
		AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("REJECT_TABLE \"%s\" has no column \"%s\"",
							RelationGetRelationName(rel), name),
					 errhint("shardfdw.create_reject_table() makes a table that fits.")));
		if (TupleDescAttr(desc, attno - 1)->attgenerated)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_DEFINITION),
					 errmsg("column \"%s\" of REJECT_TABLE \"%s\" is a generated column",
							name, RelationGetRelationName(rel))));
		if (!whole &&
			pg_attribute_aclcheck(RelationGetRelid(rel), attno, GetUserId(), ACL_INSERT) != ACLCHECK_OK)
			aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(rel->rd_rel->relkind),
						   RelationGetRelationName(rel));
	}
}

/* The text of the INSERT.  Its parameters are load, and an array for each other column. */
static char *
build_insert(Relation rel)
{
	return psprintf("INSERT INTO %s (load, line, column_name, shard, sqlstate, message, raw) "
					"SELECT $1, u.line, u.col, u.shard, u.sqlstate, u.message, u.raw "
					"FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4),"
					" pg_catalog.unnest($5), pg_catalog.unnest($6), pg_catalog.unnest($7)) AS u(line, col, shard, sqlstate, message, raw)",
					quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
											   RelationGetRelationName(rel)));
}

static Oid
param_type(int param)
{
	return param == 0 ? INT8OID : param == COL_LINE + 1 ? INT8ARRAYOID : TEXTARRAYOID;
}

/* Lets parse analysis check whether the INSERT is possible: types of the columns, rules, views. */
static void
check_insert(const char *sql)
{
	Oid			types[NCOLS + 1];
	ShardOwnSql own;

	for (int i = 0; i <= NCOLS; i++)
		types[i] = param_type(i);
	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, InvalidSnapshot);
	if (SPI_prepare(sql, NCOLS + 1, types) == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	shard_own_sql_end(&own);
}

ShardRejectTable *
shard_reject_table_open(MemoryContext cxt, const char *name, Relation parent, int64 load)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardRejectTable *table = palloc0(sizeof(ShardRejectTable));
	List	   *names = textToQualifiedNameList(cstring_to_text(name));
	Relation	rel = table_openrv(makeRangeVarFromNameList(names), RowExclusiveLock);

	table->relid = RelationGetRelid(rel);
	if (table->relid == RelationGetRelid(parent))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("REJECT_TABLE cannot be the table that is loaded")));
	check_columns(rel);
	table->insert_sql = build_insert(rel);
	table->source_encoding = GetDatabaseEncoding();
	/* Keep the lock, so that the table does not change before rows are inserted. */
	table_close(rel, NoLock);

	check_insert(table->insert_sql);
	table->load = load != 0 ? load : nextval_internal(shard_own_relation("load_id", false), false);

	table->batch_cxt = AllocSetContextCreate(cxt, "shardfdw rejected rows", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < NCOLS; i++)
	{
		table->values[i] = palloc(sizeof(Datum) * BATCH_ROWS);
		table->nulls[i] = palloc(sizeof(bool) * BATCH_ROWS);
	}
	MemoryContextSwitchTo(oldcxt);
	return table;
}

void
shard_reject_table_set_encoding(ShardRejectTable *table, int source_encoding)
{
	table->source_encoding = source_encoding;
	if (source_encoding != GetDatabaseEncoding() && source_encoding != PG_SQL_ASCII &&
		GetDatabaseEncoding() != PG_SQL_ASCII)
		table->conversion = FindDefaultConversionProc(source_encoding, GetDatabaseEncoding());
}

static void
insert_batch(ShardRejectTable *table)
{
	MemoryContext oldcxt;
	ShardSqlParam params[NCOLS + 1] = {0};
	ShardOwnSql own;
	int			lbound = 1;

	if (table->nrows == 0)
		return;
	oldcxt = MemoryContextSwitchTo(table->batch_cxt);
	params[0] = shard_sql_int8(table->load);
	for (int i = 0; i < NCOLS; i++)
	{
		ArrayType  *array;

		if (i == COL_LINE)
			array = construct_md_array(table->values[i], table->nulls[i], 1, &table->nrows, &lbound,
									   INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
		else
			array = construct_md_array(table->values[i], table->nulls[i], 1, &table->nrows, &lbound,
									   TEXTOID, -1, false, TYPALIGN_INT);
		params[i + 1] = (ShardSqlParam) {param_type(i + 1), PointerGetDatum(array), false};
	}

	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, InvalidSnapshot);
	(void) shard_own_sql_execute(table->insert_sql, 0, lengthof(params), params);
	shard_own_sql_end(&own);

	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(table->batch_cxt);
	table->nrows = 0;
	table->nbytes = 0;
}

/* Appends the bytes, which are in encoding.  Bytes that are not a valid character, and NUL, are written as \xNN. */
static void
append_valid(StringInfo out, const char *bytes, Size nbytes, int encoding)
{
	while (nbytes > 0)
	{
		int			good = pg_encoding_verifymbstr(encoding, bytes, (int) Min(nbytes, MaxAllocSize));

		appendBinaryStringInfo(out, bytes, good);
		bytes += good;
		nbytes -= good;
		if (nbytes > 0)
		{
			appendStringInfo(out, "\\x%02x", (unsigned char) *bytes);
			bytes++;
			nbytes--;
		}
	}
}

/* The line in the database encoding, without its line end. */
static Datum
raw_text(ShardRejectTable *table, const ShardReject *reject)
{
	StringInfoData source;
	StringInfoData converted;
	Size		nbytes = reject->source_bytes;
	int			done = 0;

	if (nbytes > 0 && reject->source[nbytes - 1] == '\n')
		nbytes--;
	if (nbytes > 0 && reject->source[nbytes - 1] == '\r')
		nbytes--;
	initStringInfo(&source);
	if (!OidIsValid(table->conversion))
	{
		append_valid(&source, reject->source, nbytes, GetDatabaseEncoding());
		return PointerGetDatum(cstring_to_text_with_len(source.data, source.len));
	}

	append_valid(&source, reject->source, nbytes, table->source_encoding);
	initStringInfo(&converted);
	while (done < source.len)
	{
		char		piece[4096];
		int			n;

		/*
		 * Returns the number of converted bytes.  It stops if the buffer is full, or at a character that the database
		 * encoding lacks.
		 */
		n = pg_do_encoding_conversion_buf(table->conversion, table->source_encoding, GetDatabaseEncoding(),
										  (unsigned char *) source.data + done, source.len - done,
										  (unsigned char *) piece, sizeof(piece), true);
		if (n > 0)
		{
			appendStringInfoString(&converted, piece);
			done += n;
			continue;
		}
		n = pg_encoding_mblen(table->source_encoding, source.data + done);
		for (; n > 0 && done < source.len; n--, done++)
			appendStringInfo(&converted, "\\x%02x", (unsigned char) source.data[done]);
	}
	return PointerGetDatum(cstring_to_text_with_len(converted.data, converted.len));
}

static void
set_text(ShardRejectTable *table, int col, const char *text)
{
	table->nulls[col][table->nrows] = text == NULL;
	table->values[col][table->nrows] = text ? CStringGetTextDatum(text) : (Datum) 0;
}

void
shard_reject_table_add(ShardRejectTable *table, const ShardReject *reject)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(table->batch_cxt);

	table->values[COL_LINE][table->nrows] = Int64GetDatum((int64) reject->lineno);
	table->nulls[COL_LINE][table->nrows] = reject->lineno == 0;
	set_text(table, COL_COLUMN, reject->column);
	set_text(table, COL_SHARD, reject->shard);
	set_text(table, COL_SQLSTATE, unpack_sql_state(reject->sqlstate));
	set_text(table, COL_MESSAGE, reject->message);
	table->values[COL_RAW][table->nrows] = raw_text(table, reject);
	table->nulls[COL_RAW][table->nrows] = false;
	table->nrows++;
	table->nbytes += reject->source_bytes;
	MemoryContextSwitchTo(oldcxt);

	if (table->nrows == BATCH_ROWS || table->nbytes >= BATCH_BYTES)
		insert_batch(table);
}

int64
shard_reject_table_load(const ShardRejectTable *table)
{
	return table->load;
}

void
shard_reject_table_finish(ShardRejectTable *table)
{
	insert_batch(table);
}
