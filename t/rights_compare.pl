# A superuser compares, copies and verifies tables of other roles: check_cluster(),
# compare_replicas(), move_replica(), enable_node(). None of them may run code of a table's owner,
# who can log in on the nodes. Names of the owner's tables, columns and triggers must not hide a
# difference.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my %function = (shard => 'shard_table', replicate => 'create_reference_table');

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->node_safe_psql($_, 'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory') for 1 .. 3;
$c->add_node($_) for 1 .. 3;
$c->safe_psql('CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO mallory');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_ OPTIONS (user 'mallory', password_required 'false')") for 1 .. 3;

# spy() makes mallory a superuser if it has the rights for that.
my $spy = q{CREATE FUNCTION spy(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF;
		RETURN i;
	END $$;};
$c->node_safe_psql($_, "SET ROLE mallory; $spy") for 1 .. 3;
$c->safe_psql("SET ROLE mallory; $spy");

sub nobody_ran
{
	my ($what) = @_;
	my @supers = map { $_ == 0 ? $c->safe_psql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}) : $c->node_safe_psql($_, q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}) } 0 .. 3;
	is("@supers", 'f f f f', "$what: no code of the owner runs as a superuser");
	$c->safe_psql('ALTER ROLE mallory NOSUPERUSER');
	$c->node_safe_psql($_, 'ALTER ROLE mallory NOSUPERUSER') for 1 .. 3;
}

sub problems { my ($relation) = @_; return $c->safe_psql("SELECT node, detail FROM shardfdw.check_cluster('rows') WHERE status = 'error' AND detail ~ '$relation' ORDER BY 1, 2"); }

# ---- a view in place of a table ------------------------------------------------------------------

$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ref (k int PRIMARY KEY, v text); INSERT INTO ref VALUES (1, 'a'); SELECT shardfdw.create_reference_table('ref');
	CREATE TABLE shards (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('shards', 'k', shards => 3, replication_factor => 2); INSERT INTO shards SELECT g, g FROM generate_series(1, 30) g;
	CREATE TABLE refers (k int PRIMARY KEY, r int REFERENCES ref); SELECT shardfdw.shard_table('refers', 'k', shards => 2); INSERT INTO refers VALUES (1, 1), (2, 1)});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE status = 'error'}), '0', 'all is as it should be');

$c->node_safe_psql(1, q{SET ROLE mallory; ALTER TABLE ref RENAME TO kept; CREATE VIEW ref AS SELECT spy(k) AS k, v FROM kept});
$c->safe_psql('SELECT * FROM shardfdw.check_cluster($$rows$$)');
nobody_ran('a view in place of a replica of a reference table');
isnt(problems('ref'), '', 'check_cluster() says that it is no table');
$c->node_safe_psql(1, 'SET ROLE mallory; DROP VIEW ref; ALTER TABLE kept RENAME TO ref');

# The owner may also do that between two queries of check_cluster(). So the query itself refuses.
for my $question (
	$c->safe_psql(q{SELECT shardfdw_internal.checksum_query('ref', 'public', 'spying', true)}),
	$c->safe_psql(q{SELECT 'SELECT count(*) FROM ' || shardfdw_internal.stored_rows('public.spying')}))
{
	my ($rc, $out, $err) = $c->node_psql(1, "BEGIN; SET LOCAL ROLE mallory; CREATE VIEW spying AS SELECT spy(1) AS k, 'a' AS v; RESET ROLE; $question");
	like($err, qr/TABLESAMPLE clause can only be applied to tables/, "refused: $question");
}

my $copy = $c->safe_psql(q{SELECT shard FROM shardfdw.shards WHERE shard::text ~ '^shards_' AND node = 'node1' LIMIT 1});
$c->node_safe_psql(1, "SET ROLE mallory; ALTER TABLE $copy RENAME TO kept; CREATE VIEW $copy AS SELECT spy(k) AS k, v FROM kept");
$c->psql("SELECT * FROM shardfdw.compare_replicas('shards')");
nobody_ran('a view in place of a shard');
$c->node_safe_psql(1, "SET ROLE mallory; DROP VIEW $copy; ALTER TABLE kept RENAME TO $copy");

# ---- casts ---------------------------------------------------------------------------------------

