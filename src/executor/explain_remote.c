/*
 * explain_remote.c
 *	  EXPLAIN output that needs nodes: shardfdw.explain_remote.
 *
 *	   EXPLAIN VERBOSE	the node's plan for the query of the first shard
 *						that is read
 *	   ... and ANALYZE	what that query really did, and how much the queries
 *						of the shards differ
 *
 * The figures of all queries were measured on the coordinator while they ran.  A node does not
 * report what it did for a COPY.  So to get its real plan, the query of that one shard is run once
 * more, without row locks.
 *
 * If a node does not answer, that is a WARNING: the statement may have succeeded already
 * (auto_explain), and must not fail because of it.
 *
 * Parameters that have no value yet stay parameters, for which a node of version 16 or later makes
 * a generic plan.
 *
 * For a statement that a shard runs as a whole there are no queries to compare.  So only the node's
 * plan is shown.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/explain_remote.h"
#include "executor/scan/scan.h"
#include "executor/scan/scan_share.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "remote/pool/pool.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#define PROP_REMOTE_PLAN	"Remote Plan"
#define PROP_ROWS_PER		"Rows per Query"
#define PROP_BYTES_PER		"Bytes per Query"
#define PROP_FIRST_PER		"First Row Time per Query"
#define PROP_TIME_PER		"Time per Query"
#define PROP_MINIMUM		"Minimum"
#define PROP_MEDIAN			"Median"
#define PROP_MAXIMUM		"Maximum"

/* Longer lines are truncated in text format, since a condition can contain thousands of keys. */
#define MAX_LINE_BYTES		4096

/* First version of nodes with EXPLAIN (GENERIC_PLAN). */
#define GENERIC_PLAN_VERSION	160000

/* ------------------------------------------------------------------------
 * Asking
 * ------------------------------------------------------------------------ */

/* A node to query. */
typedef struct ExplainNode
{
	const Shard *shard;			/* on the node */
	Oid			userid;			/* the user whose mapping is used */
	int			workers;		/* see ShardStreamSpec */
	int			cpu_factor;
} ExplainNode;

static ExplainNode
node_of_scan(const ShardScanState *state, int shardno)
{
	const Shard *shard = &state->maps[0]->shards[shardno];

	return (ExplainNode)
	{
		shard, state->userid, shard_share_node_workers(state, shard->nodeno),
			shard_share_node_cpu_factor(state, shard->nodeno)
	};
}

/* Runs sql on the node.  If it fails, raises a WARNING and returns NULL.  Memory: current context. */
static PGresult *
ask_node(const ExplainNode *node, const char *sql)
{
	ShardCommand command = {.serverid = node->shard->serverid, .userid = node->userid, .sql = sql,
		.label = node->shard->name, .workers = &node->workers, .cpu_factor = node->cpu_factor};
	bool		has_written;

	/* if the transaction has written, a savepoint prevents a failure from aborting it */
	has_written = shard_pool_get(node->shard->serverid, node->userid)->writer != NULL;
	shard_command_run(&command, 1, has_written ? SHARD_COMMAND_WRITE : SHARD_COMMAND_READ, true);
	if (command.error != NULL)
	{
		ereport(WARNING,
				(errcode(command.error->sqlerrcode),
				 errmsg("could not get the plan of a node: %s", command.error->message),
				 command.error->detail ? errdetail_internal("%s", command.error->detail) : 0));
		return NULL;
	}
	return command.result;
}

/* Returns the lines of the node's answer; NIL if it fails.  Checks their encoding. */
static List *
ask_lines(const ExplainNode *node, const char *sql)
{
	PGresult   *result = ask_node(node, sql);
	List	   *texts = NIL;
	List	   *lines = NIL;

	if (result == NULL)
		return NIL;
	for (int i = 0; PQnfields(result) == 1 && i < PQntuples(result); i++)
		texts = lappend(texts, pstrdup(PQgetvalue(result, i, 0)));

	foreach_ptr(char, text, texts)
	{
		char	   *next;

		(void) pg_verifymbstr(text, strlen(text), false);
		for (; text != NULL; text = next)
		{
			next = strchr(text, '\n');
			if (next != NULL)
				*next++ = '\0';
			lines = lappend(lines, text);
		}
	}
	return lines;
}

static bool
knows_generic_plans(const ExplainNode *node)
{
	List	   *lines = ask_lines(node, "SELECT pg_catalog.current_setting('server_version_num')");

	return lines != NIL && atoi(linitial(lines)) >= GENERIC_PLAN_VERSION;
}

static const char *
on_off(bool value)
{
	return value ? "on" : "off";
}

static const char *
format_name(ExplainFormat format)
{
	switch (format)
	{
		case EXPLAIN_FORMAT_XML:
			return "xml";
		case EXPLAIN_FORMAT_JSON:
			return "json";
		case EXPLAIN_FORMAT_YAML:
			return "yaml";
		default:
			return "text";
	}
}

