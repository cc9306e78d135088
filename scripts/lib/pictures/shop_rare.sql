SELECT status, count(*), sum(total) FROM orders GROUP BY status;
SELECT product_id, sum(quantity) FROM lines GROUP BY product_id ORDER BY 2 DESC LIMIT 10;
SELECT name, count(*), sum(total) FROM orders JOIN customer USING (customer_id) JOIN country ON code = country GROUP BY name ORDER BY 3 DESC;
SELECT order_id, total, rank() OVER (ORDER BY total DESC) FROM orders WHERE placed >= '2026-06-01' ORDER BY 3 LIMIT 20;
