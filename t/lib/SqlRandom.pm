# SqlRandom.pm - random queries for the comparison of sharded tables with plain ones
#
#   my $case = random_case($seed);
#   # with a join of 2 to 16 tables, of more kinds (more_tables):
#   my $case = random_case($seed, \@switches, joins => 1);
#
#   $case->{settings}     [ 'name = value', ... ] for the sharded run
#   $case->{common}       settings of both runs: they change results
#   $case->{params}       types of the parameters, when it is to be prepared
#
#   $case->{values}       for each EXECUTE the list of the parameters' values
#   $case->{ordered}      1: the whole order of the rows is determined
#   text_of($case)        the query
#   cuts_of($case)        what can be left out of it; see below
#
# The same seed gives the same query. The tables (random_tables) have the same names in the schemas
# of both runs. Queries have one right answer. A result that depends on an order has an order that
# leaves only equal rows in any order. Equal numbers are written in the same way: numeric has one
# scale, and there are no floats. No query fails because of a value.
#
# A query is a tree. A node is [ parts, simple, cut ]: lists of texts and nodes; it stands for its
# parts, or once cut is set, for what is simpler. So a query is made smaller by setting cuts one after the other
# and keeping those with which the answers still differ; what has become no query at all fails in both
# runs, which is no difference.

package SqlRandom;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(random_case random_tables more_tables text_of cuts_of);

# Type -> SQL; a text type for each collation, since they do not mix.
my %sql_type = (
	int => 'integer', big => 'bigint', num => 'numeric(12,4)', txt => 'text', ctx => 'text', utx => 'text',
	tsz => 'timestamptz', dt => 'date', bool => 'boolean', arr => 'integer[]');
my @types = sort keys %sql_type;

# Columns of the tables. a and b are colocated, e has another key and other shards, x a text key, r is a
# reference table, l a local one, v a view.
my %columns = (
	a => [ [qw(id int)], [qw(k int)], [qw(i int)], [qw(n num)], [qw(t txt)], [qw(c ctx)], [qw(z tsz)], [qw(ar arr)] ],
	b => [ [qw(id int)], [qw(k int)], [qw(i int)], [qw(n num)], [qw(t txt)], [qw(u utx)], [qw(d dt)],  [qw(f bool)] ],
	e => [ [qw(id int)], [qw(i int)], [qw(k int)], [qw(n num)], [qw(c ctx)], [qw(d dt)], [qw(z tsz)] ],
	x => [ [qw(id int)], [qw(t txt)], [qw(k int)], [qw(g big)], [qw(f bool)], [qw(z tsz)] ],
	r => [ [qw(k int)], [qw(i int)], [qw(t txt)], [qw(n num)], [qw(f bool)] ],
	l => [ [qw(i int)], [qw(k int)], [qw(c ctx)], [qw(d dt)], [qw(g big)] ],
	v => [ [qw(k int)], [qw(n num)], [qw(d dt)], [qw(t txt)] ]);
# Tables of large joins: o has one shard, m sixteen, g is a single foreign table. h has a local
# partition h1, and h2 with shards.
my @h = ([qw(id int)], [qw(k int)], [qw(i int)], [qw(n num)], [qw(t txt)]);
my %more_columns = (
	o => [ [qw(id int)], [qw(k int)], [qw(i int)], [qw(t txt)], [qw(f bool)] ],
	m => [ [qw(id int)], [qw(k int)], [qw(i int)], [qw(n num)], [qw(d dt)] ],
	g => [ [qw(id int)], [qw(k int)], [qw(i int)], [qw(c ctx)], [qw(z tsz)] ],
	h => \@h, h1 => \@h, h2 => \@h);
my %more_nrows = (o => 20, m => 50, g => 15, h => 40);
my %nrows = (a => 60, b => 50, e => 40, x => 30, r => 12, l => 15);

# State of the case that is being made.
my ($nalias, $params, $keyed, %ctes, @cuts);

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub quoted { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }

