-- customers buying away from home; order: total
SELECT here.region, count(*), sum(amount)
FROM sale JOIN store USING (store_id) JOIN city AS at ON at.city_id = store.city_id JOIN country AS here ON here.country_id = at.country_id
	JOIN customer USING (customer_id) JOIN city AS home ON home.city_id = customer.city_id
WHERE home.country_id <> at.country_id AND vip
GROUP BY here.region
ORDER BY here.region;
