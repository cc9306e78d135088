# Sessions change definitions although they have not loaded the library when the statement begins.
# They started before CREATE EXTENSION, or their role has a different session_preload_libraries.
#
# Each statement is the first of its session. If the nodes' tables have to follow a change, the
# first try must be refused and the second must succeed. If they do not have to follow, the first
# try must succeed. What is dropped must be dropped on the nodes, too.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2, extension => 0);
my $pooled = WireClient->new($c->coordinator, 'postgres');
$pooled->query($_) for 'CREATE FUNCTION add_column(name text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format(\'ALTER TABLE s.t ADD COLUMN %I int\', name); END $$',
  q{PREPARE add_column AS SELECT add_column('pooled')};
$c->safe_psql('CREATE EXTENSION shardfdw');
$c->add_node($_) for 1, 2;
$c->safe_psql(<<'SQL');
SET client_min_messages = warning;
CREATE ROLE app LOGIN; CREATE ROLE other;
ALTER ROLE app SET session_preload_libraries = 'plpgsql';
CREATE SCHEMA s; CREATE SCHEMA elsewhere; CREATE SCHEMA plain; CREATE SCHEMA going; CREATE TYPE going.pair AS (a int, b int);
CREATE TABLE s.t (a int PRIMARY KEY, b int, c text);
SELECT shardfdw.shard_table('s.t', shards => 4);
CREATE TABLE s.u (a int PRIMARY KEY, p going.pair, CONSTRAINT positive CHECK (a > 0));
CREATE INDEX ui ON s.u (p);
SELECT shardfdw.shard_table('s.u', colocate_with => 's.t');
CREATE TABLE s.r (id int PRIMARY KEY, n text); CREATE TABLE s.r2 (id int PRIMARY KEY);
SELECT shardfdw.create_reference_table('s.r'), shardfdw.create_reference_table('s.r2');
CREATE TABLE s.m (a int, day date) PARTITION BY RANGE (day);
CREATE TABLE s.m1 (a int, day date);
SELECT shardfdw.shard_table('s.m1', 'a', shards => 2);
ALTER TABLE s.m ATTACH PARTITION s.m1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE s.hand (a int) PARTITION BY LIST (a);
CREATE TABLE s.keyed (a int PRIMARY KEY) PARTITION BY LIST (a);
CREATE TABLE going.t (a int PRIMARY KEY); CREATE TABLE going.r (a int PRIMARY KEY);
SELECT shardfdw.shard_table('going.t', shards => 2), shardfdw.create_reference_table('going.r');
CREATE TABLE plain.l (a int, b int); CREATE TABLE plain.p (a int) PARTITION BY LIST (a);
INSERT INTO s.t SELECT i, i % 5, 'x' FROM generate_series(1, 50) i;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
SQL

my $late = '-c client_min_messages=error -c session_preload_libraries=';

# Returns what psql prints for statements that are the first of a session, and are run twice on
# request: "ERROR: 55000" and the like.
sub run_late
{
	my ($sql, $options) = @_;
	local $ENV{PGOPTIONS} = $options // $late;
	my (undef, undef, $err) = $c->psql("\\set VERBOSITY sqlstate\n$sql", on_error_stop => 0);
	$err =~ s/^psql:\S+ //mg;
	return $err;
}

sub refused_ok
{
	my ($sql) = @_;
	return is(run_late("$sql;\n$sql;"), 'ERROR:  55000', "refused, then done: $sql");
}

sub passes_ok
{
	my ($sql, $options) = @_;
	return is(run_late("$sql;", $options), '', "done at once: $sql");
}

sub on_nodes
{
	my ($sql) = @_;
	return join ' ', map { $c->node_safe_psql($_, $sql) } 1, 2;
}

sub differences { return $c->safe_psql(q{SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND check_name ~ '^(shard|reference|table|objects)'}); }

is(differences(), '', 'both sides are equal');

