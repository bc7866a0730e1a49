SELECT a.id AS id, item, bidder, price, b._ts AS at
FROM auctions a JOIN bids b ON a.id = b.auction AND b._ts BETWEEN a._ts AND a.expires
QUALIFY rank() OVER (PARTITION BY a.id ORDER BY price DESC, b._ts) = 1
