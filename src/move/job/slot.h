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
	const char *snapshot;		/* snapshot at start; valid until another command is sent on link */
	XLogRecPtr	start;			/* transactions that commit from here on are not in the snapshot */
	bool		streams;
	XLogRecPtr	received;		/* the source has processed its WAL up to here */
	XLogRecPtr	done;			/* the target has committed the changes up to here */
	XLogRecPtr	written;		/* end of the source's WAL, as last reported */
	TimestampTz told_at;		/* time of the last status sent to the source */
	char	   *message;		/* the last message, allocated by libpq */
} ShardSlot;

/* Reads a position that a server has printed. */
extern XLogRecPtr shard_slot_position(const char *text);

/*
 * Makes a slot that is dropped with link. link: for the replication protocol, and used only for this slot from now
 * on.  Waits for all transactions of the source that have begun to write.  Memory: cxt.
 */
extern ShardSlot *shard_slot_create(MemoryContext cxt, ShardConn *link, const char *name);

/* Uses an existing slot, from position start on.  The slot is not dropped. */
extern ShardSlot *shard_slot_use(MemoryContext cxt, ShardConn *link, const char *name, XLogRecPtr start);

/*
 * Starts the stream of changes of publications (list of String). options: additional options of pgoutput, each after
 * a comma.
 */
extern void shard_slot_stream(ShardSlot *slot, const List *publications, const char *options);

/*
 * Returns the next message if one has arrived; it is valid until the next call.  Returns false otherwise.  Never
 * waits.  Errors: errors of the source.
 */
extern bool shard_slot_next(ShardSlot *slot, const char **data, int *len);

/*
 * Sends the current position to the source, so that it keeps the connection but no unneeded WAL.  Without force, only
 * if enough time has passed.
 */
extern void shard_slot_tell(ShardSlot *slot, bool force);

extern void shard_slot_close(ShardSlot *slot);

#endif
