# The owner of a node's database sets the default search_path and the default role of its sessions.
# The extension's own queries on nodes must not find the owner's functions and operators, and must
# not run as the owner. On the nodes of this test each built-in operator and function has a namesake
# that raises an error, in a schema that comes first.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1, node_conf => "wal_level = logical\nmax_wal_senders = 10\n",
	coordinator_conf => "shardfdw.recovery_interval = 1s\nwal_level = logical\n");
my $trusted = 'SET search_path = pg_catalog;';

for my $i (1, 2)
{
	$c->node_safe_psql($i, q{CREATE SCHEMA evil; DO $do$
	DECLARE p record; arguments text; body text;
	BEGIN
		FOR p IN SELECT o.oprname AS name, array_remove(ARRAY[o.oprleft, o.oprright], 0) AS types, o.oprleft, o.oprright, o.oprresult AS result, true AS is_operator FROM pg_operator o
				WHERE o.oprnamespace = 'pg_catalog'::regnamespace
			UNION ALL SELECT f.proname, f.proargtypes::oid[], 0, 0, f.prorettype, false FROM pg_proc f
				WHERE f.pronamespace = 'pg_catalog'::regnamespace AND f.prokind = 'f' AND NOT f.proretset AND f.provariadic = 0
		LOOP
			CONTINUE WHEN EXISTS (SELECT FROM pg_type t WHERE t.typtype = 'p' AND t.oid = ANY (p.types || p.result));
			SELECT string_agg(format('%s', format_type(t, NULL)), ', ' ORDER BY ord) FROM unnest(p.types) WITH ORDINALITY u(t, ord) INTO arguments;
			body := format('BEGIN RAISE EXCEPTION %L; END', 'a namesake of ' || p.name || '(' || coalesce(arguments, '') || ') was called');
			BEGIN
				IF p.is_operator THEN
					EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', 'operator ' || p.name, arguments, format_type(p.result, NULL), body);
					EXECUTE format('CREATE OPERATOR evil.%s (%s RIGHTARG = %s, FUNCTION = evil.%I)', p.name,
						CASE WHEN p.oprleft <> 0 THEN format('LEFTARG = %s,', format_type(p.oprleft, NULL)) END, format_type(p.oprright, NULL), 'operator ' || p.name);
				ELSE
					EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', p.name, arguments, format_type(p.result, NULL), body);
				END IF;
			EXCEPTION WHEN OTHERS THEN
			END;
		END LOOP;
	END $do$;
	GRANT USAGE ON SCHEMA evil TO PUBLIC; ALTER DATABASE postgres SET search_path = evil, pg_catalog, public});
	cmp_ok($c->node_safe_psql($i, "$trusted SELECT count(*) FROM pg_proc WHERE pronamespace = 'evil'::regnamespace"), '>', 2000, "node $i: namesakes");
	like(($c->node_psql($i, 'SELECT 1 - 1'))[2], qr/a namesake of -\(integer, integer\) was called/, "node $i: which sessions find");
	$c->node_safe_psql($i, "$trusted CREATE ROLE dbo; ALTER DATABASE postgres SET role = dbo; ALTER DATABASE postgres SET transform_null_equals = on");
	is($c->node_safe_psql($i, "$trusted SELECT current_user"), 'dbo', "node $i: sessions have its role");
}

# The coordinator asks each node for its number of connections again.
$c->coordinator->restart;

# The extension's statements on nodes, in new sessions.
my $n = 0;
sub works
{
	my ($what, $sql) = @_;
	my ($rc, $out, $err) = $c->psql($sql);

	is("$rc " . join("\n", grep { /namesake|ERROR/ } split /\n/, "$out\n$err"), '0 ', $what);
	return;
}

