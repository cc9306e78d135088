# A node with replicas of shards, or of reference tables, comes back with older data before it was
# disabled. The coordinator must not connect to this node. So no old rows may be read from the node
# or written to other nodes.

use strict;
use warnings;

use File::Path qw(rmtree);
use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1s\n",
	node_conf        => "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nsynchronous_commit = off\nwal_writer_delay = 10s\n");
my $refused = qr/node "node1" is not known to have all that was committed there/;
my $nrefused = 0;

$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 4, replication_factor => 2); INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
	CREATE TABLE single (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('single', shards => 2, nodes => '{node1}')});

sub differences { return $c->safe_psql(q{SELECT shard, node FROM shardfdw.compare_replicas('t') WHERE NOT is_equal}); }

# How many primaries node1 has.
sub primaries { return $c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE relation = 't'::regclass AND node = 'node1'}); }

# Checks what must be true while node1 is refused, and then creates its replicas again. $sum: of the
# rows.
sub refused_and_made_again
{
	my ($sum, $what) = @_;

	is($c->safe_psql('SELECT count(*), sum(v) FROM t'), "100|$sum", "$what: reads give the rows of the other node");
	is($c->safe_psql("SELECT count(*), sum(v) FROM t WHERE id BETWEEN 1 AND $_"), $c->safe_psql("SELECT count(*), sum(v) FROM t WHERE id <= $_"), 'whatever they read') for 1, 50;
	for my $sql ('UPDATE t SET v = v + 1', 'UPDATE t SET v = v + 1 WHERE id = 1; UPDATE t SET v = v + 1 WHERE id = 2; UPDATE t SET v = v + 1 WHERE id = 3; UPDATE t SET v = v + 1 WHERE id = 4', 'INSERT INTO t SELECT g FROM generate_series(200, 300) g', 'TRUNCATE t',
		q{COPY t (id) FROM PROGRAM 'seq 200 300'}, 'DELETE FROM t', 'SELECT count(*) FROM single', primaries() ? 'SELECT * FROM t FOR UPDATE' : ())
	{
		next unless ShardCluster::in_half($nrefused++);
		my ($rc, $out, $err) = $c->psql("BEGIN; $sql; COMMIT", on_error_stop => 1);

		like($err, $refused, "refused: $sql");
	}
	like($c->safe_psql(q{SELECT string_agg(detail, ' ') FROM shardfdw.check_cluster() WHERE node = 'node1' AND status = 'error'}), $refused, 'check_cluster() says so');
	is($c->safe_psql("SELECT shardfdw.disable_node('node1')"), 4, 'it is disabled');
	$c->safe_psql('UPDATE t SET v = v + 1');
	is($c->safe_psql("SELECT shardfdw.enable_node('node1')"), 4, 'and enabled');
	$c->safe_psql('UPDATE t SET v = v + 1');
	is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '100|' . ($sum + 200), 'all rows are there');
	is(differences(), '', 'and on both nodes');
	return;
}

# ---------- crashes and restarts lose nothing ----------

