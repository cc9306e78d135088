/*
 * ddl_maintain.c
 *	  VACUUM, REINDEX and CLUSTER of tables that have tables on nodes.
 *
 * They change no definition.  They run on each shard separately, outside any transaction, in parallel on all nodes.
 * If one shard fails, the others are still processed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_send.h"
#include "ddl/statement/ddl_statement.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Options as given, " (a, b 1)"; "" if there are none. */
static char *
options_text(List *options)
{
	StringInfoData text;

	if (options == NIL)
		return pstrdup("");
	initStringInfo(&text);
	foreach_node(DefElem, option, options)
	{
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : " (", quote_identifier(option->defname));
		if (option->arg == NULL)
			continue;
		if (IsA(option->arg, Integer) || IsA(option->arg, Float))
			appendStringInfo(&text, " %s", defGetString(option));
		else
			appendStringInfo(&text, " %s", quote_literal_cstr(defGetString(option)));
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

static DefElem *
find_option(List *options, const char *name)
{
	foreach_node(DefElem, option, options)
		if (strcmp(option->defname, name) == 0)
			return option;
	return NULL;
}

static bool
option_is_on(List *options, const char *name)
{
	DefElem    *option = find_option(options, name);

	return option != NULL && defGetBoolean(option);
}

/* Runs a batch outside any transaction.  Raises the first error when all commands have ended. */
static void
run_free(ShardDdlBatch *batch)
{
	ErrorData  *error;

	(void) shard_ddl_batch_run_free(batch, &error);
	if (error != NULL)
		ThrowErrorData(error);
}

/* The table, if the user may run maintenance on it.  Core raises the error for other users. */
static ShardDdlTable *
maintained_table(Oid relid)
{
	if (!shard_ddl_table_maybe(relid) || get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE ||
		!shard_may_maintain(relid, GetUserId()))
		return NULL;
	return shard_ddl_table(relid);
}

/*
 * VACUUM
 */

/* Makes core run VACUUM or ANALYZE on rels only. */
static void
vacuum_here(ShardDdlCall *call, List *options, List *rels, bool is_vacuum)
{
	MemoryContext cxt = CurrentMemoryContext;
	VacuumStmt *stmt;

	if (rels == NIL)
		return;
	stmt = makeNode(VacuumStmt);
	stmt->options = copyObject(options);
	stmt->rels = copyObject(rels);
	stmt->is_vacuumcmd = is_vacuum;
	shard_ddl_run_core_with(call, (Node *) stmt, false);
	/* VACUUM has ended transactions; cxt is in the portal's memory, which still exists */
	MemoryContextSwitchTo(cxt);
}

bool
shard_ddl_vacuum(ShardDdlCall *call)
{
	VacuumStmt *stmt = castNode(VacuumStmt, call->pstmt->utilityStmt);
	List	   *here = NIL;		/* VacuumRelations for core */
	List	   *sharded = NIL;
	List	   *batches = NIL;
	List	   *analyze_options = NIL;
	char	   *options = options_text(stmt->options);

	if (!stmt->is_vacuumcmd || stmt->rels == NIL)
		return false;
	foreach_node(VacuumRelation, relation, stmt->rels)
	{
		ShardDdlTable *table = relation->relation == NULL ? NULL :
			maintained_table(RangeVarGetRelid(relation->relation, NoLock, true));

		if (table == NULL || table->is_reference)
			here = lappend(here, relation);
		else
			sharded = lappend(sharded, relation);
		if (table != NULL)
		{
			ShardDdlBatch *batch = shard_ddl_batch_create(table);

			batch->only_names_shards = true;
			shard_ddl_batch_add_all(batch, psprintf("VACUUM%s ", options),
									relation->va_cols == NIL ? "" : psprintf(" (%s)", shard_alter_quoted_columns(relation->va_cols)));
			batches = lappend(batches, batch);
		}
	}
	if (batches == NIL)
		return false;
	PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "VACUUM");
	foreach_ptr(ShardDdlBatch, batch, batches)
		run_free(batch);

	/* core runs ANALYZE, which fetches statistics from the nodes and stores them on the coordinator */
	if (find_option(stmt->options, "verbose"))
		analyze_options = list_make1(find_option(stmt->options, "verbose"));
	vacuum_here(call, stmt->options, here, true);
	if (option_is_on(stmt->options, "analyze"))
		vacuum_here(call, analyze_options, sharded, false);
	if (call->qc)
		SetQueryCompletion(call->qc, CMDTAG_VACUUM, 0);
	return true;
}

