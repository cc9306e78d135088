/*
 * plan/plan_functions.h
 *	  Finds the user-defined functions that a finished plan calls.
 */
#ifndef SHARDFDW_PLAN_FUNCTIONS_H
#define SHARDFDW_PLAN_FUNCTIONS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* Functions that may read tables: those in languages other than internal and C. */
#define SHARD_FUNCTIONS_NONE		0
#define SHARD_FUNCTIONS_STEADY		0x01	/* STABLE or IMMUTABLE: they read with the snapshot of the statement */
#define SHARD_FUNCTIONS_VOLATILE	0x02	/* they see what the statement has already written */

/* Functions of expr, which may be a list.  Does not look into sub-selects, because they have separate plans. */
extern int	shard_plan_functions_of_expr(Node *expr);

/*
 * A callback of shard_plan_walk(): adds to *kinds (an int) the functions in the expressions of plan itself, without
 * lower plans and sub-selects.  For a ModifyTable, these are the expressions computed for each written row:
 * RETURNING, ON CONFLICT, check options, actions of MERGE.
 */
extern bool shard_plan_add_functions(Plan *plan, void *kinds);

/* Functions of a query at all its levels, before planning or after it (then without its sub-selects). */
extern int	shard_plan_functions_of_query(Query *query);

/* Functions of the whole statement. */
extern int	shard_plan_functions_of_statement(const PlannedStmt *stmt);

/* Quick test: false if the statement calls no user-defined functions at all. */
extern bool shard_plan_has_functions(const PlannedStmt *stmt);

#endif