$c->safe_psql("UPDATE t SET v = v + 1 WHERE id = $_") for 1 .. 5;
for my $end (sub { $c->kill9_node(1); $c->start_node(1) }, sub { $c->node(1)->restart }, sub { $c->node(1)->stop('immediate'); $c->node(1)->start }, sub { $c->node(1)->stop('immediate'); $c->node(1)->start; $c->node(1)->restart })
{
	$c->safe_psql('UPDATE t SET v = v + 1; SELECT count(*) FROM t');
	$end->();
	is($c->safe_psql('UPDATE t SET v = v + 1 RETURNING 1') =~ tr/1//, 100, 'a node that has crashed goes on');
}
is(differences(), '', 'with all rows');
is($c->safe_psql('SELECT count(DISTINCT server) FROM shardfdw_internal.node_position'), 2, 'positions of both nodes are noted');
{
	my @clients = map { $c->start_sql('SELECT pg_sleep(0.5); UPDATE t SET v = v + 1 WHERE id = ' . $_, name => "c$_") } 1 .. 4;

	$c->wait_sql($_) for @clients;
	cmp_ok($c->safe_psql('SELECT count(*) FROM shardfdw_internal.node_position'), '>', 4, 'by each session in a row of its own');
}

# compare_replicas() opens its connections before it keeps writers waiting.
{
	my $writer = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my ($postmaster) = split /\n/, slurp_file($c->node(2)->data_dir . '/postmaster.pid');

	$writer->query_safe('UPDATE t SET v = v');
	kill 'STOP', $postmaster;
	my $compare =
		$c->start_sql(q{SELECT count(*) FROM shardfdw.compare_replicas('t')}, name => 'compare');
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE application_name = 'compare' AND wait_event_type = 'Extension'});
	$writer->query(q{SET lock_timeout = '5s'; UPDATE t SET v = v});
	is($writer->{stderr}, '', 'a writer goes on while a connection is being opened');
	kill 'CONT', $postmaster;
	is(($c->wait_sql($compare))[1], 8, 'and the replicas are compared then');
	$writer->quit;
}

# ---------- an older state of the data directory ----------

my $data = $c->node(1)->data_dir;
my $saved = PostgreSQL::Test::Utils::tempdir() . '/saved';

sub save
{
	$c->node(1)->stop('fast');
	rmtree($saved);
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $data, $saved);
	$c->node(1)->start;
	return;
}

sub restore
{
	$c->node(1)->stop('immediate');
	rmtree($data);
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $saved, $data);
	$c->node(1)->start;
	return;
}

for my $change ('UPDATE t SET v = v + 1 WHERE id = 1', 'UPDATE t SET v = v + 1 WHERE id = 2', 'UPDATE t SET v = v + 1 WHERE id = 3', 'UPDATE t SET v = v + 1')
{
	save();
	$c->safe_psql($change);
	my $sum = $c->safe_psql('SELECT sum(v) FROM t');
	restore();
	# the coordinator need not have been up all the time
	$c->coordinator->restart if $change =~ /3/;
	refused_and_made_again($sum, "an older state, without $change");
}

# A node also writes WAL by itself. So some time later it reaches its former position again.
save();
$c->safe_psql('UPDATE t SET v = v + 1 WHERE id = 1');
my $gone_on = $c->safe_psql('SELECT sum(v) FROM t');
restore();
for my $undone ([ 'BEGIN', 'ROLLBACK' ], [ 'BEGIN; SAVEPOINT a', 'ROLLBACK TO a' ])
{
	my (undef, $out, $err) = $c->psql("$undone->[0]; SELECT shardfdw.confirm_node('node1'); SELECT count(*) FROM single; $undone->[1]; SELECT count(*) FROM single");

	is($out, "\n0", "a node is confirmed after $undone->[0], and that is undone");
	like($err, $refused, 'then it is refused by the session that has used it');
}
$c->wait_for(q{SELECT count(*) > 0 FROM shardfdw_internal.node_position WHERE server = 'node1' AND lsn = 'FFFFFFFF/FFFFFFFF'});
$c->node(1)->safe_psql('postgres', $_) for ('SELECT pg_switch_wal()', 'CHECKPOINT') x 2;
like(($c->psql('SELECT count(*) FROM single'))[2], qr/$refused.*It was not as far as transactions have committed there, and has gone on since/s, 'recovery has seen it: it stays refused');
refused_and_made_again($gone_on, 'an older state that has gone on');

# a state older than the confirmed one
save();
$c->safe_psql('UPDATE t SET v = v + 1');
my $confirmed = $c->safe_psql('SELECT sum(v) FROM t');
$c->safe_psql(q{SELECT shardfdw.confirm_node('node1')});
restore();
refused_and_made_again($confirmed, 'an older state than the one that was confirmed');