# A node: parts, and replacements for them in a smaller query; '' if the part can be left out.
sub node
{
	my ($parts, $simple) = @_;
	my $node = [ $parts, $simple // [''], 0 ];
	push @cuts, $node;
	return $node;
}

# A list. All its elements can be left out, except the last one left.
sub list
{
	my ($sep, @items) = @_;
	return { sep => $sep, items => [ map { node([$_]) } @items ] };
}

sub render
{
	my ($part) = @_;
	return $part unless ref $part;
	if (ref $part eq 'HASH')
	{
		my @texts = grep { $_ ne '' } map { render($_) } @{ $part->{items} };
		@texts = render($part->{items}[0][0][0]) unless @texts;
		return join $part->{sep}, @texts;
	}
	return join '', map { render($_) } @{ $part->[2] ? $part->[1] : $part->[0] };
}

sub text_of { return render($_[0]{tree}); }
sub cuts_of { return @{ $_[0]{cuts} }; }

# ---- values --------------------------------------------------------------------------------------

my @words = ('', 'a', 'A', 'b', 'B', 'ab', 'a b', 'Zz', '%', '_x', "it's", '10', '9', "\xc3\xa4", 'aB');

sub value
{
	my ($type) = @_;
	return int(rand 14) - 1 if $type eq 'int';
	# some are more than an int can be
	return int(rand 14) - 1 + (chance(0.15) ? 4294967296 : 0) if $type eq 'big';
	return sprintf '%d.%04d', int(rand 8) - 1, pick(0, 0, 5000, 2500, 1) if $type eq 'num';
	return pick(@words) if $type =~ /tx$|txt/;
	return sprintf '2024-%02d-%02d %02d:%02d:00+00', pick(3, 10), pick(30, 31, 27), int rand 24, pick(0, 30) if $type eq 'tsz' && chance(0.5);
	return sprintf '2024-03-%02d 2%d:30:00+00', 1 + int rand 4, int rand 4 if $type eq 'tsz';
	return sprintf '2024-%02d-%02d', pick(2, 3), 1 + int rand 5 if $type eq 'dt';
	return pick('t', 'f') if $type eq 'bool';
	return '{' . join(',', map { chance(0.1) ? 'NULL' : int rand 6 } 1 .. int rand 4) . '}';
}

sub collation { return $_[0] eq 'ctx' ? ' COLLATE "C"' : $_[0] eq 'utx' ? ' COLLATE other' : ''; }

# A constant of a type, written so that it has this type without context; or a parameter.
sub constant
{
	my ($type) = @_;

	if ($params && @$params < 6 && chance(0.4))
	{
		push @$params, $type;
		return '$' . @$params . collation($type);
	}
	return "NULL::$sql_type{$type}" . collation($type) if chance(0.04);
	my $value = value($type);
	return $value < 0 ? "($value)" : $value if $type eq 'int';
	return quoted($value) . "::$sql_type{$type}" . collation($type);
}

sub random_value { my ($type) = @_; return chance(0.08) ? 'NULL' : quoted(value($type)); }

# ---- tables --------------------------------------------------------------------------------------

# For statements that DmlRandom.pm makes: the tables' columns as ( table => [ [ name, type ], ... ]
# ), and the state for making parts of another statement. Most comparisons of columns then use the
# shard key.
sub table_columns { return %columns; }

sub begin_parts
{
	my ($mostly_keys) = @_;
	($nalias, %ctes, @cuts) = (0);
	$params = undef;
	$keyed  = $mostly_keys;
	return;
}

# random_tables: [ name, columns, rows as VALUES ] of each table; "other" is the name of a collation. No row of x is without z.
sub random_tables { my ($seed) = @_; return make_tables($seed, \%columns, \%nrows); }
sub more_tables { my ($seed) = @_; return make_tables($seed, \%more_columns, \%more_nrows); }

sub make_tables
{
	my ($seed, $columns, $nrows) = @_;
	my @tables;

	srand $seed;
	for my $name (sort keys %$nrows)
	{
		my @defs = map { "$_->[0] $sql_type{$_->[1]}" . collation($_->[1]) } @{ $columns->{$name} };
		my @rows;
		for my $id (1 .. $nrows->{$name})
		{
			push @rows, '(' . join(', ', map { $_->[0] eq 'id' ? $id : "$name.$_->[0]" eq 'x.z' ? quoted(value($_->[1])) : random_value($_->[1]) } @{ $columns->{$name} }) . ')';
		}
		push @tables, [ $name, join(', ', @defs), join(', ', @rows) ];
	}
	return @tables;
}

# ---- scopes --------------------------------------------------------------------------------------

# A scope is a list of { alias, cols }, and the scopes around it: { sources, outer }. Columns of a type in it.
sub columns_of
{
	my ($scope, $type, $outer) = @_;
	my @found;
	for my $source (@{ $scope->{sources} })
	{
		push @found, map { $_->[1] eq $type ? "$source->{alias}.$_->[0]" : () } @{ $source->{cols} };
	}
	push @found, columns_of($scope->{outer}, $type, 1) if $scope->{outer} && $outer;
	return @found;
}

sub all_columns
{
	my ($scope) = @_;
	return map { my $source = $_; map { [ "$source->{alias}.$_->[0]", $_->[1] ] } @{ $source->{cols} } } @{ $scope->{sources} };
}

# One of some columns; in some cases mostly the shard key of the colocated tables.
sub pick_column
{
	my (@columns) = @_;
	my @keys = $keyed && chance(0.75) ? grep { /\.k$/ } @columns : ();
	return pick(@keys ? @keys : @columns);
}

sub alias { return $_[0] . ++$nalias; }

# ---- expressions ---------------------------------------------------------------------------------

# A column of the type, else a constant; of a scope outside with some probability.
sub leaf
{
	my ($type, $scope) = @_;
	my @columns = columns_of($scope, $type, chance(0.3));
	return pick_column(@columns) if @columns && !chance(0.12);
	return constant($type);
}

# Columns of this scope only, if it has any.
sub own_leaf
{
	my ($type, $scope) = @_;
	my @columns = columns_of($scope, $type, 0);
	return @columns ? pick_column(@columns) : constant($type);
}

sub case_of
{
	my ($type, $scope, $depth) = @_;
	return [ [ 'CASE WHEN ', condition($scope, $depth), ' THEN ', expression($type, $scope, $depth), ' ELSE ',
			expression($type, $scope, $depth), ' END' ] ];
}

my %makers = (
	int => [
		sub { my ($x) = @_; [ [ '(', $x->('int'), pick(' + ', ' - '), $x->('int'), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('int'), ' * ', pick(2, 3, -1), ')' ] ] },
		sub { my ($x) = @_; [ [ 'mod(', $x->('int'), ', ', pick(2, 3, 5), ')' ] ] },
		sub { my ($x) = @_; [ [ 'abs(', $x->('int'), ')' ] ] },
		sub { my ($x) = @_; [ [ 'length(', $x->(pick(qw(txt ctx utx))), ')' ] ] },
		sub { my ($x) = @_; [ [ 'cardinality(', $x->('arr'), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('arr'), ')[', pick(1, 2), ']' ] ] },
		sub { my ($x) = @_; [ [ 'extract(', pick(qw(hour day dow)), ' FROM ', $x->('tsz'), ')::int' ] ] },
		sub { my ($x) = @_; [ [ pick('greatest', 'least'), '(', $x->('int'), ', ', $x->('int'), ')' ] ] },
		sub { my ($x) = @_; [ [ 'nullif(', $x->('int'), ', ', $x->('int'), ')' ] ] } ],
	big => [
		sub { my ($x) = @_; [ [ '(', $x->('int'), ')::bigint' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('big'), ' + ', $x->('int'), ')' ] ] } ],
	num => [
		sub { my ($x) = @_; [ [ '(', $x->('num'), pick(' + ', ' - '), $x->('num'), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('num'), ' * ', $x->('int'), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('int'), ')::numeric(12,4)' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('num'), ' / 3)::numeric(12,4)' ] ] } ],
	txt => [
		sub { my ($x) = @_; [ [ '(', $x->('txt'), ' || ', $x->('txt'), ')' ] ] },
		sub { my ($x) = @_; [ [ pick('upper', 'lower', 'btrim'), '(', $x->('txt'), ')' ] ] },
		sub { my ($x) = @_; [ [ 'substr(', $x->('txt'), ', 1, ', pick(1, 2), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->(pick(qw(int big num dt tsz bool))), ')::text' ] ] },
		sub { my ($x) = @_; [ [ 'to_char(', $x->('tsz'), ", 'YYYY-MM-DD HH24 TZ')" ] ] } ],
	ctx => [ sub { my ($x) = @_; [ [ 'substr(', $x->('ctx'), ', 1, 1)' ] ] } ],
	utx => [ sub { my ($x) = @_; [ [ 'btrim(', $x->('utx'), ')' ] ] } ],
	tsz => [
		sub { my ($x) = @_; [ [ "date_trunc('", pick(qw(day hour month)), "', ", $x->('tsz'), ')' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('tsz'), " + interval '", pick('1 day', '24 hours', '1 month'), "')" ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('dt'), ')::timestamptz' ] ] } ],
	dt => [
		sub { my ($x) = @_; [ [ '(', $x->('tsz'), ')::date' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('dt'), ' + ', $x->('int'), ')' ] ] } ],
	bool => [ sub { my ($x, $scope, $depth) = @_; condition($scope, $depth) } ],
	arr => [
		sub { my ($x) = @_; [ [ 'ARRAY[', $x->('int'), ', ', $x->('int'), ']' ] ] },
		sub { my ($x) = @_; [ [ '(', $x->('arr'), ' || ', $x->('int'), ')' ] ] },
		sub { my ($x, $scope, $depth) = @_; array_subquery($scope, $depth) } ]);

sub expression
{
	my ($type, $scope, $depth) = @_;
	my $leaf = leaf($type, $scope);

	return $leaf if $depth <= 0 || chance(0.55);
	my $rest = $depth - 1;
	my $made;
	if (chance(0.12)) { $made = case_of($type, $scope, $rest); }
	elsif (chance(0.12)) { $made = [ [ 'coalesce(', expression($type, $scope, $rest), ', ', expression($type, $scope, $rest), ')' ] ]; }
	elsif (chance(0.08)) { $made = scalar_subquery($type, $scope, $rest); }
	else { $made = pick(@{ $makers{$type} })->(sub { expression($_[0], $scope, $rest) }, $scope, $rest); }
	return node([$made], [$leaf]);
}

# One of the types; if possible, one that a column of the scope has.
sub type_at_hand
{
	my ($scope, @choice) = @_;
	my $type;
	for (1 .. 5)
	{
		$type = pick(@choice);
		last if columns_of($scope, $type, 1);
	}
	return $type;
}

# Two expressions that can be compared.
sub compared
{
	my ($scope, $depth) = @_;
	my $type = type_at_hand($scope, 'int', 'int', 'int', 'num', 'txt', @types);
	my $other = $type eq 'int' && chance(0.15) ? 'big' : $type eq 'num' && chance(0.2) ? 'int' : $type;
	return (expression($type, $scope, $depth), expression($other, $scope, $depth));
}

sub comparison
{
	my ($scope, $depth) = @_;
	my ($left, $right) = compared($scope, $depth);
	return [ [ '(', $left, pick(' = ', ' = ', ' = ', ' <> ', ' < ', ' <= ', ' > ', ' >= ', ' IS DISTINCT FROM ', ' IS NOT DISTINCT FROM '), $right, ')' ] ];
}

sub condition
{
	my ($scope, $depth) = @_;
	my $what = int rand 100;
	my $rest = $depth - 1;

	return comparison($scope, $rest) if $what < 35 || $depth <= 0;
	return node([ '(', node([condition($scope, $rest)], ['true']), pick(' AND ', ' OR '), node([condition($scope, $rest)], ['true']), ')' ], ['true'])
	  if $what < 47;
	return [ [ 'NOT (', condition($scope, $rest), ')' ] ] if $what < 50;
	return [ [ '(', leaf(type_at_hand($scope, @types), $scope), ')', pick(' IS NULL', ' IS NOT NULL') ] ] if $what < 56;
	if ($what < 61)
	{
		my $type = type_at_hand($scope, qw(int num dt txt));
		return [ [ expression($type, $scope, $rest), pick(' BETWEEN ', ' NOT BETWEEN '), constant($type), ' AND ', expression($type, $scope, $rest) ] ];
	}
	if ($what < 67)
	{
		my $type = type_at_hand($scope, qw(int txt dt big ctx));
		return [ [ expression($type, $scope, $rest), pick(' IN ', ' NOT IN '), '(', join(', ', map { constant($type) } 1 .. 1 + rand 3), ')' ] ];
	}
	return [ [ expression('int', $scope, $rest), pick(' = ANY ', ' <> ALL ', ' < ANY '), '(', expression('arr', $scope, $rest), ')' ] ] if $what < 70;
	return [ [ expression(pick(qw(txt ctx)), $scope, $rest), pick(' LIKE ', ' NOT LIKE '), quoted(pick('a%', '%b%', '_', '%')) ] ] if $what < 73;
	return [ [ '(', expression('bool', $scope, $rest), ') IS', pick(' ', ' NOT '), pick('TRUE', 'FALSE', 'UNKNOWN') ] ] if $what < 76;
	return node([ pick('', '', 'NOT '), exists_subquery($scope, $rest) ], ['true']) if $what < 88;
	return node([ in_subquery($scope, $rest) ], ['true']);
}

# ---- sub-selects in expressions ------------------------------------------------------------------

# FROM and WHERE of a correlated sub-select: ($scope, $from, $where). Mostly with an equality with
# an outer column.
sub correlated_body
{
	my ($outer, $depth) = @_;
	my ($sources, $from) = from_clause($outer, $depth, chance(0.8) ? 1 : 2);
	my $scope = { sources => $sources, outer => $outer };
	my @conditions;

	if (chance(0.8))
	{
		my $type = pick('int', 'int', 'int', 'txt', 'dt');
		my @outside = columns_of($outer, $type, 1);
		push @conditions, own_leaf($type, $scope) . ' = ' . (@outside ? pick_column(@outside) : constant($type));
	}
	push @conditions, condition($scope, $depth) if !@conditions || chance(0.4);
	return ($scope, $from, node([ ' WHERE ', list(' AND ', @conditions) ]));
}

sub scalar_subquery
{
	my ($type, $outer, $depth) = @_;
	my ($scope, $from, $where) = correlated_body($outer, $depth);

	if (chance(0.25))
	{
		my $order = own_leaf($type, $scope);
		return [ [ "(SELECT $order FROM ", $from, $where, " ORDER BY 1", pick('', ' DESC', ' NULLS FIRST'), ' LIMIT 1)' ] ];
	}
	return [ [ '(SELECT ', aggregate($type, $scope, 0), ' FROM ', $from, $where, ')' ] ];
}

sub array_subquery
{
	my ($outer, $depth) = @_;
	my ($scope, $from, $where) = correlated_body($outer, $depth);
	return [ [ 'ARRAY(SELECT ' . own_leaf('int', $scope) . ' FROM ', $from, $where, ' ORDER BY 1)' ] ];
}

sub exists_subquery
{
	my ($outer, $depth) = @_;
	my ($scope, $from, $where) = correlated_body($outer, $depth);
	return [ [ 'EXISTS (SELECT 1 FROM ', $from, $where, ' GROUP BY ' . own_leaf('int', $scope) =~ s/^\(?-?\d+\)?$/()/r, ')' ] ] if chance(0.1);
	return [ [ 'EXISTS (SELECT ' . pick('1', '*', own_leaf('int', $scope)) . ' FROM ', $from, $where, ')' ] ] if !chance(0.15);
	return [ [ 'EXISTS (SELECT 1 FROM ', $from, $where, ' HAVING count(*) > ', pick(0, 1), ')' ] ];
}

sub in_subquery
{
	my ($outer, $depth) = @_;
	my $type = type_at_hand($outer, 'int', 'int', 'txt', 'num', 'big', 'dt');

	if (chance(0.3))
	{
		my ($scope, $from, $where) = correlated_body($outer, $depth);
		return [ [ expression($type, $outer, 0), pick(' IN ', ' NOT IN ', ' = ANY ', ' > ALL ', ' <= ANY '), '(SELECT ', own_leaf($type, $scope), ' FROM ', $from, $where, ')' ] ];
	}
	if (chance(0.2))
	{
		my ($columns, $query) = query($outer, $depth, [ 'int', $type ]);
		return [ [ '(', expression('int', $outer, 0), ', ', expression($type, $outer, 0), ')', pick(' IN ', ' NOT IN '), '(', $query, ')' ] ];
	}
	my ($columns, $query) = query(chance(0.3) ? $outer : undef, $depth, [$type]);
	return [ [ expression($type, $outer, 0), pick(' IN ', ' NOT IN ', ' IN '), '(', $query, ')' ] ];
}

# ---- aggregates and windows ----------------------------------------------------------------------

my %aggregates = (
	int => [
		sub { "max($_[0])" }, sub { "min($_[0])" }, sub { "count($_[0])::int" }, sub { 'count(*)::int' }, sub { "count(DISTINCT $_[0])::int" },
		sub { "bit_or($_[0])" }, sub { "percentile_disc(0.5) WITHIN GROUP (ORDER BY $_[0])" }, sub { "mode() WITHIN GROUP (ORDER BY $_[0])" },
		sub { "(rank(2) WITHIN GROUP (ORDER BY $_[0]))::int" } ],
	big => [
		sub { "sum($_[1])" }, sub { 'count(*)' }, sub { "count($_[0])" }, sub { "count(DISTINCT $_[1])" }, sub { "sum(DISTINCT $_[1])" }, sub { "max($_[0])" } ],
	num => [
		sub { "sum($_[0])::numeric(20,4)" }, sub { "avg($_[0])::numeric(20,4)" }, sub { "avg($_[1])::numeric(20,4)" }, sub { "max($_[0])" },
		sub { "stddev($_[1])::numeric(20,4)" }, sub { "var_pop($_[0])::numeric(20,4)" }, sub { "sum(DISTINCT $_[0])::numeric(20,4)" } ],
	txt => [ sub { "min($_[0])" }, sub { "max($_[0])" }, sub { "string_agg($_[0], ',' ORDER BY $_[0])" }, sub { "string_agg(DISTINCT $_[0], '')" } ],
	ctx => [ sub { "min($_[0])" }, sub { "max($_[0])" }, sub { "string_agg($_[0], ',' ORDER BY $_[0] DESC)" } ],
	utx => [ sub { "min($_[0])" }, sub { "max($_[0])" } ],
	tsz => [ sub { "min($_[0])" }, sub { "max($_[0])" } ],
	dt => [ sub { "min($_[0])" }, sub { "max($_[0])" } ],
	bool => [ sub { "bool_and($_[0])" }, sub { "bool_or($_[0])" }, sub { "every($_[0])" } ],
	arr => [ sub { "array_agg($_[1] ORDER BY $_[1])" }, sub { "array_agg(DISTINCT $_[1])" }, sub { "max($_[0])" }, sub { "array_agg($_[1] ORDER BY $_[1] DESC NULLS LAST)" } ]);

# An aggregate that returns a value of the type.
sub aggregate
{
	my ($type, $scope, $depth) = @_;
	my $own = $type eq 'num' ? 'num' : $type eq 'big' ? 'big' : $type;
	my $argument = $depth > 0 && chance(0.3) ? plain_text(expression($own, { sources => $scope->{sources} }, 1)) : own_leaf($own, $scope);
	my $integer = own_leaf('int', $scope);
	my $call = pick(@{ $aggregates{$type} })->($argument, $integer);

	# A filter comes after the call, before a cast.
	return $call unless $depth > 0 && chance(0.15) && $call !~ /^\(/ && $call =~ /^(.*?)(::(?:int|numeric\(20,4\)))?$/s;
	my ($function, $cast) = ($1, $2 // '');
	return [ [ $function, node([ ' FILTER (WHERE ', condition({ sources => $scope->{sources} }, 1), ')' ]), $cast ] ];
}

# The present text of a part, if it is needed in two places.
sub plain_text { return render($_[0]); }

# ORDER BY elements for a total order: only equal rows can change places.
sub total_order
{
	my ($scope) = @_;
	my @columns = map { $_->[0] } all_columns($scope);
	for my $i (reverse 1 .. $#columns)
	{
		my $j = int rand($i + 1);
		@columns[ $i, $j ] = @columns[ $j, $i ];
	}
	return join ', ', map { $_ . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } @columns;
}

sub window
{
	my ($type, $scope) = @_;
	my @all = all_columns($scope);
	my $partition = chance(0.7) ? 'PARTITION BY ' . join(', ', map { pick_column(map { $_->[0] } @all) } 1 .. pick(1, 1, 2)) . ' ' : '';
	my $order = 'ORDER BY ' . pick(@all)->[0];
	my $total = 'ORDER BY ' . total_order($scope);
	my $argument = own_leaf($type, $scope);
	# Equal rows differ by their position. If each call had another position, the results could be
	# combined in many ways.
	my $row = $scope->{row_window} //= "$partition$total";
	my @calls = (
		"lag($argument) OVER ($row)",
		"lead($argument, 2) OVER ($row)",
		"first_value($argument) OVER ($partition$total)",
		"nth_value($argument, 2) OVER ($partition$total)",
		"last_value($argument) OVER ($row ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)");

	push @calls, "max($argument) OVER ($partition$order)", "min($argument) OVER ($partition)" unless $type eq 'bool';
	push @calls, "(row_number() OVER ($row))::int", "(rank() OVER ($partition$order))::int", "(dense_rank() OVER ($partition$order))::int",
	  "(ntile(3) OVER ($row))", "(count(*) OVER ($partition$order))::int", "(count(*) FILTER (WHERE $argument > 2) OVER ($partition))::int"
	  if $type eq 'int';
	push @calls, "sum(" . own_leaf('int', $scope) . ") OVER ($row ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)", "sum(" . own_leaf('int', $scope) . ") OVER ($partition)"
	  if $type eq 'big';
	push @calls, "(sum($argument) OVER ($partition$order))::numeric(20,4)", "(avg($argument) OVER ($partition))::numeric(20,4)" if $type eq 'num';
	return pick(@calls);
}

# ---- FROM ----------------------------------------------------------------------------------------

# One item of FROM: ($source, $part).
sub from_item
{
	my ($outer, $depth, $lateral) = @_;
	my $what = rand;

	if (%ctes && $what < 0.25)
	{
		my $name  = pick(sort keys %ctes);
		my $alias = alias('w');
		return ({ alias => $alias, cols => $ctes{$name} }, "$name AS $alias");
	}
	if ($depth > 0 && $what < 0.42)
	{
		my $alias = alias('s');
		my $scope = $lateral ? { sources => $lateral, outer => $outer } : $outer;
		my ($columns, $query) = query($scope, $depth - 1, undef);
		return ({ alias => $alias, cols => $columns }, [ [ $lateral ? 'LATERAL ' : '', '(', $query, ") AS $alias" ] ]);
	}
	if ($what > 0.97)
	{
		my $alias = alias('g');
		return ({ alias => $alias, cols => [ [qw(k int)], [qw(t txt)] ] },
			"(VALUES " . join(', ', map { '(' . int(rand 10) . ', ' . quoted(pick(@words)) . ')' } 1 .. 1 + rand 4) . ") AS $alias(k, t)");
	}
	my $table = $keyed && chance(0.7) ? pick(qw(a b v r)) : pick(qw(a a a b b b e e x r r l v));
	my $alias = alias('t');
	return ({ alias => $alias, cols => $columns{$table} }, "$table AS $alias");
}

# Columns that both lists have, with their types.
sub common_columns
{
	my ($left, $right) = @_;
	my (%count, %type);
	$count{ $_->[0] }++ for map { @{ $_->{cols} } } @$left;
	$type{ $_->[0] } = $_->[1] for map { @{ $_->{cols} } } @$left;
	return grep { ($count{ $_->[0] } // 0) == 1 && $type{ $_->[0] } eq $_->[1] } @{ $right->{cols} };
}

# The condition of a join: an equality as a rule, of the shard keys often.
sub join_condition
{
	my ($left, $right, $outer, $depth, $kind) = @_;
	my $scope = { sources => [ @$left, $right ], outer => $outer };
	my $type = pick('int', 'int', 'int', 'int', 'txt', 'num', 'dt', 'big', 'tsz', 'bool');
	my $other = $type eq 'big' && chance(0.5) ? 'int' : $type eq 'int' && chance(0.08) ? 'big' : $type;
	my ($of_left, $of_right) = chance(0.5) ? ($type, $other) : ($other, $type);
	my @lefts  = columns_of({ sources => $left }, $of_left, 0);
	my @rights = columns_of({ sources => [$right] }, $of_right, 0);
	my @parts;

	if ($type eq 'int' && chance(0.65))
	{
		@lefts  = map { /\.k$/ ? $_ : () } @lefts  if grep { /\.k$/ } @lefts;
		@rights = map { /\.k$/ ? $_ : () } @rights if grep { /\.k$/ } @rights;
	}
	unless (@lefts && @rights)
	{
		$type = 'int';
		@lefts  = columns_of({ sources => $left },    $type, 0);
		@rights = columns_of({ sources => [$right] }, $type, 0);
	}
	if (@lefts && @rights)
	{
		my @sides = (pick(@lefts), pick(@rights));
		@sides = reverse @sides if chance(0.3);
		push @parts, join ' = ', @sides;
	}
	# FULL JOIN supports hardly any other condition.
	push @parts, 'true' if !@parts && $kind eq 'FULL JOIN';
	return list(' AND ', @parts) if $kind eq 'FULL JOIN' && chance(0.95);
	push @parts, condition({ sources => chance(0.5) ? [$right] : $scope->{sources} }, 1) if chance(0.25) || !@parts;
	push @parts, condition($scope, 1) if chance(0.06);
	push @parts, pick(@parts) . ' OR ' . plain_text(comparison($scope, 0)) if @parts == 1 && !ref $parts[0] && chance(0.03);
	return list(' AND ', @parts);
}

# FROM with n items: ([ sources ], $part).
sub from_clause
{
	my ($outer, $depth, $n) = @_;
	my ($first, $from) = from_item($outer, $depth, undef);
	my @sources = ($first);

	for (2 .. $n)
	{
		my $kind    = pick(('JOIN') x 9, ('LEFT JOIN') x 6, ('RIGHT JOIN') x 2, ('FULL JOIN') x 3);
		my $lateral = $depth > 0 && $kind =~ /^(JOIN|LEFT)/ && chance(0.12);
		my @visible = @sources;
		my ($right, $item);

		if (chance(0.12))
		{
			# another tree on the right side
			my ($rights, $tree) = from_clause($outer, $depth - 1, 2);
			my $condition = join_condition(\@sources, $rights->[0], $outer, $depth, $kind);
			$from = node([ $from, " $kind (", $tree, ') ON ', $condition ], [$from]);
			push @sources, @$rights;
			next;
		}
		($right, $item) = from_item($outer, $depth, $lateral ? \@visible : undef);
		$kind = 'CROSS JOIN' if $lateral && $kind eq 'JOIN' && chance(0.3);
		if ($kind eq 'CROSS JOIN')
		{
			$from = node([ $from, ' CROSS JOIN ', $item ], [$from]);
			push @sources, $right;
			next;
		}
		my @common = common_columns(\@sources, $right);
		my $roll = rand;
		if (@common && $roll < 0.15)
		{
			my %seen;
			my @names = grep { !$seen{ $_->[0] }++ } map { pick(@common) } 1 .. pick(1, 1, 2);
			my $alias = alias('u');
			$from = node([ $from, " $kind ", $item, ' USING (' . join(', ', map { $_->[0] } @names) . ") AS $alias" ], [$from]);
			push @sources, $right, { alias => $alias, cols => \@names };
			next;
		}
		if (@common && $roll < 0.18 && @sources == 1 && !grep { $_->[0] eq 'id' } @common)
		{
			$from = node([ $from, " NATURAL $kind ", $item ], [$from]);
		}
		else
		{
			$from = node([ $from, " $kind ", node([$item], [$item]), ' ON ', join_condition(\@sources, $right, $outer, $depth, $kind) ], [$from]);
		}
		push @sources, $right;
	}
	return (\@sources, $from);
}

# ---- large joins ---------------------------------------------------------------------------------

my $large = 0;    # items of the next FROM, which then is a large one

# An item of a large join: (source, part, 1 when no two rows have the same id).
sub large_item
{
	my ($sources, $depth) = @_;
	my $what = rand;
	my %all = (%columns, %more_columns);

	if ($what < 0.18 || %ctes && $what < 0.25)
	{
		my ($source, $part) = from_item(undef, $what < 0.06 ? 1 : 0, $what < 0.02 ? $sources : undef);
		return ($source, $part, 0);
	}
	my $table = pick(qw(a a a b b b e e x r r r l v o o m m g g h h h1 h2));
	my $alias = alias('t');
	my $unique = grep { $_->[0] eq 'id' } @{ $all{$table} };
	return ({ alias => $alias, cols => $all{$table} }, "$table AS $alias", $unique) if $what < 0.85;

	my $inner = alias('t');
	my $scope = { sources => [ { alias => $inner, cols => $all{$table} } ] };
	# distinct keys
	if ($what < 0.92)
	{
		my ($key) = map { $_->[0] } grep { $_->[0] eq ($unique ? 'id' : 'k') } @{ $all{$table} };
		my $order = own_leaf('int', $scope);
		return ({ alias => $alias, cols => [ [ 'id', 'int' ], [ 'k', 'int' ], [ 'i', 'int' ] ] },
			"(SELECT $inner.$key AS id, max($order) AS k, count(*)::int AS i FROM $table AS $inner GROUP BY $inner.$key) AS $alias", 1);
	}
	my $column = own_leaf('int', $scope);
	return ({ alias => $alias, cols => [ [ 'id', 'int' ], [ 'k', 'int' ] ] },
		"(SELECT DISTINCT $column AS id, $column AS k FROM $table AS $inner UNION SELECT k, k FROM r) AS $alias", 1)
	  if $what < 0.96;
	# rows of the joined tables decide which ones these are
	my @outside = columns_of({ sources => $sources }, 'int', 0);
	my $outside = @outside ? pick(@outside) : '1';
	return ({ alias => $alias, cols => [ [ 'id', 'int' ], [ 'k', 'int' ] ] },
		"LATERAL (SELECT $inner.k AS id, $outside + 1 AS k FROM $table AS $inner WHERE $inner.k = $outside ORDER BY 1 LIMIT 1) AS $alias", 1);
}

# FROM with n items whose joins mostly match one row at most: ([ sources ], part, [ conditions for
# WHERE ]).
sub large_from
{
	my ($n) = @_;
	my ($first, $from) = large_item([], 0);
	my @sources = ($first);
	my @group = ($first);    # since the last comma: what ON may name
	my $spread = 2;          # joins that may find many rows
	my (@before, @conditions);

	for (2 .. $n)
	{
		my $kind = pick(('JOIN') x 7, ('LEFT JOIN') x 8, ('RIGHT JOIN') x 1, ('FULL JOIN') x 1, (',') x 2, ('semi') x 2);
		my ($right, $item, $unique) = large_item(\@sources);
		my @lefts  = columns_of({ sources => $kind eq ',' || $kind eq 'semi' ? \@sources : \@group }, 'int', 0);
		my @rights = columns_of({ sources => [$right] }, 'int', 0);
		my @ids = grep { /\.id$/ } @rights;

		$kind = 'JOIN' if render($item) =~ /^LATERAL/ && $kind =~ /RIGHT|FULL/;
		@rights = @ids if @ids && ($spread <= 0 || chance(0.5));
		@rights = ('3') unless @rights;
		$spread-- unless $unique && $rights[0] =~ /\.id$/;
		my @keys = grep { /\.k$/ } @lefts;
		my $left = !@lefts ? '3' : @keys && chance(0.6) ? pick(@keys) : pick(@lefts);
		my $on = "$left = " . pick(@rights);
		$on .= ' AND ' . pick(@lefts) . pick(' < ', ' <> ', ' = ') . pick(@rights) if @lefts && $kind ne 'FULL JOIN' && chance(0.08);

		if ($kind eq 'semi')
		{
			push @conditions, node([ pick('', '', 'NOT ') . 'EXISTS (SELECT 1 FROM ', $item, " WHERE $on)" ]);
			next;
		}
		push @sources, $right;
		if ($kind eq ',')
		{
			push @before, $from, ', ';
			push @conditions, $on;
			($from, @group) = ($item, $right);
			next;
		}
		$from = node([ $from, " $kind ", $item, " ON $on" ], [$from]);
		push @group, $right;
	}
	return (\@sources, [ [ @before, $from ] ], \@conditions);
}

# ---- SELECT --------------------------------------------------------------------------------------

sub output_types
{
	my ($n) = @_;
	return [ map { pick('int', 'int', 'num', 'txt', @types) } 1 .. $n ];
}

my $next_is_topmost = 0;		# of the calls of query()
our $is_topmost = 0;

# query(outer scope, depth, types of the columns or undef): (columns, part).
sub query
{
	my ($outer, $depth, $wanted) = @_;
	local $is_topmost = $next_is_topmost;
	$next_is_topmost = 0;
	my $types = $wanted // output_types(1 + int rand 3);
	my $what  = rand;
	my @made  = $depth > 0 && $what < 0.14 ? set_operation($outer, $depth - 1, $types)
	  : $what < 0.42 ? grouped($outer, $depth, $types)
	  : $what < 0.52 ? windowed($outer, $depth, $types)
	  :                simple($outer, $depth, $types);
	my @columns = map { [ 'c' . ($_ + 1), $types->[$_] ] } 0 .. $#$types;
	my $part = $made[0];

	# The order is total: by all columns.
	$part = [ [ $part, node([ ' ORDER BY ' . order_by_all(scalar @$types) . cut($part, ' LIMIT 5', ' LIMIT 1', ' OFFSET 2', ' LIMIT 7 OFFSET 1', ' FETCH FIRST 3 ROWS WITH TIES') ]) ] ]
	  if $depth >= 0 && chance(0.15);
	return (\@columns, $part);
}

# One of several LIMITs for an ordered query. Before 18, core does not sort by a column that is
# equal to a constant, or to a column by which it sorts already, although some grouping sets have
# NULL there. Such queries get no LIMIT, because any rows would be correct.
sub cut
{
	my ($query, @limits) = @_;
	my $limit = pick(@limits);
	my $text  = render($query);
	return $text =~ /GROUPING SETS|ROLLUP|CUBE/ && $text =~ / = \(?(?:\$\d|'|-?\d|\w+\.)| USING \(/ ? '' : $limit;
}

sub order_by_all
{
	my ($n) = @_;
	my @numbers = 1 .. $n;
	for my $i (reverse 1 .. $#numbers)
	{
		my $j = int rand($i + 1);
		@numbers[ $i, $j ] = @numbers[ $j, $i ];
	}
	return join ', ', map { $_ . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } @numbers;
}

sub nitems { my ($depth) = @_; return $depth <= 0 ? pick(1, 1, 2) : $depth == 1 ? pick(1, 1, 2, 2, 3) : pick(1, 2, 2, 3, 3, 4, 5); }

sub body
{
	my ($outer, $depth, $n) = @_;
	$n //= nitems($depth);
	my $comma = $n > 1 && chance(0.25) ? 1 + int rand($n - 1) : 0;
	my @conditions;
	my ($sources, $from, $on);
	if ($large)
	{
		my $items = $large;
		($large, $comma) = (0, 0);
		($sources, $from, $on) = large_from($items);
		push @conditions, @$on;
	}
	else { ($sources, $from) = from_clause($outer, $depth - 1, $n - $comma); }
	if ($comma)
	{
		my ($others, $other) = from_clause($outer, $depth - 1, $comma);
		push @conditions, join_condition($sources, pick(@$others), $outer, 0, 'JOIN');
		$from = node([ $from, ', ', $other ], [$from]);
		push @$sources, @$others;
	}
	my $scope = { sources => $sources, outer => $outer };
	push @conditions, map { condition($scope, $depth) } 1 .. pick(0, 0, 0, 1, 1, 2);
	push @conditions, own_leaf('int', $scope) . pick(' = ', ' = ', ' < ') . constant('int') if chance(0.15);
	my $where = @conditions ? node([ ' WHERE ', list(' AND ', @conditions) ]) : '';
	return ($scope, [ [ ' FROM ', $from, $where ] ]);
}

# Expressions with names c1, c2, ...; of the topmost SELECT now and then the name of a column.
sub named
{
	my ($scope, @expressions) = @_;
	my @columns = $is_topmost && chance(0.3) ? map { $_->[0] =~ /\.(\w+)$/ ? $1 : () } all_columns($scope) : ();
	my $n = 0;
	return [ [ map { my $name = @columns && chance(0.5) ? pick(@columns) : 'c' . ($n + 1); $n++ ? (', ', $_, " AS $name") : ($_, " AS $name") } @expressions ] ];
}

sub simple
{
	my ($outer, $depth, $types) = @_;
	my ($scope, $body) = body($outer, $depth);
	my @expressions = map { chance(0.6) ? own_leaf($_, $scope) : expression($_, $scope, $depth) } @$types;

	if (chance(0.12))
	{
		return [ [ 'SELECT DISTINCT ', named($scope, @expressions), $body ] ];
	}
	if (chance(0.06) && @$types > 1)
	{
		return [ [ 'SELECT * FROM (SELECT DISTINCT ON (' . pick(1, '1, 2') . ') ', named($scope, @expressions), $body, ' ORDER BY ' . join(', ', 1 .. @$types) . ') AS q' ] ];
	}
	return [ [ 'SELECT ', named($scope, @expressions), $body ] ];
}

sub windowed
{
	my ($outer, $depth, $types) = @_;
	my ($scope, $body) = body($outer, $depth, pick(1, 1, 2));
	my @expressions = map { chance(0.5) ? own_leaf($_, $scope) : window($_, $scope) } @$types;
	return [ [ pick('SELECT ', 'SELECT ', 'SELECT DISTINCT '), named($scope, @expressions), $body ] ];
}

sub grouped
{
	my ($outer, $depth, $types) = @_;
	my ($scope, $body) = body($outer, $depth);
	my $sets = chance(0.2);
	my (@expressions, @keys);

	for my $type (@$types)
	{
		if (chance(0.45))
		{
			my @columns = columns_of($scope, $type, 0);
			my $key = @columns && ($sets || chance(0.75)) ? pick_column(@columns) : $sets ? undef : plain_text(expression($type, { sources => $scope->{sources} }, 1));
			if (defined $key && $key =~ /[a-z]\d+\./ && $key !~ /SELECT|\$/)
			{
				push @keys, $key;
				push @expressions, $key;
				next;
			}
		}
		push @expressions, aggregate($type, $scope, $depth);
	}
	if (!@keys && chance(0.6) || chance(0.2))
	{
		my @all = all_columns($scope);
		push @keys, pick_column(map { $_->[0] } @all);
	}
	my $group = '';
	if (@keys)
	{
		my $keys = join ', ', @keys;
		$group = !$sets ? " GROUP BY $keys"
		  : pick(" GROUP BY ROLLUP ($keys)", " GROUP BY CUBE ($keys)", " GROUP BY GROUPING SETS (($keys), ())",
			" GROUP BY GROUPING SETS (" . join(', ', map { "($_)" } @keys) . ", ($keys))", " GROUP BY $keys[0]" . (@keys > 1 ? ', ROLLUP (' . join(', ', @keys[ 1 .. $#keys ]) . ')' : ''));
		if ($sets && chance(0.5))
		{
			for my $i (0 .. $#$types)
			{
				$expressions[$i] = "GROUPING($keys[0])" if $types->[$i] eq 'int' && !grep { $_ eq $expressions[$i] } @keys;
			}
		}
	}
	my $having = chance(0.25)
	  ? node([ ' HAVING ', aggregate('int', $scope, 1), pick(' > ', ' < ', ' <> '), constant('int') ]) : '';
	# Before 18, core treats columns that WHERE has equal as equal in the rows of grouping sets,
	# too, and DISTINCT drops rows.
	my $distinct = chance(0.05) && !$sets;
	return [ [ 'SELECT ' . ($distinct ? 'DISTINCT ' : ''), named($scope, @expressions), $body, $group, $having ] ];
}

sub set_operation
{
	my ($outer, $depth, $types) = @_;
	my @branches = map { (query($outer, $depth, $types))[1] } 1 .. pick(2, 2, 3);
	my $part = [ [ '(', shift @branches, ')' ] ];
	while (@branches)
	{
		my $branch = shift @branches;
		$part = node([ $part, pick(' UNION ALL ', ' UNION ALL ', ' UNION ', ' INTERSECT ', ' INTERSECT ALL ', ' EXCEPT ', ' EXCEPT ALL '), '(', $branch, ')' ], [$part]);
	}
	return $part;
}

sub with_clause
{
	my ($depth) = @_;
	my @parts;

	for (1 .. pick(1, 1, 2))
	{
		my $name = alias('cte');
		my ($columns, $query) = query(undef, $depth, output_types(2 + int rand 2));
		push @parts, [ [ "$name AS " . pick('', 'MATERIALIZED ', 'NOT MATERIALIZED '), '(', $query, ')' ] ];
		$ctes{$name} = $columns;
	}
	my $recursive = chance(0.1);
	if ($recursive)
	{
		my $name  = alias('rec');
		my ($one, $two) = map { pick(qw(a b e r)) } 1 .. 2;
		push @parts, "$name(c1, c2) AS (SELECT k, 1 FROM $one WHERE i < 4 UNION SELECT q.i, $name.c2 + 1 FROM $name JOIN $two q ON q.k = $name.c1 WHERE $name.c2 < 4)";
		$ctes{$name} = [ [qw(c1 int)], [qw(c2 int)] ];
	}
	return [ [ 'WITH ' . ($recursive ? 'RECURSIVE ' : ''), map({ ($_ ? ', ' : '', $parts[$_]) } 0 .. $#parts), ' ' ] ];
}

# ---- cases ---------------------------------------------------------------------------------------

my @core_switches = map { "enable_$_" } qw(hashjoin mergejoin nestloop hashagg sort incremental_sort material memoize async_append
	partitionwise_join partitionwise_aggregate gathermerge seqscan bitmapscan indexscan);
my %zones = map { $_ => 1 } ('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Pacific/Auckland');

# random_case(seed, switches): switches are names of settings of shardfdw that are on or off.
sub random_case
{
	my ($seed, $switches, %opt) = @_;
	my %case = (seed => $seed, settings => [], common => []);

	srand $seed;
	($nalias, %ctes, @cuts) = (0);
	$params = chance(0.2) ? [] : undef;
	$keyed  = chance(0.4);
	my $with = chance(0.15) ? with_clause(1) : '';
	$next_is_topmost = 1;
	$large = $opt{joins} ? pick(2 .. 16) : 0;
	$case{tables} = $large;
	my ($columns, $query) = query(undef, 2, output_types(1 + int rand 4));
	if (chance(0.3))
	{
		$case{ordered} = 1;
		$query = [ [ 'SELECT * FROM (', $query, ') AS q' ] ] if render($query) =~ /ORDER BY [^()]*$/;
		$query = [ [ $query, ' ORDER BY ' . order_by_all(scalar @$columns), node([ cut($query, '', ' LIMIT 10', ' LIMIT 3 OFFSET 2', ' OFFSET 1', ' LIMIT 1') ]) ] ];
	}
	$case{tree} = [ [ $with, $query ] ];
	$case{cuts} = [@cuts];
	if ($params && @$params)
	{
		$case{params} = [ map { $sql_type{$_} } @$params ];
		$case{values} = [ map { [ map { random_value($_) } @$params ] } 1 .. 2 ];
	}
	if (chance(0.5))
	{
		my %on;
		$on{ pick(@core_switches) } = pick(qw(on off off)) for 1 .. int rand 5;
		$on{ pick(@$switches) } = 'off' for 1 .. (@$switches ? int rand 3 : 0);
		$on{cursor_tuple_fraction} = 1 if chance(0.1);
		$on{work_mem} = "'64kB'" if chance(0.1);
		push @{ $case{settings} }, map { "$_ = $on{$_}" } sort keys %on;
	}
	push @{ $case{common} }, "TimeZone = '" . pick(sort keys %zones) . "'" if chance(0.4);
	push @{ $case{common} }, "DateStyle = 'German'" if chance(0.05);
	push @{ $case{settings} }, 'plan_cache_mode = ' . pick(qw(force_generic_plan force_generic_plan force_custom_plan)) if $case{params};
	$case{in_transaction} = chance(0.2);
	return \%case;
}

1;
