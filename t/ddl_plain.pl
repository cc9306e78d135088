# A sharded table must behave like a plain one. Covers sequences, identity, defaults, generated
# columns, constraints, domains, triggers, views and rules. The same statements on both must give
# the same rows, counts, SQLSTATEs and entries written by triggers. The test also checks what nodes
# get with a table, made by roles with and without the necessary rights.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $version = $c->safe_psql('SHOW server_version_num');
my ($setup, $views, $statements) = split /^=====\n/m, join '', <DATA>;

# Runs the statements on tables in a separate schema. Returns [statement, result] for each. Rows
# have no order.
sub run_in
{
	my ($schema, $settings, $sharded, $text) = @_;
	my $script = "CREATE SCHEMA $schema;\nSET search_path = $schema;\n$setup";
	$script .= "SELECT shardfdw.shard_table(x::regclass, 'k', shards => 3) FROM unnest('{d,dk,db,ds,t,w,st}'::text[]) x;\n" if $sharded;
	$script .= "$views\n$settings\n";
	my @names;
	my @lines = split /\n/, $text;
	while (defined(my $line = shift @lines))
	{
		push @names, $line;
		$script .= "\\qecho ==\n$line\n";
		if ($line =~ /FROM STDIN/)
		{
			my $data;
			do { $data = shift @lines; $script .= "$data\n" } until $data eq '\.';
		}
		$script .= "\\if :ERROR\n\\qecho error :SQLSTATE\n\\else\n\\qecho rows :ROW_COUNT\n\\endif\n"
		  . "SELECT 'log ' || what FROM log ORDER BY n;\nTRUNCATE log;\n";
	}
	my ($rc, $out, $err) = $c->psql($script, on_error_stop => 0);
	my ($first, @parts) = split /^==\n/m, "$out\n";
	note "$schema: $err" if @parts != @names;
	return map { [ $names[$_], join "\n", sort split /\n/, $parts[$_] // 'not run' ] } 0 .. $#names;
}

sub same
{
	my ($schema, $settings, $text) = @_;
	my @plain   = run_in("${schema}_plain",   $settings, 0, $text);
	my @sharded = run_in("${schema}_sharded", $settings, 1, $text);
	is($sharded[$_][1], $plain[$_][1], "$schema: $plain[$_][0]") for 0 .. $#plain;
	return scalar @plain;
}

cmp_ok(same('whole', '', $statements), '>', 120, 'statements were run');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'definitions are the same everywhere');
# planned by core, row by row
same('rows', "SET shardfdw.enable_router = off;\nSET shardfdw.enable_shard_scan = off;", $statements);

SKIP:
{
	skip 'virtual generated columns came with 18', 1 if $version < 180000;
	($setup, $views) = (q{CREATE TABLE log (n bigserial, what text); CREATE TABLE d (k int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v * 2) VIRTUAL, CHECK (w < 100), s int GENERATED ALWAYS AS (v + 1) STORED NOT NULL);
		CREATE TABLE dk (k int); CREATE TABLE db (k int); CREATE TABLE ds (k int); CREATE TABLE t (k int); CREATE TABLE w (k int); CREATE TABLE st (k int);}, '');
	same('virtual', '', <<'SQL');
INSERT INTO d VALUES (1, 10), (2, 20) RETURNING *;
INSERT INTO d VALUES (3, 60);
INSERT INTO d VALUES (3, NULL);
INSERT INTO d (k, w) VALUES (3, 1);
UPDATE d SET v = v + 1 RETURNING k, w, s;
UPDATE d SET v = 50 WHERE w = 22;
UPDATE d SET v = 49 WHERE w = 22 RETURNING *;
SELECT sum(w), max(s) FROM d;
DELETE FROM d WHERE w > 50 RETURNING w;
COPY d FROM STDIN;
5	5
\.
COPY d (k, v) FROM STDIN;
6	55
\.
SELECT * FROM d ORDER BY k;
SQL

	# rows for triggers have no value for such a column
	$setup .= q{CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO log (what) VALUES (concat(TG_WHEN, ' ', TG_OP, ' ', to_json(OLD), ' > ', to_json(NEW)));
			RETURN coalesce(NEW, OLD); END $$;
		CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON d FOR EACH ROW EXECUTE FUNCTION seen();
		CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON d FOR EACH ROW EXECUTE FUNCTION seen();};
	same('virtual_triggers', '', <<'SQL');
INSERT INTO d VALUES (1, 10), (2, 20) RETURNING *;
INSERT INTO d VALUES (3, 30);
INSERT INTO d VALUES (3, 60);
UPDATE d SET v = v + 1 WHERE k = 1 RETURNING k, w, s;
UPDATE d SET v = v + 1;
INSERT INTO d VALUES (1, 7), (4, 40) ON CONFLICT (k) DO UPDATE SET v = excluded.v + d.w RETURNING *;
INSERT INTO d VALUES (1, 7), (5, 40) ON CONFLICT DO NOTHING RETURNING w;
INSERT INTO d VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = 2 WHERE d.w = 58 RETURNING d;
COPY d FROM STDIN;
6	5
\.
DELETE FROM d WHERE w > 20 RETURNING w;
DELETE FROM d;
SQL
}