# a session whose note is being forgotten
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my $confirms = $c->coordinator->background_psql('postgres', on_error_stop => 0);

	$session->query_safe("SET statement_timeout = '60s'; UPDATE t SET v = v + 1");
	$confirms->query_safe(q{BEGIN; SELECT shardfdw.confirm_node(n) FROM unnest('{node1,node2}'::name[]) n});
	is($session->query('UPDATE t SET v = v + 1 WHERE id = 1 RETURNING id'), 1, 'a session whose notes are being forgotten does not wait for that');
	$confirms->query_safe('COMMIT');
	is($session->query('UPDATE t SET v = v - 1 WHERE id = 1 RETURNING id'), 1, 'nor afterwards');
	$session->query_safe('UPDATE t SET v = v - 1');
	$_->quit for $session, $confirms;
}

# commits of one node while the other one was disabled
$c->safe_psql(q{SELECT shardfdw.disable_node('node2'); UPDATE t SET v = v + 1});
save();
$c->safe_psql('UPDATE t SET v = v + 1 WHERE id = 1');
$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
my $alone = $c->safe_psql('SELECT sum(v) FROM t');
restore();
refused_and_made_again($alone, 'an older state, without what the node wrote alone');

# The same while the other node is still disabled: no other node has these rows.
my $nalone = 0;
for my $change ('UPDATE t SET v = v + 10 WHERE id = 1', 'UPDATE t SET v = v + 10', 'INSERT INTO t SELECT 1000, 1', 'BEGIN; UPDATE t SET v = v + 1 WHERE id = 1; SET CONSTRAINTS ALL IMMEDIATE; COMMIT', 'DELETE FROM t WHERE id = 99',
	q{COPY t FROM PROGRAM 'seq -f "100%g,1" 4' (DELIMITER ',')}, 'ALTER TABLE t ALTER v SET NOT NULL', 'TRUNCATE t')
{
	next unless ShardCluster::in_half($nalone++);
	$c->safe_psql(q{SELECT shardfdw.disable_node('node2')});
	save();
	$c->safe_psql($change);
	restore();
	for my $sql ('SELECT sum(v) FROM t', 'UPDATE t SET v = v + 1', 'UPDATE t SET v = v + 1 WHERE id = 2', q{SELECT shardfdw.enable_node('node2')})
	{
		(undef, undef, my $err) = $c->psql($sql);
		like($err, $sql =~ /enable/ ? qr/primary of shard \S+ does not answer/ : $refused, "only node1 has the rows, and lacks $change: refused: $sql");
	}
	$c->safe_psql(q{SELECT shardfdw.confirm_node('node1')});
	is($c->safe_psql(q{SELECT shardfdw.enable_node('node2')}), 4, 'the administrator takes the older rows');
}
is(differences(), '', 'and they are on both nodes');

# ---------- a database that was made again, and another server ----------

$c->safe_psql('UPDATE t SET v = v + 1');
my $sum = $c->safe_psql('SELECT sum(v) FROM t');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
PostgreSQL::Test::Utils::system_or_bail('pg_dump', '-f', $dump, $c->node(1)->connstr('postgres'));
$c->safe_psql('UPDATE t SET v = v + 1');
$sum += 100;
$c->end_sessions_on(1);
$c->node(1)->safe_psql('template1', 'DROP DATABASE postgres WITH (FORCE)');
$c->node(1)->safe_psql('template1', 'CREATE DATABASE postgres');
PostgreSQL::Test::Utils::system_or_bail('psql', '-X', '-q', '-f', $dump, $c->node(1)->connstr('postgres'));
refused_and_made_again($sum, 'a database that was restored from a dump');

# ---------- standbys ----------