# What it says
{
	local $ENV{PGOPTIONS} = $late;
	my (undef, undef, $err) = $c->psql('ALTER TABLE s.t ADD COLUMN z int');
	like($err, qr/ERROR:  this session had not loaded the library shardfdw when the statement began\nDETAIL:  It would have changed definitions on the coordinator, and not on the nodes\.\nHINT:  Run it again/, 'the error tells what to do');
}

# Statements on tables that are changed on nodes, too
refused_ok($_)
  for
  'ALTER TABLE s.t ADD COLUMN z int', 'ALTER TABLE s.t ADD CHECK (b < 1000)', 'ALTER TABLE s.t ADD UNIQUE (a, b)', 'ALTER TABLE s.t ALTER COLUMN b TYPE bigint',
  'ALTER TABLE s.t DROP COLUMN z', 'ALTER TABLE s.t RENAME COLUMN c TO cc', 'ALTER TABLE s.t RENAME CONSTRAINT t_pkey TO t_key', 'ALTER TABLE s.t OWNER TO other',
  'ALTER TABLE s.t SET (fillfactor = 50)', 'CREATE INDEX ti ON s.t (b)', 'CREATE UNIQUE INDEX tu ON s.t (b, a)', 'CREATE INDEX CONCURRENTLY tj ON s.t (cc)',
  q{COMMENT ON TABLE s.t IS 'x'}, q{COMMENT ON COLUMN s.t.b IS 'x'}, q{COMMENT ON INDEX s.ti IS 'x'}, q{COMMENT ON CONSTRAINT t_key ON s.t IS 'x'},
  'ALTER INDEX s.ti RENAME TO tii', 'ALTER TABLE s.tii RENAME TO ti', 'DROP INDEX CONCURRENTLY s.tj',
  'CREATE STATISTICS s.st ON b, cc FROM s.t', 'ALTER STATISTICS s.st SET STATISTICS 10', 'ALTER STATISTICS s.st RENAME TO sta',
  'GRANT SELECT ON s.t TO PUBLIC', 'GRANT INSERT (b) ON s.t TO PUBLIC', 'REVOKE SELECT ON s.t FROM PUBLIC', 'GRANT SELECT ON ALL TABLES IN SCHEMA s TO PUBLIC', 'GRANT USAGE ON SCHEMA s TO PUBLIC',
  'ALTER FOREIGN TABLE s.t_01 RENAME TO t_one', 'ALTER TABLE s.t_one SET SCHEMA elsewhere', 'ALTER TABLE elsewhere.t_one SET SCHEMA s', 'ALTER TABLE s.t_one RENAME TO t_01',
  'ALTER TABLE s.m ADD COLUMN z int', 'ALTER TABLE s.m1 ALTER COLUMN a SET NOT NULL', 'CREATE INDEX ON s.m (z)',
  'ALTER TABLE s.r ADD COLUMN q int', 'ALTER TABLE ONLY s.r ADD CHECK (q > 0)', 'ALTER TABLE s.r RENAME COLUMN n TO nn', 'CREATE INDEX ri ON s.r (q)', 'ALTER INDEX s.ri RENAME TO rii',
  q{COMMENT ON TABLE s.r IS 'x'}, 'GRANT SELECT ON s.r TO PUBLIC', 'CREATE STATISTICS s.sr ON q, nn FROM s.r', 'ALTER TABLE s.r RENAME TO rr', 'ALTER TABLE s.rr SET SCHEMA elsewhere',
  'ALTER SCHEMA s RENAME TO s2', 'ALTER SCHEMA s2 RENAME TO s',
  q{DO 'BEGIN ALTER TABLE s.t ADD COLUMN in_do int; END'}, 'BEGIN; ALTER TABLE s.t ADD COLUMN in_block int; COMMIT',
  q{CREATE FOREIGN TABLE s.keyed1 PARTITION OF s.keyed FOR VALUES IN (1) SERVER node1};
is(run_late('CREATE CONSTRAINT TRIGGER x AFTER INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION nothing();' x 2), "ERROR:  0A000\nERROR:  0A000", 'what is refused in other sessions, too');
is(run_late(q{DO $$ BEGIN ALTER TABLE s.t ADD COLUMN caught int; EXCEPTION WHEN object_not_in_prerequisite_state THEN ALTER TABLE s.t ADD COLUMN caught int; END $$;}),
	'', 'an error that is caught: the next try is right');
