/*
 * error_name.c
 *	  Replaces names in errors of nodes: shards' names by those of the sharded table.
 *
 * A program that inserts into "orders" looks for its table and its constraint
 * in an error's fields, and knows nothing of "orders_02" and "orders_pkey_02":
 *
 *	 table (schema, name) on the node -> foreign table -> parent at the top
 *	 index on the node -> the parent's of which it has its name (ddl_name.c), or
 *						  the only unique one over the columns that DETAIL names
 *	 column -> the one whose option column_name says so
 *
 * CHECK constraints and foreign keys have the same names on both sides.  In the message a
 * name is replaced where it stands in quotes, and only in errors of class 23 that say
 * which table they are about: in those, text in quotes is a name, not a value.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_index.h"
#include "catalog/shard_map.h"
#include "commands/defrem.h"
#include "ddl/ddl_name.h"
#include "mb/pg_wchar.h"
#include "remote/wire/error.h"
#include "service/error_name.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

/* A name of the node and the user's. */
typedef struct NamePair
{
	const char *from;
	const char *to;
} NamePair;

/* How messages quote names, by the languages that core speaks. */
typedef struct QuotePair
{
	const char *open;
	const char *close;
} QuotePair;

static const QuotePair quotes[] = {
	{"\"", "\""},
	{"\302\253\302\240", "\302\240\302\273"},	/* guillemets with spaces that do not break */
	{"\302\253 ", " \302\273"},
	{"\302\253", "\302\273"},
	{"\302\273", "\302\253"},
	{"\342\200\236", "\342\200\234"},
	{"\342\200\234", "\342\200\235"}
};

/* ---------- tables ---------- */

/* Is this row of pg_foreign_table the table schema.name on the server? */
static bool
is_remote_table(HeapTuple tuple, TupleDesc desc, Oid serverid, const char *schema, const char *name)
{
	Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);
	const char *remote_schema = NULL;
	const char *remote_name = NULL;
	bool		isnull;
	Datum		options;

	if (form->ftserver != serverid)
		return false;
	options = heap_getattr(tuple, Anum_pg_foreign_table_ftoptions, desc, &isnull);
	if (!isnull)
	{
		ListCell   *lc;

		foreach(lc, untransformRelOptions(options))
		{
			DefElem    *option = lfirst(lc);

			if (strcmp(option->defname, "schema_name") == 0)
				remote_schema = defGetString(option);
			else if (strcmp(option->defname, "table_name") == 0)
				remote_name = defGetString(option);
		}
	}
	if (remote_name == NULL)
		remote_name = get_rel_name(form->ftrelid);
	if (remote_name == NULL || strcmp(remote_name, name) != 0)
		return false;
	if (remote_schema == NULL)
		remote_schema = get_namespace_name(get_rel_namespace(form->ftrelid));
	return remote_schema != NULL && strcmp(remote_schema, schema) == 0;
}

/* The partition here that is table schema.name on the server; InvalidOid when there is none. */
static Oid
find_shard(Oid serverid, const char *schema, const char *name)
{
	Relation	catalog = table_open(ForeignTableRelationId, AccessShareLock);
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			result = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
	SysScanDesc scan;
	HeapTuple	tuple;

	/* as a rule it has the same name */
	if (OidIsValid(result))
	{
		tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(result));
		if (!HeapTupleIsValid(tuple))
			result = InvalidOid;
		else
		{
			if (!is_remote_table(tuple, RelationGetDescr(catalog), serverid, schema, name))
				result = InvalidOid;
			ReleaseSysCache(tuple);
		}
	}
	if (!OidIsValid(result))
	{
		scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
		while (!OidIsValid(result) && HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			if (is_remote_table(tuple, RelationGetDescr(catalog), serverid, schema, name))
				result = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftrelid;
		}
		systable_endscan(scan);
	}
	table_close(catalog, AccessShareLock);
	return OidIsValid(result) && get_rel_relispartition(result) ? result : InvalidOid;
}

/* Name of the table that a shard's errors are about. */
static char *
parent_name(Oid shard)
{
	return get_rel_name(shard_map_top(shard));
}

/* ---------- constraints and columns ---------- */

/* Does the node call the index so on the shard? */
static bool
has_shard_name(const char *index, const char *shard, const char *name)
{
	return strcmp(shard_ddl_name(index, shard, false), name) == 0 ||
		strcmp(shard_ddl_name(index, shard, true), name) == 0;
}

