/*
 * compat.h
 *	  The differences between PostgreSQL 15 and 19, in one place.
 *
 * All other code uses the newest signatures; for older majors this file defines them.  No other
 * file tests PG_VERSION_NUM.
 */
#ifndef SHARDFDW_COMPAT_H
#define SHARDFDW_COMPAT_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"
#include "parser/parse_relation.h"
#include "replication/origin.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "shardfdw needs PostgreSQL 15 to 19"
#endif

/* 16 moved the varlena macros out of postgres.h */
/* CleanQuerytext() */
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 18 split the EXPLAIN headers */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "common/base64.h"
#endif
#include "tcop/dest.h"
#include "commands/explain.h"

/* 18 lets a library state its name and version.  Requires fmgr.h. */
#if PG_VERSION_NUM >= 180000
#define SHARD_MODULE_MAGIC(libname, libversion) PG_MODULE_MAGIC_EXT(.name = libname, .version = libversion)
#else
#define SHARD_MODULE_MAGIC(libname, libversion) PG_MODULE_MAGIC
#endif

/* The major version of PostgreSQL as a string, such as "18" */
#define SHARD_MAJOR_VERSION PG_MAJORVERSION

/*
 * The columns that an UPDATE assigns, a list for each result relation of state. 18 omits pruned
 * relations and their lists.
 */
#if PG_VERSION_NUM >= 180000
#define shard_update_colnos(state) ((state)->mt_updateColnosLists)
#else
#define shard_update_colnos(state) (castNode(ModifyTable, (state)->ps.plan)->updateColnosLists)
#endif

/* 19 added enabled */
#if PG_VERSION_NUM >= 190000
#define shard_create_material_path(rel, subpath) create_material_path(rel, subpath, true)
#else
#define shard_create_material_path(rel, subpath) create_material_path(rel, subpath)
#endif

/* 17 added orstronger.  Requires storage/lock.h. */
#if PG_VERSION_NUM >= 170000
#define shard_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define shard_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode)
#endif

/*
 * 18 keeps the keys of a client that has logged in with SCRAM. shard_scram_key(): the client's or
 * the server's key in libpq's format, in the current context; NULL: none.  Requires client.h.
 */
#if PG_VERSION_NUM >= 180000
static inline char *
shard_base64(const uint8 *bytes, int len)
{
	int			maxlen = pg_b64_enc_len(len);
	char	   *text = palloc0(maxlen + 1);

	if (pg_b64_encode(bytes, len, text, maxlen) < 0)
		elog(ERROR, "could not encode %d bytes", len);
	return text;
}

/* Is it the role with which the client has logged in?  Requires miscadmin.h. */
#define shard_is_login_role(userid)	((userid) == GetAuthenticatedUserId())

#define shard_scram_key(of_server) \
	(MyProcPort == NULL || !MyProcPort->has_scram_keys ? NULL : \
	 shard_base64((of_server) ? MyProcPort->scram_ServerKey : MyProcPort->scram_ClientKey, SCRAM_MAX_KEY_LEN))
#else
#define shard_is_login_role(userid)	((void) (userid), false)
#define shard_scram_key(of_server)	((char *) NULL)
#endif

/* 17 added fdw_restrictinfo, 18 disabled_nodes */
#if PG_VERSION_NUM >= 180000
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, 0, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, 0, startup, total, pathkeys, NULL, NIL, fdw_private)
#define shard_create_foreign_join_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreign_join_path(root, rel, target, rows, 0, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#elif PG_VERSION_NUM >= 170000
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, NIL, fdw_private)
#define shard_create_foreign_join_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreign_join_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, NIL, fdw_private)
#else
#define shard_create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, fdw_private)
#define shard_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, fdw_private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, fdw_private)
#define shard_create_foreign_join_path(root, rel, target, rows, startup, total, pathkeys, outer, fdw_private) \
	create_foreign_join_path(root, rel, target, rows, startup, total, pathkeys, outer, NULL, fdw_private)
#endif

/* 18 removed the symbol of pg_catalog."POSIX" */
#if PG_VERSION_NUM >= 180000
#define POSIX_COLLATION_OID 951
#endif

/*
 * Makes the outer side of JOIN_UNIQUE_OUTER unique; 19 passes a relation that already is.
 */
#if PG_VERSION_NUM >= 190000
#define shard_create_unique_path(root, rel, path, sjinfo) (path)
#else
#define shard_create_unique_path(root, rel, path, sjinfo) \
	((Path *) create_unique_path(root, rel, path, sjinfo))
#endif

/* 18 counts the disabled nodes of a path */
#if PG_VERSION_NUM >= 180000
#define shard_path_disabled_nodes(path, outer, inner) \
	((path)->disabled_nodes = (outer)->disabled_nodes + (inner)->disabled_nodes)
#else
#define shard_path_disabled_nodes(path, outer, inner) ((void) 0)
#endif

/* 16 provides the grouping clause as planned */
#if PG_VERSION_NUM >= 160000
#define shard_group_clause(root) ((root)->processed_groupClause)
#else
#define shard_group_clause(root) ((root)->parse->groupClause)
#endif

/* ... and the DISTINCT clause */
#if PG_VERSION_NUM >= 160000
#define shard_distinct_clause(root) ((root)->processed_distinctClause)
#else
#define shard_distinct_clause(root) ((root)->parse->distinctClause)
#endif

/* 19 gave this name to another function */
#if PG_VERSION_NUM >= 190000
#define shard_create_upper_unique_path(root, rel, path, ncols, ngroups) \
	create_unique_path(root, rel, path, ncols, ngroups)
#else
#define shard_create_upper_unique_path(root, rel, path, ncols, ngroups) \
	create_upper_unique_path(root, rel, path, ncols, ngroups)
