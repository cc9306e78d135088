/*
 * system_row.c
 *	  Finds the table column that an expression stands for, through sub-selects, and decides whether its rows are
 *	  on one shard.
 *
 * Rows are on one shard if a condition that must hold, or the same row comparison, contains one of these:
 *
 *	 tableoid of the table is equal to an expression, or
 *	 all columns of its shard key are equal to expressions
 *
 * The expressions must not depend on the same row.  Two rows are on the same shard if their tableoids or their keys
 * are equal to each other.
 *
 * A column of a sub-select that is computed from a system column counts as that system column, but of an unknown row.
 * A column of a set operation has the system columns of all of its queries, also of unknown rows.  Conditions do not
 * prove anything about unknown rows.  A tid that a user's function returns counts as a ctid of an unknown table.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/shippable/shippable_rule.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "plan/plan_functions.h"
#include "planner/system_row.h"
#include "query_parts.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* A column of a shard key; or tableoid, with an invalid opfamily. */
typedef struct Key
{
	AttrNumber	attno;
	Oid			opfamily;
	Oid			collation;
} Key;

static const Key tableoid_key = {TableOidAttributeNumber, InvalidOid, InvalidOid};

/* ---------- conditions ---------- */

List *
shard_system_row_conditions(Node *from)
{
	List	   *conditions = NIL;

	if (from == NULL)
		return NIL;
	if (IsA(from, FromExpr))
	{
		foreach_ptr(Node, item, ((FromExpr *) from)->fromlist)
			conditions = list_concat(conditions, shard_system_row_conditions(item));
		return list_concat(conditions, shard_query_conditions(((FromExpr *) from)->quals));
	}
	if (IsA(from, JoinExpr) && ((JoinExpr *) from)->jointype == JOIN_INNER)
	{
		conditions = shard_system_row_conditions(((JoinExpr *) from)->larg);
		conditions = list_concat(conditions, shard_system_row_conditions(((JoinExpr *) from)->rarg));
		return list_concat(conditions, shard_query_conditions(((JoinExpr *) from)->quals));
	}
	return NIL;
}

/* ---------- columns ---------- */

const ShardMap *
shard_system_row_map(const Query *query, Index varno)
{
	const RangeTblEntry *rte = rt_fetch(varno, query->rtable);

	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE ||
		(!rte->inh && varno != query->resultRelation))
		return NULL;
	return shard_map_get_levels(rte->relid, true);
}

/* Does the call only convert its argument? */
static bool
is_conversion(const FuncExpr *expr)
{
	return list_length(expr->args) == 1 &&
		(expr->funcformat != COERCE_EXPLICIT_CALL || expr->funcid == F_TO_JSON || expr->funcid == F_TO_JSONB ||
		 expr->funcid == F_ROW_TO_JSON_RECORD);
}

const Node *
shard_system_row_without_casts(const Node *expr)
{
	for (;;)
	{
		if (IsA(expr, RelabelType))
			expr = (const Node *) ((const RelabelType *) expr)->arg;
		else if (IsA(expr, CoerceViaIO))
			expr = (const Node *) ((const CoerceViaIO *) expr)->arg;
		else if (IsA(expr, ArrayCoerceExpr))
			expr = (const Node *) ((const ArrayCoerceExpr *) expr)->arg;
		else if (IsA(expr, FuncExpr) && is_conversion((const FuncExpr *) expr))
			expr = linitial(((const FuncExpr *) expr)->args);
		else
			return expr;
	}
}

/* Is it a system column that may be equal in rows of several shards? */
static bool
is_other_than_tableoid(const ShardRowColumn *column)
{
	return column->is_ctid || column->is_version;
}

/* Are both columns of the same row? */
static bool
is_same_row(const ShardRowColumn *a, const ShardRowColumn *b)
{
	return a->table_query == b->table_query && a->table_varno == b->table_varno && !a->mixed && !b->mixed &&
		a->level->query == b->level->query && a->varno == b->varno && a->sublink == b->sublink;
}

