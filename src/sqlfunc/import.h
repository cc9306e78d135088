/*
 * import.h
 *	  IMPORT FOREIGN SCHEMA.
 */
#ifndef SHARDFDW_IMPORT_H
#define SHARDFDW_IMPORT_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* FDW callback: returns the CREATE FOREIGN TABLE commands (char *) for core to run. */
extern List *shardImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverid);

#endif
