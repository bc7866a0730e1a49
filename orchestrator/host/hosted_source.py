"""A stream that enters at this host."""

from __future__ import annotations

from ha.output_log import OutputLog
from orchestrator.host.events import SourceEmitted
from orchestrator.records import SourceAssignment, SourceStatus
from streams.chunk import stream_schema
from streams.scheduling.shedder import Shedder, value_of


class HostedSource:
    """A `Producer` of tuples from outside. It has no peer replica.

    Parameters
    ----------
    assignment
        The stream, its columns and its load shedding.
    now_us
        When the host was assigned the stream; it identifies this life of the source.
    """

    accepts_subscribers = True
    feeds_subscribers = True

    def __init__(self, assignment: SourceAssignment, now_us: int) -> None:
        self.assignment = assignment
        self.stream = assignment.stream
        self.generation = self.epoch = now_us
        schema = stream_schema(assignment.columns)
        self.log = OutputLog(schema)
        self._shedder: Shedder | None = None
        self._shed = 0
        if (shed := assignment.shed) is not None:
            value = None if shed.value is None else value_of(shed.value, schema)
            self._shedder = Shedder(shed.tuples, round(shed.per_ms * 1000), value)

    def enter(self, emitted: SourceEmitted, now_us: int) -> None:
        """Number the tuples that the load shedder admits, and keep them in the output log.

        Shed tuples are never numbered, so consumers see no gap.
        """
        rows = emitted.rows
        if self._shedder is not None:
            admitted = self._shedder.admit(rows, now_us)
            rows = admitted.kept
            self._shed += admitted.dropped
        self.log.append(rows, emitted.watermarks_ms, emitted.ingestion_times_us)

    @property
    def status(self) -> SourceStatus:
        """Figures of the source for the host's record."""
        return SourceStatus(next_seq=self.log.end.next_seq, shed=self._shed)
