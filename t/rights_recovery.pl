# Code of a table's owner that never ends does not keep recovery from resolving prepared
# transactions, and a fake mark of an import does not make recovery run such code.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "shardfdw.recovery_interval = 1s\n");
my $prefix = $c->safe_psql(q{SELECT format('shardfdw:%s:%s:%s:%s:', system_identifier, database,
		identity, (extract(epoch FROM now() + interval '1 hour') * 1000000)::bigint)
	FROM shardfdw_internal.coordinator JOIN pg_control_system() s USING (system_identifier)
	WHERE taken_over_at IS NULL});
my $identity = $c->safe_psql('SELECT identity FROM shardfdw_internal.coordinator_identity()');
$c->node_safe_psql(1, 'CREATE TABLE probe (id int)');

# A transaction that did not commit is left prepared on node 1. Recovery resolves it.
my $nprepared = 0;
sub recovers
{
	my ($name) = @_;
	my $gid = $prefix . $c->safe_psql('SELECT pg_current_xact_id()') . ':' . ++$nprepared * 65536;
	$c->node_safe_psql(1, "BEGIN; INSERT INTO probe VALUES (1); PREPARE TRANSACTION '$gid'");
	ok($c->wait_for("SELECT count(*) = 0 FROM pg_prepared_xacts WHERE gid = '$gid'", 1), $name);
	return;
}

# ---- a mark that no job has made -----------------------------------------------------------------

# In the trap, a trigger sleeps.
$c->safe_psql(qq{CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner; SET ROLE owner;
	CREATE TABLE trap (i int); INSERT INTO trap VALUES (1);
	CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
		PERFORM pg_sleep(1000000); RETURN NULL; END \$\$;
	CREATE TRIGGER slow BEFORE TRUNCATE ON trap FOR EACH STATEMENT EXECUTE FUNCTION slow();
	CREATE TRIGGER shardfdw_import BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON trap
		FOR EACH STATEMENT WHEN (false)
		EXECUTE FUNCTION shardfdw_internal.refuse_write_of_import('999', '$identity', 'copying')});
recovers('a fake mark does not stop recovery');
recovers('nor in the next round');
is($c->safe_psql('SET statement_timeout = 60000; '
		. 'SELECT count(*) FROM shardfdw.recover_prepared_transactions()'),
	0, 'recovery by a superuser finds nothing of an import');
is($c->safe_psql('SELECT count(*) FROM trap'), 1, 'and leaves the table alone');

# A job of another table, or of another kind, does not match the mark either.
my $journal = q{INSERT INTO shardfdw_internal.job
	(id, kind, state, stage, tables, names, mode, role, pid, started) VALUES};
$c->safe_psql("$journal (999, 'import', 'failed', 'copying', ARRAY['pg_class'::regclass::oid],
	'{pg_class}', 'copy', 'owner'::regrole, 1, now())");
is($c->safe_psql('SELECT count(*) FROM shardfdw_internal.imports()'), 0, 'an import of another table');
$c->safe_psql("UPDATE shardfdw_internal.job SET kind = 'shard', tables = ARRAY['trap'::regclass::oid]");
is($c->safe_psql('SELECT count(*) FROM shardfdw_internal.imports()'), 0, 'a job of another kind');

# ---- an import of the journal --------------------------------------------------------------------

my $sleepers = q{SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
	WHERE backend_type = 'shardfdw recovery worker' AND wait_event = 'PgSleep'};
my $mark = $c->log_position;
$c->safe_psql("UPDATE shardfdw_internal.job SET kind = 'import'");
ok($c->wait_for("SELECT ($sleepers) IS NOT NULL"), 'recovery runs the trigger of the owner');
my $sleeper = $c->safe_psql($sleepers);
recovers('transactions are resolved at the same time');
is($c->safe_psql($sleepers), $sleeper, 'only one process runs such code');
ok($c->wait_for_log(qr/could not remove what jobs of role "owner" have left in tables/, $mark),
	'the code of the owner has a time limit');
is($c->safe_psql('SELECT count(*) FROM trap'), 1, 'the table is unchanged');

# A trigger that ends is no obstacle.
$c->safe_psql('ALTER TABLE trap DISABLE TRIGGER slow');
ok($c->wait_for('SELECT count(*) = 0 FROM trap'), 'recovery empties the table');
is($c->safe_psql(q{SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_import'}), 0,
	'and removes the mark');

done_testing();
