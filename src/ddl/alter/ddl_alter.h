/*
 * ddl_alter.h
 *	  ALTER TABLE of a table that has tables on nodes: what is done where.
 */
#ifndef SHARDFDW_DDL_ALTER_H
#define SHARDFDW_DDL_ALTER_H

#include "postgres.h"

#include "ddl/ddl_call.h"
#include "ddl/ddl_send.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

/* A column whose definition is taken from the catalog when the coordinator's side is done. */
typedef struct ShardAlterColumn
{
	const char *name;
	AlterTableType subtype;		/* AT_AddColumn, AT_AlterColumnType, AT_SetExpression */
	const char *using_text;		/* of AT_AlterColumnType, or NULL */
	char	   *value;			/* of AT_AddColumn: default for rows that are there, as the nodes get it; NULL: none */
	bool		is_per_row;		/* no such text: the coordinator fills the column */
} ShardAlterColumn;

typedef struct ShardAlterState
{
	ShardDdlCall *call;
	AlterTableStmt *stmt;		/* a copy */
	ShardDdlTable *table;
	Relation	rel;
	List	   *local;			/* sub-commands for the coordinator's table and its partitions */
	List	   *markers;		/* those for the parent alone: its unique keys */
	List	   *pieces;			/* sub-commands for the shards, ddl_alter_piece.c */
	List	   *columns;		/* of ShardAlterColumn */
	List	   *constraints;	/* of char *: names that were there before, and are not dropped */
	List	   *indexes;		/* of a sharded table: OIDs of those that it and its partitions had before */
	List	   *chosen_names;	/* of char *: names that were chosen for constraints that the nodes alone have */
	List	   *keys;			/* of char *: commands that make dropped markers again */
	List	   *index_keys;		/* of Constraint: keys of a reference table that take an index over */
	List	   *drop_indexes;	/* of char *: dropped constraints that are plain indexes on replicas of a reference table */
	List	   *drop_defaults;	/* of char *: new columns that had a default only for existing rows */
	List	   *defaults;		/* of char *: columns whose defaults change, which keys of the shards may set, ddl_key_default.h */
	bool		sets_defaults;	/* a new foreign key does so */
	List	   *options;		/* of char *: commands that change options of the shards here */
	List	   *fills;			/* sequences that nodes need meanwhile, ddl_fill.c */
	List	   *filled_from;	/* their OIDs */
	const char *new_owner;		/* role's name, or NULL */
	bool		only_at_home;	/* ONLY was said of a table at home: a dump may be restored, and the shard have the key */
} ShardAlterState;

/* ddl_alter_cmd.c: sorts one sub-command into the lists; raises for what is not supported. */
extern void shard_alter_classify(ShardAlterState *state, AlterTableCmd *cmd);

/*
 * ddl_alter_constraint.c
 *
 * Gives a column's constraint the attributes that follow it in the list: the parser has
 * them apart (DEFERRABLE, INITIALLY DEFERRED, NOT ENFORCED).  Returns what comes behind.
 */
extern ListCell *shard_alter_take_attributes(Constraint *constraint, List *constraints, ListCell *next);

/* Takes the table's own name from columns in CHECK constraints and generation expressions. */
extern void shard_alter_unqualify(ShardAlterState *state);

/* "a, b" for names (of String). */
extern char *shard_alter_quoted_columns(List *columns);

/* As core names a constraint (label: what it ends in) that the nodes alone have. */
extern char *shard_alter_choose_name(ShardAlterState *state, List *columns, const char *label);

/*
 * ddl_alter_piece.c: notes one sub-command of the shards' ALTER TABLE.  names: what each shard has
 * between before and after, quoted, NULL for a shard that needs nothing; NULL when all
 * have the same text, which is before and after (NULL: nothing).
 */
extern void shard_alter_piece(ShardAlterState *state, char *before, char **names, char *after);

/* Adds each shard's ALTER TABLE to batch, if there is anything to do. */
extern void shard_alter_send_pieces(ShardAlterState *state, ShardDdlBatch *batch);

/* ddl_alter_key.c: constraints and indexes */

/* Names (String) of the primary key's columns; NIL when there is none. */
extern List *shard_alter_primary_key(Oid relid);

/* Column i, 0-based, of the shard key; NULL: an expression. */
extern const char *shard_alter_key_column(Oid relid, int i);

extern void shard_alter_add_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_drop_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_validate_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_cluster_on(ShardAlterState *state, AlterTableCmd *cmd);
/* Refuses what only the shards would get, where a table has partitions that are none. */
extern void shard_alter_check_all_shards(const ShardAlterState *state, const char *what, const char *hint);

extern void shard_alter_foreign_key(ShardAlterState *state, Constraint *constraint);
extern void shard_alter_key_not_null(ShardAlterState *state, Constraint *constraint);
extern void shard_alter_note_constraints(ShardAlterState *state);
extern List *shard_alter_put_keys_aside(ShardAlterState *state);
extern void shard_alter_new_constraints(ShardAlterState *state, ShardDdlBatch *batch);

/*
 * ddl_alter_home.c: a key, or unique index, without the shard key, which only the shard of a table at home can
 * have.  False: it is another one, or the table is not at home.  A key is noted for the shard.
 */
extern bool shard_alter_is_at_home(Oid relid);
extern bool shard_alter_home_key(ShardAlterState *state, Constraint *constraint);
extern bool shard_alter_home_index(Oid relid, const IndexStmt *stmt);

/*
 * ddl_fill.c: the default of a new column, whose value differs from row to row, as the shards can compute it for the rows
 * that they have; NULL where the coordinator has to.  before and after add to batch what is needed around
 * the shards' ALTER TABLE, and DROP DEFAULT.
 */
extern char *shard_fill_default(ShardAlterState *state, Relation rel, AttrNumber attno);
extern void shard_fill_before(const ShardAlterState *state, ShardDdlBatch *batch);
extern void shard_fill_after(const ShardAlterState *state, ShardDdlBatch *batch);

/* Do other coordinators run the statement, too, each of which computes values of reference tables by itself? */
extern bool shard_alter_has_peers(void);

#endif
