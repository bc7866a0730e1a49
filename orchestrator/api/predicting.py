"""A drill in the simulated world, on what runs in a cluster now: what it will do there.

The cluster is only read. Its hosts, emulated latencies, streams, queries and their places are set
up in the simulated world, with the product's own hosts and coordinators, and the recordings begin
anew. There the drill strikes, and is measured as in the cluster, at the sinks. Time that a real
machine takes for everything else, such as a scheduler that is late, is no part of a prediction.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from orchestrator.api import moving
from orchestrator.api.aiming import aimed
from orchestrator.api.connection import Cluster
from orchestrator.api.drilling import CALM_S, known, region_of
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills import disturbances
from orchestrator.drills.acting import CORDON_S, Acting, wait_for
from orchestrator.drills.kill_executor import DrillFailed, Inapplicable, Way
from orchestrator.drills.report import measured
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import played, recorded
from orchestrator.progress import Progress, silent
from orchestrator.records import StreamRecord
from orchestrator.results.drill_report import Blast, DrillReport
from orchestrator.simulation.world.drill_hands import SimulatedHands
from orchestrator.simulation.world.scenario import Scenario, ScenarioStuck
from orchestrator.simulation.world.stage import Stage
from orchestrator.store.protocol import MOVES
from streams.vectors.chunk import stream_schema

WARM_S = 3.0
"""Virtual time in which the streams flow before anything fails."""


def predict(
    cluster: Cluster, name: str, target: str | None = None, on_progress: Progress = silent
) -> DrillReport:
    """Play a drill in the simulated world, on what the cluster's store says now.

    Raises
    ------
    InvalidInput
        There is no such drill.
    Inapplicable
        It does not fit the cluster, or cannot be simulated.
    Refused
        There is no such target.
    DrillFailed
        The simulated cluster does not recover.
    """
    chosen = known(name)
    stage = Stage.of_view(read_view(cluster.store))
    stage = replace(stage, streams=[_again(name, stream) for stream in stage.streams])
    scenario = Scenario(stage, seed=0, candidates=2)
    simulated = Cluster(cluster.reach, scenario.store)
    try:
        on_progress("simulate", "the cluster as it is now")
        scenario.begin()
        view, blast = aimed(simulated, chosen, target, on_progress)
        on_progress("simulate", f"{name}: {blast.summary}")
        scenario.observe(blast.outputs, region_of(view, list(blast.outputs)))
        scenario.run_for(WARM_S)
        if isinstance(chosen, Way):
            found = scenario.drill(blast.nodes[0], chosen)
        else:
            found = disturbances.run(chosen, _acting(scenario, simulated, view, blast))
        scenario.run_for(CALM_S)
    except ScenarioStuck as error:
        raise DrillFailed(f"simulated: {error}") from error
    delivered, kept = (
        _delivered(view, blast.outputs, all_of)
        for all_of in (scenario.observed, scenario.deliveries)
    )
    events = [entry.event for entry in scenario.store.history()]
    report = measured(chosen, view, blast, found, delivered, kept, events)
    return msgspec.structs.replace(report, simulated=True)


def _again(drill: str, stream: StreamRecord) -> StreamRecord:
    """A stream that is played for as long as the drill takes."""
    if recorded(stream) is None:
        driver = "no source" if stream.source is None else f"the driver {stream.source.driver}"
        raise Inapplicable(
            drill,
            f"it cannot be simulated: stream {stream.name} has {driver}, and only tuples of "
            "recordings are known beforehand",
        )
    return played(stream, repeat=True)


def _acting(scenario: Scenario, simulated: Cluster, view: ClusterView, blast: Blast) -> Acting:
    acting = Acting(
        view=view,
        node=next(iter(blast.nodes), ""),
        cluster_pid=0,
        breach=threading.Event(),
        store=simulated.store,
        mover=_Mover(simulated),
        on_progress=silent,
        links=blast.links,
        hands=SimulatedHands(scenario),
    )
    return replace(acting, mover=_Mover(simulated, acting))


@dataclass(frozen=True, slots=True)
class _Mover:
    """Moves replicas by the API; waits in virtual time."""

    cluster: Cluster
    acting: Acting | None = None

    def switch(self, fragment: str, *, wait: bool = True) -> str:
        """Have primary and secondary change roles; the name of the plan of moves."""
        name = moving.switch(self.cluster, fragment, wait=False).name or ""
        if wait:
            self._await_end(name)
        return name

    def drain(self, node: str) -> None:
        """Cordon a node for as long as the drill takes, and move all replicas away."""
        made = moving.drain(self.cluster, node, wait=False, for_s=CORDON_S)
        if made.name is not None:
            self._await_end(made.name)

    def uncordon(self, node: str) -> None:
        """Let a node be used again, unless an operator has cordoned it."""
        moving.uncordon(self.cluster, node, lasting=False)

    def _await_end(self, name: str) -> None:
        assert self.acting is not None, "it acts in the simulated world"
        store = self.cluster.store

        def ended() -> bool:
            plan = store.get(MOVES.key(name))
            return plan is None or plan.record.ended_us is not None

        wait_for(self.acting, ended, f"the moves of {name} have not ended")
        plan = store.get(MOVES.key(name))
        failed = () if plan is None else [s.failed for s in plan.record.steps if s.failed]
        if failed:
            raise DrillFailed(f"moves have failed: {'; '.join(failed)}")


def _delivered(
    view: ClusterView, outputs: Sequence[str], deliveries: Mapping[str, Sequence[Deliver]]
) -> dict[str, Delivered]:
    columns = view.dataflow.columns
    return {
        stream: Delivered.from_deliveries(deliveries[stream], stream_schema(dict(columns[stream])))
        for stream in outputs
    }
