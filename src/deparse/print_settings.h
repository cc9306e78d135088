/*
 * print_settings.h
 *	  Settings under which core prints text that means the same in each session.
 */
#ifndef SHARDFDW_PRINT_SETTINGS_H
#define SHARDFDW_PRINT_SETTINGS_H

#include "postgres.h"

#include "tuple/text_form.h"
#include "tuple/type_io.h"

/*
 * Between these calls, core prints qualified names, and literals in forms that do not depend on the session.  Pass
 * begin's result to end.  After an error, the end of the (sub)transaction restores the settings.
 */
static inline int
shard_print_settings_begin(void)
{
	return shard_text_form_begin_write(SHARD_TEXT_STYLE | SHARD_TEXT_NAMES | SHARD_TEXT_MONEY | SHARD_TEXT_SQL);
}

static inline void
shard_print_settings_end(int nestlevel)
{
	shard_text_form_end(nestlevel);
}

#endif
