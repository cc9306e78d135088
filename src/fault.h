/*
 * fault.h
 *	  Named points at which tests make the server fail.
 *
 * They exist only in libraries that are built with FAULT_POINTS=1.  The setting
 * shardfdw.fault_points (superuser) defines the action at each point:
 *
 *	 name=action[:ms][@probability], ...
 *
 *	- error: raises an error
 *	- abort: kills the process as kill -9 does
 *	- sleep: waits ms milliseconds, 100 by default
 *	- wait: waits as long as the file shardfdw_fault_<name> is in the data directory
 *	- nomemory: until the end of the (sub)transaction no memory context can allocate memory, except
 *	  the one of error reports, in which core keeps a reserve
 *	- nofiles: until the end of the (sub)transaction the process cannot open files
 */
#ifndef SHARDFDW_FAULT_H
#define SHARDFDW_FAULT_H

#ifdef SHARDFDW_FAULT_POINTS
extern void shard_fault_init(void);
extern void shard_fault_point(const char *name);
extern void shard_fault_end(void);
#define SHARD_FAULT_INIT() shard_fault_init()
#define SHARD_FAULT_POINT(name) shard_fault_point(name)
#define SHARD_FAULT_END() shard_fault_end()
#else
#define SHARD_FAULT_INIT() ((void) 0)
#define SHARD_FAULT_POINT(name) ((void) 0)
#define SHARD_FAULT_END() ((void) 0)
#endif

#endif
