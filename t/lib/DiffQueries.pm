# DiffQueries.pm - runs the query files of sql/diff on sharded tables and on plain ones
#
# The regression tests run the same files inside a procedure. Here every query is a separate
# statement of psql, and the nodes are separate servers. sql/diff/harness.sql explains the format of
# the files.

package DiffQueries;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More ();

our @EXPORT = qw(make_diff_tables read_queries run_queries queries_ok run_file);

# run_file(cluster, file or text reference, settings, variables): runs psql; returns its output,
# errors, and the exit code. Settings are given at the start of the connection.
sub run_file
{
	my ($c, $source, $settings, %variables) = @_;
	my $file = $source;
	my ($out, $err);

	if (ref $source)
	{
		$file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
		open my $fh, '>', $file or croak "could not write $file: $!";
		print $fh $$source;
		close $fh;
	}
	my @cmd = ('psql', '-XAt', '-d', $c->coordinator->connstr('postgres'));
	push @cmd, '-v', "$_=$variables{$_}" for sort keys %variables;
	local $ENV{PGOPTIONS} = join ' ', map { (my $s = $_) =~ s/([\\ ])/\\$1/g; "-c $s" } @{ $settings // [] };
	my $ok = IPC::Run::run([ @cmd, '-f', $file ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($out, $err, $ok ? 0 : 1);
}

# Tables of sql/diff, in diff_plain, diff_one and diff_seven.
sub make_diff_tables
{
	my ($c) = @_;
	my @steps = ([ 'types.sql' ], [ 'tables.sql', 'diff_plain', 0 ], [ 'tables.sql', 'diff_one', 1 ],
		[ 'tables.sql', 'diff_seven', 7 ]);

	for my $step (@steps)
	{
		my ($file, $schema, $shards) = @$step;
		my (undef, $err, $rc) =
		  run_file($c, "sql/diff/$file", ['client_min_messages=warning'], ON_ERROR_STOP => 1,
			schema => $schema // '', shards => $shards // 0);
		croak "$file: $err" if $rc;
	}
	return;
}

# Returns the queries of a file: { query, flags => {name => 1}, params }.
sub read_queries
{
	my ($name) = @_;
	my (@queries, $query, %flags, $params);

	for my $line (split /\n/, slurp_file("sql/diff/$name.sql"))
	{
		if ($line =~ /^--= params (.*)/) { $params = $1; }
		elsif ($line =~ /^--= (.*)/) { $flags{$1} = 1; }
		elsif ($line !~ /^--/ && ($query || $line ne ''))
		{
			$query .= ($query ? "\n" : '') . $line;
			next unless $line =~ s/;$//;
			push @queries, { query => $query, flags => {%flags}, params => $params };
			($query, %flags, $params) = ();
			undef $query;
			undef $params;
		}
	}
	return @queries;
}

# Runs the queries in one session; returns for each a text: its SQLSTATEs and its rows, sorted unless
# the order counts.
sub run_queries
{
	my ($c, $queries, $settings, $before, $after) = @_;
	my $script = "\\set VERBOSITY sqlstate\n" . ($before // '');
	my $n      = 0;

	for my $q (@$queries)
	{
		my ($types, @values) = split / \| /, $q->{params} // '';
		my @statements = ($q->{query});

		@statements = (
			"PREPARE diff_query ($types) AS $q->{query}",
			(map { "EXECUTE diff_query ($_);" } @values), 'DEALLOCATE diff_query;')
		  if defined $types;
		$script .= "\n\\echo \@\@\@ begin $n\n";
		$script .= "$_\n\\echo \@\@\@ :SQLSTATE\n" for @statements;
		$n++;
	}
	my ($out, $err) = run_file($c, \($script . "\n\\echo \@\@\@ begin $n\n" . ($after // '')), $settings);
	my @results = split /^\@\@\@ begin \d+\n/m, $out;
	shift @results;
	$#results = $n - 1 if @results > $n;

	for my $i (0 .. $#results)
	{
		my $flags = $queries->[$i]{flags};
		# With an error the rows before it do not count.
		if ($flags->{error}) { $results[$i] =~ s/^.*^(\@\@\@ .....)$.*/$1/ms; }
		elsif ($flags->{count}) { $results[$i] =~ s/^.*$/row/mg; }
		elsif (!$flags->{ordered}) { $results[$i] = join "\n", sort split /\n/, $results[$i]; }
	}
	return ($err, @results);
}

my %plain_results;

# One test: the queries of a file have the same results in both schemas, each with its settings.
sub queries_ok
{
	my ($c, $name, $schema, $settings, %opt) = @_;
	my $major = $c->coordinator->safe_psql('postgres', 'SHOW server_version_num') / 10000;
	my @queries = grep {
		my ($since) = map { /^since (\d+)/ ? $1 : () } keys %{ $_->{flags} };
		!($since && $since > $major) && !($opt{no_errors} && $_->{flags}{error}) && !($opt{skip} && $_->{query} =~ $opt{skip})
	} read_queries($name);
	my @common = @{ $opt{common} // [] };
	# Asked once for each set of settings.
	my $key = join "\n", $name, @common, map { $_->{query} } @queries;
	$plain_results{$key} //= [ run_queries($c, \@queries, [ @common, 'search_path=diff_plain,diff' ]) ];
	my (undef, @plain) = @{ $plain_results{$key} };
	my ($err, @sharded) =
	  run_queries($c, \@queries, [ @common, "search_path=$schema,diff", @$settings ], $opt{before}, $opt{after});
	my $bad = 0;
	my $title = "$name: $schema" . join('', map { ", $_" } @common, @$settings) . ($opt{title} ? ", $opt{title}" : '');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $i (0 .. $#queries)
	{
		next if defined $sharded[$i] && $sharded[$i] eq $plain[$i];
		next if $bad++ >= 5;
		Test::More::diag("query: $queries[$i]{query}\nplain: "
			  . substr($plain[$i], 0, 600) . "\nsharded: "
			  . substr($sharded[$i] // 'nothing', 0, 600));
	}
	Test::More::diag(substr($err, 0, 600)) if $bad && !$opt{quiet};
	return Test::More::is($bad, 0, "$title: " . scalar(@queries) . " queries");
}

1;
