/*
 * integer.c
 *	  The three integer types, and conversion of values between them.  A key of one width may be
 *	  searched in a column of another width.
 */
#include "postgres.h"

#include "catalog/integer.h"
#include "catalog/pg_type.h"

bool
shard_integer_is_type(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

bool
shard_integer_convert(Datum *value, Oid from, Oid to)
{
	int64		number = from == INT2OID ? DatumGetInt16(*value) :
		from == INT4OID ? DatumGetInt32(*value) : DatumGetInt64(*value);

	switch (to)
	{
		case INT2OID:
			*value = Int16GetDatum((int16) number);
			return number >= PG_INT16_MIN && number <= PG_INT16_MAX;
		case INT4OID:
			*value = Int32GetDatum((int32) number);
			return number >= PG_INT32_MIN && number <= PG_INT32_MAX;
		default:
			*value = Int64GetDatum(number);
			return true;
	}
}
