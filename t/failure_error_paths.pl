# Tests what errors leave behind: cursors whose connection is lost (R6), results of statements that
# fail (R7), and one shard of four that fails in the middle of a statement (R36).
#
#   ERROR_STATEMENTS=n   failing statements of each kind in one session (200)
#
# R11 is a checkpoint while a prepared transaction is aborted. t/commit_crash.pl tests R11: it runs
# CHECKPOINT all the time while it kills the servers.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use WireClient;

my $statements = $ENV{ERROR_STATEMENTS} || 200;
my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 1000), w text)});
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{INSERT INTO t SELECT i, i % 100, repeat('x', 200) FROM generate_series(1, 2000) i; ANALYZE t});
$c->node_safe_psql(1, 'CREATE TABLE single (id int PRIMARY KEY, v int CHECK (v < 1000), w text); INSERT INTO single SELECT i, i, repeat(\'x\', 200) FROM generate_series(1, 200) i');
$c->safe_psql('CREATE FOREIGN TABLE single (id int, v int, w text) SERVER node1');

sub status_of
{
	my ($pid, $what) = @_;
	return slurp_file("/proc/$pid/status") =~ /$what:\s+(\d+)/ ? $1 : die "no $what";
}
sub one { my ($client, $sql) = @_; my $r = $client->query($sql); return $r->{error} ? $r->{error}{C} : join ',', map { join '|', @$_ } @{ $r->{rows} }; }

# R6: the connection of an open cursor is lost before, at, or after ROLLBACK TO SAVEPOINT. The
# session must survive. The cursor must raise an error, and every statement that needs the lost
# transaction, too. After that, statements must succeed.
my @settings = ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off', 'shardfdw.max_connections_per_node = 1');
for my $setting (@settings)
{
	for my $case (
		[ 'before ROLLBACK TO', [ 'SAVEPOINT a', 'DECLARE c CURSOR FOR SELECT * FROM t', 'FETCH 2 FROM c', 'KILL', 'ROLLBACK TO a', 'FETCH 2 FROM c', 'ROLLBACK TO a', 'SELECT count(*) FROM t', 'ROLLBACK' ] ],
		[ 'cursor of the outer level', [ 'DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id', 'FETCH 2 FROM c', 'SAVEPOINT a', 'UPDATE t SET v = v + 1 WHERE id = 7', 'KILL', 'ROLLBACK TO a', 'FETCH ALL FROM c', 'ROLLBACK TO a', 'FETCH 2 FROM c', 'ROLLBACK' ] ],
		[ 'after an error', [ 'SAVEPOINT a', 'DECLARE c CURSOR FOR SELECT * FROM t', 'FETCH 2 FROM c', 'SELECT 1 / (v - v) FROM t', 'KILL', 'ROLLBACK TO a', 'SELECT count(*) FROM t', 'ROLLBACK TO a', 'COMMIT' ] ],
		[ 'nested', [ 'SAVEPOINT a', 'DECLARE c CURSOR FOR SELECT * FROM single', 'FETCH 2 FROM c', 'SAVEPOINT b', 'DECLARE d CURSOR FOR SELECT * FROM t', 'FETCH 2 FROM d', 'UPDATE single SET v = 1 WHERE id = 1', 'KILL', 'ROLLBACK TO b', 'RELEASE b', 'ROLLBACK TO a', 'RELEASE a', 'CLOSE c', 'COMMIT' ] ],
		[ 'WITH HOLD', [ 'DECLARE h CURSOR WITH HOLD FOR SELECT * FROM t', 'FETCH 2 FROM h', 'KILL', 'COMMIT', 'FETCH 2 FROM h', 'CLOSE ALL', 'ROLLBACK' ] ])
	{
		my ($name, $steps) = @$case;
		my $client = WireClient->new($c->coordinator, 'postgres');
		my $pid = one($client, 'SELECT pg_backend_pid()');
		my @log;
		one($client, "SET $setting");
		one($client, 'BEGIN');
		for my $step (@$steps)
		{
			if ($step eq 'KILL')
			{
				$c->end_sessions_on;
				next;
			}
			my $answer = eval { one($client, $step) } // "lost: $@";
			push @log, "$step: " . substr($answer, 0, 60);
		}
		one($client, 'ROLLBACK');
		my @bad = grep { /lost:|: XX/ } @log;
		is(join("\n", @bad), '', "R6: $name, $setting");
		is(one($client, 'SELECT count(*), pg_backend_pid() FROM t'), "2000|$pid", 'R6: the same session goes on') || diag join "\n", @log;
		$client->close;
	}
}