/* Adds a system column to those from which the value of *column may come. */
static void
add_origin(ShardRowColumn *column, const ShardRowColumn *origin)
{
	ShardRowColumn first = *column;

	if (!is_other_than_tableoid(&first) || ((!first.sharded || first.one_shard) && origin->sharded))
		*column = *origin;
	if (!is_other_than_tableoid(&first))
		return;
	column->is_ctid = first.is_ctid || origin->is_ctid;
	column->is_version = first.is_version || origin->is_version;
	if (is_same_row(&first, origin))
		return;
	column->mixed = true;
	column->one_shard = first.one_shard && origin->one_shard && first.relid == origin->relid;
}

static bool resolve(ShardRowLevel *level, const SubLink *sublink, const Node *expr, bool casts, ShardRowColumn *column);
static bool resolve_output(ShardRowLevel *parent, const Query *query, AttrNumber attno, bool casts, ShardRowColumn *column);

/* Cached result of resolve_output() for a column of a query. */
typedef struct KnownOutput
{
	const Query *query;
	AttrNumber	attno;
	bool		casts;
	int			depth;			/* > 0: position in the stack of pending look-ups; 0: the result is known */
	bool		found;
	ShardRowColumn column;
} KnownOutput;

struct ShardRowOutputs
{
	List	   *known;
	int			depth;			/* number of pending look-ups */
	int			lowest;			/* lowest pending look-up that the current one has reached through a recursive query */
};

ShardRowLevel *
shard_system_row_level(ShardRowLevel *parent, const Query *query)
{
	ShardRowLevel *level = palloc(sizeof(ShardRowLevel));

	*level = (ShardRowLevel) {parent, query, 1};
	if (parent != NULL)
	{
		level->depth = parent->depth + 1;
		level->outputs = parent->outputs;
	}
	else
	{
		level->outputs = palloc0(sizeof(ShardRowOutputs));
		level->outputs->lowest = INT_MAX;
	}
	return level;
}

typedef struct ComputedContext
{
	ShardRowLevel *level;
	ShardRowColumn *column;
} ComputedContext;

/*
 * Adds the system columns from which a value is computed.  Comparisons are skipped, because they are checked
 * separately. count() does not depend on the values.
 */
static bool
computed_walker(Node *node, ComputedContext *cxt)
{
	ShardRowColumn origin = {0};

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
		case T_NullTest:
		case T_BooleanTest:
		case T_BoolExpr:
		case T_DistinctExpr:
		case T_ScalarArrayOpExpr:
		case T_RowCompareExpr:
			return false;
		case T_OpExpr:
			if (((OpExpr *) node)->opresulttype == BOOLOID)
				return false;
			break;
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcresulttype == BOOLOID)
				return false;
			break;
		case T_TargetEntry:
			if (((TargetEntry *) node)->resjunk)
				return false;
			break;
		case T_Aggref:
			if (((Aggref *) node)->aggfnoid == F_COUNT_ANY)
				return false;
			break;
		case T_SubLink:
		case T_Var:
			if (resolve(cxt->level, NULL, node, true, &origin) && is_other_than_tableoid(&origin))
				add_origin(cxt->column, &origin);
			return false;
		default:
			break;
	}
	return expression_tree_walker(node, computed_walker, cxt);
}

/* Like resolve(), for a column as an outer query sees it.  It may also be computed from system columns. */
static bool
resolve_column(ShardRowLevel *level, Node *expr, bool casts, ShardRowColumn *column)
{
	ComputedContext cxt = {level, column};

	if (resolve(level, NULL, expr, casts, column))
		return true;
	if (casts)
		(void) computed_walker(expr, &cxt);
	column->mixed = true;
	return is_other_than_tableoid(column);
}

static bool
find_output(ShardRowLevel *parent, const Query *query, AttrNumber attno, bool casts, ShardRowColumn *column)
{
	ShardRowLevel *level = shard_system_row_level(parent, query);
	List	   *outputs = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
	ShardRowColumn *inner = palloc0(sizeof(ShardRowColumn));

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (query->setOperations != NULL)
	{
		foreach_node(RangeTblEntry, rte, query->rtable)
		{
			ShardRowColumn origin = {0};

			if (rte->rtekind == RTE_SUBQUERY && resolve_output(level, rte->subquery, attno, casts, &origin) &&
				is_other_than_tableoid(&origin))
				add_origin(column, &origin);
		}
		column->mixed = true;
		return is_other_than_tableoid(column);
	}
	foreach_node(TargetEntry, entry, outputs)
	{
		ShardRowColumn origin = {0};

		if (entry->resjunk || (attno != 0 && entry->resno != attno) ||
			!resolve_column(level, (Node *) entry->expr, casts, &origin))
			continue;
		if (is_other_than_tableoid(&origin))
			add_origin(inner, &origin);
		else if (attno != 0)
			*inner = origin;
	}
	if (inner->attno == 0 && !is_other_than_tableoid(inner))
		return false;
	*column = *inner;
	column->inner = inner;
	column->inner_frame = palloc0(sizeof(ShardRowFrame));
	column->inner_frame->level = level;
	column->inner_frame->conditions = shard_system_row_conditions((Node *) query->jointree);
	return true;
}

