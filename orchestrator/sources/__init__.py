"""Sources bring streams into a cluster; `driver` describes what one must do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.drivers import DriverError, Registry, options_of
from orchestrator.host.events import SourceEmitted
from orchestrator.records import SourceAssignment, SourceSpec, StreamRecord
from orchestrator.sources.driver import OpenSource, RecordedSource, SourceDriver

if TYPE_CHECKING:
    from orchestrator.manifest.document import Field

_registry = Registry(
    "vivace.sources", SourceDriver, {"replay": "orchestrator.sources.replay:Replay"}
)
register = _registry.register
preload = _registry.preload
restore = _registry.restore


def read(field: Field) -> SourceSpec:
    """The section `from` of a stream's manifest.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    return spec_of(*_registry.read(field))


def spec_of(name: str, driver: SourceDriver) -> SourceSpec:
    """A source as the store keeps it."""
    return SourceSpec(driver=name, options=options_of(driver), together_ms=driver.together_ms)


def recorded(stream: StreamRecord) -> RecordedSource | None:
    """The recording that a stream is played from; None if it has another source."""
    driver = restore(stream.source) if stream.source is not None else None
    return driver if isinstance(driver, RecordedSource) else None


def played(stream: StreamRecord, **options: Any) -> StreamRecord:
    """The stream with other options of its source, such as a stretch of its recording."""
    assert stream.source is not None, f"stream {stream.name} has no source"
    driver = msgspec.structs.replace(restore(stream.source), **options)
    return msgspec.structs.replace(stream, source=spec_of(stream.source.driver, driver))


class SourceDrivers:
    """All sources of one host, opened and asked in turn.

    Parameters
    ----------
    batch_us
        Least time between two emissions of a stream; tuples that come due in between go together.
    """

    def __init__(self, batch_us: int = 0) -> None:
        self.problems: dict[str, str] = {}
        """Stream → why its source could not be opened, or has stopped."""
        self._batch_us = batch_us
        self._open: dict[str, OpenSource] = {}
        self._emitted_us: dict[str, int] = {}

    def feed(self, assigned: Iterable[SourceAssignment], now_us: int) -> list[SourceEmitted]:
        """Everything that has come due. A source is opened when its stream is first assigned.

        A source that cannot be opened, or fails later, is among the `problems` as long as its
        stream is assigned. The other streams go on.
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
                    self._open[stream] = restore(a.source).open(a)
                except Exception as error:  # noqa: BLE001  A driver may fail in any way.
                    self._fail(stream, error)
            if a.start_at_us is None or stream not in self._open or self._rests(stream, now_us):
                continue
            try:
                due = self._open[stream].emit(a.start_at_us, now_us)
            except Exception as error:  # noqa: BLE001
                self._fail(stream, error)
                continue
            if due is not None:
                self._emitted_us[stream] = now_us
                emitted.append(due)
        return emitted

    def _fail(self, stream: str, error: Exception) -> None:
        """Close a source and say why."""
        self._open.pop(stream, None)
        self._emitted_us.pop(stream, None)
        kind = (
            "" if isinstance(error, DriverError) else f"the source failed: {type(error).__name__}: "
        )
        self.problems[stream] = f"{stream}: {kind}{error}"

    def _rests(self, stream: str, now_us: int) -> bool:
        last_us = self._emitted_us.get(stream)
        return last_us is not None and now_us < last_us + self._batch_us

    def next_due_us(self, assigned: Iterable[SourceAssignment]) -> int | None:
        """When `feed` will have something; None if nothing is in sight."""
        soonest: list[int] = []
        for a in assigned:
            if a.start_at_us is not None and a.stream in self._open:
                try:
                    due_us = self._open[a.stream].next_due_us(a.start_at_us)
                except Exception as error:  # noqa: BLE001
                    self._fail(a.stream, error)
                    continue
                if due_us is not None:
                    last_us = self._emitted_us.get(a.stream, due_us - self._batch_us)
                    soonest.append(max(due_us, last_us + self._batch_us))
        return min(soonest, default=None)
