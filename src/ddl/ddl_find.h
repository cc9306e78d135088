/*
 * ddl_find.h
 *	  What indexes and constraints of a table are called on its shards.
 */
#ifndef SHARDFDW_DDL_FIND_H
#define SHARDFDW_DDL_FIND_H

#include "postgres.h"

#include "ddl/ddl_table.h"

/* The description of an index, which is still needed when the index has been dropped. */
typedef struct ShardDdlIndex
{
	char	   *name;
	char	   *definition;		/* what follows USING */
	bool		is_unique;
	List	   *others;			/* char *: other indexes of the table; those on shards with their names are theirs */
} ShardDdlIndex;

extern ShardDdlIndex *shard_ddl_index_describe(Oid index);

/*
 * Names, unquoted, that an index of a table has on each of its shards: the one that
 * naming gives it, or that of an index with the same definition that is not, by its
 * name, another index's.  Asks the nodes, in this transaction.  Memory: current context.
 * Errors: undefined_object naming shard and node when there is none.
 */
extern char **shard_ddl_find_index(const ShardDdlTable *table, Oid index);

/* The same for an index that may have been dropped on the coordinator.  missing_ok: NULL where a shard has none. */
extern char **shard_ddl_find_index_described(const ShardDdlTable *table, const ShardDdlIndex *index, bool missing_ok);

/* Which shards have a valid index, or a key if it is one, that is equal to index: by its definition, not its name. */
extern bool *shard_ddl_find_equal_index(const ShardDdlTable *table, Oid index);

/*
 * The same for a constraint that the table itself does not have (a foreign key; a key or
 * exclusion constraint of a table at home): it has one name everywhere.  Returns false when no shard has
 * it.  Errors: undefined_object when only some have it.
 */
extern bool shard_ddl_find_shard_constraint(const ShardDdlTable *table, const char *name);

/* CHECK constraint: name on each shard, NULL where there is none; definition: it must have this one, or NULL. */
extern char **shard_ddl_find_check(const ShardDdlTable *table, const char *name, const char *definition);

/*
 * Name of a foreign key of shards over these columns (String) to the table of a qualified name, or to each shard's
 * own in others; NULL when there is none.
 */
extern char *shard_ddl_find_foreign_key(const ShardDdlTable *table, const char *referenced, char **others,
										List *columns, List *referenced_columns);

/* Extended statistics: names on each shard, NULL where there are none. */
extern char **shard_ddl_find_statistics(const ShardDdlTable *table, const char *name);

/*
 * The tables here whose tables on nodes refer by a foreign key to table's there: shards and
 * reference tables (OIDs, without table itself).  Errors: dependent_objects_still_exist for a table that is
 * of the node alone; unless known_only, which leaves such tables out.
 */
extern List *shard_ddl_find_referrers(const ShardDdlTable *table, bool known_only);

#endif
