-- clerks hired before their store was opened; order: total
SELECT kind, count(*), sum(amount)
FROM sale JOIN clerk USING (clerk_id) JOIN store ON store.store_id = clerk.store_id
WHERE hired < opened AND sold_on BETWEEN date '2017-01-01' AND date '2018-12-31'
GROUP BY kind
ORDER BY kind;
