# The network drops all packets without notice. The error must come within the documented time. A
# node may also be frozen. Cancel, statement_timeout, COMMIT and the end of the session must not
# wait for that node.
#
# The whole test runs in a network namespace, in which the network is cut. If no namespace can be
# made, the test is skipped.

use strict;
use warnings;

# The test starts itself again in a separate network namespace, before anything else is set up.
my $in_namespace;

BEGIN
{
	$in_namespace = $ENV{NETWORK_CUT_INSIDE};
	$ENV{PATH} .= ':/usr/sbin:/sbin';
	my @unshare = qw(unshare --user --net --map-current-user --keep-caps);
	if (!$in_namespace && system("@unshare sh -c 'ip link set lo up && ip link add d0 type bridge' >/dev/null 2>&1") == 0)
	{
		$ENV{NETWORK_CUT_INSIDE} = 1;
		exec @unshare, $^X, (map { "-I$_" } @INC), $0;
	}
}

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

system('ip link set lo up && ip addr add 10.99.0.1/32 dev lo') if $in_namespace;

sub cut
{
	system('ip link add d0 type bridge && ip link set d0 up && ip addr del 10.99.0.1/32 dev lo && ip route add 10.99.0.1/32 dev d0 src 127.0.0.1') == 0 or die 'could not cut the network';
	return;
}

my $c = ShardCluster->new(nodes => 2, host => 'tcp', $in_namespace ? (node_conf => "listen_addresses = '*'\n") : ());
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET host '10.99.0.1')}) if $in_namespace;
$c->node(1)->append_conf('pg_hba.conf', 'host all all 10.99.0.1/32 trust');
$c->node(1)->reload;
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g');
my @ids;    # a key of each node
for my $line (split /\n/, $c->safe_psql(
	q{SELECT id, substr(srvname, 5) FROM generate_series(1, 100) id, shardfdw.shard_for('t', id) s JOIN pg_foreign_table f ON ftrelid = s JOIN pg_foreign_server v ON v.oid = ftserver}))
{
	my ($id, $node) = split /\|/, $line;
	$ids[$node] //= $id;
}

# ---- frozen -------------------------------------------------------------------------------------

my $limit_s = 4;    # the promise is one second; this leaves room for a busy machine
my %slowest;

sub session
{
	my (@sql) = @_;
	my $session = WireClient->new($c->coordinator, 'postgres');
	for my $sql ('SELECT sum(v) FROM t', @sql)
	{
		my $error = $session->query($sql)->{error};
		die "$sql: $error->{M}" if $error;
	}
	return $session;
}

my @statements = (
	[ 'SELECT of all shards', 'SELECT sum(v) FROM t' ],
	[ 'SELECT of one row', "SELECT v FROM t WHERE id = $ids[2]" ],
	[ 'INSERT', 'INSERT INTO t SELECT g, 1 FROM generate_series(1001, 1100) g' ],
	[ 'UPDATE', 'UPDATE t SET v = v + 1' ],
	[ 'UPDATE of one row in a transaction', "UPDATE t SET v = v + 1 WHERE id = $ids[2]", 'BEGIN' ],
	[ 'after a savepoint', 'UPDATE t SET v = v + 1', 'BEGIN', "UPDATE t SET v = v + 1 WHERE id = $ids[1]", 'SAVEPOINT a' ],
	[ 'row by row', 'UPDATE t SET v = v + 1 WHERE v > -1 - random()' ],
	[ 'COPY TO', 'COPY t TO STDOUT' ],
	[ 'COPY FROM', 'COPY t FROM STDIN' ],
	[ 'TRUNCATE', 'TRUNCATE t' ],
	[ 'DDL', 'ALTER TABLE t ALTER v SET DEFAULT 5' ],
	[ 'one snapshot of all nodes', 'SELECT sum(v) FROM t', q{SET shardfdw.snapshot = 'cluster'} ],
	[ 'COMMIT on two nodes', 'COMMIT', 'BEGIN', 'UPDATE t SET v = v + 1' ],
	[ 'COMMIT on one node', 'COMMIT', 'BEGIN', "UPDATE t SET v = v + 1 WHERE id = $ids[2]" ],
	[ 'ROLLBACK', 'ROLLBACK', 'BEGIN', 'UPDATE t SET v = v + 1' ]);

