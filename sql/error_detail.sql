-- Values in errors of nodes: a user sees no value of a column that the user may not read.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE SCHEMA ed;
SET search_path = ed;
CREATE ROLE ed_clerk;
DO $$BEGIN FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR ed_clerk SERVER node%s OPTIONS (user %L, password_required ''false'')', i, current_user); END LOOP; END$$;
GRANT USAGE ON SCHEMA ed TO ed_clerk;

-- Rows with a secret in three tables: w is sharded and p is plain; ref is a reference table.
CREATE TABLE w (k int PRIMARY KEY, v int CHECK (v < 100), secret text NOT NULL, UNIQUE (k, secret));
CREATE TABLE p (LIKE w INCLUDING ALL);
CREATE TABLE ref (k int PRIMARY KEY, secret text UNIQUE);
CREATE TABLE wchild (k int, secret text, r text CONSTRAINT wchild_r REFERENCES ref (secret));
CREATE TABLE pchild (k int, secret text, r text CONSTRAINT pchild_r REFERENCES ref (secret));
INSERT INTO ref VALUES (1, 'TOP1');
SELECT shardfdw.create_reference_table('ref') \g /dev/null
SELECT shardfdw.shard_table('w', 'k', shards => 4) \g /dev/null
SELECT shardfdw.shard_table('wchild', 'k', colocate_with => 'w') \g /dev/null
ALTER TABLE wchild ADD CONSTRAINT wchild_key FOREIGN KEY (k, secret) REFERENCES w (k, secret) DEFERRABLE;
ALTER TABLE pchild ADD CONSTRAINT pchild_key FOREIGN KEY (k, secret) REFERENCES p (k, secret) DEFERRABLE;
INSERT INTO w SELECT i, i, 'TOP' || i FROM generate_series(1, 8) i;
INSERT INTO p SELECT * FROM w;
INSERT INTO wchild SELECT k, secret, 'TOP1' FROM w WHERE k < 3;
INSERT INTO pchild SELECT * FROM wchild;
CREATE VIEW wview AS SELECT k, v, secret FROM w;
CREATE VIEW pview AS SELECT k, v, secret FROM p;

-- The error of statement for the plain table and for the sharded one. secret: is a value of that column in any field?
-- %s stands for w or p.
CREATE FUNCTION fails(statement text, OUT "table" text, OUT state text, OUT detail text, OUT secret boolean)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	message text;
	context text;
BEGIN
	FOREACH "table" IN ARRAY ARRAY['p', 'w'] LOOP
		BEGIN
			state := 'none';
			EXECUTE replace(statement, '%s', "table");
			SET CONSTRAINTS ALL IMMEDIATE;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
		END;
		-- the last line names node and shard
		detail := regexp_replace(detail, '\n?Node "node.".*', '');
		secret := concat_ws(' ', message, detail, context) ~ 'TOP';
		RETURN NEXT;
	END LOOP;
END$$;
-- The same for every kind of error that shows a row.
CREATE FUNCTION fails_each() RETURNS TABLE (kind text, "table" text, state text, detail text, secret boolean)
LANGUAGE sql AS $$
	SELECT kind, f.* FROM (VALUES
		(1, 'check', 'UPDATE %sview SET v = 1000 WHERE k = 1'),
		(2, 'check, all shards', 'UPDATE %sview SET v = v + 1000 WHERE v < 2'),
		(3, 'check, row by row', 'UPDATE %sview x SET v = 1000 FROM generate_series(1, 1) g WHERE x.k = g AND random() >= 0'),
		(4, 'check, moved row', 'UPDATE %sview SET k = k + 100, v = 1000 WHERE k = 1'),
		(5, 'not null', 'UPDATE %sview SET secret = NULL, v = 7 WHERE k = 1'),
		(6, 'insert', 'INSERT INTO %sview (k, v, secret) VALUES (50, 1000, ''own'')'),
		(7, 'upsert', 'INSERT INTO %sview (k, v, secret) VALUES (1, 1, ''own'') ON CONFLICT (k) DO UPDATE SET v = 1000'),
		(8, 'upsert of rows', 'INSERT INTO %sview (k, v, secret) SELECT g, 1, ''own'' FROM generate_series(1, 1) g ON CONFLICT (k) DO UPDATE SET v = 1000'),
		(9, 'unique', 'INSERT INTO %sview (k, v, secret) VALUES (1, 90, ''own'')'),
		(10, 'referenced', 'DELETE FROM %sview WHERE k = 1'),
		(11, 'referring', 'UPDATE %schild SET k = 3 WHERE k = 1'),
		(12, 'referred reference', 'UPDATE %schild SET r = ''9'' WHERE k = 1')) s (n, kind, statement), fails(statement) f
	ORDER BY n, f."table"
