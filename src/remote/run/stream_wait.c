/*
 * stream_wait.c
 *	  Waits for streams: what each of them needs before it can continue.
 *
 * A stream waits for the socket only if reading has just returned no complete row ("drained").  It
 * reads the socket only if no complete row is in memory.  So memory is bounded, and no bytes inside
 * libpq are overlooked.
 *
 * What a stream waits for, by state:
 *
 *		 QUEUED				nothing, if another one of the streams can make progress first;
 *							else one that is not being read must give up its connection
 *		 CONNECTING			the socket, up to connect_timeout
 *		 SETTLING, SENT		the socket
 *		 SNAPSHOT			the socket of the stream that exports it, which is read for this stream
 */
#include "postgres.h"

#include "remote/run/stream_private.h"
#include "remote/wire/error.h"
#include "storage/latch.h"
#include "utils/memutils.h"

static uint64 wait_counter = 0;

/* The state of one wait. */
typedef struct StreamWait
{
	ShardWaitItem *items;
	ShardStream **owners;		/* streams of the items */
	int			nitems;
	int			maxitems;
	long		timeout_ms;		/* -1: none */
	ShardStream *queued;		/* a stream that has no connection */
} StreamWait;

static void
limit_timeout(StreamWait *wait, long timeout_ms)
{
	if (wait->timeout_ms < 0 || timeout_ms < wait->timeout_ms)
		wait->timeout_ms = timeout_ms;
}

static void
add_item(StreamWait *wait, ShardStream *stream, int events)
{
	if (stream->wait_no == wait_counter)
		return;					/* already added */
	if (wait->nitems == wait->maxitems)
	{
		wait->maxitems = Max(16, wait->maxitems * 2);
		if (wait->items)
		{
			wait->items = repalloc(wait->items, wait->maxitems * sizeof(ShardWaitItem));
			wait->owners = repalloc(wait->owners, wait->maxitems * sizeof(ShardStream *));
		}
		else
		{
			wait->items = palloc(wait->maxitems * sizeof(ShardWaitItem));
			wait->owners = palloc(wait->maxitems * sizeof(ShardStream *));
		}
	}
	stream->wait_no = wait_counter;
	wait->items[wait->nitems].fd = PQsocket(stream->conn->pg);
	wait->items[wait->nitems].events = events;
	wait->items[wait->nitems].revents = 0;
	wait->owners[wait->nitems++] = stream;
}

static int
reading_events(ShardStream *stream)
{
	return WL_SOCKET_READABLE | (shard_connection_flush(stream->conn) ? 0 : WL_SOCKET_WRITEABLE);
}

static bool
is_encrypted(ShardStream *stream)
{
	return stream->conn && shard_connection_is_encrypted(stream->conn);
}

static void
add_reading(StreamWait *wait, ShardStream *stream)
{
	add_item(wait, stream, reading_events(stream));
	if (is_encrypted(stream))
		limit_timeout(wait, SHARD_ENCRYPTED_WAIT_MS);
}

/* Adds the stream that exports the snapshot for which stream waits. */
static void
add_exporter(StreamWait *wait, ShardStream *stream)
{
	bool		found = false;

	shard_pool_foreach(conn, stream->pool)
	{
		ShardStream *other = shard_stream_of_connection(conn);

		if (other && shard_stream_is_exporting(other))
		{
			add_reading(wait, other);
			found = true;
		}
	}
	if (!found)
		limit_timeout(wait, 10);	/* the snapshot is about to be requested again */
}

/*
 * Adds what stream waits for.  True if it need not wait.
 */
static bool
add_stream(StreamWait *wait, ShardStream *stream)
{
	long		timeout_ms;

	switch (stream->state)
	{
		case STREAM_QUEUED:
			shard_stream_start_queued(stream->pool, stream->snapshot);
			if (stream->state != STREAM_QUEUED)
				return true;
			wait->queued = stream;
			return false;
		case STREAM_CONNECTING:
			add_item(wait, stream, stream->conn->opening.events);
			if ((timeout_ms = shard_connection_poll_ms(stream->conn)) >= 0)
				limit_timeout(wait, timeout_ms);
			return false;
		case STREAM_SETTLING:
			add_reading(wait, stream);
			return false;
		case STREAM_SNAPSHOT:
			if (shard_stream_advance(stream))
				return true;
			add_exporter(wait, stream);
			return false;
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			if (!stream->drained)
				return true;
			add_reading(wait, stream);
			return false;
		default:
			return true;
	}
}

