# Tests what postgres_fdw and libpq have got wrong over the years, or still do. Covers batches near
# the limit of parameters, cursors over lost connections, and memory of statements that fail. Also
# covers rows that their ctid does not identify, and long messages and literals.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);

# --- R5: rows times columns around 65,535 parameters, and triggers that read pending rows

my @columns = map { "c$_" } 1 .. 120;
$c->safe_psql('CREATE TABLE wide (' . join(', ', map { "$_ int" } @columns) . ')');
$c->shard_table('wide', 'c1', shards => 3);
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (ADD batch_size '10000'); ALTER SERVER node2 OPTIONS (ADD batch_size '10000')});
my $list = join ', ', map { "g + $_" } 1 .. 120;
for my $nrows (545, 546, 547, 1093, 3000)
{
	my $sum = 120 * $nrows * ($nrows + 1) / 2 + $nrows * 120 * 121 / 2;
	my $all = join ' + ', @columns;

	for my $returning ('', ' RETURNING c120')
	{
		$c->safe_psql("TRUNCATE wide; INSERT INTO wide SELECT $list FROM generate_series(1, $nrows) g$returning");
		is($c->safe_psql("SELECT count(*), sum($all) FROM wide"), "$nrows|$sum", "R5: $nrows rows of 120 columns$returning");
	}
}
$c->safe_psql(q{
CREATE TABLE seen (id int, n bigint);
CREATE TABLE plain (id int, n bigint);
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', TG_ARGV[0]) INTO NEW.n;
	RETURN NEW;
END $$;
});
$c->shard_table('seen', 'id', shards => 3);
$c->safe_psql(qq{
CREATE TRIGGER b BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION counts('seen');
CREATE TRIGGER b BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION counts('plain');
INSERT INTO seen SELECT g FROM generate_series(1, 60) g;
INSERT INTO plain SELECT g FROM generate_series(1, 60) g;
});
is($c->safe_psql('SELECT count(*), sum(seen.n) FROM seen JOIN plain USING (id, n)'), '60|' . 59 * 60 / 2, 'R5: triggers see the rows that are still on their way');

# --- R6: a cursor over a connection that is lost while a savepoint is rolled back

$c->safe_psql('CREATE TABLE t (id int, v int, s text)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT g, g, repeat(md5(g::text), 20) FROM generate_series(1, 40000) g');
for my $mode ('SET shardfdw.enable_shard_scan = on', 'SET shardfdw.enable_shard_scan = off', 'SET shardfdw.enable_copy_fetch = off',
	'SET shardfdw.max_connections_per_node = 1')
{
	# psql reads the file unchanged; a statement of the session itself kills the connections
	my ($rc, $out, $err) = $c->psql(<<"END", on_error_stop => 0);
$mode;
SELECT 'pid ' || pg_backend_pid();
BEGIN;
DECLARE before CURSOR FOR SELECT id FROM t;
FETCH 2 FROM before;
SAVEPOINT s;
UPDATE t SET v = 0 WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8);
DECLARE inside CURSOR FOR SELECT id FROM t;
FETCH 2 FROM inside;
SELECT 'killed ' || count(result) FROM (SELECT result FROM shardfdw.run_on_nodes(
	\$\$SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()\$\$, in_transaction => false)) x;
ROLLBACK TO s;
FETCH ALL FROM before;
ROLLBACK;
SELECT 'pid ' || pg_backend_pid();
SELECT 'rows ' || count(*) || ' ' || sum((v = 0)::int) FROM t;
END
	my @pids = $out =~ /^pid (\d+)$/mg;

	is(scalar(@pids), 2, "R6: the session is alive: $mode") || diag("$out\n$err");
	is($pids[0], $pids[1], "R6: the same process: $mode");
	like($out, qr/^killed 2$/m, "R6: connections were killed: $mode");
	like($out, qr/^rows 40000 0$/m, "R6: nothing has changed: $mode");

	# rows on their way were lost, or had arrived completely before
	my $nfetched = () = $out =~ /^\d+$/mg;
	ok($err =~ /ERROR/ || $nfetched == 4 + 39998, "R6: the cursor says so, or has all rows: $mode") || diag($nfetched);
}

