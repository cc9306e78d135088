/*
 * resume.c
 *	  COPY with the option RESUME: a load that commits in parts, and can continue after the last committed part.
 *
 *	 lock name --> read row --> compare input with checksum --+--> part --> row: position --> commit --+
 *	                                                          |                                         |
 *	                                                          +------------------<----------------------+
 *
 * Invariant: the committed rows are those of the input lines before the position in the load's row.  Rows and
 * position are committed by the same two-phase commit.  After any crash, either the whole part is committed, with its
 * position, or nothing.  A session reads the last committed position, because one session at a time has the load's
 * lock.
 *
 * The input must be the same: its first bytes, up to the position, must have the CRC-32C that was committed with the
 * position.  The size and times of a file prove less, and clients and programs have none.  So each input is read from
 * its beginning, and the part that is already loaded is only used for the checksum.  Data after the position may have
 * changed: if a line has caused an error, the user can correct it.
 *
 * A finished load keeps its row.  If the connection was lost during the last commit, the client does not know that
 * the load has finished, and runs the statement again.  Then it must not load the data a second time.
 *
 * Commits within a statement work as in core's VACUUM.  The statement is alone in its transaction.  The snapshot of
 * its portal is released first.  Data that outlives a transaction is in the portal's memory.  A session lock on the
 * table protects its definition.  Shards may be moved or split between two parts, so each part looks them up again.
 * The statement ends in a new, empty transaction.
 *
 * copy_load.c runs a part. raw/copy_lines.c finds the ends of lines.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catch.h"
#include "commands/defrem.h"
#include "compat.h"
#include "deparse/print_settings.h"
#include "guc.h"
#include "load/input/resume_row.h"
#include "load/resume.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"

/* Size of a part without COMMIT_ROWS.  Loading it takes some hundred times as long as a commit. */
#define PART_BYTES (UINT64CONST(256) * 1024 * 1024)

/* Assumed size of a line if none is known. */
#define USUAL_LINE_BYTES 100

struct ShardResume
{
	MemoryContext cxt;			/* outlives transactions */
	bool		locked;			/* load and table are locked, and row and table are set */
	ShardResumeRow row;
	LockRelId	table;
	ShardCopyOptions options;	/* of the current part */
	ShardCopyInput *input;		/* NULL: not open yet */
	ShardCopyLines *lines;		/* NULL: before the first part of the session */
	bool		done;			/* this was the last part */
};

/* ---------- how lines become rows ---------- */

static int
compare_options(const ListCell *a, const ListCell *b)
{
	return strcmp(((const DefElem *) lfirst(a))->defname, ((const DefElem *) lfirst(b))->defname);
}

/* Describes as text how lines of the input become rows: columns, options of COPY, WHERE. */
static char *
describe(const ShardCopyOptions *options, const Node *where, CopyFromState source)
{
	Relation	rel = source->rel;
	List	   *core = list_copy(options->described);
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "columns");
	foreach_int(attno, source->attnumlist)
		appendStringInfo(&text, " %s", quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname)));
	appendStringInfo(&text, "; encoding %s", pg_encoding_to_char(source->file_encoding));
	list_sort(core, compare_options);
	foreach_node(DefElem, def, core)
	{
		if (strcmp(def->defname, "encoding") != 0)
			appendStringInfo(&text, ", %s %s", def->defname, def->arg ? quote_literal_cstr(defGetString(def)) : "true");
	}
	shard_copy_option_describe(options, &text);
	if (where)
	{
		int			nestlevel = shard_print_settings_begin();

		appendStringInfo(&text, "; WHERE %s",
						 deparse_expression((Node *) make_ands_explicit((List *) where),
											deparse_context_for(RelationGetRelationName(rel), RelationGetRelid(rel)),
											false, false));
		shard_print_settings_end(nestlevel);
	}
	return text.data;
}

/* ---------- parts ---------- */

/* With '1pc', a crash could leave the rows of a part without their position. */
static void
check_protocol(void)
{
	if (shard_guc_commit_protocol == SHARD_COMMIT_1PC)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("COPY RESUME needs atomic commits"),
				 errhint("Set shardfdw.commit_protocol to '2pc'.")));
}

