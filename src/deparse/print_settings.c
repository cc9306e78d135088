/*
 * print_settings.c
 *	  Settings under which core prints text that means the same in each session.
 */
#include "postgres.h"

#include "deparse/print_settings.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"

int
shard_print_settings_begin(void)
{
	return shard_text_form_begin_write(SHARD_TEXT_STYLE | SHARD_TEXT_NAMES | SHARD_TEXT_MONEY | SHARD_TEXT_SQL);
}

void
shard_print_settings_end(int nestlevel)
{
	shard_text_form_end(nestlevel);
}
