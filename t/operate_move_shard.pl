# Moves shards to another node as docs/usage.md describes, while other sessions read and write.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, total numeric CHECK (total >= 0));
	CREATE TABLE lines (id bigint, pos int, item text, PRIMARY KEY (id, pos));
	CREATE INDEX ON orders (customer)});
$c->shard_table('orders', 'id', shards => 4);
$c->shard_table('lines', 'id', colocate_with => 'orders');
$c->safe_psql(q{
	INSERT INTO orders SELECT g, 'customer ' || g % 7, g FROM generate_series(1, 1000) g;
	INSERT INTO lines SELECT g, p, 'item' FROM generate_series(1, 1000) g, generate_series(1, 2) p});

my $query = 'SELECT count(*), count(DISTINCT id), sum(total), sum(pos) FROM orders JOIN lines USING (id)';
my $before = $c->safe_psql($query);
my %node = map { $_->[0] => $_->[1] } $c->shards_of('orders');
my $shard = (sort keys %node)[0];
my $lines = $shard =~ s/orders/lines/r;
my ($from, $into) = $node{$shard} == 1 ? (1, 2) : (2, 1);
my %bounds = map { split /=/, $_, 2 } split /\n/, $c->safe_psql(q{SELECT relname || '=' || pg_get_expr(relpartbound, oid) FROM pg_class WHERE relpartbound IS NOT NULL});
my $id = $c->safe_psql("SELECT min(id) FROM generate_series(1::bigint, 1000) id WHERE shardfdw.shard_for('orders', id) = '$shard'::regclass");

# The commands of the documentation; $copy: pg_dump of one node into psql of the other.
sub move
{
	my ($end, $copy) = @_;
	my ($source, $target) = map { $c->node($_)->connstr('postgres') } $from, $into;
	$copy //= qq{pg_dump -d "$source" -t public.$shard -t public.$lines | psql -XAtq -v ON_ERROR_STOP=1 -d "$target" -o /dev/null};

	return $c->start_sql(qq{
BEGIN;
LOCK TABLE orders, lines IN EXCLUSIVE MODE;
\\! $copy
DROP FOREIGN TABLE $shard, $lines;
CREATE FOREIGN TABLE $shard PARTITION OF orders $bounds{$shard} SERVER node$into;
CREATE FOREIGN TABLE $lines PARTITION OF lines $bounds{$lines} SERVER node$into;
$end;
}, name => 'move');
}

# ---------- a move that is rolled back ----------

is(($c->wait_sql(move('ROLLBACK', 'true')))[2], '', 'a move that is rolled back');
is($c->safe_psql($query), $before, 'nothing has happened');
is(join(' ', map { $_->[1] } grep { $_->[0] eq $shard } $c->shards_of('orders')), $from, 'the shard is where it was');

# ---------- a move while other sessions work ----------

# It stops after the copy.
my $file = $c->coordinator->data_dir . '/go_on';
my ($source, $target) = map { $c->node($_)->connstr('postgres') } $from, $into;
my $move = move('COMMIT', qq{pg_dump -d "$source" -t public.$shard -t public.$lines | psql -XAtq -v ON_ERROR_STOP=1 -d "$target" -o /dev/null; until [ -e $file ]; do sleep 0.05; done});
$c->wait_for("SELECT to_regclass('public.$lines') IS NOT NULL", $into);
is($c->safe_psql($query), $before, 'others read');
my $writer = $c->start_sql("UPDATE orders SET total = total + 1000 WHERE id = $id; INSERT INTO lines VALUES ($id, 3, 'late')", name => 'writer');
$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'writer' AND state = 'active'});
append_to_file($file, '');
is(($c->wait_sql($move))[2], '', 'the move');
is(($c->wait_sql($writer))[2], '', 'a writer has waited for it');
is($c->safe_psql("SELECT total, count(*) FROM orders JOIN lines USING (id) WHERE id = $id GROUP BY total"), $id + 1000 . '|3', 'its row');
is($c->node_safe_psql($into, "SELECT total FROM public.$shard WHERE id = $id"), $id + 1000, 'is on the new node');
is($c->node_safe_psql($from, "SELECT total FROM public.$shard WHERE id = $id"), $id, 'and not on the old one');
is($c->safe_psql('SELECT count(*), sum(total) FROM orders'), '1000|501500', 'all rows are there');
is($c->safe_psql('SELECT count(*) FROM orders JOIN lines USING (id)'), '2001', 'joined');
like($c->safe_psql('EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM orders JOIN lines USING (id)'), qr/Remote SQL: .*JOIN/, 'on the nodes, as before');
is($c->safe_psql(ShardCluster::problems('check_cluster()')), '', 'check_cluster finds nothing wrong');

# ---------- leftovers on the old node ----------

$c->safe_psql("SELECT * FROM shardfdw.query_nodes('{node$from}', ARRAY['DROP TABLE public.$_'], 'write')") for $shard, $lines;
is($c->node_safe_psql($from, "SELECT to_regclass('public.$shard') IS NULL AND to_regclass('public.$lines') IS NULL"), 't', 'the old tables are gone');
is($c->safe_psql('SELECT count(*), sum(total) FROM orders'), '1000|501500', 'and nothing else');
$c->safe_psql('ALTER TABLE orders ADD COLUMN note text DEFAULT $$n$$; CREATE INDEX ON lines (item)');
is($c->safe_psql(ShardCluster::problems('check_cluster()')), '', 'DDL reaches the moved shards');

done_testing();
