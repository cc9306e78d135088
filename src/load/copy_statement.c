/*
 * copy_statement.c
 *	  Runs COPY of sharded tables, and of queries over them.
 *
 * This file repeats what core's DoCopy() does before it reads or writes, in the same order.  No part of DoCopy() can
 * be called separately.  It checks permissions on files and programs, on the table and its columns, and row security,
 * and it prepares the WHERE clause.  Core runs every other COPY.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/shard_map.h"
#include "commands/copy.h"
#include "compat.h"
#include "load/copy_statement.h"
#include "load/copy_load.h"
#include "load/input/copy_option.h"
#include "load/input/copy_rights.h"
#include "load/copy_to.h"
#include "load/resume.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

/* Callback of the look-up: raises an error before waiting for the lock if the user does not own the table. */
static void
check_owner(const RangeVar *relation, Oid relid, Oid oldrelid, void *arg)
{
	if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE &&
		!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, relation->relname);
}

/*
 * The sharded table of stmt, locked as core locks it.  InvalidOid if it is no sharded table.  A load that drops
 * indexes of shards takes the lock of DROP INDEX.
 */
static Oid
sharded_relation(const CopyStmt *stmt)
{
	Oid			relid;

	if (stmt->relation == NULL)
		return InvalidOid;
	if (stmt->is_from && shard_copy_option_defers_indexes(stmt->options))
		relid = RangeVarGetRelidExtended(stmt->relation, AccessExclusiveLock, RVR_MISSING_OK, check_owner, NULL);
	else
		relid = RangeVarGetRelid(stmt->relation, stmt->is_from ? RowExclusiveLock : AccessShareLock, true);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE ||
		(stmt->is_from ? shard_map_get(relid) : shard_map_get_levels(relid, true)) == NULL)
		return InvalidOid;
	return relid;
}

/* Raises core's error unless the user has the privileges of a role. */
#define CHECK_ROLE(oid, name, what) \
	do { \
		if (!has_privs_of_role(GetUserId(), oid)) \
			ereport(ERROR, \
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), \
					 SHARD_COPY_DENIED(name, what), \
					 errhint("Anyone can COPY to stdout or from stdin. " \
							 "psql's \\copy command also works for anyone."))); \
	} while (0)

static void
check_file_rights(const CopyStmt *stmt)
{
	if (stmt->filename == NULL)
		return;
	if (stmt->is_program)
		CHECK_ROLE(ROLE_PG_EXECUTE_SERVER_PROGRAM, "pg_execute_server_program",
				   "COPY to or from an external program");
	else if (stmt->is_from)
		CHECK_ROLE(ROLE_PG_READ_SERVER_FILES, "pg_read_server_files", "COPY from a file");
	else
		CHECK_ROLE(ROLE_PG_WRITE_SERVER_FILES, "pg_write_server_files", "COPY to a file");
}

/* Checks the privileges for the columns that COPY fills: INSERT, and those of ON CONFLICT DO UPDATE if rows are replaced. */
static void
check_table_rights(ParseState *pstate, const CopyStmt *stmt, Relation rel,
				   ParseNamespaceItem *nsitem, bool replaces)
{
	List	   *attnos = CopyGetAttnums(RelationGetDescr(rel), rel, stmt->attlist);

	foreach_int(attno, attnos)
		SHARD_PERM_INFO(nsitem)->insertedCols =
			bms_add_member(SHARD_PERM_INFO(nsitem)->insertedCols,
						   attno - FirstLowInvalidHeapAttributeNumber);
	if (replaces)
	{
		SHARD_PERM_INFO(nsitem)->requiredPerms |= ACL_SELECT | ACL_UPDATE;
		SHARD_PERM_INFO(nsitem)->updatedCols = bms_copy(SHARD_PERM_INFO(nsitem)->insertedCols);
		SHARD_PERM_INFO(nsitem)->selectedCols = bms_add_members(SHARD_PERM_INFO(nsitem)->selectedCols,
																RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY));
	}
	shard_copy_rights_check(pstate, CMD_INSERT);

	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY FROM not supported with row-level security"),
				 errhint("Use INSERT statements instead.")));
}

