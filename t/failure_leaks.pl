# One session runs every kind of statement again and again, including statements that fail. Memory,
# file descriptors and connections must not grow.
#
# STATEMENTS is the number of statements of each kind (300 by default). Slow kinds run only a part
# of them, unless LEAKS_WEIGHTS is 0. A quarter of the statements runs before the first measurement.
# LEAKS_ONLY selects kinds by name.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $statements = $ENV{STATEMENTS} // 300;
my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL CHECK (v < 1000000), w text);
	CREATE TABLE r (id int PRIMARY KEY, v int)});
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{SELECT shardfdw.create_reference_table('r'); INSERT INTO r SELECT g, g FROM generate_series(1, 20) g});
$c->safe_psql(q{INSERT INTO t SELECT g, g, 'row ' || g FROM generate_series(1, 100) g});

# {n} is the number of the turn. state: the SQLSTATE that it fails with.
my @kinds = (
	{ name => 'SELECT of one row',    sql => 'SELECT * FROM t WHERE id = {n} % 100' },
	{ name => 'SELECT of all shards', sql => 'SELECT id, w FROM t WHERE v > 50', weight => 4 },
	{ name => 'SELECT, groups',       sql => 'SELECT v % 3, count(*), avg(v) FROM t GROUP BY 1', weight => 4 },
	{ name => 'SELECT, core plans',   sql => 'SET LOCAL shardfdw.enable_shard_scan = off; SELECT count(*) FROM t', weight => 4 },
	{ name => 'SELECT, extended',     sql => 'SET LOCAL shardfdw.enable_copy_fetch = off; SELECT id FROM t', weight => 4 },
	{ name => 'SELECT, join',         sql => 'SELECT count(*) FROM t JOIN r ON r.id = t.v', weight => 4 },
	{ name => 'SELECT, LIMIT',        sql => 'SELECT * FROM t LIMIT 1', weight => 4 },
	{ name => 'SELECT, nested',       sql => 'SELECT count(*) FROM r, LATERAL (SELECT * FROM t WHERE t.v = r.id AND t.w <> r.v::text OFFSET 0) x WHERE r.id < 4', weight => 8 },
	{ name => 'EXECUTE',              before => 'PREPARE p AS SELECT v FROM t WHERE id = $1', sql => 'EXECUTE p({n} % 100)' },
	{ name => 'cursor',               sql => 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 3 FROM c; CLOSE c; COMMIT', weight => 6 },
	{ name => 'INSERT, UPDATE, DELETE of one row', sql => "INSERT INTO t VALUES (1000, {n} % 1000, 'x'); UPDATE t SET v = v + 1 WHERE id = 1000; DELETE FROM t WHERE id = 1000", weight => 4 },
	{ name => 'INSERT RETURNING',     sql => 'BEGIN; INSERT INTO t VALUES (1000, 1) RETURNING *; ROLLBACK', weight => 2 },
	{ name => 'INSERT of rows',       sql => 'BEGIN; INSERT INTO t SELECT g, 1 FROM generate_series(1001, 1030) g; ROLLBACK', weight => 6 },
	{ name => 'INSERT ON CONFLICT',   sql => 'INSERT INTO t VALUES (1, 1), (2, 2), (3, 3) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v', weight => 6 },
	{ name => 'INSERT ON CONFLICT, row by row', sql => 'INSERT INTO t VALUES (1, 1), (2, 2), ({n} % 50 + 3, 3) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v + (random() * 0)::int WHERE EXCLUDED.v < 3 OR t.id > 2', weight => 8 },
	{ name => 'UPDATE of all shards', sql => 'UPDATE t SET v = v WHERE v < 10', weight => 6 },
	{ name => 'UPDATE row by row',    sql => 'UPDATE t SET v = v WHERE v + random() < 5 RETURNING id', weight => 6 },
	{ name => 'UPDATE of the key',    sql => 'BEGIN; UPDATE t SET id = id + 1000 WHERE id = 7; ROLLBACK', weight => 6 },
	{ name => 'MERGE',                sql => 'MERGE INTO t USING r ON t.id = r.id WHEN MATCHED THEN UPDATE SET w = t.w', weight => 6 },
	{ name => 'two-phase commit',     sql => 'UPDATE t SET v = v WHERE id < 5', weight => 6 },
	{ name => 'savepoints',           sql => 'BEGIN; SAVEPOINT a; UPDATE t SET v = 1 WHERE id = 1; ROLLBACK TO a; RELEASE a; COMMIT', weight => 4 },
	{ name => 'COPY FROM',            sql => 'BEGIN; COPY t FROM STDIN; ROLLBACK', data => [ map { "$_\t1\tx\n" } 2000 .. 2020 ], weight => 6 },
	{ name => 'COPY TO',              sql => 'COPY t TO STDOUT', weight => 4 },
	{ name => 'COPY of a query',      sql => 'COPY (SELECT w, id FROM t WHERE v > 50) TO STDOUT', weight => 4 },
	{ name => 'DO block with exceptions', sql => q{DO $$ BEGIN INSERT INTO t VALUES (1, 1); EXCEPTION WHEN unique_violation THEN PERFORM 1; END $$}, weight => 4 },
	{ name => 'TRUNCATE',             sql => 'BEGIN; TRUNCATE t; ROLLBACK', weight => 8 },
	{ name => 'DDL',                  sql => 'BEGIN; ALTER TABLE t ADD COLUMN x int; ROLLBACK', weight => 30 },
	{ name => 'ANALYZE',              sql => 'ANALYZE t', weight => 30 },
	{ name => 'EXPLAIN ANALYZE',      sql => 'EXPLAIN (ANALYZE, VERBOSE) SELECT count(*) FROM t', weight => 6 },
	{ name => 'reference table',      sql => 'UPDATE r SET v = v WHERE id < 3', weight => 6 },
	{ name => 'REPEATABLE READ',      sql => 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT sum(v) FROM t; COMMIT', weight => 6 },
	{ name => 'one snapshot of all nodes', sql => q{SET LOCAL shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t}, weight => 8 },
	{ name => 'run_on_nodes',         sql => q{SELECT * FROM shardfdw.run_on_nodes('SELECT 1')}, weight => 30 },
	{ name => 'views',                sql => 'SELECT count(*) FROM shardfdw.connections; SELECT count(*) FROM shardfdw_internal.shard_sizes()', weight => 4 },
	{ name => 'recover',              sql => 'SELECT * FROM shardfdw.recover_prepared_transactions()', weight => 8 },
	{ name => 'error: unique',        sql => 'INSERT INTO t VALUES (1, 1)', state => '23505', weight => 2 },
	{ name => 'error: check, rows',   sql => 'INSERT INTO t SELECT g, 2000000 FROM generate_series(3000, 3010) g', state => '23514', weight => 6 },
	{ name => 'error: node computes', sql => 'SELECT 1 / (v - 90) FROM t', state => '22012', weight => 6 },
	{ name => 'error: here',          sql => 'SELECT 1 / (random() * 0)::int FROM t', state => '22012', weight => 6 },
	{ name => 'error: UPDATE RETURNING', sql => 'UPDATE t SET v = 2000000 WHERE id < 9 RETURNING id', state => '23514', weight => 6 },
	{ name => 'error: row by row RETURNING', sql => 'UPDATE t SET v = 2000000 + (random() * 2)::int WHERE id < 9 RETURNING id', state => '23514', weight => 6 },
	{ name => 'error: COPY, node',    sql => 'COPY t FROM STDIN', data => [ map { "$_\t2000000\tx\n" } 2000 .. 2020 ], state => '23514', weight => 6 },
	{ name => 'error: COPY, key',     sql => 'COPY t FROM STDIN', data => ["x\t1\tx\n"], state => '22P02', weight => 6 },
	{ name => 'error: COPY TO',       sql => 'COPY (SELECT 1 / (v - 90) FROM t) TO STDOUT', state => '22012', weight => 6 },
	{ name => 'error: COPY of a query', sql => 'COPY (SELECT id FROM t WHERE 1 / (v - 90) < 2) TO STDOUT', state => '22012', weight => 6 },
	{ name => 'error: DDL',           sql => 'ALTER TABLE t ADD CHECK (v < 10)', state => '23514', weight => 30 },
	{ name => 'error: cursor left open', sql => 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 3 FROM c; SELECT 1 / 0; ROLLBACK', state => '22012', weight => 6 },
	{ name => 'error: no such node column', sql => 'SELECT * FROM shardfdw.run_on_nodes(\'SELECT nothing\')', weight => 30 },
	{ name => 'cancel',               sql => q{SET LOCAL statement_timeout = '5ms'; SELECT count(*) FROM t, pg_sleep(v / 10.0)}, state => '57014', weight => 40 },
	{ name => 'lost connection',      sql => 'SELECT count(*) FROM t', lose => 1, weight => 40 });

my $client = WireClient->new($c->coordinator, 'postgres');
my $pid = $client->query('SELECT pg_backend_pid()')->{rows}[0][0];
# the coordinator's sessions on a node; they are counted over direct connections to the nodes
my $served = "pg_stat_activity WHERE application_name LIKE 'shardfdw:%'";
my @direct = map { WireClient->new($c->node($_), 'postgres', application_name => 'direct') } 1 .. 2;

sub usage
{
	my $memory = $client->query(q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name !~ '^(Portal|Message|ExprContext|ExecutorState|printtup)'})->{rows}[0][0];
	my $rss = slurp_file("/proc/$pid/status") =~ /VmRSS:\s+(\d+)/ ? $1 : die 'no VmRSS';
	my $anon = slurp_file("/proc/$pid/status") =~ /RssAnon:\s+(\d+)/ ? $1 : die 'no RssAnon';
	my @handles = $c->open_handles($pid);
	my $connections = 0;
	$connections += $_->query("SELECT count(*) FROM $served")->{rows}[0][0] for @direct;
	return { memory => $memory, anon => $anon, rss => $rss, handles => scalar @handles, connections => $connections };
}

sub run
{
	my ($kind, $from, $to) = @_;
	my %states;

	for my $n ($from .. $to)
	{
		(my $sql = $kind->{sql}) =~ s/\{n\}/$n/g;
		if ($kind->{lose})
		{
			my $node = $direct[ $n % 2 ];
			$node->query("SELECT pg_terminate_backend(pid) FROM $served");
			# the function's own wait checks only ten times a second
			1 while $node->query("SELECT count(*) FROM $served")->{rows}[0][0] > 0;
		}
		my $result = $client->query($sql, @{ $kind->{data} // [] });
		$states{ $result->{error} ? "$result->{error}{C} $result->{error}{M}" : 'done' }++;
		$client->query('ROLLBACK') if $client->{status} ne 'I';
	}
	return \%states;
}

my $all_start = usage();
for my $kind (@kinds)
{
	next if $ENV{LEAKS_ONLY} && $kind->{name} !~ /$ENV{LEAKS_ONLY}/;
	my $n = int($statements / ($ENV{LEAKS_WEIGHTS} // 1 ? $kind->{weight} // 1 : 1));
	$n = 12 if $n < 12;
	my $warm = int $n / 4;
	my $start = time;

	$client->query($kind->{before}) if $kind->{before};
	my $states = run($kind, 1, $warm);
	my $before = usage();
	$states = run($kind, $warm + 1, $n);
	my $after = usage();
	my %grown = map { $_ => $after->{$_} - $before->{$_} } keys %$after;
	note sprintf '%-34s %7d in %4d s: contexts %+d B, anonymous memory %+d kB, handles %+d, connections %+d',
	  $kind->{name}, $n, time - $start, @grown{qw(memory anon handles connections)};
	my @wrong = grep { $kind->{state} ? !/^$kind->{state}/ : $_ ne 'done' } keys %$states;
	is(join(', ', @wrong), '', "$kind->{name}: ends as it should") unless $kind->{lose};
	# caches may still grow a little, in steps; a leak grows with every statement
	cmp_ok($grown{memory}, '<', 100_000 + 20 * ($n - $warm) / 10, "$kind->{name}: memory contexts");
	cmp_ok($grown{anon}, '<', 2000 + ($n - $warm) / 50, "$kind->{name}: memory of the process");
	# how many of its connections a statement needs, a moment decides; leaks would be 9 or more
	cmp_ok($grown{handles}, '<', 6, "$kind->{name}: sockets and pipes");
	cmp_ok($grown{connections}, '<', 6, "$kind->{name}: connections");
}
my $all_end = usage();
note sprintf 'in all: contexts %d -> %d kB, RSS %d -> %d kB, handles %d -> %d, connections %d -> %d',
  map { int } $all_start->{memory} / 1024, $all_end->{memory} / 1024, $all_start->{rss}, $all_end->{rss}, $all_start->{handles}, $all_end->{handles}, $all_start->{connections}, $all_end->{connections};
$client->close;
$_->close for @direct;
done_testing();
