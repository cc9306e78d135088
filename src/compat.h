/*
 * compat.h
 *	  The differences between PostgreSQL 15 and 19, in one place.
 *
 * The rest of the code is written against the newest signatures; older majors
 * get them here.  No other file tests PG_VERSION_NUM.
 */
#ifndef SHARDFDW_COMPAT_H
#define SHARDFDW_COMPAT_H

#include "postgres.h"

#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "shardfdw needs PostgreSQL 15 to 19"
#endif

/* 16 moved the varlena macros out of postgres.h */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 18 split the EXPLAIN headers */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "tcop/dest.h"
#include "commands/explain.h"

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

/* 18 left out the symbol of pg_catalog."POSIX" */
#if PG_VERSION_NUM >= 180000
#define POSIX_COLLATION_OID 951
#endif

/*
 * The outer side of JOIN_UNIQUE_OUTER made unique: 19 hands over a relation that
 * is so already.
 */
#if PG_VERSION_NUM >= 190000
#define shard_create_unique_path(root, rel, path, sjinfo) (path)
#else
#define shard_create_unique_path(root, rel, path, sjinfo) \
	((Path *) create_unique_path(root, rel, path, sjinfo))
#endif

/* 18 counts the nodes of a path that are switched off */
#if PG_VERSION_NUM >= 180000
#define shard_path_disabled_nodes(path, outer, inner) \
	((path)->disabled_nodes = (outer)->disabled_nodes + (inner)->disabled_nodes)
#else
#define shard_path_disabled_nodes(path, outer, inner) ((void) 0)
#endif

/* 16 gives the grouping clause as planned */
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

/* 19 gave the name to the path that drops duplicates from sorted rows */
#if PG_VERSION_NUM >= 190000
#define shard_create_upper_unique_path(root, rel, path, ncols, ngroups) \
	create_unique_path(root, rel, path, ncols, ngroups)
#else
#define shard_create_upper_unique_path(root, rel, path, ncols, ngroups) \
	create_upper_unique_path(root, rel, path, ncols, ngroups)
#endif

/*
 * Conditions that windows check while they run, and that are not checked above
 * them any more: 17 moved them from the windows to the functions.  Result:
 * expressions over WindowFuncs.
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
 * Result type of sum/avg(interval)'s transition: internal from 17 on, so that
 * its partial state has to be built.
 */
#if PG_VERSION_NUM >= 170000
#define SHARD_INTERVAL_STATE_INTERNAL 1
#else
#define SHARD_INTERVAL_STATE_INTERNAL 0
#endif

/*
 * 19 writes the sum in the serialized state of sum/avg(bigint) as an integer of
 * 128 bits instead of a numeric.
 */
#if PG_VERSION_NUM >= 190000
#define SHARD_INT8_STATE_INT128 1
#else
#define SHARD_INT8_STATE_INT128 0
#endif

/* Executor flags under which parameters have no values: EXPLAIN (GENERIC_PLAN), 16 and later. */
#include "executor/executor.h"
#ifdef EXEC_FLAG_EXPLAIN_GENERIC
#define SHARD_EXEC_FLAG_NO_PARAMS EXEC_FLAG_EXPLAIN_GENERIC
#else
#define SHARD_EXEC_FLAG_NO_PARAMS 0
#endif

/* 17 gave wait event sets a resource owner in place of a memory context; ours are freed by hand */
#include "storage/latch.h"
#if PG_VERSION_NUM >= 170000
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(NULL, nevents)
#else
#include "utils/memutils.h"
#define shard_create_wait_event_set(nevents) CreateWaitEventSet(TopMemoryContext, nevents)
#endif

/* 16 renamed it: status of a backend, by its place in the list of this transaction */
#if PG_VERSION_NUM >= 160000
#define shard_local_beentry(n) pgstat_get_local_beentry_by_index(n)
#else
#define shard_local_beentry(n) pgstat_fetch_stat_local_beentry(n)
#endif

/* 19 gave the identifiers of system caches a type */
#if PG_VERSION_NUM < 190000
typedef int SysCacheIdentifier;
#else
#include "utils/syscache.h"
#endif

/*
 * User whose rights a result relation's changes have; partitions that rows are
 * routed to follow the table named in the statement.  16 moved it likewise.
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

/*
 * Planner hooks.  19 hands the ExplainState to planner_hook, and replaced
 * get_relation_info_hook by one at the end of build_simple_rel().
 */
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#if PG_VERSION_NUM >= 190000
#define SHARD_PLANNER_HOOK_PARAMS Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo bound_params, ExplainState *es
#define SHARD_PLANNER_HOOK_ARGS parse, query_string, cursor_options, bound_params, es
#define SHARD_SIMPLE_REL_HOOK build_simple_rel_hook
#define SHARD_SIMPLE_REL_HOOK_PARAMS PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *hook_rte
#define SHARD_SIMPLE_REL_HOOK_ARGS root, rel, hook_rte
typedef build_simple_rel_hook_type shard_simple_rel_hook_type;
#else
#define SHARD_PLANNER_HOOK_PARAMS Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo bound_params
#define SHARD_PLANNER_HOOK_ARGS parse, query_string, cursor_options, bound_params
#define SHARD_SIMPLE_REL_HOOK get_relation_info_hook
#define SHARD_SIMPLE_REL_HOOK_PARAMS PlannerInfo *root, Oid hook_relid, bool hook_inh, RelOptInfo *rel
#define SHARD_SIMPLE_REL_HOOK_ARGS root, hook_relid, hook_inh, rel
typedef get_relation_info_hook_type shard_simple_rel_hook_type;
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

