# Shards move, are split and are merged while clients move money and others read the sum of all
# accounts as of one moment. Another table is sharded and made plain again at the same time. The sum
# must always be right. MOVES is the number of moves. SPLITS is the number of splits, half of which
# are merged again. CONVERSIONS is how often the table is sharded or made plain.

use strict;
use warnings;

use CrashDriver;
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $moves = $ENV{MOVES} // 8;
my $c = ShardCluster->new(nodes => 3, preload => 1, coordinator_conf => CrashDriver::coordinator_conf(), node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $bank = CrashDriver->new(cluster => $c, clients => 4, pause => 20_000);
my $traces = q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication),
	(SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved'), (SELECT count(*) FROM pg_class WHERE relreplident = 'f')};

$bank->start;
$c->wait_for('SELECT count(*) > 20 FROM entry_here');
my @pauses;
for my $i (1 .. $moves)
{
	my $table = $i % 2 ? 'accounts' : 'entry_a';
	my @shards = $c->shards_of($table);
	my ($shard, $node) = @{ $shards[ $i * 3 % @shards ] };
	my $target = $node % 3 + 1;
	my ($rc, $out, $err) = $c->psql("SELECT shardfdw.move_shard('$shard', 'node$target')");
	is($err, '', "move $i: $shard from node $node to node $target");
	is(join(' ', map { $_->[1] } grep { $_->[0] eq $shard } $c->shards_of($table)), $target, 'it is there');
	push @pauses, $c->safe_psql("SELECT (extract(epoch FROM write_pause) * 1000)::int FROM shardfdw.jobs WHERE id = $out") if $out;
}
for my $i (1 .. $ENV{SPLITS} // 4)
{
	my $table = $i % 2 ? 'accounts' : 'entry_a';
	my @shards = map { $_->[0] } $c->shards_of($table);
	my $shard = $shards[ $i * 3 % @shards ];
	my ($rc, $out, $err) = $c->psql("SELECT shardfdw.split_shard('$shard')");
	is($err, '', "split $i: $shard");
	is(scalar(@{ [ $c->shards_of($table) ] }), @shards + 1, 'has given two');
	push @pauses, $c->safe_psql("SELECT (extract(epoch FROM write_pause) * 1000)::int FROM shardfdw.jobs WHERE id = $out") if $out;
}
for my $i (1 .. ($ENV{SPLITS} // 4) / 2)
{
	my $table = $i % 2 ? 'accounts' : 'entry_a';
	my $before = @{ [ $c->shards_of($table) ] };
	my ($rc, $out, $err) = $c->psql("WITH s AS (SELECT shard, node, b[1]::int AS m, b[2]::int AS r FROM shardfdw.shards, regexp_match(bounds, 'modulus (\\d+), remainder (\\d+)') b WHERE relation = '$table'::regclass)
		SELECT shardfdw.merge_shards(ARRAY[x.shard, y.shard]) FROM (SELECT x.shard, y.shard AS other FROM s x JOIN s y ON x.node = y.node AND x.m = y.m AND y.r = x.r + x.m / 2 ORDER BY x.m DESC, x.r LIMIT 1) p, LATERAL (SELECT p.shard) x, LATERAL (SELECT p.other AS shard) y");
	is($err, '', "merge $i");
	is(scalar(@{ [ $c->shards_of($table) ] }), $before - 1, 'has made one of two');
	push @pauses, $c->safe_psql("SELECT (extract(epoch FROM write_pause) * 1000)::int FROM shardfdw.jobs WHERE id = $out") if $out;
}
for my $i (1 .. $ENV{CONVERSIONS} // 2)
{
	my $call = $i % 2 ? q{shard_table('entry_here', mode => 'online', shards => 4)} : q{unshard_table('entry_here', mode => 'online')};
	my ($rc, $out, $err) = $c->psql("SELECT shardfdw.$call");
	is($err =~ s/^.*NOTICE: .*\n//mgr, '', "conversion $i: $call");
	is($c->safe_psql(q{SELECT relkind FROM pg_class WHERE oid = 'entry_here'::regclass}), $i % 2 ? 'p' : 'r', 'it is converted');
	push @pauses, $c->safe_psql("SELECT (extract(epoch FROM write_pause) * 1000)::int FROM shardfdw.jobs WHERE id = $out") if $out;
}
diag("pauses of writers in ms: @pauses");
is($c->safe_psql(q{SELECT count(*) FILTER (WHERE changes_applied > 0) > 0 FROM shardfdw.jobs}), 't', 'there were changes to follow');
$bank->stop;

my %found = $bank->verdict;
is($found{$_}, 0, $_) for qw(lost halves balance wrong prepared panics);
cmp_ok($found{audits}, '>', 10, "audits: $found{audits}");
my $errors = join '', map { slurp_file($_) } glob $c->coordinator->basedir . '/crash/errors*';
is($errors, '', 'no client has had an error');
is($c->safe_psql(q{SELECT string_agg(DISTINCT state, q) FROM (SELECT CASE state WHEN $$failed$$ THEN state ELSE shardfdw.wait_job(id) END AS state, $$ $$ AS q FROM shardfdw.jobs) j}), "done", "all jobs have ended");
$c->wait_for_slots;
is($c->node_safe_psql($_, $traces), '0|0|0|0|0', "nothing is left on node $_") for 1 .. 3;
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');

# the rate of a job's copy can be limited, also while it runs; at this rate the copy would take
# hours
$c->safe_psql(q{CREATE TABLE slow (id int PRIMARY KEY, v text); SELECT shardfdw.shard_table('slow', 'id', 1, '{node1}');
	INSERT INTO slow SELECT i, repeat('v', 1000) FROM generate_series(1, 5000) i});
$c->coordinator->append_conf('postgresql.conf', "shardfdw.max_move_rate = '1kB'");
$c->coordinator->reload;
$c->wait_for(q{SELECT current_setting('shardfdw.max_move_rate') = '1kB'});
my $job = $c->safe_psql(q{SELECT shardfdw.move_shard('slow_00', 'node2', wait => false)});
$c->wait_for("SELECT bytes_copied > 0 FROM shardfdw.jobs WHERE id = $job");
cmp_ok($c->safe_psql("SELECT bytes_copied FROM shardfdw.jobs WHERE id = $job"), '<', 1000000, 'a limited job copies slowly');
$c->coordinator->append_conf('postgresql.conf', "shardfdw.max_move_rate = 0");
$c->coordinator->reload;
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'and fast when it is limited no more');
is($c->safe_psql('SELECT count(*), sum(length(v)) FROM slow'), '5000|5000000', 'with all rows');

done_testing();
