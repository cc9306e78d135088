# Runs pg_upgrade on a coordinator, to the same major. The new server must be a coordinator of the
# same nodes. The upgrade must not contact the nodes.

use strict;
use warnings;

use Cwd;
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 1\n");
my $old = $c->coordinator;

$c->safe_psql(q{
	CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int DEFAULT 7 CHECK (v >= 0), w text, g int GENERATED ALWAYS AS (v * 2) STORED);
	CREATE TABLE r (code int PRIMARY KEY, name text);
	CREATE TABLE plain (id int, name text);
	CREATE ROLE reader});
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{
	SELECT shardfdw.create_reference_table('r');
	INSERT INTO t (v, w) SELECT g, 'x' FROM generate_series(1, 500) g;
	INSERT INTO r SELECT g, 'name ' || g FROM generate_series(0, 9) g;
	INSERT INTO plain VALUES (1, 'here');
	COPY t (v) FROM PROGRAM 'seq 501 520' (RESUME 'once', COMMIT_ROWS 5);
	CREATE INDEX w_index ON t (w);
	COMMENT ON TABLE t IS 'sharded';
	COMMENT ON COLUMN t.v IS 'a column';
	COMMENT ON TABLE r IS 'reference';
	GRANT SELECT ON t, r TO reader;
	CREATE VIEW joined AS SELECT name, count(*) AS n, sum(g) AS s FROM t JOIN r ON r.code = t.v % 10 GROUP BY name});

# a user's trigger that is disabled, and rights that the dump restores by ALTER and GRANT
$c->safe_psql(q{
	CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER off BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION nothing();
	ALTER TABLE r DISABLE TRIGGER off;
	ALTER TABLE t OWNER TO CURRENT_USER});

# The transaction that is left prepared (below) is a separate finding.
my $problems = ShardCluster::problems(q{check_cluster('rows')});
my @queries = (
	'SELECT count(*), sum(v), sum(g), max(id) FROM t',
	'SELECT * FROM t WHERE id = 77',
	'SELECT * FROM joined ORDER BY name',
	'SELECT * FROM plain',
	'SELECT * FROM shardfdw.resumable_loads',
	'SELECT * FROM shardfdw.tables ORDER BY relation::text',
	'SELECT count(*) FROM shardfdw_internal.commit_log',
	'EXPLAIN (COSTS OFF) SELECT name, avg(v) FROM t JOIN r ON r.code = t.v GROUP BY name',
	"$problems AND check_name <> 'transactions'");
my @before = map { $c->safe_psql($_) } @queries;

my $new = ShardServer->new('upgraded');
$new->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$new->append_conf('postgresql.conf', slurp_file($old->data_dir . '/postgresql.conf') =~ s/^(port|unix_socket_directories) = .*$//gmr);
my $left = $c->gid_prefix . '1:65536';
$old->stop;

# Leftovers of the old server, against the page's advice
$c->node_safe_psql(1, "BEGIN; INSERT INTO public.r VALUES (98, 'left'); PREPARE TRANSACTION '$left'");

# Both servers are stopped while pg_upgrade runs.
$c->stop_node($_) for 1, 2;
my $bindir = $old->config_data('--bindir');
my ($cwd, $dir) = (getcwd, PostgreSQL::Test::Utils::tempdir_short());
chdir $dir or die "$dir: $!";
command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir, '-s', $dir, '-p', $old->port, '-P', $new->port ], 'pg_upgrade');
chdir $cwd;
$c->start_node($_) for 1, 2;
$new->start;
$c->{coordinator} = $new;

isnt(slurp_file($old->data_dir . '/global/pg_control'), slurp_file($new->data_dir . '/global/pg_control'), 'it is another server');
is($c->safe_psql($queries[$_]), $before[$_], $queries[$_]) for 0 .. $#queries;
is($c->node_safe_psql($_, q{SELECT DISTINCT obj_description(oid) FROM pg_class WHERE relname ~ '^t_0\d$'}), 'sharded', "comments on node $_ are as they were") for 1, 2;

# ---------- and it is at work ----------

$c->safe_psql(q{INSERT INTO t (v) VALUES (1), (2), (3), (4); INSERT INTO r VALUES (10, 'new'); UPDATE t SET v = v + 1 WHERE id <= 10});
is($c->safe_psql('SELECT count(*), max(id) FROM t'), '524|524', 'writes to several nodes; the sequence goes on');
$c->safe_psql('ALTER TABLE t ADD COLUMN later int DEFAULT 3; CREATE INDEX later_index ON t (later)');
is($c->safe_psql('SELECT later, count(*) FROM t GROUP BY later'), '3|524', 'DDL');
like(($c->psql(q{COPY t (v) FROM PROGRAM 'seq 501 520' (RESUME 'once', COMMIT_ROWS 5)}))[2], qr/load "once" has finished before/, 'a load that has finished is not loaded again');
like($c->safe_psql($problems), qr/^node1\|transactions\|$left: left alone: identity [^\n]*$/, 'check_cluster finds what the old server has left, and nothing else');
ok($c->wait_for('SELECT count(*) = 1 FROM shardfdw_internal.coordinator, pg_control_system() s WHERE coordinator.system_identifier = s.system_identifier'), 'it has an identity of its own');
my $prefix = $c->gid_prefix;
my $xid = $c->safe_psql('SELECT pg_current_xact_id()');
$c->node_safe_psql(1, "BEGIN; INSERT INTO public.r VALUES (99, 'lost'); PREPARE TRANSACTION '$prefix$xid:65536'");
ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid <> '$left'", 1), 'the recovery worker settles what is prepared');
like($c->safe_psql('SELECT node, gid, action FROM shardfdw.recover_prepared_transactions()'), qr/^node1\|$left\|left alone: identity "[0-9a-f]{16}" is not this coordinator's, and has not been taken over$/, 'what the old server has left is told');
like($c->safe_psql('SELECT gid, state FROM shardfdw.prepared_transactions'), qr/^$left\|left alone/, 'and shown');
$c->safe_psql('SELECT shardfdw.promote_coordinator($$complete$$)');
ok($c->wait_for('SELECT count(*) = 0 FROM pg_prepared_xacts', 1), 'and settled once the new one has taken its place');
is($c->safe_psql('SELECT count(*) FROM r WHERE code IN (98, 99)'), '0', 'by the log: it had not committed');

done_testing();
