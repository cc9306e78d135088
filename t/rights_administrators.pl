# Tests roles that watch and administer a cluster without being superusers: members of predefined
# roles of PostgreSQL, and roles to which the blocks of docs/security.md grant functions.

use strict;
use warnings;

use DocBlocks;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

# n3 is added later
my $c = ShardCluster->new(nodes => 3, host => 'tcp', preload => 1, add_nodes => 0,
	coordinator_conf => "shardfdw.recovery_interval = 0\n",
	node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
for my $i (1 .. 3)
{
	my ($host, $port) = $c->node_address($i);
	# nodes ask all roles but superusers for a password
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $file, '>', $hba or die "$hba: $!";
	print $file "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n$old";
	close $file;
	$c->node($i)->reload;
	$c->safe_psql("SELECT shardfdw.add_node('n$i', '$host', $port, 'postgres')") if $i < 3;
}

# as(role, SQL): output and error.
sub as
{
	my ($role, $sql) = @_;
	my ($out, $err) = ('', '');
	$c->coordinator->psql('postgres', $sql, stdout => \$out, stderr => \$err,
		extra_params => [ '-U', $role ]);
	return ($out, $err);
}

# works(role, SQL, what): there is no error.  Returns the output.
sub works
{
	my ($role, $sql, $what) = @_;
	my ($out, $err) = as($role, "SET client_min_messages = error; $sql");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($err, '', "$role: $what");
	return $out;
}

# fails(role, SQL, error)
sub fails
{
	my ($role, $sql, $error) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like((as($role, $sql))[1], qr/$error/, "$role: $sql");
	return;
}

$c->safe_psql(q{CREATE ROLE shop LOGIN; CREATE ROLE other LOGIN;
	CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE signaller LOGIN IN ROLE pg_signal_backend;
	GRANT CREATE ON SCHEMA public TO shop; GRANT CREATE ON DATABASE postgres TO shop;
	GRANT USAGE ON FOREIGN SERVER n1, n2 TO shop, watcher, other});
$c->safe_psql("SELECT shardfdw.add_user('$_', password => 'secret')") for 'shop', 'watcher', 'other';
$c->safe_psql('SELECT * FROM shardfdw.run_on_nodes($$GRANT CREATE ON SCHEMA public TO shop$$)');
works('shop', q{CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
	SELECT shardfdw.shard_table('t', shards => 4);
	CREATE TABLE d (id int PRIMARY KEY, v int);
	SELECT shardfdw.shard_table('d', shards => 2, replication_factor => 2)}, 'makes tables');
$c->safe_psql('CREATE TABLE hidden (id int PRIMARY KEY);
	SELECT shardfdw.shard_table($$hidden$$, shards => 2)');

# job(): starts a job of a role. It waits until the other session, which is returned, too, has ended.
sub job
{
	my ($role) = @_;
	my $to = $c->safe_psql(q{SELECT node FROM shardfdw.shards WHERE shard::text = 't_00'}) eq 'n1' ? 'n2' : 'n1';
	my $holder = $c->coordinator->background_psql('postgres');
	$holder->query_safe('BEGIN; UPDATE t SET v = v');
	my $sql = "SELECT shardfdw.move_shard('t_00', '$to', mode => 'block', wait => false)";
	my ($id) = as($role, $sql);
	$c->wait_for("SELECT waits_for IS NOT NULL FROM shardfdw.jobs WHERE id = $id");
	return ($id, $holder);
}

# ---- monitoring ------------------------------------------------------------------------------

my $file = $c->coordinator->data_dir . '/rows.csv';
append_to_file($file, "1000,1\n");
$c->safe_psql("COPY t FROM '$file' (FORMAT csv, RESUME 'nightly')");
$c->safe_psql(q{SET client_min_messages = error;
	CREATE SUBSCRIPTION s CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false);
	INSERT INTO shardfdw_internal.subscription (subid, failed_at, error)
		SELECT oid, now(), 'the reason' FROM pg_subscription});
my ($id, $holder) = job('postgres');
for my $view (split / /, $c->safe_psql(q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
	WHERE relkind = 'v' AND relnamespace = 'shardfdw'::regnamespace}))
{
	works('watcher', "SELECT * FROM shardfdw.$view", "reads $view");
}
my %hidden = (
	'what jobs wait for' => 'SELECT count(waits_for) FROM shardfdw.jobs',
	'loads of other roles' => 'SELECT count(*) FROM shardfdw.resumable_loads',
	'errors of subscriptions' => 'SELECT count(error) FROM shardfdw.subscriptions');
