/*
 * load_raw.c
 *	  COPY FROM in raw mode: forwards unchanged lines to the shards.
 *
 * The coordinator reads only the end of each line and its shard key.  With ON_ERROR 'ignore' it also checks whether
 * each field has the usual form of its type (line_check.c).
 */
#include "postgres.h"

#include "catalog/route.h"
#include "commands/progress.h"
#include "compat.h"
#include "replica/replica.h"
#include "load/load_private.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/backend_progress.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define PROGRESS_ROWS 1024		/* between two updates of pg_stat_progress_copy */
#define MAX_RUN_ROWS 256

/*
 * True if the line may end within a character.  Then the node would take the line end for a part of that character,
 * and its error would show other bytes than core's error.
 */
static bool
ends_within_character(const ShardLoad *load)
{
	const char *end = load->row + load->row_line->content_bytes;
	int			encoding = load->filter ? GetDatabaseEncoding() : load->source->file_encoding;
	const char *p;

	if (likely(!load->row_line->high_tail))
		return false;
	if (encoding != PG_UTF8)
		return !pg_verify_mbstr(encoding, load->row, load->row_line->content_bytes, true);

	/* first byte of a character whose other bytes are not all in the line; other bytes may follow it */
	for (p = end - Min(load->row_line->content_bytes, 3); p < end; p++)
	{
		if (IS_HIGHBIT_SET(*p) && pg_utf_mblen((const unsigned char *) p) > end - p)
			return true;
	}
	return false;
}

/* True if the last line has no line end and ends in a backslash, which would escape the line end that is added. */
static inline bool
ends_in_backslash(const ShardLoad *load)
{
	const ShardLine *line = load->row_line;

	return unlikely(line->content_bytes == line->nbytes) && line->nbytes > 0 &&
		load->row[line->nbytes - 1] == '\\' && !shard_copy_is_csv(&load->cstate->opts);
}

/*
 * Core counts line breaks within quotes as lines.  Before the end of the first line, core does not know the line end
 * and counts each CR.  Nodes know it from their header line (NL if no line of the input has a line end).
 */
static inline bool
breaks_are_miscounted(const ShardLoad *load)
{
	return unlikely(load->lines->lineno_before == 0) && !shard_load_row_is_made(load) &&
		(load->lines->scan.eol == SHARD_EOL_NL || load->lines->scan.eol == SHARD_EOL_UNKNOWN) &&
		shard_copy_is_csv(&load->cstate->opts) &&
		(load->row_line->nbreaks > 0 || memchr(load->row, '\n', load->row_line->content_bytes) != NULL);
}

/* Like shard_load_row_breaks_line_before(), but the current row is the line with the CR. */
static inline bool
is_broken_behind(const ShardLoad *load)
{
	const ShardCopyLines *lines = load->lines;
	size_t		nbytes = shard_copy_lines_following(lines);

	return unlikely(lines->scan.eol == SHARD_EOL_CR) && !shard_load_row_is_made(load) && nbytes > 0 &&
		(lines->lineno_before == 0 || shard_copy_is_csv(&load->cstate->opts)) &&
		(lines->at_end || nbytes >= (size_t) pg_encoding_max_length(load->source->file_encoding)) &&
		shard_line_probe_is_no_character(load->source, lines->buf + lines->pos, nbytes);
}

/* True for a line to which none of the above exceptions can apply. */
static inline bool
is_plain(const ShardLoad *load, const ShardLine *line)
{
	return likely(line->oddity == SHARD_LINE_NOT_ODD && !line->high_tail &&
				  line->content_bytes < line->nbytes && load->lines->lineno_before > 1 &&
				  load->lines->scan.eol != SHARD_EOL_CR);
}

/* True if the line at bytes has the same key as the previous row. */
static inline bool
has_last_key(const ShardLoad *load, const char *bytes, const ShardLine *line)
{
	const ShardLineField *field = &line->fields[0];
	const char *key = bytes + field->start;

	if (field->nbytes != load->last_key_bytes || field->nbytes == 0 || !field->plain)
		return false;
	/* backwards: increasing numbers differ in their last bytes */
	for (size_t i = field->nbytes; i-- > 0;)
		if (key[i] != load->last_key[i])
			return false;
	return true;
}

