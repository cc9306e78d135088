/*
 * ddl_extension.h
 *	  When the extension is dropped, undoes the changes of CREATE EXTENSION other than objects.
 */
#ifndef SHARDFDW_DDL_EXTENSION_H
#define SHARDFDW_DDL_EXTENSION_H

#include "postgres.h"

/* Is it this extension? */
extern bool shard_ddl_extension_is_ours(Oid extension);

/*
 * Removes the library from the database's session_preload_libraries, or warns that the user lacks the permission: if
 * the library's file is removed later, users can no longer connect.
 */
extern void shard_ddl_extension_forget_library(void);

#endif
