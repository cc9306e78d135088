-- an OR over two dimensions; order: total
SELECT kind, weekday, count(*), sum(amount)
FROM sale JOIN store USING (store_id) JOIN day ON day = sold_on
WHERE (kind = 'outlet' AND weekday IN (6, 7)) OR (kind = 'mall' AND holiday)
GROUP BY kind, weekday
ORDER BY kind, weekday;
