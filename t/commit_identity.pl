# Tests the identity of the coordinator, the identity of its nodes, and the commit log. Scenes: a
# clone runs next to production; an address points to another server; a node is restored to an
# earlier moment; the coordinator has forgotten decisions. Nothing may be committed or rolled back
# on or by the wrong server.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(
	nodes            => 2,
	preload          => 1,
	coordinator_conf => "shardfdw.recovery_interval = 0\nwal_level = replica\nmax_wal_senders = 4\n",
	node_conf        => "wal_level = replica\nmax_wal_senders = 4\nwal_keep_size = 64MB\n");
plan skip_all => 'built without fault points' unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $production = $c->coordinator;
my $prepared = q{SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'};

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');

sub prepared
{
	return join ' ', map { $c->node_safe_psql($_, $prepared) } 1 .. 2;
}

# Rows of recover_prepared_transactions(), except the rows that report a commit or a rollback.
# Numbers are replaced by X.
sub reports
{
	my (%opt) = @_;
	my $dry_run = $opt{dry_run} ? 'true' : 'false';
	return $c->safe_psql(qq{SELECT node, regexp_replace(regexp_replace(action, '"[0-9a-f]{16}"', '"I"', 'g'), '\\d{2,}', 'X', 'g') FROM shardfdw.recover_prepared_transactions($dry_run)
		WHERE action NOT IN ('committed', 'rolled back') ORDER BY 1, 2});
}

# A transaction over both nodes that waits at a fault point.
sub stop_at
{
	my ($point, $sql) = @_;
	append_to_file($production->data_dir . "/shardfdw_fault_$point", '');
	my $writer = $c->start_sql("SET shardfdw.fault_points = '$point=wait'; $sql", name => 'writer');
	$c->wait_for("SELECT count(*) >= 1 FROM pg_prepared_xacts WHERE gid LIKE 'shardfdw%'", $_) for 1, 2;
	return $writer;
}

sub go_on
{
	my ($point, $writer) = @_;
	unlink $production->data_dir . "/shardfdw_fault_$point";
	return $c->wait_sql($writer);
}

sub wait_for_line
{
	my ($server, $pattern) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if slurp_file($server->logfile) =~ $pattern;
		usleep(100_000);
	}
	die "waited in vain for $pattern";
}

# ---------- identity ----------

my ($identity, $confirmed) = split /\|/, $c->safe_psql('SELECT identity, confirmed FROM shardfdw_internal.coordinator_identity()');
like($identity, qr/^[0-9a-f]{16}$/, 'an identity');
is($confirmed, 't', 'confirmed');
is($c->safe_psql('SELECT count(*), min(identity) FROM shardfdw_internal.coordinator'), "1|$identity", 'it is stored');
my $noted = q{SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname LIKE 'coordinator\_%' AND relnamespace = 'shardfdw_internal'::regnamespace};
is($c->node_safe_psql($_, $noted), $identity, "noted on node $_") for 1, 2;
my $writer = stop_at('prepared', 'UPDATE t SET v = 1 WHERE id <= 50');
like($c->node_safe_psql(1, 'SELECT gid FROM pg_prepared_xacts'), qr/^shardfdw:\d+:\d+:$identity:\d{16}:\d+:\d+$/, 'it stands in the identifiers');
is(($c->safe_psql('SELECT state FROM shardfdw_internal.list_prepared() GROUP BY state')), 'in progress', 'what runs is left alone');
is((go_on('prepared', $writer))[0], 0, 'and commits');
$production->restart;
is($c->safe_psql('SELECT identity, confirmed FROM shardfdw_internal.coordinator_identity()'), "$identity|t", 'a restart changes nothing');

# roles that may not read the system identifiers of nodes
$c->node_safe_psql($_, q{CREATE ROLE plain LOGIN; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
	DO $$ DECLARE r record; BEGIN FOR r IN SELECT oid::regclass AS t FROM pg_class WHERE relname ~ '^t_' AND relkind = 'r' LOOP EXECUTE format('GRANT ALL ON %s TO plain', r.t); END LOOP; END $$}) for 1, 2;
