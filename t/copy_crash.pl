# Ends a load in the middle, in every way. No row of the load may be visible, and nothing of it may
# be left on nodes or on disk. A session that survives must work on. Also tests nodes that freeze or
# were restarted, many loads in parallel, loads in the middle of a transaction, and too few prepared
# transactions.

use strict;
use warnings;

use POSIX ();
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# As many prepared transactions as connections, because loads use several connections per node.
# Walsenders: the test lets commits wait for a standby.
my $c = ShardCluster->new(
	nodes            => 2,
	node_conf        => "max_prepared_transactions = 100\n",
	coordinator_conf => "wal_level = replica\nmax_wal_senders = 4\n");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $nbefore = 1000;

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int, w text)');
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql("INSERT INTO t SELECT g, g, 'before' FROM generate_series(1, $nbefore) g");
# Some loads drop this index. Nodes have additional indexes.
$c->safe_psql('CREATE INDEX t_v ON t (v)');
$c->safe_psql(q{SELECT * FROM shardfdw.run_on_shards('t', 'CREATE INDEX ON %s (lower(w), v) WITH (fillfactor = 60) WHERE v > 3')});

# Lists the relations on the nodes.
sub relations
{
	return join ' ', map { $c->node_safe_psql($_, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") } 1 .. 2;
}
my $relations = relations();

# Lists the indexes on the nodes. A load that drops indexes must leave the same ones when it ends.
sub indexes
{
	return join "\n", map {
		$c->node_safe_psql($_, 'SELECT i.indexrelid::int, indisvalid, indisready, indislive, pg_get_indexdef(i.indexrelid)'
			. " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1")
	} 1 .. 2;
}
my $indexes = indexes();

# Prints rows for a load: many rows first, then a few at a time, until a minute has passed or the
# reader has ended. On request, one row in a thousand is bad, and one row is repeated again and
# again.
open my $fh, '>', "$dir/rows.pl" or die;
print $fh <<'EOF';
my ($nfast, $separator, $bad, $pid_file) = @ARGV;
my $id = 1_000_000;
my $end = time + 60;
$| = 1;
if ($pid_file)
{
	open my $fh, '>', $pid_file or die;
	print $fh $$;
	close $fh;
}
for (my $n = 0; $n < $nfast || time < $end; $n += 100)
{
	print join '', map { $id++ unless $bad && $id % 1000 == 501 && $_ != 1; "$id$separator" . ($bad && $id % 1000 == 0 ? 'x' : $id % 7) . $separator . 'x' x 80 . "\n" } 1 .. 100;
	select undef, undef, undef, 0.01 if $n >= $nfast;
}
EOF
close $fh;

# A file that is larger than the buffers.
sub write_file
{
	my ($name, $first, $n, $separator) = @_;

	open my $out, '>', "$dir/$name" or die;
	print $out join '', map { "$_$separator" . ($_ % 7) . $separator . 'y' x 80 . "\n" } $first + 1 .. $first + $n;
	close $out;
	return "$dir/$name";
}
my %file = (text => write_file('text', 2_000_000, 100_000, "\t"), csv => write_file('csv', 2_000_000, 100_000, ','));
my %separator = (text => "\t", csv => ',');

# Starts psql. If the load reads STDIN, psql gets rows without end on its standard input. Returns a
# handle.
my $nloads = 0;

sub start_load
{
	my ($source, $format, $options, $before, @after) = @_;
	my $name = 'load_' . ++$nloads;
	my $load = { name => $name, out => "$dir/$name.out", err => "$dir/$name.err" };
	$load->{pid_file} = "$dir/$name.pid" if $source eq 'STDIN';
	my $from = $source eq 'STDIN' ? 'STDIN'
	  : $source eq 'PROGRAM' ? "PROGRAM \$\$perl $dir/rows.pl 30000 '$separator{$format}' ''\$\$"
	  : "'$file{$format}'";
	my @commands = map { ('-c', $_) } (@$before, "COPY t FROM $from (FORMAT $format$options)", @after);

	$load->{pid} = fork // die;
	if ($load->{pid} == 0)
	{
		if ($source eq 'STDIN')
		{
			open STDIN, '-|', 'perl', "$dir/rows.pl", 30_000, $separator{$format}, $options ne '', "$dir/$name.pid" or POSIX::_exit(1);
		}
		else
		{
			open STDIN, '<', '/dev/null' or POSIX::_exit(1);
		}
		open STDOUT, '>', $load->{out} or POSIX::_exit(1);
		open STDERR, '>', $load->{err} or POSIX::_exit(1);
		exec('psql', '-XAtq', @commands, '-d', $c->coordinator->connstr('postgres') . " application_name='$name'")
		  or POSIX::_exit(1);
	}
	return $load;
}

# Waits for its end, within a minute; psql learns of an error when its input has ended. Returns (exit code, stdout, stderr).
sub finish_load
{
	my ($load) = @_;
	my $deadline = time + 60;

	kill 'TERM', slurp_file($load->{pid_file}) if $load->{pid_file};
	while (waitpid($load->{pid}, POSIX::WNOHANG()) == 0)
	{
		if (time > $deadline)
		{
			kill 'KILL', $load->{pid};
			die "load $load->{name} does not end";
		}
		usleep(20_000);
	}
	return ($?, slurp_file($load->{out}), slurp_file($load->{err}));
}

# Pid of the backend of a load.
sub backend
{
	my ($load) = @_;
	return $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = '$load->{name}'");
}

# Sessions of a node that are in the middle of a load. (The text that drops indexes before a COPY is
# longer than what pg_stat_activity shows.)
my $writing = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL AND (query LIKE '%COPY%FROM STDIN%' OR query LIKE '%IN ACCESS EXCLUSIVE MODE%')";

sub wait_until_in_the_middle
{
	my ($load, $nwriting) = @_;

	$c->wait_for("SELECT count(*) >= $nwriting $writing", $_) for 1 .. 2;
	return backend($load);
}

# Has the backend stopped loading?
sub load_has_ended
{
	my ($pid) = @_;
	my ($rc, $out) = $c->psql("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND state = 'active' AND query LIKE 'COPY%'");

	return $rc == 0 && $out eq '0';
}

# Checks what must be true after every load.
sub nothing_is_left
{
	my ($name, %opt) = @_;
	my $gone = $opt{session_is_gone} // 1;
	my @prepared;

	for my $i (1 .. 2)
	{
		# In kill -9 of the coordinator the nodes notice by themselves.
		$c->wait_for(
			$gone
			? "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
			: "SELECT count(*) = 0 $writing", $i);
	}
	for (1 .. 100)
	{
		$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
		@prepared = map { $c->node_safe_psql($_, 'SELECT gid FROM pg_prepared_xacts') } 1 .. 2;
		last if !grep { $_ ne '' } @prepared;
		usleep(50_000);
	}
	is("@prepared", ' ', "$name: no prepared transaction");
	is($c->safe_psql('SELECT count(*), count(*) FILTER (WHERE id > 1000) FROM t'), ($opt{nrows} // $nbefore) . '|' . ($opt{nnew} // 0), "$name: rows");
	is(relations(), $relations, "$name: no table on a node");
	is(indexes(), $indexes, "$name: all indexes") if $opt{same_indexes};
	my @temporary = map { glob $_->data_dir . '/base/pgsql_tmp/*' } $c->coordinator, $c->nodes;
	is("@temporary", '', "$name: no temporary file");
	return;
}

# Ways to end a load, and the expected errors.
my %ends = (
	'kill -9 of a node' => {
		do => sub { $c->kill9_node(2); },
		error => qr/node2/,
		afterwards => sub { $c->start_node(2); }
	},
	# (A session that reads a file detects this only when it checks for it, as without shards.)
	'shutdown of a node' => {
		do => sub { $c->stop_node(2, 'fast'); },
		error => qr/node2/,
		afterwards => sub { $c->start_node(2); }
	},
	'kill -9 of the client' => {
		before => "SET client_connection_check_interval = '500ms'",
		do => sub { kill 'KILL', $_[0]->{pid}; },
		session_is_gone => 1
	},
	"kill -9 of the coordinator's backend" => {
		do => sub { kill 'KILL', $_[1]; },
		session_is_gone => 1,
		error => qr/connection to server was lost|server closed the connection/,
		afterwards => sub { $c->wait_for_restart; }
	},
	'Ctrl-C' => {
		do => sub { kill 'INT', $_[0]->{pid}; },
		session_is_gone => 1,
		error => qr/canceled by user|canceling statement due to user request/
	},
	'pg_cancel_backend' => {
		do => sub { $c->safe_psql("SELECT pg_cancel_backend($_[1])"); },
		error => qr/canceling statement due to user request/
	},
	'statement_timeout' => {
		before => "SET statement_timeout = '3s'",
		do => sub { },
		error => qr/canceling statement due to statement timeout/
	},
	'pg_terminate_backend' => {
		do => sub { $c->safe_psql("SELECT pg_terminate_backend($_[1])"); },
		session_is_gone => 1,
		error => qr/terminating connection due to administrator command/
	});

# A shard's lock holds a load from a file up in the middle; the other inputs have no end.
my ($locked_shard) = map { $_->[0] } grep { $_->[1] == 2 } $c->shards_of('t');
my $nruns = 0;

for my $name (sort keys %ends)
{
	my $end = $ends{$name};

	for my $source ('FILE', 'PROGRAM', 'STDIN')
	{
		# each way of ending and each input with both formats, with one connection per node and with several
		my $format = $nruns % 2 ? 'csv' : 'text';
		my $nconns = int($nruns / 2) % 2 ? 1 : 4;
		my $deferred = int($nruns / 4) % 2 ? ", INDEXES 'deferred'" : '';
		my $what = "$name, $source, $format, $nconns connections$deferred";
		my $blocker;
		next unless ShardCluster::in_half($nruns++);

		if ($source eq 'FILE')
		{
			$blocker = $c->node(2)->background_psql('postgres');
			$blocker->query_safe("BEGIN; LOCK TABLE $locked_shard");
		}
		# rows set aside on the way
		my $options = $source eq 'STDIN' ? ", ON_ERROR 'ignore', ON_DUPLICATE 'keep_old', REJECT_FILE '$dir/rejected'" : '';
		$options .= $deferred;
		my $load = start_load(
			$source, $format, $options,
			[
				"SET shardfdw.max_connections_per_node = $nconns",
				"SET shardfdw.copy_buffer_size = '1MB'",
				$end->{before} // ()
			],
			"SET statement_timeout = 0",
			"INSERT INTO t VALUES (999999, 1, 'after')",
			"SELECT count(*) FROM t WHERE id > $nbefore",
			"DELETE FROM t WHERE id = 999999");
		# with several connections, the rows of node 2's other shards continue during the lock
		my $pid = wait_until_in_the_middle($load, $nconns > 1 ? 2 : 1);
		# some file systems know no files without a name
		my $file_has_name = grep { $_ } glob "$dir/rejected*";
		my $start = time;
		$end->{do}->($load, $pid);
		# a program notices the loss of a node when its next rows are sent
		my $has_ended;
		usleep(20_000) until ($has_ended = load_has_ended($pid)) || time - $start > $PostgreSQL::Test::Utils::timeout_default;
		$end->{afterwards}->() if $end->{afterwards};
		$blocker->{run}->kill_kill if $blocker;
		my ($status, $out, $err) = finish_load($load);

		like($err, $end->{error}, "$what: error") if $end->{error};
		ok($has_ended, "$what: it ends by itself");
		is($out, "1\n", "$what: the session goes on") || diag $err
		  unless $end->{session_is_gone} || $name =~ /of a node/;
		nothing_is_left($what, same_indexes => 1);
		my @files = glob "$dir/rejected*";
		is("@files", '', "$what: no file of rejected rows") unless $file_has_name && $name =~ /^kill.*backend$/;
		unlink @files;
	}
}


# The same while indexes are created again: one of them calls a function that waits.
sub start_building
{
	my $blocker = $c->node(2)->background_psql('postgres');
	$blocker->query_safe('SELECT pg_advisory_lock(7)');
	my $load = start_load('FILE', 'text', ", INDEXES 'deferred'", ['SET shardfdw.max_connections_per_node = 4', @_]);
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'advisory'", 2);
	return ($load, $blocker);
}
$c->node_safe_psql(2, q{CREATE FUNCTION slowly(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
	'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN $1; END'});
$c->node_safe_psql(2, "CREATE INDEX slow ON $locked_shard (slowly(v))");
($relations, $indexes) = (relations(), indexes());

for my $name ('pg_cancel_backend', 'kill -9 of the client', "kill -9 of the coordinator's backend", 'kill -9 of a node')
{
	my ($load, $blocker) = start_building($ends{$name}{before} // ());
	my $pid = backend($load);
	$ends{$name}{do}->($load, $pid);
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'COPY%'");
	$blocker->{run}->kill_kill;
	$ends{$name}{afterwards}->() if $ends{$name}{afterwards};
	my ($status, $out, $err) = finish_load($load);
	like($err, $ends{$name}{error}, "$name while indexes are built: error") if $ends{$name}{error};
	nothing_is_left("$name while indexes are built", same_indexes => 1);
}
$c->node_safe_psql(2, 'DROP INDEX slow; DROP FUNCTION slowly');
$relations = relations();

# A node hangs in the middle of a load. The memory for rows that cannot be sent is limited, the load
# can be cancelled, and it succeeds when the node continues.
sub memory_kb
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
	return $kb;
}

my $large = write_file('large', 3_000_000, 400_000, "\t");
for my $nconns (1, 4)
{
	# more rows than the coordinator buffers come before the pause, and also after it
	my $go = "$dir/go";
	my $input = "PROGRAM \$\$awk 'NR == 200000 { system(\"\"); system(\"while [ ! -e $go ]; do sleep 0.05; done\") } { print }' $large\$\$";
	my $load = $c->start_sql(
		"SET shardfdw.max_connections_per_node = $nconns; SET shardfdw.copy_buffer_size = '4MB';
		 SELECT count(*) FROM t; COPY t FROM $input; SELECT count(*) FROM t; DELETE FROM t WHERE id > $nbefore;",
		name => 'frozen');
	$c->wait_for("SELECT count(*) > 0 $writing", 2);
	my $pid = backend({ name => 'frozen' });
	my $kb = memory_kb($pid);
	$c->sigstop_node(2);
	append_to_file($go, '');
	my $most_kb = $kb;
	for (1 .. 30)
	{
		my $now_kb = memory_kb($pid);
		$most_kb = $now_kb if $now_kb > $most_kb;
		usleep(100_000);
	}
	$c->sigcont_node(2);
	my ($status, $out, $err) = $c->wait_sql($load);
	unlink $go;
	is($status, 0, "frozen node, $nconns connections: the load ends well when it goes on") || diag $err;
	like($out, qr/\b401000$/, "frozen node, $nconns connections: every row is there");
	cmp_ok($most_kb - $kb, '<', 24 * 1024, "frozen node, $nconns connections: memory");
	nothing_is_left("frozen node, $nconns connections");

	$load = $c->start_sql("SET shardfdw.max_connections_per_node = $nconns; SET shardfdw.copy_buffer_size = '4MB'; COPY t FROM $input;", name => 'frozen');
	$c->wait_for("SELECT count(*) > 0 $writing", 2);
	$pid = backend({ name => 'frozen' });
	$c->sigstop_node(2);
	append_to_file($go, '');
	usleep(500_000);
	my $start = time;
	$c->safe_psql("SELECT pg_cancel_backend($pid)");
	($status, $out, $err) = $c->wait_sql($load);
	my $elapsed = time - $start;
	$c->sigcont_node(2);
	unlink $go;
	like($err, qr/canceling statement due to user request/, "frozen node, $nconns connections: cancelled");
	cmp_ok($elapsed, '<', 8, "frozen node, $nconns connections: soon");
	nothing_is_left("cancelled with a frozen node, $nconns connections");
}

# A node that is frozen before the load begins.
$c->sigstop_node(2);
my $start = time;
my ($status, $out, $err) = $c->psql("SET statement_timeout = '1s'; COPY t FROM '$large'");
my $elapsed = time - $start;
$c->sigcont_node(2);
like($err, qr/statement timeout/, 'a load into a frozen node is cancelled');
cmp_ok($elapsed, '<', 8, 'a load into a frozen node: soon');
nothing_is_left('a load into a frozen node');

# A node that is restarted between two loads of a session, and one connection that is lost between two.
my $session = $c->coordinator->background_psql('postgres');
$session->query_safe("COPY t FROM '$file{text}'");
$c->stop_node(2, 'immediate');
$c->start_node(2);
$session->query_safe("DELETE FROM t WHERE id > $nbefore");
$session->query_safe("COPY t FROM '$file{text}'");
is($c->safe_psql('SELECT count(*) FROM t'), $nbefore + 100_000, 'a session loads again after a restart of a node');
my $clients = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
$c->node_safe_psql(1, "SELECT pg_terminate_backend(pid) $clients");
$c->wait_for("SELECT count(*) = 0 $clients", 1);
$session->query_safe("DELETE FROM t WHERE id > $nbefore");
$session->query_safe("COPY t FROM '$file{csv}' (FORMAT csv)");
is($c->safe_psql('SELECT count(*) FROM t'), $nbefore + 100_000, 'and after the loss of its connections to another');
$session->query_safe("DELETE FROM t WHERE id > $nbefore");
$session->quit;
nothing_is_left('after restarts');

# A load loses one of its several connections to a node. The commit must not lack the rows of that
# connection.
{
	my $load = start_load('STDIN', 'text', '', ["SET shardfdw.copy_buffer_size = '1MB'"]);
	wait_until_in_the_middle($load, 2);
	$c->node_safe_psql(1, "SELECT pg_terminate_backend(pid) $writing LIMIT 1");
	my ($status, $out, $err) = finish_load($load);
	like($err, qr/ERROR:.*node1|node "node1"/s, 'one of several connections is lost: the load fails');
	nothing_is_left('one of several connections was lost');
}

# The commit of a load with two transactions on each node. A deferred foreign key delays one of
# them: it is checked when the node prepares. A missing standby delays the local commit.
$c->node_safe_psql(2, "CREATE TABLE ref (id int PRIMARY KEY); INSERT INTO ref SELECT generate_series(0, 6);
	ALTER TABLE $locked_shard ADD CONSTRAINT to_ref FOREIGN KEY (v) REFERENCES ref DEFERRABLE INITIALLY DEFERRED NOT VALID");
$relations = relations();

sub nprepared
{
	return join ' ', map { $c->node_safe_psql($_, "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw:%'") } 1 .. 2;
}

sub start_blocked_commit
{
	my $blocker = $c->node(2)->background_psql('postgres');
	$blocker->query_safe('BEGIN; SELECT * FROM ref WHERE id = 3 FOR UPDATE');
	my $load = $c->start_sql("SET shardfdw.max_connections_per_node = 2; COPY t FROM '$file{text}';", name => 'blocked');
	$c->wait_for("SELECT count(*) = 2 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw:%'", 1);
	$c->wait_for("SELECT count(*) = 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw:%'", 2);
	return ($blocker, $load);
}

sub start_waiting_commit
{
	$c->coordinator->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
	$c->coordinator->reload;
	my $load = $c->start_sql("SET shardfdw.max_connections_per_node = 2; COPY t FROM '$file{text}';", name => 'waiting');
	$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'waiting' AND wait_event = 'SyncRep'");
	is(nprepared(), '2 2', 'the load is prepared over two connections to each node');
	return $load;
}

sub end_waiting
{
	$c->coordinator->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
	$c->coordinator->reload;
	return;
}

for my $end ('pg_cancel_backend', 'pg_terminate_backend', 'kill -9 of the coordinator', 'kill -9 of node 1')
{
	my ($blocker, $load) = start_blocked_commit();

	$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
	is(nprepared(), '2 1', "$end while a node prepares: recovery leaves a running commit alone");
	if ($end =~ /^pg_/)
	{
		$c->safe_psql("SELECT $end(pid) FROM pg_stat_activity WHERE application_name = 'blocked'");
	}
	elsif ($end =~ /node 1/)
	{
		$c->kill9_node(1);
		$c->start_node(1);
		$blocker->quit;
	}
	else
	{
		$c->kill9_coordinator;
		$c->coordinator->start;
		$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
	}
	my ($status, $out, $err) = $c->wait_sql($load) if $end !~ /coordinator/;
	# a node that has prepared before it died has promised to commit
	my $nnew = $end =~ /node 1/ && $status == 0 ? 100_000 : 0;
	isnt($status, 0, "$end while a node prepares: an error") if $end =~ /^pg_/;
	$blocker->quit unless $end =~ /node 1/;
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'PREPARE TRANSACTION%' AND state = 'active' AND pid <> pg_backend_pid()", 2);
	nothing_is_left("$end while a node prepares", nrows => $nbefore + $nnew, nnew => $nnew);
	$c->safe_psql("DELETE FROM t WHERE id > $nbefore") if $nnew;
}

for my $end ('kill -9 of the coordinator', 'kill -9 of a node')
{
	my $load = start_waiting_commit();

	if ($end =~ /coordinator/)
	{
		$c->kill9_coordinator;
		$c->wait_sql($load);
		$c->coordinator->start;
		end_waiting();
	}
	else
	{
		$c->kill9_node(1);
		$c->start_node(1);
		end_waiting();
		my ($status, undef, $err) = $c->wait_sql($load);
		is($status, 0, "$end after the decision: the commit goes on") || diag $err;
	}
	nothing_is_left("$end after the decision", nrows => $nbefore + 100_000, nnew => 100_000);
	$c->safe_psql("DELETE FROM t WHERE id > $nbefore");
}
$c->node_safe_psql(2, "ALTER TABLE $locked_shard DROP CONSTRAINT to_ref");

# Many loads in parallel into one table: each row must be in the shard that its key belongs to
# (R19).
{
	my @loads;
	my $n = 5000;

	for my $i (0 .. 7)
	{
		open my $out, '>', "$dir/part$i" or die;
		print $out join '', map { 10_000_000 + $_ * 8 + $i . "\t$i\tz\n" } 1 .. $n;
		close $out;
		push @loads, $c->start_sql("COPY t FROM '$dir/part$i'" . ($i % 2 ? '' : " WHERE v >= 0") . ';', name => "part$i");
	}
	for my $load (@loads)
	{
		my ($status, undef, $err) = $c->wait_sql($load);
		is($status, 0, "$load->{name} of 8 loads at once") || diag $err;
	}
	is( $c->safe_psql("SELECT count(*), count(DISTINCT id), sum(v) FROM t WHERE id > $nbefore"),
		8 * $n . '|' . 8 * $n . '|' . 28 * $n, '8 loads at once: every row, once');
	my @shards = $c->shards_of('t');
	my $nwrong = 0;
	my $nfound = 0;
	for my $shard (@shards)
	{
		my ($name, $i) = @$shard;
		my ($modulus, $remainder) = $c->safe_psql("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = '$name'::regclass") =~ /modulus (\d+), remainder (\d+)/;
		my $ids = $c->node_safe_psql($i, "SELECT array_agg(id) FROM $name");
		$nfound += () = $ids =~ /\d+/g;
		$nwrong += $c->safe_psql("SELECT count(*) FROM unnest('$ids'::int[]) id WHERE NOT satisfies_hash_partition('t'::regclass, $modulus, $remainder, id)");
	}
	is($nfound, $nbefore + 8 * $n, '8 loads at once: the rows are in the shards');
	is($nwrong, 0, '8 loads at once: each in its own');
	$c->safe_psql("DELETE FROM t WHERE id > $nbefore");
}

# Loads among other statements of a transaction, one of them undone by a savepoint (R26).
for my $nconns (1, 2, 8)
{
	open my $bad, '>', "$dir/bad" or die;
	print $bad slurp_file($file{text}), "5\t1\tduplicate\n";
	close $bad;
	my ($rc, $out, $err) = $c->psql(qq{
		SET shardfdw.max_connections_per_node = $nconns;
		BEGIN;
		INSERT INTO t VALUES (5000001, 1, 'a');
		COPY t FROM '$file{csv}' (FORMAT csv);
		UPDATE t SET v = v + 100 WHERE id IN (2000001, 2000002, 5000001);
		COPY t FROM PROGRAM 'printf "5000002\\\\t2\\\\tb\\\\n5000003\\\\t3\\\\tc\\\\n"';
		SAVEPOINT a;
		COPY t FROM PROGRAM 'printf "5000004\\\\t4\\\\td\\\\n"';
		COPY t FROM '$dir/bad';
		ROLLBACK TO a;
		COPY t FROM PROGRAM 'printf "5000005,5,e\\\\n"' (FORMAT csv);
		SELECT count(*), sum(v) FROM t WHERE id > 5000000;
		COMMIT;
		SELECT count(*), sum(v) FILTER (WHERE id IN (2000001, 2000002)), sum(v) FILTER (WHERE id > 5000000) FROM t WHERE id > $nbefore;
		DELETE FROM t WHERE id > $nbefore;}, on_error_stop => 0);
	my $v = 200 + 2000001 % 7 + 2000002 % 7;
	is($out, "4|111\n100004|$v|111", "loads in a transaction, $nconns connections") || diag $err;
	like($err, qr/duplicate key value/, "the load that fails, $nconns connections");
	nothing_is_left("loads in a transaction, $nconns connections");
}

# Unlogged shards: after a crash of a node its rows are gone, and the rows of the other node remain.
# After a crash of the coordinator all rows remain, and sequences continue. A second load restores
# all rows.
{
	$c->safe_psql('CREATE UNLOGGED TABLE u (id serial PRIMARY KEY, v int)');
	$c->shard_table('u', 'id', shards => 4);
	$c->safe_psql('INSERT INTO u (v) SELECT generate_series(1, 1000)');
	my $of_node = sub {
		my ($i) = @_;
		return $c->safe_psql(join ' + ', 'SELECT 0', map { "(SELECT count(*) FROM $_->[0])" } grep { $_->[1] == $i } $c->shards_of('u'));
	};
	my $of_node2 = $of_node->(2);
	cmp_ok($of_node2, '<', 1000, 'unlogged: both nodes have rows');
	$c->kill9_coordinator;
	$c->coordinator->start;
	is($c->safe_psql('INSERT INTO u (v) VALUES (0) RETURNING id') > 1000, 1, 'unlogged: numbers go on after a crash of the coordinator');
	is($c->safe_psql('DELETE FROM u WHERE id > 1000; SELECT count(*) FROM u'), '1000', 'unlogged: and the rows are there');
	$c->kill9_node(1);
	$c->start_node(1);
	is($of_node->(1), '0', 'unlogged: a node that has crashed has none');
	is($c->safe_psql('SELECT count(*) FROM u'), $of_node2, 'unlogged: the other one has all of its rows');
	is($c->safe_psql('SELECT count(*) FROM t'), $nbefore, 'unlogged: logged tables have theirs');
	is($c->safe_psql('TRUNCATE u; INSERT INTO u SELECT g, g FROM generate_series(1, 1000) g; SELECT count(*) FROM u'), '1000', 'unlogged: loaded again');
	$c->safe_psql('DROP TABLE u');
}

# A node has too few prepared transactions: the error has its name and the setting (R37). With few
# of them a load uses few connections.
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 30');
$c->node(2)->restart;
$c->node_safe_psql(2, join '', map { "BEGIN; CREATE TABLE other_$_ (); PREPARE TRANSACTION 'other_$_';\n" } 1 .. 30);
for my $sql ("COPY t FROM '$file{text}'", "COPY t FROM '$file{text}' WHERE v >= 0")
{
	my ($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\n$sql");
	isnt($rc, 0, 'no prepared transaction is left on a node: an error');
	like($err, qr/ERROR: +53200: .*"node2".*\n.*\n?HINT: .*max_prepared_transactions/, 'which names node and setting');
}
$c->node_safe_psql(2, join '', map { "ROLLBACK PREPARED 'other_$_';\n" } 1 .. 30);
nothing_is_left('too few prepared transactions');
is($c->safe_psql("COPY t FROM '$file{text}'; SELECT count(*) FROM t"), $nbefore + 100_000, 'when there are some the load goes well');

done_testing();
