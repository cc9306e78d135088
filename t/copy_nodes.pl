# COPY through the coordinator when a node raises an error, or does not read for a while.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2);
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';

# A program that prints the rows of the file. When each node has got more than the coordinator
# buffers, it waits until file "go" exists.
my $go = "$file.go";
my $pausing = "awk 'NR == 80000 { system(\"\"); system(\"while [ ! -e $go ]; do sleep 0.05; done\") } { print }' $file";

$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT v_positive CHECK (v > 0), w text NOT NULL);
	CREATE TABLE t_plain (LIKE t INCLUDING ALL)});
$c->shard_table('t', 'id', shards => 4);

# An error of a node names the user's table and the line of the user's input (R25).
sub load_fails
{
	my ($pattern, $name, $row, $line, $n) = @_;
	my $rows = join '', map { $_ == $line ? "$row\n" : "$_\t1\tx\n" } 1 .. $n;

	open my $fh, '>', $file or die;
	print $fh $rows;
	close $fh;
	for my $format ('text', 'csv')
	{
		my $options = $format eq 'csv' ? "(FORMAT csv, DELIMITER E'\\t', NULL '\\N')" : '';
		my ($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\nCOPY t FROM '$file' $options", on_error_stop => 1);
		isnt($rc, 0, "$name ($format) fails");
		like($err, $pattern, "$name ($format): error");
		like($err, qr/COPY t, line $line\b/, "$name ($format): the line of the user's file");
		like($err, qr/node "node[12]".*t_/is, "$name ($format): node and shard");
	}
	is($c->safe_psql('SELECT count(*) FROM t'), '0', "$name: nothing of the load stays");
	return;
}
load_fails(qr/23514.*violates check constraint "v_positive"/, 'CHECK in a short file', "7\t-1\tx", 7, 20);
load_fails(qr/23514.*violates check constraint "v_positive"/, 'CHECK in a long file', "70001\t-1\tx", 70_001, 100_000);
load_fails(qr/23502.*null value in column "w"/, 'NOT NULL', "701\t1\t\\N", 701, 1000);
load_fails(qr/23505.*duplicate key/, 'duplicate key', "5\t1\tx", 42_000, 60_000);

# An error of the coordinator itself.
my ($rc, undef, $err) = $c->psql("COPY t FROM STDIN;\n1\t1\tx\n2\tbad\tx\n\\.\n");
like($err, qr/COPY t, line 2, column v: "bad"/, 'a field that cannot be read: line and column as in core');
is($c->safe_psql('SELECT count(*) FROM t'), '0', 'nothing of that load stays');

# A node that stops reading in mid-load: the load waits, and every row arrives (R16).
$c->safe_psql(q{INSERT INTO t_plain SELECT g, g, repeat(md5(g::text), 8) FROM generate_series(1, 120000) g});
$c->safe_psql("COPY t_plain TO '$file'");
my $expected = $c->safe_psql(q{SELECT count(*), sum(id), md5(string_agg(w, '' ORDER BY id)) FROM t_plain});
for my $buffer ('64kB', '8MB')
{
	$c->sigstop_node(2);
	my $load = $c->start_sql(
		"SET shardfdw.copy_buffer_size = '$buffer'; COPY t FROM '$file';",
		name => 'load');
	usleep(1_500_000);
	$c->sigcont_node(2);
	my ($status, undef, $errors) = $c->wait_sql($load);
	is($status, 0, "COPY ends when the node goes on before anything was sent ($buffer)") || diag $errors;
	is($c->safe_psql(q{SELECT count(*), sum(id), md5(string_agg(w, '' ORDER BY id)) FROM t}), $expected, "all rows arrived ($buffer)");
	$c->safe_psql('TRUNCATE t');

	# Now in the middle: the input is a pipe that pauses.
	$load = $c->start_sql("SET shardfdw.copy_buffer_size = '$buffer'; COPY t FROM PROGRAM \$\$$pausing\$\$;", name => 'load');
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'COPY%FROM STDIN%' OR query LIKE 'BEGIN%COPY%'", 1);
	$c->sigstop_node(1);
	append_to_file($go, '');
	usleep(1_500_000);
	$c->sigcont_node(1);
	($status, undef, $errors) = $c->wait_sql($load);
	unlink $go;
	is($status, 0, "COPY ends when the node goes on in mid-load ($buffer)") || diag $errors;
	is($c->safe_psql(q{SELECT count(*), sum(id), md5(string_agg(w, '' ORDER BY id)) FROM t}), $expected, "all rows arrived ($buffer)");
	$c->safe_psql('TRUNCATE t');
}

# A node crashes in the middle of a load: the error comes soon, and no rows remain.
my $load = $c->start_sql("SET shardfdw.copy_buffer_size = '8MB'; COPY t FROM PROGRAM \$\$$pausing\$\$;", name => 'load');
$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%COPY%FROM STDIN%' AND pid <> pg_backend_pid()", 2);
$c->kill9_node(2);
append_to_file($go, '');
my ($status, undef, $errors) = $c->wait_sql($load);
isnt($status, 0, 'COPY fails when a node dies');
like($errors, qr/node2/, 'the error names the node');
$c->start_node(2);
is($c->safe_psql('SELECT count(*) FROM t'), '0', 'nothing of the load stays');

# Loads in a transaction with everything else, with few connections (R26).
is( $c->safe_psql(
		"SET shardfdw.max_connections_per_node = 2; BEGIN; INSERT INTO t VALUES (1000001, 1, 'x'); COPY t FROM '$file'; UPDATE t SET v = v + 1 WHERE id <= 10;
		 COPY t FROM PROGRAM 'printf \"2000001\\\\t5\\\\ty\\\\n\"'; SELECT count(*), sum(v) - sum(id) FROM t WHERE id < 1000000; COMMIT; SELECT count(*) FROM t"),
	"120000|10\n120002", 'INSERT, COPY, UPDATE and COPY in one transaction');

for my $i (1 .. 2)
{
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}
done_testing();
