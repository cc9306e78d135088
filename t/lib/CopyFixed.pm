# CopyFixed.pm - random cases of FIXED_WIDTH, compared with the same rows by CSV in core
#
# A layout has the columns at any places of the record, with unused bytes between them. Integers are
# text or, in records of constant length, binary.

package CopyFixed;

use strict;
use warnings;

use CopyParts;
use CopyRandom;
use Exporter 'import';

our @EXPORT = qw(fixed_group);

my $null        = '~~';         # no value is like that
my $null_number = -987654321;

# Each function returns the width, the column's part of the layout, and the bytes of all values,
# which it may change.

# As wide as the widest value: blanks are not trimmed.
sub exact_column
{
	my ($values) = @_;
	my $width = 2;

	for (@$values) { $width = length if defined && length > $width; }
	for (@$values) { $_ .= '.' x ($width - length) if defined; }
	my $marker = $null . '.' x ($width - 2);
	return ($width, " trim none nullif \"$marker\"", map { $_ // $marker } @$values);
}

sub text_column
{
	my ($type, $values) = @_;
	my $right = $type =~ /^(?:int|pos|num|date)$/ && chance(0.5);
	my $trim  = pick('', '', ' trim trailing', ' trim both');
	my $width = 2;

	$trim = '' if $right;
	for (@$values)
	{
		next unless defined;
		s/ +\z//;
		s/\A +// if $trim eq ' trim both';
		$width = length if length > $width;
	}
	$width += pick(0, 0, 1, 3, 20);
	return ($width, "$trim nullif \"$null\"", map { sprintf $right ? '%*s' : '%-*s', $width, $_ // $null } @$values);
}

sub number_column
{
	my ($values) = @_;
	my $width = pick(4, 8);
	my $order = pick('le', 'be');
	my $code  = ($width == 4 ? 'l' : 'q') . ($order eq 'be' ? '>' : '<');

	return ($width, " int_$order nullif \"$null_number\"", map { pack $code, $_ // $null_number } @$values);
}

sub fixed_case
{
	my ($group)  = @_;
	my $table    = pick(sort keys %columns);
	my @types    = @{ $columns{$table} };
	my $by_line  = chance(0.5);
	my $breaks   = !$by_line && chance(0.1);
	my $nrows    = pick(1, 2, 5, 20, 20, 40);
	my @order    = sort { rand() <=> 0.5 } 0 .. $#types;
	my $end      = 0;
	my @records  = ('') x $nrows;
	my (@values, @layout);

	for my $i (@order)
	{
		my $type = $types[$i];
		my @column = map { CopyRandom::random_value($type) } 1 .. $nrows;
		for (@column) { tr/\r\n/  / if defined && !$breaks; }
		for (@column) { $_ = '..' if @types == 1 && defined && /^ *\\\. *$/; }    # the end of the data
		my ($width, $spec, @bytes) = $type =~ /^(?:int|pos)$/ && !$by_line && chance(0.6) ? number_column(\@column)
		  : $type eq 'text' && chance(0.2) ? exact_column(\@column)
		  : text_column($type, \@column);
		my $gap = chance(0.2) ? int rand 5 : 0;

		$records[$_] .= '#' x $gap . $bytes[$_] for 0 .. $nrows - 1;
		$layout[$i] = sprintf '%d-%d%s', $end + $gap + 1, $end + $gap + $width, $spec;
		$end += $gap + $width;
		$values[$i] = \@column;
	}

	# the last column of lines may have any width
	if ($by_line && $layout[ $order[-1] ] !~ /trim none/ && chance(0.3))
	{
		$layout[ $order[-1] ] =~ s/-\d+/-/;
		my ($start) = $layout[ $order[-1] ] =~ /^(\d+)/;
		if (chance(0.5)) { s/^(.{@{[$start - 1]}}.*?) +\z/$1/s for @records; }
	}
	elsif (chance(0.3)) { $_ .= '##' for @records; }
	my $eol = $by_line ? pick("\n", "\n", "\r\n") : pick('', '', "\n", "\r\n");
	my @rows = map { my $n = $_; [ map { $_->[$n] } @values ] } 0 .. $nrows - 1;
	my $file = join '', map { $_ . $eol } @records;
	my @options = ('FIXED_WIDTH ' . sql_literal(join(pick(',', ', '), @layout)));
	push @options, 'RECORD_LENGTH ' . length "$records[0]$eol" unless $by_line;
	$file =~ s/\r?\n\z// if $eol ne '' && chance(0.1);
	add($group, $table, "FORMAT csv, NULL '$null'", csv_file(\@rows, null => $null),
		# lines of CSV have other numbers, and show other text
		loose   => $breaks ? 2 : 0,
		sharded => { options => join(', ', @options), data => $file });
	return;
}

sub fixed_group
{
	my ($n) = @_;

	fixed_case('fixed width') for 1 .. $n;
	return;
}

1;