/* Raises an error unless rel is the table for which the load was started. */
static void
check_table(const ShardResumeRow *row, Relation rel)
{
	const char *name;

	if (row->relid == RelationGetRelid(rel))
		return;
	name = get_rel_name(row->relid);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("load \"%s\" was begun with another table", row->name),
			 name ? errdetail("It loads table \"%s\".", name) : errdetail("Its table has been dropped."),
			 errhint("Choose another name, or have the load forgotten by shardfdw.forget_load().")));
}

void
shard_resume_begin(ShardResume *resume, Relation rel, const ShardCopyOptions *options)
{
	MemoryContext oldcxt;

	resume->options = *options;
	if (resume->locked)
		return;
	if (!shard_resume_row_lock(GetUserId(), options->resume, true))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("load \"%s\" is running", options->resume),
				 errhint("View shardfdw.resumable_loads shows its process.")));
	oldcxt = MemoryContextSwitchTo(resume->cxt);
	shard_resume_row_read(GetUserId(), pstrdup(options->resume), &resume->row);
	MemoryContextSwitchTo(oldcxt);
	resume->table = rel->rd_lockInfo.lockRelId;
	LockRelationIdForSession(&resume->table, RowExclusiveLock);
	resume->locked = true;

	if (resume->row.exists)
		check_table(&resume->row, rel);
	else
	{
		resume->row.relid = RelationGetRelid(rel);
		resume->row.started = GetCurrentTimestamp();
	}
}

const ShardRejectCounts *
shard_resume_rejects(const ShardResume *resume)
{
	return resume->row.exists ? &resume->row.rejects : NULL;
}

/* Raises the error that the input differs from the input that was loaded. */
static void
raise_changed(const ShardResume *resume, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the input of load \"%s\" has changed", resume->row.name),
			 errdetail_internal("%s", detail),
			 errhint("Load from the same input, or choose another name, or have the load forgotten by shardfdw.forget_load().")));
}

/*
 * Is there more input?  An end-of-data marker from the client does not count: one psql version may send it and
 * another one may not.
 */
static bool
has_more(const ShardResume *resume, bool is_client)
{
	char		rest[3];
	size_t		nrest = 0;
	size_t		nread;

	while (nrest < sizeof(rest) &&
		   (nread = shard_copy_input_read(resume->input, rest + nrest, sizeof(rest) - nrest)) > 0)
		nrest += nread;
	if (is_client && resume->options.record_length == 0 && nrest >= 2 && memcmp(rest, "\\.", 2) == 0)
		return nrest == 3 && rest[2] != '\n' && rest[2] != '\r';
	return nrest > 0;
}

/* Reads the input up to the position, and compares it with the loaded input. */
static void
read_loaded(ShardResume *resume, bool is_client)
{
	const ShardResumeRow *row = &resume->row;
	char	   *buf = palloc(BLCKSZ * 32);
	uint64		nleft = row->nbytes;
	pg_crc32c	sum;

	INIT_CRC32C(sum);
	while (nleft > 0)
	{
		size_t		nread;

		CHECK_FOR_INTERRUPTS();
		nread = shard_copy_input_read(resume->input, buf, Min(nleft, BLCKSZ * 32));
		if (nread == 0)
			raise_changed(resume, psprintf(_("It has %llu bytes, and %llu bytes have been loaded."),
										   (unsigned long long) (row->nbytes - nleft), (unsigned long long) row->nbytes));
		COMP_CRC32C(sum, buf, nread);
		nleft -= nread;
	}
	FIN_CRC32C(sum);
	if (!EQ_CRC32C(sum, row->checksum))
		raise_changed(resume, psprintf(_("Its first %llu bytes, %llu lines, are not those that have been loaded."),
									   (unsigned long long) row->nbytes, (unsigned long long) row->nlines));
	if (row->finished && row->whole && has_more(resume, is_client))
		raise_changed(resume, psprintf(_("It goes on after the %llu bytes with which the load has finished."),
									   (unsigned long long) row->nbytes));
	pfree(buf);
}

