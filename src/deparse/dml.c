/*
 * dml.c
 *	  Makes the statements that change single rows of one shard.
 *
 * They contain names and parameters, but no expressions of users, so this file builds their text directly.  UPDATE
 * and DELETE name the table with ONLY, because a ctid does not identify rows of child tables.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/option.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "deparse/dml.h"
#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

List *
shard_dml_all_attnos(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *attnos = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated == '\0')
			attnos = lappend_int(attnos, att->attnum);
	}
	return attnos;
}

List *
shard_dml_needed_attnos(Relation rel, Index varno, List *exprs, bool all)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *columns = NULL;
	List	   *attnos = NIL;

	pull_varattnos((Node *) exprs, varno, &columns);
	all |= bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, columns);

	for (AttrNumber attno = SelfItemPointerAttributeNumber; attno > TableOidAttributeNumber; attno--)
	{
		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns))
			attnos = lappend_int(attnos, attno);
	}
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated != 'v' &&
			(all || bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, columns)))
			attnos = lappend_int(attnos, att->attnum);
	}
	return attnos;
}

bool
shard_dml_check_shows_row(const WithCheckOption *option)
{
	return option->kind == WCO_VIEW_CHECK;
}

const char *
shard_dml_remote_name(Oid relid)
{
	const ShardMap *map = shard_map_get(relid);

	if (map == NULL || map->relid != relid || map->nshards != 1)
		elog(ERROR, "relation %u is not a shard", relid);
	return map->shards[0].relation;
}

static const char *
quoted_column(Oid relid, AttrNumber attno)
{
	return quote_identifier(shard_option_column_name(relid, attno));
}

/* "(a, b)", with a space before; nothing for no columns. */
static void
append_columns(StringInfo buf, Oid relid, List *attnos)
{
	foreach_int(attno, attnos)
		appendStringInfo(buf, "%s%s", foreach_current_index(attno) == 0 ? " (" : ", ",
						 quoted_column(relid, attno));
	if (attnos != NIL)
		appendStringInfoChar(buf, ')');
}

/*
 * Appends pg_catalog.textin(output function(column)), for types with a user-defined cast to text, whose result may be
 * anything.
 */
static void
append_by_output_function(StringInfo buf, const char *column, Oid type)
{
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(type, &output, &varlena);
	appendStringInfo(buf, "pg_catalog.textin(%s(%s))",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(output)),
												get_func_name(output)),
					 column);
}

void
shard_dml_append_column(StringInfo buf, Oid relid, AttrNumber attno)
{
	Oid			type = getBaseType(get_atttype(relid, attno));
	const char *column = quoted_column(relid, attno);
	Oid			funcid;

	if (!shard_type_io_binary_output(get_atttype(relid, attno)))
	{
		if (find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &funcid) == COERCION_PATH_FUNC)
			append_by_output_function(buf, column, type);
		else if (get_element_type(type) == XMLOID)
			appendStringInfo(buf, "(%s)::pg_catalog.text[]::pg_catalog.text", column);
		else
			appendStringInfo(buf, "(%s)::pg_catalog.text", column);
	}
	else
		appendStringInfo(buf, "(%s)::%s", column,
						 shard_type_io_cast_name(type));
}

/* Appends keyword and the returned columns, in the forms in which they are transferred. */
static void
append_output(StringInfo buf, const char *keyword, Oid relid, List *attnos)
{
	foreach_int(attno, attnos)
	{
		appendStringInfoString(buf, foreach_current_index(attno) == 0 ? keyword : ", ");
		if (attno < 0)
			appendStringInfoString(buf, NameStr(SystemAttributeDefinition(attno)->attname));
		else
			shard_dml_append_column(buf, relid, attno);
	}
}

char *
shard_dml_insert(Oid relid, List *attnos, bool do_nothing, List *conflict_attnos, List *returning)
{
	StringInfoData buf;
	int			ncolumns = list_length(attnos);

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s", shard_dml_remote_name(relid));
	append_columns(&buf, relid, attnos);
	if (ncolumns == 0)
		appendStringInfoString(&buf, " DEFAULT VALUES");
	else
	{
		/* the coordinator provides values even for columns that are GENERATED ALWAYS AS IDENTITY on the node */
		appendStringInfoString(&buf, " OVERRIDING SYSTEM VALUE VALUES ");
		for (int i = 0; i < ncolumns; i++)
			appendStringInfo(&buf, "%s$%d", i > 0 ? ", " : "(", i + 1);
		appendStringInfoChar(&buf, ')');
	}
	if (do_nothing)
	{
		appendStringInfoString(&buf, " ON CONFLICT");
		append_columns(&buf, relid, conflict_attnos);
		appendStringInfoString(&buf, " DO NOTHING");
	}
	append_output(&buf, " RETURNING ", relid, returning);
	return buf.data;
}

/* Appends "column = $paramno", with the equality operator of the column's type, schema-qualified. */
static void
append_key_condition(StringInfo buf, Oid relid, AttrNumber attno, int paramno)
{
	Oid			type = getBaseType(get_atttype(relid, attno));
	Oid			operator = lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
	HeapTuple	tuple;
	Form_pg_operator form;
	Oid			param;

	if (!OidIsValid(operator))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify an equality operator for type %s", format_type_be(type))));
	tuple = shard_catalog_row(OPEROID, operator);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	param = IsPolymorphicType(form->oprright) || form->oprright == RECORDOID ? type : form->oprright;
	appendStringInfo(buf, "%s %s ($%d)::%s", quoted_column(relid, attno), shard_qualified_operator(operator), paramno,
					 shard_type_io_cast_name(type));
	/* the text is that of the value's type, which the operator's type may not be able to read (regclass, oid) */
	if (param != type)
		appendStringInfo(buf, "::%s", shard_type_io_cast_name(param));
	ReleaseSysCache(tuple);
}