$$;
GRANT SELECT, INSERT, UPDATE, DELETE ON wview, pview TO ed_clerk;
GRANT UPDATE ON wchild, pchild TO ed_clerk;
GRANT SELECT (k) ON wchild, pchild TO ed_clerk;
\pset format unaligned

-- The owner may read all.
SELECT * FROM fails_each();
-- Another user has rights on the views alone.
SET ROLE ed_clerk;
SELECT * FROM fails_each();
-- This user may read the key.
RESET ROLE;
GRANT SELECT (k) ON w, p TO ed_clerk;
SET ROLE ed_clerk;
SELECT * FROM fails('INSERT INTO %sview (k, v, secret) VALUES (1, 90, ''own'')');
SELECT * FROM fails('UPDATE %sview SET v = 1000 WHERE k = 1');
-- This user may read each column.
RESET ROLE;
GRANT SELECT (k, v, secret) ON w, p TO ed_clerk;
SET ROLE ed_clerk;
SELECT * FROM fails('UPDATE %sview SET v = 1000 WHERE k = 1');
SELECT * FROM fails('DELETE FROM %sview WHERE k = 1');
-- Row security: no values, whatever the user may read.
RESET ROLE;
ALTER TABLE w ENABLE ROW LEVEL SECURITY;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
CREATE POLICY every ON w USING (true);
CREATE POLICY every ON p USING (true);
GRANT SELECT, UPDATE, INSERT ON w, p TO ed_clerk;
SET ROLE ed_clerk;
SELECT * FROM fails('UPDATE %s SET v = 1000 WHERE k = 1');
SELECT * FROM fails('INSERT INTO %s VALUES (1, 90, ''own'')');
RESET ROLE;
SELECT * FROM fails('UPDATE %s SET v = 1000 WHERE k = 1');
ALTER TABLE w DISABLE ROW LEVEL SECURITY;
ALTER TABLE p DISABLE ROW LEVEL SECURITY;

-- At the end of the transaction
REVOKE ALL ON w, p, wchild FROM ed_clerk;
GRANT SELECT (k), UPDATE (k) ON wchild TO ed_clerk;
SET ROLE ed_clerk;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE wchild SET k = 3 WHERE k = 1;
COMMIT;
RESET ROLE;

-- A table that is declared by hand: the node's may have columns that are not declared.
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['CREATE SCHEMA ed_hand CREATE TABLE hand (k int PRIMARY KEY, v int CHECK (v < 100), secret text DEFAULT ''TOP'')'], 'write');
CREATE FOREIGN TABLE hand (k int, v int) SERVER node1 OPTIONS (schema_name 'ed_hand');
INSERT INTO hand VALUES (1, 1);
GRANT SELECT, UPDATE, INSERT ON hand TO ed_clerk;
CREATE TABLE hands (k int, v int) PARTITION BY LIST (k);
CREATE FOREIGN TABLE hands_1 PARTITION OF hands DEFAULT SERVER node1 OPTIONS (schema_name 'ed_hand', table_name 'hand');
GRANT SELECT, UPDATE, INSERT ON hands TO ed_clerk;
SET ROLE ed_clerk;
UPDATE hand SET v = 1000;
INSERT INTO hand VALUES (1, 1);
UPDATE hands SET v = 1000;
INSERT INTO hands VALUES (1, 1);
RESET ROLE;

-- What a view computes of other tables goes to nodes as values; errors do not show them.
CREATE TABLE keys (k int, code text);
INSERT INTO keys SELECT i, 'TOP' || i FROM generate_series(1, 3) i;
CREATE VIEW joined AS SELECT w.k, w.v FROM w, keys WHERE w.secret = keys.code;
CREATE VIEW looked_up AS SELECT k, v FROM w WHERE secret = (SELECT max(code) FROM keys);
GRANT SELECT ON joined, looked_up TO ed_clerk;
CREATE FUNCTION fails_reading(statement text) RETURNS TABLE (state text, secret boolean) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	context text;
BEGIN
	EXECUTE statement;
	RETURN QUERY SELECT 'none', false;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
	secret := concat_ws(' ', SQLERRM, detail, context) ~ 'TOP';
	RETURN NEXT;
