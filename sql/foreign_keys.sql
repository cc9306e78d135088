-- Foreign keys between sharded tables, as applications have them: shard_tables(), ON DELETE actions, hints; each statement beside a plain database.
CREATE SCHEMA fk;
CREATE SCHEMA fk_plain;
SET client_min_messages = warning;
SELECT format($f$
	SET search_path = %1$s;
	CREATE TABLE kind (id int PRIMARY KEY, name text);
	CREATE TABLE company (id bigint PRIMARY KEY, name text, kind int REFERENCES kind DEFERRABLE INITIALLY DEFERRED);
	CREATE TABLE campaign (company_id bigint NOT NULL REFERENCES company ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, id int, parent int, PRIMARY KEY (company_id, id),
		CONSTRAINT tree FOREIGN KEY (company_id, parent) REFERENCES campaign ON DELETE SET NULL (parent));
	CREATE TABLE ad (company_id bigint, id int, campaign_id int, note text, PRIMARY KEY (company_id, id),
		FOREIGN KEY (company_id, campaign_id) REFERENCES campaign (company_id, id) ON DELETE SET NULL (campaign_id) ON UPDATE CASCADE);
	CREATE TABLE click (company_id bigint, ad_id int, at int, FOREIGN KEY (company_id, ad_id) REFERENCES ad ON DELETE CASCADE ON UPDATE CASCADE);
	INSERT INTO kind SELECT g, 'k' || g FROM generate_series(1, 5) g;
	INSERT INTO company SELECT g, 'c' || g, g %% 5 + 1 FROM generate_series(1, 40) g;
	INSERT INTO campaign SELECT c, i, nullif(i - 1, 0) FROM generate_series(1, 40) c, generate_series(1, 4) i;
	INSERT INTO ad SELECT c, i, i FROM generate_series(1, 38) c, generate_series(1, 4) i;
	INSERT INTO click SELECT c, i, g FROM generate_series(1, 38) c, generate_series(1, 4) i, generate_series(1, 2) g;
	CREATE TABLE here (company_id bigint REFERENCES company)
$f$, x) FROM unnest('{fk,fk_plain}'::text[]) x \gexec
SET search_path = fk;
SELECT shardfdw.create_reference_table('kind') \g /dev/null

-- hints name the way that works
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT shardfdw.shard_table('campaign');
ALTER TABLE campaign DROP CONSTRAINT tree;
SELECT shardfdw.shard_table('campaign');
SELECT shardfdw.shard_table('company');
-- the call can be pasted
BEGIN;
SELECT shardfdw.shard_tables('{fk.ad,fk.campaign,fk.click,fk.company,fk.here}', 'company_id') \g /dev/null
ROLLBACK;
CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree);
SELECT shardfdw.shard_table('tree');
DROP TABLE tree;
ALTER TABLE campaign ADD CONSTRAINT tree FOREIGN KEY (company_id, parent) REFERENCES campaign ON DELETE SET NULL (parent);
SELECT shardfdw.shard_tables('{company,campaign,ad,click}', 'company_id', shards => 4);
DROP TABLE here;
-- what cannot be: no key, an action that changes it, a key that does not pair it
CREATE TABLE lone (id int PRIMARY KEY);
SELECT shardfdw.shard_tables('{company,lone}', 'company_id');
SELECT shardfdw.shard_tables('{lone,lone}', 'id');
SELECT shardfdw.shard_tables('{}', 'id');
SELECT shardfdw.shard_tables(NULL, 'id');
SELECT shardfdw.shard_tables('{kind}', 'id');
CREATE TABLE pair (company_id bigint, id int, campaign_id int REFERENCES lone (id), x bigint REFERENCES company ON DELETE SET NULL);
SELECT shardfdw.shard_tables('{company,campaign,ad,click,pair}', 'company_id');
SELECT shardfdw.shard_tables('{company,campaign,ad,click,pair}', 'x');
ALTER TABLE pair ALTER x SET DEFAULT 5, DROP CONSTRAINT pair_x_fkey, ADD FOREIGN KEY (x) REFERENCES company ON DELETE SET DEFAULT;
SELECT shardfdw.shard_tables('{company,pair}', 'x');
SELECT shardfdw.shard_tables('{company,campaign,ad,click,pair}', 'x');
DROP TABLE pair;
CREATE TABLE pair (id int PRIMARY KEY REFERENCES kind ON UPDATE CASCADE);
SELECT shardfdw.shard_table('pair');
DROP TABLE pair;

