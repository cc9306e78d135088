/*
 * statement_view.h
 *	  Defines which rows of the nodes a statement sees that both reads and writes.
 */
#ifndef SHARDFDW_STATEMENT_VIEW_H
#define SHARDFDW_STATEMENT_VIEW_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "remote/run/stream.h"

/*
 * Called when a result relation on the node begins, before anything is written.  If parts of the
 * statement may read there after other parts have written, takes the statement's snapshot of the
 * node now.
 */
extern void shard_statement_view_pin(EState *estate, Oid serverid, Oid userid);

/* Called before that with the triggers of a result relation (NULL: none), which may read, too. */
extern void shard_statement_view_add_triggers(EState *estate, const TriggerDesc *triggers);

/*
 * reads: may the statement read nodes after it has written to some? lacks_snapshot: if so, does it
 * lack its own snapshot of at least one node?
 */
extern bool shard_statement_view_reads(EState *estate);
extern bool shard_statement_view_lacks_snapshot(void);

/*
 * For a scan of the statement that reads rels (of Relation).  If the transaction has changed one of
 * these tables since the statement began, reading it on the connection that writes is refused.
 * Memory: current context.
 */
extern const ShardStreamView *shard_statement_view_create(const EState *estate, const List *rels);

/*
 * The same for a scan that locks rows.  The scan may see everything, because LockRows leaves out the rows that were
 * changed since the statement began (executor/modify/row_lock.c).  There are two exceptions.
 *
 * If the statement calls VOLATILE functions, the scan must not see later changes.
 *
 * If the scan reads rows that the statement writes (scanrelid is one of its result relations, or 0: a join), it sees
 * what the statement itself has written.  Rows that functions and triggers of the statement have written are refused.
 */
extern const ShardStreamView *shard_statement_view_create_locking(EState *estate, const List *rels, Index scanrelid);

/* Did a locking scan of relid, a shard, begin after the table was changed since the statement began? */
extern bool shard_statement_view_began_late(const EState *estate, Oid relid);

/*
 * Does the statement call VOLATILE functions that may write?  They are called for each row that a scan returns, even if
 * LockRows leaves the row out.  So the scan must return the rows as they were when the statement began.  The scan is
 * refused if it begins after a change.
 */
extern bool shard_statement_view_calls_volatile(EState *estate);

/* Does the statement lock rows of shards or write to them, and may its functions or triggers write before all are locked? */
extern bool shard_statement_view_locks_first(const EState *estate);

/*
 * First function: may the transaction have changed relid, a shard on the node, since the statement
 * began?  Second function: may it have changed relid before?
 */
extern bool shard_statement_view_is_changed(const EState *estate, Oid relid, Oid serverid, Oid userid);
extern bool shard_statement_view_was_changed(const EState *estate, Oid relid);

/*
 * A scan that locks rows begins again.  If it is a scan of the written table, and the statement has written to the node, the
 * scan is refused: it would return what the statement has written.
 */
extern void shard_statement_view_read_again(const EState *estate, const ShardStreamView *stream);

/* The statement locks rows of relids (an OidList), and returns them without a check by LockRows. */
extern void shard_statement_view_add_unchecked(EState *estate, List *relids);

/*
 * Called before the statement runs, for each part of its rows.  Returns the receiver of the rows.  It is desc->dest,
 * or, if a table of unchecked rows was changed, a receiver that refuses each row.
 */
extern DestReceiver *shard_statement_view_receiver(const QueryDesc *desc);

/* Raises: rows of relid cannot be read as they were when the statement began. */
extern void shard_statement_view_refuse(Oid relid, const char *node);

/* Does the statement change any tables? */
extern bool shard_statement_view_writes(EState *estate);

/* Does it neither change tables nor lock rows, so that it may read standbys? */
extern bool shard_statement_view_only_reads(EState *estate);

#endif
