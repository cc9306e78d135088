# Nodes of another major version than the coordinator. Functions whose result changed between the
# two majors run on the coordinator. First, each major is noted in the options of a server. If
# PostgreSQL 16 is installed, a node of 16 then has shards, and results are those of a plain table.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);

# Conditions, and the majors in which their results changed.
my @each = 15 .. 19;
my @conditions = (
	[ q{s LIKE 'x%' AND substr(s, 2) = 'y' AND n > 1 AND date_trunc('day', ts) = ts} ],
	[ q{normalize(s) = 'x'}, @each ],
	[ q{s IS NORMALIZED}, @each ],
	[ q{to_tsvector('english', s) @@ to_tsquery('english', s)}, @each ],
	[ q{ts_headline('english', s, 'a') = 'x'}, @each ],
	[ q{s::int = 1}, 16, 17 ],
	[ q{s::numeric > 1}, 16, 17 ],
	[ q{width_bucket(x, 0, 1, 5) = 1}, 16, 19 ],
	[ q{ts - ts > span}, 17 ],
	[ q{age(tz, tz) > span}, 17 ],
	[ q{span * x > span}, 17 ],
	[ q{j::int = 1}, 18 ],
	[ q{extract(week FROM span) = 1}, 18 ],
	[ q{ts AT TIME ZONE 'EST' > tz}, 18 ],
	[ q{date_trunc('day', tz, 'EST') = tz}, 18 ],
);
push @conditions, [ 'unicode_assigned(s)', @each ], [ q{lower(w) = 'x'}, @each ], [ q{w = 'x'} ]
  if $major >= 17;

my $w = $major >= 17 ? ', w text COLLATE pg_c_utf8' : '';
$c->safe_psql("CREATE TABLE t (i int PRIMARY KEY, s text, n numeric, x float8, ts timestamp,
	tz timestamptz, span interval, j jsonb$w)");
$c->shard_table('t', 'i', shards => 4);
my $noted = $c->safe_psql(q{SELECT o.option_value
	FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
	WHERE s.srvname = 'node2' AND o.option_name = 'default_collation'});
my $own = $c->safe_psql('SELECT shardfdw_internal.default_collation()');
is($noted, $own, 'the major is noted of a node');
like($noted, qr/^$major\|/, 'before its collation');

sub note_major
{
	my $description = $noted =~ s/^\d+/$_[0]/r;
	$c->safe_psql("ALTER SERVER node2 OPTIONS (SET default_collation '$description')");
	return;
}

sub explain { return $c->safe_psql("EXPLAIN (VERBOSE, COSTS OFF) $_[0]"); }
sub pushed { return explain("SELECT i FROM t WHERE $_[0]") =~ /Remote SQL: .* WHERE / ? 1 : 0; }

for my $other (@each)
{
	my ($low, $high) = $other < $major ? ($other, $major) : ($major, $other);

	note_major($other);
	for (@conditions)
	{
		my ($condition, @changed) = @$_;
		my $same = !grep { $_ > $low && $_ <= $high } @changed;

		is(pushed($condition), $same ? 1 : 0,
			($same ? '' : 'not ') . "pushed down with a node of $other: $condition");
	}
}
note_major($major == 15 ? 16 : 15);
for my $change (
	'UPDATE t SET s = normalize(s) WHERE i = 1', 'UPDATE t SET s = normalize(s)',
	'DELETE FROM t WHERE i = 1 AND s IS NORMALIZED',
	'INSERT INTO t (i, s) SELECT i + 1000, normalize(s) FROM t')
{
	unlike(explain($change), qr/Remote SQL: .*normalize/i, "nor when writing: $change");
}
$c->safe_psql('SELECT * FROM shardfdw.check_cluster()');
is(pushed('normalize(s) = s'), 1, 'check_cluster() notes the major again');

SKIP:
{
	my $cache = $ENV{SHARDFDW_CACHE} // '/var/cache/shardfdw';
	my ($bin) = grep { -x "$_/bin/postgres" } glob("$cache/pg16/*/pginstall");
	my @queries = (
		'SELECT i, md5(normalize(s)) FROM %s ORDER BY i',
		'SELECT i FROM %s WHERE s IS NFC NORMALIZED ORDER BY i',
		q{SELECT to_tsvector('english', s), count(*) FROM %s GROUP BY 1 ORDER BY 1},
		q{SELECT i, CASE WHEN s ~ '^0' THEN s::oid END FROM %s ORDER BY i},
		'SELECT i, width_bucket(x, 1e300, -2.5, 3000) FROM %s ORDER BY i',
		q{WITH c AS (UPDATE %s SET s = normalize(s) WHERE s IS NOT NORMALIZED RETURNING i, s)
			SELECT i, md5(s) FROM c ORDER BY i},
	);
	skip 'there is no PostgreSQL 16 of another major', 1 + @queries
	  if $major == 16 || !defined $bin;

	my $node = ShardServer->new('other', install_path => $bin);
	$node->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
	$node->append_conf('postgresql.conf',
		"max_prepared_transactions = 20\nfsync = off\nlisten_addresses = ''\n");
	$node->start;
	my ($host, $port) = ($node->host, $node->port);
	$c->safe_psql("SELECT shardfdw.add_node('other', '$host', $port, 'postgres')");

	# Unicode 15, which came with 16, gives U+10EFD a place before U+0301.
	$c->safe_psql(q{
		CREATE TABLE plain AS SELECT i, (ARRAY['a' || U&'\+010EFD\0301', 'a' || U&'\0301\+010EFD',
				'running foxes', '010', '0'])[i % 5 + 1] AS s, 0.5::float8 AS x
			FROM generate_series(1, 40) i;
		CREATE TABLE mixed (i int PRIMARY KEY, s text, x float8);
		SELECT shardfdw.shard_table('mixed', shards => 4, nodes => '{node1,other}');
		INSERT INTO mixed TABLE plain});
	my $nodes = $c->safe_psql(q{SELECT string_agg(DISTINCT node, ' ') FROM shardfdw.shards
		WHERE relation = 'mixed'::regclass});
	is($nodes, 'node1 other', 'a table on nodes of two majors');
	for my $query (@queries)
	{
		my ($mixed, $plain) = map { $c->safe_psql(sprintf $query, $_) } 'mixed', 'plain';
		is($mixed, $plain, "as in a plain table: $query");
	}
}

done_testing();
