/*
 * ddl_stats.c
 *	  Extended statistics of tables that have tables on nodes.
 *
 * Each shard has a separate statistics object, in its schema, with a separate name.  It is not an error if a shard
 * lacks it, since statistics do not change results.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "compat.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "ddl/statement/ddl_statement.h"
#include "deparse/print_settings.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

static List *
statistics_of(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	List	   *result = list_copy(RelationGetStatExtList(rel));

	relation_close(rel, AccessShareLock);
	return result;
}

/* The table of extended statistics.  InvalidOid if there are no statistics of that name. */
static Oid
table_of(List *names)
{
	return DatumGetObjectId(shard_catalog_value(STATEXTOID, get_statistics_object_oid(names, true), Anum_pg_statistic_ext_stxrelid));
}

/* Adds the command that makes statistics on each shard.  The coordinator already has them. */
static void
add_create(ShardDdlBatch *batch, Oid statistics)
{
	const ShardDdlTable *table = batch->table;
	int			nestlevel = shard_print_settings_begin();
	char	   *definition = pg_get_statisticsobjdef_string(statistics);
	char	   *name;
	char	   *prefix;
	char	   *suffix;
	HeapTuple	tuple = shard_catalog_row(STATEXTOID, statistics);
	Form_pg_statistic_ext form = (Form_pg_statistic_ext) GETSTRUCT(tuple);

	/* cut off the known text around the definition */
	name = pstrdup(NameStr(form->stxname));
	prefix = psprintf("CREATE STATISTICS %s", quote_qualified_identifier(get_namespace_name(form->stxnamespace), name));
	suffix = psprintf(" FROM %s", shard_qualified_relation(table->relid));
	ReleaseSysCache(tuple);
	shard_print_settings_end(nestlevel);
	if (strlen(definition) < strlen(prefix) + strlen(suffix) ||
		strncmp(definition, prefix, strlen(prefix)) != 0 ||
		strcmp(definition + strlen(definition) - strlen(suffix), suffix) != 0)
		shard_ddl_text_refuse_changed("Statistics object", name, definition);
	definition[strlen(definition) - strlen(suffix)] = '\0';

	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "CREATE STATISTICS IF NOT EXISTS %s%s FROM %s",
							quote_qualified_identifier(table->shards[i].schema,
													   shard_ddl_table_object(table, &table->shards[i], name)),
							definition + strlen(prefix), table->shards[i].relation);
}

bool
shard_ddl_create_statistics(ShardDdlCall *call)
{
	CreateStatsStmt *stmt = castNode(CreateStatsStmt, call->pstmt->utilityStmt);
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	List	   *before;

	if (list_length(stmt->relations) != 1 || !IsA(linitial(stmt->relations), RangeVar))
		return false;
	table = shard_ddl_table_owned(linitial_node(RangeVar, stmt->relations), ShareUpdateExclusiveLock);
	if (table == NULL)
		return false;
	before = statistics_of(table->relid);
	shard_ddl_run_core(call);
	CommandCounterIncrement();
	batch = shard_ddl_batch_create(table);
	foreach_oid(statistics, list_difference_oid(statistics_of(table->relid), before))
		add_create(batch, statistics);
	shard_ddl_make_objects(table, false);
	shard_ddl_batch_run(batch);
	return true;
}

/* Lets core run ALTER STATISTICS, and runs it on each shard that has them: the change, and for RENAME TO newname. */
static bool
alter_statistics(ShardDdlCall *call, List *names, const char *change, const char *newname)
{
	ShardDdlTable *table = shard_ddl_table(table_of(names));
	ShardDdlBatch *batch;
	char	  **found;

	if (table == NULL)
		return false;
	shard_ddl_run_core(call);
	batch = shard_ddl_batch_create(table);
	found = shard_ddl_find_statistics(table, strVal(llast(names)));
	for (int i = 0; i < table->nshards; i++)
		if (found[i])
			shard_ddl_batch_add(batch, i, "ALTER STATISTICS %s %s%s", quote_qualified_identifier(table->shards[i].schema, found[i]), change,
								newname ? quote_identifier(shard_ddl_table_object(table, &table->shards[i], newname)) : "");
	shard_ddl_batch_run(batch);
	return true;
}

bool
shard_ddl_alter_statistics(ShardDdlCall *call)
{
	AlterStatsStmt *stmt = castNode(AlterStatsStmt, call->pstmt->utilityStmt);

	return alter_statistics(call, stmt->defnames, psprintf("SET STATISTICS %d", shard_stats_target(stmt)), NULL);
}

bool
shard_ddl_rename_statistics(ShardDdlCall *call)
{
	RenameStmt *stmt = castNode(RenameStmt, call->pstmt->utilityStmt);

	return alter_statistics(call, (List *) stmt->object, "RENAME TO ", stmt->newname);
}
