"""A source that cannot resume: a recording, read as a sensor would measure it.

Its site may be killed. A *live* sensor then goes on with what is measured from now on. One that
*rewinds* begins again with everything since the streams' start, under new numbers.
"""

from __future__ import annotations

from orchestrator.edges import sources
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.driver import OpenSource, SourceContext, SourceDriver
from orchestrator.edges.sources.replay import OpenReplay, Recording, Replay
from orchestrator.records import SourceAssignment


class Sensor(SourceDriver, frozen=True, kw_only=True):
    """Options as those of a replay.

    Attributes
    ----------
    rewinds
        Whether it begins again when it is opened again.
    """

    path: str
    begin_ms: int
    end_ms: int
    interval_ms: int
    rewinds: bool

    @property
    def together_ms(self) -> float:
        """An interval."""
        return self.interval_ms

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSensor:
        """Read the file."""
        replay = Replay(
            path=self.path,
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            interval_ms=self.interval_ms,
        )
        recording = Recording.load(replay, assignment.columns, assignment.fields)
        opened = OpenReplay(assignment.stream, replay, recording)
        last_ms = int(recording.watermarks_ms[-1])
        return OpenSensor(opened, last_ms, rewinds=self.rewinds)


class OpenSensor(OpenSource):
    """Emits what is due, and reads nothing again."""

    def __init__(self, replay: OpenReplay, last_ms: int, *, rewinds: bool) -> None:
        self._replay = replay
        self._last_ms = last_ms
        self._waits = not rewinds

    def next_due_us(self, start_at_us: int) -> int | None:
        """When the next watermark is due."""
        return self._replay.next_due_us(start_at_us)

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """A piece of what is due by now."""
        if self._waits and now_us >= start_at_us:
            self._waits = False
            position = self._replay.due_position(start_at_us, now_us)
            # One that is opened after its end still says that this is the end.
            self._replay.seek(min(position.watermark_ms, self._last_ms - 1))
        return self._replay.emit(start_at_us, now_us)


sources.register("sensor", Sensor)
