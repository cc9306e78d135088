/*
 * route_scope.c
 *	  Finds the values that the equalities of a statement give to columns.
 *
 * Only equalities that must hold for the rows that the statement reads or changes count.  They are collected in
 * scopes:
 *
 *	 scope of a level	WHERE and ON of inner joins; for the whole level
 *	  +- of the inner side of an outer join	also the join's ON
 *	      +- of a sub-select	outer equalities hold for the outer columns that it uses,
 *								and for its own tables if conditions on its columns
 *								could be checked inside of it
 *
 * A column has a value if an equality in scope, or a chain of equalities, makes it equal to the value.  The operators
 * must be the equality of the key's operator family.
 *
 * The levels are Query nodes of the parser and the rewriter. router.c decides which tables need a value, and routes
 * the statement.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/integer.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/shippable/shippable_rule.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/router/route_scope.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

typedef struct RouteEquality
{
	ShardRouteTerm left;
	ShardRouteTerm right;
	Oid			opno;			/* InvalidOid: both are the same value */
	Oid			collation;
} RouteEquality;

bool
shard_route_scope_is_value(Node *node)
{
	return shard_rule_is_value(node, false) && !expression_returns_set(node);
}

/* The integer that node converts to another integer type, or node.  Such conversions do not change the number. */
static Node *
strip(Node *node)
{
	for (;;)
	{
		if (node != NULL && IsA(node, RelabelType))
			node = (Node *) ((RelabelType *) node)->arg;
		else if (node != NULL && IsA(node, FuncExpr) &&
				 (((FuncExpr *) node)->funcid == F_INT8_INT4 || ((FuncExpr *) node)->funcid == F_INT8_INT2 ||
				  ((FuncExpr *) node)->funcid == F_INT4_INT2 || ((FuncExpr *) node)->funcid == F_INT4_INT8 ||
				  ((FuncExpr *) node)->funcid == F_INT2_INT4 || ((FuncExpr *) node)->funcid == F_INT2_INT8))
			node = linitial(((FuncExpr *) node)->args);
		else
			return node;
	}
}

static bool
get_integer(Node *node, Datum *number)
{
	Const	   *con = (Const *) node;

	if (!IsA(con, Const) || con->constisnull || !shard_integer_is_type(con->consttype))
		return false;
	*number = con->constvalue;
	return shard_integer_convert(number, con->consttype, INT8OID);
}

bool
shard_route_scope_same_value(Node *a, Node *b)
{
	Datum		a_number;
	Datum		b_number;

	a = strip(a);
	b = strip(b);
	if (get_integer(a, &a_number) && get_integer(b, &b_number))
		return DatumGetInt64(a_number) == DatumGetInt64(b_number);
	return equal(a, b) && !contain_volatile_functions(a);
}

static bool
same_column(const ShardRouteTerm *a, const ShardRouteTerm *b)
{
	return a->level != NULL && a->level == b->level && a->varno == b->varno && a->attno == b->attno;
}

bool
shard_route_scope_term(ShardRouteLevel *level, Node *node, ShardRouteTerm *term)
{
	Var		   *var;
	RangeTblEntry *rte;
	List	  **group_exprs;

	memset(term, 0, sizeof(ShardRouteTerm));
	if (shard_route_scope_is_value(node))
	{
		term->value = node;
		return !contain_volatile_functions(node);
	}
	node = strip(node);
	if (node == NULL || !IsA(node, Var))
		return false;
	var = (Var *) node;
	for (int up = var->varlevelsup; up > 0 && level != NULL; up--)
		level = level->parent;
	if (level == NULL || var->varattno <= 0)
		return false;

	rte = rt_fetch(var->varno, level->query->rtable);
	group_exprs = shard_rte_group_exprs(rte);
	if (rte->rtekind == RTE_JOIN || group_exprs != NULL)
	{
		List	   *columns = group_exprs != NULL ? *group_exprs : rte->joinaliasvars;

		return var->varattno <= list_length(columns) &&
			shard_route_scope_term(level, list_nth(columns, var->varattno - 1), term);
	}
	term->level = level;
	term->varno = var->varno;
	term->attno = var->varattno;
	return true;
}

void
shard_route_scope_add(ShardRouteScope *scope, ShardRouteTerm left, ShardRouteTerm right,
					  Oid opno, Oid collation)
{
	RouteEquality *equality = palloc(sizeof(RouteEquality));

	equality->left = left;
	equality->right = right;
	equality->opno = opno;
	equality->collation = collation;
	scope->equalities = lappend(scope->equalities, equality);
}

