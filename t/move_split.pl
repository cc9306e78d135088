# Splits and merges shards. Tests what the pieces have, where their rows are, what prevents a split,
# and what other sessions see while it runs.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $traces = q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots),
	(SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved'), (SELECT count(*) FROM pg_class WHERE relreplident = 'f'), (SELECT count(*) FROM pg_description WHERE description ~ '^shardfdw_[0-9a-f]{16}_')};

# Checks what must be true at any time: no leftovers, and no differences.
sub clean
{
	my ($name) = @_;
	$c->wait_for_slots;
	is(join(' ', map { $c->node_safe_psql($_, $traces) } 1, 2), '0|0|0|0|0|0 0|0|0|0|0|0', "$name: nothing is left on the nodes");
	is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');
	return;
}

# Rows that are in a shard to which they do not belong.
sub misplaced
{
	my ($table, $key) = @_;
	return $c->safe_psql("SELECT count(*) FROM $table WHERE shardfdw.shard_for('$table', $key) <> tableoid");
}

$c->safe_psql(q{
	CREATE TABLE country (code text PRIMARY KEY);
	CREATE TABLE orders (id bigint PRIMARY KEY, customer text COLLATE "C" NOT NULL, total numeric(12,2) DEFAULT 7 CHECK (total >= 0), double numeric GENERATED ALWAYS AS (total * 2) STORED, code text DEFAULT 'no' REFERENCES country ON DELETE SET DEFAULT);
	CREATE TABLE lines (id bigint, pos int, item text, PRIMARY KEY (id, pos), UNIQUE (id, item, pos) DEFERRABLE);
	CREATE INDEX ON orders (customer);
	CREATE INDEX by_lower ON lines (lower(item)) WHERE pos > 1;
	INSERT INTO country VALUES ('at'), ('se'), ('no');
	CREATE ROLE clerk});
$c->node_safe_psql($_, 'CREATE ROLE clerk') for 1, 2;
$c->safe_psql(q{SELECT shardfdw.create_reference_table('country')});
$c->shard_table('orders', 'id', shards => 4);
$c->shard_table('lines', 'id', colocate_with => 'orders');
$c->safe_psql(q{
	INSERT INTO orders (id, customer, total, code) SELECT g, 'customer ' || g % 7, g, CASE g % 3 WHEN 0 THEN 'at' WHEN 1 THEN 'se' END FROM generate_series(1, 1000) g;
	INSERT INTO lines SELECT g, p, 'item' FROM generate_series(1, 1000) g, generate_series(1, 2) p;
	ALTER TABLE lines ADD FOREIGN KEY (id) REFERENCES orders;
	GRANT SELECT ON orders TO PUBLIC; GRANT UPDATE (total) ON orders TO clerk;
	ALTER TABLE lines ENABLE ROW LEVEL SECURITY;
	ANALYZE orders});
my ($node) = map { $_->[1] } grep { $_->[0] eq 'orders_01' } $c->shards_of('orders');
$c->safe_psql(q{ALTER FOREIGN TABLE orders_01 OPTIONS (ADD pinned 'true'); COMMENT ON FOREIGN TABLE orders_01 IS 'from here'; GRANT SELECT, UPDATE (total) ON orders_01 TO clerk});
$c->node_safe_psql($node, q{COMMENT ON TABLE orders_01 IS 'of the node'; CREATE STATISTICS item_pos ON item, pos FROM lines_01; ALTER TABLE orders_01 SET (fillfactor = 80); CREATE INDEX its_own ON lines_01 (item); COMMENT ON INDEX its_own IS 'quick'});
my $query = 'SELECT count(*), count(DISTINCT id), sum(total), sum(double), sum(pos) FROM orders JOIN lines USING (id)';
my $before = $c->safe_psql($query);

# ---------- splits that are refused ----------

sub fails
{
	my ($sql, $error, $name) = @_;
	my ($rc, $out, $err) = $c->psql($sql);
	like($err, $error, $name);
	return;
}

fails(q{SELECT shardfdw.split_shard('orders')}, qr/"orders" is not a shard/, 'a table');
fails(q{SELECT shardfdw.split_shard('orders_01', 1)}, qr/a shard cannot be split into 1/, 'into one');
fails(q{SELECT shardfdw.split_shard('orders_01', mode => 'x')}, qr/invalid mode "x"/, 'a mode');
fails(q{SELECT shardfdw.split_shard(NULL)}, qr/must not be null/, 'null');
$c->node_safe_psql($node, 'CREATE TABLE orders_05 (a int)');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.orders_01 cannot be split: it needs the name public\.orders_05, which is taken on node node$node/, 'a name that is taken on the node');
$c->node_safe_psql($node, 'DROP TABLE orders_05');
$c->safe_psql('CREATE TABLE lines_04 (a int)');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it needs the name lines_04, which is taken on the coordinator/, 'and here');
$c->safe_psql('DROP TABLE lines_04; CREATE VIEW one AS SELECT * FROM lines_01');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it is used by rule _RETURN on view public\.one/, 'a view of the shard');
$c->safe_psql('DROP VIEW one; CREATE TABLE of_type (l lines_01[])');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it is used by column l of table public\.of_type/, 'its row type');
$c->safe_psql('DROP TABLE of_type');
$c->node_safe_psql($node, 'CREATE TABLE "of 100% type" (l lines_01)');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it is used by column l of table public\."of 100% type" on node node$node/, 'its row type on the node');
$c->node_safe_psql($node, 'DROP TABLE "of 100% type"; CREATE FUNCTION user_of_it() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM lines_01; END');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it is used by function public\.user_of_it\(\) on node node$node/, 'a function on the node');
$c->node_safe_psql($node, 'DROP FUNCTION user_of_it(); CREATE DOMAIN orders_05 AS int');
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.orders_01 cannot be split: it needs the name public\.orders_05, which is taken on node node$node/, 'a type of that name on the node');
$c->node_safe_psql($node, 'DROP DOMAIN orders_05');
$c->node_safe_psql($node, q{CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER noted AFTER INSERT ON lines_01 FOR EACH ROW EXECUTE FUNCTION note_it()});
fails(q{SELECT shardfdw.split_shard('orders_01')}, qr/shard public\.lines_01 cannot be split: it has triggers on node/, 'a trigger on the node');
$c->node_safe_psql($node, 'DROP FUNCTION note_it() CASCADE');
$c->safe_psql(q{CREATE TABLE lists (k int) PARTITION BY LIST (k); SELECT shardfdw.create_shard('lists', 'lists_1', 'IN (1)', 'node1'), shardfdw.create_shard('lists', 'lists_2', 'IN (2)', 'node1');
	CREATE TABLE cased (k text COLLATE "C"); SELECT shardfdw.shard_table('cased', 'k', shards => 1); CREATE TABLE odd (k int) PARTITION BY HASH (k);
	SELECT shardfdw.create_shard('odd', 'odd_0', 'WITH (MODULUS 2, REMAINDER 0)', 'node1'), shardfdw.create_shard('odd', 'odd_1', 'WITH (MODULUS 4, REMAINDER 1)', 'node1'), shardfdw.create_shard('odd', 'odd_2', 'WITH (MODULUS 4, REMAINDER 3)', 'node1')});
