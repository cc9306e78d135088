/*
 * ddl_alter.h
 *	  ALTER TABLE of a table that has tables on nodes: what runs on the coordinator and what on the nodes.
 */
#ifndef SHARDFDW_DDL_ALTER_H
#define SHARDFDW_DDL_ALTER_H

#include "postgres.h"

#include "ddl/ddl_call.h"
#include "ddl/ddl_send.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

/* A column whose definition is read from the catalog after the coordinator's part. */
typedef struct ShardAlterColumn
{
	const char *name;
	AlterTableType subtype;		/* AT_AddColumn, AT_AlterColumnType, AT_SetExpression */
	const char *using_text;		/* of AT_AlterColumnType, or NULL */
	char	   *value;			/* for AT_AddColumn: default for existing rows, as text for the nodes; NULL: none */
	bool		is_per_row;		/* there is no such text: the coordinator fills the column */
} ShardAlterColumn;

typedef struct ShardAlterState
{
	ShardDdlCall *call;
	AlterTableStmt *stmt;		/* a copy, with the sub-commands of one step */
	List	   *later;			/* of List: the sub-commands of the steps after it */
	bool		is_later;		/* core has run another step */
	ShardDdlTable *table;
	Relation	rel;
	List	   *local;			/* sub-commands for the coordinator's table and its partitions */
	List	   *markers;		/* sub-commands for the parent only: its unique keys */
	List	   *pieces;			/* sub-commands for the shards, ddl_alter_piece.c */
	List	   *columns;		/* of ShardAlterColumn */
	List	   *constraints;	/* list of char *: names that existed before */
	List	   *indexes;		/* of a sharded table: OIDs of the indexes that it and its partitions had before */
	List	   *chosen_names;	/* list of char *: names that were chosen for constraints that only the nodes have */
	List	   *keys;			/* list of char *: commands that create dropped markers again */
	List	   *index_keys;		/* list of Constraint: keys of a reference table that take over an index */
	List	   *drop_indexes;	/* list of char *: dropped constraints that are plain indexes on replicas of a
								 * reference table */
	List	   *drop_defaults;	/* list of char *: new columns that had a default only for existing rows */
	List	   *defaults;		/* list of char *: columns with changed defaults, which keys of the shards may set,
								 * ddl_key_default.h */
	bool		sets_defaults;	/* a new foreign key sets defaults */
	List	   *options;		/* list of char *: commands that change options of the shards on the coordinator */
	List	   *fills;			/* sequences that nodes need during the statement, ddl_fill.c */
	List	   *filled_from;	/* their OIDs */
	const char *new_owner;		/* role's name, or NULL */
	bool		only_at_home;	/* ONLY was specified for a table at home: a dump may be restored, whose shard may
								 * already have the key */
} ShardAlterState;

/* ddl_alter_step.c: the sub-commands in steps (list of List), which run one after the other. */
extern List *shard_alter_steps(List *cmds);

/* ddl_alter_cmd.c: sorts one sub-command into the lists.  Raises an error if it is not supported. */
extern void shard_alter_classify(ShardAlterState *state, AlterTableCmd *cmd);

/*
 * ddl_alter_constraint.c
 *
 * Sets the attributes of a column's constraint that follow it in the list: the parser keeps them separate
 * (DEFERRABLE, INITIALLY DEFERRED, NOT ENFORCED).  Returns the next item after them.
 */
extern ListCell *shard_alter_take_attributes(Constraint *constraint, List *constraints, ListCell *next);

/* Removes the table's name from columns in CHECK constraints and generation expressions. */
extern void shard_alter_unqualify(ShardAlterState *state);

/* "a, b" for names (list of String). */
extern char *shard_alter_quoted_columns(List *columns);

/* Chooses a name, as core does, for a constraint that only the nodes have. label: its ending. */
extern char *shard_alter_choose_name(ShardAlterState *state, List *columns, const char *label);

/*
 * ddl_alter_piece.c: adds one sub-command to the shards' ALTER TABLE. names: for each shard the quoted name between
 * before and after; NULL for a shard that needs nothing.  If names is NULL, all shards get before and after (NULL:
 * nothing).
 */
extern void shard_alter_piece(ShardAlterState *state, char *before, char **names, char *after);

/* Adds each shard's ALTER TABLE to batch, if there is any. */
extern void shard_alter_send_pieces(ShardAlterState *state, ShardDdlBatch *batch);

/* ddl_alter_key.c: constraints and indexes */

/* Names (list of String) of the primary key's columns; NIL if there is none. */
extern List *shard_alter_primary_key(Oid relid);

/* Column i (0-based) of the shard key; NULL: an expression. */
extern const char *shard_alter_key_column(Oid relid, int i);

extern void shard_alter_add_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_drop_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_validate_constraint(ShardAlterState *state, AlterTableCmd *cmd);
extern void shard_alter_cluster_on(ShardAlterState *state, AlterTableCmd *cmd);
/* Raises an error for a change that only shards would get, if the table has partitions that are not shards. */
extern void shard_alter_check_all_shards(const ShardAlterState *state, const char *what, const char *hint);

extern void shard_alter_foreign_key(ShardAlterState *state, Constraint *constraint);
extern void shard_alter_key_not_null(ShardAlterState *state, Constraint *constraint);
extern void shard_alter_note_constraints(ShardAlterState *state);
extern List *shard_alter_put_keys_aside(ShardAlterState *state);
extern void shard_alter_new_constraints(ShardAlterState *state, ShardDdlBatch *batch);

/*
 * ddl_alter_home.c: a unique key or index without the shard key.  Only a table at home, which has one shard, can have
 * it. shard_alter_home_key() adds the key to the shard's commands.  Functions return false if the table is not at home,
 * or the key has the shard key.
 */
extern bool shard_alter_is_at_home(Oid relid);
extern bool shard_alter_home_key(ShardAlterState *state, Constraint *constraint);
extern bool shard_alter_home_index(Oid relid, const IndexStmt *stmt);

/*
 * ddl_fill.c: a default of a new column that differs from row to row.  Returns an expression that shards compute for
 * their rows, or NULL if the coordinator has to compute the values. before and after add commands to batch: those
 * around the shards' ALTER TABLE, and DROP DEFAULT.
 */
extern char *shard_fill_default(ShardAlterState *state, Relation rel, AttrNumber attno);
extern void shard_fill_before(const ShardAlterState *state, ShardDdlBatch *batch);
extern void shard_fill_after(const ShardAlterState *state, ShardDdlBatch *batch);

/* Do other coordinators run the statement, too, and compute values of reference tables separately? */
extern bool shard_alter_has_peers(void);

#endif
