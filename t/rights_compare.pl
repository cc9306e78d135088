# A superuser compares, copies and verifies what belongs to others: check_cluster(), compare_copies(), verify_cluster(),
# move_copy(), enable_node(). None of it runs code of a table's owner, who may log in on the nodes; and what the owner's
# tables, columns and triggers are called does not hide a difference.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->node_safe_psql($_, 'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory') for 1 .. 3;
$c->add_node($_) for 1 .. 3;
$c->safe_psql('CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO mallory');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_ OPTIONS (user 'mallory', password_required 'false')") for 1 .. 3;

# spy() makes mallory a superuser where it has the rights for that.
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

sub problems { my ($relation) = @_; return $c->safe_psql("SELECT node, detail FROM shardfdw.check_cluster(true) WHERE status = 'error' AND detail ~ '$relation' ORDER BY 1, 2"); }

# ---- a view in place of a table ---------------------------------------------------------------------

$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ref (k int PRIMARY KEY, v text); INSERT INTO ref VALUES (1, 'a'); SELECT shardfdw.replicate_table('ref');
	CREATE TABLE shards (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('shards', 'k', shards => 3, copies => 2); INSERT INTO shards SELECT g, g FROM generate_series(1, 30) g;
	CREATE TABLE refers (k int PRIMARY KEY, r int REFERENCES ref); SELECT shardfdw.shard_table('refers', 'k', shards => 2); INSERT INTO refers VALUES (1, 1), (2, 1)});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.verify_cluster() WHERE status = 'error'}), '0', 'all is as it should be');

$c->node_safe_psql(1, q{SET ROLE mallory; ALTER TABLE ref RENAME TO kept; CREATE VIEW ref AS SELECT spy(k) AS k, v FROM kept});
$c->safe_psql('SELECT * FROM shardfdw.check_cluster(true); SELECT * FROM shardfdw.verify_cluster()');
nobody_ran('a view in place of a copy of a reference table');
isnt(problems('ref'), '', 'check_cluster() says that it is no table');
$c->node_safe_psql(1, 'SET ROLE mallory; DROP VIEW ref; ALTER TABLE kept RENAME TO ref');

# Between two looks of check_cluster() the owner may do that as well, so the query itself refuses.
for my $question (
	$c->safe_psql(q{SELECT shardfdw_internal.checksum_query('ref', 'public', 'spying', true)}),
	$c->safe_psql(q{SELECT 'SELECT count(*) FROM ' || shardfdw_internal.stored_rows('public.spying')}))
{
	my ($rc, $out, $err) = $c->node_psql(1, "BEGIN; SET LOCAL ROLE mallory; CREATE VIEW spying AS SELECT spy(1) AS k, 'a' AS v; RESET ROLE; $question");
	like($err, qr/TABLESAMPLE clause can only be applied to tables/, "refused: $question");
}

my $copy = $c->safe_psql(q{SELECT shard FROM shardfdw.shards WHERE shard::text ~ '^shards_' AND node = 'node1' LIMIT 1});
$c->node_safe_psql(1, "SET ROLE mallory; ALTER TABLE $copy RENAME TO kept; CREATE VIEW $copy AS SELECT spy(k) AS k, v FROM kept");
$c->psql("SELECT * FROM shardfdw.compare_copies('shards')");
nobody_ran('a view in place of a shard');
$c->node_safe_psql(1, "SET ROLE mallory; DROP VIEW $copy; ALTER TABLE kept RENAME TO $copy");

# ---- casts ------------------------------------------------------------------------------------------

