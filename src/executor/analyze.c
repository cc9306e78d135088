/*
 * analyze.c
 *	  ANALYZE of a shard: the node takes a sample of its rows.
 *
 *	   AnalyzeForeignTable	asks the node for the table's size and estimated rows
 *	   acquire_sample		reads a sample --> decode --> reservoir --> HeapTuples
 *
 * ANALYZE of the sharded parent samples all shards with core's inherited sampling, which calls both
 * functions for each shard.  Each shard contributes its part to one sample.  Then core analyzes
 * each shard separately, like all partitions.  A shard takes over the statistics that its node has
 * of the table (stat_import.c).  Its rows are sampled only if the node has none.
 *
 * The table's option analyze_sampling (off, auto, random, system, bernoulli; default: the server's)
 * says how the node chooses rows.  With auto, a small sample of a large table is taken from only
 * some of its blocks, as in core.  A table with only a few times the rows of the sample is read
 * completely, so that its row count is exact.
 */
#include "postgres.h"

#include <math.h>

#include "access/tupdesc.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/shard_map.h"
#include "commands/vacuum.h"
#include "deparse/dml.h"
#include "executor/scan/fdw_executor.h"
#include "executor/stat_import.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"
#include "tuple/type_io.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sampling.h"

/* Tables with up to this many times the wanted sample are read completely. */
#define FULL_READ_FACTOR	2.0

/* Number of rows to request, as a multiple of the wanted sample, since estimates are rough. */
#define SAMPLE_MARGIN		1.2

/* Blocks are skipped only if at least so many are read, so that their number varies little. */
#define MIN_BLOCKS			500

typedef enum SamplingMethod
{
	SAMPLE_OFF,
	SAMPLE_RANDOM,
	SAMPLE_SYSTEM,
	SAMPLE_BERNOULLI,
	SAMPLE_BLOCKS				/* random rows of some blocks, chosen by SYSTEM */
} SamplingMethod;

/* What the node says about the shard's table. */
typedef struct RemoteTable
{
	int64		bytes;
	double		rows;			/* estimate */
	char		relkind;
} RemoteTable;

static const Shard *
shard_of(Relation relation)
{
	const ShardMap *map = shard_map_get(RelationGetRelid(relation));

	if (map == NULL || map->nshards != 1)
		elog(ERROR, "\"%s\" is not a shard", RelationGetRelationName(relation));
	return &map->shards[0];
}

/* Estimates the size of a stored row from the types of its columns. */
static double
guess_row_bytes(TupleDesc desc)
{
	double		bytes = 28;		/* tuple header and line pointer */

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			bytes += get_typavgwidth(att->atttypid, att->atttypmod);
	}
	return bytes;
}

static RemoteTable
ask_table(Relation relation)
{
	const Shard *shard = shard_of(relation);
	ShardCommand command;
	RemoteTable table = {0, -1, '\0'};
	StringInfoData sql;
	char	   *name = quote_literal_cstr(shard->relation);

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT pg_catalog.pg_relation_size(c.oid), c.reltuples, c.relkind"
					 " FROM pg_catalog.pg_class c WHERE c.oid = %s::pg_catalog.regclass",
					 name);
	command = (ShardCommand) {.serverid = shard->serverid, .userid = relation->rd_rel->relowner, .sql = sql.data,
		.label = shard->name};
	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);

	if (PQntuples(command.result) == 1 && PQnfields(command.result) == 3)
	{
		table.bytes = strtoll(PQgetvalue(command.result, 0, 0), NULL, 10);
		table.rows = strtod(PQgetvalue(command.result, 0, 1), NULL);
		table.relkind = PQgetvalue(command.result, 0, 2)[0];
	}
	shard_command_free(&command, 1);

	/* never analyzed there; with an estimate a large table is not read completely */
	if (table.rows < 0)
		table.rows = table.bytes / guess_row_bytes(RelationGetDescr(relation));
	pfree(sql.data);
	pfree(name);
	return table;
}

/*
 * Is the relation analyzed separately, not as a part of its parent?  Core does not tell the
 * wrapper, but reports it in pg_stat_progress_analyze.  If that is switched off, the answer is no.
 */
static bool
is_own_analyze(Relation relation)
{
	return MyBEEntry != NULL &&
		MyBEEntry->st_progress_command == PROGRESS_COMMAND_ANALYZE &&
		MyBEEntry->st_progress_command_target == RelationGetRelid(relation);
}

