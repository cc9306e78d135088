/*
 * error_name.c
 *	  Replaces names in errors of nodes: names of shards by names of the sharded table.
 *
 * A program that inserts into "orders" searches for its table and its constraint in an error's
 * fields.  It does not know "orders_02" and "orders_pkey_02":
 *
 *	 table (schema, name) on the node -> foreign table -> parent at the top
 *	 index on the node -> the parent's index from which its name is made (ddl_name.c), or
 *						  the only unique one over the columns that DETAIL names
 *	 column -> the one with this option column_name
 *
 * CHECK constraints and foreign keys have the same names on both sides.  In the message, a name is
 * replaced only in quotes, and only in errors of class 23 that say which table they are about.  In
 * those errors, text in quotes is a name, not a value.
 *
 * The table that is found also determines whether the user may read the values in DETAIL.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_index.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/ddl_name.h"
#include "mb/pg_wchar.h"
#include "remote/wire/error.h"
#include "service/error_detail.h"
#include "service/error_function.h"
#include "service/error_name.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* A name of the node and the user's. */
typedef struct NamePair
{
	const char *from;
	const char *to;
} NamePair;

/* How messages quote names in the languages of core. */
typedef struct QuotePair
{
	const char *open;
	const char *close;
} QuotePair;

static const QuotePair quotes[] = {
	{"\"", "\""},
	{"\302\253\302\240", "\302\240\302\273"},	/* guillemets with no-break spaces */
	{"\302\253 ", " \302\273"},
	{"\302\253", "\302\273"},
	{"\302\273", "\302\253"},
	{"\342\200\236", "\342\200\234"},
	{"\342\200\234", "\342\200\235"}
};

/* ---------- tables ---------- */

/* Returns the shard that is table schema.name on the server; InvalidOid: none. */
static Oid
find_shard(Oid serverid, const char *schema, const char *name)
{
	Oid			result = shard_option_find_table(serverid, schema, name);

	return OidIsValid(result) && get_rel_relispartition(result) ? result : InvalidOid;
}

/* Returns the name of the table for a shard's errors. */
static char *
parent_name(Oid shard)
{
	return get_rel_name(shard_map_top(shard));
}

/* ---------- constraints and columns ---------- */

/* Is name the node's name of the index on the shard? */
static bool
has_shard_name(const char *index, const char *shard, const char *name)
{
	return strcmp(shard_ddl_name(index, shard, false), name) == 0 ||
		strcmp(shard_ddl_name(index, shard, true), name) == 0;
}

/* Returns the parent's index for index name of its shard; NULL if that is uncertain. */
static char *
find_index(Oid parent, const char *shard, const char *name, const char *detail)
{
	char	   *result = NULL;
	char	   *by_columns = NULL;
	int			nby_columns = 0;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, parent);
	while (result == NULL && HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
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
	shard_catalog_scan_end(&scan);
	return result ? result : nby_columns == 1 ? by_columns : NULL;
}

/* Returns the local column for the node's column name. */
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

/* Returns the user's name for the quoted word with nbytes bytes; NULL: unchanged. */
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

/* Returns the quotes that begin at p; NULL: none. */
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

/* Returns the next quoted word of message, with length *nbytes; NULL: none.  A name in pairs may contain a quote. */
static const char *
next_word(const char *message, const NamePair *pairs, int npairs, size_t *nbytes)
{
	for (; *message; message++)
	{
		const QuotePair *quote = quote_at(message);
		const char *word = quote ? message + strlen(quote->open) : NULL;
		const char *end;

		if (!quote)
			continue;
		for (int i = 0; i < npairs; i++)
		{
			*nbytes = strlen(pairs[i].from);
			if (strncmp(word, pairs[i].from, *nbytes) == 0 &&
				strncmp(word + *nbytes, quote->close, strlen(quote->close)) == 0)
				return word;
		}
		end = strstr(word, quote->close);
		if (end)
		{
			*nbytes = end - word;
			return word;
		}
	}
	return NULL;
}

/* Returns the position after the closing quote of a word. */
static const char *
skip_quote(const char *end)
{
	for (int i = 0; i < lengthof(quotes); i++)
	{
		if (strncmp(end, quotes[i].close, strlen(quotes[i].close)) == 0)
			return end + strlen(quotes[i].close);
	}
	return end;
}

/*
 * Returns message with quoted names replaced. schema: other words may be tables of this schema,
 * too; NULL: they are not.
 */
