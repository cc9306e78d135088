-- months of one customer; order: total
SELECT year, month, count(*), sum(amount)
FROM sale JOIN day ON day = sold_on JOIN product USING (product_id)
WHERE customer_id = 1234 AND price > 10
GROUP BY year, month
ORDER BY year, month;
