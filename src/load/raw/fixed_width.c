/*
 * fixed_width.c
 *	  FIXED_WIDTH: records with columns at fixed positions as rows of a table.
 *
 *	 record --> key, read at its position --> shard
 *		|
 *		+--> row, appended to the shard's buffer: COPY binary, or a line of COPY text
 *
 * If the key of a record is not plain (NULL, escapes, not a number), the record is first converted to a line of COPY
 * text.  Then it is handled like a line of the input.  So core's parser checks it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "compat.h"
#include "load/raw/fixed_width.h"
#include "load/raw/key_value.h"
#include "mb/pg_wchar.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

struct ShardFixedWidth
{
	ShardFixedLayout layout;
	Relation	rel;
	List	   *attnos;			/* NIL with FILTER */
	bool		binary_fits;	/* all types allow COPY binary */

	/* the key */
	ShardKeyReader *keys;
	ShardLine	line;			/* its fields, as positions in the record */
	int			nkeys;
	ShardFixedField key_fields[SHARD_LINE_MAX_KEYS];
	bool		in_record;		/* all key fields are texts */
	ShardKeyKind number_kind;	/* the only key is an integer, binary or text, in a column of this kind */
	Datum		number;
	bool		number_isnull;
};

/* ---------- layout ---------- */

/* Types whose input functions skip leading and trailing blanks. */
static bool
skips_blanks(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

/* Size of a binary number in COPY binary as a value of type; 0: it may not fit. */
static int
wire_bytes(const ShardFixedField *field, Oid type)
{
	size_t		nbytes = field->nbytes;

	if (field->kind == SHARD_FIXED_FLOAT)
	{
		if (type == FLOAT8OID)
			return 8;
		return type == FLOAT4OID && nbytes == 4 ? 4 : 0;
	}

	/* an unsigned number needs a larger type */
	if (field->kind == SHARD_FIXED_UINT)
		nbytes *= 2;
	switch (type)
	{
		case INT2OID:
			return nbytes <= 2 ? 2 : 0;
		case INT4OID:
			return nbytes <= 4 ? 4 : 0;
		case INT8OID:
			return nbytes <= 8 ? 8 : 0;
		default:
			return 0;
	}
}

/* Adapts the field to the type of its column. */
static void
fit_field(ShardFixedWidth *fixed, ShardFixedField *field, Oid type)
{
	if (field->kind == SHARD_FIXED_TEXT)
	{
		/* the bytes need not be trimmed, except for NULLIF, which does not skip blanks */
		if (field->trim == SHARD_TRIM_DEFAULT && skips_blanks(getBaseType(type)))
			field->trim = field->null_text ? SHARD_TRIM_BOTH : SHARD_TRIM_NONE;
		if (type != TEXTOID && type != VARCHAROID && type != BPCHAROID)
			fixed->binary_fits = false;
		return;
	}
	field->widen = type == FLOAT8OID;
	field->wire_bytes = wire_bytes(field, type);
	if (field->wire_bytes == 0)
		fixed->binary_fits = false;
}

static void
fit_columns(ShardFixedWidth *fixed)
{
	ShardFixedLayout *layout = &fixed->layout;
	bool		any_number = false;

	if (list_length(fixed->attnos) != layout->nfields)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY FIXED_WIDTH has %d positions for %d columns",
						layout->nfields, list_length(fixed->attnos))));
	fixed->binary_fits = true;
	for (int i = 0; i < layout->nfields; i++)
	{
		int			attno = list_nth_int(fixed->attnos, i);

		fit_field(fixed, &layout->fields[i], TupleDescAttr(RelationGetDescr(fixed->rel), attno - 1)->atttypid);
		any_number |= layout->fields[i].kind != SHARD_FIXED_TEXT;
	}
	fixed->binary_fits &= any_number;
}

