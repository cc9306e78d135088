# Subscriptions with sharded tables. Tests the copies, the changes, the publisher's transactions,
# statements on the tables, and errors. All servers crash while clients write to the publisher.
# MOVE_SECONDS is how many seconds these clients write (12 by default).

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1, coordinator_conf => "wal_level = replica\nmax_replication_slots = 10\nmax_worker_processes = 16\nshardfdw.recovery_interval = 1s\n");
my $publisher = ShardServer->new('publisher');
$publisher->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$publisher->append_conf('postgresql.conf', "wal_level = logical\nfsync = off\nautovacuum = off\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_connections = 50\n");
$publisher->start;
my $conninfo = $publisher->connstr('postgres') =~ s/'/''/gr;

sub there { return $publisher->safe_psql('postgres', $_[0]); }

sub error_of { my (undef, undef, $err) = $c->psql($_[0]); return join "\n", grep { /ERROR|NOTICE|WARNING|DETAIL|HINT/ } map { s/^psql:\S+\s+//r } split /\n/, $err; }

# Waits until the subscriber has all commits of the publisher.
sub caught_up
{
	my ($slot) = @_;
	my $lsn = there('SELECT pg_current_wal_insert_lsn()');
	there('SELECT pg_logical_emit_message(true, \'\', \'\')');
	$publisher->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_name = '$slot' AND active AND confirmed_flush_lsn >= '$lsn'") or die "$slot does not catch up";
	return;
}

sub same
{
	my ($table, $what) = @_;
	my $sql = "SELECT count(*), md5(string_agg(x.t, '|' ORDER BY x.t)) FROM (SELECT t::text AS t FROM $table t) x";
	is($c->safe_psql($sql), there($sql), $what);
	return;
}

my %tables = (
	orders => 'id bigint PRIMARY KEY, v text, big text, n numeric, at timestamptz',
	items => 'o bigint, i int, w int, PRIMARY KEY (o, i)',
	kinds => 'id int PRIMARY KEY, v text',
	plain => 'id int PRIMARY KEY, v text',
	whole => 'id int PRIMARY KEY, v text',
	events => 'at timestamptz, v text',
	part => 'id int PRIMARY KEY, v text');
there(join ';', map { "CREATE TABLE $_ ($tables{$_})" } sort keys %tables);
$c->safe_psql(join ';', map { "CREATE TABLE $_ ($tables{$_})" } sort keys %tables);
$c->safe_psql(q{SELECT shardfdw.shard_table('orders', shards => 4); SELECT shardfdw.shard_table('items', 'o', 4); SELECT shardfdw.shard_table('whole', shards => 2); SELECT shardfdw.shard_table('part', shards => 2);
	SELECT shardfdw.shard_table('events', 'at', 2); SELECT shardfdw.create_reference_table('kinds')});
there(q{ALTER TABLE orders ALTER big SET STORAGE EXTERNAL; ALTER TABLE whole REPLICA IDENTITY FULL; ALTER TABLE events REPLICA IDENTITY NOTHING;
	INSERT INTO orders SELECT i, E'a\t\\\\\n' || i, repeat(md5(i::text), 100), i / 7.0, now() FROM generate_series(1, 2000) i; INSERT INTO items SELECT i, j, 0 FROM generate_series(1, 2000) i, generate_series(1, 2) j;
	INSERT INTO kinds SELECT i, 'k' FROM generate_series(1, 10) i; INSERT INTO plain SELECT i FROM generate_series(1, 10) i; INSERT INTO whole SELECT i, 'w' FROM generate_series(1, 10) i;
	INSERT INTO events SELECT now(), 'e' FROM generate_series(1, 5); INSERT INTO part SELECT i FROM generate_series(1, 100) i;
	CREATE PUBLICATION shop FOR TABLE orders, items, kinds, plain, whole, events WITH (publish = 'insert, update, delete, truncate')});
there('ALTER PUBLICATION shop DROP TABLE events; CREATE PUBLICATION log FOR TABLE events WITH (publish = \'insert\'); CREATE PUBLICATION partly FOR TABLE part WHERE (id > 50)');

# ---------- role of triggers ----------
# From 16 on, triggers run as the table's owner, unless the subscription has another setting;
# before, as the subscription's owner.
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
there('CREATE TABLE owned (id int PRIMARY KEY, v text); CREATE PUBLICATION owned FOR TABLE owned; INSERT INTO owned VALUES (1), (2), (3)');
$c->safe_psql(q{CREATE ROLE tenant; GRANT USAGE ON FOREIGN SERVER node1, node2 TO tenant; GRANT CREATE ON SCHEMA public TO tenant});
$c->node_safe_psql($_, 'CREATE ROLE tenant LOGIN; GRANT CREATE ON SCHEMA public TO tenant') for 1 .. 2;
$c->safe_psql("CREATE USER MAPPING FOR tenant SERVER node$_ OPTIONS (user 'tenant', password_required 'false')") for 1 .. 2;
$c->safe_psql(q{SET ROLE tenant; CREATE TABLE owned (id int PRIMARY KEY, v text); SELECT shardfdw.shard_table('owned', shards => 2); CREATE TABLE who (event text, role name);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.who VALUES (TG_OP, current_user); RETURN NEW; END $$;
	CREATE TRIGGER note AFTER INSERT OR DELETE ON owned FOR EACH ROW EXECUTE FUNCTION note(); ALTER TABLE owned ENABLE ALWAYS TRIGGER note;
	CREATE TRIGGER note_truncate AFTER TRUNCATE ON owned EXECUTE FUNCTION note(); ALTER TABLE owned ENABLE ALWAYS TRIGGER note_truncate});
for my $as_owner (0 .. $major >= 16)
{
	my $role = $major >= 16 && !$as_owner ? 'tenant' : $c->safe_psql('SELECT current_user');
	$c->safe_psql("CREATE SUBSCRIPTION owned CONNECTION '$conninfo' PUBLICATION owned" . ($as_owner ? ' WITH (run_as_owner = true)' : ''));
	$c->wait_for("SELECT copied = 1 FROM shardfdw.subscriptions WHERE name = 'owned'");
	there('UPDATE owned SET v = 5; TRUNCATE owned; INSERT INTO owned VALUES (7)');
	caught_up('owned');
	same('owned', 'a table of another owner');
	is($c->safe_psql('SELECT string_agg(DISTINCT event || chr(32) || role, chr(44) ORDER BY event || chr(32) || role) FROM who'), join(',', map { "$_ $role" } qw(DELETE INSERT TRUNCATE)), "its triggers run as $role");
	$c->safe_psql('DROP SUBSCRIPTION owned; TRUNCATE owned, who');
}

# ---------- the copy, changes ----------
my $said = error_of("CREATE SUBSCRIPTION shop CONNECTION '$conninfo' PUBLICATION shop, log, partly");
like($said, qr/NOTICE:  subscription "shop" is applied by shardfdw/, 'CREATE SUBSCRIPTION says who applies it');
$c->wait_for("SELECT copied = 7 FROM shardfdw.subscriptions WHERE name = 'shop'");
caught_up('shop');
same($_, "$_: copied") for grep { $_ ne 'part' } sort keys %tables;
is($c->safe_psql('SELECT count(*), min(id) FROM part'), '50|51', 'a row filter holds for the copy');
is($c->safe_psql("SELECT subenabled FROM pg_subscription"), 'f', 'PostgreSQL does not apply it');
there(q{UPDATE orders SET v = v || 'x' WHERE id % 3 = 0; UPDATE orders SET id = id + 100000 WHERE id % 10 = 0; DELETE FROM orders WHERE id % 11 = 0; INSERT INTO orders SELECT -i FROM generate_series(1, 100) i;
	BEGIN; DELETE FROM orders WHERE id = 1; INSERT INTO orders VALUES (1, 'again'); UPDATE items SET w = w + 1 WHERE o = 1; UPDATE kinds SET v = 'new' WHERE id < 3; UPDATE plain SET id = -id; COMMIT;
	UPDATE whole SET v = 'x', id = id + 100 WHERE id < 5; DELETE FROM whole WHERE id = 7; INSERT INTO events VALUES (now(), 'f'), (now(), 'f'); DELETE FROM kinds WHERE id = 9;
	UPDATE part SET id = -id WHERE id > 90; INSERT INTO part VALUES (1000), (-1); UPDATE part SET id = id + 1000 WHERE id = 5;
	BEGIN; DELETE FROM items; ROLLBACK; BEGIN; SAVEPOINT a; DELETE FROM items WHERE o = 2; ROLLBACK TO a; DELETE FROM items WHERE o = 3; COMMIT});
caught_up('shop');
same($_, "$_: changes") for grep { $_ ne 'part' } sort keys %tables;
is($c->safe_psql('SELECT count(*), sum(id) FROM part'), there('SELECT count(*), sum(id) FROM part WHERE id > 50'), 'a row filter holds for changes');
is($c->node_safe_psql(2, 'SELECT count(*) FROM kinds WHERE v = \'new\''), 2, 'replicas of reference tables are changed, too');
there(q{TRUNCATE items, plain; INSERT INTO items SELECT i, 1, 0 FROM generate_series(1, 1000) i});
caught_up('shop');
same($_, "$_: truncated") for qw(items plain);
# more than fits into memory in one piece
there(q{BEGIN; INSERT INTO items SELECT i, 2, 0 FROM generate_series(1, 5000) i; INSERT INTO orders SELECT i, NULL, repeat('x', 2000) FROM generate_series(1000000, 1040000) i; UPDATE orders SET v = 'u' WHERE id > 1039000; COMMIT});
caught_up('shop');
same($_, "$_: a large transaction") for qw(items orders);
there(q{DELETE FROM items WHERE i = 2; DELETE FROM orders WHERE id >= 1000000});

# ---------- foreign keys ----------
my @related = qw(kinds sales plain parts);
there(q{CREATE TABLE sales (id int PRIMARY KEY, kind int, v text); INSERT INTO sales SELECT i, 1 + i % 3 FROM generate_series(1, 100) i; INSERT INTO plain VALUES (1), (2);
	CREATE TABLE parts (id int PRIMARY KEY, plain int); INSERT INTO parts VALUES (1, 1), (2, 2); CREATE TABLE late_sales (id int PRIMARY KEY, kind int);
	ALTER TABLE sales ADD FOREIGN KEY (kind) REFERENCES kinds ON DELETE CASCADE ON UPDATE CASCADE; ALTER TABLE parts ADD FOREIGN KEY (plain) REFERENCES plain});
$c->safe_psql(q{CREATE TABLE sales (id int PRIMARY KEY, kind int, v text); SELECT shardfdw.shard_table('sales', shards => 4); ALTER TABLE sales ADD FOREIGN KEY (kind) REFERENCES kinds ON DELETE CASCADE;
	CREATE TABLE parts (id int PRIMARY KEY, plain int REFERENCES plain); CREATE TABLE late_sales (id int PRIMARY KEY, kind int); SELECT shardfdw.shard_table('late_sales', shards => 2)});
caught_up('shop');
there('ALTER PUBLICATION shop ADD TABLE sales, parts');
is(error_of('ALTER SUBSCRIPTION shop REFRESH PUBLICATION'), '', 'tables with foreign keys are added');
$c->wait_for("SELECT copied = tables FROM shardfdw.subscriptions WHERE name = 'shop'");
there(q{UPDATE sales SET v = 'x' WHERE id < 10; UPDATE kinds SET v = 'renamed'});
caught_up('shop');
same($_, "$_: rows that others refer to are updated") for @related;
there(q{BEGIN; INSERT INTO kinds VALUES (21, 'new'); INSERT INTO sales VALUES (200, 21); COMMIT; UPDATE kinds SET id = 31 WHERE id = 1; DELETE FROM kinds WHERE id = 2;
	BEGIN; UPDATE sales SET kind = 21 WHERE kind = 3; DELETE FROM kinds WHERE id = 3; INSERT INTO kinds VALUES (3, 'again'); COMMIT});
caught_up('shop');
same($_, "$_: rows come and go together with those that refer to them") for @related;
is($c->node_safe_psql($_, 'SELECT count(*), md5(string_agg(k::text, \'|\' ORDER BY id)) FROM kinds k'), $c->safe_psql('SELECT count(*), md5(string_agg(k::text, \'|\' ORDER BY id)) FROM kinds k'),
	"kinds: node$_ has the same rows") for 1 .. 2;
there(q{BEGIN; TRUNCATE sales, kinds, plain, parts; INSERT INTO kinds VALUES (1, 'first'); INSERT INTO sales VALUES (1, 1); INSERT INTO plain VALUES (5); INSERT INTO parts VALUES (1, 5); COMMIT});
caught_up('shop');
same($_, "$_: truncated with others") for @related;
$c->safe_psql('ALTER TABLE late_sales ADD FOREIGN KEY (kind) REFERENCES kinds');
# the row that a new row refers to has been written, but has not arrived yet
my $lock = $c->coordinator->background_psql('postgres');
$lock->query_safe('BEGIN; LOCK TABLE kinds IN SHARE MODE');
there(q{INSERT INTO kinds VALUES (50, 'late'); INSERT INTO late_sales VALUES (1, 50); ALTER PUBLICATION shop ADD TABLE late_sales});
$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'kinds'::regclass});
is(error_of('SET statement_timeout = \'170s\'; ALTER SUBSCRIPTION shop REFRESH PUBLICATION'), '', 'a table is added while a transaction is being applied, which waits');
$lock->query_safe('COMMIT');
caught_up('shop');
$c->wait_for("SELECT copied = tables AND error IS NULL FROM shardfdw.subscriptions WHERE name = 'shop'");
same($_, "$_: copied as of one moment") for qw(kinds late_sales);
# the position of the copy has been passed: PostgreSQL would not let it go before
$c->wait_for("SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate <> 'r'");
is(error_of('DROP TABLE late_sales, sales'), '', 'tables of a subscription are dropped');
there('ALTER PUBLICATION shop DROP TABLE late_sales, sales');

