/*
 * spread.c
 *	  Decides over how many connections per node a load may write to its shards.
 *
 * One connection per node is always right.  Several connections are several transactions on the node.  They do not
 * see each other's rows and wait for each other's locks.  The coordinator waits for all of them, and the node's
 * deadlock detector cannot see that.  So the transactions must have nothing in common.  These rule out several
 * connections:
 *
 * - a trigger of a shard's table: it may write to a table that all of them write to
 * - a rule, view or foreign table: the same
 * - a foreign key between shards: it does not find a row that came over another connection
 * - two shards that are one table: they share unique keys
 *
 * Foreign keys to other tables do not matter, because their locks can be shared.
 *
 * Nodes are queried for each load: an outdated answer could make the load hang.
 *
 * A connection costs a node about 10 ms of CPU (a process, its caches, a transaction to prepare).  In that time the
 * node can store half a megabyte.  So the number of connections is limited by the size of the load, and by the number
 * of cores of the machine.  Concurrent loads share the cores.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "compat.h"
#include "catalog/pg_class.h"
#include "catalog/trigger.h"
#include "commands/progress.h"
#include "guc.h"
#include "lib/stringinfo.h"
#include "load/spread.h"
#include "remote/run/command.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* A node's max_prepared_transactions are shared as if this number of loads ran concurrently. */
#define LOADS_AT_ONCE 10

/* Input size for each connection: opening the connection costs a quarter of storing that much. */
#define BYTES_PER_CONNECTION (2 * 1024 * 1024)

/* A connection also waits for the coordinator, for locks and for the disk. */
#define CONNECTIONS_PER_CORE 4

/* Columns of a node's answer, which has one row. */
enum
{
	ANSWER_PREPARED,			/* max_prepared_transactions */
	ANSWER_CONNECTIONS,			/* max_connections */
	ANSWER_FREE,				/* number of connections that can be opened now */
	ANSWER_COPIES,				/* number of COPY FROMs that run on the node now, of all coordinators */
	ANSWER_OBSTACLE				/* text, NULL = none */
};

static bool
has_triggers(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Relation	rel;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return true;			/* dropped: the load will raise an error */
	result = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	if (!result)
		return false;

	/* the flag in pg_class stays set if triggers are dropped, so check the triggers */
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return true;
	result = shard_trigger_fires_now(rel->trigdesc, ~0);
	relation_close(rel, AccessShareLock);
	return result;
}

/* Number of COPY FROMs that sessions of this server run now, including this one. */
static int
loads_at_once(void)
{
	int			nloads = 0;

	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = &shard_local_beentry(i)->backendStatus;

		if (status->st_progress_command == PROGRESS_COMMAND_COPY &&
			status->st_progress_param[PROGRESS_COPY_COMMAND] == PROGRESS_COPY_COMMAND_FROM)
			nloads++;
	}
	return Max(1, nloads);
}

/* Number of connections to a node for which its machine has cores. */
static int
connections_for_cores(const ShardNode *node)
{
	if (node->cores <= 0)
		return INT_MAX;
	return Max(1, CONNECTIONS_PER_CORE * node->cores / node->nhosted);
}

/* Reason of the coordinator against several connections; NULL: there is none. */
static const char *
local_obstacle(const ShardMap *map, ProcessUtilityContext context, CommandDest dest)
{
	if (IsolationUsesXactSnapshot())
		return "the transaction has one snapshot";
	if (IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL))
		return "it is not the whole transaction";
	/* the first statement of a pipeline looks like a single statement */
	if (dest != DestRemote)
		return "other statements may follow in its transaction";
	if (has_triggers(map->relid))
		return "the table has triggers";
	for (int i = 0; i < map->nshards; i++)
		if (has_triggers(map->shards[i].relid))
			return "a shard has triggers";
	return NULL;
}

