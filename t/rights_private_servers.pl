# A role that may create servers must not be able to redirect other roles' writes or statements to
# its server. Servers are used without being named only if their owners may add nodes.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(
	nodes            => 3,
	add_nodes        => 0,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1\n",
	node_conf        => "log_connections = on\nlog_statement = all\n");
$c->add_node($_) for 1, 2;
my ($host, $port) = $c->node_address(3);

$c->safe_psql(q{CREATE ROLE mallory; CREATE ROLE alice; GRANT CREATE ON SCHEMA public TO mallory, alice;
	GRANT USAGE ON FOREIGN DATA WRAPPER shardfdw TO mallory; GRANT USAGE ON FOREIGN SERVER node1, node2 TO alice});
# Only a superuser gives a server to a role that may not add nodes.
$c->psql_fails_like("SET ROLE mallory; CREATE SERVER a_trap FOREIGN DATA WRAPPER shardfdw$_;", qr/42501: permission denied for function add_node/, "CREATE SERVER$_")
  for '', " OPTIONS (host '$host')";
$c->safe_psql(qq{CREATE SERVER a_trap FOREIGN DATA WRAPPER shardfdw OPTIONS (host '$host', port '$port', dbname 'postgres', partial_aggregates 'true');
	ALTER SERVER a_trap OWNER TO mallory});
$c->psql_fails_like("SET ROLE mallory; ALTER SERVER a_trap OPTIONS (SET host 'elsewhere');", qr/42501: permission denied for function add_node/, 'ALTER SERVER');
$c->safe_psql("CREATE USER MAPPING FOR alice SERVER node$_ OPTIONS (user 'postgres', password_required 'false')") for 1, 2;
$c->safe_psql(qq{SET ROLE mallory;
	CREATE USER MAPPING FOR PUBLIC SERVER a_trap OPTIONS (user 'postgres');
	CREATE USER MAPPING FOR postgres SERVER a_trap OPTIONS (user 'postgres');
	GRANT USAGE ON FOREIGN SERVER a_trap TO PUBLIC});
is($c->safe_psql('SELECT node, in_cluster FROM shardfdw.nodes ORDER BY node'), "a_trap|f\nnode1|t\nnode2|t", 'which nodes are of the cluster');

$c->safe_psql('GRANT CREATE ON SCHEMA shardfdw TO mallory; SET ROLE mallory; CREATE FUNCTION shardfdw.add_node() RETURNS int LANGUAGE sql RETURN 1');
is($c->safe_psql(q{SELECT in_cluster FROM shardfdw.nodes WHERE node = 'a_trap'}), 'f', 'a function of hers by that name does not count');
$c->safe_psql('SET ROLE mallory; DROP FUNCTION shardfdw.add_node()');

# The server's log, without what the test itself does there.
my $from = $c->log_position(3);
sub nothing_came
{
	my ($what) = @_;
	my $log = $c->log_since($from, 3);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	unlike($log, qr/connection (received|authorized)/, "nothing came to the private server: $what");
	return;
}

