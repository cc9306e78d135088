-- sales by region and year; order: total
SELECT region, year, sum(amount), count(*)
FROM sale JOIN store USING (store_id) JOIN city USING (city_id) JOIN country USING (country_id) JOIN day ON day = sold_on
GROUP BY region, year
ORDER BY region, year;
