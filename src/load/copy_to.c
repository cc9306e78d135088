/*
 * copy_to.c
 *	  Runs COPY TO of a sharded table, or of a query of which each shard computes a part of the result.  All
 *	  shards write the output format in parallel, and the coordinator forwards their bytes.
 *
 *	  rights, options --> same bytes as core's? --no--> COPY (SELECT ...) TO, by core
 *								|yes
 *	  header --> one raw stream per shard --> complete messages, as they come --> trailer
 *
 * A query is planned, and its plan is started, to find out whether shards can write its result.  If they can, this
 * file sends the scan's statements to the shards as COPY, and ends the plan without running it.
 *
 * A message is a row, so the bytes of a row are never mixed with those of another shard.  Nothing is buffered: if the
 * destination is slow, this backend waits for it, and the nodes wait at their sockets.
 *
 * If this transaction has written to a node, one statement reads all shards of the node, see executor/scan/scan.c.
 * The same holds for a node that groups its shards one after the other.
 *
 * copy_to_sql.c makes the statements for the shards. copy_dest.c writes the bytes. remote/ has snapshots and
 * connections.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "byte_order.h"
#include "catalog/namespace.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "replica/replica_read.h"
#include "executor/executor.h"
#include "guc.h"
#include "load/copy_dest.h"
#include "load/copy_to.h"
#include "load/copy_to_sql.h"
#include "load/input/copy_rights.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_relation.h"
#include "remote/run/read_role.h"
#include "remote/run/stream.h"
#include "remote/xact/txn.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#define CHUNK_BYTES (64 * 1024)

/*
 * Limit of a node's open streams, as a multiple of its connections, so that some streams always wait for the next
 * free connection.
 */
#define WINDOW_FACTOR 2

#define BINARY_HEADER_BYTES 19	/* signature, flags, length of the header extension */
#define BINARY_TRAILER_BYTES 2

static const char binary_header[BINARY_HEADER_BYTES] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
static const char binary_trailer[BINARY_TRAILER_BYTES] = {'\377', '\377'};

/* A node's shards. */
typedef struct CopyNode
{
	int			nshards;
	int			nopened;		/* number of shards opened so far */
	int		   *shardnos;
	bool		together;		/* one statement reads all of them */
} CopyNode;

/* An open stream. */
typedef struct CopySource
{
	ShardStream *stream;
	int			nodeno;
	const char *label;
	bool		begun;			/* binary: the header has been received */
	bool		ended;			/* binary: the trailer has been received */
} CopySource;

typedef struct CopyRun
{
	const ShardCopyTo *copy;
	const ShardMap *map;		/* map as of snapshot */
	MemoryContext cxt;			/* context of the whole run */
	ShardSnapshot *snapshot;
	ShardCopyDest *dest;
	CopyNode   *nodes;			/* array of map->nnodes */
	int			nsources;
	CopySource *sources;
	ShardStream **streams;		/* streams of the sources, for waiting */
	ShardWaitSet *wait_set;
	char	   *chunk;
	uint64		nrows;
} CopyRun;

/* ------------------------------------------------------------------------
 * Rights on the table, in core's order
 * ------------------------------------------------------------------------ */

/* Checks the SELECT privilege on the columns that are written. */
static void
check_table_rights(ParseState *pstate, Relation rel, List *attnos)
{
	ParseNamespaceItem *nsitem = addRangeTableEntryForRelation(pstate, rel, AccessShareLock,
															   NULL, false, false);

	SHARD_PERM_INFO(nsitem)->requiredPerms = ACL_SELECT;
	foreach_int(attno, attnos)
		SHARD_PERM_INFO(nsitem)->selectedCols =
			bms_add_member(SHARD_PERM_INFO(nsitem)->selectedCols,
						   attno - FirstLowInvalidHeapAttributeNumber);
	shard_copy_rights_check(pstate, CMD_SELECT);
}

static void
check_force_quote(Relation rel, const ShardCopyTo *copy)
{
	List	   *quoted;

	if (copy->opts.force_quote == NIL)
		return;
	quoted = CopyGetAttnums(copy->desc, rel, copy->opts.force_quote);
	foreach_int(attno, quoted)
		if (!list_member_int(copy->attnos, attno))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("FORCE_QUOTE column \"%s\" not referenced by COPY",
							NameStr(TupleDescAttr(copy->desc, attno - 1)->attname))));
}