/*
 * Resolves column attno of the result of query, a sub-select in or below parent. attno 0: the system columns of the
 * result.  A query may be referenced several times (WITH), and a recursive query references itself.  The
 * reference to itself adds nothing to the result.
 */
static bool
resolve_output(ShardRowLevel *parent, const Query *query, AttrNumber attno, bool casts, ShardRowColumn *column)
{
	ShardRowOutputs *outputs = parent->outputs;
	KnownOutput *output;
	int			outer_lowest = outputs->lowest;

	foreach_ptr(KnownOutput, known, outputs->known)
	{
		if (known->query != query || known->attno != attno || known->casts != casts)
			continue;
		if (known->depth > 0)
			outputs->lowest = Min(outputs->lowest, known->depth);
		else if (known->found)
			*column = known->column;
		return known->depth == 0 && known->found;
	}
	output = palloc0(sizeof(KnownOutput));
	*output = (KnownOutput) {.query = query, .attno = attno, .casts = casts, .depth = ++outputs->depth};
	outputs->known = lappend(outputs->known, output);
	outputs->lowest = INT_MAX;
	output->found = find_output(parent, query, attno, casts, &output->column);
	/* the result is not final while it depends on a pending look-up */
	if (outputs->lowest < output->depth)
		outputs->known = list_delete_ptr(outputs->known, output);
	else
		outputs->lowest = INT_MAX;
	outputs->lowest = Min(outputs->lowest, outer_lowest);
	outputs->depth--;
	output->depth = 0;
	if (output->found)
		*column = output->column;
	return output->found;
}

/* The query of a CTE that is visible at level.  Sets *level to the level of the CTE's WITH clause. */
static const Query *
find_cte(const RangeTblEntry *rte, ShardRowLevel **level)
{
	for (Index up = rte->ctelevelsup; up > 0 && *level != NULL; up--)
		*level = (*level)->parent;
	foreach_node(CommonTableExpr, cte, *level != NULL ? (*level)->query->cteList : NIL)
	{
		if (strcmp(cte->ctename, rte->ctename) == 0)
			return castNode(Query, cte->ctequery);
	}
	return NULL;
}

/* Is value a tid, and do functions of users compute it from exprs?  Then *column is a ctid of an unknown table. */
static bool
is_tid_of_function(const Node *value, List *exprs, ShardRowColumn *column)
{
	Oid			type = exprType(value);

	if ((type != TIDOID && type != TIDARRAYOID) || shard_plan_functions_of_expr((Node *) exprs) == SHARD_FUNCTIONS_NONE)
		return false;
	column->attno = SelfItemPointerAttributeNumber;
	column->is_ctid = true;
	column->mixed = true;
	return true;
}