/* The query for node nodeno of map. */
static char *
build_question(const ShardMap *map, int nodeno, bool merges)
{
	/* pg_trigger.tgtype: INSERT 4, DELETE 8, UPDATE 16 */
	const int	events = merges ? 4 | 8 | 16 : 4;
	const char *separator = "";
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "WITH shard AS MATERIALIZED (SELECT to_regclass(q.name)::oid AS id FROM (VALUES ");
	for (int i = 0; i < map->nshards; i++)
	{
		const Shard *shard = &map->shards[i];

		if (shard->nodeno != nodeno)
			continue;
		appendStringInfo(&sql, "%s(%s)", separator, quote_literal_cstr(shard->relation));
		separator = ", ";
	}
	appendStringInfo(&sql,
					 ") AS q (name)),"
	/* a shard may be partitioned on its node */
					 " tree AS MATERIALIZED (SELECT id FROM shard"
					 " UNION SELECT p.relid::oid FROM shard, pg_partition_tree(shard.id) p)"
					 " SELECT current_setting('max_prepared_transactions'), current_setting('max_connections'),"
					 " (SELECT least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
					 " - coalesce(nullif(current_setting('reserved_connections', true), '')::int, 0) - a.nall,"
					 " CASE WHEN r.rolconnlimit >= 0 AND NOT r.rolsuper THEN r.rolconnlimit - a.nrole END,"
					 " CASE WHEN d.datconnlimit >= 0 AND NOT r.rolsuper THEN d.datconnlimit - a.ndatabase END)"
					 " FROM pg_roles r, pg_database d, (SELECT count(*)::int AS nall,"
					 " (count(*) FILTER (WHERE usename = session_user))::int AS nrole,"
					 " (count(*) FILTER (WHERE datname = current_database()))::int AS ndatabase"
					 " FROM pg_stat_activity WHERE datid IS NOT NULL) a"
					 " WHERE r.rolname = session_user AND d.datname = current_database()),"
					 " (SELECT count(*) FROM pg_stat_progress_copy), CASE"
					 " WHEN (SELECT count(DISTINCT id) < count(*) FROM shard) THEN 'shards that are the same table or none'"
					 " WHEN EXISTS (SELECT FROM tree JOIN pg_class c ON c.oid = tree.id WHERE c.relkind NOT IN ('r', 'p'))"
					 " THEN 'shards that are not tables'"
					 " WHEN EXISTS (SELECT FROM tree JOIN pg_trigger t ON t.tgrelid = tree.id"
					 " WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & %d <> 0%s) THEN 'triggers'"
					 " WHEN EXISTS (SELECT FROM tree JOIN pg_rewrite r ON r.ev_class = tree.id) THEN 'rules'"
					 " WHEN EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.conrelid <> f.confrelid"
					 " AND f.conrelid IN (SELECT id FROM tree) AND f.confrelid IN (SELECT id FROM tree))"
					 " THEN 'foreign keys between shards' END",
					 events,
	/* triggers of shards with replicas do nothing for rows that the load itself sends to the replicas */
					 map->has_replicas ? " AND NOT EXISTS (SELECT FROM pg_proc f, pg_class c WHERE f.oid = t.tgfoid AND c.oid = t.tgrelid"
					 " AND f.pronamespace = c.relnamespace AND f.proname = 'shardfdw_notes_' || md5(c.relname))" : "");
	return sql.data;
}

/*
 * Number of connections that node, which answered res, allows.  If it is less than wanted, *obstacle is set to the
 * reason.
 */
