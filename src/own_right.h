/*
 * own_right.h
 *	  Rights on functions of the extension's public schema, and on objects that the extension creates.
 *
 * Users can call C functions of schema shardfdw_internal directly.  If such a function does the
 * work of a public function, whose right may be revoked, it checks the right here.
 */
#ifndef SHARDFDW_OWN_RIGHT_H
#define SHARDFDW_OWN_RIGHT_H

#include "postgres.h"

/*
 * May role call the function of this name?  Does not depend on the rights of the current user, who
 * may not be able to see the schema.  Functions that other users have created there do not count.
 */
extern bool shard_own_right_has(Oid role, const char *function);

/* Errors: insufficient_privilege if the current user may not call it. */
extern void shard_own_right_check(const char *function);

/*
 * The command, for any server, that revokes the privileges that default privileges gave other roles on a new object. kind: TABLE,
 * SCHEMA or FUNCTION. name: qualified and quoted.  A function that no default privileges have changed is left to PUBLIC.
 */
extern char *shard_own_right_revoke(const char *kind, const char *name);

#endif
