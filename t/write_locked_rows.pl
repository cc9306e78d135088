# Tests SELECT ... FOR UPDATE whose rows are fetched in parts, while the transaction changes rows in
# between: loops of functions, cursors, and portals of the extended protocol. PostgreSQL leaves out
# rows that were changed since the statement began. Each case runs on a plain table and on sharded
# ones: of 1, 4 and 16 shards, with several tenants, of two levels, with replicas, and on a single
# foreign table.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient qw(parse_message bind_message execute_message sync_message);

my $c = ShardCluster->new(nodes => 2);
my %options = (
	plain  => undef,
	one    => "'k', 1",
	four   => "'k', 4",
	many   => "'k', 16",
	tenant => "'g', 3",
	copies => "'k', 2, replication_factor => 2");

# 60 rows, k from 1 to 60, of tenants 0 to 2. The tenant tables are asked for one tenant.
sub fill
{
	my ($name) = @_;
	$c->safe_psql("INSERT INTO $name SELECT i % 3, i, 0 FROM generate_series(1, 60) AS i");
	return;
}
for my $name (sort keys %options)
{
	$c->safe_psql("CREATE TABLE $name (g int NOT NULL, k int NOT NULL, v int, PRIMARY KEY (g, k))"
			=~ s/PRIMARY KEY \(g, k\)/$name eq 'tenant' ? $& : 'PRIMARY KEY (k)'/er);
	$c->safe_psql("SELECT shardfdw.shard_table('$name', $options{$name})") if $options{$name};
	fill($name);
}
$c->safe_psql(q{
	CREATE TABLE levels (g int NOT NULL, k int NOT NULL, v int) PARTITION BY RANGE (g);
	CREATE TABLE levels_0 PARTITION OF levels FOR VALUES FROM (0) TO (1) PARTITION BY HASH (k);
	CREATE TABLE levels_1 PARTITION OF levels FOR VALUES FROM (1) TO (9) PARTITION BY HASH (k);
	SELECT shardfdw.create_shard(p, (p || '_' || i)::name,
			format('WITH (MODULUS 3, REMAINDER %s)', i), ('node' || i % 2 + 1)::name)
		FROM unnest('{levels_0,levels_1}'::regclass[]) AS p, generate_series(0, 2) AS i;
});
fill('levels');
$c->node_safe_psql(1, 'CREATE TABLE alone (g int, k int PRIMARY KEY, v int);
	CREATE TABLE parent (g int, k int, v int); CREATE TABLE child () INHERITS (parent)');
$c->safe_psql(q{
	CREATE FOREIGN TABLE alone (g int, k int, v int) SERVER node1;
	CREATE FOREIGN TABLE parent (g int, k int, v int) SERVER node1;
	CREATE TABLE near (k int PRIMARY KEY, w int);
	CREATE TABLE ref (k int PRIMARY KEY, w int);
	INSERT INTO near SELECT i, i FROM generate_series(1, 60) AS i;
	INSERT INTO ref TABLE near;
	SELECT shardfdw.create_reference_table('ref');
});
fill('alone');
$c->safe_psql(q{
	CREATE FUNCTION visited(query text, change text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE r record; seen text := '';
		BEGIN
			FOR r IN EXECUTE query LOOP
				seen := seen || r.k || ':' || r.v || ' ';
				EXECUTE change USING r.k;
			END LOOP;
			RETURN seen;
		END $$;
	CREATE FUNCTION undone(change text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN EXECUTE change; RAISE EXCEPTION 'x'; EXCEPTION WHEN raise_exception THEN NULL; END $$;
	CREATE FUNCTION caught(change text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN EXECUTE change; EXCEPTION WHEN raise_exception THEN NULL; END $$;
});
my @sharded = (grep({ $_ ne 'plain' } sort keys %options), qw(levels alone));
my $client = WireClient->new($c->coordinator, 'postgres');

# Returns the rows of statements in a transaction, and the rows that they leave in the table; or the
# SQLSTATE.
sub outcome
{
	my ($name, @sql) = @_;
	my @seen;
	$client->query('BEGIN');
	for my $sql (@sql, 'SELECT count(*), sum(k * (v + 1)) FROM TABLE')
	{
		my $result = $client->query($sql =~ s/TABLE/$name/gr);
		push @seen, $result->{error}
			? $result->{error}{C}
			: join ',', map { join ':', map { $_ // '' } @$_ } @{ $result->{rows} };
		last if $result->{error};
	}
	$client->query('ROLLBACK');
	return join "\n", @seen;
}

# compare(WHAT, REFUSED, SQL): tables that match REFUSED may raise 0A000 where the plain table does
# not.
sub compare
{
	my ($what, $refused, @sql) = @_;
	my $plain = outcome('plain', @sql);
	for my $name (@sharded)
	{
		my $seen = outcome($name, @sql);
		$seen = $plain if defined $refused && $name =~ $refused && $seen =~ /0A000$/;
		is($seen, $plain, "$name: $what");
	}
	return;
}

# --- loops

my $later = 'UPDATE TABLE SET v = v + 1 WHERE k = $1 + 15';
my $all = 'SELECT * FROM TABLE WHERE g = 1 ORDER BY k FOR UPDATE';
my @loops = (
	[ $all, 'UPDATE TABLE SET v = v + 1 WHERE k = $1' ],
	[ $all, $later ],
	[ $all, 'UPDATE TABLE SET v = v + 1 WHERE g = 1 AND k > $1' ],
	[ $all, 'DELETE FROM TABLE WHERE g = 1 AND k = $1 + 15' ],
	[ $all, 'UPDATE TABLE SET k = k + 100 WHERE k = $1 + 15' ],
	[ $all, 'INSERT INTO TABLE VALUES (1, $1 + 100, 1)' ],
	[ $all, "SELECT undone('UPDATE TABLE SET v = v + 1 WHERE k = ' || \$1 + 15)" ],
	[ $all, "SELECT caught('UPDATE TABLE SET v = v + 1 WHERE k = ' || \$1 + 15)" ],
	[ $all, 'UPDATE near SET w = 0 WHERE k = $1 + 15' ],
	map({ [ "SELECT * FROM TABLE WHERE g = 1 ORDER BY k $_", $later ] }
		'FOR NO KEY UPDATE', 'FOR SHARE', 'FOR UPDATE NOWAIT', 'FOR UPDATE SKIP LOCKED',
		'LIMIT 13 FOR UPDATE', 'LIMIT 13 FOR UPDATE SKIP LOCKED', 'LIMIT 1 FOR UPDATE',
		'LIMIT 13 OFFSET 2 FOR UPDATE', 'DESC LIMIT 13 FOR UPDATE SKIP LOCKED'),
	[ 'SELECT * FROM TABLE WHERE g = 1 AND v = 0 ORDER BY k FOR UPDATE', $later ],
	[ 'SELECT * FROM TABLE WHERE g = 1 AND k = 7 FOR UPDATE', $later ],
	map({ [ "SELECT * FROM TABLE JOIN $_ USING (k) WHERE g = 1 ORDER BY k FOR UPDATE", $later ] }
		'near', 'ref'),
	[ 'SELECT a.k, b.v FROM TABLE AS a JOIN TABLE AS b USING (g, k) WHERE g = 1 ORDER BY k
		FOR UPDATE OF a', $later ],
	[ 'SELECT a.k, b.v FROM TABLE AS a JOIN TABLE AS b ON b.g = a.g AND b.k = a.k + 3
		WHERE a.g = 1 AND b.g = 1 ORDER BY k FOR UPDATE', $later ],
	[ 'SELECT * FROM (SELECT * FROM TABLE WHERE g = 1 FOR UPDATE) AS s ORDER BY k', $later ],
	[ 'WITH s AS (SELECT * FROM TABLE WHERE g = 1 ORDER BY k FOR UPDATE) SELECT * FROM s', $later ],
	[ 'SELECT * FROM TABLE WHERE g = 1 AND k IN (SELECT k FROM near WHERE w < 50) ORDER BY k
		FOR UPDATE', $later ]);
my $nloops = 0;
for my $before ('', 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
	'UPDATE TABLE SET v = v + 5 WHERE k % 7 = 0')
{
	for (@loops)
	{
		next unless ShardCluster::in_half($nloops++);
		my ($query, $change) = @$_;
		compare("a loop over $query, $change" . ($before && ", after $before"), undef,
			$before || 'SELECT', "SELECT visited(\$\$$query\$\$, \$\$$change\$\$)");
	}
}
# A procedure that commits: at COMMIT, the cursor of the loop fetches all rows that are left.
$c->safe_psql(q{
	CREATE TABLE log (seen text);
	CREATE PROCEDURE commits(query text, change text) LANGUAGE plpgsql AS $$
		DECLARE r record; seen text := '';
		BEGIN
			FOR r IN EXECUTE query LOOP
				seen := seen || r.k || ':' || r.v || ' ';
				EXECUTE change USING r.k;
				IF r.k > 9 THEN COMMIT; END IF;
			END LOOP;
			INSERT INTO log VALUES (seen);
		END $$;
});
for my $name ('plain', @sharded)
{
	$c->safe_psql("CALL commits('$all', '$later'); UPDATE TABLE SET v = 0" =~ s/TABLE/$name/gr);
}
is($c->safe_psql('SELECT count(*), count(DISTINCT seen) FROM log'), (@sharded + 1) . '|1',
	'a loop that commits');

# --- cursors

my $declare = "DECLARE c CURSOR FOR $all";
my $few = 'UPDATE TABLE SET v = v + 1 WHERE k % 5 = 0';
for (
	[ 'FETCH 2 c', $few, 'FETCH ALL c' ],
	[ $few, 'FETCH ALL c' ],
	[ 'INSERT INTO TABLE VALUES (1, 100, 0)', 'FETCH ALL c' ],
	[ 'DELETE FROM TABLE', 'FETCH ALL c' ],
	[ 'FETCH 1 c', 'SAVEPOINT s', $few, 'ROLLBACK TO s', 'FETCH ALL c' ],
	[ 'FETCH 1 c', 'SAVEPOINT s', $few, 'FETCH 4 c', 'RELEASE s', 'FETCH ALL c' ],
	[ 'SAVEPOINT s', $few, 'ROLLBACK TO s', 'FETCH ALL c' ],
	[ 'SAVEPOINT s', $few, 'RELEASE s', 'FETCH ALL c' ],
	[ 'FETCH 1 c', 'MOVE 3 c', $few, 'MOVE 2 c', 'FETCH 5 c', 'FETCH ALL c' ],
	[ 'FETCH 1 c', $few, 'UPDATE TABLE SET v = v + 1 WHERE k = 10', 'FETCH ALL c' ],
	[ 'FETCH 1 c', 'SET LOCAL enable_async_append = off', $few, 'FETCH ALL c' ])
{
	my @steps = @$_;
	my $what = join '; ', @steps;
	compare("$what", undef, $declare, @steps);
	compare("$what, SKIP LOCKED LIMIT", undef,
		$declare =~ s/FOR UPDATE/LIMIT 9 $& SKIP LOCKED/r, @steps);
	compare("$what, LIMIT 1", undef, $declare =~ s/FOR UPDATE/LIMIT 1 $&/r, @steps);
	compare("$what, no asynchronous scans", undef,
		'SET LOCAL enable_async_append = off', $declare, @steps);
	# A scan that begins after the change may return rows that were changed before the statement.
	# The node cannot distinguish these changes.
	my $late = $steps[0] =~ /FETCH/ ? undef : qr/./;
	compare("$what, after a write", $late,
		'UPDATE TABLE SET v = 7 WHERE k % 7 = 0', $declare, @steps);
}
compare('a SCROLL cursor over a sub-select that locks rows', undef,
	'DECLARE c SCROLL CURSOR FOR
		SELECT * FROM (SELECT * FROM TABLE WHERE g = 1 FOR UPDATE) AS s ORDER BY k',
	'FETCH 3 c', $few, 'FETCH 9 c', 'MOVE ABSOLUTE 0 c', 'FETCH ALL c');

# FOR KEY SHARE: other sessions may change the row, so a row that is not found is an error.
compare('FOR KEY SHARE', qr/./, $declare =~ s/UPDATE/KEY SHARE/r, 'FETCH 2 c', $few, 'FETCH ALL c');

# --- portals

# Fetches 5 rows, changes rows, and fetches the others. Returns the number of rows of each part, or
# the SQLSTATE.
sub portal
{
	my ($name, $query, $change) = map { s/TABLE/$_[0]/gr } @_;
	my @seen;
	$client->query('BEGIN');
	for my $bytes (
		parse_message('', $query) . bind_message('p', '') . execute_message('p', 5),
		parse_message('', $change) . bind_message('', '') . execute_message(''),
		execute_message('p', 0))
	{
		$client->send_bytes($bytes . sync_message());
		my @messages = $client->read_messages;
		push @seen, scalar grep { $_->[0] eq 'D' } @messages;
		my ($error) = grep { $_->[0] eq 'E' } @messages;
		push @seen, $error->[1] =~ /\0C(\w{5})\0/ if $error;
		last if $error;
	}
	$client->query('ROLLBACK');
	return join ',', @seen;
}
my $one_row = 'UPDATE TABLE SET v = v + 1 WHERE k = 31';
for my $query ($all, $all =~ s/FOR UPDATE/LIMIT 9 $&/r,
	$all =~ s/FOR UPDATE/LIMIT 9 $& SKIP LOCKED/r, $all =~ s/g = 1/k % 3 = 1/r,
	'SELECT * FROM TABLE JOIN near USING (k) WHERE g = 1 ORDER BY k FOR UPDATE',
	'SELECT * FROM (SELECT * FROM TABLE WHERE g = 1 FOR UPDATE) AS s ORDER BY k')
{
	for my $change ($one_row, 'UPDATE near SET w = 0 WHERE k = 60', 'SELECT 1')
	{
		my $plain = portal('plain', $query, $change);
		my $refused = $change eq $one_row ? qr/^(?:$plain|5,0,0,0A000)$/ : qr/^$plain$/;
		like(portal($_, $query, $change), $refused, "$_: a portal of $query, $change") for @sharded;
	}
	next if $query !~ /LIMIT/;
	is(portal($_, $query =~ s/LIMIT 9/LIMIT 5/r, $one_row), '5,0,0',
		"$_: all rows of $query are fetched before") for @sharded;
}

# --- foreign tables whose rows have no ctid that identifies them

$c->node_safe_psql(1, 'CREATE VIEW seen AS SELECT * FROM alone; INSERT INTO parent VALUES (1, 1, 0);
	INSERT INTO child VALUES (1, 2, 0)');
$c->safe_psql(q{CREATE FOREIGN TABLE seen (g int, k int, v int) SERVER node1
	OPTIONS (updatable 'false')});
is(outcome('seen', $declare, 'FETCH 1 c', 'UPDATE near SET w = 1', 'FETCH 1 c'),
	"\n1:1:0\n\n1:4:0\n60:1830", 'a cursor over a view of a node');
is(outcome('parent', $declare, 'FETCH 2 c'), "\n22P02",
	'a cursor over rows of a child table on a node');
is(outcome('parent', 'SELECT k FROM TABLE ORDER BY k FOR UPDATE'), "1,2\n2:3", 'without a cursor');

done_testing();
