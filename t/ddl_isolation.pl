# Tests tables, nodes and definitions at REPEATABLE READ and SERIALIZABLE, where queries see what
# was committed when the transaction began. What other sessions have committed since then must never
# be lost. Functions that make tables must raise an error. DDL must work on the present definitions,
# as core's DDL does.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->add_node($_) for 1, 2;
my ($rc, $out, $err);
my ($host, $port) = $c->node_address(3);
my $add_node = "SELECT shardfdw.add_node('node3', '$host', $port, 'postgres')";

# All objects on all servers, with the contents of some tables
my $of_server = q{SELECT string_agg(format('%s %s %s', n.nspname, c.relname, c.relkind), ', ' ORDER BY n.nspname, c.relname, c.relkind)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'shardfdw', 'shardfdw_internal')};
sub everything
{
	return join "\n", $c->ask("$of_server UNION ALL SELECT string_agg(srvname, ' ') FROM pg_foreign_server UNION ALL SELECT fdwhandler::regproc::text FROM pg_foreign_data_wrapper WHERE fdwname = 'postgres_fdw'"),
	  map { $c->ask($of_server, $_) } 1 .. 3;
}
sub differences { return $c->ask(q{SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status = 'error'}); }

# The tables that a case begins with: plain, sharded and replicated
sub make_tables
{
	$c->ask(q{SET LOCAL client_min_messages = warning; DROP TABLE IF EXISTS plain, sharded, reference;
		CREATE TABLE plain (id int PRIMARY KEY, v int); CREATE TABLE sharded (LIKE plain INCLUDING ALL); CREATE TABLE reference (LIKE plain INCLUDING ALL);
		INSERT INTO plain SELECT i, i FROM generate_series(1, 5) i; INSERT INTO sharded TABLE plain; INSERT INTO reference TABLE plain;
		SELECT shardfdw.shard_table('sharded', shards => 2), shardfdw.create_reference_table('reference')});
}
sub rows { return $c->ask("SELECT string_agg(id || ':' || v, ' ' ORDER BY id) FROM $_[0]"); }

#
# Functions next to a session that writes
#

my %function = (
	plain     => [ q{shard_table('plain', shards => 2)}, q{create_reference_table('plain')} ],
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
				$c->ask_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%$name%' AND pid <> pg_backend_pid()");
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
my @calls = (q{shard_table('plain', shards => 2)}, q{create_reference_table('plain')}, q{create_reference_table('reference')}, q{unshard_table('sharded')}, q{unshard_table('reference')},
	q{create_shard('parent', 'parent_2', 'FROM (100) TO (200)', 'node2')}, q{refresh_node('node1')}, q{unshard_table('reference')}, q{copy_all_references('node1')},
	q{make_reference_replicas('plain', '{node1}')}, q{adopt_postgres_fdw()}, q{release_postgres_fdw()}, $add_node =~ /shardfdw\.(.*)/);
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
		my $schema = $name =~ /^(copy_all_references|make_reference_replicas)$/ ? 'shardfdw_internal' : 'shardfdw';
		$old{$level}->query("SELECT $schema.$call; ROLLBACK TO a");
		like($old{$level}{stderr}, qr/0A000: $name\(\) needs transaction isolation level READ COMMITTED/, "$call at $level");
	}
	is($old{$level}->query(q{SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode NOT LIKE 'Access%' AND mode NOT LIKE 'SI%' AND locktype IN ('relation', 'advisory', 'object')}), '0', 'nothing is locked');
	$old{$level}->query('COMMIT');
	$old{$level}->quit;
}
is(everything(), $before, 'nothing has changed on any server');
is(differences(), '', 'and both sides are equal');

