"""Chunks of a stream that a host keeps once for all its readers that rest.

A task that rests although it has work does nothing with new chunks until its rest ends. The host
keeps these chunks once, in the stream's *backlog*. When a reader is evaluated, it takes all chunks
since the beginning of its rest as one. So a chunk costs a host the same, however many of its
readers rest.

A reader that waits has received everything up to the end of the backlog, in the sense of the
protocol: the host has it, and the reader's cursor will accept it. Only consecutive chunks of one
generation wait. Before anything else happens to the stream or to a reader, such as a gap or a new
generation, the reader takes its chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from ha.messages import Data
from streams.vectors.chunk import Position, joined


@dataclass(slots=True)
class Backlog:
    """The chunks, and the readers that have yet to take them.

    Attributes
    ----------
    size_bytes
        The memory of the chunks.
    """

    size_bytes: int = 0
    _arrived: deque[Data] = field(default_factory=deque[Data])
    _first: int = 0
    """Number of the first chunk that is kept; chunks are numbered as they come."""
    _waiting: dict[str, tuple[int, bool]] = field(default_factory=dict[str, tuple[int, bool]])
    """Reader → number of the first chunk that it has not taken, and whether it is idle."""
    _last: Data | None = None
    """The last data that the waiting readers have received."""
    _joined: dict[int, Data] = field(default_factory=dict[int, Data])

    @property
    def readers(self) -> tuple[str, ...]:
        """Those that wait."""
        return tuple(self._waiting)

    def holds(self, reader: str) -> bool:
        """Whether a reader waits."""
        return reader in self._waiting

    def end_for(self, reader: str) -> Position | None:
        """Up to where the host has the stream for a reader that waits; None for any other."""
        return self._last.chunk.end if self._last is not None and reader in self._waiting else None

    def wait(self, reader: str, data: Data, *, idle: bool) -> None:
        """Have a reader wait that has just received data, as have all others that wait.

        Parameters
        ----------
        idle
            Whether nothing but watermarks waits for its evaluation. Tuples would end its rest.
        """
        self._last = data
        self._waiting[reader] = self._first + len(self._arrived), idle

    def woken_by(self, data: Data, most_bytes: int) -> tuple[str, ...]:
        """Readers that must take what there is before data is received: they cannot wait for it.

        Parameters
        ----------
        most_bytes
            The most that is kept.
        """
        if not self._waiting or not self._follows(data):
            return self.readers
        if self.size_bytes + data.chunk.size_bytes > most_bytes:
            return self.readers
        if not data.chunk.rows.num_rows:
            return ()
        return tuple(reader for reader, (_, idle) in self._waiting.items() if idle)

    def _follows(self, data: Data) -> bool:
        last, chunk = self._last, data.chunk
        assert last is not None, "a reader that waits has received something"
        return (
            data.generation == last.generation
            and data.epoch == last.epoch
            and data.columns == last.columns
            and chunk.first_seq == last.chunk.next_seq
            and chunk.earliest_ms > last.chunk.watermark_ms
        )

    def add(self, data: Data) -> None:
        """Keep data for the readers that wait."""
        if self._waiting:
            self._last = data
            self._arrived.append(data)
            self.size_bytes += data.chunk.size_bytes
            self._joined.clear()

    def take(self, reader: str) -> Data | None:
        """The chunks of a reader as one; None if there are none. It waits no more."""
        if reader not in self._waiting:
            return None
        begins, _ = self._waiting.pop(reader)
        fresh = self._from(begins)
        if begins == self._first:
            # Else another reader has yet to take the first chunk.
            self._drop_taken()
        return fresh

    def leave(self, readers: Iterable[str]) -> None:
        """Have readers wait no more that have no use for their chunks."""
        for reader in readers:
            self._waiting.pop(reader, None)
        self._drop_taken()

    def _from(self, begins: int) -> Data | None:
        """The chunks from a number on, as one. Tasks often end their rests together."""
        skipped = begins - self._first
        if skipped == len(self._arrived):
            return None
        if (found := self._joined.get(begins)) is None:
            waiting = [*self._arrived][skipped:]
            departs = [data.departs_ms for data in waiting if data.departs_ms is not None]
            found = msgspec.structs.replace(
                waiting[-1],
                chunk=joined([data.chunk for data in waiting]),
                departs_ms=min(departs, default=None),
            )
            self._joined[begins] = found
        return found

    def _drop_taken(self) -> None:
        ends = self._first + len(self._arrived)
        needed = min((begins for begins, _ in self._waiting.values()), default=ends)
        while self._first < needed:
            self.size_bytes -= self._arrived.popleft().chunk.size_bytes
            self._joined.pop(self._first, None)
            self._first += 1
