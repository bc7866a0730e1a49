"""What a failure did to a stream, measured where the stream is delivered.

Everything is computed from what was delivered: when each answer came, and which sequence numbers.
Nothing the product says of itself enters here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from orchestrator.host.events import Deliver
from orchestrator.sinks.archive import (
    SEQUENCE,
    completed_schema,
    completed_timestamps,
    numbered,
    read,
)
from streams.chunk import TIMESTAMP
from topology.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Delivered:
    """All that one sink was delivered of one stream.

    Attributes
    ----------
    answers
        As `orchestrator.sinks.archive` keeps them.
    rows
        Tuples with their sequence numbers.
    """

    completed_timestamps: pa.Table
    rows: pa.Table

    @staticmethod
    def from_archive(folder: Path, stream: str) -> Delivered:
        """What a site has kept so far."""
        return Delivered(read(folder, f"{stream}.completed"), read(folder, f"{stream}.rows"))

    @staticmethod
    def from_deliveries(deliveries: Sequence[Deliver], rows_schema: pa.Schema) -> Delivered:
        """What an observer was delivered."""
        schema = pa.schema([pa.field(SEQUENCE, pa.int64(), nullable=False), *rows_schema])
        if not deliveries:
            return Delivered(completed_schema.empty_table(), schema.empty_table())
        return Delivered(
            pa.Table.from_batches([completed_timestamps(deliveries)], schema=completed_schema),
            pa.Table.from_batches([numbered(deliveries)], schema=schema),
        )

    def completed_column(self, name: str) -> IntArray:
        """One column of the answers, shape (n,)."""
        return np.asarray(self.completed_timestamps[name].to_numpy(), dtype=np.int64)

    @property
    def latencies_ms(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """From origin to arrival, of every answer, shape (n,)."""
        return (
            self.completed_column("arrived_us") - self.completed_column("ingestion_time_us")
        ) / 1000.0

    @property
    def row_latencies_ms(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of every tuple, that of the answer that it came with, shape (rows,)."""
        timestamps = np.asarray(self.rows[TIMESTAMP].to_numpy(), dtype=np.int64)
        return self.latencies_ms[np.searchsorted(self.completed_column("watermark_ms"), timestamps)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFaults:
    """What the sequence numbers tell."""

    lost: int
    repeated: int


def sequence_faults(delivered: Delivered) -> SequenceFaults:
    """Tuples missing between the first and the last delivered, and tuples delivered again.

    What the sink itself reports as lost is counted too: it lies before a tuple that may never
    have come.
    """
    numbers = np.asarray(delivered.rows[SEQUENCE].to_numpy(), dtype=np.int64)
    reported = int(delivered.completed_column("lost").sum())
    if len(numbers) == 0:
        return SequenceFaults(lost=reported, repeated=0)
    distinct = len(np.unique(numbers))
    span = int(numbers.max() - numbers.min()) + 1
    return SequenceFaults(lost=max(span - distinct, reported), repeated=len(numbers) - distinct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The longest time in which no answer came.

    Attributes
    ----------
    gap_ms
        Its length.
    ended_us
        When the next answer came, cluster clock.
    """

    gap_ms: float
    ended_us: int


def longest_silence(arrived_us: IntArray, begin_us: int, end_us: int) -> Silence | None:
    """The longest pause between arrivals that touches [begin, end]; None without two arrivals.

    Parameters
    ----------
    arrived_us
        Arrival times of answers, never falling, shape (n,).
    """
    first = max(int(np.searchsorted(arrived_us, begin_us, side="right")) - 1, 0)
    last = int(np.searchsorted(arrived_us, end_us, side="left"))
    touched = arrived_us[first : last + 1]
    if len(touched) < 2:
        return None
    gaps = np.diff(touched)
    longest = int(np.argmax(gaps))
    return Silence(gap_ms=float(gaps[longest]) / 1000, ended_us=int(touched[longest + 1]))
