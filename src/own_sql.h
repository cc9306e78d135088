/*
 * own_sql.h
 *	  Runs SQL of the extension through SPI.  No other file connects to SPI.
 */
#ifndef SHARDFDW_OWN_SQL_H
#define SHARDFDW_OWN_SQL_H

#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/snapshot.h"

/* With whose rights, and with which settings. */
typedef enum ShardOwnSqlRights
{
	SHARD_OWN_SQL_SUPERUSER,	/* the bootstrap superuser, in a security-restricted operation: for the extension's own tables */
	SHARD_OWN_SQL_CALLER,		/* the current user: for catalogs and functions of the extension */
	SHARD_OWN_SQL_USER_TABLE	/* the current user, and the settings of the session: for a user's table, whose triggers
								 * and defaults run, without the guards of guc.h.  All names and operators in the text have to be qualified. */
} ShardOwnSqlRights;

/* A value of a statement: $1 is the first. */
typedef struct ShardSqlParam
{
	Oid			type;
	Datum		value;
	bool		isnull;
} ShardSqlParam;

/* What shard_own_sql_end() restores. */
typedef struct ShardOwnSql
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;		/* of settings */
	bool		has_snapshot;
} ShardOwnSql;

/*
 * Connects to SPI.  snapshot, if it is not InvalidSnapshot, is the active one until the end.  For CALLER and SUPERUSER, the
 * settings that decide what an SQL text means are fixed, search_path among them.  When an error is raised, the end of
 * the transaction or subtransaction restores everything.
 */
extern void shard_own_sql_begin(ShardOwnSql *own, ShardOwnSqlRights rights, Snapshot snapshot);
extern void shard_own_sql_end(ShardOwnSql *own);

/*
 * Runs statements between begin and end; rows are in SPI_tuptable.  Returns SPI_processed.
 * Raises if the last statement is not what expected says (SPI_OK_SELECT, ...).
 */
extern uint64 shard_own_sql_execute(const char *sql, int expected, int nparams, const ShardSqlParam *params);

/* The same for one query that sees the active snapshot, and not a new one. */
extern uint64 shard_own_sql_select(const char *sql, int nparams, const ShardSqlParam *params);

/*
 * Runs one or several commands on the extension's own tables as SUPERUSER, with a snapshot of its own.
 * To be called in a transaction.  Returns the number of rows that the last one changed or returned.
 */
extern uint64 shard_own_sql_run(const char *sql, int nparams, const ShardSqlParam *params);

/*
 * Sets for the whole session what begin() sets, whatever a database's or role's defaults are.
 * For background workers, before their first query.
 */
extern void shard_own_sql_fix_session(void);

/*
 * Settings under which values as text mean the same on all servers, whatever their defaults are: fix_values sets them in
 * this session, of a background worker; value_commands are the commands that set them in a session on another server.
 */
extern void shard_own_sql_fix_values(void);
extern char *shard_own_sql_value_commands(void);

/* value may be NULL. */
static inline ShardSqlParam
shard_sql_text(const char *value)
{
	return (ShardSqlParam) {TEXTOID, value ? CStringGetTextDatum(value) : (Datum) 0, value == NULL};
}

static inline ShardSqlParam
shard_sql_oid(Oid value)
{
	return (ShardSqlParam) {OIDOID, ObjectIdGetDatum(value), false};
}

static inline ShardSqlParam
shard_sql_int4(int32 value)
{
	return (ShardSqlParam) {INT4OID, Int32GetDatum(value), false};
}

static inline ShardSqlParam
shard_sql_int8(int64 value)
{
	return (ShardSqlParam) {INT8OID, Int64GetDatum(value), false};
}

static inline ShardSqlParam
shard_sql_float8(double value)
{
	return (ShardSqlParam) {FLOAT8OID, Float8GetDatum(value), false};
}

static inline ShardSqlParam
shard_sql_lsn(XLogRecPtr value)
{
	return (ShardSqlParam) {PG_LSNOID, LSNGetDatum(value), false};
}

static inline ShardSqlParam
shard_sql_bool(bool value)
{
	return (ShardSqlParam) {BOOLOID, BoolGetDatum(value), false};
}

#endif
