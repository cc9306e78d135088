/*
 * state_check.c
 *	  Checks that bytes from a node are a serialized transition state that core can process.
 *
 * Core's deserialization functions were written for states of core's parallel workers.  They trust lengths and
 * counts, and some copy memory without checks.  A node may be hostile.  It may also have another major version than
 * at the time when its partial aggregates were compared with ours.  So this file checks everything that determines an
 * allocation, a loop or a pointer, against the format that this server's functions write.  A hostile node can still
 * return wrong values.
 *
 * Sources: src/backend/utils/adt/numeric.c, timestamp.c, varlena.c, array_userfuncs.c.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "agg/state.h"
#include "byte_order.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define NUMERIC_BASE		10000
#define NUMERIC_SIGN_POS	0x0000
#define NUMERIC_SIGN_NEG	0x4000

/* Sums of squares may have twice as many digits as a numeric. */
#define MAX_WEIGHT			0x20000
#define MAX_SCALE			0x8000
#define MAX_INTEGER_WEIGHT	9	/* 2^127 in base 10000 */

/* The unread part of a state. */
typedef struct StateReader
{
	const char *at;
	const char *end;
} StateReader;

static void malformed_state(void) __attribute__((noreturn));

static void
malformed_state(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("node returned a malformed partial aggregate"),
			 errhint("After the node's major version has changed: SELECT shardfdw.refresh_node(node) FROM shardfdw.nodes.")));
}

static const char *
read_bytes(StateReader *reader, int64 len)
{
	const char *result = reader->at;

	if (len < 0 || len > reader->end - reader->at)
		malformed_state();
	reader->at += len;
	return result;
}

static uint32
read_uint32(StateReader *reader)
{
	return shard_get_uint32(read_bytes(reader, sizeof(uint32)));
}

static uint16
read_uint16(StateReader *reader)
{
	return shard_get_uint16(read_bytes(reader, sizeof(uint16)));
}

static int64
read_int64(StateReader *reader)
{
	return (int64) shard_get_uint64(read_bytes(reader, sizeof(int64)));
}

/* Checks a number of values. */
static void
check_count(StateReader *reader)
{
	if (read_int64(reader) < 0)
		malformed_state();
}

/* Checks the format of numericvar_serialize. */
static void
check_numericvar(StateReader *reader, bool integer)
{
	int32		ndigits = (int32) read_uint32(reader);
	int32		weight = (int32) read_uint32(reader);
	uint32		sign = read_uint32(reader);
	uint32		dscale = read_uint32(reader);

	if (ndigits < 0 || weight < -MAX_WEIGHT || weight > MAX_WEIGHT ||
		(sign != NUMERIC_SIGN_POS && sign != NUMERIC_SIGN_NEG) || dscale > MAX_SCALE)
		malformed_state();
	if (integer && (dscale != 0 || (ndigits > 0 && (weight < 0 || weight > MAX_INTEGER_WEIGHT ||
													ndigits > weight + 1))))
		malformed_state();
	for (int32 i = 0; i < ndigits; i++)
	{
		if (read_uint16(reader) >= NUMERIC_BASE)
			malformed_state();
	}
}

/* Checks a sum in the state of an integer aggregate. */
static void
check_integer(StateReader *reader)
{
#if SHARD_INT8_STATE_INT128
	(void) read_bytes(reader, 16);
#else
	check_numericvar(reader, true);
#endif
}

/* Checks the fields after the sums in states of numeric: scale, and the counts of that scale, of NaN and infinities. */
static void
check_numeric_tail(StateReader *reader)
{
	if (read_uint32(reader) > MAX_SCALE)
		malformed_state();
	for (int i = 0; i < 4; i++)
		check_count(reader);
}

/* Checks the length of the first delimiter, then all values with their delimiters. */
static void
check_string_agg(StateReader *reader, bool is_text)
{
	int32		delimiter_len = (int32) read_uint32(reader);
	const char *delimiter = read_bytes(reader, delimiter_len);
	int			len = reader->end - reader->at;
	const char *data = read_bytes(reader, len);

	if (is_text)
	{
		(void) pg_verifymbstr(delimiter, delimiter_len, false);
		(void) pg_verifymbstr(data, len, false);
	}
}

