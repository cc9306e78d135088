# Sets up two coordinators of the same nodes, the second one from a dump of the first. Both load,
# write and query at the same time. Sequences, definitions and reference tables are separate on
# each. They must stay correct with the methods of docs/usage.md. At the end the second coordinator
# reads from standbys.

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 20_000;
my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "wal_level = logical\nmax_wal_senders = 4\nmax_replication_slots = 4\n",
	node_conf        => "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");
my $second = ShardCluster->new(nodes => 0, extension => 0, preload => 1);
my @both = ($c, $second);
my $keeps_nodes = 'SET shardfdw.enable_ddl_propagation = off';
my $dir = PostgreSQL::Test::Utils::tempdir();
my $dump = "$dir/dump";

sub same
{
	my ($sql, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($both[$_]->safe_psql($sql), $expected, "$name, coordinator " . ($_ + 1)) for 0, 1;
	return;
}

sub nothing_prepared
{
	return is(join(' ', map { $c->node_safe_psql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1, 2), '0 0', 'nothing stays prepared');
}

$c->safe_psql(q{
	CREATE TABLE orders (id bigint PRIMARY KEY, code int, at timestamptz DEFAULT now());
	CREATE TABLE lines (id bigint, pos int, item text, PRIMARY KEY (id, pos));
	CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int);
	CREATE TABLE country (code int PRIMARY KEY, name text)});
$c->shard_table('orders', 'id', shards => 4);
$c->shard_table('lines', 'id', colocate_with => 'orders');
$c->shard_table('numbered', 'id', shards => 4);
$c->safe_psql(q{SELECT shardfdw.create_reference_table('country'); INSERT INTO country SELECT g, 'country ' || g FROM generate_series(0, 6) g});

command_ok([ 'pg_dump', '-d', $c->coordinator->connstr('postgres'), '-f', $dump ], 'pg_dump');
{
	local $ENV{PGOPTIONS} = '-c shardfdw.enable_ddl_propagation=off';
	command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $second->coordinator->connstr('postgres'), '-f', $dump ], 'restored on another server');
}
same(ShardCluster::problems('check_cluster()'), '', 'both agree with the nodes');
isnt($c->safe_psql('SELECT system_identifier FROM pg_control_system()'), $second->safe_psql('SELECT system_identifier FROM pg_control_system()'), 'they are two servers');

# ---------- both load ----------

for my $i (0, 1)
{
	open my $fh, '>', "$dir/orders$i" or die $!;
	print $fh map { $i * $rows + $_ . "\t" . $_ % 7 . "\n" } 1 .. $rows;
	close $fh;
}
my @loads = map { $both[$_]->start_sql("COPY orders (id, code) FROM '$dir/orders$_'; INSERT INTO lines SELECT id, 1, 'x' FROM orders WHERE id > $_ * $rows AND id <= ($_ + 1) * $rows") } 0, 1;
is(($both[$_]->wait_sql($loads[$_]))[2], '', 'load and INSERT ... SELECT, coordinator ' . ($_ + 1)) for 0, 1;
my $sum = 2 * $rows * (2 * $rows + 1) / 2;
same('SELECT count(*), sum(id), count(DISTINCT code) FROM orders', 2 * $rows . "|$sum|7", 'rows of both');
same('SELECT count(*), sum(orders.id) FROM orders JOIN lines USING (id)', 2 * $rows . "|$sum", 'and joined');
nothing_prepared();

# a load that fails undoes its own rows only
my $fails = $second->start_sql("COPY orders (id, code) FROM '$dir/orders0'");
$c->safe_psql("INSERT INTO orders SELECT g, 0 FROM generate_series(2 * $rows + 1, 2 * $rows + 100) g");
like(($second->wait_sql($fails))[2], qr/duplicate key value violates unique constraint/, 'keys of the other coordinator are known');
same('SELECT count(*) FROM orders', 2 * $rows + 100, 'the rest stays');

# ---------- both write the same rows ----------

# The sums would differ if an update were lost, or counted in part. One order, or they would wait for each other.
my $updates = join '; ', map { "UPDATE orders SET code = code + 1 WHERE id = $_" } 1 .. 8;
my @writes = map { $_->start_sql(join ";\n", map { "BEGIN; $updates; " . ($_ % 3 ? 'COMMIT' : 'ROLLBACK') } 1 .. 30) } @both;
for my $i (0, 1)
{
	my (undef, undef, $err) = $both[$i]->wait_sql($writes[$i]);
	is($err, '', 'UPDATE of the same rows, coordinator ' . ($i + 1));
}
same('SELECT sum(code) FROM orders WHERE id <= 8', 22 + 8 * 40, 'each counted once');
nothing_prepared();

# ---------- objects that are separate on each coordinator ----------

# sequences
$both[$_]->safe_psql('ALTER SEQUENCE numbered_id_seq INCREMENT BY 2 RESTART WITH ' . ($_ + 1)) for 0, 1;
my @inserts = map { $_->start_sql('INSERT INTO numbered (v) SELECT 1 FROM generate_series(1, 500)') } @both;
is(($both[$_]->wait_sql($inserts[$_]))[2], '', 'identity values, coordinator ' . ($_ + 1)) for 0, 1;
same('SELECT count(*), min(id), max(id) FROM numbered', '1000|1|1000', 'no value twice');

