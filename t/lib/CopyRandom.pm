# CopyRandom.pm - random cases for the comparison of COPY FROM with core

package CopyRandom;

use strict;
use warnings;

use CopyParts;
use Exporter 'import';

our @EXPORT = qw(random_group csv_options %columns %encoded);

sub csv_options
{
	my ($delim, $quote, $escape) = @_;
	my $options = 'FORMAT csv';
	$options .= ', DELIMITER ' . sql_literal($delim) if $delim ne ',' || chance(0.1);
	$options .= ', QUOTE ' . sql_literal($quote)     if $quote ne '"' || chance(0.1);
	$options .= ', ESCAPE ' . sql_literal($escape)   if $escape ne $quote;
	return $options;
}

# Random rows: the values for each column of each table.
our %columns = (
	ints => [qw(int text int)], mid => [qw(int int text)], mid3 => [qw(text text text)], last => [qw(text date int)], texts => [qw(text text)],
	one => ['text'], onei => ['int'], pair => [qw(text text int)], bytes => [qw(int bytea)], bigs => [qw(int text)], dates => [qw(int date)],
	uuids => [qw(uuid int)], strict => [qw(int text pos)], nums => [qw(num text)], bools => [qw(bool text)], dropped => [qw(int text)], consts => [qw(int int text date text)],
	keynull => [qw(text int)], hashed => [qw(int text)], ranged2 => [qw(text int text)], doms => [qw(pos text)], smalls => [qw(text int)]
);
my @words = (
	'', 'a', 'bb', ' ', 'x y', 'NULL', '\N', '\.', '"', '""', ',', ';', "\t", '|', "'", '\\', "\n", "\r", "\r\n", "a\nb", "\xc3\xa9", "\xe2\x82\xac", 'a"b', 'a,b', "it's", '\\\\', '0', '1', '-', '\x', 'longer text with blanks', "\n\\.\n", "\xf0\x9f\x98\x80"
);

sub random_value
{
	my ($type) = @_;
	return undef if chance(0.06);
	return pick(0 .. 40, -1, 1000, 2147483647) if $type eq 'int';
	return 1 + int rand 50 if $type eq 'pos';
	return sprintf '20%02d-%02d-%02d', rand 40, 1 + rand 12, 1 + rand 28 if $type eq 'date';
	return sprintf '%08x-%04x-4000-8000-%012x', rand 2**32, rand 65536, rand 2**32 if $type eq 'uuid';
	return pick('1', '1.0', '2.50', '-3', '0') if $type eq 'num';
	return pick('t', 'f') if $type eq 'bool';
	return pick('\x', '\x00ff', '\x5c2e', 'abc') if $type eq 'bytea';
	return join '', map { pick(@words) } 1 .. pick(1, 1, 1, 2, 3);
}

# A few changes somewhere in the bytes.
sub mutate
{
	my ($file) = @_;
	for (1 .. pick(0, 0, 1, 1, 1, 2, 3))
	{
		my $at = int rand(1 + length $file);
		my $what = pick(@bytes, @text_bytes, @csv_bytes, "\n", "\r", "\r\n", ',', "\t", '"');
		my $kind = int rand 4;
		if    ($kind == 0) { substr($file, $at, 0) = $what; }
		elsif ($kind == 1) { substr($file, $at, 1) = $what if $at < length $file; }
		elsif ($kind == 2) { substr($file, $at, 1 + rand 3) = '' if $at < length $file; }
		else               { $file = substr $file, 0, $at if chance(0.3); }
	}
	return $file;
}

sub random_rows
{
	my ($types) = @_;
	my $n = pick(0, 1, 2, 3, 5, 8, 20);
	return [ map { [ map { random_value($_) } @$types ] } 1 .. $n ];
}

# Names of a table's columns for which there are random values.
my %names = map {
	my $columns = $_->{columns};
	$columns{ $_->{name} } ? ($_->{name} => [ grep { !/^gone/ } $columns =~ /(?:^|, )(\w+) [a-z]/g ]) : ()
} copy_tables();

# Some of the columns in any order, and their types; all of them as a rule.
sub random_columns
{
	my ($table) = @_;
	my @names = @{ $names{$table} };
	my @types = @{ $columns{$table} };

	return ('', \@names, \@types) unless chance(0.12);
	my @order = sort { rand() <=> 0.5 } 0 .. $#names;
	@order = @order[ 0 .. int rand @order ];
	return ('(' . join(', ', @names[@order]) . ')', [ @names[@order] ], [ @types[@order] ]);
}

