/*
 * ddl_extension.h
 *	  Undoes, when the extension is dropped, what CREATE EXTENSION has done apart from objects.
 */
#ifndef SHARDFDW_DDL_EXTENSION_H
#define SHARDFDW_DDL_EXTENSION_H

#include "postgres.h"

/* Is it this extension? */
extern bool shard_ddl_extension_is_ours(Oid extension);

/*
 * Removes the library from the database's session_preload_libraries, or warns that the
 * user may not: if the library's file is removed later, nobody can connect any more.
 */
extern void shard_ddl_extension_forget_library(void);

#endif
