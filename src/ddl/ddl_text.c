/*
 * ddl_text.c
 *	  Prints columns, constraints and options so that they mean the same on nodes.
 *
 * The texts are made from the catalogs, after the coordinator has made the change, or from parsed expressions.  Names
 * were looked up on the coordinator and are printed with their schemas.  So nothing depends on the search_path on a
 * node, and text that the user has typed is not sent.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/toast_compression.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/ddl_text.h"
#include "deparse/print_settings.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_param.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"

char *
shard_ddl_text_type(Oid type, int32 typmod)
{
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN);
}

char *
shard_ddl_text_collation(Oid type, Oid collation)
{
	if (!OidIsValid(collation) || collation == get_typcollation(type))
		return pstrdup("");
	return psprintf(" COLLATE %s", generate_collation_name(collation));
}

/* An expression over the columns of rel, which is range table entry 1. */
static char *
expr_text(Relation rel, Node *expr)
{
	return deparse_expression(expr, deparse_context_for(RelationGetRelationName(rel), RelationGetRelid(rel)),
							  false, false);
}

void
shard_ddl_text_refuse_rows(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("whole rows and system columns are not supported in expressions of sharded table \"%s\"", get_rel_name(relid)),
			 errdetail("A shard has another row type and another table OID than the table."),
			 errhint("Name the columns.")));
}

void
shard_ddl_text_refuse_changed(const char *kind, const char *name, const char *definition)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("%s \"%s\" is defined as: %s.", kind, name, definition),
			 errhint("Try again.")));
}

/* Refuses expressions of a sharded table that have another meaning on a shard. */
static void
check_columns(Oid relid, Datum tree)
{
	Bitmapset  *attnos = NULL;
	int			member;

	if (get_rel_relkind(relid) == RELKIND_RELATION)
		return;					/* a reference table is the same on nodes */
	pull_varattnos(stringToNode(TextDatumGetCString(tree)), 1, &attnos);
	member = bms_next_member(attnos, -1);
	if (member >= 0 && member + FirstLowInvalidHeapAttributeNumber <= 0)
		shard_ddl_text_refuse_rows(relid);
	bms_free(attnos);
}

/* The stored expression of a column's default or generation. */
static Node *
stored_expr(Relation rel, AttrNumber attno)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
		if (constr->defval[i].adnum == attno)
			return stringToNode(constr->defval[i].adbin);
	elog(ERROR, "column %d of table \"%s\" has no expression", attno, RelationGetRelationName(rel));
}

char *
shard_ddl_text_generation(Relation rel, AttrNumber attno)
{
	check_columns(RelationGetRelid(rel), CStringGetTextDatum(nodeToString(stored_expr(rel, attno))));
	return expr_text(rel, stored_expr(rel, attno));
}

const char *
shard_ddl_text_storage(char storage)
{
	switch (storage)
	{
		case TYPSTORAGE_PLAIN:
			return "PLAIN";
		case TYPSTORAGE_EXTERNAL:
			return "EXTERNAL";
		case TYPSTORAGE_MAIN:
			return "MAIN";
		default:
			return "EXTENDED";
	}
}

char *
shard_ddl_text_column(Relation rel, AttrNumber attno, const char *value, bool not_null)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s %s", quote_identifier(NameStr(att->attname)),
					 shard_ddl_text_type(att->atttypid, att->atttypmod));
	if (CompressionMethodIsValid(att->attcompression))
		appendStringInfo(&text, " COMPRESSION %s", GetCompressionMethodName(att->attcompression));
	appendStringInfoString(&text, shard_ddl_text_collation(att->atttypid, att->attcollation));
	if (att->attgenerated)
		appendStringInfo(&text, " GENERATED ALWAYS AS (%s) %s", shard_ddl_text_generation(rel, attno),
						 att->attgenerated == ATTRIBUTE_GENERATED_STORED ? "STORED" : "VIRTUAL");
	if (value)
		appendStringInfo(&text, " DEFAULT %s", value);
	if (not_null)
		appendStringInfoString(&text, " NOT NULL");
	return text.data;
}

/*
 * Raises an error if the transaction snapshot does not see the current version of a constraint.  Ruleutils of core
 * looks up constraints by that snapshot.  At REPEATABLE READ, another transaction may have made or changed the
 * constraint since.
 */
static void
check_constraint_seen(HeapTuple current)
{
	ScanKeyData key;
	ShardCatalogScan scan;
	Snapshot	snapshot;
	HeapTuple	seen;
	bool		is_current;

	if (!IsolationUsesXactSnapshot())
		return;
	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	ScanKeyInit(&key, Anum_pg_constraint_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(((Form_pg_constraint) GETSTRUCT(current))->oid));
	shard_catalog_scan_begin_keys(&scan, ConstraintRelationId, ConstraintOidIndexId, snapshot, 1, &key);
	seen = shard_catalog_scan_next(&scan);
	is_current = HeapTupleIsValid(seen) && ItemPointerEquals(&seen->t_self, &current->t_self);
	shard_catalog_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	if (!is_current)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("Constraint \"%s\" was made or changed since the transaction began.",
						   NameStr(((Form_pg_constraint) GETSTRUCT(current))->conname))));
}

