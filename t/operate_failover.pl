# Nodes fail over to a standby. Tests connection strings with several hosts, prepared transactions
# that the standby has, and prepared transactions that it lacks (R12).

use strict;
use warnings;

use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\n",
	node_conf        => "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");
plan skip_all => 'built without fault points' unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});

# A standby of each node. The coordinator has both addresses and uses the server that accepts
# writes. The first node has one more address, whose machine hangs: it accepts connections, and
# never answers.
my $silent = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1') or die "no socket: $!";
my @standbys;
for my $i (1 .. 2)
{
	my $standby = ShardServer->standby_of("standby$i", $c->node($i));
	push @standbys, $standby;
	my ($host, $port) = $c->node_address($i);
	$c->safe_psql(sprintf q{ALTER SERVER node%d OPTIONS (SET host '%s,%s', SET port '%d,%d', ADD target_session_attrs 'read-write')},
		$i, $standby->host, $host, $standby->port, $port);
}
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 4);

$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET host '%s,127.0.0.1,%s', SET port '%d,%d,%d', ADD connect_timeout '1')},
	$standbys[0]->host, ($c->node_address(1))[0], $standbys[0]->port, $silent->sockport, ($c->node_address(1))[1]);
my $retries = q{SELECT connection_retries FROM shardfdw.stat_nodes WHERE node = 'node1'};
my $before = $c->safe_psql($retries);
my $hasty = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$hasty->query_safe(q{SET statement_timeout = '300ms'});
my $tries = 0;
do { $hasty->{stderr} = ''; $tries++ } while ($hasty->query('SELECT count(*) FROM t') ne '0' && $tries < 100);
cmp_ok($tries, '<', 100, 'a host that does not answer is left, by statements with a shorter time-out, too');
$hasty->quit;
my $after = $c->safe_psql($retries);
cmp_ok($after, '>', $before, 'for the next one');
is($c->safe_psql('SELECT count(*) FROM t'), '0', 'in another session') for 1 .. 3;
is($c->safe_psql($retries), $after, 'which asks the host first that has accepted');
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET target_session_attrs 'any')});
is($c->safe_psql(q{SELECT result FROM shardfdw.run_on_nodes('SELECT pg_is_in_recovery()', in_transaction => false) WHERE node = 'node1'}), 't', 'where any will do, their order counts');
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET target_session_attrs 'read-write')});

$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '100|0', 'the hosts that accept writes are used');
my $status = join ' ', map { $_->safe_psql('postgres', 'SELECT pg_is_in_recovery()') } @standbys;
is($status, 't t', 'the standbys stand by');
is($c->safe_psql('SELECT count(*) FROM shardfdw.nodes WHERE port ~ $$^[0-9]+,[0-9]+(,[0-9]+)?$$'), 2, 'the view of nodes shows lists');

# A transaction over both nodes, on these timelines. The coordinator has committed it, and on node
# $i it is still prepared.
my $file = $c->coordinator->data_dir . '/shardfdw_fault_commit';
sub start_commit
{
	my ($value, $timelines, $i) = @_;
	my $before = $c->safe_psql("SELECT count(*) FROM shardfdw_internal.commit_log WHERE timelines = '$timelines'");
	append_to_file($file, '');
	my $writer = $c->start_sql("SET shardfdw.fault_points = 'commit=wait'; UPDATE t SET v = $value WHERE id <= 50;", name => 'writer');
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}, $i);
	$c->wait_for("SELECT count(*) = $before + 1 FROM shardfdw_internal.commit_log WHERE timelines = '$timelines'");
	return $writer;
}

sub fail_over
{
	my ($i) = @_;
	$c->kill9_node($i);
	$standbys[ $i - 1 ]->promote;
	return;
}

sub recovered
{
	my $dry_run = shift // 'false';
	return $c->safe_psql(qq{SELECT node, regexp_replace(action, '\\d{2,}', 'X') FROM shardfdw.recover_prepared_transactions($dry_run) WHERE action NOT LIKE 'committed%'});
}

