-- share of promotions by kind and year; order: total
SELECT promotion.kind, year, sum(amount) * 100 / sum(sum(amount)) OVER (PARTITION BY year) AS share
FROM sale JOIN promotion USING (promotion_id) JOIN day ON day = sold_on
GROUP BY promotion.kind, year
ORDER BY promotion.kind, year;
