/*
 * nested_write.h
 *	  Whether nested statements write to a table while a statement writes to it.
 */
#ifndef SHARDFDW_NESTED_WRITE_H
#define SHARDFDW_NESTED_WRITE_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardNestedWatch ShardNestedWatch;

/* Watches sharded table parent, to which the statement writes, until it ends. */
extern ShardNestedWatch *shard_nested_write_watch(EState *estate, Oid parent);

/*
 * May another part of the statement, or one that its triggers or functions have
 * run since, have written to the table or its shards?
 */
extern bool shard_nested_write_seen(const ShardNestedWatch *watch);

/*
 * A statement that writes to a sharded table and has rows that are not on their nodes yet, or has written rows ahead of
 * those that it has handed on.  A statement that its functions run must not look at the table meanwhile: it is refused.
 */
typedef struct ShardPendingRows ShardPendingRows;

/* Of the statement and the table relid, until the statement ends.  At first it has no such rows. */
extern ShardPendingRows *shard_pending_rows_create(EState *estate, Oid relid);
extern void shard_pending_rows_set(ShardPendingRows *pending, bool has_rows);

/* Has a nested statement been to write to the table since the watch began? */
extern bool shard_nested_write_ran(const ShardNestedWatch *watch);

/*
 * May relid, a sharded table, a shard or a reference table, have been changed by command cid of this transaction or by
 * a later one?  by_keys: foreign keys count, too, by which nodes may have changed it along with another table.
 */
extern bool shard_nested_write_since(Oid relid, CommandId cid, bool by_keys);

/* A statement begins.  permissions: of ShardPermissions, what it asks for. */
extern void shard_nested_write_note(List *permissions);

extern void shard_nested_write_end_transaction(void);

/* A statement has been run to its end.  If it has written no row, it has not changed its tables. */
extern void shard_nested_write_finish(const EState *estate);

/* The subtransaction of level ends: becomes part of the one around it, or is rolled back. */
extern void shard_nested_write_end_level(int level, bool committed);

#endif
