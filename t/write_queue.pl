# Job queues. LIMIT ... FOR UPDATE [SKIP LOCKED] over several shards must lock the rows that it
# returns. If the keys of a change come from such a SELECT with SKIP LOCKED, the change must not
# wait. The results must be those of a plain table. QUEUE_JOBS is the number of jobs that eight
# workers take (2000).

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 3, preload => 1);
$c->safe_psql(q{CREATE TABLE job_plain (id bigint PRIMARY KEY, state text, v int, at timestamptz, note varchar(20));
	CREATE INDEX ON job_plain (state, v);
	INSERT INTO job_plain SELECT i, CASE WHEN i % 5 = 0 THEN 'done' ELSE 'new' END, (i * 37) % 101, '2024-01-01'::timestamptz + i * interval '1 minute', 'job ' || i FROM generate_series(1, 400) i;
	CREATE TABLE kind (v int, name text); INSERT INTO kind SELECT i, 'kind ' || i % 7 FROM generate_series(0, 100) i;
	CREATE TABLE job (LIKE job_plain INCLUDING ALL); INSERT INTO job TABLE job_plain; SELECT shardfdw.shard_table('job', shards => 6);
	CREATE SEQUENCE counted; CREATE SEQUENCE counted_plain; CREATE VIEW open_jobs AS SELECT * FROM job WHERE state = 'new'; CREATE VIEW open_jobs_plain AS SELECT * FROM job_plain WHERE state = 'new'});
my ($a, $b) = map { WireClient->new($c->coordinator, 'postgres') } 1, 2;
$_->query(q{SET statement_timeout = '20s'}) for $a, $b;

