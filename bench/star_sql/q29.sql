-- rank of categories within departments; order: total
SELECT * FROM (
	SELECT department_id, category_name, sum(quantity) AS pieces, rank() OVER (PARTITION BY department_id ORDER BY sum(quantity) DESC) AS place
	FROM sale JOIN product USING (product_id) JOIN category USING (category_id)
	WHERE channel_id IN (1, 2)
	GROUP BY department_id, category_name) AS ranked
WHERE place <= 3
ORDER BY department_id, place, category_name;
