# Ends moves, splits and merges at each of their stages: by an error, by the death of the
# coordinator, or by the death of a node. After a round of recovery, either the old or the new
# shards must be on one node with all rows. Nothing else may be left, and the shards must be
# movable. MOVE_GRID=all also raises errors at all points in both modes.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int, v text)');
$c->shard_table('t', 'id', shards => 2);
$c->shard_table('u', 'id', colocate_with => 't');
$c->safe_psql(q{INSERT INTO t SELECT i, i FROM generate_series(1, 200) i; INSERT INTO u SELECT i % 50, 'x' FROM generate_series(1, 200) i});
my $sums = q{SELECT count(*), sum(v), (SELECT count(*) FROM u), (SELECT sum(id) FROM u) FROM t};
my $before = $c->safe_psql($sums);
my $traces = q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication),
	(SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved'),
	(SELECT count(*) FROM pg_class WHERE relreplident = 'f'), (SELECT count(*) FROM pg_prepared_xacts), (SELECT count(*) FROM pg_description WHERE description ~ '^shardfdw_[0-9a-f]{16}_')};

# The shards of t, as shards_of() has them.
sub shards
{
	return map { [ split /\|/ ] } split /\n/, $c->ask(q{SELECT shard, substr(node, 5) FROM shardfdw.shards WHERE relation = 't'::regclass ORDER BY shard::text});
}

# Returns the node of the first shard. Splits, which rename shards, split only shards with odd
# numbers.
sub place { return (map { $_->[1] } grep { $_->[0] eq 't_00' } shards())[0]; }

# Checks what must be true after every event.
sub check
{
	my ($name) = @_;
	$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
	# A walsender that has lost its client needs a moment to end. Recovery needs locks that sessions
	# of lost clients still hold.
	my ($end, $left) = (time + 60);
	do
	{
		usleep(50_000) if defined $left;
		eval { $c->ask('SELECT shardfdw.recover_prepared_transactions()') };
		$left = join ' ', map { $c->ask($traces, $_) } 1, 2;
	} while ($left ne '0|0|0|0|0|0|0 0|0|0|0|0|0|0' && time < $end);
	is($left, '0|0|0|0|0|0|0 0|0|0|0|0|0|0', "$name: nothing is left");
	is($c->ask($sums), $before, 'all rows are there');
	is($c->ask(q{SELECT count(*) FROM t WHERE shardfdw.shard_for('t', id) <> tableoid}), 0, 'where they belong');
	is(join(' ', map { $c->ask(q{SELECT count(*) FROM pg_class WHERE relname IN ('t_00', 'u_00')}, $_) } place(), 3 - place()), '2 0', 'on one node');
	$c->ask(q{UPDATE t SET v = v + 1; UPDATE t SET v = v - 1; INSERT INTO u VALUES (1000, 'y'); DELETE FROM u WHERE id = 1000});
	is($c->ask($sums), $before, 'and can be written');
	return;
}

# There are n shards, or so many more instead of some.
sub check_shards
{
	my ($n, $more, @old) = @_;
	my @now = map { $_->[0] } shards();
	my $left = grep { my $shard = $_; grep { $_ eq $shard } @now } @old;
	ok(@now == $n && $left == @old || @now == $n + $more && $left == 0, 'there are the old shards, or the new ones: ' . scalar(@now));
	is($c->ask(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), 0, 'and nothing differs');
	my @tables = map { $c->ask(q{SELECT count(*) FROM pg_class WHERE relname ~ '^[tu]_\d+$' AND relkind = 'r'}, $_) } 1, 2;
	is($tables[0] + $tables[1], 2 * @now, 'no table besides');
	return;
}

my @points = qw(move_prepared move_published move_copy_end move_copied move_indexed move_compare move_compared move_locked move_named move_closed move_placed
	prepare prepared commit committed move_switched move_finished move_dropped);
my @online_only = qw(move_published move_compare move_compared);
my $n = 0;
for my $mode (qw(online block))
{
	for my $point (@points)
	{
		next if $mode eq 'block' && grep { $_ eq $point } @online_only;
		# of the commit's own points only the process's death is of interest
		for my $action ($point =~ /^move/ ? qw(error abort) : 'abort')
		{
			next if $action eq 'error' && !$ENV{MOVE_GRID} && ($mode eq 'block' || $point !~ /^move_(copied|named|placed|switched)$/);
			next unless ShardCluster::in_half($n++);
			my $target = 3 - place();
			$c->set_faults("$point=$action");
			my ($rc, $out, $err) = $c->psql("SELECT shardfdw.move_shard('t_00', 'node$target', mode => '$mode')");
			like($err, $action eq 'error' ? qr/fault at "$point"/ : qr/server closed the connection|terminating connection|could not/, "$mode, $point, $action: the move ends") unless $point =~ /^move_(finished|dropped|switched)/ && $action eq 'error';
			$c->wait_for_restart if $action eq 'abort';
			$c->set_faults('');
			check("$mode, $point, $action");
		}
	}
}

