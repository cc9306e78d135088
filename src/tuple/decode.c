/*
 * decode.c
 *	  Decodes a row of bytes into a tuple slot.
 *
 * The operation for each column is chosen when the decoder is created (one ShardDecodeOp per column).
 * So the loop over rows is one switch per field: no look-up, no function manager for the common
 * types.
 *
 *	   ShardRow --> [op, target] per column --> slot->tts_values --> virtual tuple
 *
 * Assumptions: type_io.c has allowed every SHARD_OUTPUT_VALUE type.  The node has applied type
 * modifiers and domain constraints when it stored the values, so fast paths and domains do not
 * check them again.
 *
 * A node may be hostile.  Before a value is stored, lengths are checked against the type, text
 * against the database's encoding, dates and times against their ranges.  Receive and input
 * functions check the rest.  Receive functions get a private, NUL-terminated copy, since
 * array_recv() of 15 and 16 writes to its input.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "agg/state.h"
#include "byte_order.h"
#include "catalog/heap.h"
#include "compat.h"
#include "datatype/timestamp.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "tuple/decode.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "tuple/wire_form.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

typedef struct DecodeColumn
{
	ShardDecodeOp	op;
	int			target;			/* 0-based attribute of the slot; OP_SYSTEM: attribute number */
	int			colno;			/* first remote column */
	int			ncolumns;		/* number of remote columns */
	FmgrInfo	func;			/* OP_RECEIVE, OP_INPUT, OP_JSONB */
	Oid			ioparam;
	int32		typmod;
	int			text_settings;	/* OP_INPUT: settings on which the text depends */
	ShardStateFormat format;	/* OP_STATE, with the aggregated type in ioparam */
} DecodeColumn;

struct ShardDecoder
{
	TupleDesc	desc;
	DecodeColumn *columns;
	int			ncolumns;
	int			nremote;
	bool		has_styled_text;	/* some text depends on the styles of dates, intervals or floats */
	int		   *absent;			/* attributes without a column */
	int			nabsent;
	StringInfoData scratch;		/* copy of one field */

	/* system columns of the last row that a slot cannot hold */
	bool		has_header;		/* there are some */
	TransactionId xmin;
	TransactionId xmax;
	CommandId	cid;			/* cmin and cmax, as in a heap tuple */

	/* for the error context */
	DecodeColumn *current;
	const char *node;			/* source of the rows; NULL: unknown */
	const char *label;
};

static void
init_column(DecodeColumn *column, const ShardOutput *output)
{
	Oid			type = output->type;
	const ShardWireForm *form;
	Oid			func;

	column->ncolumns = shard_output_ncolumns(output->kind);
	column->target = output->target;
	column->typmod = output->typmod;
	switch (output->kind)
	{
		case SHARD_OUTPUT_VALUE:
			if (!shard_type_io_binary_output(type))
				elog(ERROR, "type %u has no portable binary form", type);
			type = getBaseTypeAndTypmod(type, &column->typmod);
			form = shard_wire_form(type);
			/* the binary form of an enum is its label */
			column->op = form != NULL ? form->decode : get_typtype(type) == TYPTYPE_ENUM ? OP_INPUT : OP_RECEIVE;
			break;
		case SHARD_OUTPUT_TEXT:
			column->op = OP_INPUT;
			column->text_settings = shard_type_io_text_settings(type);
			break;
		case SHARD_OUTPUT_SYSTEM:
			column->op = OP_SYSTEM;
			break;
		case SHARD_OUTPUT_INT8_SUM:
			column->op = OP_INT8_SUM;
			break;
		case SHARD_OUTPUT_NUMERIC_SUM:
			column->op = OP_NUMERIC_SUM;
			break;
		case SHARD_OUTPUT_INTERVAL_SUM:
			column->op = OP_INTERVAL_SUM;
			break;
		case SHARD_OUTPUT_POLY_VARIANCE:
			column->op = OP_POLY_VARIANCE;
			break;
		case SHARD_OUTPUT_NUMERIC_VARIANCE:
			column->op = OP_NUMERIC_VARIANCE;
			break;
		case SHARD_OUTPUT_STATE:
			column->op = OP_STATE;
			column->format = (ShardStateFormat) output->typmod;
			column->ioparam = type;
			break;
	}

	if (column->op == OP_RECEIVE)
		getTypeBinaryInputInfo(type, &func, &column->ioparam);
	else if (column->op == OP_INPUT || column->op == OP_JSONB)
		getTypeInputInfo(type, &func, &column->ioparam);
	else
		return;
	fmgr_info(func, &column->func);
}

