/*
 * version.c
 *	  The version of this library, and whether it matches the SQL objects of the database.
 *
 * Both come in one package, but do not change at the same time:
 *
 *	 package installed		sessions that begin later load the new library; if the
 *							server preloads it, only after a restart
 *	 ALTER EXTENSION		the database has the new SQL objects
 *
 * In between, one of them may call or read something that does not exist in the other.  So code
 * that uses a sharded table or a node calls shard_version_check() first.  Everything else works:
 * other tables, pg_dump, ALTER and DROP EXTENSION.
 *
 * A successful check is cached, since it takes a tenth of the time of a short statement.  Core
 * sends no invalidation for changes of pg_extension.  It sends some for the objects that an upgrade
 * script changes.  So the check is repeated after any change of functions or wrappers.
 *
 * The version comes from shardfdw.control; the Makefile passes it to this file only.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_extension.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "own_sql.h"
#include "utils/builtins.h"
#include "version.h"

#define EXTENSION "shardfdw"

/* The default version of CREATE EXTENSION and ALTER EXTENSION ...  UPDATE. */
#define DEFAULT_VERSION_SQL \
	"SELECT default_version FROM pg_catalog.pg_available_extensions " \
	"WHERE name OPERATOR(pg_catalog.=) '" EXTENSION "'"

SHARD_MODULE_MAGIC(EXTENSION, SHARDFDW_VERSION);

PG_FUNCTION_INFO_V1(shardfdw_library_version);

/*
 * Versions of the SQL objects, other than its own, with which this library works.  A version may be listed if, since
 * that version, no SQL object has changed that C code calls or reads, or that calls C code.
 */
static const char *const compatible_versions[] = {
	NULL
};

/* Library and SQL objects match, and no invalidation since then could have changed that. */
static bool checked = false;

/*
 * library_version() -> text
 */
Datum
shardfdw_library_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(SHARDFDW_VERSION));
}

/* Returns the version of the SQL objects in this database; NULL: none.  Memory: current context. */
static char *
installed_version(void)
{
	char	   *version = NULL;
	ScanKeyData key;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(EXTENSION));
	shard_catalog_scan_begin_keys(&scan, ExtensionRelationId, ExtensionNameIndexId, NULL, 1, &key);
	tuple = shard_catalog_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(scan.rel), &isnull);

		version = TextDatumGetCString(value);
	}
	shard_catalog_scan_end(&scan);
	return version;
}

static bool
is_compatible(const char *version)
{
	if (strcmp(version, SHARDFDW_VERSION) == 0)
		return true;
	for (int i = 0; compatible_versions[i] != NULL; i++)
	{
		if (strcmp(version, compatible_versions[i]) == 0)
			return true;
	}
	return false;
}

/* Compares the numbers between the dots: 1.10 is newer than 1.9. */
static bool
is_newer(const char *version, const char *than)
{
	while (*version != '\0' || *than != '\0')
	{
		char	   *version_end;
		char	   *than_end;
		long		left = strtol(version, &version_end, 10);
		long		right = strtol(than, &than_end, 10);

		if (left != right)
			return left > right;
		if (version_end == version && than_end == than)
			break;				/* not numbers: not a version of this extension */
		version = version_end + (*version_end == '.');
		than = than_end + (*than_end == '.');
	}
	return false;
}

static void
report_mismatch(int elevel, const char *installed)
{
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"%s\" is version %s in this database, but the library that this session has loaded is version %s",
					EXTENSION, installed, SHARDFDW_VERSION),
			 is_newer(installed, SHARDFDW_VERSION) ?
			 errhint("Connect again, or restart the server if its shared_preload_libraries names the library. If the server has no newer one, install version %s of it.",
					 installed) :
			 errhint("Run: ALTER EXTENSION %s UPDATE", EXTENSION)));
}

/* Checks the versions.  If they do not match, reports it at elevel, and returns false if that returns. */
static bool
check(int elevel)
{
	char	   *installed;

	/*
	 * Scripts of extensions run while pg_extension still has the old version; pg_upgrade may bring
	 * older objects to a newer library.
	 */
	if (checked || creating_extension || IsBinaryUpgrade)
		return true;
	installed = installed_version();
	/* NULL: the wrapper was created manually from this library, without the extension */
	if (installed == NULL || is_compatible(installed))
		checked = true;
	else
		report_mismatch(elevel, installed);
	if (installed != NULL)
		pfree(installed);
	return checked;
}

void
shard_version_check(void)
{
	(void) check(ERROR);
}

bool
shard_version_check_noerror(void)
{
	return check(LOG);
}

/* Returns the version in the options of CREATE or ALTER EXTENSION, or else in the control file.  NULL: neither. */
static char *
version_to_install(List *options)
{
	foreach_node(DefElem, option, options)
	{
		if (strcmp(option->defname, "new_version") == 0)
			return defGetString(option);
	}
	return shard_own_sql_value(DEFAULT_VERSION_SQL, InvalidSnapshot);
}

void
shard_version_check_statement(Node *stmt)
{
	const char *extension;
	List	   *options;
	char	   *version;

	if (IsA(stmt, CreateExtensionStmt))
	{
		extension = castNode(CreateExtensionStmt, stmt)->extname;
		options = castNode(CreateExtensionStmt, stmt)->options;
		if (castNode(CreateExtensionStmt, stmt)->if_not_exists && installed_version() != NULL)
			return;
	}
	else if (IsA(stmt, AlterExtensionStmt))
	{
		extension = castNode(AlterExtensionStmt, stmt)->extname;
		options = castNode(AlterExtensionStmt, stmt)->options;
	}
	else
		return;
	if (strcmp(extension, EXTENSION) != 0)
		return;

	checked = false;
	version = version_to_install(options);
	if (version != NULL && is_newer(version, SHARDFDW_VERSION))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot install version %s of extension \"%s\" while the library that this session has loaded is version %s",
						version, EXTENSION, SHARDFDW_VERSION),
				 errhint("Connect again, or restart the server if its shared_preload_libraries names the library.")));
}

void
shard_version_forget(void)
{
	checked = false;
}
