-- Joins: which the nodes compute, which not, and why not.
\set VERBOSITY terse
SET client_min_messages = warning;
SET shardfdw.enable_router = off;  -- statements on one shard are planned here, too
CREATE SCHEMA pjn;
SET search_path = pjn;

-- Lines of a plan, one for each node: its type, what a foreign scan reads and sends. Local joins are
-- just "Join", and r.id is on the right, as majors differ in that.
CREATE FUNCTION pjn.walk(plan json, depth int, OUT line text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	child json;
BEGIN
	IF plan ->> 'Node Type' NOT IN ('Hash', 'Sort', 'Materialize', 'Memoize', 'Incremental Sort') THEN
		line := repeat('  ', depth) ||
			CASE WHEN plan ->> 'Node Type' IN ('Hash Join', 'Merge Join', 'Nested Loop') THEN 'Join' ELSE plan ->> 'Node Type' END ||
			CASE WHEN plan ->> 'Partial Mode' <> 'Simple' THEN ' (' || (plan ->> 'Partial Mode') || ')' ELSE '' END ||
			CASE WHEN plan ->> 'Filter' IS NOT NULL THEN ' filter' ELSE '' END ||
			COALESCE(' on ' || replace(plan ->> 'Relations', '"ANY_subquery"', 'unnamed_subquery'), '') || -- its name in 19
			COALESCE(' shards ' || (plan ->> 'Shards'), '') ||
			COALESCE(': ' || regexp_replace(plan ->> 'Remote SQL', '\((r\d+)\.id = (r\d+)\.(\w+)\)', '(\2.\3 = \1.id)', 'g'), '');
		RETURN NEXT;
		depth := depth + 1;
	END IF;
	FOR child IN SELECT * FROM json_array_elements(COALESCE(plan -> 'Plans', '[]')) LOOP
		RETURN QUERY SELECT * FROM pjn.walk(child, depth);
	END LOOP;
END $$;
CREATE FUNCTION pjn.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT * FROM pjn.walk(plan -> 0 -> 'Plan', 0);
END $$;
-- The relations of each foreign scan, enough where the SQL tells nothing new.
CREATE FUNCTION pjn.scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT regexp_replace(btrim(line), '^Foreign Scan( filter|) on (.*) shards .*$', '\2\1') FROM pjn.plan(query) line WHERE line LIKE '%Foreign Scan%' ORDER BY 1;
END $$;

SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS pjn') WHERE NOT ok;
CREATE TABLE a (k bigint, x int, t text, n numeric);
CREATE TABLE b (k bigint, y int, t text);
CREATE TABLE c (k bigint, z int);
CREATE TABLE i (k int, w int);
CREATE TABLE m (k bigint, w int);
CREATE TABLE w (k bigint, w int);
CREATE TABLE r (id int PRIMARY KEY, name text, grp int);
CREATE TABLE q (id int, k bigint);
CREATE TABLE loc (id int, k bigint);
INSERT INTO a SELECT g, g % 10, 'a' || g, g FROM generate_series(1, 400) g;
INSERT INTO b SELECT g * 2, g % 7, 'b' || g FROM generate_series(1, 300) g;
INSERT INTO c SELECT g, g % 5 FROM generate_series(1, 200) g;
INSERT INTO i SELECT g, g FROM generate_series(1, 200) g;
INSERT INTO m SELECT g, g FROM generate_series(1, 200) g;
INSERT INTO w SELECT g, g FROM generate_series(1, 200) g;
INSERT INTO r SELECT g, 'r' || g, g % 3 FROM generate_series(1, 20) g;
INSERT INTO q SELECT g % 20, g FROM generate_series(1, 40) g;
INSERT INTO loc SELECT g, g FROM generate_series(1, 20) g;
SELECT shardfdw.shard_table('a', 'k', 4);
SELECT shardfdw.shard_table('b', 'k', colocate_with => 'a');
SELECT shardfdw.shard_table('c', 'k', 4);
SELECT shardfdw.shard_table('i', 'k', 4);
SELECT shardfdw.shard_table('m', 'k', 5);
SELECT shardfdw.shard_table('w', 'k', 4, nodes => '{node2}');
SELECT shardfdw.create_reference_table('r');
SELECT shardfdw.create_reference_table('q');
ANALYZE a, b, c, i, m, w, r, q, loc;
-- one way to join that is not remote, so that plans do not follow costs
SET shardfdw.enable_key_join = off;

-- colocated tables on the key, all types of join
SELECT plan('SELECT a.x, b.y FROM a JOIN b ON a.k = b.k');
SELECT plan('SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > 3 WHERE a.x < 5');
SELECT plan('SELECT a.x, b.y FROM a RIGHT JOIN b ON a.k = b.k AND b.y > 3');
SELECT plan('SELECT a.x, b.y FROM a FULL JOIN b ON a.k = b.k');
SELECT plan('SELECT s.x, u.y FROM (SELECT * FROM a WHERE x > 3) s FULL JOIN (SELECT * FROM b WHERE y > 3) u ON s.k = u.k');
SELECT plan('SELECT a.x FROM a WHERE EXISTS (SELECT FROM b WHERE b.k = a.k AND b.y > a.x)');
SELECT plan('SELECT a.x FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.k = a.k AND b.y > a.x)');
SELECT plan('SELECT a.x, b.t FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL');
SELECT plan('SELECT k, a.x, b.y, z FROM a JOIN b USING (k) JOIN c USING (k)');
SELECT plan('SELECT a.x, b.y, z FROM a LEFT JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k');
SELECT plan('SELECT k, z FROM a FULL JOIN b USING (k) JOIN c USING (k)');
SELECT scans('SELECT a.x FROM a WHERE k IN (SELECT k FROM b WHERE NOT EXISTS (SELECT FROM c WHERE c.k = b.k))');
SELECT scans('SELECT * FROM a l JOIN a r USING (k)');

-- groups over them: a key that an outer join may have made NULL makes no whole groups
SELECT plan('SELECT a.k, count(*) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k');
SELECT plan('SELECT b.k, count(*) FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k');
SELECT plan('SELECT a.k, count(*) FROM a FULL JOIN b ON a.k = b.k GROUP BY a.k');
SELECT plan('SELECT k, count(*) FROM a FULL JOIN b USING (k) GROUP BY k');
SELECT plan('SELECT b.k, count(*) FROM a JOIN b ON a.k = b.k GROUP BY b.k');

-- what must be checked here: of an inner join, and above an outer one
CREATE FUNCTION here(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END';
SELECT plan('SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND here(a.x) > b.y');
SELECT scans('SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND here(a.x) > b.y');
SELECT scans('SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k WHERE here(b.y) > a.x OR b.y IS NULL');
SELECT scans('SELECT a.x FROM a WHERE EXISTS (SELECT FROM b WHERE a.k = b.k AND here(a.x) > b.y)');
SELECT scans('SELECT a.x FROM a JOIN b ON a.k = b.k AND here(a.x) > b.y JOIN c ON c.k = b.k');
SELECT scans('SELECT a.x FROM a JOIN b ON a.k = b.k WHERE here(a.x) > 4');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND random() < a.x');

-- equality by way of constants, parameters and other tables
SELECT plan('SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.k = 7');
SELECT plan('SELECT a.x, b.y FROM a, b WHERE a.k = 7 AND b.k = 7 AND a.x < b.y');
SELECT scans('SELECT a.x, b.y FROM a, b WHERE a.k = 7 AND b.k = 8');
SELECT scans('SELECT a.x, b.y FROM a LEFT JOIN b ON b.k = 7 WHERE a.k = 7');
SELECT plan('SELECT a.x, b.y FROM a JOIN q ON a.k = q.k JOIN b ON q.k = b.k');
SELECT plan('SELECT a.x, b.y FROM a JOIN q ON a.k = q.k LEFT JOIN b ON q.k = b.k');
SELECT scans('SELECT a.x, b.y FROM a LEFT JOIN q ON a.k = q.k LEFT JOIN b ON q.k = b.k');
SET plan_cache_mode = force_generic_plan;
PREPARE p (bigint) AS SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.k = $1;
SELECT plan('EXECUTE p (7)');
PREPARE p2 (bigint) AS SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > $1 WHERE a.x > $1;
SELECT plan('EXECUTE p2 (7)');
-- the price of joins here is high from now on, as so small tables are joined well anywhere
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
-- all rows of r are wanted, so a parameter that prunes all shards must not
PREPARE p3 (bigint) AS SELECT r.id, a.x FROM r LEFT JOIN a ON a.x = r.id AND a.k = $1;
SELECT scans('EXECUTE p3 (7)');
RESET plan_cache_mode;

-- no join on the key, or no colocated tables
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k = b.y');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.x = b.y');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k::text = b.k::text');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k::numeric = b.k');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k >= b.k AND b.k >= a.k');
SELECT scans('SELECT a.x, b.y FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k');
SELECT scans('SELECT * FROM a JOIN i USING (k)');
SELECT scans('SELECT * FROM a JOIN m USING (k)');
SELECT scans('SELECT * FROM a JOIN w USING (k)');
SELECT scans('SELECT * FROM a JOIN loc USING (k) JOIN b USING (k)');
SELECT scans('SELECT * FROM w s JOIN w u USING (k)');

