"""Make the recordings of the collision-warning example: rounds of what a car hears and sees.

In each round, as in the experiment of deadline placement (§6.1): tuples of the traffic centre come
before node 1 has anything for node 2, then those of other vehicles (v2v), and those of the car's
own sensors right after them. Tuples have timestamps of their own wherever they come together, so
that each can be scheduled by itself.

    python examples/collision_rounds.py [folder]

writes `collision-{onboard,v2v,centre,own}.parquet`, 50 rounds with 15 vehicles each, into
`build/data`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

DATA = Path(__file__).resolve().parent.parent / "build" / "data"

BEGIN_MS = 1_609_459_200_000
"""2021-01-01, UTC."""

ROUND_MS = 600
"""Of a round; time enough for all that two processors do in one."""

ONBOARD, CENTRE = 10, 100
"""Tuples of a round. Those of the centre come 100 ms after its begin."""

V2V_MS = 120
"""When v2v tuples come, after the begin of a round; those of the car's sensors a little later."""

MOST_V2V = 40
"""More would share timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Tables by stream, with the columns of `streams.yaml`; and how long they are."""

    tables: dict[str, pa.Table]
    length_ms: int

    def write(self, folder: Path) -> None:
        """One Parquet file a stream."""
        folder.mkdir(parents=True, exist_ok=True)
        for stream, table in self.tables.items():
            parquet.write_table(table, folder / f"collision-{stream}.parquet")


def rounds(v2v: Sequence[int], seed: int = 1) -> Rounds:
    """Rounds with so many v2v tuples each.

    Parameters
    ----------
    v2v
        By round, 0 … `MOST_V2V`.
    seed
        Of positions and speeds, which decide nothing but what is written.

    Raises
    ------
    ValueError
        A round that cannot be.
    """
    for number, count in enumerate(v2v):
        if not 0 <= count <= MOST_V2V:
            raise ValueError(f"round {number} has {count} v2v tuples; give 0 to {MOST_V2V}")
    rng = np.random.default_rng(seed)
    rows: dict[str, list[dict[str, float]]] = {"onboard": [], "v2v": [], "centre": [], "own": []}
    for number, count in enumerate(v2v):
        begin_ms = BEGIN_MS + number * ROUND_MS
        rows["own"].append({"timestamp": begin_ms + 1, **_own()})
        rows["v2v"] += _vehicles(rng, begin_ms, count)
        rows["centre"] += [
            {"timestamp": begin_ms + 1 + i, "segment": i, "speed": float(rng.uniform(0, 40))}
            for i in range(CENTRE)
        ]
        seen_ms = begin_ms + V2V_MS - ONBOARD
        rows["onboard"] += [
            {
                "timestamp": seen_ms + 1 + i,
                "object": i,
                **_motion(rng, approaching=bool(i % 2)),
            }
            for i in range(ONBOARD)
        ]
    tables = {stream: _table(stream, found) for stream, found in rows.items()}
    return Rounds(tables=tables, length_ms=len(v2v) * ROUND_MS)


def _vehicles(rng: np.random.Generator, begin_ms: int, count: int) -> Iterator[dict[str, float]]:
    """Every second one approaches."""
    first_ms = begin_ms + V2V_MS - MOST_V2V + 1
    for i in range(count):
        motion = _motion(rng, approaching=i % 2 == 0)
        yield {"timestamp": first_ms + i, "sender": i, **motion}


def _motion(rng: np.random.Generator, *, approaching: bool) -> dict[str, float]:
    x, y, speed = (float(v) for v in rng.uniform([10, 10, 1], [100, 100, 20]))
    sign = -1.0 if approaching else 1.0
    return {"x": x, "y": y, "vx": sign * speed, "vy": sign * speed}


def _own() -> dict[str, float]:
    return {"x": 0.0, "y": 0.0, "vx": 0.0, "vy": 0.0}


_whole = ("object", "sender", "segment")

_columns = {
    "onboard": ("object", "x", "y", "vx", "vy"),
    "v2v": ("sender", "x", "y", "vx", "vy"),
    "centre": ("segment", "speed"),
    "own": ("x", "y", "vx", "vy"),
}


def _table(stream: str, rows: list[dict[str, float]]) -> pa.Table:
    fields = [pa.field("timestamp", pa.int64(), nullable=False)]
    fields += [
        pa.field(name, pa.int64() if name in _whole else pa.float64()) for name in _columns[stream]
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def main() -> None:
    """Write the example's recordings."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    rounds([15] * 50).write(folder)
    Console().print(f"50 rounds of the collision-warning example in {folder}")


if __name__ == "__main__":
    main()
