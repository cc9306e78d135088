/*
 * ddl_here.h
 *	  Runs commands of the extension that change only the coordinator.
 */
#ifndef SHARDFDW_DDL_HERE_H
#define SHARDFDW_DDL_HERE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* Runs commands (list of char *) without propagating them to nodes. */
extern void shard_ddl_run_here(List *commands);

#endif