# definitions: created on one coordinator, and then on the other
my $ddl = "ALTER TABLE orders ADD COLUMN note text DEFAULT 'none'; CREATE INDEX orders_code ON orders (code); ALTER TABLE lines RENAME COLUMN item TO article";
$c->safe_psql($ddl);
is($second->safe_psql('SELECT count(*) FROM orders'), 2 * $rows + 100, 'a coordinator that has not been told reads on');
$second->psql_fails_like('SELECT item FROM lines WHERE id = 1', qr/column .*item.* does not exist/, 'but not what is gone');
$second->safe_psql("$keeps_nodes; $ddl");
same("SELECT note, count(*) FROM orders GROUP BY 1", 'none|' . (2 * $rows + 100), 'a column that was added');
same('SELECT article FROM lines WHERE id = 1', 'x', 'one that was renamed');
same(ShardCluster::problems('check_cluster()'), '', 'both agree with the nodes');

# reference tables: written through the first, followed by the second
my $join = 'SELECT name, count(*) FROM orders JOIN country USING (code) WHERE id > 8 GROUP BY name ORDER BY name LIMIT 2';
my $joined = $c->safe_psql($join);
is($second->safe_psql($join), $joined, 'joins with a reference table');
like($second->safe_psql("EXPLAIN (VERBOSE, COSTS OFF) $join"), qr/Remote SQL: .*JOIN public\.country/, 'are the nodes\'');
my $publisher = $c->coordinator->connstr('postgres');
$c->safe_psql("CREATE PUBLICATION countries FOR TABLE country; SELECT pg_create_logical_replication_slot('second', 'pgoutput')");
$second->safe_psql('SET shardfdw.enable_ddl_propagation = off; ALTER TABLE country DISABLE TRIGGER USER');
$second->safe_psql("CREATE SUBSCRIPTION countries CONNECTION \$c\$$publisher\$c\$ PUBLICATION countries WITH (create_slot = false, slot_name = 'second', copy_data = false)");
$c->safe_psql(q{UPDATE country SET name = upper(name) WHERE code = 1; DELETE FROM country WHERE code = 2; INSERT INTO country VALUES (7, 'last')});
ok($second->wait_for("SELECT count(*) = 1 FROM country WHERE name = 'last'"), 'it follows');
same('SELECT code, name FROM country WHERE code IN (1, 2, 7) ORDER BY code', "1|COUNTRY 1\n7|last", 'and has the same rows');
same($join, $c->safe_psql($join), 'joins have them, too');
same(ShardCluster::problems(q{check_cluster('rows')}), '', 'replicas on the nodes are as both tables');
$second->safe_psql('DROP SUBSCRIPTION countries');

# ---------- a coordinator is lost ----------

$c->safe_psql('BEGIN; UPDATE orders SET code = -1 WHERE id <= 100; COMMIT');
$c->kill9_coordinator;
is($second->safe_psql('SELECT count(*) FROM orders WHERE code = -1'), '100', 'the other one goes on');
$second->safe_psql('UPDATE orders SET code = -2 WHERE code = -1');
$c->coordinator->start;
same('SELECT count(*) FROM orders WHERE code = -2', '100', 'and the first when it is back');
nothing_prepared();

# ---------- a coordinator reads from standbys ----------

for my $i (1, 2)
{
	my $standby = ShardServer->standby_of("standby$i", $c->node($i));
	$second->safe_psql(sprintf q{ALTER SERVER node%d OPTIONS (SET host '%s', SET port '%d')}, $i, $standby->host, $standby->port);
}
$c->stop_node($_, 'immediate') for 1, 2;
is($second->safe_psql('SELECT count(*), count(DISTINCT note) FROM orders'), 2 * $rows + 100 . '|1', 'all shards');
is($second->safe_psql('SELECT code, note FROM orders WHERE id = 1'), '-2|none', 'one row');
is($second->safe_psql('SELECT count(*) FROM orders o JOIN lines l USING (id) WHERE l.pos = 1'), 2 * $rows, 'a join');
is($second->safe_psql("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL shardfdw.snapshot = 'cluster'; SELECT count(*) FROM orders; SELECT max(id) FROM lines; COMMIT"), 2 * $rows + 100 . "\n" . 2 * $rows, 'snapshots of all nodes');
is($second->safe_psql('COPY (SELECT id FROM orders WHERE id = 3) TO STDOUT'), '3', 'COPY TO');
$second->psql_fails_like('UPDATE orders SET code = 0', qr/25006: cannot execute UPDATE in a read-only transaction.*Node "node[12]"/s, 'writes are refused');
$second->psql_fails_like("COPY orders (id, code) FROM '$dir/orders0'", qr/25006: cannot execute COPY during recovery.*Node "node[12]"/s, 'and loads');
is($second->safe_psql('SELECT count(*) FROM orders'), 2 * $rows + 100, 'reading goes on');

done_testing();
