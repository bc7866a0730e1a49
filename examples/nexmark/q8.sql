SELECT DISTINCT (p._ts + 9999) // 10000 * 10000 AS _ts, p.id AS id, p.name AS name
FROM persons p JOIN auctions a
ON p.id = a.seller AND (p._ts + 9999) // 10000 = (a._ts + 9999) // 10000
