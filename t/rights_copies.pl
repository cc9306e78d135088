# What the extension makes on nodes for one role must not have the rights of another role.
# A superuser adds nodes and users: the copies of a user's aggregate belong to the role of the user,
# and a user grants no privileges on schemas of other roles that have the same name.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->add_node($_) for 1, 2;
my ($host, $port) = $c->node_address(3);

# alice has a separate role on the nodes, uma and una share one, and uma has no USAGE.
for my $i (1 .. 3)
{
	$c->node_safe_psql($i, 'CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE shared LOGIN;'
		. join(';', map { "GRANT CREATE ON DATABASE postgres TO $_" } 'alice', 'bob', 'shared'));
}
my %user = (alice => 'alice', bob => 'bob', uma => 'shared', una => 'shared');
for my $role (sort keys %user)
{
	$c->safe_psql("CREATE ROLE $role; CREATE SCHEMA $role AUTHORIZATION $role");
	$c->safe_psql("CREATE USER MAPPING FOR $role SERVER node$_
		OPTIONS (user '$user{$role}', password_required 'false')") for 1, 2;
	$c->safe_psql("GRANT USAGE ON FOREIGN SERVER node1, node2 TO $role") if $role ne 'uma';
}

# The functions of a schema on a node: name, owner, SECURITY DEFINER.
sub functions
{
	my ($i, $schema) = @_;
	return $c->node_safe_psql($i, "SELECT coalesce(string_agg(concat_ws(':', p.proname, r.rolname,
			CASE WHEN p.prosecdef THEN 'definer' END), ' ' ORDER BY p.proname), '')
		FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = '$schema'");
}

# The SQL that makes an aggregate with functions in a schema.
sub aggregate
{
	my ($schema, $name, $kind, %more) = @_;
	my $functions = $more{functions} // "$schema.sf_$name";
	my $made = $more{functions} ? '' : "CREATE FUNCTION $schema.sf_$name(text, text) RETURNS text
		LANGUAGE plpgsql $kind AS 'BEGIN RETURN \$1 || \$2; END';";
	return "$made CREATE AGGREGATE $schema.$name(text)
		(SFUNC = $functions, STYPE = text, COMBINEFUNC = textcat, PARALLEL = SAFE);";
}
sub partial
{
	my ($schema, $name) = @_;
	return "CREATE AGGREGATE $schema.shardfdw_partial_$name(text)
		(SFUNC = $schema.sf_$name, STYPE = text, COMBINEFUNC = textcat, PARALLEL = SAFE);";
}
sub refresh
{
	return ($c->psql("SELECT shardfdw.refresh_node('node$_[0]')"))[2];
}

# ---- a superuser never makes the function of another role ----------------------------------------

# A partial aggregate that alice makes is attached to her aggregate, as a restored dump needs it.
$c->safe_psql('SET ROLE alice;'
	. aggregate('alice', 'definer', 'SECURITY DEFINER') . partial('alice', 'definer'));
for my $i (1, 2)
{
	like(refresh($i), qr/not computed by node "node$i"\nDETAIL:  function .* is SECURITY DEFINER/,
		"why: node$i");
	is(functions($i, 'alice'), '', "a SECURITY DEFINER function is not made on node$i");
}
$c->safe_psql('DROP SCHEMA alice CASCADE; CREATE SCHEMA alice AUTHORIZATION alice');

# An aggregate that may be copied belongs on the node to the role of its owner.
$c->safe_psql('SET ROLE alice;' . aggregate('alice', 'good', 'IMMUTABLE'));
my $good = 'good:alice sf_good:alice shardfdw_partial_good:alice';
is(functions(1, 'alice'), $good, 'the owner makes it');
for my $call ('ALTER SCHEMA alice OWNER TO alice', 'ALTER FUNCTION alice.sf_good COST 77',
	q{SELECT shardfdw.distribute_aggregate('alice.good(text)')},
	q{SELECT shardfdw.refresh_node('node1')})
{
	$c->node_safe_psql(1, 'DROP SCHEMA alice CASCADE');
	$c->safe_psql($call);
	is(functions(1, 'alice'), $good, "a superuser makes it with the rights of the owner: $call");
}
is($c->safe_psql(q{SELECT string_agg(DISTINCT pg_get_userbyid(proowner), ',') FROM pg_proc
	WHERE pronamespace = 'alice'::regnamespace}), 'alice', 'here, the partial aggregate is hers, too');

