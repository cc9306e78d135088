/*
 * printable.c
 *	  Decides whether the text that pg_get_querydef() prints has everything that a Query has.
 *
 * pg_get_querydef() was made for the actions of rules and for views.  It does not print every field, because some
 * fields are set only after a rule has been stored.  It also prints some names that cannot be parsed again.  The text
 * of a statement may be sent to a node only if one of these is true for each field: it is printed, it follows from the
 * printed text, or it is checked to be empty.
 *
 * The list below has every field of the nodes of a Query in PostgreSQL 15 to 19.  scripts/check_layers compares the
 * list with the server's headers and fails if a field is missing here.
 *
 *		printed		in the text
 *		follows		the node's parser derives the value from the text
 *		here		only the coordinator uses the value (permissions, counts, positions in the user's text)
 *		planner		empty until the planner has begun
 *		checked		printed wrongly or not at all: shard_printable_obstacle() refuses values that matter
 *
 * Query
 *		printed		commandType resultRelation cteList rtable jointree mergeActionList mergeJoinCondition targetList
 *		printed		override onConflict returningList returningOldAlias returningNewAlias groupClause groupDistinct
 *		printed		groupingSets havingQual windowClause distinctClause sortClause limitOffset limitCount limitOption
 *		printed		rowMarks setOperations
 *		follows		hasAggs hasWindowFuncs hasTargetSRFs hasSubLinks hasDistinctOn hasRecursive hasModifyingCTE
 *		follows		hasForUpdate hasGroupRTE mergeUseOuterJoin constraintDeps
 *		here		queryId canSetTag rteperminfos hasRowSecurity stmt_location stmt_len
 *		checked		querySource utilityStmt isReturn withCheckOptions mergeTargetRelation
 * FromExpr
 *		printed		fromlist
 *		checked		quals
 * JoinExpr
 *		printed		jointype larg rarg quals alias join_using_alias
 *		follows		isNatural rtindex
 *		checked		usingClause
 * RangeTblEntry
 *		printed		rtekind relid subquery functions funcordinality values_lists ctename alias eref lateral inh
 *		printed		join_using_alias joinaliasvars groupexprs tablesample
 *		follows		relkind jointype joinmergedcols joinleftcols joinrightcols ctelevelsup self_reference coltypes
 *		follows		coltypmods colcollations inFromCl
 *		here		rellockmode perminfoindex requiredPerms checkAsUser selectedCols insertedCols updatedCols
 *		here		extraUpdatedCols
 *		checked		securityQuals security_barrier tablefunc enrname enrtuples
 * CommonTableExpr
 *		printed		ctename aliascolnames ctematerialized ctequery
 *		follows		cterecursive cterefcount ctecolnames ctecoltypes ctecoltypmods ctecolcollations
 *		here		location
 *		checked		search_clause cycle_clause
 * OnConflictExpr
 *		printed		action arbiterElems arbiterWhere constraint onConflictSet onConflictWhere
 *		follows		exclRelIndex exclRelTlist
 *		checked		lockStrength
 * MergeAction
 *		printed		matched matchKind commandType override qual targetList
 *		planner		updateColnos
 * RowMarkClause
 *		printed		rti strength waitPolicy
 *		follows		pushedDown
 * WindowClause
 *		printed		name refname partitionClause orderClause frameOptions startOffset endOffset
 *		follows		startInRangeFunc endInRangeFunc inRangeColl inRangeAsc inRangeNullsFirst winref copiedOrder
 *		planner		runCondition
 * SetOperationStmt
 *		printed		op all larg rarg
 *		follows		colTypes colTypmods colCollations groupClauses
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/printable.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

/* ---------- FROM ---------- */

static const char *
rte_obstacle(const RangeTblEntry *rte)
{
	if (rte->securityQuals != NIL)
		return "row security";
	if (rte->security_barrier)
		return "security barrier";
	switch (rte->rtekind)
	{
		case RTE_RELATION:
		case RTE_SUBQUERY:
		case RTE_JOIN:
		case RTE_FUNCTION:
		case RTE_VALUES:
		case RTE_CTE:
		case RTE_RESULT:
			return NULL;
		default:
			return shard_rte_group_exprs(unconstify(RangeTblEntry *, rte)) != NULL ? NULL : "kind of FROM item";
	}
}

/*
 * Has a join without an alias a merged column that is not a column of one side (FULL JOIN ... USING, or different
 * types)?  Then core prints other columns with that name with a column alias.  A table in FROM can have such an
 * alias, but the target of UPDATE, DELETE or MERGE cannot.
 */
static bool
merges_columns(Node *node, List *rtable)
{
	JoinExpr   *join = (JoinExpr *) node;

	if (node == NULL)
		return false;
	if (IsA(node, FromExpr))
	{
		foreach_ptr(Node, item, ((FromExpr *) node)->fromlist)
			if (merges_columns(item, rtable))
				return true;
		return false;
	}
	if (!IsA(node, JoinExpr))
		return false;
	if (join->usingClause != NIL && join->alias == NULL)
	{
		RangeTblEntry *rte = rt_fetch(join->rtindex, rtable);

		for (int i = 0; i < rte->joinmergedcols; i++)
			if (!IsA(list_nth(rte->joinaliasvars, i), Var))
				return true;
	}
	return merges_columns(join->larg, rtable) || merges_columns(join->rarg, rtable);
}

/* ---------- all ---------- */

