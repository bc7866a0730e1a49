"""A drill in the simulated world, on what runs in a cluster now: what it will do there.

The cluster is only read. Its hosts, emulated latencies, streams, queries and their places are set
up in the simulated world, with the product's own hosts and coordinators, and the recordings begin
anew. There the drill strikes, and is measured as in the cluster, at the sinks. Time that a real
machine takes for everything else, such as a scheduler that is late, is no part of a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from orchestrator.api.aiming import aimed
from orchestrator.api.connection import Cluster
from orchestrator.api.drilling import CALM_S, DrillMoves, asking, known, region_of
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills import disturbances
from orchestrator.drills.acting import LOOK_S, Acting, DrillFailed
from orchestrator.drills.drill import Drill
from orchestrator.drills.report import measured
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.folders import scratch_folder
from orchestrator.progress import Progress, silent
from orchestrator.results.drill_report import DrillReport
from orchestrator.simulation.world.drill_hands import SimulatedHands
from orchestrator.simulation.world.scenario import Scenario, ScenarioStuck
from orchestrator.simulation.world.stage import Stage
from orchestrator.simulation.world.synthetic import played_stage
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
        It does not fit the cluster.
    Refused
        There is no such target.
    DrillFailed
        The simulated cluster does not recover.
    """
    with scratch_folder() as folder:
        stage, made_up = played_stage(read_view(cluster.store), folder)
        report = _played(cluster, known(name), target, on_progress, stage)
    return msgspec.structs.replace(report, simulated=True, synthetic=tuple(made_up))


def _played(
    cluster: Cluster, chosen: Drill, target: str | None, on_progress: Progress, stage: Stage
) -> DrillReport:
    scenario = Scenario(stage, seed=0, candidates=2)
    simulated = Cluster(cluster.reach, scenario.store)
    try:
        on_progress("simulate", "the cluster as it is now")
        scenario.begin()
        hands = SimulatedHands(scenario)
        view, blast = aimed(simulated, chosen, target, on_progress, hands)
        on_progress("simulate", f"{chosen.name}: {blast.summary}")
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
    return measured(chosen, view, blast, found, delivered, kept, events)


def _delivered(
    view: ClusterView, outputs: Sequence[str], deliveries: Mapping[str, Sequence[Deliver]]
) -> dict[str, Delivered]:
    columns = view.dataflow.columns
    return {
        stream: Delivered.from_deliveries(deliveries[stream], stream_schema(dict(columns[stream])))
        for stream in outputs
    }
