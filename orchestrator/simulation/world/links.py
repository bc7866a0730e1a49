"""The network of the simulated world: connections that deliver in order, or not at all.

Each ordered pair of hosts has one connection at a time, as in `orchestrator.host.shell.transport`.
A connection has two lanes, and each delivers what it was given in order, one link delay later. On
the bulk lane messages take longer, so that others overtake them. Faults act on connections:

- `cut`: nothing passes in this direction until `mend`. A cut that *holds* keeps the messages and
  delivers them when it is mended, as TCP does; any other loses them.
- `break_connection`: the connection is replaced by a new one. What was under way is lost, comes
  late, or comes twice. Only then can a message overtake an older one of its lane.
- `slow_down`: the link delay is longer for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """What becomes of the messages that are under way when a connection breaks."""

    LOST = "lost"
    LATE = "late"
    """They arrive later, after messages of the next connection."""
    TWICE = "twice"
    """They arrive, and arrive again later."""


class Lane(Enum):
    """The two lanes of a connection (`orchestrator.host.shell.parts`)."""

    IN_ORDER = "in order"
    BULK = "bulk"


Carried = tuple[int, Callable[[], None], Lane]
"""A message: its link delay, what happens when it arrives, and its lane."""


def _none() -> dict[int, Carried]:
    return {}


@dataclass(slots=True)
class _Connection:
    """One lane of one life of the connection from one host to another."""

    under_way: dict[int, Carried] = field(default_factory=_none)
    """In the order in which they were sent."""
    last_due_us: int = 0
    fate: Fate | None = None
    """None while the connection stands."""
    late_us: int = 0


@dataclass(slots=True)
class _Cut:
    holds: bool
    kept: list[Carried] = field(default_factory=list[Carried])


class Links:
    """All connections of a world.

    Parameters
    ----------
    at
        Schedules an action at a time of the world's clock.
    now_us
        The world's clock.
    """

    def __init__(
        self, at: Callable[[int, Callable[[], None]], None], now_us: Callable[[], int]
    ) -> None:
        self._at = at
        self._now_us = now_us
        self._connections: dict[tuple[str, str, Lane], _Connection] = {}
        self._cuts: dict[tuple[str, str], _Cut] = {}
        self._sent = 0
        self._extra_us: dict[tuple[str, str], int] = {}

    def carry(
        self,
        here: str,
        there: str,
        delay_us: int,
        arrive: Callable[[], None],
        lane: Lane = Lane.IN_ORDER,
    ) -> None:
        """Have `arrive` called one link delay from now, unless the network prevents it."""
        cut = self._cuts.get((here, there))
        if cut is not None:
            if cut.holds:
                cut.kept.append((delay_us, arrive, lane))
            return
        connection = self._connections.get((here, there, lane))
        if connection is None:
            connection = self._connections[here, there, lane] = _Connection()
        due_us = self._now_us() + delay_us + self._extra_us.get((here, there), 0)
        connection.last_due_us = due_us = max(due_us, connection.last_due_us)
        self._sent = number = self._sent + 1
        connection.under_way[number] = delay_us, arrive, lane
        self._at(due_us, lambda: self._reach(here, there, connection, number))

    def reaches(self, here: str, there: str) -> bool:
        """Whether messages pass in this direction now."""
        return (here, there) not in self._cuts

    def delay_us(self, here: str, there: str, delay_us: int) -> int:
        """The link delay as it is now."""
        return delay_us + self._extra_us.get((here, there), 0)

    def cut(self, here: str, there: str, *, holds: bool = False) -> None:
        """Let nothing pass in one direction until `mend`."""
        if (here, there) in self._cuts:
            return
        cut = self._cuts[here, there] = _Cut(holds)
        for lane in Lane:
            connection = self._connections.get((here, there, lane))
            if holds and connection is not None:
                cut.kept += connection.under_way.values()
                connection.under_way.clear()

    def mend(self, here: str, there: str) -> None:
        """Let messages pass again, first those that the cut held."""
        cut = self._cuts.pop((here, there), None)
        for delay_us, arrive, lane in cut.kept if cut is not None else ():
            self.carry(here, there, delay_us, arrive, lane)

    def break_connection(self, here: str, there: str, fate: Fate, late_us: int = 0) -> None:
        """Replace the connection in one direction by a new one."""
        for lane in Lane:
            connection = self._connections.pop((here, there, lane), None)
            if connection is not None:
                connection.fate, connection.late_us = fate, late_us

    def slow_down(self, here: str, there: str, extra_us: int) -> None:
        """Make the link delay longer; 0 ends it."""
        self._extra_us[here, there] = extra_us

    def _reach(self, here: str, there: str, connection: _Connection, number: int) -> None:
        carried = connection.under_way.pop(number, None)
        if carried is None:
            return
        _, arrive, _ = carried
        if connection.fate in (Fate.LATE, Fate.TWICE):
            self._at(self._now_us() + connection.late_us, arrive)
        if connection.fate in (None, Fate.TWICE) and self.reaches(here, there):
            arrive()
