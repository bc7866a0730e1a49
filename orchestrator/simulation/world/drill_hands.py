"""The hands of a drill in the simulated world: what they do there to hosts, the store, leaders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.hands import Hands
from orchestrator.embedded.process_faults import RIVALS
from orchestrator.simulation.world.scenario import Scenario

SITE_RESTART_S = 1.5
"""Virtual time that a site's supervisor and its process take to start again."""


@dataclass(frozen=True, slots=True)
class SimulatedProcess:
    """A process of the simulated world; another one takes its place when it has ended.

    Attributes
    ----------
    name
        Unlike those of its predecessors and successors.
    """

    name: str
    terminate: Callable[[], None] = field(compare=False)
    kill: Callable[[], None] = field(compare=False)


class SimulatedHands(Hands):
    """Strikes simulated hosts; while time passes here, the world's does."""

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

    def site(self, view: ClusterView, site: str) -> SimulatedProcess:
        """The host of a site."""
        return SimulatedProcess(
            f"{site} {view.nodes[site].record.incarnation}",
            terminate=lambda: self._scenario.terminate(site, SITE_RESTART_S),
            kill=lambda: self._scenario.kill(site, SITE_RESTART_S),
        )

    def coordinators(self, cluster_pid: int) -> Sequence[SimulatedProcess]:
        """The candidates for leader."""
        return [
            SimulatedProcess(
                name,
                terminate=lambda name=name: self._scenario.terminate_coordinator(name),
                kill=lambda name=name: self._scenario.kill_coordinator(name),
            )
            for name in self._scenario.coordinators.names
        ]

    def servers(self, cluster_pid: int) -> Sequence[SimulatedProcess]:
        """One server: the simulated store is no ensemble."""
        world = self._scenario.world
        if world.server.away:
            return []
        restart = self._scenario.restart_store
        return [SimulatedProcess(f"server {world.server.starts}", terminate=restart, kill=restart)]

    def kill_executor(self, view: ClusterView, node: str) -> None:
        """End a node's host; Spark starts another."""
        self._scenario.kill(node)

    def kill_coordinator(self, cluster_pid: int, candidate: str) -> None:
        """End a coordinator."""
        self._scenario.kill_coordinator(candidate)

    @contextmanager
    def full_disk(self, view: ClusterView, site: str, lasts_s: float) -> Generator[None]:
        """Let the sinks of a site keep nothing."""
        full = self._scenario.world.disks.full
        full.add(site)
        try:
            yield
        finally:
            full.discard(site)

    @contextmanager
    def crowded(self, view: ClusterView, node: str, lasts_s: float) -> Generator[None]:
        """Have evaluation take as long as beside busy processes on one processor."""
        host = self._scenario.world.hosts[node]
        host.slowness = float(RIVALS + 1)
        try:
            yield
        finally:
            host.slowness = 1.0

    @contextmanager
    def store_stopped(self, cluster_pid: int, lasts_s: float, *, most: bool) -> Generator[None]:
        """Have the store not answer; afterwards it ends all sessions, as one stopped for long."""
        world = self._scenario.world
        world.server.go_away()
        try:
            yield
        finally:
            world.end_all_sessions()
