# Writes to sharded tables and compares with a plain table: INSERT and COPY through the streams,
# UPDATE, DELETE, TRUNCATE. Also tests savepoints, triggers, errors, full buffers, and nodes that
# stop reading.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = ShardCluster->new(nodes => 2, node_conf => "log_statement = 'mod'\n");
my $tempdir = PostgreSQL::Test::Utils::tempdir();

# Runs a script on a table and on its plain copy ({t} stands for either). The output and the
# contents afterwards must be the same.
sub same
{
	my ($name, $script, %opt) = @_;
	my %result;

	for my $suffix ('', '_plain')
	{
		(my $sql = $script) =~ s/\{(\w+)\}/$1$suffix/g;
		my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 1);
		$out = join "\n", sort split /\n/, $out;
		$err =~ s/(t|w)_plain/$1/g;
		$err =~ s/^(CONTEXT|DETAIL|HINT|LINE).*//msg;
		$result{$suffix} = "$rc\n$out\n$err";
	}
	is($result{''}, $result{_plain}, "$name: same result");
	return same_rows($name, $opt{table} // 't');
}

sub same_rows
{
	my ($name, $table) = @_;
	return is(
		$c->safe_psql("SELECT count(*) || ' ' || coalesce(md5(string_agg(x::text, '|' ORDER BY x::text COLLATE \"C\")), '') FROM $table x"),
		$c->safe_psql("SELECT count(*) || ' ' || coalesce(md5(string_agg(x::text, '|' ORDER BY x::text COLLATE \"C\")), '') FROM ${table}_plain x"),
		"$name: same rows");
}

# Standard error of a statement that must fail.
sub failure
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $c->psql("\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
	isnt($rc, 0, "fails: $sql");
	return $err;
}

my $columns = 'id int NOT NULL, v int, s text DEFAULT \'dflt\', n numeric(10,2), d date CHECK (d > \'1900-01-01\')';
$c->safe_psql("CREATE TABLE t ($columns); CREATE TABLE t_plain ($columns);");
$c->shard_table('t', 'id', shards => 5);

# --- INSERT, COPY, UPDATE, DELETE against a plain table

same('INSERT VALUES', "INSERT INTO {t} VALUES (1, 10, 'one', 1.5, '2020-01-01'), (2, NULL, NULL, NULL, NULL); INSERT INTO {t}(id) VALUES (3);");
same('INSERT SELECT', "INSERT INTO {t} SELECT g, g % 17, 'row ' || g, g / 3.0, '2020-01-01'::date + g FROM generate_series(4, 2000) g;");
same('INSERT RETURNING', "INSERT INTO {t}(id, v) VALUES (3001, 1), (3002, 2), (3003, 3) RETURNING id, s, v + 1, n;");
same('INSERT RETURNING a constant', "INSERT INTO {t}(id, v) VALUES (3004, 1), (3005, 2) RETURNING 1;");
same('INSERT in a CTE', "WITH i AS (INSERT INTO {t}(id, v) SELECT g, 5 FROM generate_series(3010, 3030) g RETURNING id) SELECT count(*), sum(id) FROM i;");
same('INSERT in a CTE, not read', "WITH i AS (INSERT INTO {t}(id, v) SELECT g, 5 FROM generate_series(3040, 3050) g) SELECT 1;");
same('INSERT from itself', "INSERT INTO {t} SELECT id + 10000, v, s, n, d FROM {t};");
same('INSERT from itself, after a write in the same transaction',
	"BEGIN; INSERT INTO {t}(id) VALUES (40000); INSERT INTO {t} SELECT id + 50000, v, s, n, d FROM {t} WHERE id > 10000; COMMIT;");
