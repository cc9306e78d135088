/*
 * ddl_redirect.h
 *	  Who may have a foreign table stand for another table.
 */
#ifndef SHARDFDW_DDL_REDIRECT_H
#define SHARDFDW_DDL_REDIRECT_H

#include "postgres.h"

/*
 * Says whether the tables on nodes get the new names that the statement under way gives to foreign
 * tables and schemas.  Returns what was said before, to be said again at the statement's end.
 */
extern bool shard_ddl_redirect_follow(bool follow);

extern void shard_ddl_redirect_init(void);

#endif
