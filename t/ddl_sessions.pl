# Changes definitions while other sessions work. Their cached plans and prepared statements must
# follow the change. The test also checks which sessions they wait for.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);

# How many sessions wait for a lock with a statement like this.
sub wait_for_waiters
{
	my ($like, $n) = @_;
	ok($c->coordinator->poll_query_until('postgres',
			"SELECT count(*) = $n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '$like'"), "$n wait with $like");
}

# Two schemas swap their names. A session that has planned a statement reads the tables of its old
# plan, or plans again
$c->safe_psql(q{
	SET client_min_messages = warning;
	CREATE SCHEMA live; CREATE SCHEMA stage;
	CREATE TABLE live.t (k int PRIMARY KEY, v text); CREATE TABLE stage.t (k int PRIMARY KEY, v text);
	CREATE TABLE live.r (k int PRIMARY KEY, v text); CREATE TABLE stage.r (k int PRIMARY KEY, v text);
	SELECT shardfdw.shard_table(s || '.t', shards => 4), shardfdw.create_reference_table((s || '.r')::regclass) FROM unnest('{live,stage}'::text[]) s;
	INSERT INTO live.t SELECT i, 'live' FROM generate_series(1, 9) i; INSERT INTO stage.t SELECT i, 'stage' FROM generate_series(1, 9) i;
	INSERT INTO live.r SELECT i, 'live' FROM generate_series(1, 9) i; INSERT INTO stage.r SELECT i, 'stage' FROM generate_series(1, 9) i});
my $swap = 'BEGIN; ALTER SCHEMA live RENAME TO tmp; ALTER SCHEMA stage RENAME TO live; ALTER SCHEMA tmp RENAME TO stage; COMMIT';
my @prepared = ('SELECT DISTINCT v FROM live.t', 'SELECT v FROM live.t WHERE k = 3', 'SELECT DISTINCT t.v || r.v FROM live.t JOIN live.r USING (k)', "UPDATE live.t SET v = v WHERE k = 3 RETURNING v",
	'SELECT DISTINCT r.v FROM live.t LEFT JOIN live.r USING (k) WHERE random() >= 0');
my ($rc, $out, $err);
my $reader = $c->coordinator->background_psql('postgres');
my $second = $c->coordinator->background_psql('postgres');
$second->query("PREPARE p$_ AS $prepared[$_]") for 0 .. $#prepared;
for my $mode ('auto', 'force_generic_plan')
{
	$second->query("SET plan_cache_mode = $mode");
	for my $is ('live', 'stage')
	{
		my $new = $is eq 'live' ? 'stage' : 'live';
		for my $i (0 .. $#prepared)
		{
			like($second->query("EXECUTE p$i"), qr/^($is)+$/, "before: $prepared[$i]") for 1 .. 6;
		}
		$reader->query('BEGIN');
		is($reader->query('SELECT DISTINCT v FROM live.t'), $is, 'a transaction has read');
		my $changer = $c->start_sql($swap);
		wait_for_waiters('%ALTER SCHEMA live%', 1);
		is($reader->query('SELECT DISTINCT v FROM stage.t'), $new, 'it can go on');
		$second->query_until(qr/started/, "\\echo started\nEXECUTE p0;\n\\echo ended\n");
		wait_for_waiters('EXECUTE p0%', 1);
		is($reader->query('SELECT DISTINCT v FROM live.t'), $is, 'reads the same');
		$reader->query('COMMIT');
		is(($c->wait_sql($changer))[0], 0, 'then they are swapped');
		like($second->query_until(qr/ended/, ''), qr/^$new$/m, 'who has waited reads the new one');
		like($second->query("EXECUTE p$_"), qr/^($new)+$/, "after: $prepared[$_]") for 0 .. $#prepared;
		is($reader->query('SELECT DISTINCT t.v || r.v FROM live.t JOIN live.r USING (k)'), "$new$new", 'so does everybody');
	}
}
$reader->quit;
$second->quit;
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE status = 'error'}), 0, 'both sides are equal');

