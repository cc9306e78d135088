/*
 * txn_written.c
 *	  The last command of the transaction that has written to a node.
 *
 * PostgreSQL numbers the commands of a transaction.  A snapshot shows what earlier commands than
 * its own have written (SnapshotData.curcid).  A node does not know these numbers: a read over the
 * connection that writes shows everything that was written over it.  The numbers kept here tell
 * whether that is more than the coordinator's snapshot would show.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "remote/xact/txn_private.h"
#include "utils/memutils.h"

static ShardWritten *
find_written(const ShardWriter *writer, int level)
{
	foreach_ptr(ShardWritten, written, writer->written)
	{
		if (written->level == level)
			return written;
	}
	return NULL;
}

void
shard_txn_note_written(const ShardConn *conn, int level, CommandId cid)
{
	ShardWriter *writer = shard_txn_find_writer(conn->serverid, conn->userid);
	ShardWritten *written;
	MemoryContext oldcxt;

	/* so that the next command gets another number, as after a write to a local table */
	(void) GetCurrentCommandId(true);
	if (writer == NULL)
		return;
	written = find_written(writer, level);
	if (written != NULL)
	{
		written->cid = Max(written->cid, cid);
		return;
	}
	oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	written = palloc(sizeof(ShardWritten));
	written->level = level;
	written->cid = cid;
	writer->written = lappend(writer->written, written);
	MemoryContextSwitchTo(oldcxt);
}

bool
shard_txn_written_since(const ShardConn *conn, CommandId cid)
{
	ShardWriter *writer = shard_txn_find_writer(conn->serverid, conn->userid);

	foreach_ptr(ShardWritten, written, writer ? writer->written : NIL)
	{
		if (written->cid >= cid)
			return true;
	}
	return false;
}

bool
shard_txn_has_writers(void)
{
	return shard_txn_writers != NIL;
}

void
shard_txn_end_written(ShardWriter *writer, int level, bool committed)
{
	foreach_ptr(ShardWritten, written, writer->written)
	{
		ShardWritten *outer;

		if (written->level < level)
			continue;
		outer = committed ? find_written(writer, level - 1) : NULL;
		if (committed && outer == NULL)
		{
			written->level = level - 1;
			continue;
		}
		if (outer != NULL)
			outer->cid = Max(outer->cid, written->cid);
		writer->written = foreach_delete_current(writer->written, written);
		pfree(written);
	}
}
