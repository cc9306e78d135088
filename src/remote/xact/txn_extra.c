/*
 * txn_extra.c
 *	  Further connections that write to a node in the same transaction.
 *
 * Only a transaction that is one statement may have them (see txn.c).  For the node they are
 * separate transactions, which do not see each other's rows.  So each table is claimed by one of
 * them, by the name of the table on the node.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "remote/xact/txn_private.h"
#include "utils/memutils.h"

ShardConn *
shard_txn_extra_writer_start(Oid serverid, Oid userid)
{
	ShardWriter *writer = shard_txn_find_writer(serverid, userid);
	ShardConn  *conn;

	if (IsTransactionBlock() || GetCurrentTransactionNestLevel() > 1)
		elog(ERROR, "a second connection cannot write to node \"%s\" in a transaction block",
			 GetForeignServer(serverid)->servername);
	if (IsolationUsesXactSnapshot())
		return NULL;
	if (!writer)
		elog(ERROR, "nothing writes to node \"%s\"", GetForeignServer(serverid)->servername);
	shard_txn_check_not_lost(writer);

	/* if the limit was lowered, idle connections above it may exist; they must not be used here */
	if (1 + writer->nextra >= shard_guc_max_connections_per_node)
		return NULL;
	conn = shard_pool_start_extra(shard_pool_get(serverid, userid));
	if (conn)
		writer->nextra++;
	return conn;
}

static bool
has_claimed(const ShardConn *conn, const char *table)
{
	foreach_ptr(char, claimed, conn->extra_tables)
		if (strcmp(claimed, table) == 0)
			return true;
	return false;
}

void
shard_txn_extra_writer_claim(ShardConn *conn, const char *table)
{
	MemoryContext oldcxt;

	Assert(conn->is_extra);
	if (has_claimed(conn, table))
		return;
	oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	conn->extra_tables = lappend(conn->extra_tables, pstrdup(table));
	MemoryContextSwitchTo(oldcxt);
}

ShardConn *
shard_txn_extra_writer_of(Oid serverid, Oid userid, const char *table)
{
	ShardWriter *writer = shard_txn_find_writer(serverid, userid);
	dlist_iter	iter;

	if (!writer || writer->nextra == 0)
		return NULL;
	dlist_foreach(iter, &shard_pool_get(serverid, userid)->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn->is_extra && has_claimed(conn, table))
			return conn;
	}
	return NULL;
}
