/*
 * replica_sql.c
 *	  Writes the commands that send changes of a shard to its replicas.
 *
 * Triggers of a shard note the keys of changed rows (49_replica.sql).  The table of notes has a row for each statement.
 * The row has arrays of the keys before the statement (o1, o2, ...: one for each column of the primary key), and arrays of
 * the keys after it (n1, n2, ...).  A shard contains a key at most once, so
 *
 *	 was there before the transaction = is there now - times that it is noted as new + times that it is noted as old
 *
 * whatever the order of statements and savepoints was.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "common/md5.h"
#include "compat.h"
#include "replica/replica_sql.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Number of keys in one row of the result.  One command deletes them from a replica. */
#define CHUNK_KEYS 10000

/* A row that is longer than this is not sent as literals. */
#define SHORT_ROW_BYTES 8000

#define NOTES_PREFIX "shardfdw_notes_"

/*
 * Only notes of the current transaction are visible.  But an old snapshot may keep VACUUM from removing many dead
 * notes.  An index scan skips these.
 */
#define OF_XACT "xact = pg_catalog.pg_current_xact_id()"

/* A column of the primary key. */
typedef struct KeyColumn
{
	const char *attname;
	const char *name;			/* quoted */
	const char *equals;			/* OPERATOR(schema.=) */
	const char *type;			/* qualified, without length */
	const char *array_type;
	const char *collate;		/* " COLLATE ...", or "" */
} KeyColumn;

/* ---------- the key ---------- */

static const char *
collate(Oid collation)
{
	HeapTuple	tuple;
	Form_pg_collation form;
	const char *result;

	if (!OidIsValid(collation) || collation == DEFAULT_COLLATION_OID)
		return "";
	tuple = shard_catalog_row(COLLOID, collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	result = psprintf(" COLLATE %s", quote_qualified_identifier(get_namespace_name(form->collnamespace), NameStr(form->collname)));
	ReleaseSysCache(tuple);
	return result;
}

static void
fill_column(KeyColumn *column, Relation rel, Relation index, int keyno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), index->rd_index->indkey.values[keyno] - 1);
	Oid			array_type = get_array_type(att->atttypid);

	if (!OidIsValid(array_type))
		elog(ERROR, "there are no arrays of the type of column \"%s\"", NameStr(att->attname));
	column->attname = pstrdup(NameStr(att->attname));
	column->name = quote_identifier(column->attname);
	column->equals = shard_qualified_equality(index, keyno, att->atttypid);
	/* "character" and "bit" would mean length 1; with this flag and -1, other names are printed */
	column->type = format_type_extended(att->atttypid, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	column->array_type = format_type_extended(array_type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	column->collate = collate(att->attcollation);
}

/*
 * Returns the columns of the primary key of rel, a sharded table.  The key's index is not valid on the coordinator: the
 * shards enforce the key.
 */
static KeyColumn *
find_key(Relation rel, int *nkeys)
{
	List	   *indexes = RelationGetIndexList(rel);
	KeyColumn  *key = NULL;

	foreach_oid(indexid, indexes)
	{
		Relation	index = index_open(indexid, AccessShareLock);

		if (index->rd_index->indisprimary)
		{
			*nkeys = index->rd_index->indnkeyatts;
			key = palloc0(sizeof(KeyColumn) * *nkeys);
			for (int i = 0; i < *nkeys; i++)
				fill_column(&key[i], rel, index, i);
		}
		index_close(index, AccessShareLock);
	}
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\", whose shards have replicas, has no primary key", RelationGetRelationName(rel))));
	return key;
}

bool
shard_replica_is_key(Oid relid, const char *column)
{
	Relation	rel = table_open(relid, NoLock);
	int			nkeys;
	KeyColumn  *key = find_key(rel, &nkeys);
	bool		found = false;

	for (int i = 0; i < nkeys; i++)
		found |= strcmp(key[i].name, quote_identifier(column)) == 0;
	table_close(rel, NoLock);
	return found;
}

