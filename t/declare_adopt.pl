# Adopts, uses and releases a set-up of postgres_fdw. At each step it must have the same rows as
# plain tables.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 4, add_nodes => 0);
my $coordinator = $c->coordinator;

plan skip_all => 'there is no postgres_fdw'
  if $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0';

# The set-up. Schema far has foreign tables, schema plain has plain tables with the same rows.
my @servers;
for my $i (1 .. 4)
{
	my ($host, $port) = $c->node_address($i);
	push @servers, qq{
		CREATE SERVER s$i FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', fetch_size '7');
		CREATE USER MAPPING FOR CURRENT_USER SERVER s$i};
}
$c->safe_psql(join ";\n", 'CREATE EXTENSION postgres_fdw', @servers, 'CREATE SCHEMA plain', 'CREATE SCHEMA far');

# 16 partitions by range on 4 servers, with other names on the servers; 4 by hash; 3 by list, one of
# them local.
my $columns = 'id int NOT NULL, k text, v numeric DEFAULT 7, d timestamptz';
$c->safe_psql(qq{
	CREATE TABLE plain.m ($columns); CREATE TABLE far.m ($columns) PARTITION BY RANGE (id);
	CREATE TABLE plain.h ($columns); CREATE TABLE far.h ($columns) PARTITION BY HASH (id);
	CREATE TABLE plain.x ($columns); CREATE TABLE far.x ($columns) PARTITION BY LIST (k);
	CREATE TABLE far.x_here PARTITION OF far.x DEFAULT});
for my $n (0 .. 15)
{
	my $server = $n % 4 + 1;
	my ($from, $to) = ($n * 100, $n * 100 + 100);
	$c->node_safe_psql($server, qq{CREATE SCHEMA IF NOT EXISTS "St ore";
		CREATE TABLE "St ore".part_$n ($columns, PRIMARY KEY (id))});
	$c->safe_psql(qq{CREATE FOREIGN TABLE far.m_$n PARTITION OF far.m FOR VALUES FROM ($from) TO ($to)
		SERVER s$server OPTIONS (schema_name 'St ore', table_name 'part_$n')});
}
for my $n (0 .. 3)
{
	my $server = $n + 1;
	$c->node_safe_psql($server, qq{CREATE TABLE h_$n ("Id" int PRIMARY KEY, k text, v numeric, d timestamptz)});
	$c->safe_psql(qq{CREATE FOREIGN TABLE far.h_$n (id int OPTIONS (column_name 'Id') NOT NULL, k text, v numeric DEFAULT 7, d timestamptz)
		SERVER s$server OPTIONS (schema_name 'public');
		ALTER TABLE far.h ATTACH PARTITION far.h_$n FOR VALUES WITH (MODULUS 4, REMAINDER $n)});
	next if $n > 1;
	$c->node_safe_psql($server, qq{CREATE TABLE x_$n ($columns)});
	$c->safe_psql(qq{CREATE FOREIGN TABLE far.x_$n PARTITION OF far.x FOR VALUES IN ('k$n') SERVER s$server OPTIONS (schema_name 'public')});
}

# Single tables: a and b on one server, e on another; views, a trigger, a generated column.
$c->node_safe_psql(1, q{CREATE TABLE a (id int PRIMARY KEY, t text, n int, g int GENERATED ALWAYS AS (n * 2) STORED);
	CREATE TABLE b (id int, a_id int, x numeric)});
$c->node_safe_psql(2, 'CREATE TABLE e (id int, what text)');
$c->safe_psql(q{
	CREATE TABLE plain.a (id int PRIMARY KEY, t text, n int, g int GENERATED ALWAYS AS (n * 2) STORED);
	CREATE TABLE plain.b (id int, a_id int, x numeric);
	CREATE TABLE plain.e (id int, what text);
	CREATE FOREIGN TABLE far.a (id int NOT NULL, t text, n int, g int GENERATED ALWAYS AS (n * 2) STORED) SERVER s1 OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE far.b (id int, a_id int, x numeric) SERVER s1 OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE far.e (id int, what text) SERVER s2 OPTIONS (schema_name 'public');
	CREATE TABLE notes (place text, what text);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO notes VALUES (TG_TABLE_SCHEMA, TG_OP || ' ' || coalesce(OLD.what, '') || ' ' || coalesce(NEW.what, '')); RETURN NULL; END$$});