# Triggers that core cannot fire over foreign partitions
$c->safe_psql(q{CREATE TABLE ct (k int PRIMARY KEY, v int);
	CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON ct FOR EACH ROW EXECUTE FUNCTION nothing()});
$c->psql_fails_like(q{SELECT shardfdw.shard_table('ct')}, qr/0A000: cannot shard table "ct" because of trigger "ct"/, 'a constraint trigger');
$c->safe_psql(q{DROP TRIGGER ct ON ct; CREATE TRIGGER tt AFTER INSERT ON ct REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION nothing()});
$c->psql_fails_like(q{SELECT shardfdw.shard_table('ct')}, qr/0A000: cannot shard table "ct" because of trigger "tt"/, 'a transition table');
$c->safe_psql(q{DROP TRIGGER tt ON ct; SELECT shardfdw.shard_table('ct', shards => 2)});
$c->psql_fails_like('CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON ct FOR EACH ROW EXECUTE FUNCTION nothing()', qr/0A000: /, 'a constraint trigger later');
$c->psql_fails_like('CREATE TRIGGER tt AFTER INSERT ON ct REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION nothing(); INSERT INTO ct VALUES (1)',
	qr/0A000: /, 'a transition table later');

# Keys of the parent are markers: core does not use them as indexes.
$c->safe_psql(q{CREATE TABLE m (k int PRIMARY KEY, v text, u int, UNIQUE (u, k)); INSERT INTO m SELECT g, 'v', g FROM generate_series(1, 100) g;
	SELECT shardfdw.shard_table('m', shards => 3); CREATE TABLE plain AS SELECT * FROM m});
is($c->safe_psql(q{SELECT count(*) FROM pg_index WHERE indrelid = 'm'::regclass AND indisvalid}), 0, 'both keys are markers');
for my $scan (qw(on off))
{
	unlike($c->safe_psql("SET shardfdw.enable_shard_scan = $scan; EXPLAIN SELECT * FROM m WHERE k = 5"), qr/Index.*m_pkey/, "no scan of one (shard scan $scan)");
	like($c->safe_psql("SET shardfdw.enable_shard_scan = $scan; EXPLAIN (VERBOSE) SELECT p.k FROM plain p LEFT JOIN m ON m.k = p.k"), qr/\bm\b/, "no join removed by one (shard scan $scan)");
}
is($c->safe_psql('SELECT k, v, count(*) FROM m GROUP BY k ORDER BY k LIMIT 1'), '1|v|1', 'GROUP BY the key');
$c->psql_fails_like('CREATE TABLE refers (k int REFERENCES m)', qr/0A000|42830|42704/, 'no foreign key to one from a local table');
for my $command ('VACUUM m', 'ANALYZE m', 'VACUUM (FULL, ANALYZE) m', 'REINDEX TABLE m', 'REINDEX INDEX m_pkey', 'CREATE TABLE m2 (LIKE m INCLUDING ALL)', 'CREATE TABLE m3 PARTITION OF m FOR VALUES WITH (MODULUS 3, REMAINDER 0)')
{
	my ($rc, $out, $err) = $c->psql($command);
	$command =~ /PARTITION OF/ ? like($err, qr/would overlap/, $command) : is($rc, 0, $command) || diag $err;
}
is($c->safe_psql(q{SELECT count(*) FROM pg_index WHERE indrelid = 'm'::regclass AND indisvalid}), 0, 'they are markers still');
is($c->safe_psql(q{SELECT conname, contype FROM pg_constraint WHERE conrelid = 'm2'::regclass AND contype IN ('p', 'u') ORDER BY 1}), "m2_pkey|p\nm2_u_k_key|u", 'LIKE makes real ones');
$c->safe_psql('INSERT INTO m2 VALUES (1)');
$c->psql_fails_like('INSERT INTO m2 VALUES (1)', qr/23505/, 'that are enforced');

