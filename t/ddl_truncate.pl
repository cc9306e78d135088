# TRUNCATE ... CASCADE must follow foreign keys that only the nodes have, as core follows its
# foreign keys.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes;
use WireClient;

my $c = ShardCluster->new(nodes => 2);
for my $server ($c->coordinator, $c->nodes) { $server->safe_psql('postgres', 'CREATE ROLE low LOGIN'); }
$c->safe_psql("CREATE USER MAPPING FOR low SERVER node$_ OPTIONS (user 'postgres', password_required 'false')") for 1, 2;

# The same tables as shards (s) and as plain tables (p). b refers to a, c to b, d to the reference
# table r. The local table l refers to r, too.
for my $schema ('s', 'p')
{
	$c->safe_psql(qq{CREATE SCHEMA $schema; SET search_path = $schema;
		CREATE TABLE r (id int PRIMARY KEY); CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (LIKE a INCLUDING ALL); CREATE TABLE c (LIKE a INCLUDING ALL);
		CREATE TABLE d (LIKE a INCLUDING ALL); CREATE TABLE l (id int REFERENCES r); CREATE TABLE fired (name text);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN INSERT INTO $schema.fired VALUES (TG_TABLE_NAME); RETURN NULL; END\$\$});
	$c->safe_psql(qq{SELECT shardfdw.create_reference_table('s.r'), shardfdw.shard_table('s.a', shards => 3), shardfdw.shard_table('s.b', colocate_with => 's.a'), shardfdw.shard_table('s.c', colocate_with => 's.a'), shardfdw.shard_table('s.d', shards => 2)})
	  if $schema eq 's';
	$c->safe_psql(qq{SET search_path = $schema;
		ALTER TABLE b ADD FOREIGN KEY (id) REFERENCES a; ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES b; ALTER TABLE d ADD FOREIGN KEY (v) REFERENCES r; ALTER TABLE a ADD CONSTRAINT own CHECK (id > 0);
		CREATE TRIGGER note AFTER TRUNCATE ON c EXECUTE FUNCTION note(); CREATE TRIGGER note AFTER TRUNCATE ON d EXECUTE FUNCTION note();
		GRANT USAGE ON SCHEMA $schema TO low; GRANT TRUNCATE, SELECT ON a, b, r, l TO low; GRANT SELECT ON c, d TO low; GRANT INSERT ON fired TO low});
}

my $fill = q{INSERT INTO r SELECT generate_series(1, 9); INSERT INTO a SELECT i, i FROM generate_series(1, 9) i; INSERT INTO b TABLE a; INSERT INTO c TABLE a; INSERT INTO d TABLE a; INSERT INTO l TABLE r};
my $rest = q{SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c), (SELECT count(*) FROM d), (SELECT count(*) FROM l), (SELECT string_agg(name, ' ' ORDER BY name) FROM fired)};

# The result of a statement: notices and errors, and the rows that are left.
sub outcome
{
	my ($schema, $statement) = @_;

	# filled before, because a role waits for changes of another role in the transaction
	$c->safe_psql("SET search_path = $schema; TRUNCATE a, b, c, d, r, l, fired; $fill");
	my ($rc, $out, $err) = $c->psql("SET search_path = $schema; BEGIN; $statement; RESET ROLE; $rest; ROLLBACK", on_error_stop => 1);
	$err =~ s/^psql:\S+ //mg;
	my @lines = sort grep { !/^DETAIL/ } split /\n/, $err;
	# the order of tables, and so the notices before an error, may differ
	@lines = grep { !/^NOTICE/ } @lines if $err =~ /^ERROR/m;
	$err = join "\n", @lines;
	return "$out\n$err";
}

for my $statement ('TRUNCATE a CASCADE', 'TRUNCATE b CASCADE', 'TRUNCATE c CASCADE', 'TRUNCATE r CASCADE', 'TRUNCATE a, r CASCADE', 'TRUNCATE a, b, c', 'TRUNCATE a, d CASCADE',
	'SET ROLE low; TRUNCATE a CASCADE', 'SET ROLE low; TRUNCATE r CASCADE', 'SET ROLE low; TRUNCATE d CASCADE', 'SET ROLE low; TRUNCATE l CASCADE', 'TRUNCATE nothing CASCADE',
	'DECLARE k CURSOR FOR SELECT * FROM c ORDER BY id; FETCH 1 FROM k; TRUNCATE a CASCADE', q{DO 'BEGIN EXECUTE ''TRUNCATE b CASCADE''; END'})
{
	is(outcome('s', $statement), outcome('p', $statement), $statement);
}
like(outcome('s', 'SET ROLE low; TRUNCATE a CASCADE'), qr/permission denied for table c/, 'rights are needed for all of them');

# TRUNCATE of a single shard includes the shards that refer to it
$c->safe_psql("SET search_path = s; TRUNCATE a, b, c, d, r, l, fired; $fill");
is($c->safe_psql('SET client_min_messages = warning; SET search_path = s; TRUNCATE a_00 CASCADE; SELECT (SELECT count(*) FROM a) = (SELECT count(*) FROM c), (SELECT count(*) FROM a WHERE id IS NOT NULL) BETWEEN 1 AND 8'), 't|t', 'one shard');

