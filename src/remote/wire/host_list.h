/*
 * host_list.h
 *	  The addresses of a node whose server names several, and the order in which they are asked.
 */
#ifndef SHARDFDW_HOST_LIST_H
#define SHARDFDW_HOST_LIST_H

#include "postgres.h"

#include "libpq-fe.h"

/* Connection parameters whose lists of addresses begin with any of them. */
typedef struct ShardHostList
{
	const char **keywords;
	const char **values;		/* of the lists, those that are in the present order */
	int			nhosts;			/* at least two */
	bool		is_ordered;		/* the first one is to be preferred: any that answers would do */
	int			first;			/* number of the address that the lists begin with, 0-based as the server names them */
	struct ShardHostParts *parts;
} ShardHostList;

/*
 * keywords and values: as for PQconnectStartParams.  NULL where they name one address, or do not fit together, of
 * which libpq tells.
 * Memory: a copy in the current context.
 */
extern ShardHostList *shard_host_list_make(const char *const *keywords, const char *const *values);
extern void shard_host_list_free(ShardHostList *list);

/* The number of the address that pg uses or is asking, 0-based as the server names them; -1: not known. */
extern int	shard_host_list_find(const ShardHostList *list, const PGconn *pg);

/* Has the lists begin with this address; those before it follow at the end. */
extern void shard_host_list_begin_with(ShardHostList *list, int number);

#endif
