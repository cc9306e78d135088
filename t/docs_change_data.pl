# The claims of docs/change_data_capture.md. Tests what logical decoding sends of sharded tables, on
# the coordinator and on nodes, during moves and splits, and whether a subscriber stays equal.

use strict;
use warnings;

use DocBlocks;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $logical = "wal_level = logical\nmax_wal_senders = 20\nmax_replication_slots = 20\n";
my $c = ShardCluster->new(
	nodes            => 4,
	node_conf        => $logical,
	coordinator_conf => "${logical}max_logical_replication_workers = 12\nmax_worker_processes = 30\n");

my %count = run_blocks($c, 'docs/change_data_capture.md');
is("$count{run} run, $count{fragments} fragments", '3 run, 3 fragments', 'blocks of the page');

sub error_of { return join ' ', ($c->psql($_[0]))[2] =~ /((?:ERROR|WARNING): .*)/g; }

# Returns what the slot of a node has decoded since the last call, one "table: kind" for each row.
sub decoded
{
	my ($node) = @_;
	return join ' ', $c->node_safe_psql($node, q{
		SELECT coalesce(string_agg(DISTINCT x, ' ' ORDER BY x), '') FROM (
			SELECT substring(data FROM '^table (\S+: [A-Z]+)') AS x
			FROM pg_logical_slot_get_changes('all_changes', NULL, NULL)) c});
}

# The tables of which pgoutput sends rows for a publication. node undef: that of the coordinator.
sub published
{
	my ($node, $publication) = @_;
	my $sql = qq{
		SELECT coalesce(string_agg(x, ' ' ORDER BY x), '') FROM (
			SELECT split_part(encode(substr(data, 6), 'escape'), '\\000', 1) || '.'
				|| split_part(encode(substr(data, 6), 'escape'), '\\000', 2) AS x
			FROM pg_logical_slot_get_binary_changes('of_$publication', NULL, NULL,
				'proto_version', '1', 'publication_names', '$publication')
			WHERE get_byte(data, 0) = ascii('R')) c};
	return defined $node ? $c->node_safe_psql($node, $sql) : $c->safe_psql($sql);
}

# The coordinator
$c->safe_psql(q{
	CREATE TABLE plain (id int PRIMARY KEY, v int);
	CREATE TABLE other (id int PRIMARY KEY, v int);
	CREATE TABLE ref (id int PRIMARY KEY, v int);
	SELECT shardfdw.create_reference_table('ref');
	CREATE PUBLICATION by_name FOR TABLE sales.orders, plain, ref;
	CREATE PUBLICATION by_root FOR TABLE sales.orders WITH (publish_via_partition_root = true)});
is($c->safe_psql(q{SELECT pubname, string_agg(tablename, ' ' ORDER BY tablename)
	FROM pg_publication_tables GROUP BY 1 ORDER BY 1}),
	"by_name|orders_00 orders_01 orders_02 orders_03 plain ref\nby_root|orders",
	'names of publications');
like(($c->psql($_))[2], qr/WARNING: .*does not publish .*Sharded tables: sales\.orders\./s, $_)
	for 'CREATE PUBLICATION warns FOR TABLE plain, sales.orders',
		'ALTER PUBLICATION warns SET TABLES IN SCHEMA sales',
		'CREATE PUBLICATION every FOR ALL TABLES';
is(error_of('ALTER PUBLICATION warns SET TABLE plain, ref'), '', 'no sharded table: no warning');
$c->safe_psql('DROP PUBLICATION warns, every');
my $one = 'CREATE PUBLICATION one FOR TABLE sales.orders_00';
like(error_of($one), qr/cannot add relation/, 'a foreign table');
my $shard = "SELECT shardfdw.shard_table('plain', 'id')";
like(error_of($shard), qr/publication "by_name" sends its changes/, 'a published table');
$c->safe_psql('CREATE PUBLICATION all_tables FOR ALL TABLES');
like($c->safe_psql(q{SELECT string_agg(tablename, ' ') FROM pg_publication_tables
	WHERE pubname = 'all_tables' AND schemaname = 'shardfdw_internal'}),
	qr/commit_log/, 'FOR ALL TABLES has tables of the extension');
like(error_of("SELECT shardfdw.shard_table('other', 'id', shards => 2)"),
	qr/WARNING: .*does not publish changes of table "other"/, 'a warning');