#endif

/*
 * Run conditions of windows, which are not checked again above them: 17 moved them from the windows
 * to the functions.  Result: expressions over WindowFuncs.
 */
#if PG_VERSION_NUM >= 170000
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
static inline List *
shard_window_run_conditions(WindowClause *window, List *funcs)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, funcs)
	{
		WindowFunc *func = lfirst_node(WindowFunc, lc);
		ListCell   *lc2;

		if (func->winref != window->winref)
			continue;
		foreach(lc2, func->runCondition)
		{
			WindowFuncRunCondition *cond = lfirst_node(WindowFuncRunCondition, lc2);

			result = lappend(result,
							 make_opclause(cond->opno, BOOLOID, false,
										   cond->wfunc_left ? (Expr *) func : cond->arg,
										   cond->wfunc_left ? cond->arg : (Expr *) func,
										   InvalidOid, cond->inputcollid));
		}
	}
	return result;
}
#else
#define shard_window_run_conditions(window, funcs) ((window)->runCondition)
#endif

/*
 * 17 changed the transition type of sum/avg(interval) to internal, so the extension has to build
 * the partial state.
 */
#if PG_VERSION_NUM >= 170000
#define SHARD_INTERVAL_STATE_INTERNAL 1
#else
#define SHARD_INTERVAL_STATE_INTERNAL 0
#endif

/*
 * In the serialized state of sum/avg(bigint), 19 writes the sum as an integer of 128 bits, before:
 * as a numeric.
 */
#if PG_VERSION_NUM >= 190000
#define SHARD_INT8_STATE_INT128 1
#else
#define SHARD_INT8_STATE_INT128 0
#endif

/* Executor flags with which parameters have no values: EXPLAIN (GENERIC_PLAN), since 16. */
#include "executor/executor.h"
#ifdef EXEC_FLAG_EXPLAIN_GENERIC
#define SHARD_EXEC_FLAG_NO_PARAMS EXEC_FLAG_EXPLAIN_GENERIC
#else
#define SHARD_EXEC_FLAG_NO_PARAMS 0
#endif

/* 17 passes a resource owner instead of a memory context; this extension frees its wait event sets explicitly */
#include "storage/latch.h"
#if PG_VERSION_NUM >= 170000
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(NULL, nevents)
#else
#include "utils/memutils.h"
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(TopMemoryContext, nevents)
#endif

/* 17 added flags to the methods of memory contexts, and lets them report failures */
#if PG_VERSION_NUM >= 170000
#include "utils/memutils_internal.h"
#define SHARD_METHOD_ALLOC_FAILS(name) \
static void * \
name(MemoryContext context, Size size, int flags) \
{ \
	return MemoryContextAllocationFailure(context, size, flags); \
}
#define SHARD_METHOD_REALLOC_FAILS(name) \
static void * \
name(void *pointer, Size size, int flags) \
{ \
	return MemoryContextAllocationFailure(GetMemoryChunkContext(pointer), size, flags); \
}
#else
#define SHARD_METHOD_ALLOC_FAILS(name) \
static void * \
name(MemoryContext context, Size size) \
{ \
	return NULL; \
}
#if PG_VERSION_NUM >= 160000
#define SHARD_METHOD_REALLOC_FAILS(name) \
static void * \
name(void *pointer, Size size) \
{ \
	return NULL; \
}
#else
#define SHARD_METHOD_REALLOC_FAILS(name) \
static void * \
name(MemoryContext context, void *pointer, Size size) \
{ \
	return NULL; \
}
#endif
#endif

/* 17 added transaction_timeout, which ends the session */
#if PG_VERSION_NUM >= 170000
#include "storage/proc.h"
#define shard_transaction_timed_out() (TransactionTimeoutPending && TransactionTimeout > 0)
#else
#define shard_transaction_timed_out() (false)
#endif

/* Makes an idle backend run an empty transaction. */
#include "storage/procsignal.h"
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#define shard_wake_idle_backend(pid) \
	((void) SendProcSignal(pid, PROCSIG_CATCHUP_INTERRUPT, INVALID_PROC_NUMBER))
#else
#include "storage/backendid.h"
#define shard_wake_idle_backend(pid) \
	((void) SendProcSignal(pid, PROCSIG_CATCHUP_INTERRUPT, InvalidBackendId))
#endif

/* 16 renamed it: status of a backend, by its index in this transaction's list */
#if PG_VERSION_NUM >= 160000
#define shard_local_beentry(n) pgstat_get_local_beentry_by_index(n)
#else
#define shard_local_beentry(n) pgstat_fetch_stat_local_beentry(n)
#endif

/* 19 added a second argument to signal handlers, and these casts */
#if PG_VERSION_NUM < 190000
#define PG_SIG_DFL SIG_DFL
#define PG_SIG_IGN SIG_IGN
#endif

/* 19 added a type for the identifiers of system caches */
#if PG_VERSION_NUM < 190000
typedef int SysCacheIdentifier;
#else
#include "utils/syscache.h"
#endif

/*
 * User whose rights apply to changes of a result relation; for partitions that rows are routed to:
 * those of the table in the statement. 16 moved it out of the range table.
 */
#if PG_VERSION_NUM >= 160000
#define shard_result_userid(rinfo, estate) ExecGetResultRelCheckAsUser(rinfo, estate)
#else
static inline Oid
shard_result_userid(ResultRelInfo *rinfo, EState *estate)
{
	RangeTblEntry *rte;

	if (rinfo->ri_RootResultRelInfo != NULL)
		rinfo = rinfo->ri_RootResultRelInfo;
	rte = exec_rt_fetch(rinfo->ri_RangeTableIndex, estate);
	return OidIsValid(rte->checkAsUser) ? rte->checkAsUser : GetUserId();
}
#endif

