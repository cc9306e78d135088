# Sets restore points of several coordinators. Base backups of different moments are restored to one
# point. The servers must agree about every transaction that clients have made through any
# coordinator. A restored commit must come with all commits that its client had seen acknowledged
# before, through any coordinator. A coordinator that has been restored to another moment must be
# reported.
#
# RESTORE_POINTS is the number of points that are set (12 by default). RESTORE_TO is the number of
# points to which all servers are restored (1 by default). RESTORE_CLIENTS is the number of clients
# (4 by default).

use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Utils;
use ShardPeers;
use ShardServer;
use Test::More;
use TransferBank;
use WireClient;

my $points = $ENV{RESTORE_POINTS} // 12;
my $restores = $ENV{RESTORE_TO} // 1;

my $p = ShardPeers->new(
	coordinators => 2,
	nodes        => 3,
	conf         => "shardfdw.recovery_interval = 1\n" . ShardServer::ARCHIVE_CONF,
	node_conf    => ShardServer::ARCHIVE_CONF);
my $c = $p->coordinator(1);
my @coordinators = map { $_->coordinator } $p->all;
my $bank = TransferBank->new($c, clients => $ENV{RESTORE_CLIENTS} // 4);

# ---------- commits that follow each other ----------

# Link n of the chain is written when n - 1 has been acknowledged: [ coordinator, counted from 0; the server that decides; statement ].
# Only rows of plain tables of two coordinators, one right after the other, would be in no order.
my @links = (
	[ 0, 'c1',    'INSERT INTO chain_here VALUES (%d)' ],
	[ 0, 'node2', 'INSERT INTO chain VALUES (2, %d)' ],
	[ 0, 'c1',    'INSERT INTO chain_here VALUES (%d)' ],
	[ 0, 'c1',    'INSERT INTO chain_everywhere VALUES (%d)' ],
	[ 0, 'node1', 'INSERT INTO chain VALUES (1, %d)' ],
	[ 1, 'c2',    'INSERT INTO chain_here VALUES (%d)' ],
	[ 1, 'node3', 'INSERT INTO chain VALUES (3, %d)' ],
	[ 1, 'c2',    'INSERT INTO chain_here VALUES (%d)' ],
	[ 1, 'c2',    'INSERT INTO chain_everywhere VALUES (%d)' ],
	[ 1, 'node2', 'INSERT INTO chain VALUES (2, %d)' ]);

$c->safe_psql(q{
	CREATE TABLE chain (node int, n bigint, PRIMARY KEY (node, n)) PARTITION BY LIST (node);
	SELECT shardfdw.create_shard('chain', 'chain_' || i, format('IN (%s)', i), ('node' || i)::name) FROM generate_series(1, 3) i;
	CREATE TABLE chain_here (n bigint PRIMARY KEY);
	CREATE TABLE chain_everywhere (n bigint PRIMARY KEY)});
$c->safe_psql(q{SELECT shardfdw.create_reference_table('chain_everywhere')});
$p->add_all;

# The other coordinator has the point on disk, too, when the call returns, whatever its WAL writer does.
$coordinators[1]->safe_psql('postgres', $_) for q{ALTER SYSTEM SET wal_writer_delay = '10s'}, 'SELECT pg_reload_conf()';
$c->safe_psql(q{SELECT shardfdw.create_restore_point('first')});
my $there = $c->safe_psql(q{SELECT lsn FROM shardfdw.restore_points WHERE node IN (SELECT name FROM shardfdw.coordinators)});
like($there, qr{^[0-9A-F]+/[0-9A-F]+$}, 'the position of the point on the other coordinator is known');
is($coordinators[1]->safe_psql('postgres', "SELECT pg_current_wal_flush_lsn() >= '$there'"), 't', 'it is on disk there');
$coordinators[1]->safe_psql('postgres', $_) for 'ALTER SYSTEM RESET wal_writer_delay', 'SELECT pg_reload_conf()';

my %servers = (map({ ("c$_" => $coordinators[ $_ - 1 ]) } 1, 2), map({ ("node$_" => $c->node($_)) } 1 .. 3));
my $chain;

sub start_chain
{
	$chain = fork // die "fork: $!";
	return if $chain;
	$SIG{$_} = 'DEFAULT' for qw(TERM INT ALRM CHLD __DIE__ __WARN__);
	my @sessions = map { WireClient->new($_, 'postgres') } @coordinators;
	for (my $n = 1;; $n++)
	{
		my ($i, undef, $statement) = @{ $links[ $n % @links ] };
		my $error = $sessions[$i]->query(sprintf $statement, $n)->{error};
		print STDERR "link $n: $error->{M}\n" if $error;
		POSIX::_exit(1) if $error;
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

# Returns the commits on a server, and its restore points, in the order of its WAL: numbers of
# transactions and targets.
sub history
{
	my ($server, $from) = @_;
	my ($out, $err);

	# it ends with an error, because the last segment has no next one
	IPC::Run::run([ 'pg_waldump', '-p', $server->archive_dir, '-s', $from ], '>', \$out, '2>', \$err);
	return map { /rmgr: Transaction.* tx:\s*(\d+),.* desc: COMMIT / ? $1 : /desc: RESTORE_POINT (\S+)/ ? $1 : () } split /\n/, $out;
}

# ---------- base backups and points, while others write ----------

my %from = map { $_ => $servers{$_}->safe_psql('postgres', 'SELECT pg_current_wal_lsn()') } keys %servers;
$bank->start(@coordinators);
start_chain();
for my $name (sort keys %servers)
{
	$bank->wait_for_transfers(5);
	$servers{$name}->backup('base');
}
my %before;    # target -> transfers that had been acknowledged when it was asked for
my @failed;
my $faults = $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
for my $n (1 .. $points)
{
	$bank->wait_for_transfers(1 + int(rand 20));
	my @acknowledged = $bank->acknowledged;
	# a stretch between the points of coordinators and nodes, in which a fence that is open would let links of the chain through
	my $slow = $faults ? q{SET shardfdw.fault_points = 'restore_point_peers=sleep:50';} : '';
	my ($rc, $target, $err) = $p->coordinator(1 + $n % 2)->psql("$slow SELECT shardfdw.create_restore_point('nightly')");
	$before{$target} = { map { $_ => 1 } @acknowledged };
	push @failed, $err if $rc;
}
is(join("\n", @failed), '', "$points restore points are set through both coordinators while clients write");
$bank->wait_for_transfers(5);
$bank->stop;
is(waitpid($chain, POSIX::WNOHANG()), 0, 'and so does who writes through both in turn');
stop_chain();
my @targets = sort keys %before;
$_->archive_wal for values %servers;

# each point, without a restore: the records before it in the WAL of all servers
my %rows = (c1 => 'chain_here UNION ALL SELECT xmin, n FROM chain_everywhere', c2 => 'chain_here UNION ALL SELECT xmin, n FROM chain_everywhere', map { ("node$_" => "chain_$_") } 1 .. 3);
my %is_before;    # target -> number of a link -> 1
for my $name (keys %servers)
{
	my %link = split /[|\n]/, $servers{$name}->safe_psql('postgres', "SELECT xmin, n FROM $rows{$name}");
	my @found;
	for my $event (history($servers{$name}, $from{$name}))
	{
		if ($before{$event})
		{
			$is_before{$event}{$_} = 1 for @found;
		}
		elsif (defined $link{$event} && $links[ $link{$event} % @links ][1] eq $name)
		{
			push @found, $link{$event};
		}
	}
}
my @gaps = grep { my $seen = $is_before{$_} // {}; !%$seen || grep { !$seen->{$_} } 1 .. (sort { $b <=> $a } keys %$seen)[0] } @targets;
note 'links before the points: ' . join ' ', map { scalar keys %{ $is_before{$_} } } sort { keys %{ $is_before{$a} } <=> keys %{ $is_before{$b} } } @targets;
is("@gaps", '', 'no commit is before a point without those that its client had been told of through any coordinator');

# ---------- all servers are restored to one point ----------

my $nrestored = 0;

sub restore { return map { ShardServer->restored('restored' . ++$nrestored, $servers{$_}, 'base', $_[0]) } @_[ 1 .. $#_ ]; }

# Points a restored coordinator's servers to restored nodes, as described on the page.
sub lead_to
{
	my ($coordinator, %at) = @_;
	$coordinator->safe_psql('postgres', 'SET shardfdw.enable_coordinator_propagation = off;'
		. join '', map { sprintf "ALTER SERVER %s OPTIONS (SET host '%s', SET port '%d');", $_, $at{$_}->host, $at{$_}->port } sort keys %at);
	return;
}

sub refused_by
{
	my ($server, $sql, $pattern, $name) = @_;
	my (undef, undef, $err) = $server->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	like($err, $pattern, $name);
	return;
}

my @names = sort keys %servers;
my @order = @targets;

for my $restore (1 .. $restores)
{
	my $point = splice @order, int(rand @order), 1;
	my %at;

	@at{@names} = restore($point, @names);
	my @new = @at{qw(c1 c2)};
	refused_by($new[0], "SELECT shardfdw.promote_coordinator(restore_point => '$point')", qr/55000: coordinator "c2" has not been restored to restore point/, "$point: an address that leads to a coordinator of production");
	refused_by($new[0], 'ALTER TABLE chain ADD COLUMN x int', qr/55000: this server is not confirmed as the coordinator/, "$point: no change of definitions reaches production");
	lead_to($_, %at) for @new;
	note "$point: prepared were " . join ' ', map { $at{$_}->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') } @names;
	$_->safe_psql('postgres', "SELECT shardfdw.promote_coordinator(restore_point => '$point')") for @new;
	is(join(' ', map { $_->safe_psql('postgres', q{SELECT string_agg(DISTINCT action, ', ') FROM shardfdw.recover_prepared_transactions() WHERE action NOT IN ('committed', 'rolled back')}) } @new), ' ', "$point: recovery has no doubts");
	is(join(' ', map { $at{$_}->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') } @names), '0 0 0 0 0', "$point: nothing stays prepared");
	is(join(' ', map { $_->safe_psql('postgres', ShardCluster::problems("check_cluster('rows', '$point')")) } @new), ' ', "$point: check_cluster() finds nothing");

	my %production = %$c;
	@$c{qw(coordinator nodes)} = ($new[0], [ @at{qw(node1 node2 node3)} ]);
	my %found = $bank->audit(@new);
	note sprintf '%s: %d acknowledged transfers came later', $point, scalar @{ $found{undone} };
	is("@{ $found{torn} }", '', "$point: nothing is torn");
	is("@{ $found{unasked} }", '', "$point: nothing is there that did not commit");
	is(join(' ', grep { $before{$point}{$_} } @{ $found{undone} }), '', "$point: what had been acknowledged before is there");
	is($found{balance}, 0, "$point: balances follow from the transfers");
	my @here = map { split /\n/, $_->safe_psql('postgres', 'SELECT n FROM chain_here') } @new;
	my @chain = sort { $a <=> $b } @here, split /\n/, $new[0]->safe_psql('postgres', 'SELECT n FROM chain UNION ALL SELECT n FROM chain_everywhere');
	is("@chain", join(' ', 1 .. keys %{ $is_before{$point} }), "$point: the chain is there as its WAL says");

	# the coordinators know each other, and work together
	$new[1]->safe_psql('postgres', 'ALTER TABLE chain ADD COLUMN note text; INSERT INTO chain_everywhere VALUES (-1)');
	$new[0]->safe_psql('postgres', q{INSERT INTO chain VALUES (1, -1, 'x'), (2, -1, 'y'); INSERT INTO chain_everywhere VALUES (-2)});
	is(join(' ', map { $_->safe_psql('postgres', 'SELECT (SELECT count(note) FROM chain) + (SELECT count(*) FROM chain_everywhere WHERE n < 0)') } @new), '4 4', "$point: the coordinators work together");
	like($new[1]->safe_psql('postgres', q{SELECT shardfdw.create_restore_point('again')}), qr/^again-/, "$point: and set points");
	is($new[0]->safe_psql('postgres', ShardCluster::problems(q{check_cluster('rows')})), '', "$point: and have the same");
	@$c{qw(coordinator nodes)} = @production{qw(coordinator nodes)};

	# one of the coordinators has been restored to another moment than the rest
	if ($restore == 1)
	{
		my ($other) = grep { $_ ne $point && $is_before{$_} && keys %{ $is_before{$_} } != keys %{ $is_before{$point} } } @targets;
		my ($torn) = restore($other, 'c1');

		lead_to($torn, %at);
		refused_by($torn, "SELECT shardfdw.promote_coordinator(restore_point => '$other')", qr/55000: coordinator "c2" has not been restored to restore point "$other"/, 'torn: the others are elsewhere');
		refused_by($torn, "SELECT shardfdw.promote_coordinator(restore_point => '$point')", qr/55000: the coordinator has not been restored to restore point "$point"\n.*DETAIL:  Its recovery has ended at restore point "$other"\./, 'torn: it is elsewhere itself');
		# if it is newer than the nodes, it detects that they lack changes of reference tables
		refused_by($torn, $_, qr/58000: node "\w+" is not known to have all|55000: (this server is not confirmed as the coordinator|coordinator [0-9a-f]{16} is not among those that coordinator "c2" knows)/, "torn: it changes nothing of the others: $_")
		  for 'CREATE TABLE torn (a int)', 'INSERT INTO chain VALUES (1, -3), (2, -3)';
		$new[1]->safe_psql('postgres', sprintf q{SET shardfdw.enable_coordinator_propagation = off; ALTER SERVER c1 OPTIONS (SET host '%s', SET port '%d')}, $torn->host, $torn->port);
		my $says = $new[1]->safe_psql('postgres', ShardCluster::problems("check_cluster('rows', '$point')", 'node, check_name, status, detail'));
		like($says, qr/^c1\|restore point\|error\|Its recovery has ended at restore point "$other"\.$/m, 'torn: check_cluster() on another one names it');
		like($says, qr/^c1\|.*\|error\|.*table public\.chain is another one there/m, 'and what it lacks');
		like($says, qr/^c1\|.*\|error\|reference table public\.chain_everywhere/m, 'rows of reference tables, too');
		$torn->stop('immediate');

		# only this one could be restored
		my ($alone) = restore($point, 'c2');
		lead_to($alone, map { $_ => $at{$_} } grep { /node/ } @names);
		$alone->safe_psql('postgres', q{SELECT shardfdw.remove_coordinator('c1')});
		like($alone->safe_psql('postgres', "SELECT shardfdw.promote_coordinator(restore_point => '$point')"), qr/^[0-9a-f]{16}$/, 'one alone takes over without the others');
		is($alone->safe_psql('postgres', 'SELECT string_agg(name, $$ $$) FROM shardfdw.coordinators'), 'c2', 'and is alone');
		$alone->safe_psql('postgres', 'INSERT INTO chain (node, n) VALUES (1, -4), (2, -4)');
		$alone->stop('immediate');
	}
	$_->stop('immediate') for values %at;
}

done_testing();
