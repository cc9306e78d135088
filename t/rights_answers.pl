# What a node answers is data: it never becomes a name, a role or a text in a command on another
# node or on the coordinator, unless the coordinator expects this value already. In this test the
# superuser of one node changes owners and privileges there, replaces functions of the server, or
# sends answers about shards of other nodes.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, coordinator_conf => "shardfdw.recovery_interval = 0\n");

# mallory exists on all nodes and has no rights. clerk is mapped to app on the nodes.
$c->safe_psql(q{CREATE ROLE mallory; CREATE ROLE own; CREATE ROLE clerk});
for my $i (1 .. 3)
{
	$c->node_safe_psql($i, 'CREATE ROLE mallory; CREATE ROLE own; CREATE ROLE app');
	$c->safe_psql("CREATE USER MAPPING FOR clerk SERVER node$i OPTIONS (user 'app')");
}

sub owner_on
{
	my ($i, $table) = @_;
	return $c->node_safe_psql($i,
		"SELECT relowner::regrole FROM pg_class WHERE oid = '$table'::regclass");
}

# The rights on a table of a node, except its owner's: role, privilege, column, g for grantable.
sub rights_on
{
	my ($i, $table) = @_;
	return $c->node_safe_psql($i, qq{
		SELECT string_agg(r.t, ', ' ORDER BY r.t COLLATE "C") FROM (
			SELECT concat_ws(' ', CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END,
				x.privilege_type, a.name, CASE WHEN x.is_grantable THEN 'g' END) AS t
			FROM pg_class c CROSS JOIN LATERAL (SELECT NULL AS name, c.relacl AS acl
				UNION ALL SELECT attname, attacl FROM pg_attribute WHERE attrelid = c.oid) a
			CROSS JOIN LATERAL aclexplode(a.acl) x
			WHERE c.oid = '$table'::regclass AND x.grantee <> c.relowner) r});
}

# ---------- the owner of a replica ----------

my $superuser = owner_on(1, 'pg_class');
my @nodes = qw(node1 node2);
$c->safe_psql(q{CREATE TABLE big (id int PRIMARY KEY, v text)});
$c->shard_table('big', 'id', shards => 1, nodes => \@nodes, replication_factor => 2);
$c->safe_psql(q{SELECT shardfdw.disable_node('node2'); INSERT INTO big VALUES (1, 'a')});
$c->node_safe_psql(1, 'ALTER TABLE big_00 OWNER TO mallory');
$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
is(owner_on(2, 'big_00'), $superuser, 'enable_node(): a role that only the primary names');
$c->safe_psql(q{SELECT shardfdw.move_replica('big_00', 'node2', 'node3')});
is(owner_on(3, 'big_00'), $superuser, 'move_replica()');

# The coordinator expects the owner of the table here, or the remote user of its mapping.
for my $roles ([ 'own', 'own' ], [ 'clerk', 'app' ])
{
	my ($here, $there) = @$roles;
	my $table = "of_$here";
	$c->safe_psql("CREATE TABLE $table (id int PRIMARY KEY); ALTER TABLE $table OWNER TO $here");
	$c->shard_table($table, 'id', shards => 1, nodes => \@nodes, replication_factor => 2);
	$c->safe_psql(q{SELECT shardfdw.disable_node('node2')});
	$c->node_safe_psql(1, "ALTER TABLE ${table}_00 OWNER TO $there");
	$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
	is(owner_on(2, "${table}_00"), $there, "the role of the owner of the table: $there");
}

# ---------- owner and privileges of a new shard ----------

sub new_shard
{
	my ($n, $i) = @_;
	return "SELECT shardfdw.create_shard('parts', 'parts_$n', 'IN ($n)', 'node$i')";
}

$c->safe_psql('CREATE TABLE parts (k int, v text) PARTITION BY LIST (k); ' . new_shard(1, 1) . q{;
	GRANT SELECT, UPDATE (v) ON parts TO clerk; GRANT INSERT ON parts TO mallory WITH GRANT OPTION});
$c->node_safe_psql(1, q{ALTER TABLE parts_1 OWNER TO mallory; SET ROLE mallory;
	GRANT SELECT, UPDATE (v), DELETE, REFERENCES (k) ON parts_1 TO app WITH GRANT OPTION;
	GRANT TRIGGER ON parts_1 TO own; GRANT ALL ON parts_1 TO PUBLIC});
