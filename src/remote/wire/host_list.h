/*
 * host_list.h
 *	  The addresses of a node whose server lists several hosts, and the order in which they are
 *	  tried.
 */
#ifndef SHARDFDW_HOST_LIST_H
#define SHARDFDW_HOST_LIST_H

#include "postgres.h"

#include "libpq-fe.h"

/* Connection parameters whose lists of addresses can be rotated. */
typedef struct ShardHostList
{
	const char **keywords;
	const char **values;		/* lists are in the present order */
	int			nhosts;			/* at least two */
	bool		is_ordered;		/* the order expresses a preference, since any host that answers is used */
	int			first;			/* the address that the lists begin with, 0-based in the server's order */
	struct ShardHostParts *parts;
} ShardHostList;

/*
 * keywords and values: see PQconnectStartParams().  NULL if they contain one address only, or if
 * the lists have different lengths, which libpq reports.  Memory: a copy in the current context.
 */
extern ShardHostList *shard_host_list_make(const char *const *keywords, const char *const *values);
extern void shard_host_list_free(ShardHostList *list);

/* Number of the address that pg uses or tries, 0-based in the server's order; -1: unknown. */
extern int	shard_host_list_find(const ShardHostList *list, const PGconn *pg);

/* Rotates the lists, so that they begin with this address. */
extern void shard_host_list_begin_with(ShardHostList *list, int number);

#endif
