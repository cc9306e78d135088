/*
 * shard_definition.h
 *	  Whether the tables of a move are still what they were; found out fast, while writers wait.
 */
#ifndef SHARDFDW_SHARD_DEFINITION_H
#define SHARDFDW_SHARD_DEFINITION_H

#include "postgres.h"

#include "move/move.h"
#include "remote/wire/connection.h"

typedef struct ShardDefinition ShardDefinition;

/* Prepares what follows.  source: a connection of the move.  Memory: the move's. */
extern ShardDefinition *shard_definition_begin(const ShardMove *move, ShardConn *source);

/* shard_move_check_unchanged() while writers go on, which takes as long as it takes; outside of transactions. */
extern void shard_definition_look(ShardDefinition *definition);

/* The same in a transaction that has locked the tables, after the other. */
extern void shard_definition_check(const ShardDefinition *definition);

#endif
