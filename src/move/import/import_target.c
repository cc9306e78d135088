/*
 * import_target.c
 *	  A table that gets changes of a table elsewhere, whose columns may have another order.
 */
#include "postgres.h"

#include "move/import/import_target.h"
#include "remote/wire/error.h"
#include "utils/memutils.h"

void
shard_import_target_init(ShardImportTarget *target, MemoryContext cxt, const ShardImportTable *table)
{
	target->table = table;
	target->batch = shard_import_batch_create(cxt, table);
	target->nsent = 0;
	target->places = MemoryContextAlloc(cxt, sizeof(int) * Max(table->ncolumns, 1));
}

bool
shard_import_target_relation(ShardImportTarget *target, const ShardChange *change)
{
	const ShardImportTable *table = target->table;

	target->nsent = change->ncolumns;
	for (int i = 0; i < table->ncolumns; i++)
	{
		target->places[i] = -1;
		for (int j = 0; j < change->ncolumns; j++)
		{
			if (strcmp(table->columns[i].name, change->columns[j].name) == 0)
				target->places[i] = j;
		}
		if (target->places[i] < 0)
			return false;
	}
	return change->ncolumns == table->nsent;
}

/* Sorts the values of a received row into the order of the table's columns. */
static void
sort_row(const ShardImportTarget *target, ShardConn *source, ShardChangeRow *row)
{
	const ShardImportTable *table = target->table;
	ShardChangeValue *values;

	if (!row->present)
		return;
	if (target->nsent == 0 || row->nvalues != target->nsent)
		shard_error_protocol(source, NULL, "a row with another number of columns");
	values = palloc(sizeof(ShardChangeValue) * Max(table->ncolumns, 1));
	for (int i = 0; i < table->ncolumns; i++)
		values[i] = row->values[target->places[i]];
	row->values = values;
	row->nvalues = table->ncolumns;
}

void
shard_import_target_row(ShardImportTarget *target, ShardConn *source, ShardChange *change)
{
	sort_row(target, source, &change->old_row);
	sort_row(target, source, &change->new_row);
	if (change->kind == SHARD_CHANGE_INSERT)
		shard_import_batch_insert(target->batch, &change->new_row);
	else if (change->kind == SHARD_CHANGE_UPDATE)
		shard_import_batch_update(target->batch, &change->old_row, &change->new_row);
	else
		shard_import_batch_delete(target->batch, &change->old_row);
}
