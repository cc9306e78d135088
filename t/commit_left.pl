# Transactions that have replaced tables or their rows are left prepared on the nodes: the
# coordinator crashed, or could not reach the nodes. Readers wait for the locks of these
# transactions. When recovery has committed them, the readers must return all rows, or fail (40001):
# a snapshot that is older than the wait does not show the new rows.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);
use WireClient;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\n");
plan skip_all => 'needs a build with FAULT_POINTS=1'
  unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $recover = 'SELECT count(*) FROM shardfdw.recover_prepared_transactions()';

# A role that may write, and not read
$c->safe_psql(q{SET client_min_messages = error; CREATE ROLE clerk LOGIN;
	SELECT shardfdw.add_user('clerk')});
$c->safe_psql("ALTER USER MAPPING FOR clerk SERVER node$_ OPTIONS (ADD password_required 'false')")
  for 1, 2;

my @statements = (
	'SELECT count(*) FROM k1',
	'SELECT count(*) FROM k1 JOIN k0 USING (id)',
	'SELECT count(*) FROM k1 a JOIN k1 b ON a.v = b.id',
	'SELECT count(*) FROM (SELECT id FROM k1 ORDER BY v) x',
	'COPY k1 TO STDOUT',
	'COPY (SELECT id FROM k1) TO STDOUT',
	'WITH u AS (UPDATE k1 SET v = v RETURNING 1) SELECT count(*) FROM u',
	'WITH u AS (UPDATE k0 SET v = k0.v FROM k1 WHERE k1.id = k0.v RETURNING 1) SELECT count(*) FROM u',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM k1',
	'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM k1',
	'BEGIN; INSERT INTO k0 VALUES (1000, 0); SELECT count(*) FROM k1',
	'SELECT count(*) FROM k0 JOIN r ON r.id = k0.v',
	'SELECT 100 - count(*) FROM k0 WHERE NOT EXISTS (SELECT FROM r WHERE r.id = k0.v)',
	map { "BEGIN ISOLATION LEVEL REPEATABLE READ; $_; ROLLBACK" }
	  'WITH d AS (DELETE FROM k1 RETURNING 1) SELECT count(*) FROM d',
	'SELECT count(*) FROM (SELECT * FROM k1 FOR SHARE) x',
	'SELECT 99 + count(*) FROM (SELECT * FROM k1 WHERE id = 7 FOR SHARE) x',
	'DO $$ DECLARE n int; BEGIN DELETE FROM k1; GET DIAGNOSTICS n = ROW_COUNT; ASSERT n = 100; END $$;
		SELECT 100',
	'DO $$ DECLARE n int; BEGIN INSERT INTO k2 SELECT * FROM k1; GET DIAGNOSTICS n = ROW_COUNT;
		ASSERT n = 100; END $$; SELECT 100',
	'SET LOCAL ROLE clerk; DO $$ DECLARE n int; BEGIN DELETE FROM k1; GET DIAGNOSTICS n = ROW_COUNT;
		ASSERT n = 100; END $$; SELECT 100');
# A snapshot of all nodes does not wait. It commits what is left.
my $cluster = q{BEGIN; SET LOCAL shardfdw.snapshot = 'cluster'; SELECT count(*) FROM k1};

my $again = q{SELECT shardfdw.unshard_table('k1'); SELECT shardfdw.shard_table('k1', shards => 4)};
my %change = (
	'made plain and sharded again' => $again,
	'emptied and filled' => 'CREATE TEMP TABLE kept AS TABLE k1;
		TRUNCATE k1; INSERT INTO k1 TABLE kept; TRUNCATE r; INSERT INTO r TABLE kept',
	'written anew' => 'ALTER TABLE k1 ALTER v TYPE bigint; ALTER TABLE r ALTER v TYPE bigint',
	'dropped and created' => q{DROP TABLE k1; CREATE TABLE k1 (id int PRIMARY KEY, v int);
		INSERT INTO k1 SELECT i, i FROM generate_series(1, 100) i;
		SELECT shardfdw.shard_table('k1', shards => 4); GRANT DELETE ON k1 TO clerk});

sub make_tables
{
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS k0, k1, k2, r;
		CREATE TABLE k0 (id int PRIMARY KEY, v int); CREATE TABLE k1 (id int PRIMARY KEY, v int);
		CREATE TABLE r (id int PRIMARY KEY, v int); CREATE TABLE k2 (id int PRIMARY KEY, v int);
		INSERT INTO k0 SELECT i, i FROM generate_series(1, 100) i; INSERT INTO k1 TABLE k0;
		INSERT INTO r TABLE k0; SELECT shardfdw.create_reference_table('r');
		SELECT shardfdw.shard_table('k0', shards => 4);
		SELECT shardfdw.shard_table('k1', shards => 8);
		SELECT shardfdw.shard_table('k2', colocate_with => 'k1');
		GRANT INSERT, DELETE ON k0, k1 TO clerk});
	return;
}

