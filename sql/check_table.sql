-- check_table() shows all that prevents a table from being sharded
\set VERBOSITY terse
CREATE TABLE good (id int PRIMARY KEY, v text);
SELECT * FROM shardfdw.check_table('good');
SELECT * FROM shardfdw.check_table('good', 'id');

-- every obstacle, each with its message
CREATE TABLE customer (id int PRIMARY KEY);
CREATE TABLE orders (id int, customer int NOT NULL REFERENCES customer, email text UNIQUE, span int4range, item int,
	n int GENERATED ALWAYS AS (item + 1) STORED,
	PRIMARY KEY (id), EXCLUDE USING gist (span WITH &&), CHECK (orders IS NOT NULL), UNIQUE (customer, item));
CREATE TABLE line (orders int REFERENCES orders, n int);
CREATE VIEW orders_of AS SELECT * FROM orders;
CREATE VIEW orders_few AS SELECT id FROM orders;
CREATE FUNCTION orders_sum(orders) RETURNS int LANGUAGE sql AS 'SELECT $1.id';
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER note BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER changed AFTER INSERT ON orders REFERENCING NEW TABLE AS new FOR EACH STATEMENT EXECUTE FUNCTION note();
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
SELECT severity, message FROM shardfdw.check_table('orders', 'customer');
\x
SELECT * FROM shardfdw.check_table('orders');
\x
-- shard_table() raises the first of them
SELECT shardfdw.shard_table('orders');

-- keys
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE other (a mood, b int GENERATED ALWAYS AS (c + 1) STORED, c int, d point, e json[]);
SELECT k.key, c.* FROM (VALUES ('a'), ('b'), ('c'), ('d'), ('e'), (NULL)) k(key) CROSS JOIN LATERAL shardfdw.check_table('other', k.key) c;
SELECT * FROM shardfdw.check_table('other', 'nowhere');
SELECT shardfdw.shard_table('other', 'd');
CREATE TABLE parts (id int, d point) PARTITION BY HASH (id);
SELECT * FROM shardfdw.check_table('parts');
SELECT message, hint FROM shardfdw.check_table('parts', 'id');
CREATE TABLE months (at date) PARTITION BY RANGE (at);
SELECT message, hint FROM shardfdw.check_table('months');

-- kinds
CREATE TEMP TABLE short (id int PRIMARY KEY);
SELECT severity, message, hint FROM shardfdw.check_table('short');
SELECT * FROM shardfdw.check_table('orders_of');
SELECT * FROM shardfdw.check_table(NULL);
SELECT * FROM shardfdw.check_table('pg_class');

-- the distribution of the key
CREATE TABLE skew AS SELECT g AS id, CASE WHEN g <= 6000 THEN 1 WHEN g > 8000 THEN NULL ELSE g END AS most, g % 3 AS few FROM generate_series(1, 10000) g;
SELECT message FROM shardfdw.check_table('skew', 'few');
ANALYZE skew;
SELECT k.key, c.severity, c.message FROM (VALUES ('id'), ('most'), ('few')) k(key) CROSS JOIN LATERAL shardfdw.check_table('skew', k.key) c;

-- what shards need: their names, and user mappings; as shard_table() raises it
CREATE TABLE taken (id int PRIMARY KEY);
SHOW shardfdw.default_shards;
CREATE TABLE taken_01 (i int);
CREATE DOMAIN taken_02 AS int;
SELECT * FROM shardfdw.check_table('taken');
SELECT shardfdw.shard_table('taken');
CREATE ROLE check_table_owner;
GRANT USAGE ON FOREIGN SERVER node1, node2 TO check_table_owner;
GRANT CREATE ON SCHEMA public TO check_table_owner;
CREATE USER MAPPING FOR check_table_owner SERVER node2 OPTIONS (user 'nobody', password_required 'false');
CREATE TABLE unmapped (id int PRIMARY KEY);
ALTER TABLE unmapped OWNER TO check_table_owner;
SET ROLE check_table_owner;
SELECT * FROM shardfdw.check_table('unmapped');
SELECT shardfdw.shard_table('unmapped', nodes => '{node1}');
RESET ROLE;
DROP TABLE taken, taken_01, unmapped;
DROP DOMAIN taken_02;
DROP OWNED BY check_table_owner;
DROP ROLE check_table_owner;

-- only the owner may ask
CREATE ROLE check_table_reader;
GRANT SELECT ON good TO check_table_reader;
SET ROLE check_table_reader;
SELECT * FROM shardfdw.check_table('good');
RESET ROLE;
REVOKE SELECT ON good FROM check_table_reader;
DROP ROLE check_table_reader;

-- a view reads nodes with the user mapping of its owner
CREATE ROLE check_table_viewer;
CREATE TABLE viewed (id int PRIMARY KEY);
CREATE VIEW viewed_own AS SELECT * FROM viewed;
CREATE VIEW viewed_invoker WITH (security_invoker) AS SELECT * FROM viewed;
CREATE VIEW viewed_others AS SELECT * FROM viewed;
ALTER VIEW viewed_invoker OWNER TO check_table_viewer;
ALTER VIEW viewed_others OWNER TO check_table_viewer;
GRANT SELECT ON viewed TO check_table_viewer;
SELECT count(*) FROM viewed_others;
SELECT * FROM shardfdw.check_table('viewed');
CREATE USER MAPPING FOR check_table_viewer SERVER node1;
SELECT message FROM shardfdw.check_table('viewed');
SELECT shardfdw.shard_table('viewed');
SELECT count(*) FROM viewed_others;
CREATE USER MAPPING FOR check_table_viewer SERVER node2;
CREATE USER MAPPING FOR check_table_viewer SERVER node3;
CREATE USER MAPPING FOR check_table_viewer SERVER node4;
SELECT shardfdw.unshard_table('viewed');
SELECT message FROM shardfdw.check_table('viewed');
DROP TABLE viewed CASCADE;
DROP OWNED BY check_table_viewer;
DROP ROLE check_table_viewer;

-- nothing remains in the way
DROP TABLE line, customer, orders, other, parts, months, skew CASCADE;
SELECT shardfdw.shard_table('good');
SELECT severity, message FROM shardfdw.check_table('good');
DROP TABLE good;
DROP TYPE mood;
DROP FUNCTION note;
