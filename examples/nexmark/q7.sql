SELECT (_ts + 9999) // 10000 * 10000 AS _ts, auction, bidder, price, extra
FROM bids QUALIFY price = max(price) OVER (PARTITION BY (_ts + 9999) // 10000)
