# CopyCases.pm - the cases of the comparison of COPY FROM with core
#
# Tables, and a list of cases made from a seed. A case is a file with options:
#
#   group     name of the group it is counted in
#   table     one of tables()
#   columns   column list with brackets, or ''
#
#   options   what stands between the brackets after FROM, or ''
#   where     condition, or ''
#   data      bytes of the file
#
#   mode      txn      in a transaction block, from a file
#             sub      within a subtransaction of PL/pgSQL, from a file
#             top      a transaction by itself, from a file
#
#             program  as txn, from PROGRAM 'cat file'
#             stdin    as txn, from the client, in messages of the sizes given in cuts
#
#   cuts      mode stdin: sizes of the first messages; the rest is one
#   set       settings, 'a = b; c = d'
#   db        utf8 (default), latin, eucjp
#
#   source    instead of a file: what stands after FROM
#   probe     query on {t} that gives a count and a checksum
#
#   binary_fails  SQLSTATE of the error that values in binary may raise
#   loose     1: messages and the place in a line may differ, SQLSTATE and line may not;
#             2: only SQLSTATE counts
#
# Every group has a separate random generator, so that cases of one group do not depend on another.

package CopyCases;

use strict;
use warnings;

use CopyFixed;
use CopyParts;
use CopyRandom;
use Exporter 'import';

our @EXPORT = qw(copy_cases random_cases);

# ---- groups --------------------------------------------------------------------------------------

my @places = qw(start line2 left key within right inside lineend alone eof tail);

sub place
{
	my ($what, $place, $eol, $delim) = @_;
	my @rows = ([ '1', '10', 'aa' ], [ '2', '20', 'bb' ], [ '3', '30', 'cc' ], [ '4', '40', 'dd' ]);
	my $row  = $rows[1];

	if    ($place eq 'left')   { $row->[0] = $what; }
	elsif ($place eq 'key')    { $row->[1] = $what; }
	elsif ($place eq 'within') { $row->[1] = "2${what}0"; }
	elsif ($place eq 'right')  { $row->[2] = $what; }
	elsif ($place eq 'inside') { $row->[2] = "b${what}b"; }
	my @lines = map { join $delim, @$_ } @rows;
	if    ($place eq 'start')   { $lines[0] = $what . $lines[0]; }
	elsif ($place eq 'line2')   { $lines[1] = $what . $lines[1]; }
	elsif ($place eq 'lineend') { $lines[1] .= $what; }
	elsif ($place eq 'alone')   { splice @lines, 2, 0, $what; }
	my $file = join $eol, @lines;
	if    ($place eq 'eof')  { $file .= $eol . $what; }
	elsif ($place eq 'tail') { $file .= $what; }
	elsif (!chance(0.15))    { $file .= $eol; }
	return $file;
}

sub text_places
{
	my $n = 0;
	for my $what (@bytes, @text_bytes)
	{
		for my $place (@places)
		{
			# Two of the three line ends if they matter, and each table in half of the cases.
			for (1 .. ($what =~ /[\r\n\\]/ ? 2 : 1))
			{
				my $eol = $eols[ $n++ % 3 ];
				my $delim = pick("\t", "\t", ',', '|');
				add('text, odd bytes', pick('mid', 'mid3'), $delim eq "\t" ? '' : "DELIMITER '$delim'", place($what, $place, $eol, $delim));
			}
		}
	}
	return;
}

my @csv_styles = (
	[ ',', '"', '"' ], [ ',', '"', '"' ], [ ',', '"', '"' ], [ ',', '"', '\\' ], [ ';', "'", "'" ], [ "\t", "'", '"' ], [ '|', '\\', '\\' ], [ ',', '\\', '"' ], [ '|', '"', 'x' ], [ 'x', '"', '"' ]
);

