/*
 * import_table.h
 *	  Describes the two tables of an import.
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
	const char *type;			/* in SQL, on the coordinator; for a domain, its base type */
	bool		is_array;
	const char *equals;			/* for key columns: the equality operator on the coordinator, in SQL; NULL: not a
								 * key column */
} ShardImportColumn;

typedef struct ShardImportTable
{
	Oid			relid;
	Oid			userid;			/* user who writes to the table and whose user mappings are used; InvalidOid: the
								 * current user */
	const char *relation;		/* qualified, quoted name on the coordinator */
	const char *source;			/* the same on the source */
	uint32		source_oid;		/* its OID on the source */
	int			nsent;			/* number of columns of the source whose values are sent with a change */
	int			ncolumns;		/* number of those that are not generated on the coordinator */
	ShardImportColumn *columns;
	int			nkeys;			/* number of columns that identify a row; may be 0 in mode copy */
	int		   *keys;			/* 0-based positions in columns */
	const char *column_list;	/* quoted names of columns, separated by commas */
	List	   *column_names;	/* names of columns: String */
} ShardImportTable;

/*
 * Switches to the user who writes to the table, within the current security-restricted operation.  Triggers and casts
 * of the table's owner get no other rights.  Returns the user to restore.  After an error, the end of the transaction
 * restores it.
 */
extern Oid shard_import_become_writer(const ShardImportTable *table);
extern void shard_import_become(Oid userid);

/*
 * Adds a column of the table, whose relid is set. is_key: the column helps to identify a row.  Memory: current
 * context.
 */
extern void shard_import_table_add(ShardImportTable *table, const char *name, bool is_key);

/*
 * Makes this process read values as the other server prints them, and run as a replica, so that user triggers do not
 * fire.
 */
extern void shard_import_set_settings(void);

/* Computes the remaining fields after all columns were added.  Memory: current context. */
extern void shard_import_table_finish(ShardImportTable *table);

#endif
