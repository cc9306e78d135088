# A statement ends while a connection is still being opened. The next statement must continue to
# open the same connection. Nodes are slow to answer here, or their sockets are full.

use strict;
use warnings;

use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

my $c = ShardCluster->new(nodes => 2, add_nodes => 0);
my $proxy = ProtocolProxy->new(port => $c->node(1)->port);
$c->safe_psql("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ", 'postgres')");
$c->add_node(2);
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE written (id int PRIMARY KEY, v int); CREATE TABLE both_nodes (id int PRIMARY KEY, v int); CREATE TABLE wide (id int PRIMARY KEY)');
$c->shard_table('t', 'id', shards => 1, nodes => ['node1']);
$c->shard_table('written', 'id', shards => 1, nodes => ['node1']);
$c->shard_table('both_nodes', 'id', shards => 2);
$c->shard_table('wide', 'id', shards => 4, nodes => ['node1']);
$c->safe_psql('INSERT INTO t VALUES (1, 1); INSERT INTO both_nodes SELECT generate_series(1, 10)');

# How many connections were begun since the last arm().
sub begun { return scalar grep { $_->[1] eq 'startup' } $proxy->messages; }

my $client_of_node = WireClient->new($c->node(2), 'postgres');

# A session with a time-out for its statements. Returns the SQLSTATE of each.
sub session
{
	my ($timeout) = @_;
	my $client = WireClient->new($c->coordinator, 'postgres');
	$client->query("SET statement_timeout = '$timeout'");
	return $client;
}

sub state_of
{
	my ($client, $sql, @data) = @_;
	my $result = $client->query($sql, @data);
	return $result->{error} ? "$result->{error}{C} $result->{error}{M}" : join ',', map { join '|', @$_ } @{ $result->{rows} };
}

# ---------- a node slower than the time-out ----------

# at: the message that does not arrive. The first one is about the password, the other one sets up
# the session
for my $at ('R', 'T')
{
	my %statements = (
		'SELECT'      => [ 'SELECT v FROM t',                       qr/^\d+$/ ],
		'UPDATE'      => [ 'UPDATE t SET v = v + 1 RETURNING id',   qr/^1$/ ],
		'transaction' => [ 'BEGIN; SELECT v FROM t; COMMIT',        qr/^\d+$/ ],
		'two nodes'   => [ 'SELECT count(*) FROM both_nodes',       qr/^10$/ ],
		'TRUNCATE'    => [ 'BEGIN; TRUNCATE t; ROLLBACK',           qr/^$/ ],
		# a statement that the node commits by itself
		'one node'    => [ 'UPDATE t SET v = v + 1',                qr/^$/ ],
		'INSERT'      => [ 'INSERT INTO written VALUES (2, 2) ON CONFLICT DO NOTHING', qr/^$/ ],
		# a statement that first queries the node
		'COPY'        => [ 'COPY written FROM STDIN',               qr/^$/, ($at eq 'R' ? 3 : 4) . "\t1\n" ],
		'INSERT ... SELECT' => [ 'BEGIN; INSERT INTO written SELECT generate_series(10, 20); ROLLBACK', qr/^$/ ],
		'ANALYZE'     => [ 'ANALYZE t',                             qr/^$/ ],
		'query_nodes' => [ q{SELECT ok FROM shardfdw.query_nodes(commands => ARRAY['SELECT 1'], nodes => ARRAY['node1']::name[], mode => 'autocommit')}, qr/^t$/ ],
		'cluster'     => [ q{BEGIN; SET LOCAL shardfdw.snapshot = 'cluster'; SELECT count(*) FROM both_nodes; COMMIT}, qr/^10$/ ]);
	for my $name (sort keys %statements)
	{
		my ($sql, $expected, @data) = @{ $statements{$name} };
		my $client = session('150ms');

		$proxy->arm(from => 'node', type => $at, n => 0, action => 'hold');
		for my $n (1 .. 3)
		{
			like(state_of($client, $sql, @data), qr/^57014/, "$name, $at: time-out $n");
			# the time-out is for it, too
			for (1 .. 20) { $client->query('ROLLBACK') if $client->{status} ne 'I'; }
		}
		my $begun = begun();
		cmp_ok($begun, '<=', 1, "$name, $at: with one connection");
		cmp_ok($client->query(q{SELECT count(*) FROM shardfdw.connections WHERE node = 'node1'})->{rows}[0][0], '<=', 1, "$name, $at: and keeps no others");
		$proxy->clear;
		$client->query('SET statement_timeout = 0');
		like(state_of($client, $sql, @data), $expected, "$name, $at: done when the node has answered");
		is(begun(), $begun, "$name, $at: by the same connection") if $at eq 'R';
		$client->close;
	}
}

