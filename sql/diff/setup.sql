-- setup.sql - types, tables and the comparison, once in a database
--
-- Included with ECHO off. Needs :dir, the folder of this file.

SET client_min_messages = warning;
SELECT to_regnamespace('diff_seven') IS NULL AS fresh \gset
\if :fresh
\set f :dir /types.sql
\i :f
\set f :dir /harness.sql
\i :f
\set f :dir /tables.sql
\set schema diff_plain
\set shards 0
\i :f
\set schema diff_one
\set shards 1
\i :f
\set schema diff_seven
\set shards 7
\i :f
\endif
RESET client_min_messages;
