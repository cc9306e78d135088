# Tests the views over all nodes: activity, lock waits, open transactions, and the state of nodes
# and shards.

use strict;
use warnings;

use DocBlocks;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

# nodes that are at work are waited for, however slow this machine is
my $c = ShardCluster->new(nodes => 3, coordinator_conf => "shardfdw.watch_timeout = '100s'\n");
my $deadline = $PostgreSQL::Test::Utils::timeout_default;

$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY LIST (id);
	SELECT shardfdw.create_shard('t', 't_' || i, format('IN (%s)', i), ('node' || i)::name) FROM generate_series(1, 3) i;
	INSERT INTO t VALUES (1, 0), (2, 0), (3, 0);
	CREATE TABLE here (id int PRIMARY KEY);
	INSERT INTO here VALUES (1)});
is($c->safe_psql('SELECT count(*) FROM shardfdw.lock_waits'), 0, 'nobody waits');

# a waits for b on node 2, b for c on node 3, c for its client; d waits for a on the coordinator
my %session = map { $_ => WireClient->new($c->coordinator, 'postgres') } qw(a b c d);
my %pid;
for my $name (sort keys %session)
{
	$pid{$name} = $session{$name}->query('SELECT pg_backend_pid()')->{rows}[0][0];
	# a session that waits for long searches for deadlocks, which is also active on the nodes
	ok(!$session{$name}->query("SET application_name = 'session $name'; SET deadlock_timeout = '10min'; BEGIN")->{error}, "session $name");
}
$session{a}->query('UPDATE t SET v = 1 WHERE id = 1; UPDATE here SET id = id');
$session{b}->query('UPDATE t SET v = 1 WHERE id = 2');
$session{c}->query('UPDATE t SET v = 1 WHERE id = 3');
$session{a}->start_query('UPDATE t SET v = 2 WHERE id = 2');
$session{b}->start_query('UPDATE t SET v = 2 WHERE id = 3');
$session{d}->start_query('UPDATE here SET id = id');
$c->wait_for('SELECT count(*) = 3 FROM shardfdw.lock_waits');
my $names_waits = $c->safe_psql("SELECT current_setting('server_version_num')::int >= 170000") eq 't';
is($c->safe_psql("SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = $pid{a}"), $names_waits ? 'Extension|ShardfdwNode' : 'Extension|Extension',
	'what the coordinator waits for has a name from 17 on');

sub who
{
	my ($result) = @_;
	$result =~ s/\b$pid{$_}\b/$_/g for keys %pid;
	return $result;
}

is(who($c->safe_psql(q{SELECT node, pid, query, blocking_pid, blocking_query, blocking_state, blocker_waits, locktype, lock_mode, relation, waiting > '0' AND waiting < '1 day', message FROM shardfdw.lock_waits ORDER BY node})),
	join("\n",
		'node2|a|UPDATE t SET v = 2 WHERE id = 2|b|UPDATE t SET v = 2 WHERE id = 3|active|t|transactionid|ShareLock|public.t_2|t|',
		'node3|b|UPDATE t SET v = 2 WHERE id = 3|c|UPDATE t SET v = 1 WHERE id = 3|idle in transaction|f|transactionid|ShareLock|public.t_3|t|',
		'|d|UPDATE here SET id = id|a|UPDATE t SET v = 2 WHERE id = 2|active|t|transactionid|ShareLock|public.here|t|'),
	'who waits for whom, on which server');
is(who($c->safe_psql(q{SELECT pid, role IS NOT NULL, application_name, query, node, state, wait_event_type, wait_event, xact_age > '0', node_query LIKE 'UPDATE%t\_2%', message FROM shardfdw.activity WHERE node = 'node2' AND state <> 'idle' AND application_name LIKE 'session%' ORDER BY application_name})),
	"a|t|session a|UPDATE t SET v = 2 WHERE id = 2|node2|active|Lock|transactionid|t|t|\nb|t|session b|UPDATE t SET v = 2 WHERE id = 3|node2|idle in transaction|Client|ClientRead|t|t|",
	'what they do there');
is(who($c->safe_psql(q{SELECT coalesce(node, 'here'), pid, state FROM shardfdw.long_transactions WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = 'session c') ORDER BY 1})),
	"here|c|idle in transaction\nnode3|c|idle in transaction", 'transactions that are open');