# ---------- statements ----------
there('CREATE TABLE more (id int PRIMARY KEY, v text); INSERT INTO more SELECT i FROM generate_series(1, 50) i; ALTER PUBLICATION shop ADD TABLE more');
$c->safe_psql("CREATE TABLE more (id int PRIMARY KEY, v text); SELECT shardfdw.shard_table('more', shards => 2)");
is(error_of('ALTER SUBSCRIPTION shop REFRESH PUBLICATION'), '', 'a table is added');
$c->wait_for("SELECT copied = 8 FROM shardfdw.subscriptions WHERE name = 'shop'");
there("UPDATE more SET v = 'x'");
caught_up('shop');
same('more', 'more: copied and followed');
is(error_of('ALTER SUBSCRIPTION shop DISABLE'), '', 'it is disabled');
is($c->safe_psql('SELECT count(*) FROM shardfdw.subscriptions'), 0, 'and not applied any more');
there("UPDATE more SET v = 'y'");
like(error_of('ALTER SUBSCRIPTION shop ENABLE'), qr/is applied by shardfdw/, 'it is enabled');
caught_up('shop');
same('more', 'more: what came meanwhile');
like(error_of("ALTER SUBSCRIPTION shop SKIP (lsn = '0/1')"), qr/cannot be skipped/, 'nothing is skipped');
is($c->safe_psql("SELECT running FROM shardfdw.subscriptions"), 't', 'it goes on');

