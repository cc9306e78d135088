# Moves shards while writers wait. Tests what is moved with a shard, what must stay unchanged, and
# what prevents a move.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE TABLE country (code text PRIMARY KEY);
	CREATE TABLE orders (id bigint PRIMARY KEY, customer text COLLATE "C" NOT NULL, total numeric(12,2) CHECK (total >= 0), double numeric GENERATED ALWAYS AS (total * 2) STORED, code text REFERENCES country);
	CREATE TABLE lines (id bigint, pos int, item text, kind regtype, PRIMARY KEY (id, pos));
	CREATE INDEX ON orders (customer);
	INSERT INTO country VALUES ('at'), ('se')});
$c->safe_psql(q{SELECT shardfdw.create_reference_table('country')});
$c->shard_table('orders', 'id', shards => 4);
$c->shard_table('lines', 'id', colocate_with => 'orders');
$c->safe_psql(q{
	INSERT INTO orders (id, customer, total, code) SELECT g, 'customer ' || g % 7, g, CASE g % 3 WHEN 0 THEN 'at' WHEN 1 THEN 'se' END FROM generate_series(1, 1000) g;
	INSERT INTO lines SELECT g, p, 'item', 'int'::regtype FROM generate_series(1, 1000) g, generate_series(1, 2) p;
	ALTER TABLE lines ADD FOREIGN KEY (id) REFERENCES orders;
	GRANT SELECT ON orders TO PUBLIC});

my %node = map { $_->[0] => $_->[1] } $c->shards_of('orders');
my $shard = (grep { $node{$_} == 1 } sort keys %node)[0];
my $lines = $shard =~ s/orders/lines/r;
$c->node_safe_psql(1, qq{COMMENT ON TABLE $shard IS 'of the node'; ALTER TABLE $shard SET (fillfactor = 80); CREATE INDEX its_own ON $lines (item);
	CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER noted AFTER INSERT ON $lines FOR EACH ROW EXECUTE FUNCTION note_it()});
my $query = 'SELECT count(*), count(DISTINCT id), sum(total), sum(double), sum(pos), count(DISTINCT kind) FROM orders JOIN lines USING (id)';
my $before = $c->safe_psql($query);
my $traces = q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'};
# Everything about a shard that a move has to preserve.
my $definition = qq{SELECT c.relname, c.reloptions, c.relacl, c.relrowsecurity, obj_description(c.oid),
	(SELECT string_agg(concat_ws(' ', attname, atttypid::regtype, attnotnull, attgenerated, attcollation), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0),
	(SELECT string_agg(pg_get_indexdef(indexrelid), ',' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid),
	(SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), ',' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid),
	(SELECT string_agg(pg_get_triggerdef(oid), ',' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal)
	FROM pg_class c WHERE c.relname IN ('$shard', '$lines') ORDER BY 1};
my $was = $c->node_safe_psql(1, $definition);

# ---------- moves that are refused ----------

sub fails
{
	my ($sql, $error, $name) = @_;
	my ($rc, $out, $err) = $c->psql($sql);
	like($err, $error, $name);
	return;
}

fails("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')", qr/function (public\.)?note_it\(\) does not exist/, 'a trigger whose function the target lacks');
is($c->node_safe_psql($_, $traces), 0, "nothing is left on node $_") for 1, 2;
is(join(' ', map { $_->[1] } grep { $_->[0] eq $shard } $c->shards_of('orders')), 1, 'the shard is where it was');
$c->node_safe_psql(2, q{CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'});
$c->node_safe_psql(2, "CREATE TABLE $shard (a int)");
fails("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')", qr/relation public\.$shard exists on node "node2" already/, 'a name that is taken');
$c->node_safe_psql(2, "DROP TABLE $shard");
$c->node_safe_psql(1, "CREATE VIEW v AS SELECT * FROM $lines");
fails("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')", qr/shard public\.$lines cannot be moved: it has rules or is in views on node node1/, 'a view');
$c->node_safe_psql(1, 'DROP VIEW v');
is($c->safe_psql($query), $before, 'all as before');

# ---------- a move ----------

my $id = $c->safe_psql("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')");
is($c->safe_psql("SELECT state, source, target, rows_copied > 0, bytes_copied > 0, write_pause IS NOT NULL, error IS NULL FROM shardfdw.jobs WHERE id = $id"),
	'done|node1|node2|t|t|t|t', 'a move');
is($c->safe_psql("SELECT shards FROM shardfdw.jobs WHERE id = $id"), "{public.$shard,public.$lines}", 'with the colocated shard');
is($c->node_safe_psql(2, $definition), $was, 'the definition is kept');
is($c->node_safe_psql(1, $definition), '', 'the old tables are gone');
is($c->node_safe_psql($_, $traces), 0, "nothing else is left on node $_") for 1, 2;
is($c->safe_psql($query), $before, 'all rows are there');
like($c->safe_psql("EXPLAIN (VERBOSE, COSTS OFF) $query"), qr/Remote SQL: .*JOIN/, 'and joined on the nodes');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = $$error$$}), q{}, q{check_cluster finds nothing wrong});
$c->safe_psql('ALTER TABLE orders ADD COLUMN note text; DELETE FROM lines WHERE id % 10 = 0; DELETE FROM orders WHERE id % 10 = 0; UPDATE orders SET total = total + 1');
is($c->safe_psql('SELECT count(*), (SELECT count(*) FROM lines) FROM orders'), '900|1800', 'DDL and writes find it');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = $$error$$}), q{}, q{check_cluster still finds nothing wrong});

done_testing();
