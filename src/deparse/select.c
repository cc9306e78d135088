/*
 * select.c
 *	  Builds a remote query step by step: its outputs, conditions and locks.
 *
 *	  planner's expressions
 *		-> converted (convert.c)
 *		-> Query, by levels (level.c, from.c, remote_query.c)
 *		-> text -> template (template.c)
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/level.h"
#include "deparse/template.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

ShardSelect *
shard_select_create(Oid driver)
{
	ShardSelect *select = palloc0(sizeof(ShardSelect));

	select->relids = list_make1_oid(driver);
	select->level = shard_level_create(select, NULL);
	select->query = select->level->query;
	return select;
}

ShardSelect *
shard_select_begin(Index rtindex, Oid relid)
{
	ShardSelect *select = shard_select_create(relid);

	select->rtindex = rtindex;
	select->relid = relid;
	select->query->jointree->fromlist =
		list_make1(shard_level_add_table(select, select->level, rtindex, relid, true));
	return select;
}

void
shard_select_sample(ShardSelect *select, const TableSampleClause *sample)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, select->query->rtable);

	rte->tablesample = makeNode(TableSampleClause);
	rte->tablesample->tsmhandler = sample->tsmhandler;
	rte->tablesample->args = shard_convert_list(select, select->level, sample->args);
	if (sample->repeatable != NULL)
		rte->tablesample->repeatable = shard_convert_expr(select, select->level, sample->repeatable);
}

void
shard_select_add_column(ShardSelect *select, Expr *converted)
{
	Query	   *query = select->query;
	List	  **list = query->commandType == CMD_SELECT ? &query->targetList : &query->returningList;

	*list = lappend(*list, makeTargetEntry(converted, list_length(*list) + 1, NULL, false));
}

void
shard_select_add_output(ShardSelect *select, ShardOutputKind kind, int target, Oid type, int32 typmod)
{
	ShardOutput *output = palloc(sizeof(ShardOutput));

	*output = (ShardOutput) {kind, target, type, typmod};
	select->outputs = lappend(select->outputs, output);
}

Expr *
shard_select_wire_form(Expr *expr, Oid type, ShardOutputKind *kind)
{
	if (shard_type_io_binary_output(type))
	{
		*kind = SHARD_OUTPUT_VALUE;
		return shard_convert_typed(expr, type);
	}
	*kind = SHARD_OUTPUT_TEXT;
	return shard_convert_text(expr, type);
}

void
shard_select_output(ShardSelect *select, Expr *expr, int target)
{
	Oid			type = exprType((Node *) expr);
	ShardOutputKind kind;
	Expr	   *form = shard_select_wire_form(shard_convert_expr(select, select->level, expr), type, &kind);

	shard_select_add_column(select, form);
	shard_select_add_output(select, kind, target, type, exprTypmod((Node *) expr));
}

/*
 * ctid, or an error if the row is not the shard's own.  The error comes from casting an invalid text to tid.  That
 * text is the error message.
 */
static char *
ctid_guard(const char *relation)
{
	return psprintf("CASE tableoid WHEN %s::regclass THEN ctid "
					"ELSE ('row of child table ' || tableoid::regclass::text)::tid END",
					quote_literal_cstr(relation));
}

/*
 * If columns have other names on the node, the shard's FROM item is a sub-select without system columns.  Returns the
 * sub-select with system columns.
 */
static const char *
from_item_with_system_columns(const Shard *shard)
{
	if (strcmp(shard->from_item, shard->relation) == 0)
		return NULL;
	Assert(strncmp(shard->from_item, "(SELECT ", 8) == 0);
	return psprintf("(SELECT ctid, tableoid, xmin, xmax, cmin, cmax, %s", shard->from_item + 8);
}

