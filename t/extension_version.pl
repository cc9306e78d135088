# The library and the SQL objects have different versions. The test installs a package while the
# server runs. It updates the extension later, in another session, or before the server has loaded
# the new library.

use strict;
use warnings;

use Cwd;
use ExtensionPackage;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $package = ExtensionPackage->new or plan(skip_all => 'needs the private installation that scripts/check makes');
$package->install;
my $c = ShardCluster->new(nodes => 2, coordinator_conf => "shardfdw.recovery_interval = 1\n");
my $coordinator = $c->coordinator;

$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int);
	CREATE TABLE r (id int PRIMARY KEY, v int);
	CREATE TABLE plain (id int)});
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{
	SELECT shardfdw.create_reference_table('r');
	INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;
	INSERT INTO r VALUES (1, 1)});

sub installed { return $c->safe_psql(q{SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'}); }
sub library { return $c->safe_psql('SELECT shardfdw_internal.library_version()'); }

# Statements that use tables of nodes, or nodes, in different ways
my %uses = (
	scan             => 'SELECT count(*) FROM t',
	router           => 'SELECT v FROM t WHERE id = 7',
	explain          => 'EXPLAIN SELECT count(*) FROM t',
	'core planning'  => 'SET shardfdw.enable_shard_scan = off; SELECT count(*) FROM t',
	shard            => 'SELECT count(*) FROM t_00',
	insert           => 'INSERT INTO t VALUES (101, 1)',
	'update in rows' => 'UPDATE t SET v = v + random()',
	delete           => 'DELETE FROM t',
	copy             => "COPY t FROM STDIN;\n102\t1\n\\.\n",
	'copy to'        => 'COPY t TO STDOUT',
	truncate         => 'TRUNCATE t',
	analyze          => 'ANALYZE t',
	DDL              => 'ALTER TABLE t ADD w int',
	drop             => 'DROP TABLE t',
	reference        => 'INSERT INTO r VALUES (2, 2)',
	commands         => q{SELECT * FROM shardfdw.run_on_nodes('SELECT 1')},
	shard_table      => q{SELECT shardfdw.shard_table('plain', 'id', shards => 2)},
	check_cluster    => 'SELECT * FROM shardfdw.check_cluster()',
	recover          => 'SELECT * FROM shardfdw.recover_prepared_transactions()',
);

sub all_uses_fail
{
	my ($like, $when) = @_;

	for my $use (sort keys %uses)
	{
		my ($rc, $out, $err) = $c->psql($uses{$use});
		like($err, $like, "$when: $use");
	}
}

# Statements that must continue to work
sub others_work
{
	my ($when) = @_;

	is($c->safe_psql('SELECT count(*) FROM plain'), '0', "$when: a plain table");
	is($c->safe_psql('SELECT count(*) FROM r'), '1', "$when: a reference table's rows here");
	$c->safe_psql(q{CREATE TABLE other (a int PRIMARY KEY); INSERT INTO other VALUES (1); ALTER TABLE other ADD b int; CREATE INDEX ON other (b);
		CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW o AS SELECT * FROM other; GRANT SELECT ON other TO pg_monitor;
		CREATE SCHEMA s; DROP SCHEMA s; DROP VIEW o; DROP TABLE other; DROP FUNCTION f(); CREATE EXTENSION citext; DROP EXTENSION citext; ANALYZE plain});
	pass("$when: DDL on other objects");
	command_like([ 'pg_dump', '-d', $coordinator->connstr('postgres') ], qr/CREATE TABLE public\.t .*CREATE FOREIGN TABLE public\.t_00 .*COPY public\.r /s, "$when: pg_dump");
	is($c->safe_psql('BEGIN; SET LOCAL client_min_messages = warning; DROP EXTENSION shardfdw CASCADE; SELECT count(*) FROM pg_foreign_server; ROLLBACK'), '0', "$when: DROP EXTENSION");
}

my $old = $package->version;
my $new = '99.0';
is(library(), $old, 'library_version()');

# ---------- a new package, of which sessions that begin now load the library ----------

my $before = $coordinator->background_psql('postgres', on_error_stop => 0);
is($before->query("PREPARE p AS SELECT count(*) FROM t; PREPARE one AS SELECT v FROM t WHERE id = \$1; PREPARE i AS INSERT INTO r VALUES (\$1, 1);" .
	join('', map { "EXECUTE one($_);" } 1 .. 7) . 'EXECUTE p'), join("\n", 1 .. 7, 100), 'a session with the old library');
$package->begin($new, "CREATE FUNCTION shardfdw.made_up() RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'shardfdw_made_up';\n");
append_to_file($package->tree . '/sql/install/99_made_up.sql', "CREATE FUNCTION shardfdw.made_up() RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'shardfdw_made_up';\n");
append_to_file($package->tree . '/src/version.c', "PG_FUNCTION_INFO_V1(shardfdw_made_up);\nDatum shardfdw_made_up(PG_FUNCTION_ARGS) { PG_RETURN_TEXT_P(cstring_to_text(\"made up\")); }\n");
$package->install;

is(installed(), $old, 'the SQL objects are the old ones');
is(library(), $new, 'the library of new sessions is not');
my $update = qr/ERROR:  extension "shardfdw" is version \Q$old\E in this database, but the library that this session has loaded is version \Q$new\E\nHINT:  Run: ALTER EXTENSION shardfdw UPDATE/;
all_uses_fail($update, 'new library');
others_work('new library');
is($before->query('EXECUTE p'), '100', 'the old library goes on');
my ($rc, $out, $err) = $c->psql('BEGIN; SELECT 1 FROM plain; SAVEPOINT a; SELECT count(*) FROM t; ROLLBACK TO a; SELECT count(*) + 5 FROM plain; COMMIT', on_error_stop => 0);
is($out, '5', 'an error as others: a savepoint outlives it');

# The old session does not know the new library's functions
$before->query('SELECT 1');
my $refuse = qr/ERROR:  cannot install version \Q$new\E of extension "shardfdw" while the library that this session has loaded is version \Q$old\E\nHINT:  Connect again, or restart the server if its shared_preload_libraries names the library\./;
for my $sql ('ALTER EXTENSION shardfdw UPDATE', "ALTER EXTENSION shardfdw UPDATE TO '$new'", "CREATE EXTENSION shardfdw", "DO \$\$ BEGIN EXECUTE 'ALTER EXTENSION shardfdw UPDATE'; END \$\$")
{
	$before->query($sql);
	like($before->{stderr}, $refuse, "from the old session: $sql");
	$before->{stderr} = '';
}
$before->query('CREATE EXTENSION IF NOT EXISTS shardfdw');
unlike($before->{stderr}, qr/ERROR/, 'what changes nothing is not refused');
$before->{stderr} = '';
is(installed(), $old, 'nothing is changed');

# ---------- the update, and in one transaction ----------

is($c->safe_psql("BEGIN; SAVEPOINT a; ALTER EXTENSION shardfdw UPDATE; SELECT count(*) FROM t; ROLLBACK; SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'"), "100\n$old", 'an update is used by its own transaction');
($rc, $out, $err) = $c->psql('BEGIN; SAVEPOINT a; ALTER EXTENSION shardfdw UPDATE; SELECT count(*) FROM t; ROLLBACK TO a; SELECT count(*) FROM t');
like($err, $update, 'and no longer when it has been rolled back');
$before->query('BEGIN');
is($before->query('EXECUTE p'), '100', 'a transaction with the old library, before the update');
$c->safe_psql('ALTER EXTENSION shardfdw UPDATE');
is(installed(), $new, 'updated');
is($c->safe_psql('SELECT count(*) FROM t; SELECT shardfdw.made_up()'), "100\nmade up", 'and used');
my $reconnect = qr/ERROR:  extension "shardfdw" is version \Q$new\E in this database, but the library that this session has loaded is version \Q$old\E\nHINT:  Connect again, or restart the server/;
for my $sql ('EXECUTE p', 'ROLLBACK; EXECUTE p', 'EXECUTE one(5)', 'EXECUTE i(3)', 'SELECT count(*) FROM t', 'TRUNCATE r')
{
	$before->query($sql);
	like($before->{stderr}, $reconnect, "old library and new objects: $sql");
	$before->{stderr} = '';
}
is($before->query('SELECT count(*) FROM plain'), '0', 'other tables go on there');
$before->quit;
is($c->safe_psql('SELECT count(*), (SELECT count(*) FROM r) FROM t'), '100|1', 'nothing has been written meanwhile');

# ---------- preloaded by the server ----------

$coordinator->append_conf('postgresql.conf', "shared_preload_libraries = 'shardfdw'\n");
$coordinator->restart;
is($c->safe_psql('SELECT count(*) FROM t'), '100', 'preloaded');
my $newest = '99.10';    # after 99.0, and after 99.9
$package->begin('99.9', '');
my $script = "CREATE FUNCTION shardfdw.made_up_too() RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'shardfdw_made_up_too';\n";
append_to_file($package->tree . "/sql/shardfdw--99.9--$newest.sql", $script);
append_to_file($package->tree . '/sql/install/99_made_up.sql', $script);
append_to_file($package->tree . '/src/version.c', "PG_FUNCTION_INFO_V1(shardfdw_made_up_too);\nDatum shardfdw_made_up_too(PG_FUNCTION_ARGS) { PG_RETURN_TEXT_P(cstring_to_text(\"made up\")); }\n");
$package->edit('shardfdw.control', qr/^default_version = .*$/m, "default_version = '$newest'");
$package->install;
is(library(), $new, 'the server goes on with the library that it has loaded');
is($c->safe_psql('SELECT count(*) FROM t'), '100', 'which fits');
$c->psql_fails_like('ALTER EXTENSION shardfdw UPDATE', qr/cannot install version \Q$newest\E of extension "shardfdw" while the library that this session has loaded is version \Q$new\E/, 'no update before the restart');
$coordinator->restart;
is(library(), $newest, 'the new library after the restart');
all_uses_fail(qr/ERROR:  extension "shardfdw" is version \Q$new\E in this database, .* is version \Q$newest\E\nHINT:  Run: ALTER EXTENSION shardfdw UPDATE/, 'after the restart');
others_work('after the restart');
ok($coordinator->wait_for_log(qr/LOG:  extension "shardfdw" is version \Q$new\E in this database/), 'the recovery worker says so in the log');
$c->safe_psql("ALTER EXTENSION shardfdw UPDATE");
is($c->safe_psql('SELECT count(*) FROM t; SELECT shardfdw.made_up_too()'), "100\nmade up", 'updated and used');

# An older version can be asked for, and is not used
$c->safe_psql("CREATE DATABASE older");
is($coordinator->safe_psql('older', "CREATE EXTENSION shardfdw VERSION '$new'; SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'"), $new, 'an older version can be made');
($rc, $out, $err) = $coordinator->psql('older', 'SELECT * FROM shardfdw.recover_prepared_transactions()');
like($err, qr/Run: ALTER EXTENSION shardfdw UPDATE/, 'but is not used');
is($coordinator->safe_psql('older', "ALTER EXTENSION shardfdw UPDATE; SELECT shardfdw_internal.library_version()"), $newest, 'before its update');

# ---------- pg_upgrade to a server that has a newer package ----------

$package->begin('99.11', '');
$package->install;
my $upgraded = ShardServer->new('upgraded');
$upgraded->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$upgraded->append_conf('postgresql.conf', slurp_file($coordinator->data_dir . '/postgresql.conf') =~ s/^(port|unix_socket_directories) = .*$//gmr);
$coordinator->safe_psql('postgres', 'DROP DATABASE older');
$coordinator->stop;
my $bindir = $coordinator->config_data('--bindir');
my ($cwd, $dir) = (getcwd, PostgreSQL::Test::Utils::tempdir_short());
chdir $dir or die "$dir: $!";
command_ok([ 'pg_upgrade', '--no-sync', '-d', $coordinator->data_dir, '-D', $upgraded->data_dir, '-b', $bindir, '-B', $bindir, '-s', $dir, '-p', $coordinator->port, '-P', $upgraded->port ], 'pg_upgrade');
chdir $cwd;
$upgraded->start;
($rc, $out, $err) = $upgraded->psql('postgres', 'SELECT count(*) FROM t');
like($err, qr/is version \Q$newest\E in this database, .* is version 99\.11\nHINT:  Run: ALTER EXTENSION shardfdw UPDATE/, 'brings the old objects');
is($upgraded->safe_psql('postgres', 'ALTER EXTENSION shardfdw UPDATE; SELECT count(*) FROM t'), '100', 'which are updated afterwards');

done_testing();
