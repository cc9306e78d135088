# Runs random statements on sharded tables and the same statements on plain tables, and compares
# them. There are queries (SqlRandom.pm), writes and DDL (DmlRandom.pm), and unusual forms and names
# (ShapeRandom.pm). All run under random planner modes (PlannerModes.pm). scripts/attack runs this
# file for as long as you like.
#
#   ATTACK_SEED=n     the first seed; each next query or script adds 1 (1)
#   ATTACK_SECONDS=n  start no query or script after n seconds (0)
#                     0: 200 queries and two scripts of each kind
#
#   ATTACK_KINDS=s    comma-separated list of queries, writes, shapes (all)
#   ATTACK_SHAPES=s   comma-separated list of kinds of statements, see ShapeRandom.pm
#
#   ATTACK_SKIP=s     leave out the statements of scripts that match this pattern
#   ATTACK_LENGTH=n   statements in one script (60)
#   ATTACK_TRIES=n    attempts to make a script that differs smaller (30)
#   ATTACK_SHOW=1     print every statement of a script
#
# SQLSTATE, command tag, rows and the contents of all tables must agree. The test makes a differing
# case smaller and prints it. Internal errors (XX...), broken connections, and crashes in a server's
# log are failures, too. The test counts, by message, the statements that sharded tables refuse
# (0A000).

use strict;
use warnings;

use DmlRandom;
use PairedRun;
use PairedScript;
use PlannerModes;
use PostgreSQL::Test::Utils;
use ShapeRandom;
use ShardCluster;
use SqlRandom;
use Test::More;
use Time::HiRes qw(time);

my $seed    = $ENV{ATTACK_SEED} || $ENV{GRID_HALF} || 1;
my $seconds = $ENV{ATTACK_SECONDS} || 0;
my @kinds   = split /,/, $ENV{ATTACK_KINDS} || 'queries,writes,shapes';
my @shapes  = $ENV{ATTACK_SHAPES} ? split /,/, $ENV{ATTACK_SHAPES} : @ShapeRandom::features;
my $started = time;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\nmax_parallel_workers = 4\n",
	node_conf        => "log_min_messages = fatal\n");
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
my $modes = PlannerModes->new($c->coordinator);
my (%made, %scripts);

for my $server ($c->coordinator, $c->nodes)
{
	$server->safe_psql('postgres', 'CREATE ROLE dml_user LOGIN; GRANT USAGE ON SCHEMA public TO dml_user');
}
$c->safe_psql("CREATE USER MAPPING FOR dml_user SERVER node$_ OPTIONS (user 'dml_user', password_required 'false')") for 1, 2;

# ---- queries -------------------------------------------------------------------------------------

# These tables stay. Each script has separate tables, in schemas of the same names.
my $queries = PairedRun->new($c, '15s');
my $nqueries = 0;

sub run_queries
{
	my ($from, $until) = @_;
	my $ok = 1;

	if (!$made{queries})
	{
		# a script may end within a transaction, whose locks are in the way
		$_->end_sessions for values %scripts;
		$c->safe_psql("DROP SCHEMA IF EXISTS $_ CASCADE") for qw(p s);
		$_->safe_psql('postgres', 'DROP SCHEMA IF EXISTS s CASCADE') for $c->nodes;
		$queries->fill_schema($_, 1) for qw(p s);
		$made{queries} = 1;
	}
	for my $n ($from .. $from + 99)
	{
		last if $until && time > $until;
		srand $n;
		my $case = random_case($n, [], joins => rand() < 0.5);
		my @names = $modes->choose;
		my %in = map { $_ => 1 } @names;
		my %why;

		$case->{settings} = [ $modes->settings(@names) ];
		$case->{executions} = $in{prepared} ? 7 : 1 if !$case->{params} && ($in{generic} || $in{custom} || $in{prepared});
		$case->{cursor} = 1 + int rand 7 if $in{cursor};
		$nqueries++;
		next if $queries->agree($case, \%why);
		$queries->report($case, \%why);
		$ok = 0;
	}
	return $ok;
}

# ---- scripts -------------------------------------------------------------------------------------

