/*
 * deferred_index.c
 *	  INDEXES DEFERRED: drops the secondary indexes of shards at the start of a load, and creates them again at
 *	  its end.
 *
 *	 first row of a shard       LOCK; definitions --> setting of the transaction; DROP INDEX
 *	 its rows                   COPY ...
 *	 all rows of the load       setting --> CREATE INDEX, and other properties of each index
 *
 * DO blocks do all of this in the transaction that loads the rows, over the connection that writes them.  If the load
 * fails for any reason, the node rolls back and has the old indexes.  The definitions are read after the lock has
 * been taken, so they cannot change before the index is dropped.
 *
 * An index is secondary if no row is checked against it: it is not unique, and belongs to no constraint.  Other
 * indexes stay, so that errors about keys refer to the row.  Indexes that could not be created again in the same form
 * stay, too: indexes that are not valid, indexes of partitions, and members of an extension.
 *
 * The lock on the sharded table makes two loads of one coordinator wait for each other.  Loads of several
 * coordinators, and their readers, wait for each other on the nodes, and may deadlock.  Such deadlocks are detected
 * (service/deadlock.c).
 */
#include "postgres.h"

#include "catalog/moving.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "load/deferred_index.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define COMMANDS "shardfdw_load.indexes"	/* name prefix of the settings, one for each shard */
#define MIN_MAINTENANCE_KB 1024

/* Columns of a node's answer: requirements that one of its shards does not meet. */
enum
{
	ANSWER_SHARD,				/* shardno */
	ANSWER_MISSING				/* text; empty: the shard has deferrable foreign keys */
};

struct ShardDeferredIndexes
{
	MemoryContext cxt;
	const ShardMap *map;
};

/* SQL condition: index i (pg_index) with its relation c (pg_class) is secondary. */
#define IS_SECONDARY \
	"NOT i.indisunique AND NOT i.indisexclusion AND NOT i.indisreplident AND i.indisvalid AND i.indisready AND i.indislive" \
	" AND c.relkind = 'i' AND NOT c.relispartition" \
	" AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)" \
	" AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.deptype = 'e')"

/* ---------- checks on the nodes ---------- */

/* The query that finds the first shard of a node that does not meet a requirement. */
static char *
build_question(const ShardMap *map, int nodeno)
{
	StringInfoData sql;
	bool		first = true;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT n, missing FROM (SELECT q.n, CASE"
						   " WHEN NOT pg_has_role(t.relowner, 'USAGE') THEN format('ownership of table %s', q.name)"
						   " WHEN NOT has_schema_privilege(t.relnamespace, 'CREATE')"
						   " THEN format('privilege CREATE on schema %s', t.relnamespace::regnamespace)"
						   " WHEN NOT EXISTS (SELECT FROM pg_language l WHERE l.lanname = 'plpgsql'"
						   " AND has_language_privilege(l.oid, 'USAGE')) THEN 'language plpgsql'"
						   " WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = t.oid AND g.tgdeferrable AND g.tgenabled <> 'D')"
						   " THEN ''"
						   " ELSE (SELECT format('privilege CREATE on tablespace %I', s.spcname)"
						   " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_tablespace s ON s.oid = c.reltablespace"
						   " WHERE i.indrelid = t.oid AND " IS_SECONDARY
						   " AND NOT has_tablespace_privilege(s.oid, 'CREATE') LIMIT 1) END AS missing FROM (VALUES ");
	for (int i = 0; i < map->nshards; i++)
	{
		if (map->shards[i].nodeno != nodeno)
			continue;
		appendStringInfo(&sql, "%s(%d, %s)", first ? "" : ", ", i, quote_literal_cstr(map->shards[i].relation));
		first = false;
	}
	appendStringInfoString(&sql,
						   ") AS q (n, name) JOIN pg_class t ON t.oid = to_regclass(q.name)"
						   " WHERE t.relkind = 'r' AND EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
						   " WHERE i.indrelid = t.oid AND " IS_SECONDARY ")) a"
						   " WHERE missing IS NOT NULL ORDER BY n LIMIT 1");
	return sql.data;
}

/* Raises an error for the answer of a node. */
static void
raise_missing(const ShardMap *map, int nodeno, const PGresult *res)
{
	int			shardno = atoi(PQgetvalue(res, 0, ANSWER_SHARD));
	const char *missing = PQgetvalue(res, 0, ANSWER_MISSING);

	if (shardno < 0 || shardno >= map->nshards || map->shards[shardno].nodeno != nodeno)
		elog(ERROR, "unexpected shard number %d in the answer of a node", shardno);
	if (missing[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("INDEXES DEFERRED cannot be used with deferrable foreign keys"),
				 errdetail("Table %s on node \"%s\" has some. No index is built before rows that wait for their check are committed.",
						   map->shards[shardno].relation, map->nodes[nodeno].name)));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("INDEXES DEFERRED lacks %s on node \"%s\"", missing, map->nodes[nodeno].name),
			 errdetail("The indexes of its shards are dropped, and built again when all rows are there.")));
}

