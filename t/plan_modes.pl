# Runs random queries on sharded tables and on plain ones, among them joins of 2 to 16 tables of all
# kinds. Planner modes make the planner choose plans that it seldom chooses. Both runs must give the
# same rows or the same SQLSTATE.
#
#   MODES_SEED=n      the first seed; each next query adds 1
#   MODES_QUERIES=n   number of queries
#   MODES_SECONDS=n   start no query after n seconds
#   MODES_TIMEOUT=n   statement_timeout in seconds (15)
#
#   MODES_JOINS=x     part of the queries that has a large join (0.7)
#   MODES_LEVELS=x    part of the queries that reads tables of two levels (0.3)
#   MODES_DIFF=n      how often the queries of a file of sql/diff run (1)
#
#   MODES_REGRESS=n   how often all of sql/*.sql run (0); plans differ, so
#                     only internal errors and crashes count
#
#   MODES_EXPLAIN=1   print the plan of a query that differs
#   PLANNER_MODES=s   comma-separated: these modes for each query, instead of
#                     random ones (PlannerModes.pm)
#
# SqlRandom.pm makes the queries, PlannerModes.pm has the modes. With DML_MODES=1, t/write_random.pl
# runs scripts under these modes. A query that differs is made smaller and printed with its
# settings.

use strict;
use warnings;

use Cwd;
use DiffQueries;
use File::Basename;
use IPC::Run ();
use PairedRun;
use PlannerModes;
use PostgreSQL::Test::Utils;
use ShardCluster;
use SqlRandom;
use Test::More;
use Time::HiRes qw(time);

my $default  = !$ENV{MODES_QUERIES};
my $seed     = $ENV{MODES_SEED} || 1;
my $nqueries = $ENV{MODES_QUERIES} || 150;
my $seconds  = $ENV{MODES_SECONDS} || 0;
my $joins    = $ENV{MODES_JOINS} // 0.7;
my $levels   = $ENV{MODES_LEVELS} // 0.3;
my $ndiff    = $ENV{MODES_DIFF} // 1;
my $nregress = $ENV{MODES_REGRESS} || 0;
my $per_test = $default ? 75 : 1000;
my $max_diags = 15;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\nmax_parallel_workers = 4\nlog_line_prefix = '[%e] '\n",
	node_conf        => "log_min_messages = fatal\n");
