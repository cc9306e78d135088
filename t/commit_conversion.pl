# A table that becomes a sharded table, a reference table or a plain table gets new rows, copies of
# the old ones. Transactions at REPEATABLE READ and SERIALIZABLE whose snapshot is older must get
# an error (40001), since the snapshot does not show these rows. Other transactions notice nothing.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1);
my $has_faults = $c->safe_psql(q{SELECT count(*) FROM pg_settings
	WHERE name = 'shardfdw.fault_points'});
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';

# k0 is sharded. A case converts k1, which has the same ids. Table others refers to k1 if k1 can be
# referenced.
sub make_tables
{
	my ($make) = @_;
	$c->safe_psql(qq{SET client_min_messages = warning;
		DROP SCHEMA IF EXISTS s CASCADE; DROP TABLE IF EXISTS k0, k1, k2, others;
		CREATE TABLE k0 (id int PRIMARY KEY, v int); CREATE TABLE k1 (id int PRIMARY KEY, v int);
		INSERT INTO k0 SELECT i, i FROM generate_series(1, 100) i; INSERT INTO k1 TABLE k0;
		CREATE TABLE others (id int); SELECT shardfdw.shard_table('k0', shards => 4); $make});
}

# A session with the snapshot of now, which has used the nodes or not
sub begin_session
{
	my ($level, $uses_nodes, $table) = @_;
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query_safe(qq{\\set VERBOSITY sqlstate
		SET plan_cache_mode = force_generic_plan;
		PREPARE counted AS SELECT count(*) FROM $table;
		PREPARE one AS SELECT v FROM $table WHERE id = \$1;
		EXECUTE counted; EXECUTE one(5);
		BEGIN ISOLATION LEVEL $level;
		SELECT count(*) FROM } . ($uses_nodes ? 'k0' : 'pg_class'));
	return $session;
}

sub run_in
{
	my ($session, $statement) = @_;
	$session->{stderr} = '';
	my $out = $session->query("SAVEPOINT a; $statement; ROLLBACK TO a");
	return $session->{stderr} =~ /ERROR:\s+(\w{5})/ ? $1 : $out;
}

