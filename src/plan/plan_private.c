/*
 * plan_private.c
 *	  Packs the data of our plan nodes into Lists and back.
 *
 *	   struct --pack--> (kind, field, field, ...) --unpack--> struct
 *
 * The tables below list the fields of each struct.  A struct's new member needs a line there.  Only node types that
 * copyObject and nodeToString support are used.
 */
#include "postgres.h"

#include <float.h>

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "plan/plan_private.h"
#include "utils/builtins.h"

/* How a member is packed. */
typedef enum FieldKind
{
	FIELD_BOOL,					/* Boolean */
	FIELD_INT,					/* Integer; the member is an int or an enum */
	FIELD_OID,					/* OidList of one */
	FIELD_DOUBLE,				/* Float */
	FIELD_STRING,				/* String or NULL */
	FIELD_LIST,					/* the list itself */
	FIELD_OUTPUTS,				/* List, see pack_outputs() */
	FIELD_KEYS					/* List, see pack_keys() */
} FieldKind;

typedef struct PlanField
{
	FieldKind	kind;
	size_t		offset;			/* of the member */
	size_t		count_offset;	/* of its number of elements, if it is an array */
} PlanField;

/* Positions in the List of a scan that are used without unpacking it.  The kind is at position 0. */
#define SCAN_LOCKS_ROWS 1
#define SCAN_LOCKS_LATE 2
#define SCAN_REFUSED 3

static const PlanField scan_fields[] = {
	{FIELD_BOOL, offsetof(ShardScanPlan, locks_rows)},
	{FIELD_BOOL, offsetof(ShardScanPlan, locks_late)},
	{FIELD_STRING, offsetof(ShardScanPlan, refused)},
	{FIELD_LIST, offsetof(ShardScanPlan, relids)},
	{FIELD_BOOL, offsetof(ShardScanPlan, all_shards)},
	{FIELD_LIST, offsetof(ShardScanPlan, shards)},
	{FIELD_LIST, offsetof(ShardScanPlan, template)},
	{FIELD_LIST, offsetof(ShardScanPlan, shard_template)},
	{FIELD_OUTPUTS, offsetof(ShardScanPlan, outputs), offsetof(ShardScanPlan, noutputs)},
	{FIELD_LIST, offsetof(ShardScanPlan, sort_columns)},
	{FIELD_LIST, offsetof(ShardScanPlan, sort_operators)},
	{FIELD_LIST, offsetof(ShardScanPlan, sort_collations)},
	{FIELD_LIST, offsetof(ShardScanPlan, sort_nulls_first)},
	{FIELD_LIST, offsetof(ShardScanPlan, prune_quals)},
	{FIELD_OID, offsetof(ShardScanPlan, prune_parent)},
	{FIELD_LIST, offsetof(ShardScanPlan, key_columns)},
	{FIELD_INT, offsetof(ShardScanPlan, first_parts)},
	{FIELD_BOOL, offsetof(ShardScanPlan, parts_descending)},
	{FIELD_BOOL, offsetof(ShardScanPlan, at_once)},
	{FIELD_BOOL, offsetof(ShardScanPlan, is_prepared)},
	{FIELD_BOOL, offsetof(ShardScanPlan, for_values)},
	{FIELD_DOUBLE, offsetof(ShardScanPlan, rows_per_shard)},
	{FIELD_INT, offsetof(ShardScanPlan, width)},
	{FIELD_STRING, offsetof(ShardScanPlan, relations)},
	{FIELD_OID, offsetof(ShardScanPlan, check_as_user)}
};

static const PlanField modify_fields[] = {
	{FIELD_INT, offsetof(ShardModifyPlan, operation)},
	{FIELD_LIST, offsetof(ShardModifyPlan, target_attnos)},
	{FIELD_LIST, offsetof(ShardModifyPlan, returning_attnos)},
	{FIELD_BOOL, offsetof(ShardModifyPlan, do_nothing)},
	{FIELD_LIST, offsetof(ShardModifyPlan, conflict_attnos)},
	{FIELD_BOOL, offsetof(ShardModifyPlan, check_partition)}
};

