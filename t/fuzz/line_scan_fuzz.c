/*
 * line_scan_fuzz.c
 *	  Line scanner against its oracle, on what libFuzzer thinks up.
 *
 * The first bytes of an input choose the format; the rest is the file, as it is
 * or, so that what matters is not rare, in an alphabet of the bytes that mean something.
 */
#include "line_scan_oracle.h"

#define HEAD_BYTES 8
#define MAX_FILE_BYTES 16384

int			LLVMFuzzerTestOneInput(const uint8_t *input, size_t len);

static void
choose_format(const uint8_t *head, ShardLineFormat *format)
{
	static const char delims[] = ",|\t; a\"\\.\001";
	static const char quotes[] = "\"'\\~\n\rq$";
	static const char escapes[] = "\\\"'e\n\r,.";
	int			fieldno = -1;

	memset(format, 0, sizeof(*format));
	format->csv = head[0] & 1;
	format->delim = delims[head[1] % 10];
	format->quote = quotes[head[2] % 8];
	format->escape = head[2] & 0x80 ? escapes[(head[2] >> 3) % 8] : format->quote;
	/* What core refuses: a delimiter that is the quote; a backslash, a dot or a letter in text format. */
	if (format->csv ? format->delim == format->quote : strchr("a\\.", format->delim) != NULL)
		format->delim = ',';
	format->nkeys = head[3] % 8 == 7 ? SHARD_LINE_MAX_KEYS : head[3] % 8 % 4;
	for (int i = 0; i < format->nkeys; i++)
		format->key_fieldnos[i] = fieldno += 1 + (head[4] >> i % 4 * 2 & 3) * (i < 4);
	format->nfields = head[5] & 1 ? head[5] >> 1 & 15 : 0;
}

/* A file in the alphabet: a byte of input gives one byte, or a run of plain ones. */
static size_t
spell_file(const ShardLineFormat *format, const uint8_t *input, size_t len, char *file)
{
	const char	alphabet[] = {format->delim, format->quote, format->escape, '\n', '\r', '\\', '.', 'x', '\n', '"', '\xe9', format->delim};
	size_t		n = 0;

	for (size_t i = 0; i < len && n + 64 < MAX_FILE_BYTES; i++)
	{
		if (input[i] >= 0xc0)
		{
			memset(file + n, 'a', input[i] & 63);
			n += input[i] & 63;
		}
		else
			file[n++] = alphabet[input[i] % sizeof(alphabet)];
	}
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	static char file[MAX_FILE_BYTES];
	ShardLineFormat format;
	ShardLineEol eol;
	size_t		n = 0;

	if (len < HEAD_BYTES)
		return 0;
	choose_format(input, &format);
	eol = input[6] & 0x80 ? (ShardLineEol) (input[6] & 3) : SHARD_EOL_UNKNOWN;
	if (input[0] & 2)
		n = spell_file(&format, input + HEAD_BYTES, len - HEAD_BYTES, file);
	else
	{
		n = len - HEAD_BYTES < MAX_FILE_BYTES ? len - HEAD_BYTES : MAX_FILE_BYTES;
		memcpy(file, input + HEAD_BYTES, n);
	}
	if (!oracle_check_all(&format, eol, file, n, input[7]))
		abort();
	return 0;
}