-- reference tables: from the side where it is exact
SELECT plan('SELECT a.x, r.name FROM a JOIN r ON r.id = a.x');
SELECT plan('SELECT a.x, r.name FROM a LEFT JOIN r ON r.id = a.x AND r.grp = 1');
SELECT plan('SELECT a.x FROM a WHERE NOT EXISTS (SELECT FROM r WHERE r.id > a.x)');
SELECT plan('SELECT a.x FROM a WHERE a.x IN (SELECT id FROM r WHERE grp = 1)');
SELECT plan('SELECT r.name, count(*), sum(b.y) FROM a JOIN b USING (k) JOIN r ON r.id = a.x GROUP BY r.name');
SELECT plan('SELECT a.x, r.name, q.k FROM a LEFT JOIN (r FULL JOIN q USING (id)) ON r.id = a.x');
SELECT scans('SELECT a.x, r.name FROM r LEFT JOIN a ON r.id = a.x');
SELECT scans('SELECT a.x, r.name FROM r FULL JOIN a ON r.id = a.x');
SELECT scans('SELECT r.name FROM r WHERE EXISTS (SELECT FROM a WHERE a.x = r.id)');
SELECT scans('SELECT r.name FROM r WHERE NOT EXISTS (SELECT FROM a WHERE a.x = r.id)');
SELECT plan('SELECT a.x, r.name FROM r LEFT JOIN a ON r.id = a.x AND a.k = 7');
SELECT scans('SELECT r.name FROM r WHERE NOT EXISTS (SELECT FROM a WHERE a.x = r.id AND a.k = 7)');
-- bound to its shard: rows of r must not come from the others, too
SELECT scans('SELECT * FROM (r LEFT JOIN (SELECT * FROM a WHERE k = 7) s ON r.id = s.x) FULL JOIN b ON b.k = s.k');
SELECT scans('SELECT * FROM r JOIN q USING (id)');
SELECT scans('SELECT a.x, r.ctid FROM a JOIN r ON r.id = a.x');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;
-- more rows than there are: cheaper here
SELECT scans('SELECT a.x, r.id FROM a CROSS JOIN r');
SELECT scans('SELECT s.x, u.x FROM a s JOIN a u ON s.k = u.k JOIN r ON true JOIN q ON true');

