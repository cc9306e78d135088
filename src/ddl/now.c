/*
 * now.c
 *	  Runs queries of the extension with the latest snapshot instead of the transaction's snapshot.
 *
 * Core changes definitions by the current state of the catalogs, at every isolation level.  At REPEATABLE READ, an
 * SQL query sees the catalogs as of the start of the transaction.  It would miss constraints, names and nodes that
 * others have made since.
 *
 * A STABLE function uses the snapshot of the query that calls it.  A VOLATILE function uses the transaction's
 * snapshot.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "ddl/now.h"
#include "fmgr.h"
#include "own_schema.h"
#include "own_sql.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(shardfdw_check_owner_code);
PG_FUNCTION_INFO_V1(shardfdw_aggregates_of);
PG_FUNCTION_INFO_V1(shardfdw_check_event_now);

void
shard_now_run(const char *sql)
{
	(void) shard_own_sql_rows(sql, GetLatestSnapshot());
}

List *
shard_now_oids(const char *sql)
{
	return shard_own_sql_oids(sql, GetLatestSnapshot());
}

char *
shard_now_value(const char *sql)
{
	return shard_own_sql_value(sql, GetLatestSnapshot());
}

/*
 * check_owner_code(relation regclass, action text) -> void: checks the current constraints, since these are the ones
 * that run.
 */
Datum
shardfdw_check_owner_code(PG_FUNCTION_ARGS)
{
	shard_now_run(psprintf("SELECT shardfdw_internal.check_owner_code_seen(%u, %s)", PG_GETARG_OID(0),
						   quote_literal_cstr(text_to_cstring(PG_GETARG_TEXT_PP(1)))));
	PG_RETURN_VOID();
}

/* aggregates_of(classid oid, objid oid) -> oid[] */
Datum
shardfdw_aggregates_of(PG_FUNCTION_ARGS)
{
	List	   *oids = shard_now_oids(psprintf("SELECT shardfdw_internal.aggregates_of_seen(%u, %u)", PG_GETARG_OID(0), PG_GETARG_OID(1)));
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(oids), 1));
	ListCell   *lc;

	foreach(lc, oids)
		values[foreach_current_index(lc)] = ObjectIdGetDatum(lfirst_oid(lc));
	PG_RETURN_ARRAYTYPE_P(construct_array(values, list_length(oids), OIDOID, sizeof(Oid), true, TYPALIGN_INT));
}

/* An event trigger that refuses a command.  The function of its name and _seen does so for what its query sees. */
Datum
shardfdw_check_event_now(PG_FUNCTION_ARGS)
{
	const char *name = get_func_name(fcinfo->flinfo->fn_oid);

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called by an event trigger", psprintf(SHARD_INTERNAL_SCHEMA ".%s()", name))));
	shard_now_run(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".%s_seen()", name));
	PG_RETURN_VOID();
}
