/*
 * pool_view.c
 *	  SQL functions that show, or close, connections to nodes.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/quota.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(shardfdw_session_connections);
PG_FUNCTION_INFO_V1(shardfdw_all_connections);
PG_FUNCTION_INFO_V1(shardfdw_node_counters);
PG_FUNCTION_INFO_V1(shardfdw_reset_node_counters);
PG_FUNCTION_INFO_V1(shardfdw_disconnect);

#define SESSION_COLUMNS 10
#define ALL_COLUMNS 6

static const char *
state_name(const ShardConn *conn)
{
	if (conn->state == SHARD_CONN_CONNECTING)
		return conn->opening.nrefused > 0 ? "refused" : "connecting";
	if (!shard_connection_is_alive(conn))
		return "lost";
	if (conn->holder)
		return "active";
	if (!shard_connection_in_xact(conn))
		return "idle";
	return shard_connection_is_aborted(conn) ? "idle in transaction (aborted)" : "idle in transaction";
}

static void
put_connection(ShardConn *conn, void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		values[SESSION_COLUMNS];
	bool		nulls[SESSION_COLUMNS] = {false};
	bool		connected = conn->state == SHARD_CONN_READY;
	ForeignServer *server = GetForeignServerExtended(conn->serverid, FSV_MISSING_OK);

	/* the transaction may have dropped the server */
	nulls[0] = server == NULL;
	if (server)
		values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = DirectFunctionCall1(namein, CStringGetDatum(GetUserNameFromId(conn->userid, true) ?
															GetUserNameFromId(conn->userid, true) : ""));
	values[2] = CStringGetTextDatum(state_name(conn));
	values[3] = BoolGetDatum(conn->xact.state == SHARD_XACT_WROTE);
	values[4] = BoolGetDatum(!conn->invalidated && conn->keep);
	values[5] = TimestampTzGetDatum(conn->opened_at);
	values[6] = Int32GetDatum(connected ? PQbackendPID(conn->pg) : 0);
	nulls[6] = !connected;
	values[7] = Int32GetDatum(conn->server_version);
	nulls[7] = !connected;
	values[8] = Int64GetDatum((int64) conn->traffic.bytes_received);
	values[9] = BoolGetDatum(conn->standby > 0);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
shardfdw_session_connections(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	shard_pool_each(put_connection, fcinfo->resultinfo);
	return (Datum) 0;
}

Datum
shardfdw_all_connections(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ShardQuotaUse *uses;
	int			nuses;

	InitMaterializedSRF(fcinfo, 0);
	uses = shard_quota_list(&nuses);
	for (int i = 0; i < nuses; i++)
	{
		Datum		values[ALL_COLUMNS];
		bool		nulls[ALL_COLUMNS] = {false};

		values[0] = CStringGetTextDatum(uses[i].address);
		values[1] = Int32GetDatum(uses[i].pid);
		values[2] = Int32GetDatum(uses[i].nopen);
		values[3] = BoolGetDatum(uses[i].in_use);
		values[4] = BoolGetDatum(uses[i].waiting);
		values[5] = Int32GetDatum(uses[i].limit);
		nulls[5] = uses[i].limit == 0;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Columns: server, since, and the counters in the order of ShardNodeCounter. */
Datum
shardfdw_node_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ShardNodeStat *stats;
	int			nstats;

	InitMaterializedSRF(fcinfo, 0);
	stats = shard_node_stat_list(&nstats);
	for (int i = 0; i < nstats; i++)
	{
		Datum		values[2 + SHARD_NODE_NCOUNTERS];
		bool		nulls[2 + SHARD_NODE_NCOUNTERS] = {false};

		values[0] = ObjectIdGetDatum(stats[i].serverid);
		values[1] = TimestampTzGetDatum(stats[i].since);
		for (int j = 0; j < SHARD_NODE_NCOUNTERS; j++)
			values[2 + j] = Int64GetDatum((int64) stats[i].counters[j]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
shardfdw_reset_node_counters(PG_FUNCTION_ARGS)
{
	shard_node_stat_reset();
	PG_RETURN_VOID();
}

/*
 * disconnect(node name) -> boolean
 */
Datum
shardfdw_disconnect(PG_FUNCTION_ARGS)
{
	Oid			serverid = InvalidOid;

	if (!PG_ARGISNULL(0))
	{
		char	   *name = NameStr(*PG_GETARG_NAME(0));

		serverid = GetForeignServerByName(name, false)->serverid;
		if (!shard_option_is_our_server(serverid))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("server \"%s\" is not a node", name)));
	}
	PG_RETURN_BOOL(shard_pool_disconnect(serverid) > 0);
}
