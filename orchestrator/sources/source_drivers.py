"""All sources of one host, opened and asked in turn."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator import sources
from orchestrator.drivers import DriverError
from orchestrator.host.events import SourceEmitted
from orchestrator.records import SourceAssignment
from orchestrator.sources.driver import OpenSource


class SourceDrivers:
    """Streams that enter at one host.

    Parameters
    ----------
    batch_us
        Least time between two emissions of a stream; tuples that come due in between go together.
    """

    def __init__(self, batch_us: int = 0) -> None:
        self.problems: dict[str, str] = {}
        """Stream → why its source could not be opened."""
        self._batch_us = batch_us
        self._open: dict[str, OpenSource] = {}
        self._emitted_us: dict[str, int] = {}

    def feed(self, assigned: Iterable[SourceAssignment], now_us: int) -> list[SourceEmitted]:
        """Everything that has come due. A source is opened when its stream is first assigned.

        A source that cannot be opened is among the `problems` as long as its stream is assigned.
        """
        by_stream = {a.stream: a for a in assigned}
        for stream in self._open.keys() - by_stream.keys():
            del self._open[stream]
            self._emitted_us.pop(stream, None)
        for stream in self.problems.keys() - by_stream.keys():
            del self.problems[stream]
        emitted: list[SourceEmitted] = []
        for stream, a in by_stream.items():
            if a.source is not None and stream not in (*self._open, *self.problems):
                try:
                    self._open[stream] = sources.restore(a.source).open(a)
                except DriverError as error:
                    self.problems[stream] = f"{stream}: {error}"
            if a.start_at_us is None or stream not in self._open or self._rests(stream, now_us):
                continue
            due = self._open[stream].emit(a.start_at_us, now_us)
            if due is not None:
                self._emitted_us[stream] = now_us
                emitted.append(due)
        return emitted

    def _rests(self, stream: str, now_us: int) -> bool:
        last_us = self._emitted_us.get(stream)
        return last_us is not None and now_us < last_us + self._batch_us

    def next_due_us(self, assigned: Iterable[SourceAssignment]) -> int | None:
        """When `feed` will have something; None if nothing is in sight."""
        soonest: list[int] = []
        for a in assigned:
            if a.start_at_us is not None and a.stream in self._open:
                due_us = self._open[a.stream].next_due_us(a.start_at_us)
                if due_us is not None:
                    last_us = self._emitted_us.get(a.stream, due_us - self._batch_us)
                    soonest.append(max(due_us, last_us + self._batch_us))
        return min(soonest, default=None)
