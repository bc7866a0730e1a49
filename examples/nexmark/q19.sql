SELECT b._ts AS _ts, b.auction AS auction, b.bidder AS bidder, b.price AS price, b.channel AS channel,
       b.url AS url, b.extra AS extra
FROM bids b WHERE (
    SELECT count(*) FROM bids o
    WHERE o.auction = b.auction AND o._ts <= b._ts
      AND (-o.price, o.bidder, o.channel, o.url, o.extra, o.seq)
        < (-b.price, b.bidder, b.channel, b.url, b.extra, b.seq)) < 10
