# Runs ALTER SCHEMA ... RENAME while other sessions drop, make and detach objects that are on nodes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3);
my ($rc, $out, $err);

# Waits until the statement of a handle waits for a lock, or has ended.
sub wait_until_it_waits
{
	my ($sql) = @_;
	$c->wait_for(qq{SELECT count(*) = 0 OR bool_and(wait_event_type = 'Lock') FROM pg_stat_activity WHERE state = 'active' AND query LIKE '$sql%'});
}
sub differences { return $c->safe_psql(q{SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^(shard|reference table|schema|type) '}); }
my $other = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$c->safe_psql(q{CREATE SCHEMA rn; CREATE TABLE rn.t (k int PRIMARY KEY); SELECT shardfdw.shard_table('rn.t', shards => 2, nodes => '{node1}')});

# Tables that are dropped during the rename
for my $make (q{SELECT shardfdw.shard_table('rn.d', shards => 2)}, q{SELECT shardfdw.create_reference_table('rn.d')})
{
	$c->safe_psql("CREATE TABLE rn.d (k int PRIMARY KEY); $make");
	$other->query('BEGIN; DROP TABLE rn.d');
	my $renamer = $c->start_sql('ALTER SCHEMA rn RENAME TO rn2');
	wait_until_it_waits('ALTER SCHEMA rn RENAME');
	$other->query('COMMIT');
	($rc, $out, $err) = $c->wait_sql($renamer);
	is($err, '', "a table is dropped meanwhile: $make");
	is($c->safe_psql('SELECT count(*) FROM rn2.t'), '0', 'the rest is there');
	$c->safe_psql('ALTER SCHEMA rn2 RENAME TO rn');
	is(differences(), '', 'on both sides');
}

# A shard whose concurrent detaching has not been completed: core reports no parent for it
$c->safe_psql(q{CREATE TABLE rn.dt (k int PRIMARY KEY) PARTITION BY RANGE (k);
	SELECT shardfdw.create_shard('rn.dt', 'dt_1', 'FROM (0) TO (10)', 'node2'), shardfdw.create_shard('rn.dt', 'dt_2', 'FROM (10) TO (20)', 'node1')});
$other->query('BEGIN; SELECT count(*) FROM rn.dt');
my $detacher = $c->start_sql('ALTER TABLE rn.dt DETACH PARTITION rn.dt_1 CONCURRENTLY');
$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE rn.dt DETACH%'});
$c->safe_psql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE rn.dt DETACH%' AND pid <> pg_backend_pid()});
like(($c->wait_sql($detacher))[2], qr/canceling statement due to user request/, 'detaching is cancelled');
$other->query('COMMIT');
($rc, $out, $err) = $c->psql('INSERT INTO rn.dt_1 SELECT generate_series(1, 5); SELECT count(*) FROM rn.dt_1');
is("$err$out", '5', 'rows go into the shard');
$c->psql_fails_like('INSERT INTO rn.dt_1 SELECT generate_series(1, 5);', qr/23505: duplicate key value.*dt_1/s, 'an error of the shard');
($rc, $out, $err) = $c->psql('ALTER SCHEMA rn RENAME TO rn2; SELECT count(*) FROM rn2.dt_1; ALTER SCHEMA rn2 RENAME TO rn; SELECT count(*) FROM rn.dt_1');
is("$err$out", "5\n5", 'it goes with its schema');
$c->safe_psql('ALTER TABLE rn.dt DETACH PARTITION rn.dt_1 FINALIZE');
is($c->node_safe_psql(2, q{SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'rn.dt_1'::regclass AND contype = 'c'}), 'CHECK (((k IS NOT NULL) AND (k >= 0) AND (k < 10)))',
	'FINALIZE gives the shard the constraint that core has given to its foreign table');
$c->safe_psql('DROP FOREIGN TABLE rn.dt_1');
$c->node_safe_psql(2, 'DROP TABLE rn.dt_1');

# Objects that another transaction creates on nodes under the schema's name
$c->safe_psql(q{CREATE SCHEMA ot; CREATE TYPE rn.mood AS ENUM ('a', 'b'); CREATE TABLE rn.plain (k int PRIMARY KEY); CREATE TABLE ot.plain (k int PRIMARY KEY, m rn.mood);
	CREATE TABLE rn.empty (k int PRIMARY KEY) PARTITION BY RANGE (k); CREATE TABLE rn.empty2 (k int NOT NULL) PARTITION BY RANGE (k); CREATE TABLE ot.r (k int PRIMARY KEY);
	CREATE TABLE ot.p (k int NOT NULL) PARTITION BY RANGE (k); CREATE FOREIGN TABLE rn.alone (k int NOT NULL) SERVER node3;
	CREATE TABLE ot.grows (k int PRIMARY KEY); SELECT shardfdw.shard_table('ot.grows', shards => 2, nodes => '{node3}'); SELECT shardfdw.create_reference_table('ot.r')});
$c->node_safe_psql(3, 'CREATE TABLE rn.alone (k int NOT NULL); CREATE TABLE rn.by_hand (k int NOT NULL)');
for my $case (
	[ q{CREATE TABLE rn.nw (k int PRIMARY KEY); SELECT shardfdw.shard_table('rn.nw', shards => 2, nodes => '{node3}')}, 'rn2.nw' ],
	[ q{SELECT shardfdw.shard_table('rn.plain', shards => 2, nodes => '{node2}')}, 'rn2.plain' ],
	[ q{CREATE TABLE rn.rf (k int PRIMARY KEY); SELECT shardfdw.create_reference_table('rn.rf'); INSERT INTO rn.rf SELECT generate_series(1, 5)}, 'rn2.rf' ],
	[ q{SELECT shardfdw.create_shard('rn.empty', 'empty_1', 'FROM (0) TO (10)', 'node3')}, 'rn2.empty' ],
	[ q{CREATE FOREIGN TABLE rn.by_hand PARTITION OF rn.empty2 FOR VALUES FROM (0) TO (10) SERVER node3}, 'rn2.empty2' ],
	[ q{ALTER TABLE ot.p ATTACH PARTITION rn.alone FOR VALUES FROM (0) TO (10)}, 'ot.p' ],
	[ q{SELECT shardfdw.shard_table('ot.plain', shards => 2, nodes => '{node3}')}, 'ot.plain' ],
	[ q{ALTER TABLE ot.grows ADD COLUMN m rn.mood}, 'ot.grows' ],
	[ q{ALTER TABLE ot.r SET SCHEMA rn}, 'rn2.r' ])
{
	my ($make, $table) = @$case;
	my @answer = $other->query("BEGIN; $make");
	my $renamer = $c->start_sql('ALTER SCHEMA rn RENAME TO rn2');
	wait_until_it_waits('ALTER SCHEMA rn RENAME');
	$other->query('COMMIT');
	($rc, $out, $err) = $c->wait_sql($renamer);
	is($err, '', "renamed beside $make");
	($rc, $out, $err) = $c->psql("SELECT count(*) >= 0 FROM $table");
	is("$err$out", 't', 'the table can be read');
	is(differences(), '', 'both sides are equal');
	($rc, $out, $err) = $c->psql('ALTER SCHEMA rn2 RENAME TO rn');
	is($err, '', 'and back');
}

# in the other order: a later transaction finds the new name
$c->safe_psql('CREATE TABLE rn.late (k int PRIMARY KEY); CREATE TABLE rn.late_r (k int PRIMARY KEY)');
for my $make (q{SELECT shardfdw.shard_table('rn.late', shards => 2, nodes => '{node3}')}, q{SELECT shardfdw.create_reference_table('rn.late_r')})
{
	$other->query('BEGIN; ALTER SCHEMA rn RENAME TO rn2');
	my $maker = $c->start_sql($make);
	$c->wait_for(qq{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_namespace'::regclass AND NOT granted});
	$other->query('COMMIT');
	($rc, $out, $err) = $c->wait_sql($maker);
	is($err, '', "$make waits");
	is(differences(), '', 'and finds the new name');
	$c->safe_psql('ALTER SCHEMA rn2 RENAME TO rn');
}
is($c->safe_psql('SELECT count(*) FROM rn.late'), '0', 'the table can be read');

# a snapshot that is older than the name
my ($old, $new) = ($c->coordinator->background_psql('postgres', on_error_stop => 0), 'rn2');
$c->safe_psql('CREATE TABLE rn.older (k int PRIMARY KEY, m rn.mood)');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->safe_psql('ALTER SCHEMA rn RENAME TO rn2');
$old->query(q{\set VERBOSITY sqlstate});
$old->query(q{SELECT shardfdw.shard_table('rn2.older')});
like($old->{stderr}, qr/0A000/, 'a name that the snapshot does not see');
$old->{stderr} = '';
$old->query('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->safe_psql('ALTER SCHEMA rn2 RENAME TO rn; ALTER SCHEMA rn RENAME TO rn2');
$old->query('ALTER TABLE rn2.t ADD COLUMN m rn2.mood; CREATE INDEX ON rn2.t (m); COMMIT');
is($old->{stderr} =~ s/^background_psql.*$//mr, '', 'DDL knows it');
is(differences(), '', 'on both sides');
$c->safe_psql('ALTER TABLE rn2.t DROP COLUMN m');
$old->quit;
$c->safe_psql('ALTER SCHEMA rn2 RENAME TO rn');
is(differences(), '', 'nothing is left of it');

# Single statements do not wait for each other in a circle
for my $first ('ALTER SCHEMA rn RENAME TO rn2', 'ALTER TABLE rn.t ADD COLUMN m rn.mood', 'CREATE INDEX ON rn.t ((k + 1))')
{
	my $second = $first =~ /SCHEMA/ ? 'ALTER TABLE rn.t ADD COLUMN n rn.mood' : 'ALTER SCHEMA rn RENAME TO rn2';
	$other->query('BEGIN; LOCK TABLE rn.t IN ROW EXCLUSIVE MODE');
	my @running = $c->start_sql($first);
	$c->wait_for(qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = '$first'});
	push @running, $c->start_sql($second);
	$c->wait_for(qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = '$second'});
	$other->query('COMMIT');
	($rc, $out, $err) = $c->wait_sql($running[0]);
	is($err, '', "$first, then $second");
	($rc, $out, $err) = $c->wait_sql($running[1]);
	like($err, $first =~ /SCHEMA/ ? qr/^[^\n]*"rn(\.t)?" does not exist/ : qr/^$/, 'the later one');
	$c->safe_psql('ALTER SCHEMA rn2 RENAME TO rn');
	is(differences(), '', 'both sides are equal');
}

# A schema that nodes do not have: the rename does not wait for sessions that use its tables
$c->safe_psql('CREATE SCHEMA pl; CREATE TABLE pl.t (k int)');
$other->query('BEGIN; LOCK TABLE pl.t');
($rc, $out, $err) = $c->psql(q{SET lock_timeout = '10s'; ALTER SCHEMA pl RENAME TO pl2});
is($err, '', 'a schema that is here alone');
$other->query('COMMIT');
is($c->safe_psql('SELECT count(*) FROM pl2.t'), '0', 'all is in it');

# The rename waits for a session that has created a table before it locks tables, so that the
# session can continue to use them
$other->query('BEGIN; CREATE TABLE rn.made (k int PRIMARY KEY)');
my $renamer = $c->start_sql('ALTER SCHEMA rn RENAME TO rn2');
wait_until_it_waits('ALTER SCHEMA rn RENAME');
$other->query("INSERT INTO rn.made SELECT 1 FROM (SELECT count(*) FROM rn.t) t; SELECT shardfdw.shard_table('rn.made', shards => 2); COMMIT");
($rc, $out, $err) = $c->wait_sql($renamer);
is($err, '', 'nobody waits in a circle');
is($c->safe_psql('SELECT count(*) FROM rn2.made'), '1', 'both have done their work');
is(differences(), '', 'on both sides');

# A role that may not rename the schema must wait for no session, and must lock nothing.
$c->safe_psql('CREATE ROLE owner; ALTER SCHEMA rn2 OWNER TO owner');
$other->query('BEGIN; LOCK TABLE rn2.t');
for my $case ([ 'owner', 'database' ], [ 'pg_monitor', 'schema' ])
{
	my ($role, $what) = @$case;
	$c->psql_fails_like("SET lock_timeout = '10s'; SET ROLE $role; ALTER SCHEMA rn2 RENAME TO rn;", qr/42501: (permission denied for|must be owner of) $what/, "no right to the $what");
}
$other->query('COMMIT');

# An empty schema on a node that the extension has not made
$c->node_safe_psql(3, 'CREATE SCHEMA theirs');
$c->psql_fails_like('ALTER SCHEMA rn2 RENAME TO theirs;', qr/42P06: schema "theirs" already exists.*not made by this extension.*node3/s, 'is in the way');
is($c->node_safe_psql(3, q{SELECT to_regnamespace('theirs')}), 'theirs', 'and stays');
is(differences(), '', 'both sides are equal');

# A name that the session knows from before the rename, as another object or as no object
$c->safe_psql(q{CREATE SCHEMA known; CREATE TABLE known.plain (k int PRIMARY KEY, v int); CREATE SCHEMA sharded;
	CREATE TABLE sharded.t (k int PRIMARY KEY, v int); CREATE TABLE sharded.plain (k int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('sharded.t', shards => 2), shardfdw.shard_table('sharded.plain', shards => 2)});
$other->query(q{BEGIN; SELECT to_regclass('known.t'), to_regclass('known.plain')});
$c->safe_psql('BEGIN; ALTER SCHEMA known RENAME TO unknown; ALTER SCHEMA sharded RENAME TO known; COMMIT');
$other->query('CREATE INDEX by_v ON known.t (v); ALTER TABLE known.plain ADD COLUMN w int; COMMIT');
is(differences(), '', 'names are looked up as they are now');

# Another schema has the new name, and may be dropped before core checks for it. If the extension
# has seen that schema, the rename must be refused, and core must not try it.
$c->safe_psql(q{CREATE SCHEMA taken; CREATE FUNCTION waits() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(4711); END';
	CREATE EVENT TRIGGER waits ON ddl_command_start WHEN TAG IN ('ALTER SCHEMA', 'ALTER TABLE') EXECUTE FUNCTION waits()});
$other->query('SELECT pg_advisory_lock(4711)');
$c->psql_fails_like("SET statement_timeout = '20s'; $_->[0]", $_->[1], "$_->[0]: at once")
  for [ 'ALTER SCHEMA rn2 RENAME TO taken', qr/42P06.*schema "taken" already exists/s ], [ 'ALTER SCHEMA not_yet RENAME TO other', qr/3F000.*schema "not_yet" does not exist/s ],
  [ 'ALTER TABLE rn2.t SET SCHEMA not_yet', qr/3F000.*schema "not_yet" does not exist/s ];
$other->query('SELECT pg_advisory_unlock_all()');
$c->safe_psql('DROP EVENT TRIGGER waits');
is(differences(), '', 'nothing has changed');

$other->quit;
done_testing();
