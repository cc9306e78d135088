/*
 * recover.c
 *	  Settles, or shows, the transactions that this database left prepared on
 *	  nodes: SQL functions shardfdw.recover() and shardfdw.list_prepared().
 *
 *	 read the commit log --> ask all nodes for gids --> running here? --> in the log? --> settle
 *			|										    yes: leave alone   |yes: COMMIT PREPARED
 *			|															   |no:  ROLLBACK PREPARED
 *			+--> rows of which no node has anything left are deleted, unless one was promoted since
 *
 * The order matters.  A gid that a node shows belongs to a transaction that has
 * begun before; when it does not run any more, its log row is there now or will
 * never be.  (The row may also be gone already, after all nodes have confirmed
 * the commit; then so is the gid, and ROLLBACK PREPARED finds nothing.)  The
 * other way round a log row read before the nodes were asked is that of a
 * transaction whose every PREPARE had ended by then, so a node that shows
 * nothing of it will not do so later.  See remote/twophase.c for the invariants.
 *
 * Several of these may run at once, and beside the sessions that commit: the
 * second to come finds the prepared transaction gone.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/node_list.h"
#include "commit_log.h"
#include "compat.h"
#include "ddl/recover.h"
#include "fault.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "remote/command.h"
#include "remote/twophase.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(shardfdw_recover);
PG_FUNCTION_INFO_V1(shardfdw_list_prepared);

typedef struct SurveyNode
{
	Oid			serverid;
	const char *name;
	const char *failure;		/* why it was not reached; NULL when it was */
	TimeLineID	timeline;		/* 0: not known */
} SurveyNode;

typedef enum PreparedState
{
	PREPARED_RUNNING,			/* its transaction still runs here */
	PREPARED_COMMITTED,
	PREPARED_NOT_COMMITTED
} PreparedState;

/* A prepared transaction of ours on a node. */
typedef struct Prepared
{
	const SurveyNode *node;
	const char *gid;
	FullTransactionId xid;
	int64		token;
	const char *owner;
	TimestampTz prepared_at;
	bool		settled;
} Prepared;

/* What the nodes of the current user were found to hold. */
typedef struct Survey
{
	List	   *nodes;			/* of SurveyNode */
	bool		complete;		/* every node of this database was reached */
	List	   *prepared;		/* of Prepared */
} Survey;

/* The nodes that the current user has mappings for; *complete is false when there are others. */
static List *
find_nodes(bool *complete)
{
	List	   *nodes = NIL;
	ListCell   *lc;

	foreach(lc, shard_node_list(complete))
	{
		const ShardNodeName *found = lfirst(lc);
		SurveyNode *node = palloc0(sizeof(SurveyNode));

		node->serverid = found->serverid;
		node->name = found->name;
		nodes = lappend(nodes, node);
	}
	return nodes;
}

/* Microseconds since 1970 as a node sent them. */
static TimestampTz
timestamp_from_text(const char *text)
{
	const int64 epoch_us = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(text))) - epoch_us;
}

/* Copies what node answered into the survey. */
static void
take_answer(Survey *survey, SurveyNode *node, PGresult *res)
{
	if (PQntuples(res) > 0 && !PQgetisnull(res, 0, 3))
		node->timeline = shard_connection_parse_timeline(PQgetvalue(res, 0, 3));
	for (int i = 0; i < PQntuples(res) && !PQgetisnull(res, i, 0); i++)
	{
		Prepared   *prepared = palloc0(sizeof(Prepared));

		prepared->node = node;
		prepared->gid = pstrdup(PQgetvalue(res, i, 0));
		prepared->owner = pstrdup(PQgetvalue(res, i, 1));
		prepared->prepared_at = timestamp_from_text(PQgetvalue(res, i, 2));
		if (shard_twophase_parse_gid(prepared->gid, &prepared->xid, &prepared->token))
			survey->prepared = lappend(survey->prepared, prepared);
	}
}

