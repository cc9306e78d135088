/*
 * node_position.h
 *	  The table shardfdw_internal.node_position: how far in the WAL of nodes lies what has been committed there of shards with replicas,
 *	  and of reference tables.
 *
 * Nodes are known by their servers' names.  Each process has a row per node, which belongs to its own transactions, so nobody waits for it.  A server that has not come as far
 * as all rows of its node say lacks something: it was restored, or a standby that lagged was promoted.
 */
#ifndef SHARDFDW_NODE_POSITION_H
#define SHARDFDW_NODE_POSITION_H

#include "postgres.h"

#include "access/xlogdefs.h"

typedef struct ShardNodePosition
{
	int64		system_identifier;	/* 0: not known */
	Oid			database;		/* there; InvalidOid: not known */
	TimeLineID	timeline;		/* 0: not known */
	XLogRecPtr	lsn;
} ShardNodePosition;

/* What was committed: the kinds of rows of the table. */
typedef enum ShardPositionKind
{
	SHARD_POSITION_REFERENCES,	/* of reference tables: a promoted standby, which is on a newer timeline, may go on */
	SHARD_POSITION_REPLICAS,		/* of shards with replicas: only an administrator knows what a promoted standby lacks */
	SHARD_POSITION_KINDS
} ShardPositionKind;

/*
 * The positions, one of each kind, that a server must have reached: the farthest one of all committed rows, and of this transaction's.
 * Timeline 0: there is none, or no such table.  Returns the current transaction, or its subtransaction, if that has deleted
 * positions of the server, which count again when it is rolled back; otherwise InvalidTransactionId.
 */
extern TransactionId shard_node_position_read(const char *server, ShardNodePosition positions[SHARD_POSITION_KINDS]);

/* Writes this process's row, in the current transaction, which is to commit when position is surely on the node's disk. */
extern void shard_node_position_write(const char *server, ShardPositionKind kind, const ShardNodePosition *position);

/* A position that no server reaches: of one that had not reached what it was to, but goes on writing. */
#define SHARD_POSITION_NOT_REACHED PG_UINT64_MAX

/*
 * A server that is not as far as needed writes WAL of its own, and is so far some time later.  note_refusal: one was refused for that, in
 * this session.  drop_refusals: forgets all that were.  keep_refusals: has them refused until an administrator decides, in the current
 * transaction, and forgets them.
 */
extern void shard_node_position_note_refusal(const char *server, ShardPositionKind kind, const ShardNodePosition *needed);
extern void shard_node_position_drop_refusals(void);
extern void shard_node_position_keep_refusals(void);

/* This transaction changes replicas of reference tables: if it commits in two phases, it writes the positions of the nodes.  Does it? */
extern void shard_node_position_note_references(void);
extern bool shard_node_position_has_references(void);

/*
 * note_dropped: the same, and this transaction drops a reference table.  forget_references: if it has dropped the last one, deletes
 * the positions of reference tables, and returns true.  The commit decides, since a subtransaction that drops may be rolled back.
 */
extern void shard_node_position_note_dropped(void);
extern bool shard_node_position_forget_references(void);

#endif
