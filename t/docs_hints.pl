# Hints and other messages name calls of the extension's functions. These calls must be valid: the
# function exists, takes that number of arguments, and has the named arguments.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

# The text between the parenthesis at the beginning of $text and its closing parenthesis, split at
# commas. undef if there is none.
sub arguments
{
	my ($text) = @_;
	my @found = ('');
	my $depth = 0;

	for my $token ($text =~ /\G('(?:[^']|'')*'|.)/gs)
	{
		if ($token eq '(' || $token eq '[' || $token eq '{') { next if !$depth++; }
		if ($token eq ')' || $token eq ']' || $token eq '}')
		{
			if (!--$depth) { return @found == 1 && $found[0] =~ /^\s*$/ ? [] : [ map { s/^\s+|\s+$//gr } @found ]; }
		}
		if ($depth == 1 && $token eq ',') { push @found, ''; next; }
		$found[-1] .= $token;
	}
	return undef;
}

# name -> kind, names of the arguments, number of arguments without default
my %functions;
for my $file (sort glob 'sql/install/*.sql')
{
	my $sql = slurp_file($file);
	while ($sql =~ /^CREATE (FUNCTION|PROCEDURE) shardfdw\.(\w+)\s*(?=\()/gm)
	{
		my ($kind, $name) = ($1, $2);
		my @inputs = grep { !/^OUT / } @{ arguments(substr $sql, pos $sql) };
		$functions{$name} = { kind => $kind, names => [ map { /^(?:VARIADIC |INOUT )?"?(\w+)/ } @inputs ], needed => scalar grep { !/ DEFAULT / } @inputs };
	}
}
cmp_ok(scalar keys %functions, '>', 50, 'there are functions');

# The literals of a source file: position and text. Adjacent literals of C are one.
sub literals
{
	my ($file) = @_;
	my $source = slurp_file($file);
	my $is_c = $file =~ /\.[ch]$/;
	my @found;

	my $pattern = $is_c ? qr{/\*.*?\*/|((?:"(?:[^"\\]|\\.)*"\s*|U?INT64_FORMAT\s*)+)|'(?:[^'\\]|\\.)*'}s : qr{--[^\n]*|((?:'(?:[^']|'')*'))}s;
	while ($source =~ /$pattern/g)
	{
		next if !defined $1;
		my ($text, $line) = ($1, 1 + substr($source, 0, $-[0]) =~ tr/\n//);
		if ($is_c) { $text = join '', map { s/^"(.*)"$/$1/sr =~ s/\\"/"/gr } $text =~ /("(?:[^"\\]|\\.)*"|U?INT64_FORMAT)/gs }
		else       { $text = substr($text, 1, -1) =~ s/''/'/gr }
		push @found, [ "$file:$line", $text ];
	}
	return @found;
}

my @wrong;
my $ncalls = 0;
my @files = (glob('sql/install/*.sql'), split /\n/, qx{find src -name '*.[ch]'});
for (map { literals($_) } sort @files)
{
	my ($place, $text) = @$_;
	while ($text =~ /\bshardfdw\.(\w+)(?=\()/g)
	{
		my ($name, $before) = ($1, substr $text, 0, $-[0]);
		my $function = $functions{$name};
		my $arguments = arguments(substr $text, pos $text);
		my $word = $before =~ /(SELECT|CALL|FROM|[Cc]all) $/ ? $1 : '';

		$ncalls++;
		if    (!$function) { push @wrong, "$place: there is no function shardfdw.$name()"; next; }
		# "shardfdw.name()" names the function, unless it is to be called
		elsif (!$word && defined $arguments && !@$arguments) { next; }
		elsif (!defined $arguments) { push @wrong, "$place: the call of shardfdw.$name() does not end"; next; }
		my @named = map { /^"?(\w+)"? => / } @$arguments;
		push @wrong, "$place: shardfdw.$name() is a " . lc $function->{kind} if ($word eq 'CALL') != ($function->{kind} eq 'PROCEDURE') && $word;
		push @wrong, "$place: shardfdw.$name() has something left open" if grep { /\.\.\./ } @$arguments;
		for my $given (@named)
		{
			push @wrong, "$place: shardfdw.$name() has no argument $given" if !grep { $_ eq $given } @{ $function->{names} };
		}
		push @wrong, sprintf '%s: shardfdw.%s() has %d to %d arguments, not %d', $place, $name, $function->{needed}, scalar @{ $function->{names} }, scalar @$arguments
			if @$arguments > @{ $function->{names} } || @$arguments < $function->{needed};
	}
}
cmp_ok($ncalls, '>', 60, 'messages have calls');
is(join("\n", @wrong), '', 'all of them can be run');

done_testing();