# as core refuses a command in a transaction that does not have the isolation level it needs
$c->psql_fails_like(q{BEGIN; SET TRANSACTION SNAPSHOT '00000003-0000001B-1';}, qr/0A000: .*isolation level/, q{core's SQLSTATE});

# and with the advice of the hints
($rc, $out, $err) = $c->psql(q{SET client_min_messages = warning; SET default_transaction_isolation = 'serializable';
	BEGIN ISOLATION LEVEL READ COMMITTED; SELECT shardfdw.shard_table('plain', shards => 2); COMMIT;
	SET default_transaction_isolation = 'read committed'; SELECT shardfdw.create_shard('parent', 'parent_2', 'FROM (100) TO (200)', 'node2')}, on_error_stop => 1);
is($err, '', 'at READ COMMITTED');
is($c->safe_psql(q{SELECT count(*), (SELECT relrowsecurity FROM pg_class WHERE oid = 'plain'::regclass) FROM plain}), '6|t', 'with all that was committed');
is(differences(), '', 'both sides are equal');

#
# DDL after the commits of others
#

$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE plain, sharded, reference; CREATE TABLE used (id int PRIMARY KEY); SELECT shardfdw.shard_table('used', shards => 2)});

# Begins a transaction with an old snapshot on the coordinator, and also on the nodes if $uses_nodes
sub begin_old
{
	my ($level, $uses_nodes) = @_;
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\nSET client_min_messages = warning; BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM pg_class" . ($uses_nodes ? '; SELECT count(*) FROM used' : ''));
	return $session;
}

# Runs statements in it, ends it; returns its errors
sub run_old
{
	my ($session, $sql) = @_;
	$session->{stderr} = '';
	$session->query($sql);
	# core's, of plain tables, too: ADD CHECK after another one was added since
	(my $error = $session->{stderr}) =~ s/^.*WARNING: .*unexpected pg_constraint record found.*(\nLOCATION:.*)?\n?//m;
	$session->query('COMMIT');
	$session->quit;
	return $error;
}

my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
my $ncases = 0;
for my $kind ('sharded', 'reference')
{
	my $make = $kind eq 'sharded' ? q{shard_table('z', shards => 2)} : q{create_reference_table('z')};
	for my $theirs ('INSERT INTO z VALUES (150, 1, 1)', 'ALTER TABLE z ADD COLUMN n int', 'ALTER TABLE z ADD CHECK (v > 0)', 'CREATE INDEX zi ON z (v)', 'CREATE UNIQUE INDEX zu ON z (id, v)', 'ALTER TABLE z ADD CONSTRAINT zk UNIQUE (id, v)', 'ALTER TABLE z ALTER v SET NOT NULL',
		'ALTER TABLE z DROP COLUMN w', 'ALTER TABLE z RENAME v TO u', 'ALTER INDEX zo RENAME TO zn', 'ALTER TABLE z RENAME CONSTRAINT zc TO zd')
	{
		my $v = $theirs =~ / TO u$/ ? 'u' : 'v';
		my $o = $theirs =~ / TO zn$/ ? 'zn' : 'zo';
		my $check = $theirs =~ / TO zd$/ ? 'zd' : 'zc';
		my $all = "ALTER TABLE z ADD CHECK (id > 0); ALTER TABLE z ADD COLUMN m int DEFAULT 7; CREATE INDEX zm ON z ($v, m); ALTER TABLE z ALTER $v TYPE bigint; ALTER TABLE z ALTER $v SET NOT NULL; "
		  . "DROP INDEX $o; ALTER TABLE z DROP CONSTRAINT $check; ALTER TABLE z RENAME $v TO q; ALTER TABLE z ADD UNIQUE (id, q); CREATE STATISTICS zs ON id, q FROM z; COMMENT ON TABLE z IS 'it'; ALTER TABLE z RENAME TO zz";
		for my $uses_nodes (0, 1)
		{
			next unless ShardCluster::in_half($ncases++);
			my $level = $uses_nodes ? 'SERIALIZABLE' : 'REPEATABLE READ';
			my $statements = $all;
			$c->safe_psql("SET client_min_messages = warning; DROP TABLE IF EXISTS z, zz; CREATE TABLE z (id int PRIMARY KEY, v int, w int, CONSTRAINT zc CHECK (id <> 77)); CREATE INDEX zo ON z (v); SELECT shardfdw.$make; INSERT INTO z SELECT i, i, i FROM generate_series(1, 5) i");
			my ($session, $other) = map { begin_old($level, $uses_nodes) } 1, 2;
			$c->safe_psql($theirs);
			# core's own ALTER COLUMN TYPE cannot cope with a constraint on the column that is newer than the transaction
			if ($theirs =~ /ADD C(HECK|ONSTRAINT)/ || ($theirs =~ /NOT NULL/ && $major >= 18))
			{
				my $type = 'ALTER TABLE z ALTER v TYPE bigint; ';
				like(run_old($other, $type), qr/40001: .*Constraint "zk" was made or changed|could not find tuple for constraint/s, "$type at $level after $theirs");
				is($c->safe_psql(q{SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'z'::regclass AND attname = 'v'}), 'integer', 'which is as it was');
				$statements =~ s/\Q$type\E//;
			}
			else { run_old($other, 'SELECT 1'); }
			is(run_old($session, $statements), '', "$kind table: DDL at $level after $theirs");
			is(differences(), '', 'both sides are equal');
			is($c->safe_psql('SELECT count(*), count(m) FROM zz'), $theirs =~ /INSERT/ ? '6|6' : '5|5', 'all rows are there');
			is($c->safe_psql(q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE indrelid = 'zz'::regclass}),
				join(' ', sort 'z_id_q_key', 'z_pkey', 'zm', $theirs =~ /INDEX (z[iu])/ ? $1 : (), $theirs =~ /UNIQUE \(/ ? 'zk' : ()), 'and the indexes');
		}
	}
}

