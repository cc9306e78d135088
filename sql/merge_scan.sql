-- Merging sorted streams: types, directions, NULLs, more shards than connections, own writes, cursors, rescans.
SET client_min_messages = warning;
CREATE SCHEMA merge_test;
SET search_path = merge_test;
SET shardfdw.query_per_node = off;
SET extra_float_digits = 1;

CREATE TYPE size AS ENUM ('small', 'medium', 'large', 'a huge one');
DO $$BEGIN
	PERFORM shardfdw.run_on_nodes($q$CREATE SCHEMA merge_test; CREATE TYPE merge_test.size AS ENUM ('small', 'medium', 'large', 'a huge one')$q$);
END$$;
CREATE TABLE many (id int, i int, n numeric, f float8, c text COLLATE "C", ts timestamptz, b bool, e size, s text);
INSERT INTO many
SELECT g, nullif(g % 13, 5), CASE WHEN g % 31 = 0 THEN 'NaN' ELSE (g % 17) / 4.0 END, CASE WHEN g % 7 > 0 THEN g % 19 / 3.0::float8 END,
	nullif(chr(65 + g % 50) || repeat('x', g % 3), 'Ax'), timestamptz '2024-03-30 20:00+00' + g % 400 * interval '7 minutes',
	CASE g % 3 WHEN 0 THEN true WHEN 1 THEN false END, (enum_range(NULL::size))[g % 5], repeat(chr(97 + g % 26), g % 40)
FROM generate_series(1, 3000) g;
CREATE TABLE plain AS TABLE many;
SELECT shardfdw.shard_table('many', 'id', 64);
ANALYZE many;

-- Rows in the order in which they come, compared with a plain table's.  The last key of each query makes its order total.
CREATE TABLE queries (no serial, query text);
INSERT INTO queries (query) VALUES
	('SELECT id FROM {t} ORDER BY id'),
	('SELECT id, i FROM {t} ORDER BY i, id'),
	('SELECT id, i FROM {t} ORDER BY i DESC, id DESC'),
	('SELECT i, id FROM {t} ORDER BY i NULLS FIRST, id'),
	('SELECT i, id FROM {t} ORDER BY i DESC NULLS LAST, id'),
	('SELECT n, f, id FROM {t} ORDER BY n DESC, f, id'),
	('SELECT c, id FROM {t} ORDER BY c, id'),
	('SELECT c, id FROM {t} ORDER BY c DESC NULLS LAST, id'),
	('SELECT s, id FROM {t} ORDER BY s COLLATE "C" DESC, id'),
	('SELECT s COLLATE "POSIX", id FROM {t} ORDER BY 1, id'),
	('SELECT s, id FROM {t} ORDER BY s COLLATE "C" USING ~>~, id'),
	('SELECT ts, id FROM {t} ORDER BY ts DESC, id'),
	('SELECT date_trunc(''day'', ts), id FROM {t} ORDER BY 1, 2'),
	('SELECT b, id FROM {t} ORDER BY b, id'),
	('SELECT e, id FROM {t} ORDER BY e DESC, id'),
	('SELECT id FROM {t} ORDER BY e, i, id'),
	('SELECT id, n * 2 AS x FROM {t} WHERE i IN (3, 4, 7) ORDER BY f * 3 NULLS FIRST, x, id'),
	('SELECT id FROM {t} ORDER BY i, id LIMIT 20'),
	('SELECT id FROM {t} ORDER BY i, id LIMIT 20 OFFSET 500'),
	('SELECT i FROM {t} ORDER BY i FETCH FIRST 3 ROWS WITH TIES'),
	('SELECT id FROM {t} WHERE id IN (5, 7, 9, 11, 2999) ORDER BY -id'),
	('SELECT id, c FROM {t} WHERE id = 17 ORDER BY c'),
	('SELECT i, count(*), sum(n) FROM {t} WHERE n < 100 GROUP BY i ORDER BY i DESC'),
	('SELECT id, count(*) FROM {t} GROUP BY id ORDER BY id DESC'),
	('SELECT id, c, row_number() OVER (PARTITION BY id ORDER BY c) FROM {t} ORDER BY c, id'),
	('SELECT a.id, b.c FROM {t} a JOIN {t} b ON a.id = b.id WHERE a.i = 2 ORDER BY b.c DESC, a.id'),
	('SELECT DISTINCT ON (i) i, id FROM {t} ORDER BY i, id DESC'),
	('SELECT x.* FROM generate_series(1, 12) g, LATERAL (SELECT g, id, c FROM {t} WHERE i = g ORDER BY c DESC, id LIMIT 2) x'),
	('SELECT x.* FROM generate_series(1, 12) g, LATERAL (SELECT g, id, c FROM {t} WHERE id > g * 200 AND id <> 1500 ORDER BY c, id LIMIT 1) x'),
	('SELECT a.id FROM (SELECT id, i FROM {t} ORDER BY i, id LIMIT 50) a JOIN (SELECT id FROM {t} ORDER BY c, id LIMIT 1500) b USING (id) ORDER BY 1');

