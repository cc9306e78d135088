/*
 * source_tools.c
 *	  Functions that INSERT ... ON CONFLICT and MERGE over rows of the coordinator share during planning
 *	  (source_modify.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "planner/source/source_modify.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

void
shard_source_refuse(const ShardSourceInfo *info, const char *detail)
{
	const char *name = RelationGetRelationName(info->rel);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 info->query->commandType == CMD_MERGE ?
			 errmsg("cannot run this MERGE on sharded table \"%s\"", name) :
			 errmsg("cannot run this INSERT ... ON CONFLICT on sharded table \"%s\"", name),
			 errdetail_internal("%s", detail)));
}

Node *
shard_source_prepare(Node *expr)
{
	return (Node *) expression_planner((Expr *) copyObject(expr));
}

Node *
shard_source_prepare_assigned(const ShardSourceInfo *info, Node *expr)
{
	const ShardMap *map = shard_map_get_levels(RelationGetRelid(info->rel), true);

	/* removed before planning, which would leave a cast if the domain has no constraints */
	while (IsA(expr, CoerceToDomain) &&
		   ((CoerceToDomain *) expr)->coercionformat == COERCE_IMPLICIT_CAST &&
		   !(map->foreign_definition && shard_domain_has_constraints(exprType(expr))))
		expr = (Node *) ((CoerceToDomain *) expr)->arg;
	return shard_source_prepare(expr);
}

Var *
shard_source_add_column(ShardSourceInfo *info, Expr *expr, bool share)
{
	TargetEntry *entry = NULL;
	int			colno;

	if (share)
	{
		foreach_node(TargetEntry, column, info->columns)
		{
			if (equal(column->expr, expr))
				entry = column;
		}
	}
	if (entry == NULL)
	{
		colno = list_length(info->columns) + 1;
		if (colno > MaxTupleAttributeNumber)
			shard_source_refuse(info, _("It needs too many columns of the source."));
		if (exprType((Node *) expr) == RECORDOID)
			shard_source_refuse(info, _("It uses a row of the source as a whole."));
		entry = makeTargetEntry(copyObject(expr), colno, psprintf("c%d", colno), false);
		info->columns = lappend(info->columns, entry);
	}
	return makeVarFromTargetEntry(info->source, entry);
}

bool
shard_source_names_target(const ShardSourceInfo *info, Node *expr)
{
	Relids		relids = pull_varnos(NULL, expr);

	return bms_is_member(info->target, relids);
}

TargetEntry *
shard_source_null(const ShardSourceInfo *info, Form_pg_attribute att)
{
	Oid			type = getBaseType(att->atttypid);
	Node	   *null = (Node *) makeNullConst(type, -1, get_typcollation(type));

	if (shard_map_get_levels(RelationGetRelid(info->rel), true)->foreign_definition &&
		shard_domain_has_constraints(att->atttypid))
		null = coerce_to_domain(null, type, -1, att->atttypid, COERCION_IMPLICIT,
								COERCE_IMPLICIT_CAST, -1, false);
	return makeTargetEntry((Expr *) null, att->attnum, pstrdup(NameStr(att->attname)), false);
}

TargetEntry *
shard_source_unchanged(const ShardSourceInfo *info)
{
	AttrNumber	attno = RelationGetPartitionKey(info->rel)->partattrs[0];
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(info->rel), attno - 1);

	return makeTargetEntry((Expr *) makeVar(info->target, attno, att->atttypid, att->atttypmod,
											att->attcollation, 0),
						   attno, pstrdup(NameStr(att->attname)), false);
}

/* Is it an assigned constant whose type the node has, because a column has that type? */
static bool
is_column_constant(const ShardSourceInfo *info, Node *expr)
{
	TupleDesc	desc = RelationGetDescr(info->rel);

	if (!IsA(expr, Const))
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && (att->atttypid == ((Const *) expr)->consttype ||
								   getBaseType(att->atttypid) == ((Const *) expr)->consttype))
			return true;
	}
	return ((Const *) expr)->constisnull;
}