/* User whose rights apply to row locks of a SELECT; for partitions: those of the table in the statement. */
static inline Oid
shard_row_mark_userid(const ExecRowMark *mark, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	Oid			userid = getRTEPermissionInfo(estate->es_rteperminfos, exec_rt_fetch(mark->prti, estate))->checkAsUser;
#else
	Oid			userid = exec_rt_fetch(mark->prti, estate)->checkAsUser;
#endif

	return OidIsValid(userid) ? userid : GetUserId();
}

/*
 * Hooks whose parameters depend on the major version.  The extension's functions have the
 * parameters of the newest one. ..._ENTRY(entry, function) defines entry, which core calls and
 * which calls function. shard_call_...() calls the previous hook or core's own function.
 *
 * Planner: 19 passes the ExplainState, and replaced get_relation_info_hook by
 * build_simple_rel_hook.
 */
#include "commands/explain.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#if PG_VERSION_NUM >= 190000
#define SHARD_PLANNER_ENTRY(entry, function) \
	static PlannedStmt * \
	entry(Query *parse, const char *query_string, int cursor_options, ParamListInfo params, ExplainState *es) \
	{ \
		return function(parse, query_string, cursor_options, params, es); \
	}
#define shard_call_planner(hook, parse, query_string, cursor_options, params, es) \
	((hook) (parse, query_string, cursor_options, params, es))
#define SHARD_SIMPLE_REL_HOOK build_simple_rel_hook
typedef build_simple_rel_hook_type shard_simple_rel_hook_type;
#define SHARD_SIMPLE_REL_ENTRY(entry, prev, function) \
	static void \
	entry(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) \
	{ \
		if (prev) \
			prev(root, rel, rte); \
		function(root, rel); \
	}
#else
#define SHARD_PLANNER_ENTRY(entry, function) \
	static PlannedStmt * \
	entry(Query *parse, const char *query_string, int cursor_options, ParamListInfo params) \
	{ \
		return function(parse, query_string, cursor_options, params, NULL); \
	}
#define shard_call_planner(hook, parse, query_string, cursor_options, params, es) \
	((hook) (parse, query_string, cursor_options, params))
#define SHARD_SIMPLE_REL_HOOK get_relation_info_hook
typedef get_relation_info_hook_type shard_simple_rel_hook_type;
#define SHARD_SIMPLE_REL_ENTRY(entry, prev, function) \
	static void \
	entry(PlannerInfo *root, Oid relid, bool is_parent, RelOptInfo *rel) \
	{ \
		if (prev) \
			prev(root, relid, is_parent, rel); \
		function(root, rel); \
	}
#endif

/* 19 put changingPart into an options argument */
#include "access/tableam.h"
#if PG_VERSION_NUM >= 190000
#define shard_table_tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd) \
	table_tuple_delete(rel, tid, cid, 0, snapshot, crosscheck, wait, tmfd)
#else
#define shard_table_tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd) \
	table_tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd, false)
#endif

/*
 * 19 aggregates below joins: such relations have the callbacks and fdw_private of the relations
 * they were made from
 */
#if PG_VERSION_NUM >= 190000
#define shard_rel_is_grouped(rel) IS_GROUPED_REL(rel)
#else
#define shard_rel_is_grouped(rel) false
#endif

/* 19 added a type whose values are OIDs of objects */
#ifndef REGDATABASEOID
#define REGDATABASEOID InvalidOid
#endif

/* 16 records in each Var which outer joins can make it NULL */
#if PG_VERSION_NUM >= 160000
#define shard_var_clear_nulling(var) ((var)->varnullingrels = NULL)
#define shard_var_add_nulling(var, rtindex) \
	((var)->varnullingrels = bms_add_member((var)->varnullingrels, rtindex))
#else
#define shard_var_clear_nulling(var) ((void) 0)
#define shard_var_add_nulling(var, rtindex) ((void) 0)
#endif

/* 19 made the list of result relations a set */
#if PG_VERSION_NUM >= 190000
#define shard_is_result_relation(stmt, rti) bms_is_member(rti, (stmt)->resultRelationRelids)
#define shard_result_relation_count(stmt) bms_num_members((stmt)->resultRelationRelids)
#else
#define shard_is_result_relation(stmt, rti) list_member_int((stmt)->resultRelations, rti)
#define shard_result_relation_count(stmt) list_length((stmt)->resultRelations)
#endif

/* 17 returns how much data of the client is buffered; before: only whether there is any */
#include "client.h"
#if PG_VERSION_NUM >= 170000
#define shard_client_data_buffered() (pq_buffer_remaining_data() > 0)
#else
#define shard_client_data_buffered() pq_buffer_has_data()
#endif

/* Has another statement been run since the client's last Sync?  The first minor versions do not tell. */
#include "access/xact.h"
#ifdef XACT_FLAGS_PIPELINING
#define SHARD_XACT_IS_PIPELINED() ((MyXactFlags & XACT_FLAGS_PIPELINING) != 0)
#else
#define SHARD_XACT_IS_PIPELINED() true
#endif

/* 18 added reverse() for bytea and so renamed that of text */
#include "utils/fmgroids.h"
#ifndef F_REVERSE_TEXT
#define F_REVERSE_TEXT F_REVERSE
#endif

/* 16 moved the rights that a query needs out of the range table */
#include "executor/executor.h"
#include "parser/parse_node.h"
#if PG_VERSION_NUM >= 160000
#define SHARD_PERM_INFO(nsitem) ((nsitem)->p_perminfo)
#define shard_stmt_set_permissions(stmt, pstate) ((void) ((stmt)->permInfos = (pstate)->p_rteperminfos))
#else
#define SHARD_PERM_INFO(nsitem) ((nsitem)->p_rte)
#define shard_stmt_set_permissions(stmt, pstate) ((void) 0)
#endif

