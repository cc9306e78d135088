/*
 * reject.c
 *	  Rejected rows of a load.
 *
 *	 add --> count, limits --> sorted by line (spills to disk) --(finish)--> REJECT_FILE, REJECT_TABLE
 *
 * Nodes reject rows long after the coordinator has read them, and at different times.  Often this happens during a
 * wait in which no other statement may be sent to the nodes.  So rows are kept until the load has ended, and are then
 * written in the order of the input.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "load/input/reject.h"
#include "load/input/reject_file.h"
#include "load/input/reject_table.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/tuplesort.h"

/* If all lines up to this number are bad, the input has the wrong format, and the load fails. */
#define FIRST_LINES 1000

/* Columns of the sorted rows. */
enum
{
	KEPT_LINE = 1,
	KEPT_SQLSTATE,
	KEPT_COLUMN,
	KEPT_SHARD,
	KEPT_MESSAGE,
	KEPT_SOURCE,
	NKEPT = KEPT_SOURCE
};

/* The most likely fault of the first lines. */
typedef enum LineFault
{
	FAULT_FIELDS,				/* malformed, or too many or too few fields */
	FAULT_ENCODING,
	FAULT_VALUES,
	NFAULTS
} LineFault;

struct ShardRejects
{
	MemoryContext cxt;
	ResourceOwner owner;		/* owner of the sort's files */
	int64		limit;
	ShardCopyVerbosity verbosity;

	ShardRejectCounts counts;

	/* the first lines of the input */
	uint64		first_lineno;	/* number of the first data line */
	uint64		nfirst_bad;
	uint64		top_lineno;	/* the smallest reported line number among them */
	char	   *top_message;
	uint64		nfaults[NFAULTS];

	Tuplesortstate *sort;		/* NULL: rows are only counted */
	TupleTableSlot *put_slot;
	TupleTableSlot *get_slot;
	MemoryContext row_cxt;

	ShardRejectFile *file;
	const char *file_path;
	bool		records;		/* lines are records of arbitrary bytes */
	const char *eol;			/* line end of the input; NULL = not known yet */
	ShardRejectTable *table;
	const char *table_name;
};

static uint64
count_breaks(const char *bytes, size_t nbytes)
{
	uint64		n = 0;

	for (size_t i = 0; i < nbytes; i++)
	{
		if (bytes[i] == '\n' || (bytes[i] == '\r' && (i + 1 == nbytes || bytes[i + 1] != '\n')))
			n++;
	}
	return n;
}

/* The line end, or NULL if there is none. */
static const char *
line_end(const char *bytes, size_t nbytes)
{
	if (nbytes > 0 && bytes[nbytes - 1] == '\r')
		return "\r";
	if (nbytes > 0 && bytes[nbytes - 1] == '\n')
		return nbytes > 1 && bytes[nbytes - 2] == '\r' ? "\r\n" : "\n";
	return NULL;
}

static void
open_sort(ShardRejects *rejects)
{
	TupleDesc	desc = CreateTemplateTupleDesc(NKEPT);
	AttrNumber	key = KEPT_LINE;
	Oid			less = Int8LessOperator;
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	TupleDescInitEntry(desc, KEPT_LINE, "line", INT8OID, -1, 0);
	TupleDescInitEntry(desc, KEPT_SQLSTATE, "sqlstate", INT4OID, -1, 0);
	TupleDescInitEntry(desc, KEPT_COLUMN, "column", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, KEPT_SHARD, "shard", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, KEPT_MESSAGE, "message", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, KEPT_SOURCE, "source", BYTEAOID, -1, 0);
	shard_finalize_tuple_desc(desc);

	rejects->owner = CurrentResourceOwner;
	rejects->put_slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	rejects->get_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	rejects->row_cxt = AllocSetContextCreate(rejects->cxt, "shardfdw rejected row", ALLOCSET_DEFAULT_SIZES);
	rejects->sort = tuplesort_begin_heap(desc, 1, &key, &less, &collation, &nulls_first,
										 work_mem, NULL, TUPLESORT_NONE);
}

