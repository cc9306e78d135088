# A role without rights on a table cannot make users of the table, or functions over all tables,
# wait or fail.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 4, preload => 1,
	node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
$c->safe_psql(q{CREATE ROLE own LOGIN; SELECT shardfdw.add_user('own', password => 'x');
	GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO own;
	CREATE SCHEMA own AUTHORIZATION own;
	CREATE TABLE rep (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('rep', 'id', shards => 4, nodes => '{node1,node2}',
		replication_factor => 2);
	INSERT INTO rep SELECT g, g FROM generate_series(1, 20) g;
	CREATE TABLE plain (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('plain', 'id', shards => 4, nodes => '{node1}')});
$c->safe_psql("ALTER USER MAPPING FOR own SERVER node$_
	OPTIONS (ADD password_required 'false')") for 1 .. 4;

# ---- transactions that a role has prepared under a name of the extension ------

my $own = $c->gid_prefix;
my ($prefix) = $own =~ /^(shardfdw:\d+:\d+:)/;
# malformed, and of another identity
my @gids = ("${prefix}garbage", "${prefix}0123456789abcdef:1:1", "${prefix}0123456789abcdef:1:1:1");
$c->node_safe_psql(2, "SET ROLE own; BEGIN; SELECT txid_current();
	PREPARE TRANSACTION '$_'") for @gids;
$c->stop_node(1);
is($c->safe_psql('SELECT count(*) FROM rep'), '20', 'replicas are read while the primary is lost');
is($c->safe_psql(q{SELECT shardfdw.disable_node('node1')}), '4', 'disable_node()');
$c->safe_psql('UPDATE rep SET v = v + 1');
$c->start_node(1);
is($c->safe_psql(q{SELECT shardfdw.enable_node('node1')}), '4', 'enable_node()');
my $shard = $c->safe_psql(q{SELECT shard FROM shardfdw_internal.shard_placements('rep')
	WHERE node = 'node2' LIMIT 1});
$c->safe_psql("SELECT shardfdw.move_replica('$shard', 'node2', 'node3')");
$c->safe_psql("SELECT shardfdw.move_replica('$shard', 'node3', 'node2')");
is($c->safe_psql('SELECT sum(v) FROM rep'), '230', 'move_replica()');
$c->node_safe_psql(2, "ROLLBACK PREPARED '$_'") for @gids;

# A prepared transaction that the coordinator can end is shown, and recovery waits for it.
my $gid = "${own}1:65536";
$c->node_safe_psql(2, "BEGIN; SELECT txid_current(); PREPARE TRANSACTION '$gid'");
is($c->safe_psql(q{SELECT gid FROM shardfdw.prepared_transactions}), $gid,
	'a name of the coordinator is shown');
$c->safe_psql(q{SELECT * FROM shardfdw.recover_prepared_transactions()});
is($c->node_safe_psql(2, 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'recovery rolls it back');

my $on_node1 = q{SELECT string_agg(shard::text, ' ') FROM shardfdw.shards WHERE node = 'node1'};

# ---- foreign tables in place of missing tables ------------------------------

$c->safe_psql(q{SET ROLE own; CREATE TABLE own.p (a int) PARTITION BY HASH (a);
	CREATE FOREIGN TABLE own.p_0 PARTITION OF own.p FOR VALUES WITH (MODULUS 2, REMAINDER 0)
		SERVER node1 OPTIONS (schema_name 'nix', table_name 'nix')});
my $left_out =
	qr/WARNING:  table own\.p is left out: shard own\.p_0 does not exist on node "node1"/;
sub warns
{
	my ($sql, $what, $warning) = @_;
	my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 1);
	is($rc, 0, $what) || diag $err;
	like($err, $warning, "$what: with a WARNING");
	return $out;
}
like(warns('SELECT shard FROM shardfdw.rebalance_plan()', 'rebalance_plan()', $left_out),
	qr/plain_0/, 'it plans moves');
warns(q{SELECT shardfdw.rebalance(mode => 'block')}, 'rebalance()', $left_out);
cmp_ok($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards
	WHERE relation = 'plain'::regclass AND node = 'node1'}), '<', 4,
	'rebalance() moves shards of other tables');
warns(q{SELECT shardfdw.drain_node('node1', mode => 'block')}, 'drain_node()', $left_out);
is($c->safe_psql($on_node1), 'own.p_0',
	'drain_node() moves the shards of other tables');
$c->safe_psql(q{SELECT shardfdw.drain_node('node1', undo => true);
	SELECT shardfdw.move_shard('plain_00', 'node1', 'block');
	ALTER SERVER node1 OPTIONS (SET accepts_shards 'false')});
warns(q{SELECT shardfdw.rebalance('count')}, q{rebalance('count')},
	qr/WARNING:  shard own\.p_0 stays on node "node1": .*does not exist on node/);
is($c->safe_psql($on_node1), 'own.p_0',
	'rebalance() moves the shards of other tables');
$c->safe_psql('DROP TABLE own.p');

$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET accepts_shards 'true')});

