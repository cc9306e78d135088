-- products without sales in a month: anti join; order: total
SELECT colour, count(*)
FROM product
WHERE NOT EXISTS (SELECT FROM sale WHERE sale.product_id = product.product_id AND sold_on BETWEEN date '2022-03-01' AND date '2022-03-31')
GROUP BY colour
ORDER BY colour;
