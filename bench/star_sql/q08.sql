-- sums by CASE, a row for each store kind; order: total
SELECT kind,
	sum(CASE WHEN weekday <= 5 THEN amount ELSE 0 END) AS workdays,
	sum(CASE WHEN weekday = 6 THEN amount ELSE 0 END) AS saturdays,
	sum(CASE WHEN weekday = 7 THEN amount ELSE 0 END) AS sundays,
	count(CASE WHEN holiday THEN 1 END) AS on_holidays
FROM sale JOIN store USING (store_id) JOIN day ON day = sold_on
GROUP BY kind
ORDER BY kind;
