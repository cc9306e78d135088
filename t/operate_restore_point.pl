# Sets restore points over all servers while a bank is at work. Base backups of different moments
# are restored to one point. The restored servers must agree about every transaction. A restored
# commit must come with all commits that its client had seen acknowledged before.
#
# RESTORE_POINTS is the number of points that are set (3 by default). RESTORE_TO is the number of
# points to which all servers are restored (1 by default).

use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;
use TransferBank;
use WireClient;

my $points = $ENV{RESTORE_POINTS} // 3;
my $restores = $ENV{RESTORE_TO} // 1;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1\n" . ShardServer::ARCHIVE_CONF,
	node_conf        => ShardServer::ARCHIVE_CONF);
my $bank = TransferBank->new($c);

# ---------- commits that follow each other ----------

# Link n of the chain is written when n - 1 has been acknowledged: on node 1, node 2 and the coordinator in turn, in one phase.
$c->safe_psql(q{
	CREATE TABLE chain (node int, n bigint, PRIMARY KEY (node, n)) PARTITION BY LIST (node);
	SELECT shardfdw.create_shard('chain', 'chain_' || i, format('IN (%s)', i), ('node' || i)::name) FROM generate_series(1, 2) i;
	CREATE TABLE chain_here (n bigint PRIMARY KEY)});

my $chain;

sub start_chain
{
	$chain = fork // die "fork: $!";
	return if $chain;
	$SIG{$_} = 'DEFAULT' for qw(TERM INT ALRM CHLD __DIE__ __WARN__);
	my $session = WireClient->new($c->coordinator, 'postgres');
	for (my $n = 1;; $n++)
	{
		my $i = $n % 3;
		my $result = $session->query($i ? "INSERT INTO chain VALUES ($i, $n)" : "INSERT INTO chain_here VALUES ($n)");
		POSIX::_exit(1) if $result->{error};
	}
}

sub stop_chain
{
	kill 'KILL', $chain;
	waitpid $chain, 0;
	undef $chain;
	return;
}

END { local $?; kill 'KILL', $chain if $chain; }

# ---------- base backups and points, while others write ----------

my @servers = ($c->coordinator, $c->nodes);

$bank->start;
start_chain();
for my $server (@servers)
{
	$bank->wait_for_transfers(5);
	$server->backup('base');
}
my %before;    # target -> transfers that had been acknowledged when it was asked for
my @failed;
for my $n (1 .. $points)
{
	$bank->wait_for_transfers(1 + int(rand 20));
	my @acknowledged = $bank->acknowledged;
	# all of the same name
	my ($rc, $target, $err) = $c->psql("SELECT shardfdw.create_restore_point('nightly')");
	$before{$target} = { map { $_ => 1 } @acknowledged };
	push @failed, $err if $rc;
}
is(join("\n", @failed), '', "$points restore points are set while clients write");
$bank->wait_for_transfers(5);
is(scalar(grep { /^nightly-[0-9a-f]{16}$/ } keys %before), $points, 'each with a target of its own');
is($c->safe_psql("SELECT count(*) FROM shardfdw.restore_points WHERE name = 'nightly' AND timeline = 1 AND lsn IS NOT NULL AND commit_pause > '0'"), 3 * $points, 'the view says where they are');
is($c->safe_psql(q{SELECT DISTINCT string_agg(coalesce(node, 'coordinator'), ' ' ORDER BY node) FROM shardfdw.restore_points GROUP BY target}), 'node1 node2 coordinator', 'on all servers');

# ---------- restore points that are refused ----------

$bank->stop;
stop_chain();

sub refused_by
{
	my ($server, $sql, $pattern, $name) = @_;
	my ($rc, undef, $err) = $server->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, $pattern, $name);
	return;
}

sub refused { return refused_by($c->coordinator, @_); }

# A client that does not read messages must not keep commits waiting.
is(($c->psql(q{SET client_min_messages = log; SELECT shardfdw.create_restore_point('quiet') \g /dev/null
	SHOW client_min_messages}))[1], 'log', 'the setting is back');
