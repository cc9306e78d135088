# The extension runs SQL by itself, as a superuser or in background processes. This SQL must mean
# the same whatever the owner of the database has set: search_path, standard_conforming_strings and
# similar settings. Answers of nodes may be used as values in this SQL, never as text.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, add_nodes => 0, preload => 1, coordinator_conf => "wal_level = logical\nshardfdw.recovery_interval = 1s\n", node_conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
my $coordinator = $c->coordinator;
my $proxy = ProtocolProxy->new(port => $c->node(1)->port);

# Database vic belongs to dbo, who has a user mapping to a role of the same name, and may move shards.
$c->safe_psql('CREATE ROLE dbo LOGIN');
$c->safe_psql('CREATE DATABASE vic OWNER dbo');
$c->node_safe_psql($_, 'CREATE ROLE dbo LOGIN REPLICATION; GRANT CREATE ON DATABASE postgres TO dbo') for 1, 2;

sub root { my ($sql) = @_; return $coordinator->safe_psql('vic', $sql); }
sub dbo { my ($sql) = @_; return $coordinator->safe_psql('vic', "SET ROLE dbo; $sql"); }

root('CREATE EXTENSION shardfdw');
root("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ", 'postgres')");
root("SELECT shardfdw.add_node('node2', '127.0.0.1', " . $c->node(2)->port . ", 'postgres')");
root('GRANT USAGE ON FOREIGN SERVER node1, node2 TO dbo');
root("CREATE USER MAPPING FOR dbo SERVER node$_ OPTIONS (user 'dbo', password_required 'false')") for 1, 2;
root("GRANT EXECUTE ON FUNCTION shardfdw.move_shard, shardfdw.split_shard, shardfdw.merge_shards TO dbo");

# Schema evil has all operators, and many functions, of the types that SQL of the extension uses.
# Each of them reports a call by a superuser, and makes dbo one.
dbo(q{CREATE SCHEMA evil;
CREATE FUNCTION evil.spy(place text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
		RAISE LOG 'spied: % runs as %', place, current_user;
		EXECUTE 'ALTER ROLE dbo SUPERUSER';
	END IF;
END $$;
DO $$
DECLARE
	f record;
	types oid[] := ARRAY['int2', 'int4', 'int8', 'oid', 'text', 'name', 'bool', '"char"', 'timestamptz', 'interval', 'json', 'jsonb', 'pg_lsn', 'xid', 'regclass', 'float8', '_text', '_oid']::regtype[]::oid[];
BEGIN
	FOR f IN SELECT p.oid, p.proname, p.pronargs, p.proretset, pg_get_function_identity_arguments(p.oid) AS args, format_type(p.prorettype, NULL) AS result,
			(SELECT string_agg('$' || i, ', ') FROM generate_series(1, p.pronargs) i) AS params
		FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.prolang IN (SELECT oid FROM pg_language WHERE lanname IN ('internal', 'sql'))
			AND p.provariadic = 0 AND p.proargmodes IS NULL AND p.pronargs <= 4 AND NOT p.proretset AND p.prorettype <> 'void'::regtype
			AND (p.prorettype = ANY (types) AND p.proargtypes::oid[] <@ types) AND p.oid NOT IN (SELECT oprcode FROM pg_operator)
	LOOP
		EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.proname, f.args, f.result,
			format('BEGIN PERFORM evil.spy(%L); RETURN pg_catalog.%I(%s); END', f.proname, f.proname, f.params));
	END LOOP;
	FOR f IN SELECT o.oid, o.oprname, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r, format_type(o.oprresult, NULL) AS result
		FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b' AND o.oprleft = ANY (types) AND o.oprright = ANY (types)
	LOOP
		EXECUTE format('CREATE FUNCTION evil.op_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', f.oid, f.l, f.r, f.result,
			format('BEGIN PERFORM evil.spy(%L); RETURN $1 OPERATOR(pg_catalog.%s) $2; END', f.oprname, f.oprname));
		EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.op_%s)', f.oprname, f.l, f.r, f.oid);
	END LOOP;
END $$});
cmp_ok(dbo(q{SELECT pg_catalog.count(*) FROM pg_catalog.pg_operator WHERE oprnamespace OPERATOR(pg_catalog.=) 'evil'::pg_catalog.regnamespace}), '>', 200, 'operators to be called by mistake');
$coordinator->safe_psql('postgres', $_) for 'ALTER DATABASE vic SET search_path = evil, pg_catalog', 'ALTER DATABASE vic SET standard_conforming_strings = off',
  'ALTER DATABASE vic SET transform_null_equals = on', 'ALTER DATABASE vic SET quote_all_identifiers = on', 'ALTER DATABASE vic SET row_security = off',
  'ALTER DATABASE vic SET array_nulls = off', 'ALTER DATABASE vic SET escape_string_warning = off';

my $log = $c->log_position;

sub unchanged
{
	my ($what) = @_;
	is($c->safe_psql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'dbo'}), 'f', "$what: dbo is no superuser");
	$c->safe_psql('ALTER ROLE dbo NOSUPERUSER');
}

# ---- jobs ----------------------------------------------------------------------------------------

