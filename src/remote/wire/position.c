/*
 * position.c
 *	  The WAL position on each node that covers all commits of this session there.
 */
#include "postgres.h"

#include "hash_table.h"
#include "remote/wire/position.h"
#include "utils/memutils.h"

static HTAB *positions = NULL;

ShardPosition *
shard_position_get(Oid serverid)
{
	ShardPosition *of_node;
	bool		found;

	if (!positions)
		positions = shard_hash_table_create("shardfdw positions", 16, sizeof(Oid), sizeof(ShardPosition), TopMemoryContext);
	of_node = hash_search(positions, &serverid, HASH_ENTER, &found);
	if (!found)
	{
		of_node->ncommits = of_node->nknown = 0;
		of_node->asked_at = 0;
		of_node->stat_node = -1;
		memset(&of_node->committed, 0, sizeof(ShardWalPlace));
		memset(&of_node->end, 0, sizeof(ShardWalPlace));
	}
	return of_node;
}

ShardPosition *
shard_position_find(Oid serverid)
{
	return positions ? hash_search(positions, &serverid, HASH_FIND, NULL) : NULL;
}

void
shard_position_forget_ends(void)
{
	HASH_SEQ_STATUS status;
	ShardPosition *of_node;

	if (!positions)
		return;
	hash_seq_init(&status, positions);
	while ((of_node = hash_seq_search(&status)) != NULL)
		of_node->asked_at = 0;
}

bool
shard_position_parse_lsn(const char *text, XLogRecPtr *lsn)
{
	unsigned int high;
	unsigned int low;
	int			len = 0;

	if (text == NULL || sscanf(text, "%8X/%8X%n", &high, &low, &len) != 2 || text[len] != '\0')
		return false;
	*lsn = ((uint64) high) << 32 | low;
	return true;
}

bool
shard_position_parse(const char *text, ShardWalPlace *place)
{
	unsigned int timeline;
	int			len = 0;

	if (text == NULL || sscanf(text, "%8X %n", &timeline, &len) != 1 || len != 9)
		return false;
	place->timeline = timeline;
	return shard_position_parse_lsn(text + len, &place->lsn);
}

bool
shard_position_is_reached(const ShardWalPlace *place, TimeLineID timeline, XLogRecPtr replayed)
{
	/*
	 * on an older timeline the same positions mean other records; a newer timeline has all of this
	 * one that was not lost
	 */
	return replayed >= place->lsn && timeline >= place->timeline;
}

bool
shard_position_learn(ShardPosition *of_node, const PGresult *res, uint64 ncommits, TimestampTz asked_at)
{
	ShardWalPlace place;

	/* without an answer it stays unknown; the next read of a standby asks again */
	if (PQntuples(res) != 1 || PQnfields(res) != 1 || !shard_position_parse(PQgetvalue(res, 0, 0), &place))
		return false;
	/* the first answer after a commit is the closest one */
	if (ncommits > of_node->nknown)
	{
		of_node->committed = place;
		of_node->nknown = ncommits;
	}
	if (asked_at > of_node->asked_at)
	{
		of_node->asked_at = asked_at;
		of_node->end = place;
	}
	return true;
}