# ---- notes of changes of shards with replicas ----------------------------------------------

my $notes = $c->node_safe_psql(2, q{SELECT relname FROM pg_class
	WHERE relname ~ '^shardfdw_notes_[0-9a-f]+$' AND relkind = 'r' ORDER BY 1 LIMIT 1});
for my $mode ('ACCESS EXCLUSIVE', 'EXCLUSIVE', 'SHARE', 'ROW EXCLUSIVE')
{
	my (undef, undef, $err) = $c->node_psql(2,
		"SET ROLE own; BEGIN; LOCK TABLE public.$notes IN $mode MODE");
	like($err, qr/permission denied for table $notes/, "LOCK TABLE of notes in $mode mode");
}
# A role with few privileges writes as before, and leaves no notes.
$c->safe_psql('GRANT SELECT, INSERT ON rep TO own; SET ROLE own; INSERT INTO rep VALUES (30, 30);
	BEGIN; INSERT INTO rep VALUES (31, 31); INSERT INTO rep VALUES (32, 32); COMMIT');
is($c->safe_psql(q{SELECT bool_and(is_equal) FROM shardfdw.compare_replicas('rep')}), 't',
	'replicas have the rows');
is($c->node_safe_psql($_, q{SELECT coalesce(sum((xpath('/row/c/text()', query_to_xml(
		format('SELECT count(*) AS c FROM %s', oid::regclass), false, true, '')))[1]::text::int), 0)
		FROM pg_class WHERE relname ~ '^shardfdw_notes_[0-9a-f]+$' AND relkind = 'r'}), '0',
	"no notes are left on node$_") for 1, 2;

$c->safe_psql('CREATE ROLE nob LOGIN; CREATE SCHEMA nob AUTHORIZATION nob');

# ---- code of an owner in recovery ------------------------------------------------------------

# The owner makes a table that looks like one of an import, and its trigger sleeps. The journal has
# the import. t/rights_recovery.pl shows what recovery does if the journal has none.
$c->safe_psql(q{SET ROLE nob; CREATE TABLE nob.trap (i int);
	CREATE FUNCTION nob.slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(1000000); RETURN NULL; END';
	CREATE TRIGGER slow BEFORE TRUNCATE ON nob.trap EXECUTE FUNCTION nob.slow();
	SELECT format('CREATE TRIGGER shardfdw_import BEFORE INSERT ON nob.trap WHEN (false)
		EXECUTE FUNCTION shardfdw_internal.refuse_write_of_import(%L, %L, %L)', '0', identity,
		'copying') FROM shardfdw_internal.coordinator_identity() \gexec
});
$c->safe_psql(q{INSERT INTO shardfdw_internal.job
	(id, kind, state, stage, tables, names, mode, role, pid, started) VALUES (0, 'import', 'failed',
	'copying', ARRAY['nob.trap'::regclass::oid], '{nob.trap}', 'copy', 'nob'::regrole, 1, now())});
like($c->safe_psql(q{SELECT action FROM shardfdw.recover_prepared_transactions()
	WHERE action ~ 'nob'}), qr/role "nob" have left in tables: this took longer than 30 s/,
	'recovery ends, and says what it has not removed');

# ---- the owner of a schema has no rights of the owners of tables in it -----------------------

$c->safe_psql('GRANT CREATE ON DATABASE postgres TO own');
$c->node_safe_psql($_, 'GRANT CREATE ON DATABASE postgres TO own') for 1 .. 4;
$c->safe_psql(q{SET ROLE own; CREATE SCHEMA xs; CREATE TABLE xs.mine (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('xs.mine', 'id', shards => 4)});
$c->safe_psql('CREATE TABLE xs.sup (id int PRIMARY KEY, v text); GRANT ALL ON xs.sup TO own');
my $other = qr/belongs to another role/;
$c->psql_fails_like(q{SELECT shardfdw.shard_table('xs.sup', shards => 2, replication_factor => 2);},
	qr/42501: the schema of shard xs\.sup_00 $other/, 'no replicas in a schema of another role');
$c->psql_fails_like(q{SELECT shardfdw.shard_table('xs.sup', shards => 2, mode => 'online');},
	qr/42501: cannot work on table "sup" online because its schema $other/, 'not sharded online');
$c->safe_psql(q{SELECT shardfdw.shard_table('xs.sup', shards => 2, nodes => '{node1}')});
$c->safe_psql('ALTER SCHEMA xs OWNER TO postgres');
$c->psql_fails_like(q{SELECT shardfdw.unshard_table('xs.sup', mode => 'online');},
	qr/42501: schema xs on node "node1" belongs to role "own"/, 'not unsharded online');
$c->safe_psql('ALTER SCHEMA xs OWNER TO own');
$c->safe_psql(q{SELECT shardfdw.unshard_table('xs.sup')});

# ---- tables that look like those of a job -----------------------------------------------------

# Such a table with such a comment counts only if the journal has the job, for this role and table.
$c->safe_psql(q{DROP TABLE nob.trap; CREATE TABLE vic (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('vic', shards => 3, nodes => '{node1,node3}'); SET ROLE own;
	CREATE TABLE own.shardfdw_new_1 (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('own.shardfdw_new_1', shards => 3, nodes => '{node1,node3}');
	SELECT format('COMMENT ON TABLE own.shardfdw_new_1 IS %L',
		'job 999999999 of coordinator ' || identity)
	FROM shardfdw_internal.coordinator_identity() \gexec});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw_internal.shard_group('vic_00')}), '2',
	'a table of a role is colocated with a table of another role');
my $moves = q{SELECT shardfdw.move_shard('vic_00', '%s', mode => 'block') > 0};
is($c->safe_psql(sprintf $moves, 'node4'), 't', 'it does not stop moves of the other table');
my $job = q{INSERT INTO shardfdw_internal.job
	(id, kind, state, stage, tables, names, mode, role, pid, started)
	VALUES (999999999, '%s', 'failed', 'copying', '{%s}', '{x}', 'online', '%s'::regrole, 1, now())};
for ([ 'shard', 1, 'postgres' ], [ 'shard', 2, 'own' ], [ 'import', 1, 'own' ])
{
	$c->safe_psql(sprintf $job, @$_);
	is($c->safe_psql('SELECT count(*) FROM shardfdw_internal.conversion_objects()'), '0',
		"nor with job @$_");
	$c->safe_psql('DELETE FROM shardfdw_internal.job WHERE id = 999999999');
}
$c->safe_psql(sprintf $job, 'shard', 1, 'own');
$c->psql_fails_like(sprintf("$moves;", 'node1'),
	qr/55000: shard public\.vic_00 cannot be moved before table \d+ is recovered from job 999999999/,
	'with a job of this role and table');
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql(q{SELECT to_regclass('own.shardfdw_new_1')}), '', 'recovery removes the table');
$c->safe_psql('DELETE FROM shardfdw_internal.job WHERE id = 999999999');
is($c->safe_psql(sprintf $moves, 'node1'), 't', 'the other table moves');

