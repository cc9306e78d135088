/*
 * truncate.c
 *	  TRUNCATE of shards: one statement per node for all of its shards.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "deparse/dml.h"
#include "executor/scan/fdw_executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "utils/rel.h"

/*
 * Core calls this once per server, with all tables to be truncated there.  The node does not
 * cascade: whom that would concern has been found before (ddl/ddl_cascade.c).
 */
void
shardExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	Oid			serverid = InvalidOid;
	ShardCommand command = {0};
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);
		Oid			relid = RelationGetRelid(rel);

		if (!shard_option_table_bool(relid, "truncatable", true))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("foreign table \"%s\" does not allow truncates",
							RelationGetRelationName(rel))));
		serverid = GetForeignServerIdByRelId(relid);
		relids = lappend_oid(relids, relid);
	}

	command.serverid = serverid;
	command.userid = GetUserId();
	command.sql = shard_dml_truncate(relids, restart_seqs);
	shard_command_run(&command, 1, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(&command, 1);
}