/* Begins the command to send. run: the explained query may be run. */
static void
append_explain(StringInfo sql, bool run, bool generic, const ExplainState *es)
{
	appendStringInfo(sql, "EXPLAIN (VERBOSE, COSTS %s, SUMMARY off, FORMAT %s",
					 on_off(es->costs), format_name(es->format));
	if (run)
		appendStringInfo(sql, ", ANALYZE, TIMING %s, BUFFERS %s",
						 on_off(es->timing), on_off(es->buffers));
	if (generic)
		appendStringInfoString(sql, ", GENERIC_PLAN");
	appendStringInfoString(sql, ") ");
}

/*
 * Returns the command for the query of the first of shards, or, with one query per node, of all
 * shards of its node.
 */
static char *
explain_query(const ShardScanState *state, const Bitmapset *shards, bool run, bool generic,
			  const ExplainState *es)
{
	const ShardMap *map = state->maps[0];
	StringInfoData sql;
	int		   *shardnos = palloc(sizeof(int) * map->nshards);
	int			nshards = 0;
	int			shardno = bms_next_member(shards, -1);

	initStringInfo(&sql);
	append_explain(&sql, run, generic, es);
	shardnos[nshards++] = shardno;
	if (state->plan->shard_template != NIL)
	{
		int			nodeno = map->shards[shardno].nodeno;

		while ((shardno = bms_next_member(shards, shardno)) >= 0)
			if (map->shards[shardno].nodeno == nodeno)
				shardnos[nshards++] = shardno;
	}
	shard_scan_sql(state, shardnos, nshards, !generic, &sql);
	pfree(shardnos);
	return sql.data;
}

/* ------------------------------------------------------------------------
 * Showing
 * ------------------------------------------------------------------------ */

static bool
has_prefix(const char *line, const char *prefix)
{
	return strncmp(line, prefix, strlen(prefix)) == 0;
}

/*
 * Removes the beginning and the end of the document from a node's answer in the format of es.
 */
static List *
strip_document(List *lines, ExplainFormat format)
{
	List	   *body = NIL;
	bool		inside = false;

	foreach_ptr(char, line, lines)
	{
		switch (format)
		{
			case EXPLAIN_FORMAT_JSON:
				/* "[", "  {", members, "  }", "]" */
				if (strcmp(line, "  {") == 0)
					inside = true;
				else if (strcmp(line, "  }") == 0)
					inside = false;
				else if (inside)
					body = lappend(body, has_prefix(line, "    ") ? line + 4 : line);
				break;
			case EXPLAIN_FORMAT_XML:
				if (has_prefix(line, "  <Query>"))
					inside = true;
				else if (has_prefix(line, "  </Query>"))
					inside = false;
				else if (inside)
					body = lappend(body, has_prefix(line, "    ") ? line + 4 : line);
				break;
			case EXPLAIN_FORMAT_YAML:
				/* a list with one item */
				body = lappend(body, has_prefix(line, "- ") || has_prefix(line, "  ") ? line + 2 : line);
				break;
			default:
				body = lappend(body, line);
				break;
		}
	}
	return body;
}

/* Raises if a node's JSON would break the document that includes it. */
static void
check_json(List *lines)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	foreach_ptr(char, line, lines)
		appendStringInfo(&text, "%s\n", line);
	appendStringInfoChar(&text, '}');
	(void) DirectFunctionCall1(json_in, CStringGetDatum(text.data));
	pfree(text.data);
}

static void
show_plan(List *lines, ExplainState *es)
{
	lines = strip_document(lines, es->format);
	if (es->format == EXPLAIN_FORMAT_JSON)
		check_json(lines);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfoString(es->str, PROP_REMOTE_PLAN ":\n");
		foreach_ptr(const char, line, lines)
		{
			int			len = strlen(line);
			int			shown = pg_mbcliplen(line, len, MAX_LINE_BYTES);

			appendStringInfoSpaces(es->str, es->indent * 2 + 2);
			appendBinaryStringInfo(es->str, line, shown);
			appendStringInfoString(es->str, shown < len ? "...\n" : "\n");
		}
		return;
	}

	ExplainOpenGroup(PROP_REMOTE_PLAN, PROP_REMOTE_PLAN, true, es);
	foreach_ptr(char, text, lines)
	{
		/* in XML a line break follows each line, in the other formats it precedes it */
		if (es->format != EXPLAIN_FORMAT_XML)
			appendStringInfoChar(es->str, '\n');
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfoString(es->str, text);
		if (es->format == EXPLAIN_FORMAT_XML)
			appendStringInfoChar(es->str, '\n');
	}
	ExplainCloseGroup(PROP_REMOTE_PLAN, PROP_REMOTE_PLAN, true, es);
}

