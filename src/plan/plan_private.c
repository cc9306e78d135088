/*
 * plan_private.c
 *	  Packs the data of our plan nodes into Lists and back.
 *
 *	   ShardScanPlan      -> (relids, all_shards, shards, template, outputs, ...)
 *	   ShardDirectPlan    -> (relid, template, outputs, ...)
 *	   ShardKeyJoinPlan   -> (type, columns, keys, ...)
 *	   ShardStatementPlan -> (flags, relids, shards, key_params, template, outputs, ...)
 *	   ShardTakePlan      -> (flags, oids, candidates, columns, sort, texts, outputs)
 *
 * The enums below are the positions.  Only node types that copyObject and nodeToString support are used.  An output
 * is four integers of one flat list.
 */
#include "postgres.h"

#include <float.h>

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "plan/plan_private.h"
#include "utils/builtins.h"

enum ScanField
{
	SCAN_RELIDS,				/* OidList */
	SCAN_ALL_SHARDS,			/* Boolean */
	SCAN_SHARDS,				/* OidList */
	SCAN_TEMPLATE,				/* List of String and Integer */
	SCAN_SHARD_TEMPLATE,		/* the same, or NIL */
	SCAN_OUTPUTS,				/* List, see pack_outputs() */
	SCAN_SORT,					/* List of four: IntList, OidList, OidList, IntList */
	SCAN_PRUNE_QUALS,			/* List of expressions */
	SCAN_PRUNE_PARENT,			/* OidList of one */
	SCAN_GROUPED,				/* Boolean */
	SCAN_AT_ONCE,				/* Boolean */
	SCAN_IS_PREPARED,			/* Boolean */
	SCAN_FOR_VALUES,			/* Boolean */
	SCAN_LOCKS_ROWS,			/* Boolean */
	SCAN_LOCKS_LATE,			/* Boolean */
	SCAN_TEXT_COLUMNS,			/* Boolean */
	SCAN_ROWS_PER_SHARD,		/* Float */
	SCAN_WIDTH,					/* Integer */
	SCAN_RELATIONS,				/* String or NULL */
	SCAN_CHECK_AS_USER,			/* OidList of one */
	SCAN_KEY_COLUMNS,
	SCAN_FIRST_PARTS,			/* List of IntLists */
	SCAN_REFUSED,				/* String or NULL */
	SCAN_NFIELDS
};

enum DirectField
{
	DIRECT_RELID,				/* OidList of one */
	DIRECT_TEMPLATE,
	DIRECT_OUTPUTS,
	DIRECT_HAS_RETURNING,		/* Boolean */
	DIRECT_SET_PROCESSED,		/* Boolean */
	DIRECT_PRUNE_QUALS,			/* List of expressions */
	DIRECT_PARENT,				/* OidList of one */
	DIRECT_NFIELDS
};

/*
 * A Float node with all digits and an exponent. nodeToString() writes only its text, and text that looks like an
 * integer would be read back as an Integer node.
 */
static Float *
pack_double(double value)
{
	return makeFloat(psprintf("%.*e", DBL_DIG + 1, value));
}

/* Number of remote columns of an output. */
int
shard_output_ncolumns(ShardOutputKind kind)
{
	switch (kind)
	{
		case SHARD_OUTPUT_VALUE:
		case SHARD_OUTPUT_TEXT:
		case SHARD_OUTPUT_SYSTEM:
		case SHARD_OUTPUT_STATE:
			return 1;
		case SHARD_OUTPUT_INT8_SUM:
		case SHARD_OUTPUT_NUMERIC_SUM:
		case SHARD_OUTPUT_INTERVAL_SUM:
			return 2;
		case SHARD_OUTPUT_POLY_VARIANCE:
		case SHARD_OUTPUT_NUMERIC_VARIANCE:
			return 3;
	}
	elog(ERROR, "unrecognized output kind: %d", (int) kind);
	return 0;					/* keep compiler quiet */
}

