-- After each statement, the coordinator's side and the nodes' are equal. Core changes more than the statement says:
-- it renames indexes with their constraints, sets the columns of a key NOT NULL, merges constraints with those
-- of a parent, adds a constraint to a partition that is detached concurrently, and runs statements of event triggers.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_sides;
SET search_path = ddl_sides;
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' ', node, check_name, status, detail) FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^(shard|reference|table)' AND check_name ~ 'ddl_sides' $$;
-- Runs a statement. Returns its SQLSTATE if it fails, and what differs then.
CREATE FUNCTION differences(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN QUERY SELECT differences();
EXCEPTION WHEN OTHERS THEN
	RETURN NEXT SQLSTATE;
	RETURN QUERY SELECT differences();
END $$;
CREATE TABLE t (id bigint PRIMARY KEY, a int, b text, c numeric(8,2) NOT NULL DEFAULT 0, CONSTRAINT pos CHECK (a > 0));
CREATE TABLE r (id int PRIMARY KEY, a int, b text);
SELECT shardfdw.shard_table('t', 'id', shards => 2) \g /dev/null
SELECT shardfdw.create_reference_table('r') \g /dev/null
-- A time partition that is sharded
CREATE TABLE tm (ts date NOT NULL, d int, CONSTRAINT dpos CHECK (d >= 0)) PARTITION BY RANGE (ts);
CREATE TABLE m1 (ts date NOT NULL, d int, CONSTRAINT dpos CHECK (d >= 0));
SELECT shardfdw.shard_table('m1', 'd', shards => 2) \g /dev/null
INSERT INTO t SELECT i, i, 'x' || i FROM generate_series(1, 10) i;
INSERT INTO r SELECT i, i, 'x' || i FROM generate_series(1, 5) i;

CREATE TEMP TABLE statements (n int GENERATED ALWAYS AS IDENTITY, statement text);
COPY statements (statement) FROM stdin;
ALTER TABLE t RENAME CONSTRAINT pos TO positive
ALTER TABLE t RENAME CONSTRAINT t_pkey TO key1
ALTER INDEX key1 RENAME TO key2
CREATE INDEX ia ON t (a)
ALTER INDEX ia RENAME TO ib
ALTER TABLE ib RENAME TO ic
CREATE UNIQUE INDEX ua ON t (id, a)
ALTER TABLE t ADD CONSTRAINT renamed UNIQUE USING INDEX ua
ALTER TABLE t ALTER a TYPE bigint
ALTER TABLE t ALTER c TYPE numeric(10,3), ALTER b TYPE varchar(40)
ALTER TABLE t RENAME a TO a2
ALTER TABLE t ADD g int GENERATED ALWAYS AS (a2::int + 1) STORED
ALTER TABLE t RENAME a2 TO a
ALTER TABLE t DROP CONSTRAINT key2
ALTER TABLE t ADD PRIMARY KEY (id, a)
ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER a DROP NOT NULL
ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (id)
ALTER TABLE t ALTER a SET NOT NULL
ALTER TABLE t ALTER a DROP NOT NULL
ALTER TABLE t ADD z int CHECK (z > 0) REFERENCES r
ALTER TABLE t ALTER g DROP EXPRESSION
ALTER TABLE t DROP COLUMN z
ALTER TABLE t ADD z serial NOT NULL
ALTER TABLE t ALTER z DROP DEFAULT, ALTER z ADD GENERATED ALWAYS AS IDENTITY
ALTER TABLE r ADD CONSTRAINT rc CHECK (a > 0) NO INHERIT
ALTER TABLE r ALTER id TYPE bigint
ALTER TABLE r RENAME CONSTRAINT r_pkey TO rk
CREATE UNIQUE INDEX ru ON r (b)
ALTER TABLE r ADD CONSTRAINT rkey UNIQUE USING INDEX ru
CREATE UNIQUE INDEX rsame ON r (a)
ALTER TABLE r ADD UNIQUE USING INDEX rsame
CREATE UNIQUE INDEX rde ON r (b, a)
ALTER TABLE r ADD CONSTRAINT rdef UNIQUE USING INDEX rde DEFERRABLE
ALTER TABLE r DROP CONSTRAINT rdef, DROP CONSTRAINT rsame
ALTER TABLE r DROP CONSTRAINT rk CASCADE
CREATE UNIQUE INDEX rid ON r (id)
ALTER TABLE r ADD CONSTRAINT rkk PRIMARY KEY USING INDEX rid
ALTER TABLE tm ATTACH PARTITION m1 FOR VALUES FROM ('2026-11-01') TO ('2026-12-01')
ALTER TABLE tm RENAME d TO dd
ALTER TABLE tm RENAME CONSTRAINT dpos TO ddpos
ALTER TABLE tm ADD CONSTRAINT late CHECK (dd < 100)
ALTER TABLE tm ADD x int DEFAULT 1, ALTER dd SET NOT NULL
ALTER TABLE tm ADD PRIMARY KEY (ts, dd)
ALTER TABLE tm RENAME CONSTRAINT tm_pkey TO tmk
CREATE INDEX tmi ON tm (x)
ALTER INDEX tmi RENAME TO tmj
ALTER TABLE tm DETACH PARTITION m1
ALTER TABLE m1 DROP CONSTRAINT late
ALTER TABLE t_00 ADD CONSTRAINT own CHECK (a > -10)
ALTER TABLE t_00 RENAME CONSTRAINT own TO own2
ALTER FOREIGN TABLE t_00 RENAME TO t_x0
ALTER FOREIGN TABLE t_x0 RENAME TO t_00
ALTER TABLE t_00 ALTER b SET NOT NULL
ALTER TABLE t_00 ALTER b DROP NOT NULL
ALTER TABLE t SET SCHEMA public
ALTER TABLE public.t SET SCHEMA ddl_sides
\.
SELECT n, statement, d FROM statements, LATERAL differences(statement) d ORDER BY n, d;

-- What a node would answer by: names and definitions of keys and constraints
SELECT shard, result FROM shardfdw.run_on_shards('t', $$SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname::text COLLATE "C") FROM pg_constraint WHERE conrelid = %L::regclass AND contype <> 'n'$$) ORDER BY 1;
SELECT DISTINCT result FROM shardfdw.run_on_nodes($$SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname::text COLLATE "C") FROM pg_constraint WHERE conrelid = 'ddl_sides.r'::regclass AND contype <> 'n'$$);

