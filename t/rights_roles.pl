# Tests whose credentials a query uses: SET ROLE inside a transaction, views, cached plans (R47).
# Also tests postgres_fdw's password rules for roles that are not superusers.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, host => 'tcp');

# Shards that return their session's role, made by hand.
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, qq{
		CREATE ROLE alice LOGIN PASSWORD 'pw-alice'; CREATE ROLE bob LOGIN PASSWORD 'pw-bob';
		CREATE VIEW who_$i AS SELECT $i AS id, current_user::text AS u;
		CREATE TABLE t_$i (id int, v int);
		INSERT INTO t_$i VALUES ($i, $i);
		GRANT ALL ON who_$i, t_$i TO alice, bob});
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $fh, '>', $hba or die;
	print $fh "host all alice,bob 127.0.0.1/32 scram-sha-256\n$old";
	close $fh;
	$c->node($i)->reload;
}
$c->safe_psql(q{
	CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE nobody;
	CREATE TABLE who (id int, u text) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE who_1 PARTITION OF who FOR VALUES IN (1) SERVER node1;
	CREATE FOREIGN TABLE who_2 PARTITION OF who FOR VALUES IN (2) SERVER node2;
	CREATE TABLE t (id int, v int) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE t_1 PARTITION OF t FOR VALUES IN (1) SERVER node1;
	CREATE FOREIGN TABLE t_2 PARTITION OF t FOR VALUES IN (2) SERVER node2;
	GRANT ALL ON who, t TO alice, bob, nobody;
	CREATE VIEW who_of_alice AS SELECT * FROM who;
	ALTER VIEW who_of_alice OWNER TO alice;
	GRANT ALL ON who_of_alice TO bob, nobody});
for my $role ('alice', 'bob')
{
	$c->safe_psql("CREATE USER MAPPING FOR $role SERVER node$_ OPTIONS (user '$role', password 'pw-$role')") for 1 .. 2;
}
my $me = $c->safe_psql('SELECT current_user');