-- locked rows, changed rows
SELECT scans('SELECT a.x FROM a JOIN b USING (k) FOR UPDATE OF a');
SELECT scans('INSERT INTO q SELECT r.id, a.k FROM a JOIN r ON r.id = a.x');
SELECT scans('INSERT INTO r SELECT r.id + 100, ''new'', 1 FROM a JOIN r ON r.id = a.x');

-- sub-selects that nodes compute whole
SELECT plan('SELECT a.x, s.n FROM a JOIN (SELECT k, count(*) AS n, max(y) FROM b GROUP BY k HAVING sum(y) > 3) s ON s.k = a.k');
SELECT plan('SELECT a.x FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING sum(y) > 3)');
SELECT plan('SELECT s.n, u.m FROM (SELECT k, count(*) AS n FROM a GROUP BY k) s FULL JOIN (SELECT k, count(*) AS m FROM b GROUP BY k) u USING (k)');
SELECT plan('SELECT a.x, s.y FROM a LEFT JOIN (SELECT DISTINCT k, y FROM b) s ON s.k = a.k AND s.y > 3');
SELECT scans('SELECT a.x, s.y FROM a JOIN (SELECT k, y, row_number() OVER (PARTITION BY k ORDER BY y) AS p FROM b) s ON s.k = a.k WHERE s.p = 1');
SELECT plan('WITH s AS (SELECT k, count(*) AS n FROM b GROUP BY k) SELECT a.x, s.n FROM a LEFT JOIN s USING (k)');
SELECT plan('SELECT s.n, count(*) FROM (SELECT k, count(*) AS n FROM b GROUP BY k) s GROUP BY s.n');
SELECT plan('SELECT r.name, s.n FROM (SELECT k, y, count(*) AS n FROM b GROUP BY k, y) s JOIN r ON r.id = s.y');
SELECT plan('SELECT x.m, count(*) FROM (SELECT a.k, max(s.n) AS m FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) s USING (k) GROUP BY a.k) x GROUP BY x.m');
SELECT scans('SELECT s.n FROM a JOIN (SELECT y, count(*) AS n FROM b GROUP BY y) s ON s.y = a.k');
SELECT scans('SELECT s.n FROM a JOIN (SELECT k, here(max(y)) AS n FROM b GROUP BY k) s ON s.k = a.k');
SELECT scans('SELECT s.n FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k HAVING here(max(y)) > 3) s ON s.k = a.k');
SELECT scans('SELECT s.n FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k ORDER BY n LIMIT 3) s ON s.k = a.k');
SELECT scans('SELECT s.n FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) s ON s.k = a.k AND s.n > (SELECT max(z) FROM c)');
SELECT scans('SELECT s FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) s ON s.k = a.k');
-- a join that core cannot make, and need not
SELECT scans('SELECT a.x FROM a FULL JOIN b ON a.k NOT IN (SELECT c.k FROM c) WHERE 1 = 2 AND (true OR EXISTS (SELECT FROM c WHERE c.k = a.x))');
-- what is found by the value of a parameter, or in a sub-select that is pulled up
PREPARE pf (bool) AS SELECT a.x FROM a FULL JOIN b ON a.k NOT IN (SELECT c.k FROM c) WHERE $1 AND (true OR EXISTS (SELECT FROM c WHERE c.k = a.x));
SET plan_cache_mode = force_custom_plan;
EXECUTE pf (false);
RESET plan_cache_mode;
SELECT s.x, (SELECT count(*) FROM c WHERE c.k = s.x) FROM (SELECT a.x FROM a FULL JOIN b ON a.k NOT IN (SELECT c.k FROM c) WHERE 1 = 2) s;
WITH s AS (SELECT a.x FROM a FULL JOIN b ON a.k NOT IN (SELECT c.k FROM c) WHERE 1 = 2) SELECT s.x, (SELECT count(*) FROM c WHERE c.k = s.x) FROM s;
-- levels that are never planned: their constants are not computed
WITH never AS (SELECT a.x FROM a WHERE 1 / 0 = 1 AND (a.x < 5 OR EXISTS (SELECT FROM c WHERE c.k = a.x))) SELECT 1;
SELECT count(*) FROM b WHERE false AND k = (SELECT max(a.k) FROM a WHERE 1 / 0 = 1 AND (a.x < 5 OR EXISTS (SELECT FROM c WHERE c.k = a.x)));
SELECT CASE WHEN false THEN (SELECT max(a.k) FROM a WHERE 1 / 0 = 1 AND (a.x < 5 OR EXISTS (SELECT FROM c WHERE c.k = a.x))) END;
-- a column that nothing but a condition reads, and that is NULL by itself
SELECT scans('SELECT a.x, s.p FROM a JOIN (SELECT k, NULL::int AS z, row_number() OVER (PARTITION BY k ORDER BY y) AS p FROM b) s ON s.k = a.k WHERE s.z IS NULL');
SELECT scans('SELECT s.n FROM a JOIN (SELECT 7 AS k, count(*) AS n FROM b WHERE k = 7) s ON s.k = a.k');
PREPARE p4 (bigint) AS SELECT a.x, s.n FROM a LEFT JOIN (SELECT k, count(*) AS n FROM b WHERE y > $1 GROUP BY k) s USING (k) WHERE a.k = $1;
SET plan_cache_mode = force_generic_plan;
SELECT scans('EXECUTE p4 (7)');
RESET plan_cache_mode;
CREATE FUNCTION names(i int) RETURNS SETOF r STABLE LANGUAGE sql AS 'SELECT * FROM r WHERE grp = i';
SELECT scans('SELECT a.x FROM a WHERE k IN (SELECT b.k FROM b JOIN names(1) n ON n.id = b.y GROUP BY b.k)');

