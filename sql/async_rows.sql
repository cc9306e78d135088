-- Asynchronous children of Append that run code of the plan, while others of them wait for their nodes.
SET client_min_messages = warning;
CREATE SCHEMA async_rows;
SET search_path = async_rows;
CREATE TABLE q (id int, w bigint, v bigint) PARTITION BY LIST (id);
SELECT shardfdw.create_shard('q', 'q_' || i, format('IN (%s)', i), ('node' || n)::name) FROM (VALUES (1, 1), (2, 2), (3, 3), (4, 1)) s (i, n);
-- w says how long the node takes for the row: 2 comes first, then 3, then 1
INSERT INTO q VALUES (1, 20000, 0), (2, 3000, 0), (3, 7000, 0), (4, 0, 0);
-- Row 2 takes so long here that row 3 has come before its scan is asked again. That one needs the connection
-- which the scan of 1 waits at, and for which the scan of 4 is queued.
CREATE FUNCTION f(id int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF id = 2 THEN
		PERFORM pg_sleep(0.2);
	ELSIF id = 3 THEN
		RETURN 100 + (SELECT count(*) FROM async_rows.q);
	END IF;
	RETURN id;
END $$;
CREATE FUNCTION plan(query text) RETURNS TABLE (async bigint, slow bigint, code bigint) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	lines text[] = '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		lines := lines || line;
	END LOOP;
	RETURN QUERY SELECT count(*) FILTER (WHERE l ~ '-> +Async Foreign Scan'), count(*) FILTER (WHERE l ~ 'Remote SQL: SELECT.*factorial'),
		count(*) FILTER (WHERE l ~ '(Output|Filter):.*\mf\(') FROM unnest(lines) l;
END $$;

SELECT * FROM plan('UPDATE q SET v = f(id) WHERE factorial(w) > 0');
UPDATE q SET v = f(id) WHERE factorial(w) > 0;
SELECT id, v FROM q ORDER BY id;
UPDATE q SET v = (SELECT count(*) FROM q b WHERE b.id <= q.id AND f(b.id) > 0) WHERE factorial(w) > 0;
SELECT id, v FROM q ORDER BY id;
WITH x AS MATERIALIZED (SELECT id, f(id) FROM q WHERE factorial(w) > 0 FOR UPDATE) SELECT * FROM x ORDER BY id;
-- the code ends in no row
SELECT id FROM q WHERE factorial(w) > 0 AND f(id) < 100 ORDER BY id FOR UPDATE;
DELETE FROM q WHERE factorial(w) > 0 AND f(id) > 100 RETURNING id, v;
INSERT INTO q VALUES (3, 7000, 0);

-- readers that share a connection
\c -
SET search_path = async_rows;
SET shardfdw.enable_shard_scan = off;
SET shardfdw.max_connections_per_node = 1;
SELECT * FROM plan('SELECT id, f(id) FROM q WHERE factorial(w) > 0 OFFSET 0');
SELECT * FROM (SELECT id, f(id) FROM q WHERE factorial(w) > 0 OFFSET 0) x ORDER BY id;
SELECT id FROM q WHERE factorial(w) > 0 AND f(id) < 100 ORDER BY id;
-- figures of scans that answer beside others
CREATE FUNCTION rows_of_scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Append|Async Foreign Scan|Rows Removed' THEN
			RETURN NEXT regexp_replace(line, '(rows=\d+)\.00', '\1');
		END IF;
	END LOOP;
END $$;
SELECT rows_of_scans('SELECT id FROM q WHERE factorial(w) > 0 AND f(id) < 100');
