/*
 * statement_entry.c
 *	  What a file of the executor keeps for each running statement (EState).
 */
#include "postgres.h"

#include "plan/statement_entry.h"
#include "utils/memutils.h"

void *
shard_statement_entry_find(const slist_head *list, const EState *estate, Datum key)
{
	slist_iter	iter;

	slist_foreach(iter, unconstify(slist_head *, list))
	{
		ShardStatementEntry *entry = slist_container(ShardStatementEntry, link, iter.cur);

		if (entry->estate == estate && entry->key == key)
			return entry;
	}
	return NULL;
}

static void
forget_entry(void *arg)
{
	ShardStatementEntry *entry = arg;

	slist_delete(entry->list, &entry->link);
}

void *
shard_statement_entry_add(slist_head *list, EState *estate, Datum key, Size size)
{
	ShardStatementEntry *entry = MemoryContextAllocZero(estate->es_query_cxt, size);

	entry->list = list;
	entry->estate = estate;
	entry->key = key;
	entry->callback.func = forget_entry;
	entry->callback.arg = entry;
	slist_push_head(list, &entry->link);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &entry->callback);
	return entry;
}
