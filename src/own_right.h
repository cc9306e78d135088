/*
 * own_right.h
 *	  Who may call a function of the extension's public schema.
 *
 * C functions of schema shardfdw_internal can be called by themselves.  One that does the work of a public
 * function, which may be revoked, asks here.
 */
#ifndef SHARDFDW_OWN_RIGHT_H
#define SHARDFDW_OWN_RIGHT_H

#include "postgres.h"

/*
 * May role call a function of this name?  Does not depend on the rights of the current user, who may not see the
 * schema.  Functions that another user has made there do not count.
 */
extern bool shard_own_right_has(Oid role, const char *function);

/* Errors: insufficient_privilege when the current user may not call it. */
extern void shard_own_right_check(const char *function);

#endif
