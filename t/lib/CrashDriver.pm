# CrashDriver.pm - a bank over several nodes, clients that keep a ledger, and things that crash
#
#   my $bank = CrashDriver->new(cluster => $c, clients => 6, seed => 1);
#   $bank->start;                       # clients run until stop
#   $bank->crash($_) for 1 .. 20;       # all kinds in turn
#   $bank->stop;
#   my %found = $bank->verdict;         # counts that have to be 0, and figures
#
# pause: microseconds between two transactions of a client; without it clients do all that the processors can.
#
# Each transaction of a client moves money between two accounts. In 4 of 10 transactions these are
# among the $HOT accounts that all clients use. The transaction also writes its number into three
# tables: entry_a under the number, entry_b under the negative number (often on another node), and
# entry_here on the coordinator. Some transactions use savepoints or NOTIFY, or are rolled back.
# Between transactions, clients run single statements, each of which commits on one node and writes its
# number into entry_one. After the server has confirmed the commit, the client writes the number into
# its ledger file. An auditor repeatedly reads the sum of all accounts in cluster snapshots. Another
# process runs CHECKPOINT on one server after the other, in random order.
#
#   lost      numbers in a ledger that some table lacks: an acknowledged commit is not there
#   halves    numbers that some of the tables have and others lack
#   balance   what all accounts hold more or less than at the start
#
#   audits    sums that the auditor has read
#   wrong     sums that differ from the sum at the start
#
#   prepared  transactions that are still prepared on nodes ten seconds after two rounds of recovery
#   panics    lines with PANIC in the servers' logs
#   outlived  backends that were there a minute after their postmaster had died
#
#   acknowledged, committed   numbers in the ledgers, and in the three tables
#   reached   the fault points at which a process died

package CrashDriver;

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(usleep sleep time);

my $ACCOUNTS = 200;
my $HOT = 6;           # of these, accounts that everybody wants
my $INTERVAL_S = 1;    # shardfdw.recovery_interval of the cluster

# Points at which a commit can be interrupted, with the names of src/fault.h. The backend ends there
# as after kill -9.
my @POINTS = qw(prepare prepare_sent prepared commit commit_sent committed rollback rollback_sent rolled_back recover recovered);

sub points { return @POINTS; }

# The settings that new() expects of the coordinator, in addition to `preload`.
sub coordinator_conf { return "shardfdw.recovery_interval = $INTERVAL_S\ncheckpoint_timeout = 30s\n"; }

sub new
{
	my ($class, %opt) = @_;
	my $self = bless { clients => 6, seed => 1, pause => 0, %opt, kinds => {} }, $class;
	my $c = $self->{cluster};

	srand $self->{seed};
	$self->{dir} = $c->coordinator->basedir . '/crash';
	mkdir $self->{dir};
	$c->safe_psql(qq{
		CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
		CREATE TABLE entry_a (tid bigint PRIMARY KEY);
		CREATE TABLE entry_b (tid bigint PRIMARY KEY);
		CREATE TABLE entry_one (tid bigint PRIMARY KEY);
		CREATE TABLE entry_here (tid bigint PRIMARY KEY)});
	$c->shard_table($_->[0], $_->[1], shards => 8) for [ 'accounts', 'id' ], [ 'entry_a', 'tid' ], [ 'entry_b', 'tid' ], [ 'entry_one', 'tid' ];
	$c->safe_psql("INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, $ACCOUNTS) i");
	$self->{total} = $c->safe_psql('SELECT sum(balance) FROM accounts');
	$self->{faults} = $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
	return $self;
}