/* List of two lists: IntList of kind, target, typmod per output; OidList of types. */
static List *
pack_outputs(const ShardOutput *outputs, int noutputs)
{
	List	   *numbers = NIL;
	List	   *types = NIL;

	for (int i = 0; i < noutputs; i++)
	{
		numbers = lappend_int(numbers, (int) outputs[i].kind);
		numbers = lappend_int(numbers, outputs[i].target);
		numbers = lappend_int(numbers, outputs[i].typmod);
		types = lappend_oid(types, outputs[i].type);
	}
	return list_make2(numbers, types);
}

static ShardOutput *
unpack_outputs(List *packed, int *noutputs)
{
	List	   *numbers = linitial(packed);
	List	   *types = lsecond(packed);
	ShardOutput *outputs;

	*noutputs = list_length(types);
	outputs = palloc(sizeof(ShardOutput) * Max(*noutputs, 1));
	for (int i = 0; i < *noutputs; i++)
	{
		outputs[i].kind = (ShardOutputKind) list_nth_int(numbers, i * 3);
		outputs[i].target = list_nth_int(numbers, i * 3 + 1);
		outputs[i].typmod = list_nth_int(numbers, i * 3 + 2);
		outputs[i].type = list_nth_oid(types, i);
	}
	return outputs;
}

/* Memory: shares the plan's lists. */
List *
shard_plan_private_pack(const ShardScanPlan *plan)
{
	List	   *packed = NIL;

	packed = lappend(packed, plan->relids);
	packed = lappend(packed, makeBoolean(plan->all_shards));
	packed = lappend(packed, plan->shards);
	packed = lappend(packed, plan->template);
	packed = lappend(packed, plan->shard_template);
	packed = lappend(packed, pack_outputs(plan->outputs, plan->noutputs));
	packed = lappend(packed, list_make4(plan->sort_columns, plan->sort_operators,
										plan->sort_collations, plan->sort_nulls_first));
	packed = lappend(packed, plan->prune_quals);
	packed = lappend(packed, list_make1_oid(plan->prune_parent));
	packed = lappend(packed, makeBoolean(plan->grouped));
	packed = lappend(packed, makeBoolean(plan->at_once));
	packed = lappend(packed, makeBoolean(plan->is_prepared));
	packed = lappend(packed, makeBoolean(plan->for_values));
	packed = lappend(packed, makeBoolean(plan->locks_rows));
	packed = lappend(packed, makeBoolean(plan->locks_late));
	packed = lappend(packed, makeBoolean(plan->text_columns));
	packed = lappend(packed, pack_double(plan->rows_per_shard));
	packed = lappend(packed, makeInteger(plan->width));
	packed = lappend(packed, plan->relations ? makeString(plan->relations) : NULL);
	packed = lappend(packed, list_make1_oid(plan->check_as_user));
	packed = lappend(packed, plan->key_columns);
	packed = lappend(packed, makeInteger(plan->parts_descending ? -plan->first_parts : plan->first_parts));
	packed = lappend(packed, NULL);
	Assert(list_length(packed) == SCAN_NFIELDS);
	return packed;
}

