# Statements that lock shards while another session changes the definition of the table. A change
# that moves no shard must not stop them: they neither fail nor try again without end.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2);

sub session { return WireClient->new($c->coordinator, 'postgres'); }

sub waits
{
	my ($sql) = @_;
	$sql =~ s/'/''/g;
	return $c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type IN ('Lock', 'Extension') AND query = '$sql'");
}

# ---- a partition that is being detached ----------------------------------------------------------

$c->safe_psql(q{CREATE TABLE m (k int NOT NULL, v int) PARTITION BY RANGE (k);
	SELECT shardfdw.create_shard('m', 'm_1', 'FOR VALUES FROM (0) TO (10)', 'node1');
	SELECT shardfdw.create_shard('m', 'm_2', 'FOR VALUES FROM (10) TO (20)', 'node2');
	INSERT INTO m SELECT i, i FROM generate_series(1, 19) i});
for my $sql (
	'UPDATE m SET v = v + 1',
	'DELETE FROM m WHERE k = 12',
	'INSERT INTO m VALUES (13, 1)',
	'SELECT v FROM m WHERE k = 14 FOR UPDATE',
	'SELECT v FROM m WHERE k > 10 ORDER BY v LIMIT 1 FOR UPDATE')
{
	my ($writer, $other) = (session(), session());
	my $detach = 'ALTER TABLE m DETACH PARTITION m_1 CONCURRENTLY';
	$writer->query('BEGIN; SELECT count(*) FROM m');
	$other->start_query($detach);
	waits($detach);
	$writer->start_query($sql);
	my $result = $writer->finish_query(30);
	ok($result && !$result->{error}, "$sql, while a partition is being detached")
	  or diag $result ? $result->{error}{M} : 'it does not end';
	BAIL_OUT('a statement does not end') unless $result;
	$writer->query('ROLLBACK');
	is($other->finish_query->{error}, undef, 'the partition is detached');
	$_->close for $writer, $other;
	$c->safe_psql('ALTER TABLE m ATTACH PARTITION m_1 FOR VALUES FROM (0) TO (10)');
}

# ---- definitions that change while a statement waits for a row -----------------------------------

$c->safe_psql(q{CREATE TABLE q (id int PRIMARY KEY, st int DEFAULT 0);
	INSERT INTO q SELECT i FROM generate_series(1, 40) i;
	SELECT shardfdw.shard_table('q', shards => 4)});
for my $change ('ANALYZE q', 'CREATE SCHEMA x; DROP SCHEMA x', 'GRANT SELECT ON q TO PUBLIC')
{
	my $lock = 'SELECT id FROM q WHERE st = 0 ORDER BY id LIMIT 8 FOR UPDATE';
	for my $sql ($lock, "UPDATE q SET st = 0 WHERE id IN ($lock)")
	{
		my ($holder, $waiter) = (session(), session());
		$holder->query('BEGIN; SELECT id FROM q WHERE id = 1 FOR UPDATE');
		$waiter->start_query($sql);
		waits($sql);
		$c->safe_psql($change);
		$holder->query('ROLLBACK');
		my $result = $waiter->finish_query;
		is($result->{error} ? $result->{error}{M} : 'done', 'done', "$sql; after $change");
		$_->close for $holder, $waiter;
	}
}
done_testing();