# ---- names of jobs ---------------------------------------------------------------------------

# The identity of the coordinator and the numbers of jobs are public.
my $names = $c->safe_psql(q{SELECT format('shardfdw_%s_', identity)
	FROM shardfdw_internal.coordinator_identity()});
my ($last) = $c->safe_psql('SELECT last_value FROM shardfdw_internal.job_id');
for my $node (1, 3)
{
	$c->node_safe_psql($node, join '', 'SET ROLE own;', map { "CREATE SCHEMA $names$_;
		CREATE PUBLICATION $names$_;" } $last .. $last + 9);
}
is($c->safe_psql(sprintf $moves, 'node3'), 't', 'schemas with these names do not stop jobs');
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->node_safe_psql(1, qq{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^$names'}), '10',
	'recovery leaves them');

# The schema gets another owner afterwards, who replaces it.
$c->safe_psql(q{CREATE SCHEMA later; CREATE TABLE later.sup (id int PRIMARY KEY, v text);
	GRANT USAGE ON SCHEMA later TO own; GRANT INSERT ON later.sup TO own;
	SELECT shardfdw.shard_table('later.sup', shards => 2, nodes => '{node1,node2}',
		replication_factor => 2)});
$c->node_safe_psql(1, 'ALTER SCHEMA later OWNER TO own');
my $table = $c->node_safe_psql(1, q{SELECT relname FROM pg_class
	WHERE relname ~ '^shardfdw_notes_[0-9a-f]+$' AND relkind = 'r'
		AND relnamespace = 'later'::regnamespace ORDER BY 1 LIMIT 1});
$c->node_safe_psql(1, "SET ROLE own; ALTER SCHEMA later RENAME TO old; CREATE SCHEMA later;
	CREATE TABLE later.$table (LIKE old.$table);
	CREATE FUNCTION later.f() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN RAISE EXCEPTION ''code of own as %'', current_user; END';
	CREATE TRIGGER f BEFORE INSERT OR DELETE ON later.$table EXECUTE FUNCTION later.f()");
for my $shard ('sup_00', 'sup_01')
{
	my (undef, undef, $err) = $c->node_psql(1, "SET ROLE own; INSERT INTO old.$shard VALUES (1, 'a')");
	# the notes of one shard are not in the new schema
	like($err, qr/the schema of shard later\.$shard $other|relation "later\.shardfdw_notes_\w+" does not exist/,
		"$shard: no code of own runs");
}

# ---- background workers -------------------------------------------------------

# Jobs of a role that wait, and the jobs of all ordinary roles together. max_worker_processes is 16.
$c->safe_psql(q{CREATE ROLE third LOGIN; SELECT shardfdw.add_user('third', password => 'x');
	GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO third;
	CREATE SCHEMA third AUTHORIZATION third});
for my $role ('own', 'third')
{
	$c->safe_psql("ALTER USER MAPPING FOR third SERVER node$_
		OPTIONS (ADD password_required 'false')") for $role eq 'third' ? 1 .. 4 : ();
	$c->safe_psql("SET ROLE $role; CREATE TABLE $role.w$_ (id int PRIMARY KEY)") for 1 .. 6;
}
my $blocker = $c->coordinator->background_psql('postgres');
$blocker->query_safe(join ';', 'BEGIN', map { ("LOCK TABLE own.w$_ IN ACCESS SHARE MODE",
	"LOCK TABLE third.w$_ IN ACCESS SHARE MODE") } 1 .. 6);
my $start = q{SELECT shardfdw.shard_table('%s.w%d', shards => 1, mode => 'online', wait => false)};
my @jobs;
for my $role ('own', 'third')
{
	push @jobs, map { $c->safe_psql("SET ROLE $role; " . sprintf $start, $role, $_) } 1 .. 4;
	my $job = $c->safe_psql("SET ROLE $role; " . sprintf $start, $role, 5);
	my $who = qr/too many jobs of role "$role" are running/;
	$c->psql_fails_like("SELECT shardfdw.wait_job($job)", qr/53000: $who/, "$role: one more job");
}
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.jobs WHERE state = 'running'}), '8',
	'jobs of two roles');
$c->safe_psql(q{CREATE ROLE fourth LOGIN; SELECT shardfdw.add_user('fourth', password => 'x');
	GRANT USAGE ON FOREIGN SERVER node1 TO fourth; CREATE TABLE w (id int PRIMARY KEY);
	CREATE SCHEMA fourth AUTHORIZATION fourth; SET ROLE fourth;
	CREATE TABLE fourth.w1 (id int PRIMARY KEY)});
my $refused = $c->safe_psql('SET ROLE fourth; ' . sprintf $start, 'fourth', 1);
$c->psql_fails_like("SELECT shardfdw.wait_job($refused)",
	qr/53000: too many jobs of roles that are not superusers are running/, 'a third role');
push @jobs, $c->safe_psql(
	q{SELECT shardfdw.shard_table('w', shards => 2, mode => 'online', wait => false)});
is($c->safe_psql("SELECT state FROM shardfdw.jobs WHERE id = $jobs[-1]"), 'running',
	'a job of a superuser');
$c->safe_psql("SELECT shardfdw.cancel_job($_)") for @jobs;
$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'});
$blocker->query_safe('COMMIT');
$blocker->quit;
$c->safe_psql(q{SET ROLE own; SET client_min_messages = warning;
	SELECT shardfdw.shard_table('own.w5', shards => 4, nodes => '{node1}')});
# own.w5_00 to own.w5_03 are split, one after the other, in two workers.
$c->safe_psql('GRANT CREATE ON DATABASE postgres TO own;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardfdw TO own');
$c->node_safe_psql($_, 'GRANT CREATE ON DATABASE postgres TO own') for 1 .. 4;
$c->safe_psql(q{SET ROLE own; SELECT shardfdw.set_shard_count('own.w5', 8, mode => 'block')});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE relation = 'own.w5'::regclass}), '8',
	'a series of jobs');
