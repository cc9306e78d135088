/*
 * own_sql.c
 *	  Runs SQL of the extension through SPI.
 *
 * The role and the settings of a session are controlled by its user, and by those who may run ALTER
 * DATABASE or ALTER ROLE.  With their search_path, an operator or function in the extension's text
 * could be one that they created, and it would run with the rights of that text.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "compat.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

/* The uses for which a setting is fixed. */
#define FOR_SQL 0x01			/* meaning of an SQL text, and which rows it sees */
#define FOR_VALUES 0x02			/* values as text that another server writes or reads */
#define FOR_USER_TABLE 0x04		/* limits on users' statements */
#define FOR_WORKER 0x08			/* texts of definitions, in background workers */

static const struct
{
	const char *name;
	const char *value;
	int			use;
}			fixed[] = {
	{"search_path", "pg_catalog, pg_temp", FOR_SQL},
	{"standard_conforming_strings", "on", FOR_SQL},
	{"transform_null_equals", "off", FOR_SQL},
	{"array_nulls", "on", FOR_SQL | FOR_VALUES},
	{"quote_all_identifiers", "off", FOR_SQL | FOR_VALUES},
	/* if a policy would hide rows from the text, an error is raised */
	{"row_security", "off", FOR_SQL | FOR_VALUES},
	{"shardfdw.multi_shard_statements", "allow", FOR_SQL | FOR_USER_TABLE},
	{"shardfdw.max_rows_gathered", "0", FOR_SQL | FOR_USER_TABLE},
	{"TimeZone", "UTC", FOR_VALUES},
	{"DateStyle", "ISO", FOR_WORKER},	/* the order of day and month is the user's */
	{"IntervalStyle", "postgres", FOR_WORKER},
	{"extra_float_digits", "3", FOR_WORKER},
	{"DateStyle", "ISO, YMD", FOR_VALUES},
	{"IntervalStyle", "postgres", FOR_VALUES},
	{"extra_float_digits", "3", FOR_VALUES},
	{"bytea_output", "hex", FOR_VALUES},
	{"lc_monetary", "C", FOR_VALUES},
	{"xmloption", "content", FOR_VALUES},
};

void
shard_own_sql_begin(ShardOwnSql *own, ShardOwnSqlRights rights, Snapshot snapshot)
{
	/* with USER_TABLE the session's settings are kept, so that settings of a user's trigger last */
	int			use = rights == SHARD_OWN_SQL_USER_TABLE ? FOR_USER_TABLE : FOR_SQL;

	GetUserIdAndSecContext(&own->userid, &own->sec_context);
	own->nestlevel = NewGUCNestLevel();
	own->keeps_settings = rights == SHARD_OWN_SQL_USER_TABLE && !InSecurityRestrictedOperation();
	for (int i = 0; i < lengthof(fixed); i++)
		if (fixed[i].use & use)
			(void) set_config_option(fixed[i].name, fixed[i].value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (rights == SHARD_OWN_SQL_SUPERUSER)
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
							   own->sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	own->has_snapshot = snapshot != InvalidSnapshot;
	if (own->has_snapshot)
		PushActiveSnapshot(snapshot);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
shard_own_sql_end(ShardOwnSql *own)
{
	SPI_finish();
	if (own->has_snapshot)
		PopActiveSnapshot();
	SetUserIdAndSecContext(own->userid, own->sec_context);
	AtEOXact_GUC(own->keeps_settings, own->nestlevel);
}

void
shard_own_sql_become(ShardOwnSql *own, Oid userid)
{
	GetUserIdAndSecContext(&own->userid, &own->sec_context);
	own->nestlevel = NewGUCNestLevel();
	SetUserIdAndSecContext(userid, own->sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
}

void
shard_own_sql_return(const ShardOwnSql *own)
{
	SetUserIdAndSecContext(own->userid, own->sec_context);
	AtEOXact_GUC(false, own->nestlevel);
}

static uint64
execute(const char *sql, bool read_only, int expected, int nparams, const ShardSqlParam *params)
{
	Oid		   *types = palloc(sizeof(Oid) * Max(nparams, 1));
	Datum	   *values = palloc(sizeof(Datum) * Max(nparams, 1));
	char	   *nulls = palloc(Max(nparams, 1));
	int			result;

	for (int i = 0; i < nparams; i++)
	{
		types[i] = params[i].type;
		values[i] = params[i].value;
		nulls[i] = params[i].isnull ? 'n' : ' ';
	}
	result = SPI_execute_with_args(sql, nparams, types, values, nulls, read_only, 0);
	if (result < 0 || (expected != 0 && result != expected))
		elog(ERROR, "unexpected result \"%s\" of: %s", SPI_result_code_string(result), sql);
	return SPI_processed;
}

uint64
shard_own_sql_execute(const char *sql, int expected, int nparams, const ShardSqlParam *params)
{
	return execute(sql, false, expected, nparams, params);
}

uint64
shard_own_sql_select(const char *sql, int nparams, const ShardSqlParam *params)
{
	return execute(sql, true, 0, nparams, params);
}

uint64
shard_own_sql_run(const char *sql, int nparams, const ShardSqlParam *params)
{
	ShardOwnSql own;
	uint64		nrows;

	shard_own_sql_begin(&own, SHARD_OWN_SQL_SUPERUSER, GetTransactionSnapshot());
	nrows = shard_own_sql_execute(sql, 0, nparams, params);
	shard_own_sql_end(&own);
	return nrows;
}

List *
shard_own_sql_rows(const char *sql, Snapshot snapshot)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *rows = NIL;
	ShardOwnSql own;
	uint64		nrows;

	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, snapshot != InvalidSnapshot ? snapshot : GetTransactionSnapshot());
	nrows = execute(sql, snapshot != InvalidSnapshot, SPI_OK_SELECT, 0, NULL);
	MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < nrows; i++)
	{
		TupleDesc	desc = SPI_tuptable->tupdesc;
		ShardSqlField *row = palloc(sizeof(ShardSqlField) * Max(desc->natts, 1));

		for (int j = 0; j < desc->natts; j++)
			row[j] = SPI_getvalue(SPI_tuptable->vals[i], desc, j + 1);
		rows = lappend(rows, row);
	}
	shard_own_sql_end(&own);
	return rows;
}

char *
shard_own_sql_value(const char *sql, Snapshot snapshot)
{
	List	   *rows = shard_own_sql_rows(sql, snapshot);

	return rows != NIL ? ((ShardSqlField *) linitial(rows))[0] : NULL;
}

List *
shard_own_sql_oids(const char *sql, Snapshot snapshot)
{
	List	   *oids = NIL;

	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(sql, snapshot))
		oids = lappend_oid(oids, atooid(row[0]));
	return oids;
}

static void
fix_session(int use)
{
	for (int i = 0; i < lengthof(fixed); i++)
		if (fixed[i].use & use)
			SetConfigOption(fixed[i].name, fixed[i].value, PGC_SUSET, PGC_S_OVERRIDE);
}

void
shard_own_sql_fix_session(void)
{
	fix_session(FOR_SQL | FOR_WORKER);
}

void
shard_own_sql_fix_values(void)
{
	fix_session(FOR_VALUES);
}

char *
shard_own_sql_value_commands(void)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < lengthof(fixed); i++)
		if (fixed[i].use & FOR_VALUES)
			appendStringInfo(&sql, "SET %s = '%s'; ", fixed[i].name, fixed[i].value);
	return sql.data;
}
