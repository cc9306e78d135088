/*
 * recover.c
 *	  Resolves, or shows, the transactions that this database left prepared on nodes: SQL functions
 *	  shardfdw.recover_prepared_transactions() and shardfdw_internal.list_prepared().
 *
 *	 read the commit log --> ask all nodes for gids --> whose? --> running here? --> in the log? --> resolve
 *							|	another's, or	|				|yes: COMMIT PREPARED
 *							|	not taken over	|yes			|no:  ROLLBACK PREPARED, or
 *							|	leave alone	  --+ leave alone	leave alone if its row may have been deleted,
 *							|									or may never have come to this server
 *							+--> rows whose transaction no node has prepared any more are marked as confirmed
 *
 * The order matters.  A gid that a node shows belongs to a transaction that began before.  If that
 * transaction no longer runs, its log row exists now or never will. (Or the row was deleted.  How
 * far back the log goes is read after the row was not found.)  Conversely, a log row that was read
 * before the nodes were asked belongs to a transaction whose PREPAREs had all ended by then.  So a
 * node that shows nothing of it now will not do so later.  See remote/xact/twophase.c for the
 * invariants.
 *
 * The answer that nothing is prepared any more counts only if it comes from the server that
 * prepared: with the same system identifier and database, and not a standby.  If that server is on
 * another timeline since, after a promotion or a restore, it may have lost what it had prepared.
 * That is reported once, and recorded in the row.  A gid can be resolved on any server that shows
 * it, since it was prepared there.
 *
 * Another coordinator commits after the nodes.  Before, it is told that nodes may have transactions
 * left, since one of them may not have been reached.
 *
 * Several recoveries may run at the same time, and at the same time as sessions that commit.  The
 * second one finds that the prepared transaction is gone.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/node_list.h"
#include "commit_log.h"
#include "compat.h"
#include "fault.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "identity.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_right.h"
#include "remote/run/command.h"
#include "remote/wire/node_stat.h"
#include "remote/xact/twophase.h"
#include "service/recover.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/xid8.h"
#include "version.h"

PG_FUNCTION_INFO_V1(shardfdw_recover_prepared_transactions);
PG_FUNCTION_INFO_V1(shardfdw_list_prepared);
PG_FUNCTION_INFO_V1(shardfdw_settle_server);

typedef struct SurveyNode
{
	Oid			serverid;
	const char *name;
	const char *failure;		/* why it was not reached; NULL: it was */
	ShardConnServer server;		/* the server that has answered */
	const char *noted;			/* identity of the coordinator that is noted there; NULL: none */
	uint64		nleft;			/* of shard_node_stat_nleft() */
	bool		has_others;		/* transactions of other coordinators are prepared there */
} SurveyNode;

typedef enum PreparedState
{
	PREPARED_RUNNING,			/* its transaction still runs here */
	PREPARED_COMMITTED,
	PREPARED_NOT_COMMITTED,
	PREPARED_UNCONFIRMED,		/* this server is a copy, and cannot know the outcome */
	PREPARED_FORGOTTEN,			/* its row, if there was one, may have been deleted */
	PREPARED_NOT_RECEIVED,		/* a predecessor's: its row may not have reached this server */
	PREPARED_OTHERS				/* a predecessor's transaction: its row may not have reached this server */
} PreparedState;

/* A prepared transaction of this coordinator on a node. */
typedef struct Prepared
{
	const SurveyNode *node;
	const char *gid;
	ShardGid	parts;			/* parts of gid */
	const char *owner;
	TimestampTz prepared_at;
	bool		commits;		/* or it is rolled back */
	bool		settled;
} Prepared;

/* The result of the queries on the nodes of the current user. */
typedef struct Survey
{
	List	   *nodes;			/* of SurveyNode */
	List	   *prepared;		/* of Prepared */
} Survey;

static void (*restart_processes) (void) = NULL;
static ShardRecoverJobs recover_jobs = NULL;

void
shard_recover_set_jobs(void (*restart) (void), ShardRecoverJobs jobs)
{
	restart_processes = restart;
	recover_jobs = jobs;
}

