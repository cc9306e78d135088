/*
 * stat_import.c
 *	  Copies the statistics of a shard's columns from its node.
 *
 * The node's own ANALYZE has read the rows already.  Its result is in the node's pg_stats, and one small query reads it
 * instead of thousands of rows.
 *
 *	   ask_node		one query: rows, changes since, one row of pg_stats per column
 *	   is_usable	recent, complete, sound, with the same types here
 *	   write_stats	one row of pg_statistic per column
 *
 * Values are sent as the text of arrays.  Only the kinds of statistics are supported that core's ANALYZE computes for
 * types without their own typanalyze function: most common values, histogram, correlation.  A table with a column of
 * another type (an array, a range, ...) is sampled.
 */
#include "postgres.h"

#include <float.h>

#include "catalog/indexing.h"
#include "catalog/option.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "deparse/remote_table.h"
#include "executor/stat_import.h"
#include "parser/parse_oper.h"
#include "remote/run/command.h"
#include "remote/wire/answer.h"
#include "tuple/text_form.h"
#include "tuple/type_io.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

/* Changed rows that make the node's statistics stale: autovacuum's defaults for ANALYZE. */
#define STALE_ROWS		50
#define STALE_FRACTION	0.1

/* Columns of the query, and of the statistics of one column. */
enum RemoteStatColumn
{
	STAT_RELTUPLES,
	STAT_CHANGES,
	STAT_NAME,
	STAT_NULL_FRAC,
	STAT_WIDTH,
	STAT_DISTINCT,
	STAT_COMMON_VALUES,
	STAT_COMMON_FREQUENCIES,
	STAT_HISTOGRAM,
	STAT_CORRELATION,
	STAT_NCOLUMNS
};

typedef struct RemoteStats
{
	int			nlines;			/* one per column with statistics; if there are none, one */
	char	 *(*lines)[STAT_NCOLUMNS];	/* NULL if the node's value is NULL */
} RemoteStats;

static const char query_format[] =
"SELECT c.reltuples, pg_catalog.pg_stat_get_mod_since_analyze(c.oid), s.attname,"
" s.null_frac, s.avg_width, s.n_distinct, s.most_common_vals, s.most_common_freqs,"
" s.histogram_bounds, s.correlation"
" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
" LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname"
" AND NOT s.inherited"
" WHERE c.relkind IN ('r', 'm') AND c.oid = %s::pg_catalog.regclass";

static RemoteStats
ask_node(Relation relation, Oid serverid, const char *relation_name, const char *label)
{
	char	   *name = quote_literal_cstr(relation_name);
	ShardCommand command = {.serverid = serverid, .userid = relation->rd_rel->relowner,
		.sql = psprintf(query_format, name), .portable_text = true, .label = label,
		.max_bytes = SHARD_ANSWER_MANY_BYTES};
	RemoteStats stats;

	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);

	stats.nlines = PQnfields(command.result) == STAT_NCOLUMNS ? PQntuples(command.result) : 0;
	stats.lines = palloc(sizeof(*stats.lines) * Max(stats.nlines, 1));
	for (int line = 0; line < stats.nlines; line++)
	{
		for (int i = 0; i < STAT_NCOLUMNS; i++)
			stats.lines[line][i] = PQgetisnull(command.result, line, i) ? NULL :
				pstrdup(PQgetvalue(command.result, line, i));
	}
	shard_command_free(&command, 1);
	return stats;
}

/* Returns the row of pg_stats for a column of the relation; NULL: none. */
static char **
find_line(const RemoteStats *stats, Relation relation, AttrNumber attno)
{
	const char *name = shard_option_column_name(RelationGetRelid(relation), attno);

	for (int line = 0; line < stats->nlines; line++)
	{
		char	  **fields = stats->lines[line];

		if (fields[STAT_NAME] != NULL && strcmp(fields[STAT_NAME], name) == 0)
			return fields;
	}
	return NULL;
}

static bool
has_own_analyze(Oid type)
{
	HeapTuple	tuple = shard_catalog_row(TYPEOID, type);
	bool		result;

	result = OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typanalyze);
	ReleaseSysCache(tuple);
	return result;
}

