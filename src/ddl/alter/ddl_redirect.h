/*
 * ddl_redirect.h
 *	  Checks whether a user may choose the table on a node that a table of the coordinator represents.
 */
#ifndef SHARDFDW_DDL_REDIRECT_H
#define SHARDFDW_DDL_REDIRECT_H

#include "postgres.h"

/*
 * Like shard_ddl_check_owners(), for the shards that a role owns: for DROP OWNED, which may drop the role's user
 * mappings first.  Returns false, without checking, if the current user does not have the privileges of the role.
 */
extern bool shard_ddl_redirect_check_owned(Oid roleid);

extern void shard_ddl_redirect_init(void);

#endif