static bool
resolve_var(ShardRowLevel *level, const Var *var, bool casts, ShardRowColumn *column)
{
	RangeTblEntry *rte;
	List	  **group_exprs;
	const Query *query = NULL;
	ShardRowLevel *parent;

	for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
		level = level->parent;
	if (level == NULL)
		return false;
	rte = rt_fetch(var->varno, level->query->rtable);
	/* from 18 on, grouped expressions are columns of a separate range table entry */
	group_exprs = shard_rte_group_exprs(rte);
	if (group_exprs != NULL || rte->rtekind == RTE_JOIN)
	{
		List	   *exprs = group_exprs != NULL ? *group_exprs : rte->joinaliasvars;

		if (var->varattno > 0)
			return resolve_column(level, list_nth(exprs, var->varattno - 1), casts, column);
		/* a whole row of a join: the system columns in it */
		foreach_ptr(Node, expr, exprs)
		{
			ShardRowColumn origin = {0};

			if (resolve_column(level, expr, casts, &origin) && is_other_than_tableoid(&origin))
				add_origin(column, &origin);
		}
		return is_other_than_tableoid(column);
	}
	parent = level;
	if (rte->rtekind == RTE_SUBQUERY)
		query = rte->subquery;
	else if (rte->rtekind == RTE_CTE)
		query = find_cte(rte, &parent);
	if (query != NULL)
	{
		if (!resolve_output(parent, query, var->varattno, casts, column))
			return false;
	}
	else if (rte->rtekind != RTE_RELATION)
		return casts && is_tid_of_function((const Node *) var, list_concat_copy(rte->functions, rte->values_lists), column);
	else
	{
		const ShardMap *map = shard_system_row_map(level->query, var->varno);

		column->relid = rte->relid;
		column->attno = var->varattno;
		column->is_ctid = column->attno == SelfItemPointerAttributeNumber;
		column->is_version = column->attno < SelfItemPointerAttributeNumber && column->attno > TableOidAttributeNumber;
		column->table_query = level->query;
		column->table_varno = var->varno;
		column->sharded = map != NULL;
		column->one_shard = map != NULL && map->nshards == 1;
		column->inner = NULL;
	}
	column->level = level;
	column->varno = var->varno;
	return true;
}

/*
 * The column that expr at level stands for. sublink: the SubLink whose test expr is, or NULL. casts: also accept a
 * column below a cast, or below min() and similar aggregates.  The caller zeroes *column.  If the result is false,
 * *column is undefined.
 */
static bool
resolve(ShardRowLevel *level, const SubLink *sublink, const Node *expr, bool casts, ShardRowColumn *column)
{
	const Node *value = expr;
	AttrNumber	attno = 1;

	if (expr == NULL)
		return false;
	expr = casts ? shard_system_row_without_casts(expr) : strip_implicit_coercions(unconstify(Node *, expr));
	switch (nodeTag(expr))
	{
		case T_Var:
			return resolve_var(level, (const Var *) expr, casts, column);
		case T_Aggref:
			if (!casts || ((const Aggref *) expr)->agglevelsup > 0 || ((const Aggref *) expr)->aggfnoid == F_COUNT_ANY)
				return false;
			foreach_node(TargetEntry, entry, ((const Aggref *) expr)->args)
			{
				ShardRowColumn origin = {0};

				if (entry->resjunk || !resolve_column(level, (Node *) entry->expr, casts, &origin))
					continue;
				if (is_other_than_tableoid(&origin))
					add_origin(column, &origin);
				else if (!is_other_than_tableoid(column))
					*column = origin;
			}
			return column->attno != 0 || is_other_than_tableoid(column);
		case T_Param:
			if (((const Param *) expr)->paramkind != PARAM_SUBLINK || sublink == NULL)
				return false;
			attno = ((const Param *) expr)->paramid;
			break;
		case T_SubLink:
			sublink = (const SubLink *) expr;
			if (sublink->subLinkType != EXPR_SUBLINK && sublink->subLinkType != ARRAY_SUBLINK)
				return false;
			break;
		default:
			return casts && (is_tid_of_function(expr, list_make1((void *) expr), column) ||
							 is_tid_of_function(value, list_make1((void *) expr), column));
	}
	if (!resolve_output(level, castNode(Query, sublink->subselect), attno, casts, column))
		return false;
	column->level = level;
	column->varno = 0;
	column->sublink = sublink;
	return true;
}

/* ---------- rows ---------- */

/* Does expr at level stand for column attno of the same row as use? */
static bool
names_column(ShardRowLevel *level, const SubLink *sublink, const Node *expr, const ShardRowColumn *use, AttrNumber attno)
{
	ShardRowColumn column = {0};

	return resolve(level, sublink, expr, attno < 0, &column) && column.attno == attno && is_same_row(&column, use);
}

typedef struct DependContext
{
	ShardRowLevel *level;
	Index		levelsup;
	Index		varno;
} DependContext;

