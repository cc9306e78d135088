-- age groups by colour; order: total
SELECT (extract(year FROM born) / 10)::int * 10 AS decade, colour, count(*)
FROM sale JOIN customer USING (customer_id) JOIN product USING (product_id)
WHERE colour IN ('red', 'green') AND channel_id = 3
GROUP BY decade, colour
ORDER BY decade, colour;
