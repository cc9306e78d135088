-- UPDATE, DELETE and ON CONFLICT row by row, where actions of foreign keys change rows of the same table: each statement beside a plain table.
-- The node runs the actions after each row, PostgreSQL at the end of the statement. What differs has to be an error.
SET client_min_messages = warning;
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' --> '

CREATE SCHEMA fk_rows;
CREATE SCHEMA fk_rows_plain;
SELECT format($f$
	SET search_path = %1$s;
	CREATE TABLE log (what text);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (concat_ws(' ', TG_OP, OLD.k, OLD.id)); RETURN NULL; END $$;
	CREATE FUNCTION yes(int) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN $1 IS NOT NULL; END $$;
	CREATE TABLE tree (k int, id int, up int, note text, PRIMARY KEY (k, id));
	CREATE TABLE nulls (k int, id int, up int, note text, PRIMARY KEY (k, id));
	CREATE TABLE defaults (k int, id int, up int DEFAULT 0, note text, PRIMARY KEY (k, id));
	CREATE TABLE a (k int, id int, up int, note text, PRIMARY KEY (k, id));
	CREATE TABLE b (k int, id int, up int, note text, PRIMARY KEY (k, id));
	CREATE TABLE free (k int, id int, note text);
	CREATE TABLE other (k int, n int);
	CREATE TABLE par (k int PRIMARY KEY, v int);
	CREATE TABLE chi (k int PRIMARY KEY, v int, code int);
	CREATE TABLE apart (k int PRIMARY KEY, v int);
	CREATE TABLE code (id int PRIMARY KEY, v int);
	INSERT INTO other SELECT k, n FROM generate_series(1, 6) k, generate_series(1, 2) n
$f$, x) FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x \gexec
SET search_path = fk_rows;
SELECT shardfdw.shard_table(t, 'k', shards => 3) FROM unnest('{tree,nulls,defaults,a,free,par}'::regclass[]) t \g /dev/null
SELECT shardfdw.shard_table('b', 'k', colocate_with => 'a') \g /dev/null
SELECT shardfdw.shard_table(t, 'k', colocate_with => 'par') FROM unnest('{chi,apart}'::regclass[]) t \g /dev/null
SELECT shardfdw.create_reference_table('code') \g /dev/null
-- a table of two levels, with a tree in each partition
CREATE TABLE levels (month int, k int, id int, up int, note text) PARTITION BY RANGE (month);
SELECT format('CREATE TABLE levels%1$s PARTITION OF levels FOR VALUES FROM (%1$s) TO (%1$s + 1) PARTITION BY HASH (k)', m) FROM generate_series(1, 2) m \gexec
SELECT shardfdw.create_shard(format('levels%s', m)::regclass, format('levels%s_%s', m, i)::name, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || 1 + (m + i) % 4)::name) FROM generate_series(1, 2) m, generate_series(0, 1) i \g /dev/null
CREATE TABLE fk_rows_plain.levels (month int, k int, id int, up int, note text) PARTITION BY RANGE (month);
SELECT format('CREATE TABLE fk_rows_plain.levels%1$s PARTITION OF fk_rows_plain.levels FOR VALUES FROM (%1$s) TO (%1$s + 1)', m) FROM generate_series(1, 2) m \gexec
-- tree: the node deletes rows; nulls, defaults: it updates them; a and b: each one refers to the other one
SELECT format($f$
	SET search_path = %1$s;
	ALTER TABLE tree ADD CONSTRAINT tree_up FOREIGN KEY (k, up) REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE;
	ALTER TABLE nulls ADD CONSTRAINT nulls_up FOREIGN KEY (k, up) REFERENCES nulls ON DELETE SET NULL (up) ON UPDATE CASCADE;
	ALTER TABLE defaults ADD CONSTRAINT defaults_up FOREIGN KEY (k, up) REFERENCES defaults ON DELETE SET DEFAULT (up);
	ALTER TABLE b ADD CONSTRAINT b_up FOREIGN KEY (k, up) REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE;
	ALTER TABLE a ADD CONSTRAINT a_up FOREIGN KEY (k, up) REFERENCES b ON DELETE CASCADE;
	ALTER TABLE chi ADD CONSTRAINT chi_par FOREIGN KEY (k) REFERENCES par ON DELETE CASCADE;
	ALTER TABLE chi ADD CONSTRAINT chi_code FOREIGN KEY (code) REFERENCES code ON DELETE CASCADE;
	ALTER TABLE levels1 ADD PRIMARY KEY (k, id);
	ALTER TABLE levels1 ADD CONSTRAINT levels_up FOREIGN KEY (k, up) REFERENCES levels1 ON DELETE CASCADE;
	ALTER TABLE levels2 ADD PRIMARY KEY (k, id);
	ALTER TABLE levels2 ADD CONSTRAINT levels_up FOREIGN KEY (k, up) REFERENCES levels2 ON DELETE CASCADE;
$f$, x) FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x \gexec
SET search_path = fk_rows;
-- row 1 of each key is the root, its children are 2 and 3, and so on; triggers note what the statement itself changes
SELECT format($f$
	SET search_path = %1$s;
	INSERT INTO tree SELECT k, id, nullif(id / 2, 0), 'n' FROM generate_series(1, 6) k, generate_series(1, 15) id;
	INSERT INTO nulls TABLE tree;
	INSERT INTO defaults SELECT k, id, CASE WHEN id > 0 THEN id / 2 END, 'n' FROM generate_series(1, 6) k, generate_series(0, 7) id;
	INSERT INTO levels SELECT k %% 2 + 1, * FROM tree;
	INSERT INTO a SELECT k, id, NULL, 'n' FROM generate_series(1, 6) k, generate_series(1, 4) id;
	INSERT INTO b SELECT k, id, id, 'n' FROM generate_series(1, 6) k, generate_series(1, 4) id;
	UPDATE a SET up = id - 1 WHERE id > 1;
	INSERT INTO free SELECT k, id FROM tree;
	INSERT INTO par SELECT i, i FROM generate_series(1, 20) i;
	INSERT INTO apart TABLE par;
	INSERT INTO code TABLE par;
	INSERT INTO chi SELECT i, i, i FROM generate_series(1, 9) i
$f$, x) FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x \gexec
SELECT format('CREATE TRIGGER note AFTER UPDATE OR DELETE ON %1$s.%2$s FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION %1$s.note()', x, t)
	FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x, unnest('{tree,nulls,defaults,levels,a,free}'::text[]) t \gexec
