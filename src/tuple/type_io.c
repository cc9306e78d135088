/*
 * type_io.c
 *	  Which types travel in binary, which as text.
 *
 * Assumptions: the binary forms named here are the same on 15 to 19, and none
 * depends on a setting.  Binary forms of the built-in arrays, ranges and
 * multiranges hold OIDs of built-in types only, which are the same everywhere.
 *
 *				from a node					to a node
 *	fixed, bytea	binary						binary
 *	text-like		binary, decoded by decode.c	binary (the node's receive
 *					itself: core's receive		function converts from the
 *					functions convert from the	client's encoding, which is
 *					CLIENT's encoding			this database's)
 *	their arrays	text						binary
 *	enums			binary, which is the label	binary, likewise
 *	their arrays	text (holds the type's OID)	text
 *	domains			as their base type			as their base type
 *	all others		text						text
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "tuple/type_io.h"
#include "utils/lsyscache.h"

/* Has the same, setting-free binary form everywhere, without text in it. */
static bool
is_plain_binary(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case BYTEAOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case XIDOID:
		case XID8OID:
		case CIDOID:
		case TIDOID:
		case PG_LSNOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case CASHOID:
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case INTERVALOID:
		case UUIDOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
		case MACADDR8OID:
		case BITOID:
		case VARBITOID:
		case POINTOID:
		case LSEGOID:
		case PATHOID:
		case BOXOID:
		case POLYGONOID:
		case LINEOID:
		case CIRCLEOID:
		case INT4RANGEOID:
		case INT8RANGEOID:
		case NUMRANGEOID:
		case DATERANGEOID:
		case TSRANGEOID:
		case TSTZRANGEOID:
		case INT4MULTIRANGEOID:
		case INT8MULTIRANGEOID:
		case NUMMULTIRANGEOID:
		case DATEMULTIRANGEOID:
		case TSMULTIRANGEOID:
		case TSTZMULTIRANGEOID:
			return true;
		default:
			return false;
	}
}

/* Its binary form is, or holds, text in the connection's encoding. */
static bool
is_text_like(Oid type)
{
	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case JSONOID:
		case JSONBOID:
			return true;
		default:
			return false;
	}
}

bool
shard_type_io_binary_output(Oid type)
{
	Oid			base = getBaseType(type);

	if (is_plain_binary(base) || is_text_like(base))
		return true;
	if (get_typtype(base) == TYPTYPE_ENUM)
		return true;

	/* InvalidOid unless an array; oidvector and int2vector are arrays of plain types too */
	return is_plain_binary(get_element_type(base));
}

bool
shard_type_io_binary_input(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element;

	if (is_plain_binary(base) || is_text_like(base))
		return true;
	if (get_typtype(base) == TYPTYPE_ENUM)
		return true;
	element = get_element_type(base);
	return is_plain_binary(element) || is_text_like(element);
}
