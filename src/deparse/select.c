/*
 * select.c
 *	  Builds the SQL text of a remote query as a template.
 *
 * The text is printed by core's pg_get_querydef() from a Query made here, so
 * quoting, precedence and syntax are core's.  It is printed with nothing but
 * pg_catalog in search_path and with settings that make literals unambiguous.
 *
 *	  planner's expressions
 *		-> converted: Vars of table 1; what the coordinator evaluates becomes $n
 *		-> Query -> text
 *		-> cut at each $n and at the table's name -> template
 *
 * The cutting steps over literals and quoted names, so nothing that a user
 * wrote can be taken for a parameter or for the table.
 *
 * Functions with a syntax of their own (EXTRACT, AT TIME ZONE, ...) are called
 * by name: some minor releases print the arguments of that syntax unquoted.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/partial_agg.h"
#include "deparse/select.h"
#include "deparse/shippable.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "tuple/type_io.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

/* Parameter numbers from here on stand for pieces of text: 1-based index into raw_texts added to it. */
#define FIRST_RAW_TEXT 1000000

/* The table's alias in the remote query. */
#define TABLE_ALIAS "r1"

typedef struct ConvertContext
{
	ShardSelect *select;
	bool		conditional;	/* see shard_shippable_is_param() */
	bool		for_pruning;	/* parameters as such, everything else untouched */
	Node	   *case_test;		/* what CaseTestExpr stands for */
} ConvertContext;

static Node *convert_mutator(Node *node, ConvertContext *cxt);

ShardSelect *
shard_select_begin(Index rtindex, Oid relid)
{
	ShardSelect *select = palloc0(sizeof(ShardSelect));
	Query	   *query = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);

	rte->rtekind = RTE_RELATION;
	rte->relid = relid;
	rte->relkind = get_rel_relkind(relid);
	rte->rellockmode = AccessShareLock;
	rte->inh = true;			/* or it is printed with ONLY */
	rte->inFromCl = true;
	rte->alias = makeAlias(TABLE_ALIAS, NIL);
	rte->eref = makeAlias(TABLE_ALIAS, NIL);
	ref->rtindex = 1;

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(rte);
	query->jointree = makeFromExpr(list_make1(ref), NULL);

	select->rtindex = rtindex;
	select->relid = relid;
	select->relids = list_make1_oid(relid);
	select->query = query;
	return select;
}

/* ($paramno)::type: the cast tells the node the parameter's type. */
static Node *
make_param(int paramno, Oid type, Oid collation)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = paramno;
	param->paramtype = type;
	param->paramtypmod = -1;
	param->paramcollid = collation;
	param->location = -1;
	return (Node *) makeRelabelType((Expr *) param, type, -1, collation, COERCE_EXPLICIT_CAST);
}

int
shard_select_param(ShardSelect *select, Expr *expr)
{
	int			paramno = 0;
	ListCell   *lc;

	foreach(lc, select->params)
	{
		paramno++;
		if (equal(lfirst(lc), expr))
			return paramno;
	}
	select->params = lappend(select->params, copyObject(expr));
	return paramno + 1;
}

/* expr COLLATE collation when that is not what expr implies (see shippable.h). */
static Node *
name_collation(Node *expr, Oid collation, Oid implied)
{
	CollateExpr *collate;

	if (!shard_shippable_names_collation(collation, implied))
		return expr;
	collate = makeNode(CollateExpr);
	collate->arg = (Expr *) expr;
	collate->collOid = collation;
	collate->location = -1;
	return (Node *) collate;
}

static Node *
convert_param(Node *node, ConvertContext *cxt)
{
	Oid			type = exprType(node);
	Oid			collation = exprCollation(node);
	int			paramno = shard_select_param(cxt->select, (Expr *) node);

	if (cxt->for_pruning)
	{
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = paramno;
		param->paramtype = type;
		param->paramtypmod = exprTypmod(node);
		param->paramcollid = collation;
		param->location = -1;
		return (Node *) param;
	}
	return name_collation(make_param(paramno, type, collation),
						  collation, get_typcollation(type));
}