# The objects that nodes get with a table, in dependency order, with the role that creates them
my $has_citext = $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'});
SKIP:
{
	skip 'no contrib extensions here', 12 unless $has_citext;
	$c->safe_psql(q{CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext; CREATE TABLE ci (k int PRIMARY KEY, c ext.citext CHECK (c OPERATOR(ext.<>) 'no'::ext.citext))});
	$c->shard_table('ci', 'k', shards => 4);
	is($c->node_safe_psql($_, q{SELECT extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'citext'), extnamespace::regnamespace FROM pg_extension WHERE extname = 'citext'}),
		't|ext', "extension on node $_") for 1 .. 2;
	$c->psql_fails_like(q{INSERT INTO ci VALUES (1, 'NO')}, qr/23514/, 'its operators are used there');
	# nodes compute with them when the servers list the extension; the notice and check_cluster() have the commands
	my (undef, undef, $notice) = $c->psql(q{CREATE TABLE cj (k int PRIMARY KEY, c ext.citext); SELECT shardfdw.shard_table('cj', 'k', shards => 4)});
	like($notice, qr/NOTICE:  nodes do not compute with objects of extensions: citext$/m, 'shard_table() says that nodes do not compute with an extension');
	my $plan = q{EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM cj WHERE c OPERATOR(ext.=) 'x'::ext.citext};
	like($c->safe_psql($plan), qr/Filter:.*citext/, 'the condition is computed here');
	my $alter = $c->safe_psql(q{SELECT substring(detail FROM 'ALTER.*') FROM shardfdw.check_cluster() WHERE node = 'node1' AND check_name = 'extension citext' AND status = 'warning'});
	is($alter, q{ALTER SERVER node1 OPTIONS (ADD extensions 'citext')}, 'check_cluster() warns');
	my ($hint) = $notice =~ /^HINT:.*?: (ALTER SERVER.*)$/m;
	$c->safe_psql($hint);
	unlike($c->safe_psql($plan), qr/Filter:/, 'the condition is computed by nodes after the commands of the hint');
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE check_name = 'extension citext'}), '0', 'check_cluster() does not warn any more');
	$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET extensions 'cube,earthdistance')});
	is($c->safe_psql(q{SELECT shardfdw_internal.extensions_command('node1', '{citext,cube,uuid-ossp}')}), q{ALTER SERVER node1 OPTIONS (SET extensions 'cube,earthdistance, "uuid-ossp", citext')}, 'what the option lists stays');
	$c->safe_psql(q{DROP TABLE cj; ALTER SERVER node1 OPTIONS (DROP extensions); ALTER SERVER node2 OPTIONS (DROP extensions)});
	$c->node_safe_psql(2, 'DROP EXTENSION citext CASCADE');
	is($c->safe_psql(q{SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name = 'extension citext' AND status = 'error'}), 'node2|extension citext|error|does not exist there', 'check_cluster finds what is gone');
	$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; DROP TABLE ci');
	$c->node_safe_psql($_, 'CREATE ROLE weak LOGIN; GRANT CREATE ON SCHEMA public TO weak; GRANT CREATE ON DATABASE postgres TO weak') for 1 .. 2;
	$c->safe_psql(q{ALTER USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (SET user 'weak', ADD password_required 'false')});
	$c->safe_psql(q{CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE weak (k int PRIMARY KEY, m mood); SELECT shardfdw.shard_table('weak', shards => 2)});
	is($c->node_safe_psql(2, q{SELECT typowner::regrole FROM pg_type WHERE typname = 'mood'}), 'weak', 'a type by a role that may');
	$c->safe_psql(q{CREATE EXTENSION pageinspect; CREATE TABLE pi (k int PRIMARY KEY, CHECK (public.get_raw_page('pg_class', k) IS NULL))});
	$c->psql_fails_like(q{SELECT shardfdw.shard_table('pi', shards => 2)}, qr/42501: could not create extension pageinspect on node "node2": permission denied.*CREATE EXTENSION IF NOT EXISTS pageinspect/s, 'an extension by one that may not');
	is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_extension WHERE extname = 'pageinspect'}), 0, 'and the other node has nothing of it');
}

