/*
 * ddl_need.c
 *	  What a table needs on its nodes: types, functions and other objects.
 */
#include "postgres.h"

#include "access/transam.h"
#include "compat.h"
#include "ddl/ddl_need.h"
#include "ddl/now.h"
#include "guc.h"
#include "utils/builtins.h"

bool
shard_ddl_may_need_objects(const AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableType subtype = lfirst_node(AlterTableCmd, lc)->subtype;

		if (subtype == AT_AddColumn || subtype == AT_AlterColumnType || subtype == AT_AddConstraint ||
			subtype == SHARD_AT_SET_EXPRESSION)
			return true;
	}
	return false;
}

void
shard_ddl_make_objects(const ShardDdlTable *table)
{
	StringInfoData nodes;
	StringInfoData sql;

	if (shard_guc_follows_coordinator)
		return;
	initStringInfo(&nodes);
	for (int i = 0; i < table->nshards; i++)
		appendStringInfo(&nodes, "%s%s", i > 0 ? ", " : "", quote_literal_cstr(table->shards[i].node));
	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT shardfdw_internal.make_objects_on_nodes(%u, ARRAY[%s]::pg_catalog.name[]) WHERE EXISTS ("
					 "SELECT FROM pg_catalog.pg_depend d WHERE d.refobjid OPERATOR(pg_catalog.>=) %u "
					 "AND d.refclassid OPERATOR(pg_catalog.=) ANY ('{pg_catalog.pg_type,pg_catalog.pg_proc,pg_catalog.pg_collation,"
					 "pg_catalog.pg_operator,pg_catalog.pg_opclass}'::pg_catalog.regclass[]) AND d.objid OPERATOR(pg_catalog.=) ANY (ARRAY("
					 "SELECT %u::pg_catalog.oid UNION ALL "
					 "SELECT k.oid FROM pg_catalog.pg_constraint k WHERE k.conrelid OPERATOR(pg_catalog.=) %u UNION ALL "
					 "SELECT a.oid FROM pg_catalog.pg_attrdef a WHERE a.adrelid OPERATOR(pg_catalog.=) %u UNION ALL "
					 "SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid OPERATOR(pg_catalog.=) %u)))",
					 table->relid, nodes.data, (Oid) FirstNormalObjectId,
					 table->relid, table->relid, table->relid, table->relid);
	shard_now_run(sql.data);
}
