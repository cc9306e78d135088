# TransferBank.pm - accounts on all nodes, clients that move money between them and keep a ledger, and an audit
# that names what is torn
#
#   my $bank = TransferBank->new($c);   # a ShardCluster
#   $bank->start;                       # clients are at work until stop
#   $bank->wait_for_transfers(20);      # so many more have been acknowledged
#   $bank->stop;
#   my %found = $bank->audit;
#
# Each transfer takes from an account on node 1, and gives the same amount to an account on each
# other node. It writes its number and the amount on all nodes (entry_1, entry_2...). It writes the
# same on its coordinator (entry_here, with the coordinator's transaction number). So each node by
# itself shows which transfers it has, and its balances follow from them. The audit asks the nodes
# directly, not through the coordinator, whose addresses may be wrong.
#
#   torn      transfers that one node has and another one lacks
#   undone    acknowledged transfers that all nodes lack, or that their coordinator lacks
#
#   unasked   transfers that a node has, and no coordinator ever committed
#   balance   accounts whose balance does not follow from the node's transfers

package TransferBank;

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(usleep);
use WireClient;

my $ACCOUNTS = 100;    # of each node
my $BALANCE = 1000;

# Waits within commits, so that more of them are half done at any moment.
my $SLEEPS = 'prepare_sent=sleep:10@0.2, prepared=sleep:20@0.2, commit=sleep:20@0.3, commit_sent=sleep:10@0.2';

sub new
{
	my ($class, $c, %opt) = @_;
	my $self = bless { cluster => $c, nodes => scalar(my @nodes = $c->nodes), clients => 5, runs => 0, children => [], known => {}, %opt }, $class;

	$self->{dir} = $c->coordinator->basedir . '/bank';
	mkdir $self->{dir};
	$c->safe_psql(qq{
		CREATE TABLE accounts (node int, id int, balance bigint NOT NULL, PRIMARY KEY (node, id)) PARTITION BY LIST (node);
		CREATE TABLE entry (node int, tid bigint, from_id int, to_id int, amount bigint, PRIMARY KEY (node, tid)) PARTITION BY LIST (node);
		CREATE TABLE entry_here (tid bigint PRIMARY KEY, xid text NOT NULL DEFAULT pg_current_xact_id());
		SELECT shardfdw.create_shard(t::regclass, t || '_' || n, format('IN (%s)', n), ('node' || n)::name) FROM unnest('{accounts,entry}'::text[]) t, generate_series(1, $self->{nodes}) n});
	$c->safe_psql("INSERT INTO accounts SELECT n, i, $BALANCE FROM generate_series(1, $self->{nodes}) n, generate_series(0, $ACCOUNTS) i");
	$self->{faults} = $c->safe_psql("SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'");
	return $self;
}

# One message with a complete transfer.
sub _transfer_sql
{
	my ($self, $tid, $from, $to) = @_;
	my $amount = 1 + int(rand 100);

	return "BEGIN; UPDATE accounts SET balance = balance + " . $self->_change(1, $amount) . " WHERE node = 1 AND id = $from;"
	  . join('', map { " UPDATE accounts SET balance = balance + $amount WHERE node = $_ AND id = $to;" } 2 .. $self->{nodes})
	  . ' INSERT INTO entry VALUES ' . join(', ', map { "($_, $tid, $from, $to, $amount)" } 1 .. $self->{nodes}) . ';'
	  . " INSERT INTO entry_here (tid) VALUES ($tid); COMMIT";
}

# The amount that a transfer adds to the balance of its account on node $i.
sub _change
{
	my ($self, $i, $amount) = @_;
	return $i == 1 ? "-$amount * ($self->{nodes} - 1)" : $amount;
}

# A number of which a thousand million follow that no other transfer has.
sub _next_tid
{
	my ($self) = @_;
	return ++$self->{runs} * 1_000_000_000;
}

# A transfer that is to fail, between accounts that no other one locks.
sub probe_sql
{
	my ($self) = @_;
	return $self->_transfer_sql($self->_next_tid, 0, 0);
}

# Tries transfers until stop. Lines of the ledger: ok, error or notice; number; message.
sub _client
{
	my ($self, $server, $n, $tid) = @_;
	my $session;

	open my $ledger, '>>', "$self->{dir}/ledger$n" or die "ledger: $!";
	$ledger->autoflush(1);
	while (!-e "$self->{dir}/stop")
	{
		$tid++;
		my $ok = eval {
			if (!$session)
			{
				$session = WireClient->new($server, $self->{cluster}{dbname});
				# a row that a prepared transaction has locked is not waited for to the end
				$session->query("SET statement_timeout = '4s'");
				$session->query("SET shardfdw.fault_points = '$SLEEPS'") if $self->{faults};
			}
			my $among = rand() < 0.2 ? 5 : $ACCOUNTS;
			my $result = $session->query($self->_transfer_sql($tid, 1 + int(rand $among), 1 + int(rand $among)));
			print $ledger "notice $tid $_->{M}\n" for @{ $result->{notices} };
			if (my $error = $result->{error})
			{
				print $ledger "error $tid $error->{C} $error->{M}\n" =~ s/\n(?!\z)/ /gr;
				$session->query('ROLLBACK');
				usleep(20_000);
			}
			else
			{
				print $ledger "ok $tid\n";
			}
			1;
		};
		next if $ok;
		print $ledger "error $tid 58000 $@" =~ s/\n(?!\z)/ /gr;
		undef $session;
		usleep(50_000);
	}
	return;
}

