-- shard_table() and unshard_table() keep the views of a table, and all that depends on these views
\set VERBOSITY terse
-- kept_some has another owner than the table, and its query uses the owner's user mappings
CREATE ROLE view_kept_owner;
CREATE ROLE view_kept_reader;
DO $$BEGIN FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR view_kept_owner SERVER node%s OPTIONS (user %L, password_required ''false'')', i, current_user); END LOOP; END$$;
CREATE TABLE kept (id int PRIMARY KEY, v varchar(5) COLLATE "C", t timestamptz(3), hidden int);
INSERT INTO kept SELECT g, 'v' || g, '2026-01-01'::timestamptz + g * interval '1 day', g FROM generate_series(1, 20) g;
CREATE TABLE kept_plain AS SELECT * FROM kept;
CREATE TABLE other (id int PRIMARY KEY, name text);
INSERT INTO other SELECT g, 'other ' || g FROM generate_series(1, 5) g;
CREATE VIEW kept_all AS SELECT * FROM kept;
CREATE VIEW kept_some WITH (security_barrier, check_option = local) AS SELECT id, v AS "a ""name", t FROM kept WHERE hidden < 10;
CREATE VIEW kept_row AS SELECT (kept).v, kept IS NULL AS is_null FROM kept;
CREATE VIEW kept_join AS SELECT k.id, o.name FROM kept k LEFT JOIN other o USING (id);
CREATE VIEW kept_group AS SELECT id, v, count(*) FROM kept GROUP BY id;
CREATE VIEW kept_nested AS SELECT count(*), max("a ""name") FROM kept_some JOIN kept_all USING (id);
CREATE VIEW kept_empty AS SELECT FROM kept;
CREATE RECURSIVE VIEW kept_recursive (id) AS SELECT id FROM kept WHERE id = 1 UNION ALL SELECT k.id FROM kept k JOIN kept_recursive r ON k.id = r.id + 1;
CREATE MATERIALIZED VIEW kept_stored AS SELECT * FROM kept_nested;
CREATE FUNCTION kept_function(kept_all) RETURNS text LANGUAGE sql AS 'SELECT $1.v';
COMMENT ON VIEW kept_some IS 'some';
COMMENT ON COLUMN kept_some."a ""name" IS 'a name';
ALTER VIEW kept_some ALTER "a ""name" SET DEFAULT 'none';
GRANT SELECT ON kept_some TO view_kept_reader;
GRANT UPDATE (t) ON kept_some TO view_kept_reader;
CREATE RULE kept_rule AS ON DELETE TO kept_join DO INSTEAD NOTHING;
CREATE FUNCTION kept_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO kept VALUES (NEW.id, NEW.v); RETURN NEW; END';
CREATE TRIGGER kept_trigger INSTEAD OF INSERT ON kept_group FOR EACH ROW EXECUTE FUNCTION kept_trigger();
GRANT SELECT, INSERT ON kept TO view_kept_owner;
ALTER VIEW kept_some OWNER TO view_kept_owner;

