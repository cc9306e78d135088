# A move leaves tables behind, or tables wait to be dropped. They must never be mistaken for other
# tables, and must not get in the way.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 3, map { $_ => "wal_level = logical\nmax_wal_senders = 10\n" } qw(node_conf coordinator_conf));
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

# Lets the mover stop at a fault point. Another call lets it continue.
sub hold
{
	my ($point) = @_;
	append_to_file($c->coordinator->data_dir . "/shardfdw_fault_$point", '');
	$c->set_faults("$point=wait");
	return;
}

sub release
{
	my ($point) = @_;
	unlink $c->coordinator->data_dir . "/shardfdw_fault_$point";
	$c->set_faults('');
	return;
}

sub wait_for_no_job { $c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'}); return; }

sub place { my ($table) = @_; return $c->safe_psql("SELECT node FROM shardfdw.shards WHERE shard = '${table}_00'::regclass"); }

sub start_move
{
	my ($table, $target, $stage, $more) = @_;
	$more //= '';
	my $job = $c->safe_psql("SELECT shardfdw.move_shard('${table}_00', '$target', wait => false $more)");
	$c->wait_for("SELECT stage = '$stage' OR state <> 'running' FROM shardfdw.jobs WHERE id = $job");
	return $job;
}

# The mover dies when the shard has moved and its tables still bear the marks of the move.
sub die_switched
{
	my ($table, $target) = @_;
	hold('move_switched');
	my $job = start_move($table, $target, 'dropping');
	$c->safe_psql("SELECT pg_terminate_backend(pid) FROM shardfdw.jobs WHERE id = $job");
	release('move_switched');
	$c->wait_for("SELECT state <> 'running' FROM shardfdw.jobs WHERE id = $job");
	is(place($table), $target, "$table has moved");
	return;
}

sub make_table
{
	my ($table, $nodes) = @_;
	$c->safe_psql("CREATE TABLE $table (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('$table', 'id', shards => 2, nodes => '$nodes', colocate_with => NULL);
		INSERT INTO $table SELECT i, 0 FROM generate_series(1, 100) i");
	return;
}

# ---------- recovery by a session that writes names in another way ----------

make_table('quoted', '{node1,node3}');
die_switched('quoted', 'node2');
like($c->safe_psql('SET quote_all_identifiers = on; SELECT string_agg(node || action, $$ $$ ORDER BY node) FROM shardfdw.recover_prepared_transactions()'),
	qr/node1removed.*node2removed/, 'recovery finds what is left');
is($c->safe_psql('SELECT count(*) FROM quoted'), 100, 'and drops no table that is needed');
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_class WHERE relname = 'quoted_00'}), 0, 'but the old one');

# ---------- a job of a predecessor ----------