my $standby = ShardServer->standby_of('standby', $c->node(1));
my ($host, $port) = $c->node_address(1);
$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET host '%s,%s', SET port '%d,%d', ADD target_session_attrs 'read-write')}, $standby->host, $host, $standby->port, $port);
$c->safe_psql('UPDATE t SET v = v + 1');
$sum = $c->safe_psql('SELECT sum(v) FROM t');
$c->node(1)->wait_for_catchup($standby, 'replay', $c->node_safe_psql(1, 'SELECT pg_current_wal_lsn()'));
$c->kill9_node(1);
$standby->promote;
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), "100|$sum", 'a standby is promoted: reads give all rows');
my ($rc, $out, $err) = $c->psql('UPDATE t SET v = v + 1');
like($err, qr/$refused.*timeline 1; the node is at \S+ of timeline 2.*confirm_node\('node1'\)/s, 'whether it has all commits, nobody knows');
$c->safe_psql(q{SELECT shardfdw.confirm_node('node1'); UPDATE t SET v = v + 1});
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '100|' . ($sum + 100), 'until the administrator says so');
is(differences(), '', 'and is right');
$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET host '%s', SET port '%d', DROP target_session_attrs)}, $host, $port);
$c->start_node(1);
refused_and_made_again($sum + 100, 'its primary, that comes back');

(undef, undef, $err) = $c->psql(q{SELECT shardfdw.confirm_node('nowhere')});
like($err, qr/node "nowhere" does not exist/, 'there is no such node');

# ---------- a node whose replicas were dropped ----------

$c->safe_psql('DROP TABLE t');
$c->safe_psql(q{INSERT INTO single VALUES (1, 1)});
save();
restore();
is($c->safe_psql('SELECT count(*) FROM single'), 1, 'what has no replicas is as it is');

# ---------- reference tables ----------
# Nodes of which some have replicas of shards, and some have not: here node1 has shards without replicas alone.

my $refs = ShardCluster->new(nodes => 2, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 1s\n",
	node_conf => "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nwal_keep_size = 64MB\n");
$refs->safe_psql(q{CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE r (id int PRIMARY KEY, n int, m mood, r2 int REFERENCES r); INSERT INTO r SELECT g, 0, 'sad', 1 FROM generate_series(1, 5) g; SELECT shardfdw.create_reference_table('r');
	CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1); SELECT shardfdw.create_reference_table('other');
	CREATE TABLE p (id int PRIMARY KEY, r int REFERENCES r); INSERT INTO p SELECT g, 1 + g % 5 FROM generate_series(1, 20) g; SELECT shardfdw.shard_table('p', shards => 4)});
my $join = 'SELECT r.n, count(*) FROM p JOIN r ON r.id = p.r GROUP BY 1 ORDER BY 1';
my $node1 = $refs->node(1);
my $node1_data = $node1->data_dir;
my $node1_saved = PostgreSQL::Test::Utils::tempdir() . '/saved';

sub save_node1
{
	$node1->stop('fast');
	rmtree($node1_saved);
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $node1_data, $node1_saved);
	$node1->start;
	return;
}

sub restore_node1
{
	$node1->stop('immediate');
	rmtree($node1_data);
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $node1_saved, $node1_data);
	$node1->start;
	return;
}

sub reference_is_refused
{
	my ($what) = @_;

	for my $sql ($join, 'SELECT count(*) FROM p', 'UPDATE r SET n = n + 1 WHERE id = 1', 'INSERT INTO r VALUES (9)', 'DELETE FROM r WHERE id = 5', 'INSERT INTO p SELECT g FROM generate_series(100, 120) g',
		q{SELECT shardfdw.create_reference_table('r')}, 'ALTER TABLE r ADD COLUMN x int', 'ALTER TABLE r ADD COLUMN x mood', 'CREATE INDEX ON r (m)', 'TRUNCATE r CASCADE')
	{
		next unless ShardCluster::in_half($nrefused++);
		(undef, undef, my $error) = $refs->psql($sql);
		like($error, qr/$refused.*enable_node\('node1'\).*confirm_node\('node1'\)/s, "$what: refused: $sql");
	}
	return;
}

sub reference_is_equal
{
	my ($what, $n) = @_;

	is($refs->safe_psql($join), "$n|20", "$what: joins give the rows of now");
	is($refs->safe_psql(ShardCluster::problems(q{check_cluster('rows')})), '', "$what: replicas are equal");
	is($refs->node_safe_psql(1, q{SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated AND confrelid = 'r'::regclass}), 2, "$what: foreign keys are there");
	return;
}

