/*
 * statement_cache.c
 *	  Cache of plans of statements that run on one shard.
 *
 * Clients that write values into their statements send the same statement with other constants again and again.  The
 * router's plan is the same for all of them, because the constants are its parameters:
 *
 *	 query --> constants collected, hash --> entries with this hash
 *			   each constant taken out       |  same query, except for free constants?
 *			   for the comparison            |  same ones of them equal to each other?
 *			   and put back				   hit	plan with this query's constants
 *										  miss	router; the plan is kept
 *
 * A constant is free if the constant itself is a parameter of the plan.  To find free constants, constants are
 * numbered in their location field, which the router does not use, while the router plans.  Apart from its value, a
 * constant can affect a plan in two ways only: by being null, and by being equal to another constant of the
 * statement.  Both are part of the cache key.
 *
 * Parameters that are expressions over constants are planned again each time.  As in core, a function that is
 * declared immutable but reads a setting or a table then returns its current value.
 *
 * An entry is dropped if one of its tables or shards changes.  The same applies to other objects that its text names,
 * or that the rules of shippability depend on.  Plans that are in use keep the memory of their entry until the
 * context in which the plan was made is reset.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "planner/router/route_scope.h"
#include "planner/router/statement.h"
#include "planner/router/statement_cache.h"
#include "utils/memutils.h"

#define MAX_ENTRIES 64
#define MAX_VARIANTS 4			/* entries that differ in constants only */
#define MAX_CONSTANTS 64		/* statements with more constants are not cached */
#define NUMBERED (-1000)		/* location of constant 0; the following constants count down from it */

typedef struct PlanEntry
{
	dlist_node	link;			/* in entries, unless dropped */
	MemoryContext cxt;			/* holds this struct and everything that it points to */
	uint32		hash;
	bool		valid;
	bool		dropped;
	int			nusers;			/* plans that point into the entry */
	Query	   *query;			/* without the values of free constants */
	int			nconstants;
	bool	   *is_free;
	int		   *same_as;		/* for each constant: the first constant that it is equal to */
	PlannedStmt *stmt;
	int		   *param_constants;	/* for each parameter of the text: the free constant that it is, or -1 */
	List	   *sources;		/* for each parameter of the text: its expression */
	List	   *keys;			/* parameters after those of sources: values of the shard key, with numbered constants */
} PlanEntry;

/* Key of the statement that is looked up. */
typedef struct PlanKey
{
	uint32		hash;
	bool		usable;
	int			nconstants;
	Const	   *constants[MAX_CONSTANTS];
	Const		saved[MAX_CONSTANTS];
	int			same_as[MAX_CONSTANTS];
} PlanKey;

/* A plan's reference to its entry. */
typedef struct PlanUse
{
	MemoryContextCallback callback;
	PlanEntry  *entry;
} PlanUse;

static dlist_head entries = DLIST_STATIC_INIT(entries); /* most recently used first */
static int	nentries = 0;
static uint64 ninvalidations = 0;
static bool some_invalid = false;

/* ---------- keys ---------- */

static void
add_constant(PlanKey *key, Const *con)
{
	/* the same Const node appears twice, or there are too many constants */
	if (con->location <= NUMBERED || key->nconstants >= MAX_CONSTANTS)
	{
		key->usable = false;
		return;
	}
	key->saved[key->nconstants] = *con;
	key->constants[key->nconstants] = con;
	con->location = NUMBERED - key->nconstants;
	key->nconstants++;
}

/* Computes a hash that distinguishes most statements; collects and numbers their constants. */
static bool
key_walker(Node *node, void *arg)
{
	PlanKey    *key = arg;

	if (node == NULL)
		return false;
	key->hash = hash_combine(key->hash, (uint32) nodeTag(node));
	switch (nodeTag(node))
	{
		case T_Var:
			key->hash = hash_combine(key->hash, ((Var *) node)->varno * 1000 + ((Var *) node)->varattno);
			return false;
		case T_Const:
			key->hash = hash_combine(key->hash, ((Const *) node)->consttype);
			if (!((Const *) node)->constisnull)
				add_constant(key, (Const *) node);
			return false;
		case T_OpExpr:
			key->hash = hash_combine(key->hash, ((OpExpr *) node)->opno);
			break;
		case T_RangeTblEntry:
			if (((RangeTblEntry *) node)->rtekind == RTE_RELATION)
				key->hash = hash_combine(key->hash, ((RangeTblEntry *) node)->relid);
			return false;		/* the walker visits its contents in any case */
		case T_Query:
			key->hash = hash_combine(key->hash, (uint32) ((Query *) node)->commandType);
			return query_tree_walker((Query *) node, key_walker, arg, QTW_EXAMINE_RTES_BEFORE);
		default:
			break;
	}
	return expression_tree_walker(node, key_walker, arg);
}

