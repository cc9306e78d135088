# Sets up several coordinators that are registered with each other. Tests writes to reference tables
# and the deadlocks between them, moves, cluster snapshots and restore points. Then coordinators crash
# in a commit, one is added while the others write, and one is lost.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardPeers;
use Test::More;

my $p = ShardPeers->new(coordinators => 3, nodes => 2, conf => "wal_level = replica\n", node_conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
my @all = $p->all;
my $c = $all[0];

$c->safe_psql(q{
	CREATE TABLE account (id int PRIMARY KEY, balance int);
	CREATE TABLE country (code int PRIMARY KEY, name text UNIQUE);
	CREATE TABLE town (id int PRIMARY KEY, country int REFERENCES country ON DELETE CASCADE, name text)});
$c->shard_table('account', 'id', shards => 4);
$c->safe_psql(q{SELECT shardfdw.create_reference_table('country'), shardfdw.create_reference_table('town');
	INSERT INTO country SELECT g, 'country ' || g FROM generate_series(0, 9) g; INSERT INTO town SELECT g, g % 10, 'town ' || g FROM generate_series(1, 100) g;
	INSERT INTO account SELECT g, 100 FROM generate_series(1, 1000) g});
$p->add_all;
$p->all_alike('at the beginning', rows => 1);
$p->same('SELECT count(*), sum(country) FROM town', '100|450', 'rows of reference tables come along');

# ---------- reference tables ----------

my @writes = (
	'INSERT' => q{INSERT INTO country VALUES (10, 'ten'), (11, 'eleven')},
	'UPDATE' => q{UPDATE country SET name = upper(name) WHERE code < 5},
	'UPDATE of a key' => q{UPDATE town SET id = id + 1000 WHERE id <= 10},
	'DELETE with what refers to it' => 'DELETE FROM country WHERE code = 3',
	'ON CONFLICT' => q{INSERT INTO country VALUES (10, 'TEN'), (12, 'twelve') ON CONFLICT (code) DO UPDATE SET name = excluded.name},
	'COPY' => "COPY country FROM STDIN;\n20\ttwenty\n21\ttwenty-one\n\\.\n",
	'TRUNCATE' => 'TRUNCATE country, town',
	'a transaction' => q{BEGIN; INSERT INTO country VALUES (1, 'one'); SAVEPOINT s; INSERT INTO country VALUES (2, 'two'); ROLLBACK TO s; INSERT INTO country VALUES (3, 'three'); UPDATE account SET balance = balance + 1; COMMIT},
);
for (my $i = 0; $i < @writes; $i += 2)
{
	$all[ ($i / 2 + 1) % @all ]->safe_psql($writes[ $i + 1 ]);
	my $expected = $c->safe_psql('SELECT count(*), sum(code), md5(string_agg(name, $$,$$ ORDER BY code)), (SELECT md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM town t) FROM country');
	$p->same('SELECT count(*), sum(code), md5(string_agg(name, $$,$$ ORDER BY code)), (SELECT md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM town t) FROM country', $expected, "$writes[$i] reaches all");
	$p->all_alike($writes[$i], rows => 1, by => $i / 2 + 2);
}
# the nodes' tables are locked when those of all coordinators are: the session waits for readers on
# another coordinator
my $reader = $all[2]->coordinator->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM account WHERE false');
my $altering = $all[0]->start_sql('ALTER TABLE account ADD COLUMN extra int; ALTER TABLE account DROP COLUMN extra');
$all[2]->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'account'::regclass AND NOT granted)});
is($reader->query_safe('SELECT count(*) FROM account'), '1000', 'a reader goes on');
$reader->query_safe('COMMIT');
is(($all[0]->wait_sql($altering))[2], '', 'and the statement comes after it');
$reader->query_safe('BEGIN; SELECT count(*) FROM account WHERE false');
my $emptying = $all[0]->start_sql('BEGIN; TRUNCATE account; ROLLBACK');
$all[2]->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'account'::regclass AND NOT granted)});
is($reader->query_safe('SELECT count(*) FROM account'), '1000', 'beside a TRUNCATE, too');
$reader->query_safe('COMMIT');
is(($all[0]->wait_sql($emptying))[2], '', 'which comes after it');
$c->safe_psql('CREATE SCHEMA tenant');
$c->safe_psql(q{SELECT shardfdw.shard_schema('tenant', 'node1'); CREATE TABLE tenant.item (id int); INSERT INTO tenant.item VALUES (1)});
$reader->query_safe('BEGIN; SELECT count(*) FROM tenant.item WHERE false');
my $renaming = $all[0]->start_sql('ALTER SCHEMA tenant RENAME TO renter');
$all[2]->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'tenant.item'::regclass AND NOT granted)});
is($reader->query_safe('SELECT count(*) FROM tenant.item'), '1', 'and beside a new name of a schema');
$reader->query_safe('COMMIT');
is(($all[0]->wait_sql($renaming))[2], '', 'which comes after it');
$p->same('SELECT count(*) FROM renter.item', '1', 'and is everywhere');
$c->safe_psql('DROP SCHEMA renter CASCADE');
$reader->quit;