/*
 * REINDEX and CLUSTER
 */

/*
 * Runs batch on the nodes.  For a reference table core runs the statement too. in_xact: the command can run in a
 * transaction, as it does for a reference table.
 */
static void
run_maintenance(ShardDdlCall *call, ShardDdlBatch *batch, bool in_xact, const char *name, CommandTag tag)
{
	bool		is_reference = batch->table->is_reference;

	batch->only_names_shards = true;
	if (!is_reference || !in_xact)
		PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, name);
	if (is_reference && in_xact)
	{
		shard_ddl_run_core(call);
		shard_ddl_batch_run(batch);
		return;
	}
	run_free(batch);
	if (is_reference)
		shard_ddl_run_core(call);
	else if (call->qc)
		SetQueryCompletion(call->qc, tag, 0);
}

bool
shard_ddl_reindex(ShardDdlCall *call)
{
	ReindexStmt *stmt = castNode(ReindexStmt, call->pstmt->utilityStmt);
	char	   *options = options_text(stmt->params);
	Oid			relid;
	Oid			index = InvalidOid;
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	char	  **names;

	if (stmt->relation == NULL || (stmt->kind != REINDEX_OBJECT_INDEX && stmt->kind != REINDEX_OBJECT_TABLE))
		return false;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (OidIsValid(relid) && stmt->kind == REINDEX_OBJECT_INDEX)
	{
		index = relid;
		relid = IndexGetRelation(index, true);
	}
	table = maintained_table(relid);
	if (table == NULL)
		return false;
	shard_ddl_refuse_late(call);
	if (find_option(stmt->params, "tablespace"))
		shard_ddl_table_refuse(table, "REINDEX with a tablespace", NULL);

	batch = shard_ddl_batch_create(table);
	if (!OidIsValid(index))
		shard_ddl_batch_add_all(batch, psprintf("REINDEX%s TABLE ", options), "");
	else
	{
		names = shard_ddl_find_index(table, index);
		for (int i = 0; i < table->nshards; i++)
			shard_ddl_batch_add(batch, i, "REINDEX%s INDEX %s", options,
								quote_qualified_identifier(table->shards[i].schema, names[i]));
	}
	if (option_is_on(stmt->params, "concurrently"))
	{
		PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "REINDEX CONCURRENTLY");
		shard_ddl_drop_replicas(table);
	}
	run_maintenance(call, batch, !option_is_on(stmt->params, "concurrently"), "REINDEX", CMDTAG_REINDEX);
	return true;
}

bool
shard_ddl_cluster(ShardDdlCall *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	RangeVar   *relation = shard_cluster_relation(stmt);
	const char *indexname = shard_cluster_index(stmt);
	char	   *options = options_text(shard_cluster_params(stmt));
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	char	  **names = NULL;

	if (relation == NULL)
		return false;
	table = maintained_table(RangeVarGetRelid(relation, NoLock, true));
	if (table == NULL)
		return false;
	if (!shard_cluster_is_cluster(stmt))
		shard_ddl_table_refuse(table, "REPACK", "Use CLUSTER or VACUUM FULL.");
	if (indexname != NULL)
	{
		Oid			index = get_relname_relid(indexname, get_rel_namespace(table->relid));

		if (!OidIsValid(index) || IndexGetRelation(index, true) != table->relid)
			return false;		/* core raises the error */
		names = shard_ddl_find_index(table, index);
	}
	batch = shard_ddl_batch_create(table);
	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "CLUSTER%s %s%s%s", options, table->shards[i].relation,
							names ? " USING " : "", names ? quote_identifier(names[i]) : "");
	run_maintenance(call, batch, true, "CLUSTER", CMDTAG_CLUSTER);
	return true;
}
