/*
 * scan_sql.c
 *	  The text of a shard scan's statements.
 *
 *	   one shard			the template
 *	   several of a node	(template) UNION ALL (template) ...; for sorted rows
 *							SELECT * FROM (that) ORDER BY ...
 *	   per-node query		the template, with the UNION ALL over parts of shards
 *							in its place
 *
 * A limit in the template applies to each arm.  The rows that the scan needs are among those that
 * the arms return.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "executor/scan/scan.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

const char *const *
shard_scan_values(const ShardScanState *state, int shardno)
{
	int			nparams;
	const char **values;

	if (state->split_values == NULL)
		return state->param_values;
	nparams = shard_param_count(state->plan->template, state->plan->shard_template);
	values = palloc(sizeof(char *) * nparams);
	memcpy(values, state->param_values, sizeof(char *) * nparams);
	values[state->split->paramno - 1] = state->split_values[shardno];
	return values;
}

/* Appends the template, or the part of it that is repeated per shard, for one shard. */
static void
append_shard(const ShardScanState *state, const ShardTemplate *template, int shardno,
			 bool literals, StringInfo buf)
{
	const char *from_items[8];
	const char **relations = from_items;

	if (state->nmaps > lengthof(from_items))
		relations = palloc(sizeof(char *) * state->nmaps);
	for (int i = 0; i < state->nmaps; i++)
		relations[i] = state->maps[i]->shards[shardno].from_item;
	shard_param_render(buf, template, relations, NULL, literals,
					   literals ? shard_scan_values(state, shardno) : NULL);
}

static void
append_union(const ShardScanState *state, const ShardTemplate *template,
			 const int *shardnos, int nshards, bool literals, StringInfo buf)
{
	for (int i = 0; i < nshards; i++)
	{
		appendStringInfoString(buf, i == 0 ? "(" : " UNION ALL (");
		append_shard(state, template, shardnos[i], literals, buf);
		appendStringInfoChar(buf, ')');
	}
}

const ShardOutput *
shard_scan_find_output(const ShardScanPlan *plan, AttrNumber attno, int *colno)
{
	*colno = 1;
	for (int i = 0; i < plan->noutputs; i++)
	{
		const ShardOutput *output = &plan->outputs[i];

		if (output->target == attno - 1 &&
			(output->kind == SHARD_OUTPUT_VALUE || output->kind == SHARD_OUTPUT_TEXT))
			return output;
		*colno += shard_output_ncolumns(output->kind);
	}
	return NULL;
}

void
shard_scan_append_alias(const ShardScanPlan *plan, const char *alias, StringInfo buf)
{
	int			ncolumns = 0;

	for (int i = 0; i < plan->noutputs; i++)
		ncolumns += shard_output_ncolumns(plan->outputs[i].kind);
	appendStringInfo(buf, " AS %s(", alias);
	for (int i = 1; i <= ncolumns; i++)
		appendStringInfo(buf, i == 1 ? "c%d" : ", c%d", i);
	appendStringInfoChar(buf, ')');
}

/* " COLLATE schema.name", independent of the search path */
static void
append_collation(StringInfo buf, Oid collation)
{
	HeapTuple	tuple = shard_catalog_row(COLLOID, collation);
	Form_pg_collation form;

	form = (Form_pg_collation) GETSTRUCT(tuple);
	appendStringInfo(buf, " COLLATE %s",
					 quote_qualified_identifier(get_namespace_name(form->collnamespace),
												NameStr(form->collname)));
	ReleaseSysCache(tuple);
}

/* Appends ORDER BY over the columns c1, c2...  A column that is sent as text is sorted by its own type. */
static void
append_order(const ShardScanPlan *plan, StringInfo buf)
{
	for (int i = 0; i < list_length(plan->sort_columns); i++)
	{
		int			colno;
		const ShardOutput *output = shard_scan_find_output(plan, list_nth_int(plan->sort_columns, i), &colno);
		Oid			collation = list_nth_oid(plan->sort_collations, i);

		if (output == NULL)
			elog(ERROR, "rows are sorted by attribute %d, which no remote column gives", list_nth_int(plan->sort_columns, i));
		appendStringInfoString(buf, i == 0 ? " ORDER BY " : ", ");
		if (output->kind == SHARD_OUTPUT_TEXT)
			appendStringInfo(buf, "(c%d)::%s", colno, shard_type_io_cast_name(output->type));
		else
			appendStringInfo(buf, "c%d", colno);
		if (OidIsValid(collation))
			append_collation(buf, collation);
		appendStringInfo(buf, " USING %s", shard_qualified_operator(list_nth_oid(plan->sort_operators, i)));
		appendStringInfoString(buf, list_nth_int(plan->sort_nulls_first, i) ?
							   " NULLS FIRST" : " NULLS LAST");
	}
}

/* Appends the rows of the union, in the order of the rows of each arm. */
static void
append_sorted_union(const ShardScanState *state, const int *shardnos, int nshards,
					bool literals, StringInfo buf)
{
	appendStringInfoString(buf, "SELECT * FROM (");
	append_union(state, state->plan->template, shardnos, nshards, literals, buf);
	appendStringInfoChar(buf, ')');
	shard_scan_append_alias(state->plan, "u", buf);
	append_order(state->plan, buf);
}

void
shard_scan_sql(const ShardScanState *state, const int *shardnos, int nshards, bool literals,
			   StringInfo buf)
{
	const ShardScanPlan *plan = state->plan;

	if (plan->shard_template != NIL)
	{
		StringInfoData parts;

		initStringInfo(&parts);
		append_union(state, plan->shard_template, shardnos, nshards, literals, &parts);
		shard_param_render(buf, plan->template, NULL, parts.data, literals, state->param_values);
		pfree(parts.data);
	}
	else if (nshards == 1)
		append_shard(state, plan->template, shardnos[0], literals, buf);
	else if (plan->sort_columns != NIL)
		append_sorted_union(state, shardnos, nshards, literals, buf);
	else
		append_union(state, plan->template, shardnos, nshards, literals, buf);
}