for my $i (1 .. 3)
{
	for my $table (split /\n/, $c->node_safe_psql($i, q{SELECT relname FROM pg_class WHERE relname ~ '^(shards_\d+|ref)$' AND relkind = 'r'}))
	{
		$c->node_safe_psql($i, qq{SET ROLE mallory; CREATE FUNCTION text_of($table) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)::text'; CREATE CAST ($table AS text) WITH FUNCTION text_of($table) AS ASSIGNMENT});
	}
}
$c->safe_psql(q{SELECT * FROM shardfdw.check_cluster('rows'); SELECT * FROM shardfdw.compare_replicas('shards')});
nobody_ran('a cast of the row type to text');
for my $i (1 .. 3)
{
	$c->node_safe_psql($i, "DROP FUNCTION $_ CASCADE") for split /\n/, $c->node_safe_psql($i, q{SELECT oid::regprocedure FROM pg_proc WHERE proname = 'text_of'});
}

$c->safe_psql(q{SET ROLE mallory; CREATE TYPE tone AS ENUM ('1', '2'); CREATE FUNCTION tone_int(t tone) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
	CREATE CAST (tone AS int) WITH FUNCTION tone_int(tone) AS IMPLICIT});
for my $i (1 .. 3)
{
	$c->node_safe_psql($i, q{SET ROLE mallory; CREATE TYPE tone AS ENUM ('1', '2'); CREATE FUNCTION tone_int(t tone) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)';
		CREATE CAST (tone AS int) WITH FUNCTION tone_int(tone) AS IMPLICIT});
}
my $refers = $c->safe_psql(q{SELECT shard FROM shardfdw.shards WHERE shard::text ~ '^refers_' AND node = 'node1' LIMIT 1});
$c->node_safe_psql(1, "SET ROLE mallory; ALTER TABLE $refers ADD COLUMN t tone DEFAULT '1' CONSTRAINT by_cast REFERENCES ref");
like($c->safe_psql(q{SELECT status || ': ' || detail FROM shardfdw.check_cluster('rows') WHERE node = 'node1' AND check_name = 'foreign keys' ORDER BY 1}),
	qr/warning: foreign key by_cast of public\.$refers is not checked/, 'a foreign key by a cast is not checked');
nobody_ran('a foreign key by a cast');
$c->node_safe_psql(1, "SET ROLE mallory; ALTER TABLE $refers DROP COLUMN t");

# ---- code that the planner runs ------------------------------------------------------------------

# The planner folds constants in expressions of a table's indexes and statistics, whatever the query. spy(1) is a constant.
my %expressions = (
	'an index expression' => 'CREATE INDEX spied ON %s (spy(1), k)',
	'a predicate of an index' => 'CREATE INDEX spied ON %s (k) WHERE spy(1) = 1',
	'statistics' => 'CREATE STATISTICS spied ON (spy(1) + k), v FROM %s');
my $nplaces = 0;
my $placement = $c->safe_psql(q{SELECT shard FROM shardfdw_internal.shard_placements('shards') WHERE node = 'node1' AND role = 'replica' LIMIT 1});
for my $what (sort keys %expressions)
{
	my $drop = $what eq 'statistics' ? 'DROP STATISTICS' : 'DROP INDEX';
	for my $place ([ 'the coordinator', 'ref' ], [ 'a replica of a reference table', 'ref', 1 ], [ 'a replica of a shard', $placement, 1 ], [ 'a shard with a foreign key', $refers, 1 ])
	{
		next unless ShardCluster::in_half($nplaces++);
		my ($where, $table, $node) = @$place;
		my $sql = sub { return $node ? $c->node_safe_psql($node, $_[0]) : $c->safe_psql($_[0]) };
		my $create = sprintf $expressions{$what}, $table;
		$create =~ s/, v FROM/, r FROM/ if $table eq $refers;
		# names and places of the same index differ on the coordinator and on nodes
		$sql->("SET shardfdw.enable_ddl_propagation = off; SET ROLE mallory; $create");
		# it compares rows
		is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE detail ~ 'not (compared|checked)'}), '0', "$what of $where: rows are compared");
		$c->safe_psql(q{SELECT * FROM shardfdw.check_cluster(); SELECT * FROM shardfdw.compare_replicas('shards')}) if !$node || $table eq $placement;
		nobody_ran("$what of $where");
		$sql->("SET shardfdw.enable_ddl_propagation = off; $drop spied");
	}
}