bool
shard_resume_open(ShardResume *resume, const CopyStmt *stmt, const Node *where, CopyFromState source,
				  ShardCopyIdleHook idle, void *arg)
{
	ShardResumeRow *row = &resume->row;
	MemoryContext oldcxt;
	char	   *definition;

	if (resume->input)
	{
		shard_copy_input_attach(resume->input, source, idle, arg);
		return true;
	}

	definition = describe(&resume->options, where, source);
	if (row->exists && strcmp(row->definition, definition) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("load \"%s\" was begun with other columns or options", row->name),
				 errdetail("It was begun with \"%s\", and is to go on with \"%s\".", row->definition, definition)));
	oldcxt = MemoryContextSwitchTo(resume->cxt);
	row->definition = pstrdup(definition);
	resume->input = shard_copy_input_open(stmt, list_length(source->attnumlist));
	MemoryContextSwitchTo(oldcxt);
	shard_copy_input_attach(resume->input, source, idle, arg);
	if (!row->exists)
		return true;

	read_loaded(resume, stmt->filename == NULL);
	if (row->finished)
	{
		shard_copy_input_drain(resume->input);
		shard_copy_input_close(resume->input);
		ereport(NOTICE,
				(errmsg("load \"%s\" has finished before: nothing is left to be loaded", row->name)));
		resume->done = true;
		return false;
	}
	ereport(NOTICE,
			(errmsg("load \"%s\" goes on after line %llu, byte %llu", row->name,
					(unsigned long long) row->nlines, (unsigned long long) row->nbytes)));
	return true;
}

ShardCopyInput *
shard_resume_input(const ShardResume *resume)
{
	return resume->input;
}

ShardCopyLines *
shard_resume_lines(ShardResume *resume, const ShardLineFormat *format, const ShardFixedLayout *layout,
				   int nheader, ShardLineProbe *probe)
{
	ShardCopyLines *lines = resume->lines;

	if (lines)
	{
		shard_copy_lines_begin_part(lines, format, layout, probe);
		return lines;
	}

	lines = shard_copy_lines_create(resume->cxt, resume->input, format, layout, nheader, probe, &resume->options);
	lines->in_parts = true;
	INIT_CRC32C(lines->sum);
	if (resume->row.exists)
	{
		lines->nheader = 0;
		lines->nskip = 0;
		lines->nleft = resume->row.nleft;
		lines->scan.eol = resume->row.eol;
		lines->base = lines->nsummed = resume->row.nbytes;
		lines->lineno_before = lines->lineno = resume->row.nlines;
		lines->sum = resume->row.checksum;
		FIN_CRC32C(lines->sum); /* restores the state before FIN_CRC32C: the operation is its own inverse */
	}
	resume->lines = lines;
	return lines;
}

void
shard_resume_plan(ShardResume *resume, const ShardRejects *rejects)
{
	ShardCopyLines *lines = resume->lines;

	lines->pause_bytes = lines->pause_nrows = PG_UINT64_MAX;
	if (resume->options.commit_rows > 0)
		lines->pause_nrows = lines->nrows + resume->options.commit_rows;
	else
		lines->pause_bytes = lines->base + lines->pos + PART_BYTES;

	/* all of the first lines have to be in one part, to find out whether all of them are wrong */
	lines->least_lineno = lines->lineno + 1;
	if (rejects && !resume->row.exists)
		lines->least_lineno = shard_reject_first_lines_end(rejects);
}

uint64
shard_resume_part_bytes(const ShardResume *resume, uint64 nbytes)
{
	const ShardCopyLines *lines = resume->lines;
	uint64		position = lines->base + lines->pos;
	uint64		part_bytes = PART_BYTES;

	if (resume->options.commit_rows > 0)
	{
		/* a row has one line or more */
		uint64		line_bytes = lines->lineno > 0 ? Max(position / lines->lineno, 1) : USUAL_LINE_BYTES;

		part_bytes = Min((uint64) resume->options.commit_rows, PG_UINT64_MAX / line_bytes) * line_bytes;
	}
	return Min(part_bytes, nbytes - Min(nbytes, position));
}

