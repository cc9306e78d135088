/*
 * collation.c
 *	  Whether nodes sort text in the default collation as the coordinator does.
 *
 * A default collation is described by one string: provider, locale, rules, the
 * version of the library that compares, and the encoding.  add_node() and
 * check_cluster() ask a node for it and note it as the server's option
 * default_collation; shardfdw_internal.default_collation() returns the coordinator's.
 * Only if both are known and equal, the same order is sure.
 *
 * A locale without a version (C.UTF-8 of libc) has no description, nor has a
 * database whose text was indexed with another version than the library's now.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/collation.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(shardfdw_default_collation);

/* A text column of our row of pg_database; NULL when it is null, or not there in this major. */
static char *
database_text(HeapTuple tuple, AttrNumber attno)
{
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (attno != InvalidAttrNumber)
		value = SysCacheGetAttr(DATABASEOID, tuple, attno, &isnull);
	return isnull ? NULL : TextDatumGetCString(value);
}

/* The version of the library that compares text on the coordinator; NULL when it has none. */
static char *
actual_version(void)
{
	LOCAL_FCINFO(fcinfo, 1);
	FmgrInfo	flinfo;
	Datum		result;

	fmgr_info(F_PG_DATABASE_COLLATION_ACTUAL_VERSION, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(MyDatabaseId);
	fcinfo->args[0].isnull = false;
	result = FunctionCallInvoke(fcinfo);
	return fcinfo->isnull ? NULL : TextDatumGetCString(result);
}

static const char *
or_empty(const char *string)
{
	return string ? string : "";
}

/* The description of this database's default collation, as inspect_nodes() makes it of a node's; or NULL. */
static char *
describe(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	char		provider;
	char	   *collate;
	char	   *noted;
	char	   *version;
	char	   *result = NULL;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
	collate = database_text(tuple, Anum_pg_database_datcollate);
	noted = database_text(tuple, Anum_pg_database_datcollversion);
	version = actual_version();

	/* bytes have no version, and need none */
	if (version == NULL && provider == COLLPROVIDER_LIBC &&
		(strcmp(collate, "C") == 0 || strcmp(collate, "POSIX") == 0))
		version = noted = collate = "C";
	if (version != NULL && noted != NULL && strcmp(version, noted) == 0)
		result = psprintf("%c|%s|%s|%s|%s|%s", provider, collate,
						  or_empty(database_text(tuple, SHARD_ANUM_DATABASE_LOCALE)),
						  or_empty(database_text(tuple, SHARD_ANUM_DATABASE_RULES)),
						  version, GetDatabaseEncodingName());
	ReleaseSysCache(tuple);
	return result;
}

bool
shard_collation_same_default(const ShardMap *map)
{
	static bool known = false;
	static char *ours = NULL;

	/* neither library nor locale change while a session lasts */
	if (!known)
	{
		char	   *description = describe();

		if (description != NULL)
			ours = MemoryContextStrdup(TopMemoryContext, description);
		known = true;
	}
	if (ours == NULL)
		return false;
	for (int i = 0; i < map->nnodes; i++)
	{
		if (map->nodes[i].default_collation == NULL ||
			strcmp(map->nodes[i].default_collation, ours) != 0)
			return false;
	}
	return true;
}

Datum
shardfdw_default_collation(PG_FUNCTION_ARGS)
{
	char	   *description = describe();

	if (description == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(description));
}