for my $role ('postgres', 'alice')
{
	$c->safe_psql(qq{SET ROLE $role; CREATE TABLE s_$role (id int PRIMARY KEY, v int); INSERT INTO s_$role SELECT i, i FROM generate_series(1, 100) i;
		SELECT shardfdw.shard_table('s_$role', shards => 6)});
	is($c->safe_psql("SELECT string_agg(DISTINCT node, ',') FROM shardfdw.shards WHERE relation = 's_$role'::regclass"), 'node1,node2', "default placement of $role");
	$c->safe_psql(qq{SET ROLE $role; CREATE TABLE r_$role (id int PRIMARY KEY, v int); INSERT INTO r_$role SELECT i, i FROM generate_series(1, 10) i;
		SELECT shardfdw.create_reference_table('r_$role')});
	is($c->safe_psql("SELECT nodes FROM shardfdw.tables WHERE relation = 'r_$role'::regclass"), '{node1,node2}', "replicas of a reference table of $role");
	$c->safe_psql("SET ROLE $role; INSERT INTO r_$role VALUES (11, 11); UPDATE r_$role SET v = 0 WHERE id < 3; ALTER TABLE r_$role ADD w int; TRUNCATE r_$role; INSERT INTO r_$role VALUES (1, 1)");
	is($c->safe_psql("SET ROLE $role; SELECT count(*) FROM s_$role JOIN r_$role USING (id)"), '1', "which $role can write to and join");
	is($c->safe_psql("SET ROLE $role; SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM s_$role"), '100', 'a snapshot over all nodes');
	$c->safe_psql("SET ROLE $role; SELECT * FROM shardfdw_internal.shard_sizes(); SELECT * FROM shardfdw.prepared_transactions; SELECT * FROM shardfdw.recover_prepared_transactions()");
	unlike($c->safe_psql("SET ROLE $role; SELECT node FROM shardfdw.check_cluster('rows')"), qr/a_trap/, 'check_cluster');
}
is($c->safe_psql("SELECT string_agg(node, ',' ORDER BY node) FROM shardfdw.run_on_nodes('SELECT 1')"), 'node1,node2', 'run_on_nodes');
# functions over all nodes of a test database; those of this one were not made by add_node()
for my $function (qw(drop_node_databases clone_node_databases))
{
	$c->psql_fails_like("SELECT shardfdw.$function()", qr/database "postgres" (?:on node "node1" was not made for this one|of node "node1" cannot be cloned)|exists on node "node1"/,
		"$function");
}
$c->safe_psql('BEGIN; SET shardfdw.enable_ddl_propagation = off; SELECT shardfdw.remove_all_nodes(drop_tables => true); ROLLBACK');
$c->safe_psql('CREATE TABLE new (id int); SELECT shardfdw.create_reference_table($$new$$); SELECT shardfdw.unshard_table($$new$$)');
nothing_came('tables, replicas and commands');

# Sessions that wait ask the nodes about deadlocks.
my $blocker = $c->coordinator->background_psql('postgres');
$blocker->query_safe('BEGIN; UPDATE s_postgres SET v = 2');
my $asked = $c->log_position(1);
my $waiter = $c->start_sql("SET deadlock_timeout = '10ms'; UPDATE s_postgres SET v = 3");
ok($c->wait_for_log(qr{pg_blocking_pids}, $asked, 1), 'the detector asks the nodes') ;
$blocker->query_safe('COMMIT');
$blocker->quit;
$c->wait_sql($waiter);
nothing_came('the deadlock detector');

# The recovery worker looks at it as its owner, whom the rules for passwords hold back.
my $at = $c->log_position();
ok($c->wait_for_log(qr/"a_trap": could not connect to node "a_trap".*password|"a_trap": password is required/s, $at), 'the recovery worker comes as the owner');
nothing_came('the recovery worker');

# Who names the server, means it.
$c->safe_psql(q{CREATE TABLE named (id int PRIMARY KEY, v int); INSERT INTO named SELECT i, i FROM generate_series(1, 100) i; SELECT shardfdw.shard_table('named', nodes => '{a_trap,node1}')});
for my $setting ('on', 'off')
{
	is( $c->safe_psql("SET shardfdw.enable_shard_scan = $setting; SELECT count(*), sum(r_postgres.v) FROM named JOIN r_postgres USING (id); SELECT count(*) FROM named WHERE id IN (SELECT id FROM r_postgres);
			SELECT count(*) FROM named n JOIN r_postgres r ON r.id = n.id WHERE n.id = 1"), "1|1\n1\n1", "joined with a reference table, which it has no replica of (shard scan $setting)");
}
is($c->node_safe_psql(3, q{SELECT to_regclass('r_postgres') IS NULL}), 't', 'for which none is made');
$c->safe_psql("SELECT shardfdw.unshard_table('named')");

# Its owner uses it as before, and it alone.
$c->safe_psql(q{CREATE USER MAPPING FOR mallory SERVER a_trap OPTIONS (user 'postgres', password_required 'false')});
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE own (id int PRIMARY KEY); SELECT shardfdw.shard_table('own', shards => 2)});
is($c->safe_psql("SELECT string_agg(DISTINCT node, ',') FROM shardfdw.shards WHERE relation = 'own'::regclass"), 'a_trap', 'default placement of its owner');
$c->psql_fails_like("REVOKE USAGE ON FOREIGN SERVER node1, node2 FROM alice; SET ROLE alice; CREATE TABLE a2 (id int PRIMARY KEY); SELECT shardfdw.shard_table('a2');",
	qr/55000: there are no nodes.*named/s, 'where only private servers are left');