/* Error message when COPY of a file or program is denied; 16 moved the role to the detail. */
#if PG_VERSION_NUM >= 160000
#define SHARD_COPY_DENIED(role, what) \
	errmsg("permission denied to " what), \
	errdetail("Only roles with privileges of the \"%s\" role may " what ".", role)
#else
#define SHARD_COPY_DENIED(role, what) \
	errmsg("must be superuser or have privileges of the " role " role to " what)
#endif

/* 19 does not allow system columns in COPY ...  WHERE, where they have no value */
#if PG_VERSION_NUM >= 190000
#define SHARD_COPY_WHERE_SYSTEM_COLUMNS false
#else
#define SHARD_COPY_WHERE_SYSTEM_COLUMNS true
#endif

/* Number of header lines: 19 replaced the choice between none, one and "match" by a number. */
#include "commands/copy.h"
static inline int
shard_copy_header_lines(const CopyFormatOptions *opts)
{
#if PG_VERSION_NUM >= 190000
	return opts->header_line == COPY_HEADER_MATCH ? 1 : opts->header_line;
#else
	return opts->header_line == COPY_HEADER_FALSE ? 0 : 1;
#endif
}

/* Options of COPY FROM that core knows: ON_ERROR and LOG_VERBOSITY since 17, ON_ERROR set_null since 19. */
#if PG_VERSION_NUM >= 190000
#define SHARD_CORE_COPY_SET_NULL true
#else
#define SHARD_CORE_COPY_SET_NULL false
#endif

/* 19 has an enum for the format of COPY. */
#if PG_VERSION_NUM >= 190000
#define shard_copy_is_csv(opts) ((opts)->format == COPY_FORMAT_CSV)
#define shard_copy_is_binary(opts) ((opts)->format == COPY_FORMAT_BINARY)
#define shard_copy_is_json(opts) ((opts)->format == COPY_FORMAT_JSON)
#else
#define shard_copy_is_csv(opts) ((opts)->csv_mode)
#define shard_copy_is_binary(opts) ((opts)->binary)
#define shard_copy_is_json(opts) false
#endif

/* 19 computes the offsets of a complete descriptor */
#include "access/tupdesc.h"
#if PG_VERSION_NUM >= 190000
#define shard_finalize_tuple_desc(desc) TupleDescFinalize(desc)
#else
#define shard_finalize_tuple_desc(desc) ((void) (desc))
#endif

/* 16 added a way for input functions to report bad values without an error. */
#include "fmgr.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#define SHARD_SOFT_INPUT true
static inline bool
shard_input_call_safe(FmgrInfo *flinfo, char *text, Oid typioparam, int32 typmod, Datum *value)
{
	ErrorSaveContext escontext = {T_ErrorSaveContext};

	return InputFunctionCallSafe(flinfo, text, typioparam, typmod, (Node *) &escontext, value);
}
#else
#define SHARD_SOFT_INPUT false
static inline bool
shard_input_call_safe(FmgrInfo *flinfo, char *text, Oid typioparam, int32 typmod, Datum *value)
{
	*value = InputFunctionCall(flinfo, text, typioparam, typmod);
	return true;
}
#endif

/* All functions with a name; 19 also tells why there are none */
#include "catalog/namespace.h"
#if PG_VERSION_NUM >= 190000
static inline FuncCandidateList
shard_function_candidates(List *names)
{
	int			flags;

	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true, &flags);
}

static inline FuncCandidateList
shard_operator_candidates(List *names)
{
	int			flags;

	return OpernameGetCandidates(names, '\0', true, &flags);
}
#else
#define shard_function_candidates(names) FuncnameGetCandidates(names, -1, NIL, false, false, false, true)
#define shard_operator_candidates(names) OpernameGetCandidates(names, '\0', true)
#endif

/* 16 can leave out columns that are missing */
#if PG_VERSION_NUM >= 160000
#define shard_attrmap_by_name(indesc, outdesc) build_attrmap_by_name(indesc, outdesc, false)
#else
#define shard_attrmap_by_name(indesc, outdesc) build_attrmap_by_name(indesc, outdesc)
#endif

/* 16 has one function for the rights on all kinds of objects */
#include "utils/acl.h"
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "utils/syscache.h"
#define shard_function_aclcheck(funcid, roleid) object_aclcheck(ProcedureRelationId, funcid, roleid, ACL_EXECUTE)

/* object_ownercheck() raises an internal error if the object does not exist */
static inline bool
shard_object_ownercheck(Oid classid, int cacheid, int sqlstate, const char *kind, Oid object, Oid roleid)
{
	if (!SearchSysCacheExists1(cacheid, ObjectIdGetDatum(object)))
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("%s with OID %u does not exist", kind, object)));
	return object_ownercheck(classid, object, roleid);
}
#define shard_function_ownercheck(funcid, roleid) \
	shard_object_ownercheck(ProcedureRelationId, PROCOID, ERRCODE_UNDEFINED_FUNCTION, "function", funcid, roleid)
#define shard_class_ownercheck(relid, roleid) \
	shard_object_ownercheck(RelationRelationId, RELOID, ERRCODE_UNDEFINED_TABLE, "relation", relid, roleid)
#define shard_namespace_ownercheck(nspoid, roleid) \
	shard_object_ownercheck(NamespaceRelationId, NAMESPACEOID, ERRCODE_UNDEFINED_SCHEMA, "schema", nspoid, roleid)
