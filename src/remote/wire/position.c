/*
 * position.c
 *	  How far in a node's WAL lies what this session has committed there.
 */
#include "postgres.h"

#include "remote/wire/position.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

static HTAB *positions = NULL;

ShardPosition *
shard_position_get(Oid serverid)
{
	ShardPosition *of_node;
	bool		found;

	if (!positions)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(ShardPosition);
		ctl.hcxt = AllocSetContextCreate(TopMemoryContext, "shardfdw positions", ALLOCSET_SMALL_SIZES);
		positions = hash_create("shardfdw positions", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	of_node = hash_search(positions, &serverid, HASH_ENTER, &found);
	if (!found)
	{
		of_node->ncommits = of_node->nknown = 0;
		of_node->position = of_node->end = InvalidXLogRecPtr;
		of_node->asked_at = 0;
	}
	return of_node;
}

ShardPosition *
shard_position_find(Oid serverid)
{
	return positions ? hash_search(positions, &serverid, HASH_FIND, NULL) : NULL;
}

bool
shard_position_parse(const char *text, XLogRecPtr *position)
{
	unsigned int high;
	unsigned int low;
	int			len = 0;

	if (sscanf(text, "%8X/%8X%n", &high, &low, &len) != 2 || text[len] != '\0')
		return false;
	*position = ((uint64) high) << 32 | low;
	return true;
}

void
shard_position_learn(ShardPosition *of_node, uint64 ncommits, XLogRecPtr position)
{
	of_node->position = Max(of_node->position, position);
	of_node->nknown = Max(of_node->nknown, ncommits);
}

void
shard_position_take(ShardConn *conn, PGresult *res)
{
	XLogRecPtr	position;

	/* without an answer it stays unknown, and is asked for again when a standby is to be read */
	if (PQntuples(res) == 1 && PQnfields(res) == 1 && shard_position_parse(PQgetvalue(res, 0, 0), &position))
		shard_position_learn(conn->position, conn->ncommits_asked, position);
	PQclear(res);
}
