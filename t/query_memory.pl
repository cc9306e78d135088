# A client queries a table that is much larger than memory should hold, and does not read the rows.
# The coordinator must wait, and must keep little in memory.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2);
my $mb = 100;

# 300 MB in 200,000 rows
$c->safe_psql('CREATE TABLE t (id int, v text)');
$c->shard_table('t', 'id', shards => 4);

sub peak_kb
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /VmHWM:\s+(\d+)/ ? $1 : die 'no VmHWM';
}

# The peak of a session's own backend, before and after statements.
sub growth
{
	my ($sql) = @_;
	my $session = $c->coordinator->background_psql('postgres');
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $start = peak_kb($pid);
	my $answer = $session->query_safe($sql);
	my $end = peak_kb($pid);
	$session->quit;
	return (($end - $start) / 1024, $answer);
}

my ($grown) = growth(q{INSERT INTO t SELECT g, repeat(md5(g::text), 48) FROM generate_series(1, 200000) g});
cmp_ok($grown, '<', $mb, 'loading 300 MB');
for my $mode ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off',
	'shardfdw.max_connections_per_node = 1')
{
	my $answer;
	($grown, $answer) = growth("SET $mode; SELECT count(*), sum(length(v)), sum(id % 2) FROM (SELECT * FROM t OFFSET 0) x");
	is($answer, '200000|307200000|100000', "reading 300 MB gives all rows: $mode");
	cmp_ok($grown, '<', $mb, "reading 300 MB: $mode");
}

# A client that stops reading.
for my $mode ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off')
{
	my $client = $c->start_sql("SET $mode;\nSELECT * FROM t;", name => 'reader');
	my $client_pid = $client->{run}{KIDS}[0]{PID};
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'reader' AND query LIKE 'SELECT%' AND state = 'active'");
	kill 'STOP', $client_pid;
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'reader' AND wait_event = 'ClientWrite'");
	my ($pid) = $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'reader'");
	usleep(2_000_000);
	cmp_ok(peak_kb($pid) / 1024, '<', $mb, "a client that does not read: $mode");
	kill 'CONT', $client_pid;
	my ($rc, undef, $err) = $c->wait_sql($client);
	is($rc, 0, "the client gets its rows: $mode") || diag $err;
	my $n = 0;
	open my $fh, '<', $client->{out} or die;
	$n++ while <$fh>;
	close $fh;
	is($n, 200_000, "all of them: $mode");
	unlink $client->{out};
}
done_testing();
