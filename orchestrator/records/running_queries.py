"""What was decided about a query when it was applied: how its statements run, and what trials
found.

It is no part of what the owner wrote (`QueryRecord`), and a query that runs keeps it.
"""

from __future__ import annotations

from enum import Enum

from orchestrator.records.base import Record


class Tried(Record, frozen=True, kw_only=True):
    """Behaviour of a fragment whose statement was tried out before it ran: what counts for figures
    that its owner does not give."""

    selectivity: float
    """Bytes out per byte in."""
    fixed_us: float
    """Processor time of an evaluation, whatever its tuples …"""
    per_tuple_us: float
    """… and of each tuple that it takes in, on processors of `speed`."""
    speed: float = 1.0
    """How fast processors were (`HostLoad.speed`)."""
    row_bytes: float | None = None
    """Width of a row that it emits, if its texts are longer than plans take texts to be."""


class RewriteKind(Enum):
    """Why a statement may run in another way than it was written."""

    SPLIT = "split"
    """It is split into partial and final ones (`streams.plan.partial`)."""
    SHARED = "shared"
    """Another query computes its rows, and it forwards them (`streams.plan.sharing`)."""


class Rewrite(Record, frozen=True, kw_only=True):
    """What was decided of a statement that may run in another way."""

    kind: RewriteKind
    fragment: str
    """Whose statement it is."""
    why: str
    statements: tuple[str, ...] = ()
    """What runs in its place, each a fragment; none: it runs as it was written. They are kept as
    they were written when the query was applied, whatever would be written today."""
    without: tuple[str, ...] = ()
    """Fragments that are not made any more, since only this one's statement as written reads them.
    """

    @property
    def made(self) -> bool:
        """Whether anything is rewritten."""
        return bool(self.statements)

    @property
    def panes(self) -> tuple[str, ...]:
        """Of a split, the statements that aggregate panes; after them come their union, if they are
        several, and the final one."""
        return self.statements[: -2 if self.without else -1]


class RunningQueryRecord(Record, frozen=True, kw_only=True):
    """`/running-queries/<name>`: how a query runs, decided when it was applied."""

    name: str
    trials: dict[str, Tried] = {}
    """By fragment."""
    rewrites: tuple[Rewrite, ...] = ()
    change: int = 0
    """Number of the last change in place, issued by the store; 0: there was none."""
    savepoint: str = ""
    """The savepoint that it has begun from; empty: none."""
    began_us: int | None = None
    """When it began from a savepoint, cluster clock, µs; None: it did not."""
    life: int | None = None
    """What its sinks know it by, if it goes on where a deleted query was; None: the store's number
    of its creation."""

    def rewrite(self, kind: RewriteKind, fragment: str) -> Rewrite | None:
        """The decision of a kind on a statement."""
        return next((r for r in self.rewrites if (r.kind, r.fragment) == (kind, fragment)), None)