# Who may add nodes makes nodes.
$c->safe_psql(q{GRANT EXECUTE ON FUNCTION shardfdw.add_node TO mallory});
is($c->safe_psql('SELECT in_cluster FROM shardfdw.nodes WHERE node = $$a_trap$$'), 't', 'once its owner may add nodes');
$c->safe_psql(q{SELECT shardfdw.create_reference_table('r_postgres'); SELECT shardfdw.create_reference_table('r_alice'); INSERT INTO r_postgres VALUES (2, 2)});
is($c->node_safe_psql(3, 'SELECT count(*) FROM r_postgres'), '2', 'it has replicas and gets what is written');

# A private server that does not answer after the login delays recovery of this database, and of others, only for a moment.
my $proxy = ProtocolProxy->new(port => $c->node(3)->port);
$proxy->arm(from => 'node', type => 'Z', action => 'hang');
$c->safe_psql('CREATE DATABASE later');
$c->coordinator->safe_psql('later', "CREATE EXTENSION shardfdw; SELECT shardfdw.add_node('node1', '$_->[0]', $_->[1], 'postgres')") for [ $c->node_address(1) ];
my $prefix = $c->coordinator->safe_psql('later', q{SELECT format('shardfdw:%s:%s:%s:%s:', system_identifier, database, identity, (extract(epoch FROM now() + interval '1 hour') * 1000000)::bigint)
	FROM shardfdw_internal.coordinator JOIN pg_control_system() s USING (system_identifier) WHERE taken_over_at IS NULL});
$c->safe_psql(q{CREATE ROLE sleepy; GRANT USAGE ON FOREIGN DATA WRAPPER shardfdw TO sleepy;
	CREATE SERVER asleep FOREIGN DATA WRAPPER shardfdw OPTIONS (host '127.0.0.1', port '} . $proxy->port . q{', dbname 'postgres', connect_timeout '0');
	ALTER SERVER asleep OWNER TO sleepy});
$c->safe_psql(q{CREATE USER MAPPING FOR sleepy SERVER asleep OPTIONS (user 'postgres', password_required 'false')});
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if $proxy->fired;
	usleep(100_000);
}
# other workers come and go
my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'shardfdw recovery worker' AND datname = 'postgres'
	ORDER BY backend_start LIMIT 1};
my $hangs = $c->safe_psql($worker);
my $xid = $c->coordinator->safe_psql('later', 'SELECT pg_current_xact_id()');
$c->node_safe_psql(1, "CREATE TABLE probe (id int); BEGIN; INSERT INTO probe VALUES (1); PREPARE TRANSACTION '$prefix$xid:65536'");
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE '%$xid:65536'", 1), 'another database is recovered');
my $own = $c->gid_prefix;
$xid = $c->safe_psql('SELECT pg_current_xact_id()');
$c->node_safe_psql(1, "CREATE TABLE probe_own (id int); BEGIN; INSERT INTO probe_own VALUES (1); PREPARE TRANSACTION '$own$xid:65536'");
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid LIKE '%$xid:65536'", 1), 'this database is recovered');
is($c->safe_psql($worker), $hangs, 'while the process that waits for the server goes on');
like($hangs, qr/\A\d+\z/, 'there is one');
$proxy->clear;

done_testing();