$refs->safe_psql('UPDATE r SET n = 1');
for my $change ('UPDATE r SET n = n + 1', 'UPDATE r SET n = n + 1 WHERE id = 1; UPDATE r SET n = n + 1 WHERE id <> 1', q{BEGIN; CREATE TEMP TABLE x AS TABLE r; DELETE FROM p; DELETE FROM r; INSERT INTO r SELECT id, n + 1, m, r2 FROM x; INSERT INTO p SELECT g, 1 + g % 5 FROM generate_series(1, 20) g; COMMIT},
	q{ALTER TABLE r ADD COLUMN new int; UPDATE r SET n = n + 1}, q{ALTER TABLE r DROP COLUMN new}, q{ALTER TABLE r ALTER n TYPE bigint USING n + 1})
{
	save_node1();
	$refs->safe_psql($change);
	my $n = $refs->safe_psql('SELECT max(n) FROM r');
	restore_node1();
	# the shards of the node lack the same commits: the administrator has to decide about their
	# contents
	is($refs->safe_psql('SELECT max(n), count(*) FROM r'), "$n|5", "an older state without $change: the reference table alone is read here");
	reference_is_refused("an older state without $change");
	like($refs->safe_psql(q{SELECT string_agg(detail, ' ') FROM shardfdw.check_cluster() WHERE node = 'node1' AND status = 'error'}), $refused, 'check_cluster() says so');
	is($refs->safe_psql(q{SELECT shardfdw.enable_node('node1')}), 0, 'enable_node() makes the replicas again');
	reference_is_equal("an older state without $change", $n);
	$refs->safe_psql('UPDATE r SET n = n + 1');
	reference_is_equal("written again after $change", $n + 1);
}

# the administrator declares that it lacks nothing
save_node1();
$refs->safe_psql('UPDATE r SET n = n + 1; UPDATE r SET n = n - 1');
restore_node1();
reference_is_refused('an older state with the same rows');
$refs->safe_psql('ALTER SERVER node1 RENAME TO renamed');
like(($refs->psql($join))[2], qr/node "renamed" is not known to have all that was committed there/, 'also under another name');
$refs->safe_psql('ALTER SERVER renamed RENAME TO node1');
reference_is_refused('and under its own name');
$refs->safe_psql(q{SELECT shardfdw.confirm_node('node1')});
save_node1();
$refs->safe_psql('UPDATE r SET n = n + 1; UPDATE r SET n = n - 1');
restore_node1();
is($refs->safe_psql(q{SELECT shardfdw.enable_node('node1')}), 0, 'a node with the same rows is enabled');
restore_node1();
reference_is_refused('the older state once more');
$refs->safe_psql(q{SELECT shardfdw.confirm_node('node1')});
reference_is_equal('confirmed', $refs->safe_psql('SELECT max(n) FROM r'));

# a state older than the confirmed one
save_node1();
$refs->safe_psql('UPDATE r SET n = n + 1');
$refs->safe_psql(q{SELECT shardfdw.confirm_node('node1')});
restore_node1();
reference_is_refused('an older state than the one that was confirmed');
$refs->safe_psql(q{SELECT shardfdw.enable_node('node1')});
reference_is_equal('made again', $refs->safe_psql('SELECT max(n) FROM r'));

# one-phase commits record nothing
save_node1();
$refs->safe_psql(q{SET shardfdw.commit_protocol = '1pc'; UPDATE r SET n = n + 1});
$refs->safe_psql('UPDATE r SET n = n + 1 WHERE id = 1; UPDATE r SET n = n + 1 WHERE id <> 1');
restore_node1();
reference_is_refused('one phase, then two');
$refs->safe_psql(q{SELECT shardfdw.enable_node('node1')});