/* Lets core run COPY (SELECT columns FROM table) TO, with all other parts of the statement unchanged. */
static uint64
run_as_query(ParseState *pstate, const CopyStmt *stmt, Relation rel, List *attnos,
			 int stmt_location, int stmt_len)
{
	CopyStmt   *copy = copyObject(unconstify(CopyStmt *, stmt));
	SelectStmt *select = makeNode(SelectStmt);
	uint64		nrows;

	foreach_int(attno, attnos)
	{
		ColumnRef  *column = makeNode(ColumnRef);
		ResTarget  *target = makeNode(ResTarget);

		column->fields = list_make1(makeString(NameStr(TupleDescAttr(RelationGetDescr(rel),
																	 attno - 1)->attname)));
		column->location = -1;
		target->val = (Node *) column;
		target->location = -1;
		select->targetList = lappend(select->targetList, target);
	}
	select->fromClause = list_make1(makeRangeVar(get_namespace_name(RelationGetNamespace(rel)),
												 pstrdup(RelationGetRelationName(rel)), -1));
	copy->relation = NULL;
	copy->attlist = NIL;
	copy->query = (Node *) select;
	if (!shard_copy_to_query(pstate, copy, stmt_location, stmt_len, &nrows))
		DoCopy(pstate, copy, stmt_location, stmt_len, &nrows);
	return nrows;
}

/* ------------------------------------------------------------------------
 * Starting
 * ------------------------------------------------------------------------ */

/* Distributes the shards to their nodes.  The transaction layer already has the streams of a query. */
static void
group_by_node(CopyRun *run)
{
	const ShardMap *map = run->map;
	const ShardQuery *query = run->copy->query;

	run->nodes = palloc0(sizeof(CopyNode) * map->nnodes);
	for (int i = 0; i < map->nnodes; i++)
		run->nodes[i].shardnos = palloc(sizeof(int) * map->nodes[i].nshards);
	for (int i = 0; i < map->nshards; i++)
	{
		CopyNode   *node = &run->nodes[map->shards[i].nodeno];

		if (query == NULL || bms_is_member(i, query->shards))
			node->shardnos[node->nshards++] = i;
	}
	for (int i = 0; i < map->nnodes; i++)
	{
		CopyNode   *node = &run->nodes[i];
		Oid			serverid = map->nodes[i].serverid;

		node->together = node->nshards > 1 &&
			shard_txn_uses_writer(shard_pool_get(serverid, run->copy->userid), run->snapshot);
		if (query == NULL)
			shard_snapshot_expect(run->snapshot, serverid, run->copy->userid,
								  node->together ? 1 : node->nshards);
	}
}

/* As for scans: uses parallel workers only on cores that the open streams leave idle. */
static int
workers_per_stream(const CopyRun *run, int nodeno)
{
	const CopyNode *node = &run->nodes[nodeno];
	int			in_flight = Min(node->nshards, shard_guc_max_connections_per_node);
	int			cores = run->map->nodes[nodeno].cores;

	if (in_flight <= 1 || node->together)
		return -1;
	if (cores <= 0)
		return 0;
	return Min(Max(cores / in_flight - 1, 0), 8);
}

/* Opens as source i the next shard of node nodeno, or all of its shards if one statement reads them. */
static void
open_source(CopyRun *run, int i, int nodeno)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(run->cxt);
	const ShardMap *map = run->map;
	CopyNode   *node = &run->nodes[nodeno];
	CopySource *source = &run->sources[i];
	const int  *shardnos = node->shardnos + node->nopened;
	int			nshards = node->together ? node->nshards : 1;
	ShardStreamSpec spec;
	StringInfoData sql;

	memset(source, 0, sizeof(CopySource));
	source->nodeno = nodeno;
	source->label = map->shards[shardnos[0]].name;
	if (nshards > 1)
		source->label = psprintf(_("%s and %d more"), source->label, nshards - 1);
	initStringInfo(&sql);
	shard_copy_to_sql_render(run->copy, shardnos, nshards, &sql);
	node->nopened += nshards;

	spec = (ShardStreamSpec) {.serverid = map->nodes[nodeno].serverid, .userid = run->copy->userid,
		.sql = sql.data, .label = source->label, .ncolumns = 1, .use_copy = true, .raw_copy = true,
		.workers = workers_per_stream(run, nodeno)};
	spec.check = shard_table_check(&map, 1, shardnos, nshards, NIL, spec.userid, &spec.may_be_gone);
	source->stream = run->streams[i] = shard_stream_open(run->cxt, run->snapshot, &spec);
	MemoryContextSwitchTo(oldcxt);
}