/* Finds a column of entry varno, or of a join, which may have columns of varno. */
static bool
depends_walker(Node *node, DependContext *cxt)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup == cxt->levelsup &&
			(((Var *) node)->varno == cxt->varno ||
			 rt_fetch(((Var *) node)->varno, cxt->level->query->rtable)->rtekind == RTE_JOIN);
	if (IsA(node, Query))
	{
		cxt->levelsup++;
		result = query_tree_walker((Query *) node, depends_walker, cxt, 0);
		cxt->levelsup--;
		return result;
	}
	return expression_tree_walker(node, depends_walker, cxt);
}

/* Does expr in frame depend on the row of use? */
static bool
depends_on(const ShardRowFrame *frame, Node *expr, const ShardRowColumn *use)
{
	DependContext cxt = {use->level, frame->level->depth - use->level->depth, use->varno};

	return use->varno > 0 && depends_walker(expr, &cxt);
}

/* Is op an equality that key supports? */
static bool
is_equality(const OpExpr *op, const Key *key)
{
	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || !op_mergejoinable(op->opno, exprType(linitial(op->args))))
		return false;
	return !OidIsValid(key->opfamily) ||
		(op_in_opfamily(op->opno, key->opfamily) &&
		 (op->inputcollid == key->collation || !OidIsValid(op->inputcollid) || get_collation_isdeterministic(op->inputcollid)));
}

/*
 * Does a condition require that key's column in the row of use has a certain value?  If other is not NULL, the value
 * is the same column in the row of other.  Otherwise it is an expression that does not depend on the row of use, and
 * *value is set. constant: that expression must be the same for all rows.
 */
static bool
find_equal(const ShardRowFrame *frame, const ShardRowColumn *use, const Key *key, const ShardRowColumn *other, bool constant,
		   Node **value)
{
	for (; frame != NULL && frame->level->depth >= use->level->depth; frame = frame->outer)
	{
		foreach_ptr(const OpExpr, op, frame->conditions)
		{
			if (!is_equality(op, key))
				continue;
			for (int side = 0; side < 2; side++)
			{
				Node	   *its = list_nth(op->args, 1 - side);

				if (!names_column(frame->level, frame->sublink, list_nth(op->args, side), use, key->attno))
					continue;
				if (other != NULL ? names_column(frame->level, frame->sublink, its, other, key->attno) :
					!depends_on(frame, its, use) && !contain_volatile_functions(its) &&
					(!constant || shard_rule_is_value(its, true)))
				{
					if (other == NULL)
						*value = its;
					return true;
				}
			}
		}
	}
	return other == NULL && use->inner != NULL && find_equal(use->inner_frame, use->inner, key, NULL, constant, value);
}

/* Is column attno of the row of use one of exprs, which are compared together with use? */
static bool
is_compared_together(const ShardRowScope *scope, List *exprs, const ShardRowColumn *use, AttrNumber attno)
{
	foreach_ptr(Node, expr, exprs)
	{
		/* a row constructor */
		if (IsA(expr, RowExpr) && is_compared_together(scope, ((RowExpr *) expr)->args, use, attno))
			return true;
		if (names_column(scope->level, scope->frame->sublink, expr, use, attno))
			return true;
	}
	return false;
}

