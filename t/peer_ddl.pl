# Registers several coordinators with each other. A change of definitions must be made on all of them,
# or on none. Rows of a plain table, and the values of sequences, belong to one coordinator.

use strict;
use warnings;

use ShardPeers;
use Test::More;

my $p = ShardPeers->new(coordinators => 3);
my @all = $p->all;
my $c = $all[0];

# ---------- made known to each other ----------

$c->safe_psql(q{
	CREATE TABLE orders (id bigint PRIMARY KEY, code int, at timestamptz DEFAULT now());
	CREATE TABLE country (code int PRIMARY KEY, name text);
	CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, v int)});
$c->shard_table('orders', 'id', shards => 4);
$c->shard_table('numbered', 'id', shards => 4);
$c->safe_psql(q{SELECT shardfdw.create_reference_table('country'); INSERT INTO country SELECT g, 'country ' || g FROM generate_series(0, 6) g; INSERT INTO numbered (v) VALUES (1), (2)});

my $add_second = "SELECT shardfdw.add_coordinator('c2', " . $p->address(2) . ')';

$c->psql_fails_like($add_second, qr/could not add coordinator "c2".*does not exist/s, 'a server without the extension');
$p->restore(2);
$c->psql_fails_like($add_second, qr/this database has not been declared as a coordinator itself/, 'the others before this one');
$p->add(1);
$c->safe_psql(q{CREATE SEQUENCE before_others; CREATE TABLE parted (a int) PARTITION BY LIST (a); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)});
$c->safe_psql('ALTER TABLE parted DETACH PARTITION parted_1 CONCURRENTLY');
$c->safe_psql('DROP TABLE parted, parted_1');
$c->psql_fails_like($add_second, qr/could not add coordinator "c2" because its definitions are not those of this one.*server c1 is here, but not there/s, 'an old dump');

$all[1]->coordinator->safe_psql('template1', $_) for 'DROP DATABASE postgres WITH (FORCE)', 'CREATE DATABASE postgres';
$p->add($_) for 2, 3;
$p->same('SELECT string_agg(name || number, chr(32) ORDER BY name) FROM shardfdw.coordinators', 'c11 c22 c33', 'all know all');
is(join(' ', map { $_->safe_psql('SELECT name FROM shardfdw.coordinators WHERE is_this') } @all), 'c1 c2 c3', 'and who they are');
is(join(' ', map { $_->safe_psql(q{SELECT nextval('before_others') >> 48}) } @all), '0 1 2', 'a sequence that was made before the second one came is shared out');
$p->all_alike('at the beginning');

# ---------- definitions ----------

# roles are each server's own
$_->safe_psql('CREATE ROLE clerk LOGIN') for @all;

