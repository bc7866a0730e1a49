WITH marked AS (
    SELECT _ts, seq, bidder, coalesce(_ts - lag(_ts) OVER (PARTITION BY bidder ORDER BY seq) >= 10000, true)
        AS begins FROM bids),
numbered AS (
    SELECT _ts, bidder, sum(begins::BIGINT) OVER (PARTITION BY bidder ORDER BY seq) AS session FROM marked)
SELECT max(_ts) + 10000 AS _ts, bidder, count(*) AS bids, min(numbered._ts) AS began
FROM numbered GROUP BY bidder, session