# A session cannot avoid the other coordinators by claiming to follow one of them.
$all[1]->safe_psql(q{SET shardfdw.follows_coordinator = on; INSERT INTO country VALUES (70, 'by himself')});
$all[1]->safe_psql(q{SELECT shardfdw_internal.follow_coordinator((SELECT identity FROM shardfdw.coordinators WHERE name = 'c1'), 'DELETE FROM country WHERE code = 70', CURRENT_USER, '{}')});
$p->all_alike('one who says that he follows', rows => 1);
$all[1]->psql_fails_like(q{INSERT INTO country VALUES (1, 'again')}, qr/duplicate key value/, 'a key that is there');
$all[2]->psql_fails_like(q{BEGIN; INSERT INTO country VALUES (5, 'five'); SELECT 1 / 0}, qr/division by zero/, 'a transaction that fails');
$p->same('SELECT string_agg(name, $$,$$ ORDER BY code) FROM country', 'one,three', 'leaves nothing');

# all write at the same time, each its own rows
my @runs = map { my $i = $_; $all[$i]->start_sql(join ";\n", map { 'INSERT INTO country VALUES (' . (100 * ($i + 1) + $_) . ", 'c$i-$_')" } 1 .. 20) } 0 .. $#all;
is(($all[$_]->wait_sql($runs[$_]))[2], '', 'INSERT by all at once, coordinator ' . ($_ + 1)) for 0 .. $#all;
$p->same('SELECT count(*), count(DISTINCT name) FROM country', '62|62', 'all rows');
$p->all_alike('after all have written', rows => 1);

# The same rows of two tables, in different orders: the transactions must run one after the other,
# and none may wait indefinitely.
my @same = map {
	$all[$_]->start_sql(join ";\n", "SET lock_timeout = '60s'", map { "BEGIN; UPDATE country SET name = name || '' WHERE code IN (101, 201); UPDATE country SET name = name || '.' WHERE code = 301; COMMIT" } 1 .. 15)
} 0 .. $#all;
is(($all[$_]->wait_sql($same[$_]))[2], '', 'UPDATE of the same rows by all at once, coordinator ' . ($_ + 1)) for 0 .. $#all;
$p->same('SELECT name FROM country WHERE code = 301', 'c2-1' . '.' x 45, 'each counts');
$p->all_alike('after all have changed the same rows', rows => 1);

