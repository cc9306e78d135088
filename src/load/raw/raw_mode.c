/*
 * raw_mode.c
 *	  Decides whether COPY FROM may forward unchanged lines of its input.
 *
 * In raw mode the coordinator reads only the key of a row, and a shard's COPY reads the rest.  The result is exact if
 *
 * - nothing on the coordinator needs the rows (WHERE, triggers, constraints of domains, bounds of a parent that is
 *   itself a partition);
 * - a node's session reads each field as this session would: with the same declared types, and with input functions
 *   that depend on no settings, or only on settings that sessions on nodes also have (remote/wire/connection.c);
 * - columns that the input omits have the same constants for all rows.  These are added to each line as the suffix.
 *
 * In all other cases, and in doubt, the load uses parsed mode, which is always exact.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/option.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/trigger.h"
#include "compat.h"
#include "deparse/dml.h"
#include "deparse/remote_table.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "load/raw/raw_mode.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "tuple/encode.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

/* ---------- types ---------- */

static bool input_is_same(Oid type);

/*
 * Does the type's input function depend only on settings that sessions on nodes also have, and on nothing else that
 * can differ?
 */
static bool
base_input_is_same(Oid type)
{
	Oid			input;
	Oid			ioparam;

	switch (type)
	{
		case DATEOID:			/* DateStyle */
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:	/* TimeZone, timezone_abbreviations */
		case INTERVALOID:		/* IntervalStyle */
		case XMLOID:			/* xmloption */
			return true;
		case TIMETZOID:			/* the current date determines daylight saving time */
			return false;
		default:
			break;
	}
	getTypeInputInfo(type, &input, &ioparam);
	return func_volatile(input) == PROVOLATILE_IMMUTABLE;
}

static bool
attributes_are_same(Oid composite)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(composite, -1);
	bool		same = true;

	for (int i = 0; i < desc->natts && same; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			same = input_is_same(TupleDescAttr(desc, i)->atttypid);
	}
	ReleaseTupleDesc(desc);
	return same;
}

/*
 * Does a value's text mean the same on a node and on the coordinator, if the type has the same name there?  For
 * domains, the coordinator's constraints count.
 */
static bool
input_is_same(Oid type)
{
	Oid			part;
	int32		typmod = -1;

	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
			part = get_element_type(type);
			if (!OidIsValid(part))
				return base_input_is_same(type);

			/* sessions on nodes have array_nulls on */
			return Array_nulls && input_is_same(part);
		case TYPTYPE_ENUM:
			return true;
		case TYPTYPE_DOMAIN:
			if (shard_domain_has_constraints(type))
				return false;
			part = getBaseTypeAndTypmod(type, &typmod);
			return typmod == -1 && input_is_same(part);
		case TYPTYPE_COMPOSITE:
			return attributes_are_same(type);
		case TYPTYPE_RANGE:
			return input_is_same(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return input_is_same(get_range_subtype(get_multirange_range(type)));
		default:
			return false;
	}
}

/* ---------- reasons ---------- */

static bool
has_high_bit(const char *text)
{
	for (; text && *text; text++)
	{
		if (IS_HIGHBIT_SET(*text))
			return true;
	}
	return false;
}

static const char *
format_reason(CopyFromState cstate)
{
	const CopyFormatOptions *opts = &cstate->opts;

	if (shard_copy_is_binary(opts))
		return "the format is binary";
	if (shard_copy_sets_null(opts))
		return "ON_ERROR set_null was given";
	if (shard_copy_default_print(opts) != NULL)
		return "a DEFAULT marker was given";
	if (cstate->convert_select_flags != NULL)
		return "only some of the columns are wanted";
	if (!PG_VALID_BE_ENCODING(cstate->file_encoding))
		return "in the encoding of the input ASCII bytes can be part of other characters";
	if (cstate->need_transcoding && cstate->conversion_proc >= FirstNormalObjectId)
		return "a user's own function converts the encoding of the input";
	if (has_high_bit(opts->delim) || has_high_bit(opts->null_print) ||
		(shard_copy_is_csv(opts) && (has_high_bit(opts->quote) || has_high_bit(opts->escape))))
		return "an option has a character that is not ASCII";
	return NULL;
}

static const char *
parent_reason(CopyFromState cstate)
{
	Relation	rel = cstate->rel;
	PartitionKey key = RelationGetPartitionKey(rel);

	if (shard_trigger_fires_now(rel->trigdesc, TRIGGER_TYPE_INSERT))
		return "the table has a trigger on INSERT";
	if (rel->rd_rel->relispartition)
		return "the table is itself a partition";
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == 0)
			return "the shard key has an expression";
		if (!list_member_int(cstate->attnumlist, key->partattrs[i]))
			return "a column of the shard key is not in the input";
	}
	return NULL;
}

