/*
 * single_statement.c
 *	  Statements on single foreign tables that their node runs unchanged.
 *
 * If all tables of a statement, at every query level, are foreign tables of one server, the node can run the
 * statement unchanged.  For most statements that only read, plans of core with our paths are as good.  The following
 * statements are sent as a whole, because core would execute them row by row, or not at all:
 *
 *	 UPDATE and DELETE that read other tables, or the target again
 *	 INSERT ... SELECT from tables of the same server
 *	 INSERT ... ON CONFLICT with a conflict target, which core refuses
 *	 SELECT ... FOR UPDATE, which must lock only the rows that it returns
 *	 statements that have one of these in WITH
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "guc.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "planner/router/statement.h"
#include "query_parts.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef struct SingleContext
{
	Oid			serverid;		/* server of all tables; InvalidOid: none seen yet */
	int			ntables;
	bool		worthwhile;		/* some level runs better on the node */
	bool		refused;
} SingleContext;

/* Is the entry not a table to read?  A replaced view is there for permissions only; "excluded" is the target again. */
static bool
is_stand_in(const RangeTblEntry *rte)
{
	return rte->relkind == RELKIND_VIEW || rte->relkind == RELKIND_COMPOSITE_TYPE;
}

/* The server of a foreign table of ours, otherwise InvalidOid. */
static Oid
server_of(const RangeTblEntry *rte)
{
	const ShardMap *map;

	if (rte->relkind != RELKIND_FOREIGN_TABLE)
		return InvalidOid;
	map = shard_map_get(rte->relid);
	return map != NULL && map->nshards == 1 ? map->shards[0].serverid : InvalidOid;
}

/*
 * May core's checks and actions on rows of the target be skipped?  Not if the target is a partition or has generated
 * columns, which core checks or computes.  Not if the target is not updatable either, because core has to refuse the
 * statement.
 */
static bool
is_plain_target(const Query *query, const RangeTblEntry *rte)
{
	Relation	rel;
	bool		ok;

	/* a view with INSTEAD OF triggers is its own target */
	if (rte->relkind != RELKIND_FOREIGN_TABLE)
		return false;
	rel = table_open(rte->relid, NoLock);
	ok = shard_option_table_bool(rte->relid, "updatable", true) &&
		!(rel->rd_rel->relispartition && query->commandType != CMD_DELETE) &&
		!(rel->rd_att->constr != NULL && rel->rd_att->constr->has_generated_stored);
	table_close(rel, NoLock);
	return ok;
}

/* Sets cxt from the commands and clauses of query, without its sub-selects. */
static void
look_at_level(Query *query, SingleContext *cxt)
{
	switch (query->commandType)
	{
		case CMD_SELECT:
			cxt->worthwhile |= query->rowMarks != NIL;
			return;
		case CMD_INSERT:
			cxt->worthwhile |= query->onConflict != NULL &&
				(query->onConflict->action == ONCONFLICT_UPDATE ||
				 query->onConflict->arbiterElems != NIL);
			break;
		case CMD_UPDATE:
		case CMD_DELETE:
			break;
		default:
			cxt->refused = true;
			return;
	}
	if (!is_plain_target(query, rt_fetch(query->resultRelation, query->rtable)))
		cxt->refused = true;
}

/* Sets cxt from the tables of query, without its sub-selects. */
static void
look_at_tables(Query *query, SingleContext *cxt)
{
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		Oid			serverid;

		if (rte->rtekind != RTE_RELATION || is_stand_in(rte))
			continue;
		serverid = server_of(rte);
		if (!OidIsValid(serverid) || (OidIsValid(cxt->serverid) && cxt->serverid != serverid))
			cxt->refused = true;
		cxt->serverid = serverid;
		cxt->ntables++;
	}
}

/* Quick test: is it a statement that may be sent as a whole? */
static bool
is_candidate(Query *query)
{
	SingleContext cxt = {0};

	/* most statements end here, because their first table is not a foreign table */
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		if (rte->rtekind == RTE_RELATION && !is_stand_in(rte) &&
			rte->relkind != RELKIND_FOREIGN_TABLE)
			return false;
	}
	foreach_node(Query, level, shard_query_levels(query))
	{
		look_at_tables(level, &cxt);
		if (!cxt.refused)
			look_at_level(level, &cxt);
		if (cxt.refused)
			return false;
	}
	if (cxt.ntables == 0)
		return false;
	return cxt.worthwhile || (query->commandType != CMD_SELECT && cxt.ntables > 1);
}

PlannedStmt *
shard_single_plan(Query *query, int cursor_options)
{
	ShardWholeQuery *text;
	ShardStatementPlan plan = {0};
	const char *reason;
	Oid			user;

	if (!shard_guc_enable_router || (cursor_options & CURSOR_OPT_SCROLL) != 0 ||
		!is_candidate(query) || !shard_statement_user(query, &user))
		return NULL;

	text = shard_whole_query_print_single(query, &reason);
	if (text == NULL)
	{
		ereport(DEBUG1, (errmsg_internal("statement is not sent as a whole: %s", reason)));
		return NULL;
	}
	plan.all_shards = true;
	return shard_statement_make(query, text, &plan, NIL);
}
