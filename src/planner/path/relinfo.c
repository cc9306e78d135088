/*
 * relinfo.c
 *	  Planner information of a scan: its conditions, shards, keys and size.
 *
 *	  restriction clauses -> remote (checked by the nodes) and local
 *						  -> live shards, conditions for pruning later (prune.c)
 *						  -> rows, width, cost (cost.c)
 *
 * Pseudoconstant clauses (WHERE $1 > 0) that nodes cannot check are in neither list: core puts a gating Result above
 * the scan.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/route.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "planner/path/cost.h"
#include "planner/path/node_query.h"
#include "planner/path/prune.h"
#include "planner/path/relinfo.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Estimate for a shard that was never analyzed. */
#define DEFAULT_SHARD_ROWS 10000.0

/* The row counts of at most this many shards are looked up, to save time.  Larger tables are extrapolated from them. */
#define MAX_SHARDS_ASKED 64

/* pg_class.reltuples, or -1 if it is not known. */
static double
relation_reltuples(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	double		reltuples = -1;

	if (HeapTupleIsValid(tuple))
	{
		reltuples = ((Form_pg_class) GETSTRUCT(tuple))->reltuples;
		ReleaseSysCache(tuple);
	}
	return reltuples;
}

double
shard_relinfo_tuples(Oid relid, double reltuples)
{
	const ShardMap *map;
	int			nasked;
	int			nknown = 0;
	double		sum = 0;

	/* of an analyzed parent; a new parent may also have 0 */
	if (reltuples > 0)
		return reltuples;

	map = shard_map_get_levels(relid, true);
	if (map == NULL)
		return DEFAULT_SHARD_ROWS;
	nasked = Min(map->nshards, MAX_SHARDS_ASKED);
	for (int i = 0; i < nasked; i++)
	{
		double		rows = relation_reltuples(map->shards[(int64) i * map->nshards / nasked].relid);

		if (rows >= 0)
		{
			nknown++;
			sum += rows;
		}
	}
	if (nknown == 0)
		return reltuples == 0 ? 0 : DEFAULT_SHARD_ROWS * map->nshards;
	return sum / nknown * map->nshards;
}

/*
 * A condition whose errors could reveal rows behind a security barrier must not run together with the barrier's
 * conditions: on a node all of them are in one WHERE clause.
 */
bool
shard_relinfo_security_allows(const RestrictInfo *rinfo, Index min_security)
{
	return rinfo->security_level <= min_security || rinfo->leakproof;
}

/* Splits the relation's conditions into those that nodes check and those that the coordinator checks. */
static void
sort_conditions(PlannerInfo *root, RelOptInfo *rel, ShardRelInfo *info)
{
	info->min_security = rel->baserestrict_min_security;
	foreach_node(RestrictInfo, rinfo, rel->baserestrictinfo)
	{
		if (shard_relinfo_security_allows(rinfo, info->min_security) &&
			shard_shippable_expr(root, rel->relids, rinfo->clause))
			info->remote_conds = lappend(info->remote_conds, rinfo);
		else if (rinfo->pseudoconstant)
			info->gated = true; /* core checks it above a scan, but would not check it above remote joins and upper stages */
		else
			info->local_conds = lappend(info->local_conds, rinfo);
	}
}

List *
shard_relinfo_clauses(List *rinfos)
{
	return list_concat(extract_actual_clauses(rinfos, true), extract_actual_clauses(rinfos, false));
}

