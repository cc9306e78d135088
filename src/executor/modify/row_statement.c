/*
 * row_statement.c
 *	  Statements that change or lock single rows of a shard.
 *
 * Each is sent separately on the transaction's writer on the shard's node.  So what triggers on the
 * coordinator write between two of them is also written to the node between them.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/modify/row_statement.h"
#include "remote/run/command.h"
#include "remote/run/stream.h"
#include "tuple/type_io.h"
#include "utils/rel.h"

ShardDecoder *
shard_row_statement_decoder(Relation rel, List *attnos)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ShardDecodeColumn *columns;
	int			ncolumns = 0;

	if (attnos == NIL)
		return NULL;
	columns = palloc0(sizeof(ShardDecodeColumn) * list_length(attnos));
	foreach_int(attno, attnos)
	{
		ShardDecodeColumn *col = &columns[ncolumns++];

		if (attno < 0)
		{
			col->kind = SHARD_DECODE_SYSTEM;
			col->target = attno;
		}
		else
		{
			Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

			col->kind = shard_type_io_binary_output(att->atttypid) ?
				SHARD_DECODE_BINARY : SHARD_DECODE_TEXT;
			col->target = attno - 1;
			col->type = att->atttypid;
			col->typmod = att->atttypmod;
		}
	}
	return shard_decode_create(desc, columns, ncolumns);
}

/* Runs a statement that returns rows. */
static int64
run_returning(const ShardRowStatement *statement, EState *estate, TupleTableSlot *slot)
{
	ShardStreamSpec spec = {0};
	ShardStream *stream;
	int64		nrows = 0;
	ShardRow	row;

	spec.serverid = statement->serverid;
	spec.userid = statement->userid;
	spec.sql = statement->sql;
	spec.label = statement->label;
	spec.ncolumns = shard_decode_nremote(statement->decoder);
	spec.portable_text = shard_decode_has_styled_text(statement->decoder);
	spec.as_writer = true;
	spec.keeps_rows = statement->keeps_rows;
	spec.workers = -1;
	spec.nparams = statement->nparams;
	spec.params = statement->params;

	stream = shard_stream_open(CurrentMemoryContext, shard_txn_snapshot(estate->es_query_cxt), &spec);
	while (shard_stream_next_row(stream, &row))
	{
		if (nrows++ > 0)
			continue;
		shard_decode_row(statement->decoder, &row, slot, CurrentMemoryContext);
		if (shard_decode_has_header(statement->decoder))
			shard_decode_add_header(statement->decoder, slot, CurrentMemoryContext);
	}
	shard_stream_close(stream);
	return nrows;
}

/* Runs a statement that returns only a count. */
static int64
run_plain(const ShardRowStatement *statement)
{
	ShardCommand command = {0};
	int64		nrows;

	command.serverid = statement->serverid;
	command.userid = statement->userid;
	command.sql = statement->sql;
	command.keeps_rows = statement->keeps_rows;
	command.label = statement->label;
	command.nparams = statement->nparams;
	command.params = statement->params;
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	nrows = strtoi64(PQcmdTuples(command.result), NULL, 10);
	shard_command_free(&command, 1);
	return nrows;
}

int64
shard_row_statement_run(const ShardRowStatement *statement, EState *estate, TupleTableSlot *slot)
{
	return statement->decoder ? run_returning(statement, estate, slot) : run_plain(statement);
}
