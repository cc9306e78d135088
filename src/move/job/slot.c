/*
 * slot.c
 *	  A temporary replication slot on the source, and the changes that it sends.
 *
 * The coordinator is the client of the source's replication, so nodes need no connections to each other.  A temporary
 * slot ends with the connection.  So after a job's process has died, the source keeps no WAL for it.
 */
#include "postgres.h"

#include "byte_order.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "move/job/link.h"
#include "move/job/slot.h"
#include "nodes/value.h"
#include "remote/wire/error.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"

#define TELL_MS 5000			/* wal_sender_timeout is 60 seconds by default */
#define DATA_HEADER 25			/* type, start, end, time */
/*
 * First version in which pgoutput sends logical messages.  Newer versions leave out empty transactions.  With its
 * message, the transaction of shard_follow_to_now() arrives immediately, not with the next keepalive.
 */
#define MESSAGES_VERSION 140000
#define KEEPALIVE_BYTES 18		/* type, end, time, whether a reply is requested */

XLogRecPtr
shard_slot_position(const char *text)
{
	return DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(text)));
}

ShardSlot *
shard_slot_create(MemoryContext cxt, ShardConn *link, const char *name)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardSlot  *slot = palloc0(sizeof(ShardSlot));
	ShardBroadcast *item;
	PGresult   *res;

	slot->name = pstrdup(name);
	slot->link = link;
	/* the older form, which all major versions accept */
	item = shard_link_query(link, NULL, psprintf("CREATE_REPLICATION_SLOT \"%s\" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT", name), 0);
	res = item->result;
	if (PQntuples(res) != 1 || PQnfields(res) < 3)
		shard_error_protocol(slot->link, NULL, "a replication slot was expected");
	slot->start = shard_slot_position(PQgetvalue(res, 0, 1));
	slot->snapshot = pstrdup(PQgetvalue(res, 0, 2));
	shard_broadcast_free(item);
	slot->received = slot->done = slot->written = slot->start;
	MemoryContextSwitchTo(oldcxt);
	return slot;
}

ShardSlot *
shard_slot_use(MemoryContext cxt, ShardConn *link, const char *name, XLogRecPtr start)
{
	ShardSlot  *slot = MemoryContextAllocZero(cxt, sizeof(ShardSlot));

	slot->name = MemoryContextStrdup(cxt, name);
	slot->link = link;
	slot->start = slot->received = slot->done = slot->written = start;
	return slot;
}

/* Names in double quotes, separated by commas, as a literal of the replication protocol, which has no other escapes. */
static char *
quote_publications(const List *names)
{
	StringInfoData buf;
	const ListCell *lc;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '\'');
	foreach(lc, names)
	{
		appendStringInfoString(&buf, lc == list_head(names) ? "\"" : ",\"");
		for (const char *name = strVal(lfirst(lc)); *name; name++)
		{
			if (*name == '"' || *name == '\'')
				appendStringInfoChar(&buf, *name);
			appendStringInfoChar(&buf, *name);
		}
		appendStringInfoChar(&buf, '"');
	}
	appendStringInfoChar(&buf, '\'');
	return buf.data;
}

void
shard_slot_stream(ShardSlot *slot, const List *publications, const char *options)
{
	shard_link_copy(slot->link, NULL, psprintf("START_REPLICATION SLOT \"%s\" LOGICAL %X/%X (proto_version '1', publication_names %s%s%s)",
										 slot->name, LSN_FORMAT_ARGS(slot->start), quote_publications(publications),
										 slot->link->server_version >= MESSAGES_VERSION ? ", messages 'true'" : "", options));
	slot->streams = true;
	shard_slot_tell(slot, true);
}

/* Handles a keepalive message. */
static void
take_keepalive(ShardSlot *slot)
{
	XLogRecPtr	end = shard_get_uint64(slot->message + 1);

	slot->received = Max(slot->received, end);
	slot->written = Max(slot->written, end);
	if (slot->message[KEEPALIVE_BYTES - 1])
		shard_slot_tell(slot, true);
}

bool
shard_slot_next(ShardSlot *slot, const char **data, int *len)
{
	for (;;)
	{
		if (slot->message)
			PQfreemem(slot->message);
		slot->message = NULL;
		*len = shard_link_copy_data(slot->link, &slot->message);
		if (*len == 0)
			return false;
		if (*len < 0)
		{
			/* the source ends the stream when it shuts down, or after an error */
			(void) shard_link_end_copy(slot->link, NULL);
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("node \"%s\" has ended the stream of changes", slot->link->node)));
		}
		if (slot->message[0] == 'w' && *len >= DATA_HEADER)
		{
			slot->received = Max(slot->received, shard_get_uint64(slot->message + 1));
			slot->written = Max(slot->written, shard_get_uint64(slot->message + 9));
			*data = slot->message + DATA_HEADER;
			*len -= DATA_HEADER;
			return true;
		}
		if (slot->message[0] == 'k' && *len == KEEPALIVE_BYTES)
			take_keepalive(slot);
		else
			shard_error_protocol(slot->link, NULL, "unexpected message in a stream of changes");
	}
}

void
shard_slot_tell(ShardSlot *slot, bool force)
{
	TimestampTz now = GetCurrentTimestamp();
	StringInfoData buf;

	if (!slot->streams || (!force && !TimestampDifferenceExceeds(slot->told_at, now, TELL_MS)))
		return;
	initStringInfo(&buf);
	pq_sendbyte(&buf, 'r');
	pq_sendint64(&buf, slot->received);
	pq_sendint64(&buf, slot->done);
	pq_sendint64(&buf, slot->done);
	pq_sendint64(&buf, now);
	pq_sendbyte(&buf, 0);
	/* the rest is sent when the link is waited for; a lost connection is noticed on reading */
	if (PQputCopyData(slot->link->pg, buf.data, buf.len) > 0)
		shard_connection_flush(slot->link);
	slot->told_at = now;
	pfree(buf.data);
}

void
shard_slot_close(ShardSlot *slot)
{
	if (slot->message)
		PQfreemem(slot->message);
	slot->message = NULL;
	shard_link_close(&slot->link);
}
