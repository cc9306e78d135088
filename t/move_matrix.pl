# Combines kinds of tables with kinds of changes that follow a copy. Each change is made on a
# sharded table and on a plain table. At the same time the shard moves, is split, or is merged with
# another one. Afterwards both tables must have the same rows.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

my $long = q{(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)};
my @kinds = (
	{ name => 'keyed', columns => 'id int PRIMARY KEY, v int, w text',
		before => q{INSERT INTO {t} SELECT i, i, 'w' FROM generate_series(1, 100) i},
		after => q{UPDATE {t} SET v = v + 1 WHERE id % 3 = 0; DELETE FROM {t} WHERE id % 5 = 0; INSERT INTO {t} SELECT i, -i, NULL FROM generate_series(200, 300) i;
			UPDATE {t} SET w = repeat('x', id) WHERE id < 10; INSERT INTO {t} VALUES (5, 5, ''); DELETE FROM {t} WHERE id = 5; INSERT INTO {t} VALUES (5, 6, E'a\tb\\\n''c"')} },
	{ name => 'no_key', columns => 'id int, v int', full => 1,
		before => q{INSERT INTO {t} SELECT i % 10, i % 3 FROM generate_series(1, 100) i},
		after => q{INSERT INTO {t} VALUES (1, NULL), (1, NULL), (1, 1), (1, 1); UPDATE {t} SET v = 7 WHERE v = 2; DELETE FROM {t} WHERE id = 3; UPDATE {t} SET v = NULL WHERE id = 4; UPDATE {t} SET v = 1 WHERE v IS NULL} },
	{ name => 'toast', columns => 'id int PRIMARY KEY, a text, b text, c int',
		before => qq{INSERT INTO {t} SELECT i, $long || i, $long || 'b' || i, 0 FROM generate_series(1, 40) i},
		after => qq{UPDATE {t} SET c = 1; UPDATE {t} SET a = 'short' WHERE id % 2 = 0; UPDATE {t} SET b = $long || 'new', c = 2 WHERE id % 3 = 0; UPDATE {t} SET a = NULL WHERE id % 7 = 0; INSERT INTO {t} VALUES (99, $long, $long, 3); UPDATE {t} SET c = 4 WHERE id = 99} },
	{ name => 'toast_no_key', columns => 'id int, a text, c int', full => 1,
		before => qq{INSERT INTO {t} SELECT i, $long || i, 0 FROM generate_series(1, 20) i},
		after => qq{UPDATE {t} SET c = 1; UPDATE {t} SET a = 'short' WHERE id % 2 = 0; DELETE FROM {t} WHERE id % 3 = 0} },
	{ name => 'generated', columns => 'id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, b text',
		before => q{INSERT INTO {t} (id, a, b) SELECT i, i, 'b' FROM generate_series(1, 50) i},
		after => q{UPDATE {t} SET a = a + 100 WHERE id > 25; INSERT INTO {t} (id, a) VALUES (77, 7); DELETE FROM {t} WHERE twice = 4} },
	{ name => 'swapped', columns => 'id int, u int, v int, PRIMARY KEY (id), UNIQUE (id, u), UNIQUE (id, v) DEFERRABLE INITIALLY DEFERRED',
		before => q{INSERT INTO {t} SELECT i, i, i FROM generate_series(1, 50) i},
		after => q{UPDATE {t} SET u = -u; UPDATE {t} SET v = 51 - v; DELETE FROM {t} WHERE id = 7; INSERT INTO {t} VALUES (7, 7, 7); BEGIN; UPDATE {t} SET v = 1000 WHERE id = 1; UPDATE {t} SET v = 1000 WHERE id = 2; UPDATE {t} SET v = 3 WHERE id = 2; COMMIT} },
	{ name => 'truncated', columns => 'id int PRIMARY KEY, v int',
		before => q{INSERT INTO {t} SELECT i, i FROM generate_series(1, 50) i},
		after => q{INSERT INTO {t} VALUES (60, 1); TRUNCATE {t}; INSERT INTO {t} SELECT i, 2 FROM generate_series(1, 20) i} },
	{ name => 'undone', columns => 'id int PRIMARY KEY, v int',
		before => q{INSERT INTO {t} SELECT i, i FROM generate_series(1, 50) i},
		after => q{BEGIN; UPDATE {t} SET v = 0; ROLLBACK; BEGIN; INSERT INTO {t} VALUES (60, 0); SAVEPOINT s; DELETE FROM {t}; ROLLBACK TO s; INSERT INTO {t} VALUES (61, 0); COMMIT; UPDATE {t} SET v = v WHERE id < 10} },
	{ name => 'keys_moved', columns => 'id int, k text COLLATE "C", v int, PRIMARY KEY (id, k)',
		before => q{INSERT INTO {t} SELECT i, 'k' || i, i FROM generate_series(1, 50) i},
		after => q{UPDATE {t} SET k = 'm' || k WHERE id < 20; UPDATE {t} SET k = 'k1' WHERE id = 30; DELETE FROM {t} WHERE k = 'mk3'} },
	{ name => 'types', columns => q{id int PRIMARY KEY, b bool, s smallint, l bigint, n numeric, f real, d double precision, t text, c char(5), vc varchar(9), nm name, by bytea,
			dt date, ti time, tz timetz, ts timestamp, tsz timestamptz, iv interval, m money, u uuid, j json, jb jsonb, x xml, ip inet, ci cidr, ma macaddr, bi bit(3), vb varbit,
			p point, bx box, tv tsvector, tq tsquery, r int4range, mr nummultirange, ia int[], ta text[], rt regtype, o oid, ln pg_lsn, mood mood, moods mood[], pair pair, dom positive, jp jsonpath},
		before => q{INSERT INTO {t} SELECT i, i % 2 = 0, i, i, i / 7.0, i / 3.0, i / 3.0, 'ä' || i, 'c', 'v', 'n', '\xdeadbeef', '2020-01-01', '01:02', '01:02+03', 'infinity', '-infinity', '1 mon 2 days -00:00:03.5', 12.34,
			'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1 }', '{"a": [1, null]}', '<a>b</a>', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '101', '10101', '(1,2)', '(1,2),(3,4)', 'a:1 b', 'a & b',
			'[1,5)', '{[1.5,2],(3,4)}', '{1,NULL,3}', '{"a b",NULL,"\""}', 'int'::regtype, 12, '16/B374D848', 'good', '{bad,good}', '(1,"x y")', 7, '$.a[*]' FROM generate_series(1, 30) i;
			INSERT INTO {t} (id, n, f, d) VALUES (40, 'NaN', 'NaN', '-0'), (41, 1e100, '1e-40', 'Infinity'), (42, NULL, NULL, NULL)},
		after => q{UPDATE {t} SET s = -s, n = n * 3, f = f + 1, d = d / 7, t = t || 'ß', by = by || by, tsz = '2021-05-05 05:05:05.123456+05', iv = iv * 3, m = m + '1'::money, j = '{"b":  2}', x = '<q/>', ia = ia || 4, ta = ta || 'y'::text, rt = 'text'::regtype,
				mood = 'bad', moods = moods || 'good'::mood, pair = ROW(2, 'z')::pair, mr = '{}', r = 'empty', p = '(0.1,0.2)' WHERE id % 2 = 0;
			DELETE FROM {t} WHERE id % 7 = 0; INSERT INTO {t} (id, d, f, ts, mood) VALUES (50, 'NaN', '-Infinity', '0044-03-15 BC', 'good')} },
	{ name => 'wide', columns => join(', ', 'id int PRIMARY KEY', map { "c$_ int" } 1 .. 300),
		before => q{INSERT INTO {t} (id, c1, c300) SELECT i, i, -i FROM generate_series(1, 20) i}, after => q{UPDATE {t} SET c150 = id, c300 = NULL WHERE id > 5; INSERT INTO {t} (id, c7) VALUES (30, 7)} },
	{ name => 'quoted "T"', columns => '"Id" int PRIMARY KEY, "a b" text, "select" int', key => 'Id',
		before => q{INSERT INTO {t} SELECT i, 'x', i FROM generate_series(1, 20) i}, after => q{UPDATE {t} SET "a b" = 'y', "select" = 0 WHERE "Id" > 10; DELETE FROM {t} WHERE "Id" = 1} },
);