$lock->query_safe('BEGIN; LOCK TABLE more IN SHARE MODE');
there("UPDATE more SET v = 'z'");
$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'more'::regclass});
is(error_of('SET statement_timeout = \'170s\'; ALTER SUBSCRIPTION shop DISABLE'), '', 'nobody waits for the end of what is being applied');
$lock->query_safe('COMMIT');
$lock->quit;
error_of('ALTER SUBSCRIPTION shop ENABLE');
caught_up('shop');
same('more', 'more: which is applied later');
my $slots = there('SELECT count(*) FROM pg_replication_slots');
like(error_of("CREATE SUBSCRIPTION two CONNECTION '$conninfo' PUBLICATION shop WITH (two_phase = on, copy_data = off)"), qr/subscription "two" cannot have two_phase because it writes to sharded tables/, 'prepared transactions are not applied');
is(there('SELECT count(*) FROM pg_replication_slots') . $c->safe_psql('SELECT count(*) FROM pg_subscription'), "${slots}1", 'and nothing is left of that');
there("SELECT pg_create_logical_replication_slot('two', 'pgoutput', false, true)");
error_of("CREATE SUBSCRIPTION two CONNECTION '$conninfo' PUBLICATION shop WITH (create_slot = off, copy_data = off)");
$c->wait_for(q{SELECT error LIKE 'replication slot "two" of subscription "two" sends prepared transactions' FROM shardfdw.subscriptions WHERE name = 'two'});
is(error_of('DROP SUBSCRIPTION two'), 'NOTICE:  dropped replication slot "two" on publisher', 'one that cannot be applied is dropped');
there('CREATE TABLE months (m int, k int, PRIMARY KEY (m, k)); INSERT INTO months SELECT i % 2, i FROM generate_series(1, 50) i; CREATE PUBLICATION months FOR TABLE months');
$c->safe_psql(q{CREATE TABLE months (m int, k int, PRIMARY KEY (m, k)) PARTITION BY RANGE (m); CREATE TABLE month_0 PARTITION OF months FOR VALUES FROM (0) TO (1) PARTITION BY HASH (k);
	CREATE TABLE month_1 PARTITION OF months FOR VALUES FROM (1) TO (2); SELECT shardfdw.create_shard('month_0', ('month_0_' || i)::name, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || 1 + i)::name) FROM generate_series(0, 1) i});