#define shard_subscription_ownercheck(subid, roleid) \
	shard_object_ownercheck(SubscriptionRelationId, SUBSCRIPTIONOID, ERRCODE_UNDEFINED_OBJECT, "subscription", subid, roleid)
#define shard_namespace_aclcheck(nspoid, roleid, mode) object_aclcheck(NamespaceRelationId, nspoid, roleid, mode)
#define shard_database_aclcheck(dboid, roleid, mode) object_aclcheck(DatabaseRelationId, dboid, roleid, mode)
#else
#define shard_function_aclcheck(funcid, roleid) pg_proc_aclcheck(funcid, roleid, ACL_EXECUTE)
#define shard_function_ownercheck(funcid, roleid) pg_proc_ownercheck(funcid, roleid)
#define shard_class_ownercheck(relid, roleid) pg_class_ownercheck(relid, roleid)
#define shard_namespace_ownercheck(nspoid, roleid) pg_namespace_ownercheck(nspoid, roleid)
#define shard_subscription_ownercheck(subid, roleid) pg_subscription_ownercheck(subid, roleid)
#define shard_namespace_aclcheck(nspoid, roleid, mode) pg_namespace_aclcheck(nspoid, roleid, mode)
#define shard_database_aclcheck(dboid, roleid, mode) pg_database_aclcheck(dboid, roleid, mode)
#endif

/* Options of COPY FROM: 16 added DEFAULT, 19 ON_ERROR set_null. */
#if PG_VERSION_NUM >= 160000
#define shard_copy_default_print(opts) ((opts)->default_print)
#else
#define shard_copy_default_print(opts) ((const char *) NULL)
#endif
#if PG_VERSION_NUM >= 190000
#define shard_copy_sets_null(opts) ((opts)->on_error == COPY_ON_ERROR_SET_NULL)
#else
#define shard_copy_sets_null(opts) false
#endif

/* 19 also asks whether a constraint is volatile */
#include "utils/typcache.h"
#if PG_VERSION_NUM >= 190000
#define shard_domain_has_constraints(type) DomainHasConstraints(type, NULL)
#else
#define shard_domain_has_constraints(type) DomainHasConstraints(type)
#endif

/* Is the operator "<" or ">" of an ordering? 18 has its own type for the result. */
#include "utils/lsyscache.h"
static inline bool
shard_is_ordering_operator(Oid opno)
{
	Oid			opfamily;
	Oid			opcintype;
#if PG_VERSION_NUM >= 180000
	CompareType direction;
#else
	int16		direction;
#endif

	return get_ordering_op_properties(opno, &opfamily, &opcintype, &direction);
}

/* 19 added flags of slots */
#include "executor/tuptable.h"
#if PG_VERSION_NUM >= 190000
#define shard_make_tuple_slot(desc, ops) MakeTupleTableSlot(desc, ops, 0)
#else
#define shard_make_tuple_slot(desc, ops) MakeTupleTableSlot(desc, ops)
#endif

/* 16 moved the permissions of a query out of its range table */
#if PG_VERSION_NUM >= 160000
#define shard_query_forget_relations(query) ((query)->rteperminfos = NIL)
#else
#define shard_query_forget_relations(query) ((void) 0)
#endif

/* 18 added a range table entry for GROUP BY, to which the query's expressions refer */
#include "optimizer/optimizer.h"
#if PG_VERSION_NUM >= 180000
#define shard_flatten_group_exprs(query, node) \
	((query)->hasGroupRTE ? flatten_group_exprs(NULL, query, node) : (node))
#define shard_query_forget_groups(query) ((query)->hasGroupRTE = false)
#else
#define shard_flatten_group_exprs(query, node) (node)
#define shard_query_forget_groups(query) ((void) 0)
#endif

/*
 * Range table entries of a planned statement: 16 moved permissions out, 18 has entries for GROUP BY
 * and a set of those never pruned
 */
#if PG_VERSION_NUM >= 160000
static inline void
shard_stmt_add_permissions(PlannedStmt *stmt, Query *query, RangeTblEntry *rte)
{
	RTEPermissionInfo *from;
	RTEPermissionInfo *to;

	if (rte->perminfoindex == 0)
		return;
	from = getRTEPermissionInfo(query->rteperminfos, rte);
	rte->perminfoindex = 0;
	to = addRTEPermissionInfo(&stmt->permInfos, rte);
	memcpy(to, from, sizeof(RTEPermissionInfo));
}
static inline Oid
shard_rte_check_as_user(Query *query, RangeTblEntry *rte)
{
	return rte->perminfoindex == 0 ? InvalidOid :
		getRTEPermissionInfo(query->rteperminfos, rte)->checkAsUser;
}
#else
#define shard_stmt_add_permissions(stmt, query, rte) ((void) 0)
#define shard_rte_check_as_user(query, rte) ((rte)->checkAsUser)
#endif
#if PG_VERSION_NUM >= 180000
#define shard_rte_clear_group(rte) ((rte)->groupexprs = NIL)
#define shard_stmt_add_unprunable(stmt, rti) \
	((stmt)->unprunableRelids = bms_add_member((stmt)->unprunableRelids, rti))
#else
#define shard_rte_clear_group(rte) ((void) 0)
#define shard_stmt_add_unprunable(stmt, rti) ((void) 0)
#endif

/*
 * 17 moved the join condition of MERGE out of the join tree, which then contains the condition of a
 * view that is the target. 18 has the expressions of GROUP BY in a range table entry.
 */
