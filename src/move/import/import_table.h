/*
 * import_table.h
 *	  What is known of the two tables of an import.
 */
#ifndef SHARDFDW_IMPORT_TABLE_H
#define SHARDFDW_IMPORT_TABLE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* A column whose values the source sends. */
typedef struct ShardImportColumn
{
	const char *name;			/* the same on both sides; not quoted */
	const char *quoted;
	Oid			typid;
	const char *type;			/* as SQL writes it here; of a domain, the type that it is of */
	bool		is_array;
	const char *equals;			/* of the key: the equality operator here, as SQL writes it; NULL: not of the key */
} ShardImportColumn;

typedef struct ShardImportTable
{
	Oid			relid;
	Oid			userid;			/* who writes to it, and whose user mappings are used; InvalidOid: the current user */
	const char *relation;		/* qualified, quoted name here */
	const char *source;			/* the same on the source */
	uint32		source_oid;		/* its OID there */
	int			nsent;			/* columns of the source whose values are sent with a change */
	int			ncolumns;		/* those of them that are not generated here */
	ShardImportColumn *columns;
	int			nkeys;			/* columns that tell which row a change is about; 0 in mode copy, perhaps */
	int		   *keys;			/* 0-based positions in columns */
	const char *column_list;	/* of columns, quoted, with commas */
	List	   *column_names;	/* of columns: String */
} ShardImportTable;

/*
 * Becomes the user who writes to the table, in the restricted operation that there is; triggers and casts of its owner get no
 * other rights.  Returns the user to be set again.  An error ends the transaction, which sets it again.
 */
extern Oid shard_import_become_writer(const ShardImportTable *table);
extern void shard_import_become(Oid userid);

/* Adds a column of the table here, whose relid is known; is_key: it tells which row a change is about.  Memory: current context. */
extern void shard_import_table_add(ShardImportTable *table, const char *name, bool is_key);

/* Has this process read values as the other server writes them, and play a replica, for which the triggers of users do not fire. */
extern void shard_import_set_settings(void);

/* Notes which columns there are, when all have been added.  Memory: current context. */
extern void shard_import_table_finish(ShardImportTable *table);

#endif
