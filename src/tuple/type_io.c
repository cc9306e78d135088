/*
 * type_io.c
 *	  Decides which types are sent in binary format, and which as text.
 *
 * wire_form.c lists the types with a portable binary form.  Binary forms of built-in arrays contain only OIDs of
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
 * The values of reg types (regtype, regclass...) are OIDs, which differ between servers.  They represent a name, so
 * they are sent as that name.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "tuple/type_io.h"
#include "tuple/wire_form.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

Oid
shard_type_io_element(Oid type)
{
	return type == INT2VECTOROID || type == OIDVECTOROID ? InvalidOid : get_element_type(type);
}

/* Have values of a type, which is no array, a portable binary form? */
static bool
has_binary_form(Oid type)
{
	return shard_wire_form(type) != NULL || get_typtype(type) == TYPTYPE_ENUM;
}

bool
shard_type_io_binary_output(Oid type)
{
	Oid			base = getBaseType(type);
	const ShardWireForm *element;

	if (has_binary_form(base))
		return true;
	element = shard_wire_form(shard_type_io_element(base));
	return element != NULL && !element->is_text;
}

bool
shard_type_io_binary_input(Oid type)
{
	Oid			base = getBaseType(type);

	return has_binary_form(base) || shard_wire_form(shard_type_io_element(base)) != NULL;
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
	return type == XMLOID ? SHARD_TEXT_XML : 0;
}

int
shard_type_io_text_settings(Oid type)
{
	const ShardWireForm *form = shard_wire_form(type);
	Oid			element;

	if (form == NULL)
	{
		type = getBaseType(type);
		form = shard_wire_form(type);
	}
	if (form != NULL)
		return form->text_settings;
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

char *
shard_type_io_comment(List *types)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, " /* types");
	foreach_oid(type, types)
		appendStringInfo(&buf, " %u", type);
	appendStringInfoString(&buf, " */");
	return buf.data;
}