my (undef, undef, $err) = $c->psql(new_shard(2, 2));
is(owner_on(2, 'parts_2'), $superuser, 'create_shard(): an owner that only the other shard has');
is(rights_on(2, 'parts_2'), '', 'privileges and grant options that no role here has');
like($err, qr/WARNING:  roles on node "node2" do not get privileges .*: PUBLIC, app, own\n/,
	'a warning names the roles');
$c->node_safe_psql(1, q{ALTER TABLE parts_1 OWNER TO CURRENT_USER;
	REVOKE ALL ON parts_1 FROM app, mallory, own, PUBLIC CASCADE;
	REVOKE ALL (k, v) ON parts_1 FROM app CASCADE; GRANT SELECT, UPDATE (v) ON parts_1 TO app;
	GRANT INSERT ON parts_1 TO mallory WITH GRANT OPTION});
(undef, undef, $err) = $c->psql(new_shard(3, 3));
is(rights_on(3, 'parts_3'), 'app SELECT, app UPDATE v, mallory INSERT g',
	'privileges that roles with these names or remote users have here');
is($err, '', 'no warning');
$c->safe_psql(q{ALTER TABLE parts OWNER TO own});
$c->node_safe_psql(2, q{ALTER TABLE parts_2 OWNER TO own});
$c->safe_psql(new_shard(4, 2));
is(owner_on(2, 'parts_4'), 'own', 'the owner of the table');

# ---------- foreign keys of a new shard ----------

