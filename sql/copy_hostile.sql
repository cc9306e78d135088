-- COPY into a sharded table: what functions, errors and cancel requests in the middle must not break.
CREATE SCHEMA copy_hostile;
SET search_path = copy_hostile;
CREATE TABLE t (id int PRIMARY KEY, v int, w text);
SELECT shardfdw.shard_table('t', 'id', 4);
\set VERBOSITY terse

-- A FILTER that reads the table brings up what nodes say of earlier rows: that is not about its own row.
CREATE FUNCTION reads(id int, v int, w text) RETURNS t LANGUAGE plpgsql AS $$
BEGIN
	IF v IS NULL THEN
		PERFORM count(*) FROM copy_hostile.t;
	END IF;
	RETURN ROW(id, v, w);
END $$;
COPY t FROM PROGRAM $$seq 3000 | awk '{ print $1 "\t" $1 "\tfirst" }'$$;
COPY t FROM PROGRAM $$seq 3000 | awk '{ print $1 "\t" ($1 % 1500 ? $1 : "\\N") "\tagain" }'$$ (FILTER 'reads', ON_ERROR ignore);
SELECT count(*) FROM t;
SELECT count(*) FROM t WHERE w = 'again';

-- An error that ends a load which rejects rows leaves no failed transaction behind.
CREATE FUNCTION fails(id int, v int, w text) RETURNS t LANGUAGE plpgsql AS $$
BEGIN
	IF id = 3 THEN
		RAISE EXCEPTION 'no more' USING ERRCODE = 'query_canceled';
	END IF;
	RETURN ROW(id + 10000, v, w);
END $$;
COPY t FROM PROGRAM $$seq 10 | awk '{ print $1 "\t1\tx" }'$$ (FILTER 'fails', ON_ERROR ignore);
SELECT count(*) FROM t;
SET statement_timeout = 300;
COPY t FROM PROGRAM 'sleep 1; seq 1 10' (ON_ERROR ignore);
RESET statement_timeout;
SELECT count(*) FROM t;

-- Not in a parallel worker, whose rows nobody would commit.
CREATE FUNCTION loads() RETURNS void LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	COPY copy_hostile.t (id) FROM PROGRAM 'echo 5001';
END $$;
-- 16 gave the setting another name
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \g /dev/null
SELECT loads();
SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \g /dev/null
SELECT loads();
SELECT * FROM t WHERE id = 5001;

-- An error says once which line it is about, in parsed mode too.
\set VERBOSITY default
CREATE FUNCTION picky(id int, v int) RETURNS t LANGUAGE plpgsql AS $$
BEGIN
	IF v = 3 THEN
		RAISE EXCEPTION 'not this one';
	END IF;
	RETURN ROW(id, v, NULL::text);
END $$;
COPY t FROM PROGRAM $$seq 6001 6004 | awk '{ print $1 "\t" $1 - 6000 }'$$ (FILTER 'picky');
COPY t FROM PROGRAM $$seq 6001 6004 | awk '{ print $1 "\t" $1 - 6000 }'$$ (FILTER 'picky') WHERE v > 0;
COPY t FROM PROGRAM $$echo x; seq 1 4 | awk '{ print $1 + 6000 "\t1\tx" }'$$ (ON_ERROR ignore) WHERE v / (id - 6003) < 9;

-- A column that is called like the staging table's own.
CREATE TABLE staged (id int PRIMARY KEY, shardfdw_ordinal int, shardfdw_ordinal_ int);
SELECT shardfdw.shard_table('staged', 'id', 2);
COPY staged FROM PROGRAM $$printf '1\t10\t100\n2\t20\t200\n1\t11\t101\n'$$ (ON_DUPLICATE keep_new);
SELECT * FROM staged ORDER BY id;

-- WHERE asks for SELECT on the columns that it reads; in parsed mode, a node that knows no such user.
CREATE TABLE guarded (id int, secret int);
SELECT shardfdw.shard_table('guarded', 'id', 2, nodes => ARRAY['node1']::name[]);
CREATE ROLE regress_copy_hostile;
GRANT pg_execute_server_program TO regress_copy_hostile;
GRANT USAGE ON SCHEMA copy_hostile TO regress_copy_hostile;
GRANT INSERT, SELECT (id) ON guarded TO regress_copy_hostile;
SET ROLE regress_copy_hostile;
COPY guarded (id) FROM PROGRAM 'seq 3' WHERE secret > 0;
COPY guarded (id) FROM PROGRAM 'seq 3' WHERE id > 0;
RESET ROLE;
REVOKE pg_execute_server_program FROM regress_copy_hostile;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY regress_copy_hostile') WHERE NOT ok;
DROP OWNED BY regress_copy_hostile;
DROP ROLE regress_copy_hostile;
SET client_min_messages = warning;
DROP SCHEMA copy_hostile CASCADE;
