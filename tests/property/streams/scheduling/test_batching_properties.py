"""Results do not depend on how input is cut into batches: the same bits, whoever cuts how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from streams.scheduling.batching import HostFigures, TaskTime
from streams.vectors.chunk import Chunk
from tests.quiet_host import MS, QuietHost, fragment
from tests.streams_of_numbers import chunk

STATEMENT = (
    "REGISTER QUERY a ISTREAM(SELECT count(*) AS n, sum(number) AS number FROM s "
    "[RANGE 7 MILLISECONDS SLIDE 3 MILLISECONDS]);"
)


@dataclass
class RandomBatches:
    """Any rest, and any number of timestamp groups, each time anew."""

    rng: np.random.Generator

    @property
    def groups(self) -> int:
        """One to eight."""
        return int(self.rng.integers(1, 9))

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """Up to seven units."""
        rest_us = int(self.rng.integers(0, 6)) * host.batch_us
        return rest_us, rest_us + int(self.rng.integers(0, 3)) * host.batch_us

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """It never does."""


class ListeningHost(QuietHost):
    """Keeps what its fragment emits."""

    def arrive(self, stream: str, part: Chunk) -> None:
        """A chunk, from outside or of the fragment itself."""
        if stream == "a":
            self.__dict__.setdefault("emitted", []).append(part)
        super().arrive(stream, part)


def emitted(counts: Sequence[int], gaps_ms: Sequence[int], seed: int) -> tuple[pa.Table, list[int]]:
    """Rows and watermarks of a replica whose input comes a timestamp at a time."""
    host = ListeningHost(
        structs.replace(fragment("a"), statement=STATEMENT, batching="bts-1"),
        batch_ms=10,
        policies=lambda _: RandomBatches(np.random.default_rng(seed)),
    )
    seq = 0
    for at, (count, gap_ms) in enumerate(zip(counts, gaps_ms, strict=True)):
        host.arrive("s", chunk(seq, [(at + 1, count)]))
        seq += count
        host.now_us += gap_ms * MS
        host.steps()
    for _ in range(len(counts)):
        host.now_us += 100 * MS
        host.steps()
    assert not host.with_work
    parts: list[Chunk] = host.__dict__.get("emitted", [])
    tables = [pa.Table.from_batches([each.rows]) for each in parts]
    return pa.concat_tables(tables), [int(ms) for each in parts for ms in each.watermarks_ms]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 2**32), st.data())
def test_replicas_that_batch_at_random_emit_the_same_tuples_and_watermarks(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    gaps = st.lists(st.integers(0, 30), min_size=len(counts), max_size=len(counts))
    rows, watermarks_ms = emitted(counts, data.draw(gaps), seed)
    others, other_watermarks_ms = emitted(counts, data.draw(gaps), seed + 1)
    assert watermarks_ms == other_watermarks_ms
    assert rows.combine_chunks().equals(others.combine_chunks())
