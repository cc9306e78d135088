/*
 * level.c
 *	  The SELECT levels of a remote query under construction.
 *
 * Aliases are r1, r2, ... over all levels of a remote query, so that a name means the same relation everywhere.
 *
 * Core can print a Query that was not made by the parser if its range table has the following: entries of tables need
 * no column names (core looks them up).  Entries of sub-selects need column names.  Entries of joins must list the
 * columns of the sub-selects below them.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/level.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
#include "storage/lockdefs.h"
#include "utils/lsyscache.h"

ShardLevel *
shard_level_create(ShardSelect *select, ShardLevel *outer)
{
	ShardLevel *level = palloc0(sizeof(ShardLevel));
	Query	   *query = makeNode(Query);

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, NULL);
	level->outer = outer;
	level->query = query;
	select->levels = lappend(select->levels, level);
	return level;
}

/* Adds a range table entry with the next alias; *item: its RangeTblRef. */
static RangeTblEntry *
add_entry(ShardSelect *select, ShardLevel *level, RTEKind kind, Node **item)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	char	   *alias = psprintf("r%d", ++select->naliases);

	rte->rtekind = kind;
	rte->alias = makeAlias(alias, NIL);
	rte->eref = makeAlias(alias, NIL);
	rte->inFromCl = true;
	level->query->rtable = lappend(level->query->rtable, rte);
	ref->rtindex = list_length(level->query->rtable);
	*item = (Node *) ref;
	return rte;
}

static ShardLevelRel *
add_rel(ShardLevel *level, Index rtindex, Index varno)
{
	ShardLevelRel *rel = palloc0(sizeof(ShardLevelRel));

	rel->rtindex = rtindex;
	rel->varno = varno;
	level->rels = lappend(level->rels, rel);
	return rel;
}

/* 0-based index of the table in select->relids. */
static int
relation_number(ShardSelect *select, Oid relid)
{
	int			relno = 0;

	foreach_oid(other, select->relids)
	{
		if (other == relid)
			return relno;
		relno++;
	}
	select->relids = lappend_oid(select->relids, relid);
	return relno;
}

Node *
shard_level_add_table(ShardSelect *select, ShardLevel *level, Index rtindex, Oid relid,
					  bool has_place)
{
	Node	   *item;
	RangeTblEntry *rte = add_entry(select, level, RTE_RELATION, &item);

	rte->relid = relid;
	rte->relkind = get_rel_relkind(relid);
	rte->rellockmode = AccessShareLock;
	rte->inh = true;			/* otherwise it would be printed with ONLY */
	add_rel(level, rtindex, ((RangeTblRef *) item)->rtindex)->relid = relid;

	if (has_place)
	{
		ShardSelectPlace *place = palloc0(sizeof(ShardSelectPlace));

		place->relid = relid;
		place->alias = rte->alias->aliasname;
		place->number = -relation_number(select, relid);
		select->places = lappend(select->places, place);
	}
	return item;
}

/* A FROM item for a sub-select with named columns. */
static Node *
add_subquery(ShardSelect *select, ShardLevel *level, ShardLevel *sub)
{
	Node	   *item;
	RangeTblEntry *rte = add_entry(select, level, RTE_SUBQUERY, &item);

	rte->subquery = sub->query;
	foreach_node(TargetEntry, entry, sub->query->targetList)
	{
		if (!entry->resjunk)
			rte->eref->colnames = lappend(rte->eref->colnames, makeString(entry->resname));
	}
	return item;
}

Node *
shard_level_add_query(ShardSelect *select, ShardLevel *level, Index rtindex, ShardLevel *sub,
					  List *resnos)
{
	Node	   *item = add_subquery(select, level, sub);

	add_rel(level, rtindex, ((RangeTblRef *) item)->rtindex)->resnos = resnos;
	return item;
}

/* Makes the relations of sub visible in level as columns of item. */
static void
wrap_rels(ShardLevel *level, Node *item, ShardLevel *sub)
{
	foreach_ptr(ShardLevelRel, inner, sub->rels)
		add_rel(level, inner->rtindex, ((RangeTblRef *) item)->rtindex)->wrapped = sub;
}

Node *
shard_level_add_wrapped(ShardSelect *select, ShardLevel *level, ShardLevel *sub)
{
	Node	   *item = add_subquery(select, level, sub);

	wrap_rels(level, item, sub);
	return item;
}

Node *
shard_level_add_union(ShardSelect *select, ShardLevel *level, ShardLevel *sub)
{
	Node	   *item;
	RangeTblEntry *rte = add_entry(select, level, RTE_CTE, &item);

	/* printed as its name and alias, by which the template finds its place */
	rte->ctename = pstrdup(SHARD_SELECT_UNION_NAME);
	select->union_alias = rte->alias->aliasname;
	select->union_level = sub;
	wrap_rels(level, item, sub);
	return item;
}