# Indexes that have swapped their names
$c->safe_psql(q{SET client_min_messages = warning; DROP TABLE zz; CREATE TABLE z (id int PRIMARY KEY, v int, w int); CREATE INDEX a ON z (v); CREATE INDEX b ON z (w); SELECT shardfdw.shard_table('z', shards => 2)});
my $session = begin_old('REPEATABLE READ', 1);
$c->safe_psql('BEGIN; ALTER INDEX a RENAME TO x; ALTER INDEX b RENAME TO a; ALTER INDEX x RENAME TO b; COMMIT');
is(run_old($session, 'DROP INDEX a'), '', 'an index under a name that another one had');
is($c->node_safe_psql(1, q{SELECT indexdef FROM pg_indexes WHERE tablename = 'z_00' AND indexname !~ 'pkey'}), 'CREATE INDEX b_00 ON public.z_00 USING btree (v)', 'is the one of now');
is(differences(), '', 'on both sides');

# Values that are computed row by row: rows that the transaction does not see would get none
$session = begin_old('REPEATABLE READ', 1);
$c->safe_psql('INSERT INTO z VALUES (1, 1, 1)');
$c->safe_psql(q{CREATE FUNCTION own_random() RETURNS float LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN random(); END'});
like(run_old($session, 'ALTER TABLE z ADD COLUMN r float DEFAULT own_random()'), qr/0A000: ADD COLUMN with a default that is computed row by row needs transaction isolation level READ COMMITTED/, 'values row by row');
is($c->safe_psql('ALTER TABLE z ADD COLUMN r float DEFAULT own_random(); SELECT count(r) FROM z'), '1', 'at READ COMMITTED');
# nodes compute values for all their rows
$session = begin_old('REPEATABLE READ', 1);
$c->safe_psql('INSERT INTO z VALUES (99, 2, 2, 2)');
is(run_old($session, 'ALTER TABLE z ADD COLUMN q float DEFAULT random()'), '', 'values that nodes compute');
is($c->safe_psql('SELECT count(q) FROM z; DELETE FROM z WHERE id = 99'), '2', 'all rows have one, those that the transaction did not see, too');

# A foreign key of the shards
$c->safe_psql(q{CREATE TABLE ref (id int PRIMARY KEY); SELECT shardfdw.create_reference_table('ref')});
for my $drop ('ALTER TABLE z DROP CONSTRAINT IF EXISTS zf', 'ALTER TABLE z DROP CONSTRAINT zf')
{
	$session = begin_old('REPEATABLE READ', 1);
	$c->safe_psql('ALTER TABLE z ADD CONSTRAINT zf FOREIGN KEY (v) REFERENCES ref NOT VALID');
	$err = run_old($session, $drop);
	my $left = $c->safe_psql(q{SELECT count(*) FROM shardfdw.run_on_shards('z', 'SELECT 1 FROM pg_constraint WHERE conrelid = %L::regclass AND conname = ''zf''') WHERE result = '1'});
	if ($drop =~ /IF/) { is("$err$left", '0', 'a foreign key of the shards that is new is dropped'); }
	else { like($err, qr/42704: constraint "zf"/, 'or is said not to be there'); is($left, '2', 'and stays'); }
}
is(differences(), '', 'both sides are equal');

# The present definition of objects that a table needs on nodes
$c->safe_psql(q{CREATE SCHEMA ob; CREATE DOMAIN ob.d AS int; CREATE TYPE ob.e AS ENUM ('a')});
$session = begin_old('REPEATABLE READ', 1);
$c->safe_psql(q{ALTER DOMAIN ob.d ADD CONSTRAINT small CHECK (VALUE < 10); ALTER TYPE ob.e ADD VALUE 'b'; CREATE FUNCTION ob.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'; ALTER SCHEMA ob RENAME TO ob2});
is(run_old($session, q{ALTER TABLE z ADD COLUMN d ob2.d, ADD COLUMN e ob2.e; ALTER TABLE z ADD CHECK (ob2.f(id) > 0); INSERT INTO z (id, d, e) VALUES (2, 2, 'b'), (3, 3, 'b')}), '', 'types and functions that others have changed, made and renamed');
is($c->node_safe_psql(1, q{SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = 'ob2.d'::regtype}), 'CHECK ((VALUE < 10))', 'are made as they are now');
is(differences(), '', 'both sides are equal');

# A schema that was renamed later, and tables that were moved into it later
$c->safe_psql(q{CREATE SCHEMA s1; CREATE TABLE s1.t (id int PRIMARY KEY); SELECT shardfdw.shard_table('s1.t', shards => 2)});
$session = begin_old('SERIALIZABLE', 1);
$c->safe_psql(q{ALTER SCHEMA s1 RENAME TO s2; CREATE TABLE s2.n (id int PRIMARY KEY); SELECT shardfdw.shard_table('s2.n', shards => 2)});
is(run_old($session, 'ALTER TABLE s2.t ADD COLUMN v int; CREATE INDEX ON s2.n ((id + 1)); ALTER SCHEMA s2 RENAME TO s3'), '', 'a schema that was renamed');
is($c->safe_psql('SELECT count(*) FROM s3.t, s3.n'), '0', 'and is once more');
is(differences(), '', 'both sides are equal');

# ATTACH PARTITION compares the present definitions of the foreign table and its table on the node
for my $uses_nodes (0, 1)
{
	$c->safe_psql('SET client_min_messages = warning; DROP FOREIGN TABLE IF EXISTS parent_9; CREATE FOREIGN TABLE parent_9 (id int NOT NULL, v int) SERVER node1');
	$c->node_safe_psql(1, 'DROP TABLE IF EXISTS parent_9; CREATE TABLE parent_9 (id int NOT NULL, v int)');
	my $attach = 'ALTER TABLE parent ATTACH PARTITION parent_9 FOR VALUES FROM (900) TO (1000)';
	$session = begin_old('REPEATABLE READ', $uses_nodes);
	$c->node_safe_psql(1, 'ALTER TABLE parent_9 ALTER v TYPE bigint');
	like(run_old($session, $attach), $uses_nodes ? qr/0A000: ATTACH PARTITION of foreign table "parent_9" needs transaction isolation level READ COMMITTED/ : qr/55000: table .*parent_9 on node "node1" is not as foreign table/,
		'a shard that was changed on its node');
}
$session = begin_old('REPEATABLE READ', 0);
$c->safe_psql('ALTER FOREIGN TABLE parent_9 ALTER v TYPE bigint, ALTER v SET NOT NULL, ADD CHECK (v > 0); ALTER TABLE parent ALTER v TYPE bigint, ALTER v SET NOT NULL; CREATE INDEX ON parent (v)');
$c->node_safe_psql(1, 'ALTER TABLE parent_9 ALTER v SET NOT NULL, ADD CHECK (v > 0)');
is(run_old($session, 'ALTER TABLE parent ATTACH PARTITION parent_9 FOR VALUES FROM (900) TO (1000)'), '', 'on both sides');
is(differences(), '', 'both sides are equal');

# A node that was added later: replicas of reference tables on it are changed and dropped, too
$c->safe_psql('ALTER TABLE z DROP CONSTRAINT zf');
for my $statement ('INSERT INTO ref VALUES (1)', 'ALTER TABLE ref ADD COLUMN n int', 'CREATE INDEX ON ref (id)', 'TRUNCATE ref', 'ALTER TABLE ref RENAME TO ref2', 'DROP TABLE ref')
{
	$session = begin_old('REPEATABLE READ', 1);
	$c->safe_psql("SET client_min_messages = warning; $add_node");
	is(run_old($session, $statement), '', "beside add_node(): $statement");
	is(differences(), '', 'the replicas are equal');
	is($c->node_safe_psql(3, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'ref%' AND relkind = 'r'}), $statement =~ /DROP/ ? 0 : 1, 'on the new node, too');
	$c->safe_psql(q{SET client_min_messages = warning; ALTER TABLE IF EXISTS ref2 RENAME TO ref; SELECT shardfdw.remove_node('node3')});
	$c->node_safe_psql(3, 'DROP TABLE IF EXISTS ref');
}

# The statement must not wait for reads of the same transaction over other connections, open or
# closed.
make_tables();
$c->safe_psql(q{SET client_min_messages = warning; CREATE SCHEMA side; CREATE TABLE side.source (id int PRIMARY KEY, t text); SELECT shardfdw.shard_table('side.source', shards => 2); CREATE TABLE side.sink (LIKE side.source INCLUDING ALL); SELECT shardfdw.shard_table('side.sink', shards => 2);
	INSERT INTO side.source SELECT i, repeat('t', 500) FROM generate_series(1, 20000) i});
my $lock = q{SELECT count(*) FROM shardfdw.run_on_shards('sharded', 'LOCK TABLE %s')};
for my $between ('INSERT INTO side.sink TABLE side.source', 'DECLARE rest CURSOR FOR TABLE side.source; FETCH 1 FROM rest', 'DECLARE rest CURSOR FOR TABLE side.source; FETCH 1 FROM rest; INSERT INTO side.sink VALUES (1)')
{
	for my $statement ('ALTER TABLE sharded ALTER v TYPE bigint', 'TRUNCATE sharded', 'DROP TABLE sharded', 'CREATE INDEX ON sharded (v)', 'ALTER TABLE reference ADD COLUMN n int', 'TRUNCATE reference', 'ALTER SCHEMA public RENAME TO renamed', $lock)
	{
		next unless ShardCluster::in_half($ncases++);
		($rc, $out, $err) = $c->psql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sharded JOIN reference USING (id); $between; $statement"
			  . ($between =~ /CURSOR/ ? '; MOVE ALL FROM rest' : '') . '; ROLLBACK');
		is($err, '', "$statement after $between");
	}
}

# Tables that a cursor reads on nodes are in use, like tables that it reads on the coordinator. This
# includes reference tables and single shards
make_tables();
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $cursor = "BEGIN ISOLATION LEVEL $level; DECLARE rest CURSOR FOR SELECT p.id, (SELECT count(*) + 0 * random()::int FROM sharded s JOIN reference r ON r.id = s.v WHERE s.id <= p.id OFFSET 0) FROM plain p ORDER BY 1; FETCH 1 FROM rest";
	for my $statement ('TRUNCATE reference', 'DROP TABLE reference', 'ALTER TABLE reference ADD COLUMN n int', 'CREATE INDEX ON reference (v)', 'TRUNCATE sharded_00', 'TRUNCATE sharded_00 CASCADE', 'DROP FOREIGN TABLE sharded_01')
	{
		my ($command, $table) = $statement =~ /^(TRUNCATE|DROP TABLE|DROP FOREIGN TABLE|ALTER TABLE|CREATE INDEX)(?: ON)? (\w+)/;
		$command =~ s/FOREIGN //;
		$c->psql_fails_like("$cursor; $statement", qr/55006: cannot $command "$table" because it is being used by active queries/, "$level: $statement");
	}
	for my $statement ('DROP SERVER node2 CASCADE', 'DROP SCHEMA away CASCADE')
	{
		$c->psql_fails_like("CREATE SCHEMA away; ALTER FOREIGN TABLE sharded_01 SET SCHEMA away; $cursor; $statement", qr/55006: cannot DROP TABLE "sharded_0\d" because it is being used by active queries/, "$level: $statement");
		$c->safe_psql('ALTER FOREIGN TABLE away.sharded_01 SET SCHEMA public; DROP SCHEMA away');
	}
	is($c->safe_psql("$cursor; CLOSE rest; TRUNCATE sharded_00; TRUNCATE reference; DROP FOREIGN TABLE sharded_01; ROLLBACK"), '1|1', "$level: not when it is closed");
}

# a table of two levels whose lower level is read
$c->safe_psql(q{CREATE TABLE upper (a int, b int) PARTITION BY RANGE (a); CREATE TABLE lower PARTITION OF upper FOR VALUES FROM (0) TO (10) PARTITION BY HASH (b);
	SELECT shardfdw.create_shard('lower', 'lower_' || i, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || 1 + i)::name) FROM generate_series(0, 1) i; INSERT INTO upper SELECT i, i FROM generate_series(0, 9) i});
