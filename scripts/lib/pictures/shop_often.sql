\set c random(1, 5000)
\set o random(1, 50000)
SELECT order_id, placed, status, total FROM orders WHERE customer_id = :c ORDER BY placed DESC LIMIT 10;
SELECT o.order_id, o.placed, l.product_id, l.quantity FROM orders o JOIN lines l USING (customer_id, order_id) WHERE o.customer_id = :c;
SELECT order_id, customer_id, status FROM orders WHERE order_id = :o;
UPDATE orders SET status = 'sent' WHERE customer_id = :c AND order_id = :o;
SELECT customer_id, email, name FROM customer JOIN country ON code = country WHERE customer_id = :c;
