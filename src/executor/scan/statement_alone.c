/*
 * statement_alone.c
 *	  Is the client's statement all of its transaction?
 *
 * If it is, and writes to one node only, that node commits it by itself, in one round trip
 * (remote/run/autocommit.h).  The answer is given before the statement is sent to the node.
 *
 *	 "no" for a statement that is alone		two round trips more, nothing else
 *	 "yes" for one that is not alone		the node keeps the statement although the transaction fails later
 *
 * So "yes" needs a proof that nothing can come between the end of the statement and the commit.
 *
 * Simple protocol: the statement is the only one of its message, since several would be a transaction block
 * (IsTransactionBlock()).  When the statement has ended, exec_simple_query() commits.  The message may follow statements of
 * the extended protocol without a Sync.  These are part of the transaction; if one of them has written, here or on a
 * node, shard_autocommit_possible() is false.
 *
 * Extended protocol: Sync commits.  "Yes" is the answer only if the message after Execute is Sync and has arrived:
 *
 *	 Parse Bind Execute Sync Parse ...
 *				|		|
 *				|		PqRecvPointer of pqcomm.c: the byte that PostgresMain() reads next
 *				consumed in full, its statement runs
 *
 * The buffer has the client's bytes in their order, decrypted.  Only pqcomm.c's functions take bytes from it, and none is called
 * while a statement of this kind runs.  So the next byte is the type of the next message.  It does not
 * matter who has sent it: a pooler, a pipeline, a batch.  A pooler's message counts as it does for a plain table.
 * For everything else the answer is "no": the buffer is empty (Sync comes in a later packet), Flush, Close,
 * Terminate, another statement.
 *
 * From the node's answer on, interrupts are held until the local commit.  So neither a cancel nor a timeout comes in between.
 *
 * If the connection is lost within the five bytes of Sync, the statement stays, where a plain table's is rolled back.  The
 * client cannot tell that from a loss after Sync: in both cases the client has no answer and has to look.
 *
 * t/commit_pipeline.pl has the arrangements of messages, cut into packets at each byte.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/scan/statement_alone.h"
#include "libpq/libpq.h"
#include "mb/pg_wchar.h"
#include "tcop/pquery.h"
#include "utils/portal.h"

/* By the extended protocol: is it the first statement since the last Sync, and is the next message, already here, a Sync? */
static bool
is_synced(void)
{
	bool		is_sync;

	if (SHARD_XACT_IS_PIPELINED() || !shard_client_data_buffered())
		return false;
	pq_startmsgread();
	is_sync = pq_peekbyte() == 'S';
	pq_endmsgread();
	return is_sync;
}

bool
shard_statement_is_alone(const EState *estate)
{
	return !IsTransactionBlock() && GetCurrentTransactionNestLevel() == 1 &&
		ActivePortal != NULL && ActivePortal->name[0] == '\0' &&
		list_length(ActivePortal->stmts) == 1 && linitial(ActivePortal->stmts) == estate->es_plannedstmt &&
		(!ActivePortal->visible || is_synced());
}

bool
shard_statement_client_takes_rows(void)
{
	int			encoding = pg_get_client_encoding();

	if (encoding != PG_SQL_ASCII && encoding != GetDatabaseEncoding())
		return false;
	for (int i = 0; ActivePortal->formats != NULL && i < ActivePortal->tupDesc->natts; i++)
	{
		/* an unknown one is found when the first row is sent */
		if (ActivePortal->formats[i] != 0 && ActivePortal->formats[i] != 1)
			return false;
	}
	return true;
}
