/*
 * print_settings.h
 *	  Settings under which core prints text that means the same in every session.
 */
#ifndef SHARDFDW_PRINT_SETTINGS_H
#define SHARDFDW_PRINT_SETTINGS_H

#include "postgres.h"

/*
 * Between these two, core prints names qualified and literals in forms that do
 * not depend on the session.  begin's result is handed to end; after an error
 * the end of the (sub)transaction does it.
 */
extern int	shard_print_settings_begin(void);
extern void shard_print_settings_end(int nestlevel);

#endif
