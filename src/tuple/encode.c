/*
 * encode.c
 *	  Encodes a tuple slot as a COPY row, or as text parameters.
 *
 * A row is binary if every column has a binary form that nodes of all majors read in the same way.
 * Otherwise the whole row is a line of COPY text.  Each column gets an operation when the encoder
 * is created.  A row is encoded in one pass over them with a switch, which writes directly into the
 * buffer:
 *
 *	 slot --> [opcode, attribute] per column --> network order bytes | text line
 *
 * Core's send functions for text-like types convert to the client's encoding.  But a node's session
 * has this database's encoding as client_encoding.  So this file writes these types, and arrays of
 * them, with its own code, without conversion.
 *
 * Text forms are those that sessions with any settings read in the same way (text_form.c).
 *
 * Memory: values are detoasted and converted in the current context, which the caller must reset
 * for each row.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "port/pg_bswap.h"
#include "tuple/encode.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "tuple/wire_form.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

typedef struct EncodeColumn
{
	ShardEncodeOp	op;
	bool		has_op;			/* false: only COPY text */
	bool		raw_text;		/* the payload is the text form */
	int			attidx;			/* 0-based position in the slot */
	int			len;			/* ENCODE_FIXED: bytes */
	Oid			type;			/* for a domain, its base type */

	/* ENCODE_ARRAY */
	struct EncodeColumn *element;
	int16		elem_len;
	bool		elem_byval;
	char		elem_align;

	FmgrInfo	send;			/* ENCODE_SEND, ENCODE_ENUM */
	FmgrInfo	output;			/* text form; set up by prepare_output() */
} EncodeColumn;

struct ShardEncoder
{
	bool		binary;
	bool		output_ready;
	int			text_settings;	/* settings on which the text forms depend */
	MemoryContext cxt;			/* the encoder's context */
	int			natts;
	int			last_attno;		/* highest attribute number in use */
	Size		fixed_bytes;	/* room for the fixed parts of a row */
	EncodeColumn *columns;
};

/*
 * Chooses the operation for values of a type.  False if the type has no binary form that can be
 * sent.
 */
static bool
choose_op(EncodeColumn *col, Oid type, bool is_element)
{
	const ShardWireForm *form = shard_wire_form(type);
	Oid			element;
	Oid			sendfn;
	bool		varlena;

	col->type = type;
	if (form != NULL)
	{
		col->op = form->encode;
		col->raw_text = form->is_text && form->encode == ENCODE_VARLENA;
		col->len = get_typlen(type);
		if (form->encode == ENCODE_SEND)
		{
			getTypeBinaryOutputInfo(type, &sendfn, &varlena);
			fmgr_info(sendfn, &col->send);
		}
		return true;
	}

	/* array_recv() checks the element's OID, which is the same on all servers only for built-in types */
	element = is_element ? InvalidOid : shard_type_io_element(type);
	if (OidIsValid(element))
	{
		if (element >= FirstGenbkiObjectId)
			return false;
		col->element = palloc0(sizeof(EncodeColumn));
		if (!choose_op(col->element, element, true))
			return false;
		get_typlenbyvalalign(element, &col->elem_len, &col->elem_byval, &col->elem_align);
		col->op = ENCODE_ARRAY;
		return true;
	}

	if (is_element || !type_is_enum(type))
		return false;
	fmgr_info(F_ENUM_OUT, &col->send);
	col->op = ENCODE_ENUM;
	return true;
}

/* Returns the room for the length word and the value, as far as known without the value. */
static Size
fixed_size(const EncodeColumn *col)
{
	/* 16 is enough for every fixed-width operation */
	return sizeof(int32) + (col->op == ENCODE_FIXED ? col->len : 16);
}

