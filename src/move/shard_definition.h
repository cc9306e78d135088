/*
 * shard_definition.h
 *	  Whether the tables of a move are still what they were; found out fast, while writers wait.
 */
#ifndef SHARDFDW_SHARD_DEFINITION_H
#define SHARDFDW_SHARD_DEFINITION_H

#include "postgres.h"

#include "move/job/move.h"
#include "remote/wire/connection.h"

typedef struct ShardDefinition ShardDefinition;

/* Prepares the questions about the tables on source, a connection of the move.  Memory: the move's. */
extern ShardDefinition *shard_definition_begin(const ShardMove *move, ShardConn *source);

/* Compares the tables with what they were, in a transaction of its own, while writers go on.  Errors: as shard_move_check_unchanged(). */
extern void shard_definition_look(ShardDefinition *definition);

/* The same in a transaction that has locked the tables; there has to have been a look before. */
extern void shard_definition_check(const ShardDefinition *definition);

#endif