/* Adds the equalities that must hold if the condition is true. */
static void
add_condition(ShardRouteScope *scope, ShardRouteLevel *level, Node *condition)
{
	if (condition == NULL)
		return;
	if (IsA(condition, List))
	{
		foreach_ptr(Node, part, (List *) condition)
			add_condition(scope, level, part);
	}
	else if (is_andclause(condition))
		add_condition(scope, level, (Node *) ((BoolExpr *) condition)->args);
	else if (IsA(condition, OpExpr) && list_length(((OpExpr *) condition)->args) == 2)
	{
		OpExpr	   *op = (OpExpr *) condition;
		ShardRouteTerm	left;
		ShardRouteTerm	right;

		if (shard_route_scope_term(level, linitial(op->args), &left) &&
			shard_route_scope_term(level, lsecond(op->args), &right) &&
			(left.level != NULL || right.level != NULL))
			shard_route_scope_add(scope, left, right, op->opno, op->inputcollid);
	}
}

/* ---------- scopes ---------- */

static ShardRouteScope *
make_scope(ShardRouteScope *outer)
{
	ShardRouteScope *scope = palloc0(sizeof(ShardRouteScope));

	scope->outer = outer;
	return scope;
}

bool
shard_route_scope_is_transparent(const Query *query)
{
	return query->commandType == CMD_SELECT && query->setOperations == NULL &&
		!query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		!query->hasDistinctOn && query->groupClause == NIL && query->groupingSets == NIL &&
		query->havingQual == NULL && query->limitCount == NULL && query->limitOffset == NULL &&
		query->rowMarks == NIL;
}

/* Adds the equalities with values that a lower level implies for columns of FROM item varno. */
static void
export_values(ShardRouteScope *scope, ShardRouteLevel *level, int varno, ShardRouteLevel *sub)
{
	List	   *columns = sub->query->commandType == CMD_SELECT ? sub->query->targetList :
		sub->query->returningList;
	AttrNumber	attno = 0;

	if (sub->query->setOperations != NULL || sub->query->groupingSets != NIL)
		return;
	foreach_node(TargetEntry, entry, columns)
	{
		ShardRouteTerm	column = {level, varno, ++attno, NULL};
		ShardRouteTerm	inner;

		if (entry->resjunk || !shard_route_scope_term(sub, (Node *) entry->expr, &inner))
			continue;
		if (inner.level == NULL)
			shard_route_scope_add(scope, column, inner, InvalidOid, InvalidOid);
		else if (inner.level == sub)
		{
			/* equalities of the lower level for that column, or their next links */
			foreach_ptr(RouteEquality, equality, sub->scope->equalities)
			{
				if (same_column(&equality->left, &inner) && equality->right.level != sub)
					shard_route_scope_add(scope, column, equality->right,
										  equality->opno, equality->collation);
				else if (same_column(&equality->right, &inner) && equality->left.level != sub)
					shard_route_scope_add(scope, column, equality->left,
										  equality->opno, equality->collation);
			}
		}
	}
}

/* Adds equalities for columns of VALUES that have the same value in all rows. */
static void
export_values_lists(ShardRouteScope *scope, ShardRouteLevel *level, int varno, RangeTblEntry *rte)
{
	List	   *first = linitial(rte->values_lists);

	for (int i = 0; i < list_length(first); i++)
	{
		ShardRouteTerm	column = {level, varno, i + 1, NULL};
		ShardRouteTerm	value;
		bool		same = true;

		if (!shard_route_scope_term(level, list_nth(first, i), &value) || value.level != NULL)
			continue;
		foreach_ptr(List, row, rte->values_lists)
			same &= equal(list_nth(row, i), value.value);
		if (same)
			shard_route_scope_add(scope, column, value, InvalidOid, InvalidOid);
	}
}

/* Adds the equalities of the CTE that rte names, if the CTE has been collected and is not the one being defined. */
static void
export_cte(ShardRouteScope *scope, ShardRouteLevel *level, int varno, RangeTblEntry *rte)
{
	ShardRouteLevel *owner = level;

	if (rte->self_reference)
		return;
	for (int up = rte->ctelevelsup; up > 0 && owner != NULL; up--)
		owner = owner->parent;
	if (owner == NULL)
		return;
	foreach_node(CommonTableExpr, cte, owner->query->cteList)
	{
		if (strcmp(cte->ctename, rte->ctename) == 0 && !cte->cterecursive)
			export_values(scope, level, varno,
						  shard_route_scope_collect(owner, castNode(Query, cte->ctequery), owner->scope));
	}
}

static void
collect_item(ShardRouteLevel *level, int varno, ShardRouteScope *scope)
{
	RangeTblEntry *rte = rt_fetch(varno, level->query->rtable);

	level->scopes[varno] = scope;
	switch (rte->rtekind)
	{
		case RTE_SUBQUERY:
			level->subs[varno] = shard_route_scope_collect(level, rte->subquery, scope);
			export_values(scope, level, varno, level->subs[varno]);
			break;
		case RTE_VALUES:
			export_values_lists(scope, level, varno, rte);
			break;
		case RTE_CTE:
			export_cte(scope, level, varno, rte);
			break;
		default:
			break;
	}
}

