/*
 * ddl_late_statement.c
 *	  Handles a statement that began before this session loaded the library.
 *
 *	  event trigger ddl_command_start: nothing is changed yet
 *		  |
 *		the work that the hook does before every statement
 *		  |
 *		must tables on nodes follow? --yes--> refused: the next attempt goes through the hook
 *		  |
 *		DROP: the dropped objects are not known yet, and are collected, see ddl_drop.c
 *		  |
 *		core
 *
 * A statement that affects no table on nodes runs as without the library.  Each session of a role that overrides
 * session_preload_libraries starts like this.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/reference.h"
#include "commands/event_trigger.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_late.h"
#include "ddl/marker.h"
#include "ddl/peer/peer_send.h"
#include "ddl/statement/ddl_drop.h"
#include "ddl/statement/ddl_home.h"
#include "ddl/statement/ddl_statement.h"
#include "flush_commit.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "version.h"

PG_FUNCTION_INFO_V1(shardfdw_check_loaded);

/* Which of a table's tables on nodes a statement changes. */
typedef enum Follow
{
	FOLLOW_ALWAYS,
	FOLLOW_UNLESS_ONLY,			/* not the shards if the statement has ONLY */
	FOLLOW_ALTER,				/* the same, except that ONLY includes the shards of a table at home, see
								 * shard_ddl_alter_table() */
	FOLLOW_ITSELF				/* the replicas of a reference table, or a single shard; shards do not follow their
								 * parent */
} Follow;

/* Returns relid if tables on nodes follow it, else InvalidOid. */
static Oid
followed(Oid relid, Follow follow, bool inh)
{
	ShardDdlTable *table = OidIsValid(relid) ? shard_ddl_table(relid) : NULL;

	if (table == NULL)
		return InvalidOid;
	if (!table->is_reference &&
		((follow == FOLLOW_UNLESS_ONLY && !inh) ||
		 (follow == FOLLOW_ALTER && !inh && !shard_alter_is_at_home(relid)) ||
		 (follow == FOLLOW_ITSELF && get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)))
		return InvalidOid;
	return relid;
}

/* The same for a table that the user must own.  Core raises the error for other users. */
static Oid
owned(Oid relid, Follow follow, bool inh)
{
	return shard_ddl_table_maybe(relid) && shard_class_ownercheck(relid, GetUserId()) ?
		followed(relid, follow, inh) : InvalidOid;
}

static Oid
named(RangeVar *relation, Follow follow)
{
	return owned(RangeVarGetRelid(relation, NoLock, true), follow, relation->inh);
}

static Oid
of_index(RangeVar *index)
{
	return followed(shard_ddl_table_of_index(index), FOLLOW_ALWAYS, true);
}

static Oid
find_altered(AlterTableStmt *stmt)
{
	Oid			parent;
	Oid			partition;

	if (linitial_node(AlterTableCmd, stmt->cmds)->subtype == AT_AttachPartition)
		return shard_marker_find_attached(stmt, &parent, &partition) ? parent : InvalidOid;
	if (shard_ddl_detached_concurrently(stmt) != NULL)
		return named(shard_ddl_detached_concurrently(stmt), FOLLOW_ALWAYS);
	return shard_ddl_alter_table_is_cores(stmt) ? InvalidOid : named(stmt->relation, FOLLOW_ALTER);
}

static Oid
find_commented(CommentStmt *stmt)
{
	switch (stmt->objtype)
	{
		case OBJECT_TABLE:
		case OBJECT_FOREIGN_TABLE:
			return owned(shard_ddl_table_named((List *) stmt->object, 0), FOLLOW_ALWAYS, true);
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
			return owned(shard_ddl_table_named((List *) stmt->object, 1), FOLLOW_ALWAYS, true);
		case OBJECT_INDEX:
			return of_index(makeRangeVarFromNameList((List *) stmt->object));
		default:
			return InvalidOid;
	}
}

static Oid
find_granted(GrantStmt *stmt)
{
	if (!shard_ddl_grant_is_of_tables(stmt))
		return InvalidOid;
	foreach_oid(relid, shard_ddl_grant_tables(stmt))
	{
		if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE && OidIsValid(followed(relid, FOLLOW_ALWAYS, true)))
			return relid;
	}
	return InvalidOid;
}

static Oid
find_renamed(RenameStmt *stmt)
{
	char		relkind;

	switch (stmt->renameType)
	{
		case OBJECT_STATISTIC_EXT:
			return followed(shard_ddl_statistics_table((List *) stmt->object), FOLLOW_ALWAYS, true);
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
			return stmt->relation != NULL ? named(stmt->relation, FOLLOW_UNLESS_ONLY) : InvalidOid;
		case OBJECT_INDEX:
		case OBJECT_TABLE:
		case OBJECT_FOREIGN_TABLE:
			/* RENAME accepts both TABLE and FOREIGN TABLE for both kinds */
			relkind = get_rel_relkind(RangeVarGetRelid(stmt->relation, NoLock, true));
			if (relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX)
				return of_index(stmt->relation);
			return named(stmt->relation, FOLLOW_ITSELF);
		default:
			return InvalidOid;
	}
}

