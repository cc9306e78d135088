/*
 * subscription.h
 *	  Subscriptions that have sharded tables: who applies them, and how that begins and ends.
 */
#ifndef SHARDFDW_SUBSCRIPTION_H
#define SHARDFDW_SUBSCRIPTION_H

#include "postgres.h"

#include "nodes/nodes.h"

/* Is it a statement on a subscription, which shard_subscription_before() and shard_subscription_after() go around? */
extern bool shard_subscription_concerns(const Node *stmt);
extern void shard_subscription_before(const Node *stmt);
extern void shard_subscription_after(const Node *stmt);

/* Starts the processes of subscriptions that have none, as after a restart of the server. */
extern void shard_subscription_start_missing(void);

/* Entry point of the background worker; its argument is the subscription's OID, bgw_extra has the database's. */
extern PGDLLEXPORT void shard_subscription_main(Datum arg);

#endif