# The rows that query has given, or its error, as text.
sub text
{
	my ($result) = @_;
	return $result->{error} ? "$result->{error}{C} $result->{error}{M}" : join("\n", map { join '|', map { $_ // 'null' } @$_ } @{ $result->{rows} });
}
sub on { my ($query, $plain) = @_; return $query =~ s/\{t\}/$plain ? '_plain' : ''/ger; }

# ---------- only the rows of the query are returned ----------

my @queries = (
	q{SELECT id, v FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED}, q{SELECT id FROM job{t} ORDER BY v DESC, id LIMIT 4 OFFSET 3 FOR UPDATE SKIP LOCKED},
	q{SELECT * FROM job{t} WHERE v BETWEEN 10 AND 60 ORDER BY note LIMIT 5 FOR NO KEY UPDATE SKIP LOCKED}, q{SELECT id FROM job{t} ORDER BY at DESC NULLS LAST LIMIT 2 FOR SHARE SKIP LOCKED},
	q{SELECT id FROM job{t} ORDER BY v % 10, id LIMIT 5 FOR KEY SHARE SKIP LOCKED}, q{SELECT id FROM job{t} ORDER BY length(note) DESC, note LIMIT 5 FOR UPDATE SKIP LOCKED},
	q{SELECT count(*), min(id) FROM (SELECT id FROM job{t} WHERE state = 'new' ORDER BY id LIMIT 7 FOR UPDATE SKIP LOCKED) x}, q{SELECT id FROM job{t} ORDER BY id LIMIT 0 FOR UPDATE SKIP LOCKED},
	q{SELECT id FROM job{t} WHERE state = 'new' ORDER BY id LIMIT NULL FOR UPDATE SKIP LOCKED}, q{SELECT j.id, k.name FROM job{t} j JOIN kind k USING (v) WHERE k.name = 'kind 3' ORDER BY j.id LIMIT 3 FOR UPDATE OF j SKIP LOCKED},
	q{SELECT j.id FROM job{t} j JOIN job{t} o ON o.v = j.v AND o.id > j.id ORDER BY j.id, o.id LIMIT 6 FOR UPDATE OF j SKIP LOCKED}, q{SELECT id FROM open_jobs{t} ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED},
	q{SELECT id FROM job{t} WHERE v = (SELECT max(v) FROM job{t}) ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED}, q{SELECT id, (SELECT name FROM kind WHERE kind.v = job{t}.v) FROM job{t} ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED},
	q{SELECT id FROM job{t} WHERE id = ANY ('{5,17,200,390}') ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED}, q{SELECT id FROM job{t} WHERE random() >= 0 AND state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED},
	q{SELECT k.v, z.id FROM kind k CROSS JOIN LATERAL (SELECT id FROM job{t} WHERE id = k.v + 20 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) z WHERE k.v < 12 ORDER BY 1},
	q{SELECT v, (SELECT id FROM job{t} WHERE id = kind.v + 30 LIMIT 1 FOR UPDATE SKIP LOCKED) FROM kind WHERE v < 12 ORDER BY 1}, q{SELECT id, nextval('counted{t}') FROM job{t} ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED},
	q{SELECT id FROM job{t} ORDER BY id FETCH FIRST 3 ROWS ONLY FOR UPDATE SKIP LOCKED}, q{UPDATE job{t} SET state = 'run' WHERE id IN (SELECT id FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED)},
	q{WITH z AS (SELECT id, v FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 4 FOR UPDATE SKIP LOCKED), u AS (UPDATE job{t} j SET state = 'run' FROM z WHERE j.id = z.id RETURNING j.id, z.v) SELECT * FROM u ORDER BY id},
	q{WITH u AS (UPDATE job{t} j SET state = 'run' FROM (SELECT id, v FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 4 FOR UPDATE SKIP LOCKED) z WHERE z.id = j.id AND z.v + 1 > j.v RETURNING j.id, z) SELECT * FROM u ORDER BY id},
	q{WITH d AS (DELETE FROM job{t} WHERE id IN (SELECT id FROM job{t} ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING *) SELECT id, state FROM d ORDER BY id},
	q{WITH z AS (SELECT note FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED) UPDATE job{t} SET state = 'run' FROM z WHERE job{t}.note = z.note AND job{t}.note IS NOT NULL},
	q{DELETE FROM job{t} j USING (SELECT id FROM job{t} ORDER BY at LIMIT 3 FOR UPDATE SKIP LOCKED) z WHERE z.id = j.id}, q{WITH z AS (SELECT id FROM job{t} ORDER BY at LIMIT 3 FOR UPDATE SKIP LOCKED) DELETE FROM job{t} USING z WHERE z.id = job{t}.id},
	q{UPDATE job{t} SET state = 'run' WHERE note IN (SELECT note FROM job{t} WHERE state = 'new' ORDER BY v, id LIMIT 3 FOR UPDATE SKIP LOCKED) AND v > 0},
	q{WITH z AS (SELECT j.id FROM job{t} j JOIN kind k ON k.v < 3 ORDER BY j.id, k.v LIMIT 6 FOR UPDATE OF j SKIP LOCKED) UPDATE job{t} SET state = state || '+' FROM z WHERE job{t}.id = z.id},
	q{WITH z AS (SELECT id, v FROM job{t} ORDER BY v, id LIMIT 5 FOR UPDATE SKIP LOCKED) UPDATE job{t} j SET state = 'run' FROM z WHERE j.id = z.id AND j.v = z.v},
	q{WITH z AS (SELECT id, v FROM job{t} ORDER BY v, id LIMIT 5 FOR UPDATE SKIP LOCKED) UPDATE job{t} j SET state = 'run' FROM z WHERE j.id = z.id AND (z.v + j.v) % 3 < 2},
	q{WITH z AS (SELECT id, v FROM job{t} ORDER BY v, id LIMIT 5 FOR UPDATE SKIP LOCKED) UPDATE job{t} j SET state = 'run ' || z.v FROM z WHERE z.id = j.id},
	q{WITH z AS (SELECT id FROM job{t} ORDER BY v, id LIMIT 5 FOR UPDATE SKIP LOCKED) UPDATE job{t} j SET state = 'run' FROM z, kind k WHERE z.id = j.id AND k.v = j.v AND k.v % 2 = 0},
	q{WITH z AS (SELECT id FROM job{t} WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) INSERT INTO kind SELECT id, 'taken' FROM z RETURNING v});
for my $isolation ('READ COMMITTED', 'REPEATABLE READ')
{
	for my $query (@queries)
	{
		my @seen;
		for my $plain (1, 0)
		{
			# the first of them are another session's
			$a->query('BEGIN');
			$a->query(on(q{SELECT id FROM job{t} WHERE id <= 9 OR v >= 97 ORDER BY id FOR UPDATE}, $plain));
			$b->query("BEGIN ISOLATION LEVEL $isolation");
			my $first = text($b->query(on($query, $plain)));
			my $second = $query =~ /^(SELECT|WITH z.*INSERT)/ ? text($b->query(on($query, $plain))) : '';
			$a->query('ROLLBACK');
			# the rows that are free now: without those of the first session and of this one
			my $free = text($a->query(on(q{SELECT count(*), sum(id) FROM (SELECT id FROM job{t} FOR UPDATE SKIP LOCKED) x}, $plain)));
			my $state = text($b->query(on(q{SELECT state, count(*), sum(id) FROM job{t} GROUP BY 1 ORDER BY 1}, $plain)));
			$b->query('ROLLBACK');
			push @seen, "$first\n-- again: $second\n-- free: $free\n-- $state";
		}
		is($seen[1], $seen[0], "$isolation: " . on($query, 0));
	}
}

# If one query level waits and another one skips, the first must return rows as always.
$a->query(q{BEGIN});
$a->query(q{UPDATE job SET note = 'changed' WHERE id = 1});
my $waiting = $c->start_sql(q{SELECT x.id, x.note FROM (SELECT id, note FROM job WHERE id IN (1, 2) ORDER BY id LIMIT 2 FOR UPDATE) x WHERE EXISTS (SELECT FROM (SELECT id FROM job ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED) y) ORDER BY 1}, name => 'waits');
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type IS NOT NULL AND state = 'active'});
$a->query(q{COMMIT});
is(($c->wait_sql($waiting))[1], "1|changed\n2|job 2", 'who waits gets the row as it has become');
$a->query(q{UPDATE job SET note = 'job 1' WHERE id = 1});

# prepared, with parameters, often enough for a generic plan
$b->query(on(q{PREPARE take{t}(text, int) AS SELECT id FROM job{t} WHERE state = $1 ORDER BY v, id LIMIT $2 FOR UPDATE SKIP LOCKED}, $_)) for 0, 1;
for my $n (1 .. 8)
{
	$b->query('BEGIN');
	my @ids = map { text($b->query(on("EXECUTE take{t}('new', $n)", $_))) } 0, 1;
	$b->query('ROLLBACK');
	is($ids[0], $ids[1], "prepared, $n rows");
}

# ---------- cursors and savepoints ----------

for my $plain (1, 0)
{
	my $name = $plain ? 'plain' : 'sharded';
	$b->query('BEGIN');
	$b->query(on(q{DECLARE c CURSOR FOR SELECT id FROM job{t} WHERE state = 'new' ORDER BY id LIMIT 8 FOR UPDATE SKIP LOCKED}, $plain));
	is(text($b->query('FETCH 2 FROM c')), "1\n2", "$name: a cursor gives its first rows");
	$a->query('BEGIN');
	is(text($a->query(on('SELECT id FROM job{t} WHERE id BETWEEN 1 AND 4 ORDER BY id FOR UPDATE SKIP LOCKED', $plain))), "3\n4", "$name: and has locked these");
	is(text($b->query('FETCH 1 FROM c')), '6', "$name: what others have locked meanwhile it skips");
	$a->query('ROLLBACK');
	$a->query(on(q{UPDATE job{t} SET state = 'done' WHERE id = 7; DELETE FROM job{t} WHERE id = 8}, $plain));
	is(text($b->query('FETCH 2 FROM c')), "9\n11", "$name: and what they have changed so that it is none any more");
	$b->query('SAVEPOINT s');
	is(text($b->query('FETCH 1 FROM c')), '12', "$name: in a savepoint");
	$b->query('ROLLBACK TO s');
	is(text($a->query(on('SELECT id FROM job{t} WHERE id = 12 FOR UPDATE SKIP LOCKED', $plain))), '12', "$name: whose locks go with it");
	$b->query('COMMIT');
	$a->query(on(q{UPDATE job{t} SET state = 'new' WHERE id = 7; INSERT INTO job{t} VALUES (8, 'new', (8 * 37) % 101, '2024-01-01'::timestamptz + 8 * interval '1 minute', 'job 8')}, $plain));
}

# a cursor whose shards are first read within a savepoint that is undone
$b->query('BEGIN');
$b->query(q{DECLARE c CURSOR FOR SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 8 FOR UPDATE SKIP LOCKED});
$b->query('SAVEPOINT s');
is(text($b->query('FETCH 1 FROM c')), '1', 'a cursor that is first fetched within a savepoint');
$b->query('ROLLBACK TO s');
like(text($b->query('FETCH 1 FROM c')), qr/^(?:24000 |34000 )/, 'gives no more rows when that is undone');
$b->query('ROLLBACK TO s');
is(text($b->query('CLOSE c')), '', 'and can be closed');
is(text($b->query(q{SELECT count(*) FROM job})), text($b->query(q{SELECT count(*) FROM job_plain})), 'the transaction goes on');
is(text($b->query('COMMIT')), '', 'and commits');

# ---------- several levels ----------

# shards of the two parts have other numbers, and the parts other keys
$c->safe_psql(q{CREATE TABLE parts_plain (id int, at date, k int, state text); CREATE TABLE parts (id int, at date, k int, state text) PARTITION BY RANGE (at);
	CREATE TABLE parts_1 (LIKE parts) PARTITION BY HASH (id); CREATE TABLE parts_2 (LIKE parts) PARTITION BY HASH (id); CREATE TABLE parts_3 (LIKE parts) PARTITION BY HASH (k);
	SELECT shardfdw.shard_table('parts_1', shards => 3), shardfdw.shard_table('parts_2', shards => 7), shardfdw.shard_table('parts_3', shards => 4);
	ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM ('2024-01-01') TO ('2024-02-01'); ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
	ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
	INSERT INTO parts_plain SELECT i, date '2024-01-01' + i % 90, i * 7 % 50, 'new' FROM generate_series(1, 300) i; INSERT INTO parts TABLE parts_plain});
for my $change (q{UPDATE parts{t} SET state = 'run' WHERE id = ANY (ARRAY(SELECT id FROM parts{t} WHERE state = 'new' ORDER BY id LIMIT 40))}, q{UPDATE parts{t} SET state = 'more' WHERE k = ANY (ARRAY(SELECT k FROM parts{t} ORDER BY id LIMIT 5))},
	q{DELETE FROM parts{t} WHERE id IN (SELECT id FROM parts{t} WHERE state = 'new' ORDER BY id DESC LIMIT 20 FOR UPDATE SKIP LOCKED)}, q{UPDATE parts{t} SET state = 'last' WHERE id = ANY (ARRAY(SELECT id FROM parts{t} ORDER BY at DESC, id LIMIT 30)) AND k > 10})
{
	$c->safe_psql(on($change, $_)) for 0, 1;
	is($c->safe_psql('SELECT count(*) FROM (TABLE parts EXCEPT ALL TABLE parts_plain) x') . $c->safe_psql('SELECT count(*) FROM (TABLE parts_plain EXCEPT ALL TABLE parts) x'), '00', on($change, 0));
}
$c->safe_psql(q{PREPARE take(int[]) AS UPDATE parts SET state = 'prepared' WHERE id = ANY ($1); } . join('', map { "EXECUTE take('{" . join(',', map { $_ * 3 } $_ .. $_ + 9) . "}');" } 1 .. 8) . q{UPDATE parts_plain SET state = 'prepared' WHERE id % 3 = 0 AND id BETWEEN 3 AND 51});
is($c->safe_psql(q{SELECT count(*) FROM (TABLE parts EXCEPT ALL TABLE parts_plain) x}), '0', 'prepared, with a generic plan');
$a->query('BEGIN');
is(text($a->query(q{UPDATE parts SET state = 'a' WHERE id IN (SELECT id FROM parts ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id})), '1', 'a queue over two levels');
is(text($b->query(q{UPDATE parts SET state = 'b' WHERE id IN (SELECT id FROM parts ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id})), '2', 'keeps nobody waiting');
$a->query('ROLLBACK');

# ---------- messages ----------

for my $i (1 .. $c->nodes)
{
	$c->node_safe_psql($i, q{ALTER SYSTEM SET log_statement = 'all'});
	$c->wait_for(q{SELECT pg_reload_conf() AND current_setting('log_statement') = 'all'}, $i);
}

# How often nodes are asked to do each of these things by the sql.
sub messages
{
	my ($sql) = @_;
	my @positions = map { $c->log_position($_) } 1 .. $c->nodes;
	my %asked;

	$c->safe_psql($sql);
	for my $i (1 .. $c->nodes)
	{
		my $log = $c->log_since($positions[ $i - 1 ], $i);

		$asked{ $1 =~ /tableoid/ ? 'LOOK' : $1 }++ while $log =~ /LOG:  (?:statement|execute [^:]*): (?:.*; )?(FETCH|UPDATE|DELETE|CLOSE|PREPARE|WITH z|SELECT (?:shard_t1\.)?tableoid|SELECT(?=.* FOR UPDATE))/g;
	}
	return join(' ', map { "$_ $asked{$_}" } sort keys %asked);
}

my $take = q{WITH z AS (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE job SET state = 'run' FROM z WHERE job.id = z.id};
is(messages($take), 'LOOK 3 WITH z 1', 'three nodes are looked at, and one job is locked, changed and committed where it is');
is(messages("BEGIN; $take; COMMIT"), 'LOOK 3 WITH z 1', 'the same in a block');
is(messages(q{DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = 'new' AND id % 7 = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)}), 'LOOK 3 WITH z 1', 'DELETE');
is(messages(q{SELECT id FROM job WHERE state = 'new' LIMIT 1 FOR UPDATE SKIP LOCKED}), 'LOOK 1 SELECT 1', 'without an order the first node will do');
# rows that other sessions are taking are left out without a query, until they are free
$a->query('BEGIN');
$a->query(q{UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED)});
$a->query('SAVEPOINT s');
my $next = text($a->query(qq{$take RETURNING job.id}));
is(messages($take), 'LOOK 3 WITH z 1', 'jobs that another session of the server has taken are not asked for');
$a->query('ROLLBACK TO s');
is(text($b->query("$take RETURNING job.id")), $next, 'what is given back with a savepoint is free');
$a->query('ROLLBACK');
cmp_ok(text($b->query("$take RETURNING job.id")), '<', $next, 'and with the transaction');
$a->query('BEGIN');
$next = text($a->query(q{SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED}));
cmp_ok(text($b->query(q{SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED})), '>', $next, 'what is locked only is left out');
$a->query('COMMIT');
is(text($b->query(q{SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED})), $next, 'and is free after the commit');
# statements that no single node runs as a whole
is(messages("$take AND job.v >= 0"), 'FETCH 6 SELECT 1 UPDATE 1', 'six shards are looked at, and one job is locked, changed and committed where it is');
is(messages("BEGIN; $take AND job.v >= 0; COMMIT"), 'CLOSE 6 FETCH 6 SELECT 1 UPDATE 1', 'in a block, cursors are closed');
is(messages("$take RETURNING z.id"), 'FETCH 6 SELECT 2 UPDATE 1', 'as a join, the row is read first, from its shard alone');

# ---------- nobody waits ----------

$a->query('BEGIN');
$a->query('SELECT id FROM job WHERE id < 100 FOR UPDATE');
for my $query (
	q{UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id},
	q{WITH z AS (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE job SET state = 'run' FROM z WHERE z.id = job.id RETURNING job.id},
	q{UPDATE job SET state = 'run' FROM (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) z WHERE job.id = z.id RETURNING job.id},
	q{DELETE FROM job WHERE id = ANY (ARRAY(SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)) RETURNING id})
{
	like(text($b->query($query)), qr/^1\d\d$/, "while others hold the first rows: $query");
}
$a->query('ROLLBACK');

# ---------- locks that several may have ----------

for my $strengths ([ 'SHARE', 'SHARE' ], [ 'KEY SHARE', 'NO KEY UPDATE' ], [ 'NO KEY UPDATE', 'KEY SHARE' ], [ 'SHARE', 'KEY SHARE' ], [ 'NO KEY UPDATE', 'SHARE' ])
{
	my ($first, $second) = @$strengths;
	my @seen;

	for my $plain (1, 0)
	{
		$a->query('BEGIN');
		$a->query(on("SELECT id FROM job{t} ORDER BY id LIMIT 2 FOR $first SKIP LOCKED", $plain));
		push @seen, text($b->query(on("SELECT id FROM job{t} ORDER BY id LIMIT 3 FOR $second SKIP LOCKED", $plain)));
		$a->query('ROLLBACK');
	}
	is($seen[1], $seen[0], "FOR $second of rows that another session has FOR $first");
}

# ---------- rows that other sessions change or move during the statement ----------

# A key lock does not prevent changes of the row. The change waits for the other session, and must
# apply to the row's new version.
for my $limit (1, 2)
{
	$a->query('BEGIN');
	$a->query(q{UPDATE job SET v = -5 WHERE id = 1});
	$b->start_query(qq{UPDATE job SET v = v - 1 WHERE id IN (SELECT id FROM job WHERE id < 3 ORDER BY id LIMIT $limit FOR KEY SHARE SKIP LOCKED)});
	$c->wait_for(q{SELECT sum(result::int) > 0 FROM shardfdw.run_on_nodes('SELECT count(*) FROM pg_locks WHERE NOT granted')});
	$a->query('COMMIT');
	$b->finish_query;
	is($c->safe_psql('SELECT v FROM job WHERE id = 1'), '-6', "UPDATE of $limit rows whose keys are locked");
}

# A shard is rewritten after its rows were read and before they are locked. Another node keeps the
# statement waiting in between.
$c->safe_psql(q{CREATE TABLE moved (id int PRIMARY KEY, due int); SELECT shardfdw.shard_table('moved', shards => 2); INSERT INTO moved SELECT i, i FROM generate_series(1, 40) i});
for my $limit (1, 2)
{
	my ($gone, @ids) = split /\n/, $c->node_safe_psql(1, 'SELECT id FROM moved_00 ORDER BY id');
	my $holder = WireClient->new($c->node(2), 'postgres');

	$c->safe_psql("DELETE FROM moved WHERE id = $gone");
	$holder->query('BEGIN');
	$holder->query('LOCK TABLE moved_01');
	$b->start_query("WITH z AS (SELECT id FROM moved WHERE due <= $ids[2] ORDER BY due DESC LIMIT $limit FOR UPDATE SKIP LOCKED) DELETE FROM moved USING z WHERE z.id = moved.id RETURNING due");
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, 2);
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE state <> 'active' AND query LIKE '%tableoid%moved_00%'}, 1);
	$c->node_safe_psql(1, 'VACUUM FULL moved_00');
	$holder->query('COMMIT');
	my @taken = map { $_->[0] } @{ $b->finish_query->{rows} };
	is(scalar(grep { $_ <= $ids[2] } @taken), $limit, "$limit rows, after a shard was written anew: @taken are not behind $ids[2]");
	is(scalar(@taken), $limit, 'and as many as are wanted');
}

# ---------- rows that sessions read for each other ----------

# while a session waits for a read of its rows, the place in shared memory is used for other rows
# and then given back: the session must not take any of these
SKIP:
{
	skip 'needs a library with fault points', 1 unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	my ($holder, @workers) = (WireClient->new($c->node(1), 'postgres'), map { WireClient->new($c->coordinator, 'postgres') } 1 .. 3);
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_queue_wait';
	my $ask = sub { return "DELETE FROM kinds WHERE id IN (SELECT id FROM kinds WHERE $_[0] ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING kind" };
	my $pid;

	$c->safe_psql(q{CREATE TABLE kinds (id int PRIMARY KEY, kind int); SELECT shardfdw.shard_table('kinds', shards => 3); INSERT INTO kinds SELECT i, i % 2 FROM generate_series(1, 200) i});
	append_to_file($file, '');
	$workers[1]->query(q{SET shardfdw.fault_points = 'queue_wait=wait'});
	$pid = text($workers[1]->query('SELECT pg_backend_pid() FROM kinds LIMIT 1'));
	for my $turn (0, 1)
	{
		$holder->query('BEGIN');
		$holder->query('LOCK TABLE kinds_00');
		$workers[ 2 * $turn ]->start_query($ask->('kind = 1'));
		$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, 1);
		last if $turn;
		$workers[1]->start_query($ask->('kind = 1'));
		for (my $n = 0; $n < 5; $n++)
		{
			# at the fault point it waits for no event
			$n = -1 if $c->safe_psql(qq{SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE pid = $pid AND state = 'active' AND wait_event IS NULL AND relation = 'kinds'::regclass}) eq '0';
		}
		$holder->query('COMMIT');
		$workers[0]->finish_query;
		$b->query($ask->("kind = 0 AND id <> -$_")) for 1 .. 31;
	}
	unlink $file;
	$holder->query('COMMIT');
	is(text($workers[1]->finish_query), '1', 'who has waited while others read gets a row that he wants');
	$workers[2]->finish_query;
}