/* Conditions in the join tree of INSERT and, from 17 on, MERGE come from rules and views.  Core does not print them. */
static const char *
quals_obstacle(const Query *query)
{
	if (query->commandType == CMD_INSERT && query->jointree->quals != NULL)
		return "condition of a rule";
	if (query->commandType == CMD_MERGE && shard_merge_view_condition(query) != NULL)
		return "condition of a view in MERGE";
	return NULL;
}

/*
 * Does core print the proposed row of ON CONFLICT DO UPDATE in a part of WITH under another name than "excluded"?  It
 * does so if query, at the level above, has a FROM item of that name, such as its own proposed row.
 */
static bool
renames_excluded(const Query *query)
{
	bool		is_named = false;

	foreach_node(RangeTblEntry, rte, query->rtable)
		is_named |= strcmp(rte->eref->aliasname, "excluded") == 0;
	foreach_node(CommonTableExpr, cte, is_named ? query->cteList : NIL)
	{
		const OnConflictExpr *clause = castNode(Query, cte->ctequery)->onConflict;

		if (clause != NULL && clause->action == ONCONFLICT_UPDATE)
			return true;
	}
	return false;
}

const char *
shard_printable_obstacle(const Query *query)
{
	const char *obstacle = quals_obstacle(query);

	if (obstacle != NULL)
		return obstacle;
	if (query->querySource != QSRC_ORIGINAL || query->utilityStmt != NULL)
		return "rule";
	if (query->isReturn)
		return "RETURN";
	if (query->withCheckOptions != NIL)
		return "check option";
	if (query->commandType == CMD_MERGE && shard_merge_target(query) != query->resultRelation)
		return "MERGE into a view";
	if (query->onConflict != NULL && query->onConflict->action != ONCONFLICT_NOTHING &&
		query->onConflict->action != ONCONFLICT_UPDATE)
		return "action of ON CONFLICT";
	if (renames_excluded(query))
		return "two rows named \"excluded\"";
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		obstacle = rte_obstacle(rte);
		if (obstacle != NULL)
			return obstacle;
	}
	foreach_node(CommonTableExpr, cte, query->cteList)
	{
		/* the rewriter has replaced these clauses, but core would still print them */
		if (cte->search_clause != NULL || cte->cycle_clause != NULL)
			return "SEARCH or CYCLE";
	}
	if (query->resultRelation != 0 && merges_columns((Node *) query->jointree, query->rtable))
		return "merged column of a join";
	return NULL;
}

/* ---------- multi-column assignments ---------- */

/* The column of a multi-column assignment that expr assigns, or NULL.  Looks below subscripts, fields and casts. */
static const Param *
assigned_param(const Expr *expr)
{
	const Node *node = (const Node *) expr;

	for (;;)
	{
		if (node != NULL && IsA(node, FieldStore))
			node = linitial(((const FieldStore *) node)->newvals);
		else if (node != NULL && IsA(node, SubscriptingRef) && ((const SubscriptingRef *) node)->refassgnexpr != NULL)
			node = (const Node *) ((const SubscriptingRef *) node)->refassgnexpr;
		else if (node != NULL && IsA(node, CoerceToDomain) &&
				 ((const CoerceToDomain *) node)->coercionformat == COERCE_IMPLICIT_CAST)
			node = (const Node *) ((const CoerceToDomain *) node)->arg;
		else
			break;
	}
	node = strip_implicit_coercions(unconstify(Node *, node));
	return node != NULL && IsA(node, Param) && ((const Param *) node)->paramkind == PARAM_MULTIEXPR ?
		(const Param *) node : NULL;
}

/* Counts the columns of multi-column assignments. */
static bool
count_walker(Node *node, int *count)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_MULTIEXPR)
		(*count)++;
	return expression_tree_walker(node, count_walker, count);
}

bool
shard_printable_assignments(List *targets)
{
	List	   *sublinks = NIL;
	int			nparams = 0;
	int			nfound = 0;
	int			nsublinks = 0;	/* number of sub-selects that have been printed, or whose printing has begun */
	int			column = 0;		/* columns of the last one so far */
	int			ncolumns = 0;	/* columns of the last one in total */

	foreach_node(TargetEntry, entry, targets)
	{
		if (entry->resjunk && IsA(entry->expr, SubLink) &&
			((SubLink *) entry->expr)->subLinkType == MULTIEXPR_SUBLINK)
			sublinks = lappend(sublinks, entry->expr);
	}
	(void) count_walker((Node *) targets, &nparams);

	/* as in get_update_query_targetlist_def() */
	foreach_node(TargetEntry, entry, targets)
	{
		const Param *param = entry->resjunk ? NULL : assigned_param(entry->expr);

		if (entry->resjunk)
			continue;
		if (column < ncolumns)
		{
			SubLink    *sublink = list_nth(sublinks, nsublinks - 1);

			column++;
			if (param == NULL || param->paramid != ((sublink->subLinkId << 16) | column))
				return false;
			nfound++;
		}
		else if (param != NULL)
		{
			SubLink    *sublink;

			if (nsublinks == list_length(sublinks))
				return false;
			sublink = list_nth(sublinks, nsublinks++);
			column = 1;
			ncolumns = ExecCleanTargetListLength(castNode(Query, sublink->subselect)->targetList);
			if (param->paramid != ((sublink->subLinkId << 16) | column))
				return false;
			nfound++;
		}
	}
	return column == ncolumns && nsublinks == list_length(sublinks) && nfound == nparams;
}