# Work on rows is refused for statistics as for indexes.
$c->safe_psql('SET ROLE mallory; CREATE TABLE counted (k int PRIMARY KEY, v int); CREATE STATISTICS counts ON (spy(1) + k), v FROM counted');
$c->psql_fails_like("SELECT shardfdw.$function{$_}('counted');", qr/42501: cannot $_ table "counted" because function .*spy.*SET ROLE mallory/s, "$function{$_} with statistics") for 'shard', 'replicate';
$c->safe_psql(q{SET ROLE mallory; DROP STATISTICS counts; SELECT shardfdw.shard_table('counted', shards => 1, nodes => ARRAY['node1'])});
$c->node_safe_psql(1, 'SET ROLE mallory; CREATE STATISTICS counts ON (spy(1) + k), v FROM counted_00');
$c->psql_fails_like("SELECT shardfdw.move_shard('counted_00', 'node2', mode => 'block');", qr/42501: .*because function .*spy.*on node "node1"/s, 'move_shard with statistics');
nobody_ran('statistics');

# An owner whose tables cannot be read in that way
$c->psql_fails_like(q{BEGIN; UPDATE ref SET v = 'b'; SELECT * FROM shardfdw.compare_replicas('shards');}, qr/25001: cannot read table "shards" of role "mallory" in a transaction that has written to nodes/, 'in a transaction that has written');
$c->safe_psql('DROP USER MAPPING FOR mallory SERVER node1');
like($c->safe_psql(q{SELECT string_agg(status || ': ' || detail, E'\n') FROM shardfdw.check_cluster('rows') WHERE detail ~ 'not compared'}), qr/warning: .*not compared: user mapping not found/, 'an owner without a user mapping: rows are not compared');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node1 OPTIONS (user 'mallory', password_required 'false')");

# ---- replicas that a superuser makes -------------------------------------------------------------

$c->safe_psql(q{SET ROLE mallory; ALTER TABLE shards ADD CHECK (spy(v) > 0)});
my ($shard, $from, $to) = split /\|/, $c->safe_psql(q{SELECT p.shard, p.node, (SELECT n.node FROM shardfdw.nodes n WHERE n.node NOT IN (SELECT x.node FROM shardfdw_internal.shard_placements('shards') x WHERE x.shard = p.shard))
	FROM shardfdw_internal.shard_placements('shards') p WHERE p.role = 'replica' LIMIT 1});
$c->psql_fails_like("SELECT shardfdw.move_replica('$shard', '$from', '$to');", qr/42501: cannot copy table "shards" because function public\.spy.*SET ROLE mallory/s, 'move_replica by a superuser');
$c->safe_psql("SELECT shardfdw.disable_node('$from')");
$c->psql_fails_like("SELECT shardfdw.enable_node('$from');", qr/42501: cannot copy table "shards" because function public\.spy/, 'enable_node by a superuser');
nobody_ran('replicas');
$c->safe_psql("GRANT EXECUTE ON FUNCTION shardfdw.enable_node TO mallory; SET ROLE mallory; SELECT shardfdw.enable_node('$from')");
is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_replicas('shards')}), 't', 'enable_node by the owner');

# ---- names ---------------------------------------------------------------------------------------

$c->safe_psql(q{CREATE TABLE named (id int PRIMARY KEY, t text, x int); SELECT shardfdw.shard_table('named', 'id', shards => 2, replication_factor => 2); INSERT INTO named SELECT g, 'same', 1 FROM generate_series(1, 9) g});
my ($named, $node) = split /\|/, $c->safe_psql(q{SELECT shard, substr(node, 5) FROM shardfdw_internal.shard_placements('named') WHERE role = 'replica' LIMIT 1});
$c->node_safe_psql($node, "SET shardfdw_replica.applied = on; UPDATE $named SET x = 2");
is($c->safe_psql(qq{SELECT is_equal FROM shardfdw.compare_replicas('named') WHERE shard = '$named'::regclass AND role = 'replica'}), 'f', 'a column with the name t hides no difference');
like(problems($named), qr/other rows than its primary/, 'nor in check_cluster()');
$c->node_safe_psql($node, "SET shardfdw_replica.applied = on; UPDATE $named SET x = 1");