/* Parses the text of an array with elements of type. */
static Datum
read_array(const char *text, Oid type, int32 typmod)
{
	int			nestlevel = shard_text_form_begin_read(SHARD_TEXT_ARRAY | shard_type_io_text_settings(type));
	Datum		result = OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(text), ObjectIdGetDatum(type),
										  Int32GetDatum(typmod));

	shard_text_form_end(nestlevel);
	return result;
}

/* Is text a number from min to max? */
static bool
read_number(const char *text, double min, double max, double *number)
{
	char	   *end;

	if (text == NULL)
		return false;
	*number = strtod(text, &end);
	return end != text && *end == '\0' && *number >= min && *number <= max;
}

/* The planner expects arrays without nulls, with one dimension.  Returns the number of elements; 0: another array. */
static int
count_elements(Datum array)
{
	ArrayType  *elements = DatumGetArrayTypeP(array);

	return ARR_NDIM(elements) != 1 || ARR_HASNULL(elements) ? 0 : ArrayGetNItems(1, ARR_DIMS(elements));
}

/* Are all elements of an array of float4 fractions? */
static bool
are_fractions(Datum array)
{
	Datum	   *numbers;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), FLOAT4OID, sizeof(float4), true, TYPALIGN_INT, &numbers, NULL, &n);
	for (int i = 0; i < n; i++)
		if (!(DatumGetFloat4(numbers[i]) >= 0 && DatumGetFloat4(numbers[i]) <= 1))
			return false;
	return true;
}

/*
 * Can the planner use these statistics of a column?  It relies on what core's ANALYZE writes, and a
 * node may answer with anything.
 */
static bool
is_sound(Form_pg_attribute att, char **fields)
{
	double		number;

	if (!read_number(fields[STAT_NULL_FRAC], 0, 1, &number) ||
		!read_number(fields[STAT_WIDTH], 0, MaxAllocSize, &number) ||
		!read_number(fields[STAT_DISTINCT], -1, FLT_MAX, &number) ||
		(fields[STAT_CORRELATION] != NULL && !read_number(fields[STAT_CORRELATION], -1, 1, &number)))
		return false;
	if (fields[STAT_COMMON_VALUES] != NULL && fields[STAT_COMMON_FREQUENCIES] != NULL)
	{
		Datum		frequencies = read_array(fields[STAT_COMMON_FREQUENCIES], FLOAT4OID, -1);
		int			n = count_elements(frequencies);

		if (n == 0 || n != count_elements(read_array(fields[STAT_COMMON_VALUES], att->atttypid, att->atttypmod)) ||
			!are_fractions(frequencies))
			return false;
	}
	return fields[STAT_HISTOGRAM] == NULL ||
		count_elements(read_array(fields[STAT_HISTOGRAM], att->atttypid, att->atttypmod)) >= 2;
}

/* Are the node's statistics recent, complete and sound, with the types of the columns here? */
static bool
is_usable(const RemoteStats *stats, Relation relation, Oid serverid)
{
	TupleDesc	desc = RelationGetDescr(relation);
	double		nrows;
	double		nchanges;

	if (stats->nlines == 0 ||
		!read_number(stats->lines[0][STAT_RELTUPLES], 1, FLT_MAX, &nrows) ||
		!read_number(stats->lines[0][STAT_CHANGES], 0, STALE_ROWS + STALE_FRACTION * nrows, &nchanges) ||
		!shard_remote_table_same_declarations(RelationGetRelid(relation), serverid, relation->rd_rel->relowner))
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		char	  **fields = att->attisdropped ? NULL : find_line(stats, relation, att->attnum);

		if (!att->attisdropped && (fields == NULL || has_own_analyze(att->atttypid) || !is_sound(att, fields)))
			return false;
	}
	return true;
}

