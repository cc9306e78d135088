/*
 * filter.c
 *	  FILTER: a function makes a row of the table from the columns of the input.
 *
 *	 texts of a line --> input functions --> the function --> row --> output functions --> a line of COPY text
 *
 * The shard's session, which uses the user's settings, reads the line again.  The text of some values would lose
 * information under these settings (digits of floats, the time zone of a timestamptz).  These are written under other
 * settings, in a form that the reader accepts, too.
 *
 * Assumption: the caller holds a lock on the table, so that its row type does not change.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "load/raw/filter.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "pgstat.h"
#include "tuple/encode.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

typedef struct FilterInput
{
	FmgrInfo	function;
	Oid			ioparam;
	const char *name;			/* name of the parameter */
} FilterInput;

typedef struct FilterOutput
{
	Oid			type;
	const char *name;			/* name of the column */
	FmgrInfo	function;
	int			colno;			/* 0-based position in the function's row */
} FilterOutput;

struct ShardFilter
{
	MemoryContext cxt;
	MemoryContext row_cxt;		/* reset before each call */
	Oid			funcid;
	const char *signature;
	FmgrInfo	function;
	FunctionCallInfo fcinfo;

	int			ninputs;
	FilterInput *inputs;
	int			current_input;	/* the one being converted, for error contexts; -1: none */

	/* columns of the table that are in a line */
	Oid			relid;
	int			noutputs;
	FilterOutput *outputs;
	TupleDesc	table_desc;		/* descriptor of the table */

	/* the last row returned by the function */
	Oid			result_type;
	int32		result_typmod;
	TupleDesc	result_desc;	/* NULL: no row has been returned yet */
	Datum	   *values;
	bool	   *isnull;
};

/* ---------- look-up of the function ---------- */

/*
 * Sets colnos to the positions, in a row of desc, of the columns that are in a line.  The row must have all columns
 * of the table, or all except generated ones.  Returns NULL if it has, otherwise the reason.
 */
static char *
match_columns(TupleDesc table, TupleDesc desc, int *colnos)
{
	int			nlive[2] = {0, 0};	/* columns of the table: all, not generated */
	int			nrow = 0;
	bool		with_generated;
	int			row_attno = 0;
	int			noutputs = 0;

	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, i);

		if (!att->attisdropped)
		{
			nlive[0]++;
			if (!att->attgenerated)
				nlive[1]++;
		}
	}
	for (int i = 0; i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			nrow++;
	}
	if (nrow != nlive[0] && nrow != nlive[1])
		return psprintf("Its rows have %d columns, those of the table %d.", nrow, nlive[0]);
	with_generated = nrow == nlive[0];

	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, i);
		Form_pg_attribute row_att;

		if (att->attisdropped || (att->attgenerated && !with_generated))
			continue;
		while (TupleDescAttr(desc, row_attno)->attisdropped)
			row_attno++;
		row_att = TupleDescAttr(desc, row_attno++);
		if (!IsBinaryCoercible(row_att->atttypid, getBaseType(att->atttypid)) &&
			getBaseType(row_att->atttypid) != getBaseType(att->atttypid))
			return psprintf("Column %d of its rows has type %s, column \"%s\" of the table %s.",
							row_attno, format_type_be(row_att->atttypid),
							NameStr(att->attname), format_type_be(att->atttypid));
		if (!att->attgenerated)
			colnos[noutputs++] = row_attno - 1;
	}
	return NULL;
}

/* Returns NULL if the function can be a filter for the table, otherwise the reason. */
static char *
why_not(HeapTuple tuple, Relation rel)
{
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);
	TupleDesc	desc;

	if (proc->prokind != PROKIND_FUNCTION)
		return "It is an aggregate, a window function or a procedure.";
	if (proc->proretset)
		return "It returns a set.";
	if (OidIsValid(proc->provariadic))
		return "It has a variadic parameter.";
	if (proc->pronargs == 0)
		return "It has no parameters.";
	for (int i = 0; i < proc->pronargs; i++)
	{
		if (get_typtype(proc->proargtypes.values[i]) == TYPTYPE_PSEUDO)
			return psprintf("It has a parameter of type %s.", format_type_be(proc->proargtypes.values[i]));
	}
	if (getBaseType(proc->prorettype) == rel->rd_rel->reltype)
		return NULL;
	if (proc->prorettype != RECORDOID)
		return psprintf("It returns %s.", format_type_be(proc->prorettype));
	/* Without OUT parameters, each row has a row type. */
	desc = build_function_result_tupdesc_t(tuple);
	if (desc == NULL)
		return NULL;
	return match_columns(RelationGetDescr(rel), desc,
						 palloc(sizeof(int) * Max(RelationGetDescr(rel)->natts, 1)));
}

