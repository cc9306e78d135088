/*
 * line_scan.c
 *	  Finds the ends of lines, and the few fields of the shard key, in a text or CSV file, by the rules of core's
 *	  COPY FROM.
 *
 * Two readers share one state, and either can continue for the other at any byte:
 *
 *	 blocks: 64 bytes at a time, one bit per byte and kind of byte ---.
 *	   nothing special before the line's end: done                    |--> finish_line
 *	   else quoted and escaped bytes are masked out                   |
 *	 bytes: one at a time; the end of the buffer, and CPUs            |
 *	   without vectors -----------------------------------------------'
 *
 * The rules are those of CopyReadLineText(), CopyReadAttributesText() and CopyReadAttributesCSV() in copyfromparse.c.
 * The last two split a line that the first has found.  Quotes and escapes mean the same in all of them.
 *
 * Assumptions: bytes of ASCII characters are never part of another character.  The delimiter is not a quote, CR or
 * NL, and in text format not a backslash or dot.
 */
#include "load/raw/line_scan.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#define HAVE_BLOCKS 1
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#define HAVE_BLOCKS 1
#endif

#define likely_to_be(x) __builtin_expect((x) != 0, 1)
#define seldom(x) __builtin_expect((x) != 0, 0)

/* Classes of bytes. */
#define CLASS_DELIM		0x01
#define CLASS_EOL		0x02	/* CR, NL */
#define CLASS_BACKSLASH	0x04
#define CLASS_QUOTE		0x08	/* quote or escape in CSV */
#define CLASS_UNPLAIN	0x10	/* a line that begins with it is rarely plain */

#define ODD(oddity) (1U << (oddity))

static bool
is_break(char c)
{
	return c == '\n' || c == '\r';
}

void
shard_line_scan_init(ShardLineScan *scan, const ShardLineFormat *format)
{
	memset(scan, 0, sizeof(*scan));
	scan->format = *format;
	scan->eol = SHARD_EOL_UNKNOWN;
#ifdef HAVE_BLOCKS
	scan->use_simd = true;
#endif
	scan->classes['\n'] |= CLASS_EOL;
	scan->classes['\r'] |= CLASS_EOL;
	scan->classes['\\'] |= CLASS_BACKSLASH;
	scan->classes[(unsigned char) format->delim] |= CLASS_DELIM;
	memset(scan->delims, format->delim, sizeof(scan->delims));
	memset(scan->specials, format->csv ? format->quote : '\\', sizeof(scan->specials));
	memset(scan->escapes, format->csv ? format->escape : '\\', sizeof(scan->escapes));
	if (format->csv)
	{
		scan->classes[(unsigned char) format->quote] |= CLASS_QUOTE;
		scan->classes[(unsigned char) format->escape] |= CLASS_QUOTE;
		scan->break_quotes = is_break(format->quote) || is_break(format->escape);
		if (scan->break_quotes)
			scan->use_simd = false;
		/* a possible marker; and if the first field is quoted, most other fields are, too */
		scan->classes['\\'] |= CLASS_UNPLAIN;
		scan->classes[(unsigned char) format->quote] |= CLASS_UNPLAIN;
	}
}

/* Are delimiters still needed? */
static inline bool
wants_fields(const ShardLineScan *scan, const ShardLineProgress *p)
{
	return p->keyno < scan->format.nkeys || scan->format.nfields > 0;
}

static inline bool
in_wanted_field(const ShardLineScan *scan, const ShardLineProgress *p)
{
	return p->keyno < scan->format.nkeys && p->fieldno == scan->format.key_fieldnos[p->keyno];
}

/* Ends the wanted field that contains p before byte end. */
static inline void
end_wanted_field(ShardLineProgress *p, size_t end, bool special, ShardLine *line)
{
	ShardLineField *field = &line->fields[p->keyno++];

	field->start = p->field_start;
	field->nbytes = end - p->field_start;
	field->plain = !special;
}

static inline bool
has_high_tail(const char *content, size_t nbytes)
{
	char		high = 0;

	if (likely_to_be(nbytes >= 3))
		high = content[nbytes - 1] | content[nbytes - 2] | content[nbytes - 3];
	else
	{
		while (nbytes > 0)
			high |= content[--nbytes];
	}
	return (high & 0x80) != 0;
}