static const PlanField direct_fields[] = {
	{FIELD_OID, offsetof(ShardDirectPlan, relid)},
	{FIELD_LIST, offsetof(ShardDirectPlan, template)},
	{FIELD_OUTPUTS, offsetof(ShardDirectPlan, outputs), offsetof(ShardDirectPlan, noutputs)},
	{FIELD_BOOL, offsetof(ShardDirectPlan, has_returning)},
	{FIELD_BOOL, offsetof(ShardDirectPlan, set_processed)},
	{FIELD_LIST, offsetof(ShardDirectPlan, prune_quals)},
	{FIELD_OID, offsetof(ShardDirectPlan, parent)}
};

static const PlanField key_join_fields[] = {
	{FIELD_INT, offsetof(ShardKeyJoinPlan, jointype)},
	{FIELD_LIST, offsetof(ShardKeyJoinPlan, columns)},
	{FIELD_KEYS, offsetof(ShardKeyJoinPlan, keys), offsetof(ShardKeyJoinPlan, nkeys)},
	{FIELD_INT, offsetof(ShardKeyJoinPlan, change_param)},
	{FIELD_DOUBLE, offsetof(ShardKeyJoinPlan, first_rows)},
	{FIELD_BOOL, offsetof(ShardKeyJoinPlan, in_rounds)}
};

static const PlanField statement_fields[] = {
	{FIELD_INT, offsetof(ShardStatementPlan, operation)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, set_processed)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, returns_rows)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, on_writer)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, only_locks)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, for_values)},
	{FIELD_LIST, offsetof(ShardStatementPlan, relids)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, all_shards)},
	{FIELD_LIST, offsetof(ShardStatementPlan, shards)},
	{FIELD_LIST, offsetof(ShardStatementPlan, shard_texts)},
	{FIELD_LIST, offsetof(ShardStatementPlan, shard_params)},
	{FIELD_LIST, offsetof(ShardStatementPlan, key_params)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, inserts_key)},
	{FIELD_BOOL, offsetof(ShardStatementPlan, inserts_values)},
	{FIELD_LIST, offsetof(ShardStatementPlan, template)},
	{FIELD_OUTPUTS, offsetof(ShardStatementPlan, outputs), offsetof(ShardStatementPlan, noutputs)},
	{FIELD_OID, offsetof(ShardStatementPlan, check_as_user)}
};

static const PlanField queue_fields[] = {
	{FIELD_INT, offsetof(ShardQueuePlan, operation)},
	{FIELD_BOOL, offsetof(ShardQueuePlan, set_processed)},
	{FIELD_BOOL, offsetof(ShardQueuePlan, returns_rows)},
	{FIELD_BOOL, offsetof(ShardQueuePlan, skips)},
	{FIELD_BOOL, offsetof(ShardQueuePlan, is_exclusive)},
	{FIELD_STRING, offsetof(ShardQueuePlan, locking)},
	{FIELD_OID, offsetof(ShardQueuePlan, relid)},
	{FIELD_OID, offsetof(ShardQueuePlan, check_as_user)},
	{FIELD_INT, offsetof(ShardQueuePlan, limit_param)},
	{FIELD_LIST, offsetof(ShardQueuePlan, candidates)},
	{FIELD_STRING, offsetof(ShardQueuePlan, columns)},
	{FIELD_OUTPUTS, offsetof(ShardQueuePlan, sort_outputs), offsetof(ShardQueuePlan, nsort)},
	{FIELD_LIST, offsetof(ShardQueuePlan, sort_operators)},
	{FIELD_LIST, offsetof(ShardQueuePlan, sort_collations)},
	{FIELD_LIST, offsetof(ShardQueuePlan, sort_nulls_first)},
	{FIELD_INT, offsetof(ShardQueuePlan, ctids_param)},
	{FIELD_LIST, offsetof(ShardQueuePlan, lock)},
	{FIELD_LIST, offsetof(ShardQueuePlan, change)},
	{FIELD_LIST, offsetof(ShardQueuePlan, lock_and_change)},
	{FIELD_OUTPUTS, offsetof(ShardQueuePlan, outputs), offsetof(ShardQueuePlan, noutputs)}
};

