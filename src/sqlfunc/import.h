/*
 * import.h
 *	  IMPORT FOREIGN SCHEMA.
 */
#ifndef SHARDFDW_IMPORT_H
#define SHARDFDW_IMPORT_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* FDW callback: texts (char *) of the CREATE FOREIGN TABLE commands that core is to run. */
extern List *shardImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverid);

#endif
