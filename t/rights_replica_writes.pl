# Roles that may write a table, and may not read all of it. If the shards have replicas, each write
# of such a role does what it does on a plain table, or fails with the error that docs/limits_operation.md
# describes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1);
$c->safe_psql(q{CREATE ROLE io LOGIN; CREATE ROLE upd LOGIN; CREATE ROLE del LOGIN;
	CREATE ROLE mapped LOGIN; CREATE TABLE r (id int PRIMARY KEY, v text, w text DEFAULT 'w');
	CREATE TABLE p (LIKE r INCLUDING ALL);
	INSERT INTO r SELECT g, 'v', 'w' FROM generate_series(1, 20) g; INSERT INTO p SELECT * FROM r;
	SELECT shardfdw.shard_table('r', shards => 4, replication_factor => 2);
	SELECT shardfdw.add_user(x, password => 'x') FROM unnest('{io,upd,del}'::name[]) x;
	GRANT INSERT ON r, p TO io; GRANT UPDATE (v), SELECT (id) ON r, p TO upd, mapped;
	GRANT DELETE, SELECT (id) ON r, p TO del});
for my $i (1, 2)
{
	$c->safe_psql("ALTER USER MAPPING FOR $_ SERVER node$i OPTIONS (ADD password_required 'false')")
		for qw(io upd del);
	$c->safe_psql("CREATE USER MAPPING FOR mapped SERVER node$i
		OPTIONS (user 'postgres', password_required 'false')");
}

# Runs the statements on the plain table and on the sharded one, {t}.
sub same
{
	my ($role, $sql, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->safe_psql("SET ROLE $role; " . $sql =~ s/\{t\}/p/gr);
	my ($rc, undef, $err) = $c->psql("SET ROLE $role; " . $sql =~ s/\{t\}/r/gr, on_error_stop => 1);
	is($rc, 0, "$role: $name") || diag $err;
	is($c->safe_psql('(TABLE r EXCEPT TABLE p) UNION ALL (TABLE p EXCEPT TABLE r)'), '',
		"$role: $name: the rows are those of a plain table");
	is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_replicas('r')}), 't',
		"$role: $name: the replicas have them");
	return;
}

same('io', q{INSERT INTO {t} VALUES (100, 'x', 'y')}, 'INSERT of one row');
same('io', q{INSERT INTO {t} (id) VALUES (101)}, 'INSERT with defaults');
same('io', q{INSERT INTO {t} VALUES (102, 'x'), (103, 'x')}, 'INSERT of two rows');
same('io', q{INSERT INTO {t} SELECT g, 'x' FROM generate_series(110, 130) g}, 'INSERT ... SELECT');
same('io', q{PREPARE i AS INSERT INTO {t} VALUES ($1, 'x'); EXECUTE i (140);
	BEGIN; EXECUTE i (141); EXECUTE i (142); COMMIT}, 'a prepared INSERT');
same('io', q{DO $$ BEGIN FOR i IN 150 .. 155 LOOP
	INSERT INTO {t} VALUES (i, 'x'); END LOOP; END $$}, 'INSERT in a function');
same('io', q{BEGIN; RESET ROLE; INSERT INTO {t} VALUES (160, 'x'); COMMIT;
	SET ROLE io; INSERT INTO {t} VALUES (161, 'x')}, 'INSERT after the same one of another role');
same('del', 'DELETE FROM {t} WHERE id = 1', 'DELETE of one row');
same('del', 'DELETE FROM {t} WHERE id < 5', 'DELETE of several rows');
same('del', 'BEGIN; DELETE FROM {t} WHERE id = 5; DELETE FROM {t} WHERE id = 6; COMMIT',
	'two DELETEs');
same('upd', q{UPDATE {t} SET v = 'z' WHERE id = 0}, 'UPDATE of no row');
same('mapped', q{UPDATE {t} SET v = 'm' WHERE id IN (7, 8)},
	'UPDATE by a role that may read on nodes');

# ---- writes that are refused ---------------------------------------------------------------------

my $refused =
	qr/42501: role "\w+" has too few privileges to change replicas of shards of table "r"/;
$c->psql_fails_like("SET ROLE upd; UPDATE r SET v = 'z' WHERE id = 9;", $refused,
	'UPDATE of columns');
$c->psql_fails_like("SET ROLE upd; BEGIN; UPDATE r SET v = 'z' WHERE id = 9; COMMIT;", $refused,
	'UPDATE in a transaction');
$c->safe_psql('GRANT SELECT (id) ON r, p TO io; REVOKE SELECT (id) ON r, p FROM del');
$c->psql_fails_like('SET ROLE io; INSERT INTO r VALUES (200) RETURNING id;', $refused, 'RETURNING');
$c->psql_fails_like('SET ROLE del; DELETE FROM r;', $refused, 'DELETE without any SELECT');
$c->safe_psql('GRANT SELECT ON r, p TO upd; GRANT SELECT (id) ON r TO del');
for my $where ('= 9', 'IN (SELECT id FROM r WHERE id < 20)', '> 0')
{
	$c->psql_fails_like("SET ROLE upd; UPDATE r SET v = 'z' WHERE id $where;", $refused,
		"UPDATE with SELECT alone, id $where");
}
my (undef, undef, $err) = $c->psql("SET ROLE upd; UPDATE r SET v = 'z' WHERE id = 9");
my ($hint) = $err =~ /can run: (GRANT SELECT, INSERT, DELETE ON TABLE public\.r TO upd)$/m;
ok($hint, 'a hint') or diag $err;
$c->safe_psql("$hint; " . $hint =~ s/public\.r/p/r);
same('upd', q{UPDATE {t} SET v = 'z' WHERE id = 9}, 'UPDATE after what the hint says');
same('upd', q{UPDATE {t} SET v = 'y'}, 'UPDATE of many rows');

# ---- names that a node answers -------------------------------------------------------------------

# Each role can set the list of changed shards on a node.
for my $name ('r_00', 'public.r', 'other.r_00', 'a.b.c.d', 'a..b')
{
	$c->psql_fails_like(qq{BEGIN; SELECT count(*) FROM r;
		SELECT shardfdw_internal.run_commands('{node1}',
			ARRAY['SET LOCAL shardfdw_replica.noted = ''{$name}'''], 'write'); COMMIT;},
		qr/ERROR:  (?:55000: table \S+ on node "node1" has replicas, but is no shard|42\w+: .*name)/,
		"a changed shard with the name $name");
}

done_testing();
