# Runs commits and cluster snapshots at the same time. No session may wait for another session that
# waits for a row, a lock or a node that hangs. If a commit was acknowledged, each later snapshot
# must show it and everything committed before it. A commit on one node is the whole commit.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $c = ShardCluster->new(nodes => 3);
my $deadline = $PostgreSQL::Test::Utils::timeout_default;
my $faults = $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
$c->safe_psql('CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL)');
$c->shard_table('t', 'k', shards => 6);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');

# One key of each node
my @key;
for my $k (1 .. 100)
{
	my $node = $c->safe_psql(
		"SELECT substr(srvname, 5) FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = shardfdw.shard_for('t', $k)");
	$key[$node] //= $k;
	last if 3 == grep { defined } @key;
}

sub session { return WireClient->new($c->coordinator, 'postgres'); }

sub add
{
	my ($node, $n) = @_;
	return 'UPDATE t SET v = v + ' . ($n // 1) . " WHERE k = $key[$node]";
}

# value(node): as the node has it
sub value
{
	my ($node) = @_;
	my ($shard) = $c->safe_psql("SELECT shardfdw.shard_for('t', $key[$node])");
	return $c->node_safe_psql($node, "SELECT v FROM $shard WHERE k = $key[$node]");
}

# A reader of snapshots over all nodes, with connections to all of them.
my $reader = session();
$reader->query("SET shardfdw.snapshot = 'cluster'");
my $sum = 'SELECT sum(v) FROM t';
is($reader->query($sum)->{rows}[0][0], '0', 'a snapshot over all nodes');

# A single statement waits for a row that a transaction over two nodes has changed.
{
	my ($holder, $single) = (session(), session());
	$holder->query('BEGIN; ' . add(1) . '; ' . add(2));
	$single->start_query(add(1));
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE%'", 1);
	is($reader->query($sum)->{rows}[0][0], '0', 'a snapshot beside a single statement that waits for a row');
	my $committed = $holder->start_query('COMMIT') // $holder->finish_query($deadline);
	is($committed && $committed->{tags}[0], 'COMMIT', 'the transaction that has the row commits');
	my $done = $single->finish_query($deadline);
	is($done && $done->{tags}[0], 'UPDATE 1', 'then the statement goes on');
	is($reader->query($sum)->{rows}[0][0], '3', 'and both are seen');
}

# A node hangs while it commits in one phase: snapshots fail, and commits on other nodes continue.
{
	my ($hanging, $other) = (session(), session());
	$other->query(add($_, 0)) for 1 .. 2;
	$hanging->query('BEGIN; ' . add(3));
	$c->sigstop_node(3);
	$hanging->start_query('COMMIT');
	$reader->start_query($sum);
	my $start = time;
	for my $sql (add(1), 'BEGIN; ' . add(1) . '; COMMIT', 'BEGIN; ' . add(1) . '; ' . add(2) . '; COMMIT')
	{
		$other->start_query($sql);
		my $done = $other->finish_query($deadline);
		ok($done && !$done->{error}, "beside a node that hangs: $sql");
	}
	note(sprintf 'three commits on healthy nodes: %.1f s', time - $start);
	like($reader->finish_query($deadline)->{error}{M}, qr/node "node3" did not answer in time/, 'a snapshot fails');
	$c->sigcont_node(3);
	is($hanging->finish_query($deadline)->{tags}[0], 'COMMIT', 'the commit goes on with the node');
	is($reader->query($sum)->{rows}[0][0], '8', 'all is seen');
}

SKIP:
{
	skip 'the library has no fault points', 13 unless $faults;
	my $marker = $c->coordinator->data_dir . '/shardfdw_fault_commit';
	my $hold = sub { open my $fh, '>', $marker or die $!; close $fh; };
	my $holding = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 4";

	# The same with a node that hangs at COMMIT PREPARED.
	my ($hanging, $other) = (session(), session());
	$other->query(add($_, 0)) for 1 .. 2;
	$hanging->query("SET shardfdw.fault_points = 'commit=wait'");
	$hold->();
	$hanging->start_query('BEGIN; ' . add(1) . '; ' . add(3) . '; COMMIT');
	$c->wait_for($holding);
	$c->sigstop_node(3);
	unlink $marker;
	$c->wait_for($holding =~ s/= 1/= 0/r);
	pass('a commit does not keep snapshots off while a node hangs');
	$reader->start_query($sum);
	$other->start_query('BEGIN; ' . add(1) . '; ' . add(2) . '; COMMIT');
	my $done = $other->finish_query($deadline);
	ok($done && !$done->{error}, 'nor commits of others');
	like($reader->finish_query($deadline)->{error}{M}, qr/node "node3"|within 5 seconds/, 'a snapshot fails');
	$c->sigcont_node(3);
	is($hanging->finish_query($deadline)->{tags}[-1], 'COMMIT', 'the commit goes on with the node');
	is($reader->query($sum)->{rows}[0][0], '12', 'all is seen');

	# The user's time-outs expire while commits wait for a snapshot. When the node has committed, no
	# time-out may raise an error.
	$hanging->query("SET shardfdw.fault_points = 'commit=wait'");
	$hold->();
	$hanging->start_query('BEGIN; ' . add(1, 0) . '; ' . add(3, 0) . '; COMMIT');
	$c->wait_for($holding);
	$reader->start_query($sum);
	$other->query("SET lock_timeout = '20ms'");
	my @errors;
	until ($reader->finish_query(0.01))
	{
		for my $sql (add(2, 0), 'BEGIN; ' . add(2, 0) . '; COMMIT', 'SELECT 1')
		{
			my $result = $other->query($sql);
			push @errors, "$sql: $result->{error}{M}" if $result->{error};
			push @errors, "$sql: the answer of another statement: @{ $result->{tags} }" if ($sql eq 'SELECT 1') != ("@{ $result->{tags} }" eq 'SELECT 1');
		}
	}
	is(join("\n", @errors), '', 'commits beside a snapshot that is tried again and again, with a short lock_timeout');
	$other->query('RESET lock_timeout');
	unlink $marker;
	is($hanging->finish_query($deadline)->{tags}[-1], 'COMMIT', 'the one that kept it off commits');

	# The lock of notifications is waited for before a node may commit.
	my $before = value(2);
	$hanging->query("SET shardfdw.fault_points = 'commit=wait'");
	$hold->();
	$hanging->start_query('BEGIN; ' . add(1) . '; NOTIFY c; COMMIT');
	$c->wait_for($holding);
	my $notifier = session();
	$notifier->query("SET lock_timeout = '200ms'; LISTEN c");
	is($notifier->query('BEGIN; ' . add(2) . '; NOTIFY c; COMMIT')->{error}{C}, '55P03', 'NOTIFY cannot have its lock: the commit fails');
	is(value(2), $before, 'and the node has not committed');
	unlink $marker;
	is($hanging->finish_query($deadline)->{tags}[-1], 'COMMIT', 'the one that had the lock commits');
	$notifier->query('ROLLBACK');
	is($notifier->query('BEGIN; ' . add(2) . '; NOTIFY c; COMMIT')->{tags}[-1], 'COMMIT', 'and then the other one');

	# Other steps of PostgreSQL's commit that can fail.
	my $s = session();
	$s->query('CREATE TEMP TABLE emptied (i int) ON COMMIT DELETE ROWS');
	$s->query("SET shardfdw.fault_points = 'prepare=error'");
	is($s->query('BEGIN; ' . add(1, 0) . '; COMMIT')->{tags}[-1], 'COMMIT', 'a transaction on one node has one phase');
	like($s->query('BEGIN; SELECT * FROM emptied; ' . add(1, 0) . '; COMMIT')->{error}{M}, qr/fault at "prepare"/, 'one that has used a temporary table has two');
	$s->query('ROLLBACK');
}

# Commits of all kinds that follow each other. No snapshot may contain one of them without the
# commits before it.
{
	my @nodes = (1, 2, 3);
	my $keys = join ', ', @key[@nodes];
	$c->safe_psql("UPDATE t SET v = 0 WHERE k IN ($keys)");
	my $writer = $c->start_sql(join("\n", map { my $round = $_; map { $round % 3 == 0 ? 'BEGIN; ' . add($_) . '; COMMIT;' : add($_) . ';' } @nodes } 1 .. 300), name => 'writer');
	my $other = $c->start_sql(join("\n", map { 'BEGIN; ' . join('; ', map { add($_, 1000) } @nodes) . '; COMMIT;' } 1 .. 100), name => 'other');
	my ($audits, $wrong, @last) = (0, 0);
	until (@last && join(' ', @last) eq '100300 100300 100300')
	{
		my $row = $reader->query("SELECT max(v) FILTER (WHERE k = $key[1]), max(v) FILTER (WHERE k = $key[2]), max(v) FILTER (WHERE k = $key[3]) FROM t WHERE k IN ($keys)");
		next if $row->{error} && $row->{error}{M} =~ /within 5 seconds|did not answer in time/;    # a busy machine
		die $row->{error}{M} if $row->{error};
		@last = @{ $row->{rows}[0] };
		$audits++;
		$wrong++ if $last[0] < $last[1] || $last[1] < $last[2] || $last[0] > $last[2] + 1;
	}
	is($wrong, 0, 'single statements, transactions on one node and on several: each snapshot has all that came before');
	note("$audits snapshots");
	is(join(' ', map { ($c->wait_sql($_))[0] } $writer, $other), '0 0', 'both writers have ended well');
}
$c->wait_for("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = x'73686172'::int::oid");
pass('no lock is left');

done_testing();
