/*
 * multi_assign.c
 *	  Splits multi-column assignments into one sub-select for each column.
 *
 * For (a, b) = (SELECT x, y ...), PostgreSQL keeps the sub-select in a junk entry of the target list.  The entries of
 * a and b have PARAM_MULTIEXPR parameters, possibly within casts.  Core's planner replaces these parameters late.  If
 * the values of an UPDATE are planned as part of another command, each value has to be a separate expression.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "planner/router/multi_assign.h"

/* Makes (SELECT column ...) from sublink, whose sub-select has several columns. column is 1-based. */
static Node *
select_column(const SubLink *sublink, int column)
{
	SubLink    *result = copyObject(unconstify(SubLink *, sublink));
	Query	   *query = castNode(Query, result->subselect);
	List	   *others = NIL;
	TargetEntry *selected = NULL;
	int			number = 0;

	result->subLinkType = EXPR_SUBLINK;
	result->subLinkId = 0;
	foreach_node(TargetEntry, entry, query->targetList)
	{
		if (!entry->resjunk && ++number == column)
			selected = entry;
		else
		{
			entry->resjunk = true;
			others = lappend(others, entry);
		}
	}
	query->targetList = lcons(selected, others);	/* the first entry is the value of the sub-select */
	foreach_node(TargetEntry, entry, query->targetList)
		entry->resno = foreach_current_index(entry) + 1;
	return (Node *) result;
}

static Node *
split_mutator(Node *node, List *targets)
{
	Param	   *param = (Param *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Param) || param->paramkind != PARAM_MULTIEXPR)
		return expression_tree_mutator(node, split_mutator, targets);
	foreach_node(TargetEntry, entry, targets)
	{
		SubLink    *sublink = (SubLink *) entry->expr;

		if (IsA(sublink, SubLink) && sublink->subLinkType == MULTIEXPR_SUBLINK &&
			sublink->subLinkId == param->paramid >> 16)
			return select_column(sublink, param->paramid & 0xFFFF);
	}
	elog(ERROR, "multi-column assignment %d not found", param->paramid >> 16);
}

List *
shard_multi_assign_split(List *targets)
{
	List	   *result = NIL;

	foreach_node(TargetEntry, entry, targets)
	{
		if (entry->resjunk && IsA(entry->expr, SubLink) &&
			((SubLink *) entry->expr)->subLinkType == MULTIEXPR_SUBLINK)
		{
			if (contain_volatile_functions((Node *) entry->expr) ||
				castNode(Query, ((SubLink *) entry->expr)->subselect)->setOperations != NULL)
				return NIL;
			continue;
		}
		result = lappend(result, split_mutator((Node *) entry, targets));
	}
	return result;
}
