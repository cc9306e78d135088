/*
 * asked_shards.c
 *	  Enforces shardfdw.multi_shard_statements and shardfdw.max_rows_gathered.
 *
 * When a plan node knows the values of parameters, it reports which shards it will access.  Shards
 * of colocated tables with the same number count as one shard: they are on one node, which can join
 * them.  A statement is reported once.
 *
 * The streams of all plan nodes of a statement share a row limit (remote/run/stream.c counts the rows).
 */
#include "postgres.h"

#include "catalog/colocate.h"
#include "compat.h"
#include "executor/scan/asked_shards.h"
#include "guc.h"
#include "plan/statement_entry.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* What a statement has accessed so far. */
typedef struct AskedShards
{
	ShardStatementEntry entry;	/* in statements */
	Oid			relid;			/* the first table accessed */
	Bitmapset  *shards;			/* of this table, and of tables colocated with it */
	List	   *tables;			/* List of Oid: all tables accessed */
	bool		reported;
} AskedShards;

/* How many rows a statement may receive. */
typedef struct StatementLimit
{
	ShardStatementEntry entry;	/* in limits */
	ShardStreamLimit limit;
} StatementLimit;

/* Statements in progress, innermost first. */
static slist_head statements = SLIST_STATIC_INIT(statements);
static slist_head limits = SLIST_STATIC_INIT(limits);

/* Returns quoted names: "a", "b" */
static char *
table_names(const List *relids)
{
	StringInfoData names;

	initStringInfo(&names);
	foreach_oid(relid, relids)
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", get_rel_name(relid));
	return names.data;
}

static void
report(const AskedShards *asked, int nshards)
{
	ereport(shard_guc_multi_shard_statements,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("statement asks %d shards of %s", nshards, table_names(asked->tables)),
			 errhint("Add a condition on the shard key, or allow it: SET shardfdw.multi_shard_statements = 'allow';")));
}

void
shard_asked_add(EState *estate, const List *relids, const ShardMap *map, const Bitmapset *shards)
{
	MemoryContext oldcxt;
	AskedShards *asked;
	Oid			relid = map->relid;
	int			nothers = 0;

	if (shard_guc_multi_shard_statements == SHARD_MULTI_SHARD_ALLOW || bms_is_empty(shards))
		return;
	oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	/* a shard that is scanned directly counts as a shard of its parent */
	if (map->nshards == 1 && map->shards[0].relid == relid)
	{
		const ShardMap *parent = shard_map_get_levels_now(shard_map_top(relid));
		int			shardno = parent ? shard_map_find(parent, relid) : -1;

		if (shardno >= 0)
		{
			relid = parent->relid;
			shards = bms_make_singleton(shardno);
		}
	}
	asked = shard_statement_entry_find(&statements, estate, 0);
	if (asked == NULL)
	{
		asked = shard_statement_entry_add(&statements, estate, 0, sizeof(AskedShards));
		asked->relid = relid;
	}
	if (relid == asked->relid || shard_colocated(relid, asked->relid))
		asked->shards = bms_add_members(asked->shards, shards);
	else
		nothers = bms_num_members(shards);
	foreach_oid(asked_relid, relids)
		asked->tables = list_append_unique_oid(asked->tables, shard_map_top(asked_relid));
	MemoryContextSwitchTo(oldcxt);
	if (!asked->reported && bms_num_members(asked->shards) + nothers > 1)
	{
		asked->reported = true;
		report(asked, bms_num_members(asked->shards) + nothers);
	}
}

ShardStreamLimit *
shard_asked_limit(EState *estate)
{
	StatementLimit *found;

	if (shard_guc_max_rows_gathered == 0)
		return NULL;
	found = shard_statement_entry_find(&limits, estate, 0);
	if (found == NULL)
	{
		found = shard_statement_entry_add(&limits, estate, 0, sizeof(StatementLimit));
		found->limit.max = found->limit.nleft = shard_guc_max_rows_gathered;
	}
	return &found->limit;
}
