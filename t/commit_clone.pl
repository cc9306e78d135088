# A clone of the coordinator, or a former coordinator that a clone has replaced, must change nothing
# on nodes. This holds for jobs, statements and functions, in one-phase and in two-phase commit.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\nwal_level = replica\nmax_wal_senders = 4\n",
	node_conf        => "wal_level = logical\nmax_wal_senders = 10\n");
my $production = $c->coordinator;
plan skip_all => 'built without fault points'
  unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $file = $production->data_dir . '/shardfdw_fault_move_released';

# The content of a node.
my $has = q{
	SELECT string_agg(x, E'\n' ORDER BY x) FROM (
		SELECT format('%s %s %s %s', c.oid::regclass, relkind, relreplident,
				obj_description(c.oid, 'pg_class'))
			FROM pg_class c WHERE c.oid >= 16384 AND relkind IN ('r', 'i')
		UNION ALL SELECT format('schema %s %s', nspname, obj_description(oid, 'pg_namespace'))
			FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'
		UNION ALL SELECT format('publication %s', pubname) FROM pg_publication
		UNION ALL SELECT format('column %s %s', attrelid::regclass, attname) FROM pg_attribute
			WHERE attrelid >= 16384 AND attnum > 0
		UNION ALL SELECT format('trigger %s %s', tgrelid::regclass, tgname) FROM pg_trigger
		UNION ALL SELECT format('rights %s %s', oid::regclass, relacl) FROM pg_class WHERE oid >= 16384
		UNION ALL SELECT format('function %s', oid::regprocedure) FROM pg_proc WHERE oid >= 16384
		UNION ALL SELECT format('prepared %s', gid) FROM pg_prepared_xacts
		UNION ALL SELECT format('database %s', datname) FROM pg_database
		UNION ALL SELECT format('role %s', rolname) FROM pg_roles
		UNION ALL SELECT format('rows %s %s', c.oid::regclass, query_to_xml(
				format('SELECT * FROM %s x ORDER BY x::text', c.oid::regclass), true, true, ''))
			FROM pg_class c WHERE c.oid >= 16384 AND relkind = 'r') a(x)};

sub nodes_have
{
	return join "\n", map { "node $_\n" . $c->node_safe_psql($_, $has) } 1, 2;
}

# The servers of its nodes lead to the same nodes.
sub clone
{
	my ($name) = @_;
	my $clone = ShardServer->new($name);

	$production->backup($name);
	$clone->init_from_backup($production, $name);
	$clone->start;
	return $clone;
}

$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int);
	CREATE TABLE one (id int PRIMARY KEY, v int);
	CREATE TABLE r (id int PRIMARY KEY, v int);
	CREATE TABLE ref (id int PRIMARY KEY, v int);
	CREATE TABLE plain (id int PRIMARY KEY, v int);
	CREATE TABLE l (id int NOT NULL) PARTITION BY LIST (id);
	CREATE TABLE days (at timestamptz NOT NULL, id int NOT NULL) PARTITION BY RANGE (at);
	CREATE ROLE other});
$c->shard_table('t', 'id', shards => 4);
$c->shard_table('one', 'id', shards => 1);
$c->safe_psql(q{
	SELECT shardfdw.create_reference_table('ref');
	SELECT shardfdw.create_time_partitions('days', '1 day', now() + '2 days', NULL, 'id', 2);
	SELECT shardfdw.create_shard('l', 'l_1', 'FOR VALUES IN (1)', 'node1');
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 40) i;
	INSERT INTO one SELECT i, 0 FROM generate_series(1, 10) i;
	INSERT INTO ref VALUES (1, 1);
	INSERT INTO plain SELECT i, 0 FROM generate_series(1, 10) i});

# ---------- a clone while a job of production is at work ----------

my $clone = clone('clone');
append_to_file($file, '');
$c->set_faults('move_released=wait');
my $job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node2', wait => false)");
$c->wait_for(q{SELECT stage = 'dropping' FROM shardfdw.jobs});
my $before = nodes_have();
is($c->safe_psql('SELECT count(*) FROM t'), '40', 'the shard is on its new node');
for (1 .. 3)
{
	like(($clone->psql('postgres',
				"\\set VERBOSITY verbose\nSELECT shardfdw.move_shard('t_01', 'node1')"))[2],
		qr/55000: this server is not confirmed as the coordinator, and cannot change nodes.*promote_coordinator/s,
		'the clone starts no job');
}
is($clone->safe_psql('postgres',
		q{SELECT count(*) FROM shardfdw_internal.remove_traces('{node1,node2}')}),
	'0', 'nor does it remove what jobs have left');
is(nodes_have(), $before, 'the job of production keeps what it has made');
is($c->safe_psql('SELECT count(*) FROM t'), '40', 'no row is lost');
unlink $file;
$c->set_faults('');
$c->safe_psql("SELECT shardfdw.wait_job($job)");
is($c->safe_psql('SELECT count(*) FROM t'), '40', 'the job comes to its end');
$clone->stop('immediate');

# ---------- a clone refuses all of these ----------