/* Asks all nodes at once for the transactions that this database prepared there. */
static void
survey_nodes(Survey *survey)
{
	char	   *sql = psprintf("SELECT p.gid, p.owner, (extract(epoch FROM p.prepared) * 1000000)::bigint, t.timeline"
							   " FROM (SELECT " SHARD_TIMELINE_SQL " AS timeline) t LEFT JOIN pg_prepared_xacts p"
							   " ON p.database = current_database() AND starts_with(p.gid, '%s')"
							   " ORDER BY p.prepared, p.gid",
							   shard_twophase_gid_prefix());
	ShardCommand *commands;
	ListCell   *lc;
	int			n = 0;

	survey->prepared = NIL;
	survey->nodes = find_nodes(&survey->complete);
	commands = palloc0(Max(1, list_length(survey->nodes)) * sizeof(ShardCommand));
	foreach(lc, survey->nodes)
	{
		commands[n].serverid = ((SurveyNode *) lfirst(lc))->serverid;
		commands[n].userid = GetUserId();
		commands[n].nfields = 4;
		commands[n++].sql = sql;
	}
	shard_command_run(commands, n, SHARD_COMMAND_FREE, true);

	PG_TRY();
	{
		n = 0;
		foreach(lc, survey->nodes)
		{
			SurveyNode *node = lfirst(lc);
			ShardCommand *command = &commands[n++];

			if (command->error)
			{
				node->failure = command->error->message;
				survey->complete = false;
			}
			else
				take_answer(survey, node, command->result);
		}
	}
	PG_FINALLY();
	{
		/* libpq's memory outlives an error */
		for (int i = 0; i < list_length(survey->nodes); i++)
			PQclear(commands[i].result);
	}
	PG_END_TRY();
}

/* Does the transaction still run in this server?  xid must have been read from a node just now. */
static bool
is_running(FullTransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();

	/* not given out yet: its first user ended in a crash that forgot it */
	if (!FullTransactionIdPrecedes(xid, next))
		return false;
	if (U64FromFullTransactionId(next) - U64FromFullTransactionId(xid) > MaxTransactionId / 2)
		return false;
	return TransactionIdIsInProgress(XidFromFullTransactionId(xid));
}

static PreparedState
judge(const Prepared *prepared)
{
	if (is_running(prepared->xid))
		return PREPARED_RUNNING;

	/* only after that: the row of a transaction that has just ended is there now */
	return shard_commit_log_contains(prepared->xid, prepared->token) ?
		PREPARED_COMMITTED : PREPARED_NOT_COMMITTED;
}

static List *
add_outcome(List *outcomes, const SurveyNode *node, const char *gid,
			ShardRecoverAction action, const char *message)
{
	ShardRecoverOutcome *outcome = palloc(sizeof(ShardRecoverOutcome));

	outcome->node = node->name;
	outcome->gid = gid;
	outcome->action = action;
	outcome->message = message;
	return lappend(outcomes, outcome);
}

/* Commits or rolls back what does not run any more, on all nodes at once. */
static List *
settle_prepared(Survey *survey, List *outcomes)
{
	int			nmax = Max(1, list_length(survey->prepared));
	ShardCommand *commands = palloc0(nmax * sizeof(ShardCommand));
	Prepared  **subjects = palloc(nmax * sizeof(Prepared *));
	bool	   *commits = palloc(nmax * sizeof(bool));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, survey->prepared)
	{
		Prepared   *prepared = lfirst(lc);
		PreparedState state = judge(prepared);

		if (state == PREPARED_RUNNING)
			continue;
		subjects[n] = prepared;
		commits[n] = state == PREPARED_COMMITTED;
		commands[n].serverid = prepared->node->serverid;
		commands[n].userid = GetUserId();
		commands[n].sql = psprintf("%s PREPARED '%s'", commits[n] ? "COMMIT" : "ROLLBACK", prepared->gid);
		n++;
	}
	shard_command_run(commands, n, SHARD_COMMAND_FREE, true);

	for (int i = 0; i < n; i++)
	{
		ErrorData  *error = commands[i].error;

		PQclear(commands[i].result);
		subjects[i]->settled = error == NULL || error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT;
		if (!error)
			outcomes = add_outcome(outcomes, subjects[i]->node, subjects[i]->gid,
								   commits[i] ? SHARD_RECOVER_COMMITTED : SHARD_RECOVER_ROLLED_BACK,
								   NULL);
		else if (error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
			;					/* busy: its own session, or another recover(), is at it */
		else if (!subjects[i]->settled)
			outcomes = add_outcome(outcomes, subjects[i]->node, subjects[i]->gid,
								   SHARD_RECOVER_FAILED, error->message);
	}
	return outcomes;
}

/* Has survey seen something of entry on node? */
static bool
is_prepared_on(const ShardLogEntry *entry, const SurveyNode *node, const Survey *survey)
{
	ListCell   *lc;

	foreach(lc, survey->prepared)
	{
		const Prepared *prepared = lfirst(lc);

		if (prepared->node == node && prepared->token == entry->token &&
			FullTransactionIdEquals(prepared->xid, entry->xid))
			return true;
	}
	return false;
}

/*
 * Adds the nodes that had prepared entry, have nothing of it, and have become
 * another server since: a standby that was promoted may not have received the
 * PREPARE, or what followed it.
 */
