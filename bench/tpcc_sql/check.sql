-- Consistency conditions 1 to 4 and 8 of clause 3.3.2: one row for each that does not hold.
SELECT 'w_ytd is not the sum of d_ytd: ' || count(*) FROM (SELECT d_w_id AS w, sum(d_ytd) AS s FROM district GROUP BY 1) x JOIN warehouse ON w_id = w
	WHERE w_ytd <> s HAVING count(*) > 0
UNION ALL SELECT 'd_next_o_id is not the last order: ' || count(*) FROM (SELECT o_w_id AS w, o_d_id AS d, max(o_id) AS o FROM orders GROUP BY 1, 2) x
	JOIN district ON d_w_id = w AND d_id = d WHERE d_next_o_id - 1 <> o HAVING count(*) > 0
UNION ALL SELECT 'new_order has gaps: ' || count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 - count(*) AS gap FROM new_order GROUP BY no_w_id, no_d_id) x
	WHERE gap <> 0 HAVING count(*) > 0
UNION ALL SELECT 'orders and order_line differ' WHERE (SELECT sum(o_ol_cnt) FROM orders) <> (SELECT count(*) FROM order_line)
UNION ALL SELECT 'w_ytd is not the sum of h_amount: ' || count(*) FROM (SELECT h_w_id AS w, sum(h_amount) AS s FROM history GROUP BY 1) x JOIN warehouse ON w_id = w
	WHERE w_ytd <> s HAVING count(*) > 0;