# Two transactions have rows that the other one wants. The deadlock is found, wherever it is.
my %holds = (
	'rows of two reference tables' => [ q{UPDATE country SET name = name WHERE code = 101}, q{DELETE FROM town WHERE id = 9001} ],
	'a row of a shard and a reference table' => [ q{UPDATE account SET balance = balance WHERE id = 1}, q{UPDATE country SET name = name WHERE code = 101} ],
	'a definition and a row of a shard' => [ q{UPDATE account SET balance = balance WHERE id = 2}, q{ALTER TABLE country ADD COLUMN waited int} ],
);
for my $name (sort keys %holds)
{
	my ($first, $second) = @{ $holds{$name} };
	my @ends = map { my $i = $_; $all[$i]->start_sql("SET deadlock_timeout = '100ms'; SET statement_timeout = '60s'; BEGIN; " . ($i == 1 ? $first : $second) . '; SELECT pg_sleep(1.5); ' . ($i == 1 ? $second : $first) . '; ROLLBACK') } 1, 2;
	my $errors = join '', map { ($all[ $_ + 1 ]->wait_sql($ends[$_]))[2] } 0, 1;
	like($errors, qr/deadlock detected/, "a deadlock is found: $name");
	unlike($errors, qr/statement timeout/, "and by nothing else: $name");
}
$p->all_alike('after deadlocks', rows => 1);

# Each session waits for a lock on its coordinator that the other coordinator's session holds. A
# recovery worker must find the deadlock.
$_->safe_psql("ALTER SYSTEM SET shardfdw.recovery_interval = '1s'; SELECT pg_reload_conf()") for @all;
$c->safe_psql('CREATE TABLE one (a int); CREATE TABLE two (a int)');
my @crosswise = map { $all[ $_->[0] ]->start_sql("SET statement_timeout = '100s'; BEGIN; ALTER TABLE $_->[1] ADD b int; SELECT pg_sleep(2); SELECT count(*) FROM $_->[2]; ROLLBACK") } [ 0, 'one', 'two' ], [ 1, 'two', 'one' ];
my $ended = join '', map { ($all[$_]->wait_sql($crosswise[$_]))[2] } 0, 1;
like($ended, qr/canceling statement due to user request/, 'definitions changed crosswise: one is canceled');
unlike($ended, qr/timeout/, 'and none waits for ever');
# Later parts call recovery themselves.
$_->safe_psql('ALTER SYSTEM RESET shardfdw.recovery_interval; SELECT pg_reload_conf()') for @all;

# Rows that one coordinator has locked are locked for all, and rows that a foreign key needs cannot
# be deleted.
my $locker = $all[0]->coordinator->background_psql('postgres');
$c->safe_psql(q{CREATE FUNCTION hold_country(int) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN name FROM country WHERE code = $1 FOR UPDATE; END$$});
for ('SELECT count(*) FROM (SELECT 1 FROM country WHERE code = 101 FOR UPDATE) x', 'SELECT hold_country(101)', q{INSERT INTO town VALUES (9002, 101, 'refers')})
{
	$locker->query_safe("BEGIN; $_");
	my $waiter = $all[1]->start_sql('DELETE FROM town WHERE id = 9002; BEGIN; SELECT code FROM country WHERE code = 101 FOR SHARE; DELETE FROM country WHERE code = 101 RETURNING name; ROLLBACK');
	$c->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 6 AND NOT granted)});
	$locker->query_safe('COMMIT');
	is(join('|', ($all[1]->wait_sql($waiter))[ 1, 2 ]), "101\nc0-1|", "another coordinator waits for $_");
}
$locker->quit;
$p->all_alike('after locks', rows => 1);

# a session that has the turn sees all that sessions before it have written
$c->safe_psql('CREATE TABLE receipt (number int PRIMARY KEY)');
$c->safe_psql(q{SELECT shardfdw.create_reference_table('receipt')});
my @numbering = map { $_->start_sql(join "\n", ("BEGIN; SELECT hold_country(101); INSERT INTO receipt SELECT coalesce(max(number), 0) + 1 FROM receipt; COMMIT;") x 40) } @all;
is(($all[$_]->wait_sql($numbering[$_]))[2], '', 'numbers without gaps, coordinator ' . ($_ + 1)) for 0 .. $#all;
$p->same('SELECT count(*), max(number) FROM receipt', '120|120', 'each is given once');
$c->safe_psql('DROP TABLE receipt');
$c->safe_psql(q{INSERT INTO country SELECT g, 'refuge ' || g FROM generate_series(30001, 30040) g});
my @racing = (
	$all[1]->start_sql(join "\n", map { "DO \$\$BEGIN DELETE FROM country WHERE code = $_; END\$\$;" } 30_001 .. 30_040),
	$all[2]->start_sql(join "\n", map { "DO \$\$BEGIN INSERT INTO town VALUES ($_, $_, 'racing'); EXCEPTION WHEN foreign_key_violation THEN NULL; END\$\$;" } 30_001 .. 30_040));
