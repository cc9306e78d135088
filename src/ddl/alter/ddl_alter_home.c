/*
 * ddl_alter_home.c
 *	  Keys of tables at home (catalog/home.h) without the shard key.
 *
 * Core does not allow them on a parent.  Because the table has only one shard, the shard alone can have and enforce
 * them.  Constraints have the same name on the shard.  For an index, the coordinator has a plain index with that
 * name, so that commands can refer to it.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_text.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* Is some column of the shard key not in names (list of String)? */
static bool
lacks_shard_key(Oid relid, List *names)
{
	Relation	rel = table_open(relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	bool		result = false;

	for (int i = 0; i < key->partnatts; i++)
		result |= key->partattrs[i] == 0 ||
			!list_member(names, makeString(get_attname(relid, key->partattrs[i], false)));
	table_close(rel, NoLock);
	return result;
}

bool
shard_alter_is_at_home(Oid relid)
{
	const ShardMap *map = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? shard_map_get(relid) : NULL;

	return map != NULL && OidIsValid(map->home);
}

bool
shard_alter_home_key(ShardAlterState *state, Constraint *constraint)
{
	bool		is_primary = constraint->contype == CONSTR_PRIMARY;
	StringInfoData text;

	if (!shard_alter_is_at_home(state->table->relid) || !lacks_shard_key(state->table->relid, constraint->keys))
		return false;
	if (shard_constraint_without_overlaps(constraint))
		shard_ddl_table_refuse(state->table, "a key WITHOUT OVERLAPS", NULL);
	if (constraint->indexspace != NULL)
		shard_ddl_table_refuse(state->table, "USING INDEX TABLESPACE", NULL);
	if (constraint->conname == NULL)
		constraint->conname = is_primary ? shard_alter_choose_name(state, NIL, "pkey") :
			shard_alter_choose_name(state, constraint->keys, "key");

	initStringInfo(&text);
	appendStringInfo(&text, "ADD CONSTRAINT %s %s%s (%s)", quote_identifier(constraint->conname), is_primary ? "PRIMARY KEY" : "UNIQUE",
					 constraint->nulls_not_distinct ? " NULLS NOT DISTINCT" : "", shard_alter_quoted_columns(constraint->keys));
	if (constraint->including != NIL)
		appendStringInfo(&text, " INCLUDE (%s)", shard_alter_quoted_columns(constraint->including));
	if (constraint->options != NIL)
		appendStringInfo(&text, " WITH (%s)", shard_ddl_text_options(constraint->options, true));
	if (constraint->deferrable)
		appendStringInfo(&text, " DEFERRABLE INITIALLY %s", constraint->initdeferred ? "DEFERRED" : "IMMEDIATE");
	shard_alter_piece(state, text.data, NULL, NULL);
	return true;
}

bool
shard_alter_home_index(Oid relid, const IndexStmt *stmt)
{
	List	   *names = NIL;

	if (!stmt->unique || !shard_alter_is_at_home(relid))
		return false;
	foreach_node(IndexElem, elem, stmt->indexParams)
	{
		if (elem->name != NULL)
			names = lappend(names, makeString(elem->name));
	}
	return lacks_shard_key(relid, names);
}