void
shard_select_output_system(ShardSelect *select, AttrNumber attno, bool for_modify)
{
	const FormData_pg_attribute *att = SystemAttributeDefinition(attno);
	const ShardMap *map = shard_map_get(select->relid);
	ShardSelectPlace *place = linitial(select->places);
	Expr	   *expr;

	if (map == NULL || map->nshards != 1)
		elog(ERROR, "system column of a table that is not a shard");
	place->own_from = from_item_with_system_columns(&map->shards[0]);
	if (for_modify && attno == SelfItemPointerAttributeNumber)
	{
		select->raw_texts = lappend(select->raw_texts,
									makeString(ctid_guard(map->shards[0].relation)));
		expr = (Expr *) shard_convert_param(SHARD_SELECT_RAW_TEXT + list_length(select->raw_texts), TIDOID, -1, InvalidOid);
	}
	else
		expr = (Expr *) makeVar(1, attno, att->atttypid, -1, InvalidOid, 0);
	shard_select_add_column(select, expr);
	shard_select_add_output(select, SHARD_OUTPUT_SYSTEM, attno, att->atttypid, -1);
}

void
shard_select_where(ShardSelect *select, List *clauses)
{
	select->level->quals = list_concat(select->level->quals,
									   shard_convert_list(select, select->level, clauses));
}

void
shard_select_lock(ShardSelect *select, LockClauseStrength strength, LockWaitPolicy policy)
{
	RowMarkClause *mark = makeNode(RowMarkClause);

	mark->rti = 1;
	mark->strength = strength;
	mark->waitPolicy = policy;
	select->query->rowMarks = list_make1(mark);
	select->query->hasForUpdate = true;
}

/* Makes the table the target of the statement, and its outputs the RETURNING list. */
static void
make_target(ShardSelect *select, CmdType command)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, select->query->rtable);

	Assert(select->query->targetList == NIL);
	rte->inFromCl = false;
	select->query->commandType = command;
	select->query->resultRelation = 1;
}

void
shard_select_update(ShardSelect *select, List *assignments)
{
	make_target(select, CMD_UPDATE);
	foreach_node(TargetEntry, assignment, assignments)
	{
		TargetEntry *entry = flatCopyTargetEntry(assignment);

		entry->expr = shard_convert_expr(select, select->level, entry->expr);
		select->query->targetList = lappend(select->query->targetList, entry);
	}
}

void
shard_select_delete(ShardSelect *select)
{
	make_target(select, CMD_DELETE);
}

/* May columns of the tables have other types on nodes? */
static bool
may_have_other_types(const ShardSelect *select)
{
	foreach_oid(relid, select->relids)
	{
		const ShardMap *map = shard_map_get_levels(relid, true);

		if (map == NULL || map->foreign_definition)
			return true;
	}
	return false;
}

List *
shard_select_finish(ShardSelect *select)
{
	bool		cast_all;
	ShardSelectPlace whole_node = {0};

	foreach_ptr(ShardLevel, level, select->levels)
		shard_level_finish(select, level);
	if (select->union_level == NULL)
		return shard_template_print(select, select->query, select->places, select->params);

	if (select->union_level->query->targetList == NIL)
		shard_level_add_constant(select->union_level);
	/* tables created by users may have other column types; otherwise a node would compute a cast for each row */
	cast_all = may_have_other_types(select);
	foreach_node(TargetEntry, entry, select->union_level->query->targetList)
	{
		if (!IsA(entry->expr, Const) && (cast_all || exprTypmod((Node *) entry->expr) < 0))
			entry->expr = (Expr *) makeRelabelType(entry->expr, exprType((Node *) entry->expr), -1,
												   exprCollation((Node *) entry->expr), COERCE_EXPLICIT_CAST);
	}
	select->shard_template = shard_template_print(select, select->union_level->query, select->places, select->params);
	whole_node.alias = select->union_alias;
	whole_node.number = SHARD_SELECT_UNION_NUMBER;
	return shard_template_print(select, select->query, list_make1(&whole_node), select->params);
}
