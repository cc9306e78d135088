/*
 * isolation.c
 *	  Refuses functions that make, copy or drop tables in transactions that see one moment only.
 *
 * At REPEATABLE READ and SERIALIZABLE every query of such a function, for rows or in the
 * catalogs, sees what was committed when the transaction began, though the function may have
 * waited for the table's lock since.  It would make the table as it was then, and lose what
 * others have committed meanwhile without an error.
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
	/* the SQLSTATE that core has for a transaction of another level than a command needs */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s() needs transaction isolation level READ COMMITTED", text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errdetail("At %s it would work on tables and nodes as they were when the transaction began, and what others have committed since would be lost.",
						   IsolationIsSerializable() ? "SERIALIZABLE" : "REPEATABLE READ"),
				 errhint("Begin the transaction with BEGIN ISOLATION LEVEL READ COMMITTED; for single statements SET default_transaction_isolation = 'read committed'.")));
	PG_RETURN_VOID();
}