for my $state ('on', 'off')
{
	# a single message in a pooler's session runs with the role of the session
	if ($state eq 'off') { $c->node_safe_psql($_, "$trusted SET ROLE none; ALTER DATABASE postgres RESET role") for 1, 2; }
	$c->safe_psql("ALTER SERVER node$_ OPTIONS (ADD session_state '$state')") for 1, 2;
	works("$state: check_cluster()", 'SELECT * FROM shardfdw.check_cluster()');
	works("$state: recovery", 'SELECT * FROM shardfdw.recover_prepared_transactions()');
	works("$state: nodes, connections", 'SELECT * FROM shardfdw.nodes; SELECT * FROM shardfdw.connections; SELECT * FROM shardfdw.stat_nodes; SELECT * FROM shardfdw.node_status; SELECT * FROM shardfdw.activity; SELECT * FROM shardfdw.stat_shards; SELECT * FROM shardfdw.prepared_transactions');
	works("$state: shard_table", "CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v - 1 < 1000000), at timestamptz DEFAULT now() - interval '1 day');
		INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i; SELECT shardfdw.shard_table('t', shards => 4, mode => 'block')");
	works("$state: reference table", "CREATE TABLE r (id int PRIMARY KEY, w text); INSERT INTO r VALUES (1, 'x'); SELECT shardfdw.create_reference_table('r'); UPDATE r SET w = w || 'y'");
	my $owned = q{SELECT pg_catalog.count(*) FROM pg_catalog.pg_class
		WHERE relowner OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) 'dbo')};
	is($c->safe_psql("SELECT string_agg(result, ' ') FROM shardfdw.run_on_nodes(\$\$$owned\$\$)"), '0 0',
		"$state: no shard belongs to the owner of the database");
	works("$state: reads", "SELECT count(*), sum(v - 1), max(at) FROM t WHERE v + 1 > 3; SELECT * FROM t JOIN r USING (id); SELECT * FROM t WHERE id = 7; SELECT * FROM t ORDER BY v DESC LIMIT 3");
	works("$state: writes", "UPDATE t SET v = v + 1; UPDATE t SET v = v - 1 WHERE id = 7; INSERT INTO t VALUES (1001, 1), (1002, 2) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;
		BEGIN; DELETE FROM t WHERE v % 7 = 1; SAVEPOINT a; UPDATE t SET v = -v; ROLLBACK TO a; COMMIT; SELECT * FROM t WHERE v < 9 FOR UPDATE");
	works("$state: COPY", "COPY (SELECT i, i FROM generate_series(2001, 3000) i) TO '" . $c->coordinator->data_dir . "/rows'; COPY t (id, v) FROM '" . $c->coordinator->data_dir . "/rows'");
	works("$state: definitions", "ALTER TABLE t ADD COLUMN z int DEFAULT 7 - 1, ADD CHECK (z * 2 > z - 1); CREATE INDEX t_v ON t ((v - 1)) WHERE v > 1; ANALYZE t; VACUUM t");
	works("$state: an index, concurrently", 'CREATE INDEX CONCURRENTLY t_w ON t (v); REINDEX INDEX CONCURRENTLY t_w; DROP INDEX CONCURRENTLY t_w');
	if ($state eq 'on') { works('on: an index with an expression, concurrently', 'CREATE INDEX CONCURRENTLY t_e ON t ((v - 1)) WHERE v > 1; DROP INDEX t_e'); }
	else { like(($c->psql('CREATE INDEX CONCURRENTLY t_e ON t ((v - 1))'))[2], qr/cannot create an index with expressions concurrently on node "node\d", which has session_state 'off'/, 'off: an index with an expression, concurrently'); }
	works("$state: jobs", "SELECT shardfdw.move_shard('t_00', CASE WHEN node = 'node1' THEN 'node2' ELSE 'node1' END::name, mode => 'online') FROM shardfdw.shards WHERE shard = 't_00'::regclass;
		SELECT shardfdw.split_shard('t_01', mode => 'online'); SELECT shardfdw.rebalance('count')");
	works("$state: functions on nodes", "SELECT * FROM shardfdw.run_on_nodes('SELECT pg_catalog.now()'); SELECT * FROM shardfdw.run_on_shards('t', 'SELECT pg_catalog.count(*) FROM %s');
		SELECT * FROM shardfdw.run_on_nodes('VACUUM pg_class', in_transaction => false)");
	works("$state: unshard online, shard online", "SELECT shardfdw.unshard_table('t', mode => 'online'); SELECT shardfdw.shard_table('t', shards => 2, mode => 'online')");
	works("$state: end", 'DROP TABLE t, r');
	works("$state: a node", "SELECT shardfdw.disable_node('node2'); SELECT shardfdw.enable_node('node2'); SELECT shardfdw.refresh_node('node2'); SELECT shardfdw.confirm_node('node2')");
	$c->safe_psql('SELECT shardfdw.reset_stat_nodes()');
	$c->wait_for('SELECT bool_and(statements > 0) FROM shardfdw.stat_nodes');
	unlike($c->log_since(0), qr/namesake/, "$state: nor did a worker meet one");
	$c->safe_psql("ALTER SERVER node$_ OPTIONS (DROP session_state)") for 1, 2;
}

done_testing();
