/*
 * raw_mode.h
 *	  Whether COPY FROM may forward the lines of its input as they are, and how a
 *	  shard has to read them.
 */
#ifndef SHARDFDW_RAW_MODE_H
#define SHARDFDW_RAW_MODE_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "catalog/shard_map.h"

typedef struct ShardRawPlan
{
	const char *reason;			/* why not; NULL: raw mode is exact */

	/*
	 * What is added to each line (before its end) for columns that the input
	 * leaves out: their constant default or NULL, as fields of the format,
	 * each preceded by the delimiter.  Lines must have exactly nfields fields
	 * then.  NULL: nothing.
	 */
	const char *suffix;
	int			nfields;		/* number of fields that each line must have; 0 = left to the shards to check */
	bool		binary;			/* set by the caller: rows are sent in COPY binary, and have no suffix */
	List	   *attnos;			/* columns as they are in the lines that are sent: IntList */
} ShardRawPlan;

/*
 * cstate: of the parent, as BeginCopyFrom() made it; has_where: COPY ...
 * WHERE.  No node is asked.  Never raises for what is merely not possible.
 */
extern void shard_raw_mode_plan(CopyFromState cstate, const ShardMap *map, bool has_where,
								ShardRawPlan *plan);

/*
 * Why lines cannot be forwarded to shard, as far as only its node can tell; NULL:
 * they can.  Asks the node, once in a session for all of its shards.
 */
extern const char *shard_raw_mode_shard_reason(const Shard *shard, Oid userid);

/*
 * COPY <shard> (columns) FROM STDIN (FORMAT ...) for lines as they are in the
 * input, with one line in front of them (see shard_copy_target_set_header); all
 * options that bear on parsing are spelled out.
 */
extern char *shard_raw_mode_copy_sql(CopyFromState cstate, const ShardRawPlan *plan, Oid shard_relid);

#endif