# Types that are dropped, while other types get their names. Sessions have prepared statements on
# nodes with parameters of these types. These statements keep the OIDs of the types.
my $writer = $c->coordinator->background_psql('postgres');
for my $round ([ 'sad', 1, '1.2' ], [ 'glad', 3, '1.235' ], [ 'merry', 2, '1.23' ])
{
	my ($mood, $digits, $stored) = @$round;
	my $drop = 'DROP DOMAIN IF EXISTS amount; DROP TYPE IF EXISTS mood';

	$c->safe_psql("DROP TABLE IF EXISTS moods, ref_moods; $drop");
	$c->node_safe_psql($_, $drop) for 1, 2;
	$c->safe_psql(qq{
		CREATE OR REPLACE FUNCTION here(anyelement) RETURNS anyelement LANGUAGE plpgsql
			AS 'BEGIN RETURN \$1; END';
		CREATE TYPE mood AS ENUM ('$mood', 'none');
		CREATE DOMAIN amount AS numeric(6,$digits);
		CREATE TABLE moods (k int, m mood, v amount, PRIMARY KEY (k, m));
		CREATE TABLE ref_moods (k int, m mood, v amount, PRIMARY KEY (k, m));
		SELECT shardfdw.shard_table('moods', 'k', shards => 2);
		SELECT shardfdw.create_reference_table('ref_moods')});
	for my $k (1 .. 5)
	{
		for my $table ('moods', 'ref_moods')
		{
			my $row = "$k, '$mood'";

			$writer->query_safe($_) for "INSERT INTO $table VALUES ($row, 1.2345)",
				"UPDATE $table SET v = 1.2345, m = '$mood' WHERE k = $k AND m = '$mood'",
				"UPDATE $table SET v = here(1.2345), m = here(m) WHERE k = $k AND m = here(m)",
				"INSERT INTO $table SELECT $row, 1.2345 ON CONFLICT (k, m) DO UPDATE SET v = here(excluded.v)",
				"DELETE FROM $table WHERE k < 4 AND k = $k AND m = here(m)";
			is($writer->query("SELECT * FROM $table WHERE m = here('$mood'::mood) AND k = 4"),
				$k < 4 ? '' : "4|$mood|$stored", "row of $table with the type of now");
		}
		is($writer->query('SELECT count(*) FROM moods JOIN ref_moods USING (k, m, v)'), $k < 4 ? 0 : $k - 3,
			'the same on nodes');
	}
}
$writer->quit;
$c->safe_psql('DROP TABLE moods, ref_moods');

# Names that are given to other tables while a statement waits for a lock: the statement is run on
# the table that has the name then
sub differences { return $c->safe_psql(q{SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND check_name ~ '^shard '}); }