ShardEncoder *
shard_encode_create(TupleDesc desc, const AttrNumber *attnos, int natts)
{
	ShardEncoder *encoder = palloc0(sizeof(ShardEncoder));

	encoder->cxt = CurrentMemoryContext;
	encoder->binary = true;
	encoder->natts = natts;
	encoder->columns = palloc0(sizeof(EncodeColumn) * Max(natts, 1));
	encoder->fixed_bytes = sizeof(int16);

	for (int i = 0; i < natts; i++)
	{
		EncodeColumn *col = &encoder->columns[i];
		Form_pg_attribute att = TupleDescAttr(desc, attnos[i] - 1);

		Assert(!att->attisdropped);
		col->attidx = attnos[i] - 1;
		col->has_op = choose_op(col, getBaseType(att->atttypid), false);
		if (!col->has_op)
			encoder->binary = false;
		encoder->last_attno = Max(encoder->last_attno, attnos[i]);
		encoder->fixed_bytes += fixed_size(col);
		encoder->text_settings |= shard_type_io_text_settings(col->type);
	}
	return encoder;
}

ShardEncoder *
shard_encode_create_list(TupleDesc desc, const List *attnos)
{
	AttrNumber *numbers = palloc(sizeof(AttrNumber) * Max(list_length(attnos), 1));
	ListCell   *lc;

	foreach(lc, attnos)
		numbers[foreach_current_index(lc)] = (AttrNumber) lfirst_int(lc);
	return attnos == NIL ? NULL : shard_encode_create(desc, numbers, list_length(attnos));
}

bool
shard_encode_is_binary(const ShardEncoder *encoder)
{
	return encoder->binary;
}

void
shard_encode_use_text(ShardEncoder *encoder)
{
	encoder->binary = false;
}

/* ---- the buffer ---- */

/* Makes room for n bytes after p, and returns p's position in the buffer, which may have moved. */
static inline char *
reserve(StringInfo buf, char *p, Size n)
{
	if (likely(n < (Size) (buf->data + buf->maxlen - p)))
		return p;
	buf->len = p - buf->data;
	if (n > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too large to be sent to a node")));
	enlargeStringInfo(buf, (int) n);
	return buf->data + buf->len;
}

static inline char *
put_int16(char *p, int16 value)
{
	uint16		n = pg_hton16((uint16) value);

	memcpy(p, &n, sizeof(n));
	return p + sizeof(n);
}

static inline char *
put_int32(char *p, int32 value)
{
	uint32		n = pg_hton32((uint32) value);

	memcpy(p, &n, sizeof(n));
	return p + sizeof(n);
}

static inline char *
put_int64(char *p, int64 value)
{
	uint64		n = pg_hton64((uint64) value);

	memcpy(p, &n, sizeof(n));
	return p + sizeof(n);
}

/* Writes a length word and len bytes, and keeps room for rest bytes after them. */
static inline char *
put_bytes(StringInfo buf, char *p, const char *data, Size len, Size rest)
{
	p = reserve(buf, p, sizeof(int32) + len + rest);
	p = put_int32(p, (int32) len);
	memcpy(p, data, len);
	return p + len;
}

/* ---- COPY BINARY ---- */

static char *encode_array(const EncodeColumn *col, Datum value, StringInfo buf, char *p, Size rest);

/*
 * Writes one value that is not NULL, after its length word.  On entry there is room for
 * fixed_size(col) + rest bytes, on return for rest bytes.
 */
static inline char *
encode_value(EncodeColumn *col, Datum value, StringInfo buf, char *p, Size rest)
{
	switch (col->op)
	{
		case ENCODE_BYTE:
			p = put_int32(p, 1);
			*p++ = DatumGetChar(value);
			return p;

		case ENCODE_INT2:
			p = put_int32(p, sizeof(int16));
			return put_int16(p, DatumGetInt16(value));

		case ENCODE_INT4:
			/* float4 has the same bits in a Datum */
			p = put_int32(p, sizeof(int32));
			return put_int32(p, DatumGetInt32(value));

		case ENCODE_INT8:
			p = put_int32(p, sizeof(int64));
			return put_int64(p, DatumGetInt64(value));

		case ENCODE_FIXED:
			p = put_int32(p, col->len);
			memcpy(p, DatumGetPointer(value), col->len);
			return p + col->len;

		case ENCODE_VARLENA:
			{
				struct varlena *v = PG_DETOAST_DATUM_PACKED(value);

				return put_bytes(buf, p, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), rest);
			}

		case ENCODE_NAME:
			{
				const char *name = NameStr(*DatumGetName(value));

				return put_bytes(buf, p, name, strlen(name), rest);
			}

		case ENCODE_JSONB:
			{
				Jsonb	   *jb = DatumGetJsonbP(value);
				char	   *text = JsonbToCString(NULL, &jb->root, VARSIZE(jb));
				Size		len = strlen(text);

				p = reserve(buf, p, sizeof(int32) + 1 + len + rest);
				p = put_int32(p, (int32) (len + 1));
				*p++ = 1;		/* version of the format */
				memcpy(p, text, len);
				return p + len;
			}

		case ENCODE_TIMETZ:
			{
				TimeTzADT  *t = DatumGetTimeTzADTP(value);

				p = put_int32(p, sizeof(int64) + sizeof(int32));
				p = put_int64(p, t->time);
				return put_int32(p, t->zone);
			}

		case ENCODE_INTERVAL:
			{
				Interval   *span = DatumGetIntervalP(value);

				p = put_int32(p, sizeof(int64) + 2 * sizeof(int32));
				p = put_int64(p, span->time);
				p = put_int32(p, span->day);
				return put_int32(p, span->month);
			}

		case ENCODE_ENUM:
			{
				const char *label = OutputFunctionCall(&col->send, value);

				return put_bytes(buf, p, label, strlen(label), rest);
			}

		case ENCODE_ARRAY:
			return encode_array(col, value, buf, p, rest);

		case ENCODE_SEND:
			{
				bytea	   *bytes = SendFunctionCall(&col->send, value);

				return put_bytes(buf, p, VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ, rest);
			}
	}
	pg_unreachable();
}

