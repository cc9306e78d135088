# Ends shard_table(mode => 'online') and unshard_table(mode => 'online') at each of their stages: by
# an error, by a cancel, by the death of the coordinator or of a node. Afterwards, or after a round
# of recovery, the table must be plain or sharded, with all rows. Nothing else may be left, and it
# must be possible to shard the table. CONVERT_ALL runs every case in both directions. Otherwise
# each case runs in one direction, in turn.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2);
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

my $back;    # a sharded table becomes a plain one
my $traces = q{SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^shardfdw_(new|old|changed)_'), (SELECT count(*) FROM pg_proc WHERE proname ~ '^shardfdw_note'), (SELECT count(*) FROM pg_trigger WHERE tgname ~ '^shardfdw')};
my $sums = 'SELECT count(*), sum(v), min(id), max(id) FROM t';

# Counts leftovers on the coordinator and on the nodes: tables of the shards, and prepared
# transactions.
sub left
{
	my $sharded = $c->ask(q{SELECT relkind = 'p' FROM pg_class WHERE relname = 't'}) eq 't';
	# the count would include triggers that record changes
	my @tables = map { $c->ask(q{SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^t_\d\d$|^shardfdw_(new|changed)' AND relkind = 'r') + (SELECT count(*) FROM pg_proc WHERE proname ~ '^shardfdw_note')}, $_) } 1, 2;

	return join ' ', $c->ask($traces), @tables, ($sharded ? 'sharded' : 'plain'), map { $c->ask('SELECT count(*) FROM pg_prepared_xacts', $_) } 1, 2;
}

sub make
{
	$c->safe_psql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 200) i');
	$c->safe_psql(q{SELECT shardfdw.shard_table('t', shards => 4)}) if $back;
	return;
}

my %call = (0 => q{SELECT shardfdw.shard_table('t', shards => 4, mode => 'online'%s)}, 1 => q{SELECT shardfdw.unshard_table('t', 'online'%s)});
sub call { my ($wait) = @_; return sprintf $call{$back}, $wait ? '' : ', wait => false'; }

# Checks what must be true after every event; by_itself: without recovery.
sub check
{
	my ($name, $by_itself) = @_;
	$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
	my ($end, $left) = (time + 60);
	do
	{
		usleep(50_000) if defined $left;
		# recovery needs locks that sessions still hold whose clients are gone
		eval { $c->ask('SELECT shardfdw.recover_prepared_transactions()') } unless $by_itself;
		$left = left();
	} while (!$by_itself && $left !~ /^0\|0\|0 (?:0 0 plain|2 2 sharded) 0 0$/ && time < $end);
	like($left, qr/^0\|0\|0 (?:0 0 plain|2 2 sharded) 0 0$/, "$name: nothing is left");
	is($c->ask($sums), '200|20100|1|200', 'all rows are there');
	$c->ask('UPDATE t SET v = v + 1; UPDATE t SET v = v - 1; INSERT INTO t VALUES (1000, 1); DELETE FROM t WHERE id = 1000');
	$c->ask(q{SELECT shardfdw.shard_table('t', shards => 4, mode => 'online')}) if $left =~ /plain/;
	is(left(), '0|0|0 2 2 sharded 0 0', 'and it is sharded, or can be');
	is($c->ask($sums), '200|20100|1|200', 'with all rows');
	return;
}

# Is a case to be run in this direction?
my $ncases = 0;
sub in_turn
{
	my $n = $ncases++;
	# pairs of cases change places, so that neither direction gets the same half of each
	return $ENV{CONVERT_ALL} || ($n + int($n / 2) + $back) % 2 == 0 && ShardCluster::in_half($n);
}

for my $way (0, 1)
{
	$back = $way;
	$ncases = 0;
	my $dir = $back ? ' (unshard)' : '';
	# Writers run at each stage, so there are recorded keys to process.
	for my $point (qw(convert_begun convert_noted convert_copied convert_followed convert_locked convert_switched))
	{
		for my $action (qw(error abort))
		{
			next unless in_turn();
			make();
			$c->set_faults("$point=$action");
			my ($rc, $out, $err) = $c->psql(call(1));
			like($err, $action eq 'error' ? qr/fault at "$point"/ : qr/server closed the connection|terminating connection|could not/, "$point, $action: the job ends");
			$c->wait_for_restart if $action eq 'abort';
			$c->set_faults('');
			check("$point, $action$dir", $action eq 'error');
		}
	}

	# the commits of each of its steps: the first that a fault meets
	for my $point (qw(prepare prepared commit committed))
	{
		next unless in_turn();
		make();
		$c->set_faults("$point=abort");
		my ($rc, $out, $err) = $c->psql(call(1));
		like($err, qr/server closed the connection|terminating connection|could not/, "$point: the job ends");
		$c->wait_for_restart;
		$c->set_faults('');
		check("$point$dir");
	}

	for my $point (qw(convert_noted convert_copied convert_followed))
	{
		# events while the job waits
		for my $event ('cancel', 'terminate', 'node', 'drop', map { "then $_" } qw(prepared commit committed))
		{
			next unless in_turn();
			make();
			my $file = $c->coordinator->data_dir . "/shardfdw_fault_$point";
			append_to_file($file, '');
			my ($then) = $event =~ /^then (.*)/;
			$c->set_faults("$point=wait" . ($then ? ", $then=abort" : '')) unless $then;
			$c->set_faults("$point=wait") if $then;
			my $job = $c->safe_psql(call(0));
			my $stage = { convert_noted => 'preparing', convert_copied => 'copying', convert_followed => 'catching up' }->{$point};
			$c->wait_for("SELECT stage = '$stage' AND EXISTS (SELECT FROM pg_trigger WHERE tgname = 'shardfdw_note_truncate') FROM shardfdw.jobs WHERE id = $job");
			$c->safe_psql('UPDATE t SET v = v WHERE id = 100');
			$c->safe_psql("SELECT shardfdw.cancel_job($job)") if $event eq 'cancel';
			$c->safe_psql("SELECT pg_terminate_backend(pid) FROM shardfdw.jobs WHERE id = $job") if $event eq 'terminate';
			$c->kill9_node(2) if $event eq 'node';
			$c->safe_psql('DROP TABLE t') if $event eq 'drop';
			$c->set_faults($then ? "$then=abort" : '');
			unlink $file;
			$c->start_node(2) if $event eq 'node';
			my ($rc, $out, $err) = $c->psql("SELECT shardfdw.wait_job($job)");
			if ($then)
			{
				$c->wait_for_restart;
				$c->set_faults('');
				is($c->ask("SELECT state FROM shardfdw.jobs WHERE id = $job"), 'interrupted', "$point, $event: it died there");
			}
			is($out, '', "$point, $event: the job does not end well") if $event =~ /cancel|terminate|drop/;
			if ($event eq 'drop')
			{
				like($err, qr/relation with OID \d+ does not exist|table public\.t was dropped while/,
					'and says why');
				make();
			}
			check("$point, $event$dir", $event eq 'cancel');
		}
	}
}
# A reader keeps the triggers on the nodes from being dropped when the job is cancelled. Writers
# then need the tables in which these triggers note keys.
$back = 1;
make();
{
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_convert_copied';
	append_to_file($file, '');
	$c->set_faults('convert_copied=wait');
	my $job = $c->safe_psql(call(0));
	$c->wait_for("SELECT stage = 'copying' FROM shardfdw.jobs WHERE id = $job");
	my $reader = $c->coordinator->background_psql('postgres');
	$reader->query_safe('BEGIN; SELECT count(*) FROM (SELECT FROM t WHERE id < 50 FOR SHARE) s');
	$c->safe_psql("SELECT shardfdw.cancel_job($job)");
	$c->set_faults('');
	unlink $file;
	$c->psql("SELECT shardfdw.wait_job($job)");
	$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
	is(($c->psql('UPDATE t SET v = v + 1 WHERE id > 100; UPDATE t SET v = v - 1 WHERE id > 100'))[2],
		'', 'cancelled under a reader: writes go on');
	$reader->query_safe('COMMIT');
	$reader->quit;
	is(($c->psql('UPDATE t SET v = v + 1; UPDATE t SET v = v - 1'))[2], '', 'and after its end');
	check('cancelled under a reader');
}
$back = 0;

# a node crashes between the two phases of the last commit: the switch does not wait for recovery,
# so recovery is off
make();
my %file = map { $_ => $c->coordinator->data_dir . "/shardfdw_fault_$_" } qw(convert_copied prepared);
append_to_file($_, '') for values %file;
$c->set_faults('convert_copied=wait');
my $job = $c->safe_psql(q{SELECT shardfdw.shard_table('t', shards => 4, mode => 'online', wait => false)});
$c->wait_for("SELECT rows_copied = 200 FROM shardfdw.jobs WHERE id = $job");
$c->safe_psql('UPDATE t SET v = v + 1; UPDATE t SET v = v - 1');
$c->set_faults('prepared=wait');
unlink $file{convert_copied};
$c->wait_for('SELECT count(*) > 0 FROM pg_prepared_xacts', 2);
$c->kill9_node(2);
$c->set_faults('');
unlink $file{prepared};
my (undef, $out, $err) = $c->psql("SELECT shardfdw.wait_job($job)");
like($err, qr/a node did not confirm a commit of job $job/, 'a commit that a node has not confirmed ends the job');
is($c->safe_psql(q{SELECT relkind FROM pg_class WHERE relname = 't'}), 'r', 'the table is not switched');
is($c->safe_psql($sums), '200|20100|1|200', 'and has its rows');
$c->start_node(2);
check('not confirmed');

# what recovery says
make();
$c->set_faults('convert_copied=abort');
$c->psql(q{SELECT shardfdw.shard_table('t', shards => 4, mode => 'online')});
$c->wait_for_restart;
$c->set_faults('');
is($c->safe_psql('SELECT state FROM shardfdw.jobs ORDER BY id DESC LIMIT 1'), 'interrupted', 'a job whose process has died is told');
is($c->safe_psql($traces) =~ /^0/ ? 'gone' : 'there', 'there', 'it has left something');
like(($c->psql('ALTER TABLE t RENAME v TO w'))[2], qr/the definition of table "t" cannot be changed before it is recovered from job \d+/, 'until then the table stays what its triggers need');
$c->kill9_node(2);
like($c->safe_psql(q{SELECT action FROM shardfdw.recover_prepared_transactions()}), qr/^not removed: what job \d+ has left: could not connect to node "node2"/m, 'without a node recovery cannot remove all');
is($c->safe_psql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass; UPDATE t SET v = v}), '0', 'but nobody notes changes any more');
$c->start_node(2);
like($c->safe_psql('SELECT action FROM shardfdw.recover_prepared_transactions()'), qr/^removed: what job \d+ has left$/m, 'recovery tells what it has removed');
check('told');


# ---------- recovery and the next job at the same time ----------

# Creates the leftovers of a crashed job, on the coordinator and on the nodes.
sub leave
{
	make();
	$c->set_faults('convert_copied=abort');
	$c->psql(call(1));
	$c->wait_for_restart;
	$c->set_faults('');
	return;
}

my $claimed = $c->coordinator->data_dir . '/shardfdw_fault_leftover_claimed';
for my $way (0, 1)
{
	$back = $way;
	my $dir = $back ? ' (unshard)' : '';

	# recovery has the lock of the crashed job; the next job waits for it, and its tables do not
	# count as leftovers
	leave();
	append_to_file($claimed, '');
	$c->set_faults('leftover_claimed=wait');
	my $recovery = $c->start_sql('SELECT action FROM shardfdw.recover_prepared_transactions()');
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 16 AND granted});
	my $next = $c->safe_psql(call(0));
	$c->wait_for("SELECT stage = 'preparing' FROM shardfdw.jobs WHERE id = $next");
	unlink $claimed;
	$c->set_faults('');
	like(($c->wait_sql($recovery))[1], qr/^removed: what job \d+ has left$/m, "recovery while another job waits$dir");
	is($c->ask("SELECT shardfdw.wait_job($next)"), 'done', 'that job is done');
	check("recovery and then a job$dir", 1);

	# the next job has the lock of the dead job; recovery passes by
	leave();
	append_to_file($claimed, '');
	$c->set_faults('leftover_claimed=wait');
	$next = $c->safe_psql(call(0));
	$c->wait_for(q{SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 16 AND granted});
	is($c->safe_psql('SELECT action FROM shardfdw.recover_prepared_transactions()'), '', "recovery leaves what another session removes$dir");
	unlink $claimed;
	$c->set_faults('');
	is($c->ask("SELECT shardfdw.wait_job($next)"), 'done', 'the job is done');
	check("a job and then recovery$dir", 1);

	# ---------- each single object identifies its job ----------

	for my $kept (qw(new changed note))
	{
		leave();
		my $oid = $c->ask(q{SELECT 't'::regclass::oid});
		my %drop = (new => "DROP TABLE shardfdw_new_$oid", changed => "DROP TABLE shardfdw_changed_$oid", note => "DROP FUNCTION shardfdw_note_$oid() CASCADE");
		like(($c->psql($drop{$kept}))[2], qr/"shardfdw_${kept}_$oid" belongs to a job that works on table public\.t/, "$kept cannot be dropped while the others are there$dir");
		# while nodes have triggers, the table for their notes stays
		next if $back && $kept ne 'changed';
		$c->safe_psql(join '; ', 'ALTER EVENT TRIGGER shardfdw_refuse_drop_of_successor DISABLE', (map { $drop{$_} } grep { $_ ne $kept } qw(note changed new)), 'ALTER EVENT TRIGGER shardfdw_refuse_drop_of_successor ENABLE ALWAYS');
		check("recovery finds $kept alone$dir");
	}

	# ---------- clients ----------

	# A client uses one shard after the other while recovery waits for a lock. The two must not wait
	# for each other.
	leave();
	my $log = $c->log_position;
	my @node_log = map { $c->log_position($_) } 1, 2;
	my $client = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my @ids = split /\n/, $c->ask($back ? 'SELECT min(id) FROM t GROUP BY tableoid ORDER BY tableoid' : 'SELECT generate_series(1, 4)');
	$client->query_safe("BEGIN; UPDATE t SET v = v WHERE id = $ids[0]");
	my $round = $c->start_sql('SELECT action FROM shardfdw.recover_prepared_transactions()');
	$c->ask_until(q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'relation' AND NOT granted}, $back ? $c->ask(q{SELECT substr(node, 5) FROM shardfdw.shards WHERE shard = 't_00'::regclass}) : ());
	$client->query_safe("UPDATE t SET v = v WHERE id = $_; SELECT count(*) FROM t") for @ids;
	like(($c->wait_sql($round))[1], qr/^not removed: what job \d+ has left: .*lock timeout/m, "recovery gives a lock up that a client has$dir");
	$client->query_safe('COMMIT');
	$client->quit;
	unlike(join('', $c->log_since($log), map { $c->log_since($node_log[ $_ - 1 ], $_) } 1, 2), qr/deadlock detected/, 'no session sees a deadlock');
	check("the next round$dir");
}