static inline ShardLineStatus
finish_line(ShardLineScan *scan, ShardLineProgress *p, const char *buf,
			size_t content_bytes, size_t nbytes, ShardLine *line)
{
	unsigned	oddities = p->oddities;

	if (in_wanted_field(scan, p))
		end_wanted_field(p, content_bytes, p->field_special, line);
	if (p->keyno < scan->format.nkeys ||
		(scan->format.nfields > 0 && p->fieldno + 1 != scan->format.nfields))
		oddities |= ODD(SHARD_LINE_ODD_FIELDS);
	if (p->in_quote || scan->break_quotes)
		oddities |= ODD(SHARD_LINE_ODD_QUOTE);

	line->nbytes = nbytes;
	line->content_bytes = content_bytes;
	line->nbreaks = p->nbreaks;
	line->high_tail = has_high_tail(buf, content_bytes);
	line->oddity = seldom(oddities) ? (ShardLineOddity) __builtin_ctz(oddities) : SHARD_LINE_NOT_ODD;
	if (seldom(scan->progress.pos > 0))
		memset(&scan->progress, 0, sizeof(scan->progress));
	return SHARD_LINE_FOUND;
}

/* ----
 * Bytes
 * ----
 */

/* Does a CR or NL at pos, not quoted and not escaped, end the line?  Returns the length of the line end, or 0. */
static inline size_t
take_break(ShardLineScan *scan, ShardLineProgress *p, const char *buf, size_t pos, size_t len)
{
	ShardLineEol eol = scan->eol;
	ShardLineEol seen;

	if (buf[pos] == '\n')
		seen = SHARD_EOL_NL;
	else if (eol != SHARD_EOL_CR && pos + 1 < len && buf[pos + 1] == '\n')
		seen = SHARD_EOL_CRNL;
	else
		seen = SHARD_EOL_CR;

	if (eol == SHARD_EOL_UNKNOWN)
		eol = scan->eol = seen;
	if (eol == seen)
		return seen == SHARD_EOL_CRNL ? 2 : 1;
	p->oddities |= ODD(SHARD_LINE_ODD_EOL);
	return 0;
}

/* Processes quotes and escapes in CSV.  True: byte c is data. */
static inline bool
take_csv_byte(ShardLineScan *scan, ShardLineProgress *p, char c)
{
	char		quote = scan->format.quote;
	char		escape = scan->format.escape;

	if (escape != quote)
	{
		if (c == escape)
			p->after_escape = p->in_quote && !p->after_escape;
	}
	if (c == quote)
	{
		p->field_special = true;
		if (!p->after_escape)
			p->in_quote = !p->in_quote;
	}
	if (c != escape)
		p->after_escape = false;
	if (p->in_quote && c == (scan->eol == SHARD_EOL_NL ? '\n' : '\r'))
		p->nbreaks++;
	return p->in_quote;
}

/* The same in text format. */
static inline bool
take_text_byte(ShardLineProgress *p, char c)
{
	if (p->after_escape)
	{
		p->after_escape = false;
		if (c == '.')
			p->oddities |= ODD(SHARD_LINE_ODD_MARKER);
		return true;
	}
	if (c == '\\')
	{
		p->after_escape = true;
		p->field_special = true;
	}
	return c == '\\';
}

