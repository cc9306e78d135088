/*
 * tied_parts.c
 *	  Actions of foreign keys between tables that two parts of a statement change.
 *
 * PostgreSQL carries out these actions at the end of the statement.  A node does so at the end of
 * each command that it gets, that is, between the parts.
 */
#include "postgres.h"

#include "catalog/colocate.h"
#include "catalog/partition.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/tied_parts.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

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

Oid
shard_tied_parts_table(Oid shard)
{
	return get_rel_relispartition(shard) ? get_partition_parent(shard, true) : shard;
}

bool
shard_tied_parts_reach(const ShardTiedChange *change, const List *tables)
{
	Oid			serverid = GetForeignTable(change->shard)->serverid;
	Oid			table = shard_tied_parts_table(change->shard);
	StringInfoData sql;
	List	   *names = NIL;
	ShardCommand command = {0};
	bool		result;
	ListCell   *lc;

	foreach(lc, tables)
	{
		if (GetForeignTable(lfirst_oid(lc))->serverid == serverid && shard_colocated(table, shard_tied_parts_table(lfirst_oid(lc))))
			names = lappend(names, (char *) shard_dml_remote_name(lfirst_oid(lc)));
	}
	if (names == NIL)
		return false;
	initStringInfo(&sql);
	appendStringInfo(&sql, "WITH RECURSIVE reached (relid) AS ("
					 "SELECT k.conrelid FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid = %s::pg_catalog.regclass AND ",
					 quote_literal_cstr(shard_dml_remote_name(change->shard)));
	append_action(&sql, change);
	appendStringInfoString(&sql, " UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN reached r ON k.confrelid = r.relid"
						   " WHERE k.contype = 'f' AND (k.confdeltype " ACTIONS " OR k.confupdtype " ACTIONS "))"
						   " SELECT r.relid FROM reached r JOIN pg_catalog.unnest(");
	append_names(&sql, names);
	appendStringInfoString(&sql, ") n ON r.relid = pg_catalog.to_regclass(n) LIMIT 1");
	command.serverid = serverid;
	command.userid = change->userid;
	command.label = shard_dml_remote_name(change->shard);
	command.nfields = 1;
	command.sql = sql.data;
	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);
	result = PQntuples(command.result) > 0;
	shard_command_free(&command, 1);
	return result;
}
