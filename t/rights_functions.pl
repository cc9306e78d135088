# Tests who may execute the extension's functions. The functions of shardfdw_internal that every
# role may call are listed, each with its reason. Also tests what these functions refuse, and what
# the extension makes on nodes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);

# ---- schema shardfdw_internal --------------------------------------------------------------------

# Functions in SQL and PL/pgSQL have the rights of their caller. The others can do anything, so each has a reason.
my %reasons = (
	'only computes, or reads what the catalogs show to everybody' => [
		qw(balance check_isolation checked_columns checked_definition checked_part default_collation partial_aggregate_name scram_secret),
		qw(aggregates_of check_owner_code coordinator_identity decided_identities has_older_snapshots holds_job in_remote_transaction is_alone is_reference
		  job_is_running job_token job_works_on key_default_reason library_version needed revoke_command schema_command server_mark shard_group
		  shard_groups shard_object_name)],
	'shows connections, counters and the loads that the caller may see' => [qw(all_connections load_stats node_counters session_connections)],
	'reads as a statement of the caller would, or with fewer rights' => ['read_here'],
	'asks nodes with the user mapping of the caller' => [qw(apply_replicas list_prepared lock_new_objects read_as_owner run_commands settle_node settle_server)],
	'checks ownership, or rights on the table' => [
		qw(attach_partial_aggregate check_shard_owners copy_aggregate copy_reference_rows copy_shard_rows grant_as hold_shards lock_node_list lock_placements lock_schema lock_schemas lock_servers lock_to_clear lock_view
		  make_objects_on_nodes note_copied_table note_left_shard set_key_defaults set_placements set_shard_node start_conversion take_replicas_turn take_turn)],
	'checks ownership, and EXECUTE on the public function' => [qw(start_job start_series start_import set_restore_point)],
	'checks whose job it is' => [qw(ask_for_cut_over claim_job wait_move)],
	'called by another coordinator, with the rights of the role of the same name' => [qw(begin_following follow_coordinator)],
	'writes the identity that the database has, whoever calls' => ['store_identity'],
	'makes statements check more' => ['doubt_nodes'],
	'forgets only what nothing needs any more' => [qw(forget_position note_dropped_reference)],
	'trigger function' => [qw(send_reference_write take_reference_turn)]);
my %reason_of = map { my $reason = $_; map { ($_ => $reason) } @{ $reasons{$reason} } } keys %reasons;

