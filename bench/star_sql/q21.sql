-- ROLLUP over department and category; order: total
SELECT department_name, category_name, sum(amount)
FROM sale JOIN product USING (product_id) JOIN category USING (category_id) JOIN department USING (department_id)
WHERE sold_on BETWEEN date '2018-05-01' AND date '2018-05-31'
GROUP BY ROLLUP (department_name, category_name)
ORDER BY department_name NULLS LAST, category_name NULLS LAST;
