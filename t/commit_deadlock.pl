# Makes deadlocks over several nodes. They must be found: one victim gets 40P01, and the other
# sessions continue. Waits that are not deadlocks must not be cancelled.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0); CREATE TABLE here (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 4);
my @ids;    # two keys of each node
for my $id (1 .. 200)
{
	my $node = $c->safe_psql(
		"SELECT substr(srvname, 5) FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = shardfdw.shard_for('t', $id)");
	push @{ $ids[$node] }, $id;
	last if @{ $ids[1] // [] } > 1 && @{ $ids[2] // [] } > 1;
}
my ($a, $b) = ($ids[1][0], $ids[2][0]);
$c->safe_psql('INSERT INTO t SELECT i FROM generate_series(1, 200) i; INSERT INTO here VALUES (1, 0)');

sub row { my ($id) = @_; return "UPDATE t SET v = v + 1 WHERE id = $id"; }
sub row_here { return 'UPDATE here SET v = v + 1'; }

# Sessions lock their first rows. Then each requests the row of another session. run_all(cluster,
# [first, second], ...) returns for each session its last result, and how long it took.
sub run_all
{
	my @steps = @_;
	my @sessions = map { ($_->[2] // $c)->coordinator->background_psql('postgres', on_error_stop => 0) } @steps;
	my @errors;

	for my $i (0 .. $#steps)
	{
		$sessions[$i]->query_safe('BEGIN');
		$sessions[$i]->query_safe($_) for ref $steps[$i][0] ? @{ $steps[$i][0] } : $steps[$i][0];
	}
	my $start = time;
	for my $i (0 .. $#steps)
	{
		# psql prints "finished" at the end; the test waits for that below
		$sessions[$i]{stdin} .= "\\set VERBOSITY sqlstate\n$steps[$i][1];\nCOMMIT;\n\\echo finished\n";
		$sessions[$i]{run}->pump_nb;
	}
	for my $session (@sessions)
	{
		IPC::Run::pump($session->{run}) until $session->{stdout} =~ /finished/ || time > $start + 60;
		push @errors, $session->{stderr} =~ /ERROR:\s+(\S+)/ ? $1 : 'none';
		$session->{$_} = '' for 'stdout', 'stderr';
	}
	my $elapsed = time - $start;
	$_->quit for @sessions;
	return (join(' ', sort @errors), $elapsed);
}

my ($errors, $elapsed) = run_all([ row($a), row($b) ], [ row($b), row($a) ]);
is($errors, '40P01 none', 'two sessions over two nodes: one victim');
cmp_ok($elapsed, '<', 20, 'found while they wait');
is($c->safe_psql("SELECT sum(v) FROM t WHERE id IN ($a, $b)"), '2', 'the other one has committed');

($errors) = run_all([ row($a), row($b) ], [ row($b), row($ids[1][1]) ], [ row($ids[1][1]), row($a) ]);
is($errors, '40P01 none none', 'three sessions');

($errors) = run_all([ row($a), row_here() ], [ row_here(), row($a) ]);
is($errors, '40P01 none', 'a lock of the coordinator and one of a node');

# the session whose wait is the coordinator's cannot find it, the other one does
($errors) = run_all([ [ row_here(), row($b) ], row($a) ], [ row($a), row_here() ]);
is($errors, '40P01 none', 'whoever waits for the node finds it');

# UPDATEs of the shard key of different rows, whose old and new shards are known before
{
	my $script = PostgreSQL::Test::Utils::tempdir() . '/keys.sql';

	PostgreSQL::Test::Utils::append_to_file($script, "\\set n :n + 1\n\\set old 1000 + :client_id * 100 + :n\n\\set new :old + 10000\nUPDATE t SET id = :new WHERE id = :old;\n");
	for my $mode ('simple', 'prepared')
	{
		local $ENV{PGOPTIONS} = '-c plan_cache_mode=force_generic_plan';
		$c->safe_psql('DELETE FROM t WHERE id >= 1000; INSERT INTO t SELECT 1000 + i FROM generate_series(1, 400) i');
		$c->coordinator->command_checks_all(
			[ 'pgbench', '-n', '-M', $mode, '-c', 4, '-j', 2, '-t', 50, '-D', 'n=0', '-f', $script, '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ],
			0, [qr/processed: 200\/200/], [qr/^(?!.*deadlock)/s], "keys of different rows change at the same time: $mode");
		is($c->safe_psql('SELECT count(*) FILTER (WHERE id > 10000), count(*) FROM t WHERE id >= 1000'), '200|400', "each row is there once: $mode");
	}
	is($c->safe_psql('SET plan_cache_mode = force_generic_plan; PREPARE p(int) AS UPDATE t SET id = 1 / $1 WHERE id = -5; EXECUTE p(0); SELECT 1'),
		1, 'an expression is not evaluated where there is no row');
	$c->safe_psql('DELETE FROM t WHERE id >= 1000');
}

# UPDATEs of the shard key, and statements on several shards that touch other rows
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my %scripts = (
		key => '\set old :n % 40' . "\n" . '\set n :n + 1' . "\n" . '\set new :n % 40' . "\n"
			. 'UPDATE mixed SET k = :new WHERE k = :old AND id = :client_id',
		whole => 'UPDATE mixed SET v = v + 1 WHERE id = :other',
		by_row => 'UPDATE mixed SET v = v + 1 WHERE id = :other AND random() >= 0',
		lock => 'SELECT v FROM mixed WHERE id = :other FOR UPDATE',
		upsert => 'INSERT INTO mixed SELECT g, 1000 + :client_id, 0 FROM generate_series(1, 9) g'
			. ' ON CONFLICT (k, id) DO UPDATE SET v = mixed.v + 1',
		values => 'INSERT INTO mixed VALUES (1, 2000 + :client_id, 0), (2, 2000 + :client_id, 0),'
			. ' (3, 2000 + :client_id, 0) ON CONFLICT DO NOTHING',
		delete => 'DELETE FROM mixed WHERE id = 3000 + :client_id');
	my @files;
	for my $name (sort keys %scripts)
	{
		PostgreSQL::Test::Utils::append_to_file("$dir/$name.sql",
			"\\set other random(100, 199)\n$scripts{$name};\n");
		push @files, '-f', "$dir/$name.sql@" . ($name eq 'key' ? 4 : 1);
	}
	for my $scan ('on', 'off')
	{
		local $ENV{PGOPTIONS} =
			"-c plan_cache_mode=force_generic_plan -c shardfdw.enable_shard_scan=$scan";
		$c->safe_psql('DROP TABLE IF EXISTS mixed;
			CREATE TABLE mixed (k int, id int, v int, PRIMARY KEY (k, id))');
		$c->shard_table('mixed', 'k', shards => 4);
		$c->safe_psql('INSERT INTO mixed SELECT 0, i, 0 FROM generate_series(0, 5) i;
			INSERT INTO mixed SELECT i, i, 0 FROM generate_series(100, 199) i');
		$c->coordinator->command_checks_all(
			[ 'pgbench', '-n', '-M', 'prepared', '-c', 6, '-j', 2, '-t', 60, '-D', 'n=0', @files,
				'-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ],
			0, [qr/processed: 360\/360/], [qr/^(?!.*deadlock)/s],
			"keys change while other rows do: enable_shard_scan $scan");
		is($c->safe_psql('SELECT count(*) FROM mixed WHERE id < 100'),
			6, "each row is there once: enable_shard_scan $scan");
	}
	# a transaction that changes keys takes turns with another one, and both succeed
	($errors) = run_all(
		[
			'UPDATE mixed SET k = -1 WHERE k = 150 AND id = 150',
			'UPDATE mixed SET v = v + 1 WHERE id = 151'
		],
		[
			'UPDATE mixed SET v = v + 1 WHERE k = 152 AND id = 152',
			'UPDATE mixed SET v = v + 1 WHERE id = 153'
		]);
	is($errors, 'none none', 'a transaction waits for another one that changes keys');
	$c->safe_psql('DROP TABLE mixed');
}

# an UPDATE of the shard key locks the shard against a session that waits for one of its rows
{
	my ($same) = split /\n/, $c->safe_psql("SELECT id FROM t WHERE tableoid = shardfdw.shard_for('t', $a) AND id <> $a");

	my $elsewhere = $c->safe_psql("SELECT min(g) FROM generate_series(1001, 1100) g WHERE shardfdw.shard_for('t', g) <> shardfdw.shard_for('t', $a)");

	($errors) = run_all([ row($a), "UPDATE t SET id = $elsewhere WHERE id = $a" ], [ row($same), row($a) ]);
	is($errors, '40P01 none', 'a row that is to move to another shard, and a session that waits for it');
	$c->safe_psql("UPDATE t SET id = $a WHERE id = $elsewhere");
}

# a statement that its node commits by itself holds only the lock of the table on the coordinator
{
	my $holder = $c->coordinator->background_psql('postgres');

	$holder->query_safe('BEGIN');
	$holder->query_safe(row($a));
	my $single = $c->start_sql(row($a));
	$c->wait_for('SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 1);
	$holder->query_safe('LOCK TABLE t');
	like(($c->wait_sql($single))[2], qr/deadlock detected over nodes/, 'a single statement on one node finds it, too');
	$holder->query_safe('COMMIT');
	$holder->quit;
}

# a COMMIT in one phase whose deferred constraint waits
{
	$c->safe_psql('CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)');
	$c->shard_table('late', 'id', shards => 4);
	my ($holder, $waiter) = map { $c->coordinator->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
	my $insert = "INSERT INTO late VALUES ($a)";
	my $commit_waits = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = 'COMMIT'};

	$_->query_safe('BEGIN'), $_->query_safe($insert) for $holder, $waiter;
	$waiter->{stdin} .= "COMMIT;\n\\echo finished\n";
	$waiter->{run}->pump_nb;
	$c->node(1)->poll_query_until('postgres', $commit_waits);
	$holder->query_safe('LOCK TABLE late');
	IPC::Run::pump($waiter->{run}) until $waiter->{stdout} =~ /finished/;
	like($waiter->{stderr}, qr/deadlock detected over nodes/, 'a COMMIT in one phase finds it, too');
	$waiter->{$_} = '' for 'stdout', 'stderr';
	$holder->query_safe('COMMIT');
	is($waiter->query_safe('SELECT count(*) FROM late'), 1, 'and its transaction is rolled back');

	# If a client cancels the wait, it must still get the outcome.
	$holder->query_safe('DELETE FROM late');
	$_->query_safe('BEGIN'), $_->query_safe($insert) for $holder, $waiter;
	$waiter->{stdin} .= "COMMIT;\n\\echo finished\n";
	$waiter->{run}->pump_nb;
	$c->node(1)->poll_query_until('postgres', $commit_waits);
	$c->safe_psql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'});
	IPC::Run::pump($waiter->{run}) until $waiter->{stdout} =~ /finished/;
	like($waiter->{stderr}, qr/canceling statement due to user request/, 'a COMMIT in one phase that waits is canceled');
	$waiter->{$_} = '' for 'stdout', 'stderr';
	$holder->query_safe('COMMIT');
	is($waiter->query_safe('SELECT count(*) FROM late'), 1, 'and its transaction is rolled back');
	$_->quit for $holder, $waiter;
}

# a session that waits for itself, over the connection of another user
$c->safe_psql(q{CREATE ROLE teller SUPERUSER; CREATE USER MAPPING FOR teller SERVER node1 OPTIONS (user 'postgres');
	CREATE USER MAPPING FOR teller SERVER node2 OPTIONS (user 'postgres')});
my ($rc, undef, $err) = $c->psql('\set VERBOSITY sqlstate' . "\nBEGIN; " . row($a) . '; SET LOCAL ROLE teller; ' . row($a) . '; COMMIT');
like($err, qr/40P01/, 'a session that waits for its own other connection');

# a command that a node commits by itself releases its locks without the session
{
	my ($host, $port) = $c->node_address(1);

	$c->node(1)->safe_psql('postgres', 'CREATE DATABASE second');
	$c->safe_psql("SELECT shardfdw.add_node('second', '$host', $port, 'second')");
	# pg_shdescription is one table for all databases of a server
	is( ($c->psql(q{SET deadlock_timeout = '50ms'; SELECT bool_and(ok), string_agg(result, ',') FROM shardfdw.run_on_nodes(
		'DO $$ BEGIN LOCK TABLE pg_shdescription; PERFORM pg_sleep(3); END $$', false)}))[1],
		't|DO,DO,DO', 'commands in two databases of one server that wait for each other');
	$c->safe_psql("SELECT shardfdw.remove_node('second')");
}

# rows that are locked by a query over all shards, below an asynchronous Append
($errors) = run_all([ row($a), 'SELECT id FROM t ORDER BY id FOR UPDATE' ], [ row($b), 'SELECT id FROM t ORDER BY id FOR UPDATE' ]);
is($errors, '40P01 none', 'SELECT FOR UPDATE of rows on all nodes');

# another coordinator with the same nodes
my $other = ShardCluster->new(nodes => 0);
for my $i (1, 2)
{
	my ($host, $port) = $c->node_address($i);
	$other->safe_psql("CREATE SERVER node$i FOREIGN DATA WRAPPER shardfdw OPTIONS (host '$host', port '$port', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER node$i");
}
$other->safe_psql('CREATE TABLE t (id int, v int) PARTITION BY HASH (id)');
my @shards = $c->shards_of('t');
for my $i (0 .. $#shards)
{
	my $bounds = $c->safe_psql("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = '$shards[$i][0]'");
	$other->safe_psql("CREATE FOREIGN TABLE $shards[$i][0] PARTITION OF t $bounds SERVER node$shards[$i][1]");
}
($errors) = run_all([ row($a), row($b) ], [ row($b), row($a), $other ]);
is($errors, '40P01 none', 'sessions of two coordinators');

# If a savepoint catches the error, the changes before the savepoint commit.
my $first = $c->coordinator->background_psql('postgres', on_error_stop => 0);
my $second = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$first->query_safe("SET deadlock_timeout = '1h'; BEGIN; " . row($b));
$second->query_safe("SET deadlock_timeout = '100ms'; BEGIN; " . row($ids[2][1]) . '; ' . row($a) . '; SAVEPOINT s');
my $before = $c->safe_psql("SELECT v FROM t WHERE id = $ids[2][1]");
$first->{stdin} .= row($a) . ";\nCOMMIT;\n\\echo finished\n";
$first->{run}->pump_nb;
$c->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'", 1);
$second->query(row($b));
$err = $second->{stderr};
like($err, qr/deadlock detected over nodes/, 'the message');
like($err, qr/On node "node[12]" process \d+ \(of session (\d+)\) waits for process \d+ \(of session (?!\1)\d+\)\./, 'says who waits for whom');
$second->{stderr} = '';
$second->query_safe('ROLLBACK TO s');
$second->query_safe('COMMIT');
IPC::Run::pump($first->{run}) until $first->{stdout} =~ /finished/;
is($c->safe_psql("SELECT v FROM t WHERE id = $ids[2][1]"), $before + 1, 'a savepoint takes it');
$_->quit for $first, $second;

# A lock that is simply held is waited for.
$first = $c->coordinator->background_psql('postgres');
$first->query_safe('BEGIN; ' . row($a));
my $waiter = $c->start_sql("SET deadlock_timeout = '50ms'; BEGIN; " . row($b) . '; ' . row($a) . '; COMMIT', name => 'waiter');
$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%pg_blocking_pids%' AND pid <> pg_backend_pid()", 1);
$first->query_safe('SELECT pg_sleep(0.5)');
$first->query_safe('COMMIT');
$first->quit;
($rc, undef, $err) = $c->wait_sql($waiter);
is($rc, 0, 'a wait that is no deadlock goes on') || diag $err;
is($err, '', 'without a word');

# Another client of the node has the name of the session that waits for it.
my $victim = $c->coordinator->background_psql('postgres', on_error_stop => 0);
my $pid = $victim->query_safe("SET deadlock_timeout = '10ms'; BEGIN; " . row($a) . '; SELECT pg_backend_pid()');
my $name = $c->safe_psql("SELECT format('shardfdw:%s:%s', system_identifier, $pid) FROM pg_control_system()");
my $shard = $c->safe_psql("SELECT shardfdw.shard_for('t', $b)");
my $impostor = $c->node(2)->background_psql('postgres');
$impostor->query_safe("SET application_name = '$name'; BEGIN; UPDATE $shard SET v = v WHERE id = $b");
$victim->{stdin} .= row($b) . ";\nCOMMIT;\n\\echo finished\n";
$victim->{run}->pump_nb;
my $waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $pid AND state = 'active' AND query ~ '^UPDATE t'";
$c->ask_until($waits);
my %searches;
while (keys %searches < 5 && $c->ask($waits) eq 't')
{
	my $search = $c->ask("SELECT max(query_start) FROM pg_stat_activity WHERE query LIKE '%pg_blocking_pids%' AND pid <> pg_backend_pid()", 2);
	$searches{$search} = 1 if $search;
}
$impostor->query_safe('ROLLBACK');
$impostor->quit;
IPC::Run::pump($victim->{run}) until $victim->{stdout} =~ /finished/;
is($victim->{stderr}, '', 'a client with the name of the session is another session');
$victim->quit;

# All connections are taken. The deadlock check must not wait for a free connection; it uses the
# last one.
$c->coordinator->append_conf('postgresql.conf', "shared_preload_libraries = 'shardfdw'\nshardfdw.recovery_interval = 0\nshardfdw.max_shared_connections_per_node = 3\n");
$c->coordinator->restart;
($errors, $elapsed) = run_all([ row($a), row($b) ], [ row($b), row($a) ]);
is($errors, '40P01 none', 'with one connection left');
my @full = map { $_->background_psql('postgres', on_error_stop => 0) } ($c->coordinator) x 2;
$full[0]->query_safe('BEGIN; ' . row($a));
$full[1]->query_safe("BEGIN; " . row($ids[1][1]));
$c->safe_psql($_) for 'ALTER SYSTEM SET shardfdw.max_shared_connections_per_node = 2', 'SELECT pg_reload_conf()';
$full[1]->query_safe("SET deadlock_timeout = '50ms'; SET shardfdw.connection_wait_timeout = '2s'; SET statement_timeout = '5s'");
$full[1]->query(row($a));
like($full[1]->{stderr}, qr/statement timeout/, 'with none the wait goes on, and is not for a connection');
$full[1]->{stderr} = '';
$_->quit for @full;

done_testing();
