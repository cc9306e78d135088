-- What columns of a statement that one shard runs are called, and what they are sorted and grouped by.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA rn;
SET search_path = rn;
SET shardfdw.enable_statement_push = off;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA rn; CREATE DOMAIN rn.positive AS int CHECK (VALUE > 0)');
CREATE TABLE t (k bigint PRIMARY KEY, n numeric(10, 2), p positive);
CREATE TABLE u (k bigint, i int, v int, w varchar(5), PRIMARY KEY (k, i));
SELECT shardfdw.shard_table('t', 'k', 5);
SELECT shardfdw.shard_table('u', 'k', colocate_with => 't');

-- Names of output columns that are names of columns, too: ORDER BY and DISTINCT ON mean the columns.
INSERT INTO u VALUES (77, 1, 30, 'c'), (77, 2, 10, 'a'), (77, 3, 20, 'b'), (77, 4, 20, 'a');
EXPLAIN (VERBOSE, COSTS OFF) SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY u.i;
SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY u.i;
SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY i;
SELECT i AS v, -v AS i FROM u WHERE k = 77 ORDER BY u.v DESC, u.i DESC;
SELECT DISTINCT ON (u.v) -v AS v, i FROM u WHERE k = 77 ORDER BY u.v, u.i;
SELECT w AS v, count(*) AS w FROM u WHERE k = 77 GROUP BY u.w ORDER BY u.w DESC;
SELECT -s.c1 AS c2, s.c2 AS c1 FROM (SELECT i AS c1, v AS c2 FROM u WHERE k = 77 OFFSET 0) s ORDER BY s.c1 DESC, s.c2;
SELECT (SELECT -x.i AS i FROM u x WHERE x.k = 77 ORDER BY x.i LIMIT 1), min(v) AS k FROM u WHERE k = 77 GROUP BY k ORDER BY u.k;
WITH w AS (SELECT -i AS i FROM u WHERE k = 77 ORDER BY u.i LIMIT 2) SELECT i FROM w ORDER BY i;
SELECT -i AS i FROM u WHERE k = 77 UNION ALL SELECT 0 ORDER BY i;
SELECT -i AS i, row_number() OVER (ORDER BY i) FROM u WHERE k = 77 ORDER BY u.i;
-- Columns of a length or a domain: what is sorted and grouped by is the column, not what is returned of it.
INSERT INTO t (k, n, p) VALUES (77, 1.5, 2);
EXPLAIN (VERBOSE, COSTS OFF) SELECT w FROM u WHERE k = 77 ORDER BY w LIMIT 1;
SELECT w, w || '!', length(w), count(*) FROM u WHERE k = 77 GROUP BY w HAVING w || '' > 'a' ORDER BY w || '';
SELECT w, grouping(w), count(*) FROM u WHERE k = 77 GROUP BY ROLLUP (w) ORDER BY w, 2;
SELECT w COLLATE "C" AS w, count(*) FROM u WHERE k = 77 GROUP BY u.w COLLATE "C" ORDER BY u.w COLLATE "C";
SELECT w, i, rank() OVER (PARTITION BY w ORDER BY i) FROM u WHERE k = 77 ORDER BY w, i;
SELECT DISTINCT w FROM u WHERE k = 77 ORDER BY w;
SELECT DISTINCT w, length(w) FROM u WHERE k = 77 GROUP BY w ORDER BY w;
SELECT DISTINCT ON (w) w, i FROM u WHERE k = 77 ORDER BY w, i DESC;
SELECT n, n + 1, p, p + 1 FROM t WHERE k = 77 GROUP BY n, p;

SET client_min_messages = error;
DROP SCHEMA rn CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rn CASCADE');
