/*
 * ddl_index.c
 *	  CREATE INDEX on a table that has tables on nodes.
 *
 * Core makes the index on the parent, which has no rows, and skips the foreign partitions.  A unique index is made
 * for the parent only, as a marker that the planner and clients see.  Each shard enforces it for its own rows.  That
 * is sufficient, since core requires the shard key in it.  If a table has only one shard, a unique index may lack the
 * shard key (ddl_alter_home.c).  Then the parent gets a plain index.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "ddl/marker_level.h"
#include "ddl/statement/ddl_index.h"
#include "ddl/statement/ddl_statement.h"
#include "deparse/print_settings.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * Adds the command that makes an index of the table, or its key, on each shard.
 *
 * - before: the indexes of all levels before the statement.  If the direct parent of a shard had an equal index, now
 *   attached to the new one, the shard has it already.
 * - has: the other shards that have it, or NULL.
 * - unique: make it unique on shards, even if it is not unique on the coordinator.
 */
static void
add_create_index(ShardDdlBatch *batch, Oid indexid, const List *before, const bool *has, bool unique)
{
	const ShardDdlIndex *index = shard_ddl_index_describe(indexid);
	Oid			constraint = get_index_constraint(indexid);
	int			nestlevel = shard_print_settings_begin();
	char	   *text = OidIsValid(constraint) ? shard_ddl_text_constraint(constraint) : NULL;

	shard_print_settings_end(nestlevel);
	for (int i = 0; i < batch->table->nshards; i++)
	{
		const ShardDdlShard *shard = &batch->table->shards[i];
		const char *name = quote_identifier(shard_ddl_table_object(batch->table, shard, index->name));

		if (!batch->table->is_reference && shard_marker_level_had(shard->relid, indexid, before))
			continue;
		if (has != NULL && has[i])
			continue;
		if (text != NULL)
			shard_ddl_batch_add(batch, i, "ALTER TABLE %s ADD CONSTRAINT %s %s", shard->relation, name, text);
		else
			shard_ddl_batch_add(batch, i, "CREATE %sINDEX %s ON %s USING %s", index->is_unique || unique ? "UNIQUE " : "",
								name, shard->relation, index->definition);
	}
}

void
shard_ddl_index_send(const ShardDdlTable *table, const List *indexes, const List *before)
{
	ShardDdlBatch *batch = shard_ddl_batch_create(table);

	foreach_oid(index, indexes)
		add_create_index(batch, index, before, shard_ddl_find_equal_index(table, index), false);
	shard_ddl_batch_run(batch);
}

typedef struct CreateIndex
{
	ShardDdlTable *table;
	IndexStmt  *stmt;			/* for the parent only; NULL: the user's statement is run */
	List	   *before;			/* indexes before the statement */
	bool		unique_there;	/* unique on the shard, but not on the coordinator */
} CreateIndex;

/* Sends the index to the shards, after the table's own index was made. */
static void
create_rest(void *arg)
{
	CreateIndex *new = arg;
	ShardDdlTable *table = new->table;
	ShardDdlBatch *batch = shard_ddl_batch_create(table);

	if (new->stmt != NULL && !new->unique_there)
		shard_marker_level_all(table->relid);
	/* the list is empty if IF NOT EXISTS found an index of that name */
	foreach_oid(index, list_difference_oid(shard_marker_level_of(table->relid), new->before))
		add_create_index(batch, index, new->before, NULL, new->unique_there);
	shard_ddl_make_objects(table, false);
	shard_ddl_batch_run(batch);
}

bool
shard_ddl_create_index(ShardDdlCall *call)
{
	IndexStmt  *stmt = castNode(IndexStmt, call->pstmt->utilityStmt);
	ShardDdlTable *table;
	CreateIndex new = {0};

	table = shard_ddl_table_owned(stmt->relation, stmt->concurrent ? ShareUpdateExclusiveLock : ShareLock);
	if (table == NULL || (!stmt->relation->inh && !table->is_reference))
		return false;
	PreventCommandIfReadOnly("CREATE INDEX");
	if (stmt->tableSpace != NULL && !table->is_reference)
		shard_ddl_table_refuse(table, "CREATE INDEX with a tablespace", NULL);
	new.unique_there = !table->is_reference && shard_alter_home_index(table->relid, stmt);
	if (stmt->concurrent && new.unique_there)
		shard_ddl_table_refuse(table, "CREATE UNIQUE INDEX CONCURRENTLY without the shard key", "Make it without CONCURRENTLY.");
	if (stmt->concurrent)
		return shard_ddl_create_index_concurrently(call, table);

	new.table = table;
	new.before = table->is_reference ? shard_marker_level_of(table->relid) : shard_marker_level_indexes(table->relid);
	if (stmt->unique && !table->is_reference)
	{
		new.stmt = copyObject(stmt);
		new.stmt->unique = !new.unique_there;
		new.stmt->relation->inh = new.unique_there;
	}
	shard_ddl_run_core_then(call, (Node *) new.stmt, create_rest, &new);
	return true;
}