static void
parse_layout(ShardFixedLayout *layout, const ShardCopyOptions *options)
{
	char	   *text = pstrdup(options->fixed_width);
	char	   *start = text;
	int			nroom = 16;

	layout->record_bytes = options->record_length;
	layout->fields = palloc(sizeof(ShardFixedField) * nroom);
	while (text != NULL)
	{
		ShardFixedField *field;
		const char *wrong;

		if (layout->nfields == nroom)
		{
			nroom *= 2;
			layout->fields = repalloc(layout->fields, sizeof(ShardFixedField) * nroom);
		}
		field = &layout->fields[layout->nfields++];
		wrong = shard_fixed_parse_field(&text, field);
		if (wrong == NULL && field->kind != SHARD_FIXED_TEXT && layout->record_bytes == 0)
			wrong = "binary numbers need RECORD_LENGTH, since they may have the bytes of a line's end";
		if (wrong == NULL && layout->record_bytes > 0 && field->start + Max(field->nbytes, 1) > layout->record_bytes)
			wrong = "the position lies behind RECORD_LENGTH";
		if (wrong != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("COPY FIXED_WIDTH is wrong at position %d: %s", layout->nfields, wrong),
					 text != NULL ? errdetail("Behind \"%s\".", pnstrdup(options->fixed_width, text - start)) : 0));
		if (field->kind == SHARD_FIXED_TEXT && field->null_text == NULL && options->fixed_null != NULL)
		{
			field->null_text = options->fixed_null;
			field->null_bytes = strlen(options->fixed_null);
		}
	}
}

/* Raises an error if bytes of ASCII characters may be part of other characters in the input's encoding. */
static void
check_encoding(const ShardCopyOptions *options)
{
	int			encoding = pg_get_client_encoding();

	foreach_node(DefElem, def, options->core)
	{
		/* core raises the error about an unknown name */
		if (strcmp(def->defname, "encoding") == 0)
			encoding = pg_char_to_encoding(defGetString(def));
	}
	if (encoding >= 0 && !PG_VALID_BE_ENCODING(encoding))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY FIXED_WIDTH cannot read encoding \"%s\"", pg_encoding_to_char(encoding)),
				 errdetail("In this encoding ASCII bytes can be part of other characters.")));
}

ShardFixedWidth *
shard_fixed_width_open(MemoryContext cxt, const ShardCopyOptions *options, Relation rel, List *attnos)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardFixedWidth *fixed = palloc0(sizeof(ShardFixedWidth));

	fixed->rel = rel;
	fixed->attnos = attnos;
	check_encoding(options);
	parse_layout(&fixed->layout, options);
	if (attnos != NIL)
		fit_columns(fixed);
	shard_fixed_layout_finish(&fixed->layout);
	MemoryContextSwitchTo(oldcxt);
	return fixed;
}

const ShardFixedLayout *
shard_fixed_width_layout(const ShardFixedWidth *fixed)
{
	return &fixed->layout;
}

bool
shard_fixed_width_is_binary(const ShardFixedWidth *fixed, CopyFromState cstate)
{
	return fixed->binary_fits && cstate->file_encoding == GetDatabaseEncoding();
}

/* ---------- key ---------- */

void
shard_fixed_width_set_keys(ShardFixedWidth *fixed, ShardKeyReader *keys, const ShardLineFormat *format)
{
	fixed->keys = keys;
	fixed->nkeys = format->nkeys;
	fixed->in_record = true;
	fixed->number_kind = SHARD_KEY_OTHER;
	for (int i = 0; i < format->nkeys; i++)
	{
		int			attno = list_nth_int(fixed->attnos, format->key_fieldnos[i]);
		Oid			type = TupleDescAttr(RelationGetDescr(fixed->rel), attno - 1)->atttypid;
		ShardFixedField *field = &fixed->key_fields[i];

		*field = fixed->layout.fields[format->key_fieldnos[i]];
		if (skips_blanks(type))
			field->trim = SHARD_TRIM_BOTH;
		if (field->kind != SHARD_FIXED_TEXT)
			fixed->in_record = false;
		if (format->nkeys == 1 && field->null_text == NULL && field->kind != SHARD_FIXED_FLOAT &&
			(field->kind != SHARD_FIXED_UINT || field->nbytes < 8))
			fixed->number_kind = shard_key_value_kind(type);
	}
}

/* Reads digits with an optional minus.  The key reader handles other text. */
static inline bool
read_digits(ShardFixedWidth *fixed, const char *bytes, size_t nbytes)
{
	size_t		value_bytes;
	const char *value = shard_fixed_value(&fixed->key_fields[0], bytes, nbytes, NULL, &value_bytes);

	return shard_key_value_integer(value, value_bytes, fixed->number_kind, &fixed->number);
}