dbo(q{CREATE TABLE evil.t (k int PRIMARY KEY, v text); INSERT INTO evil.t SELECT g, 'row ' OPERATOR(pg_catalog.||) g FROM pg_catalog.generate_series(1, 50) g});
my ($rc, $out, $err) = $coordinator->psql('vic', q{SET ROLE dbo; SELECT shardfdw_internal.start_conversion('evil.t'::pg_catalog.regclass, '{}')});
$coordinator->psql('vic', q{SELECT shardfdw.wait_job(pg_catalog.max(id)) FROM shardfdw.jobs}) if $rc == 0;
unchanged('a conversion with a plan of nonsense');

dbo(q{SELECT shardfdw.shard_table('evil.t', 'k', shards => 4, nodes => ARRAY['node1'], mode => 'online')});
unchanged('shard_table online');
dbo(q{SELECT shardfdw.move_shard('evil.t_00', 'node2')});
unchanged('move_shard');
dbo(q{SELECT shardfdw.split_shard('evil.t_01', 2, mode => 'block')});
unchanged('split_shard');
dbo(q{SELECT shardfdw.create_reject_table('evil.r'); CREATE TABLE evil.other (k int PRIMARY KEY); SELECT shardfdw.create_reference_table('evil.other'); INSERT INTO evil.other VALUES (1);
	ALTER TABLE evil.t ADD COLUMN w int DEFAULT 5; CREATE INDEX ON evil.t (w); ALTER TABLE evil.t ADD CHECK (w IS NOT NULL)});
root(q{ALTER TABLE evil.t ADD COLUMN x timestamptz DEFAULT pg_catalog.clock_timestamp(); ALTER TABLE evil.t ADD UNIQUE (k, w); CREATE TABLE evil.late (k int PRIMARY KEY);
	SELECT * FROM shardfdw.check_cluster('rows'); SELECT * FROM shardfdw.recover_prepared_transactions(); SELECT shardfdw.create_restore_point('here')});
unchanged('statements of dbo and of a superuser');
is(root(q{SELECT pg_catalog.count(*) FROM evil.t}), '50', 'the rows are there');
dbo(q{SELECT shardfdw.unshard_table('evil.t', mode => 'online')});
unchanged('unshard_table online');
root(q{SELECT shardfdw.wait_job(id) FROM shardfdw.jobs WHERE state OPERATOR(pg_catalog.=) 'running'});

# ---- answers of nodes ----------------------------------------------------------------------------

# An SQLSTATE that would end a literal, and a message that would continue as a statement
my $message = q{, message = (SELECT pg_catalog.query_to_xml('ALTER ROLE dbo SUPERUSER', true, true, '')::text), detail = NULL --};
my $error = "SERROR\0VERROR\0CP000\\\0M$message\0\0";
dbo(q{SELECT shardfdw.shard_table('evil.t', 'k', shards => 2, nodes => ARRAY['node1', 'node2'])});
my $job = '';
for my $n (1 .. 90)
{
	my ($shard, $node) = split /\|/, root(q{SELECT shard, node FROM shardfdw.shards LIMIT 1});
	$proxy->arm(from => 'node', type => 'C', n => $n, action => 'replace', bytes => 'E' . pack('N', 4 + length $error) . $error);
	$coordinator->psql('vic', "SET ROLE dbo; SELECT shardfdw.move_shard('$shard', '" . ($node eq 'node1' ? 'node2' : 'node1') . "', mode => 'block')");
	$proxy->clear;
	$job = root(q{SELECT pg_catalog.concat_ws('|', sqlstate, message) FROM shardfdw_internal.job ORDER BY id DESC LIMIT 1});
	last if $job =~ /query_to_xml/;
}
like($job, qr/\A58000\|.*query_to_xml/, 'a malformed SQLSTATE is not taken over, the message is text');
unchanged('an answer of a node');

# ---- no function of dbo has run, not even in the rounds of recovery ------------------------------

my @spied = grep { /spied: / } split /\n/, $c->log_since($log);
is(join("\n", @spied), '', 'no operator or function of dbo has run as a superuser');
is(root(q{SELECT pg_catalog.count(*) FROM shardfdw.jobs WHERE state OPERATOR(pg_catalog.=) 'running'}), '0', 'no job is left');

# Settings of the database owner cannot prevent REVOKE on the nodes.
root(q{CREATE TABLE public.public_once (id int PRIMARY KEY); CREATE ROLE reader;
	SELECT shardfdw.shard_table('public.public_once', shards => 1, nodes => '{node1}')});
$c->node_safe_psql(1, 'CREATE ROLE reader');
my $reads = q{SELECT has_table_privilege('reader', 'public.public_once_00', 'SELECT')};
for my $setting ('enable_ddl_propagation = off', 'enable_coordinator_propagation = off', 'follows_coordinator = on')
{
	root('GRANT SELECT ON public.public_once TO reader');
	is($c->node_safe_psql(1, $reads), 't', "$setting: the role has the right");
	my ($name) = $setting =~ /(\w+)/;
	dbo("ALTER DATABASE vic SET shardfdw.$setting");
	my $mark = $c->log_position;
	$coordinator->psql('vic', 'REVOKE SELECT ON public.public_once FROM reader');
	like($c->log_since($mark), qr/WARNING: .*invalid value for parameter "shardfdw\.$name"/,
		"$setting: the session has ignored it");
	is($c->node_safe_psql(1, $reads), 'f', "$setting: REVOKE takes it away on the node, too");
	dbo("ALTER DATABASE vic RESET shardfdw.$name");
}

done_testing();