/* 16 notes on each Var which outer joins can make it NULL */
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
#else
#define shard_is_result_relation(stmt, rti) list_member_int((stmt)->resultRelations, rti)
#endif

/* 17 says how much of what the client sent waits in the buffer, older ones only whether */
#include "client.h"
#if PG_VERSION_NUM >= 170000
#define shard_client_data_buffered() (pq_buffer_remaining_data() > 0)
#else
#define shard_client_data_buffered() pq_buffer_has_data()
#endif

/* 16 moved the rights that a query needs out of the range table */
#include "executor/executor.h"
#include "parser/parse_node.h"
#if PG_VERSION_NUM >= 160000
#define SHARD_PERM_INFO(nsitem) ((nsitem)->p_perminfo)
#define shard_check_permissions(pstate) \
	((void) ExecCheckPermissions((pstate)->p_rtable, (pstate)->p_rteperminfos, true))
#else
#define SHARD_PERM_INFO(nsitem) ((nsitem)->p_rte)
#define shard_check_permissions(pstate) ((void) ExecCheckRTPerms((pstate)->p_rtable, true))
#endif

/* What COPY of a file or program says to those without the role; 16 moved the role to the detail. */
#if PG_VERSION_NUM >= 160000
#define SHARD_COPY_DENIED(role, what) \
	errmsg("permission denied to " what), \
	errdetail("Only roles with privileges of the \"%s\" role may " what ".", role)
#else
#define SHARD_COPY_DENIED(role, what) \
	errmsg("must be superuser or have privileges of the " role " role to " what)
#endif

/* 19 refuses system columns in COPY ... WHERE, where they have no value */
#if PG_VERSION_NUM >= 190000
#define SHARD_COPY_WHERE_SYSTEM_COLUMNS false
#else
#define SHARD_COPY_WHERE_SYSTEM_COLUMNS true
#endif

/* Lines of a header: 19 made the choice between none, one and "match" a number. */
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

/* Options of COPY FROM that core knows: ON_ERROR and LOG_VERBOSITY from 17 on, ON_ERROR set_null from 19 on. */
#if PG_VERSION_NUM >= 190000
#define SHARD_CORE_COPY_SET_NULL true
#else
#define SHARD_CORE_COPY_SET_NULL false
#endif

/* 19 named the format of COPY by an enum. */
#if PG_VERSION_NUM >= 190000
#define shard_copy_is_csv(opts) ((opts)->format == COPY_FORMAT_CSV)
#define shard_copy_is_binary(opts) ((opts)->format == COPY_FORMAT_BINARY)
#define shard_copy_is_json(opts) ((opts)->format == COPY_FORMAT_JSON)
#else
#define shard_copy_is_csv(opts) ((opts)->csv_mode)
#define shard_copy_is_binary(opts) ((opts)->binary)
#define shard_copy_is_json(opts) false
#endif

/* 19 computes a descriptor's offsets when it is complete */
#include "access/tupdesc.h"
#if PG_VERSION_NUM >= 190000
#define shard_finalize_tuple_desc(desc) TupleDescFinalize(desc)
#else
#define shard_finalize_tuple_desc(desc) ((void) (desc))
#endif

/* 16 gave input functions a way to report bad values without raising. */
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

/* All functions of a name; 19 also tells why there are none */
#include "catalog/namespace.h"
#if PG_VERSION_NUM >= 190000
static inline FuncCandidateList
shard_function_candidates(List *names)
{
	int			flags;

	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true, &flags);
}
#else
#define shard_function_candidates(names) FuncnameGetCandidates(names, -1, NIL, false, false, false, true)
#endif

/* 16 has one function for the rights on all kinds of objects */
#include "utils/acl.h"
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#define shard_function_aclcheck(funcid, roleid) object_aclcheck(ProcedureRelationId, funcid, roleid, ACL_EXECUTE)
#define shard_function_ownercheck(funcid, roleid) object_ownercheck(ProcedureRelationId, funcid, roleid)
#define shard_namespace_ownercheck(nspoid, roleid) object_ownercheck(NamespaceRelationId, nspoid, roleid)
#else
#define shard_function_aclcheck(funcid, roleid) pg_proc_aclcheck(funcid, roleid, ACL_EXECUTE)
#define shard_function_ownercheck(funcid, roleid) pg_proc_ownercheck(funcid, roleid)
#define shard_namespace_ownercheck(nspoid, roleid) pg_namespace_ownercheck(nspoid, roleid)
#endif

/* Options of COPY FROM: 16 brought DEFAULT, 19 ON_ERROR set_null. */
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

/* Is the operator "<" or ">" of an ordering?  18 tells which by a type of its own. */
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

/* 19 lets slots have flags of their own */
#include "executor/tuptable.h"
#if PG_VERSION_NUM >= 190000
#define shard_make_tuple_slot(desc, ops) MakeTupleTableSlot(desc, ops, 0)
#else
#define shard_make_tuple_slot(desc, ops) MakeTupleTableSlot(desc, ops)
#endif

#endif