static const PlanField source_fields[] = {
	{FIELD_OID, offsetof(ShardSourcePlan, relid)},
	{FIELD_INT, offsetof(ShardSourcePlan, operation)},
	{FIELD_BOOL, offsetof(ShardSourcePlan, does_update)},
	{FIELD_BOOL, offsetof(ShardSourcePlan, set_processed)},
	{FIELD_BOOL, offsetof(ShardSourcePlan, returns_rows)},
	{FIELD_BOOL, offsetof(ShardSourcePlan, all_shards)},
	{FIELD_BOOL, offsetof(ShardSourcePlan, skip_unrouted)},
	{FIELD_INT, offsetof(ShardSourcePlan, narrays)},
	{FIELD_INT, offsetof(ShardSourcePlan, first_column)},
	{FIELD_LIST, offsetof(ShardSourcePlan, key_columns)},
	{FIELD_LIST, offsetof(ShardSourcePlan, template)},
	{FIELD_OUTPUTS, offsetof(ShardSourcePlan, outputs), offsetof(ShardSourcePlan, noutputs)},
	{FIELD_INT, offsetof(ShardSourcePlan, tableoid_attno)},
	{FIELD_OID, offsetof(ShardSourcePlan, check_as_user)}
};

static const struct
{
	size_t		size;
	const PlanField *fields;
	int			nfields;
} layouts[] = {
	[SHARD_PLAN_SCAN] = {sizeof(ShardScanPlan), scan_fields, lengthof(scan_fields)},
	[SHARD_PLAN_MODIFY] = {sizeof(ShardModifyPlan), modify_fields, lengthof(modify_fields)},
	[SHARD_PLAN_DIRECT] = {sizeof(ShardDirectPlan), direct_fields, lengthof(direct_fields)},
	[SHARD_PLAN_KEY_JOIN] = {sizeof(ShardKeyJoinPlan), key_join_fields, lengthof(key_join_fields)},
	[SHARD_PLAN_STATEMENT] = {sizeof(ShardStatementPlan), statement_fields, lengthof(statement_fields)},
	[SHARD_PLAN_QUEUE] = {sizeof(ShardQueuePlan), queue_fields, lengthof(queue_fields)},
	[SHARD_PLAN_SOURCE] = {sizeof(ShardSourcePlan), source_fields, lengthof(source_fields)}
};

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

/* List of two lists: IntList of the parameters; OidList of four OIDs per key. */
static List *
pack_keys(const ShardKeyJoinKey *keys, int nkeys)
{
	List	   *params = NIL;
	List	   *oids = NIL;

	for (int i = 0; i < nkeys; i++)
	{
		params = lappend_int(params, keys[i].paramid);
		oids = lappend_oid(oids, keys[i].outer_hash);
		oids = lappend_oid(oids, keys[i].inner_hash);
		oids = lappend_oid(oids, keys[i].collation);
		oids = lappend_oid(oids, keys[i].value_type);
	}
	return list_make2(params, oids);
}

static ShardKeyJoinKey *
unpack_keys(List *packed, int *nkeys)
{
	List	   *params = linitial(packed);
	List	   *oids = lsecond(packed);
	ShardKeyJoinKey *keys;

	*nkeys = list_length(params);
	keys = palloc(sizeof(ShardKeyJoinKey) * *nkeys);
	for (int i = 0; i < *nkeys; i++)
	{
		keys[i].paramid = list_nth_int(params, i);
		keys[i].outer_hash = list_nth_oid(oids, i * 4);
		keys[i].inner_hash = list_nth_oid(oids, i * 4 + 1);
		keys[i].collation = list_nth_oid(oids, i * 4 + 2);
		keys[i].value_type = list_nth_oid(oids, i * 4 + 3);
	}
	return keys;
}

