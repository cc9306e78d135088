/*
 * ddl_redirect.h
 *	  Who may have a table of the coordinator stand for a table of nodes.
 */
#ifndef SHARDFDW_DDL_REDIRECT_H
#define SHARDFDW_DDL_REDIRECT_H

#include "postgres.h"

/*
 * Checks, as shard_ddl_check_owners(), the shards that a role owns: for DROP OWNED, which may drop the role's user mappings
 * first.  False, and nothing is checked: the current user has not the role's rights.
 */
extern bool shard_ddl_redirect_check_owned(Oid roleid);

extern void shard_ddl_redirect_init(void);

#endif
