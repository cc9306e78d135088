# Checks the cells of docs/compatibility.md. Each feature is tried on a sharded table, a reference
# table and the tables of a sharded schema, and compared with plain tables. The cell "yes" means that
# the feature works and that nodes do the work. The cell "coordinator" means that it
# works and that the coordinator does a part of the work. Otherwise the cell is "no" and the SQLSTATE.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my @kinds = qw(sharded reference tenant);

# Section, feature and statement; the tables are t, its colocated neighbour u, and d, which has another shard key.
# A statement that begins with "+" changes t; the rows of one that begins with "=" are compared as they come;
# one that begins with "!" cannot run in a transaction block. A fourth element is the first major with the feature.
my @features = (
	[ 'Reading one table', 'Conditions on the key', 'SELECT * FROM t WHERE id = 7' ],
	[ 'Reading one table', 'Conditions on other columns', 'SELECT * FROM t WHERE grp = 3' ],
	[ 'Reading one table', 'ORDER BY ... LIMIT', 'SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5' ],
	[ 'Reading one table', 'FETCH FIRST ... WITH TIES', 'SELECT grp FROM t ORDER BY grp FETCH FIRST 3 ROWS WITH TIES' ],
	[ 'Reading one table', 'DISTINCT', 'SELECT DISTINCT grp FROM t' ],
	[ 'Reading one table', 'DISTINCT ON', 'SELECT DISTINCT ON (grp) grp, id FROM t ORDER BY grp, id' ],
	[ 'Reading one table', 'jsonb, arrays, regular expressions', q(SELECT doc ->> 'a' FROM t WHERE txt ~ '^n1' AND id = ANY('{1,11,12}')) ],
	[ 'Reading one table', 'now(), current_date', 'SELECT count(*) FROM t WHERE at < current_date' ],
	[ 'Reading one table', 'Volatile functions in conditions', 'SELECT count(*) FROM t WHERE random() < 2' ],
	[ 'Reading one table', 'PL/pgSQL functions in conditions', 'SELECT count(*) FROM t WHERE public.is_even(id)' ],
	[ 'Reading one table', 'TABLESAMPLE', 'SELECT count(*) FROM t TABLESAMPLE system (100)' ],
	[ 'Groups', 'GROUP BY the key', 'SELECT id, count(*) FROM t GROUP BY id' ],
	[ 'Groups', 'GROUP BY other columns: count, sum, avg, min, max', 'SELECT grp, count(*), sum(v), avg(v), min(v), max(v) FROM t GROUP BY grp' ],
	[ 'Groups', 'stddev, variance, corr, bool_and, bit_or', 'SELECT grp, stddev(v), variance(id), corr(id, grp), bool_and(id > 0), bit_or(id) FROM t GROUP BY grp' ],
	[ 'Groups', 'FILTER', 'SELECT grp, count(*) FILTER (WHERE v > 5) FROM t GROUP BY grp' ],
	[ 'Groups', 'count(DISTINCT ...)', 'SELECT count(DISTINCT grp) FROM t' ],
	[ 'Groups', 'HAVING', 'SELECT grp FROM t GROUP BY grp HAVING count(*) > 3' ],
	[ 'Groups', 'GROUPING SETS, ROLLUP, CUBE', 'SELECT grp, at, count(*) FROM t GROUP BY ROLLUP (grp, at)' ],
	[ 'Groups', 'percentile_cont, mode', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v), mode() WITHIN GROUP (ORDER BY grp) FROM t' ],
	[ 'Groups', 'json_agg, array_agg with ORDER BY', 'SELECT grp, array_agg(id ORDER BY id) FROM t GROUP BY grp' ],
	[ 'Windows', 'PARTITION BY the key', 'SELECT id, row_number() OVER (PARTITION BY id ORDER BY v) FROM t' ],
	[ 'Windows', 'PARTITION BY other columns', 'SELECT id, rank() OVER (PARTITION BY grp ORDER BY id) FROM t' ],
	[ 'Joins', 'On the shard key of colocated tables', 'SELECT count(*) FROM t JOIN u USING (id)' ],
	[ 'Joins', 'LEFT JOIN on the shard key', 'SELECT t.id, u.w FROM t LEFT JOIN u ON u.id = t.id AND u.w > 3' ],
	[ 'Joins', 'On other columns', 'SELECT count(*) FROM t JOIN d ON d.code = t.grp' ],
	[ 'Joins', 'With a reference table', 'SELECT r.name, count(*) FROM t JOIN public.r ON r.code = t.grp GROUP BY r.name' ],
	[ 'Joins', 'With a plain table of the coordinator', 'SELECT l.name, count(*) FROM t JOIN public.l ON l.code = t.grp GROUP BY l.name' ],
	[ 'Joins', 'EXISTS, IN on the shard key', 'SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND w > 2)' ],
	[ 'Joins', 'NOT IN', 'SELECT count(*) FROM t WHERE id NOT IN (SELECT nullif(id, 0) FROM u WHERE w > 2)' ],
	[ 'Joins', 'LATERAL', 'SELECT t.id, x.w FROM t, LATERAL (SELECT w FROM u WHERE u.id = t.id ORDER BY w LIMIT 1) x' ],
	[ 'Sub-selects', 'Correlated aggregate', 'SELECT id FROM t WHERE v > (SELECT avg(w) FROM u WHERE u.id = t.id)' ],
	[ 'Sub-selects', 'WITH', 'WITH x AS (SELECT grp, count(*) AS n FROM t GROUP BY grp) SELECT max(n) FROM x' ],
	[ 'Sub-selects', 'WITH RECURSIVE', 'WITH RECURSIVE x(id) AS (SELECT id FROM t WHERE id = 1 UNION ALL SELECT t.id FROM t JOIN x ON t.id = x.id + 1 WHERE t.id < 9) SELECT count(*) FROM x' ],
	[ 'Sub-selects', 'UNION, INTERSECT, EXCEPT', 'SELECT id FROM t EXCEPT SELECT id FROM u WHERE w > 3' ],
	[ 'Locks and cursors', 'SELECT FOR UPDATE', '=SELECT id FROM t WHERE grp = 2 ORDER BY id FOR UPDATE' ],
	[ 'Locks and cursors', 'FOR UPDATE SKIP LOCKED ... LIMIT', '=SELECT id FROM t ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED' ],
	[ 'Writing', 'INSERT of rows', q(+INSERT INTO t (id, grp, v) VALUES (1001, 1, 1), (1002, 2, 2)) ],
	[ 'Writing', 'INSERT ... SELECT', '+INSERT INTO t (id, grp, v) SELECT id + 2000, grp, v FROM t' ],
	[ 'Writing', 'UPDATE by the key', '+UPDATE t SET v = v + 1 WHERE id = 7' ],
	[ 'Writing', 'UPDATE of many rows', '+UPDATE t SET v = v + 1 WHERE grp = 3' ],
	[ 'Writing', 'UPDATE of the shard key', '+UPDATE t SET id = id + 5000 WHERE id = 7' ],
	[ 'Writing', 'UPDATE ... FROM, on the key', '+UPDATE t SET v = u.w FROM u WHERE u.id = t.id' ],
	[ 'Writing', 'UPDATE ... FROM, on other columns', '+UPDATE t SET v = l.code FROM public.l WHERE l.code = t.grp' ],
	[ 'Writing', 'UPDATE with a volatile function', '+UPDATE t SET v = v + 0 * random()::int WHERE grp = 3' ],
	[ 'Writing', 'DELETE, with USING', '+DELETE FROM t USING u WHERE u.id = t.id AND u.w = 2' ],
	[ 'Writing', 'RETURNING', '=UPDATE t SET v = 0 WHERE id IN (7, 8) RETURNING v, grp > 0' ],
	[ 'Writing', 'INSERT ... ON CONFLICT (key)', '+INSERT INTO t (id, grp, v) VALUES (7, 1, 1), (1001, 1, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v' ],
	[ 'Writing', 'MERGE on the key', '+MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET v = u.w WHEN NOT MATCHED THEN INSERT (id, grp, v) VALUES (u.id, 0, 0)' ],
	[ 'Writing', 'MERGE on other columns', '+MERGE INTO t USING public.l ON t.grp = l.code WHEN MATCHED THEN UPDATE SET v = 0' ],
	[ 'Writing', 'TRUNCATE', '+TRUNCATE t' ],
	[ 'Definitions', 'ADD COLUMN with a default', '+ALTER TABLE t ADD COLUMN extra int DEFAULT 3' ],
	[ 'Definitions', 'ALTER COLUMN TYPE of another column', '+ALTER TABLE t ALTER COLUMN grp TYPE bigint' ],
	[ 'Definitions', 'ALTER COLUMN TYPE of the shard key', '+ALTER TABLE t ALTER COLUMN id TYPE bigint' ],
	[ 'Definitions', 'CREATE INDEX', '+CREATE INDEX ON t (grp)' ],
	[ 'Definitions', 'UNIQUE with the shard key', '+ALTER TABLE t ADD UNIQUE (id, grp)' ],
	[ 'Definitions', 'UNIQUE without the shard key', '+ALTER TABLE t ADD UNIQUE (txt)' ],
	[ 'Definitions', 'EXCLUDE without the shard key', '+ALTER TABLE t ADD EXCLUDE USING btree (txt WITH =)' ],
	[ 'Definitions', 'CHECK, NOT NULL', '+ALTER TABLE t ADD CHECK (id > 0), ALTER COLUMN grp SET NOT NULL' ],
	[ 'Definitions', 'Foreign key to a colocated table', '+ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t' ],
	[ 'Definitions', 'Foreign key to a reference table', '+ALTER TABLE t ADD FOREIGN KEY (grp) REFERENCES public.r' ],
	[ 'Definitions', 'Foreign key to a plain table of the coordinator', '+ALTER TABLE t ADD FOREIGN KEY (grp) REFERENCES public.l' ],
	[ 'Definitions', 'Row triggers', '+CREATE TRIGGER trg BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION public.pass()' ],
	[ 'Definitions', 'Statement triggers with transition tables', '+CREATE TRIGGER trg AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION public.pass()' ],
	[ 'Definitions', 'Row security', '+ALTER TABLE t ENABLE ROW LEVEL SECURITY' ],
	[ 'Definitions', 'Views', 'SELECT count(*) FROM v' ],
	[ 'Definitions', 'Rules', '+CREATE RULE rl AS ON DELETE TO t DO ALSO NOTIFY x' ],
	[ 'Transactions', 'Savepoints', '+SAVEPOINT a; UPDATE t SET v = 9 WHERE id = 1; ROLLBACK TO a; UPDATE t SET v = 8 WHERE id = 2' ]);

