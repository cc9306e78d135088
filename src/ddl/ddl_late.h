/*
 * ddl_late.h
 *	  Statements that began before this session had loaded the library.
 */
#ifndef SHARDFDW_DDL_LATE_H
#define SHARDFDW_DDL_LATE_H

#include "postgres.h"

/*
 * Called around a statement that the hook sees, other than a part of a statement; end also if the statement raises an
 * error.
 */
extern void shard_ddl_late_begin_seen(void);
extern void shard_ddl_late_end_seen(void);

/* For event triggers: has the hook missed the statement that fires them? */
extern bool shard_ddl_late_is(void);

/* Raises object_not_in_prerequisite_state for a late statement. detail: a sentence about what it would have done. */
extern void shard_ddl_late_refuse(const char *detail)
			__attribute__((noreturn));

#endif