static Oid
find_moved(AlterObjectSchemaStmt *stmt)
{
	return stmt->objectType == OBJECT_TABLE || stmt->objectType == OBJECT_FOREIGN_TABLE ?
		named(stmt->relation, FOLLOW_ITSELF) : InvalidOid;
}

/* Core makes triggers on a sharded table that cannot be fired. */
static Oid
find_triggering(CreateTrigStmt *stmt)
{
	Oid			relid = stmt->isconstraint || stmt->transitionRels != NIL ? named(stmt->relation, FOLLOW_ALWAYS) : InvalidOid;

	return OidIsValid(relid) && !shard_reference_is(relid) ? relid : InvalidOid;
}

static Oid
find_measured(CreateStatsStmt *stmt)
{
	return list_length(stmt->relations) == 1 && IsA(linitial(stmt->relations), RangeVar) ?
		named(linitial_node(RangeVar, stmt->relations), FOLLOW_ALWAYS) : InvalidOid;
}

/* DROP INDEX CONCURRENTLY commits on each node before core drops the index on the coordinator.  It needs the hook. */
static Oid
find_dropped(DropStmt *stmt)
{
	if (stmt->concurrent && list_length(stmt->objects) == 1)
		return of_index(makeRangeVarFromNameList(linitial_node(List, stmt->objects)));
	if (!stmt->concurrent)
		shard_ddl_drop_begin_late(stmt->behavior == DROP_CASCADE, stmt->removeType == OBJECT_SCHEMA);
	return InvalidOid;
}

/* A table whose tables on nodes the hook would have changed, or InvalidOid. */
static Oid
find_table(Node *stmt)
{
	ShardNewPartition added;

	switch (nodeTag(stmt))
	{
		case T_AlterTableStmt:
			return find_altered(castNode(AlterTableStmt, stmt));
		case T_IndexStmt:
			return named(castNode(IndexStmt, stmt)->relation, FOLLOW_UNLESS_ONLY);
		case T_AlterObjectSchemaStmt:
			return find_moved(castNode(AlterObjectSchemaStmt, stmt));
		case T_CommentStmt:
			return find_commented(castNode(CommentStmt, stmt));
		case T_GrantStmt:
			return find_granted(castNode(GrantStmt, stmt));
		case T_CreateTrigStmt:
			return find_triggering(castNode(CreateTrigStmt, stmt));
		case T_CreateStatsStmt:
			return find_measured(castNode(CreateStatsStmt, stmt));
		case T_AlterStatsStmt:
			return followed(shard_ddl_statistics_table(castNode(AlterStatsStmt, stmt)->defnames), FOLLOW_ALWAYS, true);
		case T_RenameStmt:
			return find_renamed(castNode(RenameStmt, stmt));
		case T_DropStmt:
			return find_dropped(castNode(DropStmt, stmt));
		case T_DropOwnedStmt:
			shard_ddl_drop_begin_late(castNode(DropOwnedStmt, stmt)->behavior == DROP_CASCADE, true);
			return InvalidOid;
		case T_CreateForeignTableStmt:
			/* the error rolls back the hiding of keys */
			return shard_marker_begin(stmt, &added) ? added.parent : InvalidOid;
		default:
			return InvalidOid;
	}
}

/* The event trigger for ddl_command_start. */
Datum
shardfdw_check_loaded(PG_FUNCTION_ARGS)
{
	Node	   *stmt;
	Oid			relid;
	const char *created;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called by an event trigger", "shardfdw_internal.check_loaded()")));
	/* pg_upgrade makes objects that the nodes already have */
	if (!shard_ddl_late_is() || IsBinaryUpgrade || RecoveryInProgress())
		PG_RETURN_NULL();

	shard_flush_commit_force(); /* the hook does so for other statements */
	stmt = (Node *) ((EventTriggerData *) fcinfo->context)->parsetree;
	shard_version_check_statement(stmt);
	shard_ddl_prepare(stmt);
	if (shard_peer_would_send(stmt))
		shard_ddl_late_refuse("It would have changed this coordinator, and not the others.");
	if (!shard_guc_enable_ddl_propagation || !OidIsValid(shard_option_cluster_server()))
		PG_RETURN_NULL();
	if (IsA(stmt, RenameStmt) && castNode(RenameStmt, stmt)->renameType == OBJECT_SCHEMA)
	{
		if (shard_ddl_rename_schema_concerns_nodes(castNode(RenameStmt, stmt)))
			shard_ddl_late_refuse(psprintf("It would have renamed schema \"%s\" on the coordinator, and not on the nodes.",
										   castNode(RenameStmt, stmt)->subname));
		PG_RETURN_NULL();
	}
	created = shard_ddl_home_created(stmt);
	if (created != NULL)
		shard_ddl_late_refuse(psprintf("It would have made table \"%s\" on the coordinator, and not on its schema's node.", created));
	relid = shard_ddl_type_table(stmt);
	if (OidIsValid(relid))
		shard_ddl_late_refuse(psprintf("It would have changed a type of table \"%s\" on the coordinator, and not on the nodes.",
									   get_rel_name(relid)));
	relid = find_table(stmt);
	if (OidIsValid(relid))
		shard_ddl_late_refuse(psprintf("It would have changed the definition of table \"%s\" on the coordinator, and not on the nodes.",
									   get_rel_name(relid)));
	PG_RETURN_NULL();
}
