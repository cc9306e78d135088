# enable_node() must give a returning node all that it needs, as add_node() does. Tests each row of
# the table "Replicas instead of standbys" in docs/high_availability.md. The node returns with its
# data or with an empty database, in clusters of two and of three nodes.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c;

sub differences { return $c->safe_psql(q{SELECT shard, node FROM shardfdw.compare_replicas('t') WHERE NOT is_equal}); }

# Returns the findings of check_cluster() except those about versions.
sub problems { return $c->safe_psql(ShardCluster::problems(q{check_cluster('rows')})); }

# A node's database is lost: another database has its name, and the roles of nodes do not exist any
# more.
sub empty
{
	my ($i) = @_;

	$c->node($i)->safe_psql('template1', 'DROP DATABASE postgres WITH (FORCE)');
	$c->node($i)->safe_psql('template1', 'CREATE DATABASE postgres; DROP ROLE visitor');
	return;
}

# Reads that need each kind of object on the nodes. $sum: the expected sum of v.
sub reads
{
	my ($sum, $what) = @_;

	is($c->safe_psql('SELECT count(*), sum(v) FROM t'), "60|$sum", "$what: reads of shards");
	is($c->safe_psql('SELECT avg(v) = sum(v) / count(*)::numeric, stddev(v) > 0, variance(x) > 0 FROM t'), 't|t|t', "$what: partial aggregates");
	is($c->safe_psql('SELECT total(v) FROM t'), $sum, "$what: aggregates of users");
	is($c->safe_psql('SELECT count(r.m), count(*) FROM t LEFT JOIN ref r ON r.id = t.id % 5'), '60|60', "$what: joins with reference tables");
	is($c->safe_psql('SET ROLE visitor; SELECT count(*), count(r.id) FROM t LEFT JOIN ref r ON r.id = t.id % 5'), '60|60', "$what: a user of the nodes");
	return;
}