# After a take-over the identity is another one, even on the same server.
make_table('inherited', '{node1,node3}');
hold('move_prepared');
my $inherited = start_move('inherited', 'node2', 'preparing');
$c->wait_for("SELECT count(*) = 1 FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'", 2);
my $mark = $c->log_position;
# the server restarts, and no session cleans up
kill 'KILL', $c->safe_psql("SELECT pid FROM shardfdw.jobs WHERE id = $inherited");
$c->wait_for_log(qr/ready to accept connections/, $mark);
release('move_prepared');
my $staging = q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'inherited_00' AND nspname ~ '^shardfdw_'};
is($c->node_safe_psql(2, $staging), 1, 'a job whose process was killed leaves its tables');
my $predecessor = $c->safe_psql('SELECT identity FROM shardfdw_internal.coordinator_identity()');
$c->safe_psql('SELECT shardfdw.promote_coordinator()');
# marked like the tables of a job that shards a table
$c->safe_psql("CREATE TABLE made (); COMMENT ON TABLE made IS 'job 77 of coordinator $predecessor'");
my @left = split /\n/, $c->safe_psql('SELECT node, action
	FROM shardfdw.recover_prepared_transactions() ORDER BY 1');
$c->safe_psql('DROP TABLE made');
my $hint = qr/commits may be missing.*resolve_transaction\('$predecessor', 'rollback'\)$/;
my $of = qr/of predecessor "$predecessor" has left/;
ok((grep { /^node2\|not removed: what job $inherited $of.*$hint/ } @left), 'recovery names it');
ok((grep { /^\|not removed: what job 77 $of.*$hint/ } @left), 'and what is on the coordinator');
is($c->node_safe_psql(2, $staging), 1, 'a successor that may lack commits leaves them');
$c->safe_psql("SELECT shardfdw.resolve_transaction('$predecessor', 'rollback')");

# the state after this server has lost the commit that moved the shard
$c->node_safe_psql(1, 'ALTER TABLE inherited_00 RENAME TO away');
like($c->safe_psql('SELECT string_agg(action, $$ $$) FROM shardfdw.recover_prepared_transactions()'), qr/not removed: what job $inherited of a predecessor has left: nothing tells/, 'nor does one that should have them all, where the source says something else');
is($c->node_safe_psql(2, $staging), 1, 'they are there');
$c->node_safe_psql(1, 'ALTER TABLE away RENAME TO inherited_00');
like($c->safe_psql('SELECT string_agg(action, $$ $$) FROM shardfdw.recover_prepared_transactions()'), qr/removed: what job $inherited has left/, 'one that has them all removes them');
is($c->node_safe_psql(2, $staging), 0, 'they are gone');
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'}), 0, "nothing is left on node $_") for 1, 2;
is($c->safe_psql("SELECT shardfdw.move_shard('inherited_00', 'node2') > 0"), 't', 'the shard moves');
is($c->safe_psql('SELECT count(*) FROM inherited'), 100, 'with its rows');

# ---------- two servers that lead to one node ----------

my ($host, $port) = $c->node_address(2);
$c->safe_psql("SELECT shardfdw.add_node('a_node', '$host', $port)");
for my $name ('a_node', 'b_node')
{
	make_table("aliased_$name", '{node1,node3}');
	die_switched("aliased_$name", 'a_node');
	$c->safe_psql("ALTER SERVER a_node RENAME TO $name") if $name ne 'a_node';
	$c->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()');
	is($c->safe_psql("SELECT count(*) FROM aliased_$name"), 100, "the table is not taken for that of the other server: $name");
	is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'}), 0, "nothing is left on node $_") for 1, 2;
}
# a server that is not available: recovery must not decide about tables that were created for it
make_table('orphaned', '{node1,node3}');
die_switched('orphaned', 'b_node');
$c->safe_psql(q{ALTER TABLE orphaned DETACH PARTITION orphaned_00; SET shardfdw.enable_ddl_propagation = off; DROP FOREIGN TABLE orphaned_00; DROP TABLE aliased_a_node, aliased_b_node; SELECT shardfdw.remove_node('b_node');
	CREATE FOREIGN TABLE orphaned_00 PARTITION OF orphaned FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER node2});
like($c->safe_psql('SELECT string_agg(node || action, $$ $$ ORDER BY node) FROM shardfdw.recover_prepared_transactions()'), qr/node2not removed.*nothing tells whether table public\.orphaned_00 is needed/, 'a note of a server that is gone');
is($c->safe_psql('SELECT count(*) FROM orphaned'), 100, 'no table is dropped');
$c->node_safe_psql(2, q{DO $$BEGIN EXECUTE (SELECT 'DROP SCHEMA ' || nspname || ' CASCADE' FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_[0-9]'); END$$});

# ---------- messages of strangers in the WAL ----------

make_table('spoofed', '{node1,node3}');
$c->node_safe_psql(1, 'CREATE ROLE nobody LOGIN');
hold('move_indexed');
my $job = start_move('spoofed', 'node2', 'indexing', ', verify => false');
$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
my $schema = $c->node_safe_psql(1, q{SELECT nspname FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'});
$c->node_safe_psql(1, "SET ROLE nobody; SELECT pg_logical_emit_message(true, 'shardfdw', '$schema 99999')");
$c->safe_psql('UPDATE spoofed SET v = 1');
release('move_indexed');
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'a move');
is($c->safe_psql('SELECT count(*), sum(v) FROM spoofed'), '100|100', 'is not told by others how far it has come');

# ---------- a job whose shard has moved while it waited for its turn ----------

make_table('queued', '{node1,node3}');
hold('move_indexed');
my $first = start_move('queued', 'node2', 'indexing');
my $second = start_move('queued', 'node3', 'waiting for its turn');
release('move_indexed');
is($c->safe_psql("SELECT shardfdw.wait_job($first)"), 'done', 'the first move');
is($c->safe_psql("SELECT shardfdw.wait_job($second)"), 'done', 'the second');
is($c->safe_psql("SELECT source || ' ' || target FROM shardfdw.jobs WHERE id = $second"), 'node2 node3', 'began where the first ended');
# held again, to see whose turns it has
hold('move_indexed');
$first = start_move('queued', 'node1', 'indexing');
$second = start_move('queued', 'node2', 'waiting for its turn');
$c->safe_psql("SELECT shardfdw.cancel_job($first)");
release('move_indexed');
$c->psql("SELECT shardfdw.wait_job($first)");
is($c->safe_psql("SELECT shardfdw.wait_job($second)"), 'done', 'a move after one that was cancelled');
hold('move_indexed');
$first = start_move('queued', 'node1', 'indexing');
append_to_file($c->coordinator->data_dir . '/shardfdw_fault_move_copied', '');
$c->set_faults('move_indexed=wait,move_copied=wait');
$second = start_move('queued', 'node3', 'waiting for its turn');
unlink $c->coordinator->data_dir . '/shardfdw_fault_move_indexed';
$c->wait_for("SELECT stage = 'copying' OR state <> 'running' FROM shardfdw.jobs WHERE id = $second");
is($c->safe_psql(qq{SELECT string_agg(s.srvname, ' ' ORDER BY s.srvname) FROM pg_locks l JOIN shardfdw.jobs j USING (pid) JOIN pg_foreign_server s ON s.oid = l.objid
	WHERE l.locktype = 'advisory' AND l.objsubid = 17 AND l.granted AND j.id = $second}), 'node1 node3', 'a job has the turns of the nodes that it works on');
release('move_copied');
is($c->safe_psql("SELECT shardfdw.wait_job($second)"), 'done', 'and ends');

# ---------- tables that are colocated in the meantime ----------

make_table('grown', '{node1,node3}');
hold('move_indexed');
$job = start_move('grown', 'node2', 'indexing');
$c->safe_psql(q{CREATE TABLE beside (id int PRIMARY KEY); SELECT shardfdw.shard_table('beside', 'id', colocate_with => 'grown')});
release('move_indexed');
like(($c->psql("SELECT shardfdw.wait_job($job)"))[2], qr/colocated with shard public\.grown_00 have changed while it was moved/, 'a table that was colocated after a move began');
is(($c->psql(q{SELECT shardfdw.move_shard('grown_00', 'node2')}))[2], '', 'moves along with the next one');
is($c->safe_psql(q{SELECT string_agg(DISTINCT node, ' ') FROM shardfdw.shards WHERE shard IN ('grown_00'::regclass, 'beside_00'::regclass)}), 'node2', 'to the same node');

# ---------- tables that are changed on the node in the meantime ----------

make_table('defined', '{node1,node3}');
hold('move_indexed');
$job = start_move('defined', 'node2', 'indexing');
$c->node_safe_psql(1, 'CREATE INDEX by_hand ON defined_00 (v)');
release('move_indexed');
my $changed = qr/the definition of shard public\.defined_00 has changed while it was moved/;
like(($c->psql("SELECT shardfdw.wait_job($job)"))[2], $changed, 'a change of a table while it is copied');

# rights are given without a lock of the table
sub hold_locked
{
	hold('move_locked');
	$job = start_move('defined', 'node2', 'switching');
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'defined_00'::regclass AND mode = 'ExclusiveLock' AND granted}, 1);
	return;
}
hold_locked();
$c->node_safe_psql(1, 'GRANT SELECT ON defined_00 TO PUBLIC');
release('move_locked');
like(($c->psql("SELECT shardfdw.wait_job($job)"))[2], $changed, 'and one while writers wait');
hold_locked();
$c->safe_psql('CREATE TABLE other (a int)');
release('move_locked');
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'another table is nothing that a move has to do with');
is($c->node_safe_psql(2, q{SELECT count(*) FROM pg_indexes WHERE indexname = 'by_hand'}), 1, 'all comes along');

# ---------- an old table that has another name by now ----------

make_table('named', '{node1,node3}');
my $old = $c->coordinator->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1');
$job = $c->safe_psql(q{SELECT shardfdw.move_shard('named_00', 'node2', wait => false)});
$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs WHERE id = $job");
like(($c->psql('ALTER SCHEMA public RENAME TO r'))[2], qr/cannot be changed while job $job moves a shard of it/, 'the schema of tables that are moved is not renamed');
$c->node_safe_psql(1, 'ALTER TABLE named_00 RENAME TO older; CREATE TABLE named_00 (a int)');
$old->query_safe('COMMIT');
$old->quit;
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job ends');
is($c->node_safe_psql(1, q{SELECT string_agg(relname, ' ') FROM pg_class WHERE relname IN ('named_00', 'older')}), 'named_00', 'the old table is dropped, not the one that has its name');

# ---------- settings of databases and roles that do not suit moves ----------

$c->safe_psql(q{ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'; ALTER DATABASE postgres SET default_transaction_read_only = on});
is(($c->psql(q{BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT shardfdw.move_shard('named_00', 'node3'); COMMIT}))[2], '', 'defaults of the coordinator');
$c->safe_psql(q{SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only; ALTER DATABASE postgres RESET default_transaction_isolation});
$c->node_safe_psql($_, q{CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM pg_sleep(0.06); RETURN $1; END'}) for 2, 3;
$c->node_safe_psql(3, 'CREATE INDEX ON named_00 (slow(v))');
$c->node_safe_psql(2, q{ALTER DATABASE postgres SET statement_timeout = '2s'});
$c->safe_psql('SELECT shardfdw.disconnect()');
is(($c->psql(q{SELECT shardfdw.move_shard('named_00', 'node2')}))[2], '', 'time-outs of a node');
# a session that waits for the job's lock, and that the job's reads would have to wait for
hold('move_copied');
$job = $c->ask(q{SELECT shardfdw.move_shard('named_00', 'node3', mode => 'block', wait => false)});
$c->wait_for(qq{SELECT count(*) > 0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 'shardfdw%_${job}_%' AND c.relname = 'named_00' AND pg_relation_size(c.oid) > 0}, 3);
{
	my $vacuum = $c->node(2)->background_psql('postgres', on_error_stop => 0);
	$vacuum->query_until(qr/begun/, "\\echo begun\nVACUUM FULL named_00;\n");
	ok($c->node(2)->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'}), 'a VACUUM FULL on the node waits for the job');
	release('move_copied');
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'which does not wait for it');
	$vacuum->quit;
}
$c->ask(q{SELECT shardfdw.move_shard('named_00', 'node2')});
$c->node_safe_psql(2, 'ALTER DATABASE postgres RESET ALL');

# ---------- a session that would wait for itself ----------

like(($c->psql(q{BEGIN; UPDATE named SET v = v + 1; SELECT shardfdw.move_shard('named_00', 'node3')}))[2], qr/cannot wait in a transaction that has used nodes/, 'no session waits for itself');
hold('move_copied');
$job = start_move('named', 'node3', 'copying');
like(($c->psql("BEGIN; UPDATE named SET v = v + 1; SELECT shardfdw.wait_job($job)"))[2], qr/cannot wait in a transaction that has used nodes/, 'nor for a job that has been begun before');
release('move_copied');
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'others wait for it');
like(($c->psql("BEGIN; EXPLAIN SELECT * FROM named; SELECT shardfdw.split_shard('named_00')"))[2], qr/job \d+ waits for a lock of this transaction/, 'a split needs a lock that its caller keeps from it');
wait_for_no_job();
$c->safe_psql(q{CREATE TABLE aside (); CREATE TABLE solo (id int PRIMARY KEY); SELECT shardfdw.shard_table('solo', 'id', shards => 1, nodes => '{node1}', colocate_with => NULL)});
for my $way ('', 'by way of another session')
{
	# the second job waits for the node's turn, and checks its tables when it has got the turn
	hold('move_copied');
	my $first = start_move('named', 'node2', 'copying');
	my $second = $c->ask(q{SELECT shardfdw.move_shard('solo_00', 'node2', wait => false)});
	my ($waiter, $between) = map { $c->coordinator->background_psql('postgres', on_error_stop => 0) } 1, 2;
	$waiter->query_safe('BEGIN; LOCK TABLE ONLY ' . ($way ? 'aside' : 'solo'));
	$between->query_until(qr/begun/, "BEGIN; LOCK TABLE ONLY solo;\n\\echo begun\nLOCK TABLE aside;\n") if $way;
	$waiter->query_until(qr/begun/, "\\echo begun\nSELECT shardfdw.wait_job($second);\n");
	release('move_copied');
	$waiter->query('ROLLBACK');
	like($waiter->{stderr}, qr/job $second waits for a lock of this transaction/, "who waits for a job that waits for him is told so $way");
	$between->query('ROLLBACK');
	$_->quit for $waiter, $between;
	is($c->ask("SELECT shardfdw.wait_job($first), shardfdw.wait_job($second)"), 'done|done', 'and the job, which is of another session, goes on');
	$c->ask(q{SELECT shardfdw.move_shard('named_00', 'node3'), shardfdw.move_shard('solo_00', 'node1')});
}
# a job that waits for the end of a transaction, which waits for a lock of who waits for the job
{
	my ($waiter, $between) = map { $c->coordinator->background_psql('postgres', on_error_stop => 0) } 1, 2;
	$waiter->query_safe('BEGIN; LOCK TABLE aside');
	$between->query_until(qr/begun/, "BEGIN; UPDATE named SET v = v WHERE id = 1;\n\\echo begun\nLOCK TABLE aside;\n");
	$c->ask_until(q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'aside'::regclass)});
	$waiter->query(q{SELECT shardfdw.move_shard('named_00', 'node2')});
	like($waiter->{stderr}, qr/job \d+ waits for other transactions, and process \d+ for a lock of this one/, 'so is who waits for a job that waits for a transaction that waits for him');
	$waiter->query('ROLLBACK');
	$between->query('ROLLBACK');
	$_->quit for $waiter, $between;
	wait_for_no_job();
}
# CREATE INDEX CONCURRENTLY waits for all sessions that have a snapshot. No session may wait for it.
{
	my $between = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$c->ask('CREATE TABLE indexed (k int); INSERT INTO indexed VALUES (1)');
	my $place = $c->ask(q{SELECT node FROM shardfdw.shards WHERE shard = 'named_00'::regclass});
	my $target = $place eq 'node2' ? 'node3' : 'node2';
	$between->query_safe('BEGIN; UPDATE named SET v = v WHERE id = 1');
	my $moves = $c->start_sql("SELECT shardfdw.move_shard('named_00', '$target')");
	$c->ask_until(q{SELECT count(*) = 1 FROM shardfdw.jobs WHERE state = 'running' AND waits_for IS NOT NULL});
	my $indexes = $c->start_sql('CREATE INDEX CONCURRENTLY ON indexed (k)');
	$c->ask_until(q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'virtualxid')});
	# for the time of several checks
	$c->ask('SELECT pg_sleep(4)');
	$between->query('ROLLBACK');
	$between->quit;
	is(($c->wait_sql($moves))[2], '', 'who waits for a job is no obstacle to it by keeping CREATE INDEX CONCURRENTLY waiting');
	is(($c->wait_sql($indexes))[2], '', 'which ends afterwards');
	wait_for_no_job();
	$c->ask("SELECT shardfdw.move_shard('named_00', '$place')");
}
like(($c->psql("BEGIN; LOCK TABLE named; SELECT shardfdw.move_shard('named_00', 'node2', wait => false)"))[2], qr/the process of the job could not start/, 'so does the beginning of a job');
is($c->safe_psql("SELECT count(*) FROM named"), $c->safe_psql("SELECT count(*) FROM named WHERE id > 0"), 'the table is as it was');
# a snapshot from before the job
my $old_snapshot = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$old_snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1');
hold('move_copied');
$job = start_move('named', 'node2', 'copying');
$old_snapshot->query("UPDATE named SET v = v + 1 WHERE id = 1");
$old_snapshot->query("SELECT shardfdw.wait_job($job)");
like($old_snapshot->{stderr}, qr/cannot wait in a transaction that has used nodes/, 'at REPEATABLE READ, in a transaction that began before the job');
$old_snapshot->query('ROLLBACK');
$old_snapshot->quit;
release('move_copied');
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'that job, too, is waited for by others');

