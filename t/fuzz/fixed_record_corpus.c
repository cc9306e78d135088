/*
 * fixed_record_corpus.c
 *	  Fixed-width records against their oracle, on generated layouts and inputs: needs no
 *	  fuzzer.
 *
 *	 fixed_record_corpus [cases [seed]]
 *
 * Prints "ok n - what" per kind of layout, as other tests do.
 */
#include "fixed_record_oracle.h"

static uint32_t seed = 1;

static uint32_t
pick(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/* A layout of some fields; returns the byte behind the last one. */
static size_t
generate_layout(bool binary, char *text)
{
	static const char *const kinds[] = {"int_le", "int_be", "uint_le", "uint_be", "float_le", "float_be"};
	static const char *const trims[] = {"", " trim both", " trim none", " trim leading", " trim trailing"};
	static const char *const nulls[] = {"", "", "", " nullif \"\"", " nullif \"0\"", " nullif \"-1\"", " nullif \"a\""};
	int			nfields = 1 + (int) pick(8);
	size_t		at = 1;
	size_t		last = 0;

	*text = '\0';
	for (int i = 0; i < nfields; i++)
	{
		uint32_t	kind = pick(6);
		size_t		nbytes = pick(10) == 0 ? 1 + pick(100) : 1 + pick(12);

		text += sprintf(text, "%s", i > 0 ? ", " : "");
		at += pick(4) == 0 ? pick(5) : 0;
		if (binary && pick(3) > 0)
		{
			nbytes = kind < 4 ? (size_t) 1 << pick(4) : (size_t) 4 << pick(2);
			text += sprintf(text, "%zu-%zu %s%s", at, at + nbytes - 1, kinds[kind], nulls[pick(7)]);
		}
		else if (!binary && i == nfields - 1 && pick(2) == 0)
		{
			text += sprintf(text, "%zu-%s%s", at, trims[pick(5)], nulls[pick(7)]);
			nbytes = 0;
		}
		else
			text += sprintf(text, "%zu-%zu%s%s%s", at, at + nbytes - 1, pick(3) ? "" : " text", nulls[pick(7)], trims[pick(5)]);
		at += nbytes;
		last = at > last ? at : last;
	}
	return last - 1;
}

static size_t
generate_records(size_t record_bytes, size_t min_bytes, char *data, size_t max_bytes)
{
	static const char bytes[] = "        abc0123456789-\\\t\xc3\xa9\xff\n";
	size_t		want = pick((uint32_t) max_bytes - 600);
	size_t		n = 0;

	while (n < want)
	{
		size_t		nbytes = record_bytes > 0 ? record_bytes : pick(8) == 0 ? pick(100) : min_bytes + pick(20);
		uint32_t	kind = pick(4);

		for (size_t i = 0; i < nbytes; i++)
			data[n++] = kind == 0 ? (char) pick(256) : bytes[pick(kind == 1 ? sizeof(bytes) - 1 : 22)];
		if (record_bytes == 0)
		{
			if (pick(3) == 0)
				data[n++] = '\r';
			data[n++] = '\n';
		}
	}
	return n > 0 ? n - pick(2) : 0;
}

int
main(int argc, char **argv)
{
	static char data[4000];
	int			ncases = argc > 1 ? atoi(argv[1]) : 2000;
	int			rc = 0;

	if (argc > 2)
		seed = (uint32_t) strtoul(argv[2], NULL, 10);
	for (int binary = 0; binary < 2; binary++)
	{
		bool		good = true;

		for (int n = 0; n < ncases && good; n++)
		{
			char		text[1000];
			size_t		min_bytes = generate_layout(binary, text);
			size_t		record_bytes = binary ? min_bytes + pick(3) : 0;
			size_t		len = generate_records(record_bytes, min_bytes, data, n % 5 == 0 ? sizeof(data) : 1000);
			OracleLayout l;

			good = oracle_layout(&l, text, record_bytes, 0) || oracle_fail("refused", text, 0);
			free(l.text);
			good = good && oracle_check_all(text, record_bytes, pick(256), data, len);
		}
		printf("%sok %d - fixed_record: %s\n", good ? "" : "not ", binary + 1, binary ? "binary numbers" : "lines");
		if (!good)
			rc = 1;
	}
	printf("1..2\n");
	return rc;
}
