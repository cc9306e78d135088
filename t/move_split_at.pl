# Splits shards by range and by list at values, and merges them. Tests where rows are, what prevents
# a split, and changes during the split.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $traces = q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots)};

sub bounds
{
	my ($table) = @_;
	return $c->ask("SELECT string_agg(c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid), '; ' ORDER BY c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '$table'::regclass");
}

# Checks that each row is found through the table, in its shard, and by plans that look it up by its
# key.
sub intact
{
	my ($table, $key, $name) = @_;
	is($c->ask("SELECT count(*) FROM (TABLE $table EXCEPT ALL TABLE same_$table) x"), 0, "$name: no row is new");
	is($c->ask("SELECT count(*) FROM (TABLE same_$table EXCEPT ALL TABLE $table) x"), 0, "$name: none is lost");
	is($c->ask("SELECT count(*) FROM $table WHERE shardfdw.shard_for('$table', $key) <> tableoid"), 0, "$name: each is where its key says");
	$c->wait_for_slots;
	is(join(' ', map { $c->ask($traces, $_) } 1, 2), '0|0|0 0|0|0', "$name: nothing is left on the nodes");
	is($c->ask(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', "$name: check_cluster finds nothing wrong");
	return;
}

sub split_at
{
	my ($shard, $at, $mode) = @_;
	return ($c->psql("SELECT shardfdw.split_shard('$shard', mode => '" . ($mode // 'block') . "', at => $at) > 0"))[2];
}

sub merge
{
	my ($shards, $mode) = @_;
	return ($c->psql("SELECT shardfdw.merge_shards('$shards', '" . ($mode // 'block') . "') > 0"))[2];
}

sub fails
{
	my ($sql, $error, $name) = @_;
	like(($c->psql($sql))[2], $error, "refused: $name");
	return;
}

# ---------- by range ----------

$c->safe_psql(q{
	CREATE TABLE days (at timestamptz, k int, v text, PRIMARY KEY (at, k)) PARTITION BY RANGE (at);
	SELECT shardfdw.create_shard('days', 'days_01', $$FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00')$$, 'node1'), shardfdw.create_shard('days', 'days_02', $$FROM ('2026-02-01 00:00+00') TO (MAXVALUE)$$, 'node1');
	CREATE INDEX ON days (v);
	INSERT INTO days SELECT '2026-01-01 00:00+00'::timestamptz + i * interval '1 hour', i, 'v' || i FROM generate_series(0, 1400) i;
	CREATE TABLE same_days AS TABLE days});
is(split_at('days_01', q{'{2026-01-11 00:00+00,2026-01-21 00:00+00}'}, 'online'), '', 'a shard by range, online');
is(bounds('days'), q{days_02 FOR VALUES FROM ('2026-02-01 00:00:00+00') TO (MAXVALUE); days_03 FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2026-01-11 00:00:00+00'); }
	  . q{days_04 FOR VALUES FROM ('2026-01-11 00:00:00+00') TO ('2026-01-21 00:00:00+00'); days_05 FOR VALUES FROM ('2026-01-21 00:00:00+00') TO ('2026-02-01 00:00:00+00')}, 'three ranges');
intact('days', 'at', 'by range');
is($c->ask("SELECT count(*) FROM days WHERE at = '2026-01-11 00:00+00'"), 1, 'a row at the bound');
# values are read as the session reads them, whatever the worker's settings
$c->safe_psql(q{ALTER DATABASE postgres SET datestyle = 'SQL, DMY'; ALTER DATABASE postgres SET timezone = 'Asia/Tokyo'});
is(($c->psql(q{SET datestyle = 'German'; SET timezone = 'America/New_York'; SELECT shardfdw.split_shard('days_02', mode => 'online', at => '{03.02.2026 19:00:00}')}))[2], '', 'in a session with other settings');
$c->safe_psql('ALTER DATABASE postgres RESET datestyle; ALTER DATABASE postgres RESET timezone');
is(bounds('days') =~ /days_06 (.*?);/ && $1, q{FOR VALUES FROM ('2026-02-01 00:00:00+00') TO ('2026-02-04 00:00:00+00')}, 'the moment that was meant there');
intact('days', 'at', 'other settings');
is(merge('{days_04,days_03}', 'online'), '', 'two side by side become one again');
like(bounds('days'), qr/days_08 FOR VALUES FROM \('2026-01-01 00:00:00\+00'\) TO \('2026-01-21 00:00:00\+00'\)/, 'with the bounds of both');
intact('days', 'at', 'a merge');

fails(q{SELECT shardfdw.split_shard('days_08')}, qr/shard public\.days_08 cannot be split without values: table public\.days is not partitioned by HASH.*HINT:  Say where: at =>/s, 'range without a value');
fails(q{SELECT shardfdw.split_shard('days_08', 2, at => '{2026-01-03}')}, qr/pieces and at exclude each other/, 'both');
for (['2026-01-21 00:00+00', 'the upper bound'], ['2026-01-01 00:00+00', 'the lower bound'], ['2027-01-01', 'above'], ['2025-01-01', 'below'], ['2026-01-03,2026-01-02', 'in the wrong order'], ['2026-01-02,2026-01-02', 'twice the same'], ['NULL', 'NULL'], ['2026-01-03,NULL', 'NULL at the end'])
{
	fails("SELECT shardfdw.split_shard('days_08', at => '{$_->[0]}')", qr/shard public\.days_08 cannot be split at .*HINT:  The view shardfdw\.shards shows the bounds/s, "a value: $_->[1]");
}
fails(q{SELECT shardfdw.split_shard('days_08', at => '{x}')}, qr/invalid input syntax for type timestamp with time zone: "x"/, 'no value of the type');
fails(q{SELECT shardfdw.merge_shards('{days_08,days_06}')}, qr/these shards of table public\.days do not make up one.*One has to begin where another ends/s, 'a merge over a gap');
intact('days', 'at', 'after what was refused');

# a key of two columns, texts with quotation marks, bounds that are open
$c->safe_psql(q{
	CREATE TABLE pairs (a text COLLATE "C", b int, v int) PARTITION BY RANGE (a, b);
	SELECT shardfdw.create_shard('pairs', 'pairs_00', $$FROM (MINVALUE, MINVALUE) TO ('b'') TO (''c', 5)$$, 'node1'), shardfdw.create_shard('pairs', 'pairs_01', $$FROM ('b'') TO (''c', 5) TO (MAXVALUE, MAXVALUE)$$, 'node2');
	INSERT INTO pairs SELECT a, i, i FROM unnest('{a,b,"b'') TO (''c","b\\\\x",c,d,"it''s"}'::text[]) a, generate_series(0, 9) i;
	CREATE TABLE same_pairs AS TABLE pairs});
is(split_at('pairs_00', q{$x${"b') TO ('c"}$x$}), '', 'at the first column of the upper bound');
intact('pairs', 'ROW(a, b)', 'a key of two columns');
fails(q{SELECT shardfdw.split_shard('pairs_01', at => $x${"b') TO ('c"}$x$)}, qr/cannot be split at 'b''\) TO \(''c'/, 'the first column of the lower bound');
is(split_at('pairs_01', q{$x${"b\\\\\\\\x","it's"}$x$}, 'online'), '', 'texts that need quotation marks');
intact('pairs', 'ROW(a, b)', 'quotation marks');
is($c->ask('SELECT count(*) FROM pg_inherits WHERE inhparent = $$pairs$$::regclass'), 5, 'five shards');
is(merge('{' . $c->ask(q{SELECT string_agg(i.inhrelid::regclass::text, ',') FROM pg_inherits i JOIN shardfdw.shards s ON s.shard = i.inhrelid WHERE i.inhparent = 'pairs'::regclass AND s.node = 'node2'}) . '}'), '', 'all of a node');
intact('pairs', 'ROW(a, b)', 'merged');

$c->safe_psql(q{CREATE TABLE words (w text) PARTITION BY RANGE (w); SELECT shardfdw.create_shard('words', 'words_0', $$FROM ('a') TO ('z')$$, 'node1'); CREATE TABLE rest (k int) PARTITION BY RANGE (k);
	SELECT shardfdw.create_shard('rest', 'rest_0', 'DEFAULT', 'node1'); CREATE TABLE halves (k int) PARTITION BY RANGE ((k / 2)); SELECT shardfdw.create_shard('halves', 'halves_0', 'FROM (0) TO (10)', 'node1');
	CREATE TABLE hashed (k int PRIMARY KEY); SELECT shardfdw.shard_table('hashed', 'k', shards => 2)});
fails(q{SELECT shardfdw.split_shard('words_0', at => '{m}')}, qr/its key has another collation than "C"/, 'an order that the node may have otherwise');
fails(q{SELECT shardfdw.split_shard('rest_0', at => '{1}')}, qr/it is the default partition of table public\.rest/, 'a default partition');
$c->safe_psql(q{SELECT shardfdw.create_shard('rest', 'rest_1', 'FROM (0) TO (10)', 'node2'); INSERT INTO rest SELECT generate_series(-5, 15); CREATE TABLE same_rest AS TABLE rest});
fails(q{BEGIN; EXPLAIN SELECT * FROM rest_0; SELECT shardfdw.split_shard('rest_1', at => '{5}')}, qr/job \d+ waits for a lock of this transaction/, 'one who keeps the default partition, and waits');
$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'});
is(split_at('rest_1', q{'{5}'}, 'online') =~ s/^WARNING.*\n|^DETAIL.*\n//mgr, '', 'beside a default partition');
intact('rest', 'k', 'beside a default partition');
fails(q{SELECT shardfdw.split_shard('halves_0', at => '{1}')}, qr/first column of the key of table public\.halves is an expression/, 'an expression');
$c->safe_psql(q{CREATE TABLE spans (k interval) PARTITION BY RANGE (k); SELECT shardfdw.create_shard('spans', 'spans_0', $$FROM ('1 day') TO ('9 days')$$, 'node1')});
fails(q{SELECT shardfdw.split_shard('spans_0', at => '{2 days}')}, qr/or of a type for which that is not known to be safe/, 'a type whose texts depend on settings');
# code of a domain's owner is not run with the rights of the role that splits
$c->safe_psql(q{CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; CREATE TABLE seen (who text); GRANT INSERT ON seen TO PUBLIC});
$c->node_safe_psql($_, q{CREATE ROLE mallory}) for 1, 2;
$c->safe_psql(q{SET ROLE mallory; CREATE FUNCTION note(int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (current_user); RETURN true; END'; CREATE DOMAIN trap AS int CHECK (note(VALUE));
	RESET ROLE; CREATE TABLE traps (k trap) PARTITION BY LIST (k); CREATE FOREIGN TABLE traps_0 PARTITION OF traps FOR VALUES IN (1, 2) SERVER node1; TRUNCATE seen});
fails(q{SELECT shardfdw.split_shard('traps_0', at => '{2}')}, qr/cannot be split|calls code|permission/, 'a domain of somebody');
is($c->ask('SELECT count(*) FROM seen'), 0, 'whose checks have not run');
$c->safe_psql('DROP FOREIGN TABLE traps_0; DROP TABLE traps, spans');
fails(q{SELECT shardfdw.split_shard('hashed_00', at => '{1}')}, qr/cannot be split at values: table public\.hashed is partitioned by HASH/, 'values for a shard by hash');
fails(q{SELECT shardfdw.merge_shards('{rest_0,rest_0}')}, qr/merged with itself/, 'with itself');

# equal bounds that are written in several ways: in colocated tables, too
$c->safe_psql(join '', map { my ($t, $one) = @$_;
	"CREATE TABLE $t (k numeric, v int) PARTITION BY RANGE (k); SELECT shardfdw.create_shard('$t', '${t}_0', 'FROM (0) TO (1.0)', 'node1'), shardfdw.create_shard('$t', '${t}_1', 'FROM ($one) TO (2)', 'node1');
	INSERT INTO $t SELECT i / 100.0, i FROM generate_series(0, 199) i; CREATE TABLE same_$t AS TABLE $t;" } ['ones', '1.0'], ['other_ones', '1.00']);
fails("SELECT shardfdw.merge_shards('{ones_0,ones_1}')", qr/these shards of table public\.other_ones do not make up one.*write this alike/s, 'bounds of a colocated table');
intact($_, 'k', 'after that') for 'ones', 'other_ones';
$c->safe_psql(q{CREATE TABLE chars (k char(4) COLLATE "C", v int) PARTITION BY RANGE (k); SELECT shardfdw.create_shard('chars', 'chars_0', $$FROM ('aa') TO ('zz')$$, 'node1');
	INSERT INTO chars SELECT chr(97 + i % 25) || chr(98 + i % 20), i FROM generate_series(1, 100) i; CREATE TABLE same_chars AS TABLE chars});
is(split_at('chars_0', q{'{mn}'}), '', 'char(n)');
like(bounds('chars'), qr/TO \('mn'?/, 'by all of the value');
intact('chars', 'k', 'char(n)');

# ---------- by list ----------

$c->safe_psql(q{
	CREATE TABLE lands (land text, k int, v numeric) PARTITION BY LIST (land);
	SELECT shardfdw.create_shard('lands', 'lands_00', $$IN ('at', 'se', NULL, 'it''s, or (not)')$$, 'node1'), shardfdw.create_shard('lands', 'lands_01', $$IN ('fr')$$, 'node1');
	INSERT INTO lands SELECT l, i, i FROM unnest('{at,se,NULL,"it''s, or (not)",fr}'::text[]) l, generate_series(1, 20) i;
	CREATE TABLE same_lands AS TABLE lands});
is(split_at('lands_00', q{$x${NULL,"it's, or (not)"}$x$}, 'online'), '', 'a shard by list');
is(bounds('lands'), q{lands_01 FOR VALUES IN ('fr'); lands_02 FOR VALUES IN ('at', 'se'); lands_03 FOR VALUES IN (NULL, 'it''s, or (not)')}, 'two lists');
intact('lands', 'land', 'by list');
is(merge('{lands_01,lands_03}'), '', 'lists become one');
is(bounds('lands'), q{lands_02 FOR VALUES IN ('at', 'se'); lands_04 FOR VALUES IN ('fr', NULL, 'it''s, or (not)')}, 'with the values of both');
intact('lands', 'land', 'merged lists');
fails(q{SELECT shardfdw.split_shard('lands_02', at => '{at,se}')}, qr/no value would be left/, 'all values');
fails(q{SELECT shardfdw.split_shard('lands_02', at => '{at,fr}')}, qr/it is not for the value 'fr'/, 'the value of another shard');
fails(q{SELECT shardfdw.split_shard('lands_02', at => '{NULL}')}, qr/it is not for the value NULL/, 'NULL of another shard');
fails(q{SELECT shardfdw.split_shard('lands_02')}, qr/cannot be split without values.*values for the second/s, 'a list without values');
$c->safe_psql(q{CREATE TABLE nums (n numeric, v int) PARTITION BY LIST (n); SELECT shardfdw.create_shard('nums', 'nums_0', 'IN (1, -2.50, 3)', 'node2'); INSERT INTO nums VALUES (1, 1), (-2.5, 2), (3.0, 3); CREATE TABLE same_nums AS TABLE nums});
is(split_at('nums_0', q{'{-2.5,3.00}'}), '', 'values that are equal and written otherwise');
intact('nums', 'n', 'numbers');

# ---------- changes during the split, and colocated tables ----------

SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 10 unless $faults;
	$c->safe_psql(q{
		CREATE TABLE parts (a int, k int, v int, PRIMARY KEY (a, k)) PARTITION BY RANGE (a);
		SELECT shardfdw.create_shard('parts', 'parts_00', 'FROM (0) TO (100)', 'node1'), shardfdw.create_shard('parts', 'parts_01', 'FROM (100) TO (200)', 'node2');
		INSERT INTO parts SELECT i % 200, i, 0 FROM generate_series(1, 1000) i;
		CREATE TABLE same_parts AS TABLE parts});
	append_to_file($c->coordinator->data_dir . '/shardfdw_fault_move_indexed', '');
	$c->set_faults('move_indexed=wait');
	my $job = $c->safe_psql(q{SELECT shardfdw.split_shard('parts_00', at => '{50}', wait => false)});
	$c->wait_for("SELECT stage = 'indexing' OR state <> 'running' FROM shardfdw.jobs WHERE id = $job");
	$c->safe_psql("$_ SET a = a + 30 WHERE a BETWEEN 35 AND 60; DELETE FROM " . (split)[1] . ' WHERE a = 90; INSERT INTO ' . (split)[1] . ' SELECT i % 100, 2000 + i, 1 FROM generate_series(1, 300) i') for 'UPDATE parts', 'UPDATE same_parts';
	unlink $c->coordinator->data_dir . '/shardfdw_fault_move_indexed';
	$c->set_faults('');
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'rows go from one piece to the other while the shard is split');
	intact('parts', 'a', 'changes meanwhile');
	is($c->ask("SELECT string_agg(count::text, ' ' ORDER BY shard) FROM (SELECT tableoid::regclass::text AS shard, count(*) FROM parts GROUP BY 1) x"),
		$c->ask("SELECT string_agg(count::text, ' ' ORDER BY shard) FROM (SELECT CASE WHEN a >= 100 THEN 'parts_01' WHEN a < 50 THEN 'parts_02' ELSE 'parts_03' END AS shard, count(*) FROM same_parts GROUP BY 1) x"), 'each piece has its own');
}

done_testing();