/* CASE x WHEN y ...: as CASE WHEN x = y ..., whose test expressions can be printed in any form. */
static Node *
convert_case(CaseExpr *expr, ConvertContext *cxt)
{
	ConvertContext inner = *cxt;
	CaseExpr   *result = makeNode(CaseExpr);
	ListCell   *lc;

	*result = *expr;
	inner.conditional = true;
	if (expr->arg != NULL && !cxt->for_pruning)
	{
		inner.case_test = convert_mutator((Node *) expr->arg, cxt);
		result->arg = NULL;
	}
	result->args = NIL;
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		CaseWhen   *converted = makeNode(CaseWhen);

		converted->expr = (Expr *) convert_mutator((Node *) when->expr, &inner);
		converted->result = (Expr *) convert_mutator((Node *) when->result, &inner);
		converted->location = -1;
		result->args = lappend(result->args, converted);
	}
	result->defresult = (Expr *) convert_mutator((Node *) expr->defresult, &inner);
	return (Node *) result;
}

/*
 * Text of a date or time stamp in ISO form: json_extract_path_text(to_json(expr)).
 * Other styles name time zones by abbreviations that can mean another zone, or
 * none, when they are read.
 */
static Expr *
make_iso_text(Expr *expr)
{
	Const	   *path = makeConst(TEXTARRAYOID, -1, DEFAULT_COLLATION_OID, -1,
								 PointerGetDatum(construct_empty_array(TEXTOID)), false, false);
	FuncExpr   *json;
	FuncExpr   *text;

	json = makeFuncExpr(F_TO_JSON, JSONOID, list_make1(expr), InvalidOid, InvalidOid,
						COERCE_EXPLICIT_CALL);
	text = makeFuncExpr(F_JSON_EXTRACT_PATH_TEXT, TEXTOID, list_make2(json, path),
						DEFAULT_COLLATION_OID, InvalidOid, COERCE_EXPLICIT_CALL);
	text->funcvariadic = true;
	return (Expr *) text;
}

/* ROW(all columns), whose text form is read as the whole row. */
static Node *
make_whole_row(Oid relid)
{
	RowExpr    *row = makeNode(RowExpr);
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Expr	   *value;

		if (att->attisdropped)
			continue;
		value = (Expr *) makeVar(1, att->attnum, att->atttypid, att->atttypmod,
								 att->attcollation, 0);
		switch (getBaseType(att->atttypid))
		{
			case DATEOID:
			case TIMESTAMPOID:
			case TIMESTAMPTZOID:
				value = make_iso_text(value);
				break;
			default:
				break;
		}
		row->args = lappend(row->args, value);
	}
	table_close(rel, NoLock);
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_EXPLICIT_CALL;
	row->location = -1;
	return (Node *) row;
}

static Node *
convert_var(Var *var, ConvertContext *cxt)
{
	Var		   *result;

	if (var->varno != cxt->select->rtindex || var->varlevelsup != 0)
		elog(ERROR, "unexpected column of another table in a remote query");
	if (var->varattno == InvalidAttrNumber && !cxt->for_pruning)
		return make_whole_row(cxt->select->relid);

	result = copyObject(var);
	result->varno = 1;
	result->varnosyn = 1;
	result->varattnosyn = var->varattno;
	shard_var_clear_nulling(result);
	return (Node *) result;
}

static Node *
convert_mutator(Node *node, ConvertContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return convert_var((Var *) node, cxt);
	if (IsA(node, PlaceHolderVar))
		return convert_mutator((Node *) ((PlaceHolderVar *) node)->phexpr, cxt);
	if (shard_shippable_is_param(node, cxt->conditional))
		return convert_param(node, cxt);

	switch (nodeTag(node))
	{
		case T_CaseTestExpr:
			return copyObject(cxt->case_test ? cxt->case_test : node);
		case T_CaseExpr:
			return convert_case((CaseExpr *) node, cxt);
		case T_CoalesceExpr:
			{
				ConvertContext inner = *cxt;

				inner.conditional = true;
				return expression_tree_mutator(node, convert_mutator, &inner);
			}
		case T_ArrayCoerceExpr:
			{
				/* the CaseTestExpr in elemexpr is not that of a CASE around it */
				ConvertContext inner = *cxt;

				inner.case_test = NULL;
				return expression_tree_mutator(node, convert_mutator, &inner);
			}
		case T_RelabelType:
			{
				RelabelType *result = (RelabelType *)
				expression_tree_mutator(node, convert_mutator, cxt);

				if (cxt->for_pruning)
					return (Node *) result;
				return name_collation((Node *) result, result->resultcollid,
									  exprCollation((Node *) ((RelabelType *) node)->arg));
			}
		case T_FuncExpr:
			{
				FuncExpr   *result = (FuncExpr *)
				expression_tree_mutator(node, convert_mutator, cxt);

				if (result->funcformat == COERCE_SQL_SYNTAX)
					result->funcformat = COERCE_EXPLICIT_CALL;
				return (Node *) result;
			}
		default:
			return expression_tree_mutator(node, convert_mutator, cxt);
	}
}