/* Returns the nodes for which the current user has mappings. */
static List *
find_nodes(void)
{
	List	   *nodes = NIL;
	bool		complete;

	foreach_ptr(const ShardNodeName, found, shard_node_list_all(&complete))
	{
		SurveyNode *node = palloc0(sizeof(SurveyNode));

		node->serverid = found->serverid;
		node->name = found->name;
		nodes = lappend(nodes, node);
	}
	return nodes;
}

/* Converts microseconds since 1970, as sent by a node. */
static TimestampTz
timestamp_from_text(const char *text)
{
	const int64 epoch_us = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(text))) - epoch_us;
}

/* Is it a prepared transaction that concerns this server? */
static bool
is_concern(const ShardGid *parts)
{
	return (parts->system_identifier == GetSystemIdentifier() && parts->database == MyDatabaseId) ||
		shard_identity_relation(parts->system_identifier, parts->database, parts->identity) != SHARD_IDENTITY_OTHER ||
		shard_identity_came_along(parts->system_identifier, parts->database, parts->identity);
}

/* Copies node's answer into the survey. */
static void
take_answer(Survey *survey, SurveyNode *node, PGresult *res)
{
	if (PQntuples(res) > 0)
	{
		shard_connection_parse_server(res, 4, &node->server);
		if (!PQgetisnull(res, 0, 3))
			node->noted = pstrdup(PQgetvalue(res, 0, 3));
	}
	for (int i = 0; i < PQntuples(res) && !PQgetisnull(res, i, 0); i++)
	{
		Prepared   *prepared = palloc0(sizeof(Prepared));

		prepared->node = node;
		prepared->gid = pstrdup(PQgetvalue(res, i, 0));
		prepared->owner = pstrdup(PQgetvalue(res, i, 1));
		prepared->prepared_at = timestamp_from_text(PQgetvalue(res, i, 2));
		if (!shard_twophase_read_gid(prepared->gid, &prepared->parts))
			continue;
		if (is_concern(&prepared->parts))
			survey->prepared = lappend(survey->prepared, prepared);
		else
			node->has_others = true;
	}
}

/*
 * Returns the query for nodes.  Its names are qualified: what it returns decides for all roles, and the role of this
 * session may have changed search_path on the node. with_system: also for their system identifiers.
 */
static char *
survey_query(bool with_system)
{
	return psprintf("SELECT p.gid, p.owner, (extract(epoch FROM p.prepared) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, s.*"
					" FROM (SELECT %s, %s) s LEFT JOIN pg_catalog.pg_prepared_xacts p"
					" ON p.database OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(p.gid, '" SHARD_GID_PREFIX "')"
					" ORDER BY p.prepared, p.gid",
					shard_connection_note_sql(),
					with_system ? SHARD_SERVER_SQL(SHARD_SYSTEM_SQL) : SHARD_SERVER_SQL("NULL"));
}

/* Sends the query again, without system identifiers, to nodes whose role may not read them. */
static void
ask_less(ShardCommand *commands, int ncommands)
{
	ShardCommand *again = palloc(Max(1, ncommands) * sizeof(ShardCommand));
	int		   *subjects = palloc(Max(1, ncommands) * sizeof(int));
	char	   *sql = survey_query(false);
	int			n = 0;

	for (int i = 0; i < ncommands; i++)
	{
		if (!commands[i].error || commands[i].error->sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE)
			continue;
		again[n] = commands[i];
		again[n].sql = sql;
		subjects[n++] = i;
	}
	shard_command_run(again, n, SHARD_COMMAND_SETTLE, true);
	for (int i = 0; i < n; i++)
	{
		commands[subjects[i]].result = again[i].result;
		commands[subjects[i]].error = again[i].error;
	}
}

