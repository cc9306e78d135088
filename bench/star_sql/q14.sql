-- the hundred best customers; order: total
SELECT customer_id, customer_name, sum(amount) AS total
FROM sale JOIN customer USING (customer_id)
GROUP BY customer_id, customer_name
ORDER BY total DESC, customer_id
LIMIT 100;