/*
 * Reads the answer of an exporting stream, for the streams that wait for its snapshot.  If its
 * statement had to wait for the snapshot, sends it.  Does not read its rows.
 */
static void
pump_export(ShardStream *stream)
{
	ShardRow	row;

	stream->reader = STREAM_READER_EXPORT;
	while (!stream->drained &&
		   (stream->state == STREAM_PREAMBLE || (stream->state == STREAM_SENT && shard_stream_is_exporting(stream))))
	{
		/* no row can arrive before the identifier */
		if (shard_stream_read_node(stream, &row) == SHARD_STREAM_ROW)
			shard_error_protocol(stream->conn, stream->spec.label, "rows instead of a snapshot identifier");
	}
	stream->reader = STREAM_READER_CALLER;
	if (!shard_stream_is_exporting(stream))
		stream->drained = false;	/* rows may have arrived already */
}

/* alone: the wait is for one stream; then the set that survives the statement is best */
static void
wait_for_items(StreamWait *wait, ShardWaitSet *set, bool alone)
{
	if (wait->nitems == 1 && (alone || !set))
		wait->items[0].revents = shard_wait_socket(wait->items[0].fd, wait->items[0].events,
												   wait->timeout_ms, false);
	else if (set)
		shard_wait_set_wait(set, wait->items, wait->nitems, wait->timeout_ms, false);
	else
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw wait",
												  ALLOCSET_SMALL_SIZES);

		shard_wait_set_wait(shard_wait_set_create(cxt), wait->items, wait->nitems,
							wait->timeout_ms, false);
		MemoryContextDelete(cxt);
	}
}

void
shard_stream_wait(ShardStream **streams, int nstreams, ShardWaitSet *set)
{
	StreamWait	wait = {0};
	bool		go = false;

	wait.timeout_ms = -1;
	wait_counter++;
	for (int i = 0; i < nstreams && !go; i++)
		if (streams[i])
			go = add_stream(&wait, streams[i]);

	if (!go && wait.nitems > 0)
	{
		wait_for_items(&wait, set, nstreams == 1);
		for (int i = 0; i < wait.nitems; i++)
		{
			ShardStream *stream = wait.owners[i];

			/* a TLS library may have data that the socket does not show */
			if (wait.items[i].revents || is_encrypted(stream))
				stream->drained = false;
		}
		for (int i = 0; i < wait.nitems; i++)
			if (shard_stream_is_exporting(wait.owners[i]) && wait.owners[i]->reader == STREAM_READER_CALLER)
				pump_export(wait.owners[i]);	/* a stream that yields reads it by itself */
	}
	else if (!go && wait.queued)
		shard_stream_make_room(wait.queued);
	else if (!go && wait.timeout_ms >= 0)
		(void) shard_wait_socket(-1, 0, wait.timeout_ms, false);

	if (wait.items)
	{
		pfree(wait.items);
		pfree(wait.owners);
	}
}

bool
shard_stream_connecting(const ShardStream *stream)
{
	return stream->state == STREAM_CONNECTING;
}

bool
shard_stream_idle(ShardStream *stream)
{
	switch (stream->state)
	{
		case STREAM_QUEUED:
			shard_stream_start_queued(stream->pool, stream->snapshot);
			return stream->state == STREAM_QUEUED;
		case STREAM_SETTLING:
		case STREAM_SNAPSHOT:
			return !shard_stream_advance(stream) && stream->state != STREAM_QUEUED;
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			return stream->drained;
		default:
			return false;
	}
}

int
shard_stream_socket(ShardStream *stream, int *events)
{
	switch (stream->state)
	{
		case STREAM_SETTLING:
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			*events = reading_events(stream);
			return PQsocket(stream->conn->pg);
		default:
			return -1;
	}
}

void
shard_stream_awake(ShardStream *stream, bool ready)
{
	/* a TLS library may have data that the socket does not show */
	if (ready || is_encrypted(stream))
		stream->drained = false;
}
