/*
 * whole_insert.c
 *	  Adapts the rows of a shipped INSERT to its target list.
 *
 * Core prints the columns of INSERT by its target list, and the rows by their VALUES or sub-select.  The rewriter has
 * sorted the target list into the table's order and has added defaults.  So the rows are adapted:
 *
 *	   VALUES		each row becomes what the target list computes from it
 *	   sub-select	SELECT targets FROM (sub-select), unless it already returns the targets
 *
 * If a node's table may have another definition, an INSERT gives every column a value, as in postgres_fdw.  Then
 * defaults are those of the coordinator, never those of the node.  An INSERT without columns also gives every column
 * a value, because core would print OVERRIDING SYSTEM VALUE before DEFAULT VALUES, which is invalid SQL.
 */
#include "postgres.h"

#include "access/table.h"
#include "compat.h"
#include "deparse/whole_insert.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef struct SubstituteContext
{
	int			varno;
	List	   *values;			/* the values of its columns */
} SubstituteContext;

static Node *
substitute_mutator(Node *node, void *arg)
{
	SubstituteContext *cxt = arg;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == cxt->varno && ((Var *) node)->varlevelsup == 0)
		return copyObject(list_nth(cxt->values, ((Var *) node)->varattno - 1));
	return expression_tree_mutator(node, substitute_mutator, arg);
}

List *
shard_whole_insert_all(Oid relid, List *targets)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *result = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		TargetEntry *entry = get_tle_by_resno(targets, att->attnum);

		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		if (entry == NULL)
		{
			/* a domain may reject NULL */
			Oid			base = getBaseType(att->atttypid);
			Node	   *null = (Node *) makeNullConst(base, -1, att->attcollation);

			null = coerce_to_domain(null, base, -1, att->atttypid, COERCION_IMPLICIT,
									COERCE_IMPLICIT_CAST, -1, false);
			entry = makeTargetEntry((Expr *) null, att->attnum, pstrdup(NameStr(att->attname)), false);
		}
		result = lappend(result, entry);
	}
	table_close(rel, NoLock);
	return result;
}

/* Names for the columns of targets. */
static List *
target_names(List *targets)
{
	List	   *names = NIL;

	for (int i = 1; i <= list_length(targets); i++)
		names = lappend(names, makeString(psprintf("column%d", i)));
	return names;
}

/* Makes entry i of targets column i of FROM item varno. */
static void
point_targets(List *targets, int varno)
{
	foreach_node(TargetEntry, entry, targets)
	{
		Node	   *expr = (Node *) entry->expr;

		entry->expr = (Expr *) makeVar(varno, foreach_current_index(entry) + 1, exprType(expr),
									   exprTypmod(expr), exprCollation(expr), 0);
	}
}

static void
fit_values(Query *query, int varno, RangeTblEntry *rte)
{
	List	   *rows = NIL;

	foreach_ptr(List, values, rte->values_lists)
	{
		SubstituteContext cxt = {varno, values};
		List	   *row = NIL;

		foreach_node(TargetEntry, entry, query->targetList)
			row = lappend(row, substitute_mutator((Node *) entry->expr, &cxt));
		rows = lappend(rows, row);
	}
	rte->values_lists = rows;
	rte->eref = makeAlias("values", target_names(query->targetList));
	point_targets(query->targetList, varno);
}

/* Is the target list the list of the sub-select's columns, in order? */
static bool
fits_already(List *targets, int varno, Query *subquery)
{
	int			ncolumns = 0;

	foreach_node(TargetEntry, entry, subquery->targetList)
		ncolumns += !entry->resjunk;
	if (ncolumns != list_length(targets))
		return false;
	foreach_node(TargetEntry, entry, targets)
	{
		Var		   *var = (Var *) entry->expr;

		if (!IsA(var, Var) || var->varno != varno || var->varattno != foreach_current_index(entry) + 1)
			return false;
	}
	return true;
}

/* INSERT ... SELECT targets FROM (sub-select) */
static void
fit_subquery(Query *query, int varno, RangeTblEntry *rte)
{
	Query	   *outer = makeNode(Query);
	RangeTblEntry *inner = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *names = target_names(query->targetList);

	*inner = *rte;
	inner->alias = makeAlias("source", NIL);
	inner->eref = copyObject(rte->eref);
	inner->eref->aliasname = pstrdup("source");
	inner->inFromCl = true;
	IncrementVarSublevelsUp((Node *) inner->subquery, 1, 1);
	ref->rtindex = 1;

	outer->commandType = CMD_SELECT;
	outer->querySource = QSRC_ORIGINAL;
	outer->canSetTag = true;
	outer->rtable = list_make1(inner);
	outer->jointree = makeFromExpr(list_make1(ref), NULL);
	foreach_node(TargetEntry, entry, query->targetList)
	{
		Node	   *expr = copyObject((Node *) entry->expr);
		int			colno = foreach_current_index(entry);

		ChangeVarNodes(expr, varno, 1, 0);
		outer->targetList = lappend(outer->targetList,
									makeTargetEntry((Expr *) expr, colno + 1,
													strVal(list_nth(names, colno)), false));
	}
	rte->subquery = outer;
	rte->alias = NULL;
	rte->eref = makeAlias("rows", names);
	point_targets(query->targetList, varno);
}

void
shard_whole_insert_fit(Query *query, bool all_columns, ShardWholeContext *cxt)
{
	int			source = 0;
	Oid			relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	RangeTblEntry *rte;
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(expr, FieldStore) ||
			(IsA(expr, SubscriptingRef) && ((SubscriptingRef *) expr)->refassgnexpr != NULL))
			shard_whole_refuse(cxt, "part of a column is assigned");
	}
	foreach(lc, query->rtable)
	{
		rte = lfirst_node(RangeTblEntry, lc);
		if (rte->rtekind != RTE_SUBQUERY && rte->rtekind != RTE_VALUES)
			continue;
		if (source != 0)
			shard_whole_refuse(cxt, "INSERT through a view");
		source = foreach_current_index(lc) + 1;
	}
	if (all_columns || query->targetList == NIL)
		query->targetList = shard_whole_insert_all(relid, query->targetList);
	if (source == 0 || cxt->reason != NULL)
		return;
	rte = rt_fetch(source, query->rtable);
	if (rte->rtekind == RTE_VALUES)
		fit_values(query, source, rte);
	else if (!fits_already(query->targetList, source, rte->subquery))
		fit_subquery(query, source, rte);
}