# nodes that are databases of the coordinator's own server
my $server = $c->coordinator;
$c->safe_psql('CREATE TABLE written (a int)');
$c->safe_psql("CREATE DATABASE $_") for 'shards', 'more_shards';
$c->safe_psql(qq{SELECT shardfdw.add_node('$_', '@{[ $server->host ]}', @{[ $server->port ]}, dbname => '$_')}) for 'shards', 'more_shards';
$c->safe_psql('CREATE TABLE near (id int PRIMARY KEY); SELECT shardfdw.shard_table($$near$$, $$id$$, shards => 6, nodes => $${shards}$$); INSERT INTO near SELECT generate_series(1, 100)');
like(($c->psql("BEGIN; INSERT INTO written VALUES (1); SELECT shardfdw.move_shard('near_00', 'more_shards')"))[2], qr/cannot wait in a transaction that has written.*Node "shards" is a database of this server/s, 'where the source is of the same server');
$c->safe_psql('CHECKPOINT');
is(($c->psql("SELECT shardfdw.move_shard('near_00', 'more_shards')"))[2], '', 'who has not written waits');
hold('move_prepared');
$job = start_move('near', 'shards', 'preparing');
like(($c->psql("BEGIN; INSERT INTO written VALUES (1); SELECT shardfdw.wait_job($job)"))[2], qr/cannot wait in a transaction that has written/, 'also for a job that has been begun before');
release('move_prepared');
is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'it ends');
is($c->safe_psql('SELECT count(*) FROM near'), 100, 'all rows are there');
$c->safe_psql('DROP TABLE near; SELECT shardfdw.remove_node($$shards$$), shardfdw.remove_node($$more_shards$$)');

