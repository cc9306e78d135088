/*
 * isolation.c
 *	  Refuses functions that create, copy or drop tables in transactions with a fixed snapshot.
 *
 * At REPEATABLE READ and SERIALIZABLE, queries of such a function, including queries of the catalogs, see the data
 * that was committed when the transaction began.  But the function may have waited for the table's lock since then.
 * It would copy the old state of the table, and silently lose later commits of other sessions.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_check_isolation);

/* check_isolation(function text) -> void */
Datum
shardfdw_check_isolation(PG_FUNCTION_ARGS)
{
	/* core uses this SQLSTATE if a command needs another isolation level */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s() needs transaction isolation level READ COMMITTED", text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errdetail("At %s it would work on tables and nodes as they were when the transaction began, and what others have committed since would be lost.",
						   IsolationIsSerializable() ? "SERIALIZABLE" : "REPEATABLE READ"),
				 errhint("Begin the transaction with BEGIN ISOLATION LEVEL READ COMMITTED; for single statements SET default_transaction_isolation = 'read committed'.")));
	PG_RETURN_VOID();
}