ShardDecoder *
shard_decode_create(TupleDesc desc, const ShardOutput *outputs, int noutputs)
{
	ShardDecoder *decoder = palloc0(sizeof(ShardDecoder));
	bool	   *present = palloc0(sizeof(bool) * Max(desc->natts, 1));

	decoder->desc = desc;
	decoder->ncolumns = noutputs;
	decoder->columns = palloc0(sizeof(DecodeColumn) * Max(noutputs, 1));
	for (int i = 0; i < noutputs; i++)
	{
		DecodeColumn *column = &decoder->columns[i];

		init_column(column, &outputs[i]);
		column->colno = decoder->nremote;
		decoder->nremote += column->ncolumns;
		decoder->has_styled_text |= outputs[i].kind == SHARD_OUTPUT_TEXT &&
			(column->text_settings & SHARD_TEXT_STYLED) != 0;
		if (column->op == OP_SYSTEM)
		{
			decoder->has_header |= column->target != SelfItemPointerAttributeNumber;
			continue;
		}
		if (column->target < 0 || column->target >= desc->natts)
			elog(ERROR, "attribute %d of a decoder is out of range", column->target);
		present[column->target] = true;
	}

	decoder->absent = palloc(sizeof(int) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		if (!present[i])
			decoder->absent[decoder->nabsent++] = i;
	}
	pfree(present);
	initStringInfo(&decoder->scratch);
	return decoder;
}

bool
shard_decode_has_styled_text(const ShardDecoder *decoder)
{
	return decoder->has_styled_text;
}

int
shard_decode_nremote(const ShardDecoder *decoder)
{
	return decoder->nremote;
}

static void
decode_error_context(void *arg)
{
	ShardDecoder *decoder = arg;
	DecodeColumn *column = decoder->current;
	const char *name = "";
	const char *source = "a node";

	if (column && column->op == OP_SYSTEM)
		name = NameStr(SystemAttributeDefinition(column->target)->attname);
	else if (column)
		name = NameStr(TupleDescAttr(decoder->desc, column->target)->attname);

	if (decoder->node)
		source = psprintf("node \"%s\", shard %s", decoder->node, decoder->label);
	if (name[0] != '\0')
		errcontext("column \"%s\" of a row from %s", name, source);
	else if (column)
		errcontext("column %d of a row from %s", column->colno + 1, source);
	else
		errcontext("row from %s", source);
}

void
shard_decode_set_source(ShardDecoder *decoder, const char *node, const char *label)
{
	decoder->node = node;
	decoder->label = label;
}

static void
malformed_field(int len)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("node returned a value of unexpected length %d", len),
			 errhint("The column may have another type on the node.")));
}

static void
out_of_range(const char *type)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("%s out of range", type)));
}

static inline void
check_length(int len, int expected)
{
	if (unlikely(len != expected))
		malformed_field(len);
}

/*
 * Raises if the bytes are not text in the database's encoding.  ASCII without NUL is valid in every
 * server encoding, and is checked eight bytes at a time.  Core checks the rest.
 */
static inline void
verify_text(const char *value, int len)
{
	const uint64 high = UINT64CONST(0x8080808080808080);
	const uint64 ones = UINT64CONST(0x0101010101010101);
	uint64		bad = 0;
	int			i = 0;

	for (; i + 8 <= len; i += 8)
	{
		uint64		chunk;

		memcpy(&chunk, value + i, sizeof(chunk));
		/* among bytes below 0x80, subtracting one sets the high bit only of zero */
		bad |= (chunk | (chunk - ones)) & high;
	}
	for (; i < len; i++)
	{
		if (value[i] == '\0' || IS_HIGHBIT_SET(value[i]))
			bad = high;
	}
	if (unlikely(bad != 0))
		(void) pg_verifymbstr(value, len, false);
}

static inline Datum
make_varlena(const char *value, int len)
{
	struct varlena *result = palloc(len + VARHDRSZ);

	SET_VARSIZE(result, len + VARHDRSZ);
	memcpy(VARDATA(result), value, len);
	return PointerGetDatum(result);
}

static Datum
decode_name(const char *value, int len)
{
	Name		name;

	if (len >= NAMEDATALEN)
		malformed_field(len);
	verify_text(value, len);
	name = palloc0(NAMEDATALEN);
	memcpy(NameStr(*name), value, len);
	return NameGetDatum(name);
}

static Datum
decode_uuid(const char *value, int len)
{
	pg_uuid_t  *uuid;

	check_length(len, UUID_LEN);
	uuid = palloc(sizeof(pg_uuid_t));
	memcpy(uuid->data, value, UUID_LEN);
	return UUIDPGetDatum(uuid);
}