is($c->safe_psql(q{SELECT bool_and(age >= lead) FROM (SELECT age, lead(age) OVER () FROM shardfdw.long_transactions) x}), 't', 'the oldest first');

# ---------- rights ----------

$c->safe_psql(q{CREATE ROLE clerk LOGIN});
is($c->safe_psql(q{SET ROLE clerk; SELECT count(*) FROM shardfdw.activity; SELECT node, query FROM shardfdw.lock_waits}), "3\n|<insufficient privilege>\nnode1|\nnode2|\nnode3|", 'without USAGE no node is asked, which its row says, and statements of others are hidden');
is($c->safe_psql(q{SET ROLE clerk; SELECT DISTINCT message FROM shardfdw.node_status WHERE node = 'node1'}), 'permission denied for foreign server node1', 'why');
$c->safe_psql(q{GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO clerk});
for my $i (1 .. 3)
{
	$c->node_safe_psql($i, q{CREATE ROLE clerk LOGIN});
	$c->safe_psql("CREATE USER MAPPING FOR clerk SERVER node$i OPTIONS (user 'clerk', password_required 'false')");
}
is(who($c->safe_psql(q{SET ROLE clerk; SELECT node, pid, query, blocking_pid, blocking_query, relation FROM shardfdw.lock_waits ORDER BY node})),
	join("\n", 'node2|a|<insufficient privilege>|b|<insufficient privilege>|public.t_2', 'node3|b|<insufficient privilege>|c|<insufficient privilege>|public.t_3', '|d|<insufficient privilege>|a|<insufficient privilege>|public.here'),
	'a role sees who waits, and no statements of others');

# ---------- a node that does not answer ----------

# A kept connection hangs in another way than a connection that is being opened. No deadlock check
# may run during the test: it would open another connection, and wait for it.
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (ADD connect_timeout '1000')});
for (['5s', 'lock_waits', "count(*) FILTER (WHERE node = 'node3' AND message IS NULL) > 0 AND bool_and((blocker_waits IS NULL) = (message IS NOT NULL))", 1], ['1ms', 'activity', 'true', 0])
{
	my ($setting, $view, $others, $keeps) = @$_;

	my $client = WireClient->new($c->coordinator, 'postgres');
	$client->query("SELECT count(*) FROM shardfdw.$view") if $keeps;
	$c->sigstop_node(1);
	$client->query("SET shardfdw.watch_timeout = '$setting'; SET deadlock_timeout = '100ms'");
	my $began = time;
	my $result = $client->query("SELECT count(*) FILTER (WHERE node = 'node1' AND message LIKE 'node \"node1\" has not answered within % ms'), $others FROM shardfdw.$view");
	note sprintf '%s: answered after %.1f s', $view, time - $began;
	$c->sigcont_node(1);
	is(join('|', @{ $result->{rows}[0] // [] }), '1|t', "$view: a node that hangs is a row that says so");
}
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.lock_waits}), 3, 'it is asked again when it answers');

# ---------- all others ----------

$session{c}->query('COMMIT');
ok(!$session{b}->finish_query($deadline)->{error}, 'when the last one commits, the next goes on');
$session{b}->query('COMMIT');
ok(!$session{a}->finish_query($deadline)->{error}, 'and the first');
$session{a}->query('COMMIT');
ok(!$session{d}->finish_query($deadline)->{error}, 'and the other');
$session{d}->query('ROLLBACK');

# a prepared transaction has no process
$c->node_safe_psql(3, q{BEGIN; UPDATE t_3 SET v = 5; LOCK TABLE t_3 IN SHARE ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'forgotten'});
$session{a}->start_query('UPDATE t SET v = 6 WHERE id = 3');
$c->wait_for('SELECT count(*) = 1 FROM shardfdw.lock_waits');
is(who($c->safe_psql('SELECT node, pid, blocking_node_pid, blocking_pid, blocking_gid, blocker_waits, relation, lock_mode FROM shardfdw.lock_waits')), 'node3|a|0||forgotten|f|public.t_3|RowExclusiveLock', 'a prepared transaction that has locked a table');
is($c->safe_psql(q{SELECT node, pid, node_pid, gid, state, age > '0', xmin_age > 0 FROM shardfdw.long_transactions WHERE gid IS NOT NULL}), 'node3|||forgotten|prepared|t|t', 'it is open');
is($c->safe_psql(q{SELECT prepared, oldest_prepared > '0' FROM shardfdw.node_status WHERE node = 'node3'}), '1|t', 'the node has one');
$c->node_safe_psql(3, q{ROLLBACK PREPARED 'forgotten'});
ok(!$session{a}->finish_query($deadline)->{error}, 'it goes on');
$c->node_safe_psql(3, q{BEGIN; UPDATE t_3 SET v = 7; PREPARE TRANSACTION 'forgotten row'});
$session{a}->start_query('UPDATE t SET v = 8 WHERE id = 3');
$c->wait_for('SELECT count(*) = 1 FROM shardfdw.lock_waits');
is($c->safe_psql('SELECT blocking_gid, locktype FROM shardfdw.lock_waits'), 'forgotten row|transactionid', 'one that has written a row');
$c->node_safe_psql(3, q{ROLLBACK PREPARED 'forgotten row'});
ok(!$session{a}->finish_query($deadline)->{error}, 'it goes on');

