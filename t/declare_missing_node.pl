# A table has an option that names a missing node as the node of a replica. Its owner cannot cause
# that. Functions over all tables must leave the table out, and name it.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, preload => 1);
$c->safe_psql('CREATE TABLE broken (id int PRIMARY KEY, v int);
	CREATE TABLE other (id int PRIMARY KEY, v int);
	CREATE TABLE plain (id int PRIMARY KEY, v int)');
$c->shard_table('broken', 'id', shards => 2, nodes => ['node1']);
$c->shard_table('plain', 'id', shards => 2, nodes => ['node1']);
$c->shard_table('other', 'id', shards => 2, nodes => [ 'node1', 'node2' ],
	replication_factor => 2);
$c->safe_psql('INSERT INTO broken SELECT g, g FROM generate_series(1, 10) g');

my $off = 'SET shardfdw.enable_ddl_propagation = off;';

# ---------- the option cannot name a missing node ----------

$c->psql_fails_like("$off ALTER FOREIGN TABLE broken_00 OPTIONS (ADD replica_nodes '{nope}')",
	qr/42704: server "nope" does not exist/, 'a new name must be that of a server');
$c->psql_fails_like("$off ALTER FOREIGN TABLE broken_00 OPTIONS (ADD stale_replica_nodes '{nope}')",
	qr/42704: server "nope" does not exist/, 'a stale one, too');
$c->psql_fails_like(q{SELECT shardfdw_internal.set_replica_nodes('broken_00', '{nope}', '{}')},
	qr/42704: server "nope" does not exist/, 'in the internal function, too');

# ---------- a table that names one nevertheless ----------

# DROP SERVER is refused while the library is loaded, so the test changes the catalog.
$c->safe_psql("UPDATE pg_foreign_table SET ftoptions = ftoptions || 'replica_nodes={gone}'::text
	WHERE ftrelid = 'broken_00'::regclass");
my $missing = qr/node "gone" of a replica of shard \S*broken_00 does not exist/;
$c->psql_fails_like('SELECT count(*) FROM broken', qr/42704: $missing/,
	'statements on the table fail, and name its shard');

sub warns
{
	my ($sql, $what) = @_;
	my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 1);
	is($rc, 0, $what) || diag $err;
	like($err, qr/WARNING:  table \S*broken is left out: $missing/, "$what: with a WARNING");
	return $out;
}

like(warns("SELECT shard FROM shardfdw.rebalance_plan('count')", 'rebalance_plan()'),
	qr/plain_0/, 'it plans moves of other tables');
warns("SELECT shardfdw.move_shard('plain_00', 'node2', 'block')", 'move_shard() of another table');
is(warns("SELECT shardfdw.disable_node('node1')", 'disable_node()'),
	'2', 'it changes other tables');
$c->safe_psql("SELECT shardfdw.enable_node('node1')");
warns("SELECT shardfdw.drain_node('node2', mode => 'block')", 'drain_node()');
is($c->safe_psql("SELECT count(*) FROM shardfdw.shards WHERE node = 'node2'"), '0',
	'it moves shards of other tables');

# ---------- the owner repairs the table ----------

$c->safe_psql("$off ALTER FOREIGN TABLE broken_00 OPTIONS (DROP replica_nodes)");
is($c->safe_psql('SELECT count(*) FROM broken'), '10', 'without the option, it can be read');

done_testing();