/* Asks nodes in parallel for the transactions that this database prepared there. */
static void
survey_nodes(Survey *survey, List *nodes)
{
	char	   *sql = survey_query(true);
	ShardCommand *commands;
	ListCell   *lc;
	int			n = 0;

	survey->prepared = NIL;
	survey->nodes = nodes;
	commands = palloc0(Max(1, list_length(survey->nodes)) * sizeof(ShardCommand));
	foreach(lc, survey->nodes)
	{
		((SurveyNode *) lfirst(lc))->nleft = shard_node_stat_nleft(((SurveyNode *) lfirst(lc))->serverid);
		commands[n++] = (ShardCommand) {.serverid = ((SurveyNode *) lfirst(lc))->serverid, .userid = GetUserId(),
			.sql = sql, .nfields = 4 + SHARD_SERVER_COLUMNS};
	}
	shard_command_run(commands, n, SHARD_COMMAND_SETTLE, true);

	ask_less(commands, n);
	n = 0;
	foreach_ptr(SurveyNode, node, survey->nodes)
	{
		ShardCommand *command = &commands[n++];

		if (command->error)
			node->failure = command->error->message;
		else
			take_answer(survey, node, command->result);
	}
	shard_command_free(commands, n);
}

/* prepared must have just been read from a node. */
static PreparedState
judge(const Prepared *prepared)
{
	const ShardGid *gid = &prepared->parts;
	ShardIdentityRelation relation = shard_identity_relation(gid->system_identifier, gid->database, gid->identity);

	if (relation == SHARD_IDENTITY_OTHER)
		return PREPARED_OTHERS;
	if (!shard_identity_is_confirmed())
		return PREPARED_UNCONFIRMED;
	/* This transaction has prepared nothing so far, but before a crash another one with its number may have. */
	if (!FullTransactionIdEquals(gid->key.xid, GetTopFullTransactionIdIfAny()) && shard_twophase_is_running(gid->key.xid))
		return PREPARED_RUNNING;

	/* only after that check: the row of a transaction that has just ended is visible now */
	if (shard_commit_log_contains(gid->key))
		return PREPARED_COMMITTED;

	/* and only after that: deleting a row first advances forgotten_until */
	if (gid->time <= shard_identity_read_reach().forgotten_until)
		return PREPARED_FORGOTTEN;
	return relation == SHARD_IDENTITY_PREDECESSOR ? PREPARED_NOT_RECEIVED : PREPARED_NOT_COMMITTED;
}

/* Returns why a prepared transaction in this state is left alone; NULL if that needs no reason. */
static const char *
why_left(PreparedState state, const Prepared *prepared)
{
	switch (state)
	{
		case PREPARED_RUNNING:
		case PREPARED_COMMITTED:
		case PREPARED_NOT_COMMITTED:
		case PREPARED_UNCONFIRMED:
			return NULL;
		case PREPARED_FORGOTTEN:
			return psprintf("it was prepared at %s, and the commit log remembers commits after %s only",
							timestamptz_to_str(prepared->parts.time),
							pstrdup(timestamptz_to_str(shard_identity_read_reach().forgotten_until)));
		case PREPARED_NOT_RECEIVED:
			return psprintf("predecessor \"%s\" may have committed it without this server having received that",
							prepared->parts.identity);
		case PREPARED_OTHERS:
			return psprintf("identity \"%s\" is not this coordinator's, and has not been taken over",
							prepared->parts.identity);
	}
	return NULL;
}

static List *
add_outcome(List *outcomes, const SurveyNode *node, const char *gid,
			ShardRecoverAction action, const char *message)
{
	ShardRecoverOutcome *outcome = palloc(sizeof(ShardRecoverOutcome));

	outcome->node = node ? node->name : NULL;
	outcome->gid = gid;
	outcome->action = action;
	outcome->message = message;
	return lappend(outcomes, outcome);
}

List *
shard_recover_add(List *outcomes, const char *node, ShardRecoverAction action, const char *message)
{
	SurveyNode	named = {.name = node};

	return add_outcome(outcomes, &named, NULL, action, message);
}

/* Has another coordinator taken over node? */
static bool
is_taken_over(const SurveyNode *node)
{
	return node->noted && shard_identity_noted_relation(node->noted) == SHARD_IDENTITY_OTHER;
}

