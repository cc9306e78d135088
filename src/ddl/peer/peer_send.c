/*
 * peer_send.c
 *	  Sends changes of definitions to the other coordinators of the same nodes.
 *
 *	  statement --> coordinators whose names come first --> this one --> the other coordinators --> the nodes
 *
 * The coordinators run a statement one after the other, in the order of their names.  So two statements that change
 * the same table wait for each other on the first coordinator, and cannot deadlock.  The nodes come last, since a
 * reader locks the table on its coordinator before it reads from a node.  All changes are one transaction, which is
 * prepared everywhere and decided on this coordinator.  The nodes commit before the coordinators
 * (remote/xact/twophase.c), so no session looks for a table that a node does not have yet.
 *
 * A coordinator gets the text of the statement, the role, search_path and other settings. peer_apply.c runs the
 * statement there as on this coordinator, but without the nodes.  Only this coordinator sends to the nodes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/node_list.h"
#include "commands/extension.h"
#include "commands/lockcmds.h"
#include "compat.h"
#include "ddl/peer/peer_follow.h"
#include "ddl/peer/peer_send.h"
#include "ddl/peer/peer_sequence.h"
#include "guc.h"
#include "identity.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/guc.h"

/* Settings on which the meaning of a statement depends. */
static const char *const settings[] = {
	"search_path", "shardfdw.enable_ddl_propagation", "check_function_bodies", "standard_conforming_strings", "backslash_quote",
	"transform_null_equals", "array_nulls", "datestyle", "intervalstyle", "timezone", "timezone_abbreviations", "xmloption",
	"lc_monetary", "default_tablespace", "default_table_access_method", "default_toast_compression", "default_text_search_config",
	"row_security", "lock_timeout"
};

/* The current statement, if the other coordinators run it too; else NULL. */
static ShardPeerStatement *current = NULL;

/* The statement's own text. */
static char *
statement_text(const ShardDdlCall *call)
{
	int			location = call->pstmt->stmt_location;
	int			len = call->pstmt->stmt_len;
	const char *text = CleanQuerytext(call->query_string, &location, &len);

	return pnstrdup(text, len);
}

static char *
apply_text(const char *statement)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT " SHARD_INTERNAL_SCHEMA ".follow_coordinator(%s, %s, %s, ARRAY[",
					 quote_literal_cstr(shard_identity_get()), quote_literal_cstr(statement),
					 quote_literal_cstr(GetUserNameFromId(GetUserId(), false)));
	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i], true, false);

		if (value != NULL)
			appendStringInfo(&sql, "%s%s, %s", i > 0 ? ", " : "", quote_literal_cstr(settings[i]), quote_literal_cstr(value));
	}
	appendStringInfoString(&sql, "])");
	return sql.data;
}

/* Runs it on one coordinator after the other, since each may have to wait for locks. */
static void
run_on(ShardPeerStatement *statement, const char *text, int n)
{
	const char *sql = statement->nsent < n ? apply_text(text) : NULL;

	for (; statement->nsent < n; statement->nsent++)
	{
		const ShardNodeName *peer = list_nth(statement->peers, statement->nsent);
		ShardCommand command = {.serverid = peer->serverid, .userid = GetUserId(), .sql = sql};

		command.has_values = statement->stmt != NULL && shard_peer_may_have_password(statement->stmt);
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
}

/*
 * The coordinators that must run a statement too.  Core's log level filters out other statements before the servers
 * are scanned.
 */
static List *
peers_of(Node *stmt, int *nbefore)
{
	if ((current != NULL && !current->shows_nested) || shard_guc_follows_coordinator || !shard_guc_enable_coordinator_propagation ||
		creating_extension || RecoveryInProgress() || GetCommandLogLevel(stmt) > LOGSTMT_MOD || !shard_node_is_member() ||
		(!shard_peer_follows(stmt) && shard_peer_locks_before(stmt) == NULL))
		return NIL;
	shard_node_hold_members();
	return shard_node_peers(nbefore);
}

bool
shard_peer_would_send(Node *stmt)
{
	int			nbefore;

	return peers_of(stmt, &nbefore) != NIL;
}

/* Locks tables on all coordinators, in the order of their names. */
static void
lock_on_all(ShardPeerStatement *statement, LockStmt *lock, int nbefore)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_node(RangeVar, relation, lock->relations)
		appendStringInfo(&text, "%s%s", text.len == 0 ? "LOCK TABLE " : ", ", quote_qualified_identifier(relation->schemaname, relation->relname));
	appendStringInfoString(&text, " IN ACCESS EXCLUSIVE MODE");
	run_on(statement, text.data, nbefore);
	LockTableCommand(lock);
	run_on(statement, text.data, list_length(statement->peers));
}

void
shard_peer_begin(ShardPeerStatement *statement, ShardDdlCall *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	LockStmt   *lock;
	int			nbefore;

	memset(statement, 0, sizeof(*statement));
	statement->outer = current;
	statement->peers = peers_of(stmt, &nbefore);
	if (statement->peers == NIL)
		return;
	lock = shard_peer_locks_before(stmt);
	if (lock != NULL)
	{
		lock_on_all(statement, lock, nbefore);
		statement->peers = NIL;
		return;
	}
	statement->text = statement_text(call);
	statement->stmt = stmt;
	if (!shard_peer_follows_late(stmt))
		run_on(statement, statement->text, nbefore);
	/* the others do not run the query, so statements that it runs are sent */
	statement->shows_nested = IsA(stmt, CreateTableAsStmt);
	current = statement;
}

void
shard_peer_before_nodes(void *statement)
{
	ShardPeerStatement *sent = statement;

	if (sent->peers != NIL && !sent->is_finished && !shard_peer_follows_late(sent->stmt))
		run_on(sent, sent->text, list_length(sent->peers));
}

void
shard_peer_finish(ShardPeerStatement *statement)
{
	const char *text = statement->text;

	if (statement->peers == NIL || statement->is_finished)
		return;
	statement->is_finished = true;
	shard_peer_share_sequences(statement->stmt);
	if (shard_peer_follows_late(statement->stmt))
	{
		int			nbefore;

		/*
		 * a statement that commits while it runs has lost its lock on the list of coordinators; one may have been
		 * added
		 */
		shard_node_hold_members();
		statement->peers = shard_node_peers(&nbefore);
		CommandCounterIncrement();
		text = shard_peer_late_text(statement->stmt, text);
	}
	if (text != NULL)
		run_on(statement, text, list_length(statement->peers));
}

void
shard_peer_end(const ShardPeerStatement *statement)
{
	current = statement->outer;
}

ShardPeerStatement *
shard_peer_part_begin(void)
{
	ShardPeerStatement *saved = current;

	if (current != NULL)
		shard_peer_finish(current);
	current = NULL;
	return saved;
}

void
shard_peer_part_end(ShardPeerStatement *saved)
{
	current = saved;
}
