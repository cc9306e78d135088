/*
 * fixed_record_fuzz.c
 *	  Fixed-width records against their oracle, on what libFuzzer thinks up.
 *
 * The first bytes of an input choose the layout, as it is or in words of the layout's
 * language; the rest are the records.
 */
#include "fixed_record_oracle.h"

#define HEAD_BYTES 4
#define MAX_TEXT_BYTES 400

int			LLVMFuzzerTestOneInput(const uint8_t *input, size_t len);

/* Each byte gives a word; positions stay small, so that records are not too short for all of them. */
static void
spell_layout(const uint8_t *input, size_t len, char *text)
{
	static const char *const words[] = {
		" text", " int_le", " int_be", " uint_le", " uint_be", " float_le", " float_be", " trim both", " trim none", " trim leading",
		" TRIM trailing", " nullif \"\"", " nullif \"0\"", " nullif \"a\"\"b\"", "-", ","
	};
	size_t		n = 0;

	for (size_t i = 0; i < len && n + 40 < MAX_TEXT_BYTES; i++)
	{
		int			first = input[i] >> 2 & 15;

		switch (input[i] & 3)
		{
			case 0:
				n += (size_t) sprintf(text + n, "%s", words[first]);
				break;
			case 1:
				n += (size_t) sprintf(text + n, "%s%d-%d", n > 0 ? ", " : "", 1 + first, 1 + first + (input[i] >> 6) * 2);
				break;
			case 2:
				n += (size_t) sprintf(text + n, "%s%d-%d%s", n > 0 ? "," : "", 1 + first, first + (1 << (input[i] >> 6)), words[1 + first % 6]);
				break;
			case 3:
				n += (size_t) sprintf(text + n, "%s%d-%s", n > 0 ? "," : "", 1 + first, words[7 + first % 7]);
				break;
		}
	}
	text[n] = '\0';
}

int
LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	char		text[MAX_TEXT_BYTES];
	size_t		text_bytes;

	if (len < HEAD_BYTES)
		return 0;
	text_bytes = input[0] & 63;
	if (text_bytes > len - HEAD_BYTES)
		text_bytes = len - HEAD_BYTES;
	if (input[0] & 0x80)
	{
		memcpy(text, input + HEAD_BYTES, text_bytes);
		text[text_bytes] = '\0';
	}
	else
		spell_layout(input + HEAD_BYTES, text_bytes, text);
	if (!oracle_check_all(text, input[0] & 0x40 ? input[1] & 63 : 0, input[2], (const char *) input + HEAD_BYTES + text_bytes,
						  len - HEAD_BYTES - text_bytes))
		abort();
	return 0;
}
