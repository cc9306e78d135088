/*
 * dml.c
 *	  Texts of statements that change rows of one shard by values.
 *
 * No expression of a user is printed here, only names and parameters, so these
 * texts are put together by hand.  UPDATE and DELETE name the table with ONLY:
 * a ctid says nothing about rows of its children.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/option.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "deparse/dml.h"
#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

enum ModifyField
{
	MODIFY_OPERATION,			/* Integer */
	MODIFY_TARGET_ATTNOS,		/* IntList */
	MODIFY_RETURNING_ATTNOS,	/* IntList */
	MODIFY_DO_NOTHING,			/* Boolean */
	MODIFY_CHECK_PARTITION,		/* Boolean */
	MODIFY_NFIELDS
};

List *
shard_dml_pack(const ShardModifyPlan *plan)
{
	List	   *packed = NIL;

	packed = lappend(packed, makeInteger((int) plan->operation));
	packed = lappend(packed, plan->target_attnos);
	packed = lappend(packed, plan->returning_attnos);
	packed = lappend(packed, makeBoolean(plan->do_nothing));
	packed = lappend(packed, makeBoolean(plan->check_partition));
	Assert(list_length(packed) == MODIFY_NFIELDS);
	return packed;
}

ShardModifyPlan *
shard_dml_unpack(List *fdw_private)
{
	ShardModifyPlan *plan = palloc0(sizeof(ShardModifyPlan));

	if (list_length(fdw_private) != MODIFY_NFIELDS)
		elog(ERROR, "unexpected length of a modification's private data: %d",
			 list_length(fdw_private));
	plan->operation = (CmdType) intVal(list_nth(fdw_private, MODIFY_OPERATION));
	plan->target_attnos = list_nth(fdw_private, MODIFY_TARGET_ATTNOS);
	plan->returning_attnos = list_nth(fdw_private, MODIFY_RETURNING_ATTNOS);
	plan->do_nothing = boolVal(list_nth(fdw_private, MODIFY_DO_NOTHING));
	plan->check_partition = boolVal(list_nth(fdw_private, MODIFY_CHECK_PARTITION));
	return plan;
}

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

	if (bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber,
					  columns))
		attnos = lappend_int(attnos, SelfItemPointerAttributeNumber);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped &&
			(all || bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, columns)))
			attnos = lappend_int(attnos, att->attnum);
	}
	return attnos;
}

/* Qualified, quoted name of a shard on its node. */
static const char *
remote_name(Oid relid)
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
	ListCell   *lc;

	foreach(lc, attnos)
		appendStringInfo(buf, "%s%s", lc == list_head(attnos) ? " (" : ", ",
						 quoted_column(relid, lfirst_int(lc)));
	if (attnos != NIL)
		appendStringInfoChar(buf, ')');
}

/* pg_catalog.textin(output function(column)): a user has defined a cast to text, which writes what he likes. */
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
		else
			appendStringInfo(buf, "(%s)::pg_catalog.text", column);
	}
	else if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == NAMEOID)
		appendStringInfoString(buf, column);	/* any bytes of text are text */
	else
		appendStringInfo(buf, "(%s)::%s", column,
						 format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
}

/* " RETURNING ..." in the forms in which values travel. */
static void
append_returning(StringInfo buf, Oid relid, List *attnos)
{
	ListCell   *lc;

	foreach(lc, attnos)
	{
		AttrNumber	attno = lfirst_int(lc);

		appendStringInfoString(buf, lc == list_head(attnos) ? " RETURNING " : ", ");
		if (attno == SelfItemPointerAttributeNumber)
			appendStringInfoString(buf, "ctid");
		else
			shard_dml_append_column(buf, relid, attno);
	}
}

char *
shard_dml_insert(Oid relid, List *attnos, int nrows, bool do_nothing, List *returning)
{
	StringInfoData buf;
	int			ncolumns = list_length(attnos);

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s", remote_name(relid));
	append_columns(&buf, relid, attnos);
	if (ncolumns == 0)
		appendStringInfoString(&buf, " DEFAULT VALUES");
	else
	{
		/* values come from the coordinator even for a column that is GENERATED ALWAYS AS IDENTITY there */
		appendStringInfoString(&buf, " OVERRIDING SYSTEM VALUE VALUES ");
		for (int row = 0; row < nrows; row++)
		{
			for (int i = 0; i < ncolumns; i++)
				appendStringInfo(&buf, "%s$%d", i > 0 ? ", " : row > 0 ? ", (" : "(",
								 row * ncolumns + i + 1);
			appendStringInfoChar(&buf, ')');
		}
	}
	if (do_nothing)
		appendStringInfoString(&buf, " ON CONFLICT DO NOTHING");
	append_returning(&buf, relid, returning);
	return buf.data;
}

/* "column = DEFAULT" for a generated column: all that an UPDATE of such columns alone says. */
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
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfo(&buf, "UPDATE ONLY %s SET ", remote_name(relid));
	if (attnos == NIL)
		append_generated_default(&buf, relid);
	foreach(lc, attnos)
		appendStringInfo(&buf, "%s%s = $%d", lc == list_head(attnos) ? "" : ", ",
						 quoted_column(relid, lfirst_int(lc)), paramno++);
	appendStringInfoString(&buf, " WHERE ctid = $1");
	append_returning(&buf, relid, returning);
	return buf.data;
}

char *
shard_dml_delete(Oid relid, List *returning)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "DELETE FROM ONLY %s WHERE ctid = $1", remote_name(relid));
	append_returning(&buf, relid, returning);
	return buf.data;
}

char *
shard_dml_copy(Oid relid, List *attnos, bool binary)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "COPY %s", remote_name(relid));
	append_columns(&buf, relid, attnos);
	appendStringInfo(&buf, " FROM STDIN%s", binary ? " (FORMAT binary)" : "");
	return buf.data;
}

char *
shard_dml_truncate(List *relids, DropBehavior behavior, bool restart_seqs)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "TRUNCATE ");
	foreach(lc, relids)
		appendStringInfo(&buf, "%s%s", lc == list_head(relids) ? "" : ", ",
						 remote_name(lfirst_oid(lc)));
	appendStringInfoString(&buf, restart_seqs ? " RESTART IDENTITY" : " CONTINUE IDENTITY");
	if (behavior == DROP_CASCADE)
		appendStringInfoString(&buf, " CASCADE");
	return buf.data;
}