for my $i (1 .. 3)
{
	for my $table (split /\n/, $c->node_safe_psql($i, q{SELECT relname FROM pg_class WHERE relname ~ '^(shards_\d+|ref)$' AND relkind = 'r'}))
	{
		$c->node_safe_psql($i, qq{SET ROLE mallory; CREATE FUNCTION text_of($table) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)::text'; CREATE CAST ($table AS text) WITH FUNCTION text_of($table) AS ASSIGNMENT});
	}
}
$c->safe_psql(q{SELECT * FROM shardfdw.check_cluster(true); SELECT * FROM shardfdw.compare_copies('shards')});
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
like($c->safe_psql(q{SELECT status || ': ' || detail FROM shardfdw.verify_cluster() WHERE node = 'node1' AND "check" = 'foreign keys' ORDER BY 1}),
	qr/warning: foreign key by_cast of public\.$refers is not checked/, 'a foreign key by a cast is not checked');
nobody_ran('a foreign key by a cast');
$c->node_safe_psql(1, "SET ROLE mallory; ALTER TABLE $refers DROP COLUMN t");

# ---- what the planner runs --------------------------------------------------------------------------

# The planner folds constants in expressions of a table's indexes and statistics, whatever the query. spy(1) is a constant.
my %expressions = (
	'an index expression' => 'CREATE INDEX spied ON %s (spy(1), k)',
	'a predicate of an index' => 'CREATE INDEX spied ON %s (k) WHERE spy(1) = 1',
	'statistics' => 'CREATE STATISTICS spied ON (spy(1) + k), v FROM %s');
my $placement = $c->safe_psql(q{SELECT shard FROM shardfdw_internal.shard_placements('shards') WHERE node = 'node1' AND role = 'copy' LIMIT 1});
for my $what (sort keys %expressions)
{
	my $drop = $what eq 'statistics' ? 'DROP STATISTICS' : 'DROP INDEX';
	for my $place ([ 'the coordinator', 'ref' ], [ 'a copy of a reference table', 'ref', 1 ], [ 'a copy of a shard', $placement, 1 ], [ 'a shard with a foreign key', $refers, 1 ])
	{
		my ($where, $table, $node) = @$place;
		my $sql = sub { return $node ? $c->node_safe_psql($node, $_[0]) : $c->safe_psql($_[0]) };
		my $create = sprintf $expressions{$what}, $table;
		$create =~ s/, v FROM/, r FROM/ if $table eq $refers;
		# names and places of the same index differ on the coordinator and on nodes
		$sql->("SET shardfdw.enable_ddl_propagation = off; SET ROLE mallory; $create");
		# verify_cluster() does what check_cluster(true) does
		is($c->safe_psql(q{SELECT count(*) FROM shardfdw.verify_cluster() WHERE detail ~ 'not (compared|checked)'}), '0', "$what of $where: rows are compared");
		$c->safe_psql(q{SELECT * FROM shardfdw.check_cluster(); SELECT * FROM shardfdw.compare_copies('shards')}) if !$node || $table eq $placement;
		nobody_ran("$what of $where");
		$sql->("SET shardfdw.enable_ddl_propagation = off; $drop spied");
	}
}

# Work on rows is refused for statistics as for indexes.
$c->safe_psql('SET ROLE mallory; CREATE TABLE counted (k int PRIMARY KEY, v int); CREATE STATISTICS counts ON (spy(1) + k), v FROM counted');
$c->psql_fails_like("SELECT shardfdw.${_}_table('counted');", qr/42501: cannot $_ table "counted" because function .*spy.*SET ROLE mallory/s, "${_}_table with statistics") for 'shard', 'replicate';
$c->safe_psql(q{SET ROLE mallory; DROP STATISTICS counts; SELECT shardfdw.shard_table('counted', shards => 1, nodes => ARRAY['node1'])});
$c->node_safe_psql(1, 'SET ROLE mallory; CREATE STATISTICS counts ON (spy(1) + k), v FROM counted_00');
$c->psql_fails_like("SELECT shardfdw.move_shard('counted_00', 'node2', mode => 'block');", qr/42501: .*because function .*spy.*on node "node1"/s, 'move_shard with statistics');
nobody_ran('statistics');

# An owner whose tables cannot be read in that way
$c->psql_fails_like(q{BEGIN; UPDATE ref SET v = 'b'; SELECT * FROM shardfdw.compare_copies('shards');}, qr/25001: cannot read table "shards" of role "mallory" in a transaction that has written to nodes/, 'in a transaction that has written');
$c->safe_psql('DROP USER MAPPING FOR mallory SERVER node1');
like($c->safe_psql(q{SELECT string_agg(status || ': ' || detail, E'\n') FROM shardfdw.check_cluster(true) WHERE detail ~ 'not compared'}), qr/warning: .*not compared: user mapping not found/, 'an owner without a user mapping: rows are not compared');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node1 OPTIONS (user 'mallory', password_required 'false')");

# ---- copies that a superuser makes ------------------------------------------------------------------

$c->safe_psql(q{SET ROLE mallory; ALTER TABLE shards ADD CHECK (spy(v) > 0)});
my ($shard, $from, $to) = split /\|/, $c->safe_psql(q{SELECT p.shard, p.node, (SELECT n.name FROM shardfdw.nodes n WHERE n.name NOT IN (SELECT x.node FROM shardfdw_internal.shard_placements('shards') x WHERE x.shard = p.shard))
	FROM shardfdw_internal.shard_placements('shards') p WHERE p.role = 'copy' LIMIT 1});
$c->psql_fails_like("SELECT shardfdw.move_copy('$shard', '$from', '$to');", qr/42501: cannot copy table "shards" because function public\.spy.*SET ROLE mallory/s, 'move_copy by a superuser');
$c->safe_psql("SELECT shardfdw.disable_node('$from')");
$c->psql_fails_like("SELECT shardfdw.enable_node('$from');", qr/42501: cannot copy table "shards" because function public\.spy/, 'enable_node by a superuser');
nobody_ran('copies');
$c->safe_psql("GRANT EXECUTE ON FUNCTION shardfdw.enable_node TO mallory; SET ROLE mallory; SELECT shardfdw.enable_node('$from')");
is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_copies('shards')}), 't', 'enable_node by the owner');