CREATE FUNCTION unequal(settings text DEFAULT '') RETURNS TABLE (query text, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	q merge_test.queries;
	setting text;
BEGIN
	FOREACH setting IN ARRAY string_to_array(settings, ',') LOOP
		PERFORM set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	END LOOP;
	FOR q IN SELECT * FROM merge_test.queries ORDER BY no LOOP
		EXECUTE format('WITH a AS (SELECT row_number() OVER () AS n, x.* FROM (%s) x), b AS (SELECT row_number() OVER () AS n, x.* FROM (%s) x)
						SELECT count(*) FROM ((TABLE a EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL TABLE a)) d',
					   replace(q.query, '{t}', 'merge_test.many'), replace(q.query, '{t}', 'merge_test.plain')) INTO rows;
		query := q.query;
		IF rows > 0 THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END
$$;
SELECT * FROM unequal();
SELECT * FROM unequal('shardfdw.max_connections_per_node=1');
SELECT * FROM unequal('shardfdw.max_connections_per_node=3');
SELECT * FROM unequal('shardfdw.max_connections_per_node=20');
SELECT * FROM unequal('shardfdw.max_connections_per_node=2,shardfdw.enable_copy_fetch=off');
SELECT * FROM unequal('shardfdw.max_connections_per_node=2,work_mem=64kB');
SELECT * FROM unequal('TimeZone=America/St_Johns');

-- a node whose shards are read by one statement: after the transaction has written there
BEGIN;
INSERT INTO many SELECT id + 10000, i, n, f, c, ts, b, e, s FROM plain;
INSERT INTO plain SELECT id + 10000, i, n, f, c, ts, b, e, s FROM plain;
DELETE FROM many WHERE i = 2;
DELETE FROM plain WHERE i = 2;
SELECT * FROM unequal();
SAVEPOINT a;
UPDATE many SET c = 'Ax' WHERE id < 500;
UPDATE plain SET c = 'Ax' WHERE id < 500;
SELECT * FROM unequal('shardfdw.max_connections_per_node=1');
ROLLBACK TO a;
SELECT * FROM unequal();
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM unequal('shardfdw.max_connections_per_node=2');
COMMIT;

-- what EXPLAIN shows
EXPLAIN (COSTS OFF) SELECT id, i FROM many ORDER BY i DESC, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM many ORDER BY c NULLS FIRST, n DESC NULLS LAST, s COLLATE "C", id;

-- cursors read at the same time, with fewer connections than streams; one is closed early, one is read to its end
SET shardfdw.max_connections_per_node = 2;
BEGIN;
DECLARE x CURSOR FOR SELECT id, i FROM many ORDER BY i DESC NULLS LAST, id;
DECLARE y CURSOR FOR SELECT id, c FROM many ORDER BY c, id DESC;
DECLARE z SCROLL CURSOR FOR SELECT id FROM many ORDER BY id;
FETCH 3 FROM x;
FETCH 3 FROM y;
FETCH 3 FROM x;
FETCH 3 FROM z;
DELETE FROM many WHERE id BETWEEN 100 AND 200;
FETCH 3 FROM y;
CLOSE y;
FETCH BACKWARD 2 FROM z;
MOVE 150 IN z;
FETCH 2 FROM z;
MOVE ALL IN x;
FETCH BACKWARD 1 FROM z;
ROLLBACK;
RESET shardfdw.max_connections_per_node;

-- R1: rescans that begin before the scan before has ended; values that decide which shards are read
PREPARE few(int[], int) AS SELECT id, c FROM many WHERE id = ANY ($1) ORDER BY c DESC, id LIMIT $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE few('{1,2,3,4,5,6,7}', 3);
EXECUTE few('{8}', 3);
EXECUTE few('{}', 3);
EXECUTE few('{9,10}', NULL);
EXECUTE few('{9,10,11}', 0);
RESET plan_cache_mode;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT p.id, (SELECT array_agg(x) FROM (SELECT m.id FROM many m WHERE m.i = p.i AND m.id > p.id ORDER BY m.c, m.id LIMIT 3) s(x)) AS got,
	(SELECT array_agg(x) FROM (SELECT m.id FROM plain m WHERE m.i = p.i AND m.id > p.id ORDER BY m.c, m.id LIMIT 3) s(x)) AS expected
FROM plain p WHERE p.id % 600 = 7 ORDER BY p.id;
SELECT p.id, x.id FROM generate_series(1, 5) p(id) LEFT JOIN LATERAL (SELECT id FROM many m WHERE m.id IN (p.id, p.id + 100) ORDER BY m.id DESC) x ON true ORDER BY 1, 2;

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA merge_test CASCADE;
DO $$BEGIN
	PERFORM shardfdw.run_on_nodes('DROP SCHEMA merge_test CASCADE');
END$$;
