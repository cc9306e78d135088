# Sets up a standby of the coordinator. The standby must read from the nodes and must change
# nothing. After its promotion, also by contrib/patroni, it must be the coordinator. It must then
# resolve all transactions that were in progress on the lost coordinator.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1\nwal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");
my $primary = $c->coordinator;

$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int, w text);
	CREATE TABLE r (code int PRIMARY KEY, name text)});
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql(q{
	SELECT shardfdw.create_reference_table('r');
	INSERT INTO t SELECT g, g % 10, 'x' FROM generate_series(1, 1000) g;
	INSERT INTO r SELECT g, 'name ' || g FROM generate_series(0, 9) g});
my $standby = ShardServer->standby_of('standby', $primary);

# ---------- the standby reads ----------

for my $sql (
	'SELECT count(*), sum(v), min(w) FROM t',
	'SELECT v, count(*), stddev(id) FROM t GROUP BY v ORDER BY v',
	'SELECT * FROM t WHERE id = 77',
	'PREPARE q(int) AS SELECT v FROM t WHERE id = $1; EXECUTE q(1); EXECUTE q(2); EXECUTE q(3)',
	'SELECT name, count(*) FROM t JOIN r ON code = v GROUP BY name ORDER BY name',
	'SELECT * FROM t WHERE v = 3 ORDER BY id LIMIT 5',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT sum(id) FROM t; COMMIT',
	q{SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t},
	'BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 3 FROM c; MOVE 10 IN c; FETCH 1 FROM c; COMMIT',
	'COPY (SELECT id FROM t WHERE id = 5) TO STDOUT',
	'SET shardfdw.enable_shard_scan = off; SELECT count(*) FROM t',
	'EXPLAIN (COSTS OFF) SELECT v, count(*) FROM t GROUP BY v',
	ShardCluster::problems('check_cluster()'),
	q{SELECT * FROM shardfdw.run_on_nodes('SELECT 1')},
	'SELECT count(*), sum(estimated_rows) FROM shardfdw_internal.shard_sizes()')
{
	is($standby->safe_psql('postgres', $sql), $primary->safe_psql('postgres', $sql), $sql);
}

# ---------- and changes nothing ----------

