# Makes and drops databases as test runners do: databases are dropped without notice, cloned from a
# template, and used two at a time.

use strict;
use warnings;

use ShardCluster;
use Test::More;

# nodes are databases of one more server, named after the coordinator's database
my $c = ShardCluster->new(nodes => 1, add_nodes => 0);
my $server = $c->coordinator;
my ($host, $port) = $c->node_address(1);

sub in
{
	my ($db, $sql) = @_;
	return $server->safe_psql($db, "SET client_min_messages = warning; $sql");
}
sub fails
{
	my ($db, $sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $server->psql($db, $sql);
	return like($err, $pattern, $name);
}
my $add = join ' ', map { "SELECT shardfdw.add_node('n$_', '$host', $port, (current_database() || '_n$_')::name, create_database => true);" } 1, 2;
my $schema = q{CREATE TABLE kind (id int PRIMARY KEY); SELECT shardfdw.create_reference_table('kind'); INSERT INTO kind VALUES (1), (2);
	CREATE TABLE job (id serial PRIMARY KEY, kind int REFERENCES kind, v text); SELECT shardfdw.shard_table('job', shards => 4);};
my $work = q{INSERT INTO job (kind, v) SELECT 1 + g % 2, 'x' FROM generate_series(1, 50) g; INSERT INTO kind VALUES (3); SELECT count(*) FROM job JOIN kind ON kind.id = kind};
sub databases { return $c->node_safe_psql(1, q{SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname LIKE 'test%'}); }

# a runner makes the database, and drops it; the next run finds no tables
for my $run (1, 2)
{
	$server->safe_psql('postgres', 'CREATE DATABASE test');
	in('test', "CREATE EXTENSION shardfdw; $add $schema");
	is(in('test', $work), '50', "run $run");
	# in parallel: each worker has a copy, which no other worker changes
	for my $worker (1, 2)
	{
		$server->safe_psql('postgres', "CREATE DATABASE test_$worker TEMPLATE test");
		in("test_$worker", 'SELECT shardfdw.clone_node_databases()');
	}
	is(databases(), 'test_1_n1 test_1_n2 test_2_n1 test_2_n2 test_n1 test_n2', "databases on the node, run $run");
	my @handles = map { my ($out, $err) = ('', ''); [ \$out, \$err, $server->background_psql("test_$_", on_error_stop => 0) ] } 1, 2;
	$_->[2]->query_safe('BEGIN; DELETE FROM job WHERE id <= 10') for @handles;
	$_->[2]->query_safe('INSERT INTO kind VALUES (4); COMMIT') for @handles;
	$_->[2]->quit for @handles;
	is(join(' ', map { in($_, 'SELECT count(*) FROM job') . '/' . in($_, 'SELECT count(*) FROM kind') } 'test', 'test_1', 'test_2'), '50/3 40/4 40/4', "each has rows of its own, run $run");
	is(in('test_1', q{SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE status = 'error'}), '0', 'a copy is sound');
	fails('test_1', 'SELECT shardfdw.clone_node_databases()', qr/database "test_1_n1" of node "n1" cannot be cloned/, 'once');
	$server->safe_psql('postgres', "DROP DATABASE $_") for 'test_1', 'test_2', 'test';
}

# A call that has failed at the second node is repeated. Replicas of a table that was dropped while
# their node was disabled are dropped there, as in the template.
$server->safe_psql('postgres', 'CREATE DATABASE test');
in('test', "CREATE EXTENSION shardfdw; $add $schema; $work;
	CREATE TABLE twice (id int PRIMARY KEY); SELECT shardfdw.shard_table('twice', shards => 2, replication_factor => 2)");
$server->safe_psql('postgres', 'CREATE DATABASE test_1 TEMPLATE test');
{
	my $user = $c->node(1)->background_psql('test_n2');
	$user->query_safe('SELECT 1');
	fails('test_1', 'SELECT shardfdw.clone_node_databases()', qr/source database "test_n2" is being accessed by other users/, 'a node database in use');
	like(databases(), qr/\btest_1_n1\b/, 'the first clone exists');
	$user->quit;
	$c->node(1)->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'test_n2'});
}
fails('test_1', 'SELECT shardfdw.clone_node_databases()',
	qr/NOTICE:  node "n1": database "test_1_n1" remains from a call that failed, and is made again/, 'again');
is(in('test_1', 'SELECT count(*) FROM job JOIN kind ON kind.id = kind'), '50', 'all rows are there');
for my $db ('test_1', 'test')
{
	my $make = q{CREATE TABLE twice (id int PRIMARY KEY); SELECT shardfdw.shard_table('twice', shards => 2, replication_factor => 2)};
	in($db, q{SELECT shardfdw.disable_node('n2'); DROP TABLE twice});
	unlike(($server->psql($db, q{SELECT shardfdw.enable_node('n2')}))[2], qr/another coordinator/, "$db: enable_node() drops what is left");
	is(in($db, "$make; SELECT count(*) FROM twice"), "\n0", 'tables of the same names can be made there');
}
$server->safe_psql('postgres', "DROP DATABASE $_") for 'test_1', 'test';

# databases of a coordinator that still exists, and databases of other owners, must stay
$server->safe_psql('postgres', 'CREATE DATABASE test');
$c->node_safe_psql(1, 'CREATE DATABASE test_other');
in('test', "CREATE EXTENSION shardfdw; $add $schema");
fails('test', "SELECT shardfdw.add_node('n3', '$host', $port, 'test_other', create_database => true)", qr/database "test_other" exists on node "n3".*not made by add_node/s, 'somebody else\'s');
$server->safe_psql('postgres', 'CREATE DATABASE test_b');
in('test_b', 'CREATE EXTENSION shardfdw');
fails('test_b', "SELECT shardfdw.add_node('n1', '$host', $port, 'test_n1', create_database => true)", qr/database "test_n1" exists on node "n1".*made for another database, which is there/s, 'another database\'s');
is(in('test_b', 'SELECT count(*) FROM shardfdw.nodes'), '0', 'and nothing is left of the call');

# the extension is dropped, and made again
fails('test', 'SELECT shardfdw.remove_all_nodes()', qr/cannot remove node "n1" because it holds 2 shards/, 'tables are dropped where it is said');
is(in('test', "BEGIN; SELECT shardfdw.remove_all_nodes(drop_tables => true); SELECT count(*) FROM shardfdw.nodes; ROLLBACK; SELECT count(*) FROM job"), "\n0\n0", 'it is a part of the transaction');
in('test', "CREATE VIEW seen AS SELECT * FROM job; SELECT shardfdw.remove_all_nodes(drop_tables => true)");
in('test', "DROP EXTENSION shardfdw; CREATE EXTENSION shardfdw");
in('test', "$add $schema");
is(in('test', $work), '50', 'nothing is in the way');

# dropped with its databases
in('test', 'SELECT shardfdw.drop_node_databases()');
$server->safe_psql('postgres', "DROP DATABASE $_") for 'test', 'test_b';
unlike(databases(), qr/\btest_n[12]\b/, 'nothing is left on the nodes');
like(databases(), qr/\btest_other\b/, 'but what is of others');
$server->safe_psql('postgres', 'CREATE DATABASE test');
in('test', "CREATE EXTENSION shardfdw; SELECT shardfdw.add_node('n1', '$host', $port, 'test_other')");
fails('test', 'SELECT shardfdw.drop_node_databases()', qr/database "test_other" on node "n1" was not made for this one/, 'which it refuses to drop');

done_testing();
