/*
 * ddl_key_default.c
 *	  Column defaults on shards, for foreign keys whose actions set defaults.
 *
 * Nodes execute ON DELETE SET DEFAULT and ON UPDATE SET DEFAULT of the shards' foreign keys themselves.  So the
 * columns that these set need the coordinator's default on the shards.  It is sent as a value: for an immutable
 * expression, the coordinator computes the same value as a node.  Other columns of a shard have no default.
 *
 * Only the nodes know which columns these are, because they have the foreign keys.  They are queried in the
 * transaction that changes a default, adds a key, or creates a shard.  If a default remains after its key has been
 * dropped, later changes update or drop it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "array_loop.h"
#include "compat.h"
#include "ddl/alter/ddl_key_default.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "open_table.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(shardfdw_set_key_defaults);
PG_FUNCTION_INFO_V1(shardfdw_key_default_reason);

/* A column of a shard that a foreign key sets, or that has a default. */
typedef struct KeyDefault
{
	int			shardno;
	AttrNumber	attno;			/* attribute number on the coordinator */
	bool		is_set;			/* a foreign key sets it */
} KeyDefault;

typedef struct KeyDefaultQuestion
{
	const List *attnos;			/* NIL: all */
	List	   *found;			/* list of KeyDefault */
} KeyDefaultQuestion;

static bool
is_users_function(Oid funcid, void *context)
{
	return funcid >= FirstNormalObjectId;
}

static bool
calls_users_function_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, is_users_function, context))
		return true;
	return expression_tree_walker(node, calls_users_function_walker, context);
}

/* Returns why nodes cannot have the default of a column, as a sentence; NULL if they can. */
static const char *
reason_of(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);
	Node	   *expr;

	/* ALTER DOMAIN would change it */
	if (!att->atthasdef && !att->attidentity && get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
		return "The default would be that of its domain, which nodes do not follow.";
	expr = build_column_default(rel, attno);
	if (expr != NULL && contain_mutable_functions(expr))
		return "Nodes would have to compute it, and its default is not immutable.";
	/* a user may replace the function */
	if (expr != NULL && calls_users_function_walker(expr, NULL))
		return "Nodes would have to compute it, and its default calls a function that is not built in.";
	return NULL;
}

bool
shard_key_default_is_possible(Relation rel, AttrNumber attno)
{
	return reason_of(rel, attno) == NULL;
}

static char *
ask_columns(const ShardDdlTable *table, List *shardnos, void *arg)
{
	return psprintf("SELECT s.no, a.attname, x.is_set FROM (VALUES %s) s(no, shard, name) JOIN pg_attribute a ON a.attrelid = s.shard "
					"CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = s.shard AND k.contype = 'f' "
					"AND (k.confdeltype = 'd' AND a.attnum = ANY (coalesce(k.confdelsetcols, k.conkey)) "
					"OR k.confupdtype = 'd' AND a.attnum = ANY (k.conkey)))) x(is_set) "
					"WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND (x.is_set OR a.atthasdef)",
					shard_ddl_list_shards(table, shardnos, ""));
}

static void
take_column(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	KeyDefaultQuestion *question = arg;
	AttrNumber	attno;
	KeyDefault *column;

	shard_ddl_need_fields(table, nfields, fields, 2);
	attno = get_attnum(table->relid, fields[0]);
	if (attno <= 0 || (question->attnos != NIL && !list_member_int(question->attnos, attno)))
		return;
	column = palloc(sizeof(KeyDefault));
	column->shardno = shardno;
	column->attno = attno;
	column->is_set = fields[1][0] == 't';
	question->found = lappend(question->found, column);
}

/* The default of a column as text for the nodes; NULL: none. */
static char *
default_text(const ShardDdlTable *table, Relation rel, AttrNumber attno)
{
	const char *reason = reason_of(rel, attno);
	bool		is_per_row;

	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("foreign keys cannot set column \"%s\" of sharded table \"%s\" to its default",
						NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname), table->name),
				 errdetail_internal("%s", reason),
				 errhint("Give the column a constant default, or make the foreign key with SET NULL.")));
	return shard_ddl_text_default(rel, attno, &is_per_row);
}

void
shard_key_default_set(const ShardDdlTable *table, const List *attnos)
{
	KeyDefaultQuestion question = {attnos, NIL};
	Relation	rel;
	ShardDdlBatch *batch;

	shard_ddl_ask(table, ask_columns, take_column, &question);
	/*
	 * the transaction's snapshot may not show a key that was committed later; only the transaction's connection shows
	 * its own keys
	 */
	if (IsolationUsesXactSnapshot() && !shard_guc_follows_coordinator)
		shard_ddl_ask_free(table, ask_columns, take_column, &question);
	if (question.found == NIL)
		return;
	rel = table_open(table->relid, NoLock);
	batch = shard_ddl_batch_create(table);
	foreach_ptr(KeyDefault, column, question.found)
	{
		char	   *value = column->is_set ? default_text(table, rel, column->attno) : NULL;

		shard_ddl_batch_add(batch, column->shardno, "ALTER TABLE %s ALTER COLUMN %s %s%s",
							table->shards[column->shardno].relation, quote_identifier(get_attname(table->relid, column->attno, false)),
							value ? "SET DEFAULT " : "DROP DEFAULT", value ? value : "");
	}
	table_close(rel, NoLock);
	shard_ddl_batch_run(batch);
}

/* set_key_defaults(relation, shards regclass[]) */
Datum
shardfdw_set_key_defaults(PG_FUNCTION_ARGS)
{
	Relation	rel = shard_open_table(PG_GETARG_OID(0), AccessShareLock);
	ShardDdlTable *table = shard_ddl_table(PG_GETARG_OID(0));
	ShardArrayLoop loop;
	Datum		shard;
	bool	   *is_given = palloc0(table ? table->nshards : 1);
	int			nkept = 0;

	if (!shard_class_ownercheck(RelationGetRelid(rel), GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(1));
	while (table != NULL && shard_array_loop_next(&loop, &shard))
		for (int i = 0; i < table->nshards; i++)
			is_given[i] |= table->shards[i].relid == DatumGetObjectId(shard);
	for (int i = 0; table != NULL && i < table->nshards; i++)
		if (is_given[i])
			table->shards[nkept++] = table->shards[i];
	if (nkept > 0)
	{
		table->nshards = nkept;
		shard_key_default_set(table, NIL);
	}
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* key_default_reason(relation, attnum) -> text */
Datum
shardfdw_key_default_reason(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel = shard_open_table(relid, AccessShareLock);
	AttrNumber	attno = PG_GETARG_INT16(1);
	const char *reason = NULL;

	if (attno > 0 && attno <= RelationGetNumberOfAttributes(rel))
		reason = reason_of(rel, attno);
	table_close(rel, AccessShareLock);
	if (reason == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(reason));
}
