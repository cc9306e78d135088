# Resources run out after the local commit. No error may be raised there: the client must learn that
# its transaction committed. Recovery must then commit what the nodes have not committed yet. An
# abort must succeed under the same conditions.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes ();

my $nnodes = 8;
my $c = ShardCluster->new(nodes => $nnodes, coordinator_conf => "max_files_per_process = 96\n");
$c->safe_psql('CREATE TABLE t (k int PRIMARY KEY, v int); CREATE TABLE here (v int)');
$c->shard_table('t', 'k', shards => $nnodes);
$c->safe_psql('INSERT INTO t SELECT g, 0 FROM generate_series(1, 400) g');
my $rows = $c->safe_psql('SELECT count(*) FROM t');
my $v = 0;

sub prepared
{
	my $n = 0;
	$n += $c->ask("SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", $_) for 1 .. $nnodes;
	return $n;
}

sub fault_file { return $c->coordinator->data_dir . "/shardfdw_fault_$_[0]"; }

# The file at which a fault point waits.
sub hold
{
	my ($point) = @_;
	open my $fh, '>', fault_file($point) or die "$point: $!";
	close $fh;
	return;
}

sub go_on { unlink fault_file($_[0]) or die "$_[0]: $!"; return; }

# A transaction over all nodes, with $faults. Before it tells the nodes, code $before runs.
sub commit
{
	my ($faults, $before) = @_;
	my $points = join ',', grep { $_ ne '' } $before ? 'prepared=wait' : '', $faults;

	$v++;
	return $c->psql(
		"SET shardfdw.fault_points = '$faults'; BEGIN; UPDATE t SET v = $v; INSERT INTO here VALUES ($v); COMMIT;\n" .
		"\\echo :SQLSTATE\nSELECT 'lives'") unless $before;
	hold('prepared');
	my $writer = $c->start_sql(
		"SET shardfdw.fault_points = '$points'; BEGIN; UPDATE t SET v = $v; INSERT INTO here VALUES ($v); COMMIT;\n" .
		"\\echo :SQLSTATE\nSELECT 'lives'", name => 'writer');
	$c->ask_until("SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", $_) for 1 .. $nnodes;
	$before->();
	go_on('prepared');
	return $c->wait_sql($writer);
}

sub is_committed
{
	my ($name, $rc, $out, $err) = @_;

	is($rc, 0, "$name: the client is told of the commit") || diag $err;
	is($out, "00000\nlives", "$name: and its session goes on");
	$c->ask('SELECT shardfdw.recover_prepared_transactions()');
	is(prepared(), 0, "$name: nothing is left prepared");
	is($c->ask("SELECT count(*) FROM t WHERE v = $v"), $rows, "$name: committed on the nodes");
	is($c->ask("SELECT count(*) FROM here WHERE v = $v"), '1', "$name: and here");
	return;
}

my $log = $c->log_position;

# Each shortage at each step, both with nodes that answer and with sessions that have ended.
my @shortages = ('nomemory', 'nofiles', 'error');
for my $shortage (@shortages)
{
	for my $point ('commit', 'commit_sent', 'committed')
	{
		is_committed("$shortage at \"$point\"", commit("$point=$shortage"));
		next if $shortage eq 'error';
		is_committed("$shortage at \"$point\", sessions gone",
			commit("$point=$shortage", sub { $c->end_sessions_on }));
	}
}

# If the session has enough to connect again, the client gets no warning.
my ($rc, $out, $err) = commit('', sub { $c->end_sessions_on });
unlike($err, qr/WARNING/, 'sessions gone, nodes there: the second phase connects again');
is_committed('sessions gone', $rc, $out, $err);

# If a node is lost permanently, there is a warning for that node only.
($rc, $out, $err) = commit('', sub { $c->end_sessions_on; $c->stop_node(3, 'immediate'); });
is(() = $err =~ /WARNING/g, 1, 'a node is gone: one warning') || diag $err;
like($err, qr/the transaction is committed, but node "node3" has not confirmed it/, 'which says so');
$c->start_node(3);
is_committed('a node is gone', $rc, $out, $err);