$c->safe_psql('DROP PUBLICATION all_tables');
$c->safe_psql(q{SELECT pg_create_logical_replication_slot('here', 'test_decoding')});
$c->safe_psql(q{INSERT INTO sales.orders SELECT i, 'c', i FROM generate_series(1, 400) i;
	INSERT INTO plain VALUES (1, 1); INSERT INTO ref VALUES (1, 1)});
is($c->safe_psql(q{
	SELECT string_agg(DISTINCT substring(data FROM '^table (public\S+|sales\S+):'), ' ')
	FROM pg_logical_slot_get_changes('here', NULL, NULL)}),
	'public.plain public.ref', 'changes that the coordinator sends');
$c->safe_psql('DROP PUBLICATION by_name, by_root');

# A table that becomes plain stays in the publications that name it, and they send later changes.
for my $mode ('block', 'online')
{
	$c->safe_psql(qq{
		CREATE SCHEMA kept;
		CREATE TABLE kept.t (id int PRIMARY KEY, v int);
		INSERT INTO kept.t SELECT i, i FROM generate_series(1, 10) i;
		SELECT shardfdw.shard_table('kept.t', shards => 2);
		CREATE PUBLICATION kept FOR TABLE kept.t (id) WHERE (id > 100) WITH (publish_via_partition_root);
		CREATE PUBLICATION whole FOR TABLES IN SCHEMA kept;
		SELECT pg_create_logical_replication_slot('of_kept', 'pgoutput');
		SELECT pg_create_logical_replication_slot('of_whole', 'pgoutput');
		SELECT shardfdw.unshard_table('kept.t', mode => '$mode')});
	is(published(undef, 'kept'), '', "$mode: it does not send the rows that were in the shards");
	like(published(undef, 'whole'), $mode eq 'block' ? qr/^kept\.t$/ : qr/^kept\.shardfdw_new_\d+$/,
		"$mode: a publication for a schema sends them");
	$c->safe_psql('INSERT INTO kept.t VALUES (50, 50)');
	is(published(undef, 'kept'), '', "$mode: the condition is kept");
	$c->safe_psql('INSERT INTO kept.t VALUES (150, 150)');
	is(published(undef, 'kept'), 'kept.t', "$mode: later changes are sent");
	is($c->safe_psql("SELECT attnames FROM pg_publication_tables WHERE pubname = 'kept'"),
		'{id}', "$mode: the columns are kept");
	like(error_of("SELECT shardfdw.shard_table('kept.t', mode => '$mode')"),
		qr/ERROR: .*publication "kept" sends its changes/, "$mode: the way back is refused");
	$c->safe_psql(q{SELECT pg_drop_replication_slot('of_' || x) FROM unnest('{kept,whole}'::text[]) x;
		DROP PUBLICATION kept, whole;
		DROP SCHEMA kept CASCADE});
}
$c->safe_psql("SELECT pg_drop_replication_slot('here')");

# Nodes, and a database that subscribes to all of them
my $there = sub { return $c->coordinator->safe_psql('warehouse', $_[0]); };
$c->safe_psql('CREATE DATABASE warehouse');

