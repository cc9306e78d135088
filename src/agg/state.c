/*
 * state.c
 *	  Builds serialized transition states (of type internal) of sum, avg, stddev and variance.
 *
 * The node returns count(x) and sum(x), and for stddev and variance also sum(x * x).  The coordinator writes what
 * core's serialization function would write for a group with that count and these sums.  Formats: int8_avg_serialize
 * and numeric_avg_serialize of src/backend/utils/adt/numeric.c, interval_avg_serialize of timestamp.c.
 *
 * maxScaleCount, which only moving aggregates read, is set to the count.  The number of values with the largest scale
 * is neither known nor needed.
 *
 * Sums come from a node, which may be hostile.  Core's deserialization functions do not check their input, so this
 * file checks everything.
 */
#include "postgres.h"

#include "agg/state.h"
#include "byte_order.h"
#include "compat.h"
#include "libpq/pqformat.h"

/* Binary form of numeric: a header of four int16, then base-10000 digits */
#define WIRE_HEADER_BYTES	8
#define WIRE_BASE			10000
#define WIRE_MAX_DSCALE		0x3FFF
#define WIRE_POS			0x0000
#define WIRE_NEG			0x4000
#define WIRE_NAN			0xC000
#define WIRE_PINF			0xD000
#define WIRE_NINF			0xF000

typedef struct WireNumeric
{
	int			ndigits;
	int			weight;
	int			sign;
	int			dscale;
	const char *digits;			/* ndigits int16 in network byte order */
} WireNumeric;

static void
malformed_sum(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("node returned a malformed partial aggregate")));
}

static void
wire_parse(const char *data, int len, WireNumeric *num)
{
	if (len < WIRE_HEADER_BYTES)
		malformed_sum();
	num->ndigits = shard_get_uint16(data);
	num->weight = (int16) shard_get_uint16(data + 2);
	num->sign = shard_get_uint16(data + 4);
	num->dscale = shard_get_uint16(data + 6);
	num->digits = data + WIRE_HEADER_BYTES;

	if (len != WIRE_HEADER_BYTES + 2 * num->ndigits || num->dscale > WIRE_MAX_DSCALE)
		malformed_sum();
	switch (num->sign)
	{
		case WIRE_POS:
		case WIRE_NEG:
			break;
		case WIRE_NAN:
		case WIRE_PINF:
		case WIRE_NINF:
			num->ndigits = 0;
			break;
		default:
			malformed_sum();
	}
	for (int i = 0; i < num->ndigits; i++)
	{
		if (shard_get_uint16(num->digits + 2 * i) >= WIRE_BASE)
			malformed_sum();
	}
}

/* Like numericvar_serialize, for finite values only. */
static void
put_numericvar(StringInfo buf, const WireNumeric *num)
{
	pq_sendint32(buf, num->ndigits);
	pq_sendint32(buf, num->weight);
	pq_sendint32(buf, num->sign);
	pq_sendint32(buf, num->dscale);
	pq_sendbytes(buf, num->digits, 2 * num->ndigits);
}

#if SHARD_INT8_STATE_INT128
/* Writes an integer as a 128-bit two's complement number, high half first.  32-bit limbs avoid compiler extensions. */
static void
put_int128(StringInfo buf, const WireNumeric *num)
{
	uint32		limbs[4] = {0, 0, 0, 0};	/* low limb first */

	for (int i = 0; i <= num->weight; i++)
	{
		uint64		carry = i < num->ndigits ? shard_get_uint16(num->digits + 2 * i) : 0;

		for (int k = 0; k < 4; k++)
		{
			carry += (uint64) limbs[k] * WIRE_BASE;
			limbs[k] = (uint32) carry;
			carry >>= 32;
		}
		if (carry != 0)
			malformed_sum();
	}
	if (limbs[3] > PG_INT32_MAX)
		malformed_sum();		/* more than 127 bits: not a sum of bigints */
	if (num->sign == WIRE_NEG)
	{
		uint64		carry = 1;

		for (int k = 0; k < 4; k++)
		{
			carry += (uint32) ~limbs[k];
			limbs[k] = (uint32) carry;
			carry >>= 32;
		}
	}
	for (int k = 3; k >= 0; k--)
		pq_sendint32(buf, limbs[k]);
}
#endif

/* The count.  If the sum is NULL, there are no values: returns 0, whatever count the node has sent. */
static int64
check_count(int64 count, int sumlen)
{
	if (sumlen < 0)
		return 0;
	if (count <= 0)
		malformed_sum();
	return count;
}

/* Parses an integer with at most 10 base-10000 digits, because 2^127 has no more. */
static void
wire_parse_integer(const char *data, int len, WireNumeric *num)
{
	wire_parse(data, len, num);
	if (num->sign != WIRE_POS && num->sign != WIRE_NEG)
		malformed_sum();
	if (num->ndigits > 0 &&
		(num->weight < 0 || num->weight > 9 || num->ndigits > num->weight + 1))
		malformed_sum();
	if (num->ndigits == 0)
		num->weight = 0;
}

/* Writes a sum in the form of integer aggregate states. */
static void
put_integer(StringInfo buf, const WireNumeric *num)
{
#if SHARD_INT8_STATE_INT128
	put_int128(buf, num);
#else
	put_numericvar(buf, num);
#endif
}