is(($all[ $_ + 1 ]->wait_sql($racing[$_]))[2], '', 'DELETE of rows beside INSERT of rows that refer to them') for 0, 1;
$p->same('SELECT count(*) FROM town WHERE NOT EXISTS (SELECT FROM country c WHERE c.code = town.country)', '0', 'no row refers to nothing');

# also if the first coordinator has committed, and the changes for the other coordinator are still
# prepared there
$c->safe_psql(q{INSERT INTO country VALUES (30050, 'refuge')});
my $following = q{BEGIN; SELECT shardfdw_internal.begin_following((SELECT identity FROM shardfdw.coordinators WHERE name = 'c1')); SET LOCAL session_replication_role = replica};
$all[1]->safe_psql("$following; INSERT INTO town VALUES (30050, 30050, 'prepared'); PREPARE TRANSACTION 'town'");
my $leaving = $all[1]->start_sql('BEGIN; SELECT FROM country WHERE code = 30050 FOR UPDATE; SELECT count(*) FROM town WHERE country = 30050; ROLLBACK');
$all[1]->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 6 AND NOT granted)});
$all[1]->safe_psql(q{COMMIT PREPARED 'town'});
like(($all[1]->wait_sql($leaving))[1], qr/^\s*1$/, 'a row that is prepared is waited for, and seen');
$all[1]->safe_psql("$following; DELETE FROM town WHERE id = 30050; COMMIT");

# a right to one column is one to its turn
for my $one (@all) { $one->safe_psql('CREATE ROLE clerk LOGIN'); }
$c->safe_psql(q{GRANT SELECT, UPDATE (name) ON country TO clerk;} . join '', map { "GRANT USAGE ON FOREIGN SERVER $_ TO clerk; CREATE USER MAPPING FOR clerk SERVER $_ OPTIONS (user '" . (/^c/ ? 'clerk' : 'postgres') . "', password_required 'false');" } qw(c1 c2 c3 node1 node2));
is($all[1]->safe_psql('SET ROLE clerk; SELECT count(*) FROM (SELECT FROM country WHERE code = 101 FOR UPDATE) x'), '1', 'who may change a column may lock rows');
for my $one (@all) { $one->safe_psql('GRANT SET ON PARAMETER session_replication_role TO clerk'); }
$c->safe_psql('REVOKE ALL ON country FROM clerk; REVOKE UPDATE (name) ON country FROM clerk; GRANT SELECT, INSERT, DELETE ON town TO clerk');
is($all[1]->safe_psql('SET ROLE clerk; INSERT INTO town VALUES (30060, 101, $$clerk$$) RETURNING id; DELETE FROM town WHERE id = 30060'), '30060', 'who may write to a table needs no right to those to which it refers');

# ---------- moves, while the others use the table ----------

