"""The hands of a drill in the simulated world, and how processes there fail when it asks them to.

Records ask simulated hosts, drivers and coordinators as they ask real ones (`StrikeLink`); only
what a fault does to a process is simulated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.hands import Hands
from orchestrator.records import StrikeKind, StrikeRecord
from orchestrator.store.protocol import STRIKES, Store, StoreError
from orchestrator.store.strikes import StrikeLink, StrikeVoid

if TYPE_CHECKING:
    from orchestrator.simulation.world.scenario import Scenario
    from orchestrator.simulation.world.world import World

TOLD_US = 30_000
"""From a drill's record to the process that it asks."""


@dataclass(frozen=True, slots=True)
class StruckSimulated:
    """A simulated process that can fail on purpose.

    Attributes
    ----------
    ways
        Kind → what it does, given how long it lasts, µs.
    """

    ways: dict[StrikeKind, Callable[[int], None]]

    @property
    def kinds(self) -> frozenset[StrikeKind]:
        """The ways in which it can fail."""
        return frozenset(self.ways)

    def strike(
        self, asked: StrikeRecord, begin: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Fail as asked."""
        with suppress(StrikeVoid):
            begin()
            self.ways[asked.kind](asked.lasts_us)

    def relent(self) -> None:
        """Nobody ends a simulated fault early: no output's silence ends a drill there."""


def obey(
    world: World,
    store: Store,
    name: str,
    life: Callable[[], str | None],
    ways: dict[StrikeKind, Callable[[int], None]],
) -> None:
    """Have a simulated process obey the records of drills from now on."""
    link = StrikeLink(store, name, life, lambda: world.now_us, StruckSimulated(ways), lead_us=0)

    def look() -> None:
        # After an outage the store tells again.
        with suppress(StoreError):
            link.look()

    store.watch(STRIKES.key(name), lambda: world.at(world.now_us + TOLD_US, look))


@dataclass(frozen=True, slots=True)
class SimulatedProcess:
    """A server of the simulated store; another one takes its place when it has ended.

    Attributes
    ----------
    name
        Unlike those of its predecessors and successors.
    """

    name: str
    terminate: Callable[[], None] = field(compare=False)
    kill: Callable[[], None] = field(compare=False)


class SimulatedHands(Hands):
    """While time passes here, the world's does."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def now_us(self, view: ClusterView) -> int:
        """The world's clock, which is the cluster's: all hosts share a machine."""
        return self._scenario.world.now_us

    def rest(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._scenario.run_for(seconds)

    def hold(self, seconds: float, breach: threading.Event) -> None:
        """Let virtual time pass; nobody suffers from a breach."""
        self._scenario.run_for(seconds)

    def servers(self, cluster_pid: int) -> Sequence[SimulatedProcess]:
        """One server: the simulated store is no ensemble."""
        world = self._scenario.world
        if world.server.away:
            return []
        restart = self._scenario.restart_store
        return [SimulatedProcess(f"server {world.server.starts}", terminate=restart, kill=restart)]

    @contextmanager
    def store_stopped(self, cluster_pid: int, lasts_s: float, *, most: bool) -> Generator[None]:
        """Have the store not answer; afterwards it ends all sessions, as one stopped for long."""
        world = self._scenario.world
        world.server.go_away()
        try:
            yield
        finally:
            world.end_all_sessions()