ShardRejects *
shard_reject_open(MemoryContext cxt, const ShardCopyOptions *options, Relation parent,
				  const ShardRejectCounts *before)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardRejects *rejects = palloc0(sizeof(ShardRejects));

	rejects->cxt = cxt;
	rejects->limit = options->reject_limit;
	rejects->verbosity = options->verbosity;
	rejects->first_lineno = options->skip + 1;
	if (before != NULL)
	{
		rejects->counts = *before;
		rejects->first_lineno = PG_UINT64_MAX - FIRST_LINES;	/* the first lines were in another part */
	}

	if (options->reject_table != NULL)
	{
		rejects->table = shard_reject_table_open(cxt, options->reject_table, parent, rejects->counts.load);
		rejects->counts.load = shard_reject_table_load(rejects->table);
		rejects->table_name = pstrdup(options->reject_table);
	}
	if (options->reject_file != NULL)
	{
		rejects->file = shard_reject_file_open(cxt, options->reject_file);
		rejects->file_path = pstrdup(options->reject_file);
	}
	if (rejects->file != NULL || rejects->table != NULL)
		open_sort(rejects);
	MemoryContextSwitchTo(oldcxt);
	return rejects;
}

void
shard_reject_begin(ShardRejects *rejects, const char *header, size_t header_bytes, uint64 nheader,
				   int source_encoding, bool records)
{
	rejects->records = records;
	rejects->first_lineno += nheader;
	if (rejects->table != NULL)
		shard_reject_table_set_encoding(rejects->table, source_encoding);
	if (rejects->file != NULL && header_bytes > 0)
	{
		rejects->eol = line_end(header, header_bytes);
		shard_reject_file_write(rejects->file, header, header_bytes);
	}
}

uint64
shard_reject_first_lines_end(const ShardRejects *rejects)
{
	return rejects->first_lineno + FIRST_LINES - 1;
}

/* Keeps the row for shard_reject_finish(). */
static void
keep_row(ShardRejects *rejects, const ShardReject *reject)
{
	TupleTableSlot *slot = rejects->put_slot;
	ResourceOwner oldowner = CurrentResourceOwner;
	MemoryContext oldcxt = MemoryContextSwitchTo(rejects->row_cxt);
	const char *texts[NKEPT + 1] = {NULL};
	bytea	   *source = palloc(VARHDRSZ + reject->source_bytes);

	SET_VARSIZE(source, VARHDRSZ + reject->source_bytes);
	memcpy(VARDATA(source), reject->source, reject->source_bytes);
	texts[KEPT_COLUMN] = reject->column;
	texts[KEPT_SHARD] = reject->shard;
	texts[KEPT_MESSAGE] = reject->message;

	ExecClearTuple(slot);
	for (int i = KEPT_COLUMN; i <= KEPT_MESSAGE; i++)
	{
		slot->tts_isnull[i - 1] = texts[i] == NULL;
		slot->tts_values[i - 1] = texts[i] ? CStringGetTextDatum(texts[i]) : (Datum) 0;
	}
	slot->tts_isnull[KEPT_LINE - 1] = false;
	slot->tts_values[KEPT_LINE - 1] = Int64GetDatum((int64) reject->lineno);
	slot->tts_isnull[KEPT_SQLSTATE - 1] = false;
	slot->tts_values[KEPT_SQLSTATE - 1] = Int32GetDatum(reject->sqlstate);
	slot->tts_isnull[KEPT_SOURCE - 1] = false;
	slot->tts_values[KEPT_SOURCE - 1] = PointerGetDatum(source);
	ExecStoreVirtualTuple(slot);

	/*
	 * The files belong to the load, not to the subtransaction in which the sort begins to spill.  After an error, the
	 * end of the (sub)transaction sets the owner.
	 */
	CurrentResourceOwner = rejects->owner;
	tuplesort_puttupleslot(rejects->sort, slot);
	CurrentResourceOwner = oldowner;
	ExecClearTuple(slot);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(rejects->row_cxt);
}

static LineFault
classify_fault(int sqlstate)
{
	switch (sqlstate)
	{
		case ERRCODE_BAD_COPY_FILE_FORMAT:
			return FAULT_FIELDS;
		case ERRCODE_CHARACTER_NOT_IN_REPERTOIRE:
		case ERRCODE_UNTRANSLATABLE_CHARACTER:
			return FAULT_ENCODING;
		default:
			return FAULT_VALUES;
	}
}

