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
#include "executor/shard_run.h"
#include "tuple/type_io.h"
#include "utils/rel.h"

ShardDecoder *
shard_row_statement_decoder(Relation rel, List *attnos)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ShardOutput *columns;
	int			ncolumns = 0;

	if (attnos == NIL)
		return NULL;
	columns = palloc0(sizeof(ShardOutput) * list_length(attnos));
	foreach_int(attno, attnos)
	{
		ShardOutput *col = &columns[ncolumns++];

		if (attno < 0)
		{
			col->kind = SHARD_OUTPUT_SYSTEM;
			col->target = attno;
		}
		else
		{
			Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

			col->kind = shard_type_io_binary_output(att->atttypid) ? SHARD_OUTPUT_VALUE : SHARD_OUTPUT_TEXT;
			col->target = attno - 1;
			col->type = att->atttypid;
			col->typmod = att->atttypmod;
		}
	}
	return shard_decode_create(desc, columns, ncolumns);
}

int64
shard_row_statement_run(const ShardRowStatement *statement, EState *estate, TupleTableSlot *slot)
{
	ShardRunTarget target = {statement->serverid, statement->label, statement->sql, statement->nparams, statement->params};
	ShardRun	run = {.cxt = CurrentMemoryContext, .ntargets = 1, .targets = &target};
	int64		nrows = 0;
	ShardRow	row;

	run.spec.userid = statement->userid;
	run.spec.as_writer = true;
	run.spec.keeps_rows = statement->keeps_rows;
	if (statement->decoder == NULL)
		return shard_run_commands(&run);

	run.spec.ncolumns = shard_decode_nremote(statement->decoder);
	run.spec.portable_text = shard_decode_has_styled_text(statement->decoder);
	shard_run_open(&run, shard_txn_snapshot(estate->es_query_cxt));
	while (shard_run_next(&run, &row))
	{
		if (nrows++ > 0)
			continue;
		shard_decode_row(statement->decoder, &row, slot, CurrentMemoryContext);
		if (shard_decode_has_header(statement->decoder))
			shard_decode_add_header(statement->decoder, slot, CurrentMemoryContext);
	}
	return nrows;
}
