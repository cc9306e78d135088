# A role that may use the nodes shapes its own sessions there: it may create temporary tables, and
# change search_path. Its recover_prepared_transactions() tells all sessions of the coordinator
# whether a node has transactions left, so it must not believe names that the role has chosen.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\n");
plan skip_all => 'needs a build with FAULT_POINTS=1'
  unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $columns = 'transaction xid, gid text, prepared timestamptz, owner name, database name';
for my $node (1, 2)
{
	$c->node_safe_psql($node, "CREATE ROLE mallory LOGIN; CREATE SCHEMA evil;
		CREATE TABLE evil.pg_prepared_xacts ($columns);
		CREATE FUNCTION evil.never(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.never);
		GRANT USAGE ON SCHEMA evil TO mallory; GRANT SELECT ON evil.pg_prepared_xacts TO mallory");
}
$c->safe_psql('CREATE ROLE mallory LOGIN; GRANT USAGE ON FOREIGN SERVER node1, node2 TO mallory');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_
	OPTIONS (user 'mallory', password_required 'false')") for 1, 2;

my $recover = 'SELECT count(*) FROM shardfdw.recover_prepared_transactions()';
my $left = 'SELECT count(*) FROM pg_prepared_xacts';
my %attacks = (
	'no attack' => 'SELECT 1',
	'a temporary table' => "CREATE TEMP TABLE pg_prepared_xacts ($columns)",
	'search_path' => 'SET search_path = evil, pg_catalog');

for my $what (sort keys %attacks)
{
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, v int);
		INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
		SELECT shardfdw.shard_table('t', shards => 4)});
	$c->safe_psql($recover);
	$c->psql(q{SET client_min_messages = error; SET shardfdw.fault_points = 'commit=abort';
		BEGIN; CREATE TEMP TABLE kept AS TABLE t; TRUNCATE t; INSERT INTO t TABLE kept; COMMIT});
	ok($c->wait_for_restart, "$what: the coordinator has crashed");
	$c->psql(qq{SET ROLE mallory;
		SELECT count(*) FROM shardfdw_internal.run_commands('{node1,node2}',
			array_fill('$attacks{$what}'::text, ARRAY[2]), 'settle');
		SELECT * FROM shardfdw.recover_prepared_transactions()});
	cmp_ok($c->node_safe_psql(1, $left), '>', 0, "$what: a committed transaction is left prepared");
	is($c->safe_psql(ShardCluster::unsettled()), 1, "$what: the commit log says so");

	my $reader = WireClient->new($c->coordinator, 'postgres');
	my $pid = WireClient::shown($reader->query('SELECT pg_backend_pid()'));
	my $waits = qq{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name LIKE 'shardfdw:%:$pid' AND wait_event_type = 'Lock'};
	$reader->start_query('SELECT count(*) FROM t');
	ok($c->wait_for($waits, 1), "$what: a reader waits");
	$c->safe_psql($recover);
	like(WireClient::shown($reader->finish_query), qr/^(?:100|40001)/,
		"$what: it sees all rows, or fails");
	$reader->close;
	is($c->safe_psql('SELECT count(*) FROM t'), 100, "$what: all rows are there");
}
done_testing();
