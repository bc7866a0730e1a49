SELECT auction, bidder, price, channel, url, extra
FROM bids QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY seq DESC) = 1
