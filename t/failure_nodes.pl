# A node has a fault. The error must come soon, with the names of the node and of the shard, and
# must not affect other sessions.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = ShardCluster->new(nodes => 2, host => 'tcp');
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int, w text); CREATE TABLE only1 (id int, v int)');
$c->shard_table('t', 'id', shards => 4);
$c->shard_table('only1', 'id', shards => 2, nodes => ['node1']);
$c->safe_psql('INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g; INSERT INTO only1 SELECT g, g FROM generate_series(1, 10) g');
my ($shard) = map { $_->[0] } grep { $_->[1] == 2 } $c->shards_of('t');

# Every statement that needs the node, in both ways of planning.
my @statements = (
	'SELECT count(*) FROM t',
	'SELECT * FROM t WHERE v = 5',
	'SET shardfdw.enable_shard_scan = off; SELECT count(*) FROM t',
	'SET shardfdw.enable_copy_fetch = off; SELECT * FROM t',
	"SELECT * FROM $shard",
	'INSERT INTO t SELECT g, g FROM generate_series(2001, 2100) g',
	q{COPY t FROM PROGRAM 'seq -f "%.0f	1	w" 2001 2100'},
	'UPDATE t SET v = 0',
	'DELETE FROM t');

sub all_fail
{
	my ($pattern, $what, $limit_s) = @_;
	for my $sql (@statements)
	{
		my $start = time;
		my ($rc, $out, $err) = $c->psql("\\set VERBOSITY verbose\n$sql;");
		isnt($rc, 0, "$what: $sql") || diag $out;
		like($err, $pattern, "$what, error: $sql");
		cmp_ok(time - $start, '<', $limit_s, "$what, soon: $sql");
		unlike($err, qr/secret/, "$what, no password: $sql");
	}
	is($c->safe_psql('SELECT sum(v) FROM only1'), '55', "$what: the other node works");
	return;
}

# Down
$c->stop_node(2, 'immediate');
all_fail(qr/58000.*node2/s, 'node is down', 8);
$c->start_node(2);
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|500500', 'the node is back');

# The node stopped between two statements of a session, and of a transaction.
my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
is($session->query_safe('SELECT count(*) FROM t'), '1000', 'a session reads');
$c->stop_node(2, 'immediate');
$c->start_node(2);
my $answer = $session->query('SELECT count(*) FROM t');
$answer = $session->query('SELECT count(*) FROM t') unless $answer eq '1000';
is($answer, '1000', 'after a restart of the node the session connects again');
$session->query('BEGIN');
$session->query_safe('INSERT INTO t SELECT g, 1 FROM generate_series(3001, 3100) g');
$c->stop_node(2, 'immediate');
$c->start_node(2);
$session->query('SELECT count(*) FROM t');
$session->query('COMMIT');
$session->{stderr} = '';
is($session->query('SELECT count(*) FROM t'), '1000', 'a transaction that lost a node that it had written to is undone');
$session->quit;

# Frozen: connect_timeout counts.
$c->safe_psql("ALTER SERVER node2 OPTIONS (ADD connect_timeout '2')");
$c->sigstop_node(2);
for my $sql ('SELECT count(*) FROM t', 'UPDATE t SET v = 0', 'SET shardfdw.enable_shard_scan = off; SELECT count(*) FROM t')
{
	my $start = time;
	my ($rc, undef, $err) = $c->psql($sql);
	like($err, qr/node2/, "frozen node: the error of $sql names it");
	cmp_ok(time - $start, '<', 8, "frozen node: within connect_timeout: $sql");
}
$c->sigcont_node(2);
is($c->safe_psql('SELECT count(*) FROM t'), '1000', 'the node goes on');
$c->safe_psql("ALTER SERVER node2 OPTIONS (DROP connect_timeout)");

