/*
 * ddl_rename.c
 *	  RENAME of tables that have tables on nodes, and of their columns, indexes and constraints.
 *
 * Shards keep their names when their parent is renamed.  When a shard is renamed, its table on the node is renamed
 * too, since both must have the same name.  Replicas of a reference table are also renamed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "ddl/statement/ddl_statement.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Adds "ALTER TABLE shard RENAME what old TO new" for all shards. what ends in a space. */
static void
add_rename(ShardDdlBatch *batch, const char *what, const RenameStmt *stmt)
{
	shard_ddl_batch_add_all(batch, "ALTER TABLE ",
							psprintf(" RENAME %s%s TO %s", what, quote_identifier(stmt->subname),
									 quote_identifier(stmt->newname)));
}

/* Renames the index of each shard. names: the current names.  The new names are made from newname. */
static void
add_rename_index(ShardDdlBatch *batch, char **names, const char *newname)
{
	const ShardDdlTable *table = batch->table;

	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "ALTER INDEX %s RENAME TO %s",
							quote_qualified_identifier(table->shards[i].schema, names[i]),
							quote_identifier(shard_ddl_table_object(table, &table->shards[i], newname)));
}

static bool
rename_constraint(ShardDdlCall *call, RenameStmt *stmt)
{
	ShardDdlTable *table = shard_ddl_table_owned(stmt->relation, AccessExclusiveLock);
	ShardDdlBatch *batch;
	Form_pg_constraint constraint;

	if (table == NULL || (!stmt->relation->inh && !table->is_reference))
		return false;
	shard_ddl_table_check_unused(table, "ALTER TABLE");
	constraint = shard_ddl_constraint(table->relid, stmt->subname);
	batch = shard_ddl_batch_create(table);
	batch->renames = true;

	if (constraint == NULL && !table->is_reference && shard_ddl_find_shard_constraint(table, stmt->subname))
	{
		/* a constraint that only the shards have */
		add_rename(batch, "CONSTRAINT ", stmt);
		shard_ddl_batch_run(batch);
		if (call->qc)
			SetQueryCompletion(call->qc, CMDTAG_ALTER_TABLE, 0);
		return true;
	}
	if (constraint != NULL && constraint->contype == CONSTRAINT_CHECK)
		add_rename(batch, "CONSTRAINT ", stmt);
	else if (constraint != NULL && OidIsValid(constraint->conindid) && constraint->contype != CONSTRAINT_FOREIGN)
		add_rename_index(batch, shard_ddl_find_index(table, constraint->conindid), stmt->newname);
	shard_ddl_run_core_then(call, NULL, shard_ddl_batch_rest, batch);
	return true;
}

static bool
rename_index(ShardDdlCall *call, RenameStmt *stmt)
{
	/* the lock that core takes to rename an index, which is weaker than for other changes */
	Oid			relid = shard_ddl_table_lock(shard_ddl_table_of_index, stmt->relation, ShareUpdateExclusiveLock);
	ShardDdlTable *table = OidIsValid(relid) ? shard_ddl_table(relid) : NULL;
	ShardDdlBatch *batch;
	Oid			index;

	if (table == NULL)
		return false;
	index = RangeVarGetRelid(stmt->relation, NoLock, false);
	batch = shard_ddl_batch_create(table);
	add_rename_index(batch, shard_ddl_find_index(table, index), stmt->newname);
	shard_ddl_run_core_then(call, NULL, shard_ddl_batch_rest, batch);
	return true;
}

bool
shard_ddl_rename(ShardDdlCall *call)
{
	RenameStmt *stmt = castNode(RenameStmt, call->pstmt->utilityStmt);
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	Oid			relid;

	if (stmt->renameType == OBJECT_STATISTIC_EXT)
		return shard_ddl_rename_statistics(call);
	if (stmt->renameType == OBJECT_SCHEMA)
		return shard_ddl_rename_schema(call);
	if (stmt->relation == NULL)
		return false;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid))
		return false;
	PreventCommandIfReadOnly("ALTER TABLE");
	switch (stmt->renameType)
	{
		case OBJECT_INDEX:
		case OBJECT_TABLE:
			/* ALTER TABLE and ALTER INDEX may both name an index */
			if (get_rel_relkind(relid) == RELKIND_INDEX || get_rel_relkind(relid) == RELKIND_PARTITIONED_INDEX)
				return rename_index(call, stmt);
			break;
		case OBJECT_TABCONSTRAINT:
			return rename_constraint(call, stmt);
		case OBJECT_COLUMN:
		case OBJECT_FOREIGN_TABLE:
			break;
		default:
			return false;
	}

	table = shard_ddl_table_owned(stmt->relation, AccessExclusiveLock);
	if (table == NULL)
		return false;
	batch = shard_ddl_batch_create(table);
	batch->renames = true;
	if (stmt->renameType == OBJECT_COLUMN)
	{
		if (!stmt->relation->inh && !table->is_reference)
			return false;
		shard_ddl_table_check_unused(table, "ALTER TABLE");
		add_rename(batch, "COLUMN ", stmt);
		/* the name of the shard key may be another column's on a standby */
		shard_ddl_batch_add_named_by(batch);
	}
	else if (table->is_reference || get_rel_relkind(table->relid) == RELKIND_FOREIGN_TABLE)
	{
		shard_ddl_batch_add_named_by(batch);
		shard_ddl_batch_add_all(batch, "ALTER TABLE ", psprintf(" RENAME TO %s", quote_identifier(stmt->newname)));
	}
	else
		return false;
	shard_ddl_run_core_then(call, NULL, shard_ddl_batch_rest, batch);
	return true;
}