char *
shard_ddl_text_constraint(Oid constraint)
{
	HeapTuple	tuple = shard_catalog_row(CONSTROID, constraint);
	Form_pg_constraint form;
	char	   *definition;
	char	   *name;
	char	   *prefix;
	Datum		tree;
	bool		isnull;

	check_constraint_seen(tuple);
	tree = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conbin, &isnull);
	if (!isnull)
		check_columns(((Form_pg_constraint) GETSTRUCT(tuple))->conrelid, tree);
	definition = pg_get_constraintdef_command(constraint);
	form = (Form_pg_constraint) GETSTRUCT(tuple);

	/* cut off the known text before the definition */
	name = pstrdup(NameStr(form->conname));
	prefix = psprintf("ALTER TABLE %s ADD CONSTRAINT %s ", shard_qualified_relation(form->conrelid), quote_identifier(name));
	ReleaseSysCache(tuple);
	if (strncmp(definition, prefix, strlen(prefix)) != 0)
		shard_ddl_text_refuse_changed("Constraint", name, definition);
	return definition + strlen(prefix);
}

char *
shard_ddl_text_index(Oid index)
{
	const AttrNumber trees[] = {Anum_pg_index_indexprs, Anum_pg_index_indpred};
	Oid			relid = IndexGetRelation(index, false);
	HeapTuple	tuple = shard_catalog_row(INDEXRELID, index);
	bool		is_unique;
	char	   *definition = TextDatumGetCString(DirectFunctionCall1(pg_get_indexdef, ObjectIdGetDatum(index)));
	char	   *prefix;

	is_unique = ((Form_pg_index) GETSTRUCT(tuple))->indisunique;
	for (int i = 0; i < lengthof(trees); i++)
	{
		bool		isnull;
		Datum		tree = SysCacheGetAttr(INDEXRELID, tuple, trees[i], &isnull);

		if (!isnull)
			check_columns(relid, tree);
	}
	ReleaseSysCache(tuple);

	/* cut off the known text before USING */
	prefix = psprintf("CREATE %sINDEX %s ON %s%s USING ", is_unique ? "UNIQUE " : "",
					  quote_identifier(get_rel_name(index)),
					  get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? "ONLY " : "",
					  shard_qualified_relation(relid));
	if (strncmp(definition, prefix, strlen(prefix)) != 0)
		shard_ddl_text_refuse_changed("Index", get_rel_name(index), definition);
	return definition + strlen(prefix);
}

char *
shard_ddl_text_options(List *options, bool values)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_node(DefElem, option, options)
	{
		if (text.len > 0)
			appendStringInfoString(&text, ", ");
		if (option->defnamespace)
			appendStringInfo(&text, "%s.", quote_identifier(option->defnamespace));
		appendStringInfoString(&text, quote_identifier(option->defname));
		if (values && option->arg)
			appendStringInfo(&text, " = %s", quote_literal_cstr(defGetString(option)));
	}
	return text.data;
}

/* The value of an expression without columns, as a constant. */
static Const *
evaluate(Expr *expr)
{
	Oid			type = exprType((Node *) expr);
	EState	   *estate = CreateExecutorState();
	int16		typlen;
	bool		typbyval;
	bool		isnull;
	Datum		value;
	Const	   *result;

	get_typlenbyval(type, &typlen, &typbyval);
	value = ExecEvalExprSwitchContext(ExecPrepareExpr(expr, estate), GetPerTupleExprContext(estate), &isnull);
	if (!isnull && typlen == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else if (!isnull)
		value = datumCopy(value, typbyval, typlen);
	result = makeConst(type, exprTypmod((Node *) expr), exprCollation((Node *) expr), typlen, value, isnull, typbyval);
	FreeExecutorState(estate);
	return result;
}

char *
shard_ddl_text_default(Relation rel, AttrNumber attno, bool *per_row)
{
	Expr	   *expr = (Expr *) build_column_default(rel, attno);
	Const	   *value;
	int			nestlevel;
	char	   *text;

	*per_row = false;
	if (expr == NULL || TupleDescAttr(RelationGetDescr(rel), attno - 1)->attgenerated)
		return NULL;
	expr = expression_planner(expr);
	if (contain_volatile_functions((Node *) expr))
	{
		*per_row = true;
		return NULL;
	}
	value = evaluate(expr);
	if (value->constisnull)
		return NULL;
	nestlevel = shard_print_settings_begin();
	text = deparse_expression((Node *) value, NIL, false, false);
	shard_print_settings_end(nestlevel);
	return text;
}

/* Replaces parts that only the coordinator can evaluate by their values. */
static Node *
fold_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (shard_shippable_is_param(node, false))
		return (Node *) evaluate((Expr *) copyObject(node));
	return expression_tree_mutator(node, fold_mutator, context);
}

