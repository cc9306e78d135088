# Tests cancel, timeouts and termination while the coordinator waits for a node. Also tests an
# Append with many children that have rows ready.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = ShardCluster->new(nodes => 2);

# Two tables. One shard of "slow" is a view that sleeps much longer than any wait of this test.
# Limits leave room for a busy machine: without the cancel, nothing would end.
$c->safe_psql(q{
	CREATE TABLE fast (id int, v int); CREATE TABLE slow (id int, v int)});
$c->shard_table('fast', 'id', shards => 6);
$c->shard_table('slow', 'id', shards => 6);
$c->safe_psql('INSERT INTO fast SELECT g, g FROM generate_series(1, 6000) g; INSERT INTO slow SELECT * FROM fast');
my ($shard, $node) = @{ ($c->shards_of('slow'))[-1] };
$c->node_safe_psql($node, "ALTER TABLE $shard RENAME TO real_rows; CREATE VIEW $shard AS SELECT r.* FROM real_rows r, pg_sleep(600)");

my %queries = (
	'aggregate' => 'SELECT count(*) FROM slow',
	'rows'      => 'SELECT * FROM slow',
	'groups'    => 'SELECT v % 3, sum(v) FROM slow GROUP BY 1',
	'join'      => 'SELECT count(*) FROM slow JOIN fast USING (id)',
	'lateral'   => 'SELECT count(*) FROM fast f, LATERAL (SELECT FROM slow s WHERE s.v = f.v OFFSET 0) x');
my @modes = ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off');

# The contexts of the errors. A timeout may come between two waits, so not every context names the
# node.
my @contexts;

# statement_timeout must end a wait for a node immediately, and the session must work on (R2).
for my $mode (@modes)
{
	for my $name (sort keys %queries)
	{
		my $start = time;
		my ($rc, $out, $err) = $c->psql(
			"SET $mode; SET statement_timeout = '500ms'; $queries{$name};\nSET statement_timeout = 0; SELECT count(*), sum(v) FROM fast;",
			on_error_stop => 0);
		my $elapsed = time - $start;

		like($err, qr/canceling statement due to statement timeout/, "$name, $mode: timed out");
		push @contexts, $err;
		cmp_ok($elapsed, '<', 8, "$name, $mode: soon");
		like($out, qr/^6000\|18003000$/m, "$name, $mode: the session goes on");
	}
}
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
pass('the node was told to stop');
ok(scalar(grep { /^CONTEXT:  .*waiting for nodes? .*"node$node"/ms } @contexts), 'errors say which node was waited for');
@contexts = ();

# The same in a transaction with savepoints.
my ($rc, $out, $err) = $c->psql(q{
	BEGIN;
	INSERT INTO fast VALUES (10001, 1), (10002, 2), (10003, 3), (10004, 4);
	SAVEPOINT a;
	SET LOCAL statement_timeout = '300ms';
	SELECT count(*) FROM slow;
	ROLLBACK TO a;
	SELECT count(*) FROM fast WHERE id > 10000;
	COMMIT;
	SELECT sum(v) FROM fast WHERE id > 10000;}, on_error_stop => 0);
is($out, "4\n10", 'after ROLLBACK TO the transaction goes on');

# pg_cancel_backend and pg_terminate_backend.
for my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	for my $mode (@modes)
	{
		my $session = $c->start_sql("SET $mode; SELECT count(*) FROM slow;", name => 'waiter');
		$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
		my $start = time;
		$c->safe_psql("SELECT $function(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
		my ($status, undef, $errors) = $c->wait_sql($session);
		isnt($status, 0, "$function, $mode: the query ends");
		cmp_ok(time - $start, '<', 8, "$function, $mode: soon");
		$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
	}
}

# Writes that wait for a lock on a node.
my ($fast_shard, $fast_node) = @{ ($c->shards_of('fast'))[0] };
my $blocker = $c->node($fast_node)->background_psql('postgres');
$blocker->query_safe("BEGIN; LOCK TABLE $fast_shard");
for my $sql (
	'INSERT INTO fast SELECT g, 1 FROM generate_series(20001, 20100) g',
	'UPDATE fast SET v = v + 1',
	'DELETE FROM fast',
	'TRUNCATE fast',
	q{COPY fast FROM PROGRAM 'seq -f "%.0f	1" 20001 20500'},
	'SELECT * FROM fast FOR UPDATE')
{
	my $start = time;
	my ($status, undef, $errors) = $c->psql("SET statement_timeout = '500ms'; $sql");
	like($errors, qr/statement timeout/, "timed out: $sql");
	push @contexts, $errors;
	cmp_ok(time - $start, '<', 8, "soon: $sql");
}
$blocker->query_safe('ROLLBACK');
$blocker->quit;
ok(scalar(grep { /^CONTEXT:  .*waiting for nodes? .*"node$fast_node"/ms } @contexts), 'as those of writes do');
@contexts = ();
is($c->safe_psql('SELECT count(*), sum(v) FROM fast WHERE id <= 6000'), '6000|18003000', 'nothing of them stayed');

# A node that does not answer: to a query, and to a new connection.
$c->sigstop_node(2);
for my $mode (@modes)
{
	my $start = time;
	my (undef, undef, $errors) = $c->psql("SET $mode; SET statement_timeout = '700ms'; SELECT count(*) FROM fast;");
	like($errors, qr/statement timeout/, "connecting to a frozen node, $mode: timed out");
	push @contexts, $errors;
	cmp_ok(time - $start, '<', 8, "connecting to a frozen node, $mode: soon");
}
$c->sigcont_node(2);
ok(scalar(grep { /^CONTEXT:  waiting for node "node2"$/m } @contexts), 'and those of connections');
is($c->safe_psql('SELECT count(*) FROM fast WHERE id <= 6000'), '6000', 'the node is used again');

# Children of an Append that have rows ready, and a client that fetches one row from time to time
# (R3).
for my $mode (@modes)
{
	my $fetches = join "\n", ("FETCH 1 FROM c;\nFETCH 40 FROM d;\nSELECT 1 FROM fast WHERE id = 5 AND v = -1;\n") x 40;
	my ($status, $result, $errors) = $c->psql(
		"SET $mode; BEGIN; DECLARE c CURSOR FOR SELECT id FROM fast WHERE id <= 6000; DECLARE d CURSOR FOR SELECT -id FROM fast WHERE id <= 6000;
		 SELECT 0 FROM pg_sleep(0.2);\n$fetches\nFETCH ALL FROM d; FETCH ALL FROM c; COMMIT;");
	my %seen;
	$seen{$_}++ for split /\n/, $result;
	is(scalar(keys %seen), 12_001, "two cursors over ready rows, $mode: every row") || diag $errors;
	is(scalar(grep { $_ > 1 } values %seen), 0, "two cursors over ready rows, $mode: once");

	# The same query again and again, abandoned in the middle; an error in between.
	($status, $result) = $c->psql(
		"SET $mode; " . join("\n", ("SELECT count(*) FROM (SELECT * FROM fast LIMIT 10) x; SELECT 1/0 FROM fast;\n") x 15),
		on_error_stop => 0);
	is($result, join("\n", ('10') x 15), "abandoned scans, $mode");
}

for my $i (1 .. 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' OR state = 'active' AND pid <> pg_backend_pid()", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}
done_testing();
