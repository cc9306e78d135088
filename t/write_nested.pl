# Tests what the parts of one statement see of the rows that the statement writes. Random statements
# (NestedRandom.pm) run on sharded tables and on plain ones. They have functions of every volatility
# in every place, and sub-selects.
#
#   NESTED_SEED=n      the seed (1)
#   NESTED_CASES=n     number of cases (450)
#   NESTED_DIAGS=n     how many differing cases are printed (10)
#   NESTED_SHOW=1      print every case
#
# After each statement both runs must have the same SQLSTATE, command tag and rows. After each case
# the tables must have the same contents. A sharded table may refuse a statement as docs/limits_rare.md
# says; the number of refusals is limited.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use NestedRandom;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $seed   = $ENV{NESTED_SEED} || 1;
my $ncases = $ENV{NESTED_CASES} || 450;
my $per_setup = 150;    # cases until tables and functions are made again, with other defaults and triggers
my $max_diags = $ENV{NESTED_DIAGS} || 10;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\n",
	node_conf        => "log_min_messages = fatal\n");
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
my %client;

sub run
{
	my ($schema, $sql) = @_;
	$client{$schema} //= WireClient->new($c->coordinator, 'postgres', options => "-c search_path=$schema,public -c statement_timeout=30s -c client_min_messages=error -c check_function_bodies=off");
	my $result = eval { $client{$schema}->query($sql) };

	return $result if $result;
	my $message = $@;
	delete $client{$schema};
	return { error => { C => 'connection', M => $message } };
}

sub must
{
	my ($schema, $sql) = @_;
	my $result = run($schema, $sql);
	die "$result->{error}{C} $result->{error}{M}: " . substr($sql, 0, 1000) if $result->{error};
	return $result;
}

sub reset_tables
{
	for my $schema (qw(s p))
	{
		must($schema, $_) for NestedRandom->reset;
	}
	return;
}

sub begin_setup
{
	my ($maker) = @_;
	for my $schema (qw(p s))
	{
		must($schema, "DROP SCHEMA IF EXISTS $schema CASCADE");
		must($schema, "CREATE SCHEMA $schema");
	}
	$_->safe_psql('postgres', 'DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s') for $c->nodes;
	srand $maker->{seed};
	my $state = int rand 1 << 30;
	for my $schema (qw(p s))
	{
		srand $state;
		must($schema, $maker->setup($schema eq 's'));
	}
	reset_tables();
	return;
}

# The compared part of rows.
sub shown
{
	my ($how, $rows) = @_;
	my @text = map { [ map { $_ // 'NULL' } @$_ ] } @$rows;
	return scalar @text if $how eq 'count';
	return join "\n", sort map { join ' ', @$_ } @text if $how eq 'rows';
	my $width = @text ? @{ $text[0] } : 0;
	return join "\n", map { my $i = $_; join ' ', sort map { $_->[$i] } @text } 0 .. $width - 1;
}

sub outcome
{
	my ($how, $result) = @_;
	return "error $result->{error}{C}" if $result->{error};
	my $tag = join ',', @{ $result->{tags} };
	$tag =~ s/\d+//g if $how eq 'count';
	return "$tag\n" . ($how eq 'count' ? '' : shown($how, $result->{rows}));
}

# The limits in docs/limits_rare.md. The first one does not apply if the transaction has written nothing
# before, is at READ COMMITTED, and has no cursor.
my @limits = (
	qr/^cannot read table "\w+" as it was when the statement began$/,
	qr/^a function cannot use table "\w+" now$/,
	qr/^cannot run this (?:MERGE|statement) on sharded table/);
my (%refused, %ran, $nrefused, $ndiffer);

sub is_limit
{
	my ($case, $error) = @_;
	return $error->{C} eq '0A000' && grep { $error->{M} =~ $_ } @limits[ ($case->{fresh} ? 1 : 0) .. $#limits ];
}

sub compare_contents
{
	my ($how) = @_;
	my ($plain, $sharded) = map { run($_, NestedRandom::contents())->{rows} } qw(p s);
	for my $table (@NestedRandom::tables)
	{
		my ($one, $two) = map { shown($how, [ grep { $_->[0] eq $table } @$_ ]) } $plain, $sharded;
		return ("contents of $table", $one, $two) if $one ne $two;
	}
	return;
}

# Runs a case on both tables. Returns a list of differences.
sub compare
{
	my ($case) = @_;
	my $how = $case->{compare};

	for my $sql (@{ $case->{sql} })
	{
		if ($sql eq 'CONTENTS')
		{
			my @differs = compare_contents($how);
			return @differs if @differs;
			next;
		}
		my ($sharded, $plain) = (run('s', $sql), run('p', $sql));
		# it may be refused before the error of the plain table occurs
		if ($sharded->{error} && is_limit($case, $sharded->{error}) && ($plain->{error}{C} // '') ne '0A000')
		{
			$refused{"$case->{kind}: $sharded->{error}{M}" =~ s/"[^"]*"/?/gr}++;
			$nrefused++;
			note "refused: $sharded->{error}{M}" if $ENV{NESTED_SHOW};
			run($_, 'ROLLBACK') for qw(s p);
			return;
		}
		# the order of rows decides whether adds_y_v() changes a row before the UPDATE comes to it
		return if $sql =~ /\bUPDATE y AS q SET .*adds_y_v/
			&& grep { ($_->{error}{C} // '') eq '27000' } $plain, $sharded;
		my ($one, $two) = (outcome($how, $plain), outcome($how, $sharded));
		return ($sql, $one, $two, ($sharded->{error} // $plain->{error} // {})->{M}) if $one ne $two;
	}
	return compare_contents($how);
}

my $started = time;
my $maker;
for my $i (0 .. $ncases - 1)
{
	if ($i % $per_setup == 0)
	{
		$maker = NestedRandom->new(seed => $seed + $i / $per_setup, major => $major);
		begin_setup($maker);
		srand $maker->{seed};
	}
	my $case = $maker->next;
	next unless ShardCluster::in_half($i);
	note join '; ', @{ $case->{sql} } if $ENV{NESTED_SHOW};
	my @differs = compare($case);
	$ran{ $case->{kind} }++;
	run($_, 'ROLLBACK') for qw(s p);
	if (@differs)
	{
		$ndiffer++;
		if ($max_diags-- > 0)
		{
			diag "seed $maker->{seed}, case $i, $case->{compare}: " . join ";\n    ", @{ $case->{sql} };
			diag "  at: $differs[0]" . ($differs[3] ? "  message: $differs[3]" : '');
			diag "  plain:\n$differs[1]\n  sharded:\n$differs[2]";
		}
	}
	if (@differs || $case->{sql}[-1] ne 'ROLLBACK')
	{
		reset_tables();
	}
}
is($ndiffer // 0, 0, 'statements on sharded tables have the outcome that they have on plain ones');
$ncases /= 2 if ShardCluster::halved();
cmp_ok($nrefused // 0, '<', $ncases / 4, 'less than a quarter of them was refused') if $ncases >= 100;
note sprintf '%d cases, %d refused, %.1f s', $ncases, $nrefused // 0, time - $started;
note "$ran{$_} $_" for sort keys %ran;
note "$refused{$_} times refused: $_" for sort { $refused{$b} <=> $refused{$a} } keys %refused;
done_testing();