my $of_extension = q{p.oid IN (SELECT objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND e.extname = 'shardfdw')};
my @public = split /\n/, $c->safe_psql(qq{SELECT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
	WHERE p.pronamespace = 'shardfdw_internal'::regnamespace AND $of_extension AND l.lanname NOT IN ('sql', 'plpgsql') AND p.prokind <> 'a'
		AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE') ORDER BY 1});
is(join(' ', grep { !$reason_of{$_} } @public), '', 'functions that everybody may execute have a reason');
my %is_public = map { ($_ => 1) } @public;
is(join(' ', sort grep { !$is_public{$_} } keys %reason_of), '', 'all that have a reason may be executed');
# A function in SQL or PL/pgSQL that everybody may execute needs the right to execute the functions
# that it calls.
is($c->safe_psql(qq{WITH f AS (SELECT p.proname, p.prosrc, p.pronamespace::regnamespace::text AS schema, has_function_privilege('pg_monitor', p.oid, 'EXECUTE') AS is_public FROM pg_proc p
		WHERE p.pronamespace IN ('shardfdw'::regnamespace, 'shardfdw_internal'::regnamespace) AND $of_extension)
	SELECT string_agg(c.proname || ' calls ' || r.proname, ', ') FROM f c JOIN f r ON c.prosrc ~ format('%s\.%s\\(', r.schema, r.proname)
	WHERE c.is_public AND NOT r.is_public AND r.schema = 'shardfdw_internal'}), '', 'functions that everybody may execute call no others');

is($c->safe_psql(qq{SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND $of_extension AND p.prosecdef}), '', 'no function has the rights of its owner');
is($c->safe_psql(qq{SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
	WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND $of_extension AND l.lanname IN ('sql', 'plpgsql') AND p.prokind = 'f'
		AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp', 'standard_conforming_strings=on',
			'array_nulls=on', 'transform_null_equals=off', 'quote_all_identifiers=off']}), '',
	'functions in SQL and PL/pgSQL have a fixed search_path and mean the same whatever the settings are');
# procedures commit, so they cannot have settings; they call functions, by qualified names, and operators likewise
is($c->safe_psql(qq{SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p WHERE p.pronamespace IN ('shardfdw'::regnamespace, 'shardfdw_internal'::regnamespace)
	AND $of_extension AND p.prokind = 'p' AND regexp_replace(p.prosrc, 'OPERATOR\\(pg_catalog\\.[^)]+\\)|#variable_conflict|:=', '', 'g') ~ '[=<>+*/~!@#%^&|`?]'}), '', 'procedures qualify operators');

# ---- calls that are refused to a role without rights ---------------------------------------------

$c->safe_psql(q{CREATE TABLE t (k int PRIMARY KEY); SELECT shardfdw.shard_table('t', 'k', shards => 2); CREATE TABLE plain (k int PRIMARY KEY); CREATE TABLE r (k int PRIMARY KEY);
	SELECT shardfdw.create_reference_table('r'); CREATE ROLE nobody; CREATE SCHEMA own AUTHORIZATION nobody; SET ROLE nobody; CREATE TABLE own.mine (k int PRIMARY KEY)});
my $jobs = $c->safe_psql('SELECT count(*) FROM shardfdw.jobs');
for (
	[ q{start_job(ARRAY['t_00'::regclass], (SELECT oid FROM pg_foreign_server WHERE srvname = 'node2'), 1, '{}', false, false)} => qr/42501.*must be owner of foreign table t_00/ ],
	[ q{start_conversion('plain'::regclass, '{}')} => qr/42501.*must be owner of table plain/ ],
	[ q{start_conversion('t'::regclass, '{}')} => qr/42501.*must be owner of table t/ ],
	[ q{start_conversion('own.mine'::regclass, '{}')} => qr/42501.*role "nobody" may use no node/ ],
	[ q{start_import('own.mine'::regclass, '{}', 'host=127.0.0.1', false, false)} => qr/42501.*permission denied for function import_table/ ],
	[ q{set_restore_point('x', '{}')} => qr/42501.*permission denied for function create_restore_point/ ],
	[ q{set_shard_node('t_00', 'node2')} => qr/42501/ ],
	[ q{copy_shard_rows('t_00', 'node2')} => qr/42501/ ],
	[ q{set_placements(ARRAY['t_00'], 'node1', 'node2')} => qr/42501/ ],
	[ q{lock_placements(ARRAY['t_00'], 'node1', true)} => qr/42501/ ],
	[ q{hold_shards('t')} => qr/42501/ ],
	[ q{lock_schema('public')} => qr/42501/ ],
	[ q{lock_schemas('t')} => qr/42501/ ],
	[ q{lock_to_clear('t')} => qr/42501/ ],
	[ q{lock_view('pg_catalog.pg_views')} => qr/42501/ ],
	[ q{make_objects_on_nodes('t', '{node1}')} => qr/42501/ ],
	[ q{set_key_defaults('t', ARRAY['t_00'::regclass])} => qr/42501/ ],
	[ q{copy_reference_rows('r', '{node1}')} => qr/42501/ ],
	[ q{take_turn('r', false)} => qr/42501/ ],
	[ q{lock_new_objects('{node1}')} => qr/42501/ ],
	[ q{settle_node('node1')} => qr/42501/ ],
	[ q{run_commands('{node1}', '{SELECT 1}', 'autocommit')} => qr/42501/ ],
	[ q{note_subscription_error(1, 'x', true)} => qr/42501.*permission denied for function/ ])
{
	my ($call, $error) = @$_;
	$c->psql_fails_like("SET ROLE nobody; SELECT shardfdw_internal.$call;", $error, "refused: $call");
}
# A call without work must not keep other sessions waiting, and no call may run without end.
is($c->safe_psql(q{SET ROLE nobody; BEGIN; SELECT FROM shardfdw_internal.take_replicas_turn('{}'); SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 11}), '0', 'no turn for no table');
$c->psql_fails_like(q{SET ROLE nobody; SELECT shardfdw_internal.scram_secret(repeat('x', 65536));}, qr/22023: password is longer than 65535 bytes/, 'a password that no login can use');
# Public functions that change something.
for my $call (q{shard_table('plain', 'k')}, q{shard_table('plain', 'k', mode => 'online')}, q{unshard_table('t')}, q{unshard_table('t', mode => 'online')}, q{create_reference_table('plain')},
	q{unshard_table('r')}, q{create_shard('t', 'x', 'FROM (1) TO (2)', 'node1')}, q{set_shards_schema('t', 'public')}, q{shard_schema('public', 'node1')},
	q{unshard_schema('public')}, q{compare_replicas('t')}, q{query_nodes('{node1}', '{SELECT 1}', 'autocommit')}, q{distribute_aggregate('sum(int)'::regprocedure)},
	q{move_shard('t_00', 'node2')}, q{split_shard('t_00')}, q{add_node('node9', 'localhost')}, q{disable_node('node1')})
{
	$c->psql_fails_like("SET ROLE nobody; SELECT shardfdw.$call;", qr/42501/, "refused: $call");
}
is($c->safe_psql('SELECT count(*) FROM shardfdw.jobs'), $jobs, 'no job has begun');

# An owner needs the rights that move_shard() and similar functions need.
$c->safe_psql('ALTER TABLE t OWNER TO nobody; GRANT USAGE ON FOREIGN SERVER node1, node2 TO nobody');
$c->psql_fails_like(qq{SET ROLE nobody; SELECT shardfdw_internal.start_job($_, false, false);}, qr/42501.*permission denied for function/, "an owner whom nobody has granted it: $_")
  for q{ARRAY['t_00'::regclass], 1, 1, '{}'}, q{ARRAY['t_00'::regclass], 1, 2, '{}'}, q{ARRAY['t_00'::regclass, 't_01'], 1, 1, '{}'};

# A role's jobs do not push jobs of other roles out of the journal.
$c->safe_psql(q{INSERT INTO shardfdw_internal.job (id, kind, state, stage, tables, names, mode, role, pid, started)
	SELECT i, 'move', 'done', 'done', '{}', '{}', 'block', 'nobody'::regrole, 1, now() FROM generate_series(-2000, -1999) i;
	ALTER TABLE t OWNER TO CURRENT_USER});
$c->safe_psql(q{SELECT shardfdw.move_shard('t_00', CASE (SELECT node FROM shardfdw.shards WHERE shard = 't_00'::regclass) WHEN 'node1' THEN 'node2' ELSE 'node1' END, mode => 'block')});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.jobs WHERE role = 'nobody' AND id < 0}), '2', 'jobs of another role stay in the journal');

