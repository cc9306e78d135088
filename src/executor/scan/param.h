/*
 * param.h
 *	  Parameters of a remote query: their values, and the query's text from its template.
 */
#ifndef SHARDFDW_PARAM_H
#define SHARDFDW_PARAM_H

#include "postgres.h"

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "plan/plan_private.h"

typedef struct ShardParams ShardParams;

/* Prepares exprs (fdw_exprs of the node that parent executes). Memory: current context. */
extern ShardParams *shard_param_create(List *exprs, PlanState *parent);

/*
 * Number of parameters in the text of template and, if it is not NIL, of shard_template.  More
 * parameters may follow that only pruning needs.  These are not sent to nodes.
 */
extern int	shard_param_count(const ShardTemplate *template, const ShardTemplate *shard_template);

/*
 * Evaluates all parameters.  Returns their text forms, NULL for NULL, which a node can read with
 * any DateStyle.  Memory: array and strings in the current context, which must outlive the query.
 */
extern const char *const *shard_param_evaluate(ShardParams *params, ExprContext *econtext);

/*
 * The same for one parameter (1-based), in two steps.  Memory: value in the per-tuple context, text
 * in the current one.
 */
extern Datum shard_param_value(const ShardParams *params, int paramno, ExprContext *econtext,
							   bool *isnull);
extern char *shard_param_text(ShardParams *params, int paramno, Datum value);

/*
 * Returns quals with its Params replaced by Consts.  Memory: current context.
 */
extern List *shard_param_bind(ShardParams *params, ExprContext *econtext, List *quals);

/* Can the parameters that quals contains be evaluated before the first row is requested? */
extern bool shard_param_known_at_start(const ShardParams *params, List *quals);

/* Do they depend on values that change from one rescan to the next? */
extern bool shard_param_has_exec(const ShardParams *params);

/*
 * Appends the template's text. relations[n] replaces table n, shards replaces SHARD_TEMPLATE_UNION.
 * Parameters become $n or, if literals is true, the quoted values.
 */
extern void shard_param_render(StringInfo buf, const ShardTemplate *template,
							   const char *const *relations, const char *shards,
							   bool literals, const char *const *values);

#endif