# A session that waits for a table while it is sharded or replicated changes both sides
for my $make (q{shardfdw.shard_table('w', 'k', shards => 2)}, q{shardfdw.create_reference_table('w')})
{
	for my $change ('ALTER TABLE w ALTER v SET NOT NULL', 'ALTER TABLE w ADD CHECK (v IS NOT NULL)', 'ALTER TABLE w ADD COLUMN z int NOT NULL DEFAULT 3', 'ALTER TABLE w RENAME COLUMN v TO u',
		'ALTER TABLE w ALTER v TYPE text', 'ALTER TABLE w DROP COLUMN v', 'CREATE UNIQUE INDEX w_kv ON w (k, v)')
	{
		$c->safe_psql('CREATE TABLE w (k int PRIMARY KEY, v int); INSERT INTO w SELECT i, i FROM generate_series(1, 9) i');
		my $maker = $c->coordinator->background_psql('postgres');
		$maker->query("BEGIN; SELECT $make");
		my $changer = $c->start_sql($change);
		wait_for_waiters("$change%", 1);
		$maker->query('COMMIT');
		$maker->quit;
		is(($c->wait_sql($changer))[0], 0, "$change beside $make");
		is(differences(), '', 'is made on the nodes, too');
		is($c->safe_psql('SELECT count(DISTINCT w.*) FROM w'), '9', 'its rows are there');
		$c->psql_fails_like('INSERT INTO w VALUES (0, NULL)', qr/23502|23514/, 'what it forbids is forbidden') if $change =~ /NULL$|IS NOT NULL/;
		$c->safe_psql('DROP TABLE w');
	}
}
my $swap_tables = 'ALTER TABLE p RENAME TO x; ALTER TABLE q RENAME TO p; ALTER TABLE x RENAME TO q';
my $swap_indexes = 'ALTER INDEX p_i RENAME TO x; ALTER INDEX q_i RENAME TO p_i; ALTER INDEX x RENAME TO q_i';
$c->safe_psql(q{
	CREATE TABLE p (k int PRIMARY KEY) PARTITION BY RANGE (k); CREATE TABLE q (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
	CREATE INDEX p_i ON p (k); CREATE INDEX q_i ON q (v);
	SELECT shardfdw.create_shard('p', 'p_1', 'FROM (0) TO (10)', 'node1'), shardfdw.create_shard('q', 'q_1', 'FROM (0) TO (10)', 'node1');
	CREATE FOREIGN TABLE alone_1 (k int NOT NULL, v int) SERVER node2});
$c->node_safe_psql(2, 'CREATE TABLE alone_1 (k int NOT NULL, v int); CREATE TABLE later_1 (k int PRIMARY KEY, v int); CREATE INDEX ON later_1 (v)');
for my $case (
	[ 'CREATE FOREIGN TABLE later_1 PARTITION OF p FOR VALUES FROM (20) TO (30) SERVER node2', $swap_tables, q{SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = 'later_1'::regclass}, 'q' ],
	[ 'ALTER TABLE p ATTACH PARTITION alone_1 FOR VALUES FROM (30) TO (40)', $swap_tables, q{SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = 'alone_1'::regclass}, 'q' ],
	[ 'COMMENT ON TABLE p IS $$it$$', $swap_tables, q{SELECT objoid::regclass FROM pg_description WHERE description = 'it'}, 'q' ],
	[ 'COMMENT ON INDEX p_i IS $$this$$', $swap_indexes, q{SELECT objoid::regclass FROM pg_description WHERE description = 'this'}, 'q_i' ],
	[ 'ALTER INDEX p_i RENAME TO new', $swap_indexes, q{SELECT indrelid::regclass FROM pg_index WHERE indexrelid = 'new'::regclass}, 'q' ],
	[ 'DROP INDEX CONCURRENTLY p_i', $swap_indexes, q{SELECT count(*) FROM pg_index WHERE indrelid = 'p'::regclass}, '1' ])
{
	my ($statement, $swap, $question, $answer) = @$case;
	my $renamer = $c->coordinator->background_psql('postgres');
	$renamer->query("BEGIN; $swap");
	my $other = $c->start_sql($statement);
	wait_for_waiters(substr($statement, 0, 20) . '%', 1);
	$renamer->query('COMMIT');
	$renamer->quit;
	($rc, $out, $err) = $c->wait_sql($other);
	is($err, '', "a lock was waited for: $statement");
	$c->safe_psql($swap) if $statement !~ /RENAME|DROP/;
	is($c->safe_psql($question), $answer, 'and is done with what has the name now');
	is(differences(), '', 'on both sides');
	$c->safe_psql('ALTER INDEX new RENAME TO p_i') if $statement =~ /RENAME/;
}

# CREATE INDEX CONCURRENTLY that is interrupted: it leaves nothing, or the next attempt can handle
# what it left
my $of_index = q{SELECT c.relname || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname ~ '^ci' ORDER BY 1};
sub left_over { return join ' ', map { $c->node_safe_psql($_, $of_index) } 1, 2; }

$c->safe_psql(q{CREATE TABLE t (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 4); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i});
my $create = 'CREATE INDEX CONCURRENTLY ci ON t (v)';
my $writer = $c->node(2)->background_psql('postgres');
for my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
	# it waits on the second node for a transaction, and the first node already has its indexes
	$writer->query('BEGIN; UPDATE t_01 SET v = v');
	my $creator = $c->start_sql($create);
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONCURRENTLY%'}, 2);
	$c->wait_for(q{SELECT count(*) = 2 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname ~ '^ci' AND i.indisvalid}, 1);
	$c->safe_psql("SELECT $how(pid) FROM pg_stat_activity WHERE query = '$create'");
	if ($how eq 'pg_cancel_backend')
	{
		# one index on the second node cannot be dropped immediately
		my ($rc, $out, $err) = $c->wait_sql($creator);
		like($err, qr/canceling statement due to user request/, 'a cancel');
		like($err, qr/WARNING:  could not drop what CREATE INDEX CONCURRENTLY has left .*lock timeout.*DETAIL:  There may still be: public.ci_01 on node "node2"\..*HINT:  The same command, run again/s, 'what cannot be dropped is named');
		is(left_over(), ' ci_01 invalid', 'the rest is gone');
		$writer->query('COMMIT');
	}
	else
	{
		$writer->query('COMMIT');
		isnt(($c->wait_sql($creator))[0], 0, 'the session ends');
		# its statements on the nodes end by themselves
		$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE INDEX CONCURRENTLY%'}, $_) for 1, 2;
		like(left_over(), qr/ci_00/, 'and leaves indexes');
	}
	my ($rc, $out, $err) = $c->psql($create);
	is($err, '', "the next attempt after $how");
	is(left_over(), "ci_00\nci_02 ci_01\nci_03", 'has all of them, valid');
	is(differences(), '', 'both sides are equal');
	is($c->psql('DROP INDEX CONCURRENTLY ci'), 0, 'dropped');
	is(left_over(), ' ', 'on the nodes, too');
}
$writer->quit;