/* A join needs a range table entry, too. list_columns() adds its columns when the level is complete. */
Node *
shard_level_add_join(ShardLevel *level, JoinType jointype, Node *left, Node *right, List *quals)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	JoinExpr   *join = makeNode(JoinExpr);

	rte->rtekind = RTE_JOIN;
	rte->jointype = jointype;
	rte->eref = makeAlias("join", NIL);
	rte->inFromCl = true;
	level->query->rtable = lappend(level->query->rtable, rte);

	join->jointype = jointype;
	join->larg = left;
	join->rarg = right;
	join->quals = quals != NIL ? (Node *) make_ands_explicit(quals) : NULL;
	join->rtindex = list_length(level->query->rtable);
	return (Node *) join;
}

void
shard_level_add_hidden(ShardLevel *level, Relids relids, bool nulls, List *shown)
{
	int			rtindex = -1;

	while ((rtindex = bms_next_member(relids, rtindex)) >= 0)
	{
		ShardLevelRel *rel = add_rel(level, rtindex, 0);

		rel->nulls = nulls;
		rel->shown = shown;
	}
}

void
shard_level_set_nullable(ShardLevel *level, Relids relids)
{
	foreach_ptr(ShardLevelRel, rel, level->rels)
	{
		if (bms_is_member(rel->rtindex, relids))
			rel->nullable = true;
	}
}

ShardLevelRel *
shard_level_find(ShardLevel *level, Index rtindex, int *levelsup)
{
	*levelsup = 0;
	for (; level != NULL; level = level->outer)
	{
		foreach_ptr(ShardLevelRel, rel, level->rels)
		{
			if (rel->rtindex == rtindex)
				return rel;
		}
		(*levelsup)++;
	}
	elog(ERROR, "unexpected column of relation %u in a remote query", rtindex);
	return NULL;				/* keep compiler quiet */
}

Var *
shard_level_column(ShardLevel *level, Index varno, ShardLevel *sub, Expr *converted)
{
	Alias	   *eref = rt_fetch(varno, level->query->rtable)->eref;
	TargetEntry *column = NULL;

	foreach_node(TargetEntry, entry, sub->query->targetList)
	{
		if (equal(entry->expr, converted))
		{
			column = entry;
			break;
		}
	}
	if (column == NULL)
	{
		int			colno = list_length(sub->query->targetList) + 1;

		column = makeTargetEntry(converted, colno, psprintf("c%d", colno), false);
		sub->query->targetList = lappend(sub->query->targetList, column);
		eref->colnames = lappend(eref->colnames, makeString(column->resname));
	}
	return makeVar(varno, column->resno, exprType((Node *) column->expr),
				   exprTypmod((Node *) column->expr), exprCollation((Node *) column->expr), 0);
}

void
shard_level_add_constant(ShardLevel *level)
{
	Const	   *one = makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(1), false, true);

	level->query->targetList = list_make1(makeTargetEntry((Expr *) one, 1, pstrdup("c1"), false));
}

/* The columns of a FROM item that is a sub-select or the union; otherwise NIL. */
static List *
subselect_columns(const ShardSelect *select, const RangeTblEntry *rte)
{
	if (rte->rtekind == RTE_SUBQUERY)
		return rte->subquery->targetList;
	return rte->rtekind == RTE_CTE ? select->union_level->query->targetList : NIL;
}

/* The columns of the sub-selects below a FROM item, as Vars.  Fills the entries of the joins between. */
static List *
list_columns(const ShardSelect *select, Query *query, Node *item)
{
	List	   *vars = NIL;

	if (IsA(item, RangeTblRef))
	{
		int			varno = ((RangeTblRef *) item)->rtindex;

		foreach_node(TargetEntry, entry, subselect_columns(select, rt_fetch(varno, query->rtable)))
		{
			Node	   *expr = (Node *) entry->expr;

			if (!entry->resjunk)
				vars = lappend(vars, makeVar(varno, list_length(vars) + 1, exprType(expr),
											 exprTypmod(expr), exprCollation(expr), 0));
		}
	}
	else
	{
		JoinExpr   *join = castNode(JoinExpr, item);
		RangeTblEntry *rte = rt_fetch(join->rtindex, query->rtable);
		List	   *left = list_columns(select, query, join->larg);
		List	   *right = list_columns(select, query, join->rarg);

		for (int i = 1; i <= list_length(left); i++)
			rte->joinleftcols = lappend_int(rte->joinleftcols, i);
		for (int i = 1; i <= list_length(right); i++)
			rte->joinrightcols = lappend_int(rte->joinrightcols, i);
		vars = list_concat_copy(left, right);
		rte->joinaliasvars = vars;
		foreach_node(Var, var, vars)
		{
			Alias	   *eref = rt_fetch(var->varno, query->rtable)->eref;

			rte->eref->colnames = lappend(rte->eref->colnames,
										  list_nth(eref->colnames, var->varattno - 1));
		}
	}
	return vars;
}

void
shard_level_finish(const ShardSelect *select, ShardLevel *level)
{
	Query	   *query = level->query;

	foreach_ptr(Node, item, query->jointree->fromlist)
		(void) list_columns(select, query, item);
	if (level->quals != NIL)
		query->jointree->quals = (Node *) make_ands_explicit(level->quals);
	if (level->having != NIL)
		query->havingQual = (Node *) make_ands_explicit(level->having);
}