# Tables that are partitioned in the old way: a trigger or a rule stores odd rows elsewhere, and skips them.
sub skipping
{
	my ($schema, $partition) = @_;
	return qq{
		CREATE TABLE $schema.odd (id int, t text);
		CREATE TABLE $schema.ruled (id int, t text);
		CREATE RULE odd AS ON INSERT TO $schema.ruled WHERE new.id % 2 = 1 DO INSTEAD INSERT INTO $schema.odd VALUES (new.*);
		CREATE FUNCTION $schema.skip() RETURNS trigger LANGUAGE plpgsql AS
			\$\$BEGIN IF NEW.id % 2 = 0 THEN RETURN NEW; END IF; INSERT INTO $schema.odd VALUES (NEW.*); RETURN NULL; END\$\$;
		CREATE TABLE $schema.triggered (id int, t text);
		CREATE TRIGGER skip BEFORE INSERT ON $schema.triggered FOR EACH ROW EXECUTE FUNCTION $schema.skip();
		CREATE TABLE $schema.parts_1 $partition;
		CREATE TRIGGER skip BEFORE INSERT ON $schema.parts_1 FOR EACH ROW EXECUTE FUNCTION $schema.skip()};
}
$c->safe_psql('CREATE TABLE plain.parts (id int, t text) PARTITION BY RANGE (id); CREATE TABLE far.parts (id int, t text) PARTITION BY RANGE (id)');
$c->safe_psql(skipping('plain', 'PARTITION OF plain.parts FOR VALUES FROM (0) TO (1000)'));
$c->node_safe_psql(1, skipping('public', '(id int, t text)'));
$c->safe_psql(qq{CREATE FOREIGN TABLE far.$_ (id int, t text) SERVER s1 OPTIONS (schema_name 'public')}) for 'odd', 'ruled', 'triggered';
$c->safe_psql(q{CREATE FOREIGN TABLE far.parts_1 PARTITION OF far.parts FOR VALUES FROM (0) TO (1000) SERVER s1 OPTIONS (schema_name 'public')});

for my $schema ('plain', 'far')
{
	$c->safe_psql(qq{SET search_path = $schema, public;
		CREATE VIEW joined AS SELECT a.id, t, sum(x) AS s, count(*) AS n FROM a JOIN b ON b.a_id = a.id GROUP BY a.id, t;
		CREATE VIEW small AS SELECT id, t, n FROM a WHERE n < 1000 WITH CHECK OPTION;
		CREATE VIEW by_k AS SELECT k, count(*) AS n, sum(v) AS s FROM m GROUP BY k;
		CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON e FOR EACH ROW EXECUTE FUNCTION note()});
}

my @queries = (
	'SELECT * FROM m ORDER BY id',
	'SELECT * FROM h ORDER BY id',
	'SELECT * FROM x ORDER BY id',
	'SELECT * FROM a ORDER BY id',
	'SELECT * FROM b ORDER BY id, a_id, x',
	'SELECT * FROM e ORDER BY id, what',
	'SELECT * FROM joined ORDER BY id',
	'SELECT * FROM small WHERE n > 5 ORDER BY id',
	'SELECT * FROM by_k ORDER BY k',
	'SELECT k, count(DISTINCT v), avg(v), stddev(id), max(d) FROM m GROUP BY k HAVING count(*) > 1 ORDER BY k',
	'SELECT id, k FROM m WHERE id BETWEEN 95 AND 310 ORDER BY id DESC LIMIT 5 OFFSET 2',
	'SELECT m.id, h.v FROM m JOIN h USING (id) WHERE m.v > 3 ORDER BY id',
	'SELECT a.id, b.id, e.what FROM a LEFT JOIN b ON b.a_id = a.id LEFT JOIN e ON e.id = b.id ORDER BY 1, 2, 3',
	'SELECT a.id, b.id FROM a FULL JOIN b ON b.a_id = a.id AND a.n > 10 ORDER BY 1, 2',
	'SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE a_id = a.id AND x > 3) AND id NOT IN (SELECT id FROM e WHERE id IS NOT NULL) ORDER BY id',
	'SELECT id, rank() OVER (PARTITION BY k ORDER BY v, id) FROM x ORDER BY 1, 2',
	'SELECT x.k, a.t, count(*) FROM x JOIN a ON a.id = x.id GROUP BY x.k, a.t ORDER BY 1, 2',
	'SELECT id, (SELECT max(x) FROM b WHERE a_id = a.id) FROM a ORDER BY id',
	'WITH w AS MATERIALIZED (SELECT id FROM m WHERE k = \'k1\') SELECT count(*) FROM w JOIN h USING (id)',
	'SELECT count(*), sum(id) FROM (SELECT id FROM m UNION SELECT id FROM x) u',
	'SELECT * FROM odd ORDER BY id, t',
	'SELECT * FROM ruled ORDER BY id, t',
	'SELECT * FROM triggered ORDER BY id, t',
	'SELECT * FROM parts ORDER BY id, t',
	'SELECT what FROM notes WHERE place = current_schema() ORDER BY what',
	'SELECT * FROM a WHERE t IS NULL OR t LIKE \'t1%\' ORDER BY id FOR UPDATE',
);