/* Memory: the struct is in the current context; lists and strings are those of fdw_private. */
ShardScanPlan *
shard_plan_private_unpack(List *fdw_private)
{
	ShardScanPlan *plan = palloc0(sizeof(ShardScanPlan));
	List	   *sort;
	Node	   *relations;
	Node	   *refused;

	if (list_length(fdw_private) != SCAN_NFIELDS)
		elog(ERROR, "unexpected length of a shard scan's private data: %d",
			 list_length(fdw_private));
	plan->relids = list_nth(fdw_private, SCAN_RELIDS);
	plan->all_shards = boolVal(list_nth(fdw_private, SCAN_ALL_SHARDS));
	plan->shards = list_nth(fdw_private, SCAN_SHARDS);
	plan->template = list_nth(fdw_private, SCAN_TEMPLATE);
	plan->shard_template = list_nth(fdw_private, SCAN_SHARD_TEMPLATE);
	plan->outputs = unpack_outputs(list_nth(fdw_private, SCAN_OUTPUTS), &plan->noutputs);
	sort = list_nth(fdw_private, SCAN_SORT);
	plan->sort_columns = linitial(sort);
	plan->sort_operators = lsecond(sort);
	plan->sort_collations = lthird(sort);
	plan->sort_nulls_first = lfourth(sort);
	plan->prune_quals = list_nth(fdw_private, SCAN_PRUNE_QUALS);
	plan->prune_parent = linitial_oid(list_nth(fdw_private, SCAN_PRUNE_PARENT));
	plan->grouped = boolVal(list_nth(fdw_private, SCAN_GROUPED));
	plan->at_once = boolVal(list_nth(fdw_private, SCAN_AT_ONCE));
	plan->is_prepared = boolVal(list_nth(fdw_private, SCAN_IS_PREPARED));
	plan->for_values = boolVal(list_nth(fdw_private, SCAN_FOR_VALUES));
	plan->locks_rows = boolVal(list_nth(fdw_private, SCAN_LOCKS_ROWS));
	plan->locks_late = boolVal(list_nth(fdw_private, SCAN_LOCKS_LATE));
	plan->text_columns = boolVal(list_nth(fdw_private, SCAN_TEXT_COLUMNS));
	plan->rows_per_shard = floatVal(list_nth(fdw_private, SCAN_ROWS_PER_SHARD));
	plan->width = intVal(list_nth(fdw_private, SCAN_WIDTH));
	relations = list_nth(fdw_private, SCAN_RELATIONS);
	plan->relations = relations ? strVal(relations) : NULL;
	plan->check_as_user = linitial_oid(list_nth(fdw_private, SCAN_CHECK_AS_USER));
	plan->key_columns = list_nth(fdw_private, SCAN_KEY_COLUMNS);
	plan->first_parts = abs(intVal(list_nth(fdw_private, SCAN_FIRST_PARTS)));
	plan->parts_descending = intVal(list_nth(fdw_private, SCAN_FIRST_PARTS)) < 0;
	refused = list_nth(fdw_private, SCAN_REFUSED);
	plan->refused = refused ? strVal(refused) : NULL;
	return plan;
}

void
shard_plan_private_refused(List *fdw_private, const char *reason)
{
	ListCell   *cell;

	if (list_length(fdw_private) != SCAN_NFIELDS)
		return;
	cell = list_nth_cell(fdw_private, SCAN_REFUSED);
	if (lfirst(cell) == NULL)
		lfirst(cell) = makeString(pstrdup(reason));
}

bool
shard_plan_private_locks(List *fdw_private)
{
	return list_length(fdw_private) == SCAN_NFIELDS && boolVal(list_nth(fdw_private, SCAN_LOCKS_ROWS));
}

/* Like shard_plan_private_pack(), for a direct modification. */
List *
shard_plan_private_pack_direct(const ShardDirectPlan *plan)
{
	List	   *packed = NIL;

	packed = lappend(packed, list_make1_oid(plan->relid));
	packed = lappend(packed, plan->template);
	packed = lappend(packed, pack_outputs(plan->outputs, plan->noutputs));
	packed = lappend(packed, makeBoolean(plan->has_returning));
	packed = lappend(packed, makeBoolean(plan->set_processed));
	packed = lappend(packed, plan->prune_quals);
	packed = lappend(packed, list_make1_oid(plan->parent));
	Assert(list_length(packed) == DIRECT_NFIELDS);
	return packed;
}

/* Like shard_plan_private_unpack(), for a direct modification. */
ShardDirectPlan *
shard_plan_private_unpack_direct(List *fdw_private)
{
	ShardDirectPlan *plan = palloc0(sizeof(ShardDirectPlan));

	if (list_length(fdw_private) != DIRECT_NFIELDS)
		elog(ERROR, "unexpected length of a direct modification's private data: %d",
			 list_length(fdw_private));
	plan->relid = linitial_oid(list_nth(fdw_private, DIRECT_RELID));
	plan->template = list_nth(fdw_private, DIRECT_TEMPLATE);
	plan->outputs = unpack_outputs(list_nth(fdw_private, DIRECT_OUTPUTS), &plan->noutputs);
	plan->has_returning = boolVal(list_nth(fdw_private, DIRECT_HAS_RETURNING));
	plan->set_processed = boolVal(list_nth(fdw_private, DIRECT_SET_PROCESSED));
	plan->prune_quals = list_nth(fdw_private, DIRECT_PRUNE_QUALS);
	plan->parent = linitial_oid(list_nth(fdw_private, DIRECT_PARENT));
	return plan;
}

