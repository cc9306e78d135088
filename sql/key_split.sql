-- Many keys: each shard is sent those that it can have.
SET client_min_messages = warning;
CREATE SCHEMA split_test;
SET search_path = split_test;

CREATE TABLE h (id int, c text, n numeric);
INSERT INTO h SELECT g, chr(97 + g % 26), g / 8.0 FROM generate_series(1, 5000) g;
CREATE TABLE h_plain AS TABLE h;
SELECT shardfdw.shard_table('h', 'id', 16);
CREATE TABLE s (k text COLLATE "C", v int);
INSERT INTO s SELECT CASE WHEN g % 3 = 0 THEN 'it''s \' || g ELSE 'k' || g END, g FROM generate_series(1, 3000) g;
CREATE TABLE s_plain AS TABLE s;
SELECT shardfdw.shard_table('s', 'k', 9);
DO $$BEGIN
	PERFORM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS split_test');
END$$;
CREATE TABLE r (k int, v text) PARTITION BY RANGE (k);
SELECT shardfdw.create_shard('r', 'r_1', 'FROM (MINVALUE) TO (100)', 'node1'), shardfdw.create_shard('r', 'r_2', 'FROM (100) TO (200)', 'node2'),
	shardfdw.create_shard('r', 'r_3', 'FROM (300) TO (MAXVALUE)', 'node1');
INSERT INTO r SELECT g, 'v' || g FROM generate_series(1, 199) g;
INSERT INTO r SELECT g, 'v' || g FROM generate_series(300, 400) g;
ANALYZE;

CREATE FUNCTION ints(first int, n int, step int DEFAULT 1) RETURNS int[] IMMUTABLE LANGUAGE sql AS
$$SELECT array_agg(g) FROM generate_series(first, first + (n - 1) * step, step) g$$;
SET plan_cache_mode = force_generic_plan;
PREPARE h(int[]) AS SELECT count(*), sum(id), count(DISTINCT c), sum(n) FROM h WHERE id = ANY ($1);
PREPARE h_plain(int[]) AS SELECT count(*), sum(id), count(DISTINCT c), sum(n) FROM h_plain WHERE id = ANY ($1);
EXECUTE h(ints(7, 600, 3));
EXECUTE h_plain(ints(7, 600, 3));
EXECUTE h(ints(4990, 50));
EXECUTE h_plain(ints(4990, 50));
EXECUTE h(ints(1, 20) || NULL::int || ints(1, 20) || 17);
EXECUTE h_plain(ints(1, 20) || NULL::int || ints(1, 20) || 17);
EXECUTE h(array_fill(NULL::int, ARRAY[30]));
EXECUTE h(array_fill(3, ARRAY[5, 6]));
EXECUTE h(NULL);
EXECUTE h('{}');

-- what the nodes are sent has the values of the shard alone: this many, all together
SET shardfdw.explain_remote = on;
CREATE FUNCTION keys_sent(query text) RETURNS TABLE (shards int, keys int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, FORMAT json) ' || query INTO plan;
	shards := substring(plan::text FROM '"Shards": (\d+)');
	keys := array_length(string_to_array(substring(plan::text FROM '"Filter": "\(r1\.\w+ = ANY \(''{([^}]*)}'), ','), 1);
	RETURN NEXT;
END$$;
SELECT shards, keys BETWEEN 20 AND 60 AS "its own" FROM keys_sent('EXECUTE h(split_test.ints(7, 600, 3))');
SELECT * FROM keys_sent('EXECUTE h(split_test.ints(1, 10))');
SELECT shards < 16 AS fewer, keys FROM keys_sent('EXECUTE h(array_fill(3, ARRAY[30]))');
RESET shardfdw.explain_remote;

