/*
 * select.h
 *	  Builds the SQL text of a remote query, or of a remote UPDATE or DELETE,
 *	  piece by piece, as a template with places for the shard and parameters.
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

/* How remote columns become one attribute; names as in plan/plan_private.h, which lies above. */
typedef enum ShardSelectKind
{
	SHARD_SELECT_VALUE,
	SHARD_SELECT_TEXT,
	SHARD_SELECT_SYSTEM,
	SHARD_SELECT_INT8_SUM,
	SHARD_SELECT_NUMERIC_SUM,
	SHARD_SELECT_INTERVAL_SUM,
	SHARD_SELECT_POLY_VARIANCE,
	SHARD_SELECT_NUMERIC_VARIANCE,
	SHARD_SELECT_STATE
} ShardSelectKind;

typedef struct ShardSelectOutput
{
	ShardSelectKind kind;
	int			target;			/* 0-based attribute of the scan slot; SHARD_SELECT_SYSTEM: attribute number */
	Oid			type;
	int32		typmod;
} ShardSelectOutput;

/* Parameter numbers from here on stand for pieces of text: 1-based index into raw_texts added to it. */
#define SHARD_SELECT_RAW_TEXT 1000000

/*
 * A bit of the number of a PARAM_EXTERN: the text hides the parameter's value from the
 * node's planner.  For large arrays that are looked up in an index: the planner would
 * estimate each element by itself, which takes longer than the look-up.
 */
#define SHARD_SELECT_UNSEEN 0x08000000

/* What stands for the UNION ALL of a node's shards until the text is cut. */
#define SHARD_SELECT_UNION_NAME "shards_of_node"

/* Its place in the template; as in plan/plan_private.h, which lies above. */
#define SHARD_SELECT_UNION_NUMBER PG_INT32_MIN

/* A FROM item that is put in when the query is sent. */
typedef struct ShardSelectPlace
{
	Oid			relid;			/* the table that is printed there, or InvalidOid for the union */
	const char *alias;
	int			number;			/* in the template */
	const char *own_from;		/* text used in place of the shard's FROM item, or NULL */
} ShardSelectPlace;

struct ShardFrom;
struct ShardLevel;

/*
 * A query under construction.  Expressions given to it are the planner's,
 * checked by shippable.c; of a query over one table, Vars of range table index
 * rtindex.
 */
typedef struct ShardSelect
{
	/* a query over one table, from shard_select_begin() */
	Index		rtindex;
	Oid			relid;			/* sharded parent or shard; its columns' names are used */

	/* results */
	List	   *relids;			/* OidList: tables that have places in the template; place -n is the nth */
	List	   *shard_template; /* set when the template is one query per node, see ShardScanPlan */
	List	   *params;			/* expressions: the scan's parameters, in order */
	List	   *outputs;		/* of ShardSelectOutput */
	bool		text_columns;	/* some output is SHARD_SELECT_TEXT */

	/* under construction */
	struct ShardLevel *level;	/* the outermost, see level.h */
	Query	   *query;			/* its query */
	List	   *levels;			/* all of them */
	int			naliases;
	const struct ShardFrom *union_from; /* a query per node: what is read shard by shard; until it has been built */
	List	   *alternatives;	/* ORs in the conditions of the inner joins around what is being built */
	struct ShardLevel *union_level; /* that, or NULL */
	const char *union_alias;
	bool		has_params;		/* constants in conditions are parameters */
	List	   *places;			/* of ShardSelectPlace: all tables with shards */
	List	   *raw_texts;		/* Strings: pieces of SQL that core does not print */
} ShardSelect;

/* A query over one table, a sharded parent or a shard. */
extern ShardSelect *shard_select_begin(Index rtindex, Oid relid);

/* The rows are a sample of those of the one table. */
extern void shard_select_sample(ShardSelect *select, const TableSampleClause *sample);

/* A query without FROM yet (remote_query.c); driver: the table whose shards are asked. */
extern ShardSelect *shard_select_create(Oid driver);

/* One attribute of the scan slot, by whatever form its type travels in. */
extern void shard_select_output(ShardSelect *select, Expr *expr, int target);

/*
 * System column attno of the row on its node, one of shard_system_columns.  for_modify: a row
 * that lies in a child table of the shard makes the query fail, as its ctid says nothing about
 * the shard's own rows.  Only for a shard by itself.
 */
extern void shard_select_output_system(ShardSelect *select, AttrNumber attno, bool for_modify);

/*
 * expr, of type, in the form in which its value travels: as it is, or as text.
 * Sets *kind.
 */
extern Expr *shard_select_wire_form(Expr *expr, Oid type, ShardSelectKind *kind);

/*
 * Partial state of an aggregate (AGGSPLIT_INITIAL_SERIAL), for the nodes of
 * map.  shared: another aggregate of the statement uses the same transition
 * state.  partial_agg.c
 */
extern void shard_select_output_partial(ShardSelect *select, const ShardMap *map, Aggref *agg,
										bool shared, int target);

extern void shard_select_where(ShardSelect *select, List *clauses);

/* FOR UPDATE or FOR SHARE. */
extern void shard_select_lock(ShardSelect *select, LockClauseStrength strength,
							  LockWaitPolicy policy);

/* Number (1-based) of the parameter whose value is expr. */
extern int	shard_select_param(ShardSelect *select, Expr *expr);

/*
 * clause with Vars of varno 1 and every Var-free part that is not constant as
 * a Param of kind PARAM_EXTERN, paramid the number among select->params.
 */
extern Node *shard_select_prune_clause(ShardSelect *select, Node *clause);

/* Makes the query UPDATE or DELETE; assignments: TargetEntries with resno = attno. */
extern void shard_select_update(ShardSelect *select, List *assignments);
extern void shard_select_delete(ShardSelect *select);

/*
 * Text of what was built: String and Integer nodes as ShardTemplate describes
 * (n > 0 parameter, otherwise a place).  Sets shard_template, too.
 */
extern List *shard_select_finish(ShardSelect *select);

/* For partial_agg.c: expr as it will stand in the remote query; one more remote column. */
extern Expr *shard_select_convert(ShardSelect *select, Expr *expr);
extern void shard_select_add_column(ShardSelect *select, Expr *converted);

#endif