static Datum
decode_date(const char *value, int len)
{
	DateADT		date;

	check_length(len, 4);
	date = (DateADT) shard_get_uint32(value);
	if (!DATE_NOT_FINITE(date) && !IS_VALID_DATE(date))
		out_of_range("date");
	return DateADTGetDatum(date);
}

static Datum
decode_time(const char *value, int len)
{
	TimeADT		time;

	check_length(len, 8);
	time = (TimeADT) shard_get_uint64(value);
	if (time < 0 || time > USECS_PER_DAY)
		out_of_range("time");
	return TimeADTGetDatum(time);
}

static Datum
decode_timestamp(const char *value, int len)
{
	Timestamp	timestamp;

	check_length(len, 8);
	timestamp = (Timestamp) shard_get_uint64(value);
	if (!TIMESTAMP_NOT_FINITE(timestamp) && !IS_VALID_TIMESTAMP(timestamp))
		out_of_range("timestamp");
	return TimestampGetDatum(timestamp);
}

static Datum
decode_float4(const char *value, int len)
{
	union
	{
		uint32		bits;
		float4		number;
	}			swap;

	check_length(len, 4);
	swap.bits = shard_get_uint32(value);
	return Float4GetDatum(swap.number);
}

static Datum
decode_float8(const char *value, int len)
{
	union
	{
		uint64		bits;
		float8		number;
	}			swap;

	check_length(len, 8);
	swap.bits = shard_get_uint64(value);
	return Float8GetDatum(swap.number);
}

/* Copies the field's bytes to scratch, NUL-terminated. */
static StringInfo
copy_field(ShardDecoder *decoder, const char *value, int len)
{
	resetStringInfo(&decoder->scratch);
	appendBinaryStringInfo(&decoder->scratch, value, len);
	return &decoder->scratch;
}

static Datum
decode_by_receive(ShardDecoder *decoder, DecodeColumn *column, const char *value, int len)
{
	StringInfo	buf = copy_field(decoder, value, len);
	Datum		result = ReceiveFunctionCall(&column->func, buf, column->ioparam, column->typmod);

	if (buf->cursor != buf->len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("incorrect binary data format")));
	return result;
}

static Datum
decode_by_input(ShardDecoder *decoder, DecodeColumn *column, const char *value, int len)
{
	int			nestlevel;
	Datum		result;

	if (column->op == OP_JSONB)
	{
		if (len < 1 || value[0] != 1)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("node returned jsonb of an unsupported version")));
		value++;
		len--;
	}
	verify_text(value, len);
	nestlevel = shard_text_form_begin_read(column->text_settings);
	result = InputFunctionCall(&column->func, copy_field(decoder, value, len)->data,
							   column->ioparam, column->typmod);
	shard_text_form_end(nestlevel);
	return result;
}

static void
decode_system(ShardDecoder *decoder, AttrNumber attno, const char *value, int len, TupleTableSlot *slot)
{
	check_length(len, attno == SelfItemPointerAttributeNumber ? 6 : 4);
	switch (attno)
	{
		case SelfItemPointerAttributeNumber:
			/* block number, then offset */
			ItemPointerSet(&slot->tts_tid, shard_get_uint32(value), shard_get_uint16(value + 4));
			break;
		case MinTransactionIdAttributeNumber:
			decoder->xmin = shard_get_uint32(value);
			break;
		case MaxTransactionIdAttributeNumber:
			decoder->xmax = shard_get_uint32(value);
			break;
		case MinCommandIdAttributeNumber:
		case MaxCommandIdAttributeNumber:
			decoder->cid = shard_get_uint32(value);
			break;
		default:
			elog(ERROR, "unexpected system column %d", attno);
	}
}

/* Converts count and sums to a serialized state. */
static Datum
decode_state(DecodeColumn *column, const ShardRow *row)
{
	const char *sum = row->values[column->colno + 1];
	int			sumlen = row->lens[column->colno + 1];
	ShardWireValue sums[2];
	int64		count;

	check_length(row->lens[column->colno], 8);
	count = (int64) shard_get_uint64(row->values[column->colno]);
	for (int i = 1; i < column->ncolumns; i++)
	{
		sums[i - 1].data = row->values[column->colno + i];
		sums[i - 1].len = row->lens[column->colno + i];
	}
	switch (column->op)
	{
		case OP_POLY_VARIANCE:
			return PointerGetDatum(shard_state_poly_variance(count, sums[0], sums[1]));
		case OP_NUMERIC_VARIANCE:
			return PointerGetDatum(shard_state_numeric_variance(count, sums[0], sums[1]));
		case OP_INT8_SUM:
			return PointerGetDatum(shard_state_int8_sum(count, sum, sumlen));
		case OP_NUMERIC_SUM:
			return PointerGetDatum(shard_state_numeric_sum(count, sum, sumlen));
		default:
			return PointerGetDatum(shard_state_interval_sum(count, sum, sumlen));
	}
}