/* Checks values in their in-memory form, for types whose functions rely on a range. */
static void
check_datum(Oid type, Datum value)
{
	switch (type)
	{
		case BOOLOID:
			if (value != BoolGetDatum(true) && value != BoolGetDatum(false))
				malformed_state();
			break;
		case DATEOID:
			{
				DateADT		date = DatumGetDateADT(value);

				if (!DATE_NOT_FINITE(date) && !IS_VALID_DATE(date))
					malformed_state();
				break;
			}
		case TIMEOID:
			{
				TimeADT		time = DatumGetTimeADT(value);

				if (time < 0 || time > USECS_PER_DAY)
					malformed_state();
				break;
			}
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			{
				Timestamp	timestamp = DatumGetTimestamp(value);

				if (!TIMESTAMP_NOT_FINITE(timestamp) && !IS_VALID_TIMESTAMP(timestamp))
					malformed_state();
				break;
			}
		default:
			break;
	}
}

/* Checks array_agg of values.  Receive functions read and check values that are passed by reference. */
static void
check_array_agg(StateReader *reader, Oid type)
{
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int64		nelems;
	const char *nulls;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	if (read_uint32(reader) != type)
		malformed_state();
	nelems = read_int64(reader);
	if (nelems < 0 || nelems > (int64) (MaxAllocSize / sizeof(Datum)) ||
		(int16) read_uint16(reader) != typlen ||
		*read_bytes(reader, 1) != (char) typbyval ||
		*read_bytes(reader, 1) != typalign)
		malformed_state();
	nulls = read_bytes(reader, nelems);
	for (int64 i = 0; i < nelems; i++)
	{
		if (nulls[i] != 0 && nulls[i] != 1)
			malformed_state();
		if (typbyval)
			continue;
		if (!nulls[i])
			(void) read_bytes(reader, (int32) read_uint32(reader));
	}
	if (!typbyval)
		return;
	for (int64 i = 0; i < nelems; i++)
	{
		Datum		value;

		memcpy(&value, read_bytes(reader, sizeof(Datum)), sizeof(Datum));
		if (!nulls[i])
			check_datum(type, value);
	}
}

/* Checks an element in an array's data, of a type that shard_state_format() allows.  Returns the end of the element. */
static const char *
check_element(const char *at, const char *end, Oid type, int16 typlen, bool typbyval)
{
	Size		size;

	if (typlen > 0)
	{
		if (typlen > end - at)
			malformed_state();
		if (typbyval)
			check_datum(type, fetch_att(at, true, typlen));
		return at + typlen;
	}

	/* no pointers to other memory, no compressed data */
	if (end - at < 1 || VARATT_IS_1B_E(at) ||
		(!VARATT_IS_1B(at) && (end - at < VARHDRSZ || !VARATT_IS_4B_U(at))))
		malformed_state();
	size = VARSIZE_ANY(at);
	if (size < (VARATT_IS_1B(at) ? VARHDRSZ_SHORT : VARHDRSZ) || size > (Size) (end - at))
		malformed_state();
	if (type != BYTEAOID)
		(void) pg_verifymbstr(VARDATA_ANY(at), VARSIZE_ANY_EXHDR(at), false);
	return at + size;
}

/* Checks array_agg of arrays, whose data are copied into the result unchanged. */
static void
check_arrays_agg(StateReader *reader, Oid array_type)
{
	Oid			element = get_element_type(array_type);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int32		nbytes;
	int32		abytes;
	int32		aitems;
	int32		nitems;
	int32		ndims;
	int			dims[MAXDIM];
	int			lbs[MAXDIM];
	const char *wire;
	const char *bitmap = NULL;
	char	   *data;
	const char *at;
	int64		product = 1;

	get_typlenbyvalalign(element, &typlen, &typbyval, &typalign);
	if (read_uint32(reader) != element || read_uint32(reader) != array_type)
		malformed_state();
	nbytes = (int32) read_uint32(reader);
	wire = read_bytes(reader, nbytes);
	abytes = (int32) read_uint32(reader);
	aitems = (int32) read_uint32(reader);
	if (abytes < nbytes || abytes > (int32) MaxAllocSize || aitems < 0)
		malformed_state();
	if (aitems > 0)
		bitmap = read_bytes(reader, ((int64) aitems + 7) / 8);
	nitems = (int32) read_uint32(reader);
	ndims = (int32) read_uint32(reader);
	memcpy(dims, read_bytes(reader, sizeof(dims)), sizeof(dims));
	memcpy(lbs, read_bytes(reader, sizeof(lbs)), sizeof(lbs));
	if (ndims < 1 || ndims > MAXDIM || nitems < 1 || (bitmap != NULL && nitems > aitems))
		malformed_state();
	for (int i = 0; i < ndims; i++)
	{
		if (dims[i] < 1 || (int64) lbs[i] + dims[i] > PG_INT32_MAX)
			malformed_state();
		product *= dims[i];
		if (product > nitems)
			malformed_state();
	}
	if (product != nitems)
		malformed_state();

	/* with the alignment of the result */
	data = palloc(Max(nbytes, 1));
	memcpy(data, wire, nbytes);
	at = data;
	for (int i = 0; i < nitems; i++)
	{
		if (bitmap != NULL && (bitmap[i / 8] & (1 << (i % 8))) == 0)
			continue;
		at = check_element(at, data + nbytes, element, typlen, typbyval);
		at = data + att_align_nominal(at - data, typalign);
		if (at > data + nbytes)
			malformed_state();
	}
	if (at != data + nbytes)
		malformed_state();
	pfree(data);
}

