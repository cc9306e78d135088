/*
 * plan_private.h
 *	  The contract between planner and executor: what a ForeignScan of ours
 *	  carries, packed into a List of Nodes (fdw_private) and back.
 *
 * It must survive copyObject and nodeToString, and must not grow with the
 * number of shards when all shards are read.
 */
#ifndef SHARDFDW_PLAN_PRIVATE_H
#define SHARDFDW_PLAN_PRIVATE_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"

/*
 * One remote SQL text for all shards: a List of String (text as it stands) and
 * Integer nodes: n > 0 is the scan's parameter n; n <= 0 is the place of the
 * shard of table -n (0-based index into relids), in FROM, alias following.
 */
typedef List ShardTemplate;

/* In a template that is one query per node: the place of the UNION ALL over the node's shards, without parentheses. */
#define SHARD_TEMPLATE_UNION PG_INT32_MIN

/*
 * Params of kind PARAM_EXTERN from this paramid on are arrays of keys that a key
 * join (executor/scan/key_join_exec.c) hands over when it starts the scan.  They are no
 * parameters of the statement; core passes them through as ones it cannot know.
 * In scans they may have the bit SHARD_SELECT_UNSEEN (deparse/select.h).
 */
#define SHARD_KEYS_PARAM 0x10000000

/* How remote columns become attributes of the scan's slot. */
typedef enum ShardOutputKind
{
	SHARD_OUTPUT_VALUE,			/* one remote column, the attribute's type */
	SHARD_OUTPUT_TEXT,			/* one remote column cast to text on the node */
	SHARD_OUTPUT_SYSTEM,		/* one remote column, the row's system column number target */
	SHARD_OUTPUT_INT8_SUM,		/* two: count bigint, sum numeric -> serialized state of sum/avg(int8) */
	SHARD_OUTPUT_NUMERIC_SUM,	/* two: count bigint, sum numeric -> serialized state of sum/avg(numeric) */
	SHARD_OUTPUT_INTERVAL_SUM,	/* two: count bigint, sum interval -> serialized state of sum/avg(interval), 17+ */
	SHARD_OUTPUT_POLY_VARIANCE, /* three: count bigint, sum, sum of squares numeric -> state of stddev(int4) */
	SHARD_OUTPUT_NUMERIC_VARIANCE,	/* three: the same -> state of stddev(int8), stddev(numeric) */
	SHARD_OUTPUT_STATE			/* one: serialized state, bytea; typmod: ShardStateFormat, type: see shard_state_check() */
} ShardOutputKind;

typedef struct ShardOutput
{
	ShardOutputKind kind;
	int			target;			/* 0-based attribute of the scan slot; SHARD_OUTPUT_SYSTEM: attribute number */
	Oid			type;			/* type of that attribute */
	int32		typmod;
} ShardOutput;

/* Remote columns that an output consumes. */
extern int	shard_output_ncolumns(ShardOutputKind kind);

typedef struct ShardScanPlan
{
	List	   *relids;			/* OidList: tables read, sharded parent or shard; the first one's shards drive */
	bool		all_shards;		/* every shard of it; else ... */
	List	   *shards;			/* OidList: shards (foreign tables) left by pruning at plan time */
	ShardTemplate *template;	/* a query per shard; or, when shard_template is set, one per node */
	ShardTemplate *shard_template;	/* of each shard's part at SHARD_TEMPLATE_UNION's place, or NIL */
	ShardOutput *outputs;
	int			noutputs;

	/*
	 * How the rows of each remote query are ordered; the scan merges them in
	 * this order.  Lists of equal length, NIL when in no order.
	 */
	List	   *sort_columns;	/* IntList: 1-based attributes of the scan's slot */
	List	   *sort_operators; /* OidList */
	List	   *sort_collations;	/* OidList */
	List	   *sort_nulls_first;	/* IntList: 0 or 1 */

	/*
	 * Conditions to prune with when execution starts: implicit-AND list over
	 * Vars of varno 1 (the first table), Consts, and Param nodes of kind
	 * PARAM_EXTERN whose paramid is the 1-based index into fdw_exprs.  Of a shard
	 * by itself they may be over its parent.
	 */
	List	   *prune_quals;
	Oid			prune_parent;	/* InvalidOid: the first table */

	/*
	 * Ways to name the shard key among the rows: of IntLists, each with the
	 * 1-based attributes of the scan's slot that are its columns.  For planner code
	 * that looks at a finished plan.
	 */
	List	   *key_columns;

	/*
	 * Rows of a table of two levels come in the order of its partitions, and not all of them may be wanted:
	 * the number of partitions to read first.  0: all at once.
	 */
	int			first_parts;
	bool		parts_descending;	/* they are read from the last one on */

	bool		grouped;		/* the remote query makes groups, or finds distinct rows */
	bool		at_once;		/* the statement calls functions that may write: nodes are not read in turns */
	bool		is_prepared;	/* asked once of each node, which is to keep its plan */
	bool		for_values;		/* but not where it has parameters: nodes plan it for their values each time */
	bool		locks_rows;		/* SELECT ... FOR UPDATE/SHARE: runs on the writing connection */
	bool		locks_late;		/* and the rows that are taken are locked one by one: read in batches */
	bool		text_columns;	/* some output is SHARD_OUTPUT_TEXT */
	double		rows_per_shard; /* estimate, chooses the fetcher */
	int			width;			/* bytes per row, estimate */
	char	   *relations;		/* EXPLAIN: "Relations" of a scan without scanrelid; NULL otherwise */
	Oid			check_as_user;	/* whose user mappings are used; 0 is the current user */
} ShardScanPlan;

