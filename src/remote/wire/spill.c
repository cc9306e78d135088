/*
 * spill.c
 *	  Records that are stored to be read later.
 *
 * A record consists of its length (uint32) and its bytes.  First, records go to a buffer in memory.
 * If it would grow beyond work_mem, all records are moved to a BufFile, where all further records
 * go, too.  The file belongs to the resource owner that was current when its user began, not to the
 * resource owner of the nested statement that may cause the spilling.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "remote/wire/spill.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#define MAX_MEMORY ((Size) 512 * 1024 * 1024)

struct ShardSpill
{
	MemoryContext cxt;
	ResourceOwner owner;
	StringInfoData memory;		/* all records, or the current record read from file */
	int			cursor;			/* offset of the next record in memory */
	BufFile    *file;
};

ShardSpill *
shard_spill_create(MemoryContext cxt, ResourceOwner owner)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardSpill *spill = palloc0(sizeof(ShardSpill));

	spill->cxt = cxt;
	spill->owner = owner;
	initStringInfo(&spill->memory);
	MemoryContextSwitchTo(oldcxt);
	return spill;
}

/* Moves the records in memory to a new file. */
static void
move_to_file(ShardSpill *spill)
{
	ResourceOwner oldowner = CurrentResourceOwner;
	MemoryContext oldcxt = MemoryContextSwitchTo(spill->cxt);

	PrepareTempTablespaces();
	CurrentResourceOwner = spill->owner;
	spill->file = BufFileCreateTemp(false);
	CurrentResourceOwner = oldowner;
	if (spill->memory.len > 0)
		BufFileWrite(spill->file, spill->memory.data, spill->memory.len);
	resetStringInfo(&spill->memory);
	MemoryContextSwitchTo(oldcxt);
}

void
shard_spill_put(ShardSpill *spill, const char *data, uint32 len)
{
	Size		limit = Min((Size) work_mem * 1024, MAX_MEMORY);

	if (!spill->file && spill->memory.len + sizeof(len) + (Size) len > limit)
		move_to_file(spill);
	if (spill->file)
	{
		BufFileWrite(spill->file, &len, sizeof(len));
		BufFileWrite(spill->file, (void *) data, len);
	}
	else
	{
		appendBinaryStringInfo(&spill->memory, (char *) &len, sizeof(len));
		appendBinaryStringInfo(&spill->memory, data, len);
	}
}

void
shard_spill_rewind(ShardSpill *spill)
{
	spill->cursor = 0;
	if (spill->file && BufFileSeek(spill->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind temporary file")));
}

static void
read_exactly(ShardSpill *spill, void *target, size_t len)
{
	if (BufFileRead(spill->file, target, len) != len)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file")));
}

const char *
shard_spill_next(ShardSpill *spill, uint32 *len)
{
	const char *record;

	if (spill->file)
	{
		size_t		nread = BufFileRead(spill->file, len, sizeof(*len));

		if (nread == 0)
			return NULL;
		if (nread != sizeof(*len))
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read from temporary file")));
		resetStringInfo(&spill->memory);
		enlargeStringInfo(&spill->memory, *len);
		read_exactly(spill, spill->memory.data, *len);
		return spill->memory.data;
	}
	if (spill->cursor >= spill->memory.len)
		return NULL;
	memcpy(len, spill->memory.data + spill->cursor, sizeof(*len));
	record = spill->memory.data + spill->cursor + sizeof(*len);
	spill->cursor += sizeof(*len) + *len;
	return record;
}

void
shard_spill_close(ShardSpill *spill)
{
	if (spill->file)
		BufFileClose(spill->file);
	spill->file = NULL;
	pfree(spill->memory.data);
	pfree(spill);
}
