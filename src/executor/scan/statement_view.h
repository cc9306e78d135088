/*
 * statement_view.h
 *	  What a statement that both reads and writes sees of the nodes.
 */
#ifndef SHARDFDW_STATEMENT_VIEW_H
#define SHARDFDW_STATEMENT_VIEW_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "remote/run/stream.h"

/*
 * To be called when a result relation on the node begins, before anything is
 * written: takes the statement's snapshot of the node now, when parts of the
 * statement may read there after other parts have written.
 */
extern void shard_statement_view_pin(EState *estate, Oid serverid, Oid userid);

/* To be called before that with the triggers of a result relation (NULL: none), which may read, too. */
extern void shard_statement_view_add_triggers(EState *estate, const TriggerDesc *triggers);

/*
 * May the statement read nodes after it has written to some?  lacks_snapshot: then has it no snapshot of its own to read
 * them by, at least of some node?
 */
extern bool shard_statement_view_reads(EState *estate);
extern bool shard_statement_view_lacks_snapshot(void);

/*
 * Of a scan of the statement that reads rels (of Relation): refuses to read a table of these on the connection that
 * writes when the transaction has changed it since the statement began.  Memory: current context.
 */
extern const ShardStreamView *shard_statement_view_create(const EState *estate, const List *rels);

/*
 * The same of a scan that locks rows; NULL: it may see everything, since the statement changes no table.  Where these
 * are the rows that the statement writes (scanrelid is one of its result relations, or 0: a join), the scan sees what the
 * statement itself has written, and what its functions and triggers have written is refused.
 */
extern const ShardStreamView *shard_statement_view_create_locking(EState *estate, const List *rels, Index scanrelid);

/* Does the statement change tables, whichever they are? */
extern bool shard_statement_view_writes(EState *estate);

/* Does it neither change tables nor lock rows, so that it may read standbys? */
extern bool shard_statement_view_only_reads(EState *estate);

#endif