/* Is analyze_sampling auto, so that this file chooses the method? */
static bool
is_auto(Relation relation)
{
	const char *option = shard_option_table(RelationGetRelid(relation), "analyze_sampling");

	return option == NULL || strcmp(option, "auto") == 0;
}

/*
 * Fraction of the table's blocks from which a sample may come: as many blocks as rows are wanted,
 * which is what core reads of local tables.
 */
static double
block_fraction(const RemoteTable *table, int targrows)
{
	return Max(targrows * SAMPLE_MARGIN, MIN_BLOCKS) / Max(table->bytes / BLCKSZ, 1);
}

static SamplingMethod
choose_method(Relation relation, const RemoteTable *table, int targrows)
{
	const char *option = shard_option_table(RelationGetRelid(relation), "analyze_sampling");
	bool		is_table = table->relkind == RELKIND_RELATION ||
		table->relkind == RELKIND_MATVIEW ||
		table->relkind == RELKIND_PARTITIONED_TABLE;

	if (table->rows <= targrows * FULL_READ_FACTOR)
		return SAMPLE_OFF;
	if (option != NULL)
	{
		if (strcmp(option, "off") == 0)
			return SAMPLE_OFF;
		if (strcmp(option, "random") == 0 || !is_table)
			return SAMPLE_RANDOM;
		if (strcmp(option, "system") == 0)
			return SAMPLE_SYSTEM;
	}
	if (table->relkind == RELKIND_RELATION && is_auto(relation) &&
		block_fraction(table, targrows) < 0.8)
		return SAMPLE_BLOCKS;
	return is_table ? SAMPLE_BERNOULLI : SAMPLE_RANDOM;
}

/*
 * Builds a SELECT of all columns that returns the given fraction of the rows. blocks: with
 * SAMPLE_BLOCKS, the fraction of the blocks that they come from.  Fills columns (room for natts)
 * with the kinds of decoding, and returns their number.
 */
static int
build_query(Relation relation, SamplingMethod method, double fraction, double blocks,
			StringInfo sql, ShardOutput *columns)
{
	TupleDesc	desc = RelationGetDescr(relation);
	int			ncolumns = 0;

	appendStringInfoString(sql, "SELECT ");
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		binary;

		if (att->attisdropped)
			continue;
		binary = shard_type_io_binary_output(att->atttypid);
		if (ncolumns > 0)
			appendStringInfoString(sql, ", ");
		shard_dml_append_column(sql, RelationGetRelid(relation), att->attnum);
		columns[ncolumns].kind = binary ? SHARD_OUTPUT_VALUE : SHARD_OUTPUT_TEXT;
		columns[ncolumns].target = i;
		columns[ncolumns].type = att->atttypid;
		columns[ncolumns].typmod = att->atttypmod;
		ncolumns++;
	}
	appendStringInfo(sql, " FROM %s", shard_of(relation)->relation);
	switch (method)
	{
		case SAMPLE_OFF:
			break;
		case SAMPLE_RANDOM:
			appendStringInfo(sql, " WHERE pg_catalog.random() < %.10f", fraction);
			break;
		case SAMPLE_SYSTEM:
			appendStringInfo(sql, " TABLESAMPLE SYSTEM (%.8f)", fraction * 100);
			break;
		case SAMPLE_BERNOULLI:
			appendStringInfo(sql, " TABLESAMPLE BERNOULLI (%.8f)", fraction * 100);
			break;
		case SAMPLE_BLOCKS:
			appendStringInfo(sql, " TABLESAMPLE SYSTEM (%.8f) WHERE pg_catalog.random() < %.10f",
							 blocks * 100, fraction / blocks);
			break;
	}
	return ncolumns;
}

/*
 * Keeps targrows of the stream's rows, all with the same probability (Vitter's algorithm, as in
 * core).  Returns the number of rows kept. *nread: number of rows seen.  Memory: tuples in the
 * current context.
 */