# The next socket that is opened gets the number of the lost connection's socket. It may be the
# socket that sends a cancel. A session that waits must then wait for the new socket.
{
	my %seen;
	for (1 .. 20)
	{
		my $client = WireClient->new($c->coordinator, 'postgres');
		one($client, $_) for 'SET shardfdw.enable_shard_scan = off', 'BEGIN', 'DECLARE h CURSOR WITH HOLD FOR SELECT * FROM t', 'FETCH 2 FROM h';
		$c->end_sessions_on;
		$seen{ one($client, 'COMMIT') }++;
		$client->close;
	}
	is(join(',', grep { !/^(|58000)$/ } keys %seen), '', 'numbers of lost sockets are used again');
}

# R7: RETURNING that fails in the middle, again and again: neither memory nor the number of open
# sockets grows. t/failure_leaks.pl does this with all kinds of statements.
my @failing = (
	[ 'direct, RETURNING', 'UPDATE single SET v = v + 100000 RETURNING *' ],
	[ 'direct, RETURNING that fails here', 'UPDATE single SET v = v RETURNING 1 / (id - 100), random()' ],
	[ 'one shard, RETURNING', 'UPDATE t SET v = v + 5000 WHERE id = 17 RETURNING *' ],
	[ 'all shards, RETURNING', 'UPDATE t SET v = v / (id - 1999) RETURNING *' ],
	[ 'DELETE RETURNING that fails here', 'DELETE FROM t WHERE id < 100 RETURNING 1 / (id - 50), random()' ],
	[ 'in a savepoint', 'BEGIN; SAVEPOINT a; UPDATE t SET v = v + 5000 RETURNING *', 'ROLLBACK TO a', 'COMMIT' ]);
for my $kind (@failing)
{
	my ($name, @sql) = @$kind;
	my $client = WireClient->new($c->coordinator, 'postgres');
	my $pid = one($client, 'SELECT pg_backend_pid()');
	my (@kb, @handles, %codes);
	for my $n (1 .. $statements)
	{
		$codes{ one($client, $_) }++ for $sql[0];
		one($client, $_) for @sql[ 1 .. $#sql ];
		if ($n == int($statements / 3) || $n == $statements)
		{
			push @kb, status_of($pid, 'RssAnon');
			push @handles, scalar(() = $c->open_handles($pid));
		}
	}
	ok(join(',', keys %codes) =~ /^(22012|23514|23505)$/, "R7: $name fails as it should") || diag join ', ', %codes;
	cmp_ok($kb[1] - $kb[0], '<', 1024, "R7: $name: memory does not grow (kB: $kb[0], $kb[1])");
	# If a statement fails while its connections are being opened, they end with it. So the number
	# of open handles varies. The smallest leak would be one per statement.
	cmp_ok($handles[1] - $handles[0], '<', $statements / 10, "R7: $name: nor do open sockets and pipes ($handles[0], $handles[1])");
	$client->close;
}
is($c->safe_psql(q{SELECT count(*), sum(v) FROM t}), '2000|99000', 'nothing was written');

# R36: one shard of four fails after the others have been changed. Until the savepoint is rolled
# back, each statement fails. Then the transaction continues as if the statement had not been run.
# At the end the table equals a plain one.
$c->safe_psql(q{CREATE TABLE four (id int PRIMARY KEY, v int, w text); CREATE TABLE four_plain (LIKE four INCLUDING ALL);
	CREATE TABLE source (id int, v int); INSERT INTO source SELECT i, -i FROM generate_series(1001, 1400) i});
$c->shard_table('four', 'id', shards => 4, nodes => [ 'node1', 'node2' ]);
my $refuse = q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF old.id = 390 OR new.id = 1390 THEN RAISE 'refused in the middle' USING ERRCODE = 'P0004'; END IF;
	RETURN coalesce(new, old); END $$;};