/* The condition of COPY ... WHERE in the form of CopyFrom(): an implicit-AND list. */
static Node *
transform_where(ParseState *pstate, const CopyStmt *stmt, Relation rel, ParseNamespaceItem *nsitem)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *attrs = NULL;
	bool		whole_row;
	Node	   *where;

	if (stmt->whereClause == NULL)
		return NULL;
	addNSItemToQuery(pstate, nsitem, false, true, true);
	where = transformExpr(pstate, stmt->whereClause, EXPR_KIND_COPY_WHERE);
	where = coerce_to_boolean(pstate, where, "WHERE");
	assign_expr_collations(pstate, where);

	/* columns that have no value yet when the condition is evaluated are not allowed */
	pull_varattnos(where, 1, &attrs);
	for (int attno = FirstLowInvalidHeapAttributeNumber + 1; attno < 0; attno++)
		if (!SHARD_COPY_WHERE_SYSTEM_COLUMNS &&
			bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, attrs))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("system columns are not supported in COPY FROM WHERE conditions"),
					 errdetail("Column \"%s\" is a system column.",
							   NameStr(SystemAttributeDefinition(attno)->attname))));
	whole_row = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attrs);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attgenerated && !TupleDescAttr(desc, i)->attisdropped &&
			(whole_row || bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, attrs)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("generated columns are not supported in COPY FROM WHERE conditions"),
					 errdetail("Column \"%s\" is a generated column.",
							   NameStr(TupleDescAttr(desc, i)->attname))));

	where = eval_const_expressions(NULL, where);
	where = (Node *) canonicalize_qual((Expr *) where, false);
	return (Node *) make_ands_implicit((Expr *) where);
}

/* A COPY of a sharded table. */
typedef struct ShardCopyCall
{
	const CopyStmt *stmt;
	const char *query_string;
	QueryEnvironment *query_env;
	Oid			relid;
	copy_data_source_cb feed;	/* callback for the input; NULL: stmt says where the input is */
	ProcessUtilityContext context;
	CommandDest dest;
} ShardCopyCall;

static ParseState *
make_state(const char *query_string, QueryEnvironment *query_env)
{
	ParseState *pstate = make_parsestate(NULL);

	pstate->p_sourcetext = query_string;
	pstate->p_queryEnv = query_env;
	return pstate;
}

/* resume: the load with RESUME that this COPY is a part of (its first part has locked the table), or NULL. */
static uint64
copy_from(const ShardCopyCall *from, const CopyStmt *stmt, ShardResume *resume)
{
	ParseState *pstate = make_state(from->query_string, from->query_env);
	Relation	rel;
	ParseNamespaceItem *nsitem;
	ShardCopyOptions options;
	Node	   *where;
	uint64		nrows;

	PreventCommandIfParallelMode("COPY");
	PreventCommandDuringRecovery("COPY");
	/* a later part of a load has no lock yet; INDEXES deferred has a stronger one, but core looks for this one */
	rel = table_open(from->relid, RowExclusiveLock);
	nsitem = addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	SHARD_PERM_INFO(nsitem)->requiredPerms = ACL_INSERT;
	where = transform_where(pstate, stmt, rel, nsitem);	/* requires SELECT on the columns of the condition */
	shard_copy_option_parse(pstate, stmt->options, &options);
	check_table_rights(pstate, stmt, rel, nsitem, options.duplicate == SHARD_DUPLICATE_KEEP_NEW);
	if (XactReadOnly)
		PreventCommandIfReadOnly("COPY FROM");
	shard_map_lock_several(list_make1_oid(from->relid));

	nrows = shard_copy_load(pstate, stmt, rel, where, &options, resume, from->feed, from->context, from->dest);
	table_close(rel, NoLock);
	free_parsestate(pstate);
	return nrows;
}