like(error_of("CREATE SUBSCRIPTION months CONNECTION '$conninfo' PUBLICATION months"), qr/is applied by shardfdw/, 'shards may be partitions of partitions');
$c->wait_for("SELECT copied = 1 FROM shardfdw.subscriptions WHERE name = 'months'");
there('UPDATE months SET m = 1 - m WHERE k < 20');
caught_up('months');
same('months', 'months: copied and followed');
$c->safe_psql('DROP SUBSCRIPTION months');

like(error_of("SELECT shardfdw.unshard_table('more')"), qr/cannot unshard table "more" because a subscription writes to it/, 'its tables are not replaced: unshard_table');
$c->safe_psql('ALTER TABLE parts DROP CONSTRAINT parts_plain_fkey');
like(error_of("SELECT shardfdw.shard_table('parts', mode => '$_')"), qr/cannot shard table "parts" because a subscription writes to it/, "shard_table, mode $_") for qw(block online);

# ---------- errors ----------
$c->safe_psql('DELETE FROM more WHERE id = 5');
there("UPDATE more SET v = 'z' WHERE id = 5");
$c->wait_for(q{SELECT error LIKE 'a change made on the source does not find its row in table public.more' FROM shardfdw.subscriptions});
pass('a row that is not there is an error');
$c->safe_psql("INSERT INTO more VALUES (5, 'y')");
caught_up('shop');
same('more', 'which ends when it is there');
is($c->safe_psql('SELECT error IS NULL FROM shardfdw.subscriptions'), 't', 'and is not shown any more');
there('ALTER TABLE more ADD COLUMN extra int DEFAULT 5; UPDATE more SET v = \'extra\' WHERE id < 3');
$c->wait_for(q{SELECT error LIKE 'the columns of table public.more are not those that the publisher sends' FROM shardfdw.subscriptions});
$c->safe_psql('ALTER TABLE more ADD COLUMN extra int DEFAULT 5');
caught_up('shop');
same('more', 'columns are added on both sides');