static char *
rename_in_message(const char *message, const NamePair *pairs, int npairs,
				  Oid serverid, const char *schema)
{
	StringInfoData buf;
	const char *word;
	size_t		nbytes;

	initStringInfo(&buf);
	while ((word = next_word(message, pairs, npairs, &nbytes)) != NULL)
	{
		const char *name = new_name(pairs, npairs, word, nbytes, serverid, schema);
		const char *next = skip_quote(word + nbytes);

		appendBinaryStringInfo(&buf, message, word - message);
		if (name)
			appendStringInfoString(&buf, name);
		else
			appendBinaryStringInfo(&buf, word, nbytes);
		appendBinaryStringInfo(&buf, word + nbytes, next - word - nbytes);
		message = next;
	}
	appendStringInfoString(&buf, message);
	return buf.data;
}

/* ---------- values in DETAIL ---------- */

/*
 * Returns the table whose key a foreign key's error shows; InvalidOid if that is uncertain.  The
 * error is about the referring table (table shard), and its message contains the names of that
 * table and of the constraint.  If it contains a third name, the row and the key belong to the referenced table.
 */
static Oid
table_with_key(Oid shard, Oid serverid, const ShardErrorNames *names, const char **key_table)
{
	NamePair	known[] = {{names->table, NULL}, {names->constraint, NULL}};
	bool		seen[lengthof(known)] = {false, false};
	const char *message = names->message;
	const char *word;
	char	   *other = NULL;
	size_t		nbytes;
	Oid			namespace;
	Oid			result;

	if (message == NULL || names->constraint == NULL)
		return InvalidOid;
	for (; (word = next_word(message, known, lengthof(known), &nbytes)) != NULL; message = skip_quote(word + nbytes))
	{
		int			i = 0;

		while (i < lengthof(known) &&
			   (seen[i] || strlen(known[i].from) != nbytes || memcmp(known[i].from, word, nbytes) != 0))
			i++;
		if (i < lengthof(known))
			seen[i] = true;
		else if (other != NULL)
			return InvalidOid;
		else
			other = pnstrdup(word, nbytes);
	}
	if (!seen[0] || !seen[1])
		return InvalidOid;
	if (other == NULL)
		return shard;
	*key_table = other;
	result = shard_option_find_table(serverid, names->schema, other);
	if (OidIsValid(result))
		return result;
	namespace = get_namespace_oid(names->schema, true);
	result = OidIsValid(namespace) ? get_relname_relid(other, namespace) : InvalidOid;
	return OidIsValid(result) && shard_reference_is(result) ? result : InvalidOid;
}

/* May the current user read the values in detail? table: the local table that the error is about. */
static bool
may_read_detail(Oid table, Oid serverid, int sqlstate, const char *detail, const ShardErrorNames *names)
{
	const char *name = names->table;

	if (sqlstate == ERRCODE_FOREIGN_KEY_VIOLATION)
		table = table_with_key(table, serverid, names, &name);
	return OidIsValid(table) &&
		shard_error_detail_is_readable(table, serverid, names->schema, name, detail,
									   sqlstate == ERRCODE_UNIQUE_VIOLATION ||
									   sqlstate == ERRCODE_EXCLUSION_VIOLATION ||
									   sqlstate == ERRCODE_FOREIGN_KEY_VIOLATION);
}

/* ---------- all of it ---------- */

static void
rename_objects(Oid shard, Oid serverid, int sqlstate, const char *detail, ShardErrorNames *names)
{
	Oid			parent;
	const char *node_schema = names->schema;
	NamePair	pairs[3];
	int			npairs = 0;
	char	   *name;

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

	/* foreign keys name a second table; if both have the same name, it is unknown which one is meant */
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

static bool
look_at_error(Oid serverid, int sqlstate, const char *detail, ShardErrorNames *names)
{
	Oid			table;
	bool		may_read;

	if (sqlstate == ERRCODE_UNDEFINED_FUNCTION)
		names->hint = shard_error_function_hint(names->message);
	if (names->schema == NULL || names->table == NULL)
		return false;
	table = shard_option_find_table(serverid, names->schema, names->table);
	if (!OidIsValid(table))
		return false;
	may_read = may_read_detail(table, serverid, sqlstate, detail, names);
	if (get_rel_relispartition(table))
		rename_objects(table, serverid, sqlstate, detail, names);
	return may_read;
}

void
shard_error_name_init(void)
{
	shard_error_set_hook(look_at_error);
}