static inline void
remember_key(ShardLoad *load)
{
	const ShardLineField *field = &load->row_line->fields[0];

	if (load->format.nkeys != 1 || !field->plain || field->nbytes > SHARD_LAST_KEY_BYTES)
		return;
	memcpy(load->last_key, load->row + field->start, field->nbytes);
	load->last_key_bytes = field->nbytes;
	load->last_shardno = load->shardno;
}

/*
 * Finds the shard of the row and sets load->shardno.  False: the row has none (it was rejected, or is the end of the
 * data).
 */
static bool
route_row(ShardLoad *load)
{
	const Datum *values;
	const bool *isnull;
	bool		clock_word = false;

	load->must_parse = false;
	if (!is_plain(load, load->row_line) &&
		(load->row_line->oddity != SHARD_LINE_NOT_ODD || ends_within_character(load) ||
		 ends_in_backslash(load) || shard_load_row_breaks_line_before(load) ||
		 breaks_are_miscounted(load) || is_broken_behind(load)))
	{
		/* a node of another major version may take \. for the end of data */
		load->must_parse = ends_in_backslash(load) ||
			(shard_copy_is_csv(&load->cstate->opts) &&
			 load->row_line->oddity == SHARD_LINE_ODD_MARKER);
		return shard_load_row_probe(load);
	}
	if (has_last_key(load, load->row, load->row_line))
	{
		load->shardno = load->last_shardno;
		return true;
	}
	load->last_key_bytes = 0;
	if (likely(shard_key_reader_read(load->keys, load->row, load->row_line, &clock_word,
									 &values, &isnull)))
	{
		load->shardno = shard_route_key(load->rel, load->partdesc, values, isnull);
		if (likely(load->shardno >= 0))
		{
			remember_key(load);
			return true;
		}
	}

	/* the key depends on the clock, and the node's clock may be on another day */
	load->must_parse = clock_word;
	return shard_load_row_probe(load);
}

static void
open_set(ShardLoad *load, int nconns)
{
	const ShardCopyOptions *options = load->options;

	load->set = shard_copy_set_create(load->cxt, shard_load_row_note_bad_line, load);
	shard_copy_set_user_lines(load->set);
	load->targets = MemoryContextAllocZero(load->cxt, load->map->nshards * sizeof(ShardCopyTarget *));
	load->stat = shard_copy_stat_begin(load->cxt, load->set, RelationGetRelid(load->rel), "raw", NULL);
	load->nconns = nconns;
	load->spread = nconns > 1;
	if (load->spread)
		shard_copy_set_spread(load->set, nconns);
	if (load->rejects)
		shard_copy_set_guard(load->set, options->ignore_errors, shard_load_row_refused, load);
	load->may_run = load->rejects == NULL && !shard_load_row_is_made(load) && load->plan.suffix == NULL &&
		load->format.nkeys == 1;
	if (options->duplicate != SHARD_DUPLICATE_ERROR)
		load->duplicates = shard_duplicate_open(load->cxt, load->map, load->plan.attnos,
												options->duplicate);
}

static void
close_set(ShardLoad *load)
{
	ShardCopySet *set = load->set;

	shard_copy_set_complete(set);
	for (int i = 0; i < load->map->nshards; i++)
		if (load->targets[i])
			shard_load_row_count_replaced(load, load->targets[i]);
	shard_copy_stat_end(load->stat);
	load->stat = NULL;
	load->set = NULL;
	shard_copy_set_finish(set);
}

static void
append_eol(StringInfo buf, ShardLineEol eol)
{
	if (eol == SHARD_EOL_CR || eol == SHARD_EOL_CRNL)
		appendStringInfoChar(buf, '\r');
	if (eol != SHARD_EOL_CR)
		appendStringInfoChar(buf, '\n');
}

/*
 * Locks a shard against moves, and returns its current server.  If the shard has moved since the load began, the
 * plans for its node no longer apply.
 */
static Oid
lock_shard(ShardLoad *load, const Shard *shard)
{
	Oid			serverid = shard_map_lock_shard(shard, RowExclusiveLock);

	if (serverid != shard->serverid && (load->duplicates || load->spread))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("shard %s has moved to another node while the load ran", shard->name),
				 errhint("Load again.")));
	return serverid;
}

/*
 * Opens a shard's target for its first row.  Only then asks the node whether it reads lines as the coordinator does,
 * because nodes without rows may be down.  False: it reads lines in another way.
 */
