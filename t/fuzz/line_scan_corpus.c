/*
 * line_scan_corpus.c
 *	  Line scanner against its oracle, on generated files: needs no fuzzer.
 *
 *	 line_scan_corpus [files [seed]]
 *
 * Prints "ok n - what" per format, as other tests do.
 */
#include "line_scan_oracle.h"

typedef struct CorpusFormat
{
	const char *name;
	ShardLineFormat format;
} CorpusFormat;

static const CorpusFormat formats[] = {
	{"text", {.delim = '\t',.nkeys = 1,.key_fieldnos = {0}}},
	{"text, last field", {.delim = '|',.nkeys = 2,.key_fieldnos = {1, 4}}},
	{"text, fields counted", {.delim = '\t',.nkeys = 1,.key_fieldnos = {2},.nfields = 5}},
	{"csv", {.csv = true,.delim = ',',.quote = '"',.escape = '"',.nkeys = 1,.key_fieldnos = {0}}},
	{"csv, several fields", {.csv = true,.delim = ',',.quote = '"',.escape = '"',.nkeys = 3,.key_fieldnos = {0, 1, 5}}},
	{"csv, fields counted", {.csv = true,.delim = '|',.quote = '"',.escape = '"',.nkeys = 1,.key_fieldnos = {3},.nfields = 5}},
	{"csv, escape is a backslash", {.csv = true,.delim = ';',.quote = '\'',.escape = '\\',.nkeys = 2,.key_fieldnos = {1, 2}}},
	{"csv, quote is a backslash", {.csv = true,.delim = ',',.quote = '\\',.escape = '"',.nkeys = 1,.key_fieldnos = {1}}},
	{"csv, delimiter is the escape", {.csv = true,.delim = ',',.quote = '"',.escape = ',',.nkeys = 1,.key_fieldnos = {1}}},
	{"csv, quote is a line end", {.csv = true,.delim = ',',.quote = '\n',.escape = '\r',.nkeys = 1,.key_fieldnos = {0}}},
};

static uint32_t seed = 1;

static uint32_t
pick(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/*
 * A file of lines of about line_bytes, where one byte in rarity may mean
 * something.  What may mean something differs: few files are good for much when
 * each has a wrong line end in every line.
 */
static size_t
generate(const ShardLineFormat *format, uint32_t rarity, uint32_t line_bytes, const char *eol, char *file, size_t max_bytes)
{
	const char	all[] = {format->delim, format->csv ? format->quote : '\\', '\\', format->csv ? format->escape : '.',
		'\xc3', '.', '\n', '\r'};
	char		special[sizeof(all)];
	uint32_t	nspecial = 0;
	size_t		want = pick((uint32_t) max_bytes - 4);
	size_t		n = 0;
	bool		markers = pick(4) == 0;

	for (uint32_t i = 0; i < sizeof(all); i++)
	{
		if (i == 0 || pick(i < 4 ? 2 : 6) == 0)
			special[nspecial++] = all[i];
	}
	while (n < want)
	{
		if (pick(line_bytes) == 0)
		{
			memcpy(file + n, eol, strlen(eol));
			n += strlen(eol);
		}
		else if (markers && pick(rarity * 4) == 0)
		{
			memcpy(file + n, "\n\\.", 3);
			n += 3;
		}
		else if (pick(rarity) == 0)
			file[n++] = special[pick(nspecial)];
		else
			file[n++] = "abcdefghijklmnop"[pick(16)];
	}
	return n;
}

int
main(int argc, char **argv)
{
	static const char *const eols[] = {"\n", "\r", "\r\n"};
	static char file[6000];
	const int	nformats = sizeof(formats) / sizeof(formats[0]);
	int			nfiles = argc > 1 ? atoi(argv[1]) : 400;
	int			rc = 0;

	if (argc > 2)
		seed = (uint32_t) strtoul(argv[2], NULL, 10);
	for (int i = 0; i < nformats; i++)
	{
		const ShardLineFormat *format = &formats[i].format;
		bool		good = true;

		for (int n = 0; n < nfiles && good; n++)
		{
			static const uint32_t rarities[] = {1, 2, 4, 15, 100};
			static const uint32_t lengths[] = {3, 20, 70, 200, 1000};
			ShardLineEol eol = pick(3) == 0 ? (ShardLineEol) pick(4) : SHARD_EOL_UNKNOWN;
			size_t		len = generate(format, rarities[pick(5)], lengths[pick(5)], eols[pick(3)], file,
									   n % 5 == 0 ? sizeof(file) : 500);

			good = oracle_check_all(format, eol, file, len, seed);
		}
		printf("%sok %d - line_scan: %s\n", good ? "" : "not ", i + 1, formats[i].name);
		if (!good)
			rc = 1;
	}
	printf("1..%d\n", nformats);
	return rc;
}
