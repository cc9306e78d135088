# EXPLAIN of scans must show the node's plan, in all formats, with and without values of parameters.
# Also tests errors on the node, and auto_explain.

use strict;
use warnings;

use IPC::Run ();
use ShardCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardCluster->new(nodes => 2, coordinator_conf => "shared_preload_libraries = 'shardfdw, auto_explain'\nshardfdw.enable_router = off\nshardfdw.query_per_node = off\n",
	node_conf => "log_statement = all\n");
my $major = $c->safe_psql("SELECT current_setting('server_version_num')::int / 10000");

$c->safe_psql(q{
	CREATE TABLE t (id int, grp int, v text COLLATE "C");
	CREATE FUNCTION plan_of(query text, options text) RETURNS json LANGUAGE plpgsql AS $$
	DECLARE plan json;
	BEGIN
		EXECUTE 'EXPLAIN (VERBOSE, FORMAT json, ' || options || ') ' || query INTO plan;
		RETURN plan->0->'Plan';
	END$$});
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql(q{INSERT INTO t SELECT g, g % 5, md5(g::text) FROM generate_series(1, 800) g});

sub explain_query
{
	my ($query, $options, %opt) = @_;
	my $on = $opt{remote} // 'on';
	return $c->safe_psql("SET shardfdw.explain_remote = $on; " . ($opt{before} // '') . " EXPLAIN ($options) $query");
}

# ---------- text ----------

my $rows = 'SELECT id, v FROM t WHERE grp = 3';
my $plan = explain_query($rows, 'VERBOSE, COSTS off');
like($plan, qr/^  Remote Plan:\n    Seq Scan on public\.t_00 r1\n      Output: .*\n      Filter: \(r1\.grp = 3\)$/m,
	'the plan of a node is shown line by line');
unlike($plan, qr/actual|per Query/, 'nothing has been run for it');
unlike(explain_query($rows, 'COSTS off'), qr/Remote Plan/, 'not without VERBOSE');
unlike(explain_query($rows, 'VERBOSE', remote => 'off'), qr/Remote Plan/, 'not unless it was asked for');
like(explain_query($rows, 'VERBOSE'), qr/Seq Scan on public\.t_00 r1  \(cost=/, 'with costs as here');

$plan = explain_query($rows, 'VERBOSE, ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off');
my $first = $c->safe_psql("SELECT count(*) FROM t WHERE grp = 3 AND tableoid = 't_00'::regclass");
my ($actual) = $plan =~ /Remote Plan:\n +Seq Scan on public\.t_00 r1 \(actual rows=(\d+)/;
is($actual, $first, 'with ANALYZE the node has run the query');
like($plan, qr/Rows Removed by Filter/, 'and says what it has done');
my $expected = $c->safe_psql(
	q{SELECT format('min %s, median %s, max %s', min(n), round(percentile_cont(0.5) WITHIN GROUP (ORDER BY n)::numeric), max(n))
		FROM (SELECT count(*) AS n FROM t WHERE grp = 3 GROUP BY tableoid) x});
like($plan, qr/^ *Rows per Query: \Q$expected\E$/m, 'rows of all queries');
like($plan, qr/^ *Bytes per Query: min \d+, median \d+, max \d+$/m, 'bytes of all queries');
unlike($plan, qr/Time per Query/, 'no times without TIMING');
like(explain_query($rows, 'VERBOSE, ANALYZE'), qr/^ *Time per Query: min [\d.]+, median [\d.]+, max [\d.]+ ms$/m, 'times with it');

# Costs: a LIMIT does not start before the plan below it.
for my $query ('SELECT id FROM t ORDER BY id LIMIT 3', 'SELECT grp, count(*) FROM t GROUP BY grp ORDER BY 2 LIMIT 3', 'SELECT id, max(v) FROM t GROUP BY id ORDER BY 2 LIMIT 3')
{
	my @starts = explain_query($query, 'VERBOSE', remote => 'off') =~ /\(cost=([\d.]+)/g;
	my @order = map { $starts[$_ - 1] >= $starts[$_] ? () : $_ } 1 .. $#starts;
	is("@order", '', "costs of $query");
}

# The plan with one query per node.
$plan = explain_query($rows, 'VERBOSE, ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off', before => 'SET shardfdw.query_per_node = on;');
like($plan, qr/^  Query Per Node: true\n.*^  Connections: 2\n  Remote Plan:\n    Append \(actual rows=\d+.*loops=1\)\n      ->  Seq Scan on public\.t_00 r1 \(actual/ms, 'a query per node: over all of its shards');

# A pruned scan, one without shards, and a join's inner side that is executed never or often.
like(explain_query('SELECT * FROM t WHERE id = 5', 'VERBOSE, COSTS off'), qr/Remote Plan:/, 'one shard');
$plan = explain_query('EXECUTE p(NULL)', 'VERBOSE, ANALYZE',
	before => 'PREPARE p(int) AS SELECT * FROM t WHERE id = $1; SET plan_cache_mode = force_generic_plan;');
like($plan, qr/Shards: 0 of 8/, 'no shard is left');
unlike($plan, qr/Remote Plan:|per Query/, 'no shard, no plan');
like(explain_query('SELECT count(*) FROM t', 'VERBOSE, ANALYZE, COSTS off'),
	qr/Remote Plan:\n +Aggregate.*actual/, 'partial aggregate');

# A condition with thousands of values does not fill the screen.
$plan = explain_query("SELECT v FROM t WHERE grp = ANY ('{" . join(',', 100001 .. 103000) . "}')", 'VERBOSE');
like($plan, qr/Remote Plan:(?s:.)*Filter: \(r1\.grp = ANY \('\{100001,[0-9,]{4000,4100}\.\.\.$/m, 'long lines are cut');

# ---------- other formats ----------

for my $options ('ANALYZE false', 'ANALYZE, TIMING off', 'ANALYZE')
{
	my $out = $c->safe_psql(
		qq{SET shardfdw.explain_remote = on;
			SELECT p->'Remote Plan'->'Plan'->>'Node Type', p->'Remote Plan'->'Plan'->>'Actual Rows' IS NOT NULL,
				p->'Rows per Query' IS NOT NULL, p->'Time per Query'->>'Maximum' IS NOT NULL
			FROM plan_of('SELECT id FROM t WHERE grp = 3', '$options') p});
	my $run = $options =~ /false/ ? 'f' : 't';
	my $timed = $options eq 'ANALYZE' ? 't' : 'f';
	is($out, "Seq Scan|$run|$run|$timed", "JSON, $options");
}

# XML: tags are closed in order.  (The server may be built without libxml.)
my $xml = explain_query($rows, 'VERBOSE, ANALYZE, FORMAT xml');
my @open;
my $nested = 1;
while ($xml =~ m{<(/?)([\w-]+)[^>]*?(/?)>}g)
{
	next if $3;
	push @open, $2 and next unless $1;
	$nested = 0 if !@open || pop(@open) ne $2;
}
ok($nested && !@open, 'XML is well-formed');
like($xml, qr{<Remote-Plan>\s*<Plan>\s*<Node-Type>Seq Scan</Node-Type>}, 'and has the node\'s plan');

# YAML: lines below a name are indented by two more.
my $yaml = explain_query($rows, 'VERBOSE, ANALYZE, FORMAT yaml');
my ($indent) = $yaml =~ /^( *)Remote Plan: *$/m;
like($yaml, qr/^$indent  Plan: *\n$indent    Node Type: "Seq Scan"$/m, 'YAML is nested');
like($yaml, qr/^${indent}Rows per Query: *\n$indent  Minimum: \d+/m, 'YAML goes on at the same level');

# ---------- parameters ----------

$plan = explain_query("EXECUTE p(3, 'o''x\\y')", 'VERBOSE, COSTS off',
	before => q{PREPARE p(int, text) AS SELECT id FROM t WHERE grp = $1 AND v <> $2; SET plan_cache_mode = force_generic_plan;});
like($plan, qr/Remote SQL: .*\$1/, 'a generic plan');
like($plan, qr/Filter: (?=.*r1\.grp = 3\b).*r1\.v <> 'o''x\\y'/, 'values of a statement\'s parameters are known to the node');

# Values that only the executor has: not known before, known afterwards.
my $correlated = 'SELECT (SELECT max(v) FROM t WHERE t.grp = g) FROM generate_series(1, 2) g';
my @as_written = (before => 'SET shardfdw.enable_decorrelation = off;');
$plan = explain_query($correlated, 'VERBOSE, COSTS off', @as_written);
if ($major >= 16)
{
	like($plan, qr/Remote Plan:(?s:.)*Filter: \(r1\.grp = (\$1|\(\$1\)::integer)\)/, 'no value: a generic plan of the node');
	like($c->safe_psql('SET shardfdw.explain_remote = on; EXPLAIN (VERBOSE, GENERIC_PLAN, COSTS off) SELECT id FROM t WHERE grp = $1'),
		qr/Remote Plan:(?s:.)*Filter: .*\$1/, 'EXPLAIN (GENERIC_PLAN)');
}
else
{
	like($plan, qr/Remote SQL: .*\$1/, 'a parameter without a value');
	unlike($plan, qr/Remote Plan/, 'no value: no plan of a node that knows no generic ones');
}
$plan = explain_query($correlated, 'VERBOSE, ANALYZE, COSTS off', @as_written);
like($plan, qr/Filter: \(r1\.grp = 2\)/, 'the value of the last execution');
like($plan, qr/Rows per Query: min 1, median 1, max 1$/m, 'figures are those of one execution');
$plan = explain_query("SELECT (SELECT max(v) FROM t WHERE t.grp = g) FROM generate_series(1, 0) g", 'VERBOSE, ANALYZE', @as_written);
like($plan, qr/never executed/, 'never executed');
unlike($plan, qr/per Query/, 'no figures of it');

# ---------- statements that one shard runs unchanged ----------

my @routed = (before => 'SET shardfdw.enable_router = on;');
my $one = 'SELECT v, count(*) FROM t WHERE id = 3 AND grp > 0 GROUP BY v';
$plan = explain_query($one, 'VERBOSE, COSTS off', @routed);
like($plan, qr/Custom Scan \(ShardStatement\).*Remote SQL:.*\$1.*\n  Remote Plan:\n    \w+Aggregate\n(?s:.*)Filter: .*\.id = 3\b/s,
	'one shard: the plan of its node, with the values');
unlike($plan, qr/actual/, 'which has run nothing');
unlike(explain_query($one, 'VERBOSE', @routed, remote => 'off'), qr/Remote Plan/, 'unless it was asked for');
like(explain_query($one, 'VERBOSE, ANALYZE, COSTS off, TIMING off', @routed), qr/Remote Plan:\n +\w+Aggregate \(actual rows=1/, 'with ANALYZE it has');
like(explain_query('EXECUTE p(3)', 'VERBOSE, COSTS off', before => 'SET shardfdw.enable_router = on; PREPARE p(int) AS ' . $one =~ s/= 3/= \$1/r . '; SET plan_cache_mode = force_generic_plan;'),
	qr/Remote Plan:(?s:.)*Filter: .*\.id = 3\b/, 'a generic plan: with the values');
for my $format ('json', 'xml', 'yaml')
{
	like(explain_query($one, "VERBOSE, ANALYZE, FORMAT $format", @routed), qr/Remote.Plan/, "one shard, $format");
}
is($c->safe_psql(q{SET shardfdw.enable_router = on; SET shardfdw.explain_remote = on;
		SELECT p->'Remote Plan'->'Plan'->>'Node Type' FROM plan_of('SELECT id FROM t WHERE id = 3', 'ANALYZE') p}), 'Seq Scan', 'one shard: JSON is well-formed');

# Statements that change or lock rows are not run for it.
my %before = map { $_ => $c->log_position($_) } 1, 2;
for my $change ('UPDATE t SET grp = grp + 1 WHERE id = 3', 'UPDATE t SET grp = grp + 1 WHERE id = 3 RETURNING v', 'DELETE FROM t WHERE id = 3',
	"INSERT INTO t VALUES (3, 1, 'x')", 'SELECT * FROM t WHERE id = 3 FOR UPDATE')
{
	like(explain_query($change, 'VERBOSE, COSTS off', @routed), qr/Remote Plan:\n +(?:Update|Delete|Insert|LockRows)/, "plan: $change");
	like($c->safe_psql("SET shardfdw.explain_remote = on; SET shardfdw.enable_router = on; BEGIN; EXPLAIN (VERBOSE, ANALYZE, COSTS off) $change; ROLLBACK"),
		qr/Remote Plan:\n +(?:Update|Delete|Insert|LockRows)/, "after it has run: $change");
}
unlike(join('', map { $c->log_since($before{$_}, $_) } 1, 2), qr/EXPLAIN \(.*ANALYZE/, 'no node was asked to run one');

# EXPLAIN must not compute an expression that may change data.
$c->safe_psql('CREATE SEQUENCE s');
$plan = explain_query("SELECT v FROM t WHERE id = nextval('s')", 'VERBOSE, COSTS off', @routed);
is($c->safe_psql("SELECT last_value, is_called FROM s"), '1|f', 'a volatile parameter is not computed by EXPLAIN');
SKIP:
{
	skip 'nodes know no generic plans', 1 if $major < 16;
	like($c->safe_psql('SET shardfdw.explain_remote = on; SET shardfdw.enable_router = on; EXPLAIN (VERBOSE, GENERIC_PLAN, COSTS off) SELECT v FROM t WHERE id = $1'),
		qr/Remote Plan:(?s:.)*Filter: .*\$1/, 'EXPLAIN (GENERIC_PLAN) of a statement on one shard');
}

# A cursor of which not all rows were read, and a change whose returned rows were not read.
my $logged = q{SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on; SET auto_explain.log_analyze = on;
	SET shardfdw.explain_remote = on; SET shardfdw.enable_router = on;};
my $log_start = $c->log_position;
is($c->safe_psql("$logged BEGIN; DECLARE a CURSOR FOR SELECT v FROM t WHERE id IN (3, 3) OR (id = 3 AND grp < 0); FETCH 1 FROM a; CLOSE a; SELECT count(*) FROM t WHERE id = 3; COMMIT"),
	$c->safe_psql('SELECT v FROM t WHERE id = 3') . "\n1", 'auto_explain of a cursor on one shard');
like($c->log_since($log_start), qr/Custom Scan \(ShardStatement\)(?s:.*)Remote Plan/, 'has the plan of the node');

# ---------- row locks, changes ----------

my %position = map { $_ => $c->log_position($_) } 1, 2;
$plan = explain_query('SELECT * FROM t WHERE id = 3 FOR UPDATE', 'VERBOSE, ANALYZE, COSTS off');
like($plan, qr/Remote Plan:\n +LockRows\n/, 'row locks: a plan, but it is not run');
unlike(join('', map { $c->log_since($position{$_}, $_) } 1, 2), qr/EXPLAIN \(.*ANALYZE/, 'nor asked for');
$c->safe_psql('SET shardfdw.explain_remote = on; BEGIN; EXPLAIN (ANALYZE, VERBOSE) UPDATE t SET v = v WHERE id < 10; ROLLBACK');
pass('UPDATE');

# Rows that the transaction has written are seen. A node that fails does not end the transaction.
my ($shard, $node) = @{ ($c->shards_of('t'))[0] };
my $key = $c->safe_psql("SELECT min(id) FROM t WHERE tableoid = '$shard'::regclass");
my ($rc, $out, $err) = $c->psql(qq{
	SET shardfdw.explain_remote = on;
	BEGIN;
	UPDATE t SET grp = 77 WHERE id = $key;
	EXPLAIN (VERBOSE, ANALYZE, COSTS off, TIMING off) SELECT id FROM t WHERE grp = 77;
	ROLLBACK});
like($out, qr/Remote Plan:\n +Seq Scan on \Qpublic.$shard\E r1 \(actual rows=1/, 'own writes');

my ($other) = grep { $_->[1] == $node && $_->[0] ne $shard } $c->shards_of('t');
my $other_key = $c->safe_psql("SELECT min(id) FROM t WHERE tableoid = '$other->[0]'::regclass");
$c->node_safe_psql($node, "ALTER TABLE $other->[0] RENAME TO gone");
($rc, $out, $err) = $c->psql(qq{
	SET shardfdw.explain_remote = on;
	BEGIN;
	UPDATE t SET grp = 78 WHERE id = $key;
	EXPLAIN (VERBOSE, COSTS off) SELECT v FROM t WHERE id = $other_key;
	COMMIT;
	EXPLAIN (VERBOSE, COSTS off) SELECT v FROM t WHERE id = $other_key;
	SELECT grp FROM t WHERE id = $key});
is($rc, 0, 'no plan from the node: no error');
is(() = $err =~ /WARNING:  could not get the plan of a node: relation "public\.\Q$other->[0]\E" does not exist/g, 2, 'but a warning');
unlike($out, qr/Remote Plan/, 'and no plan');
like($out, qr/^78$/m, 'the transaction has committed');
$c->node_safe_psql($node, "ALTER TABLE gone RENAME TO $other->[0]");

# A node that does not answer: statement_timeout holds.
my $locker = IPC::Run::start([ 'psql', '-XAtq', '-d', $c->node($node)->connstr('postgres') . " application_name='locker'",
	'-c', "BEGIN; LOCK TABLE $shard; SELECT pg_sleep(600)" ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null');
$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'locker' AND wait_event = 'PgSleep'", $node);
my $start = time;
($rc, $out, $err) = $c->psql(
	"SET shardfdw.explain_remote = on; SET statement_timeout = '500ms'; EXPLAIN (VERBOSE) SELECT v FROM t WHERE id = $key");
like($err, qr/canceling statement due to statement timeout/, 'a node that waits');
cmp_ok(time - $start, '<', 8, 'is not waited for');
$c->node_safe_psql($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'locker'");
$locker->finish;

# ---------- auto_explain ----------

my $auto = q{SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on; SET auto_explain.log_analyze = on;
	SET auto_explain.log_timing = on; SET shardfdw.explain_remote = on;};
for my $format ('text', 'json', 'xml', 'yaml')
{
	my $mark = $c->log_position;
	$c->safe_psql("$auto SET auto_explain.log_format = $format; SELECT grp, count(*) FROM t GROUP BY grp");
	my $log = $c->log_since($mark);
	like($log, qr/Remote.Plan/, "auto_explain, $format: the node's plan");
	like($log, qr/Rows.per.Query/, "auto_explain, $format: figures");
}

# Statements that fail, cursors that are open when their transaction is rolled back: no node is asked.
%position = map { $_ => $c->log_position($_) } 1, 2;
($rc, $out, $err) = $c->psql(qq{$auto
	SELECT 1 / (id - 700) FROM t;
	BEGIN; DECLARE a CURSOR FOR SELECT * FROM t; FETCH 3 FROM a; SELECT 1 / 0; ROLLBACK;
	BEGIN; DECLARE b CURSOR FOR SELECT * FROM t; FETCH 3 FROM b; ROLLBACK;
	BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 3 FROM c; SELECT 1 / 0; ROLLBACK TO s; COMMIT;
	DO 'BEGIN PERFORM 1 / (id - 700) FROM t; EXCEPTION WHEN division_by_zero THEN NULL; END';
	SELECT count(*) FROM t}, on_error_stop => 0);
like($out, qr/^800$/m, 'auto_explain and errors: the session goes on');
my $sent = join('', map { $c->log_since($position{$_}, $_) } 1, 2);
is(() = $sent =~ /EXPLAIN \(/g, 1, 'auto_explain and errors: only the last statement is explained');

# Cursors that end well: at the end of their transaction, or after it.
$c->safe_psql("$auto BEGIN; DECLARE a CURSOR FOR SELECT * FROM t; FETCH 3 FROM a; COMMIT; SELECT 1");
$c->safe_psql("$auto BEGIN; DECLARE a CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id LIMIT 9; COMMIT; FETCH 3 FROM a; CLOSE a");
pass('auto_explain and cursors');

# ---------- passwords ----------

$c->safe_psql(q{ALTER USER MAPPING FOR CURRENT_USER SERVER node1 OPTIONS (ADD password 'canary-4711');
	ALTER USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (ADD password 'canary-4711')});
$plan = join '', map { explain_query($rows, "VERBOSE, ANALYZE, FORMAT $_") } qw(text json xml yaml);
$c->node_safe_psql($node, "ALTER TABLE $shard RENAME TO gone");
($rc, $out, $err) = $c->psql("SET shardfdw.explain_remote = on; EXPLAIN (VERBOSE) SELECT * FROM t WHERE id = $key");
unlike($plan . $out . $err, qr/canary/, 'no password in plans and warnings');
like($err, qr/WARNING/, 'there was one');

done_testing();
