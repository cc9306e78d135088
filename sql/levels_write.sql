-- Writes through a table by time whose partitions are sharded by key: nodes run them as they stand where they can.
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = ISO;
CREATE SCHEMA levw;
SET search_path = levw;

CREATE TABLE r (at timestamptz NOT NULL, d int NOT NULL, id bigint NOT NULL, v numeric, w text DEFAULT 'none', PRIMARY KEY (at, d, id)) PARTITION BY RANGE (at);
SELECT format('CREATE TABLE r_%1$s PARTITION OF r FOR VALUES FROM (%2$L) TO (%3$L) PARTITION BY HASH (d)', m, make_date(2026, m, 1), make_date(2026, m + 1, 1)) FROM generate_series(1, 3) m
\gexec
SELECT shardfdw.create_shard(format('r_%s', m)::regclass, format('r_%s_%s', m, i), format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || i + 1)::name) FROM generate_series(1, 3) m, generate_series(0, 1) i \g /dev/null
CREATE TABLE pr (LIKE r INCLUDING ALL);
CREATE TABLE u (g int PRIMARY KEY, t text);
INSERT INTO u SELECT i, 'u' || i FROM generate_series(0, 6) i;
CREATE TABLE pu (LIKE u); INSERT INTO pu TABLE u;
SELECT shardfdw.create_reference_table('u') \g /dev/null
INSERT INTO pr SELECT timestamptz '2026-01-01' + i * interval '5 hours', i % 11, i, i / 7.0, 's' || i % 5 FROM generate_series(0, 400) i;
INSERT INTO r SELECT * FROM pr;
ANALYZE r;

