# check_cluster() must report servers that do not belong to one moment. It must report nothing if
# all servers belong to one moment.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 0\n");
$c->safe_psql(q{
	CREATE TABLE country (code int PRIMARY KEY, name text);
	CREATE TABLE customer (id bigint PRIMARY KEY, country int REFERENCES country);
	CREATE TABLE "Bestell'ung" (customer bigint, "no%" int, PRIMARY KEY (customer, "no%"));
	SELECT shardfdw.create_reference_table('country'), shardfdw.shard_table('customer', 'id', 4), shardfdw.shard_table('"Bestell''ung"', 'customer', colocate_with => 'customer');
	ALTER TABLE "Bestell'ung" ADD FOREIGN KEY (customer) REFERENCES customer (id);
	INSERT INTO country SELECT g, 'country ' || g FROM generate_series(1, 10) g;
	INSERT INTO customer SELECT g, nullif(g % 11, 0) FROM generate_series(1, 100) g;
	INSERT INTO "Bestell'ung" SELECT g, 1 FROM generate_series(1, 100) g});

sub found
{
	my ($arg) = @_;

	return $c->safe_psql(ShardCluster::problems(q{check_cluster('rows'} . (defined $arg ? ", $arg" : '') . ')') . ' ORDER BY 1, 2, 3');
}

is(found(), '', 'a cluster that is in order');
is($c->safe_psql(q{SELECT string_agg(detail, ', ' ORDER BY node) FROM shardfdw.check_cluster('rows') WHERE check_name = 'foreign keys'}), '4 foreign keys hold, 4 foreign keys hold', 'foreign keys are looked at');
is($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster('rows') WHERE check_name = 'transactions'}), 'nothing is undecided', 'transactions, too');

# rows that one server lost
$c->node_safe_psql(1, 'SET session_replication_role = replica; DELETE FROM country WHERE code = 3');
like(found(), qr/^node1\|foreign keys\|\d+ rows of public\.customer_0\d refer to nothing in public\.country \(foreign key customer_country_fkey\)\nnode1.*node1\|reference table public\.country\|9 rows, but 10 here$/s, 'a replica of a reference table is older');
$c->node_safe_psql(1, q{INSERT INTO country VALUES (3, 'country 3')});
is(found(), '', 'mended');
my $shard = $c->safe_psql(q{SELECT shardfdw.shard_for('customer', 5) FROM shardfdw.shards LIMIT 1});
my $node = $c->safe_psql("SELECT right(node, 1) FROM shardfdw.shards WHERE shard = '$shard'::regclass");
$c->node_safe_psql($node, "SET session_replication_role = replica; DELETE FROM $shard WHERE id = 5");
like(found(), qr/^node$node\|foreign keys\|1 rows of public\."Bestell'ung_0\d" refer to nothing in public\.customer_0\d/, 'a row of a shard is missing');
$c->safe_psql('INSERT INTO customer VALUES (5, 5)');

# a prepared transaction that was neither committed nor rolled back
my $gid = $c->gid_prefix . '1000000000000:1';
$c->node_safe_psql(2, "BEGIN; INSERT INTO country VALUES (50, 'x'); PREPARE TRANSACTION '$gid'");
like(found(), qr/^node2\|transactions\|\Q$gid\E: /, 'a transaction that is prepared');
$c->node_safe_psql(2, "ROLLBACK PREPARED '$gid'");

# a table that is dropped on a node while its definition is read
$c->safe_psql('CREATE TABLE lone (id int PRIMARY KEY, v int CHECK (v > 0))');
$c->safe_psql(q{SELECT shardfdw.shard_table('lone', 'id', 2)});
my ($dropped) = grep { $_->[1] == 1 } $c->shards_of('lone');
$c->node_safe_psql(1, "BEGIN; DROP TABLE $dropped->[0]; PREPARE TRANSACTION 'drop'");
my $check = $c->start_sql('SELECT * FROM (' .
	  ShardCluster::problems('check_cluster()') . ") x WHERE check_name <> 'transactions'");
$c->wait_for('SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 1);
$c->node_safe_psql(1, "COMMIT PREPARED 'drop'");
my ($rc, $out) = $c->wait_sql($check);
is($out, "node1|shard public.$dropped->[0]|table public.$dropped->[0] does not exist there",
	'only the dropped table is missing');

# a point at which no server has been restored
like(found(q{'no-such-point'}), qr/\|restore point\|It has not been restored.*node2\|restore point\|/s, 'no restored server');
$c->stop_node(2);
like($c->safe_psql(q{SELECT string_agg(detail, ' ') FROM shardfdw.check_cluster() WHERE node = 'node2' AND status = 'error'}), qr/could not connect/, 'a node that is down');

done_testing();
