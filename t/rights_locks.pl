# A role without rights cannot block the functions of an administrator. The role calls each function
# that it may execute, with many arguments. Then it holds no lock that other sessions need.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{CREATE TABLE t (k int PRIMARY KEY);
	SELECT shardfdw.shard_table('t', 'k', shards => 2);
	CREATE TABLE copied (k int PRIMARY KEY);
	SELECT shardfdw.shard_table('copied', 'k', shards => 2, replication_factor => 2);
	CREATE TABLE r (k int PRIMARY KEY);
	SELECT shardfdw.create_reference_table('r');
	CREATE ROLE nobody; CREATE SCHEMA own AUTHORIZATION nobody; CREATE ROLE maker;
	CREATE SCHEMA made AUTHORIZATION maker; GRANT USAGE ON FOREIGN SERVER node1, node2 TO maker;
	CREATE TABLE own.mine (k int PRIMARY KEY); ALTER TABLE own.mine OWNER TO nobody;
	CREATE TABLE made.mine (k int PRIMARY KEY); ALTER TABLE made.mine OWNER TO maker});
$c->safe_psql(qq{CREATE USER MAPPING FOR maker SERVER node$_ OPTIONS (user 'postgres')}) for 1, 2;

# ---- the functions that lock the list of nodes ---------------------------------------------------

# The advisory locks of the extension that a session holds, by their kinds. $call: runs before.
sub kinds
{
	my ($role, $call) = @_;
	return $c->safe_psql(qq{SET ROLE $role; BEGIN; $call;
		SELECT coalesce(string_agg(objsubid::text, ' ' ORDER BY objsubid), 'none') FROM pg_locks
		WHERE locktype = 'advisory' AND pid = pg_backend_pid()});
}

sub refused
{
	my ($role, $call, $error) = @_;
	$c->psql_fails_like("SET ROLE $role; SELECT shardfdw_internal.$call", $error, "$role: $call");
}

# No SQL function can take the locks: PostgreSQL's own advisory locks have the kinds 1 and 2.
is(kinds('postgres', q{DO $$ BEGIN PERFORM shardfdw_internal.lock_node_list(); END $$}), '14',
	'an administrator locks the list of nodes');
for my $role ('nobody', 'maker')
{
	refused($role, 'lock_node_list()', qr/42501: permission denied for function add_node/);
	refused($role, q{lock_node_list('r')}, qr/42501: must be owner of table r/);
}
refused('nobody', q{lock_node_list('own.mine')}, qr/42501: role "nobody" may use no node/);
refused('nobody', q{unshard_reference('own.mine')}, qr/42501: role "nobody" may use no node/);
refused('nobody', "take_replicas_turn('{own.mine}', $_)", qr/42501: role "nobody" may use no node/)
  for qw(false true);
is(kinds('nobody', q{DO $$ BEGIN
	PERFORM shardfdw_internal.take_replicas_turn('{987654321}'); END $$}),
	'none', 'a table that does not exist locks nothing');

# A temporary table belongs to any role; it cannot be sharded.
for my $call (q{lock_node_list('mine')}, q{take_replicas_turn('{mine}')})
{
	my $mine = 'SET ROLE maker; CREATE TEMPORARY TABLE mine ()';
	$c->psql_fails_like("$mine; SELECT shardfdw_internal.$call",
		qr/0A000: cannot shard table "mine" because it is temporary/, "a temporary table: $call");
}
# If a role may not use one of the nodes, it cannot create reference tables.
$c->safe_psql('REVOKE USAGE ON FOREIGN SERVER node2 FROM maker');
refused('maker', q{lock_node_list('made.mine')}, qr/42501: .*foreign server node2/);
$c->safe_psql('GRANT USAGE ON FOREIGN SERVER node2 TO maker');
# With its rights, it locks.
is(kinds('maker', q{DO $$ BEGIN
	PERFORM shardfdw_internal.lock_node_list('made.mine'); END $$}), '14',
	'a role that may create reference tables locks the list of nodes');

# ---- all functions -------------------------------------------------------------------------------

