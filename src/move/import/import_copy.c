/*
 * import_copy.c
 *	  Loads rows from COPY on another server into a table.
 */
#include "postgres.h"

#include "catalog/shard_map.h"
#include "load/copy_statement.h"
#include "miscadmin.h"
#include "move/import/import_copy.h"
#include "move/job/link.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

static ShardImportCopy *current = NULL;	/* for feed() */

void
shard_import_copy_begin(ShardImportCopy *copy, ShardConn *source, const char *what)
{
	memset(copy, 0, sizeof(*copy));
	copy->source = source;
	shard_link_copy(source, NULL, psprintf("COPY %s TO STDOUT", what));
}

static bool
next_row(ShardImportCopy *copy)
{
	if (copy->message)
		PQfreemem(copy->message);
	copy->message = NULL;
	copy->len = copy->cursor = 0;
	if (copy->at_end)
		return false;
	while ((copy->len = shard_link_copy_data(copy->source, &copy->message)) == 0)
		shard_link_wait(&copy->source, 1);
	CHECK_FOR_INTERRUPTS();
	if (copy->len > 0)
	{
		copy->nbytes += copy->len;
		return true;
	}
	copy->len = 0;
	copy->at_end = true;
	(void) shard_link_end_copy(copy->source, NULL);
	return false;
}

bool
shard_import_copy_has_row(ShardImportCopy *copy)
{
	return copy->cursor < copy->len || next_row(copy);
}

/* copy_data_source_cb: a chunk of the rows */
static int
feed_chunk(void *outbuf, int minread, int maxread)
{
	int			nbytes;

	/* the first row of the chunk has already been read */
	if (current->cursor == current->len && (current->nbytes >= current->max_bytes || !next_row(current)))
		return 0;
	nbytes = Min(maxread, current->len - current->cursor);
	memcpy(outbuf, current->message + current->cursor, nbytes);
	current->cursor += nbytes;
	return nbytes;
}

int64
shard_import_copy_load(ShardImportCopy *copy, const ShardImportTable *table, int64 max_bytes)
{
	int64		nrows;

	copy->nbytes = copy->len;
	copy->max_bytes = max_bytes;
	current = copy;
	nrows = shard_import_copy_feed(table, feed_chunk, true);
	current = NULL;
	return nrows;
}

int64
shard_import_copy_feed(const ShardImportTable *table, copy_data_source_cb feed, bool alone)
{
	int64		nrows;
	Oid			userid = shard_import_become_writer(table);

	PushActiveSnapshot(GetTransactionSnapshot());
	LockRelationOid(table->relid, RowExclusiveLock);
	if (shard_map_get(table->relid) != NULL)
		nrows = shard_copy_statement_load(table->relid, copyObject(table->column_names), feed, alone);
	else
		nrows = shard_copy_statement_load_local(table->relid, copyObject(table->column_names), feed);
	PopActiveSnapshot();
	shard_import_become(userid);
	return nrows;
}
