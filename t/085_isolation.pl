# Functions that make tables at REPEATABLE READ and SERIALIZABLE, where queries see what was committed when the
# transaction began: what others have committed since is never lost, as they refuse.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->add_node($_) for 1, 2;
my ($rc, $out, $err);
my ($host, $port) = $c->node_address(3);
my $add_node = "SELECT shardfdw.add_node('node3', '$host', $port, 'postgres')";

# What there is on all servers, with the contents of some tables
my $of_server = q{SELECT string_agg(format('%s %s %s', n.nspname, c.relname, c.relkind), ', ' ORDER BY n.nspname, c.relname, c.relkind)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'shardfdw')};
sub everything
{
	return join "\n", $c->safe_psql("$of_server UNION ALL SELECT string_agg(srvname, ' ') FROM pg_foreign_server UNION ALL SELECT fdwhandler::regproc::text FROM pg_foreign_data_wrapper WHERE fdwname = 'postgres_fdw'"),
	  map { $c->node_safe_psql($_, $of_server) } 1 .. 3;
}
sub differences { return $c->safe_psql(q{SELECT node, "check", detail FROM shardfdw.check_nodes(true) WHERE status = 'error'}); }

# The tables that a case begins with: plain, sharded and replicated
sub make_tables
{
	$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE IF EXISTS plain, sharded, reference;
		CREATE TABLE plain (id int PRIMARY KEY, v int); CREATE TABLE sharded (LIKE plain INCLUDING ALL); CREATE TABLE reference (LIKE plain INCLUDING ALL);
		INSERT INTO plain SELECT i, i FROM generate_series(1, 5) i; INSERT INTO sharded TABLE plain; INSERT INTO reference TABLE plain;
		SELECT shardfdw.shard_table('sharded', shards => 2), shardfdw.replicate_table('reference')});
}
sub rows { return $c->safe_psql("SELECT string_agg(id || ':' || v, ' ' ORDER BY id) FROM $_[0]"); }

#
# Functions beside a session that writes
#

my %function = (
	plain     => [ q{shard_table('plain', shards => 2)}, q{replicate_table('plain')} ],
	sharded   => [ q{unshard_table('sharded')} ],
	reference => [ q{unshard_table('reference')} ]);
for my $table (sort keys %function)
{
	for my $call (@{ $function{$table} })
	{
		my ($name) = $call =~ /^(\w+)/;
		for my $level ('repeatable read', 'serializable', 'read committed')
		{
			make_tables();
			my $writer = $c->coordinator->background_psql('postgres');
			$writer->query("BEGIN; INSERT INTO $table VALUES (100, 1); UPDATE $table SET v = 50 WHERE id = 1; DELETE FROM $table WHERE id = 2");
			my $handle = $c->start_sql("SET client_min_messages = warning; SET default_transaction_isolation = '$level'; SELECT shardfdw.$call");
			if ($level eq 'read committed')
			{
				$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%$name%' AND pid <> pg_backend_pid()");
			}
			else
			{
				($rc, $out, $err) = $c->wait_sql($handle);
				like($err, qr/ERROR:  $name\(\) needs transaction isolation level READ COMMITTED\nDETAIL:  At \U$level\E it would work/, "$call at $level");
			}
			$writer->query('COMMIT');
			$writer->quit;
			($rc, $out, $err) = $c->wait_sql($handle) if $level eq 'read committed';
			is($err, '', "$call at $level") if $level eq 'read committed';
			is(rows($table), '1:50 3:3 4:4 5:5 100:1', 'what the other session has written is there');
			is(differences(), '', 'both sides are equal');
		}
	}
}

#
# Every function that makes, copies or drops tables, after others have changed much
#

make_tables();
$c->safe_psql(q{CREATE TABLE parent (id int NOT NULL, v int) PARTITION BY RANGE (id); SELECT shardfdw.create_shard('parent', 'parent_1', 'FROM (0) TO (100)', 'node1')});
my @calls = (q{shard_table('plain', shards => 2)}, q{replicate_table('plain')}, q{replicate_table('reference')}, q{unshard_table('sharded')}, q{unshard_table('reference')},
	q{create_shard('parent', 'parent_2', 'FROM (100) TO (200)', 'node2')}, q{make_twins('node1')}, q{unreplicate_table('reference')}, q{copy_all_references('node1')},
	q{make_reference_copies('plain', '{node1}')}, q{adopt_postgres_fdw()}, q{release_postgres_fdw()}, $add_node =~ /shardfdw\.(.*)/);
my %old = map {
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\nBEGIN ISOLATION LEVEL $_; SELECT count(*) FROM pg_class; SELECT count(*) FROM parent_1 WHERE false; SAVEPOINT a");
	($_ => $session);
} ('REPEATABLE READ', 'SERIALIZABLE');
$c->safe_psql(q{SET client_min_messages = warning; CREATE EXTENSION postgres_fdw;
	ALTER TABLE plain ENABLE ROW LEVEL SECURITY, ADD CHECK (v > 0), ALTER v TYPE bigint; CREATE INDEX ON plain (v); INSERT INTO plain VALUES (6, 6);
	ALTER TABLE reference ADD COLUMN n int; INSERT INTO reference VALUES (6, 6, 6); ALTER TABLE sharded ADD CHECK (v > 0); INSERT INTO sharded VALUES (6, 6); CREATE INDEX ON sharded (v)});
my $before = everything();
for my $level (sort keys %old)
{
	for my $call (@calls)
	{
		my ($name) = $call =~ /^(\w+)/;
		$old{$level}{stderr} = '';
		$old{$level}->query("SELECT shardfdw.$call; ROLLBACK TO a");
		like($old{$level}{stderr}, qr/0A000: $name\(\) needs transaction isolation level READ COMMITTED/, "$call at $level");
	}
	is($old{$level}->query(q{SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode NOT LIKE 'Access%' AND mode NOT LIKE 'SI%' AND locktype IN ('relation', 'advisory', 'object')}), '0', 'nothing is locked');
	$old{$level}->query('COMMIT');
	$old{$level}->quit;
}
is(everything(), $before, 'nothing has changed on any server');
is(differences(), '', 'and both sides are equal');

# as core refuses a transaction of another level than a command needs
$c->psql_fails_like(q{BEGIN; SET TRANSACTION SNAPSHOT '00000003-0000001B-1';}, qr/0A000: .*isolation level/, q{core's SQLSTATE});

# and as the hints say
($rc, $out, $err) = $c->psql(q{SET client_min_messages = warning; SET default_transaction_isolation = 'serializable';
	BEGIN ISOLATION LEVEL READ COMMITTED; SELECT shardfdw.shard_table('plain', shards => 2); COMMIT;
	SET default_transaction_isolation = 'read committed'; SELECT shardfdw.create_shard('parent', 'parent_2', 'FROM (100) TO (200)', 'node2')}, on_error_stop => 1);
is($err, '', 'at READ COMMITTED');
is($c->safe_psql(q{SELECT count(*), (SELECT relrowsecurity FROM pg_class WHERE oid = 'plain'::regclass) FROM plain}), '6|t', 'with all that was committed');
is(differences(), '', 'both sides are equal');

done_testing();
