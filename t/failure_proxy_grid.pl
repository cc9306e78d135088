# Cuts the connection at each message that a statement exchanges with a node. The outcome must be
# one of the documented outcomes. All data of the statement must be there, or none. The session must
# work on, and nothing may leak.
#
# PROXY_GRID=all cuts at every message (for consecutive rows, at the first and the last). By default
# the test cuts at a few messages of each statement. PROXY_ONLY=name,name selects statements (see
# @statements). All messages take about 15 minutes, because a cell that hangs or is canceled takes
# the half second that a node is given to answer.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

my $all = ($ENV{PROXY_GRID} // '') eq 'all';
my $limit_s = 4;    # after a cancel; the figure that is noted is the promise, this leaves room for a busy machine
my $c = ShardCluster->new(nodes => 2, add_nodes => 0);
my $proxy = ProtocolProxy->new(port => $c->node(1)->port);
$c->safe_psql("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ", 'postgres')");
$c->add_node(2);
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT g, 0 FROM generate_series(1, 40) g');

my @fresh = ([], [], []);    # keys that no row has, by node
my @here  = ([], [], []);    # keys of rows
for my $line (split /\n/, $c->safe_psql(
	q{SELECT id, substr(srvname, 5) FROM generate_series(1, 400) id, shardfdw.shard_for('t', id) s JOIN pg_foreign_table f ON ftrelid = s JOIN pg_foreign_server v ON v.oid = ftserver}))
{
	my ($id, $node) = split /\|/, $line;
	push @{ $id <= 40 ? $here[$node] : $fresh[$node] }, $id;
}
my ($new1, $new2, $old1) = ($fresh[1][0], $fresh[2][0], $here[1][0]);
my @shards = $c->shards_of('t');
my @direct = map { WireClient->new($c->node($_), 'postgres', application_name => 'direct') } 1 .. 2;

my $warm_up = 'SELECT count(*), sum(v) FROM t';
my @statements = (
	{ name => 'single-shard SELECT', sql => "SELECT v FROM t WHERE id = $old1" },
	{ name => 'multi-shard SELECT',  sql => 'SELECT id, v FROM t ORDER BY id' },
	{ name => 'INSERT',   sql => "INSERT INTO t VALUES ($new1, 1)", change => sub { $_[0]{$new1} = 1 } },
	{ name => 'UPDATE',   sql => 'UPDATE t SET v = v + 1', change => sub { $_++ for values %{ $_[0] } } },
	{ name => 'COPY FROM', sql => 'COPY t FROM STDIN', data => [ map { "$_\t5\n" } @{ $fresh[1] }[ 0 .. 9 ], @{ $fresh[2] }[ 0 .. 9 ] ],
		change => sub { $_[0]{$_} = 5 for @{ $fresh[1] }[ 0 .. 9 ], @{ $fresh[2] }[ 0 .. 9 ] } },
	{ name => 'COPY TO',  sql => 'COPY t TO STDOUT' },
	{ name => 'DDL',      sql => 'ALTER TABLE t ADD COLUMN x int', columns => 1 },
	{ name => 'two-phase commit', before => "BEGIN; INSERT INTO t VALUES ($new1, 7); INSERT INTO t VALUES ($new2, 7)", sql => 'COMMIT',
		change => sub { $_[0]{$_} = 7 for $new1, $new2 } },
	{ name => 'one-phase commit', before => "BEGIN; INSERT INTO t VALUES ($new1, 7)", sql => 'COMMIT', change => sub { $_[0]{$new1} = 7 } },
	{ name => 'ROLLBACK TO', before => "BEGIN; INSERT INTO t VALUES ($new2, 7); INSERT INTO t VALUES ($fresh[1][1], 7); SAVEPOINT s; INSERT INTO t VALUES ($new1, 7)",
		sql => 'ROLLBACK TO s', end => 'COMMIT', change => sub { $_[0]{$_} = 7 for $new2, $fresh[1][1] } },
	{ name => 'SELECT of one moment', before => "SET shardfdw.snapshot = 'cluster'", sql => 'SELECT id, v FROM t ORDER BY id' },
	{ name => 'connect',  sql => "SELECT v FROM t WHERE id = $old1", cold => 1 });
my @actions = qw(kill reset hang cancel);

# ---- the state of the nodes ----------------------------------------------------------------------

sub ask_nodes
{
	my ($sql) = @_;
	return map { @{ $_->query($sql)->{rows} } } @direct;
}

# Rows by key, columns of the shards and of the coordinator's tables.
sub state
{
	my (%rows, %columns);
	for my $i (1, 2)
	{
		my $sql = join ' UNION ALL ', map { "SELECT id, v FROM $_->[0]" } grep { $_->[1] == $i } @shards;
		$rows{ $_->[0] } = $_->[1] for @{ $direct[ $i - 1 ]->query($sql)->{rows} };
	}
	my $count = q{SELECT count(*) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relname ~ '^t(_\d+)?$' AND relkind IN ('r', 'f', 'p') AND attnum > 0 AND NOT attisdropped GROUP BY attrelid};
	$columns{ $_->[0] }++ for ask_nodes($count);
	my $here = WireClient->new($c->coordinator, 'postgres');
	$columns{ $_->[0] }++ for @{ $here->query($count)->{rows} };
	$here->close;
	return (\%rows, join ' ', map { "$columns{$_} tables with $_ columns" } sort keys %columns);
}

sub text_of { my ($rows) = @_; return join ' ', map { "$_=$rows->{$_}" } sort { $a <=> $b } keys %$rows; }

sub count_nodes { my ($sql) = @_; my $n = 0; $n += $_->[0] for ask_nodes($sql); return $n; }

sub wait_zero
{
	my ($sql, $seconds) = @_;
	my $end = time + $seconds;
	my $n;

	while (($n = count_nodes($sql)) && time < $end) { usleep(10_000); }
	return $n;
}

my $busy = q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%' AND state <> 'idle'};
my $open = q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%'};
my $prepared = q{SELECT count(*) FROM pg_prepared_xacts};

# ---- one case ------------------------------------------------------------------------------------

my %outcomes;     # statement -> action -> outcome -> count
my %slowest;      # action -> seconds
my ($ncells, $nrecovered, $nmissed, $ncanceled, $nlate) = (0, 0, 0, 0, 0);

sub start_session
{
	my ($statement) = @_;
	my $session = WireClient->new($c->coordinator, 'postgres');

	$session->query($warm_up) unless $statement->{cold};
	wait_zero($busy, 5);    # COMMIT of readers is not waited for, and would be counted
	for my $sql (split /; /, $statement->{before} // '')
	{
		my $error = $session->query($sql)->{error};
		die "$sql: $error->{M}" if $error;
	}
	return $session;
}

# Undoes what the statement did. Returns the problems of the session.
sub clean_up
{
	my ($session, $rows) = @_;
	my @wrong;
	my $sum = 0;

	$sum += $_ for values %$rows;
	my $answer = $session->query($warm_up);
	my $got = $answer->{error} ? "$answer->{error}{C} $answer->{error}{M}" : join ' ', @{ $answer->{rows}[0] };
	push @wrong, "then $warm_up: $got, not " . keys(%$rows) . " $sum" if $got ne keys(%$rows) . " $sum";
	for my $sql ('DELETE FROM t WHERE id > 40', 'UPDATE t SET v = 0', 'ALTER TABLE t DROP COLUMN IF EXISTS x')
	{
		my $error = $session->query($sql)->{error};
		push @wrong, "then $sql: $error->{M}" if $error;
	}
	return @wrong;
}

# What the client got: tags, rows, lines of COPY (in any order).
sub result_text
{
	my ($result) = @_;
	return join '|', @{ $result->{tags} }, sort(split /^/, $result->{copied}), map { join ',', @$_ } @{ $result->{rows} };
}

# Runs the statement, and does the action at message $n. Then checks client, nodes and session.
# Returns false, and counts nothing, if the message did not come and another attempt follows (a
# statement may use one connection or two).
sub run_cell
{
	my ($statement, $from, $n, $action, $is_last_try) = @_;
	my $session = start_session($statement);
	my ($before, $columns_before) = state();
	my ($result, $elapsed);
	my @wrong;

	$proxy->arm(from => $from, n => $n, action => $action eq 'cancel' ? 'hold' : $action);
	my $start = time;
	$session->start_query($statement->{sql}, @{ $statement->{data} // [] });
	if ($action eq 'hang' || $action eq 'cancel')
	{
		# the statement may have ended without that message
		while (!$proxy->fired && !($result = $session->finish_query(0.005))) { last if time > $start + 10; }
		if (!$result && !($result = $session->finish_query(0.05)))
		{
			$start = time;
			$session->cancel;
		}
	}
	$result //= $session->finish_query(20);
	$elapsed = time - $start;
	my $missed = !$proxy->wait_fired(0.3);    # the answer to a COMMIT is not waited for
	$proxy->clear;
	if (!$result)
	{
		push @wrong, 'it hangs';
		$session->cancel;
		$result = $session->finish_query(30) // { error => { C => 'XXXXX', M => 'hangs for ever' } };
	}
	if ($action =~ /hang|cancel/)
	{
		$ncanceled++;
		$nlate++ if $elapsed > 1;
	}
	my $error = $result->{error};
	my $code  = $error ? $error->{C} : 'done';
	my $text  = $error ? join ' ', map { $_ // '' } @{$error}{qw(M D)} : '';
	note sprintf '%s, %s at message %d of the %s: %.2f s', $statement->{name}, $action, $n, $from, $elapsed if $elapsed > 0.8;
	$slowest{$action} = $elapsed if $elapsed > ($slowest{$action} // 0);
	push @wrong, sprintf 'it took %.1f s', $elapsed if $elapsed > ($action =~ /hang|cancel/ ? $limit_s : 8);
	my %allowed = $action =~ /hang|cancel/ ? (done => 1, 57014 => 1) : (done => 1, 58000 => 1);
	$allowed{'08007'} = 1 if $statement->{name} =~ /^INSERT|^one-phase/;    # one node, one phase: the answer to COMMIT was lost
	# a statement that reads over several connections: the snapshot was lost with the connection that had exported it
	$allowed{40001} = 1 if $action =~ /kill|reset/ && $text =~ /^the snapshot on node "node1" was lost with the query that had exported it/;
	push @wrong, "outcome $code: $text" unless $allowed{$code};
	push @wrong, 'it said that it was done, with another result' if $code eq 'done' && result_text($result) ne $statement->{result};
	push @wrong, "no node is named: $text" if $code =~ /^(08|58)/ && $text !~ /node1/;

	# Leftovers on nodes end without help, except prepared transactions.
	my $end = $session->query($statement->{end} // 'ROLLBACK');
	my $is_done = $statement->{end} ? !$end->{error} && "@{$end->{tags}}" eq 'COMMIT' : $code eq 'done';
	my $left = wait_zero($busy, 10);
	push @wrong, "$left sessions are busy on nodes" if $left;
	if (count_nodes($prepared))
	{
		$nrecovered++;
		for (1 .. 5)
		{
			my $admin = WireClient->new($c->coordinator, 'postgres');
			$admin->query('SELECT shardfdw.recover_prepared_transactions()');
			$admin->close;
			last unless count_nodes($prepared);
			usleep(50_000);
		}
		push @wrong, 'a transaction stays prepared' if count_nodes($prepared);
	}

	# The ledger must have all of the statement, or nothing.
	my ($rows, $columns) = state();
	my $after = {%$before};
	$statement->{change}->($after) if $statement->{change};
	my $is_before = text_of($rows) eq text_of($before) && $columns eq $columns_before;
	my $is_after  = text_of($rows) eq text_of($after) && $columns eq ($statement->{columns} ? $columns_before =~ s/with 2/with 3/r : $columns_before);
	push @wrong, 'data are there in part: ' . text_of($rows) . ", $columns" unless $is_before || $is_after;
	push @wrong, 'it said that it was done, but nothing is' if $is_done && !$is_after;
	push @wrong, 'it said that it failed, but is done' if !$is_done && $code ne '08007' && !$is_before;

	push @wrong, clean_up($session, $rows);
	$session->close;
	$left = wait_zero($open, 5);
	push @wrong, "$left connections are left on nodes" if $left;
	return 0 if $missed && !@wrong && !$is_last_try;
	$ncells++;
	$nmissed++ if $missed;
	$outcomes{ $statement->{name} }{$action}{$code}++;
	ok(!@wrong, "$statement->{name}, $action at message $n of the $from: $code") || diag join "\n", @wrong;
	return 1;
}

# The numbers of the messages with types at which to break the connection: all, or the first, the
# last and some between.
sub spread
{
	my ($types, $wanted) = @_;
	my @numbers = grep { my $i = $_ - 1; $i == 0 || $i == $#$types || "$types->[$i - 1]$types->[$i]$types->[$i + 1]" ne 'ddd' } 1 .. @$types;
	return @numbers if $all || @numbers <= $wanted;
	my %picked = map { $numbers[ int($_ * $#numbers / ($wanted - 1) + 0.5) ] => 1 } 0 .. $wanted - 1;
	return sort { $a <=> $b } keys %picked;
}

my $started = time;
my $nplaces = 0;
for my $statement (@statements)
{
	next if $ENV{PROXY_ONLY} && !grep { $statement->{name} eq $_ } split /,/, $ENV{PROXY_ONLY};
	my $session = start_session($statement);
	my %types = (coordinator => [], node => []);

	$proxy->arm(from => 'none', action => '');
	my $result = $session->query($statement->{sql}, @{ $statement->{data} // [] });
	is($result->{error}, undef, "$statement->{name}: works") || diag $result->{error}{M};
	$statement->{result} = result_text($result);
	wait_zero($busy, 5) unless $statement->{end};
	push @{ $types{ $_->[0] } }, $_->[1] for $proxy->messages;
	$session->query($statement->{end}) if $statement->{end};
	note "$statement->{name}: to the node @{$types{coordinator}}; from it @{$types{node}}";
	my ($rows) = state();
	is(join("\n", clean_up($session, $rows)), '', "$statement->{name}: and is undone");
	$session->close;
	for my $action (@actions)
	{
		for my $from ('coordinator', 'node')
		{
			next if !$all && $action eq ($from eq 'node' ? 'hang' : 'cancel');
			for my $n (spread($types{$from}, $action =~ /hang|cancel/ ? 2 : 3))
			{
				next unless ShardCluster::in_half($nplaces++);
				for my $try (1 .. 4) { last if run_cell($statement, $from, $n, $action, $try == 4); }
			}
		}
	}
}

note sprintf '%d cells in %d s; %d had transactions to recover; %d ended without the message', $ncells, time - $started, $nrecovered, $nmissed;
note sprintf '%-20s %s', '', join '', map { sprintf '%-34s', $_ } @actions;
for my $statement (@statements)
{
	my $of = $outcomes{ $statement->{name} } or next;
	note sprintf '%-20s %s', $statement->{name},
	  join '', map { my $a = $_; sprintf '%-34s', join ', ', map { "$of->{$a}{$_} x $_" } sort keys %{ $of->{$a} } } @actions;
}
note 'slowest: ' . join ', ', map { sprintf '%s %.2f s', $_, $slowest{$_} // 0 } @actions;
cmp_ok($nlate, '<=', $ncanceled / 10, "a cancel ends a statement within a second: $nlate of $ncanceled later");
$_->close for @direct;
$proxy->stop;
done_testing();