SELECT shardfdw.shard_tables('{company,campaign,ad,click}', 'company_id', shards => 4);
SELECT relation, key, shards, colocated_with FROM shardfdw.tables WHERE relation IN ('company'::regclass, 'campaign'::regclass, 'ad'::regclass, 'click'::regclass) ORDER BY relation::text COLLATE "C";
SELECT DISTINCT t, r.result FROM unnest('{company,campaign,ad,click}'::regclass[]) t, shardfdw.run_on_shards(t, $$
	SELECT string_agg(regexp_replace(format('%%s %%s', conname, pg_get_constraintdef(oid)), '_\d\d\(', '_NN('), '; ' ORDER BY conname) FROM pg_constraint WHERE contype = 'f' AND conrelid = to_regclass(%L)$$) r ORDER BY 1;

-- from tables that are not sharded, and to such ones; keys that do not pair; actions
CREATE TABLE local (company_id bigint REFERENCES company);
CREATE TABLE local (a int, company_id bigint, FOREIGN KEY (company_id) REFERENCES company (id));
CREATE TABLE local (a bigint PRIMARY KEY);
ALTER TABLE local ADD FOREIGN KEY (a) REFERENCES company;
ALTER TABLE local ADD COLUMN b bigint REFERENCES fk.company;
ALTER TABLE kind ADD COLUMN b bigint REFERENCES fk.company;
ALTER TABLE local ADD COLUMN b int, ADD FOREIGN KEY (b, a) REFERENCES campaign (id, company_id);
ALTER TABLE local ADD FOREIGN KEY (a) REFERENCES campaign (id);
ALTER TABLE ad ADD FOREIGN KEY (id) REFERENCES local;
ALTER TABLE ad ADD FOREIGN KEY (id) REFERENCES company;
SELECT shardfdw.shard_table('local', shards => 3) \g /dev/null
ALTER TABLE ad ADD FOREIGN KEY (company_id) REFERENCES local;
ALTER TABLE campaign ADD FOREIGN KEY (company_id) REFERENCES company ON DELETE SET NULL;
ALTER TABLE campaign ADD FOREIGN KEY (company_id) REFERENCES company ON UPDATE SET NULL;
ALTER TABLE local ADD FOREIGN KEY (a) REFERENCES kind (id) ON UPDATE CASCADE;
DROP TABLE local;