static List *
find_promoted(const ShardLogEntry *entry, const Survey *survey, List *outcomes)
{
	ListCell   *name;
	ListCell   *timeline;
	ListCell   *lc;

	forboth(name, entry->nodes, timeline, entry->timelines)
	{
		foreach(lc, survey->nodes)
		{
			const SurveyNode *node = lfirst(lc);

			if (strcmp(node->name, lfirst(name)) != 0 || node->failure || node->timeline == 0 ||
				lfirst_int(timeline) == 0 || (TimeLineID) lfirst_int(timeline) == node->timeline ||
				is_prepared_on(entry, node, survey))
				continue;
			outcomes = add_outcome(outcomes, node, NULL, SHARD_RECOVER_PROMOTED,
								   psprintf("it prepared transaction " UINT64_FORMAT " on timeline %d, is on timeline %u now and does not have it",
											U64FromFullTransactionId(entry->xid), lfirst_int(timeline), node->timeline));
		}
	}
	return outcomes;
}

/* May entry go?  Only if nodes that took part, or else all, were reached and have nothing of it. */
static bool
is_forgettable(const ShardLogEntry *entry, const Survey *survey)
{
	ListCell   *lc;

	foreach(lc, survey->prepared)
	{
		const Prepared *prepared = lfirst(lc);

		if (!prepared->settled && prepared->token == entry->token &&
			FullTransactionIdEquals(prepared->xid, entry->xid))
			return false;
	}
	if (survey->complete)
		return true;
	foreach(lc, entry->nodes)
	{
		const char *name = lfirst(lc);
		bool		reached = false;
		ListCell   *lc2;

		foreach(lc2, survey->nodes)
		{
			const SurveyNode *node = lfirst(lc2);

			if (node->failure == NULL && strcmp(node->name, name) == 0)
				reached = true;
		}
		if (!reached)
			return false;
	}
	return true;
}

List *
shard_recover_run(void)
{
	List	   *outcomes = NIL;
	Survey		survey;
	List	   *log;
	ListCell   *lc;

	log = shard_commit_log_read();
	survey_nodes(&survey);
	SHARD_FAULT_POINT("recover");
	foreach(lc, survey.nodes)
	{
		const SurveyNode *node = lfirst(lc);

		if (node->failure)
			outcomes = add_outcome(outcomes, node, NULL, SHARD_RECOVER_UNREACHABLE, node->failure);
	}
	outcomes = settle_prepared(&survey, outcomes);
	SHARD_FAULT_POINT("recovered");
	foreach(lc, log)
	{
		const ShardLogEntry *entry = lfirst(lc);

		int			nbefore = list_length(outcomes);

		outcomes = find_promoted(entry, &survey, outcomes);
		if (list_length(outcomes) == nbefore && is_forgettable(entry, &survey))
			(void) shard_commit_log_delete(entry->xid, entry->token);
	}
	return outcomes;
}

Datum
shardfdw_recover(PG_FUNCTION_ARGS)
{
	static const char *const action_names[] = {"committed", "rolled back", "failed", "unreachable", "promoted"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	PreventCommandIfReadOnly("recover()");
	InitMaterializedSRF(fcinfo, 0);

	foreach(lc, shard_recover_run())
	{
		const ShardRecoverOutcome *outcome = lfirst(lc);
		const char *action = action_names[outcome->action];
		Datum		values[3];
		bool		nulls[3] = {false, outcome->gid == NULL, false};

		if (outcome->message)
			action = psprintf("%s: %s", action, outcome->message);
		values[0] = DirectFunctionCall1(namein, CStringGetDatum(outcome->node));
		values[1] = outcome->gid ? CStringGetTextDatum(outcome->gid) : (Datum) 0;
		values[2] = CStringGetTextDatum(action);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
shardfdw_list_prepared(PG_FUNCTION_ARGS)
{
	static const char *const state_names[] = {"in progress", "committed", "not committed"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Survey		survey;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	survey_nodes(&survey);
	foreach(lc, survey.nodes)
	{
		const SurveyNode *node = lfirst(lc);
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

		values[0] = DirectFunctionCall1(namein, CStringGetDatum(prepared->node->name));
		values[1] = CStringGetTextDatum(prepared->gid);
		values[2] = FullTransactionIdGetDatum(prepared->xid);
		values[3] = DirectFunctionCall1(namein, CStringGetDatum(prepared->owner));
		values[4] = TimestampTzGetDatum(prepared->prepared_at);
		values[5] = CStringGetTextDatum(state_names[judge(prepared)]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
