"""A small query with all that can go wrong in it: two sources, a join, windows, a count.

Readings of `west` are joined with the last three seconds of `east`'s, and pairs are counted over
five seconds. `expected` works the answer out without anything of the product.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.manifest import Manifests, load
from orchestrator.simulation.world.scenario import ScenarioOutcome

BEGIN_MS = 1_700_000_000_000
INTERVAL_MS = 100
SETTLE_S = 6.0
"""Virtual time after which replicas are placed as after any longer time."""
FRAGMENTS = ("strong", "pairs", "pair_counts")
NODES = ("n1", "n2", "n3", "n4")
SITES = ("west-site", "east-site", "exit")

STATEMENTS = """
  REGISTER QUERY strong RSTREAM(SELECT key, value * 2 AS twice FROM west [NOW] WHERE value >= 20);
  REGISTER QUERY pairs RSTREAM(
    SELECT s.key AS key, s.twice AS twice, e.value AS value
    FROM strong [NOW] AS s, east [RANGE 3 SECONDS] AS e WHERE s.key = e.key);
  REGISTER QUERY pair_counts ISTREAM(SELECT count(*) AS pairs FROM pairs [RANGE 5 SECONDS]);
"""

Readings = list[tuple[int, int, int]]
"""(timestamp ms, key, value), in order."""

Rows = list[tuple[int, ...]]


def readings(rng: np.random.Generator, seconds: int, every_ms: float) -> Readings:
    """Readings at random times, some at the same one, none in the last second."""
    count = round((seconds - 1) * 1000 / every_ms)
    times = BEGIN_MS + 10 * np.sort(rng.integers(0, (seconds - 1) * 100, count))
    keys, values = rng.integers(0, 12, count), rng.integers(0, 100, count)
    return list(zip(times.tolist(), keys.tolist(), values.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Input:
    """Recordings of both streams, and how long they are."""

    west: Readings
    east: Readings
    seconds: int

    @staticmethod
    def random(seed: int, seconds: int, every_ms: float = 60.0) -> Input:
        """Recordings of so many seconds."""
        rng = np.random.default_rng(seed)
        west, east = (readings(rng, seconds, every_ms) for _ in range(2))
        return Input(west, east, seconds)

    @property
    def end_ms(self) -> int:
        """The last watermark."""
        return BEGIN_MS + self.seconds * 1000

    def manifests(
        self, folder: Path, *, repeat: bool = False, standby: str = "active"
    ) -> Manifests:
        """Write recordings and manifests, and read the latter."""
        return load([self.write(folder, repeat=repeat, standby=standby)])

    def write(self, folder: Path, *, repeat: bool = False, standby: str = "active") -> Path:
        """A folder with recordings, a table of latencies and a manifest of everything."""
        for name, rows in (("west", self.west), ("east", self.east)):
            table = pa.Table.from_pylist(
                [{"timestamp": at, "key": key, "value": value} for at, key, value in rows]
            )
            parquet.write_table(table, folder / f"{name}.parquet")
        (folder / "latency.csv").write_text(_latencies())
        manifest = folder / "pairs.yaml"
        manifest.write_text("---\n".join([_cluster(), *self._streams(repeat), _query(standby)]))
        return manifest

    def _streams(self, repeat: bool) -> list[str]:
        return [
            f"kind: Stream\nname: {name}\nsite: {name}-site\n"
            "columns: {key: int, value: int}\nrate: 1 KB/s\n"
            f'from: {{replay: {{path: {name}.parquet, begin: "{_iso(BEGIN_MS)}", '
            f'end: "{_iso(self.end_ms)}", '
            f"interval: {INTERVAL_MS} ms, repeat: {str(repeat).lower()}}}}}\n"
            for name in ("west", "east")
        ]

    def repeated(self, rounds: int) -> Input:
        """What a replay that repeats plays in some rounds."""
        shift_ms = self.seconds * 1000 + INTERVAL_MS
        west, east = (
            [(at + n * shift_ms, key, value) for n in range(rounds) for at, key, value in rows]
            for rows in (self.west, self.east)
        )
        return Input(west, east, (self.seconds + 1) * rounds)

    def expected(self) -> Mapping[str, Rows]:
        """The answer, tuple by tuple: (timestamp, columns…), sorted."""
        of_key = defaultdict[int, list[tuple[int, int]]](list)
        for at, key, value in self.east:
            of_key[key].append((at, value))
        pairs = sorted(
            (at, key, 2 * value, other)
            for at, key, value in self.west
            if value >= 20
            for _, other in _within(of_key[key], at - 3000, at)
        )
        steps = Counter[int]()
        for at, *_ in pairs:
            steps[at] += 1
            steps[at + 5000] -= 1
        count, counts = 0, Rows()
        for at, step in sorted(steps.items()):
            count += step
            if step and at <= self.end_ms:
                counts.append((at, count))
        return {"pairs": [*pairs], "pair_counts": counts}


def _within(readings: list[tuple[int, int]], after: int, until: int) -> list[tuple[int, int]]:
    """Those, in order, whose timestamps are greater than one and no greater than another.

    A repeated recording has too many to look at all of them for each reading of the other stream.
    """
    first, end = (bisect_right(readings, bound, key=itemgetter(0)) for bound in (after, until))
    return readings[first:end]


def answer(delivered: Delivered) -> Rows:
    """What was delivered, in the form of what is expected."""
    rows = delivered.rows.to_pylist()
    numbering = (GENERATION, SEQUENCE)
    return sorted(
        tuple(value for name, value in row.items() if name not in numbering) for row in rows
    )


def assert_exact(played: ScenarioOutcome, recording: Input) -> None:
    """The outputs have exactly what the answer is, each tuple once."""
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _latencies() -> str:
    """Round trips, ms: places on a line, with some way from one to the next."""
    places = [*NODES, *SITES]
    rows = [
        ",".join([a, *("" if a == b else str(6 + 2 * abs(i - j)) for j, b in enumerate(places))])
        for i, a in enumerate(places)
    ]
    return "\n".join([",".join(["", *places]), *rows]) + "\n"


def _cluster() -> str:
    nodes = ", ".join(f"{{name: {name}, region: {name}}}" for name in NODES)
    sites = ", ".join(f"{{name: {name}, region: {name}}}" for name in SITES)
    return (
        f"kind: Cluster\nname: pairs\nnodes: [{nodes}]\nsites: [{sites}]\nlatencies: latency.csv\n"
    )


def _query(standby: str) -> str:
    outputs = "{pairs: exit, pair_counts: exit}"
    return (
        "kind: Query\nname: pairing\ndeadline: 300 ms\nrecovery: 300 ms\n"
        f"standby: {standby}\noutputs: {outputs}\nstatements: |\n{STATEMENTS.lstrip(chr(10))}"
    )