my @clients = map {
	$_->start_sql(q{
		CREATE TEMP TABLE seen (n bigint, total bigint);
		DO $$
		BEGIN
			FOR i IN 1..400 LOOP
				UPDATE account SET balance = balance - 1 WHERE id = i * 7 % 1000 + 1;
				UPDATE account SET balance = balance + 1 WHERE id = i * 11 % 1000 + 1;
				INSERT INTO seen SELECT count(*), 0 FROM account;
				COMMIT;
			END LOOP;
		END $$;
		SELECT DISTINCT n FROM seen;})
} @all;
for my $i (0 .. 3)
{
	my $by = $all[ $i % @all ];
	my $shard = $by->safe_psql("SELECT shard FROM shardfdw.shards WHERE relation = 'account'::regclass ORDER BY shard::text OFFSET $i LIMIT 1");
	my $to = $by->safe_psql("SELECT CASE node WHEN 'node1' THEN 'node2' ELSE 'node1' END FROM shardfdw.shards WHERE shard = '$shard'::regclass");
	$by->safe_psql("SELECT shardfdw.move_shard('$shard', '$to')");
	$p->same("SELECT node FROM shardfdw.shards WHERE shard = '$shard'::regclass", $to, "a shard that was moved ($i)");
}
$all[1]->safe_psql(q{SELECT shardfdw.split_shard('account_01')});
for my $i (0 .. $#all)
{
	my (undef, $out, $err) = $all[$i]->wait_sql($clients[$i]);
	is($err, '', 'no error beside moves and a split, coordinator ' . ($i + 1));
	is($out, '1000', 'and all rows each time');
}
$p->same('SELECT count(*), sum(balance) FROM account', '1000|101000', 'nothing lost');
$p->all_alike('after moves and a split', rows => 1);
is(join(' ', map { $c->node_safe_psql($_, q{SELECT count(*) FROM pg_prepared_xacts}) } 1, 2), '0 0', 'nothing stays prepared');

# a move locks shards as a statement that changes them does: coordinators in the order of their names
my $writing = $all[0]->coordinator->background_psql('postgres');
my ($locked, $elsewhere_now) = split /\|/, $c->safe_psql(q{SELECT shard, CASE node WHEN 'node1' THEN 'node2' ELSE 'node1' END FROM shardfdw.shards WHERE relation = 'account'::regclass ORDER BY shard::text LIMIT 1});
for my $by (0, 1)
{
	$writing->query_safe('BEGIN; LOCK TABLE account IN ROW EXCLUSIVE MODE');
	my $moving = $all[$by]->start_sql("SELECT shardfdw.move_shard('$locked', '$elsewhere_now')");
	$c->wait_for(qq{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '$locked'::regclass AND NOT granted)});
	is($all[2]->safe_psql(qq{SELECT count(*) FROM pg_locks WHERE relation = '$locked'::regclass AND mode = 'AccessExclusiveLock'}), '0', 'a move that waits for the first coordinator has locked no later one, coordinator ' . ($by + 1));
	$writing->query_safe('COMMIT');
	is(($all[$by]->wait_sql($moving))[2], '', 'and comes to its end');
	$elsewhere_now = $elsewhere_now eq 'node1' ? 'node2' : 'node1';
}
$writing->quit;

# The process of a move is killed while a transaction of another coordinator may read the old table.
my $old_reader = $all[1]->coordinator->background_psql('postgres');
$old_reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $killed = $c->safe_psql("SELECT shardfdw.move_shard('$locked', '$elsewhere_now', wait => false)");
$c->wait_for("SELECT waits_for LIKE 'transactions on coordinator%' FROM shardfdw.jobs WHERE id = $killed");
$c->safe_psql("SELECT pg_terminate_backend(pid, 60000) FROM shardfdw.jobs WHERE id = $killed");
my $recover = 'shardfdw.recover_prepared_transactions()';
my $old_table = "SELECT count(*) FROM pg_class WHERE relname = '$locked' AND relkind = 'r'";
my $old_node = $elsewhere_now eq 'node1' ? 2 : 1;
# the recovery worker may be at work on the same job
$c->wait_for("SELECT EXISTS (SELECT FROM $recover
	WHERE action ~ 'not removed: what job $killed has left: transactions that began')");
is($c->node_safe_psql($old_node, $old_table), '1', 'recovery keeps the old table');
$old_reader->query_safe('COMMIT');
$old_reader->quit;
for (1 .. 1000)
{
	$c->safe_psql("SELECT count(*) FROM $recover");
	last if $c->node_safe_psql($old_node, $old_table) eq '0';
}
is($c->node_safe_psql($old_node, $old_table), '0', 'and drops it afterwards');

