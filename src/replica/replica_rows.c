/*
 * replica_rows.c
 *	  Copies rows of a shard from its primary to replicas.
 *
 * The bytes of COPY are sent on unchanged.  The sessions of both nodes have the same encoding, and text is written in a
 * form that every session reads in the same way.
 */
#include "postgres.h"

#include "replica/replica_rows.h"
#include "miscadmin.h"
#include "remote/run/stream.h"

int64
shard_replica_rows_send(const Shard *shard, Oid userid, const char *copy_to, const char *copy_from, const Oid *targets,
					   int ntargets, ShardCopySet *set, MemoryContext cxt)
{
	ShardCopyTarget **opened = palloc(sizeof(ShardCopyTarget *) * Max(ntargets, 1));
	ShardStreamSpec spec;
	ShardStream *stream;
	int64		nrows = 0;
	ShardRow	row;

	for (int i = 0; i < ntargets; i++)
		opened[i] = shard_copy_target_open(set, targets[i], userid, copy_from, false, shard->name);
	spec = (ShardStreamSpec) {.serverid = shard->serverid, .userid = userid, .sql = copy_to, .label = shard->name,
		.ncolumns = 1, .use_copy = true, .raw_copy = true, .as_writer = true, .portable_text = true,
		.workers = -1};
	stream = shard_stream_open(cxt, NULL, &spec);
	while (shard_stream_next_row(stream, &row))
	{
		nrows++;
		for (int i = 0; i < ntargets; i++)
		{
			appendBinaryStringInfo(shard_copy_target_buffer(opened[i]), row.values[0], row.lens[0]);
			shard_copy_target_put(opened[i], 0);
		}
		CHECK_FOR_INTERRUPTS();
	}
	shard_stream_close(stream);
	pfree(opened);
	return nrows;
}
