-- a CTE of totals, joined with its dimension; order: total
WITH totals AS (SELECT store_id, sum(amount) AS total FROM sale WHERE sold_on >= date '2023-01-01' GROUP BY store_id)
SELECT city_name, sum(total)
FROM totals JOIN store USING (store_id) JOIN city USING (city_id)
GROUP BY city_name
ORDER BY sum(total) DESC, city_name
LIMIT 20;
