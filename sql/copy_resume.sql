-- COPY with RESUME: parts, what is carried on, what is refused (who dies when: t/copy_resume.pl).
CREATE SCHEMA copy_resume;
SET search_path = copy_resume;
CREATE TABLE t (id int, v int CHECK (v < 1000), w text);
SELECT shardfdw.shard_table('t', 'id', shards => 4);
SELECT shardfdw.create_reject_table('rejects');
CREATE TABLE plain (id int);
CREATE VIEW seen AS SELECT name, relation, state, pid IS NOT NULL AS has_pid, bytes, lines, rows, rejected, duplicates, replaced,
	started_at <= committed_at AS timed, ended_at >= committed_at - interval '1 s' AS ended, failed_at >= committed_at AS failed, error
	FROM shardfdw.resumable_loads WHERE role = current_user ORDER BY name;

-- What is refused.
COPY t FROM '/dev/null' (RESUME '');
COPY t FROM '/dev/null' (RESUME a, RESUME b);
COPY t FROM '/dev/null' (RESUME a, COMMIT_ROWS 0);
COPY t FROM '/dev/null' (COMMIT_ROWS 10);
COPY t FROM '/dev/null' (RESUME a, FORMAT binary);
COPY t FROM '/dev/null' (RESUME a, ON_ERROR ignore, REJECT_FILE '/nonexistent/x');
COPY plain FROM '/dev/null' (RESUME a);
COPY t TO '/dev/null' (RESUME a);
COPY t FROM '/nonexistent/x' (RESUME a);
COPY t FROM '/' (RESUME a);
COPY t FROM PROGRAM 'exit 3' (RESUME a);
BEGIN;
COPY t FROM '/dev/null' (RESUME a);
ROLLBACK;
SET shardfdw.commit_protocol = '1pc';
COPY t FROM '/dev/null' (RESUME a);
RESET shardfdw.commit_protocol;
SELECT repeat('n', 1001) AS long_name \gset
\set VERBOSITY sqlstate
COPY t FROM '/dev/null' (RESUME :'long_name');
DO $$BEGIN COPY t FROM '/dev/null' (RESUME a); END$$;
\set VERBOSITY terse
-- nothing of that has left anything
SELECT * FROM seen;

-- Stops at a wrong line; the rows before the last commit stay. Mended, it goes on.
COPY t FROM PROGRAM $$printf 'id,v,w\n1,10,one\n2,20,two\n3,30,"three\nlines\n"\n4,40,four\n5,x,five\n6,60,six\n'$$
	(FORMAT csv, HEADER, RESUME 'mended', COMMIT_ROWS 2);
SELECT count(*) FROM t;
SELECT * FROM seen \gx
COPY t FROM PROGRAM $$printf 'id,v,w\n1,10,one\n2,20,two\n3,30,"three\nlines\n"\n4,40,four\n5,50,five\n6,60,six\n'$$
	(FORMAT csv, HEADER, RESUME 'mended', COMMIT_ROWS 2);
SELECT * FROM t ORDER BY id;
SELECT * FROM seen \gx
-- Once more: nothing is loaded a second time.
COPY t FROM STDIN (FORMAT csv, HEADER, RESUME 'mended', COMMIT_ROWS 2);
id,v,w
1,10,one
2,20,two
3,30,"three
lines
"
4,40,four
5,50,five
6,60,six
\.
-- More than was loaded, and less.
\set VERBOSITY default
COPY t FROM PROGRAM $$printf 'id,v,w\n1,10,one\n2,20,two\n3,30,"three\nlines\n"\n4,40,four\n5,50,five\n6,60,six\n7,70,seven\n'$$ (FORMAT csv, HEADER, RESUME 'mended');
COPY t FROM PROGRAM $$printf 'id,v,w\n1,10,one\n'$$ (FORMAT csv, HEADER, RESUME 'mended');
-- Other options, another table.
COPY t FROM '/dev/null' (FORMAT csv, RESUME 'mended');
COPY t (id, v, w) FROM '/dev/null' (FORMAT csv, HEADER, RESUME 'mended');
COPY t FROM '/dev/null' (FORMAT csv, HEADER, RESUME 'mended') WHERE v > 3;
CREATE TABLE u (LIKE t);
SELECT shardfdw.shard_table('u', 'id', shards => 2);
COPY u FROM '/dev/null' (FORMAT csv, HEADER, RESUME 'mended');
\set VERBOSITY terse
SELECT count(*) FROM t;
SELECT shardfdw.forget_load('mended'), shardfdw.forget_load('mended');
SELECT * FROM seen;
TRUNCATE t;

