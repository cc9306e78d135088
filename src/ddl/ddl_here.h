/*
 * ddl_here.h
 *	  Runs commands of our own that change only the coordinator's side.
 */
#ifndef SHARDFDW_DDL_HERE_H
#define SHARDFDW_DDL_HERE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* Runs commands (of char *), whose tables on nodes do not follow. */
extern void shard_ddl_run_here(List *commands);

#endif