-- conditions of one table that core derives from an OR over several: the node derives them again
SELECT plan('SELECT a.k, r.name FROM a JOIN r ON r.id = a.x WHERE (a.k < 10 AND r.grp = 1) OR (a.k > 90 AND r.grp = 2)');
SELECT plan('SELECT a.k, b.y FROM a JOIN b ON a.k = b.k WHERE (a.x < 10 AND b.y = 1 OR a.x > 90 AND b.y = 2) AND (a.x < 5 OR a.x > 95)');
SELECT plan('SELECT a.k, r.name FROM a LEFT JOIN r ON r.id = a.x AND ((a.k < 10 AND r.grp = 1) OR (a.k > 90 AND r.grp = 2))');
SELECT plan('SELECT a.k FROM a JOIN r ON r.id = a.x LEFT JOIN b ON b.k = a.k AND (b.y = 1 OR b.y = 2) WHERE (a.k < 10 AND r.grp = 1) OR (a.k > 90 AND r.grp = 2)');

-- row security on a reference table, and conditions behind a security barrier
CREATE VIEW barrier WITH (security_barrier) AS SELECT a.k, a.x, r.name FROM a JOIN r ON r.id = a.x WHERE r.grp = 1;
SELECT plan('SELECT k FROM barrier WHERE x > 3 AND here(x) > 4');
SET client_min_messages = error;
DROP ROLE IF EXISTS regress_pjn;
CREATE ROLE regress_pjn;
SET client_min_messages = warning;
GRANT USAGE ON SCHEMA pjn TO regress_pjn;
GRANT SELECT ON a, r TO regress_pjn;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON r USING (grp = 1);
SELECT scans('SELECT a.x, r.name FROM a JOIN r ON r.id = a.x');
SET ROLE regress_pjn;
SELECT scans('SELECT a.x, r.name FROM a JOIN r ON r.id = a.x');
-- nothing is read of a table without the right to read it
SELECT count(*) FROM a JOIN b USING (k);
SELECT count(*) FROM a WHERE EXISTS (SELECT FROM b WHERE b.k = a.k);
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b GROUP BY k);
SELECT count(*) FROM a JOIN (SELECT k FROM (SELECT k, count(*) AS n FROM b GROUP BY k) s GROUP BY k) u USING (k);
RESET ROLE;
GRANT SELECT (k) ON b TO regress_pjn;
REVOKE SELECT ON r FROM regress_pjn;
SET ROLE regress_pjn;
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b GROUP BY k);
SELECT count(*) FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING max(y) > 3);
SELECT count(*) FROM a WHERE k IN (SELECT b.k FROM b JOIN names(1) n ON n.id = b.k GROUP BY b.k);
RESET ROLE;
ALTER TABLE r DISABLE ROW LEVEL SECURITY;

