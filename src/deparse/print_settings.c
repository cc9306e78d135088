/*
 * print_settings.c
 *	  Settings under which core prints text that means the same in every session.
 */
#include "postgres.h"

#include "deparse/print_settings.h"
#include "utils/guc.h"

int
shard_print_settings_begin(void)
{
	static const struct
	{
		const char *name;
		const char *value;
	}			settings[] = {
		{"search_path", "pg_catalog"},
		{"datestyle", "ISO"},
		{"intervalstyle", "postgres"},
		{"extra_float_digits", "3"},
		{"lc_monetary", "C"},
		{"quote_all_identifiers", "off"},
		{"standard_conforming_strings", "on"},
	};
	int			nestlevel = NewGUCNestLevel();

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i].name, settings[i].value, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nestlevel;
}

void
shard_print_settings_end(int nestlevel)
{
	AtEOXact_GUC(true, nestlevel);
}
