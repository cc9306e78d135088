/*
 * row_statement.h
 *	  A statement that changes or locks single rows of a shard.
 */
#ifndef SHARDFDW_ROW_STATEMENT_H
#define SHARDFDW_ROW_STATEMENT_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "tuple/decode.h"
#include "utils/relcache.h"

typedef struct ShardRowStatement
{
	Oid			serverid;
	Oid			userid;
	const char *label;			/* shard's name, for messages */
	const char *sql;
	int			nparams;
	const char **params;		/* text */
	bool		keeps_rows;		/* it locks or reads rows, and changes none */
	ShardDecoder *decoder;		/* for the returned rows; NULL: none */
	TupleTableSlot *returned;	/* slot of heap tuples for returned rows with system columns; NULL: no system columns */
} ShardRowStatement;

/*
 * Returns a decoder for columns attnos of rel, in the form of deparse/dml.h's RETURNING. attnos may
 * contain system columns.  NIL: NULL.  Memory: current context.
 */
extern ShardDecoder *shard_row_statement_decoder(Relation rel, List *attnos);

/*
 * Runs the statement on the transaction's writer.  With a decoder, stores the first returned row in
 * slot, with its values in the current memory context.  Returns the number of rows that were
 * returned or changed.
 */
extern int64 shard_row_statement_run(const ShardRowStatement *statement, EState *estate,
									 TupleTableSlot *slot);

/* The slot for a returned row: slot, unless the row has system columns. */
static inline TupleTableSlot *
shard_row_statement_slot(const ShardRowStatement *statement, TupleTableSlot *slot)
{
	return statement->returned != NULL ? statement->returned : slot;
}

#endif
