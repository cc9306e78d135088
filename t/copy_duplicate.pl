# COPY with ON_DUPLICATE. Whatever the size of chunks, the result must be as if the rows were loaded
# one by one, in the order of the input. Bad rows must be set aside at the same time. If a node
# lacks something that the load needs, the error must come before the load.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $in = "$dir/rows";

# The input, as a table with line numbers. Keys are repeated soon, late, or never; some are in the
# table already; some lines are bad.
$c->safe_psql(q{
	CREATE TABLE t (id int, part text, v int CHECK (v >= 0), line int, PRIMARY KEY (id, part));
	SELECT shardfdw.create_reject_table('rejects');
	CREATE TABLE input AS
	SELECT line, CASE WHEN line % 5 = 0 THEN line / 10 WHEN line % 7 = 0 THEN line - 3 WHEN line % 11 = 0 THEN 7 ELSE line END AS id,
		CASE WHEN line % 13 = 0 THEN 'b' ELSE 'a' END AS part, (line * 7) % 1000 AS v, line % 4001 = 0 AS bad
	FROM generate_series(1, 40000) line;
	CREATE TABLE old AS SELECT id, 'a' AS part, 1 AS v, 0 AS line FROM generate_series(1, 60000, 3) id});
$c->shard_table('t', 'id', shards => 6);
# The expected results with keep_old and with keep_new.
$c->safe_psql(q{
	CREATE TABLE kept_old AS SELECT * FROM old UNION ALL
	SELECT i.* FROM (SELECT DISTINCT ON (id, part) id, part, v, line FROM input WHERE NOT bad ORDER BY id, part, line) i LEFT JOIN old o USING (id, part) WHERE o.id IS NULL;
	CREATE TABLE kept_new AS SELECT DISTINCT ON (id, part) id, part, v, line FROM input WHERE NOT bad ORDER BY id, part, line DESC;
	INSERT INTO kept_new SELECT o.* FROM old o LEFT JOIN kept_new n USING (id, part) WHERE n.id IS NULL});
my $same = q{SELECT count(*) FROM ((TABLE t EXCEPT ALL TABLE %1$s) UNION ALL (TABLE %1$s EXCEPT ALL TABLE t)) x};
my $nbad = $c->safe_psql('SELECT count(*) FROM input WHERE bad');
my ($nold, $nnew) = map { $c->safe_psql("SELECT (SELECT count(*) FROM input WHERE NOT bad) + (SELECT count(*) FROM old) - count(*) FROM $_") } 'kept_old', 'kept_new';

for my $mode (
	[ 'small chunks, in order', "SET shardfdw.copy_buffer_size = '64kB'", 'FORMAT text', '' ],
	[ 'large chunks, several connections', 'SET shardfdw.max_connections_per_node = 4', 'FORMAT csv', '' ],
	[ 'parsed on the coordinator', "SET shardfdw.copy_buffer_size = '64kB'", 'FORMAT csv', 'WHERE id IS NOT NULL' ])
{
	my ($name, $set, $format, $where) = @$mode;
	my $load = "$set; COPY t FROM '$in' ($format, ON_ERROR ignore, REJECT_TABLE 'rejects', ON_DUPLICATE %s) $where";
	my ($rc, $err);

	$c->safe_psql("COPY (SELECT id, part, CASE WHEN bad THEN -1 ELSE v END, line FROM input ORDER BY line) TO '$in' ($format)");
	$c->safe_psql('TRUNCATE t; INSERT INTO t SELECT * FROM old; TRUNCATE rejects');
	($rc, undef, $err) = $c->psql(sprintf($load, 'keep_old'));
	is($rc, 0, "$name, keep_old: loads") || diag $err;
	like($err, qr/$nbad rows were rejected and $nold duplicates were left out/, "$name, keep_old: counts");
	is($c->safe_psql(sprintf($same, 'kept_old')), '0', "$name, keep_old: rows");
	is( $c->safe_psql(q{SELECT count(*) FROM input i FULL JOIN rejects r USING (line) LEFT JOIN t USING (line)
		WHERE (r.sqlstate = '23514') <> i.bad OR (r.line IS NULL) <> (t.line IS NOT NULL) OR i.line IS NULL
			OR split_part(translate(r.raw, ',', E'\t'), E'\t', 4)::int <> r.line}), '0', "$name, keep_old: every refused line, and no other, is in the table");

	$c->safe_psql('TRUNCATE t; INSERT INTO t SELECT * FROM old; TRUNCATE rejects');
	($rc, undef, $err) = $c->psql(sprintf($load, 'keep_new'));
	is($rc, 0, "$name, keep_new: loads") || diag $err;
	like($err, qr/$nbad rows were rejected and $nnew rows were replaced/, "$name, keep_new: counts");
	is($c->safe_psql(sprintf($same, 'kept_new')), '0', "$name, keep_new: rows");
	is($c->safe_psql(q{SELECT string_agg(line::text, ' ' ORDER BY line) FROM rejects}),
		$c->safe_psql(q{SELECT string_agg(line::text, ' ' ORDER BY line) FROM input WHERE bad}), "$name, keep_new: rejected lines");
}