# ---- rights of an owner who is not a superuser ---------------------------------------------------

$c->node_safe_psql($_, 'CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner; GRANT CREATE ON SCHEMA public TO owner') for 1, 2;
$c->safe_psql('CREATE ROLE owner; GRANT CREATE ON DATABASE postgres TO owner; GRANT CREATE ON SCHEMA public TO owner; GRANT USAGE ON FOREIGN SERVER node1, node2 TO owner');
$c->safe_psql("CREATE USER MAPPING FOR owner SERVER node$_ OPTIONS (user 'owner', password_required 'false')") for 1, 2;
my $name = 0;
# Each statement needs a function, type or schema that the nodes do not have yet.
sub new_function { my ($arguments) = @_; $name++; return "CREATE FUNCTION f$name($arguments) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'; "; }
for my $table (['a sharded table', q{SELECT shardfdw.shard_table('%s', 'k', shards => 2)}], ['a reference table', q{SELECT shardfdw.create_reference_table('%s')}])
{
	my ($kind, $make) = @$table;
	$name++;
	my $t = "owned_$name";
	my @statements = (
		new_function('i int') . "CREATE TABLE $t (k int PRIMARY KEY, v int CHECK (f$name(v) > 0)); INSERT INTO $t SELECT i, i FROM generate_series(1, 9) i; " . sprintf($make, $t),
		new_function('i int') . "CREATE INDEX ON $t (f$name(v))",
		new_function('i int') . "CREATE INDEX ON $t (v) WHERE f$name(v) > 0",
		new_function('i int') . "CREATE STATISTICS st_$name ON (f$name(v)), k FROM $t",
		new_function('i int') . "ALTER TABLE $t ADD CHECK (f$name(v) > 0)",
		new_function('i int') . "ALTER TABLE $t ADD COLUMN g int GENERATED ALWAYS AS (f$name(v)) STORED",
		"CREATE TYPE e_$t AS ENUM ('x'); ALTER TABLE $t ADD COLUMN e e_$t",
		"CREATE DOMAIN d_$t AS int CHECK (VALUE > 0); ALTER TABLE $t ADD COLUMN d int; ALTER TABLE $t ALTER COLUMN d TYPE d_$t",
		new_function("e e_$t") . "CREATE INDEX ON $t (f$name(e))",
		"ALTER TYPE e_$t ADD VALUE 'y'", "ALTER TABLE $t RENAME COLUMN v TO w", "ANALYZE $t", "REINDEX TABLE $t", "VACUUM $t",
		"CREATE SCHEMA s_$t; ALTER TABLE $t SET SCHEMA s_$t", "TRUNCATE s_$t.$t", "DROP TABLE s_$t.$t");
	for my $statement (@statements)
	{
		my ($rc, undef, $err) = $c->psql("SET ROLE owner; $statement", on_error_stop => 1);
		is($rc, 0, "$kind, by its owner: $statement") || diag $err;
	}
}