/* The parent's index that stands for index name of its shard, NULL when that is not sure. */
static char *
find_index(Oid parent, const char *shard, const char *name, const char *detail)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	char	   *result = NULL;
	char	   *by_columns = NULL;
	int			nby_columns = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(catalog, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (result == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
		char	   *index = get_rel_name(form->indexrelid);

		if (index == NULL || !(form->indisunique || form->indisexclusion))
			continue;
		if (strcmp(index, name) == 0 || has_shard_name(index, shard, name))
			result = index;
		else if (detail != NULL && strstr(detail, psprintf("(%s)=(", pg_get_indexdef_columns(form->indexrelid, true))))
		{
			by_columns = index;
			nby_columns++;
		}
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result ? result : nby_columns == 1 ? by_columns : NULL;
}

/* The column here that is called name on the node. */
static char *
find_column(Oid shard, const char *name)
{
	char	   *column;

	for (AttrNumber attno = 1; (column = get_attname(shard, attno, true)) != NULL; attno++)
	{
		if (strcmp(shard_option_column_name(shard, attno), name) == 0)
			return column;
	}
	return NULL;
}

/* ---------- the message ---------- */

/* The user's name for the word of nbytes bytes in quotes; NULL: as it is. */
static const char *
new_name(const NamePair *pairs, int npairs, const char *word, size_t nbytes,
		 Oid serverid, const char *schema)
{
	Oid			shard;

	for (int i = 0; i < npairs; i++)
	{
		if (strlen(pairs[i].from) == nbytes && memcmp(pairs[i].from, word, nbytes) == 0)
			return pairs[i].to;
	}
	if (schema == NULL || nbytes >= NAMEDATALEN)
		return NULL;
	shard = find_shard(serverid, schema, pnstrdup(word, nbytes));
	return OidIsValid(shard) ? parent_name(shard) : NULL;
}

/* The quotes that begin at p; NULL when none do. */
static const QuotePair *
quote_at(const char *p)
{
	for (int i = 0; i < lengthof(quotes); i++)
	{
		if (strncmp(p, quotes[i].open, strlen(quotes[i].open)) == 0 &&
			(i == 0 || GetDatabaseEncoding() == PG_UTF8))
			return &quotes[i];
	}
	return NULL;
}

/*
 * message with names exchanged where they are in quotes.  schema: other words
 * may be tables of it, too; NULL: they are not.
 */
static char *
rename_in_message(const char *message, const NamePair *pairs, int npairs,
				  Oid serverid, const char *schema)
{
	StringInfoData buf;

	initStringInfo(&buf);
	while (*message)
	{
		const QuotePair *quote = quote_at(message);
		const char *word = quote ? message + strlen(quote->open) : NULL;
		const char *end = NULL;
		const char *name = NULL;

		/* a known name may have a quote inside */
		for (int i = 0; quote && i < npairs && !end; i++)
		{
			size_t		nbytes = strlen(pairs[i].from);

			if (strncmp(word, pairs[i].from, nbytes) == 0 &&
				strncmp(word + nbytes, quote->close, strlen(quote->close)) == 0)
				end = word + nbytes;
		}
		if (quote && !end)
			end = strstr(word, quote->close);
		if (!end)
		{
			appendStringInfoChar(&buf, *message++);
			continue;
		}
		name = new_name(pairs, npairs, word, end - word, serverid, schema);
		end += strlen(quote->close);
		if (name)
			appendStringInfo(&buf, "%s%s%s", quote->open, name, quote->close);
		else
			appendBinaryStringInfo(&buf, message, end - message);
		message = end;
	}
	return buf.data;
}

/* ---------- all of it ---------- */

static void
rename_objects(Oid serverid, int sqlstate, const char *detail, ShardErrorNames *names)
{
	Oid			shard = find_shard(serverid, names->schema, names->table);
	Oid			parent;
	const char *node_schema = names->schema;
	NamePair	pairs[3];
	int			npairs = 0;
	char	   *name;

	if (!OidIsValid(shard))
		return;
	parent = shard_map_top(shard);
	name = get_rel_name(parent);
	if (name == NULL)
		return;
	pairs[npairs++] = (NamePair) {names->table, name};
	if (names->constraint &&
		(sqlstate == ERRCODE_UNIQUE_VIOLATION || sqlstate == ERRCODE_EXCLUSION_VIOLATION) &&
		(name = find_index(parent, names->table, names->constraint, detail)) != NULL)
	{
		pairs[npairs++] = (NamePair) {names->constraint, name};
		names->constraint = name;
	}
	if (names->column && (name = find_column(shard, names->column)) != NULL)
	{
		pairs[npairs++] = (NamePair) {names->column, name};
		names->column = name;
	}
	names->table = unconstify(char *, pairs[0].to);
	names->schema = get_namespace_name(get_rel_namespace(parent));

	/* foreign keys name a second table; if both have the same name, it is not known which is meant */
	for (int i = 1; i < npairs; i++)
	{
		if (strcmp(pairs[i].from, pairs[0].from) == 0)
			return;
	}
	if (names->message && ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION &&
		!(names->constraint && strcmp(names->constraint, pairs[0].from) == 0))
		names->message = rename_in_message(names->message, pairs, npairs, serverid,
										   sqlstate == ERRCODE_FOREIGN_KEY_VIOLATION ? node_schema : NULL);
}

void
shard_error_name_init(void)
{
	shard_error_set_rename(rename_objects);
}
