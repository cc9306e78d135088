-- COPY FIXED_WIDTH: records of columns at fixed positions (random ones: t/copy_matrix.pl).
CREATE SCHEMA copy_fixed_width;
SET search_path = copy_fixed_width;
SET DateStyle = 'ISO, MDY';
CREATE TABLE t (id int, name text, amount numeric(8,2), day date, note varchar(6));
SELECT shardfdw.shard_table('t', 'id', 4);
CREATE TABLE plain (id int, name text);

-- Lines.  Blanks behind texts go, both sides of numbers do; positions may come in any order.
COPY t FROM STDIN (FIXED_WIDTH '1-4, 5-12, 13-20, 21-30, 31-');
   1first      12.502024-01-31note
2   back\sla 1e3    2024-02-29
 3  	tab    -.5     01/02/2024  x
   4it's "q"       02024-01-01\N
 5                 12024-01-01   
\.
COPY t FROM PROGRAM $$printf '   6x              2          \r\n\\.\r\nbehind the end\n'$$ (FIXED_WIDTH '1-4, 5-12, 13-20, 21-30, 31-', NULL '');
SELECT *, note = '' AS empty FROM t ORDER BY id;
TRUNCATE t;
COPY t (name, id) FROM STDIN (FIXED_WIDTH '5-7 trim both, 1-4');
   1 a -
   2   -
   3bcd
\.
COPY t (id, name) FROM STDIN (FORMAT text, FIXED_WIDTH '1-4, 5-7 TRIM NONE', HEADER, ENCODING 'latin1');
  id name
   4 a -
   5   -
\.
COPY t (id, name, note) FROM STDIN (FIXED_WIDTH '1-2,3-6 trim leading,3-6 trim trailing');
 6 b  
\.
SELECT id, name, length(name), note, length(note) FROM t ORDER BY id;

-- NULL: a value for all texts, and one of a column.
TRUNCATE t;
COPY t (id, name, amount, day) FROM STDIN (FIXED_WIDTH '1-4, 5-8 nullif "-", 9-12 nullif "a""b", 13-22', NULL '');
   1abcd 1.52024-01-01
    -   a"b           
   3       2          
\.
COPY t (id, name) FROM STDIN (FIXED_WIDTH '1-4, 5-8');
   4\N  
\.
SELECT id, name, amount, day, name = '' AS empty FROM t ORDER BY id;

-- Numbers in either order of bytes, in records without ends of lines: COPY binary to the shards.
CREATE TABLE n (i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, c char(4), v varchar(3));
SELECT shardfdw.shard_table('n', 'i4', 3);
COPY n FROM PROGRAM $$printf '\001\002\000\000\000\005\377\377\377\377\377\377\377\376\300\000\000\000?\360\000\000\000\000\000\000ab  c  '$$
	(FIXED_WIDTH '1-2 int_be, 3-6 int_be, 7-14 int_be, 15-18 float_be, 19-26 float_be, 27-30, 31-33', RECORD_LENGTH 33);
COPY n FROM PROGRAM $$printf '\002\001\006\000\000\000\376\377\377\377\377\377\377\377\000\000\000\300\000\000\000\000\000\000\360?ab  c  '$$
	(FIXED_WIDTH '1-2 int_le, 3-6 int_le, 7-14 int_le, 15-18 float_le, 19-26 float_le, 27-30, 31-33', RECORD_LENGTH 33);
-- Unsigned ones, of one byte, floats that become wider, and values that are NULL.
COPY n FROM PROGRAM $$printf '\377\007\000\000\000\377\377\377\377\315\314\314=\315\314\314=\\\t\n\303\251\n'$$
	(FIXED_WIDTH '1-1 uint_le, 2-5 uint_le, 6-9 uint_le nullif "4294967295", 10-13 float_le, 14-17 float_le, 18-20, 21-22', RECORD_LENGTH 23);
SELECT i2, i4, i8, f4, f8, c, v FROM n ORDER BY i4;
-- Types that numbers do not fit exactly: as the text that they have.
TRUNCATE n, t;
COPY n (i4, i2, i8, v) FROM PROGRAM $$printf '\377\377\377\377\001\000\000\000\000\001'$$ (FIXED_WIDTH '1-4 int_be, 5-8 int_le, 9-10 int_be, 1-1 int_be', RECORD_LENGTH 10);
COPY t (id, amount, name, day) FROM PROGRAM $$printf '\000\000\000\007\000\000\300?\000\000\300\17720240131'$$
	(FIXED_WIDTH '1-4 int_be, 5-8 float_le, 9-12 float_le, 13-20', RECORD_LENGTH 20);
SELECT i4, i2, i8, v FROM n;
SELECT * FROM t;
-- Rows that nodes refuse, and numbers that do not fit, with the number of the record.
COPY n (i4, v) FROM PROGRAM $$printf '\000\000\000\001abc \000\000\000\002abcd'$$ (FIXED_WIDTH '1-4 int_be, 5-8', RECORD_LENGTH 8);
COPY n (i4, i2) FROM PROGRAM $$printf '\000\000\000\001\000\001\000\000\000\000\000\001\000\000\001\000'$$ (FIXED_WIDTH '1-4 int_be, 5-8 int_le', RECORD_LENGTH 8);
COPY n (i4, v) FROM PROGRAM $$printf '\000\000\000\000\000\000\000\002abc\000\000\000\001\000\000\000\002abc'$$ (FIXED_WIDTH '1-8 int_be, 9-11', RECORD_LENGTH 11);
COPY n (i4, v) FROM PROGRAM $$printf '\000\000\000\001\000\000\000\000\000\000\000\001\377 '$$ (FIXED_WIDTH '1-4 int_be, 5-5', RECORD_LENGTH 7);

