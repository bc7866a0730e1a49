"""The coordinators of a simulated cluster: candidates for leader, as processes that can end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event

from orchestrator.checkpoints.savepoint import Savepoint
from orchestrator.control.answering import Responder
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.host_trials import HostTrials
from orchestrator.control.observe.clocks import CoordinatorClock
from orchestrator.control.process import Coordination
from orchestrator.control.savepoint_work import SavepointWork
from orchestrator.records.versions import Versions, this_version
from orchestrator.simulation.world.memory_checkpoints import MemorySavepoint
from orchestrator.simulation.world.memory_store import MemoryStore, OutOfWrites
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import SAVEPOINTS, StoreError

SAVES_US = 90_000
"""From one file of a savepoint that is copied to the next one."""


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
    be
        Makes the session of each, and says which version it is of; None: of this one.

    Attributes
    ----------
    on_stood
        Told of each that stands from now on.
    """

    def __init__(
        self,
        world: World,
        count: int,
        settings: DecisionSettings | None = None,
        clock: Callable[[], CoordinatorClock] | None = None,
        be: Callable[[], tuple[MemoryStore, Versions]] | None = None,
    ) -> None:
        self._world = world
        self._settings = settings
        self._clock = clock
        self._be = be or (lambda: (world.server.connect(), this_version()))
        self._standing: dict[str, tuple[MemoryStore, Coordination]] = {}
        self._answering: set[Responder] = set()
        self._stood = 0
        self.on_stood: Callable[[str], None] = lambda _: None
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
        store, versions = self._be()
        coordination = Coordination(
            store,
            name,
            self._settings,
            clock=None if self._clock is None else self._clock(),
            trials=HostTrials(store, lambda: self._world.now_us, self._wait),
            on_request=lambda: self._have_answered(name),
            versions=versions,
            open_savepoint=lambda _, savepoint: Savepoint(
                MemorySavepoint(self._world.checkpoints, savepoint)
            ),
        )
        self._standing[name] = store, coordination
        self._world.lead(store, coordination, until=lambda: name not in self._standing)
        work = SavepointWork(
            store,
            lambda: coordination.election.leads,
            lambda _: self._world.checkpoints.folders,
            lambda: self._world.now_us,
        )
        self._copy(name, work)
        self.on_stood(name)

    def store_of(self, name: str) -> MemoryStore:
        """The session of one."""
        return self._standing[name][0]

    def kill(self, name: str) -> None:
        """End one as SIGKILL would."""
        store, _ = self._standing.pop(name)
        # It may wait for a trial.
        store.writes_left = 0
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

    def _copy(self, name: str, work: SavepointWork) -> None:
        """Have one copy savepoints beside its steps, as a thread of its process does."""
        if name not in self._standing:
            return
        if self._world.server.has(SAVEPOINTS.path):
            try:
                work.step()
            except OutOfWrites:
                self.kill(name)
                return
        at_us = self._world.now_us + SAVES_US
        self._world.at(at_us, lambda: self._copy(name, work))

    def _have_answered(self, name: str) -> None:
        """Have one answer requests beside its steps, as threads of its process do."""
        for responder in self._standing[name][1].responders:
            self._world.at(self._world.now_us, lambda each=responder: self._answer(name, each))

    def _answer(self, name: str, responder: Responder) -> None:
        if responder in self._answering or name not in self._standing:
            return
        self._answering.add(responder)
        try:
            self._standing[name][1].respond(responder)
        except OutOfWrites:
            if name in self._standing:
                self.kill(name)
        finally:
            self._answering.remove(responder)

    def _wait(self, event: Event, seconds: float) -> None:
        self._world.wait(event.is_set, seconds)
