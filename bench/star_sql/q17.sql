-- clerks above others, HAVING; order: total
SELECT clerk_name, count(*), sum(amount) AS total
FROM sale JOIN clerk USING (clerk_id)
WHERE hired >= date '2020-01-01'
GROUP BY clerk_name
HAVING count(*) > 290
ORDER BY total DESC, clerk_name;
