"""The coordinators of a simulated cluster: candidates for leader, as processes that can end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.clocks import CoordinatorClock
from orchestrator.control.process import Coordination
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import StoreError


class Candidates:
    """Those that stand for election; the first one leads.

    Parameters
    ----------
    count
        How many stand at first.
    settings
        Of their decisions.
    clock
        Makes the clock of each, which else goes by the world's.
    """

    def __init__(
        self,
        world: World,
        count: int,
        settings: DecisionSettings | None = None,
        clock: Callable[[], CoordinatorClock] | None = None,
    ) -> None:
        self._world = world
        self._settings = settings
        self._clock = clock
        self._standing: dict[str, tuple[MemoryStore, Coordination]] = {}
        self._stood = 0
        for _ in range(count):
            self.stand()

    @property
    def names(self) -> Sequence[str]:
        """Names of the candidates, the oldest first."""
        return tuple(self._standing)

    @property
    def leading(self) -> Sequence[str]:
        """Names of those that lead, as far as they know."""
        return [name for name, (_, each) in self._standing.items() if each.election.leads]

    @property
    def is_led(self) -> bool:
        """Whether somebody leads who reaches the store."""
        return any(not self._standing[name][0].unreachable for name in self.leading)

    def stand(self) -> None:
        """Have another one stand for election."""
        name = f"candidate {self._stood}"
        self._stood += 1
        store = self._world.server.connect()
        clock = None if self._clock is None else self._clock()
        coordination = Coordination(store, name, self._settings, clock=clock)
        self._standing[name] = store, coordination
        self._world.lead(store, coordination, until=lambda: name not in self._standing)

    def kill(self, name: str) -> None:
        """End one as SIGKILL would."""
        store, _ = self._standing.pop(name)
        self._world.abandon(store)

    def kill_after(self, name: str, writes: int) -> None:
        """End one after so many writes more."""
        self._standing[name][0].writes_left = writes

    def terminate(self, name: str) -> None:
        """Have one end in order."""
        store, coordination = self._standing.pop(name)
        with suppress(StoreError):
            coordination.election.resign()
        store.close()
