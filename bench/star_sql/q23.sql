-- a LEFT JOIN with a condition; order: total
SELECT channel_name, count(*), count(promotion_id_big) AS with_large_discount
FROM sale JOIN channel USING (channel_id) LEFT JOIN (SELECT promotion_id AS promotion_id_big FROM promotion WHERE discount > 45) AS big
	ON promotion_id_big = promotion_id
GROUP BY channel_name
ORDER BY channel_name;