# ---- arguments of no sense -----------------------------------------------------------------------

# Calls each function with 4 rows of arguments that its types allow. An internal error shows that
# the function does not check these arguments.
$c->safe_psql(q{CREATE FUNCTION literals_of(type oid) RETURNS text[] LANGUAGE plpgsql AS $$
	DECLARE literal text; found text[] := ARRAY['NULL'];
	BEGIN
		FOREACH literal IN ARRAY '{"", 0, -1, 77, t, f, "{}", "{NULL}", "{{0,1},{2,3}}", [1], nosuch, r, SELECT 1, pg_class, pg_catalog, now, 0/0, 1 day, infinity, NaN}'::text[] LOOP
			BEGIN
				EXECUTE format('SELECT %L::%s', literal, format_type(type, NULL));
				found := found || quote_literal(literal);
			EXCEPTION WHEN OTHERS THEN
			END;
		END LOOP;
		RETURN found;
	END $$;
	CREATE FUNCTION internal_errors() RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE f record; arguments text; replaced text[] := '{}';
	BEGIN
		SET LOCAL client_min_messages = error;
		CREATE TEMPORARY TABLE literals AS SELECT x.type, literals_of(x.type) AS texts FROM (SELECT DISTINCT unnest(p.proargtypes::oid[]) FROM pg_proc p WHERE p.pronamespace::regnamespace::text LIKE 'shardfdw%') x(type);
		FOR f IN SELECT p.oid::regproc AS name, p.proargtypes::oid[] AS types, i FROM pg_proc p, generate_series(0, 3) i
			WHERE p.pronamespace::regnamespace::text LIKE 'shardfdw%' AND p.prokind = 'f' AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) AND (i = 0 OR p.pronargs > 0)
		LOOP
			SELECT string_agg(format('(%s)::%s', l.texts[1 + (f.i * (1 + a.ord) + a.ord) % cardinality(l.texts)], CASE WHEN a.type IN ('"any"'::regtype, 'anyelement'::regtype) THEN 'text' ELSE format_type(a.type, NULL) END), ', ' ORDER BY a.ord)
				FROM unnest(f.types) WITH ORDINALITY a(type, ord) JOIN literals l USING (type) INTO arguments;
			replaced := replaced || format('could not open relation with OID %s', to_regclass('r')::oid) || format('could not open relation with OID %s', to_regclass('t')::oid);
			BEGIN
				EXECUTE format('SELECT * FROM %s(%s)', f.name, arguments);
				RAISE EXCEPTION 'what the function has done is undone';
			EXCEPTION WHEN internal_error THEN
				-- the error of a built-in function for the same arguments; a job that another call has started has replaced one of its tables
				IF SQLERRM !~ '^unrecognized objtype abbreviation' AND SQLERRM <> ALL (replaced) THEN
					RETURN NEXT format('%s(%s): %s', f.name, arguments, SQLERRM);
				END IF;
			WHEN OTHERS THEN
			END;
		END LOOP;
	END $$});