my $merge = 'MERGE INTO t USING u ON t.id = u.id';
push @features, map { [ 'What newer majors added', @$_[1, 2, 0] ] } (
	[ 16, 'any_value', 'SELECT any_value(grp) FROM t WHERE grp = 3' ],
	[ 16, 'JSON_OBJECT, JSON_ARRAY', q(SELECT id, JSON_OBJECT('a': grp RETURNING text), JSON_ARRAY(id RETURNING text) FROM t) ],
	[ 16, 'JSON_OBJECTAGG, JSON_ARRAYAGG', 'SELECT grp, JSON_ARRAYAGG(id ORDER BY id RETURNING jsonb) FROM t GROUP BY grp' ],
	[ 16, 'IS JSON in conditions', 'SELECT count(*) FROM t WHERE txt IS JSON' ],
	[ 17, 'JSON_VALUE, JSON_QUERY, JSON_EXISTS in conditions', q(SELECT count(*) FROM t WHERE JSON_VALUE(doc, '$.a' RETURNING int) > 7) ],
	[ 17, 'JSON_TABLE', q(SELECT t.id, j.a FROM t, JSON_TABLE(t.doc, '$' COLUMNS (a int PATH '$.a')) j) ],
	[ 17, 'MERGE ... RETURNING', "=$merge AND t.id = 7 WHEN MATCHED THEN UPDATE SET v = u.w RETURNING merge_action(), t.v" ],
	[ 17, 'MERGE ... WHEN NOT MATCHED BY SOURCE', "+$merge WHEN MATCHED THEN UPDATE SET v = u.w WHEN NOT MATCHED BY SOURCE THEN DELETE" ],
	[ 17, 'MERGE into a view', '+MERGE INTO v USING u ON v.id = u.id WHEN MATCHED THEN UPDATE SET grp = 0' ],
	[ 17, 'COPY ... ON_ERROR ignore', "+COPY t (id, grp) FROM STDIN (ON_ERROR ignore);\n1001\t1\nx\t2\n1003\t3\n\\.\n" ],
	[ 17, 'ALTER COLUMN ... SET EXPRESSION', '+ALTER TABLE t ADD g int GENERATED ALWAYS AS (grp) STORED; ALTER TABLE t ALTER g SET EXPRESSION AS (grp + 1)' ],
	[ 18, 'Virtual generated columns', '+ALTER TABLE t ADD g int GENERATED ALWAYS AS (grp * 2) VIRTUAL' ],
	[ 18, 'OLD and NEW in RETURNING, one row', '=UPDATE t SET v = 5 WHERE id = 7 RETURNING old.v, new.v' ],
	[ 18, 'OLD and NEW in RETURNING, many rows', '=UPDATE t SET v = 5 WHERE grp = 7 RETURNING old.grp, new.v' ],
	[ 18, 'CHECK ... NOT ENFORCED', '+ALTER TABLE t ADD CONSTRAINT c CHECK (v < 0) NOT ENFORCED' ],
	[ 18, 'FOREIGN KEY ... NOT ENFORCED', '+ALTER TABLE u ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES t NOT ENFORCED' ],
	[ 18, 'ALTER CONSTRAINT ... NOT ENFORCED', '+ALTER TABLE u ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES t; ALTER TABLE u ALTER CONSTRAINT c NOT ENFORCED' ],
	[ 18, 'NOT NULL ... NOT VALID', '+ALTER TABLE t ADD CONSTRAINT c NOT NULL grp NOT VALID' ],
	[ 18, 'Key WITHOUT OVERLAPS', q{=INSERT INTO b VALUES ('[3,4)', '[2026-01-05,2026-01-06)', 0) ON CONFLICT DO NOTHING RETURNING v} ],
	[ 18, 'COPY ... REJECT_LIMIT', "+COPY t (id, grp) FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 1);\n1001\t1\nx\t2\n1003\t3\n\\.\n" ],
	[ 18, 'array_sort, array_reverse', 'SELECT id, array_sort(ARRAY[grp, id]) FROM t WHERE array_reverse(ARRAY[grp, id]) = ARRAY[id, grp]' ],
	[ 19, 'NOT IN of columns that are NOT NULL', 'SELECT count(*) FROM t WHERE id NOT IN (SELECT id FROM u WHERE w > 2)' ],
	[ 19, 'IGNORE NULLS, PARTITION BY the key', 'SELECT id, first_value(v) IGNORE NULLS OVER (PARTITION BY id ORDER BY v) FROM t' ],
	[ 19, 'IGNORE NULLS, PARTITION BY other columns', 'SELECT id, lag(v) IGNORE NULLS OVER (PARTITION BY grp ORDER BY id) FROM t' ],
	[ 19, 'ON CONFLICT DO SELECT', '=INSERT INTO t (id, grp, v) VALUES (7, 1, 1) ON CONFLICT (id) DO SELECT RETURNING v' ],
	[ 19, 'ON CONFLICT DO SELECT FOR UPDATE', '=INSERT INTO t (id, grp, v) VALUES (7, 1, 1) ON CONFLICT (id) DO SELECT FOR UPDATE RETURNING v' ],
	[ 19, 'ALTER CONSTRAINT of a CHECK constraint', '+ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0); ALTER TABLE t ALTER CONSTRAINT c NOT ENFORCED' ],
	[ 19, 'COPY ... ON_ERROR set_null', "+COPY t (id, grp) FROM STDIN (ON_ERROR set_null);\n1001\t1\n1002\tx\n\\.\n" ],
	[ 19, 'COPY ... HEADER of several lines', "+COPY t (id, grp) FROM STDIN (HEADER 2);\nx\ny\n1002\t2\n\\.\n" ],
	[ 19, 'encode and decode as base32hex', q(SELECT count(*) FROM t WHERE encode(txt::bytea, 'base32hex') > 'D') ],
	[ 19, 'REPACK', '!REPACK t' ],
	[ 19, 'REPACK (CONCURRENTLY)', '!REPACK (CONCURRENTLY) t' ],
	[ 19, 'COPY ... TO with FORMAT json', "=COPY (SELECT id, grp FROM t WHERE id < 4 ORDER BY id) TO STDOUT (FORMAT json)" ],
);

