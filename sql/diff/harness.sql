-- harness.sql - compares queries on sharded tables with the same queries on plain tables
--
-- The schemas diff_plain, diff_one and diff_seven hold tables of the same names and rows: plain ones,
-- ones of 1 shard and ones of 7 (see tables.sql). A query names tables without a schema and runs with
-- each of the schemas in search_path. Query files are plain SQL; a query ends with ";" at the end of
-- a line, and lines that begin with "--=" right above it say how to compare:
--
--   --= ordered          the order of the rows counts (else rows are compared as a multiset)
--   --= count            only the number of rows counts
--   --= error            it fails, with the same SQLSTATE everywhere
--   --= zones            runs with two settings of TimeZone
--   --= params T | V | W prepared with parameters of the types T, executed with values V, then W
--   --= since N          only from major version N on
--
-- CALL diff.compare(text of a file) prints a row for each difference; none is good.

CREATE SCHEMA IF NOT EXISTS diff;

CREATE TABLE diff.queries (no int, query text, flags text[], params text);
CREATE TABLE diff.differences (query text, mode text, problem text);

CREATE FUNCTION diff.load(content text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	line text;
	query text := '';
	flags text[] := '{}';
	args text;
	n int := 0;
BEGIN
	TRUNCATE diff.queries;
	FOREACH line IN ARRAY string_to_array(content, E'\n') LOOP
		IF line LIKE '--= params %' THEN
			args := substr(line, 12);
		ELSIF line LIKE '--= %' THEN
			flags := flags || substr(line, 5);
		ELSIF line NOT LIKE '--%' AND (query <> '' OR line <> '') THEN
			query := query || CASE WHEN query = '' THEN '' ELSE E'\n' END || line;
			IF line LIKE '%;' THEN
				n := n + 1;
				INSERT INTO diff.queries VALUES (n, left(query, -1), flags, args);
				query := '';
				flags := '{}';
				args := NULL;
			END IF;
		END IF;
	END LOOP;
END $$;

-- Runs a statement and returns its rows as text; an error is returned as one row. Careful: in a
-- subtransaction, so that an error can be caught.
CREATE FUNCTION diff.rows(statement text, careful bool) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[] := '{}';
	r record;
BEGIN
	IF NOT careful THEN
		FOR r IN EXECUTE statement LOOP
			result := result || COALESCE(r::text, 'null record');
		END LOOP;
		RETURN result;
	END IF;
	BEGIN
		FOR r IN EXECUTE statement LOOP
			result := result || COALESCE(r::text, 'null record');
		END LOOP;
	EXCEPTION WHEN OTHERS THEN
		result := ARRAY['ERROR ' || SQLSTATE, SQLERRM];
	END;
	RETURN result;
END $$;

-- The same for a query of the list: with parameters it is prepared, and the rows of all of its
-- executions are returned.
CREATE FUNCTION diff.run(query text, params text, careful bool) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[] := '{}';
	args text[];
BEGIN
	IF params IS NULL THEN
		RETURN diff.rows(query, careful);
	END IF;
	args := string_to_array(params, ' | ');
	EXECUTE format('PREPARE diff_query (%s) AS %s', args[1], query);
	FOR i IN 2 .. cardinality(args) LOOP
		result := result || format('-- %s', args[i]) || diff.rows(format('EXECUTE diff_query (%s)', args[i]), careful);
	END LOOP;
	DEALLOCATE diff_query;
	RETURN result;
END $$;

CREATE FUNCTION diff.normal(result text[], flags text[]) RETURNS text[] LANGUAGE sql AS $$
	SELECT CASE
		WHEN result[1] LIKE 'ERROR %' THEN result[1:1]
		WHEN 'count' = ANY (flags) THEN ARRAY[cardinality(result)::text]
		WHEN 'ordered' = ANY (flags) THEN result
		ELSE ARRAY(SELECT r FROM unnest(result) r ORDER BY r COLLATE "C")
	END
$$;

-- What differs, in a few words.
CREATE FUNCTION diff.problem(plain text[], sharded text[]) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s rows on plain, %s on sharded; only on plain: %s; only on sharded: %s',
				  cardinality(plain), cardinality(sharded),
				  COALESCE((SELECT string_agg(r, ' ') FROM (SELECT unnest(plain) EXCEPT ALL SELECT unnest(sharded) ORDER BY 1 LIMIT 3) x(r)), '-'),
				  COALESCE((SELECT string_agg(r, ' ') FROM (SELECT unnest(sharded) EXCEPT ALL SELECT unnest(plain) ORDER BY 1 LIMIT 3) x(r)), '-'))