# The changes of one phase. Each of the three phases uses different values.
sub changes
{
	my ($p) = @_;    # phase, 0 to 2
	my $o = $p * 20;
	return (
		"INSERT INTO m SELECT i * 17 % 1600, 'k' || i % 5, i, '2020-01-01 00:00+00'::timestamptz + i * interval '1 hour' FROM generate_series(" . (1 + $p * 500) . ', ' . (500 + $p * 500) . ') i',
		"INSERT INTO h (id, k, d) SELECT i, 'h' || i % 3, '2021-01-01 00:00+00' FROM generate_series(" . (1 + $p * 300) . ', ' . (200 + $p * 300) . ') i RETURNING id, v',
		"INSERT INTO x SELECT i, 'k' || i % 3, i / 3.0, NULL FROM generate_series(" . (1 + $o) . ', ' . (20 + $o) . ') i RETURNING *',
		"INSERT INTO a (id, t, n) SELECT i, 't' || i, i * 3 FROM generate_series(" . (1 + $o) . ', ' . (20 + $o) . ') i RETURNING id, g',
		"INSERT INTO a (id, t) VALUES (" . (1 + $o) . ", 'again') ON CONFLICT DO NOTHING RETURNING id",
		"INSERT INTO b SELECT i, i % 23, i / 7.0 FROM generate_series(" . (1 + $o) . ', ' . (60 + $o) . ') i',
		"INSERT INTO e SELECT i, 'e' || i % 4 FROM generate_series(1, 6) i",
		"UPDATE m SET v = v + 1, k = k || 'u' WHERE id % 10 = $p RETURNING id, v, k",
		"UPDATE h SET v = v * 2 WHERE id < 50 + $o",
		"UPDATE x SET v = -v WHERE k = 'k1' RETURNING id, v",
		'UPDATE a SET n = n + 1 FROM b WHERE b.a_id = a.id AND b.x > 4 RETURNING a.id, a.n, a.g',
		'UPDATE a SET t = upper(t) WHERE id IN (SELECT id FROM e) RETURNING id, t',
		'UPDATE m SET v = h.v FROM h WHERE h.id = m.id AND m.id < 40',
		"UPDATE small SET n = n + 1 WHERE id < $o + 5",
		'UPDATE small SET n = 5000 WHERE id = 3',
		"UPDATE e SET what = what || '$p' WHERE id % 2 = 0",
		"DELETE FROM m WHERE id % 100 = 7 + $p RETURNING id",
		'DELETE FROM b USING a WHERE b.a_id = a.id AND a.n % 7 = 0 RETURNING b.id',
		'DELETE FROM e WHERE id = 6 - ' . $p,
		"DELETE FROM x WHERE k = 'k0' AND id < $o + 10",
		'BEGIN; UPDATE a SET n = 0; SAVEPOINT s; DELETE FROM h; ROLLBACK TO s; DELETE FROM b; ROLLBACK',
		"BEGIN; DELETE FROM h WHERE id = " . (10 + $p * 300) . "; UPDATE m SET k = 'both' WHERE id = " . (20 + $p) . '; COMMIT',
		"PREPARE p (int) AS SELECT id, v FROM m WHERE id = \$1; EXECUTE p (17); EXECUTE p (34); EXECUTE p (51); EXECUTE p (68); EXECUTE p (85); EXECUTE p (102); EXECUTE p (119); DEALLOCATE p",
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM m ORDER BY id; FETCH 3 FROM c; MOVE 100 IN c; FETCH 2 FROM c; CLOSE c; COMMIT",
		'COPY (SELECT * FROM b ORDER BY id, a_id, x) TO STDOUT',
		$p == 1 ? 'TRUNCATE b' : 'ANALYZE b',
		(map {
			(   "INSERT INTO $_ SELECT i, '$p' FROM generate_series(1, 7) i",
				"INSERT INTO $_ VALUES (1, 'a'), (2, 'b'), (3, 'c')",
				"INSERT INTO $_ VALUES (1, 'one')",
				"INSERT INTO $_ SELECT id, t FROM plain.a WHERE id < 4")
		} 'ruled', 'triggered', 'parts'),
		(map {
			(   "INSERT INTO $_ SELECT i, '$p' FROM generate_series(1, 7) i RETURNING *",
				"COPY $_ FROM stdin;\n1\tx\n2\ty\n3\tz\n\\.\n")
		} 'triggered', 'parts'),
	);
}

