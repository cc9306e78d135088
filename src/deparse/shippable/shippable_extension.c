/*
 * shippable_extension.c
 *	  Decides which extensions' objects mean the same on the nodes as on the coordinator.
 *
 * The option `extensions` of a server lists extensions that the node has in the same version and schema.  An
 * expression over several tables may use the extensions that the nodes of all these tables have.  The list is made
 * only if the expression has an object that is not built in.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "commands/extension.h"
#include "compat.h"
#include "deparse/shippable/shippable_extension.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

/* Members of both lists (of char *). */
static List *
common_names(List *left, List *right)
{
	List	   *result = NIL;

	foreach_ptr(char, name, left)
	{
		foreach_ptr(char, other, right)
		{
			if (strcmp(name, other) == 0)
			{
				result = lappend(result, name);
				break;
			}
		}
	}
	return result;
}

/* Sets scope->names. */
static void
find_names(ShardExtensionScope *scope)
{
	bool		any = false;
	int			rtindex = -1;

	scope->known = true;
	if (scope->root == NULL)
		return;
	while ((rtindex = bms_next_member(scope->relids, rtindex)) >= 0)
	{
		RangeTblEntry *rte;
		const ShardMap *map;

		/* from 16 on, outer joins have numbers, too */
		if (rtindex >= scope->root->simple_rel_array_size ||
			scope->root->simple_rel_array[rtindex] == NULL)
			continue;
		rte = planner_rt_fetch(rtindex, scope->root);
		if (rte->rtekind != RTE_RELATION)
		{
			scope->names = NIL;
			return;
		}
		map = shard_map_get_levels(rte->relid, true);
		if (map == NULL)
			continue;			/* a reference table, which every node has */
		for (int i = 0; i < map->nnodes; i++)
		{
			scope->names = any ? common_names(scope->names, map->nodes[i].extensions) :
				map->nodes[i].extensions;
			any = true;
		}
	}
}

/* Is an object a member of an extension in scope? */
static bool
is_member(ShardExtensionScope *scope, Oid classid, Oid objid)
{
	Oid			extension;
	char	   *name;

	if (!scope->known)
		find_names(scope);
	if (scope->names == NIL)
		return false;
	extension = getExtensionOfObject(classid, objid);
	if (!OidIsValid(extension) || (name = get_extension_name(extension)) == NULL)
		return false;
	foreach_ptr(char, member, scope->names)
	{
		if (strcmp(member, name) == 0)
			return true;
	}
	return false;
}

bool
shard_extension_type_ok(ShardExtensionScope *scope, Oid type)
{
	Oid			element = get_element_type(type);

	return is_member(scope, TypeRelationId, OidIsValid(element) ? element : type);
}

bool
shard_extension_operator_ok(ShardExtensionScope *scope, Oid opno)
{
	return is_member(scope, OperatorRelationId, opno);
}

bool
shard_extension_function_ok(ShardExtensionScope *scope, Oid funcid)
{
	return func_volatile(funcid) == PROVOLATILE_IMMUTABLE &&
		is_member(scope, ProcedureRelationId, funcid);
}