for my $sql (
	'INSERT INTO t VALUES (1001, 1)',
	'UPDATE t SET v = 0',
	'DELETE FROM t WHERE id = 1',
	'INSERT INTO r VALUES (10)',
	"COPY t FROM PROGRAM 'true'",
	'MERGE INTO t USING r ON id = code WHEN MATCHED THEN DELETE',
	'SELECT * FROM t WHERE id = 1 FOR UPDATE',
	'TRUNCATE t',
	'ALTER TABLE t ADD COLUMN x int',
	'CREATE INDEX ON t (v)',
	'DROP TABLE t',
	q{COMMENT ON TABLE t IS 'x'},
	'GRANT SELECT ON t TO PUBLIC',
	'VACUUM t',
	q{SELECT shardfdw.unshard_table('t')},
	'SELECT shardfdw.recover_prepared_transactions()')
{
	my ($rc, undef, $err) = $standby->psql('postgres', '\set VERBOSITY verbose' . "\n$sql", on_error_stop => 1);
	like($err, qr/ERROR:  25006: cannot execute/, "refused: $sql");
}
like($standby->safe_psql('postgres', q{SELECT result FROM shardfdw.run_on_nodes('CREATE TABLE public.x ()')}), qr/^(cannot execute CREATE TABLE in a read-only transaction\n?){2}$/, 'nor by commands on nodes');
is($standby->safe_psql('postgres', q{SELECT string_agg(result, ' ') FROM shardfdw.run_on_nodes('SELECT 1', in_transaction => false)}), '1 1', 'commands outside of the transaction that only read do run');
is($standby->safe_psql('postgres', q{SET shardfdw.watch_timeout = '100s'; SELECT string_agg(format('%s:%s', coalesce(node, 'here'), is_standby), ' ' ORDER BY node) FROM shardfdw.node_status; SELECT count(*) FROM shardfdw.lock_waits; SELECT count(size_bytes) > 0 FROM shardfdw.stat_shards}), "node1:f node2:f here:t\n0\nt", 'it can be watched');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|4500', 'nothing has changed');
is(join(' ', map { $c->node_safe_psql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1, 2), '0 0', 'nothing is prepared');

# ---------- the standby is promoted ----------

SKIP:
{
	skip 'built without fault points', 1 unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});

	# one transaction that has committed and has not sent that to the nodes, one that has not
	# committed
	my @writers;
	for my $point ('commit', 'prepared')
	{
		append_to_file($primary->data_dir . "/shardfdw_fault_$point", '');
		push @writers, $c->start_sql("SET shardfdw.fault_points = '$point=wait'; UPDATE t SET w = '$point' WHERE id " . ($point eq 'commit' ? '<= 50' : '> 900'));
		$c->wait_for('SELECT count(*) = ' . @writers . q{ FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}, $_) for 1, 2;
	}
	$c->wait_for(ShardCluster::unsettled() =~ s/count\(\*\)/count(*) = 1/r);
	$primary->wait_for_catchup('standby');
	$c->kill9_coordinator;
	$standby->promote;
	$c->{coordinator} = $standby;

	# a copy does not know that it is the successor
	$c->wait_for_log(qr/WARNING:  this server is not confirmed as the coordinator, and resolves no prepared transactions/, 0) for 1, 2;
	is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}), '2', "by itself it settles nothing, node $_") for 1, 2;
	like($c->safe_psql('SELECT node, gid, action FROM shardfdw.recover_prepared_transactions()'), qr/^\|\|not confirmed: /, 'and says so');
	is($c->safe_psql('SELECT DISTINCT state FROM shardfdw_internal.list_prepared()'), 'not confirmed', 'and shows it');
	$c->psql_fails_like('UPDATE t SET v = 0 WHERE id BETWEEN 100 AND 200', qr/55000: this server is not confirmed as the coordinator.*promote_coordinator\(\)/s, 'nor does it write to several nodes');
	is($c->safe_psql(q{SELECT count(*) FROM t}), '1000', 'it reads');
	$c->psql_fails_like('BEGIN; SELECT shardfdw.promote_coordinator($$complete$$); UPDATE t SET v = v WHERE id BETWEEN 100 AND 200; COMMIT', qr/55000: cannot change nodes in the transaction that has called promote/, 'an identity is not used before it is there for good');
	$c->safe_psql('SELECT shardfdw.promote_coordinator()');
	$c->wait_for_log(qr/is left alone: predecessor "[0-9a-f]{16}" may have committed it without this server having received that/, 0);
	is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}), '1', "what is in the log is settled, the rest left alone, node $_") for 1, 2;
	my $left = q{SELECT DISTINCT substring(action FROM 'predecessor "([0-9a-f]+)" may have committed it') FROM shardfdw.recover_prepared_transactions()};
	my $predecessor = $c->safe_psql($left);
	$c->safe_psql('SELECT shardfdw.promote_coordinator($$complete$$)');
	is($c->safe_psql($left), $predecessor, 'what a hook says of this server is not said of one before it');
	my $resolve = sub { my ($gid, $action) = @_; return "SELECT shardfdw.resolve_transaction('$gid', '$action')" };
	my $gid = $c->safe_psql(q{SELECT min(gid) FROM shardfdw.prepared_transactions WHERE state LIKE 'left alone%'});
	$c->psql_fails_like($resolve->($gid, 'keep'), qr/22023: action "keep" is not known/, 'another action');
	$c->psql_fails_like($resolve->('x', 'commit'), qr/22023: "x" is no identifier of a prepared transaction/, 'no identifier');
	is($c->safe_psql($resolve->($gid =~ s/\d+:\d+$/1:1/r, 'commit')), 'f', 'a transaction that is nowhere');
	$c->psql_fails_like($resolve->('0123456789abcdef', 'rollback'), qr/42704: "0123456789abcdef" is no predecessor of this coordinator/, 'an identity that is unknown');
	$c->psql_fails_like($resolve->($c->safe_psql('SELECT identity FROM shardfdw_internal.coordinator_identity()'), 'rollback'), qr/42704: "[0-9a-f]{16}" is no predecessor/, 'the own one');
	# leftovers of a predecessor: this one by hand, on all nodes, and then all others
	is($c->safe_psql($resolve->($gid, 'rollback')), 't', 'one transaction is rolled back by hand');
	is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}), '0', "on node $_") for 1, 2;
	is($c->safe_psql($resolve->($predecessor, 'rollback')), 't', 'all that the predecessor has left');
	$c->psql_fails_like($resolve->($predecessor, 'rollback'), qr/42704: "$predecessor" is no predecessor of this coordinator of which commits may be missing/, 'one that is complete');
	ok($c->wait_for(q{SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'}, $_), "what the lost one has prepared is settled, node $_") for 1, 2;
	is($c->safe_psql('SELECT w, count(*) FROM t GROUP BY w ORDER BY w'), "commit|50\nx|950", 'as it had decided');
	$c->wait_sql($_) for @writers;
}
if (!$standby->safe_psql('postgres', 'SELECT NOT pg_is_in_recovery()'))
{
	$c->kill9_coordinator;
	$standby->promote;
	$c->{coordinator} = $standby;
	$c->safe_psql('SELECT shardfdw.promote_coordinator($$complete$$)');
}
$c->safe_psql(q{UPDATE t SET v = 0; INSERT INTO r VALUES (10, 'new'); ALTER TABLE t ADD COLUMN x int DEFAULT 1});
is($c->safe_psql('SELECT count(*), sum(v), sum(x) FROM t'), '1000|0|1000', 'it is the coordinator');
is($c->safe_psql(ShardCluster::problems(q{check_cluster('rows')})), '', 'check_cluster finds nothing wrong');

# ---------- contrib/patroni: the callback, and the role that it uses ----------

my $role = $c->safe_psql('SELECT current_user');
# as the page for Kubernetes runs it
my ($through_stdin) = slurp_file('docs/containers.md') =~ /sh -c '(.*psql -X -d )app -v user=shardfdw_owner'$/m;
for my $time ('once', 'twice')
{
	my $command = $through_stdin . q{"$0" -v user="$1"};
	my @command = ('sh', '-c', $command, $standby->connstr('postgres'), $role);
	ok(IPC::Run::run(\@command, '<', \("unused\n" . slurp_file('contrib/patroni/role.sql'))),
		"role.sql, $time");
}
is($c->safe_psql(q{SELECT DISTINCT umoptions::text FROM pg_user_mappings
	WHERE usename = 'shardfdw_failover'}), "{user=$role,password=unused}", 'with the password');
$c->safe_psql("ALTER USER MAPPING FOR shardfdw_failover SERVER node$_ OPTIONS (ADD password_required 'false')") for 1, 2;
my $third = ShardServer->standby_of('third', $standby);

my ($output, $called);
sub call_back
{
	my ($action, $as, @more) = @_;
	$output = '';
	$called = IPC::Run::start([ 'contrib/patroni/promote_coordinator', '--all-received', @more,
			'-d', $third->connstr('postgres') . ' user=shardfdw_failover', '-d', $third->connstr('template1'), $action, $as, 'scope' ], '&>', \$output);
	return;
}
sub exit_code { $called->finish; return (($called->full_results)[0] >> 8); }

call_back('on_role_change', 'replica');
is(exit_code() . $output, '0', 'a replica has nothing to do');
call_back('on_role_change', 'master', '--timeout', '1');
is(exit_code(), '1', 'a member that is not promoted does not take over');
like($output, qr/error: not taken over within 1 s/, 'and says so');

$c->kill9_coordinator;
call_back('on_role_change', 'primary');
$third->promote;
is(exit_code(), '0', 'one that is promoted does') || diag $output;
like($output, qr/has taken over, new identity [0-9a-f]{16} .*no extension shardfdw/s, 'in databases that have the extension');
$c->{coordinator} = $third;
my $identity = $c->safe_psql('SELECT identity, confirmed FROM shardfdw_internal.coordinator_identity()');
like($identity, qr/\|t$/, 'it is the coordinator');
$c->safe_psql('UPDATE t SET v = 1');
call_back('on_start', 'master');
is(exit_code(), '0', 'called once more');
like($output, qr/this server is the coordinator already/, 'it has nothing to do');
is($c->safe_psql('SELECT identity, confirmed FROM shardfdw_internal.coordinator_identity()'), $identity, 'and leaves the identity as it is');
like(($third->psql('postgres', 'SELECT * FROM t', extra_params => [ '-U', 'shardfdw_failover' ]))[2], qr/permission denied for table t/, 'its role reads no table');

# ---------- contrib/container/kubernetes.yaml: the deployment notices a promotion by itself ----------

my $fourth = ShardServer->standby_of('fourth', $third);
my ($items) = slurp_file('contrib/container/kubernetes.yaml') =~ /^ +command:\n((?: +- .*\n)+)/m;
my @command = $items =~ /^ +- "?([^"\n]+)"?$/mg;
is("@command", '/extensions/shardfdw/bin/promote_coordinator --all-received --every 2'
	  . ' -d host=coordinator-rw dbname=app user=shardfdw_failover', 'the command of the deployment');
# instead of the service, which leads to the primary
$command[0] = 'contrib/patroni/promote_coordinator';
$command[-1] = sprintf 'host=%s,%s port=%d,%d dbname=postgres user=shardfdw_failover target_session_attrs=read-write',
  map({ $_->host } $third, $fourth), map { $_->port } $third, $fourth;
$output = '';
$called = IPC::Run::start(\@command, '&>', \$output, IPC::Run::timeout(180));
$called->pump until $output =~ /looks every 2 s/;
$c->kill9_coordinator;
$fourth->promote;
$called->pump until $output =~ /has taken over, new identity [0-9a-f]{16}/;
$c->{coordinator} = $fourth;
$c->safe_psql('UPDATE t SET v = 2');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|2000', 'transactions over several nodes commit');
$called->signal('TERM');
is(exit_code(), '0', 'it ends when it is told to');
is(() = $output =~ /has taken over/g, 1, 'it has taken over once');

done_testing();
