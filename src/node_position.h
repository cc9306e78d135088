/*
 * node_position.h
 *	  The table shardfdw_internal.node_position: WAL positions of nodes that contain all commits to
 *	  shards with replicas, and to reference tables.
 *
 * Nodes are identified by the names of their servers.  Each process has its own row per node, for
 * its own transactions, so no process waits for another.  If the WAL of a server has not reached
 * the positions in all rows of its node, the server lacks commits: it was restored, or a standby
 * that lagged was promoted.
 */
#ifndef SHARDFDW_NODE_POSITION_H
#define SHARDFDW_NODE_POSITION_H

#include "postgres.h"

#include "access/xlogdefs.h"

typedef struct ShardNodePosition
{
	int64		system_identifier;	/* 0: unknown */
	Oid			database;		/* on the node; InvalidOid: unknown */
	TimeLineID	timeline;		/* 0: unknown */
	XLogRecPtr	lsn;
} ShardNodePosition;

/* What was committed: the kinds of rows in the table. */
typedef enum ShardPositionKind
{
	SHARD_POSITION_REFERENCES,	/* reference tables: a promoted standby, which has a newer timeline, is accepted */
	SHARD_POSITION_REPLICAS,		/* shards with replicas: only an administrator knows what a promoted standby lacks */
	SHARD_POSITION_KINDS
} ShardPositionKind;

/*
 * Reads the positions, one of each kind, that a server must have reached: the farthest of all
 * committed rows and those of this transaction.  Timeline 0: none, or the table does not exist.
 *
 * Returns the current transaction or subtransaction if it has deleted positions of the server: they
 * are valid again when it is rolled back.  Otherwise InvalidTransactionId.
 */
extern TransactionId shard_node_position_read(const char *server, ShardNodePosition positions[SHARD_POSITION_KINDS]);

/*
 * Writes this process's row, in the current transaction.  It must commit only after position is on
 * the node's disk.
 */
extern void shard_node_position_write(const char *server, ShardPositionKind kind, const ShardNodePosition *position);

/*
 * A position that no server reaches.  It is written for a server that has not reached its position, but still writes
 * WAL.
 */
#define SHARD_POSITION_NOT_REACHED PG_UINT64_MAX

/*
 * A server that has not reached its position also writes local WAL, and so reaches it later.
 *
 *	- note_refusal: a server was refused for that reason in this session
 *	- drop_refusals: forgets all refused servers
 *	- keep_refusals: records in the current transaction that they remain refused until an administrator
 *	  decides, and forgets them
 */
extern void shard_node_position_note_refusal(const char *server, ShardPositionKind kind, const ShardNodePosition *needed);
extern void shard_node_position_drop_refusals(void);
extern void shard_node_position_keep_refusals(void);

/*
 * shard_node_position_note_references(): this transaction changes replicas of reference tables.  If it commits in two
 * phases, it writes the positions of the nodes.  The second function returns whether the first one was called.
 */
extern void shard_node_position_note_references(void);
extern bool shard_node_position_has_references(void);

/*
 * note_dropped: the same, and this transaction drops a reference table.  forget_references: if the
 * last one was dropped, deletes the positions of reference tables, and returns true.  It is called at
 * commit, since a subtransaction that drops a table may be rolled back.
 */
extern void shard_node_position_note_dropped(void);
extern bool shard_node_position_forget_references(void);

#endif