char *
shard_replica_rights_query(const ShardMap *map, const Shard *shard)
{
	Relation	rel = table_open(map->relid, AccessShareLock);
	int			nkeys;
	KeyColumn  *key = find_key(rel, &nkeys);
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < nkeys; i++)
		appendStringInfo(&names, "%s%s", i == 0 ? "" : ", ", quote_literal_cstr(key[i].attname));
	table_close(rel, AccessShareLock);
	return psprintf("SELECT pg_catalog.bool_and(r.reads), pg_catalog.bool_and(r.reads OR r.attname NOT IN (%s)),"
					" pg_catalog.bool_and(r.inserts), pg_catalog.has_table_privilege(%s::pg_catalog.regclass, 'DELETE') FROM (SELECT a.attname,"
					" pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS reads,"
					" pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'INSERT') AS inserts FROM pg_catalog.pg_attribute a"
					" WHERE a.attrelid = %s::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') r",
					names.data, quote_literal_cstr(shard->relation), quote_literal_cstr(shard->relation));
}

/* ---------- texts ---------- */

/* Returns "k1, k2, ..." for format "k%d". */
static char *
numbered(int n, const char *format)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 1; i <= n; i++)
	{
		char		part[128];

		snprintf(part, sizeof(part), format, i, i, i);
		appendStringInfo(&buf, "%s%s", i == 1 ? "" : ", ", part);
	}
	return buf.data;
}

/* Returns the condition that the key of t equals that of x. */
static char *
match(const KeyColumn *key, int nkeys)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < nkeys; i++)
		appendStringInfo(&buf, "%st.%s %s x.k%d%s", i == 0 ? "" : " AND ", key[i].name, key[i].equals, i + 1, key[i].collate);
	return buf.data;
}

/*
 * Returns a FROM item with all noted keys, each as often as it is noted.  Column d is 1 for new keys and -1 for old
 * ones.
 */
static char *
noted_keys(const char *notes, int nkeys)
{
	const char *columns = numbered(nkeys, "k%d");

	return psprintf("(SELECT u.*, -1 AS d FROM %s n, ROWS FROM (%s) AS u (%s) WHERE n." OF_XACT
					" UNION ALL SELECT u.*, 1 FROM %s n, ROWS FROM (%s) AS u (%s) WHERE n." OF_XACT ")",
					notes, numbered(nkeys, "pg_catalog.unnest(n.o%d)"), columns,
					notes, numbered(nkeys, "pg_catalog.unnest(n.n%d)"), columns);
}

static char *
keys_query(const KeyColumn *key, int nkeys, const char *relation, const char *notes)
{
	const char *columns = numbered(nkeys, "k%d");

	return psprintf("SELECT pg_catalog.sum(z.now), pg_catalog.sum(z.before), pg_catalog.count(*) FILTER (WHERE z.before NOT IN (0, 1)), %s"
					" FROM (SELECT y.*, (pg_catalog.row_number() OVER () - 1) / %d AS chunk"
					" FROM (SELECT x.*, CASE WHEN t.%s IS NULL THEN 0 ELSE 1 END AS now,"
					" CASE WHEN t.%s IS NULL THEN 0 ELSE 1 END - x.net AS before"
					" FROM (SELECT %s, pg_catalog.sum(d) AS net FROM %s k GROUP BY %s) x LEFT JOIN ONLY %s t ON %s) y) z"
					" GROUP BY z.chunk",
					numbered(nkeys, "pg_catalog.array_agg(z.k%d) FILTER (WHERE z.before = 1)"),
					CHUNK_KEYS, key[0].name, key[0].name,
					columns, noted_keys(notes, nkeys), columns, relation, match(key, nkeys));
}

static char *
delete_command(const KeyColumn *key, int nkeys, const char *relation)
{
	StringInfoData arrays;

	initStringInfo(&arrays);
	for (int i = 0; i < nkeys; i++)
		appendStringInfo(&arrays, "%spg_catalog.unnest($%d::%s)", i == 0 ? "" : ", ", i + 1, key[i].array_type);
	return psprintf("DELETE FROM ONLY %s AS t USING ROWS FROM (%s) AS x (%s) WHERE %s",
					relation, arrays.data, numbered(nkeys, "k%d"), match(key, nkeys));
}

/*
 * Returns the query ShardReplicaSql.few. columns: the relation's columns, qualified with t. sizes: the sum of their
 * sizes as stored, so that long rows are recognized without reading them.
 */