# One that fails on a shard because of its values
$c->safe_psql('UPDATE t SET v = 1 WHERE k <= 60');
($rc, $out, $err) = $c->psql('CREATE UNIQUE INDEX CONCURRENTLY ci ON t (k, (1 / (v - 70)))');
like($err, qr/division by zero/, 'an index that cannot be made on one shard');
unlike($err, qr/WARNING/, 'is dropped everywhere');
is(left_over(), ' ', 'on all nodes');
# a node that is lost during the statement
$c->safe_psql('UPDATE t SET v = k');
$writer = $c->node(2)->background_psql('postgres');
$writer->query('BEGIN; UPDATE t_01 SET v = v');
my $creator = $c->start_sql($create);
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONCURRENTLY%'}, 2);
$c->kill9_node(2);
($rc, $out, $err) = $c->wait_sql($creator);
like($err, qr/There may still be: .*public.ci_01 on node "node2"/, 'a node is lost');
is($c->node_safe_psql(1, $of_index), '', 'nothing is left on the other');
eval { $writer->quit };
$c->start_node(2);
is($c->psql($create), 0, 'the next attempt');
is(differences(), '', 'both sides are equal');
# other objects with the name stay
$c->safe_psql('DROP INDEX ci');
$c->node_safe_psql(2, 'CREATE INDEX ci_01 ON t_01 (k, v)');
($rc, $out, $err) = $c->psql($create);
like($err, qr/relation "ci_01" already exists/, 'a name that is taken');
is(left_over(), ' ci_01', 'by an index that stays');
$c->node_safe_psql(2, 'DROP INDEX ci_01');
# a shard's index with that name and definition is used
$c->node_safe_psql(2, 'CREATE INDEX ci_01 ON t_01 (v)');
is($c->psql($create), 0, 'an equal one that is there');
is(left_over(), "ci_00\nci_02 ci_01\nci_03", 'is taken over');

# REINDEX CONCURRENTLY that fails leaves no copies of indexes
$c->safe_psql('DROP INDEX ci; CREATE INDEX ci ON t (v)');
$writer = $c->node(2)->background_psql('postgres');
$writer->query('BEGIN; UPDATE t_01 SET v = v');
$creator = $c->start_sql('REINDEX INDEX CONCURRENTLY ci');
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'REINDEX%'}, 2);
$c->safe_psql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'REINDEX%'});
($rc, $out, $err) = $c->wait_sql($creator);
like($err, qr/canceling statement due to user request/, 'REINDEX CONCURRENTLY is cancelled');
$writer->query('COMMIT');
$writer->quit;
is($c->psql('REINDEX INDEX CONCURRENTLY ci'), 0, 'and runs again');
is(left_over(), "ci_00\nci_02 ci_01\nci_03", 'nothing is left of the first');

# check_cluster() waits for a node while another session commits a DROP
$c->safe_psql(q{CREATE TABLE dropped (k int PRIMARY KEY, v int CHECK (v > 0)); SELECT shardfdw.shard_table('dropped', shards => 4)});
$writer = $c->node(1)->background_psql('postgres');
$writer->query('BEGIN; LOCK TABLE dropped_00 IN ACCESS EXCLUSIVE MODE');
my $checker = $c->start_sql('SELECT count(*) FROM shardfdw.check_cluster()');
$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'dropped_00'::regclass}, 1);
$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; DROP TABLE dropped');
$writer->query('COMMIT');
$writer->quit;
($rc, $out, $err) = $c->wait_sql($checker);
is("$rc$err", '0', 'check_cluster() ends without an error');

