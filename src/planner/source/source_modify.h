/*
 * source_modify.h
 *	  A statement over rows that the coordinator computes, while it is being planned.
 *
 * source_modify.c: which statements, and their plans; source_tools.c: what INSERT
 * ... ON CONFLICT and MERGE have in common; source_insert.c, source_merge.c: each of
 * them, in two steps: columns finds out what the child plan has to compute, build
 * makes the text's Query; source_cte.c: such statements in WITH; source_row.c: those
 * that core carries out row by row.
 */
#ifndef SHARDFDW_SOURCE_MODIFY_H
#define SHARDFDW_SOURCE_MODIFY_H

#include "postgres.h"

#include "catalog/pg_attribute.h"
#include "catalog/shard_map.h"
#include "deparse/level.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "plan/plan_private.h"
#include "utils/relcache.h"

typedef struct ShardSourceInfo
{
	Query	   *query;			/* the statement, not changed */
	Relation	rel;			/* its target */
	Index		target;			/* range table index of the target */
	Index		excluded;		/* ON CONFLICT DO UPDATE: that of the row proposed; 0: none */
	Index		source;			/* stands for the rows computed here; no entry of query's range table */
	List	   *columns;		/* TargetEntries: what the child plan computes, each an array for the nodes */
	List	   *key_columns;	/* IntList: 1-based places of the shard key's columns among them */
	List	   *returning;		/* TargetEntries over the target and the source's columns */
	bool		all_shards;		/* shards without source rows run the statement, too */
	bool		skip_unrouted;	/* rows that no shard takes do nothing; otherwise they are an error */

	List	   *insert_values;	/* INSERT: TargetEntries over source columns, for all columns of the target */
	Node	   *condition;		/* MERGE: its ON, over the target and the source's columns */
	List	   *actions;		/* MERGE: MergeActions likewise */

	ShardSelect *select;		/* the text, once the columns are known */
	ShardLevel *level;
} ShardSourceInfo;

/*
 * The map of the partitioned table that query, an INSERT or MERGE, changes; NULL when it is not sharded.  Core
 * can carry out neither ON CONFLICT nor MERGE on a table of two levels, so they wait for partitions that somebody
 * has locked.  Errors: ERRCODE_OBJECT_IN_USE, a partition is being detached.
 */
extern const ShardMap *shard_source_target_map(const Query *query, Oid relid);

/*
 * Fills info, whose rel is open then, for an INSERT ... ON CONFLICT or MERGE on
 * a sharded table.  False: another statement, or one that core can do.
 */
extern bool shard_source_begin(ShardSourceInfo *info, Query *query);

/* The query that computes info's columns. */
extern Query *shard_source_child(const ShardSourceInfo *info);

/*
 * What the executor has to know; without first_column.  Of cscan: methods, the
 * target list, custom_scan_tlist and custom_exprs, as in finished plans.
 */
extern ShardSourcePlan *shard_source_build(ShardSourceInfo *info, CustomScan *cscan);

/* Raises that nodes cannot run the statement, for a reason that is translated already. */
extern void shard_source_refuse(const ShardSourceInfo *info, const char *detail)
			__attribute__((noreturn));

/* expr, of the parser, as it stands in plans: constants folded, functions known. */
extern Node *shard_source_prepare(Node *expr);

/*
 * The same for an expression that is assigned to a column, without the check of its
 * domain: the node checks that when it assigns the value.  With the check if the
 * node's column may not be of the domain.
 */
extern Node *shard_source_prepare_assigned(const ShardSourceInfo *info, Node *expr);

/* One more column of the child plan. share: the same as an equal one that is there. */
extern Var *shard_source_add_column(ShardSourceInfo *info, Expr *expr, bool share);

/* May expr go to nodes beside RETURNING, as far as text made in the user's style is concerned? */
extern bool shard_source_style_ok(const ShardSourceInfo *info, Node *expr);

/* Can nodes compute expr?  A column by itself may be of any type; it stays on the node. */
extern bool shard_source_is_shippable(const ShardSourceInfo *info, Node *expr);

/* Raises unless nodes can compute expr, over the statement's relations and source columns; what: its name. */
extern void shard_source_check(const ShardSourceInfo *info, Node *expr, const char *what);

/* expr in the terms of the statement's text. */
extern Expr *shard_source_convert(ShardSourceInfo *info, Expr *expr);

/* Does expr name the target or the row proposed, or (own) only the target? */
extern bool shard_source_names_target(const ShardSourceInfo *info, Node *expr);

/* Is attno a column of the shard key? */
extern bool shard_source_is_key(const ShardSourceInfo *info, AttrNumber attno);

/* An assignment of NULL to a column that the statement leaves out and that has no default. */
extern TargetEntry *shard_source_null(const ShardSourceInfo *info, Form_pg_attribute att);

/*
 * An assignment of its own value to a column of the shard key: for an UPDATE that
 * assigns to generated columns alone, of which the rewriter leaves nothing.
 */
extern TargetEntry *shard_source_unchanged(const ShardSourceInfo *info);

/* values: of Expr over source columns. A sub-select of them for the FROM of the text, known there as info->source. */
extern Node *shard_source_add_rows(ShardSourceInfo *info, List *values);

/* Columns of the unique constraint that ON CONFLICT ON CONSTRAINT names, as elements to infer an index by. */
extern List *shard_source_constraint_elements(ShardSourceInfo *info, Oid constraint);

/* Raises, as core does, unless rows that are in conflict by these elements are on one shard. */
extern void shard_source_check_elements(ShardSourceInfo *info, List *elements);

/* Raises when entry, an assignment of DO UPDATE whose expression is prepared, changes the shard key. */
extern void shard_source_check_key(ShardSourceInfo *info, TargetEntry *entry);

/*
 * Has core carry out info's INSERT ... ON CONFLICT row by row: the query, which
 * is changed, is one that core can plan then.  Raises where that is not exact.
 */
extern void shard_source_go_by_row(ShardSourceInfo *info);

extern void shard_source_insert_columns(ShardSourceInfo *info);
extern void shard_source_insert_build(ShardSourceInfo *info);

/* In each MERGE of query whose target is a view of a sharded table: puts the view's condition into MERGE's own. */
extern void shard_source_merge_views(Query *query);
extern void shard_source_merge_columns(ShardSourceInfo *info);
extern void shard_source_merge_build(ShardSourceInfo *info);

#endif