-- other fetchers, fewer connections than shards, one statement per node, sorted streams
CREATE FUNCTION ids(keys int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	row record;
	n int = 0;
	last int = 0;
	ordered bool = true;
	total bigint = 0;
BEGIN
	FOR row IN SELECT h.id FROM split_test.h WHERE h.id = ANY (keys) ORDER BY h.id LOOP
		n := n + 1;
		ordered := ordered AND row.id > last;
		last := row.id;
		total := total + row.id;
	END LOOP;
	RETURN format('%s rows, sum %s, ordered %s', n, total, ordered);
END$$;
SELECT ids(ints(1, 700, 5));
SET shardfdw.max_connections_per_node = 1;
SELECT ids(ints(1, 700, 5));
SET shardfdw.enable_copy_fetch = off;
SELECT ids(ints(1, 700, 5));
EXECUTE h(ints(7, 600, 3));
RESET shardfdw.max_connections_per_node;
SELECT ids(ints(1, 700, 5));
EXECUTE h(ints(7, 600, 3));
RESET shardfdw.enable_copy_fetch;
BEGIN;
UPDATE h SET n = n + 1 WHERE id % 7 = 0;
EXECUTE h(ints(7, 600, 3));
SELECT ids(ints(1, 700, 5));
ROLLBACK;

-- text with quotes and backslashes, ranges with a hole, values of another type
PREPARE s(text[]) AS SELECT count(*), sum(v) FROM s WHERE k = ANY ($1);
PREPARE s_plain(text[]) AS SELECT count(*), sum(v) FROM s_plain WHERE k = ANY ($1);
EXECUTE s((ints(1, 900))::text[]);
EXECUTE s(string_to_array('k' || array_to_string(ints(1, 900), ',k') || ',it''s \' || array_to_string(ints(3, 300, 3), ',it''s \'), ','));
EXECUTE s_plain(string_to_array('k' || array_to_string(ints(1, 900), ',k') || ',it''s \' || array_to_string(ints(3, 300, 3), ',it''s \'), ','));
PREPARE r(int[]) AS SELECT count(*), min(v), max(v) FROM r WHERE k = ANY ($1);
EXECUTE r(ints(90, 230));
EXECUTE r(ints(201, 40));
PREPARE wide(bigint[]) AS SELECT count(*), sum(id) FROM h WHERE id = ANY ($1);
EXECUTE wide(ints(7, 600, 3)::bigint[] || 5000000000);

-- the array stands twice, or is compared otherwise: all shards get all of it
PREPARE twice(int[]) AS SELECT count(*), sum(id) FROM h WHERE id = ANY ($1) AND id + 1 = ANY ($1);
EXECUTE twice(ints(1, 600));
PREPARE none(int[]) AS SELECT count(*), sum(id) FROM h WHERE id <> ALL ($1);
EXECUTE none(ints(1, 600));
PREPARE less(int[]) AS SELECT count(*), sum(id) FROM h WHERE id < ANY ($1);
EXECUTE less(ints(1, 600));
PREPARE two_arrays(int[], int[]) AS SELECT count(*), sum(id) FROM h WHERE id = ANY ($1) AND (n * 8)::int = ANY ($2);
EXECUTE two_arrays(ints(1, 600), ints(300, 600));

-- keys of a join, and values that change from run to run
CREATE TABLE small AS SELECT g * 7 AS k, 'r' || g AS x FROM generate_series(1, 600) g;
ANALYZE small;
SELECT count(*), sum(h.n) FROM small JOIN h ON h.id = small.k;
SELECT count(*), sum(h.n) FROM small JOIN h_plain h ON h.id = small.k;
PREPARE lateral_join(int[]) AS SELECT g, x.* FROM generate_series(1, 3) g, LATERAL (SELECT count(*), sum(id) FROM h WHERE id = ANY ($1) AND id > g * 100) x;
EXECUTE lateral_join(ints(50, 400));
SELECT g, x.* FROM generate_series(0, 3) g, LATERAL (SELECT count(*), sum(id) FROM h WHERE id = ANY (ints(g * 300 + 1, g * 20))) x;

RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA split_test CASCADE;
DO $$BEGIN
	PERFORM shardfdw.run_on_nodes('DROP SCHEMA split_test CASCADE');
END$$;
