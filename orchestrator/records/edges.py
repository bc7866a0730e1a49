"""What a site is asked, before streams and outputs are applied that would enter and leave there."""

from __future__ import annotations

from orchestrator.records.assignments import SinkAssignment, SourceAssignment
from orchestrator.records.base import Record


class EdgeFault(Record, frozen=True, kw_only=True):
    """Why a source or a sink could not be opened."""

    stream: str
    option: str | None
    """Option of the driver that is to blame; None: no single one."""
    value: str | None
    problem: str
    remedy: str


class EdgeCheck(Record, frozen=True, kw_only=True):
    """`/checks/<name>` (ephemeral, of whoever applies): sources and sinks to be looked at."""

    site: str
    sources: tuple[SourceAssignment, ...] = ()
    sinks: tuple[SinkAssignment, ...] = ()
    generations: dict[str, int] = {}
    """Stream → the newest generation of what its sink has kept, of sinks with a `life`."""
    is_done: bool = False
    """Whether the site has looked at all of them, or found one that is no good."""
    fault: EdgeFault | None = None
