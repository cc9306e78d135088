# Tests shardfdw.snapshot = 'cluster'. A statement, or a transaction with one snapshot, must see all
# nodes as of one moment. It must never see a part of a transaction.
#
# CUT_SECONDS is how long the bank is audited (5 by default). PG_TEST_TIMEOUT_DEFAULT has to be
# longer.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time sleep);
use WireClient;

my $c = ShardCluster->new(nodes => 4);
my $accounts = 100;
$c->safe_psql('CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)');
$c->shard_table('accounts', 'id', shards => 8);
$c->safe_psql("INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, $accounts) i");
my $total = 1000 * $accounts;
my $sum = 'SELECT sum(balance) FROM accounts';
my $cluster = "SET shardfdw.snapshot = 'cluster'";

# One key of each node
my @key;
for my $id (1 .. $accounts)
{
	my $node = $c->safe_psql(
		"SELECT substr(srvname, 5) FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = shardfdw.shard_for('accounts', $id)");
	$key[$node] //= $id;
	last if 4 == grep { defined } @key;
}
my $transfer = "BEGIN; UPDATE accounts SET balance = balance - 100 WHERE id = $key[1]; UPDATE accounts SET balance = balance + 100 WHERE id = $key[2]; COMMIT";

is($c->safe_psql("$cluster; $sum"), $total, 'a statement');
is($c->safe_psql("$cluster; BEGIN ISOLATION LEVEL REPEATABLE READ; $sum; $transfer; $sum; ROLLBACK" =~ s/BEGIN; (UPDATE.*); COMMIT/$1/r), "$total\n$total", 'a transaction that goes on to write');
is($c->safe_psql("$cluster; BEGIN; UPDATE accounts SET balance = 0 WHERE id = $key[1]; $sum; ROLLBACK"), $total - 1000, 'a transaction sees what it has written');
is($c->safe_psql("$cluster; BEGIN ISOLATION LEVEL SERIALIZABLE; $sum; SELECT balance FROM accounts WHERE id = $key[3]; COMMIT"), "$total\n1000", 'SERIALIZABLE');
is($c->safe_psql("$cluster; SELECT balance FROM accounts WHERE id = $key[3]"), '1000', 'one shard');
is($c->safe_psql("$cluster; SELECT count(*) FROM accounts a JOIN accounts b ON a.balance = b.balance + a.id"), '0', 'several scans of one statement');
$c->wait_for("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = x'73686172'::int::oid");
pass('no lock is left');

# Statements one after the other need no more connections than one.
my $many = join '; ', ($sum) x 50;
is($c->safe_psql("$cluster; $many; SELECT count(*) < 20 FROM shardfdw.connections") =~ /t$/, 1, 'connections are used again');

# The owner of a view reads with another user mapping, but with the same snapshot.
$c->safe_psql("CREATE ROLE teller; GRANT USAGE ON SCHEMA public TO teller; CREATE VIEW totals AS $sum; GRANT SELECT ON totals, accounts TO teller");
$c->safe_psql("CREATE USER MAPPING FOR teller SERVER node$_ OPTIONS (user 'postgres', password_required 'false')") for 1 .. 4;
is($c->safe_psql("$cluster; SET ROLE teller; SELECT t.sum, s.sum FROM totals t, ($sum) s"), "$total|$total", 'as two users');

# A transaction's snapshot does not move.
my $reader = $c->coordinator->background_psql('postgres');
$reader->query_safe("$cluster; BEGIN ISOLATION LEVEL REPEATABLE READ");
my $before = $reader->query_safe("SELECT balance FROM accounts WHERE id = $key[4]");
$c->safe_psql($transfer);
is($reader->query_safe("SELECT string_agg(balance::text, ' ') FROM accounts WHERE id IN ($key[1], $key[2])"), '1000 1000', 'nodes that the transaction comes to later are of the same moment');
$reader->query_safe('COMMIT');

# Its loss is an error, not another snapshot.
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->query_safe($sum);
$c->end_sessions_on(3);
$reader->{stderr} = '';
eval { $reader->query_safe($sum) };
like($@ . $reader->{stderr}, qr/snapshot of this transaction on node "node3" was lost|connection to node "node3"|Node "node3"/, 'a lost snapshot is an error');
$reader->quit;

# If a node hangs, the snapshot must fail soon, and must not block commits for long.
$c->sigstop_node(4);
my $start = time;
my ($rc, undef, $err) = $c->psql("$cluster; $sum");
cmp_ok(time - $start, '<', 40, 'a node that hangs: an end');
isnt($rc, 0, 'which is an error');
like($err, qr/node4/, 'that names the node');
$c->sigcont_node(4);
is($c->safe_psql("$cluster; $sum"), $total, 'afterwards all is well');

