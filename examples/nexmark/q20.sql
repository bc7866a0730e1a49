SELECT b._ts AS _ts, auction, bidder, price, b.extra AS extra, item, initial_bid, reserve, seller
FROM bids b JOIN auctions a ON b.auction = a.id AND a._ts <= b._ts
WHERE category = 10
