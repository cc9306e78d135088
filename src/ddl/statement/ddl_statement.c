/*
 * ddl_statement.c
 *	  Handles statements that change the definitions of sharded and reference tables.
 *
 *	  statement --> which tables on nodes follow? --none--> core
 *		  |
 *		statements that cannot be run on both sides are refused
 *		  |
 *		core changes the coordinator's side (and its foreign tables, by recursion)
 *		  |
 *		commands made from the catalogs --> nodes, in the same transaction
 *		  |
 *		event triggers of users
 *
 * ddl_rest.c explains the order of the last two steps.
 *
 * No change is made on one side only: an error of a node fails the statement.  Transactions of the nodes commit, or
 * roll back to a savepoint, together with the local transaction.
 *
 * Other coordinators of the same nodes run the statement too (ddl/peer/), before the nodes.
 *
 * If a statement began before this session loaded the library (ddl_late.c), the event trigger for ddl_command_start asks
 * whether tables on nodes follow.  If so, the statement is refused: the next attempt goes through the hook.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/option.h"
#include "commands/event_trigger.h"
#include "compat.h"
#include "ddl/ddl_late.h"
#include "ddl/ddl_rest.h"
#include "ddl/marker.h"
#include "ddl/peer/peer_follow.h"
#include "ddl/peer/peer_send.h"
#include "ddl/peer/peer_sequence.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_drop.h"
#include "ddl/statement/ddl_home.h"
#include "ddl/statement/ddl_statement.h"
#include "flush_commit.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/inval.h"
#include "version.h"

PG_FUNCTION_INFO_V1(shardfdw_check_loaded);

/* Returns true if it has run the statement.  Otherwise core must run it unchanged. */
static bool
take_over(ShardDdlCall *call)
{
	check_stack_depth();
	switch (nodeTag(call->pstmt->utilityStmt))
	{
		case T_CreateStmt:
			return shard_ddl_create_table(call) || shard_ddl_add_partition(call);
		case T_CreateForeignTableStmt:
			return shard_ddl_add_partition(call);
		case T_CreateTableAsStmt:
			return shard_ddl_create_table_as(call);
		case T_ExplainStmt:
			return shard_ddl_explain(call);
		case T_AlterTableStmt:
			return shard_ddl_alter_type(call) || shard_ddl_alter_table(call) || shard_ddl_add_partition(call);
		case T_IndexStmt:
			return shard_ddl_create_index(call);
		case T_AlterObjectSchemaStmt:
			return shard_ddl_alter_type(call) || shard_ddl_set_schema(call);
		case T_CommentStmt:
			return shard_ddl_comment(call);
		case T_GrantStmt:
			return shard_ddl_grant(call);
		case T_LockStmt:
			return shard_ddl_lock(call);
		case T_TruncateStmt:
			return shard_ddl_truncate(call);
		case T_ConstraintsSetStmt:
			return shard_ddl_set_constraints(call);
		case T_CreateTrigStmt:
			return shard_ddl_create_trigger(call);
		case T_CreatePublicationStmt:
		case T_AlterPublicationStmt:
			return shard_ddl_publication(call);
		case T_CreateStatsStmt:
			return shard_ddl_create_statistics(call);
		case T_AlterStatsStmt:
			return shard_ddl_alter_statistics(call);
		case T_VacuumStmt:
			return shard_ddl_vacuum(call);
		case T_ReindexStmt:
			return shard_ddl_reindex(call);
		case SHARD_T_CLUSTER_STMT:
			return shard_ddl_cluster(call);
		case T_RenameStmt:
			return shard_ddl_alter_type(call) || shard_ddl_rename(call);
		case T_AlterEnumStmt:
		case T_AlterDomainStmt:
			return shard_ddl_alter_type(call);
		case T_DropStmt:
			return shard_ddl_drop(call);
		case T_DropOwnedStmt:
			return shard_ddl_drop_collected(call);
		default:
			return false;
	}
}

void
shard_ddl_prepare(Node *stmt)
{
	/*
	 * Names are looked up before locks are taken.  The caches of this session may be older than a rename.  Core looks
	 * up the name again when it locks the table, and would then find another table.
	 */
	AcceptInvalidationMessages();
	shard_ddl_check_own_schema(stmt);
	if (IsA(stmt, RenameStmt) && castNode(RenameStmt, stmt)->renameType == OBJECT_FOREIGN_SERVER)
		shard_ddl_replica_rename_server(get_foreign_server_oid(strVal(castNode(RenameStmt, stmt)->object), true), castNode(RenameStmt, stmt)->newname);
	if (!RecoveryInProgress() && OidIsValid(shard_option_cluster_server()))
	{
		shard_schema_lock_statement(stmt);
		shard_ddl_home_check_maker(stmt);
		if (shard_guc_enable_ddl_propagation)
			shard_ddl_home_check(stmt);
	}
}

/* Does core run a CREATE SCHEMA now, and no statement within it yet? */
static bool in_create_schema = false;