sub csv_places
{
	my $n = 0;
	for my $what (@bytes, @csv_bytes)
	{
		for my $place (@places)
		{
			for (1 .. ($what =~ /[\r\n\\"]/ ? 2 : 1))
			{
				my $eol = $eols[ $n++ % 3 ];
				my ($delim, $quote, $escape) = @{ pick(@csv_styles) };
				(my $bytes = $what) =~ tr/",\\/\x{11}\x{12}\x{13}/;
				$bytes = $what if $quote eq '"';
				if ($bytes ne $what)
				{
					$bytes =~ s/\x{11}/$quote/g;
					$bytes =~ s/\x{12}/$delim/g;
					$bytes =~ s/\x{13}/chance(0.5) ? $escape : '\\'/ge;
				}
				add('CSV, odd bytes', pick('mid', 'mid3'), csv_options($delim, $quote, $escape) . pick('', '', '', ", NULL '\\N'", ", NULL 'bb'"), place($bytes, $place, $eol, $delim));
			}
		}
	}
	return;
}

# Values of the types of keys, each in a separate row between two others.
my %values = (
	ints => [ ' 5', '5 ', '+5', '05', '-0', ' -7', '--7', '2147483647', '2147483648', '-2147483648', '-2147483649', '99999999999999999999', '', ' ', '5.0', '1e3', '0x10', '0b1', '0o7', '1_000', '_1', '1_', "5\x0b", "\xef\xbc\x95", 'NULL', 'null', '- 5', '+', '-', '000000000000000000000000000001' ],
	smalls => [ '32767', '32768', '-32768', '-32769', ' 12 ', '', 'x', '0x7f' ],
	bigs => [ '9223372036854775807', '9223372036854775808', '-9223372036854775808', '-9223372036854775809', ' 12 ', '', '1.5', '+0', '0xFFFFFFFFFFFFFFFF', '0x7FFFFFFFFFFFFFFF', '1__0' ],
	texts => [ '', ' ', 'a ', "\xc3\xa9", "e\xcc\x81", 'NULL', 'x' x 3000, '0', "\x01", 'A', "\xf0\x9f\x98\x80" ],
	coll  => [ '' , 'a ', "\xc3\xa9", 'A' ],
	chars => [ '', 'a', 'a     ', 'abcdef', 'abcdefg', 'abcdef   ', "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", ' a' ],
	uuids => [ 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', 'a0eebc999c0b4ef8bb6d6bb9bd380a11', 'a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11',
		'{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ', ' a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '', '-' ],
	dates => [ '2026-02-03', '2026-2-3', '20260203', '260203', '02/03/2026', '13/02/2026', '02/13/2026', '02/03/04', '2026/02/03', '3-Feb-2026', 'Feb 3, 2026', 'February 3 2026', '2026-02-30', '2026-13-01', '0000-01-01', '0001-01-01', '0001-01-01 BC', '4714-11-24 BC', '4714-11-23 BC',
		'5874897-12-31', '5874898-01-01', '10000-01-01', 'J2451187', '1999.005', 'infinity', '-infinity', 'epoch', 'today', 'tomorrow', 'yesterday', '2026-02-03 23:59:59', '2026-02-03T10:00:00Z', ' 2026-02-03', '2026-02-03 ', '', '2026-02-29', '2024-02-29', '1900-02-29', '2000-02-29', '2026-02-03 BC', '99-01-01', '2026-02', '2026-034', 'allballs', '24-02-2026' ],
	stamps => [ '2026-02-03 04:05:06', '2026-02-03 04:05:06.789', '2026-02-03 04:05:06.1234567', '2026-02-03 04:05:06.9999999', '2026-02-03 04:05:06.9999995', '2026-02-03 04:05:06.0000005', '2026-02-03 23:59:59.9999999', '2026-02-03T04:05:06', '2026-02-03 04:05', '2026-02-03', '2026-02-03 24:00:00', '2026-02-03 24:00:01', '2026-02-03 04:05:60', '2026-02-03 04:05:60.5', '2026-02-03 04:60:00', '2026-02-03 25:00:00',
		'2026-02-03 04:05:06+02', '2026-02-03 04:05:06 America/New_York', '2026-02-03 04:05:06Z', '02/03/2026 4:05 PM', 'infinity', '-infinity', 'epoch', '294276-12-31 23:59:59.999999', '294277-01-01', '4714-11-24 00:00:00 BC', '0001-01-01 00:00:00', '2026-02-03  04:05:06', '2026-02-03 04:05:06 ', ' 2026-02-03 04:05:06', '2026-02-03 4:5:6', '2026-02-03 04:05:06.', '2026-02-03 04:05:.5', '20260203T040506', '2026-02-03 040506', '2026-02-30 00:00:00', '', 'x', '2026-02-03 04:05:06 BC', '2026-02-03 04:05:06 AM', '2026-02-03-04:05:06', '2026-02-03 04:05:06,5' ],
	zoned => [ '2026-02-03 04:05:06', '2026-02-03 04:05:06+00', '2026-02-03 04:05:06-05', '2026-02-03 04:05:06+05:30', '2026-02-03 04:05:06+0530', '2026-02-03 04:05:06 EST', '2026-02-03 04:05:06 America/New_York', '2026-03-29 02:30:00', '2026-03-29 02:30:00 Europe/Berlin', '2026-10-25 02:30:00 Europe/Berlin', '2026-02-03T04:05:06Z', '2026-02-03', '02/03/2026', '2026-02-03 04:05:06+25', '2026-02-03 04:05:06 Nowhere/Land', '1900-01-01 00:00:00', 'infinity', '', '2026-02-03 04:05:06.123456+00', '2026-02-03 04:05:06 -infinity' ],
	nums => [ '1', '1.0', '1.00', '1e0', '10e-1', '0', '-0', '0.0', '.5', '5.', '0.50', 'NaN', 'nan', 'Infinity', '-inf', '1e131071', '1e200000', ' 1 ', '', '1_000', '0x10', '1' x 200, '1,5', '--1', '1e', '+1' ],
	nums2 => [ '1', '1.005', '1.004', '999999.99', '999999.995', '1000000', 'NaN', 'Infinity', '1e3', '-0.001' ],
	floats => [ '1', '1.0', '0', '-0', 'NaN', 'Infinity', '-inf', '1e308', '1e309', '1e-400', '4.9e-324', '0.1', '.1e1', '', ' 1 ', '0x1p3', '1f' ],
	bools => [ 't', 'f', 'true', 'false', 'TRUE', 'y', 'n', 'yes', 'no', 'on', 'off', 'o', 'of', '1', '0', '2', ' t', 't ', 'tr', 'tru', 'truee', '', 'T', 'nO' ],
	doms  => [ '1', '0', '-1', ' 7 ', '', 'x' ],
	byteskey => [ '\x', '\x00', '\xff', '\x0', '\xzz', 'abc', '', '\000', '\\\\', 'a\b', '\x 41', '\x41 ', "\xc3\xa9" ],
	arrkey => [ '{}', '{1}', '{1,2}', '{ 1 , 2 }', '{NULL}', '{"1"}', '{1', '', '[0:1]={1,2}', '{{1},{2}}', '{1,}', '{nUll}' ],
	listed => [ 'a', 'b', 'c', 'd d', 'it\'s', 'zz', 'A', '' ],
	ranged => [ '2019-12-31', '2020-01-01', '2020-12-31', '2021-01-01', '2021-06-01', '2022-01-01', '2024-01-01', 'infinity', '-infinity', '0001-01-01 BC', 'x' ],
	hashed => [ 1 .. 12 ],
	listdef => [ '1', '3', '4', '99', '', 'x' ],
	exprd => [ 'a', 'A', 'B', "\xc3\x89", '' ],
);
# Position of the key, a value for the other column.
my %key_at = map { $_ => 0 } keys %values;
$key_at{$_} = 1 for qw(coll smalls dates arrkey listed);
my %other = (coll => 1, dates => 3, arrkey => 2, uuids => 9, byteskey => 4, listed => 8);

sub valid_key
{
	my ($table) = @_;
	my %valid = (
		uuids => 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', dates => '2026-05-06', stamps => '2026-05-06 07:08:09', zoned => '2026-05-06 07:08:09+00', bools => 't', arrkey => '{7}',
		listed => 'a', ranged => '2020-02-02', byteskey => '\x41', texts => 'k', hashed => '1', exprd => 'k'
	);
	return $valid{$table} // '3';
}

sub key_values
{
	my %styles = (dates => [ 'DateStyle = \'SQL, DMY\'', 'DateStyle = \'German\'', 'DateStyle = \'Postgres, YMD\'' ],
		stamps => [ 'DateStyle = \'SQL, DMY\'; TimeZone = \'America/New_York\'' ],
		zoned => [ 'TimeZone = \'America/New_York\'', 'TimeZone = \'Europe/Berlin\'; DateStyle = \'Postgres, DMY\'', 'timezone_abbreviations = \'Australia\'' ]);
	for my $table (sort keys %values)
	{
		for my $value (@{ $values{$table} }, undef)
		{
			my @rows = map { [ $_, 'v' ] } valid_key($table), $value, valid_key($table);
			$_->[1] = $other{$table} // 'v' for @rows;
			@$_ = reverse @$_ for $key_at{$table} ? @rows : ();
			my $set = $styles{$table} && chance(0.6) ? pick(@{ $styles{$table} }) : '';
			my $eol = pick(@eols);
			add('values of keys', $table, '', text_file(\@rows, eol => $eol), set => $set);
			$set = pick(@{ $styles{$table} }) if $styles{$table};
			add('values of keys', $table, 'FORMAT csv', csv_file(\@rows, eol => $eol, always => pick(0, 1)), set => $set);
		}
		next if $table ne 'stamps';
		# Rounding leads to a value after the last valid one.
		add('values of keys', 'stamps3', '', text_file([ [ $_, 'x' ] ]), binary_fails => '22008') for @{ $values{stamps} };
	}
	return;
}

# R17: every combination of DELIMITER, NULL, QUOTE, ESCAPE and FORCE_*.
sub option_combinations
{
	my @rows = ([ 'k1', '', undef ], [ 'k2', 'a\\b', '\\x41' ], [ '', 'q"q', "new\nline" ], [ undef, 'd,|d', "tab\there" ], [ 'NULL', '\N', '\.' ], [ 'k6', "it's", ' ' ]);
	for my $delim (',', '|')
	{
		for my $null ('', 'NULL')
		{
			for my $quote ('"', "'")
			{
				for my $escape ($quote, '\\')
				{
					for my $force ('', 'FORCE_NULL (x, k, y)', 'FORCE_NOT_NULL (x, k, y)', 'FORCE_NOT_NULL (k), FORCE_NULL (y)')
					{
						my $options = "FORMAT csv, DELIMITER '$delim', NULL '$null', QUOTE " . sql_literal($quote) . ', ESCAPE ' . sql_literal($escape) . ($force && ", $force");
						add('combined options', 'mid3', $options, csv_file(\@rows, delim => $delim, null => $null, quote => $quote, escape => $escape, always => pick(0, 0.5)));
					}
				}
			}
		}
		for my $null ('', '\N', '\\', 'NULL', '\\\\', 'k1', 'a\\b')
		{
			add('combined options', 'mid3', "DELIMITER '$delim', NULL " . sql_literal($null), text_file(\@rows, delim => $delim, null => $null)) for 1 .. 2;
		}
	}
	return;
}

my @option_errors = (
	q{FORMAT nonsense}, q{DELIMITER ''}, q{DELIMITER 'ab'}, q{DELIMITER E'\n'}, q{DELIMITER '\\'}, q{DELIMITER 'n'}, q{DELIMITER '.'}, q{DELIMITER '0'}, q{DELIMITER 'Z'}, q{DELIMITER E'\xc3\xa9'}, q{NULL E'a\nb'}, q{NULL E'a\tb'},
	q{QUOTE '"'}, q{ESCAPE '"'}, q{FORMAT csv, QUOTE ''}, q{FORMAT csv, QUOTE 'ab'}, q{FORMAT csv, QUOTE ','}, q{FORMAT csv, DELIMITER '"'}, q{FORMAT csv, ESCAPE 'ab'}, q{FORMAT csv, ESCAPE ''}, q{FORMAT csv, NULL 'a,b'}, q{FORMAT csv, NULL 'a"b'},
	q{FORMAT csv, FORCE_QUOTE (k)}, q{FORCE_NULL (k)}, q{FORCE_NOT_NULL (k)}, q{FORMAT csv, FORCE_NULL (nope)}, q{FORMAT csv, FORCE_NOT_NULL (k, k)}, q{FORMAT csv, FORCE_NULL k}, q{FORMAT csv, FORCE_NULL *}, q{FORMAT csv, FORCE_NOT_NULL *}, q{FORMAT csv, FORCE_NULL (k), FORCE_NULL (k)},
	q{FORMAT csv, FORMAT csv}, q{DELIMITER ',', DELIMITER ','}, q{HEADER 'maybe'}, q{HEADER 2}, q{HEADER match, HEADER}, q{HEADER 'on'}, q{ENCODING 'nope'}, q{ENCODING 'utf8', ENCODING 'utf8'}, q{nonsense}, q{nonsense 1}, q{FREEZE 'x'}, q{FREEZE, FREEZE},
	q{FORMAT binary, DELIMITER ','}, q{FORMAT binary, NULL ''}, q{FORMAT binary, HEADER}, q{DEFAULT '\D'}, q{DEFAULT ''}, q{DEFAULT '\N'}, q{DEFAULT E'a\nb'}, q{DEFAULT E'a\tb'}, q{FORMAT csv, DEFAULT 'a,b'}, q{FORMAT csv, DEFAULT ''}, q{FORMAT csv, DEFAULT 'a"b'}, q{FORMAT binary, DEFAULT 'x'},
	q{NULL 'x', DEFAULT 'x'}, q{HEADER, HEADER false}, q{FORMAT text}, q{FORMAT 'CSV'}, q{FORMAT csv, HEADER true, FORCE_NULL (k), FORCE_NOT_NULL (k)}
);

sub option_errors
{
	for my $options (@option_errors)
	{
		add('options', 'texts', $options, $options =~ /csv/i ? "1,v\n2,\n" : "1\tv\n2\t\\N\n");
	}
	for my $columns ('(k)', '(v)', '(v, k)', '(k, v, k)', '(nope)', '(k, nope)', '(ctid)', '(tableoid, k)', '(k, v)', '(V)', '("k","v")')
	{
		add('options', 'texts', 'FORMAT csv', "1,v\n2,\n", columns => $columns);
		add('options', 'texts', 'FORMAT csv', "1\n2\n", columns => $columns);
	}
	add('options', 'texts', '', '', source => $_, mode => pick('txn', 'sub', 'top'))
	  for (q{'/nonexistent/file'}, q{'relative/file'}, q{'/tmp'}, q{PROGRAM 'exit 3'}, q{PROGRAM '/nonexistent/program 2>/dev/null'}, q{''}, q{PROGRAM 'printf "1\tv\n"; exit 1'}, q{PROGRAM 'printf "1\tv\n2\tw"; kill -9 $$'}, q{PROGRAM 'printf "1\n"; exit 1'},
		q{PROGRAM 'printf "1\tv\n\\\\.\n"; exit 1'}, q{PROGRAM 'printf "1\tv\n\\\\.\n"; yes | head -c 1000000'}, q{PROGRAM 'printf "1\tv\n"; sleep 0.2; printf "2\t"; sleep 0.2; printf "w\n"'}, q{PROGRAM 'true'});
	return;
}

# Files whose lines, line ends, characters and escapes lie across the ends of buffers.
sub boundaries
{
	my $line = sub { my ($k, $nbytes) = @_; my $s = "$k\t"; return $s . 'x' x ($nbytes - length $s); };
	for my $size (8192, 65536, 262144)
	{
		for my $eol ("\n", "\r\n")
		{
			# The text at the boundary, and how many of its bytes come before the boundary.
			for my $what ($eol, "\xe2\x82\xac", '\\t', '\\.', "\\\\", "\\$eol", "\xff", '\\N', "\t", "\xf0\x9f\x98", "\\.$eol", "$eol\\.$eol")
			{
				for my $before (0 .. length($what) - 1)
				{
					next if $size == 262144 && chance(0.6);
					my $start = text_file([ map { [ $_, 'y' x (200 + $_ % 7) ] } 1 .. ($size - 3000) / 210 ], eol => $eol);
					my $file = $start . $line->('77', $size - $before - length $start) . $what . "z${eol}78\tlast$eol";
					add('ends of buffers', 'bigs', '', $file, $size == 262144 && chance(0.7) ? (mode => 'txn') : (), chance(0.15) ? (cuts => [ $size, 1, 1 ], mode => 'stdin') : ());
				}
			}
			for my $what ($eol, "\"$eol\"", '""', '","', "\"a$eol\\.$eol\"", "\"\xe2\x82\xac\"", '"\\""', "\"$eol", "$eol\"\\.\"$eol")
			{
				for my $before (0 .. length($what) - 1)
				{
					next if $size == 262144 && chance(0.6);
					my $start = csv_file([ map { [ $_, 'y' x (200 + $_ % 7) ] } 1 .. ($size - 3000) / 210 ], eol => $eol, always => 0.2);
					my $file = $start . '77,' . 'x' x ($size - $before - length($start) - 3) . $what . "z${eol}78,last$eol";
					add('ends of buffers', 'bigs', pick('FORMAT csv', 'FORMAT csv', q{FORMAT csv, ESCAPE '\\'}), $file);
				}
			}
		}
	}
	# Sizes of the whole file, with and without a final line end, and counts of rows.
	for my $size (65535, 65536, 65537, 131072, 262143, 262144, 262145)
	{
		for my $eol ("\n", "\r\n", "\r", '')
		{
			my $start = text_file([ map { [ $_, 'y' x 200 ] } 1 .. 300 ], eol => $eol || "\n");
			add('ends of buffers', 'bigs', '', $start . $line->('77', $size - length($start) - length $eol) . $eol);
		}
	}
	for my $n (0, 1, 2, 999, 1000, 1001, 2000, 9999, 10000, 10001)
	{
		for my $tail ("\n", '', "\n\\.\n", "\n\\.", "\n\n")
		{
			add('ends of buffers', 'onei', '', join("\n", 1 .. $n) . $tail);
		}
		add('ends of buffers', 'bigs', 'FORMAT csv, HEADER', "k,v\r\n" . join '', map { "$_,\"a\nb\"\r\n" } 1 .. $n);
		add('ends of buffers', 'bigs', '', join('', map { "$_\tv\n" } 1 .. $n) . "bad\tx\n" . join '', map { "$_\tv\n" } 1 .. 10);
		add('ends of buffers', 'ints', '', join('', map { "$_\tv\t1\n" } 1 .. $n) . "1\tx\tbad\n" . join('', map { "$_\tv\t1\n" } 1 .. 10) . "bad\tx\n");
		add('ends of buffers', 'ints', 'FORMAT csv', join('', map { "$_,\"v\n\",1\n" } 1 .. $n) . "1,x,bad\n" . join('', map { "$_,v,1\n" } 1 .. 2000) . "1,\"x");
	}
	return;
}

# One file in two messages, cut at every byte; and one byte per message, with empty messages in
# between.
sub message_cuts
{
	my %file = (
		'' => [ "1\ta\\tb\r\n2\t\xe2\x82\xac\\\\\r\n\\.\r\n3\tx\r\n", "1\ta\n2\tb\\\n\n3\t\\N\n", "1\ta\n\\.\nbad\n" ],
		'FORMAT csv' => [ "1,\"a\r\nb\"\r\n2,\"\"\"\xe2\x82\xac\"\r\n\\.\r\n3,c\r\n", "1,a\n2,\"\\.\n\"\n3,\"\n\\.\n\"\n", "1,a\n\\.\nbad\n", "1,\"\\.\"\r2,x\r" ]
	);
	for my $options (sort keys %file)
	{
		for my $data (@{ $file{$options} })
		{
			add('messages', 'bigs', $options, $data, mode => 'stdin', cuts => [$_]) for 1 .. length $data;
			add('messages', 'bigs', $options, $data, mode => 'stdin', cuts => [ (1) x length $data ]);
			add('messages', 'bigs', $options, $data, mode => 'stdin', cuts => [ (0, 1, 0) x length $data ]);
		}
	}
	return;
}

sub headers
{
	for my $header ('true', 'match')
	{
		for my $eol (@eols)
		{
			for my $file (
				"x,k,y${eol}1,2,3$eol", "x,k${eol}1,2,3$eol", "x,k,y,z${eol}1,2,3$eol", "X,k,y${eol}1,2,3$eol", "\"x\",\"k\",\"y\"${eol}1,2,3$eol", "\"x${eol}\",k,y${eol}1,2,3$eol", "x,k,y", "x,k,y$eol", '', $eol, "$eol${eol}1,2,3$eol",
				"\\.${eol}1,2,3$eol", "x,,y${eol}1,2,3$eol", "\xef\xbb\xbfx,k,y${eol}1,2,3$eol", "x,k,\xff${eol}1,2,3$eol", "x,k,y${eol}1,b,3$eol", "x,k,\"y${eol}1,2,3$eol", "y,k,x${eol}1,2,3$eol", "x,k,y ${eol}1,2,3$eol", "k,x,y${eol}1,2,3$eol", "x\\.,k,y${eol}1,2,3$eol"
			  )
			{
				(my $text = $file) =~ s/,/\t/g;
				my $columns = chance(0.15) ? pick('(y, k, x)', '(k, x, y)', '(x, k)') : '';
				add('headers', 'mid', "FORMAT csv, HEADER $header", $file, columns => $columns);
				add('headers', 'mid', "HEADER $header" . pick('', '', ", NULL ''", ", NULL 'x'"), $text, columns => $columns) if chance(0.7);
			}
		}
	}
	return;
}

# Column lists: with columns left out, in other orders, generated, with defaults.
sub column_lists
{
	my %lists = (
		ints    => [ '(c, b, a)', '(a)', '(b, a)', '(b)', '(c)', '(a, c)' ],
		mid     => [ '(y, k, x)', '(k)', '(k, y)', '(x, k)', '(y)' ],
		defs    => [ '(k)', '(k, c, v, s, n, z, t)', '(k, v, s)', '(v, k, s, n)', '(s, k, v, c)', '(k, n)' ],
		consts  => [ '(k)', '(a, k)', '(k, a)', '(n, k)', '(c, k, d)', '(d, k)', '(k, n, c)', '(a, k, c, d, n)' ],
		keydef  => [ '(v)', '(k)', '(k, v)', '' ],
		keynull => [ '(v)', '(k)' ],
		idents  => [ '(k, v)', '(k)', '(k, i, v)', '(v, k)' ],
		gens    => [ '', '(k, a, z)', '(k)', '(z, a, k)', '(k, g)', '(a)' ],
		strict  => [ '(k, v)', '(k)', '(v)', '(c, v, k)' ],
		dropped => [ '', '(v, k)', '(k)', '(gone)', '("........pg.dropped.1........")' ],
		'Odd "Ta.ble' => [ '', '("a,b", "K ey")', qq{("\xc3\x9cn\xc3\xaf", "sel""ect", "K ey")}, '("K ey")', '(k)' ],
		pair    => [ '(a, b)', '(a)', '(v, b, a)', '(b)' ],
		uniq    => [ '(v, k)', '(v)' ],
	);
	my %type = ("defs" => [qw(int text int int text date text)], gens => [qw(int int text)], idents => [qw(int text)], 'Odd "Ta.ble' => [qw(int text text int)], uniq => [qw(int text)], keydef => [qw(text int)]);

	for my $table (sort keys %lists)
	{
		for my $columns (@{ $lists{$table} })
		{
			my @names = $columns =~ /("(?:[^"]|"")+"|\w+)/g;
			my $n = @names || @{ $type{$table} // $columns{$table} };
			for my $kind (0 .. 7)
			{
				my @rows;
				for my $i (1 .. pick(1, 3, 6))
				{
					# The name of the column shows its type well enough.
					push @rows, [ map { my $name = $names[ $_ - 1 ] // ''; $name =~ /^[bvcnty]$|sel|\xc3/ && !($table eq 'ints' && $name eq 'c') && !($table eq 'defs' && $name eq 'v') ? pick('', 'b', 'x y', "\xc3\xa9", '\\') : $name =~ /^[dz]$/ ? '2026-03-04' : $kind == 7 ? 'x' : 10 * $i + $_ } 1 .. $n ];
				}
				push @{ $rows[0] }, 'more' if $kind == 4;
				pop @{ $rows[-1] } if $kind == 5;
				$rows[0][-1] = undef if $kind == 6;
				my $eol = pick("\n", "\n", "\r\n");
				if ($kind % 2)
				{
					add('lists of columns', $table, 'FORMAT csv' . pick('', '', ", DELIMITER '|'") , csv_file(\@rows, eol => $eol, always => pick(0, 0.5)), columns => $columns);
					$cases[-1]{data} =~ tr/,/|/ if $cases[-1]{options} =~ /DELIMITER/;
				}
				else
				{
					my $options = pick('', '', "NULL ''", "DELIMITER 'y'", "DELIMITER ',', NULL 'x'");
					my ($delim) = $options =~ /DELIMITER '(.)'/;
					add('lists of columns', $table, $options, text_file(\@rows, eol => $eol, delim => $delim // "\t", null => $options =~ /NULL '(.?)'/ ? $1 : '\N'), columns => $columns);
				}
				$cases[-1]{data} =~ s/[\r\n]+\z// if chance(0.2);
			}
		}
	}
	return;
}

# Marker of defaults, known from 16 on.
sub default_markers
{
	my @rows = ([ '1', 'a', '2', '3', 'n', '2026-01-01', 't' ], [ '2', ('D') x 6 ], [ '3', 'D', '4', 'D', 'D', 'D', 'x' ], [ 'D', ('x') x 6 ], [ '4', 'a', '2', '3', 'D' ], [ '5', '\D', '2', '3', 'n', '2026-01-01', 'D' ]);
	for my $null ('', ", NULL 'D '", ", NULL 'n'")
	{
		for my $row (@rows)
		{
			my @file = ($rows[0], $row, $rows[0]);
			add('markers of defaults', 'defs', "DEFAULT 'D'$null", text_file(\@file));
			add('markers of defaults', 'defs', "FORMAT csv, DEFAULT 'D'$null", csv_file(\@file, eol => pick(@eols)));
			add('markers of defaults', 'defs', "FORMAT csv, DEFAULT 'D'$null", csv_file(\@file, always => 1));
			add('markers of defaults', 'consts', "DEFAULT '\\D'$null", text_file([ map { [ map { defined && $_ eq 'D' ? "\x04" : $_ } @{$_}[ 0, 2, 1, 5, 4 ] ] } @file ]) =~ s/\x04/\\D/gr);
			add('markers of defaults', 'keydef', "FORMAT csv, DEFAULT 'D'$null", "a,1\nb,D\nD,2\n");
		}
	}
	return;
}

sub encodings
{
	for my $encoding (sort keys %encoded)
	{
		# Core stores invalid bytes then.
		my @fails = $encoding eq 'sql_ascii' ? (binary_fails => '22021') : ();
		for my $what (@{ $encoded{$encoding} })
		{
			for my $db (qw(utf8 utf8 latin eucjp))
			{
				my ($table, $k) = @{ pick([ 'mid', '2' ], [ 'mid3', $what ], [ 'mid3', 'k' ]) };
				my $v = pick($what, "a$what", "${what}b", "$what$what", "a${what}");
				my @lines = ("1\t1\ta", "2\t$k\t$v", "3\t3\tc");
				if (chance(0.5))
				{
					add('encodings', $table, "ENCODING '$encoding'", join("\n", @lines, ''), db => $db, @fails);
				}
				else
				{
					my $quote = chance(0.5) ? '"' : '';
					$lines[1] =~ s/\t([^\t]*)$/\t$quote$1$quote/;
					s/\t/,/g for @lines;
					add('encodings', $table, "FORMAT csv, ENCODING '$encoding'", join("\r\n", @lines, ''), db => $db, @fails);
				}
				next if chance(0.4) || $encoding eq 'sql_ascii' && $what ne 'plain';
				add('encodings', $table, '', join("\n", map { tr/,/\t/r } @lines) . pick("\n", ''), db => $db, set => "client_encoding = '$encoding'");
			}
		}
	}
	# Conversion across the ends of buffers.
	for my $size (65536, 131072)
	{
		for my $offset (0 .. 3)
		{
			my $start = join '', map { "$_\t" . "caf\xe9" x 50 . "\n" } 1 .. ($size - 1000) / 210;
			$start .= "7\t" . 'x' x ($size - $offset - 2 - length $start);
			add('encodings', 'texts', q{ENCODING 'latin1'}, "$start\xe9\xe9\xe9\xe9\n8\tlast\n", db => $_) for qw(utf8 latin);
			(my $sjis = $start) =~ s/caf\xe9/ab\x83\x5c/g;
			add('encodings', 'texts', q{ENCODING 'sjis'}, "$sjis\x83\x5c\x83\x5c\n8\tlast\n", db => $_) for qw(utf8 eucjp);
		}
	}
	return;
}

# Values whose meaning depends on settings (R24).
sub settings
{
	my @sets = (
		q{DateStyle = 'SQL, DMY'}, q{DateStyle = 'SQL, MDY'; TimeZone = 'America/New_York'}, q{DateStyle = 'German'; IntervalStyle = 'sql_standard'}, q{DateStyle = 'Postgres, YMD'; TimeZone = 'Asia/Kolkata'; IntervalStyle = 'iso_8601'},
		q{TimeZone = '<+03>-03'; IntervalStyle = 'postgres_verbose'}, q{TimeZone = 'Europe/Berlin'; extra_float_digits = 0; bytea_output = 'escape'}, q{array_nulls = off; xmloption = 'document'; standard_conforming_strings = off}, q{timezone_abbreviations = 'India'; search_path = 'pg_catalog'}, q{statement_timeout = '60s'; lc_monetary = 'C'; default_transaction_isolation = 'serializable'}, q{client_encoding = 'latin1'}
	);
	my @row = ('1', '{1,NULL,3}', '{a,"b c",null}', '{"a": 1}', '1 day 02:03:04', '$1,234.50', '2026-02-03', '2026-02-03 04:05:06', '2026-02-03 04:05:06+00', '04:05:06', '04:05:06+02', '1.5', '0.1', 't', '1010', 'c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '12.34', 'x');
	my %other = (
		1 => [ '{}', '{NULL}', '{nUlL}', '{x}', '[0:1]={1,2}', '{1' ], 2 => [ '{NULL}', '{"NULL"}', '{\\\\}', '{a,}' ], 3 => [ '{', 'null', '"\u0000"', '{"a":1,"a":2}', '[1e400]' ], 4 => [ '-1 2:03', '1-2 3 4:05:06', 'P1Y2M3DT4H5M6S', '@ 1 day ago', '1 fortnight', '-1-2 +3 -4:05:06', 'infinity' ],
		5 => [ '12.345', '1.234,50', '($5)', 'x', '-$1' ], 6 => [ '02/03/2026', '03.02.2026', '03-02-2026', '26-02-03', 'Feb 3 2026', '13/13/2026', 'today', 'now' ], 7 => [ '02/03/2026 04:05', '03.02.2026 04:05:06', '2026-02-03 04:05:06 IST', 'yesterday', '2026-03-29 02:30' ],
		8 => [ '2026-02-03 04:05:06', '02/03/2026 04:05:06', '2026-02-03 04:05:06 IST', '2026-02-03 04:05:06 EST', '2026-03-29 02:30:00', '2026-11-01 01:30:00', 'tomorrow', '2026-02-03 04:05:06 Europe/Paris' ], 9 => [ '25:00', '24:00', '04:05:06 PM', '04:05:06+02' ], 10 => [ '04:05:06 EST', '04:05:06 America/New_York', 'allballs' ],
		11 => [ '1e309', 'nan', '0.1000000000000000055511151231257827', '1e-320' ], 12 => [ '1e39', '1e-46', '16777217' ], 13 => [ 'maybe', 'on', '' ], 14 => [ '101', '10102', 'xF', 'b1010' ], 15 => [ '', 'cd', '\\303', "\xc3\xa9" ], 16 => [ 'x', '' ], 17 => [ '12345.67', '1.005', 'NaN' ], 18 => [ "\xc3\xa9", "\xe2\x82\xac" ],
	);
	for my $set (@sets)
	{
		for my $at (sort { $a <=> $b } keys %other)
		{
			for my $value (@{ $other{$at} })
			{
				next if chance(0.45) && $at != 6 && $at != 8;
				my @changed = @row;
				$changed[$at] = $value;
				my @file = ([@row], \@changed, [@row]);
				next if $value eq 'now';
				# Without money and timetz, which only the coordinator may parse.
				my $table = $at == 5 || $at == 10 || chance(0.2) ? 'types' : 'times';
				@file = map { [ @{$_}[ 0 .. 4, 6 .. 9, 11 .. 18 ] ] } @file if $table eq 'times';
				if (chance(0.5)) { add('settings', $table, '', text_file(\@file), set => $set); }
				else             { add('settings', $table, 'FORMAT csv', csv_file(\@file, always => pick(0, 1)), set => $set); }
			}
		}
	}
	for my $value (qw(int4 integer nope pg_class), '23', '"int4"', 'pg_catalog.text', 'int4[]', '-')
	{
		add('settings', 'regs', '', "1\t$value\tpg_class\n");
		add('settings', 'regs', '', "1\tint4\t$value\n", set => pick('', q{search_path = 'pg_catalog'}));
	}
	add('settings', 'comps', 'FORMAT csv', "1,\"($_)\"\n", set => pick('', @sets)) for ('1,02/03/2026', ',', '1', '1,2,3', '"1","2026-02-03"', '1,x', '"', '1,2026-02-03');
	add('settings', 'bytes', $_->[0], "1$_->[1]\\x\n2$_->[1]\\\\x\n3$_->[1]\\\\xff\n", set => pick('', q{bytea_output = 'escape'})) for ([ '', "\t" ], [ 'FORMAT csv', ',' ], [ q{DELIMITER ','}, ',' ], [ q{FORMAT csv, NULL '\x'}, ',' ]);
	return;
}

# Rows that shards refuse, rows for which there is no shard, conditions, triggers.
sub refusals
{
	my @lines = map { "$_\tv\t1" } 1 .. 30;
	for my $at (0, 1, 14, 29)
	{
		for my $bad ("7\t\\N\t1", "\\N\tv\t1", "7\tv\t0", "7\tv\t-5", "7\t\\N\t-5", "7\tv\t\\N", "7\tv\tx", "x\tv\t0", "7\tv", "7\tv\t1\t2")
		{
			my @file = @lines;
			$file[$at] = $bad;
			add('refused rows', 'strict', '', join("\n", @file, ''), loose => $bad =~ /0$|-5$/ ? 1 : 0);
			# A second bad line: the first one counts, whichever process finds it.
			$file[ pick(grep { $_ > $at } $at + 1, 20, 29) // 29 ] = pick("x\tv\t1", "8\tv\t0", "8\t\\N\t1", "8", "8\tv\tx", "8\tv\t1\xff", "9\tv\t1\r", '\.x') if $at < 29;
			add('refused rows', 'strict', '', join("\n", @file, ''), loose => 1);
		}
	}
	add('refused rows', 'uniq', '', join('', map { "$_\tv\n" } @$_), loose => 2) for ([ 1, 2, 1 ], [ 1 .. 100, 50 ], [ 5, 5 ], [ 1 .. 1000, 1 ]);
	for my $value (map { @{ $values{$_} } } 'ranged')
	{
		add('refused rows', 'ranged', 'FORMAT csv', "2020-03-04,a\n$value,b\n2022-03-04,c\n");
	}
	add('refused rows', 'ranged', 'FORMAT csv', "2020-03-04,a\n,b\n");
	add('refused rows', 'ranged', 'FORMAT csv', "2020-03-04,a\n01/02/2022,b\n", set => "DateStyle = 'SQL, DMY'");
	add('refused rows', 'ranged2', 'FORMAT csv', "v,1,a\n$_\nv,2,b\n") for ('v,0,a', 'v,10,a', 'v,1,c', 'v,99,b', ',,', 'v,,a', 'v,5,z', 'v,4,z', 'v,1,D', 'v,x,b');
	add('refused rows', 'listed', 'FORMAT csv', "1,a\n$_\n3,b\n") for ('2,', '2,""', '2,zz', '2,"it\'s"', '2,d d', 'x,zz', '2,A', '2,"a"', '2,a ');
	add('refused rows', 'hashed', 'FORMAT csv', "$_,a\n") for 1 .. 12, '';
	for my $where ('k > 5', 'v IS NULL', 'k % 2 = 0 AND v <> \'x\'', 'false', 'k / (k - 3) > 0', 'nope = 1', 'k', 'random() < 2', '(SELECT true)', 'tableoid > 0')
	{
		add('refused rows', 'bigs', 'FORMAT csv', "1,a\n2,x\n3,\n4,x\n6,b\n7,c\n", where => $where) for 1 .. 2;
	}
	for my $table (qw(rowtrig aftertrig stmttrig))
	{
		for my $file ('', "1,a\n2,b\n3,c\n", "1,a\n2,skip\n3,c\n", "1,a\nx,b\n", "1,a\n2,raise\n3,c\n", "1,a\n2,key\n3,c\n", "1,a\n2,b,c\n", "1,\"\"\n2,\n", "1,raise\nx,y\n", "x,y\n1,raise\n")
		{
			for my $mode (qw(txn sub stdin))
			{
				next if $table eq 'aftertrig' && $file =~ /raise/;
				# A row that a trigger moves elsewhere: core words it with the partition's name.
				next if $file =~ /key/ && $table eq 'rowtrig';
				add('refused rows', $table, 'FORMAT csv', $file, mode => $mode);
			}
		}
	}
	return;
}

# Ends of data (R21, R22) and null markers at line ends (R27), each with each line end.
sub specials
{
	for my $eol (@eols)
	{
		my %text = (
			texts => [ "a\tb${eol}\\.${eol}c\td$eol", "a\tb${eol}\\.", "a\tb${eol}c\t\\.${eol}d\te$eol", "a\tb\\.$eol", "\\.$eol", '\\.', "a\tb${eol}\\.\\.$eol", "a\tb${eol}\\\\.\tc$eol", "a\t\\N${eol}\\N\tb$eol", "a\t\\N", "a\tb$eol$eol", "$eol", "a\tb${eol}$eol\\.$eol", "a\tb\\N${eol}", "\xef\xbb\xbfa\tb$eol",
				"a\tb${eol}\\.x$eol", "a\tb${eol}\\. $eol", "a\tb$eol\\.\n", "a\tb$eol\\.\r", "a\tb$eol\\.\r\n", "a\tb${eol}\\.\0", "a\tb${eol}\\.${eol}\xff\xff$eol", "a\tb${eol}\xff", "a\tb${eol}c\td\xc3", "a\tb\xc3${eol}c\td", "a\tb\xe2\x82${eol}", "\x00$eol", "a\tb\\", "a\tb\\$eol", "a\tb\\\\$eol" ],
			one => [ $eol, "$eol$eol", "a$eol${eol}b$eol", '', "\\N$eol", "\\.$eol", "a${eol}\\.$eol", "\"\"$eol", " $eol", "a", "a\tb$eol", "\\$eol", "\\" ],
			onei => [ $eol, "1$eol${eol}2$eol", '', "\\N$eol", "1", "1 $eol" ],
		);
		for my $table (sort keys %text)
		{
			for my $data (@{ $text{$table} })
			{
				add('ends of data', $table, pick('', '', "NULL ''"), $data, mode => $_) for 'txn', 'stdin';
				(my $csv = $data) =~ s/\t/,/g;
				add('ends of data', $table, pick('FORMAT csv', 'FORMAT csv', q{FORMAT csv, NULL '\N'}), $csv, mode => $_) for 'txn', 'stdin';
			}
		}
		for my $data ("a,\"\\.\"$eol", "a,\"b${eol}\\.${eol}c\"$eol", "a,b${eol}\"\\.\"$eol", "a,b${eol}\"\\.\",c$eol", "a,b${eol}\\.,c$eol", "a,b${eol}\"${eol}\\.$eol", "a,b${eol}\\.\"${eol}\"$eol", "\"a\nb\r\nc\rd\",e${eol}x$eol", "a,\"b\n\"${eol}c,\"d\r\"${eol}e$eol", "a,\"b${eol}${eol}\"${eol}c$eol", "a,\"b$eol", "a,b${eol}c,\"",
			"a,\"b\\\"$eol", "a,b\"c${eol}d\"$eol", "\"\",\"\"$eol", "\"\"\"\",\"\"\"\"$eol", "a\"\"b,c$eol", "\"a\" ,b$eol", " \"a\",b$eol", "\"a\"b\"c\",d$eol", ",$eol", "\"\",$eol", "a,\\N$eol", "a,\"\\N\"$eol")
		{
			add('ends of data', 'texts', pick('FORMAT csv', q{FORMAT csv, ESCAPE '\\'}, q{FORMAT csv, NULL '\N'}, q{FORMAT csv, FORCE_NULL (k, v)}, 'FORMAT csv, FORCE_NOT_NULL (k, v)', 'FORMAT csv, HEADER'), $data) for 1 .. 4;
		}
		# Another line end than the first one, in each of the places.
		for my $other (grep { $_ ne $eol } @eols)
		{
			for my $line (1 .. 4)
			{
				my @file = map { ("k$_\tv$_", $eol) } 1 .. 5;
				$file[ 2 * $line + 1 ] = $other;
				add('ends of data', 'texts', '', join '', @file);
				add('ends of data', 'texts', 'FORMAT csv', join('', @file) =~ tr/\t/,/r);
			}
		}
	}
	return;
}

# The widest table, long lines, long values in messages.
sub sizes
{
	my $wide = sub { join("\t", @_) . "\n" };
	my @row = 1 .. 1600;
	add('sizes', 'wide', '', $wide->(@row) . $wide->(@row), mode => 'txn');
	add('sizes', 'wide', '', $wide->(@row) . $wide->(@row, 1), mode => 'stdin');
	add('sizes', 'wide', '', $wide->(@row) . $wide->(@row[ 0 .. 1598 ]), mode => 'txn');
	add('sizes', 'wide', 'FORMAT csv', join(',', @row) . "\n" . join(',', map { $_ == 1200 ? 'x' : $_ } @row) . "\n", mode => 'txn');
	add('sizes', 'wide', 'FORMAT csv', join(',', @row) . "\n" . join(',', map { $_ == 800 ? 'x' : $_ } @row) . "\n", mode => 'txn');
	add('sizes', 'wide', 'FORMAT csv, HEADER match', join(',', map { "c$_" } @row) . "\n" . join(',', map { "\"$_\"" } @row) . "\n", mode => 'txn');
	add('sizes', 'wide', 'FORMAT csv', "1,2\n", columns => '(c800, c1600)', mode => 'txn');
	# One line of 100 MB.
	add('sizes', 'bigs', '', '', mode => 'txn', source => q{PROGRAM 'printf "1\ta\n2\t"; head -c 100000000 /dev/zero | tr "\\000" x; printf "\n3\tb\n"'}, probe => q{SELECT count(*), md5(string_agg(md5(v), ',' ORDER BY k)) FROM {t}});
	for my $n (1000, 70_000, 1_000_000, 3_000_000)
	{
		add('sizes', 'bigs', '', "1\t" . 'x' x $n . "\n2\ty\n");
		add('sizes', 'bigs', 'FORMAT csv', "1,\"" . "x\n" x ($n / 2) . "\"\n2,y\nz,1\n");
		add('sizes', 'bigs', '', "1\ta\nx" . 'y' x $n . "\tz\n");
		add('sizes', 'texts', '', "1\ta\n" . 'k' x $n . "\tz\n" . 'k' x $n . "\tz\t\n");
		add('sizes', 'ints', '', "1\ta\t1\n1\tb\t" . "\xc3\xa9" x ($n / 2) . "\n");
	}
	return;
}

sub binaries
{
	my $header = "PGCOPY\n\377\r\n\0" . pack('NN', 0, 0);
	my $row = sub { pack('n', scalar @_) . join '', map { defined $_ ? pack('N', length $_) . $_ : pack 'N', -1 & 0xffffffff } @_ };
	my $k = sub { pack 'q>', $_[0] };
	my $end = "\377\377";
	for my $data (
		'', $header, $header . $end, $header . $row->($k->(1), 'a') . $row->($k->(2), undef) . $end, $header . $row->($k->(1), 'a'), $header . $row->($k->(1)) . $end, $header . $row->($k->(1), 'a', 'b') . $end, $header . $row->('abc', 'a') . $end, $header . $row->($k->(1), "\xff") . $end, $header . $row->($k->(1), 'a') . $end . 'x',
		'PGCOPY', "PGCOPY\n\377\r\n\0" . pack('NN', 1 << 16, 0) . $end, "PGCOPY\n\377\r\n\0" . pack('NN', 1 << 17, 0) . $end, "PGCOPY\n\377\r\n\0" . pack('NN', 0, 5) . 'abcde' . $end, $header . pack('n', 2) . pack('N', 1 << 31), $header . $row->(undef, 'a') . $end
	  )
	{
		add('binary', 'bigs', 'FORMAT binary', $data);
	}
	return;
}

# copy_cases(seed, server_version_num): the list of all cases.
sub copy_cases
{
	my %groups = (
		'text, odd bytes'     => \&text_places,
		'CSV, odd bytes'      => \&csv_places,
		'values of keys'      => \&key_values,
		'random'              => sub { random_group(700) },
		'combined options'    => \&option_combinations,
		'options'             => \&option_errors,
		'ends of buffers'     => \&boundaries,
		'messages'            => \&message_cuts,
		'headers'             => \&headers,
		'lists of columns'    => \&column_lists,
		'markers of defaults' => \&default_markers,
		'encodings'           => \&encodings,
		'settings'            => \&settings,
		'refused rows'        => \&refusals,
		'ends of data'        => \&specials,
		'sizes'               => \&sizes,
		'binary'              => \&binaries,
		'fixed width'         => sub { fixed_group(300) },
	);
	($seed, $version) = @_;
	@cases = ();
	for my $name (sort keys %groups)
	{
		group_start($name);
		$groups{$name}->();
	}
	return [@cases];
}

# random_cases(seed, server_version_num, n): returns n random cases of each of the two kinds.
sub random_cases
{
	($seed, $version, my $n) = @_;
	@cases = ();
	group_start('random');
	random_group($n);
	group_start('fixed width');
	fixed_group($n);
	return [@cases];
}

1;
