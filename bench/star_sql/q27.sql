-- names by LIKE; order: total
SELECT brand_name, count(*)
FROM sale JOIN product USING (product_id) JOIN brand USING (brand_id)
WHERE brand_name LIKE 'brand 19%' AND product_name LIKE '%77%'
GROUP BY brand_name
ORDER BY count(*) DESC, brand_name
LIMIT 15;