/* Function calls that give each row a different value, taken out of an expression. */
typedef struct RowCalls
{
	List	   *calls;			/* of Node; Var n stands for the n-th */
	List	   *functions;
	List	   *sequences;
	bool		only_these;		/* there are no other volatile functions */
} RowCalls;

/* Does a built-in volatile function give the same kind of value on every server? */
static bool
is_row_function(Oid funcid)
{
	static const char *const names[] = {"gen_random_uuid", "random", "random_normal", "clock_timestamp", "timeofday", "uuidv4", "uuidv7"};
	char	   *name = funcid < FirstUnpinnedObjectId ? get_func_name(funcid) : NULL;

	for (int i = 0; name != NULL && i < lengthof(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool
are_constants(List *args)
{
	foreach_ptr(Node, arg, args)
		if (!IsA(arg, Const) || ((Const *) arg)->constisnull)
			return false;
	return true;
}

static Node *
take_row_calls_mutator(Node *node, void *context)
{
	RowCalls   *taken = context;
	Oid			sequence = InvalidOid;

	if (node == NULL)
		return NULL;
	if (IsA(node, NextValueExpr))
		sequence = ((NextValueExpr *) node)->seqid;
	else if (!IsA(node, FuncExpr) || func_volatile(((FuncExpr *) node)->funcid) != PROVOLATILE_VOLATILE)
		return expression_tree_mutator(node, take_row_calls_mutator, context);
	else
	{
		FuncExpr   *call = (FuncExpr *) node;

		if (!are_constants(call->args))
			taken->only_these = false;
		else if (call->funcid == F_NEXTVAL)
			sequence = DatumGetObjectId(((Const *) linitial(call->args))->constvalue);
		else if (is_row_function(call->funcid))
			taken->functions = list_append_unique_oid(taken->functions, call->funcid);
		else
			taken->only_these = false;
	}
	if (list_member_oid(taken->sequences, sequence))
		taken->only_these = false;
	else if (OidIsValid(sequence))
		taken->sequences = lappend_oid(taken->sequences, sequence);
	taken->calls = lappend(taken->calls, node);
	return (Node *) makeVar(1, list_length(taken->calls), exprType(node), exprTypmod(node), exprCollation(node), 0);
}

static Node *
put_row_calls_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return copyObject(list_nth((List *) context, ((Var *) node)->varattno - 1));
	return expression_tree_mutator(node, put_row_calls_mutator, context);
}

char *
shard_ddl_text_row_default(Relation rel, AttrNumber attno, List **functions, List **sequences)
{
	RowCalls	taken = {.only_these = true};
	Node	   *expr = (Node *) expression_planner((Expr *) build_column_default(rel, attno));
	int			nestlevel;
	char	   *text;

	/* the shipping rules see columns in place of the calls, and judge the rest as usual */
	expr = take_row_calls_mutator(expr, &taken);
	if (!taken.only_these || contain_volatile_functions(expr) || !shard_shippable_expr(NULL, bms_make_singleton(1), (Expr *) expr))
		return NULL;
	expr = put_row_calls_mutator(fold_mutator(expr, NULL), taken.calls);
	nestlevel = shard_print_settings_begin();
	text = deparse_expression(expr, NIL, false, false);
	shard_print_settings_end(nestlevel);
	*functions = taken.functions;
	*sequences = taken.sequences;
	return text;
}

bool
shard_ddl_text_default_varies(Relation rel, AttrNumber attno)
{
	Expr	   *expr = TupleDescAttr(RelationGetDescr(rel), attno - 1)->attgenerated ? NULL : (Expr *) build_column_default(rel, attno);

	return expr != NULL && contain_mutable_functions((Node *) expression_planner(expr));
}

static Node *
parse_using(Relation rel, const char *query_string, Node *raw_expr, Oid type)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *nsitem;
	Node	   *expr;

	pstate->p_sourcetext = query_string;
	nsitem = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(pstate, nsitem, false, true, true);
	expr = transformExpr(pstate, copyObject(raw_expr), EXPR_KIND_ALTER_COL_TRANSFORM);
	/* a literal; the node converts other types */
	if (exprType(expr) == UNKNOWNOID)
		expr = coerce_type(pstate, expr, UNKNOWNOID, getBaseType(type), -1, COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	assign_expr_collations(pstate, expr);
	return expr;
}

bool
shard_ddl_text_using_varies(Relation rel, const char *query_string, Node *raw_expr, Oid type)
{
	return contain_mutable_functions(parse_using(rel, query_string, raw_expr, type));
}

char *
shard_ddl_text_using(Relation rel, const char *query_string, Node *raw_expr, Oid type)
{
	Node	   *expr = parse_using(rel, query_string, raw_expr, type);
	int			nestlevel;
	char	   *text;

	if (contain_volatile_functions(expr) || !shard_shippable_expr(NULL, bms_make_singleton(1), (Expr *) expr))
		return NULL;
	expr = fold_mutator(expr, NULL);
	nestlevel = shard_print_settings_begin();
	text = expr_text(rel, expr);
	shard_print_settings_end(nestlevel);
	return text;
}
