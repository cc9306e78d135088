# ORDER BY of text in the database's default collation: merged only where nodes are known to have the same in the same version.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3);
my $here = $c->coordinator;
my $create = q{CREATE DATABASE words TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '%s' ENCODING 'UTF8'};
if (($here->psql('postgres', sprintf $create, 'en-US'))[0] != 0)
{
	plan skip_all => 'the server has no ICU';
}
$c->node($_)->safe_psql('postgres', sprintf $create, 'en-US') for 1, 2;
$c->node(3)->safe_psql('postgres', sprintf $create, 'sv-SE');

sub sql { return $here->safe_psql('words', $_[0]); }
sub add_node
{
	my ($i) = @_;
	my ($host, $port) = $c->node_address($i);
	return $here->psql('words', "SELECT shardfdw.add_node('w$i', '$host', $port, 'words')");
}
# Do nodes sort?
sub merged
{
	my ($table) = @_;
	return sql("EXPLAIN (VERBOSE, COSTS OFF) SELECT word FROM $table ORDER BY word LIMIT 5") =~ /Remote SQL: .*ORDER BY/ ? 1 : 0;
}

sql('CREATE EXTENSION shardfdw');
is((add_node($_))[0], 0, "node w$_") for 1, 2;
my $description = sql('SELECT shardfdw_internal.default_collation()');
like($description, qr/^i\|.*\|en-US\|.*\|[0-9.]+\|UTF8$/, 'what the collation here is');
my $noted = q{SELECT string_agg(DISTINCT o.option_value, ' ') FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'default_collation' AND s.srvname ~ '^w[12]'};
is(sql($noted), $description, 'nodes have it noted');

my $words = q{SELECT i, (ARRAY['a', 'A', 'ä', 'b', 'B', 'z', 'Zz', 'ö', '-x', 'x-y', 'xy'])[i % 11 + 1] || i % 7 AS word FROM generate_series(1, 300) i};
sql("CREATE TABLE t AS $words; CREATE TABLE plain AS $words; SELECT shardfdw.shard_table('t', 'i', 4)");
is(merged('t'), 1, 'the same collation everywhere: nodes sort');
for my $query ('SELECT word FROM %s ORDER BY word', 'SELECT word, i FROM %s ORDER BY word DESC, i LIMIT 20', 'SELECT DISTINCT ON (word) word, i FROM %s ORDER BY word, i',
	'SELECT word, count(*) FROM %s GROUP BY word ORDER BY word OFFSET 5', 'SELECT to_jsonb(word) FROM %s ORDER BY to_jsonb(word), i')
{
	is(sql(sprintf $query, 't'), sql(sprintf $query, 'plain'), "as in a plain table: $query");
}

sql("ALTER SERVER w2 OPTIONS (SET default_collation '${\ ($description =~ s/[0-9.]+(\|UTF8)/0.1$1/r)}')");
is(merged('t'), 0, 'another version on one node: sorted here');
is(sql('SELECT word FROM t ORDER BY word'), sql('SELECT word FROM plain ORDER BY word'), 'and right');
sql('SELECT * FROM shardfdw.check_cluster()');
is(sql($noted), $description, 'check_cluster() notes what it finds');
is(merged('t'), 1, 'and nodes sort again');
sql('ALTER SERVER w2 OPTIONS (DROP default_collation)');
is(merged('t'), 0, 'nothing known of a node: sorted here');
sql('BEGIN READ ONLY; SELECT * FROM shardfdw.check_cluster(); COMMIT');
is(merged('t'), 0, 'a read-only transaction notes nothing');
sql('CREATE ROLE looker; GRANT USAGE ON FOREIGN SERVER w1, w2 TO looker; CREATE USER MAPPING FOR looker SERVER w2 OPTIONS (user \'postgres\');
	GRANT USAGE ON SCHEMA shardfdw TO looker; SET ROLE looker; SELECT * FROM shardfdw.check_cluster()');
is(merged('t'), 0, 'nor does a role that does not own the server');

my ($rc, undef, $stderr) = add_node(3);
is($rc, 0, 'a node with another collation');
like($stderr, qr/WARNING:  node "w3": collation: i .*sv-SE, but i .*en-US here/, 'is warned of');
sql("SELECT * FROM shardfdw.check_cluster(); CREATE TABLE u AS $words; SELECT shardfdw.shard_table('u', 'i', 6)");
is(merged('t'), 1, 'a table that is not on it: nodes sort');
is(merged('u'), 0, 'a table that is on it: sorted here');
is(sql('SELECT word FROM u ORDER BY word'), sql('SELECT word FROM plain ORDER BY word'), 'and right');

done_testing();
