# A coordinator has replaced tables or their rows, and its transaction is left prepared: the
# coordinator crashed, or could not reach a node. The other coordinator commits before that node
# does. Its sessions then wait for the locks of the transaction on the node. They must return all
# rows, or fail (40001): a snapshot that is older than the wait does not show the new rows.

use strict;
use warnings;

use ShardCluster;
use ShardPeers;
use Test::More;
use Time::HiRes qw(usleep);
use WireClient;

my $p = ShardPeers->new(conf => "shardfdw.recovery_interval = 0\n");
my ($c, $other) = $p->all;
plan skip_all => 'needs a build with FAULT_POINTS=1'
  unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
$p->add_all;
my $recover = 'SELECT count(*) FROM shardfdw.recover_prepared_transactions()';
my $prepared = 'SELECT count(*) FROM pg_prepared_xacts';

# The last two need not wait: their table may have been emptied by DELETE.
my @statements = (
	'SELECT count(*) FROM k1',
	'SELECT count(*) FROM k1 JOIN k0 USING (id)',
	'COPY k1 TO STDOUT',
	'WITH u AS (UPDATE k1 SET v = v RETURNING 1) SELECT count(*) FROM u',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM k1',
	'BEGIN; INSERT INTO k0 VALUES (1000, 0); SELECT count(*) FROM k1',
	'SELECT count(*) FROM k0 JOIN r ON r.id = k0.v',
	'SELECT count(*) FROM r');
my %change = (
	'emptied and filled' => 'CREATE TEMP TABLE kept AS TABLE k1;
		TRUNCATE k1; INSERT INTO k1 TABLE kept; TRUNCATE r; INSERT INTO r TABLE kept',
	'written anew' => 'ALTER TABLE k1 ALTER v TYPE bigint; ALTER TABLE r ALTER v TYPE bigint');

sub make_tables
{
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS k0, k1, r;
		CREATE TABLE k0 (id int PRIMARY KEY, v int); CREATE TABLE k1 (id int PRIMARY KEY, v int);
		CREATE TABLE r (id int PRIMARY KEY, v int);
		SELECT shardfdw.create_reference_table('r');
		SELECT shardfdw.shard_table('k0', shards => 4);
		SELECT shardfdw.shard_table('k1', shards => 8);
		INSERT INTO k0 SELECT i, i FROM generate_series(1, 100) i; INSERT INTO k1 TABLE k0;
		INSERT INTO r TABLE k0});
	# until then, statements check what they read
	$_->safe_psql($recover) for $c, $other;
	return;
}

# Sessions of the other coordinator that have all their connections to the nodes
sub sessions
{
	my @sessions = map { WireClient->new($other->coordinator, 'postgres') } @statements;
	for (@sessions)
	{
		$_->query('SET shardfdw.max_connections_per_node = 1');
		$_->query('SELECT count(*) FROM k0');
	}
	return @sessions;
}

sub allow_node1
{
	my ($allowed) = @_;
	$c->node(1)->safe_psql('template1', "ALTER DATABASE postgres ALLOW_CONNECTIONS $allowed");
	return;
}

# Waits until six sessions of the other coordinator wait for locks there, or on node 1.
sub wait_for_six
{
	my $waits = 'SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = $$Lock$$';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $other->safe_psql($waits) + $c->node(1)->safe_psql('template1', $waits) >= 6;
		usleep(100_000);
	}
	die 'they do not wait';
}

