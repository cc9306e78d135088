# The counters of the view stat_nodes must equal what a proxy between the coordinator and a node has
# seen.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, add_nodes => 0, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 0\n");
my $proxy = ProtocolProxy->new(port => $c->node(1)->port);
$c->safe_psql("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ", 'postgres')");
$c->add_node(2);
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->shard_table('t', 'id', shards => 4);
my %key = split /[|\n]/, $c->safe_psql(q{SELECT n.srvname, min(id) FROM generate_series(1, 100) id, shardfdw.shard_for('t', id) s
	JOIN pg_foreign_table f ON ftrelid = s JOIN pg_foreign_server n ON n.oid = ftserver GROUP BY 1});

my @names = qw(connections connection_failures connection_retries statements rows_read rows_written bytes_sent bytes_received errors commits two_phase_commits recovered);

# The counters of node 1 (or another), as a hash.
sub counters
{
	my ($node) = @_;
	my %values;
	@values{@names} = split /\|/, $c->safe_psql(sprintf q{SELECT %s FROM shardfdw.stat_nodes WHERE node = '%s'}, join(', ', @names), $node // 'node1');
	return \%values;
}

# Resets the counters and runs sql in a separate session. Returns the counters, and the messages
# that node 1 has received.
sub count
{
	my ($sql, %options) = @_;
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
	$c->safe_psql('SELECT shardfdw.reset_stat_nodes()');
	$proxy->arm(from => 'node', type => 'none', action => 'kill');
	my ($rc, $out, $err) = $c->psql($sql);
	is($rc, $options{fails} ? 3 : 0, $options{name}) or diag($err);
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
	return (counters(), [ $proxy->messages ]);
}

# How many rows of t node 1 has.
sub rows_here
{
	my ($condition) = @_;
	return $c->safe_psql("SELECT count(*) FROM t JOIN pg_foreign_table f ON f.ftrelid = t.tableoid JOIN pg_foreign_server n ON n.oid = f.ftserver WHERE n.srvname = 'node1' AND $condition");
}

# Counts the messages that come from there and have one of these types; or sums up a function of
# their lengths.
sub seen
{
	my ($messages, $from, $types, $function) = @_;
	my $sum = 0;
	$sum += $function ? $function->($_->[2]) : 1 for grep { $_->[0] eq $from && index($types, $_->[1]) >= 0 } @$messages;
	return $sum;
}

# statements end with one message each: a simple query, or the Sync of an extended one
sub same_statements
{
	my ($counters, $messages, $name) = @_;
	is($counters->{statements}, seen($messages, 'coordinator', 'QS'), "$name: statements are those of the proxy");
	is($counters->{rows_read}, seen($messages, 'node', 'D') + ($counters->{copied} // 0), "$name: rows are those of the proxy");
	is($counters->{errors}, seen($messages, 'node', 'E'), "$name: errors are those of the proxy");
	return;
}

my ($now, $messages) = count(q{INSERT INTO t SELECT g, repeat('x', 10) FROM generate_series(1, 100) g}, name => 'INSERT ... SELECT');
my $here = rows_here('true');
same_statements($now, $messages, 'INSERT');
is($now->{rows_written}, $here, 'INSERT: rows that were written');
is("@$now{qw(connections connection_failures commits two_phase_commits recovered)}", '1 0 0 1 0', 'INSERT: one connection, a commit by two phases');
is(counters('node2')->{rows_written}, 100 - $here, 'each node by itself');

($now, $messages) = count('SET shardfdw.enable_copy_fetch = off; SELECT id FROM t; SELECT count(*) FROM t WHERE v > $$a$$', name => 'SELECT');
same_statements($now, $messages, 'SELECT');
cmp_ok($now->{rows_read}, '>', $here, 'SELECT: all rows of the node');
is("@$now{qw(rows_written commits two_phase_commits)}", '0 0 0', 'SELECT: nothing is written');

($now, $messages) = count('PREPARE q (int) AS SELECT v FROM t WHERE id = $1; ' . join('', map { "EXECUTE q($key{node1}); " } 1 .. 10), name => 'prepared');
same_statements($now, $messages, 'prepared');

($now, $messages) = count("UPDATE t SET v = 'one' WHERE id = $key{node1}; BEGIN; UPDATE t SET v = 'two' WHERE id = $key{node1}; DELETE FROM t WHERE id = $key{node1}; COMMIT", name => 'one phase');
same_statements($now, $messages, 'one phase');
is("@$now{qw(rows_written commits two_phase_commits)}", '3 2 0', 'one phase: rows and commits');

($now, $messages) = count("BEGIN; INSERT INTO t VALUES ($key{node1}, 'back'); ROLLBACK", name => 'rolled back');
is("@$now{qw(rows_written commits two_phase_commits)}", '1 0 0', 'rolled back: no commit');

($now, $messages) = count("INSERT INTO t VALUES ($key{node1}, 'again'); INSERT INTO t VALUES ($key{node1}, 'twice')", name => 'an error', fails => 1);
same_statements($now, $messages, 'an error');
is($now->{errors}, 1, 'an error is counted');

# lengths of messages: type and length are five bytes, the end of a query's text is one more
my $lines = join '', map { "$_\tline $_\n" } 1001 .. 1500;
($now, $messages) = count("COPY t FROM STDIN;\n$lines\\.\n", name => 'COPY');
is($now->{statements}, seen($messages, 'coordinator', 'QS'), 'COPY: statements are those of the proxy');
is($now->{bytes_sent}, seen($messages, 'coordinator', 'Q', sub { $_[0] - 6 }) + seen($messages, 'coordinator', 'd', sub { $_[0] - 5 }), 'COPY: bytes are those of the proxy');
$here = rows_here('id > 1000');
is($now->{rows_written}, $here, 'COPY: rows that were written');

($now, $messages) = count('COPY t TO STDOUT', name => 'COPY TO');
cmp_ok($now->{rows_read}, '>', $here, 'COPY TO: rows that were read');
is($now->{rows_written}, 0, 'COPY TO writes nothing');
cmp_ok($now->{bytes_received}, '>=', seen($messages, 'node', 'd', sub { $_[0] - 5 }), 'COPY TO: bytes are those of the proxy, and values');

# ---------- errors ----------

my $gid = $c->gid_prefix . '3:17';
$c->node_safe_psql(1, "BEGIN; CREATE TABLE left_behind (); PREPARE TRANSACTION '$gid'");
($now, $messages) = count('SELECT * FROM shardfdw.recover_prepared_transactions()', name => 'recovery');
is($now->{recovered}, 1, 'recovery is counted') or diag($c->safe_psql('SELECT * FROM shardfdw.recover_prepared_transactions(true)'));

$c->stop_node(1);
($now, $messages) = count('SELECT count(*) FROM t', name => 'a node that is down', fails => 1);
cmp_ok($now->{connection_failures}, '>', 0, 'a connection that could not be opened');
is($now->{connections}, 0, 'none was opened');
$c->start_node(1);

# ---------- the log ----------

# Each statement that is sent is logged when it has ended, however it ends. With one shard per node, a session has
# one connection to each node.
$c->safe_psql('CREATE TABLE logged (id int PRIMARY KEY, v text)');
$c->shard_table('logged', 'id', shards => 2);
my $mark = $c->log_position;
$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
$c->safe_psql('SELECT shardfdw.reset_stat_nodes()');
$c->psql(q{
	SET shardfdw.log_min_remote_duration = 0;
	SELECT count(*), max(v) FROM logged;
	PREPARE p(int) AS SELECT v FROM logged WHERE id = $1;
	EXECUTE p(1); EXECUTE p(1); EXECUTE p(1); EXECUTE p(1);
	SELECT id FROM logged LIMIT 1;
	BEGIN; UPDATE logged SET v = v || 'x'; SAVEPOINT s;
	UPDATE logged SET v = 1 / (id - id) WHERE id = 2; ROLLBACK TO s; COMMIT;
	UPDATE logged SET v = 5 WHERE id = 3;
	INSERT INTO logged VALUES (1, 1), (1, 2);
	SELECT node FROM shardfdw.run_on_nodes('SELECT 1')}, on_error_stop => 0);
$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
my $sent = $c->safe_psql('SELECT sum(statements) FROM shardfdw.stat_nodes');
my $log = $c->log_since($mark);
cmp_ok($sent, '>', 20, 'statements are sent');
is(() = $log =~ /LOG:  duration: \d+\.\d{3} ms  remote SQL on node "\w+": /g, $sent,
	'each of them is logged when it has ended');

# ---------- roles that see the view ----------

$c->safe_psql('CREATE ROLE reader LOGIN');
is($c->safe_psql('SET ROLE reader; SELECT count(*), count(stats_reset) FROM shardfdw.stat_nodes'), '2|2', 'everybody sees it');
like(($c->psql('SET ROLE reader; SELECT shardfdw.reset_stat_nodes()'))[2], qr/permission denied for function reset_stat_nodes/, 'not everybody resets it');

$c->coordinator->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$c->coordinator->restart;
is($c->safe_psql(q{SELECT count(*) FROM t WHERE id < 0; SELECT count(*), count(statements) FROM shardfdw.stat_nodes; SELECT shardfdw.reset_stat_nodes()}), "0\n2|0\n", 'without shared memory there are no values');
$proxy->stop;
done_testing();