static const char *
column_reason(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || att->attgenerated != '\0' || input_is_same(att->atttypid))
			continue;
		return psprintf("values of type %s of column \"%s\" could mean something else on a node",
						format_type_be(att->atttypid), NameStr(att->attname));
	}
	return NULL;
}

/* Difference between the columns of the parent and of the shard's foreign table; NULL: none. */
static const char *
shard_columns_reason(Relation parent, Relation rel, const Shard *shard)
{
	TupleDesc	desc = RelationGetDescr(parent);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		AttrNumber	attno;

		if (att->attisdropped)
			continue;
		attno = get_attnum(RelationGetRelid(rel), NameStr(att->attname));
		if (attno == InvalidAttrNumber ||
			TupleDescAttr(RelationGetDescr(rel), attno - 1)->attgenerated != att->attgenerated)
			return psprintf("shard %s has other generated columns", shard->name);

		/* the node's errors would show the other name */
		if (strcmp(shard_option_column_name(RelationGetRelid(rel), attno), NameStr(att->attname)) != 0)
			return psprintf("column \"%s\" of shard %s has another name on the node",
							NameStr(att->attname), shard->name);
	}
	return NULL;
}

static const char *
shard_reason(Relation parent, const Shard *shard)
{
	/* the lock that core takes for a partition to which it routes rows */
	Relation	rel = table_open(shard->relid, RowExclusiveLock);
	const char *reason = shard_columns_reason(parent, rel, shard);

	if (reason == NULL && shard_trigger_fires_now(rel->trigdesc, TRIGGER_TYPE_INSERT))
		reason = psprintf("shard %s has a trigger on INSERT", shard->name);
	if (reason == NULL && !shard_option_table_bool(shard->relid, "updatable", true))
		reason = psprintf("shard %s is not updatable", shard->name);
	table_close(rel, NoLock);
	return reason;
}

const char *
shard_raw_mode_shard_reason(const Shard *shard, Oid userid)
{
	if (!shard_remote_table_same_declarations(shard->relid, shard->serverid, userid))
		return psprintf("a column of shard %s has another type on the node", shard->name);
	if (shard_remote_table_may_skip_rows(shard->relid, shard->serverid, userid))
		return psprintf("a trigger or rule of shard %s may skip rows on the node", shard->name);
	return NULL;
}

/* ---------- columns that the input omits ---------- */

/* Text form of a constant that every session reads as the same value. */
static char *
constant_text(const Const *constant)
{
	Oid			type = getBaseType(constant->consttype);
	int			nestlevel = shard_text_form_begin_write(shard_type_io_text_settings(type));
	FmgrInfo	output;
	char	   *text;

	shard_text_form_init(&output, type, CurrentMemoryContext);
	text = shard_text_form_write(&output, type, constant->constvalue);
	shard_text_form_end(nestlevel);
	return text;
}

/* Appends text as a quoted CSV field, which is never the NULL marker. */
static void
append_csv_field(StringInfo buf, const char *text, char quote, char escape)
{
	appendStringInfoChar(buf, quote);
	for (; *text; text++)
	{
		if (*text == quote || *text == escape)
			appendStringInfoChar(buf, escape);
		appendStringInfoChar(buf, *text);
	}
	appendStringInfoChar(buf, quote);
}

/* Appends a constant as a field.  Result: NULL, or the reason why that is impossible. */
static const char *
append_constant(StringInfo buf, CopyFromState cstate, const Const *constant)
{
	const CopyFormatOptions *opts = &cstate->opts;
	char	   *text = constant_text(constant);
	int			start = buf->len;

	if (has_high_bit(text) && cstate->file_encoding != GetDatabaseEncoding())
		return "a default has characters that are not ASCII, and the input is in another encoding";
	if (shard_copy_is_csv(opts))
	{
		/* a value with a line end would split the line */
		if (strpbrk(text, "\r\n") != NULL)
			return "a default has a line break";
		append_csv_field(buf, text, opts->quote[0], opts->escape[0]);
		return NULL;
	}
	shard_encode_copy_text(buf, text, strlen(text), opts->delim[0]);
	if (strcmp(buf->data + start, opts->null_print) == 0)
		return "a default looks like the NULL marker";
	return NULL;
}