# A new node, for which alice has neither a user mapping nor USAGE.
my $add = "SELECT shardfdw.add_node('node3', '$host', $port, 'postgres')";
my ($rc, undef, $err) = $c->psql($add);
like($err, qr/aggregate alice\.good\(text\) is not computed by node "node3"\nDETAIL:  USAGE/,
	'add_node: the reason');
is(functions(3, 'alice'), '', 'add_node makes none as a superuser');
$c->safe_psql(q{GRANT USAGE ON FOREIGN SERVER node3 TO alice, bob;
	CREATE USER MAPPING FOR alice SERVER node3 OPTIONS (user 'alice', password_required 'false')});
is(refresh(3), '', 'with USAGE and a user mapping');
is(functions(3, 'alice'), $good, 'refresh_node makes it as alice');

# Aggregates of bob, of a superuser and of alice that call a function of another role.
$c->safe_psql('GRANT USAGE ON SCHEMA alice TO bob;
	CREATE FUNCTION public.sf_boss(text, text) RETURNS text
	LANGUAGE sql IMMUTABLE AS $$ SELECT $1 $$');
for (['bob', 'alice.sf_good'], [undef, 'alice.sf_good'], ['alice', 'public.sf_boss'])
{
	my ($role, $function) = @$_;
	my $schema = $role // 'public';
	(undef, undef, $err) = $c->psql(($role ? "SET ROLE $role;" : '')
		. aggregate($schema, 'mixed', '', functions => $function));
	like($err, qr/function \S+ belongs to another role/, "$schema.mixed calls $function");
	refresh(1);
	unlike(functions(1, $schema), qr/mixed|boss/, "$schema.mixed is not made on nodes");
}

# The owner of a schema on a node could replace the copies of a superuser.
$c->node_safe_psql(2, 'CREATE SCHEMA shop AUTHORIZATION bob');
(undef, undef, $err) = $c->psql('CREATE SCHEMA shop;' . aggregate('shop', 'best', 'IMMUTABLE'));
like($err, qr/not computed by the nodes\nDETAIL:  schema shop belongs to another role/,
	'a schema of bob on node2');
is(functions(2, 'shop'), '', 'gets no copies of a superuser');

# ---- a partial aggregate of one role for an aggregate of another role ----------------------------

$c->safe_psql('SET ROLE bob;' . aggregate('bob', 'secret', 'SECURITY DEFINER')
	. 'GRANT USAGE ON SCHEMA bob TO alice');
$c->safe_psql('SET ROLE alice; CREATE AGGREGATE alice.any(text)
	(SFUNC = bob.sf_secret, STYPE = text, COMBINEFUNC = textcat, PARALLEL = SAFE)');
$c->psql_fails_like(q{SET ROLE alice;
	SELECT shardfdw_internal.attach_partial_aggregate('bob.secret(text)', 'alice.any(text)');},
	qr/42501: must be owner of aggregate secret/, 'alice cannot attach hers');
$c->psql_fails_like(q{
	SELECT shardfdw_internal.attach_partial_aggregate('bob.secret(text)', 'alice.any(text)');},
	qr/42501: must be owner of aggregate any/, 'nor can a superuser');
refresh(1);
is(functions(1, 'bob'), '', 'no function of bob is on the node');

# ---- USAGE of the owner, not of the caller -------------------------------------------------------

(undef, undef, $err) = $c->psql('SET ROLE uma;' . aggregate('uma', 'run', 'IMMUTABLE'));
like($err, qr/not computed by the nodes\nDETAIL:  USAGE on all nodes is needed/,
	'uma has no USAGE');
for my $call (q{SELECT shardfdw.refresh_node('node1')}, 'ALTER SCHEMA uma OWNER TO uma',
	'ALTER FUNCTION uma.sf_run COST 77',
	q{SELECT shardfdw.distribute_aggregate('uma.run(text)')}, q{SELECT shardfdw.enable_node('node1')})
{
	$c->psql($call);
	is(join(',', map { functions($_, 'uma') } 1 .. 3), ',,', "a superuser does not send it: $call");
}

# ---- functions that a table needs ----------------------------------------------------------------

# A superuser moves a shard to a node without alice's function.
$c->safe_psql(q{SET ROLE alice;
	CREATE FUNCTION alice.ok(i int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT i > 0';
	CREATE TABLE alice.checked (id int PRIMARY KEY CHECK (alice.ok(id)));
	SELECT shardfdw.shard_table('alice.checked', shards => 2, nodes => '{node1}')});
like(functions(1, 'alice'), qr/\bok:alice( |$)/, 'alice makes it on node1');
$c->psql_fails_like(q{SELECT shardfdw.move_shard('alice.checked_00', 'node2', mode => 'block');},
	qr/42501: .*function alice\.ok\(integer\) of role "alice"/, 'a superuser does not move the shard');
for my $i (1 .. 3)
{
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
		WHERE r.rolsuper AND p.oid >= 16384 AND p.pronamespace <> 'shardfdw_internal'::regnamespace}),
		'0', "a superuser owns no function on node$i");
}

