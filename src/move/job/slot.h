/*
 * slot.h
 *	  A temporary replication slot on the source, and the changes that it sends.
 */
#ifndef SHARDFDW_SLOT_H
#define SHARDFDW_SLOT_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "remote/wire/connection.h"

typedef struct ShardSlot
{
	ShardConn  *link;
	const char *name;
	const char *snapshot;		/* as of start; until anything else is sent on link */
	XLogRecPtr	start;			/* changes of transactions that commit from here on are not in the snapshot */
	bool		streams;
	XLogRecPtr	received;		/* WAL up to here has been looked at by the source */
	XLogRecPtr	done;			/* and what came of it is committed on the target */
	XLogRecPtr	written;		/* end of the source's WAL, as last told */
	TimestampTz told_at;		/* when the source was last told how far we are */
	char	   *message;		/* the last one, libpq's */
} ShardSlot;

/*
 * Makes a slot, which vanishes with link, for the replication protocol, which is its own from now on.  Waits for all
 * transactions of the source that have begun to write.  Memory: cxt.
 */
extern ShardSlot *shard_slot_create(MemoryContext cxt, ShardConn *link, const char *name);

/* One that is there, whose changes are wanted from start on, and which stays. */
extern ShardSlot *shard_slot_use(MemoryContext cxt, ShardConn *link, const char *name, XLogRecPtr start);

/* Has it send the changes of publications (String) from start on; options: further ones of pgoutput, with a comma before each. */
extern void shard_slot_stream(ShardSlot *slot, const List *publications, const char *options);

/*
 * The next message, if one is here; it is valid until the next call.  False: none is here.
 * Never waits.  Errors: the source's.
 */
extern bool shard_slot_next(ShardSlot *slot, const char **data, int *len);

/* Tells the source how far we are, so that it neither ends the connection nor keeps WAL that is not needed; not more often than has to be, unless forced. */
extern void shard_slot_tell(ShardSlot *slot, bool force);

extern void shard_slot_close(ShardSlot *slot);

#endif
