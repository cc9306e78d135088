/*
 * statement_entry.h
 *	  What a file of the executor keeps for each running statement (EState).
 *
 * Statements run within others, so a file has a list of entries, innermost statement first.  An entry leaves its list
 * when the memory of the statement's query is freed, so no clean-up is needed after an error.
 */
#ifndef SHARDFDW_STATEMENT_ENTRY_H
#define SHARDFDW_STATEMENT_ENTRY_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/execnodes.h"

/* Must be the first member of an entry. */
typedef struct ShardStatementEntry
{
	slist_node	link;
	slist_head *list;
	EState	   *estate;
	Datum		key;			/* distinguishes the entries of one statement */
	MemoryContextCallback callback;
} ShardStatementEntry;

/* Returns the statement's entry with this key.  NULL: there is none. */
extern void *shard_statement_entry_find(const slist_head *list, const EState *estate, Datum key);

/* Adds an entry of size bytes, which are zero except for ShardStatementEntry.  Memory: the statement's query. */
extern void *shard_statement_entry_add(slist_head *list, EState *estate, Datum key, Size size);

#endif
