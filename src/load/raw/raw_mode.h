/*
 * raw_mode.h
 *	  Decides whether COPY FROM may forward unchanged lines of its input, and how a shard has to read them.
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
	 * Text that is added to each line (before its end) for columns that the input omits: their constant default or
	 * NULL, as fields of the format, each preceded by the delimiter.  Then lines must have exactly nfields fields.
	 * NULL: nothing.
	 */
	const char *suffix;
	int			nfields;		/* required number of fields of each line; 0 = the shards check it */
	bool		binary;			/* set by the caller: rows are sent in COPY binary, and have no suffix */
	List	   *attnos;			/* columns of the lines that are sent: IntList */
} ShardRawPlan;

/*
 * cstate: of the parent, as made by BeginCopyFrom(). has_where: COPY ... WHERE.  Does not contact nodes.  Never
 * raises an error if raw mode is not possible.
 */
extern void shard_raw_mode_plan(CopyFromState cstate, const ShardMap *map, bool has_where,
								ShardRawPlan *plan);

/*
 * Returns a reason against raw mode that depends on the shard's node; NULL: none.  Asks the node, once per session for
 * all of its shards.
 */
extern const char *shard_raw_mode_shard_reason(const Shard *shard, Oid userid);

/*
 * COPY <shard> (columns) FROM STDIN (FORMAT ...) for lines of the input, preceded by one header line (see
 * shard_copy_target_set_header).  All options that affect parsing are spelled out.
 */
extern char *shard_raw_mode_copy_sql(CopyFromState cstate, const ShardRawPlan *plan, Oid shard_relid);

#endif
