/*
 * shard_definition.c
 *	  Checks whether the tables of a move are unchanged, fast enough while writers wait.
 *
 * To print the tables as commands and compare them takes tens of milliseconds on the source and the coordinator.  So
 * that is done before the lock.  Under the lock, nothing has changed under two conditions.  The source returns the
 * same results for prepared queries.  And this server has sent no invalidation messages, of any database.  Otherwise
 * everything is compared while writers wait.
 */
#include "postgres.h"

#include "move/job/link.h"
#include "move/job/table.h"
#include "move/shard_definition.h"
#include "own_schema.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"

struct ShardDefinition
{
	const ShardMove *move;
	ShardConn  *source;
	int			nquestions;		/* prepared statements question_1 ... */
	MemoryContext cxt;			/* for the results */
	char	   *answers;		/* at the last full comparison; NULL: none yet */
	uint64		nmessages;		/* number of invalidation messages on this server until then */
};

/* An aggregate over the numbered rows of moving_questions(), called q. */
static char *
of_questions(const ShardMove *move, const char *aggregate)
{
	return shard_move_value(psprintf("SELECT %s FROM " SHARD_INTERNAL_SCHEMA ".moving_questions(%s, " INT64_FORMAT ", %d, %s) WITH ORDINALITY q",
									 aggregate, shard_move_array(move), move->job.id, move->npieces, quote_literal_cstr(move->job.plan)));
}

ShardDefinition *
shard_definition_begin(const ShardMove *move, ShardConn *source)
{
	ShardDefinition *definition = MemoryContextAllocZero(move->job.cxt, sizeof(ShardDefinition));

	definition->move = move;
	definition->source = source;
	definition->cxt = AllocSetContextCreate(move->job.cxt, "shardfdw definition of shards", ALLOCSET_DEFAULT_SIZES);
	shard_move_begin(move->job.userid);
	definition->nquestions = pg_strtoint32(of_questions(move, "pg_catalog.count(*)"));
	if (definition->nquestions == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("shard %s has been dropped or detached while it was %s", move->tables[0].name, SHARD_MOVE_DONE(move))));
	shard_link_exec(source, of_questions(move, "pg_catalog.string_agg(pg_catalog.format('PREPARE question_%s AS %s', q.ordinality, q.question), '; ')"));
	shard_move_commit();
	return definition;
}

static void
append_answer(StringInfo text, const PGresult *answer)
{
	for (int i = 0; i < PQntuples(answer); i++)
	{
		for (int j = 0; j < PQnfields(answer); j++)
			appendStringInfo(text, "%d %s\n", PQgetisnull(answer, i, j) ? -1 : PQgetlength(answer, i, j), PQgetvalue(answer, i, j));
	}
}

/* The current results of the source for the tables. */
static char *
ask(const ShardDefinition *definition)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 1; i <= definition->nquestions; i++)
	{
		ShardBroadcast *item = shard_link_query(definition->source, NULL, psprintf("EXECUTE question_%d", i), 0);

		appendStringInfo(&text, "%d: %d rows\n", i, PQntuples(item->result));
		append_answer(&text, item->result);
		shard_broadcast_free(item);
	}
	return text.data;
}

/* The number of invalidation messages, after all pending ones are read. */
static uint64
count_messages(void)
{
	AcceptInvalidationMessages();
	return SharedInvalidMessageCounter;
}

void
shard_definition_look(ShardDefinition *definition)
{
	MemoryContext oldcxt;

	shard_move_begin(definition->move->job.userid);
	if (definition->answers == NULL || definition->nmessages != count_messages())
	{
		uint64		nmessages;
		char	   *answers;

		definition->answers = NULL;
		MemoryContextReset(definition->cxt);
		oldcxt = MemoryContextSwitchTo(definition->cxt);
		/* count before the comparison, so that a change during it is noticed */
		nmessages = count_messages();
		answers = ask(definition);
		MemoryContextSwitchTo(oldcxt);
		shard_move_check_unchanged(definition->move);
		definition->nmessages = nmessages;
		definition->answers = answers;
	}
	shard_move_commit();
}

void
shard_definition_check(const ShardDefinition *definition)
{
	if (definition->nmessages != count_messages() || strcmp(ask(definition), definition->answers) != 0)
		shard_move_check_unchanged(definition->move);
}
