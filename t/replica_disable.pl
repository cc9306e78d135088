# Tests disable_node() and enable_node() on clusters of two and of three nodes. Nodes are really
# gone, and the coordinator crashes. DISABLE_CRASHES is the number of crashes of the coordinator on
# two nodes, and again on three nodes.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $crashes = $ENV{DISABLE_CRASHES} // (ShardCluster::halved() ? 1 : 2);

# With these settings, a crash loses each commit that no code flushes.
my $lazy = "synchronous_commit = off\nwal_writer_delay = 10s\nwal_writer_flush_after = 0\n";

sub differences
{
	my ($c, $table) = @_;
	return $c->safe_psql("SELECT shard, node, role, row_count FROM shardfdw.compare_replicas('$table') WHERE NOT is_equal");
}

sub stale
{
	my ($c) = @_;
	return $c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE stale_replica_nodes <> '{}'});
}

# ---------- two nodes: one of them continues alone ----------

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v text, n bigint DEFAULT 0); INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 200) g;
	SELECT shardfdw.shard_table('t', shards => 4, replication_factor => 2);
	CREATE TABLE plain (LIKE t INCLUDING ALL); INSERT INTO plain SELECT * FROM t});
my $load = PostgreSQL::Test::Utils::tempdir() . '/load.csv';
append_to_file($load, join('', map { "$_,load\n" } 1000 .. 1500));
my @writes = (
	q{UPDATE %s SET v = 'one' WHERE id = 5},
	q{UPDATE %s SET n = n + 1},
	q{INSERT INTO %s VALUES (500, 'one')},
	q{INSERT INTO %s SELECT g, 'many' FROM generate_series(501, 700) g},
	q{INSERT INTO %s VALUES (1, 'again'), (701, 'new') ON CONFLICT (id) DO UPDATE SET v = excluded.v},
	q{DELETE FROM %s WHERE id BETWEEN 20 AND 30},
	qq{COPY %s (id, v) FROM '$load' CSV},
	qq{BEGIN; DELETE FROM %s WHERE id = 1000; COPY %1\$s (id, v) FROM PROGRAM 'head -1 $load' CSV; SAVEPOINT a; DELETE FROM %1\$s; ROLLBACK TO a; COMMIT},
	q{MERGE INTO %s t USING (VALUES (40, 'm'), (800, 'm')) s(i, w) ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = s.w WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.i, s.w)},
	q{UPDATE %s SET id = id + 5000 WHERE id BETWEEN 50 AND 60},
	q{WITH d AS (DELETE FROM %s WHERE id = 61 RETURNING *) INSERT INTO %1$s SELECT id + 7000, v, n FROM d},
	q{BEGIN; UPDATE %s SET n = 7 WHERE id = 1; ALTER TABLE %1$s ADD COLUMN extra int DEFAULT 3; UPDATE %1$s SET extra = 4 WHERE id = 1; COMMIT},
	q{ALTER TABLE %s DROP COLUMN extra},
	q{BEGIN; TRUNCATE %s; INSERT INTO %1$s SELECT g, 'after' FROM generate_series(1, 300) g; COMMIT},
	q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE %s SET n = n + i WHERE id = i; END LOOP; END $$},
	q{BEGIN; DELETE FROM %s WHERE id = 2; SELECT count(*) FROM %1$s; COMMIT},
	q{BEGIN; UPDATE %s SET v = 'undone'; ROLLBACK});
my $rows = q{SELECT count(*), md5(string_agg(x.r, '|' ORDER BY x.r)) FROM (SELECT t::text AS r FROM %s t) x};
for my $gone (1, 2)
{
	my $left = 3 - $gone;

	$c->node($gone)->stop('immediate');
	is($c->safe_psql("SELECT shardfdw.disable_node('node$gone')"), 4, "node $gone of two is disabled");
	for my $sql (@writes)
	{
		my ($rc, $out, $err) = $c->psql(sprintf($sql, 't'), on_error_stop => 1);

		is($err, '', "node $left alone: $sql");
		$c->safe_psql(sprintf($sql, 'plain'));
	}
	is($c->safe_psql(sprintf($rows, 't')), $c->safe_psql(sprintf($rows, 'plain')), 'it has the rows of a plain table');
	is($c->node_safe_psql($left, q{SELECT count(*) FROM pg_prepared_xacts}), 0, 'nothing is left prepared');
	for my $sql ('ALTER TABLE t DROP COLUMN id', 'ALTER TABLE t RENAME v TO w', 'DROP FOREIGN TABLE ' . $c->safe_psql('SELECT shard FROM shardfdw.shards LIMIT 1'))
	{
		my ($rc, $out, $err) = $c->psql($sql);

		like($err, qr/whose shards have replicas|where shards have replicas|because it has replicas/, "node $left alone: $sql");
	}
	my (undef, undef, $err) = $c->psql("SELECT shardfdw.disable_node('node$left')");
	like($err, qr/cannot disable node "node$left" because no other node that answers has the rows of shard/, 'it is not disabled, too');
	$c->node($gone)->start;
	is($c->safe_psql("SELECT shardfdw.enable_node('node$gone')"), 4, "node $gone is enabled");
	is(differences($c, 't'), '', 'its replicas are equal');
	$c->safe_psql(qq{TRUNCATE t, plain; INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 200) g; INSERT INTO plain SELECT * FROM t});
	is(differences($c, 't'), '', 'and stay so');
}