# Wrong password
$c->node_safe_psql(2, "CREATE ROLE app LOGIN SUPERUSER PASSWORD 'right-secret'");
my $hba = $c->node(2)->data_dir . '/pg_hba.conf';
my $old = PostgreSQL::Test::Utils::slurp_file($hba);
open my $fh, '>', $hba or die;
print $fh "host all app 127.0.0.1/32 scram-sha-256\n$old";
close $fh;
$c->node(2)->reload;
my ($mapping) = $c->safe_psql("SELECT umoptions FROM pg_user_mappings WHERE srvname = 'node2'");
$c->safe_psql("DROP USER MAPPING FOR CURRENT_USER SERVER node2; CREATE USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (user 'app', password 'wrong-secret')");
all_fail(qr/(58000|28P01).*(node2.*password authentication failed|password authentication failed.*node2)/s, 'wrong password', 8);
$c->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (SET password 'right-secret')");
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|500500', 'right password');

# Missing shard table
$c->node_safe_psql(2, "ALTER TABLE $shard RENAME TO elsewhere");
all_fail(qr/42P01.*node "node2".*\Q$shard\E/si, 'shard table is missing', 8);
$c->node_safe_psql(2, "ALTER TABLE elsewhere RENAME TO $shard");
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|500500', 'shard table is back');

# Other columns
$c->node_safe_psql(2, "ALTER TABLE $shard RENAME v TO other");
my ($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\nSELECT sum(v) FROM t");
like($err, qr/42703.*node "node2".*\Q$shard\E/si, 'a column is missing: error names node and shard');
like(scalar $c->safe_psql(ShardCluster::problems('check_cluster()', 'check_name, status, detail')), qr/\Q$shard\E\|error\|.*v integer/, 'check_cluster finds it');
$c->node_safe_psql(2, "ALTER TABLE $shard RENAME other TO v; ALTER TABLE $shard ALTER v TYPE text USING 'x' || v");
for my $mode ('on', 'off')
{
	($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\nSET shardfdw.enable_shard_scan = $mode; SELECT v FROM t ORDER BY v");
	isnt($rc, 0, "another type is an error, not another value (shard scan $mode)");
	like($err, qr/node2/, "which names the node (shard scan $mode)");
	is($c->psql("SET shardfdw.enable_shard_scan = $mode; SELECT id FROM t WHERE v > 5"), 3, "a condition on it too (shard scan $mode)");
}
$c->node_safe_psql(2, "ALTER TABLE $shard ALTER v TYPE int USING substr(v, 2)::int");
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '1000|500500', 'columns are right again');

# A node that dies while it is read.
for my $mode ('on', 'off')
{
	$c->node_safe_psql(2, "ALTER TABLE $shard RENAME TO real_rows; CREATE VIEW $shard AS SELECT r.* FROM real_rows r, pg_sleep(600)");
	my $query = $c->start_sql("SET shardfdw.enable_shard_scan = $mode; SELECT count(*) FROM t;");
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 2);
	my $start = time;
	$c->kill9_node(2);
	my ($status, undef, $errors) = $c->wait_sql($query);
	isnt($status, 0, "a node that dies is an error (shard scan $mode)");
	like($errors, qr/node2/, "which names the node (shard scan $mode)");
	cmp_ok(time - $start, '<', 8, "soon (shard scan $mode)");
	$c->start_node(2);
	$c->node_safe_psql(2, "DROP VIEW $shard; ALTER TABLE real_rows RENAME TO $shard");
	is($c->safe_psql('SELECT count(*) FROM t'), '1000', "the cluster works again (shard scan $mode)");
}

# add_node refuses a server that does not exist.
$c->psql_fails_like("SELECT shardfdw.add_node('node3', '127.0.0.1', 1)", qr/58000/, 'add_node: nobody listens');
$c->psql_fails_like('SELECT shardfdw.add_node(\'node3\', \'127.0.0.1\', ' . $c->node(1)->port . ", 'no_such_db')", qr/no_such_db/, 'add_node: no such database');
is($c->safe_psql("SELECT count(*) FROM pg_foreign_server WHERE srvname = 'node3'"), '0', 'add_node leaves nothing behind');
$c->psql_fails_like("SELECT shardfdw.remove_node('node2')", qr/node2/, 'remove_node refuses while there are shards');

done_testing();
