"""Which process has the maintenance slot, and which ones wait for it."""

from __future__ import annotations

from orchestrator.results.result import Result


class TurnStatus(Result, frozen=True, kw_only=True):
    """A process that was told to end, and waits for its turn.

    Attributes
    ----------
    owner
        An application or a site.
    nodes
        Whose hosts end with it.
    since_us, until_us
        When it was told, and when it ends at the latest, cluster clock, µs.
    """

    owner: str
    nodes: tuple[str, ...]
    since_us: int
    until_us: int


class SlotStatus(Result, frozen=True, kw_only=True):
    """The process whose turn it is.

    Attributes
    ----------
    state
        `leaves`, `may end`, or that its successor is awaited.
    since_us
        Since when it has the slot, cluster clock, µs.
    stays
        What ends with it, a fragment or a stream → why it could not go elsewhere.
    until_us
        When the slot is given to the next one although its successor has not come; null: the
        process lives.
    """

    owner: str
    nodes: tuple[str, ...]
    state: str
    since_us: int
    stays: dict[str, str]
    until_us: int | None = None


class MaintenanceDocument(Result, frozen=True, kw_only=True):
    """The slot, null if nobody has it, and those that wait, in order."""

    slot: SlotStatus | None
    waiting: tuple[TurnStatus, ...]
