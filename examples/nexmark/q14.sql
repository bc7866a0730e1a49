SELECT _ts, auction, bidder, 0.908::DOUBLE * price AS price,
    CASE WHEN _ts % 86400000 BETWEEN 28800000 AND 68399999 THEN 'dayTime'
         WHEN _ts % 86400000 < 25200000 OR _ts % 86400000 >= 72000000 THEN 'nightTime'
         ELSE 'otherTime' END AS part,
    extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bids WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000