# Two sessions shard tables that need the same schema, type and function on nodes, which lack them
$c->safe_psql(q{CREATE SCHEMA fresh; CREATE TYPE fresh.mood AS ENUM ('good', 'bad'); CREATE FUNCTION fresh.fine(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
	CREATE TABLE fresh.a (k int PRIMARY KEY CHECK (fresh.fine(k)), m fresh.mood); CREATE TABLE fresh.b (LIKE fresh.a INCLUDING ALL); CREATE TABLE fresh.c (LIKE fresh.a INCLUDING ALL)});
$reader->query(q{BEGIN; SELECT shardfdw.shard_table('fresh.a', shards => 4)});
my @sharders = map { $c->start_sql("SELECT shardfdw.shard_table('fresh.$_', shards => 4)", name => "shard $_") } 'b', 'c';
wait_for_waiters('SELECT shardfdw.shard_table(%', 2);
$reader->query('COMMIT');
is(($c->wait_sql($_))[2], '', 'a session that had to wait makes nothing twice') for @sharders;
$c->safe_psql("INSERT INTO fresh.$_ VALUES (1, 'good'), (2, 'bad')") for 'a' .. 'c';
is($c->safe_psql('SELECT count(*) FROM fresh.a JOIN fresh.b USING (k, m) JOIN fresh.c USING (k, m)'), '2', 'all three tables are there');

# Two sessions grant rights on a schema at the same time, to roles that do not have these rights on
# nodes yet. Nodes keep the rights on a dropped schema.
for my $sql ('CREATE ROLE reader; CREATE ROLE other_reader') { $c->safe_psql($sql); $c->node_safe_psql($_, $sql) for 1, 2; }
my $nschemas = 0;
for my $other (q{SELECT shardfdw.shard_table('SCHEMA.b', shards => 4)}, q{SELECT shardfdw.create_reference_table('SCHEMA.b')}, 'GRANT USAGE ON SCHEMA SCHEMA TO other_reader')
{
	for my $first (q{SELECT shardfdw.shard_table('SCHEMA.a', shards => 4)}, 'GRANT USAGE ON SCHEMA SCHEMA TO other_reader')
	{
		next if $first eq $other;
		my $schema = 'granted_' . ++$nschemas;
		my ($open, $waits) = map { s/SCHEMA(?=\.)|SCHEMA(?= TO)/$schema/gr } $first, $other;
		$c->safe_psql(qq{CREATE SCHEMA $schema; CREATE TABLE $schema.z (k int PRIMARY KEY); SELECT shardfdw.shard_table('$schema.z', shards => 4);
			CREATE TABLE $schema.a (k int PRIMARY KEY); CREATE TABLE $schema.b (k int PRIMARY KEY)});
		$c->safe_psql("SET shardfdw.enable_ddl_propagation = off; GRANT USAGE ON SCHEMA $schema TO reader");
		my $granter = $c->coordinator->background_psql('postgres');
		$granter->query_safe("BEGIN; $open");
		my $waiter = $c->start_sql($waits, name => 'waiter');
		$c->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name = 'waiter')
			OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'waiter')});
		$granter->query_safe('COMMIT');
		$granter->quit;
		is(($c->wait_sql($waiter))[2], '', "$other while another session does: $first");
		is($c->node_safe_psql(1, qq{SELECT has_schema_privilege('reader', '$schema', 'USAGE')}), 't', 'the right is there');
	}
}

# ---------- another session moves a table to another schema ----------

{
	$c->safe_psql('CREATE SCHEMA elsewhere; CREATE TABLE wanders (id int PRIMARY KEY)');
	my $oid = $c->safe_psql(q{SELECT 'wanders'::regclass::oid});
	my $reader = $c->coordinator->background_psql('postgres', on_error_stop => 0);

	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
	$c->safe_psql('ALTER TABLE wanders SET SCHEMA elsewhere');
	$reader->query(
		"\\set VERBOSITY verbose\nSELECT * FROM shardfdw_internal.index_definitions(${oid}::regclass)");
	like($reader->{stderr}, qr/40001: could not serialize access due to concurrent update/,
		'a definition that the snapshot does not have is an error that can be tried again');
	$reader->quit;
}

done_testing();
