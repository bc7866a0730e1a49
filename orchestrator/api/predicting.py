"""A drill in the simulated world, on what runs in a cluster now: what it will do there.

The cluster is only read. Its hosts, emulated latencies, streams, queries and their places are set
up in the simulated world, with the product's own hosts and coordinators, and the recordings begin
anew. There the drill strikes, and is measured as in the cluster, at the sinks. Time that a real
machine takes for everything else, such as a scheduler that is late, is no part of a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from orchestrator.api.aiming import aimed
from orchestrator.api.connection import Cluster
from orchestrator.api.drilling import CALM_S, DrillMoves, asking, known, region_of
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills import disturbances
from orchestrator.drills.acting import LOOK_S, Acting, DrillFailed, Inapplicable
from orchestrator.drills.report import measured
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import played, recorded
from orchestrator.progress import Progress, silent
from orchestrator.records import StreamRecord
from orchestrator.results.drill_report import DrillReport
from orchestrator.simulation.world.drill_hands import SimulatedHands
from orchestrator.simulation.world.scenario import Scenario, ScenarioStuck
from orchestrator.simulation.world.stage import Stage
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
        hands = SimulatedHands(scenario)
        view, blast = aimed(simulated, chosen, target, on_progress, hands)
        on_progress("simulate", f"{name}: {blast.summary}")
        scenario.observe(blast.outputs, region_of(view, list(blast.outputs)))
        scenario.run_for(WARM_S)
        acting = Acting(
            view=view,
            node=next(iter(blast.nodes), ""),
            store=scenario.store,
            on_progress=silent,
            by=asking(cluster),
            mover=DrillMoves(simulated, lambda step, detail: hands.rest(LOOK_S)),
            links=blast.links,
            hands=hands,
        )
        found = disturbances.run(chosen, acting)
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


def _delivered(
    view: ClusterView, outputs: Sequence[str], deliveries: Mapping[str, Sequence[Deliver]]
) -> dict[str, Delivered]:
    columns = view.dataflow.columns
    return {
        stream: Delivered.from_deliveries(deliveries[stream], stream_schema(dict(columns[stream])))
        for stream in outputs
    }
