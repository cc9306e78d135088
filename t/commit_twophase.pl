# A transaction that writes to several nodes must commit on all of them or on none, whichever server
# or session dies at any point. Only recover_prepared_transactions() may resolve what is left
# prepared.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

# With walsenders, so that a commit can be made to wait for a standby.
my $c = ShardCluster->new(nodes => 2, coordinator_conf => "wal_level = replica\nmax_wal_senders = 4\n");
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE here (id int)');
$c->shard_table('t', 'id', shards => 4);
my @ids;    # one key of each node
for my $id (1 .. 100)
{
	my $node = $c->safe_psql(
		"SELECT substr(srvname, 5) FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = shardfdw.shard_for('t', $id)");
	$ids[$node] //= $id;
	last if $ids[1] && $ids[2];
}
my ($id1, $id2) = @ids[ 1, 2 ];
my $rows = "SELECT count(*) FROM t WHERE id IN ($id1, $id2)";

my @shards = $c->shards_of('t');

# Rows of the two nodes, asked from the nodes themselves.
sub rows_on_nodes
{
	return join ' ', map {
		my $i = $_;
		my $n = 0;
		$n += $c->ask("SELECT count(*) FROM $_->[0]", $i) for grep { $_->[1] == $i } @shards;
		$n;
	} 1 .. 2;
}

sub prepared
{
	return join ' ', map { $c->ask("SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", $_) } 1 .. 2;
}

sub reset_rows
{
	$c->ask('DELETE FROM t; DELETE FROM here');
	return;
}

# Recovery may have to wait until the nodes have ended the sessions of a dead coordinator.
sub recover_all
{
	for (1 .. 50)
	{
		$c->ask('SELECT shardfdw.recover_prepared_transactions()');
		last if prepared() eq '0 0';
		usleep(100_000);
	}
	return;
}

# All goes well
$c->safe_psql("BEGIN; INSERT INTO t VALUES ($id1, 1); INSERT INTO t VALUES ($id2, 1); COMMIT");
is(rows_on_nodes(), '1 1', 'both nodes committed');
is(prepared(), '0 0', 'nothing is left prepared');
reset_rows();

# A node that refuses at the end: its deferred trigger fails while it prepares.
my ($shard2) = map { $_->[0] } grep { $_->[1] == 2 && $c->safe_psql("SELECT shardfdw.shard_for('t', $id2)") eq $_->[0] } $c->shards_of('t');
$c->node_safe_psql(2, qq{
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF NEW.v = 13 THEN RAISE 'refused at the end'; END IF;
		IF NEW.v = 7 THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NULL; END \$\$;
	CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON $shard2 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()});
my ($rc, undef, $err) = $c->psql("BEGIN; INSERT INTO here VALUES (1); INSERT INTO t VALUES ($id1, 1), ($id2, 13); COMMIT");
like($err, qr/refused at the end.*node2/s, 'the refusal of a node is the error of COMMIT');
is(rows_on_nodes(), '0 0', 'and undoes the transaction on the others');
is($c->safe_psql('SELECT count(*) FROM here'), '0', 'and on the coordinator');
is(prepared(), '0 0', 'nothing is left prepared');
($rc, undef, $err) = $c->psql("INSERT INTO t VALUES ($id2, 13)");
like($err, qr/refused at the end/, 'one node, one phase: the refusal is an error too');
is($c->safe_psql("SET shardfdw.commit_protocol = '1pc'; INSERT INTO t VALUES ($id1, 1), ($id2, 1); $rows"), '2', 'one phase on both nodes');
reset_rows();

# While a node is still preparing, recovery touches nothing (R28).
sub start_blocked
{
	my $blocker = $c->node(2)->background_psql('postgres');
	$blocker->query_safe('SELECT pg_advisory_lock(4711)');
	my $writer = $c->start_sql("BEGIN; INSERT INTO here VALUES (1); INSERT INTO t VALUES ($id1, 1), ($id2, 7); COMMIT;", name => 'writer');
	$c->wait_for("SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%' AND gid <> 'shardfdw:1:2:3:4'", 1);
	$c->wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 2);
	return ($blocker, $writer);
}
my ($blocker, $writer) = start_blocked();
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is(prepared(), '1 0', 'recovery leaves the prepared transaction of a running commit alone');
$blocker->quit;
($rc, undef, $err) = $c->wait_sql($writer);
is($rc, 0, 'the commit goes on') || diag $err;
is(rows_on_nodes(), '1 1', 'both nodes committed');
is(prepared(), '0 0', 'nothing is left prepared');
reset_rows();

# A node crashes after it has prepared, while the other node is still preparing.
($blocker, $writer) = start_blocked();
$c->kill9_node(1);
$c->start_node(1);
$blocker->quit;
($rc, undef, $err) = $c->wait_sql($writer);
recover_all();
is(prepared(), '0 0', 'node crashed after PREPARE: recovery settles it');
is(rows_on_nodes(), $rc == 0 ? '1 1' : '0 0', 'node crashed after PREPARE: as the coordinator said');
is($c->safe_psql('SELECT count(*) FROM here'), $rc == 0 ? '1' : '0', 'node crashed after PREPARE: the coordinator too');
reset_rows();

