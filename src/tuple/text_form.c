/*
 * text_form.c
 *	  Text forms in which values are sent between servers.
 *
 * The other server reads exactly the value that one has written, whatever the user's settings are:
 *
 *	 dates, intervals, floats	written in ISO, postgres style and with all digits,
 *								which all settings read in the same way.  Other
 *								styles use abbreviations of time zones, which can
 *								mean another zone, or none, when they are read
 *	 names of objects			written and read with search_path = pg_catalog, so
 *								that all other objects have their schema
 *	 money						written and read with lc_monetary = C
 *	 xml						as it is stored: xml_out() drops the declaration's
 *								encoding.  Read with xmloption = content, which
 *								accepts documents as well
 *	 arrays						read with array_nulls = on
 *
 * Sessions on nodes write and read in the same way: see session_settings in
 * remote/wire/connection.c, and there SHARD_SETTINGS_PORTABLE.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/xml.h"

void
shard_text_form_init(FmgrInfo *output, Oid type, MemoryContext cxt)
{
	Oid			function = F_TEXTOUT;
	bool		varlena;

	if (type != XMLOID)
		getTypeOutputInfo(type, &function, &varlena);
	fmgr_info_cxt(function, output, cxt);
}

char *
shard_text_form_write(FmgrInfo *output, Oid type, Datum value)
{
	ArrayType  *array;

	if (get_element_type(type) != XMLOID)
		return OutputFunctionCall(output, value);

	/* the same bytes as an array of text */
	array = DatumGetArrayTypePCopy(value);
	ARR_ELEMTYPE(array) = TEXTOID;
	return OutputFunctionCall(output, PointerGetDatum(array));
}

static void
set_local(int *nestlevel, const char *name, const char *value)
{
	if (*nestlevel < 0)
		*nestlevel = NewGUCNestLevel();
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

static void
set_text(int *nestlevel, const char *name, const char *current, const char *value)
{
	if (strcmp(current, value) != 0)
		set_local(nestlevel, name, value);
}

int
shard_text_form_begin_write(int settings)
{
	int			nestlevel = -1;

	if (settings & SHARD_TEXT_STYLED)
	{
		if (DateStyle != USE_ISO_DATES)
			set_local(&nestlevel, "datestyle", "ISO");
		if (IntervalStyle != INTSTYLE_POSTGRES)
			set_local(&nestlevel, "intervalstyle", "postgres");
		if (extra_float_digits < 1)
			set_local(&nestlevel, "extra_float_digits", "3");
	}
	if (settings & (SHARD_TEXT_NAMES | SHARD_TEXT_UNKNOWN))
		set_text(&nestlevel, "search_path", namespace_search_path, "pg_catalog");
	if (settings & SHARD_TEXT_MONEY)
		set_text(&nestlevel, "lc_monetary", GetConfigOption("lc_monetary", false, false), "C");
	if ((settings & SHARD_TEXT_SQL) && quote_all_identifiers)
		set_local(&nestlevel, "quote_all_identifiers", "off");
	if ((settings & SHARD_TEXT_SQL) && !standard_conforming_strings)
		set_local(&nestlevel, "standard_conforming_strings", "on");
	return nestlevel;
}

int
shard_text_form_begin_read(int settings)
{
	int			nestlevel = -1;

	if ((settings & SHARD_TEXT_ARRAY) && !Array_nulls)
		set_local(&nestlevel, "array_nulls", "on");
	if (settings & SHARD_TEXT_NAMES)
		set_text(&nestlevel, "search_path", namespace_search_path, "pg_catalog");
	if (settings & SHARD_TEXT_MONEY)
		set_text(&nestlevel, "lc_monetary", GetConfigOption("lc_monetary", false, false), "C");
	if ((settings & SHARD_TEXT_XML) && xmloption != XMLOPTION_CONTENT)
		set_local(&nestlevel, "xmloption", "content");
	return nestlevel;
}

void
shard_text_form_end(int nestlevel)
{
	if (nestlevel >= 0)
		AtEOXact_GUC(true, nestlevel);
}