/* OID of the only suitable function with that name. */
static Oid
find_function(const char *name, Relation rel)
{
	List	   *names = textToQualifiedNameList(cstring_to_text(name));
	FuncCandidateList candidates = shard_function_candidates(names);
	Oid			found = InvalidOid;
	char	   *reason = NULL;
	int			ncandidates = 0;

	for (; candidates != NULL; candidates = candidates->next)
	{
		HeapTuple	tuple = shard_catalog_row(PROCOID, candidates->oid);

		ncandidates++;
		reason = why_not(tuple, rel);
		ReleaseSysCache(tuple);
		if (reason != NULL)
			continue;
		if (OidIsValid(found))
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
					 errmsg("FILTER function name \"%s\" is not unique", name),
					 errdetail("More than one function of that name returns rows of \"%s\".",
							   RelationGetRelationName(rel))));
		found = candidates->oid;
	}
	if (ncandidates == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("FILTER function \"%s\" does not exist", name)));
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function \"%s\" cannot be the FILTER of a load into \"%s\"",
						name, RelationGetRelationName(rel)),
				 ncandidates == 1 ? errdetail_internal("%s", reason) : 0,
				 errhint("It must take the columns of the input and return one row of the table.")));
	return found;
}

/* ---------- opening ---------- */

static void
open_inputs(ShardFilter *filter, HeapTuple tuple)
{
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);
	Datum		modes;
	Datum		names;
	bool		isnull;
	char	  **param_names = NULL;
	int			nnames = 0;

	names = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargnames, &isnull);
	if (!isnull)
	{
		modes = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargmodes, &isnull);
		nnames = get_func_input_arg_names(names, isnull ? PointerGetDatum(NULL) : modes, &param_names);
	}

	filter->ninputs = proc->pronargs;
	filter->inputs = palloc0(sizeof(FilterInput) * filter->ninputs);
	for (int i = 0; i < filter->ninputs; i++)
	{
		FilterInput *input = &filter->inputs[i];
		Oid			type = proc->proargtypes.values[i];
		Oid			function;

		getTypeInputInfo(type, &function, &input->ioparam);
		fmgr_info(function, &input->function);
		input->name = i < nnames && param_names[i] && param_names[i][0] ?
			param_names[i] : psprintf("$%d", i + 1);
	}
}

static void
open_outputs(ShardFilter *filter, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	filter->relid = RelationGetRelid(rel);
	filter->table_desc = CreateTupleDescCopyConstr(desc);
	filter->outputs = palloc0(sizeof(FilterOutput) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		FilterOutput *output = &filter->outputs[filter->noutputs];
		Oid			function;
		bool		is_varlena;

		if (att->attisdropped || att->attgenerated)
			continue;
		getTypeOutputInfo(att->atttypid, &function, &is_varlena);
		fmgr_info(function, &output->function);
		filter->noutputs++;
	}
}

/* The collation of a call with columns of these types. */
static Oid
input_collation(HeapTuple tuple)
{
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);

	for (int i = 0; i < proc->pronargs; i++)
	{
		Oid			collation = get_typcollation(proc->proargtypes.values[i]);

		if (OidIsValid(collation))
			return collation;
	}
	return InvalidOid;
}

ShardFilter *
shard_filter_open(MemoryContext cxt, const char *name, Relation rel)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardFilter *filter = palloc0(sizeof(ShardFilter));
	HeapTuple	tuple;

	filter->cxt = cxt;
	filter->row_cxt = AllocSetContextCreate(cxt, "shardfdw filtered row", ALLOCSET_DEFAULT_SIZES);
	filter->current_input = -1;
	filter->funcid = find_function(name, rel);
	if (shard_function_aclcheck(filter->funcid, GetUserId()) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, name);
	InvokeFunctionExecuteHook(filter->funcid);
	filter->signature = format_procedure(filter->funcid);

	tuple = shard_catalog_row(PROCOID, filter->funcid);
	open_inputs(filter, tuple);
	fmgr_info(filter->funcid, &filter->function);
	filter->fcinfo = palloc0(SizeForFunctionCallInfo(filter->ninputs));
	InitFunctionCallInfoData(*filter->fcinfo, &filter->function, filter->ninputs,
							 input_collation(tuple), NULL, NULL);
	ReleaseSysCache(tuple);
	open_outputs(filter, rel);
	MemoryContextSwitchTo(oldcxt);
	return filter;
}

/* ---------- a row ---------- */

static void
filter_context(void *arg)
{
	ShardFilter *filter = arg;

	if (filter->current_input >= 0)
		errcontext("parameter \"%s\" of FILTER function %s",
				   filter->inputs[filter->current_input].name, filter->signature);
}

/*
 * Fills the arguments of the call.  False: one of them is NULL and the function is strict.  If the number of fields
 * is wrong, raises an error in the words of core's COPY.
 */
