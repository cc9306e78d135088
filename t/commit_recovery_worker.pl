# The library is preloaded, and a crash leaves prepared transactions on nodes. The recovery worker
# must resolve them without a call: it commits what was committed and rolls back the rest. It must
# not touch prepared transactions of other programs.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 1\nshardfdw.commit_log_max_rows = 100\n");
my $prefix = $c->gid_prefix;
my $launcher = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'shardfdw recovery launcher'";
is($c->safe_psql($launcher), '1', 'there is a launcher');

# Prepares a transaction that adds a row to node $i's table, under the gid. Returns the row's id.
my $last_id = 0;
sub prepare_on
{
	my ($i, $gid, $role) = @_;
	$role //= 'postgres';
	my $id = 1000000 + ++$last_id;
	$c->node_safe_psql($i, "SET ROLE $role; BEGIN; INSERT INTO probe VALUES ($id); PREPARE TRANSACTION '$gid'");
	return $id;
}

sub wait_gone
{
	my ($i, $gid, $what) = @_;
	ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid = '$gid'", $i), $what);
	return;
}

$c->node_safe_psql($_, 'CREATE TABLE probe (id int); CREATE ROLE teller LOGIN; GRANT ALL ON probe TO teller') for 1 .. 2;

# A transaction without a row in the log has not committed.  Its xid belongs to the past.
my $xid = $c->safe_psql('SELECT pg_current_xact_id()');
my $lost = prepare_on(1, "$prefix$xid:65536");
wait_gone(1, "$prefix$xid:65536", 'what did not commit goes');
is($c->node_safe_psql(1, "SELECT count(*) FROM probe WHERE id = $lost"), '0', 'and is rolled back');

# The next transaction has a row, so it has committed. Recovery notes in the row that the
# transaction is resolved.
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
$c->safe_psql("INSERT INTO shardfdw_internal.commit_log VALUES ('$xid', 131072, '{node1,node2}', now())");
my @ids = map { prepare_on($_, "$prefix$xid:131073") } 1 .. 2;
wait_gone($_, "$prefix$xid:131073", "what committed goes on node $_") for 1 .. 2;
is($c->node_safe_psql($_, "SELECT count(*) FROM probe WHERE id = $ids[$_ - 1]"), '1', "and is committed on node $_") for 1 .. 2;
ok($c->wait_for("SELECT settled_at IS NOT NULL FROM shardfdw_internal.commit_log WHERE xid = '$xid'"), 'nothing is left to do in the log');

# The prepared transaction belongs to a user's role on the node. Recovery must need no other user's
# mapping.
$c->safe_psql(q{CREATE ROLE teller LOGIN; GRANT USAGE ON FOREIGN SERVER node1, node2 TO teller;
	CREATE USER MAPPING FOR teller SERVER node1 OPTIONS (user 'teller', password_required 'false')});
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
prepare_on(1, "$prefix$xid:196608", 'teller');
wait_gone(1, "$prefix$xid:196608", 'a role settles what it prepared');

# Recovery must leave alone the transactions of another server, another database and another program
# (R29).
my @foreign = ("shardfdw:1:2:3:4", $prefix =~ s/^(shardfdw:\d+:)\d+:/${1}1:/r . "$xid:65536", 'batch-7');
prepare_on(2, $_) for @foreign;

# While a transaction is running on the coordinator, its prepared transactions stay.
my $running = $c->coordinator->background_psql('postgres');
$xid = $running->query_safe('BEGIN; SELECT pg_current_xact_id()');
prepare_on(2, "$prefix$xid:262144");
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
prepare_on(1, "$prefix$xid:327680");
wait_gone(1, "$prefix$xid:327680", 'a later round has come by');
is($c->node_safe_psql(2, "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE '%:262144'"), '1', 'what a running transaction has prepared is left alone');
$running->query_safe('ROLLBACK');
$running->quit;
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE '%:262144'", 2), 'until it has ended');
is($c->node_safe_psql(2, 'SELECT count(*) FROM pg_prepared_xacts'), '3', 'those of others are left alone');

# A node that is down must delay no session. Its transaction is resolved when the node is back.
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
prepare_on(1, "$prefix$xid:393216");
prepare_on(2, "$prefix$xid:393217");
$c->stop_node(2, 'immediate');
wait_gone(1, "$prefix$xid:393216", 'with a node down the others are settled');
$c->start_node(2);
wait_gone(2, "$prefix$xid:393217", 'a node that is back is settled');