#if PG_VERSION_NUM >= 170000
#define shard_query_merge_condition(query) (&(query)->mergeJoinCondition)
#define shard_merge_target(query) ((query)->mergeTargetRelation)
#define shard_merge_set_target(query, rtindex) ((query)->mergeTargetRelation = (query)->resultRelation = (rtindex))
#define shard_merge_view_condition(query) ((query)->jointree->quals)
#else
#define shard_query_merge_condition(query) ((Node **) NULL)
#define shard_merge_target(query) ((query)->resultRelation)
#define shard_merge_set_target(query, rtindex) ((query)->resultRelation = (rtindex))
#define shard_merge_view_condition(query) ((Node *) NULL)
#endif
#if PG_VERSION_NUM >= 180000
#define shard_rte_group_exprs(rte) ((rte)->rtekind == RTE_GROUP ? &(rte)->groupexprs : NULL)
#define SHARD_QTW_IGNORE_GROUPEXPRS QTW_IGNORE_GROUPEXPRS
#else
#define shard_rte_group_exprs(rte) ((List **) NULL)
#define SHARD_QTW_IGNORE_GROUPEXPRS 0
#endif

/* 17 added WHEN NOT MATCHED BY SOURCE to MERGE */
#if PG_VERSION_NUM >= 170000
#define shard_merge_not_by_source(action) ((action)->matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE)
#else
#define shard_merge_not_by_source(action) ((void) (action), false)
#endif

/*
 * Subcommands of ALTER TABLE and kinds of constraints that were added later; no statement contains
 * these numbers before.
 */
#include "catalog/pg_constraint.h"
#include "nodes/parsenodes.h"
#if PG_VERSION_NUM >= 170000
#define SHARD_PARTITIONED_IDENTITY true	/* partitioned tables may have identity columns */
#else
#define SHARD_PARTITIONED_IDENTITY false
#endif
#if PG_VERSION_NUM >= 170000
#define SHARD_AT_SET_EXPRESSION AT_SetExpression
#else
#define SHARD_AT_SET_EXPRESSION ((AlterTableType) 10001)
#endif
#if PG_VERSION_NUM >= 180000
#define SHARD_CONSTRAINT_NOTNULL CONSTRAINT_NOTNULL
#define SHARD_CONSTR_ATTR_ENFORCED CONSTR_ATTR_ENFORCED
#define SHARD_CONSTR_ATTR_NOT_ENFORCED CONSTR_ATTR_NOT_ENFORCED
#define shard_constraint_not_enforced(constraint) (!(constraint)->is_enforced)
#define shard_constraint_set_not_enforced(constraint) ((constraint)->is_enforced = false)
#define shard_constraint_without_overlaps(constraint) ((constraint)->without_overlaps)
#define shard_constraint_with_period(constraint) ((constraint)->fk_with_period)
#else
#define SHARD_CONSTRAINT_NOTNULL 'n'
#define SHARD_CONSTR_ATTR_ENFORCED 10001
#define SHARD_CONSTR_ATTR_NOT_ENFORCED 10002
#define shard_constraint_not_enforced(constraint) false
#define shard_constraint_set_not_enforced(constraint) ((void) 0)
#define shard_constraint_without_overlaps(constraint) false
#define shard_constraint_with_period(constraint) false
#endif

/* Since 19 strings always conform to the standard, and the variable was removed. */
#if PG_VERSION_NUM >= 190000
#define standard_conforming_strings true
#endif

/* 17 added the privilege MAINTAIN */
#if PG_VERSION_NUM >= 170000
#define shard_may_maintain(relid, roleid) (pg_class_aclcheck(relid, roleid, ACL_MAINTAIN) == ACLCHECK_OK)
#define SHARD_OR_MAINTAIN(option) ", MAINTAIN" option
#else
#define shard_may_maintain(relid, roleid) shard_class_ownercheck(relid, roleid)
#define SHARD_OR_MAINTAIN(option) ""
#endif

/* 17 allows a missing statistics target: the default */
#if PG_VERSION_NUM >= 170000
#define shard_stats_target(stmt) ((stmt)->stxstattarget ? intVal((stmt)->stxstattarget) : -1)
#else
#define shard_stats_target(stmt) ((stmt)->stxstattarget)
#endif

/* 19 made CLUSTER a form of REPACK, which VACUUM FULL is, too */
#if PG_VERSION_NUM >= 190000
#define SHARD_T_CLUSTER_STMT T_RepackStmt
#define shard_cluster_relation(stmt) \
	(castNode(RepackStmt, stmt)->relation ? castNode(RepackStmt, stmt)->relation->relation : NULL)
#define shard_cluster_index(stmt) (castNode(RepackStmt, stmt)->indexname)
#define shard_cluster_params(stmt) (castNode(RepackStmt, stmt)->params)
#define shard_cluster_is_cluster(stmt) (castNode(RepackStmt, stmt)->command == REPACK_COMMAND_CLUSTER)
#else
#define SHARD_T_CLUSTER_STMT T_ClusterStmt
#define shard_cluster_relation(stmt) (castNode(ClusterStmt, stmt)->relation)
#define shard_cluster_index(stmt) (castNode(ClusterStmt, stmt)->indexname)
#define shard_cluster_params(stmt) (castNode(ClusterStmt, stmt)->params)
#define shard_cluster_is_cluster(stmt) ((void) (stmt), true)
#endif

/* Columns of pg_database: 16 added ICU rules, 17 renamed the locale, which now is for all providers */
#include "catalog/pg_database.h"
#if PG_VERSION_NUM >= 170000
#define SHARD_ANUM_DATABASE_LOCALE Anum_pg_database_datlocale
#else
#define SHARD_ANUM_DATABASE_LOCALE Anum_pg_database_daticulocale
#endif
#if PG_VERSION_NUM >= 160000
#define SHARD_ANUM_DATABASE_RULES Anum_pg_database_daticurules
#else
#define SHARD_ANUM_DATABASE_RULES InvalidAttrNumber
#endif