/* Opens one source per node in each round, so that all nodes start early. */
static void
open_sources(CopyRun *run)
{
	const ShardMap *map = run->map;
	int			window = WINDOW_FACTOR * shard_guc_max_connections_per_node;
	bool		more = true;
	List	   *serverids = NIL;

	for (int i = 0; i < map->nnodes; i++)
		if (run->nodes[i].nshards > 0)
			serverids = lappend_oid(serverids, map->nodes[i].serverid);
	shard_read_role_choose(run->snapshot, serverids, run->copy->userid);
	run->sources = palloc0(sizeof(CopySource) * map->nshards);
	run->streams = palloc0(sizeof(ShardStream *) * map->nshards);
	while (more)
	{
		more = false;
		for (int i = 0; i < map->nnodes; i++)
		{
			if (run->nodes[i].nopened < Min(run->nodes[i].nshards, window))
			{
				open_source(run, run->nsources++, i);
				more = true;
			}
		}
	}
}

/* ------------------------------------------------------------------------
 * Forwarding
 * ------------------------------------------------------------------------ */

static void
violation(const CopyRun *run, const CopySource *source, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("unexpected data from node \"%s\": %s",
					run->map->nodes[source->nodeno].name, what),
			 errdetail("Shard %s.", source->label)));
}

/* Forwards a message of the binary format, without its header and trailer. */
static void
forward_binary(CopyRun *run, CopySource *source, const char *data, int len)
{
	if (!source->begun)
	{
		uint32		extension;

		if (len < BINARY_HEADER_BYTES || memcmp(data, binary_header, 15) != 0)
			violation(run, source, "no header of the binary COPY format");
		extension = shard_get_uint32(data + 15);
		if (extension > (uint32) (len - BINARY_HEADER_BYTES))
			violation(run, source, "header of the binary COPY format is longer than its message");
		data += BINARY_HEADER_BYTES + extension;
		len -= BINARY_HEADER_BYTES + extension;
		source->begun = true;
		if (len == 0)
			return;
	}
	if (source->ended)
		violation(run, source, "row after the end of the COPY data");
	if (len == BINARY_TRAILER_BYTES && memcmp(data, binary_trailer, BINARY_TRAILER_BYTES) == 0)
		source->ended = true;
	else
		shard_copy_dest_write(run->dest, data, len, 1);
}

/* Writes the available rows of source, one by one. */
static ShardStreamStatus
forward_rows(CopyRun *run, CopySource *source)
{
	bool		binary = shard_copy_is_binary(&run->copy->opts);
	ShardStreamStatus status;
	ShardRow	row;

	while ((status = shard_stream_next(source->stream, &row)) == SHARD_STREAM_ROW)
	{
		if (binary)
			forward_binary(run, source, row.values[0], row.lens[0]);
		else
			shard_copy_dest_write(run->dest, row.values[0], row.lens[0], 1);
	}
	return status;
}

/*
 * Writes many rows at a time.  If a chunk ends within a row, the rest of that row is read next, before bytes of
 * another source.
 */
static ShardStreamStatus
forward_chunks(CopyRun *run, CopySource *source)
{
	uint64		nrows = shard_stream_rows(source->stream);
	const char *data;
	int			len;
	bool		torn;
	ShardStreamStatus status;

	while ((status = shard_stream_next_bytes(source->stream, run->chunk, CHUNK_BYTES,
											 &data, &len, &torn)) == SHARD_STREAM_ROW)
	{
		uint64		total = shard_stream_rows(source->stream);

		shard_copy_dest_write(run->dest, data, len, total - nrows);
		nrows = total;
	}
	return status;
}

/* Source i has ended: the next shard of its node replaces it, or otherwise the last source. */
static void
finish_source(CopyRun *run, int i)
{
	CopySource *source = &run->sources[i];
	CopyNode   *node = &run->nodes[source->nodeno];

	if (shard_copy_is_binary(&run->copy->opts) && !source->ended)
		violation(run, source, "the COPY data have no end mark");
	run->nrows += shard_stream_affected(source->stream);
	shard_stream_close(source->stream);
	run->streams[i] = NULL;
	if (node->nopened < node->nshards)
		open_source(run, i, source->nodeno);
	else
	{
		run->nsources--;
		run->sources[i] = run->sources[run->nsources];
		run->streams[i] = run->streams[run->nsources];
	}
}