for my $role ('postgres', 'pg_monitor')
{
	is($c->safe_psql("GRANT CREATE, TEMPORARY ON DATABASE postgres TO PUBLIC; SET ROLE $role; SELECT * FROM internal_errors()"), '', "$role: no function raises an internal error for arguments of no sense");
}

# Messages about an argument that names nothing, or another kind of object, name the mistake.
$c->safe_psql('CREATE VIEW a_view AS SELECT 1 AS k; CREATE TABLE alone (k int PRIMARY KEY);
	CREATE AGGREGATE an_aggregate (int) (sfunc = int4pl, stype = int)');
for (
	[ q{add_node(NULL, 'h')} => qr/22004: the name of the server must not be null/ ],
	[ q{add_node('n', 'h', username => NULL)} => qr/22004: username must not be null/ ],
	[ q{add_coordinator(NULL, 'h')} => qr/22004: the name of the server must not be null/ ],
	[ q{add_coordinator('n', 'h', username => NULL)} => qr/22004: username must not be null/ ],
	[ q{add_user(NULL)} => qr/22004: role must not be null/ ],
	[ q{distribute_aggregate(0)} => qr/42883: function with OID 0 does not exist/ ],
	[ q{distribute_aggregate('now()')} => qr/42809: now\(\) is not an aggregate/ ],
	[ q{undistribute_aggregate(0)} => qr/42883: function with OID 0 does not exist/ ],
	[ q{undistribute_aggregate('now()')} => qr/42809: now\(\) is not an aggregate/ ])
{
	$c->psql_fails_like("SELECT shardfdw.$_->[0]", $_->[1], "message: $_->[0]");
}
# Each function with a table or shard as its first argument. The others get values by their types.
my %values = (name => q{'node1'}, text => q{'block'}, boolean => 'true', integer => '2',
	regclass => 'NULL', interval => q{'1 day'}, 'timestamp with time zone' => q{'2030-01-01'},
	'name[]' => q{'{node1}'}, 'text[]' => 'NULL', anyelement => '1');
my @about_tables = split /\n/, $c->safe_psql(q{
	SELECT p.proname, string_agg(format_type(a.type, NULL), ';' ORDER BY a.ord)
	FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY a(type, ord)
	WHERE p.pronamespace = 'shardfdw'::regnamespace AND p.proargtypes[0] = 'regclass'::regtype
		AND p.prokind = 'f' GROUP BY p.oid ORDER BY 1, 2});
cmp_ok(scalar(@about_tables), '>', 10, 'functions have a table as argument');
my %special = (
	import_table => q{, 'host=h', mode => 'online'},
	split_shard => '', shard_for => ', 1');
for my $function (@about_tables)
{
	my ($name, $types) = split /\|/, $function;
	my (undef, @types) = split /;/, $types;
	my $rest = $special{$name} // join '', map { ', ' . ($values{$_} // 'NULL') } @types;
	for my $odd ([ NULL => qr/22004: .*must not be null/ ],
		[ 0 => qr/42P01: relation with OID 0 does not exist/ ],
		[ q{'a_view'} => qr/4\w{4}: .*a_view/ ], [ q{'alone'} => qr/(?:4|0|2)\w{4}: .*alone/ ])
	{
		my ($argument, $error) = @$odd;
		my $call = "$name($argument$rest)";
		next if $argument eq q{'alone'} && $name =~ /^(?:check_table|create_reference_table)$/;
		next if $argument eq 'NULL' && $name eq 'shard_for';	# STRICT
		if ($name eq 'check_table' && $argument eq q{'a_view'})
		{
			like($c->safe_psql("SELECT message FROM shardfdw.$call"), qr/"a_view" is not a table/,
				"message: $call");
			next;
		}
		$c->psql_fails_like("SELECT shardfdw.$call", $error, "message: $call");
	}
}

# No function counts up to the maximum of its argument's type: users' functions have limits, and the
# functions that they call have limits, too.
my @calls = split /\n/, $c->safe_psql(q{SELECT format('SELECT * FROM %s(%s);', p.oid::regproc, string_agg(CASE
			WHEN a.type IN ('integer'::regtype, 'bigint'::regtype) THEN n.number WHEN a.type = 'regclass'::regtype THEN '''t_00''' WHEN a.type = 'regclass[]'::regtype THEN '''{t_00}'''
			WHEN a.type IN ('name'::regtype, 'text'::regtype) THEN '''t''' WHEN a.type IN ('name[]'::regtype, 'text[]'::regtype) THEN '''{}''' WHEN a.type = 'boolean'::regtype THEN 'false' ELSE 'NULL' END, ', ' ORDER BY a.ord))
	FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY a(type, ord) CROSS JOIN (VALUES ('2147483647'), ('-1'), ('0')) n(number)
	WHERE p.pronamespace::regnamespace::text LIKE 'shardfdw%' AND p.prokind = 'f' AND p.proargtypes::oid[] && ARRAY['integer'::regtype::oid, 'bigint'::regtype]
	GROUP BY p.oid, n.number});
cmp_ok(scalar(@calls), '>', 100, 'functions have numbers as arguments');
my (undef, undef, $slow) = $c->psql("SET ROLE pg_monitor; SET client_min_messages = error; SET jit = off; SET statement_timeout = '10s';\n" . join "\n", @calls);
is(join("\n", $slow =~ /^.*statement timeout.*(?:\n.*CONTEXT.*)?/mg), '', 'no function counts for long');

# ---- nodes ---------------------------------------------------------------------------------------

# Partial aggregates may be used by all roles. They call built-in functions only.
for my $i (1, 2)
{
	is($c->node_safe_psql($i, q{SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
		WHERE p.pronamespace::regnamespace::text LIKE 'shardfdw%' AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
			AND (p.prokind <> 'a' OR EXISTS (SELECT FROM unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn]) f
				JOIN pg_proc c ON c.oid = f WHERE c.pronamespace <> 'pg_catalog'::regnamespace))}), '', "node $i: everybody may execute partial aggregates, which call built-in functions, and nothing else");
	is($c->node_safe_psql($i, q{SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname LIKE 'shardfdw%' AND c.relkind IN ('r', 'v', 'S') AND has_table_privilege('pg_monitor', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')}), '',
		"node $i: no table of the extension is for everybody");
}

done_testing();
