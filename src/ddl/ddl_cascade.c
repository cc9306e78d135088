/*
 * ddl_cascade.c
 *	  Finds the additional tables that TRUNCATE ... CASCADE truncates.
 *
 * Foreign keys between shards, and from shards to reference tables, are only on the nodes, so core does not know the
 * referencing tables.  This file adds the tables that core would add.  So they are subject to core's permission
 * checks, triggers and locks.  Nodes never run TRUNCATE with CASCADE (executor/modify/truncate.c).
 */
#include "postgres.h"

#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "compat.h"
#include "ddl/ddl_cascade.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

static void
check_rights(Oid relid)
{
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
}

/* Called before a table of the statement is locked; core checks everything else. */
static void
check_named(const RangeVar *relation, Oid relid, Oid old_relid, void *arg)
{
	if (OidIsValid(relid) && shard_ddl_table_maybe(relid))
		check_rights(relid);
}

/* Is relid, or a partitioned table that contains it, in relids? */
static bool
is_part(Oid relid, const List *relids)
{
	while (!list_member_oid(relids, relid))
	{
		if (!get_rel_relispartition(relid))
			return false;
		relid = get_partition_parent(relid, true);
	}
	return true;
}

/* Are all partitions of relid, on all levels, in relids, including partitions that are not shards? */
static bool
has_all_partitions(Oid relid, const List *relids)
{
	foreach_oid(memberid, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(memberid) != RELKIND_PARTITIONED_TABLE && !list_member_oid(relids, memberid))
			return false;
	}
	return true;
}

/* If relids has all shards of a table, or of a partitioned table below it, replaces them by that table. */
static List *
join_shards(List *relids)
{
	List	   *result = NIL;

	foreach_oid(relid, relids)
	{
		Oid			parent;

		if (is_part(relid, result))
			continue;
		while (get_rel_relispartition(relid) &&
			   OidIsValid(parent = get_partition_parent(relid, true)) && has_all_partitions(parent, relids))
			relid = parent;
		result = lappend_oid(result, relid);
	}
	return result;
}

/* Appends the members of added that relids does not have yet, locked. tell: report each of them. */
static List *
append_new(List *relids, List *added, bool tell)
{
	foreach_oid(relid, added)
	{
		if (is_part(relid, relids))
			continue;
		check_rights(relid);
		LockRelationOid(relid, AccessExclusiveLock);
		if (tell)
			ereport(NOTICE,
					(errmsg("truncate cascades to table \"%s\"", get_rel_name(relid))));
		relids = lappend_oid(relids, relid);
	}
	return relids;
}

/*
 * Returns relids and the tables that reference them, directly or indirectly, all locked on the coordinator. on_nodes:
 * lock them on the nodes, too.  Only then the result is final, because a session that creates or drops a foreign key
 * locks the referenced table there.
 */
static List *
find_cascade(const List *named, const List *alone, bool on_nodes)
{
	List	   *relids = list_copy(named);

	/* the list grows during the loop */
	for (int i = 0; i < list_length(relids); i++)
	{
		Oid			relid = list_nth_oid(relids, i);
		List	   *emptied = list_member_oid(alone, relid) ? list_make1_oid(relid) : find_all_inheritors(relid, AccessExclusiveLock, NULL);
		ShardDdlTable *table = shard_ddl_table(relid);	/* after the locks: a shard may have moved while the
														 * session waited for them */

		relids = append_new(relids, heap_truncate_find_FKs(emptied), on_nodes);
		if (table == NULL)
			continue;
		if (on_nodes)
		{
			shard_ddl_table_check_unused(table, "TRUNCATE");
			shard_ddl_lock_shards(table, "ACCESS EXCLUSIVE", false);
		}
		relids = append_new(relids, join_shards(shard_ddl_find_referrers(table, !on_nodes)), on_nodes);
	}
	return relids;
}

List *
shard_ddl_cascade(List *relations)
{
	List	   *named = NIL;
	List	   *alone = NIL;		/* named with ONLY */
	List	   *relids;
	List	   *result = NIL;
	ListCell   *lc;

	foreach_node(RangeVar, relation, relations)
	{
		Oid			relid = RangeVarGetRelid(relation, NoLock, true);

		if (!shard_ddl_table_maybe(relid))
			continue;
		relid = RangeVarGetRelidExtended(relation, AccessExclusiveLock, 0, check_named, NULL);
		named = list_append_unique_oid(named, relid);
		if (!relation->inh)
			alone = lappend_oid(alone, relid);
	}
	if (named == NIL)
		return NIL;

	/*
	 * Lock on the coordinator first.  A session that writes to a referencing table locks it on the coordinator before
	 * it needs locks on a node.  Otherwise its key locks, on one shard after the other, and our locks could deadlock
	 * on the nodes.
	 */
	(void) find_cascade(named, alone, false);
	relids = find_cascade(named, alone, true);
	for_each_from(lc, relids, list_length(named))
		result = lappend(result, makeRangeVar(get_namespace_name(get_rel_namespace(lfirst_oid(lc))), get_rel_name(lfirst_oid(lc)), -1));
	return result;
}
