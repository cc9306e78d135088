-- icu_tables.sql - tables with a collation that takes different strings for equal
--
-- Included with :schema and :shards as tables.sql is.

SET search_path = :schema, diff;
SELECT :shards > 0 AS sharded \gset
CREATE TABLE nocase (k text COLLATE diff.nocase, v int, w text);
CREATE TABLE cased (k text, v int, w text COLLATE diff.nocase);
\if :sharded
SELECT shardfdw.shard_table('nocase', 'k', shards => :shards);
SELECT shardfdw.shard_table('cased', 'k', shards => :shards);
\endif
INSERT INTO nocase SELECT (ARRAY['abc', 'ABC', 'aBC', 'ABc'])[g % 4 + 1] || g % 5, g, (ARRAY['x', 'X', 'y', NULL])[g / 4 % 4 + 1] FROM generate_series(1, 60) g;
INSERT INTO cased SELECT k, v, w FROM diff_plain.nocase WHERE v < 40;
RESET search_path;
