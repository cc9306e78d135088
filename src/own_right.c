/*
 * own_right.c
 *	  Rights on functions of the extension's public schema, and on objects that the extension creates.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(shardfdw_revoke_command);
PG_FUNCTION_INFO_V1(shardfdw_grant_as);

bool
shard_own_right_has(Oid role, const char *function)
{
	Oid			schema;
	Oid			extension;
	CatCList   *functions;
	bool		result = false;

	if (superuser_arg(role))
		return true;
	schema = get_namespace_oid(SHARD_SCHEMA, true);
	extension = get_extension_oid(SHARD_EXTENSION, true);
	if (!OidIsValid(schema) || !OidIsValid(extension))
		return false;
	functions = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(function));
	for (int i = 0; i < functions->n_members; i++)
	{
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(&functions->members[i]->tuple);

		if (proc->pronamespace == schema &&
			getExtensionOfObject(ProcedureRelationId, proc->oid) == extension &&
			DatumGetBool(DirectFunctionCall3(has_function_privilege_id_id, ObjectIdGetDatum(role),
											 ObjectIdGetDatum(proc->oid), CStringGetTextDatum("EXECUTE"))))
			result = true;
	}
	ReleaseSysCacheList(functions);
	return result;
}

void
shard_own_right_check(const char *function)
{
	if (!shard_own_right_has(GetUserId(), function))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, function);
}

char *
shard_own_right_revoke(const char *kind, const char *name)
{
	/* catalog, prefix of its columns, type of its OIDs */
	const char *const table[] = {"pg_class", "rel", "regclass"};
	const char *const schema[] = {"pg_namespace", "nsp", "regnamespace"};
	const char *const function[] = {"pg_proc", "pro", "regprocedure"};
	const char *const *catalog = strcmp(kind, "TABLE") == 0 ? table : strcmp(kind, "SCHEMA") == 0 ? schema : function;
	char	   *body;

	body = psprintf("DECLARE others text := (SELECT pg_catalog.string_agg(DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC'"
					" ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(x.grantee)) END, ', ')"
					" FROM pg_catalog.%s o, pg_catalog.aclexplode(o.%sacl) x WHERE o.oid = %s::pg_catalog.%s AND x.grantee <> o.%sowner);"
					" BEGIN IF others <> '' THEN EXECUTE pg_catalog.concat(%s, others); END IF; END",
					catalog[0], catalog[1], quote_literal_cstr(name), catalog[2], catalog[1],
					quote_literal_cstr(psprintf("REVOKE ALL ON %s %s FROM ", kind, name)));
	return psprintf("DO %s", quote_literal_cstr(body));
}

/* revoke_command(name, kind) -> text */
Datum
shardfdw_revoke_command(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(shard_own_right_revoke(text_to_cstring(PG_GETARG_TEXT_PP(1)), text_to_cstring(PG_GETARG_TEXT_PP(0)))));
}

/*
 * The relation, or the relation of the row type, of a GRANT on one object.  InvalidOid: another command.  Replaces the
 * name by the qualified one, because the search_path of another role may find another object.
 */
static Oid
granted_relation(const RawStmt *raw)
{
	GrantStmt  *stmt = (GrantStmt *) raw->stmt;
	Oid			relid = InvalidOid;
	char	   *schema;
	char	   *name;

	if (!IsA(stmt, GrantStmt) || !stmt->is_grant || stmt->targtype != ACL_TARGET_OBJECT || list_length(stmt->objects) != 1)
		return InvalidOid;
	if (stmt->objtype == OBJECT_TABLE || stmt->objtype == OBJECT_SEQUENCE)
		relid = RangeVarGetRelid(linitial_node(RangeVar, stmt->objects), AccessShareLock, false);
	else if (stmt->objtype == OBJECT_TYPE)
		relid = typeidTypeRelid(typenameTypeId(NULL, makeTypeNameFromNameList(linitial_node(List, stmt->objects))));
	if (!OidIsValid(relid))
		return InvalidOid;
	LockRelationOid(relid, AccessShareLock);
	schema = get_namespace_name(get_rel_namespace(relid));
	name = get_rel_name(relid);
	if (schema == NULL || name == NULL)
		return InvalidOid;
	if (stmt->objtype == OBJECT_TYPE)
		stmt->objects = list_make1(list_make2(makeString(schema), makeString(name)));
	else
		stmt->objects = list_make1(makeRangeVar(schema, name, -1));
	return relid;
}

/*
 * grant_as(grantor name, command text) -> void.  No code of users runs as the grantor: the command is executed without
 * event triggers.  Core checks that the grantor has the grant option.
 */
Datum
shardfdw_grant_as(PG_FUNCTION_ARGS)
{
	Oid			grantor = get_role_oid(NameStr(*PG_GETARG_NAME(0)), false);
	List	   *commands = raw_parser(text_to_cstring(PG_GETARG_TEXT_PP(1)), RAW_PARSE_DEFAULT);
	Oid			relid = list_length(commands) == 1 ? granted_relation(linitial_node(RawStmt, commands)) : InvalidOid;
	ShardOwnSql own;

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("command is not a GRANT on one relation")));
	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	shard_own_sql_become(&own, grantor);
	ExecuteGrantStmt(castNode(GrantStmt, linitial_node(RawStmt, commands)->stmt));
	shard_own_sql_return(&own);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
