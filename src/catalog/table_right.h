/*
 * table_right.h
 *	  What a role may do with a table.
 */
#ifndef SHARDFDW_TABLE_RIGHT_H
#define SHARDFDW_TABLE_RIGHT_H

#include "postgres.h"

#include "utils/acl.h"

/* Has the role a privilege, ACL_SELECT or ACL_INSERT, on all columns of the table? */
static inline bool
shard_table_right_on_all(Oid relid, Oid roleid, AclMode privilege)
{
	return pg_class_aclcheck(relid, roleid, privilege) == ACLCHECK_OK ||
		pg_attribute_aclcheck_all(relid, roleid, privilege, ACLMASK_ALL) == ACLCHECK_OK;
}

#endif
