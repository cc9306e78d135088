/*
 * ddl_attach.c
 *	  ALTER TABLE ... ATTACH PARTITION and DETACH PARTITION of shards and sharded tables.
 *
 * A single foreign table is changed on the coordinator only.  So when it becomes a shard, its table on the node is
 * compared with its definition.  The partition gets the indexes and keys of the parent, as in core, and on the nodes
 * too.
 *
 *	  shard: definitions compared --> core --> indexes that the shard lacks
 *	  sharded table:				  core --> rows compared with the bounds --> new indexes, to its shards
 *	  any, if a DEFAULT partition has shards:	core --> rows of the DEFAULT partition compared with its new bounds
 *
 * Core compares rows of local tables with bounds.  Rows of a foreign table that becomes a shard are not compared, as
 * in PostgreSQL.
 *
 * DETACH PARTITION is left to core, except with CONCURRENTLY and FINALIZE.  With these core adds a CHECK constraint
 * of the former bounds to the partition, and the shards need it too.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "catch.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "ddl/marker.h"
#include "ddl/marker_level.h"
#include "ddl/now.h"
#include "ddl/statement/ddl_index.h"
#include "ddl/statement/ddl_statement.h"
#include "deparse/print_settings.h"
#include "executor/executor.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "own_sql.h"
#include "remote/run/command.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* The description of a shard by its node. */
typedef struct Definition
{
	char	   *question;
	bool		asked;
	char	   *major;
	char	   *text;			/* jsonb; NULL: the table does not exist */
} Definition;

static char *
question_text(const ShardDdlTable *table, List *shardnos, void *arg)
{
	return psprintf("SELECT q.ord - 1, q.major, q.definition FROM (%s) q(ord, major, definition)", ((Definition *) arg)->question);
}

static void
take_definition(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	Definition *definition = arg;

	if (nfields != 2 || fields[0] == NULL)
		return;
	definition->asked = true;
	definition->major = pstrdup(fields[0]);
	definition->text = fields[1] ? pstrdup(fields[1]) : NULL;
}

/* Raises an error if the node would describe the table by an older snapshot, that of this transaction on the node. */
static void
check_not_fixed(const ShardDdlTable *table)
{
	if (shard_command_is_fixed(table->shards[0].serverid, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ATTACH PARTITION of foreign table \"%s\" needs transaction isolation level READ COMMITTED", table->name),
				 errdetail("The transaction has used node \"%s\" already, and sees the table there as it was then.", table->shards[0].node),
				 errhint("Begin the transaction with BEGIN ISOLATION LEVEL READ COMMITTED, or attach before the node is used.")));
}

/*
 * Raises an error if the table on the node differs from the foreign table.  Returns false if the table does not exist
 * yet.
 */
static bool
check_definition(const ShardDdlTable *table)
{
	const ShardDdlShard *shard = &table->shards[0];
	Definition	definition = {0};
	char	   *differences;

	/* the coordinator that sent the statement has checked it */
	if (shard_guc_follows_coordinator)
		return true;
	check_not_fixed(table);
	definition.question = shard_now_value(psprintf("SELECT shardfdw_internal.describe_query(ARRAY[%s])", quote_literal_cstr(shard->relation)));
	shard_ddl_ask(table, question_text, take_definition, &definition);
	if (!definition.asked)
		elog(ERROR, "node \"%s\" does not describe table %s", shard->node, shard->relation);
	if (definition.text == NULL)
	{
		/*
		 * users who make both sides manually may begin with either side, as with CREATE FOREIGN TABLE ... PARTITION
		 * OF
		 */
		ereport(WARNING,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s does not exist on node \"%s\"", shard->relation, shard->node),
				 errhint("Make it there; check_cluster() shows what it lacks.")));
		return false;
	}
	differences = shard_now_value(psprintf("SELECT shardfdw_internal.shard_differences(%u, %s, %s)", shard->relid,
										   quote_literal_cstr(definition.text), quote_literal_cstr(definition.major)));
	if (differences != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s on node \"%s\" is not as foreign table \"%s\"", shard->relation, shard->node, table->name),
				 errdetail("%s", differences),
				 errhint("What is changed while a shard is detached is changed on the coordinator alone: change it on the node, too.")));
	return true;
}

/*
 * Does a query return rows?  Its text is read under settings that this file fixes.  It runs under the settings of the
 * session, as functions in a user's partition key do when core checks rows.
 */