/* 18 stores a path key's direction as a comparison type; for btree it equals the strategy */
#include "nodes/pathnodes.h"
#if PG_VERSION_NUM >= 180000
#define shard_pathkey_strategy(pathkey) ((pathkey)->pk_cmptype == COMPARE_LT ? BTLessStrategyNumber : BTGreaterStrategyNumber)
#else
#define shard_pathkey_strategy(pathkey) ((pathkey)->pk_strategy)
#endif
#include "access/stratnum.h"

/*
 * Iterates over the members of an equivalence class for relids, including those of child tables,
 * which 18 keeps elsewhere.
 */
#if PG_VERSION_NUM < 180000
typedef struct EquivalenceMemberIterator
{
	List	   *members;
	int			next;
} EquivalenceMemberIterator;

static inline void
setup_eclass_member_iterator(EquivalenceMemberIterator *it, EquivalenceClass *ec, Relids relids)
{
	it->members = ec->ec_members;
	it->next = 0;
}

static inline EquivalenceMember *
eclass_member_iterator_next(EquivalenceMemberIterator *it)
{
	if (it->next >= list_length(it->members))
		return NULL;
	return (EquivalenceMember *) list_nth(it->members, it->next++);
}
#endif

/* SQL/JSON expressions, added by 16 and 17.  Cases of a switch over node tags. */
#if PG_VERSION_NUM >= 170000
#define SHARD_JSON_VALUES \
	case T_JsonValueExpr: \
	case T_JsonConstructorExpr: \
	case T_JsonIsPredicate: \
	case T_JsonExpr: \
	case T_JsonBehavior:
#define shard_is_sql_json(node) \
	(IsA(node, JsonValueExpr) || IsA(node, JsonConstructorExpr) || IsA(node, JsonIsPredicate) || IsA(node, JsonExpr))
#elif PG_VERSION_NUM >= 160000
#define SHARD_JSON_VALUES \
	case T_JsonValueExpr: \
	case T_JsonConstructorExpr: \
	case T_JsonIsPredicate:
#define shard_is_sql_json(node) \
	(IsA(node, JsonValueExpr) || IsA(node, JsonConstructorExpr) || IsA(node, JsonIsPredicate))
#else
#define SHARD_JSON_VALUES
#define shard_is_sql_json(node) false
#endif

/* 17 moved the join condition of MERGE out of the jointree */
#if PG_VERSION_NUM >= 170000
#define shard_merge_condition(query) ((query)->mergeJoinCondition)
#define shard_merge_set_condition(query, condition) ((query)->mergeJoinCondition = (condition))
#else
#define shard_merge_condition(query) ((query)->jointree->quals)
#define shard_merge_set_condition(query, condition) ((query)->jointree->quals = (condition))
#endif

/* 17 added WHEN NOT MATCHED BY SOURCE, and RETURNING with merge_action() */
#if PG_VERSION_NUM >= 170000
#define shard_merge_is_by_source(action) ((action)->matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE)
#define shard_is_merge_action(node) IsA(node, MergeSupportFunc)
#else
#define shard_merge_is_by_source(action) false
#define shard_is_merge_action(node) false
#endif

/* 18 added the old and the new row to RETURNING */
#if PG_VERSION_NUM >= 180000
#define shard_is_returning_expr(node) IsA(node, ReturningExpr)
#define shard_var_is_plain(var) ((var)->varreturningtype == VAR_RETURNING_DEFAULT)
#define shard_var_is_old(var) ((var)->varreturningtype == VAR_RETURNING_OLD)
#define shard_query_copy_returning_names(to, from) \
	((to)->returningOldAlias = (from)->returningOldAlias, \
	 (to)->returningNewAlias = (from)->returningNewAlias)
#else
#define shard_is_returning_expr(node) false
#define shard_var_is_plain(var) true
#define shard_var_is_old(var) ((void) (var), false)
#define shard_query_copy_returning_names(to, from) ((void) 0)
#endif

/* planner(); 19 added the ExplainState. text: the string to which stmt_location and stmt_len of the query refer */
#if PG_VERSION_NUM >= 190000
#define shard_plan_query(query, text, cursor_options, params) planner(query, text, cursor_options, params, NULL)
#else
#define shard_plan_query(query, text, cursor_options, params) planner(query, text, cursor_options, params)
#endif

/* 16 added this function, which raises an error for NULL */
#if PG_VERSION_NUM < 160000
#include "utils/syscache.h"
#define SysCacheGetAttrNotNull(cache, tuple, attno) \
	SysCacheGetAttr(cache, tuple, attno, &(bool) {false})
#endif

/* 19 renamed it, since it added DO SELECT */
#if PG_VERSION_NUM >= 190000
typedef OnConflictActionState ShardConflictState;
#else
typedef OnConflictSetState ShardConflictState;
#endif

/* BEFORE UPDATE triggers of a row of a foreign table: 16 added the result, 18 whether it is MERGE */
static inline bool
shard_br_update_triggers(EState *estate, EPQState *epqstate, ResultRelInfo *rinfo, HeapTuple old,
						 TupleTableSlot *slot)
{
	TM_FailureData tmfd;

#if PG_VERSION_NUM >= 180000
	return ExecBRUpdateTriggers(estate, epqstate, rinfo, NULL, old, slot, NULL, &tmfd, false);
#elif PG_VERSION_NUM >= 160000
	return ExecBRUpdateTriggers(estate, epqstate, rinfo, NULL, old, slot, NULL, &tmfd);
#else
	return ExecBRUpdateTriggers(estate, epqstate, rinfo, NULL, old, slot, &tmfd);
#endif
}

