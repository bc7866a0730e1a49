"""What is kept of a stream from outside: a recording, or the journal of its site."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.driver import RecordedSource, SourceContext
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.edges.sources.live.live_source import JOURNALS
from orchestrator.errors import VivaceError
from orchestrator.folders import path_part
from orchestrator.records import Overdue, SourceAssignment, SourceSpec, StreamRecord
from streams.vectors.chunk import TIMESTAMP, Position, stream_schema

LAST_MS = 2**62
"""Later than all timestamps."""


class Unverifiable(VivaceError):
    """A query whose results cannot be computed again; says why."""


class Piece(Protocol):
    """Tuples that follow a position of a stream."""

    @property
    def rows(self) -> pa.RecordBatch:
        """With `stream_schema`'s columns."""
        ...

    @property
    def watermarks_ms(self) -> IntArray:
        """At least one; the last is where the piece ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInput:
    """A stream that can be read again.

    Attributes
    ----------
    retained
        What comes before is no longer kept.
    end_ms
        It is complete up to this timestamp; None: further than anything is asked for.
    position_at
        The cut after a watermark.
    piece
        What follows a position, up to a watermark; None: nothing.
    """

    stream: str
    schema: pa.Schema
    retained: Position
    end_ms: int | None
    position_at: Callable[[int], Position]
    piece: Callable[[Position, int], Piece | None]

    @property
    def is_whole(self) -> bool:
        """Whether it is kept from its beginning."""
        return self.retained == Position()

    @property
    def begin_ms(self) -> int | None:
        """The first watermark that is kept; None: there is none yet."""
        with _readable(self.stream):
            first = self.piece(self.retained, LAST_MS if self.end_ms is None else self.end_ms)
        return None if first is None else int(first.watermarks_ms[0])

    def tuples(self, from_ms: int | None, until_ms: int) -> int:
        """How many there are from a timestamp on, or from the beginning, up to another one."""
        with _readable(self.stream):
            return self.position_at(until_ms).next_seq - self._before(from_ms).next_seq

    def read(
        self,
        from_ms: int | None,
        until_ms: int,
        on_rows: Callable[[int], None] = lambda done: None,
    ) -> pa.Table:
        """The tuples from a timestamp on, or from the beginning, up to another one.

        Parameters
        ----------
        on_rows
            Told how many have been read.

        Raises
        ------
        Unverifiable
            They cannot be read again.
        """
        with _readable(self.stream):
            return self._read(from_ms, until_ms, on_rows)

    def _read(self, from_ms: int | None, until_ms: int, on_rows: Callable[[int], None]) -> pa.Table:
        if self.end_ms is not None and self.end_ms < until_ms:
            raise DriverError("its journal does not go as far as the results")
        parts: list[pa.RecordBatch] = []
        read, after = 0, self._before(from_ms)
        while after.watermark_ms < until_ms:
            if (piece := self.piece(after, until_ms)) is None:
                break
            parts.append(piece.rows)
            read += piece.rows.num_rows
            after = Position(
                next_seq=after.next_seq + piece.rows.num_rows,
                watermark_ms=int(piece.watermarks_ms[-1]),
            )
            on_rows(read)
        table = pa.Table.from_batches(parts, schema=self.schema).combine_chunks()
        within = int(np.searchsorted(table[TIMESTAMP].to_numpy(), until_ms, side="right"))
        return table.slice(0, within).combine_chunks()

    def _before(self, from_ms: int | None) -> Position:
        if from_ms is None:
            if not self.is_whole:
                raise DriverError("its journal no longer has the beginning: raise `retain`")
            return Position()
        return self.position_at(from_ms - 1)


@contextmanager
def _readable(stream: str) -> Generator[None]:
    """Say of which stream it is that something cannot be read."""
    try:
        yield
    except (DriverError, OSError) as error:
        raise Unverifiable(f"the input {stream} cannot be read again: {error}") from None


def kept_input(stream: StreamRecord, folder: Path) -> KeptInput:
    """What is kept of a stream from outside.

    Parameters
    ----------
    folder
        Of the cluster's archives, where sites have their journals.

    Raises
    ------
    Unverifiable
        It is not kept.
    """
    why = None
    if stream.source is None:
        why = "nothing ever enters it"
    elif not stream.resumes:
        why = f"what has entered is not kept: it has {_unkept(stream)}"
    if why is not None:
        raise Unverifiable(f"the input {stream.name} cannot be read again: {why}")
    assert stream.source is not None
    driver = restore(stream.source)
    with _readable(stream.name):
        if isinstance(driver, RecordedSource):
            return _recorded(stream, stream.source, driver)
        return _journaled(stream, folder)


def _unkept(stream: StreamRecord) -> str:
    """What a stream that cannot resume has in its manifest, so that no journal keeps its input."""
    if stream.shed is not None:
        return "a load shedder (`shed`)"
    if stream.overdue is Overdue.DROP:
        return "`overdue: drop`"
    durable = None if stream.source is None else stream.source.options.get("durable")
    return "a source that cannot be read again" if durable is None else f"`durable: {durable}`"


def _recorded(stream: StreamRecord, source: SourceSpec, driver: RecordedSource) -> KeptInput:
    assignment = SourceAssignment(
        stream=stream.name,
        columns=stream.columns,
        fields=stream.fields,
        source=source,
        start_at_us=0,
    )
    opened = driver.open(assignment, SourceContext())
    return KeptInput(
        stream=stream.name,
        schema=stream_schema(stream.columns),
        retained=Position(),
        end_ms=None,
        position_at=lambda at_ms: Position(
            next_seq=opened.position_at(at_ms).next_seq, watermark_ms=at_ms
        ),
        piece=lambda after, until_ms: opened.read(
            0, after, Position(next_seq=0, watermark_ms=until_ms)
        ),
    )


def _journaled(stream: StreamRecord, folder: Path) -> KeptInput:
    lives = folder / JOURNALS / path_part(stream.name)
    numbers = sorted(int(each.name) for each in lives.glob("*") if each.name.isdigit())
    if not numbers:
        raise DriverError(f"there is no journal in {lives}")
    schema = stream_schema(stream.columns)
    journal = Journal(lives / str(numbers[-1]), schema, read_only=True)
    return KeptInput(
        stream=stream.name,
        schema=schema,
        retained=journal.retained,
        end_ms=journal.end.watermark_ms,
        position_at=journal.position_at,
        piece=lambda after, until_ms: journal.read(after, journal.end),
    )
