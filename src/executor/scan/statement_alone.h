/*
 * statement_alone.h
 *	  Is the client's statement all of its transaction?
 */
#ifndef SHARDFDW_STATEMENT_ALONE_H
#define SHARDFDW_STATEMENT_ALONE_H

#include "postgres.h"

#include "nodes/execnodes.h"

/*
 * Does the transaction commit when the statement has ended, with nothing in between?  True only if
 * that is certain.  False after another statement of the same pipeline.
 */
extern bool shard_statement_is_alone(const EState *estate);

/*
 * For a statement that is alone: can any row of built-in types be sent to the client without an
 * error?  Not if the client's encoding may lack a character.
 */
extern bool shard_statement_client_takes_rows(void);

#endif