/* Names of wait events, since 17 */
#if PG_VERSION_NUM >= 170000
#define shard_wait_event_new(name) WaitEventExtensionNew(name)
#else
#define shard_wait_event_new(name) PG_WAIT_EXTENSION
#endif

/* ExecutorRun_hook, see above: 18 runs each statement once */
#if PG_VERSION_NUM >= 180000
#define SHARD_EXECUTOR_RUN_ENTRY(entry, function) \
	static void \
	entry(QueryDesc *desc, ScanDirection direction, uint64 count) \
	{ \
		function(desc, direction, count, true); \
	}
#define shard_call_executor_run(hook, desc, direction, count, once) \
	((void) (once), (hook) (desc, direction, count))
#else
#define SHARD_EXECUTOR_RUN_ENTRY(entry, function) \
	static void \
	entry(QueryDesc *desc, ScanDirection direction, uint64 count, bool once) \
	{ \
		function(desc, direction, count, once); \
	}
#define shard_call_executor_run(hook, desc, direction, count, once) \
	((hook) (desc, direction, count, once))
#endif

/* The permissions that a statement requires, and ExecutorCheckPerms_hook: 16 moved them out of the range table */
#if PG_VERSION_NUM >= 160000
typedef RTEPermissionInfo ShardPermissions;
#define SHARD_CHECK_PERMS_ENTRY(entry, function) \
	static bool \
	entry(List *range_table, List *permissions, bool raise) \
	{ \
		return function(range_table, permissions, raise); \
	}
#define shard_call_check_perms(hook, range_table, permissions, raise) \
	((hook) (range_table, permissions, raise))
#define shard_estate_permissions(estate) ((estate)->es_rteperminfos)
#define shard_rte_required_perms(stmt, rte) \
	((rte)->perminfoindex == 0 ? 0 : getRTEPermissionInfo((stmt)->permInfos, rte)->requiredPerms)
#else
typedef RangeTblEntry ShardPermissions;
#define SHARD_CHECK_PERMS_ENTRY(entry, function) \
	static bool \
	entry(List *range_table, bool raise) \
	{ \
		return function(range_table, range_table, raise); \
	}
#define shard_call_check_perms(hook, range_table, permissions, raise) \
	((hook) (range_table, raise))
#define shard_estate_permissions(estate) ((estate)->es_range_table)
#define shard_rte_required_perms(stmt, rte) ((rte)->requiredPerms)
#endif

/* Replication origin of a commit: 19 has it in one struct, with a function that clears it */
#if PG_VERSION_NUM < 190000
static inline void
replorigin_xact_clear(bool clear_origin)
{
	replorigin_session_origin_lsn = InvalidXLogRecPtr;
	replorigin_session_origin_timestamp = 0;
	if (clear_origin)
		replorigin_session_origin = InvalidRepOriginId;
}
#endif

/* 16 added a separate right for SET ROLE */
#if PG_VERSION_NUM < 160000
#define member_can_set_role(member, role) is_member_of_role(member, role)
#endif

/*
 * Connection of a subscription, and whether it retains dead rows: 19 added subscriptions to a
 * server, and the second
 */
#include "catalog/pg_subscription.h"
#if PG_VERSION_NUM >= 190000
#define shard_subscription_conninfo(subid) SubscriptionConninfo(GetSubscription(subid, false))
#define shard_subscription_retains(form) ((form)->subretaindeadtuples)
#else
#define shard_subscription_retains(form) false
#define shard_subscription_conninfo(subid) (GetSubscription(subid, false)->conninfo)
#endif

/*
 * The minors of November 2026 check that a row in conflict is visible through the view
 * (WCO_VIEW_CONFLICT_CHECK, the last member of WCOKind).  Older minors do not have this member, and
 * the preprocessor cannot test for it, so its number is used.  In older minors core creates no
 * check of this kind.
 */
#define SHARD_WCO_VIEW_CONFLICT_CHECK ((WCOKind) (WCO_RLS_MERGE_DELETE_CHECK + 1))

/* The query that replaces a function in FROM: 19 renamed it */
#if PG_VERSION_NUM < 190000
#define inline_function_in_from(root, rte) inline_set_returning_function(root, rte)
#endif

/* Loops that declare their variable, since 17, with foreach_current_index(var) and foreach_delete_current(list, var) */
#if PG_VERSION_NUM < 170000
#undef foreach_delete_current
#define foreach_delete_current(lst, var_or_cell) \
	((List *) (var_or_cell##__state.l = list_delete_nth_cell(lst, var_or_cell##__state.i--)))
#define SHARD_FOREACH(type, var, lst, get) \
	for (ForEachState var##__state = {(lst), 0}; var##__state.i >= 0; var##__state.i = -1) \
		for (type var; var##__state.i < list_length(var##__state.l) && \
			 (var = get(list_nth_cell(var##__state.l, var##__state.i)), true); var##__state.i++)
#define foreach_ptr(type, var, lst) SHARD_FOREACH(type *, var, lst, lfirst)
#define foreach_oid(var, lst) SHARD_FOREACH(Oid, var, lst, lfirst_oid)
#define foreach_int(var, lst) SHARD_FOREACH(int, var, lst, lfirst_int)
#define SHARD_FOREACH_NODE(type, var, lst) \
	for (ForEachState var##__state = {(lst), 0}; var##__state.i >= 0; var##__state.i = -1) \
		for (type *var; var##__state.i < list_length(var##__state.l) && \
			 (var = lfirst_node(type, list_nth_cell(var##__state.l, var##__state.i)), true); var##__state.i++)
#define foreach_node(type, var, lst) SHARD_FOREACH_NODE(type, var, lst)
#endif

#endif
