/*
 * dml.h
 *	  Texts of INSERT, UPDATE, DELETE, COPY and TRUNCATE on one shard, and what
 *	  the planner leaves for the executor of row-wise modifications.
 *
 * Columns are named by the shard's remote names (column_name option), the
 * table by its remote name.  Parameters are plain $n: they travel as text and
 * the node infers their types from the columns.  Attribute numbers are those
 * of the foreign table, 1-based.
 */
#ifndef SHARDFDW_DML_H
#define SHARDFDW_DML_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * fdw_private of a ModifyTable's foreign result relation (row-wise
 * modification, modify.c).  Without a plan (COPY FROM, tuple routing:
 * BeginForeignInsert) the executor fills one itself.
 */
typedef struct ShardModifyPlan
{
	CmdType		operation;		/* CMD_INSERT, CMD_UPDATE, CMD_DELETE */

	/*
	 * Columns sent, in order (INSERT, UPDATE).  Generated columns are left
	 * out: the node computes them.
	 */
	List	   *target_attnos;	/* IntList */

	/*
	 * Columns that the node must return for RETURNING, for WITH CHECK OPTION, or for
	 * AFTER ROW triggers on the coordinator (then all).  May hold
	 * system columns.  NIL: no RETURNING clause, the
	 * row count says whether the row was changed.
	 */
	List	   *returning_attnos;	/* IntList */

	bool		do_nothing;		/* ON CONFLICT DO NOTHING */
	List	   *conflict_attnos;	/* IntList: the columns that ON CONFLICT names; NIL: none */

	/*
	 * UPDATE may change partition key columns of a shard: core does not check
	 * the partition constraint of foreign tables, so the executor must (with
	 * ExecPartitionCheck, error on failure) before the row is sent.
	 */
	bool		check_partition;
} ShardModifyPlan;

extern List *shard_dml_pack(const ShardModifyPlan *plan);
extern ShardModifyPlan *shard_dml_unpack(List *fdw_private);

/* Qualified, quoted name of a shard on its node. */
extern const char *shard_dml_remote_name(Oid relid);

/* Columns that an INSERT or COPY of whole rows sends: all but dropped and generated ones.  IntList. */
extern List *shard_dml_all_attnos(Relation rel);

/*
 * Columns of rel (with range table index varno) that exprs (RETURNING lists,
 * check options) need; all when all is true or a whole-row Var is among them.  Left out
 * are tableoid, which core fills in, and virtual generated columns, which core computes where
 * they are read.  IntList: system columns, of them ctid first, then the others, ascending.
 */
extern List *shard_dml_needed_attnos(Relation rel, Index varno, List *exprs, bool all);

/* Does the error of a check option show the row, so that all columns are needed?  That of a policy does not. */
extern bool shard_dml_check_shows_row(const WithCheckOption *option);

/*
 * Appends the column in the form in which it travels to the coordinator.  If
 * shard_type_io_binary_output() holds for its type, that is a cast to the type (the
 * node's column may have another one); else its text form.
 */
extern void shard_dml_append_column(StringInfo buf, Oid relid, AttrNumber attno);

/*
 * RETURNING clause for attnos is part of the three below when returning is not
 * NIL: its columns come in the order of the list, each as
 * shard_dml_append_column() writes it.
 * All results: palloc'd in the current context.
 */

/* nrows rows of VALUES: parameter of row r (0-based), column c of list attnos: $(r * ncols + c + 1).
 * attnos may be NIL (a table without columns, nrows 1): DEFAULT VALUES. */
extern char *shard_dml_insert(Oid relid, List *attnos, int nrows, bool do_nothing,
							  List *conflict_attnos, List *returning);

/*
 * SELECT of columns attnos, as RETURNING would give them, of the row whose columns
 * key_attnos are $1..., which is locked.  nulls: the keys that are NULL; their
 * parameters are not used.
 * Errors: a type that has no equality.
 */
extern char *shard_dml_lock(Oid relid, List *key_attnos, const bool *nulls, List *attnos);

/* SELECT of columns attnos, as RETURNING would give them, of the row with ctid $1, which is locked. */
extern char *shard_dml_lock_row(Oid relid, LockClauseStrength strength, LockWaitPolicy policy, List *attnos);

/* SELECT of a row if the one with ctid $1 has been written by the transaction that asks. */
extern char *shard_dml_is_own(Oid relid);

/*
 * sql, an INSERT or UPDATE of the columns attnos, and a comment with their types.  A node that has prepared a text keeps the
 * types of its parameters, also when those of the columns change.  So the text must be another one then.
 */
extern char *shard_dml_with_types(const char *sql, Oid relid, List *attnos);

/* $1 is the row's ctid, $2... the columns of attnos.  Never touches rows of inheritance children of the shard. */
extern char *shard_dml_update(Oid relid, List *attnos, List *returning);

/* $1 is the row's ctid. */
extern char *shard_dml_delete(Oid relid, List *returning);

/* COPY rel (attnos) FROM STDIN, in text or binary format. */
extern char *shard_dml_copy(Oid relid, List *attnos, bool binary);

/* TRUNCATE of shards (OidList) that live on one node. */
extern char *shard_dml_truncate(List *relids, bool restart_seqs);

#endif