sub refused
{
	my ($script, $statement, $result) = @_;
	my $error = $result->{error};
	return undef if $error->{C} ne '0A000' && !($script->isa('DmlRandom') && $error->{C} =~ /^(?:42P16|25001|42809|42703)$/);
	return "$error->{C} $error->{M}" =~ s/"[^"]*(?:""[^"]*)*"|\d+/?/gr;
}

# Is the error a duplicate key that exists only while rows of a plain table change one after the
# other (docs/limits_sql.md)?
sub takes_key_in_between
{
	my ($script, $statement, $plain_code, $code) = @_;
	return $plain_code eq '23505' && !$code && $statement->{sql} =~ /UPDATE/;
}

%scripts = map { my $class = $_; $class => PairedScript->new($c,
	make => sub { return $class->new(@_) }, settings => sub { return { common => [], sharded => [ $modes->settings($modes->choose) ] } },
	refused => \&refused, tolerated => \&takes_key_in_between, length => $ENV{ATTACK_LENGTH} || 60, tries => $ENV{ATTACK_TRIES} // 30, show => $ENV{ATTACK_SHOW}, skip => $ENV{ATTACK_SKIP},
	on_node => 'GRANT USAGE ON SCHEMA s TO dml_user', on_schema => 'DO $$ BEGIN EXECUTE format($f$GRANT USAGE ON SCHEMA %I TO dml_user$f$, current_schema); END $$') } qw(DmlRandom ShapeRandom);

sub run_script
{
	my ($class, $n, %options) = @_;
	my ($other) = grep { $_ ne $class } keys %scripts;

	$scripts{$other}->end_sessions;
	(delete $queries->{client}{$_})->close for keys %{ $queries->{client} };
	delete $made{queries};
	return $scripts{$class}->run_script(seed => $n, major => $major, %options);
}

# ---- all -----------------------------------------------------------------------------------------

my ($collation) = grep { ($c->psql("CREATE COLLATION public.other ($_)"))[0] == 0 }
  ("provider = icu, locale = 'de'", "locale = 'en_US.utf8'", "locale = 'C.utf8'", "locale = 'POSIX'");
$_->safe_psql('postgres', "CREATE COLLATION public.other ($collation)") for $c->nodes;

my %run = (
	queries => sub { return run_queries($_[0] * 100, $seconds ? time + $seconds / 4 : undef) },
	writes  => sub { return run_script('DmlRandom', $_[0], levels => $_[0] % 3 == 0) },
	shapes  => sub { return run_script('ShapeRandom', $_[0], features => \@shapes) });
my @unknown = grep { !$run{$_} } @kinds;
die "there is no \"@unknown\"; there are: @{[ join ', ', sort keys %run ]}" if @unknown;

note "seed $seed, PostgreSQL $major";
my $n = $seed;
my %done;
my $nseeds = ShardCluster::halved() ? 1 : 2;
my $is_over = sub { return $seconds ? time - $started >= $seconds : $n >= $seed + $nseeds };
until ($is_over->())
{
	for my $kind (@kinds)
	{
		last if $seconds && $done{$kind} && $is_over->();
		ok($run{$kind}->($n), "$kind of seed $n");
		$done{$kind}++;
	}
	$n++;
}

my @left = map { $_->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts') } $c->nodes;
is("@left", ' ', 'no prepared transaction is left');
for my $server ($c->coordinator, $c->nodes)
{
	my @crashes = grep { /was terminated by signal|TRAP:|PANIC:/ } split /\n/, slurp_file($server->logfile);
	is(join("\n", @crashes), '', $server->name . ' has not crashed');
}
note "$nqueries queries";
for my $class (sort keys %scripts)
{
	my $script = $scripts{$class};
	note sprintf '%s: %d statements, %d differ, %d succeed in both, %d took too long, %d with another error of the same statement', $class, @{ $script->{count} }{qw(statements differ succeed timeouts order)};
	note "$class: $script->{refusals}{$_} times refused: $_" for sort keys %{ $script->{refusals} };
	note "$class: $script->{errors}{$_} times in both: $_" for sort { $script->{errors}{$b} <=> $script->{errors}{$a} } keys %{ $script->{errors} };
	note "$class: commands: " . join ', ', map { "$_ $script->{tags}{$_}" } sort keys %{ $script->{tags} };
}
done_testing();