same('COPY FROM STDIN', "COPY {t} FROM STDIN;\n70001\t1\tx\\ty\\\\z\t2.50\t2020-02-02\n70002\t\\N\t\\N\t\\N\t\\N\n70003\t3\t\t0\t2020-01-01\n\\.\n");
same('COPY with columns, CSV', "COPY {t}(v, id) FROM STDIN (FORMAT csv);\n1,70010\n2,70011\n\\.\n");
same('COPY WHERE', "COPY {t}(v, id) FROM STDIN (FORMAT csv) WHERE v > 1;\n1,70020\n2,70021\n\\.\n");
same('UPDATE', "UPDATE {t} SET v = v + 1, s = s || '!' WHERE id % 3 = 0;");
same('UPDATE RETURNING', "UPDATE {t} SET v = v + 1 WHERE id BETWEEN 10 AND 30 RETURNING id, v, s;");
same('UPDATE that is computed here', "UPDATE {t} SET v = length(s) + (SELECT count(*) FROM pg_class WHERE relname = 'pg_class') WHERE id < 200 AND random() < 2;");
same('UPDATE that is computed here, RETURNING', "UPDATE {t} SET n = n + 1 WHERE id < 60 AND random() < 2 RETURNING *;");
same('UPDATE FROM', "UPDATE {t} SET v = x.v * 2 FROM (VALUES (5, 50), (6, 60), (7, 70), (7, 70)) x(id, v) WHERE x.id = {t}.id RETURNING {t}.id, {t}.v, x.v;");
same('UPDATE to NULL and DEFAULT', "UPDATE {t} SET s = DEFAULT, v = NULL WHERE id BETWEEN 100 AND 120;");
same('UPDATE of the key to itself', "UPDATE {t} SET id = id, v = 77 WHERE id = 15 RETURNING *;");
same('DELETE', "DELETE FROM {t} WHERE id % 10 = 3;");
same('DELETE RETURNING', "DELETE FROM {t} WHERE id BETWEEN 300 AND 350 RETURNING *;");
same('DELETE that is computed here', "DELETE FROM {t} WHERE id BETWEEN 400 AND 450 AND random() < 2 RETURNING id;");
same('DELETE USING', "DELETE FROM {t} USING generate_series(500, 520) g WHERE g = {t}.id RETURNING id, g;");
same('DELETE RETURNING a constant', "DELETE FROM {t} WHERE id BETWEEN 530 AND 540 RETURNING 'x';");
same('prepared statements',
	"PREPARE i(int, text) AS INSERT INTO {t}(id, s) VALUES (\$1, \$2); PREPARE u(int, int) AS UPDATE {t} SET v = \$2 WHERE id = \$1 RETURNING id, v; PREPARE d(int) AS DELETE FROM {t} WHERE id = \$1;\n"
	  . join("\n", map { "EXECUTE i($_, 'p$_'); EXECUTE u($_, " . ($_ * 2) . ");" } 80001 .. 80012)
	  . "\nEXECUTE d(80001);");
same('ON CONFLICT DO NOTHING without a conflict', "INSERT INTO {t}(id, v) VALUES (80100, 1), (80101, 2) ON CONFLICT DO NOTHING;");

same('no part of a statement sees what another one writes', q{
WITH i AS (INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series(81001, 81050) g RETURNING id) SELECT count(*), (SELECT count(*) FROM {t}) FROM i;
WITH i AS (INSERT INTO {t}(id, v) VALUES (81100, 1), (81101, 1) RETURNING id) SELECT * FROM i UNION ALL SELECT id FROM {t} WHERE id > 81040;
WITH d AS (DELETE FROM {t} WHERE id BETWEEN 81001 AND 81010 RETURNING id) SELECT count(*), (SELECT count(*) FROM {t}) FROM d;
WITH d AS (DELETE FROM {t} WHERE id BETWEEN 81011 AND 81020 AND random() < 2 RETURNING id) SELECT count(*), (SELECT count(*) FROM {t}) FROM d;
WITH u AS (UPDATE {t} SET v = 100000 WHERE id > 81000 RETURNING id) SELECT count(*), (SELECT max(v) FROM {t}) FROM u;
WITH i AS (INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series(82001, 82050) g) SELECT count(*) FROM {t};
INSERT INTO {t}(id, v) SELECT g, (SELECT count(*) FROM {t} b WHERE b.id > g) FROM generate_series(83001, 83020) g;
});

# R42: rows whose key changes go to the shard of their new key, once
same('UPDATE of the key of one row', "UPDATE {t} SET id = 85000 WHERE id = 11; SELECT * FROM {t} WHERE id = 85000;");
same('UPDATE of all keys', "UPDATE {t} SET id = id + 1 WHERE id > 0;");
same('UPDATE of keys, RETURNING', "UPDATE {t} SET id = -id, v = v + 1 WHERE id BETWEEN 20 AND 60 RETURNING id, v, s, n, d;");
same('UPDATE of keys in a join', "UPDATE {t} SET id = {t}.id + g FROM generate_series(1000000, 1000003) g WHERE g % 1000 = {t}.id % 100 AND {t}.id < 90 AND {t}.id > 0;");
same('UPDATE of keys in a transaction', "BEGIN; UPDATE {t} SET id = id - 1 WHERE id BETWEEN 100 AND 300; SELECT count(*), sum(id) FROM {t}; SAVEPOINT a; UPDATE {t} SET id = id + 7; SELECT count(*), sum(id) FROM {t}; ROLLBACK TO a; UPDATE {t} SET id = id + 3 WHERE v = 5; COMMIT;");
is($c->safe_psql("SELECT count(*) FROM t WHERE tableoid <> shardfdw.shard_for('t'::regclass, id)::oid"), '0', 'R42: all rows are where their keys belong');