# ---------- splits ----------

for my $mode (qw(online block))
{
	for my $point (@points)
	{
		next if $mode eq 'block' && !$ENV{MOVE_GRID} && $point !~ /^(?:move_locked|move_named|move_placed|prepared|committed)$/;
		next if $mode eq 'block' && grep { $_ eq $point } @online_only;
		for my $action ($point =~ /^move_(?:named|placed|switched)$/ ? qw(error abort) : 'abort')
		{
			next unless ShardCluster::in_half($n++);
			my @shards = grep { $_ ne 't_00' } map { $_->[0] } shards();
			# not smaller and smaller ones
			my ($shard) = sort { $c->ask("SELECT count(*) FROM $b") <=> $c->ask("SELECT count(*) FROM $a") } @shards;
			$c->set_faults("$point=$action");
			my ($rc, $out, $err) = $c->psql("SELECT shardfdw.split_shard('$shard', mode => '$mode')");
			like($err, $action eq 'error' ? qr/fault at "$point"/ : qr/server closed the connection|terminating connection|could not/, "split, $mode, $point, $action: it ends");
			$c->wait_for_restart if $action eq 'abort';
			$c->set_faults('');
			check("split, $mode, $point, $action");
			check_shards(@shards + 1, 1, $shard);
		}
	}
}

# ---------- merges ----------

my $pair = q{SELECT x.shard, y.shard FROM (SELECT shard, node, b[1]::int AS m, b[2]::int AS r FROM shardfdw.shards, regexp_match(bounds, 'modulus (\d+), remainder (\d+)') b WHERE relation = 't'::regclass) x
	JOIN (SELECT shard, node, b[1]::int AS m, b[2]::int AS r FROM shardfdw.shards, regexp_match(bounds, 'modulus (\d+), remainder (\d+)') b WHERE relation = 't'::regclass) y
	ON x.node = y.node AND x.m = y.m AND y.r = x.r + x.m / 2 ORDER BY x.m DESC LIMIT 1};
for my $point (qw(move_prepared move_copied move_indexed move_locked move_named move_closed move_placed prepared committed move_switched move_finished))
{
	next unless ShardCluster::in_half($n++);
	my ($one, $other) = split /\|/, $c->ask($pair);
	my $shards = @{ [ shards() ] };
	$c->set_faults("$point=abort");
	my ($rc, $out, $err) = $c->psql("SELECT shardfdw.merge_shards('{$one,$other}')");
	like($err, qr/server closed the connection|terminating connection|could not/, "merge, $point: it ends");
	$c->wait_for_restart;
	$c->set_faults('');
	check("merge, $point");
	check_shards($shards, -1, $one, $other);
}

# ---------- nodes ----------

for my $which (qw(source target))
{
	for my $point (qw(move_copied move_indexed move_locked move_closed))
	{
		next unless ShardCluster::in_half($n++);
		my $from = place();
		my $target = 3 - $from;
		my $victim = $which eq 'source' ? $from : $target;
		my $file = $c->coordinator->data_dir . "/shardfdw_fault_$point";
		append_to_file($file, '');
		$c->set_faults("$point=wait");
		my $job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', wait => false)");
		$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover' AND query LIKE '%' || } .
			($point eq 'move_copied' ? q{'copying'} : $point eq 'move_indexed' ? q{'indexing'} : q{'switching'}));
		$c->kill9_node($victim);
		$c->start_node($victim);
		unlink $file;
		$c->set_faults('');
		$c->psql("SELECT shardfdw.wait_job($job)");
		check("$point, $which killed");
	}
}

for my $point (qw(move_copied move_indexed move_locked move_closed))
{
	next unless ShardCluster::in_half($n++);
	my ($one, $other) = split /\|/, $c->ask($pair);
	my ($node) = map { $_->[1] } grep { $_->[0] eq $one } shards();
	my $file = $c->coordinator->data_dir . "/shardfdw_fault_$point";
	append_to_file($file, '');
	$c->set_faults("$point=wait");
	my $shards = @{ [ shards() ] };
	my $split = $point =~ /indexed|closed/;
	my $job = $c->safe_psql('SELECT shardfdw.' . ($split ? "split_shard('$one'" : "merge_shards('{$one,$other}'") . ', wait => false)');
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover' AND query LIKE '%' || } .
		($point eq 'move_copied' ? q{'copying'} : $point eq 'move_indexed' ? q{'indexing'} : q{'switching'}));
	$c->kill9_node($node);
	$c->start_node($node);
	unlink $file;
	$c->set_faults('');
	$c->psql("SELECT shardfdw.wait_job($job)");
	check("$point, node killed in a " . ($split ? 'split' : 'merge'));
	check_shards($shards, $split ? 1 : -1, $split ? $one : ($one, $other));
}

# ---------- and then ----------

my $target = 3 - place();
is(($c->psql("SELECT shardfdw.move_shard('t_00', 'node$target')"))[2], '', 'a move that nothing happens to');
check('it');
is(place(), $target, 'has moved it');

done_testing();