# The coordinator crashes while a node is still preparing (R33).
($blocker, $writer) = start_blocked();
$c->kill9_coordinator;
$c->wait_sql($writer);
$c->coordinator->start;
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql('SELECT count(*) FROM here'), '0', 'coordinator crashed before its commit: nothing there');
$blocker->quit;
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'PREPARE TRANSACTION%' AND state = 'active' AND pid <> pg_backend_pid()", 2);
recover_all();
is(prepared(), '0 0', 'coordinator crashed before its commit: nothing is left prepared, however late');
is(rows_on_nodes(), '0 0', 'coordinator crashed before its commit: rolled back on both nodes');

# The coordinator crashes after its commit is on disk, and before it has sent COMMIT PREPARED (R32,
# R34). There it waits for a standby that does not exist, as every commit over several servers waits
# for synchronous standbys.
for my $case (
	[ 'two nodes', "($id1, 1), ($id2, 1)", '1 1', 'on' ],
	[ 'one node and a local table', "($id2, 1)", '0 1', 'local' ],
	[ 'two nodes, synchronous_commit off', "($id1, 1), ($id2, 1)", '1 1', 'off' ])
{
	my ($name, $values, $expected, $synchronous_commit) = @$case;
	$c->coordinator->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$c->coordinator->reload;
	$writer = $c->start_sql("SET synchronous_commit = $synchronous_commit; BEGIN; INSERT INTO here VALUES (1); INSERT INTO t VALUES $values; COMMIT;", name => 'writer');
	$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'writer' AND wait_event = 'SyncRep'");
	isnt(prepared(), '0 0', "$name: prepared while the coordinator commits");
	$c->kill9_coordinator;
	$c->wait_sql($writer);
	$c->coordinator->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''");
	$c->coordinator->start;
	recover_all();
	is($c->safe_psql('SELECT count(*) FROM here'), '1', "$name: coordinator crashed after its commit: committed there");
	is(rows_on_nodes(), $expected, "$name: and by recovery on the nodes");
	is(prepared(), '0 0', "$name: nothing is left prepared");
	reset_rows();
}

# Transactions that nodes have prepared from subtransactions must survive crashes of the nodes. They
# are replayed from the log, then from a checkpoint's file, and then again. Only the parts that were
# not rolled back may be there (R12).
for my $decided (0, 1)
{
	my $name = 'subtransactions, ' . ($decided ? 'committed' : 'not committed');
	my $inserts = join ' ', map { "SAVEPOINT a; INSERT INTO t VALUES ($_, 5); SAVEPOINT b; UPDATE t SET v = 6 WHERE id = $_; ROLLBACK TO b; SAVEPOINT c; UPDATE t SET v = v + 2 WHERE id = $_; RELEASE a;" } $id1, $id2;
	$c->coordinator->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$c->coordinator->reload;
	if ($decided)
	{
		$writer = $c->start_sql("BEGIN; INSERT INTO here VALUES (1); $inserts COMMIT;", name => 'writer');
		$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'writer' AND wait_event = 'SyncRep'");
	}
	else
	{
		# node 2 cannot prepare: its trigger waits for the lock
		$blocker = $c->node(2)->background_psql('postgres');
		$blocker->query_safe('SELECT pg_advisory_lock(4711)');
		$writer = $c->start_sql("BEGIN; INSERT INTO here VALUES (1); $inserts SAVEPOINT d; DELETE FROM t WHERE id = $id2; INSERT INTO t VALUES ($id2, 7); RELEASE d; COMMIT;", name => 'writer');
		$c->wait_for("SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", 1);
		$c->wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 2);
	}
	my $before = prepared();
	is($before, $decided ? '1 1' : '1 0', "$name: prepared");
	$c->kill9_coordinator;
	$c->wait_sql($writer);
	for my $crash (1 .. 3)
	{
		$c->kill9_node($_) for 1 .. 2;
		$c->start_node($_) for 1 .. 2;
		$c->node_safe_psql($_, $crash == 2 ? 'CHECKPOINT' : 'SELECT 1') for 1 .. 2;
		is(prepared(), $before, "$name: prepared after crash $crash of the nodes");
	}
	eval { $blocker->quit } unless $decided;    # its node has crashed under it
	$c->coordinator->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''");
	$c->coordinator->start;
	recover_all();
	$c->kill9_node($_) for 1 .. 2;
	$c->start_node($_) for 1 .. 2;
	is(prepared(), '0 0', "$name: settled, once more crashed");
	is($c->safe_psql("SELECT count(*) FROM here; SELECT count(*), min(v), max(v) FROM t WHERE id IN ($id1, $id2)"),
		$decided ? "1\n2|7|7" : "0\n0||", "$name: all of it or nothing");
	reset_rows();
}