# ---------- crashes, while clients write ----------
my $seconds = $ENV{MOVE_SECONDS} // 12;
my $script = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
append_to_file($script, q{\set i random(1, 1000)
\set j random(1, 1000)
\set k :client_id * 100000000 + random(100000, 99999999)
BEGIN;
UPDATE items SET w = w + 1 WHERE o = :i;
UPDATE items SET w = w - 1 WHERE o = :j;
INSERT INTO orders VALUES (:k, 'new') ON CONFLICT (id) DO UPDATE SET v = 'again';
UPDATE orders SET id = -id, v = 'moved' WHERE id = :k AND :i % 3 = 0;
DELETE FROM orders WHERE id = -:k AND :i % 9 = 0;
COMMIT;
});
my ($out, $errors) = ('', '');
my $clients = sub { return IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-T', $seconds, '-f', $script, '-h', $publisher->host, '-p', $publisher->port, 'postgres' ], '>', \$out, '2>', \$errors); };
my $writing = $clients->();
my $applied = 'SELECT coalesce(sum(transactions), 0) FROM shardfdw.subscriptions';
my $goes_on = sub { my $before = $c->safe_psql($applied); $c->wait_for("SELECT transactions > $before + 20 FROM shardfdw.subscriptions"); return; };
$goes_on->();
my %sums = map { $_ => 1 } map { $c->safe_psql("SET shardfdw.snapshot = 'cluster'; SELECT sum(w) FROM items") } 1 .. 10;
is(join(' ', keys %sums), '0', "each snapshot shows whole transactions of the publisher");
$c->kill9_node(1);
$c->start_node(1);
$goes_on->();
pass('a node has crashed');
$c->kill9_coordinator;
$c->coordinator->start;
$goes_on->();
pass('the coordinator has crashed');
$writing->finish;
$publisher->stop('immediate');
$publisher->start;
$writing = $clients->();
$goes_on->();
pass('the publisher has crashed');
$writing->finish;
caught_up('shop');
same($_, "$_: nothing is lost, doubled or stale") for qw(orders items);
is($c->safe_psql("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'i'"), 0, 'nothing was copied again');

SKIP: {
	skip('needs a build with FAULT_POINTS=1', 7) unless $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	for my $point (qw(subscription_written subscription_committed prepared subscription_copied))
	{
		if ($point eq 'subscription_copied')
		{
			there('CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late SELECT i FROM generate_series(1, 50) i; ALTER PUBLICATION shop ADD TABLE late');
			$c->safe_psql("CREATE TABLE late (id int PRIMARY KEY); SELECT shardfdw.shard_table('late', shards => 2)");
		}
		$c->set_faults("$point=abort");
		my $log = $c->log_position;
		if ($point eq 'subscription_copied') { error_of('ALTER SUBSCRIPTION shop REFRESH PUBLICATION'); }
		else { there("UPDATE items SET w = w + 1000 WHERE o < 100"); }
		$c->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
		# the worker that starts after the crash is killed at this point, too, while the fault is
		# set
		for (1 .. 50) { $c->coordinator->poll_query_until('postgres', 'SELECT true'); last if eval { $c->set_faults(''); 1 }; }
		caught_up('shop');
		$c->wait_for('SELECT copied = tables FROM shardfdw.subscriptions');
		same($point eq 'subscription_copied' ? 'late' : 'items', "killed at $point");
	}
	# The position changes only with a commit, and not with a transaction that an error or a
	# termination aborts after it has set the position.
	my $wait = $c->coordinator->data_dir . '/shardfdw_fault_subscription_written';
	append_to_file($wait, '');
	for my $fault ('error', 'wait')
	{
		$c->set_faults("subscription_written=$fault");
		there('UPDATE items SET w = w + 1 WHERE o < 100');
		if ($fault eq 'error') { $c->wait_for(q{SELECT error LIKE '%subscription_written%' FROM shardfdw.subscriptions}); }
		else { $c->wait_for(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'shardfdw subscription worker' AND backend_xid IS NOT NULL}); }
		$c->set_faults('');
		unlink $wait if $fault eq 'wait';
		caught_up('shop');
		same('items', "after a transaction that is aborted late: $fault");
	}
}

