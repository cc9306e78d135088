# CopyParts.pm - what the cases of CopyCases.pm are made of: tables, files, and the list of cases

package CopyParts;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(copy_tables sql_literal pick chance add group_start text_file csv_file @cases @eols @bytes @text_bytes @csv_bytes $seed $version);

# name => columns, partition key, bounds of the partitions (hash: their number), statements
# for plain and sharded table ({t} is the table), databases.
sub copy_tables
{
	my @tables = (
		[ 'ints',   'a int, b text, c int',    'a' ],
		[ 'mid',    'x int, k int, y text',    'k', 7 ],
		[ 'mid3',   'x text, k text, y text',  'k', 7 ],
		[ 'last',   'b text, c date, k bigint', 'k' ],
		[ 'texts',  'k text, v text',          'k', 7 ],
		[ 'coll',   'v int, k text COLLATE "POSIX"', 'k' ],
		[ 'chars',  'k char(6), v varchar(5)', 'k' ],
		[ 'smalls', 'v text, k smallint',      'k' ],
		[ 'bigs',   'k bigint, v text',        'k' ],
		[ 'uuids',  'k uuid, v int',           'k' ],
		[ 'dates',  'v int, k date',           'k' ],
		[ 'stamps', 'k timestamp, v text',     'k' ],
		[ 'stamps3', 'k timestamp(3), v text', 'k' ],
		[ 'zoned',  'k timestamptz, v text',   'k' ],
		[ 'nums',   'k numeric, v text',       'k' ],
		[ 'nums2',  'k numeric(8,2), v text',  'k' ],
		[ 'floats', 'k float8, v text',        'k' ],
		[ 'bools',  'k bool, v text',          'k' ],
		[ 'doms',   'k posint, v shorttext',   'k' ],
		[ 'byteskey', 'k bytea, v int',        'k' ],
		[ 'arrkey', 'v int, k int[]',          'k' ],
		[ 'pair',   'b text, v text, a int',   'a, b' ],
		[ 'pairdate', 'd date, v text, u uuid, k smallint', 'k, d, u', 7 ],
		[ 'one',    'k text',                  'k', 7 ],
		[ 'onei',   'k int',                   'k' ],
		[ 'bytes',  'k int, b bytea',          'k' ],
		[
			'defs',
			q{k int, c text DEFAULT E'c,"x\t\\\\y', v int DEFAULT volatile_seven(), s bigint DEFAULT nextval('seq_{s}'), n text, z date DEFAULT '2026-02-01', t text DEFAULT 'end'},
			'k'
		],
		[ 'consts', q{a int DEFAULT 5, k int, c text DEFAULT E'c,"x\ty|\\\\z', d date DEFAULT '2026-02-01', n text}, 'k' ],
		[ 'keydef', q{v text, k int DEFAULT 7}, 'k' ],
		[ 'keynull', q{v text, k int}, 'k' ],
		[ 'idents', q{k int, i int GENERATED ALWAYS AS IDENTITY, v text}, 'k' ],
		[ 'gens',   q{k int, a int, g int GENERATED ALWAYS AS (a * 2) STORED, z text}, 'k' ],
		[ 'strict', q{k int NOT NULL, v text NOT NULL, c int CONSTRAINT c_positive CHECK (c > 0)}, 'k' ],
		[ 'uniq',   q{k int PRIMARY KEY, v text}, 'k' ],
		[ 'dropped', q{gone int, k int, gone2 text, v text, gone3 int}, 'k', 5, 'ALTER TABLE {t} DROP gone, DROP gone2, DROP gone3' ],
		[ 'Odd "Ta.ble', qq{"K ey" int, "sel""ect" text, "\xc3\x9cn\xc3\xaf" text, "a,b" int}, '"K ey"' ],
		[ 'types',
			q{k int, a int[], ta text[], j jsonb, iv interval, m money, d date, ts timestamp, tz timestamptz, t time, tt timetz, f float8, f4 float4, b bool, bi bit(4), c "char", u uuid, n numeric(6,2), x text},
			'k' ],
		[ 'times',
			q{k int, a int[], ta text[], j jsonb, iv interval, d date, ts timestamp, tz timestamptz, t time, f float8, f4 float4, b bool, bi bit(4), c "char", u uuid, n numeric(6,2), x text},
			'k' ],
		[ 'regs',   'k int, r regtype, c regclass', 'k' ],
		[ 'comps',  'k int, c compound',       'k' ],
		[ 'wide', join(', ', map { "c$_ int" } 1 .. 1600), 'c800' ],
		[ 'rowtrig', q{k int, v text}, 'k', 5, 'CREATE TRIGGER mark BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION mark_row()' ],
		[ 'aftertrig', q{k int, v text}, 'k', 5, 'CREATE TRIGGER note AFTER INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION note_row()' ],
		[ 'stmttrig', q{k int, v text}, 'k', 5, 'CREATE TRIGGER note AFTER INSERT ON {t} FOR EACH STATEMENT EXECUTE FUNCTION note_row();'
			. ' CREATE TRIGGER note2 BEFORE INSERT ON {t} FOR EACH STATEMENT EXECUTE FUNCTION note_row()' ],
		[ 'hashed', 'k int, v text', 'k', [ map { "WITH (MODULUS 4, REMAINDER $_)" } 0, 1, 3 ] ],
		[ 'ranged', 'd date, v text', 'd',
			[ "FROM (MINVALUE) TO ('2020-01-01')", "FROM ('2020-01-01') TO ('2021-01-01')", "FROM ('2022-01-01') TO ('2023-01-01')", "FROM ('2023-01-01') TO ('2024-01-01')" ] ],
		[ 'ranged2', 'v text, a int, b text', 'b, a',
			[ "FROM ('a', 1) TO ('a', 10)", "FROM ('a', 10) TO ('c', MINVALUE)", "FROM ('d', MINVALUE) TO ('z', 5)" ] ],
		[ 'listed', 'v int, k text', 'k', [ "IN ('a', 'b')", "IN ('c', NULL)", "IN ('d d', '', 'it''s')" ] ],
		[ 'listdef', 'k int, v text', 'k', [ 'IN (1, 2, 3)', 'IN (4)', 'DEFAULT' ] ],
		[ 'exprd',  'k text, v text', '(lower(k))', [ map { "WITH (MODULUS 3, REMAINDER $_)" } 0 .. 2 ] ],
	);
	my @result;

	for (@tables)
	{
		my ($name, $columns, $key, $shards, $after) = @$_;
		my $bounds = ref $shards ? $shards : [ map { 'WITH (MODULUS ' . ($shards // 5) . ", REMAINDER $_)" } 0 .. ($shards // 5) - 1 ];
		push @result,
		  {
			name       => $name,
			columns    => $columns,
			key        => $key,
			bounds     => $bounds,
			strategy   => $bounds->[0] =~ /^WITH/ ? 'HASH' : $bounds->[0] =~ /^FROM/ ? 'RANGE' : 'LIST',
			plain      => !ref $shards,
			after      => $after // '',
			encodings  => scalar($name =~ /^(ints|mid|mid3|texts|one|pair)$/),
		  };
	}
	return @result;
}

# ---- parts ---------------------------------------------------------------------------------------

our @cases;
our ($seed, $version);

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }

# A literal for any bytes but NUL: those that are not printable ASCII are escaped.
sub sql_literal
{
	my ($bytes) = @_;
	return "'$bytes'" if $bytes =~ /^[ -&(-\[\]-~]*$/;
	$bytes =~ s/([\\'])/\\$1/g;
	$bytes =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;
	return "E'$bytes'";
}

my @modes = (('txn') x 11, ('stdin') x 5, 'sub', 'sub', 'top', 'program');

sub add
{
	my ($group, $table, $options, $data, %rest) = @_;
	my $case = {
		group   => $group,
		table   => $table,
		columns => '',
		where   => '',
		set     => '',
		db      => 'utf8',
		options => $options,
		data    => $data,
		%rest
	};
	$case->{mode} //= pick(@modes);
	if ($case->{mode} eq 'stdin')
	{
		# With a backslash as QUOTE, core's result depends on the end of its buffer.
		$case->{cuts} = [] if $options =~ /QUOTE E?'\\/;
		$case->{cuts} //= length $data > 5000 ? [ map { 1 + int rand 30000 } 1 .. 5 ]
		  : pick([], [ (1) x length $data ], [ map { int rand 9 } 1 .. 20 ], [ map { 1 + int rand 4 } 1 .. 60 ], [ int rand(length($data) + 1) ]);
	}
	push @cases, $case;
	return;
}

sub group_start
{
	my ($name) = @_;
	my $n = $seed;
	$n = ($n * 31 + ord) % 2147483647 for split //, $name;
	srand $n;
	return;
}

our @eols = ("\n", "\r\n", "\r");

# Rows (lists of fields, undef for NULL) as a file of text or CSV.
sub text_file
{
	my ($rows, %o) = @_;
	my $delim = $o{delim} // "\t";
	my $null  = $o{null}  // '\N';
	my $eol   = $o{eol}   // "\n";
	my $file  = '';

	for my $row (@$rows)
	{
		$file .= join $delim, map {
			my $v = $_;
			if (defined $v)
			{
				$v =~ s/\\/\\\\/g;
				$v =~ s/\n/\\n/g;
				$v =~ s/\r/\\r/g;
				$v =~ s/\Q$delim\E/\\$delim/g;
				$v = '\\' . $v if $v eq $null && $v ne '' && $v !~ /^[0-7bfnrtvxN.]/;
			}
			defined $v ? $v : $null
		} @$row;
		$file .= $eol;
	}
	return $file;
}

sub csv_file
{
	my ($rows, %o) = @_;
	my $delim  = $o{delim}  // ',';
	my $null   = $o{null}   // '';
	my $eol    = $o{eol}    // "\n";
	my $quote  = $o{quote}  // '"';
	my $escape = $o{escape} // $quote;
	my $always = $o{always} // 0;
	my $file   = '';

	for my $row (@$rows)
	{
		$file .= join $delim, map {
			my $v = $_;
			if (defined $v && ($v eq $null || $v =~ /[\r\n\Q$delim$quote\E]/ || $v eq '\.' || chance($always)))
			{
				$v =~ s/([\Q$quote$escape\E])/$escape$1/g;
				$v = "$quote$v$quote";
			}
			defined $v ? $v : $null
		} @$row;
		$file .= $eol;
	}
	return $file;
}

# ---- groups --------------------------------------------------------------------------------------

# Bytes that have a meaning, or are invalid, in some format.
our @bytes = (
	"\xff", "\xc3", "\x80", "\0", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x9f\x98", "\xc3\xa9", "\xe2\x82\xac",
	"\xf0\x9f\x98\x80", "\xef\xbb\xbf", '', ' ', "\t", "\n", "\r", "\r\n", "\n\r", "\n\n", "\r\r", "\x01", "\x7f", "\x1a", '"', ',', "'", 'abc', '7', '99999999999', 'NULL', '\N', '\n', '\.', '\\\\.',
	"\\.\n", "\\.\r", "\\.\r\n", "\\.x", "x\\.", '\\', '\\\\', "\\\n", "\\\r", "\\\r\n", '-', '+5', '0x1F', '1_0'
);
our @text_bytes = (
	'\x', '\x4', '\x41', '\x0', '\x00', '\xff', '\xc3\xa9', '\060', '\61', '\0', '\377', '\303\251', '\8', '\b', '\v', '\t', '\r', '\Nx', 'x\N', '\\\\N',
	"\\\t", "\\\\\n", "\\\\\\\n", '\x5c.', '\xe9', "\\\xff", "\\\xc3\xa9"
);
our @csv_bytes = (
	'""', '"""', '""""', '"a"', '"a', 'a"', 'a"b"c', '"a"b', '"a""b"', '"1"', '"\."', "\"\\.\"\n", "\"\n\"", "\"\r\"", "\"\r\n\"", "\"\n", "\"\n\\.\n\"", "\"\n\\.x\"", "\"a\n\\.\n", '"\\"', '"\\\\"',
	'"\""', '\"', '"N', '"\N"', '" "', ' "a"', '"a" ', "\"\\\n\"", "\"\xff\"", "\"\0\"", "\"\xc3", "\"\n\xe2\x82\"", '"NULL"', '","'
);

1;