static void
raise_all_bad(const ShardRejects *rejects)
{
	const char *hint;

	if (rejects->nfaults[FAULT_FIELDS] > FIRST_LINES / 2)
		hint = "Perhaps FORMAT or DELIMITER is wrong, or the lines have other columns than COPY expects.";
	else if (rejects->nfaults[FAULT_ENCODING] > FIRST_LINES / 2)
		hint = "Perhaps ENCODING is wrong.";
	else
		hint = "Perhaps the lines have other columns, or in another order, than COPY expects.";
	ereport(ERROR,
			(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
			 errmsg("the first %d lines were rejected one and all", FIRST_LINES),
			 errdetail("Line %llu: %s", (unsigned long long) rejects->top_lineno, rejects->top_message),
			 errhint("%s", hint)));
}

/*
 * Counts the first lines that are known to be bad.  Nodes report lines in any order, so the lines are counted, not
 * checked in order.
 */
static void
check_first_lines(ShardRejects *rejects, const ShardReject *reject)
{
	uint64		nbreaks = rejects->records ? 0 : count_breaks(reject->source, reject->source_bytes);
	uint64		nlines = nbreaks > 0 && line_end(reject->source, reject->source_bytes) ? nbreaks : nbreaks + 1;
	uint64		first = reject->lineno >= nlines ? reject->lineno - nlines + 1 : 1;
	uint64		end = rejects->first_lineno + FIRST_LINES;	/* exclusive */

	if (first < rejects->first_lineno || first >= end)
		return;
	if (rejects->top_message == NULL || reject->lineno < rejects->top_lineno)
	{
		if (rejects->top_message != NULL)
			pfree(rejects->top_message);
		rejects->top_message = MemoryContextStrdup(rejects->cxt, reject->message);
		rejects->top_lineno = reject->lineno;
	}
	rejects->nfaults[classify_fault(reject->sqlstate)]++;
	rejects->nfirst_bad += Min(reject->lineno + 1, end) - first;
	if (rejects->nfirst_bad >= FIRST_LINES)
		raise_all_bad(rejects);
}

static void
check_limit(ShardRejects *rejects, const ShardReject *reject)
{
	if (rejects->limit == 0 || rejects->counts.nrejected <= rejects->limit)
		return;
	if (!rejects->counts.other_errors)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("skipped more than REJECT_LIMIT (%lld) rows due to data type incompatibility",
						(long long) rejects->limit),
				 errdetail("Line %llu: %s", (unsigned long long) reject->lineno, reject->message)));
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("skipped more than REJECT_LIMIT (%lld) rows", (long long) rejects->limit),
				 errdetail("Line %llu: %s", (unsigned long long) reject->lineno, reject->message)));
}

void
shard_reject_add(ShardRejects *rejects, const ShardReject *reject)
{
	if (rejects->verbosity == SHARD_VERBOSITY_VERBOSE)
	{
		if (reject->duplicate)
			ereport(NOTICE,
					(errmsg("duplicate left out at line %llu: %s",
							(unsigned long long) reject->lineno, reject->message)));
		else if (reject->column != NULL)
			ereport(NOTICE,
					(errmsg("row rejected at line %llu for column \"%s\": %s",
							(unsigned long long) reject->lineno, reject->column, reject->message)));
		else
			ereport(NOTICE,
					(errmsg("row rejected at line %llu: %s",
							(unsigned long long) reject->lineno, reject->message)));
	}

	if (reject->duplicate)
		rejects->counts.nduplicates++;
	else
	{
		/* Class 22 is data exceptions, which include malformed lines and wrong encodings. */
		if (ERRCODE_TO_CATEGORY(reject->sqlstate) != ERRCODE_DATA_EXCEPTION ||
			classify_fault(reject->sqlstate) != FAULT_VALUES)
			rejects->counts.other_errors = true;
		rejects->counts.nrejected++;
		check_limit(rejects, reject);
		check_first_lines(rejects, reject);
	}
	if (rejects->sort != NULL)
		keep_row(rejects, reject);
}

void
shard_reject_replaced(ShardRejects *rejects, uint64 nrows)
{
	rejects->counts.nreplaced += nrows;
}

/* Writes the line.  The last line of the input may have no line end. */
static void
write_line(ShardRejects *rejects, const ShardReject *reject)
{
	const char *end = line_end(reject->source, reject->source_bytes);

	shard_reject_file_write(rejects->file, reject->source, reject->source_bytes);
	if (rejects->records)
		return;
	if (rejects->eol == NULL)
		rejects->eol = end;

	/*
	 * In a file with NL or CRNL line ends, a single CR does not end a line.  (In a file with CR line ends, a line
	 * cannot end with NL.)
	 */
	if (end != NULL && rejects->eol[strlen(rejects->eol) - 1] == '\n' && end[strlen(end) - 1] != '\n')
		end = NULL;
	if (end == NULL)
	{
		const char *eol = rejects->eol ? rejects->eol : "\n";

		shard_reject_file_write(rejects->file, eol, strlen(eol));
	}
}