# Output of a statement in one of the schemas: rows, command tags and SQLSTATEs.
sub run_in
{
	my ($schema, $sql) = @_;
	my ($rc, $out, $err) = $c->psql("SET search_path = $schema, public;\n\\set VERBOSITY sqlstate\n\\set QUIET off\n$sql", extra_params => ['--echo-errors'], on_error_stop => 0);
	die $err if $rc == 2;
	my @errors = $err =~ /ERROR: +([0-9A-Z]{5})/g;
	return join "\n", (sort split /\n/, $out), "errors: @errors";
}

# All of them by one session; answers by query.
sub rows_in
{
	my ($schema) = @_;
	my $out = $c->safe_psql("SET search_path = $schema, public;\n" . join "\n", map { "\\echo ## $_\n$queries[$_];" } 0 .. $#queries);
	my %rows = $out =~ /^## (\d+)\n(.*?)(?=^## |\z)/gms;
	return %rows;
}

sub same_rows
{
	my ($when) = @_;
	my %plain = rows_in('plain');
	my %far = rows_in('far');

	is(scalar(keys %plain), scalar(@queries), "$when: all queries have run");
	is($far{$_}, $plain{$_}, "$when: $queries[$_]") for 0 .. $#queries;
	return;
}

sub same_changes
{
	my ($when, $phase) = @_;
	for my $sql (changes($phase))
	{
		my $plain = run_in('plain', $sql);
		my $far = run_in('far', $sql);
		is($far, $plain, "$when: $sql");
	}
	return;
}

my $handler = sub { return $c->safe_psql(q{SELECT fdwhandler::regproc FROM pg_foreign_data_wrapper WHERE fdwname = 'postgres_fdw'}); };

same_changes('postgres_fdw', 0);
same_rows('postgres_fdw');

# Existing sessions: one has read and keeps its plan; another one has written and delays the change.
my $reader = $c->start_sql(q{
	PREPARE one AS SELECT id, v FROM far.m WHERE id < 60 ORDER BY id;
	PREPARE two AS UPDATE far.a SET n = n WHERE id = 1 RETURNING id, n;
	CREATE TEMP TABLE first AS EXECUTE one;
	EXECUTE one; EXECUTE two;
	DO $$BEGIN
		WHILE (SELECT fdwhandler::regproc::text FROM pg_foreign_data_wrapper WHERE fdwname = 'postgres_fdw') <> 'shardfdw_internal.shardfdw_handler' LOOP
			COMMIT; PERFORM pg_sleep(0.02);
		END LOOP; END$$;
	CREATE TEMP TABLE second AS EXECUTE one;
	SELECT 'differ', count(*) FROM (TABLE first EXCEPT ALL TABLE second) d;
	EXPLAIN (COSTS OFF) EXECUTE one; EXPLAIN (VERBOSE, COSTS OFF) EXECUTE two; EXECUTE two});
my $writer = $c->start_sql(q{
	BEGIN; UPDATE far.a SET n = n + 100 WHERE id = 2;
	DO $$BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation') LOOP PERFORM pg_sleep(0.02); END LOOP; END$$;
	UPDATE far.a SET n = n - 100 WHERE id = 2 RETURNING 'writer sees ' || n; COMMIT});
$c->wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'far.a'::regclass AND mode = 'RowExclusiveLock'});
my $before = $c->safe_psql('SELECT n FROM far.a WHERE id = 2');
$c->safe_psql('SELECT shardfdw.adopt_postgres_fdw()');
my ($rc, $out, $err) = $c->wait_sql($writer);
is($out, "writer sees $before", 'a transaction ends with the wrapper that it has begun with');
($rc, $out, $err) = $c->wait_sql($reader);
is($rc, 0, 'a session from before') or diag($err);
like($out, qr/differ\|0/, 'which has the same rows');
like($out, qr/Shards: 1 of 16/, 'and another plan');
is($handler->(), 'shardfdw_internal.shardfdw_handler', 'adopted');

