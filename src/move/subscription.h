/*
 * subscription.h
 *	  Applies subscriptions that have sharded tables.
 */
#ifndef SHARDFDW_SUBSCRIPTION_H
#define SHARDFDW_SUBSCRIPTION_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Is it a statement on a subscription?  Then call shard_subscription_before() and shard_subscription_after() around
 * it.
 */
extern bool shard_subscription_concerns(const Node *stmt);
extern void shard_subscription_before(const Node *stmt);
extern void shard_subscription_after(const Node *stmt);

/* Starts the missing processes of subscriptions, for example after a restart of the server. */
extern void shard_subscription_start_missing(void);

/*
 * Entry point of the background worker.  Its argument is the OID of the subscription. bgw_extra has the OID of the
 * database.
 */
extern PGDLLEXPORT void shard_subscription_main(Datum arg);

#endif