/* Notes the nodes that have no prepared transactions any more, except those of running sessions of this coordinator. */
static void
note_settled(const Survey *survey)
{
	foreach_ptr(const SurveyNode, node, survey->nodes)
	{
		bool		has_left = node->failure != NULL || node->has_others || is_taken_over(node);

		foreach_ptr(const Prepared, prepared, survey->prepared)
		{
			if (prepared->node == node && !prepared->settled && judge(prepared) != PREPARED_RUNNING)
				has_left = true;
		}
		/* a standby has prepared transactions of its primary that it does not show */
		if (node->failure == NULL && node->server.timeline == 0)
			shard_node_stat_leave(node->serverid);
		else if (!has_left)
			shard_node_stat_settled(node->serverid, node->nleft);
	}
}

/* Commits or rolls back n prepared transactions in parallel. */
static List *
settle_parts(Prepared **parts, int n, List *outcomes)
{
	ShardCommand *commands = palloc0(Max(1, n) * sizeof(ShardCommand));

	for (int i = 0; i < n; i++)
		commands[i] = (ShardCommand) {.serverid = parts[i]->node->serverid, .userid = GetUserId(),
			.sql = psprintf("%s PREPARED '%s'", parts[i]->commits ? "COMMIT" : "ROLLBACK", parts[i]->gid)};
	shard_command_run(commands, n, SHARD_COMMAND_SETTLE, true);
	shard_command_free(commands, n);

	for (int i = 0; i < n; i++)
	{
		ErrorData  *error = commands[i].error;

		parts[i]->settled = error == NULL || error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT;
		if (!error)
		{
			outcomes = add_outcome(outcomes, parts[i]->node, parts[i]->gid,
								   parts[i]->commits ? SHARD_RECOVER_COMMITTED : SHARD_RECOVER_ROLLED_BACK,
								   NULL);
			shard_node_stat_add(shard_node_stat_find(parts[i]->node->serverid), SHARD_NODE_RECOVERED, 1);
		}
		else if (error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
			;					/* busy: the transaction's session, or another recover_prepared_transactions(), is working on it */
		else if (!parts[i]->settled)
			outcomes = add_outcome(outcomes, parts[i]->node, parts[i]->gid,
								   SHARD_RECOVER_FAILED, error->message);
	}
	return outcomes;
}

/*
 * Tells coordinators, before they commit parts, that nodes may have transactions left.  Removes those
 * that could not be told from parts.  Returns the number of the others.
 */
static int
doubt_on_coordinators(Prepared **parts, int n, List **outcomes)
{
	ShardCommand *commands = palloc0(Max(1, n) * sizeof(ShardCommand));
	int			ntold = 0;

	for (int i = 0; i < n; i++)
		commands[i] = (ShardCommand) {.serverid = parts[i]->node->serverid, .userid = GetUserId(), .sql = SHARD_DOUBT_SQL, .nfields = 1};
	shard_command_run(commands, n, SHARD_COMMAND_SETTLE, true);
	shard_command_free(commands, n);
	for (int i = 0; i < n; i++)
	{
		if (!commands[i].error)
			parts[ntold++] = parts[i];
		else
			*outcomes = add_outcome(*outcomes, parts[i]->node, parts[i]->gid, SHARD_RECOVER_FAILED, commands[i].error->message);
	}
	return ntold;
}

/*
 * Commits or rolls back transactions that no longer run, first on nodes, then on other coordinators.
 * dry_run: only reports.
 */
static List *
settle_prepared(Survey *survey, bool dry_run, List *outcomes)
{
	int			nmax = Max(1, list_length(survey->prepared));
	Prepared  **on_nodes = palloc(nmax * sizeof(Prepared *));
	Prepared  **on_coordinators = palloc(nmax * sizeof(Prepared *));
	int			nnodes = 0;
	int			ncoordinators = 0;

	foreach_ptr(Prepared, prepared, survey->prepared)
	{
		PreparedState state;
		const char *reason;

		if (is_taken_over(prepared->node))
			continue;
		state = judge(prepared);
		reason = why_left(state, prepared);
		if (reason)
			outcomes = add_outcome(outcomes, prepared->node, prepared->gid, SHARD_RECOVER_LEFT, reason);
		if (state != PREPARED_COMMITTED && state != PREPARED_NOT_COMMITTED)
			continue;
		if (dry_run)
		{
			outcomes = add_outcome(outcomes, prepared->node, prepared->gid, state == PREPARED_COMMITTED ?
								   SHARD_RECOVER_WOULD_COMMIT : SHARD_RECOVER_WOULD_ROLL_BACK, NULL);
			continue;
		}
		prepared->commits = state == PREPARED_COMMITTED;
		if (prepared->commits && shard_node_is_coordinator(prepared->node->serverid))
			on_coordinators[ncoordinators++] = prepared;
		else
			on_nodes[nnodes++] = prepared;
	}
	outcomes = settle_parts(on_nodes, nnodes, outcomes);
	ncoordinators = doubt_on_coordinators(on_coordinators, ncoordinators, &outcomes);
	outcomes = settle_parts(on_coordinators, ncoordinators, outcomes);
	if (!dry_run)
		note_settled(survey);
	return outcomes;
}

/* Returns the prepared transaction of entry that survey has found on node; NULL: none. */
static const Prepared *
find_prepared(const ShardLogEntry *entry, const SurveyNode *node, const Survey *survey)
{
	ListCell   *lc;

	foreach(lc, survey->prepared)
	{
		const Prepared *prepared = lfirst(lc);

		if (prepared->node == node && prepared->parts.key.token == entry->key.token &&
			FullTransactionIdEquals(prepared->parts.key.xid, entry->key.xid))
			return prepared;
	}
	return NULL;
}

/*
 * Is node the server that prepared?  It is recognized by its name, its system identifier and its
 * database.  If one side does not know the last two, only by its name.
 */
static bool
is_participant(const ShardLogNode *participant, const SurveyNode *node)
{
	const ShardConnServer *server = &node->server;
	bool		is_namesake = strcmp(participant->name, node->name) == 0;

	if (node->failure || server->timeline == 0)
		return false;
	if (!is_namesake && GetForeignServerByName(participant->name, true) != NULL)
		return false;
	if (participant->database[0] != '\0' && strcmp(participant->database, NameStr(server->database)) != 0)
		return false;
	if (participant->system_identifier == 0 || server->system_identifier == 0)
		return is_namesake;
	return participant->system_identifier == server->system_identifier;
}

static const SurveyNode *
find_participant(const ShardLogNode *participant, const Survey *survey)
{
	ListCell   *lc;

	foreach(lc, survey->nodes)
	{
		if (is_participant(participant, lfirst(lc)))
			return lfirst(lc);
	}
	return NULL;
}

/* If another server answers in place of the one that prepared entry, reports it. */
static List *
report_absent(const ShardLogEntry *entry, const ShardLogNode *participant, const Survey *survey, List *outcomes)
{
	foreach_ptr(const SurveyNode, node, survey->nodes)
	{
		if (strcmp(node->name, participant->name) != 0)
			continue;
		if (node->failure)
			return outcomes;
		return add_outcome(outcomes, node, NULL, SHARD_RECOVER_ANOTHER_SERVER,
						   psprintf("transaction " UINT64_FORMAT " was prepared by server " INT64_FORMAT ", database \"%s\", this is server " INT64_FORMAT ", database \"%s\"%s",
									U64FromFullTransactionId(entry->key.xid), participant->system_identifier, participant->database,
									node->server.system_identifier, NameStr(node->server.database),
									node->server.timeline == 0 ? ", a standby" : ""));
	}
	/* the server may exist, but the current user has no mapping for it */
	if (!GetForeignServerByName(participant->name, true))
	{
		SurveyNode	gone = {.name = participant->name};

		outcomes = add_outcome(outcomes, &gone, NULL, SHARD_RECOVER_LEFT,
							   psprintf("transaction " UINT64_FORMAT " was prepared there, and there is no such node any more",
										U64FromFullTransactionId(entry->key.xid)));
	}
	return outcomes;
}

/*
 * Checks which parts of entry, which has committed, its nodes still have.  If they have none, marks entry as confirmed.
 */
static List *
check_entry(ShardLogEntry *entry, const Survey *survey, bool dry_run, List *outcomes)
{
	const char *note = NULL;
	bool		is_pending = false;
	bool		is_moved = false;
	ListCell   *lc;

	/* its session is still telling the nodes */
	if (shard_twophase_is_running(entry->key.xid))
		return outcomes;
	if (shard_twophase_is_confirmed(entry->key.xid))
	{
		if (!dry_run)
			(void) shard_commit_log_settle(entry->key, NULL);
		return outcomes;
	}
	foreach(lc, survey->prepared)
	{
		const Prepared *prepared = lfirst(lc);

		if (!prepared->settled && prepared->parts.key.token == entry->key.token &&
			FullTransactionIdEquals(prepared->parts.key.xid, entry->key.xid))
			is_pending = true;
	}
	foreach_ptr(ShardLogNode, participant, entry->nodes)
	{
		const SurveyNode *node = find_participant(participant, survey);

		if (!node)
		{
			is_pending = true;
			outcomes = report_absent(entry, participant, survey, outcomes);
			continue;
		}
		if (participant->timeline == 0 || participant->timeline == node->server.timeline)
			continue;
		if (find_prepared(entry, node, survey))
		{
			/* the server has received the transaction, so the next round need not report it as lost */
			participant->timeline = node->server.timeline;
			is_moved = true;
			continue;
		}
		note = psprintf("it prepared transaction " UINT64_FORMAT " on timeline %u, is on timeline %u now and does not have it: it has either committed it, or has not received it and lost what it wrote",
						U64FromFullTransactionId(entry->key.xid), participant->timeline, node->server.timeline);
		outcomes = add_outcome(outcomes, node, NULL, SHARD_RECOVER_PROMOTED, note);
		note = psprintf("%s: %s", node->name, note);
	}
	if (dry_run)
		return outcomes;
	if (!is_pending)
		(void) shard_commit_log_settle(entry->key, note);
	else if (is_moved)
		(void) shard_commit_log_set_timelines(entry->key, entry->nodes);
	return outcomes;
}

/* Notes this coordinator on the nodes that have noted a predecessor. */
static void
note_identity(const Survey *survey)
{
	foreach_ptr(const SurveyNode, node, survey->nodes)
	{
		ShardCommand command = {.serverid = node->serverid, .userid = GetUserId()};
		ShardIdentityRelation relation;

		if (!node->noted)
			continue;
		relation = shard_identity_noted_relation(node->noted);
		if (relation != SHARD_IDENTITY_PREDECESSOR && relation != SHARD_IDENTITY_PREDECESSOR_COMPLETE)
			continue;
		command.sql = shard_identity_note_command(shard_identity_get());
		shard_command_run(&command, 1, SHARD_COMMAND_SETTLE, true);
		shard_command_free(&command, 1);
	}
}

List *
shard_recover_run(bool dry_run)
{
	List	   *outcomes = NIL;
	Survey		survey;
	List	   *log;
	ListCell   *lc;

	/* these locks block promote_coordinator() until the transaction ends */
	bool		may_lock = !dry_run && shard_own_right_has(GetUserId(), "promote_coordinator");

	shard_version_check();
	shard_identity_require_committed();
	if (!shard_identity_is_confirmed())
		return add_outcome(NIL, NULL, NULL, SHARD_RECOVER_UNCONFIRMED, shard_identity_problem());
	if (may_lock)
		shard_identity_store();
	log = shard_commit_log_read_unsettled();
	shard_node_position_drop_refusals();
	survey_nodes(&survey, find_nodes());
	if (!dry_run)
		shard_node_position_keep_refusals();
	SHARD_FAULT_POINT("recover");
	foreach_ptr(const SurveyNode, node, survey.nodes)
	{
		if (node->failure)
			outcomes = add_outcome(outcomes, node, NULL, SHARD_RECOVER_UNREACHABLE, node->failure);
		else if (is_taken_over(node))
			outcomes = add_outcome(outcomes, node, NULL, SHARD_RECOVER_LEFT,
								   psprintf("it has been taken over by coordinator \"%s\", this one is \"%s\"",
											node->noted, shard_identity_get()));
	}
	outcomes = settle_prepared(&survey, dry_run, outcomes);
	SHARD_FAULT_POINT("recovered");
	foreach(lc, log)
		outcomes = check_entry(lfirst(lc), &survey, dry_run, outcomes);
	if (!dry_run)
	{
		note_identity(&survey);
		if (may_lock)
			shard_commit_log_purge();
		if (!IsolationUsesXactSnapshot())
			restart_processes();
	}
	return outcomes;
}

List *
shard_recover_remove(List *outcomes)
{
	shard_version_check();
	shard_identity_require_committed();
	/* needs the current catalogs, to find out where shards are */
	if (IsolationUsesXactSnapshot() || !shard_identity_is_confirmed())
		return outcomes;
	return recover_jobs(outcomes);
}

List *
shard_recover_settle(Oid serverid)
{
	SurveyNode *node = palloc0(sizeof(SurveyNode));
	Survey		survey;

	node->serverid = serverid;
	node->name = GetForeignServer(serverid)->servername;
	survey_nodes(&survey, list_make1(node));
	return settle_prepared(&survey, false, NIL);
}

/* Has recovery as another user, with the necessary privileges, resolved the transaction of this outcome? */
static bool
is_settled_by_another(const ShardRecoverOutcome *outcome, List *outcomes)
{
	foreach_ptr(const ShardRecoverOutcome, other, outcomes)
	{
		if ((other->action == SHARD_RECOVER_COMMITTED || other->action == SHARD_RECOVER_ROLLED_BACK) &&
			strcmp(other->node, outcome->node) == 0 && strcmp(other->gid, outcome->gid) == 0)
			return true;
	}
	return false;
}

/* Is the outcome at position equal to an earlier one? */
static bool
is_repeated(List *outcomes, int position)
{
	const ShardRecoverOutcome *outcome = list_nth(outcomes, position);

	for (int i = 0; i < position; i++)
	{
		const ShardRecoverOutcome *other = list_nth(outcomes, i);

		if (other->action == outcome->action &&
			strcmp(other->node ? other->node : "", outcome->node ? outcome->node : "") == 0 &&
			strcmp(other->gid ? other->gid : "", outcome->gid ? outcome->gid : "") == 0 &&
			strcmp(other->message ? other->message : "", outcome->message ? outcome->message : "") == 0)
			return true;
	}
	return false;
}

void
shard_recover_log(List *outcomes)
{
	for (int i = 0; i < list_length(outcomes); i++)
	{
		const ShardRecoverOutcome *outcome = list_nth(outcomes, i);

		if (is_repeated(outcomes, i))
			continue;
		switch (outcome->action)
		{
			case SHARD_RECOVER_COMMITTED:
				ereport(LOG,
						(errmsg("committed prepared transaction \"%s\" on node \"%s\"",
								outcome->gid, outcome->node)));
				break;
			case SHARD_RECOVER_ROLLED_BACK:
				ereport(LOG,
						(errmsg("rolled back prepared transaction \"%s\" on node \"%s\"",
								outcome->gid, outcome->node)));
				break;
			case SHARD_RECOVER_FAILED:
				if (!is_settled_by_another(outcome, outcomes))
					ereport(LOG,
							(errmsg("could not resolve prepared transaction \"%s\" on node \"%s\": %s",
									outcome->gid, outcome->node, outcome->message)));
				break;
			case SHARD_RECOVER_UNREACHABLE:
				ereport(LOG,
						(errmsg("could not look for prepared transactions on node \"%s\": %s",
								outcome->node, outcome->message)));
				break;
			case SHARD_RECOVER_PROMOTED:
				ereport(WARNING,
						(errmsg("node \"%s\" may have lost a commit: %s", outcome->node, outcome->message)));
				break;
			case SHARD_RECOVER_ANOTHER_SERVER:
				ereport(WARNING,
						(errmsg("node \"%s\" is another server than before: %s", outcome->node, outcome->message),
						 errhint("Make the node's address point to the server that prepared it. If that server is lost, give the number of the transaction to shardfdw.resolve_transaction().")));
				break;
			case SHARD_RECOVER_LEFT:
				if (outcome->gid)
					ereport(WARNING,
							(errmsg("prepared transaction \"%s\" on node \"%s\" is left alone: %s",
									outcome->gid, outcome->node, outcome->message)));
				else
					ereport(WARNING,
							(errmsg("prepared transactions on node \"%s\" are left alone: %s",
									outcome->node, outcome->message)));
				break;
			case SHARD_RECOVER_UNCONFIRMED:
				ereport(WARNING,
						(errmsg("this server is not confirmed as the coordinator, and resolves no prepared transactions"),
						 errdetail_internal("%s", outcome->message),
						 errhint("%s", shard_identity_hint())));
				break;
			case SHARD_RECOVER_REMOVED:
				ereport(LOG,
						(outcome->node ? errmsg("removed from node \"%s\": %s", outcome->node, outcome->message) :
						 errmsg("removed: %s", outcome->message)));
				break;
			case SHARD_RECOVER_NOT_REMOVED:
				ereport(LOG,
						(outcome->node ? errmsg("could not remove from node \"%s\": %s", outcome->node, outcome->message) :
						 errmsg("could not remove %s", outcome->message)));
				break;
			case SHARD_RECOVER_WOULD_COMMIT:
			case SHARD_RECOVER_WOULD_ROLL_BACK:
				break;
		}
	}
}

Datum
shardfdw_recover_prepared_transactions(PG_FUNCTION_ARGS)
{
	static const char *const action_names[] = {"committed", "rolled back", "failed", "unreachable", "promoted",
	"another server", "left alone", "not confirmed", "would commit", "would roll back", "removed", "not removed"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		dry_run = PG_GETARG_BOOL(0);
	List	   *outcomes;

	if (!dry_run)
		PreventCommandIfReadOnly("recover_prepared_transactions()");
	InitMaterializedSRF(fcinfo, 0);

	outcomes = shard_recover_run(dry_run);
	if (!dry_run)
	{
		outcomes = shard_recover_remove(outcomes);
		shard_recover_log(outcomes);
	}
	foreach_ptr(const ShardRecoverOutcome, outcome, outcomes)
	{
		const char *action = action_names[outcome->action];
		Datum		values[3] = {0};
		bool		nulls[3] = {outcome->node == NULL, outcome->gid == NULL, false};

		if (outcome->message)
			action = psprintf("%s: %s", action, outcome->message);
		if (outcome->node)
			values[0] = DirectFunctionCall1(namein, CStringGetDatum(outcome->node));
		if (outcome->gid)
			values[1] = CStringGetTextDatum(outcome->gid);
		values[2] = CStringGetTextDatum(action);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * settle_server(name name) -> void
 */
Datum
shardfdw_settle_server(PG_FUNCTION_ARGS)
{
	const char *name = NameStr(*PG_GETARG_NAME(0));
	Oid			serverid = get_foreign_server_oid(name, false);

	shard_node_check_usage(serverid);
	shard_recover_log(shard_recover_settle(serverid));
	PG_RETURN_VOID();
}

Datum
shardfdw_list_prepared(PG_FUNCTION_ARGS)
{
	static const char *const state_names[] = {"in progress", "committed", "not committed", "not confirmed", "left alone",
	"left alone", "left alone"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Survey		survey;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	survey_nodes(&survey, find_nodes());
	foreach_ptr(const SurveyNode, node, survey.nodes)
	{
		Datum		values[6] = {0};
		bool		nulls[6] = {false, true, true, true, true, false};

		if (!node->failure)
			continue;
		values[0] = DirectFunctionCall1(namein, CStringGetDatum(node->name));
		values[5] = CStringGetTextDatum(psprintf("unreachable: %s", node->failure));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	foreach(lc, survey.prepared)
	{
		const Prepared *prepared = lfirst(lc);
		Datum		values[6];
		bool		nulls[6] = {false};
		PreparedState state = judge(prepared);
		const char *reason = why_left(state, prepared);

		values[0] = DirectFunctionCall1(namein, CStringGetDatum(prepared->node->name));
		values[1] = CStringGetTextDatum(prepared->gid);
		values[2] = FullTransactionIdGetDatum(prepared->parts.key.xid);
		values[3] = DirectFunctionCall1(namein, CStringGetDatum(prepared->owner));
		values[4] = TimestampTzGetDatum(prepared->prepared_at);
		values[5] = CStringGetTextDatum(reason ? psprintf("%s: %s", state_names[state], reason) : state_names[state]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
