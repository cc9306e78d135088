/*
 * param.c
 *	  Parameters of a remote query, and its text from the template.
 *
 *	   fdw_exprs --evaluate--> text forms --+--> $n and values  (query fetcher)
 *	   template  --------------render-------+--> literals		(COPY fetcher)
 *
 * Values are sent as text, in forms that do not depend on the node's settings (tuple/text_form.c).
 * In the template each parameter is followed by a cast to its type.
 *
 * Parameters from SHARD_KEYS_PARAM on are unknown to core.  Their values are arrays that a key join
 * above the scan has created (keys.h).
 */
#include "postgres.h"

#include "access/transam.h"
#include "compat.h"
#include "deparse/select.h"
#include "executor/scan/keys.h"
#include "executor/scan/param.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

/* With more keys, finding their shards costs more than pruning saves. */
#define MAX_PRUNE_KEYS	1000

typedef struct ParamColumn
{
	ExprState  *expr;			/* NULL for keys and constants */
	const Const *constant;
	int			keys_param;		/* number of the parameter that a key join sets; 0: none */
	Oid			type;			/* for a domain, its base type */
	int			text_settings;	/* the settings on which its text form depends */
	bool		has_exec;		/* refers to a Param of the executor, or is a set of keys */
	FmgrInfo	output;
} ParamColumn;

struct ShardParams
{
	EState	   *estate;
	int			nparams;
	bool		has_exec;
	ParamColumn *columns;
};

static bool
contains_exec_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC;
	return expression_tree_walker(node, contains_exec_param, context);
}

static bool
is_keys_param(const Expr *expr)
{
	return IsA(expr, Param) && ((const Param *) expr)->paramkind == PARAM_EXTERN &&
		((const Param *) expr)->paramid >= SHARD_KEYS_PARAM;
}

ShardParams *
shard_param_create(List *exprs, PlanState *parent)
{
	ShardParams *params = palloc0(sizeof(ShardParams));

	params->estate = parent->state;
	params->nparams = list_length(exprs);
	params->columns = palloc0(sizeof(ParamColumn) * Max(params->nparams, 1));
	for (int i = 0; i < params->nparams; i++)
	{
		ParamColumn *column = &params->columns[i];
		Expr	   *expr = list_nth(exprs, i);

		column->type = exprType((Node *) expr);
		if (column->type >= FirstGenbkiObjectId)
			column->type = getBaseType(column->type);
		column->text_settings = shard_type_io_text_settings(column->type);
		if (is_keys_param(expr))
		{
			column->keys_param = ((Param *) expr)->paramid & ~SHARD_SELECT_UNSEEN;
			column->has_exec = true;
		}
		else if (IsA(expr, Const))
			column->constant = (const Const *) expr;
		else
		{
			column->expr = ExecInitExpr(expr, parent);
			column->has_exec = contains_exec_param((Node *) expr, NULL);
		}
		shard_text_form_init(&column->output, column->type, CurrentMemoryContext);
		params->has_exec |= column->has_exec;
	}
	return params;
}

static int
highest_param(const ShardTemplate *template)
{
	int			highest = 0;

	foreach_ptr(Node, part, template)
	{
		if (IsA(part, Integer))
			highest = Max(highest, intVal(part));
	}
	return highest;
}

int
shard_param_count(const ShardTemplate *template, const ShardTemplate *shard_template)
{
	return Max(highest_param(template), highest_param(shard_template));
}

bool
shard_param_has_exec(const ShardParams *params)
{
	return params->has_exec;
}

/* Returns the value of one parameter.  Memory: the per-tuple context, or the key join's. */
static Datum
evaluate_column(const ShardParams *params, const ParamColumn *column, ExprContext *econtext,
				bool *isnull)
{
	if (column->constant != NULL)
	{
		*isnull = column->constant->constisnull;
		return column->constant->constvalue;
	}
	if (column->keys_param == 0)
		return ExecEvalExprSwitchContext(column->expr, econtext, isnull);
	*isnull = false;
	return shard_keys_get(params->estate, column->keys_param);
}

Datum
shard_param_value(const ShardParams *params, int paramno, ExprContext *econtext, bool *isnull)
{
	return evaluate_column(params, &params->columns[paramno - 1], econtext, isnull);
}

