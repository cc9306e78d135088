/*
 * settle.h
 *	  Waits until prepared transactions on nodes have ended.
 */
#ifndef SHARDFDW_SETTLE_H
#define SHARDFDW_SETTLE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/run/command.h"

/*
 * Waits until the transactions of this server that are prepared on servers (OIDs) now have been
 * committed or rolled back.  Transactions that were prepared more than five seconds ago are not
 * waited for, since no session is about to end them.  Queries run in mode, with the mappings of
 * userid.  Returns the servers that have such old ones.
 */
extern List *shard_settle_wait(const List *servers, Oid userid, ShardCommandMode mode);

#endif
