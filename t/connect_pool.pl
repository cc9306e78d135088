# Tests connections to nodes: which connections a session keeps, how many all sessions together may
# have, and which changes close or reopen them.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = ShardCluster->new(
	nodes            => 2,
	host             => 'tcp',
	preload          => 1,
	coordinator_conf => "max_connections = 250\n",
	node_conf        => "max_connections = 100\n");
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql('INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g; CREATE TABLE one (id int, v int); CREATE TABLE two (id int, v int)');
$c->shard_table('one', 'id', shards => 1, nodes => ['node1']);
$c->shard_table('two', 'id', shards => 1, nodes => ['node2']);
$c->safe_psql('INSERT INTO one VALUES (1, 0); INSERT INTO two VALUES (1, 0)');

sub session
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\n");
	$session->{stderr} = '';
	return $session;
}

sub failure
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	$session->query($sql);
	my $err = $session->{stderr};
	$session->{stderr} = '';
	return $err;
}

sub set
{
	my (%set) = @_;
	$c->safe_psql("ALTER SYSTEM SET shardfdw.$_ = '$set{$_}'") for keys %set;
	$c->safe_psql('SELECT pg_reload_conf()');
	$c->wait_for("SELECT current_setting('shardfdw.$_') = '$set{$_}'") for keys %set;
	return;
}

my $shared = 'SELECT coalesce(sum(connections), 0), count(*) FILTER (WHERE waits) FROM shardfdw.shared_connections';

# ---------- one session ----------

my $s = session();
is($s->query('SELECT count(*) FROM shardfdw.connections'), '0', 'a new session has no connection');
$s->query('SELECT count(*) FROM t');
my $pids = $s->query('SELECT string_agg(node_pid::text, chr(32) ORDER BY node_pid) FROM shardfdw.connections');
like($s->query('SELECT node, role, state, wrote, kept, opened_at <= now(), node_version FROM shardfdw.connections LIMIT 1'),
	qr/^node1\|\w+\|idle\|f\|t\|t\|\d{6}$/, 'what it has is shown');
$s->query('SELECT count(*) FROM t');
is($s->query('SELECT string_agg(node_pid::text, chr(32) ORDER BY node_pid) FROM shardfdw.connections'), $pids, 'connections are used again');
is($s->query('SELECT count(*) FROM shardfdw.shared_connections WHERE pid = pg_backend_pid() AND allowed = 88'), '2', 'all sessions may have nine tenths of what a node allows');
is($s->query("SELECT shardfdw.disconnect('node1'); SELECT string_agg(DISTINCT node, ' ') FROM shardfdw.connections"), "t\nnode2", 'disconnect() closes those to one node');
is($s->query("SELECT shardfdw.disconnect('node1')"), 'f', 'there are none any more');
like(failure($s, "SELECT shardfdw.disconnect('nowhere')"), qr/42704.*nowhere/, 'disconnect() of what is not there');
$s->query('BEGIN; UPDATE one SET v = 1');
like(failure($s, 'SELECT shardfdw.disconnect()'), qr/WARNING.*55006.*"node1"/, 'one in use is not closed');
is($s->query('SELECT node, state, wrote FROM shardfdw.connections'), 'node1|idle in transaction|t', 'it is the only one left');
$s->query('COMMIT');
is($s->query('SELECT v FROM one'), '1', 'and commits');
is($s->query('BEGIN; SELECT count(*) FROM two; DROP SERVER node2 CASCADE; SELECT node FROM shardfdw.connections ORDER BY 1; ROLLBACK'), "1\nnode1\n", 'a server that the transaction has dropped has no name') or diag $s->{stderr};
is($s->query('SELECT shardfdw.disconnect(); SELECT count(*) FROM shardfdw.connections'), "t\n0", 'disconnect() closes all');
# A function of the extension leaves no state in a node's session, so its connection is kept. A
# user's command may leave state.
is($s->query(q{SELECT bool_and(status <> 'error') FROM shardfdw.check_cluster(); SELECT count(*) FROM shardfdw.connections}), "t\n2", 'what functions of the extension use is kept');
is($s->query(q{SELECT fields FROM shardfdw.query_nodes('{node1}', '{SET enable_seqscan = off}', 'autocommit'); SELECT node FROM shardfdw.connections}), "\nnode2",
	'what has run a command of the user is closed');