-- A changed input.
COPY t FROM PROGRAM $$seq 1 9 | awk '{ print $1 "\t" $1 "\tx" } END { print "x" }'$$ (RESUME 'changed', COMMIT_ROWS 3);
\set VERBOSITY default
COPY t FROM PROGRAM $$seq 2 11 | awk '{ print $1 "\t" $1 "\tx" }'$$ (RESUME 'changed', COMMIT_ROWS 3);
COPY t FROM PROGRAM $$printf '1\t1\tx\n'$$ (RESUME 'changed', COMMIT_ROWS 3);
\set VERBOSITY terse
SELECT name, lines, rows, error FROM seen;
SELECT count(*), min(id), max(id) FROM t;
COPY t FROM PROGRAM $$seq 1 10 | awk '{ print $1 "\t" $1 "\tx" }'$$ (RESUME 'changed', COMMIT_ROWS 3);
SELECT count(*), min(id), max(id) FROM t;
-- A program that fails at its end: what it has given before stays, the end does not.
COPY t FROM PROGRAM $$printf '1\t1\tx\n2\t1\tx\n3\t1\tx\n'; exit 7$$ (RESUME 'program', COMMIT_ROWS 2);
SELECT name, state, lines, rows FROM seen WHERE name = 'program';
COPY t FROM PROGRAM $$printf '1\t1\tx\n2\t1\tx\n3\t1\tx\n'$$ (RESUME 'program', COMMIT_ROWS 2);
SELECT name, state, lines, rows FROM seen WHERE name = 'program';
SELECT shardfdw.forget_load(name) FROM seen;
TRUNCATE t;

-- MAX_ROWS, SKIP, a marker; formats and line ends; WHERE, so that rows are parsed on the coordinator; no rows at all.
COPY t FROM PROGRAM $$seq 1 100 | awk '{ print $1 "\t" ($1 == 13 ? "x" : $1) "\tx" }'$$ (RESUME 'limits', COMMIT_ROWS 4, SKIP 2, MAX_ROWS 20);
COPY t FROM PROGRAM $$seq 1 100 | awk '{ print $1 "\t" $1 "\tx" }'$$ (RESUME 'limits', COMMIT_ROWS 4, SKIP 2, MAX_ROWS 20);
SELECT count(*), min(id), max(id) FROM t;
COPY t FROM PROGRAM $$seq 1 100 | awk '{ print $1 "\t" $1 "\tx" }'$$ (RESUME 'limits', COMMIT_ROWS 4, SKIP 2, MAX_ROWS 20);
COPY t FROM STDIN (RESUME 'marker', COMMIT_ROWS 1);
1001	1	x
1002	1	x
\.
COPY t FROM PROGRAM $$seq 2001 2009 | awk '{ printf "%s|1|x\r\n", $1 }'$$ (RESUME 'crnl', COMMIT_ROWS 2, DELIMITER '|');
COPY t FROM PROGRAM $$seq 3001 3009 | awk '{ printf "%s|1|x\r", $1 }'$$ (RESUME 'cr', COMMIT_ROWS 2, DELIMITER '|', FORMAT csv);
COPY t FROM PROGRAM $$seq 4001 4009 | awk '{ print $1 "\t" $1 - 4000 "\tx" }'$$ (RESUME 'where', COMMIT_ROWS 2) WHERE v > 2;
COPY t FROM PROGRAM $$printf '5001\t1\tx\n5002\t1\tx'$$ (RESUME 'no end of line', COMMIT_ROWS 1);
COPY t FROM '/dev/null' (RESUME 'nothing');
SELECT id / 1000 AS thousand, count(*), min(id), max(id) FROM t GROUP BY 1 ORDER BY 1;
-- (some versions of psql send the marker)
SELECT name, state, bytes, lines, rows FROM seen WHERE name <> 'marker';
SELECT shardfdw.forget_load(name) FROM seen;
TRUNCATE t;

-- Rows of one shard come in runs, and COMMIT_ROWS counts rows all the same: rows of two lines, one key, one row too many.
COPY t FROM PROGRAM $$seq 1 10 | awk '{ print "1," $1 ",\"x\n\"" } END { print "1" }'$$ (RESUME 'rows', COMMIT_ROWS 4, FORMAT csv);
SELECT name, lines, rows, error FROM seen WHERE name = 'rows';
COPY t FROM PROGRAM $$seq 1 10 | awk '{ print 1 "\t" $1 "\tx" } END { print "1" }'$$ (RESUME 'run', COMMIT_ROWS 4);
SELECT name, lines, rows, error FROM seen WHERE name = 'run';
TRUNCATE t;

