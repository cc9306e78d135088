-- Event triggers of users find both sides of a change made.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_event;
SET search_path = ddl_event;
CREATE FUNCTION differences() RETURNS TABLE (node name, check_name text, detail text) LANGUAGE sql
	AS $$ SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ 'ddl_event' $$;
CREATE TABLE t (k int PRIMARY KEY, v int);
CREATE TABLE r (k int PRIMARY KEY, v int);
CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY, tag text, columns text, rows bigint);
SELECT shardfdw.shard_table('t', shards => 3), shardfdw.create_reference_table('r');
SELECT shardfdw.shard_table('log', key => 'id', shards => 2);

CREATE FUNCTION at_end() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
	c text;
	n int := (SELECT count(*) FROM t);
BEGIN
	-- what there is now, written
	SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO c FROM pg_attribute WHERE attrelid = 'ddl_event.t'::regclass AND attnum > 1 AND NOT attisdropped;
	EXECUTE format('INSERT INTO ddl_event.t (k, %s) SELECT %s, %s', c, n + 1, regexp_replace(c, '[^,]+', '7', 'g'));
	EXECUTE format('UPDATE ddl_event.t SET (%s) = ROW (%s)', c, regexp_replace(c, '[^,]+', (n + 1)::text, 'g'));
	INSERT INTO ddl_event.log (tag, columns, rows) SELECT tg_tag, c, count(*) FROM ddl_event.t;
END $$;
CREATE FUNCTION at_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF to_regclass('ddl_event.t') IS NOT NULL THEN
		INSERT INTO ddl_event.log (tag, rows) SELECT 'sql_drop ' || tg_tag, count(*) FROM (SELECT * FROM ddl_event.t) x;
	END IF;
END $$;
CREATE EVENT TRIGGER ddl_event_end ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE INDEX', 'COMMENT') EXECUTE FUNCTION at_end();
CREATE EVENT TRIGGER ddl_event_drop ON sql_drop WHEN TAG IN ('ALTER TABLE', 'DROP INDEX') EXECUTE FUNCTION at_drop();

ALTER TABLE t ADD a int;
ALTER TABLE t ADD b int DEFAULT 3, DROP v;
ALTER TABLE t ALTER a TYPE bigint, ADD CONSTRAINT c CHECK (a < 100), ADD UNIQUE (k, a);
ALTER TABLE t RENAME b TO bb;
BEGIN;
ALTER TABLE t ADD d int;
SAVEPOINT a;
ALTER TABLE t DROP a;
ROLLBACK TO a;
ALTER TABLE t ADD e int;
COMMIT;
CREATE INDEX ON t (a);
COMMENT ON TABLE t IS 'it';
ALTER TABLE t DROP d, DROP e;
ALTER TABLE r ADD w int;
SELECT tag, columns, rows FROM log ORDER BY id;
SELECT * FROM t ORDER BY k LIMIT 2;
SELECT differences();

-- What a trigger raises undoes both sides; what its writes violate is seen there
CREATE FUNCTION twice() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ddl_event.t (k, a, bb) VALUES (1001, 5, 5), (1002, 5, 5); INSERT INTO ddl_event.t (k, a, bb) VALUES (1001, 5, 6); END $$;
DROP EVENT TRIGGER ddl_event_end;
CREATE EVENT TRIGGER ddl_event_end ON ddl_command_end WHEN TAG IN ('CREATE INDEX', 'ALTER TABLE') EXECUTE FUNCTION twice();
CREATE UNIQUE INDEX u ON t (k, bb);
ALTER TABLE t DROP CONSTRAINT t_pkey, ADD CONSTRAINT bound CHECK (bb < 6);
SELECT count(*) FROM t;
SELECT differences();
DROP EVENT TRIGGER ddl_event_end;

-- Statements of triggers are changed on both sides, too, the outer one once
CREATE FUNCTION nested() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('ddl_event.inside', true) = 'yes' THEN
		RETURN;
	END IF;
	PERFORM set_config('ddl_event.inside', 'yes', true);
	EXECUTE format('ALTER TABLE ddl_event.log ADD %I int', tg_event);
	CREATE TEMP TABLE of_trigger ();
	DROP TABLE of_trigger;
	PERFORM set_config('ddl_event.inside', 'no', true);
END $$;
CREATE EVENT TRIGGER ddl_event_start ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested();
CREATE EVENT TRIGGER ddl_event_end ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION nested();
ALTER TABLE t ADD x int;
SELECT count(*) FROM pg_attribute WHERE attrelid = 'log'::regclass AND attnum > 0;
SELECT differences();
DROP EVENT TRIGGER ddl_event_start;
DROP EVENT TRIGGER ddl_event_end;

-- A table that is dropped is gone from the nodes
CREATE FUNCTION again() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF to_regclass('ddl_event.t') IS NULL THEN
		CREATE TABLE ddl_event.t (k int PRIMARY KEY, v text);
		PERFORM shardfdw.shard_table('ddl_event.t', shards => 3);
	END IF;
END $$;
DROP EVENT TRIGGER ddl_event_drop;
CREATE EVENT TRIGGER ddl_event_drop ON sql_drop WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION again();
DROP TABLE t;
SELECT count(*) FROM t;
SELECT differences();
DROP EVENT TRIGGER ddl_event_drop;

-- Without our own triggers the nodes come last
ALTER EVENT TRIGGER "00_shardfdw_change_nodes" DISABLE;
ALTER TABLE t ADD last int;
SELECT differences();
ALTER EVENT TRIGGER "00_shardfdw_change_nodes" ENABLE ALWAYS;
SET session_replication_role = replica;
ALTER TABLE t DROP last;
RESET session_replication_role;
SELECT differences();

DROP SCHEMA ddl_event CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS ddl_event CASCADE') r WHERE r.ok;