# ---------- waiting for others ----------

# Nine rows. Another session has locked the second one, and changes it or not. Then the first three
# rows are returned in their new state, and no others are locked.
$c->safe_psql(q{CREATE TABLE turn (id int PRIMARY KEY, prio int, state text); SELECT shardfdw.shard_table('turn', shards => 6)});
my $top = q{SELECT id, prio FROM turn WHERE state = 'new' ORDER BY prio LIMIT 3 FOR UPDATE};
my $one = q{UPDATE turn SET state = 'mine' WHERE id IN (SELECT id FROM turn WHERE state = 'new' AND prio > 10 ORDER BY prio LIMIT 1 FOR UPDATE) RETURNING id};
my $two = q{DELETE FROM turn WHERE id IN (SELECT id FROM turn WHERE state = 'new' ORDER BY prio LIMIT 2 FOR UPDATE) RETURNING id};
for my $scene (
	[ 'only locked', 'SELECT FROM turn WHERE id = 2 FOR UPDATE', 'COMMIT', '1|10 2|20 3|30', '2', '1 2' ],
	[ 'changed in vain', q{UPDATE turn SET state = 'done' WHERE id = 2}, 'ROLLBACK', '1|10 2|20 3|30', '2', '1 2' ],
	[ 'done', q{UPDATE turn SET state = 'done' WHERE id = 2}, 'COMMIT', '1|10 3|30 4|40', '3', '1 3' ],
	[ 'put off', 'UPDATE turn SET prio = 90 WHERE id = 2', 'COMMIT', '1|10 3|30 4|40', '3', '1 3' ],
	[ 'the first now', 'UPDATE turn SET prio = 5 WHERE id = 2', 'COMMIT', '2|5 1|10 3|30', '3', '1 2' ],
	[ 'gone', 'DELETE FROM turn WHERE id = 2', 'COMMIT', '1|10 3|30 4|40', '3', '1 3' ])
{
	my ($name, $change, $end, @expected) = @$scene;

	for my $query ($top, $one, $two)
	{
		$c->safe_psql(q{TRUNCATE turn; INSERT INTO turn SELECT i, i * 10, 'new' FROM generate_series(1, 9) i});
		$a->query('BEGIN');
		$a->query($change);
		$b->query('BEGIN') if $query ne $one;
		$b->start_query($query);
		$c->wait_for(q{SELECT sum(result::int) > 0 FROM shardfdw.run_on_nodes('SELECT count(*) FROM pg_locks WHERE NOT granted')});
		$a->query($end);
		my @rows = map { join '|', @$_ } @{ $b->finish_query->{rows} };
		is(join(' ', $query eq $top ? @rows : sort @rows), shift @expected, "$name: $query");
		if ($query eq $top)
		{
			my @wanted = map { (split /\|/)[0] } @rows;
			my %free = map { $_ => 1 } split /\n/, text($a->query('SELECT id FROM turn FOR UPDATE SKIP LOCKED'));
			is(join(' ', grep { $free{$_} } @wanted), '', 'which are locked');
			is(scalar(grep { !$free{$_} && $_ != 2 } 1 .. 9), scalar(grep { $_ != 2 } @wanted), 'as no others are');
		}
		$b->query('COMMIT') if $query ne $one;
	}
	# a snapshot from before
	$c->safe_psql(q{TRUNCATE turn; INSERT INTO turn SELECT i, i * 10, 'new' FROM generate_series(1, 9) i});
	$a->query('BEGIN');
	$a->query($change);
	$b->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$b->query('SELECT count(*) FROM turn');
	$b->start_query($top);
	$c->wait_for(q{SELECT sum(result::int) > 0 FROM shardfdw.run_on_nodes('SELECT count(*) FROM pg_locks WHERE NOT granted')});
	$a->query($end);
	my $result = $b->finish_query;
	is($result->{error} ? $result->{error}{C} : scalar(@{ $result->{rows} }), $end eq 'ROLLBACK' || $name eq 'only locked' ? 3 : '40001', "$name: at REPEATABLE READ");
	$b->query('ROLLBACK');
}
$a->query('BEGIN');
$a->query('SELECT FROM turn WHERE id = 4 FOR UPDATE');
like(text($b->query("$top NOWAIT" =~ s/LIMIT 3/LIMIT 9/r)), qr/^55P03/, 'NOWAIT');
$a->query('COMMIT');

