-- customers who bought from a department: semi join; order: total
SELECT segment_name, count(*)
FROM customer JOIN segment USING (segment_id)
WHERE EXISTS (SELECT FROM sale JOIN product USING (product_id) JOIN category USING (category_id)
	WHERE sale.customer_id = customer.customer_id AND department_id = 4 AND sold_on >= date '2024-06-01')
GROUP BY segment_name
ORDER BY segment_name;
