# ShardCluster.pm - one coordinator and N nodes for a TAP test
#
# Built on core's PostgreSQL::Test::Cluster (the names that 15 to 19 have), see ShardServer. Every server is its own
# cluster with its own system identifier, listens on a Unix socket and on 127.0.0.1, and ends with the
# test; a server that was stopped by a signal is woken up first.
#
#   use ShardCluster;
#   my $c = ShardCluster->new(nodes => 2);
#   $c->safe_psql('CREATE TABLE t (id bigint, v text)');
#   $c->shard_table('t', 'id', shards => 4);
#   $c->kill9_node(2);
#
# Nodes count from 1 and are called node1, node2, ... in SQL too.
#
#   for my $n (0 .. $#cases) { run($cases[$n]) if ShardCluster::in_half($n); }

package ShardCluster;

use strict;
use warnings;

use Carp;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use ShardServer;
use Test::More ();
use Time::HiRes qw(usleep);
use WireClient;

# Settings for small, fast servers without background work, which would change a test's plans or
# times. Queries over foreign tables seem so expensive that they would be compiled, which takes
# longer than the queries; tests of compiled queries turn that on.
my $common_conf = q{
shared_buffers = 32MB
max_connections = 100
max_prepared_transactions = 20
max_worker_processes = 16
autovacuum = off
fsync = off
full_page_writes = off
jit = off
restart_after_crash = on
log_statement = none
log_line_prefix = '%m [%p] %q%a '
listen_addresses = '127.0.0.1'
timezone = 'UTC'
};

# Is case n of a grid of cases, or random case n, to be run? GRID_HALF=1 runs one half of the cases,
# and GRID_HALF=2 the other half. .ci/run gives each major one half. Without GRID_HALF all cases run.
# The half depends on the number of bits that are set in n. So each half has all values of an inner
# loop.
sub in_half
{
	my ($n) = @_;
	return !halved() || unpack('%32b*', pack 'N', $n) % 2 == $ENV{GRID_HALF} - 1;
}

sub halved { return defined $ENV{GRID_HALF}; }

my $nclusters = 0;
my %stopped;    # postmaster's pid -> pids that got SIGSTOP