# The statements of a client for transaction $tid. Some transactions are rolled back at the end,
# some use a savepoint. Some write all checked rows in subtransactions, so that the prepared
# transactions of nodes have children (R12).
sub _transaction
{
	my ($tid) = @_;
	return "INSERT INTO entry_one VALUES ($tid);\n\\if :ERROR\n\\else\n\\echo one $tid\n\\endif\n" if rand() < 0.15;
	my $among = rand() < 0.4 ? $HOT : $ACCOUNTS;
	my ($from, $to) = (1 + int(rand $among), 1 + int(rand $among));
	my $amount = 1 + int(rand 100);
	my ($low, $high) = sort { $a <=> $b } ($from, $to);    # one order, or clients would wait for each other
	my %by = ($from => -$amount);
	$by{$to} += $amount;
	my $sql = join '', map { "UPDATE accounts SET balance = balance + ($by{$_}) WHERE id = $_\\;" } ($low == $high ? $low : ($low, $high));
	my $negative = -$tid;
	my $end = rand() < 0.1 ? 'ROLLBACK' : 'COMMIT';

	$sql .= "NOTIFY bank\\;" if rand() < 0.1;
	$sql .= "SAVEPOINT s\\;INSERT INTO entry_a VALUES ($negative)\\;ROLLBACK TO s\\;" if rand() < 0.2;
	if (rand() < 0.3)
	{
		$sql .= "SAVEPOINT o\\;INSERT INTO entry_a VALUES ($tid)\\;SAVEPOINT i\\;INSERT INTO entry_b VALUES ($tid)\\;ROLLBACK TO i\\;"
		  . "INSERT INTO entry_b VALUES ($negative)\\;RELEASE i\\;INSERT INTO entry_here VALUES ($tid)\\;RELEASE o\\;";
	}
	else
	{
		$sql .= "INSERT INTO entry_a VALUES ($tid)\\;INSERT INTO entry_b VALUES ($negative)\\;INSERT INTO entry_here VALUES ($tid)\\;";
	}
	return "BEGIN\\;$sql$end;\n\\if :ERROR\nROLLBACK;\n\\else\n" . ($end eq 'COMMIT' ? "\\echo $tid\n" : '') . "\\endif\n";
}

# Runs a client: one psql after the other, each until its server has stopped.
sub _client
{
	my ($self, $n) = @_;
	my $server = $self->{cluster}->coordinator;
	my $ledger = "$self->{dir}/ledger$n";
	my $tid = $n * 100_000_000;

	srand($self->{seed} * 1000 + $n);
	$SIG{PIPE} = 'IGNORE';
	open STDOUT, '>>', $ledger or die "$ledger: $!";
	open STDERR, '>>', "$self->{dir}/errors$n" or die $!;
	while (!-e "$self->{dir}/stop")
	{
		open my $psql, '|-', $server->installed_command('psql'), '-XqAt', '-v', 'ON_ERROR_STOP=0', $server->connstr($self->{cluster}{dbname})
		  or die "psql: $!";
		$psql->autoflush(1);
		while (!-e "$self->{dir}/stop")
		{
			print $psql _transaction(++$tid) or last;
			usleep($self->{pause}) if $self->{pause};
		}
		close $psql;
		usleep(50_000);
	}
	return;
}

# Reads the sum of all accounts at one moment. Errors are ignored.
sub _auditor
{
	my ($self) = @_;
	my $server = $self->{cluster}->coordinator;

	$SIG{PIPE} = 'IGNORE';
	open STDOUT, '>>', "$self->{dir}/audits" or die $!;
	open STDERR, '>', '/dev/null' or die $!;
	while (!-e "$self->{dir}/stop")
	{
		open my $psql, '|-', $server->installed_command('psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1', $server->connstr($self->{cluster}{dbname})
		  or die "psql: $!";
		$psql->autoflush(1);
		print $psql "SET shardfdw.snapshot = 'cluster';\n";
		while (!-e "$self->{dir}/stop")
		{
			print $psql "SELECT sum(balance) FROM accounts;\n" or last;
			usleep(5_000 + $self->{pause});
		}
		close $psql;
		usleep(50_000);
	}
	return;
}

sub _checkpoints
{
	my ($self) = @_;
	my @servers = ($self->{cluster}->coordinator, $self->{cluster}->nodes);

	open STDOUT, '>', '/dev/null' or die $!;
	open STDERR, '>', '/dev/null' or die $!;
	while (!-e "$self->{dir}/stop")
	{
		my $server = $servers[ rand @servers ];
		system($server->installed_command('psql'), '-XqAt', '-c', 'CHECKPOINT', $server->connstr('postgres'));
		usleep(200_000);
	}
	return;
}

sub _fork
{
	my ($self, $work) = @_;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		$work->();
		POSIX::_exit(0);    # none of the parent's clean-up
	}
	push @{ $self->{children} }, $pid;
	return;
}

