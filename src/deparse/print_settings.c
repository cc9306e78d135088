/*
 * print_settings.c
 *	  Settings under which core prints text that means the same in every session.
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/print_settings.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"

int
shard_print_settings_begin(void)
{
	/* Setting one costs as much as printing a short query, so only what differs is set. */
	const struct
	{
		const char *name;
		const char *value;
		bool		has_value;
	}			settings[] = {
		{"search_path", "pg_catalog", false},
		{"datestyle", "ISO", DateStyle == USE_ISO_DATES},
		{"intervalstyle", "postgres", IntervalStyle == INTSTYLE_POSTGRES},
		{"extra_float_digits", "3", extra_float_digits > 0},	/* all of these mean the shortest exact form */
		{"lc_monetary", "C", strcmp(GetConfigOption("lc_monetary", false, false), "C") == 0},
		{"quote_all_identifiers", "off", !quote_all_identifiers},
		{"standard_conforming_strings", "on", standard_conforming_strings},
	};
	int			nestlevel = NewGUCNestLevel();

	for (int i = 0; i < lengthof(settings); i++)
	{
		if (!settings[i].has_value)
			(void) set_config_option(settings[i].name, settings[i].value, PGC_USERSET,
									 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
	return nestlevel;
}

void
shard_print_settings_end(int nestlevel)
{
	AtEOXact_GUC(true, nestlevel);
}