-- Fixed width, by lines and by records; a finished one has not grown by what looks like a marker.
COPY t FROM PROGRAM $$printf 'id  v   w\n   1  10one\n   2  20two\n   3   xthree\n'$$ (FIXED_WIDTH '1-4, 5-8, 9-', HEADER, RESUME 'lines', COMMIT_ROWS 1);
COPY t FROM PROGRAM $$printf 'id  v   w\n   1  10one\n   2  20two\n   3  30three\n'$$ (FIXED_WIDTH '1-4, 5-8, 9-', HEADER, RESUME 'lines', COMMIT_ROWS 1);
COPY t FROM PROGRAM $$printf 'id  v   w\n   1  10one\n   2  20two\n   3  30three\n'$$ (FIXED_WIDTH '1-4, 5-8, 9-', RESUME 'lines');
COPY t (id, w) FROM PROGRAM $$printf '\0\0\0\7ab\0\0\0\10cd\0\0\0'$$ (FIXED_WIDTH '1-4 int_be, 5-6', RECORD_LENGTH 6, RESUME 'records', COMMIT_ROWS 1);
COPY t (id, w) FROM PROGRAM $$printf '\0\0\0\7ab\0\0\0\10cd\0\0\0\11ef'$$ (FIXED_WIDTH '1-4 int_be, 5-6', RECORD_LENGTH 6, RESUME 'records', COMMIT_ROWS 1);
COPY t (id, w) FROM PROGRAM $$printf '\0\0\0\7ab\0\0\0\10cd\0\0\0\11ef\\.\n'$$ (FIXED_WIDTH '1-4 int_be, 5-6', RECORD_LENGTH 6, RESUME 'records', COMMIT_ROWS 1);
SELECT * FROM t ORDER BY id;
SELECT name, state, bytes, lines, rows FROM seen WHERE name IN ('lines', 'records');
SELECT shardfdw.forget_load(name) FROM seen;
TRUNCATE t;

-- A compressed file; an encoding that is not the server's; a column that is not in the input.
COPY t FROM PROGRAM $$seq 1 9 | awk '{ print $1 ";" $1 ";\344" ($1 == 8 ? ";" : "") }' | gzip | gzip -dc$$ (FORMAT csv, DELIMITER ';', ENCODING 'latin1', RESUME 'latin1', COMMIT_ROWS 3);
COPY t FROM PROGRAM $$seq 1 9 | awk '{ print $1 ";" $1 ";\344" }' | gzip | gzip -dc$$ (FORMAT csv, DELIMITER ';', ENCODING 'latin1', RESUME 'latin1', COMMIT_ROWS 3);
SELECT count(*), min(w COLLATE "C") = U&'\00e4' AS low, max(w COLLATE "C") = U&'\00e4' AS high FROM t;
COPY t FROM PROGRAM $$seq 1 9 | awk '{ print $1 ";" $1 ";\344" }'$$ (FORMAT csv, DELIMITER ';', ENCODING 'latin2', RESUME 'latin1');
SELECT shardfdw.forget_load(name) FROM seen;
TRUNCATE t;

-- Shards that were moved and split between two runs.
COPY t FROM PROGRAM $$seq 1 99 | awk '{ print $1 "\t" $1 "\tx" } END { print "x" }'$$ (RESUME 'moved', COMMIT_ROWS 20);
SET client_min_messages = warning;
SELECT shardfdw.move_shard('t_00', 'node2', mode => 'block') > 0 AS moved, shardfdw.split_shard('t_01', mode => 'block') > 0 AS split;
RESET client_min_messages;
COPY t FROM PROGRAM $$seq 1 200 | awk '{ print $1 "\t" $1 "\tx" }'$$ (RESUME 'moved', COMMIT_ROWS 20);
SELECT shard, node FROM shardfdw.shards WHERE relation = 't'::regclass ORDER BY shard::text COLLATE "C";
SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t;
SELECT shardfdw.forget_load(name) FROM seen;
TRUNCATE t;

-- The table between two runs: renamed, other columns, made anew, gone.
COPY t FROM PROGRAM $$printf '1\t1\tx\n2\tx\tx\n'$$ (RESUME 'altered', COMMIT_ROWS 1);
ALTER TABLE t RENAME TO t2;
COPY t2 FROM PROGRAM $$printf '1\t1\tx\n2\t2\tx\n3\tx\tx\n'$$ (RESUME 'altered', COMMIT_ROWS 1);
ALTER TABLE t2 ADD COLUMN more int;
\set VERBOSITY default
COPY t2 FROM PROGRAM $$printf '1\t1\tx\n2\t2\tx\n3\t3\tx\n'$$ (RESUME 'altered', COMMIT_ROWS 1);
COPY t2 (id, v, w) FROM PROGRAM $$printf '1\t1\tx\n2\t2\tx\n3\t3\tx\n'$$ (RESUME 'altered', COMMIT_ROWS 1);
SELECT * FROM t2 ORDER BY id;
DROP TABLE t2;
CREATE TABLE t (id int, v int CHECK (v < 1000), w text);
SELECT shardfdw.shard_table('t', 'id', shards => 4);
COPY t FROM '/dev/null' (RESUME 'altered');
\set VERBOSITY terse
SELECT name, state, lines, rows, relation::text ~ '^\d+$' AS gone FROM seen;
SELECT shardfdw.forget_load(name) FROM seen;