$$;

-- Every query of the file, in every mode; a transaction each.
CREATE PROCEDURE diff.compare(content text) LANGUAGE plpgsql AS $$
DECLARE
	q record;
	zone text;
	schema text;
	scan text;
	conns int;
	plain text[];
	raw text[];
	home text := current_setting('TimeZone');
	home_jit text := current_setting('jit');
	bad bool;
BEGIN
	PERFORM diff.load(content);
	DELETE FROM diff.differences;
	COMMIT;
	FOR q IN SELECT * FROM diff.queries ORDER BY no LOOP
		CONTINUE WHEN EXISTS (SELECT FROM unnest(q.flags) f
							   WHERE f LIKE 'since %' AND substr(f, 7)::int * 10000 > current_setting('server_version_num')::int);
		FOREACH zone IN ARRAY CASE WHEN 'zones' = ANY (q.flags) THEN ARRAY['America/New_York', 'Asia/Kolkata'] ELSE ARRAY[home] END LOOP
			PERFORM set_config('TimeZone', zone, false);
			PERFORM set_config('search_path', 'diff_plain, diff', false);
			raw := diff.run(q.query, q.params, true);
			plain := diff.normal(raw, q.flags);
			IF (plain[1] LIKE 'ERROR %') IS DISTINCT FROM (CASE WHEN 'error' = ANY (q.flags) THEN true END) AND
				(plain[1] LIKE 'ERROR %' OR 'error' = ANY (q.flags)) THEN
				INSERT INTO diff.differences VALUES (q.query, 'plain', array_to_string(raw, ' '));
			END IF;
			COMMIT;
			FOREACH schema IN ARRAY ARRAY['diff_one', 'diff_seven'] LOOP
				FOREACH scan IN ARRAY ARRAY['on', 'off'] LOOP
					-- One connection: with a subtransaction. Four: without, and with a generic plan.
					FOREACH conns IN ARRAY ARRAY[1, 4] LOOP
						CONTINUE WHEN conns = 4 AND (bad OR plain[1] LIKE 'ERROR %');
						PERFORM set_config('search_path', schema || ', diff', false);
						PERFORM set_config('shardfdw.enable_shard_scan', scan, false);
						PERFORM set_config('shardfdw.max_connections_per_node', conns::text, false);
						-- Compiling takes longer than all else here: now and then is enough.
						PERFORM set_config('jit', CASE WHEN conns = 1 OR q.no % 10 > 0 THEN 'off' ELSE home_jit END, false);
						PERFORM set_config('plan_cache_mode', CASE conns WHEN 4 THEN 'force_generic_plan' ELSE 'auto' END, false);
						raw := diff.run(q.query, q.params, conns = 1);
						bad := diff.normal(raw, q.flags) IS DISTINCT FROM plain;
						IF bad THEN
							INSERT INTO diff.differences
							VALUES (q.query, format('%s, shard scan %s, %s connections, %s', schema, scan, conns, zone),
									CASE WHEN raw[1] LIKE 'ERROR %' THEN array_to_string(raw, ' ')
										 ELSE diff.problem(plain, diff.normal(raw, q.flags)) END);
						END IF;
						COMMIT;
					END LOOP;
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
	PERFORM set_config('TimeZone', home, false);
	PERFORM set_config('search_path', 'public', false);
	RESET shardfdw.enable_shard_scan;
	RESET shardfdw.max_connections_per_node;
	RESET plan_cache_mode;
	RESET jit;
END $$;
