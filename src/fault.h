/*
 * fault.h
 *	  Named points at which tests make the server fail.
 *
 * They exist only in libraries that are built with FAULT_POINTS=1. The setting
 * shardfdw.fault_points (superuser) says what happens where:
 *
 *	 name=action[:ms][@probability], ...
 *
 *	 error	raises an error (only at points before the local commit)
 *	 abort	kills the process as kill -9 does
 *	 sleep	waits ms milliseconds, 100 by default
 *	 wait	waits as long as the file shardfdw_fault_<name> is in the data directory
 */
#ifndef SHARDFDW_FAULT_H
#define SHARDFDW_FAULT_H

#ifdef SHARDFDW_FAULT_POINTS
extern void shard_fault_init(void);
extern void shard_fault_point(const char *name);
#define SHARD_FAULT_INIT() shard_fault_init()
#define SHARD_FAULT_POINT(name) shard_fault_point(name)
#else
#define SHARD_FAULT_INIT() ((void) 0)
#define SHARD_FAULT_POINT(name) ((void) 0)
#endif

#endif