END$$;
SET ROLE ed_clerk;
SELECT * FROM fails_reading('SELECT 1 / (v - v) FROM looked_up');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM fails_reading('SELECT 1 / (v - v) FROM looked_up');
SELECT * FROM fails_reading('SELECT 1 / (v - v) FROM joined');
SELECT * FROM fails_reading('SELECT count(1 / (v - v)) FROM joined');
COMMIT;
RESET ROLE;

-- CONTEXT has the beginning of a long remote statement
DO $$
DECLARE
	context text;
BEGIN
	EXECUTE 'SELECT count(*) FROM w WHERE ' || (SELECT string_agg('1 / (v - v) = ' || i, ' OR ') FROM generate_series(1, 200) i);
EXCEPTION WHEN division_by_zero THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RAISE WARNING '% ... %', substring(context FROM 'remote SQL command: .{10}'), length(substring(context FROM 'remote SQL command: ([^\n]*)'));
END $$;
-- the key of a row that has no partition, as on plain tables
CREATE TABLE listed (k int, v int, secret text) PARTITION BY LIST (k);
CREATE TABLE listed_plain (LIKE listed) PARTITION BY LIST (k);
CREATE TABLE listed_plain_1 PARTITION OF listed_plain FOR VALUES IN (1);
SELECT shardfdw.create_shard('listed', 'listed_1', 'IN (1)', 'node1') \g /dev/null
GRANT INSERT, UPDATE, SELECT (v) ON listed, listed_plain TO ed_clerk;
INSERT INTO listed VALUES (1, 1, 'TOP');
INSERT INTO listed_plain VALUES (1, 1, 'TOP');
CREATE FUNCTION unrouted(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
BEGIN
	FOREACH message IN ARRAY ARRAY['listed_plain', 'listed'] LOOP
		BEGIN
			EXECUTE format(statement, message);
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
			RETURN NEXT message || '. ' || detail;
		END;
	END LOOP;
END$$;
SELECT unrouted(statement) FROM (VALUES ('INSERT INTO %s VALUES (2, 1)'), ('INSERT INTO %s VALUES (1, 1), (3, 1)'),
	('INSERT INTO %s SELECT g FROM generate_series(1, 4) g'), ('UPDATE %s SET k = 5'), ('UPDATE %s SET k = k + 5 WHERE k = 1'),
	('MERGE INTO %s t USING (VALUES (7)) s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k)')) x(statement);
SET ROLE ed_clerk;
SELECT unrouted(statement) FROM (VALUES ('INSERT INTO %s VALUES (2, 1)'), ('INSERT INTO %s SELECT g FROM generate_series(1, 4) g'), ('UPDATE %s SET k = 5')) x(statement);
RESET ROLE;
-- a view on a node keeps a table there: the HINT is about unshard_table()
CREATE TABLE seen (id int PRIMARY KEY);
CREATE TABLE seen_sharded (id int PRIMARY KEY);
SELECT shardfdw.create_reference_table('seen'), shardfdw.shard_table('seen_sharded', shards => 1, nodes => '{node1}') \g /dev/null
SELECT shardfdw.query_nodes('{node1}', '{CREATE VIEW ed.v AS SELECT FROM ed.seen; CREATE VIEW ed.w AS SELECT FROM ed.seen_sharded_00}', 'write') \g /dev/null
CREATE FUNCTION hint_of(statement text) RETURNS TABLE (state text, hint text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, hint = PG_EXCEPTION_HINT;
	RETURN NEXT;
END$$;
SELECT statement, h.* FROM (VALUES ($$SELECT shardfdw.unshard_table('seen')$$), ($$SELECT shardfdw.unshard_table('seen_sharded')$$),
	($$SELECT shardfdw.unshard_table('seen_sharded', mode => 'online')$$), ('DROP TABLE seen')) x(statement), hint_of(statement) h;
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['DROP SCHEMA ed_hand CASCADE'], 'write');
SELECT count(*) FROM shardfdw.run_on_nodes($$DROP OWNED BY ed_clerk$$) WHERE NOT ok;
DO $$BEGIN FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR ed_clerk SERVER node%s', i); END LOOP; END$$;
RESET search_path;
DROP SCHEMA ed CASCADE;
DROP ROLE ed_clerk;