# ---------- foreign keys that do not hold, or cannot be validated for now ----------

my $leftovers = q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'};

# Are the foreign keys of a table's first shard valid, and which comment has it?
sub key_and_comment
{
	my ($table, $node) = @_;
	return $c->node_safe_psql($node, qq{SELECT string_agg(convalidated::text, ' '), obj_description('${table}_00'::regclass) FROM pg_constraint WHERE conrelid = '${table}_00'::regclass AND contype = 'f'});
}

$c->safe_psql('CREATE TABLE parent (r int PRIMARY KEY); INSERT INTO parent VALUES (1); SELECT shardfdw.create_reference_table($$parent$$)');
# numbers of shards that no other table has, so that these tables move alone
my %shards = (broken => 3, locked => 4, moved => 5);
for my $table (sort keys %shards)
{
	$c->safe_psql(qq{CREATE TABLE $table (id int, r int REFERENCES parent); SELECT shardfdw.shard_table('$table', 'id', shards => $shards{$table}, nodes => '{node1,node3}', colocate_with => NULL);
		INSERT INTO $table SELECT i, 1 FROM generate_series(1, 100) i});
	$c->node_safe_psql(1, "COMMENT ON TABLE ${table}_00 IS 'of a user'");
}
$c->node_safe_psql(1, "SET session_replication_role = replica; INSERT INTO ${_}_00 VALUES (NULL, 2)") for 'broken', 'moved';

