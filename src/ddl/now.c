/*
 * owner_code.c
 *	  C half of check_owner_code(): judges a table's code by what is committed now.
 *
 * A transaction at REPEATABLE READ sees constraints as they were when it began; those
 * that run are those of now.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(shardfdw_check_owner_code);

Datum
shardfdw_check_owner_code(PG_FUNCTION_ARGS)
{
	char	   *sql = psprintf("SELECT shardfdw.check_owner_code_seen(%u, %s)", PG_GETARG_OID(0),
							   quote_literal_cstr(text_to_cstring(PG_GETARG_TEXT_PP(1))));

	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	if (SPI_execute(sql, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not run: %s", sql);
	SPI_finish();
	PopActiveSnapshot();
	PG_RETURN_VOID();
}
