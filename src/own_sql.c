/*
 * own_sql.c
 *	  SQL on the extension's own tables.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "utils/snapmgr.h"

int64
shard_own_sql_run(const char *sql)
{
	Oid			save_userid;
	int			save_sec_context;
	int64		nrows;

	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, save_sec_context | SECURITY_LOCAL_USERID_CHANGE);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "could not write a table of the extension: %s", sql);
	nrows = SPI_processed;
	SPI_finish();
	PopActiveSnapshot();
	SetUserIdAndSecContext(save_userid, save_sec_context);
	return nrows;
}
