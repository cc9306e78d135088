/*
 * quota.h
 *	  How many connections all backends together have to a node.
 *
 * Only when the library is preloaded; otherwise every answer is yes.  A node is
 * known by its address (host and port), so that users, databases and servers
 * which name the same one share its connections.
 */
#ifndef SHARDFDW_QUOTA_H
#define SHARDFDW_QUOTA_H

#include "postgres.h"

#include "utils/timestamp.h"

#define SHARD_QUOTA_NONE (-1)		/* of a node that is not counted */

/* What a connection is wanted for. */
typedef enum ShardQuotaNeed
{
	SHARD_QUOTA_EXTRA,			/* would be faster with it: never waited for */
	SHARD_QUOTA_SPARE,			/* for a moment, to help those who wait: never waited for, but may be the last */
	SHARD_QUOTA_FRESH,			/* cannot go on without it, but holds nothing that others may wait for */
	SHARD_QUOTA_HOLDER			/* cannot go on, and holds connections or locks meanwhile */
} ShardQuotaNeed;

/* Longest address of a node whose connections are counted, with its end. */
#define SHARD_QUOTA_ADDRESS 128

/*
 * Takes one connection to the node at address (name: for messages); false when there is none,
 * only for EXTRA and SPARE.  *node: its number, for as long as the connection is open;
 * SHARD_QUOTA_NONE: the node's connections are not counted.  FRESH and HOLDER wait for
 * their turn and answer interrupts; before and during the wait, give_idle is called to
 * close connections that this backend does not need now.
 * Errors: ERRCODE_TOO_MANY_CONNECTIONS after shardfdw.connection_wait_timeout.
 */
extern bool shard_quota_take(const char *address, const char *name, ShardQuotaNeed need,
							 void (*give_idle) (void), int *node);
extern void shard_quota_give(int node);

/* Should a new connection ask the node how many it allows?  learn: what it said. */
extern bool shard_quota_is_curious(int node);
extern void shard_quota_learn(int node, int nallowed);

/* This backend uses connections from now on / has none in use any more (end of transaction). */
extern void shard_quota_begin_use(void);
extern void shard_quota_end_use(void);

/*
 * How many idle connections to node this backend may keep: INT_MAX when nobody
 * waits, else one until its time is up, and then none.
 */
extern int	shard_quota_idle_allowed(int node);

/* What is known of one node, and of one backend's connections to it. */
typedef struct ShardQuotaUse
{
	char		address[SHARD_QUOTA_ADDRESS];
	int			limit;			/* 0: none */
	int			pid;
	int			nopen;
	bool		waiting;
	bool		in_use;			/* its backend is in a transaction that uses nodes */
} ShardQuotaUse;

/* One entry per backend and node.  Memory: palloc'd array. */
extern ShardQuotaUse *shard_quota_list(int *n);

extern void shard_quota_init(void);

#endif