for my $mode ('on', 'off')
{
	my $q = "SELECT string_agg(u, ',' ORDER BY id) FROM who";
	is( $c->safe_psql(
			"SET shardfdw.enable_shard_scan = $mode; $q; SET ROLE alice; $q; BEGIN; $q; SET LOCAL ROLE bob; $q; SET LOCAL ROLE alice; $q; COMMIT; RESET ROLE; $q"),
		join("\n", map { "$_,$_" } $me, 'alice', 'alice', 'bob', 'alice', $me),
		"SET ROLE in a transaction (shard scan $mode)");
	for my $plan ('force_generic_plan', 'force_custom_plan')
	{
		is( $c->safe_psql(
				"SET shardfdw.enable_shard_scan = $mode; SET plan_cache_mode = $plan;
				 PREPARE p AS SELECT DISTINCT u FROM who; PREPARE g (int) AS SELECT u, count(*) FROM who WHERE id = \$1 GROUP BY u;
				 EXECUTE p; EXECUTE g(1); SET ROLE alice; EXECUTE p; EXECUTE g(2); BEGIN; SET ROLE bob; EXECUTE p; EXECUTE g(1); ROLLBACK; EXECUTE p; EXECUTE g(1)"),
			"$me\n$me|1\nalice\nalice|1\nbob\nbob|1\nalice\nalice|1", "cached plans, $plan (shard scan $mode)");
	}
	is( $c->safe_psql(
			"SET shardfdw.enable_shard_scan = $mode; SET ROLE bob; SELECT DISTINCT u FROM who_of_alice; SELECT a.u, w.u FROM who_of_alice a JOIN who w USING (id) WHERE id = 1"),
		"alice\nalice|bob", "a view uses its owner's mapping, in one query with the caller's (shard scan $mode)");
	is( $c->safe_psql(
			"SET shardfdw.enable_shard_scan = $mode; BEGIN; SET LOCAL ROLE alice; UPDATE t SET v = v + 1; SET LOCAL ROLE bob; INSERT INTO t VALUES (1, 100), (2, 200);
			 SAVEPOINT a; SET LOCAL ROLE alice; SELECT count(*), sum(v) FROM t; ROLLBACK; SELECT count(*), sum(v) FROM t"),
		"2|5\n2|3", "two roles write in one transaction, each by its own connection (shard scan $mode)");
	my ($rc, undef, $err) = $c->psql("SET shardfdw.enable_shard_scan = $mode; SET ROLE nobody; SELECT * FROM who");
	like($err, qr/user mapping not found.*nobody/, "a role without user mapping (shard scan $mode)");
}

# A function of another owner, and its leftovers.
$c->safe_psql(q{
	CREATE FUNCTION who_definer() RETURNS text SECURITY DEFINER LANGUAGE sql AS $$ SELECT max(u) FROM who $$;
	ALTER FUNCTION who_definer OWNER TO alice; GRANT EXECUTE ON FUNCTION who_definer TO bob});
is($c->safe_psql('SET ROLE bob; SELECT who_definer(); SELECT max(u) FROM who'), "alice\nbob", 'SECURITY DEFINER');

# Password rules. Node 1 asks bob for a password, but trusts carol.
$c->node_safe_psql($_, 'CREATE ROLE carol LOGIN; GRANT ALL ON who_' . $_ . ' TO carol') for 1 .. 2;
$c->safe_psql('CREATE ROLE carol; GRANT ALL ON who TO carol');
$c->safe_psql("CREATE USER MAPPING FOR carol SERVER node$_ OPTIONS (user 'carol')") for 1 .. 2;
$c->psql_fails_like('SET ROLE carol; SELECT * FROM who;', qr/2F003.*password/s, 'no password in the mapping: refused');
$c->safe_psql("ALTER USER MAPPING FOR carol SERVER node$_ OPTIONS (ADD password 'unused')") for 1 .. 2;
$c->psql_fails_like('SET ROLE carol; SELECT * FROM who;', qr/2F003.*password/s, 'the node did not ask for the password: refused');
$c->psql_fails_like(
	q{GRANT USAGE ON FOREIGN SERVER node1 TO carol; SET ROLE carol; ALTER USER MAPPING FOR carol SERVER node1 OPTIONS (ADD password_required 'false');},
	qr/42501/, 'password_required is not for everyone');
$c->psql_fails_like(
	q{SET ROLE carol; ALTER USER MAPPING FOR carol SERVER node1 OPTIONS (ADD sslkey '/tmp/x');}, qr/42501/, 'nor is sslkey');
$c->safe_psql("ALTER USER MAPPING FOR carol SERVER node$_ OPTIONS (ADD password_required 'false')") for 1 .. 2;
is($c->safe_psql('SET ROLE carol; SELECT DISTINCT u FROM who'), 'carol', 'unless a superuser said so');

# A changed mapping is used by the next transaction (R55).
is( $c->safe_psql(
		"SET ROLE alice; SELECT max(u) FROM who; RESET ROLE; ALTER USER MAPPING FOR alice SERVER node1 OPTIONS (SET user 'bob', SET password 'pw-bob');
		 ALTER USER MAPPING FOR alice SERVER node2 OPTIONS (SET user 'bob', SET password 'pw-bob'); SET ROLE alice; SELECT max(u) FROM who"),
	"alice\nbob", 'a changed user mapping is used');

# use_scram_passthrough: only the keys of the client's own login open sessions on nodes.
{
	my $secret = $c->safe_psql(q{SET password_encryption = 'scram-sha-256'; CREATE ROLE dora LOGIN PASSWORD 'pw-dora'; GRANT ALL ON who TO dora;
		GRANT USAGE ON FOREIGN SERVER node1, node2 TO dora; SELECT rolpassword FROM pg_authid WHERE rolname = 'dora'});
	for my $i (1 .. 2)
	{
		$c->node_safe_psql($i, "CREATE ROLE dora LOGIN PASSWORD '$secret'; GRANT ALL ON who_$i TO dora");
		$c->safe_psql("CREATE USER MAPPING FOR dora SERVER node$i OPTIONS (user 'dora')");
	}
	my $rule = sub {
		my ($server, $line) = @_;
		my $hba = $server->data_dir . '/pg_hba.conf';
		my $old = slurp_file($hba);
		open my $fh, '>', $hba or die;
		print $fh "$line\n$old";
		close $fh;
		$server->reload;
	};
	$rule->($_, 'host all dora 127.0.0.1/32 scram-sha-256') for $c->coordinator, $c->node(1), $c->node(2);

	my $as_dora = sub {
		my ($sql) = @_;
		local $ENV{PGPASSWORD} = 'pw-dora';
		my ($rc, $out, $err) = $c->psql($sql, extra_params => [ '-d', 'host=127.0.0.1 user=dora port=' . $c->coordinator->port . " dbname=$c->{dbname}" ]);
		return $rc ? $err : $out;
	};
	my $q = 'SELECT DISTINCT u FROM who';
	like($as_dora->($q), qr/password is required/, 'SCRAM keys: not without the option');
	$c->safe_psql("ALTER SERVER node$_ OPTIONS (ADD use_scram_passthrough 'true')") for 1 .. 2;

	SKIP:
	{
		skip 'SCRAM keys came with 18', 7 if $c->safe_psql('SHOW server_version_num') < 180000;
		is($as_dora->("BEGIN; $q; SAVEPOINT a; $q; COMMIT"), "dora\ndora", 'passed on');
		like($as_dora->("ALTER USER MAPPING FOR dora SERVER node1 OPTIONS (ADD use_scram_passthrough 'false'); $q"), qr/password is required/, 'not where the mapping says no');
		$as_dora->("ALTER USER MAPPING FOR dora SERVER node1 OPTIONS (SET use_scram_passthrough 'true')");
		is($as_dora->($q), 'dora', 'and where it says yes');
		# a function of another role, whose mapping names her
		$c->safe_psql(q{CREATE ROLE eve; GRANT ALL ON who TO eve; GRANT CREATE ON SCHEMA public TO eve; GRANT USAGE ON FOREIGN SERVER node1, node2 TO eve;
			SET ROLE eve; CREATE USER MAPPING FOR eve SERVER node1 OPTIONS (user 'dora', use_scram_passthrough 'true'); CREATE USER MAPPING FOR eve SERVER node2 OPTIONS (user 'dora');
			CREATE FUNCTION spy() RETURNS SETOF text SECURITY DEFINER LANGUAGE sql AS 'SELECT u FROM who'; CREATE VIEW spied AS SELECT u FROM who; GRANT SELECT ON spied TO dora});
		like($as_dora->($_), qr/password is required/, "not for others: $_") for 'SELECT spy()', 'SELECT * FROM spied';
		$c->node_safe_psql(1, q{ALTER ROLE dora PASSWORD 'pw-dora'});
		like($as_dora->($q), qr/password authentication failed/, 'another salt, another key');
		$rule->($c->node(1), 'host all dora 127.0.0.1/32 trust');
		like($as_dora->($q), qr/authentication method requirement "scram-sha-256" failed/, 'a node that asks for nothing');
	}
	$c->psql_fails_like("SET ROLE dora; $q", qr/2F003.*password/s, 'a session that has logged in without them');
}

# ---- columns that a role may not read on nodes ---------------------------------------------------

# A policy is checked with the columns that it names: others are not read back from the node.
$c->safe_psql(q{CREATE TABLE guarded (k int PRIMARY KEY, who name, v int, secret text DEFAULT 'none');
	ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON guarded USING (who = current_user) WITH CHECK (who = current_user);
	SELECT shardfdw.shard_table('guarded', shards => 4); GRANT INSERT, SELECT (k, who, v) ON guarded TO alice});
$c->safe_psql("ALTER USER MAPPING FOR alice SERVER node$_ OPTIONS (SET user 'alice', SET password 'pw-alice')") for 1 .. 2;
my $alice = 'SET ROLE alice; ';
is($c->safe_psql($alice . q{INSERT INTO guarded VALUES (1, 'alice', 1), (2, 'alice', 2), (3, 'alice', 3), (4, 'alice', 4); INSERT INTO guarded (k, who) VALUES (5, 'alice') RETURNING k, v;
	INSERT INTO guarded (k, who) SELECT g, 'alice' FROM generate_series(1, 9) g ON CONFLICT DO NOTHING; SELECT count(*), sum(v) FROM guarded}), "5|\n9|10", 'INSERT under row security reads no other columns back');
$c->psql_fails_like($alice . q{INSERT INTO guarded VALUES (10, 'bob', 1, 'hidden')}, qr/^(?!.*hidden).*42501.*row-level security/s, 'the policy is checked');
$c->psql_fails_like($alice . q{INSERT INTO guarded VALUES (10, 'alice', 1) RETURNING *}, qr/42501/, 'RETURNING needs the right to read');

# UPDATE on one column is enough to lock rows. SELECT on one column is not enough where the
# coordinator reads the rows' ctid.
$c->safe_psql(q{CREATE TABLE seats (k int PRIMARY KEY, v int, w int); CREATE TABLE here (k int);
	SELECT shardfdw.shard_table('seats', shards => 4); INSERT INTO here VALUES (2);
	INSERT INTO seats SELECT g, g, g FROM generate_series(1, 4) g;
	GRANT SELECT ON seats, here TO alice; GRANT UPDATE (v) ON seats TO alice});
my @locks = (
	'SELECT k FROM seats WHERE k = 2 FOR UPDATE',
	'SELECT k FROM seats WHERE v = 2 FOR NO KEY UPDATE',
	'SELECT k FROM seats WHERE v = 2 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED',
	'SELECT s.k FROM seats s JOIN here USING (k) FOR UPDATE OF s',
	'UPDATE seats SET v = v WHERE v > random() + 1 AND v = 2 RETURNING k');
is($c->safe_psql("$alice$_"), 2, "UPDATE (v): $_") for @locks;
$c->psql_fails_like($alice . 'UPDATE seats SET w = w', qr/42501/, 'not of another column');
$c->safe_psql('REVOKE SELECT ON seats FROM alice; GRANT SELECT (k, v) ON seats TO alice');
is($c->safe_psql("$alice$locks[0]"), 2, "SELECT (k, v): $locks[0]");
$c->psql_fails_like("$alice$_", qr/42501: permission denied for table seats_0/, "SELECT (k, v): $_")
  for @locks[1 .. 4];

# A role that a user has created here must not get the rights of a superuser of the nodes.
$c->safe_psql('CREATE ROLE climber CREATEROLE; SET ROLE climber; CREATE ROLE chief; GRANT chief TO climber');
$c->node_safe_psql(1, 'CREATE ROLE chief SUPERUSER');
$c->node_safe_psql(2, 'CREATE ROLE chiefs SUPERUSER; CREATE ROLE chief; GRANT chiefs TO chief');
for my $i (1, 2)
{
	$c->psql_fails_like("SELECT shardfdw.add_user('climber', '{node$i}', password => 'pw-climber');", qr/42501: role "chief" has the rights of a superuser on the node, and not here/, "add_user() and a superuser of node$i");
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_auth_members WHERE roleid = 'chief'::regrole}), 0, 'who has no new member');
	$c->node_safe_psql($i, 'ALTER ROLE chief RENAME TO chief_of_node');
}
$c->safe_psql(q{SELECT shardfdw.add_user('climber', password => 'pw-climber')});
is($c->node_safe_psql($_, q{SELECT roleid::regrole FROM pg_auth_members WHERE member = 'climber'::regrole}), 'chief', "a role of its own on node$_") for 1, 2;