# ---------- tables that are dropped while a node is disabled ----------

for my $end ('DROP TABLE t', q{SELECT shardfdw.unshard_table('t')}, 'DROP SCHEMA public CASCADE; CREATE SCHEMA public')
{
	$c->node(2)->stop('immediate');
	$c->safe_psql(q{SELECT shardfdw.disable_node('node2')});
	$c->safe_psql($end);
	$c->node(2)->start;
	is($c->safe_psql(q{SELECT node, detail FROM shardfdw.check_cluster() WHERE check_name = 'replicas'}), 'node2|replicas of 4 dropped or moved shards are still there; enable_node() drops them', "$end while a node is disabled");
	$c->safe_psql(q{SELECT shardfdw.enable_node('node2')});
	is($c->node_safe_psql(2, q{SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace}), 0, 'enable_node() drops what is left there');
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE check_name = 'replicas'}), 0, 'and then nothing is left to say');
	$c->safe_psql(q{DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v text, n bigint DEFAULT 0); SELECT shardfdw.shard_table('t', shards => 4, replication_factor => 2)});
}

# ---------- transactions that use the tables in another order ----------

$c->safe_psql(q{CREATE TABLE u (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('u', shards => 4, replication_factor => 2); INSERT INTO t VALUES (1); INSERT INTO u VALUES (1, 0)});
{
	my $writer = $c->coordinator->background_psql('postgres');
	my $disabler = $c->coordinator->background_psql('postgres');

	# disable_node() locks t first, and has to wait for u; then the writer requests t
	$writer->query_safe('BEGIN; UPDATE u SET v = v + 1');
	$disabler->{stdin} .= "SELECT shardfdw.disable_node('node1');\n\\echo done\n";
	$disabler->{run}->pump_nb;
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'ExclusiveLock' AND relation = 'u'::regclass});
	$writer->query_safe(q{UPDATE t SET n = n + 1; COMMIT});
	$disabler->query_safe('SELECT 1');
	is(stale($c), 8, 'disable_node() and a transaction that locks the tables the other way round both come to their ends');
	$writer->quit;
	$disabler->quit;
	$c->safe_psql(q{SELECT shardfdw.enable_node('node1')});
	is(differences($c, $_), '', "replicas of $_ are equal") for qw(t u);
}

# ---------- several administrators at the same time ----------
# Only one call at a time may lock tables. Otherwise calls that lock one table after the other could
# deadlock.

{
	my $writer = $c->coordinator->background_psql('postgres');
	my @calls = (q{SELECT shardfdw.disable_node('node1')}, q{SELECT count(*) FROM shardfdw.compare_replicas('t')}, q{SELECT count(*) FROM shardfdw.check_cluster('rows')});
	my @clients;

	$writer->query_safe('BEGIN; UPDATE u SET v = v + 1');
	for my $i (0 .. $#calls)
	{
		my $type = $i == 0 ? 'relation' : 'advisory';

		push @clients, $c->start_sql($calls[$i], name => "administrator_$i");
		$c->wait_for(qq{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = '$type' AND a.application_name = 'administrator_$i')});
	}
	is($c->safe_psql(q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.locktype = 'relation' AND l.mode LIKE '%Exclusive%' AND l.relation IN ('t'::regclass, 'u'::regclass) AND a.application_name IN ('administrator_1', 'administrator_2')}),
		0, 'administrators who wait for another one lock no table');
	$writer->query_safe('UPDATE t SET n = n + 1; COMMIT');
	$writer->quit;
	for my $i (0 .. $#calls)
	{
		my (undef, undef, $err) = $c->wait_sql($clients[$i]);

		unlike($err, qr/ERROR/, "$calls[$i] comes to its end");
	}
	$c->safe_psql(q{SELECT shardfdw.enable_node('node1')});
	is(differences($c, $_), '', "replicas of $_ are equal") for qw(t u);
}

