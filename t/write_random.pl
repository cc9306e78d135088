# Runs random scripts of DML and DDL on sharded tables and the same scripts on plain ones. After
# each statement the SQLSTATE, command tag, rows and contents of all tables must be the same.
# DmlRandom.pm makes the scripts.
#
#   DML_SEED=n        the seed of the first script; each next script adds 1
#   DML_STATEMENTS=n  number of statements
#   DML_SECONDS=n     start no script after n seconds
#   DML_LENGTH=n      statements in one script (90)
#
#   DML_LEVELS=n      every n-th script has tables of two levels (3); 0: none
#   DML_FEATURES=s    comma-separated list of kinds of statements, see DmlRandom.pm
#
#   DML_SWITCHES=s    "name = value; ..." for every sharded run, instead of random settings
#   DML_MODES=1       random planner modes (PlannerModes.pm), instead of random settings
#
#   DML_ERRORS=1      print statements that fail in both runs
#   DML_SHOW=1        print every statement
#   DML_MINIMISE=n    attempts to make a script that differs shorter (30)
#
# Both runs use the same names, in the schemas p and s, and one session for each script. In the
# sharded run, switches of core's planner and of shardfdw are on or off at random. An internal
# error, or a connection that breaks, is a failure in any case.

use strict;
use warnings;

use DmlRandom;
use PairedScript;
use PlannerModes;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time);

my $default     = !$ENV{DML_STATEMENTS};
my $seed        = $ENV{DML_SEED} || 1;
my $nstatements = $ENV{DML_STATEMENTS} || (ShardCluster::halved() ? 405 : 810);
my $seconds     = $ENV{DML_SECONDS} || 0;
my $length      = $ENV{DML_LENGTH} || 90;
my $levels      = $ENV{DML_LEVELS} // 3;
my $tries       = $ENV{DML_MINIMISE} // 30;
my @features    = $ENV{DML_FEATURES} ? split /,/, $ENV{DML_FEATURES} : @DmlRandom::features;

# Statements that sharded tables refuse or answer in another way, see docs/limits*.md. Each entry has
# a pattern of the statement, the SQLSTATE of the sharded table, and the reason. A fourth value
# limits the entry. "role": only a user with row security. "triggers": only tables with triggers.
# "repeatable": only at REPEATABLE READ. "levels": only tables of two levels. The plain run then
# gets an error in place of the statement.
my @refused = (
	[ qr/^MERGE INTO [ab] AS q USING .* ON q.k = s.k (?!AND q.i = s.i)/, qr/0A000/, 'MERGE whose ON has no equality with both keys', 'levels' ],
	[ qr/^MERGE INTO .* SET .*\bSELECT/s, qr/0A000/, 'MERGE with a sub-select in SET' ],
	[ qr/^MERGE INTO .* (?:ON|WHEN) .*(?:\bto_char|COLLATE other)/s, qr/0A000/, 'MERGE with what depends on the locale' ],
	[ qr/^MERGE INTO x /, qr/0A000/, 'MERGE with row security', 'role' ],
	[ qr/^MERGE INTO [exg] /, qr/0A000/, 'MERGE whose ON has no equality with the shard key' ],
	[ qr/^ALTER TABLE .* (ALTER|DROP) COLUMN id\b/, qr/42P16/, 'the shard key dropped, or of another type' ],
	[ qr/^ALTER TABLE .* ADD COLUMN .* IDENTITY/, qr/42P16/, 'an identity column added to a partitioned table' ],
	[ qr/^ALTER TABLE .* ADD COLUMN (\S+|".*") int .* ALTER COLUMN \1 SET NOT NULL/, qr/42703/, 'SET NOT NULL of a column that the same ALTER TABLE adds to a partitioned table' ],
	[ qr/^(?:WITH .*)?MERGE INTO (\S+) .*WHEN /s, qr/0A000/, 'MERGE on a table with triggers', 'triggers' ],
	[ qr/^(?:WITH .*)?UPDATE (\S+) .*SET/s, qr/0A000/, 'the shard key changed where triggers would have to be fired', 'triggers' ],
	[ qr/^(?:EXECUTE)/s, qr/0A000/, 'a prepared statement of that kind', 'any triggers' ],
	[ qr/^ALTER TABLE (\S+) ADD COLUMN .*(?:serial|IDENTITY)/, qr/0A000/, 'a column filled row by row where triggers would fire', 'triggers' ],
	[ qr/^ALTER TABLE (\S+) ADD COLUMN .*(?:serial|IDENTITY)/, qr/0A000/, 'a column filled row by row at REPEATABLE READ', 'repeatable' ],
	[ qr/^CREATE TRIGGER .* REFERENCING|^CREATE CONSTRAINT TRIGGER/, qr/0A000|42809/, 'triggers with transition tables, constraint triggers' ],
	[ qr/^REINDEX/, qr/25001/, 'REINDEX of a partitioned table inside a transaction' ],
	[ qr/UNIQUE|PRIMARY KEY/, qr/0A000/, 'a unique key without the shard key' ],
);
my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\n",
	node_conf        => "log_min_messages = fatal\n");
my $started = time;
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);

# ---- settings of both runs -----------------------------------------------------------------------

