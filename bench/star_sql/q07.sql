-- an OR over three dimensions, with a range of the large table; order: total
SELECT colour, count(*), sum(amount)
FROM sale JOIN product USING (product_id) JOIN customer USING (customer_id) JOIN promotion USING (promotion_id)
WHERE (colour = 'red' AND promotion.kind = 'coupon' AND quantity BETWEEN 2 AND 4)
	OR (colour = 'blue' AND vip AND quantity > 8)
	OR (weight < 100 AND discount > 40 AND amount > 1000)
GROUP BY colour
ORDER BY colour;