/* Like shard_plan_private_pack(), for a key join. */
List *
shard_plan_private_pack_key_join(const ShardKeyJoinPlan *plan)
{
	List	   *params = NIL;
	List	   *oids = NIL;

	for (int i = 0; i < plan->nkeys; i++)
	{
		params = lappend_int(params, plan->keys[i].paramid);
		oids = lappend_oid(oids, plan->keys[i].outer_hash);
		oids = lappend_oid(oids, plan->keys[i].inner_hash);
		oids = lappend_oid(oids, plan->keys[i].collation);
		oids = lappend_oid(oids, plan->keys[i].value_type);
	}
	return list_make5(list_make3_int(plan->jointype, plan->change_param, plan->in_rounds), plan->columns,
					  params, oids, pack_double(plan->first_rows));
}

/* Like shard_plan_private_unpack(), for a key join. */
ShardKeyJoinPlan *
shard_plan_private_unpack_key_join(List *custom_private)
{
	ShardKeyJoinPlan *plan = palloc0(sizeof(ShardKeyJoinPlan));
	List	   *params = lthird(custom_private);
	List	   *oids = lfourth(custom_private);

	plan->jointype = (JoinType) linitial_int(linitial(custom_private));
	plan->change_param = lsecond_int(linitial(custom_private));
	plan->in_rounds = lthird_int(linitial(custom_private)) != 0;
	plan->columns = lsecond(custom_private);
	plan->nkeys = list_length(params);
	plan->keys = palloc(sizeof(ShardKeyJoinKey) * plan->nkeys);
	for (int i = 0; i < plan->nkeys; i++)
	{
		plan->keys[i].paramid = list_nth_int(params, i);
		plan->keys[i].outer_hash = list_nth_oid(oids, i * 4);
		plan->keys[i].inner_hash = list_nth_oid(oids, i * 4 + 1);
		plan->keys[i].collation = list_nth_oid(oids, i * 4 + 2);
		plan->keys[i].value_type = list_nth_oid(oids, i * 4 + 3);
	}
	plan->first_rows = floatVal(list_nth(custom_private, 4));
	return plan;
}

enum StatementField
{
	STATEMENT_FLAGS,			/* IntList, see enum StatementFlag */
	STATEMENT_RELIDS,			/* OidList */
	STATEMENT_SHARDS,			/* OidList */
	STATEMENT_KEY_PARAMS,		/* IntList */
	STATEMENT_TEMPLATE,
	STATEMENT_OUTPUTS,
	STATEMENT_CHECK_AS_USER,	/* OidList of one */
	STATEMENT_SHARD_TEXTS,		/* List of templates */
	STATEMENT_SHARD_PARAMS,		/* IntList */
	STATEMENT_NFIELDS
};

enum StatementFlag
{
	STATEMENT_OPERATION,
	STATEMENT_SET_PROCESSED,
	STATEMENT_RETURNS_ROWS,
	STATEMENT_ON_WRITER,
	STATEMENT_ALL_SHARDS,
	STATEMENT_INSERTS_KEY,
	STATEMENT_TEXT_COLUMNS,
	STATEMENT_ONLY_LOCKS,
	STATEMENT_INSERTS_VALUES,
	STATEMENT_FOR_VALUES
};

/* Like shard_plan_private_pack(), for a whole statement. */
List *
shard_plan_private_pack_statement(const ShardStatementPlan *plan)
{
	List	   *flags = list_make5_int(plan->operation, plan->set_processed, plan->returns_rows,
									   plan->on_writer, plan->all_shards);
	List	   *packed;

	flags = lappend_int(flags, plan->inserts_key);
	flags = lappend_int(flags, plan->text_columns);
	flags = lappend_int(flags, plan->only_locks);
	flags = lappend_int(flags, plan->inserts_values);
	flags = lappend_int(flags, plan->for_values);
	packed = list_make5(flags, plan->relids, plan->shards, plan->key_params, plan->template);
	packed = lappend(packed, pack_outputs(plan->outputs, plan->noutputs));
	packed = lappend(packed, list_make1_oid(plan->check_as_user));
	packed = lappend(packed, plan->shard_texts);
	packed = lappend(packed, plan->shard_params);
	Assert(list_length(packed) == STATEMENT_NFIELDS);
	return packed;
}