-- the same statements in both schemas: errors, and what the tables have then
CREATE FUNCTION outcome(place text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', place, true);
	BEGIN
		EXECUTE statement;
		SET CONSTRAINTS ALL IMMEDIATE;
		result := 'ok';
	EXCEPTION WHEN others THEN
		GET STACKED DIAGNOSTICS result = CONSTRAINT_NAME;
		result := concat_ws(' ', SQLSTATE, result);
	END;
	SET CONSTRAINTS ALL DEFERRED;
	RETURN concat_ws(' ', result, (SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM company c), (SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM campaign c),
		(SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM ad c), (SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM click c));
END $$;
-- Writes what happens, and whether the same happens on plain tables.
CREATE FUNCTION compare(statement text) RETURNS text LANGUAGE sql AS $$
	SELECT split_part(s, ' ', 1) || CASE WHEN s = p THEN ', as plain' ELSE format(E', but plain:\n%s\n%s', p, s) END FROM (SELECT fk.outcome('fk', statement) AS s, fk.outcome('fk_plain', statement) AS p) x
$$;
SELECT statement, fk.compare(statement) FROM unnest(ARRAY[
	'DELETE FROM company WHERE id = 3',
	'DELETE FROM company WHERE id BETWEEN 4 AND 9',
	'DELETE FROM campaign WHERE company_id = 10 AND id = 2',
	'DELETE FROM campaign WHERE id = 3',
	'DELETE FROM ad WHERE company_id IN (11, 12) AND id < 3',
	'DELETE FROM company USING campaign k WHERE k.company_id = company.id AND k.id = 4 AND company.id < 14',
	'WITH d AS (DELETE FROM company WHERE id IN (14, 15) RETURNING id) SELECT count(*) FROM d',
	'UPDATE campaign SET id = id + 10 WHERE company_id = 16',
	'UPDATE campaign SET id = id + 100 WHERE company_id IN (17, 18) AND id > 3',
	'UPDATE ad SET id = id + 10',
	'INSERT INTO campaign VALUES (999, 1)',
	'INSERT INTO ad VALUES (20, 50, 77)',
	'INSERT INTO click VALUES (20, 77, 1)',
	'INSERT INTO campaign VALUES (1000, 1); INSERT INTO company VALUES (1000)',
	'DELETE FROM kind WHERE id = 2',
	'UPDATE company SET kind = 9 WHERE id < 30',
	'UPDATE company SET id = id + 2000 WHERE id = 21',
	'UPDATE company SET id = id + 2000 WHERE id > 25 AND id < 35',
	'DELETE FROM campaign WHERE company_id = 39; UPDATE company SET id = 5000 WHERE id = 39',
	'DELETE FROM campaign WHERE company_id = 40; UPDATE company SET id = id + 6000 WHERE id = 40',
	'MERGE INTO company c USING (VALUES (24::bigint), (7777)) v(id) ON c.id = v.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v.id, ''m'', 1)',
	'DELETE FROM company']) WITH ORDINALITY x(statement, n) ORDER BY n;
SELECT (SELECT count(*) FROM company), (SELECT count(*) FROM campaign), (SELECT count(*) FROM ad), (SELECT count(*) FROM click);

-- a row that moves takes nothing along: what is refused is refused before anything is deleted
DELETE FROM click;
DELETE FROM ad;
INSERT INTO company SELECT g, 'n' || g FROM generate_series(1, 20) g;
INSERT INTO campaign SELECT g, 1 FROM generate_series(1, 20) g;
INSERT INTO ad SELECT g, 1, 1 FROM generate_series(1, 10) g;
INSERT INTO click SELECT g, 1, 1 FROM generate_series(1, 10) g;
UPDATE company SET id = id + 100 WHERE id < 12;
UPDATE ad SET company_id = company_id + 10;
SELECT (SELECT count(*) FROM company), (SELECT count(*) FROM campaign), (SELECT count(campaign_id) FROM ad), (SELECT count(*) FROM click);
-- without rows that refer to it, it moves
DELETE FROM click;
UPDATE ad SET company_id = company_id + 10;
SELECT count(*), min(company_id), max(company_id) FROM ad;
SELECT count(*) FROM ad JOIN campaign USING (company_id) JOIN company c ON c.id = company_id;

-- A foreign key that shards have is not made twice, by whatever name; it can be replaced
CREATE TABLE up (k int PRIMARY KEY, u int, UNIQUE (k, u));
CREATE TABLE down (k int, u int, kind int);
SELECT shardfdw.shard_table('up', shards => 4), shardfdw.shard_table('down', 'k', colocate_with => 'up') \g /dev/null
ALTER TABLE down ADD FOREIGN KEY (k) REFERENCES up, ADD CONSTRAINT to_kind FOREIGN KEY (kind) REFERENCES kind;
\set VERBOSITY default
ALTER TABLE down ADD FOREIGN KEY (k) REFERENCES up;
\set VERBOSITY terse
ALTER TABLE down ADD CONSTRAINT other FOREIGN KEY (k) REFERENCES up (k) ON DELETE CASCADE;
ALTER TABLE down ADD x int, ADD FOREIGN KEY (kind) REFERENCES kind;
ALTER TABLE down DROP CONSTRAINT to_kind, ADD CONSTRAINT kind_again FOREIGN KEY (kind) REFERENCES kind ON DELETE CASCADE;
ALTER TABLE down ADD FOREIGN KEY (k, u) REFERENCES up (k, u);
SELECT DISTINCT result FROM shardfdw.run_on_shards('down', $$SELECT string_agg(conname, ', ' ORDER BY conname::text COLLATE "C") FROM pg_constraint WHERE conrelid = %L::regclass AND contype = 'f'$$);

-- parts of a statement (WITH) of which one makes a foreign key change rows that another one changes
CREATE TABLE top (id int PRIMARY KEY, v int);
CREATE TABLE mid (id int PRIMARY KEY, v int);
CREATE TABLE leaf (id int, n int, w int, PRIMARY KEY (id, n));
CREATE TABLE archive (id int, n int, w int);
SELECT shardfdw.shard_table('top', 'id', shards => 3) \g /dev/null
SELECT shardfdw.shard_table(t, 'id', colocate_with => 'top') FROM unnest('{mid,leaf}'::regclass[]) t \g /dev/null
INSERT INTO top SELECT g, g FROM generate_series(1, 6) g;
INSERT INTO mid TABLE top;
INSERT INTO leaf SELECT g, 1, g FROM generate_series(1, 6) g;
WITH d AS (DELETE FROM top WHERE id = 1 OR id = 2 RETURNING id), l AS (DELETE FROM leaf USING d WHERE leaf.id = d.id RETURNING leaf.*) INSERT INTO archive TABLE l;
SELECT count(*) FROM archive;
DELETE FROM mid WHERE id < 3;
ALTER TABLE leaf ADD CONSTRAINT to_mid FOREIGN KEY (id) REFERENCES mid ON DELETE CASCADE;
ALTER TABLE mid ADD CONSTRAINT to_top FOREIGN KEY (id) REFERENCES top ON UPDATE CASCADE ON DELETE CASCADE;
WITH d AS (DELETE FROM top WHERE id > 3 RETURNING id), l AS (DELETE FROM leaf USING d WHERE leaf.id = d.id RETURNING leaf.*) INSERT INTO archive TABLE l;
WITH d AS (DELETE FROM mid WHERE id > 3 RETURNING id) UPDATE leaf SET w = 0 FROM d WHERE leaf.id = d.id;
\set VERBOSITY default
WITH l AS (DELETE FROM leaf WHERE id > 3 RETURNING id) DELETE FROM mid USING l WHERE mid.id = l.id;
\set VERBOSITY terse
-- columns to which no foreign key refers, and parts that only insert
BEGIN;
WITH u AS (UPDATE top SET v = 0 WHERE id > 3 RETURNING id) DELETE FROM mid USING u WHERE mid.id = u.id RETURNING mid.id = u.id AS same;
WITH d AS (DELETE FROM top WHERE id > 2 RETURNING id) INSERT INTO archive SELECT id FROM d;
WITH u AS (UPDATE leaf SET w = 1 WHERE id < 3 RETURNING id) UPDATE top SET v = 2 FROM u WHERE top.id = u.id RETURNING v;
ROLLBACK;
-- generated columns and triggers change columns that the statement does not name
CREATE TABLE made (k int, b int, g int GENERATED ALWAYS AS (b * 10) STORED, v int, PRIMARY KEY (k, b), UNIQUE (k, g));
CREATE TABLE of_made (k int, g int, v int, id int, PRIMARY KEY (k, id));
SELECT shardfdw.shard_table('made', 'k', shards => 2) \g /dev/null
SELECT shardfdw.shard_table('of_made', 'k', colocate_with => 'made') \g /dev/null
ALTER TABLE of_made ADD FOREIGN KEY (k, g) REFERENCES made (k, g) ON UPDATE CASCADE;
WITH a AS (UPDATE made SET b = b + 5 WHERE v = 0 RETURNING k) UPDATE of_made SET v = v + 1 FROM a WHERE of_made.k = a.k AND of_made.g = 10;
ALTER TABLE made DROP COLUMN g CASCADE;
ALTER TABLE of_made ADD FOREIGN KEY (k, g) REFERENCES made (k, b) ON UPDATE CASCADE;
WITH a AS (UPDATE made SET v = 1 WHERE v = 0 RETURNING k) UPDATE of_made SET v = v + 1 FROM a WHERE of_made.k = a.k AND of_made.g = 10 RETURNING v;
CREATE FUNCTION changes_b() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.b := 2; RETURN NEW; END';
CREATE TRIGGER changes_b BEFORE UPDATE ON made FOR EACH ROW EXECUTE FUNCTION changes_b();
WITH a AS (UPDATE made SET v = 1 WHERE v = 0 RETURNING k) UPDATE of_made SET v = v + 1 FROM a WHERE of_made.k = a.k AND of_made.g = 10 RETURNING v;
-- a part that only inserts into the table which a foreign key changes
WITH i AS (INSERT INTO of_made VALUES (1, NULL, 9, 1) ON CONFLICT (k, id) DO NOTHING) UPDATE made SET b = b + 1;
DROP TABLE made, of_made;
-- rows of the same table
CREATE TABLE tree (k int, id int, up int, PRIMARY KEY (k, id));
SELECT shardfdw.shard_table('tree', 'k', shards => 2) \g /dev/null
WITH a AS (DELETE FROM tree WHERE id = 1), b AS (DELETE FROM tree WHERE id = 2) SELECT 1 AS allowed;
-- A session that has used nothing yet. Servers with assertions check that a table that is opened is locked.
\c -
SET search_path = fk;
SET client_min_messages = warning;
\set VERBOSITY terse
ALTER TABLE tree ADD FOREIGN KEY (k, up) REFERENCES tree ON DELETE SET NULL (up);
WITH a AS (DELETE FROM tree WHERE id = 1), b AS (DELETE FROM tree WHERE id = 2) SELECT 1 AS allowed;

DROP SCHEMA fk, fk_plain CASCADE;