/*
 * A Float node with all digits and an exponent. nodeToString() writes only its text, and text that looks like an
 * integer would be read back as an Integer node.
 */
static Float *
pack_double(double value)
{
	return makeFloat(psprintf("%.*e", DBL_DIG + 1, value));
}

static void *
pack_field(const PlanField *field, const char *plan)
{
	const void *member = plan + field->offset;
	const int  *count = (const int *) (plan + field->count_offset);

	switch (field->kind)
	{
		case FIELD_BOOL:
			return makeBoolean(*(const bool *) member);
		case FIELD_INT:
			return makeInteger(*(const int *) member);
		case FIELD_OID:
			return list_make1_oid(*(const Oid *) member);
		case FIELD_DOUBLE:
			return pack_double(*(const double *) member);
		case FIELD_STRING:
			return *(char *const *) member ? makeString(*(char *const *) member) : NULL;
		case FIELD_LIST:
			return *(List *const *) member;
		case FIELD_OUTPUTS:
			return pack_outputs(*(ShardOutput *const *) member, *count);
		case FIELD_KEYS:
			return pack_keys(*(ShardKeyJoinKey *const *) member, *count);
	}
	elog(ERROR, "unrecognized kind of a field: %d", (int) field->kind);
	return NULL;				/* keep compiler quiet */
}

static void
unpack_field(const PlanField *field, void *packed, char *plan)
{
	void	   *member = plan + field->offset;
	int		   *count = (int *) (plan + field->count_offset);

	switch (field->kind)
	{
		case FIELD_BOOL:
			*(bool *) member = boolVal(packed);
			break;
		case FIELD_INT:
			*(int *) member = intVal(packed);
			break;
		case FIELD_OID:
			*(Oid *) member = linitial_oid(packed);
			break;
		case FIELD_DOUBLE:
			*(double *) member = floatVal(packed);
			break;
		case FIELD_STRING:
			*(char **) member = packed ? strVal(packed) : NULL;
			break;
		case FIELD_LIST:
			*(List **) member = packed;
			break;
		case FIELD_OUTPUTS:
			*(ShardOutput **) member = unpack_outputs(packed, count);
			break;
		case FIELD_KEYS:
			*(ShardKeyJoinKey **) member = unpack_keys(packed, count);
			break;
	}
}

static bool
is_kind(List *packed, ShardPlanKind kind)
{
	return list_length(packed) == layouts[kind].nfields + 1 && IsA(linitial(packed), Integer) &&
		intVal(linitial(packed)) == kind;
}

List *
shard_plan_private_pack(ShardPlanKind kind, const void *plan)
{
	List	   *packed = list_make1(makeInteger(kind));

	for (int i = 0; i < layouts[kind].nfields; i++)
		packed = lappend(packed, pack_field(&layouts[kind].fields[i], plan));
	return packed;
}

void *
shard_plan_private_unpack(ShardPlanKind kind, List *packed)
{
	void	   *plan = palloc0(layouts[kind].size);

	if (!is_kind(packed, kind))
		elog(ERROR, "unexpected private data of a plan node of kind %d", (int) kind);
	for (int i = 0; i < layouts[kind].nfields; i++)
		unpack_field(&layouts[kind].fields[i], list_nth(packed, i + 1), plan);
	return plan;
}

void
shard_plan_private_refused(List *fdw_private, const char *reason)
{
	ListCell   *cell;

	if (!is_kind(fdw_private, SHARD_PLAN_SCAN))
		return;
	cell = list_nth_cell(fdw_private, SCAN_REFUSED);
	if (lfirst(cell) == NULL)
		lfirst(cell) = makeString(pstrdup(reason));
}

bool
shard_plan_private_locks(List *fdw_private)
{
	return is_kind(fdw_private, SHARD_PLAN_SCAN) && boolVal(list_nth(fdw_private, SCAN_LOCKS_ROWS));
}

bool
shard_plan_private_locks_late(List *fdw_private)
{
	return shard_plan_private_locks(fdw_private) && boolVal(list_nth(fdw_private, SCAN_LOCKS_LATE));
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
