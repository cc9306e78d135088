/*
 * replica_few.h
 *	  Makes one command for the replicas of a shard in which a transaction has changed few rows.
 */
#ifndef SHARDFDW_REPLICA_FEW_H
#define SHARDFDW_REPLICA_FEW_H

#include "postgres.h"

#include "replica/replica_sql.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"

/* Maximum number of changed keys for this method. */
#define SHARD_REPLICA_FEW_KEYS 100

typedef struct ShardReplicaFew
{
	bool		is_told;		/* false: the notes do not show what the transaction has changed */
	bool		is_short;		/* false: the answer lacks some row because it is long; then the fields below are not set */
	int64		nbefore;		/* number of keys whose row existed before the transaction */
	StringInfoData keys;		/* these keys, as the rows of VALUES */
	StringInfoData rows;		/* rows that exist now, as the rows of VALUES; empty: none */
} ShardReplicaFew;

/* Reads the primary's answer to sql->few.  Memory: current context. */
extern void shard_replica_few_read(const PGresult *res, const ShardReplicaSql *sql, ShardReplicaFew *few);

/*
 * Returns the command for a replica.  The command deletes the rows with these keys.  If it has deleted nwanted rows, it
 * inserts the rows that exist now.  It returns one row with the number of deleted rows.  Memory: current context.
 */
extern char *shard_replica_few_command(const ShardReplicaSql *sql, const ShardReplicaFew *few, int64 nwanted);

#endif