# ---- the standby has it all ----------------------------------------------------------------------

my ($guarded) = map { $_->[0] } grep { $_->[1] == 1 } $c->shards_of('t');
$c->node_safe_psql(1, qq{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused''; END';
	CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON $guarded DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.v = 77) EXECUTE FUNCTION refuse()});
my $idle = $c->coordinator->background_psql('postgres', on_error_stop => 0);
is($idle->query_safe('SELECT count(*) FROM t'), '100', 'a session is there before');
my $busy = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$busy->query_safe('BEGIN; UPDATE t SET v = 99 WHERE id > 90');

# the session does not query again, after the failover, what it has seen confirmed by all nodes, not
# even if a later commit of the session has failed
$idle->query_safe('UPDATE t SET v = v WHERE id <= 50');
$idle->query('UPDATE t SET v = 77 WHERE id <= 50');
like($idle->{stderr}, qr/refused/, 'a commit that a node does not prepare');
$idle->{stderr} = '';

my $writer = start_commit(1, '{1,1}', 1);
$c->node(1)->wait_for_catchup($standbys[0], 'replay', $c->node(1)->lsn('flush'));
fail_over(1);
unlink $file;
my ($code, $out, $error) = $c->wait_sql($writer);
is($code, 0, 'a commit ends well though its node is lost') || diag $error;
is(recovered(), '', 'recovery completes it on the standby, and has nothing else to report');
is($c->safe_psql(q{SELECT count(*), sum(v) FROM t}), '100|50', 'committed on both nodes, one of them promoted');
is($standbys[0]->safe_psql('postgres', q{SELECT count(*) FROM pg_prepared_xacts}), '0', 'nothing is left prepared on the standby');
is($idle->query_safe('SELECT sum(v) FROM t'), '50', 'a session that was idle goes on with the standby');
$busy->query('UPDATE t SET v = 98 WHERE id > 90');
like($busy->{stderr}, qr/node "node1"/, 'a transaction on the lost node is an error');
$busy->query('ROLLBACK');
$busy->quit;
is($c->safe_psql(q{INSERT INTO t VALUES (101, 0), (102, 0), (103, 0), (104, 0); SELECT count(*), sum(v) FROM t}), '104|50', 'reads and writes go on');

# ---- the standby has not received it -------------------------------------------------------------

$standbys[1]->safe_psql('postgres', q{ALTER SYSTEM SET primary_conninfo = ''});
$standbys[1]->reload;
$standbys[1]->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver') or die 'the standby still receives';
$writer = start_commit(2, '{2,1}', 2);
fail_over(2);
unlink $file;
($code, $out, $error) = $c->wait_sql($writer);
like($error, qr/is committed, but node "node2" has not confirmed it/, 'that a promoted standby knows nothing of it is no confirmation');
my $lost = 'node2|promoted: it prepared transaction X on timeline 1, is on timeline 2 now and does not have it: it has either committed it, or has not received it and lost what it wrote';
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.prepared_transactions WHERE state = 'settled'}), '1', 'it stands in the log');
is(recovered('true'), $lost, 'a dry run reports what may be lost');
my $mark = $c->log_position;
is(recovered(), $lost, 'so does recovery');
like($c->log_since($mark), qr/WARNING:  node "node2" may have lost a commit: it prepared transaction/, 'in the log, too');
is(recovered(), '', 'once');
like($c->safe_psql('SELECT note FROM shardfdw_internal.commit_log WHERE note IS NOT NULL'), qr/^node2: it prepared transaction \d+ on timeline 1/, 'and notes it');
my $half = $c->safe_psql('SELECT count(DISTINCT v) FROM t WHERE id <= 50');
is($half, '2', 'and is lost indeed');
$c->safe_psql('UPDATE t SET v = 2 WHERE id <= 50');
is($c->safe_psql(q{SELECT count(*), sum(v) FROM t}), '104|100', 'all is well');
$idle->quit;

done_testing();