/* Like array_send(), but encode_value() writes the elements. */
static char *
encode_array(const EncodeColumn *col, Datum value, StringInfo buf, char *p, Size rest)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int			ndim = ARR_NDIM(array);
	EncodeColumn *element = col->element;
	Size		element_room = fixed_size(element);
	Size		length_at;
	Datum	   *values;
	bool	   *nulls;
	int			nvalues;

	deconstruct_array(array, element->type, col->elem_len, col->elem_byval, col->elem_align,
					  &values, &nulls, &nvalues);

	p = reserve(buf, p, sizeof(int32) * (4 + 2 * ndim) + element_room + rest);
	length_at = p - buf->data;
	p += sizeof(int32);
	p = put_int32(p, ndim);
	p = put_int32(p, ARR_HASNULL(array) ? 1 : 0);
	p = put_int32(p, element->type);
	for (int i = 0; i < ndim; i++)
	{
		p = put_int32(p, ARR_DIMS(array)[i]);
		p = put_int32(p, ARR_LBOUND(array)[i]);
	}
	for (int i = 0; i < nvalues; i++)
	{
		p = reserve(buf, p, element_room + rest);
		if (nulls[i])
			p = put_int32(p, -1);
		else
			p = encode_value(element, values[i], buf, p, rest);
	}
	p = reserve(buf, p, rest);
	put_int32(buf->data + length_at,
			  (int32) ((p - buf->data) - length_at - sizeof(int32)));
	return p;
}

