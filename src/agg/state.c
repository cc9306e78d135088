/*
 * state.c
 *	  Builds the serialized transition states of sum, avg, stddev and variance
 *	  whose state is internal.
 *
 * The node returns count(x) and sum(x), and for the last two sum(x * x); the
 * coordinator writes what core's own serial function would have written for a
 * group with that count and these sums.
 * Formats: int8_avg_serialize and numeric_avg_serialize of
 * src/backend/utils/adt/numeric.c, interval_avg_serialize of timestamp.c.
 *
 * maxScaleCount, which only moving aggregates read, is set to the count: how
 * many of the values had the largest scale is neither known nor needed.
 *
 * Sums come from a node, which may be hostile: everything is checked before it
 * reaches core's deserial functions, which do not check anything.
 */
#include "postgres.h"

#include "agg/state.h"
#include "byte_order.h"
#include "compat.h"
#include "libpq/pqformat.h"

/* Binary form of numeric: a header of four int16, then digits to base 10000 */
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
	const char *digits;			/* ndigits int16 in network order */
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

/* As numericvar_serialize does; finite values only. */
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
/*
 * Writes an integer as two's complement of 128 bits, high half first.  Limbs
 * of 32 bits keep this free of compiler extensions.
 */
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
		malformed_sum();		/* beyond 127 bits: no sum of bigints */
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

/* The count; 0 if the sum is NULL, which is a sum of no values, whatever the node says. */
static int64
check_count(int64 count, int sumlen)
{
	if (sumlen < 0)
		return 0;
	if (count <= 0)
		malformed_sum();
	return count;
}

/* An integer of at most 10 digits to base 10000: 2^127 has no more. */
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

/* A sum as the states of integers have it. */
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
 * Core counts NaN and infinities apart from finite values, and any of them makes the
 * result NaN; the number of values only decides whether there are enough for a result.
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
	 * Core's state counts NaN and infinities apart from finite values.  When a group
	 * has any, the final functions do not look at how many.  So finite values may be
	 * counted there, too: the total stays the count.
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
