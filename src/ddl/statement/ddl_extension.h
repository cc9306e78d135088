/*
 * ddl_extension.h
 *	  What CREATE EXTENSION has done beside objects, undone when the extension is dropped.
 */
#ifndef SHARDFDW_DDL_EXTENSION_H
#define SHARDFDW_DDL_EXTENSION_H

#include "postgres.h"

/* Is it this extension? */
extern bool shard_ddl_extension_is_ours(Oid extension);

/*
 * Takes the library out of the database's session_preload_libraries, or warns that
 * the user may not: were the library removed from the machine, nobody could connect.
 */
extern void shard_ddl_extension_forget_library(void);

#endif
