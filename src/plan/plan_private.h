/*
 * plan_private.h
 *	  The interface between planner and executor: the data of our ForeignScans, packed into a List of Nodes
 *	  (fdw_private) and back.
 *
 * The data must survive copyObject and nodeToString, and must not grow with the number of shards if all shards are
 * read.
 */
#ifndef SHARDFDW_PLAN_PRIVATE_H
#define SHARDFDW_PLAN_PRIVATE_H

#include "postgres.h"

#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "output.h"

/*
 * One remote SQL text for all shards: a list of String and Integer nodes.  A String is literal text. n > 0 is the
 * scan's parameter n. n <= 0 is the place in FROM for the shard of table -n (0-based index in relids), followed by an
 * alias.
 */
typedef List ShardTemplate;

/* In a template that is one query per node: the place of the UNION ALL over the node's shards, without parentheses. */
#define SHARD_TEMPLATE_UNION PG_INT32_MIN

/*
 * Params of kind PARAM_EXTERN with a paramid from this on are arrays of keys.  A key join
 * (executor/scan/key_join_exec.c) passes them when it starts the scan.  They are not parameters of the statement.
 * Core passes them through as unknown parameters.  In scans they may have the bit SHARD_SELECT_UNSEEN
 * (deparse/select.h).
 */
#define SHARD_KEYS_PARAM 0x10000000

/* The structs below. */
typedef enum ShardPlanKind
{
	SHARD_PLAN_SCAN,
	SHARD_PLAN_MODIFY,
	SHARD_PLAN_DIRECT,
	SHARD_PLAN_KEY_JOIN,
	SHARD_PLAN_STATEMENT,
	SHARD_PLAN_QUEUE,
	SHARD_PLAN_SOURCE
} ShardPlanKind;

/* Packs the struct of this kind.  Memory: shares the lists and strings of plan. */
extern List *shard_plan_private_pack(ShardPlanKind kind, const void *plan);

/* Returns the struct of this kind.  Memory: the struct is in the current context; lists and strings are those of packed. */
extern void *shard_plan_private_unpack(ShardPlanKind kind, List *packed);

/* fdw_exprs of the ForeignScan are the scan's parameters, in order. */
typedef struct ShardScanPlan
{
	List	   *relids;			/* OidList: tables read, sharded parent or shard; the first one's shards are queried */
	bool		all_shards;		/* every shard of the first table; otherwise ... */
	List	   *shards;			/* OidList: shards (foreign tables) left by pruning at plan time */
	ShardTemplate *template;	/* a query per shard; or one per node, if shard_template is set */
	ShardTemplate *shard_template;	/* the part of each shard at SHARD_TEMPLATE_UNION's place, or NIL */
	ShardOutput *outputs;
	int			noutputs;

	/*
	 * Sort order of the rows of each remote query.  The scan merges them in this order.  Lists of equal length, NIL
	 * if the rows are not sorted.
	 */
	List	   *sort_columns;	/* IntList: 1-based attributes of the scan's slot */
	List	   *sort_operators; /* OidList */
	List	   *sort_collations;	/* OidList */
	List	   *sort_nulls_first;	/* IntList: 0 or 1 */

	/*
	 * Conditions for pruning at execution start: implicit-AND list over Vars of varno 1 (the first table), Consts,
	 * and Param nodes of kind PARAM_EXTERN whose paramid is the 1-based index in fdw_exprs.  For a single shard they
	 * may be over its parent.
	 */
	List	   *prune_quals;
	Oid			prune_parent;	/* InvalidOid: the first table */

	/*
	 * Keys of the rows: a list of IntLists, each with the 1-based attributes of the scan's slot that are the columns
	 * of a shard key.  For planner code that looks at a finished plan.
	 */
	List	   *key_columns;

	/*
	 * For a two-level table whose rows come in the order of its partitions and may not all be needed: the number of
	 * partitions to read first.  0: read all in parallel.
	 */
	int			first_parts;
	bool		parts_descending;	/* start with the last partition */

	bool		at_once;		/* the statement calls functions that may write: read all partitions in parallel, not
								 * one after the other */
	bool		is_prepared;	/* one query for each node, which is to keep its plan */
	bool		for_values;		/* but a query with parameters does not: nodes plan it for its values each time */
	bool		locks_rows;		/* SELECT ... FOR UPDATE/SHARE: uses the writing connection */
	bool		locks_late;		/* ... and locks the rows that are used one by one: the scan reads in batches */
	double		rows_per_shard; /* estimate, for choosing the fetcher */
	int			width;			/* bytes per row, estimate */
	char	   *relations;		/* EXPLAIN: "Relations" of a scan without scanrelid, otherwise NULL */
	char	   *refused;		/* EXPLAIN: why nodes do not compute the plan node above it; NULL: no reason */
	Oid			check_as_user;	/* user of the user mappings; 0 is the current user */
} ShardScanPlan;

/* Sets refused in fdw_private, if it is that of a scan and has none. */
extern void shard_plan_private_refused(List *fdw_private, const char *reason);

