/*
 * nested_write.h
 *	  Detects nested statements that write to a table while a statement writes to it.
 */
#ifndef SHARDFDW_NESTED_WRITE_H
#define SHARDFDW_NESTED_WRITE_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardNestedWatch ShardNestedWatch;

/* Watches relid, a table on nodes to which the statement writes, with its partition tree, until the statement ends. */
extern ShardNestedWatch *shard_nested_write_watch(EState *estate, Oid relid);

/*
 * May another part of the statement have written to the table or its shards?  Includes statements
 * that its triggers or functions have run since.
 */
extern bool shard_nested_write_seen(const ShardNestedWatch *watch);

/*
 * A statement that writes to a sharded table, and is in one of these states: it has rows that are not yet on their
 * nodes, or it has written rows that it has not returned yet.  Until that has ended, a statement that its functions run
 * must not read the table, and is refused.
 */
typedef struct ShardPendingRows ShardPendingRows;

/*
 * Creates the object for the statement and the table relid.  It exists until the statement ends.  At first the
 * statement is in neither state.
 */
extern ShardPendingRows *shard_pending_rows_create(EState *estate, Oid relid);
extern void shard_pending_rows_set(ShardPendingRows *pending, bool has_rows);

/* Has a nested statement, since the watch began, had permission to write to the table? */
extern bool shard_nested_write_ran(const ShardNestedWatch *watch);

/* Do two parts of the statement (WITH) delete rows of the table, or of tables of its partition tree? */
extern bool shard_nested_write_deletes_twice(const ShardNestedWatch *watch);

/*
 * May command cid of this transaction, or a later one, have changed relid, a sharded table, a shard
 * or a reference table?  by_keys: nodes may have changed it because of foreign keys, too.
 */
extern bool shard_nested_write_since(Oid relid, CommandId cid, bool by_keys);

/* What commands of the transaction may have done to rows that a table had. */
typedef struct ShardChangedTable
{
	Oid			top;			/* the table at the top of a partition tree */
	bool		deletes;
	bool		updates;
	Bitmapset  *columns;		/* columns of top that were updated, offset as in updatedCols; NULL: unknown */
} ShardChangedTable;

/* Tables on nodes in which commands from cid on may have updated or deleted rows: list of ShardChangedTable. */
extern List *shard_nested_write_changed(CommandId cid);

/* May a command before cid have changed relid, directly or because of foreign keys? */
extern bool shard_nested_write_before(Oid relid, CommandId cid);

/* Called when a statement begins. permissions: those that it requires, List of ShardPermissions. */
extern void shard_nested_write_note(List *permissions);

extern void shard_nested_write_end_transaction(void);

/*
 * Called when a statement has ended.  If it has written no row, it has not changed its tables.  Rows that statements of
 * rules write are not counted, so these statements stay noted.
 */
extern void shard_nested_write_finish(const EState *estate);

/* Called when the subtransaction of level ends: it becomes part of its parent, or is rolled back. */
extern void shard_nested_write_end_level(int level, bool committed);

#endif