# add_user() gives no other rights that a role of the same name has on the nodes, either.
my %more = (CREATEROLE => 'CREATEROLE', CREATEDB => 'CREATEDB', REPLICATION => 'REPLICATION',
	BYPASSRLS => 'BYPASSRLS',
	'IN ROLE pg_read_server_files' => 'the rights of role "pg_read_server_files"',
	'IN ROLE pg_execute_server_program' => 'the rights of role "pg_execute_server_program"',
	'IN ROLE pg_read_all_data' => 'the rights of role "pg_read_all_data"',
		SUPERUSER => 'the rights of a superuser');
$c->safe_psql('CREATE ROLE strong; CREATE ROLE hopeful IN ROLE strong');
for my $options (sort keys %more)
{
	for my $name ('strong', 'hopeful')
	{
		$c->node_safe_psql(1, "CREATE ROLE $name $options");
		$c->psql_fails_like(q{SELECT shardfdw.add_user('hopeful', '{node1}', password => 'pw');},
			qr/42501: role "$name" has \Q$more{$options}\E on the node, and not here/,
				"$name on the node: $options");
		is($c->node_safe_psql(1, q{SELECT string_agg(rolname,
			' ') FROM pg_roles WHERE rolname IN ('strong', 'hopeful')}),
			$name, 'no role is made');
		$c->node_safe_psql(1, "DROP ROLE $name");
	}
}
is($c->safe_psql(q{SELECT count(*) FROM pg_user_mappings WHERE usename = 'hopeful'}), '0',
	'and no user mapping');