my @in_transaction = (
	'UPDATE t SET v = 7',
	'UPDATE t SET v = 7 WHERE id = 1',
	'UPDATE t SET v = 7 WHERE id = 1 RETURNING id',
	'BEGIN; UPDATE t SET v = 7 WHERE id = 1; COMMIT',
	'INSERT INTO t VALUES (1001, 1)',
	'INSERT INTO t SELECT i, 1 FROM generate_series(1001, 1020) i',
	'DELETE FROM t',
	'MERGE INTO t USING plain p ON p.id = t.id WHEN MATCHED THEN DELETE',
	q{COPY t FROM PROGRAM 'seq 1001 1020 | sed s/$/,1/' (FORMAT csv)},
	'SELECT * FROM t WHERE id = 1 FOR UPDATE',
	'TRUNCATE t',
	'UPDATE one SET v = 7',
	'TRUNCATE one',
	'UPDATE ref SET v = 7',
	'ALTER TABLE t ADD x int',
	'ALTER TABLE one ADD x int',
	'CREATE INDEX ON t (v)',
	'CREATE INDEX CONCURRENTLY ON t (v)',
	'REINDEX TABLE CONCURRENTLY t',
	'GRANT SELECT ON t TO other',
	'DROP TABLE t',
	'DROP TABLE one',
	'DROP TABLE ref',
	q{SELECT shardfdw.shard_table('plain', 'id', shards => 2)},
	q{SELECT shardfdw.create_reference_table('plain')},
	q{SELECT shardfdw.unshard_table('t')},
	q{SELECT shardfdw.create_shard('l', 'l_2', 'FOR VALUES IN (2)', 'node1')},
	q{SELECT shardfdw.create_time_partitions('days', '1 day', now() + '9 days', NULL, 'id', 2)},
	q{SELECT shardfdw.drop_old_time_partitions('days', now() + '5 days')},
	q{SELECT shardfdw.set_shards_schema('t', 'elsewhere')},
	q{SELECT shardfdw.run_on_shards('t', 'UPDATE %s SET v = 7')},
	q{SELECT shardfdw.run_on_nodes('CREATE TABLE public.x ()')},
	q{SELECT shardfdw.query_nodes('{node1}', '{CREATE TABLE public.x ()}', 'write')},
	q{SELECT shardfdw.remove_all_nodes(drop_tables => true)});
my @otherwise = (
	q{SELECT shardfdw.shard_table('plain', 'id', shards => 2, mode => 'online')},
	q{SELECT shardfdw.unshard_table('t', mode => 'online')},
	q{SELECT shardfdw.split_shard('t_01', 2)},
	q{SELECT shardfdw.merge_shards('{t_00,t_01}')},
	q{SELECT shardfdw.drain_node('node1')},
	q{SELECT shardfdw.set_shard_count('t', 8)},
	q{SELECT shardfdw.create_restore_point('x')},
	q{SELECT shardfdw.disable_node('node2')},
	q{SELECT shardfdw.enable_node('node2')},
	q{SELECT shardfdw.add_user('other', password => 'x')},
	q{SELECT shardfdw.refresh_node('node1')},
	q{SELECT shardfdw.clone_node_databases()},
	q{SELECT shardfdw.drop_node_databases()},
	q{SELECT shardfdw.recover_prepared_transactions()},
	q{SELECT shardfdw.run_on_shards('t', 'UPDATE %s SET v = 7', in_transaction => false)},
	q{SELECT shardfdw.run_on_shards('t', 'DROP TABLE %s', in_transaction => false)},
	q{SELECT shardfdw.run_on_nodes('CREATE DATABASE x', in_transaction => false)},
	q{SELECT shardfdw.run_on_nodes('CREATE ROLE x', in_transaction => false)},
	q{SELECT shardfdw.query_nodes('{node1}', '{CREATE TABLE public.x ()}', 'settle', false)},
	'VACUUM t',
	'ANALYZE t');

# Checks that the nodes are unchanged by the statement.
sub same
{
	my ($before, $name, $said) = @_;
	my $after = nodes_have();
	my %had = map { $_ => 1 } split /\n/, $before;

	return if ok($after eq $before, "$name changes nothing");
	diag("$said\nis new: " . join "\n", grep { !$had{$_} } split /\n/, $after);
	return;
}

# Each statement of the first list is refused with this message; none changes a node.
sub changes_nothing
{
	my ($server, $who, $message, %opt) = @_;
	my $before = nodes_have();

	for my $protocol ('2pc', '1pc')
	{
		for my $sql (@in_transaction)
		{
			my ($rc, $out, $err) = $server->psql('postgres',
				"\\set VERBOSITY verbose\nSET shardfdw.commit_protocol = '$protocol';\n$sql",
				on_error_stop => 1);
			like($err, $message, "$who, $protocol: $sql");
			same($before, "$who: $sql", "$err$out");
		}
	}
	for my $sql (grep { !$opt{except} || $_ !~ $opt{except} } @otherwise)
	{
		my (undef, $out, $err) = $server->psql('postgres', $sql);
		same($before, "$who: $sql", $err . $out);
	}
	return;
}

$clone = clone('clone2');
changes_nothing($clone, 'clone',
	qr/ERROR:  55000: this server is not confirmed as the coordinator, and cannot change nodes/);
is($clone->safe_psql('postgres',
		"SET shardfdw.snapshot = 'cluster'; SELECT count(*), sum(v) FROM t"),
	'40|0', 'it reads');
is($clone->safe_psql('postgres',
		q{SELECT string_agg(result, ' ') FROM shardfdw.run_on_nodes('SELECT 1', false)}),
	'1 1', 'and asks nodes');

# ---------- a predecessor ----------

$clone->safe_psql('postgres', 'SELECT shardfdw.promote_coordinator($$complete$$)');
is($clone->safe_psql('postgres',
		'UPDATE t SET v = 1; UPDATE t SET v = 2 WHERE id = 1; SELECT sum(v) FROM t'),
	'41', 'it takes over, and writes');
changes_nothing($production, 'predecessor',
	qr/ERROR:  55000: .*node "node\d" has been taken over by another coordinator/,
	except => qr/add_user/);    # makes roles at once
$clone->stop('immediate');

done_testing();
