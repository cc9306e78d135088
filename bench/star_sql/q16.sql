-- latest sales with all names; order: total
SELECT sale_id, sold_on, product_name, customer_name, store_name, amount
FROM sale JOIN product USING (product_id) JOIN customer USING (customer_id) JOIN store USING (store_id)
WHERE sold_on >= date '2024-12-01'
ORDER BY amount DESC, sale_id
LIMIT 20;