-- who runs it
CREATE FUNCTION way(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN coalesce(plan -> 0 -> 'Plan' ->> 'Custom Plan Provider', plan -> 0 -> 'Plan' ->> 'Node Type') || coalesce(' ' || (plan -> 0 -> 'Plan' ->> 'Shards'), '');
END $$;
-- runs it on both tables: counts, errors, returned rows and what is left have to be equal
CREATE FUNCTION both_ways(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(query, '\m([ru])\M', 'p\1', 'g');
	counts text[]; n bigint; q text; how text := way(query); sharded text;
BEGIN
	FOREACH q IN ARRAY ARRAY[plain, query] LOOP
		BEGIN
			EXECUTE q;
			GET DIAGNOSTICS n = ROW_COUNT;
			counts := counts || n::text;
		EXCEPTION WHEN OTHERS THEN
			counts := counts || SQLSTATE;
		END;
	END LOOP;
	IF counts[1] <> counts[2] THEN RETURN format('%s: %s, and not %s', how, counts[2], counts[1]); END IF;
	IF EXISTS ((TABLE r EXCEPT ALL TABLE pr) UNION ALL (TABLE pr EXCEPT ALL TABLE r)) THEN RETURN how || ': other rows'; END IF;
	RETURN format('%s: %s', how, counts[1]);
END $$;

SELECT q, both_ways(q) FROM unnest(ARRAY[
'DELETE FROM r WHERE at < ''2026-01-05''',
'DELETE FROM r WHERE at >= ''2026-02-27'' AND at < ''2026-03-03'' AND v > 39.5',
'DELETE FROM r WHERE at >= ''2027-02-27''',
'DELETE FROM r WHERE d = 4 AND w = ''s1''',
'DELETE FROM r WHERE at = ''2026-02-10 08:00'' AND d = 5',
'DELETE FROM r WHERE at = ''2027-02-10 08:00'' AND d = 5',
'DELETE FROM r USING u WHERE g = d AND t = ''u6'' AND at < ''2026-02-01''',
'DELETE FROM r WHERE EXISTS (SELECT FROM u WHERE g = d AND t = ''u5'') AND v < 30',
'DELETE FROM r WHERE id IN (SELECT max(id) FROM r)',
'UPDATE r SET v = v + 1',
'UPDATE r SET v = v + 1, w = ''new'' WHERE at < ''2026-02-05''',
'UPDATE r SET w = DEFAULT WHERE d = 3 AND v > 10',
'UPDATE r SET v = g FROM u WHERE g = d',
'UPDATE r SET v = 5 WHERE at = ''2026-03-04 06:00'' AND d = 9',
'UPDATE r SET id = id + 1000 WHERE at < ''2026-01-20''',
'UPDATE r SET v = (SELECT count(*) FROM u) WHERE d = 1',
'UPDATE r SET at = at + interval ''20 days'' WHERE at < ''2026-02-20''',
'UPDATE r SET d = d + 1 WHERE id % 3 = 0',
'UPDATE r SET at = at - interval ''10 days'', d = d * 2, v = -v FROM u WHERE g = d AND at >= ''2026-02-15''',
'UPDATE r SET at = ''2026-03-30'', d = 3 WHERE id % 50 = 7',
'UPDATE r SET at = ''2026-03-30'', d = NULL WHERE id % 50 = 8',
'UPDATE r SET d = 3, at = ''2026-03-29'', id = 77 WHERE id % 50 IN (9, 10)',
'INSERT INTO r VALUES (''2026-02-14'', 7, 5001, 1)',
'INSERT INTO r VALUES (''2026-02-14'', 7, 5001, 1)',
'INSERT INTO r VALUES (''2026-02-14'', 7, 5001, 2, ''x'') ON CONFLICT (at, d, id) DO UPDATE SET v = r.v + excluded.v, w = excluded.w',
'INSERT INTO r VALUES (''2026-02-15'', 7, 5001, 2, ''x'') ON CONFLICT (at, d, id) DO UPDATE SET v = r.v + excluded.v, w = excluded.w',
'INSERT INTO r VALUES (''2026-02-15'', 7, 5001, 2, ''x'') ON CONFLICT DO NOTHING',
'INSERT INTO r VALUES (''2026-02-15'', 7, 5001, 2, ''x'') ON CONFLICT (at, d, id) DO NOTHING',
'INSERT INTO r VALUES (''2026-03-15'', NULL, 5001, 2, ''x'')',
'INSERT INTO r (d, at, id) VALUES (8, ''2026-03-31 23:59:59'', 6)',
'INSERT INTO r (d, at, id) VALUES (8, ''2026-01-01'', 7), (9, ''2026-03-01'', 8)',
'INSERT INTO r SELECT at, d, id, 1000, ''up'' FROM r WHERE v < 20 ON CONFLICT (at, d, id) DO UPDATE SET v = r.v + excluded.v, w = excluded.w || r.w WHERE r.id % 2 = 0',
'INSERT INTO r SELECT timestamptz ''2026-01-01'' + i * interval ''5 hours'', i % 11, i, i, ''again'' FROM generate_series(1, 300) i ON CONFLICT (at, d, id) DO NOTHING',
'INSERT INTO r SELECT timestamptz ''2026-01-01'' + i * interval ''4 hours'', i % 11, i % 50, i FROM generate_series(1, 300) i ON CONFLICT (at, d, id) DO UPDATE SET v = -excluded.v',
'INSERT INTO r VALUES (''2026-01-20'', 3, 3, 1), (''2026-03-20'', 3, 3, 1), (''2026-01-20'', 3, 3, 2) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v',
'INSERT INTO r VALUES (''2026-01-20'', 3, 3, 1), (''2026-03-20'', 3, 3, 1), (''2026-03-20'', 4, NULL, 2) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v',
'WITH i AS (INSERT INTO r VALUES (''2026-01-20'', 3, 3, 1), (''2026-03-20'', 3, 3, 1) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v RETURNING id, v) SELECT sum(v) FROM i',
'MERGE INTO r USING (SELECT timestamptz ''2026-02-15'' AS at, 7 AS d, 5001 AS id) s ON r.at = s.at AND r.d = s.d AND r.id = s.id AND r.at = ''2026-02-15'' AND r.d = 7 WHEN MATCHED THEN UPDATE SET v = 77',
'MERGE INTO r USING (SELECT at, d, id + id % 2 * 5000 AS id, v FROM r WHERE at < ''2026-02-10'') s ON r.at = s.at AND s.d = r.d AND r.id = s.id WHEN MATCHED AND r.d = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = r.v + s.v, w = ''merged'' WHEN NOT MATCHED THEN INSERT (at, d, id, v) VALUES (s.at, s.d, s.id, s.v)',
'MERGE INTO r USING (SELECT i, timestamptz ''2026-01-15'' + i * interval ''1 day'' AS t FROM generate_series(0, 60) i) s ON r.at = s.t AND r.d = s.i % 11 WHEN NOT MATCHED THEN INSERT VALUES (s.t, s.i % 11, s.i, 3, ''new'') WHEN MATCHED THEN DO NOTHING',
'MERGE INTO r USING (VALUES (date ''2026-03-04'', 9::bigint), (''2026-02-10'', 5), (''2027-01-01'', 1), (NULL, NULL)) s(day, g) ON r.at = s.day AND r.d = s.g WHEN MATCHED THEN UPDATE SET w = ''day'', v = s.g',
'MERGE INTO r USING u ON r.at = ''2026-02-11'' AND r.d = g WHEN NOT MATCHED AND g > 2 THEN INSERT (at, d, id) VALUES (''2026-02-11'', g, 8000 + g)',
'MERGE INTO r USING (VALUES (timestamptz ''2026-02-11'', 3), (''2026-02-11'', 3)) s(t, g) ON r.at = s.t AND r.d = s.g WHEN MATCHED THEN DELETE'
]) q;
-- from 17 on; which of them end in another way
BEGIN;
SELECT q, result FROM unnest(ARRAY[
'MERGE INTO r USING (SELECT * FROM r WHERE d < 6) s ON r.at = s.at AND r.d = s.d AND r.id = s.id WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED BY SOURCE AND r.at < ''2026-02-01'' THEN DELETE',
'MERGE INTO r USING (SELECT * FROM r WHERE d = 60) s ON r.at = s.at AND r.d = s.d WHEN NOT MATCHED BY SOURCE AND r.id % 5 = 0 THEN UPDATE SET w = ''unmatched''',
'WITH m AS (MERGE INTO r USING (VALUES (timestamptz ''2026-02-11'', 3), (''2026-02-11'', 4)) s(t, g) ON r.at = s.t AND r.d = s.g WHEN MATCHED THEN UPDATE SET v = -1 RETURNING merge_action(), r.*) SELECT * FROM m'
]) q, LATERAL (SELECT both_ways(q) AS result WHERE current_setting('server_version_num')::int >= 170000) b WHERE result !~ ': [1-9][0-9]*$';
ROLLBACK;
INSERT INTO r VALUES ('2026-01-20', 5, 3, 1), ('2026-03-20', 5, 3, 1) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v RETURNING *;
INSERT INTO r VALUES ('2026-01-20', 5, 3, 1), ('2026-03-20', 5, 3, 1) ON CONFLICT ON CONSTRAINT r_pkey DO NOTHING;
-- refused
INSERT INTO r VALUES ('2026-01-20', 3, 3, 1), ('2026-03-20', 3, 3, 1), ('2027-03-20', 4, 5, 2) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v;
INSERT INTO r VALUES ('2026-01-20', 5, 3, 1), ('2026-03-20', 5, 3, 1) ON CONFLICT (at, id) DO NOTHING;
INSERT INTO r VALUES ('2026-01-20', 5, 3, 1), ('2026-03-20', 5, 3, 1) ON CONFLICT (at, d, id) DO UPDATE SET d = 5;
INSERT INTO r VALUES ('2026-01-20', 5, 3, 1), ('2026-03-20', 5, 3, 1) ON CONFLICT (at, d, id) DO UPDATE SET at = now();
MERGE INTO r USING pr s ON r.at = s.at AND r.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO r USING pr s ON r.d = s.d AND r.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO r USING pr s ON r.at = s.at AND r.d = s.d WHEN MATCHED THEN UPDATE SET at = s.at + interval '1 day';
MERGE INTO r USING pr s ON r.at = s.at AND r.d = s.d WHEN NOT MATCHED THEN INSERT (at, d, id) VALUES (s.at + interval '1 day', s.d, 7);
MERGE INTO r USING pr s ON r.at = s.at AND r.d = s.d WHEN NOT MATCHED THEN INSERT (at, d, id) VALUES (s.at, s.d + 1, 7);
DELETE FROM r WHERE d = 5 AND id = 3; DELETE FROM pr WHERE d = 5 AND id = 3;
-- UPDATE that moves rows, and rows that no partition takes
UPDATE r SET at = at + interval '1 year' WHERE id % 50 = 7;
UPDATE r SET at = at + interval '1 day', v = 123 WHERE id = 207 AND d = 9 RETURNING at, d, id, v;
INSERT INTO r VALUES ('2026-07-14', 7, 5001, 1);
INSERT INTO r VALUES ('2026-07-14', 7, 5001, 1) ON CONFLICT (at, d, id) DO NOTHING;
MERGE INTO r USING (VALUES (timestamptz '2026-02-14', 7), ('2027-03-04', 7)) s(t, g) ON r.at = s.t AND r.d = s.g WHEN NOT MATCHED THEN INSERT (at, d, id) VALUES (s.t, s.g, 1);
MERGE INTO r USING (VALUES (timestamptz '2026-02-14', 7), ('2027-03-04', 7)) s(t, g) ON r.at = s.t AND r.d = s.g WHEN MATCHED AND r.id < 0 THEN DELETE;
-- INSERT ... ON CONFLICT row by row: functions, sub-selects, triggers of the table, of a month, of a shard; a check option
CREATE FUNCTION twice(numeric) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN RETURN $1 * 2; END $$;
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := TG_OP || ' of ' || NEW.d; RETURN NEW; END $$;
CREATE TABLE upserts (n int GENERATED ALWAYS AS IDENTITY, q text);
INSERT INTO upserts (q) VALUES
('INSERT INTO r SELECT at, d, id + id % 3, v FROM r WHERE d = 2 ON CONFLICT (at, d, id) DO UPDATE SET v = twice(excluded.v)'),
('INSERT INTO r SELECT at, d, id + id % 2, v FROM r WHERE d = 3 ON CONFLICT (at, d, id) DO UPDATE SET v = (SELECT count(*) FROM u WHERE g < r.d), w = excluded.w WHERE r.id > 100'),
('INSERT INTO r VALUES (''2026-01-20'', 3, 3, 1), (''2026-03-20'', 3, 3, 1), (''2026-01-20'', 3, 3, 2) ON CONFLICT (at, d, id) DO UPDATE SET v = twice(excluded.v)'),
('INSERT INTO r SELECT at, d, id + 1, v FROM r WHERE d = 4 ON CONFLICT (at, d, id) DO NOTHING');
TRUNCATE pr;
INSERT INTO pr TABLE r;
SELECT both_ways(q) FROM upserts ORDER BY n;
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON r FOR EACH ROW EXECUTE FUNCTION mark();
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON pr FOR EACH ROW EXECUTE FUNCTION mark();
SELECT both_ways(replace(q, 'twice(excluded.v)', 'excluded.v + 1')) FROM upserts ORDER BY n;
DROP TRIGGER mark ON r;
DROP TRIGGER mark ON pr;
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON r_2 FOR EACH ROW EXECUTE FUNCTION mark();
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON pr FOR EACH ROW WHEN (NEW.at >= '2026-02-01' AND NEW.at < '2026-03-01') EXECUTE FUNCTION mark();
SELECT both_ways(replace(q, 'twice(excluded.v)', 'excluded.v + 2')) FROM upserts ORDER BY n;
DROP TRIGGER mark ON r_2;
DROP TRIGGER mark ON pr;
-- DELETE row by row where one month has triggers that see the row, and the others have none
CREATE FUNCTION deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'deleted %', OLD.id; RETURN OLD; END $$;
CREATE TRIGGER deleted BEFORE DELETE ON r_2 FOR EACH ROW EXECUTE FUNCTION deleted();
SELECT both_ways('DELETE FROM r WHERE id IN (SELECT max(id) FROM r WHERE at < ''2026-02-01'' UNION SELECT max(id) FROM r WHERE at >= ''2026-02-01'' AND at < ''2026-03-01'')');
DROP TRIGGER deleted ON r_2;
CREATE TRIGGER mark BEFORE INSERT ON r_2_1 FOR EACH ROW EXECUTE FUNCTION mark();
INSERT INTO r SELECT '2026-02-14', i, 9000 FROM generate_series(1, 20) i ON CONFLICT (at, d, id) DO UPDATE SET w = 'old';
SELECT count(*), bool_and((w LIKE 'INSERT of%') = (tableoid = 'r_2_1'::regclass)) FROM r WHERE id = 9000;
MERGE INTO r USING generate_series(1, 20) i ON r.at = '2026-02-14' AND r.d = i WHEN MATCHED THEN DELETE;
DROP TRIGGER mark ON r_2_1;
DELETE FROM r WHERE id = 9000;
CREATE VIEW positive AS SELECT at, d, id, v FROM r WHERE v > 0 WITH CHECK OPTION;
INSERT INTO positive VALUES ('2026-02-20', 3, 9001, 1), ('2026-03-20', 3, 9001, 1) ON CONFLICT (at, d, id) DO UPDATE SET v = 5 RETURNING *;
INSERT INTO positive VALUES ('2026-02-20', 3, 9001, 1), ('2026-03-20', 3, 9002, 1) ON CONFLICT (at, d, id) DO UPDATE SET v = 5 RETURNING *;
INSERT INTO positive VALUES ('2026-02-20', 3, 9001, 1) ON CONFLICT (at, d, id) DO UPDATE SET v = -5;
INSERT INTO positive VALUES ('2026-02-20', 3, 9003, -1) ON CONFLICT (at, d, id) DO UPDATE SET v = 5;
DROP VIEW positive;
DELETE FROM r WHERE id IN (9001, 9002, 9003);
DROP TABLE upserts;
-- a key that is a parameter
PREPARE ins (timestamptz, int, bigint, numeric) AS INSERT INTO r VALUES ($1, $2, $3, $4) ON CONFLICT (at, d, id) DO UPDATE SET v = excluded.v RETURNING *;
PREPARE upd (timestamptz, int, numeric) AS UPDATE r SET v = $3 WHERE at = $1 AND d = $2 RETURNING id, v;
PREPARE del (timestamptz) AS WITH d AS (DELETE FROM r WHERE at < $1 RETURNING id) SELECT count(*), sum(id) FROM d;
PREPARE sel (timestamptz, int) AS SELECT * FROM r WHERE at = $1 AND d = $2;
SET plan_cache_mode = force_generic_plan;
SELECT way($$EXECUTE ins ('2026-01-20', 1, 1, 1)$$), way($$EXECUTE upd ('2026-01-20', 1, 1)$$), way($$EXECUTE sel ('2026-01-20', 1)$$);
EXECUTE ins ('2026-01-20', 1, 1, 1);
EXECUTE ins ('2026-01-20', 1, 1, 2);
EXECUTE ins ('2026-03-20', 2, 1, 2);
EXECUTE upd ('2026-03-20', 2, 3);
EXECUTE sel ('2026-03-20', 2);
EXECUTE upd ('2027-03-20', 2, 3);
EXECUTE sel (NULL, 2);
-- a trigger on one month, then on one shard: the plans that are kept know
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := 'stamped'; RETURN NEW; END $$;
CREATE TRIGGER stamp BEFORE UPDATE ON r_3 FOR EACH ROW EXECUTE FUNCTION stamp();
EXECUTE upd ('2026-03-20', 2, 4);
SELECT w FROM r WHERE at = '2026-03-20' AND d = 2;
DROP TRIGGER stamp ON r_3;
EXECUTE upd ('2026-03-20', 2, 5);
-- a month that comes
CREATE TABLE r_4 PARTITION OF r FOR VALUES FROM ('2026-04-01') TO ('2026-05-01') PARTITION BY HASH (d);
EXECUTE ins ('2026-04-20', 2, 1, 2);
SELECT shardfdw.create_shard('r_4', 'r_4_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node3') \g /dev/null
EXECUTE ins ('2026-04-20', 2, 1, 2);
SELECT way($$EXECUTE ins ('2026-01-20', 1, 1, 1)$$);
EXECUTE del ('2026-01-02 12:00');
RESET plan_cache_mode;
-- in a transaction, and what it has written is seen
BEGIN;
INSERT INTO r VALUES ('2026-04-21', 3, 9, 9);
SAVEPOINT a;
DELETE FROM r WHERE at >= '2026-04-01';
SELECT count(*) FROM r WHERE at >= '2026-04-01';
ROLLBACK TO a;
SELECT count(*) FROM r WHERE at >= '2026-04-01';
ROLLBACK;
SELECT count(*) FROM r WHERE at >= '2026-04-01';
-- rights are those of the table that is named
CREATE ROLE levw_user;
GRANT USAGE ON SCHEMA levw TO levw_user;
GRANT SELECT ON r TO levw_user;
SET ROLE levw_user;
DELETE FROM r WHERE at < '2026-02-05';
RESET ROLE;
DROP OWNED BY levw_user;
SELECT shardfdw.run_on_nodes('DROP OWNED BY levw_user') \g /dev/null
DROP ROLE levw_user;

DROP SCHEMA levw CASCADE;
