# Random queries on sharded tables against the same queries on plain ones: the same rows, or the same
# SQLSTATE. SqlRandom.pm makes the queries.
#
#   SQL_SEED=n      the first seed; each query has its own, one more than the one before
#   SQL_QUERIES=n   how many
#   SQL_SECONDS=n   no new query after so many seconds
#   SQL_SWITCHES=s  "name = value; ..." for every sharded run, instead of random settings
#   SQL_EXPLAIN=1   print the plan of what differs
#   SQL_ERRORS=1    print what fails in both runs
#
# Both runs use the same names, in the schemas p and s. Every query runs once on each; the sharded run
# has switches of core's planner and of shardfdw on or off at random. An internal error, or a
# connection that breaks, is a failure whatever the other run says.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use SqlRandom;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $default  = !$ENV{SQL_QUERIES};
my $seed     = $ENV{SQL_SEED} || 1;
my $nqueries = $ENV{SQL_QUERIES} || 1100;
my $seconds  = $ENV{SQL_SECONDS} || 0;
my $per_test = 100;
my $max_diags = 12;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\n",
	node_conf        => "log_min_messages = fatal\n");
my $started = time;

# ---- tables --------------------------------------------------------------------------------------

# Another collation than C, as far as this PostgreSQL has one.
my ($collation) = grep { ($c->psql("CREATE COLLATION public.other ($_)"))[0] == 0 }
  ("provider = icu, locale = 'de'", "locale = 'en_US.utf8'", "locale = 'C.utf8'", "locale = 'POSIX'");
$_->safe_psql('postgres', "CREATE COLLATION public.other ($collation)") for $c->nodes;
$_->safe_psql('postgres', 'CREATE SCHEMA s') for $c->coordinator, $c->nodes;
$c->safe_psql('CREATE SCHEMA p');

my %sharding = (
	a => "SELECT shardfdw.shard_table('s.a', 'k', shards => 5)",
	b => "SELECT shardfdw.shard_table('s.b', 'k', colocate_with => 's.a')",
	e => "SELECT shardfdw.shard_table('s.e', 'i', shards => 3)",
	x => "SELECT shardfdw.shard_table('s.x', 't', shards => 4)",
	r => "SELECT shardfdw.replicate_table('s.r')");
delete $sharding{r} unless $c->safe_psql("SELECT count(*) FROM pg_proc WHERE proname = 'replicate_table'");
for my $schema (qw(p s))
{
	my $sql = "SET search_path = $schema, public;\n";
	for (random_tables(1))
	{
		my ($name, $columns, $rows) = @$_;
		$sql .= "CREATE TABLE $name ($columns);\nINSERT INTO $name VALUES $rows;\n";
		$sql .= "CREATE INDEX ON $name (k);\n" if $name =~ /[abr]/;
		$sql .= "$sharding{$name};\n" if $schema eq 's' && $sharding{$name};
		$sql .= "ANALYZE $name;\n" if $name =~ /[ael]/;
	}
	$sql .= "CREATE VIEW v AS SELECT a.k, b.n, b.d, a.t FROM a JOIN b ON a.k = b.k AND a.i = b.i;\n";
	$c->safe_psql($sql);
}
my @switches = split /\n/, $c->safe_psql("LOAD 'shardfdw'; SELECT name FROM pg_settings WHERE name LIKE 'shardfdw.enable%' AND vartype = 'bool' ORDER BY 1");
note sprintf 'tables: %.1f s; switches: %s; collation: %s', time - $started, "@switches", $collation;

# ---- one query -----------------------------------------------------------------------------------

my %client;
my (%kinds, $nrows);
my ($nboth_fail, $ntimeouts, $nempty) = (0, 0, 0);

sub client
{
	my ($schema) = @_;
	return $client{$schema} //= WireClient->new($c->coordinator, 'postgres',
		options => "-c search_path=$schema,public -c statement_timeout=20s -c client_min_messages=error");
}

