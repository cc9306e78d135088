# A server is used only if its owner may execute add_node(): such a role has set its options, and
# decides about its user mappings. If a server has another owner, no connection goes to it, for any
# user. This holds however the server came to that owner.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(
	nodes            => 3,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1\nwal_level = replica\n",
	node_conf        => "log_connections = on\n");
my $options = q{OPTIONS (user 'postgres', password_required 'false')};
$c->safe_psql(qq{CREATE ROLE mallory; CREATE ROLE alice; CREATE ROLE keeper; CREATE ROLE adders;
	GRANT USAGE ON FOREIGN DATA WRAPPER shardfdw TO mallory, keeper;
	GRANT CREATE ON SCHEMA public TO mallory, alice;
	GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO alice});
$c->safe_psql("CREATE USER MAPPING FOR alice SERVER node$_ $options") for 1 .. 3;

# ---- options of servers ------------------------------------------------------------------------

my $no_right = qr/42501: permission denied for function add_node/;
$c->psql_fails_like("SET ROLE mallory; CREATE SERVER trap FOREIGN DATA WRAPPER shardfdw$_;",
	$no_right, "CREATE SERVER$_")
  for '', q{ OPTIONS (host '/nowhere')};

# ---- an owner with the right -------------------------------------------------------------------

$c->safe_psql(q{GRANT EXECUTE ON FUNCTION shardfdw.add_node TO keeper;
	ALTER SERVER node3 OWNER TO keeper;
	CREATE TABLE t (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('t', shards => 6);
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
	CREATE TABLE r (id int PRIMARY KEY, v int); SELECT shardfdw.create_reference_table('r');
	INSERT INTO r VALUES (1, 1); GRANT ALL ON t, r TO alice});
sub works
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $role ('postgres', 'alice')
	{
		is($c->safe_psql("SET ROLE $role; SELECT count(*) FROM t; UPDATE r SET v = v + 1;
			SELECT count(*) FROM t JOIN r USING (id)"), "100\n1", "$what: $role uses the server");
	}
	is($c->safe_psql(ShardCluster::problems(q{check_cluster('rows')})),
		'', "$what: check_cluster");
	return;
}
works('an owner with the right');

# ---- an owner without the right ----------------------------------------------------------------

my $reason = qr/server "node3" cannot be used because its owner may not add nodes/;
my $refused = qr/42501: $reason.*ALTER SERVER node3 OWNER TO postgres/s;
my %statements = (
	'a query' => 'SELECT count(*) FROM t',
	'ANALYZE' => 'ANALYZE t',
	'a write' => 'UPDATE t SET v = 0',
	'a load' => 'INSERT INTO t SELECT i, i FROM generate_series(1000, 1100) i',
	'a write of a reference table' => 'INSERT INTO r VALUES (2, 2)',
	'create_reference_table()' => q{CREATE TABLE new (id int PRIMARY KEY);
		SELECT shardfdw.create_reference_table('new')},
	'DDL' => 'ALTER TABLE t ADD w int',
	'shard_table()' => q{CREATE TABLE new (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('new', shards => 3)},
	'query_nodes()' => q{SELECT * FROM shardfdw.query_nodes('{node3}', '{SELECT 1}')},
	'IMPORT FOREIGN SCHEMA' => q{CREATE SCHEMA far;
		IMPORT FOREIGN SCHEMA public FROM SERVER node3 INTO far},
	'a snapshot over all nodes' => q{SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t},
	'a restore point' => q{SELECT shardfdw.create_restore_point('x')});

# Runs each statement after $break, which gives node3 to an owner without the right. The owner's
# user mappings do not help.
sub refuses
{
	my ($what, $break, $owner, $mend) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $open = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$open->query_safe('SELECT count(*) FROM t');
	$c->safe_psql($break);
	$c->safe_psql("SET ROLE $owner;
		CREATE USER MAPPING FOR PUBLIC SERVER node3 OPTIONS (user 'postgres');
		DROP USER MAPPING FOR postgres SERVER node3;
		CREATE USER MAPPING FOR postgres SERVER node3 OPTIONS (user 'postgres');
		GRANT USAGE ON FOREIGN SERVER node3 TO PUBLIC");
	my $from = $c->log_position(3);
	my $here = $c->log_position;
	$c->psql_fails_like("BEGIN; $statements{$_};", $refused, "$what: $_") for sort keys %statements;
	for my $role ('alice', 'mallory', $owner)
	{
		$c->psql_fails_like("SET ROLE $role; $statements{'query_nodes()'};",
			$refused, "$what: query_nodes() of $role");
		$c->psql_fails_like("SET ROLE $role; SELECT shardfdw_internal.$_;", $refused,
			"$what: $role does not lock by $_")
		  for q{lock_new_objects('{node3}')}, q{lock_servers('{node3}')};
	}
	$c->psql_fails_like("SET ROLE $owner; ALTER SERVER node3 OPTIONS (SET host '/elsewhere');",
		$no_right, "$what: ALTER SERVER");
	$c->psql_fails_like("SET ROLE mallory; BEGIN; CREATE TABLE mine (id int);
			SELECT shardfdw_internal.$_;", qr/42501: role "mallory" may use no node/,
		"$what: its users do not lock by $_")
	  for q{lock_node_list('mine')}, q{take_replicas_turn('{mine}', false)};
	$open->query('SELECT count(*) FROM t');
	like($open->{stderr}, qr/its owner may not add nodes/, "$what: a session that is connected");
	$open->quit;
	like($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster()
			WHERE node = 'node3' AND status = 'error'}), $reason, "$what: check_cluster() tells it");
	like($c->safe_psql('SELECT state FROM shardfdw.prepared_transactions'),
		qr/unreachable.*its owner may not add nodes/, "$what: so do prepared transactions");
	ok($c->wait_for_log(qr/"node3".*its owner may not add nodes/, $here),
		"$what: so does the recovery worker");
	like($c->safe_psql(q{SELECT result FROM shardfdw.run_on_nodes('SELECT 1') WHERE NOT ok}),
		qr/its owner may not add nodes/, "$what: so does run_on_nodes()");
	unlike($c->log_since($from, 3), qr/connection (received|authorized)/,
		"$what: nothing came to the node");
	$c->safe_psql("$mend; REVOKE USAGE ON FOREIGN SERVER node3 FROM PUBLIC;
		DROP USER MAPPING FOR PUBLIC SERVER node3;
		ALTER USER MAPPING FOR postgres SERVER node3 OPTIONS (ADD password_required 'false')");
	works($what);
	return;
}
my $back = 'ALTER SERVER node3 OWNER TO keeper';
refuses('ALTER SERVER OWNER TO', 'ALTER SERVER node3 OWNER TO mallory', 'mallory', $back);
refuses('REASSIGN OWNED', 'REASSIGN OWNED BY keeper TO mallory', 'mallory', $back);
refuses('REVOKE', 'REVOKE EXECUTE ON FUNCTION shardfdw.add_node FROM keeper', 'keeper',
	'GRANT EXECUTE ON FUNCTION shardfdw.add_node TO adders; GRANT adders TO keeper');
refuses('the end of a membership', 'REVOKE adders FROM keeper', 'keeper', 'GRANT adders TO keeper');
refuses('DROP OWNED', 'DROP OWNED BY adders', 'keeper',
	'GRANT EXECUTE ON FUNCTION shardfdw.add_node TO keeper');

# A function of that name that another role has made gives no right.
$c->safe_psql(q{GRANT CREATE ON SCHEMA shardfdw TO mallory; ALTER SERVER node3 OWNER TO mallory;
	SET ROLE mallory; CREATE FUNCTION shardfdw.add_node() RETURNS int LANGUAGE sql RETURN 1});
$c->psql_fails_like('SELECT count(*) FROM t;', $refused, 'a function of the owner named add_node');
$c->safe_psql('SET ROLE mallory; DROP FUNCTION shardfdw.add_node(); RESET ROLE;
	REVOKE CREATE ON SCHEMA shardfdw FROM mallory; ALTER SERVER node3 OWNER TO keeper');

# ---- dump and restore --------------------------------------------------------------------------

# The privileges come last in a dump. Definitions for nodes come earlier.
$c->safe_psql(q{CREATE SCHEMA s; SELECT shardfdw.shard_schema('s', 'node3');
	CREATE TABLE s.x (id int PRIMARY KEY); INSERT INTO s.x VALUES (1);
	CREATE STATISTICS st ON id, v FROM t; CREATE INDEX ON t (v);
	COMMENT ON TABLE t IS 'sharded'; COMMENT ON INDEX t_pkey IS 'key';
	CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM t});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
my @dump = ('-d', $c->coordinator->connstr('postgres'), '-f', $dump);
my @restore = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1',
	'-d', $c->coordinator->connstr('restored'), '-f', $dump);
my @queries = ('SELECT count(*) FROM t', 'SELECT * FROM s.x', 'SELECT * FROM counted',
	q{SELECT obj_description('t_pkey'::regclass)},
	q{SELECT count(*) FROM pg_constraint WHERE contype = 'p'
		AND connamespace IN ('s'::regnamespace, 'public'::regnamespace)},
	'SELECT count(*) FROM pg_statistic_ext', q{SELECT proacl FROM pg_proc WHERE proname = 'add_node'},
	q{SELECT pg_get_userbyid(srvowner) FROM pg_foreign_server WHERE srvname = 'node3'});
my $expected = join "\n", map { $c->safe_psql($_) } @queries;
# A stored row is not a right: pg_restore --disable-triggers stores rows.
$c->safe_psql(q{CREATE ROLE revoked; ALTER TABLE shardfdw_internal.node_adder DISABLE TRIGGER ALL;
	INSERT INTO shardfdw_internal.node_adder VALUES ('revoked');
	ALTER TABLE shardfdw_internal.node_adder ENABLE ALWAYS TRIGGER grant_restored});
for my $form ('', '--inserts')
{
	command_ok([ 'pg_dump', @dump, $form || () ], "pg_dump $form");
	$c->safe_psql('CREATE DATABASE restored');
	# Some tools restore with this setting.
	local $ENV{PGOPTIONS} = $form ? '-c session_replication_role=replica' : '';
	command_ok(\@restore, "restore $form");
	is(join("\n", map { $c->coordinator->safe_psql('restored', $_) } @queries), $expected,
		"everything is there $form");
	is($c->coordinator->safe_psql('restored', 'SELECT count(*) FROM shardfdw_internal.node_adder'), '0',
		"rows are rights, and not stored $form");
	$c->safe_psql('DROP DATABASE restored WITH (FORCE)');
}
command_ok([ 'pg_dump', @dump, '--schema-only' ], 'pg_dump --schema-only');
$c->safe_psql('CREATE DATABASE restored');
{
	local $ENV{PGOPTIONS} = '-c shardfdw.enable_ddl_propagation=off';
	command_ok(\@restore, 'definitions alone, without propagation');
}
my @without_rows = grep { !/counted/ } @queries;
is(join("\n", map { $c->coordinator->safe_psql('restored', $_) } @without_rows),
	join("\n", map { $c->safe_psql($_) } @without_rows), 'everything but rows is there');
$c->safe_psql('DROP DATABASE restored WITH (FORCE)');

# ---- a wrapper that is adopted -----------------------------------------------------------------

SKIP:
{
	skip 'there is no postgres_fdw', 2
	  if $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions
		WHERE name = 'postgres_fdw'}) eq '0';
	# A connection would be refused with another error.
	$c->safe_psql(q{CREATE EXTENSION postgres_fdw;
		GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory; SET ROLE mallory;
		CREATE SERVER old FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
		CREATE USER MAPPING FOR PUBLIC SERVER old OPTIONS (user 'postgres', password 'x');
		CREATE FOREIGN TABLE far_r (id int, v int) SERVER old OPTIONS (table_name 'r')});
	$c->safe_psql('SELECT shardfdw.adopt_postgres_fdw()');
	$c->psql_fails_like("SET ROLE $_; SELECT * FROM far_r;", qr/42501: server "old" cannot be used/,
		"an adopted server of a role without the right, used by $_")
	  for 'postgres', 'mallory';
}

done_testing();