for my $table (qw(upper lower))
{
	my $cursor = "BEGIN; DECLARE rest CURSOR FOR SELECT (SELECT count(*) + 0 * random()::int FROM $table t WHERE t.a <= p.id OFFSET 0) FROM generate_series(1, 9) p(id); FETCH 1 FROM rest";
	$c->psql_fails_like("$cursor; DROP FOREIGN TABLE lower_0", qr/55006: cannot DROP TABLE "lower_0" because it is being used by active queries/, "two levels: $table");
}

# Aggregates: no node computes one with the old version of a function
$c->safe_psql(q{CREATE FUNCTION one(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT coalesce($1, 0) + 1'; CREATE FUNCTION plus(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT coalesce($1, 0) + coalesce($2, 0)'; INSERT INTO used SELECT generate_series(1, 20)});
my $count = q{(SFUNC = one, STYPE = int, COMBINEFUNC = plus)};
$session = begin_old('REPEATABLE READ', 1);
$c->safe_psql("CREATE AGGREGATE theirs(int) $count");
is($c->safe_psql('SELECT theirs(id) FROM used'), '20', 'an aggregate of another session');
is(run_old($session, q{CREATE OR REPLACE FUNCTION one(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT coalesce($1, 0) + 10'; CREATE AGGREGATE mine(int)} . " $count"), '', 'its function is changed');
is($c->safe_psql('SELECT theirs(id), mine(id) FROM used'), '200|200', 'it is the new one that counts');
is($c->safe_psql('SELECT shardfdw.distribute_aggregate(oid) FROM pg_proc WHERE proname IN ($$mine$$, $$theirs$$); SELECT theirs(id), mine(id) FROM used'), "t\nt\n200|200", 'on the nodes, too, when they are told');

done_testing();