static void
forward_all(CopyRun *run)
{
	/* the client gets each row as a separate message; in binary format, the ends of messages matter */
	bool		by_rows = shard_copy_dest_is_client(run->dest) || shard_copy_is_binary(&run->copy->opts);

	while (run->nsources > 0)
	{
		int			i = 0;

		while (i < run->nsources)
		{
			CopySource *source = &run->sources[i];
			ShardStreamStatus status = by_rows ? forward_rows(run, source) : forward_chunks(run, source);

			if (status == SHARD_STREAM_DONE)
				finish_source(run, i);	/* the replacement is read next */
			else
				i++;
		}
		if (run->nsources > 0)
			shard_stream_wait(run->streams, run->nsources, run->wait_set);
	}
}

/* Writes the header. */
static void
write_start(CopyRun *run)
{
	const ShardCopyTo *copy = run->copy;
	bool		binary = shard_copy_is_binary(&copy->opts);

	shard_copy_dest_begin(run->dest, binary, list_length(copy->attnos));
	if (binary)
		shard_copy_dest_prefix(run->dest, binary_header, BINARY_HEADER_BYTES);
	else if (shard_copy_header_lines(&copy->opts) > 0)
	{
		StringInfoData line;

		initStringInfo(&line);
		shard_copy_to_sql_header(copy, &line);
		shard_copy_dest_write(run->dest, line.data, line.len, 0);
	}
}

/* The map of the shards as of the statement's snapshot. */
static const ShardMap *
map_of_snapshot(const ShardMap *map, const ShardSnapshot *snapshot)
{
	map = shard_map_get_now(map->relid);
	if (map == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the table is not sharded any more")));
	if (snapshot->local)
		return shard_map_as_of(map, snapshot->local, snapshot->local_xmin);
	shard_map_check_unmoved(map, NULL);
	return map;
}

static uint64
run_on_shards(const CopyStmt *stmt, const ShardCopyTo *copy)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw COPY TO",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	CopyRun		run = {0};

	run.copy = copy;
	run.cxt = cxt;
	run.dest = shard_copy_dest_open(stmt, copy->query ? InvalidOid : copy->map->relid);
	run.snapshot = copy->query ? copy->query->snapshot : shard_txn_snapshot(cxt);
	run.map = copy->query ? copy->map : map_of_snapshot(copy->map, run.snapshot);
	if (run.map->has_replicas && !run.snapshot->local)
		run.map = shard_replica_read_map(run.map, copy->query ? copy->query->shards : NULL, run.snapshot, copy->userid);
	run.wait_set = shard_wait_set_create(cxt);
	run.chunk = palloc(CHUNK_BYTES);
	group_by_node(&run);
	open_sources(&run);

	write_start(&run);
	forward_all(&run);
	if (shard_copy_is_binary(&copy->opts))
		shard_copy_dest_write(run.dest, binary_trailer, BINARY_TRAILER_BYTES, 0);
	shard_copy_dest_close(run.dest);

	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return run.nrows;
}

uint64
shard_copy_to(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len)
{
	ShardCopyTo copy = {0};
	const char *obstacle;
	Relation	rel;
	uint64		nrows;

	rel = table_openrv(stmt->relation, AccessShareLock);
	copy.desc = RelationGetDescr(rel);
	copy.userid = GetUserId();
	copy.attnos = CopyGetAttnums(copy.desc, rel, stmt->attlist);
	check_table_rights(pstate, rel, copy.attnos);

	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, false) == RLS_ENABLED)
		obstacle = "row security has to be applied";
	else
	{
		ProcessCopyOptions(pstate, &copy.opts, false, stmt->options);
		check_force_quote(rel, &copy);
		copy.encoding = copy.opts.file_encoding >= 0 ? copy.opts.file_encoding : pg_get_client_encoding();
		copy.map = shard_map_get_levels_now(RelationGetRelid(rel));
		if (copy.map == NULL)
			elog(ERROR, "relation \"%s\" is not sharded", RelationGetRelationName(rel));
		/* a query locks the partitions, and looks up the shards again under these locks */
		obstacle = copy.map->nparts > 0 ? "it is a table of two levels" : shard_copy_to_sql_obstacle(&copy);
	}

	if (obstacle)
	{
		ereport(DEBUG1,
				(errmsg_internal("COPY \"%s\" TO runs as a query: %s",
								 RelationGetRelationName(rel), obstacle)));
		nrows = run_as_query(pstate, stmt, rel, copy.attnos, stmt_location, stmt_len);
	}
	else
		nrows = run_on_shards(stmt, &copy);
	table_close(rel, NoLock);
	return nrows;
}

/* ------------------------------------------------------------------------
 * Queries
 * ------------------------------------------------------------------------ */

static ShardQueryOf query_of = NULL;

void
shard_copy_to_init(ShardQueryOf function)
{
	query_of = function;
}