/* Sets the keys of a sharded table: the columns of both levels, as Vars of info->rtindex. */
static void
fill_key(ShardRelInfo *info)
{
	Relation	rel = table_open(info->relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	ShardDistKey *dist_key = palloc0(sizeof(ShardDistKey));
	ListCell   *next = list_head(key->partexprs);
	const ShardLevelKey *below = info->map->part_key;
	int			ncolumns = key->partnatts + (below ? below->natts : 0);
	Oid		   *opfamilies = palloc(sizeof(Oid) * ncolumns);
	Oid		   *collations = palloc(sizeof(Oid) * ncolumns);
	int		   *strategies = palloc(sizeof(int) * ncolumns);

	for (int i = 0; i < key->partnatts; i++)
	{
		Node	   *expr;

		if (key->partattrs[i] != 0)
			expr = (Node *) makeVar(info->rtindex, key->partattrs[i], key->parttypid[i],
									key->parttypmod[i], key->parttypcoll[i], 0);
		else
		{
			expr = copyObject(lfirst(next));
			next = lnext(key->partexprs, next);
			if (info->rtindex != 1)
				ChangeVarNodes(expr, 1, info->rtindex, 0);
		}
		dist_key->exprs = lappend(dist_key->exprs, expr);
		opfamilies[i] = key->partopfamily[i];
		collations[i] = key->partcollation[i];
		strategies[i] = key->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber : BTEqualStrategyNumber;
	}
	for (int i = key->partnatts, j = 0; i < ncolumns; i++, j++)
	{
		dist_key->exprs = lappend(dist_key->exprs, makeVar(info->rtindex, below->attnos[j], below->types[j],
														   below->typmods[j], below->typcollations[j], 0));
		opfamilies[i] = below->opfamilies[j];
		collations[i] = below->collations[j];
		strategies[i] = HTEqualStrategyNumber;
	}
	info->keys = list_make1(dist_key);
	info->nkeycols = ncolumns;
	info->key_opfamilies = opfamilies;
	info->key_collations = collations;
	info->key_strategies = strategies;
	table_close(rel, NoLock);
}

/*
 * Lets the nodes apply TABLESAMPLE, each to its shards.  All of these samples together are a sample of the table, as
 * PostgreSQL's methods define it.
 */
static void
take_sample(PlannerInfo *root, RelOptInfo *rel, ShardRelInfo *info, TableSampleClause *sample)
{
	bool		can_be_sent = sample->tsmhandler < FirstGenbkiObjectId &&
		(sample->repeatable == NULL || shard_shippable_expr(root, rel->relids, sample->repeatable));

	foreach_ptr(Expr, arg, sample->args)
		can_be_sent = can_be_sent && shard_shippable_expr(root, rel->relids, arg);
	if (!can_be_sent)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("nodes cannot take this sample of \"%s\"", get_rel_name(info->relid)),
				 errdetail("The methods of nodes are SYSTEM and BERNOULLI, with arguments that they can evaluate.")));
	info->sample = sample;
	info->gated = true;
}

/* Our GetForeignPlan callback.  A relation whose FdwRoutine has this callback is ours. */
static GetForeignPlan_function plan_maker = NULL;

void
shard_relinfo_init(GetForeignPlan_function create_plan)
{
	plan_maker = create_plan;
}

bool
shard_relinfo_is_ours(const RelOptInfo *rel)
{
	return rel->fdwroutine != NULL && rel->fdwroutine->GetForeignPlan == plan_maker;
}

bool
shard_relinfo_is_sharded(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION &&
		rte->relkind == RELKIND_FOREIGN_TABLE &&
		get_rel_relkind(rte->relid) == RELKIND_PARTITIONED_TABLE;
}

ShardRelInfo *
shard_relinfo_create(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	ShardRelInfo *info = palloc0(sizeof(ShardRelInfo));
	RangeTblEntry *rte = planner_rt_fetch(baserel->relid, root);

	info->kind = SHARD_REL_SCAN;
	info->relid = relid;
	info->rtindex = baserel->relid;
	info->sharded = shard_relinfo_is_sharded(rte);
	info->map = shard_map_get_levels(relid, true);
	if (info->map == NULL)
		elog(ERROR, "table \"%s\" is not a foreign table of shardfdw", get_rel_name(relid));

	sort_conditions(root, baserel, info);
	info->from = shard_from_table(SHARD_FROM_TABLE, info->rtindex, relid,
								  shard_relinfo_clauses(info->remote_conds));
	if (rte->tablesample != NULL)
		take_sample(root, baserel, info, rte->tablesample);
	pull_varattnos((Node *) baserel->reltarget->exprs, baserel->relid, &info->columns);
	if (info->sharded)
		fill_key(info);
	shard_prune_relation(root, baserel, info);

	/* a foreign table that was never analyzed; the hook has set the tuples of sharded parents */
	if (!info->sharded && baserel->tuples <= 0)
		baserel->tuples = shard_relinfo_tuples(relid, -1);
	set_baserel_size_estimates(root, baserel);

	info->analyzed = relation_reltuples(relid) > 0;
	info->rows = clamp_row_est(baserel->tuples *
							   clauselist_selectivity(root, info->remote_conds, baserel->relid,
													  JOIN_INNER, NULL));
	info->width = baserel->reltarget->width;
	shard_cost_scan(root, baserel, info);
	shard_node_query_set_unsure(root, baserel, info);

	baserel->fdw_private = info;
	return info;
}

