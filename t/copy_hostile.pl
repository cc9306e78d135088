# COPY into a sharded table while other sessions change the objects that the table depends on.

use strict;
use warnings;

use lib 't/lib';
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 1);
my $go = PostgreSQL::Test::Utils::tempdir() . '/go';

# A program that prints its first lines, then waits until the file exists.
sub paused
{
	my ($first, $rest) = @_;
	return "$first; while [ ! -e $go ]; do sleep 0.1; done; $rest";
}

# Runs $sql, a COPY FROM PROGRAM with a paused program. When it has read some lines, runs $other.
# Returns the problems that it found.
sub meanwhile
{
	my ($sql, $other) = @_;

	unlink $go;
	my $load = $c->start_sql($sql);
	$c->wait_for('SELECT count(*) = 1 FROM pg_stat_progress_copy WHERE bytes_processed > 0');
	$c->safe_psql($other);
	open my $file, '>', $go or die $!;
	close $file;
	return ($c->wait_sql($load))[2];
}

$c->node_safe_psql(1, 'CREATE TABLE l0 (id int); CREATE TABLE l1 (id int); CREATE TABLE l2 (id int)');
$c->safe_psql(q{
	CREATE TABLE l (id int) PARTITION BY LIST (id);
	CREATE FOREIGN TABLE l1 PARTITION OF l FOR VALUES IN (1) SERVER node1;
	CREATE FOREIGN TABLE l2 PARTITION OF l FOR VALUES IN (2) SERVER node1;
	CREATE FOREIGN TABLE l0 (id int) SERVER node1;
	-- names that nobody has are looked for in the catalogs, which is when a session hears of changes
	CREATE FUNCTION looks(id int) RETURNS l LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM to_regclass('nobody_' || (random() * 1e9)::int);
		RETURN ROW(id);
	END $$;
});
my $rows = "SELECT string_agg(tableoid::regclass || ' ' || id, ', ' ORDER BY tableoid::regclass::text, id) FROM l";

for my $options ('FORMAT csv', "FORMAT csv, FILTER 'looks'")
{
	my $program = paused('seq 1 2', 'seq 1 2; seq 1 2');

	is(meanwhile(
			"COPY l FROM PROGRAM '$program' ($options)",
			'ALTER TABLE l ATTACH PARTITION l0 FOR VALUES IN (0)'),
		'', "a partition is attached in the middle ($options)");
	is($c->safe_psql($rows), 'l1 1, l1 1, l1 1, l2 2, l2 2, l2 2', 'rows are where they belong');
	$c->safe_psql('ALTER TABLE l DETACH PARTITION l0; TRUNCATE l');
}

# A row for the new partition: not in this load.
like(meanwhile(
		"COPY l FROM PROGRAM '" . paused('seq 1 2', 'seq 0 1') . "' (FORMAT csv, FILTER 'looks')",
		'ALTER TABLE l ATTACH PARTITION l0 FOR VALUES IN (0)'),
	qr/no partition of relation "l" found for row/, 'a row of a partition that is too new');
is($c->safe_psql('SELECT count(*) FROM l'), '0', 'nothing is loaded');

# The end of the postmaster ends a load that waits for its client.
my ($out, $err) = ('', '');
my $in = "SELECT pg_backend_pid();\nCOPY l FROM STDIN;\n1\n";
my $psql = IPC::Run::start([ 'psql', '-XAtq', '-d', $c->coordinator->connstr('postgres') ],
	'<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
$psql->pump until $out =~ /^(\d+)\n/;
my $pid = $1;
$c->wait_for("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
$c->coordinator->kill9;
my $gone = 0;
for (1 .. 300)
{
	last if $gone = !kill 0, $pid;
	usleep(100_000);
}
ok($gone, 'a load that waits for its client ends with the postmaster');
$psql->kill_kill;

done_testing();