# A reader keeps the old tables. If each move kept a worker for that, too many would run.
my $reader = $c->coordinator->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $series = $c->safe_psql(
	q{SET ROLE own; SELECT shardfdw.rebalance('count', mode => 'block', wait => false)});
$c->wait_for(q{SELECT count(*) > 0 FROM shardfdw.jobs
	WHERE kind = 'move' AND waits_for LIKE 'transactions on the coordinator%'});
# longer than a caller of move_shard() would wait
$c->safe_psql('SELECT pg_sleep(3)');
is($c->safe_psql(q{SELECT string_agg(kind, ' ' ORDER BY id) FROM shardfdw.jobs
	WHERE state = 'running'}), 'rebalance move', 'a series waits for its step');
$reader->query_safe('COMMIT');
$reader->quit;
is($c->safe_psql("SELECT shardfdw.wait_job($series)"), 'done', 'and goes on');
$c->safe_psql('REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA shardfdw FROM own');

# The same while a table is unsharded online.
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 1
		unless $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings
			WHERE name = 'shardfdw.fault_points'});
	$c->safe_psql(q{CREATE SCHEMA late; CREATE TABLE late.sup (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('late.sup', shards => 2, nodes => '{node1}')});
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_convert_copied';
	append_to_file($file, '');
	$c->set_faults('convert_copied=wait');
	my $job = $c->safe_psql(q{SELECT shardfdw.unshard_table('late.sup', 'online', false)});
	$c->wait_for(q{SELECT stage = 'copying' FROM shardfdw.jobs ORDER BY id DESC LIMIT 1});
	$c->node_safe_psql(1, 'ALTER SCHEMA late OWNER TO own');
	$c->psql_fails_like('INSERT INTO late.sup VALUES (1);',
		qr/42501: the schema of table late\.sup_0\d $other/, 'no function notes its changes');
	$c->node_safe_psql(1, 'ALTER SCHEMA late OWNER TO postgres');
	$c->safe_psql('INSERT INTO late.sup VALUES (1)');
	$c->set_faults('');
	unlink $file;
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job goes on');
}

done_testing();