Expr *
shard_select_convert(ShardSelect *select, Expr *expr)
{
	ConvertContext cxt = {0};

	cxt.select = select;
	return (Expr *) convert_mutator((Node *) expr, &cxt);
}

Node *
shard_select_prune_clause(ShardSelect *select, Node *clause)
{
	ConvertContext cxt = {0};

	cxt.select = select;
	cxt.for_pruning = true;
	return convert_mutator(clause, &cxt);
}

void
shard_select_add_column(ShardSelect *select, Expr *converted)
{
	Query	   *query = select->query;
	List	  **list = query->commandType == CMD_SELECT ? &query->targetList : &query->returningList;

	*list = lappend(*list, makeTargetEntry(converted, list_length(*list) + 1, NULL, false));
}

static ShardSelectOutput *
add_output(ShardSelect *select, ShardSelectKind kind, int target, Oid type, int32 typmod)
{
	ShardSelectOutput *output = palloc0(sizeof(ShardSelectOutput));

	output->kind = kind;
	output->target = target;
	output->type = type;
	output->typmod = typmod;
	select->outputs = lappend(select->outputs, output);
	return output;
}

/*
 * The value's text form, as (expr)::text; but where a user has defined a cast
 * to text, which writes what he likes, by the type's output function.
 */
static Expr *
make_text_form(Expr *expr, Oid type)
{
	CoerceViaIO *cast;
	Oid			funcid;
	Oid			output;
	bool		isvarlena;

	if (find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &funcid) == COERCION_PATH_FUNC)
	{
		getTypeOutputInfo(type, &output, &isvarlena);
		expr = (Expr *) makeFuncExpr(output, CSTRINGOID, list_make1(expr),
									 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
		return (Expr *) makeFuncExpr(F_TEXTIN, TEXTOID, list_make1(expr),
									 DEFAULT_COLLATION_OID, InvalidOid, COERCE_EXPLICIT_CALL);
	}

	cast = makeNode(CoerceViaIO);
	cast->arg = expr;
	cast->resulttype = TEXTOID;
	cast->resultcollid = DEFAULT_COLLATION_OID;
	cast->coerceformat = COERCE_EXPLICIT_CAST;
	cast->location = -1;
	return (Expr *) cast;
}

/*
 * (expr)::type.  The node's column may have got another type than the
 * coordinator's, and rows of COPY do not tell their types: without the cast
 * eight bytes of a float would be read as a bigint.  Where the types agree, as
 * they should, the cast is nothing to the node.  Text needs none, any bytes of
 * it are text; count() is of one type.
 */
static Expr *
make_typed(Expr *expr, Oid type)
{
	type = getBaseType(type);
	if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == NAMEOID)
		return expr;
	if (IsA(expr, Aggref) && (((Aggref *) expr)->aggfnoid == F_COUNT_ ||
							  ((Aggref *) expr)->aggfnoid == F_COUNT_ANY))
		return expr;
	return (Expr *) makeRelabelType(expr, type, -1, get_typcollation(type),
									COERCE_EXPLICIT_CAST);
}

void
shard_select_output(ShardSelect *select, Expr *expr, int target)
{
	Oid			type = exprType((Node *) expr);
	Expr	   *converted = shard_select_convert(select, expr);
	ShardSelectKind kind = SHARD_SELECT_VALUE;

	if (shard_type_io_binary_output(type))
		converted = make_typed(converted, type);
	else
	{
		kind = SHARD_SELECT_TEXT;
		converted = make_text_form(converted, type);
		select->text_columns = true;
	}
	shard_select_add_column(select, converted);
	add_output(select, kind, target, type, exprTypmod((Node *) expr));
}

/*
 * ctid, or an error where the row is not the shard's own.  To fail at run time
 * takes something that cannot be read as a tid; it says why.
 */