# ---------- tables that are being sharded, or another call that has not ended ----------
# Who waits for another session has its list of tables from after that.

sub after_open
{
	my ($cluster, $open, $call) = @_;
	my $other = $cluster->coordinator->background_psql('postgres');

	$other->query_safe("BEGIN; $open");
	my $caller = $cluster->start_sql($call, name => 'caller');
	$cluster->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name = 'caller')
		OR EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'caller' AND state = 'idle') OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'caller')});
	$other->query_safe('COMMIT');
	$other->quit;
	my ($rc, $out, $err) = $cluster->wait_sql($caller);
	return $err =~ /ERROR/ ? $err : $out;
}

$c->safe_psql('CREATE TABLE late (id int PRIMARY KEY)');
is(after_open($c, q{SELECT shardfdw.shard_table('late', shards => 2, replication_factor => 2)}, q{SELECT shardfdw.disable_node('node1')}), 10, 'disable_node() while a table is sharded');
is(stale($c), 10, 'of that table, too, replicas are stale');
is(after_open($c, q{DROP TABLE late; SELECT shardfdw.disable_node('node1')}, q{SELECT shardfdw.enable_node('node1')}), 8, 'enable_node() while a table is dropped');
is(after_open($c, q{SELECT shardfdw.disable_node('node1')}, q{SELECT shardfdw.enable_node('node1')}), 8, 'enable_node() while the node is disabled');
$c->safe_psql('CREATE TABLE late (id int PRIMARY KEY)');
like(after_open($c, q{SELECT shardfdw.disable_node('node1')}, q{SELECT shardfdw.shard_table('late', colocate_with => 't', shards => NULL)}), qr/cannot colocate with "public.t" because replicas of it are stale/, 'a table is sharded while the node is disabled');
$c->safe_psql(q{SELECT shardfdw.enable_node('node1'); DROP TABLE late});
is(stale($c), 0, 'no replica is stale');

# ---------- tables that are dropped while a session reads all of them ----------

my $nlooks = 0;
for my $look ('SELECT count(*) FROM shardfdw.check_cluster()', 'SELECT count(*) FROM shardfdw.check_cluster($$rows$$)', 'SELECT count(*) FROM shardfdw.tables',
	'SELECT count(*) FROM shardfdw.shards', q{SELECT shardfdw.disable_node('node1')}, q{SELECT shardfdw.enable_node('node1')})
{
	for my $make (q{SELECT shardfdw.shard_table('gone', shards => 2, replication_factor => 2)}, q{SELECT shardfdw.shard_table('gone', shards => 2)}, q{SELECT shardfdw.create_reference_table('gone')})
	{
		next unless ShardCluster::in_half($nlooks++);
		my $dropper = $c->coordinator->background_psql('postgres');

		$c->safe_psql("CREATE TABLE gone (id int PRIMARY KEY, v int CHECK (v > 0)); CREATE INDEX ON gone (v) WHERE v > 1; $make");
		$dropper->query_safe('BEGIN; DROP TABLE gone');
		my $looker = $c->start_sql($look, name => 'looker');
		# when it waits for the table, its list contains the table
		$c->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name = 'looker') OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'looker' AND state = 'active')});
		$dropper->query_safe('COMMIT');
		$dropper->quit;
		my ($rc, $out, $err) = $c->wait_sql($looker);
		is($err =~ /ERROR/ ? $err : $rc, 0, "a table is dropped during $look: $make");
	}
}
is($c->safe_psql(ShardCluster::problems(q{check_cluster('rows')})), '', 'and nothing is left');

# ---------- crashes of the coordinator ----------

