-- What went wrong in other products (docs/bugs_of_others.md): the same rows from sharded tables as from plain ones,
-- with 1 shard and 7, 1 connection per node and 4, the shard scan on and off. See sql/diff/harness.sql.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\set f :dir '/setup.sql'
\o /dev/null
\i :f
\o
\set ECHO all
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/bugs.sql`
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
SELECT count(*) AS queries, (SELECT count(*) FROM diff.differences) AS differences FROM diff.queries;