static void
check_nodes(const ShardMap *map)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * map->nnodes);

	for (int i = 0; i < map->nnodes; i++)
	{
		commands[i] = (ShardCommand) {.serverid = map->nodes[i].serverid, .userid = GetUserId(),
			.sql = build_question(map, i), .nfields = ANSWER_MISSING + 1};
	}
	shard_command_run(commands, map->nnodes, SHARD_COMMAND_READ, false);
	for (int i = 0; i < map->nnodes; i++)
		if (PQntuples(commands[i].result) > 0)
			raise_missing(map, i, commands[i].result);
	shard_command_free(commands, map->nnodes);
}

ShardDeferredIndexes *
shard_deferred_index_open(MemoryContext cxt, const ShardMap *map)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardDeferredIndexes *deferred = palloc0(sizeof(ShardDeferredIndexes));
	Oid		   *relids = palloc(sizeof(Oid) * map->nshards);

	for (int i = 0; i < map->nshards; i++)
		relids[i] = map->shards[i].relid;
	shard_moving_check(relids, map->nshards);
	check_nodes(map);
	deferred->cxt = cxt;
	deferred->map = map;
	MemoryContextSwitchTo(oldcxt);
	return deferred;
}

/* ---------- commands ---------- */

static char *
do_block(const char *body)
{
	return psprintf("DO LANGUAGE plpgsql %s", quote_literal_cstr(body));
}

/*
 * Drops the secondary indexes of relation, and stores in the setting, as an array, the commands that create each
 * index again, in the right order.
 */
static char *
build_drop(const char *relation, const char *setting)
{
	StringInfoData body;

	initStringInfo(&body);
	appendStringInfo(&body,
					 "DECLARE x record; a record; t text := %s; made text[] := '{}'; "
					 "dates text := current_setting('DateStyle'); intervals text := current_setting('IntervalStyle');"
					 " digits text := current_setting('extra_float_digits'); "
					 "BEGIN LOCK TABLE %s IN ACCESS EXCLUSIVE MODE; "
	/* literals of the definitions; the rows have the settings of the session */
					 "PERFORM set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'postgres', true), set_config('extra_float_digits', '3', true); "
					 "FOR x IN SELECT i.indexrelid AS id, i.indisclustered, c.relname, format('%%I.%%I', n.nspname, c.relname) AS name,"
					 " coalesce(s.spcname, '') AS space, pg_get_indexdef(i.indexrelid) AS def,"
					 " obj_description(i.indexrelid, 'pg_class') AS comment"
					 " FROM pg_class h JOIN pg_index i ON i.indrelid = h.oid JOIN pg_class c ON c.oid = i.indexrelid"
					 " JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace"
					 " WHERE h.oid = t::regclass AND h.relkind = 'r' AND " IS_SECONDARY " ORDER BY i.indexrelid LOOP "
					 "made := made || format('SET LOCAL default_tablespace = %%L', x.space) || x.def; ",
					 quote_literal_cstr(relation), relation);
	appendStringInfoString(&body,
						   "IF x.indisclustered THEN made := made || format('ALTER TABLE %s CLUSTER ON %I', t, x.relname); END IF; "
						   "FOR a IN SELECT attnum, attstattarget FROM pg_attribute"
						   " WHERE attrelid = x.id AND attstattarget >= 0 LOOP "
						   "made := made || format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', x.name, a.attnum, a.attstattarget); "
						   "END LOOP; "
						   "FOR a IN SELECT e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid"
						   " WHERE d.classid = 'pg_class'::regclass AND d.objid = x.id"
						   " AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'x' LOOP "
						   "made := made || format('ALTER INDEX %s DEPENDS ON EXTENSION %I', x.name, a.extname); "
						   "END LOOP; "
						   "IF x.comment IS NOT NULL THEN made := made || format('COMMENT ON INDEX %s IS %L', x.name, x.comment); END IF; "
						   "EXECUTE format('DROP INDEX %s', x.name); "
						   "END LOOP; ");
	appendStringInfo(&body, "PERFORM set_config('DateStyle', dates, true), set_config('IntervalStyle', intervals, true),"
					 " set_config('extra_float_digits', digits, true), set_config(%s, made::text, true); END", quote_literal_cstr(setting));
	return do_block(body.data);
}

/* Runs the commands in the setting, and restores the transaction's settings afterwards. */
static char *
build_create(const char *setting, int memory_kb)
{
	return do_block(psprintf("DECLARE command text; space text := current_setting('default_tablespace');"
							 " memory text := current_setting('maintenance_work_mem'); "
							 "BEGIN SET LOCAL maintenance_work_mem = %d; "
							 "FOREACH command IN ARRAY current_setting(%s)::text[] LOOP EXECUTE command; END LOOP; "
							 "PERFORM set_config('default_tablespace', space, true), set_config('maintenance_work_mem', memory, true); END",
							 memory_kb, quote_literal_cstr(setting)));
}

const ShardCopyFrame *
shard_deferred_index_frame(ShardDeferredIndexes *deferred, int shardno, int nconns)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(deferred->cxt);
	ShardCopyFrame *frame = palloc(sizeof(ShardCopyFrame));
	char	   *setting = psprintf(COMMANDS "_%d", shardno);

	frame->first_sql = build_drop(deferred->map->shards[shardno].relation, setting);
	frame->last_sql = build_create(setting, Max(maintenance_work_mem / nconns, MIN_MAINTENANCE_KB));
	MemoryContextSwitchTo(oldcxt);
	return frame;
}
