/*
 * statement_view.h
 *	  What a statement that both reads and writes sees of the nodes.
 */
#ifndef SHARDFDW_STATEMENT_VIEW_H
#define SHARDFDW_STATEMENT_VIEW_H

#include "postgres.h"

#include "nodes/execnodes.h"

/*
 * To be called when a result relation on the node begins, before anything is
 * written: takes the statement's snapshot of the node now, when parts of the
 * statement may read there after other parts have written.
 */
extern void shard_statement_view_pin(EState *estate, Oid serverid, Oid userid);

/* Does the statement change tables, whichever they are? */
extern bool shard_statement_view_writes(EState *estate);

/* Does it neither change tables nor lock rows, so that it may read standbys? */
extern bool shard_statement_view_only_reads(EState *estate);

#endif
