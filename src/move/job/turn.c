/*
 * turn.c
 *	  Makes jobs wait for each other: only one at a time works on a node, or on a table.
 */
#include "postgres.h"

#include "catalog/moving.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "move/job/job.h"
#include "move/job/table.h"
#include "move/job/turn.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Describes the job that has the turn.  Memory: current context. */
static char *
describe(Oid classid, Oid objid)
{
	int64		holder = shard_moving_turn_holder(classid, objid);
	char	   *object;

	if (classid == ForeignServerRelationId)
	{
		ForeignServer *server = GetForeignServerExtended(objid, FSV_MISSING_OK);

		object = server ? psprintf("node \"%s\"", server->servername) : pstrdup("a node that is dropped");
	}
	else
	{
		char	   *name = get_rel_name(objid);

		object = name ? psprintf("table %s", quote_qualified_identifier(get_namespace_name(get_rel_namespace(objid)), name)) :
			pstrdup("a table that is dropped");
	}
	return holder != 0 ? psprintf("job " INT64_FORMAT ", which works on %s", holder, object) :
		psprintf("another session, which works on %s", object);
}

void
shard_turn_take(const ShardJob *job, Oid classid, Oid objid)
{
	shard_move_begin(job->userid);
	if (!shard_moving_try_turn(classid, objid))
	{
		shard_job_set_waiting(job, describe(classid, objid));
		/* other sessions see it after the commit */
		shard_move_commit();
		shard_move_begin(job->userid);
		shard_moving_take_turn(classid, objid);
		shard_job_set_waiting(job, NULL);
	}
	shard_move_commit();
}
