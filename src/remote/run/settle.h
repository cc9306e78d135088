/*
 * settle.h
 *	  Waiting for what is prepared on nodes.
 */
#ifndef SHARDFDW_SETTLE_H
#define SHARDFDW_SETTLE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/run/command.h"

/*
 * Waits until what this server's transactions have prepared on servers (OIDs) by now is committed or rolled back.
 * Transactions that were prepared more than five seconds ago are not waited for: no session is about to end them.
 * Asks in mode, by the mappings of userid.  Returns the servers on which such old ones are left.
 */
extern List *shard_settle_wait(const List *servers, Oid userid, ShardCommandMode mode);

#endif