is($s->query(q{SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SET enable_seqscan = off', false); SELECT count(*) FROM shardfdw.connections}), "t\n0", 'by run_on_nodes(), too');
is($s->query(q{SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', 'BEGIN', false); SELECT count(*) FROM shardfdw.connections}), "t\n0", 'and by run_on_shards()');
$s->query('SELECT 1 FROM t');
$c->end_sessions_on(1);
is($s->query('SELECT count(*) FROM t'), '1000', 'they are replaced, and nobody notices');

# Prepared statements stay on the node, so their number is limited. If a connection has no room for
# the statements that the session runs now, the connection is replaced.
sub run_long_queries
{
	my ($nruns) = @_;

	$s->query(qq{DO \$\$ BEGIN
		FOR i IN 1 .. $nruns LOOP
			EXECUTE format('SELECT id FROM t WHERE id::text <> %L ORDER BY id LIMIT 1', repeat('x', 6000) || i % 60);
			COMMIT;
		END LOOP;
	END \$\$});
	return $s->query('SELECT string_agg(node_pid::text, chr(32) ORDER BY node_pid) FROM shardfdw.connections');
}
$s->query('SELECT shardfdw.disconnect()');
$pids = run_long_queries(180);
is(run_long_queries(180), $pids, 'nothing changes at first');
isnt(run_long_queries(5000), $pids, 'after many more there are new connections');

# Options count from the next statement on, also inside a transaction.
$c->node_safe_psql(1, "CREATE ROLE one SUPERUSER LOGIN; CREATE ROLE other SUPERUSER LOGIN; CREATE VIEW who AS SELECT current_user::text AS name, current_setting('application_name') AS app");
$c->safe_psql('CREATE FOREIGN TABLE who (name text, app text) SERVER node1');
like($s->query('SELECT app FROM who'), qr/^shardfdw/, 'before ALTER SERVER');
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD application_name 'changed')");
is($s->query('SELECT app FROM who'), 'changed', 'after ALTER SERVER');
is($s->query("BEGIN; SELECT app FROM who; ALTER SERVER node1 OPTIONS (SET application_name 'again'); SELECT app FROM who; COMMIT"), "changed\nagain", 'in a transaction');
$c->safe_psql('ALTER SERVER node1 OPTIONS (DROP application_name)');
my $me = $s->query('SELECT name FROM who');
$c->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER node1 OPTIONS (SET user 'other')");
is($s->query('SELECT name FROM who'), 'other', 'after ALTER USER MAPPING');
$c->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER node1 OPTIONS (SET user '$me')");
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD keep_connections 'off')");
is($s->query("SELECT name FROM who; SELECT count(*) FROM shardfdw.connections WHERE node = 'node1'"), "$me\n0", 'keep_connections off: none after the transaction');
is($s->query("BEGIN; SELECT name FROM who; SELECT kept FROM shardfdw.connections WHERE node = 'node1' LIMIT 1; COMMIT"), "$me\nf", 'but inside it');
$c->safe_psql('ALTER SERVER node1 OPTIONS (DROP keep_connections)');

# The user mapping is that of the current role, even if the role changes in a transaction, and for
# prepared statements.
$c->safe_psql("CREATE ROLE r1 SUPERUSER; CREATE ROLE r2 SUPERUSER; CREATE USER MAPPING FOR r1 SERVER node1 OPTIONS (user 'one'); CREATE USER MAPPING FOR r2 SERVER node1 OPTIONS (user 'other')");
is($s->query('BEGIN; SET ROLE r1; SELECT name FROM who; SET ROLE r2; SELECT name FROM who; SAVEPOINT a; SET ROLE r1; SELECT name FROM who; ROLLBACK TO a; SELECT name FROM who; RESET ROLE; SELECT name FROM who; COMMIT'),
	"one\nother\none\nother\n$me", 'SET ROLE in a transaction');
is($s->query('PREPARE q AS SELECT name FROM who; SET ROLE r1; EXECUTE q; SET ROLE r2; EXECUTE q; SET plan_cache_mode = force_generic_plan; EXECUTE q; SET ROLE r1; EXECUTE q; RESET ROLE; EXECUTE q'),
	"one\nother\nother\none\n$me", 'SET ROLE and a prepared statement');

# A server with several hosts: libpq uses one socket after the other while it connects (R56;
# t/connect_tls.pl tests it with TLS).
my ($host, $port) = $c->node_address(1);
$c->safe_psql("CREATE SERVER many FOREIGN DATA WRAPPER shardfdw OPTIONS (host '127.0.0.1,$host,$host', port '1,$port,$port', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER many OPTIONS (user '$me'); CREATE FOREIGN TABLE who_many (name text, app text) SERVER many OPTIONS (table_name 'who')");
is($s->query('SELECT name FROM who_many'), $me, 'the first of several hosts does not answer');
$c->safe_psql('DROP SERVER many CASCADE');
$s->quit;

# ---------- all sessions ----------
#
# More sessions than the nodes have connections, and a limit that all of them share (R54).

$c->wait_for("SELECT count(*) = 0 FROM shardfdw.shared_connections");
my $bench = PostgreSQL::Test::Utils::tempdir() . '/bench';
open my $fh, '>', "$bench.sql" or die;
print $fh "\\set id random(1, 1000)\nSELECT v FROM t WHERE id = :id;\nSELECT count(*) FROM t;\nUPDATE t SET v = v + 1 WHERE id = :id;\n";
close $fh;
$c->coordinator->command_checks_all(
	[ 'pgbench', '-n', '-c', '200', '-j', '4', '-t', '3', '-f', "$bench.sql", '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ],
	0, [qr{processed: 600/600}], [qr/^(?!.*ERROR)/s], '200 sessions on nodes with 100 connections get answers');
is($c->safe_psql('SELECT sum(v) - 500500 FROM t'), '600', 'each update counted once');

# Idle sessions give back connections for which other sessions wait.
set(max_shared_connections_per_node => 4);
my @idle = map { session() } 1 .. 3;
is($_->query('SELECT v FROM one'), '1', 'a session reads, and stays') for @idle;
is($c->safe_psql($shared), '3|0', 'three connections are open');
is($c->safe_psql('SELECT v FROM one'), '1', 'one more session gets an answer');
is($_->query('SELECT v FROM one'), '1', 'and those get others later') for @idle;

# Sessions in a transaction keep their connections.
$_->query_safe('BEGIN; INSERT INTO one VALUES (0, 0)') for @idle;
$s = session();
$s->query('SET shardfdw.connection_wait_timeout = 400');
my $start = time;
like(failure($s, 'SELECT v FROM one'), qr/53300.*node "node1".*400 ms.*connections to it are open, of 4/s, 'a wait ends in an error that names the node');
cmp_ok(time - $start, '<', 10, 'in time');
$s->query('SET shardfdw.connection_wait_timeout = 0; SET statement_timeout = 300');
like(failure($s, 'SELECT v FROM one'), qr/57014/, 'a wait can be cancelled');
like($c->safe_psql($shared), qr/^\d+\|0$/, 'nobody is left in the queue');
$s->query('SET statement_timeout = 0');
my $waiter = $c->start_sql('SELECT v FROM one');
$c->wait_for("SELECT count(*) = 1 FROM shardfdw.shared_connections WHERE waits");
$idle[1]->query('ROLLBACK');
is(join(' ', ($c->wait_sql($waiter))[ 0, 1 ]), '0 1', 'the end of a transaction makes room');
$_->query('ROLLBACK') for @idle;
$_->quit for @idle, $s;

# Sessions that hold connections to one node and wait for the other must not block each other
# indefinitely.
set(max_shared_connections_per_node => 3);
$c->wait_for("SELECT count(*) = 0 FROM shardfdw.shared_connections");
my @crossing = map {
	my ($first, $second) = $_ % 2 ? ('one', 'two') : ('two', 'one');
	$c->start_sql("BEGIN; SELECT count(*) FROM $first; INSERT INTO $first VALUES ($_ + 10, 0); SELECT pg_sleep(0.3); INSERT INTO $second VALUES ($_ + 10, 0); COMMIT; SELECT 'ok'");
} 1 .. 12;
my @ends = map { join ' ', map { s/\s+/ /gr } ($c->wait_sql($_))[ 0, 1 ] } @crossing;
is(scalar(grep { /^0 .*ok$/ } @ends), 12, 'twelve crossing transactions commit') || diag join "\n", @ends;
is($c->safe_psql('SELECT (SELECT count(*) FROM one WHERE id > 10), (SELECT count(*) FROM two WHERE id > 10)'), '12|12', 'on both nodes');

# A session that ends gives back its connections.
$c->wait_for("SELECT count(*) = 0 FROM shardfdw.shared_connections");
$s = session();
$s->query('BEGIN; INSERT INTO one VALUES (100, 0)');
my ($pid) = $s->query('SELECT pg_backend_pid()');
is($c->safe_psql($shared), '1|0', 'a session holds a connection');
$c->safe_psql("SELECT pg_terminate_backend($pid)");
$c->wait_for("SELECT count(*) = 0 FROM shardfdw.shared_connections");
is($c->safe_psql('SELECT count(*) FROM one WHERE id = 100'), '0', 'a terminated session gives it back');
eval { $s->quit };
$s = session();
$s->query('SELECT count(*) FROM t');
($pid) = $s->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
$c->wait_for_restart;
$c->wait_for("SELECT NOT EXISTS (SELECT FROM shardfdw.shared_connections WHERE pid = $pid)");
is($c->safe_psql('SELECT count(*) FROM t'), '1000', 'a killed one, too');
eval { $s->quit };
set(max_shared_connections_per_node => -1);
is($c->safe_psql('SELECT count(*) FROM t; SELECT count(*) FROM shardfdw.shared_connections WHERE allowed IS NOT NULL'), "1000\n0", 'no limit');

# If a node refuses a further connection, the session tries again. A statement that has a connection
# continues with it.
$c->node_safe_psql(1, 'CREATE ROLE few LOGIN CONNECTION LIMIT 1; GRANT SELECT ON who TO few');
$c->node_safe_psql(1, 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO few');
$c->safe_psql("CREATE ROLE few_here SUPERUSER; CREATE USER MAPPING FOR few_here SERVER node1 OPTIONS (user 'few'); CREATE TABLE here (id int)");
$c->shard_table('here', 'id', shards => 4, nodes => ['node1']);
$c->safe_psql('INSERT INTO here SELECT generate_series(1, 100)');
$c->node_safe_psql(1, 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO few');
is($c->safe_psql('SET ROLE few_here; SELECT count(*) FROM here'), '100', 'a role with one connection: four shards over that one') for 1 .. 5;
sub hog
{
	# the role's only connection may be ending still
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'few'", 1);
	return $c->node(1)->background_psql('postgres', extra_params => [ '-U', 'few' ]);
}
my $hog = hog();
my $refused = $c->start_sql('SET ROLE few_here; SELECT name FROM who');
$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%FROM who' AND wait_event_type IS NOT NULL AND state = 'active'");
usleep(300_000);
$hog->quit;
is(join(' ', ($c->wait_sql($refused))[ 0, 1 ]), '0 few', 'a refused connection is tried again');

# libpq keeps the socket of the refused attempt, whose other end is closed. The session must not
# wait for that socket. (A session in a busy loop would be seen running at each check, however many
# processes share the CPU.)
my $directory = $c->node(1)->host;
$c->safe_psql("CREATE SERVER near FOREIGN DATA WRAPPER shardfdw OPTIONS (host '$directory', port '$port', dbname 'postgres'); CREATE USER MAPPING FOR few_here SERVER near OPTIONS (user 'few'); CREATE FOREIGN TABLE who_near (name text, app text) SERVER near OPTIONS (table_name 'who')");
$hog = hog();
$refused = $c->start_sql('SET ROLE few_here; SELECT name FROM who_near');
my $asking = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%FROM who_near' AND wait_event_type IS NOT NULL AND state = 'active' AND pid <> pg_backend_pid()";
$c->wait_for("SELECT count(*) = 1 FROM ($asking) a");
($pid) = $c->safe_psql($asking) =~ /(\d+)/;
my $running = 0;
for (1 .. 60)
{
	usleep(25_000);
	$running++ if PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") =~ /\) R /;
}
cmp_ok($running, '<', 30, 'while it is refused it sleeps');
$hog->quit;
is(join(' ', ($c->wait_sql($refused))[ 0, 1 ]), '0 few', 'over a Unix socket, too');
$c->safe_psql('DROP SERVER near CASCADE');
$c->safe_psql("ALTER SERVER node1 OPTIONS (ADD connect_timeout '1')");
$hog = hog();
$c->psql_fails_like('SET ROLE few_here; SELECT name FROM who', qr/53300: could not connect to node "node1"/, 'until connect_timeout');
$hog->quit;
$c->safe_psql('ALTER SERVER node1 OPTIONS (DROP connect_timeout)');

# ---------- without session state ----------

# pgbouncer in transaction mode: each transaction may get another session of the node, and must
# leave no state in it.
my ($pgbouncer) = grep { -x $_ } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';

# Starts one in front of a server; returns its port.
my @poolers;

sub start_pooler
{
	my ($server, %opt) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $dir  = PostgreSQL::Test::Utils::tempdir();

	open my $conf, '>', "$dir/pgbouncer.ini" or die;
	print $conf '[databases]', "\n* = host=" . $server->host . ' port=' . $server->port . "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = $port\nunix_socket_dir =\n",
	  "auth_type = trust\nauth_file = $dir/users\npool_mode = transaction\ndefault_pool_size = $opt{size}\nmax_client_conn = 500\nlogfile = $dir/log\npidfile = $dir/pid\n";
	close $conf;
	open my $users, '>', "$dir/users" or die;
	print $users qq{"$me" ""\n};
	close $users;
	push @poolers, IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ], '<', '/dev/null', '>', "$dir/out", '2>&1');
	for (1 .. 100)
	{
		last if -s "$dir/pid";
		usleep(50_000);
	}
	-s "$dir/pid" or die 'pgbouncer does not start: ' . PostgreSQL::Test::Utils::slurp_file("$dir/out");
	return $port;
}

SKIP:
{
	skip 'there is no pgbouncer', 1 unless $pgbouncer;

	for my $i (1, 2)
	{
		my $pooled = start_pooler($c->node($i), size => 4);
		$c->safe_psql("ALTER SERVER node$i OPTIONS (SET port '$pooled', ADD session_state 'off')");
		$c->node_safe_psql($i, "ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()");
	}
	my @marks = map { $c->log_position($_) } 1, 2;
	my @settings = ('', 'SET shardfdw.enable_copy_fetch = off;', 'SET shardfdw.enable_shard_scan = off;');
	is($c->safe_psql("$_ SELECT count(*) FROM t"), '1000', "pooler: a read $_") for @settings;
	for my $settings (@settings)
	{
		is($c->safe_psql("$settings SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'SQL, DMY'; SELECT count(*) FROM t WHERE (timestamptz '2020-01-01 00:00:00+00' + v * interval '0')::text LIKE '01/01/2020 09:00:00%'"),
			'1000', "pooler: settings hold in the statement $settings");
		is($c->safe_psql("$settings SET TimeZone = 'UTC'; SELECT count(*) FROM t WHERE (timestamptz '2020-01-01 00:00:00+00' + v * interval '0')::text = '2020-01-01 00:00:00+00'"),
			'1000', "pooler: and not in others $settings");
		is($c->safe_psql("$settings BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; UPDATE t SET v = v + 1 WHERE id = 1; SELECT sum(v - id) FROM t; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; SELECT count(*) FROM t; ROLLBACK"),
			"1000\n601\n1000", "pooler: a transaction $settings");
	}
	is($c->safe_psql('PREPARE q(int) AS SELECT id FROM t WHERE id = $1; ' . join('', map { "EXECUTE q($_);" } 1 .. 20)), join("\n", 1 .. 20), 'pooler: a statement with parameters, often');
	is($c->safe_psql("INSERT INTO t SELECT g, 0 FROM generate_series(2001, 2100) g; SELECT count(*) FROM t; DELETE FROM t WHERE id > 2000; SELECT count(*) FROM t"), "1100\n1000", 'pooler: writes, committed by two phases');
	is($c->safe_psql("COPY t FROM PROGRAM 'seq -f \"%.0f	0\" 2001 2100'; SELECT count(*) FROM t; DELETE FROM t WHERE id > 2000"), '1100', 'pooler: COPY');
	is($c->safe_psql("SET TimeZone = 'Asia/Tokyo'; UPDATE t SET v = v + length((timestamptz '2020-01-01 00:00:00+00' + v * interval '0')::text) WHERE id = 7; SET TimeZone = 'UTC'; UPDATE t SET v = v - length((timestamptz '2020-01-01 09:00:00+09' + v * interval '0')::text) WHERE id = 7; SELECT count(*) FROM t"),
		'1000', 'pooler: single changes that commit by themselves');
	is($c->safe_psql("SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SELECT 1')"), 't', 'pooler: commands');
	# The pooler cannot detect transactions that wait for each other on different nodes. The
	# coordinator can.
	set(max_shared_connections_per_node => 4);
	my $before = $c->safe_psql('SELECT sum(v) FROM t');
	$c->coordinator->command_checks_all(
		[ 'pgbench', '-n', '-c', '30', '-j', '2', '-t', '5', '-M', 'prepared', '-f', "$bench.sql", '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ],
		0, [qr{processed: 150/150}], [qr/^(?!.*ERROR)/s], 'pooler: 30 sessions, four on each node');
	is($c->safe_psql("SELECT sum(v) - $before FROM t"), '150', 'pooler: each update counted once');
	set(max_shared_connections_per_node => -1);
	for my $i (1, 2)
	{
		my $log = $c->log_since($marks[ $i - 1 ], $i);
		unlike($log, qr/(statement|execute [^:]*): ([^\n]*; )*(SET (?!LOCAL|TRANSACTION)\w+ (=|TO)|RESET |PREPARE (?!TRANSACTION))/, "pooler: nothing is left in sessions of node $i");
		unlike($log, qr/execute shardfdw/, "pooler: no prepared statements in them");
		$c->node_safe_psql($i, "ALTER SYSTEM RESET log_statement; SELECT pg_reload_conf()");
	}

	# A pooler in front of the coordinator: results must not depend on the previous client of the
	# session.
	my $front = start_pooler($c->coordinator, size => 3);
	my @clients = map { $c->coordinator->background_psql('postgres', on_error_stop => 0, extra_params => [ '-d', "host=127.0.0.1 port=$front dbname=postgres" ]) } 1 .. 5;
	is($_->query('BEGIN; SELECT count(*) FROM t; COMMIT'), '1000', 'pooler in front: a client') for @clients;
	is($clients[$_]->query("BEGIN; UPDATE t SET v = -$_ WHERE id = $_; SELECT v FROM t WHERE id = $_; COMMIT"), "-$_", 'pooler in front: in its transaction') for 1 .. 4;
	is($clients[ 4 - $_ ]->query("SELECT v FROM t WHERE id = $_"), "-$_", 'pooler in front: what others wrote') for 1 .. 4;
	$_->quit for @clients;

	# The extended protocol, with a Sync after each statement and after several (pipelines).
	PostgreSQL::Test::Utils::append_to_file("$bench.pipeline", join "\n", '\set k random(1, 1000)', ('UPDATE t SET v = v + 1 WHERE id = :k;') x 2, '\startpipeline', ('UPDATE t SET v = v + 1 WHERE id = :k;') x 3, '\endpipeline', '');
	my $sum = $c->safe_psql('SELECT sum(v) FROM t');
	for my $mode (qw(simple extended))
	{
		my @pipeline = $mode eq 'simple' ? ('-f', "$bench.sql") : ('-f', "$bench.pipeline");
		$c->coordinator->command_checks_all([ 'pgbench', '-n', '-c', '10', '-j', '2', '-t', '10', '-M', $mode, @pipeline, '-h', '127.0.0.1', '-p', $front, 'postgres' ],
			0, [qr{processed: 100/100}], [qr/^(?!.*ERROR)/s], "pooler in front: $mode protocol");
	}
	is($c->safe_psql("SELECT sum(v) - $sum FROM t"), 100 + 500, 'pooler in front: each update counted once');
}
for my $pooler (@poolers)
{
	$pooler->signal('INT');
	$pooler->finish;
}

# A server has more addresses in its life than there are places to count them. Places of unused
# addresses are used again. The test gives one node many names. One of these names is in use all the
# time.
{
	my ($host, $port) = $c->node_address(1);
	my $n = 140;
	$c->safe_psql(join ";\n", map {
		"CREATE SERVER name$_ FOREIGN DATA WRAPPER shardfdw OPTIONS (host 'name$_', hostaddr '$host', port '$port', dbname 'postgres');"
		  . "CREATE USER MAPPING FOR CURRENT_USER SERVER name$_;"
		  . "CREATE FOREIGN TABLE by_name$_ (one int) SERVER name$_ OPTIONS (schema_name 'public', table_name 'by_name')" } 1 .. $n);
	$c->node_safe_psql(1, 'CREATE VIEW by_name AS SELECT 1 AS one');
	my $keeper = session();
	$keeper->query('SELECT * FROM by_name1');
	my $counted = $c->safe_psql(join '', map {
		"SELECT FROM by_name$_; SELECT 'counted' FROM shardfdw.shared_connections WHERE pid = pg_backend_pid() AND address LIKE 'host=name$_ %';"
		  . "SELECT FROM shardfdw.disconnect();\n" } 1 .. $n);
	is(() = $counted =~ /counted/g, $n, 'connections to any number of addresses are counted, one after another');
	is($c->safe_psql("SELECT count(*) FROM shardfdw.shared_connections WHERE address LIKE 'host=name1 %'"), '1', 'one that is in use keeps its place');
	$keeper->quit;
}

done_testing();