die_switched('broken', 'node2');
like($c->safe_psql(q{SELECT string_agg(node || ' ' || action, ' ' ORDER BY node) FROM shardfdw.recover_prepared_transactions()}), qr/^node1 removed.*node2 removed: what job \d+ has left$/, 'a foreign key that does not hold keeps no leftovers');
is(key_and_comment('broken', 2), 'false|of a user', 'it is not valid on the new node');
die_switched('locked', 'node2');
my $locker = $c->node(2)->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE parent');
like($c->safe_psql(q{SELECT string_agg(node || ' ' || action, '; ' ORDER BY node, action) FROM shardfdw.recover_prepared_transactions()}),
	qr/^node1 removed.*node2 not removed: foreign keys of job \d+, which are not validated: .*lock timeout; node2 removed: what job \d+ has left$/, 'nor does one that cannot be validated for now');
$locker->query_safe('COMMIT');
$locker->quit;
is(key_and_comment('locked', 2), 'false|of a user', 'that is left to a person');
is(($c->psql(q{SELECT shardfdw.move_shard('moved_00', 'node2')}))[2], '', 'a shard with a foreign key that does not hold moves');
is(key_and_comment('moved', 2), 'false|of a user', 'and has it so on the new node');
is($c->node_safe_psql($_, $leftovers), 0, "nothing is left on node $_") for 1, 2;
$c->node_safe_psql(2, q{COMMENT ON TABLE moved_00 IS 'shardfdw_0123456789abcdef_1_0123abcd'});
$c->safe_psql(q{SELECT shardfdw.move_shard('moved_00', 'node1')});
is(key_and_comment('moved', 1), 'false|', 'the mark of another job is not taken for a comment');
$c->safe_psql('DROP TABLE broken, locked, moved');

