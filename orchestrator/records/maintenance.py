"""Who leaves, and whose turn it is to: processes that are told to end do so one after the other."""

from __future__ import annotations

from orchestrator.records.base import Record


class Leaving(Record, frozen=True, kw_only=True):
    """A host is about to end: nothing new is placed there, and what runs there goes elsewhere."""

    since_us: int
    """Cluster clock, µs."""
    until_us: int
    """When it ends at the latest, cluster clock, µs."""


class TurnRecord(Record, frozen=True, kw_only=True):
    """`/turns/<name>` (ephemeral): a process was told to end, and waits until it may."""

    owner: str
    """What the process is, for people: an application or a site."""
    nodes: tuple[str, ...]
    """Whose hosts end with it."""
    lives: dict[str, str] = {}
    """Node → the incarnation of its host that ends with the process, as that says itself: its turn
    may outlast it by seconds, and its successor's hosts may be there by then."""
    since_us: int
    """When it was told, cluster clock, µs."""
    until_us: int
    """When it ends at the latest, its turn or not, cluster clock, µs."""


class SlotRecord(Record, frozen=True, kw_only=True):
    """`/maintenance/slot`: the one process that ends or is being replaced at present.

    The leader creates it, and deletes it once the process has a successor and everything is
    protected again. The turn of the process tells whether it lives.
    """

    turn: str
    """The name of its turn."""
    owner: str
    nodes: tuple[str, ...]
    lives: dict[str, str] = {}
    """Node → the incarnation of its last host that ends with the process, by its turn: that host
    leaves."""
    since_us: int
    """Cluster clock, µs."""
    may_end: bool = False
    """Whether nothing of its hosts is left that could go elsewhere: the process need not wait."""
    stays: dict[str, str] = {}
    """What ends with it, as a fragment or a stream → why it could not go elsewhere."""
    ended_us: int | None = None
    """When the leader found that the process had ended, cluster clock, µs."""

    @property
    def state(self) -> str:
        """How far it is, for people."""
        if self.ended_us is not None:
            return "has ended; its successor is awaited"
        return "may end" if self.may_end else "leaves"