$c->safe_psql('CREATE ROLE plain LOGIN; GRANT ALL ON t TO plain');
$c->safe_psql("CREATE USER MAPPING FOR plain SERVER node$_ OPTIONS (user 'plain', password_required 'false')") for 1, 2;
is($c->safe_psql('UPDATE t SET v = v; SELECT sum(v) FROM t; SELECT * FROM shardfdw.recover_prepared_transactions()', extra_params => [ '-U', 'plain' ]), '50', 'they write to several nodes, and recover');
is($c->safe_psql('SELECT system_identifiers, databases, settled_at IS NOT NULL FROM shardfdw_internal.commit_log ORDER BY xid DESC LIMIT 1'), '{0,0}|{postgres,postgres}|t', 'without that');
$c->node_safe_psql($_, 'GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC') for 1, 2;

# another database of the same server is another coordinator, even if it is a copy
$c->safe_psql('CREATE DATABASE copy TEMPLATE postgres');
my ($second) = split /\|/, $production->safe_psql('copy', 'SELECT shardfdw_internal.store_identity(); SELECT identity FROM shardfdw_internal.coordinator_identity()') =~ s/^\n//r;
like($second, qr/^[0-9a-f]{16}$/, 'a copy of the database');
isnt($second, $identity, 'has an identity of its own');
is($production->safe_psql('copy', 'SELECT sum(v) FROM t; UPDATE t SET v = v; SELECT sum(v) FROM t'), "50\n50", 'and is at work');
$writer = stop_at('prepared', 'UPDATE t SET v = 1 WHERE id <= 50');
is($production->safe_psql('copy', 'SELECT count(*) FROM shardfdw.recover_prepared_transactions(); SELECT count(*) FROM shardfdw_internal.list_prepared()'), "0\n0", 'it does not touch what the first one has prepared');
is((go_on('prepared', $writer))[0], 0, 'which commits');
like(($production->psql('copy', 'BEGIN; SELECT shardfdw.promote_coordinator($$complete$$); SELECT * FROM shardfdw.recover_prepared_transactions()'))[2],
	qr/cannot resolve prepared transactions in the transaction that has called promote_coordinator\(\)/, 'nor does it settle by a take-over that may be rolled back');
like(($production->psql('copy', q{\set ON_ERROR_STOP off
	BEGIN; SELECT shardfdw.promote_coordinator('complete'); SAVEPOINT s; SELECT shardfdw.resolve_transaction('nonsense', 'rollback'); ROLLBACK TO s; SELECT * FROM shardfdw.recover_prepared_transactions()}))[2],
	qr/cannot resolve prepared transactions in the transaction/, 'whatever has been rolled back of it');
like(($production->psql('copy', 'SELECT shardfdw.promote_coordinator(NULL)'))[2], qr/commits "" is not known/, 'null');
like(($production->psql('copy', "SELECT shardfdw.resolve_transaction(NULL, 'forget')"))[2], qr/gid and action must not be null/, 'null');
$production->safe_psql('copy', 'SELECT shardfdw.promote_coordinator($$complete$$)');
is($production->safe_psql('copy', "SELECT taken_over_at IS NULL, all_commits_received FROM shardfdw_internal.coordinator WHERE identity = '$identity'"), 't|f', 'it does not take the first one over, which is there');
is($production->safe_psql('copy', "SELECT count(*) FROM shardfdw_internal.coordinator WHERE identity = '$second' AND taken_over_at IS NOT NULL"), 1, 'but what it was itself');
my $note = $production->safe_psql('copy', 'SELECT note_name FROM shardfdw_internal.coordinator_identity()');
$c->node_safe_psql($_, "DROP TABLE shardfdw_internal.$note") for 1, 2;
$c->safe_psql('DROP DATABASE copy');

# ---------- a session that sends notifications ----------

