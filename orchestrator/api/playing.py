"""What is assumed to be so, played in the simulated world: what comes late, and what is silent.

The product's own hosts and coordinators run there, from the places that the leader has decided on
paper. What is lost is killed once streams flow, and does not come back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.acting import DrillFailed
from orchestrator.drills.measurement import longest_silence, sequence_faults
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.folders import scratch_folder
from orchestrator.progress import Progress
from orchestrator.results.whatif import PlayedDocument, PlayedOutput
from orchestrator.simulation.paper.assumptions import Assumptions
from orchestrator.simulation.world.scenario import Scenario, ScenarioStuck
from orchestrator.simulation.world.synthetic import played_stage
from streams.vectors.chunk import stream_schema

WARM_S = 3.0
"""Virtual time in which the streams flow before anything fails, or is counted."""

SLICE_S = 0.1


def play(
    view: ClusterView,
    otherwise: Assumptions,
    lost: Collection[str],
    seconds: float,
    on_progress: Progress,
) -> PlayedDocument:
    """Play a cluster for so many virtual seconds after `WARM_S`.

    Parameters
    ----------
    view
        The cluster with everything that is otherwise, before anything is lost.
    lost
        Hosts that are killed as soon as it counts.

    Raises
    ------
    DrillFailed
        The simulated cluster does not start.
    """
    with scratch_folder() as folder:
        stage, made_up = played_stage(view, folder, otherwise.load)
        for latency in otherwise.latencies:
            stage = stage.with_latency(*latency.hosts, latency.rtt_ms / 2)
        scenario = Scenario(stage, seed=0)
        on_progress("play", "the streams begin")
        try:
            scenario.begin()
        except ScenarioStuck as error:
            raise DrillFailed(f"simulated: {error}") from error
        scenario.run_for(WARM_S)
        began_us = scenario.world.now_us
        for host in lost:
            scenario.world.kill(host)
        healed_s = _run(scenario, seconds, lost, on_progress)
        after = read_view(scenario.store)
        outputs = _outputs(view, after, scenario.deliveries, began_us, lost)
    return PlayedDocument(
        lasted_s=seconds, outputs=tuple(outputs), healed_s=healed_s, synthetic=tuple(made_up)
    )


def _run(
    scenario: Scenario, seconds: float, lost: Collection[str], on_progress: Progress
) -> float | None:
    """Let time pass; after how many seconds everything was protected again."""
    healed_s: float | None = None
    slices = max(round(seconds / SLICE_S), 1)
    for number in range(1, slices + 1):
        scenario.run_for(seconds / slices)
        passed_s = number * seconds / slices
        if lost and healed_s is None and not read_view(scenario.store).unprotected:
            healed_s = passed_s
        if number % 10 == 0:
            on_progress("play", f"{passed_s:.0f} of {seconds:g} virtual seconds")
    return healed_s


def _outputs(
    view: ClusterView,
    after: ClusterView,
    deliveries: Mapping[str, Sequence[Deliver]],
    began_us: int,
    lost: Collection[str],
) -> list[PlayedOutput]:
    columns = after.dataflow.columns
    found: list[PlayedOutput] = []
    for query in view.query_records.values():
        noticed_us = _noticed_us(after, query.name, began_us)
        for output in query.outputs:
            schema = stream_schema(dict(columns[output]))
            kept = [each for each in deliveries[output] if each.arrived_us >= began_us]
            counted = Delivered.from_deliveries(kept, schema)
            everything = Delivered.from_deliveries(deliveries[output], schema)
            arrived_us = np.sort(everything.completed_column("arrived_us"))
            last_us = int(arrived_us[-1]) if len(arrived_us) else began_us
            longest = longest_silence(arrived_us, began_us, max(last_us, began_us))
            struck = longest_silence(arrived_us, began_us, noticed_us) if lost else None
            faults = sequence_faults(everything)
            deadline_ms = query.deadline_of(output)
            found.append(
                PlayedOutput(
                    output=output,
                    deadline_ms=deadline_ms,
                    tuples=counted.rows.num_rows,
                    timestamps=len(counted.latencies_ms),
                    late=int(np.count_nonzero(counted.latencies_ms > deadline_ms)),
                    silent_ms=None if longest is None else longest.gap_ms,
                    recovered_ms=None
                    if struck is None
                    else max((struck.ended_us - began_us) / 1000, 0.0),
                    lost=faults.lost,
                    repeated=faults.repeated,
                )
            )
    return found


def _noticed_us(after: ClusterView, query: str, began_us: int) -> int:
    """When the last of a query's fragments had noticed what was lost."""
    found = [each.record for each in after.fragments.values() if each.record.query == query]
    takeovers = [each.took_over.detected_at_us for each in found if each.took_over is not None]
    return max([began_us, *takeovers])
