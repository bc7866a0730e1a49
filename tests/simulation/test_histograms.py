"""What monitoring counts while a primary hangs and roles change: as much as the history tells."""

from __future__ import annotations

from pathlib import Path

from orchestrator import api
from orchestrator.control.observe.audit_events import RECOVERED
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import SETTLE_S, Input

QUERY, FRAGMENT = "pairing", "pairing.pairs"


def test_takeovers_switchovers_and_latencies_are_counted_once(tmp_path: Path) -> None:
    recording = Input.random(seed=7, seconds=12)
    scenario = Scenario(recording.manifests(tmp_path), seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(1)
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, scenario.store)
    primary = read_view(scenario.store).fragments[FRAGMENT].record.primary.node
    # It is noticed by its silence, which takes time.
    scenario.hang(primary, 1.5)
    scenario.run_for(6)
    api.switch(cluster, FRAGMENT, on_progress=lambda _step, _detail: scenario.run_for(0.05))
    scenario.run_for(3)

    found = api.status(cluster)
    recovered = [e for e in scenario.store.history() if e.event.kind == RECOVERED]
    recoveries = found.recoveries[QUERY]
    assert sum(recoveries.counts) == len(recovered) > 0
    bounds_ms = {each.query: each.bound_ms for each in found.queries}
    assert 0 < recoveries.sum_ms <= len(recovered) * bounds_ms[QUERY]
    assert sum(found.moves.counts) == 1
    assert found.moves.sum_ms > 0
    for output in found.outputs:
        assert output.latency_histogram is not None
        assert sum(output.latency_histogram.counts) == output.completed_timestamps > 0
    executors = [node for node in found.nodes if node.dispatch_histogram and node.primaries]
    for node in executors:
        assert node.dispatch_histogram is not None
        # A watermark that passes without tuples takes no time that could be told.
        assert 0 < sum(node.dispatch_histogram.counts) <= node.counters["dispatches"]
