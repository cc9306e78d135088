-- seven dimensions; order: total
SELECT region, department_name, segment_name, sum(amount)
FROM sale JOIN store USING (store_id) JOIN city USING (city_id) JOIN country USING (country_id)
	JOIN product USING (product_id) JOIN category USING (category_id) JOIN department USING (department_id)
	JOIN customer USING (customer_id) JOIN segment USING (segment_id)
WHERE sold_on BETWEEN date '2021-01-01' AND date '2021-06-30' AND department_id < 5
GROUP BY region, department_name, segment_name
ORDER BY region, department_name, segment_name;