static void
encode_binary(ShardEncoder *encoder, TupleTableSlot *slot, StringInfo buf)
{
	Size		rest = encoder->fixed_bytes;
	char	   *p = reserve(buf, buf->data + buf->len, rest);
	EncodeColumn *col = encoder->columns;
	EncodeColumn *end = col + encoder->natts;
	const Datum *values = slot->tts_values;
	const bool *nulls = slot->tts_isnull;

	p = put_int16(p, (int16) encoder->natts);
	for (; col < end; col++)
	{
		if (unlikely(nulls[col->attidx]))
			p = put_int32(p, -1);
		else
			p = encode_value(col, values[col->attidx], buf, p, rest);
	}
	*p = '\0';
	buf->len = p - buf->data;
}

/* ---- text ---- */

/* Looks up the output functions, once per encoder. */
static void
prepare_output(ShardEncoder *encoder)
{
	if (encoder->output_ready)
		return;
	for (int i = 0; i < encoder->natts; i++)
	{
		EncodeColumn *col = &encoder->columns[i];

		shard_text_form_init(&col->output, col->type, encoder->cxt);
	}
	encoder->output_ready = true;
}

void
shard_encode_copy_text(StringInfo buf, const char *data, Size len, char delim)
{
	char	   *p;

	/* server encodings have no ASCII byte inside a longer character */
	p = reserve(buf, buf->data + buf->len, 2 * len + 1);
	for (const char *end = data + len; data < end; data++)
	{
		char		c = *data;

		if (unlikely(c == '\\' || (c >= '\b' && c <= '\r') || c == delim))
		{
			*p++ = '\\';
			switch (c)
			{
				case '\b':
					c = 'b';
					break;
				case '\t':
					c = 't';
					break;
				case '\n':
					c = 'n';
					break;
				case '\v':
					c = 'v';
					break;
				case '\f':
					c = 'f';
					break;
				case '\r':
					c = 'r';
					break;
				default:
					break;
			}
		}
		*p++ = c;
	}
	*p = '\0';
	buf->len = p - buf->data;
}

static void
append_text_value(EncodeColumn *col, Datum value, StringInfo buf)
{
	if (col->raw_text)
	{
		struct varlena *v = PG_DETOAST_DATUM_PACKED(value);

		shard_encode_copy_text(buf, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), '\t');
	}
	else
	{
		const char *text = shard_text_form_write(&col->output, col->type, value);

		shard_encode_copy_text(buf, text, strlen(text), '\t');
	}
}

static void
encode_text(ShardEncoder *encoder, TupleTableSlot *slot, StringInfo buf)
{
	int			nestlevel;

	prepare_output(encoder);
	nestlevel = shard_text_form_begin_write(encoder->text_settings);
	for (int i = 0; i < encoder->natts; i++)
	{
		EncodeColumn *col = &encoder->columns[i];

		if (i > 0)
			appendStringInfoCharMacro(buf, '\t');
		if (slot->tts_isnull[col->attidx])
			appendBinaryStringInfo(buf, "\\N", 2);
		else
			append_text_value(col, slot->tts_values[col->attidx], buf);
	}
	appendStringInfoCharMacro(buf, '\n');
	shard_text_form_end(nestlevel);
}

void
shard_encode_row(ShardEncoder *encoder, TupleTableSlot *slot, StringInfo buf)
{
	slot_getsomeattrs(slot, encoder->last_attno);
	if (encoder->binary)
		encode_binary(encoder, slot, buf);
	else
		encode_text(encoder, slot, buf);
}

void
shard_encode_params(ShardEncoder *encoder, TupleTableSlot *slot, const char **params)
{
	int			nestlevel;

	prepare_output(encoder);
	slot_getsomeattrs(slot, encoder->last_attno);
	nestlevel = shard_text_form_begin_write(encoder->text_settings);
	for (int i = 0; i < encoder->natts; i++)
	{
		EncodeColumn *col = &encoder->columns[i];

		if (slot->tts_isnull[col->attidx])
			params[i] = NULL;
		else
			params[i] = shard_text_form_write(&col->output, col->type,
											  slot->tts_values[col->attidx]);
	}
	shard_text_form_end(nestlevel);
}