/* Expressions are evaluated with the user's settings, but their text form does not depend on these. */
char *
shard_param_text(ShardParams *params, int paramno, Datum value)
{
	ParamColumn *column = &params->columns[paramno - 1];
	int			nestlevel;
	char	   *text;

	nestlevel = shard_text_form_begin_write(column->text_settings);
	text = shard_text_form_write(&column->output, column->type, value);
	shard_text_form_end(nestlevel);
	return text;
}

const char *const *
shard_param_evaluate(ShardParams *params, ExprContext *econtext)
{
	const char **values;

	if (params->nparams == 0)
		return NULL;
	values = palloc0(sizeof(char *) * params->nparams);
	for (int i = 0; i < params->nparams; i++)
	{
		bool		isnull;
		Datum		value = evaluate_column(params, &params->columns[i], econtext, &isnull);

		if (!isnull)
			values[i] = shard_param_text(params, i + 1, value);
	}
	return values;
}

typedef struct BindContext
{
	ShardParams *params;
	ExprContext *econtext;
} BindContext;

static ParamColumn *
referenced_column(const ShardParams *params, const Param *param)
{
	if (param->paramid < 1 || param->paramid > params->nparams)
		elog(ERROR, "pruning condition refers to unknown parameter %d", param->paramid);
	return &params->columns[param->paramid - 1];
}

static Node *
bind_mutator(Node *node, void *arg)
{
	BindContext *context = arg;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param))
	{
		Param	   *param = (Param *) node;
		ParamColumn *column = referenced_column(context->params, param);
		Datum		value;
		bool		isnull;
		int16		typlen;
		bool		typbyval;

		get_typlenbyval(param->paramtype, &typlen, &typbyval);
		value = evaluate_column(context->params, column, context->econtext, &isnull);
		if (!isnull)
			value = datumCopy(value, typbyval, typlen);
		return (Node *) makeConst(param->paramtype, param->paramtypmod, param->paramcollid,
								  typlen, value, isnull, typbyval);
	}
	return expression_tree_mutator(node, bind_mutator, arg);
}

/* Finds sets of keys that are too large for pruning. */
static bool
many_keys_walker(Node *node, void *arg)
{
	const ShardParams *params = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Param))
	{
		int			keys_param = referenced_column(params, (Param *) node)->keys_param;

		return keys_param != 0 &&
			shard_keys_param_count(params->estate, keys_param) > MAX_PRUNE_KEYS;
	}
	return expression_tree_walker(node, many_keys_walker, arg);
}

List *
shard_param_bind(ShardParams *params, ExprContext *econtext, List *quals)
{
	BindContext context = {params, econtext};
	List	   *useful = NIL;
	Node	   *bound;

	foreach_ptr(Node, qual, quals)
	{
		if (!many_keys_walker(qual, params))
			useful = lappend(useful, qual);
	}
	bound = bind_mutator((Node *) useful, &context);

	/* turns a cast of a parameter into a constant, which pruning can use */
	return (List *) eval_const_expressions(NULL, bound);
}

static bool
needs_exec_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return referenced_column(arg, (Param *) node)->has_exec;
	return expression_tree_walker(node, needs_exec_walker, arg);
}

bool
shard_param_known_at_start(const ShardParams *params, List *quals)
{
	return !needs_exec_walker((Node *) quals, unconstify(ShardParams *, params));
}

void
shard_param_render(StringInfo buf, const ShardTemplate *template,
				   const char *const *relations, const char *shards,
				   bool literals, const char *const *values)
{
	foreach_ptr(Node, part, template)
	{
		int			number;

		if (IsA(part, String))
		{
			appendStringInfoString(buf, strVal(part));
			continue;
		}
		number = intVal(part);
		if (number == SHARD_TEMPLATE_UNION)
			appendStringInfoString(buf, shards);
		else if (number <= 0)
			appendStringInfoString(buf, relations[-number]);
		else if (!literals)
			appendStringInfo(buf, "$%d", number);
		else if (values[number - 1] == NULL)
			appendStringInfoString(buf, "NULL");
		else
		{
			char	   *literal = quote_literal_cstr(values[number - 1]);

			appendStringInfoString(buf, literal);
			pfree(literal);
		}
	}
}