# --- transactions

same('savepoints', q{
BEGIN;
INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series(90000, 90100) g;
SELECT count(*) FROM {t} WHERE id >= 90000;
SAVEPOINT a;
INSERT INTO {t}(id, v) SELECT g, 2 FROM generate_series(90200, 90300) g;
UPDATE {t} SET v = 3 WHERE id >= 90000;
SELECT count(*), sum(v) FROM {t} WHERE id >= 90000;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM {t} WHERE id >= 90000;
SAVEPOINT b;
COPY {t}(id, v) FROM STDIN;
90400	7
90401	8
\.
SELECT count(*), sum(v) FROM {t} WHERE id >= 90000;
RELEASE b;
DELETE FROM {t} WHERE id = 90400;
SELECT count(*), sum(v) FROM {t} WHERE id >= 90000;
COMMIT;
});
for my $max (1, 2)
{
	my $base = 91000 + 1000 * $max;
	same("R26: INSERT, COPY, UPDATE, COPY with $max connections", qq{
SET shardfdw.max_connections_per_node = $max;
BEGIN;
SELECT count(*) FROM {t};
INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series($base, $base + 99) g;
COPY {t}(id, v) FROM STDIN;
@{[$base + 200]}	7
\\.
UPDATE {t} SET v = v + 1 WHERE id >= $base;
COPY {t}(id, v) FROM STDIN;
@{[$base + 201]}	8
\\.
SELECT count(*), sum(v) FROM {t} WHERE id >= $base;
COMMIT;
});
}
same('a cursor stays open while rows are inserted', q{
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM {t} WHERE id < 100 ORDER BY id;
FETCH 5 FROM c;
INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series(-200, -100) g;
FETCH ALL FROM c;
COMMIT;
});
same('WITH HOLD', q{
BEGIN;
INSERT INTO {t}(id, v) SELECT g, 1 FROM generate_series(-400, -300) g;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM {t} WHERE id < -250 ORDER BY id;
FETCH 5 FROM h;
COMMIT;
FETCH ALL FROM h;
});

# --- errors

like(failure("INSERT INTO t(id, d) SELECT g, CASE WHEN g = 100950 THEN '1800-01-01'::date ELSE '2000-01-01' END FROM generate_series(100000, 101000) g"),
	qr/ERROR:  23514: .*violates check constraint/s, 'a check on the node fails the INSERT');
same_rows('after it', 't');
same('an error that is caught', q{
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN
			INSERT INTO {t}(id, v, d) SELECT g, i, CASE WHEN g = 110000 + i * 100 + 50 AND i % 2 = 0 THEN '1800-01-01'::date END
			FROM generate_series(110000 + i * 100, 110000 + i * 100 + 99) g;
		EXCEPTION WHEN check_violation THEN
			RAISE NOTICE 'caught %', i;
		END;
	END LOOP;
END $$;
});

my @lines = map { "$_\t1\tx\t1\t2000-01-01" } 120001 .. 125000;
$lines[3210] = "123211\t1\tx\t1\t1800-01-01";
my $err = failure("COPY t FROM STDIN;\n" . join("\n", @lines) . "\n\\.\n");
like($err, qr/^CONTEXT:  COPY t, line 3211: "123211\t1\tx\t1\t1800-01-01"$/m, 'R25: the context has the line of the input and the name of the table');
unlike($err, qr/COPY t_\d+, line/, 'R25: and not those of the shard');
like($err, qr/node[12]/, 'and the node is named');
same_rows('after the failed COPY', 't');