# ---------- new features of PostgreSQL 19 ----------
SKIP: {
	skip('needs PostgreSQL 19', 8) if $c->safe_psql('SHOW server_version_num') < 190000;
	my ($host, $port) = ($publisher->host, $publisher->port);
	there('CREATE SEQUENCE numbers START 77; SELECT nextval(\'numbers\'); CREATE TABLE counted (id int PRIMARY KEY); INSERT INTO counted VALUES (1); CREATE PUBLICATION numbers FOR ALL SEQUENCES; CREATE PUBLICATION counted FOR TABLE counted');
	$c->safe_psql("CREATE SEQUENCE numbers; CREATE TABLE counted (id int PRIMARY KEY); SELECT shardfdw.shard_table('counted', shards => 2);
		CREATE EXTENSION postgres_fdw; CREATE SERVER publisher FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER publisher");
	like(error_of('CREATE SUBSCRIPTION served SERVER publisher PUBLICATION counted WITH (two_phase = on, copy_data = off)'), qr/subscription "served" cannot have two_phase/, 'a server in place of a connection string: prepared transactions are not applied');
	like(error_of('CREATE SUBSCRIPTION served SERVER publisher PUBLICATION counted WITH (retain_dead_tuples = on)'), qr/subscription "served" cannot have retain_dead_tuples because it writes to sharded tables/, 'dead rows are not kept');
	is(there('SELECT count(*) FROM pg_replication_slots WHERE slot_name = \'served\''), 0, 'and no slot is left');
	like(error_of('CREATE SUBSCRIPTION served SERVER publisher PUBLICATION counted, numbers'), qr/NOTICE:  subscription "served" is applied by shardfdw/, 'a server in place of a connection string');
	$c->wait_for("SELECT copied = 2 FROM shardfdw.subscriptions WHERE name = 'served'");
	is($c->safe_psql('SELECT last_value, is_called FROM numbers'), '77|t', 'a sequence has the value of the publisher');
	there("SELECT setval('numbers', 900, false); INSERT INTO counted VALUES (2)");
	is(error_of('ALTER SUBSCRIPTION served REFRESH SEQUENCES'), '', 'REFRESH SEQUENCES');
	$c->wait_for('SELECT (last_value, is_called) = (900, false) FROM numbers');
	caught_up('served');
	same('counted', 'changes come, too');
	is(error_of('DROP SUBSCRIPTION served'), 'NOTICE:  dropped replication slot "served" on publisher', 'and it is dropped');
	$c->safe_psql('DROP EXTENSION postgres_fdw CASCADE');
	there('DROP PUBLICATION numbers, counted');
}

# ---------- its end ----------
is(error_of('DROP SUBSCRIPTION shop'), 'NOTICE:  dropped replication slot "shop" on publisher', 'it is dropped');
is($c->safe_psql('SELECT (SELECT count(*) FROM shardfdw_internal.subscription), (SELECT count(*) FROM pg_replication_origin)') . ' ' . there('SELECT count(*) FROM pg_replication_slots'), '0|0 0', 'and leaves nothing');
$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw subscription worker'});
is(error_of("CREATE SUBSCRIPTION plain CONNECTION '$conninfo' PUBLICATION partly WITH (enabled = false)") . $c->safe_psql('SELECT count(*) FROM shardfdw_internal.subscription'), qq{NOTICE:  created replication slot "plain" on publisher0}, 'one that is not enabled is not applied');
$c->safe_psql('DROP SUBSCRIPTION plain');
done_testing();