/* fdw_exprs of the ForeignScan are the scan's parameters, in order. */
extern List *shard_plan_private_pack(const ShardScanPlan *plan);
extern ShardScanPlan *shard_plan_private_unpack(List *fdw_private);

/* Of a scan: locks_rows, cheaper than to unpack all.  False for fdw_private of other plans, which have another length. */
extern bool shard_plan_private_locks(List *fdw_private);

/*
 * UPDATE and DELETE that run wholly on the node (direct modification):
 * fdw_private of the ForeignScan.  template, outputs (RETURNING), relids as above.
 */
typedef struct ShardDirectPlan
{
	Oid			relid;			/* the shard (foreign table) */
	ShardTemplate *template;	/* UPDATE/DELETE ... [RETURNING ...]; params as above */
	ShardOutput *outputs;
	int			noutputs;
	bool		has_returning;
	bool		set_processed;	/* counts towards the command tag */

	/*
	 * Conditions with parameters, like a scan's prune_quals: Vars of varno 1 are columns of parent.  NIL: none, or
	 * they leave no shard out.
	 */
	List	   *prune_quals;
	Oid			parent;			/* the sharded table; only with prune_quals */
} ShardDirectPlan;

extern List *shard_plan_private_pack_direct(const ShardDirectPlan *plan);
extern ShardDirectPlan *shard_plan_private_unpack_direct(List *fdw_private);

/* CustomName of a key join's plan node. */
#define SHARD_KEY_JOIN_NAME "ShardKeyJoin"

/* One equality of a key join. */
typedef struct ShardKeyJoinKey
{
	int			paramid;		/* the inner side's parameter: an array of value_type */
	Oid			value_type;		/* the outer expression's; where both are integers, the inner one's */
	Oid			outer_hash;		/* functions under which equal values have equal hashes */
	Oid			inner_hash;
	Oid			collation;
} ShardKeyJoinKey;

/*
 * A key join: custom_private of a CustomScan.  Its custom_plans are the outer
 * and the inner side; its custom_exprs three lists: the join's conditions, and
 * for each key its expression over the outer and over the inner side.
 */
typedef struct ShardKeyJoinPlan
{
	JoinType	jointype;		/* INNER, LEFT, SEMI or ANTI */
	List	   *columns;		/* IntList, for each of custom_scan_tlist: n is column n of the outer plan, -n of the inner */
	int			nkeys;
	ShardKeyJoinKey *keys;
	int			change_param;	/* number of a PARAM_EXEC that nothing else uses: marks nodes whose keys have changed */
	double		first_rows;		/* rows of the first batch, a guess */
	bool		in_rounds;		/* SEMI, ANTI: the other shards are asked only for keys without rows in the first ones */
} ShardKeyJoinPlan;

extern List *shard_plan_private_pack_key_join(const ShardKeyJoinPlan *plan);
extern ShardKeyJoinPlan *shard_plan_private_unpack_key_join(List *custom_private);

/* CustomName of the plan node of a statement that nodes run as it stands. */
#define SHARD_STATEMENT_NAME "ShardStatement"

/*
 * A whole statement (SELECT, INSERT, UPDATE, DELETE, MERGE) that each live shard
 * group runs as it stands: custom_private of a CustomScan, the top of its plan.
 * Its custom_exprs are the parameters: those of the template, and behind them
 * values of the shard key that the template has no parameter for.
 */
typedef struct ShardStatementPlan
{
	CmdType		operation;
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* SELECT or RETURNING */
	bool		on_writer;		/* it changes or locks rows: runs on the writing connection */
	bool		only_locks;		/* it locks rows */
	bool		for_values;		/* nodes plan it for the values of its parameters each time */
	List	   *relids;			/* OidList: sharded tables at the template's places, colocated; the first one's shards drive */
	bool		all_shards;		/* without key values: every shard of it; else ... */
	List	   *shards;			/* OidList: shards left by pruning at plan time */

	/*
	 * Of each of shards, what it runs in place of template, and how many of custom_exprs
	 * come before that text's parameters (IntList).  NIL: all run template.
	 */
	List	   *shard_texts;
	List	   *shard_params;

	/*
	 * IntList, one for each column of the shard key: number of the parameter
	 * (1-based) that is its value, and so says which is the one shard that runs
	 * the statement.  NIL: it goes to all_shards or shards.
	 */
	List	   *key_params;
	bool		inserts_key;	/* a row with this key is inserted, so its shard must exist */
	bool		inserts_values; /* INSERT of rows that stand in the statement */
	ShardTemplate *template;
	ShardOutput *outputs;		/* what it returns */
	int			noutputs;
	bool		text_columns;	/* some output is SHARD_OUTPUT_TEXT */
	Oid			check_as_user;	/* whose user mappings are used; 0 is the current user */
} ShardStatementPlan;