$c->safe_psql(q{CREATE TYPE mood AS ENUM ('bad', 'good'); CREATE TYPE pair AS (a int, b text); CREATE DOMAIN positive AS int CHECK (VALUE > 0)});

sub quoted { my ($name) = @_; $name =~ s/"/""/g; return qq{"$name"}; }

# Creates both tables of each kind with their rows, for a move, a split and a merge.
my @cases = map { my $kind = $_; map { { %$kind, how => $_, table => $_ eq 'move' ? $kind->{name} : "$kind->{name} $_" } } qw(move split merge) } @kinds;
# Tables with the same key type, number of shards and nodes are colocated. Those that move go
# together, the others alone. In merges, shards 0 and 3 of 6 are on the same node.
for my $i (0 .. $#cases)
{
	my @bits = map { 1 + ($i / 3 >> $_ & 1) } 0 .. 3;
	my $how = $cases[$i]->{how};

	$cases[$i]->{nodes} = join ',', map { "node$_" } $how eq 'move' ? (1, 2) : $how eq 'split' ? @bits : (1, @bits[ 0, 1 ], 1, @bits[ 2, 3 ]);
	$cases[$i]->{old} = $how eq 'merge' ? [ 0, 3 ] : [0];
	$cases[$i]->{new} = $how eq 'move' ? [] : $how eq 'split' ? [ 4, 5 ] : [6];
}
# the end needs the first one
@cases = @cases[ 0, grep { ShardCluster::in_half($_) } 1 .. $#cases ];
for my $case (@cases)
{
	my ($t, $plain) = map { quoted($_) } $case->{table}, "$case->{table} plain";
	for my $table ($t, $plain)
	{
		$c->ask("CREATE TABLE $table ($case->{columns})");
	}
	(my $literal = $t) =~ s/'/''/g;
	$c->ask("SELECT shardfdw.shard_table('$literal', '" . ($case->{key} // 'id') . "', shards => " . (split(/,/, $case->{nodes})) . ", nodes => '{$case->{nodes}}')");
	for my $table ($t, $plain)
	{
		(my $sql = $case->{before}) =~ s/\{t\}/$table/g;
		$c->ask($sql);
	}
}

for my $case (@cases)
{
	my $name = "$case->{name}, $case->{how}";
	my ($t, $plain) = map { quoted($_) } $case->{table}, "$case->{table} plain";
	(my $literal = $t) =~ s/'/''/g;
	my ($shard, $other) = map { my $i = $_; $t =~ s/"$/sprintf '_%02d"', $i/er } @{ $case->{old} };
	my @pieces = map { my $i = $_; $t =~ s/"$/sprintf '_%02d"', $i/er } @{ $case->{new} };
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_indexed';

	# the changes come after the copy
	my $place = $c->ask("SELECT right(node, 1) FROM shardfdw.shards WHERE shard = '$shard'::regclass");
	my $target = $case->{how} eq 'move' ? 3 - $place : $place;
	append_to_file($file, '');
	$c->set_faults('move_indexed=wait');
	my $job = $c->ask($case->{how} eq 'move' ? "SELECT shardfdw.move_shard('$shard', 'node$target', wait => false)" :
		$case->{how} eq 'split' ? "SELECT shardfdw.split_shard('$shard', wait => false)" : "SELECT shardfdw.merge_shards(ARRAY['$shard', '$other']::regclass[], wait => false)");
	$c->ask_until("SELECT state <> 'running' OR stage = 'indexing' FROM shardfdw.jobs WHERE id = $job");
	(my $sql = $case->{after}) =~ s/\{t\}/$t/g;
	my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 0);
	(my $plain_sql = $case->{after}) =~ s/\{t\}/$plain/g;
	my ($prc, $pout, $perr) = $c->psql($plain_sql, on_error_stop => 0);
	is($err, '', "$name: changes");
	unlink $file;
	$c->set_faults('');
	my ($wrc, $state, $error) = $c->psql("SELECT shardfdw.wait_job($job)");
	is("$state$error", 'done', "$name: the job");
	is($c->ask("SELECT count(*), (SELECT string_agg(x::text, chr(10) ORDER BY x::text COLLATE \"C\") FROM $t x) FROM $t"),
		$c->ask("SELECT count(*), (SELECT string_agg(x::text, chr(10) ORDER BY x::text COLLATE \"C\") FROM $plain x) FROM $plain"), "$name: the rows");
	for my $new (@pieces ? @pieces : $shard)
	{
		is($c->ask("SELECT relreplident FROM pg_class WHERE oid = '$new'::regclass", $target), 'd', "$name: its replica identity is what it was");
	}
	next unless @pieces;
	is($c->ask("SELECT count(*) FROM $t WHERE shardfdw.shard_for('$literal', " . quoted($case->{key} // 'id') . ') <> tableoid'), 0, "$name: where they belong");
}

# ---------- a byte that was changed ----------

my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_indexed';
append_to_file($file, '');
$c->set_faults('move_indexed=wait');
my $place = $c->safe_psql(q{SELECT right(node, 1) FROM shardfdw.shards WHERE shard = 'keyed_00'::regclass});
my $target = 3 - $place;
my $job = $c->safe_psql("SELECT shardfdw.move_shard('keyed_00', 'node$target', wait => false)");
$c->wait_for("SELECT state <> 'running' OR stage = 'indexing' FROM shardfdw.jobs WHERE id = $job");
$c->wait_for(q{SELECT count(*) = 1 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'keyed_00_pkey' OR relname = 'keyed_pkey_00' AND nspname ~ '^shardfdw_'}, $target);
my $staging = $c->node_safe_psql($target, q{SELECT nspname FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'});
$c->node_safe_psql($target, "UPDATE $staging.keyed_00 SET v = v + 1 WHERE id = (SELECT min(id) FROM $staging.keyed_00)");
unlink $file;
$c->set_faults('');
like(($c->psql("SELECT shardfdw.wait_job($job)"))[2], qr/the rows of shard public\.keyed_00 differ on nodes/, 'a row that differs is found');
is($c->safe_psql(q{SELECT right(node, 1) FROM shardfdw.shards WHERE shard = 'keyed_00'::regclass}), $place, 'and the shard stays');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');

done_testing();
