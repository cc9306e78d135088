/*
 * ddl_late.h
 *	  Statements that began before this session had loaded the library.
 */
#ifndef SHARDFDW_DDL_LATE_H
#define SHARDFDW_DDL_LATE_H

#include "postgres.h"

/* Around a statement that has come to the hook, other than a part of one; end also when it raises. */
extern void shard_ddl_late_begin_seen(void);
extern void shard_ddl_late_end_seen(void);

/* Asked by event triggers: has the statement that fires them passed the hook by? */
extern bool shard_ddl_late_is(void);

/* Raises object_not_in_prerequisite_state for a late statement.  detail: a sentence on what it would have done. */
extern void shard_ddl_late_refuse(const char *detail)
			__attribute__((noreturn));

#endif
