-- ON DELETE and ON UPDATE SET DEFAULT of foreign keys of sharded tables, beside plain ones: shards have the defaults that their keys set, and no others.
CREATE SCHEMA kd;
CREATE SCHEMA kd_plain;
SET client_min_messages = warning;
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT format($f$
	SET search_path = %1$s;
	CREATE TABLE kind (id int PRIMARY KEY, name text);
	CREATE TABLE company (id bigint PRIMARY KEY, name text);
	CREATE TABLE campaign (company_id bigint REFERENCES company ON DELETE CASCADE, id int, PRIMARY KEY (company_id, id));
	CREATE TABLE ad (company_id bigint, id int, campaign_id int DEFAULT 1, note text DEFAULT 'n', PRIMARY KEY (company_id, id),
		CONSTRAINT ad_campaign FOREIGN KEY (company_id, campaign_id) REFERENCES campaign ON DELETE SET DEFAULT (campaign_id));
	INSERT INTO kind SELECT g, 'k' || g FROM generate_series(1, 9) g;
	INSERT INTO company SELECT g, 'c' || g FROM generate_series(1, 30) g;
	INSERT INTO campaign SELECT c, i FROM generate_series(1, 30) c, generate_series(1, 4) i;
	INSERT INTO ad SELECT c, i, i FROM generate_series(1, 30) c, generate_series(1, 4) i
$f$, x) FROM unnest('{kd,kd_plain}'::text[]) x \gexec
SET search_path = kd;
SELECT shardfdw.create_reference_table('kind') \g /dev/null
SELECT shardfdw.shard_tables('{company,campaign,ad}', 'company_id', shards => 3);

