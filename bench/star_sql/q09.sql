-- IN lists on three dimensions; order: total
SELECT category_name, store_name, sum(quantity)
FROM sale JOIN product USING (product_id) JOIN category USING (category_id) JOIN store USING (store_id)
WHERE category_id IN (3, 33, 63, 93) AND store.city_id IN (7, 17, 27, 37, 47) AND colour IN ('black', 'white')
GROUP BY category_name, store_name
ORDER BY category_name, store_name;