bool
shard_resume_is_last(const ShardResume *resume)
{
	return !resume->lines->paused;
}

void
shard_resume_end(ShardResume *resume, uint64 nrows, const ShardRejects *rejects)
{
	ShardResumeRow *row = &resume->row;

	if (!resume->lines)
		return;					/* the load had finished before */
	check_protocol();			/* a function of the load may have changed it */
	resume->done = shard_resume_is_last(resume);
	if (resume->done)
		shard_copy_input_close(resume->input);
	row->nbytes = shard_copy_lines_position(resume->lines, &row->checksum);
	row->nlines = resume->lines->lineno;
	row->eol = resume->lines->scan.eol;
	row->nleft = resume->lines->nleft;
	row->nrows += nrows;
	if (rejects)
		row->rejects = *shard_reject_counts(rejects);
	row->finished = resume->done ? GetCurrentTimestamp() : 0;
	row->whole = resume->done && !resume->lines->stopped && resume->lines->at_end &&
		resume->lines->pos == resume->lines->end;
	shard_resume_row_write(row);
	row->exists = true;
}

/* ---------- the statement ---------- */

/* The line of an error's context that has the position in the input, otherwise the first line. */
static const char *
place_of(const char *context)
{
	for (const char *line = context; line != NULL; line = strchr(line, '\n'))
	{
		line += *line == '\n';
		if (strncmp(line, "COPY ", strlen("COPY ")) == 0)
			return line;
	}
	return context;
}

/* The error that has ended a load, for its row. */
typedef struct ResumeError
{
	const ShardResumeRow *row;
	const char *text;
} ResumeError;

static void
note_error(void *arg)
{
	const ResumeError *error = arg;
	const ShardResumeRow *row = error->row;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());	/* updating a row requires one */
	if (shard_resume_row_lock(row->userid, row->name, false))
		shard_resume_row_note_error(row->userid, row->name, error->text);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(PortalContext);
}

/*
 * The load has ended with edata, which has released its locks.  Stores the error in the load's row, in a separate
 * transaction, and raises it.  If the error cannot be stored, the client still gets it.
 */
static void
fail(ShardResume *resume, ErrorData *edata)
{
	const char *context = edata->context ? place_of(edata->context) : "";
	ResumeError error = {&resume->row};

	error.text = psprintf("%s%s%.*s%s", edata->message, context[0] ? " (" : "",
						  (int) strcspn(context, "\n"), context, context[0] ? ")" : "");
	if (resume->locked)
		(void) shard_catch_transaction(note_error, &error, NULL, false);
	StartTransactionCommand();
	MemoryContextDelete(resume->cxt);	/* closes the input */
	ReThrowError(edata);
}

static void
commit_part(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	StartTransactionCommand();
	MemoryContextSwitchTo(PortalContext);
}

/* The parts of a load, which one function loads one after the other. */
typedef struct ResumeParts
{
	ShardResume *resume;
	ShardResumePart part;
	void	   *arg;
} ResumeParts;

static void
run_parts(void *arg)
{
	const ResumeParts *parts = arg;
	ShardResume *resume = parts->resume;

	while (!resume->done)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		parts->part(parts->arg, resume);
		commit_part();
	}
	UnlockRelationIdForSession(&resume->table, RowExclusiveLock);
	shard_resume_row_unlock(resume->row.userid, resume->row.name);
}

uint64
shard_resume_run(bool is_top_level, ShardResumePart part, void *arg)
{
	MemoryContext cxt;
	ShardResume *resume;
	ErrorData  *error;
	uint64		nrows;

	PreventInTransactionBlock(is_top_level, "COPY RESUME");
	check_protocol();
	ForgetPortalSnapshots();
	cxt = AllocSetContextCreate(PortalContext, "shardfdw resumable load", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(PortalContext);
	resume = MemoryContextAllocZero(cxt, sizeof(ShardResume));
	resume->cxt = cxt;
	error = shard_catch_transaction(run_parts, &(ResumeParts) {resume, part, arg}, NULL, false);
	if (error != NULL)
		fail(resume, error);
	nrows = resume->row.nrows;
	MemoryContextDelete(cxt);
	return nrows;
}
