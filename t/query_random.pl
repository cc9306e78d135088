# Runs random queries on sharded tables and the same queries on plain ones. Both must give the same
# rows, or the same SQLSTATE. SqlRandom.pm makes the queries.
#
#   SQL_SEED=n      the first seed; each next query adds 1
#   SQL_QUERIES=n   number of queries
#   SQL_SECONDS=n   start no query after n seconds
#   SQL_LEVELS=x    part of the queries that reads tables of two levels (0.3)
#
#   SQL_SWITCHES=s  "name = value; ..." for every sharded run, instead of random settings
#   SQL_EXPLAIN=1   print the plan of a query that differs
#   SQL_ERRORS=1    print queries that fail in both runs
#
# Both runs use the same names, in the schemas p and s. Every query runs once on each. In the
# sharded run, switches of core's planner and of shardfdw are on or off at random. An internal
# error, or a connection that breaks, is a failure in any case.

use strict;
use warnings;

use PairedRun;
use PostgreSQL::Test::Utils;
use ShardCluster;
use SqlRandom;
use Test::More;
use Time::HiRes qw(time);

my $default  = !$ENV{SQL_QUERIES};
my $seed     = $ENV{SQL_SEED} || 1;
my $nqueries = $ENV{SQL_QUERIES} || 1500;
my $seconds  = $ENV{SQL_SECONDS} || 0;
my $levels   = $ENV{SQL_LEVELS} // 0.3;
my $per_test = 100;
my $max_diags = 12;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\n",
	node_conf        => "log_min_messages = fatal\n");
my $started = time;

my $pair = PairedRun->new($c);
my $collation = $pair->make_tables;
$pair->make_levels if $levels;
my @switches = split /\n/, $c->safe_psql("LOAD 'shardfdw'; SELECT name FROM pg_settings WHERE name LIKE 'shardfdw.enable%' AND vartype = 'bool' ORDER BY 1");
note sprintf 'tables: %.1f s; switches: %s; collation: %s', time - $started, "@switches", $collation;

# ---- all -----------------------------------------------------------------------------------------

my (%kinds, $nrows);
my ($nboth_fail, $ntimeouts) = (0, 0);
my ($ncompared, $ndiffer) = (0, 0);
my ($done, $ok) = (0, 0);
my (%seen, $nwith_rows);
my $last = 0;

sub check_part
{
	is($ok, $done, 'queries of the seeds up to ' . ($seed + $last)) if $done;
	($done, $ok) = (0, 0);
	return;
}

for my $n (0 .. $nqueries - 1)
{
	last if $seconds && time - $started > $seconds;
	next if $default && !ShardCluster::in_half($n);
	my $case = random_case($seed + $n, \@switches);
	my %why;

	$case->{settings} = [ split /; */, $ENV{SQL_SWITCHES} ] if defined $ENV{SQL_SWITCHES};
	$case->{levels} = rand() < $levels;
	$ncompared++;
	$done++;
	$last = $n;
	if ($pair->agree($case, \%why))
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
		$ndiffer++;
		if ($max_diags-- > 0) { $pair->report($case, \%why, $ENV{SQL_EXPLAIN}); }
		elsif ($seen{ $why{kind} }++ < 20) { diag "seed $case->{seed}: $why{kind}"; }
	}
	check_part() if $done == $per_test;
}
check_part();
note sprintf '%d queries, %d differ, %d give rows, %d fail in both, %d took too long, %.1f s', $ncompared, $ndiffer, $nwith_rows // 0, $nboth_fail, $ntimeouts, time - $started;
note "$kinds{$_} times in both: $_" for sort { $kinds{$b} <=> $kinds{$a} } keys %kinds;
if ($default)
{
	my $part = ShardCluster::halved() ? 2 : 1;
	my $nequal = $ncompared - $ndiffer - $nboth_fail - $ntimeouts;
	cmp_ok($nequal, '>=', 1400 / $part, 'most queries were answered the same by both');
	cmp_ok($nwith_rows, '>=', 600 / $part, 'many of them with rows');
}
done_testing();