/* Returns locks_rows of a scan, without unpacking everything.  False for fdw_private of other plans. */
extern bool shard_plan_private_locks(List *fdw_private);

/* The same for locks_late. */
extern bool shard_plan_private_locks_late(List *fdw_private);

/*
 * fdw_private of a ModifyTable's foreign result relation (row-wise modification, modify.c).  If there is no plan
 * (COPY FROM, tuple routing: BeginForeignInsert), the executor fills it.
 */
typedef struct ShardModifyPlan
{
	CmdType		operation;		/* CMD_INSERT, CMD_UPDATE, CMD_DELETE */

	/* Columns to send, in order (INSERT, UPDATE).  The node computes generated columns. */
	List	   *target_attnos;	/* IntList */

	/*
	 * Columns that the node must return for RETURNING, for WITH CHECK OPTION, or for AFTER ROW triggers on the
	 * coordinator (then all columns).  May contain system columns.  NIL: no RETURNING clause; the row count tells
	 * whether the row was changed.
	 */
	List	   *returning_attnos;	/* IntList */

	bool		do_nothing;		/* ON CONFLICT DO NOTHING */
	List	   *conflict_attnos;	/* IntList: columns of the ON CONFLICT clause, or NIL */

	/*
	 * UPDATE may change partition key columns of a shard.  Core does not check the partition constraint of foreign
	 * tables.  So the executor has to check it before the row is sent (ExecPartitionCheck, error on failure).
	 */
	bool		check_partition;
} ShardModifyPlan;

/*
 * UPDATE and DELETE that run completely on the node (direct modification): fdw_private of the ForeignScan. template,
 * outputs (RETURNING) and relids as above.
 */
typedef struct ShardDirectPlan
{
	Oid			relid;			/* the shard (foreign table) */
	ShardTemplate *template;	/* UPDATE/DELETE ... [RETURNING ...]; params as above */
	ShardOutput *outputs;
	int			noutputs;
	bool		has_returning;
	bool		set_processed;	/* its rows count for the command tag */

	/*
	 * Conditions with parameters, like a scan's prune_quals: Vars of varno 1 are columns of parent.  NIL: there are
	 * none, or they cannot exclude the shard.
	 */
	List	   *prune_quals;
	Oid			parent;			/* the sharded table; only if prune_quals is set */
} ShardDirectPlan;

/* CustomName of a key join's plan node. */
#define SHARD_KEY_JOIN_NAME "ShardKeyJoin"

/* One equality of a key join. */
typedef struct ShardKeyJoinKey
{
	int			paramid;		/* parameter of the inner side: an array of value_type */
	Oid			value_type;		/* type of the outer expression; if both are integers, of the inner one */
	Oid			outer_hash;		/* functions that give equal values equal hashes */
	Oid			inner_hash;
	Oid			collation;
} ShardKeyJoinKey;

/*
 * A key join: custom_private of a CustomScan.  Its custom_plans are the outer and the inner side.  Its custom_exprs
 * are three lists: the join conditions, and for each key its expression over the outer and over the inner side.
 */
typedef struct ShardKeyJoinPlan
{
	JoinType	jointype;		/* INNER, LEFT, SEMI or ANTI */
	List	   *columns;		/* IntList, for each entry of custom_scan_tlist: n is column n of the outer plan,
								 * -n of the inner plan */
	int			nkeys;
	ShardKeyJoinKey *keys;
	int			change_param;	/* number of an otherwise unused PARAM_EXEC: marks plan nodes whose keys have changed */
	double		first_rows;		/* estimate of the rows of the first batch */
	bool		in_rounds;		/* SEMI, ANTI: the other shards are queried only for keys without rows in the first
								 * ones */
} ShardKeyJoinPlan;

/* CustomName of the plan node of a statement that nodes run unchanged. */
#define SHARD_STATEMENT_NAME "ShardStatement"

/*
 * A whole statement (SELECT, INSERT, UPDATE, DELETE, MERGE) that each live shard group runs unchanged: custom_private
 * of a CustomScan, the top of its plan.  Its custom_exprs are the parameters: first those of the template, then
 * values of the shard key for which the template has no parameter.
 */
typedef struct ShardStatementPlan
{
	CmdType		operation;
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* SELECT or RETURNING */
	bool		on_writer;		/* it changes or locks rows, so it uses the writing connection */
	bool		only_locks;		/* it locks rows */
	bool		for_values;		/* nodes plan it for the values of its parameters each time */
	List	   *relids;			/* OidList: sharded tables at the template's places, colocated; the first one's
								 * shards are queried */
	bool		all_shards;		/* without key values: every shard of the first table; otherwise ... */
	List	   *shards;			/* OidList: shards left by pruning at plan time */

	/*
	 * For each of shards, the text that it runs instead of template, and the number of custom_exprs before that
	 * text's parameters (IntList).  NIL: all run template.
	 */
	List	   *shard_texts;
	List	   *shard_params;

	/*
	 * IntList, for each column of the shard key: number (1-based) of the parameter that is its value.  These
	 * determine the one shard that runs the statement.  NIL: it runs on all_shards or shards.
	 */
	List	   *key_params;
	bool		inserts_key;	/* it inserts a row with this key, so the shard must exist */
	bool		inserts_values; /* INSERT of rows that are in the statement */
	ShardTemplate *template;
	ShardOutput *outputs;		/* result columns */
	int			noutputs;
	Oid			check_as_user;	/* user of the user mappings; 0 is the current user */
} ShardStatementPlan;

