/*
 * ddl_concurrent.c
 *	  CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY of sharded tables.
 *
 * Each shard's index is made or dropped concurrently, outside of any transaction,
 * all shards at the same time; the parent's, which has no rows, in the usual way:
 *
 *	  definition (parent's index, made and undone) --> shards --> parent's index
 *						  some shard failed: those of all shards are dropped
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "compat.h"
#include "ddl/ddl_call.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

static List *
indexes_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	List	   *indexes = list_copy(RelationGetIndexList(rel));

	table_close(rel, NoLock);
	return indexes;
}

/*
 * What the statement's index would be: makes it on the parent, and undoes that.
 * NULL when there is one of that name already, and IF NOT EXISTS was said.
 */
static ShardDdlIndex *
try_index(ShardDdlCall *call, IndexStmt *stmt, Oid relid)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	List	   *before = indexes_of(relid);
	ShardDdlIndex *volatile index = NULL;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		List	   *made;

		shard_ddl_run_core_with(call, copyObject((Node *) stmt), true);
		CommandCounterIncrement();
		made = list_difference_oid(indexes_of(relid), before);
		if (made != NIL)
			index = shard_ddl_index_describe(linitial_oid(made));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
	return index;
}

/* Names of the shards that are not among those done. */
static char *
failed_shards(const ShardDdlTable *table, List *done)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < table->nshards; i++)
		if (!list_member_ptr(done, &table->shards[i]))
			appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", table->shards[i].relation);
	return text.data;
}

/* Drops what was made on the shards, and what was left invalid; then raises error. */
static void
undo_create(ShardDdlBatch *batch, const ShardDdlIndex *index, List *done, ErrorData *error)
{
	const ShardDdlTable *table = batch->table;
	ErrorData  *second;
	List	   *dropped;

	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "DROP INDEX CONCURRENTLY IF EXISTS %s",
							quote_qualified_identifier(table->shards[i].schema,
													   shard_ddl_table_object(table, &table->shards[i], index->name)));
	dropped = shard_ddl_batch_run_free(batch, &second);
	ereport(ERROR,
			(errcode(error->sqlerrcode),
			 errmsg("could not create index \"%s\" on all shards of table \"%s\": %s",
					index->name, table->name, error->message),
			 errdetail("It failed on %s.%s%s", failed_shards(table, done), error->detail ? " " : "",
					   error->detail ? error->detail : ""),
			 second ? errhint("What was made of it could not be dropped on %s: drop it there.", failed_shards(table, dropped)) : 0));
}

bool
shard_ddl_create_index_concurrently(ShardDdlCall *call, ShardDdlTable *table)
{
	IndexStmt  *stmt = copyObject(castNode(IndexStmt, call->pstmt->utilityStmt));
	ShardDdlBatch *batch = shard_ddl_batch_create(table);
	ShardDdlIndex *index;
	ErrorData  *error;
	List	   *done;

	PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "CREATE INDEX CONCURRENTLY");
	if (table->is_reference)
		shard_ddl_table_refuse(table, "CREATE INDEX CONCURRENTLY", "Use CREATE INDEX.");
	stmt->concurrent = false;
	if (stmt->unique)
		stmt->relation->inh = false;
	index = try_index(call, stmt, table->relid);
	if (index == NULL)
		return true;			/* the NOTICE was sent */

	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "CREATE %sINDEX CONCURRENTLY %s ON %s USING %s", index->is_unique ? "UNIQUE " : "",
							quote_identifier(shard_ddl_table_object(table, &table->shards[i], index->name)),
							table->shards[i].relation, index->definition);
	done = shard_ddl_batch_run_free(batch, &error);
	if (error != NULL)
		undo_create(batch, index, done, error);

	/* the name that was chosen is that of the shards' indexes */
	stmt->idxname = index->name;
	stmt->if_not_exists = false;
	shard_ddl_run_core_with(call, (Node *) stmt, false);
	return true;
}

bool
shard_ddl_drop_index_concurrently(ShardDdlCall *call)
{
	DropStmt   *stmt = castNode(DropStmt, call->pstmt->utilityStmt);
	RangeVar   *name;
	Oid			index;
	Oid			relid;
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	char	  **names;
	ErrorData  *error;
	List	   *done;

	if (list_length(stmt->objects) != 1 || stmt->behavior == DROP_CASCADE)
		return false;			/* core refuses it */
	name = makeRangeVarFromNameList((List *) linitial(stmt->objects));
	relid = shard_ddl_table_lock(shard_ddl_table_of_index, name, ShareUpdateExclusiveLock);
	table = OidIsValid(relid) ? shard_ddl_table(relid) : NULL;
	if (table == NULL)
		return false;
	index = RangeVarGetRelid(name, NoLock, false);
	PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "DROP INDEX CONCURRENTLY");
	if (table->is_reference)
		shard_ddl_table_refuse(table, "DROP INDEX CONCURRENTLY", "Use DROP INDEX.");
	if (OidIsValid(get_index_constraint(index)))
		return false;			/* core refuses it */

	names = shard_ddl_find_index_described(table, shard_ddl_index_describe(index), true);
	batch = shard_ddl_batch_create(table);
	for (int i = 0; i < table->nshards; i++)
		if (names[i] != NULL)
			shard_ddl_batch_add(batch, i, "DROP INDEX CONCURRENTLY IF EXISTS %s",
								quote_qualified_identifier(table->shards[i].schema, names[i]));
	done = shard_ddl_batch_run_free(batch, &error);
	if (error != NULL)
		ereport(ERROR,
				(errcode(error->sqlerrcode),
				 errmsg("could not drop index \"%s\" on all shards of table \"%s\": %s",
						get_rel_name(index), table->name, error->message),
				 errdetail("It is still on %s, or nothing was to be done there.", failed_shards(table, done)),
				 errhint("Drop it again; what is gone already is skipped.")));

	stmt = copyObject(stmt);
	stmt->concurrent = false;
	shard_ddl_run_core_with(call, (Node *) stmt, false);
	return true;
}