# Aborts: of a transaction, prepared or not, and of a savepoint.
for my $shortage ('nomemory', 'nofiles')
{
	for my $points ("abort=$shortage", "prepared=error,rollback=$shortage", "prepared=error,abort=$shortage")
	{
		$v++;
		my $end = $points =~ /prepared/ ? 'COMMIT' : 'SELECT 1/0';
		($rc, $out, $err) = $c->psql(
			"SET shardfdw.fault_points = '$points'; BEGIN; UPDATE t SET v = $v; INSERT INTO here VALUES ($v); $end; ROLLBACK;\nSELECT 'lives'",
			on_error_stop => 0);
		like($out, qr/^lives$/m, "$points: the session goes on") || diag $err;
		$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
		is(prepared(), 0, "$points: nothing is left prepared");
		is($c->safe_psql("SELECT count(*) FROM t WHERE v = $v"), '0', "$points: undone on the nodes");
		is($c->ask("SELECT count(*) FROM here WHERE v = $v"), '0', "$points: and here");
	}
	$v++;
	($rc, $out, $err) = $c->psql(
		"SET shardfdw.fault_points = 'abort_sub=$shortage'; BEGIN; UPDATE t SET v = $v WHERE k <= 200; SAVEPOINT a; UPDATE t SET v = -1;"
		  . "\nSELECT 1/0;\nROLLBACK TO a; COMMIT; SELECT count(*) FROM t WHERE v = $v; SELECT count(*) FROM t WHERE v = -1",
		on_error_stop => 0);
	like($out, qr/^200\n0$/m, "abort_sub=$shortage: back to the savepoint") || diag $err;
}

# A statement that one node commits by itself. If there is no memory for its rows, the error must
# not look as if nothing had been done.
for my $point ('autocommit_row', 'autocommit_returned')
{
	$v++;
	(undef, $out, $err) = $c->psql("SET shardfdw.fault_points = '$point=nomemory'; INSERT INTO t VALUES (1000 + $v, $v) RETURNING v;\n\\echo :SQLSTATE\nSELECT 'lives'", on_error_stop => 0);
	is($out, "08007\nlives", "$point: the client is told that the outcome is not known") || diag $err;
	is($c->ask("DELETE FROM t WHERE k = 1000 + $v RETURNING v"), $v, "$point: the row is there");
}

unlike($c->log_since($log), qr/PANIC|cannot abort transaction|terminated by signal/, 'no process was lost');

# The postmaster dies while a backend is in COMMIT, and waits for a node that does not answer.
$log = $c->log_position;
$v++;
hold('commit');
my $writer = $c->start_sql("SET shardfdw.fault_points = 'commit=wait'; BEGIN; UPDATE t SET v = $v; INSERT INTO here VALUES ($v); COMMIT;\n\\echo :SQLSTATE",
	name => 'writer');
$c->wait_for("SELECT count(*) = 1 FROM here WHERE v = $v");
my $pid = $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'writer'");
$c->sigstop_node(2);
go_on('commit');
$c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", 1);
$c->coordinator->kill9;
($rc, $out, $err) = $c->wait_sql($writer);
like($out, qr/^00000$/m, 'postmaster gone: the client is told of the commit') || diag $err;
$c->sigcont_node(2);
unlike($c->log_since($log), qr/PANIC|cannot abort transaction/, 'postmaster gone: no PANIC');
for (1 .. 600)
{
	last if !kill 0, $pid;
	Time::HiRes::usleep(50_000);
}
ok(!kill(0, $pid), 'postmaster gone: the session ends');
unlink $c->coordinator->data_dir . '/postmaster.pid';
$c->coordinator->start;
is_committed('postmaster gone', 0, "00000\nlives", '');

done_testing();
