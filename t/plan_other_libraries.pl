# Loads other libraries with hooks before and after this library. pg_stat_statements and
# auto_explain must see each kind of statement correctly.
#
# Each statement is the second one of its text. If the extension plans a part of it with another
# text, the view shows this.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2, coordinator_conf => "log_min_messages = fatal\n", node_conf => "log_min_messages = fatal\n");
my $server = $c->coordinator;

plan skip_all => 'there is no pg_stat_statements'
  if $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'}) eq '0';

$c->node_safe_psql(1, 'CREATE TABLE alone (k int, a int, v text)');
$c->safe_psql(<<'SQL');
CREATE TABLE st (k int PRIMARY KEY, a int, v text);
SELECT shardfdw.shard_table('st', 'k', shards => 4);
CREATE TABLE other (k int PRIMARY KEY, a int);
SELECT shardfdw.shard_table('other', 'k', shards => 3);
CREATE TABLE ref (id int PRIMARY KEY, w int);
SELECT shardfdw.create_reference_table('ref');
CREATE TABLE home (id int, a int);
CREATE FOREIGN TABLE alone (k int, a int, v text) SERVER node1 OPTIONS (table_name 'alone');

INSERT INTO st SELECT i, i % 7, 'v' FROM generate_series(1, 100) i;
INSERT INTO other SELECT i, i % 7 FROM generate_series(1, 100) i;
INSERT INTO ref SELECT i, i % 7 FROM generate_series(1, 20) i;
CREATE FUNCTION noisy(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN count(*) FROM home WHERE home.a = n; END';
INSERT INTO home SELECT i, i % 7 FROM generate_series(1, 20) i;
SQL

# Name -> statement. A comment names the way of planning.
my @statements = (
	# one shard's
	routed_select => 'SELECT a, v FROM st WHERE k = 5',
	routed_update => 'UPDATE st SET a = 6 WHERE k = 6',
	routed_insert => q{INSERT INTO st VALUES (1001, 1, 'x')},
	routed_upsert => q{INSERT INTO st VALUES (1001, 1, 'y') ON CONFLICT (k) DO UPDATE SET a = excluded.a},
	# a single foreign table
	single_insert => 'INSERT INTO alone SELECT k + 1, a FROM alone WHERE k = 4',
	single_select => 'SELECT count(*) FROM alone x JOIN alone y ON x.k = y.k',
	# all shards, with the unchanged statement
	pushed_update => 'UPDATE st SET a = a + 1 WHERE a > 3',
	pushed_insert => 'INSERT INTO st SELECT k, a FROM st ON CONFLICT (k) DO NOTHING',
	pushed_delete => 'DELETE FROM st WHERE a = 200',
	# not so, which is found out by planning
	refused_insert => 'INSERT INTO st SELECT k + 2000, a FROM st WHERE k < 10',
	refused_update => 'UPDATE st SET a = other.a FROM other WHERE other.a = st.k AND other.k < 3',
	refused_delete => 'DELETE FROM st USING home WHERE home.id = st.k AND home.id = 77',
	# rows of a local table
	source_upsert => 'INSERT INTO st SELECT id, w FROM home AS h (id, w) ON CONFLICT (k) DO UPDATE SET a = excluded.a',
	source_merge  => 'MERGE INTO st USING home ON home.id = st.k WHEN MATCHED THEN UPDATE SET a = home.a WHEN NOT MATCHED THEN INSERT (k, a) VALUES (home.id, home.a)',
	source_with   => 'WITH w AS (INSERT INTO st SELECT id, a FROM home ON CONFLICT (k) DO UPDATE SET a = 3 RETURNING k) SELECT count(*) FROM w',
	row_upsert    => q{INSERT INTO st SELECT id, a FROM home ON CONFLICT (k) DO UPDATE SET v = pg_backend_pid()::text},
	# core's
	scan          => 'SELECT count(*), sum(a) FROM st',
	correlated    => 'SELECT k FROM st WHERE a < (SELECT avg(a) FROM other WHERE other.k = st.k)',
	key_join      => 'SELECT count(*) FROM home JOIN st ON home.a = st.a',
	locks         => 'SELECT a FROM st WHERE a = 2 ORDER BY k FOR UPDATE',
	reference     => 'UPDATE ref SET w = w + 1 WHERE id < 5',
	with_change   => 'WITH d AS (DELETE FROM st WHERE k = 50 RETURNING k), u AS (DELETE FROM st WHERE k = 51) INSERT INTO st SELECT i FROM generate_series(5001, 5003) i',
	copied        => 'COPY (SELECT k, a FROM st) TO STDOUT',
	copied_group  => 'COPY (SELECT a, count(*) FROM st GROUP BY a) TO STDOUT',
	prepared      => 'EXECUTE ready (3)');

my $ready = 'PREPARE ready (int) AS INSERT INTO st SELECT k, a FROM st WHERE a = $1 ON CONFLICT (k) DO UPDATE SET a = excluded.a';

# Calls and plans, if there is not one of each. The plan of COPY's query may be discarded, and
# core's COPY plans the query again. So it does not count.
my %counts = (copied => [ 1, 0 ]);

my $rows_of_st = $c->safe_psql('SELECT count(*) FROM st');

# A text without its constants, and without the COPY around its query, because majors differ in
# showing that.
sub normalized
{
	my ($text) = @_;
	$text =~ s/'[^']*'|\$?\b\d+\b/?/g;
	$text =~ s/^PREPARE ready .*? AS |^COPY [(]|[)] TO STDOUT$//g;
	return $text;
}

