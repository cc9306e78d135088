/*
 * comment.c
 *	  Comments that tell a node to which statement of a client a message belongs.
 *
 *	 traceparent='00-...-01';  SELECT ...  shardfdw_query_id='-42'	both as comments
 *
 * The query id is inside the statement's text, so that the node's pg_stat_statements shows it.  The
 * traceparent differs each time.  So it precedes a semicolon: this text belongs to no statement,
 * and pg_stat_statements omits it.  Otherwise PostgreSQL 15 would have a separate entry for each
 * COPY and other utility statement, because it identifies them by their text.  The traceparent is
 * first, so that a log or pg_stat_activity that truncates long texts still shows it.
 *
 * A statement is prepared on a node under its text without comments.  The Parse message contains
 * the query id, but no traceparent.
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "remote/wire/comment.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"

#define TRACEPARENT_CHARS 55	/* version, trace, parent and flags, as hexadecimal digits with '-' between them */

/* Is p a traceparent (W3C Trace Context)?  Reads no further than its first wrong character. */
static bool
is_traceparent(const char *p)
{
	static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

	StaticAssertStmt(sizeof(form) - 1 == TRACEPARENT_CHARS, "form is that of a traceparent");
	for (int i = 0; i < TRACEPARENT_CHARS; i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char) p[i]) : p[i] != '-')
			return false;
	return true;
}

/*
 * Returns the traceparent in the comment between start and end; NULL: none. sqlcommenter writes
 * key='value' pairs, separated by commas.
 */
static const char *
find_in_comment(const char *start, const char *end)
{
	static const char key[] = "traceparent='";

	for (const char *p = start; p + strlen(key) + TRACEPARENT_CHARS < end; p++)
		if (strchr("*, ", p[-1]) && strncmp(p, key, strlen(key)) == 0 &&
			is_traceparent(p + strlen(key)) && p[strlen(key) + TRACEPARENT_CHARS] == '\'')
			return p + strlen(key);
	return NULL;
}

/*
 * Returns the traceparent of a statement's text; NULL: none.  Searches only where clients put it,
 * in a comment at the beginning or the end of the text.  Elsewhere it may be part of a literal.
 */
static const char *
find_in_text(const char *text)
{
	const char *end = text + strlen(text);
	const char *found = NULL;
	const char *close;

	while (isspace((unsigned char) *text))
		text++;
	if (strncmp(text, "/*", 2) == 0 && (close = strstr(text + 2, "*/")) != NULL)
		found = find_in_comment(text + 2, close);
	while (end > text && (isspace((unsigned char) end[-1]) || end[-1] == ';'))
		end--;
	if (!found && end - text >= 4 && strncmp(end - 2, "*/", 2) == 0)
	{
		for (const char *open = end - 4; open >= text; open--)
			if (strncmp(open, "/*", 2) == 0)
				return find_in_comment(open + 2, end - 2);
	}
	return found;
}

const char *
shard_comment_trace(bool *sampled)
{
	static char comment[TRACEPARENT_CHARS + sizeof("/*traceparent=''*/; ")];
	static bool is_sampled;
	static const char *seen_text = NULL;
	static TimestampTz seen_at = 0;

	*sampled = false;
	if ((shard_guc_remote_comments & SHARD_COMMENT_TRACEPARENT) == 0 || !debug_query_string)
		return "";

	/* only once for each statement of the client, which may send many to nodes */
	if (debug_query_string != seen_text || GetCurrentStatementStartTimestamp() != seen_at)
	{
		const char *trace = find_in_text(debug_query_string);

		seen_text = debug_query_string;
		seen_at = GetCurrentStatementStartTimestamp();
		comment[0] = '\0';
		is_sampled = false;
		if (trace)
		{
			snprintf(comment, sizeof(comment), "/*traceparent='%.*s'*/; ", TRACEPARENT_CHARS, trace);
			is_sampled = strchr("13579bBdDfF", trace[TRACEPARENT_CHARS - 1]) != NULL;	/* the lowest bit of flags */
		}
	}
	*sampled = is_sampled;
	return comment;
}

const char *
shard_comment_query_id(void)
{
	static char comment[64];
	int64		id;

	if ((shard_guc_remote_comments & SHARD_COMMENT_QUERY_ID) == 0)
		return "";
	id = (int64) pgstat_get_my_query_id();
	if (id == 0)
		return "";
	snprintf(comment, sizeof(comment), " /*shardfdw_query_id='" INT64_FORMAT "'*/", id);
	return comment;
}