# ---------- foreign keys of old tables that wait for readers ----------

for my $action ('', 'ON DELETE CASCADE ON UPDATE CASCADE')
{
	my $table = $action ? 'child_c' : 'child';
	my $ref = "of_$table";
	$c->safe_psql("CREATE TABLE $ref (r int PRIMARY KEY); INSERT INTO $ref SELECT generate_series(1, 20); SELECT shardfdw.create_reference_table('$ref');
		CREATE TABLE $table (id int PRIMARY KEY, r int REFERENCES $ref $action); SELECT shardfdw.shard_table('$table', 'id', shards => 2, nodes => '{node1,node3}', colocate_with => NULL);
		INSERT INTO $table SELECT i, i % 10 + 1 FROM generate_series(1, 100) i");
	my $reader = $c->coordinator->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1');
	hold('move_switched');
	$job = start_move($table, 'node2', 'dropping');
	if ($action)
	{
		is(($c->psql("DELETE FROM $ref WHERE r = 3; UPDATE $ref SET r = 40 WHERE r = 4"))[2], '', 'actions of foreign keys are not refused just after the switch');
		is($c->safe_psql("SELECT count(*) FILTER (WHERE r = 3), count(*) FILTER (WHERE r = 40) FROM $table"), '0|10', 'and are made on the new node');
	}
	release('move_switched');
	$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs WHERE id = $job");
	is(($c->psql("DELETE FROM $table WHERE r = 5; DELETE FROM $ref WHERE r = 5; DELETE FROM $ref WHERE r = 20"))[2], '', "old rows do not keep those of reference tables $action");
	$reader->query_safe('COMMIT');
	$reader->quit;
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the old table is dropped');
}
# The process is killed before it drops them. Recovery does it, although it waits for the reader.
$c->safe_psql(q{CREATE TABLE of_alone (r int PRIMARY KEY);
	INSERT INTO of_alone SELECT generate_series(1, 20);
	SELECT shardfdw.create_reference_table('of_alone');
	CREATE TABLE alone (id date PRIMARY KEY, r int REFERENCES of_alone);
	SELECT shardfdw.shard_table('alone', shards => 1, nodes => '{node1}', colocate_with => NULL);
	INSERT INTO alone SELECT date '2000-01-01' + i, i FROM generate_series(1, 10) i});
my $old_reader = $c->coordinator->background_psql('postgres');
$old_reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1');
die_switched('alone', 'node2');
$c->wait_for(q{SELECT bool_or(action ~ 'may read the old tables')
	FROM shardfdw.recover_prepared_transactions()});
is(($c->psql('DELETE FROM alone WHERE r = 6; DELETE FROM of_alone WHERE r = 6'))[2], '',
	'old rows do not keep those of reference tables while recovery waits');
$old_reader->query_safe('COMMIT');
$old_reader->quit;
$c->wait_for(q{SELECT count(*) FILTER (WHERE action ~ '^not removed') = 0
	FROM shardfdw.recover_prepared_transactions()});
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');

done_testing();