# The same wait, but recovery runs in another session and the writer continues.
$c->coordinator->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
$c->coordinator->reload;
$writer = $c->start_sql("INSERT INTO t VALUES ($id1, 1), ($id2, 1);", name => 'writer');
$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'writer' AND wait_event = 'SyncRep'");
$c->safe_psql("SET synchronous_commit = local; SELECT shardfdw.recover_prepared_transactions()");
isnt(rows_on_nodes() . prepared(), '0 00 0', 'recovery does not roll back a transaction that is being committed');
$c->coordinator->safe_psql('postgres', "SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names");
$c->coordinator->reload;
($rc, undef, $err) = $c->wait_sql($writer);
is($rc, 0, 'the writer ends') || diag $err;
is(rows_on_nodes(), '1 1', 'its rows are there');
is(prepared(), '0 0', 'nothing is left prepared');
reset_rows();

# Two databases of one coordinator use the same nodes. Each recovers only its transactions (R30). A
# prepared transaction of another program stays in any case.
$c->safe_psql('CREATE DATABASE other');
for my $i (1 .. 2)
{
	my ($host, $port) = $c->node_address($i);
	$c->coordinator->safe_psql('other', 'CREATE EXTENSION IF NOT EXISTS shardfdw');
	$c->coordinator->safe_psql('other', "SELECT shardfdw.add_node('node$i', '$host', $port, 'postgres')");
}
$c->node_safe_psql(1, "BEGIN; CREATE TABLE foreign_one (id int); PREPARE TRANSACTION 'somebody-elses'");
$c->node_safe_psql(1, "BEGIN; CREATE TABLE foreign_two (id int); PREPARE TRANSACTION 'shardfdw:1:2:3:4'");
$c->node_safe_psql(1, 'CREATE DATABASE elsewhere');
$c->node(1)->safe_psql('elsewhere', "BEGIN; CREATE TABLE x (id int); PREPARE TRANSACTION 'in-another-database'");
($blocker, $writer) = start_blocked();
$c->kill9_coordinator;
$c->wait_sql($writer);
$c->coordinator->start;
$blocker->quit;
my $left = $c->node_safe_psql(1, 'SELECT count(*) FROM pg_prepared_xacts');
$c->coordinator->safe_psql('other', 'SELECT shardfdw.recover_prepared_transactions()');
is($c->node_safe_psql(1, 'SELECT count(*) FROM pg_prepared_xacts'), $left, 'recovery in another database leaves them alone');
for (1 .. 50)
{
	$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
	last if $c->node_safe_psql(1, 'SELECT count(*) FROM pg_prepared_xacts') == 3;
	usleep(100_000);
}
is( $c->node_safe_psql(1, 'SELECT gid FROM pg_prepared_xacts ORDER BY gid COLLATE "C"'),
	"in-another-database\nshardfdw:1:2:3:4\nsomebody-elses", 'recovery of its own database settles its own, and only those');
is(rows_on_nodes(), '0 0', 'rolled back on both nodes');
$c->node_safe_psql(1, "ROLLBACK PREPARED '$_'") for 'somebody-elses', 'shardfdw:1:2:3:4';
$c->node(1)->safe_psql('elsewhere', "ROLLBACK PREPARED 'in-another-database'");

# If a node has no prepared transactions, the error comes before anything is lost (R37).
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 0');
$c->node(2)->restart;
($rc, undef, $err) = $c->psql("INSERT INTO t VALUES ($id1, 1), ($id2, 1)");
isnt($rc, 0, 'two nodes, one without prepared transactions: an error');
like($err, qr/node2/, 'which names the node');
like($err, qr/max_prepared_transactions/, 'and the setting');
is(rows_on_nodes(), '0 0', 'nothing is written');
# Other failures of PREPARE with the same SQLSTATEs are reported unchanged.
$c->node_safe_psql(1, q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today' USING ERRCODE = '55000'; END $$;} .
	join '', map { "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON $_->[0] DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();" } grep { $_->[1] == 1 } $c->shards_of('t'));
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 20');
$c->node(2)->restart;
$c->psql_fails_like("INSERT INTO t VALUES ($id1, 1), ($id2, 1);", qr/^(?!.*max_prepared_transactions).*55000: not today\n.*"node1"/s, 'a deferred trigger that fails with the code of disabled prepared transactions');
$c->node_safe_psql(1, 'DROP FUNCTION refuse CASCADE');
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 0');
$c->node(2)->restart;
$c->safe_psql('SELECT count(*) FROM t');
is($c->safe_psql("INSERT INTO t VALUES ($id2, 1); SELECT count(*) FROM t"), '1', 'one node alone commits');
is($c->safe_psql("SET shardfdw.commit_protocol = '1pc'; INSERT INTO t VALUES ($id1, 1); SELECT count(*) FROM t"), '2', 'one phase works');

is($c->safe_psql('SELECT count(*) FROM shardfdw.prepared_transactions'), '0', 'the view shows nothing left');
done_testing();
