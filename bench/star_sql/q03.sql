-- the large dimension alone, by colour; order: total
SELECT colour, count(*), sum(quantity), max(amount)
FROM sale JOIN product USING (product_id)
GROUP BY colour
ORDER BY colour;
