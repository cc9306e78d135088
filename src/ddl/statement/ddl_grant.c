/*
 * ddl_grant.c
 *	  GRANT and REVOKE on tables that have tables on nodes, and on their schemas.
 *
 * A user of the coordinator needs rights on its table.  On the node, the role of the user mapping needs these rights.
 * GRANT is sent to nodes for roles of the same names, if the nodes have these roles.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_send.h"
#include "ddl/now.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_statement.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

/*
 * Triggers run on the coordinator.  A role with the privilege TRIGGER on a shard could run code on the node with the rights of
 * other roles, so no role gets this privilege there.  MAINTAIN depends on the node's version.
 */
#define ALL_ON_SHARDS "SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES"

/* "SELECT (a, b), INSERT"; "" if there is nothing to grant */
static char *
privileges_text(const GrantStmt *stmt)
{
	bool		is_of_shards = stmt->is_grant && stmt->objtype == OBJECT_TABLE;
	StringInfoData text;

	if (stmt->privileges == NIL)
		return pstrdup(is_of_shards ? ALL_ON_SHARDS : "ALL");
	initStringInfo(&text);
	foreach_node(AccessPriv, privilege, stmt->privileges)
	{
		if (is_of_shards && privilege->priv_name && strcmp(privilege->priv_name, "trigger") == 0)
			continue;
		/* names of privileges are key words */
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", privilege->priv_name ? privilege->priv_name : "ALL");
		if (privilege->cols != NIL)
			appendStringInfo(&text, " (%s)", shard_alter_quoted_columns(privilege->cols));
	}
	return text.data;
}

/* The tables that a GRANT names, or the tables of its schemas.  InvalidOid for missing ones. */
static List *
tables_of(const GrantStmt *stmt)
{
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		if (IsA(lfirst(lc), RangeVar))
			tables = lappend_oid(tables, RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true));
		else
			tables = list_concat(tables, shard_ddl_table_of_schema(get_namespace_oid(strVal(lfirst(lc)), true)));
	}
	return tables;
}

/*
 * The command for one shard and one grantee. object: "TABLE a.b" or "SCHEMA a". condition: an additional condition,
 * or "".
 */
static void
add_grant(ShardDdlBatch *batch, int shardno, const GrantStmt *stmt, const char *privileges, RoleSpec *grantee, const char *object,
		  const char *condition)
{
	bool		is_public = grantee->roletype == ROLESPEC_PUBLIC;
	char	   *role = is_public ? pstrdup("PUBLIC") : get_rolespec_name(grantee);
	bool		may_maintain = strcmp(privileges, ALL_ON_SHARDS) == 0;
	char	   *command;

	if (stmt->is_grant)
	{
		char	   *to = psprintf("ON %s TO %s%s", object, is_public ? role : quote_identifier(role),
								  stmt->grant_option ? " WITH GRANT OPTION" : "");

		command = psprintf("GRANT %s %s", privileges, to);
		if (may_maintain)
			command = psprintf("%s; IF pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 170000 THEN GRANT MAINTAIN %s; END IF",
							   command, to);
	}
	else
		command = psprintf("REVOKE %s%s ON %s FROM %s%s", stmt->grant_option ? "GRANT OPTION FOR " : "",
						   privileges, object, is_public ? role : quote_identifier(role),
						   stmt->behavior == DROP_CASCADE ? " CASCADE" : "");
	if (is_public && *condition == '\0' && !may_maintain)
		shard_ddl_batch_add(batch, shardno, "%s", command);
	else
		shard_ddl_batch_add(batch, shardno, "DO %s", quote_literal_cstr(
			psprintf("BEGIN IF %s%s THEN %s; END IF; END",
					 is_public ? "true" : psprintf("EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %s)", quote_literal_cstr(role)),
					 condition, command)));
}

/*
 * May the user grant some right on a table?  If not, core only warns and changes nothing.  But the role on the node,
 * which several users may share, might have the right.
 */
static bool
may_grant(Oid relid)
{
	text	   *rights = cstring_to_text("SELECT WITH GRANT OPTION, INSERT WITH GRANT OPTION, UPDATE WITH GRANT OPTION, REFERENCES WITH GRANT OPTION");
	text	   *more = cstring_to_text("DELETE WITH GRANT OPTION, TRUNCATE WITH GRANT OPTION, TRIGGER WITH GRANT OPTION"
									   SHARD_OR_MAINTAIN(" WITH GRANT OPTION"));

	return shard_class_ownercheck(relid, GetUserId()) ||
		DatumGetBool(DirectFunctionCall2(has_any_column_privilege_id, ObjectIdGetDatum(relid), PointerGetDatum(rights))) ||
		DatumGetBool(DirectFunctionCall2(has_table_privilege_id, ObjectIdGetDatum(relid), PointerGetDatum(more)));
}

