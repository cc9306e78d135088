# QuickPsql.pm - what psql would print, asked by the test itself: most of the time of a call of psql is its start
#
#   my ($rc, $stdout, $stderr) = quick_psql($server, $dbname, $sql, $file, on_error_stop => 1, user => 'bob')
#     or ...;    # an empty list: only psql can run this
#
# Runs SQL as "psql -XAtq -f $file" does: statement by statement in a separate session, with psql's
# output, messages and exit code. psql_session() is that session alone. Some SQL is left to psql:
# its commands (except settings of VERBOSITY and SHOW_CONTEXT at the beginning) and variables, and
# COPY FROM STDIN. Also left to psql: notifications, bodies of SQL standard functions, and sessions
# that need a password or cannot connect.

package QuickPsql;

use strict;
use warnings;

use Exporter 'import';
use WireClient;

our @EXPORT = qw(psql_session quick_psql);

my $word = qr/[A-Za-z_\x80-\xff][\w\$\x80-\xff]*/;

# The statements of a text: [statement, the line in which it ends]; empty when something is psql's own.
sub _statements
{
	my ($sql) = @_;
	my ($start, $depth) = (0, 0);
	my @found;

	my $add = sub {
		my ($end) = @_;
		my $statement = substr($sql, $start, $end - $start) =~ s/\A\s+//r;
		push @found, [ $statement, 1 + substr($sql, 0, $end) =~ tr/\n// ] if $statement =~ /\S/;
		$start = $end;
	};
	for (pos $sql = 0; pos $sql < length $sql;)
	{
		if ($sql =~ /\G(?:[\s,.=<>+*%^|&\@#~!?\[\]\d]+|::|:=|--[^\n]*)/gc) { }
		elsif ($sql =~ /\G($word)/gc)
		{
			my $name = lc $1;
			return if $name eq 'begin' && $sql =~ /\G\s+atomic\b/i;
			return if $name eq 'e' && $sql =~ /\G'/ && $sql !~ /\G'(?:[^'\\]|\\.|'')*'/gcs;
		}
		elsif ($sql =~ /\G(?:'[^']*'|"[^"]*")+/gc) { }
		elsif ($sql =~ /\G(\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$)/gc)
		{
			my $end = index $sql, $1, pos $sql;
			return if $end < 0;
			pos $sql = $end + length $1;
		}
		elsif ($sql =~ m{\G/\*}gc)
		{
			my $comments = 1;
			$comments += $1 eq '/*' ? 1 : -1 while $comments && $sql =~ m{\G.*?(/\*|\*/)}gcs;
			return if $comments;
		}
		elsif ($sql =~ /\G;/gc) { $add->(pos $sql) if $depth == 0; }
		elsif ($sql =~ /\G\(/gc) { $depth++; }
		elsif ($sql =~ /\G\)/gc) { $depth-- if $depth; }
		elsif ($sql =~ /\G(?:\\|'|"|:['"{A-Z])/) { return; }
		else { $sql =~ /\G./gcs; }
	}
	$add->(length $sql);
	# nothing to do
	push @found, [ '', 1 ] if !@found;
	return @found;
}

# The line of a statement with a position, as libpq shows it.
sub _place
{
	my ($statement, $position) = @_;
	my $text = $statement;

	utf8::decode($text);
	my @before = split /\n/, substr($text, 0, $position - 1), -1;
	my $lineno = @before || 1;
	my $at = length($before[-1] // '');
	my $line = (split /\n/, $text, -1)[ $lineno - 1 ] // '';
	my ($first, $end) = (0, length $line);
	$line =~ tr/\t\r/  /;
	if ($end > 60)
	{
		if (60 >= $at + 10) { $end = 60; }
		else
		{
			$end = $at + 10 if $at + 10 < $end;
			$first = $end - 60 if $end > 60;
		}
	}
	my $shown = "LINE $lineno: " . ($first ? '...' : '');
	my $caret = ' ' x (length($shown) + $at - $first) . '^';
	$shown .= substr($line, $first, $end - $first) . ($end < length $line ? '...' : '');
	utf8::encode($shown);
	return "$shown\n$caret\n";
}

# A message as libpq writes it; fields by their letters.
sub _message
{
	my ($fields, $statement, $verbosity, $context) = @_;
	my %f = %$fields;

	return "$f{S}:  $f{C}\n" if $verbosity eq 'sqlstate';
	my $text = "$f{S}:  " . ($verbosity eq 'verbose' ? "$f{C}: " : '') . $f{M};
	my ($query, $position) = defined $f{P} ? ($statement, $f{P}) : ($f{q}, $f{p});
	if ($verbosity eq 'terse')
	{
		return $text . (defined $position ? " at character $position" : '') . "\n";
	}
	$text .= "\n";
	$text .= _place($query, $position) if defined $query && $position;
	for ([ D => 'DETAIL' ], [ H => 'HINT' ], [ q => 'QUERY' ], $context ? [ W => 'CONTEXT' ] : ())
	{
		$text .= "$_->[1]:  $f{ $_->[0] }\n" if defined $f{ $_->[0] };
	}
	$text .= 'LOCATION:  ' . (defined $f{R} ? "$f{R}, " : '') . "$f{F}:$f{L}\n" if $verbosity eq 'verbose' && defined $f{F};
	return $text;
}

# Opens a session of a user, like psql. Returns nothing if a password is needed, or if the
# environment contains more settings.
sub psql_session
{
	my ($server, $dbname, $user) = @_;
	my %parameter = (application_name => $ENV{PGAPPNAME} // 'psql');

	return if grep { defined $ENV{$_} } qw(PGPASSWORD PGSERVICE PGSSLMODE PGCLIENTENCODING PGHOSTADDR PGTZ PGDATESTYLE);
	$user //= $ENV{PGUSER};
	$parameter{user} = $user if defined $user;
	$parameter{options} = $ENV{PGOPTIONS} if defined $ENV{PGOPTIONS};
	return eval { WireClient->new($server, $dbname, %parameter) };
}

sub quick_psql
{
	my ($server, $dbname, $sql, $file, %opt) = @_;
	my %set = (VERBOSITY => 'default', SHOW_CONTEXT => 'errors');
	my $nlines = 0;
	my ($out, $err) = ('', '');

	$sql //= '';
	# bytes, as a file has them
	utf8::encode($sql) if !utf8::downgrade($sql, 1);
	while ($sql =~ s/\A\s*\\set (VERBOSITY|SHOW_CONTEXT) (\w+)[ \t]*\n//)
	{
		$set{$1} = $2;
		$nlines += $& =~ tr/\n//;
	}
	return if $sql =~ /\b(?:from\s+stdin|listen|standard_conforming_strings)\b/i;
	my @statements = _statements($sql) or return;

	local $SIG{PIPE} = 'IGNORE';
	my $client = psql_session($server, $dbname, $opt{user}) or return;

	for (@statements)
	{
		my ($statement, $line) = @$_;
		next if $statement eq '';
		my $prefix = "psql:$file:" . ($line + $nlines) . ': ';
		my $ended = eval { $client->query($statement) };
		my $result = $ended // $client->{result};

		$err .= $prefix . _message($_, $statement, $set{VERBOSITY}, $set{SHOW_CONTEXT} eq 'always') for @{ $result->{notices} };
		$out .= $result->{copied};
		$out .= join('|', map { $_ // '' } @$_) . "\n" for grep { $ended && @$_ } @{ $result->{rows} };
		$err .= $prefix . _message($result->{error}, $statement, $set{VERBOSITY}, $set{SHOW_CONTEXT} ne 'never') if $result->{error};
		if (!$ended)
		{
			$err .= "${prefix}server closed the connection unexpectedly\n"
			  . "\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.\n"
			  . "${prefix}error: connection to server was lost\n";
			return (2, $out, $err);
		}
		if ($result->{error} && $opt{on_error_stop})
		{
			eval { $client->close };    # the server may have crashed meanwhile
			return (3, $out, $err);
		}
	}
	eval { $client->close };    # the server may have crashed meanwhile
	return (0, $out, $err);
}

1;