$c->safe_psql('ALTER TABLE s.keyed DETACH PARTITION s.keyed1; DROP FOREIGN TABLE s.keyed1');
is(differences(), '', 'both sides are equal');
is(on_nodes(q{SELECT count(*) FROM pg_attribute WHERE attname IN ('in_do', 'in_block', 'caught')}), '6 6', 'what was done is done there');

# Statements that are local in other sessions, too, and statements that concern no table of nodes
passes_ok($_)
  for
  'ALTER TABLE s.t DETACH PARTITION s.t_00',
  'ALTER TABLE s.t RENAME TO t2', 'ALTER TABLE s.t2 SET SCHEMA elsewhere', 'ALTER TABLE elsewhere.t2 SET SCHEMA s', 'ALTER TABLE s.t2 RENAME TO t',
  'CREATE INDEX only_here ON ONLY s.t (cc, b)', 'DROP INDEX s.only_here', 'CREATE TRIGGER x BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER x ON s.t',
  'CREATE FOREIGN TABLE s.hand1 PARTITION OF s.hand FOR VALUES IN (1) SERVER node1', 'ALTER TABLE s.hand DETACH PARTITION s.hand1', 'DROP FOREIGN TABLE s.hand1',
  q{CREATE TABLE s.m2 PARTITION OF s.m FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')}, 'DROP TABLE s.m2',
  'CREATE VIEW plain.v AS SELECT * FROM s.t', q{COMMENT ON VIEW plain.v IS 'x'}, 'ALTER VIEW plain.v RENAME COLUMN a TO aa', 'ALTER VIEW plain.v RENAME TO vv', 'GRANT SELECT ON plain.vv TO PUBLIC', 'DROP VIEW plain.vv',
  'CREATE TABLE plain.x (a int PRIMARY KEY)', 'ALTER TABLE plain.l ADD COLUMN c int', 'ALTER TABLE plain.l RENAME COLUMN c TO cc', 'ALTER TABLE plain.l ADD CHECK (a > 0)', 'CREATE INDEX li ON plain.l (a)',
  'CREATE INDEX CONCURRENTLY lj ON plain.l (a)', 'DROP INDEX CONCURRENTLY plain.lj', q{COMMENT ON TABLE plain.l IS 'x'}, q{COMMENT ON COLUMN plain.l.a IS 'x'}, q{COMMENT ON INDEX plain.li IS 'x'},
  'ALTER INDEX plain.li RENAME TO lii', 'CREATE STATISTICS plain.st ON a, b FROM plain.l', 'ALTER STATISTICS plain.st RENAME TO sta', 'ALTER STATISTICS plain.sta SET STATISTICS 3', 'DROP STATISTICS plain.sta',
  'GRANT SELECT ON plain.l TO PUBLIC', 'GRANT SELECT ON ALL TABLES IN SCHEMA plain TO PUBLIC', 'GRANT USAGE ON SCHEMA plain TO PUBLIC', 'ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO PUBLIC',
  'CREATE TABLE plain.p1 (a int)', 'ALTER TABLE plain.p ATTACH PARTITION plain.p1 FOR VALUES IN (1)', 'ALTER TABLE plain.p DETACH PARTITION plain.p1', 'ALTER TABLE plain.p1 SET SCHEMA elsewhere', 'DROP TABLE elsewhere.p1',
  'CREATE SCHEMA plain2 CREATE TABLE x (a int) CREATE INDEX ON x (a)', 'ALTER SCHEMA plain2 RENAME TO plain3', 'DROP SCHEMA plain3 CASCADE', 'CREATE TYPE plain.e AS ENUM ()', 'ALTER TYPE plain.e RENAME TO ee',
  'CREATE TABLE plain.copy AS SELECT count(*) FROM s.t', 'CREATE SEQUENCE plain.seq', 'ALTER TABLE IF EXISTS nowhere ADD COLUMN a int', 'DROP TABLE IF EXISTS nowhere';
is(run_late('ALTER TABLE nowhere ADD COLUMN a int; CREATE INDEX ON nowhere (a); COMMENT ON TABLE nowhere IS NULL; GRANT SELECT ON nowhere TO PUBLIC;'),
	join("\n", ('ERROR:  42P01') x 4), 'what is not there');
refused_ok('ALTER TABLE s.t ATTACH PARTITION s.t_00 FOR VALUES WITH (MODULUS 4, REMAINDER 0)');

# With settings that change the coordinator only
passes_ok("ALTER TABLE s.t $_ COLUMN here_alone" . ($_ eq 'ADD' ? ' int' : ''), "$late -c shardfdw.enable_ddl_propagation=off") for 'ADD', 'DROP';
is(differences(), '', 'both sides are equal');

# Roles without the right
is(run_late('SET ROLE app; ALTER TABLE s.t ADD COLUMN x int; CREATE INDEX ON s.r2 (id); DROP TABLE s.u; COMMENT ON TABLE s.t IS NULL;'), join("\n", ('ERROR:  42501') x 4), 'rights are core\'s business');

# Dropped objects are dropped on the nodes, too
my $parts = q{SELECT count(*) FROM pg_class WHERE oid = to_regclass('s.ti') OR relname ~ '^ti_\d' OR relname ~ '^ui_\d'};
isnt(on_nodes($parts), '0 0', 'indexes are there');
passes_ok('DROP INDEX s.ti, s.ui');
is(on_nodes($parts), '0 0', 'DROP INDEX');
passes_ok('DROP STATISTICS s.sta');
is(on_nodes(q{SELECT count(*) FROM pg_statistic_ext WHERE stxname ~ '^sta'}), '0 0', 'DROP STATISTICS');
passes_ok('DROP TYPE going.pair CASCADE');
is(on_nodes(q{SELECT count(*) FROM pg_attribute WHERE attrelid::regclass::text ~ 's.u_' AND attname = 'p'}), '0 0', 'DROP TYPE ... CASCADE: the columns');
passes_ok('DROP TABLE s.u');
passes_ok('DROP TABLE s.r2');
is(on_nodes(q{SELECT count(*) FROM pg_class WHERE relnamespace = 's'::regnamespace AND relname ~ '^(u_\d|r2)'}), '0 0', 'DROP TABLE');
passes_ok('DROP SCHEMA going CASCADE');
is(on_nodes(q{SELECT count(*) FROM pg_tables WHERE schemaname = 'going'}), '0 0', 'DROP SCHEMA ... CASCADE');
is(differences(), '', 'both sides are equal');
$c->safe_psql(q{SET client_min_messages = warning; CREATE TABLE s.mine (a int PRIMARY KEY); SELECT shardfdw.shard_table('s.mine', shards => 2); ALTER TABLE s.mine OWNER TO app});
passes_ok('BEGIN; DROP TABLE s.mine; ROLLBACK');
is(run_late(q{DO $$ BEGIN DROP TABLE s.mine; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN CREATE TABLE plain.after (); DROP TABLE plain.after; END $$; SELECT FROM s.mine;}), '', 'a DROP that is undone by the block around it');
is(run_late(q{DO $$ BEGIN DROP TABLE s.mine, s.t CASCADE; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN ALTER TABLE s.mine ADD x int; END $$; DROP INDEX s.tu; BEGIN; DROP TABLE s.mine; ROLLBACK; SELECT FROM s.mine;}), '', 'and statements after it');
is(on_nodes(q{SELECT count(*) FROM pg_class WHERE relname ~ '^mine_\d+$'}), '1 1', 'it is still there');
is(differences(), '', 'both sides are equal');
passes_ok('DROP OWNED BY app');
is(on_nodes(q{SELECT count(*) FROM pg_class WHERE relname ~ '^mine_\d+$'}), '0 0', 'DROP OWNED');
$c->safe_psql('ALTER TABLE s.t DETACH PARTITION s.t_00');
passes_ok('DROP FOREIGN TABLE s.t_00');
is(on_nodes(q{SELECT count(*) FROM pg_class WHERE relname = 't_00'}), '1 0', 'a shard that is dropped by itself stays on its node');
$c->safe_psql('CREATE FOREIGN TABLE s.t_00 PARTITION OF s.t FOR VALUES WITH (MODULUS 4, REMAINDER 0) SERVER node1');

# Statements of users' event triggers in a late statement are not late
$c->safe_psql(q{
	CREATE TABLE s.again (a int PRIMARY KEY);
	SELECT shardfdw.shard_table('s.again', shards => 2);
	CREATE FUNCTION follow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('follow.inside', true) IS DISTINCT FROM 'yes' THEN
			PERFORM set_config('follow.inside', 'yes', true);
			CREATE TEMP TABLE inside ();
			EXECUTE format('ALTER TABLE s.t ADD COLUMN %I int', tg_event);
			DROP TABLE inside;
			PERFORM set_config('follow.inside', 'no', true);
		END IF;
	END $$;
	CREATE EVENT TRIGGER follow_start ON ddl_command_start WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION follow();
	CREATE EVENT TRIGGER follow_drop ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION follow();
	CREATE EVENT TRIGGER follow_end ON ddl_command_end WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION follow()});
passes_ok('DROP TABLE s.again');
is(on_nodes(q{SELECT string_agg(DISTINCT attname, ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid::regclass::text ~ '^s.t_' AND attname ~ '^(ddl_|sql)'}), join(' ', ('ddl_command_end ddl_command_start sql_drop') x 2), 'statements of event triggers');
is(on_nodes(q{SELECT count(*) FROM pg_class WHERE relname ~ '^again_\d+$'}), '0 0', 'in a DROP');
$c->safe_psql('DROP EVENT TRIGGER follow_start; DROP EVENT TRIGGER follow_drop; DROP EVENT TRIGGER follow_end');
is(differences(), '', 'both sides are equal');

# A session from before CREATE EXTENSION, and a role that sets its own libraries
is($pooled->query('EXECUTE add_column')->{error}{C}, '55000', 'a session from before CREATE EXTENSION');
is($pooled->query('EXECUTE add_column')->{error}, undef, 'the second try');
is($pooled->query('UPDATE s.t SET pooled = a')->{error}, undef, 'its column is there');
my $user = (getpwuid $<)[0];
$c->safe_psql(qq{CREATE USER MAPPING FOR app SERVER $_ OPTIONS (user '$user', password_required 'false'); GRANT USAGE ON FOREIGN SERVER $_ TO app}) for 'node1', 'node2';
$c->safe_psql('GRANT ALL ON SCHEMA s TO app; ALTER TABLE s.t OWNER TO app');
my $app = WireClient->new($c->coordinator, 'postgres', user => 'app');
is($app->query('ALTER TABLE s.t ADD COLUMN app int')->{error}{C}, '55000', 'a role with session_preload_libraries of its own');
is($app->query('ALTER TABLE s.t ADD COLUMN app int')->{error}, undef, 'the second try');
is(differences(), '', 'both sides are equal');
$app->close;

# DROP EXTENSION must also reset session_preload_libraries, which is not an object of the extension.
is(run_late('DROP EXTENSION shardfdw CASCADE; SET client_min_messages = error; DROP EXTENSION shardfdw CASCADE;'), 'ERROR:  55000', 'DROP EXTENSION');
is($c->safe_psql('SHOW session_preload_libraries'), '', 'sessions load the library no more');
$pooled->query('SELECT 1');
passes_ok('CREATE EXTENSION shardfdw');
is($c->safe_psql('SHOW session_preload_libraries'), 'shardfdw', 'until it is there again');
$c->safe_psql('DROP EXTENSION shardfdw; CREATE EXTENSION shardfdw');
is($c->safe_psql('SHOW session_preload_libraries'), 'shardfdw', 'also when one session that has loaded it does both');
$pooled->close;

done_testing();
