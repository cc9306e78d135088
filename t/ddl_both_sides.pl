# DDL on sharded and reference tables must be done on both the coordinator and the nodes, or on
# neither. It must be done on neither if the transaction or a savepoint is rolled back, or if a node
# is down.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, host => 'tcp');
my $version = $c->safe_psql('SHOW server_version_num');
$c->safe_psql(q{CREATE ROLE other});
$c->node_safe_psql($_, 'CREATE ROLE other') for 1, 2;

# The definition of a table: columns, constraints, indexes, options, comments, rights. Those of a
# node are combined from all of its tables. Names of shards' indexes begin with the parent's name.
my $definition = q{
	SELECT c.oid::regclass || ' ' || x FROM pg_class c, LATERAL (
		SELECT format('owner %s', CASE c.relowner WHEN 10 THEN '-' ELSE c.relowner::regrole::text END)
		UNION ALL SELECT format('rights %s', a) FROM unnest(c.relacl) a
		UNION ALL SELECT format('column %s %s %s %s %s %s', attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, attstorage,
			(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = c.oid AND adnum = attnum)) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
		UNION ALL SELECT format('constraint %s %s %s', conname, pg_get_constraintdef(k.oid), obj_description(k.oid)) FROM pg_constraint k WHERE conrelid = c.oid AND contype <> 'n'
		UNION ALL SELECT format('index %s %s %s', pg_get_indexdef(indexrelid), indisclustered, obj_description(indexrelid)) FROM pg_index WHERE indrelid = c.oid
		UNION ALL SELECT format('statistics %s', stxname) FROM pg_statistic_ext WHERE stxrelid = c.oid
		UNION ALL SELECT format('options %s %s', c.reloptions, c.relreplident)
		UNION ALL SELECT format('trigger %s %s', tgname, tgenabled) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal
		UNION ALL SELECT format('policy %s', polname) FROM pg_policy WHERE polrelid = c.oid
		UNION ALL SELECT format('security %s', c.relrowsecurity)
		UNION ALL SELECT format('comment %s %s', objsubid, description) FROM pg_description WHERE objoid = c.oid AND classoid = 'pg_class'::regclass) l(x)
	WHERE c.relkind IN ('r', 'p', 'f') AND c.relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema', 'shardfdw', 'shardfdw_internal'))
	ORDER BY 1};

# Types and functions that the tables need. Nodes get them with the tables.
my $objects = q{
	SELECT 'type ' || typname FROM pg_type WHERE typtype IN ('e', 'd') AND typnamespace = 'public'::regnamespace
	UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE prosrc ~ 'of the tests' AND pronamespace = 'public'::regnamespace ORDER BY 1};

sub catalogs
{
	return join("\n", "coordinator", $c->ask($definition), map { ("node $_", $c->ask("$definition; $objects", $_)) } 1, 2);
}

sub contents
{
	return $c->ask('SELECT * FROM t ORDER BY id; SELECT * FROM r ORDER BY id');
}

