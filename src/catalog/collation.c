/*
 * collation.c
 *	  Do nodes compare and sort text in the default collation in the same way as the coordinator?  Which majors do the
 *	  nodes run?
 *
 * One string describes a database: the major version of its server, a bar, and its default collation (provider,
 * collation and character type, locale, rules, the version of the library that compares, and the encoding).
 *
 * add_node() and check_cluster() ask a node for its description, and store it as the server's option
 * default_collation.  shardfdw_internal.default_collation() returns the coordinator's description.
 *
 *	 sort		only if the descriptions are equal, and contain a version in which the
 *				database's text was indexed
 *	 compare	unless a node is known to have another description.  A server that was
 *				created manually has none: as in postgres_fdw, it is assumed to be equal
 *
 * Sorting and comparing ignore the major.
 *
 * The version is empty for a locale without a version (C.UTF-8 of libc).  If the database's text
 * was indexed in another version, that version follows after an exclamation mark.
 */
#include "postgres.h"

#include "catalog/collation.h"
#include "catalog/option.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "catalog_scan.h"
#include "compat.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(shardfdw_default_collation);

/*
 * Returns a text column of this database's row of pg_database; NULL if it is null, or does not
 * exist in this major.
 */
static char *
database_text(HeapTuple tuple, AttrNumber attno)
{
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (attno != InvalidAttrNumber)
		value = SysCacheGetAttr(DATABASEOID, tuple, attno, &isnull);
	return isnull ? NULL : TextDatumGetCString(value);
}

/* Returns the version of the library that compares text on the coordinator; NULL if it has no version. */
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

/* COLLPROVIDER_BUILTIN, which came with 17 */
#define BUILTIN_PROVIDER 'b'

/*
 * The built-in provider has version 1 in all majors, although their Unicode data differ.  Its locale C uses no Unicode
 * data.
 */
static const char *
unicode_data(char provider, const char *locale)
{
	return provider == BUILTIN_PROVIDER && strcmp(locale, "C") != 0 ? "/" SHARD_MAJOR_VERSION : "";
}

/* Returns the description of this database.  node_query() makes the query for the description of a node's database. */
static char *
describe(bool *has_version)
{
	HeapTuple	tuple = shard_catalog_row(DATABASEOID, MyDatabaseId);
	char		provider;
	char	   *collate;
	char	   *ctype;
	const char *locale;
	const char *noted;
	const char *version;
	char	   *result;

	provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
	collate = database_text(tuple, Anum_pg_database_datcollate);
	ctype = database_text(tuple, Anum_pg_database_datctype);
	locale = or_empty(database_text(tuple, SHARD_ANUM_DATABASE_LOCALE));
	noted = or_empty(database_text(tuple, Anum_pg_database_datcollversion));
	version = or_empty(actual_version());

	/* comparing bytes has no version, and needs none */
	if (*version == '\0' && provider == COLLPROVIDER_LIBC &&
		(strcmp(collate, "C") == 0 || strcmp(collate, "POSIX") == 0))
		version = noted = collate = "C";
	*has_version = *version != '\0' && strcmp(version, noted) == 0;
	result = psprintf(SHARD_MAJOR_VERSION "|%c|%s %s|%s|%s|%s%s%s%s|%s", provider, collate, strcmp(ctype, "POSIX") == 0 ? "C" : ctype, locale,
					  or_empty(database_text(tuple, SHARD_ANUM_DATABASE_RULES)),
					  version, strcmp(version, noted) == 0 ? "" : "!", strcmp(version, noted) == 0 ? "" : noted,
					  unicode_data(provider, locale), GetDatabaseEncodingName());
	ReleaseSysCache(tuple);
	return result;
}

/* Returns the coordinator's description.  Neither library nor locale changes within a session. */
static const char *
own_description(bool *has_version)
{
	static char *ours = NULL;
	static bool ours_has_version;

	if (ours == NULL)
		ours = MemoryContextStrdup(TopMemoryContext, describe(&ours_has_version));
	*has_version = ours_has_version;
	return ours;
}

/* Returns the description without the major. */
static const char *
collation_part(const char *description)
{
	const char *bar = strchr(description, '|');

	return bar ? bar + 1 : description;
}

bool
shard_collation_same_default(const ShardMap *map)
{
	bool		has_version;
	const char *ours = collation_part(own_description(&has_version));

	if (!has_version)
		return false;
	for (int i = 0; i < map->nnodes; i++)
	{
		if (map->nodes[i].default_collation == NULL ||
			strcmp(collation_part(map->nodes[i].default_collation), ours) != 0)
			return false;
	}
	return true;
}

/* What the descriptions of all nodes say. */
typedef struct Differences
{
	bool		collation;		/* a node has another default collation */
	uint32		majors;			/* shard_collation_majors_apart() */
} Differences;

static bool differences_known = false;
static Differences differences;
static uint64 server_changes = 0;

void
shard_collation_invalidate(void)
{
	differences_known = false;
	server_changes++;
}

static Differences
find_differences(void)
{
	bool		has_version;
	const char *ours = own_description(&has_version);
	int			lowest = atoi(ours);
	int			highest = lowest;
	Differences found = {false};
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, ForeignServerRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;
		const char *theirs = shard_option_is_our_server(serverid) ? shard_option_server(serverid, "default_collation") : NULL;
		int			major = theirs ? atoi(theirs) : 0;

		if (theirs != NULL && strcmp(collation_part(theirs), collation_part(ours)) != 0)
			found.collation = true;
		if (major > 0 && major < 32)
		{
			lowest = Min(lowest, major);
			highest = Max(highest, major);
		}
	}
	shard_catalog_scan_end(&scan);
	found.majors = (UINT32_C(2) << highest) - (UINT32_C(2) << lowest);
	return found;
}

static const Differences *
known_differences(void)
{
	if (!differences_known)
	{
		/* servers may change during the look-up */
		uint64		before = server_changes;

		differences = find_differences();
		differences_known = server_changes == before;
	}
	return &differences;
}

bool
shard_collation_differs(void)
{
	return known_differences()->collation;
}

uint32
shard_collation_majors_apart(void)
{
	return known_differences()->majors;
}

bool
shard_collation_is_builtin(Oid collation)
{
	return DatumGetChar(shard_catalog_value(COLLOID, collation, Anum_pg_collation_collprovider)) == BUILTIN_PROVIDER;
}

Datum
shardfdw_default_collation(PG_FUNCTION_ARGS)
{
	bool		has_version;

	PG_RETURN_TEXT_P(cstring_to_text(describe(&has_version)));
}