static ShardLineStatus
scan_bytes(ShardLineScan *scan, ShardLineProgress *p, const char *buf, size_t len,
		   bool at_end, ShardLine *line)
{
	const bool	csv = scan->format.csv;

	for (; p->pos < len; p->pos++)
	{
		size_t		pos = p->pos;
		uint8_t		class;
		bool		is_last;
		char		c;

		if (!p->after_escape)
		{
			while (pos < len && scan->classes[(unsigned char) buf[pos]] == 0)
				pos++;
			p->pos = pos;
			if (pos == len)
				break;
		}
		c = buf[pos];
		class = scan->classes[(unsigned char) c];
		is_last = pos + 1 == len;

		/* These need the next byte.  Without it, stop in the state before them. */
		if (c == '\r' && is_last && !at_end)
			break;
		if (csv && c == '\\' && (pos == 0 || is_break(buf[pos - 1])))
		{
			if (is_last && !at_end)
				break;
			if (!is_last && buf[pos + 1] == '.')
				p->oddities |= ODD(SHARD_LINE_ODD_MARKER);
		}

		if (csv ? take_csv_byte(scan, p, c) : take_text_byte(p, c))
			continue;
		if (class & CLASS_EOL)
		{
			size_t		eol_bytes = take_break(scan, p, buf, pos, len);

			if (eol_bytes > 0)
				return finish_line(scan, p, buf, pos, pos + eol_bytes, line);
		}
		else if ((class & CLASS_DELIM) && wants_fields(scan, p))
		{
			if (in_wanted_field(scan, p))
				end_wanted_field(p, pos, p->field_special, line);
			p->fieldno++;
			p->field_start = pos + 1;
			p->field_special = false;
		}
	}
	if (at_end)
		return finish_line(scan, p, buf, len, len, line);
	return SHARD_LINE_MORE;
}

/*
 * ----
 * Blocks
 *
 * Bit n of a mask is for byte n of the block.
 * ----
 */
#ifdef HAVE_BLOCKS

#define BLOCK_BYTES 64
#define BLOCK_AHEAD 2			/* bytes after the block that must be in the buffer */

#if defined(__SSE2__)

typedef __m128i Vector;

#define vector_splat(c) _mm_set1_epi8(c)
#define vector_load(p) _mm_loadu_si128((const __m128i *) (p))
#define vector_eq(a, b) _mm_cmpeq_epi8(a, b)
#define vector_or(a, b) _mm_or_si128(a, b)

static inline uint64_t
vectors_mask(Vector a, Vector b, Vector c, Vector d)
{
	uint32_t	low = (uint32_t) _mm_movemask_epi8(a) | (uint32_t) _mm_movemask_epi8(b) << 16;
	uint32_t	high = (uint32_t) _mm_movemask_epi8(c) | (uint32_t) _mm_movemask_epi8(d) << 16;

	return low | (uint64_t) high << 32;
}

#else

typedef uint8x16_t Vector;

#define vector_splat(c) vdupq_n_u8((uint8_t) (c))
#define vector_load(p) vld1q_u8((const uint8_t *) (p))
#define vector_eq(a, b) vceqq_u8(a, b)
#define vector_or(a, b) vorrq_u8(a, b)

static inline uint64_t
vectors_mask(Vector a, Vector b, Vector c, Vector d)
{
	static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
	const Vector weights = vld1q_u8(bits);
	Vector		sum;

	/* Each pairwise addition halves the number of bytes per source byte: 64 -> 8. */
	sum = vpaddq_u8(vpaddq_u8(vandq_u8(a, weights), vandq_u8(b, weights)),
					vpaddq_u8(vandq_u8(c, weights), vandq_u8(d, weights)));
	sum = vpaddq_u8(sum, sum);
	return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
}

#endif							/* __SSE2__ */

/* Not an array: with -O2, loops over an array stay in memory instead of registers. */
typedef struct Block
{
	Vector		a;
	Vector		b;
	Vector		c;
	Vector		d;
} Block;

static inline Block
block_load(const char *bytes)
{
	Block		block;

	block.a = vector_load(bytes);
	block.b = vector_load(bytes + 16);
	block.c = vector_load(bytes + 32);
	block.d = vector_load(bytes + 48);
	return block;
}

/* Mask of the bytes that equal c. */
static inline uint64_t
block_eq(Block block, Vector c)
{
	return vectors_mask(vector_eq(block.a, c), vector_eq(block.b, c),
						vector_eq(block.c, c), vector_eq(block.d, c));
}

/* Mask of the bytes that equal c1 or c2. */
static inline uint64_t
block_eq2(Block block, Vector c1, Vector c2)
{
	return vectors_mask(vector_or(vector_eq(block.a, c1), vector_eq(block.a, c2)),
						vector_or(vector_eq(block.b, c1), vector_eq(block.b, c2)),
						vector_or(vector_eq(block.c, c1), vector_eq(block.c, c2)),
						vector_or(vector_eq(block.d, c1), vector_eq(block.d, c2)));
}