# If the role on a node owns something or has a privilege, it may be another role than the one here.
for my $own ('CREATE SCHEMA of_strong AUTHORIZATION strong', 'GRANT SELECT ON t_1 TO strong')
{
	$c->node_safe_psql(1, "CREATE ROLE strong; $own");
	$c->psql_fails_like(q{SELECT shardfdw.add_user('hopeful', '{node1}', password => 'pw');},
		qr/42501: role "strong" has objects or privileges on the node.*grant role "strong" to its members/s,
		"strong on the node: $own");
	# This does not matter if the role on the node already has the member.
	$c->node_safe_psql(1, 'CREATE ROLE hopeful IN ROLE strong');
	$c->safe_psql(q{SELECT shardfdw.add_user('hopeful', '{node1}', password => 'pw')});
	$c->node_safe_psql(1, 'DROP OWNED BY strong; DROP ROLE hopeful; DROP ROLE strong');
	$c->safe_psql('DROP USER MAPPING FOR hopeful SERVER node1');
}
# A role that add_user() has made is the same role.
$c->safe_psql(q{SELECT shardfdw.add_user('hopeful', '{node1}', password => 'pw')});
$c->node_safe_psql(1, 'CREATE SCHEMA of_strong AUTHORIZATION strong');
$c->safe_psql(q{CREATE ROLE hopeful_too IN ROLE strong; SELECT shardfdw.add_user('hopeful_too',
	'{node1}', password => 'pw')});
