# Runs writes that PostgreSQL 17 and 18 introduced, on sharded tables and on plain ones. Covers
# MERGE into views, WHEN NOT MATCHED BY SOURCE, SQL/JSON in MERGE, keys WITHOUT OVERLAPS, and OLD
# and NEW in RETURNING. Also tests constraints that 18 introduced, on reference tables, too.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c     = ShardCluster->new(nodes => 2, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
plan skip_all => 'needs PostgreSQL 17' if $major < 17;

# The same tables in schema s, sharded, and in schema p.
$c->safe_psql("CREATE SCHEMA $_; SET search_path = $_;
	CREATE TABLE m (k int PRIMARY KEY, v int);
	CREATE TABLE source (k int, v int);
	INSERT INTO m SELECT i, i * 10 FROM generate_series(1, 20) i;
	INSERT INTO source SELECT i, i FROM generate_series(5, 25) i") for qw(s p);
$c->shard_table('s.m', 'k', shards => 4);
$c->safe_psql("SET search_path = $_;
	CREATE VIEW below AS SELECT k, v FROM m WHERE v < 150;
	CREATE VIEW tenant AS SELECT k, v FROM below WHERE v > current_setting('my.tenant')::int;
	CREATE VIEW member AS SELECT k, v FROM m WHERE pg_has_role(current_user, 'pg_monitor', 'MEMBER');
	CREATE VIEW one_key AS SELECT k, v FROM m WHERE k = 17;
	CREATE VIEW from_select AS SELECT k, v FROM m WHERE v < (SELECT 75);
	CREATE VIEW volatile AS SELECT k, v FROM m WHERE v < 55 + random() * 0;
	CREATE VIEW checked AS SELECT k, v FROM m WHERE v < 150 WITH CHECK OPTION;
	CREATE VIEW barrier WITH (security_barrier) AS SELECT k, v FROM m WHERE v < 150") for qw(s p);
$c->safe_psql(q{
	CREATE ROLE guest;
	GRANT USAGE ON SCHEMA s, p TO guest;
	GRANT ALL ON s.member, p.member TO guest;
	CREATE FUNCTION outcome(place text, statement text, as_role text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		row record;
		rows text[] := '{}';
		n bigint;
		result text;
	BEGIN
		PERFORM set_config('search_path', place, true), set_config('my.tenant', '40', true);
		BEGIN
			PERFORM set_config('role', as_role, true);
			IF statement ~ 'RETURNING' THEN
				FOR row IN EXECUTE statement LOOP
					rows := rows || row::text;
				END LOOP;
			ELSE
				EXECUTE statement;
				GET DIAGNOSTICS n = ROW_COUNT;
			END IF;
			PERFORM set_config('role', 'none', true);
			result := format('%s rows, returned %s, now %s', n, ARRAY(SELECT x FROM unnest(rows) x ORDER BY x), ARRAY(SELECT m FROM m ORDER BY k));
			RAISE EXCEPTION 'undone' USING ERRCODE = 'UNDO1';
		EXCEPTION
			WHEN SQLSTATE 'UNDO1' THEN RETURN result;
			WHEN others THEN
				GET STACKED DIAGNOSTICS result = PG_EXCEPTION_DETAIL;
				RETURN concat_ws(' ', SQLSTATE, SQLERRM, CASE WHEN SQLSTATE = '0A000' THEN result END);
		END;
	END $$});

sub outcome
{
	my ($place, $statement, $role) = @_;
	my $text = $statement =~ s/'/''/gr;
	return $c->safe_psql("SELECT public.outcome('$place', '$text', '" . ($role // 'none') . "')");
}

# The statement does the same in both schemas.
sub same
{
	my ($statement, $role) = @_;
	is(outcome('s', $statement, $role), outcome('p', $statement, $role), $statement . ($role ? " as $role" : ''));
}

# The sharded table raises an error for a statement that works on the plain table.
sub refused
{
	my ($statement, $message) = @_;
	like(outcome('s', $statement), $message, "refused: $statement");
	unlike(outcome('p', $statement), qr/^[0-9A-Z]{5} /, 'and done on the plain table');
}

my $matched     = 'WHEN MATCHED THEN UPDATE SET v = q.v + s.v';
my $not_matched = 'WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)';
my $by_source   = 'WHEN NOT MATCHED BY SOURCE THEN DELETE';

# The view's condition selects the rows of the target.
for my $view (qw(below tenant member one_key))
{
	same("MERGE INTO $view q USING (SELECT 0 AS k WHERE false) s ON q.k = s.k $by_source");
	same("MERGE INTO $view q USING (VALUES (1, 2)) s (k, v) ON q.k = s.k $by_source");
	same("MERGE INTO $view q USING source s ON q.k = s.k $matched");
	same("MERGE INTO $view q USING source s ON q.k = s.k $matched $by_source");
	same("MERGE INTO $view q USING source s ON q.k = s.k WHEN NOT MATCHED BY SOURCE AND q.v > 30 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0");
	same("MERGE INTO $view q USING (SELECT k + 20 AS k, v FROM source) s ON q.k = s.k $matched $not_matched");
	same("MERGE INTO $view q USING (SELECT 7 AS k, 1 AS v) s ON q.k = s.k AND q.k = 7 $matched");
	same("MERGE INTO $view q USING (SELECT 2 AS k, 1 AS v) s ON q.k = s.k AND q.k = 2 $matched RETURNING merge_action(), q.*");
	same("WITH w AS (MERGE INTO $view q USING source s ON q.k = s.k $matched $by_source RETURNING merge_action(), q.k) SELECT * FROM w -- RETURNING");
}
# Values that the node computes for each row, next to values that the coordinator computes once.
same("MERGE INTO m q USING (SELECT 2 AS k) s ON q.k = s.k AND q.k = 2 WHEN MATCHED THEN DELETE RETURNING merge_action() || current_setting('my.tenant'), q.k + current_setting('my.tenant')::int");
same("MERGE INTO m q USING source s ON q.k = s.k $matched RETURNING merge_action() || current_setting('my.tenant'), q.k");
# A row outside of the view is not matched, and then its key exists already.
like(outcome('s', "MERGE INTO below q USING (SELECT 16 AS k, 1 AS v) s ON q.k = s.k $matched $not_matched"), qr/^23505/, 'a row outside of the view, inserted again');
same("MERGE INTO member q USING (SELECT 0 AS k WHERE false) s ON q.k = s.k $by_source", 'guest');
same("MERGE INTO from_select q USING source s ON q.k = s.k $matched");
same("MERGE INTO checked q USING source s ON q.k = s.k WHEN MATCHED THEN DELETE");
my $cannot = qr/^0A000 cannot run this MERGE on sharded table "m"/;
refused("MERGE INTO from_select q USING source s ON q.k = s.k $by_source", qr/$cannot WHEN NOT MATCHED BY SOURCE uses a sub-select/);
refused("MERGE INTO volatile q USING source s ON q.k = s.k $matched", qr/$cannot The condition of the view has a volatile function/);
refused("MERGE INTO barrier q USING source s ON q.k = s.k $matched", qr/$cannot It is subject to row security/);

# There is no source row for values that the coordinator would compute.
same("MERGE INTO m q USING source s ON q.k = s.k WHEN NOT MATCHED BY SOURCE AND q.v > current_setting('my.tenant')::int - 20 THEN UPDATE SET v = q.v + current_setting('my.tenant')::int");
for my $action ('AND q.v > (SELECT 5) THEN DELETE', 'AND q.v > random() THEN DELETE', 'THEN UPDATE SET v = (SELECT 3)', 'THEN UPDATE SET (v) = (SELECT 3)')
{
	refused("MERGE INTO m q USING source s ON q.k = s.k WHEN NOT MATCHED BY SOURCE $action", qr/$cannot WHEN NOT MATCHED BY SOURCE uses a sub-select/);
}

# SQL/JSON: over the source the coordinator computes it, nodes do not.
same("MERGE INTO m q USING source s ON q.k = s.k WHEN MATCHED THEN UPDATE SET v = JSON_VALUE(JSON_OBJECT('a': s.v RETURNING jsonb), '\$.a' RETURNING int DEFAULT 5 ON EMPTY)");
refused("MERGE INTO m q USING source s ON q.k = s.k WHEN MATCHED THEN UPDATE SET v = length($_)", qr/$cannot Nodes cannot compute the new value of column "v"/)
  for q{JSON_OBJECT('v': q.v)::text}, q{JSON_SERIALIZE(to_jsonb(q.v))}, q{JSON_ARRAY(q.v)::text}, q{JSON_QUERY(to_jsonb(q.v), '$')::text};
refused("MERGE INTO m q USING source s ON q.k = s.k WHEN MATCHED AND $_ THEN DELETE", qr/$cannot Nodes cannot compute a condition of WHEN/)
  for q{to_jsonb(q.v) IS JSON}, q{JSON_EXISTS(to_jsonb(q.v), '$')};

SKIP:
{
	skip 'needs PostgreSQL 18', 1 if $major < 18;

	# OLD and NEW: columns, and whole rows if a node runs the statement.
	same('INSERT INTO m VALUES (1, 1), (100, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING old.v, new.v, old.k IS NULL');
	same('INSERT INTO m VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING old.v, new.v');
	same('UPDATE m SET v = v + 1 RETURNING to_jsonb(old), new, old IS NULL');
	same('UPDATE m SET v = v + 1 WHERE k = 3 RETURNING to_jsonb(old), new, old IS NULL');
	same("UPDATE m SET v = v + 1$_ RETURNING old.xmin <> new.xmin, old.ctid <> new.ctid") for '', ' WHERE k = 3';
	same('DELETE FROM m WHERE v + random() * 0 > 50 RETURNING old.xmin = xmin, new.xmin IS NULL, old.ctid = ctid');
	refused("UPDATE m SET v = v + random() * 0 RETURNING k, old.$_", qr/^0A000 cannot return a system column of the old row of "m"/) for qw(xmin ctid cmin);
	same('INSERT INTO m VALUES (1, 1), (100, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING k, old.xmin IS NULL, new.xmax = 0');
	refused('INSERT INTO m VALUES (1, 1), (100, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING to_jsonb(old)', qr/^0A000 .* There is an old or new row as a whole in RETURNING/);
	refused('MERGE INTO m q USING source s ON q.k = s.k WHEN MATCHED THEN DELETE RETURNING old IS NULL', qr/$cannot There is an old or new row as a whole in RETURNING/);

	# A key WITHOUT OVERLAPS.
	$c->safe_psql("CREATE TABLE $_.stay (room int4range, during daterange, PRIMARY KEY (room, during WITHOUT OVERLAPS));
		INSERT INTO $_.stay VALUES ('[1,2)', '[2026-01-01,2026-02-01)'), ('[2,3)', '[2026-01-01,2026-02-01)')") for qw(s p);
	$c->shard_table('s.stay', 'room', shards => 3);
	for my $rows ("VALUES ('[1,2)'::int4range, '[2026-01-10,2026-01-20)'::daterange)", "VALUES ('[1,2)'::int4range, '[2026-01-10,2026-01-20)'::daterange), ('[2,3)', '[2026-03-10,2026-03-20)')", 'SELECT * FROM stay')
	{
		same("INSERT INTO stay $rows ON CONFLICT DO NOTHING RETURNING *");
		refused("INSERT INTO stay $rows ON CONFLICT ON CONSTRAINT stay_pkey DO NOTHING", qr/^0A000 .* Constraint "stay_pkey" is WITHOUT OVERLAPS/);
	}

	# Statements that are not undone end the same in both schemas.
	my $both = sub {
		my ($statement) = @_;
		my ($in_s, $in_p) = map { ($c->psql("SET search_path = $_; $statement"))[2] =~ /(ERROR: .*)/ ? $1 : 'done' } qw(s p);
		is($in_s, $in_p, $statement);
	};
	# Rows of a table and of its replicas on the nodes.
	my $rows_of = sub { return join ' ', map { $_->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY t) FROM $_[0] t") } $c->coordinator, $_[1] ? $c->nodes : () };

	# Reference tables with keys WITHOUT OVERLAPS, foreign keys with PERIOD, and NOT NULL
	# constraints that some rows violate.
	$c->safe_psql("SET search_path = $_;
		CREATE TABLE lease (room int4range, during daterange, v int, CONSTRAINT lease_key PRIMARY KEY (room, during WITHOUT OVERLAPS));
		CREATE TABLE visit (id int PRIMARY KEY, room int4range, during daterange, CONSTRAINT visit_room FOREIGN KEY (room, PERIOD during) REFERENCES lease (room, PERIOD during))") for qw(s p);
	$c->safe_psql("SELECT shardfdw.create_reference_table('s.$_')") for qw(lease visit);
	$both->($_) for "INSERT INTO lease VALUES ('[1,2)', '[2026-01-01,2026-02-01)', 1), ('[1,2)', '[2026-02-01,2026-03-01)', 2), ('[2,3)', '[2026-01-01,2026-02-01)', 3)",
	  "INSERT INTO lease VALUES ('[1,2)', '[2026-01-15,2026-04-01)', 4)", "INSERT INTO lease VALUES ('[1,2)', 'empty', 4)",
	  "INSERT INTO lease VALUES ('[1,2)', '[2026-01-15,2026-04-01)', 4), ('[3,4)', '[2026-01-01,2026-02-01)', 5) ON CONFLICT DO NOTHING",
	  "INSERT INTO lease VALUES ('[1,2)', '[2026-01-15,2026-04-01)', 4) ON CONFLICT ON CONSTRAINT lease_key DO NOTHING",
	  "UPDATE lease SET v = v + 10 WHERE room = '[1,2)'", "UPDATE lease SET during = '[2026-01-01,2026-02-10)' WHERE v = 11", "UPDATE lease SET during = '[2026-04-01,2026-05-01)' WHERE v = 3",
	  "INSERT INTO visit VALUES (1, '[1,2)', '[2026-01-10,2026-02-20)')", "INSERT INTO visit VALUES (2, '[1,2)', '[2026-02-10,2026-03-20)')",
	  "DELETE FROM lease WHERE v = 12", "UPDATE lease SET during = '[2026-02-01,2026-02-10)' WHERE v = 12", "UPDATE lease SET during = '[2026-02-01,2026-02-25)' WHERE v = 12",
	  "DELETE FROM lease WHERE v = 3", "ALTER TABLE visit DROP CONSTRAINT visit_room", "DELETE FROM lease WHERE v = 11",
	  "ALTER TABLE visit ADD CONSTRAINT visit_room FOREIGN KEY (room, PERIOD during) REFERENCES lease (room, PERIOD during)", 'DELETE FROM visit',
	  "ALTER TABLE lease DROP CONSTRAINT lease_key, ADD CONSTRAINT lease_unique UNIQUE (room, during WITHOUT OVERLAPS)", "INSERT INTO lease VALUES ('[3,4)', '[2026-01-20,2026-02-20)', 6)";
	is($rows_of->("s.$_", 1), join(' ', ($rows_of->("p.$_", 0)) x 3), "$_: rows on all servers") for qw(lease visit);

	# Rows are identified by equality of the key, although its index checks only overlaps: replicas
	# of shards, jobs.
	$c->safe_psql("CREATE TABLE $_.slot (room int4range, during daterange, v int, PRIMARY KEY (room, during WITHOUT OVERLAPS))") for qw(s p);
	is($c->safe_psql("SELECT string_agg(equals, ' ') FROM shardfdw_internal.identity_columns('p.slot')"), 'OPERATOR(pg_catalog.=) OPERATOR(pg_catalog.=)', 'equality of a key WITHOUT OVERLAPS');
	$c->shard_table('s.slot', 'room', shards => 2, replication_factor => 2);
	$both->($_) for "INSERT INTO slot SELECT int4range(i, i + 3), daterange(date '2026-01-01' + i, date '2026-01-10' + i), i FROM generate_series(1, 20) i",
	  "UPDATE slot SET during = daterange(lower(during) + 1, upper(during) + 1) WHERE v % 2 = 0", 'UPDATE slot SET v = v + 100 WHERE v % 3 = 0', 'DELETE FROM slot WHERE v % 5 = 0',
	  "UPDATE slot SET during = daterange(lower(during) + 1, upper(during) + 1)";
	is($rows_of->('s.slot', 0), $rows_of->('p.slot', 0), 'rows of a table with replicas');
	is($c->safe_psql("SELECT count(*) FROM shardfdw.compare_replicas('s.slot') WHERE NOT is_equal"), 0, 'and the replicas are equal');

	# Queue workers, and changes that a move follows.
	$c->safe_psql("CREATE TABLE $_.booked (room int4range, during daterange, v int, PRIMARY KEY (room, during WITHOUT OVERLAPS));
		INSERT INTO $_.booked SELECT int4range(i, i + 3), daterange(date '2026-01-01' + i, date '2026-01-10' + i), i FROM generate_series(1, 30) i") for qw(s p);
	$c->shard_table('s.booked', 'room', shards => 2);
	$both->($_) for 'UPDATE booked SET v = v + 100 WHERE (room, during) IN (SELECT room, during FROM booked ORDER BY v LIMIT 3 FOR UPDATE SKIP LOCKED)',
	  'WITH z AS (SELECT room, during FROM booked ORDER BY v LIMIT 4 FOR UPDATE SKIP LOCKED) UPDATE booked b SET v = v + 200 FROM z WHERE b.room = z.room AND b.during = z.during',
	  'DELETE FROM booked WHERE (room, during) IN (SELECT room, during FROM booked ORDER BY v DESC LIMIT 2 FOR UPDATE SKIP LOCKED)';
	is($rows_of->('s.booked', 0), $rows_of->('p.booked', 0), 'rows of a queue');
	if (($c->psql("LOAD 'shardfdw'; SHOW shardfdw.fault_points"))[0] == 0)
	{
		my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_compare';
		my ($shard, $target) = split /\|/, $c->safe_psql(q{SELECT shard, CASE node WHEN 'node1' THEN 'node2' ELSE 'node1' END FROM shardfdw.shards WHERE shard::text ~ '^s.booked_' ORDER BY 1 LIMIT 1});
		append_to_file($file, '');
		$c->set_faults('move_compare=wait');
		my $job = $c->safe_psql("SELECT shardfdw.move_shard('$shard', '$target', wait => false)");
		$c->wait_for("SELECT stage = 'comparing' OR state <> 'running' FROM shardfdw.jobs WHERE id = $job");
		# keys that overlap others which are to go, and keys that change
		$both->($_) for 'UPDATE booked SET v = v + 1000 WHERE v % 2 = 0', 'UPDATE booked SET during = daterange(lower(during) + 1, upper(during) + 1) WHERE v % 3 = 0', 'DELETE FROM booked WHERE v % 7 = 1',
		  'UPDATE booked SET during = daterange(lower(during) - 1, upper(during) + 5) WHERE v % 5 = 0', "INSERT INTO booked SELECT room, daterange(upper(during), upper(during) + 2), v + 5000 FROM booked WHERE v % 4 = 0";
		unlink $file;
		is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'a shard is moved');
		$c->set_faults('');
		is($c->safe_psql("SELECT node FROM shardfdw.shards WHERE shard = '$shard'::regclass"), $target, 'to the other node');
		is($rows_of->('s.booked', 0), $rows_of->('p.booked', 0), 'with all changes');
	}

	$c->safe_psql("SET search_path = $_;
		CREATE TABLE late (k int PRIMARY KEY, a int, b int CONSTRAINT b_here NOT NULL NO INHERIT); INSERT INTO late SELECT i, i, i FROM generate_series(1, 8) i;
		ALTER TABLE late ADD CONSTRAINT a_late NOT NULL a NOT VALID;
		CREATE TABLE gaps (k int PRIMARY KEY, a int); INSERT INTO gaps SELECT i, nullif(i, 3) FROM generate_series(1, 8) i;
		ALTER TABLE gaps ADD CONSTRAINT a_gaps NOT NULL a NOT VALID") for qw(s p);
	like(($c->psql("SELECT shardfdw.$_"))[2], qr/ERROR:  cannot \w+ table "gaps" because NOT NULL constraint "a_gaps" is not valid/, $_)
	  for "shard_table('s.gaps')", "shard_table('s.gaps', mode => 'online')", "create_reference_table('s.gaps')";
	$c->safe_psql("ALTER TABLE s.late VALIDATE CONSTRAINT a_late; SELECT shardfdw.create_reference_table('s.late')");
	$both->($_) for 'INSERT INTO late VALUES (9, NULL, 9)', 'INSERT INTO late VALUES (9, 9, NULL)', 'ALTER TABLE late VALIDATE CONSTRAINT a_late', 'UPDATE late SET a = NULL';
	$c->safe_psql("SELECT shardfdw.unshard_table('s.late')");
	$c->shard_table('s.late', 'k', shards => 3);
	is($c->safe_psql("SELECT count(*) FROM pg_constraint WHERE conrelid = 's.late'::regclass AND contype = 'n' AND connoinherit"), 0, 'a sharded table has no NOT NULL that pg_dump could not restore');
	$both->($_) for 'INSERT INTO late VALUES (9, NULL, 9)', 'INSERT INTO late VALUES (9, 9, NULL)', 'UPDATE late SET a = NULL', 'ALTER TABLE late DROP CONSTRAINT a_late', 'INSERT INTO late VALUES (9, NULL, 9)';
	like(($c->psql('ALTER TABLE s.late ADD CONSTRAINT a_late NOT NULL a NOT VALID'))[2], qr/ERROR:  NOT NULL NOT VALID is not supported for sharded table "late"/, 'NOT VALID of a sharded table');
	is($rows_of->('s.late', 0), $rows_of->('p.late', 0), 'late: rows');
	is($c->safe_psql("SELECT count(*) FROM shardfdw.check_cluster() WHERE status <> 'ok' AND detail ~ 'late|lease|visit'"), 0, 'all servers have the same definitions');
}

done_testing();
