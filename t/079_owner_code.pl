# Whose rights the code of a table's owner gets when somebody else, a superuser say, works on the table: CHECK
# constraints, generated columns, indexes, domains. Never the superuser's, here or on the nodes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->add_node($_) for 1, 2;

$c->node_safe_psql($_, 'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory') for 1 .. 3;
$c->safe_psql('CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; GRANT USAGE ON FOREIGN SERVER node1, node2 TO mallory');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_ OPTIONS (user 'mallory', password_required 'false')") for 1, 2;
$c->safe_psql(q{SET ROLE mallory;
	CREATE FUNCTION spy(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		RAISE WARNING 'spy runs as %', (SELECT CASE WHEN rolsuper THEN 'superuser' ELSE rolname END FROM pg_catalog.pg_roles WHERE rolname = current_user);
		RETURN i;
	END $$;
	CREATE OPERATOR @@# (FUNCTION = spy, RIGHTARG = int);
	CREATE DOMAIN spied AS int CHECK (public.spy(VALUE) IS NOT NULL);
	CREATE TYPE spied_pair AS (a spied, b int)});

my %tables = (
	checked   => 'id int PRIMARY KEY, v int CHECK (spy(v) > 0)',
	operated  => 'id int PRIMARY KEY, v int CHECK (@@# v > 0)',
	generated => 'id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (spy(v)) STORED',
	domained  => 'id int PRIMARY KEY, v spied',
	listed    => 'id int PRIMARY KEY, v int, d spied[]',
	paired    => 'id int PRIMARY KEY, v int, p spied_pair',
	indexed   => 'id int PRIMARY KEY, v int',
	partial   => 'id int PRIMARY KEY, v int');
my %index = (indexed => 'CREATE INDEX ON indexed (spy(v))', partial => 'CREATE INDEX ON partial (v) WHERE spy(v) > 0');

my @from = map { $c->log_position($_) } undef, 1 .. 3;
sub as_superuser
{
	return join '', map { my $i = $_; $c->log_since($from[ $i // 0 ], $i) =~ /spy runs as superuser/ ? ($i // 'coordinator') : () } undef, 1 .. 3;
}

for my $table (sort keys %tables)
{
	my $new = "SET ROLE mallory; CREATE TABLE $table ($tables{$table}); INSERT INTO $table (id, v) SELECT i, i FROM generate_series(1, 20) i; " . ($index{$table} // '');
	$c->safe_psql($new);
	for my $verb ('shard', 'replicate')
	{
		$c->psql_fails_like("SELECT shardfdw.${verb}_table('$table');", qr/42501: cannot $verb table "$table" because function .*spy.* of role "mallory" would run.*SET ROLE mallory/s, "${verb}_table by a superuser: $table");
	}
	# operators are not made by themselves
	$c->node_safe_psql($_, 'CREATE OPERATOR @@# (FUNCTION = spy, RIGHTARG = int)') for $table eq 'operated' ? (1, 2) : ();
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.shard_table('$table', shards => 4)");
	is($c->node_safe_psql(1, "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relname LIKE '${table}\\_0_'"), 'mallory', "by the owner: $table");
	# what superusers do with any table
	$c->safe_psql("ANALYZE $table; VACUUM (ANALYZE) $table; REINDEX TABLE $table; CREATE INDEX ${table}_v ON $table (v); SELECT * FROM shardfdw.check_nodes(true)");
	$c->psql_fails_like("SELECT shardfdw.unshard_table('$table');", qr/42501: cannot unshard table/, "unshard_table by a superuser: $table");
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.unshard_table('$table')");
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.replicate_table('$table')");
	$c->safe_psql("ANALYZE $table; REINDEX TABLE $table; SELECT * FROM shardfdw.check_nodes(true); SELECT shardfdw.unshard_table('$table')");
	is(as_superuser(), '', "no code of hers has run as a superuser: $table");
}

# A shard beside a DEFAULT one, whose rows are looked at with the expression of the key.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ranged (id int) PARTITION BY RANGE (spy(id));
	SELECT shardfdw.create_shard('ranged', 'ranged_rest', 'DEFAULT', 'node1'); INSERT INTO ranged SELECT generate_series(1, 9)});
$c->psql_fails_like(q{SELECT shardfdw.create_shard('ranged', 'ranged_1', 'FROM (100) TO (200)', 'node1');}, qr/42501: .*function .*spy/, 'create_shard by a superuser');
is(as_superuser(), '', 'nor of a key');

# A new node gets copies of her reference tables from her.
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.replicate_table('checked')");
my ($host, $port) = $c->node_address(3);
my ($rc, undef, $err) = $c->psql(qq{BEGIN; SELECT shardfdw.add_node('node3', '$host', $port, 'postgres'); GRANT USAGE ON FOREIGN SERVER node3 TO mallory;
	CREATE USER MAPPING FOR mallory SERVER node3 OPTIONS (user 'mallory', password_required 'false'); SET LOCAL ROLE mallory; SELECT shardfdw.replicate_table('checked');
	UPDATE checked SET v = v + 1 WHERE id = 20; COMMIT}, on_error_stop => 1);
is($rc, 0, 'a node is added') || diag $err;
like($err, qr/WARNING:  node "node3": reference table .*checked has no copy there.*replicate_table/s, 'which does not run her code by itself');
is($c->node_safe_psql(3, "SELECT sum(v), (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'checked') FROM checked"), '211|mallory', 'she makes the copy');
is(as_superuser(), '', 'with her rights');
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.unshard_table('checked')");

# What the owner adds after the superuser's snapshot was taken, or while he waits for a node
$c->safe_psql('SET ROLE mallory; CREATE DOMAIN clean AS int; CREATE TABLE later (id int PRIMARY KEY, v int, g clean GENERATED ALWAYS AS (v::clean) STORED); INSERT INTO later SELECT i, i FROM generate_series(1, 9) i');
my $super = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$super->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean ADD CONSTRAINT spied CHECK (public.spy(VALUE) > 0)');
$super->query(q{SAVEPOINT a; SELECT shardfdw.check_owner_code('later', 'shard'); ROLLBACK TO a});
like($super->{stderr}, qr/cannot shard table .*function .*spy.* of role "mallory"/, 'an old snapshot');
$super->query(q{SELECT shardfdw.shard_table('later', shards => 2)});
like($super->{stderr}, qr/needs transaction isolation level READ COMMITTED/, 'with which nothing is sharded');
$super->query('ROLLBACK');
$super->quit;
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean DROP CONSTRAINT spied');
my $on_node = $c->node(1)->background_psql('postgres');
$on_node->query('BEGIN; CREATE DOMAIN clean AS int');
my $waits = $c->start_sql(q{SELECT shardfdw.shard_table('later', shards => 2)});
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%CREATE DOMAIN%clean%'}, 1);
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean ADD CONSTRAINT spied CHECK (public.spy(VALUE) > 0) NOT VALID');
$on_node->query('ROLLBACK');
$on_node->quit;
like(($c->wait_sql($waits))[2], qr/function .*spy.* of role "mallory"/, 'while nodes are waited for');
is(as_superuser(), '', 'nothing of hers has run');

# Code that superusers have made their own is theirs.
$c->safe_psql('ALTER FUNCTION spy OWNER TO postgres');
$c->safe_psql("SELECT shardfdw.shard_table('checked', shards => 2)");
is($c->safe_psql('SELECT count(*) FROM checked'), '20', 'a function of a superuser');

done_testing();