static int
compare_doubles(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return left < right ? -1 : left > right ? 1 : 0;
}

/* Sorts values.  There must be at least one. */
static void
show_spread(const char *label, const char *unit, int ndigits, double *values, int nvalues,
			ExplainState *es)
{
	double		median;

	qsort(values, nvalues, sizeof(double), compare_doubles);
	median = (values[(nvalues - 1) / 2] + values[nvalues / 2]) / 2;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		char	   *text = psprintf("min %.*f, median %.*f, max %.*f%s", ndigits, values[0],
									ndigits, median, ndigits, values[nvalues - 1], unit);

		ExplainPropertyText(label, text, es);
		pfree(text);
		return;
	}
	ExplainOpenGroup(label, label, true, es);
	ExplainPropertyFloat(PROP_MINIMUM, NULL, values[0], ndigits, es);
	ExplainPropertyFloat(PROP_MEDIAN, NULL, median, ndigits, es);
	ExplainPropertyFloat(PROP_MAXIMUM, NULL, values[nvalues - 1], ndigits, es);
	ExplainCloseGroup(label, label, true, es);
}

/* Shows how much the queries differ.  Per query, averages over its executions. */
static void
show_figures(const ShardScanState *state, ExplainState *es)
{
	int			nshards = state->maps[0]->nshards;
	double	   *rows = palloc(sizeof(double) * nshards);
	double	   *bytes = palloc(sizeof(double) * nshards);
	double	   *first = palloc(sizeof(double) * nshards);
	double	   *total = palloc(sizeof(double) * nshards);
	int			n = 0;

	for (int i = 0; i < nshards; i++)
	{
		const ShardScanFigures *figures = &state->figures[i];

		if (figures->nqueries == 0)
			continue;
		rows[n] = (double) figures->rows / figures->nqueries;
		bytes[n] = (double) figures->bytes / figures->nqueries;
		first[n] = figures->first_ms / figures->nqueries;
		total[n++] = figures->total_ms / figures->nqueries;
	}
	if (n == 0)
		return;
	show_spread(PROP_ROWS_PER, "", 0, rows, n, es);
	show_spread(PROP_BYTES_PER, "", 0, bytes, n, es);
	if (es->timing)
	{
		show_spread(PROP_FIRST_PER, " ms", 3, first, n, es);
		show_spread(PROP_TIME_PER, " ms", 3, total, n, es);
	}
}

/* ------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------ */

/* Evaluates the parameters, if their values can be known. */
static bool
evaluate_parameters(ForeignScanState *node, bool was_run)
{
	ShardScanState *state = node->fdw_state;

	if (state->running || shard_param_count(state->plan->template, state->plan->shard_template) == 0)
		return true;
	if (was_run || shard_param_has_exec(state->params) ||
		(node->ss.ps.state->es_top_eflags & SHARD_EXEC_FLAG_NO_PARAMS))
		return false;
	state->param_values = shard_param_evaluate(state->params, node->ss.ps.ps_ExprContext);
	return true;
}

/* Was this output requested, and can nodes be queried? */
static bool
is_wanted(const ExplainState *es)
{
	return shard_guc_explain_remote && es->verbose && IsTransactionState();
}

void
shard_explain_remote(ForeignScanState *node, const Bitmapset *shards, ExplainState *es)
{
	ShardScanState *state = node->fdw_state;
	int			shardno = bms_next_member(shards, -1);
	bool		was_run = es->analyze && state->running && !state->plan->locks_rows;

	if (!is_wanted(es))
		return;

	if (shardno >= 0)
	{
		ExplainNode asked = node_of_scan(state, shardno);
		bool		generic = !evaluate_parameters(node, es->analyze);
		char	   *sql = generic ? NULL : explain_query(state, shards, was_run, false, es);
		List	   *lines;

		/* no more rows will be requested, and the connections may be needed below */
		if (state->running)
			shard_scan_close_streams(node);
		if (generic && knows_generic_plans(&asked))
			sql = explain_query(state, shards, false, true, es);
		lines = sql == NULL ? NIL : ask_lines(&asked, sql);
		if (lines != NIL)
			show_plan(lines, es);
	}
	if (es->analyze && state->figures != NULL)
		show_figures(state, es);
}

void
shard_explain_remote_statement(const Shard *shard, Oid userid, const char *statement, bool run,
							   bool generic, ExplainState *es)
{
	ExplainNode asked = {shard, userid, -1, 0};
	StringInfoData sql;
	List	   *lines;

	if (!is_wanted(es) || (generic && !knows_generic_plans(&asked)))
		return;
	initStringInfo(&sql);
	append_explain(&sql, run, generic, es);
	appendStringInfoString(&sql, statement);
	lines = ask_lines(&asked, sql.data);
	if (lines != NIL)
		show_plan(lines, es);
}
