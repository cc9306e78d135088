/*
 * tied_parts.c
 *	  Actions of foreign keys between tables that parts, or functions, of a statement change.
 *
 * PostgreSQL carries out these actions at the end of the statement.  A node does so at the end of
 * each command that it gets, that is, between the parts.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/colocate.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/statement_view.h"
#include "executor/tied_parts.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "nodes/plannodes.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define ACTIONS "IN ('c', 'n', 'd')"

static void
append_names(StringInfo buf, const List *names)
{
	const char *separator = "";

	appendStringInfoString(buf, "ARRAY[");
	foreach_ptr(const char, name, names)
	{
		appendStringInfo(buf, "%s%s", separator, quote_literal_cstr(name));
		separator = ", ";
	}
	appendStringInfoString(buf, "]::pg_catalog.text[]");
}

/* The condition on a foreign key k that refers to the changed table. */
static void
append_action(StringInfo buf, const ShardTiedChange *change)
{
	appendStringInfo(buf, "(%s AND k.confdeltype " ACTIONS " OR %s AND k.confupdtype " ACTIONS,
					 change->deletes ? "true" : "false", change->updates ? "true" : "false");
	if (change->columns != NIL)
	{
		appendStringInfoString(buf, " AND EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = k.confrelid"
							   " AND a.attnum = ANY (k.confkey) AND a.attname = ANY (");
		append_names(buf, change->columns);
		appendStringInfoString(buf, "))");
	}
	appendStringInfoChar(buf, ')');
}

/* The sharded table of a shard.  A foreign table by itself is its own. */
static Oid
table_of(Oid shard)
{
	return get_rel_relispartition(shard) ? get_partition_parent(shard, true) : shard;
}

List *
shard_tied_parts_samples(const List *shards)
{
	List	   *tables = NIL;
	List	   *result = NIL;

	foreach_oid(shard, shards)
	{
		Oid			table = table_of(shard);

		if (list_member_oid(tables, table))
			continue;
		tables = lappend_oid(tables, table);
		result = lappend_oid(result, shard);
	}
	return result;
}

/* Asks a node whether the change of a table there, with this name, may reach one of the tables names (char *). */
static bool
ask_node(const ShardTiedChange *change, Oid serverid, const char *changed, const List *names)
{
	StringInfoData sql;
	ShardCommand command = {0};
	bool		result;

	if (names == NIL)
		return false;
	initStringInfo(&sql);
	appendStringInfo(&sql, "WITH RECURSIVE reached (relid) AS ("
					 "SELECT k.conrelid FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid = %s::pg_catalog.regclass AND ",
					 quote_literal_cstr(changed));
	append_action(&sql, change);
	appendStringInfoString(&sql, " UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN reached r ON k.confrelid = r.relid"
						   " WHERE k.contype = 'f' AND (k.confdeltype " ACTIONS " OR k.confupdtype " ACTIONS "))"
						   " SELECT r.relid FROM reached r JOIN pg_catalog.unnest(");
	append_names(&sql, names);
	appendStringInfoString(&sql, ") n ON r.relid = pg_catalog.to_regclass(n) LIMIT 1");
	command.serverid = serverid;
	command.userid = change->userid;
	command.label = changed;
	command.nfields = 1;
	command.sql = sql.data;
	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);
	result = PQntuples(command.result) > 0;
	shard_command_free(&command, 1);
	return result;
}

/* Of a reference table, which is on all nodes, one node of each sharded table is asked. */
static bool
reference_reaches(const ShardTiedChange *change, const List *tables)
{
	const char *changed = shard_qualified_relation(change->shard);

	foreach_oid(shard, shard_tied_parts_samples(tables))
	{
		if (ask_node(change, GetForeignTable(shard)->serverid, changed, list_make1(unconstify(char *, shard_dml_remote_name(shard)))))
			return true;
	}
	return false;
}

bool
shard_tied_parts_reach(const ShardTiedChange *change, const List *tables)
{
	Oid			serverid;
	List	   *names = NIL;

	if (get_rel_relkind(change->shard) != RELKIND_FOREIGN_TABLE)
		return reference_reaches(change, tables);
	serverid = GetForeignTable(change->shard)->serverid;
	foreach_oid(table, tables)
	{
		if (GetForeignTable(table)->serverid == serverid && shard_colocated(table_of(change->shard), table_of(table)))
			names = lappend(names, unconstify(char *, shard_dml_remote_name(table)));
	}
	return ask_node(change, serverid, shard_dml_remote_name(change->shard), names);
}

/* The shards of a table, and of its partitions. */
static List *
shards_below(Oid relid)
{
	List	   *result = NIL;

	foreach_oid(member, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(member) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(member))
			result = lappend_oid(result, member);
	}
	return result;
}

bool
shard_tied_parts_updates_others(Relation rel)
{
	const TupleConstr *constraints = RelationGetDescr(rel)->constr;

	return (rel->trigdesc != NULL && rel->trigdesc->trig_update_before_row) ||
		(constraints != NULL && constraints->has_generated_stored);
}

static bool
updates_others(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		result = shard_tied_parts_updates_others(rel);

	relation_close(rel, AccessShareLock);
	return result;
}

/* Names of the updated columns; NIL: unknown, or columns to which nothing is assigned may have been updated. */
static List *
updated_columns(const ShardChangedTable *changed, const List *shards)
{
	List	   *result = NIL;
	int			column = -1;

	if (updates_others(changed->top))
		return NIL;
	foreach_oid(shard, shards)
	{
		const ShardMap *map = shard_map_get(shard);

		if (map == NULL || map->renames || updates_others(shard))
			return NIL;
	}
	while ((column = bms_next_member(changed->columns, column)) >= 0)
	{
		char	   *name = get_attname(changed->top, column + FirstLowInvalidHeapAttributeNumber, true);

		if (name == NULL)
			return NIL;
		result = lappend(result, name);
	}
	return result;
}

/* shard_tied_parts_reach() for changes of a table, its partitions or a reference table, and the shards of relid. */
static bool
reaches_table(const ShardChangedTable *changed, Oid relid, Oid userid)
{
	ShardTiedChange change = {.userid = userid, .deletes = changed->deletes, .updates = changed->updates};
	bool		is_reference = get_rel_relkind(changed->top) == RELKIND_RELATION;
	List	   *samples = is_reference ? list_make1_oid(changed->top) : shard_tied_parts_samples(shards_below(changed->top));
	List	   *shards = shards_below(relid);

	if (!change.deletes)
		change.columns = updated_columns(changed, is_reference ? NIL : samples);
	foreach_oid(sample, samples)
	{
		change.shard = sample;
		if (shard_tied_parts_reach(&change, shards))
			return true;
	}
	return false;
}

void
shard_tied_parts_check_unwritten(const EState *estate, Oid relid, Oid serverid, Oid userid)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;

	/* a SELECT that locks rows gets no command number, so its functions may have the one of its snapshot */
	CommandId	cid = stmt->commandType == CMD_SELECT && !stmt->hasModifyingCTE ? estate->es_snapshot->curcid : estate->es_output_cid + 1;
	bool		written = shard_nested_write_since(relid, cid, false);

	foreach_ptr(const ShardChangedTable, changed, written ? NIL : shard_nested_write_changed(cid))
		written = written || reaches_table(changed, relid, userid);
	if (written)
		shard_statement_view_refuse(relid, GetForeignServer(serverid)->servername);
}
