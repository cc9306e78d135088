# Tests how many connections a load opens to a node. It opens several if it is alone in its
# transaction and the shards are independent, otherwise one. A wrong choice hangs, or shows only a
# part of the rows. A load must not open more connections than it has rows for. The nodes' cores are
# a limit, too, which loads at the same time share.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, node_conf => "max_prepared_transactions = 100\n");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $nrows = 30_000;

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int, w text)');
$c->shard_table('t', 'id', shards => 8);
my @shards = $c->shards_of('t');
my @of_node1 = map { $_->[0] } grep { $_->[1] == 1 } @shards;

sub write_file
{
	my ($name, $n) = @_;

	open my $out, '>', "$dir/$name" or die;
	print $out join '', map { "$_\t" . ($_ % 7) . "\t" . 'y' x 580 . "\n" } 1 .. $n;
	close $out;
	return "$dir/$name";
}
my $file = write_file('rows', $nrows);
my $small_file = write_file('few', 500);
my $copy = "COPY t FROM '$file'";

# Both nodes share two cores, which is enough for four connections to each.
sub set_cores
{
	my ($cores) = @_;
	$c->safe_psql("ALTER SERVER node$_ OPTIONS (SET cores '$cores')") for 1 .. 2;
	return;
}
set_cores(2);

# Counts in the nodes' logs the sessions' transactions that wrote.
$c->node_safe_psql($_, "ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()") for 1 .. 2;

# Runs code, which loads, and counts the sessions of each node that got rows.
sub sessions_of
{
	my ($load) = @_;
	my @positions = map { $c->log_position($_) } 1 .. 2;
	$load->();
	return join ' ', map {
		my %pids;
		$pids{$_} = 1 for $c->log_since($positions[ $_ - 1 ], $_) =~ /\[(\d+)\] .*COPY public\.\S+ .*FROM STDIN/g;
		scalar keys %pids;
	} 1 .. 2;
}

# Runs a load by SQL, which must load all rows and must not hang.
sub uses
{
	my ($expected, $sql, $name, %opt) = @_;
	my ($rc, $out, $err);
	my $got = sessions_of(sub {
		($rc, $out, $err) = $c->psql("SET statement_timeout = '60s';\n$sql", on_error_stop => 1);
	});

	is($rc, 0, "$name: the load") || diag $err;
	is($got, $expected, "$name: connections");
	is($c->safe_psql('SELECT count(*) FROM t'), $opt{nrows} // $nrows, "$name: rows");
	$c->safe_psql('TRUNCATE t');
	return;
}

# No other load runs, or other loads run.
uses('4 4', $copy, 'alone');
uses('2 2', "SET shardfdw.max_connections_per_node = 2; $copy", 'two connections');
uses('1 1', "SET shardfdw.max_connections_per_node = 1; $copy", 'one connection');
uses('4 4', "SET shardfdw.commit_protocol = '1pc'; $copy", 'one-phase commit');
uses('1 1', "COPY t FROM '$small_file'", 'a small file', nrows => 500);
uses('1 1', "BEGIN; $copy; SELECT count(*) FROM t; COMMIT;", 'in a transaction block');
uses('1 1', "$copy \\; SELECT count(*) FROM t;", 'several statements in a message');
uses('1 1', "SET default_transaction_isolation = 'repeatable read'; $copy", 'with one snapshot');
uses('1 1', "DO \$\$ BEGIN EXECUTE \$q\$$copy\$q\$; IF (SELECT count(*) FROM t) <> $nrows THEN RAISE 'rows are missing'; END IF; END \$\$;", 'in a function');
uses('1 1', "BEGIN; SAVEPOINT a; $copy; RELEASE a; COMMIT;", 'in a subtransaction');

# No more connections than the rows need: one per 2 MB.
uses('2 2', "COPY t FROM '" . write_file('half', 15_000) . "'", 'half of the rows', nrows => 15_000);
sub from_stdin
{
	my ($name) = @_;
	run_log([ 'psql', '-X', '-d', $c->coordinator->connstr('postgres'), '-c', 'COPY t FROM STDIN' ], '<', $name) or die;
	return;
}
is(sessions_of(sub { from_stdin($file) }), '4 4', 'from a client who does not say how much it is: connections');
is($c->safe_psql('SELECT count(*) FROM t'), $nrows, 'from a client: rows');
is(sessions_of(sub { $c->safe_psql('TRUNCATE t'); from_stdin($small_file) }), '1 1', 'few rows from a client: connections');
$c->safe_psql('TRUNCATE t');

# As many connections as there are cores, or a share of them if other loads run: loads on this
# coordinator, or on a node through other coordinators.
set_cores(1);
uses('2 2', $copy, 'one core');
set_cores(2);
$c->safe_psql('CREATE TABLE plain (id int)');
my @loads = map { load_that_waits($c->coordinator) } 1 .. 2;
uses('1 1', $copy, 'beside two other loads');
end_load(pop @loads);
uses('2 2', $copy, 'beside another load');
end_load(pop @loads);
$c->node_safe_psql(2, 'CREATE TABLE plain (id int)');
@loads = map { load_that_waits($c->node(2)) } 1 .. 2;
uses('2 2', $copy, 'beside two COPYs on a node');
end_load($_) for @loads;
uses('4 4', $copy, 'alone again');

# A COPY that waits for its client.
sub load_that_waits
{
	my ($server) = @_;
	my %load = (in => "COPY plain FROM STDIN;\n");
	my $waiting = $server->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_copy');

	$load{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $server->connstr('postgres') ], '<', \$load{in}, '>', \$load{out}, '2>', \$load{err});
	$load{run}->pump_nb;
	$server->poll_query_until('postgres', "SELECT count(*) = $waiting + 1 FROM pg_stat_progress_copy") or die;
	return \%load;
}