my $shard = $c->safe_psql(q{SELECT shardfdw.shard_for('four', 390)});
my $shard_new = $c->safe_psql(q{SELECT shardfdw.shard_for('four', 1390)});
my %node_of = map { @$_ } $c->shards_of('four');
$c->node_safe_psql($_, $refuse) for 1 .. 2;
$c->node_safe_psql($node_of{$shard}, "CREATE TRIGGER refuse_old BEFORE UPDATE OR DELETE ON $shard FOR EACH ROW EXECUTE FUNCTION refuse()");
$c->node_safe_psql($node_of{$shard_new}, "CREATE TRIGGER refuse_new BEFORE INSERT ON $shard_new FOR EACH ROW EXECUTE FUNCTION refuse()");
$c->safe_psql("$refuse CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON four_plain FOR EACH ROW EXECUTE FUNCTION refuse()");
my $data = join '', map { "$_\t0\tx\n" } 1001 .. 1400;
my %half = (
	'UPDATE' => [ 'UPDATE {t} SET v = v + 1', 'UPDATE {t} SET v = v + 1 WHERE id <> 390' ],
	'UPDATE of rows computed here' => [ 'UPDATE {t} SET v = v + (random() * 0)::int + 1', 'UPDATE {t} SET v = v + (random() * 0)::int + 1 WHERE id <> 390' ],
	'UPDATE RETURNING' => [ 'WITH u AS (UPDATE {t} SET v = v + 1 RETURNING v) SELECT count(*), sum(v) FROM u', 'WITH u AS (UPDATE {t} SET v = v + 1 WHERE id <> 390 RETURNING v) SELECT count(*), sum(v) FROM u' ],
	'DELETE' => [ 'DELETE FROM {t} WHERE id > 100', 'DELETE FROM {t} WHERE id > 100 AND id <> 390' ],
	'INSERT ... SELECT' => [ 'INSERT INTO {t} SELECT * FROM source', 'INSERT INTO {t} SELECT * FROM source WHERE id <> 1390' ],
	'upsert' => [ 'INSERT INTO {t} SELECT * FROM source ON CONFLICT (id) DO UPDATE SET v = 0', 'INSERT INTO {t} SELECT * FROM source WHERE id <> 1390 ON CONFLICT (id) DO UPDATE SET v = 0' ],
	'COPY' => [ "COPY {t} FROM STDIN;\n$data\\.\n", "COPY {t} FROM STDIN WHERE id <> 1390;\n$data\\.\n" ]);
my $sums = 'SELECT count(*), sum(v), sum(id) FROM {t}';
for my $setting (@settings, 'shardfdw.enable_statement_push = off')
{
	for my $kind (sort keys %half)
	{
		my ($fails, $works) = map { /\n$/ ? $_ : "$_;\n" } @{ $half{$kind} };
		my $script = "\\set ON_ERROR_STOP 0\n\\set VERBOSITY sqlstate\nSET $setting; SET client_min_messages = error; TRUNCATE {t}; INSERT INTO {t} SELECT i, i, 'w' FROM generate_series(1, 400) i;\n"
		  . "BEGIN; UPDATE {t} SET v = 7 WHERE id = 3; SAVEPOINT a; UPDATE {t} SET v = 8 WHERE id IN (1, 2, 4, 5, 6);\n"
		  . "$fails\\echo :SQLSTATE\n$sums;\n\\echo :SQLSTATE\nROLLBACK TO a;\n$sums;\n"    # refused, and as before
		  . "SAVEPOINT b;\n$fails\\echo :SQLSTATE\nROLLBACK TO b;\n$works\\echo :SQLSTATE\n$sums;\nRELEASE a; COMMIT;\n$sums;\n"
		  . "BEGIN; UPDATE {t} SET v = 9 WHERE id < 100;\n${fails}COMMIT;\n$sums;\n$fails$sums;\n";    # COMMIT is ROLLBACK
		my ($got, $want) = map { my $sql = $script =~ s/\{t\}/$_/gr; ($c->psql($sql, on_error_stop => 0))[1] } 'four', 'four_plain';
		is($got, $want, "R36: $kind, $setting");
		like($want, $kind eq 'COPY' ? qr/25P02/ : qr/P0004.*25P02.*P0004.*00000/s, "R36: $kind fails in the middle") if $setting eq $settings[0];
	}
}
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_prepared_xacts}), '0', "R36: nothing is left prepared on node $_") for 1 .. 2;
done_testing();
