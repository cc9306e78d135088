/*
 * spread.c
 *	  Over how many connections per node a load may write to its shards.
 *
 * One connection per node is always right.  Several are several transactions on the
 * node, which do not see each other's rows and wait for each other's locks.  The
 * coordinator waits for all of them, which the node's deadlock detector does not know.
 * So they must not have anything in common:
 *
 *	 trigger of a shard's table    may write to a table that all of them write to
 *	 rule, view, foreign table     the same
 *	 foreign key between shards    does not find the row that came over another connection
 *	 two shards that are one table unique keys
 *
 * Foreign keys to other tables do no harm: they take locks that can be shared.
 *
 * Nodes are asked for each load: an outdated answer could make the load hang.
 *
 * A connection costs a node some 10 ms of CPU (a process, its caches, a transaction to
 * prepare), which is what it takes to store half a megabyte.  So there are no more of
 * them than the load has rows for, nor than the machine has cores for: loads at the
 * same time share these.
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

/* A node's max_prepared_transactions are shared as if this many loads ran at the same time. */
#define LOADS_AT_ONCE 10

/* Of the input, for each connection: opening it costs a quarter of storing that. */
#define BYTES_PER_CONNECTION (2 * 1024 * 1024)

/* A connection waits for the coordinator, for locks and for the disk, too. */
#define CONNECTIONS_PER_CORE 4

/* Columns of the question's result, one row. */
enum
{
	ANSWER_PREPARED,			/* max_prepared_transactions */
	ANSWER_CONNECTIONS,			/* max_connections */
	ANSWER_FREE,				/* connections that could be opened now */
	ANSWER_COPIES,				/* COPY FROMs that run on the node now, of all coordinators */
	ANSWER_OBSTACLE				/* text, NULL = none */
};

static bool
has_triggers(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Relation	rel;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return true;			/* dropped: the load will find out */
	result = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	if (!result)
		return false;

	/* the flag in pg_class stays set when triggers are dropped, so the triggers themselves are looked at */
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return true;
	result = shard_trigger_fires_now(rel->trigdesc, ~0);
	relation_close(rel, AccessShareLock);
	return result;
}

/* COPY FROMs that this server's sessions run now, this one included. */
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

/* Connections to a node for which its machine has cores. */
static int
connections_for_cores(const ShardNode *node)
{
	if (node->cores <= 0)
		return INT_MAX;
	return Max(1, CONNECTIONS_PER_CORE * node->cores / node->nhosted);
}

/* Why several connections are ruled out by the coordinator; NULL: they are not. */
static const char *
local_obstacle(const ShardMap *map, ProcessUtilityContext context, CommandDest dest)
{
	if (IsolationUsesXactSnapshot())
		return "the transaction has one snapshot";
	if (IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL))
		return "it is not the whole transaction";
	/* the first statement of a pipeline looks like one that is alone */
	if (dest != DestRemote)
		return "other statements may follow in its transaction";
	if (has_triggers(map->relid))
		return "the table has triggers";
	for (int i = 0; i < map->nshards; i++)
		if (has_triggers(map->shards[i].relid))
			return "a shard has triggers";
	return NULL;
}

/* The question to node nodeno of map. */
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
	/* a shard can be partitioned further on its node */
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
	/* those of shards with copies do nothing for what the load itself sends to the copies */
					 map->has_copies ? " AND NOT EXISTS (SELECT FROM pg_proc f, pg_class c WHERE f.oid = t.tgfoid AND c.oid = t.tgrelid"
					 " AND f.pronamespace = c.relnamespace AND f.proname = 'shardfdw_notes_' || md5(c.relname))" : "");
	return sql.data;
}

/* How many connections node allows, which answered res; why it is less than wanted goes to *obstacle. */
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

	/* Others may come at the same time: half of what is free, beside the one that asks. */
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
	 * A connection needs no more than one prepared transaction at a time.  Where
	 * there are fewer of these than connections, loads at the same time
	 * must not take them from each other, or from other transactions.
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

/* The least of what the nodes of map allow. */
static int
ask_nodes(const ShardMap *map, Oid userid, bool merges, int wanted)
{
	ShardCommand *commands = palloc0(map->nnodes * sizeof(ShardCommand));
	int			result = wanted;

	for (int i = 0; i < map->nnodes; i++)
	{
		commands[i].serverid = map->nodes[i].serverid;
		commands[i].userid = userid;
		commands[i].sql = build_question(map, i, merges);
		commands[i].only_reads = true;
		commands[i].nfields = ANSWER_OBSTACLE + 1;
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