# --- R7: memory of UPDATE ... RETURNING that fails on the node

$c->safe_psql(q{
CREATE PROCEDURE fail(statement text, times int) LANGUAGE plpgsql AS $$
DECLARE
	failed int := 0;
BEGIN
	FOR i IN 1 .. times LOOP
		BEGIN
			EXECUTE statement;
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
		IF i % 100 = 0 THEN COMMIT; END IF;
	END LOOP;
	IF failed <> times THEN RAISE 'failed % times', failed; END IF;
END $$;
});

$c->safe_psql('CREATE TABLE small (id int PRIMARY KEY, v int)');
$c->shard_table('small', 'id', shards => 3);
$c->safe_psql('INSERT INTO small SELECT g, g FROM generate_series(1, 50) g');

sub rss_kb
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /RssAnon:\s+(\d+)/ ? $1 : die 'no RssAnon';
}

my %failing = (
	'on one shard' => 'UPDATE small SET v = 1 / (id - 5) WHERE id = 5 RETURNING *',
	'on all shards' => 'UPDATE small SET v = 1 / (id - 5) WHERE id < 9 RETURNING *',
	'row by row' => 'UPDATE small SET v = 1 / (id - 5) WHERE id < 9 AND random() < 2 RETURNING *');
for my $name (sort keys %failing)
{
	my $session = $c->coordinator->background_psql('postgres');
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $times = $name eq 'on one shard' ? 5000 : 1500;

	$session->query_safe("CALL fail('$failing{$name}', 300)");
	my $start = rss_kb($pid);
	$session->query_safe("CALL fail('$failing{$name}', $times)");
	cmp_ok(rss_kb($pid) - $start, '<', 2048, "R7: memory after $times failures $name");
	$session->quit;
}

# --- R13: a ctid of the node has no meaning if a shard is partitioned or has children there

$c->safe_psql('CREATE TABLE family (id int, v int)');
$c->shard_table('family', 'id', shards => 2);
my ($shard, $node) = split /\|/, $c->safe_psql("SELECT shard, substr(node::text, 5) FROM shardfdw.shards WHERE shard = shardfdw.shard_for('family', 1)");
$c->safe_psql('INSERT INTO family VALUES (1, 1)');
$c->node_safe_psql($node, "CREATE TABLE child () INHERITS ($shard); INSERT INTO child VALUES (1, 10)");
is($c->node_safe_psql($node, "SELECT count(DISTINCT ctid) FROM $shard"), '1', 'R13: two rows with the same ctid');
$c->psql_fails_like('UPDATE family SET v = 5 WHERE v = 10 AND random() < 2', qr/child table public.child/, 'R13: UPDATE row by row is refused');
$c->psql_fails_like('DELETE FROM family WHERE v = 10 AND random() < 2', qr/child table public.child/, 'R13: DELETE row by row is refused');
is($c->safe_psql('SELECT id, v FROM family ORDER BY v'), "1|1\n1|10", 'R13: the rows are as they were');
$c->safe_psql('UPDATE family SET v = 11 WHERE v = 10');
is($c->safe_psql('SELECT id, v FROM family ORDER BY v'), "1|1\n1|11", 'R13: as a whole it is exact');
$c->safe_psql('UPDATE family SET v = 12 WHERE id = 1 AND v = 11');
is($c->safe_psql('SELECT id, v FROM family ORDER BY v'), "1|1\n1|12", 'R13: on one shard as well');

# --- R15: descriptions of more than 30,000 bytes, more values than a message takes, long literals

