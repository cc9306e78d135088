/*
 * replica_few.h
 *	  What a transaction has changed in a shard, as one command for its replicas, where these are few rows.
 */
#ifndef SHARDFDW_REPLICA_FEW_H
#define SHARDFDW_REPLICA_FEW_H

#include "postgres.h"

#include "replica/replica_sql.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"

/* So many keys are few. */
#define SHARD_REPLICA_FEW_KEYS 100

typedef struct ShardReplicaFew
{
	bool		is_told;		/* false: the notes do not say what the transaction has changed */
	bool		is_short;		/* false: some row is not in the answer since it is long, and nothing below holds */
	int64		nbefore;		/* keys whose row was there before */
	StringInfoData keys;		/* these keys, as the rows of VALUES */
	StringInfoData rows;		/* rows that are there now, as those of VALUES; empty: none */
} ShardReplicaFew;

/* Reads the primary's answer to sql->few.  Memory: current context. */
extern void shard_replica_few_read(const PGresult *res, const ShardReplicaSql *sql, ShardReplicaFew *few);

/*
 * The command for a replica: deletes the rows with these keys and, if it has found nwanted, inserts those that are there now.
 * Returns one row, the number that it has found.  Memory: current context.
 */
extern char *shard_replica_few_command(const ShardReplicaSql *sql, const ShardReplicaFew *few, int64 nwanted);

#endif
