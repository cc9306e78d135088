-- Statements on foreign tables of one server, which its node runs as they stand, compared with plain tables.
CREATE SCHEMA foreign_modify;
CREATE SCHEMA fm_plain;
CREATE SCHEMA fm_far;
SET search_path = foreign_modify, public;
\set VERBOSITY terse
SET timezone = 'UTC';

CREATE FUNCTION make_tables(schema name, command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(command, '@', quote_ident(schema));
END$$;
\set tables 'CREATE TABLE @.a (id int PRIMARY KEY, n int, t text, d timestamptz); CREATE TABLE @.b (id int PRIMARY KEY, a_id int, x numeric); INSERT INTO @.a SELECT i, i % 7, ''t'' || i % 5, ''2020-01-01 00:00+00'' FROM generate_series(1, 60) i; INSERT INTO @.b SELECT i, i % 40, i / 8.0 FROM generate_series(1, 90) i'
SELECT make_tables('fm_plain', :'tables');
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA fm_far; ' || replace(:'tables', '@', 'fm_far'));
CREATE FOREIGN TABLE fm_far.a (id int NOT NULL, n int, t text DEFAULT 'here', d timestamptz) SERVER node1;
CREATE FOREIGN TABLE fm_far.b (id int NOT NULL, a_id int, x numeric) SERVER node1;
ALTER TABLE fm_plain.a ALTER t SET DEFAULT 'here';
SELECT count(*) FROM shardfdw.run_on_nodes($$ALTER TABLE fm_far.a ALTER t SET DEFAULT 'there', ALTER n SET DEFAULT 99$$);

-- Runs a statement on both sides; tells whether they return the same rows, or count as many, and who ran it.
CREATE FUNCTION run(command text, schema text, OUT rows text[], OUT n bigint, OUT state text) LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	PERFORM set_config('search_path', schema || ', foreign_modify, public', true);
	rows := '{}';
	BEGIN
		IF command ~* 'returning|^select' THEN
			FOR r IN EXECUTE command LOOP
				rows := rows || r::text;
			END LOOP;
			rows := ARRAY(SELECT x FROM unnest(rows) x ORDER BY x COLLATE "C");
		ELSE
			EXECUTE command;
			GET DIAGNOSTICS n = ROW_COUNT;
		END IF;
	EXCEPTION WHEN OTHERS THEN
		state := SQLSTATE;
	END;
	PERFORM set_config('search_path', 'foreign_modify, public', true);
END$$;
CREATE FUNCTION kind(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	PERFORM set_config('search_path', 'fm_far, foreign_modify, public', true);
	EXECUTE 'EXPLAIN (FORMAT json) ' || command INTO plan;
	PERFORM set_config('search_path', 'foreign_modify, public', true);
	RETURN coalesce(plan->0->'Plan'->>'Custom Plan Provider', plan->0->'Plan'->>'Node Type');
EXCEPTION WHEN OTHERS THEN
	PERFORM set_config('search_path', 'foreign_modify, public', true);
	RETURN SQLSTATE;
END$$;
CREATE FUNCTION same(command text, OUT kind text, OUT far text, OUT differs boolean) LANGUAGE plpgsql AS $$
DECLARE
	p record;
	f record;
BEGIN
	kind := kind(command);
	p := run(command, 'fm_plain');
	f := run(command, 'fm_far');
	far := coalesce(f.state, f.n || ' counted', cardinality(f.rows) || ' rows');
	differs := p IS DISTINCT FROM f;
END$$;

-- what the node runs as a whole
SELECT * FROM same('UPDATE a SET n = a.n + b.id, t = t || b.x FROM b WHERE b.a_id = a.id AND b.id < 30 RETURNING a.id, a.n, a.t, b.id, b');
SELECT * FROM same('UPDATE a SET n = a.n + 1, d = now() - now() + d FROM b WHERE b.a_id = a.id AND b.id < 30 RETURNING a.id, a.n, d');
SELECT * FROM same('UPDATE a SET n = 0 WHERE id IN (SELECT a_id FROM b WHERE x > 5)');
SELECT * FROM same('UPDATE a SET n = (SELECT count(*) FROM b WHERE a_id = a.id) RETURNING id, n');
SELECT * FROM same('UPDATE a SET t = o.t FROM a o LEFT JOIN b ON b.id = o.n WHERE o.id = a.id + 1 AND b.x IS NULL RETURNING a.id, a.t');
SELECT * FROM same('DELETE FROM b USING a WHERE a.id = b.a_id AND a.n = 2 RETURNING b.id, a.id, b.x');
SELECT * FROM same('DELETE FROM b WHERE NOT EXISTS (SELECT FROM a WHERE a.id = b.a_id)');
SELECT * FROM same('INSERT INTO a SELECT id + 1000, a_id, NULL, ''2021-01-01 UTC'' FROM b WHERE id < 20 RETURNING id, n, t');
SELECT * FROM same('INSERT INTO a (id) SELECT id + 2000 FROM b WHERE id < 20 RETURNING id, n, t, d');
SELECT * FROM same('INSERT INTO a (id, n) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = a.n + excluded.n, t = excluded.t RETURNING id, n, t');
SELECT * FROM same('INSERT INTO a (id, n) VALUES (3001, 5) ON CONFLICT (id) DO UPDATE SET n = -1');
SELECT * FROM same('INSERT INTO a VALUES (2, 5, ''v'', NULL), (3002, 5, ''v'', NULL) ON CONFLICT (id) DO UPDATE SET n = excluded.n WHERE a.n <> 3 RETURNING id, n, t');
SELECT * FROM same('INSERT INTO a (id) VALUES (2) ON CONFLICT (id) DO NOTHING RETURNING id');
SELECT * FROM same('INSERT INTO a VALUES (3), (3003) ON CONFLICT (id) DO UPDATE SET n = -3 RETURNING id, n, t');
SELECT * FROM same('WITH gone AS (DELETE FROM b WHERE id % 9 = 0 RETURNING *) INSERT INTO a (id, n) SELECT id + 4000, a_id FROM gone RETURNING id, n, t');
SELECT * FROM same('SELECT a.id, b.id FROM a JOIN b ON b.a_id = a.id WHERE a.n < 3 ORDER BY a.id, b.id LIMIT 5 FOR UPDATE OF a');
SELECT * FROM same('SELECT id FROM a WHERE n IN (SELECT n FROM a WHERE id = 5) ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED');
SELECT * FROM same('SELECT id, row_number() OVER (ORDER BY id) FROM (SELECT id FROM a WHERE id < 9 FOR SHARE) s');
SELECT * FROM same('UPDATE a SET id = 1 WHERE id IN (SELECT a_id FROM b WHERE id = 70)');
SELECT * FROM same('UPDATE a SET n = 1 / (b.id - 10) FROM b WHERE b.a_id = a.id');

-- parameters, in custom and generic plans
PREPARE up (int, text) AS UPDATE fm_far.a SET t = $2 FROM fm_far.b WHERE b.a_id = a.id AND b.id = $1 RETURNING a.id, t;
EXECUTE up (3, 'three');
SET plan_cache_mode = force_generic_plan;
EXECUTE up (4, 'four');
EXECUTE up (5, NULL);
RESET plan_cache_mode;
DEALLOCATE up;
SELECT make_tables('fm_plain', 'UPDATE @.a SET t = CASE id WHEN 3 THEN ''three'' WHEN 4 THEN ''four'' END WHERE id IN (3, 4, 5)');

-- what is left to core: a system column, a view's check option, a trigger, a generated column, another server, what is computed here
SELECT * FROM same('UPDATE a SET n = n FROM b WHERE b.a_id = a.id AND b.id = 3 RETURNING a.tableoid::regclass::text = current_schema() || ''.a'', a.ctid IS NOT NULL');
CREATE VIEW fm_plain.low AS SELECT * FROM fm_plain.a WHERE n < 100 WITH CHECK OPTION;
CREATE VIEW fm_far.low AS SELECT * FROM fm_far.a WHERE n < 100 WITH CHECK OPTION;
SELECT * FROM same('UPDATE low SET n = 5 FROM b WHERE b.a_id = low.id AND b.id < 12 RETURNING low.id, low.n');
SELECT * FROM same('UPDATE low SET n = 500 FROM b WHERE b.a_id = low.id AND b.id < 12 RETURNING low.id, low.n');
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.t := NEW.t || ''*''; RETURN NEW; END';
CREATE TRIGGER mark BEFORE UPDATE ON fm_plain.a FOR EACH ROW EXECUTE FUNCTION mark();
CREATE TRIGGER mark BEFORE UPDATE ON fm_far.a FOR EACH ROW EXECUTE FUNCTION mark();
SELECT * FROM same('UPDATE a SET n = 6 FROM b WHERE b.a_id = a.id AND b.id < 20 RETURNING a.id, a.t');
DROP TRIGGER mark ON fm_plain.a;
DROP TRIGGER mark ON fm_far.a;
CREATE FOREIGN TABLE fm_far.c (id int, a_id int, x numeric) SERVER node2 OPTIONS (table_name 'b');
CREATE TABLE fm_plain.c AS SELECT i AS id, i % 40 AS a_id, i / 8.0 AS x FROM generate_series(1, 90) i;
SELECT * FROM same('UPDATE a SET n = 7 FROM c WHERE c.a_id = a.id AND c.id < 20 RETURNING a.id, a.n');
CREATE TABLE fm_plain.l AS SELECT i AS id FROM generate_series(1, 5) i;
CREATE TABLE fm_far.l AS TABLE fm_plain.l;
SELECT * FROM same('DELETE FROM a USING l WHERE l.id + 10 = a.id RETURNING a.id');
SELECT * FROM same('SELECT a.id FROM a JOIN l USING (id) ORDER BY id FOR UPDATE');
CREATE FUNCTION local_sum(i int, j int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i + j; END';
SELECT * FROM same('UPDATE a SET n = local_sum(a.n, b.id) FROM b WHERE b.a_id = a.id AND b.id < 20 RETURNING a.id, a.n');
ALTER FOREIGN TABLE fm_far.a OPTIONS (ADD updatable 'false');
SELECT kind('UPDATE a SET n = 7 FROM b WHERE b.a_id = a.id'), kind('SELECT FROM a FOR UPDATE') AS locking;
UPDATE fm_far.a SET n = 7 FROM fm_far.b WHERE b.a_id = a.id;
ALTER FOREIGN TABLE fm_far.a OPTIONS (DROP updatable);
CREATE ROLE fm_role;
GRANT USAGE ON SCHEMA fm_far TO fm_role;
GRANT SELECT ON fm_far.a, fm_far.b TO fm_role;
SET ROLE fm_role;
UPDATE fm_far.a SET n = 7 FROM fm_far.b WHERE b.a_id = a.id;
SELECT a.id FROM fm_far.a JOIN fm_far.b ON b.a_id = a.id FOR UPDATE;
RESET ROLE;
-- a partition's bounds are checked here
CREATE TABLE fm_far.parent (id int, a_id int, x numeric) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE fm_far.part PARTITION OF fm_far.parent FOR VALUES FROM (0) TO (1000) SERVER node1 OPTIONS (table_name 'b');
INSERT INTO fm_far.part SELECT id + 5000, 0, 0 FROM fm_far.b;

-- multi-column assignments, with casts; a merged column of a join
SELECT * FROM same('UPDATE a SET (n) = (SELECT count(*) FROM b WHERE a_id = a.id) WHERE id < 40 RETURNING id, n');
SELECT * FROM same('UPDATE a SET (n, t) = (SELECT count(*) + 0.5, max(x)::text FROM b WHERE a_id = a.id) WHERE id < 30 RETURNING id, n, t');
SELECT * FROM same('UPDATE a SET (n) = (SELECT count(*) + 0.5 FROM pg_am WHERE amname <> a.t) WHERE id < 20');
SELECT * FROM same('UPDATE a SET n = a2.n + 1 FROM a a2 FULL JOIN b USING (id) WHERE b.id = a.id AND a2.id < 9 RETURNING a.*');
-- in the end
SELECT * FROM same('SELECT * FROM a');
SELECT * FROM same('SELECT * FROM b');

SET client_min_messages = warning;
DROP SCHEMA foreign_modify, fm_plain, fm_far CASCADE;
DROP OWNED BY fm_role;
DROP ROLE fm_role;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA fm_far CASCADE');
