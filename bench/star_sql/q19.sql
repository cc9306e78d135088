-- distinct customers by region; order: total
SELECT region, count(DISTINCT customer_id)
FROM sale JOIN store USING (store_id) JOIN city USING (city_id) JOIN country USING (country_id)
WHERE sold_on >= date '2024-01-01'
GROUP BY region
ORDER BY region;
