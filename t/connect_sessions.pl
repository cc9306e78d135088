# Tests what one session can do: read its own writes, run many scans on few connections, and nest
# loops and handlers around reads and writes. Also large values, nested savepoints, and nodes that
# end connections. Results must be those of a plain table.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE TABLE t (id int, v int, w text); CREATE TABLE t_plain (id int, v int, w text);
	CREATE TABLE log (id int, what text)});
$c->shard_table('t', 'id', shards => 6);
$c->safe_psql(q{INSERT INTO t SELECT g, g % 100, repeat('x', g % 50) FROM generate_series(1, 8000) g; INSERT INTO t_plain SELECT * FROM t});
my $ncases = 0;
my @modes = ('shardfdw.max_connections_per_node = 1', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off', 'shardfdw.copy_buffer_size = 64');

# A statement that reads the table to which it writes sees the table as it was before.
for my $mode (@modes)
{
	for my $begin ('BEGIN', 'BEGIN; INSERT INTO t VALUES (-1, 0, NULL)', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t WHERE id = -5',
		'BEGIN ISOLATION LEVEL SERIALIZABLE', 'BEGIN; INSERT INTO t VALUES (-1, 0, NULL); SAVEPOINT a')
	{
		next unless ShardCluster::in_half($ncases++);
		my $sql = "SET $mode; $begin; INSERT INTO t SELECT id + 100000, v, w FROM t WHERE id > 0; SELECT count(*), sum(v) FROM t WHERE id > 0;
			DELETE FROM t WHERE id IN (SELECT id + 100000 FROM t WHERE v >= 50); UPDATE t SET v = v + 1000 WHERE id > 100000 AND v < (SELECT avg(v) FROM t);
			SELECT count(*), sum(v) FROM t WHERE id > 0; ROLLBACK; SELECT count(*), sum(v) FROM t";
		(my $plain = $sql) =~ s/\bt\b/t_plain/g;
		is($c->safe_psql($sql), $c->safe_psql($plain), "$begin; ... ($mode)");
	}
}

# Sub-selects that run once per row, while rows are written.
$c->safe_psql('CREATE TABLE h (id int, v int); CREATE TABLE h_plain (id int, v int); CREATE TABLE ids (id int)');
$c->shard_table('h', 'id', shards => 6);
$c->safe_psql('INSERT INTO h SELECT g, g FROM generate_series(1, 100) g; INSERT INTO h_plain SELECT * FROM h; INSERT INTO ids SELECT g FROM generate_series(1, 50) g');
for my $mode (@modes, 'enable_async_append = off')
{
	for my $sql (
		'INSERT INTO {h} SELECT s.id + 1000, (SELECT count(*) FROM {h} WHERE {h}.v >= s.id * 0) FROM ids s',
		'INSERT INTO {h} SELECT s.id + 1000, x.n FROM ids s, LATERAL (SELECT count(*) AS n FROM {h} WHERE {h}.v >= s.id * 0) x',
		'UPDATE {h} SET v = (SELECT count(*) FROM {h} b WHERE b.v < 1000 AND b.id >= {h}.id * 0) + 1000',
		'DELETE FROM {h} WHERE (SELECT count(*) FROM {h} b WHERE b.id >= {h}.id * 0) = 100',
		'WITH i AS (INSERT INTO {h} SELECT id + 2000, 0 FROM ids RETURNING *) INSERT INTO {h} SELECT 0, count(*) FROM {h} b, i WHERE b.v > 0')
	{
		next unless ShardCluster::in_half($ncases++);
		(my $sharded = $sql) =~ s/[{}]//g;
		(my $plain = $sql) =~ s/\{h\}/h_plain/g;
		is($c->safe_psql("SET $mode; BEGIN; $sharded; SELECT count(*), sum(id), sum(v) FROM h; ROLLBACK"),
			$c->safe_psql("BEGIN; $plain; SELECT count(*), sum(id), sum(v) FROM h_plain; ROLLBACK"), "$sharded ($mode)");
	}
}

# More scans run in parallel than there are connections. Some scans are abandoned.
my $union = join ' UNION ALL ', map { "SELECT $_ AS n, id FROM t WHERE v = $_" } 1 .. 60;
for my $mode (@modes)
{
	(my $plain = "SELECT count(*), sum(n), sum(id) FROM ($union) x") =~ s/FROM t /FROM t_plain /g;
	is($c->safe_psql("SET $mode; SELECT count(*), sum(n), sum(id) FROM ($union) x"), $c->safe_psql($plain), "60 scans in a statement ($mode)");
	my $cursors = join ' ', map { "DECLARE c$_ CURSOR FOR SELECT id FROM t ORDER BY id; FETCH $_ FROM c$_;" } 1 .. 20;
	my $rest    = join ' ', map { "MOVE ALL FROM c$_; FETCH PRIOR FROM c$_;" } 1 .. 20;
	my $out = $c->safe_psql("SET $mode; BEGIN; $cursors INSERT INTO t VALUES (30000, 1, ''); CLOSE c3; CLOSE c4; "
		  . join(' ', map { "FETCH 1 FROM c$_;" } 5 .. 20) . ' ROLLBACK;');
	is((split /\n/, $out)[-1], '21', "20 cursors on few connections, rows written between ($mode)");
	is(scalar(split /\n/, $out), 210 + 16, "all their rows ($mode)");
}

# Loops over rows that change other rows; procedures that commit in them; handlers.
$c->safe_psql(q{
CREATE FUNCTION loops() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record; s record; n int := 0; failed int := 0;
BEGIN
	FOR r IN SELECT id, v FROM t WHERE id <= 40 ORDER BY id LOOP
		FOR s IN SELECT id FROM t WHERE v = r.v AND id <= 2000 LOOP
			n := n + 1;
			EXIT WHEN s.id > 1500;
		END LOOP;
		BEGIN
			UPDATE t SET w = 'loop' WHERE id = r.id;
			IF r.id % 4 = 0 THEN
				PERFORM 1 / (v - v) FROM t WHERE id = r.id;
			END IF;
			INSERT INTO t VALUES (r.id + 50000, r.v, 'made');
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
	END LOOP;
	RETURN n || ' ' || failed || ' ' || (SELECT count(*) FROM t WHERE w = 'loop') || ' ' || (SELECT count(*) FROM t WHERE w = 'made');
END $$;
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$
DECLARE
	r record; n int := 0;
BEGIN
	FOR r IN SELECT id FROM t WHERE id <= 300 ORDER BY id LOOP
		UPDATE t SET v = -r.id WHERE id = r.id;
		n := n + 1;
		IF n % 50 = 0 THEN COMMIT; ELSIF n % 77 = 0 THEN ROLLBACK; END IF;
	END LOOP;
END $$});
for my $mode (@modes)
{
	my $out = $c->safe_psql("SET $mode; BEGIN; SELECT loops(); ROLLBACK; SELECT count(*) FROM t WHERE w IN ('loop', 'made')");
	like($out, qr/^\d+ 10 30 30\n0$/, "loops and handlers ($mode)");
	$c->safe_psql("SET $mode; CALL commits()");
	is($c->safe_psql('SELECT count(*), min(id), max(id) FROM t WHERE v < 0'), $c->safe_psql(q{
		SELECT count(*), min(g), max(g) FROM generate_series(1, 300) g
		WHERE g <= 50 OR g BETWEEN 78 AND 150 OR g BETWEEN 155 AND 200 OR g BETWEEN 232 AND 250 OR g BETWEEN 251 AND 300}),
		"a procedure that commits and rolls back in a loop ($mode)");
	$c->safe_psql('UPDATE t SET v = id % 100 WHERE v < 0');
}

# Large values and long statements.
my $mb = 40;
for my $mode (@modes)
{
	is( $c->safe_psql(
			"SET $mode; INSERT INTO t SELECT -g, 1, repeat('0123456789', ${mb}00000 / 10 * g) FROM generate_series(1, 3) g; SELECT id, length(w), md5(w) = md5(repeat('0123456789', ${mb}00000 / 10 * -id)) FROM t WHERE id < 0 ORDER BY id DESC;
			 UPDATE t SET w = w || 'y' WHERE id = -1; SELECT length(w), right(w, 1) FROM t WHERE id = -1; DELETE FROM t WHERE id < 0"),
		"-1|${mb}00000|t\n-2|" . 2 * $mb . "00000|t\n-3|" . 3 * $mb . "00000|t\n${mb}00001|y", "large values ($mode)");
	my $list = join ',', 1 .. 5000;
	is($c->safe_psql("SET $mode; SELECT count(*), sum(v) FROM t WHERE id IN ($list)"), $c->safe_psql("SELECT count(*), sum(v) FROM t_plain WHERE id <= 5000"), "a long list ($mode)");
}

# Savepoints, deep.
my $deep = join ' ', map { "SAVEPOINT s$_; UPDATE t SET v = v + 1 WHERE id = $_; " . ($_ % 3 == 0 ? "ROLLBACK TO s$_;" : $_ % 5 == 0 ? "RELEASE s$_;" : '') } 1 .. 150;
$deep = "BEGIN; $deep SELECT sum(v) FROM t WHERE id <= 150; ROLLBACK TO s101; SELECT sum(v) FROM t WHERE id <= 150; COMMIT; SELECT sum(v) FROM t WHERE id <= 150";
(my $deep_plain = $deep) =~ s/\bt\b/t_plain/g;
is($c->safe_psql($deep), $c->safe_psql($deep_plain), 'deep savepoints');
$c->safe_psql("UPDATE $_ SET v = id % 100 WHERE id <= 150") for 't', 't_plain';

# A node ends the connections of a session. Reads continue over new connections. A transaction that
# has written is lost.
my $kill = 'SELECT count(*) FROM shardfdw.run_on_nodes($$SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = \'client backend\' AND pid <> pg_backend_pid()$$)';
my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
for my $mode (@modes)
{
	$session->query("SET $mode");
	is($session->query('SELECT count(*), sum(v) FROM t'), '8000|396000', "before ($mode)");
	$c->safe_psql($kill);
	is($session->query('SELECT count(*), sum(v) FROM t'), '8000|396000', "connections that a node has ended are replaced ($mode)");
	$session->query('BEGIN');
	$session->query('UPDATE t SET v = v + 1 WHERE id <= 10');
	$c->safe_psql($kill);
	$session->query('UPDATE t SET v = v + 1 WHERE id <= 10');
	$session->query('COMMIT');
	is($session->query('SELECT count(*), sum(v) FROM t'), '8000|396000', "half a transaction is not committed ($mode)");
}
$session->quit;

# Local and sharded tables in one transaction; a local trigger that writes to shards.
$c->safe_psql(q{
CREATE FUNCTION to_shards() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (NEW.id + 70000, 0, NEW.what); RETURN NEW; END $$;
CREATE TRIGGER to_shards AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION to_shards()});
is($c->safe_psql("INSERT INTO log SELECT g, 'log' FROM generate_series(1, 30) g; SELECT count(*) FROM t WHERE w = 'log'"), '30', 'a trigger of a local table writes to shards');
my ($rc) = $c->psql("INSERT INTO log SELECT g, CASE WHEN g = 30 THEN (1 / (g - 30))::text ELSE 'bad' END FROM generate_series(1, 31) g");
isnt($rc, 0, 'it fails in the middle');
is($c->safe_psql("SELECT count(*) FROM t WHERE w = 'bad'"), '0', 'and nothing stays');
$c->psql_fails_like("BEGIN; UPDATE t SET v = v WHERE id = 1; PREPARE TRANSACTION 'x';", qr/0A000|cannot PREPARE|cannot prepare/i, 'PREPARE TRANSACTION is refused');

for my $i (1 .. 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}
done_testing();