is($c->safe_psql(q{SELECT coalesce(node, 'here'), answers, version = current_setting('server_version'), is_standby, up > '0', connections > 0 AND connections <= max_connections, of_coordinator >= 0, prepared, oldest_prepared, size_bytes > 0, commits > 0, message FROM shardfdw.node_status ORDER BY 1}),
	join("\n", map { "$_|t|t|f|t|t|t|0||t|t|" } qw(here node1 node2 node3)), 'how servers are');
is($c->safe_psql(q{SELECT of_coordinator > 0 FROM shardfdw.node_status WHERE node = 'node2'}), 't', 'the coordinator has connections there');
$c->node_safe_psql(1, 'INSERT INTO t_1 SELECT i, i FROM generate_series(10, 100) i; DELETE FROM t_1 WHERE id > 9; SELECT count(*) FROM t_1; VACUUM ANALYZE t_1');
$c->wait_for(q{SELECT inserted = 92 AND deleted = 91 FROM shardfdw.stat_shards WHERE shard = 't_1'::regclass});
is($c->safe_psql(q{SELECT relation, shard, node, size_bytes > 0, estimated_rows, dead_rows >= 0, seq_scans > 0, updated > 0, last_vacuum > now() - interval '1 day', last_analyze IS NOT NULL, message FROM shardfdw.stat_shards WHERE node = 'node1'}), 't|t_1|node1|t|1|t|t|t|t|t|', 'how shards are');
is($c->safe_psql(q{SELECT count(*), count(size_bytes) FROM shardfdw.stat_shards}), '3|3', 'all of them');

# ---------- the page ----------

# ---------- slow statements ----------

# Only slow statements are logged. t/operate_stat_nodes.pl logs all statements.
my $mark = $c->log_position;
$c->safe_psql(q{SET shardfdw.log_min_remote_duration = '300ms'; SELECT * FROM shardfdw.run_on_nodes('SELECT pg_sleep(0.4)')});
my $log = $c->log_since($mark);
is(() = $log =~ /LOG:  duration: (?:[4-9]\d\d|\d{4,})\.\d{3} ms  remote SQL on node "node\d": .*pg_sleep\(0\.4\)/g, 3, 'statements that take long are logged');
$mark = $c->log_position;
$c->safe_psql(q{SET shardfdw.log_min_remote_duration = '1h'; SELECT * FROM shardfdw.run_on_nodes('SELECT pg_sleep(0.01)')});
unlike($c->log_since($mark), qr/duration:/, 'others are not');

my $ran = 0;
for my $block (grep { $_->{language} eq 'sql' && !$_->{fragment} } doc_blocks('docs/watching.md'))
{
	my ($rc, undef, $err) = $c->psql($block->{text} =~ s/4711/0/r, on_error_stop => 1);
	is($rc, 0, "docs/watching.md, block " . ++$ran) or diag $err;
}
is($ran, 9, 'all blocks of the page were run');

$c->kill9_node(2);
like($c->safe_psql(q{SELECT answers, version, message FROM shardfdw.node_status WHERE node = 'node2'}), qr/^f\|\|could not connect to node "node2": ./, 'a node that is down');
like($c->safe_psql(q{SELECT shard, size_bytes, message FROM shardfdw.stat_shards ORDER BY node}), qr/^t_1\|\d+\|\nt_2\|\|could not connect.*\nt_3\|\d+\|$/s, 'and its shards');
like($c->safe_psql(q{SELECT message FROM shardfdw.long_transactions LIMIT 1}), qr/^could not connect to node "node2"/, 'first of all');

done_testing();
