SELECT category, avg(price) AS mean FROM (
    SELECT a.id, category, max(price) AS price
    FROM auctions a JOIN bids b ON a.id = b.auction AND b._ts BETWEEN a._ts AND a.expires
    GROUP BY ALL)
GROUP BY ALL