static void
make_key(PlanKey *key, Query *query)
{
	key->hash = 0;
	key->usable = true;
	key->nconstants = 0;
	(void) key_walker((Node *) query, key);
	for (int i = 0; i < key->nconstants; i++)
	{
		int			same = 0;

		/* compared as in the router: 1 is the same value in two integer types */
		while (same < i && !shard_route_scope_same_value((Node *) key->constants[same],
														 (Node *) key->constants[i]))
			same++;
		key->same_as[i] = same;
	}
}

static void
number_constants(PlanKey *key)
{
	for (int i = 0; i < key->nconstants; i++)
		key->constants[i]->location = NUMBERED - i;
}

/* Removes the value of a constant, for comparisons. */
static void
take_out(Const *con)
{
	con->constvalue = (Datum) 0;
	con->constbyval = true;
}

/* The number of a constant, or -1. */
static int
constant_number(const Const *con, int nconstants)
{
	int			number = NUMBERED - con->location;

	return number >= 0 && number < nconstants ? number : -1;
}

/* Restores all constants. */
static void
put_back(const PlanKey *key)
{
	for (int i = 0; i < key->nconstants; i++)
		*key->constants[i] = key->saved[i];
}

/* ---------- entries ---------- */

static void
drop_entry(PlanEntry *entry)
{
	dlist_delete(&entry->link);
	nentries--;
	entry->dropped = true;
	if (entry->nusers == 0)
		MemoryContextDelete(entry->cxt);
}

static void
drop_invalid(void)
{
	dlist_mutable_iter iter;

	if (!some_invalid)
		return;
	some_invalid = false;
	dlist_foreach_modify(iter, &entries)
	{
		PlanEntry  *entry = dlist_container(PlanEntry, link, iter.cur);

		if (!entry->valid)
			drop_entry(entry);
	}
}

/* Does entry match query?  Removes the values of its free constants for the comparison. */
static bool
matches(const PlanEntry *entry, const PlanKey *key, Query *query)
{
	int			stmt_len = query->stmt_len;
	bool		result;

	if (entry->hash != key->hash || entry->nconstants != key->nconstants ||
		memcmp(entry->same_as, key->same_as, sizeof(int) * key->nconstants) != 0)
		return false;
	for (int i = 0; i < key->nconstants; i++)
	{
		if (entry->is_free[i])
			take_out(key->constants[i]);
	}
	query->stmt_len = 0;
	result = equal(entry->query, query);
	query->stmt_len = stmt_len;
	put_back(key);
	return result;
}

/* *nvariants: number of entries that may differ from query in constants only. */
static PlanEntry *
find_entry(const PlanKey *key, Query *query, int *nvariants)
{
	dlist_iter	iter;

	*nvariants = 0;
	dlist_foreach(iter, &entries)
	{
		PlanEntry  *entry = dlist_container(PlanEntry, link, iter.cur);

		if (entry->hash != key->hash)
			continue;
		if (matches(entry, key, query))
			return entry;
		(*nvariants)++;
	}
	return NULL;
}

/* Marks numbered constants within node as not free. */
static bool
not_free_walker(Node *node, void *arg)
{
	PlanEntry  *entry = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Const))
	{
		int			number = constant_number((Const *) node, entry->nconstants);

		if (number >= 0)
			entry->is_free[number] = false;
		return false;
	}
	return expression_tree_walker(node, not_free_walker, arg);
}

/*
 * Finds the free constants: those that are themselves parameters of the text.  If a parameter was derived from a
 * constant by other expressions, the constant is not free, because these expressions affect the parameter, too.
 */
static void
find_free(PlanEntry *entry, const PlanKey *key, const CustomScan *scan)
{
	entry->is_free = palloc0(sizeof(bool) * Max(key->nconstants, 1));
	entry->param_constants = palloc(sizeof(int) * Max(list_length(entry->sources), 1));
	foreach_ptr(const Const, con, entry->sources)
	{
		int			number = IsA(con, Const) ? constant_number(con, key->nconstants) : -1;

		if (number >= 0 && !equal(con, key->constants[number]))
			number = -1;
		entry->param_constants[foreach_current_index(con)] = number;
		if (number >= 0)
			entry->is_free[number] = true;
	}

	/* constants within larger expressions keep their values */
	foreach_ptr(Node, source, entry->sources)
	{
		if (!IsA(source, Const))
			(void) not_free_walker(source, entry);
	}
	/* EXPLAIN shows these */
	(void) not_free_walker((Node *) scan->custom_scan_tlist, entry);
}

