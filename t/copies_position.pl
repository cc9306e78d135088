# A node with copies of shards that comes back with older data, before anybody has disabled it: it is not connected to. So it neither
# gives old rows nor has them written to the other nodes.

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

$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 4, copies => 2); INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
	CREATE TABLE single (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('single', shards => 2, nodes => '{node1}')});

sub differences { return $c->safe_psql(q{SELECT shard, node FROM shardfdw.compare_copies('t') WHERE NOT is_equal}); }

# How many primaries node1 has.
sub primaries { return $c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE table_name = 't' AND node = 'node1'}); }

# Looks at what must hold while node1 is refused; $sum: of the rows. Then has its copies made again.
sub refused_and_made_again
{
	my ($sum, $what) = @_;

	is($c->safe_psql('SELECT count(*), sum(v) FROM t'), "100|$sum", "$what: reads give the rows of the other node");
	is($c->safe_psql("SELECT count(*), sum(v) FROM t WHERE id BETWEEN 1 AND $_"), $c->safe_psql("SELECT count(*), sum(v) FROM t WHERE id <= $_"), 'whatever they read') for 1, 50;
	for my $sql ('UPDATE t SET v = v + 1', 'UPDATE t SET v = v + 1 WHERE id = 1; UPDATE t SET v = v + 1 WHERE id = 2; UPDATE t SET v = v + 1 WHERE id = 3; UPDATE t SET v = v + 1 WHERE id = 4', 'INSERT INTO t SELECT g FROM generate_series(200, 300) g', 'TRUNCATE t',
		q{COPY t (id) FROM PROGRAM 'seq 200 300'}, 'DELETE FROM t', 'SELECT count(*) FROM single', primaries() ? 'SELECT * FROM t FOR UPDATE' : ())
	{
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

# what a node wrote alone, while the other one was disabled
$c->safe_psql(q{SELECT shardfdw.disable_node('node2'); UPDATE t SET v = v + 1});
save();
$c->safe_psql('UPDATE t SET v = v + 1 WHERE id = 1');
$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
my $alone = $c->safe_psql('SELECT sum(v) FROM t');
restore();
refused_and_made_again($alone, 'an older state, without what the node wrote alone');

# the same while the other one is still disabled: nobody else has these rows
for my $change ('UPDATE t SET v = v + 10 WHERE id = 1', 'UPDATE t SET v = v + 10', 'INSERT INTO t SELECT 1000, 1', 'BEGIN; UPDATE t SET v = v + 1 WHERE id = 1; SET CONSTRAINTS ALL IMMEDIATE; COMMIT', 'DELETE FROM t WHERE id = 99',
	q{COPY t FROM PROGRAM 'seq -f "100%g,1" 4' (DELIMITER ',')}, 'ALTER TABLE t ALTER v SET NOT NULL', 'TRUNCATE t')
{
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

# ---------- a node whose copies are gone ----------

$c->safe_psql('DROP TABLE t');
$c->safe_psql(q{INSERT INTO single VALUES (1, 1)});
save();
restore();
is($c->safe_psql('SELECT count(*) FROM single'), 1, 'what has no copies is as it is');

done_testing();