# A foreign key is dropped or added by a transaction that ends while TRUNCATE waits for it
sub waits
{
	return grep { $c->ask('SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)', $_) eq 't' } undef, 1, 2;
}
sub raced
{
	my ($schema, $level, $change, $truncate) = @_;
	my $other = WireClient->new($c->coordinator, 'postgres');

	$c->safe_psql("SET search_path = $schema; TRUNCATE a, b, c, d, r, l; $fill");
	$other->query("SET search_path = $schema");
	$other->query('BEGIN');
	$other->query($change);
	# the snapshot is older than the change
	my $waiter = $c->start_sql("SET client_min_messages = warning; SET search_path = $schema; BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM b; $truncate; COMMIT");
	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if waits();
		Time::HiRes::usleep(10_000);
	}
	$other->query('COMMIT');
	my ($rc, $out, $err) = $c->wait_sql($waiter);
	return join "\n", $err, $c->safe_psql("SET search_path = $schema; $rest");
}
for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	for my $change (['ALTER TABLE c DROP CONSTRAINT c_id_fkey', 'TRUNCATE b CASCADE'], ['ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES b', 'TRUNCATE b CASCADE'],
		['ALTER TABLE d DROP CONSTRAINT d_v_fkey', 'TRUNCATE r CASCADE'], ['ALTER TABLE d ADD FOREIGN KEY (v) REFERENCES r', 'TRUNCATE r CASCADE'])
	{
		# the nodes' snapshot does not have the new key: an error, and no row is lost
		next if $level eq 'REPEATABLE READ' && $change->[0] =~ /ADD/;
		is(raced('s', $level, @$change), raced('p', $level, @$change), "$level: $change->[1] beside $change->[0]");
	}
}

# two levels: the month that refers is truncated as a whole, with its trigger
sub months
{
	my ($schema) = @_;
	my $shard = $schema eq 's' ? q{SELECT shardfdw.create_shard('x1', 'x1_0', 'WITH (MODULUS 2, REMAINDER 0)', 'node1'), shardfdw.create_shard('x1', 'x1_1', 'WITH (MODULUS 2, REMAINDER 1)', 'node2'),
			shardfdw.create_shard('x2', 'x2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1')}
	  : 'CREATE TABLE x1_0 PARTITION OF x1 FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE x1_1 PARTITION OF x1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); CREATE TABLE x2_0 PARTITION OF x2 FOR VALUES WITH (MODULUS 1, REMAINDER 0)';
	$c->safe_psql(qq{SET search_path = $schema; CREATE TABLE x (at int, k int, v int) PARTITION BY RANGE (at); CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (1) TO (10) PARTITION BY HASH (k);
		CREATE TABLE x2 PARTITION OF x FOR VALUES FROM (10) TO (20) PARTITION BY HASH (k); $shard; TRUNCATE a, b, c, d, r, l, fired; $fill;
		CREATE TRIGGER note AFTER TRUNCATE ON x1 EXECUTE FUNCTION note(); ALTER TABLE x1 ADD FOREIGN KEY (v) REFERENCES r; INSERT INTO x SELECT i, i, i % 9 + 1 FROM generate_series(1, 19) i});
	return join "\n", $c->safe_psql("SET client_min_messages = warning; SET search_path = $schema; TRUNCATE r CASCADE; $rest; SELECT count(*) FROM x; DROP TABLE x");
}
is(months('s'), months('p'), 'a partitioned table below the first level');

# TRUNCATE does not wait for unrelated tables
{
	my $node = WireClient->new($c->node(1), 'postgres');
	$c->safe_psql('CREATE SCHEMA other; CREATE TABLE other.r (id int PRIMARY KEY); SELECT shardfdw.create_reference_table(\'other.r\')');
	$node->query('BEGIN');
	$node->query('LOCK TABLE s.b_00 IN ACCESS EXCLUSIVE MODE');
	is($c->safe_psql("SET statement_timeout = '${PostgreSQL::Test::Utils::timeout_default}s'; TRUNCATE other.r CASCADE; SELECT count(*) FROM other.r"), 0, 'a locked table that refers to another one');
	$node->query('ROLLBACK');
}

