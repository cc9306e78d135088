/*
 * ddl_text.h
 *	  Prints columns, constraints and options so that they mean the same on nodes.
 */
#ifndef SHARDFDW_DDL_TEXT_H
#define SHARDFDW_DDL_TEXT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * Call these functions between shard_print_settings_begin() and shard_print_settings_end()
 * (deparse/print_settings.h).  Memory: current context.
 */

extern char *shard_ddl_text_type(Oid type, int32 typmod);

/* " COLLATE x", or "" if it is the collation of the type. */
extern char *shard_ddl_text_collation(Oid type, Oid collation);

/*
 * Texts of expressions of a sharded table.  Errors: feature_not_supported for whole rows and system columns, which
 * differ on a shard. shard_ddl_text_refuse_rows() raises that error.
 */
extern void shard_ddl_text_refuse_rows(Oid relid) __attribute__((noreturn));

/*
 * Raises serialization_failure: a definition does not begin or end with the present names, because another session has
 * renamed a schema between two look-ups.  kind: such as "Index".
 */
extern void shard_ddl_text_refuse_changed(const char *kind, const char *name, const char *definition) __attribute__((noreturn));

/* The generation expression of a column. */
extern char *shard_ddl_text_generation(Relation rel, AttrNumber attno);

/* Name of a column's storage mode. */
extern const char *shard_ddl_text_storage(char storage);

/*
 * The text after ADD COLUMN on nodes: name, type, compression, collation, generation expression, DEFAULT value (if
 * not NULL), NOT NULL (if not_null).
 */
extern char *shard_ddl_text_column(Relation rel, AttrNumber attno, const char *value, bool not_null);

/* Definition of a constraint, with the storage parameters of its index. */
extern char *shard_ddl_text_constraint(Oid constraint);

/* The text after "USING" in the definition of an index. */
extern char *shard_ddl_text_index(Oid index);

/* A list of DefElem as in "SET (...)".  Without values: only names, for RESET. */
extern char *shard_ddl_text_options(List *options, bool values);

/*
 * The value of a new column's default for existing rows, computed now, as text.  NULL if there is no default.
 * *per_row: the value may differ from row to row, so there is no such text.  Call it outside
 * shard_print_settings_begin().
 */
extern char *shard_ddl_text_default(Relation rel, AttrNumber attno, bool *per_row);

/*
 * The same as an expression that nodes compute for each row.  NULL if a node might get another result than the
 * coordinator.  Call it outside shard_print_settings_begin().
 *
 * - *functions: list of functions that the expression calls.  Nodes of another version may lack them.
 * - *sequences: list of sequences whose values it takes, each once, under their names on the coordinator.
 */
extern char *shard_ddl_text_row_default(Relation rel, AttrNumber attno, List **functions, List **sequences);

/*
 * Would each coordinator compute different values for existing rows, from the default of new column attno or from a
 * USING expression?  Functions that are not immutable read the clock or settings.
 */
extern bool shard_ddl_text_default_varies(Relation rel, AttrNumber attno);
extern bool shard_ddl_text_using_varies(Relation rel, const char *query_string, Node *raw_expr, Oid type);

/*
 * USING expression of ALTER COLUMN TYPE for nodes, with values in place of the parts that only the coordinator can
 * evaluate.  NULL if a node might get another result.  Call it outside shard_print_settings_begin().
 */
extern char *shard_ddl_text_using(Relation rel, const char *query_string, Node *raw_expr, Oid type);

#endif