static int
read_answer(const ShardNode *node, const PGresult *res, int wanted, const char **obstacle)
{
	int			cores_for = connections_for_cores(node);
	int			prepared;
	int			limit;

	if (PQntuples(res) != 1)
		elog(ERROR, "unexpected number of rows in the answer of a node");
	if (!PQgetisnull(res, 0, ANSWER_OBSTACLE))
	{
		*obstacle = pstrdup(PQgetvalue(res, 0, ANSWER_OBSTACLE));
		return 1;
	}

	/* Other loads may start at the same time: use half of the free connections, in addition to the current one. */
	limit = 1 + Max(0, atoi(PQgetvalue(res, 0, ANSWER_FREE))) / 2;
	if (limit < wanted)
	{
		*obstacle = "few free connections";
		wanted = limit;
	}
	if (cores_for < INT_MAX)
	{
		limit = Max(1, cores_for - atoi(PQgetvalue(res, 0, ANSWER_COPIES)));
		if (limit < wanted)
		{
			*obstacle = "few idle cores";
			wanted = limit;
		}
	}
	if (shard_guc_commit_protocol == SHARD_COMMIT_1PC)
		return wanted;

	/*
	 * A connection needs at most one prepared transaction at a time.  If a node allows fewer prepared transactions
	 * than connections, concurrent loads must leave some of them to each other, and to other transactions.
	 */
	prepared = atoi(PQgetvalue(res, 0, ANSWER_PREPARED));
	limit = Max(1, prepared / LOADS_AT_ONCE);
	if (prepared < atoi(PQgetvalue(res, 0, ANSWER_CONNECTIONS)) && limit < wanted)
	{
		*obstacle = "few max_prepared_transactions";
		wanted = limit;
	}
	return wanted;
}

/* The minimum over the nodes of map. */
static int
ask_nodes(const ShardMap *map, Oid userid, bool merges, int wanted)
{
	ShardCommand *commands = palloc0(map->nnodes * sizeof(ShardCommand));
	int			result = wanted;

	for (int i = 0; i < map->nnodes; i++)
	{
		commands[i] = (ShardCommand) {.serverid = map->nodes[i].serverid, .userid = userid,
			.sql = build_question(map, i, merges), .only_reads = true, .nfields = ANSWER_OBSTACLE + 1};
	}
	shard_command_run(commands, map->nnodes, SHARD_COMMAND_AUTOCOMMIT, true);
	for (int i = 0; i < map->nnodes; i++)
	{
		const char *obstacle = NULL;
		int			limit = 1;

		if (commands[i].error)
			obstacle = commands[i].error->message;
		else
			limit = read_answer(&map->nodes[i], commands[i].result, wanted, &obstacle);
		if (obstacle)
			elog(DEBUG1, "connections per node for the load are limited to %d by node \"%s\": %s",
				 limit, map->nodes[i].name, obstacle);
		result = Min(result, limit);
	}
	shard_command_free(commands, map->nnodes);
	return result;
}

int
shard_spread_connections(const ShardMap *map, Oid userid, ProcessUtilityContext context,
						 CommandDest dest, bool merges, uint64 nbytes)
{
	uint64		nfilled = nbytes / BYTES_PER_CONNECTION / map->nnodes;
	int			wanted = (int) Min(nfilled, shard_guc_max_connections_per_node);
	MemoryContext cxt;
	MemoryContext oldcxt;
	const char *obstacle;
	int			most_shards = 0;
	int			nloads;
	int			result;

	for (int i = 0; i < map->nnodes; i++)
		most_shards = Max(most_shards, map->nodes[i].nshards);
	wanted = Min(wanted, most_shards);
	if (wanted <= 1)
		return 1;
	obstacle = local_obstacle(map, context, dest);
	if (obstacle)
	{
		elog(DEBUG1, "load uses one connection per node: %s", obstacle);
		return 1;
	}
	nloads = loads_at_once();
	for (int i = 0; i < map->nnodes; i++)
		wanted = Min(wanted, Max(1, connections_for_cores(&map->nodes[i]) / nloads));
	if (wanted <= 1)
	{
		elog(DEBUG1, "load uses one connection per node: %d loads share the cores of its nodes", nloads);
		return 1;
	}

	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw spread", ALLOCSET_DEFAULT_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	result = ask_nodes(map, userid, merges, wanted);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return result;
}