# Each runs on one coordinator, in turn; all have it afterwards.
my $strings_vary = $c->safe_psql('SHOW server_version_num') < 190000;
my @definitions = (
	'a column with a default' => q{ALTER TABLE orders ADD COLUMN note text DEFAULT 'none', ADD COLUMN made timestamptz DEFAULT '2024-02-01 10:00'},
	'an index' => 'CREATE INDEX ON orders (code); CREATE UNIQUE INDEX orders_both ON orders (id, code)',
	'a check' => 'ALTER TABLE orders ADD CHECK (code < 1000)',
	'a foreign key' => 'ALTER TABLE orders ADD CONSTRAINT of_country FOREIGN KEY (code) REFERENCES country (code) NOT VALID; ALTER TABLE orders VALIDATE CONSTRAINT of_country',
	'its name' => 'ALTER TABLE orders RENAME CONSTRAINT of_country TO in_country',
	'not any more' => 'ALTER TABLE orders DROP CONSTRAINT in_country',
	'renamed' => 'ALTER TABLE orders RENAME COLUMN note TO remark; ALTER INDEX orders_both RENAME TO orders_pair; ALTER TABLE orders RENAME TO purchases',
	'another type' => 'ALTER TABLE purchases ALTER COLUMN code TYPE bigint',
	'a comment' => q{COMMENT ON TABLE purchases IS 'what was bought'; COMMENT ON COLUMN purchases.code IS 'country'},
	'statistics' => 'CREATE STATISTICS purchases_s ON code, at FROM purchases; ALTER STATISTICS purchases_s SET STATISTICS 50',
	'names of a schema that is in search_path' => 'CREATE SCHEMA other; SET search_path = other; CREATE TABLE inner_one (a int PRIMARY KEY); CREATE VIEW all_of_it AS SELECT * FROM inner_one; CREATE INDEX ON inner_one ((a + 1))',
	'elements of a schema' => 'CREATE SCHEMA elements CREATE TABLE inner_two (id serial PRIMARY KEY, v int)
		CREATE INDEX ON inner_two (v) GRANT SELECT (code) ON public.purchases TO clerk',
	'settings' => ($strings_vary ? 'SET standard_conforming_strings = off; ' : '') . q{SET datestyle = 'German'; CREATE TABLE dated (d date DEFAULT '02.03.2024', t text DEFAULT 'a\\tb')},
	'functions, types, domains' => q{CREATE TYPE colour AS ENUM ('red', 'green'); CREATE DOMAIN few AS int CHECK (value < 10);
		CREATE FUNCTION twice(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * a'; ALTER TYPE colour ADD VALUE 'blue'; CREATE TYPE pair AS (a int, b few)},
	'in a function' => q{DO $$BEGIN FOR i IN 1..3 LOOP EXECUTE format('CREATE TABLE loop_%s (id int PRIMARY KEY, c colour, f few)', i); END LOOP; END$$},
	'sharded' => q{SELECT shardfdw.shard_table('loop_1', 'id', 4), shardfdw.shard_table('loop_2', 'id', colocate_with => 'loop_1')},
	'a reference table' => q{SELECT shardfdw.create_reference_table('loop_3'); ALTER TABLE loop_3 ADD COLUMN d date; CREATE INDEX ON loop_3 (d); ALTER TABLE loop_1 ADD FOREIGN KEY (id) REFERENCES loop_3 (id)},
	'a view of a table that is sharded' => 'CREATE TABLE viewed (id int PRIMARY KEY, v int); CREATE VIEW views AS SELECT id FROM viewed;
		SELECT shardfdw.shard_table($$viewed$$, shards => 2)',
	'tables that refer to each other' => q{CREATE TABLE tie (id int PRIMARY KEY); CREATE TABLE tied (tie_id int REFERENCES tie ON DELETE CASCADE, n int, PRIMARY KEY (tie_id, n)); SELECT shardfdw.shard_tables('{tie,tied}', 'tie_id', 4)},
	'values for each row' => q{INSERT INTO tie SELECT generate_series(1, 20); ALTER TABLE tie ADD COLUMN u uuid DEFAULT gen_random_uuid(), ADD COLUMN s bigserial},
	'a user' => q{SELECT shardfdw.add_user('clerk', password => 'secret'); GRANT USAGE ON SCHEMA public TO clerk; GRANT SELECT ON tie TO clerk},
	'by range' => q{CREATE TABLE events (at date NOT NULL, v int) PARTITION BY RANGE (at);
		SELECT shardfdw.create_shard('events', 'events_1', $$FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')$$, 'node1');
		SELECT shardfdw.create_shard('events', 'events_2', $$FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')$$, 'node2')},
	'months' => q{CREATE TABLE metered (at date NOT NULL, d int NOT NULL, v int CHECK (v > 0), PRIMARY KEY (at, d)) PARTITION BY RANGE (at);
		CREATE TABLE metered_1 PARTITION OF metered FOR VALUES FROM ('2024-01-01') TO ('2024-02-01') PARTITION BY HASH (d);
		SELECT shardfdw.shard_table('metered_1', shards => 2); SELECT shardfdw.create_time_partitions('metered', '1 month', '2024-04-01');
		INSERT INTO metered VALUES ('2024-01-03', 1, 1), ('2024-02-03', 1, 1), ('2024-03-03', 1, 1); SELECT shardfdw.drop_old_time_partitions('metered', '2024-02-01')},
	'a partition off and on' => q{ALTER TABLE events DETACH PARTITION events_1; ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')},
	'a schema on one node' => q{CREATE SCHEMA tenant; CREATE TABLE tenant.a (id int PRIMARY KEY, v text UNIQUE); SELECT shardfdw.shard_schema('tenant');
		CREATE TABLE tenant.b (id serial PRIMARY KEY, a int REFERENCES tenant.a); ALTER TABLE tenant.b ADD COLUMN c text UNIQUE},
	'a table of a query' => 'CREATE TABLE counted AS SELECT code, count(*) FROM purchases GROUP BY code; CREATE MATERIALIZED VIEW summed AS SELECT sum(id) FROM purchases',
	'triggers, policies, rules' => q{CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; CREATE TRIGGER t BEFORE INSERT ON counted FOR EACH ROW EXECUTE FUNCTION nothing();
		ALTER TABLE counted ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON counted USING (code > 0); CREATE RULE r AS ON DELETE TO counted DO INSTEAD NOTHING},
	'what is dropped' => 'DROP INDEX orders_pair; DROP TABLE loop_2, counted; DROP VIEW other.all_of_it; DROP TYPE pair; DROP SCHEMA tenant CASCADE',
	'a node' => 'ALTER SERVER node1 OPTIONS (ADD capacity $$2$$)',
	'a schema renamed' => 'CREATE TABLE other.sharded (id int PRIMARY KEY); SELECT shardfdw.shard_table($$other.sharded$$, $$id$$, 2); ALTER SCHEMA other RENAME TO another',
);
for (my $i = 0; $i < @definitions; $i += 2)
{
	$all[$i / 2 % @all]->safe_psql($definitions[ $i + 1 ]);
	$p->all_alike($definitions[$i], by => $i / 2 + 1);
}

# Definitions that are known only after the statement was run here, or that concern this session
# only
my @corners = (
	'types by their names' => q{CREATE TYPE rgb AS ENUM ('r'); ALTER TYPE rgb RENAME TO hue; CREATE SCHEMA far; ALTER TYPE hue SET SCHEMA far; ALTER TYPE far.hue OWNER TO CURRENT_USER; COMMENT ON TYPE far.hue IS 'x';
		CREATE DOMAIN tiny AS int; ALTER DOMAIN tiny SET SCHEMA far; ALTER DOMAIN far.tiny ADD CHECK (value < 3); DROP DOMAIN far.tiny; DROP TYPE far.hue},
	'a table of a query over a temporary table' => q{CREATE TEMP TABLE mine AS SELECT 1 AS a, 'x'::varchar(5) COLLATE "C" AS "B b"; CREATE TABLE of_mine WITH (fillfactor = 70) AS TABLE mine; CREATE TABLE IF NOT EXISTS of_mine AS TABLE mine; DROP TABLE mine},
	'of a prepared statement' => q{PREPARE p AS SELECT 1::numeric(5, 2) AS n, ARRAY['a'] AS l; CREATE TABLE of_prepared AS EXECUTE p; SELECT 1 AS one INTO selected_into},
	'of a function that makes one' => q{CREATE FUNCTION makes() RETURNS int LANGUAGE plpgsql AS 'BEGIN CREATE TABLE made_within (a int); RETURN 1; END'; CREATE TABLE of_function AS SELECT makes() AS a},
	'a view of a temporary table' => q{CREATE TEMP TABLE mine (a int); CREATE VIEW over_mine AS SELECT * FROM mine; CREATE VIEW over_all AS SELECT 1 AS a; DROP TABLE mine CASCADE},
	'a search_path that begins with pg_temp' => q{SET search_path = pg_temp, public; CREATE TABLE mine (a int, b int); CREATE STATISTICS mine_s ON a, b FROM mine; DROP STATISTICS pg_temp.mine_s; CREATE TYPE my_type AS ENUM ('a'); ALTER TYPE my_type ADD VALUE 'b';
		CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; GRANT EXECUTE ON FUNCTION pg_temp.f() TO PUBLIC; CREATE DOMAIN my_domain AS int; ALTER DOMAIN my_domain SET NOT NULL; DROP TABLE mine},
	'an event trigger' => q{CREATE FUNCTION noted() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN IF current_setting('shardfdw.follows_coordinator') <> 'on' THEN NOTIFY ddl; END IF; END$$; CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION noted();
		CREATE TABLE while_noted (a int); DROP EVENT TRIGGER noted},
	'a serial column that grows' => q{CREATE TABLE grows (id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int); INSERT INTO grows (v) SELECT 1 FROM generate_series(1, 5); SELECT shardfdw.shard_table('grows', 'id', 2)},
	'privileges that the owner lacks, and that another role has granted' => q{
		CREATE TABLE passed_on (id int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY);
		GRANT SELECT ON passed_on TO clerk WITH GRANT OPTION;
		GRANT USAGE ON SEQUENCE passed_on_i_seq TO clerk WITH GRANT OPTION;
		REVOKE DELETE ON passed_on FROM CURRENT_USER;
		SELECT shardfdw_internal.repeat_grant('clerk', g) FROM unnest(ARRAY[
			'GRANT SELECT ON public.passed_on TO pg_monitor',
			'GRANT USAGE ON SEQUENCE public.passed_on_i_seq TO pg_monitor']) g;
		SELECT shardfdw.shard_table('passed_on', 'id', 2)},
);
for (my $i = 0; $i < @corners; $i += 2)
{
	$all[ $i / 2 % @all ]->safe_psql($corners[ $i + 1 ]);
	$p->all_alike($corners[$i], by => $i / 2 + 1);
}
$p->all_alike('all of these');
$p->same(q{SELECT string_agg(a::text, ' ' ORDER BY a::text COLLATE "C")
		FROM pg_class c, unnest(c.relacl) a
		WHERE c.relname LIKE 'passed_on%' AND c.relkind IN ('p', 'S') AND a::text LIKE 'pg_monitor%'},
	'pg_monitor=U/clerk pg_monitor=r/clerk', 'grants of another role');
$p->same(q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('of_mine', 'of_prepared', 'selected_into', 'of_function', 'made_within', 'over_mine', 'over_all')}, 'made_within of_function of_mine of_prepared over_all selected_into', 'what is to stay');
$_->safe_psql('INSERT INTO grows (v) SELECT 2 FROM generate_series(1, 5)') for @all;
$all[0]->safe_psql('DROP SEQUENCE IF EXISTS none; ALTER TABLE grows ALTER id DROP IDENTITY; ALTER TABLE grows ALTER id ADD GENERATED ALWAYS AS IDENTITY (START 1000)');
my @refused = (
	[ 0, q{EXPLAIN ANALYZE CREATE TABLE explained AS SELECT 1}, qr/0A000.*EXPLAIN ANALYZE cannot make table "explained"/s ],
	[ 1, q{ALTER TABLE events DETACH PARTITION events_1 CONCURRENTLY}, qr/0A000.*DETACH PARTITION CONCURRENTLY/s ],
	[ 1, q{CREATE TABLE refers_to (id int PRIMARY KEY, c int REFERENCES country)}, qr/0A000.*plain table public\.refers_to cannot refer to reference table public\.country/s ],
	[ 2, q{ALTER TABLE country ADD COLUMN at timestamptz DEFAULT now()}, qr/0A000.*default that is not immutable, where there are several coordinators/s ],
	[ 2, q{ALTER TABLE country ALTER name TYPE text USING name || current_setting('timezone')}, qr/0A000.*USING expression that is not immutable/s ],
);
$all[ $_->[0] ]->psql_fails_like($_->[1], $_->[2], "refused: $_->[1]") for @refused;
$p->all_alike('after what was refused', rows => 1);

# Some commands run on all coordinators in parallel, others commit on one after the other. At the
# end all must be the same.
$all[1]->safe_psql('CREATE INDEX CONCURRENTLY purchases_at ON purchases (at)');
$p->all_alike('CREATE INDEX CONCURRENTLY');
$all[2]->safe_psql('DROP INDEX CONCURRENTLY purchases_at');
$p->all_alike('DROP INDEX CONCURRENTLY');

# ---------- all or nothing ----------

$all[1]->safe_psql('BEGIN; ALTER TABLE purchases ADD COLUMN gone int; ROLLBACK');
$p->all_alike('rolled back');
$all[1]->safe_psql('BEGIN; ALTER TABLE purchases ADD COLUMN stays int; SAVEPOINT s; ALTER TABLE purchases ADD COLUMN gone int; ROLLBACK TO s; COMMIT');
$p->all_alike('a savepoint rolled back');
$p->same(q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'purchases'::regclass AND attname IN ('stays', 'gone')}, '1', 'and no more');
$all[0]->psql_fails_like('BEGIN; ALTER TABLE purchases ADD CHECK (id < 0); SELECT 1 / 0', qr/division by zero/, 'an error');
$p->all_alike('an error');

# temporary objects are a session's own
$all[2]->safe_psql(q{CREATE TEMP TABLE purchases (a int); CREATE INDEX ON purchases (a); ALTER TABLE purchases ADD b int; COMMENT ON TABLE purchases IS 'mine';
	CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TEMP VIEW v AS SELECT * FROM purchases; CREATE TEMP SEQUENCE s; DROP FUNCTION pg_temp.f(); DROP TABLE purchases CASCADE});
$p->all_alike('temporary objects');

# ---------- rows ----------

$c->safe_psql('CREATE TABLE here (id int PRIMARY KEY); CREATE TABLE refers (id int PRIMARY KEY)');
$all[1]->safe_psql('INSERT INTO here VALUES (1); INSERT INTO refers VALUES (1)');
$c->psql_fails_like(q{SELECT shardfdw.shard_table('here', 'id')}, qr/cannot shard table "here" because it has rows on coordinator "c2"/, 'rows of a plain table are one coordinator\'s');
$c->psql_fails_like(q{SELECT shardfdw.create_reference_table('refers')}, qr/cannot replicate table "refers" because it has rows on coordinator "c2"/, 'also for a reference table');
$all[1]->safe_psql(q{SELECT shardfdw.shard_table('here', 'id', 2), shardfdw.create_reference_table('refers')});
$p->same('SELECT (SELECT sum(id) FROM here), (SELECT sum(id) FROM refers)', '1|1', 'from there it works');
$p->all_alike('a table with rows', rows => 1);
$c->psql_fails_like(q{SELECT shardfdw.unshard_table('here')}, qr/cannot unshard table public.here because there are several coordinators/, 'no way back');
$c->psql_fails_like(q{SELECT shardfdw.shard_table('dated', 'd', mode => 'online')}, qr/cannot shard table public.dated online because there are several/, 'not online');

$c->safe_psql('INSERT INTO purchases (id, code) SELECT g, g % 7 FROM generate_series(1, 1000) g');
$p->same('SELECT count(*), sum(id) FROM purchases', '1000|500500', 'rows of a sharded table');
$_->safe_psql('INSERT INTO numbered (v) SELECT 3 FROM generate_series(1, 100)') for @all;
$p->same('SELECT count(*), count(DISTINCT id), count(DISTINCT n) FROM numbered', '302|302|302', 'identity and serial values are each coordinator\'s own');
$all[1]->safe_psql('CREATE TABLE late (id bigserial PRIMARY KEY, n smallserial); SELECT shardfdw.shard_table($$late$$, $$id$$, 2)');
$_->safe_psql('INSERT INTO late SELECT FROM generate_series(1, 10)') for @all;
$p->same('SELECT count(DISTINCT id), count(DISTINCT n) FROM late', '30|30', 'also of new tables');
$all[1]->psql_fails_like('ALTER SEQUENCE late_id_seq RESTART WITH 1', qr/cannot be less than MINVALUE/, 'nor does RESTART reach the share of another one');

done_testing();