append_to_file($production->data_dir . '/shardfdw_fault_committed', '');
$writer = $c->start_sql(q{SET shardfdw.fault_points = 'committed=wait'; BEGIN; UPDATE t SET v = 3 WHERE id <= 50; NOTIFY x; COMMIT}, name => 'notifier');
$c->wait_for('SELECT count(*) = 50 FROM t WHERE v = 3');
is(($c->psql(q{SET lock_timeout = '60s'; NOTIFY x}))[2], '', 'who notifies does not wait for what another one still does with nodes');
is((go_on('committed', $writer))[0], 0, 'which commits');
append_to_file($production->data_dir . '/shardfdw_fault_committed', '');
$writer = $c->start_sql(q{SET shardfdw.fault_points = 'committed=wait'; DO $$BEGIN UPDATE t SET v = 4 WHERE id <= 50; NOTIFY x; COMMIT; END$$}, name => 'notifier2');
$c->wait_for('SELECT count(*) = 50 FROM t WHERE v = 4');
is(($c->psql(q{SET lock_timeout = '60s'; NOTIFY x}))[2], '', 'nor where a block has committed');
is((go_on('committed', $writer))[2], '', 'without a warning');
$c->safe_psql('UPDATE t SET v = 1 WHERE id <= 50');

# ---------- a node has not received the commit ----------

