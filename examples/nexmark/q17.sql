SELECT (_ts + 86399999) // 86400000 * 86400000 AS _ts, auction,
    count(*) AS total_bids,
    count(CASE WHEN price < 10000 THEN 1 END) AS rank1_bids,
    count(CASE WHEN price >= 10000 AND price < 1000000 THEN 1 END) AS rank2_bids,
    count(CASE WHEN price >= 1000000 THEN 1 END) AS rank3_bids,
    min(price) AS least,
    max(price) AS most,
    avg(price) AS mean,
    sum(price) AS total
FROM bids GROUP BY ALL
