-- products cheaper than they were sold for, by an expression over two tables; order: total
SELECT maker_name, count(*), sum(amount - quantity * price)
FROM sale JOIN product USING (product_id) JOIN brand USING (brand_id) JOIN maker USING (maker_id)
WHERE amount > quantity * price AND sold_on >= date '2022-01-01'
GROUP BY maker_name
ORDER BY maker_name;