is($c->node_safe_psql(1, q{SELECT pg_has_role('hopeful_too', 'strong', 'MEMBER')}), 't',
	'a role that add_user() has made');

# The role of a shared user mapping has the rights of all roles that share it.
$c->safe_psql(q{CREATE ROLE sharer;
	CREATE USER MAPPING FOR sharer SERVER node1 OPTIONS (user 'common'); CREATE ROLE common;
	CREATE ROLE uncommon IN ROLE common});
$c->node_safe_psql(1, 'CREATE ROLE common LOGIN');
$c->psql_fails_like("SELECT shardfdw.add_user('$_', '{node1}', password => 'pw');",
	qr/42501: role "common" of node "node1" is the remote user of role "sharer"/,
		"add_user('$_')") for 'common', 'uncommon';
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_auth_members WHERE roleid = 'common'::regrole}),
	'0', 'it has no new member');

# ---------- ATTACH PARTITION by an owner who may not read her table ----------

# Core checks the rows of local tables without privileges.
$c->safe_psql('GRANT CREATE ON SCHEMA public TO alice;
	GRANT USAGE ON FOREIGN SERVER node1, node2 TO alice');
$c->node_safe_psql($_, 'GRANT CREATE ON SCHEMA public TO alice') for 1, 2;
$c->safe_psql(q{SET ROLE alice;
	CREATE TABLE above (id int NOT NULL, at int NOT NULL) PARTITION BY RANGE (at);
	CREATE TABLE hidden (id int NOT NULL, at int NOT NULL);
	SELECT shardfdw.shard_table('hidden', 'id', shards => 4);
	INSERT INTO hidden SELECT i, i FROM generate_series(1, 20) i;
	REVOKE SELECT ON hidden FROM alice; GRANT SELECT (id) ON hidden TO alice});
my $acl = q{SELECT string_agg(concat(c.relacl::text, a.attacl::text), ' ' ORDER BY c.relname, a.attnum)
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relname ~ '^hidden'};
my @before = ($c->safe_psql($acl), map { $c->node_safe_psql($_, $acl) } 1, 2);
my $attach = 'SET ROLE alice; ALTER TABLE above ATTACH PARTITION hidden FOR VALUES FROM (0)';
$c->psql_fails_like("$attach TO (20);",
	qr/23514: partition constraint of relation "hidden" is violated by some row/,
	'rows are compared');
is(($c->psql("$attach TO (21);"))[2], '', 'and allowed');
$c->psql_fails_like('SET ROLE alice; SELECT at FROM hidden;',
	qr/42501: permission denied for table hidden/, 'the owner reads no rows');
is(join(' ', $c->safe_psql($acl), map { $c->node_safe_psql($_, $acl) } 1, 2),
	join(' ', @before), 'and no privilege has changed');
# the same for a DEFAULT partition
$c->safe_psql(q{SET ROLE alice; ALTER TABLE above DETACH PARTITION hidden;
	ALTER TABLE above ATTACH PARTITION hidden DEFAULT});
my $create = 'SET ROLE alice; CREATE TABLE above_1 PARTITION OF above FOR VALUES';
$c->psql_fails_like("$create FROM (1) TO (2);",
	qr/23514: updated partition constraint for default partition "hidden" would be violated/,
	'a DEFAULT partition');
unlike(($c->psql("$create FROM (30) TO (40); DROP TABLE above"))[2], qr/ERROR/, 'without such rows');

# ---- rows that a policy hides --------------------------------------------------------------------

# Only the coordinator can check the policy: it calls a function of a user. Nodes must not compute
# expressions of the query over hidden rows: an error would show their values.
$c->safe_psql(q{CREATE ROLE tenant; CREATE FUNCTION visible(n name) RETURNS boolean LANGUAGE plpgsql
		STABLE AS 'BEGIN RETURN n = current_user; END';
	CREATE TABLE plain (id int PRIMARY KEY, who name, v text);
	INSERT INTO plain SELECT g, CASE g % 2 WHEN 0 THEN 'tenant' ELSE 'other' END,
		CASE g % 2 WHEN 0 THEN g::text ELSE 'secret' || g END FROM generate_series(1, 20) g;
	CREATE TABLE sharded (LIKE plain INCLUDING ALL); INSERT INTO sharded TABLE plain;
	SELECT shardfdw.shard_table('sharded', shards => 4)});
$c->safe_psql("CREATE USER MAPPING FOR tenant SERVER node$_
	OPTIONS (user 'postgres', password_required 'false')") for 1, 2;
for my $table (qw(plain sharded))
{
	$c->safe_psql("ALTER TABLE $table ENABLE ROW LEVEL SECURITY; GRANT SELECT ON $table TO tenant;
		CREATE POLICY p ON $table USING (visible(who));
		CREATE VIEW barrier_$table WITH (security_barrier) AS
			SELECT * FROM $table WHERE visible(who)");
}
for my $query (
	'SELECT id FROM %s ORDER BY v::int LIMIT 1',
	'SELECT v FROM %s ORDER BY v LIMIT 3',
	'SELECT max(v::int) FROM %s',
	'SELECT DISTINCT v::int FROM %s ORDER BY 1 LIMIT 1',
	'SELECT DISTINCT ON (v::int) id FROM %s ORDER BY v::int LIMIT 1',
	'SELECT v::int, count(*) FROM %s GROUP BY 1 ORDER BY 1 LIMIT 2',
	'SELECT id, row_number() OVER (ORDER BY v::int) FROM %s ORDER BY 1 LIMIT 2',
	'SELECT id FROM %s WHERE id = 5 ORDER BY v::int LIMIT 1',
	'SELECT id FROM %s WHERE v::int > 3 ORDER BY id',
	'SELECT s.id FROM %s s JOIN generate_series(1, 4) g ON s.v::int = g ORDER BY 1',
	'SELECT a.id FROM %s a JOIN %1$s b ON a.v::int = b.v::int ORDER BY 1 LIMIT 2',
	'SELECT (SELECT id FROM %s WHERE v::int > g ORDER BY v::int LIMIT 1) FROM generate_series(1, 2) g')
{
	for my $name ('%s', 'barrier_%s')
	{
		my $sql = $query =~ s/%(?:1\$)?s/$name/gr;
		my ($plain, $sharded) = map {
			my $role = $name eq '%s' ? 'SET ROLE tenant; ' : '';
			my ($rc, $out, $err) = $c->psql($role . $sql =~ s/%s/$_/gr);
			$out . ($err =~ /(ERROR:.*)/ ? $1 : '');
		} qw(plain sharded);
		is($sharded, $plain, $sql);
	}
}

done_testing();