sub end_load
{
	my ($load) = @_;
	$load->{in} .= "\\.\n";
	$load->{run}->finish or die $load->{err};
	return;
}

open my $fh, '>', "$dir/load.sql" or die;
print $fh "$copy;\n";
close $fh;
is( sessions_of(sub { run_log([ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', "$dir/load.sql", $c->coordinator->connstr('postgres') ]); }),
	'1 1', 'by the extended protocol: connections');
is($c->safe_psql('SELECT count(*) FROM t'), $nrows, 'by the extended protocol: rows');
$c->safe_psql('TRUNCATE t');

# Triggers of the nodes: all shards of a node write to one row of one table.
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{
		CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0);
		CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.counter SET n = n + 1; RETURN NULL; END $$});
	$c->node_safe_psql($i, "CREATE TRIGGER count_rows AFTER INSERT ON $_->[0] FOR EACH STATEMENT EXECUTE FUNCTION count_rows()")
	  for grep { $_->[1] == $i } @shards;
}
uses('1 1', $copy, 'triggers that write to a common table');
$c->node_safe_psql($_->[1], "ALTER TABLE $_->[0] DISABLE TRIGGER count_rows") for @shards;
uses('4 4', $copy, 'triggers that are disabled');
$c->node_safe_psql(1, "ALTER TABLE $of_node1[0] ENABLE TRIGGER count_rows");
uses('1 1', $copy, 'a trigger of one shard');
$c->node_safe_psql($_->[1], "DROP TRIGGER count_rows ON $_->[0]") for @shards;
uses('4 4', $copy, 'triggers that were dropped');
$c->node_safe_psql($_->[1], "CREATE TRIGGER on_update BEFORE UPDATE ON $_->[0] FOR EACH ROW EXECUTE FUNCTION count_rows()") for @shards;
uses('4 4', $copy, 'triggers for what a load does not do');
$c->node_safe_psql($_->[1], "DROP TRIGGER on_update ON $_->[0]") for @shards;

# Foreign keys: rows of a common table are locked by all, which does not hurt; a row of another shard of the
# same load is seen over the same connection only.
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, 'CREATE TABLE ref (id int PRIMARY KEY); INSERT INTO ref SELECT generate_series(0, 6)');
}
$c->node_safe_psql($_->[1], "ALTER TABLE $_->[0] ADD CONSTRAINT to_ref FOREIGN KEY (v) REFERENCES ref") for @shards;
uses('4 4', $copy, 'foreign keys to a common table');
$c->node_safe_psql($_->[1], "ALTER TABLE $_->[0] DROP CONSTRAINT to_ref") for @shards;
my ($from, $to) = @of_node1[ 0, 1 ];
my $ids = $c->safe_psql("SELECT array_agg(id) FROM generate_series(1, $nrows) id WHERE shardfdw.shard_for('t', id) = '$to'::regclass");
my ($referenced) = $ids =~ /(\d+)/;
$c->node_safe_psql(1, "ALTER TABLE $from ADD COLUMN other int DEFAULT $referenced, ADD CONSTRAINT to_other FOREIGN KEY (other) REFERENCES $to DEFERRABLE INITIALLY DEFERRED");
uses('1 1', $copy, 'a foreign key between two shards');
$c->node_safe_psql(1, "ALTER TABLE $from DROP COLUMN other");

