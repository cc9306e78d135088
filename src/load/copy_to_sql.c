/*
 * copy_to_sql.c
 *	  Makes the statements with which shards write COPY TO, if they write the same bytes as core.
 *
 * Assumptions: nodes run any major version from 15 to 19.  Their sessions use the user's DateStyle, TimeZone,
 * IntervalStyle, extra_float_digits and bytea_output, and the encoding of this database.  The quoting rules are the
 * same in all major versions.
 *
 * So the output functions of built-in types write the same text on the nodes, with two exceptions.  The first exception
 * are types that depend on other settings (money), on search_path (regclass and similar types) or on OIDs.  The second
 * exception are types that have changed between major versions ("char" in 16, pg_lsn in 19).
 *
 * Types that are not built in, except enums, may write other text.  Composite types may, too, because their columns may
 * differ on the node.  So the shards do not write values of these types.
 *
 * If a column has another type on the node, it is cast to its type on the coordinator, as in every other remote query.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/remote_table.h"
#include "load/copy_to_sql.h"
#include "mb/pg_wchar.h"
#include "nodes/value.h"
#include "remote/run/command.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* ---------- what nodes can write ---------- */

static bool
is_same_text(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return is_same_text(element);
	switch (type)
	{
		case CHAROID:
		case PG_LSNOID:
		case CASHOID:
			return false;
		case TSVECTOROID:
		case TSQUERYOID:
			return true;
		default:
			/* if the binary form of a type has no OIDs, its text has no names */
			return shard_type_io_binary_output(type);
	}
}

/* Has the type the same binary form in all major versions, with text in this database's encoding? */
static bool
is_same_binary(Oid type)
{
	return shard_type_io_binary_input(type);
}

/* Has some column on a node a type with another binary form? */
static bool
types_differ(const ShardCopyTo *copy)
{
	const ShardMap *map = copy->map;

	for (int i = 0; i < map->nshards; i++)
		if (!shard_remote_table_same_types(map->shards[i].relid, map->shards[i].serverid, copy->userid))
			return true;
	return false;
}

/* NULL if the databases of all nodes have the encoding of this one. */
static const char *
find_other_encoding(const ShardCopyTo *copy)
{
	const char *ours = GetDatabaseEncodingName();
	const ShardMap *map = copy->map;
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * map->nnodes);
	const char *result = NULL;

	for (int i = 0; i < map->nnodes; i++)
	{
		commands[i] = (ShardCommand) {.serverid = map->nodes[i].serverid, .userid = copy->userid,
			.sql = "SELECT getdatabaseencoding()", .nfields = 1};
	}
	shard_command_run(commands, map->nnodes, SHARD_COMMAND_READ, false);
	for (int i = 0; i < map->nnodes; i++)
	{
		PGresult   *res = commands[i].result;

		if (PQntuples(res) != 1 || strcmp(PQgetvalue(res, 0, 0), ours) != 0)
			result = "a node would convert from another encoding";
	}
	shard_command_free(commands, map->nnodes);
	pfree(commands);
	return result;
}

/* Is the delimiter not ASCII?  In another encoding it would be another byte, or several bytes. */
static bool
has_odd_delimiter(const CopyFormatOptions *opts)
{
	return IS_HIGHBIT_SET(opts->delim[0]) ||
		(shard_copy_is_csv(opts) && (IS_HIGHBIT_SET(opts->quote[0]) || IS_HIGHBIT_SET(opts->escape[0])));
}

const char *
shard_copy_to_sql_obstacle(const ShardCopyTo *copy)
{
	bool		binary = shard_copy_is_binary(&copy->opts);

	if (shard_copy_is_json(&copy->opts))
		return "not every node knows the format";
	if (copy->attnos == NIL)
		return "no columns";
	if (copy->query != NULL && binary)
		return "a column of the query may have another type on a node";
	foreach_int(attno, copy->attnos)
	{
		Form_pg_attribute att = TupleDescAttr(copy->desc, attno - 1);

		if (!(binary ? is_same_binary(att->atttypid) : is_same_text(att->atttypid)))
			return psprintf("nodes might write type %s of column \"%s\" in another way",
							format_type_be(att->atttypid), NameStr(att->attname));
	}
	if (binary && types_differ(copy))
		return "a column has another type on a node";
	/* text in binary values is in the client's encoding, independent of the ENCODING option */
	if (binary && pg_get_client_encoding() != GetDatabaseEncoding())
		return "text has to be converted to the client's encoding";
	if (!binary && (copy->encoding != GetDatabaseEncoding() || has_odd_delimiter(&copy->opts)))
		return find_other_encoding(copy);
	return NULL;
}

/* ---------- the statement ---------- */

static void
append_select(const ShardCopyTo *copy, int shardno, StringInfo buf)
{
	const char *separator = "SELECT ";

	foreach_int(attno, copy->attnos)
	{
		Form_pg_attribute att = TupleDescAttr(copy->desc, attno - 1);
		const char *name = quote_identifier(NameStr(att->attname));
		const char *type = shard_type_io_cast_name(getBaseType(att->atttypid));

		appendStringInfo(buf, "%s(shard.%s)::%s AS %s", separator, name, type, name);
		separator = ", ";
	}
	appendStringInfo(buf, " FROM %s AS shard", copy->map->shards[shardno].from_item);
}

