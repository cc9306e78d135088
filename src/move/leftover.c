/*
 * leftover.c
 *	  Removes the objects that ended jobs have left, on nodes and in tables of conversions and imports.
 *
 * The comment of a job's schema on a node lists the other objects that the job has made there.  The schema's name
 * contains the coordinator's identity.  So the journal is not needed.  The current catalogs decide what is removed: a
 * table is dropped only if no foreign table refers to it, and only if it has the mark of that job.
 */
#include "postgres.h"

#include "catalog/node_list.h"
#include "catch.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "move/job/table.h"
#include "move/leftover.h"
#include "own_schema.h"
#include "own_sql.h"
#include "service/recover.h"
#include "utils/builtins.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* How long an owner's code may keep recovery waiting. */
#define OWNER_LIMIT_MS 30000

/*
 * Calls a function that removes objects, as the current user.  Returns outcomes with the results of the function
 * appended.  Memory: current context.
 */
static List *
remove_by(const char *call, List *outcomes)
{
	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(psprintf("SELECT node, message, ok FROM " SHARD_INTERNAL_SCHEMA ".%s", call), InvalidSnapshot))
		outcomes = shard_recover_add(outcomes, row[0], strcmp(row[2], "t") == 0 ? SHARD_RECOVER_REMOVED : SHARD_RECOVER_NOT_REMOVED, row[1]);
	return outcomes;
}

void
shard_leftover_remove(const ShardMove *move, bool own)
{
	/* servers may have been renamed */
	const char *source = quote_literal_cstr(GetForeignServer(move->source)->servername);
	const char *target = quote_literal_cstr(GetForeignServer(move->target)->servername);
	const char *id = own ? psprintf(INT64_FORMAT, move->job.id) : "NULL";

	shard_recover_log(remove_by(psprintf("remove_traces(ARRAY[%s, %s]::pg_catalog.name[], %s)", source, target, id), NIL));
}

typedef struct OwnerStep
{
	const char *call;
	List	   *outcomes;
} OwnerStep;

static void
remove_step(void *arg)
{
	OwnerStep  *step = arg;

	step->outcomes = remove_by(step->call, step->outcomes);
}

/*
 * Calls a function as the current user, an owner, whose triggers and nodes may take any time.  So the function has
 * OWNER_LIMIT_MS, unless the caller's statement_timeout is active.
 */
static List *
remove_as_owner(const char *call, List *outcomes)
{
	OwnerStep	step = {call, outcomes};
	TimestampTz since = GetCurrentTimestamp();
	bool		limited = !get_timeout_active(STATEMENT_TIMEOUT);
	ErrorData  *error;

	if (limited)
		enable_timeout_after(STATEMENT_TIMEOUT, OWNER_LIMIT_MS);
	error = shard_catch_in_subtransaction(remove_step, &step, true);
	if (limited)
		disable_timeout(STATEMENT_TIMEOUT, false);
	if (error == NULL)
		return step.outcomes;
	if (!limited || error->sqlerrcode != ERRCODE_QUERY_CANCELED || !TimestampDifferenceExceeds(since, GetCurrentTimestamp(), OWNER_LIMIT_MS))
		ReThrowError(error);
	return shard_recover_add(outcomes, NULL, SHARD_RECOVER_NOT_REMOVED, psprintf("what jobs of role \"%s\" have left in tables: this took longer than %d s",
																				 GetUserNameFromId(GetUserId(), false), OWNER_LIMIT_MS / 1000));
}

/*
 * Calls a function once for each owner of leftovers, with the owner's rights. query lists the owners.  Their rights are
 * sufficient, and other rights must not be used.
 */
static List *
remove_as_owners(const char *query, const char *call, List *outcomes)
{
	List	   *owners;

	if (!superuser())
		return remove_as_owner(call, outcomes);
	owners = shard_own_sql_oids(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".%s", query), InvalidSnapshot);
	foreach_oid(owner, owners)
	{
		ShardOwnSql own;

		shard_own_sql_become(&own, owner);
		outcomes = remove_as_owner(call, outcomes);
		shard_own_sql_return(&own);
	}
	return outcomes;
}

List *
shard_leftover_recover(List *outcomes)
{
	StringInfoData nodes;
	bool		complete;

	initStringInfo(&nodes);
	foreach_ptr(ShardNodeName, node, shard_node_list(&complete))
		appendStringInfo(&nodes, "%s%s", nodes.len > 0 ? ", " : "", quote_literal_cstr(node->name));
	if (nodes.len > 0)
		outcomes = remove_by(psprintf("remove_traces(ARRAY[%s]::pg_catalog.name[])", nodes.data), outcomes);
	/* only superusers remove leftovers of predecessors */
	if (superuser())
		outcomes = remove_by(psprintf("undecided_traces(ARRAY[%s]::pg_catalog.name[])", nodes.data), outcomes);
	/* query the nodes before locking here, for all owners */
	outcomes = remove_as_owners("conversion_owners()", "remove_conversion_shards()", outcomes);
	outcomes = remove_as_owners("conversion_owners()", "remove_conversions()", outcomes);
	return remove_as_owners("import_owners()", "remove_imports()", outcomes);
}