my $modes = PlannerModes->new($c->coordinator);
my $pair  = PairedRun->new($c, ($ENV{MODES_TIMEOUT} // 15) . 's');
my $started = time;

$pair->make_tables(1);
$pair->make_levels(1) if $levels;
note "modes: @{[ $modes->names ]}";

# A case, and the modes that it has got.
sub next_case
{
	my ($n) = @_;
	srand $n;
	my $case  = random_case($n, [], joins => rand() < $joins);
	my @names = $modes->choose;
	my %in    = map { $_ => 1 } @names;

	$case->{levels} = rand() < $levels;
	$case->{settings} = [ $modes->settings(@names) ];
	$case->{executions} = 1 if !$case->{params} && ($in{generic} || $in{custom});
	$case->{executions} = 7 if $in{prepared};    # five custom plans, then perhaps a generic one
	$case->{cursor} = 1 + int rand 7 if $in{cursor};
	return ($case, @names ? @names : 'none');
}

my ($ncompared, $ndiffer, $nboth_fail, $ntimeouts, $nwith_rows) = (0) x 5;
my ($done, $ok) = (0, 0);
my (%seen, %of_mode, %took, %of_size, %both);

sub check_part
{
	is($ok, $done, 'queries of the seeds up to ' . ($seed + $ncompared - 1)) if $done;
	($done, $ok) = (0, 0);
	return;
}

for my $n ($seed .. $seed + $nqueries - 1)
{
	last if $seconds && time - $started > $seconds;
	next if $default && !ShardCluster::in_half($n);
	my ($case, @names) = next_case($n);
	my $begun = time;
	my %why;

	$of_mode{$_}++ for @names;
	$of_size{ $case->{tables} }++;
	$ncompared++;
	$done++;
	if ($pair->agree($case, \%why))
	{
		my $error = $why{about_plain}{error} // $why{about_sharded}{error};
		$ok++;
		if (!$error) { $nwith_rows++ if $why{about_plain}{nrows}; }
		elsif ($error->{C} eq '57014') { $ntimeouts++; }
		else { $nboth_fail++; $both{"$error->{C} $error->{M}" =~ s/"[^"]*"|\d+/?/gr}++; }
	}
	else
	{
		$ndiffer++;
		if ($max_diags > 0 && !$seen{ $why{kind} }++)
		{
			$max_diags--;
			diag "modes: @names";
			$pair->report($case, \%why, $ENV{MODES_EXPLAIN});
		}
		else { diag "seed $n: $why{kind}"; }
	}
	$took{$_} += time - $begun for @names;
	check_part() if $done == $per_test;
}
check_part();
note sprintf '%d queries, %d differ, %d give rows, %d fail in both, %d took too long, %.1f s', $ncompared, $ndiffer, $nwith_rows, $nboth_fail, $ntimeouts, time - $started;
note 'by mode, with milliseconds each: ' . join ', ', map { sprintf '%s %d (%.0f)', $_, $of_mode{$_}, 1000 * $took{$_} / $of_mode{$_} } sort keys %of_mode;
note 'by tables of the large join: ' . join ', ', map { ($_ || 'none') . " $of_size{$_}" } sort { $a <=> $b } keys %of_size;
note "$both{$_} times in both: $_" for sort { $both{$b} <=> $both{$a} } keys %both;
if ($default)
{
	cmp_ok($nboth_fail + $ntimeouts, '<', $ncompared / 10, 'most queries have an answer');
	cmp_ok($nwith_rows, '>', $ncompared / 4, 'many have rows');
}

# ---- queries of sql/diff -------------------------------------------------------------------------

make_diff_tables($c) if $ndiff;
for (1 .. $ndiff)
{
	srand $seed + $_;
	my $file  = (qw(filter prune group query join misc))[ rand 6 ];
	my @names = $modes->choose;
	queries_ok($c, $file, rand() < 0.3 ? 'diff_one' : 'diff_seven', options(@names), title => "modes @names");
}

# Settings in the format of PGOPTIONS.
sub options { return [ map { s/ = /=/r =~ s/'//gr } $modes->settings(@_) ]; }

# ---- all of sql/*.sql ----------------------------------------------------------------------------

# Internal errors and crashes in the log while sql/*.sql run with settings: text -> times.
sub run_regress
{
	my (@settings) = @_;
	my %found;

	$c->coordinator->safe_psql('postgres', 'DROP DATABASE IF EXISTS contrib_regression WITH (FORCE)');
	$c->coordinator->safe_psql('postgres', 'CREATE DATABASE contrib_regression');
	local $ENV{PG_ABS_SRCDIR} = getcwd();
	local $ENV{PGTZ} = 'PST8PDT';
	local $ENV{PGDATESTYLE} = 'Postgres, MDY';
	for my $file ('sql/setup.sql', grep { !/setup|shardfdw--/ } sort glob 'sql/*.sql')
	{
		my $position = $c->log_position;
		local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } 'log_min_messages=error', $file =~ /setup/ ? () : @settings;
		IPC::Run::run([ 'psql', '-Xaq', '-d', $c->coordinator->connstr('contrib_regression'), '-f', $file ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null', IPC::Run::timeout(1200));
		$c->coordinator->poll_query_until('postgres', 'SELECT true');
		$found{ basename($file) . ': ' . s/\d+/?/gr }++ for grep { !/\[57P0/ } $c->log_since($position) =~ /^(\[(?:XX...|     )\] (?:ERROR|FATAL|PANIC).*|.*TRAP:.*|.*was terminated by signal.*)$/mg;
	}
	return \%found;
}

if ($nregress)
{
	my $usual = run_regress();
	note map { "without modes: $_\n" } sort keys %$usual;
	for (1 .. $nregress)
	{
		srand $seed + 100 + $_;
		my @names = $modes->choose;
		my $found = run_regress(@{ options(@names) });
		is(join("\n", grep { !$usual->{$_} } sort keys %$found), '', "sql/*.sql, modes @names");
	}
}
done_testing();