/* Appends a column that the input omits. */
static const char *
append_omitted(StringInfo buf, CopyFromState cstate, Form_pg_attribute att)
{
	const CopyFormatOptions *opts = &cstate->opts;
	Node	   *expr;

	if (att->attidentity != '\0')
		return psprintf("column \"%s\" is an identity column", NameStr(att->attname));
	expr = build_column_default(cstate->rel, att->attnum);
	if (expr != NULL)
		expr = (Node *) expression_planner((Expr *) expr);
	if (expr != NULL && !IsA(expr, Const))
		return psprintf("column \"%s\" has a default that is not a constant", NameStr(att->attname));

	appendStringInfoChar(buf, opts->delim[0]);
	if (expr != NULL && !((Const *) expr)->constisnull)
		return append_constant(buf, cstate, (Const *) expr);

	/* a backslash at its end would escape the next delimiter */
	if (!shard_copy_is_csv(opts) && opts->null_print_len > 0 &&
		opts->null_print[opts->null_print_len - 1] == '\\')
		return "the NULL marker ends in a backslash";

	/* nodes before 18 take \. anywhere in a line for the end of data */
	if (!shard_copy_is_csv(opts) && strstr(opts->null_print, "\\.") != NULL)
		return "the NULL marker has the marker of the end of the data in it";
	appendStringInfoString(buf, opts->null_print);
	return NULL;
}

/* Fills suffix, nfields and attnos of the plan.  Result: NULL, or the reason why that is impossible. */
static const char *
plan_columns(CopyFromState cstate, ShardRawPlan *plan)
{
	TupleDesc	desc = RelationGetDescr(cstate->rel);
	StringInfoData suffix;

	initStringInfo(&suffix);
	plan->attnos = list_copy(cstate->attnumlist);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const char *reason;

		if (att->attisdropped || att->attgenerated != '\0' ||
			list_member_int(cstate->attnumlist, att->attnum))
			continue;
		reason = append_omitted(&suffix, cstate, att);
		if (reason != NULL)
			return reason;
		plan->attnos = lappend_int(plan->attnos, att->attnum);
	}
	if (suffix.len > 0)
	{
		plan->suffix = suffix.data;
		plan->nfields = list_length(cstate->attnumlist);
	}
	return NULL;
}

void
shard_raw_mode_plan(CopyFromState cstate, const ShardMap *map, bool has_where, ShardRawPlan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->reason = has_where ? "there is a WHERE clause" : format_reason(cstate);
	if (plan->reason == NULL)
		plan->reason = parent_reason(cstate);
	if (plan->reason == NULL)
		plan->reason = column_reason(cstate->rel);
	if (plan->reason == NULL)
		plan->reason = plan_columns(cstate, plan);
	for (int i = 0; i < map->nshards && plan->reason == NULL; i++)
		plan->reason = shard_reason(cstate->rel, &map->shards[i]);
}

/* ---------- COPY on the shard ---------- */

/* The columns of the shard's foreign table with the same names as the parent's attnos. */
static List *
shard_attnos(Relation parent, List *attnos, Oid shard_relid)
{
	List	   *result = NIL;

	foreach_int(parent_attno, attnos)
	{
		const char *name = NameStr(TupleDescAttr(RelationGetDescr(parent), parent_attno - 1)->attname);
		AttrNumber	attno = get_attnum(shard_relid, name);

		if (attno == InvalidAttrNumber)
			elog(ERROR, "shard %u has no column \"%s\"", shard_relid, name);
		result = lappend_int(result, attno);
	}
	return result;
}

/* Appends ", OPTION (columns)" for the columns of the input whose flag is set. */
static void
append_forced(StringInfo buf, const char *option, CopyFromState cstate, const bool *flags)
{
	const char *separator = option;

	foreach_int(attno, cstate->attnumlist)
	{
		if (!flags[attno - 1])
			continue;
		appendStringInfo(buf, "%s%s", separator,
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(cstate->rel), attno - 1)->attname)));
		separator = ", ";
	}
	if (separator != option)
		appendStringInfoChar(buf, ')');
}

char *
shard_raw_mode_copy_sql(CopyFromState cstate, const ShardRawPlan *plan, Oid shard_relid)
{
	const CopyFormatOptions *opts = &cstate->opts;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, shard_dml_copy(shard_relid,
												shard_attnos(cstate->rel, plan->attnos, shard_relid),
												plan->binary));
	if (plan->binary)
		return buf.data;
	appendStringInfo(&buf, " (FORMAT %s, HEADER true, DELIMITER %s, NULL %s, ENCODING %s",
					 shard_copy_is_csv(opts) ? "csv" : "text",
					 quote_literal_cstr(opts->delim), quote_literal_cstr(opts->null_print),
					 quote_literal_cstr(pg_encoding_to_char(cstate->file_encoding)));
	if (shard_copy_is_csv(opts))
	{
		appendStringInfo(&buf, ", QUOTE %s, ESCAPE %s",
						 quote_literal_cstr(opts->quote), quote_literal_cstr(opts->escape));
		append_forced(&buf, ", FORCE_NOT_NULL (", cstate, opts->force_notnull_flags);
		append_forced(&buf, ", FORCE_NULL (", cstate, opts->force_null_flags);
	}
	appendStringInfoChar(&buf, ')');
	return buf.data;
}
