/*
 * ddl_extension.c
 *	  When the extension is dropped, undoes the changes of CREATE EXTENSION other than objects.
 */
#include "postgres.h"

#include "commands/extension.h"
#include "ddl/ddl_extension.h"
#include "ddl/ddl_here.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "utils/snapmgr.h"

/* Returns the statement that removes the library from session_preload_libraries; no row if it is not there. */
#define FORGET_SQL \
	"SELECT format('ALTER DATABASE %I ', current_database()) || " \
	"	coalesce('SET session_preload_libraries = ' || string_agg(quote_literal(name), ', ' ORDER BY n) FILTER (WHERE NOT ours), " \
	"			 'RESET session_preload_libraries') " \
	"FROM (SELECT n, btrim(element, ' \"') AS name, regexp_replace(btrim(element, ' \"'), '^.*/', '') = 'shardfdw' AS ours " \
	"	FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase AND d.datname = current_database(), " \
	"		unnest(setconfig) setting, " \
	"		unnest(string_to_array(substr(setting, length('session_preload_libraries=') + 1), ',')) WITH ORDINALITY e (element, n) " \
	"	WHERE setrole = 0 AND starts_with(setting, 'session_preload_libraries=')) l " \
	"HAVING bool_or(ours)"

bool
shard_ddl_extension_is_ours(Oid extension)
{
	char	   *name = get_extension_name(extension);

	return name != NULL && strcmp(name, "shardfdw") == 0;
}

void
shard_ddl_extension_forget_library(void)
{
	/* the current value, independent of the transaction's snapshot: another session may have added libraries */
	char	   *command = shard_own_sql_value(FORGET_SQL, GetLatestSnapshot());

	if (command == NULL)
		return;
	if (!superuser())
		ereport(WARNING,
				(errmsg("new sessions of this database go on loading the library shardfdw"),
				 errhint("Before its files are removed, a superuser must run: %s", command)));
	else
		shard_ddl_run_here(list_make1(command));
}
