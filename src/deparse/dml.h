/*
 * dml.h
 *	  Makes INSERT, UPDATE, DELETE, COPY and TRUNCATE statements for one shard.
 *
 * Columns have the shard's remote names (option column_name), and the table has its remote name.  Parameters are
 * plain $n: they are sent as text, and the node infers their types from the columns.  Attribute numbers are those of
 * the foreign table, 1-based.
 */
#ifndef SHARDFDW_DML_H
#define SHARDFDW_DML_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* Qualified, quoted name of a shard on its node. */
extern const char *shard_dml_remote_name(Oid relid);

/* Columns that an INSERT or COPY of whole rows sends: all except dropped and generated ones.  IntList. */
extern List *shard_dml_all_attnos(Relation rel);

/*
 * Columns of rel (with range table index varno) that exprs (RETURNING lists, check options) need.  All columns if all
 * is true or exprs has a whole-row Var.  Excludes tableoid, which core sets, and virtual generated columns, which
 * core computes.  IntList: system columns first (ctid before the others), then the others, ascending.
 */
extern List *shard_dml_needed_attnos(Relation rel, Index varno, List *exprs, bool all);

/* Does the error of a check option show the row, so that all columns are needed?  The error of a policy does not. */
extern bool shard_dml_check_shows_row(const WithCheckOption *option);

/*
 * Appends the column in the form in which it is sent to the coordinator.  If shard_type_io_binary_output() is true
 * for its type, that is a cast to the type (the node's column may have another type); otherwise its text form.
 */
extern void shard_dml_append_column(StringInfo buf, Oid relid, AttrNumber attno);

/*
 * If returning is not NIL, the next three functions append a RETURNING clause with these columns, in this order, in
 * the form of shard_dml_append_column().  All results are palloc'd in the current context.
 */

/* INSERT of a row whose columns attnos are $1...; if attnos is NIL (a table without columns): DEFAULT VALUES. */
extern char *shard_dml_insert(Oid relid, List *attnos, bool do_nothing, List *conflict_attnos, List *returning);

/*
 * SELECT that locks the row whose columns key_attnos are $1..., and returns columns attnos in the form of RETURNING.
 * nulls: the keys that are NULL; their parameters are not used.  Errors: a type has no equality.
 */
extern char *shard_dml_lock(Oid relid, List *key_attnos, const bool *nulls, List *attnos);

/* SELECT that locks the row with ctid $1, and returns columns attnos in the form of RETURNING. */
extern char *shard_dml_lock_row(Oid relid, LockClauseStrength strength, LockWaitPolicy policy, List *attnos);

/*
 * SELECT of the row with ctid $1.  With own, it returns the row only if the current transaction has written it;
 * otherwise only if another transaction has written it.
 */
extern char *shard_dml_is_own(Oid relid, bool own);

/* Appends shard_type_io_comment() of the columns attnos to sql, an INSERT or UPDATE of these columns. */
extern char *shard_dml_with_types(const char *sql, Oid relid, List *attnos);

/* $1 is the row's ctid, $2... are the columns of attnos.  Never changes rows of inheritance children of the shard. */
extern char *shard_dml_update(Oid relid, List *attnos, List *returning);

/* $1 is the row's ctid. */
extern char *shard_dml_delete(Oid relid, List *returning);

/* COPY rel (attnos) FROM STDIN, in text or binary format. */
extern char *shard_dml_copy(Oid relid, List *attnos, bool binary);

/* TRUNCATE of shards (OidList) on one node. */
extern char *shard_dml_truncate(List *relids, bool restart_seqs);

#endif
