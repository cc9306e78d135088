/*
 * ddl_redirect.h
 *	  Who may have a foreign table stand for another table.
 */
#ifndef SHARDFDW_DDL_REDIRECT_H
#define SHARDFDW_DDL_REDIRECT_H

#include "postgres.h"

extern void shard_ddl_redirect_init(void);

#endif