bytea *
shard_state_int8_sum(int64 count, const char *sum, int sumlen)
{
	StringInfoData buf;
	WireNumeric num = {0};

	count = check_count(count, sumlen);
	if (sumlen >= 0)
		wire_parse_integer(sum, sumlen, &num);

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	put_integer(&buf, &num);
	return pq_endtypsend(&buf);
}

bytea *
shard_state_poly_variance(int64 count, ShardWireValue sum, ShardWireValue squares)
{
	StringInfoData buf;
	WireNumeric num = {0};
	WireNumeric square = {0};

	count = check_count(count, sum.len);
	if ((sum.len < 0) != (squares.len < 0))
		malformed_sum();
	if (sum.len >= 0)
	{
		wire_parse_integer(sum.data, sum.len, &num);
		wire_parse_integer(squares.data, squares.len, &square);
	}

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	put_integer(&buf, &num);
	put_integer(&buf, &square);
	return pq_endtypsend(&buf);
}

/*
 * Core counts NaN and infinities separately from finite values.  If there are any, the result is NaN.  The number of
 * values only decides whether there are enough values for a result.
 */
bytea *
shard_state_numeric_variance(int64 count, ShardWireValue sum, ShardWireValue squares)
{
	StringInfoData buf;
	WireNumeric num = {0};
	WireNumeric square = {0};
	int64		nspecial = 0;

	count = check_count(count, sum.len);
	if ((sum.len < 0) != (squares.len < 0))
		malformed_sum();
	if (sum.len >= 0)
	{
		wire_parse(sum.data, sum.len, &num);
		wire_parse(squares.data, squares.len, &square);
	}
	if ((num.sign != WIRE_POS && num.sign != WIRE_NEG) ||
		(square.sign != WIRE_POS && square.sign != WIRE_NEG))
	{
		nspecial = count;
		count = 0;
		memset(&num, 0, sizeof(num));
		memset(&square, 0, sizeof(square));
	}

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	put_numericvar(&buf, &num);
	put_numericvar(&buf, &square);
	pq_sendint32(&buf, num.dscale); /* maxScale */
	pq_sendint64(&buf, count);		/* maxScaleCount */
	pq_sendint64(&buf, nspecial);
	pq_sendint64(&buf, 0);
	pq_sendint64(&buf, 0);
	return pq_endtypsend(&buf);
}

bytea *
shard_state_numeric_sum(int64 count, const char *sum, int sumlen)
{
	StringInfoData buf;
	WireNumeric num = {0};
	int64		nfinite;
	int64		nnan = 0;
	int64		npinf = 0;
	int64		nninf = 0;

	nfinite = count = check_count(count, sumlen);
	if (sumlen >= 0)
		wire_parse(sum, sumlen, &num);

	/*
	 * Core's state counts NaN and infinities separately from finite values.  If a group has any, the final functions
	 * ignore their number.  So finite values may be counted there, too: the total is the count.
	 */
	if (num.sign != WIRE_POS && num.sign != WIRE_NEG)
	{
		nfinite = 0;
		if (num.sign == WIRE_NAN)
			nnan = count;
		else if (num.sign == WIRE_PINF)
			npinf = count;
		else
			nninf = count;
		memset(&num, 0, sizeof(num));
	}

	pq_begintypsend(&buf);
	pq_sendint64(&buf, nfinite);
	put_numericvar(&buf, &num);
	pq_sendint32(&buf, num.dscale); /* maxScale */
	pq_sendint64(&buf, nfinite);	/* maxScaleCount */
	pq_sendint64(&buf, nnan);
	pq_sendint64(&buf, npinf);
	pq_sendint64(&buf, nninf);
	return pq_endtypsend(&buf);
}

bytea *
shard_state_interval_sum(int64 count, const char *sum, int sumlen)
{
	StringInfoData buf;
	int64		nfinite;
	int64		npinf = 0;
	int64		nninf = 0;
	int64		time = 0;
	int32		day = 0;
	int32		month = 0;

	nfinite = count = check_count(count, sumlen);
	if (sumlen >= 0 && sumlen != 16)
		malformed_sum();
	if (sumlen >= 0)
	{
		time = (int64) shard_get_uint64(sum);
		day = (int32) shard_get_uint32(sum + 8);
		month = (int32) shard_get_uint32(sum + 12);

		/* infinities have the extreme value in every field (17 and later) */
		if (time == PG_INT64_MAX && day == PG_INT32_MAX && month == PG_INT32_MAX)
			npinf = count;
		else if (time == PG_INT64_MIN && day == PG_INT32_MIN && month == PG_INT32_MIN)
			nninf = count;
		if (npinf > 0 || nninf > 0)
		{
			nfinite = 0;
			time = 0;
			day = month = 0;
		}
	}

	pq_begintypsend(&buf);
	pq_sendint64(&buf, nfinite);
	pq_sendint64(&buf, time);
	pq_sendint32(&buf, day);
	pq_sendint32(&buf, month);
	pq_sendint64(&buf, npinf);
	pq_sendint64(&buf, nninf);
	return pq_endtypsend(&buf);
}
