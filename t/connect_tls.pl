# Reaches nodes over TLS. Rows of 8 kB to 1 MB must arrive in both directions. The TLS library may
# hold data in its buffer when the socket has no more, and a full buffer may stop a write (R14). If
# a server refuses TLS, libpq begins again with another socket, and this must work, too (R56).

use strict;
use warnings;

use File::Copy;
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = ShardCluster->new(nodes => 2, host => 'tcp', add_nodes => 0);
my $dir = PostgreSQL::Test::Utils::tempdir();

plan skip_all => 'this server has no TLS' if $c->node_safe_psql(1, 'SHOW ssl_library') eq '';
plan skip_all => 'there is no openssl' if system('openssl version >/dev/null 2>&1') != 0;

# Makes a self-signed certificate for 127.0.0.1. Without TLS the server accepts only the Unix
# socket.
sub use_tls
{
	my ($i, $hba) = @_;
	my $data = $c->node($i)->data_dir;
	unlink "$data/pg_hba.conf";
	append_to_file("$data/pg_hba.conf", "local all all trust\n$hba\n");
	return;
}
for my $i (1 .. 2)
{
	my $data = $c->node($i)->data_dir;
	system("openssl req -new -x509 -nodes -days 2 -newkey rsa:2048 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 "
		  . "-keyout '$data/server.key' -out '$data/server.crt' 2>'$dir/openssl.log'") == 0
	  or die slurp_file("$dir/openssl.log");
	chmod 0600, "$data/server.key";
	use_tls($i, 'hostssl all all 127.0.0.1/32 trust');
	$c->node($i)->append_conf('postgresql.conf', "ssl = on\n");
	$c->node($i)->restart;
	my ($host, $port) = $c->node_address($i);
	$c->safe_psql("SELECT shardfdw.add_node('node$i', '$host', $port, 'postgres', options => jsonb_build_object('sslmode', 'verify-full', 'sslrootcert', '$data/server.crt'))");
}
my $encrypted = q{SELECT count(*) > 0 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'shardfdw:%'};

# Rows are about as long as a page, a record of TLS, or a buffer of libpq, and up to 1 MB. All
# lengths differ, and the rows do not compress.
$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int, w text);
	CREATE TABLE t_plain (id int PRIMARY KEY, v int, w text);
	ALTER TABLE t ALTER w SET STORAGE EXTERNAL;
	ALTER TABLE t_plain ALTER w SET STORAGE EXTERNAL;
	INSERT INTO t_plain
	SELECT id, 0, left((SELECT string_agg(md5(id::text || '.' || i), '') FROM generate_series(0, length / 32) i), length)
	FROM (SELECT row_number() OVER () AS id, length + d AS length
		  FROM unnest('{8192,16384,32768,65536,262144,1048576}'::int[]) length, generate_series(-24, 24, 4) d) x;
	INSERT INTO t_plain SELECT 1000 + i, 0, 'short ' || i FROM generate_series(1, 2000) i});
$c->shard_table('t', 'id', shards => 4);
my $digest = q{SELECT count(*), sum(id), sum(length(w)), md5(string_agg(md5(w), '' ORDER BY id)) FROM };
my $expected = $c->safe_psql($digest . 't_plain');
like($expected, qr/^2078\|/, 'the rows are made');

# This timeout ends a statement that hangs, so that the test fails.
my $limit = "SET statement_timeout = '60s';";
sub holds
{
	my ($name, $sql) = @_;
	my ($status, $out, $errors) = $c->psql("$limit $sql", on_error_stop => 1);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status == 0 ? $out : $errors, $expected, $name);
	return;
}

# Loads in two ways: lines that are forwarded unchanged, and rows that are parsed (WHERE).
my $nloads = 0;
for my $format ('text', 'csv', 'binary')
{
	$c->safe_psql("COPY t_plain TO '$dir/$format' (FORMAT $format)");
	for my $where ('', ' WHERE v >= 0')
	{
		for my $buffer ('64kB', '8MB')
		{
			# the next part needs the rows
			next unless ShardCluster::in_half($nloads++) || $nloads == 12;
			$c->safe_psql('TRUNCATE t');
			holds("COPY FROM, $format,$where buffer $buffer",
				"SET shardfdw.copy_buffer_size = '$buffer'; COPY t FROM '$dir/$format' (FORMAT $format)$where; $digest t");
		}
	}
}

