/*
 * table_check.c
 *	  Commands that make a node check that tables are not too new for a map or a snapshot.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "guc.h"
#include "identity.h"
#include "remote/wire/node_stat.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

static bool
is_outdated(const ShardMap *map)
{
	if (map->placed_as)
		map = map->placed_as;
	return shard_map_get_levels_now(map->relid) != map;
}

/*
 * May another transaction replace the tables of shards on this node, or their contents, although this transaction has
 * locked them here?  It may on a standby: its catalogs may be older than the tables, and no job waits for its
 * transactions.  It may on a standby of the node, which replays a change later than the node made it.  And it may if the
 * node has transactions whose commit it has not confirmed: they keep their locks there, and their locks here are gone.
 */
static bool
may_be_replaced(Oid serverid)
{
	return RecoveryInProgress() || shard_guc_read_from != SHARD_READ_PRIMARY || shard_node_stat_may_have_left(serverid);
}

static uint64
full_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint64		epoch = EpochFromFullTransactionId(next);

	return (xid > XidFromFullTransactionId(next) ? epoch - 1 : epoch) << 32 | xid;
}

/* The text form of pg_snapshot.  pg_current_snapshot() leaves out subxip, where a standby has all running transactions. */
static char *
snapshot_text(Snapshot snapshot)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":", full_xid(snapshot->xmin), full_xid(snapshot->xmax));
	for (int i = 0; i < snapshot->subxcnt; i++)
		appendStringInfo(&text, "%s" UINT64_FORMAT, i > 0 ? "," : "", full_xid(snapshot->subxip[i]));
	return text.data;
}

/*
 * Condition, for a standby: its catalogs do not have the transaction yet that has made the shard c (see
 * shardfdw_internal.make_tables_on_nodes()), so the map is of an older table with the same names.
 */
static char *
made_later(void)
{
	const char *note = "obj_description(c.reltype, 'pg_type')";

	return psprintf("%s ~ '^%s [0-9]+$' AND NOT pg_visible_in_snapshot(split_part(%s, ' ', 2)::xid8, '%s')", note, shard_identity_get(),
					note, snapshot_text(GetLatestSnapshot()));
}

/* Appends the names of the reference tables whose schemas the user may use. */
static void
add_reference_tables(const List *rtable, Oid userid, StringInfo names)
{
	foreach_node(RangeTblEntry, rte, rtable)
	{
		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION && rte->relid >= FirstNormalObjectId &&
			shard_reference_is(rte->relid) &&
			shard_namespace_aclcheck(get_rel_namespace(rte->relid), userid, ACL_USAGE) == ACLCHECK_OK)
			appendStringInfo(names, ", %s", quote_literal_cstr(shard_qualified_relation(rte->relid)));
	}
}

char *
shard_table_check(const ShardMap *const *maps, int nmaps, const int *shardnos, int nshards,
				  const List *rtable, Oid userid, bool *may_be_gone)
{
	bool		outdated = false;
	bool		replaced = may_be_replaced(maps[0]->shards[shardnos[0]].serverid);
	StringInfoData body;

	for (int i = 0; i < nmaps && !outdated; i++)
		outdated = is_outdated(maps[i]);
	*may_be_gone = outdated || RecoveryInProgress();
	if (!outdated && !replaced)
		return NULL;
	initStringInfo(&body);
	appendStringInfoString(&body, "DECLARE names text[] = ARRAY[");
	for (int i = 0; i < nmaps; i++)
	{
		for (int j = 0; j < nshards; j++)
			appendStringInfo(&body, "%s%s", i + j > 0 ? ", " : "", quote_literal_cstr(maps[i]->shards[shardnos[j]].relation));
	}
	if (replaced)
		add_reference_tables(rtable, userid, &body);
	appendStringInfoString(&body, "]; moved text; BEGIN ");
	/*
	 * No lock of this server keeps the tables as they are, so they are locked before the check.  A role that may only
	 * write gets an error after it has waited for the lock, which is enough for the check.
	 */
	if (replaced)
		appendStringInfoString(&body, "FOREACH moved IN ARRAY names LOOP BEGIN EXECUTE 'SELECT FROM ' || moved || ' LIMIT 0'; "
							   "EXCEPTION WHEN insufficient_privilege THEN NULL; END; END LOOP; ");
	/*
	 * to_regclass() and pg_relation_filenode() show what is there now.  pg_class is read by the snapshot.  A file that
	 * has changed since was filled after TRUNCATE or by ALTER TABLE, and the snapshot does not see its rows.
	 */
	appendStringInfo(&body, "SELECT x.name INTO moved FROM unnest(names) x(name) "
					 "LEFT JOIN pg_class c ON c.oid = to_regclass(x.name) LEFT JOIN pg_namespace n ON n.oid = c.relnamespace "
					 "WHERE ARRAY[n.nspname, c.relname]::text[] IS DISTINCT FROM parse_ident(x.name) OR %s "
					 "OR EXISTS (SELECT FROM pg_class k WHERE (k.oid = c.oid OR k.oid IN (SELECT relid FROM pg_partition_tree(c.oid))) "
					 "AND k.relfilenode <> pg_relation_filenode(k.oid)) LIMIT 1; "
					 "IF FOUND THEN RAISE EXCEPTION USING ERRCODE = 'serialization_failure', "
					 "MESSAGE = format('could not serialize access due to a change of table %%s', moved), "
					 "HINT = 'The transaction might succeed if retried.'; END IF; END",
					 RecoveryInProgress() ? made_later() : "false");
	return psprintf("DO %s; ", quote_literal_cstr(body.data));
}