/* The columns of a table's shard key, as a list of Key.  NIL if the key has an expression. */
static List *
keys_of(Oid relid)
{
	const ShardLevelKey *below = shard_map_get_levels(relid, true)->part_key;
	Relation	rel = table_open(relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	List	   *keys = NIL;
	bool		plain = true;

	for (int i = 0; i < key->partnatts; i++)
	{
		Key		   *column = palloc(sizeof(Key));

		*column = (Key) {key->partattrs[i], key->partopfamily[i], key->partcollation[i]};
		plain &= column->attno != 0;
		keys = lappend(keys, column);
	}
	table_close(rel, NoLock);
	for (int i = 0; below != NULL && i < below->natts; i++)
	{
		Key		   *column = palloc(sizeof(Key));

		*column = (Key) {below->attnos[i], below->opfamilies[i], below->collations[i]};
		keys = lappend(keys, column);
	}
	return plain ? keys : NIL;
}

bool
shard_system_row_is_one_shard(const ShardRowScope *scope, const ShardRowColumn *use, List *exprs, ShardRowPins pins)
{
	const ShardRowFrame *frame = pins != SHARD_ROW_PINS_NONE ? scope->frame : NULL;
	bool		constant = pins == SHARD_ROW_PINS_CONSTANT;
	Node	   *value;
	List	   *keys;

	/* in ON CONFLICT, the existing row has the shard key of the new row */
	if (use->one_shard || (use->level->query == scope->conflict && use->varno == scope->conflict->resultRelation))
		return true;
	if (use->mixed)
		return false;
	if (is_compared_together(scope, exprs, use, TableOidAttributeNumber) ||
		(frame != NULL && find_equal(frame, use, &tableoid_key, NULL, constant, &value)))
		return true;
	keys = keys_of(use->relid);
	foreach_ptr(const Key, key, keys)
	{
		if (!is_compared_together(scope, exprs, use, key->attno) &&
			(frame == NULL || !find_equal(frame, use, key, NULL, constant, &value)))
			return false;
	}
	return keys != NIL;
}

/* Are both the same constant or the same parameter? */
static bool
same_value(const Node *a, const Node *b)
{
	a = strip_implicit_coercions(unconstify(Node *, a));
	b = strip_implicit_coercions(unconstify(Node *, b));
	return (IsA(a, Const) || (IsA(a, Param) && ((const Param *) a)->paramkind == PARAM_EXTERN)) && equal(a, b);
}

/* Is key's column equal in the rows of both? left, right: values that the same row comparison compares. */
static bool
is_same_key(const ShardRowScope *scope, const ShardRowColumn *a, const ShardRowColumn *b, const Key *key,
			List *left, List *right)
{
	Node	   *a_value;
	Node	   *b_value;
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, left, lc2, right)
	{
		for (int side = 0; side < 2; side++)
		{
			if (names_column(scope->level, scope->frame->sublink, lfirst(side == 0 ? lc : lc2), a, key->attno) &&
				names_column(scope->level, scope->frame->sublink, lfirst(side == 0 ? lc2 : lc), b, key->attno))
				return true;
		}
	}
	return find_equal(scope->frame, a, key, b, false, NULL) || find_equal(scope->frame, b, key, a, false, NULL) ||
		(key->attno > 0 && find_equal(scope->frame, a, key, NULL, true, &a_value) &&
		 find_equal(scope->frame, b, key, NULL, true, &b_value) && same_value(a_value, b_value));
}

bool
shard_system_row_is_same_shard(const ShardRowScope *scope, const ShardRowColumn *a, const ShardRowColumn *b,
							   List *left, List *right)
{
	List	   *keys;

	if (a->relid != b->relid || !a->sharded || !b->sharded)
		return false;
	if (a->mixed || b->mixed)
		return a->one_shard && b->one_shard;
	if (a->one_shard || is_same_row(a, b) || is_same_key(scope, a, b, &tableoid_key, left, right))
		return true;
	keys = keys_of(a->relid);
	foreach_ptr(Key, key, keys)
	{
		if (!is_same_key(scope, a, b, key, left, right))
			return false;
	}
	return keys != NIL;
}

bool
shard_system_row_is_told(ShardRowLevel *level, const Node *part, AttrNumber attno)
{
	const SetOperationStmt *setop = (const SetOperationStmt *) part;
	const Query *query;
	ShardRowColumn table = {0};

	if (!IsA(part, RangeTblRef))
		return shard_system_row_is_told(level, setop->larg, attno) && shard_system_row_is_told(level, setop->rarg, attno);
	query = rt_fetch(((const RangeTblRef *) part)->rtindex, level->query->rtable)->subquery;
	if (!resolve_output(level, query, attno, false, &table) || table.attno != TableOidAttributeNumber)
		return false;
	for (int i = list_length(query->targetList); i > 0; i--)
	{
		ShardRowColumn other = {0};

		if (resolve_output(level, query, i, true, &other) && is_other_than_tableoid(&other) && !is_same_row(&table, &other))
			return false;
	}
	return true;
}

/* ---------- interface ---------- */

bool
shard_system_row_resolve(const ShardRowScope *scope, const Node *expr, ShardRowColumn *column)
{
	memset(column, 0, sizeof(ShardRowColumn));
	return resolve(scope->level, scope->frame->sublink, expr, true, column);
}

bool
shard_system_row_resolve_output(ShardRowLevel *level, const Query *query, AttrNumber attno, ShardRowColumn *column)
{
	memset(column, 0, sizeof(ShardRowColumn));
	return resolve_output(level, query, attno, true, column);
}