char *
shard_dml_lock(Oid relid, List *key_attnos, const bool *nulls, List *attnos)
{
	StringInfoData buf;
	int			paramno = 0;

	initStringInfo(&buf);
	append_output(&buf, "SELECT ", relid, attnos);
	appendStringInfo(&buf, " FROM ONLY %s WHERE ", shard_dml_remote_name(relid));
	foreach_int(attno, key_attnos)
	{
		if (paramno++ > 0)
			appendStringInfoString(&buf, " AND ");
		if (nulls[paramno - 1])
			appendStringInfo(&buf, "%s IS NULL AND ($%d)::pg_catalog.text IS NULL",
							 quoted_column(relid, attno), paramno);
		else
			append_key_condition(&buf, relid, attno, paramno);
	}

	/* an UPDATE of key columns that foreign keys reference takes the stronger lock itself */
	appendStringInfoString(&buf, " FOR NO KEY UPDATE");
	return shard_dml_with_types(buf.data, relid, key_attnos);
}

char *
shard_dml_lock_row(Oid relid, LockClauseStrength strength, LockWaitPolicy policy, List *attnos)
{
	static const char *const strengths[] = {
		[LCS_FORKEYSHARE] = "KEY SHARE", [LCS_FORSHARE] = "SHARE", [LCS_FORNOKEYUPDATE] = "NO KEY UPDATE", [LCS_FORUPDATE] = "UPDATE"
	};
	StringInfoData buf;

	initStringInfo(&buf);
	append_output(&buf, "SELECT ", relid, attnos);
	appendStringInfo(&buf, " FROM ONLY %s WHERE ctid = $1 FOR %s%s", shard_dml_remote_name(relid), strengths[strength],
					 policy == LockWaitSkip ? " SKIP LOCKED" : policy == LockWaitError ? " NOWAIT" : "");
	return buf.data;
}

/*
 * If xmin is in progress, the current transaction has written the visible row. xmin has no epoch.  XIDs of
 * subtransactions are higher than the XID of their top-level transaction.
 */
char *
shard_dml_is_own(Oid relid, bool own)
{
	return psprintf("SELECT 1 FROM (SELECT top, made, top + ((made - top) %% 4294967296 + 4294967296) %% 4294967296 AS id"
					" FROM (SELECT pg_current_xact_id()::text::int8 AS top, xmin::text::int8 AS made"
					" FROM ONLY %s WHERE ctid = $1) AS a) AS b"
					" WHERE (CASE WHEN made < 3 OR id - top >= 2147483648 THEN false"
					" WHEN id >= pg_snapshot_xmax(pg_current_snapshot())::text::int8 THEN true"
					" ELSE pg_xact_status(id::text::xid8) = 'in progress' END) IS %s",
					shard_dml_remote_name(relid), own ? "TRUE" : "NOT TRUE");
}

/* Appends "column = DEFAULT" for a generated column, for an UPDATE that sets no other columns. */
static void
append_generated_default(StringInfo buf, Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated != '\0')
		{
			appendStringInfo(buf, "%s = DEFAULT", quoted_column(relid, att->attnum));
			table_close(rel, NoLock);
			return;
		}
	}
	elog(ERROR, "UPDATE of no column of relation %u", relid);
}

char *
shard_dml_update(Oid relid, List *attnos, List *returning)
{
	StringInfoData buf;
	int			paramno = 2;

	initStringInfo(&buf);
	appendStringInfo(&buf, "UPDATE ONLY %s SET ", shard_dml_remote_name(relid));
	if (attnos == NIL)
		append_generated_default(&buf, relid);
	foreach_int(attno, attnos)
		appendStringInfo(&buf, "%s%s = $%d", foreach_current_index(attno) == 0 ? "" : ", ",
						 quoted_column(relid, attno), paramno++);
	appendStringInfoString(&buf, " WHERE ctid = $1");
	append_output(&buf, " RETURNING ", relid, returning);
	return buf.data;
}

char *
shard_dml_with_types(const char *sql, Oid relid, List *attnos)
{
	List	   *types = NIL;

	foreach_int(attno, attnos)
		types = lappend_oid(types, get_atttype(relid, attno));
	return psprintf("%s%s", sql, shard_type_io_comment(types));
}

char *
shard_dml_delete(Oid relid, List *returning)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "DELETE FROM ONLY %s WHERE ctid = $1", shard_dml_remote_name(relid));
	append_output(&buf, " RETURNING ", relid, returning);
	return buf.data;
}

char *
shard_dml_copy(Oid relid, List *attnos, bool binary)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "COPY %s", shard_dml_remote_name(relid));
	append_columns(&buf, relid, attnos);
	appendStringInfo(&buf, " FROM STDIN%s", binary ? " (FORMAT binary)" : "");
	return buf.data;
}

char *
shard_dml_truncate(List *relids, bool restart_seqs)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "TRUNCATE ");
	foreach_oid(relid, relids)
		appendStringInfo(&buf, "%s%s", foreach_current_index(relid) == 0 ? "" : ", ",
						 shard_dml_remote_name(relid));
	appendStringInfoString(&buf, restart_seqs ? " RESTART IDENTITY" : " CONTINUE IDENTITY");
	return buf.data;
}