for my $what (sort keys %hidden)
{
	is(works('watcher', $hidden{$what}, $what), 1, "pg_monitor sees $what");
	is(works('other', $hidden{$what}, $what), 0, "other roles do not see $what");
}
works('watcher', 'SELECT * FROM shardfdw.check_cluster(); SELECT * FROM shardfdw.rebalance_plan()', 'checks and plans');
fails('watcher', 'SELECT * FROM t', 'permission denied for table t');
fails('watcher', "SELECT shardfdw.cancel_job($id)", 'must be a member of role "postgres"');

# ---- jobs of other roles -----------------------------------------------------------------------

fails('signaller', "SELECT shardfdw.cancel_job($id)", 'must be a member of role "postgres"');
is($c->safe_psql("SELECT shardfdw.cancel_job($id)"), 't', 'a superuser cancels it');
$c->wait_for("SELECT state = 'cancelled' FROM shardfdw.jobs WHERE id = $id");
$holder->quit;
$c->safe_psql('GRANT EXECUTE ON FUNCTION shardfdw.move_shard TO shop');
$c->safe_psql("SELECT * FROM shardfdw.run_on_nodes('GRANT CREATE ON DATABASE postgres TO shop')");
($id, $holder) = job('shop');
fails('other', "SELECT shardfdw.cancel_job($id)", 'must be a member of role "shop"');
is(works('signaller', "SELECT shardfdw.cancel_job($id)", 'cancels a job'), 't', 'pg_signal_backend cancels a job');
$c->wait_for("SELECT state = 'cancelled' FROM shardfdw.jobs WHERE id = $id");
$holder->quit;
$c->safe_psql('REVOKE EXECUTE ON FUNCTION shardfdw.move_shard FROM shop');

# a role keeps its jobs when it is renamed, and a new role with the old name does not get them
$c->safe_psql('ALTER ROLE shop RENAME TO renamed; ALTER ROLE other RENAME TO shop');
my $seen = "SELECT count(error) FROM shardfdw.jobs WHERE id = $id AND role = 'renamed'";
is(works('shop', $seen, 'asks for the job'), 0, 'the new role does not see the error of the job');
fails('shop', "SELECT shardfdw.cancel_job($id)", 'must be a member of role "renamed"');
is($c->safe_psql("SET ROLE renamed; $seen"), 1, 'the renamed role sees it');
$c->safe_psql('ALTER ROLE shop RENAME TO other; ALTER ROLE renamed RENAME TO shop');
is(works('watcher', "SELECT count(error) FROM shardfdw.jobs WHERE id = $id", 'errors of jobs'), 1, 'pg_monitor sees errors of jobs');
is(works('other', "SELECT count(error) FROM shardfdw.jobs WHERE id = $id", 'errors of jobs'), 0, 'other roles do not');

# ---- the blocks of the page --------------------------------------------------------------------

my @blocks = map { $_->{text} =~ s/'\.\.\.'/'secret'/gr =~ s/DATABASE app/DATABASE postgres/gr }
	grep { $_->{section} eq 'Roles that watch and administer' } doc_blocks('docs/security.md');
is(scalar @blocks, 3, 'blocks of docs/security.md');
works('postgres', $blocks[$_], 'runs block ' . ($_ + 1)) for 0, 2;

# A role that may move shards of an owner.
my ($shard, $from) = split /\|/, $c->safe_psql(q{SELECT shard, node FROM shardfdw.shards
	WHERE relation = 't'::regclass ORDER BY shard::text LIMIT 1});
my $to = $from eq 'n1' ? 'n2' : 'n1';
my ($primary, $replica) = split /\|/, $c->safe_psql(q{SELECT node, replica_nodes[1] FROM shardfdw.shards
	WHERE shard::text = 'd_00'});
works('mover', $_->[1], $_->[0]) for (
	[ 'moves a shard', "SELECT shardfdw.move_shard('$shard', '$to', mode => 'block')" ],
	[ 'splits a shard', "SELECT shardfdw.split_shard('$shard', mode => 'block')" ],
	[ 'changes the number', q{SELECT shardfdw.set_shard_count('t', 8, mode => 'block')} ],
	[ 'rebalances', q{SELECT shardfdw.rebalance(mode => 'block', strategy => 'count')} ],
	[ 'disables a node', "SELECT shardfdw.disable_node('n1')" ],
	[ 'enables it', "SELECT shardfdw.enable_node('n1')" ],
	[ 'confirms it', "SELECT shardfdw.confirm_node('n1')" ],
	[ 'compares replicas', q{SELECT * FROM shardfdw.compare_replicas('d')} ],
	[ 'resets counters', 'SELECT shardfdw.reset_stat_nodes()' ],
	[ 'checks the cluster', q{SELECT * FROM shardfdw.check_cluster('rows')} ]);
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '101|5051', 'all rows are there');
is($c->node_safe_psql($_, q{SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables WHERE tablename ~ '^[td]_\d'}), 'shop',
	"the shards on node $_ belong to the owner of the tables") for 1, 2;