# A whole crash of the coordinator, and a database without the extension.
$c->safe_psql('CREATE DATABASE other');
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
$c->kill9_coordinator;
prepare_on(1, "$prefix$xid:458752");
$c->coordinator->start;
wait_gone(1, "$prefix$xid:458752", 'after a crash of the coordinator too');
is($c->safe_psql($launcher), '1', 'there is one launcher');
$c->safe_psql('DROP DATABASE other');

# Two coordinators of the same nodes, each with recovery. Each resolves only the transactions that
# it left itself when it was down (R29, R30).
my $second = ShardCluster->new(nodes => 0, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 1\n");
for my $i (1 .. 2)
{
	my ($host, $port) = $c->node_address($i);
	$second->safe_psql("SELECT shardfdw.add_node('node$i', '$host', $port, 'postgres')");
}
my $second_prefix = $second->gid_prefix;
isnt($second_prefix, $prefix, 'two coordinators have names of their own');
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
$c->coordinator->stop;
prepare_on(1, "$prefix$xid:589824");
prepare_on(2, "$prefix$xid:589825");
for my $round (1 .. 2)
{
	$xid = $second->safe_psql('SELECT pg_current_xact_id()');
	prepare_on(2, "$second_prefix$xid:655360");
	wait_gone(2, "$second_prefix$xid:655360", "the second coordinator settles its own, round $round");
}
is($c->node_safe_psql($_, "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE '$prefix%:58982_'"), '1', "those of the first one stay on node $_") for 1 .. 2;
$second->coordinator->stop;
$c->coordinator->start;
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE '$prefix%:58982_'", $_), "until it is back, node $_") for 1 .. 2;

# Recovery runs at the same time as VACUUM of the log and as a session that changes the extension.
# Neither may wait for the other for long, and the log must not grow (R31, R35).
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i');
my $commits = q{DO $$ BEGIN FOR i IN 1 .. 200 LOOP UPDATE t SET v = v + 1; COMMIT; END LOOP; END $$};
my $size = q{SELECT pg_total_relation_size('shardfdw_internal.commit_log')};
my @sizes;
for my $round (1 .. 3)
{
	my $load = $c->start_sql("SET statement_timeout = '120s'; $commits;", name => "load$round");
	for (1 .. 5)
	{
		$c->safe_psql("SET lock_timeout = '5s'; SET client_min_messages = error; VACUUM (FREEZE) shardfdw_internal.commit_log");
		$c->safe_psql("SET statement_timeout = '20s'; SELECT shardfdw.recover_prepared_transactions()");
	}
	my ($status, undef, $errors) = $c->wait_sql($load);
	is($status, 0, "commits beside VACUUM (FREEZE) of the log and recovery, round $round") || diag $errors;
	$c->safe_psql('VACUUM (FREEZE) shardfdw_internal.commit_log');
	push @sizes, $c->safe_psql($size);
}
is($c->safe_psql('SELECT min(v), max(v) FROM t'), '600|600', 'all of them');
cmp_ok($sizes[2], '<=', $sizes[0] * 2, "the log does not grow: @sizes");
ok($c->wait_for('SELECT count(*) <= 100 FROM shardfdw_internal.commit_log'), 'it has no more rows than the setting says');
is($c->safe_psql(ShardCluster::unsettled()), '0', 'nothing in it is unsettled');

# A worker that waits for a node without an answer must not block VACUUM. VACUUM's lock must not
# block commits.
$c->safe_psql("INSERT INTO shardfdw_internal.commit_log SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + i)::text::xid8, 65536, '{node1}', now() FROM generate_series(1000, 1010) i");
my $holder = $c->coordinator->background_psql('postgres');
$holder->query_safe('BEGIN; SELECT * FROM shardfdw.recover_prepared_transactions()');
$c->safe_psql("SET lock_timeout = '5s'; VACUUM (FREEZE) shardfdw_internal.commit_log");
$c->safe_psql("SET lock_timeout = '5s'; UPDATE t SET v = v + 1");
$holder->query_safe('COMMIT');
$holder->query_safe('BEGIN; LOCK TABLE shardfdw_internal.commit_log IN SHARE UPDATE EXCLUSIVE MODE');
$c->safe_psql("SET lock_timeout = '5s'; UPDATE t SET v = v + 1; SELECT shardfdw.recover_prepared_transactions()");
ok($c->wait_for(ShardCluster::unsettled() =~ s/count\(\*\)/count(*) = 0/r), 'rows are settled while VACUUM is at the log');
$holder->query_safe('COMMIT');

# An update of the extension locks the tables that it changes. Commits and recovery wait for it, and
# then continue.
my $mark = $c->log_position;
$c->safe_psql('CREATE TABLE stop (id int)');
my $before = $c->safe_psql('SELECT max(v) FROM t');
my $load = $c->start_sql(q{SET statement_timeout = '120s'; DO $$ DECLARE n int = 0; BEGIN
	WHILE NOT EXISTS (SELECT FROM stop) LOOP UPDATE t SET v = v + 1; n := n + 1; COMMIT; END LOOP; CREATE TABLE counted AS SELECT n; END $$;}, name => 'load');
$c->wait_for("SELECT max(v) > $before FROM t");
$holder->query_safe(q{SET client_min_messages = error; BEGIN; ALTER EXTENSION shardfdw UPDATE; ALTER FUNCTION shardfdw.recover_prepared_transactions(boolean) COST 100; LOCK TABLE shardfdw_internal.commit_log IN ACCESS EXCLUSIVE MODE});
ok($c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'load' AND wait_event_type = 'Lock'"), 'a commit waits for the update');
ok($c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw recovery worker' AND wait_event_type = 'Lock'"), 'so does recovery');
$holder->query_safe(q{COMMENT ON TABLE shardfdw_internal.commit_log IS 'log'; SELECT count(*) FROM t; COMMIT});
$holder->quit;
my $then = $c->safe_psql('SELECT max(v) FROM t');
ok($c->wait_for("SELECT max(v) > $then FROM t"), 'and go on');
$c->safe_psql('INSERT INTO stop VALUES (1)');
my ($status, undef, $errors) = $c->wait_sql($load);
is($status, 0, 'the commits go on after the update') || diag $errors;
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
prepare_on(1, "$prefix$xid:720896");
wait_gone(1, "$prefix$xid:720896", 'recovery too');
unlike($c->log_since($mark), qr/deadlock detected/, 'there was no deadlock');
is($c->safe_psql("SELECT DISTINCT v - $before - n FROM t, counted"), '0', 'nothing is lost');

# The interval follows a reload; 0 stops it.
$c->safe_psql('ALTER SYSTEM SET shardfdw.recovery_interval = 0');
$c->safe_psql('SELECT pg_reload_conf()');
$c->wait_for("SELECT setting = '0' FROM pg_settings WHERE name = 'shardfdw.recovery_interval'");
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
prepare_on(1, "$prefix$xid:524288");
$c->safe_psql('ALTER SYSTEM RESET shardfdw.recovery_interval');
$c->safe_psql("SELECT pg_reload_conf()");
wait_gone(1, "$prefix$xid:524288", 'it goes on after a reload');

# A node that does not answer after the login delays recovery of other databases only for a moment.
my $proxy = ProtocolProxy->new(port => $c->node(2)->port);
$proxy->arm(from => 'node', type => 'Z', action => 'hang');
$c->safe_psql('CREATE DATABASE later');
$c->coordinator->safe_psql('later', "CREATE EXTENSION shardfdw;
	SELECT shardfdw.add_node('node1', '$_->[0]', $_->[1], 'postgres')")
  for [ $c->node_address(1) ];
my $later_prefix = $c->coordinator->safe_psql('later', q{SELECT format('shardfdw:%s:%s:%s:%s:',
		system_identifier, database, identity,
		(extract(epoch FROM now() + interval '1 hour') * 1000000)::bigint)
	FROM shardfdw_internal.coordinator JOIN pg_control_system() s USING (system_identifier)
	WHERE taken_over_at IS NULL});
$c->safe_psql(q{CREATE SERVER asleep FOREIGN DATA WRAPPER shardfdw
	OPTIONS (host '127.0.0.1', port '} . $proxy->port . q{', dbname 'postgres', connect_timeout '0');
	CREATE USER MAPPING FOR postgres SERVER asleep OPTIONS (user 'postgres')});
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if $proxy->fired;
	usleep(100_000);
}
$xid = $c->coordinator->safe_psql('later', 'SELECT pg_current_xact_id()');
prepare_on(1, "$later_prefix$xid:65536");
wait_gone(1, "$later_prefix$xid:65536", 'another database is recovered');
ok($proxy->fired, 'while a worker waits for a node');
$proxy->clear;

done_testing();
