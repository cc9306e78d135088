-- sales of products that a subquery picks; order: total
SELECT year, sum(amount)
FROM sale JOIN day ON day = sold_on
WHERE product_id IN (SELECT product_id FROM product JOIN brand USING (brand_id) WHERE maker_id = 11 AND price > 400)
GROUP BY year
ORDER BY year;
