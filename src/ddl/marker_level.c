/*
 * marker_level.c
 *	  Unique keys of a parent at all levels of its partitions.
 *
 * Core gives each partition the indexes of its parent, but refuses unique indexes for a table with foreign
 * partitions.  This file makes them:
 *
 *	  parent			marker	h_pkey
 *		partitioned		marker	h1_pkey, a part of h_pkey: made, or an equal one is attached
 *		  shard			(the node's index)
 *		local table		index	h2_pkey, a part of h_pkey
 *
 * So a shard always has the keys of its direct parent, and partitions keep their keys when they are detached.
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "compat.h"
#include "ddl/ddl_here.h"
#include "ddl/ddl_text.h"
#include "ddl/marker_level.h"
#include "deparse/print_settings.h"
#include "own_sql.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

List *
shard_marker_level_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	List	   *indexes = list_copy(RelationGetIndexList(rel));

	table_close(rel, NoLock);
	return indexes;
}

/* Type of the constraint that an index belongs to, or '\0'. */
static char
constraint_type(Oid index)
{
	return DatumGetChar(shard_catalog_value(CONSTROID, get_index_constraint(index), Anum_pg_constraint_contype));
}

/* Does candidate, an index of the partition, enforce the same as index, an index of its parent? */
static bool
is_equal(Relation index, Relation candidate, AttrMap *map)
{
	char		type = constraint_type(RelationGetRelid(index));

	return candidate->rd_index->indisunique && candidate->rd_index->indislive &&
		candidate->rd_index->indimmediate == index->rd_index->indimmediate &&
		!candidate->rd_rel->relispartition &&
		/* the index of a partitioned table is a marker */
		(candidate->rd_index->indisvalid || candidate->rd_rel->relkind == RELKIND_PARTITIONED_INDEX) &&
		(type == '\0' || type == constraint_type(RelationGetRelid(candidate))) &&
		CompareIndexInfo(BuildIndexInfo(candidate), BuildIndexInfo(index),
						 candidate->rd_indcollation, index->rd_indcollation,
						 candidate->rd_opfamily, index->rd_opfamily, map);
}

/* An index of the partition that is equal to an index of its parent, or InvalidOid. */
static Oid
find_equal(Relation parent, Relation partition, Relation index)
{
	AttrMap    *map = shard_attrmap_by_name(RelationGetDescr(partition), RelationGetDescr(parent));
	Oid			result = InvalidOid;

	foreach_oid(candidateid, RelationGetIndexList(partition))
	{
		Relation	candidate = index_open(candidateid, AccessShareLock);

		if (!OidIsValid(result) && is_equal(index, candidate, map))
			result = candidateid;
		index_close(candidate, NoLock);
	}
	free_attrmap(map);
	return result;
}

/* Raises an error if the partition has another primary key than its parent. */
static void
check_primary_key(Relation parent, Relation partition, Relation index)
{
	if (!index->rd_index->indisprimary)
		return;
	foreach_oid(indexid, RelationGetIndexList(partition))
	{
		if (DatumGetBool(shard_catalog_value(INDEXRELID, indexid, Anum_pg_index_indisprimary)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("primary key of partition \"%s\" is not that of table \"%s\"",
							RelationGetRelationName(partition), RelationGetRelationName(parent)),
					 errdetail("Table: %s. Partition: %s.",
							   shard_ddl_text_constraint(get_index_constraint(RelationGetRelid(index))),
							   shard_ddl_text_constraint(get_index_constraint(indexid)))));
	}
}

/* The command that makes an index like the parent's on the partition, but not on tables below it. */
static char *
make_text(Relation parent, Relation partition, Relation index)
{
	Oid			constraint = get_index_constraint(RelationGetRelid(index));
	const char *only = partition->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "ONLY " : "";
	const char *name = shard_qualified_relation(RelationGetRelid(partition));
	int			nestlevel = shard_print_settings_begin();
	char	   *text;

	if (OidIsValid(constraint))
		text = psprintf("ALTER TABLE %s%s ADD %s", only, name, shard_ddl_text_constraint(constraint));
	else
		text = psprintf("CREATE UNIQUE INDEX ON %s%s USING %s", only, name,
						shard_ddl_text_index(RelationGetRelid(index)));
	shard_print_settings_end(nestlevel);
	return text;
}