/* State of a statement that must be cleaned up when it ends, also after an error. */
typedef struct Running
{
	bool		was_in_create_schema;
	bool		is_whole;		/* not a part of another statement: the rest is set */
	ShardPeerStatement sent;
	ShardDdlRestOuter outer;
	const char *refused;
} Running;

/* Runs the statement on this coordinator and on the nodes. */
static void
run_both_sides(ShardDdlCall *call)
{
	if (!shard_guc_enable_ddl_propagation || RecoveryInProgress() || !take_over(call))
		shard_ddl_run_core(call);
}

/* Runs the statement on this coordinator, on the nodes and on the other coordinators. */
static void
run_whole(ShardDdlCall *call, Running *running)
{
	shard_peer_begin(&running->sent, call);
	running->refused = shard_ddl_table_refuse_replicas(shard_ddl_replica_refusal(call->pstmt->utilityStmt));
	running->outer = shard_ddl_rest_suspend(shard_peer_before_nodes, &running->sent);
	shard_ddl_late_begin_seen();
	running->is_whole = true;
	run_both_sides(call);
	shard_peer_finish(&running->sent);
	if (shard_guc_follows_coordinator)
		shard_peer_share_sequences(call->pstmt->utilityStmt);
}

/* The statement as a session that follows another coordinator runs it. */
static void
run_follower(const ShardDdlCall *call, Running *running)
{
	ShardDdlCall follower = *call;

	follower.pstmt = copyObject(call->pstmt);
	follower.pstmt->utilityStmt = shard_peer_follower_statement(call->pstmt->utilityStmt);
	follower.read_only_tree = false;
	run_whole(&follower, running);
	/* a caller that uses SPI reads the row count; this coordinator makes no rows */
	if (IsA(follower.pstmt->utilityStmt, CreateTableAsStmt) && call->qc != NULL)
		SetQueryCompletion(call->qc, CMDTAG_SELECT, 0);
}

static void
end(const Running *running)
{
	in_create_schema = running->was_in_create_schema;
	if (!running->is_whole)
		return;
	shard_ddl_late_end_seen();
	shard_ddl_rest_resume(running->outer);
	shard_peer_end(&running->sent);
	(void) shard_ddl_table_refuse_replicas(running->refused);
}

void
shard_ddl_run(ShardDdlCall *call)
{
	bool		is_part = call->context == PROCESS_UTILITY_SUBCOMMAND;
	Running		running = {in_create_schema};

	shard_ddl_prepare(call->pstmt->utilityStmt);
	in_create_schema = IsA(call->pstmt->utilityStmt, CreateSchemaStmt);
	PG_TRY();
	{
		/*
		 * A sub-command that core runs for another statement is part of that statement.  An element of CREATE SCHEMA
		 * is a statement of the user.  The other coordinators run it as part of their CREATE SCHEMA.  In recovery
		 * core refuses all changes.
		 */
		if (is_part && running.was_in_create_schema)
			run_both_sides(call);
		else if (is_part)
			shard_ddl_run_core(call);
		else if (shard_guc_follows_coordinator)
			run_follower(call, &running);
		else
			run_whole(call, &running);
	}
	PG_FINALLY();
	{
		end(&running);
	}
	PG_END_TRY();
}

/* ---------- statements that the hook has not seen ---------- */

/* Raises an error if tables on nodes have to follow a statement that core already runs.  Collects what DROP will drop. */
static void
refuse_if_followed(Node *stmt)
{
	ShardDdlCall call = {.pstmt = makeNode(PlannedStmt), .query_string = "", .context = PROCESS_UTILITY_TOPLEVEL, .is_late = true};
	ShardNewPartition added;

	call.pstmt->commandType = CMD_UTILITY;
	call.pstmt->utilityStmt = copyObject(stmt);
	/* the error rolls back the hiding of keys, and what has been sent to nodes */
	if ((take_over(&call) || shard_marker_begin(call.pstmt->utilityStmt, &added)) && !IsA(stmt, DropStmt) && !IsA(stmt, DropOwnedStmt))
		shard_ddl_refuse_late(&call);
}

/* The event trigger for ddl_command_start: does what the hook does before every statement. */
Datum
shardfdw_check_loaded(PG_FUNCTION_ARGS)
{
	Node	   *stmt;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called by an event trigger", "shardfdw_internal.check_loaded()")));
	/* pg_upgrade makes objects that the nodes already have */
	if (!shard_ddl_late_is() || IsBinaryUpgrade || RecoveryInProgress())
		PG_RETURN_NULL();
	shard_flush_commit_force(); /* the hook does so for other statements */
	stmt = (Node *) ((EventTriggerData *) fcinfo->context)->parsetree;
	shard_version_check_statement(stmt);
	shard_ddl_prepare(stmt);
	if (shard_peer_would_send(stmt))
		shard_ddl_late_refuse("It would have changed this coordinator, and not the others.");
	if (shard_guc_enable_ddl_propagation && OidIsValid(shard_option_cluster_server()))
		refuse_if_followed(stmt);
	PG_RETURN_NULL();
}