static bool
open_target(ShardLoad *load, int shardno)
{
	Shard		shard = load->map->shards[shardno];
	MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);
	const char *reason;
	ShardCopyTarget *target;
	StringInfoData header;
	char	   *sql;

	shard.serverid = lock_shard(load, &load->map->shards[shardno]);
	reason = shard_raw_mode_shard_reason(&shard, load->userid);
	if (reason != NULL)
	{
		ereport(DEBUG1,
				(errmsg_internal("COPY %s: rows are parsed on the coordinator from line %llu on: %s",
								 RelationGetRelationName(load->rel),
								 (unsigned long long) load->lines->lineno, reason)));
		MemoryContextSwitchTo(oldcxt);
		return false;
	}

	sql = shard_raw_mode_copy_sql(load->cstate, &load->plan, shard.relid);
	target = shard_copy_target_open(load->set, shard.serverid, load->userid, sql, load->plan.binary, shard.name);
	if (!load->plan.binary)
	{
		initStringInfo(&header);
		append_eol(&header, shard_load_row_eol(load));
		shard_copy_target_set_header(target, header.data);
	}
	if (load->clock != NULL)
		shard_replica_mirror(target, shard.relid);
	if (load->duplicates)
		shard_copy_target_set_staging(target,
									  shard_duplicate_staging(load->duplicates, shardno, sql));
	if (load->deferred)
		shard_copy_target_set_frame(target, shard_deferred_index_frame(load->deferred, shardno, load->nconns));
	shard_copy_stat_add(load->stat, target, shard.relid, shard.serverid);
	load->targets[shardno] = target;
	MemoryContextSwitchTo(oldcxt);
	return true;
}

static void
report_progress(ShardLoad *load)
{
	pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED, load->nsent - load->nrefused);
	if (load->next_report > 0)
		shard_copy_stat_publish(load->stat);	/* small loads are not published */
	load->next_report = load->nsent + PROGRESS_ROWS;
}

static inline void
note_sent(ShardLoad *load, uint32 nrows)
{
	load->nsent += nrows;
	if (unlikely(load->nsent >= load->next_report))
		report_progress(load);
}

/* Number of text lines that a node counts for the row. */
static uint32
lines_for_node(const ShardLoad *load)
{
	const ShardLine *line = load->row_line;
	uint32		nlines = 1;

	if (likely(!breaks_are_miscounted(load)))
		return 1 + line->nbreaks;
	for (size_t i = 0; i < line->content_bytes; i++)
		nlines += load->row[i] == '\n';
	return nlines;
}

static void
send_row(ShardLoad *load)
{
	const ShardLine *line = load->row_line;
	ShardCopyTarget *target = load->targets[load->shardno];
	StringInfo	buf;
	bool		is_source = !shard_load_row_is_made(load) && load->plan.suffix == NULL;

	buf = shard_copy_target_buffer(target);
	if (likely(load->plan.suffix == NULL && line->content_bytes < line->nbytes))
	{
		if (unlikely(line->nbytes >= buf->maxlen - buf->len))
			enlargeStringInfo(buf, line->nbytes);
		memcpy(buf->data + buf->len, load->row, line->nbytes);
		buf->len += line->nbytes;
	}
	else
	{
		appendBinaryStringInfo(buf, load->row, line->content_bytes);
		if (load->plan.suffix)
			appendStringInfoString(buf, load->plan.suffix);
		append_eol(buf, shard_load_row_eol(load));
	}
	shard_copy_target_put_row(target, load->lines->lineno, lines_for_node(load),
							  is_source ? NULL : load->lines->bytes,
							  is_source ? 0 : load->lines->line.nbytes);
	note_sent(load, 1);
}

/* Is one of the last three bytes not ASCII? */
static inline bool
has_high_tail(const char *bytes, int nbytes)
{
	char		high = 0;

	for (int i = Max(nbytes - 3, 0); i < nbytes; i++)
		high |= bytes[i];
	return IS_HIGHBIT_SET(high);
}

/* Sends the row of a fixed-width record.  False: its line is not plain, and has to be checked. */
static bool
send_record(ShardLoad *load)
{
	const ShardCopyLines *lines = load->lines;
	ShardCopyTarget *target = load->targets[load->shardno];
	StringInfo	buf = shard_copy_target_buffer(target);
	int			start = buf->len;

	if (load->plan.binary)
		shard_fixed_width_append_binary(load->fixed, lines->bytes, &lines->line, buf);
	else
	{
		bool		ascii = shard_fixed_width_append_line(load->fixed, lines->bytes, &lines->line, buf);

		/* it may end within a character */
		if (!ascii && has_high_tail(buf->data + start, buf->len - start))
		{
			buf->len = start;
			return false;
		}
		if (load->plan.suffix)
			appendStringInfoString(buf, load->plan.suffix);
		appendStringInfoCharMacro(buf, '\n');
	}
	shard_copy_target_put_row(target, lines->lineno, 1, lines->bytes, lines->line.nbytes);
	note_sent(load, 1);
	return true;
}