/* Runs the command as the owner of the partition.  Returns the new index. */
static Oid
make_index(Oid partition, const char *command, Oid owner)
{
	List	   *before = shard_marker_level_of(partition);
	List	   *made;
	ShardOwnSql own;

	shard_own_sql_become(&own, owner);
	shard_ddl_run_here(list_make1(unconstify(char *, command)));
	shard_own_sql_return(&own);
	CommandCounterIncrement();
	made = list_difference_oid(shard_marker_level_of(partition), before);
	if (list_length(made) != 1)
		elog(ERROR, "could not find the new index of table \"%s\"", get_rel_name(partition));
	return linitial_oid(made);
}

static void
set_parent(Oid partition, Oid parent_index, Oid index)
{
	Oid			constraint = get_index_constraint(parent_index);
	Relation	rel = index_open(index, ShareUpdateExclusiveLock);

	IndexSetParentIndex(rel, parent_index);
	index_close(rel, NoLock);
	if (OidIsValid(constraint))
		ConstraintSetParentConstraint(get_index_constraint(index), constraint, partition);
	CommandCounterIncrement();
}

/* Attaches an index of the partition to an index of its parent, unless one is attached.  Makes the index if needed. */
static void
give_index(Oid parentid, Oid partitionid, Oid indexid)
{
	Relation	parent = table_open(parentid, NoLock);
	Relation	partition = table_open(partitionid, NoLock);
	Relation	index = index_open(indexid, AccessShareLock);
	bool		given = OidIsValid(index_get_partition(partition, indexid));
	Oid			equal = given ? InvalidOid : find_equal(parent, partition, index);
	Oid			owner = partition->rd_rel->relowner;
	char	   *command = NULL;

	if (!given && !OidIsValid(equal))
	{
		check_primary_key(parent, partition, index);
		command = make_text(parent, partition, index);
	}
	/* close first, since core does not alter a table that is in use */
	index_close(index, NoLock);
	table_close(partition, NoLock);
	table_close(parent, NoLock);
	if (given)
		return;
	if (command != NULL)
		equal = make_index(partitionid, command, owner);
	set_parent(partitionid, indexid, equal);
}

void
shard_marker_level_partition(Oid parent, Oid partition)
{
	char		relkind = get_rel_relkind(partition);

	if (relkind != RELKIND_PARTITIONED_TABLE && relkind != RELKIND_RELATION)
		return;
	foreach_oid(indexid, shard_marker_level_of(parent))
	{
		if (DatumGetBool(shard_catalog_value(INDEXRELID, indexid, Anum_pg_index_indisunique)))
			give_index(parent, partition, indexid);
	}
	shard_marker_level_all(partition);
}

void
shard_marker_level_all(Oid relid)
{
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		foreach_oid(partition, find_inheritance_children(relid, ShareLock))
			shard_marker_level_partition(relid, partition);
}

List *
shard_marker_level_indexes(Oid relid)
{
	List	   *indexes = NIL;

	foreach_oid(memberid, find_all_inheritors(relid, NoLock, NULL))
		if (get_rel_relkind(memberid) == RELKIND_PARTITIONED_TABLE)
			indexes = list_concat(indexes, shard_marker_level_of(memberid));
	return indexes;
}

bool
shard_marker_level_had(Oid shard, Oid index, const List *before)
{
	foreach_oid(parent_index, shard_marker_level_of(get_partition_parent(shard, false)))
		if (list_member_oid(before, parent_index) &&
			(parent_index == index ||
			 (get_rel_relispartition(parent_index) && list_member_oid(get_partition_ancestors(parent_index), index))))
			return true;
	return false;
}
