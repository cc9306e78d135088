/*
 * marker.c
 *	  Lets foreign partitions join a table that has unique keys.
 *
 * Core has no unique index over foreign partitions.  A parent may still have
 * one of its own (ON ONLY): marked as not valid, it is used for nothing, but
 * clients see the keys, ON CONFLICT ON CONSTRAINT finds its columns, and GROUP BY
 * the primary key works.  What uniqueness there is, the shards' indexes enforce.
 *
 *	  CREATE FOREIGN TABLE ... PARTITION OF parent
 *	  ALTER TABLE parent ATTACH PARTITION foreign table
 *		-> markers hidden (indislive = false) -> core -> markers shown
 *
 * Core refuses both commands for a parent with any index that is unique.  To drop
 * and make the markers again would take views with it that group by the
 * key, and comments; not to be alive hides an index from core
 * without that.  It never gets to be seen by others: the flag goes and comes
 * back within one transaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "compat.h"
#include "ddl/marker.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static ProcessUtility_hook_type prev_process_utility = NULL;

/* Changes one row of pg_index; nothing when an event trigger has dropped the index meanwhile. */
static void
set_marker(Relation catalog, Oid indexid, bool live)
{
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_index) GETSTRUCT(tuple);
	form->indislive = live;
	form->indisvalid = false;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
}

static void
set_markers(Oid parent, List *markers, bool live)
{
	Relation	catalog;
	ListCell   *lc;

	if (markers == NIL)
		return;
	catalog = table_open(IndexRelationId, RowExclusiveLock);
	foreach(lc, markers)
		set_marker(catalog, lfirst_oid(lc), live);
	table_close(catalog, RowExclusiveLock);
	/* the list of indexes is kept with the table */
	CacheInvalidateRelcacheByRelid(parent);
	CommandCounterIncrement();
}

/* Whether a foreign key refers to the table: it needs an index that is real. */
static bool
is_referenced(Oid parent)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	/* there is no index by the table referred to; set-ups with unique keys and new shards are few */
	ScanKeyInit(&key, Anum_pg_constraint_confrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = ((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_FOREIGN;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

List *
shard_marker_hide(Oid parent)
{
	Relation	rel = table_open(parent, NoLock);
	List	   *indexes = RelationGetIndexList(rel);
	List	   *markers = NIL;
	bool		no_partitions = find_inheritance_children(parent, NoLock) == NIL;
	bool		all = true;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for index %u", lfirst_oid(lc));
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (form->indisunique)
		{
			markers = lappend_oid(markers, lfirst_oid(lc));
			all = all && (!form->indisvalid || no_partitions);
		}
		ReleaseSysCache(tuple);
	}
	table_close(rel, NoLock);

	if (markers == NIL || !all || is_referenced(parent))
		return NIL;
	set_markers(parent, markers, false);
	return markers;
}

void
shard_marker_show(Oid parent, List *markers)
{
	set_markers(parent, markers, true);
}

/*
 * The partitioned table that the statement adds a foreign partition of ours to,
 * locked as core will lock it; InvalidOid for anything else, and for those who do
 * not own it, whom core will tell.
 */
static Oid
parent_of_new_shard(Node *stmt)
{
	RangeVar   *parent = NULL;
	LOCKMODE	lockmode = AccessExclusiveLock;
	Oid			relid;

	if (IsA(stmt, CreateForeignTableStmt))
	{
		CreateForeignTableStmt *create = castNode(CreateForeignTableStmt, stmt);
		ForeignServer *server = GetForeignServerByName(create->servername, true);

		if (create->base.partbound != NULL && server != NULL && shard_option_is_our_server(server->serverid))
			parent = linitial_node(RangeVar, create->base.inhRelations);
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		AlterTableStmt *alter = castNode(AlterTableStmt, stmt);
		AlterTableCmd *cmd = linitial_node(AlterTableCmd, alter->cmds);

		if (cmd->subtype == AT_AttachPartition)
		{
			Oid			part = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);

			if (OidIsValid(part) && get_rel_relkind(part) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(part))
			{
				parent = alter->relation;
				lockmode = ShareUpdateExclusiveLock;
			}
		}
	}
	if (parent == NULL)
		return InvalidOid;

	relid = RangeVarGetRelid(parent, NoLock, true);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE ||
		!shard_class_ownercheck(relid, GetUserId()))
		return InvalidOid;
	LockRelationOid(relid, lockmode);
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ? relid : InvalidOid;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc)
{
	Oid			parent = parent_of_new_shard(pstmt->utilityStmt);
	List	   *markers = NIL;

	if (OidIsValid(parent))
		markers = shard_marker_hide(parent);
	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	if (markers != NIL)
		shard_marker_show(parent, markers);
}

void
shard_marker_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