# ---------- snapshots over all nodes, and restore points ----------

# Transfers from node to node through all coordinators in parallel. Each cluster snapshot of each
# coordinator must have the sum.
my $sum = $c->safe_psql('SELECT sum(balance) FROM account');
my @transfers = map {
	my $seed = $_;
	$all[$_]->start_sql(qq{
		DO \$\$
		BEGIN
			FOR i IN 1..150 LOOP
				UPDATE account SET balance = balance - CASE id WHEN i + $seed * 300 THEN 5 ELSE -5 END WHERE id IN (i + $seed * 300, 1000 - i - $seed);
				COMMIT;
			END LOOP;
		END \$\$})
} 0 .. $#all;
my @audits = map {
	$_->start_sql(q{
		SET shardfdw.snapshot = 'cluster';
		CREATE TEMP TABLE seen (total bigint);
		DO $$BEGIN FOR i IN 1..40 LOOP INSERT INTO seen SELECT sum(balance) FROM account; COMMIT; END LOOP; END$$;
		SELECT string_agg(DISTINCT total::text, ' ') FROM seen})
} @all;
my @points = map { $all[ $_ % @all ]->safe_psql("SELECT shardfdw.create_restore_point('p$_')") } 0 .. 5;
for my $i (0 .. $#all)
{
	is(($all[$i]->wait_sql($transfers[$i]))[2], '', 'transfers, coordinator ' . ($i + 1));
	my (undef, $out, $err) = $all[$i]->wait_sql($audits[$i]);
	is($err, '', 'cluster snapshots meanwhile, coordinator ' . ($i + 1));
	is($out, $sum, 'none has a part of a transaction of any coordinator');
}
is(scalar(@points), 6, 'restore points are set meanwhile');
is($c->safe_psql(q{SELECT string_agg(coalesce(node::text, '-'), ' ' ORDER BY node) FROM shardfdw.restore_points WHERE name = 'p0'}), 'c2 c3 node1 node2 -', 'on all servers');

# errors of another coordinator are reported unchanged
my $marker = $all[1]->coordinator->data_dir . '/shardfdw_fault_restore_point_closed';
# The session may be ended while it still closes its snapshot barrier. The restore point is then
# tried again, so this test tries again, too.
my $told = '';
for (1 .. 10)
{
	append_to_file($marker, '');
	# started beforehand, because the other coordinator keeps its fence closed for two seconds only
	my $ending = $c->start_sql(q{DO $$BEGIN LOOP
		PERFORM pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND objsubid = 4;
		EXIT WHEN FOUND;
		PERFORM pg_sleep(0.01);
		END LOOP; END$$});
	$c->wait_for(q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'DO %pg_terminate_backend%' AND pid <> pg_backend_pid())});
	my $broken = $all[1]->start_sql(q{SET shardfdw.fault_points = 'restore_point_closed=wait'; SELECT shardfdw.create_restore_point('broken')});
	$c->wait_sql($ending);
	unlink $marker;
	$told = ($all[1]->wait_sql($broken))[2];
	last if $told ne '';
}
# If the ended session had not read all that was sent to it, TCP resets the connection. The reset can
# discard the message of the ended session. Then the error names the coordinator and the lost connection.
like($told, qr/ERROR:  (?:terminating connection due to administrator command|lost connection to node "c1")/,
	'the error says that a session on another coordinator was ended, or that its connection is lost');

# a coordinator that has been stopped for longer than the others keep their fences closed has no
# restore point
$all[1]->psql_fails_like(q{SET shardfdw.fault_points = 'restore_point_sent=sleep:3000'; SELECT shardfdw.create_restore_point('lost')}, qr/55P03.*too slow to set restore point "lost"/s, 'fences that were opened meanwhile');
is($all[1]->safe_psql(q{SELECT count(*) FROM shardfdw.restore_points WHERE name = 'lost'}), '0', 'no such point is noted');