my @statements = (
	[ 'SELECT count(*) FROM %s', '100' ],
	[ 'SELECT v FROM %s WHERE id = 5', '5' ],
	[ 'EXECUTE counted', '100' ],
	[ 'EXECUTE one(5)', '5' ],
	[ 'SELECT count(*) FROM k0 JOIN %s USING (id)', '100' ],
	[ 'SELECT count(*) FROM k0 JOIN %s k1 ON k0.v = k1.id', '100' ],
	[ 'WITH d AS (DELETE FROM k0 WHERE NOT EXISTS (SELECT FROM %s k1 WHERE k1.id = k0.v) RETURNING 1)
		SELECT count(*) FROM d', '0' ],
	[ 'WITH u AS (UPDATE %s SET v = 0 RETURNING 1) SELECT count(*) FROM u', '100' ],
	[ 'WITH d AS (DELETE FROM %s WHERE id = 7 RETURNING 1) SELECT count(*) FROM d', '1' ],
	[ 'INSERT INTO %s VALUES (200, 1)', '' ],
	[ q{COPY %s FROM PROGRAM 'echo 201,1' CSV}, '' ],
	[ 'COPY %s TO STDOUT', join("\n", map { "$_\t$_" } 1 .. 100) ],
	[ 'COPY (SELECT count(*) FROM %s) TO STDOUT', '100' ],
	[ 'SELECT id FROM %s WHERE id = 6 FOR UPDATE', '6' ],
	[ 'LOCK TABLE %s IN ACCESS SHARE MODE', '' ]);

# Does the same in old and new transactions of all levels while convert() changes the table.
sub compare
{
	my ($what, $make, $convert, %opt) = @_;
	my $table = $opt{table} // 'k1';
	make_tables($make);
	my @kinds = ([ 'READ COMMITTED', 1 ], [ 'REPEATABLE READ', 0 ], [ 'REPEATABLE READ', 1 ],
		[ 'SERIALIZABLE', 1 ]);
	my @all = map {
		{ level => $_->[0], uses_nodes => $_->[1], session => begin_session(@$_, $table) }
	} @kinds;
	ref $convert ? $convert->() : $c->safe_psql("SET client_min_messages = warning; $convert");
	for my $old (@all)
	{
		my $fails = $old->{level} ne 'READ COMMITTED';
		for my $case (@statements, @{ $opt{statements} // [] })
		{
			my ($statement, $expected) = (sprintf($case->[0], $table), $case->[1]);
			my $got = run_in($old->{session}, $statement);
			$got = join("\n", sort { $a <=> $b } split /\n/, $got)
			  if $statement =~ /COPY \S+ TO/ && $got ne '40001';
			is($got, $fails ? '40001' : $expected,
				"$what: $old->{level}, uses_nodes $old->{uses_nodes}: " . $statement =~ s/\s+/ /gr);
		}
		is(run_in($old->{session}, 'SELECT count(*) FROM k0'), '100', 'the other table is readable');
		$old->{session}->query('ROLLBACK');
		$old->{session}->query("BEGIN ISOLATION LEVEL $old->{level}");
		is(run_in($old->{session}, sprintf($statements[$_][0], $table)), $statements[$_][1],
			"$what: $old->{level}: a transaction that begins now") for 0 .. 6;
		$old->{session}->quit;
	}
}

my $sharded = q{SELECT shardfdw.shard_table('k1', shards => 4)};
my $online = q{SELECT shardfdw.shard_table('k1', shards => 4, mode => 'online')};
compare('shard_table', '', $sharded);
compare('shard_table online', '', $online);
compare('shard_tables', '', q{SELECT shardfdw.shard_tables('{k1}', 'id')});
compare('a new name after shard_table', '',
	"$sharded; ALTER TABLE k1 RENAME TO k2; ALTER TABLE k2 RENAME TO k1");
compare('create_reference_table', 'ALTER TABLE others ADD FOREIGN KEY (id) REFERENCES k1',
	q{SELECT shardfdw.create_reference_table('k1')},
	statements => [ [ 'INSERT INTO others VALUES (9)', '' ] ]);
compare('unshard_table', $sharded, q{SELECT shardfdw.unshard_table('k1')});
compare('unshard_table online', $sharded, q{SELECT shardfdw.unshard_table('k1', mode => 'online')});
compare('shard_schema', 'CREATE SCHEMA s; ALTER TABLE k1 SET SCHEMA s',
	q{SELECT shardfdw.shard_schema('s')}, table => 's.k1');
compare('unshard_schema',
	q{CREATE SCHEMA s; ALTER TABLE k1 SET SCHEMA s; SELECT shardfdw.shard_schema('s')},
	q{SELECT shardfdw.unshard_schema('s')}, table => 's.k1');
cmp_ok($c->safe_psql('SELECT count(*) FROM shardfdw_internal.copied_table'), '<', 8,
	'dropped tables are forgotten by the next conversion');

# The rows stay in place: a reference table that becomes plain keeps its rows, and older snapshots
# show them.
make_tables(q{SELECT shardfdw.create_reference_table('k1')});
{
	my $old = begin_session('REPEATABLE READ', 1, 'k1');
	$old->query_safe('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM k0');
	$c->safe_psql(q{SELECT shardfdw.unshard_table('k1')});
	is(run_in($old, 'SELECT count(*) FROM k0 JOIN k1 USING (id)'), '100',
		'a reference table that became plain');
	$old->quit;
}

# A transaction whose snapshot is younger than the copy, and older than the switch
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 1 unless $has_faults;
	for my $make ('', $sharded)
	{
		my $call = $make ? q{unshard_table('k1', mode => 'online', wait => false)} :
		  q{shard_table('k1', shards => 4, mode => 'online', wait => false)};
		compare("while $call runs", $make, sub {
			my $file = $c->coordinator->data_dir . '/shardfdw_fault_convert_copied';
			PostgreSQL::Test::Utils::append_to_file($file, '');
			$c->set_faults('convert_copied=wait');
			my $job = $c->safe_psql("SELECT shardfdw.$call");
			$c->wait_for("SELECT rows_copied = 100 FROM shardfdw.jobs WHERE id = $job");
			$c->safe_psql('UPDATE k1 SET v = 1000 WHERE id = 5');
			my $between = begin_session('REPEATABLE READ', 1, 'k1');
			$c->set_faults('');
			unlink $file;
			is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job ends');
			is(run_in($between, 'SELECT v FROM k1 WHERE id = 5'), '40001',
				"$call: a snapshot from between");
			$between->quit;
			$c->safe_psql('UPDATE k1 SET v = 5 WHERE id = 5');
		});
	}
}

# pg_dump takes its snapshot before it locks the tables.
for my $case ([ '', $sharded ], [ $sharded, q{SELECT shardfdw.unshard_table('k1')} ],
	[ '', q{SELECT shardfdw.create_reference_table('k1')} ])
{
	my ($make, $convert) = @$case;
	make_tables($make);
	my $converter = $c->coordinator->background_psql('postgres');
	$converter->query_safe("BEGIN; LOCK TABLE k1 IN ACCESS EXCLUSIVE MODE; $convert");
	my $err = '';
	my @command = ('pg_dump', '-d', $c->coordinator->connstr('postgres'), '-f', $dump);
	my $run = IPC::Run::start(\@command, '2>', \$err);
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE query LIKE 'LOCK TABLE%' AND wait_event_type = 'Lock'});
	$converter->query_safe('COMMIT');
	ok(!$run->finish, "pg_dump fails next to: $convert");
	like($err, qr/could not serialize access due to a conversion of table "k1"/, 'with the reason');
	$converter->quit;
}