# A session that wants a row that is changed all the time gets the row. A session that locks the
# first rows and changes them gets no deadlock.
$c->safe_psql(q{TRUNCATE turn; INSERT INTO turn SELECT i, 0, 'new' FROM generate_series(1, 20) i});
my $busy = $c->coordinator->basedir . '/busy.sql';
append_to_file($busy, "UPDATE turn SET prio = prio + 1 WHERE id = 1;\n");
my $first = $c->coordinator->basedir . '/first.sql';
append_to_file($first, q{\set n random(2, 6)
BEGIN;
SELECT id FROM turn WHERE id > 0 ORDER BY id LIMIT :n FOR UPDATE;
UPDATE turn SET prio = prio + 1 WHERE id BETWEEN 1 AND :n;
COMMIT;
});
my ($stdout, $stderr) = run_command([ 'pgbench', '-n', '-c', 6, '-t', 100, '-f', "$busy\@3", '-f', $first, '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ]);
like($stdout, qr{actually processed: 600/600}, 'sessions that take turns') or diag $stderr;
is($c->safe_psql(q{SELECT count(*), count(*) FILTER (WHERE prio > 0) FROM turn}), '20|6', 'all of them have had theirs');

# ---------- each job once ----------

my $jobs = $ENV{QUEUE_JOBS} // 2000;
$c->safe_psql(qq{CREATE TABLE queue (id bigint PRIMARY KEY, taken int DEFAULT 0, worker int); CREATE INDEX ON queue (taken, id); INSERT INTO queue SELECT i FROM generate_series(1, $jobs) i; SELECT shardfdw.shard_table('queue', shards => 6)});
my $script = $c->coordinator->basedir . '/queue.sql';
append_to_file($script, q{UPDATE queue SET taken = taken + 1, worker = :client_id WHERE id IN (SELECT id FROM queue WHERE taken = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);});
my @positions = map { $c->log_position($_) } 1 .. $c->nodes;
($stdout, $stderr) = run_command([ 'pgbench', '-n', '-M', 'prepared', '-c', 8, '-t', int($jobs / 8) + 20, '-f', $script, '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ]);
unlike($stderr, qr/error|aborted/i, 'eight workers take jobs without errors');
is($c->safe_psql('SELECT count(*), min(taken), max(taken) FROM queue'), "$jobs|1|1", 'each job is taken once');
my $looks = 0;
for my $i (1 .. $c->nodes)
{
	$looks += () = $c->log_since($positions[ $i - 1 ], $i) =~ /LOG:  (?:statement|execute [^:]*): SELECT shard_t1\.tableoid/g;
}
cmp_ok($looks, '>=', $c->nodes, 'nodes are asked for jobs');
cmp_ok($looks, '<', $c->nodes * $jobs, 'by some workers for others');

# Workers that wait for each other take one row with each statement.
$c->safe_psql('UPDATE queue SET taken = 0 WHERE id <= 200');
my $patient = $c->coordinator->basedir . '/patient.sql';
append_to_file($patient, slurp_file($script) =~ s/ SKIP LOCKED//r);
$c->coordinator->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-c', 4, '-t', 50, '-f', $patient, 'postgres' ], 'four workers that wait');
is($c->safe_psql('SELECT min(taken), max(taken) FROM queue'), '1|1', 'and take each job once');

done_testing();
