-- icu.sql - a key whose collation takes different strings for equal (R4); needs a server with ICU

SELECT * FROM nocase WHERE k = 'ABC1';
SELECT * FROM nocase WHERE k = 'abc1';
SELECT * FROM nocase WHERE k IN ('aBC2', 'nothing');
SELECT * FROM nocase WHERE k COLLATE "C" = 'ABC1';
SELECT lower(k), count(*), sum(v) FROM nocase GROUP BY lower(k);
SELECT upper(min(k COLLATE "C")), count(*), sum(v) FROM nocase GROUP BY k;
SELECT k COLLATE "C", count(*), sum(v) FROM nocase GROUP BY k COLLATE "C";
SELECT upper(min(k COLLATE "C")), count(*) FROM nocase GROUP BY k HAVING count(*) > 5;
SELECT lower(k COLLATE "C"), w, count(*) FROM nocase GROUP BY 1, w;
SELECT count(DISTINCT k), count(DISTINCT k COLLATE "C") FROM nocase;
SELECT count(*) FROM (SELECT DISTINCT k FROM nocase) x;
SELECT DISTINCT k COLLATE "C" FROM nocase;
SELECT count(*) FROM nocase a JOIN nocase b ON a.k = b.k;
SELECT count(*) FROM nocase a JOIN nocase b ON a.k COLLATE "C" = b.k COLLATE "C";
SELECT count(*) FROM nocase a JOIN cased b ON a.k = b.k COLLATE diff.nocase;
SELECT count(*) FROM nocase a JOIN cased b ON a.k COLLATE "C" = b.k;
SELECT count(*) FROM nocase a LEFT JOIN nocase b ON a.k = b.k AND b.v > 30;
SELECT w, count(*) FROM nocase GROUP BY w;
SELECT upper(w), count(*), upper(max(w)) FROM cased GROUP BY upper(w);
SELECT upper(min(w COLLATE "C")), count(*) FROM nocase GROUP BY w COLLATE diff.nocase;
SELECT upper(max(k)) FROM nocase;
--= ordered
SELECT k COLLATE "C", v FROM nocase ORDER BY k, v;
--= ordered
SELECT k, v FROM nocase ORDER BY k COLLATE "C", v;
--= params text | 'ABC1' | 'abc3'
SELECT * FROM nocase WHERE k = $1;
SELECT k, v FROM nocase WHERE k > 'ABC2' AND k COLLATE "C" < 'b';