-- Runs a statement in both schemas; writes what happens, and whether the same happens on plain tables.
CREATE FUNCTION outcome(place text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', place, true);
	BEGIN
		EXECUTE statement;
		result := 'ok';
	EXCEPTION WHEN others THEN
		GET STACKED DIAGNOSTICS result = CONSTRAINT_NAME;
		result := concat_ws(' ', SQLSTATE, result);
	END;
	RETURN concat_ws(' ', result, (SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM campaign c), (SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM ad c),
		(SELECT md5(string_agg(c::text, ' ' ORDER BY c::text COLLATE "C")) FROM kind c));
END $$;
CREATE FUNCTION compare(statements text[]) RETURNS TABLE (statement text, result text) LANGUAGE sql AS $$
	SELECT statement, regexp_replace(s, ' [0-9a-f]{32}.*', '') || CASE WHEN s = p THEN ', as plain' ELSE format(E', but plain:\n%s\n%s', p, s) END
	FROM (SELECT x.statement, kd.outcome('kd', x.statement) AS s, kd.outcome('kd_plain', x.statement) AS p FROM unnest(statements) x(statement)) y
$$;
-- The defaults that shards have: columns, and on how many shards.
CREATE FUNCTION defaults(relation regclass) RETURNS TABLE (defaults text, shards bigint) LANGUAGE sql AS $$
	SELECT r.result, count(*) FROM shardfdw.run_on_shards(relation, $q$SELECT string_agg(format('%%s %%s', a.attname, pg_get_expr(d.adbin, d.adrelid)), ', ' ORDER BY a.attname)
		FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = to_regclass(%L)$q$) r GROUP BY r.result ORDER BY r.result COLLATE "C"
$$;
SELECT * FROM defaults('ad');
SELECT * FROM compare(ARRAY[
	'DELETE FROM campaign WHERE id = 3',
	'DELETE FROM campaign WHERE company_id = 7 AND id = 2',
	-- what the default refers to is not there
	'DELETE FROM campaign WHERE company_id = 8 AND id = 1',
	'DELETE FROM campaign WHERE id IN (1, 4)',
	'INSERT INTO ad (company_id, id) VALUES (1, 100), (2, 100)',
	'INSERT INTO ad VALUES (1, 101, NULL), (2, 101, DEFAULT)',
	-- the default changes
	'ALTER TABLE ad ALTER campaign_id SET DEFAULT 2 + 2',
	'DELETE FROM campaign WHERE company_id < 9 AND id = 2',
	'ALTER TABLE ad ALTER campaign_id DROP DEFAULT',
	'DELETE FROM campaign WHERE company_id < 12 AND id = 4',
	'INSERT INTO ad (company_id, id) VALUES (1, 102), (2, 102)',
	'ALTER TABLE ONLY ad ALTER campaign_id SET DEFAULT 1',
	'DELETE FROM campaign WHERE company_id = 14 AND id = 4',
	'ALTER TABLE ad ALTER campaign_id TYPE bigint',
	'DELETE FROM campaign WHERE company_id = 15 AND id = 4',
	'ALTER TABLE ad ALTER campaign_id SET DEFAULT 2; ALTER TABLE ad RENAME campaign_id TO cid',
	'DELETE FROM campaign WHERE company_id = 16 AND id = 4',
	'ALTER TABLE ad ALTER cid SET DEFAULT 1; ALTER TABLE ad RENAME cid TO campaign_id',
	'DELETE FROM campaign WHERE company_id = 17 AND id = 4',
	-- to a reference table
	'ALTER TABLE ad ADD COLUMN kind int DEFAULT 5 REFERENCES kind ON DELETE SET DEFAULT ON UPDATE SET DEFAULT',
	'UPDATE ad SET kind = company_id % 3 + 1',
	'DELETE FROM kind WHERE id = 1',
	'UPDATE kind SET id = 20 WHERE id = 2',
	'DELETE FROM kind WHERE id = 5',
	'ALTER TABLE ad ALTER kind SET DEFAULT 6, ALTER note SET DEFAULT ''m''',
	'DELETE FROM kind WHERE id IN (3, 5)',
	'INSERT INTO ad (company_id, id, campaign_id) VALUES (3, 103, 1)']);
SELECT * FROM defaults('ad');

-- what shards cannot have is refused, and nothing has changed then
CREATE SEQUENCE seq;
CREATE FUNCTION own() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1;
CREATE DOMAIN whole AS int DEFAULT 3;
ALTER TABLE ad ALTER kind SET DEFAULT nextval('seq');
ALTER TABLE ad ALTER kind SET DEFAULT own();
ALTER TABLE ad ALTER kind SET DEFAULT extract(year FROM now())::int;
ALTER TABLE ad ALTER kind DROP DEFAULT, ALTER kind SET NOT NULL, ALTER kind ADD GENERATED ALWAYS AS IDENTITY;
CREATE TABLE bare (id bigint PRIMARY KEY);
SELECT shardfdw.shard_table('bare', colocate_with => 'company') \g /dev/null
ALTER TABLE bare ADD COLUMN far int DEFAULT nextval('seq') REFERENCES kind ON DELETE SET DEFAULT;
ALTER TABLE bare ADD COLUMN far whole REFERENCES kind ON DELETE SET DEFAULT;
SELECT * FROM defaults('bare');
ALTER TABLE ad ADD FOREIGN KEY (company_id, campaign_id) REFERENCES campaign ON DELETE SET DEFAULT;
ALTER TABLE ad ADD FOREIGN KEY (company_id, campaign_id) REFERENCES campaign ON UPDATE SET DEFAULT;
ALTER TABLE ad ADD FOREIGN KEY (company_id, campaign_id) REFERENCES campaign ON DELETE SET DEFAULT (company_id);
ALTER TABLE ad_00 ADD FOREIGN KEY (kind) REFERENCES kind ON DELETE SET DEFAULT;
SELECT * FROM defaults('ad');
-- other columns may have any default
ALTER TABLE ad ALTER note SET DEFAULT nextval('seq')::text;
-- a domain with a default of the column's own
ALTER TABLE ad ADD COLUMN far whole DEFAULT 4 REFERENCES kind ON DELETE SET DEFAULT;
SELECT * FROM defaults('ad');
ALTER TABLE ad DROP COLUMN far;
-- without the key, the default stays the coordinator's
ALTER TABLE ad DROP CONSTRAINT ad_campaign;
ALTER TABLE ad ALTER campaign_id SET DEFAULT 3;
SELECT * FROM defaults('ad');
ALTER TABLE ad ADD CONSTRAINT ad_campaign FOREIGN KEY (company_id, campaign_id) REFERENCES campaign ON DELETE SET DEFAULT (campaign_id);
SELECT * FROM defaults('ad');
-- a partition's own default is not what keys set
ALTER TABLE ad_00 ALTER kind SET DEFAULT 8;
SELECT * FROM defaults('ad');
-- at REPEATABLE READ, a key of this transaction, and one that is there
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 FROM ad;
ALTER TABLE ad ADD COLUMN second int DEFAULT 6 REFERENCES kind ON DELETE SET DEFAULT, ALTER kind SET DEFAULT 7;
ALTER TABLE ad ALTER second SET DEFAULT 7;
SELECT * FROM defaults('ad');
ROLLBACK;

-- tables with such keys to reference tables become sharded, and plain again
CREATE TABLE visit (id int PRIMARY KEY, kind int DEFAULT 6 REFERENCES kind ON DELETE SET DEFAULT, n int DEFAULT nextval('seq'));
CREATE TABLE kd_plain.visit (id int PRIMARY KEY, kind int DEFAULT 6 REFERENCES kd_plain.kind ON DELETE SET DEFAULT, n int);
INSERT INTO visit SELECT g, g % 3 + 6, g FROM generate_series(1, 60) g;
INSERT INTO kd_plain.visit TABLE visit;
ALTER TABLE visit ALTER kind SET DEFAULT nextval('seq');
SELECT shardfdw.shard_table('visit', shards => 3);
ALTER TABLE visit ALTER kind SET DEFAULT 6;
SELECT shardfdw.shard_table('visit', shards => 3) \g /dev/null
SELECT * FROM defaults('visit');
SELECT result FROM compare('{DELETE FROM kind WHERE id = 7}');
SELECT kind, count(*), count(*) - (SELECT count(*) FROM kd_plain.visit p WHERE p.kind = v.kind) AS more FROM visit v GROUP BY kind ORDER BY kind;
SELECT shardfdw.unshard_table('visit') \g /dev/null
SELECT result FROM compare('{DELETE FROM kind WHERE id = 8}');
SELECT kind, count(*), count(*) - (SELECT count(*) FROM kd_plain.visit p WHERE p.kind = v.kind) AS more FROM visit v GROUP BY kind ORDER BY kind;

-- new shards have them, by whatever way they come
CREATE TABLE log (at date NOT NULL, id int, kind int DEFAULT 6) PARTITION BY RANGE (at);
CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (id);
SELECT shardfdw.shard_table('log_1', shards => 2) \g /dev/null
ALTER TABLE log_1 ADD FOREIGN KEY (kind) REFERENCES kind ON DELETE SET DEFAULT;
ALTER TABLE log ADD FOREIGN KEY (kind) REFERENCES kind ON DELETE SET DEFAULT;
CREATE TABLE log_2 PARTITION OF log FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY HASH (id);
SELECT shardfdw.shard_table('log_2', shards => 2) \g /dev/null
SELECT * FROM defaults('log_2');
SELECT FROM shardfdw.create_time_partitions('log', '1 month', '2026-03-15') \g /dev/null
SELECT count(*), sum(d.shards), min(d.defaults), max(d.defaults) FROM pg_inherits i, defaults(i.inhrelid::regclass) d WHERE i.inhparent = 'log'::regclass;
ALTER TABLE log ALTER kind SET DEFAULT 9;
SELECT count(*), sum(d.shards), min(d.defaults), max(d.defaults) FROM pg_inherits i, defaults(i.inhrelid::regclass) d WHERE i.inhparent = 'log'::regclass;

-- tables of a schema that is on one node
CREATE SCHEMA kd_home;
CREATE TABLE kd_home.a (id int PRIMARY KEY);
CREATE TABLE kd_home.b (id int PRIMARY KEY, a int DEFAULT 1 REFERENCES kd_home.a ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
INSERT INTO kd_home.a VALUES (1), (2), (3);
INSERT INTO kd_home.b VALUES (1, 2), (2, 3);
ALTER TABLE kd_home.b ALTER a SET DEFAULT nextval('seq');
SELECT shardfdw.shard_schema('kd_home');
ALTER TABLE kd_home.b ALTER a SET DEFAULT 1;
SELECT shardfdw.shard_schema('kd_home') \g /dev/null
DELETE FROM kd_home.a WHERE id = 2;
UPDATE kd_home.a SET id = 4 WHERE id = 3;
SELECT * FROM kd_home.b ORDER BY id;
SELECT * FROM defaults('kd_home.b');
SELECT shardfdw.unshard_schema('kd_home') \g /dev/null
UPDATE kd_home.b SET a = 4;
DELETE FROM kd_home.a WHERE id = 4;
SELECT * FROM kd_home.b ORDER BY id;
DROP SCHEMA kd, kd_plain, kd_home CASCADE;