/* Decodes one field that is not NULL. */
static inline Datum
decode_field(ShardDecoder *decoder, DecodeColumn *column, const ShardRow *row,
			 const char *value, int len)
{
	switch (column->op)
	{
		case OP_BOOL:
			check_length(len, 1);
			return BoolGetDatum(value[0] != 0);
		case OP_CHAR:
			check_length(len, 1);
			return CharGetDatum(value[0]);
		case OP_INT2:
			check_length(len, 2);
			return Int16GetDatum((int16) shard_get_uint16(value));
		case OP_INT4:
			check_length(len, 4);
			return Int32GetDatum((int32) shard_get_uint32(value));
		case OP_INT8:
			check_length(len, 8);
			return Int64GetDatum((int64) shard_get_uint64(value));
		case OP_UINT4:
			check_length(len, 4);
			return UInt32GetDatum(shard_get_uint32(value));
		case OP_UINT8:
			check_length(len, 8);
			return UInt64GetDatum(shard_get_uint64(value));
		case OP_FLOAT4:
			return decode_float4(value, len);
		case OP_FLOAT8:
			return decode_float8(value, len);
		case OP_DATE:
			return decode_date(value, len);
		case OP_TIME:
			return decode_time(value, len);
		case OP_TIMESTAMP:
			return decode_timestamp(value, len);
		case OP_UUID:
			return decode_uuid(value, len);
		case OP_TEXT:
			verify_text(value, len);
			return make_varlena(value, len);
		case OP_BYTES:
			return make_varlena(value, len);
		case OP_NAME:
			return decode_name(value, len);
		case OP_RECEIVE:
			return decode_by_receive(decoder, column, value, len);
		case OP_JSONB:
		case OP_INPUT:
			return decode_by_input(decoder, column, value, len);
		case OP_INT8_SUM:
		case OP_NUMERIC_SUM:
		case OP_INTERVAL_SUM:
		case OP_POLY_VARIANCE:
		case OP_NUMERIC_VARIANCE:
			return decode_state(column, row);
		case OP_STATE:
			shard_state_check(column->format, column->ioparam, value, len);
			return make_varlena(value, len);
		case OP_SYSTEM:
			break;				/* not an attribute */
	}
	elog(ERROR, "unrecognized decoding operation: %d", (int) column->op);
	return (Datum) 0;
}

void
shard_decode_row(ShardDecoder *decoder, const ShardRow *row,
				 TupleTableSlot *slot, MemoryContext cxt)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;
	ErrorContextCallback errcallback;

	ExecClearTuple(slot);

	decoder->current = NULL;
	errcallback.callback = decode_error_context;
	errcallback.arg = decoder;
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;

	if (unlikely(row->ncols != decoder->nremote))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("node returned %d columns where %d were expected",
						row->ncols, decoder->nremote)));

	for (int i = 0; i < decoder->ncolumns; i++)
	{
		DecodeColumn *column = &decoder->columns[i];
		const char *value = row->values[column->colno];
		int			len = row->lens[column->colno];

		decoder->current = column;
		if (column->op == OP_SYSTEM)
			decode_system(decoder, column->target, value, len, slot);
		else if (len < 0)
		{
			values[column->target] = (Datum) 0;
			isnull[column->target] = true;
		}
		else
		{
			values[column->target] = decode_field(decoder, column, row, value, len);
			isnull[column->target] = false;
		}
	}
	for (int i = 0; i < decoder->nabsent; i++)
	{
		values[decoder->absent[i]] = (Datum) 0;
		isnull[decoder->absent[i]] = true;
	}

	error_context_stack = errcallback.previous;
	MemoryContextSwitchTo(oldcxt);
	ExecStoreVirtualTuple(slot);
}

bool
shard_decode_has_header(const ShardDecoder *decoder)
{
	return decoder->has_header;
}

/*
 * Also sets the ctid in the tuple's header.  The header keeps it if the row becomes a composite value (EvalPlanQual).
 */
void
shard_decode_add_header(const ShardDecoder *decoder, TupleTableSlot *slot, MemoryContext cxt)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	HeapTuple	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);

	tuple->t_self = tuple->t_data->t_ctid = slot->tts_tid;
	HeapTupleHeaderSetXmin(tuple->t_data, decoder->xmin);
	HeapTupleHeaderSetXmax(tuple->t_data, decoder->xmax);
	HeapTupleHeaderSetCmin(tuple->t_data, decoder->cid);
	MemoryContextSwitchTo(oldcxt);
	ExecStoreHeapTuple(tuple, slot, false);
}
