-- stores above the average of their country; order: total
WITH totals AS (
	SELECT country_id, store_id, sum(amount) AS total
	FROM sale JOIN store USING (store_id) JOIN city USING (city_id)
	WHERE sold_on BETWEEN date '2016-01-01' AND date '2016-12-31'
	GROUP BY country_id, store_id)
SELECT country_id, count(*)
FROM totals
WHERE total > (SELECT avg(total) FROM totals AS others WHERE others.country_id = totals.country_id)
GROUP BY country_id
ORDER BY country_id;