static char *
few_query(const KeyColumn *key, int nkeys, const char *relation, const char *notes, const char *columns, const char *sizes, int ncolumns)
{
	const char *keys = numbered(nkeys, "k%d");

	return psprintf("SELECT x.net, r.here, r.is_short, %s, %s FROM (SELECT %s, pg_catalog.sum(d) AS net FROM %s k GROUP BY %s) x"
					" LEFT JOIN LATERAL (SELECT true, %s <= %d, %s FROM ONLY %s t WHERE %s OFFSET 0)"
					" AS r (here, is_short, %s) ON true",
					numbered(nkeys, "x.k%d"), numbered(ncolumns, "CASE WHEN r.is_short THEN r.c%d END"), keys, noted_keys(notes, nkeys), keys,
					sizes, SHORT_ROW_BYTES, columns, relation, match(key, nkeys), numbered(ncolumns, "c%d"));
}

/* Returns the columns that INSERT sets, each printed with format, which has one %s. */
static char *
columns_of(Relation rel, const char *format, const char *separator, int *ncolumns)
{
	StringInfoData buf;

	*ncolumns = 0;
	initStringInfo(&buf);
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (att->attisdropped || att->attgenerated)
			continue;
		appendStringInfoString(&buf, (*ncolumns)++ > 0 ? separator : "");
		appendStringInfo(&buf, format, quote_identifier(NameStr(att->attname)));
	}
	return buf.data;
}

char *
shard_replica_notes(const char *schema, const char *shard_name)
{
	char		hash[33];
	const char *error = NULL;

	if (!pg_md5_hash(shard_name, strlen(shard_name), hash, &error))
		elog(ERROR, "could not compute a hash: %s", error);
	return quote_qualified_identifier(schema, psprintf("%s%s", NOTES_PREFIX, hash));
}

void
shard_replica_sql(const ShardMap *map, int shardno, ShardReplicaSql *sql)
{
	const Shard *shard = &map->shards[shardno];
	Relation	rel = table_open(map->relid, AccessShareLock);
	Relation	shard_rel = table_open(shard->relid, AccessShareLock);
	KeyColumn  *key = find_key(rel, &sql->nkeys);
	const char *columns = columns_of(shard_rel, "%s", ", ", &sql->ncolumns);
	const char *t_columns = columns_of(shard_rel, "t.%s", ", ", &sql->ncolumns);
	const char *sizes = columns_of(shard_rel, "coalesce(pg_catalog.pg_column_size(t.%s), 0)", " + ", &sql->ncolumns);
	const char *notes;

	/* a shard with replicas has the same name on its nodes */
	sql->schema = pstrdup(quote_identifier(get_namespace_name(RelationGetNamespace(shard_rel))));
	notes = shard_replica_notes(get_namespace_name(RelationGetNamespace(shard_rel)), RelationGetRelationName(shard_rel));
	sql->few = few_query(key, sql->nkeys, shard->relation, notes, t_columns, sizes, sql->ncolumns);
	sql->keys = keys_query(key, sql->nkeys, shard->relation, notes);
	sql->rows = psprintf("COPY (SELECT %s FROM (SELECT DISTINCT %s FROM %s k) x JOIN ONLY %s t ON %s) TO STDOUT",
						 t_columns, numbered(sql->nkeys, "k%d"), noted_keys(notes, sql->nkeys),
						 shard->relation, match(key, sql->nkeys));
	sql->all = psprintf("COPY %s (%s) TO STDOUT", shard->relation, columns);
	sql->delete = delete_command(key, sql->nkeys, shard->relation);
	sql->insert = psprintf("COPY %s (%s) FROM STDIN", shard->relation, columns);
	sql->delete_head = psprintf("DELETE FROM ONLY %s AS t USING (VALUES ", shard->relation);
	sql->key_types = palloc(sizeof(char *) * sql->nkeys);
	for (int i = 0; i < sql->nkeys; i++)
		sql->key_types[i] = key[i].type;
	sql->delete_tail = psprintf(") AS x (%s) WHERE %s", numbered(sql->nkeys, "k%d"), match(key, sql->nkeys));
	sql->insert_head = psprintf("INSERT INTO %s (%s) VALUES ", shard->relation, columns);
	table_close(shard_rel, AccessShareLock);
	table_close(rel, AccessShareLock);
}
