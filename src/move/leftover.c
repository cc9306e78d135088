/*
 * leftover.c
 *	  Removes what jobs that have ended have left on nodes, beside tables that were to be sharded or made plain, and in tables that were to be imported.
 *
 * A job's schema on a node says in its comment what else the job has made there, and has
 * the coordinator's identity in its name; so nothing here needs the journal.  Who removes
 * what is said by the catalogs as they are now: a table is dropped only where no foreign
 * table stands for it, and only with the mark of that very job.
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

/* Calls a function that removes something, as the current user.  Returns outcomes and what it says.  Memory: current context. */
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

/* From nodes. */
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
										 psprintf(INT64_FORMAT, move->id), NIL);

	shard_recover_log(outcomes);
}

/* As the owners of what jobs have left of tables, which query lists: their rights are enough, and more must not be used. */
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

	/* where the shards are is asked of the catalogs as they are now */
	if (IsolationUsesXactSnapshot() || !shard_identity_is_confirmed())
		return outcomes;
	initStringInfo(&nodes);
	foreach(lc, shard_node_list(&complete))
		appendStringInfo(&nodes, "%s%s", nodes.len > 0 ? ", " : "", quote_literal_cstr(((ShardNodeName *) lfirst(lc))->name));
	if (nodes.len > 0)
		outcomes = remove_traces(nodes.data, "NULL", outcomes);
	shard_subscription_start_missing();
	/* nodes are asked before anything is locked here, for all owners */
	outcomes = remove_as_owners("conversion_owners()", "remove_conversion_shards()", outcomes);
	outcomes = remove_as_owners("conversion_owners()", "remove_conversions()", outcomes);
	return remove_as_owners("import_owners()", "remove_imports()", outcomes);
}