# Disables a node, writes rows, and crashes the coordinator. The disabled state and the rows must
# stay.
sub crash_around
{
	my ($cluster, $nnodes) = @_;
	my $lost = 0;
	my $back = 0;
	my $unequal = '';

	$cluster->coordinator->append_conf('postgresql.conf', $lazy);
	$cluster->coordinator->restart;
	$cluster->safe_psql(q{CREATE TABLE crashed (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('crashed', shards => 6, replication_factor => 2); INSERT INTO crashed SELECT g, 0 FROM generate_series(1, 60) g});
	for my $round (1 .. $crashes)
	{
		my $gone = 1 + $round % $nnodes;
		my $sum = $cluster->safe_psql('SELECT sum(v) FROM crashed');

		$cluster->node($gone)->stop('immediate');
		$cluster->safe_psql("SELECT shardfdw.disable_node('node$gone')");
		# one by one: a single node commits them by itself
		$cluster->safe_psql("UPDATE crashed SET v = v + 1 WHERE id = $_") for 1 + $round % 7 .. 10 + $round % 7;
		$cluster->coordinator->stop('immediate');
		$cluster->node($gone)->start;
		$cluster->coordinator->start;
		$back++ if $cluster->safe_psql("SELECT count(*) FROM shardfdw.shards WHERE relation = 'crashed'::regclass AND ('node$gone' = ANY (replica_nodes) OR node = 'node$gone')");
		$lost++ if $cluster->safe_psql('SELECT sum(v) FROM crashed') != $sum + 10;
		$cluster->safe_psql("SELECT shardfdw.enable_node('node$gone')");
		$cluster->safe_psql('UPDATE crashed SET v = v + 1 WHERE id = 1');
		$cluster->coordinator->stop('immediate');
		$cluster->coordinator->start;
		$lost++ if $cluster->safe_psql('SELECT sum(v) FROM crashed') != $sum + 11;
		$unequal .= differences($cluster, 'crashed');
	}
	is($back, 0, "$nnodes nodes, $crashes crashes: a disabled node stays disabled");
	is($lost, 0, 'no row is lost');
	is($unequal, '', 'all replicas are equal');
	return;
}

crash_around($c, 2);

my $ring = ShardCluster->new(nodes => 3);

# ---------- shards whose replicas were moved away from a disabled node ----------
# enable_node() drops their former tables on the node, and then tables with the same names can be
# created there

$ring->safe_psql(q{CREATE TABLE kept (id int PRIMARY KEY); SELECT shardfdw.shard_table('kept', shards => 3, replication_factor => 2, nodes => '{node1,node2}')});
for my $end (q{SELECT shardfdw.move_replica(shard, 'node2', 'node3') FROM shardfdw.shards WHERE relation = 't'::regclass},
	q{DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 2, replication_factor => 2, nodes => '{node1,node3}')})
{
	$ring->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 2, replication_factor => 2, nodes => '{node1,node2}'); INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g});
	$ring->node(2)->stop('immediate');
	$ring->safe_psql(q{SELECT shardfdw.disable_node('node2')});
	$ring->safe_psql($end);
	$ring->node(2)->start;
	like($ring->safe_psql(q{SELECT string_agg(detail, ' ') FROM shardfdw.check_cluster() WHERE check_name = 'replicas' AND node = 'node2'}), qr/replicas of 2 dropped or moved shards are still there; enable_node\(\) drops them/, "a node is disabled, then: $end");
	is($ring->safe_psql(q{SELECT shardfdw.enable_node('node2')}), 3, 'the shards of another table are made there anew');
	is($ring->node_safe_psql(2, q{SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname LIKE 't\_%'}), 0, 'what is left there is dropped');
	is($ring->safe_psql(q{SELECT count(*) FROM shardfdw_internal.left_shard}), 0, 'and forgotten');
	$ring->safe_psql(q{SELECT shardfdw.move_replica(shard, 'node3', 'node2') FROM shardfdw.shards WHERE relation = 't'::regclass});
	is($ring->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE relation = 't'::regclass AND 'node2' = ANY (replica_nodes || node)}), 2, 'shards of that name are moved there');
	is(differences($ring, 't'), '', 'and are equal');
	$ring->safe_psql('DROP TABLE t');
}
$ring->safe_psql('DROP TABLE kept');

# ---------- a table that is left on a node, with a name that another coordinator uses now ---------

$ring->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY); SELECT shardfdw.shard_table('t', shards => 2, replication_factor => 2, nodes => '{node1,node2}'); SELECT shardfdw.disable_node('node2'); DROP TABLE t});
# by hand, with the triggers that note changes
$ring->node_safe_psql(2, q{DO $$ DECLARE c text; BEGIN FOR c IN SELECT format('DROP TABLE %s', c.oid::regclass) FROM pg_class c WHERE c.relkind = 'r' AND c.relname ~ '^(t_0|shardfdw_notes_)'
	UNION ALL SELECT format('DROP FUNCTION %s', f.oid::regprocedure) FROM pg_proc f WHERE f.proname ~ '^shardfdw_notes_' LOOP EXECUTE c; END LOOP; END $$});