/* CustomName of the plan node of statements that take rows as jobs from a queue. */
#define SHARD_QUEUE_NAME "ShardQueue"

/*
 * SELECT ... LIMIT n FOR UPDATE SKIP LOCKED over all shards of one table, or an UPDATE or DELETE of exactly the rows
 * that such a SELECT locks: custom_private of a CustomScan, the top of its plan.  Its custom_exprs are the parameters
 * of candidates, the limit, and the parameters of the statements for shards.  One of these stands for an array of
 * ctids.
 */
typedef struct ShardQueuePlan
{
	CmdType		operation;		/* SELECT, UPDATE or DELETE */
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* SELECT or RETURNING */
	bool		skips;			/* SKIP LOCKED: rows locked by others are skipped; otherwise wait for them, or
								 * raise an error */
	bool		is_exclusive;	/* no other session can lock a row that the statement has locked */
	char	   *locking;		/* its locking clause: FOR UPDATE NOWAIT, ... */
	Oid			relid;			/* the sharded table */
	Oid			check_as_user;	/* user of the user mappings; 0 is the current user */
	int			limit_param;	/* number (1-based) of the limit in custom_exprs */

	/*
	 * The query for each node: shard number, ctid, xmin and file of rows, and the columns by which they are sorted.
	 * Place 0 is a union of the node's shards, with columns (text) of each.  A LIMIT is appended.
	 */
	ShardTemplate *candidates;
	char	   *columns;
	ShardOutput *sort_outputs;	/* attributes from 0 on */
	int			nsort;
	List	   *sort_operators; /* OidList */
	List	   *sort_collations;	/* OidList */
	List	   *sort_nulls_first;	/* IntList: 0 or 1 */

	/*
	 * The statements for a shard.  Place 0 is the shard.  Parameters count from 1, without the custom_exprs of
	 * candidates and limit.
	 */
	int			ctids_param;	/* number of the parameter for the array of ctids; the array of xmins and the file
								 * follow the last parameter */
	ShardTemplate *lock;		/* locks rows by ctids, xmins and file: returns their ctids, and for SELECT its
								 * outputs; otherwise these are its only parameters */
	ShardTemplate *change;		/* changes rows by ctids; NIL for SELECT */
	ShardTemplate *lock_and_change; /* one row: returns how many were locked, then true or count and outputs */
	ShardOutput *outputs;		/* result columns of the statement */
	int			noutputs;
} ShardQueuePlan;

/* CustomName of the plan node of INSERT ... ON CONFLICT and MERGE over rows that the coordinator computes. */
#define SHARD_SOURCE_NAME "ShardSourceModify"

/*
 * Rows of a child plan, routed to the shards of one table.  Each shard runs one statement over all of its rows:
 * custom_private of a CustomScan, the top of its plan.  The template's parameters are narrays arrays, one for each
 * column of the child plan, followed by the custom_exprs.
 */
typedef struct ShardSourcePlan
{
	Oid			relid;			/* the sharded table */
	CmdType		operation;		/* CMD_INSERT or CMD_MERGE */
	bool		does_update;	/* ON CONFLICT DO UPDATE */
	bool		set_processed;	/* its rows count for the command tag */
	bool		returns_rows;	/* RETURNING */
	bool		all_shards;		/* shards without rows run the statement, too */
	bool		skip_unrouted;	/* rows without a shard are ignored; otherwise they are an error */
	int			narrays;
	int			first_column;	/* 0-based position in the child plan of the first column for the arrays */
	List	   *key_columns;	/* IntList: 1-based positions of the shard key among these columns */
	ShardTemplate *template;
	ShardOutput *outputs;		/* columns that nodes return: attributes of custom_scan_tlist */
	int			noutputs;
	int			tableoid_attno; /* attribute of custom_scan_tlist that is the shard's OID; 0: none */
	Oid			check_as_user;	/* user of the user mappings; 0 is the current user */
} ShardSourcePlan;

/*
 * Columns of the ON CONFLICT clause (IntList of the parent's attribute numbers), for rows that are inserted one by
 * one.  They are a junk entry at the end of OnConflictExpr's exclRelTlist, which core copies to ModifyTable and does
 * not use. unpack returns NIL if there is none.
 */
extern TargetEntry *shard_plan_private_pack_conflict(List *attnos, AttrNumber resno);
extern List *shard_plan_private_unpack_conflict(List *tlist);

#endif