/* Fills one slot of a row of pg_statistic. numbers and elements may be 0: none. */
static void
fill_slot(Datum *values, bool *nulls, int slot, int kind, Oid op, Oid collation,
		  Datum numbers, Datum elements)
{
	values[Anum_pg_statistic_stakind1 - 1 + slot] = Int16GetDatum(kind);
	values[Anum_pg_statistic_staop1 - 1 + slot] = ObjectIdGetDatum(op);
	values[Anum_pg_statistic_stacoll1 - 1 + slot] = ObjectIdGetDatum(collation);
	values[Anum_pg_statistic_stanumbers1 - 1 + slot] = numbers;
	nulls[Anum_pg_statistic_stanumbers1 - 1 + slot] = numbers == (Datum) 0;
	values[Anum_pg_statistic_stavalues1 - 1 + slot] = elements;
	nulls[Anum_pg_statistic_stavalues1 - 1 + slot] = elements == (Datum) 0;
}

/* Writes the statistics of one column, replacing existing ones. */
static void
write_stats(Relation catalog, Relation relation, Form_pg_attribute att, char **fields)
{
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {0};
	bool		replaces[Natts_pg_statistic];
	Oid			lt;
	Oid			eq;
	int			slot = 0;
	HeapTuple	old;
	HeapTuple	new;

	get_sort_group_operators(att->atttypid, false, false, false, &lt, &eq, NULL, NULL);
	memset(replaces, true, sizeof(replaces));
	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(RelationGetRelid(relation));
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(att->attnum);
	values[Anum_pg_statistic_stainherit - 1] = BoolGetDatum(false);
	values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(strtof(fields[STAT_NULL_FRAC], NULL));
	values[Anum_pg_statistic_stawidth - 1] = Int32GetDatum(atoi(fields[STAT_WIDTH]));
	values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum(strtof(fields[STAT_DISTINCT], NULL));

	if (OidIsValid(eq) && fields[STAT_COMMON_VALUES] != NULL && fields[STAT_COMMON_FREQUENCIES] != NULL)
		fill_slot(values, nulls, slot++, STATISTIC_KIND_MCV, eq, att->attcollation,
				  read_array(fields[STAT_COMMON_FREQUENCIES], FLOAT4OID, -1),
				  read_array(fields[STAT_COMMON_VALUES], att->atttypid, att->atttypmod));
	if (OidIsValid(lt) && fields[STAT_HISTOGRAM] != NULL)
		fill_slot(values, nulls, slot++, STATISTIC_KIND_HISTOGRAM, lt, att->attcollation, (Datum) 0,
				  read_array(fields[STAT_HISTOGRAM], att->atttypid, att->atttypmod));
	if (OidIsValid(lt) && fields[STAT_CORRELATION] != NULL)
		fill_slot(values, nulls, slot++, STATISTIC_KIND_CORRELATION, lt, att->attcollation,
				  read_array(psprintf("{%s}", fields[STAT_CORRELATION]), FLOAT4OID, -1), (Datum) 0);
	while (slot < STATISTIC_NUM_SLOTS)
		fill_slot(values, nulls, slot++, 0, InvalidOid, InvalidOid, (Datum) 0, (Datum) 0);

	old = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(RelationGetRelid(relation)),
						  Int16GetDatum(att->attnum), BoolGetDatum(false));
	if (HeapTupleIsValid(old))
	{
		new = heap_modify_tuple(old, RelationGetDescr(catalog), values, nulls, replaces);
		ReleaseSysCache(old);
		CatalogTupleUpdate(catalog, &new->t_self, new);
	}
	else
	{
		new = heap_form_tuple(RelationGetDescr(catalog), values, nulls);
		CatalogTupleInsert(catalog, new);
	}
	heap_freetuple(new);
}

bool
shard_stat_import(Relation relation, Oid serverid, const char *relation_name,
				  const char *label, double *nrows)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shard statistics",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	TupleDesc	desc = RelationGetDescr(relation);
	RemoteStats stats = ask_node(relation, serverid, relation_name, label);
	bool		usable = is_usable(&stats, relation, serverid);

	if (usable)
	{
		Relation	catalog = table_open(StatisticRelationId, RowExclusiveLock);

		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(desc, i);

			if (!att->attisdropped)
				write_stats(catalog, relation, att, find_line(&stats, relation, att->attnum));
		}
		table_close(catalog, RowExclusiveLock);
		*nrows = strtod(stats.lines[0][STAT_RELTUPLES], NULL);
	}
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return usable;
}