$ring->safe_psql('CREATE DATABASE second');
my $second = sub { return $ring->coordinator->safe_psql('second', @_) };
$second->('SET client_min_messages = error; CREATE EXTENSION shardfdw');
$second->(sprintf q{SET client_min_messages = error; SELECT shardfdw.add_node('node%d', '%s', %d, 'postgres')}, $_, $ring->node_address($_)) for 1, 2;
$second->(q{CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10); SELECT shardfdw.shard_table('t', shards => 2, replication_factor => 2)});
my (undef, undef, $spared) = $ring->psql(q{SELECT shardfdw.enable_node('node2')});
like($spared, qr/WARNING:  table public\.t_0[01] is not dropped because it is a shard of another coordinator/, 'enable_node() does not drop what is of another coordinator');
is($ring->safe_psql('SELECT count(*) FROM shardfdw_internal.left_shard'), 0, 'and forgets it');
is($second->(q{SELECT count(*) FROM shardfdw.compare_replicas('t') WHERE is_equal AND row_count > 0}), 4, 'which has all of its replicas');
$second->('DROP TABLE t');
$ring->safe_psql('DROP DATABASE second');

# ---------- a node that is removed while a table is sharded ----------

$ring->safe_psql('CREATE TABLE late (id int PRIMARY KEY)');
like(after_open($ring, q{SELECT shardfdw.shard_table('late', shards => 1, replication_factor => 2, nodes => '{node1,node3}')}, q{SELECT shardfdw.remove_node('node3')}), qr/cannot remove node "node3" because it holds replicas of shards/, 'remove_node() while a table is sharded');
$ring->safe_psql('DROP TABLE late');

# ---------- three nodes, two of which are lost ----------
# For tables of clerk, enable_node() checks the owners of tables on nodes. It does not query nodes
# that are lost.

$ring->safe_psql(q{CREATE ROLE clerk; GRANT CREATE ON SCHEMA public TO clerk; GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO clerk});
$ring->safe_psql("CREATE USER MAPPING FOR clerk SERVER node$_ OPTIONS (user 'postgres', password_required 'false')") for 1 .. 3;
for my $order ([ 1, 2, 'postgres' ], [ 2, 1, 'clerk' ], [ 3, 2, 'clerk' ])
{
	my ($one, $two, $role) = @$order;
	my ($left) = grep { $_ != $one && $_ != $two } 1 .. 3;

	$ring->safe_psql(qq{SET ROLE $role; CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 6, replication_factor => 2); INSERT INTO t SELECT g, 0 FROM generate_series(1, 60) g});
	# shards whose rows are on the two nodes only
	my $apart = qq{SELECT shard FROM shardfdw.shards WHERE 'node$left' <> ALL (replica_nodes || node) AND relation = 't'::regclass};
	my $here = qq{shardfdw.shard_for('t', id)::text NOT IN (} . join(', ', map { "'$_'" } split /\n/, $ring->safe_psql($apart)) . ')';
	my $nhere = $ring->safe_psql("SELECT count(*) FROM t WHERE $here");
	$ring->node($_)->stop('immediate') for $one, $two;
	for my $gone ($one, $two)
	{
		my ($rc, $out, $err) = $ring->psql("SELECT shardfdw.disable_node('node$gone')");

		cmp_ok($out, '>', 0, "nodes $one and $two are gone: node $gone is disabled");
		like($err, qr/WARNING:  2 shards stay as they are on node "node$gone" because no other node that answers has their rows/, 'but for shards that are on the two alone');
	}
	my @ids = split /\n/, $ring->safe_psql("SELECT g FROM generate_series(1, 60) g WHERE " . $here =~ s/\bid\b/g/r);
	is(scalar(@ids), $nhere, 'the others are complete');
	$ring->safe_psql("UPDATE t SET v = v + 1 WHERE id = $_") for @ids[ 0 .. 9 ];
	is($ring->safe_psql("SELECT sum(v), count(*) FROM t WHERE id IN (" . join(',', @ids) . ')'), "10|$nhere", 'and are written and read');
	my ($rc, $out, $err) = $ring->psql('UPDATE t SET v = v + 100');
	like($err, qr/could not connect to node "node($one|$two)"/, 'a statement on all shards fails');
	# one of them is available again: shards that only it has are used again when it is the primary
	$ring->node($one)->start;
	(undef, my $enabled, $err) = $ring->psql("SELECT shardfdw.enable_node('node$one')");
	cmp_ok($enabled, '>', 0, "node $one is back, and enabled");
	unlike($err, qr/rights on table|stay stale:/, 'with the rights that roles have');
	is($ring->safe_psql("SELECT shardfdw.disable_node('node$two')"), 2, "node $two is disabled once more, for the shards that only node $one had");
	$ring->safe_psql('UPDATE t SET v = v + 1');
	is($ring->safe_psql('SELECT sum(v), count(*) FROM t'), '70|60', 'all rows are there');
	$ring->node($two)->start;
	$ring->safe_psql("SELECT shardfdw.enable_node('node$two')");
	is(differences($ring, 't'), '', 'and all replicas are equal');
	is(stale($ring), 0, 'none is stale');
	$ring->safe_psql('DROP TABLE t');
}
crash_around($ring, 3);

