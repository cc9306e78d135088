-- FILTER by several dimensions; order: total
SELECT year,
	sum(amount) FILTER (WHERE region = 'Asia') AS asia,
	sum(amount) FILTER (WHERE region = 'Europe' AND weekday = 1) AS europe_on_mondays,
	count(*) FILTER (WHERE holiday) AS on_holidays
FROM sale JOIN store USING (store_id) JOIN city USING (city_id) JOIN country USING (country_id) JOIN day ON day = sold_on
GROUP BY year
ORDER BY year;
