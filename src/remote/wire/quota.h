/*
 * quota.h
 *	  Limits the number of connections that all backends together have to a node.
 *
 * Only if the library is preloaded; otherwise every request is granted.  A node is identified by
 * its address (host and port).  So users, databases and servers with the same address share its
 * connections.
 */
#ifndef SHARDFDW_QUOTA_H
#define SHARDFDW_QUOTA_H

#include "postgres.h"

#include "utils/timestamp.h"

#define SHARD_QUOTA_NONE (-1)		/* for a node that is not counted */

/* The purpose of a connection. */
typedef enum ShardQuotaNeed
{
	SHARD_QUOTA_EXTRA,			/* the work is only faster with it: never waits */
	SHARD_QUOTA_SPARE,			/* used for a moment to help waiting sessions: never waits, but may take the last one */
	SHARD_QUOTA_FRESH,			/* required; the session holds nothing that others may wait for */
	SHARD_QUOTA_HOLDER			/* required; the session holds connections or locks while it waits */
} ShardQuotaNeed;

/* Maximum length of the address of a counted node, including the terminating zero. */
#define SHARD_QUOTA_ADDRESS 128

/*
 * Takes one connection to the node at address (name: for messages).  False if there is none, only
 * for EXTRA and SPARE. *node: its number while the connection is open; SHARD_QUOTA_NONE: the node
 * is not counted.
 *
 * FRESH and HOLDER wait for their turn, and can be interrupted.  Before and during the wait
 * give_idle is called, which closes connections that this backend does not need now.  Errors:
 * ERRCODE_TOO_MANY_CONNECTIONS after timeout_ms; 0: they wait without a limit.
 */
extern bool shard_quota_take(const char *address, const char *name, ShardQuotaNeed need,
							 int timeout_ms, void (*give_idle) (void), int *node);
extern void shard_quota_give(int node);

/* is_curious: should a new connection ask the node for its limit? learn: the answer. */
extern bool shard_quota_is_curious(int node);
extern void shard_quota_learn(int node, int nallowed);

/* begin: this backend uses connections from here on. end: it uses none any more (end of transaction). */
extern void shard_quota_begin_use(void);
extern void shard_quota_end_use(void);

/*
 * How many idle connections to node this backend may keep.  INT_MAX if no backend waits.  Otherwise
 * one, and none after its time slice.
 */
extern int	shard_quota_idle_allowed(int node);

/* One backend's connections to one node. */
typedef struct ShardQuotaUse
{
	char		address[SHARD_QUOTA_ADDRESS];
	int			limit;			/* 0: none */
	int			pid;
	int			nopen;
	bool		waiting;
	bool		in_use;			/* the backend is in a transaction that uses nodes */
} ShardQuotaUse;

/* One entry per backend and node.  Memory: palloc'd array. */
extern ShardQuotaUse *shard_quota_list(int *n);

extern void shard_quota_init(void);

#endif
