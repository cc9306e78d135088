# Tests recovery with many nodes at one address: it must not take all connections to that address,
# and must not wait for connections that it holds itself.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(
	nodes     => 1,
	preload   => 1,
	add_nodes => 0,
	coordinator_conf => "shardfdw.recovery_interval = 0\n",
	node_conf => "max_connections = 40\nsuperuser_reserved_connections = 3\n");
my ($host, $port) = $c->node_address(1);
my $n = 40;
$c->safe_psql(join "\n", map {
	"CREATE SERVER node$_ FOREIGN DATA WRAPPER shardfdw"
	  . " OPTIONS (host '$host', port '$port', dbname 'postgres');"
	  . "CREATE USER MAPPING FOR CURRENT_USER SERVER node$_;" } 1 .. $n);
$c->node_safe_psql(1, 'CREATE TABLE probe (id int)');
my $prefix = $c->gid_prefix;
my $nprepared = 0;

sub set
{
	my ($name, $value) = @_;
	$c->safe_psql("ALTER SYSTEM SET shardfdw.$name = '$value'");
	$c->safe_psql('SELECT pg_reload_conf()');
	$c->wait_for("SELECT current_setting('shardfdw.$name') = '$value'");
	return;
}

# Prepares a transaction on the node.
sub prepare
{
	my $xid = $c->safe_psql('SELECT pg_current_xact_id()');
	my $gid = "$prefix$xid:" . 65536 * ++$nprepared;
	$c->node_safe_psql(1, "BEGIN; INSERT INTO probe VALUES (1); PREPARE TRANSACTION '$gid'");
	return $gid;
}

# The nodes that recovery has not reached. These are the first ones, or none.
my $recover = q{SELECT node, action FROM shardfdw.recover_prepared_transactions()
	WHERE action NOT LIKE 'rolled back%' ORDER BY node LIMIT 2};
my $left = 'SELECT count(*) FROM pg_prepared_xacts';

# The limit of the node is unknown at first. Later it is known, and then set to a few.
for my $limit (0, 0, 3, 1)
{
	set('max_shared_connections_per_node', $limit);
	prepare();
	is($c->safe_psql("SET shardfdw.connection_wait_timeout = 200; $recover"),
		'', "recovery reaches all of $n nodes at one address, limit $limit");
	is($c->node_safe_psql(1, $left), '0', 'and resolves what is prepared there');
}

# A round of recovery leaves connections to other sessions, and its waits end.
my $holder = $c->coordinator->background_psql('postgres');
$c->safe_psql('CREATE FOREIGN TABLE probe (id int) SERVER node1');
$holder->query_safe('BEGIN; INSERT INTO probe VALUES (2)');
$c->wait_for("SELECT sum(connections) = 1 FROM shardfdw.shared_connections");
like($c->safe_psql("SET shardfdw.connection_wait_timeout = 200; $recover"),
	qr/no connection to node "node1" became free within 200 ms/,
	'while another session has the only connection, the wait of recovery ends in an error of the node');
$holder->query_safe('COMMIT');
$holder->quit;

# The worker does the same.
set('max_shared_connections_per_node', 3);
my $gid = prepare();
set('recovery_interval', '1s');
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid = '$gid'", 1),
	'the recovery worker reaches the nodes, too');
$c->wait_for('SELECT count(*) = 0 FROM shardfdw.shared_connections');
is($c->safe_psql("SET shardfdw.connection_wait_timeout = 10000; SELECT count(*) FROM probe"),
	'1', 'sessions get connections next to the worker');

done_testing();