# The connections exist already. The node hangs while the barrier is closed. A search for deadlocks
# must not prolong that.
$reader = WireClient->new($c->coordinator, 'postgres');
$reader->query($cluster);
is($reader->query($sum)->{rows}[0][0], $total, 'a cut over connections that stay');
$c->sigstop_node(4);
$reader->start_query($sum);
$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted});
$start = time;
($rc) = $c->psql("UPDATE accounts SET balance = balance WHERE id IN ($key[1], $key[2])");
is($rc, 0, 'commits of others go on');
cmp_ok(time - $start, '<', 9, 'after a second');
like($reader->finish_query(60)->{error}{M}, qr/node "node4" did not answer in time/, 'and the cut fails');
$c->sigcont_node(4);
is($c->safe_psql("$cluster; $sum"), $total, 'then all is well');

# While a commit is under way, between its nodes, a cut waits and a plain statement does not.
SKIP:
{
	skip 'the library has no fault points', 5
	  unless $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
	my $marker = $c->coordinator->data_dir . '/shardfdw_fault_commit';

	open my $fh, '>', $marker or die $!;
	close $fh;
	my $writer = $c->start_sql("SET shardfdw.fault_points = 'commit=wait'; $transfer", name => 'writer');
	$c->wait_for('SELECT count(*) > 0 FROM pg_prepared_xacts', 1);
	$c->wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 4");
	is($c->safe_psql("SET lock_timeout = '5s'; $sum"), $total, 'snapshot of each node: does not wait');
	my $waiting = $c->start_sql("$cluster; SELECT balance FROM accounts WHERE id = $key[1]", name => 'waiting');
	$c->wait_for("SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'waiting' AND locktype = 'advisory' AND mode = 'ExclusiveLock'");
	unlink $marker;
	my ($rc1) = $c->wait_sql($writer);
	my ($rc2, $out) = $c->wait_sql($waiting);
	is("$rc1 $rc2 $out", '0 0 800', 'a cut waits for it');

	# A commit that a crash has cut short is completed by the next cut.
	(undef) = $c->psql("SET shardfdw.fault_points = 'commit=abort'; $transfer");
	ok($c->wait_for_restart, 'the coordinator is back');
	is($c->safe_psql("$cluster; SELECT string_agg(balance::text, ' ' ORDER BY id = $key[2]) FROM accounts WHERE id IN ($key[1], $key[2])"), '700 1300', 'a commit cut short is completed');
	is(join(' ', map { $c->node_safe_psql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1 .. 4), '0 0 0 0', 'nothing is prepared any more');
}

# A bank at work, and its auditors.
my $seconds = $ENV{CUT_SECONDS} // 5;
my @clients;
for my $n (1 .. 4)
{
	my $sql = join "\n", map {
		my ($from, $to) = sort { $a <=> $b } (1 + int(rand $accounts), 1 + int(rand $accounts));
		my $amount = int(rand 200) - 100;
		"BEGIN; UPDATE accounts SET balance = balance - ($amount) WHERE id = $from; UPDATE accounts SET balance = balance + ($amount) WHERE id = $to; COMMIT;"
	} 1 .. 500 * $seconds;
	push @clients, $c->start_sql("SET statement_timeout = '60s';\n$sql", name => "client$n");
}
my %wrong = (node => 0, cluster => 0);
my %audits = (node => 0, cluster => 0);
my %auditor = map { $_ => $c->coordinator->background_psql('postgres') } keys %wrong;
$_->set_query_timer_restart for values %auditor;    # they may be at work for longer than one query may take
$auditor{$_}->query_safe("SET shardfdw.snapshot = '$_'") for keys %auditor;
my $updates = 'SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables';
my $before_bank = 0;
$before_bank += $c->node_safe_psql($_, $updates) for 1 .. 4;
my $end = time + $seconds;
while (time < $end)
{
	for my $mode (sort keys %auditor)
	{
		$audits{$mode}++;
		$wrong{$mode}++ if $auditor{$mode}->query_safe($sum) != $total;
	}
}
$_->quit for values %auditor;
$c->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'client_'");
my @ends = map { ($c->wait_sql($_))[2] } @clients;
my $transfers = -$before_bank / 2;
$transfers += $c->node_safe_psql($_, $updates) / 2 for 1 .. 4;
is(join('', grep { !/terminating connection due to administrator command/ } @ends), '', 'the bank was at work to the end');
cmp_ok($transfers, '>', 10 * $seconds, 'money was moved');
note sprintf '%d transfers; skew rate in node mode %.4f %%', $transfers, 100 * $wrong{node} / $audits{node};
note "audits: cluster $audits{cluster}, wrong $wrong{cluster}; node $audits{node}, wrong $wrong{node}";
cmp_ok($audits{cluster}, '>', $seconds, 'there were audits');
is($wrong{cluster}, 0, 'no wrong total with one snapshot over all nodes');

done_testing();
