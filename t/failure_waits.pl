# A backend waits for a node at a place where it must not raise errors. It must still answer what
# other backends wait for, and must notice that its client is gone or its time is over.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2);
my $v = $c->safe_psql("SELECT current_setting('server_version_num')");

$c->safe_psql('CREATE TABLE t (k int PRIMARY KEY, v text); CREATE TABLE here (k int)');
$c->shard_table('t', 'k', shards => 2);
$c->safe_psql("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 20) g");
my ($shard1, $shard2) = map { my $i = $_; map { $_->[0] } grep { $_->[1] == $i } $c->shards_of('t') } 1, 2;
my ($k1, $k2) = map { $c->safe_psql("SELECT min(k) FROM t WHERE tableoid = '$_'::regclass") } $shard1, $shard2;

# Waits until a backend of the coordinator has sent $what to node $i, which waits for a lock there.
sub wait_until_blocked
{
	my ($i, $what) = @_;
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '$what%'", $i);
	return;
}

sub pid_of
{
	my ($name) = @_;
	return $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = '$name'");
}

# No other session may wait for the backend: databases can be dropped, and memory contexts can be
# logged.
sub answers
{
	my ($pid, $name) = @_;
	my $log = $c->log_position;

	$c->safe_psql('CREATE DATABASE other');
	my ($rc, undef, $err) = $c->psql("SET statement_timeout = '30s'; DROP DATABASE other", on_error_stop => 1);
	is($rc, 0, "$name: another database can be dropped") || diag $err;
	$c->psql('DROP DATABASE IF EXISTS other') if $rc != 0 && $err !~ /statement timeout/;
	$c->safe_psql("SELECT pg_log_backend_memory_contexts($pid)");
	my $told;
	for (1 .. 300)
	{
		$told = $c->log_since($log) =~ /logging memory contexts of PID $pid\b/;
		last if $told;
		usleep(100_000);
	}
	ok($told, "$name: memory contexts are logged");
	return;
}

# A single statement that commits by itself waits for a row.
my $holder = $c->coordinator->background_psql('postgres');
$holder->query_safe("BEGIN; UPDATE t SET v = 'holder' WHERE k = $k1");
my $waiter = $c->start_sql("UPDATE t SET v = 'waiter' WHERE k = $k1;", name => 'waiter');
wait_until_blocked(1, 'UPDATE');
answers(pid_of('waiter'), 'single statement');
$holder->query_safe('COMMIT');
my ($rc, $out, $err) = $c->wait_sql($waiter);
is($rc, 0, 'single statement: it goes on') || diag $err;
is($c->safe_psql("SELECT v FROM t WHERE k = $k1"), 'waiter', 'single statement: and has written');

# Its client goes away.
$holder->query_safe("BEGIN; UPDATE t SET v = 'holder' WHERE k = $k1");
$waiter = $c->start_sql("SET client_connection_check_interval = '100ms'; UPDATE t SET v = 'waiter' WHERE k = $k1;", name => 'waiter');
wait_until_blocked(1, 'UPDATE');
$waiter->{run}->signal('KILL');
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'waiter'");
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE%'", 1);
pass('the end of the client is the end of the wait, here and on the node');
eval { $waiter->{run}->finish };

# Its session's time is over.
SKIP:
{
	skip 'transaction_timeout came with 17', 2 if $v < 170000;
	($rc, $out, $err) = $c->psql("SET transaction_timeout = '300ms'; UPDATE t SET v = 'waiter' WHERE k = $k1");
	like($err, qr/terminating connection due to transaction timeout/, 'transaction_timeout ends the wait');
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE%'", 1);
	pass('and that of the node');
}

# It is terminated.
$waiter = $c->start_sql("UPDATE t SET v = 'waiter' WHERE k = $k1;", name => 'waiter');
wait_until_blocked(1, 'UPDATE');
$c->safe_psql('SELECT pg_terminate_backend(' . pid_of('waiter') . ')');
($rc, $out, $err) = $c->wait_sql($waiter);
like($err, qr/terminating connection due to administrator command/, 'so does pg_terminate_backend');
$holder->query_safe('ROLLBACK');
is($c->safe_psql("SELECT v FROM t WHERE k = $k1"), 'waiter', 'nothing was written');

# The second phase of a commit waits for a node.
my $file = $c->coordinator->data_dir . '/shardfdw_fault_commit';
open my $fh, '>', $file or die "$file: $!";
close $fh;
my $before = $c->safe_psql('SELECT count(*) FROM shardfdw_internal.commit_log');
$waiter = $c->start_sql("SET shardfdw.fault_points = 'commit=wait'; BEGIN; UPDATE t SET v = 'both' WHERE k IN ($k1, $k2); COMMIT;",
	name => 'waiter');
$c->wait_for("SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", $_) for 1, 2;
$c->wait_for("SELECT count(*) = $before + 1 FROM shardfdw_internal.commit_log");
my $pid = pid_of('waiter');
$c->sigstop_node(2);
unlink $file or die "$file: $!";
$c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", 1);
answers($pid, 'second phase');
$c->sigcont_node(2);
($rc, $out, $err) = $c->wait_sql($waiter);
is($rc, 0, 'second phase: the commit goes on') || diag $err;
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql("SELECT count(*) FROM t WHERE v = 'both'"), '2', 'second phase: and is there');
$holder->quit;

done_testing();
