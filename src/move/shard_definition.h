/*
 * shard_definition.h
 *	  Checks whether the tables of a move are unchanged, fast enough while writers wait.
 */
#ifndef SHARDFDW_SHARD_DEFINITION_H
#define SHARDFDW_SHARD_DEFINITION_H

#include "postgres.h"

#include "move/job/move.h"
#include "remote/wire/connection.h"

typedef struct ShardDefinition ShardDefinition;

/* Prepares the queries about the tables on source, a connection of the move.  Memory: the move's. */
extern ShardDefinition *shard_definition_begin(const ShardMove *move, ShardConn *source);

/*
 * Compares the tables with their earlier state in a separate transaction, while writers continue.  Errors: as
 * shard_move_check_unchanged().
 */
extern void shard_definition_look(ShardDefinition *definition);

/* The same in a transaction that has locked the tables.  Call shard_definition_look() before. */
extern void shard_definition_check(const ShardDefinition *definition);

#endif