# ---------- shards that are colocated with leftovers of a job ----------

leave();
my ($place) = $c->ask(q{SELECT node FROM shardfdw.shards WHERE shard = 't_00'::regclass});
my $other = $place eq 'node1' ? 'node2' : 'node1';
like(($c->psql("SELECT shardfdw.move_shard('t_00', '$other', mode => 'block')"))[2], qr/shard public\.t_00 cannot be moved before table public\.t is recovered from job \d+/, 'a move beside the rests of a dead job');
like(($c->psql("SELECT shardfdw.split_shard('t_00', mode => 'block')"))[2], qr/shard public\.t_00 cannot be split before table public\.t is recovered from job \d+/, 'a split');
$c->ask('SELECT shardfdw.recover_prepared_transactions()');
is(($c->psql("SELECT shardfdw.move_shard('t_00', '$other', mode => 'block')"))[2], '', 'after recovery the shard moves');
is($c->ask($sums), '200|20100|1|200', 'with all rows');
$back = 0;
make();

# a superuser's recovery, like the worker's, has the rights of the owner of each leftover
$c->safe_psql('CREATE ROLE keeper; GRANT CREATE ON SCHEMA public TO keeper; GRANT USAGE ON FOREIGN SERVER node1, node2 TO keeper');
$c->safe_psql("CREATE USER MAPPING FOR keeper SERVER node$_ OPTIONS (user 'postgres', password_required 'false')") for 1, 2;
$c->safe_psql('DROP TABLE t; SET ROLE keeper; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 200) i');
$c->set_faults('convert_copied=abort');
$c->psql(q{SET ROLE keeper; SELECT shardfdw.shard_table('t', shards => 4, mode => 'online')});
$c->wait_for_restart;
$c->set_faults('');
like($c->safe_psql('SELECT action FROM shardfdw.recover_prepared_transactions()'), qr/^removed: what job \d+ has left$/m, q{what a role's job has left is removed by a superuser's recovery});
is(left(), '0|0|0 0 0 plain 0 0', 'all of it');

done_testing();