/* Adds stmt, the plan of query, to the cache.  The constants of query are still numbered. */
static void
add_entry(PlanKey *key, Query *query, const PlannedStmt *stmt, const ShardRouteOrigin *origin)
{
	/* a child of the current context until it is complete, so that an error does not leak it */
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw statement",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	PlanEntry  *entry = palloc0(sizeof(PlanEntry));

	entry->cxt = cxt;
	entry->hash = key->hash;
	entry->valid = true;
	entry->nconstants = key->nconstants;
	entry->sources = copyObject(origin->sources);
	entry->keys = copyObject(origin->keys);
	find_free(entry, key, castNode(CustomScan, stmt->planTree));
	entry->same_as = palloc(sizeof(int) * Max(key->nconstants, 1));
	memcpy(entry->same_as, key->same_as, sizeof(int) * key->nconstants);
	entry->stmt = copyObject((PlannedStmt *) stmt);
	for (int i = 0; i < key->nconstants; i++)
	{
		if (entry->is_free[i])
			take_out(key->constants[i]);
	}
	entry->query = copyObject(query);
	entry->query->stmt_len = 0;
	put_back(key);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextSetParent(cxt, CacheMemoryContext);

	if (nentries >= MAX_ENTRIES)
		drop_entry(dlist_tail_element(PlanEntry, link, &entries));
	dlist_push_head(&entries, &entry->link);
	nentries++;
}

/* ---------- plans ---------- */

static void
end_use(void *arg)
{
	PlanEntry  *entry = ((PlanUse *) arg)->entry;

	if (--entry->nusers == 0 && entry->dropped)
		MemoryContextDelete(entry->cxt);
}

/* Replaces numbered constants by the constants of the query. */
static Node *
replace_mutator(Node *node, void *arg)
{
	const PlanKey *key = arg;

	if (node == NULL)
		return NULL;
	if (IsA(node, Const))
	{
		int			number = constant_number((Const *) node, key->nconstants);

		return number >= 0 ? (Node *) key->constants[number] : node;
	}
	return expression_tree_mutator(node, replace_mutator, arg);
}

/* Keeps entry's memory for the lifetime of the current context. */
static void
begin_use(PlanEntry *entry)
{
	PlanUse    *use = palloc(sizeof(PlanUse));

	use->entry = entry;
	use->callback.func = end_use;
	use->callback.arg = use;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &use->callback);
	entry->nusers++;
}

/* The parameters of entry's plan, for the constants of a query. */
static List *
make_params(const PlanEntry *entry, const PlanKey *key)
{
	List	   *params = NIL;
	ListCell   *lc;

	foreach(lc, entry->sources)
	{
		int			number = entry->param_constants[foreach_current_index(lc)];
		Node	   *source = lfirst(lc);

		if (number >= 0 && entry->is_free[number])
			source = (Node *) key->constants[number];
		else if (!IsA(source, Const) && !IsA(source, Param))
			source = (Node *) expression_planner(copyObject((Expr *) source));
		params = lappend(params, source);
	}
	foreach(lc, entry->keys)
	{
		Node	   *value = replace_mutator(lfirst(lc), (void *) key);

		params = lappend(params, expression_planner((Expr *) value));
	}
	return params;
}

/* entry's plan, for the constants of query. */
static PlannedStmt *
make_plan(PlanEntry *entry, const PlanKey *key, const Query *query)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	CustomScan *scan = makeNode(CustomScan);

	/* must be first: functions that are called for the parameters may cause entry to be dropped */
	begin_use(entry);
	*stmt = *entry->stmt;
	*scan = *castNode(CustomScan, stmt->planTree);
	stmt->planTree = &scan->scan.plan;
	stmt->queryId = query->queryId;
	stmt->stmt_location = query->stmt_location;
	stmt->stmt_len = query->stmt_len;
	scan->custom_exprs = make_params(entry, key);
	return stmt;
}

/* Makes plans that depend only on the statement's text, and that are used often. */
static PlannedStmt *
plan_statement(Query *query, ShardRouteOrigin *origin)
{
	PlannedStmt *stmt = shard_router_plan(query, origin);

	return stmt ? stmt : shard_queue_plan(query, origin);
}

PlannedStmt *
shard_statement_cache_plan(Query *query)
{
	ShardRouteOrigin origin = {0};
	PlanKey		key;
	PlanEntry  *entry;
	PlannedStmt *stmt;
	uint64		before;
	int			nvariants;

	make_key(&key, query);
	if (!key.usable)
	{
		put_back(&key);
		return plan_statement(query, &origin);
	}
	drop_invalid();
	entry = find_entry(&key, query, &nvariants);
	if (entry != NULL)
	{
		put_back(&key);
		dlist_move_head(&entries, &entry->link);
		return make_plan(entry, &key, query);
	}

	/* do not keep a plan if something was invalidated while it was made */
	before = ninvalidations;
	number_constants(&key);
	stmt = plan_statement(query, &origin);
	if (stmt != NULL && ninvalidations == before && nvariants < MAX_VARIANTS)
		add_entry(&key, query, stmt, &origin);
	put_back(&key);
	return stmt;
}

/* ---------- invalidation ---------- */

void
shard_statement_cache_invalidate(Oid relid)
{
	dlist_iter	iter;

	ninvalidations++;
	dlist_foreach(iter, &entries)
	{
		PlanEntry  *entry = dlist_container(PlanEntry, link, iter.cur);

		if (!OidIsValid(relid) || list_member_oid(entry->stmt->relationOids, relid))
		{
			entry->valid = false;
			some_invalid = true;
		}
	}
}