# A node does not read for a while. The unsent bytes are sent again unchanged.
for my $buffer ('64kB', '8MB')
{
	$c->safe_psql('TRUNCATE t');
	$c->sigstop_node(2);
	my $load = $c->start_sql("$limit SET shardfdw.copy_buffer_size = '$buffer'; COPY t FROM '$dir/text';", name => 'load');
	usleep(1_000_000);
	$c->sigcont_node(2);
	my ($status, undef, $errors) = $c->wait_sql($load);
	is($status, 0, "COPY ends when a node reads again ($buffer)") || diag $errors;
	is($c->safe_psql($digest . 't'), $expected, "all rows arrived ($buffer)");
}
my $writer = $c->coordinator->background_psql('postgres');
$writer->query_safe("$limit BEGIN; UPDATE t SET v = v");
is($c->node_safe_psql($_, $encrypted), 't', "node $_ is reached over TLS") for 1 .. 2;

# Readers run next to a writer whose transaction is open. Each way to fetch is used.
for my $settings ('', 'SET shardfdw.enable_copy_fetch = off;', 'SET shardfdw.enable_shard_scan = off;', 'SET shardfdw.max_connections_per_node = 1;')
{
	my $name = $settings =~ /SET (.*);/ ? $1 : 'as it is';
	holds("aggregate here: $name", "$settings $digest (SELECT * FROM t OFFSET 0) x");
	holds("in order: $name", "$settings $digest (SELECT * FROM t ORDER BY v, id DESC OFFSET 0) x");
	holds("join: $name", "$settings SELECT count(*), sum(a.id), sum(length(b.w)), md5(string_agg(md5(a.w), '' ORDER BY a.id)) FROM (SELECT * FROM t OFFSET 0) a JOIN (SELECT * FROM t OFFSET 0) b USING (id)");
	$c->safe_psql("$limit $settings COPY t TO '$dir/out'; COPY (SELECT * FROM t) TO '$dir/out_query' (FORMAT binary)");
	holds("COPY TO: $name", "CREATE TEMP TABLE back (LIKE t); COPY back FROM '$dir/out'; $digest back");
	holds("COPY (query) TO: $name", "CREATE TEMP TABLE back (LIKE t); COPY back FROM '$dir/out_query' (FORMAT binary); $digest back");
	is( $c->safe_psql("$limit $settings BEGIN; DECLARE a CURSOR FOR SELECT id, w FROM t; DECLARE b CURSOR FOR SELECT id, w FROM t ORDER BY id;
			MOVE 5 FROM a; MOVE 5 FROM b; MOVE 700 FROM a; MOVE 700 FROM b; MOVE 3 FROM a; SELECT count(*) FROM t; FETCH 1 FROM b; COMMIT") =~ s/\|(.*)/'|' . length $1/er,
		$c->safe_psql("SELECT count(*) FROM t_plain; (SELECT id || '|' || length(w) FROM t_plain ORDER BY id OFFSET 705 LIMIT 1)"), "two cursors, read in turns: $name");
}
$writer->query_safe('COMMIT');
$writer->quit;

# Rows that are sent as parameters, and returned by the same statement.
for my $settings ('', 'SET shardfdw.enable_statement_push = off;', 'SET shardfdw.enable_shard_scan = off;')
{
	my $name = $settings =~ /SET (.*);/ ? $1 : 'as it is';
	$c->safe_psql('TRUNCATE t');
	holds("INSERT: $name", "$settings INSERT INTO t SELECT * FROM t_plain; $digest t");
	holds("UPDATE RETURNING: $name", "$settings WITH u AS (UPDATE t SET w = t.w || 'x' FROM t_plain p WHERE p.id = t.id RETURNING t.id, left(t.w, -1) AS w) $digest u");
	holds("UPSERT: $name", "$settings INSERT INTO t SELECT * FROM t_plain ON CONFLICT (id) DO UPDATE SET w = excluded.w; $digest t");
}

# A statement is cancelled over TLS. The session continues although the buffers contain a rest of
# its answer.
is( $c->safe_psql("SET statement_timeout = 60000;\n\\set ON_ERROR_STOP 0\nBEGIN; SAVEPOINT a; SET LOCAL statement_timeout = 300; SELECT id, length(w), pg_sleep(0.01) FROM t; ROLLBACK TO a; $digest t; COMMIT; $digest t")
	  =~ s/.*?(?=2078)//sr, "$expected\n$expected", 'cancelled in the middle of its rows; the transaction goes on');

# A user mapping for PUBLIC authenticates by a certificate. Roles without a separate mapping need no
# password, and have the rights of the node's role.
system("openssl req -new -x509 -nodes -days 2 -newkey rsa:2048 -subj /CN=app -keyout '$dir/app.key' -out '$dir/app.crt' 2>'$dir/openssl.log'") == 0 or die slurp_file("$dir/openssl.log");
chmod 0600, "$dir/app.key";
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, 'CREATE ROLE app LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO app');
	$c->node($i)->append_conf('postgresql.conf', "ssl_ca_file = '$dir/app.crt'\n");
	use_tls($i, "hostssl all app 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 trust");
	$c->node($i)->restart;
	$c->safe_psql("CREATE USER MAPPING FOR PUBLIC SERVER node$i OPTIONS (user 'app', sslcert '$dir/app.crt', sslkey '$dir/app.key', password_required 'false')");
}
$c->safe_psql('CREATE ROLE anna; CREATE ROLE bert; GRANT ALL ON t TO anna');
is($c->safe_psql("SET ROLE anna; $digest t"), $expected, 'a certificate for all');
$c->psql_fails_like('SET ROLE bert; SELECT count(*) FROM t', qr/42501: permission denied for table t/, 'not beyond the rights on the table');
$c->psql_fails_like('SET ROLE anna; UPDATE t SET v = 1', qr/42501: permission denied for table t_\d+/, 'nor beyond those of the role on the nodes');
$c->psql_fails_like(q{GRANT USAGE ON FOREIGN SERVER node1 TO bert; SET ROLE bert; CREATE USER MAPPING FOR bert SERVER node1 OPTIONS (user 'app', sslcert 'x')}, qr/42501/, 'which file it is says a superuser');
use_tls($_, 'hostssl all all 127.0.0.1/32 trust') for 1 .. 2;