extern List *shard_plan_private_pack_statement(const ShardStatementPlan *plan);
extern ShardStatementPlan *shard_plan_private_unpack_statement(List *custom_private);

/* CustomName of the plan node of statements that take rows as jobs from a queue. */
#define SHARD_TAKE_NAME "ShardTake"

/*
 * SELECT ... LIMIT n FOR UPDATE SKIP LOCKED over all shards of one table, or an UPDATE or DELETE of just the rows that
 * such a SELECT locks: custom_private of a CustomScan, the top of its plan.  Its custom_exprs are the parameters of
 * candidates, the limit, and those of what shards do, one of which stands for an array of ctids.
 */
typedef struct ShardTakePlan
{
	CmdType		operation;		/* SELECT, UPDATE or DELETE */
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* SELECT or RETURNING */
	bool		skips;			/* SKIP LOCKED: what others have locked is left out; else it is waited for, or an error */
	bool		is_exclusive;	/* nobody else can have a row locked that it has locked in its way */
	char	   *locking;		/* its locking clause: FOR UPDATE NOWAIT, ... */
	Oid			relid;			/* the sharded table */
	Oid			check_as_user;	/* whose user mappings are used; 0 is the current user */
	int			limit_param;	/* number (1-based) of the limit among custom_exprs */

	/*
	 * Asked of each node: number of the shard, ctid, xmin and file of rows, and what they are sorted by.  Place 0 is a union
	 * of the node's shards, with columns (text) of each; a LIMIT is appended.
	 */
	ShardTemplate *candidates;
	char	   *columns;
	ShardOutput *sort_outputs;	/* attributes from 0 on */
	int			nsort;
	List	   *sort_operators; /* OidList */
	List	   *sort_collations;	/* OidList */
	List	   *sort_nulls_first;	/* IntList: 0 or 1 */

	/* Asked of a shard.  Places 0 are the shard; parameters count from 1, those of custom_exprs before them left out. */
	int			ctids_param;	/* the array of ctids among them; behind the last one are that of xmins, and the file */
	ShardTemplate *lock;		/* rows by ctids, xmins and file: their ctids, and for SELECT its outputs; else these are its only parameters */
	ShardTemplate *change;		/* rows by ctids; NIL for SELECT */
	ShardTemplate *take;		/* one row, locked and changed: how many were locked, then true or count and outputs */
	ShardOutput *outputs;		/* what the statement returns */
	int			noutputs;
} ShardTakePlan;

extern List *shard_plan_private_pack_take(const ShardTakePlan *plan);
extern ShardTakePlan *shard_plan_private_unpack_take(List *custom_private);

/* CustomName of the plan node of INSERT ... ON CONFLICT and MERGE over rows that are computed here. */
#define SHARD_SOURCE_NAME "ShardSourceModify"

/*
 * Rows of a child plan, routed to the shards of one table, each of which runs
 * one statement over all of its rows: custom_private of a CustomScan, the top of
 * its plan.  The template's parameters are narrays arrays, one for each column of
 * the child plan, then the custom_exprs.
 */
typedef struct ShardSourcePlan
{
	Oid			relid;			/* the sharded table */
	CmdType		operation;		/* CMD_INSERT or CMD_MERGE */
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* RETURNING */
	bool		all_shards;		/* shards without rows run the statement, too */
	bool		skip_unrouted;	/* rows that no shard takes are left out; otherwise they are an error */
	int			narrays;
	int			first_column;	/* 0-based, of the child plan: where the columns for the arrays begin */
	List	   *key_columns;	/* IntList: 1-based among these columns: the shard key */
	ShardTemplate *template;
	ShardOutput *outputs;		/* what nodes return, attributes of custom_scan_tlist */
	int			noutputs;
	int			tableoid_attno; /* attribute of custom_scan_tlist that is the shard's OID; 0: none */
	Oid			check_as_user;	/* whose user mappings are used; 0 is the current user */
} ShardSourcePlan;

extern List *shard_plan_private_pack_source(const ShardSourcePlan *plan);
extern ShardSourcePlan *shard_plan_private_unpack_source(List *custom_private);

/*
 * Columns (IntList of the parent's attribute numbers) that ON CONFLICT names, for
 * rows that are inserted one by one: a junk entry at the end of OnConflictExpr's
 * exclRelTlist, which core copies to ModifyTable and does not use.  unpack returns NIL
 * when there is none.
 */
extern TargetEntry *shard_plan_private_pack_conflict(List *attnos, AttrNumber resno);
extern List *shard_plan_private_unpack_conflict(List *tlist);

#endif