/* Like shard_plan_private_unpack(), for a whole statement. */
ShardStatementPlan *
shard_plan_private_unpack_statement(List *custom_private)
{
	ShardStatementPlan *plan = palloc0(sizeof(ShardStatementPlan));
	List	   *flags;

	if (list_length(custom_private) != STATEMENT_NFIELDS)
		elog(ERROR, "unexpected length of a shard statement's private data: %d",
			 list_length(custom_private));
	flags = list_nth(custom_private, STATEMENT_FLAGS);
	plan->operation = (CmdType) list_nth_int(flags, STATEMENT_OPERATION);
	plan->set_processed = list_nth_int(flags, STATEMENT_SET_PROCESSED);
	plan->returns_rows = list_nth_int(flags, STATEMENT_RETURNS_ROWS);
	plan->on_writer = list_nth_int(flags, STATEMENT_ON_WRITER);
	plan->all_shards = list_nth_int(flags, STATEMENT_ALL_SHARDS);
	plan->inserts_key = list_nth_int(flags, STATEMENT_INSERTS_KEY);
	plan->text_columns = list_nth_int(flags, STATEMENT_TEXT_COLUMNS);
	plan->only_locks = list_nth_int(flags, STATEMENT_ONLY_LOCKS);
	plan->inserts_values = list_nth_int(flags, STATEMENT_INSERTS_VALUES);
	plan->for_values = list_nth_int(flags, STATEMENT_FOR_VALUES);
	plan->relids = list_nth(custom_private, STATEMENT_RELIDS);
	plan->shards = list_nth(custom_private, STATEMENT_SHARDS);
	plan->key_params = list_nth(custom_private, STATEMENT_KEY_PARAMS);
	plan->template = list_nth(custom_private, STATEMENT_TEMPLATE);
	plan->outputs = unpack_outputs(list_nth(custom_private, STATEMENT_OUTPUTS), &plan->noutputs);
	plan->check_as_user = linitial_oid(list_nth(custom_private, STATEMENT_CHECK_AS_USER));
	plan->shard_texts = list_nth(custom_private, STATEMENT_SHARD_TEXTS);
	plan->shard_params = list_nth(custom_private, STATEMENT_SHARD_PARAMS);
	return plan;
}

/* Like shard_plan_private_pack(), for a statement that takes rows from a queue. */
List *
shard_plan_private_pack_take(const ShardTakePlan *plan)
{
	List	   *packed = list_make5(list_make5_int(plan->operation, plan->set_processed, plan->returns_rows, plan->limit_param, plan->ctids_param),
									list_make2_oid(plan->relid, plan->check_as_user),
									plan->candidates, makeString(plan->columns), pack_outputs(plan->sort_outputs, plan->nsort));

	linitial(packed) = lappend_int(lappend_int(linitial(packed), plan->is_exclusive), plan->skips);
	packed = lappend(packed, list_make3(plan->sort_operators, plan->sort_collations, plan->sort_nulls_first));
	packed = lappend(packed, list_make4(plan->lock, plan->change, plan->take, makeString(plan->locking)));
	return lappend(packed, pack_outputs(plan->outputs, plan->noutputs));
}