static void
append_force_quote(const ShardCopyTo *copy, StringInfo buf)
{
	const char *separator = ", FORCE_QUOTE (";

	if (copy->opts.force_quote_all)
		appendStringInfoString(buf, ", FORCE_QUOTE *");
	if (copy->opts.force_quote == NIL)
		return;
	foreach_node(String, name, copy->opts.force_quote)
	{
		appendStringInfo(buf, "%s%s", separator, quote_identifier(strVal(name)));
		separator = ", ";
	}
	appendStringInfoChar(buf, ')');
}

static void
append_options(const ShardCopyTo *copy, StringInfo buf)
{
	const CopyFormatOptions *opts = &copy->opts;

	if (shard_copy_is_binary(opts))
	{
		appendStringInfoString(buf, " (FORMAT binary)");
		return;
	}
	appendStringInfo(buf, " (FORMAT %s, DELIMITER %s, NULL %s",
					 shard_copy_is_csv(opts) ? "csv" : "text",
					 quote_literal_cstr(opts->delim), quote_literal_cstr(opts->null_print));
	if (copy->encoding != GetDatabaseEncoding())
		appendStringInfo(buf, ", ENCODING %s", quote_literal_cstr(pg_encoding_to_char(copy->encoding)));
	if (shard_copy_is_csv(opts))
	{
		appendStringInfo(buf, ", QUOTE %s, ESCAPE %s",
						 quote_literal_cstr(opts->quote), quote_literal_cstr(opts->escape));
		append_force_quote(copy, buf);
	}
	appendStringInfoChar(buf, ')');
}

void
shard_copy_to_sql_render(const ShardCopyTo *copy, const int *shardnos, int nshards, StringInfo buf)
{
	appendStringInfoString(buf, "COPY (");
	if (copy->query != NULL)
		copy->query->render(copy->query, shardnos, nshards, buf);
	else
	{
		for (int i = 0; i < nshards; i++)
		{
			if (i > 0)
				appendStringInfoString(buf, " UNION ALL ");
			append_select(copy, shardnos[i], buf);
		}
	}
	appendStringInfoString(buf, ") TO STDOUT");
	append_options(copy, buf);
}

/* ---------- the header line ---------- */

/* The letter for control character c after a backslash in text format, or 0. */
static char
letter_of(char c)
{
	static const char controls[] = "\b\f\n\r\t\v";
	static const char letters[] = "bfnrtv";
	const char *found = strchr(controls, c);

	return found ? letters[found - controls] : '\0';
}

static int
character_bytes(const ShardCopyTo *copy, const char *p)
{
	/* in server encodings, no byte of a multibyte character looks like ASCII */
	if (!IS_HIGHBIT_SET(*p) || !PG_ENCODING_IS_CLIENT_ONLY(copy->encoding))
		return 1;
	return Min(pg_encoding_mblen(copy->encoding, p), (int) strlen(p));
}

static void
append_text_name(const ShardCopyTo *copy, const char *name, StringInfo buf)
{
	int			len;

	for (const char *p = name; *p != '\0'; p += len)
	{
		len = character_bytes(copy, p);
		if (len == 1 && letter_of(*p) != '\0')
		{
			appendStringInfoChar(buf, '\\');
			appendStringInfoChar(buf, letter_of(*p));
			continue;
		}
		if (len == 1 && (*p == '\\' || *p == copy->opts.delim[0]))
			appendStringInfoChar(buf, '\\');
		appendBinaryStringInfo(buf, p, len);
	}
}

/* Must the name be quoted in CSV, because it could be read as NULL, as the end of data or as several fields? */
static bool
needs_quotes(const ShardCopyTo *copy, const char *name)
{
	const char special[] = {copy->opts.delim[0], copy->opts.quote[0], '\n', '\r', '\0'};

	if (list_length(copy->attnos) == 1 && strcmp(name, "\\.") == 0)
		return true;
	for (const char *p = name; *p != '\0'; p += character_bytes(copy, p))
		if (!IS_HIGHBIT_SET(*p) && strchr(special, *p) != NULL)
			return true;
	return false;
}

static void
append_csv_name(const ShardCopyTo *copy, const char *name, bool is_null, StringInfo buf)
{
	char		quote = copy->opts.quote[0];
	int			len;

	if (!is_null && !needs_quotes(copy, name))
	{
		appendStringInfoString(buf, name);
		return;
	}
	appendStringInfoChar(buf, quote);
	for (const char *p = name; *p != '\0'; p += len)
	{
		len = character_bytes(copy, p);
		if (len == 1 && (*p == quote || *p == copy->opts.escape[0]))
			appendStringInfoChar(buf, copy->opts.escape[0]);
		appendBinaryStringInfo(buf, p, len);
	}
	appendStringInfoChar(buf, quote);
}

void
shard_copy_to_sql_header(const ShardCopyTo *copy, StringInfo buf)
{
	foreach_int(attno, copy->attnos)
	{
		char	   *name = NameStr(TupleDescAttr(copy->desc, attno - 1)->attname);
		const char *converted = pg_server_to_any(name, strlen(name), copy->encoding);

		if (foreach_current_index(attno) > 0)
			appendStringInfoChar(buf, copy->opts.delim[0]);
		if (shard_copy_is_csv(&copy->opts))
			append_csv_name(copy, converted, strcmp(name, copy->opts.null_print) == 0, buf);
		else
			append_text_name(copy, converted, buf);
	}
	appendStringInfoChar(buf, '\n');
}