# Shards with replicas: each connection has primaries and replicas. The notes that shards make for
# their replicas use one connection.
$c->safe_psql(q{CREATE TABLE twice (id int PRIMARY KEY, v int, w text, d date); SELECT shardfdw.shard_table('twice', 'id', shards => 8, replication_factor => 2)});
my $dated_file = "$dir/dated";
open my $dated, '>', $dated_file or die;
print $dated join '', map { "$_\t1\t2024-01-01\t" . 'y' x 580 . "\n" } 1 .. $nrows;
print $dated "0\t1\ttoday\ty\n";
close $dated;
for (
	[ '4 4', "COPY twice (id, v, w) FROM '$file'", 'alone' ],
	[ '4 4', "COPY twice (id, v, d, w) FROM '$dated_file'", 'raw and then parsed', $nrows + 1 ],
	[ '1 1', "COPY twice (id, v, w) FROM '$file' (ON_ERROR 'ignore')", 'refused rows are set aside' ],
	[ '1 1', "COPY twice (id, v, w) FROM '$file' (ON_DUPLICATE 'keep_new')", 'duplicates are set aside' ])
{
	my ($expected, $sql, $name, $n) = @$_;
	my ($rc, $out, $err);
	is(sessions_of(sub { ($rc, $out, $err) = $c->psql("SET statement_timeout = '60s';\n$sql", on_error_stop => 1) }), $expected, "shards with replicas, $name: connections");
	is($rc, 0, "shards with replicas, $name: the load") || diag $err;
	is($c->safe_psql('SELECT sum(row_count), bool_and(is_equal) FROM shardfdw.compare_replicas($$twice$$)'), 2 * ($n // $nrows) . '|t', "shards with replicas, $name: rows");
	$c->safe_psql('TRUNCATE twice');
}
$c->safe_psql('DROP TABLE twice');

# Shards that are views: the coordinator cannot know which tables they read.
$c->node_safe_psql(1, qq{
	ALTER TABLE $from RENAME TO real_rows; CREATE VIEW $from AS SELECT * FROM real_rows;
	CREATE FUNCTION into_real_rows() RETURNS trigger LANGUAGE plpgsql AS
	\$\$ BEGIN INSERT INTO public.real_rows (id, v, w) VALUES (NEW.id, NEW.v, NEW.w); RETURN NEW; END \$\$;
	CREATE TRIGGER into_real_rows INSTEAD OF INSERT ON $from FOR EACH ROW EXECUTE FUNCTION into_real_rows()});
my ($rc, $out, $err);
is(sessions_of(sub { ($rc, $out, $err) = $c->psql($copy); }), '1 1', 'a shard that is a view: connections');
is($rc, 0, 'a shard that is a view: the load') || diag $err;
is($c->safe_psql('SELECT count(*) FROM t'), $nrows, 'a shard that is a view: rows');
$c->node_safe_psql(1, "DROP VIEW $from; ALTER TABLE real_rows RENAME TO $from");
$c->safe_psql('TRUNCATE t');

# A load that continues in parsed mode writes to each shard over the connection that has written to
# it before. So a repeated key is an error, and one connection does not wait for another.
for my $again (0, 1)
{
	open $fh, '>', "$dir/marker" or die;
	print $fh map { "$_,1," . 'z' x 580 . "\n" . ($_ == 20_000 ? "0,1,\"a\n\\.\nb\"\n" : '') } 1 .. $nrows;
	print $fh map { "$_,1,again\n" } 1 .. 50 * $again;
	close $fh;
	my $sql = "COPY t FROM '$dir/marker' (FORMAT csv)";
	if ($again)
	{
		$c->psql_fails_like("SET statement_timeout = '30s'; $sql", qr/23505.*COPY t, line 30004/s, 'parsed mode after raw mode, a key again');
	}
	else
	{
		uses('4 4', $sql, 'parsed mode after raw mode', nrows => $nrows + 1);
	}
}

# Triggers of the coordinator must see the loaded rows.
$c->safe_psql(qq{
	CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
	\$\$ BEGIN IF (SELECT count(*) FROM t) <> $nrows THEN RAISE 'rows are missing'; END IF; RETURN NULL; END \$\$;
	CREATE TRIGGER look AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION look()});
uses('1 1', $copy, 'a trigger of the coordinator');
$c->safe_psql('DROP TRIGGER look ON t');
uses('4 4', $copy, 'when it is gone');

$c->safe_psql('CREATE TABLE u (id int PRIMARY KEY, v int, w text)');
$c->shard_table('u', 'id', shards => 4, nodes => ['node2']);

# A role that may not have many connections.
$c->node_safe_psql(2, 'CREATE ROLE app LOGIN CONNECTION LIMIT 3; GRANT ALL ON ALL TABLES IN SCHEMA public TO app');
$c->safe_psql("DROP USER MAPPING FOR CURRENT_USER SERVER node2; CREATE USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (user 'app')");
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'app'", 2);
is(sessions_of(sub { ($rc, $out, $err) = $c->psql($copy); }), '2 2', 'a role with few connections: connections');
is($rc, 0, 'a role with few connections: the load') || diag $err;
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'app'", 2);
is($c->safe_psql('SET shardfdw.max_connections_per_node = 1; SELECT count(*) FROM t'), $nrows, 'a role with few connections: rows');
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'app'", 2);
$c->safe_psql('TRUNCATE t');
$c->safe_psql("DROP USER MAPPING FOR CURRENT_USER SERVER node2; CREATE USER MAPPING FOR CURRENT_USER SERVER node2 OPTIONS (user 'postgres')");

# If few connections are free, the load takes half of them in addition to its first one.
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_connections = 8');
$c->node(2)->restart;
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", 2);
uses('3 3', $copy, 'few free connections');
$c->node_safe_psql(2, 'ALTER SYSTEM RESET max_connections');

# If there are few prepared transactions, the load opens few connections, except with one-phase
# commit. If there are none, it opens one connection.
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 20');
$c->node(2)->restart;
uses('2 2', $copy, 'few prepared transactions');
uses('4 4', "SET shardfdw.commit_protocol = '1pc'; $copy", 'few prepared transactions, one-phase commit');
$c->node_safe_psql(2, 'ALTER SYSTEM SET max_prepared_transactions = 0');
$c->node(2)->restart;
is(sessions_of(sub { $c->psql("COPY u FROM '$file'"); }), '0 1', 'no prepared transactions, one node: connections');
is($c->safe_psql('SELECT count(*) FROM u'), $nrows, 'no prepared transactions, one node: rows');
done_testing();