static inline Vector
vector_eq4(Vector v, Vector c1, Vector c2, Vector c3, Vector c4)
{
	return vector_or(vector_or(vector_eq(v, c1), vector_eq(v, c2)),
					 vector_or(vector_eq(v, c3), vector_eq(v, c4)));
}

/* Mask of the bytes that equal one of four values, which need not be distinct. */
static inline uint64_t
block_eq4(Block block, Vector c1, Vector c2, Vector c3, Vector c4)
{
	return vectors_mask(vector_eq4(block.a, c1, c2, c3, c4), vector_eq4(block.b, c1, c2, c3, c4),
						vector_eq4(block.c, c1, c2, c3, c4), vector_eq4(block.d, c1, c2, c3, c4));
}

static inline int
lowest_bit(uint64_t mask)
{
	return __builtin_ctzll(mask);
}

/* Bits below n, which is at most 63. */
static inline uint64_t
bits_below(int n)
{
	return ((uint64_t) 1 << n) - 1;
}

/* Bit n is set if an odd number of bits up to n are set. */
static inline uint64_t
running_parity(uint64_t mask)
{
	mask ^= mask << 1;
	mask ^= mask << 2;
	mask ^= mask << 4;
	mask ^= mask << 8;
	mask ^= mask << 16;
	return mask ^ (mask << 32);
}

/* Is any bit from field_start on set, in the block at base? */
static inline bool
any_since(uint64_t mask, size_t field_start, size_t base)
{
	size_t		from = field_start > base ? field_start - base : 0;

	return mask != 0 && from < BLOCK_BYTES && (mask >> from) != 0;
}

/* Processes the delimiters of a block. special: mask of the bytes that make fields not plain. */
static inline __attribute__((always_inline)) void
take_delims(const ShardLineScan *scan, ShardLineProgress *p, size_t base,
			uint64_t delims, uint64_t special, ShardLine *line)
{
	const int	nkeys = scan->format.nkeys;

	while (p->keyno < nkeys)
	{
		int			skip = scan->format.key_fieldnos[p->keyno] - p->fieldno;
		int			end;

		if (skip > 0)
		{
			uint64_t	last = 0;

			for (; skip > 0 && delims != 0; skip--)
			{
				last = delims;
				delims &= delims - 1;
				p->fieldno++;
			}
			if (skip > 0)
				return;
			p->field_start = base + lowest_bit(last) + 1;
			p->field_special = false;
		}
		if (delims == 0)
		{
			p->field_special |= any_since(special, p->field_start, base);
			return;
		}
		end = lowest_bit(delims);
		end_wanted_field(p, base + end,
						 p->field_special || any_since(special & bits_below(end), p->field_start, base),
						 line);
		delims &= delims - 1;
		p->fieldno++;
		p->field_start = base + end + 1;
		p->field_special = false;
	}
	if (scan->format.nfields > 0)
		p->fieldno += __builtin_popcountll(delims);
}

/* Mask of the bytes of a block that a backslash escapes.  Sets the bits of backslashes that begin a marker. */
static inline uint64_t
escaped_text(ShardLineProgress *p, const char *bytes, uint64_t backslashes, uint64_t *markers)
{
	uint64_t	escaped = p->after_escape ? 1 : 0;

	if (p->after_escape && bytes[0] == '.')
		*markers |= 1;
	backslashes &= ~escaped;
	p->after_escape = false;
	while (backslashes != 0)
	{
		int			n = lowest_bit(backslashes);

		if (bytes[n + 1] == '.')
			*markers |= (uint64_t) 1 << n;
		if (n == BLOCK_BYTES - 1)
		{
			p->after_escape = true;
			break;
		}
		escaped |= (uint64_t) 2 << n;
		backslashes &= ~((uint64_t) 3 << n);
	}
	return escaped;
}

