-- The results that `query.yaml` must give, computed another way: over the whole recording at
-- once, in plain Spark SQL, from the definition of an alert.
--
-- Given:  north, south                  the recordings, as temporary views
-- Result: alerts(_ts, first, second)    alerts_per_minute(_ts, alerts)
--
-- Nothing of the continuous query is reused: there is no grid (so the grid's cells are shown to be
-- wide enough), no window operator (a position has an interval of validity instead), and no state.

-- A position holds from its timestamp until the aircraft's next one, for 30 s at most. Positions
-- below 1,500 ft or without an altitude do not count, not even to end an earlier one.
CREATE OR REPLACE TEMPORARY VIEW held AS
SELECT
  icao24, latitude, longitude, altitude,
  timestamp AS since,
  least(
    lead(timestamp) OVER (PARTITION BY icao24 ORDER BY timestamp),
    timestamp + 30000
  ) AS until
FROM (SELECT * FROM north UNION ALL SELECT * FROM south)
WHERE altitude >= 1500;

-- Two positions can only hold together if they share a slice of time. Joining by slices of 5 s
-- spares comparing each position with all of the recording's others.
CREATE OR REPLACE TEMPORARY VIEW sliced AS
SELECT *, explode(sequence(since div 5000, (until - 1) div 5000)) AS slice
FROM held;

-- Times during which two aircraft are near each other: less than 5 nautical miles (a minute of
-- latitude is one) and less than 1,000 ft apart. A pair that shares several slices counts in the
-- first of them only.
CREATE OR REPLACE TEMPORARY VIEW near AS
SELECT
  a.icao24 AS first, b.icao24 AS second,
  greatest(a.since, b.since) AS since,
  least(a.until, b.until) AS until
FROM sliced AS a JOIN sliced AS b
  ON a.slice = b.slice AND a.icao24 < b.icao24
WHERE a.since < b.until AND b.since < a.until
  AND a.slice = greatest(a.since, b.since) div 5000
  AND power(60 * (a.latitude - b.latitude), 2)
    + power(60 * cos(radians(a.latitude)) * (a.longitude - b.longitude), 2) < 25
  AND abs(a.altitude - b.altitude) < 1000;

-- An alert is raised where such times begin that no earlier one of the pair runs up to.
CREATE OR REPLACE TEMPORARY VIEW alerts AS
SELECT since AS _ts, first, second
FROM (
  SELECT *,
    max(until) OVER (
      PARTITION BY first, second ORDER BY since, until
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS near_until
  FROM near
)
WHERE near_until IS NULL OR since > near_until;

-- The number of alerts of the last minute whenever it changes: an alert adds one, and takes it
-- back 60 s later. Counting begins with the first alert.
CREATE OR REPLACE TEMPORARY VIEW alerts_per_minute AS
WITH steps AS (
  SELECT _ts, sum(step) AS step
  FROM (
    SELECT _ts, 1 AS step FROM alerts
    UNION ALL SELECT _ts + 60000, -1 FROM alerts
  )
  GROUP BY _ts
)
SELECT _ts, alerts
FROM (SELECT *, sum(step) OVER (ORDER BY _ts) AS alerts FROM steps)
WHERE step <> 0;
