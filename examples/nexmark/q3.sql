SELECT greatest(a._ts, p._ts) AS _ts, name, city, state, a.id AS id
FROM auctions a JOIN persons p ON a.seller = p.id
WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