static char *
ctid_guard(const char *relation)
{
	return psprintf("CASE tableoid WHEN %s::regclass THEN ctid "
					"ELSE ('row of child table ' || tableoid::regclass::text)::tid END",
					quote_literal_cstr(relation));
}

/*
 * Where columns have other names on the node, the shard's FROM item is a
 * sub-select, which does not show ctid and tableoid: one that does.
 */
static const char *
from_item_with_ctid(const Shard *shard)
{
	if (strcmp(shard->from_item, shard->relation) == 0)
		return NULL;
	Assert(strncmp(shard->from_item, "(SELECT ", 8) == 0);
	return psprintf("(SELECT ctid, tableoid, %s", shard->from_item + 8);
}

void
shard_select_output_ctid(ShardSelect *select, bool for_modify)
{
	const ShardMap *map = shard_map_get(select->relid);
	Expr	   *expr;

	if (map == NULL || map->nshards != 1)
		elog(ERROR, "ctid of a table that is no shard");
	select->own_from = from_item_with_ctid(&map->shards[0]);
	if (for_modify)
	{
		Param	   *param = makeNode(Param);

		select->raw_texts = lappend(select->raw_texts,
									makeString(ctid_guard(map->shards[0].relation)));
		param->paramkind = PARAM_EXTERN;
		param->paramid = FIRST_RAW_TEXT + list_length(select->raw_texts);
		param->paramtype = TIDOID;
		param->paramtypmod = -1;
		param->location = -1;
		expr = (Expr *) param;
	}
	else
		expr = (Expr *) makeVar(1, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
	shard_select_add_column(select, expr);
	add_output(select, SHARD_SELECT_CTID, 0, TIDOID, -1);
}

void
shard_select_where(ShardSelect *select, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
		select->quals = lappend(select->quals, shard_select_convert(select, lfirst(lc)));
}

void
shard_select_having(ShardSelect *select, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
		select->having = lappend(select->having, shard_select_convert(select, lfirst(lc)));
	if (clauses != NIL)
		select->query->hasAggs = true;
}

void
shard_select_aggregate(ShardSelect *select)
{
	select->query->hasAggs = true;
}

/*
 * The expression goes into a target entry of its own that is not returned: the
 * column that is returned may be a cast of it.
 */
void
shard_select_group_by(ShardSelect *select, Expr *expr)
{
	Query	   *query = select->query;
	SortGroupClause *clause = makeNode(SortGroupClause);
	TargetEntry *entry;

	entry = makeTargetEntry(shard_select_convert(select, expr),
							list_length(query->targetList) + 1, NULL, true);
	entry->ressortgroupref = list_length(query->groupClause) + 1;
	query->targetList = lappend(query->targetList, entry);
	clause->tleSortGroupRef = entry->ressortgroupref;
	query->groupClause = lappend(query->groupClause, clause);
}

void
shard_select_lock(ShardSelect *select, LockClauseStrength strength, LockWaitPolicy policy)
{
	RowMarkClause *mark = makeNode(RowMarkClause);

	mark->rti = 1;
	mark->strength = strength;
	mark->waitPolicy = policy;
	select->query->rowMarks = list_make1(mark);
	select->query->hasForUpdate = true;
}

/* The table becomes the statement's target; outputs become RETURNING. */
static void
make_target(ShardSelect *select, CmdType command)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, select->query->rtable);

	Assert(select->query->targetList == NIL);
	rte->inFromCl = false;
	select->query->commandType = command;
	select->query->resultRelation = 1;
}

void
shard_select_update(ShardSelect *select, List *assignments)
{
	ListCell   *lc;

	make_target(select, CMD_UPDATE);
	foreach(lc, assignments)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		entry->expr = shard_select_convert(select, entry->expr);
		select->query->targetList = lappend(select->query->targetList, entry);
	}
}

void
shard_select_delete(ShardSelect *select)
{
	make_target(select, CMD_DELETE);
}

/*
 * The query's text under settings in which names are qualified and literals
 * mean the same in every session.  *name: that of the table, as it stands there.
 */