/* Collects the conditions that must hold within node, a part of level's join tree. */
static void
collect_jointree(ShardRouteLevel *level, Node *node, ShardRouteScope *scope)
{
	if (node == NULL)
		return;
	check_stack_depth();
	if (IsA(node, RangeTblRef))
		collect_item(level, ((RangeTblRef *) node)->rtindex, scope);
	else if (IsA(node, FromExpr))
	{
		foreach_ptr(Node, item, ((FromExpr *) node)->fromlist)
			collect_jointree(level, item, scope);
		add_condition(scope, level, ((FromExpr *) node)->quals);
	}
	else
	{
		JoinExpr   *join = castNode(JoinExpr, node);
		ShardRouteScope *left = scope;
		ShardRouteScope *right = scope;

		if (join->jointype == JOIN_RIGHT || join->jointype == JOIN_FULL)
			left = make_scope(scope);
		if (join->jointype == JOIN_LEFT || join->jointype == JOIN_FULL)
			right = make_scope(scope);
		collect_jointree(level, join->larg, left);
		collect_jointree(level, join->rarg, right);
		switch (join->jointype)
		{
			case JOIN_INNER:
				add_condition(scope, level, join->quals);
				break;
			case JOIN_LEFT:
				add_condition(right, level, join->quals);
				break;
			case JOIN_RIGHT:
				add_condition(left, level, join->quals);
				break;
			default:
				break;
		}
	}
}

/* Does MERGE insert source rows that have no match? */
static bool
inserts_unmatched(const Query *query)
{
	foreach_node(MergeAction, action, query->mergeActionList)
	{
		if (action->commandType == CMD_INSERT)
			return true;
	}
	return false;
}

/*
 * Collects the conditions of MERGE.  If unmatched source rows count, the target is the inner side of an outer join
 * with the source.
 */
static void
collect_merge(ShardRouteLevel *level)
{
	Query	   *query = level->query;
	Node	  **condition = shard_query_merge_condition(query);
	ShardRouteScope *scope = level->scope;

	if (inserts_unmatched(query))
		scope = make_scope(level->scope);
	foreach_ptr(Node, item, query->jointree->fromlist)
		collect_jointree(level, item, level->scope);
	add_condition(scope, level, condition ? *condition : query->jointree->quals);
	level->scopes[query->resultRelation] = scope;
}

ShardRouteLevel *
shard_route_scope_collect(ShardRouteLevel *parent, Query *query, ShardRouteScope *outer)
{
	ShardRouteLevel *level = palloc0(sizeof(ShardRouteLevel));
	int			nrtes = list_length(query->rtable);

	level->parent = parent;
	level->query = query;
	level->scope = make_scope(outer);
	level->scopes = palloc0(sizeof(ShardRouteScope *) * (nrtes + 1));
	level->subs = palloc0(sizeof(ShardRouteLevel *) * (nrtes + 1));
	if (query->commandType == CMD_MERGE)
		collect_merge(level);
	else
		collect_jointree(level, (Node *) query->jointree, level->scope);
	return level;
}

/* ---------- values ---------- */

static Oid
comparable_type(Oid type)
{
	type = getBaseType(type);
	switch (type)
	{
		case INT2OID:
		case INT4OID:
			return INT8OID;
		case VARCHAROID:
			return TEXTOID;
		default:
			return type;
	}
}

/* Is it the equality of the key? */
static bool
is_key_equality(const RouteEquality *equality, PartitionKey key, int keyno)
{
	int			strategy = key->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber :
		BTEqualStrategyNumber;

	return !OidIsValid(equality->opno) ||
		(get_op_opfamily_strategy(equality->opno, key->partopfamily[keyno]) == strategy &&
		 equality->collation == key->partcollation[keyno]);
}

Node *
shard_route_scope_find_value(const ShardRouteScope *scope, ShardRouteTerm start,
							 PartitionKey key, int keyno)
{
	List	   *known = list_make1(&start);	/* list of ShardRouteTerm: columns equal to start */

	if (start.level == NULL)
		return start.value;
	for (int i = 0; i < list_length(known); i++)
	{
		ShardRouteTerm  *term = list_nth(known, i);

		for (const ShardRouteScope *s = scope; s != NULL; s = s->outer)
		{
			foreach_ptr(RouteEquality, equality, s->equalities)
			{
				ShardRouteTerm  *other;
				bool		seen = false;

				if (same_column(&equality->left, term))
					other = &equality->right;
				else if (same_column(&equality->right, term))
					other = &equality->left;
				else
					continue;
				if (!is_key_equality(equality, key, keyno))
					continue;
				if (other->level == NULL)
				{
					if (comparable_type(exprType(other->value)) == comparable_type(key->parttypid[keyno]))
						return other->value;
					continue;
				}
				foreach_ptr(ShardRouteTerm, column, known)
					seen |= same_column(column, other);
				if (!seen)
					known = lappend(known, other);
			}
		}
	}
	return NULL;
}
