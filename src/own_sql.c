/*
 * own_sql.c
 *	  Runs SQL of the extension through SPI.
 *
 * The role and the settings of a session belong to its user, and to whom may run ALTER DATABASE or ALTER ROLE.  Under
 * a search_path of theirs, an operator or function in our text could be theirs, and would run with the rights that our
 * text has.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

/* Settings that decide what an SQL text means, or which rows it sees. */
static const struct
{
	const char *name;
	const char *value;
}			meaning[] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"standard_conforming_strings", "on"},
	{"transform_null_equals", "off"},
	{"array_nulls", "on"},
	{"quote_all_identifiers", "off"},
	/* a policy that would hide rows from our text is an error */
	{"row_security", "off"},
};

void
shard_own_sql_begin(ShardOwnSql *own, ShardOwnSqlRights rights, Snapshot snapshot)
{
	GetUserIdAndSecContext(&own->userid, &own->sec_context);
	/* what a user's trigger sets stays set */
	own->nestlevel = rights == SHARD_OWN_SQL_USER_TABLE ? 0 : NewGUCNestLevel();
	if (own->nestlevel > 0)
	{
		for (int i = 0; i < lengthof(meaning); i++)
			(void) set_config_option(meaning[i].name, meaning[i].value, PGC_USERSET, PGC_S_SESSION,
									 GUC_ACTION_SAVE, true, 0, false);
	}
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
	if (own->nestlevel > 0)
		AtEOXact_GUC(true, own->nestlevel);
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
	return execute(sql, true, SPI_OK_SELECT, nparams, params);
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

void
shard_own_sql_fix_session(void)
{
	for (int i = 0; i < lengthof(meaning); i++)
		SetConfigOption(meaning[i].name, meaning[i].value, PGC_SUSET, PGC_S_OVERRIDE);
}
