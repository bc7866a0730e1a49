"""What every way to evaluate a program has in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from streams.plan.program import Program
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP
from streams.vectors.state import Stateful


class Pass(NamedTuple):
    """Complete timestamp groups that are evaluated at once.

    Attributes
    ----------
    taken
        Input → the tuples since the last pass; None for none.
    first_ids
        Input → the identity of the first of them: how many came before.
    until_ms
        The watermark: all inputs are complete up to it.
    """

    taken: Mapping[str, pa.RecordBatch | None]
    first_ids: Mapping[str, int]
    until_ms: int

    @property
    def rows(self) -> int:
        """Number of tuples."""
        return sum(rows.num_rows for rows in self.taken.values() if rows is not None)

    @property
    def size_bytes(self) -> int:
        """Memory of the tuples."""
        return sum(rows.nbytes for rows in self.taken.values() if rows is not None)

    @property
    def last_ms(self) -> int:
        """The last timestamp that has tuples."""
        ends = (rows.column(0)[-1].as_py() for rows in self.taken.values() if rows is not None)
        return max(ends, default=NO_WATERMARK)

    def without(self, streams: Sequence[str]) -> Pass:
        """The same without the tuples of some inputs."""
        return self._replace(taken={**self.taken, **dict.fromkeys(streams)})

    def parts(self, after_ms: int) -> tuple[Pass, Pass]:
        """The time before the tuples, if there is any, and the rest; else, halves.

        Parameters
        ----------
        after_ms
            Up to where all is evaluated; at least two milliseconds before the end.
        """
        middle_ms = (after_ms + self.until_ms) // 2
        first_ms = min(
            (
                int(rows.column(TIMESTAMP)[0].as_py())
                for rows in self.taken.values()
                if rows is not None
            ),
            default=middle_ms + 1,
        )
        return self.split(first_ms - 1 if after_ms < first_ms - 1 else middle_ms)

    def split(self, at_ms: int) -> tuple[Pass, Pass]:
        """The tuples up to a timestamp before the watermark, and the rest."""
        times = {
            stream: rows.column(TIMESTAMP).to_numpy(zero_copy_only=False)
            for stream, rows in self.taken.items()
            if rows is not None
        }
        before, after = dict(self.taken), dict(self.taken)
        ids_after = dict(self.first_ids)
        for stream, timestamps in times.items():
            rows, cut = self.taken[stream], int(timestamps.searchsorted(at_ms, side="right"))
            assert rows is not None
            before[stream] = rows.slice(0, cut) if cut else None
            after[stream] = rows.slice(cut) if cut < rows.num_rows else None
            ids_after[stream] += cut
        return Pass(before, self.first_ids, at_ms), Pass(after, ids_after, self.until_ms)


class Evaluation(Protocol):
    """A way to evaluate a program, with its state.

    All ways give the same rows in the same order, however the input is cut into passes.
    `streams.plan.choice` says which one a program has. `Skipping` and `RejectedTuples` are around
    one.
    """

    def run(self, given: Pass) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark, and return the rows that come out.

        Rows have the schema of the program's output; timestamps never fall, and none is past the
        watermark. If it raises, the state is broken.
        """
        ...

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name: the same ones, in one order, for a program."""
        ...


@runtime_checkable
class Showing(Protocol):
    """An evaluation whose state says more than its output shows: what it shows may change."""

    def show(self, program: Program, schema: pa.Schema) -> None:
        """Go on with the same state for another SELECT list, HAVING or TOP.

        Parameters
        ----------
        program
            Differs from the present one in nothing else (`streams.plan.revision.why_anew`).
        schema
            Of its output.
        """
        ...
