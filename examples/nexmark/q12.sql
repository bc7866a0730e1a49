SELECT (_ts + 9999) // 10000 * 10000 AS _ts, bidder, count(*) AS bids FROM bids GROUP BY ALL