# At READ COMMITTED some statements take their snapshot before they lock the table.
for my $convert ($sharded, q{SELECT shardfdw.unshard_table('k1')})
{
	make_tables($convert eq $sharded ? '' : $sharded);
	$c->safe_psql(q{CREATE VIEW seen AS SELECT v FROM k1;
		CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql STABLE AS
			'BEGIN RETURN (SELECT count(*) FROM public.k1); END';
		CREATE MATERIALIZED VIEW kept AS SELECT counted();
		CREATE FUNCTION later() RETURNS bigint LANGUAGE plpgsql AS
			'BEGIN RETURN (SELECT count(*) FROM k1); END'});
	my $converter = $c->coordinator->background_psql('postgres');
	my %expected = (
		'SELECT count(*) FROM k1' => 100, 'SELECT count(*) FROM seen' => 100,
		'SELECT later()' => 100,
		'BEGIN; INSERT INTO k1 VALUES (300, 1) RETURNING id; ROLLBACK' => 300,
		q{BEGIN; COPY k1 FROM PROGRAM 'echo 301,1' CSV; ROLLBACK} => '',
		'BEGIN; EXECUTE written; ROLLBACK' => 100, 'EXECUTE counted' => '40001',
		'CREATE TABLE made AS EXECUTE counted' => '40001',
		'SELECT counted()' => '40001', 'COPY k1 TO STDOUT' => '40001',
		'COPY (SELECT count(*) FROM seen) TO STDOUT' => '40001',
		'REFRESH MATERIALIZED VIEW kept' => '40001');
	my @statements = sort keys %expected;
	$converter->query_safe('SELECT pg_advisory_lock(5)');
	my @running = map { $c->start_sql("\\set VERBOSITY verbose
		PREPARE counted AS SELECT count(*) FROM k1;
		PREPARE written AS WITH u AS (UPDATE k1 SET v = 0 RETURNING 1) SELECT count(*) FROM u;
		SELECT pg_advisory_lock_shared(5) \\g /dev/null\n$_", name => 'rc') } @statements;
	$c->wait_for(sprintf q{SELECT count(*) = %d FROM pg_stat_activity
		WHERE application_name = 'rc' AND wait_event = 'advisory'}, scalar @statements);
	$converter->query_safe("BEGIN; LOCK TABLE k1 IN ACCESS EXCLUSIVE MODE; $convert;
		SELECT pg_advisory_unlock(5)");
	$c->wait_for(sprintf q{SELECT count(*) = %d FROM pg_stat_activity
		WHERE application_name = 'rc' AND wait_event = 'relation'}, scalar @statements);
	$converter->query_safe('COMMIT');
	$converter->quit;
	for my $i (0 .. $#statements)
	{
		my ($rc, $out, $err) = $c->wait_sql($running[$i]);
		my $got = $err =~ /ERROR:  (\w{5})/ ? $1 : $out;
		is($got, $expected{ $statements[$i] }, "READ COMMITTED, $convert: $statements[$i]");
	}
	$c->safe_psql('DROP VIEW seen; DROP MATERIALIZED VIEW kept; DROP FUNCTION counted, later');
}

# Tables above the table: partitioned, or with inheritance.
for my $case ([ 'sharded', 'unshard_table' ], [ 'plain', 'shard_table' ])
{
	my ($is, $function) = @$case;
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS above, below CASCADE;
		CREATE TABLE above (id int, k int, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
		CREATE TABLE above_2 PARTITION OF above FOR VALUES FROM (1000) TO (2000);
		CREATE TABLE below (id int, k int, PRIMARY KEY (id, k));
		INSERT INTO below SELECT i, i FROM generate_series(1, 500) i;
		INSERT INTO above_2 SELECT i, 1000 + i FROM generate_series(1, 500) i; }
		  . ($is eq 'sharded' ? q{SELECT shardfdw.shard_table('below', 'id', shards => 3);} : '') . q{
		ALTER TABLE above ATTACH PARTITION below FOR VALUES FROM (0) TO (1000)});
	my $old = begin_session('REPEATABLE READ', 1, 'k0');
	$c->safe_psql(qq{SET client_min_messages = warning; ALTER TABLE above DETACH PARTITION below;
		SELECT shardfdw.$function('below', }
		  . ($function eq 'shard_table' ? q{'id', shards => 3} : q{mode => 'block'}) . q{);
		ALTER TABLE above ATTACH PARTITION below FOR VALUES FROM (0) TO (1000)});
	is(run_in($old, $_), '40001', "$function of a partition: $_")
	  for 'SELECT count(*) FROM above', 'DELETE FROM above WHERE id = 7', 'LOCK TABLE above',
	  'SELECT count(*) FROM below';
	is(run_in($old, 'SELECT count(*) FROM above_2'), '500', 'another partition');
	$old->quit;
	is($c->safe_psql('SELECT count(*) FROM above'), '1000', 'a transaction that begins now');
}
{
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE above;
		CREATE TABLE above (id int, v int); CREATE TABLE below (LIKE above);
		INSERT INTO below SELECT i, i FROM generate_series(1, 100) i;
		SELECT shardfdw.shard_table('below', 'id', shards => 2)});
	my $old = begin_session('REPEATABLE READ', 1, 'k0');
	$c->safe_psql(q{SELECT shardfdw.unshard_table('below'); ALTER TABLE below INHERIT above});
	is(run_in($old, 'SELECT count(*) FROM above'), '40001', 'a table that inherits');
	$old->quit;
	$c->safe_psql('DROP TABLE above CASCADE');
}

# enable_node() makes replicas of reference tables again, which differ.
$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE others, k0, k1;
	CREATE TABLE doubled (id int PRIMARY KEY); CREATE TABLE second (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('doubled', shards => 2, replication_factor => 2);
	SELECT shardfdw.shard_table('second', shards => 1, nodes => '{node2}');
	CREATE TABLE ref (id int PRIMARY KEY); SELECT shardfdw.create_reference_table('ref');
	INSERT INTO second SELECT generate_series(1, 100);
	INSERT INTO ref SELECT generate_series(1, 100)});
{
	my $old = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$old->query_safe("\\set VERBOSITY sqlstate\nBEGIN ISOLATION LEVEL REPEATABLE READ");
	$old->query_safe('SELECT count(*) FROM second');
	$c->safe_psql(q{SET client_min_messages = warning; SELECT shardfdw.disable_node('node2')});
	$c->node_safe_psql(2, 'DELETE FROM ref WHERE id = 1');
	$c->safe_psql(q{SET client_min_messages = warning; SELECT shardfdw.enable_node('node2')});
	my $joined = 'SELECT count(*) FROM second JOIN ref USING (id)';
	is(run_in($old, $joined), '40001', 'a replica that was made again');
	$old->quit;
	is($c->safe_psql("SET default_transaction_isolation = serializable; $joined"), '100',
		'a transaction that begins now');
}

done_testing();