# ---------- crashes in a commit over coordinators ----------

my $n = 0;
for my $point (qw(prepare prepare_sent prepared commit commit_sent settle_coordinators settle_first_coordinator committed))
{
	for my $kind (qw(abort error))
	{
		my $by = $all[ $n % @all ];
		my $column = 'x' . $n++;

		$by->psql("SET shardfdw.fault_points = '$point=$kind'; BEGIN; ALTER TABLE account ADD COLUMN $column int; INSERT INTO country VALUES (" . (1000 + $n) . ", '$column'); COMMIT");
		$by->wait_for_restart if $kind eq 'abort';
		$_->wait_for('SELECT NOT pg_is_in_recovery()') for @all;
		for my $one (@all)
		{
			$one->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()');
		}
		my $seen = join ' ', map { $_->safe_psql("SELECT (SELECT count(*) FROM pg_attribute WHERE attrelid = 'account'::regclass AND attname = '$column') || '-' || (SELECT count(*) FROM country WHERE name = '$column')") } @all;
		like($seen, qr/^(0-0 0-0 0-0|1-1 1-1 1-1)$/, "$kind at $point: all have it, or none");
		is(join(' ', map { $_->safe_psql('SELECT count(*) FROM pg_prepared_xacts') } @all), '0 0 0', 'nothing stays prepared');
	}
}
$p->all_alike('after crashes', rows => 1);

# ---------- a coordinator is added while other sessions work ----------

# add_coordinator() waits for transactions that have begun before; later ones also change the new
# coordinator
my $fourth = ShardCluster->new(nodes => 0, extension => 0, preload => 1, coordinator_conf => "wal_level = replica\n");
push @{ $p->{all} }, $fourth;
$fourth->safe_psql('CREATE ROLE clerk LOGIN');
push @all, $fourth;
$p->restore(4);
my $early = $all[1]->start_sql(q{BEGIN; CREATE TABLE early (a int); SELECT pg_sleep(2); COMMIT});
$all[1]->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 7)});
my $adding = $c->start_sql("SELECT shardfdw.add_coordinator('c4', " . $p->address(4) . ')');
like(($c->wait_sql($adding))[2], qr/definitions are not those of this one.*table public\.early is here, but not there/s, 'a change that was under way is waited for, and seen');
$all[1]->wait_sql($early);
$fourth->coordinator->safe_psql('template1', $_) for 'DROP DATABASE postgres WITH (FORCE)', 'CREATE DATABASE postgres';
$p->restore(4);
# an index that is made concurrently has let go of the list of coordinators; it reaches the new one all the same
my $using = $all[1]->coordinator->background_psql('postgres');
$using->query_safe('BEGIN; INSERT INTO early VALUES (1)');
my $indexing = $all[1]->start_sql('CREATE INDEX CONCURRENTLY early_a ON early (a)');
$all[1]->wait_for(q{SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE phase = 'waiting for writers before build')});
# a crash in its commit must not prevent the next attempt, or other changes
$c->psql("SET shardfdw.fault_points = 'prepared=abort'; SELECT shardfdw.add_coordinator('c4', " . $p->address(4) . ')');
$c->wait_for_restart;
is($fourth->safe_psql('SELECT count(*) FROM pg_prepared_xacts'), '1', 'an addition that was interrupted');
my @busy = map { my $i = $_; $all[$i]->start_sql(join ";\n", map { 'INSERT INTO country VALUES (' . (20_000 + 100 * $i + $_) . ", 'busy $i-$_')" } 1 .. 30) } 1, 2;
$c->safe_psql("SELECT shardfdw.add_coordinator('c4', " . $p->address(4) . ')');
is(($all[ $_ + 1 ]->wait_sql($busy[$_]))[2], '', 'writers of a reference table go on') for 0, 1;
$p->same(q{SELECT count(*) FROM country WHERE name LIKE 'busy%'}, '60', 'all of their rows are there');
$using->query_safe('COMMIT');
$using->quit;
is(($all[1]->wait_sql($indexing))[2], '', 'an index that was begun before');
$p->same(q{SELECT to_regclass('early_a') IS NOT NULL}, 't', 'is there');
$all[1]->safe_psql('DROP INDEX CONCURRENTLY early_a');
$p->same(q{SELECT to_regclass('early_a') IS NOT NULL}, 'f', 'and is dropped everywhere');
$p->all_alike('with a fourth one', rows => 1);
$c->safe_psql(q{SELECT shardfdw.remove_coordinator('c4')});
pop @all;
pop @{ $p->{all} };