/* The same for a schema. */
static bool
may_grant_schema(Oid schema)
{
	text	   *rights = cstring_to_text("USAGE WITH GRANT OPTION, CREATE WITH GRANT OPTION");

	return OidIsValid(schema) && DatumGetBool(DirectFunctionCall2(has_schema_privilege_id, ObjectIdGetDatum(schema), PointerGetDatum(rights)));
}

/* Changes the nodes. */
static void
grant_rest(void *arg)
{
	const GrantStmt *stmt = arg;
	const char *privileges = privileges_text(stmt);

	foreach_oid(relid, tables_of(stmt))
	{
		ShardDdlTable *table = get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE ? NULL : shard_ddl_table(relid);
		ShardDdlBatch *batch;

		if (table == NULL || *privileges == '\0' || !may_grant(relid))
			continue;
		batch = shard_ddl_batch_create(table);
		/* other users revoke what they have granted here, but on a node what its role has granted */
		batch->only_names_shards = shard_class_ownercheck(relid, GetUserId());
		for (int i = 0; i < table->nshards; i++)
			foreach_node(RoleSpec, grantee, stmt->grantees)
				add_grant(batch, i, stmt, privileges, grantee, psprintf("TABLE %s", table->shards[i].relation), "");
		shard_ddl_batch_run(batch);
	}
}

/*
 * The condition under which a node grants or revokes privileges on its schema of this name.  A schema that another role
 * has made there may have the same name.  A REVOKE applies to every schema of the name, since privileges must not stay.
 */
static const char *
schema_condition(const GrantStmt *stmt, Oid namespace, const char *schema, Oid serverid)
{
	if (!stmt->is_grant)
		return psprintf(" AND (SELECT pg_catalog.pg_has_role(n.nspowner, 'USAGE') FROM pg_catalog.pg_namespace n WHERE n.nspname = %s)",
						quote_literal_cstr(schema));
	return psprintf(" AND %s", shard_now_value(psprintf("SELECT shardfdw_internal.same_schema_condition(%u, %s)", namespace,
														quote_literal_cstr(GetForeignServer(serverid)->servername))));
}

/* Sends GRANT ON SCHEMA to the nodes that have shards or replicas of its tables, if the user owns the schema. */
static void
schema_rest(void *arg)
{
	const GrantStmt *stmt = arg;
	const char *privileges = privileges_text(stmt);

	foreach_node(String, name, stmt->objects)
	{
		char	   *schema = strVal(name);
		Oid			namespace = get_namespace_oid(schema, true);
		const char *object = psprintf("SCHEMA %s", quote_identifier(schema));
		List	   *servers = NIL;

		foreach_oid(relid, may_grant_schema(namespace) ? shard_ddl_table_of_schema(namespace) : NIL)
		{
			ShardDdlTable *table;
			ShardDdlBatch *batch;

			/* shards may be in another schema than their table */
			if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE &&
				(!get_rel_relispartition(relid) || list_member_oid(servers, GetForeignTable(relid)->serverid)))
				continue;
			table = shard_ddl_table(relid);
			if (table == NULL)
				continue;
			/* two concurrent GRANTs on a schema fail */
			shard_schema_lock_new_objects();
			batch = shard_ddl_batch_create(table);
			batch->keeps_definition = true;
			for (int i = 0; i < table->nshards; i++)
			{
				const char *condition;

				if (list_member_oid(servers, table->shards[i].serverid))
					continue;
				servers = lappend_oid(servers, table->shards[i].serverid);
				condition = schema_condition(stmt, namespace, schema, table->shards[i].serverid);
				foreach_node(RoleSpec, grantee, stmt->grantees)
					add_grant(batch, i, stmt, privileges, grantee, object, condition);
			}
			shard_ddl_batch_run(batch);
		}
	}
}

/* Have nodes tables of which a GRANT names the table or the schema? */
static bool
concerns_nodes(const GrantStmt *stmt)
{
	foreach_oid(relid, tables_of(stmt))
		if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE && shard_ddl_table(relid) != NULL)
			return true;
	return false;
}

bool
shard_ddl_grant(ShardDdlCall *call)
{
	GrantStmt  *stmt = castNode(GrantStmt, call->pstmt->utilityStmt);
	bool		is_of_schemas = stmt->objtype == OBJECT_SCHEMA && stmt->targtype == ACL_TARGET_OBJECT;

	if (!is_of_schemas && (stmt->objtype != OBJECT_TABLE || stmt->targtype == ACL_TARGET_DEFAULTS))
		return false;
	if (call->is_late && !concerns_nodes(stmt))
		return false;
	/* core may change the statement, which may belong to a cached plan */
	shard_ddl_run_core_then(call, NULL, is_of_schemas ? schema_rest : grant_rest, copyObject(stmt));
	return true;
}
