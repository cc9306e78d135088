/*
 * connection_prepared.c
 *	  The statements that a connection has prepared on its node.
 *
 * A text is prepared at its third use on a connection, and stays prepared.  If a connection's room
 * is taken by statements that are no longer used, the connection is closed after some time, and the
 * next one starts empty.  The name of a prepared statement consists of the hash of its text and a
 * number that each attempt increases: a Parse whose result was not read may have succeeded, and has
 * taken its name. connection_send.c sends Parse.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "hash_table.h"
#include "remote/wire/connection_private.h"
#include "utils/memutils.h"

#define USES_BEFORE_PREPARE 3	/* at this use a statement is prepared */
#define MAX_PREPARED 500		/* statements remembered per connection */
#define MAX_GENERATIONS 10		/* how often one is prepared; each time the node keeps one more plan */

/*
 * Total length of the texts that may be prepared per connection.  The plan of a UNION ALL over a
 * node's shards needs about 100 times as much memory on the node as its text.  Longer texts are not
 * remembered at all.
 */
#define MAX_PREPARED_BYTES (256 * 1024)
#define MAX_TEXT_BYTES (MAX_PREPARED_BYTES / 8)

/* After so many uses of statements for which there was no room, the connection is replaced. */
#define MAX_USES_WITHOUT_ROOM 1000

struct ShardPrepared
{
	uint64		hash;			/* key: hash of the text */
	char	   *sql;
	int			nuses;
	int			generation;		/* part of its name; each attempt to prepare it increases it */
	bool		prepared;
};

void
shard_connection_free_prepared(ShardConn *conn)
{
	HASH_SEQ_STATUS seq;
	ShardPrepared *entry;

	if (!conn->prepared)
		return;
	hash_seq_init(&seq, conn->prepared);
	while ((entry = hash_seq_search(&seq)) != NULL)
		pfree(entry->sql);
	hash_destroy(conn->prepared);
	conn->prepared = NULL;
	conn->prepared_bytes = 0;
	conn->uses_without_room = 0;
}

/* Entry of sql; NULL when it has none. */
static ShardPrepared *
find_prepared(ShardConn *conn, const char *sql)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) sql, strlen(sql), 0);
	ShardPrepared *entry;

	if (!conn->prepared)
		return NULL;
	entry = hash_search(conn->prepared, &hash, HASH_FIND, NULL);
	return entry && strcmp(entry->sql, sql) == 0 ? entry : NULL;
}

/* Makes room: forgets texts that were used once or twice. */
static void
forget_unprepared(ShardConn *conn)
{
	HASH_SEQ_STATUS seq;
	ShardPrepared *entry;

	hash_seq_init(&seq, conn->prepared);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (entry->generation > 0)
			continue;			/* its name must not be used again */
		pfree(entry->sql);
		hash_search(conn->prepared, &entry->hash, HASH_REMOVE, NULL);
	}
}

/* Creates an entry for sql, unless too many are prepared. */
static void
remember_statement(ShardConn *conn, const char *sql)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) sql, strlen(sql), 0);
	char	   *copy;
	ShardPrepared *entry;
	bool		found;

	if (strlen(sql) > MAX_TEXT_BYTES)
		return;
	if (!conn->prepared)
		conn->prepared = shard_hash_table_create("shardfdw prepared statements", 32, sizeof(uint64), sizeof(ShardPrepared),
												 shard_connection_cxt);
	if (hash_get_num_entries(conn->prepared) >= MAX_PREPARED)
		forget_unprepared(conn);
	if (hash_get_num_entries(conn->prepared) >= MAX_PREPARED)
		return;
	copy = MemoryContextStrdup(shard_connection_cxt, sql);
	entry = hash_search(conn->prepared, &hash, HASH_ENTER, &found);
	if (found)
	{
		pfree(copy);			/* the entry belongs to another text with the same hash */
		return;
	}
	entry->sql = copy;
	entry->nuses = 1;
	entry->generation = 0;
	entry->prepared = false;
}

static void
name_prepared(const ShardPrepared *entry, char *name, size_t size)
{
	snprintf(name, size, "shardfdw_" UINT64_FORMAT "_%d", entry->hash, entry->generation);
}

ShardPrepared *
shard_connection_find_due(ShardConn *conn, const char *sql)
{
	ShardPrepared *entry = find_prepared(conn, sql);

	if (conn->stateless)
		return NULL;			/* the next transaction may run in another session */
	if (!entry)
	{
		remember_statement(conn, sql);
		return NULL;
	}
	if (entry->prepared || entry == conn->preparing || ++entry->nuses < USES_BEFORE_PREPARE)
		return NULL;
	if (entry->generation >= MAX_GENERATIONS)
		return NULL;
	if (conn->prepared_bytes + strlen(sql) > MAX_PREPARED_BYTES)
	{
		conn->invalidated |= ++conn->uses_without_room >= MAX_USES_WITHOUT_ROOM;
		return NULL;
	}
	conn->prepared_bytes += strlen(sql);
	return entry;
}

void
shard_connection_name_anew(ShardPrepared *entry, char *name, size_t size)
{
	entry->generation++;		/* an earlier Parse may have succeeded unnoticed */
	name_prepared(entry, name, size);
}

bool
shard_connection_is_stale(const PGresult *res)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);

	if (!sqlstate)
		return false;
	/* "prepared statement does not exist" */
	if (strcmp(sqlstate, "26000") == 0)
		return true;
	/* "cached plan must not change result type"; other errors with this code come from the statement itself */
	return strcmp(sqlstate, "0A000") == 0 && function && strcmp(function, "RevalidateCachedQuery") == 0;
}

void
shard_connection_forget_prepared(ShardConn *conn, const char *sql)
{
	ShardPrepared *entry = find_prepared(conn, sql);

	if (entry && entry->prepared)
	{
		entry->prepared = false;
		entry->nuses = 0;
	}
}

bool
shard_connection_find_prepared(ShardConn *conn, const char *sql, char *name, size_t size)
{
	ShardPrepared *entry = find_prepared(conn, sql);

	if (!entry)
		return false;
	/* the caller has read the result of the Parse, which succeeded */
	if (entry == conn->preparing)
		entry->prepared = true;
	name_prepared(entry, name, size);
	return entry->prepared;
}