# ---- names ------------------------------------------------------------------------------------------

$c->safe_psql(q{CREATE TABLE named (id int PRIMARY KEY, t text, x int); SELECT shardfdw.shard_table('named', 'id', shards => 2, copies => 2); INSERT INTO named SELECT g, 'same', 1 FROM generate_series(1, 9) g});
my ($named, $node) = split /\|/, $c->safe_psql(q{SELECT shard, substr(node, 5) FROM shardfdw_internal.shard_placements('named') WHERE role = 'copy' LIMIT 1});
$c->node_safe_psql($node, "SET shardfdw_copies.applied = on; UPDATE $named SET x = 2");
is($c->safe_psql(qq{SELECT is_equal FROM shardfdw.compare_copies('named') WHERE shard = '$named'::regclass AND role = 'copy'}), 'f', 'a column with the name t hides no difference');
like(problems($named), qr/other rows than its primary/, 'nor in check_cluster()');
$c->node_safe_psql($node, "SET shardfdw_copies.applied = on; UPDATE $named SET x = 1");

# A trigger of a user is one, whatever its name.
$c->node_safe_psql($node, qq{CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.x := NEW.x + 1; RETURN NEW; END'; CREATE TRIGGER shardfdw_copy_mine BEFORE UPDATE ON $named FOR EACH ROW EXECUTE FUNCTION other()});
$c->psql_fails_like('UPDATE named SET x = 5;', qr/55000: shard .*$named has copies, and triggers, rules or row security of its own/, 'a trigger with a name as ours have');
$c->node_safe_psql($node, "DROP TRIGGER shardfdw_copy_mine ON $named");
$c->safe_psql('UPDATE named SET x = 5');
is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_copies('named')}), 't', 'without it the copies are changed');

# A trigger that shard_table() would lose is refused, whatever its name.
$c->safe_psql(q{CREATE TABLE noted (id int PRIMARY KEY); CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER shardfdw_note_mine AFTER INSERT ON noted REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION noted()});
$c->psql_fails_like("SELECT shardfdw.shard_table('noted', 'id');", qr/0A000: cannot shard table "noted" because of trigger "shardfdw_note_mine"/, 'a trigger with a transition table');

