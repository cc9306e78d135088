-- Rows that are taken as jobs from a queue over all shards: which statements are planned so, and that they give and leave
-- the rows that they do on plain tables.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA tk;
CREATE SCHEMA tk_plain;
SET search_path = tk;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS tk') WHERE NOT ok;
CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL, prio numeric, at timestamptz, note varchar(10) COLLATE "C", gone int, b bytea);
ALTER TABLE job DROP COLUMN gone;
CREATE TABLE two (a int NOT NULL, b text NOT NULL, v int, PRIMARY KEY (a, b));
CREATE TABLE loose (id int, v int);
CREATE TABLE tk_plain.job (LIKE job INCLUDING ALL);
CREATE TABLE tk_plain.two (LIKE two INCLUDING ALL);
CREATE TABLE tk_plain.loose (LIKE loose INCLUDING ALL);
SELECT shardfdw.shard_table('job', 'id', 6), shardfdw.shard_table('two', 'a', 3), shardfdw.shard_table('loose', 'id', 3);
CREATE INDEX ON job (prio, id) WHERE state = 'new';
INSERT INTO tk_plain.job SELECT i, CASE WHEN i % 4 = 0 THEN 'done' ELSE 'new' END, nullif(i * 7 % 13, 5), '2024-01-01 00:00+00'::timestamptz + i * 37 % 50 * interval '1 h', 'n' || i % 9, decode(lpad(to_hex(i), 2, '0'), 'hex') FROM generate_series(1, 60) i;
INSERT INTO tk_plain.two SELECT i % 7, 'b' || i, i FROM generate_series(1, 30) i;
INSERT INTO tk_plain.loose SELECT i % 5, i FROM generate_series(1, 20) i;
INSERT INTO job TABLE tk_plain.job;
INSERT INTO two TABLE tk_plain.two;
INSERT INTO loose TABLE tk_plain.loose;