# Runs statements in one session; the result of the last one, or the first error.
sub run_all
{
	my ($schema, @statements) = @_;
	my $result;
	for my $sql (@statements)
	{
		$result = eval { client($schema)->query($sql) };
		if (!$result)
		{
			my $message = $@;
			delete $client{$schema};
			$c->coordinator->poll_query_until('postgres', 'SELECT true');
			return { error => { C => 'connection', M => $message } };
		}
		return $result if $result->{error};
	}
	return $result;
}

sub row_text { return join "\x1f", map { $_ // "\x00" } @{ $_[0] }; }

# What a case comes to in one schema: a text, and a hash about it.
sub outcome
{
	my ($case, $schema) = @_;
	my $sql = text_of($case);
	my @settings = (@{ $case->{common} }, $schema eq 's' ? @{ $case->{settings} } : ());
	my @texts;
	my $about = {};

	if (@settings)
	{
		my $set = run_all($schema, join ';', map { "SET $_" } @settings);
		die "@settings: $set->{error}{M}" if $set->{error};
	}
	run_all($schema, 'BEGIN') if $case->{in_transaction};
	my @runs = ($sql);
	if ($case->{params})
	{
		my $prepared = run_all($schema, 'PREPARE q (' . join(', ', @{ $case->{params} }) . ") AS $sql");
		@runs = $prepared->{error} ? () : map { 'EXECUTE q (' . join(', ', @$_) . ')' } @{ $case->{values} };
		push @texts, "error $prepared->{error}{C}" if $prepared->{error};
		$about->{error} = $prepared->{error};
	}
	for my $run (@runs)
	{
		my $result = run_all($schema, $run);
		if ($result->{error})
		{
			$about->{error} = $result->{error};
			push @texts, "error $result->{error}{C}";
			last;
		}
		my @rows = map { row_text($_) } @{ $result->{rows} };
		$about->{nrows} += @rows;
		push @texts, join "\n", 'rows', $case->{ordered} ? @rows : sort @rows;
	}
	run_all($schema, 'ROLLBACK') if $case->{in_transaction};
	run_all($schema, 'DEALLOCATE ALL') if $case->{params};
	run_all($schema, 'RESET ALL') if @settings;
	return (join("\n--\n", @texts), $about);
}

# True when both runs agree; fills $why otherwise.
sub agree
{
	my ($case, $why) = @_;
	my ($plain, $about_plain)     = outcome($case, 'p');
	my ($sharded, $about_sharded) = outcome($case, 's');
	my $code = $about_sharded->{error} ? $about_sharded->{error}{C} : '';

	@$why{qw(plain sharded about_plain about_sharded)} = ($plain, $sharded, $about_plain, $about_sharded);
	# what core itself cannot run is nothing to compare with
	return 1 if $about_plain->{error} && $about_plain->{error}{C} =~ /^(XX|conn)/;
	return 1 if $about_plain->{error} && $about_plain->{error}{M} =~ /^FULL JOIN is only supported/ && $code !~ /^(XX|conn)/;
	return 0 if $code =~ /^(XX|conn)/;
	return 1 if grep { $_ && $_->{C} eq '57014' } map { $_->{error} } $about_plain, $about_sharded;
	return $plain eq $sharded;
}

# Makes a case that differs smaller, as long as it goes on to differ in the same way: rows, or the same error.
sub minimise
{
	my ($case, $kind) = @_;
	my $budget = 600;

	for my $pass (1 .. 3)
	{
		my $progress = 0;
		for my $cut (reverse cuts_of($case))
		{
			next if $cut->[2] || $budget-- <= 0;
			my $before = text_of($case);
			$cut->[2] = 1;
			next if text_of($case) eq $before;
			my %why;
			if (agree($case, \%why) || kind_of(\%why) ne $kind) { $cut->[2] = 0; }
			else { $progress = 1; }
		}
		for my $list (qw(settings common))
		{
			for my $i (reverse 0 .. $#{ $case->{$list} })
			{
				my ($gone) = splice @{ $case->{$list} }, $i, 1;
				my %why;
				splice @{ $case->{$list} }, $i, 0, $gone if agree($case, \%why) || kind_of(\%why) ne $kind;
			}
		}
		last unless $progress;
	}
	return;
}

sub kind_of
{
	my ($why) = @_;
	my ($plain, $sharded) = map { $_ && $_->{error} ? "$_->{error}{C} " . ($_->{error}{M} // '') =~ s/\d+|"[^"]*"/?/gr : 'rows' } @$why{qw(about_plain about_sharded)};
	return "$plain / $sharded";
}

sub shown
{
	my ($text) = @_;
	my @lines = split /\n/, $text;
	my $n = @lines;
	@lines = (@lines[ 0 .. 11 ], "... $n lines") if @lines > 14;
	return join "\n           ", map { s/\x1f/ | /gr =~ s/\x00/NULL/gr } @lines;
}

sub report
{
	my ($case, $kind) = @_;
	my %why;

	minimise($case, $kind);
	agree($case, \%why);
	my $error = $why{about_sharded}{error} // $why{about_plain}{error};
	diag "seed $case->{seed}: $kind" . ($error ? "\n  message: $error->{M}" : '');
	diag '  settings: ' . join '; ', @{ $case->{common} }, @{ $case->{settings} }, $case->{in_transaction} ? 'BEGIN' : ();
	diag '  query:   ' . text_of($case);
	diag '  params:  ' . join ', ', @{ $case->{params} }, map { '(' . join(', ', @$_) . ')' } @{ $case->{values} } if $case->{params};
	diag "  plain:   " . shown($why{plain});
	diag "  sharded: " . shown($why{sharded});
	if ($ENV{SQL_EXPLAIN} && !$case->{params})
	{
		run_all('s', join ';', map { "SET $_" } @{ $case->{common} }, @{ $case->{settings} }, 'a.b = 1');
		my $plan = run_all('s', 'EXPLAIN (VERBOSE, COSTS OFF) ' . text_of($case));
		diag '  plan:    ' . join "\n           ", map { $_->[0] } @{ $plan->{rows} };
		run_all('s', 'RESET ALL');
	}
	return;
}

# ---- all -----------------------------------------------------------------------------------------

my ($ncompared, $ndiffer, $nerrors) = (0, 0, 0);
my ($done, $ok) = (0, 0);
my (%seen, $nwith_rows);

sub check_part
{
	is($ok, $done, 'queries of the seeds up to ' . ($seed + $ncompared - 1)) if $done;
	($done, $ok) = (0, 0);
	return;
}

for my $n (0 .. $nqueries - 1)
{
	last if $seconds && time - $started > $seconds;
	my $case = random_case($seed + $n, \@switches);
	my %why;

	$case->{settings} = [ split /; */, $ENV{SQL_SWITCHES} ] if defined $ENV{SQL_SWITCHES};
	$ncompared++;
	$done++;
	if (agree($case, \%why))
	{
		$ok++;
		my $error = $why{about_plain}{error} // $why{about_sharded}{error};
		if (!$error) { $nwith_rows++ if $why{about_plain}{nrows}; }
		elsif ($error->{C} eq '57014') { $ntimeouts++; }
		else
		{
			diag "seed $case->{seed}: $error->{C} $error->{M}: " . text_of($case) if $ENV{SQL_ERRORS};
			$nboth_fail++; $kinds{"$error->{C} $error->{M}" =~ s/"[^"]*"/?/gr}++;
		}
	}
	else
	{
		my $kind = kind_of(\%why);
		$ndiffer++;
		if ($max_diags-- > 0) { report($case, $kind); }
		elsif ($seen{$kind}++ < 20) { diag "seed $case->{seed}: $kind"; }
	}
	check_part() if $done == $per_test;
}
check_part();
note sprintf '%d queries, %d differ, %d give rows, %d fail in both, %d took too long, %.1f s', $ncompared, $ndiffer, $nwith_rows // 0, $nboth_fail, $ntimeouts, time - $started;
note "$kinds{$_} times in both: $_" for sort { $kinds{$b} <=> $kinds{$a} } keys %kinds;
if ($default)
{
	cmp_ok($ncompared - $ndiffer - $nboth_fail - $ntimeouts, '>=', 1000, 'at least 1,000 queries were answered the same by both');
	cmp_ok($nwith_rows, '>=', 400, 'at least 400 of them with rows');
}
done_testing();
