# Text in the database's default collation. Nodes sort it only if they are known to have the same collation in the same version.
# If a node is known to have another one, no node compares text or changes its case.

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
$c->node(3)->safe_psql('postgres', sprintf $create, 'tr-TR');

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
like($description, qr/^\d+\|i\|.*\|en-US\|.*\|[0-9.]+\|UTF8$/, 'what the collation here is');
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
like($stderr, qr/WARNING:  node "w3": collation: i .*tr-TR, but i .*en-US here/, 'is warned of');
like(sql(q{SELECT check_name, status, detail FROM shardfdw.check_cluster() WHERE node = 'w3' AND check_name = 'collation'}), qr/^collation\|warning\|.*tr-TR/,
	'check_cluster() warns as well');
sql("CREATE TABLE u AS $words; SELECT shardfdw.shard_table('u', 'i', 6)");
is(merged('t'), 1, 'a table that is not on it: nodes sort');
is(merged('u'), 0, 'a table that is on it: sorted here');
is(sql('SELECT word FROM u ORDER BY word'), sql('SELECT word FROM plain ORDER BY word'), 'and right');

# Comparisons, functions and aggregates: rows on w3 are compared as here.
sql(q{ALTER TABLE plain ADD j jsonb; UPDATE plain SET j = to_jsonb(word); ALTER TABLE u ADD j jsonb; UPDATE u SET j = to_jsonb(word);
	INSERT INTO plain SELECT n * 100 + o, w, to_jsonb(w) FROM unnest(ARRAY['I', 'i', 'h', 'Ix', 'ix', 'ID', 'id', 'p', 'ö', 'o']) WITH ORDINALITY x(w, o), generate_series(301, 320) g(n);
	INSERT INTO u SELECT * FROM plain WHERE i > 300});
my $casefold = $here->safe_psql('words', 'SHOW server_version_num') >= 180000 ? 'casefold' : 'lower';
my @compared = (
	(map { "SELECT i FROM %s WHERE $_ ORDER BY i" } "word < 'p'", "word >= 'i' AND word < 'j'", "lower(word) = 'ix'", "$casefold(word) = 'id'", "word ILIKE 'ix'", "word ~* '^ix'",
		"word ~ '^[[:upper:]]'", "word BETWEEN 'i' AND 'p'", "(word, i) > ('i', 1)", "greatest(word, 'i') = 'i'", "word > ANY (ARRAY['z', 'ö'])", "j < to_jsonb('i'::text)",
		q{j @? '$ ? (@ like_regex "^ix" flag "i")'}, "ARRAY[word] < ARRAY['i']", "word::varchar(10) < 'i'", "word::char(10) < 'i'",
		"i = 5 AND word < 'p'", "i IN (SELECT u2.i FROM %1\$s u2 WHERE u2.word > 'ö')", "to_tsvector('simple', word) @@ 'ix'::tsquery"),
	(map { "SELECT i, jsonb_path_query(j, '\$ ? (@ like_regex \"^ix\" flag \"i\")') FROM %s WHERE i = ${_}04" } 301 .. 306),
	'SELECT min(word), max(word) FROM %s',
	'SELECT i %% 3 AS g, min(word), count(*) FILTER (WHERE word < \'i\') FROM %s GROUP BY 1 ORDER BY 1',
	"SELECT $casefold(word) AS w, count(*) FROM %s GROUP BY 1 ORDER BY 1",
	'SELECT i, array_agg(DISTINCT word), string_agg(word, \',\' ORDER BY word) FROM (SELECT 30103::bigint AS i, word FROM %s WHERE i > 300 AND i %% 100 < 8) x GROUP BY i',
	'SELECT DISTINCT upper(word) AS w FROM %s ORDER BY 1',
	'SELECT i, rank() OVER (PARTITION BY i ORDER BY word), initcap(word) FROM %s ORDER BY i',
	'WITH x AS (UPDATE %s SET word = upper(word) WHERE lower(word) = \'ix\' RETURNING i, word) SELECT * FROM x ORDER BY i',
	'WITH x AS (UPDATE %s SET word = lower(word) WHERE i = 30103 RETURNING i, word) SELECT * FROM x ORDER BY i',
	'WITH x AS (DELETE FROM %s WHERE word < \'i\' RETURNING i) SELECT * FROM x ORDER BY i');
for my $query (@compared)
{
	is(sql(sprintf $query, 'u'), sql(sprintf $query, 'plain'), "as in a plain table: $query");
}
sub remote_sql { return join("\n", sql("EXPLAIN (VERBOSE, COSTS OFF) $_[0]") =~ /Remote SQL: (.*)/g); }
unlike(remote_sql("SELECT i FROM u WHERE lower(word) = 'x'"), qr/lower/, 'no node changes the case of text');
unlike(remote_sql("SELECT i FROM t WHERE lower(word) = 'x'"), qr/lower/, 'nor does a node with the same collation');
like(remote_sql("SELECT i FROM u WHERE word = 'x' AND word LIKE 'x%' AND word COLLATE \"C\" < 'y'"), qr/~~.*COLLATE "C"\) < .* = /, 'nodes compare for equality, and bytes');
like(remote_sql("SELECT word, count(*) FROM u GROUP BY word"), qr/GROUP BY/, 'and group by text');
sql("ALTER SERVER w3 OPTIONS (DROP default_collation)");
like(remote_sql("SELECT i FROM u WHERE lower(word) = 'x'"), qr/lower/, 'a node of which nothing is known is taken to be equal');
sql("DROP TABLE u; SELECT shardfdw.remove_node('w3')");
like(remote_sql("SELECT i FROM t WHERE lower(word) = 'x'"), qr/lower/, 'without that node, nodes compare again');

# The built-in provider has one version in all majors, whose Unicode data differ.
my $major = int($here->safe_psql('postgres', 'SHOW server_version_num') / 10000);
SKIP:
{
	skip 'the built-in provider came with 17', 5 if $major < 17;
	for my $locale ('C.UTF-8', 'C')
	{
		my $database = $locale eq 'C' ? 'bytes' : 'unicode';
		$_->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 LOCALE_PROVIDER builtin BUILTIN_LOCALE '$locale' ENCODING 'UTF8'") for $here, $c->node(1);
		my ($host, $port) = $c->node_address(1);
		$here->safe_psql($database, "CREATE EXTENSION shardfdw; SELECT shardfdw.add_node('b1', '$host', $port, '$database')");
		my $own = $here->safe_psql($database, 'SELECT shardfdw_internal.default_collation()');
		like($own, $locale eq 'C' ? qr/^$major\|b\|.*\|C\|\|1\|UTF8$/ : qr{^$major\|b\|.*\|C\.UTF-8\|\|1/$major\|UTF8$}, "what the built-in locale $locale is");
		is($here->safe_psql($database, $noted =~ s/\^w\[12\]/^b/r), $own, 'and what is noted of the node');
		next if $locale eq 'C';
		$here->safe_psql($database, q{CREATE TABLE t (i int PRIMARY KEY, word text); SELECT shardfdw.shard_table('t', shards => 2)});
		$here->safe_psql($database, "ALTER SERVER b1 OPTIONS (SET default_collation '${\ ($own =~ s{/$major\|}{/16|}r)}')");
		unlike($here->safe_psql($database, q{EXPLAIN (VERBOSE, COSTS OFF) SELECT i FROM t WHERE lower(word) = 'x'}), qr/Remote SQL: .*lower/, 'a node of another major changes the case of no text');
	}
}

done_testing();
