/*
 * error_detail.c
 *	  Decides whether the user may read the values of a row in a node's error.
 *
 * PostgreSQL shows values of a row in DETAIL only if the user may read them
 * (ExecBuildSlotValueDescription and BuildIndexValueDescription):
 *
 *	 row security is active for the user	no values
 *	 SELECT on the table					all values
 *	 SELECT on columns						the values of these columns, or a key of these columns
 *
 * A node writes all values, and its text cannot be parsed, since values are not quoted.  So a
 * DETAIL is shown completely or not at all.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/table_right.h"
#include "compat.h"
#include "miscadmin.h"
#include "service/error_detail.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

/*
 * Does the foreign table have all columns of the table on the node?  That is known only if
 * definitions of both are changed together, so not if a user has declared the table.
 */
static bool
has_all_columns(Oid relid, Oid serverid, const char *schema, const char *name)
{
	const char *column;

	if (!get_rel_relispartition(relid) || !shard_option_definition_follows(serverid) ||
		strcmp(get_rel_name(relid), name) != 0 ||
		strcmp(get_namespace_name(get_rel_namespace(relid)), schema) != 0)
		return false;
	for (AttrNumber attno = 1; (column = get_attname(relid, attno, true)) != NULL; attno++)
	{
		if (strcmp(shard_option_column_name(relid, attno), column) != 0)
			return false;
	}
	return true;
}

/* Returns the local name of the column that a DETAIL calls word, which may be quoted; NULL: none. */
static char *
find_column(Oid relid, const char *word)
{
	bool		is_foreign = get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE;
	char	   *column;

	for (AttrNumber attno = 1; (column = get_attname(relid, attno, true)) != NULL; attno++)
	{
		const char *name = is_foreign ? shard_option_column_name(relid, attno) : column;

		if (strcmp(name, word) == 0 || strcmp(quote_identifier(name), word) == 0)
			return column;
	}
	return NULL;
}

/*
 * Returns the names (char *) of the columns in "Key (a, b)=(1, 2) already exists."; NIL: not all of
 * them are columns.
 */
static List *
key_columns(Oid relid, const char *detail)
{
	const char *begin = strchr(detail, '(');
	const char *end = begin ? strstr(begin, ")=(") : NULL;
	List	   *columns = NIL;

	while (end != NULL && begin < end)
	{
		const char *comma = strstr(++begin, ", ");
		const char *stop = comma != NULL && comma < end ? comma : end;
		char	   *column = find_column(relid, pnstrdup(begin, stop - begin));

		if (column == NULL)
			return NIL;
		columns = lappend(columns, column);
		begin = stop < end ? stop + 1 : end;
	}
	return columns;
}

/* May the current user read columns of the table? */
static bool
may_read_columns(Oid relid, List *columns)
{
	foreach_ptr(char, column, columns)
	{
		AttrNumber	attno = get_attnum(relid, column);

		if (attno == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, attno, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			return false;
	}
	return columns != NIL;
}

bool
shard_error_detail_is_readable(Oid relid, Oid serverid, const char *schema, const char *name,
							   const char *detail, bool is_key)
{
	bool		is_foreign = get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE;
	bool		all_columns = !is_foreign || has_all_columns(relid, serverid, schema, name);
	List	   *key = is_key && detail != NULL ? key_columns(relid, detail) : NIL;
	List	   *tables = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;

	/* users name the sharded table, or a partition above its shards, and each of them has separate privileges */
	if (tables == NIL)
		tables = list_make1_oid(relid);
	foreach_oid(table, tables)
	{
		bool		may_read_all;

		if (check_enable_rls(table, InvalidOid, true) == RLS_ENABLED)
			continue;
		if (shard_class_ownercheck(table, GetUserId()))
			return true;
		may_read_all = pg_class_aclcheck(table, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
		if (all_columns && shard_table_right_on_all(table, GetUserId(), ACL_SELECT))
			return true;
		if (key != NIL && (may_read_all || may_read_columns(table, key)))
			return true;
	}
	return false;
}
