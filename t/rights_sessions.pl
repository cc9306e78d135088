# Nodes tell who owns a table there. The question is asked with the user mapping of the owner here,
# in a session where code of that role may have run. The code must not be able to change the answer
# by temporary tables or search_path.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $columns = 'oid oid, relname name, relnamespace oid, relowner oid';
my @code = (
	"CREATE TEMP TABLE IF NOT EXISTS pg_class ($columns)",
	q{PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog', false)});

for my $i (1, 2)
{
	$c->node_safe_psql($i, "CREATE ROLE mallory LOGIN; CREATE ROLE guest LOGIN;
		GRANT CREATE ON SCHEMA public TO mallory; CREATE TABLE salaries (id int, s text);
		CREATE SCHEMA evil; CREATE TABLE evil.pg_class ($columns);
		GRANT USAGE ON SCHEMA evil TO mallory; GRANT SELECT ON evil.pg_class TO mallory");
}
$c->safe_psql(q{CREATE ROLE mallory LOGIN; CREATE ROLE guest LOGIN;
	GRANT CREATE ON SCHEMA public TO mallory;
	GRANT USAGE ON FOREIGN SERVER node1, node2 TO mallory});
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_
	OPTIONS (user 'mallory', password_required 'false')") for 1, 2;
# mallory's foreign table stands for a table of the node's superuser
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ref (k int PRIMARY KEY);
	SELECT shardfdw.create_reference_table('ref');
	CREATE TABLE p (id int, s text) PARTITION BY RANGE (id);
	CREATE FOREIGN TABLE salaries PARTITION OF p FOR VALUES FROM (0) TO (10) SERVER node1;
	CREATE TABLE m (k int PRIMARY KEY); SELECT shardfdw.shard_table('m', shards => 2);
	CREATE VIEW mv AS SELECT k FROM m});
# nodes call the function when they plan a query of the table
for my $i (1, 2)
{
	$c->node_safe_psql($i, q{SET ROLE mallory;
		CREATE FUNCTION run() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
		CREATE FUNCTION plan(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
			'BEGIN RETURN public.run() + i; END'});
	my @tables = split /\n/, $c->node_safe_psql($i,
		q{SELECT relname FROM pg_class WHERE relname ~ '^(m_0.|ref)$' AND relkind = 'r'});
	$c->node_safe_psql($i, "SET ROLE mallory; CREATE INDEX ON $_ (plan(1), k)") for @tables;
}

my $state = q{SELECT relowner::regrole, relacl, relnatts FROM pg_class
	WHERE relname = 'salaries' AND relkind = 'r'};
my $before = $c->node_safe_psql(1, $state);
for my $code (@code)
{
	$c->node_safe_psql($_, "SET ROLE mallory; CREATE OR REPLACE FUNCTION run() RETURNS int
		LANGUAGE plpgsql AS \$\$BEGIN $code; RETURN 1; END\$\$") for 1, 2;
	for my $first ('SELECT 1', 'SELECT count(*) FROM shardfdw.check_cluster()',
		'SELECT count(*) FROM mv', 'BEGIN; SELECT count(*) FROM mv; COMMIT',
		'BEGIN; SELECT count(*) FROM mv')
	{
		for my $command ('ALTER TABLE p ADD COLUMN z int', 'GRANT SELECT ON p TO guest',
			q{SELECT shardfdw.add_user('mallory')}, 'DROP TABLE p')
		{
			my $end = $first =~ /COMMIT|^SELECT/ ? '' : '; ROLLBACK';
			$c->psql("$first; $command$end", on_error_stop => 0);
			is($c->node_safe_psql(1, $state), $before, "$first; $command");
		}
	}
}
done_testing();