sub differences
{
	# the rows of a role without a user mapping are not compared
	return $c->ask(q{SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^(shard|reference)' AND detail !~ '^user mapping not found'});
}

# Creates the tables. Those that DROP SCHEMA and DROP TYPE would drop are created only if the next
# statement is one of these.
sub set_up
{
	my ($next) = @_;
	$c->ask(q{
		CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE moody (id int PRIMARY KEY, m mood);
		SELECT shardfdw.shard_table('moody', shards => 2);
		CREATE SCHEMA gone;
		CREATE TABLE gone.inside (id int PRIMARY KEY, v text);
		SELECT shardfdw.shard_table('gone.inside', shards => 2);}) if ($next // '') =~ /mood|gone/;
	$c->ask(q{
		SET LOCAL client_min_messages = warning;
		CREATE TABLE t (id bigint PRIMARY KEY, v text, n int DEFAULT 1, gone text);
		CREATE INDEX t_old ON t (v);
		CREATE UNIQUE INDEX t_old_unique ON t (id, v);
		CREATE TABLE r (id int PRIMARY KEY, v text, gone text);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		SELECT shardfdw.shard_table('t', shards => 4);
		SELECT shardfdw.create_reference_table('r');
		INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 40) i;
		INSERT INTO r SELECT i, 'r' || i FROM generate_series(1, 10) i;
		ALTER TABLE t ADD CONSTRAINT old_check CHECK (n < 1000) NOT VALID;
		CREATE STATISTICS st_old ON v, n FROM t;});
}

set_up('mood gone');
my @statements = (
	'ALTER TABLE t ADD a int DEFAULT 5, ADD b text CHECK (b <> \'\'), DROP gone',
	'ALTER TABLE t ADD s serial',
	'ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 2) STORED',
	'ALTER TABLE t RENAME v TO w',
	'ALTER TABLE t ALTER n TYPE bigint USING n * 10',
	'ALTER TABLE t ALTER v TYPE varchar(20)',
	'ALTER TABLE t ALTER n SET NOT NULL, ALTER n DROP DEFAULT',
	'ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0), ADD CONSTRAINT u UNIQUE (id, n)',
	'ALTER TABLE t VALIDATE CONSTRAINT old_check',
	'ALTER TABLE t DROP CONSTRAINT old_check, DROP CONSTRAINT t_pkey',
	'ALTER TABLE t RENAME CONSTRAINT t_pkey TO new_key',
	'ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES r NOT VALID',
	'ALTER TABLE t SET (fillfactor = 50), ALTER v SET STATISTICS 5, ALTER v SET STORAGE PLAIN, REPLICA IDENTITY FULL',
	'ALTER TABLE t CLUSTER ON t_old',
	'ALTER TABLE t OWNER TO other',
	'ALTER TABLE t RENAME TO u; ALTER TABLE u SET SCHEMA s',
	'ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t',
	'CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE t DISABLE TRIGGER tr',
	'CREATE INDEX new_index ON t (lower(v)) WHERE n > 3',
	'CREATE UNIQUE INDEX new_unique ON t (n, id)',
	'DROP INDEX t_old, t_old_unique',
	'ALTER INDEX t_old RENAME TO t_new',
	'COMMENT ON TABLE t IS \'x\'; COMMENT ON COLUMN t.n IS \'y\'; COMMENT ON INDEX t_old IS \'z\'; COMMENT ON CONSTRAINT t_pkey ON t IS \'k\'',
	'GRANT SELECT, UPDATE ON t TO other WITH GRANT OPTION; GRANT INSERT ON t TO PUBLIC; REVOKE UPDATE ON t FROM other',
	'CREATE STATISTICS st ON n, id FROM t; DROP STATISTICS st_old',
	'ALTER TABLE t ADD o new_type DEFAULT \'one\', ADD p positive',
	'ALTER TABLE t ADD CHECK (is_fine(n)); CREATE INDEX fine ON t (is_fine(n))',
	'ALTER TABLE t ALTER n SET DEFAULT 9, ALTER v SET DEFAULT upper(\'x\'), ALTER v SET NOT NULL',
	'ALTER TABLE t ALTER v SET NOT NULL; ALTER TABLE t ALTER v DROP NOT NULL, ALTER n DROP DEFAULT',
	'ALTER TABLE t ADD h int GENERATED ALWAYS AS (n + 1) STORED; ALTER TABLE t ALTER h DROP EXPRESSION',
	'ALTER TABLE t ALTER n SET (n_distinct = 5), SET (autovacuum_enabled = off, fillfactor = 70); ALTER TABLE t RESET (fillfactor)',
	'ALTER TABLE t DROP v CASCADE',
	'ALTER FOREIGN TABLE t_01 RENAME TO t_x1',
	'GRANT SELECT (v), UPDATE (n) ON t TO other',
	'GRANT ALL ON ALL TABLES IN SCHEMA public TO other',
	'ALTER STATISTICS st_old RENAME TO st_new; ALTER STATISTICS st_new SET STATISTICS 50',
	'ALTER SCHEMA gone RENAME TO went',
	'ALTER SCHEMA gone RENAME TO x; ALTER SCHEMA s RENAME TO gone; ALTER SCHEMA x RENAME TO s; ALTER SCHEMA gone RENAME TO y; ALTER SCHEMA s RENAME TO gone; ALTER SCHEMA y RENAME TO s; ALTER TABLE t ADD x int',
	'DROP SCHEMA gone CASCADE',
	'DROP TYPE mood CASCADE',
	'TRUNCATE t',
	'TRUNCATE t, r',
	'DROP TABLE t',
	'DROP TABLE t, r',
	'ALTER TABLE r ADD a int DEFAULT 5, DROP gone, ADD UNIQUE (v), ALTER v SET NOT NULL',
	'ALTER TABLE r ALTER id TYPE bigint, ALTER v TYPE varchar(30) USING v || v',
	'ALTER TABLE r RENAME v TO w; ALTER TABLE r RENAME CONSTRAINT r_pkey TO rp; ALTER TABLE r RENAME TO q; ALTER TABLE q SET SCHEMA s',
	'CREATE INDEX ri ON r (v); COMMENT ON TABLE r IS \'ref\'; GRANT SELECT ON r TO other; ALTER TABLE r OWNER TO other',
	'DO $$BEGIN ALTER TABLE t ADD a int; CREATE INDEX ON t (a); EXECUTE \'DROP TABLE r\'; END$$',
	'DROP OWNED BY other',
);
@statements = @statements[ grep { ShardCluster::in_half($_) } 0 .. $#statements ];
$c->safe_psql(q{CREATE TYPE new_type AS ENUM ('one', 'two'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
	CREATE FUNCTION is_fine(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN /* of the tests */ RETURN $1 IS NOT NULL; END'});
$c->safe_psql('CREATE SCHEMA s; CREATE TABLE owned (id int PRIMARY KEY)');
$c->safe_psql(q{SELECT shardfdw.shard_table('owned', shards => 2); ALTER TABLE owned OWNER TO other; DELETE FROM t WHERE false});
is(differences(), '', 'both sides are equal to begin with');
my $catalogs = catalogs();
my $contents = contents();
like($catalogs, qr/node 2.*t_01.*column v text.*index CREATE UNIQUE INDEX t_old_unique_01/s, 'what is compared is there');

# Rolled back: nothing has changed
for my $statement (@statements)
{
	my $sql = "SET client_min_messages = warning; BEGIN; INSERT INTO r VALUES (100, 'x'); $statement; ROLLBACK";
	my ($rc, $out, $err) = $c->psql($sql, on_error_die => 0, on_error_stop => 1);
	is($err, '', "rolled back: $statement");
	is(catalogs(), $catalogs, 'catalogs are as they were');
}
is(contents(), $contents, 'so are the rows');

# A savepoint: earlier changes remain
for my $statement (@statements)
{
	my ($rc, $out, $err) = $c->psql(
		"SET client_min_messages = warning; BEGIN; SAVEPOINT a; $statement; ROLLBACK TO a; SAVEPOINT b; INSERT INTO r VALUES (101, 'x'); RELEASE b; DELETE FROM r WHERE id = 101; COMMIT",
		on_error_stop => 1);
	is($err, '', "to a savepoint: $statement");
}
is(catalogs(), $catalogs, 'savepoints: catalogs are as they were');
is(contents(), $contents, 'so are the rows');

# A failing statement after it
for my $statement (@statements)
{
	my ($rc, $out, $err) = $c->psql("BEGIN; $statement; SELECT 1 / 0; COMMIT", on_error_stop => 1);
	like($err, qr/division by zero/, "fails after: $statement");
}
is(catalogs(), $catalogs, 'failures: catalogs are as they were');
is(contents(), $contents, 'so are the rows');

# A node fails the statement after the other has done it
$c->node_safe_psql(2, 'CREATE INDEX new_index_01 ON t_01 (n)');
my ($rc, $out, $err) = $c->psql('CREATE INDEX new_index ON t (v)');
like($err, qr/relation "new_index_01" already exists.*Node "node2", shard public.t_01/s, 'a node refuses');
$c->node_safe_psql(2, 'DROP INDEX new_index_01');
is(catalogs(), $catalogs, 'nothing is left of it');

# A node is down: the statement is refused, and nothing has changed on the other node
$c->node(2)->stop('immediate');
my $here = $c->safe_psql($definition) . $c->node_safe_psql(1, $definition);
for my $statement (grep { !/POLICY|TRIGGER|RENAME TO u/ } @statements)
{
	($rc, $out, $err) = $c->psql("BEGIN; $statement; COMMIT", on_error_stop => 1);
	like($err, qr/node2|Connection refused|could not connect/, "node down: $statement");
}
for my $statement ('CREATE INDEX CONCURRENTLY ci ON t (n)', 'VACUUM t', 'REINDEX TABLE t', 'CLUSTER t USING t_old')
{
	($rc, $out, $err) = $c->psql($statement);
	like($err, qr/node2|Connection refused|could not connect/, "node down: $statement");
}
is($c->safe_psql($definition) . $c->node_safe_psql(1, $definition), $here, 'nothing has changed');
# Objects that only the coordinator has can be changed nevertheless
is($c->psql('SET shardfdw.enable_ddl_propagation = off; BEGIN; DROP TABLE t; ROLLBACK'), 0, 'the coordinator alone');
$c->node(2)->start;
is(catalogs(), $catalogs, 'nor on the node that was down');
is(differences(), '', 'both sides are equal');

# A node stops between the statement and the end of the transaction
for my $statement ('ALTER TABLE t ADD a int DEFAULT 5, DROP gone', 'CREATE INDEX new_index ON t (n)', 'DROP TABLE t, r', 'TRUNCATE t', 'ALTER TABLE r ADD a int; CREATE INDEX ON r (a)')
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("BEGIN; $statement");
	$c->node(2)->stop('immediate');
	$session->query('COMMIT');
	$session->quit;
	$c->node(2)->start;
	$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
	is(catalogs(), $catalogs, "a node down before COMMIT: $statement");
}

# Changes that cannot be undone are made shard by shard, or nowhere
my @outside = ('CREATE INDEX CONCURRENTLY ci ON t (n)', 'DROP INDEX CONCURRENTLY ci', 'VACUUM t', 'VACUUM (FULL, ANALYZE) t', 'ANALYZE t', 'REINDEX TABLE t', 'REINDEX INDEX t_old', 'REINDEX TABLE CONCURRENTLY t', 'CLUSTER t USING t_old', 'VACUUM r', 'REINDEX TABLE r', 'CLUSTER r USING r_pkey');
$c->safe_psql('ALTER TABLE t ADD twelfth int; UPDATE t SET twelfth = id - 12');
my $before = catalogs();
($rc, $out, $err) = $c->psql('CREATE INDEX CONCURRENTLY ci ON t ((1 / twelfth))');
like($err, qr/division by zero/, 'CREATE INDEX CONCURRENTLY fails on one shard');
is(catalogs(), $before, 'and leaves nothing on any');
$c->safe_psql('ALTER TABLE t DROP twelfth');
for my $statement (@outside)
{
	($rc, $out, $err) = $c->psql("BEGIN; $statement; COMMIT", on_error_stop => 1);
	like($err, qr/cannot run inside a transaction block/, "refused in a transaction: $statement") unless $statement =~ /^(ANALYZE|CLUSTER t|DROP|REINDEX INDEX|(REINDEX TABLE|CLUSTER) r)/ ;
	is($c->psql($statement), 0, "done: $statement");
	is(differences(), '', 'both sides are equal');
}
$c->safe_psql('ALTER TABLE t SET WITHOUT CLUSTER; ALTER TABLE r SET WITHOUT CLUSTER');

# Refused: nothing is changed anywhere
for my $statement ('ALTER TABLE t SET TABLESPACE pg_default', 'ALTER TABLE t SET ACCESS METHOD heap', 'ALTER TABLE t ADD EXCLUDE (id WITH =)', 'ALTER TABLE t ALTER id TYPE int', 'ALTER TABLE t DROP id',
	'ALTER TABLE t ADD UNIQUE (v)', 'CREATE UNIQUE INDEX ON t (v)', 'ALTER TABLE t ALTER v TYPE int USING length(v)', 'ALTER TABLE t ADD x int, ADD EXCLUDE (n WITH =)',
	'CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()', 'CREATE INDEX ON t (id) TABLESPACE nowhere', 'ALTER TABLE t INHERIT r', 'ALTER TABLE t OF mood')
{
	($rc, $out, $err) = $c->psql($statement, on_error_stop => 1);
	isnt($rc, 0, "refused: $statement");
}
is(differences(), '', 'both sides are equal');
$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS t, r, moody, gone.inside CASCADE; DROP FUNCTION f() CASCADE; DROP SCHEMA gone; DROP TYPE mood});
set_up($statements[0]);
is(contents(), $contents, 'nor have rows');

# Committed: both sides are equal after each
for my $i (0 .. $#statements)
{
	my $statement = $statements[$i];
	($rc, $out, $err) = $c->psql("SET client_min_messages = warning; $statement", on_error_stop => 1);
	is($err, '', "done: $statement");
	is(differences(), '', 'both sides are equal');
	isnt(catalogs(), $catalogs, 'and not what they were') if $statement !~ /TRUNCATE/;
	$c->ask(q{SET LOCAL client_min_messages = warning; DROP TABLE IF EXISTS s.u, t, s.q, r, owned, moody CASCADE; DROP SCHEMA IF EXISTS gone, went CASCADE; DROP TYPE IF EXISTS mood; DROP FUNCTION f() CASCADE});
	is($c->ask(q{SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^(t_|owned_|moody_|inside_|r$|q$)'}, 1), 0, 'dropped there, too');
	set_up($statements[$i + 1]);
	$c->ask(q{CREATE TABLE owned (id int PRIMARY KEY)});
	$c->ask(q{SELECT shardfdw.shard_table('owned', shards => 2); ALTER TABLE owned OWNER TO other});
}

# A shard that is made later is as the others are
$c->safe_psql(q{
	CREATE TABLE mum (k int, v int, PRIMARY KEY (k)) PARTITION BY RANGE (k);
	CREATE TABLE kid (k int, i int CHECK (i > 0), v int NOT NULL, PRIMARY KEY (k, i)) PARTITION BY RANGE (k);
	CREATE INDEX ON kid (v);
	SELECT shardfdw.create_shard(x, x || '_1', 'FROM (0) TO (10)', 'node1'), shardfdw.create_shard(x, x || '_2', 'FROM (10) TO (20)', 'node2') FROM unnest('{mum,kid}'::text[]) x;
	ALTER TABLE kid ADD CONSTRAINT to_mum FOREIGN KEY (k) REFERENCES mum;
	ALTER TABLE kid ADD CONSTRAINT to_r FOREIGN KEY (v) REFERENCES r (id) ON DELETE CASCADE DEFERRABLE;
	ALTER TABLE kid SET (fillfactor = 60), ADD CONSTRAINT c CHECK (v <> 7);
	GRANT SELECT, INSERT ON kid TO other WITH GRANT OPTION; GRANT UPDATE ON kid TO PUBLIC});
($rc, $out, $err) = $c->psql("SELECT shardfdw.create_shard('kid', 'kid_3', 'FROM (20) TO (30)', 'node1')");
like($err, qr/foreign key to_mum of the other shards cannot be made for shard public.kid_3\n.*no shard with the same bounds on node "node1"/s, 'a shard whose foreign key has nothing to refer to');
$c->safe_psql(q{SELECT shardfdw.create_shard('mum', 'mum_3', 'FROM (20) TO (30)', 'node1')});
($rc, $out, $err) = $c->psql("SELECT shardfdw.create_shard('kid', 'kid_3', 'FROM (20) TO (30)', 'node2')");
like($err, qr/foreign key to_mum/, 'or only on another node');
$c->safe_psql(q{SELECT shardfdw.create_shard('kid', 'kid_3', 'FROM (20) TO (30)', 'node1'); ALTER TABLE kid OWNER TO other; SELECT shardfdw.create_shard('mum', 'mum_4', 'FROM (30) TO (40)', 'node1'); SELECT shardfdw.create_shard('kid', 'kid_4', 'FROM (30) TO (40)', 'node1')});
is(differences(), '', 'shards that came later are equal to the others');
my $facts = q{SELECT c.reloptions, c.relacl, pg_get_userbyid(c.relowner), (SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid AND contype <> 'n') FROM pg_class c WHERE relname = 'kid_};
(my $first = $c->node_safe_psql(1, "${facts}1'")) =~ s/mum_1/mum_N/;
$first =~ s/kid_pkey_1/kid_pkey_N/;
# what the owner granted to himself before he became the owner
$first =~ s/other=a\*r\*w/other=arw/;
for my $n (3, 4)
{
	(my $later = $c->node_safe_psql(1, "$facts$n'")) =~ s/mum_$n/mum_N/;
	$later =~ s/other=a\*r\*w/other=arw/;
	is($later =~ s/kid_pkey_$n/kid_pkey_N/r, $first, "storage parameters, privileges, owner and constraints of shard $n");
}
$c->safe_psql('INSERT INTO mum VALUES (35, 1)');
for my $row ('(36, 1, 1)', '(35, 1, 4711)', '(35, 1, 7)', '(35, 0, 1)', '(35, 1, NULL)')
{
	isnt($c->psql("INSERT INTO kid VALUES $row"), 0, "it refuses $row");
}
is($c->psql('INSERT INTO kid VALUES (35, 1, 1)'), 0, 'and takes what is right');

# Constraints that the nodes lack are not enforced, and found
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; ALTER TABLE mum ADD CONSTRAINT here CHECK (v < 100), ALTER v SET NOT NULL');
is($c->safe_psql(q{SELECT count(*), min(status), min(detail) FROM shardfdw.check_cluster() WHERE check_name LIKE 'shard %mum%'}),
	'4|error|NOT NULL only here: v; constraints only here: here CHECK ((v < 100))', 'constraints that only the coordinator has are errors of check_cluster()');
$c->safe_psql(q{SELECT shardfdw.run_on_shards('mum', 'ALTER TABLE %s ADD CONSTRAINT here CHECK (v < 100), ALTER v SET NOT NULL')});
is(differences(), '', 'until the shards have them');
$c->safe_psql('SET client_min_messages = warning; DROP TABLE kid, mum');

# REPEATABLE READ: readers of the same transaction are not waited for
($rc, $out, $err) = $c->psql(q{SET statement_timeout = '20s'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT id FROM t WHERE n > 10 AND v = 'none'; ALTER TABLE t ADD z int; INSERT INTO t (id, z) VALUES (1000, 1); COMMIT; SELECT count(z) FROM t},
	on_error_stop => 1);
is($err, '', 'ALTER TABLE after a read at REPEATABLE READ');
is($out, "40\n1", 'has its effect');

# Under a cursor, DDL is refused immediately, as in core. Otherwise it would wait for the node's
# locks without end.
my $nreads = 0;
for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	for my $read ('SELECT id FROM t', 'SELECT id FROM t WHERE id = 1', 'SELECT n, count(*) FROM t GROUP BY n', 'SELECT id FROM t_01', 'SELECT t.id FROM t JOIN r USING (id)')
	{
		for my $statement ('ALTER TABLE t ADD c int', 'TRUNCATE t', 'DROP TABLE t', 'DROP INDEX t_old', 'LOCK TABLE t', 'ALTER TABLE t RENAME n TO m', 'ALTER TABLE t RENAME CONSTRAINT old_check TO c', 'ALTER TABLE t ALTER n TYPE bigint')
		{
			next unless ShardCluster::in_half($nreads++);
			($rc, $out, $err) = $c->psql("\\set VERBOSITY verbose\nSET statement_timeout = '20s'; BEGIN ISOLATION LEVEL $level; DECLARE c CURSOR FOR $read; FETCH c; $statement; COMMIT", on_error_stop => 1);
			like($err, qr/55006: cannot .* because it is being used by active queries in this session/, "$level: $statement under a cursor for $read");
		}
		is($c->psql("BEGIN ISOLATION LEVEL $level; DECLARE c CURSOR FOR $read; FETCH c; CLOSE c; ALTER TABLE t ADD c int; ROLLBACK"), 0, "$level: after a cursor for $read");
	}
}
is($c->psql('DO $$DECLARE i int; BEGIN FOR i IN SELECT id FROM r LOOP EXECUTE format(\'CREATE INDEX every_%s ON t (n)\', i); EXECUTE format(\'DROP INDEX every_%s\', i); END LOOP; END$$'), 0, 'DDL in a loop over another table');

# Nodes get nothing of other statements, and run nothing under the user's search_path
$c->node($_)->append_conf('postgresql.conf', "log_statement = all\n"), $c->node($_)->reload for 1, 2;
$c->safe_psql(q{SELECT 'secret1'; ALTER TABLE t ADD q text DEFAULT 'visible'; SELECT 'secret2'});
$c->safe_psql(q{DO $$BEGIN PERFORM 'secret3'; ALTER TABLE t ADD q2 text /* secret4 */; END$$});
my $log = join '', map { slurp_file($c->node($_)->logfile) } 1, 2;
like($log, qr/ADD COLUMN q text DEFAULT 'visible'/, 'the statement is in the nodes\' log');
unlike($log, qr/secret/, 'and nothing of those around it');

# Rights: a role that does not own the table changes nothing, and queries no node
$c->safe_psql('CREATE ROLE stranger LOGIN; GRANT ALL ON SCHEMA public TO stranger');
$log = join '', map { slurp_file($c->node($_)->logfile) } 1, 2;
for my $statement ('ALTER TABLE t ADD x int', 'CREATE INDEX ON t (n)', 'DROP TABLE t', 'DROP INDEX t_old', 'ALTER INDEX t_old RENAME TO y',
	'ALTER TABLE t RENAME n TO m', 'COMMENT ON TABLE t IS \'x\'', 'ALTER TABLE r SET SCHEMA s', 'ALTER SCHEMA s RENAME TO x', 'CREATE STATISTICS x ON n, v FROM t', 'LOCK TABLE t', 'CLUSTER t USING t_old', 'REINDEX TABLE t')
{
	($rc, $out, $err) = $c->psql("SET ROLE stranger; BEGIN; $statement", on_error_stop => 1);
	like($err, qr/must be owner|permission denied|cannot run inside/, "refused to a stranger: $statement");
}
# Checkpoints are left out, because they come at any time.
my $heard = join '', map { slurp_file($c->node($_)->logfile) } 1, 2;
is($heard =~ s/^.*LOG:  checkpoint .*\n//gmr, $log =~ s/^.*LOG:  checkpoint .*\n//gmr, 'no node has heard of it');

done_testing();
