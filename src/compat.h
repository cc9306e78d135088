/*
 * compat.h
 *	  The differences between PostgreSQL 15 and 19, in one place.
 *
 * The rest of the code is written against the newest signatures; older majors
 * get them here.  No other file tests PG_VERSION_NUM.
 */
#ifndef SHARDFDW_COMPAT_H
#define SHARDFDW_COMPAT_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "shardfdw needs PostgreSQL 15 to 19"
#endif

/* 18 split the EXPLAIN headers */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "tcop/dest.h"
#include "commands/explain.h"

/* 17 added fdw_restrictinfo, 18 disabled_nodes */
#if PG_VERSION_NUM >= 180000
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, 0, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, 0, startup, total, pathkeys, NULL, NIL, fdw_private)
#elif PG_VERSION_NUM >= 170000
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, NIL, fdw_private)
#else
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, fdw_private)
#endif

/* 16 gives the grouping clause as planned */
#if PG_VERSION_NUM >= 160000
#define shard_group_clause(root) ((root)->processed_groupClause)
#else
#define shard_group_clause(root) ((root)->parse->groupClause)
#endif

/*
 * Result type of sum/avg(interval)'s transition: internal from 17 on, so that
 * its partial state has to be built.
 */
#if PG_VERSION_NUM >= 170000
#define SHARD_INTERVAL_STATE_INTERNAL 1
#else
#define SHARD_INTERVAL_STATE_INTERNAL 0
#endif

/*
 * 19 writes the sum in the serialized state of sum/avg(bigint) as an integer of
 * 128 bits instead of a numeric.
 */
#if PG_VERSION_NUM >= 190000
#define SHARD_INT8_STATE_INT128 1
#else
#define SHARD_INT8_STATE_INT128 0
#endif

/* User whose rights a scan has: 16 moved it from the range table to the plan. */
#if PG_VERSION_NUM >= 160000
#define shard_scan_userid(fsplan, rte) \
	(OidIsValid((fsplan)->checkAsUser) ? (fsplan)->checkAsUser : GetUserId())
#else
#define shard_scan_userid(fsplan, rte) \
	(OidIsValid((rte)->checkAsUser) ? (rte)->checkAsUser : GetUserId())
#endif

/* 17 gave wait event sets a resource owner in place of a memory context; ours are freed by hand */
#include "storage/latch.h"
#if PG_VERSION_NUM >= 170000
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(NULL, nevents)
#else
#include "utils/memutils.h"
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(TopMemoryContext, nevents)
#endif

/* 19 gave the identifiers of system caches a type */
#if PG_VERSION_NUM < 190000
typedef int SysCacheIdentifier;
#else
#include "utils/syscache.h"
#endif

#endif