bool
shard_source_style_ok(const ShardSourceInfo *info, Node *expr)
{
	return !shard_shippable_casts_styled(expr) ||
		!shard_shippable_returns_styled_text((Node *) info->query->returningList);
}

bool
shard_source_is_shippable(const ShardSourceInfo *info, Node *expr)
{
	Relids		relids = bms_make_singleton(info->target);

	relids = bms_add_member(relids, info->source);
	if (info->excluded != 0)
		relids = bms_add_member(relids, info->excluded);
	if (is_column_constant(info, expr))
		return true;
	return shard_shippable_expr(NULL, relids, (Expr *) expr) && shard_source_style_ok(info, expr);
}

Expr *
shard_source_convert(ShardSourceInfo *info, Expr *expr, const char *what)
{
	if (!shard_source_is_shippable(info, (Node *) expr))
		shard_source_refuse(info, psprintf(_("Nodes cannot compute %s: it uses a function, type, collation or sub-select that they may not have."),
										   what));
	return shard_convert_expr(info->select, info->level, expr);
}

/* ---- the rows in the remote statement ---- */

/* Can an array of this type be sent as such?  Other types are sent as arrays of text, and cast. */
static bool
has_plain_array(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case BYTEAOID:
		case UUIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case INTERVALOID:
		case JSONOID:
		case JSONBOID:
			return true;
		default:
			return false;
	}
}

/* unnest(($paramno)::type[]) */
static RangeTblFunction *
make_unnest(int paramno, Oid type)
{
	RangeTblFunction *function = makeNode(RangeTblFunction);
	Oid			collation = get_typcollation(type);
	Expr	   *array = shard_convert_typed_param(paramno, get_array_type(type), collation);

	function->funcexpr = (Node *) makeFuncExpr(F_UNNEST_ANYARRAY, type, list_make1(array), collation,
											   collation, COERCE_EXPLICIT_CALL);
	((FuncExpr *) function->funcexpr)->funcretset = true;
	function->funccolcount = 1;
	return function;
}

/* Column colno of the arrays, as a value of type. */
static Expr *
array_value(int colno, Oid type)
{
	CoerceViaIO *cast;
	Oid			base = getBaseType(type);

	if (has_plain_array(base))
		return (Expr *) makeVar(1, colno, base, -1, get_typcollation(base), 0);
	cast = makeNode(CoerceViaIO);
	cast->arg = (Expr *) makeVar(1, colno, TEXTOID, -1, get_typcollation(TEXTOID), 0);
	cast->resulttype = base;
	cast->resultcollid = get_typcollation(base);
	cast->coerceformat = COERCE_EXPLICIT_CAST;
	cast->location = -1;
	return (Expr *) cast;
}

Node *
shard_source_add_rows(ShardSourceInfo *info, List *values)
{
	ShardLevel *sub = shard_level_create(info->select, NULL);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	char	   *alias = psprintf("r%d", ++info->select->naliases);
	List	   *names = NIL;

	foreach_node(TargetEntry, column, info->columns)
	{
		Oid			base = getBaseType(exprType((Node *) column->expr));

		rte->functions = lappend(rte->functions,
								 make_unnest(column->resno, has_plain_array(base) ? base : TEXTOID));
		names = lappend(names, makeString(column->resname));
	}
	rte->rtekind = RTE_FUNCTION;
	rte->alias = makeAlias(alias, names);
	rte->eref = makeAlias(alias, names);
	rte->inFromCl = true;
	sub->query->rtable = list_make1(rte);
	ref->rtindex = 1;
	sub->query->jointree->fromlist = list_make1(ref);

	foreach_ptr(Expr, value, values)
	{
		int			colno = list_length(sub->query->targetList) + 1;

		if (IsA(value, Var))
			value = array_value(((Var *) value)->varattno, ((Var *) value)->vartype);
		sub->query->targetList = lappend(sub->query->targetList,
										 makeTargetEntry(value, colno, psprintf("c%d", colno), false));
	}
	return shard_level_add_query(info->select, info->level, info->source, sub, NIL);
}