# Several connections, one of which is slow. The other connections stay open, too.
my $client = session('500ms');
$proxy->arm(from => 'node', type => 'R', n => 1, action => 'hold');
like(state_of($client, 'SELECT count(*) FROM wide'), qr/^57014/, 'one is slow: time-out');
my $begun = begun();
cmp_ok($begun, '>', 1, 'one is slow: there are others');
like(state_of($client, 'SELECT count(*) FROM wide'), qr/^57014/, "one is slow: time-out $_") for 2, 3;
is(begun(), $begun, 'one is slow: no others are opened');
$proxy->clear;
$client->query('SET statement_timeout = 0');
is(state_of($client, 'SELECT count(*) FROM wide'), '0', 'one is slow: done when the node has answered');
is(begun(), $begun, 'one is slow: by the same connections');
$client->close;

# Within a transaction block: the next statement after ROLLBACK TO.
$client = session('150ms');
$proxy->arm(from => 'node', type => 'R', n => 0, action => 'hold');
$client->query('BEGIN; SAVEPOINT a');
like(state_of($client, 'SELECT v FROM t'), qr/^57014/, 'in a transaction: time-out');
$client->query('ROLLBACK TO a');
$proxy->clear;
$client->query('SET LOCAL statement_timeout = 0');
usleep(50_000);
like(state_of($client, 'SELECT v FROM t'), qr/^\d+$/, 'in a transaction: done afterwards');
is(begun(), 1, 'in a transaction: by the same connection');
is($client->query('COMMIT')->{tags}[0], 'COMMIT', 'which commits');
$client->close;

# One snapshot for the transaction: the transaction keeps its writer.
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	$client = session('150ms');
	$proxy->arm(from => 'node', type => 'R', n => 1, action => 'hang');
	$client->query("BEGIN ISOLATION LEVEL $level; SAVEPOINT a");
	like(state_of($client, 'UPDATE t SET v = v + 1'), qr/^57014/, "$level: time-out");
	$client->query('ROLLBACK TO a');
	$proxy->clear;    # the connection ends
	$client->query('SET statement_timeout = 0');
	is(state_of($client, 'UPDATE t SET v = v + 1'), '', "$level: opened again");
	is($client->query('COMMIT')->{tags}[0], 'COMMIT', "$level: commits");
	$client->close;
}

# connect_timeout counts only while a statement waits.
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD connect_timeout '1')");
$client = session('150ms');
$proxy->arm(from => 'node', type => 'R', n => 0, action => 'hold');
like(state_of($client, 'SELECT v FROM t'), qr/^57014/, 'connect_timeout: statement_timeout comes first');
usleep(1_500_000);
like(state_of($client, 'SELECT v FROM t'), qr/^57014/, 'connect_timeout: begins anew with the next statement');
$client->query('SET statement_timeout = 0');
like(state_of($client, 'SELECT v FROM t'), qr/^58000 could not connect to node "node1"/, 'connect_timeout: its end');
$proxy->clear;
$client->close;

# If an attempt gets no answer for a long time, another attempt follows.
for my $at ('R', 'T')
{
	$client = session('400ms');
	$proxy->arm(from => 'node', type => $at, n => 1, action => 'hold');
	like(state_of($client, 'SELECT v FROM t'), qr/^57014/, "no answer, $at: time-out");
	usleep(1_500_000);
	$client->query('SET statement_timeout = 0');
	like(state_of($client, q{SELECT v FROM t}), qr/^\d+$/, "no answer, $at: another attempt");
	is(begun(), 2, "no answer, $at: that is the second one");
	is($client->query('SELECT count(*) FROM shardfdw.connections')->{rows}[0][0], 1, "no answer, $at: in place of the first one");
	$proxy->clear;
	$client->close;
}

# ---------- a deadlock check while a connection is being opened ----------

my ($shard) = map { $_->[0] } @{ $client_of_node->query(q{SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relname LIKE 'both\_nodes\_%'})->{rows} };

# One node has a connection, the other node waits for a lock.
sub start_update
{
	my ($statement) = @_;
	$client_of_node->query("BEGIN; LOCK TABLE $shard");
	$client = session(0);
	$client->query(q{SET deadlock_timeout = '200ms'});
	$proxy->arm(from => 'node', type => 'R', n => 1, action => 'hold');
	$client->start_query('UPDATE both_nodes SET v = 1');
	return;
}

start_update();
my $began = time;
my $result = $client->finish_query(30);
is($result->{error}{D}, 'connect_timeout expired', 'a look: connect_timeout');
cmp_ok(time - $began, '<', 20, 'a look: does not begin anew');
$client_of_node->query('ROLLBACK');
$proxy->clear;
$client->close;

$c->safe_psql("ALTER SERVER node1 OPTIONS (SET connect_timeout '60')");
start_update();
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD application_name 'other')");
is($client->finish_query(2), undef, 'a look, options changed: it waits');
$proxy->release;
$client_of_node->query('ROLLBACK');
$result = $client->finish_query(30);
is($result->{tags}[0], 'UPDATE 10', 'a look, options changed: the connection is still there');
$proxy->clear;
$client->close;
$client_of_node->close;
$c->safe_psql("ALTER SERVER node1 OPTIONS (SET connect_timeout '1', DROP application_name)");

# ---------- the connection is lost between two statements ----------

