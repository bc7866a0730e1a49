"""Make the recording of the Linear Road example: cars that tell where they are.

A road of ten segments, each of a mile, with two directions. A car enters at a segment, tells its
position every 30 seconds, and leaves at a segment further on. Traffic is slow in two segments of
each direction. In each direction two cars collide once, beyond the slow traffic, and stand for some
minutes.

    python examples/linear_road_traffic.py [folder]

writes `linear-road-reports.parquet` into `build/data`: 20 minutes, made from seed 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

DATA = Path(__file__).resolve().parent.parent / "build" / "data"

BEGIN_MS = 1_767_225_600_000
"""2026-01-01, UTC."""

MINUTES = 20

REPORT_S = 30
"""How often a car tells its position."""

SEGMENTS = 10

SEGMENT_FT = 5280

CARS_A_SECOND = 0.5
"""That enter in each direction."""

FREE_MPH, SLOW_MPH = 60, 26

FT_A_MILE_AN_HOUR = 5280 / 3600
"""Feet a second at a speed of 1 mph."""

SLOW = ((6, 7), (2, 3))
"""Segments of slow traffic, by direction."""

COLLISION_SEGMENTS = (8, 1)
"""Where two cars collide, by direction."""

COLLISION_S, STANDS_S = 480, 240
"""From when, after the begin, and how long at least the two cars stand."""

ENTRY_LANE, EXIT_LANE = 0, 4


@dataclass(slots=True, kw_only=True)
class Car:
    """A car on its way. Positions count in feet from the road's western end.

    Attributes
    ----------
    direction
        0 to the east, 1 to the west.
    exit_ft
        Where it leaves.
    stands_from_s, stands_at_ft
        When and where it collides, if it does.
    """

    number: int
    direction: int
    position_ft: float
    exit_ft: float
    pace: float
    stands_from_s: float | None = None
    stands_at_ft: float = 0.0

    def speed_mph(self) -> float:
        """As fast as the segment permits; `pace` tells drivers apart."""
        segment = int(self.position_ft // SEGMENT_FT)
        return self.pace * (SLOW_MPH if segment in SLOW[self.direction] else FREE_MPH)

    def has_left(self) -> bool:
        """Whether its exit lies behind it."""
        sign = 1 - 2 * self.direction
        return sign * (self.position_ft - self.exit_ft) >= 0

    def drive(self, now_s: float) -> bool:
        """Go on for a second; returns whether it moves."""
        if self.stands_from_s is not None and 0 <= now_s - self.stands_from_s < STANDS_S:
            self.position_ft = self.stands_at_ft
            return False
        sign = 1 - 2 * self.direction
        self.position_ft += sign * self.speed_mph() * FT_A_MILE_AN_HOUR
        return True


def reports(seed: int = 1, minutes: int = MINUTES) -> pa.Table:
    """All reports in order of time.

    Parameters
    ----------
    seed
        Of when and where cars enter and leave, and of how fast they go.
    minutes
        How long the recording is.

    Returns
    -------
    pa.Table
        `timestamp` (ms since 1970), `car`, `speed` (mph), `xway`, `lane` (0 the entry, 1 … 3, 4 the
        exit), `dir` (0 east, 1 west), `segment` (0 … 9) and `position` (feet); all are ints.
    """
    rng = np.random.default_rng(seed)
    entries = [
        (float(at_s), direction)
        for direction in (0, 1)
        for at_s in np.flatnonzero(rng.random(minutes * 60) < CARS_A_SECOND)
    ]
    rows: list[dict[str, int]] = []
    for number, (at_s, direction) in enumerate(sorted(entries), start=1):
        rows += _journey(rng, number, at_s, direction, minutes * 60)
    for direction in (0, 1):
        for number in (1, 2):
            rows += _collision(len(entries) + 2 * direction + number, direction, minutes * 60)
    rows.sort(key=lambda row: (row["timestamp"], row["car"]))
    return pa.Table.from_pylist(rows)


def _journey(
    rng: np.random.Generator, number: int, at_s: float, direction: int, end_s: int
) -> Iterator[dict[str, int]]:
    """One car from its entry to its exit."""
    first, last = sorted(rng.choice(SEGMENTS, 2, replace=False))
    entry, leaves = (first, last) if direction == 0 else (last, first)
    car = Car(
        number=number,
        direction=direction,
        position_ft=(entry + 0.25) * SEGMENT_FT,
        exit_ft=(leaves + 0.75 - 0.5 * direction) * SEGMENT_FT,
        pace=float(rng.uniform(0.9, 1.1)),
    )
    offset_ms = int(rng.integers(1000))
    yield from _told(car, at_s, offset_ms, end_s, int(rng.integers(1, 4)))


def _collision(number: int, direction: int, end_s: int) -> Iterator[dict[str, int]]:
    """One of two cars that stand in the middle of a segment, from some moment on."""
    at_ft = (COLLISION_SEGMENTS[direction] + 0.5) * SEGMENT_FT
    sign = 1 - 2 * direction
    car = Car(
        number=number,
        direction=direction,
        position_ft=at_ft - sign * SEGMENT_FT,
        exit_ft=at_ft + sign * SEGMENT_FT,
        pace=1.0,
        stands_from_s=COLLISION_S,
        stands_at_ft=at_ft,
    )
    yield from _told(car, COLLISION_S - 2.0 * REPORT_S, number, end_s, 1)


def _told(car: Car, at_s: float, offset_ms: int, end_s: int, lane: int) -> Iterator[dict[str, int]]:
    """What a car tells, from its entry on; the last time in the exit lane."""
    now_s, moves, has_left = at_s, True, False
    while now_s < end_s and not has_left:
        if has_left := car.has_left():
            car.position_ft = car.exit_ft
        yield {
            "timestamp": BEGIN_MS + int(now_s * 1000) + offset_ms,
            "car": car.number,
            "speed": round(car.speed_mph()) if moves else 0,
            "xway": 0,
            "lane": EXIT_LANE if has_left else ENTRY_LANE if now_s == at_s else lane,
            "dir": car.direction,
            "segment": int(car.position_ft // SEGMENT_FT),
            "position": round(car.position_ft),
        }
        for _ in range(REPORT_S):
            now_s += 1
            moves = car.drive(now_s)


def main() -> None:
    """Write the example's recording."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    folder.mkdir(parents=True, exist_ok=True)
    table = reports()
    parquet.write_table(table, folder / "linear-road-reports.parquet")
    Console().print(f"{table.num_rows:,} reports of the Linear Road example in {folder}")


if __name__ == "__main__":
    main()
