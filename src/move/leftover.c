/*
 * leftover.c
 *	  Removes what ended jobs have left, on nodes and in tables of conversions and imports.
 *
 * The comment of a job's schema on a node lists the other objects that the job has made there.  The schema's name
 * contains the coordinator's identity.  So the journal is not needed.  The current catalogs decide what is removed: a
 * table is dropped only if no foreign table refers to it, and only if it has the mark of that job.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/node_list.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "move/job/table.h"
#include "move/leftover.h"
#include "move/subscription.h"
#include "own_schema.h"
#include "own_sql.h"
#include "service/recover.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

/*
 * Calls a function that removes objects, as the current user.  Returns outcomes with the results of the function
 * appended.  Memory: current context.
 */
static List *
remove_by(const char *call, List *outcomes)
{
	MemoryContext cxt = CurrentMemoryContext;
	MemoryContext spi_cxt;
	ShardOwnSql own;

	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, GetTransactionSnapshot());
	(void) shard_own_sql_execute(psprintf("SELECT node, message, ok FROM " SHARD_INTERNAL_SCHEMA ".%s", call), SPI_OK_SELECT, 0, NULL);
	spi_cxt = MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		ok = strcmp(SPI_getvalue(tuple, desc, 3), "t") == 0;

		outcomes = shard_recover_add(outcomes, SPI_getvalue(tuple, desc, 1), ok ? SHARD_RECOVER_REMOVED : SHARD_RECOVER_NOT_REMOVED,
									 SPI_getvalue(tuple, desc, 2));
	}
	MemoryContextSwitchTo(spi_cxt);
	shard_own_sql_end(&own);
	return outcomes;
}

/* Removes objects from nodes. */
static List *
remove_traces(const char *nodes, const char *own, List *outcomes)
{
	return remove_by(psprintf("remove_traces(ARRAY[%s]::pg_catalog.name[], %s)", nodes, own), outcomes);
}

static char *
node_literal(Oid serverid)
{
	return quote_literal_cstr(GetForeignServer(serverid)->servername);
}

void
shard_leftover_remove_from(Oid source, Oid target)
{
	shard_recover_log(remove_traces(psprintf("%s, %s", node_literal(source), node_literal(target)), "NULL", NIL));
}

void
shard_leftover_remove_own(const ShardMove *move)
{
	List	   *outcomes = remove_traces(psprintf("%s, %s", node_literal(move->source), node_literal(move->target)),
										 psprintf(INT64_FORMAT, move->job.id), NIL);

	shard_recover_log(outcomes);
}

/*
 * Calls a function once for each owner of what jobs have left, with the owner's rights. query lists the owners.
 * Their rights are sufficient, and other rights must not be used.
 */
static List *
remove_as_owners(const char *query, const char *call, List *outcomes)
{
	Oid			userid;
	int			sec_context;
	List	   *owners;
	ListCell   *lc;

	if (!superuser())
		return remove_by(call, outcomes);
	owners = shard_move_oids(shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".%s", query)));
	GetUserIdAndSecContext(&userid, &sec_context);
	foreach(lc, owners)
	{
		SetUserIdAndSecContext(lfirst_oid(lc), sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
		outcomes = remove_by(call, outcomes);
		SetUserIdAndSecContext(userid, sec_context);
	}
	return outcomes;
}

List *
shard_leftover_recover(List *outcomes)
{
	StringInfoData nodes;
	bool		complete;
	ListCell   *lc;

	/* needs the current catalogs, to find out where shards are */
	if (IsolationUsesXactSnapshot() || !shard_identity_is_confirmed())
		return outcomes;
	initStringInfo(&nodes);
	foreach(lc, shard_node_list(&complete))
		appendStringInfo(&nodes, "%s%s", nodes.len > 0 ? ", " : "", quote_literal_cstr(((ShardNodeName *) lfirst(lc))->name));
	if (nodes.len > 0)
		outcomes = remove_traces(nodes.data, "NULL", outcomes);
	shard_subscription_start_missing();
	/* query the nodes before locking here, for all owners */
	outcomes = remove_as_owners("conversion_owners()", "remove_conversion_shards()", outcomes);
	outcomes = remove_as_owners("conversion_owners()", "remove_conversions()", outcomes);
	return remove_as_owners("import_owners()", "remove_imports()", outcomes);
}