fails(q{SELECT shardfdw.split_shard('lists_1')}, qr/shard public\.lists_1 cannot be split without values: table public\.lists is not partitioned by HASH/, 'LIST');
fails(q{SELECT shardfdw.split_shard('odd_0', 3)}, qr/shard public\.odd_0 cannot be split: the new modulus would be 6/, 'a modulus that does not fit');
$c->safe_psql(q{CREATE TABLE lowered (k text) PARTITION BY HASH (lower(k)); SELECT shardfdw.create_shard('lowered', 'lowered_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1')});
fails(q{SELECT shardfdw.split_shard('lowered_0')}, qr/shard public\.lowered_0 cannot be split: its key has an expression/, 'an expression');
$c->safe_psql(q{CREATE TABLE huge (k int) PARTITION BY HASH (k); SELECT shardfdw.create_shard('huge', 'huge_0', 'WITH (MODULUS 65536, REMAINDER 0)', 'node1')});
fails(q{SELECT shardfdw.split_shard('huge_0')}, qr/the new modulus would be 131072/, 'one that is too large');
is($c->safe_psql($query), $before, 'all as before');
clean('refused');

# ---------- a split ----------

for my $mode (qw(online block))
{
	my ($old, @new) = $mode eq 'online' ? qw(01 04 05) : qw(02 06 07);
	my $id = $c->safe_psql("SELECT shardfdw.split_shard('lines_$old', mode => '$mode')");
	is($c->safe_psql("SELECT kind, state, source = target, mode, rows_copied > 0, write_pause IS NOT NULL, error IS NULL, shards FROM shardfdw.jobs WHERE id = $id"),
		"split|done|t|$mode|t|t|t|{public.orders_$old,public.lines_$old}", "$mode: a split");
	is(join(' ', grep { /_(?:$old|$new[0]|$new[1])$/ } map { $_->[0] } $c->shards_of('orders'), $c->shards_of('lines')), join(' ', map { my $t = $_; map { "${t}_$_" } @new } qw(orders lines)), 'pieces are there, the shard is not');
	is($c->safe_psql($query), $before, 'all rows are there');
	is(misplaced('orders', 'id') . misplaced('lines', 'id'), '00', 'each where it belongs');
	isnt($c->safe_psql("SELECT count(*) FROM orders_$_"), 0, "orders_$_ has some") for @new;
	like($c->safe_psql("EXPLAIN (VERBOSE, COSTS OFF) $query"), qr/Remote SQL: .*JOIN/, 'joined on the nodes');
	clean($mode);
}
is($c->safe_psql(q{SELECT string_agg(pg_get_expr(relpartbound, oid), ', ' ORDER BY relname) FROM pg_class WHERE relname IN ('orders_04', 'orders_05')}),
	'FOR VALUES WITH (modulus 8, remainder 1), FOR VALUES WITH (modulus 8, remainder 5)', 'bounds');
