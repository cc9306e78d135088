# A deadlock over two coordinators: one session waits for another one of the same coordinator.
# S1 of A waits on A for S2, S2 of B waits on B for S3 of B, and S3 waits on B for S1. The recovery
# of A can end S1, and that of B can end S3. None of them ends S2, wherever its name stands.

use strict;
use warnings;

use ShardPeers;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $p = ShardPeers->new(conf => "shardfdw.recovery_interval = 1\ndeadlock_timeout = 200ms\n");
my ($one, $two) = $p->all;
$one->safe_psql(q{CREATE TABLE x (id int PRIMARY KEY, v int);
	CREATE TABLE y (id int PRIMARY KEY, v int); CREATE TABLE z (id int);
	SELECT shardfdw.shard_table('x', shards => 2); SELECT shardfdw.shard_table('y', shards => 2)});
$p->add_all;

# B has the lower names.
my $system = 'SELECT system_identifier FROM pg_control_system()';
my ($b, $a) = sort { $a->safe_psql($system) cmp $b->safe_psql($system) } $one, $two;

for my $s2_is_lower (1, 0)
{
	my $what = $s2_is_lower ? 'S2 has the lowest name' : 'S3 has the lowest name';
	my $s1 = WireClient->new($a->coordinator, 'postgres');
	my ($s2, $s3) = map { WireClient->new($b->coordinator, 'postgres') } 1, 2;
	my ($pid2, $pid3) = map { WireClient::shown($_->query('SELECT pg_backend_pid()')) } $s2, $s3;

	($s2, $s3) = ($s3, $s2) if ($pid2 lt $pid3) != $s2_is_lower;
	is($s1->query('BEGIN; ALTER TABLE x ADD CHECK (v > 0)')->{error}, undef, "$what: S1 locks x");
	is($s2->query('BEGIN; ALTER TABLE y ADD CHECK (v > 0)')->{error}, undef, "$what: S2 locks y");
	is($s3->query('BEGIN; LOCK TABLE z')->{error}, undef, "$what: S3 locks z on its coordinator");
	$s2->start_query('SELECT count(*) FROM z');
	$s3->start_query('SELECT count(*) FROM x');
	$s1->start_query('SELECT count(*) FROM y');

	my @ended;
	my $end = time + 60;
	until (@ended || time > $end)
	{
		for my $session ($s1, $s2, $s3)
		{
			my $result = $session->finish_query(0.1);
			push @ended, WireClient::shown($result) if $result;
		}
	}
	like("@ended", qr/\b(?:57014|40P01)\b/, "$what: the deadlock ends");
	$_->close for $s1, $s2, $s3;
}
done_testing();