sub random_text_case
{
	my ($group) = @_;
	my $table = pick(sort keys %columns);
	my ($columns, $names, $types) = random_columns($table);
	my $delim = pick("\t", "\t", "\t", ',', '|', ';', "\x01", ' ', ':', '"', '~', "\x7f", "\x1c");
	my $null  = pick('\N', '\N', '\N', '', 'NULL', 'x', '0', '\\', '\\\\', '\.', '-', 'N U', "\xc3\xa9", '\\n', '"', '\\x41', '1');
	my @options;

	push @options, 'DELIMITER ' . sql_literal($delim) if $delim ne "\t" || chance(0.1);
	push @options, 'NULL ' . sql_literal($null) if $null ne '\N' || chance(0.1);
	push @options, 'DEFAULT ' . sql_literal(pick('\D', '', 'x', '1', 'D E', '\\\\')) if $version >= 160000 && chance(0.12);
	my $header = chance(0.15) ? pick('true', 'true', 'match', 'false') : '';
	push @options, "HEADER $header" if $header;
	push @options, 'ENCODING ' . pick("'utf8'", "'latin1'", "'sql_ascii'", "'sjis'", "'gbk'") if chance(0.06);
	my $rows = random_rows($types);
	my $eol  = pick("\n", "\n", "\r\n", "\r\n", "\r");
	my $file = text_file($rows, delim => $delim, null => $null, eol => $eol);
	$file = text_file([$names], delim => $delim, eol => $eol) . $file if $header && chance(0.8);
	$file =~ s/[\r\n]+\z// if chance(0.12);
	add($group, $table, join(', ', @options), mutate($file), columns => $columns, "@options" =~ /sql_ascii/ ? (binary_fails => '22021') : ());
	return;
}

sub random_csv_case
{
	my ($group) = @_;
	my $table = pick(sort keys %columns);
	my ($columns, $names, $types) = random_columns($table);
	my $delim = pick(',', ',', ',', ';', '|', "\t", ' ', "\x01", 'a', "'", '\\');
	my $quote = pick('"', '"', '"', '"', "'", '|', '~', '\\', "\x02");
	my $escape = pick($quote, $quote, $quote, '\\', '"', "'", '~', 'a', $delim);
	my $null = pick('', '', '', '\N', 'NULL', '0', 'x', '\.', ' ', '-', 'N L', "\xc3\xa9");
	my @options = csv_options($delim, $quote, $escape);

	push @options, 'NULL ' . sql_literal($null) if $null ne '' || chance(0.1);
	push @options, 'DEFAULT ' . sql_literal(pick('\D', 'D', 'x', '1', 'D E')) if $version >= 160000 && chance(0.12);
	{
		push @options, 'FORCE_NULL (' . pick(@$names) . ')' if chance(0.2);
		push @options, 'FORCE_NOT_NULL (' . join(', ', grep { chance(0.7) } @$names, 'nope') . ')' if chance(0.03);
		push @options, 'FORCE_NOT_NULL (' . pick(@$names) . ')' if chance(0.15);
	}
	push @options, 'FORCE_NULL *' if $version >= 170000 && chance(0.06);
	push @options, 'FORCE_NOT_NULL *' if $version >= 170000 && chance(0.06);
	my $header = chance(0.2) ? pick('true', 'true', 'match') : '';
	push @options, "HEADER $header" if $header;
	push @options, 'ENCODING ' . pick("'utf8'", "'latin1'", "'sql_ascii'", "'big5'", "'euc_jp'") if chance(0.06);
	my $rows = random_rows($types);
	my %style = (delim => $delim, null => $null, eol => pick("\n", "\n", "\r\n", "\r\n", "\r"), quote => $quote, escape => $escape, always => pick(0, 0.3, 1));
	my $file = csv_file($rows, %style);
	$file = csv_file([ chance(0.9) ? $names : ["h\n2"] ], %style) . $file if $header && chance(0.8);
	$file =~ s/[\r\n]+\z// if chance(0.12);
	add($group, $table, join(', ', @options), mutate($file), columns => $columns, "@options" =~ /sql_ascii/ ? (binary_fails => '22021') : ());
	return;
}

