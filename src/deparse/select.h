/*
 * select.h
 *	  Builds the SQL text of a remote query, or of a remote UPDATE or DELETE, step by step, as a template with
 *	  places for the shard and parameters.
 *
 *	   begin -> outputs, conditions, locks -> finish -> template
 */
#ifndef SHARDFDW_SELECT_H
#define SHARDFDW_SELECT_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/lockoptions.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "output.h"

/* Parameter numbers from here on stand for pieces of SQL text: minus this, the 1-based index in raw_texts. */
#define SHARD_SELECT_RAW_TEXT 1000000

/*
 * A bit of the number of a PARAM_EXTERN: the text hides the parameter's value from the node's planner.  It is for
 * large arrays that are looked up in an index: the planner would estimate each element separately, which takes longer
 * than the look-up.
 */
#define SHARD_SELECT_UNSEEN 0x08000000

/* Placeholder for the UNION ALL of a node's shards in the printed text. */
#define SHARD_SELECT_UNION_NAME "shards_of_node"

/* Its place in the template; as in plan/plan_private.h. */
#define SHARD_SELECT_UNION_NUMBER PG_INT32_MIN

/* A FROM item that is filled in when the query is sent. */
typedef struct ShardSelectPlace
{
	Oid			relid;			/* the table that is printed there, or InvalidOid for the union */
	const char *alias;
	int			number;			/* place number in the template */
	const char *own_from;		/* text that replaces the shard's FROM item, or NULL */
} ShardSelectPlace;

struct ShardFrom;
struct ShardLevel;

/*
 * A query under construction.  The expressions for it are those of the planner, checked by shippable.c.  For a query
 * over one table, they have Vars of range table index rtindex.
 */
typedef struct ShardSelect
{
	/* a query over one table, from shard_select_begin() */
	Index		rtindex;
	Oid			relid;			/* sharded parent or shard; its column names are used */

	/* results */
	List	   *relids;			/* OidList: tables that have places in the template; place -n is the nth */
	List	   *shard_template; /* set if the template is one query per node, see ShardScanPlan */
	List	   *params;			/* expressions: the scan's parameters, in order */
	List	   *outputs;		/* of ShardOutput */

	/* under construction */
	struct ShardLevel *level;	/* the outermost level, see level.h */
	Query	   *query;			/* its query */
	List	   *levels;			/* all levels */
	int			naliases;
	const struct ShardFrom *union_from; /* a query per node: the part to read shard by shard, until it has been built */
	List	   *alternatives;	/* ORs in the conditions of the inner joins around the current part */
	struct ShardLevel *union_level; /* level of the union_from part, or NULL */
	const char *union_alias;
	bool		has_params;		/* constants in conditions are parameters */
	List	   *places;			/* of ShardSelectPlace: all tables with shards */
	List	   *raw_texts;		/* Strings: pieces of SQL that core cannot print */
} ShardSelect;

/* A query over one table, a sharded parent or a shard. */
extern ShardSelect *shard_select_begin(Index rtindex, Oid relid);

/* Reads a sample of the rows of the table. */
extern void shard_select_sample(ShardSelect *select, const TableSampleClause *sample);

/* A query without FROM (remote_query.c). driver: the table whose shards are queried. */
extern ShardSelect *shard_select_create(Oid driver);

/* Adds one attribute of the scan slot, in the transfer form of its type. */
extern void shard_select_output(ShardSelect *select, Expr *expr, int target);

/*
 * Adds system column attno of the row on its node, one of shard_system_columns.  Only for a single shard. for_modify:
 * if the row is in a child table of the shard, the query fails, because its ctid does not identify a row of the
 * shard.
 */
extern void shard_select_output_system(ShardSelect *select, AttrNumber attno, bool for_modify);

/* expr, of type, in the transfer form of its value: unchanged, or as text.  Sets *kind. */
extern Expr *shard_select_wire_form(Expr *expr, Oid type, ShardOutputKind *kind);

/*
 * Adds the partial state of an aggregate (AGGSPLIT_INITIAL_SERIAL), for the nodes of map. shared: another aggregate
 * of the statement uses the same transition state.  In partial_agg.c.
 */
extern void shard_select_output_partial(ShardSelect *select, const ShardMap *map, Aggref *agg,
										bool shared, int target);

extern void shard_select_where(ShardSelect *select, List *clauses);

/* Adds FOR UPDATE or FOR SHARE. */
extern void shard_select_lock(ShardSelect *select, LockClauseStrength strength,
							  LockWaitPolicy policy);

/*
 * clause with Vars of varno 1.  Each part that has no Var and is not constant becomes a Param of kind PARAM_EXTERN,
 * whose paramid is the number in select->params.
 */
extern Node *shard_select_prune_clause(ShardSelect *select, Node *clause);

/* Makes the query an UPDATE or DELETE. assignments: TargetEntries with resno = attno. */
extern void shard_select_update(ShardSelect *select, List *assignments);
extern void shard_select_delete(ShardSelect *select);

/*
 * The template of the query: String and Integer nodes as in ShardTemplate (n > 0: parameter, otherwise a place).
 * Sets shard_template, too.
 */
extern List *shard_select_finish(ShardSelect *select);

/* For partial_agg.c: add a remote column, and the attribute that is made of the last columns. */
extern void shard_select_add_column(ShardSelect *select, Expr *converted);
extern void shard_select_add_output(ShardSelect *select, ShardOutputKind kind, int target, Oid type, int32 typmod);

#endif
