# Every way to make shards gives them the owner and the privileges that the table has here.
# Roles of add_user() are separate roles on the nodes, so they fail there without a privilege.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, preload => 1,
	node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
for my $role (qw(own al bo))
{
	$c->safe_psql("CREATE ROLE $role LOGIN; SELECT shardfdw.add_user('$role', password => 'x')");
	$c->safe_psql("ALTER USER MAPPING FOR $role SERVER node$_
		OPTIONS (ADD password_required 'false')") for 1 .. 3;
}
$c->safe_psql('GRANT CREATE ON SCHEMA public TO own;
	GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO own');
$c->node_safe_psql($_, 'GRANT CREATE ON SCHEMA public TO own') for 1 .. 3;

# Default privileges, here or on nodes, do not apply to objects that the extension creates.
my $default = join '; ', 'CREATE ROLE extra',
	map { "ALTER DEFAULT PRIVILEGES FOR ROLE own, postgres GRANT ALL ON $_ TO extra" } qw(TABLES SCHEMAS FUNCTIONS);
# Schemas of jobs exist for a short time.
my $watch = q{CREATE TABLE seen (name text, has_rights bool); GRANT INSERT ON seen TO PUBLIC;
	CREATE FUNCTION look() RETURNS event_trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.seen SELECT n.nspname, pg_catalog.has_schema_privilege('extra', n.oid, 'USAGE')
		FROM pg_catalog.pg_namespace n WHERE n.nspname ~ '^shardfdw_[0-9a-f]{16}_';
	END $$;
	CREATE EVENT TRIGGER look ON ddl_command_end WHEN TAG IN ('COMMENT') EXECUTE FUNCTION look()};
$c->safe_psql($default);
$c->node_safe_psql($_, "$watch; $default") for 1 .. 3;

# The owner, and the privileges on the table and its columns, which the nodes must have, too.
my $grants = q{GRANT SELECT, INSERT ON %1$s TO al WITH GRANT OPTION; GRANT SELECT (v) ON %1$s TO bo;
	GRANT UPDATE ON %1$s TO PUBLIC; REVOKE ALL ON %1$s FROM extra};
my $expected = 'own: own=arwdDxt/own, al=a*r*/own, =w/own: v: bo=r/own';
my $rights = q{SELECT concat_ws(': ', relowner::regrole,
		(SELECT string_agg(x::text, ', ' ORDER BY x::text COLLATE "C" DESC) FROM unnest(relacl) x),
		(SELECT string_agg(concat_ws(': ', attname, array_to_string(attacl, ', ')), ', ' ORDER BY attnum)
			FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND attacl IS NOT NULL)) };

# rights(table): how many shards and replicas it has, and their rights, equal ones once.
sub rights
{
	my ($table) = @_;
	my (%seen, $n);
	my $shards = $c->safe_psql("SELECT p.node, format('%I.%I', p.schema_name, p.shard_name)
		FROM pg_partition_tree('$table') t, shardfdw_internal.shard_placements(t.relid) p
		WHERE NOT t.isleaf");
	for my $shard (split /\n/, $shards)
	{
		my ($i, $name) = $shard =~ /^node(\d)\|(.*)$/ or die $shard;
		my $answer = $c->node_safe_psql($i, "$rights FROM pg_class c WHERE oid = '$name'::regclass");
		# MAINTAIN came with 17
		$answer =~ s/(?<=arwdDxt)m//;
		$seen{ $answer eq $expected ? 'as here' : "$name: $answer" } = 1;
		$n++;
	}
	return "$n " . join '; ', sort keys %seen;
}

# has_rights(table, number of shards and replicas, what)
sub has_rights
{
	my ($table, $n, $what) = @_;
	is(rights($table), "$n as here", $what);
	my (undef, undef, $err) = $c->psql("SET ROLE al; SELECT count(*) FROM $table;
		SET ROLE bo; SELECT count(v) FROM $table");
	is($err, '', "$what: the roles read it");
	return;
}

# table(name, more of its definition): a table of the owner, with rows and grants
sub table
{
	my ($name, $more) = @_;
	$more //= "; INSERT INTO $name SELECT i, i, i FROM generate_series(1, 40) i";
	$c->safe_psql("SET ROLE own; CREATE TABLE $name (id int PRIMARY KEY, v int, w int) $more;"
		. sprintf($grants, $name));
	return;
}

# ---- a table becomes sharded --------------------------------------------------
for my $role ('own', 'postgres')
{
	my $by = $role eq 'own' ? 'its owner' : 'a superuser';
	table("block_$role");
	$c->safe_psql("SET ROLE $role; SELECT shardfdw.shard_table('block_$role', shards => 4)");
	has_rights("block_$role", 4, "shard_table() by $by");
	table("replicated_$role");
	$c->safe_psql("SET ROLE $role;
		SELECT shardfdw.shard_table('replicated_$role', shards => 3, replication_factor => 2)");
	has_rights("replicated_$role", 6, "shard_table() with replicas by $by");
	table("empty_$role", 'PARTITION BY HASH (id)');
	$c->safe_psql("SET ROLE $role; SELECT shardfdw.shard_table('empty_$role', shards => 4)");
	has_rights("empty_$role", 4, "shard_table() of an empty partitioned table by $by");
}
table('online');
$c->safe_psql(q{SET ROLE own;
	SELECT shardfdw.shard_table('online', shards => 4, mode => 'online')});
has_rights('online', 4, 'shard_table() online');

# ---- and plain again ----------------------------------------------------------
for my $table ('block_own', 'block_postgres', 'online')
{
	my $mode = $table eq 'online' ? 'online' : 'block';
	$c->safe_psql("SET ROLE own; SELECT shardfdw.unshard_table('$table', '$mode')");
	my $got = $c->safe_psql("$rights FROM pg_class c WHERE oid = '$table'::regclass");
	is($got =~ s/(?<=arwdDxt)m//r, $expected,
		"unshard_table() $mode of $table");
	$c->safe_psql("SET ROLE own; SELECT shardfdw.shard_table('$table', shards => 4)");
}

# ---- moves, splits, merges ----------------------------------------------------
my $n = 4;
for my $mode ('block', 'online')
{
	my ($shard, $node) = split /\|/, $c->safe_psql(q{SELECT shard, node FROM shardfdw.shards
		WHERE relation = 'block_own'::regclass ORDER BY shard::text LIMIT 1});
	my $target = $node eq 'node2' ? 'node3' : 'node2';
	$c->safe_psql("SELECT shardfdw.move_shard('$shard', '$target', '$mode')");
	has_rights('block_own', $n, "move_shard() $mode");
	my $others = $c->safe_psql(qq{SELECT array_agg(shard::oid) FROM shardfdw.shards
		WHERE relation = 'block_own'::regclass AND shard <> '$shard'::regclass});
	$c->safe_psql("SELECT shardfdw.split_shard('$shard', 2, '$mode')");
	has_rights('block_own', $n + 1, "split_shard() $mode");
	my $pair = $c->safe_psql(qq{SELECT array_agg(shard) FROM shardfdw.shards
		WHERE relation = 'block_own'::regclass AND shard::oid <> ALL ('$others')});
	$c->safe_psql("SELECT shardfdw.merge_shards('$pair', '$mode')");
	has_rights('block_own', $n, "merge_shards() $mode");
	$n = $mode eq 'block' ? 8 : 4;
	$c->safe_psql("SELECT shardfdw.set_shard_count('block_own', $n, '$mode')");
	has_rights('block_own', $n, "set_shard_count() $mode");
}

# ---- replicas -----------------------------------------------------------------
{
	my $places = q{shardfdw_internal.shard_placements('replicated_own') p};
	my ($shard, $source) = split /\|/, $c->safe_psql(qq{SELECT shard, node FROM $places
		WHERE role = 'replica' ORDER BY shard::text LIMIT 1});
	my $target = $c->safe_psql(qq{SELECT node FROM shardfdw.nodes WHERE node NOT IN (SELECT node
		FROM $places WHERE p.shard = '$shard'::regclass)});
	$c->safe_psql("SELECT shardfdw.move_replica('$shard', '$source', '$target')");
	has_rights('replicated_own', 6, 'move_replica()');
	$c->stop_node(1);
	$c->safe_psql(q{SELECT shardfdw.disable_node('node1')});
	$c->start_node(1);
	$c->safe_psql(q{SELECT shardfdw.enable_node('node1')});
	has_rights('replicated_own', 6, 'enable_node()');
}

# ---- shards that are created later -------------------------------------------
$c->safe_psql('SET ROLE own;
	CREATE TABLE parts (id int NOT NULL, v int, w int) PARTITION BY LIST (id);'
	. sprintf($grants, 'parts'));
$c->safe_psql(q{SELECT shardfdw.create_shard('parts', 'parts_1', 'IN (1)', 'node1')});
has_rights('parts', 1, 'create_shard()');
$c->safe_psql(q{SELECT shardfdw.create_shard('parts', 'parts_2', 'IN (2)', 'node2')});
has_rights('parts', 2, 'create_shard() with the rights of another shard');
$c->safe_psql(q{SET ROLE own; SELECT shardfdw.create_shard('parts', 'parts_3', 'IN (3)', 'node3')});
has_rights('parts', 3, 'create_shard() by the owner');
$c->safe_psql(q{SELECT shardfdw.set_shards_schema('parts', 'elsewhere')});
has_rights('parts', 3, 'set_shards_schema()');
$c->safe_psql(q{SELECT shardfdw.create_shard('parts', 'parts_4', 'IN (4)', 'node3')});
has_rights('parts', 4, 'create_shard() in a schema for shards');

$c->safe_psql('SET ROLE own;
	CREATE TABLE times (id int NOT NULL, v int, w int, at date) PARTITION BY RANGE (at);'
	. sprintf($grants, 'times') . q{; SELECT shardfdw.create_time_partitions('times', '1 month',
		now() + '20 days', key => 'id', shards => 2)});
$n = $c->safe_psql(q{SELECT count(*) FROM pg_partition_tree('times') WHERE isleaf});
has_rights('times', $n, 'create_time_partitions()');
$c->safe_psql(q{SELECT shardfdw.create_time_partitions('times', '1 month', now() + '50 days')});
$n = $c->safe_psql(q{SELECT count(*) FROM pg_partition_tree('times') WHERE isleaf});
has_rights('times', $n, 'create_time_partitions() by a superuser');

# ---- foreign tables that are attached -----------------------------------------
# The table on the node was made by hand, and ATTACH PARTITION does not change its rights.
$c->node_safe_psql(1, 'CREATE TABLE parts_5 (id int NOT NULL, v int, w int); REVOKE ALL ON parts_5 FROM extra');
$c->safe_psql(q{CREATE FOREIGN TABLE parts_5 (id int NOT NULL, v int, w int) SERVER node1;
	REVOKE ALL ON parts_5 FROM extra;
	ALTER TABLE parts ATTACH PARTITION parts_5 FOR VALUES IN (5); SELECT shardfdw.add_user('al')});
has_rights('parts', 5, 'add_user() after ATTACH PARTITION of a foreign table');

# A shard that belongs to another role on its node does not get another owner, whatever the settings
# are.
$c->node_safe_psql(1, 'CREATE TABLE secret (id int, v text); REVOKE ALL ON secret FROM extra');
for my $nulls ('off', 'on')
{
	$c->safe_psql("SET ROLE own; CREATE TABLE taker_$nulls (id int, v text) PARTITION BY RANGE (id);
		CREATE FOREIGN TABLE taken_$nulls PARTITION OF taker_$nulls FOR VALUES FROM (0) TO (10) SERVER node1
			OPTIONS (table_name 'secret');
		GRANT SELECT ON taker_$nulls TO al; REVOKE ALL ON taker_$nulls, taken_$nulls FROM extra");
	my (undef, undef, $err) = $c->psql("SET array_nulls = $nulls;
		SELECT shardfdw.create_shard('taker_$nulls', 'new_$nulls', 'FROM (10) TO (20)', 'node1')");
	like($err, qr/WARNING:  rights on table public\.taker_$nulls are not given to roles on nodes: table public\.secret/,
		"array_nulls = $nulls: a warning");
	is($c->node_safe_psql(1, q{SELECT relowner::regrole FROM pg_class WHERE relname = 'secret'}),
		'postgres', "array_nulls = $nulls: the table of another role stays its own");
}

# ---- reference tables ---------------------------------------------------------
for my $role ('own', 'postgres')
{
	table("reference_$role");
	$c->safe_psql("SET ROLE $role; SELECT shardfdw.create_reference_table('reference_$role')");
	for my $i (1 .. 3)
	{
		my $got = $c->node_safe_psql($i, "$rights FROM pg_class c WHERE relname = 'reference_$role'");
		is($got =~ s/(?<=arwdDxt)m//r, $expected, "create_reference_table() by $role on node$i");
	}
}

# ---- TRIGGER ------------------------------------------------------------------
# On a node, it would allow to run code with the rights of other roles.
$c->safe_psql(q{CREATE TABLE granted (id int PRIMARY KEY); REVOKE ALL ON granted FROM extra;
	GRANT ALL ON granted TO al; GRANT TRIGGER ON granted TO bo, PUBLIC;
	SELECT shardfdw.shard_table('granted', shards => 3); GRANT ALL ON granted TO bo WITH GRANT OPTION;
	GRANT ALL ON granted TO PUBLIC; GRANT TRIGGER, SELECT ON granted TO PUBLIC; GRANT TRIGGER ON granted TO al;
	SELECT shardfdw.add_user('al')});
for my $i (1 .. 3)
{
	my $got = $c->node_safe_psql($i, q{SELECT DISTINCT concat_ws(' ', x.grantee::regrole, count(*), bool_or(x.is_grantable))
		FROM pg_class c, aclexplode(c.relacl) x WHERE c.relname LIKE 'granted_0%' AND x.grantee <> c.relowner
			AND x.privilege_type <> 'MAINTAIN' GROUP BY c.oid, x.grantee ORDER BY 1});
	is($got, "- 6 f\nal 6 f\nbo 6 t", "GRANT ALL without TRIGGER on node $i");
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_class c, aclexplode(c.relacl) x
		WHERE x.privilege_type = 'TRIGGER' AND x.grantee <> c.relowner AND c.oid >= 16384}), '0', "nobody has TRIGGER on node $i");
}

my $has_rights = q{SELECT string_agg(o.name, ' ') FROM (SELECT oid::regclass::text, relacl FROM pg_class
		UNION ALL SELECT nspname, nspacl FROM pg_namespace
		UNION ALL SELECT oid::regprocedure::text, proacl FROM pg_proc WHERE prosecdef) o(name, acl), aclexplode(o.acl) x
	WHERE x.grantee = 'extra'::regrole};
is($c->safe_psql($has_rights), '', 'default privileges hold for nothing here');
for my $i (1 .. 3)
{
	is($c->node_safe_psql($i, $has_rights), '', "nor on node $i");
	is($c->node_safe_psql($i, 'SELECT count(*) > 0, bool_or(has_rights) FROM seen'), 't|f', "nor for schemas of jobs on node $i");
}

# ---- the extension and nodes -----------------------------------------------

# Every privilege on the extension's objects, or on objects that it makes on a node.
my $privileges = q{SELECT concat_ws(' ', o.kind, o.name, x.grantee::regrole, x.privilege_type, x.is_grantable) FROM (
		SELECT c.relkind::text, c.oid::regclass::text, c.relowner, c.relnamespace,
			coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner)) FROM pg_class c
		UNION ALL SELECT 'routine', p.oid::regprocedure::text, p.proowner, p.pronamespace,
			coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p
		UNION ALL SELECT 'type', t.oid::regtype::text, t.typowner, t.typnamespace,
			coalesce(t.typacl, acldefault('T', t.typowner)) FROM pg_type t
		UNION ALL SELECT 'schema', n.nspname, n.nspowner, n.oid, coalesce(n.nspacl, acldefault('n', n.nspowner)) FROM pg_namespace n
	) o(kind, name, owner, schema, acl) CROSS JOIN LATERAL aclexplode(o.acl) x
	WHERE o.schema::regnamespace::text LIKE 'shardfdw%' AND x.grantee <> o.owner ORDER BY 1};
my $grant_all = join '; ',
	map { "ALTER DEFAULT PRIVILEGES GRANT ALL ON $_ TO extra WITH GRANT OPTION; ALTER DEFAULT PRIVILEGES GRANT ALL ON $_ TO PUBLIC" }
	qw(TABLES SEQUENCES FUNCTIONS TYPES SCHEMAS);
$c->safe_psql($_) for 'CREATE DATABASE usual', 'CREATE DATABASE granting';
my $server = $c->coordinator;
$server->safe_psql('granting', $grant_all);
$server->safe_psql($_, 'CREATE EXTENSION shardfdw') for qw(usual granting);
is($server->safe_psql('granting', $privileges), $server->safe_psql('usual', $privileges),
	'default privileges do not hold for objects of the extension');

# On nodes, default privileges apply only to partial aggregates, which call built-in functions.
my $node = $c->node(1);
$node->safe_psql('postgres', $_) for 'CREATE DATABASE usual', 'CREATE DATABASE granting', 'CREATE DATABASE refreshed';
$node->safe_psql($_, $grant_all) for qw(granting refreshed);
my ($host, $port) = $c->node_address(1);
$c->safe_psql("SELECT shardfdw.add_node('$_', '$host', $port, '$_')") for qw(usual granting refreshed);
$node->safe_psql('refreshed', 'DROP SCHEMA shardfdw_internal CASCADE');
$c->safe_psql(q{SELECT shardfdw.refresh_node('refreshed')});
my $of_node = $privileges =~ s/ORDER BY/AND o.kind NOT IN ('routine', 'type') ORDER BY/r;
is($node->safe_psql($_, $of_node), $node->safe_psql('usual', $of_node), "nor for what it makes on a node: $_") for qw(granting refreshed);

done_testing();
