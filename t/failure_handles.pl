# A backend has few file handles. Connections take the handles that exist, and waits must work
# without one.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

# The smallest value that a server accepts. Core leaves a third of the rest for connections and the
# like.
my $c = ShardCluster->new(nodes => 2, coordinator_conf => "max_files_per_process = 64\n");
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int)});
$c->shard_table('t', 'id', shards => 32);
$c->safe_psql(q{INSERT INTO t SELECT g, g FROM generate_series(1, 2000) g});

# The statements of a session on each of these servers, one after the other.
my @statements = (
	[ 'a merge of all shards', 'SELECT count(*), sum(id) FROM (SELECT id FROM t ORDER BY id OFFSET 0) s' => '2000|2001000' ],
	[ 'the same again', 'SELECT count(*), sum(id) FROM (SELECT id FROM t ORDER BY id OFFSET 0) s' => '2000|2001000' ],
	[ 'two scans at the same time', 'SELECT count(*) FROM (SELECT id FROM t ORDER BY id OFFSET 0) a JOIN (SELECT v FROM t ORDER BY v OFFSET 0) b ON a.id = b.v' => '2000' ],
	[ 'one shard', 'SELECT v FROM t WHERE id = 5' => '5' ],
	[ 'groups', 'SELECT count(*) FROM (SELECT v % 7, count(*) FROM t GROUP BY 1) s' => '7' ],
	[ 'a write to all nodes', 'UPDATE t SET v = v + 1 WHERE id < 9 RETURNING 1' => join("\n", (1) x 8) ],
	[ 'its opposite, row by row', 'UPDATE t SET v = v - 1 + (random() * 0)::int WHERE id < 9 RETURNING 1' => join("\n", (1) x 8) ],
	[ 'core plans each shard', 'SET shardfdw.enable_shard_scan = off; SELECT count(*), sum(v) FROM t' => '2000|2001000' ],
);
for my $connections (1, 2, 5, 6, 7, 8, 16, 64)
{
	my $sql = join("\n", map { ";$_->[1]" } @statements);
	my ($rc, $out, $err) = $c->psql("SET shardfdw.max_connections_per_node = $connections $sql");
	is($rc, 0, "$connections connections to a node: no statement fails");
	is($out, join("\n", map { $_->[2] } @statements), "$connections connections: right answers");
	diag($err) if $rc != 0;
}

# A wait without a handle hears cancels.
my ($rc, $out, $err) = $c->psql(q{SET shardfdw.max_connections_per_node = 64; SELECT count(*) FROM (SELECT id FROM t ORDER BY id OFFSET 0) s;
	SET statement_timeout = '500ms'; SELECT count(*) FROM (SELECT id FROM t ORDER BY id OFFSET 0) a, LATERAL (SELECT pg_sleep(60) FROM t WHERE t.id = a.id) b; SELECT 1});
like($err, qr/canceling statement due to statement timeout/, 'a statement that waits is cancelled');

# Many cursors, each of which waits for separate sockets.
my $cursors = join("\n", map { "DECLARE c$_ SCROLL CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 1 FROM c$_;" } 1 .. 40);
($rc, $out, $err) = $c->psql("SET shardfdw.max_connections_per_node = 1; BEGIN; $cursors FETCH 2 FROM c1; COMMIT");
is($rc, 0, 'forty cursors at the same time');
is($out, join("\n", (1) x 40, 2, 3), 'they give their rows');
diag($err) if $rc != 0;

done_testing();