# Early in a long input: the error is found while COPY still reads.
@lines = map { "$_\t1\t" . ('x' x 100) . "\t1\t2000-01-01" } 200001 .. 320000;
$lines[41] = "200042\t1\tx\t1\t1800-01-01";
$err = failure("SET shardfdw.copy_buffer_size = 64;\nCOPY t FROM STDIN;\n" . join("\n", @lines) . "\n\\.\n");
like($err, qr/COPY t, line 42: "200042\t/, 'R25: also while the input goes on');
same_rows('after it', 't');

my $wrong = $c->safe_psql("SELECT relname FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 't'::regclass) AND oid <> shardfdw.shard_for('t'::regclass, 1) ORDER BY 1 LIMIT 1");
like(failure("INSERT INTO $wrong(id) VALUES (1)"), qr/23514: .*violates partition constraint/, 'a row cannot be put into the wrong shard');
like(failure("COPY $wrong(id) FROM STDIN;\n1\n\\.\n"), qr/23514: .*violates partition constraint/, 'nor by COPY');
like(failure("UPDATE $wrong SET id = 1 WHERE id = (SELECT min(id) FROM $wrong)"), qr/0A000: cannot move a row/, 'nor by UPDATE of a shard');
like(failure("INSERT INTO t(id) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 1"), qr/ERROR/, 'ON CONFLICT DO UPDATE is refused');
same_rows('after that', 't');

# --- R18: row counts around the sizes of buffers

$c->safe_psql('CREATE TABLE w (id int, pad text); CREATE TABLE w_plain (id int, pad text)');
$c->shard_table('w', 'id', shards => 1);
for my $n (0, 1, 2, 63, 64, 65, 655, 656, 657, 1023, 1024, 1025, 1310, 1311, 1312, 9999, 10000, 10001)
{
	# 100 bytes a row in binary
	$c->safe_psql("TRUNCATE w; SET shardfdw.copy_buffer_size = 64; INSERT INTO w SELECT g, repeat('x', 86) FROM generate_series(1, $n) g");
	is($c->safe_psql('SELECT count(*), coalesce(sum(id), 0) FROM w'), $n . '|' . ($n * ($n + 1) / 2), "R18: $n rows");
}
for my $bytes (1, 65535, 65536, 65537, 1048576, 5000000)
{
	$c->safe_psql("TRUNCATE w; SET shardfdw.copy_buffer_size = 64; INSERT INTO w SELECT g, repeat('y', $bytes) FROM generate_series(1, 3) g");
	is($c->safe_psql('SELECT count(*), sum(length(pad)) FROM w'), '3|' . 3 * $bytes, "three rows of $bytes bytes");
}

# --- types, binary and text rows

my $types = q{
	id int, drop1 int, b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, tx text, vc varchar(20), bc char(9), nm name,
	bt bytea, d date, ts timestamp, tz timestamptz, ti time, tt timetz, iv interval, u uuid, j json, jb jsonb, ip inet, bi bit(5),
	r int4range, mr nummultirange, ia int[], ta text[], na numeric[], m money, p point};
my $values = q{
	g, g % 2 = 0, -g, -g * 10000000000, g / 3.0, -g / 7.0::float8, g / 3.0, repeat(E'tä\t\\\\n\n', g), 'v', 'abc', 'name' || g,
	decode(lpad(to_hex(g), 8, '0'), 'hex'), '2020-01-01'::date + g, 'infinity', '2020-01-01 12:00+02', '12:34:56.789', '12:34:56+05:30',
	interval '-1 mon +3 days -04:05:06.7' * g, ('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid, '{"a" :  1}', '{"b":[1,2,"x\ty"],"a":null}',
	'10.1.2.3/24', '10101', '[1,5)', '{[1.5,3),[5,8)}', array[[1,2],[3,null]], array['a',null,'','NULL','{"x"}'], array[1.5,'NaN'], 12.34, '(1,2)'};
$c->safe_psql("CREATE TABLE t1 ($types); ALTER TABLE t1 DROP drop1; CREATE TABLE t1_plain (LIKE t1)");
$c->shard_table('t1', 'id', shards => 3);
same('types', "INSERT INTO {t1} SELECT $values FROM generate_series(1, 100) g; INSERT INTO {t1}(id) VALUES (200);", table => 't1');
same('types with RETURNING', "INSERT INTO {t1} SELECT $values FROM generate_series(301, 310) g RETURNING *;", table => 't1');
same('types, settings', "SET datestyle = 'sql, dmy'; SET intervalstyle = sql_standard; SET extra_float_digits = -3; SET timezone = 'Asia/Kolkata'; SET bytea_output = escape;\n"
	  . "INSERT INTO {t1} SELECT $values FROM generate_series(401, 410) g; UPDATE {t1} SET f8 = f8 / 3, iv = iv * 3, d = d + 1, tz = tz + '1 day' WHERE id > 400 AND random() < 2;", table => 't1');
same('types, UPDATE', "UPDATE {t1} SET (tx, bt, jb, ta, na, n) = (ta[1] || id, '\\x', jb || '{\"z\":1}', ta || 'q', na || n, n * 2) WHERE id % 3 = 0 AND random() < 2 RETURNING *;", table => 't1');
same('types, UPDATE of keys', "UPDATE {t1} SET id = id + 1 WHERE id < 50; UPDATE {t1} SET id = id * 1000, tx = 'moved' WHERE id BETWEEN 50 AND 60 RETURNING *;", table => 't1');
same('R20: empty bytea', "INSERT INTO {t1}(id, bt, tx) VALUES (501, '', ''), (502, '\\x', NULL), (503, NULL, ''); COPY {t1}(id, bt, tx) FROM STDIN;\n504\t\\\\x\t\n505\t\t\\N\n506\t\\N\t\\\\x\n\\.\n", table => 't1');

for my $sql ("CREATE TYPE mood AS ENUM ('sad', 'ok', 'so so')", 'CREATE TYPE pair AS (a int, b text)', 'CREATE DOMAIN positive AS int CHECK (value > 0)')
{
	$c->safe_psql($sql);
	$c->node_safe_psql($_, $sql) for 1, 2;
}
my $own = 'id int, m mood, p pair, ps pair[], d positive, ms mood[], x xml, v tsvector, rc regclass, tx text, iv interval, f float8';
$c->safe_psql("CREATE TABLE t2 ($own); CREATE TABLE t2_plain ($own)");
$c->shard_table('t2', 'id', shards => 2);
my $own_values = q{g, 'so so', row(g, E'a\t"\\\\b')::pair, array[row(1, 'x,y')::pair, null], g, '{sad,"so so"}', '<a/>', 'a b c', 'pg_class', E'\\\\N\t\n\\\\.', '-1 day +2:03', g / 3.0};
same('types of one\'s own', "INSERT INTO {t2} SELECT $own_values FROM generate_series(1, 50) g; INSERT INTO {t2}(id) VALUES (60);", table => 't2');
same('types of one\'s own, settings', "SET intervalstyle = sql_standard; SET extra_float_digits = -3; INSERT INTO {t2} SELECT $own_values FROM generate_series(101, 120) g;", table => 't2');
same('types of one\'s own, UPDATE', "UPDATE {t2} SET p = row(id, 'new')::pair, m = 'sad', ps = ps || p WHERE id < 20 AND random() < 2 RETURNING *;", table => 't2');

# other types on the node than here: values are sent as text, and no value is misread
$c->node_safe_psql(1, 'CREATE TABLE other (id bigint, a text, b numeric, c bigint, d timestamptz, e bytea)');
$c->safe_psql("CREATE FOREIGN TABLE other (id int, a int, b float8, c float8, d timestamp, e bytea) SERVER node1");
$c->safe_psql("INSERT INTO other VALUES (1, 2, 1.5, 3, '2020-01-01', ''), (2, NULL, 0.25, 4, NULL, '\\x00')");
is($c->node_safe_psql(1, "SELECT id, a, b, c, d IS NOT NULL, e FROM other ORDER BY 1"), "1|2|1.5|3|t|\\x\n2||0.25|4|f|\\x00", 'columns of other types on the node');

# R13: ctid does not identify a row of a partitioned table
$c->node_safe_psql(1, 'CREATE TABLE parted (id int, v int) PARTITION BY LIST (id); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1); CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)');
$c->safe_psql("CREATE FOREIGN TABLE parted (id int, v int) SERVER node1; INSERT INTO parted VALUES (1, 1), (2, 2)");
like(failure('UPDATE parted SET v = 5 WHERE id = 1 AND random() < 2'), qr/child table public.parted_1/, 'R13: refused row by row');
like(failure('DELETE FROM parted WHERE id = 1 AND random() < 2'), qr/child table public.parted_1/, 'R13: DELETE as well');
is($c->node_safe_psql(1, 'SELECT * FROM parted ORDER BY 1'), "1|1\n2|2", 'R13: rows are as they were');

# 1,600 columns
my $wide = join ', ', map { "c$_ int" } 1 .. 1600;
$c->safe_psql("CREATE TABLE wide ($wide)");
$c->shard_table('wide', 'c1', shards => 2);
$c->safe_psql('INSERT INTO wide(c1, c800, c1600) SELECT g, g + 1, g + 2 FROM generate_series(1, 100) g; INSERT INTO wide(c1) VALUES (1000) RETURNING c1600');
is($c->safe_psql('SELECT count(*), sum(c1), sum(c800), sum(c1600), count(c2) FROM wide'), '101|6050|5150|5250|0', '1,600 columns');

# generated columns, identity, defaults of the parent
$c->safe_psql('CREATE TABLE g (id int, v int, w int GENERATED ALWAYS AS (v * 2) STORED, n int GENERATED BY DEFAULT AS IDENTITY, dflt text DEFAULT \'x\' || 1)');
$c->shard_table('g', 'id', shards => 3);
$c->safe_psql("INSERT INTO g(id, v) SELECT g, g FROM generate_series(1, 20) g; UPDATE g SET v = 100 WHERE id = 5 AND random() < 2; COPY g(id, v) FROM STDIN;\n30\t30\n\\.\n");
is($c->safe_psql("SELECT count(*), sum(w), count(DISTINCT n), min(dflt), max(dflt) FROM g"), '21|670|21|x1|x1', 'generated columns, identity and defaults');
is($c->safe_psql('INSERT INTO g(id, v) VALUES (40, 4) RETURNING w, dflt'), '8|x1', 'and returned');

# --- triggers

$c->safe_psql(q{
CREATE TABLE tr (id int, v int);
CREATE TABLE log (what text, n bigint);
CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v = 13 THEN RETURN NULL; END IF;
	NEW.v := NEW.v + (SELECT count(*) FROM tr);
	RETURN NEW;
END $$;
CREATE FUNCTION caught_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM count(*) FROM tr;
		RAISE EXCEPTION 'undo this block';
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
	RETURN NEW;
END $$;
CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (TG_OP || ' ' || coalesce(OLD.v::text, '-') || ' ' || coalesce(NEW.v::text, '-'), 1);
	RETURN NULL;
END $$;
CREATE FUNCTION after_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log SELECT TG_OP, count(*) FROM tr;
	RETURN NULL;
END $$;
});
$c->shard_table('tr', 'id', shards => 4);
$c->safe_psql('CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON tr FOR EACH STATEMENT EXECUTE FUNCTION after_statement()');
$c->safe_psql("INSERT INTO tr SELECT g, 0 FROM generate_series(1, 10) g; COPY tr FROM STDIN;\n11\t0\n12\t0\n\\.\n");
is($c->safe_psql('SELECT * FROM log'), "INSERT|10\nINSERT|12", 'AFTER STATEMENT triggers see the rows');
$c->safe_psql('DELETE FROM tr; TRUNCATE log; CREATE TRIGGER b BEFORE INSERT ON tr FOR EACH ROW EXECUTE FUNCTION before_row()');
$c->safe_psql('INSERT INTO tr SELECT g, 0 FROM generate_series(1, 30) g; INSERT INTO tr VALUES (50, 13)');
is($c->safe_psql('SELECT sum(v), count(*) FROM tr'), 30 * 29 / 2 . '|30', 'R5: each BEFORE ROW trigger sees the rows before it');
$c->safe_psql('DROP TRIGGER b ON tr; DELETE FROM tr; TRUNCATE log; CREATE TRIGGER c BEFORE INSERT ON tr FOR EACH ROW EXECUTE FUNCTION caught_before()');
$c->safe_psql("INSERT INTO tr SELECT g, g FROM generate_series(1, 30) g; COPY tr FROM STDIN;\n31\t31\n32\t32\n\\.\n");
is($c->safe_psql('SELECT count(*), sum(v) FROM tr'), '32|528', 'a subtransaction that rolls back inside a trigger takes no rows with it');
$c->safe_psql(q{
CREATE TABLE trc (id int, v int CHECK (v < 100));
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN PERFORM count(*) FROM trc; EXCEPTION WHEN OTHERS THEN NULL; END;
	RETURN NEW;
END $$;
});
$c->shard_table('trc', 'id', shards => 4);
$c->safe_psql('CREATE TRIGGER b BEFORE INSERT ON trc FOR EACH ROW EXECUTE FUNCTION swallow()');
like(failure('INSERT INTO trc SELECT g, g * 20 FROM generate_series(1, 20) g'), qr/ERROR:  58000: rows that were on their way to a node are lost/, 'a trigger cannot hide that rows were refused');
is($c->safe_psql('INSERT INTO trc SELECT g, g FROM generate_series(1, 20) g; SELECT count(*) FROM trc'), '20', 'and it goes on after that');
$c->safe_psql('DROP TRIGGER c ON tr; DROP TRIGGER s ON tr; DELETE FROM tr; TRUNCATE log; CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON tr FOR EACH ROW EXECUTE FUNCTION after_row()');
$c->safe_psql('INSERT INTO tr VALUES (1, 1), (2, 2), (3, 3); UPDATE tr SET v = v * 10 WHERE id < 3; DELETE FROM tr WHERE id > 1');
is($c->safe_psql('SELECT what FROM log ORDER BY 1'), join("\n", 'DELETE 20 -', 'DELETE 3 -', 'INSERT - 1', 'INSERT - 2', 'INSERT - 3', 'UPDATE 1 10', 'UPDATE 2 20'), 'AFTER ROW triggers see old and new rows');
like(failure('UPDATE tr SET id = id + 1'), qr/0A000: cannot move a row/, 'a key is not changed where triggers would have to be fired');
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; DROP TRIGGER a ON tr; CREATE TRIGGER x AFTER INSERT ON tr REFERENCING NEW TABLE AS nt FOR EACH STATEMENT EXECUTE FUNCTION after_statement()');
like(failure('INSERT INTO tr VALUES (5, 5)'), qr/transition/, 'R9: transition tables are refused');

# views with check option
$c->safe_psql('CREATE VIEW small AS SELECT * FROM t WHERE v < 100 WITH CHECK OPTION');
like(failure('INSERT INTO small(id, v) VALUES (700000, 200)'), qr/44000: .*violates check option/, 'check option on INSERT');
like(failure('UPDATE small SET v = 200 WHERE id = 2000'), qr/44000: .*violates check option/, 'check option on UPDATE');
$c->safe_psql('CREATE VIEW small_plain AS SELECT * FROM t_plain WHERE v < 100 WITH CHECK OPTION');
for my $statement ('INSERT INTO %s(id, v) VALUES (700000, 200)', 'UPDATE %s SET v = 200 WHERE id = 2000', 'UPDATE %s SET v = v + 200 + random() * 0 WHERE id = 2000')
{
	my @rows = map { failure(sprintf $statement, $_) =~ /(Failing row contains .*)/ ? $1 : 'none' } 'small', 'small_plain';
	isnt($rows[1], 'none', "check option: $statement: a plain table's row is shown");
	is($rows[0], $rows[1], "check option: $statement: the row is shown as a whole");
}
$c->safe_psql('INSERT INTO t_plain(id, v) VALUES (700001, 20); INSERT INTO small(id, v) VALUES (700001, 20)');
same_rows('through the view', 't');

# row security of the parent
$c->safe_psql('CREATE TABLE ownp (id int, who text); CREATE ROLE ann; CREATE ROLE bob');
$c->shard_table('ownp', 'id', shards => 4);
$c->safe_psql(q{
GRANT ALL ON ownp TO ann, bob;
ALTER TABLE ownp ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON ownp USING (who = current_user) WITH CHECK (who = current_user);
});
my $user = getpwuid($<);
for my $i (1, 2)
{
	$c->safe_psql("CREATE USER MAPPING IF NOT EXISTS FOR $_ SERVER node$i OPTIONS (user '$user', password_required 'false')") for qw(ann bob);
}
$c->safe_psql("SET ROLE ann; INSERT INTO ownp SELECT g, 'ann' FROM generate_series(1, 20) g");
like(failure("SET ROLE bob; INSERT INTO ownp SELECT g, CASE WHEN g = 35 THEN 'ann' ELSE 'bob' END FROM generate_series(21, 40) g"), qr/42501: new row violates row-level security policy/, 'row security on INSERT');
like(failure("SET ROLE bob; INSERT INTO ownp VALUES (50, 'ann') RETURNING id"), qr/42501: new row violates row-level security policy/, 'row security on INSERT RETURNING');
$c->safe_psql("SET ROLE bob; INSERT INTO ownp SELECT g, 'bob' FROM generate_series(21, 40) g; UPDATE ownp SET who = who; DELETE FROM ownp WHERE id IN (1, 21)");
like(failure("SET ROLE bob; UPDATE ownp SET who = 'ann' WHERE id = 30"), qr/42501: new row violates row-level security policy/, 'row security on UPDATE');
is($c->safe_psql("SELECT who, count(*) FROM ownp GROUP BY 1 ORDER BY 1; SET ROLE ann; SELECT count(*) FROM ownp"), "ann|20\nbob|19\n20", 'row security: each role has its rows');

# --- TRUNCATE, and tables that may not be changed

$c->safe_psql('CREATE TABLE tc (id int)');
$c->shard_table('tc', 'id', shards => 8);
$c->safe_psql('INSERT INTO tc SELECT generate_series(1, 100)');
is($c->safe_psql('BEGIN; TRUNCATE tc; SELECT count(*) FROM tc; ROLLBACK; SELECT count(*) FROM tc'), "0\n100", 'TRUNCATE rolled back');
my @at = map { $c->log_position($_) } 1, 2;
$c->safe_psql('TRUNCATE tc');
is($c->safe_psql('SELECT count(*) FROM tc'), '0', 'TRUNCATE');
is(scalar(() = $c->log_since($at[$_ - 1], $_) =~ /TRUNCATE/g), 1, "one TRUNCATE on node $_") for 1, 2;
my $one = $c->safe_psql("SELECT shardfdw.shard_for('tc'::regclass, 1)");
$c->safe_psql("ALTER FOREIGN TABLE $one OPTIONS (ADD truncatable 'false', ADD updatable 'false')");
like(failure('TRUNCATE tc'), qr/does not allow truncates/, 'truncatable = false');
like(failure('INSERT INTO tc VALUES (1)'), qr/does not allow inserts/, 'updatable = false');

# --- R19: concurrent COPYs

$c->safe_psql('CREATE TABLE many (id bigint, v text)');
$c->shard_table('many', 'id', shards => 7);
my @runs;
for my $k (1 .. 8)
{
	my $file = "$tempdir/many_$k";
	open my $fh, '>', $file or die;
	print $fh "$_\trow $_\n" for ($k - 1) * 20000 + 1 .. $k * 20000;
	close $fh;
	push @runs, $c->start_sql("\\copy many from '$file'");
}
is(($c->wait_sql($_))[0], 0, 'COPY ends') for @runs;
is($c->safe_psql('SELECT count(*), sum(id), count(DISTINCT v) FROM many'), '160000|12800080000|160000', 'R19: all rows are there');
is($c->safe_psql(q{
	SELECT count(*) FROM (SELECT tableoid, id FROM many) m JOIN pg_partition_tree('many') p ON p.relid = m.tableoid
	WHERE shardfdw.shard_for('many'::regclass, m.id) <> m.tableoid::regclass}), '0', 'R19: each on its shard');

# --- R16: a node that stops reading

$c->safe_psql('CREATE TABLE slow (id int, pad text)');
$c->shard_table('slow', 'id', shards => 4);
$c->safe_psql('INSERT INTO slow SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 1000) g');
$c->sigstop_node(2);
my $run = $c->start_sql("SET shardfdw.copy_buffer_size = 1024;\nINSERT INTO slow SELECT g, repeat(md5(g::text), 10) FROM generate_series(1001, 60000) g;");
usleep(2_000_000);
$c->sigcont_node(2);
is(($c->wait_sql($run))[0], 0, 'R16: the INSERT ends after the node has come back');
is($c->safe_psql('SELECT count(*), count(DISTINCT id), sum(length(pad)) FROM slow'), '60000|60000|' . 60000 * 320, 'R16: no row was skipped');

$c->sigstop_node(2);
my $start = time;
my ($rc, $out, $timeout_err) = $c->psql("SET statement_timeout = '1s'; SET shardfdw.copy_buffer_size = 1024;\nINSERT INTO slow SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 60000) g;");
my $elapsed = time - $start;
$c->sigcont_node(2);
like($timeout_err, qr/statement timeout/, 'a stopped node does not keep statement_timeout from working');
cmp_ok($elapsed, '<', 20, 'and the end of the transaction is bounded');
is($c->safe_psql('SELECT count(*) FROM slow'), '60000', 'nothing of it stays');

# --- leftovers

for my $i (1, 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}

done_testing();
