WITH counts AS (
    SELECT (_ts + 1999) // 2000 * 2000 + 2000 * after AS _ts, auction, count(*) AS n
    FROM bids, range(5) AS later(after) GROUP BY ALL)
SELECT * FROM counts QUALIFY n = max(n) OVER (PARTITION BY _ts)
