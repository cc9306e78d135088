/*
 * whole_target.c
 *	  Decides whether nodes may change the rows of a statement's target without the coordinator.
 *
 * Nodes do not fire the triggers of the coordinator's table.  If the table is a partition of another table, nodes do
 * not know its bounds.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_trigger.h"
#include "catalog/shard_map.h"
#include "catalog/trigger.h"
#include "compat.h"
#include "deparse/whole_target.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* Sets which of these the statement may do: insert, update, delete. */
static void
changes_of(const Query *query, bool *insert, bool *update, bool *delete)
{
	*insert = query->commandType == CMD_INSERT;
	*update = query->commandType == CMD_UPDATE ||
		(query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE);
	*delete = query->commandType == CMD_DELETE;
	foreach_node(MergeAction, action, query->mergeActionList)
	{
		CmdType		command = action->commandType;

		*insert |= command == CMD_INSERT;
		*update |= command == CMD_UPDATE;
		*delete |= command == CMD_DELETE;
	}
}

static bool
assigns_any(List *targets, const Bitmapset *columns)
{
	foreach_node(TargetEntry, entry, targets)
	{
		if (!entry->resjunk && bms_is_member(entry->resno - FirstLowInvalidHeapAttributeNumber, columns))
			return true;
	}
	return false;
}

/*
 * May the statement write a row outside of rel's partition bounds, which nodes do not know? rel is the statement's
 * target, and may be a partition of another table.
 */
static bool
may_leave_bounds(const Query *query, Relation rel, bool insert)
{
	Bitmapset  *columns = NULL;
	bool		result;

	pull_varattnos((Node *) RelationGetPartitionQual(rel), 1, &columns);
	if (insert)
		return columns != NULL;
	result = query->commandType == CMD_UPDATE && assigns_any(query->targetList, columns);
	foreach_node(MergeAction, action, query->mergeActionList)
		result |= action->commandType == CMD_UPDATE && assigns_any(action->targetList, columns);
	return result;
}

void
shard_whole_target_check(const Query *query, ShardWholeContext *cxt)
{
	Oid			relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	const ShardMap *map = shard_map_get_levels(relid, false);
	bool		insert;
	bool		update;
	bool		delete;
	Relation	rel;

	if (map == NULL)
		return;					/* already refused */
	changes_of(query, &insert, &update, &delete);
	rel = table_open(relid, NoLock);
	if (shard_trigger_fires(rel->trigdesc,
							(insert ? TRIGGER_TYPE_INSERT : 0) | (update ? TRIGGER_TYPE_UPDATE : 0) |
							(delete ? TRIGGER_TYPE_DELETE : 0), false))
		shard_whole_refuse(cxt, "trigger");
	if (may_leave_bounds(query, rel, insert))
		shard_whole_refuse(cxt, "bounds of a partition");
	table_close(rel, NoLock);
	if (map->has_triggers)
		shard_whole_refuse(cxt, "trigger of a shard");
	if (map->read_only)
		shard_whole_refuse(cxt, "shard that is not updatable");
}