SET search_path = fk_rows;

-- What the statement returns, counts and leaves behind, rolled back; or its error.
CREATE FUNCTION outcome(place text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	returned text[] := '{}';
	one record;
	n bigint;
BEGIN
	PERFORM set_config('search_path', place, true);
	BEGIN
		IF statement ~ 'RETURNING[^)]*$' THEN
			FOR one IN EXECUTE statement LOOP
				returned := returned || one::text;
			END LOOP;
		ELSE
			EXECUTE statement;
			GET DIAGNOSTICS n = ROW_COUNT;
		END IF;
		SELECT concat_ws(' ', 'ok', n, md5(string_agg(x, ' ' ORDER BY x COLLATE "C"))) INTO result FROM unnest(returned) x;
		FOR one IN SELECT unnest('{tree,nulls,defaults,levels,a,b,free,log,par,chi,apart,code}'::text[]) AS name LOOP
			EXECUTE format('SELECT concat_ws('' '', $1, count(*), md5(string_agg(t::text, '' '' ORDER BY t::text COLLATE "C"))) FROM %I t', one.name) INTO result USING result;
		END LOOP;
		RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
	EXCEPTION
		WHEN SQLSTATE 'ZZZZZ' THEN NULL;
		WHEN others THEN result := concat_ws(' ', SQLSTATE, regexp_replace(SQLERRM, '\d?_\d+', '_NN'));
	END;
	RETURN result;
END $$;
CREATE FUNCTION compare(statement text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN s = p THEN split_part(s, ' ', 1) || ', as plain' WHEN s ~ '^ok' THEN format(E'DIFFERS from plain:\n%s\n%s', p, s) ELSE format('%s (plain: %s)', s, CASE WHEN p ~ '^ok' THEN 'ok' ELSE p END) END
		FROM (SELECT fk_rows.outcome('fk_rows', statement) AS s, fk_rows.outcome('fk_rows_plain', statement) AS p) x
$$;
SELECT statement, fk_rows.compare(statement) FROM unnest(ARRAY[
	-- the statement deletes a row, and would delete rows that the node has deleted with it
	'DELETE FROM tree WHERE k = 1',
	'DELETE FROM tree',
	'DELETE FROM tree WHERE id < 8 RETURNING *',
	'DELETE FROM tree WHERE yes(id)',
	'DELETE FROM tree WHERE id IN (1, 15) RETURNING id',
	'DELETE FROM tree USING other o WHERE o.k = tree.k',
	'DELETE FROM tree WHERE (SELECT count(*) FROM tree z WHERE z.k = tree.k AND z.up = tree.id) < 5 RETURNING id',
	'WITH d AS (DELETE FROM tree RETURNING *) SELECT count(*) FROM d -- RETURNING',
	'WITH d AS (DELETE FROM tree WHERE k < 4 RETURNING *) INSERT INTO log SELECT d.note FROM d RETURNING what',
	'DELETE FROM levels',
	'DELETE FROM levels WHERE id > 1 RETURNING *',
	'DELETE FROM a',
	'DELETE FROM b WHERE yes(id)',
	-- the node has changed the row: it has another ctid then
	'DELETE FROM nulls',
	'DELETE FROM nulls WHERE yes(id) RETURNING *',
	'DELETE FROM defaults WHERE id > 0',
	'UPDATE tree SET id = id + 100',
	'UPDATE tree SET id = id + 100, note = up WHERE k = 3 RETURNING *',
	'UPDATE nulls SET id = id + 100 WHERE yes(id)',
	'UPDATE tree SET id = id + o.n * 100 FROM other o WHERE o.k = tree.k',
	'INSERT INTO tree SELECT k, n FROM other ORDER BY n ON CONFLICT (k, id) DO UPDATE SET id = tree.id + 100, note = tree.up',
	-- the rows that other rows refer to come last
	'DELETE FROM tree WHERE id > 7',
	'DELETE FROM tree WHERE id IN (1, 100) RETURNING *',
	'DELETE FROM levels WHERE id > 7',
	'DELETE FROM nulls WHERE id = 2',
	'DELETE FROM defaults WHERE id > 3 RETURNING *',
	'DELETE FROM a WHERE id = 4',
	'UPDATE tree SET note = ''x'' RETURNING *',
	'UPDATE tree SET id = id + 100 WHERE id > 7 RETURNING *',
	'UPDATE tree SET id = id + 100 WHERE id = 2 RETURNING *',
	'UPDATE a SET id = id + 10',
	'UPDATE b SET id = id + 10 WHERE yes(id)',
	'INSERT INTO tree SELECT k, n FROM other ON CONFLICT (k, id) DO UPDATE SET note = excluded.id',
	'INSERT INTO tree SELECT k, n + 13 FROM other WHERE n = 2 AND k = 4 ON CONFLICT (k, id) DO UPDATE SET id = tree.id + 100 RETURNING *',
	-- a row that a join returns twice is changed once
	'DELETE FROM tree USING other o WHERE o.k = tree.k AND id > 7 RETURNING id',
	'UPDATE tree SET note = ''x'' FROM other o WHERE o.k = tree.k RETURNING id',
	'UPDATE tree SET id = id + 100 FROM other o WHERE o.k = tree.k AND id > 7 RETURNING id',
	-- so is a row that two parts of the statement delete; parts that foreign keys connect are refused
	'WITH d AS (DELETE FROM free WHERE id < 9 RETURNING *), e AS (SELECT count(*) AS n FROM d) DELETE FROM free USING e WHERE id < e.n',
	'WITH d AS (DELETE FROM free WHERE id < 9 AND yes(id) RETURNING *), e AS (SELECT count(*) AS n FROM d) DELETE FROM free USING e WHERE id < e.n',
	'WITH d AS (DELETE FROM tree WHERE id = 1 RETURNING *) DELETE FROM tree WHERE id = 9 AND k IN (SELECT k FROM d)',
	'WITH d AS (DELETE FROM tree WHERE k = 1 RETURNING *) INSERT INTO tree SELECT 7, id FROM d',
	'WITH d AS (DELETE FROM other WHERE k = 1 RETURNING k) DELETE FROM tree WHERE id = 9 AND k IN (SELECT k FROM d) RETURNING id'
	]) WITH ORDINALITY x(statement, n) ORDER BY n;

-- a function of the statement deletes a row, and the node the rows that refer to it
SELECT format($f$
	CREATE FUNCTION %1$s.cut(int, int) RETURNS bool LANGUAGE plpgsql SET search_path = %1$s AS $$ BEGIN IF $2 = 9 THEN DELETE FROM a WHERE k = $1 AND id = 1; END IF; RETURN true; END $$
$f$, x) FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x \gexec
SELECT statement, fk_rows.compare(statement) FROM unnest(ARRAY[
	'DELETE FROM b WHERE cut(k, id + 8) AND k = 2',
	'UPDATE b SET note = ''x'' WHERE cut(k, id + 8)',
	-- before the rows are read
	'DELETE FROM b WHERE k = 2 AND id = ANY (ARRAY(SELECT n FROM other WHERE k = 2 AND cut(k, n + 8)))',
	'UPDATE b SET note = ''x'' WHERE k = 2 AND id > (SELECT 0 FROM other WHERE k = 2 AND n = 1 AND cut(k, n + 8))',
	'DELETE FROM b USING (SELECT * FROM other WHERE k = 2 AND cut(k, n + 8) OFFSET 0) o WHERE b.k = o.k AND b.id = o.n'
	]) WITH ORDINALITY x(statement, n) ORDER BY n;

-- the same before a node runs a statement as a whole
SELECT format($f$
	CREATE FUNCTION %1$s.drops_%2$s(int) RETURNS int LANGUAGE plpgsql SET search_path = %1$s AS $$ BEGIN DELETE FROM %2$s WHERE %3$s = $1; RETURN $1; END $$
$f$, x, t, CASE t WHEN 'code' THEN 'id' ELSE 'k' END) FROM unnest('{fk_rows,fk_rows_plain}'::text[]) x, unnest('{par,code,apart}'::text[]) t \gexec
SELECT statement, fk_rows.compare(statement) FROM unnest(ARRAY[
	'MERGE INTO chi t USING (VALUES (drops_par(3))) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 5',
	'UPDATE chi SET v = drops_par(3) WHERE k = 3',
	'DELETE FROM chi WHERE k = (SELECT drops_par(3))',
	'SELECT k FROM chi WHERE k = (SELECT drops_par(3)) FOR UPDATE',
	'INSERT INTO chi VALUES (3, drops_par(3), 3) ON CONFLICT (k) DO UPDATE SET v = excluded.v',
	'INSERT INTO apart VALUES (30, (SELECT v FROM chi WHERE k = drops_par(3)))',
	'UPDATE chi SET v = drops_code(3) WHERE k = 3',
	'DELETE FROM chi WHERE v = (SELECT drops_code(3))',
	-- no foreign key leads from there
	'UPDATE chi SET v = drops_apart(3) WHERE k = 3',
	'UPDATE par SET v = drops_code(12) WHERE k = 3',
	'INSERT INTO chi VALUES (10, drops_par(3), 1)'
	]) WITH ORDINALITY x(statement, n) ORDER BY n;

-- two parts, of which one changes a reference table and the other one rows that refer to it
SELECT statement, fk_rows.compare(statement) FROM unnest(ARRAY[
	'WITH i AS (INSERT INTO chi VALUES (10, 0, 3) RETURNING code) DELETE FROM code USING i WHERE id = i.code',
	'WITH u AS (UPDATE chi SET code = 3 WHERE k = 5 RETURNING code) DELETE FROM code USING u WHERE id = u.code',
	'WITH i AS (INSERT INTO chi VALUES (5, 0, 3) ON CONFLICT (k) DO UPDATE SET code = 3 RETURNING 1) MERGE INTO code USING i ON id = 3 WHEN MATCHED THEN DELETE',
	-- the foreign key has no action, or the part does not change what it refers to
	'WITH i AS (INSERT INTO chi VALUES (10, 0, 3) RETURNING code) UPDATE code SET id = 30 FROM i WHERE id = i.code',
	'WITH u AS (UPDATE code SET v = 1 WHERE id = 3 RETURNING id) INSERT INTO chi SELECT 10, 0, id FROM u',
	'WITH d AS (DELETE FROM code WHERE id = 3 RETURNING id) DELETE FROM chi USING d WHERE code = d.id',
	'WITH d AS (DELETE FROM code WHERE id = 3 RETURNING id) INSERT INTO apart SELECT id + 30 FROM d',
	'WITH d AS (DELETE FROM code WHERE id = 3 RETURNING id) UPDATE code SET v = 0 FROM d WHERE code.id = 4'
	]) WITH ORDINALITY x(statement, n) ORDER BY n;

-- the whole message
\set VERBOSITY default
\set SHOW_CONTEXT never
DELETE FROM tree WHERE k = 1;
UPDATE tree SET id = id + 100 WHERE k = 1;
INSERT INTO tree SELECT 1, n FROM generate_series(1, 2) n ON CONFLICT (k, id) DO UPDATE SET id = tree.id + 100;
\set VERBOSITY terse
-- as its hint says: first the rows that refer to others
BEGIN;
DELETE FROM tree WHERE k = 1 AND id > 7;
DELETE FROM tree WHERE k = 1 AND id > 3;
DELETE FROM tree WHERE k = 1 AND id > 1;
DELETE FROM tree WHERE k = 1;
SELECT count(*), count(DISTINCT what) FROM log;
ROLLBACK;

-- without row triggers nodes run the statement as a whole
DROP TRIGGER note ON tree;
DELETE FROM tree WHERE k = 1;
UPDATE tree SET id = id + 100;

-- functions and parts of WITH that change no key column start no action, except if they delete rows
SET search_path = fk_rows;
CREATE TABLE tag (id int PRIMARY KEY, n int);
CREATE TABLE account (id int PRIMARY KEY, n int DEFAULT 0);
CREATE TABLE post (account int REFERENCES account ON DELETE CASCADE, id int, n int, PRIMARY KEY (account, id));
CREATE TABLE post_tag (account int, post int, tag int REFERENCES tag ON DELETE RESTRICT ON UPDATE CASCADE, n int,
	PRIMARY KEY (account, post, tag), FOREIGN KEY (account, post) REFERENCES post ON DELETE CASCADE);
INSERT INTO tag SELECT i, i FROM generate_series(1, 5) i;
INSERT INTO account SELECT i FROM generate_series(1, 5) i;
INSERT INTO post SELECT i, i, i FROM generate_series(1, 5) i;
SELECT shardfdw.create_reference_table('tag');
SELECT shardfdw.shard_tables('{account,post,post_tag}', 'account', shards => 4);
CREATE FUNCTION next_number(int) RETURNS int LANGUAGE sql AS 'UPDATE account SET n = n + 1 WHERE id = $1 RETURNING n';
CREATE FUNCTION get_tag(int) RETURNS int LANGUAGE sql AS 'INSERT INTO tag VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING id';
CREATE FUNCTION leave(int) RETURNS int LANGUAGE sql AS 'DELETE FROM account WHERE id = $1 RETURNING id';
CREATE FUNCTION renumber(int) RETURNS int LANGUAGE sql AS 'UPDATE tag SET id = id + 100 WHERE id = $1 RETURNING id';
WITH t AS (INSERT INTO tag VALUES (2, 9) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING id)
	INSERT INTO post_tag SELECT 1, 1, id, 0 FROM t;
INSERT INTO post VALUES (1, next_number(1), 7) ON CONFLICT (account, id) DO UPDATE SET n = excluded.n;
INSERT INTO post_tag VALUES (1, 1, get_tag(1), 7) ON CONFLICT (account, post, tag) DO UPDATE SET n = excluded.n;
TABLE post ORDER BY 1, 2;
TABLE post_tag ORDER BY 1, 2, 3;
WITH t AS (INSERT INTO tag VALUES (2, 9) ON CONFLICT (id) DO UPDATE SET id = 6 RETURNING id)
	INSERT INTO post_tag SELECT 1, 1, id, 0 FROM t;
INSERT INTO post VALUES (2, leave(3), 7) ON CONFLICT (account, id) DO UPDATE SET n = excluded.n;
INSERT INTO post_tag VALUES (1, 1, renumber(4), 7) ON CONFLICT (account, post, tag) DO UPDATE SET n = excluded.n;
-- rows that a foreign key's action has changed are not locked as if they were older
INSERT INTO post_tag VALUES (5, 5, 5, 5);
SELECT * FROM post_tag WHERE account = 5 AND tag < (SELECT renumber(5)) FOR UPDATE;
-- a trigger may change the key
CREATE FUNCTION change_id() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id = OLD.id + 100; RETURN NEW; END $$;
CREATE TRIGGER change_id BEFORE UPDATE ON tag FOR EACH ROW EXECUTE FUNCTION change_id();
INSERT INTO post_tag VALUES (1, 1, get_tag(1), 7) ON CONFLICT (account, post, tag) DO UPDATE SET n = excluded.n;

DROP SCHEMA fk_rows, fk_rows_plain CASCADE;
