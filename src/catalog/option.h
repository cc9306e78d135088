/*
 * option.h
 *	  The options of wrapper, servers, user mappings, foreign tables and columns: validation and
 *	  look-up.
 *
 * Every option of postgres_fdw is accepted with its name and meaning.
 */
#ifndef SHARDFDW_OPTION_H
#define SHARDFDW_OPTION_H

#include "postgres.h"

#include "fmgr.h"
#include "foreign/foreign.h"

/* handler: the C function of the wrapper's handler, by which our servers are recognized.  Called once, at load. */
extern void shard_option_init(PGFunction handler);

/*
 * Checks options (List of DefElem) of a server, user mapping, foreign table or column; catalog: the
 * OID of its system catalog.
 *
 * Errors: FDW_INVALID_OPTION_NAME for an option that does not exist there, INVALID_PARAMETER_VALUE
 * for its value, INSUFFICIENT_PRIVILEGE.
 */
extern void shard_option_validate(List *options, Oid catalog);

/* Returns the value of a foreign table's option, with its server's as default; or NULL. */
extern const char *shard_option_table(Oid relid, const char *name);
extern bool shard_option_table_bool(Oid relid, const char *name, bool dflt);
extern const char *shard_option_server(Oid serverid, const char *name);
extern int	shard_option_server_int(Oid serverid, const char *name, int dflt);
extern bool shard_option_server_bool(Oid serverid, const char *name, bool dflt);

/* Returns the elements (char *) of an option that is a list.  Memory: current context. */
extern List *shard_option_server_list(Oid serverid, const char *name);

/* Returns the elements (char *) of the value of such an option.  Memory: current context. */
extern List *shard_option_list(const char *value);

/* Returns the names (char *) in the option `extensions`.  Memory: current context. */
extern List *shard_option_server_extensions(Oid serverid);

/* Does the table's wrapper have shardfdw's handler? */
extern bool shard_option_is_ours(Oid foreigntable_relid);
extern bool shard_option_is_our_server(Oid serverid);

/*
 * Are a server's tables changed together with their foreign tables, if both have the same names?
 * See option propagate_ddl.
 */
extern bool shard_option_definition_follows(Oid serverid);

/* Returns the remote name of column attno (option column_name, else the column's name). */
extern const char *shard_option_column_name(Oid relid, AttrNumber attno);

/* Returns the foreign table for table schema.name on the server; InvalidOid: none. */
extern Oid	shard_option_find_table(Oid serverid, const char *schema, const char *name);

/*
 * Returns the OID of the virtual server `shardfdw_cluster`, created by CREATE EXTENSION.  Core is
 * told that every sharded table is on it.  It has no connection.  InvalidOid if the extension is
 * not in this database.
 */
extern Oid	shard_option_cluster_server(void);

/* Servers or wrappers have changed. */
extern void shard_option_invalidate(void);

#endif