# Node 1 still has the transaction, and cannot be reached by the coordinator.
sub check_left
{
	my ($what, @sessions) = @_;
	$sessions[$_]->start_query($statements[$_]) for 0 .. $#statements;
	wait_for_six();
	my $out = $c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()');
	like($out, qr/^node1\|unreachable: /m, "$what: a node that is not reached");
	is($c->node(1)->safe_psql('template1', $prepared), 1, "$what: prepared on node 1");
	is($c->node(2)->safe_psql('template1', $prepared), 0, "$what: node 2 has committed");
	is($other->safe_psql($prepared), 0, "$what: the other coordinator has committed");
	# recovery of the other coordinator must not take this for the end
	$other->safe_psql($recover);
	wait_for_six();
	my @results = map { $_->finish_query(0.01) } @sessions;
	ok(!$results[$_], "$what: waits: $statements[$_]") for 0 .. 5;
	allow_node1('true');
	$c->safe_psql($recover);
	like(WireClient::shown($results[$_] // $sessions[$_]->finish_query),
		qr/^(?:100|40001)$/, "$what: $statements[$_]")
	  for 0 .. $#statements;
	$_->close for @sessions;
	is($_->safe_psql($prepared), 0, "$what: nothing is prepared") for $other, $c;
	$p->same('SELECT count(*) FROM k1 JOIN r USING (id)', 100, "$what: all rows are there");
	$p->all_alike($what, rows => 1);
	return;
}

for my $what (sort keys %change)
{
	make_tables();
	my @sessions = sessions();
	# one phase would show the change on the other coordinator before a node has it
	(undef) = $c->psql("SET client_min_messages = error; SET shardfdw.fault_points = 'commit=abort';
		SET shardfdw.commit_protocol = '1pc';
		BEGIN; $change{$what}; COMMIT");
	ok($c->wait_for_restart, "$what: the coordinator has crashed");
	allow_node1('false');
	check_left("$what, crash", @sessions);

	# the coordinator lives, and its connection to node 1 is lost before COMMIT PREPARED
	make_tables();
	@sessions = sessions();
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_commit';
	PostgreSQL::Test::Utils::append_to_file($file, '');
	my $writer = $c->start_sql("SET shardfdw.fault_points = 'commit=wait';
		BEGIN; $change{$what}; COMMIT", name => 'writer');
	$c->wait_for("SELECT count(*) > 0 FROM pg_prepared_xacts", $_) for 1, 2;
	$other->wait_for("SELECT count(*) > 0 FROM pg_prepared_xacts");
	allow_node1('false');
	my $pids = $c->safe_psql(q{SELECT string_agg(pid::text, '|') FROM pg_stat_activity});
	$c->node(1)->safe_psql('template1', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name ~ '^shardfdw.*:($pids)\$'");
	unlink $file;
	my $err = ($c->wait_sql($writer))[2];
	like($err, qr/WARNING: .*is committed, but node "node1" has not confirmed it/, "$what: the client is told");
	check_left("$what, not reached", @sessions);
}

# Nothing fails. TRUNCATE also locks reference tables on other coordinators.
make_tables();
$c->safe_psql(q{CREATE TABLE kr (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('kr', shards => 4);
	ALTER TABLE kr ADD FOREIGN KEY (v) REFERENCES r; INSERT INTO kr TABLE k0});
my $writer = WireClient->new($c->coordinator, 'postgres');
is($writer->query('TRUNCATE r CASCADE')->{error}{C}, '0A000', 'what else is emptied must be named');
is($writer->query('BEGIN; TRUNCATE r, kr')->{error}, undef, 'r and kr are emptied');
my @reads = ('SELECT count(*) FROM kr', 'SELECT count(*) FROM k0 JOIN r ON r.id = k0.v',
	'SELECT count(*) FROM r', 'COPY kr TO STDOUT', 'SELECT count(*) FROM kr JOIN r ON r.id = kr.v',
	'SELECT 100 - count(*) FROM k0 WHERE NOT EXISTS (SELECT FROM r WHERE r.id = k0.v)');
my @readers = map { WireClient->new($other->coordinator, 'postgres') } @reads;
$readers[$_]->start_query($reads[$_]) for 0 .. $#reads;
wait_for_six();
is($writer->query('INSERT INTO r TABLE k0; INSERT INTO kr TABLE k0; COMMIT')->{error}, undef, 'and filled');
is(WireClient::shown($readers[$_]->finish_query), 100, "a reader: $reads[$_]") for 0 .. $#reads;

done_testing();
