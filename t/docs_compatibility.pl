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
# A statement that begins with "+" changes t; the rows of one that begins with "=" are compared as they come.
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
	[ 'Joins', 'NOT IN', 'SELECT count(*) FROM t WHERE id NOT IN (SELECT id FROM u WHERE w > 2)' ],
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

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE FUNCTION is_even(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i % 2 = 0; END';
	CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TABLE l (code int PRIMARY KEY, name text);
	INSERT INTO l SELECT i, 'l' || i FROM generate_series(0, 9) i;
	CREATE TABLE r (code int PRIMARY KEY, name text);
	INSERT INTO r SELECT i, 'r' || i FROM generate_series(0, 9) i});
for my $kind ('plain', @kinds)
{
	$c->safe_psql(qq{
		CREATE SCHEMA $kind;
		SET search_path = $kind, public;
		CREATE TABLE t (id int PRIMARY KEY, grp int, v numeric, txt text, doc jsonb, at date);
		INSERT INTO t SELECT i, i % 10, i % 17, 'n' || i, jsonb_build_object('a', i), date '2026-01-01' + i % 5 FROM generate_series(1, 300) i;
		CREATE TABLE u (id int PRIMARY KEY, w int);
		INSERT INTO u SELECT i, i % 7 FROM generate_series(1, 300, 2) i;
		CREATE TABLE d (code int PRIMARY KEY, note text);
		INSERT INTO d SELECT i, 'd' || i FROM generate_series(0, 9) i});
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
$c->safe_psql("CREATE VIEW $_.v AS SELECT id, grp FROM $_.t WHERE grp < 5") for 'plain', @kinds;
$c->safe_psql('ANALYZE');

# What a statement gives and leaves in t, or its SQLSTATE.
sub result
{
	my ($kind, $sql) = @_;
	my ($mark) = $sql =~ s/^([+=])// ? $1 : '';
	my $digest = "count(*), md5(string_agg(md5(x::text), '' ORDER BY md5(x::text)))";
	my $script =
		  $mark eq '=' ? $sql
		: $mark eq '+' ? "$sql; SELECT $digest FROM t x"
		:                "CREATE TEMP TABLE result AS $sql; SELECT $digest FROM result x";
	my ($status, $out, $err) = $c->psql("\\set VERBOSITY verbose\nSET search_path = $kind, public; BEGIN; $script; ROLLBACK");

	return $status == 0 && $err !~ /ERROR/ ? $out : $err =~ /ERROR: +([0-9A-Z]{5}):/ ? $1 : "error: $err";
}

# Whether the coordinator computes anything of a query but what it has to combine.
sub is_on_coordinator
{
	my ($kind, $sql) = @_;
	return 0 if $sql =~ /^\+(?!INSERT|UPDATE|DELETE|MERGE)/;
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
	my ($heading, $name, $sql) = @$feature;
	my $plain = result('plain', $sql);
	my @cells;

	diag "$name on plain tables: $plain" if $plain =~ /^error/;
	for my $kind (@kinds)
	{
		my $got = result($kind, $sql);

		push @cells, $got ne $plain ? "no (`$got`)" : $kind ne 'reference' && is_on_coordinator($kind, $sql) ? 'coordinator' : 'yes';
	}
	my $row = '| ' . join(' | ', $name, @cells) . ' |';
	like($page, qr/^\Q$row\E$/m, "$heading: $name") or note "row: $row";
	$seen{$row} = 1;
}
my @rows = grep { /^\|(?! feature|---)/ } map { /^(\|.*)$/ } split /\n/, ($page =~ /(## Reading one table.*?)(?=^## Not in)/ms)[0] // '';
is(scalar(grep { !$seen{$_} } @rows), 0, 'the page has no other row');

done_testing();
