/*
 * option.h
 *	  The options of wrapper, servers, user mappings, foreign tables and
 *	  columns: validation and look-up.
 *
 * Every option of postgres_fdw is accepted with its name and meaning.
 */
#ifndef SHARDFDW_OPTION_H
#define SHARDFDW_OPTION_H

#include "postgres.h"

#include "fmgr.h"
#include "foreign/foreign.h"

/* handler: the C function of the wrapper's handler, by which our servers are recognized.  To be called once, at load. */
extern void shard_option_init(PGFunction handler);

/* Value of a foreign table's option, its server's as fallback; or NULL. */
extern const char *shard_option_table(Oid relid, const char *name);
extern bool shard_option_table_bool(Oid relid, const char *name, bool dflt);
extern const char *shard_option_server(Oid serverid, const char *name);
extern int	shard_option_server_int(Oid serverid, const char *name, int dflt);
extern bool shard_option_server_bool(Oid serverid, const char *name, bool dflt);

/* Elements (char *) of an option that is a list.  Memory: current context. */
extern List *shard_option_server_list(Oid serverid, const char *name);

/* Elements (char *) of the value of such an option.  Memory: current context. */
extern List *shard_option_list(const char *value);

/* Names (char *) in the option `extensions`.  Memory: current context. */
extern List *shard_option_server_extensions(Oid serverid);

/* True when the table's wrapper has shardfdw's handler. */
extern bool shard_option_is_ours(Oid foreigntable_relid);
extern bool shard_option_is_our_server(Oid serverid);

/*
 * Are a server's tables changed together with their foreign tables, if both have the same
 * names?  Option propagate_ddl.
 */
extern bool shard_option_definition_follows(Oid serverid);

/* Remote name of column attno (column_name option, else the column's name). */
extern const char *shard_option_column_name(Oid relid, AttrNumber attno);

/*
 * OID of the virtual server `shardfdw_cluster` that CREATE EXTENSION makes.  Core is told
 * that every sharded table is on it.  It has no connection.  InvalidOid when the extension
 * is not in this database.
 */
extern Oid	shard_option_cluster_server(void);

/* Servers or wrappers have changed. */
extern void shard_option_invalidate(void);

#endif
