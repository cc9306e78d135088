/*
 * source_modify.h
 *	  A statement over rows that the coordinator computes, during planning.
 *
 * - source_modify.c: chooses the statements and makes their plans
 * - source_tools.c: functions that INSERT ... ON CONFLICT and MERGE share
 * - source_insert.c, source_merge.c: one of them each, in two steps: "columns" finds the columns that the child plan
 *   has to compute, "build" makes the Query of the remote statement
 * - source_cte.c: statements in WITH
 * - source_row.c: statements that core executes row by row
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
	Index		excluded;		/* ON CONFLICT DO UPDATE: range table index of the proposed row; 0: none */
	Index		source;			/* rows of the coordinator; this index is not in query's range table */
	List	   *columns;		/* TargetEntries that the child plan computes; each column is sent as an array */
	List	   *key_columns;	/* IntList: 1-based positions of the shard key's columns in columns */
	List	   *returning;		/* TargetEntries over the target and the source's columns */
	bool		all_shards;		/* shards without source rows run the statement, too */
	bool		skip_unrouted;	/* rows without a shard are ignored; otherwise they are an error */

	List	   *insert_values;	/* INSERT: TargetEntries over source columns, for all columns of the target */
	Node	   *condition;		/* MERGE: its ON condition, over the target and the source's columns */
	List	   *actions;		/* MERGE: MergeActions over the target and the source's columns */

	ShardSelect *select;		/* the remote statement, once the columns are known */
	ShardLevel *level;
} ShardSourceInfo;

/*
 * The map of the partitioned table that query, an INSERT or MERGE, changes; NULL if the table is not sharded.  Core
 * supports neither ON CONFLICT nor MERGE on a two-level table.  So this function waits for partitions that another
 * session has locked.  Errors: ERRCODE_OBJECT_IN_USE, a partition is being detached.
 */
extern const ShardMap *shard_source_target_map(const Query *query, Oid relid);

/*
 * Fills info, and opens its rel, for an INSERT ... ON CONFLICT or MERGE on a sharded table.  False for other
 * statements, and for statements that core can plan.
 */
extern bool shard_source_begin(ShardSourceInfo *info, Query *query);

/* The query that computes info's columns. */
extern Query *shard_source_child(const ShardSourceInfo *info);

/*
 * Makes the executor's plan, without first_column.  Sets methods, the target list, custom_scan_tlist and custom_exprs
 * of cscan, in their final form.
 */
extern ShardSourcePlan *shard_source_build(ShardSourceInfo *info, CustomScan *cscan);

/* Raises the error that nodes cannot run the statement. detail is already translated. */
extern void shard_source_refuse(const ShardSourceInfo *info, const char *detail)
			__attribute__((noreturn));

/* Prepares an expression of the parser for a plan: folds constants, sets operator functions. */
extern Node *shard_source_prepare(Node *expr);

/*
 * The same for an expression that is assigned to a column, without the check of the column's domain: the node checks
 * the domain when it assigns the value.  The check stays if the type of the node's column may be another one.
 */
extern Node *shard_source_prepare_assigned(const ShardSourceInfo *info, Node *expr);

/* Adds a column to the child plan. share: reuse an equal column. */
extern Var *shard_source_add_column(ShardSourceInfo *info, Expr *expr, bool share);

/*
 * Can expr and RETURNING be sent in one statement?  False if expr makes text that depends on style settings of the
 * session, and RETURNING needs portable settings.
 */
extern bool shard_source_style_ok(const ShardSourceInfo *info, Node *expr);

/* Can nodes compute expr?  A single column may have any type, because it stays on the node. */
extern bool shard_source_is_shippable(const ShardSourceInfo *info, Node *expr);

/*
 * Converts expr, over the statement's relations and source columns, to the terms of the remote statement.  Raises an
 * error unless nodes can compute it. what: its name, translated.
 */
extern Expr *shard_source_convert(ShardSourceInfo *info, Expr *expr, const char *what);

/* Does expr use the target or the proposed row? */
extern bool shard_source_names_target(const ShardSourceInfo *info, Node *expr);

/* An assignment of NULL to a column that the statement leaves out and that has no default. */
extern TargetEntry *shard_source_null(const ShardSourceInfo *info, Form_pg_attribute att);

/*
 * Assigns a column of the shard key to itself: for an UPDATE that assigns to generated columns only, for which the
 * rewriter leaves no assignment.
 */
extern TargetEntry *shard_source_unchanged(const ShardSourceInfo *info);

/*
 * values: list of Expr over source columns.  Returns a sub-select of them for the FROM of the remote statement, named
 * info->source.
 */
extern Node *shard_source_add_rows(ShardSourceInfo *info, List *values);

/* Columns of the unique constraint that ON CONFLICT ON CONSTRAINT names, as elements of index inference. */
extern List *shard_source_constraint_elements(ShardSourceInfo *info, Oid constraint);

/*
 * Raises core's error unless rows that conflict by these elements are on one shard. compare: false accepts any operator
 * class and collation, so that the node decides.
 */
extern void shard_source_check_elements(ShardSourceInfo *info, List *elements, bool compare);

/*
 * Checks the target of each INSERT ... ON CONFLICT of query, also in WITH, before any plan is made: a plan for one shard
 * would only fail on the node.  Errors: core's error if the target lacks the shard key; 0A000 if the table has shards
 * but is no sharded table.
 */
extern void shard_source_check_conflicts(Query *query);

/* Raises an error if entry, a prepared assignment of DO UPDATE, changes the shard key. */
extern void shard_source_check_key(ShardSourceInfo *info, TargetEntry *entry);

/*
 * Lets core execute info's INSERT ... ON CONFLICT row by row: changes the query to one that core can plan.  Raises an
 * error if the result could differ.
 */
extern void shard_source_go_by_row(ShardSourceInfo *info);

extern void shard_source_insert_columns(ShardSourceInfo *info);
extern void shard_source_insert_build(ShardSourceInfo *info);

/* Adds the condition of the view to the conditions of each MERGE of query whose target is a view of a sharded table. */
extern void shard_source_merge_views(Query *query);
extern void shard_source_merge_columns(ShardSourceInfo *info);
extern void shard_source_merge_build(ShardSourceInfo *info);

#endif