#ifdef F_ARRAY_AGG_DESERIALIZE
/* Can arrays of this type be checked byte by byte? */
static bool
is_plain_array(Oid type)
{
	Oid			element = get_element_type(type);

	if (!OidIsValid(element))
		return false;
	return get_typbyval(element) || element == TEXTOID || element == VARCHAROID ||
		element == BPCHAROID || element == BYTEAOID;
}
#endif

bool
shard_state_format(Oid deserialfn, Oid argtype, ShardStateFormat *format)
{
	*format = SHARD_STATE_UNKNOWN;
	switch (deserialfn)
	{
		case F_INT8_AVG_DESERIALIZE:
			*format = SHARD_STATE_INT8_AVG;
			break;
		case F_NUMERIC_AVG_DESERIALIZE:
			*format = SHARD_STATE_NUMERIC_AVG;
			break;
		case F_NUMERIC_POLY_DESERIALIZE:
			*format = SHARD_STATE_POLY;
			break;
		case F_NUMERIC_DESERIALIZE:
			*format = SHARD_STATE_NUMERIC;
			break;
#ifdef F_INTERVAL_AVG_DESERIALIZE
		case F_INTERVAL_AVG_DESERIALIZE:
			*format = SHARD_STATE_INTERVAL_AVG;
			break;
#endif
#ifdef F_STRING_AGG_DESERIALIZE
		case F_STRING_AGG_DESERIALIZE:
			*format = argtype == BYTEAOID ? SHARD_STATE_BYTES_AGG : SHARD_STATE_STRING_AGG;
			break;
#endif
#ifdef F_ARRAY_AGG_DESERIALIZE
		case F_ARRAY_AGG_DESERIALIZE:
			*format = SHARD_STATE_ARRAY_AGG;
			break;
		case F_ARRAY_AGG_ARRAY_DESERIALIZE:
			*format = SHARD_STATE_ARRAYS_AGG;
			return is_plain_array(argtype);
#endif
		default:
			break;
	}
	return true;
}

void
shard_state_check(ShardStateFormat format, Oid argtype, const char *data, int len)
{
	StateReader reader = {data, data + len};

	switch (format)
	{
		case SHARD_STATE_UNKNOWN:
			return;
		case SHARD_STATE_INT8_AVG:
			check_count(&reader);
			check_integer(&reader);
			break;
		case SHARD_STATE_NUMERIC_AVG:
			check_count(&reader);
			check_numericvar(&reader, false);
			check_numeric_tail(&reader);
			break;
		case SHARD_STATE_POLY:
			check_count(&reader);
			check_integer(&reader);
			check_integer(&reader);
			break;
		case SHARD_STATE_NUMERIC:
			check_count(&reader);
			check_numericvar(&reader, false);
			check_numericvar(&reader, false);
			check_numeric_tail(&reader);
			break;
		case SHARD_STATE_INTERVAL_AVG:
			/* N, the sum's time, day and month, then counts of infinities */
			check_count(&reader);
			(void) read_bytes(&reader, 16);
			check_count(&reader);
			check_count(&reader);
			break;
		case SHARD_STATE_STRING_AGG:
			check_string_agg(&reader, true);
			break;
		case SHARD_STATE_BYTES_AGG:
			check_string_agg(&reader, false);
			break;
		case SHARD_STATE_ARRAY_AGG:
			check_array_agg(&reader, argtype);
			break;
		case SHARD_STATE_ARRAYS_AGG:
			check_arrays_agg(&reader, argtype);
			break;
	}
	if (reader.at != reader.end)
		malformed_state();
}