# ---------- no connection to the nodes is free ----------

{
	my $full = ShardCluster->new(
		nodes            => 3,
		preload          => 1,
		coordinator_conf => "shardfdw.max_shared_connections_per_node = 2\n");
	my $locked = q{SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND granted
		AND mode IN ('ExclusiveLock', 'AccessExclusiveLock')};
	my $waits = 'SELECT count(*) > 0 FROM shardfdw.shared_connections WHERE waits';

	$full->safe_psql(q{
		CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v int);
		SELECT shardfdw.shard_table('t', shards => 6, replication_factor => 2);
		SELECT shardfdw.shard_table('u', shards => 3);
		INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
		INSERT INTO u SELECT g, 0 FROM generate_series(1, 100) g});
	for my $call ("SELECT shardfdw.disable_node('node1')", "SELECT shardfdw.enable_node('node1')",
		"SELECT shardfdw.move_replica('t_00', 'node1', 'node3')")
	{
		my $writer = $full->coordinator->background_psql('postgres');

		# the last connection to each node is kept for sessions that have one to another node
		$writer->query_safe('BEGIN; UPDATE u SET v = v + 1');
		my $caller = $full->start_sql($call, name => 'caller');
		$full->wait_for($waits);
		is($full->safe_psql($locked), 0, "$call locks no table while it waits for connections");
		$writer->query_safe('ROLLBACK');
		my ($rc, undef, $err) = $full->wait_sql($caller);
		is($rc, 0, 'and goes on when there are some') or diag($err);
		$writer->quit;
	}
}

# ---------- a coordinator that has taken over, perhaps without all commits ----------
# what is left may be a newer table of that name: its record stays until that is decided

{
	my $next = ShardCluster->new(nodes => 2);
	my $make = q{CREATE TABLE t (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('t', shards => 2, replication_factor => 2)};
	my $predecessor = $next->safe_psql(q{SELECT identity FROM shardfdw_internal.coordinator});
	my $left = q{SELECT count(*) FROM shardfdw_internal.left_shard};
	my $tables = q{SELECT count(*) FROM pg_class WHERE relname LIKE 't\_0_' AND relkind = 'r'};

	$next->safe_psql($make);
	$next->safe_psql('SELECT shardfdw.promote_coordinator()');
	$next->safe_psql(q{SELECT shardfdw.disable_node('node2'); DROP TABLE t});
	my ($rc, undef, $err) = $next->psql(q{SELECT shardfdw.enable_node('node2')});
	is($rc, 0, 'the node is enabled');
	like($err, qr/WARNING:  table public\.t_00 is not dropped because commits of predecessor "$predecessor" may/,
		'a table of the predecessor stays');
	like($err, qr/HINT:  .*resolve_transaction\('$predecessor', 'rollback'\).*enable_node\('node2'\)/,
		'with a hint');
	is($next->safe_psql($left) . $next->node_safe_psql(2, $tables), '22', 'so does its record');
	$next->safe_psql("SELECT shardfdw.resolve_transaction('$predecessor', 'rollback')");
	is(($next->psql(q{SELECT shardfdw.enable_node('node2')}))[2], '', 'when that is decided');
	is($next->safe_psql($left) . $next->node_safe_psql(2, $tables), '00', 'both go');
	is(($next->psql($make))[0], 0, 'tables of the same names can be made');
}

done_testing();
