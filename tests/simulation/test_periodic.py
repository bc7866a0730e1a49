"""Periodic queries on simulated hosts: the oracle's results at each release, whoever fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.periodic import PERIOD_MS, recording, simulated, workload
from orchestrator.control.decide.releases import ENDED
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import Manifests, load
from orchestrator.simulation.world.scenario import Scenario
from streams.language import parse
from streams.vectors.chunk import TIMESTAMP
from tests.property.streams import oracle

SECONDS = 6
REPORT = "report_0"
SETTLE_S = 12.0
LED_S = 20.0
"""Until a coordinator leads, and has told of everything."""


def with_limits(folder: Path, limits: str) -> Manifests:
    """A query whose releases have a beginning and an end."""
    workload(folder, [100], SECONDS)
    path = folder / "periodic-edf.yaml"
    path.write_text(path.read_text().replace("RTSPEC", f"RTSPEC {limits}"))
    return load([path])


def expected(manifests: Manifests) -> dict[int, Counter[Any]]:
    (query,) = manifests.queries
    (statement,) = parse(query.record.statements)
    tuples = [(row.pop(RECORDED_TIMESTAMP), row) for row in recording(SECONDS).to_pylist()]
    return oracle.evaluate(statement, {"readings": tuples}, tuples[-1][0])


@pytest.mark.parametrize(
    ("killed_ms", "limits"),
    [
        (None, ""),
        # In mid-period, and while a release is evaluated.
        (2 * PERIOD_MS + 90, "STIME 300 MILLISECONDS"),
        (10 * PERIOD_MS + 6, ""),
        # Just before the last release, while it is evaluated, and after the end.
        (2995, "ETIME 3 SECONDS"),
        (3006, "ETIME 3 SECONDS"),
        (3500, "ETIME 3 SECONDS"),
    ],
)
def test_results_are_the_oracle_s_across_a_takeover(
    killed_ms: int | None, limits: str, tmp_path: Path
) -> None:
    manifests = with_limits(tmp_path, limits)
    scenario = Scenario(
        manifests, seed=1, own_machines=True, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    if killed_ms is not None:
        scenario.run_for(killed_ms / 1000)
        scenario.kill(read_view(scenario.store).fragments[f"query-0.{REPORT}"].record.primary.node)
    outcome = scenario.finish()
    delivered = outcome.delivered(REPORT)
    found: dict[int, Counter[Any]] = {}
    for row in delivered.rows.to_pylist():
        values = tuple(row[name] for name in ("key", "n", "total"))
        found.setdefault(row[TIMESTAMP], Counter())[values] += 1
    assert found == expected(manifests)
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    hosts = scenario.world.hosts.values()
    assert sum(host.core.counters["divergences"] for host in hosts) == 0
    takeovers = sum(host.core.counters["takeovers"] for host in hosts)
    assert bool(takeovers) == (killed_ms is not None)
    replicas = [
        hosted.replica
        for host in hosts
        if host.alive and (hosted := host.core.replica_manager.replicas.get(REPORT)) is not None
    ]
    # Both have given as many rows, where both are there again.
    assert len({each.log.end.next_seq for each in replicas}) == 1


def ended(scenario: Scenario) -> list[str]:
    events = [each.event for each in scenario.store.history()]
    return [each.detail for each in events if each.kind == ENDED]


@pytest.mark.parametrize("killed_ms", [None, 2995, 3500])
def test_the_history_tells_of_the_end_once(killed_ms: int | None, tmp_path: Path) -> None:
    manifests = with_limits(tmp_path, "ETIME 3 SECONDS")
    scenario = Scenario(manifests, seed=1, own_machines=True, settle_s=SETTLE_S)
    scenario.begin()
    if killed_ms is not None:
        scenario.run_for(killed_ms / 1000)
        scenario.kill(read_view(scenario.store).fragments[f"query-0.{REPORT}"].record.primary.node)
        scenario.kill_leader()
    # The next leader tells of what happened while nobody led.
    scenario.run_for(LED_S)
    scenario.finish()
    assert ended(scenario) == [
        "at 1970-01-01T00:00:03.000Z, its ETIME; it evaluates nothing more, and keeps no state"
    ]


def test_limits_count_from_the_same_tuple_after_the_state_is_lost(tmp_path: Path) -> None:
    manifests = with_limits(tmp_path, "STIME 1 SECOND ETIME 4 SECONDS")
    scenario = Scenario(manifests, seed=1, own_machines=True, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(2)
    for replica in read_view(scenario.store).fragments[f"query-0.{REPORT}"].record.replicas:
        scenario.kill(replica.node)
    scenario.run_for(LED_S)
    delivered = scenario.finish().delivered(REPORT)
    assert "state lost" in [each.event.kind for each in scenario.store.history()]
    times_ms = delivered.rows.column(TIMESTAMP).to_pylist()
    assert (min(times_ms), max(times_ms)) == (1000, 4000)
    assert len(ended(scenario)) == 1


def test_the_leader_hears_of_the_first_tuple_at_once(tmp_path: Path) -> None:
    manifests = with_limits(tmp_path, "STIME 1 SECOND")
    scenario = Scenario(manifests, seed=1, own_machines=True, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(0.4)
    assert read_view(scenario.store).fragments[f"query-0.{REPORT}"].record.counts_from_ms == 0


def test_urgent_releases_are_in_time_under_edf_and_late_under_ertf(tmp_path: Path) -> None:
    found = {
        policy: simulated(workload(tmp_path, [600] * 5 + [60] * 2, 3, policy, admits=False))
        for policy in ("edf", "ertf")
    }
    # The releases of three seconds, from the first tuple on.
    assert all(each["releases"] == 7 * 3000 / PERIOD_MS for each in found.values())
    assert found["edf"]["miss_pct"] == 0
    assert found["ertf"]["miss_pct"] > 10