sub start
{
	my ($self) = @_;
	for my $n (1 .. $self->{clients})
	{
		$self->_fork(sub { $self->_client($n) });
	}
	$self->_fork(sub { $self->_auditor });
	$self->_fork(sub { $self->_checkpoints });
	return;
}

# Stops the clients, also if the test ends with an error.
sub DESTROY
{
	my ($self) = @_;
	local $?;
	$self->stop if $self->{children} && @{ $self->{children} };
	return;
}

sub _pid_of_backend
{
	my ($server, $dbname) = @_;
	my ($rc, $pid) = $server->psql($dbname, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle' ORDER BY random() LIMIT 1");
	return ($pid // '') =~ /^(\d+)$/ ? $1 : undef;
}

# Has the server been started again by its postmaster?
sub _wait_up
{
	my ($self, $server, $what) = @_;
	my $end = time + 60;

	while (time < $end)
	{
		my ($rc) = $server->psql($self->{cluster}{dbname}, 'SELECT 1');
		return if $rc == 0;
		usleep(50_000);
	}
	die "the server did not come back after $what";
}

# Runs the $i-th crash. It is a power cut of the coordinator or of a node, a kill of a single
# backend, or a kill of the coordinator's postmaster alone. Or a node hangs for a while, or its
# sessions are terminated. If the library has fault points, the process dies at each of them in
# turn.
sub crash
{
	my ($self, $i) = @_;
	my $c = $self->{cluster};
	my @kinds = (qw(coordinator node backend node_backend hang terminate postmaster), $self->{faults} ? @POINTS : ());
	my $kind = $kinds[ ($i - 1) % @kinds ];
	my $nodeno = 1 + int(rand scalar($c->nodes));

	sleep 0.3 + rand 0.5;
	$self->{kinds}{$kind}++;
	if ($kind eq 'coordinator')
	{
		$c->kill9_coordinator;
		$c->coordinator->start;
	}
	elsif ($kind eq 'node')
	{
		# twice: its prepared transactions are replayed from the WAL, and then again (R12)
		for (1 .. 2)
		{
			$c->kill9_node($nodeno);
			sleep rand 0.5;
			$c->start_node($nodeno);
		}
	}
	elsif ($kind eq 'hang')
	{
		$c->sigstop_node($nodeno);
		sleep 0.1 + rand 2;
		$c->sigcont_node($nodeno);
	}
	elsif ($kind eq 'terminate')
	{
		$c->node($nodeno)->psql($c->{dbname}, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%'");
	}
	elsif ($kind eq 'postmaster')
	{
		# its backends end by themselves, in the middle of a commit, too
		my ($postmaster, @backends) = ShardCluster::_pids($c->coordinator);
		my $end = time + 60;
		kill 'KILL', $postmaster;
		usleep(10_000) while (grep { ShardCluster::_state($_) =~ /[^ZX]/ } @backends) && time < $end;
		$self->{outlived} += grep { ShardCluster::_state($_) =~ /[^ZX]/ } @backends;
		$c->kill9_coordinator;
		$c->coordinator->start;
	}
	elsif ($kind eq 'backend' || $kind eq 'node_backend')
	{
		my $server = $kind eq 'backend' ? $c->coordinator : $c->node($nodeno);
		my $pid = _pid_of_backend($server, $c->{dbname});

		kill 'KILL', $pid if defined $pid;
		$self->_wait_up($server, "kill -9 of a backend");
	}
	else
	{
		$self->_crash_at($kind);
	}
	return $kind;
}

# A process of the coordinator crashes at a fault point. The load reaches the point soon, unless the
# machine is busy.
sub _crash_at
{
	my ($self, $point) = @_;
	my $server = $self->{cluster}->coordinator;
	my $mark = -s $server->logfile;
	my $end = time + 30;

	# recovery reaches the point once a second, commits reach it all the time; rollbacks of prepared
	# transactions reach it only after an error
	$self->_set_faults($point =~ /^recover/ ? "$point=abort"
		: $point =~ /^roll/ ? "prepared=error\@0.2, $point=abort"
		: "$point=abort\@0.2");
	while (time < $end)
	{
		if (PostgreSQL::Test::Utils::slurp_file($server->logfile, $mark) =~ /was terminated by signal 9/)
		{
			$self->{reached}{$point}++;
			last;
		}
		usleep(50_000);
	}
	$self->_set_faults('');
	$self->_wait_up($server, "a death at \"$point\"");
	return;
}

# The setting is in a separate file, which can be written when the server is down.
sub _set_faults
{
	my ($self, $value) = @_;
	my $server = $self->{cluster}->coordinator;
	my $path = $server->data_dir . '/faults.conf';

	open my $fh, '>', "$path.new" or die "$path.new: $!";
	print $fh "shardfdw.fault_points = '$value'\n";
	close $fh;
	rename "$path.new", $path or die "$path: $!";
	if (!$self->{included})
	{
		$server->append_conf('postgresql.conf', "include_if_exists = 'faults.conf'");
		$self->{included} = 1;
	}
	kill 'HUP', $server->{_pid};
	usleep(100_000);
	return;
}

sub stop
{
	my ($self) = @_;
	open my $fh, '>', "$self->{dir}/stop" or die $!;
	close $fh;
	waitpid $_, 0 for @{ $self->{children} };
	$self->{children} = [];
	return;
}

sub _prepared
{
	my ($self) = @_;
	my $n = 0;

	$n += $_->safe_psql($self->{cluster}{dbname}, "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'") for $self->{cluster}->nodes;
	return $n;
}

# After stop: the counts above, and committed, acknowledged, reached (names of the fault points that were).
sub verdict
{
	my ($self) = @_;
	my $c = $self->{cluster};
	my %found;
	my %have;
	my $end = time + 2 * $INTERVAL_S + 10;

	# Some sessions have ended without a trace. Recovery resolves their transactions.
	$self->_wait_up($_, 'the end') for $c->coordinator, $c->nodes;
	usleep(200_000) while $self->_prepared > 0 && time < $end;
	$found{prepared} = $self->_prepared;

	my @tables = ([ 'entry_a', 'tid' ], [ 'entry_b', '-tid' ], [ 'entry_here', 'tid' ]);
	for my $i (0 .. $#tables)
	{
		$have{$_} |= 1 << $i for split /\n/, $c->safe_psql("SELECT $tables[$i][1] FROM $tables[$i][0]");
	}
	$found{halves} = grep { $_ != 7 } values %have;
	$found{committed} = keys %have;
	$found{balance} = $c->safe_psql("SELECT sum(balance) - $self->{total} FROM accounts");
	$found{acknowledged} = $found{lost} = $found{audits} = $found{wrong} = $found{panics} = 0;
	my %one = map { $_ => 1 } split /\n/, $c->safe_psql('SELECT tid FROM entry_one');
	for my $sum (grep { /^-?\d+$/ } split /\n/, PostgreSQL::Test::Utils::slurp_file("$self->{dir}/audits"))
	{
		$found{audits}++;
		$found{wrong}++ if $sum != $self->{total};
	}
	for my $server ($c->coordinator, $c->nodes)
	{
		$found{panics}++ while PostgreSQL::Test::Utils::slurp_file($server->logfile) =~ /PANIC: /g;
	}
	for my $ledger (glob "$self->{dir}/ledger*")
	{
		for my $tid (split /\n/, PostgreSQL::Test::Utils::slurp_file($ledger))
		{
			$found{acknowledged}++;
			$found{lost}++ unless $tid =~ /^one (\d+)$/ ? $one{$1} : ($have{$tid} // 0) == 7;
		}
	}
	$found{outlived} = $self->{outlived} // 0;
	$found{reached} = join ' ', sort keys %{ $self->{reached} // {} };
	return %found;
}

1;
