/*
 * ddl_fill.c
 *	  Lets nodes compute the values of a new column for existing rows, if each row gets a separate value.
 *
 *	 function of nodes	ADD COLUMN c uuid DEFAULT gen_random_uuid()
 *	 sequence			count the shard's rows --> take as many values on the coordinator --> on its node:
 *						CREATE SEQUENCE over them; ADD COLUMN c DEFAULT nextval(...); DROP SEQUENCE
 *
 * The node's ALTER TABLE rewrites the rows, as core would do on the coordinator.  If a default calls anything else,
 * the coordinator computes it row by row (ddl_alter.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_sequence.h"
#include "catalog/qualified.h"
#include "catalog_scan.h"
#include "commands/sequence.h"
#include "common/int.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_text.h"
#include "guc.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

/* Values of a sequence, taken for the rows of all shards. */
typedef struct FillSequence
{
	const char *name;			/* qualified and quoted */
	int64		increment;
	int64	   *first;			/* first value of each shard's share */
	int64	   *count;			/* rows of each shard; 0: first is unused, and was not taken from the sequence */
} FillSequence;

/* What is asked on the nodes before. */
typedef struct FillQuestion
{
	List	   *functions;		/* OIDs */
	List	   *sequences;		/* OIDs */
	int64	   *count;			/* rows of each shard, if there are sequences */
	bool		possible;		/* on all nodes */
} FillQuestion;

/* Query: has the node the functions, and are the names of the sequences free? */
static char *
question_of(const ShardDdlTable *table, List *shardnos, void *arg)
{
	FillQuestion *question = arg;
	StringInfoData condition;
	StringInfoData sql;

	initStringInfo(&condition);
	appendStringInfoString(&condition, "true");
	foreach_oid(function, question->functions)
		appendStringInfo(&condition, " AND pg_catalog.to_regprocedure(%s) IS NOT NULL", quote_literal_cstr(format_procedure_qualified(function)));
	foreach_oid(sequence, question->sequences)
		appendStringInfo(&condition, " AND pg_catalog.to_regclass(%s) IS NULL AND coalesce(pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace(%s)::pg_catalog.oid, 'CREATE'), false)",
						 quote_literal_cstr(shard_qualified_relation(sequence)),
						 quote_literal_cstr(quote_identifier(get_namespace_name(get_rel_namespace(sequence)))));
	initStringInfo(&sql);
	foreach_int(shardno, shardnos)
		appendStringInfo(&sql, "%sSELECT %d, (SELECT pg_catalog.count(*) FROM ONLY %s%s), %s", sql.len > 0 ? " UNION ALL " : "", shardno,
						 table->shards[shardno].relation, question->sequences == NIL ? " WHERE false" : "", condition.data);
	return sql.data;
}

static void
take_answer(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	FillQuestion *question = arg;

	shard_ddl_need_fields(table, nfields, fields, 2);
	question->count[shardno] = pg_strtoint64(fields[0]);
	question->possible = question->possible && strcmp(fields[1], "t") == 0;
}

/* Takes values for all rows.  False: another session has taken some in between, so shards cannot have ranges. */
static bool
take_values(const ShardDdlTable *table, Oid sequence, FillSequence *fill)
{
	int64		expected = 0;

	for (int i = 0; i < table->nshards; i++)
	{
		fill->first[i] = 1;
		for (int64 n = 0; n < fill->count[i]; n++)
		{
			int64		value = nextval_internal(sequence, true);

			CHECK_FOR_INTERRUPTS();
			if (n == 0)
				fill->first[i] = value;
			else if (value != expected)
				return false;
			expected = value + fill->increment;
		}
	}
	return true;
}

static int64
increment_of(Oid sequence)
{
	return DatumGetInt64(shard_catalog_value(SEQRELID, sequence, Anum_pg_sequence_seqincrement));
}

char *
shard_fill_default(ShardAlterState *state, Relation rel, AttrNumber attno)
{
	FillQuestion question = {.possible = true};
	char	   *text;

	/*
	 * a session that follows another coordinator sends nothing; replicas of reference tables must get the coordinator's
	 * values
	 */
	if (shard_guc_follows_coordinator || state->table->is_reference)
		return NULL;
	text = shard_ddl_text_row_default(rel, attno, &question.functions, &question.sequences);
	if (text == NULL)
		return NULL;
	/* rows that the transaction's snapshot does not show would not be counted */
	if (question.sequences != NIL && IsolationUsesXactSnapshot())
		return NULL;
	foreach_oid(sequence, question.sequences)
		if (list_member_oid(state->filled_from, sequence))
			return NULL;
	if (question.sequences != NIL)
		shard_ddl_lock_shards(state->table, "ACCESS EXCLUSIVE", false);
	question.count = palloc0(sizeof(int64) * state->table->nshards);
	shard_ddl_ask(state->table, question_of, take_answer, &question);
	if (!question.possible)
		return NULL;
	foreach_oid(sequence, question.sequences)
	{
		FillSequence *fill = palloc(sizeof(FillSequence));

		fill->name = shard_qualified_relation(sequence);
		fill->increment = increment_of(sequence);
		fill->first = palloc(sizeof(int64) * state->table->nshards);
		fill->count = question.count;
		if (!take_values(state->table, sequence, fill))
			return NULL;
		state->fills = lappend(state->fills, fill);
		state->filled_from = lappend_oid(state->filled_from, sequence);
	}
	return text;
}

void
shard_fill_before(const ShardAlterState *state, ShardDdlBatch *batch)
{
	foreach_ptr(const FillSequence, fill, state->fills)
	{
		for (int i = 0; i < state->table->nshards; i++)
		{
			int64		first = fill->first[i];
			int64		last = first + (Max(fill->count[i], 1) - 1) * fill->increment;
			int64		bound = first;

			/* a sequence needs at least two values; the value before the first is never used */
			if (first == last && pg_sub_s64_overflow(first, fill->increment, &bound))
				bound = first + fill->increment;
			/* with more rows than were counted, nextval() raises an error */
			shard_ddl_batch_add(batch, i, "CREATE SEQUENCE %s INCREMENT BY " INT64_FORMAT " MINVALUE " INT64_FORMAT " MAXVALUE " INT64_FORMAT " START " INT64_FORMAT " NO CYCLE",
								fill->name, fill->increment, Min(bound, last), Max(bound, last), first);
		}
	}
}

void
shard_fill_after(const ShardAlterState *state, ShardDdlBatch *batch)
{
	foreach_ptr(FillSequence, fill, state->fills)
		for (int i = 0; i < state->table->nshards; i++)
			shard_ddl_batch_add(batch, i, "DROP SEQUENCE %s", fill->name);
}