# Returns the view's rows for one statement: calls, plans and text of its parts.
sub seen
{
	my ($client, $name, $sql) = @_;

	$client->query('SELECT pg_stat_statements_reset()');
	my $result = $client->query("BEGIN; SELECT /* $name */ 'something before the statement that is looked at', 1; $sql; ROLLBACK /*xx*/");
	if ($result->{error})
	{
		$client->query('ROLLBACK');
		return $result->{error}{M};
	}
	$result = $client->query(q{SELECT calls, plans, query FROM pg_stat_statements
		WHERE query !~ '(SELECT /\* |pg_stat_statements)'
		ORDER BY 1, 2, query COLLATE "C"});
	return $result->{error}{M} if $result->{error};
	return join "\n", map { "$_->[0] calls, $_->[1] plans: " . normalized($_->[2]) } @{ $result->{rows} };
}

sub check_order
{
	my ($libraries) = @_;

	$server->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = '$libraries'
pg_stat_statements.track = all
pg_stat_statements.track_planning = on
pg_stat_statements.track_utility = off
compute_query_id = on
# its statements would be in the view, too
shardfdw.recovery_interval = 0
CONF
	$server->restart;
	$c->safe_psql('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');

	my $client = WireClient->new($server, 'postgres', options => '-c client_min_messages=error');
	$client->query($ready);
	for my $i (0 .. $#statements / 2)
	{
		my ($name, $sql) = @statements[ 2 * $i, 2 * $i + 1 ];
		my $text = normalized($name eq 'prepared' ? $ready : $sql);
		my ($calls, $plans) = @{ $counts{$name} // [ 1, 1 ] };

		is(seen($client, $name, $sql), "$calls calls, $plans plans: $text", "$libraries: $name");
	}

	# Statements that a part of a statement runs are nested in it, even if the part runs earlier
	# than core would run it.
	my $sql = 'WITH d AS (DELETE FROM st WHERE noisy(a) < 0) INSERT INTO st SELECT i FROM generate_series(6001, 6003) i';
	$client->query('SELECT pg_stat_statements_reset()');
	is($client->query("BEGIN; $sql; ROLLBACK")->{error}, undef, "$libraries: a part of WITH that comes first");
	my $result = $client->query(q{SELECT toplevel, calls FROM pg_stat_statements WHERE query ~ 'home.a' ORDER BY 1});
	is_deeply($result->{rows}, [ [ 'f', $rows_of_st ] ], "$libraries: what it runs is nested");
	$client->close;
	return;
}

check_order('pg_stat_statements, shardfdw');
check_order('shardfdw, pg_stat_statements');

# A library that checks permissions for statements that it has seen gets the table of a COPY once.
SKIP:
{
	skip 'there is no pgaudit', 1 if $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pgaudit'}) eq '0';
	for my $libraries ('pgaudit, shardfdw', 'shardfdw, pgaudit')
	{
		$server->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\npgaudit.log = 'read, write'\npgaudit.log_client = on\npgaudit.log_level = notice\npgaudit.log_relation = on\n");
		$server->restart;
		for my $copy ([ q{COPY st FROM PROGRAM 'echo 9001,1,x' (FORMAT csv)}, 'WRITE,INSERT' ], [ q{COPY st TO '/dev/null'}, 'READ,SELECT' ])
		{
			my ($rc, undef, $err) = $c->psql("BEGIN; $copy->[0]; ROLLBACK");
			my @seen = $err =~ /AUDIT: SESSION,\d+,\d+,(\w+,\w+),TABLE,public\.st\b/g;
			is("$rc @seen", "0 $copy->[1]", "$libraries: $copy->[0]");
		}
	}
}

done_testing();