# a database that was restored from a dump
my $refs_dump = PostgreSQL::Test::Utils::tempdir() . '/refs.sql';
PostgreSQL::Test::Utils::system_or_bail('pg_dump', '-f', $refs_dump, $node1->connstr('postgres'));
$refs->safe_psql('UPDATE r SET n = n + 1');
$node1->safe_psql('template1', 'DROP DATABASE postgres WITH (FORCE)');
$node1->safe_psql('template1', 'CREATE DATABASE postgres');
PostgreSQL::Test::Utils::system_or_bail('psql', '-X', '-q', '-f', $refs_dump, $node1->connstr('postgres'));
reference_is_refused('a database from a dump');
$refs->safe_psql(q{SELECT shardfdw.enable_node('node1')});
reference_is_equal('a database from a dump', $refs->safe_psql('SELECT max(n) FROM r'));

# an empty database: shards without replicas are lost, and all others are created again
$refs->safe_psql('CREATE TABLE lost (id int PRIMARY KEY)');
$refs->safe_psql(q{SELECT shardfdw.shard_table('lost', shards => 1, nodes => '{node1}')});
$node1->safe_psql('template1', 'DROP DATABASE postgres WITH (FORCE)');
$node1->safe_psql('template1', 'CREATE DATABASE postgres');
(undef, my $enabled, my $warning) = $refs->psql(q{SELECT shardfdw.enable_node('node1')});
is($enabled, 0, 'an empty database is enabled');
like($warning, qr/WARNING:  3 shards are not on node "node1", public\.lost_00 among them.*HINT:  Restore these tables there/s, 'with a warning of the shards that are lost');
is($refs->safe_psql('UPDATE r SET n = n + 1; SELECT max(n) - min(n) FROM r'), 0, 'reference tables are written');
$refs->safe_psql(q{SET shardfdw.enable_ddl_propagation = off; DROP TABLE lost, p; SET shardfdw.enable_ddl_propagation = on});
$refs->node_safe_psql(2, 'DROP TABLE p_01, p_03');
$refs->safe_psql(q{CREATE TABLE p (id int PRIMARY KEY, r int REFERENCES r); INSERT INTO p SELECT g, 1 + g % 5 FROM generate_series(1, 20) g; SELECT shardfdw.shard_table('p', shards => 4)});

# A failover needs no call. The former primary is older, and must be refused.
my $refs_standby = ShardServer->standby_of('refs_standby', $node1);
my ($refs_host, $refs_port) = $refs->node_address(1);
$refs->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET host '%s,%s', SET port '%d,%d', ADD target_session_attrs 'read-write')}, $refs_standby->host, $refs_host, $refs_standby->port, $refs_port);
$refs->safe_psql('UPDATE r SET n = n + 1');
$node1->wait_for_catchup($refs_standby, 'replay', $refs->node_safe_psql(1, 'SELECT pg_current_wal_lsn()'));
$refs->kill9_node(1);
$refs_standby->promote;
my $promoted = $refs->safe_psql('SELECT max(n) FROM r');
is($refs->safe_psql($join), "$promoted|20", 'a promoted standby, on a newer timeline, goes on');
$refs->safe_psql('UPDATE r SET n = n + 1');
is($refs->safe_psql($join), ($promoted + 1) . '|20', 'and is written');
$refs->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET host '%s', SET port '%d', DROP target_session_attrs)}, $refs_host, $refs_port);
$refs->start_node(1);
$refs->node_safe_psql(1, 'SELECT pg_switch_wal(); CREATE TABLE much AS SELECT generate_series(1, 10000); SELECT pg_switch_wal(); DROP TABLE much; SELECT pg_switch_wal()');
reference_is_refused('the former primary, on an older timeline, whatever its position');
$refs->safe_psql(q{SELECT shardfdw.enable_node('node1')});
reference_is_equal('the former primary', $promoted + 1);