$writer = stop_at('commit', 'UPDATE t SET v = 2 WHERE id <= 50');
is($c->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()'), '0', 'recovery leaves what its session is still at');
is(prepared(), '1 1', 'also when it has committed');
$c->node_safe_psql(2, "ROLLBACK PREPARED '" . $c->node_safe_psql(2, 'SELECT gid FROM pg_prepared_xacts') . "'");
my ($rc, undef, $err) = go_on('commit', $writer);
is($rc, 0, 'somebody rolls a committed transaction back on a node: the commit stands');
like($err, qr/WARNING:  the transaction is committed, but node "node2" does not know it/, 'and says that the node does not know it');
$c->safe_psql('UPDATE t SET v = 2 WHERE id <= 50');
is(reports(), '', 'nothing is left to settle');
is($c->safe_psql(ShardCluster::unsettled()), '0', 'nor in the log');

# ---------- another session has locked the log ----------

my $leaving = $c->coordinator->background_psql('postgres', on_error_stop => 0);
my $pid = $leaving->query_safe('UPDATE t SET v = v WHERE id <= 50; SELECT pg_backend_pid()');
my $locker = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$locker->query_safe('BEGIN; LOCK TABLE shardfdw_internal.commit_log');
$leaving->quit;
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
pass('a session that ends does not wait for it');
$locker->query_safe('ROLLBACK');
$locker->quit;
is(reports(), '', 'recovery settles what it has left');

# ---------- a clone runs next to production ----------

# Production is at work all the time: each transaction moves something between rows of both nodes.
my @clients = map { $c->start_sql(qq{DO \$\$ BEGIN FOR i IN 1 .. 100000 LOOP EXIT WHEN NOT pg_stat_file('stop', true) IS NULL;
	UPDATE t SET v = v + CASE WHEN id = $_ THEN 1 ELSE -1 END WHERE id IN ($_, $_ + 10, $_ + 20, $_ + 30); UPDATE t SET v = v + CASE WHEN id = $_ THEN 2 ELSE 0 END WHERE id IN ($_, $_ + 10); COMMIT; END LOOP; END \$\$}, name => "client$_") } 1 .. 4;
my $commits = 'SELECT count(*) FROM shardfdw_internal.commit_log';
$c->wait_for("SELECT ($commits) > 20");
$production->backup('clone');
my $clone = ShardServer->new('clone');
$clone->init_from_backup($production, 'clone');
$clone->append_conf('postgresql.conf', "shardfdw.recovery_interval = 1\n");
my $mark = $c->safe_psql($commits);
$clone->start;
for (1 .. 20)
{
	like($clone->safe_psql('postgres', 'SELECT action FROM shardfdw.recover_prepared_transactions()'), qr/^not confirmed: The identity "$identity"/, 'the clone settles nothing') if $_ == 1;
	$clone->safe_psql('postgres', 'SELECT shardfdw.recover_prepared_transactions()');
}
my ($found, undef, $refusal) = $clone->psql('postgres', "\\set VERBOSITY verbose\nUPDATE t SET v = v + 0 WHERE id > 90", on_error_stop => 1);
is($clone->safe_psql('postgres', q{SELECT node, status, detail FROM shardfdw.check_cluster() WHERE check_name = 'coordinator'}),
	"|error|this server is a copy of coordinator $identity: promote_coordinator() has it take that one's place", 'check_cluster says so');
like($refusal, qr/55000: this server is not confirmed as the coordinator, and cannot change nodes.*promote_coordinator/s, 'nor does it write through two phases');
is($clone->safe_psql('postgres', "SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t"), '100', 'it reads');
like(($clone->psql('postgres', 'UPDATE t SET v = v + 0 WHERE id = 99'))[2], qr/cannot change nodes/, 'and writes to no node');
wait_for_line($clone, qr/^\S+ \S+ UTC \[\d+\] WARNING:  this server is not confirmed as the coordinator, and resolves no prepared transactions/m);
$c->wait_for("SELECT ($commits) > $mark + 100");
append_to_file($production->data_dir . '/stop', '');
for my $client (@clients)
{
	($rc, undef, $err) = $c->wait_sql($client);
	is($rc, 0, 'production commits all the time') || diag $err;
	is($err, '', 'without a word');
}
is($c->safe_psql('SELECT sum(v) FROM t'), '100', 'nothing is torn');
is(prepared(), '0 0', 'nothing stays prepared');

# The clone is promoted. Production detects that, and is refused, also in existing sessions.
$writer = stop_at('prepared', 'UPDATE t SET v = v + 0 WHERE id <= 50');
kill 'KILL', $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'writer'");
unlink $production->data_dir . '/shardfdw_fault_prepared';
$c->wait_sql($writer);
$c->wait_for_restart;
my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$session->query_safe('UPDATE t SET v = v + 0 WHERE id > 60');
my @lingering = map { $c->node_safe_psql($_, q{SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%' LIMIT 1}) } 1, 2;
kill 'STOP', @lingering;
my $taking_over = do { local $c->{coordinator} = $clone; $c->start_sql('SELECT shardfdw.promote_coordinator()') };
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'BackendTermination'}, $_) for 1, 2;
like(($c->psql('UPDATE t SET v = v + 0 WHERE id > 60', on_error_stop => 1))[2], qr/node "node[12]" has been taken over by another coordinator/, 'production is refused while its sessions are still being ended');
kill 'CONT', @lingering;
my (undef, $successor) = $c->wait_sql($taking_over);
isnt($successor, $identity, 'the clone takes over');
is($c->node_safe_psql($_, $noted), $successor, "node $_ knows") for 1, 2;
$session->query('UPDATE t SET v = v + 0 WHERE id > 60');
like($session->{stderr}, qr/node "node[12]" has been taken over by another coordinator.*"$identity".*"$successor".*promote_coordinator/s, 'production is refused');
$session->quit;
is(reports(), "node1|left alone: it has been taken over by coordinator \"I\", this one is \"I\"\nnode2|left alone: it has been taken over by coordinator \"I\", this one is \"I\"", 'and settles nothing');
is($c->safe_psql(q{SELECT node, status, detail FROM shardfdw.check_cluster() WHERE check_name = 'coordinator'}),
	join("\n", map { "node$_|error|coordinator $successor is noted there, this one is $identity" } 1, 2), 'check_cluster says so');
is(prepared(), '1 1', 'what it had prepared');
like($clone->safe_psql('postgres', 'SELECT DISTINCT state FROM shardfdw_internal.list_prepared()'), qr/^left alone: predecessor "$identity" may have committed it/, 'is nothing that the successor presumes to know');
is($clone->safe_psql('postgres', 'UPDATE t SET v = v + 0 WHERE id > 60; SELECT count(*) FROM t'), '100', 'which writes');

# and back
my $third = $c->safe_psql('SELECT shardfdw.promote_coordinator($$complete$$)');
is($c->safe_psql('SELECT DISTINCT action FROM shardfdw.recover_prepared_transactions()'), 'rolled back', 'production takes over again, and settles what it had prepared');
is($c->safe_psql('UPDATE t SET v = v + 0; SELECT count(*) FROM shardfdw_internal.coordinator'), '2', 'and writes');
like(($clone->psql('postgres', 'UPDATE t SET v = v + 0'))[2], qr/has been taken over by another coordinator/, 'the clone is refused');
$clone->stop('immediate');

# An unknown identity, as after a restore of the coordinator to a moment before
# promote_coordinator().
my $unknown = $c->gid_prefix =~ s/$third/0123456789abcdef/r;
$c->node_safe_psql(1, "BEGIN; CREATE TABLE x (); PREPARE TRANSACTION '${unknown}1:65537'");
$mark = $c->log_position;
is(reports(), 'node1|left alone: identity "I" is not this coordinator\'s, and has not been taken over', 'an unknown identity is left alone');
like($c->log_since($mark), qr/WARNING:  prepared transaction "${unknown}1:65537" on node "node1" is left alone/, 'with a warning in the log');
$c->node_safe_psql(1, "ROLLBACK PREPARED '${unknown}1:65537'");

# ---------- an address that points to another server ----------

sub lead
{
	my ($server) = @_;
	$c->safe_psql(sprintf q{ALTER SERVER node2 OPTIONS (SET host '%s', SET port '%d', SET dbname '%s')}, $server->host, $server->port, $_[1] // 'postgres');
	return;
}

# A transaction that has committed on the coordinator and on node 1, but not on node 2, which
# crashes.
sub commit_half
{
	my ($value) = @_;
	my $writer = stop_at('commit', "UPDATE t SET v = $value");
	$c->kill9_node(2);
	($rc, undef, $err) = go_on('commit', $writer);
	like($err, qr/is committed, but node "node2" has not confirmed it/, 'a node dies before it commits');
	return;
}

# The other server: a copy of node 2 with another system identifier, and a standby of it.
my $node2 = $c->node(2);
my $standby = ShardServer->standby_of('standby', $node2);
my $other = ShardServer->new('other');
$other->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$other->append_conf('postgresql.conf', "max_prepared_transactions = 10\n");
$other->start;
$node2->safe_psql('postgres', 'CREATE DATABASE elsewhere');

commit_half(10);
lead($other);
my $report = qr/^node2\|another server: transaction X was prepared by server X, database "postgres", this is server X, database "postgres"$/;
$mark = $c->log_position;
like(reports(dry_run => 1), $report, 'a dry run says that another server answers');
like(reports(), $report, 'recovery says so');
like(reports(), $report, 'each time');
like($c->log_since($mark), qr/WARNING:  node "node2" is another server than before/, 'in the log, too');
lead($standby);
like(reports(), qr/, a standby$/, 'a standby of the node is not the node');
$c->start_node(2);
lead($node2, 'elsewhere');
like(reports(), qr/this is server X, database "elsewhere"$/, 'nor is another database');
is($c->node_safe_psql(2, $prepared), '1', 'it is there still');
lead($node2);
is($c->safe_psql('SELECT action FROM shardfdw.recover_prepared_transactions(true)'), 'would commit', 'a dry run shows what would be done');
is($c->node_safe_psql(2, $prepared), '1', 'and does nothing');
$mark = $c->log_position;
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()'), 'node2|committed', 'and is committed when the address is right again');
like($c->log_since($mark), qr/LOG:  committed prepared transaction "shardfdw:\S+" on node "node2"/, 'which is logged');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '10', 'nothing is torn');
is(reports(), '', 'nothing is left to report');

# a node that is lost permanently
commit_half(11);
lead($other);
like(reports(), $report, 'the node has been replaced');
is($c->safe_psql("SELECT shardfdw.resolve_transaction(xid::text, 'forget') FROM shardfdw_internal.commit_log u WHERE settled_at IS NULL ORDER BY xid DESC LIMIT 1"), 't', 'the administrator knows');
is($c->safe_psql("SELECT shardfdw.resolve_transaction('1', 'forget')"), 'f', 'of others there is nothing to forget');
is(reports(), '', 'and recovery is quiet');
$c->start_node(2);
lead($node2);
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()'), 'node2|committed', 'should it come back, it commits');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '11', 'nothing is torn');

# a node that has been removed
commit_half(12);
$c->safe_psql('ALTER SERVER node2 RENAME TO renamed');
$c->start_node(2);
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()'), 'renamed|committed', 'another name is the same node');
$c->safe_psql('ALTER SERVER renamed RENAME TO node2');

# ---------- a node that is restored to an earlier state ----------

# Restored to between PREPARE and COMMIT PREPARED: the decision is remembered.
$node2->backup('before');
$writer = stop_at('prepared', 'UPDATE t SET v = 20');
$node2->safe_psql('postgres', q{SELECT pg_create_restore_point('between')});
is((go_on('prepared', $writer))[0], 0, 'it commits');
$c->safe_psql('UPDATE t SET v = v + 0 WHERE id <= 20; UPDATE t SET v = v + 0 WHERE id <= 20');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '20', 'everywhere');
is(reports(), '', 'recovery has nothing to do');
my $archive = $node2->data_dir . '/pg_wal';
$node2->safe_psql('postgres', 'SELECT pg_switch_wal()');
$node2->stop;
my $restored = ShardServer->new('restored');
$restored->init_from_backup($node2, 'before');
$restored->append_conf('postgresql.conf', "restore_command = 'cp $archive/%f %p'\nrecovery_target_name = 'between'\nrecovery_target_action = promote\n");
$restored->set_recovery_mode;
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'the node is not restored';
$c->{nodes}[1] = $restored;
lead($restored);
is($restored->safe_psql('postgres', $prepared), '1', 'a node that was restored to a moment before has it prepared again');
is($c->safe_psql('SELECT count(DISTINCT v) FROM t'), '2', 'and shows half of it');
is($c->safe_psql('SELECT node, state FROM shardfdw_internal.list_prepared()'), 'node2|committed', 'that it has committed is known');
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()'), 'node2|committed', 'recovery commits it');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '20', 'nothing is undone');

# ---------- deleted rows of the log ----------

# The identifier of a transaction whose row has been deleted, once more prepared.
my $gid;
$writer = stop_at('prepared', 'UPDATE t SET v = 21');
$gid = $restored->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
is((go_on('prepared', $writer))[0], 0, 'it commits');
my ($xid) = $gid =~ /:(\d+):\d+$/;
$c->safe_psql('UPDATE t SET v = 21 WHERE id <= 20; UPDATE t SET v = 21 WHERE id <= 20');
is($c->safe_psql("SELECT count(*) FROM shardfdw_internal.commit_log WHERE xid = '$xid'"), '1', 'its row is kept');
is($c->safe_psql('SELECT forgotten_until FROM shardfdw_internal.coordinator WHERE taken_over_at IS NULL'), '-infinity', 'nothing has been forgotten');
$c->safe_psql('ALTER SYSTEM SET shardfdw.commit_log_max_rows = 3');
$c->safe_psql('SELECT pg_reload_conf()');
$c->wait_for(q{SELECT setting = '3' FROM pg_settings WHERE name = 'shardfdw.commit_log_max_rows'});
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql($commits), '3', 'as many rows as the setting says');
$c->safe_psql('ALTER SYSTEM SET shardfdw.commit_log_max_rows = 100');
$c->safe_psql('ALTER SYSTEM SET shardfdw.commit_log_max_age = 0');
$c->safe_psql('SELECT pg_reload_conf()');
$c->wait_for(q{SELECT setting = '0' FROM pg_settings WHERE name = 'shardfdw.commit_log_max_age'});
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql($commits), '0', 'none that is older than the setting says');
# remains of a deleted row would reveal it
$c->safe_psql('VACUUM shardfdw_internal.commit_log');
$restored->safe_psql('postgres', "BEGIN; CREATE TABLE again (); PREPARE TRANSACTION '$gid'");
like(reports(), qr/^node2\|left alone: it was prepared at .*, and the commit log remembers commits after .* only$/, 'what may have been forgotten is left alone');
is($restored->safe_psql('postgres', $prepared), '1', 'indeed');
like($c->safe_psql('SELECT state FROM shardfdw.prepared_transactions'), qr/^left alone: it was prepared at/, 'and shown');
$restored->safe_psql('postgres', "ROLLBACK PREPARED '$gid'");

