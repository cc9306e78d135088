# Tests key joins and correlated sub-selects: how many queries nodes get, what a failure during a
# join leaves behind, and the use of memory.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $c = ShardCluster->new(nodes => 2);

$c->safe_psql(q{
	CREATE TABLE big (id int NOT NULL, grp int, v int, pad text);
	CREATE TABLE slow (id int NOT NULL, grp int);
	CREATE TABLE small AS SELECT i AS k, i % 97 AS grp FROM generate_series(1, 3000) i;
	ANALYZE small});
$c->shard_table('big', 'id', shards => 4);
$c->shard_table('slow', 'id', shards => 4);
$c->safe_psql(q{
	INSERT INTO big SELECT i, i % 1000, i % 7, repeat('x', 50) FROM generate_series(1, 60000) i;
	INSERT INTO slow SELECT i, i % 100 FROM generate_series(1, 60000) i;
	ANALYZE big; ANALYZE slow});

# Number of queries with SELECT that a statement sends, and its output.
sub count_queries
{
	my ($query, @settings) = @_;
	my $position = $c->log_position;
	my $out = $c->safe_psql(join('', map { "SET $_; " } 'shardfdw.log_min_remote_duration = 0', @settings) . $query);
	my $log = $c->log_since($position);
	my $count = () = $log =~ /SELECT .* FROM public\.(?:big|slow)_0/g;

	return ($count, $out);
}

my @kept = ('enable_hashjoin = off', 'enable_mergejoin = off', 'enable_nestloop = off');

# One query per shard and batch, for any number of outer rows.
my ($n, $out) = count_queries('SELECT count(*), sum(b.v) FROM small s JOIN big b ON b.id = s.k', @kept);
is($out, '3000|8998', 'join: result');
is($n, 4, 'join: one batch, one query per shard');
($n, $out) = count_queries('SELECT count(*), sum(b.v) FROM small s JOIN big b ON b.id = s.k WHERE s.k = 77', @kept);
is($out, '1|0', 'join with one key: result');
is($n, 1, 'join with one key: only its shard is asked');
($n, $out) = count_queries('SELECT count(*) FROM small s JOIN big b ON b.id = s.k WHERE s.k < 0', @kept);
is("$n $out", '0 0', 'join without outer rows: nothing is asked');
($n, $out) = count_queries('SELECT count(*) FROM small s LEFT JOIN big b ON b.id = NULLIF(s.k, s.k)', @kept);
is("$n $out", '0 3000', 'join without keys: nothing is asked');