# The second load changes nothing.
my ($rc, undef, $err) = $c->psql("COPY t FROM '$in' (FORMAT csv, ON_DUPLICATE keep_new, ON_ERROR ignore, LOG_VERBOSITY silent)");
is($err, '', 'silent');
is($c->safe_psql(sprintf($same, 'kept_new')), '0', 'the same load once more changes nothing');

# Triggers on the node: INSERT for new rows, UPDATE for rows that are replaced.
$c->safe_psql('CREATE TABLE u (id int PRIMARY KEY, v text)');
$c->shard_table('u', 'id', shards => 2);
for my $shard ($c->shards_of('u'))
{
	my ($name, $node) = @$shard;
	$c->node_safe_psql($node, "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.v := NEW.v || ' ' || lower(TG_OP); RETURN NEW; END \$\$;
		CREATE TRIGGER note BEFORE INSERT OR UPDATE ON $name FOR EACH ROW EXECUTE FUNCTION note()");
}
$c->safe_psql(q{COPY u FROM PROGRAM $$printf '1\ta\n2\tb\n'$$; COPY u FROM PROGRAM $$printf '1\tc\n3\td\n3\te\n'$$ (ON_DUPLICATE keep_new)});
is($c->safe_psql('SELECT id, v FROM u ORDER BY id') =~ s/\n/ /gr, '1|c update 2|b insert 3|e update', 'triggers of the node fire');

# If the node lacks something, the error comes before any row is loaded.
$c->node_safe_psql(2, 'DROP EXTENSION plpgsql CASCADE');
$c->psql_fails_like("COPY u FROM '/dev/null' (ON_DUPLICATE keep_old)", qr/ON_DUPLICATE lacks language plpgsql on node "node2"/, 'no PL/pgSQL');
$c->node_safe_psql(2, 'CREATE EXTENSION plpgsql');
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, 'CREATE ROLE loader LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC');
}
for my $shard ($c->shards_of('u'))
{
	my ($name, $node) = @$shard;
	$c->node_safe_psql($node, "GRANT INSERT, SELECT ON $name TO loader");
}
$c->safe_psql(q{CREATE ROLE loader LOGIN; GRANT INSERT, SELECT ON u TO loader; GRANT pg_read_server_files, pg_execute_server_program TO loader;
	CREATE USER MAPPING FOR loader SERVER node1 OPTIONS (user 'loader', password_required 'false');
	CREATE USER MAPPING FOR loader SERVER node2 OPTIONS (user 'loader', password_required 'false')});
$c->psql_fails_like("SET ROLE loader; COPY u FROM '/dev/null' (ON_DUPLICATE keep_old)", qr/ON_DUPLICATE lacks privilege CREATE on schema public on node "node[12]"/, 'no CREATE');
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, 'GRANT CREATE ON SCHEMA public TO loader');
}
$c->safe_psql(q{SET ROLE loader; COPY u FROM PROGRAM $$printf '1\tf\n7\tg\n'$$ (ON_DUPLICATE keep_old)});
is($c->safe_psql('SELECT id, left(v, 1) FROM u WHERE id IN (1, 7) ORDER BY id') =~ s/\n/ /gr, '1|c 7|g', 'keep_old needs the right to INSERT alone');
# The role on the node may have more rights than the role on the coordinator.
for my $shard ($c->shards_of('u'))
{
	my ($name, $node) = @$shard;
	$c->node_safe_psql($node, "GRANT UPDATE ON $name TO loader");
}
my $replace = q{SET ROLE loader; COPY u FROM PROGRAM $$printf '1\tf\n8\tg\n'$$ (ON_DUPLICATE keep_new)};
for my $granted ('', 'GRANT UPDATE (v) ON u TO loader', 'GRANT UPDATE ON u TO loader; REVOKE SELECT ON u FROM loader; GRANT SELECT (v) ON u TO loader')
{
	$c->safe_psql($granted) if $granted;
	$c->psql_fails_like($replace, qr/42501: permission denied for table u$/m, "keep_new needs UPDATE, and SELECT on keys: $granted");
}
$c->safe_psql("GRANT SELECT (id) ON u TO loader; BEGIN; $replace; ROLLBACK");
is($c->safe_psql('SELECT count(*) FROM u WHERE id = 8'), '0', 'nothing of that load stays');

for my $i (1 .. 2)
{
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'shardfdw%'}), '0', "no table of a load on node $i");
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_prepared_xacts}), '0', "no prepared transaction on node $i");
}
done_testing();