-- everything of these views, to be compared
CREATE VIEW view_kept_state AS
	SELECT c.oid::regclass::text AS name, c.relowner::regrole::text AS owner, c.relacl::text, c.reloptions::text, obj_description(c.oid), pg_get_viewdef(c.oid) AS query,
		(SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation, a.attacl, col_description(c.oid, a.attnum), pg_get_expr(d.adbin, d.adrelid)), ',' ORDER BY a.attnum)
			FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = c.oid AND a.attnum > 0) AS columns,
		(SELECT string_agg(pg_get_triggerdef(t.oid), ',') FROM pg_trigger t WHERE t.tgrelid = c.oid) AS triggers,
		(SELECT string_agg(pg_get_ruledef(r.oid), ',') FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN') AS rules
	FROM pg_class c WHERE c.relkind IN ('v', 'm') AND c.relname LIKE 'kept%';
CREATE TABLE view_kept_before AS SELECT * FROM view_kept_state;
SELECT count(*) FROM view_kept_before;

SELECT * FROM shardfdw.check_table('kept');
SELECT shardfdw.shard_table('kept', shards => 4);
TABLE view_kept_before EXCEPT TABLE view_kept_state;
SELECT * FROM kept_all ORDER BY id LIMIT 2;
SELECT * FROM kept_some ORDER BY id LIMIT 2;
SELECT * FROM kept_row ORDER BY v LIMIT 2;
SELECT * FROM kept_join ORDER BY id LIMIT 2;
SELECT * FROM kept_group ORDER BY id LIMIT 2;
TABLE kept_nested;
SELECT count(*) FROM kept_empty;
SELECT count(*) FROM kept_recursive;
REFRESH MATERIALIZED VIEW kept_stored;
TABLE kept_stored;
INSERT INTO kept_some (id, t) VALUES (100, NULL);
INSERT INTO kept_group (id, v) VALUES (101, 'new');
DELETE FROM kept_join WHERE id = 5;
SELECT * FROM kept WHERE id > 20 ORDER BY id;
SELECT count(*) FROM other;
SET ROLE view_kept_reader;
SELECT count(*) FROM kept_some;
SELECT count(*) FROM kept_all;
RESET ROLE;

-- and back
SELECT shardfdw.unshard_table('kept');
TABLE view_kept_before EXCEPT TABLE view_kept_state;
TABLE kept_nested;

-- online, both ways
SELECT shardfdw.shard_table('kept', shards => 4, mode => 'online') IS NOT NULL;
TABLE view_kept_before EXCEPT TABLE view_kept_state;
TABLE kept_nested;
SELECT shardfdw.unshard_table('kept', mode => 'online') IS NOT NULL;
TABLE view_kept_before EXCEPT TABLE view_kept_state;
TABLE kept_nested;

-- several tables with views in common
SELECT shardfdw.shard_tables('{kept,other}', 'id', shards => 4);
TABLE view_kept_before EXCEPT TABLE view_kept_state;
SELECT * FROM kept_join ORDER BY id LIMIT 2;
SELECT shardfdw.unshard_table('kept'), shardfdw.unshard_table('other');
TABLE view_kept_before EXCEPT TABLE view_kept_state;

-- refused: views that cannot be kept
CREATE MATERIALIZED VIEW kept_direct AS SELECT id FROM kept;
CREATE VIEW kept_type AS SELECT kept FROM kept;
CREATE TEMP VIEW kept_temp AS SELECT id FROM kept;
SELECT severity, message FROM shardfdw.check_table('kept');
DROP MATERIALIZED VIEW kept_direct;
DROP VIEW kept_type, kept_temp;
-- a view of another role
ALTER TABLE kept OWNER TO view_kept_owner;
GRANT SELECT ON kept TO view_kept_reader;
CREATE VIEW kept_foreign AS SELECT id FROM kept;
ALTER VIEW kept_foreign OWNER TO view_kept_reader;
SET ROLE view_kept_owner;
SELECT message, hint FROM shardfdw.check_table('kept') WHERE message LIKE '%kept_foreign%';
SELECT shardfdw.shard_table('kept', mode => 'online');
RESET ROLE;

-- what a rule of another relation names is not kept
CREATE RULE kept_delete AS ON DELETE TO kept_join DO ALSO DELETE FROM kept WHERE kept.id = OLD.id;
SELECT message FROM shardfdw.check_table('kept');
DROP RULE kept_delete ON kept_join;
-- Literals of a domain, even inside of others, would run its constraints as the current user.
GRANT CREATE ON SCHEMA public TO view_kept_owner;
SET ROLE view_kept_owner;
CREATE FUNCTION kept_code(int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'kept_code runs as %', current_user; RETURN true; END$$;
CREATE DOMAIN kept_domain AS int CHECK (kept_code(VALUE));
CREATE TYPE kept_pair AS (a int, b kept_domain[]);
-- a server with assertions reads a literal twice
SET client_min_messages = warning;
CREATE VIEW kept_literal AS SELECT id, '(1,{2})'::kept_pair IS NULL AS is_null FROM kept;
RESET client_min_messages;
RESET ROLE;
SELECT message, detail, hint FROM shardfdw.check_table('kept') WHERE message LIKE '%kept_literal%';
SELECT shardfdw.shard_table('kept');
DROP VIEW kept_literal;
-- the same in a view of the caller
SET client_min_messages = warning;
CREATE VIEW kept_literal AS SELECT id, '(1,{2})'::kept_pair IS NULL AS is_null FROM kept;
RESET client_min_messages;
SELECT message, hint FROM shardfdw.check_table('kept') WHERE message LIKE '%kept_literal%';
DROP VIEW kept_literal;
-- ONLY would leave out all rows
CREATE VIEW kept_only AS SELECT id FROM ONLY kept;
SELECT message, detail FROM shardfdw.check_table('kept');
DROP VIEW kept_only;
-- schemas in which the caller cannot create objects
CREATE SCHEMA kept_closed;
CREATE VIEW kept_closed.v AS SELECT id FROM kept;
ALTER TABLE kept_closed.v OWNER TO view_kept_owner;
SET ROLE view_kept_owner;
SELECT message, hint FROM shardfdw.check_table('kept') WHERE message LIKE '%kept_closed%';
RESET ROLE;
DROP SCHEMA kept_closed CASCADE;

-- Literals do not depend on the settings of the session.
CREATE TABLE kept_value (id int PRIMARY KEY, f float8 CHECK (f >= '1.2345678901234567'::float8));
CREATE VIEW kept_literals AS SELECT id, timestamptz '2026-03-02 01:02:03+00' AS at, interval '-1 day 2 hours' AS span, '1.23456789012345678'::float8 AS f FROM kept_value;
INSERT INTO kept_value VALUES (1, 2);
CREATE TABLE kept_result AS SELECT * FROM kept_literals;
SET datestyle = 'SQL, DMY';
SET timezone = 'Asia/Kolkata';
SET intervalstyle = 'sql_standard';
SET extra_float_digits = -5;
SELECT shardfdw.shard_table('kept_value', shards => 2);
RESET datestyle;
RESET timezone;
RESET intervalstyle;
RESET extra_float_digits;
TABLE kept_literals EXCEPT TABLE kept_result;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'kept_value'::regclass AND contype = 'c';
ALTER ROLE CURRENT_USER SET datestyle = 'SQL, DMY';
ALTER ROLE CURRENT_USER SET timezone = 'Asia/Kolkata';
ALTER ROLE CURRENT_USER SET extra_float_digits = -5;
SELECT shardfdw.unshard_table('kept_value', mode => 'online') IS NOT NULL;
ALTER ROLE CURRENT_USER RESET datestyle;
ALTER ROLE CURRENT_USER RESET timezone;
ALTER ROLE CURRENT_USER RESET extra_float_digits;
TABLE kept_literals EXCEPT TABLE kept_result;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'kept_value'::regclass AND contype = 'c';
DROP TABLE kept_value, kept_result CASCADE;
-- a rollback
CREATE TABLE kept_small (id int PRIMARY KEY);
CREATE VIEW kept_small_view AS SELECT id FROM kept_small;
BEGIN;
SELECT shardfdw.shard_table('kept_small', shards => 2);
ROLLBACK;
SELECT count(*) FROM kept_small_view;
DROP TABLE kept_small CASCADE;

-- Publications: a table that one names is not sharded. A table that becomes plain stays in its publications.
CREATE TABLE kept_sent (id int PRIMARY KEY, v text, hidden int);
INSERT INTO kept_sent SELECT g, 'v' || g, g FROM generate_series(1, 10) g;
ALTER TABLE kept_sent REPLICA IDENTITY FULL;
SET client_min_messages = error;
CREATE PUBLICATION kept_all_columns FOR TABLE other, kept_sent;
CREATE PUBLICATION "kept some" FOR TABLE kept_sent (id, v) WHERE (id > 5 AND v <> '''') WITH (publish = 'insert, truncate');
RESET client_min_messages;
CREATE VIEW kept_publications AS SELECT p.pubname, p.pubinsert, p.pubdelete, t.tablename, t.attnames, t.rowfilter
	FROM pg_publication_tables t JOIN pg_publication p USING (pubname) WHERE p.pubname LIKE 'kept%';
CREATE TABLE kept_published AS SELECT * FROM kept_publications;
SELECT * FROM kept_published ORDER BY 1, 4;
SELECT severity, message, detail, hint FROM shardfdw.check_table('kept_sent');
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT shardfdw.shard_table('kept_sent', shards => 2);
\set VERBOSITY terse
SELECT shardfdw.shard_table('kept_sent', shards => 2, mode => 'online');
TABLE kept_published EXCEPT TABLE kept_publications;
-- as the HINT says
ALTER PUBLICATION kept_all_columns DROP TABLE kept_sent;
ALTER PUBLICATION "kept some" DROP TABLE kept_sent;
SELECT shardfdw.shard_table('kept_sent', shards => 2);
SELECT tablename FROM kept_publications;
-- Publications of a sharded table send nothing, but have the table when it is plain again.
ALTER PUBLICATION kept_all_columns ADD TABLE kept_sent;
SET client_min_messages = error;
ALTER PUBLICATION "kept some" SET (publish_via_partition_root);
ALTER PUBLICATION "kept some" ADD TABLE kept_sent (id, v) WHERE (id > 5 AND v <> '''');
RESET client_min_messages;
SELECT shardfdw.unshard_table('kept_sent');
TABLE kept_published EXCEPT TABLE kept_publications;
TABLE kept_publications EXCEPT TABLE kept_published;
-- the same online
SET client_min_messages = error;
ALTER PUBLICATION kept_all_columns DROP TABLE kept_sent;
ALTER PUBLICATION "kept some" DROP TABLE kept_sent;
SELECT shardfdw.shard_table('kept_sent', shards => 2, mode => 'online') IS NOT NULL;
ALTER PUBLICATION kept_all_columns ADD TABLE kept_sent;
ALTER PUBLICATION "kept some" ADD TABLE kept_sent (id, v) WHERE (id > 5 AND v <> '''');
RESET client_min_messages;
SELECT shardfdw.unshard_table('kept_sent', mode => 'online') IS NOT NULL;
TABLE kept_published EXCEPT TABLE kept_publications;
TABLE kept_publications EXCEPT TABLE kept_published;
SELECT count(*) FROM kept_sent;
-- a publication of another role
ALTER PUBLICATION kept_all_columns DROP TABLE kept_sent;
ALTER PUBLICATION "kept some" DROP TABLE kept_sent;
SELECT shardfdw.shard_table('kept_sent', shards => 2);
ALTER TABLE kept_sent OWNER TO view_kept_owner;
SET client_min_messages = error;
ALTER PUBLICATION "kept some" ADD TABLE kept_sent;
ALTER PUBLICATION "kept some" OWNER TO view_kept_reader;
RESET client_min_messages;
SET ROLE view_kept_owner;
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT shardfdw.unshard_table('kept_sent');
\set VERBOSITY terse
RESET ROLE;
DROP PUBLICATION kept_all_columns, "kept some";
DROP VIEW kept_publications;
DROP TABLE kept_sent, kept_published;
-- a publication of the table above
CREATE TABLE kept_above (id int, day date) PARTITION BY RANGE (day);
CREATE TABLE kept_month PARTITION OF kept_above FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (id);
SET client_min_messages = error;
CREATE PUBLICATION kept_above FOR TABLE kept_above;
RESET client_min_messages;
BEGIN;
SELECT shardfdw.shard_table('kept_month', shards => 2);
ROLLBACK;
DROP PUBLICATION kept_above;
DROP TABLE kept_above;

DROP TABLE kept, kept_plain, other, view_kept_before CASCADE;
DROP FUNCTION kept_trigger;
DROP OWNED BY view_kept_owner CASCADE;
SELECT shardfdw.run_on_nodes('DROP OWNED BY view_kept_owner') \g /dev/null
DROP ROLE view_kept_owner, view_kept_reader;
