/*
 * peer_send.c
 *	  Changes of definitions on their way to the other coordinators of the same nodes.
 *
 *	  statement --> coordinators whose names come first --> this one --> the other coordinators --> the nodes
 *
 * All of them run one statement after the other in the order of the coordinators' names, so that two which change the
 * same table wait for each other on the first one, and not crosswise.  The nodes come last: who reads through any
 * coordinator has locked the table there before he reads from a node.  It is one transaction: prepared
 * everywhere, decided here.  The nodes commit before the coordinators (remote/xact/twophase.c): nobody
 * looks for what is not there yet.
 *
 * A coordinator is sent the statement's text, and what it depends on: role, search_path and other
 * settings.  There peer_apply.c runs it as it is run here, but for the nodes, which are asked
 * and told by this coordinator alone.
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

/* What the meaning of a statement depends on. */
static const char *const settings[] = {
	"search_path", "shardfdw.enable_ddl_propagation", "check_function_bodies", "standard_conforming_strings", "backslash_quote",
	"transform_null_equals", "array_nulls", "datestyle", "intervalstyle", "timezone", "timezone_abbreviations", "xmloption",
	"lc_monetary", "default_tablespace", "default_table_access_method", "default_toast_compression", "default_text_search_config",
	"row_security", "lock_timeout"
};

/* The statement that is under way and that the others run, too; NULL: there is none. */
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

/* One after the other: each may have to wait for locks. */
static void
run_on(ShardPeerStatement *statement, const char *text, int n)
{
	const char *sql = statement->nsent < n ? apply_text(text) : NULL;

	for (; statement->nsent < n; statement->nsent++)
	{
		const ShardNodeName *peer = list_nth(statement->peers, statement->nsent);
		ShardCommand command = {0};

		command.serverid = peer->serverid;
		command.userid = GetUserId();
		command.sql = sql;
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
}

/* The coordinators that have to run a statement, too.  Core's kinds keep all but definitions and TRUNCATE from a scan of the servers. */
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
	/* the others run no query */
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

		/* one that commits in its course has let go of the list, and another one may have been added since */
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
