# Sets up nodes as managed services provide them (docs/managed_services.md). The role is not a
# superuser, and logs in with a password. The role owns the database, or may only create tables in
# schema public, or the server allows no prepared transactions. Everyday work must succeed on each
# of them, with the same rows as on plain tables.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, host => 'tcp', add_nodes => 0, extension => 0, node_conf => "max_prepared_transactions = 0\nwal_level = logical\n");

for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{CREATE ROLE app LOGIN PASSWORD 'secret'; CREATE ROLE guest LOGIN PASSWORD 'secret'});
	$c->node_safe_psql($i, $_) for 'CREATE DATABASE one_phase OWNER app', 'CREATE DATABASE owner OWNER app', 'CREATE DATABASE tables_only';
	$c->node($i)->safe_psql('tables_only', 'GRANT CREATE ON SCHEMA public TO guest');
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $fh, '>', $hba or die;
	print $fh "host all app,guest 127.0.0.1/32 scram-sha-256\n$old";
	close $fh;
	$c->node($i)->reload;
}

# A database of the coordinator with the two nodes, by a role.
sub declare
{
	my ($database, $role) = @_;

	$c->safe_psql("CREATE DATABASE $database");
	my ($rc, $out, $err) = $c->coordinator->psql($database, 'CREATE EXTENSION shardfdw; ' . join ' ', map {
			my ($host, $port) = $c->node_address($_);
			"SELECT shardfdw.add_node('n$_', '$host', $port, '$database', '$role', 'secret');" } 1 .. 2);
	is($rc, 0, "$database: nodes are declared") or diag $err;
	return $err;
}

# run(database, name, statement): one test that it works; returns the rows.
sub run
{
	my ($database, $name, $sql) = @_;
	my ($rc, $out, $err) = $c->coordinator->psql($database, $sql, on_error_stop => 1);
	is($rc, 0, "$database: $name") or diag $err;
	return $out;
}

# same(database, name, query): the same rows of the sharded tables as of their plain copies. {t} and {u} are the tables.
sub same
{
	my ($database, $name, $query) = @_;
	my @answers = map { my $suffix = $_; run($database, $name . ($suffix ? ', plain' : ''), $query =~ s/\{(\w)\}/$1$suffix/gr) } '', '_plain';
	is($answers[0], $answers[1], "$database: $name: the same rows");
	cmp_ok(length $answers[0], '>', 0, "$database: $name: some rows");
}

my $both = sub { my ($sql) = @_; return join ' ', map { my $suffix = $_; $sql =~ s/\{(\w)\}/$1$suffix/gr . ';' } '', '_plain' };

