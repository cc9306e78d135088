# INSERT, UPDATE, DELETE, TRUNCATE and COPY on sharded tables must print and store what they do on
# plain ones. Compares command tags, RETURNING, SQLSTATEs, and what is visible within the
# transaction and after it.

use strict;
use warnings;

use ShardCluster;
use DiffQueries;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
make_diff_tables($c);

my %plain;
my $nrun = 0;

# Creates new tables in a new schema and runs the script. Returns its output.
sub run_script
{
	my ($script, $shards, @settings) = @_;
	my $schema = 'write_' . ++$nrun;
	my $tmp    = PostgreSQL::Test::Utils::tempdir();
	my (undef, $err, $rc) = run_file($c, 'sql/diff/write_tables.sql', ['client_min_messages=warning'],
		ON_ERROR_STOP => 1, schema => $schema, shards => $shards);

	die "write_tables.sql: $err" if $rc;
	chmod 0777, $tmp;
	my ($out, $errors) = run_file(
		$c, "sql/$script.sql", [ @settings, "search_path=$schema,diff", 'TimeZone=Europe/Berlin' ],
		VERBOSITY => 'sqlstate', tmp => $tmp, schema => $schema);
	# Lines of the script stay in the messages, file names do not.
	$errors =~ s/^psql:[^ ]*:(\d+):/line $1:/mg;
	return ($out, $errors);
}

# The first difference of two texts, with the lines before it.
sub first_difference
{
	my ($plain, $sharded) = map { [ split /\n/, $_ ] } @_;
	my $i = 0;

	$i++ while $i < @$plain && $i < @$sharded && $plain->[$i] eq $sharded->[$i];
	my $from = $i < 4 ? 0 : $i - 4;
	return join "\n", 'after', @{$plain}[ $from .. $i - 1 ],
	  'plain:', map({ $_ // '' } @{$plain}[ $i .. $i + 2 ]), 'sharded:', map({ $_ // '' } @{$sharded}[ $i .. $i + 2 ]);
}

# Scripts, and what they print at least: one that stopped early would prove nothing.
my $ncases = 0;
my %scripts = (write_rows => 5_000, write_transaction => 1_000, 'diff/write_copy' => 10_000);

for my $script (sort keys %scripts)
{
	my ($plain_out, $plain_err) = run_script($script, 0);

	cmp_ok(length $plain_out, '>', $scripts{$script}, "$script ran on plain tables");
	for my $mode (
		[7], [1],
		[ 7, 'shardfdw.enable_shard_scan=off' ],
		[ 7, 'shardfdw.max_connections_per_node=1', 'shardfdw.copy_buffer_size=64kB' ],
		[ 7, 'shardfdw.enable_copy_fetch=off', 'plan_cache_mode=force_generic_plan' ])
	{
		next unless ShardCluster::in_half($ncases++);
		my ($out, $err) = run_script($script, @$mode);
		my $name = join ', ', "$script with $mode->[0] shards", @{$mode}[ 1 .. $#$mode ];

		ok($out eq $plain_out, "$name: same results") || diag first_difference($plain_out, $out);
		ok($err eq $plain_err, "$name: same errors")  || diag first_difference($plain_err, $err);
	}
}

# Row counts around the sizes of batches and buffers (R18), through each format.
$c->safe_psql('CREATE TABLE counted (id int, t text); CREATE TABLE counted_plain (id int, t text)');
$c->shard_table('counted', 'id', shards => 5);
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
for my $n (0, 1, 999, 1000, 1001, 9998, 9999, 10000, 65535, 65536, 65537)
{
	my $result = 'SELECT count(*), sum(id), count(*) - count(t), sum(length(t)), md5(string_agg(t, \'\' ORDER BY id)) FROM';

	$c->safe_psql("TRUNCATE counted_plain; INSERT INTO counted_plain SELECT g, repeat(g::text, g % 7) FROM generate_series(1, $n) g");
	my $expected = $c->safe_psql("$result counted_plain");
	for my $format (qw(text csv binary))
	{
		next unless ShardCluster::in_half($ncases++);
		is( $c->safe_psql(
				"COPY counted_plain TO '$file' (FORMAT $format); TRUNCATE counted; COPY counted FROM '$file' (FORMAT $format); $result counted"),
			$expected, "$n rows by COPY $format");
	}
	is($c->safe_psql("TRUNCATE counted; INSERT INTO counted SELECT * FROM counted_plain; $result counted"),
		$expected, "$n rows by INSERT");
	is($c->safe_psql("SELECT count(*), sum(length(x)) FROM (SELECT counted::text AS x FROM counted) y"),
		$c->safe_psql("SELECT count(*), sum(length(x)) FROM (SELECT counted_plain::text AS x FROM counted_plain) y"), "$n rows read back");
}

# Each row is in the shard of its key.
$c->safe_psql('CREATE TABLE placed (k text, v int)');
$c->shard_table('placed', 'k', shards => 6);
$c->safe_psql("INSERT INTO placed SELECT 'k' || g, g FROM generate_series(1, 3000) g");
$c->safe_psql("COPY (SELECT 'c' || g, g FROM generate_series(1, 3000) g) TO '$file'; COPY placed FROM '$file'");
for my $shard (split /\n/, $c->safe_psql("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'placed'::regclass"))
{
	is($c->safe_psql("SELECT count(*) FROM $shard WHERE shardfdw.shard_for('placed', k) <> '$shard'::regclass OR v IS NULL"),
		'0', "$shard holds only its rows");
}
is($c->safe_psql('SELECT count(*), count(DISTINCT k) FROM placed'), '6000|6000', 'each row is there once');

# If a row gets a new key, it moves to the shard of that key, or the statement is refused. The row
# never stays in the wrong shard (R42).
for my $mode (qw(on off))
{
	my ($rc, undef, $err) = $c->psql("SET shardfdw.enable_shard_scan = $mode; UPDATE placed SET k = 'moved' || v WHERE k LIKE 'k1%'");
	my $found = $c->safe_psql("SELECT count(*) FROM (SELECT v FROM placed WHERE k LIKE 'moved%' OFFSET 0) m
		JOIN LATERAL (SELECT FROM placed p WHERE p.k = 'moved' || m.v) x ON true");
	my $all = $c->safe_psql("SELECT count(*) FROM placed WHERE k LIKE 'moved%'");
	is($found, $all, "rows with a new key are found by it (shard scan $mode)");
	is($c->safe_psql('SELECT count(*) FROM placed'), '6000', "no row is lost or doubled (shard scan $mode)");
}

# Several sessions load in parallel (R19).
$c->safe_psql('TRUNCATE placed');
my @sessions;
for my $i (1 .. 4)
{
	$c->safe_psql("COPY (SELECT 's$i-' || g, g FROM generate_series(1, 5000) g) TO '$file$i'");
	push @sessions, $c->start_sql("COPY placed FROM '$file$i'; INSERT INTO placed SELECT 'i$i-' || g, g FROM generate_series(1, 500) g;");
}
for my $session (@sessions)
{
	my ($rc, undef, $err) = $c->wait_sql($session);
	is($rc, 0, 'a concurrent load ends') || diag $err;
}
is($c->safe_psql('SELECT count(*), count(DISTINCT k) FROM placed'), '22000|22000', 'all rows of concurrent loads are there');
is($c->safe_psql("SELECT count(*) FROM placed WHERE tableoid <> shardfdw.shard_for('placed', k)::oid"), '0', 'and in their shards');

for my $i (1 .. 2)
{
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}

done_testing();