# ---------- a coordinator is lost ----------

$c->psql_fails_like('DROP SERVER c3 CASCADE', qr/55000.*server "c3" stands for a coordinator/s, 'remove_coordinator() is the way');

$all[2]->coordinator->stop('immediate');
$c->psql_fails_like('ALTER TABLE account ADD COLUMN late int', qr/could not connect to node "c3"/, 'definitions do not change without all of them');
is($c->safe_psql('SELECT count(*) FROM account'), '1000', 'rows of sharded tables are read');
is($c->safe_psql('UPDATE account SET balance = balance WHERE id = 1 RETURNING id'), '1', 'and written');
$c->psql_fails_like(q{INSERT INTO country VALUES (5000, 'late')}, qr/could not connect to node "c3"/, 'those of reference tables are read only');
$c->safe_psql(q{SELECT shardfdw.remove_coordinator('c3')});
$c->safe_psql(q{ALTER TABLE account ADD COLUMN late int; INSERT INTO country VALUES (5000, 'late')});
my $lost = pop @all;
pop @{ $p->{all} };
$p->all_alike('without it', rows => 1);
$lost->coordinator->start;
$lost->psql_fails_like('ALTER TABLE account ADD COLUMN later int', qr/coordinator [0-9a-f]{16} is not among those that coordinator "c1" knows/, 'when it comes back it is refused');
$lost->psql_fails_like(q{INSERT INTO country VALUES (6000, 'later')}, qr/is not among those/, 'rows of reference tables, too');
$all[1]->psql_fails_like(q{SELECT shardfdw.remove_coordinator('c2')}, qr/coordinator "c2" is this one/, 'none removes itself');
$c->safe_psql(q{SELECT shardfdw.remove_coordinator('c2')});
is($c->safe_psql('SELECT string_agg(name, $$ $$) FROM shardfdw.coordinators'), 'c1', 'alone again');
# a coordinator that runs is refused, too
$all[1]->psql_fails_like($_, qr/coordinator [0-9a-f]{16} is not among those that coordinator "c1" knows/, "removed: $_")
  for 'ALTER TABLE account ADD COLUMN later int', q{INSERT INTO country VALUES (6000, 'later')}, q{SELECT shardfdw.add_coordinator('c5', 'nowhere')};
my ($placed, $elsewhere) = split /\|/, $all[1]->safe_psql(q{SELECT shard, CASE node WHEN 'node1' THEN 'node2' ELSE 'node1' END FROM shardfdw.shards WHERE relation = 'account'::regclass LIMIT 1});
$all[1]->psql_fails_like("SELECT shardfdw.move_shard('$placed', '$elsewhere')", qr/is not among those that coordinator "c1" knows/, 'removed: a move');
$c->safe_psql('ALTER TABLE account DROP COLUMN late');

# a new coordinator gets a share of sequences' values that no other one has had
$all[1]->coordinator->safe_psql('template1', $_) for 'DROP DATABASE postgres WITH (FORCE)', 'CREATE DATABASE postgres';
$p->add(2);
is($c->safe_psql(q{SELECT number FROM shardfdw.coordinators WHERE name = 'c2'}), '5', 'numbers are not given twice');
$p->all_alike('with one that was made anew', rows => 1);

done_testing();
