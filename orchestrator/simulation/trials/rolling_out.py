"""Has hosts leave, and processes wait for their turns, as the product's own processes do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ha.roles import ReplicaRole
from orchestrator.control.observe.view import SLOT
from orchestrator.deploy.turns import Turn
from orchestrator.records.versions import this_version
from orchestrator.simulation.trials.exposure import Exposure
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.rollouts import (
    AnyRollout,
    HostLeaves,
    ProcessesEnd,
    VersionChange,
)
from orchestrator.simulation.trials.strikes import Strikes
from orchestrator.simulation.trials.versions import next_version
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.store.protocol import Store

LOOK_US = 200_000
"""How often a process looks whether it may end."""


@dataclass(frozen=True, slots=True)
class RollingOut:
    """The rollouts of one schedule.

    Attributes
    ----------
    strikes
        Resolves targets, and knows when hosts start again.
    store
        A session of the trial's own.
    change_coordinators
        Has coordinators replaced by some of the next version, or of this one: whether it is the
        next, and the time between two of them, µs.
    away
        Nodes whose processes have ended in their turn, and whose successors have not been seen.
    waiting
        Processes that have been told to end and have not, and those that will be.
    told
        Nodes whose process waits for its turn.
    """

    observed: Observed
    exposure: Exposure
    strikes: Strikes
    store: Store
    change_coordinators: Callable[[bool, int], None]
    away: dict[str, SimulatedHost] = field(default_factory=dict[str, SimulatedHost])
    waiting: set[str] = field(default_factory=set[str])
    told: set[str] = field(default_factory=set[str])

    def begin(self, rollout: AnyRollout) -> None:
        """Tell those that are to leave."""
        world = self.observed.world
        match rollout:
            case HostLeaves(target=target, within_ms=within_ms):
                node = self.strikes.resolve(target)
                self.observed.note("platform", f"{node or target} is to leave in {within_ms} ms")
                if node is not None:
                    world.hosts[node].leave(within_ms * 1000)
            case ProcessesEnd():
                self.observed.note("platform", f"{', '.join(rollout.nodes)} are to end")
                for node in rollout.nodes:
                    if world.hosts[node].alive:
                        self._tell(rollout, world.hosts[node])
            case VersionChange():
                self._change(rollout)

    def _change(self, change: VersionChange) -> None:
        world = self.observed.world
        version = next_version() if change.ahead else this_version()
        self.observed.note("platform", f"{', '.join(change.nodes)} are to be of {version}")
        self.waiting.update(f"{change.at_ms} {node}" for node in change.nodes)

        def tell(node: str) -> None:
            host = world.hosts[node]
            if not host.runs or node in self.told or world.server.away:
                world.at(world.now_us + LOOK_US, lambda: tell(node))
                return
            self.waiting.discard(f"{change.at_ms} {node}")
            world.versions[node] = version
            self._tell(change, host)

        for node in change.nodes:
            tell(node)
        if change.coordinators:
            self.change_coordinators(change.ahead, change.back_ms * 1000)

    def _tell(self, roll: ProcessesEnd | VersionChange, host: SimulatedHost) -> None:
        world, store = self.observed.world, self.observed.world.server.connect()
        node = host.spec.node
        turn = Turn(
            store,
            node,
            (node,),
            lambda: {node: host.incarnation},
            grace_s=roll.grace_ms / 1000,
            now_s=lambda: world.now_us / 1e6,
            cluster_us=lambda: world.now_us,
            token=host.incarnation,
        )
        self.waiting.add(turn.name)
        self.told.add(node)

        def look() -> None:
            if not host.alive:
                world.abandon(store)
                self.waiting.discard(turn.name)
                self.told.discard(node)
            elif host.paused or not turn.may_end():
                world.at(world.now_us + LOOK_US, look)
            else:
                self.waiting.discard(turn.name)
                self.told.discard(node)
                self._end(turn, host, store, roll.back_ms)

        look()

    def _end(self, turn: Turn, host: SimulatedHost, store: MemoryStore, back_ms: int) -> None:
        world, node = self.observed.world, host.spec.node
        self.observed.note(node, f"ends: {turn.over}")
        if turn.has_left:
            self.observed.broken += self._misjudged(host)
            self.away[node] = host
        self.exposure.expose(host)
        self.strikes.restart_us[node] = world.now_us + back_ms * 1000
        host.shut_down()
        store.close()

    def _misjudged(self, host: SimulatedHost) -> Iterator[str]:
        """What speaks against a process's end, although the leader has said that it may."""
        world, node = self.observed.world, host.spec.node
        # A successor that has ended since, out of its turn, is none of the leader's doing.
        back = {each for each, was in self.away.items() if world.hosts[each] is not was}
        for each in self.away.keys() - back:
            yield f"maintenance: {node} ends while {each} is away"
        for each in back:
            del self.away[each]
        slot = self.store.get(SLOT)
        stays = {} if slot is None else slot.record.stays
        for name, hosted in host.core.replica_manager.replicas.items():
            key = f"{self.observed.setting.query_of[name]}.{name}"
            record = self.exposure.fragment(key)
            listed = record is not None and any(
                each.incarnation == host.incarnation for each in record.replicas
            )
            if listed and hosted.replica.role is not ReplicaRole.WARMING and key not in stays:
                yield f"maintenance: {node} ends with a replica of {key}"
