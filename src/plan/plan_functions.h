/*
 * plan/plan_functions.h
 *	  Which functions of users a finished plan calls.
 */
#ifndef SHARDFDW_PLAN_FUNCTIONS_H
#define SHARDFDW_PLAN_FUNCTIONS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* Functions that may read tables: those in other languages than internal and C. */
#define SHARD_FUNCTIONS_NONE		0
#define SHARD_FUNCTIONS_STEADY		0x01	/* STABLE or IMMUTABLE: they read by the snapshot of the statement */
#define SHARD_FUNCTIONS_VOLATILE	0x02	/* they see what the statement has written so far */

/* Of expr, which may be a list; sub-selects in it are not looked into, since they have plans of their own. */
extern int	shard_plan_functions_of_expr(Node *expr);

/*
 * A visitor of shard_plan_walk(): adds to *kinds (an int) those of the expressions of plan itself, apart from
 * plans below it and those of its sub-selects.  Of a ModifyTable these are what is computed when a row is
 * written: RETURNING, ON CONFLICT, check options, actions of MERGE.
 */
extern bool shard_plan_add_functions(Plan *plan, void *kinds);

/* Of a query in all of its levels, before or after it was planned (then without its sub-selects). */
extern int	shard_plan_functions_of_query(Query *query);

/* Of the whole statement. */
extern int	shard_plan_functions_of_statement(const PlannedStmt *stmt);

/* False, which is quick to say: the statement calls no function of users at all. */
extern bool shard_plan_has_functions(const PlannedStmt *stmt);

#endif
