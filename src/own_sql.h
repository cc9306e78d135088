/*
 * own_sql.h
 *	  Runs SQL of the extension through SPI.  No other file connects to SPI.
 */
#ifndef SHARDFDW_OWN_SQL_H
#define SHARDFDW_OWN_SQL_H

#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/snapshot.h"

/* The rights and settings with which SQL runs. */
typedef enum ShardOwnSqlRights
{
	SHARD_OWN_SQL_SUPERUSER,	/* bootstrap superuser in a security-restricted operation: for the extension's own tables */
	SHARD_OWN_SQL_CALLER,		/* the current user: for catalogs and functions of the extension */
	SHARD_OWN_SQL_USER_TABLE	/* the current user and the session's settings: for a user's table, whose triggers run */
} ShardOwnSqlRights;

/* A value of a statement: $1 is the first. */
typedef struct ShardSqlParam
{
	Oid			type;
	Datum		value;
	bool		isnull;
} ShardSqlParam;

/* State that shard_own_sql_end() restores. */
typedef struct ShardOwnSql
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;		/* of settings */
	bool		keeps_settings; /* settings that the text changes last, as those of any statement of the user */
	bool		has_snapshot;
} ShardOwnSql;

/*
 * Connects to SPI.  If snapshot is not InvalidSnapshot, it is the active one until the end.  After
 * an error, the end of the transaction or subtransaction restores everything.
 *
 * With CALLER and SUPERUSER, the settings that determine the meaning of an SQL text are fixed,
 * search_path among them.  With USER_TABLE, only the limits of guc.h are removed, so all names and
 * operators in the text must be qualified.
 */
extern void shard_own_sql_begin(ShardOwnSql *own, ShardOwnSqlRights rights, Snapshot snapshot);
extern void shard_own_sql_end(ShardOwnSql *own);

/*
 * Runs what follows with the rights of a user, in a security-restricted operation, until the second call.  Settings that
 * code of the user changes do not last: the session's next statement may be a superuser's.
 */
extern void shard_own_sql_become(ShardOwnSql *own, Oid userid);
extern void shard_own_sql_return(const ShardOwnSql *own);

/*
 * Runs statements between begin and end; rows are in SPI_tuptable.  Returns SPI_processed.  Raises
 * an error if the result of the last statement is not expected (SPI_OK_SELECT, ...).
 */
extern uint64 shard_own_sql_execute(const char *sql, int expected, int nparams, const ShardSqlParam *params);

/* The same for one query that uses the active snapshot instead of a new one. */
extern uint64 shard_own_sql_select(const char *sql, int nparams, const ShardSqlParam *params);

/*
 * Runs one or more commands on the extension's own tables as SUPERUSER, with a new snapshot.  To be
 * called in a transaction.  Returns the number of rows that the last command has changed or
 * returned.
 */
extern uint64 shard_own_sql_run(const char *sql, int nparams, const ShardSqlParam *params);

/* A value as text, NULL for null. */
typedef char *ShardSqlField;

/*
 * Runs a query as CALLER, in a transaction.  With InvalidSnapshot it uses a new snapshot.  With another snapshot, STABLE
 * and IMMUTABLE functions that it calls use that one, too.  Memory of the result: current context.
 *
 * - rows: all rows, a list of arrays of ShardSqlField
 * - value: the first column of the first row; NULL for null or no row
 * - oids: the first column of all rows, which is of type oid
 */
extern List *shard_own_sql_rows(const char *sql, Snapshot snapshot);
extern char *shard_own_sql_value(const char *sql, Snapshot snapshot);
extern List *shard_own_sql_oids(const char *sql, Snapshot snapshot);

/*
 * Sets for the whole session what begin() sets, whatever the defaults of the database or role.  For
 * background workers, before their first query.
 */
extern void shard_own_sql_fix_session(void);

/*
 * Settings with which values as text mean the same on all servers, whatever their defaults.
 * fix_values sets them in this session, a background worker. value_commands returns the commands
 * that set them in a session on another server.
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