for my $at ('R', 'T')
{
	$client = session('150ms');
	$proxy->arm(from => 'node', type => $at, n => 1, action => 'hang');
	like(state_of($client, 'SELECT v FROM t'), qr/^57014/, "lost at $at: time-out");
	$proxy->clear;    # the connection ends
	$client->query('SET statement_timeout = 0');
	like(state_of($client, 'SELECT v FROM t'), qr/^\d+$/, "lost at $at: opened again, and nobody notices");
	$client->close;
}

# The same, but all earlier messages of the node have arrived, too.
for my $at ('R', 'T')
{
	$client = session('150ms');
	$proxy->arm(from => 'node', type => $at, n => 1, action => 'hold');
	like(state_of($client, 'SELECT v FROM t'), qr/^57014/, "ended behind $at: time-out");
	$c->end_sessions_on(1);
	$proxy->clear;
	$client->query('SET statement_timeout = 0');
	usleep(50_000);
	like(state_of($client, 'SELECT v FROM t'), qr/^\d+$/, "ended behind $at: opened again, and nobody notices");
	$client->close;
}

# If the node is down, the statement that continues must fail, too. It tries once more, not
# indefinitely.
$client = session('150ms');
$proxy->arm(from => 'node', type => 'R', n => 1, action => 'hang');
like(state_of($client, 'SELECT v FROM t'), qr/^57014/, 'down: time-out');
$c->stop_node(1);
$proxy->clear;
$client->query('SET statement_timeout = 0');
like(state_of($client, 'SELECT v FROM t'), qr/^58000 could not connect to node "node1"/, 'down: an error');
$c->start_node(1);
like(state_of($client, 'SELECT v FROM t'), qr/^\d+$/, 'up again');
$client->close;

# If options have changed, the new options count. A connection that is not to be kept is not kept.
$client = session('150ms');
$proxy->arm(from => 'node', type => 'R', n => 0, action => 'hold');
like(state_of($client, 'SELECT v FROM t'), qr/^57014/, 'options: time-out');
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD application_name 'changed')");
$proxy->clear;
$client->query('SET statement_timeout = 0');
like(state_of($client, 'SELECT v FROM t'), qr/^\d+$/, 'options: done');
is($c->node_safe_psql(1, q{SELECT count(*) FILTER (WHERE application_name = 'changed'), count(*) FROM pg_stat_activity WHERE application_name = 'changed' OR application_name LIKE 'shardfdw:%'}),
	'1|1', 'options: by a connection that has them');
$client->close;

# ---------- a socket with a full queue ----------

my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $path = "$folder/.s.PGSQL.5432";
my $real = $c->node(2)->host . '/.s.PGSQL.' . $c->node(2)->port;
my $full = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 1) or die "could not listen: $!";
my @waiting;
for (1 .. 50)
{
	socket my $socket, PF_UNIX, SOCK_STREAM, 0 or die "socket: $!";
	IO::Handle::blocking($socket, 0);
	last unless connect $socket, pack_sockaddr_un($path);
	push @waiting, $socket;
}
cmp_ok(scalar @waiting, '<', 50, 'the queue is full');
$c->safe_psql(qq{
	CREATE SERVER crowded FOREIGN DATA WRAPPER shardfdw OPTIONS (host '$folder', port '5432', dbname 'postgres', connect_timeout '1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER crowded;
	CREATE FOREIGN TABLE settings (name text, setting text) SERVER crowded OPTIONS (schema_name 'pg_catalog', table_name 'pg_settings')});
$client = session(0);
my $start = time;
like(state_of($client, q{SELECT setting FROM settings WHERE name = 'port'}), qr/^53300 could not connect to node "crowded"/, 'a full queue: too many connections');
cmp_ok(time - $start, '>', 0.9, 'a full queue: not before connect_timeout');

# at last a connection is available
$c->safe_psql("ALTER SERVER crowded OPTIONS (SET connect_timeout '60')");
$client->start_query(q{SELECT setting FROM settings WHERE name = 'port'});
is($client->finish_query(0.3), undef, 'it is asked again and again');
unlink $path or die "could not remove $path: $!";
symlink $real, $path or die "could not make $path: $!";
is($client->finish_query(30)->{rows}[0][0], $c->node(2)->port, 'until there is room');
$client->close;

# A node that ends a session sends a message some time before the connection ends. The next
# statement must not use that session.
{
	my $client = session('60s');
	my $end = join '', map { "$_\0" } 'SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection due to administrator command', '';

	is(state_of($client, 'SELECT count(*) FROM t'), '1', 'a session has a connection');
	# behind ReadyForQuery
	$proxy->arm(from => 'node', type => 'Z', action => 'replace', bytes => "Z\0\0\0\5I" . 'E' . pack('N', 4 + length $end) . $end);
	is(state_of($client, 'SELECT count(*) FROM t'), '1', 'the node ends it behind an answer');
	is($proxy->fired, 1, 'behind that answer');
	$proxy->arm(from => 'node', n => 1_000_000, action => 'kill');    # never: it counts
	is(state_of($client, 'SELECT count(*) FROM t'), '1', 'the next statement');
	is(begun(), 1, 'opens another connection');
	$proxy->clear;
	$client->close;
}

$proxy->stop;
done_testing();