/* Like shard_plan_private_unpack(), for a statement that takes rows from a queue. */
ShardTakePlan *
shard_plan_private_unpack_take(List *custom_private)
{
	ShardTakePlan *plan = palloc0(sizeof(ShardTakePlan));
	List	   *flags = linitial(custom_private);
	List	   *oids = lsecond(custom_private);
	List	   *sort = list_nth(custom_private, 5);
	List	   *texts = list_nth(custom_private, 6);

	plan->operation = (CmdType) linitial_int(flags);
	plan->set_processed = lsecond_int(flags) != 0;
	plan->returns_rows = lthird_int(flags) != 0;
	plan->limit_param = lfourth_int(flags);
	plan->ctids_param = list_nth_int(flags, 4);
	plan->is_exclusive = list_nth_int(flags, 5) != 0;
	plan->skips = list_nth_int(flags, 6) != 0;
	plan->relid = linitial_oid(oids);
	plan->check_as_user = lsecond_oid(oids);
	plan->candidates = lthird(custom_private);
	plan->columns = strVal(lfourth(custom_private));
	plan->sort_outputs = unpack_outputs(list_nth(custom_private, 4), &plan->nsort);
	plan->sort_operators = linitial(sort);
	plan->sort_collations = lsecond(sort);
	plan->sort_nulls_first = lthird(sort);
	plan->lock = linitial(texts);
	plan->change = lsecond(texts);
	plan->take = lthird(texts);
	plan->locking = strVal(lfourth(texts));
	plan->outputs = unpack_outputs(list_nth(custom_private, 7), &plan->noutputs);
	return plan;
}

/* Like shard_plan_private_pack(), for a statement over rows that the coordinator computes. */
List *
shard_plan_private_pack_source(const ShardSourcePlan *plan)
{
	List	   *flags = list_make5_int(plan->operation, plan->set_processed, plan->returns_rows,
									   plan->all_shards, plan->skip_unrouted);

	flags = lappend_int(flags, plan->narrays);
	flags = lappend_int(flags, plan->tableoid_attno);
	flags = lappend_int(flags, plan->first_column);
	return list_make5(flags, list_make2_oid(plan->relid, plan->check_as_user),
					  plan->key_columns, plan->template,
					  pack_outputs(plan->outputs, plan->noutputs));
}

/* Like shard_plan_private_unpack(), for a statement over rows that the coordinator computes. */
ShardSourcePlan *
shard_plan_private_unpack_source(List *custom_private)
{
	ShardSourcePlan *plan = palloc0(sizeof(ShardSourcePlan));
	List	   *flags = linitial(custom_private);
	List	   *oids = lsecond(custom_private);

	plan->operation = (CmdType) list_nth_int(flags, 0);
	plan->set_processed = list_nth_int(flags, 1) != 0;
	plan->returns_rows = list_nth_int(flags, 2) != 0;
	plan->all_shards = list_nth_int(flags, 3) != 0;
	plan->skip_unrouted = list_nth_int(flags, 4) != 0;
	plan->narrays = list_nth_int(flags, 5);
	plan->tableoid_attno = list_nth_int(flags, 6);
	plan->first_column = list_nth_int(flags, 7);
	plan->relid = linitial_oid(oids);
	plan->check_as_user = lsecond_oid(oids);
	plan->key_columns = lthird(custom_private);
	plan->template = lfourth(custom_private);
	plan->outputs = unpack_outputs(list_nth(custom_private, 4), &plan->noutputs);
	return plan;
}

/*
 * The columns as an int2vector constant, by which the entry is recognized: expressions of statements never have that
 * type.
 */
TargetEntry *
shard_plan_private_pack_conflict(List *attnos, AttrNumber resno)
{
	int16	   *values = palloc(sizeof(int16) * list_length(attnos));
	int			n = 0;
	Const	   *value;
	ListCell   *lc;

	foreach(lc, attnos)
		values[n++] = (int16) lfirst_int(lc);
	value = makeConst(INT2VECTOROID, -1, InvalidOid, -1, PointerGetDatum(buildint2vector(values, n)),
					  false, false);
	return makeTargetEntry((Expr *) value, resno, NULL, true);
}

List *
shard_plan_private_unpack_conflict(List *tlist)
{
	TargetEntry *entry = tlist == NIL ? NULL : llast_node(TargetEntry, tlist);
	List	   *attnos = NIL;
	int2vector *values;

	if (entry == NULL || !entry->resjunk || !IsA(entry->expr, Const) ||
		((Const *) entry->expr)->consttype != INT2VECTOROID)
		return NIL;
	values = (int2vector *) DatumGetPointer(((Const *) entry->expr)->constvalue);
	for (int i = 0; i < values->dim1; i++)
		attnos = lappend_int(attnos, values->values[i]);
	return attnos;
}
