/*
 * error_function.c
 *	  Names the command that makes a function which a node lacks.
 *
 * PostgreSQL does not record which functions are called by a body that is a string.  So nodes get a function of PL/pgSQL
 * without the functions that it calls.  The node's error has the signature, as the body has written it:
 *
 *	  function public.helper(integer) does not exist
 *			   ------------- -------
 *			   name			 types of the call
 *
 * Messages of other languages have the signature between spaces, too.  Otherwise there is no HINT.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "lib/stringinfo.h"
#include "service/error_function.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/* Splits the signature in message, without its types.  *schema: NULL if it has none.  Returns false if there is none. */
static bool
find_name(const char *message, char **schema, char **name, char **types)
{
	const char *open = strchr(message, '(');
	const char *close = open ? strstr(open, ") ") : NULL;
	const char *start = open;
	char	   *dot;

	if (close == NULL)
		return false;
	while (start > message && start[-1] != ' ')
		start--;
	*types = pnstrdup(open + 1, close - open - 1);
	*schema = NULL;
	*name = pnstrdup(start, open - start);
	dot = strrchr(*name, '.');
	if (dot != NULL)
	{
		*dot = '\0';
		*schema = *name;
		*name = dot + 1;
	}
	return (*name)[0] != '\0' && strlen(*name) < NAMEDATALEN;
}

/* The types of a function's arguments, as in messages. */
static char *
types_of(Form_pg_proc proc)
{
	StringInfoData types;

	initStringInfo(&types);
	for (int i = 0; i < proc->pronargs; i++)
		appendStringInfo(&types, "%s%s", i > 0 ? ", " : "", format_type_be(proc->proargtypes.values[i]));
	return types.data;
}

/*
 * Is it a function of a user that the command makes in the same way?  A node's function belongs to the role of the user
 * mapping.  So functions with the rights of their owner are left out.
 */
static bool
can_be_made(Form_pg_proc proc, Oid namespace)
{
	return proc->oid >= FirstNormalObjectId && proc->prokind != PROKIND_AGGREGATE && !proc->prosecdef &&
		(!OidIsValid(namespace) || proc->pronamespace == namespace) &&
		!OidIsValid(getExtensionOfObject(ProcedureRelationId, proc->oid));
}

/* Returns the function with these types, otherwise another function of the name, or InvalidOid. */
static Oid
find_function(Oid namespace, const char *name, const char *types)
{
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	Oid			found = InvalidOid;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		if (!can_be_made(proc, namespace))
			continue;
		if (!OidIsValid(found) || strcmp(types_of(proc), types) == 0)
			found = proc->oid;
	}
	ReleaseSysCacheList(list);
	return found;
}

char *
shard_error_function_hint(const char *message)
{
	char	   *schema;
	char	   *name;
	char	   *types;
	char	   *command;
	Oid			namespace = InvalidOid;
	Oid			function;

	if (!find_name(message, &schema, &name, &types))
		return NULL;
	if (schema != NULL && !OidIsValid(namespace = get_namespace_oid(schema, true)))
		return NULL;
	function = find_function(namespace, name, types);
	if (!OidIsValid(function))
		return NULL;
	command = psprintf("SELECT * FROM shardfdw.run_on_nodes(pg_get_functiondef(%s::regprocedure));",
					   quote_literal_cstr(format_procedure_qualified(function)));
	if (schema != NULL)
		return psprintf(_("Make the function on the nodes: %s"), command);
	return psprintf(_("Call the function with its schema, or add SET search_path to its caller. If nodes lack it: %s"), command);
}