# Starts clients that use coordinators in turn: that of the cluster, or the given servers.
sub start
{
	my ($self, @servers) = @_;
	@servers = $self->{cluster}->coordinator if !@servers;

	unlink "$self->{dir}/stop";
	for my $n (1 .. $self->{clients})
	{
		my $tid = $self->_next_tid;
		my $seed = int(rand 1_000_000);
		my $pid = fork // die "fork: $!";
		if ($pid == 0)
		{
			$SIG{$_} = 'DEFAULT' for qw(TERM INT ALRM CHLD __DIE__ __WARN__);
			$SIG{PIPE} = 'IGNORE';
			srand $seed;
			eval { $self->_client($servers[ $n % @servers ], $n, $tid) };
			POSIX::_exit(0);    # none of the parent's clean-up
		}
		push @{ $self->{children} }, $pid;
	}
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

# Stops the clients, also if the test ends with an error.
sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	kill 'KILL', @{ $self->{children} };
	waitpid $_, 0 for @{ $self->{children} };
	return;
}

sub _lines
{
	my ($self, $kind) = @_;
	my @lines;

	for my $file (glob "$self->{dir}/ledger*")
	{
		# the last line may be under way
		push @lines, PostgreSQL::Test::Utils::slurp_file($file) =~ /^$kind (.*)\n/mg;
	}
	return @lines;
}

# Numbers of the transfers that were reported to clients as committed.
sub acknowledged { return $_[0]->_lines('ok'); }

# "number SQLSTATE message" of failed transfers; "number message" of warnings.
sub errors { return $_[0]->_lines('error'); }
sub notices { return $_[0]->_lines('notice'); }

sub _wait_until_more
{
	my ($self, $what, $count, $more) = @_;
	my $goal = $count->() + $more;

	for (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $count->() >= $goal;
		usleep(50_000);
	}
	die "waited in vain for $more $what; the last errors: " . join "\n", (sort $self->errors)[ -5 .. -1 ];
}

sub wait_for_transfers
{
	my ($self, $n) = @_;
	return $self->_wait_until_more('transfers', sub { scalar $self->acknowledged }, $n);
}

# Waits for so many more transfers that fail with a message like pattern.
sub wait_for_errors
{
	my ($self, $n, $pattern) = @_;
	return $self->_wait_until_more("errors like $pattern", sub { scalar grep { /$pattern/ } $self->errors }, $n);
}

# Records the commits of a coordinator for the audit after the loss of the server: number of the
# transaction -> number of the transfer.
sub learn
{
	my ($self, $server) = @_;
	my %by_xid;

	for (split /\n/, $server->safe_psql($self->{cluster}{dbname}, 'SELECT xid, tid FROM entry_here'))
	{
		my ($xid, $tid) = split /\|/;
		$by_xid{$xid} = $tid;
		$self->{known}{$tid} = 1;
	}
	return %by_xid;
}

# The transfers that a node has: number -> [ from, to, amount ].
sub entries
{
	my ($self, $server, $i) = @_;
	my %entries;

	for (split /\n/, $server->safe_psql($self->{cluster}{dbname}, "SELECT tid, from_id, to_id, amount FROM entry_$i"))
	{
		my ($tid, @rest) = split /\|/;
		$entries{$tid} = \@rest;
	}
	return \%entries;
}

# Has node $i, which has lost them in a restore, do transfers once more; entries as of the other node.
sub repair
{
	my ($self, $i, $entries) = @_;
	my $sql = '';

	for my $tid (sort keys %$entries)
	{
		my ($from, $to, $amount) = @{ $entries->{$tid} };
		my ($id, $change) = ($i == 1 ? $from : $to, $self->_change($i, $amount));
		$sql .= "INSERT INTO entry_$i VALUES ($i, $tid, $from, $to, $amount); UPDATE accounts_$i SET balance = balance + ($change) WHERE id = $id;\n";
	}
	$self->{cluster}->node_safe_psql($i, "BEGIN;\n${sql}COMMIT") if $sql ne '';
	return;
}

# Call it when nodes have no prepared transactions, and no client runs. Coordinators: those of
# start().
sub audit
{
	my ($self, @coordinators) = @_;
	my $c = $self->{cluster};
	my %found = (torn => [], undone => [], unasked => [], balance => 0);

	$self->learn($_) for @coordinators ? @coordinators : $c->coordinator;
	my @entries = map { $self->entries($c->node($_), $_) } 1 .. $self->{nodes};
	for my $tid (sort keys %{ { map { %$_ } @entries } })
	{
		push @{ $found{torn} }, $tid if grep { !$_->{$tid} } @entries;
		push @{ $found{unasked} }, $tid unless $self->{known}{$tid};
	}
	for my $tid ($self->acknowledged)
	{
		push @{ $found{undone} }, $tid unless $self->{known}{$tid} && grep { $_->{$tid} } @entries;
	}
	for my $i (1 .. $self->{nodes})
	{
		my ($id, $change) = ($i == 1 ? 'from_id' : 'to_id', $self->_change($i, 'amount'));
		$found{balance} += $c->node_safe_psql($i, qq{SELECT count(*) FROM accounts_$i a
			WHERE balance <> $BALANCE + coalesce((SELECT sum($change) FROM entry_$i WHERE $id = a.id), 0)});
	}
	return %found;
}

1;
