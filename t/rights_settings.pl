# Code of the owner of a table runs in a session of a superuser, with the rights of the owner: in
# check_cluster(), and when recovery removes what a job has left. Settings that this code changes
# must not last. With another search_path, the superuser's next statement would run code of the
# owner as superuser. PostgreSQL does the same for ANALYZE and similar commands.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->node_safe_psql($_, 'CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner') for 1, 2;
$c->safe_psql(q{CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner;
	GRANT CREATE ON SCHEMA public TO owner; GRANT USAGE ON FOREIGN SERVER node1, node2 TO owner});
$c->safe_psql("CREATE USER MAPPING FOR owner SERVER node$_
	OPTIONS (user 'owner', password_required 'false')") for 1, 2;
$c->safe_psql(q{SET ROLE owner; CREATE SCHEMA evil;
	CREATE FUNCTION evil.set_path(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN
		PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog, public', false);
		RETURN i; END$$;
	CREATE FUNCTION evil.set_path() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
		PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog, public', false);
		RETURN NULL; END$$;
	CREATE TABLE ref (k int PRIMARY KEY); INSERT INTO ref VALUES (1);
	SELECT shardfdw.create_reference_table('ref');
	SET shardfdw.enable_ddl_propagation = off;
	CREATE INDEX by_path ON ref (evil.set_path(1), k)});

# Runs statements in one session. Returns the session's search_path afterwards.
sub path_after
{
	my ($sql) = @_;
	my @lines = split /\n/, $c->safe_psql("$sql; SHOW search_path");
	return $lines[-1];
}

my $path = '"$user", public';
is(path_after('ANALYZE ref; REINDEX TABLE ref'), $path, 'commands of PostgreSQL');
is(path_after('SELECT count(*) FROM shardfdw.check_cluster()'), $path, 'check_cluster()');
is(path_after('SELECT count(*) FROM ref'), 'evil, pg_catalog, public',
	'a query as superuser runs the function: this test sees it');

# ---- what an import has left ---------------------------------------------------------------------

my $identity = $c->safe_psql('SELECT identity FROM shardfdw_internal.coordinator_identity()');
$c->safe_psql(qq{SET ROLE owner; CREATE TABLE left_table (i int);
	CREATE TRIGGER x BEFORE TRUNCATE ON left_table FOR EACH STATEMENT
		EXECUTE FUNCTION evil.set_path();
	CREATE TRIGGER shardfdw_import BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON left_table
		FOR EACH STATEMENT WHEN (false)
		EXECUTE FUNCTION shardfdw_internal.refuse_write_of_import('999', '$identity', 'copying')});
is(path_after(q{INSERT INTO shardfdw_internal.job
	(id, kind, state, stage, tables, names, mode, role, pid, started)
	VALUES (999, 'import', 'failed', 'copying', ARRAY['left_table'::regclass::oid],
		'{left_table}', 'copy', 'owner'::regrole, 1, now());
	SELECT count(*) FROM shardfdw.recover_prepared_transactions()}), $path, 'recovery');
is($c->safe_psql(q{SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_import'}), 0,
	'recovery has removed what the import has left');

# ---- forced flushes ------------------------------------------------------------------------------

# The end of a function restores settings, but the commit still waits for the disk.
my $before = $c->safe_psql('SELECT pg_current_wal_flush_lsn()');
$c->safe_psql(q{SET synchronous_commit = off; CREATE FUNCTION define() RETURNS void
	LANGUAGE plpgsql SET search_path = public AS $$BEGIN
		CREATE SERVER made FOREIGN DATA WRAPPER shardfdw OPTIONS (host 'nowhere'); END$$;
	SELECT define()});
is($c->safe_psql(qq{SELECT pg_current_wal_flush_lsn() > '$before'}), 't',
	'a definition in a function is on disk');

done_testing();
