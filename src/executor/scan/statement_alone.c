/*
 * statement_alone.c
 *	  Is the client's statement all of its transaction?
 *
 * If it is, and writes to one node only, that node commits it by itself, in one round trip
 * (remote/run/autocommit.h).  This must be decided before the statement is sent to the node.
 *
 *	 wrong "no"		two more round trips
 *	 wrong "yes"	the node keeps the statement although the transaction fails later
 *
 * So "yes" needs a proof that nothing can run between the end of the statement and the commit.
 *
 * Simple protocol: the statement is the only one of its message, since several would be a
 * transaction block (IsTransactionBlock()).  When the statement has ended, exec_simple_query()
 * commits.  The message may follow statements of the extended protocol without a Sync.  These are
 * part of the transaction.  If one of them has written, here or on a node,
 * shard_autocommit_possible() is false.
 *
 * Extended protocol: Sync commits.  The answer is "yes" only if the message after Execute is Sync
 * and has arrived:
 *
 *	 Parse Bind Execute Sync Parse ...
 *				   |	|
 *				   |	PqRecvPointer of pqcomm.c: the byte that PostgresMain() reads next
 *				   completely read, its statement runs
 *
 * The buffer has the client's bytes in their order, decrypted.  Only functions of pqcomm.c take
 * bytes from it, and none of them is called while a statement of this kind runs.  So the next byte
 * is the type of the next message.  It does not matter whether a pooler, a pipeline or a batch has
 * sent it.  A pooler's message has the same effect as for a plain table.  In all other cases the
 * answer is "no": the buffer is empty (Sync arrives in a later packet), Flush, Close, Terminate,
 * another statement.
 *
 * From the node's answer on, interrupts are held until the local commit.  So neither a cancel nor a
 * timeout can occur in between.
 *
 * If the connection is lost within the five bytes of Sync, the statement stays, whereas a plain
 * table's statement would be rolled back.  The client cannot distinguish that from a loss after
 * Sync.  In both cases the client has no answer and must check.
 *
 * t/commit_pipeline.pl tests the sequences of messages, split into packets at each byte.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/scan/statement_alone.h"
#include "libpq/libpq.h"
#include "mb/pg_wchar.h"
#include "tcop/pquery.h"
#include "utils/portal.h"

/* Extended protocol: is it the first statement since the last Sync, and has the next message arrived, a Sync? */
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
		/* an unknown format is reported when the first row is sent */
		if (ActivePortal->formats[i] != 0 && ActivePortal->formats[i] != 1)
			return false;
	}
	return true;
}