# After that time no row was deleted: a transaction that crashed before its decision is rolled back.
$writer = stop_at('prepared', 'UPDATE t SET v = 22');
kill 'KILL', $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'writer'");
unlink $production->data_dir . '/shardfdw_fault_prepared';
$c->wait_sql($writer);
$c->wait_for_restart;
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions() ORDER BY node'), "node1|rolled back\nnode2|rolled back", 'what never committed is rolled back');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '21', 'on both nodes');

# The row of a commit that a node has not confirmed stays, whatever the settings are.
$writer = stop_at('commit', 'UPDATE t SET v = 23');
$restored->stop('immediate');
go_on('commit', $writer);
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()') for 1 .. 2;
is($c->safe_psql($commits), '1', 'what a node has not confirmed stays in the log');
$restored->start;
is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()'), 'node2|committed', 'until it has');
$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
is($c->safe_psql($commits), '0', 'then it goes');
is($c->safe_psql('SELECT DISTINCT v FROM t'), '23', 'nothing is torn');

# ---------- sessions that have connected to nodes before a take-over ----------
# The nodes have noted another identity, as after a dump was restored into a new database.

{
	my $note = $c->safe_psql('SELECT note_name FROM shardfdw_internal.coordinator_identity()');
	$c->node_safe_psql($_, "COMMENT ON TABLE shardfdw_internal.$note IS '0123456789abcdef'") for 1, 2;
	my $before = $c->coordinator->background_psql('postgres');
	$before->query_safe('SELECT count(*) FROM t');
	like(($c->psql('UPDATE t SET v = 24'))[2], qr/has been taken over by another coordinator.*"0123456789abcdef"/s, 'an identity that is not known');
	is($c->safe_psql('SELECT shardfdw.promote_coordinator() IS NOT NULL; UPDATE t SET v = 25; SELECT DISTINCT v FROM t'), "t\n25", 'a session that takes over writes');
	$before->query_safe('UPDATE t SET v = 26');
	$before->quit;
	is($c->safe_psql('SELECT DISTINCT v FROM t'), '26', 'and one that had connected before');
}