sub everyday
{
	my ($database, $settings) = @_;
	my $file = $c->coordinator->data_dir . "/$database.csv";

	run($database, 'sharded tables with rows, a reference table', q{
		CREATE TABLE kind (k int PRIMARY KEY, name text NOT NULL);
		INSERT INTO kind SELECT i, 'kind ' || i FROM generate_series(0, 4) i;
		CREATE TABLE t (id bigint PRIMARY KEY, k int, v numeric, s text);
		INSERT INTO t SELECT i, i % 5, i * 1.5, 'row ' || i FROM generate_series(1, 500) i;
		CREATE TABLE t_plain AS TABLE t;
		ALTER TABLE t_plain ADD PRIMARY KEY (id);
		CREATE TABLE u (id bigint, pos int, n bigint, PRIMARY KEY (id, pos));
		CREATE TABLE u_plain (LIKE u INCLUDING ALL);} . $settings . q{
		SELECT shardfdw.create_reference_table('kind');
		SELECT shardfdw.shard_table('t', 'id', shards => 4);
		SELECT shardfdw.shard_table('u', 'id', colocate_with => 't')});
	run($database, 'COPY', "$settings COPY (SELECT i, p, i * p FROM generate_series(1, 500) i, generate_series(1, 3) p) TO '$file' (FORMAT csv);" . $both->("COPY {u} FROM '$file' (FORMAT csv)"));
	run($database, 'foreign keys and an index', "$settings ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t; ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES kind; CREATE INDEX ON t (v); ANALYZE t, u");
	same($database, 'groups', 'SELECT k, count(*), sum(v), round(avg(v), 6), round(stddev(v), 6), min(s), string_agg(s, \',\' ORDER BY id) FROM {t} GROUP BY k ORDER BY k');
	same($database, 'groups by the key', 'SELECT id, sum(n), array_agg(pos ORDER BY pos) FROM {u} GROUP BY id ORDER BY id');
	same($database, 'joins', 'SELECT name, count(*), sum(n) FROM {t} JOIN {u} USING (id) JOIN kind USING (k) GROUP BY name ORDER BY name');
	same($database, 'one row', 'SELECT * FROM {t} WHERE id = 77');
	run($database, 'writes to one shard', $settings . $both->('UPDATE {t} SET v = v + 1 WHERE id = 7; INSERT INTO {t} VALUES (1001, 1, 1, \'new\'); DELETE FROM {u} WHERE id = 9'));
	run($database, 'writes to all shards', $settings . $both->('UPDATE {t} SET s = upper(s) WHERE k = 2; DELETE FROM {u} WHERE pos = 3'));
	run($database, 'ON CONFLICT', $settings . $both->("INSERT INTO {t} SELECT i, i % 5, i, 'again' FROM generate_series(490, 520) i ON CONFLICT (id) DO UPDATE SET v = excluded.v, s = excluded.s"));
	run($database, 'a transaction that is rolled back', "$settings BEGIN; DELETE FROM u; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; ROLLBACK");
	run($database, 'a reference table', "$settings UPDATE kind SET name = name || '!'; INSERT INTO kind VALUES (5, 'five')");
	same($database, 'rows afterwards', 'SELECT * FROM {t} ORDER BY id');
	same($database, 'joins afterwards', 'SELECT name, count(*), sum(n) FROM {t} JOIN {u} USING (id) JOIN kind USING (k) GROUP BY name ORDER BY name');
	run($database, 'DDL', "$settings ALTER TABLE t ADD COLUMN w int DEFAULT 3; ALTER TABLE t_plain ADD COLUMN w int DEFAULT 3; ALTER TABLE t ALTER COLUMN s SET NOT NULL");
	same($database, 'a new column', 'SELECT w, count(*) FROM {t} GROUP BY w');
	is(run($database, 'checks', q{SELECT string_agg(check_name || ': ' || detail, E'\n') FROM shardfdw.check_cluster('rows') WHERE status = 'error'}), '', "$database: no errors");
}

# No prepared transactions: commits over several nodes are refused, with a hint. One-phase commits
# work.
my $said = declare('one_phase', 'app');
like($said, qr/WARNING:.*max_prepared_transactions/, 'add_node() says that there are no prepared transactions');
everyday('one_phase', q{SET shardfdw.commit_protocol = '1pc';});
my (undef, undef, $err) = $c->coordinator->psql('one_phase', 'UPDATE t SET v = v');
like($err, qr/ERROR:.*(?:prepared transactions are disabled|max_prepared_transactions)/, 'a commit in two phases is an error that says why');
is(run('one_phase', 'and nothing has changed', 'SELECT count(*) FROM shardfdw.prepared_transactions'), 0, 'nothing is left');

for my $node ($c->nodes)
{
	$node->append_conf('postgresql.conf', 'max_prepared_transactions = 20');
	$node->restart;
}

declare('owner', 'app');
everyday('owner', '');
run('owner', 'a shard moves under a lock', q{SELECT shardfdw.move_shard('t_00', (SELECT CASE node WHEN 'n1' THEN 'n2' ELSE 'n1' END FROM shardfdw.shards WHERE shard = 't_00'::regclass)::name, mode => 'block')});
same('owner', 'rows of a shard that has moved', 'SELECT * FROM {t} ORDER BY id');

# No schema but public: no partial aggregates, no noted identity; the rows are the same.
declare('tables_only', 'guest');
everyday('tables_only', '');
is($c->node(1)->safe_psql('tables_only', q{SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'shardfdw%'}), 0, 'nothing was made beside the tables');

done_testing();