/*
 * Does a query before parse analysis name a sharded table?  Locks the sharded table as parse analysis will do.  Does
 * not lock other tables: their names may be names of WITH queries.
 */
static bool
names_sharded_table(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeVar))
	{
		Oid			relid = RangeVarGetRelid((RangeVar *) node, NoLock, true);

		if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
			return false;
		relid = RangeVarGetRelid((RangeVar *) node, AccessShareLock, true);
		return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE &&
			shard_map_get_levels(relid, false) != NULL;
	}
	return raw_expression_tree_walker(node, names_sharded_table, context);
}

/*
 * The plan of a query in COPY (query), or NULL if it is more than one scan.  In that case core's COPY plans the query
 * again, and libraries that count plans by queryId count only that plan.
 */
static PlannedStmt *
plan_scan(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len)
{
	RawStmt    *raw = makeNode(RawStmt);
	List	   *queries;
	Query	   *query;
	PlannedStmt *plan;
	uint64		query_id;
	int			nestlevel;

	raw->stmt = copyObject(stmt->query);
	raw->stmt_location = stmt_location;
	raw->stmt_len = stmt_len;
	queries = pg_analyze_and_rewrite_fixedparams(raw, pstate->p_sourcetext, NULL, 0,
												 pstate->p_queryEnv);
	if (list_length(queries) != 1)
		return NULL;
	query = linitial_node(Query, queries);
	if (query->commandType != CMD_SELECT || query->hasModifyingCTE)
		return NULL;
	query_id = query->queryId;
	query->queryId = 0;
	/* each shard writes its part */
	nestlevel = NewGUCNestLevel();
	(void) set_config_option("shardfdw.query_per_node", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	plan = shard_plan_query(query, pstate->p_sourcetext, CURSOR_OPT_PARALLEL_OK, NULL);
	AtEOXact_GUC(true, nestlevel);
	plan->queryId = query_id;
	return IsA(plan->planTree, ForeignScan) ? plan : NULL;
}

/*
 * Fills copy, whose options are already set, for a query that was started.  Returns NULL if shards can write the
 * result, otherwise the reason.
 */
static const char *
describe_query(QueryDesc *desc, ShardCopyTo *copy)
{
	copy->query = query_of(desc);
	if (copy->query == NULL)
		return "its result takes more than what shards give";
	copy->map = copy->query->map;
	copy->desc = desc->tupDesc;
	copy->userid = copy->query->userid;
	copy->attnos = CopyGetAttnums(copy->desc, NULL, NIL);
	check_force_quote(NULL, copy);
	return shard_copy_to_sql_obstacle(copy);
}

/*
 * Starts plan, lets shards write its result, and ends plan without running it.  Returns NULL if that was possible,
 * otherwise the reason.
 */
static const char *
run_plan(ParseState *pstate, const CopyStmt *stmt, PlannedStmt *plan, ShardCopyTo *copy,
		 uint64 *nrows)
{
	const char *obstacle;
	QueryDesc  *desc;

	PushCopiedSnapshot(GetActiveSnapshot());
	UpdateActiveSnapshotCommandId();
	desc = CreateQueryDesc(plan, pstate->p_sourcetext, GetActiveSnapshot(), InvalidSnapshot,
						   None_Receiver, NULL, NULL, 0);
	ExecutorStart(desc, 0);
	obstacle = describe_query(desc, copy);
	if (obstacle == NULL)
	{
		copy->query->bind(copy->query);
		*nrows = run_on_shards(stmt, copy);
	}
	else
		plan->queryId = 0;		/* core's COPY runs the query, and libraries must count only that */
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
	return obstacle;
}

bool
shard_copy_to_query(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len,
					uint64 *nrows)
{
	const char *obstacle = "its plan is more than a scan";
	ShardCopyTo copy = {0};
	PlannedStmt *plan;

	if (!IsA(stmt->query, SelectStmt) || !names_sharded_table(stmt->query, NULL))
		return false;
	ProcessCopyOptions(pstate, &copy.opts, false, stmt->options);
	copy.encoding = copy.opts.file_encoding >= 0 ? copy.opts.file_encoding : pg_get_client_encoding();
	plan = plan_scan(pstate, stmt, stmt_location, stmt_len);
	if (plan != NULL)
		obstacle = run_plan(pstate, stmt, plan, &copy, nrows);
	if (obstacle != NULL)
		ereport(DEBUG1,
				(errmsg_internal("COPY of a query is written by the coordinator: %s", obstacle)));
	return obstacle == NULL;
}