-- DETACH PARTITION CONCURRENTLY: the CHECK that core adds reaches the shards, and holds there
CREATE TABLE tc (ts date NOT NULL, dd int) PARTITION BY RANGE (ts);
CREATE TABLE c1 (ts date NOT NULL, dd int);
SELECT shardfdw.shard_table('c1', 'dd', shards => 2) \g /dev/null
ALTER TABLE tc ATTACH PARTITION c1 FOR VALUES FROM ('2026-11-01') TO ('2026-12-01');
INSERT INTO tc VALUES ('2026-11-05', 1), ('2026-11-06', 2), ('2026-11-07', 3);
ALTER TABLE tc DETACH PARTITION c1 CONCURRENTLY;
SELECT differences();
SELECT conname FROM pg_constraint WHERE conrelid = 'c1'::regclass AND contype = 'c';
INSERT INTO c1 SELECT '2020-01-02', g FROM generate_series(1, 4) g;
COPY c1 (ts, dd) FROM stdin;
2020-01-02	5
\.
UPDATE c1 SET ts = '2020-01-02';
SELECT count(*) FROM c1 WHERE ts < '2021-01-01';
SELECT count(*) FROM c1;
ALTER TABLE tc ATTACH PARTITION c1 FOR VALUES FROM ('2026-11-01') TO ('2026-12-01');
ALTER TABLE tc DETACH PARTITION c1 CONCURRENTLY;
ALTER TABLE c1 DROP CONSTRAINT c1_ts_check;
SELECT differences();
INSERT INTO c1 SELECT '2020-01-02', g FROM generate_series(1, 4) g;
SELECT count(*) FROM c1 WHERE ts < '2021-01-01';

-- A shard by itself, sharded by range
CREATE TABLE by_range (k int NOT NULL, v int) PARTITION BY RANGE (k);
SELECT shardfdw.create_shard('by_range', 'by_range_1', 'FROM (0) TO (10)', 'node1'), shardfdw.create_shard('by_range', 'by_range_2', 'FROM (10) TO (20)', 'node2') \g /dev/null
ALTER TABLE by_range DETACH PARTITION by_range_1 CONCURRENTLY;
SELECT result FROM shardfdw.run_on_nodes($$SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass('ddl_sides.by_range_1') AND contype = 'c'$$) WHERE node = 'node1';
ALTER TABLE by_range ATTACH PARTITION by_range_1 FOR VALUES FROM (0) TO (10);
SELECT differences();

-- Statements of event triggers
CREATE FUNCTION change_more() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('ddl_sides.more', true) = 'on' THEN
		PERFORM set_config('ddl_sides.more', 'off', false);
		ALTER TABLE ddl_sides.t ADD et int DEFAULT 5, ADD CONSTRAINT et_check CHECK (et > 0);
		ALTER TABLE ddl_sides.r ADD et int CHECK (et > 1);
	END IF;
END $$;
CREATE EVENT TRIGGER zz_ddl_sides ON ddl_command_end EXECUTE FUNCTION change_more();
SET ddl_sides.more = on;
ALTER TABLE t ADD before_trigger int;
DROP EVENT TRIGGER zz_ddl_sides;
SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'et';
SELECT differences();
RESET search_path;
DROP SCHEMA ddl_sides CASCADE;