/* ShardResumePart */
static void
copy_part(void *arg, ShardResume *resume)
{
	const ShardCopyCall *from = arg;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw part of a load", ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);

	/* parse analysis changes the tree, which the next part needs again */
	(void) copy_from(from, copyObject(from->stmt), resume);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
}

/*
 * Runs a COPY of a sharded table or of a query over such tables.  *nrows: number of rows.  False: core has to run it.
 */
static bool
run_copy(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
		 ProcessUtilityContext context, QueryEnvironment *query_env, CommandDest dest, uint64 *nrows)
{
	const CopyStmt *stmt = castNode(CopyStmt, pstmt->utilityStmt);
	ShardCopyCall from = {stmt, query_string, query_env, InvalidOid, NULL, context, dest};
	ParseState *pstate;
	bool		done = true;

	if (stmt->relation != NULL)
	{
		from.relid = sharded_relation(stmt);
		if (!OidIsValid(from.relid))
			return false;
	}

	/* parse analysis may change the tree, which belongs to a function that may run it again */
	if (read_only_tree)
		stmt = copyObject(stmt);
	check_file_rights(stmt);
	if (OidIsValid(from.relid) && stmt->is_from)
	{
		if (shard_copy_option_is_resume(stmt->options))
			*nrows = shard_resume_run(context == PROCESS_UTILITY_TOPLEVEL, copy_part, &from);
		else
			*nrows = copy_from(&from, stmt, NULL);
		return true;
	}

	pstate = make_state(query_string, query_env);
	if (!OidIsValid(from.relid))
		done = shard_copy_to_query(pstate, stmt, pstmt->stmt_location, pstmt->stmt_len, nrows);
	else
		*nrows = shard_copy_to(pstate, stmt, pstmt->stmt_location, pstmt->stmt_len);
	free_parsestate(pstate);
	return done;
}

bool
shard_copy_statement_run(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
						 ProcessUtilityContext context, QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	uint64		nrows;

	/* a FILTER function may run another COPY */
	check_stack_depth();
	if (!run_copy(pstmt, query_string, read_only_tree, context, query_env,
				  dest ? dest->mydest : DestNone, &nrows))
		return false;
	if (qc)
		SetQueryCompletion(qc, CMDTAG_COPY, nrows);
	return true;
}

uint64
shard_copy_statement_load(Oid relid, List *columns, copy_data_source_cb feed, bool alone)
{
	CopyStmt   *stmt = makeNode(CopyStmt);
	ShardCopyCall from = {stmt, "COPY", NULL, relid, feed, alone ? PROCESS_UTILITY_TOPLEVEL : PROCESS_UTILITY_QUERY, alone ? DestRemote : DestNone};

	stmt->relation = makeRangeVar(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), -1);
	stmt->attlist = columns;
	stmt->is_from = true;
	LockRelationOid(relid, RowExclusiveLock);
	if (shard_map_get(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not a sharded table any more", get_rel_name(relid))));
	return copy_from(&from, stmt, NULL);
}

uint64
shard_copy_statement_load_local(Oid relid, List *columns, copy_data_source_cb feed)
{
	ParseState *pstate = make_state("COPY", NULL);
	CopyStmt   *stmt = makeNode(CopyStmt);
	Relation	rel = table_open(relid, RowExclusiveLock);
	ParseNamespaceItem *nsitem = addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	CopyFromState cstate;
	uint64		nrows;

	stmt->attlist = columns;
	SHARD_PERM_INFO(nsitem)->requiredPerms = ACL_INSERT;
	check_table_rights(pstate, stmt, rel, nsitem, false);
	cstate = BeginCopyFrom(pstate, rel, NULL, NULL, false, feed, columns, NIL);
	nrows = CopyFrom(cstate);
	EndCopyFrom(cstate);
	table_close(rel, NoLock);
	free_parsestate(pstate);
	return nrows;
}