# A trigger of a user is one, whatever its name.
$c->node_safe_psql($node, qq{CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.x := NEW.x + 1; RETURN NEW; END'; CREATE TRIGGER shardfdw_copy_mine BEFORE UPDATE ON $named FOR EACH ROW EXECUTE FUNCTION other()});
$c->psql_fails_like('UPDATE named SET x = 5;', qr/55000: shard .*$named has replicas, and triggers, rules or row security on its node/, 'a trigger with a name as ours have');
$c->node_safe_psql($node, "DROP TRIGGER shardfdw_copy_mine ON $named");
$c->safe_psql('UPDATE named SET x = 5');
is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_replicas('named')}), 't', 'without it the replicas are changed');

# A trigger that shard_table() would lose is refused, whatever its name.
$c->safe_psql(q{CREATE TABLE noted (id int PRIMARY KEY); CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER shardfdw_note_mine AFTER INSERT ON noted REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION noted()});
$c->psql_fails_like("SELECT shardfdw.shard_table('noted', 'id');", qr/0A000: cannot shard table "noted" because of trigger "shardfdw_note_mine"/, 'a trigger with a transition table');

# Triggers of a shard are moved with it.
$c->safe_psql(q{CREATE TABLE moves (id int PRIMARY KEY); SELECT shardfdw.shard_table('moves', 'id', shards => 1, nodes => ARRAY['node1'])});
$c->node_safe_psql(1, q{CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER shardfdw_moved BEFORE INSERT ON moves_00 FOR EACH ROW EXECUTE FUNCTION moved()});
$c->node_safe_psql(2, q{CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'});
my ($rc, $out, $err) = $c->psql("SELECT shardfdw.move_shard('moves_00', 'node2', mode => 'block')");
my $there = $c->safe_psql(q{SELECT substr(node, 5) FROM shardfdw.shards WHERE shard = 'moves_00'::regclass});
is($c->node_safe_psql($there, q{SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved' AND tgfoid = 'public.moved()'::regprocedure AND tgrelid = 'moves_00'::regclass}), '1', 'a trigger of a user with the name of the one that a move makes is where the shard is')
  or diag $err;

# ---- names of others on nodes --------------------------------------------------------------------

# The owner has a foreign table stand for a table of another role on a node. No function drops that table for a superuser.
$c->safe_psql(q{SET ROLE mallory; DROP TABLE shards; CREATE TABLE redirected (k int PRIMARY KEY, v text); SELECT shardfdw.shard_table('redirected', 'k', shards => 1, replication_factor => 2, nodes => '{node1,node2}'); INSERT INTO redirected VALUES (1, 'own')});
$c->node_safe_psql($_, q{CREATE TABLE precious AS SELECT 1 AS k, 'precious' AS v}) for 2, 3;
my $precious = sub { return join ' ', map { $c->node_safe_psql($_, 'SELECT string_agg(v, $$$$) FROM precious') } 2, 3 };
my ($home, $second) = split /\|/, $c->safe_psql(q{SELECT max(node) FILTER (WHERE role = 'primary'), max(node) FILTER (WHERE role = 'replica') FROM shardfdw_internal.shard_placements('redirected')});
is($second, 'node2', 'the replica is where the other table is');
$c->safe_psql(q{SELECT shardfdw.disable_node('node2')});
my $rename = q{DO $$DECLARE old name := 'shardfdw_notes_' || md5('%1$s'); new name := 'shardfdw_notes_' || md5('%2$s'); BEGIN
	EXECUTE 'ALTER TABLE %1$s RENAME TO %2$s'; EXECUTE format('ALTER TABLE %%I RENAME TO %%I', old, new); EXECUTE format('ALTER FUNCTION %%I() RENAME TO %%I', old, new); END$$};
$c->safe_psql('SET ROLE mallory; SET shardfdw.enable_ddl_propagation = off; ALTER FOREIGN TABLE redirected_00 RENAME TO precious');
$c->node_safe_psql(1, 'SET ROLE mallory; ' . sprintf $rename, 'redirected_00', 'precious');
{
	my ($rc, $out, $err) = $c->psql(q{SELECT shardfdw.enable_node('node2')});

	is($out, 2, 'enable_node() for a name that the owner has chosen: other tables get their replicas');
	like($err, qr/replicas of table public\.redirected stay stale: table public\.precious on node "node2" belongs to role "postgres", and not to role "mallory"/, 'and that one does not');
}
# a table that no role has chosen, and that is no replica
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; ALTER FOREIGN TABLE precious RENAME TO precious_1; ALTER FOREIGN TABLE precious_1 RENAME TO precious');
$c->psql_fails_like(q{SELECT shardfdw.enable_node('node2');}, qr/42501: table public\.precious is not dropped because it is not a replica of a shard/, 'enable_node() for a table that is no replica');
is($precious->(), 'precious precious', 'the tables of the other role are there');
# a trigger of the owner does not make it one
$c->node_safe_psql(2, q{GRANT TRIGGER ON precious TO mallory; SET ROLE mallory; DO $$DECLARE n name := 'shardfdw_notes_' || md5('precious'); BEGIN
	EXECUTE format('CREATE TABLE %1$I (k int); CREATE FUNCTION %1$I() RETURNS trigger LANGUAGE plpgsql AS %2$L; CREATE TRIGGER shardfdw_replica_insert AFTER INSERT ON precious FOR EACH STATEMENT EXECUTE FUNCTION %1$I()', n, 'BEGIN RETURN NULL; END'); END$$});
$c->psql_fails_like(q{SELECT shardfdw.enable_node('node2');}, qr/42501: table public\.precious is not dropped because it is not a replica of a shard/, 'nor with a trigger of the owner');
# leftovers of a dropped table
$c->safe_psql('DROP TABLE redirected');
is($c->safe_psql(q{SELECT count(*) FROM shardfdw_internal.left_shard WHERE shard_name = 'precious'}), '1', 'a stale replica is left');
$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
is($precious->(), 'precious precious', 'it is not dropped by its name');
$c->node_safe_psql(2, q{DO $$DECLARE n name := 'shardfdw_notes_' || md5('precious'); BEGIN EXECUTE format('DROP TABLE precious, %1$I; DROP FUNCTION %1$I()', n); END$$});

# ---- unsharding ----------------------------------------------------------------------------------

# By a superuser: rows are read by queries on nodes.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE back (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('back', 'k', shards => 2, nodes => '{node1,node2}'); INSERT INTO back SELECT g, g FROM generate_series(1, 20) g});
for my $what (sort keys %expressions)
{
	$c->node_safe_psql(2, 'SET ROLE mallory; ' . sprintf($expressions{$what}, 'back_01') =~ s/public\.//gr);
	$c->psql_fails_like(q{SELECT shardfdw.unshard_table('back');}, qr/42501: cannot unshard table "back" because function public\.spy\(integer\) of role "mallory" would run with the rights of "postgres" on node "node2"/, "unshard_table: $what on a node");
	$c->node_safe_psql(2, ($what eq 'statistics' ? 'DROP STATISTICS' : 'DROP INDEX') . ' spied');
}
$c->node_safe_psql(2, 'SET ROLE mallory; ALTER TABLE back_01 RENAME TO kept; CREATE VIEW back_01 AS SELECT spy(k) AS k, v FROM kept');
$c->psql_fails_like(q{SELECT shardfdw.unshard_table('back');}, qr/42809: relation public\.back_01 on node "node2" is no table/, 'unshard_table: a view in place of a shard');
$c->node_safe_psql(2, 'SET ROLE mallory; DROP VIEW back_01; ALTER TABLE kept RENAME TO back_01');
nobody_ran('unshard_table');
$c->safe_psql(q{SELECT shardfdw.unshard_table('back')});
is($c->safe_psql('SELECT count(*) FROM back'), '20', 'without that, the table is plain');

# A default shard is read when another shard is added.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE listed (k int) PARTITION BY LIST (k); SELECT shardfdw.create_shard('listed', 'listed_rest', 'DEFAULT', 'node1'); INSERT INTO listed SELECT generate_series(1, 9)});
$c->node_safe_psql(1, 'SET ROLE mallory; CREATE INDEX spied ON listed_rest (spy(1), k)');
$c->psql_fails_like(q{SELECT shardfdw.create_shard('listed', 'listed_10', 'IN (10)', 'node1');}, qr/42501: cannot shard table "listed" because function public\.spy/, 'create_shard: an index of the default shard on its node');
nobody_ran('create_shard');

# Online, a function of the caller's role notes changes on nodes, so the shards have to belong to that role.
$c->safe_psql(q{CREATE TABLE online (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('online', 'k', shards => 1, nodes => '{node1}'); INSERT INTO online VALUES (1, 1)});
$c->node_safe_psql(1, 'ALTER TABLE online_00 OWNER TO mallory');
$c->psql_fails_like(q{SELECT shardfdw.unshard_table('online', mode => 'online');}, qr/42501: table public\.online_00 on node "node1" belongs to role "mallory", and not to role "postgres"/, 'unshard_table online: a shard of another role');
$c->node_safe_psql(1, 'ALTER TABLE online_00 OWNER TO postgres');
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 5 unless $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_convert_noted';
	open my $fh, '>', $file or die;
	close $fh;
	$c->set_faults('convert_noted=wait');
	$c->node_safe_psql(1, 'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO mallory');
	my $job = $c->safe_psql(q{SELECT shardfdw.unshard_table('online', mode => 'online', wait => false)});
	$c->wait_for(q{SELECT count(*) = 4 FROM pg_trigger WHERE tgrelid = 'online_00'::regclass AND NOT tgisinternal}, 1);
	is($c->node_safe_psql(1, q{SELECT count(*), bool_or(has_table_privilege('mallory', oid, 'TRIGGER')) FROM pg_class
		WHERE relname LIKE 'shardfdw\_changed\_%' AND relkind = 'r'}), '1|f', 'default privileges do not hold for notes of a job');
	$c->node_safe_psql(1, q{ALTER TABLE online_00 OWNER TO mallory; SET ROLE mallory; CREATE TYPE number AS ENUM ('1', '2');
		CREATE FUNCTION number_int(n number) RETURNS int LANGUAGE sql AS 'SELECT public.spy(n::text::int)'; CREATE CAST (number AS int) WITH FUNCTION number_int(number) AS ASSIGNMENT;
		ALTER TABLE online_00 ALTER k TYPE number USING k::text::number});
	my (undef, undef, $err) = $c->node_psql(1, q{SET ROLE mallory; INSERT INTO online_00 VALUES ('2', 2)});
	like($err, qr/table public\.online_00 and the function that notes its changes belong to different roles/, 'a function of another role notes nothing');
	nobody_ran('a function that notes changes for a job');
	$c->node_safe_psql(1, 'ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM mallory');
	unlink $file;
	$c->set_faults('');
	my ($rc) = $c->psql("SELECT shardfdw.wait_job($job)");
	isnt($rc, 0, 'the job ends with an error');
}

# ---- roles of notes ------------------------------------------------------------------------------

# The objects that record changes of a shard belong to the owner of the shard. A function of another
# role does not get another owner for that.
$c->safe_psql(q{CREATE TABLE given (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('given', 'id', shards => 1, replication_factor => 2, nodes => '{node1,node2}'); INSERT INTO given VALUES (1, 1)});
my $owners = q{SELECT string_agg(DISTINCT o::regrole::text, ' ') FROM (SELECT relowner FROM pg_class WHERE relname IN ('given_00', 'shardfdw_notes_' || md5('given_00')) UNION ALL SELECT proowner FROM pg_proc WHERE proname = 'shardfdw_notes_' || md5('given_00')) x(o)};
$c->node_safe_psql($_, 'ALTER TABLE given_00 OWNER TO mallory') for 1, 2;
$c->psql_fails_like('UPDATE given SET v = 5;', qr/42501: shard public\.given_00 and the function that notes its changes belong to different roles/, 'a function of another role notes nothing');
$c->safe_psql(q{SELECT shardfdw_internal.own_notes('given'); UPDATE given SET v = 5});
is($c->node_safe_psql($_, $owners) . $c->node_safe_psql($_, 'SELECT v FROM given_00'), 'mallory5', "node$_: what notes changes is made anew for the owner") for 1, 2;
$c->safe_psql(q{CREATE ROLE nina; CREATE TABLE hers (id int PRIMARY KEY); ALTER TABLE hers OWNER TO nina; SELECT shardfdw.shard_table('hers', 'id', shards => 1, replication_factor => 2, nodes => '{node1,node2}'); SELECT shardfdw.add_user('nina', password => 'x')});
is($c->node_safe_psql($_, $owners =~ s/given_00/hers_00/gr), 'nina', "node$_: add_user() gives shard, notes and function to one role") for 1, 2;
$c->node_safe_psql(1, q{DO $$DECLARE n name := 'shardfdw_notes_' || md5('given_00'); BEGIN EXECUTE format('DROP FUNCTION %1$I() CASCADE; SET ROLE mallory; CREATE FUNCTION %1$I() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS %2$L; RESET ROLE; ALTER TABLE given_00 OWNER TO postgres', n, 'BEGIN PERFORM public.spy(1); RETURN NULL; END'); END$$});
$c->psql_fails_like(q{SELECT shardfdw_internal.own_notes('given');}, qr/42501: function public\.shardfdw_notes_\w+\(\) belongs to another role than table public\.given_00 and does not note its changes/, 'a function of that name is not given away');
nobody_ran('functions of the name that notes have');
my (undef, undef, $warned) = $c->psql(q{SELECT shardfdw.add_user('nina')});
like($warned, qr/WARNING:  what notes changes of table public\.given is not given to the owners of its shards: function public\.shardfdw_notes_\w+\(\) belongs to another role/, 'add_user() warns of that function');
unlike($warned, qr/ERROR/, 'and succeeds');

# Neither default privileges nor grants let another role put a trigger on notes.
$c->node_safe_psql(1, 'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO mallory');
$c->safe_psql(q{CREATE TABLE open (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('open', 'id', shards => 1, replication_factor => 2, nodes => '{node1,node2}')});
$c->node_safe_psql(1, 'ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM mallory');
my $notes = $c->node_safe_psql(1, q{SELECT format('%I', 'shardfdw_notes_' || md5('open_00'))});
is($c->node_safe_psql(1, qq{SELECT has_table_privilege('mallory', '$notes', 'TRIGGER'),
	has_table_privilege('mallory', '$notes', 'INSERT'), has_table_privilege('mallory', '$notes', 'SELECT')}),
	'f|f|t', 'default privileges do not hold for notes');
my $refused = qr/42501: another role has privileges or a trigger on the table that notes changes of shard public\.open_00/;
$c->node_safe_psql(1, "SET ROLE mallory;
	CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.spy(1); RETURN NEW; END';
	CREATE FUNCTION seen() RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN public.spy(1) > 0; END'");
# The condition of a trigger is code, too. Every role may use a built-in trigger function.
for my $code ('EXECUTE FUNCTION trap()', 'WHEN (seen()) EXECUTE FUNCTION suppress_redundant_updates_trigger()')
{
	$c->node_safe_psql(1, "GRANT TRIGGER ON $notes TO mallory; SET ROLE mallory;
		CREATE TRIGGER trap BEFORE INSERT ON $notes FOR EACH ROW $code");
	$c->psql_fails_like('INSERT INTO open VALUES (1);', $refused, "a privilege on notes: $code");
	$c->node_safe_psql(1, "REVOKE ALL ON $notes FROM mallory");
	$c->psql_fails_like('INSERT INTO open VALUES (1);', $refused, "a trigger of another role: $code");
	$c->node_safe_psql(1, "DROP TRIGGER trap ON $notes");
}
# The transaction that makes the trigger is still open when the privilege is revoked.
$c->node_safe_psql(1, "GRANT TRIGGER ON $notes TO mallory");
my $maker = $c->node(1)->background_psql('postgres');
$maker->query_safe("SET ROLE mallory; BEGIN; CREATE TRIGGER trap BEFORE INSERT ON $notes FOR EACH ROW EXECUTE FUNCTION trap()");
$c->node_safe_psql(1, "REVOKE ALL ON $notes FROM mallory");
my $writer = $c->start_sql('INSERT INTO open VALUES (1)');
$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, 1);
$maker->query_safe('COMMIT');
$maker->quit;
like(($c->wait_sql($writer))[2], qr/another role has privileges or a trigger/, 'a trigger that appears while the function waits');
$c->node_safe_psql(1, "DROP TRIGGER trap ON $notes");
is($c->safe_psql('INSERT INTO open VALUES (1); SELECT count(*) FROM open'), '1', 'without them, changes are noted');

# A snapshot does not show who owns the schema now.
for my $change ('ALTER SCHEMA later OWNER TO mallory', 'ALTER TABLE later.early_00 OWNER TO mallory')
{
	$c->safe_psql(q{CREATE SCHEMA later; CREATE TABLE later.early (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('later.early', 'id', shards => 1, replication_factor => 2, nodes => '{node1,node2}')});
	$c->node_safe_psql(1, 'GRANT USAGE ON SCHEMA later TO mallory; GRANT INSERT ON later.early_00 TO mallory');
	my $session = $c->node(1)->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('\set VERBOSITY verbose
		SET ROLE mallory; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$c->node_safe_psql(1, $change);
	$session->query('INSERT INTO later.early_00 VALUES (1)');
	like($session->{stderr}, qr/40001: shard later\.early_00 or its schema has been changed since the snapshot of this transaction/, "an older snapshot: $change");
	$session->{stderr} = '';
	$session->query('ROLLBACK; INSERT INTO later.early_00 VALUES (1)');
	like($session->{stderr}, qr/42501: (?:the schema of shard later\.early_00 belongs to another role than the table|shard later\.early_00 and the function)/, "a new snapshot: $change");
	$session->{stderr} = '';
	$session->quit;
	$c->node_safe_psql(1, 'ALTER SCHEMA later OWNER TO postgres; ALTER TABLE later.early_00 OWNER TO postgres');
	$c->safe_psql('DROP SCHEMA later CASCADE');
}

# The former owner of the schema replaces the notes while the function waits for them. The old notes
# are gone, so a snapshot does not show the new ones either.
for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	$c->safe_psql(q{CREATE SCHEMA former; CREATE TABLE former.early (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('former.early', 'id', shards => 1, replication_factor => 2,
			nodes => '{node1,node2}')});
	my $early = 'former.' . $c->node_safe_psql(1, q{SELECT 'shardfdw_notes_' || md5('early_00')});
	$c->node_safe_psql(1, 'ALTER SCHEMA former OWNER TO mallory');
	my $owner = $c->node(1)->background_psql('postgres');
	$owner->query_safe("SET ROLE mallory; BEGIN; DROP TABLE $early; CREATE TABLE $early (o1 int[], n1 int[],
		xact xid8 DEFAULT pg_current_xact_id(), CHECK (public.spy(1) > 0))");
	$c->node_safe_psql(1, 'ALTER SCHEMA former OWNER TO postgres');
	my $late = $c->start_sql("BEGIN ISOLATION LEVEL $level; INSERT INTO former.early VALUES (1); COMMIT");
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, 1);
	$owner->query_safe('COMMIT');
	$owner->quit;
	like(($c->wait_sql($late))[2], qr/the schema of shard former\.early_00 belongs to another role than the table/,
		"notes that appear while the function waits: $level");
	nobody_ran("a CHECK constraint of notes, $level");
	$c->node_safe_psql($_, 'DROP SCHEMA former CASCADE') for 1, 2;
	$c->safe_psql('DROP SCHEMA former CASCADE');
}
nobody_ran('writes to notes');

# Names are quoted at each level.
$c->safe_psql(q{CREATE SCHEMA "it's 100%"; CREATE TABLE "it's 100%"."a'%s" (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('"it''s 100%"."a''%s"', 'id', shards => 1, replication_factor => 2, nodes => '{node1,node2}'); INSERT INTO "it's 100%"."a'%s" VALUES (1, 1)});
$c->node_safe_psql($_, q{GRANT USAGE ON SCHEMA "it's 100%" TO mallory; ALTER TABLE "it's 100%"."a'%s_00" OWNER TO mallory}) for 1, 2;
$c->safe_psql(q{SELECT shardfdw_internal.own_notes('"it''s 100%"."a''%s"'); UPDATE "it's 100%"."a'%s" SET v = 2});
is($c->node_safe_psql($_, $owners =~ s/given_00/a''%s_00/gr), 'mallory', "node$_: schemas and tables with quotes and per cent signs") for 1, 2;

done_testing();