# Triggers of a shard are moved with it.
$c->safe_psql(q{CREATE TABLE moves (id int PRIMARY KEY); SELECT shardfdw.shard_table('moves', 'id', shards => 1, nodes => ARRAY['node1'])});
$c->node_safe_psql(1, q{CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER shardfdw_moved BEFORE INSERT ON moves_00 FOR EACH ROW EXECUTE FUNCTION moved()});
$c->node_safe_psql(2, q{CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'});
my ($rc, $out, $err) = $c->psql("SELECT shardfdw.move_shard('moves_00', 'node2', mode => 'block')");
my $there = $c->safe_psql(q{SELECT substr(node, 5) FROM shardfdw.shards WHERE shard = 'moves_00'});
is($c->node_safe_psql($there, q{SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved' AND tgfoid = 'public.moved()'::regprocedure AND tgrelid = 'moves_00'::regclass}), '1', 'a trigger of a user with the name of the one that a move makes is where the shard is')
  or diag $err;

# What notes changes of a shard belongs to the owner of the shard. A function of another role is not given away for it.
$c->safe_psql(q{CREATE TABLE given (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('given', 'id', shards => 1, copies => 2, nodes => '{node1,node2}'); INSERT INTO given VALUES (1, 1)});
my $owners = q{SELECT string_agg(DISTINCT o::regrole::text, ' ') FROM (SELECT relowner FROM pg_class WHERE relname IN ('given_00', 'shardfdw_notes_' || md5('given_00')) UNION ALL SELECT proowner FROM pg_proc WHERE proname = 'shardfdw_notes_' || md5('given_00')) x(o)};
$c->node_safe_psql($_, 'ALTER TABLE given_00 OWNER TO mallory') for 1, 2;
$c->psql_fails_like('UPDATE given SET v = 5;', qr/42501: shard public\.given_00 and the function that notes its changes belong to different roles/, 'a function of another role notes nothing');
$c->safe_psql(q{SELECT shardfdw_internal.own_notes('given'); UPDATE given SET v = 5});
is($c->node_safe_psql($_, $owners) . $c->node_safe_psql($_, 'SELECT v FROM given_00'), 'mallory5', "node$_: what notes changes is made anew for the owner") for 1, 2;
$c->safe_psql(q{CREATE ROLE nina; CREATE TABLE hers (id int PRIMARY KEY); ALTER TABLE hers OWNER TO nina; SELECT shardfdw.shard_table('hers', 'id', shards => 1, copies => 2, nodes => '{node1,node2}'); SELECT shardfdw.add_user('nina', password => 'x')});
is($c->node_safe_psql($_, $owners =~ s/given_00/hers_00/gr), 'nina', "node$_: add_user() gives shard, notes and function to one role") for 1, 2;
$c->node_safe_psql(1, q{DO $$DECLARE n name := 'shardfdw_notes_' || md5('given_00'); BEGIN EXECUTE format('DROP FUNCTION %1$I() CASCADE; SET ROLE mallory; CREATE FUNCTION %1$I() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS %2$L; RESET ROLE; ALTER TABLE given_00 OWNER TO postgres', n, 'BEGIN PERFORM public.spy(1); RETURN NULL; END'); END$$});
$c->psql_fails_like(q{SELECT shardfdw_internal.own_notes('given');}, qr/42501: function public\.shardfdw_notes_\w+\(\) belongs to another role than table public\.given_00 and does not note its changes/, 'a function of that name is not given away');
nobody_ran('functions of the name that notes have');
my (undef, undef, $warned) = $c->psql(q{SELECT shardfdw.add_user('nina')});
like($warned, qr/WARNING:  what notes changes of table public\.given is not given to the owners of its shards: function public\.shardfdw_notes_\w+\(\) belongs to another role/, 'add_user() warns of that function');
unlike($warned, qr/ERROR/, 'and succeeds');

# Names are quoted at each level.
$c->safe_psql(q{CREATE SCHEMA "it's 100%"; CREATE TABLE "it's 100%"."a'%s" (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('"it''s 100%"."a''%s"', 'id', shards => 1, copies => 2, nodes => '{node1,node2}'); INSERT INTO "it's 100%"."a'%s" VALUES (1, 1)});
$c->node_safe_psql($_, q{GRANT USAGE ON SCHEMA "it's 100%" TO mallory; ALTER TABLE "it's 100%"."a'%s_00" OWNER TO mallory}) for 1, 2;
$c->safe_psql(q{SELECT shardfdw_internal.own_notes('"it''s 100%"."a''%s"'); UPDATE "it's 100%"."a'%s" SET v = 2});
is($c->node_safe_psql($_, $owners =~ s/given_00/a''%s_00/gr), 'mallory', "node$_: schemas and tables with quotes and per cent signs") for 1, 2;

done_testing();
