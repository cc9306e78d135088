# Each savepoint on a node must have a unique name, so that it is never mistaken for an earlier one.
# Reads in a transaction that has written set savepoints, too. At most one of these may stay on a
# connection, however many statements the transaction has.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int)});
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g});

my $rounds = 25;
for my $isolation ('READ COMMITTED', 'REPEATABLE READ')
{
	# a scan, a look-up by the extended protocol and a write, sometimes in a block that is released
	# or rolled back
	my $sql = join("\n", map {
		my $block = $_ % 5;
		($block == 1 || $block == 2 ? 'SAVEPOINT a;' : ()),
		'SELECT count(*) FROM t;', 'EXECUTE p(7);', "UPDATE t SET v = $_ WHERE id = 7;",
		($block == 1 ? 'RELEASE a;' : $block == 2 ? "ROLLBACK TO a; UPDATE t SET v = $_ WHERE id = 7;" : ()) } 1 .. $rounds);
	my ($rc, $out, $err) = $c->psql("PREPARE p(int) AS SELECT v FROM t WHERE id = \$1 AND v >= (random() * 0)::int; SET shardfdw.log_min_remote_duration = 0; SET client_min_messages = log;
		BEGIN ISOLATION LEVEL $isolation; UPDATE t SET v = 0; $sql DECLARE c CURSOR FOR SELECT id, repeat('x', 1000) FROM t; FETCH 1 FROM c; CLOSE c; EXECUTE p(7); COMMIT;
		SELECT count(*), sum(v) FROM t");
	is($rc, 0, "$isolation: the transaction is run");
	like($out, qr/^$rounds\n100\|$rounds\z/m, "$isolation: its last write counts");

	my @made = $err =~ /(?<!RELEASE )(?<!TO )SAVEPOINT (shardfdw_stream_\d+)/g;
	my %times;
	$times{$_}++ for @made;
	my %released = map { $_ => 1 } $err =~ /RELEASE SAVEPOINT (shardfdw_stream_\d+)/g;
	cmp_ok(scalar @made, '>', $rounds, "$isolation: reads set savepoints");
	is(scalar(grep { $times{$_} > 1 } keys %times), 0, "$isolation: none of them twice");

	# savepoints that exist until the end, or end with the savepoint of a block
	cmp_ok(scalar(grep { !$released{$_} } @made), '<=', 2 + 2 * $rounds / 5 * 2, "$isolation: all but a few are released");
}

# A statement is cancelled before its node has processed the savepoint before it. The writes of an
# earlier, released savepoint must remain. The node needs some time to parse the text.
$c->safe_psql('CREATE TABLE u (id int PRIMARY KEY, v int, w int)');
$c->shard_table('u', 'id', shards => 4);
$c->safe_psql('INSERT INTO u SELECT g, 0, 0 FROM generate_series(1, 40) g');
my $long = join ' OR ', map { "(v = -$_ AND w = $_)" } 1 .. 4000;
my $script = "SET client_min_messages = error;\nPREPARE q AS SELECT count(*) FROM u WHERE NOT ($long);\nEXECUTE q;\n";
for my $i (1 .. 30)
{
	my $timeout = 1 + $i % 12 * 2;
	$script .= "BEGIN; UPDATE u SET w = $i; SAVEPOINT a; UPDATE u SET v = $i; RELEASE a; SAVEPOINT b; SET LOCAL statement_timeout = $timeout;\n" .
	  "EXECUTE q;\nROLLBACK TO b;\nSAVEPOINT b; UPDATE u SET v = v; RELEASE b; COMMIT;\n" .
	  "SELECT 'round', count(DISTINCT (v, w)), min(v), min(w) FROM u;\n";
}
my (undef, $out, $err) = $c->psql($script, on_error_stop => 0);
my @rounds = $out =~ /^(round.*)$/mg;
is(scalar @rounds, 30, 'a statement is cancelled in a savepoint, at any moment');
is(join(' ', grep { !/^round\|1\|(\d+)\|\1$/ } @rounds), '', 'what another savepoint had written before is kept, or the whole transaction is undone');
my $cancelled = () = $err =~ /canceling statement due to statement timeout/g;
cmp_ok($cancelled, '>', 0, 'some were cancelled');
note "$cancelled cancelled; other errors: " . join ' ', grep { !/statement timeout|^\s*$/ } split /\n/, $err;

# At REPEATABLE READ, the same while a connection exports the snapshot that others wait for. They
# must not wait for a snapshot identifier that will never be read.
$c->safe_psql("INSERT INTO t SELECT g, g FROM generate_series(101, 4000) g");
$script = "SET client_min_messages = error;\nPREPARE q AS SELECT count(*) FROM u WHERE NOT ($long);\nEXECUTE q;\n";
for my $i (1 .. 24)
{
	my $timeout = 1 + $i % 12 * 3;
	$script .= "SELECT shardfdw.disconnect();\n" if $i % 4 == 0;
	$script .= "BEGIN ISOLATION LEVEL REPEATABLE READ; SAVEPOINT b; SET LOCAL statement_timeout = $timeout;\nEXECUTE q;\nROLLBACK TO b;\n" .
	  "SET LOCAL statement_timeout = '60s'; SELECT 'read', count(*) FROM (SELECT id, repeat('x', 3000) FROM t ORDER BY id OFFSET 0) x; SELECT 'count', count(*) FROM u; COMMIT;\n";
}
(undef, $out, $err) = $c->psql($script, on_error_stop => 0);
is(scalar(() = $out =~ /^(?:read\|4000|count\|40)$/mg), 48, 'what follows in the transaction reads its snapshot');
note "@{[ scalar(() = $err =~ /canceling statement due to statement timeout/g) ]} cancelled";

# A cursor whose FETCH waits for another session's lock is cancelled in a savepoint: the transaction goes on.
my $locker = $c->coordinator->background_psql('postgres');
$locker->query_safe('BEGIN; UPDATE u SET v = v WHERE id = 7');
(undef, $out, $err) = $c->psql("BEGIN; DECLARE c CURSOR FOR SELECT * FROM u FOR UPDATE; SAVEPOINT a; SET statement_timeout = 400;
FETCH ALL FROM c;
ROLLBACK TO a; SET statement_timeout = '60s';
UPDATE t SET v = -1;
COMMIT; SELECT 'written', count(*) > 0 FROM t WHERE v = -1", on_error_stop => 0);
is(() = $err =~ /canceling statement due to statement timeout/g, 1, 'the FETCH is cancelled');
like($out, qr/^written\|t\z/m, 'the transaction goes on');
$locker->query_safe('ROLLBACK');
$locker->quit;

done_testing();