unlike(($c->psql(q{SET client_min_messages = log; SELECT shardfdw.create_restore_point('quiet')}))[2], qr/restore point "quiet.*created/, 'nothing is sent while commits wait');
refused(q{SELECT shardfdw.create_restore_point(NULL)}, qr/22004: name must not be null/, 'no name');
refused(q{SELECT shardfdw.create_restore_point('')}, qr/22023: name of a restore point must have 1 to 46 bytes/, 'an empty name');
refused(q{SELECT shardfdw.create_restore_point(repeat('x', 47))}, qr/22023: name of a restore point must have 1 to 46 bytes/, 'a name that is too long');
refused(q{SELECT shardfdw_internal.set_restore_point(E'a\nb', '{}')}, qr/22023: name of a restore point must have 1 to 46 bytes, and no control characters/, 'a name of two lines, whatever is called');
refused(q{SET default_transaction_read_only = on; SELECT shardfdw.create_restore_point('x')}, qr/25006: cannot execute create_restore_point\(\) in a read-only transaction/, 'a transaction that only reads');
is(length $c->safe_psql(q{SELECT shardfdw.create_restore_point(repeat('x', 46))}), 63, 'the longest name');
is($c->safe_psql(q{SELECT shardfdw.create_restore_point('a ''quoted'' \ name') ~ '^a ''quoted'' \\\\ name-'; SELECT count(*) FROM shardfdw.restore_points WHERE name = 'a ''quoted'' \ name' AND lsn IS NOT NULL}), "t\n3", 'a name is only a name');
is($c->safe_psql(q{BEGIN; INSERT INTO chain VALUES (1, -3), (2, -3); SELECT count(shardfdw.create_restore_point('in a block')); DELETE FROM chain WHERE n = -3; COMMIT}), '1', 'a transaction that has written');

$c->safe_psql('CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA shardfdw, shardfdw_internal TO clerk');
refused(q{SET ROLE clerk; SELECT shardfdw.create_restore_point('clerk')}, qr/42501: permission denied for function create_restore_point/, 'a role without the right');
refused(q{SET ROLE clerk; SELECT shardfdw_internal.set_restore_point('clerk', '{}')}, qr/42501: permission denied for function create_restore_point/, 'nor does what the function calls help');

$c->safe_psql('GRANT EXECUTE ON FUNCTION shardfdw.create_restore_point(text) TO clerk');
refused(q{SET ROLE clerk; SELECT shardfdw_internal.set_restore_point('clerk', ARRAY(SELECT oid FROM pg_foreign_server WHERE srvname = 'node1'))}, qr/42501: permission denied for foreign server node1/, 'a role without USAGE on a node');
refused(q{SET ROLE clerk; SELECT shardfdw.create_restore_point('clerk')}, qr/42501: permission denied for foreign server node1\nDETAIL:  A restore point is set on all nodes of the cluster/, 'a point of some nodes is none');
$c->safe_psql('SELECT shardfdw_internal.set_restore_point($$clerk$$, $${}$$)');
refused(q{SELECT shardfdw_internal.set_restore_point('unused', '{1}')}, qr/42704: server 1 is not a node/, 'no node');

# a role that has the right on the coordinator, but not on one node
for my $node ($c->nodes)
{
	$node->safe_psql('postgres', q{CREATE ROLE clerk LOGIN PASSWORD 'secret'});
}
$c->node_safe_psql(1, 'GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO clerk');
$c->safe_psql(q{GRANT USAGE ON FOREIGN SERVER node1, node2 TO clerk;
	CREATE USER MAPPING FOR clerk SERVER node1 OPTIONS (user 'clerk', password_required 'false');
	CREATE USER MAPPING FOR clerk SERVER node2 OPTIONS (user 'clerk', password_required 'false')});
refused(q{SET ROLE clerk; SELECT shardfdw.create_restore_point('clerk')}, qr/42501: role "clerk" may not create restore points on node "node2".*HINT:  GRANT EXECUTE ON FUNCTION/s, 'a role without the right on a node');
$c->node_safe_psql(2, 'GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO clerk');
like($c->safe_psql(q{SET ROLE clerk; SELECT shardfdw.create_restore_point('clerk')}), qr/^clerk-/, 'a role that has the rights');

# ---------- nodes that do not answer ----------

$c->sigstop_node(2);
refused(q{SET statement_timeout = '1s'; SELECT shardfdw.create_restore_point('hung')}, qr/57014/, 'a node that hangs: a time-out ends the call');
$c->sigcont_node(2);

SKIP:
{
	skip 'the library has no fault points', 10 unless $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
	my $marker = $c->coordinator->data_dir . '/shardfdw_fault_restore_point_closed';
	my $closed = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND objsubid = 4";
	my $point = WireClient->new($c->coordinator, 'postgres');
	my $writer = WireClient->new($c->coordinator, 'postgres');
	my $deadline = $PostgreSQL::Test::Utils::timeout_default;
	$c->node_safe_psql($_, 'CREATE TABLE told (n int)') for 1, 2;

	$point->query("SET shardfdw.fault_points = 'restore_point_closed=wait'");
	open my $fh, '>', $marker or die $!;
	close $fh;
	$point->start_query(q{SELECT shardfdw.create_restore_point('slow')});
	$c->wait_for($closed);
	# recovery may wait, too
	my $waits = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 3 AND NOT granted AND pid = ";
	my $writer_pid = $writer->query('SELECT pg_backend_pid()')->{rows}[0][0];
	$writer->start_query('INSERT INTO chain VALUES (1, -1)');
	$c->wait_for($waits . $writer_pid);
	pass('a commit waits while the point is set');
	my $command = WireClient->new($c->coordinator, 'postgres');
	my $command_pid = $command->query('SELECT pg_backend_pid()')->{rows}[0][0];
	$command->start_query(q{SELECT shardfdw.run_on_nodes('INSERT INTO told VALUES (1)', in_transaction => false)});
	$c->wait_for($waits . $command_pid);
	is($c->node_safe_psql(1, 'SELECT count(*) FROM told'), 0, 'a command that commits by itself does, too');
	$c->sigstop_node(2);
	unlink $marker;
	my $done = $writer->finish_query($deadline);
	ok($done && !$done->{error}, 'not for a node that hangs');
	my $error = $point->finish_query($deadline)->{error};
	like("$error->{C}: $error->{M}", qr/58000: node "node2" did not answer in time/, 'the point fails');
	$c->sigcont_node(2);
	ok(!$command->finish_query($deadline)->{error}, 'the command does not');
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.restore_points WHERE name = 'slow'}), 0, 'it is none');
	unlike("$error->{M} $error->{D}", qr/slow-[0-9a-f]/, 'and nobody learns its target');

	$point->query("SET shardfdw.fault_points = 'restore_point_sent=error'");
	$error = $point->query(q{SELECT shardfdw.create_restore_point('broken')})->{error};
	like($error->{M}, qr/fault at/, 'an error behind the fence');
	ok(!$writer->query('BEGIN; INSERT INTO chain VALUES (1, -2), (2, -2); COMMIT')->{error}, 'opens it');
	$point->query("SET shardfdw.fault_points = ''");
	ok(!$point->query(q{SELECT shardfdw.create_restore_point('after')})->{error}, 'the session goes on');
	$c->safe_psql('DELETE FROM chain WHERE n < 0');
}

