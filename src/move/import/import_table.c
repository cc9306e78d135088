/*
 * import_table.c
 *	  Describes the two tables of an import.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/qualified.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "move/import/import_table.h"
#include "nodes/value.h"
#include "own_sql.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* An array of n elements with room for one more. */
static void *
grow(void *array, int n, Size size)
{
	return array == NULL ? palloc0(size) : repalloc(array, size * (n + 1));
}

void
shard_import_become(Oid userid)
{
	Oid			current;
	int			sec_context;

	GetUserIdAndSecContext(&current, &sec_context);
	SetUserIdAndSecContext(userid, sec_context);
}

Oid
shard_import_become_writer(const ShardImportTable *table)
{
	Oid			current = GetUserId();

	if (OidIsValid(table->userid))
		shard_import_become(table->userid);
	return current;
}

void
shard_import_table_add(ShardImportTable *table, const char *name, bool is_key)
{
	ShardImportColumn *column;
	AttrNumber	attno;
	int32		typmod;
	Oid			collation;
	Oid			base;

	table->columns = grow(table->columns, table->ncolumns, sizeof(ShardImportColumn));
	column = &table->columns[table->ncolumns];
	memset(column, 0, sizeof(*column));
	column->name = pstrdup(name);
	column->quoted = pstrdup(quote_identifier(column->name));
	attno = get_attnum(table->relid, column->name);
	get_atttypetypmodcoll(table->relid, attno, &column->typid, &typmod, &collation);
	base = getBaseType(column->typid);
	/* without a typmod, as plain "character" or "bit" has length one */
	column->type = format_type_extended(base, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	column->is_array = OidIsValid(get_element_type(base));
	if (is_key)
	{
		TypeCacheEntry *cache = lookup_type_cache(base, TYPECACHE_EQ_OPR);

		if (!OidIsValid(cache->eq_opr))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("could not identify an equality operator for type %s", format_type_be(base))));
		column->equals = shard_qualified_operator(cache->eq_opr);
		table->keys = grow(table->keys, table->nkeys, sizeof(int));
		table->keys[table->nkeys++] = table->ncolumns;
	}
	table->ncolumns++;
	table->column_names = lappend(table->column_names, makeString(unconstify(char *, column->name)));
}

void
shard_import_table_finish(ShardImportTable *table)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < table->ncolumns; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", table->columns[i].quoted);
	table->column_list = names.data;
}

void
shard_import_set_settings(void)
{
	shard_own_sql_fix_values();
	SetConfigOption("session_replication_role", "replica", PGC_SUSET, PGC_S_OVERRIDE);
}