static bool
read_arguments(ShardFilter *filter, char **fields, int nfields)
{
	bool		any_null = false;

	if (nfields > filter->ninputs)
		ereport(ERROR,
				(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				 errmsg("extra data after last expected column")));
	if (nfields < filter->ninputs)
		ereport(ERROR,
				(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				 errmsg("missing data for column \"%s\"", filter->inputs[nfields].name)));
	for (int i = 0; i < nfields; i++)
	{
		FilterInput *input = &filter->inputs[i];

		/* A NULL is converted, too: a domain may reject it. */
		filter->current_input = i;
		filter->fcinfo->args[i].value = InputFunctionCall(&input->function, fields[i], input->ioparam, -1);
		filter->fcinfo->args[i].isnull = fields[i] == NULL;
		any_null |= fields[i] == NULL;
	}
	filter->current_input = -1;
	return !any_null || !filter->function.fn_strict;
}

/* Prepares for a row type that the function has not returned before. */
static void
set_result_type(ShardFilter *filter, Oid type, int32 typmod)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(filter->cxt);
	TupleDesc	desc = lookup_rowtype_tupdesc(type, typmod);
	int		   *colnos = palloc(sizeof(int) * Max(filter->table_desc->natts, 1));
	char	   *reason = match_columns(filter->table_desc, desc, colnos);

	if (reason != NULL)
	{
		ReleaseTupleDesc(desc);
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("FILTER function %s returned a row that is none of \"%s\"",
						filter->signature, get_rel_name(filter->relid)),
				 errdetail_internal("%s", reason)));
	}
	for (int i = 0; i < filter->noutputs; i++)
		filter->outputs[i].colno = colnos[i];
	pfree(colnos);

	if (filter->result_desc != NULL)
	{
		FreeTupleDesc(filter->result_desc);
		pfree(filter->values);
		pfree(filter->isnull);
	}
	filter->result_desc = CreateTupleDescCopy(desc);
	filter->values = palloc(sizeof(Datum) * Max(desc->natts, 1));
	filter->isnull = palloc(sizeof(bool) * Max(desc->natts, 1));
	filter->result_type = type;
	filter->result_typmod = typmod;
	ReleaseTupleDesc(desc);
	MemoryContextSwitchTo(oldcxt);
}

/* Splits the row into filter->values. */
static void
take_row(ShardFilter *filter, Datum row)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(row);
	HeapTupleData tuple;

	if (filter->result_desc == NULL ||
		filter->result_type != HeapTupleHeaderGetTypeId(header) ||
		filter->result_typmod != HeapTupleHeaderGetTypMod(header))
		set_result_type(filter, HeapTupleHeaderGetTypeId(header), HeapTupleHeaderGetTypMod(header));
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, filter->result_desc, filter->values, filter->isnull);
}

static void
append_row(ShardFilter *filter, StringInfo out)
{
	for (int i = 0; i < filter->noutputs; i++)
	{
		FilterOutput *output = &filter->outputs[i];
		char	   *text;

		if (i > 0)
			appendStringInfoChar(out, '\t');
		if (filter->isnull[output->colno])
		{
			appendStringInfoString(out, "\\N");
			continue;
		}
		text = OutputFunctionCall(&output->function, filter->values[output->colno]);
		shard_encode_copy_text(out, text, strlen(text), '\t');
	}
	appendStringInfoChar(out, '\n');
}

/*
 * The same under settings that produce text without loss.  Output functions read the variables of the settings.
 * These are changed directly, which takes a thousandth of the time of SET.  They are changed only during the call, so
 * no other code sees the change.
 */
static void
append_row_exactly(ShardFilter *filter, StringInfo out)
{
	int			old_digits = extra_float_digits;
	int			old_style = DateStyle;

	if (old_digits > 0 && old_style == USE_ISO_DATES)
	{
		append_row(filter, out);
		return;
	}
	PG_TRY();
	{
		if (old_digits <= 0)
			extra_float_digits = 1;
		DateStyle = USE_ISO_DATES;
		append_row(filter, out);
	}
	PG_FINALLY();
	{
		extra_float_digits = old_digits;
		DateStyle = old_style;
	}
	PG_END_TRY();
}

bool
shard_filter_row(ShardFilter *filter, char **fields, int nfields, StringInfo out)
{
	MemoryContext oldcxt;
	ErrorContextCallback context;
	PgStat_FunctionCallUsage usage;
	Datum		row;
	bool		kept = false;

	MemoryContextReset(filter->row_cxt);
	oldcxt = MemoryContextSwitchTo(filter->row_cxt);
	filter->current_input = -1;
	context.callback = filter_context;
	context.arg = filter;
	context.previous = error_context_stack;
	error_context_stack = &context;

	if (read_arguments(filter, fields, nfields))
	{
		pgstat_init_function_usage(filter->fcinfo, &usage);
		filter->fcinfo->isnull = false;
		row = FunctionCallInvoke(filter->fcinfo);
		pgstat_end_function_usage(&usage, true);
		if (!filter->fcinfo->isnull)
		{
			take_row(filter, row);
			append_row_exactly(filter, out);
			kept = true;
		}
	}
	error_context_stack = context.previous;
	MemoryContextSwitchTo(oldcxt);
	return kept;
}