# ---- schemas of the same name --------------------------------------------------------------------

# node1 has schemas that the extension did not make. alice makes schemas of these names here.
my $acl = q{SELECT coalesce(string_agg(nspname || ' ' || coalesce(nspacl::text, ''), ' '
	ORDER BY nspname), '')
	FROM pg_namespace WHERE nspname IN ('vault', 'cellar')};
$c->node_safe_psql(1, 'CREATE SCHEMA vault; CREATE SCHEMA cellar AUTHORIZATION bob; SET ROLE alice;
	CREATE TABLE alice.mine (id int, s text)');
my $before = $c->node_safe_psql(1, $acl);
$c->safe_psql('CREATE ROLE dave LOGIN');
for my $schema ('vault', 'cellar')
{
	$c->safe_psql(qq{CREATE SCHEMA $schema AUTHORIZATION alice; SET ROLE alice;
		CREATE TABLE $schema.p (id int, s text) PARTITION BY LIST (id);
		CREATE FOREIGN TABLE $schema.p1 PARTITION OF $schema.p FOR VALUES IN (1) SERVER node1
			OPTIONS (schema_name 'alice', table_name 'mine');
		GRANT ALL ON SCHEMA $schema TO dave});
}
$c->safe_psql(q{SELECT shardfdw.add_user('dave', password => 'pw-dave')});
is($c->node_safe_psql(1, $acl), $before,
	'add_user grants nothing on a schema that another role has made');
$c->safe_psql('GRANT USAGE ON SCHEMA vault, cellar TO dave');
is($c->node_safe_psql(1, $acl), $before, 'nor does GRANT of a superuser');

# Schemas that the extension created, or that belong to the same role, get the privileges that alice
# grants.
$c->node_safe_psql(1, 'CREATE SCHEMA yard AUTHORIZATION alice');
$c->safe_psql(q{CREATE SCHEMA house AUTHORIZATION alice; CREATE SCHEMA yard AUTHORIZATION alice;
	SET ROLE alice;
	CREATE TABLE house.t (id int PRIMARY KEY); CREATE TABLE yard.t (id int PRIMARY KEY);
	GRANT USAGE ON SCHEMA house, yard TO dave});
$c->safe_psql(q{SELECT shardfdw.shard_table('house.t', shards => 1, nodes => '{node1}')});
$c->safe_psql(q{SET ROLE alice;
	SELECT shardfdw.shard_table('yard.t', shards => 1, nodes => '{node1}')});
my $rights = q{SELECT string_agg(n || ':' || p, ' ' ORDER BY n, p)
	FROM unnest('{house,yard}'::text[]) n,
	unnest('{USAGE,CREATE}'::text[]) p WHERE has_schema_privilege('dave', n, p)};
$c->safe_psql(q{SELECT shardfdw.add_user('dave')});
is($c->node_safe_psql(1, $rights), 'house:USAGE yard:USAGE',
	'add_user grants on schemas of the same owner');
$c->safe_psql('SET ROLE alice; GRANT CREATE ON SCHEMA yard TO dave');
is($c->node_safe_psql(1, $rights), 'house:USAGE yard:CREATE yard:USAGE', 'GRANT by alice');
$c->safe_psql('GRANT CREATE ON SCHEMA house TO dave');
is($c->node_safe_psql(1, $rights), 'house:CREATE house:USAGE yard:CREATE yard:USAGE',
	'GRANT by a superuser');
$c->safe_psql('REVOKE CREATE ON SCHEMA house, yard FROM dave');
is($c->node_safe_psql(1, $rights), 'house:USAGE yard:USAGE', 'REVOKE');

# ---- a broken table of one role ------------------------------------------------------------------

# Each table is broken in its own way. add_user() leaves it out, and the others get their rights.
$c->node_safe_psql(1, 'SET ROLE alice; CREATE TYPE alice.number AS (id int, s text)');
$c->safe_psql(q{SET ROLE alice;
	CREATE TABLE alice.gone (id int, s text) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE alice.gone_1 PARTITION OF alice.gone FOR VALUES IN (1) SERVER node1
		OPTIONS (schema_name 'alice', table_name 'nowhere');
	CREATE TABLE alice.number (id int, s text) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE alice.number_1 PARTITION OF alice.number FOR VALUES IN (1) SERVER node1
		OPTIONS (schema_name 'alice', table_name 'number');
	CREATE TABLE alice.narrow (id int, s text, other int) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE alice.narrow_1 PARTITION OF alice.narrow FOR VALUES IN (1) SERVER node1
		OPTIONS (schema_name 'alice', table_name 'mine');
	CREATE TABLE alice.fine (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('alice.fine', shards => 1, nodes => '{node1}')});
# The coordinator records these grants without sending them, so add_user() finds the faults on the node.
$c->safe_psql(q{SET shardfdw.enable_ddl_propagation = off;
	GRANT UPDATE ON alice.gone, alice.number TO PUBLIC; GRANT SELECT (other) ON alice.narrow TO PUBLIC;
	GRANT SELECT ON alice.fine TO PUBLIC; CREATE ROLE erin LOGIN});
(undef, undef, $err) = $c->psql(q{SELECT shardfdw.add_user('erin', password => 'pw-erin')});
for my $table ('gone', 'number', 'narrow')
{
	like($err, qr/WARNING:  rights on table alice\.$table are not given to roles on nodes: /,
		"a warning names alice.$table");
}
unlike($err, qr/ERROR|alice\.fine/, 'no error');
is($c->node_safe_psql(1, q{SELECT has_table_privilege('erin', 'alice.fine_00', 'SELECT')}), 't',
	'the others get their rights');
is($c->safe_psql(q{SELECT count(*) FROM pg_user_mappings WHERE usename = 'erin'}), '3',
	'and erin has her user mappings');

# A node that does not answer is an error, and no warning per table.
$c->stop_node(3);
($rc, undef, $err) = $c->psql(q{CREATE ROLE finn LOGIN; SELECT shardfdw.add_user('finn',
	password => 'pw-finn')});
like($err, qr/ERROR/, 'a node that is down');
unlike($err, qr/WARNING:  rights on table/, 'without warnings about tables');

done_testing();