# ---------- all servers are restored to one point ----------

my $nrestored = 0;

# ---------- two databases of the same servers ----------

# A point with the same name that was created in another database of the coordinator's server is
# another point.
$c->safe_psql('CREATE DATABASE second');
$_->safe_psql('postgres', 'CREATE DATABASE second') for $c->nodes;
$c->coordinator->safe_psql('second', 'CREATE EXTENSION shardfdw');
for my $i (1, 2)
{
	my ($host, $port) = $c->node_address($i);
	$c->coordinator->safe_psql('second', "SELECT shardfdw.add_node('node$i', '$host', $port, dbname => 'second')");
}
my $second = $c->coordinator->safe_psql('second', q{SELECT shardfdw.create_restore_point('nightly')});
like($second, qr/^nightly-/, 'a point of another database has a name that is there');
ok(!$before{$second}, 'and a target of its own');

$_->archive_wal for @servers;
my %production = (coordinator => $c->{coordinator}, nodes => $c->{nodes});
my @order = sort { $a cmp $b } keys %before;
my %elsewhere;    # transfers of restored clusters

for (1 .. $restores)
{
	my $point = splice @order, int(rand @order), 1;
	my ($here, @nodes) = map { ShardServer->restored('restored' . ++$nrestored, $_, 'base', $point) } $production{coordinator}, @{ $production{nodes} };

	# it is a copy, which changes nothing before it is promoted
	is($here->safe_psql('postgres', 'SELECT confirmed FROM shardfdw_internal.coordinator_identity()'), 'f', "$point: the restored coordinator is not confirmed");
	for my $i (1, 2)
	{
		my $node = $nodes[ $i - 1 ];
		$here->safe_psql('postgres', sprintf q{ALTER SERVER node%d OPTIONS (SET host '%s', SET port '%d')}, $i, $node->host, $node->port);
	}
	refused_by($here, q{SELECT shardfdw.promote_coordinator(restore_point => 'another')}, qr/55000: the coordinator has not been restored to restore point "another"\n.*DETAIL:  Its recovery has ended at restore point "$point"\./, "$point: another target");
	$here->safe_psql('postgres', sprintf q{ALTER SERVER node2 OPTIONS (SET host '%s', SET port '%d')}, $production{nodes}[1]->host, $production{nodes}[1]->port);
	refused_by($here, qq{SELECT shardfdw.promote_coordinator(restore_point => '$point')}, qr/55000: node "node2" has not been restored to restore point "$point"/, "$point: an address that leads to production");
	$here->safe_psql('postgres', sprintf q{ALTER SERVER node2 OPTIONS (SET host '%s', SET port '%d')}, $nodes[1]->host, $nodes[1]->port);
	is($here->safe_psql('postgres', 'SELECT confirmed FROM shardfdw_internal.coordinator_identity()'), 'f', "$point: it has not taken over");
	my $prepared = join ' ', map { $_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') } @nodes;
	$here->safe_psql('postgres', "SELECT shardfdw.promote_coordinator(restore_point => '$point')");
	my $actions = $here->safe_psql('postgres', q{SELECT string_agg(DISTINCT action, ', ') FROM shardfdw.recover_prepared_transactions() WHERE action NOT IN ('committed', 'rolled back')});
	is($actions, '', "$point: recovery has no doubts");
	note "$point: prepared on the nodes were: $prepared";

	@$c{qw(coordinator nodes)} = ($here, \@nodes);
	is(join(' ', map { $_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') } @nodes), '0 0', "$point: nothing stays prepared");
	my %found = $bank->audit;
	note sprintf '%s: %d transfers are there, %d acknowledged ones came later', $point, scalar $here->safe_psql('postgres', 'SELECT count(*) FROM entry_here'), scalar @{ $found{undone} };
	is("@{ $found{torn} }", '', "$point: nothing is torn");
	is("@{ $found{unasked} }", '', "$point: nothing is there that did not commit");
	is(join(' ', grep { $before{$point}{$_} } @{ $found{undone} }), '', "$point: what had been acknowledged before is there");
	is($found{balance}, 0, "$point: balances follow from the transfers");
	is($c->safe_psql('SELECT count(*) > 0 AND count(*) = max(n) FROM (SELECT n FROM chain UNION ALL SELECT n FROM chain_here) x'), 't', "$point: no commit on one server is there without those before it");
	is($c->safe_psql(ShardCluster::problems("check_cluster('rows', '$point')")), '', "$point: check_cluster() finds nothing");
	my %old = map { $_ => 1 } $bank->acknowledged;
	$bank->start;
	$bank->wait_for_transfers(5);
	$bank->stop;
	%found = $bank->audit;
	is("@{ $found{torn} }", '', "$point: the cluster works");
	$elsewhere{$_} = 1 for grep { !$old{$_} } $bank->acknowledged;
	$_->stop('immediate') for $here, @nodes;
	@$c{qw(coordinator nodes)} = @production{qw(coordinator nodes)};
}

# Production has not noticed.
is(join("\n", $c->safe_psql('SELECT * FROM shardfdw.recover_prepared_transactions()')), '', 'production has nothing to recover');
$bank->start;
$bank->wait_for_transfers(5);
$bank->stop;
my %found = $bank->audit;
is(join(' ', @{ $found{torn} }, grep({ !$elsewhere{$_} } @{ $found{undone} }), $found{balance}), '0', 'and goes on');

done_testing();