/* Is a system column of rel needed above its scan, or in its conditions? */
static bool
needs_system_columns(RelOptInfo *rel)
{
	Bitmapset  *columns = NULL;

	for (AttrNumber attno = rel->min_attr; attno < 0; attno++)
	{
		if (!bms_is_empty(rel->attr_needed[attno - rel->min_attr]))
			return true;
	}
	foreach_node(RestrictInfo, rinfo, rel->baserestrictinfo)
		pull_varattnos((Node *) rinfo->clause, rel->relid, &columns);
	return bms_next_member(columns, -1) >= 0 &&
		bms_next_member(columns, -1) < 0 - FirstLowInvalidHeapAttributeNumber;
}

void
shard_relinfo_create_reference(PlannerInfo *root, RelOptInfo *rel)
{
	ShardRelInfo *info;

	if (needs_system_columns(rel))
		return;
	info = palloc0(sizeof(ShardRelInfo));
	info->kind = SHARD_REL_SCAN;
	info->reference = true;
	info->relid = planner_rt_fetch(rel->relid, root)->relid;
	info->rtindex = rel->relid;
	sort_conditions(root, rel, info);
	if (info->local_conds != NIL || info->gated)
		return;
	info->from = shard_from_table(SHARD_FROM_REFERENCE, info->rtindex, info->relid,
								  shard_relinfo_clauses(info->remote_conds));
	info->analyzed = rel->tuples > 0;
	info->rows = rel->rows;
	info->width = rel->reltarget->width;
	rel->fdw_private = info;
}

/* A copy of expr without varnullingrels. */
static Node *
clear_nulling_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		shard_var_clear_nulling(var);
		return (Node *) var;
	}
	if (IsA(node, PlaceHolderVar))
		return clear_nulling_mutator((Node *) ((PlaceHolderVar *) node)->phexpr, context);
	return expression_tree_mutator(node, clear_nulling_mutator, context);
}

bool
shard_relinfo_same_expr(Expr *left, Expr *right)
{
	left = shard_route_strip_relabel(left);
	right = shard_route_strip_relabel(right);
	if (IsA(left, Var) && IsA(right, Var))
		return ((Var *) left)->varno == ((Var *) right)->varno &&
			((Var *) left)->varattno == ((Var *) right)->varattno &&
			((Var *) left)->varlevelsup == ((Var *) right)->varlevelsup;
	if (IsA(left, Var) || IsA(right, Var))
		return false;
	return equal(clear_nulling_mutator((Node *) left, NULL),
				 clear_nulling_mutator((Node *) right, NULL));
}

/* Is operator eqop the equality by which column keyno of the key is hashed or compared? */
static bool
is_key_equality(const ShardRelInfo *info, int keyno, Oid eqop)
{
	return get_op_opfamily_strategy(eqop, info->key_opfamilies[keyno]) == info->key_strategies[keyno];
}

/* The member of the class that equals expr in the relation over relids, or NULL. */
static EquivalenceMember *
find_member(EquivalenceClass *ec, Relids relids, Expr *expr)
{
	foreach_node(EquivalenceMember, member, ec->ec_members)
	{
		if (!member->em_is_child && !member->em_is_const &&
			bms_is_subset(member->em_relids, relids) &&
			shard_relinfo_same_expr(member->em_expr, expr))
			return member;
	}
	return NULL;
}

/* Does the class compare the two members by the key's equality? */
static bool
class_has_key_equality(const EquivalenceClass *ec, const ShardRelInfo *info, int keyno,
					   const EquivalenceMember *left, const EquivalenceMember *right)
{
	foreach_oid(opfamily, ec->ec_opfamilies)
	{
		Oid			eqop = get_opfamily_member(opfamily, left->em_datatype,
											   right->em_datatype, BTEqualStrategyNumber);

		if (OidIsValid(eqop) && is_key_equality(info, keyno, eqop))
			return true;
	}
	return false;
}

