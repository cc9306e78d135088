# Readers on a hot standby of the coordinator, while the primary moves shards. No job waits for them,
# and the catalogs of the standby may be older than the tables on the nodes. They must read all rows
# of a table, or fail (40001). Later statements succeed.

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use Test::More;
use WireClient;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "wal_level = replica\nmax_wal_senders = 4\nhot_standby_feedback = on\n",
	node_conf        => "wal_level = logical\nmax_wal_senders = 10\n");
my $primary = $c->coordinator;

# The tables are not colocated, so t moves alone.
for my $table ('o', 't')
{
	my $type = $table eq 'o' ? 'bigint' : 'int';
	$c->safe_psql("CREATE TABLE $table (id $type PRIMARY KEY, v int);
		INSERT INTO $table SELECT i, i FROM generate_series(1, 100) i;
		SELECT shardfdw.shard_table('$table', shards => 1, nodes => '{node1}')");
}
my $standby = ShardServer->standby_of('standby', $primary);
my $lock = WireClient->new($standby, 'postgres');

# The rows of a statement's result, or its SQLSTATE.
sub shown
{
	my ($result) = @_;
	return $result->{error}{C} if $result->{error};
	return $result->{copied} if length($result->{copied} // '');
	return join ' ', map { join '|', @$_ } @{ $result->{rows} };
}

sub catch_up { $primary->wait_for_catchup('standby', 'replay', $primary->lsn('insert')); return; }

# A case is [ first statements of the session, the statement, its result if it begins after the
# moves, its result if the standby has not replayed the moves, its result without moves ]. A
# statement that calls pg_advisory_lock_shared() begins before the moves, and continues after them.
my $repeatable = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM o';
my $cut = "SET shardfdw.snapshot = 'cluster'; $repeatable";
my $late = 'SELECT count(*) FROM t WHERE
	(SELECT count(*) FROM o WHERE id < 10 AND pg_advisory_lock_shared(1) IS NULL) = 0';
my @repeatable = map { my $begin = $_; map { [ $begin, $_, '40001', '40001' ] }
	'SELECT count(*) FROM t', 'SELECT v FROM t WHERE id = 5', 'COPY t TO STDOUT',
	'SELECT count(*) FROM t JOIN o USING (id)' } $repeatable, $cut;
my @committed = map { [ 'SELECT 1', $_->[0], $_->[1], $_->[2] ] }
	[ 'SELECT count(*) FROM t', '100', '40001' ],
	[ 'SELECT v FROM t WHERE id = 5', '5', '40001' ],
	[ 'SELECT count(*) FROM t JOIN o USING (id)', '100', '40001' ],
	[ "SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t", '100', '40001' ],
	[ $late, '40001', '40001' ];

# Begins the cases, moves t to nodes, and runs the statements.
sub read_after
{
	my ($moves, $replays, @cases) = @_;
	my $when = @$moves . ' moves, ' . ($replays ? 'replayed' : 'not replayed');
	my @waiting = grep { $_->[1] eq $late } @cases;

	catch_up();
	$lock->query('SELECT pg_advisory_lock(1)');
	for my $case (@cases)
	{
		$case->[4] = WireClient->new($standby, 'postgres');
		$case->[4]->query($case->[0]);
		$case->[4]->start_query($case->[1]) if $case->[1] eq $late;
	}
	$standby->poll_query_until('postgres', 'SELECT count(*) = ' . @waiting .
		q{ FROM pg_stat_activity WHERE wait_event = 'advisory'});
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()') unless $replays;
	$c->safe_psql("SELECT shardfdw.move_shard('t_00', '$_')") for @$moves;
	catch_up() if $replays;
	$lock->query('SELECT pg_advisory_unlock(1)');
	for my $case (@cases)
	{
		my ($begin, $sql, $replayed, $not_replayed, $reader) = @$case;
		my $result = $sql eq $late ? $reader->finish_query : $reader->query($sql);
		is(shown($result), $replays ? $replayed : $not_replayed, "$when, $begin; $sql");
	}
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()') unless $replays;
	catch_up();
	for my $case (@cases)
	{
		$case->[4]->query('ROLLBACK; SELECT pg_advisory_unlock_all()');
		like(shown($case->[4]->query($case->[1])), qr/^(?:100|5|(?:\d+\t\d+\n){100})$/,
			"afterwards, $case->[1]");
		$case->[4]->close;
	}
	return;
}

read_after([ 'node2', 'node1' ], 1, @repeatable, @committed);
read_after([ 'node2', 'node1' ], 0, @repeatable, $committed[-1]);
read_after(['node2'], 1, @repeatable, @committed);
read_after(['node1'], 0, @repeatable, @committed);

# A table that was made plain or dropped, and sharded again with other shards of the same names: the
# standby has the old shards, each of which has only a part of the rows now.
$c->safe_psql("CREATE TABLE again (id int PRIMARY KEY, v int);
	CREATE TABLE whole (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table(x, shards => 1, nodes => '{node1}') FROM unnest('{again,whole}'::regclass[]) x;
	INSERT INTO again SELECT i, i FROM generate_series(1, 100) i; INSERT INTO whole TABLE again;");
my $shard_again = "SELECT shardfdw.shard_table(x, shards => 4, nodes => '{node1,node2}')
	FROM unnest('{again,whole}'::regclass[]) x";
my %conversions = (
	'made plain' => "SELECT shardfdw.unshard_table(x) FROM unnest('{again,whole}'::regclass[]) x;
		$shard_again;",
	'made again' => "DROP TABLE again, whole;
		CREATE TABLE again (id int PRIMARY KEY, v int); CREATE TABLE whole (id int PRIMARY KEY, v int);
		$shard_again;
		INSERT INTO again SELECT i, i FROM generate_series(1, 100) i; INSERT INTO whole TABLE again;",
	'moved' => "SELECT shardfdw.unshard_table('again'); SELECT shardfdw.unshard_table('whole');
		$shard_again;
		SELECT shardfdw.move_shard('again_00', 'node2'), shardfdw.move_shard('again_00', 'node1');");
my @reads = (
	[ 'SELECT count(*) FROM again', 100 ],
	[ 'SELECT count(*) FROM again JOIN whole USING (id)', 100 ],
	[ 'SELECT v FROM again WHERE id = 5', 5 ],
	[ 'SELECT v FROM again WHERE id = 6', 6 ],
	[ 'COPY again TO STDOUT', undef ]);
for my $how (sort keys %conversions)
{
	# one shard again
	$c->safe_psql("SELECT shardfdw.unshard_table(x) FROM unnest('{again,whole}'::regclass[]) x;
		SELECT shardfdw.shard_table(x, shards => 1, nodes => '{node1}')
			FROM unnest('{again,whole}'::regclass[]) x;");
	catch_up();
	my $reader = WireClient->new($standby, 'postgres');
	is(shown($reader->query($_->[0])), $_->[1], "$how, before: $_->[0]") for grep { $_->[1] } @reads;
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$c->safe_psql($conversions{$how});
	for my $session ($reader, WireClient->new($standby, 'postgres'))
	{
		is(shown($session->query($_->[0])), '40001', "$how, not replayed: $_->[0]") for @reads;
	}
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	catch_up();
	is(shown($reader->query($_->[0])), $_->[1], "$how, replayed: $_->[0]") for grep { $_->[1] } @reads;
	$reader->close;
}

# Shards that a split or a merge has made, and that have the names of older ones.
my %replacements = (
	split => "SELECT shardfdw.split_shard('split_00')",
	'split while writers wait' => "SELECT shardfdw.split_shard('split_00', mode => 'block')",
	merge => "SELECT shardfdw.merge_shards('{split_00,split_02}')",
	'more shards' => "SELECT shardfdw.set_shard_count('split', 8)",
	'fewer shards' => "SELECT shardfdw.set_shard_count('split', 2)");
for my $how (sort keys %replacements)
{
	# without an index, whose name would stay in use
	$c->safe_psql("CREATE TABLE split (id int, v int);
		SELECT shardfdw.shard_table('split', 'id', shards => 4, nodes => '{node1}');
		INSERT INTO split SELECT i, i FROM generate_series(1, 100) i");
	catch_up();
	my $ids = $c->safe_psql("SELECT string_agg(id::text, ',') FROM split_03");
	my $read = "SELECT count(*) FROM split WHERE id IN ($ids)";
	my $rows = $c->safe_psql($read);
	my $reader = WireClient->new($standby, 'postgres');
	is(shown($reader->query($read)), $rows, "$how, before");
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$c->safe_psql($_) for 'ALTER FOREIGN TABLE split_03 RENAME TO split_old', $replacements{$how};
	is($c->node(1)->safe_psql('postgres', "SELECT to_regclass('split_03') IS NOT NULL"), 't',
		"$how: the name is in use again");
	is(shown($reader->query($read)), '40001', "$how, not replayed");
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	catch_up();
	is(shown($reader->query($read)), $rows, "$how, replayed");
	$reader->close;
	$c->safe_psql('DROP TABLE split');
}

# Shards that get the names of others: by ALTER SCHEMA, or one by one.
$c->safe_psql("CREATE SCHEMA live; CREATE SCHEMA next; CREATE SCHEMA gone;
	CREATE TABLE live.r (id int PRIMARY KEY, v int); CREATE TABLE next.r (LIKE live.r INCLUDING ALL);
	CREATE TABLE live.s (LIKE live.r INCLUDING ALL); CREATE TABLE next.s (LIKE live.r INCLUDING ALL);
	CREATE TABLE few (LIKE live.r INCLUDING ALL); CREATE TABLE many (LIKE live.r INCLUDING ALL);
	SELECT shardfdw.shard_table(x, shards => CASE WHEN x::text ~ 'next|many' THEN 4 ELSE 1 END,
		nodes => '{node1}') FROM unnest('{live.r,next.r,live.s,next.s,few,many}'::regclass[]) x;");
$c->safe_psql("INSERT INTO $_ SELECT i, i FROM generate_series(1, 100) i")
	for qw(live.r next.r live.s next.s few many);
my %renames = (
	few => 'ALTER FOREIGN TABLE few_00 RENAME TO few_x;
		ALTER FOREIGN TABLE many_00 RENAME TO few_00;',
	'live.s' => 'ALTER FOREIGN TABLE live.s_00 SET SCHEMA gone;
		ALTER FOREIGN TABLE next.s_00 SET SCHEMA live;',
	'live.r' => 'ALTER SCHEMA live RENAME TO before; ALTER SCHEMA next RENAME TO live;');
for my $table ('few', 'live.s', 'live.r')
{
	catch_up();
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$c->safe_psql($renames{$table});
	my $reader = WireClient->new($standby, 'postgres');
	is(shown($reader->query("SELECT count(*) FROM $table")), '40001', "$table, renamed, not replayed");
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	catch_up();
	is(shown($reader->query("SELECT count(*) FROM $table")), 100, "$table, renamed, replayed");
}

# Readers that begin while a transaction changes the table wait for it. They must not read the new
# shards, or find no rows in new files of the old ones.
for my $how ('made plain', 'renamed', 'emptied and filled', 'written anew')
{
	my ($table, $change) = $how eq 'emptied and filled' ?
		('again', 'CREATE TEMP TABLE kept AS TABLE again; TRUNCATE again; INSERT INTO again TABLE kept;
			DROP TABLE kept') :
		$how eq 'written anew' ? ('again', 'ALTER TABLE again ALTER v TYPE int USING v + 0') :
		$how eq 'renamed' ? ('few_2', 'ALTER FOREIGN TABLE few_2_00 RENAME TO few_2_x;
		ALTER FOREIGN TABLE many_2_00 RENAME TO few_2_00') :
		('again', "SELECT shardfdw.unshard_table('again'); SELECT shardfdw.shard_table('again', shards => 4)");
	$c->safe_psql("SELECT shardfdw.unshard_table('again');
		SELECT shardfdw.shard_table('again', shards => 1, nodes => '{node1}')");
	$c->safe_psql("CREATE TABLE few_2 AS TABLE again; CREATE TABLE many_2 AS TABLE again;
		SELECT shardfdw.shard_table(x, 'id', shards => CASE x::text WHEN 'many_2' THEN 4 ELSE 1 END,
			nodes => '{node1}') FROM unnest('{few_2,many_2}'::regclass[]) x;") if $how eq 'renamed';
	catch_up();
	my @readers = map { WireClient->new($standby, 'postgres') } 1 .. 3;
	$readers[2]->query("PREPARE p(int) AS SELECT v FROM $table WHERE id = \$1");
	$readers[2]->query("EXECUTE p($_)") for 1 .. 10;
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	my $writer = WireClient->new($primary, 'postgres');
	$writer->query("BEGIN; SET LOCAL client_min_messages = warning; $change");
	$readers[0]->start_query("SELECT count(*) FROM $table");
	$readers[1]->start_query("SELECT v FROM $table WHERE id = 5");
	$readers[2]->start_query('EXECUTE p(5)');
	$c->node(1)->poll_query_until('postgres', 'SELECT count(*) = 3 FROM pg_locks WHERE NOT granted');
	$writer->query('COMMIT');
	# the same table, with other files, can be read as soon as the transaction has committed
	my $allowed = $how =~ /filled|anew/ ? qr/^(?:40001|100|5)$/ : qr/^40001$/;
	like(shown($_->finish_query), $allowed, "$how while readers wait") for @readers;
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	catch_up();
	is(shown($readers[0]->query("SELECT count(*) FROM $table")), 100, "$how, replayed");
	is(shown($readers[2]->query('EXECUTE p(5)')), 5, "$how, replayed, a prepared statement");
}

# The name of the shard key becomes another column's.
$c->safe_psql("CREATE TABLE swapped (id int, v int); INSERT INTO swapped SELECT i, 101 - i FROM generate_series(1, 100) i;
	SELECT shardfdw.shard_table('swapped', 'id', shards => 4)");
catch_up();
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$c->safe_psql('BEGIN; ALTER TABLE swapped RENAME id TO x; ALTER TABLE swapped RENAME v TO id;
	ALTER TABLE swapped RENAME x TO v; COMMIT');
my $renamed = WireClient->new($standby, 'postgres');
is(shown($renamed->query("SELECT count(*) FROM swapped WHERE id = $_")), '40001', "columns are renamed: id = $_")
	for 1, 2;
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
catch_up();
is($standby->safe_psql('postgres', 'SELECT v FROM swapped WHERE id = 2'), 99, 'columns are renamed, replayed');

# Another transaction that has begun before does not matter.
my $older = WireClient->new($primary, 'postgres');
$older->query('BEGIN; SELECT pg_current_xact_id()');
$c->safe_psql("SELECT shardfdw.unshard_table('again'); SELECT shardfdw.shard_table('again', shards => 4)");
catch_up();
is($standby->safe_psql('postgres', 'SELECT count(*) FROM again'), 100,
	'a new table is read while an older transaction runs');
$older->query('ROLLBACK');

done_testing();