# ---------- take-overs that do not commit ----------
# The nodes are informed by the commit only.

{
	my $note = $c->safe_psql('SELECT note_name FROM shardfdw_internal.coordinator_identity()');
	my $own = sub { $c->safe_psql('SELECT identity FROM shardfdw_internal.coordinator_identity()') };
	my $before = $own->();
	my $works = sub {
		my ($name, $expected) = @_;
		is($own->(), $expected, "$name: identity");
		is($c->node_safe_psql($_, "SELECT obj_description('shardfdw_internal.$note'::regclass)"),
			$expected, "$name: node $_") for 1, 2;
		is(($c->psql('UPDATE t SET v = 27'))[2], '', "$name: it writes to several nodes");
	};
	for (
		[ 'ROLLBACK', 'BEGIN; SELECT shardfdw.promote_coordinator(); ROLLBACK' ],
		[ 'a savepoint', 'BEGIN; SAVEPOINT s; SELECT shardfdw.promote_coordinator();
			ROLLBACK TO s; COMMIT' ],
		[ 'an error of the statement', 'SELECT shardfdw.promote_coordinator(), 1/0' ],
		[ 'an error at commit', "SET shardfdw.fault_points = 'take_over=error';
			SELECT shardfdw.promote_coordinator()" ],
		[ 'PREPARE TRANSACTION', "BEGIN; SELECT shardfdw.promote_coordinator();
			PREPARE TRANSACTION 'promoting'" ],
		[ 'nodes used', 'BEGIN; UPDATE t SET v = 28; SELECT shardfdw.promote_coordinator()' ])
	{
		my ($name, $sql) = @$_;
		my (undef, undef, $err) = $c->psql("LOAD 'shardfdw'; $sql", on_error_stop => 1);
		$works->($name, $before);
		like($err, qr/cannot PREPARE a transaction that has called promote_coordinator/, $name)
		  if $name =~ /PREPARE/;
		like($err, qr/cannot call promote_coordinator\(\) in a transaction that has used nodes/, $name)
		  if $name =~ /nodes/;
	}
	# a crash before the nodes are informed
	$c->psql("LOAD 'shardfdw'; SET shardfdw.fault_points = 'take_over=abort';
		SELECT shardfdw.promote_coordinator()");
	$c->wait_for_restart;
	$works->('a crash', $before);
	# only the last identity counts
	$c->safe_psql('BEGIN; SELECT shardfdw.promote_coordinator(); SAVEPOINT s;
		SELECT shardfdw.promote_coordinator(); ROLLBACK TO s;
		SELECT shardfdw.promote_coordinator(); COMMIT');
	isnt($own->(), $before, 'a take-over that commits');
	$works->('several calls', $own->());
}

# ---------- dumps ----------

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
command_ok([ 'pg_dump', '-d', $production->connstr('postgres'), '-f', $dump ], 'a dump');
unlike(slurp_file($dump), qr/$third|$identity/, 'has no identity');

done_testing();