same_rows('adopted');
same_changes('adopted', 1);
same_rows('adopted, changed');
unlike($c->safe_psql('EXPLAIN SELECT k, sum(v) FROM far.m GROUP BY k'), qr/Append/, 'a parent of foreign partitions is planned as one table');
like($c->safe_psql('EXPLAIN (VERBOSE) SELECT * FROM far.joined'), qr/Remote SQL: .*JOIN.*GROUP BY/, 'a join of foreign tables runs on the node');
like($c->safe_psql('SELECT shardfdw.shard_for(\'far.m\', 250)'), qr/^far\.m_2$/, 'its partitions are shards');

# Sessions without the library's hooks
$c->safe_psql(q{ALTER DATABASE postgres SET session_preload_libraries = 'plpgsql'});
same_rows('adopted, library not preloaded');
$c->safe_psql(q{ALTER DATABASE postgres SET session_preload_libraries = 'shardfdw'});

# DDL changes the coordinator only, as with postgres_fdw, although the tables have the same names on
# the servers
$c->node_safe_psql(1, 'CREATE TABLE stays_1 (id int)');
$c->safe_psql(q{CREATE TABLE stays (id int) PARTITION BY LIST (id); CREATE FOREIGN TABLE stays_1 PARTITION OF stays FOR VALUES IN (1) SERVER s1;
	INSERT INTO stays VALUES (1); ALTER TABLE stays ADD COLUMN t text});
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'stays_1'::regclass AND attnum > 0}), 1, 'ALTER TABLE stays on the coordinator');
$c->safe_psql(q{ALTER TABLE stays DROP COLUMN t; ALTER SERVER s1 OPTIONS (ADD propagate_ddl 'true'); ALTER TABLE stays ADD COLUMN u text});
is($c->node_safe_psql(1, q{SELECT attname FROM pg_attribute WHERE attrelid = 'stays_1'::regclass AND attnum = 2}), 'u', 'or goes to the server that says so');
$c->safe_psql('ALTER SERVER s1 OPTIONS (DROP propagate_ddl); DROP TABLE stays');
is($c->node_safe_psql(1, 'SELECT count(*) FROM stays_1'), 1, 'DROP TABLE leaves the rows where they are');

# IMPORT FOREIGN SCHEMA
$c->safe_psql('CREATE SCHEMA imported; IMPORT FOREIGN SCHEMA public LIMIT TO (a, b) FROM SERVER s1 INTO imported');
is($c->safe_psql('SELECT sum(n), sum(g) FROM imported.a'), $c->safe_psql('SELECT sum(n), sum(g) FROM plain.a'), 'imported tables');

# A dump of it is adopted when it is restored.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$coordinator->command_ok([ 'pg_dump', '-f', $dump, $coordinator->connstr('postgres') ], 'pg_dump');
$c->safe_psql('CREATE DATABASE restored');
$coordinator->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $coordinator->connstr('restored') ], 'restored');
is($coordinator->safe_psql('restored', q{SELECT fdwhandler::regproc FROM pg_foreign_data_wrapper WHERE fdwname = 'postgres_fdw'}),
	'shardfdw_internal.shardfdw_handler', 'is adopted there, too');
is($coordinator->safe_psql('restored', 'SELECT count(*), sum(v) FROM far.m'), $c->safe_psql('SELECT count(*), sum(v) FROM plain.m'), 'and has the same rows');
is($coordinator->safe_psql('restored', 'SELECT count(*) FROM shardfdw_internal.adopted_wrapper'), 1, 'once');

