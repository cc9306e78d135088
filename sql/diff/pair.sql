-- pair.same(statement): runs it on tables of schema "plain" and on those of schema "sharded", and compares
-- rows changed, SQLSTATE, rows returned, and afterwards all rows of table t (and o, where it is).
CREATE SCHEMA pair;
CREATE FUNCTION pair.attempt(schema_name text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	nrows bigint;
	returned text[] := '{}';
	r record;
BEGIN
	PERFORM set_config('search_path', schema_name || ', pair, public', true);
	-- RETURNING of WITH alone is marked /* count */
	IF statement ILIKE '%returning%' AND statement NOT LIKE '%/* count */%' THEN
		FOR r IN EXECUTE statement LOOP
			returned := returned || r::text;
		END LOOP;
		RETURN 'returned ' || (SELECT count(*) || ': ' || coalesce(string_agg(x, ' ' ORDER BY x COLLATE "C"), '') FROM unnest(returned) x);
	END IF;
	EXECUTE statement;
	GET DIAGNOSTICS nrows = ROW_COUNT;
	RETURN nrows || ' rows';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate;
END $$;
CREATE FUNCTION pair.contents(schema_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT md5(string_agg(x::text, %L ORDER BY x::text COLLATE "C")) FROM %I.t x', '|', schema_name) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION pair.same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text := pair.attempt('plain', statement);
	b text := pair.attempt('sharded', statement);
BEGIN
	IF a <> b THEN
		RETURN 'DIFFERENT: ' || a || ' / ' || b;
	END IF;
	IF pair.contents('plain') IS DISTINCT FROM pair.contents('sharded') THEN
		RETURN 'DIFFERENT ROWS after ' || a;
	END IF;
	RETURN 'same: ' || a;
END $$;