my ($collation) = grep { ($c->psql("CREATE COLLATION public.other ($_)"))[0] == 0 }
  ("provider = icu, locale = 'de'", "locale = 'en_US.utf8'", "locale = 'C.utf8'", "locale = 'POSIX'");
for my $server ($c->coordinator, $c->nodes)
{
	$server->safe_psql('postgres', 'CREATE ROLE dml_user LOGIN; GRANT USAGE ON SCHEMA public TO dml_user');
	$server->safe_psql('postgres', "CREATE COLLATION public.other ($collation)") if $server != $c->coordinator;
}
$c->safe_psql("CREATE USER MAPPING FOR dml_user SERVER node$_ OPTIONS (user 'dml_user', password_required 'false')") for 1, 2;
my @switches = split /\n/, $c->safe_psql("LOAD 'shardfdw'; SELECT name FROM pg_settings WHERE name LIKE 'shardfdw.enable%' AND name <> 'shardfdw.enable_ddl_propagation' AND vartype = 'bool' ORDER BY 1");
my @core_switches = map { "enable_$_" } qw(hashjoin mergejoin nestloop hashagg sort material memoize async_append partitionwise_join);

my $modes = $ENV{DML_MODES} ? PlannerModes->new($c->coordinator) : undef;

sub random_settings
{
	my %on;
	return { common => [], sharded => [ split /; */, $ENV{DML_SWITCHES} ] } if defined $ENV{DML_SWITCHES};
	return { common => [], sharded => [ $modes->settings($modes->choose) ] } if $modes;
	if (rand() < 0.6)
	{
		$on{ $core_switches[ rand @core_switches ] } = 'off' for 1 .. int rand 3;
		$on{ $switches[ rand @switches ] } = 'off' for 1 .. int rand 3;
		$on{'shardfdw.max_connections_per_node'} = 1 if rand() < 0.15;
	}
	return {
		common  => [ 'plan_cache_mode = ' . (qw(auto auto force_generic_plan force_custom_plan))[ rand 4 ] ],
		sharded => [ map { "$_ = $on{$_}" } sort keys %on ] };
}

sub refused
{
	my ($script, $statement, $result) = @_;
	for my $refused (@refused)
	{
		next unless $statement->{sql} =~ $refused->[0];
		my $table = $1;
		my $if = $refused->[3] // '';
		next unless $result->{error}{C} =~ $refused->[1];
		next if $if eq 'role' && !$script->role || $if eq 'repeatable' && !$script->repeatable || $if eq 'levels' && !$script->levels || $if eq 'triggers' && !$script->triggered($table) || $if eq 'any triggers' && !%{ $script->{triggers} };
		return $refused->[2];
	}
	return undef;
}

# A key that exists only while rows of a plain table change one after the other (docs/limits_sql.md).
sub takes_key_in_between
{
	my ($script, $statement, $plain_code, $code) = @_;
	my $keys = $script->levels ? 'k|i|z' : 'k';
	return $plain_code eq '23505' && !$code && $statement->{sql} =~ /\bUPDATE \w+ (?:AS q )?SET (?:(?! WHERE | FROM ).)*\b(?:$keys) = (?:(?! WHERE | FROM |, \w+ = ).)*\b(?:$keys)\b/;
}

my $pair = PairedScript->new($c,
	make => sub { return DmlRandom->new(@_) }, settings => \&random_settings, refused => \&refused, tolerated => \&takes_key_in_between,
	length => $length, tries => $tries, show => $ENV{DML_SHOW},
	on_node => 'GRANT USAGE ON SCHEMA s TO dml_user', on_schema => 'DO $$ BEGIN EXECUTE format($f$GRANT USAGE ON SCHEMA %I TO dml_user$f$, current_schema); END $$');

# ---- all -----------------------------------------------------------------------------------------

my $count = $pair->{count};
my $nscripts = 0;
while ($count->{statements} < $nstatements)
{
	last if $seconds && time - $started > $seconds;
	my $n = $seed + $nscripts++;
	next if $default && !ShardCluster::in_half($n + int($n / 3));    # one in three has two levels
	ok($pair->run_script(seed => $n, major => $major, features => \@features, levels => $levels && $n % $levels == 0), "script of seed $n");
	if ($nscripts % 10 == 0)
	{
		my @left = map { $_->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts') } $c->nodes;
		is("@left", ' ', 'no prepared transaction is left');
	}
}
note sprintf '%d scripts, %d statements, %d differ, %d succeed in both, %d took too long, %d with another error of the same statement, %.1f s', $nscripts,
  @$count{qw(statements differ succeed timeouts order)}, time - $started;
note "$count->{definitions} times definitions compared";
note "$pair->{refusals}{$_} times refused: $_" for sort keys %{ $pair->{refusals} };
note 'commands: ' . join ', ', map { "$_ $pair->{tags}{$_}" } sort keys %{ $pair->{tags} };
note "$pair->{errors}{$_} times in both: $_" for sort { $pair->{errors}{$b} <=> $pair->{errors}{$a} } keys %{ $pair->{errors} };
if ($default)
{
	my $part = ShardCluster::halved() ? 2 : 1;
	my $equal = $count->{statements} - $count->{differ};
	cmp_ok($equal, '>=', 600 / $part, 'most statements ended the same in both');
	cmp_ok($count->{succeed}, '>=', 400 / $part, 'most of them without an error');
}
done_testing();