# Many rows of good values, few bad places: more than one COPY on the nodes, sometimes more than one
# connection.
sub random_long_case
{
	my ($group) = @_;
	my $table = pick(qw(ints mid texts last bigs strict dropped uuids hashed pair));
	my $csv   = chance(0.6);
	my $eol   = pick("\n", "\n", "\r\n", "\r");
	my $long  = chance(0.3);
	my $n     = $long ? 10000 + int rand 30000 : 100 + int rand 4000;
	my %style = (eol => $eol, always => pick(0, 0.1, 0.5));
	my @rows  = map { [ map { my $v = random_value($_); $v // random_value($_) // 1 } @{ $columns{$table} } ] } 1 .. 50;
	my @lines = map { $csv ? csv_file([$_], %style) : text_file([$_], %style) } @rows;
	my $file  = join '', map { $lines[ rand @lines ] } 1 .. $n;

	for (1 .. pick(0, 1, 1, 2, 3))
	{
		my $at = int rand length $file;
		substr($file, $at, pick(0, 1)) = pick(@bytes, $csv ? @csv_bytes : @text_bytes);
	}
	add($group, $table, $csv ? 'FORMAT csv' : '', $file,
		mode => $long && chance(0.5) ? 'top' : pick('txn', 'txn', 'stdin', 'sub', 'program'),
		set  => chance(0.5) ? q{shardfdw.copy_buffer_size = '64kB'} : '',
		cuts => [ map { 1 + int rand 70000 } 1 .. 30 ]);
	return;
}

# Words in one encoding, which are read in this or another encoding.
our %encoded = (
	latin1 => [ "\xe9", "caf\xe9", "\xff", "\x80", "\xa4", 'plain' ],
	utf8   => [ "\xc3\xa9", "\xe2\x82\xac", "\xe6\x97\xa5\xe6\x9c\xac", "\xe9", "\xf0\x9f\x98\x80", "\xc4\x80", 'plain' ],
	sjis   => [ "\x93\xfa\x96\x7b", "\x83\x5c", "\x95\x5c", "\x83\x7c", "\x81\x5f", "\xb1", "\x83", "\x83\x5c.", "\x83\x0a", 'plain' ],
	big5   => [ "\xa4\xa4", "\xa5\x5c", "\xb3\x5c", "\xa6\x7c", "\xa5", "\xa5\x5c.", "\xa5\x22", 'plain' ],
	gbk    => [ "\xd6\xd0", "\x81\x5c", "\x97\x7c", "\xd6", "\x81\x5c.", "\xb0\x22", 'plain' ],
	euc_jp => [ "\xc6\xfc\xcb\xdc", "\x8e\xb1", "\x8f\xb0\xa1", "\xc6", "\xa4", 'plain' ],
	gb18030 => [ "\xd6\xd0", "\x81\x30\x81\x30", "\x81\x5c", "\x81\x30", 'plain' ],
	sql_ascii => [ "\xc3\xa9", "\xe9", "\xff", 'plain' ],
	uhc    => [ "\xb0\xa1", "\x81\x41", "\x81\x5c", 'plain' ],
	win1252 => [ "\x80", "\x81", "\xe9", 'plain' ],
);

sub random_encoding_case
{
	my ($group) = @_;
	my $table = pick(qw(mid mid3 texts one pair ints));
	my $encoding = pick(grep { $_ ne 'sql_ascii' } sort keys %encoded);
	my @texts = @{ $encoded{ chance(0.9) ? $encoding : pick(sort keys %encoded) } };
	my @rows = map { [ map { /text/ ? join('', map { pick(@texts, 'a', pick(@words)) } 1 .. pick(1, 1, 2, 3)) : int rand 50 } @{ $columns{$table} } ] } 1 .. pick(1, 2, 3, 8);
	my $csv = chance(0.5);
	my %style = (eol => pick("\n", "\r\n", "\r"), always => pick(0, 0.5, 1));
	my $file = $csv ? csv_file(\@rows, %style) : text_file(\@rows, %style);
	my $as_client = chance(0.3);
	my @options = ($csv ? 'FORMAT csv' : (), $as_client ? () : "ENCODING '$encoding'", chance(0.15) ? 'HEADER' : ());

	$file =~ s/[\r\n]+\z// if chance(0.15);
	add($group, $table, join(', ', @options), chance(0.4) ? mutate($file) : $file, db => pick(qw(utf8 utf8 latin eucjp)), set => $as_client ? "client_encoding = '$encoding'" : '');
	return;
}

# Bytes that mean something, in any order.
sub random_soup_case
{
	my ($group) = @_;
	my $csv   = chance(0.55);
	my $table = pick('mid3', 'texts', 'one', 'texts', 'keynull');
	my @soup  = $csv
	  ? ('"', '"', '"', ',', ',', '\\', '\\.', "\n", "\n", "\r", "\r\n", 'a', '1', "\xc3\xa9", '""', "'", "\n\\.\n")
	  : ('\\', '\\', '\\.', "\t", "\t", "\n", "\n", "\r", "\r\n", 'a', 'N', '1', 'x4', "\xc3\xa9", '.', '0', '\N');
	my $file = join '', map { pick(@soup) } 1 .. 1 + int rand 24;
	my $options = $csv ? pick('FORMAT csv', 'FORMAT csv', q{FORMAT csv, ESCAPE '\\'}, q{FORMAT csv, QUOTE '\\'}, q{FORMAT csv, ESCAPE ''''}, q{FORMAT csv, NULL '1'}, q{FORMAT csv, HEADER}, 'FORMAT csv, FORCE_NULL (k)')
	  : pick('', '', q{NULL ''}, q{NULL 'a'}, q{NULL '1'}, 'HEADER');
	add($group, $table, $options, $file);
	return;
}

sub random_group
{
	my ($n) = @_;
	for (1 .. $n)
	{
		my $kind = rand;
		if    ($kind < 0.04) { random_long_case('random, long'); }
		elsif ($kind < 0.12) { random_encoding_case('random encodings'); }
		elsif ($kind < 0.40) { random_text_case('random text'); }
		elsif ($kind < 0.72) { random_csv_case('random CSV'); }
		else                 { random_soup_case('random tokens'); }
	}
	return;
}

1;