# tables that the coordinator does not know are not emptied
$c->safe_psql("SET search_path = s; TRUNCATE a, b, c, d, r, l, fired; $fill");
$c->node_safe_psql(1, 'CREATE TABLE s.own (id int REFERENCES s.r); INSERT INTO s.own SELECT 1');
$c->psql_fails_like('TRUNCATE s.r CASCADE', qr/2BP01: table s.own on node "node1" refers to table "r", and is none of the coordinator's/, 'a table of the node alone');
is($c->node_safe_psql(1, 'SELECT count(*) FROM s.own'), 1, 'which keeps its rows');

$c->node_safe_psql(1, 'DROP TABLE s.own');
# Some partitions are not shards. They do not refer to a reference table when the shards next to
# them do.
$c->safe_psql(q{SET search_path = s; CREATE TABLE y (at int, k int, v int) PARTITION BY RANGE (at); CREATE TABLE y1 PARTITION OF y FOR VALUES FROM (0) TO (10) PARTITION BY HASH (k);
	CREATE TABLE y2 PARTITION OF y FOR VALUES FROM (10) TO (20); CREATE TABLE y3 PARTITION OF y FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (at); CREATE TABLE y3a PARTITION OF y3 DEFAULT;
	SELECT shardfdw.create_shard('y1', 'y1_0', 'WITH (MODULUS 2, REMAINDER 0)', 'node1'), shardfdw.create_shard('y1', 'y1_1', 'WITH (MODULUS 2, REMAINDER 1)', 'node2');
	TRUNCATE r, d, l; INSERT INTO r SELECT generate_series(1, 9); ALTER TABLE y1 ADD FOREIGN KEY (v) REFERENCES r; INSERT INTO y SELECT i, i, i % 9 + 1 FROM generate_series(0, 29) i});
my (undef, undef, $said) = $c->psql('SET search_path = s; TRUNCATE r CASCADE');
like($said, qr/truncate cascades to table "y1"$/m, 'the partition with the key is truncated');
unlike($said, qr/truncate cascades to table "y"$/m, 'and not the whole table');
is($c->safe_psql('SELECT min(at), count(*) FROM s.y'), '10|20', 'local partitions beside it keep their rows');
$c->psql_fails_like('ALTER TABLE s.y ADD FOREIGN KEY (v) REFERENCES s.r', qr/0A000: a foreign key while partition "y2" is not a shard is not supported for sharded table "y"/, 'a foreign key for shards alone is refused');
$c->safe_psql('DROP TABLE s.y');

# TRUNCATE waits for a session that writes to a referencing table before it locks anything on nodes.
$c->safe_psql(q{CREATE SCHEMA w; SET search_path = w; CREATE TABLE r (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE c (LIKE b INCLUDING ALL); CREATE TABLE d (id int PRIMARY KEY, v int);
	SELECT shardfdw.create_reference_table('w.r'), shardfdw.shard_table('w.b', shards => 4), shardfdw.shard_table('w.c', colocate_with => 'w.b'), shardfdw.shard_table('w.d', shards => 4);
	ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES b; ALTER TABLE d ADD FOREIGN KEY (v) REFERENCES r});
for my $case ([ 'b', 'c', 'INSERT INTO c VALUES (1)', 'INSERT INTO c SELECT i FROM generate_series(2, 9) i' ], [ 'r', 'd', 'INSERT INTO d VALUES (1, 1)', 'INSERT INTO d SELECT i, i FROM generate_series(2, 9) i' ])
{
	my ($table, $referrer, $first, $second) = @$case;
	$c->safe_psql('SET search_path = w; INSERT INTO r SELECT generate_series(1, 9); INSERT INTO b TABLE r') if $table eq 'b';
	my $writer = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$writer->query("SET search_path = w; BEGIN; $first");
	my $truncates = $c->start_sql("SET search_path = w; TRUNCATE $table CASCADE");
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%TRUNCATE%CASCADE%'});
	$writer->{stderr} = '';
	$writer->query("$second; COMMIT");
	unlike($writer->{stderr}, qr/ERROR/, "TRUNCATE $table CASCADE: who writes to what refers to it goes on");
	$writer->quit;
	is(($c->wait_sql($truncates))[0], 0, 'and so does who truncates, afterwards');
	is($c->safe_psql("SELECT (SELECT count(*) FROM w.$referrer), (SELECT count(*) FROM w.$table)"), '0|0', 'of all');
}

# ---- a shard by its name -------------------------------------------------------------------------

# A reader waits on the coordinator. If it waited on the node, its snapshot there would be older than
# the rows that follow TRUNCATE.
$c->safe_psql(q{CREATE TABLE one (id int PRIMARY KEY);
	INSERT INTO one SELECT generate_series(1, 100); SELECT shardfdw.shard_table('one', shards => 4)});
for my $read ('SELECT count(*) FROM one', 'SELECT count(*) FROM one a JOIN one b USING (id)')
{
	my ($writer, $reader) = map { WireClient->new($c->coordinator, 'postgres') } 1, 2;
	my $error = $writer->query(q{BEGIN; CREATE TEMP TABLE kept ON COMMIT DROP AS TABLE one;
		TRUNCATE one_00; INSERT INTO one SELECT * FROM kept EXCEPT SELECT * FROM one})->{error};
	is($error, undef, 'TRUNCATE of a shard');
	$reader->start_query($read);
	$c->wait_for(qq{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query = '$read'});
	$writer->query('COMMIT');
	is(WireClient::shown($reader->finish_query), 100, "$read sees all rows");
	$_->close for $writer, $reader;
}

done_testing();