is($c->safe_psql(q{SELECT string_agg(o, ' ') || ' ' || obj_description(c.oid) || ' ' || c.relacl::text FROM pg_class c JOIN pg_foreign_table f ON ftrelid = c.oid, unnest(ftoptions) o WHERE relname = 'orders_05' GROUP BY c.oid}) =~ s/\w+=arwdDxtm?\/\w+,//r,
	'pinned=true from here {clerk=r/postgres}', 'options, comment and privileges of the foreign table');
is($c->safe_psql(q{SELECT attacl FROM pg_attribute WHERE attrelid = 'orders_05'::regclass AND attname = 'total'}), '{clerk=w/postgres}', 'and of its columns');
is($c->safe_psql(q{SELECT count(*) > 0 FROM pg_stats WHERE tablename = 'orders_04'}), 't', 'statistics of a shard that had some');
is($c->safe_psql(q{SELECT count(*) FROM pg_stats WHERE tablename = 'lines_04'}), 0, 'none of one that had none');
is($c->node_safe_psql($node, q{SELECT string_agg(i.indexrelid::regclass::text, ' ' ORDER BY i.indexrelid::regclass::text COLLATE "C") FROM pg_index i WHERE i.indrelid IN ('orders_04'::regclass, 'lines_05'::regclass)}) =~ s/lines_id_item_pos_key/liip/r,
	'by_lower_05 its_own_05 liip_05 lines_pkey_05 orders_customer_idx_04 orders_pkey_04', 'names of indexes');
is($c->node_safe_psql($node, q{SELECT obj_description('orders_04'::regclass) || ' ' || reloptions::text || ' ' || obj_description('its_own_04'::regclass) FROM pg_class WHERE relname = 'orders_04'}), 'of the node {fillfactor=80} quick', 'comments, storage');
is($c->node_safe_psql($node, q{SELECT string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conrelid::regclass::text) FROM pg_constraint WHERE contype = 'f' AND conrelid IN ('orders_04'::regclass, 'lines_05'::regclass)}),
	'lines_05 FOREIGN KEY (id) REFERENCES orders_05(id), orders_04 FOREIGN KEY (code) REFERENCES country(code) ON DELETE SET DEFAULT', 'foreign keys');
is($c->node_safe_psql($node, q{SELECT string_agg(pg_get_statisticsobjdef(oid), ', ') FROM pg_statistic_ext WHERE stxrelid = 'lines_04'::regclass}), 'CREATE STATISTICS public.item_pos_04 ON pos, item FROM lines_04', 'statistics');
is($c->node_safe_psql($node, q{SELECT has_table_privilege('clerk', 'orders_05', 'SELECT'), has_column_privilege('clerk', 'orders_05', 'total', 'UPDATE')}), $c->node_safe_psql($node == 1 ? 2 : 1, q{SELECT has_table_privilege('clerk', c.oid, 'SELECT'), has_column_privilege('clerk', c.oid, 'total', 'UPDATE') FROM pg_class c WHERE relname ~ '^orders_\d+$' LIMIT 1}), 'privileges');

