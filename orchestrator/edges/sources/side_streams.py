"""The source driver `side`: what did not enter a live stream, as a stream of its own.

A manifest may ask for `<stream>.late`, the tuples whose timestamps were complete when they came,
and for `<stream>.rejected`, whatever else was refused, with the reason. Queries read them like any
stream, and `vivace tail` shows them. Their timestamps are arrivals.

Both lie at the site of the stream that they stand beside. Late tuples are in the journal of their
stream before the client is told that they were late. A batch with a number is there once, also if
the client sends it again. A side stream holds nothing up: if its buffer is full because nobody
reads it, what is refused is only counted.
"""

from __future__ import annotations

from typing import Self

from orchestrator.documents.document import Section
from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.edges.sources.live.refused import REJECTED_COLUMNS, SideStream
from orchestrator.records import SourceAssignment, StreamRecord
from streams.vectors.reserved import EVENT_TIME, IN_LATE_STREAMS, taken

RATE_SHARE = 0.01
"""Of the stream's rate, for planning: few tuples are refused."""


class SideSource(LiveSource, frozen=True, kw_only=True):
    """What a live stream refuses.

    Attributes
    ----------
    of
        The stream.
    side
        Which part of it.
    """

    of: str
    side: SideStream

    @classmethod
    def read(cls, section: Section) -> Self:
        """No manifest names it."""
        section.of.refuse(
            "is no source of its own", "Write `late: true` or `rejected: true` in the stream's."
        )

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Begin to take in what the stream refuses from now on."""
        opened = self.input(assignment, context)
        context.side_streams.open(self.of, self.side, opened)
        opened.on_close(lambda: context.side_streams.close(self.of, self.side, opened))
        opened.start()
        return opened


def side_streams(stream: StreamRecord, source: LiveSource) -> list[tuple[StreamRecord, SideSource]]:
    """The side streams that a stream's source asks for, with their sources.

    Raises
    ------
    ValueError
        The stream has a column of a name that late tuples need.
    """
    for column in stream.columns if source.late else ():
        if (reason := taken(column, IN_LATE_STREAMS)) is not None:
            raise ValueError(f"the column {column} {reason}, which `late: true` adds: rename it")
    made: list[tuple[StreamRecord, SideSource]] = []
    for side, asked in ((SideStream.LATE, source.late), (SideStream.REJECTED, source.rejected)):
        if not asked:
            continue
        late = {**stream.columns, EVENT_TIME: "int"}
        record = StreamRecord(
            name=f"{stream.name}.{side.value}",
            site=stream.site,
            columns=late if side is SideStream.LATE else REJECTED_COLUMNS,
            rate_bytes_s=max(stream.rate_bytes_s * RATE_SHARE, 1.0),
            beside=stream.name,
        )
        driver = SideSource(
            of=stream.name,
            side=side,
            durable=source.durable,
            retain_bytes=source.retain_bytes,
            advance_ms=source.advance_ms,
        )
        made.append((record, driver))
    return made
