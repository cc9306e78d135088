/*
 * ddl_find.h
 *	  Finds the names of a table's indexes and constraints on its shards.
 */
#ifndef SHARDFDW_DDL_FIND_H
#define SHARDFDW_DDL_FIND_H

#include "postgres.h"

#include "catalog/pg_constraint.h"
#include "ddl/ddl_table.h"

/*
 * "(0, to_regclass('a."b"'), 'name'), ..." for shards of a table: VALUES of a query. object: an object of the table,
 * whose name on each shard is added.
 */
extern char *shard_ddl_list_shards(const ShardDdlTable *table, List *shardnos, const char *object);

/* The description of an index, which is needed after the index has been dropped. */
typedef struct ShardDdlIndex
{
	char	   *name;
	char	   *definition;		/* the text after USING */
	bool		is_unique;
	List	   *others;			/* list of char *: other indexes of the table, which own the indexes with their
								 * names on the shards */
} ShardDdlIndex;

extern ShardDdlIndex *shard_ddl_index_describe(Oid index);

/*
 * Names (unquoted) of an index of a table on each of its shards.  It is the name by the naming rule.  If a shard has no
 * index of that name, it is the name of an index with the same definition, unless the naming rule gives that name to
 * another index.  Queries the nodes in this transaction.  Memory: current context.  Errors: undefined_object, with
 * shard and node, if there is none.
 */
extern char **shard_ddl_find_index(const ShardDdlTable *table, Oid index);

/*
 * The same for an index that may have been dropped on the coordinator. missing_ok: NULL for a shard without the
 * index.
 */
extern char **shard_ddl_find_index_described(const ShardDdlTable *table, const ShardDdlIndex *index, bool missing_ok);

/* Which shards have a valid index, or key if index is a key, that is equal to index by its definition, not its name? */
extern bool *shard_ddl_find_equal_index(const ShardDdlTable *table, Oid index);

/* A copy of the row of a table's constraint on the coordinator; NULL: there is none. */
extern Form_pg_constraint shard_ddl_constraint(Oid relid, const char *name);

/*
 * Have the shards a constraint that the table itself does not have (a foreign key; a key or exclusion constraint of a
 * table at home)?  It has the same name on all shards.  Returns false if no shard has it.  Errors: undefined_object
 * if only some shards have it.
 */
extern bool shard_ddl_find_shard_constraint(const ShardDdlTable *table, const char *name);

/* CHECK constraint: name on each shard, NULL if there is none. definition: the required definition, or NULL for any. */
extern char **shard_ddl_find_check(const ShardDdlTable *table, const char *name, const char *definition);

/*
 * Name of a foreign key of the shards over these columns (list of String).  It references the table with a qualified
 * name, or for each shard the table in others.  NULL if there is none.
 */
extern char *shard_ddl_find_foreign_key(const ShardDdlTable *table, const char *referenced, char **others,
										List *columns, List *referenced_columns);

/* Extended statistics: names on each shard, NULL if there are none. */
extern char **shard_ddl_find_statistics(const ShardDdlTable *table, const char *name);

/*
 * The tables of the coordinator whose tables on nodes reference table's tables there by a foreign key: shards and
 * reference tables (OIDs, without table itself).  Errors: dependent_objects_still_exist for a table that only the
 * node has. known_only: such tables are left out instead.
 */
extern List *shard_ddl_find_referrers(const ShardDdlTable *table, bool known_only);

/*
 * Raises feature_not_supported if actions of foreign keys lead, through the shards of table, from one shard of a
 * partition tree to another one, or between partitions of different trees whose bounds differ.  A statement that nodes
 * run as a whole would use these shards in different commands, and the action would come in between.  referenced: tables
 * on nodes to which each shard is about to refer; NULL: none.
 */
extern void shard_ddl_check_actions(const ShardDdlTable *table, char **referenced);

#endif