# Makes a partition that corresponds to a shard.
sub partition
{
	my ($number, $modulus, $remainder) = @_;
	$there->("CREATE TABLE sales.orders_0$number PARTITION OF sales.orders
		FOR VALUES WITH (MODULUS $modulus, REMAINDER $remainder)");
	return;
}

$there->('CREATE SCHEMA sales');
$there->('CREATE TABLE sales.orders (id bigint PRIMARY KEY, customer text, total numeric)
	PARTITION BY HASH (id)');
partition($_, 4, $_) for 0 .. 3;
for my $i (1 .. 4)
{
	$c->node_safe_psql($i, 'CREATE PUBLICATION every_table FOR ALL TABLES');
	$c->node_safe_psql($i, "SELECT pg_create_logical_replication_slot($_)")
	  for q('all_changes', 'test_decoding', false, true), q('of_sales', 'pgoutput'),
	  q('of_every_table', 'pgoutput');
	my ($host, $port) = $c->node_address($i);
	$there->("CREATE SUBSCRIPTION node$i
		CONNECTION 'host=$host port=$port dbname=$c->{dbname}' PUBLICATION sales");
}
my $digest = q{SELECT count(*), md5(string_agg(concat_ws(',', id, customer, total), ' ' ORDER BY id))
	FROM sales.orders};

# Whether the subscriber has the rows, after it has got all that the nodes have sent.
sub same
{
	my ($what, $expected) = @_;
	my $copied = q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel};
	$c->coordinator->poll_query_until('warehouse', $copied) or die 'not copied';
	for my $node ($c->nodes)
	{
		my $lsn = $node->safe_psql($c->{dbname}, 'SELECT pg_current_wal_insert_lsn()');
		$node->safe_psql($c->{dbname}, q{SELECT pg_logical_emit_message(true, '', '')});
		$node->poll_query_until($c->{dbname}, "SELECT bool_and(confirmed_flush_lsn >= '$lsn')
			FROM pg_replication_slots WHERE slot_name ~ '^node'") or die 'not applied';
	}
	my $equal = $there->($digest) eq $c->safe_psql($digest);
	is($equal ? 'same' : 'other rows', $expected // 'same', $what);
	return;
}

same('after the copy');
$c->safe_psql(q{UPDATE sales.orders SET total = 0 WHERE id % 10 = 0;
	DELETE FROM sales.orders WHERE id > 390;
	INSERT INTO sales.orders VALUES (1001, 'x', 1), (1002, 'y', 2)});
same('after changes');
$c->safe_psql('UPDATE sales.orders SET id = id + 5000 WHERE id < 20');
same('after changes of keys');
like(decoded($_), qr/sales.orders_0\d: (?:INSERT|UPDATE)/, "node$_ sends changes of its shard")
  for 1 .. 4;
$c->safe_psql('INSERT INTO sales.orders SELECT i, NULL, 0 FROM generate_series(9001, 9040) i');
my $gid = q{SELECT substring(data FROM $$^PREPARE TRANSACTION '(.*):[0-9]+'$$)
	FROM pg_logical_slot_get_changes('all_changes', NULL, NULL) WHERE data ~ '^PREPARE'};
my @gids = map { $c->node_safe_psql($_, $gid) } 1 .. 4;
like($gids[0], qr/^shardfdw:/, 'the identifier of a transaction over several nodes');
is(join(' ', @gids), join(' ', ($gids[0]) x 4), 'is the same on all nodes but for the last field');

# Moves and splits
published(2, $_) for qw(sales every_table);
is($c->safe_psql("SELECT shardfdw.move_shard('sales.orders_00', 'node2') > 0"), 't', 'a move');
same('and the subscriber still has all rows');
is(published(2, 'sales'), '', 'the publication of a schema sends none of them');
like(published(2, 'every_table'), qr/shardfdw_\w+\.orders_00/, 'that of all tables does');
$c->safe_psql("UPDATE sales.orders SET customer = 'moved'");
same('changes after the move are missing', 'other rows');
$there->('ALTER SUBSCRIPTION node1 REFRESH PUBLICATION');
$there->('TRUNCATE sales.orders_00');
$there->('ALTER SUBSCRIPTION node2 REFRESH PUBLICATION');
same('until the shard is copied again');
$c->safe_psql("UPDATE sales.orders SET customer = 'again'");
same('and changes arrive');
is($c->safe_psql("SELECT shardfdw.split_shard('sales.orders_01') > 0"), 't', 'a split');
$c->safe_psql("UPDATE sales.orders SET customer = 'split'");
$there->('ALTER TABLE sales.orders DETACH PARTITION sales.orders_01');
partition(4, 8, 1);
partition(5, 8, 5);
$there->('ALTER SUBSCRIPTION node2 REFRESH PUBLICATION');
same('the subscriber with the new partitions');
$c->safe_psql('TRUNCATE sales.orders');
same('after TRUNCATE');
$c->node_safe_psql(3, 'CREATE PUBLICATION one_shard FOR TABLE sales.orders_02');
my $published = qr/sales.orders_02 cannot be \w+: it is in publication one_shard/;
like(error_of("SELECT shardfdw.$_"), $published, $_)
  for "move_shard('sales.orders_02', 'node1')", "split_shard('sales.orders_02')";

$c->safe_psql('CREATE TABLE sales.log (id int, v int)');
$c->safe_psql("SELECT shardfdw.shard_table('sales.log', 'id', shards => 4)");
$c->safe_psql('INSERT INTO sales.log VALUES (1, 1)');
my $change = 'UPDATE sales.log SET v = 2';
like(error_of($change), qr/does not have a replica identity/, 'no replica identity');
$c->safe_psql("ALTER TABLE sales.log REPLICA IDENTITY FULL; $change");

done_testing();
