-- segments of VIPs, by channel; order: total
SELECT segment_name, channel_name, sum(amount), avg(quantity)
FROM sale JOIN customer USING (customer_id) JOIN segment USING (segment_id) JOIN channel USING (channel_id)
WHERE vip
GROUP BY segment_name, channel_name
ORDER BY segment_name, channel_name;