/* Core's parser handles values that do not fit into the column. */
static bool
read_number(ShardFixedWidth *fixed, const char *bytes)
{
	int64		value = shard_fixed_integer(&fixed->key_fields[0], bytes);

	switch (fixed->number_kind)
	{
		case SHARD_KEY_INT2:
			fixed->number = Int16GetDatum((int16) value);
			return value >= PG_INT16_MIN && value <= PG_INT16_MAX;
		case SHARD_KEY_INT4:
			fixed->number = Int32GetDatum((int32) value);
			return value >= PG_INT32_MIN && value <= PG_INT32_MAX;
		default:
			fixed->number = Int64GetDatum(value);
			return true;
	}
}

/* Finds the key fields in the record. */
static bool
find_fields(ShardFixedWidth *fixed, const char *bytes, size_t nbytes)
{
	for (int i = 0; i < fixed->nkeys; i++)
	{
		ShardLineField *found = &fixed->line.fields[i];
		const char *value = shard_fixed_value(&fixed->key_fields[i], bytes, nbytes, NULL, &found->nbytes);

		if (value == NULL || !shard_fixed_is_plain(value, found->nbytes))
			return false;
		found->start = value - bytes;
		found->plain = true;
	}
	return true;
}

bool
shard_fixed_width_key(ShardFixedWidth *fixed, const char *bytes, const ShardLine *record,
					  const Datum **values, const bool **isnull)
{
	bool		clock_word = false;

	if (record->oddity != SHARD_LINE_NOT_ODD)
		return false;
	if (fixed->number_kind <= SHARD_KEY_INT8)
	{
		*values = &fixed->number;
		*isnull = &fixed->number_isnull;
		if (!fixed->in_record)
			return read_number(fixed, bytes);
		if (read_digits(fixed, bytes, record->content_bytes))
			return true;
	}
	return fixed->in_record && find_fields(fixed, bytes, record->content_bytes) &&
		shard_key_reader_read(fixed->keys, bytes, &fixed->line, &clock_word, values, isnull);
}

/* ---------- rows ---------- */

/* Raises the error about the first column that the record does not have. */
static void
raise_short(const ShardFixedWidth *fixed, const ShardLine *record)
{
	const ShardFixedLayout *layout = &fixed->layout;

	for (int i = 0; i < layout->nfields; i++)
	{
		size_t		end = layout->fields[i].start + layout->fields[i].nbytes;

		if (end <= record->content_bytes)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				 fixed->attnos == NIL ?
				 errmsg("missing data for parameter %d of the FILTER function", i + 1) :
				 errmsg("missing data for column \"%s\"",
						NameStr(TupleDescAttr(RelationGetDescr(fixed->rel), list_nth_int(fixed->attnos, i) - 1)->attname)),
				 errdetail("The record has %zu bytes, and the field ends at byte %zu.", record->content_bytes, end)));
	}
}

bool
shard_fixed_width_append_line(const ShardFixedWidth *fixed, const char *bytes, const ShardLine *record, StringInfo out)
{
	size_t		max_bytes;
	bool		ascii;

	if (unlikely(record->oddity == SHARD_LINE_ODD_FIELDS))
		raise_short(fixed, record);
	max_bytes = shard_fixed_row_bytes(&fixed->layout, record->content_bytes);
	if (unlikely(max_bytes >= out->maxlen - out->len))
		enlargeStringInfo(out, (int) max_bytes);
	out->len += (int) shard_fixed_write_text(&fixed->layout, bytes, record->content_bytes, out->data + out->len, &ascii);
	return ascii;
}

void
shard_fixed_width_append_binary(const ShardFixedWidth *fixed, const char *bytes, const ShardLine *record, StringInfo out)
{
	size_t		max_bytes = shard_fixed_row_bytes(&fixed->layout, record->content_bytes);

	if (unlikely(max_bytes >= out->maxlen - out->len))
		enlargeStringInfo(out, (int) max_bytes);
	out->len += (int) shard_fixed_write_binary(&fixed->layout, bytes, record->content_bytes, out->data + out->len);
}