static char *
print_query(Query *query, Oid relid, char **name)
{
	static const struct
	{
		const char *name;
		const char *value;
	}			settings[] = {
		{"search_path", "pg_catalog"},
		{"datestyle", "ISO"},
		{"intervalstyle", "postgres"},
		{"extra_float_digits", "3"},
		{"quote_all_identifiers", "off"},
		{"standard_conforming_strings", "on"},
	};
	int			nestlevel = NewGUCNestLevel();
	char	   *text;

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i].name, settings[i].value, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);

	text = pg_get_querydef(copyObject(query), false);
	*name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									   get_rel_name(relid));
	AtEOXact_GUC(true, nestlevel);
	return text;
}

/* End of the literal or quoted name that starts at text: quotes in it are doubled. */
static const char *
skip_quoted(const char *text)
{
	char		quote = *text++;

	for (;; text++)
	{
		if (*text == '\0')
			elog(ERROR, "unterminated quote in a remote query");
		if (*text == quote)
		{
			if (text[1] != quote)
				return text + 1;
			text++;
		}
	}
}

/* Appends what stands between start and end, if anything. */
static List *
append_text(List *template, const char *start, const char *end)
{
	if (end > start)
		template = lappend(template, makeString(pnstrdup(start, end - start)));
	return template;
}

/* The table's place: its own FROM item, or the shard's. */
static List *
append_place(ShardSelect *select, List *template)
{
	if (select->own_from != NULL)
		return lappend(template, makeString(pstrdup(select->own_from)));
	return lappend(template, makeInteger(0));
}

static List *
append_param(ShardSelect *select, List *template, int paramno)
{
	if (paramno > FIRST_RAW_TEXT)
		return lappend(template, list_nth(select->raw_texts, paramno - FIRST_RAW_TEXT - 1));
	return lappend(template, makeInteger(paramno));
}

/* text with each run of white space outside of quotes made one blank, none at the start. */
static char *
squeeze_blanks(const char *text)
{
	char	   *result = palloc(strlen(text) + 1);
	char	   *to = result;

	while (*text)
	{
		if (*text == '\'' || *text == '"')
		{
			const char *end = skip_quoted(text);

			memcpy(to, text, end - text);
			to += end - text;
			text = end;
		}
		else if (isspace((unsigned char) *text))
		{
			if (to > result && to[-1] != ' ')
				*to++ = ' ';
			text++;
		}
		else
			*to++ = *text++;
	}
	*to = '\0';
	return result;
}

static bool
starts_with_word(const char *text, const char *word)
{
	size_t		len = strlen(word);

	return strncmp(text, word, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

/*
 * Cuts printed text into a template.  name: the table as it was printed, its
 * alias follows; it stands there once.
 */
static List *
cut_text(ShardSelect *select, const char *text, const char *name)
{
	/* some minor versions print AS after the target of UPDATE and DELETE */
	char	   *places[] = {psprintf("%s " TABLE_ALIAS, name), psprintf("%s AS " TABLE_ALIAS, name)};
	size_t		name_len = strlen(name);
	const char *start = text;	/* of what is not in the template yet */
	const char *at = text;
	int			nplaces = 0;
	List	   *template = NIL;

	while (*at)
	{
		if (at > text && at[-1] == ' ' &&
			(starts_with_word(at, places[0]) || starts_with_word(at, places[1])))
		{
			template = append_text(template, start, at);
			template = append_place(select, template);
			nplaces++;
			start = at = at + name_len;
		}
		else if (*at == '\'' || *at == '"')
			at = skip_quoted(at);
		else if (*at == '$' && isdigit((unsigned char) at[1]))
		{
			char	   *end;
			int			paramno = (int) strtol(at + 1, &end, 10);

			template = append_text(template, start, at);
			template = append_param(select, template, paramno);
			start = at = end;
		}
		else
			at++;
	}
	if (nplaces != 1)
		elog(ERROR, "table %s found %d times in remote query \"%s\"", name, nplaces, text);
	return append_text(template, start, at);
}

/* NULL for an empty list. */
static Expr *
make_condition(List *clauses)
{
	return clauses != NIL ? make_ands_explicit(clauses) : NULL;
}

List *
shard_select_finish(ShardSelect *select)
{
	Query	   *query = select->query;
	char	   *name;
	char	   *text;

	query->jointree->quals = (Node *) make_condition(select->quals);
	query->havingQual = (Node *) make_condition(select->having);

	/* with pg_catalog alone in the path every table of a user is printed qualified */
	text = print_query(query, select->relid, &name);
	return cut_text(select, squeeze_blanks(text), name);
}