-- Runs the statement on both sides, once planned as a whole and once not. A line: how it is planned, rows counted; then what differs.
CREATE FUNCTION tk.same(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	mode text;
	side text;
	n bigint;
	line record;
	planned text;
	rows text[];
	seen text[];
BEGIN
	EXECUTE 'EXPLAIN (COSTS off) ' || statement INTO planned;
	FOREACH mode IN ARRAY ARRAY['on', 'off'] LOOP
		FOREACH side IN ARRAY ARRAY['tk_plain', 'tk'] LOOP
			PERFORM set_config('search_path', side, true), set_config('shardfdw.enable_router', mode, true);
			BEGIN
				rows := '{}';
				IF statement ~* 'returning|^select' THEN
					FOR line IN EXECUTE statement LOOP
						rows := rows || line::text;
					END LOOP;
					n := cardinality(rows);
					IF statement !~* '^select' THEN
						rows := ARRAY(SELECT x FROM unnest(rows) x ORDER BY x COLLATE "C");
					END IF;
				ELSE
					EXECUTE statement;
					GET DIAGNOSTICS n = ROW_COUNT;
				END IF;
				seen := seen || (n || rows::text || (SELECT string_agg(x, chr(10) ORDER BY x COLLATE "C") FROM
					(SELECT 'j' || job::text FROM job UNION ALL SELECT 't' || two::text FROM two UNION ALL SELECT 'l' || loose::text FROM loose) q(x)));
				RAISE EXCEPTION 'undone' USING ERRCODE = 'TK001';
			EXCEPTION
				WHEN SQLSTATE 'TK001' THEN NULL;
				WHEN OTHERS THEN
					n := -1;
					seen := seen || SQLSTATE;
			END;
		END LOOP;
	END LOOP;
	PERFORM set_config('search_path', 'tk', true), set_config('shardfdw.enable_router', 'on', true);
	RETURN NEXT CASE WHEN planned = 'Custom Scan (ShardQueue)' THEN 'taken' ELSE 'not taken' END || ', ' || n;
	FOR i IN 2 .. 4 LOOP
		IF seen[i] IS DISTINCT FROM seen[1] THEN
			RETURN NEXT 'DIFFERENT: ' || seen[1] || ' <> ' || seen[i];
		END IF;
	END LOOP;
END $$;

-- How a statement is planned.
CREATE FUNCTION tk.planned(statement text, OUT planned text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN (COSTS off) ' || statement INTO planned;
END $$;

-- SELECT
SELECT tk.same('SELECT * FROM job WHERE state = ''new'' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id, prio + 1, note FROM job WHERE state = ''new'' ORDER BY prio DESC, id LIMIT 7 FOR NO KEY UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id, prio FROM job ORDER BY prio NULLS FIRST, at, id DESC LIMIT 9 FOR SHARE SKIP LOCKED');
SELECT tk.same('SELECT b, at FROM job WHERE at > ''2024-01-01 10:00+00'' ORDER BY note, id LIMIT 9 FOR KEY SHARE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job ORDER BY prio % 3 NULLS LAST, length(note) + id % 5, id LIMIT 20 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job ORDER BY id LIMIT 0 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job WHERE false ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT count(*) FROM (SELECT id FROM job LIMIT 5 FOR UPDATE SKIP LOCKED) x');
SELECT tk.same('SELECT a, c FROM job AS j(a, c) WHERE c = ''new'' AND a > 7 ORDER BY prio, a LIMIT 4 FOR UPDATE SKIP LOCKED');
-- others are waited for
SELECT tk.same('SELECT * FROM job WHERE state = ''new'' ORDER BY prio DESC, id LIMIT 3 FOR UPDATE');
SELECT tk.same('SELECT id, note FROM job ORDER BY id LIMIT 12 FOR NO KEY UPDATE NOWAIT');
SELECT tk.same('SELECT id FROM job WHERE prio > 1 ORDER BY id DESC LIMIT 200 FOR SHARE');
SELECT tk.same('SELECT count(*) FROM (SELECT id FROM job LIMIT 5 FOR KEY SHARE) x');
SELECT tk.same('UPDATE job SET state = ''run'' WHERE id = (SELECT id FROM job WHERE state = ''new'' ORDER BY prio, id LIMIT 1 FOR UPDATE) RETURNING id, note');
SELECT tk.same('UPDATE job SET state = ''run'' WHERE id IN (SELECT id FROM job WHERE state = ''new'' ORDER BY prio, id LIMIT 4 FOR UPDATE NOWAIT)');
SELECT tk.same('WITH z AS (SELECT id FROM job ORDER BY id LIMIT 7 FOR UPDATE) DELETE FROM job USING z WHERE z.id = job.id RETURNING job.*');
-- not these
SELECT tk.same('SELECT id FROM job ORDER BY id LIMIT 3 OFFSET 2 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job ORDER BY id FETCH FIRST 3 ROWS WITH TIES FOR UPDATE');
SELECT tk.same('SELECT j.id FROM job j JOIN two ON two.v = j.id ORDER BY 1 LIMIT 3 FOR UPDATE OF j SKIP LOCKED');
SELECT tk.same('SELECT id FROM job WHERE id IN (SELECT v FROM two) ORDER BY 1 LIMIT 3 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job ORDER BY random() * 0, id LIMIT 3 FOR UPDATE SKIP LOCKED');
SELECT tk.same('SELECT id FROM job WHERE id = 3 LIMIT 3 FOR UPDATE SKIP LOCKED');

-- UPDATE and DELETE
SELECT tk.same('UPDATE job SET state = ''run'', note = note || ''!'' WHERE id IN (SELECT id FROM job WHERE state = ''new'' ORDER BY prio, id LIMIT 1 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job j SET state = ''run'' WHERE id = (SELECT id FROM job WHERE state = ''new'' ORDER BY prio DESC NULLS LAST, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *');
SELECT tk.same('UPDATE job SET state = ''run'' WHERE id = ANY (ARRAY(SELECT id FROM job WHERE state = ''new'' ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED)) RETURNING id, b, upper(state)');
SELECT tk.same('WITH z AS (SELECT id, prio FROM job WHERE state = ''new'' ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED) UPDATE job SET at = at + interval ''1 h'' FROM z WHERE z.id = job.id');
SELECT tk.same('UPDATE job SET at = NULL FROM (SELECT id FROM job WHERE state = ''new'' ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED) z WHERE z.id = job.id RETURNING job.*');
SELECT tk.same('DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = ''done'' ORDER BY at, id LIMIT 6 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('DELETE FROM job USING (SELECT id FROM job ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED) z WHERE job.id = z.id RETURNING job.id, note');
SELECT tk.same('DELETE FROM two WHERE (a, b) IN (SELECT a, b FROM two ORDER BY v LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING v');
SELECT tk.same('WITH z AS (SELECT a, b FROM two ORDER BY v DESC LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE two t SET v = -v FROM z WHERE t.b = z.b AND z.a = t.a RETURNING t.v');
SELECT tk.same('UPDATE two SET v = v + a WHERE (a, b) IN (SELECT a, b FROM two WHERE v > 40 LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING v');
SELECT tk.same('DELETE FROM job WHERE id IN (SELECT x FROM job AS k(x) WHERE x > 7 ORDER BY x LIMIT 4 FOR UPDATE SKIP LOCKED) RETURNING id, state');
-- not these: keys that are not unique, other columns, other conditions, the shard key, sub-selects for each row, locks of keys
SELECT tk.same('UPDATE loose SET v = 0 WHERE id IN (SELECT id FROM loose ORDER BY v LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE two SET v = 0 WHERE a IN (SELECT a FROM two ORDER BY v LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id IN (SELECT id + 1 FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id IN (SELECT v FROM two ORDER BY v LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) AND prio > 7');
SELECT tk.same('UPDATE job SET id = id + 100 WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('WITH z AS (SELECT id, prio FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE job SET prio = z.prio + 1 FROM z WHERE z.id = job.id');
SELECT tk.same('WITH z AS (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE job SET prio = 1 FROM z WHERE z.id = job.id RETURNING z.id');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id = (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id NOT IN (SELECT id FROM job ORDER BY id LIMIT 50 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id IN (SELECT id FROM job j WHERE j.id = job.id AND id < 9 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)');
SELECT tk.same('UPDATE job SET state = ''x'' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 5 FOR KEY SHARE SKIP LOCKED)');

-- within one transaction what has been taken is not there any more
BEGIN;
WITH z AS (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE job SET state = 'run' FROM z WHERE job.id = z.id RETURNING job.id;
WITH z AS (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE job SET state = 'run' FROM z WHERE job.id = z.id;
SELECT id FROM job WHERE state = 'run' ORDER BY id;
SAVEPOINT s;
DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED);
ROLLBACK TO s;
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
INSERT INTO job (id, state) VALUES (-1, 'new');
UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED);
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
ROLLBACK;
BEGIN;
SET LOCAL shardfdw.snapshot = 'cluster';
DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED);
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
ROLLBACK;

-- parameters, and values that nodes do not compute; other constants are other statements
PREPARE take(text, int) AS UPDATE job SET note = $1 WHERE id IN (SELECT id FROM job WHERE state = $1 AND at < now() ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED);
EXECUTE take('new', 2);
EXECUTE take('done', 1);
SELECT id, note FROM job WHERE note IN ('new', 'done') ORDER BY id;
EXECUTE take('run', NULL);
EXECUTE take('new', -1);
SELECT id FROM job WHERE state = 'done' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED;
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED;
SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED;

-- a cursor locks what is fetched
SELECT tk.planned('SELECT id FROM job WHERE state = ''done'' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED'), tk.planned('DECLARE c CURSOR FOR SELECT id FROM job WHERE state = ''done'' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM job WHERE state = 'done' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED;
FETCH 1 FROM c;
COMMIT;

-- rows that a trigger of the shard does not let be changed are taken nevertheless
SELECT count(*) FROM shardfdw.run_on_nodes($$DO $do$ DECLARE t text; BEGIN
	CREATE OR REPLACE FUNCTION tk.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF old.id = 1 THEN RETURN NULL; END IF; RETURN new; END';
	FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'tk'::regnamespace AND relname ~ '^job_[0-9]+$' LOOP
		EXECUTE format('CREATE TRIGGER keep BEFORE UPDATE ON tk.%I FOR EACH ROW EXECUTE FUNCTION tk.keep()', t); END LOOP; END $do$ $$) WHERE NOT ok;
UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;
UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
UPDATE job SET state = 'run' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id;

-- rights and row security
CREATE ROLE tk_worker;
GRANT USAGE ON SCHEMA tk TO tk_worker;
GRANT SELECT, UPDATE (state) ON job TO tk_worker;
SET ROLE tk_worker;
DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
UPDATE job SET note = '' WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
RESET ROLE;
ALTER TABLE job ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON job USING (id > 10);
SET ROLE tk_worker;
SELECT tk.planned('SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED');
RESET ROLE;
DROP POLICY mine ON job;
ALTER TABLE job DISABLE ROW LEVEL SECURITY;

DROP SCHEMA tk, tk_plain CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA tk CASCADE') WHERE NOT ok;
DROP ROLE tk_worker;
