-- departments of one quarter; order: total
SELECT department_name, sum(amount - cost) AS margin
FROM sale JOIN product USING (product_id) JOIN category USING (category_id) JOIN department USING (department_id)
WHERE sold_on >= date '2020-04-01' AND sold_on < date '2020-07-01'
GROUP BY department_name
ORDER BY margin DESC, department_name;