bool
shard_relinfo_equal_by_class(PlannerInfo *root, const ShardRelInfo *info, int keyno,
							 Relids relids, Expr *left, Expr *right)
{
	foreach_node(EquivalenceClass, ec, root->eq_classes)
	{
		EquivalenceMember *left_member;
		EquivalenceMember *right_member;

		/* core does not enforce everything that a broken class implies */
		if (ec->ec_has_volatile || ec->ec_broken ||
			ec->ec_collation != info->key_collations[keyno] ||
			(left_member = find_member(ec, relids, left)) == NULL ||
			(right_member = find_member(ec, relids, right)) == NULL)
			continue;
		if (class_has_key_equality(ec, info, keyno, left_member, right_member))
			return true;
	}
	return false;
}

Expr *
shard_relinfo_class_constant(PlannerInfo *root, const ShardRelInfo *info, int keyno,
							 Relids relids, Expr *expr)
{
	foreach_node(EquivalenceClass, ec, root->eq_classes)
	{
		EquivalenceMember *member;

		if (!ec->ec_has_const || ec->ec_has_volatile || ec->ec_broken ||
			ec->ec_collation != info->key_collations[keyno] ||
			(member = find_member(ec, relids, expr)) == NULL)
			continue;
		foreach_node(EquivalenceMember, other, ec->ec_members)
		{
			if (other->em_is_const && !other->em_is_child &&
				class_has_key_equality(ec, info, keyno, member, other))
				return other->em_expr;
		}
	}
	return NULL;
}

/* Is column keyno of a key, expr, one of exprs, under the key's equality? */
static bool
has_key_column(const ShardRelInfo *info, int keyno, Expr *expr, List *exprs, List *eqops)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, exprs, lc2, eqops)
	{
		if (exprCollation(lfirst(lc)) == info->key_collations[keyno] &&
			is_key_equality(info, keyno, lfirst_oid(lc2)) &&
			shard_relinfo_same_expr(lfirst(lc), expr))
			return true;
	}
	return false;
}

bool
shard_relinfo_has_key(const ShardRelInfo *info, List *exprs, List *eqops)
{
	foreach_ptr(ShardDistKey, key, info->keys)
	{
		int			keyno = 0;

		if (key->nullable)
			continue;
		foreach_ptr(Expr, key_expr, key->exprs)
		{
			if (!has_key_column(info, keyno, key_expr, exprs, eqops))
				break;
			keyno++;
		}
		if (keyno == info->nkeycols && keyno > 0)
			return true;
	}
	return false;
}

/* Name and alias of a table or sub-select. */
static char *
table_name(PlannerInfo *root, const ShardFrom *from)
{
	RangeTblEntry *rte = planner_rt_fetch(from->rtindex, root);
	const char *alias = rte->eref->aliasname;
	const char *relname;
	char	   *name;

	if (from->kind == SHARD_FROM_QUERY)
		return pstrdup(quote_identifier(alias));
	relname = get_rel_name(from->relid);
	name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(from->relid)),
									  relname);
	if (strcmp(alias, relname) != 0)
		name = psprintf("%s %s", name, quote_identifier(alias));
	return name;
}

static const char *
join_name(JoinType jointype)
{
	switch (jointype)
	{
		case JOIN_INNER:
			return "INNER";
		case JOIN_LEFT:
			return "LEFT";
		case JOIN_FULL:
			return "FULL";
		case JOIN_SEMI:
			return "SEMI";
		case JOIN_ANTI:
			return "ANTI";
		default:
			elog(ERROR, "unexpected type of a remote join: %d", (int) jointype);
	}
}

char *
shard_relinfo_name(PlannerInfo *root, const ShardFrom *from)
{
	if (from->kind != SHARD_FROM_JOIN)
		return table_name(root, from);
	return psprintf("(%s) %s JOIN (%s)", shard_relinfo_name(root, from->outer),
					join_name(from->jointype), shard_relinfo_name(root, from->inner));
}