my $c = ShardCluster->new(nodes => 2);
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
my $overlaps = q{
	CREATE TABLE b (room int4range, during daterange, v int, PRIMARY KEY (room, during WITHOUT OVERLAPS));
	INSERT INTO b SELECT int4range(i, i + 1), daterange('2026-01-01', '2026-01-10'), i FROM generate_series(1, 20) i};
$c->safe_psql(q{
	CREATE FUNCTION is_even(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i % 2 = 0; END';
	CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TABLE l (code int PRIMARY KEY, name text);
	INSERT INTO l SELECT i, 'l' || i FROM generate_series(0, 9) i;
	CREATE TABLE r (code int PRIMARY KEY, name text);
	INSERT INTO r SELECT i, 'r' || i FROM generate_series(0, 9) i});
for my $kind ('plain', @kinds)
{
	my $key = $major >= 18 ? $overlaps : '';
	$c->safe_psql(qq{
		CREATE SCHEMA $kind;
		SET search_path = $kind, public;
		CREATE TABLE t (id int PRIMARY KEY, grp int, v numeric, txt text, doc jsonb, at date);
		INSERT INTO t SELECT i, i % 10, i % 17, 'n' || i, jsonb_build_object('a', i), date '2026-01-01' + i % 5 FROM generate_series(1, 300) i;
		CREATE TABLE u (id int PRIMARY KEY, w int);
		INSERT INTO u SELECT i, i % 7 FROM generate_series(1, 300, 2) i;
		CREATE TABLE d (code int PRIMARY KEY, note text);
		INSERT INTO d SELECT i, 'd' || i FROM generate_series(0, 9) i;
		$key});
}
$c->safe_psql(q{
	SELECT shardfdw.create_reference_table('r');
	SELECT shardfdw.shard_table('sharded.t', 'id', shards => 4);
	SELECT shardfdw.shard_table('sharded.u', 'id', colocate_with => 'sharded.t');
	SELECT shardfdw.shard_table('sharded.d', 'code', shards => 4);
	SELECT shardfdw.create_reference_table('reference.t');
	SELECT shardfdw.create_reference_table('reference.u');
	SELECT shardfdw.create_reference_table('reference.d');
	SELECT shardfdw.shard_schema('tenant')});
$c->safe_psql("SELECT shardfdw.shard_table('sharded.b', 'room', shards => 4); SELECT shardfdw.create_reference_table('reference.b')") if $major >= 18;
$c->safe_psql("CREATE VIEW $_.v AS SELECT id, grp FROM $_.t WHERE grp < 5") for 'plain', @kinds;
$c->safe_psql('ANALYZE');

# Returns the rows of a statement and what it leaves in t, or its SQLSTATE.
sub result
{
	my ($kind, $sql) = @_;
	my ($mark) = $sql =~ s/^([+=!])// ? $1 : '';
	my $digest = "count(*), md5(string_agg(md5(x::text), '' ORDER BY md5(x::text)))";
	my $script =
		  $mark =~ /[=!]/ ? $sql
		: $mark eq '+' ? "$sql; SELECT $digest FROM t x"
		:                "CREATE TEMP TABLE result AS $sql; SELECT $digest FROM result x";
	my ($begin, $end) = $mark eq '!' ? ('', '') : ('BEGIN;', ';ROLLBACK');
	my ($status, $out, $err) = $c->psql("\\set VERBOSITY verbose\nSET search_path = $kind, public; $begin $script$end");

	return $status == 0 && $err !~ /ERROR/ ? $out : $err =~ /ERROR: +([0-9A-Z]{5}):/ ? $1 : "error: $err";
}

# Does the coordinator compute a part of the query, except combining results of the nodes?
sub is_on_coordinator
{
	my ($kind, $sql) = @_;
	return 0 if $sql =~ /^(?:\+(?!INSERT|UPDATE|DELETE|MERGE)|=COPY|!)/;
	$sql =~ s/^[+=]//;
	my $plan = $c->safe_psql("SET search_path = $kind, public; EXPLAIN (COSTS OFF) $sql");

	return 1 if $plan =~ /(?:Foreign|Custom) Scan[^\n]*\n *Filter:/;
	return $plan =~ /Not Pushed Down|(?:Hash|Merge) Join|Nested Loop|WindowAgg|SubPlan|CTE Scan|Recursive Union|SetOp|Update on t_|Delete on t_/
		|| ($plan =~ /(?<!Finalize )(?:Hash|Group|Mixed)?Aggregate/ && $plan !~ /Finalize/ ? 1 : 0);
}

my $page = slurp_file('docs/compatibility.md');
my ($section, %seen) = ('');
for my $feature (@features)
{
	my ($heading, $name, $sql, $since) = @$feature;
	my $begin = '| ' . join(' | ', $name, $since // ()) . ' | ';
	my @cells;

	if ($since && $since > $major)
	{
		my ($row) = $page =~ /^(\Q$begin\E.*)$/m;
		ok($row, "$heading: $name is on the page") and $seen{$row} = 1;
		next;
	}
	my $plain = result('plain', $sql);
	diag "$name on plain tables: $plain" if $plain =~ /^error/;
	isnt($plain, '42601', "$name: plain tables have it") if $since;
	for my $kind (@kinds)
	{
		my $got = result($kind, $sql);

		push @cells, $got ne $plain ? "no (`$got`)" : $kind ne 'reference' && is_on_coordinator($kind, $sql) ? 'coordinator' : 'yes';
	}
	my $row = $begin . join(' | ', @cells) . ' |';
	like($page, qr/^\Q$row\E$/m, "$heading: $name") or note "row: $row";
	$seen{$row} = 1;
}
my @rows = grep { /^\|(?! feature|---)/ } map { /^(\|.*)$/ } split /\n/, ($page =~ /(## Reading one table.*?)(?=^## Not in)/ms)[0] // '';
is(scalar(grep { !$seen{$_} } @rows), 0, 'the page has no other row');

done_testing();
