-- the ten best brands of a region; order: total
SELECT brand_name, sum(amount) AS total
FROM sale JOIN product USING (product_id) JOIN brand USING (brand_id) JOIN maker USING (maker_id) JOIN country USING (country_id)
WHERE region = 'Europe' AND sold_on BETWEEN date '2019-01-01' AND date '2019-12-31'
GROUP BY brand_name
ORDER BY total DESC, brand_name
LIMIT 10;
