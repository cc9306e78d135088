/*
 * ddl_text.h
 *	  Makes texts of columns, constraints and options that mean the same on nodes.
 */
#ifndef SHARDFDW_DDL_TEXT_H
#define SHARDFDW_DDL_TEXT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * To be called under shard_print_settings_begin() (deparse/print_settings.h).
 * Memory: current context.
 */

extern char *shard_ddl_text_type(Oid type, int32 typmod);

/* " COLLATE x", or "" for the type's own. */
extern char *shard_ddl_text_collation(Oid type, Oid collation);

/*
 * Texts of expressions of a sharded table.  Errors: feature_not_supported for whole rows and
 * system columns, which are others on a shard.  refuse_rows raises that.
 */
extern void shard_ddl_text_refuse_rows(Oid relid) __attribute__((noreturn));

/* The generation expression of a column. */
extern char *shard_ddl_text_generation(Relation rel, AttrNumber attno);

/* Name of a column's storage. */
extern const char *shard_ddl_text_storage(char storage);

/*
 * What follows ADD COLUMN on nodes: name, type, compression, collation, generation
 * expression; DEFAULT value (when not NULL), NOT NULL if asked for.
 */
extern char *shard_ddl_text_column(Relation rel, AttrNumber attno, const char *value, bool not_null);

/* Definition of a constraint, storage parameters of its index included. */
extern char *shard_ddl_text_constraint(Oid constraint);

/*
 * What follows "USING" in the definition of an index.
 */
extern char *shard_ddl_text_index(Oid index);

/* A list of DefElem as what stands in "SET (...)"; names alone for RESET. */
extern char *shard_ddl_text_options(List *options, bool values);

/*
 * The default of a new column for the rows that the table has already: a value computed
 * now, as text; NULL when there is none.  *per_row: the value may differ from row to row,
 * so there is no such text.  To be called outside of begin and end.
 */
extern char *shard_ddl_text_default(Relation rel, AttrNumber attno, bool *per_row);

/*
 * The same as an expression that nodes compute for each row by themselves; NULL where a node might not do what the
 * coordinator would.  It may call *functions (OIDs), which nodes of another version may lack, and take
 * values of *sequences (OIDs, each once), under their names here.  To be called outside of begin and end.
 */
extern char *shard_ddl_text_row_default(Relation rel, AttrNumber attno, List **functions, List **sequences);

/*
 * Would each coordinator compute a value of its own for the rows that the table has already: of a new column
 * (attno, which is there), or by a USING expression?  Functions that are not immutable read the clock, or settings.
 */
extern bool shard_ddl_text_default_varies(Relation rel, AttrNumber attno);
extern bool shard_ddl_text_using_varies(Relation rel, const char *query_string, Node *raw_expr, Oid type);

/*
 * USING expression of ALTER COLUMN TYPE for nodes, with values in place of parts that
 * only the coordinator can evaluate.  NULL when a node might get another result.  To be
 * called outside of begin and end.
 */
extern char *shard_ddl_text_using(Relation rel, const char *query_string, Node *raw_expr, Oid type);

#endif