# Many keys for an index look-up are hidden from the nodes' planners. Other keys are not.
my $looked_up = 'SELECT count(*), sum(b.v) FROM small s JOIN big b ON b.v = s.k';
my $remote_sql = sub { join("\n", grep { /Remote SQL/ } split /\n/, $c->safe_psql(join('', map { "SET $_; " } @kept) . "EXPLAIN (VERBOSE) $_[0]")) };
my $expected = $c->safe_psql($looked_up);
unlike($remote_sql->($looked_up), qr/SELECT \$1::/, 'keys without an index are seen');
$c->safe_psql('CREATE INDEX big_v ON big (v)');
like($remote_sql->($looked_up), qr/v = ANY \(\(\(SELECT \$1::/, 'keys with an index are not');
unlike($remote_sql->("$looked_up WHERE s.k < 20"), qr/SELECT \$1::/, 'few keys are');
is((count_queries($looked_up, @kept))[1], $expected, 'keys that are not seen: result');
$c->safe_psql('DROP INDEX big_v');

# Correlated sub-selects: not one query per outer row.
for my $case (
	['aggregate', 'SELECT sum((SELECT sum(b.v) FROM big b WHERE b.grp = s.grp)) FROM small s'],
	['value', 'SELECT sum((SELECT b.v FROM big b WHERE b.id = s.k)) FROM small s'],
	['exists', 'SELECT count(*) FROM small s WHERE s.k < 5 OR EXISTS (SELECT FROM big b WHERE b.grp = s.grp AND b.v = 3)'])
{
	my ($name, $query) = @$case;
	my ($turned, $result) = count_queries($query);
	my ($plain) = $c->safe_psql("CREATE TEMP TABLE plain AS SELECT * FROM big; CREATE INDEX ON plain (grp); CREATE INDEX ON plain (id); SET shardfdw.enable_decorrelation = off; " . $query =~ s/big b/plain b/r);

	cmp_ok($turned, '<=', 4, "correlated sub-select, $name: one query per shard");
	is($result, $plain, "correlated sub-select, $name: result");
}

# A wrong guess: the outer side is a hundred times larger than the planner thinks. The number of batches stays small.
$c->safe_psql(q{
	CREATE FUNCTION few() RETURNS SETOF int LANGUAGE plpgsql ROWS 10 AS
		$$BEGIN RETURN QUERY SELECT generate_series(1, 40000); END$$});
($n, $out) = count_queries('SELECT count(*), sum(b.v) FROM few() f JOIN big b ON b.id = f', 'work_mem = \'64MB\'');
is($out, '40000|119997', 'many more rows than expected: result');
is($n, 4, 'many more rows than expected: one batch all the same');
($n, $out) = count_queries('SELECT count(*) FROM (SELECT FROM few() f JOIN big b ON b.id = f LIMIT 3) x', 'work_mem = \'64MB\'', @kept);
is($out, '3', 'a few rows are asked for: result');
cmp_ok($n, '<=', 4, 'a few rows are asked for: one batch');
($n, $out) = count_queries('SELECT count(*), sum(b.v) FROM few() f JOIN big b ON b.id = f', 'work_mem = \'64kB\'');
is($out, '40000|119997', 'little memory: result');
cmp_ok($n, '<', 400, 'little memory: batches of some hundred rows');

# A node that hangs, and one that crashes. The session continues.
my ($shard, $node) = @{ ($c->shards_of('slow'))[-1] };
$c->node_safe_psql($node, "ALTER TABLE $shard RENAME TO real_rows; CREATE VIEW $shard AS SELECT r.* FROM real_rows r, pg_sleep(600)");
my $start = time;
my ($rc, $stdout, $stderr) = $c->psql(
	"SET statement_timeout = '500ms'; SELECT count(*) FROM small s JOIN slow b ON b.grp = s.grp;\n" .
	'SET statement_timeout = 0; SELECT count(*) FROM small s JOIN big b ON b.id = s.k', on_error_stop => 0);
like($stderr, qr/canceling statement due to statement timeout/, 'timeout while keys are with a node');
cmp_ok(time - $start, '<', 10, 'soon');
like($stdout, qr/^3000$/m, 'the session goes on');
$c->node_safe_psql($node, "DROP VIEW $shard; ALTER TABLE real_rows RENAME TO $shard");

($rc, $stdout, $stderr) = $c->psql(q{
	DECLARE h CURSOR WITH HOLD FOR SELECT 1;
	BEGIN;
	DECLARE q CURSOR FOR SELECT s.k, b.v, 1 / (b.v - 3) FROM small s JOIN big b ON b.id = s.k;
	SAVEPOINT a;
	FETCH ALL FROM q;
	ROLLBACK TO a;
	SELECT count(*) FROM small s JOIN big b ON b.id = s.k;
	COMMIT;}, on_error_stop => 0);
like($stderr, qr/division by zero/, 'error in mid-way');
like($stdout, qr/^3000$/m, 'the transaction goes on');

# In rounds: a row that moves between the rounds from the last shards to the first ones is still
# found.
$c->safe_psql(q{
	CREATE TABLE moved (id int NOT NULL, k int);
	CREATE FUNCTION gate(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
		$$BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN true; END$$;
	CREATE TABLE wanted AS SELECT generate_series(1, 1000) AS k UNION ALL SELECT 5000});
$c->shard_table('moved', 'id', shards => 4);
$c->safe_psql('INSERT INTO moved SELECT i, i % 1000 + 1 FROM generate_series(1, 10000) i; ANALYZE moved; ANALYZE wanted');
my %of_node;
push @{ $of_node{ $_->[1] } }, $_->[0] for $c->shards_of('moved');
my ($to, $from) = map { $c->safe_psql("SELECT i FROM generate_series(20000, 21000) i WHERE shardfdw.shard_for('moved', i)::text = '$_' LIMIT 1") } @{ $of_node{1} };
$c->safe_psql("INSERT INTO moved VALUES ($from, 5000)");
my $mover = WireClient->new($c->coordinator, 'postgres');
my $joiner = WireClient->new($c->coordinator, 'postgres', application_name => 'joiner');
$joiner->query("SET $_") for @kept, 'shardfdw.log_min_remote_duration = 0';
$mover->query('SELECT pg_advisory_lock(42)');
my $position = $c->log_position;
$joiner->start_query('SELECT count(*) FROM wanted s WHERE NOT EXISTS (SELECT FROM moved b WHERE b.k = s.k AND gate(b.id + s.k))');
$c->wait_for("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE application_name = 'joiner'");
is($mover->query("UPDATE moved SET id = $to WHERE id = $from")->{tags}[0], 'UPDATE 1', 'a row moves between rounds');
$mover->query('SELECT pg_advisory_unlock(42)');
is($joiner->finish_query->{rows}[0][0], '0', 'and is found where it was');
my @rounds = $c->log_since($position) =~ /SELECT [^\n]* FROM public\.(moved_0\d)/g;
is(scalar(@rounds), 4, 'each shard has been asked once');
is(join(' ', sort @rounds[0, 1]), join(' ', sort map { $_->[0] } values %of_node), 'one of each node first');
is($joiner->query('SELECT count(*) FROM wanted s WHERE EXISTS (SELECT FROM moved b WHERE b.k = s.k AND gate(b.id + s.k))')->{rows}[0][0], '1001', 'and then where it is');
$_->close for $mover, $joiner;

# Work of the nodes must not cause compilation of expressions on the coordinator. Core would
# compile, by the cost of the whole plan.
my $join = 'SELECT count(*) FROM (SELECT * FROM small WHERE k < 20) s JOIN big b ON b.grp = s.grp AND b.pad LIKE $$%y%$$';
my ($cost) = $c->safe_psql(join '', (map { "SET $_; " } @kept), "EXPLAIN $join") =~ /ShardKeyJoin.*?\.\.([\d.]+)/;
my (undef, undef, $plan) = $c->psql(join '', (map { "SET $_; " } @kept, 'jit = on', 'client_min_messages = log', 'debug_print_plan = on', 'debug_pretty_print = off', 'jit_above_cost = ' . $cost / 2), $join);
like($plan, qr/CUSTOMSCAN/, 'a key join whose cost is mostly that of nodes');
unlike($plan, qr/:jitFlags [1-9]/, 'is not compiled');

# A function that joins is called within a join. Each execution has separate keys.
$c->safe_psql(q{
	CREATE FUNCTION joined(g int) RETURNS bigint LANGUAGE sql VOLATILE AS
		'SELECT count(*) FROM small s JOIN big b ON b.id = s.k WHERE s.grp = g'});
is($c->safe_psql('SELECT count(*), sum(joined(s.grp)) FROM small s JOIN big b ON b.id = s.k WHERE s.k <= 5'), '5|155',
	'a join inside a join');

done_testing();