-- Rejects and duplicates over parts: one number in the table of rejects, one limit, one sum.
CREATE TABLE k (id int PRIMARY KEY, v int CONSTRAINT small CHECK (v < 1000));
SELECT shardfdw.shard_table('k', 'id', shards => 4);
-- the first 1,000 lines are one part where rows may be rejected
COPY k FROM PROGRAM $$seq 1 3000 | awk '{ print ($1 == 2500 ? 7 : $1) "\t" ($1 % 1000 == 13 ? "x" : $1 % 1000 == 14 ? 1000 : 1) } END { print "1" }'$$
	(RESUME 'rejects', COMMIT_ROWS 100, ON_ERROR ignore, ON_DUPLICATE keep_old, REJECT_LIMIT 6, REJECT_TABLE 'rejects');
SELECT name, lines, rows, rejected, duplicates, error FROM seen;
COPY k FROM PROGRAM $$seq 1 3000 | awk '{ print ($1 == 2500 ? 7 : $1) "\t" ($1 % 1000 == 13 ? "x" : $1 % 1000 == 14 ? 1000 : 1) }'$$
	(RESUME 'rejects', COMMIT_ROWS 100, ON_ERROR ignore, ON_DUPLICATE keep_old, REJECT_LIMIT 6, REJECT_TABLE 'rejects');
SELECT name, lines, rows, rejected, duplicates, error FROM seen;
SELECT count(*) FROM k;
SELECT count(DISTINCT load) AS loads, array_agg(line ORDER BY line) AS lines FROM rejects;
SELECT shardfdw.forget_load('rejects');
TRUNCATE k;
COPY k FROM PROGRAM $$seq 1 3000 | awk '{ print $1 "\tx" }'$$ (RESUME 'all wrong', COMMIT_ROWS 100, ON_ERROR ignore);
SELECT * FROM seen;

-- Triggers of the coordinator fire for each part.
CREATE TABLE noted (n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO noted VALUES (1); RETURN NULL; END$$;
CREATE TRIGGER note AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
COPY t FROM PROGRAM $$seq 1 5 | awk '{ print $1 "\t1\tx" }'$$ (RESUME 'trigger', COMMIT_ROWS 2);
SELECT count(*) FROM noted;
DROP TRIGGER note ON t;
SELECT shardfdw.forget_load('trigger');

-- Rights: a role's loads are its own.  (Without lines no node is needed.)
CREATE ROLE copy_resume_one;
CREATE ROLE copy_resume_two;
GRANT USAGE ON SCHEMA copy_resume TO copy_resume_one;
GRANT SELECT ON seen TO copy_resume_one;
COPY t FROM PROGRAM $$printf '1\t1\tx\n2\tx\tx\n'$$ (RESUME 'rights', COMMIT_ROWS 1);
GRANT pg_read_server_files TO copy_resume_one;
SET ROLE copy_resume_one;
COPY t FROM '/dev/null' (RESUME 'rights');
RESET ROLE;
GRANT INSERT ON t TO copy_resume_one;
SET ROLE copy_resume_one;
COPY t FROM '/dev/null' (RESUME 'rights');
SELECT role, name, state, rows FROM shardfdw.resumable_loads;
SELECT * FROM shardfdw_internal.resumable_load;
SET ROLE copy_resume_two;
SELECT role, name, state, rows FROM shardfdw.resumable_loads;
SELECT shardfdw.forget_load('rights');
SELECT shardfdw.forget_load('rights', 'copy_resume_one');
RESET ROLE;
SELECT role = current_user AS own, name, state, rows FROM shardfdw.resumable_loads ORDER BY 1;
SELECT shardfdw.forget_load('rights', 'copy_resume_one'), shardfdw.forget_load('rights');
REVOKE ALL ON SCHEMA copy_resume FROM copy_resume_one;
REVOKE ALL ON seen FROM copy_resume_one;
REVOKE INSERT ON t FROM copy_resume_one;
DROP ROLE copy_resume_one, copy_resume_two;

DROP SCHEMA copy_resume CASCADE;