my $n = 8000;
my $types = join ',', ('int') x $n;
my $params = join ',', map { "\$$_" } 1 .. $n;
my $values = join ',', 1 .. $n;
for my $mode ('force_generic_plan', 'force_custom_plan')
{
	is( $c->safe_psql(
			"SET plan_cache_mode = $mode; PREPARE many($types) AS SELECT count(*) FROM t WHERE id IN ($params);"
			. "PREPARE one($types) AS SELECT count(*) FROM t WHERE id = 5 AND id + length(s) - length(s) IN ($params);"
			. "EXECUTE many($values);" x 7 . "EXECUTE one($values);" x 7),
		join("\n", (8000) x 7, (1) x 7),
		"R15: $n parameters, $mode");
}
$c->safe_psql('CREATE TABLE m (id int, r double precision, n int)');
$c->shard_table('m', 'id', shards => 3);
my $rows = join ',', map { "(7, random(), $_)" } 1 .. 30000;
$c->safe_psql("INSERT INTO m VALUES $rows");
is($c->safe_psql('SELECT count(*), count(DISTINCT n), count(DISTINCT r) > 29000 FROM m'), '30000|30000|t', 'R15: 90,000 values for one shard');
$c->safe_psql('CREATE TABLE lit (id int PRIMARY KEY, s text)');
$c->shard_table('lit', 'id', shards => 2);
my $text = q{a\\'b"c\\\\} . "\n\t" . q{$1 -- /* };
(my $quoted = $text) =~ s/([\\'])/$1$1/g;
for my $times (1, 1000, 100_000)
{
	my $literal = "E'" . $quoted x $times . "'";

	$c->safe_psql("DELETE FROM lit; INSERT INTO lit VALUES (1, $literal), (2, ''), (3, 'x'); UPDATE lit SET s = $literal WHERE id = 2; UPDATE lit SET s = $literal WHERE s = 'x'");
	is( $c->safe_psql("SELECT count(*) FROM lit WHERE s = $literal") . '|' . $c->safe_psql("SELECT count(*) FROM lit WHERE id = 2 AND s = $literal AND md5(s) = md5($literal)"),
		'3|1', "R15: a literal of $times times " . length($text) . ' bytes');
}

# --- a statement whose functions or triggers write to the table that it changes

sub make_ring
{
	my ($name, $shards) = @_;
	$c->safe_psql(qq{
		CREATE TABLE $name (k int PRIMARY KEY, a int);
		CREATE TABLE ${name}_log (k int PRIMARY KEY, a int);
		INSERT INTO $name SELECT g, 0 FROM generate_series(1, 16) AS g;
		INSERT INTO ${name}_log SELECT g, 0 FROM generate_series(1, 16) AS g;
		CREATE FUNCTION next_of_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN UPDATE $name SET a = a + 1 WHERE k = \$1 % 16 + 1; RETURN 1; END';
		CREATE FUNCTION new_of_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN INSERT INTO $name VALUES (\$1 + 100, 1); RETURN 1; END';
		CREATE FUNCTION own_of_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN UPDATE $name SET a = a + 1 WHERE k = \$1; RETURN 1; END';
		CREATE FUNCTION all_of_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN UPDATE $name SET a = a + 1; RETURN 1; END';
		CREATE FUNCTION none_of_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN UPDATE $name SET a = a + 1 WHERE k = -\$1; RETURN 1; END';
		CREATE FUNCTION locks_and_logs_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN PERFORM 1 FROM $name WHERE k = \$1 FOR UPDATE;
				UPDATE ${name}_log SET a = a + 1 WHERE k = \$1; RETURN 1; END';
		CREATE FUNCTION undoes_and_logs_$name(int) RETURNS int LANGUAGE plpgsql AS
			'BEGIN BEGIN UPDATE $name SET a = a + 1 WHERE k = \$1 % 16 + 1; RAISE EXCEPTION ''x'';
				EXCEPTION WHEN raise_exception THEN NULL; END;
				UPDATE ${name}_log SET a = a + 1 WHERE k = \$1; RETURN 1; END';
	});
	return if !$shards;
	$c->shard_table($name, 'k', shards => $shards);
	$c->safe_psql("SELECT shardfdw.shard_table('${name}_log', 'k', colocate_with => '$name')");
	return;
}

# Returns the result of a statement on ring NAME, and the rows that it leaves; or its SQLSTATE.
sub on_ring
{
	my ($name, $sql) = @_;
	my $left = "SELECT (SELECT sum(k * (a + 1)) FROM $name), (SELECT sum(k * (a + 1)) FROM ${name}_log)";
	my ($rc, $out, $err) = $c->psql(
		"\\set VERBOSITY sqlstate\nBEGIN; " . ($sql =~ s/RING/$name/gr) . "; $left; ROLLBACK");
	return $rc == 0 ? $out : $err =~ /ERROR:\s+(\w{5})/ ? $1 : $err;
}

make_ring('ring_plain', 0);
make_ring("ring_$_", $_) for 1, 4, 16;
for my $statement (
	'UPDATE RING SET a = a + next_of_RING(k)',
	'UPDATE RING SET a = a + 1 WHERE next_of_RING(k) = 1',
	'UPDATE RING SET a = a + 1 RETURNING next_of_RING(k)',
	'DELETE FROM RING WHERE next_of_RING(k) = 1',
	'UPDATE RING AS r SET a = r.a + o.a + 1 FROM RING AS o WHERE o.k = r.k AND next_of_RING(r.k) = 1',
	'WITH w AS (UPDATE RING SET a = a + next_of_RING(k) RETURNING a) SELECT count(*) FROM w')
{
	is(on_ring('ring_plain', $statement), '27000', "ring: $statement: a plain table refuses it");
	is(on_ring("ring_$_", $statement), '27000', "ring: ... and $_ shards") for 1, 4, 16;
}
# Other sessions may change rows that are locked FOR KEY SHARE. A correlated sub-select reads rows
# after the function has made some.
for my $statement (
	'SELECT count(*) FROM (SELECT k, a, own_of_RING(k) FROM RING FOR KEY SHARE) AS s',
	'UPDATE RING AS r SET a = new_of_RING(k) WHERE k IN
		(SELECT k FROM RING AS j WHERE j.k = r.k FOR UPDATE)')
{
	my $plain = on_ring('ring_plain', $statement);
	like(on_ring("ring_$_", $statement), qr/^(?:\Q$plain\E|0A000)$/, "ring: $statement, $_ shards")
		for 1, 4, 16;
}
# SELECT ... FOR UPDATE leaves out rows that its functions change, and does not see those that they
# insert. So do sub-selects that lock rows. None of these results depends on the order of the rows.
my $count = 'SELECT count(*), count(DISTINCT k), sum(a) FROM';
my $nrings = 0;
my $written = 'WITH w AS (%s RETURNING k) SELECT count(*) FROM w; DELETE FROM RING';
for my $statement (
	"$count (SELECT k, a, new_of_RING(k) FROM RING FOR UPDATE) AS s",
	"$count (SELECT k, a, new_of_RING(k) FROM RING ORDER BY k FOR UPDATE) AS s",
	"$count (SELECT k, a, new_of_RING(k) FROM RING ORDER BY k LIMIT 9 FOR UPDATE SKIP LOCKED) AS s",
	"$count (SELECT k, a FROM RING WHERE new_of_RING(k) = 1 FOR NO KEY UPDATE) AS s",
	"$count (SELECT r.k, l.a, new_of_RING(r.k)
		FROM RING AS r JOIN RING_log AS l USING (k) FOR UPDATE OF r) AS s",
	"$count (SELECT k, a, own_of_RING(k) FROM RING FOR UPDATE) AS s",
	"$count (SELECT k, a, own_of_RING(k % 4 + 1) FROM RING WHERE k > 4 FOR UPDATE) AS s",
	"$count (SELECT k, a, all_of_RING(k) FROM RING FOR SHARE) AS s",
	"$count (SELECT k, a, undoes_and_logs_RING(k) FROM RING FOR UPDATE) AS s",
	'SELECT k, own_of_RING(k) FROM RING WHERE k = 3 FOR UPDATE',
	'SELECT k, own_of_RING(4) FROM RING WHERE k = 3 FOR UPDATE',
	"DECLARE c CURSOR FOR $count (SELECT k, a, new_of_RING(k) FROM RING FOR UPDATE) AS s; FETCH c",
	'UPDATE RING SET a = 1 WHERE k NOT IN (SELECT k FROM RING WHERE k < 9 FOR UPDATE)',
	'UPDATE RING SET a = 1 WHERE k NOT IN
		(SELECT k FROM RING ORDER BY k LIMIT 9 FOR UPDATE SKIP LOCKED)',
	'DELETE FROM RING WHERE k > 14 OR k IN (SELECT k FROM RING WHERE k < 9 FOR UPDATE)',
	'UPDATE RING AS r SET a = 1 WHERE k IN
		(SELECT k FROM RING AS j WHERE j.k = r.k AND k < 9 FOR UPDATE)',
	'UPDATE RING AS r SET a = (SELECT j.k FROM RING AS j WHERE j.k = r.k FOR SHARE)',
	'INSERT INTO RING SELECT k + 200,
		(SELECT count(*) FROM (SELECT FROM RING AS j WHERE j.k > r.k FOR UPDATE) AS s) FROM RING AS r',
	'INSERT INTO RING SELECT k + 200, a FROM RING FOR UPDATE',
	'INSERT INTO RING SELECT k + 200, none_of_RING(k) FROM RING FOR UPDATE',
	'INSERT INTO RING SELECT k + 200, new_of_RING(k) FROM RING FOR UPDATE',
	'UPDATE RING SET a = a + new_of_RING(k)',
	'UPDATE RING AS r SET a = r.a + o.a + new_of_RING(r.k) FROM RING AS o WHERE o.k = r.k',
	'UPDATE RING SET a = 1 RETURNING new_of_RING(k)',
	'DELETE FROM RING WHERE new_of_RING(k) = 1',
	# the first row matches another one, the last one matches only rows that the statement has
	# changed
	map { sprintf $written, $_ } (
		'DELETE FROM RING AS r WHERE EXISTS
			(SELECT FROM RING AS j WHERE j.a = r.a AND j.k <> r.k FOR UPDATE)',
		'UPDATE RING AS r SET a = 1 WHERE EXISTS
			(SELECT FROM RING AS j WHERE j.k <> r.k FOR UPDATE)',
		'UPDATE RING AS r SET a = 1 WHERE EXISTS
			(SELECT FROM RING AS j WHERE j.k <> r.k LIMIT 1 FOR UPDATE SKIP LOCKED)'))
{
	for my $before ('', 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ',
		'INSERT INTO RING_log VALUES (99, 1); ', 'SAVEPOINT s; ')
	{
		next unless ShardCluster::in_half($nrings++);
		my $plain = on_ring('ring_plain', $before . $statement);
		is(on_ring("ring_$_", $before . $statement), $plain, "ring: $before$statement, $_ shards")
			for 1, 4, 16;
	}
	next unless ShardCluster::in_half($nrings++);
	# Nodes do not tell what the statement has written from what the transaction wrote before.
	my $before = 'UPDATE RING SET a = 0 WHERE k % 3 = 0; ';
	my $plain = on_ring('ring_plain', $before . $statement);
	like(on_ring("ring_$_", $before . $statement), qr/^(?:\Q$plain\E|0A000)$/,
		"ring: $before$statement, $_ shards")
		for 1, 4, 16;
}
# Writes to other tables, writes that are rolled back, and writes without rows do not matter.
for my $statement (
	map { ("UPDATE RING SET a = a + ${_}_RING(k)", "DELETE FROM RING WHERE k > 3 AND ${_}_RING(k) = 1",
		"WITH d AS (DELETE FROM RING RETURNING k) SELECT sum(${_}_RING(k)) FROM d") }
	qw(none_of locks_and_logs undoes_and_logs))
{
	my $plain = on_ring('ring_plain', $statement);
	is(on_ring("ring_$_", $statement), $plain, "ring: $statement, $_ shards") for 1, 4, 16;
}
# A BEFORE trigger that writes to a colocated table, and a loop over locked rows that changes them.
for my $name (qw(ring_plain ring_1 ring_4 ring_16))
{
	$c->safe_psql(qq{
		CREATE FUNCTION logs_$name() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN UPDATE ${name}_log SET a = a + NEW.k WHERE k = NEW.k; RETURN NEW; END';
		CREATE TRIGGER b BEFORE UPDATE ON $name FOR EACH ROW EXECUTE FUNCTION logs_$name();
	});
	is(on_ring($name, 'UPDATE RING SET a = a + 1'), on_ring('ring_plain', 'UPDATE RING SET a = a + 1'),
		"ring: a BEFORE trigger that writes to a colocated table, $name");
	my $loop = 'DO $x$ DECLARE r record; BEGIN FOR r IN SELECT * FROM RING FOR UPDATE LOOP '
		. 'UPDATE RING SET a = r.a + 1 WHERE k = r.k; END LOOP; END $x$';
	is(on_ring($name, $loop), on_ring('ring_plain', $loop), "ring: a loop over locked rows, $name");
}

# A BEFORE trigger that inserts rows into the table.
for my $name (qw(ring_plain ring_1 ring_4 ring_16))
{
	$c->safe_psql(qq{
		CREATE FUNCTION news_of_$name() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO $name VALUES (NEW.k + 100, 1); RETURN NEW; END';
		CREATE TRIGGER b2 BEFORE UPDATE ON $name FOR EACH ROW EXECUTE FUNCTION news_of_$name();
	});
	for my $statement ('UPDATE RING SET a = a + 1 WHERE k < 17',
		'SET LOCAL enable_async_append = off; UPDATE RING SET a = a + 1 WHERE k < 17')
	{
		is(on_ring($name, $statement), on_ring('ring_plain', $statement),
			"ring: a BEFORE trigger that inserts rows, $statement, $name");
	}
}

# --- blocks that write: the session's records about them do not grow

my ($blocks_rc, $blocks_out, $blocks_err) = $c->psql(q{
	CREATE FUNCTION kept_bytes() RETURNS bigint LANGUAGE sql AS $$
		SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts
		WHERE name = 'TopTransactionContext' $$;
	DO $$ DECLARE before bigint; BEGIN
		INSERT INTO ring_4 VALUES (1000, 0);
		before := kept_bytes();
		FOR i IN 1001 .. 3000 LOOP
			BEGIN INSERT INTO ring_4 VALUES (i, 0); EXCEPTION WHEN unique_violation THEN NULL; END;
		END LOOP;
		IF kept_bytes() - before > 32768 THEN RAISE '% bytes', kept_bytes() - before; END IF;
	END $$;
	DELETE FROM ring_4 WHERE k >= 1000});
is($blocks_err, '', '2,000 blocks with EXCEPTION that write to a node need no memory');

# --- WHERE CURRENT OF

$c->psql_fails_like('BEGIN; DECLARE cur CURSOR FOR SELECT * FROM t WHERE id = 1 FOR UPDATE; FETCH cur; UPDATE t SET v = 7 WHERE CURRENT OF cur',
	qr/0A000: /, 'WHERE CURRENT OF is refused');
is($c->safe_psql('SELECT count(*) FROM t WHERE v = 7'), '1', 'and has changed nothing');

done_testing();
