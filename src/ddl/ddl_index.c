/*
 * ddl_index.c
 *	  CREATE INDEX on a table that has tables on nodes.
 *
 * Core makes the index on the parent; it has no rows there and skips the foreign
 * partitions.  A unique one is made for the parent alone, as a marker that
 * planner and clients see as it is: each shard enforces it for its own rows,
 * which is enough since core asks for the shard key in it.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "ddl/ddl_call.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static List *
indexes_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	List	   *indexes = list_copy(RelationGetIndexList(rel));

	table_close(rel, AccessShareLock);
	return indexes;
}

/* The command that makes an index on each shard. */
static void
add_create_index(ShardDdlBatch *batch, const ShardDdlIndex *index)
{
	for (int i = 0; i < batch->table->nshards; i++)
		shard_ddl_batch_add(batch, i, "CREATE %sINDEX %s ON %s USING %s", index->is_unique ? "UNIQUE " : "",
							quote_identifier(shard_ddl_table_object(batch->table, &batch->table->shards[i], index->name)),
							batch->table->shards[i].relation, index->definition);
}

typedef struct CreateIndex
{
	ShardDdlTable *table;
	IndexStmt  *stmt;			/* for the table alone; NULL: the user's is run */
	List	   *before;			/* indexes that there were */
} CreateIndex;

/* What comes after the table's own index. */
static void
create_rest(void *arg)
{
	CreateIndex *new = arg;
	ShardDdlTable *table = new->table;
	ShardDdlBatch *batch;
	ListCell   *lc;

	shard_ddl_make_objects(table);
	/* none, where IF NOT EXISTS found one of that name */
	batch = shard_ddl_batch_create(table);
	foreach(lc, list_difference_oid(indexes_of(table->relid), new->before))
		add_create_index(batch, shard_ddl_index_describe(lfirst_oid(lc)));
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
	if (stmt->concurrent)
		return shard_ddl_create_index_concurrently(call, table);

	new.table = table;
	new.before = indexes_of(table->relid);
	if (stmt->unique && !table->is_reference)
	{
		new.stmt = copyObject(stmt);
		new.stmt->relation->inh = false;
	}
	shard_ddl_run_core_then(call, (Node *) new.stmt, create_rest, &new);
	return true;
}