/*
 * Sends the current row together with the following rows that have the same key, by one copy operation.  Rows from
 * the same origin often have the same key.
 */
static void
send_run(ShardLoad *load)
{
	ShardCopyLines *lines = load->lines;
	StringInfo	buf = shard_copy_target_buffer(load->targets[load->shardno]);
	uint64		lineno = lines->lineno;
	size_t		nbytes = lines->line.nbytes;
	uint32		nrows = 1;
	const ShardLine *ahead;

	while (nrows < MAX_RUN_ROWS && (ahead = shard_copy_lines_peek(lines)) != NULL &&
		   is_plain(load, ahead) && ahead->nbreaks == 0 && has_last_key(load, load->row + nbytes, ahead))
	{
		nbytes += ahead->nbytes;
		nrows++;
		shard_copy_lines_take(lines);
	}
	if (unlikely(nbytes >= buf->maxlen - buf->len))
		enlargeStringInfo(buf, (int) nbytes);
	memcpy(buf->data + buf->len, load->row, nbytes);
	buf->len += (int) nbytes;
	shard_copy_target_put_rows(load->targets[load->shardno], lineno, nrows);
	note_sent(load, nrows);
}

/*
 * Lets core's parser check a row that does not pass the quick check, because a row that a shard rejects costs much
 * more.  False: the row is wrong, and was rejected.
 */
static bool
check_row(ShardLoad *load)
{
	if (likely(shard_line_check_passes(load->check, load->row, load->row_line->content_bytes)))
		return true;
	if (!shard_load_row_probe(load))
		return false;
	shard_line_check_was_good(load->check);
	return true;
}

/* Sends the current row if it is a fixed-width record whose shard is known.  False if it is not, or not plain. */
static bool
send_routed(ShardLoad *load)
{
	bool		sent;

	if (!load->routed)
		return false;
	sent = load->targets[load->shardno] != NULL && send_record(load);
	if (!sent)
		shard_load_row_spell(load);
	load->routed = false;
	return sent;
}

/* Returns false if core's parser has to read the current row and all following rows. */
static bool
send_rows(ShardLoad *load)
{
	while (shard_load_row_next(load))
	{
		if (load->by_position && send_routed(load))
			continue;
		if (!route_row(load))
		{
			if (!load->ended)
				continue;
			shard_copy_lines_stop(load->lines);
			break;
		}
		if (unlikely(load->must_parse))
			return false;
		if (unlikely(load->targets[load->shardno] == NULL) && !open_target(load, load->shardno))
			return false;
		if (load->check && !check_row(load))
			continue;
		if (load->clock != NULL && !shard_line_clock_passes(load->clock, load->row, load->row_line->content_bytes))
		{
			load->must_parse = true;
			return false;
		}
		if (load->plan.binary)
			(void) send_record(load);
		else if (load->may_run && is_plain(load, load->row_line) && load->row_line->nbreaks == 0)
			send_run(load);
		else
			send_row(load);
	}
	return true;
}

bool
shard_load_raw(ShardLoad *load, int nconns)
{
	bool		done;

	open_set(load, nconns);
	/* the shards' triggers note rows that may be rejected, or that are made from records */
	if (load->map->has_replicas && load->rejects == NULL && load->duplicates == NULL && load->fixed == NULL && !load->plan.binary)
	{
		load->clock = shard_line_clock_create(load->cxt, load->cstate);
		load->may_run &= shard_line_clock_is_idle(load->clock);
	}
	if (load->options->ignore_errors && load->filter == NULL && !load->plan.binary)
		load->check = shard_line_check_create(load->cxt, load->cstate);
	load->by_position = load->fixed != NULL && load->filter == NULL && load->check == NULL;
	if (load->by_position)
		shard_fixed_width_set_keys(load->fixed, load->keys, &load->format);
	done = send_rows(load);
	load->by_position = false;
	close_set(load);
	return done;
}