# Roles that may adopt, and the conditions
$c->safe_psql('CREATE ROLE nobody LOGIN; GRANT EXECUTE ON FUNCTION shardfdw.adopt_postgres_fdw(), shardfdw.release_postgres_fdw() TO nobody');
$c->psql_fails_like("SET ROLE nobody; SELECT shardfdw.$_()", qr/ERROR: +42501/, "$_ is for superusers") for 'release_postgres_fdw', 'adopt_postgres_fdw';
$c->psql_fails_like('SELECT shardfdw.adopt_postgres_fdw()', qr/ERROR: +55000: .*adopted already/, 'adopted twice');
$c->psql_fails_like('BEGIN; UPDATE far.a SET n = n WHERE id = 1; SELECT shardfdw.release_postgres_fdw()', qr/ERROR: +25001/, 'not after writing in the same transaction');
$c->psql_fails_like('DROP EXTENSION shardfdw', qr/ERROR: +2BP01/, 'the extension is needed');
$c->safe_psql(q{ALTER SERVER s2 OPTIONS (ADD cores '4')});
$c->psql_fails_like('SELECT shardfdw.release_postgres_fdw()', qr/ERROR: +HV00D: .*cores of server "s2"/s, 'options that postgres_fdw does not know are named');
is($handler->(), 'shardfdw_internal.shardfdw_handler', 'and nothing has changed');
$c->safe_psql(q{ALTER SERVER s2 OPTIONS (DROP cores)});

is($c->safe_psql(q{SELECT count(*) > 0 FROM shardfdw.check_cluster()}), 't', 'to check them leaves nothing in their options');
$c->safe_psql('SELECT shardfdw.release_postgres_fdw()');
is($handler->(), 'postgres_fdw_handler', 'released');
same_rows('released');
same_changes('released', 2);
same_rows('released, changed');
unlike($c->safe_psql('EXPLAIN (VERBOSE) SELECT * FROM far.a'), qr/Node:/, 'by postgres_fdw');

# Shards next to partitions of postgres_fdw. Core builds a hash table of a sub-select for each
# partition, and again for each outer row.
$c->add_node(1);
$c->node_safe_psql(2, 'CREATE TABLE mixed_0 (i int, v int); CREATE TABLE mixed_2 (i int, v int)');
$c->safe_psql(q{CREATE TABLE mixed (i int, v int) PARTITION BY LIST (i);
	SELECT shardfdw.create_shard('mixed', 'mixed_1', 'IN (1)', 'node1')});
$c->safe_psql("CREATE FOREIGN TABLE mixed_$_ PARTITION OF mixed FOR VALUES IN ($_) SERVER s2 OPTIONS (schema_name 'public', async_capable 'true')") for 0, 2;
$c->safe_psql(q{INSERT INTO mixed SELECT g % 3, g % 10 FROM generate_series(1, 2000) g; CREATE TABLE plain.mixed AS TABLE mixed;
	CREATE TABLE plain.left_out AS SELECT g AS id, g % 10 AS v FROM generate_series(1, 6) g; ANALYZE mixed, plain.mixed, plain.left_out});
my $repeated = 'SELECT o.i, (SELECT sum(m.v) FROM %s m WHERE m.v NOT IN (SELECT p.v FROM plain.left_out p WHERE p.id = o.i)) FROM generate_series(1, 6) o (i)';
is($c->safe_psql(sprintf $repeated, 'mixed'), $c->safe_psql(sprintf $repeated, 'plain.mixed'), 'a hashed sub-select that changes');
unlike($c->safe_psql('EXPLAIN ' . sprintf $repeated, 'mixed'), qr/Async/, 'is in no asynchronous scan');
like($c->safe_psql('EXPLAIN SELECT * FROM mixed'), qr/Async Foreign Scan on mixed_0/, 'as others are');
$c->safe_psql(q{DROP TABLE mixed; SELECT shardfdw.remove_node('node1')});

$c->psql_fails_like('SELECT shardfdw.release_postgres_fdw()', qr/ERROR: +55000: .*not adopted/, 'released twice');
$c->psql_fails_like('BEGIN; UPDATE far.a SET n = n WHERE id = 1; SELECT shardfdw.adopt_postgres_fdw()', qr/ERROR: +25001/, 'not in a transaction of postgres_fdw');
$c->safe_psql('DROP EXTENSION shardfdw');
is($c->safe_psql('SELECT count(*) FROM far.m'), $c->safe_psql('SELECT count(*) FROM plain.m'), 'the extension can go');

done_testing();