# Waits until the session of process pid waits for a lock of a node.
sub wait_for_lock
{
	my ($pid, $statement) = @_;
	my $waits = "SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name LIKE 'shardfdw:%:$pid' AND wait_event_type = 'Lock'";
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if grep { $c->ask($waits, $_) eq 't' } 1, 2;
		usleep(100_000);
	}
	die "it does not wait: $statement";
}

# Starts the statements in sessions, the first of which are given. Then statement $commit commits
# what they wait for.
sub read_while_left
{
	my ($what, $commit, @sessions) = @_;
	my $prepared = $c->node_safe_psql(1, 'SELECT count(*) FROM pg_prepared_xacts');
	cmp_ok($prepared, '>', 0, "$what: a transaction is prepared");
	push @sessions, WireClient->new($c->coordinator, 'postgres') while @sessions < @statements;
	my @pids = map { WireClient::shown($_->query('SELECT pg_backend_pid()')) } @sessions;
	$sessions[$_]->start_query($statements[$_]) for 0 .. $#statements;
	# a change that leaves the reference table alone does not stop its readers
	wait_for_lock($pids[$_], $statements[$_])
	  for grep { $what =~ /filled|anew/ || $statements[$_] !~ /\br\b/ } 0 .. $#pids;
	$c->safe_psql($commit);
	like(WireClient::shown($sessions[$_]->finish_query), qr/^(?:100|40001)$/, "$what: $statements[$_]")
	  for 0 .. $#statements;
	$_->close for @sessions;
	$prepared = $c->node_safe_psql(1, 'SELECT count(*) FROM pg_prepared_xacts');
	is($prepared, 0, 'nothing is prepared any more');
	is($c->safe_psql('SELECT count(*) FROM k1 JOIN k0 USING (id)'), 100, 'all rows are there');
	return;
}

for my $case (map { [ $_, $recover ], [ $_, $cluster ] } sort keys %change)
{
	my ($what, $commit) = @$case;
	make_tables();
	$c->safe_psql($recover);
	(undef) = $c->psql("SET client_min_messages = error; SET shardfdw.fault_points = 'commit=abort';
		BEGIN; $change{$what}; COMMIT");
	ok($c->wait_for_restart, "$what: the coordinator has crashed");
	# a cursor that is closed early leaves no locks
	my (undef, undef, $err) = $c->psql(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM k0; FETCH c; CLOSE c;
		ALTER TABLE k0 ADD x int; ROLLBACK;' x 5,
		on_error_stop => 1);
	is($err, '', "$what: another table is changed after a cursor");
	(undef, undef, $err) = $c->psql('SET ROLE clerk; BEGIN ISOLATION LEVEL REPEATABLE READ;
		INSERT INTO k0 VALUES (1000, 1); INSERT INTO k0 VALUES (1, 1) ON CONFLICT DO NOTHING;
		DELETE FROM k0; ROLLBACK', on_error_stop => 1);
	is($err, '', "$what: a role that may only write another table");
	read_while_left($what, $commit);
}

# The nodes cannot be reached for COMMIT PREPARED. Sessions that have begun before find that out.
for my $what (sort keys %change)
{
	make_tables();
	$c->safe_psql($recover);
	my @sessions = map { WireClient->new($c->coordinator, 'postgres') } 1 .. 6;
	$_->query('SELECT count(*) FROM k1 JOIN k0 USING (id)') for @sessions;
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_commit';
	PostgreSQL::Test::Utils::append_to_file($file, '');
	my $writer = $c->start_sql("SET client_min_messages = error;
		SET shardfdw.fault_points = 'commit=wait'; BEGIN; $change{$what}; COMMIT", name => 'writer');
	$c->wait_for('SELECT count(*) > 0 FROM pg_prepared_xacts', $_) for 1, 2;
	$_->safe_psql('template1', 'ALTER DATABASE postgres ALLOW_CONNECTIONS false;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $$shardfdw%$$')
	  for $c->node(1), $c->node(2);
	unlink $file;
	$c->wait_sql($writer);
	$_->safe_psql('template1', 'ALTER DATABASE postgres ALLOW_CONNECTIONS true')
	  for $c->node(1), $c->node(2);
	read_while_left("$what, nodes were not reached", $recover, @sessions);
}

done_testing();
