/*
 * type_io.c
 *	  Which types are sent in binary format, and which as text.
 *
 * Assumptions: the binary forms listed here are the same in 15 to 19, and none depends on a
 * setting.  Binary forms of the built-in arrays, ranges and multiranges contain only OIDs of
 * built-in types, which are the same everywhere.
 *
 *					from a node						to a node
 *	 fixed, bytea	binary							binary
 *	 text-like		binary, decoded by decode.c		binary (the node's receive
 *					itself: core's receive			function converts from the
 *					functions convert from the		client's encoding, which is
 *					CLIENT's encoding				this database's)
 *	 their arrays	text							binary
 *	 enums			binary, which is the label		binary, which is the label
 *	 their arrays	text (contains the type's OID)	text
 *	 domains		like their base type			like their base type
 *	 all others		text							text
 *
 * The values of reg types (regtype, regclass...) are OIDs, which differ between servers.  They
 * represent a name, so they are sent as that name.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Does the type have the same binary form everywhere, which depends on no setting and contains no text? */
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

/* Is the type's binary form text in the connection's encoding, or does it contain such text? */
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

Oid
shard_type_io_element(Oid type)
{
	return type == INT2VECTOROID || type == OIDVECTOROID ? InvalidOid : get_element_type(type);
}

bool
shard_type_io_binary_output(Oid type)
{
	Oid			base = getBaseType(type);

	if (is_plain_binary(base) || is_text_like(base))
		return true;
	if (get_typtype(base) == TYPTYPE_ENUM)
		return true;
	return is_plain_binary(shard_type_io_element(base));
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
	element = shard_type_io_element(base);
	return is_plain_binary(element) || is_text_like(element);
}

bool
shard_type_io_names_object(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGCOLLATIONOID:
		case REGDATABASEOID:
			return true;
		default:
			return false;
	}
}

/* Returns the settings on which the text forms of a composite type's columns depend. */
static int
columns_text_settings(Oid composite)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(composite, -1);
	int			settings = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			settings |= shard_type_io_text_settings(TupleDescAttr(desc, i)->atttypid);
	}
	ReleaseTupleDesc(desc);
	return settings;
}

static int
base_text_settings(Oid type)
{
	if (type >= FirstGenbkiObjectId)
		return SHARD_TEXT_UNKNOWN;
	if (shard_type_io_names_object(type))
		return SHARD_TEXT_NAMES;
	switch (type)
	{
		case INTERVALOID:
		case POINTOID:
		case LSEGOID:
		case PATHOID:
		case BOXOID:
		case POLYGONOID:
		case LINEOID:
		case CIRCLEOID:
			return SHARD_TEXT_STYLE;
		case CASHOID:
			return SHARD_TEXT_MONEY;
		case XMLOID:
			return SHARD_TEXT_XML;
		default:
			return 0;
	}
}

int
shard_type_io_text_settings(Oid type)
{
	Oid			element;

	/* the most frequent types, without a catalog look-up */
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case UUIDOID:
			return 0;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case FLOAT4OID:
		case FLOAT8OID:
			return SHARD_TEXT_STYLE;
		default:
			break;
	}

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return SHARD_TEXT_ARRAY | shard_type_io_text_settings(element);
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
			return base_text_settings(type);
		case TYPTYPE_ENUM:
			return 0;
		case TYPTYPE_COMPOSITE:
			return columns_text_settings(type);
		case TYPTYPE_RANGE:
			return shard_type_io_text_settings(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return shard_type_io_text_settings(get_range_subtype(get_multirange_range(type)));
		default:
			/* a row of a type that is not known yet */
			return SHARD_TEXT_UNKNOWN | SHARD_TEXT_ARRAY | SHARD_TEXT_STYLE |
				SHARD_TEXT_NAMES | SHARD_TEXT_MONEY | SHARD_TEXT_XML;
	}
}

char *
shard_type_io_cast_name(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}
