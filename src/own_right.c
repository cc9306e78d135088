/*
 * own_right.c
 *	  Rights on functions of the extension's public schema.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "own_right.h"
#include "own_schema.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

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
