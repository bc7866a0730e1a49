"""The changes that three queries of NEXMark tell of, in SQL for benchmark `nexmark`.

The SQL beside their manifests (`examples/nexmark`) gives what holds in the end. The outputs of
these queries tell of each change, with its timestamp: here, window functions over the events up to
each timestamp give all of them. A change is a row that differs from the one before it; all events
of one timestamp change a result at most once.
"""

from __future__ import annotations

from collections.abc import Mapping

_HIGHEST = """
    valid AS (
        SELECT a.id AS id, item, category, bidder, price, b._ts AS _ts
        FROM auctions a JOIN bids b ON a.id = b.auction AND b._ts BETWEEN a._ts AND a.expires),
    highest AS (
        SELECT *, max(price) OVER (
            PARTITION BY id ORDER BY _ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (SELECT id, category, _ts, max(price) AS price FROM valid GROUP BY ALL)
        QUALIFY before IS NULL OR price > before)
"""
"""Valid bids; when the highest bid of an auction changes, and which one it was before."""

changes: Mapping[str, str] = {
    # Sums of whole numbers are exact: both sides divide the same two numbers.
    "q4": f"""
        WITH {_HIGHEST},
        steps AS (
            SELECT category, _ts, sum(price - coalesce(before, 0)) AS more,
                count(*) FILTER (before IS NULL) AS auctions
            FROM highest GROUP BY ALL),
        means AS (
            SELECT _ts, category, sum(more) OVER until_now / sum(auctions) OVER until_now AS mean
            FROM steps WINDOW until_now AS (PARTITION BY category ORDER BY _ts))
        SELECT _ts, category, mean FROM means
        QUALIFY mean IS DISTINCT FROM lag(mean) OVER (PARTITION BY category ORDER BY _ts)
    """,
    "q9": f"""
        WITH {_HIGHEST}
        SELECT _ts, id, item, bidder, price, _ts AS at
        FROM valid SEMI JOIN highest USING (id, _ts, price)
    """,
    "q18": """
        WITH newest AS (
            SELECT _ts, bidder, auction, (price, channel, url, extra) AS told, price, channel, url,
                extra
            FROM bids QUALIFY row_number() OVER (
                PARTITION BY bidder, auction, _ts ORDER BY seq DESC) = 1)
        SELECT * EXCLUDE (told) FROM newest
        QUALIFY told IS DISTINCT FROM lag(told) OVER (PARTITION BY bidder, auction ORDER BY _ts)
    """,
}