for my $how ('cancel', 'statement_timeout', 'end of the session')
{
	for my $statement (@statements)
	{
		my ($name, $sql, @before) = @$statement;

		# core counts statement_timeout until the commit begins, and ROLLBACK has separate limits
		next if $sql =~ /^COMMIT|^ROLLBACK/ && $how eq 'statement_timeout';
		my $session = session(@before, $how eq 'statement_timeout' ? "SET statement_timeout = '300ms'" : ());
		my $pid = $session->query('SELECT pg_backend_pid()')->{rows}[0][0];
		$c->sigstop_node(2);
		my $start = time;
		$session->start_query($sql, map { "$_\t1\n" } 2001 .. 2100);
		my $result;
		$result = $session->finish_query(0.2) if $how ne 'statement_timeout';
		if ($how eq 'end of the session')
		{
			$start = time;
			kill 'TERM', $pid;
			usleep(5_000) while kill(0, $pid) && time < $start + 20;
		}
		else
		{
			$start = $how eq 'cancel' ? time : $start + 0.3;
			$session->cancel if $how eq 'cancel' && !$result;
			$result //= $session->finish_query(20);
		}
		my $elapsed = time - $start;
		$slowest{$how} = $elapsed if $elapsed > ($slowest{$how} // 0);
		cmp_ok($elapsed, '<', $sql eq 'ROLLBACK' ? 6 : $limit_s, "frozen node, $how: $name");
		$c->sigcont_node(2);
		$session->query('ROLLBACK') if $how ne 'end of the session';
		for (1 .. 100)    # what got prepared holds locks
		{
			last unless $c->safe_psql('SELECT count(*) FROM shardfdw.prepared_transactions') + $c->node_safe_psql(2, q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%' AND state <> 'idle'});
			$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
			usleep(50_000);
		}
		next if $how eq 'end of the session';
		like($result->{error} ? $result->{error}{C} : 'done', $sql eq 'ROLLBACK' ? qr/done/ : qr/57014|08007|done/, "frozen node, $how: $name: the answer");
		my $error = $session->query('SELECT sum(v) FROM t')->{error};
		is($error ? $error->{M} : '', '', "frozen node, $how: $name: the session goes on");
		$session->close;
	}
}
note 'slowest: ' . join ', ', map { sprintf '%s %.2f s', $_, $slowest{$_} } sort keys %slowest;
$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%' AND state <> 'idle'}, $_) for 1, 2;
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is(join(' ', map { $c->node_safe_psql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1, 2), '0 0', 'nothing stays prepared');
is($c->safe_psql('SELECT count(DISTINCT v) FROM t WHERE id NOT IN (' . join(',', @ids[ 1, 2 ]) . ')'), '1', 'what was changed, was changed on both nodes');

# ---- silence ------------------------------------------------------------------------------------

# From here on, no host answers at the node's address.
SKIP:
{
	skip 'needs network namespaces', 6 unless $in_namespace;

	# One session reads, another one has sent data that is not confirmed. The limits are the
	# defaults.
	my ($reader, $loader) = map { session() } 1, 2;
	my $blocker = WireClient->new($c->node(1), 'postgres');
	$blocker->query('BEGIN; LOCK TABLE ' . (map { $_->[0] } grep { $_->[1] == 1 } $c->shards_of('t'))[0]);
	$reader->start_query('SELECT sum(v) FROM t');
	usleep(300_000);
	cut();
	my $start = time;
	$loader->start_query('UPDATE t SET v = v + 1');
	my $connector = WireClient->new($c->coordinator, 'postgres');
	$connector->start_query('SELECT sum(v) FROM t');
	for my $case ([ 'connecting', $connector, 12, '58000' ], [ 'a statement that waits', $reader, 40, '58000' ], [ 'a statement that is sent', $loader, 40, '58000' ])
	{
		my ($name, $session, $seconds, $code) = @$case;
		my $result = $session->finish_query($seconds + 10);
		my $elapsed = time - $start;
		note sprintf '%s: %s %s after %.1f s', $name, $result ? ($result->{error}{C}, $result->{error}{M}) : ('nothing', ''), $elapsed;
		is($result && $result->{error} ? $result->{error}{C} : 'none', $code, "silence, $name: an error");
		cmp_ok($elapsed, '<', $seconds, "silence, $name: within $seconds seconds");
	}
}

done_testing();