static bool
has_rows(const char *sql)
{
	int			nestlevel = shard_print_settings_begin();
	List	   *queries = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, pg_parse_query(sql)), sql, NULL, 0, NULL);
	ShardOwnSql own;
	QueryDesc  *desc;
	bool		found;

	shard_print_settings_end(nestlevel);
	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, GetLatestSnapshot());
	/* the planner must not assume the constraint that is checked here */
	(void) set_config_option("constraint_exclusion", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	desc = CreateQueryDesc(shard_plan_query(linitial_node(Query, queries), sql, 0, NULL), sql, GetActiveSnapshot(),
						   InvalidSnapshot, None_Receiver, NULL, NULL, 0);
	ExecutorStart(desc, 0);
	shard_call_executor_run(ExecutorRun, desc, ForwardScanDirection, 1, true);
	found = desc->estate->es_processed > 0;
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	shard_own_sql_end(&own);
	return found;
}

/* A query on shards. */
typedef struct UncheckedQuery
{
	const char *sql;
	List	   *shards;
	bool		has_rows;
} UncheckedQuery;

static void
run_unchecked(void *arg)
{
	UncheckedQuery *query = arg;

	foreach_oid(shard, query->shards)
	{
		ShardDdlTable *table = shard_ddl_table_by_itself(shard);
		ShardDdlBatch *batch;

		if (table == NULL)
			continue;
		batch = shard_ddl_batch_create(table);
		for (int i = 0; i < table->nshards; i++)
			shard_ddl_batch_add(batch, i, "GRANT SELECT ON TABLE %s TO CURRENT_USER", table->shards[i].relation);
		shard_ddl_batch_run(batch);
	}
	query->has_rows = has_rows(query->sql);
}

/*
 * has_rows() for a query on shards whose privileges do not matter.  The role on the node may be the owner of a table,
 * who has taken SELECT from herself.  The node grants it to her, until the query has ended.
 */
static bool
has_rows_unchecked(const char *sql, List *shards)
{
	UncheckedQuery query = {sql, shards};
	ErrorData  *error = shard_catch_in_subtransaction(run_unchecked, &query, false);

	if (error != NULL)
		ReThrowError(error);
	return query.has_rows;
}

/*
 * Have shards of a partition rows that its bounds do not allow?  Core has checked its local tables.  The query names each
 * shard: of a partitioned table, the planner leaves out partitions that cannot have such rows.  The partitioned table's
 * policies and privileges do not apply to shards, as in core's own check.
 */
static bool
has_misplaced_rows(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	List	   *shards = NIL;
	bool		readable = true;
	StringInfoData sql;

	initStringInfo(&sql);
	if (!PartConstraintImpliedByRelConstraint(rel, copyObject(RelationGetPartitionQual(rel))))
	{
		int			nestlevel = shard_print_settings_begin();
		const char *constraint = shard_now_value(psprintf("SELECT pg_get_partition_constraintdef(%u)", relid));

		foreach_oid(memberid, find_all_inheritors(relid, AccessShareLock, NULL))
		{
			/* shards on nodes have the privileges of their parents */
			readable &= pg_class_aclcheck(memberid, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
			if (!shard_option_is_ours(memberid))
				continue;
			shards = lappend_oid(shards, memberid);
			appendStringInfo(&sql, "%sSELECT 1 FROM %s WHERE NOT (%s)", sql.len > 0 ? " UNION ALL " : "",
							 shard_qualified_relation(memberid), constraint);
		}
		shard_print_settings_end(nestlevel);
	}
	table_close(rel, NoLock);
	if (shards == NIL)
		return false;
	return readable ? has_rows(sql.data) : has_rows_unchecked(sql.data, shards);
}

/* The DEFAULT partition of a table, if it has shards. */
static Oid
find_default(Oid parent)
{
	Oid			relid = get_default_partition_oid(parent);

	return OidIsValid(relid) && shard_marker_has_shards(relid) ? relid : InvalidOid;
}

/* Checks the DEFAULT partition, relid, after core has added a partition.  Core has locked the DEFAULT partition. */
static void
check_default(void *arg)
{
	Oid			relid = *(Oid *) arg;

	CommandCounterIncrement();
	if (has_misplaced_rows(relid))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("updated partition constraint for default partition \"%s\" would be violated by some row",
						get_rel_name(relid))));
}

typedef struct Attach
{
	Oid			parent;
	Oid			partition;
	ShardDdlTable *shard;		/* NULL: a sharded table is attached */
	List	   *before;			/* its indexes, of all levels */
	Oid			default_partition;	/* of the parent, if it may have rows that belong to the new partition; else
									 * InvalidOid */
} Attach;