# A superuser replaces a function of his server. REAL stands for the real result of the function.
sub lie
{
	my ($i, $name, $types, $value) = @_;
	my $arguments = join ', ', map { '$' . $_ } 1 .. ($types =~ tr/,//) + 1;
	my $more = $value =~ s/REAL/pg_catalog.real_one($arguments)/r;
	$c->node_safe_psql($i, qq{SET allow_system_table_mods = on;
		ALTER FUNCTION pg_catalog.$name($types) RENAME TO real_one;
		CREATE FUNCTION pg_catalog.$name($types) RETURNS text LANGUAGE sql STABLE
			AS \$\$ SELECT ($more)::text \$\$});
	return;
}

sub stop_lie
{
	my ($i, $name, $types) = @_;
	$c->node_safe_psql($i, qq{SET allow_system_table_mods = on;
		DROP FUNCTION pg_catalog.$name($types);
		ALTER FUNCTION pg_catalog.real_one($types) RENAME TO $name});
	return;
}

# Only the target has the function, so the coordinator cannot know its owner.
$c->node_safe_psql(2, q{CREATE SCHEMA mallory AUTHORIZATION mallory; SET ROLE mallory;
	GRANT USAGE ON SCHEMA mallory TO PUBLIC;
	CREATE FUNCTION mallory.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'});
$c->safe_psql(q{CREATE TABLE ref (id int PRIMARY KEY); INSERT INTO ref SELECT generate_series(1, 9);
	SELECT shardfdw.create_reference_table('ref');
	CREATE TABLE refers (k int) PARTITION BY LIST (k);
	SELECT shardfdw.create_shard('refers', 'refers_1', 'IN (1)', 'node1');
	ALTER TABLE refers ADD CONSTRAINT refers_k_fkey FOREIGN KEY (k) REFERENCES ref});
my $second_shard = q{SELECT shardfdw.create_shard('refers', 'refers_2', 'IN (2)', 'node2');};
lie(1, 'pg_get_constraintdef', 'oid', q{'EXCLUDE USING btree (mallory.f(k) WITH =) -- NOT VALID'});
$c->psql_fails_like($second_shard, qr/08P01: a node has answered .* no definition/,
	'create_shard(): an exclusion constraint in place of a foreign key');
stop_lie(1, 'pg_get_constraintdef', 'oid');
$c->safe_psql($second_shard);
is($c->node_safe_psql(2, q{SELECT pg_get_constraintdef(oid) FROM pg_constraint
	WHERE conrelid = 'refers_2'::regclass}), 'FOREIGN KEY (k) REFERENCES ref(id)', 'an honest node');

sub checked
{
	my ($constraint, $referenced) = @_;
	my $command = "ALTER TABLE public.refers_1 ADD CONSTRAINT x $constraint";
	return "SELECT shardfdw_internal.checked_definition('$command', $referenced);";
}

for ('EXCLUDE USING btree (k WITH =)', 'UNIQUE (k)')
{
	$c->psql_fails_like(checked($_, q{'ref'}), qr/08P01: .* is no definition of a foreign key/,
		"refused: $_");
}
for ('NULL', '0', q{'parts'})
{
	$c->psql_fails_like(checked('FOREIGN KEY (k) REFERENCES public.ref', $_),
		qr/08P01: .* references a table that the coordinator does not expect/, "expected: $_");
}

# ---------- definitions of foreign tables ----------

$c->node_safe_psql(1, q{CREATE SCHEMA given; CREATE TABLE given.t
	(id int, twice int GENERATED ALWAYS AS (id * 2) STORED, d int DEFAULT 5)});
$c->safe_psql('CREATE SCHEMA taken');
my @type = ('format_type', 'oid, integer');
my @expression = ('pg_get_expr', 'pg_node_tree, oid');
for my $lie (
	[ @type, q{REAL || ' OPTIONS (opclass_name ''x'') DEFAULT 7, more int'} ],
	[ @type, q{REAL || ', more int NOT NULL, again int'} ],
	[ @type, q{REAL || ') SERVER node2; CREATE FOREIGN TABLE more (a int'} ],
	[ @expression, q{'1) STORED DEFAULT 7 GENERATED ALWAYS AS (1'} ],
	[ @expression, q{'1) STORED, more int DEFAULT 7, again int GENERATED ALWAYS AS (1'} ])
{
	lie(1, @$lie);
	$c->psql_fails_like('IMPORT FOREIGN SCHEMA given FROM SERVER node1 INTO taken;',
		qr/08P01: a node has answered with something that is no definition of table "t"/,
		"IMPORT FOREIGN SCHEMA: $lie->[2]");
	stop_lie(1, @$lie[ 0, 1 ]);
}
$c->safe_psql(q{IMPORT FOREIGN SCHEMA given FROM SERVER node1 INTO taken
	OPTIONS (import_default 'true')});
is($c->safe_psql(q{SELECT string_agg(pg_get_expr(adbin, adrelid), ', ' ORDER BY adnum)
	FROM pg_attrdef WHERE adrelid = 'taken.t'::regclass}), '(id * 2), 5', 'an honest node');

# ---------- answers about shards of other nodes ----------

my $h = ShardCluster->new(nodes => 2, add_nodes => 0);
my $proxy = ProtocolProxy->new(port => $h->node(2)->port);
$h->add_node(1);
$h->safe_psql("SELECT shardfdw.add_node('node2', '127.0.0.1', " . $proxy->port . ", 'postgres')");
$h->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$h->shard_table('t', 'id', shards => 2, nodes => \@nodes);
$h->safe_psql('INSERT INTO t SELECT g, g FROM generate_series(1, 20) g');
$h->node_safe_psql(1, 'CREATE TABLE victim (a int); CREATE INDEX victim_a ON victim (a)');

# A DataRow message.
sub row
{
	my $values = join '', map { defined ? pack('N', length) . $_ : pack('N', 0xffffffff) } @_;
	return 'D' . pack('Nn', 6 + length $values, scalar @_) . $values;
}

# Each row of node2's answers in turn is replaced by one about a shard of node1: the errors.
sub lie_about_shard
{
	my ($sql, @fields) = @_;
	my $errors = '';
	for my $n (1 .. 100)
	{
		my %rule = (from => 'node', type => 'D', action => 'replace', bytes => row(@fields));
		$proxy->arm(%rule, n => $n);
		my (undef, undef, $err) = $h->psql("\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
		my $fired = $proxy->fired;
		$errors .= $err;
		$proxy->clear;
		last unless $fired;
	}
	return $errors;
}

my $refused = qr/08P01: a node of table "t" answered for a shard that it was not asked about/;
my $lines = join '', map { "$_\t0\n" } 1 .. 20;
like(lie_about_shard("COPY t FROM STDIN (ON_DUPLICATE 'keep_new');\n$lines\\.\n",
	0, 1, 'v', 'int, shardfdw_ordinal bigint GENERATED ALWAYS AS IDENTITY); '
		. 'CREATE TABLE public.pwned (a int', undef, '', 2), $refused, 'COPY, ON_DUPLICATE');
is($h->node_safe_psql(1, q{SELECT to_regclass('pwned')}), '', 'the other node runs nothing of it');

$h->safe_psql('CREATE INDEX t_v ON t (v)');
like(lie_about_shard('DROP INDEX t_v;', 0, 'victim_a'), $refused, 'DROP INDEX');
is($h->node_safe_psql(1, q{SELECT to_regclass('victim_a')}), 'victim_a',
	'the index of another table is there');

done_testing();