sub writes_references
{
	my ($what) = @_;

	is($c->safe_psql('UPDATE ref SET n = n + 1 RETURNING 1') =~ tr/1//, 5, "$what: reference tables are written");
	$c->safe_psql(q{INSERT INTO ref VALUES (100, 'happy', 1, '{a}'); DELETE FROM ref WHERE id = 100});
	return;
}

my $ncases = 0;
for my $nnodes (3, 2)
{
	$c = ShardCluster->new(nodes => $nnodes);
	$c->safe_psql(q{
		CREATE ROLE visitor LOGIN;
		CREATE SCHEMA odd; CREATE TYPE odd.mood AS ENUM ('sad', 'happy');
		CREATE FUNCTION odd.plus(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
		CREATE FUNCTION public.plus(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
		CREATE AGGREGATE total(bigint) (SFUNC = plus, STYPE = bigint, COMBINEFUNC = plus, INITCOND = '0', PARALLEL = SAFE);
		CREATE TABLE ref (id int PRIMARY KEY, m odd.mood NOT NULL, n int, a text[], CHECK (odd.plus(n, 0) >= 0)); CREATE INDEX ref_n ON ref (n);
		INSERT INTO ref SELECT g, 'sad', 0, ARRAY['x'] FROM generate_series(0, 4) g;
		SELECT shardfdw.create_reference_table('ref');
		CREATE TABLE odd.empty (k int); SELECT shardfdw.create_reference_table('odd.empty');
		CREATE TABLE t (id int PRIMARY KEY, v bigint DEFAULT 0, x float8, m odd.mood); INSERT INTO t SELECT g, g % 3, g / 7.0, 'sad' FROM generate_series(1, 60) g;
		SELECT shardfdw.shard_table('t', shards => 6, replication_factor => 2);
		SELECT shardfdw.add_user('visitor', password => 'x'); GRANT SELECT ON t, ref TO visitor});
	$c->safe_psql("ALTER USER MAPPING FOR visitor SERVER node$_ OPTIONS (ADD password_required 'false')") for 1 .. $nnodes;
	my $sum = $c->safe_psql('SELECT sum(v) FROM t');

	for my $case ([ 1, 'data' ], [ 2, 'data' ], [ 1, 'empty' ], [ 2, 'empty' ])
	{
		next unless ShardCluster::in_half($ncases++);
		my ($gone, $with) = @$case;
		my $what = "$nnodes nodes, node $gone with " . ($with eq 'data' ? 'its data' : 'an empty database');

		$c->node($gone)->stop('immediate');
		reads($sum, "$what, cannot be connected to");
		my (undef, undef, $err) = $c->psql('UPDATE t SET v = v + 1');
		like($err, qr/could not connect to node "node$gone".*disable_node\('node$gone'\)/s, "$what: writes fail, and name the node and disable_node");

		cmp_ok($c->safe_psql("SELECT shardfdw.disable_node('node$gone')"), '>', 0, "$what: disabled");
		$c->safe_psql('UPDATE t SET v = v + 1');
		$sum += 60;
		reads($sum, "$what, disabled");

		$c->node($gone)->start;
		empty($gone) if $with eq 'empty';
		$c->safe_psql('UPDATE t SET v = v + 1');
		$sum += 60;
		reads($sum, "$what, back");

		cmp_ok($c->safe_psql("SELECT shardfdw.enable_node('node$gone')"), '>', 0, "$what: enabled");
		is(problems(), '', "$what: nothing is missing");
		reads($sum, "$what, enabled");
		writes_references("$what, enabled");
		$c->safe_psql('UPDATE t SET v = v + 1');
		$sum += 60;
		# the node is the primary of shards as well
		my ($other) = grep { $_ != $gone } 1 .. $nnodes;
		$c->safe_psql("SELECT shardfdw.disable_node('node$other')");
		reads($sum, "$what, on its own");
		writes_references("$what, on its own");
		$c->safe_psql("SELECT shardfdw.enable_node('node$other')");
		is(problems(), '', "$what: nothing is missing at last");
		is(differences(), '', "$what: replicas are equal");
	}
	last if $nnodes == 2;
	$c->coordinator->stop;
	$c->node($_)->stop for 1 .. $nnodes;
}

# ---------- replicas that differ, and replicas that cannot be created ----------

# a replica that was changed on the node
$c->node_safe_psql(1, 'ALTER TABLE ref DROP CONSTRAINT ref_n_check; UPDATE ref SET n = -1 WHERE id = 1; DROP INDEX ref_n');
$c->safe_psql(q{SELECT shardfdw.enable_node('node1')});
is(problems(), '', 'a replica that was changed on a node is made again, with its indexes and constraints');

# tables of other roles are not dropped on the node, whatever the name of the coordinator's table is
$c->safe_psql(q{CREATE ROLE own LOGIN; GRANT CREATE ON SCHEMA public TO own; SELECT shardfdw.add_user('own', password => 'x')});
$c->safe_psql("GRANT USAGE ON FOREIGN SERVER node$_ TO own; ALTER USER MAPPING FOR own SERVER node$_ OPTIONS (ADD password_required 'false')") for 1, 2;
$c->safe_psql('SET ROLE own; CREATE TABLE mine (k int PRIMARY KEY)');
$c->safe_psql(q{SELECT shardfdw.create_reference_table('mine')});
$c->node_safe_psql(1, 'CREATE TABLE precious (k int PRIMARY KEY); INSERT INTO precious VALUES (7)');
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; ALTER TABLE mine RENAME TO precious');
my (undef, undef, $err) = $c->psql(q{SELECT shardfdw.enable_node('node1')});
like($err, qr/table public\.precious differs from the reference table and does not belong to its owner.*DETAIL:  Node "node1".*HINT:  If nobody needs it, on the node: DROP TABLE public\.precious/s, 'a table of another role is not dropped');
is($c->node_safe_psql(1, 'SELECT k FROM precious'), 7, 'and has its rows');
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; ALTER TABLE precious RENAME TO mine');
$c->node_safe_psql(1, 'INSERT INTO mine VALUES (1)');
is($c->safe_psql(q{SELECT shardfdw.enable_node('node1')}), 0, 'one of the owner is');
is($c->node_safe_psql(1, q{SELECT count(*), min(c.relowner::regrole::text) FROM mine RIGHT JOIN pg_class c ON k IS NOT NULL WHERE c.oid = 'mine'::regclass GROUP BY k}), '1|own', 'and made again for him');

# only the owner can create objects that call the owner's code
$c->safe_psql(q{SET ROLE own; CREATE FUNCTION own_code(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END'; ALTER TABLE mine ADD CHECK (own_code(k))});
$c->node_safe_psql(1, 'DROP TABLE mine');
(undef, undef, $err) = $c->psql(q{SELECT shardfdw.enable_node('node1')});
like($err, qr/could not enable node "node1" because reference table public\.mine has no replica there.*HINT:  As the owner of the table.*SELECT shardfdw\.create_reference_table\('public\.mine'\)/s, 'it says what to call');
$c->safe_psql(q{SET ROLE own; SELECT shardfdw.create_reference_table('mine')});
is($c->safe_psql(q{SELECT shardfdw.enable_node('node1')}), 0, 'and that helps');

# a table that an owner has put in the place of a replica, with a user mapping made by hand
$c->safe_psql("CREATE ROLE hand; GRANT CREATE ON SCHEMA public TO hand; GRANT USAGE ON FOREIGN SERVER node1, node2 TO hand");
$c->node_safe_psql($_, 'CREATE ROLE hand LOGIN; GRANT CREATE ON SCHEMA public TO hand') for 1, 2;
$c->safe_psql("CREATE USER MAPPING FOR hand SERVER node$_ OPTIONS (user 'hand', password_required 'false')") for 1, 2;
$c->safe_psql(q{SET ROLE hand; CREATE TABLE by_hand (id int PRIMARY KEY); INSERT INTO by_hand VALUES (1); SELECT shardfdw.create_reference_table('by_hand')});
my $by_hand = q{SELECT relkind, relowner::regrole, (SELECT count(*) FROM by_hand) FROM pg_class WHERE oid = 'by_hand'::regclass};
for my $change ('DROP TABLE by_hand; CREATE TABLE by_hand (id int PRIMARY KEY) PARTITION BY RANGE (id)', 'DROP TABLE by_hand; CREATE TABLE by_hand (id int PRIMARY KEY)', 'DROP TABLE by_hand')
{
	next unless ShardCluster::in_half($ncases++);
	$c->node_safe_psql(1, "SET ROLE hand; $change");
	for my $round (1, 2)
	{
		$c->safe_psql(q{SELECT shardfdw.disable_node('node1')});
		is($c->safe_psql(q{SELECT shardfdw.enable_node('node1') >= 0}), 't', "enabled after $change, round $round");
		is($c->node_safe_psql(1, $by_hand), 'r|hand|1', 'the replica is a table of the owner, with its rows');
	}
}
is(problems(), '', 'and check_cluster() finds nothing');

# a node that does not fit
$c->safe_psql(q{SELECT shardfdw.disable_node('node1')});
$c->node(1)->safe_psql('template1', 'DROP DATABASE postgres WITH (FORCE)');
$c->node(1)->safe_psql('template1', q{CREATE DATABASE postgres ENCODING 'LATIN1' TEMPLATE template0});
(undef, undef, $err) = $c->psql(q{SELECT shardfdw.enable_node('node1')});
like($err, qr/could not enable node "node1".*DETAIL:  encoding: LATIN1, but UTF8 here/s, 'a database of another encoding');

done_testing();