static char *
kept_text(TupleTableSlot *slot, int col)
{
	return slot->tts_isnull[col - 1] ? NULL : TextDatumGetCString(slot->tts_values[col - 1]);
}

/* Reads the rows from the sort, in the order of the input. */
static void
write_kept(ShardRejects *rejects)
{
	TupleTableSlot *slot = rejects->get_slot;

	tuplesort_performsort(rejects->sort);
	while (tuplesort_gettupleslot(rejects->sort, true, false, slot, NULL))
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(rejects->row_cxt);
		ShardReject reject = {0};
		bytea	   *source;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		source = DatumGetByteaPP(slot->tts_values[KEPT_SOURCE - 1]);
		reject.lineno = (uint64) DatumGetInt64(slot->tts_values[KEPT_LINE - 1]);
		reject.sqlstate = DatumGetInt32(slot->tts_values[KEPT_SQLSTATE - 1]);
		reject.column = kept_text(slot, KEPT_COLUMN);
		reject.shard = kept_text(slot, KEPT_SHARD);
		reject.message = kept_text(slot, KEPT_MESSAGE);
		reject.source = VARDATA_ANY(source);
		reject.source_bytes = VARSIZE_ANY_EXHDR(source);
		if (rejects->file != NULL)
			write_line(rejects, &reject);
		if (rejects->table != NULL)
			shard_reject_table_add(rejects->table, &reject);
		MemoryContextSwitchTo(oldcxt);
		MemoryContextReset(rejects->row_cxt);
	}
	ExecDropSingleTupleTableSlot(rejects->get_slot);
	ExecDropSingleTupleTableSlot(rejects->put_slot);
	tuplesort_end(rejects->sort);
	rejects->sort = NULL;
}

/* Joins parts of a sentence: "a", "a and b", "a, b and c". */
static char *
join_parts(char **parts, int nparts)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < nparts; i++)
	{
		if (i > 0)
			appendStringInfoString(&text, i == nparts - 1 ? " and " : ", ");
		appendStringInfoString(&text, parts[i]);
	}
	return text.data;
}

void
shard_reject_report(const ShardRejects *rejects)
{
	char	   *parts[3];
	int			nparts = 0;
	char	   *places[2];
	int			nplaces = 0;

	if (rejects->counts.nrejected > 0)
		parts[nparts++] = psprintf(rejects->counts.nrejected == 1 ? "%llu row was rejected" : "%llu rows were rejected",
								   (unsigned long long) rejects->counts.nrejected);
	if (rejects->counts.nduplicates > 0)
		parts[nparts++] = psprintf(rejects->counts.nduplicates == 1 ? "%llu duplicate was left out" : "%llu duplicates were left out",
								   (unsigned long long) rejects->counts.nduplicates);
	if (rejects->counts.nreplaced > 0)
		parts[nparts++] = psprintf(rejects->counts.nreplaced == 1 ? "%llu row was replaced" : "%llu rows were replaced",
								   (unsigned long long) rejects->counts.nreplaced);
	if (nparts == 0 || rejects->verbosity == SHARD_VERBOSITY_SILENT)
		return;

	if (rejects->counts.nrejected + rejects->counts.nduplicates > 0)
	{
		if (rejects->file_path != NULL)
			places[nplaces++] = psprintf("file \"%s\"", rejects->file_path);
		if (rejects->table_name != NULL)
			places[nplaces++] = psprintf("table %s (load %lld)", rejects->table_name, (long long) rejects->counts.load);
	}
	ereport(NOTICE,
			(errmsg_internal("%s", join_parts(parts, nparts)),
			 nplaces > 0 ? errdetail_internal("The rejected lines are in %s.", join_parts(places, nplaces)) : 0));
}

void
shard_reject_finish(ShardRejects *rejects)
{
	if (rejects->sort != NULL)
		write_kept(rejects);
	if (rejects->table != NULL)
		shard_reject_table_finish(rejects->table);
	if (rejects->file != NULL)
		shard_reject_file_finish(rejects->file);
}

const ShardRejectCounts *
shard_reject_counts(const ShardRejects *rejects)
{
	return &rejects->counts;
}