/* Mask of the quotes of a block that begin or end quoting, if escape and quote differ. */
static inline uint64_t
toggling_quotes(ShardLineProgress *p, uint64_t quotes, uint64_t escapes)
{
	bool		in_quote = p->in_quote;
	int			taken = p->after_escape ? 0 : -1;	/* escaped byte */
	uint64_t	toggles = 0;

	if (escapes == 0 && !p->after_escape)
		return quotes;
	for (uint64_t rest = quotes | escapes; rest != 0; rest &= rest - 1)
	{
		int			n = lowest_bit(rest);

		if (n == taken)
			continue;
		if (quotes & rest & -rest)
		{
			toggles |= rest & -rest;
			in_quote = !in_quote;
		}
		else if (in_quote)
			taken = n + 1;
	}
	p->after_escape = taken == BLOCK_BYTES;
	return toggles;
}

/* Counts line breaks in quotes before the line end, and checks the line after each. */
static void
take_quoted_breaks(ShardLineProgress *p, const char *bytes, uint64_t breaks, char counted)
{
	for (; breaks != 0; breaks &= breaks - 1)
	{
		int			n = lowest_bit(breaks);

		if (bytes[n] == counted)
			p->nbreaks++;
		if (bytes[n + 1] == '\\' && bytes[n + 2] == '.')
			p->oddities |= ODD(SHARD_LINE_ODD_MARKER);
	}
}

/*
 * Scans a block with any content.  Returns the length of the line end in it, and moves p->pos to the line end.
 * Returns 0, and moves p->pos behind the block, if there is none.
 */
static inline __attribute__((always_inline)) size_t
take_block(ShardLineScan *scan, ShardLineProgress *p, const char *buf, size_t len, bool csv, ShardLine *line)
{
	const ShardLineFormat *format = &scan->format;
	const size_t base = p->pos;
	const char *bytes = buf + base;
	const ShardLineEol eol = scan->eol;
	Block		block = block_load(bytes);
	uint64_t	breaks = block_eq2(block, vector_splat('\n'), vector_splat('\r'));
	uint64_t	special = block_eq(block, vector_load(scan->specials));
	uint64_t	below = ~(uint64_t) 0;
	uint64_t	markers = 0;
	uint64_t	masked;
	size_t		eol_bytes = 0;

	if (csv)
	{
		uint64_t	toggles = special;
		bool		was_in_quote = p->in_quote;

		if (format->escape != format->quote)
			toggles = toggling_quotes(p, special, block_eq(block, vector_load(scan->escapes)));
		masked = running_parity(toggles) ^ (was_in_quote ? ~(uint64_t) 0 : 0);
	}
	else
		masked = escaped_text(p, bytes, special, &markers);

	for (uint64_t rest = breaks & ~masked; rest != 0 && eol_bytes == 0; rest &= rest - 1)
	{
		p->pos = base + lowest_bit(rest);
		eol_bytes = take_break(scan, p, buf, p->pos, len);
		if (eol_bytes > 0)
			below = bits_below(lowest_bit(rest));
	}
	if (eol_bytes == 0)
		p->pos = base + BLOCK_BYTES;
	if (csv)
	{
		p->in_quote = eol_bytes == 0 && masked >> (BLOCK_BYTES - 1);
		if (seldom((breaks & masked & below) != 0))
			take_quoted_breaks(p, bytes, breaks & masked & below, eol == SHARD_EOL_NL ? '\n' : '\r');
	}
	else if (seldom((markers & below) != 0))
		p->oddities |= ODD(SHARD_LINE_ODD_MARKER);
	if (wants_fields(scan, p))
		take_delims(scan, p, base, block_eq(block, vector_load(scan->delims)) & ~masked & below,
					special & below, line);
	return eol_bytes;
}

/* Scans the blocks from p on, with any content. */
static inline __attribute__((always_inline)) ShardLineStatus
scan_blocks(ShardLineScan *scan, ShardLineProgress *p, const char *buf, size_t len, bool csv, ShardLine *line)
{
	/*
	 * Each block checks the bytes after its line breaks.  This checks the byte after a line break just before the
	 * first block.
	 */
	if (csv && buf[p->pos] == '\\' && buf[p->pos + 1] == '.' && (p->pos == 0 || is_break(buf[p->pos - 1])))
		p->oddities |= ODD(SHARD_LINE_ODD_MARKER);

	do
	{
		size_t		eol_bytes = take_block(scan, p, buf, len, csv, line);

		if (eol_bytes > 0)
			return finish_line(scan, p, buf, p->pos, p->pos + eol_bytes, line);
	} while (len - p->pos >= BLOCK_BYTES + BLOCK_AHEAD);
	return SHARD_LINE_MORE;
}

