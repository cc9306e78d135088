-- Changes of definitions reach the shards: what is said, what is refused, whatever the statement looks like.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_alter;
SET search_path = ddl_alter;
SET shardfdw.default_shards = 3;
-- What differs between a table's two sides: nothing is to be seen.
CREATE FUNCTION differences() RETURNS TABLE (node name, check_name text, detail text) LANGUAGE sql
	AS $$ SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^(shard ddl_alter|reference table)' $$;
-- Columns and constraints of the first shard, on its node.
CREATE FUNCTION shard_of(relation regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_split_to_table(result, E'\n') FROM shardfdw.run_on_shards(relation, $q$
		SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM (
			SELECT concat_ws(' ', lpad(a.attnum::text, 2, '0'), a.attname, format_type(a.atttypid, a.atttypmod),
				CASE WHEN a.attnotnull THEN 'not null' END, CASE WHEN a.attgenerated <> '' THEN 'generated' WHEN a.atthasdef THEN 'default' END,
				CASE WHEN a.attstorage <> t.typstorage THEN a.attstorage::text END, 'statistics ' || nullif((to_jsonb(a)->>'attstattarget')::int, -1), substring(a.attoptions::text FROM 'n_distinct=[-.0-9]*')) AS line
			FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = %L::regclass AND a.attnum > 0 AND NOT a.attisdropped
			UNION ALL SELECT concat_ws(' ', 'c', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = %L::regclass AND contype <> 'n'
			UNION ALL SELECT concat_ws(' ', 'i', replace(pg_get_indexdef(indexrelid), 'ddl_alter.', ''), CASE WHEN indisclustered THEN 'clustered' END) FROM pg_index WHERE indrelid = %L::regclass
			UNION ALL SELECT concat_ws(' ', 'o', reloptions::text) FROM pg_class WHERE oid = %L::regclass AND reloptions IS NOT NULL
			UNION ALL SELECT concat_ws(' ', 'd', objsubid, description) FROM pg_description WHERE objoid = %L::regclass AND classoid = 'pg_class'::regclass) x $q$)
	WHERE shard = (SELECT min(shard::text COLLATE "C") FROM shardfdw.shards s WHERE s.relation = shard_of.relation)::regclass $$;

CREATE TABLE t (id bigint PRIMARY KEY, v text, n int DEFAULT 1);
SELECT shardfdw.shard_table('t', 'id');
INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 30) i;

-- Several sub-commands; values of rows that are there already
ALTER TABLE t ADD a int DEFAULT 7, ADD COLUMN b text COLLATE "C" CHECK (b <> 'x'), ADD ts timestamptz NOT NULL DEFAULT now(),
	ADD g bigint GENERATED ALWAYS AS (id * 2) STORED, ADD CONSTRAINT positive CHECK (n > 0 AND n < 1e6);
SELECT count(*), sum(a), count(b), count(DISTINCT ts), sum(g) FROM t;
ALTER TABLE t ADD s serial, ADD u uuid NOT NULL DEFAULT gen_random_uuid();
SELECT count(*), count(DISTINCT s), min(s), max(s), count(DISTINCT u) FROM t;
ALTER TABLE t ADD COLUMN IF NOT EXISTS a text, DROP COLUMN IF EXISTS nothing, ALTER a SET NOT NULL, ALTER a SET STATISTICS 77, ALTER a SET (n_distinct = -0.5),
	ALTER v SET STORAGE EXTERNAL, ALTER n SET DEFAULT 3, SET (fillfactor = 80), REPLICA IDENTITY FULL;
SELECT shard_of('t');
ALTER TABLE t RESET (fillfactor), ALTER a RESET (n_distinct), ALTER a DROP NOT NULL, ALTER g DROP EXPRESSION, DROP u, REPLICA IDENTITY DEFAULT;
ALTER TABLE t ALTER n TYPE bigint, ALTER v TYPE varchar(40) USING upper(v) || '!', ALTER a TYPE text COLLATE "C" USING 'a'::text || a::text;
SELECT id, v, n, a FROM t ORDER BY id LIMIT 2;
-- 17 and later have it
DO $$ BEGIN ALTER TABLE t ADD ident int GENERATED ALWAYS AS IDENTITY; ALTER TABLE t DROP ident; EXCEPTION WHEN feature_not_supported THEN NULL; END $$;
-- a literal is of the column's new type
ALTER TABLE t ADD lit text DEFAULT 'x';
ALTER TABLE t ALTER lit TYPE varchar(5) USING NULL;
ALTER TABLE t ALTER lit TYPE text USING 'y';
SELECT DISTINCT lit FROM t;
ALTER TABLE t DROP lit;
ALTER TABLE t ADD CONSTRAINT late CHECK (n < 20) NOT VALID;
ALTER TABLE t VALIDATE CONSTRAINT late;
DELETE FROM t WHERE n >= 20;
ALTER TABLE t VALIDATE CONSTRAINT late, ADD CONSTRAINT pair UNIQUE (v, id) INCLUDE (n), ADD UNIQUE (id, n) DEFERRABLE;
ALTER TABLE t RENAME CONSTRAINT late TO "Late ""one""";
ALTER TABLE t RENAME CONSTRAINT pair TO couple;
ALTER TABLE t RENAME COLUMN v TO "the value";
ALTER TABLE t RENAME a TO a2;
CREATE INDEX ON t ("the value");
CREATE INDEX IF NOT EXISTS low ON t USING btree (lower("the value") COLLATE "C" DESC NULLS LAST) INCLUDE (n) WITH (fillfactor = 70) WHERE n > 2;
CREATE INDEX IF NOT EXISTS low ON t (id);
CREATE INDEX by_n ON t (n);
CREATE UNIQUE INDEX uq ON t (id, lower(a2));
ALTER INDEX low RENAME TO lower_value;
ALTER TABLE uq RENAME TO uq2;
ALTER TABLE t CLUSTER ON by_n;
COMMENT ON TABLE t IS 'it''s \ "this"';
COMMENT ON COLUMN t.n IS 'number';
COMMENT ON INDEX uq2 IS 'key';
COMMENT ON CONSTRAINT couple ON t IS 'constraint';
CREATE STATISTICS st (dependencies) ON n, a2 FROM t;
SELECT shard_of('t');
SELECT * FROM differences();
-- Types of columns in keys
ALTER TABLE t ALTER n TYPE int;
ALTER TABLE t ALTER "the value" TYPE text;
SELECT conname, pg_get_constraintdef(oid), obj_description(oid) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype IN ('p', 'u') ORDER BY conname::text COLLATE "C";
SELECT indexrelid::regclass, indisvalid, obj_description(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass ORDER BY indexrelid::regclass::text COLLATE "C";
DROP STATISTICS st;
DROP INDEX lower_value, uq2;
ALTER TABLE t DROP CONSTRAINT couple, DROP CONSTRAINT "Late ""one""", DROP CONSTRAINT IF EXISTS nothing;
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD CONSTRAINT new_key PRIMARY KEY (id, n);
SELECT shard_of('t');
SELECT * FROM differences();

-- Refused, and nothing has changed
CREATE FUNCTION one(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
ALTER TABLE t DROP COLUMN id;
DO $$ BEGIN ALTER TABLE t ALTER id TYPE int; EXCEPTION WHEN OTHERS THEN RAISE WARNING '%', SQLERRM; END $$; -- 18 says where, too
ALTER TABLE t ADD z int UNIQUE;
\set VERBOSITY sqlstate
ALTER TABLE t ADD z int, ADD UNIQUE (n); -- 19 says it in other words
CREATE UNIQUE INDEX ON t (n);
\set VERBOSITY terse
ALTER TABLE t ADD z int, SET TABLESPACE pg_default;
ALTER TABLE t ADD z int, ADD EXCLUDE (n WITH =);
ALTER TABLE t ADD z int, ALTER n TYPE int USING random()::int;
ALTER TABLE t ADD z int, ALTER n TYPE int USING ddl_alter.one(n);
ALTER TABLE t ALTER b TYPE int USING b::int, DROP n;
ALTER TABLE t ADD z int, ADD FOREIGN KEY (id) REFERENCES t (id);
ALTER TABLE t ADD z int, ADD CHECK (n < 5);
ALTER TABLE t ADD z int NOT NULL;
ALTER TABLE t DROP COLUMN nothing;
ALTER TABLE t DROP CONSTRAINT nothing;
CREATE INDEX ON t (n) TABLESPACE pg_default;
CREATE FUNCTION trigger_function() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER c AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION trigger_function();
CREATE TRIGGER tt AFTER INSERT ON t REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trigger_function();
CREATE INDEX CONCURRENTLY ON t (n) \; SELECT 1;
SELECT shard_of('t');
SELECT * FROM differences();

-- However it is said
ALTER TABLE /* ; */ ddl_alter . "t" * ADD /* , */ COLUMN c1 text DEFAULT $d$;,'$d$; ALTER TABLE IF EXISTS t -- comment
	ADD c2 int; ALTER TABLE U&"\0074" ADD "C ""3""" text DEFAULT E'a\'b';
ALTER TABLE IF EXISTS nothing ADD c4 int;
ALTER TABLE t ADD c5 int \; ALTER TABLE t ADD c6 int DEFAULT 6 \; SELECT c6 FROM t WHERE id = 1;
DO $$BEGIN ALTER TABLE t ADD c7 int; EXECUTE 'ALTER TABLE t ADD c8 int'; END$$;
CREATE FUNCTION alter_it() RETURNS void LANGUAGE sql AS 'ALTER TABLE ddl_alter.t ADD c9 int; CREATE INDEX t_c9 ON ddl_alter.t (c9)';
SELECT alter_it();
CREATE PROCEDURE alter_more(name text) LANGUAGE plpgsql AS $$BEGIN EXECUTE format('ALTER TABLE t RENAME c9 TO %I', name); COMMIT; ALTER TABLE t DROP c8; ROLLBACK; END$$;
CALL alter_more('c "nine"');
DO $$BEGIN ALTER TABLE t ADD c10 int; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN ALTER TABLE t ADD c11 int; END$$;
SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
SELECT * FROM differences();

-- The parent alone, and the coordinator's side alone
ALTER TABLE ONLY t ALTER n SET DEFAULT 5;
SET shardfdw.enable_ddl_propagation = off;
ALTER TABLE t ADD here int;
SELECT count(*) FROM differences();
ALTER TABLE t DROP here;
RESET shardfdw.enable_ddl_propagation;
SELECT * FROM differences();

-- A shard by itself
ALTER FOREIGN TABLE t_01 RENAME TO "Shard 1";
ALTER TABLE "Shard 1" ADD CONSTRAINT mine CHECK (n > -5);
SELECT count(*) FROM t;
ALTER TABLE t_02 ADD z int;
ALTER INDEX t_c9 RENAME TO t_nine;
SELECT result FROM shardfdw.run_on_shards('t', $$SELECT string_agg(indexrelid::regclass::text, ', ' ORDER BY indexrelid::regclass::text COLLATE "C") FROM pg_index WHERE indrelid = %L::regclass AND NOT indisprimary$$) ORDER BY shard::text COLLATE "C";
ALTER FOREIGN TABLE "Shard 1" RENAME TO t_01;
ALTER TABLE t_01 DROP CONSTRAINT mine;
SELECT * FROM differences();

-- Odd and long names
CREATE TABLE "a ""b"";--$1" (id int PRIMARY KEY, x text);
SELECT shardfdw.shard_table('"a ""b"";--$1"');
ALTER TABLE "a ""b"";--$1" ADD "c'\d" int DEFAULT 1, ADD CONSTRAINT "k;""" UNIQUE (id, x);
CREATE INDEX "i ' "" $2 USING x" ON "a ""b"";--$1" ("c'\d");
ALTER INDEX "i ' "" $2 USING x" RENAME TO "j""";
CREATE INDEX a_name_of_sixty_three_bytes_which_is_as_long_as_names_can_be__1 ON "a ""b"";--$1" (x);
CREATE INDEX a_name_of_sixty_three_bytes_which_is_as_long_as_names_can_be__2 ON "a ""b"";--$1" (x, id);
SELECT shard_of('"a ""b"";--$1"');
ALTER TABLE "a ""b"";--$1" DROP CONSTRAINT "k;""", DROP "c'\d";
DROP INDEX a_name_of_sixty_three_bytes_which_is_as_long_as_names_can_be__1, a_name_of_sixty_three_bytes_which_is_as_long_as_names_can_be__2;
SELECT * FROM differences();
SELECT shardfdw_internal.shard_object_name('i', 't_07'), shardfdw_internal.shard_object_name('i', 't'), shardfdw_internal.shard_object_name('i', 'a_1', '{a_1,b_1}'),
	octet_length(shardfdw_internal.shard_object_name(repeat('x', 63)::name, 't_07'));

-- Without shards' indexes: the parent's can be dropped, but not renamed
SELECT count(*) FILTER (WHERE ok) FROM shardfdw.run_on_shards('t', 'DO $x$BEGIN EXECUTE (SELECT ''DROP INDEX '' || indexrelid::regclass FROM pg_index WHERE indrelid = %L::regclass AND indexrelid::regclass::text ~ ''nine''); END$x$');
ALTER INDEX t_nine RENAME TO t_ten;
DROP INDEX t_nine;
SELECT * FROM differences();

-- What the nodes lack is made there
CREATE DOMAIN above_zero AS int CHECK (value > 0);
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
ALTER TABLE t ADD pos above_zero DEFAULT 4, ADD CONSTRAINT doubled CHECK (twice(pos) < 100);
CREATE INDEX t_twice ON t (twice(pos));
SELECT pos, count(*) FROM t GROUP BY pos;
SELECT * FROM differences();
DROP FUNCTION twice CASCADE;
SELECT * FROM differences();
ALTER TABLE t DROP pos;

-- Dropped with all that hangs on it
CREATE SCHEMA ddl_alter2;
CREATE TYPE ddl_alter2.mood AS ENUM ('sad', 'ok');
SELECT count(*) FILTER (WHERE ok) FROM shardfdw.run_on_nodes('CREATE SCHEMA ddl_alter2; CREATE TYPE ddl_alter2.mood AS ENUM (''sad'', ''ok'')');
ALTER TABLE t ADD mood ddl_alter2.mood DEFAULT 'ok';
SELECT mood, count(*) FROM t GROUP BY 1;
BEGIN;
DROP SCHEMA ddl_alter2 CASCADE;
SELECT * FROM differences();
ROLLBACK;
SELECT * FROM differences();
DROP TYPE ddl_alter2.mood CASCADE;
SELECT * FROM differences();
DROP SCHEMA ddl_alter2 CASCADE;
SELECT count(*) FILTER (WHERE ok) FROM shardfdw.run_on_nodes('DROP SCHEMA ddl_alter2 CASCADE');
BEGIN;
DROP TABLE t, "a ""b"";--$1";
SELECT sum(result::int) FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('ddl_alter') AND relkind = 'r'$$);
ROLLBACK;
SELECT count(*) FROM t;
SELECT sum(result::int) FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('ddl_alter') AND relkind = 'r'$$);
DROP SCHEMA ddl_alter CASCADE;
SELECT sum(result::int) FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('ddl_alter') AND relkind = 'r'$$);
SELECT count(*) FILTER (WHERE ok) FROM shardfdw.run_on_nodes('DROP SCHEMA ddl_alter CASCADE');