# Calls each function that the role may execute with rows of arguments. After each call that
# raises no error, returns the locks that other sessions would wait for: advisory locks, except
# those of the role's own jobs (kind 21) and tables, and locks of servers and of other roles'
# schemas and tables. The mode ACCESS SHARE is left out, because PostgreSQL's pg_partition_tree()
# locks any table for any role in that mode.
$c->safe_psql(q{CREATE FUNCTION values_of(type oid) RETURNS text[] LANGUAGE plpgsql AS $$
	DECLARE value text; found text[] := '{}';
	BEGIN
		FOREACH value IN ARRAY '{t,f,0,1,-1,r,t_00,copied,own.mine,"{}","{t}","{r}","{own.mine}",
			"{987654321}","{copied,own.mine}",node1,"{node1}",public,own,nobody,SELECT 1,x}'::text[]
		LOOP
			BEGIN
				EXECUTE format('SELECT %L::%s', value, format_type(type, NULL));
				found := found || quote_literal(value);
			EXCEPTION WHEN OTHERS THEN
			END;
		END LOOP;
		RETURN coalesce(nullif(found, '{}'), '{NULL}');
	END $$;
	CREATE FUNCTION locks_kept(pattern text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE f record; arguments text; kept text; lists text[];
	BEGIN
		FOR f IN SELECT p.oid::regproc AS name, p.oid AS id, p.proargtypes::oid[] AS types
			FROM pg_proc p
			WHERE p.pronamespace IN ('shardfdw'::regnamespace, 'shardfdw_internal'::regnamespace)
				AND p.prokind = 'f'
				AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
				AND has_function_privilege(p.oid, 'EXECUTE') AND p.proname ~ pattern ORDER BY 2
		LOOP
			-- each value of each argument is used
			FOR i IN 0 .. CASE WHEN f.types = '{}' THEN 0 ELSE 22 END
			LOOP
				SELECT string_agg(format('(%s)::%s',
						v.list[1 + (i + (a.ord - 1) * (1 + i / 7)) % cardinality(v.list)],
						CASE WHEN a.type IN ('"any"'::regtype, 'anyelement'::regtype) THEN 'text'
							ELSE format_type(a.type, NULL) END), ', ' ORDER BY a.ord)
				INTO arguments FROM unnest(f.types) WITH ORDINALITY a(type, ord)
				JOIN lists.value_lists v USING (type);
				BEGIN
					EXECUTE format('SELECT FROM %s(%s)', f.name, arguments);
					SELECT string_agg(DISTINCT format('%s %s %s', l.locktype, l.mode,
							coalesce(l.relation::regclass::text, l.objsubid::text)), ', ') INTO kept
					FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation
					LEFT JOIN pg_namespace n
						ON l.classid = 'pg_namespace'::regclass AND n.oid = l.objid
					WHERE l.pid = pg_backend_pid() AND CASE l.locktype
						WHEN 'advisory' THEN l.objsubid <> 21
							AND NOT (l.objsubid = 6 AND l.classid = 'own.mine'::regclass)
						WHEN 'object' THEN l.classid = 'pg_foreign_server'::regclass
							OR NOT pg_has_role(n.nspowner, 'USAGE')
						WHEN 'relation' THEN l.mode NOT IN ('AccessShareLock', 'RowExclusiveLock')
							AND NOT pg_has_role(c.relowner, 'USAGE') END;
					IF kept IS NOT NULL THEN
						RETURN NEXT format('%s(%s): %s', f.name, arguments, kept);
					END IF;
					RAISE EXCEPTION 'released';
				EXCEPTION WHEN OTHERS THEN
				END;
			END LOOP;
		END LOOP;
	END $$;
	CREATE SCHEMA lists; GRANT USAGE ON SCHEMA lists TO PUBLIC;
	CREATE TABLE lists.value_lists AS SELECT x.type, values_of(x.type) AS list
		FROM (SELECT DISTINCT unnest(p.proargtypes::oid[]) FROM pg_proc p
			WHERE p.pronamespace::regnamespace::text LIKE 'shardfdw%') x(type);
	GRANT SELECT ON lists.value_lists TO PUBLIC});
my $search = 'SET client_min_messages = error; SELECT * FROM locks_kept';
is($c->safe_psql("SET ROLE nobody; $search()"), '',
	'a role without rights keeps no lock after any function');
# The same search finds locks: the owner of the tables holds some.
like($c->safe_psql("$search('^lock_')"), qr/lock_node_list\(.*advisory ExclusiveLock 14/,
	'the search finds the locks of an administrator');

# ---- an administrator works while such a role keeps its transaction open -------------------------

my $h = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$h->query_safe('SET ROLE nobody; BEGIN');
for my $call (q{internal.lock_node_list()}, q{internal.lock_node_list('own.mine')},
	q{internal.take_replicas_turn('{own.mine}')}, q{internal.take_replicas_turn('{987654321}')},
	q{internal.unshard_reference('own.mine')}, q{internal.store_identity()},
	q{recover_prepared_transactions()})
{
	my $name = $call =~ /internal/ ? "shardfdw_$call" : "shardfdw.$call";
	# an error releases the locks of its savepoint
	$h->query("SAVEPOINT s; DO \$\$ BEGIN PERFORM $name; EXCEPTION WHEN OTHERS THEN END \$\$");
}
$c->safe_psql(q{CREATE SCHEMA fresh; CREATE TYPE fresh.mood AS ENUM ('a');
	CREATE TABLE fresh.t (k int PRIMARY KEY, m fresh.mood)});
for my $call (q{shard_table('fresh.t', 'k', shards => 2)}, q{create_reference_table('made.mine')}, q{add_user('maker')},
	q{disable_node('node2')}, q{enable_node('node2')}, q{promote_coordinator('complete')})
{
	my ($rc, undef, $err) = $c->psql("SET lock_timeout = '1min'; SELECT shardfdw.$call",
		on_error_stop => 1);
	is($rc, 0, "not blocked: $call") || diag $err;
}
$h->quit;

done_testing();