/*
 * Scans a line from its beginning while blocks have only delimiters and data, followed by a regular line end.  MORE:
 * there is something else at p.
 */
static inline __attribute__((always_inline)) ShardLineStatus
scan_plain_blocks(ShardLineScan *scan, ShardLineProgress *p, const char *buf, size_t len,
				  bool own_escape, ShardLine *line)
{
	const ShardLineEol eol = scan->eol;
	const char	eol_byte = eol == SHARD_EOL_NL ? '\n' : '\r';
	const Vector nl = vector_splat('\n');
	const Vector cr = vector_splat('\r');
	const Vector special = vector_load(scan->specials);
	const Vector escape = own_escape ? vector_load(scan->escapes) : special;
	const Vector delim = vector_load(scan->delims);

	do
	{
		const char *bytes = buf + p->pos;
		uint64_t	delims = 0;
		uint64_t	any;
		Block		block = block_load(bytes);

		any = block_eq4(block, nl, cr, special, escape);
		if (wants_fields(scan, p))
			delims = block_eq(block, delim);
		if (any != 0)
		{
			int			end = lowest_bit(any);

			if (bytes[end] != eol_byte || (eol == SHARD_EOL_CRNL && bytes[end + 1] != '\n'))
				return SHARD_LINE_MORE;
			take_delims(scan, p, p->pos, delims & bits_below(end), 0, line);
			return finish_line(scan, p, buf, p->pos + end,
							   p->pos + end + (eol == SHARD_EOL_CRNL ? 2 : 1), line);
		}
		take_delims(scan, p, p->pos, delims, 0, line);
		p->pos += BLOCK_BYTES;
	} while (len - p->pos >= BLOCK_BYTES + BLOCK_AHEAD);
	return SHARD_LINE_MORE;
}

#endif							/* HAVE_BLOCKS */

/* Scans the line from p on. */
static __attribute__((noinline)) ShardLineStatus
scan_rest(ShardLineScan *scan, ShardLineProgress p, const char *buf, size_t len, bool at_end, ShardLine *line)
{
	ShardLineStatus status;

#ifdef HAVE_BLOCKS
	if (len - p.pos >= BLOCK_BYTES + BLOCK_AHEAD && scan->use_simd)
	{
		status = scan->format.csv ?
			scan_blocks(scan, &p, buf, len, true, line) :
			scan_blocks(scan, &p, buf, len, false, line);
		if (status == SHARD_LINE_FOUND)
			return status;
	}
#endif
	status = scan_bytes(scan, &p, buf, len, at_end, line);
	if (status == SHARD_LINE_MORE)
	{
		scan->progress = p;
		memcpy(scan->found, line->fields, p.keyno * sizeof(line->fields[0]));
	}
	return status;
}

ShardLineStatus
shard_line_scan_next(ShardLineScan *scan, const char *buf, size_t len, bool at_end, ShardLine *line)
{
	ShardLineProgress p = {0};

	if (seldom(scan->progress.pos > 0))
	{
		p = scan->progress;
		memcpy(line->fields, scan->found, p.keyno * sizeof(line->fields[0]));
	}
	else if (seldom(len == 0))
		return at_end ? SHARD_LINE_END : SHARD_LINE_MORE;
#ifdef HAVE_BLOCKS
	else if (likely_to_be(len >= BLOCK_BYTES + BLOCK_AHEAD && scan->use_simd && scan->eol != SHARD_EOL_UNKNOWN) &&
			 !(scan->classes[(unsigned char) buf[0]] & CLASS_UNPLAIN))
	{
		ShardLineStatus status;

		if (scan->format.csv && scan->format.escape != scan->format.quote)
			status = scan_plain_blocks(scan, &p, buf, len, true, line);
		else
			status = scan_plain_blocks(scan, &p, buf, len, false, line);
		if (likely_to_be(status == SHARD_LINE_FOUND))
			return status;
	}
#endif
	return scan_rest(scan, p, buf, len, at_end, line);
}
