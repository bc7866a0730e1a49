"""A cluster's manifests played in the simulated world: the same plan, hosts and protocol.

`python -m orchestrator.simulation --help` runs the demo's scenario from the command line: replay
the recording, kill the node that runs a fragment's primary, bring it back as Spark would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from orchestrator.coordinator.process import Coordination
from orchestrator.coordinator.view import read_view
from orchestrator.drills.kill_executor import Killed, choose
from orchestrator.drills.measurement import Delivered
from orchestrator.host.events import Deliver
from orchestrator.manifest import Manifests, cluster_record
from orchestrator.records import HostSpec, NodeKind, StreamRecord
from orchestrator.simulation.world import World
from orchestrator.store import QUERIES, STREAMS
from streams.chunk import stream_schema

SETTLE_S = 20.0
"""Virtual time for coordinates to settle before queries are applied."""

RESTART_S = 8.0
"""What Spark takes to bring an executor and its host back."""


class ScenarioStuck(RuntimeError):
    """Something that should have happened has not."""


@dataclass(slots=True)
class Played:
    """What came of a scenario.

    Attributes
    ----------
    deliveries
        What each output's sink took in, in order.
    killed
        None if nothing was killed.
    """

    world: World
    deliveries: dict[str, list[Deliver]]
    killed: Killed | None = None
    schemas: dict[str, pa.Schema] = field(default_factory=dict[str, pa.Schema])

    def delivered(self, stream: str) -> Delivered:
        """As a site's archive would have it."""
        return Delivered.from_deliveries(self.deliveries[stream], self.schemas[stream])


class Scenario:
    """The demo on a virtual clock.

    Parameters
    ----------
    manifests
        One cluster, its streams and queries.
    seed
        Of everything random.
    streams
        The stream records to apply instead of the manifests' (a shorter stretch, another speed).
    candidates
        Coordinators that stand for election; the first one leads.
    """

    def __init__(
        self,
        manifests: Manifests,
        *,
        seed: int,
        streams: list[StreamRecord] | None = None,
        check_invariants: bool = False,
        candidates: int = 1,
    ) -> None:
        cluster = manifests.cluster
        assert cluster is not None, "a scenario needs a cluster's manifest"
        record = cluster_record(cluster)
        places = [(p, NodeKind.EXECUTOR) for p in cluster.nodes]
        places += [(p, NodeKind.SITE) for p in cluster.sites]
        specs = [
            HostSpec(
                cluster=cluster.name,
                node=place.name,
                kind=kind,
                region=place.region,
                domain=place.name,
                zookeeper="",
                secret="",
            )
            for place, kind in places
        ]
        self._streams = streams or [m.record for m in manifests.streams]
        self._queries = [m.record for m in manifests.queries]
        self._check_invariants = check_invariants
        self._deliveries: dict[str, list[Deliver]] = {
            stream: [] for query in self._queries for stream in query.outputs
        }
        self.world = World(record, specs, seed=seed, deliver=self._keep)
        self.store = self.world.server.connect()
        self._candidates: list[tuple[MemoryStore, Coordination]] = []
        for number in range(candidates):
            self._stand(f"candidate {number}")

    def play(self, *, kill_after_s: float | None, target: str | None = None) -> Played:
        """Apply everything, replay to the end, and kill a primary on the way.

        Parameters
        ----------
        kill_after_s
            Virtual seconds after the replay began; None to kill nothing.
        target
            As in the drill: a fragment or a node; by default a join's primary.
        """
        start_us = self.begin()
        killed = None
        if kill_after_s is not None:
            self.run_for((start_us - self.world.now_us) / 1e6 + kill_after_s)
            killed = self.kill(target)
            self.heal(killed)
            killed = self.killed(killed)
        return self.finish(killed)

    def _restored(self, node: str, incarnation: str) -> bool:
        view = read_view(self.store)
        back = view.nodes.get(node)
        return (
            back is not None
            and back.record.incarnation != incarnation
            and all(view.protected(found.record) for found in view.fragments.values())
        )

    def _started(self) -> bool:
        streams = read_view(self.store).stream_records.values()
        return all(stream.start_at_us is not None for stream in streams)

    def _finished(self) -> bool:
        end_ms = max(s.replay.end_ms for s in self._streams if s.replay is not None)
        return all(
            kept and kept[-1].chunk.progress_ms >= end_ms for kept in self._deliveries.values()
        )

    def _wait(self, condition: Callable[[], bool], limit_s: float, otherwise: str) -> None:
        """Let time pass until a condition, which is looked at every 100 virtual ms."""
        give_up_us = self.world.now_us + round(limit_s * 1e6)
        while not condition():
            if self.world.now_us >= give_up_us:
                raise ScenarioStuck(f"{otherwise} within {limit_s:g} virtual seconds")
            self._pass(0.1)

    def _pass(self, seconds: float) -> None:
        self.world.run_for(seconds, check_invariants=self._check_invariants)

    def _keep(self, _: str, delivery: Deliver) -> None:
        self._deliveries[delivery.stream].append(delivery)


def excerpt(stream: StreamRecord, *, begin_ms: int, end_ms: int, speed: float) -> StreamRecord:
    """The stream with a stretch of its recording, played once."""
    assert stream.replay is not None
    replay = msgspec.structs.replace(
        stream.replay, begin_ms=begin_ms, end_ms=end_ms, speed=speed, repeat=False
    )
    return msgspec.structs.replace(stream, replay=replay)
