-- Conditions on the shard key, by constants and by parameters; hash, range and list: the same rows from sharded tables as from plain ones,
-- with 1 shard and 7, 1 connection per node and 4, the shard scan on and off. See sql/diff/harness.sql.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\set f :dir '/setup.sql'
\o /dev/null
\i :f
\o
\set ECHO all
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/prune.sql`
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
SELECT count(*) AS queries, (SELECT count(*) FROM diff.differences) AS differences FROM diff.queries;
-- The pruning of some majors, which works with the shard scan off, loses the DEFAULT partition here.
SELECT v FROM diff_seven.ranges WHERE d IN ('2020-01-01', 'infinity') AND d IS NOT NULL ORDER BY v;
SELECT v FROM diff_seven.ranges WHERE (d IN ('2020-01-01', 'infinity') AND d IS NOT NULL) OR d = '-infinity' ORDER BY v;
