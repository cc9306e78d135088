/*
 * print_settings.h
 *	  Settings under which core prints text that means the same in each session.
 */
#ifndef SHARDFDW_PRINT_SETTINGS_H
#define SHARDFDW_PRINT_SETTINGS_H

#include "postgres.h"

/*
 * Between these calls, core prints qualified names, and literals in forms that do not depend on the session.  Pass
 * begin's result to end.  After an error, the end of the (sub)transaction restores the settings.
 */
extern int	shard_print_settings_begin(void);
extern void shard_print_settings_end(int nestlevel);

#endif