done_testing();

__DATA__
CREATE TABLE log (n bigserial, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %I.log (what) VALUES ($1)', tg_table_schema) USING
		concat_ws(' ', tg_name, tg_when, tg_op, tg_level,
		CASE WHEN tg_level = 'ROW' AND tg_op <> 'INSERT' THEN 'old ' || to_jsonb(old)::text END, CASE WHEN tg_level = 'ROW' AND tg_op <> 'DELETE' THEN 'new ' || to_jsonb(new)::text END);
	IF tg_level = 'ROW' AND tg_when = 'BEFORE' THEN
		IF tg_op = 'DELETE' THEN RETURN CASE WHEN old.a = 'keep' THEN NULL ELSE old END; END IF;
		IF new.a = 'skip' THEN RETURN NULL; END IF;
		IF new.a = 'raise' THEN RAISE EXCEPTION USING ERRCODE = 'P0099', MESSAGE = 'raised'; END IF;
		IF new.a = 'change' THEN new.a := 'changed'; END IF;
		RETURN new;
	END IF;
	RETURN NULL;
END$$;
CREATE FUNCTION fee(x int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT x <> 13';
CREATE FUNCTION counted() RETURNS int LANGUAGE plpgsql VOLATILE AS $$DECLARE s text := current_schema; BEGIN RETURN nextval(s || '.called'); END$$;
CREATE SEQUENCE called;
CREATE SEQUENCE explicit START 1000;
CREATE DOMAIN small AS int CHECK (value < 100);
CREATE DOMAIN must AS text NOT NULL CHECK (value <> 'bad');
-- no triggers
CREATE TABLE d (k int PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, s serial, n int DEFAULT nextval('explicit'), c int DEFAULT counted(), at timestamptz DEFAULT now(), a text DEFAULT 'x' NOT NULL,
	g int GENERATED ALWAYS AS (k * 2) STORED, CHECK (k <> 99), CHECK (fee(k)), sm small, UNIQUE (k, a));
CREATE TABLE dk (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int);
CREATE TABLE db (k bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v int CHECK (v > 0));
CREATE TABLE ds (k serial PRIMARY KEY, v small DEFAULT 5, m must DEFAULT 'good');
-- triggers
CREATE TABLE t (k int PRIMARY KEY, a text, v int, g int GENERATED ALWAYS AS (v + 1) STORED, CHECK (v < 1000));
CREATE TRIGGER r1 BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER r2 AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER s1 BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER s2 AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
-- conditional triggers
CREATE TABLE w (k int PRIMARY KEY, a text, v int);
CREATE TRIGGER w1 AFTER UPDATE OF v ON w FOR EACH ROW WHEN (old.v IS DISTINCT FROM new.v) EXECUTE FUNCTION note();
CREATE TRIGGER w2 BEFORE UPDATE OF a ON w FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER w3 AFTER DELETE ON w FOR EACH STATEMENT EXECUTE FUNCTION note();
-- statement triggers alone
CREATE TABLE st (k int PRIMARY KEY, a text, v int);
CREATE TRIGGER s3 BEFORE INSERT OR UPDATE OR DELETE ON st FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER s4 AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON st FOR EACH STATEMENT EXECUTE FUNCTION note();
=====
CREATE VIEW vt AS SELECT k, a, v FROM w WHERE v < 100 WITH CHECK OPTION;
CREATE VIEW vi AS SELECT k, a, v FROM w;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %I.log (what) VALUES ($1)', tg_table_schema) USING concat_ws(' ', tg_name, tg_when, tg_op, to_jsonb(old)::text, to_jsonb(new)::text);
	IF tg_op = 'INSERT' THEN EXECUTE format('INSERT INTO %I.w VALUES ($1.k, $1.a, $1.v)', tg_table_schema) USING new; RETURN new; END IF;
	IF tg_op = 'UPDATE' THEN EXECUTE format('UPDATE %I.w SET a = $1.a, v = $1.v WHERE k = $2.k', tg_table_schema) USING new, old; RETURN new; END IF;
	EXECUTE format('DELETE FROM %I.w WHERE k = $1.k', tg_table_schema) USING old; RETURN old;
END$$;
CREATE TRIGGER vi1 INSTEAD OF INSERT OR UPDATE OR DELETE ON vi FOR EACH ROW EXECUTE FUNCTION instead();
CREATE TABLE ru (k int PRIMARY KEY, a text, v int);
=====
INSERT INTO d (k) VALUES (1) RETURNING k, i, s, n, c, at = now(), a, g;
INSERT INTO d (k) VALUES (2), (3), (4) RETURNING k, i, s, n, c, a, g;
INSERT INTO d (k, i) VALUES (5, 50);
INSERT INTO d (k, i) OVERRIDING SYSTEM VALUE VALUES (5, 50) RETURNING i, s, n, c;
INSERT INTO d (k, i) OVERRIDING USER VALUE VALUES (6, 60) RETURNING i, s, n, c;
INSERT INTO d (k, g) VALUES (7, 1);
INSERT INTO d (k, g) VALUES (7, DEFAULT) RETURNING k, i, s, n, c, a, g;
INSERT INTO d (k) VALUES (99);
INSERT INTO d (k) VALUES (13);
INSERT INTO d (k, a) VALUES (8, NULL);
INSERT INTO d (k, sm) VALUES (8, 100);
INSERT INTO d (k, sm) VALUES (8, 99) RETURNING sm, i, s, n, c;
INSERT INTO d (k) VALUES (1) ON CONFLICT DO NOTHING RETURNING k, i;
INSERT INTO d (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET a = 'u' || excluded.a RETURNING k, i, s, n, c, a;
INSERT INTO d (k) VALUES (2) ON CONFLICT ON CONSTRAINT d_pkey DO NOTHING;
INSERT INTO d (k) SELECT g FROM generate_series(20, 25) g RETURNING k, i, s, n, c;
INSERT INTO d (k) SELECT k + 100 FROM d WHERE k < 5 ORDER BY k RETURNING k;
INSERT INTO d DEFAULT VALUES;
UPDATE d SET n = DEFAULT WHERE k = 1 RETURNING n;
UPDATE d SET c = DEFAULT WHERE k = 2 RETURNING c;
UPDATE d SET i = 5 WHERE k = 1;
UPDATE d SET i = DEFAULT WHERE k = 1 RETURNING i;
UPDATE d SET g = 5 WHERE k = 1;
UPDATE d SET g = DEFAULT WHERE k = 1 RETURNING g;
UPDATE d SET a = NULL WHERE k = 1;
UPDATE d SET k = 99 WHERE k = 1;
UPDATE d SET k = 13 WHERE k = 1;
UPDATE d SET k = 1001 WHERE k = 1 RETURNING k, g;
UPDATE d SET sm = 1000 WHERE k = 2;
UPDATE d SET sm = k WHERE k = 2 RETURNING sm;
UPDATE d SET sm = k * 2 WHERE k > 20 RETURNING k, sm;
UPDATE d SET sm = k * 50 WHERE k > 20;
UPDATE d SET n = nextval('explicit') WHERE k = 2 RETURNING n;
DELETE FROM d WHERE k = 3 RETURNING k, g, a;
SELECT k, i, s, n, c, a, g, sm FROM d ORDER BY k;
COPY d (k, a) FROM STDIN;
200	c1
201	c2
\.
SELECT k, i, s, n, c, a, g, at = now() FROM d WHERE k IN (200, 201) ORDER BY k;
COPY d (k) FROM STDIN;
202
99
\.
COPY d (k, a) FROM STDIN;
203	\N
\.
COPY d (k, g) FROM STDIN;
203	1
\.
COPY d (k, i, s, n, c, a) FROM STDIN;
210	7	7	7	7	x
\.
SELECT k, i, s, n, c FROM d WHERE k = 210;
COPY d (k, sm) FROM STDIN (FORMAT csv);
211,1000
\.
COPY d (k, sm) FROM STDIN (FORMAT csv);
212,10
13,1
\.
SELECT last_value FROM called;
INSERT INTO dk (v) VALUES (1), (2) RETURNING k, v;
INSERT INTO dk VALUES (5, 5);
INSERT INTO dk VALUES (DEFAULT, 5) RETURNING *;
INSERT INTO dk OVERRIDING SYSTEM VALUE VALUES (50, 5) RETURNING *;
INSERT INTO dk (k, v) OVERRIDING USER VALUE SELECT 77, g FROM generate_series(1, 3) g RETURNING *;
COPY dk (v) FROM STDIN;
11
12
\.
COPY dk FROM STDIN;
500	11
\.
SELECT * FROM dk ORDER BY k;
INSERT INTO db (v) VALUES (1), (2) RETURNING *;
INSERT INTO db VALUES (10, 3) RETURNING *;
INSERT INTO db VALUES (DEFAULT, 3), (DEFAULT, 4) RETURNING *;
INSERT INTO db VALUES (DEFAULT, 0);
INSERT INTO db (v) OVERRIDING USER VALUE VALUES (9) RETURNING *;
INSERT INTO db (v) VALUES (1) ON CONFLICT (k) DO NOTHING RETURNING *;
INSERT INTO db (k, v) VALUES (10, 4) ON CONFLICT (k) DO UPDATE SET v = excluded.v * 10 RETURNING *;
INSERT INTO db (k, v) VALUES (10, 4) ON CONFLICT (k) DO UPDATE SET v = -1 RETURNING *;
COPY db FROM STDIN;
600	1
\.
COPY db (v) FROM STDIN;
1
0
\.
SELECT * FROM db ORDER BY k;
INSERT INTO ds DEFAULT VALUES RETURNING *;
INSERT INTO ds (v) VALUES (100);
INSERT INTO ds (m) VALUES (NULL);
INSERT INTO ds (m) VALUES ('bad');
INSERT INTO ds (m) SELECT CASE g WHEN 3 THEN 'bad' ELSE 'ok' END FROM generate_series(1, 4) g;
INSERT INTO ds (v) SELECT g * 40 FROM generate_series(1, 4) g;
UPDATE ds SET m = NULL;
UPDATE ds SET m = 'bad' WHERE k = 1;
UPDATE ds SET v = v * 50;
UPDATE ds SET v = DEFAULT, m = DEFAULT WHERE k = 1 RETURNING *;
COPY ds (v, m) FROM STDIN;
1	ok
2	bad
\.
COPY ds (v, m) FROM STDIN;
1	\N
\.
COPY ds (v) FROM STDIN;
1
2
\.
SELECT * FROM ds ORDER BY k;
INSERT INTO t VALUES (1, 'one', 1) RETURNING *;
INSERT INTO t VALUES (2, 'two', 2), (3, 'skip', 3), (4, 'change', 4), (5, 'keep', 5) RETURNING *;
INSERT INTO t VALUES (6, 'raise', 6);
INSERT INTO t VALUES (7, 'big', 1000);
INSERT INTO t VALUES (1, 'again', 1);
INSERT INTO t VALUES (1, 'again', 1) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t VALUES (10, 'ten', 10), (11, 'eleven', 11);
UPDATE t SET v = v + 1 WHERE k = 1 RETURNING *;
UPDATE t SET v = v + 1 RETURNING k, v, g;
UPDATE t SET a = 'skip' WHERE k = 1 RETURNING *;
UPDATE t SET a = 'change' WHERE k = 1 RETURNING *;
UPDATE t SET v = 5000 WHERE k = 1;
UPDATE t SET v = -1 WHERE k = 12345;
UPDATE t SET v = f.x FROM (VALUES (1, 70), (2, 71)) f(k, x) WHERE f.k = t.k RETURNING t.*, f.x;
DELETE FROM t WHERE k IN (1, 5) RETURNING *;
DELETE FROM t WHERE k = 777;
COPY t (k, a, v) FROM STDIN;
30	thirty	30
31	skip	31
32	change	32
\.
COPY t (k, a, v) FROM STDIN;
33	raise	30
\.
COPY t (k, a, v) FROM STDIN;
33	big	5000
\.
SELECT * FROM t ORDER BY k;
INSERT INTO w VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
UPDATE w SET v = v WHERE k = 1;
UPDATE w SET v = v + 1 WHERE k = 1;
UPDATE w SET v = CASE WHEN k = 2 THEN v ELSE 9 END;
UPDATE w SET a = a;
UPDATE w SET a = 'skip' WHERE k = 2 RETURNING *;
UPDATE w SET a = 'change', v = 10 RETURNING *;
DELETE FROM w WHERE k = 1;
DELETE FROM w WHERE k = 1;
INSERT INTO st VALUES (1, 'a', 1);
INSERT INTO st VALUES (2, 'b', 2), (3, 'c', 3) RETURNING *;
UPDATE st SET v = 3 WHERE k = 1;
UPDATE st SET v = v + 3;
UPDATE st SET v = v + 3 WHERE false;
DELETE FROM st WHERE k = 1 RETURNING *;
DELETE FROM st;
COPY st FROM STDIN;
5	x	1
6	y	2
\.
TRUNCATE st;
SELECT * FROM st;
INSERT INTO vt VALUES (20, 'view', 20) RETURNING *;
INSERT INTO vt VALUES (21, 'view', 200);
UPDATE vt SET v = 200 WHERE k = 20;
UPDATE vt SET v = 30 WHERE k = 20 RETURNING *;
UPDATE vt SET v = v * 20;
DELETE FROM vt WHERE k = 20 RETURNING *;
INSERT INTO vi VALUES (40, 'instead', 40) RETURNING *;
UPDATE vi SET v = 41 WHERE k = 40 RETURNING *;
DELETE FROM vi WHERE k = 40 RETURNING *;
INSERT INTO vi SELECT g, 'i', g FROM generate_series(41, 43) g;
UPDATE vi SET a = a || 'u' WHERE k > 40;
SELECT * FROM w ORDER BY k;
SELECT k, i, s, n, c, a, g FROM d WHERE k IN (2, 98) ORDER BY k;
SELECT * FROM w ORDER BY k;
PREPARE p (int) AS INSERT INTO d (k) VALUES ($1) RETURNING k, i, s, n, c, g;
EXECUTE p(301);
EXECUTE p(302);
EXECUTE p(303);
EXECUTE p(304);
EXECUTE p(305);
EXECUTE p(306);
EXECUTE p(307);
EXECUTE p(99);
PREPARE pt (int, int) AS UPDATE t SET v = $2 WHERE k = $1 RETURNING *;
EXECUTE pt(30, 1);
EXECUTE pt(30, 2);
EXECUTE pt(30, 3);
EXECUTE pt(30, 4);
EXECUTE pt(30, 5);
EXECUTE pt(30, 6);
EXECUTE pt(31, 7);
CREATE RULE w_also AS ON INSERT TO w DO ALSO INSERT INTO log (what) VALUES ('rule ' || new.k);
INSERT INTO w VALUES (60, 'ruled', 60), (61, 'ruled', 61);
CREATE RULE w_instead AS ON DELETE TO w DO INSTEAD UPDATE w SET a = 'deleted' WHERE k = old.k;
DELETE FROM w WHERE k = 60;
DELETE FROM w;
CREATE RULE w_nothing AS ON UPDATE TO w WHERE new.v = 7 DO INSTEAD NOTHING;
UPDATE w SET v = 7 WHERE k = 60;
UPDATE w SET v = 8 WHERE k = 60;
SELECT * FROM w ORDER BY k;