# new(%options): starts the servers, creates the extension and adds the nodes.
#
#   nodes             how many (default 2)
#   preload           also put the library into the coordinator's shared_preload_libraries
#   coordinator_conf  lines for the coordinator's postgresql.conf
#   node_conf         lines for every node's postgresql.conf
#
#   extension         0: leave the coordinator without the extension and the nodes
#   add_nodes         0: create the extension, but add no node
#   host              'socket' (default) or 'tcp': how the coordinator reaches the nodes
sub new
{
	my ($class, %opt) = @_;
	my $self = bless {
		dbname => 'postgres',
		host   => $opt{host} // 'socket',
		nodes  => [],
	}, $class;
	my $prefix = $nclusters++ ? "c$nclusters" : '';

	my $conf = $opt{coordinator_conf} // '';
	$conf = "shared_preload_libraries = 'shardfdw'\n$conf" if $opt{preload};
	$self->{coordinator} = _start_server("${prefix}coordinator", $conf);
	for my $i (1 .. $opt{nodes} // 2)
	{
		push @{ $self->{nodes} },
		  _start_server("${prefix}node$i", $opt{node_conf} // '');
	}

	if ($opt{extension} // 1)
	{
		$self->safe_psql('CREATE EXTENSION shardfdw');
		if ($opt{add_nodes} // 1)
		{
			$self->add_node($_) for 1 .. @{ $self->{nodes} };
		}
	}
	return $self;
}

sub _start_server
{
	my ($name, $conf) = @_;
	my $server = ShardServer->new($name);

	$server->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
	$server->append_conf('postgresql.conf', $common_conf . $conf);
	$server->start;
	return $server;
}

# The beginning of the coordinator's prepared transaction identifiers, without the transaction and
# the random number. Its time is in the future, so that the commit log's rows cannot have been
# deleted.
sub gid_prefix
{
	my ($self) = @_;
	return $self->safe_psql(q{SELECT format('shardfdw:%s:%s:%s:%s:', system_identifier, database, identity, (extract(epoch FROM now() + interval '1 hour') * 1000000)::bigint)
		FROM shardfdw_internal.coordinator JOIN pg_control_system() s USING (system_identifier) WHERE taken_over_at IS NULL});
}

# Query for the results of a check, except "ok". call: check_cluster(...). A warning that a server's
# minor release is outdated is left out: it depends on the machine.
sub problems
{
	my ($call, $columns) = @_;
	$columns //= 'node, check_name, detail';
	return qq{SELECT $columns FROM shardfdw.$call problem WHERE status <> 'ok' AND (check_name, status) <> ('version', 'warning')};
}

# Rows of the commit log whose transactions are not known to be resolved.
sub unsettled
{
	return q{SELECT count(*) FROM shardfdw_internal.commit_log u WHERE settled_at IS NULL
		AND NOT EXISTS (SELECT FROM shardfdw_internal.commit_log n WHERE n.confirms_xid = u.xid AND n.confirms_token = u.token)};
}

sub coordinator { return $_[0]->{coordinator}; }
sub nodes { return @{ $_[0]->{nodes} }; }

# The ShardServer of node $i.
sub node
{
	my ($self, $i) = @_;
	croak "there is no node $i" if $i < 1 || $i > @{ $self->{nodes} };
	return $self->{nodes}[ $i - 1 ];
}

# Returns the address of node $i as the coordinator uses it: (host, port).
sub node_address
{
	my ($self, $i) = @_;
	my $node = $self->node($i);
	return ($self->{host} eq 'tcp' ? '127.0.0.1' : $node->host, $node->port);
}

sub add_node
{
	my ($self, $i) = @_;
	my ($host, $port) = $self->node_address($i);
	return $self->safe_psql(
		"SELECT shardfdw.add_node('node$i', '$host', $port, '$self->{dbname}')");
}

# SQL on the coordinator. psql returns (exit code, stdout, stderr); safe_psql returns stdout and
# dies on an error. Options are those of PostgreSQL::Test::Cluster.
sub psql
{
	my ($self, $sql, %opt) = @_;
	return $self->{coordinator}->psql($self->{dbname}, $sql, %opt);
}

sub safe_psql
{
	my ($self, $sql, %opt) = @_;
	return $self->{coordinator}->safe_psql($self->{dbname}, $sql, %opt);
}

# The same on node $i.
sub node_psql
{
	my ($self, $i, $sql, %opt) = @_;
	return $self->node($i)->psql($self->{dbname}, $sql, %opt);
}

sub node_safe_psql
{
	my ($self, $i, $sql, %opt) = @_;
	return $self->node($i)->safe_psql($self->{dbname}, $sql, %opt);
}

# ask(sql, i): returns what safe_psql returns, on the coordinator or on node i. It keeps the
# session, and opens it again if it is lost. This takes a fifth of the time, for tests with hundreds
# of queries. The statements of one call are one transaction.
sub ask
{
	my ($self, $sql, $i) = @_;
	my $server = defined $i ? $self->node($i) : $self->{coordinator};
	my $result;

	local $SIG{PIPE} = 'IGNORE';
	for my $last (0, 1)
	{
		my $client = $self->{sessions}{ $i // 0 } //= WireClient->new($server, $self->{dbname});
		$result = eval { $client->query($sql) };
		last if $result && !($result->{error} && $result->{error}{S} eq 'FATAL');
		delete $self->{sessions}{ $i // 0 };
		croak $result ? $result->{error}{M} : $@ if $last;
	}
	croak "$result->{error}{M} while running: $sql" if $result->{error};
	return join "\n", map { join '|', map { $_ // '' } @$_ } @{ $result->{rows} };
}

# Passes when $sql on the coordinator fails with standard error like $pattern.
sub psql_fails_like
{
	my ($self, $sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $self->psql("\\set VERBOSITY verbose\n$sql", on_error_stop => 1);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return Test::More::ok(0, $name) || Test::More::diag("it did not fail, and printed: $out")
	  if $rc == 0;
	return Test::More::like($err, $pattern, $name);
}

# shard_table(table, key, %options): options are the named arguments of shardfdw.shard_table, as SQL
# text; but a plain number or name is used unchanged.
sub shard_table
{
	my ($self, $table, $key, %opt) = @_;
	my @args = ("'$table'", defined $key ? "'$key'" : 'NULL');

	for my $name (sort keys %opt)
	{
		my $value = $opt{$name};
		if (ref $value eq 'ARRAY')
		{
			$value = "ARRAY['" . join("','", @$value) . "']::name[]";
		}
		elsif ($value =~ /^[a-z_.]+$/)
		{
			$value = "'$value'";
		}
		push @args, "$name => $value";
	}
	return $self->safe_psql('SELECT shardfdw.shard_table(' . join(', ', @args) . ')');
}

# The shards of a table: a list of [name on the coordinator and on the node, the node's number].
sub shards_of
{
	my ($self, $table) = @_;
	my $rows = $self->safe_psql(
		qq{SELECT ftrelid::regclass, substr(srvname, 5) FROM pg_inherits
			JOIN pg_foreign_table ON ftrelid = inhrelid JOIN pg_foreign_server s ON s.oid = ftserver
			WHERE inhparent = '$table'::regclass ORDER BY ftrelid::regclass::text});
	return map { [ split /\|/ ] } split /\n/, $rows;
}

# Starts a query that runs while the test does something else. Returns a handle for wait_sql. The
# session has a separate application_name, so that pg_stat_activity shows it.
my $nbackground = 0;

sub start_sql
{
	my ($self, $sql, %opt) = @_;
	my $stem = PostgreSQL::Test::Utils::tempdir() . '/sql';
	my $handle = {
		name => $opt{name} // 'background_' . ++$nbackground,
		out  => "$stem.out",
		err  => "$stem.err",
	};
	my $connstr = $self->{coordinator}->connstr($self->{dbname});

	# Files, not pipes: the test does not read a pipe while it does something else.
	open my $fh, '>', "$stem.sql" or croak "could not write $stem.sql: $!";
	print $fh $sql;
	close $fh;
	$handle->{run} = IPC::Run::start(
		[
			'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', "$stem.sql", '-d',
			"$connstr application_name='$handle->{name}'"
		],
		'<', '/dev/null', '>', $handle->{out}, '2>', $handle->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $handle;
}

# Waits for the end of the query. Returns (exit code, stdout, stderr).
sub wait_sql
{
	my ($self, $handle) = @_;

	$handle->{run}->finish;
	my ($out, $err) =
	  map { PostgreSQL::Test::Utils::slurp_file($_) } ($handle->{out}, $handle->{err});
	chomp $out;
	return ($handle->{run}->result(0), $out, $err);
}

# Waits until $sql returns true; on the coordinator, or on a node.
sub wait_for
{
	my ($self, $sql, $i) = @_;
	my $server = defined $i ? $self->node($i) : $self->{coordinator};
	return $server->poll_query_until($self->{dbname}, $sql)
	  || croak "timed out waiting for: $sql";
}

# Waits until no node has a temporary replication slot: it ends a moment after the connection of its job.
sub wait_for_slots
{
	my ($self) = @_;
	$self->ask_until('SELECT count(*) = 0 FROM pg_replication_slots WHERE temporary', $_) for 1 .. @{ $self->{nodes} };
	return;
}

# Waits until the coordinator has restarted after the crash of one of its processes. The client of that process sees
# the end of its connection before the postmaster does. Until then the postmaster accepts new sessions, and ends them.
sub wait_for_restart
{
	my ($self) = @_;
	my $pattern = qr/all server processes terminated; reinitializing/;

	$self->wait_for_log($pattern, $self->{restarted_at});
	$self->log_since($self->{restarted_at}) =~ /$pattern/;
	$self->{restarted_at} += $+[0];
	return $self->wait_for('SELECT true');
}

# Sets the actions of the coordinator's processes at named points (src/fault.h); '' for none. On
# return all processes have the setting: the postmaster sends it to running processes before it
# starts one with the new value.
sub set_faults
{
	my ($self, $text) = @_;
	$self->safe_psql("LOAD 'shardfdw'; ALTER SYSTEM SET shardfdw.fault_points = '$text'; SELECT pg_reload_conf()");
	$self->wait_for("SELECT current_setting('shardfdw.fault_points', true) = '$text'");
	return;
}

# Ends the coordinator's sessions on nodes @i (on all nodes by default), and waits for their end:
# after its termination, a session may still answer for a while.
sub end_sessions_on
{
	my ($self, @i) = @_;

	$self->node_safe_psql($_, q{
		DO $$
		BEGIN
			WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%')
			LOOP
				-- A session that was still being opened is terminated in a later round.
				PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%';
				PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
			END LOOP;
		END $$}) for @i ? @i : 1 .. @{ $self->{nodes} };
	return;
}

# The same by the session of ask().
sub ask_until
{
	my ($self, $sql, $i) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $pause = 10_000;

	until ($self->ask($sql, $i) eq 't')
	{
		croak "timed out waiting for: $sql" if time > $end;
		usleep($pause);
		$pause *= 2 if $pause < 80_000;
	}
	return;
}

# The server processes of a cluster: postmaster first, then its children.
sub _pids
{
	my ($server) = @_;
	my $postmaster = $server->{_pid};
	my @pids;

	return () unless defined $postmaster;
	@pids = ($postmaster);
	for my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $fh, '<', $stat or next;
		my $line = <$fh> // '';
		close $fh;
		# pid (name) state ppid: the name may contain blanks and brackets
		push @pids, $1 if $line =~ /^(\d+) \(.*\) \S (\d+) / && $2 == $postmaster;
	}
	return @pids;
}

# The letter of a process's state in /proc; '' if the process does not exist.
sub _state
{
	my ($pid) = @_;
	open my $fh, '<', "/proc/$pid/stat" or return '';
	my $line = <$fh> // '';
	close $fh;
	return $line =~ /\) (\S) / ? $1 : '';
}

# Stops all processes of a server with SIGSTOP. Returns them.
sub _freeze
{
	my ($server) = @_;
	my ($postmaster) = _pids($server);
	my $n = 0;

	return () unless defined $postmaster;
	# First the postmaster, until it is stopped: a child that it was about to start has no number
	# yet.
	kill 'STOP', $postmaster;
	usleep(1000) while _state($postmaster) =~ /[RSD]/ && $n++ < 10_000;
	my @pids = _pids($server);
	kill 'STOP', @pids;
	# A child without the signal would see what happens next to the postmaster.
	for my $pid (@pids)
	{
		usleep(1000) while _state($pid) =~ /[RSD]/ && $n++ < 10_000;
	}
	return @pids;
}

# stop_node(i, mode): mode is fast (default), immediate or smart.
sub stop_node
{
	my ($self, $i, $mode) = @_;
	return $self->node($i)->stop($mode // 'fast');
}

sub start_node
{
	my ($self, $i) = @_;
	return $self->node($i)->start;
}

# Kills all processes of a server together, as a power cut does.
sub kill9_node { my ($self, $i) = @_; return $self->kill9_server($self->node($i)); }
sub kill9_coordinator { my ($self) = @_; return $self->kill9_server($self->{coordinator}); }

sub kill9_server
{
	my ($self, $server) = @_;
	# Stop all processes first: a backend that notices the end of the postmaster would end its wait,
	# and commit.
	my @pids = _freeze($server);

	$server->kill9;
	kill 'KILL', @pids;
	# A new postmaster refuses to start while one of them is attached to shared memory. It also
	# refuses while the old postmaster exists, even as a zombie that is not reaped yet.
	for my $pid (@pids)
	{
		my $n = 0;
		usleep(10_000) while kill(0, $pid) && $n++ < (_state($pid) eq 'Z' ? 300 : 1000);
	}
	unlink $server->data_dir . '/postmaster.pid' if _state($pids[0]) eq 'Z';
	return;
}

# Stops the processes of a node until sigcont_node: it keeps its connections, and does not answer.
# The other two functions do the same with any server.
sub sigstop_node { my ($self, $i) = @_; return $self->sigstop_server($self->node($i)); }
sub sigcont_node { my ($self, $i) = @_; return $self->sigcont_server($self->node($i)); }

sub sigstop_server
{
	my ($self, $server) = @_;
	my @pids = _freeze($server);

	$stopped{ $pids[0] } = \@pids;
	return;
}

sub sigcont_server
{
	my ($self, $server) = @_;
	_sigcont($server->{_pid});
	return;
}

sub _sigcont
{
	my ($postmaster) = @_;
	my $pids = delete $stopped{$postmaster} or return;
	kill 'CONT', reverse @$pids;
	return;
}

# The open handles of a process except files, because core's cache opens and closes files of
# relations: sockets, pipes, and epoll objects above the number that it keeps (16 in
# remote/wire/wait.c, some in core).
sub open_handles
{
	my ($self, $pid) = @_;
	my @targets = grep { !m{^/} } map { readlink($_) // () } glob "/proc/$pid/fd/*";
	my @epolls = grep { /eventpoll/ } @targets;
	return ((map { s/\d+//gr } sort grep { !/eventpoll/ } @targets), @epolls[ 20 .. $#epolls ]);
}

# Log scanning: log_position returns a mark, log_since returns what a server wrote after it. $i is a
# node's number, or undefined for the coordinator.
sub log_position
{
	my ($self, $i) = @_;
	my $server = defined $i ? $self->node($i) : $self->{coordinator};
	return -s $server->logfile // 0;
}

sub log_since
{
	my ($self, $position, $i) = @_;
	my $server = defined $i ? $self->node($i) : $self->{coordinator};

	open my $fh, '<', $server->logfile or croak 'could not read ' . $server->logfile . ": $!";
	seek $fh, $position // 0, 0;
	local $/;
	my $text = <$fh>;
	close $fh;
	return $text // '';
}

# wait_for_log(pattern, position, i): waits until the log has it.
sub wait_for_log
{
	my ($self, $pattern, $position, $i) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $self->log_since($position, $i) =~ $pattern;
		usleep(100_000);
	}
	croak "timed out waiting for $pattern in the log";
}

# compare(query, %options): one test that a query gives the same rows on a sharded table and on its
# plain copy. In the query {t} stands for the table: t, and t_plain for the copy.
#
#   settings  a list of 'name = value', set for the sharded run
#   ordered   1: the order of the rows counts, too
#   name      the test's name (default: the query)
sub compare
{
	my ($self, $query, %opt) = @_;
	my $settings = join '', map { "SET $_;\n" } @{ $opt{settings} // [] };
	(my $sharded = $query) =~ s/\{(\w+)\}/$1/g;
	(my $plain   = $query) =~ s/\{(\w+)\}/$1_plain/g;
	my $name = $opt{name} // $query;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	croak "no {table} in: $query" if $sharded eq $plain;
	my ($rc, $got, $err) = $self->psql("$settings$sharded", on_error_stop => 1);
	if ($rc != 0)
	{
		Test::More::fail($name);
		Test::More::diag($err);
		return 0;
	}
	my $expected = $self->safe_psql($plain);
	unless ($opt{ordered})
	{
		$_ = join "\n", sort split /\n/, $_ for $got, $expected;
	}
	return Test::More::is($got, $expected, $name);
}

# The same with the shard scan on and off.
sub compare_both
{
	my ($self, $query, %opt) = @_;
	my @settings = @{ delete $opt{settings} // [] };
	my $name = delete $opt{name} // $query;
	my $ok   = 1;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $mode (qw(on off))
	{
		$ok = 0
		  unless $self->compare(
			$query, %opt,
			settings => [ @settings, "shardfdw.enable_shard_scan = $mode" ],
			name     => "$name (shard scan $mode)");
	}
	return $ok;
}

# Runs before the one of PostgreSQL::Test::Cluster, which waits for the servers to stop.
END
{
	my $rc = $?;
	_sigcont($_) for keys %stopped;
	$? = $rc;
}

1;
