# A dump of a coordinator (pg_dump), restored into an empty database, must be a working coordinator.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';

$c->safe_psql(q{
	CREATE TABLE t (id bigserial PRIMARY KEY, v int DEFAULT 7 CHECK (v > 0), w text NOT NULL DEFAULT 'w', g int GENERATED ALWAYS AS (v * 2) STORED);
	CREATE TABLE u (id bigint, part int, "odd ""name" text);
	CREATE TABLE r (d date, v int) PARTITION BY RANGE (d);
	CREATE TABLE plain (id int PRIMARY KEY, name text);
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE e (k mood, v int) PARTITION BY LIST (k)});
$c->node_safe_psql($_, "CREATE TYPE mood AS ENUM ('sad', 'happy')") for 1 .. 2;
$c->shard_table('t', 'id', shards => 4);
$c->shard_table('u', 'id', colocate_with => 't');
$c->safe_psql(q{
	CREATE TABLE twice (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('twice', 'id', shards => 4, replication_factor => 2);
	INSERT INTO twice SELECT g, g FROM generate_series(1, 100) g;
	SELECT shardfdw.create_shard('e', 'e_sad', 'IN (''sad'')', 'node1');
	SELECT shardfdw.create_shard('e', 'e_happy', 'IN (''happy'')', 'node2');
	SELECT shardfdw.create_shard('r', 'r_old', 'FROM (MINVALUE) TO (''2024-01-01'')', 'node1');
	SELECT shardfdw.create_shard('r', 'r_new', 'FROM (''2024-01-01'') TO (MAXVALUE)', 'node2');
	INSERT INTO t (v) SELECT g FROM generate_series(1, 500) g;
	INSERT INTO u SELECT g % 500 + 1, g % 10, 'x' || g FROM generate_series(1, 900) g;
	INSERT INTO r SELECT date '2023-06-01' + g, g FROM generate_series(1, 400) g;
	INSERT INTO e SELECT CASE WHEN g % 3 = 0 THEN 'sad' ELSE 'happy' END::mood, g FROM generate_series(1, 30) g;
	INSERT INTO plain SELECT g, 'name ' || g FROM generate_series(0, 9) g;
	COPY u (id, part) FROM PROGRAM 'printf "1\t1\n2\t2\n"' (RESUME 'once');
	CREATE VIEW grouped AS SELECT part, count(*) AS n, sum(v) AS s FROM t JOIN u USING (id) GROUP BY part;
	COMMENT ON TABLE t IS 'sharded';
	CREATE INDEX ON plain (name);
	CREATE TABLE checked (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('checked', shards => 2);
	INSERT INTO checked VALUES (1, -1), (2, 1);
	ALTER TABLE checked ADD CONSTRAINT late CHECK (v > 0) NOT VALID});
my $not_enforced = $c->safe_psql('SHOW server_version_num') >= 180000;
$c->safe_psql('ALTER TABLE checked ADD CONSTRAINT loose CHECK (v < 0) NOT ENFORCED') if $not_enforced;

my @queries = (
	'SELECT count(*), sum(v), min(w), sum(g), max(id) FROM t',
	'SELECT part, count(*), min("odd ""name") FROM u GROUP BY part ORDER BY part',
	'SELECT * FROM grouped ORDER BY part',
	'SELECT extract(month FROM d), count(*), sum(v) FROM r GROUP BY 1 ORDER BY 1',
	"SELECT * FROM t WHERE id = 77",
	'SELECT shard, node, replica_nodes FROM shardfdw.shards WHERE relation = $$twice$$::regclass ORDER BY shard::text',
	'SELECT count(*), bool_and(is_equal) FROM shardfdw.compare_replicas($$twice$$)',
	"SELECT count(*) FROM r WHERE d > '2024-02-01'",
	'SELECT k, count(*), sum(v) FROM e GROUP BY k ORDER BY k',
	q{SELECT sum(v) FROM e WHERE k = 'sad'},
	'SELECT name, count(*) FROM plain p JOIN u ON u.part = p.id GROUP BY name ORDER BY name',
	'SELECT relname, count(*) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent GROUP BY relname ORDER BY relname',
	'SELECT * FROM shardfdw.tables ORDER BY relation::text',
	'SELECT shardfdw.shard_for(\'t\', id) FROM generate_series(1::bigint, 20) id',
	"SELECT conname, contype FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY conname",
	"SELECT obj_description('t'::regclass)",
	"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'checked'::regclass AND contype = 'c' ORDER BY conname",
	q{SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ 'checked'},
	'EXPLAIN (COSTS OFF) SELECT part, count(*) FROM u GROUP BY part');
my @before = map { $c->safe_psql($_) } @queries;

sub same_answers
{
	my ($dbname) = @_;
	for my $i (0 .. $#queries)
	{
		my ($rc, $out, $err) = $c->coordinator->psql($dbname, $queries[$i]);
		is($out, $before[$i], "$dbname: $queries[$i]") || diag $err;
	}
	return;
}

my @options = ('-d', $c->coordinator->connstr('postgres'), '-f', $dump);
command_ok([ 'pg_dump', @options ], 'pg_dump');
unlike(slurp_file($dump), qr/shardfdw_cluster/, 'the virtual server belongs to the extension');
$c->safe_psql('CREATE DATABASE restored');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $c->coordinator->connstr('restored'), '-f', $dump ], 'restore by psql');
same_answers('restored');

command_ok([ 'pg_dump', '-Fc', @options ], 'pg_dump -Fc');
$c->safe_psql('CREATE DATABASE restored2');
command_ok([ 'pg_restore', '--exit-on-error', '-d', $c->coordinator->connstr('restored2'), $dump ], 'pg_restore');
same_answers('restored2');

$c->coordinator->safe_psql('restored', 'UPDATE twice SET v = v + 1; DELETE FROM twice WHERE id > 90');
is($c->coordinator->safe_psql('restored', 'SELECT sum(row_count), bool_and(is_equal) FROM shardfdw.compare_replicas($$twice$$)'), '180|t', 'replicas of shards get what is written after a restore');

is($c->coordinator->safe_psql('restored', 'SELECT count(*) FROM shardfdw.resumable_loads'), 0, 'how far loads have come is not in a dump');
is($c->safe_psql('SELECT name, state FROM shardfdw.resumable_loads'), 'once|finished', 'and stays where they ran');

# The copy can write, too, and the sequence continues.
$c->coordinator->safe_psql('restored', "SET shardfdw.enable_shard_scan = off; INSERT INTO t (v) VALUES (1000), (1001), (1002), (1003)");
is($c->coordinator->safe_psql('restored', 'SELECT count(*), sum(v), max(id) FROM t'), '504|129256|504', 'rows by the restored coordinator');
is($c->safe_psql('SELECT count(*), sum(v), max(id) FROM t'), '504|129256|504', 'are on the nodes that both share');
is($c->coordinator->psql('restored', "INSERT INTO t (v) VALUES (-1)"), 3, 'constraints hold there');

done_testing();