my $server = q{CREATE SERVER trap FOREIGN DATA WRAPPER shardfdw OPTIONS (host 'elsewhere')};
fails('mover', @$_) for (
	[ q{SELECT shardfdw.add_node('trap', 'elsewhere')}, 'permission denied for function add_node' ],
	[ $server, 'permission denied for foreign-data wrapper' ],
	[ q{ALTER SERVER n1 OPTIONS (SET host 'elsewhere')}, 'must be owner of foreign server n1' ],
	[ 'GRANT USAGE ON FOREIGN SERVER n1 TO PUBLIC', 'no privileges were granted' ],
	[ q{SELECT shardfdw.drain_node('n1')}, 'permission denied for function drain_node' ],
	[ q{SELECT shardfdw.add_user('other', password => 'x')}, 'permission denied for function add_user' ],
	[ q{SELECT shardfdw.promote_coordinator()}, 'permission denied for function promote_coordinator' ],
	[ 'SELECT * FROM hidden', 'permission denied for table hidden' ],
	[ q{SELECT * FROM shardfdw.query_nodes('{n1}', ARRAY[
		$$SELECT pg_create_logical_replication_slot('spy', 'test_decoding')$$], 'autocommit')},
		'permission denied to use replication slots|must be superuser or replication role' ],
	[ q{SELECT shardfdw.move_shard('hidden_00', 'n1')}, 'must be owner of table hidden' ],
	[ 'SELECT * FROM shardfdw_internal.commit_log', 'permission denied for table commit_log' ],
	[ q{COPY (SELECT 1) TO PROGRAM 'true'}, 'permission denied|must be superuser' ]);
is(works('mover', q{SELECT count(*) FROM pg_user_mappings WHERE umoptions::text ~ 'password'
	AND usename <> current_user}, 'reads user mappings'), 0, 'it sees no password of another role');

# With the second block it may move shards online.
($shard, $from) = split /\|/, $c->safe_psql(q{SELECT shard, node FROM shardfdw.shards
	WHERE relation = 't'::regclass ORDER BY shard::text LIMIT 1});
$to = $from eq 'n1' ? 'n2' : 'n1';
my $online = "SELECT shardfdw.move_shard('$shard', '$to')";
fails('mover', $online, 'role "mover" may not replicate');
works('postgres', $blocks[1], 'runs block 2');
works('mover', $online, 'moves a shard online');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '101|5051', 'all rows are there');

# A role that may add nodes and users.
my ($host, $port) = $c->node_address(3);
$c->safe_psql('CREATE ROLE late LOGIN');
for my $node (1 .. 3)
{
	$c->node_safe_psql($node, q{CREATE ROLE node_admin LOGIN CREATEROLE PASSWORD 'secret'; GRANT CREATE ON DATABASE postgres TO node_admin});
}
$c->safe_psql("CREATE USER MAPPING FOR node_admin SERVER n$_ OPTIONS (user 'node_admin', password 'secret')") for 1, 2;
works('node_admin', "SELECT shardfdw.add_node('n3', '$host', $port, 'postgres', password => 'secret')", 'adds a node');
works('node_admin', q{SELECT shardfdw.add_user('late', password => 'secret')}, 'adds a user');
works('node_admin', q{SELECT shardfdw.drain_node('n3', mode => 'block')}, 'drains a node');
works('node_admin', q{SELECT shardfdw.drain_node('n3', undo => true)}, 'takes that back');
works('node_admin', q{SELECT shardfdw.refresh_node('n3')}, 'brings a node up to date');
is(works('node_admin', q{SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SELECT 1')}, 'runs a command'), 't', 'on all nodes');
works('node_admin', q{SELECT shardfdw.remove_node('n3')}, 'removes a node');
fails('node_admin', @$_) for (
	[ 'SELECT * FROM t', 'permission denied for table t' ],
	[ q{ALTER USER MAPPING FOR postgres SERVER n1 OPTIONS (ADD password_required 'false')}, 'superuser' ],
	[ q{ALTER SERVER n1 OPTIONS (ADD passfile '/etc/passwd')}, 'superuser-only' ],
	[ 'ALTER ROLE node_admin SUPERUSER', 'must be superuser|permission denied' ]);

# ---- the roles do not prevent that the extension is removed ------------------------------------

$c->safe_psql($_) for 'ALTER SUBSCRIPTION s DISABLE', 'ALTER SUBSCRIPTION s SET (slot_name = NONE)',
	'DROP SUBSCRIPTION s', 'SELECT shardfdw.remove_all_nodes(drop_tables => true)';
$c->safe_psql('DROP EXTENSION shardfdw');
$c->safe_psql("DROP OWNED BY $_; DROP ROLE $_") for 'mover', 'node_admin', 'watcher', 'signaller';
pass('the extension and the roles are gone');

done_testing();