/* Makes the indexes of the parent on the nodes. */
static void
attach_rest(void *arg)
{
	Attach	   *attach = arg;
	List	   *made;
	ShardDdlTable *table;

	CommandCounterIncrement();
	if (OidIsValid(attach->default_partition))
		check_default(&attach->default_partition);
	/* the coordinator that sent the statement has checked it */
	if (attach->shard == NULL && !shard_guc_follows_coordinator && has_misplaced_rows(attach->partition))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("partition constraint of relation \"%s\" is violated by some row", get_rel_name(attach->partition))));
	table = shard_ddl_table_remote(attach->partition);
	if (table != NULL)
		shard_ddl_check_actions(table, NULL);
	if (attach->shard != NULL)
	{
		shard_ddl_index_send(attach->shard, shard_marker_level_of(attach->parent), NIL);
		return;
	}
	made = list_difference_oid(shard_marker_level_of(attach->partition), attach->before);
	table = shard_ddl_table(attach->partition);
	if (table != NULL && made != NIL)
		shard_ddl_index_send(table, made, attach->before);
}

bool
shard_ddl_attach(ShardDdlCall *call)
{
	AlterTableStmt *stmt = castNode(AlterTableStmt, call->pstmt->utilityStmt);
	Attach		attach = {0};

	/* pg_dump writes ONLY: change the coordinator only */
	if (!stmt->relation->inh || !shard_marker_find_attached(stmt, &attach.parent, &attach.partition))
		return false;
	if (get_rel_relkind(attach.partition) == RELKIND_FOREIGN_TABLE)
	{
		attach.shard = shard_ddl_table_by_itself(attach.partition);
		if (attach.shard == NULL || !check_definition(attach.shard))
			return false;
	}
	else
		attach.before = shard_marker_level_indexes(attach.partition);
	attach.default_partition = shard_guc_follows_coordinator ? InvalidOid : find_default(attach.parent);
	shard_ddl_run_core_then(call, NULL, attach_rest, &attach);
	return true;
}

bool
shard_ddl_add_partition(ShardDdlCall *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	RangeVar   *name = NULL;
	Oid			parent;
	Oid			relid;

	if (IsA(stmt, AlterTableStmt))
	{
		/* for ONLY see shard_ddl_attach() */
		if (castNode(AlterTableStmt, stmt)->relation->inh &&
			linitial_node(AlterTableCmd, castNode(AlterTableStmt, stmt)->cmds)->subtype == AT_AttachPartition)
			name = castNode(AlterTableStmt, stmt)->relation;
	}
	else
	{
		CreateStmt *create = (CreateStmt *) stmt;

		if (create->partbound != NULL && !create->partbound->is_default)
			name = linitial_node(RangeVar, create->inhRelations);
	}
	parent = name != NULL && !shard_guc_follows_coordinator ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;
	if (!OidIsValid(parent) || get_rel_relkind(parent) != RELKIND_PARTITIONED_TABLE)
		return false;
	relid = find_default(parent);
	if (!OidIsValid(relid))
		return false;
	shard_ddl_run_core_then(call, NULL, check_default, &relid);
	return true;
}

/* The CHECK constraints of a table. */
static List *
check_constraints(Oid relid)
{
	List	   *constraints = NIL;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid, relid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
		if (((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_CHECK)
			constraints = lappend_oid(constraints, ((Form_pg_constraint) GETSTRUCT(tuple))->oid);
	shard_catalog_scan_end(&scan);
	return constraints;
}

/* Gives shards the CHECK constraints of the detached table that they lack. */
static void
detach_rest(void *arg)
{
	Oid			partition = *(Oid *) arg;
	ShardDdlTable *table = get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE ?
		shard_ddl_table_by_itself(partition) : shard_ddl_table(partition);
	ShardDdlBatch *batch;
	int			nestlevel;

	if (table == NULL || shard_guc_follows_coordinator)
		return;
	batch = shard_ddl_batch_create(table);
	nestlevel = shard_print_settings_begin();
	foreach_oid(constraint, check_constraints(partition))
	{
		char	   *name = get_constraint_name(constraint);
		char	  **found = shard_ddl_find_check(table, name, NULL);

		for (int i = 0; i < table->nshards; i++)
			if (found[i] == NULL)
				shard_ddl_batch_add(batch, i, "ALTER TABLE %s ADD CONSTRAINT %s %s", table->shards[i].relation,
									quote_identifier(name), shard_ddl_text_constraint(constraint));
	}
	shard_print_settings_end(nestlevel);
	shard_ddl_batch_run(batch);
}

bool
shard_ddl_detach(ShardDdlCall *call)
{
	AlterTableCmd *cmd = linitial_node(AlterTableCmd, castNode(AlterTableStmt, call->pstmt->utilityStmt)->cmds);
	Oid			partition = InvalidOid;

	if (cmd->subtype == AT_DetachPartitionFinalize ||
		(cmd->subtype == AT_DetachPartition && castNode(PartitionCmd, cmd->def)->concurrent))
		partition = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
	if (!shard_ddl_table_maybe(partition))
		return false;
	shard_ddl_run_core_then(call, NULL, detach_rest, &partition);
	return true;
}
