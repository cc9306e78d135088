# Tests the SQL of contrib in a database whose owner is hostile. Scripts run SQL with more rights
# than the owner of the database has, and the owner can set the search_path of their sessions. So
# each script must set search_path before it calls a function or an operator. Passwords must not be
# arguments of programs, nor in the environment of Ansible's tasks.

use strict;
use warnings;

use File::Find ();
use Monitoring;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

# ---------- all files that run SQL ----------

my @files;
my $wanted = sub { push @files, $_ if -f && !m{/try\w*(\.py)?$} };
File::Find::find({ no_chdir => 1, wanted => $wanted }, 'contrib');
my $nfound = 0;
for my $file (sort @files)
{
	my $text = slurp_file($file);
	# Comments and pages are not run. Exporters use the role of monitoring, and role.sql sets its
	# search_path.
	next if $file =~ /\.md$/ || $file =~ m{^contrib/monitoring/.*\.ya?ml$};
	$text =~ s/^\s*(#|--).*$//mg;
	for my $part ($file =~ m{/tasks/} ? split(/^- name: /m, $text) : $text)
	{
		my $name = $file . ($file =~ m{/tasks/} ? ': ' . ($part =~ /(.*)/)[0] : '');

		unlike($part, qr/(-v|--set=) *"?password=/, "$name: no password in an argument");
		unlike($part, qr/^  environment:/m, "$name: no environment") if $file =~ m{/tasks/};
		like($part, qr/^  no_log: true$/m, "$name: does not log the password")
		  if $file =~ m{/tasks/} && $part =~ /\{\{ shardfdw_password/;
		next unless $part =~ /\bpsql\b/ || $file =~ /\.sql$/;
		next unless $part =~ /^(.*?)\b(SELECT|CREATE|ALTER|GRANT) /s;
		my $before = $file =~ /report/ ? $text : $1;
		like($before, qr/SET search_path = pg_catalog\b/, "$name: sets search_path first");
		$nfound++;
	}
}
cmp_ok($nfound, '>=', 8, 'places with SQL');
for my $page (glob('docs/*.md contrib/*/*.md'))
{
	unlike(slurp_file($page), qr/psql\b.*-v password=/, "$page: no password in an argument");
}

# ---------- a hostile owner ----------

my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\n");
my $superuser = $c->safe_psql('SELECT current_user');

# Functions and operators that note who calls them.
my $spy = q{
CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE TABLE evil.spy (who text, what text); GRANT INSERT ON evil.spy TO PUBLIC;
CREATE FUNCTION evil.pg_is_in_recovery() RETURNS bool LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO evil.spy VALUES (current_user, 'pg_is_in_recovery');
	RETURN pg_catalog.pg_is_in_recovery(); END$$;
CREATE FUNCTION evil.current_database() RETURNS name LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO evil.spy VALUES (current_user, 'current_database');
	RETURN pg_catalog.current_database(); END$$;
CREATE FUNCTION evil.format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO evil.spy VALUES (current_user, 'format');
	RETURN pg_catalog.format($1, VARIADIC $2); END$$;
CREATE FUNCTION evil.eq(name, text) RETURNS bool LANGUAGE plpgsql AS $$BEGIN
	INSERT INTO evil.spy VALUES (current_user, '='); RETURN $1 OPERATOR(pg_catalog.=) $2; END$$;
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = text, FUNCTION = evil.eq);
ALTER DATABASE postgres SET search_path = evil, pg_catalog};
$c->safe_psql($spy);
$c->node_safe_psql($_, $spy) for 1, 2;
my $spied = q{SELECT pg_catalog.count(*), pg_catalog.string_agg(DISTINCT who || ': ' || what, ', ')
	FROM evil.spy};
is($c->safe_psql("SELECT format('%s', current_database()); $spied"),
	"postgres\n2|$superuser: current_database, $superuser: format",
	'the owner reaches sessions that do not set search_path');
$c->safe_psql('TRUNCATE evil.spy');

local $ENV{SHARDFDW_PASSWORD} = 'secret';
for my $i (1, 2)
{
	my ($rc, undef, $err) =
	  $c->node_psql($i, '', extra_params => [ '-f', 'contrib/monitoring/role_node.sql' ]);
	is($rc, 0, "role_node.sql, node $i") or diag $err;
	is($c->node_safe_psql($i, $spied), '0|', "it calls no functions of the owner, node $i");
}
for my $file ('contrib/monitoring/role.sql', 'contrib/patroni/role.sql')
{
	my ($rc, undef, $err) = $c->psql('', extra_params => [ '-v', "user=$superuser", '-f', $file ]);
	is($rc, 0, $file) or diag $err;
	is($c->safe_psql($spied), '0|', "$file calls no functions of the owner");
}
for my $node (1, 2)
{
	$c->safe_psql("ALTER USER MAPPING FOR $_ SERVER node$node OPTIONS (ADD password_required 'false')")
	  for 'shardfdw_monitor', 'shardfdw_failover';
}
my $conninfo = $c->coordinator->connstr('postgres') . ' user=shardfdw_failover';
my $callback = 'contrib/patroni/promote_coordinator';
command_ok([ $callback, '-d', $conninfo, 'on_role_change', 'primary', 'x' ], 'promote_coordinator');
is($c->safe_psql($spied), '0|', 'promote_coordinator calls no functions of the owner');
for my $query (Monitoring->new('contrib/monitoring')->queries)
{
	my ($rc, undef, $err) = $c->psql(
		"SET statement_timeout = 0; SET default_transaction_read_only = off; $query->{sql}",
		extra_params => [ '-U', 'shardfdw_monitor' ]);
	is($rc, 0, "query $query->{name}") or diag $err;
}
is($c->safe_psql($spied), '0|', 'queries of exporters call no functions of the owner');

# The SQL of Ansible's tasks, for a node that is there already.
$c->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER node1 OPTIONS (ADD password 'old')");
my $tasks = 'contrib/ansible/roles/shardfdw_node/tasks';
for my $file ("$tasks/add.yml", "$tasks/main.yml")
{
	my ($sql) = slurp_file($file) =~ /^    stdin: \|\n((?:      SET.*\n)(?:      .*\n)+)/m;
	$sql =~ s/^      //mg;
	$sql =~ s/'\{\{.*\}\}'/'it''s\\\\secret'/;
	my %set = (node => 'node1', host => 'h', port => 1, database => 'postgres',
		role => 'nodes_role', encoding => 'UTF8', locale => '');
	my @set = map { ('-v', "$_=$set{$_}") } sort keys %set;
	my ($rc, undef, $err) = $c->psql('', extra_params => [ @set, '-f', write_file($sql) ]);
	is($rc, 0, "the SQL of $file") or diag $err;
	is($c->safe_psql($spied), '0|', "$file calls no functions of the owner");
}
is($c->safe_psql(q{SELECT umoptions::text FROM pg_user_mappings
	WHERE srvname = 'node1' AND usename = current_user}),
	"{user=$superuser," . q("password=it's\\\\secret"}), 'quotes and backslashes of a password');

# write_file(text): the path of a file with the text.
sub write_file
{
	my ($text) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	append_to_file($path, $text);
	return $path;
}

{
	local $ENV{POSTGRES_USER} = $superuser;
	local $ENV{POSTGRES_DB} = 'postgres';
	local $ENV{POSTGRES_PASSWORD} = 'secret';
	local $ENV{PGHOST} = $c->coordinator->host;
	local $ENV{PGPORT} = $c->coordinator->port;
	local $ENV{SHARDFDW_NODES} = '';
	$c->safe_psql('SELECT shardfdw.remove_all_nodes(); DROP EXTENSION shardfdw');
	command_ok([ 'contrib/container/add_nodes.sh' ], 'add_nodes.sh');
	is($c->safe_psql($spied), '0|', 'add_nodes.sh calls no functions of the owner');
}

done_testing();
