"""The aircraft example's answer by brute force: nothing but dictionaries and sets."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa

Alerts = list[tuple[int, str, str]]
Counts = list[tuple[int, int]]


def brute_force(positions: pa.Table) -> tuple[Alerts, Counts]:
    """The example's results, timestamp by timestamp, from nothing but dictionaries and sets."""
    rows = sorted(positions.to_pylist(), key=lambda row: row["timestamp"])
    flying = [row for row in rows if row["altitude"] is not None and row["altitude"] >= 1500]
    timestamp_groups = {row["timestamp"] + delay for row in flying for delay in (0, 30_000)}
    alerts: Alerts = []
    newest: dict[str, dict[str, float]] = {}
    near: set[tuple[str, str]] = set()
    taken = 0
    for now in sorted(timestamp_groups):
        while taken < len(flying) and flying[taken]["timestamp"] == now:
            newest[flying[taken]["icao24"]] = flying[taken]
            taken += 1
        held = {name: row for name, row in newest.items() if row["timestamp"] > now - 30_000}
        before, near = near, near_pairs(held)
        alerts += [(now, *pair) for pair in sorted(near - before)]
    return alerts, counts_by_minute(alerts)


def near_pairs(held: dict[str, dict[str, float]]) -> set[tuple[str, str]]:
    names = sorted(held)
    if not names:
        return set()
    latitude, longitude, altitude = (
        np.array([held[name][axis] for name in names])
        for axis in ("latitude", "longitude", "altitude")
    )
    north = 60 * np.subtract.outer(latitude, latitude)
    east = 60 * np.cos(np.radians(latitude))[:, None] * np.subtract.outer(longitude, longitude)
    level = np.abs(np.subtract.outer(altitude, altitude)) < 1000
    is_near = (north**2 + east**2 < 25) & level
    return {
        (names[a], names[b]) for a, b in combinations(range(len(names)), 2) if bool(is_near[a, b])
    }


def counts_by_minute(alerts: Alerts) -> Counts:
    steps = Counter[int]()
    for at, _, _ in alerts:
        steps[at] += 1
        steps[at + 60_000] -= 1
    count, counts = 0, Counts()
    for at, step in sorted(steps.items()):
        count += step
        if step:
            counts.append((at, count))
    return counts