# When the last reference table is dropped by any role, its positions must go. If the drop is rolled
# back, the positions must stay.
{
	my $noted = q{SELECT count(*) > 0 FROM shardfdw_internal.node_position WHERE NOT of_replicas};

	$refs->safe_psql(q{DROP TABLE p; CREATE TABLE saved AS TABLE r; SELECT shardfdw.unshard_table('other')});
	is($refs->safe_psql($noted), 't', 'positions stay while there is a reference table');
	$refs->safe_psql('BEGIN; UPDATE r SET n = n + 1; SAVEPOINT a; DROP TABLE r; ROLLBACK TO a; COMMIT');
	is($refs->safe_psql($noted), 't', 'and after a drop that is undone');
	save_node1();
	$refs->safe_psql('BEGIN; UPDATE r SET n = n + 1; SAVEPOINT a; DROP TABLE r; ROLLBACK TO a; COMMIT');
	restore_node1();
	like(($refs->psql('UPDATE r SET n = n + 1'))[2], $refused, 'what the transaction has written counts');
	$refs->safe_psql(q{SELECT shardfdw.enable_node('node1'); DROP TABLE r});
	is($refs->safe_psql($noted), 'f', 'DROP TABLE of the last one deletes them');
	$refs->safe_psql(q{CREATE TABLE r (id int PRIMARY KEY, n int); INSERT INTO r VALUES (1, 1); SELECT shardfdw.create_reference_table('r'); UPDATE r SET n = 2});
	is($refs->safe_psql($noted), 't', 'a new one notes some');
	save_node1();
	$refs->safe_psql(q{SELECT shardfdw.unshard_table('r')});
	is($refs->safe_psql($noted), 'f', 'unshard_table() of the last one deletes them, too');
	restore_node1();
	is($refs->safe_psql(q{SELECT count(*) FROM shardfdw.query_nodes('{node1}', '{SELECT 1}')}), 1, 'a node with an older state is used then');
	$refs->node_safe_psql(1, 'DROP TABLE r');
	$refs->safe_psql(q{SELECT shardfdw.create_reference_table('r'); SELECT shardfdw.create_reference_table('other'); UPDATE r SET n = n + 1; CREATE TABLE p (id int)});
}

# Two sessions drop the last two reference tables. The second one sees that the first one has
# committed.
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 2
		unless $refs->safe_psql(q{LOAD 'shardfdw';
			SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	my $marker = $refs->coordinator->data_dir . '/shardfdw_fault_prepared';

	append_to_file($marker, '');
	$refs->set_faults('prepared=wait');
	my @drops = map { $refs->start_sql("DROP TABLE $_") } 'r', 'other';
	$refs->wait_for('SELECT count(*) = 2 FROM pg_prepared_xacts', $_) for 1, 2;
	unlink $marker;
	$refs->set_faults('');
	is(join('', map { ($refs->wait_sql($_))[2] } @drops), '', 'two sessions drop the last two');
	is($refs->safe_psql('SELECT count(*) FROM shardfdw_internal.node_position'), 0, 'no position is left');
	$refs->safe_psql(q{CREATE TABLE r (id int PRIMARY KEY, n int); INSERT INTO r VALUES (1, 1);
		CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1);
		SELECT shardfdw.create_reference_table('r'); SELECT shardfdw.create_reference_table('other')});
}

# another server of the name
$refs->safe_psql(q{DROP TABLE p; SET client_min_messages = error; SELECT shardfdw.remove_node('node1')});
is($refs->safe_psql(q{SELECT count(*) FROM shardfdw_internal.node_position WHERE server = 'node1'}), 0, 'positions of a node that was removed are forgotten');
$refs->node_safe_psql(1, 'DROP TABLE r CASCADE; DROP TABLE other');
$refs->safe_psql(sprintf q{SELECT shardfdw.add_node('node1', '%s', %d, 'postgres')}, $refs_host, $refs_port);
$refs->safe_psql('UPDATE r SET n = n + 1; DROP SERVER node1 CASCADE');
$refs->node_safe_psql(1, 'DROP TABLE r CASCADE; DROP TABLE other');
$refs->safe_psql(sprintf q{SELECT shardfdw.add_node('node1', '%s', %d, 'postgres')}, $refs_host, $refs_port);
$refs->safe_psql('UPDATE r SET n = n + 1');
is($refs->safe_psql(ShardCluster::problems(q{check_cluster('rows')})), '', 'nor do they bind a new one');

done_testing();
