"""A fragment at work: chunks of its inputs in, rows and marks of its output out.

An instant is evaluated once every input has a mark at or past it. The output has a mark at every
mark of any input up to there. Rows that a firing point emits between two marks are closed by the
next one.

*Origin* of an output mark m: over the inputs, the newest of the origins of their first marks at
or past m. Those are the marks whose arrival made m's evaluation possible, so latency counted from
the origin is the time that transport and processing took after the last thing that was needed.
For an instant that is a mark of every input it is the newest origin of the marks at that instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streams.chunk import Chunk, Position, stream_schema
from streams.input_queue import InputQueue
from streams.program import Program
from streams.state import (
    InputRecord,
    OperatorRecord,
    SnapshotError,
    SnapshotRecord,
    State,
    read_snapshot,
    write_snapshot,
)
from streams.stepwise import Stepwise
from streams.vectorised import Vectorised
from topology.arrays import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Output of consecutive closed instants, numbered by whoever sends it on.

    Attributes
    ----------
    rows
        With the output's schema; timestamps never fall and none is past the last mark.
    marks, ingestion_times_us
        As in `Chunk`.
    tuples_in
        Input tuples that were consumed.
    """

    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray
    tuples_in: int


class FragmentEngine:
    """Evaluates one program. The same inputs give the same rows, however they are cut.

    Parameters
    ----------
    program
        What to run.

    Attributes
    ----------
    schema
        Of the output rows.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.schema = stream_schema(program.columns)
        self._queues: Mapping[str, InputQueue] = {
            stream: InputQueue(stream, stream_schema(program.input_columns[stream]))
            for stream in program.inputs
        }
        self._evaluation = self._new_evaluation()

    def _new_evaluation(self) -> Stepwise | Vectorised:
        if self._program.stateless:
            return Vectorised(self._program, self.schema)
        return Stepwise(self._program, self.schema)

    def offer(self, stream: str, chunk: Chunk) -> None:
        """Add the next chunk of an input.

        Raises
        ------
        ChunkError
            It does not continue the input.
        """
        self._queues[stream].offer(chunk)

    def skip_to(self, stream: str, next_seq: int) -> None:
        """Expect this tuple of an input next.

        For an input that is read from somewhere in its middle, that has a hole which nobody can
        fill, or whose producer began anew and numbers from 0 again.
        """
        self._queues[stream].skip_to(next_seq)

    @property
    def ready(self) -> bool:
        """Whether `advance` would evaluate anything: some instant is closed on every input."""
        frontier_ms = self.input_watermark_ms
        firsts = (queue.first_watermark_ms for queue in self._queues.values())
        return any(first is not None and first <= frontier_ms for first in firsts)

    def advance(self, limit: int, tuples: int | None = None) -> Evaluated | None:
        """Evaluate the next closed instants.

        Parameters
        ----------
        limit
            At most so many marks; at least 1.
        tuples
            At most so many tuples, but at least one mark; None: however many.

        Returns
        -------
        Evaluated or None
            None if nothing is closed.
        """
        if limit < 1:
            raise ValueError(f"cannot advance by {limit} instants; give 1 or more")
        watermarks_ms, ingestion_times_us = self._completed_watermarks_ms(limit)
        if not len(watermarks_ms):
            return None
        if tuples is not None and tuples < self.waiting:
            count = np.sum(
                [queue.count_until(watermarks_ms) for queue in self._queues.values()], axis=0
            )
            fitting = max(int(np.searchsorted(count, tuples, side="right")), 1)
            watermarks_ms, ingestion_times_us = (
                watermarks_ms[:fitting],
                ingestion_times_us[:fitting],
            )
        until_ms = int(watermarks_ms[-1])
        first_seqs = {name: queue.position.next_seq for name, queue in self._queues.items()}
        taken = {name: queue.take(until_ms) for name, queue in self._queues.items()}
        with np.errstate(all="ignore"):
            # Results that are no numbers are NULL; nothing to warn of.
            rows = self._evaluation.run(taken, first_seqs, until_ms)
        return Evaluated(
            rows=rows,
            watermarks_ms=watermarks_ms,
            ingestion_times_us=ingestion_times_us,
            tuples_in=sum(batch.num_rows for batch in taken.values() if batch is not None),
        )

    @property
    def input_watermark_ms(self) -> int:
        """The last instant that is closed on every input."""
        return min(queue.watermark_ms for queue in self._queues.values())

    @property
    def oldest_ingestion_time_us(self) -> int | None:
        """Origin of the first mark that was offered and not evaluated; None if there is none."""
        ingestion_times = [queue.first_ingestion_time_us for queue in self._queues.values()]
        return min(
            (ingestion_time for ingestion_time in ingestion_times if ingestion_time is not None),
            default=None,
        )

    @property
    def waiting(self) -> int:
        """Input tuples that were offered and not consumed."""
        return sum(queue.waiting for queue in self._queues.values())

    def _completed_watermarks_ms(self, limit: int) -> tuple[IntArray, IntArray]:
        """The first marks that can be evaluated, at most `limit`, and their origins.

        The first `limit` marks of all inputs together are among the first `limit` of each.
        """
        heads = [queue.head(limit) for queue in self._queues.values()]
        if len(heads) == 1:
            watermarks_ms, ingestion_times_us = heads[0]
            return watermarks_ms[:limit], ingestion_times_us[:limit]
        frontier_ms = self.input_watermark_ms
        closed = [
            watermarks_ms[: np.searchsorted(watermarks_ms, frontier_ms, side="right")]
            for watermarks_ms, _ in heads
        ]
        merged = np.unique(np.concatenate(closed))[:limit]
        if not len(merged):
            return merged, merged
        # Every input has a mark at or past the frontier, and a head that ends before a mark of
        # `merged` would have brought `limit` earlier ones: none of these runs over the end.
        firsts = [
            ingestion_times_us[np.searchsorted(watermarks_ms, merged)]
            for watermarks_ms, ingestion_times_us in heads
        ]
        return merged, np.maximum.reduce(firsts)

    def positions(self) -> dict[str, Position]:
        """Input → the cut up to which it has been evaluated."""
        return {stream: queue.position for stream, queue in self._queues.items()}

    def snapshot(self) -> bytes:
        """Everything that output after the present positions depends on.

        What was offered and not evaluated is left out; offer it again after `restore`, from
        `positions` on.
        """
        inputs = {
            stream: InputRecord(position.next_seq, position.watermark_ms)
            for stream, position in self.positions().items()
        }
        operators: dict[str, OperatorRecord] = {}
        for name, operator in self._evaluation.stateful():
            state = operator.save()
            operators[name] = OperatorRecord(dict(state.values), dict(state.frames))
        return write_snapshot(SnapshotRecord(self._program.text, inputs, operators))

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot of an engine with the same program.

        Raises
        ------
        SnapshotError
            It is damaged, of another format or of another statement; the engine is unchanged.
        """
        record = read_snapshot(data)
        if record.statement != self._program.text:
            raise SnapshotError(f"the snapshot is of another statement: {record.statement}")
        evaluation = self._new_evaluation()
        stateful = dict(evaluation.stateful())
        if set(record.inputs) != set(self._queues) or set(record.operators) != set(stateful):
            raise SnapshotError("the snapshot has other inputs or operators than the statement")
        try:
            for name, saved in record.operators.items():
                stateful[name].load(State(saved.values, saved.frames))
        except (KeyError, ValueError, TypeError) as failed:
            if isinstance(failed, SnapshotError):
                raise
            raise SnapshotError(f"the snapshot cannot be understood: {failed!r}") from failed
        self._evaluation = evaluation
        for stream, saved in record.inputs.items():
            self._queues[stream].restore(
                Position(next_seq=saved.next_seq, watermark_ms=saved.watermark_ms)
            )