-- tables stop being colocated, and plans follow
PREPARE moved AS SELECT count(*) FROM a JOIN b USING (k);
EXECUTE moved;
SELECT scans('EXECUTE moved');
BEGIN;
ALTER TABLE b DETACH PARTITION b_00;
SELECT scans('EXECUTE moved');
ROLLBACK;
SELECT scans('EXECUTE moved');

PREPARE moved2 AS SELECT count(*) FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING count(*) > 0);
EXECUTE moved2;
BEGIN;
ALTER TABLE b DETACH PARTITION b_00;
SELECT scans('EXECUTE moved2');
ROLLBACK;

-- a cursor that goes back and outlives its transaction
BEGIN;
DECLARE cur SCROLL CURSOR WITH HOLD FOR SELECT a.k, b.y FROM a JOIN b USING (k) ORDER BY a.k;
FETCH 3 FROM cur;
FETCH BACKWARD 2 FROM cur;
COMMIT;
FETCH FIRST FROM cur;
FETCH LAST FROM cur;
FETCH ABSOLUTE 5 FROM cur;
CLOSE cur;

-- all off
SET shardfdw.enable_shard_scan = off;
SELECT scans('SELECT a.x, r.name FROM a JOIN r ON r.id = a.x WHERE a.k = 7');
RESET shardfdw.enable_shard_scan;
SET client_min_messages = error;
DROP SCHEMA pjn CASCADE;
SELECT shardfdw.run_on_nodes('DROP OWNED BY regress_pjn') \g /dev/null
DROP ROLE regress_pjn;