# changes of the table also change the pieces
$c->safe_psql('ALTER TABLE orders ADD COLUMN note text; DROP INDEX orders_customer_idx, by_lower; ALTER TABLE lines DROP CONSTRAINT lines_id_item_pos_key; CREATE INDEX ON lines (pos);
	DELETE FROM lines WHERE id % 10 = 0; DELETE FROM orders WHERE id % 10 = 0; UPDATE orders SET total = total + 1; INSERT INTO orders (id, customer) SELECT g, $$x$$ FROM generate_series(2000, 2100) g');
is($c->safe_psql('SELECT count(*), (SELECT count(*) FROM lines), min(total) FROM orders'), '1001|1800|2.00', 'DDL and writes find the pieces') || diag($c->safe_psql('SELECT min(total) FROM orders'));
is($c->safe_psql(q{SELECT count(*) FROM (SELECT shardfdw.move_shard('orders_04', 'node' || (3 - right(node, 1)::int)) FROM shardfdw.shards WHERE shard = 'orders_04'::regclass) m}), 1, 'a piece moves');
is($c->safe_psql(q{SELECT shardfdw.split_shard('orders_04', 4) > 0}), 't', 'and is split, into four');
is(join(' ', map { $_->[0] } $c->shards_of('orders')), join(' ', map { "orders_$_" } qw(00 03 05 06 07 08 09 10 11)), 'these are the shards now');
is($c->safe_psql(q{SELECT string_agg(DISTINCT result, ';') FROM shardfdw.run_on_shards('orders', $q$SELECT string_agg(format('%%s %%s', a.attname, pg_get_expr(d.adbin, d.adrelid)), ',') FROM pg_attrdef d
	JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = to_regclass(%L) AND a.attgenerated = ''$q$)}), q{code 'no'::text}, 'with the default that their key sets');
is(misplaced('orders', 'id') . misplaced('lines', 'id'), '00', 'with their rows');
my ($rc, $out, $err) = $c->psql(q{COPY orders (id, customer) FROM PROGRAM 'seq -f "%g,c" 5001 6000' (FORMAT csv)});
is("$err" . misplaced('orders', 'id'), '0', 'COPY finds them');
is($c->safe_psql('SELECT count(*) FROM generate_series(5001, 6000) g JOIN LATERAL (SELECT 1 FROM orders WHERE id = g) o ON true'), 1000, 'and each key finds its row');
clean('again');

# ---------- merges ----------

sub merge { my ($shards, $options) = @_; return "SELECT shardfdw.merge_shards('$shards'" . ($options // '') . ')'; }

fails(merge('{orders_08}'), qr/1 shards cannot be merged/, 'one shard');
fails(merge('{orders_08,NULL}'), qr/must not be null/, 'null');
fails(merge('{orders_08,orders}'), qr/"orders" is not a shard/, 'a table');
fails(merge('{orders_08,lines_09}'), qr/shards of different tables cannot be merged/, 'two tables');
fails(merge('{orders_08,orders_08}'), qr/a shard cannot be merged with itself/, 'the same one twice');
fails(merge('{orders_08,orders_09}'), qr/these shards of table public\.orders do not make up one/, 'not those that belong together');
fails(merge('{orders_00,orders_05}'), qr/these shards of table public\.orders do not make up one/, 'other moduli');
fails(merge('{orders_00,orders_03}'), qr/these shards of table public\.orders do not make up one/, 'remainders that do not fit');
$c->safe_psql('CREATE TABLE apart (id uuid PRIMARY KEY)');
$c->shard_table('apart', 'id', shards => 2);
fails(merge('{apart_00,apart_01}'), qr/these shards of table public\.apart are not on one node/, 'on two nodes');
my $rows = $c->safe_psql('SELECT count(*), sum(total), (SELECT count(*) FROM lines) FROM orders');
$c->node_safe_psql($c->safe_psql(q{SELECT right(node, 1) FROM shardfdw.shards WHERE shard = 'orders_08'::regclass}), 'CREATE INDEX of_the_first ON orders_08 (note)');
for my $mode (qw(online block))
{
	my ($old, $new) = $mode eq 'online' ? ('{lines_08,lines_10}', 12) : ('{orders_09,orders_11}', 13);
	my $id = $c->safe_psql(merge($old, ", mode => '$mode'"));
	is($c->safe_psql("SELECT kind, state, source = target, mode, rows_copied > 0, error IS NULL, cardinality(shards) FROM shardfdw.jobs WHERE id = $id"), "merge|done|t|$mode|t|t|4", "$mode: a merge");
	is($c->safe_psql('SELECT count(*), sum(total), (SELECT count(*) FROM lines) FROM orders'), $rows, 'all rows are there');
	is(misplaced('orders', 'id') . misplaced('lines', 'id'), '00', 'each where it belongs');
	isnt($c->safe_psql("SELECT count(*) FROM orders_$new"), 0, "orders_$new has some");
	clean($mode);
}
is($c->safe_psql(q{SELECT string_agg(concat_ws(' ', relname, pg_get_expr(relpartbound, oid)), ', ' ORDER BY relname) FROM pg_class WHERE relname ~ '^orders_1\d$'}),
	'orders_12 FOR VALUES WITH (modulus 16, remainder 1), orders_13 FOR VALUES WITH (modulus 16, remainder 9)', 'bounds');
is($c->node_safe_psql($c->safe_psql(q{SELECT right(node, 1) FROM shardfdw.shards WHERE shard = 'orders_12'::regclass}), q{SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'orders_12'::regclass}),
	'of_the_first_12 orders_pkey_12', 'indexes of the first');
is($c->safe_psql(q{SELECT shardfdw.merge_shards('{orders_13,orders_12}') > 0 AND shardfdw.split_shard('orders_00') > 0}), 't', 'in the other order; and a split');
$c->safe_psql('DROP TABLE apart; ALTER TABLE orders DROP COLUMN note; CREATE INDEX ON orders (total); UPDATE orders SET total = total + 1; UPDATE orders SET total = total - 1');
is($c->safe_psql('SELECT count(*), sum(total), (SELECT count(*) FROM lines) FROM orders'), $rows, 'DDL and writes find the pieces');
is(misplaced('orders', 'id') . misplaced('lines', 'id'), '00', 'with their rows');
clean('merged');
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 2 unless $faults;
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_indexed';
	append_to_file($file, '');
	$c->safe_psql('CREATE TABLE cut (id text PRIMARY KEY)');
	$c->set_faults('move_indexed=wait');
	$c->safe_psql(q{SELECT shardfdw.shard_table('cut', 'id', shards => 2, nodes => '{node1}'); INSERT INTO cut SELECT i FROM generate_series(1, 50) i});
	my $left = $c->safe_psql('SELECT count(*) FROM cut_01');
	my $job = $c->safe_psql(merge('{cut_00,cut_01}', ', wait => false'));
	$c->wait_for("SELECT state <> 'running' OR stage = 'indexing' FROM shardfdw.jobs WHERE id = $job");
	$c->safe_psql('TRUNCATE cut_00');
	unlink $file;
	$c->set_faults('');
	fails("SELECT shardfdw.wait_job($job)", qr/shard public\.cut_00 was truncated while it was merged/, 'TRUNCATE of one of them');
	is($c->safe_psql('SELECT count(*) FROM cut'), $left, 'its rows are gone, those of the other stay');
	clean('truncated');
}

# ---------- all shards of a table ----------

$c->safe_psql('CREATE TABLE grow (id time PRIMARY KEY); CREATE TABLE along (id time, v int)');
$c->safe_psql(q{SELECT shardfdw.shard_table('grow', 'id', shards => 3); SELECT shardfdw.shard_table('along', 'id', colocate_with => 'grow');
	INSERT INTO grow SELECT '00:00'::time + i * interval '1 s' FROM generate_series(1, 300) i; INSERT INTO along SELECT id, 1 FROM grow});
fails('SELECT shardfdw.set_shard_count($$grow$$, 4)', qr/table public\.grow cannot have 4 shards.*modulus 3, which is neither a factor nor a multiple/s, 'another number that does not fit');
fails('SELECT shardfdw.set_shard_count($$grow$$, 0)', qr/a table cannot have 0 shards/, 'none');
fails('SELECT shardfdw.set_shard_count($$lists$$, 2)', qr/lists cannot be altered: it is not sharded by HASH/, 'LIST');
fails('BEGIN; SELECT count(*) FROM grow; SELECT shardfdw.set_shard_count($$grow$$, 6)', qr/set_shard_count\(\) cannot wait in a transaction that has used/, 'in a transaction that has used nodes');
is(($c->psql(q{SELECT shardfdw.split_shard('grow_01')}))[2], '', 'one of them, by hand');
for my $n (12, 6, 1, 2)
{
	my ($rc, $out, $err) = $c->psql("SET client_min_messages = warning; SELECT shardfdw.set_shard_count('grow', $n, mode => 'block')");
	is($err, '', "$n shards");
	is($c->safe_psql(q{SELECT count(*) || ' ' || count(DISTINCT shardfdw.shard_for('grow', id)) || ' ' || count(*) FILTER (WHERE shardfdw.shard_for('grow', id) <> tableoid) FROM grow}), "300 $n 0", 'with all rows');
	is($c->safe_psql(q{SELECT string_agg(DISTINCT substring(bounds FROM 'modulus \d+'), ' ') || ' ' || count(*) FROM shardfdw.shards WHERE relation IN ('grow'::regclass, 'along'::regclass)}), "modulus $n " . 2 * $n, 'of one modulus');
}
is($c->safe_psql('SELECT count(*) FROM grow JOIN along USING (id)'), 300, 'colocated tables, too');
clean('all shards');

# The next step of set_shard_count from one number of shards to another: the largest step towards
# the target.
for ([1, 66, 'split 33'], [2, 132, 'split 33'], [3, 48, 'split 16'], [18, 1, 'merge 9'], [31, 1, '31 shards of modulus 31'], [30, 2, 'merge 15'], [1, 67, 'split into more than 64'], [2, 2 * 131, 'split into more than 64'])
{
	my ($from, $to, $step) = @$_;
	$c->safe_psql("CREATE TABLE steps (id int)");
	$c->safe_psql(qq{SELECT shardfdw.shard_table('steps', 'id', shards => $from, nodes => '{node1}')});
	my ($rc, $out, $err) = $c->psql(q{SELECT action || ' ' || CASE action WHEN 'merge' THEN cardinality(members) ELSE pieces END FROM shardfdw_internal.sharding_step('steps', } . "$to)");
	like("$out$err", $from == 31 ? qr/More than 16 shards of modulus 31 would have to become one/ : qr/$step/, "from $from to $to shards");
	$c->safe_psql('DROP TABLE steps');
}
# moduli between must stay factors of each other
$c->safe_psql(q{CREATE TABLE steps (id int) PARTITION BY HASH (id)});
$c->safe_psql(qq{SELECT shardfdw.create_shard('steps', 'steps_$_->[1]', 'WITH (MODULUS $_->[0], REMAINDER $_->[1])', 'node1')}) for [2, 0], [4, 1], [4, 3];
is($c->safe_psql(q{SELECT action, pieces FROM shardfdw_internal.sharding_step('steps', 132)}), 'split|22', 'to 132 shards beside some of modulus 4');

# Two splits of one table at the same time, of shards on two nodes: the second numbers its pieces when the first is done.
$c->safe_psql(q{CREATE TABLE twice (id int PRIMARY KEY); INSERT INTO twice SELECT generate_series(1, 100)});
$c->safe_psql(q{SELECT shardfdw.shard_table('twice', 'id', shards => 2, nodes => '{node1,node2}')});
{
	my @jobs = map { $c->safe_psql("SELECT shardfdw.split_shard('twice_0$_', wait => false)") } 0, 1;
	is(join(' ', map { ($c->psql("SELECT shardfdw.wait_job($_)"))[1] } @jobs), 'done done', 'two splits of one table at the same time');
	is($c->safe_psql('SELECT count(*) FROM twice') . ' ' . $c->safe_psql(q{SELECT count(DISTINCT shard) FROM shardfdw.shards WHERE relation = 'twice'::regclass}), '100 4', 'which has its pieces, and its rows');
}

# No role may read more rows of the pieces than of the shard, on the coordinator or on nodes,
# whatever the default privileges are.
$c->safe_psql(q{CREATE TABLE secret (id int PRIMARY KEY); INSERT INTO secret SELECT generate_series(1, 100)});
$c->safe_psql(q{SELECT shardfdw.shard_table('secret', 'id', shards => 1, nodes => '{node1}'); GRANT SELECT ON secret_00 TO clerk});
$c->node_safe_psql(1, 'GRANT INSERT ON secret_00 TO clerk');
for (sub { $c->safe_psql($_[0]) }, map { my $n = $_; sub { $c->node_safe_psql($n, $_[0]) } } 1, 2)
{
	$_->(q{ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO clerk});
}
is(($c->psql(q{SELECT shardfdw.split_shard('secret_00')}))[2], '', 'a split beside default privileges');
is(($c->psql(q{SELECT shardfdw.move_shard('secret_02', 'node2')}))[2], '', 'a move');
is($c->safe_psql(q{SELECT string_agg(relacl::text, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('secret_01', 'secret_02')}), join(' ', ('{postgres=arwdDxt/postgres,clerk=r/postgres}') x 2), 'give nobody more rights here')
  if $c->coordinator->pg_version->major < 17;
for my $node (1, 2)
{
	is($c->node_safe_psql($node, qq{SELECT has_table_privilege('clerk', 'secret_0$node', 'SELECT') || ' ' || has_table_privilege('clerk', 'secret_0$node', 'INSERT')}), 'false true', "nor on node $node");
}
is($c->safe_psql(q{SELECT string_agg(has_table_privilege('clerk', shard, 'SELECT') || ' ' || has_table_privilege('clerk', shard, 'INSERT'), ' ') FROM shardfdw.shards WHERE relation = 'secret'::regclass}), 'true false true false', 'nor here');
for (sub { $c->safe_psql($_[0]) }, map { my $n = $_; sub { $c->node_safe_psql($n, $_[0]) } } 1, 2)
{
	$_->(q{ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC; ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM clerk});
}

# A table with triggers for each row on the coordinator: its partitions have copies of them.
$c->safe_psql(q{CREATE TABLE watched (id int PRIMARY KEY); CREATE TABLE seen (id int)});
$c->safe_psql(q{SELECT shardfdw.shard_table('watched', 'id', shards => 2, nodes => '{node1}')});
$c->safe_psql(q{CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO seen VALUES (NEW.id); RETURN NULL; END$$;
	CREATE TRIGGER see AFTER INSERT OR UPDATE OF id ON watched FOR EACH ROW EXECUTE FUNCTION see()});
is(($c->psql(q{SELECT shardfdw.split_shard('watched_00') > 0 AND shardfdw.move_shard('watched_01', 'node2') > 0}))[2], '', 'a table with a row trigger');
$c->safe_psql('INSERT INTO watched SELECT generate_series(1, 50)');
is($c->safe_psql('SELECT count(DISTINCT id) || $$ $$ || count(*) FROM seen'), '50 50', 'which fires for each row afterwards');
$c->safe_psql('ALTER TABLE watched_01 DISABLE TRIGGER see');
fails(q{SELECT shardfdw.split_shard('watched_01')}, qr/has triggers that are enabled otherwise than those of its table/, 'a trigger that is disabled for one shard');
# tables with the same key type and number of shards are colocated with others
$c->safe_psql('DROP TABLE steps, twice, secret, watched, seen');
clean('names, rights, triggers');

# ---------- snapshots from before a split ----------

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 2);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i; CREATE TABLE here AS SELECT 1 AS a');
for my $snapshot (qw(node cluster))
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my $shard = ($c->shards_of('t'))[0]->[0];
	$session->query_safe("\\set VERBOSITY sqlstate\nSET shardfdw.snapshot = '$snapshot'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM here; SELECT count(*) FROM orders");
	is(($c->psql("SELECT shardfdw.split_shard('$shard')"))[2], '', "snapshot $snapshot: a split beside an older snapshot");
	$session->query('SELECT sum(v) FROM t');
	like($session->{stderr}, qr/40001/, 'which cannot read the pieces');
	$session->query('ROLLBACK');
	is(scalar $session->query('SELECT count(*) FROM t'), 100, 'a new one can');
	$session->quit;
}
{
	my $prepared = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$prepared->query_safe("SET plan_cache_mode = force_generic_plan; PREPARE r(int) AS SELECT v FROM t WHERE id = \$1; PREPARE w(int) AS UPDATE t SET v = v + 1 WHERE id = \$1; PREPARE a AS UPDATE t SET v = v + 1; EXECUTE r(1); EXECUTE w(1); EXECUTE a");
	my $reader = $c->coordinator->background_psql('postgres');
	$reader->query_safe('BEGIN; SELECT count(*) FROM t');
	my $shard = ($c->shards_of('t'))[0]->[0];
	my $job = $c->safe_psql("SELECT shardfdw.split_shard('$shard', wait => false)");
	$c->wait_for("SELECT waits_for LIKE 'transactions that use the tables%' FROM shardfdw.jobs WHERE id = $job");
	is($c->safe_psql('SELECT count(*) FROM t'), 100, 'others read while it waits for a reader');
	is(scalar $reader->query('SELECT sum(v) FROM t'), $c->safe_psql('SELECT sum(v) FROM t'), 'who goes on, too');
	$reader->query_safe('COMMIT');
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'and is done when he has ended');
	$prepared->query_safe("EXECUTE w($_)") for 1 .. 100;
	$prepared->query_safe('EXECUTE a');
	is($c->safe_psql('SELECT sum(v), misplaced FROM t, (SELECT count(*) FROM t WHERE shardfdw.shard_for($$t$$, id) <> tableoid) x(misplaced) GROUP BY 2'), '301|0', 'prepared statements find the pieces');
	$_->quit for $prepared, $reader;
}

for my $snapshot (qw(node cluster))
{
	for my $first ('SELECT count(*) FROM orders', 'UPDATE here SET a = a', 'DECLARE cursor_ CURSOR FOR SELECT * FROM orders; FETCH FROM cursor_')
	{
		my $session = $c->coordinator->background_psql('postgres');
		$session->query_safe("SET shardfdw.snapshot = '$snapshot'; BEGIN; $first");
		my $shard = ($c->shards_of('t'))[0]->[0];
		is(($c->psql("SELECT shardfdw.split_shard('$shard', mode => 'block')"))[2], '', "READ COMMITTED, $snapshot, $first, a split");
		is(scalar $session->query_safe('SELECT count(*) FROM t'), 100, 'then all rows');
		is(scalar $session->query_safe('UPDATE t SET v = v WHERE id <= 10; SELECT count(*) FROM t WHERE id <= 10'), 10, 'and writes');
		$session->query_safe('COMMIT');
		$session->quit;
	}
}
{
	$c->safe_psql('TRUNCATE lists; INSERT INTO lists VALUES (1), (2)');
	my $user = $c->coordinator->background_psql('postgres');
	$user->query_safe('BEGIN; SELECT count(*) FROM lists');
	my $detach = $c->start_sql('ALTER TABLE lists DETACH PARTITION lists_2 CONCURRENTLY', name => 'detach');
	$c->wait_for('SELECT count(*) = 1 FROM pg_inherits WHERE inhdetachpending');
	my $reader = $c->coordinator->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT a FROM here');
	# so that the other shard looks new
	$c->safe_psql(q{UPDATE pg_foreign_table SET ftoptions = ftoptions WHERE ftrelid = 'lists_1'::regclass});
	is(scalar $reader->query_safe('SELECT count(*) FROM lists'), 1, 'a partition that is being detached is no former shard');
	$_->query_safe('COMMIT') for $reader, $user;
	$_->quit for $reader, $user;
	$c->wait_sql($detach);
}

# Plans that read or change shards one by one, and have no part for the former shard; a table of two
# levels.
$c->safe_psql(q{CREATE TABLE alone (id bigint PRIMARY KEY, v int); INSERT INTO alone SELECT i, 0 FROM generate_series(1, 100) i});
$c->shard_table('alone', 'id', shards => 2);
$c->safe_psql(q{CREATE TABLE upper_ (id int, half int, v int) PARTITION BY LIST (half); CREATE TABLE upper_1 PARTITION OF upper_ FOR VALUES IN (1) PARTITION BY HASH (id)});
$c->safe_psql(qq{SELECT shardfdw.create_shard('upper_1', 'upper_1_$_', 'WITH (MODULUS 2, REMAINDER $_)', 'node1')}) for 0, 1;
$c->safe_psql(q{CREATE TABLE upper_2 PARTITION OF upper_ FOR VALUES IN (2); INSERT INTO upper_ SELECT i, 1 + i % 2, 0 FROM generate_series(1, 100) i});
my $nqueries = 0;
for my $snapshot (qw(node cluster))
{
	for my $query ('SELECT count(DISTINCT tableoid) FROM alone', 'WITH u AS (UPDATE alone SET v = v RETURNING 1) SELECT count(*) FROM u', 'WITH d AS (DELETE FROM alone RETURNING 1) SELECT count(*) FROM d',
		'SELECT count(*) FROM alone TABLESAMPLE BERNOULLI (100)', 'SELECT count(*) FROM (SELECT * FROM alone FOR UPDATE) x', 'SELECT count(*) FROM upper_', 'WITH u AS (UPDATE upper_ SET v = v RETURNING 1) SELECT count(*) FROM u')
	{
		next unless ShardCluster::in_half($nqueries++);
		my $table = $query =~ /upper_/ ? 'upper_1' : 'alone';
		my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
		$session->query_safe("\\set VERBOSITY sqlstate\nSET shardfdw.snapshot = '$snapshot'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM here; SELECT count(*) FROM orders");
		my ($first, $second) = map { $_->[0] } $c->shards_of($table);
		my ($rc, $out, $err) = $c->psql("SELECT shardfdw.split_shard('$first', mode => 'block')");
		is($err, '', "$snapshot, $query: a split");
		$session->query($query);
		like($session->{stderr}, qr/40001/, 'which cannot be served');
		$session->query('ROLLBACK');
		$session->quit;
	}
}
$c->safe_psql('DROP TABLE upper_, alone');

# The node does not get the commit of the switch. Its prepared transaction has the trigger that
# marks the old table.
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 8 unless $faults;
	$c->safe_psql(q{CREATE TABLE unheard (id int PRIMARY KEY); INSERT INTO unheard SELECT generate_series(1, 50)});
	$c->safe_psql(q{SELECT shardfdw.shard_table('unheard', 'id', shards => 2, nodes => '{node1}')});
	$c->set_faults('commit=error');
	is(($c->psql(q{SELECT shardfdw.wait_job(shardfdw.split_shard('unheard_00')), shardfdw.wait_job(shardfdw.move_shard('unheard_01', 'node2'))}))[1], 'done|done', 'a split and a move whose commits the nodes do not hear of');
	$c->set_faults('');
	is($c->node_safe_psql(1, q{SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^unheard_0[0-9]$' AND relkind = 'r'}) =~ /unheard_0[01]/ ? 'old' : 'none', 'none', 'no old table is left');
	is($c->safe_psql('SELECT count(*) FROM unheard'), 50, 'all rows are there');
	$c->safe_psql('DROP TABLE unheard');
	clean('unheard of');
}

# Until the job has ended, the definitions of the new shards cannot be changed.
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 3 unless $faults;
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_switched';
	append_to_file($file, '');
	$c->set_faults('move_switched=wait');
	my ($shard) = map { $_->[0] } $c->shards_of('lines');
	my $job = $c->safe_psql("SELECT shardfdw.split_shard('$shard', wait => false)");
	$c->wait_for("SELECT stage = 'dropping' FROM shardfdw.jobs WHERE id = $job");
	fails('ALTER TABLE lines DROP CONSTRAINT lines_id_fkey', qr/the definition of the table cannot be changed while job $job/, 'a definition, while old tables are dropped');
	unlink $file;
	$c->set_faults('');
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job');
	is(($c->psql('ALTER TABLE lines DROP CONSTRAINT lines_id_fkey'))[2], '', 'then it can be changed');
}

# ---------- within the switch ----------

SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 12 unless $faults;
	for my $point (qw(move_locked move_closed move_placed))
	{
		my ($shard) = map { $_->[0] } reverse $c->shards_of('t');
		my $file = $c->coordinator->data_dir . "/shardfdw_fault_$point";
		append_to_file($file, '');
		$c->set_faults("$point=wait");
		my $before = $c->safe_psql('SELECT sum(v) FROM t');
		my $id = $c->safe_psql("SELECT min(id) FROM $shard");
		my $new = $c->safe_psql("SELECT min(i) FROM generate_series(1000, 1100) i WHERE shardfdw.shard_for('t', i) = '$shard'::regclass");
		my $job = $c->safe_psql("SELECT shardfdw.split_shard('$shard', wait => false)");
		$c->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE relation = '$shard'::regclass AND mode = 'AccessExclusiveLock' AND granted");
		my @others = map { $c->start_sql($_, name => "other$point") } "UPDATE t SET v = v + 1 WHERE id = $id", 'UPDATE t SET v = v + 1', 'SELECT sum(v) FROM t', "SELECT v FROM t WHERE id = $id",
			"INSERT INTO t VALUES ($id, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1", "COPY t FROM PROGRAM 'echo $new,0' (FORMAT csv)", "SET shardfdw.snapshot = 'cluster'; SELECT 1 / (count(*) - 99)::int FROM t",
			"BEGIN; SELECT v FROM t WHERE id = $id FOR UPDATE; UPDATE t SET v = v + 1 WHERE id = $id; COMMIT", "COPY (SELECT * FROM t) TO PROGRAM 'cat > /dev/null'";
		$c->wait_for("SELECT count(*) = 9 FROM pg_stat_activity WHERE application_name = 'other$point' AND wait_event_type = 'Lock'");
		unlink $file;
		is(join('', map { ($c->wait_sql($_))[2] } @others), '', "$point: others wait, and go on");
		$c->set_faults('');
		is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job');
		is($c->safe_psql("SELECT sum(v) FROM t WHERE id <> $new"), $before + 103, 'all they did is there');
		is(misplaced('t', 'id'), 0, 'where it belongs');
		$c->safe_psql("DELETE FROM t WHERE id = $new");
	}
}
clean('at the end');

done_testing();
