-- What functions and sub-selects see of the statement that calls them: of sharded tables what they see of plain ones.
-- The statements are in sql/diff/nested.sql. t/write_nested.pl compares random ones.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set statements :srcdir '/sql/diff/nested.sql'
SET client_min_messages = warning;
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA nested_plain;
CREATE SCHEMA nested_sharded;
SELECT format($x$
	SET search_path = %1$s;
	CREATE TABLE t (k int PRIMARY KEY, grp int, v int);
	CREATE TABLE one (k int PRIMARY KEY, grp int, v int);
	CREATE FUNCTION stable_count(int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t WHERE grp = $1); END';
	CREATE FUNCTION stable_one(int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM one WHERE grp = $1';
	CREATE FUNCTION volatile_count() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
	CREATE FUNCTION volatile_max() RETURNS int LANGUAGE sql AS 'SELECT max(v) FROM t';
	CREATE FUNCTION changes_t(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = 0 WHERE k = $1; RETURN 1; END';
	CREATE TABLE ref (k int PRIMARY KEY, v int);
	CREATE TABLE log (n serial, event text, level text, sum bigint);
	CREATE FUNCTION volatile_ref() RETURNS int LANGUAGE sql AS 'SELECT max(v) FROM ref';
	CREATE FUNCTION volatile_both() RETURNS int LANGUAGE sql AS 'SELECT (SELECT max(v) FROM ref) + (SELECT count(*) FROM t)::int';
	CREATE FUNCTION volatile_join() RETURNS int LANGUAGE sql AS 'SELECT max(ref.v) FROM ref JOIN t USING (k)';
	CREATE FUNCTION stable_join() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT max(ref.v) FROM ref JOIN t USING (k)); END';
	CREATE FUNCTION changes_join() RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = ref.v FROM ref WHERE ref.k = t.k; RETURN 1; END';
	CREATE FUNCTION logs_join() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO log (event, level, sum) SELECT TG_OP, TG_LEVEL, sum(ref.v) FROM ref JOIN t USING (k);
		RETURN CASE WHEN TG_WHEN = 'BEFORE' THEN NEW END; END $f$;
$x$, schema) FROM unnest('{nested_plain,nested_sharded}'::text[]) AS schema \gexec
SELECT shardfdw.shard_table('t', 'k', shards => 4);
SELECT shardfdw.shard_table('one', 'k', shards => 1);
SELECT shardfdw.create_reference_table('ref');

\set ECHO all
SET search_path = nested_plain;
\set ECHO queries
\i :statements
-- rows that a function changes while the statement is about to: an error, which of the two depends on where the shards are
DO $$ BEGIN
	UPDATE t SET v = changes_t(k % 8 + 1) WHERE k < 9;
EXCEPTION WHEN triggered_data_change_violation OR feature_not_supported THEN RAISE EXCEPTION 'refused'; END $$;
DO $$ BEGIN
	DELETE FROM t WHERE changes_t(k) = 1;
EXCEPTION WHEN triggered_data_change_violation OR feature_not_supported THEN RAISE EXCEPTION 'refused'; END $$;
SET search_path = nested_sharded;
\i :statements
DO $$ BEGIN
	UPDATE t SET v = changes_t(k % 8 + 1) WHERE k < 9;
EXCEPTION WHEN triggered_data_change_violation OR feature_not_supported THEN RAISE EXCEPTION 'refused'; END $$;
DO $$ BEGIN
	DELETE FROM t WHERE changes_t(k) = 1;
EXCEPTION WHEN triggered_data_change_violation OR feature_not_supported THEN RAISE EXCEPTION 'refused'; END $$;

-- what nodes cannot show is refused
BEGIN;
INSERT INTO t VALUES (40, 1, 1);
UPDATE t SET v = 0 RETURNING stable_count(k % 2);
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM t;
INSERT INTO t VALUES (40, 1, 1);
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k;
FETCH c;
DELETE FROM t;
FETCH ALL FROM c;
ROLLBACK;
UPDATE t SET k = k + 100, v = volatile_count();
MERGE INTO t USING generate_series(1, 9) AS s (k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0, volatile_count());
MERGE INTO t USING generate_series(1, 9) AS s (k) ON t.k = s.k AND s.k = 9 WHEN NOT MATCHED AND volatile_count() > 0 THEN INSERT VALUES (s.k, 0, 0);
-- nodes have not got what the statement has written to a reference table
UPDATE ref SET v = volatile_join() + 1;
INSERT INTO ref SELECT i, volatile_join() FROM generate_series(11, 12) AS i;
DELETE FROM ref WHERE volatile_join() = 0;
INSERT INTO ref SELECT i, 0 FROM generate_series(1, 2) AS i ON CONFLICT (k) DO UPDATE SET v = volatile_join();
MERGE INTO ref USING generate_series(1, 2) AS s (k) ON ref.k = s.k WHEN MATCHED THEN UPDATE SET v = volatile_join();
UPDATE ref SET v = changes_join();
WITH u AS (UPDATE ref SET v = 1 RETURNING k) SELECT k, volatile_join() FROM u;
ALTER TABLE ref ALTER v SET DEFAULT volatile_join();
COPY ref (k) FROM PROGRAM 'seq 11 12';
CREATE TRIGGER before BEFORE UPDATE ON ref FOR EACH ROW EXECUTE FUNCTION logs_join();
UPDATE ref SET v = 1;
DROP TRIGGER before ON ref;
CREATE TRIGGER "00_early" AFTER UPDATE ON ref FOR EACH ROW EXECUTE FUNCTION logs_join();
UPDATE ref SET v = 1;
DROP TRIGGER "00_early" ON ref;
CREATE TRIGGER logs AFTER INSERT OR UPDATE ON ref FOR EACH ROW EXECUTE FUNCTION logs_join();
INSERT INTO ref VALUES (1, 1), (11, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
DROP TRIGGER logs ON ref;
CREATE TRIGGER zz_late AFTER UPDATE ON ref FOR EACH STATEMENT EXECUTE FUNCTION logs_join();
INSERT INTO ref VALUES (12, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
-- the number of rows that a statement of a rule writes is unknown
CREATE TABLE ruled (k int);
CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO ref VALUES (NEW.k, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO ruled VALUES (12);
DROP TRIGGER zz_late ON ref;
-- rows of an action of a foreign key
CREATE TABLE child (k int PRIMARY KEY, v int REFERENCES ref ON DELETE CASCADE);
INSERT INTO child SELECT i, i % 4 + 1 FROM generate_series(1, 8) AS i;
SELECT shardfdw.create_reference_table('child');
CREATE FUNCTION logs_child() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO log (event, level, sum) SELECT TG_TABLE_NAME, TG_LEVEL, count(*) FROM child JOIN t USING (k);
	RETURN NULL; END $$;
CREATE TRIGGER logs AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION logs_child();
DELETE FROM ref WHERE k IN (1, 2);
SELECT event, level, sum FROM log ORDER BY n;
CREATE TRIGGER logs AFTER DELETE ON ref FOR EACH ROW EXECUTE FUNCTION logs_child();
DELETE FROM ref WHERE k = 3;
-- nothing of a refused statement is left
SELECT k, v FROM ref ORDER BY k;
SELECT sum(ref.v), count(*) FROM ref JOIN t USING (k);
-- a cursor that is opened before a row is written sees those that are written
CREATE FUNCTION fetches(int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'c'; result int;
BEGIN
	IF $1 = 1 THEN OPEN c FOR SELECT max(ref.v) FROM ref JOIN t USING (k); RETURN 5; END IF;
	FETCH c INTO result;
	RETURN result;
END $$;
UPDATE ref SET v = fetches(n) FROM (VALUES (3, 1), (4, 2)) AS x (k, n) WHERE ref.k = x.k;
SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE check_name LIKE 'reference%' AND status <> 'ok';
-- RETURNING of a row that moves to another shard sees the table as it was before
TRUNCATE t;
INSERT INTO t SELECT i, 1, i FROM generate_series(1, 12) i;
UPDATE t SET k = k + 20 WHERE k = 2 RETURNING k, stable_count(grp);
UPDATE t SET k = k + 20 WHERE v = 3 RETURNING k, stable_count(grp);
-- rows that a statement of a rule has changed
CREATE RULE also_update AS ON UPDATE TO ruled DO ALSO UPDATE t SET v = v + 100 WHERE t.k = NEW.k;
CREATE RULE other_kind AS ON DELETE TO ruled DO INSTEAD UPDATE t SET v = -1 WHERE t.k = OLD.k;
INSERT INTO ruled SELECT generate_series(5, 7);
BEGIN;
DECLARE c CURSOR FOR SELECT k, v FROM t WHERE k BETWEEN 4 AND 8 ORDER BY k FOR UPDATE;
FETCH c;
UPDATE ruled SET k = k WHERE k = 5;
DELETE FROM ruled WHERE k = 7;
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
UPDATE t SET v = 1 WHERE k = 4;
DECLARE c CURSOR FOR SELECT sum(v) FROM t;
UPDATE ruled SET k = k WHERE k = 5;
FETCH c;
ROLLBACK;
CREATE FUNCTION updates_ruled(int) RETURNS int LANGUAGE sql AS 'UPDATE ruled SET k = k WHERE k = $1 RETURNING 0';
BEGIN;
UPDATE t SET v = v WHERE k = 4;
SELECT k, updates_ruled(k), (SELECT sum(v) FROM t AS z WHERE z.k >= t.k) FROM t WHERE k BETWEEN 5 AND 6 ORDER BY k;
ROLLBACK;
-- rows of a foreign table that are changed through the table from which it inherits
SELECT node, ok FROM shardfdw.run_on_nodes('CREATE TABLE nested_sharded.heir (k int PRIMARY KEY, v int); INSERT INTO nested_sharded.heir SELECT i, i FROM generate_series(1, 6) AS i') WHERE node = 'node1';
CREATE TABLE bequest (k int, v int);
CREATE TABLE middle () INHERITS (bequest);
CREATE FOREIGN TABLE heir () INHERITS (middle) SERVER node1 OPTIONS (table_name 'heir');
BEGIN;
DECLARE c CURSOR FOR SELECT k, v FROM heir ORDER BY k FOR UPDATE;
FETCH c;
UPDATE bequest SET v = 0 WHERE k = 3;
DELETE FROM middle WHERE k = 5;
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
UPDATE heir SET v = 1 WHERE k = 4;
DECLARE c CURSOR FOR SELECT sum(v) FROM heir;
UPDATE bequest SET v = 0 WHERE k = 3;
FETCH c;
ROLLBACK;
BEGIN;
UPDATE heir SET v = 1 WHERE k = 4;
DECLARE c CURSOR FOR SELECT sum(v) FROM heir;
INSERT INTO bequest VALUES (7, 7);
FETCH c;
ROLLBACK;
-- rows of a table of two levels, and of a single foreign table, that a trigger changes before the statement does
CREATE TABLE two (d int, k int, v int) PARTITION BY RANGE (d);
CREATE TABLE two_1 PARTITION OF two FOR VALUES FROM (0) TO (10) PARTITION BY HASH (k);
SELECT shardfdw.shard_table('two_1', shards => 2);
INSERT INTO two SELECT i, i, 0 FROM generate_series(0, 9) AS i;
CREATE FUNCTION changes_two() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE two SET v = 99 WHERE k = OLD.k; RETURN CASE TG_OP WHEN ''DELETE'' THEN OLD ELSE NEW END; END';
CREATE TRIGGER changes_two BEFORE UPDATE OR DELETE ON two FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION changes_two();
DELETE FROM two WHERE k = 3;
UPDATE two_1 SET v = 1 WHERE k = 3;
DROP TRIGGER changes_two ON two;
CREATE FUNCTION changes_two(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE two SET v = 98 WHERE k = $1; RETURN 1; END';
UPDATE two SET v = changes_two(k) WHERE k = 4;
CREATE FUNCTION changes_heir() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE heir SET v = 99 WHERE k = OLD.k; RETURN OLD; END';
CREATE TRIGGER changes_heir BEFORE DELETE ON heir FOR EACH ROW EXECUTE FUNCTION changes_heir();
DELETE FROM heir WHERE k = 4;
DROP TRIGGER changes_heir ON heir;
-- rows that a trigger of one part changes before another part does so on the nodes
CREATE TABLE fires (k int, v int);
INSERT INTO fires VALUES (1, 1);
CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE two SET v = v + 50 WHERE k = NEW.k; RETURN NEW; END';
CREATE TRIGGER fires BEFORE INSERT OR UPDATE ON fires FOR EACH ROW EXECUTE FUNCTION fires();
WITH a AS (UPDATE fires SET v = 7 WHERE k = 1 RETURNING k), b AS (UPDATE two SET v = v + 1 RETURNING k) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
WITH a AS (INSERT INTO fires VALUES (2, 2)) DELETE FROM two USING fires WHERE two.k = fires.k;
WITH a AS (INSERT INTO fires VALUES (2, 2) RETURNING k), b AS (DELETE FROM two WHERE k = 2 AND d = 2 RETURNING k) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
SELECT sum(v) FROM two;
-- BEFORE ROW triggers, and a row that a join returns twice or that two parts delete
CREATE TABLE fired (s text);
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO fired VALUES (TG_OP); RETURN CASE TG_OP WHEN ''DELETE'' THEN OLD ELSE NEW END; END';
CREATE TRIGGER fired BEFORE UPDATE OR DELETE ON two FOR EACH ROW EXECUTE FUNCTION fired();
UPDATE two SET v = v + 1 FROM generate_series(1, 3) WHERE k > 7;
DELETE FROM two USING generate_series(1, 2) WHERE k = 7;
WITH a AS (DELETE FROM two WHERE k < 2 RETURNING k), b AS (DELETE FROM two WHERE k < 3 RETURNING k) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
UPDATE two SET v = v + 1 FROM generate_series(1, 3) AS g WHERE k = g;
SELECT s, count(*) FROM fired GROUP BY s;
-- a part of WITH that another part reads computes its rows once
CREATE TABLE once (i int);
INSERT INTO once VALUES (1), (2);
CREATE TABLE once_sharded (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('once_sharded', 'k', shards => 2);
CREATE FUNCTION removed_by_filter(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || query LOOP
		IF line ~ 'Removed by Filter' THEN
			RETURN NEXT btrim(line);
		END IF;
	END LOOP;
END $$;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT removed_by_filter('WITH x AS (DELETE FROM once WHERE i > 5 RETURNING i), y AS (INSERT INTO once_sharded SELECT i, (SELECT count(*) FROM once_sharded) FROM x) SELECT count(*) FROM x');
-- an empty hash join cannot be asked again
SET LOCAL enable_nestloop = off;
SET LOCAL enable_mergejoin = off;
WITH x AS (DELETE FROM once USING once other WHERE once.i = other.i AND other.i > 5 RETURNING once.i),
	y AS (INSERT INTO once_sharded SELECT i, (SELECT count(*) FROM once_sharded) FROM x) SELECT count(*) FROM x;
ROLLBACK;
-- a function whose value the statement of one row needs writes to the table: the node would see what it writes
CREATE TABLE one_row (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('one_row', shards => 4);
INSERT INTO one_row SELECT i, i FROM generate_series(1, 20) i;
CREATE FUNCTION adds(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO one_row VALUES ($1, -1); RETURN $1; END';
CREATE FUNCTION changes(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE one_row SET v = v + 1000 WHERE k = $1; RETURN $1; END';
INSERT INTO one_row VALUES (adds(110), 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO one_row VALUES ((SELECT adds(110)), 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING k;
INSERT INTO one_row VALUES (8, changes(8)) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO one_row SELECT changes(8), 1 ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO one_row SELECT changes(i), 1 FROM generate_series(8, 8) i ON CONFLICT (k) DO UPDATE SET v = excluded.v;
MERGE INTO one_row t USING (VALUES (changes(7))) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 5;
MERGE INTO one_row t USING (VALUES (7)) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = changes(7);
MERGE INTO one_row t USING (VALUES (adds(107))) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 5 WHEN NOT MATCHED THEN INSERT VALUES (s.k, 1);
UPDATE one_row SET v = changes(6) WHERE k = 6;
UPDATE one_row SET v = 5 WHERE k = changes(6);
DELETE FROM one_row WHERE k = (SELECT changes(6));
SELECT k FROM one_row WHERE k = (SELECT changes(6)) FOR UPDATE;
SELECT k FROM one_row WHERE v > 0 ORDER BY v LIMIT (SELECT changes(1)) FOR UPDATE SKIP LOCKED;
SELECT count(*), sum(v) FROM one_row;
-- so does a table that the statement only reads
CREATE TABLE other_row (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('other_row', colocate_with => 'one_row');
CREATE TABLE code (k int PRIMARY KEY, v int);
SELECT shardfdw.create_reference_table('code');
INSERT INTO code SELECT i, i FROM generate_series(1, 20) i;
CREATE FUNCTION changes_code(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE code SET v = v + 1000 WHERE k = $1; RETURN $1; END';
INSERT INTO other_row VALUES (changes_code(8), (SELECT v FROM code WHERE k = 8)) RETURNING *;
INSERT INTO other_row VALUES (changes(8), (SELECT v FROM one_row WHERE k = 8)) RETURNING *;
INSERT INTO one_row VALUES (changes_code(8), 1) ON CONFLICT (k) DO UPDATE SET v = (SELECT v FROM code WHERE code.k = one_row.k) RETURNING *;
INSERT INTO other_row VALUES (changes_code(8), changes(9)) RETURNING *;
DELETE FROM other_row;
-- rows that are locked below the top of a statement, after the transaction has written to the table
BEGIN;
INSERT INTO fires VALUES (5, 5);
UPDATE one_row SET v = v + 1 WHERE k = 3;
WITH x AS (SELECT * FROM one_row WHERE k = 3 FOR UPDATE) SELECT * FROM x;
SELECT * FROM (SELECT * FROM one_row WHERE k = 3 FOR UPDATE) x;
SELECT (SELECT v FROM one_row WHERE k = 3 FOR UPDATE);
SAVEPOINT s;
SELECT * FROM (SELECT * FROM one_row WHERE k = changes(3) FOR UPDATE) x;
ROLLBACK TO s;
WITH x AS (SELECT * FROM one_row WHERE k = 4 FOR UPDATE) UPDATE one_row SET v = 0 FROM x WHERE one_row.k = 4 AND x.k = 4 RETURNING x.v;
ROLLBACK;
-- FOR UPDATE leaves out rows that the statement has changed before
CREATE TABLE plain_row (k int PRIMARY KEY, v int);
INSERT INTO plain_row SELECT k, v FROM one_row WHERE k < 10 ORDER BY k;
CREATE TABLE source_row (k int);
INSERT INTO source_row SELECT generate_series(1, 9);
DELETE FROM one_row WHERE k > 9;
BEGIN;
INSERT INTO plain_row SELECT k + 4, (SELECT z.v FROM plain_row z WHERE z.k = s.k FOR UPDATE) FROM source_row s ON CONFLICT (k) DO UPDATE SET v = excluded.v + 1;
INSERT INTO one_row SELECT k + 4, (SELECT z.v FROM one_row z WHERE z.k = s.k FOR UPDATE) FROM source_row s ON CONFLICT (k) DO UPDATE SET v = excluded.v + 1;
SELECT p.k, p.v, o.v FROM plain_row p FULL JOIN one_row o USING (k) ORDER BY k;
ROLLBACK;
MERGE INTO one_row t USING (SELECT k, (SELECT z.v FROM one_row z WHERE z.k = s.k + 1 FOR UPDATE) AS v FROM source_row s) x ON t.k = x.k WHEN MATCHED THEN UPDATE SET v = x.v;
-- an INSERT that does not update is as on a plain table
INSERT INTO one_row VALUES (adds(120), 1) ON CONFLICT (k) DO NOTHING;
INSERT INTO one_row VALUES (adds(121), 1);
INSERT INTO one_row VALUES (122, adds(123));
SELECT k, v FROM one_row WHERE k > 20 ORDER BY k;
DROP SCHEMA nested_plain, nested_sharded CASCADE;