static int
read_sample(ShardStream *stream, ShardDecoder *decoder, TupleTableSlot *slot,
			HeapTuple *rows, int targrows, double *nread)
{
	MemoryContext row_cxt = AllocSetContextCreate(CurrentMemoryContext, "shard analyze row",
												  ALLOCSET_SMALL_SIZES);
	ReservoirStateData reservoir;
	double		to_skip = -1;
	int			nrows = 0;
	ShardRow	row;

	reservoir_init_selection_state(&reservoir, targrows);
	*nread = 0;
	while (shard_stream_next_row(stream, &row))
	{
		int			place;

		CHECK_FOR_INTERRUPTS();
		if (nrows < targrows)
			place = nrows++;
		else
		{
			if (to_skip < 0)
				to_skip = reservoir_get_next_S(&reservoir, *nread, targrows);
			place = to_skip <= 0 ?
				(int) (targrows * sampler_random_fract(&reservoir.randstate)) : -1;
			to_skip -= 1;
		}
		*nread += 1;
		if (place < 0)
			continue;

		MemoryContextReset(row_cxt);
		shard_decode_row(decoder, &row, slot, row_cxt);
		if (*nread > targrows)
			heap_freetuple(rows[place]);
		rows[place] = ExecCopySlotHeapTuple(slot);
	}
	ExecClearTuple(slot);
	MemoryContextDelete(row_cxt);
	return nrows;
}

static int
sample_rows(Relation relation, int elevel, HeapTuple *rows, int targrows, double *totalrows)
{
	const Shard *shard = shard_of(relation);
	TupleDesc	desc = RelationGetDescr(relation);
	RemoteTable table = ask_table(relation);
	SamplingMethod method = choose_method(relation, &table, targrows);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shard analyze",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardStreamSpec spec;
	ShardSnapshot *snapshot = shard_txn_snapshot(cxt);
	ShardOutput *columns = palloc(sizeof(ShardOutput) * Max(desc->natts, 1));
	StringInfoData sql;
	ShardDecoder *decoder;
	TupleTableSlot *slot;
	ShardStream *stream;
	double		fraction = 1.0;
	double		nread;
	int			ncolumns;
	int			nrows;

	if (method != SAMPLE_OFF)
		fraction = Min(targrows * SAMPLE_MARGIN / table.rows, 1.0);
	initStringInfo(&sql);
	ncolumns = build_query(relation, method, fraction, Max(block_fraction(&table, targrows), fraction),
						   &sql, columns);
	decoder = shard_decode_create(desc, columns, ncolumns);
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);

	spec = (ShardStreamSpec) {.serverid = shard->serverid, .userid = relation->rd_rel->relowner, .sql = sql.data,
		.label = shard->name, .ncolumns = shard_decode_nremote(decoder),
		.portable_text = shard_decode_has_styled_text(decoder), .use_copy = true, .workers = -1};
	shard_snapshot_expect(snapshot, spec.serverid, spec.userid, 1);
	stream = shard_stream_open(cxt, snapshot, &spec);

	MemoryContextSwitchTo(oldcxt);
	nrows = read_sample(stream, decoder, slot, rows, targrows, &nread);

	shard_stream_close(stream);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(cxt);

	*totalrows = floor(nread / fraction + 0.5);
	ereport(elevel,
			(errmsg("\"%s\": table contains %.0f rows, %d rows in sample",
					RelationGetRelationName(relation), *totalrows, nrows)));
	return nrows;
}

static int
acquire_sample(Relation relation, int elevel, HeapTuple *rows, int targrows,
			   double *totalrows, double *totaldeadrows)
{
	const Shard *shard = shard_of(relation);

	*totaldeadrows = 0;
	if (!is_auto(relation) || !is_own_analyze(relation) ||
		!shard_stat_import(relation, shard->serverid, shard->relation, shard->name, totalrows))
		return sample_rows(relation, elevel, rows, targrows, totalrows);

	/* without rows core computes no statistics, and only records the number of rows */
	ereport(elevel,
			(errmsg("\"%s\": table contains %.0f rows, statistics taken over from the node",
					RelationGetRelationName(relation), *totalrows)));
	return 0;
}

bool
shardAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func,
						 BlockNumber *totalpages)
{
	RemoteTable table = ask_table(relation);
	double		pages = ceil((double) table.bytes / BLCKSZ);

	/*
	 * Core's inherited sampling skips children without pages, such as an empty table.  Views and
	 * partitioned tables have no own pages.
	 */
	if (table.relkind != RELKIND_RELATION && table.relkind != RELKIND_MATVIEW)
		pages = Max(pages, 1);
	*totalpages = (BlockNumber) Min(pages, MaxBlockNumber);
	*func = acquire_sample;
	return true;
}