# R56: sslmode=prefer, and node 1 does not accept TLS. libpq closes the socket and starts again,
# within the same PQconnectPoll.
use_tls(1, "hostnossl all all 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 reject");
$c->node($_)->restart for 1 .. 2;
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET sslmode 'prefer', DROP sslrootcert); ALTER SERVER node2 OPTIONS (SET sslmode 'prefer', DROP sslrootcert)});
for my $try (1 .. 3)
{
	my $start = time;
	holds("a node that refuses TLS, the other one does not ($try)", "$digest t");
	cmp_ok(time - $start, '<', 20, 'and nobody waits for the socket that is gone');
}
my $mixed = $c->coordinator->background_psql('postgres');
$mixed->query_safe("$limit BEGIN; UPDATE t SET v = v + 1");
is($c->node_safe_psql(1, $encrypted) . $c->node_safe_psql(2, $encrypted), 'ft', 'one is reached without TLS, one with it');
$mixed->query_safe('COMMIT');
$mixed->quit;

# A client that reaches the coordinator over TLS, with a Sync after each statement and after several (pipelines).
my $own = $c->coordinator->data_dir;
my $pipeline = "$dir/pipeline.sql";
copy($c->node(2)->data_dir . "/server.$_", "$own/server.$_") or die $! for qw(crt key);
chmod 0600, "$own/server.key";
$c->coordinator->append_conf('postgresql.conf', "ssl = on\n");
$c->coordinator->restart;
append_to_file($pipeline, join "\n", '\set k random(1001, 3000)', ('UPDATE t SET v = v + 1 WHERE id = :k;') x 2, '\startpipeline', ('UPDATE t SET v = v + 1 WHERE id = :k;') x 3, '\endpipeline', '');
my $sum = $c->safe_psql('SELECT sum(v) FROM t');
$c->coordinator->command_checks_all([ 'pgbench', '-n', '-c', '5', '-t', '10', '-M', 'extended', '-f', $pipeline, 'host=127.0.0.1 dbname=postgres sslmode=require port=' . $c->coordinator->port ],
	0, [qr{processed: 50/50}], [qr/^(?!.*ERROR)/s], 'a client with TLS: single statements and pipelines');
is($c->safe_psql("SELECT sum(v) - $sum FROM t"), 250, 'each update counted once');

# A node has two addresses, and no server listens at the first. libpq has to open a second socket
# again.
my ($host, $port) = $c->node_address(2);
$c->safe_psql("ALTER SERVER node2 OPTIONS (SET host '127.0.0.1,$host', SET port '1,$port')");
holds('the second of two addresses', "$digest t");

# If TLS is required and the server does not offer it, the error says so.
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (SET sslmode 'require')});
my ($rc, undef, $err) = $c->psql("$limit $digest t");
isnt($rc, 0, 'TLS is required, and refused: an error');
like($err, qr/pg_hba\.conf|SSL|no encryption/, 'which says so') || diag $err;

done_testing();