-- Where rows are parsed on the coordinator, and with other options.
\set VERBOSITY terse
SELECT shardfdw.create_reject_table('rejects');
CREATE VIEW seen AS SELECT line, column_name, sqlstate, message, raw FROM rejects WHERE load = (SELECT max(load) FROM rejects);
CREATE TABLE u (id int PRIMARY KEY, v int CHECK (v < 100), w text DEFAULT 'const', x timetz);
SELECT shardfdw.shard_table('u', 'id', 3);
COPY u (id, v, x) FROM STDIN (FIXED_WIDTH '1-2, 3-5, 6-', ON_ERROR ignore, REJECT_TABLE 'rejects', ON_DUPLICATE keep_old, SKIP 1, MAX_ROWS 7);
skipped
 1 10 12:00+01
 2200 12:00+01
x3  1 12:00+01
 4  x 12:00+01
 1 11 12:00+01
 5
 6 12 13:00+01
 7  1 behind MAX_ROWS
\.
SELECT * FROM seen ORDER BY line;
ALTER TABLE u DROP x;
COPY u (id, v) FROM STDIN (FIXED_WIDTH '1-2, 3-5', ON_ERROR ignore, REJECT_TABLE 'rejects', ON_DUPLICATE keep_new);
 1 20
 2200
x3  1
 4  x
 5
 6 22
\.
SELECT * FROM seen ORDER BY line;
COPY u (id, v) FROM STDIN (FIXED_WIDTH '1-2, 3-5') WHERE v <> 9;
 8  8
 9  9
\.
COPY u (id, v) FROM PROGRAM $$printf '\013\000\005\000\001\000\006\000\014\000\310\000\015\000\007\000'$$
	(FIXED_WIDTH '1-2 int_le, 3-4 int_le', RECORD_LENGTH 4, ON_ERROR ignore, REJECT_TABLE 'rejects', ON_DUPLICATE keep_new);
SELECT line, sqlstate, message, raw FROM seen ORDER BY line;
SELECT * FROM u ORDER BY id;
CREATE FUNCTION swap(v int, id int) RETURNS u LANGUAGE sql AS $$ SELECT ROW(id, v + 1, 'filter')::u $$;
TRUNCATE u;
COPY u FROM STDIN (FIXED_WIDTH '1-2, 3-5', FILTER 'swap', ON_ERROR ignore, REJECT_TABLE 'rejects', REJECT_LIMIT 3);
 1  7
x   8
 2
\.
COPY u FROM PROGRAM $$printf '\001\000\000\000\010\002\000\000\000\011'$$ (FIXED_WIDTH '1-4 int_le, 5-5 int_le', RECORD_LENGTH 5, FILTER 'swap');
SELECT * FROM seen ORDER BY line;
SELECT * FROM u ORDER BY id;

-- Keys of several columns, and ones that are NULL or have characters that COPY text escapes.
CREATE TABLE keys (a text, b bigint, c text) PARTITION BY HASH (a, b);
SELECT shardfdw.shard_table('keys', shards => 4);
COPY keys FROM STDIN (FIXED_WIDTH '1-4, 5-8, 9-', NULL '');
a\	b   1é
       2  
        	x
\.
COPY keys FROM PROGRAM $$printf 'a\\\tb   1\303\251       2\\x'$$ (FIXED_WIDTH '1-4, 5-8, 9-', NULL '', RECORD_LENGTH 10);
SELECT a, b, c, count(*) FROM keys GROUP BY a, b, c ORDER BY b;

-- A key that is a number, in its forms.
CREATE TABLE smalls (id smallint, v text) PARTITION BY HASH (id);
SELECT shardfdw.shard_table('smalls', shards => 4);
COPY smalls FROM STDIN (FIXED_WIDTH '1-7, 8-');
      1a
-32768 b
  +12  c
 007   d
32767  e
\.
SELECT id, v, tableoid = shardfdw.shard_for('smalls', id) AS there FROM smalls ORDER BY v;
COPY smalls FROM STDIN (FIXED_WIDTH '1-7, 8-');
      2f
 32768 g
\.
SELECT count(*) FROM smalls;

-- What is wrong.
\set VERBOSITY default
COPY t (id, name) FROM STDIN (FIXED_WIDTH '1-4, 5-8');
   1abcd
   2abc
\.
COPY t (id, name) FROM STDIN (FIXED_WIDTH '1-4, 5-8');
   1abcd
 x 2abcd
\.
COPY t (id, name) FROM PROGRAM $$printf '   1abcd   2ab'$$ (FIXED_WIDTH '1-4, 5-8', RECORD_LENGTH 8);
\set VERBOSITY terse
COPY t FROM '/dev/null' (FIXED_WIDTH '');
COPY t FROM '/dev/null' (FIXED_WIDTH '1-4');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH 'id 1-4');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4,');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '0-4');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '4-1');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-999999999999');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 int');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 nullif x');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 nullif "x');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 trim');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 int_le');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-3 int_le', RECORD_LENGTH 4);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-2 float_be', RECORD_LENGTH 4);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4 int_le trim both', RECORD_LENGTH 4);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-5', RECORD_LENGTH 4);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', RECORD_LENGTH 0);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', RECORD_LENGTH 4, HEADER);
COPY t (id) FROM '/dev/null' (RECORD_LENGTH 4);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', DELIMITER ';');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', FORMAT csv);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', FORMAT binary);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', HEADER match);
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', ENCODING 'sjis');
COPY t (id) FROM '/dev/null' (FIXED_WIDTH '1-4', ENCODING 'klingon');
COPY plain FROM '/dev/null' (FIXED_WIDTH '1-4, 5-8');
DROP SCHEMA copy_fixed_width CASCADE;
