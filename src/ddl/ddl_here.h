/*
 * ddl_here.h
 *	  Commands of our own that change the coordinator's side alone.
 */
#ifndef SHARDFDW_DDL_HERE_H
#define SHARDFDW_DDL_HERE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* Runs commands (of char *), whose tables on nodes do not follow. */
extern void shard_ddl_run_here(List *commands);

#endif
