"""Overload where overdue tuples are dropped at the entry: every tuple is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import Table, parquet

from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.manifest import load
from orchestrator.simulation.world.scenario import Scenario

INTERVAL_MS = 20
TOGETHER = 10
"""Tuples of an interval: half of what a node can evaluate."""

SECONDS = 9
BURST_S = (3.0, 5.0)
DEADLINE_MS = 1000
SLOW_US = 300_000
NODES = ("a", "b", "c", "d")

MANIFESTS = """\
kind: Cluster
name: overdue
nodes: [{nodes}]
sites: [{{name: edge, region: edge}}]
latencies: latency.csv
emulateCosts: true
admission: off
---
kind: Stream
name: readings
site: edge
columns: {{number: int}}
rate: 8 KB/s
burst: {together}
overdue: drop
from:
  replay: {{path: readings.parquet, begin: "1970-01-01T00:00:00Z",
           end: "1970-01-01T00:00:{seconds:02}Z", interval: {interval} ms}}
---
kind: Query
name: scaling
deadline: {deadline} ms
recovery: 500 ms
overdue: {overdue}
outputs: {{weighed: {{site: edge, late: {late}}}}}
primaries: {{cleaned: [a], weighed: [b]}}
estimates: {{cleaned: {{cost: 500 us}}, weighed: {{cost: 1 ms}}}}
statements: |
  REGISTER QUERY cleaned RSTREAM(SELECT number FROM readings [NOW]);
  REGISTER QUERY weighed RSTREAM(SELECT number, number * 2 AS twice FROM cleaned [NOW]);
"""


def arrivals(burst: int) -> NDArray[np.int64]:
    """Timestamps, ms; rates are so many times as high within the burst."""
    every_ms = np.arange(INTERVAL_MS, SECONDS * 1000 - 2000, INTERVAL_MS)
    first_s, last_s = BURST_S
    within = (every_ms > first_s * 1000) & (every_ms <= last_s * 1000)
    return np.repeat(every_ms, np.where(within, burst * TOGETHER, TOGETHER))


@dataclass
class Played:
    recorded: int
    overdue: int
    waiting: int
    delivered: int
    late_pct: float
    late_dropped: int
    late_told: int
    faults: SequenceFaults
    divergences: int
    told: list[str]


def played(
    folder: Path,
    *,
    burst: int,
    overdue: str = "drop",
    late: str = "keep",
    meanwhile: Callable[[Scenario], None] = lambda _: None,
) -> Played:
    times = arrivals(burst)
    table = Table.from_pydict({"timestamp": times, "number": np.arange(len(times))})
    parquet.write_table(table, folder / "readings.parquet")
    regions = [*NODES, "edge"]
    lines = [",".join(["", *regions])]
    lines += [",".join([a, *("" if a == b else "8" for b in regions)]) for a in regions]
    (folder / "latency.csv").write_text("\n".join(lines) + "\n")
    manifest = folder / "overdue.yaml"
    manifest.write_text(
        MANIFESTS.format(
            together=TOGETHER,
            seconds=SECONDS,
            interval=INTERVAL_MS,
            deadline=DEADLINE_MS,
            overdue=overdue,
            late=late,
            nodes=", ".join(f"{{name: {node}, region: {node}}}" for node in NODES),
        )
    )
    scenario = Scenario(load([manifest]), seed=3, check_invariants=True, settle_s=8.0)
    scenario.begin()
    scenario.run_for(BURST_S[0] + 0.8)
    meanwhile(scenario)
    outcome = scenario.finish()
    scenario.run_for(2.0)
    delivered = outcome.delivered("weighed")
    status = scenario.world.hosts["edge"].core.replica_manager.sources["readings"].status
    is_late = delivered.row_latencies_ms > DEADLINE_MS
    sink = scenario.world.hosts["edge"].core.replica_manager.sinks["weighed"].status(0)
    hosts = scenario.world.hosts.values()
    return Played(
        recorded=len(times),
        overdue=status.overdue,
        waiting=status.waiting,
        delivered=delivered.rows.num_rows,
        late_pct=100 * float(is_late.mean()),
        late_dropped=delivered.late,
        late_told=sink.late_dropped,
        faults=sequence_faults(delivered),
        divergences=sum(host.core.counters["divergences"] for host in hosts),
        told=[
            e.event.detail for e in scenario.store.history() if e.event.kind == "overdue dropped"
        ],
    )


def assert_accounted_for(found: Played) -> None:
    assert found.recorded == found.overdue + found.delivered + found.late_dropped
    assert found.late_dropped == found.late_told
    assert (found.waiting, found.divergences) == (0, 0)
    assert found.faults == SequenceFaults(lost=0, repeated=0)


def test_without_overload_nothing_is_dropped(tmp_path: Path) -> None:
    found = played(tmp_path, burst=1)
    assert (found.overdue, found.late_pct, found.told) == (0, 0.0, [])
    assert_accounted_for(found)


def test_a_burst_is_dropped_as_far_as_it_is_overdue_and_hardly_anything_is_late(
    tmp_path: Path,
) -> None:
    found = played(tmp_path, burst=5)
    assert found.overdue > 1000
    assert found.late_pct < 5
    assert_accounted_for(found)
    assert sum(int(each.split()[0]) for each in found.told) == found.overdue


def test_links_too_slow_for_any_deadline_are_no_overload(tmp_path: Path) -> None:
    before: list[int] = []

    def slow_down(scenario: Scenario) -> None:
        for here, there in permutations([*NODES, "edge"], 2):
            scenario.world.links.slow_down(here, there, SLOW_US)
        # Until that is measured, hosts that answer late count as busy, or dead.
        scenario.run_for(1.2)
        edge = scenario.world.hosts["edge"].core.replica_manager
        before.append(edge.sources["readings"].status.overdue)

    found = played(tmp_path, burst=1, meanwhile=slow_down)
    assert found.late_pct > 0
    assert [found.overdue] == before
    assert_accounted_for(found)


def test_a_query_that_keeps_has_everything_delivered_late(tmp_path: Path) -> None:
    found = played(tmp_path, burst=5, overdue="keep")
    assert found.overdue == 0
    assert found.late_pct > 40
    assert_accounted_for(found)


def kill_of(fragment: str, *, secondary: bool) -> Callable[[Scenario], None]:
    def kill(scenario: Scenario) -> None:
        record = read_view(scenario.store).fragments[f"scaling.{fragment}"].record
        replica = record.secondary if secondary else record.primary
        assert replica is not None
        scenario.kill(replica.node)

    return kill


@pytest.mark.parametrize("fragment", ["cleaned", "weighed"])
@pytest.mark.parametrize("secondary", [False, True])
def test_a_replica_killed_in_the_burst(tmp_path: Path, fragment: str, secondary: bool) -> None:
    found = played(tmp_path, burst=5, meanwhile=kill_of(fragment, secondary=secondary))
    assert found.overdue > 1000
    assert_accounted_for(found)


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_one_replica_three_times_as_slow(tmp_path: Path, node: str) -> None:
    def slow_down(scenario: Scenario) -> None:
        scenario.world.hosts[node].slowness = 3.0

    found = played(tmp_path, burst=5, meanwhile=slow_down)
    assert found.overdue > 1000
    assert_accounted_for(found)


def test_late_results_are_dropped_at_the_sink_and_counted_by_it_and_by_its_archive(
    tmp_path: Path,
) -> None:
    kill = kill_of("weighed", secondary=False)
    found = played(tmp_path, burst=5, overdue="keep", late="drop", meanwhile=kill)
    assert found.late_dropped > 1000
    assert found.late_pct == 0
    assert_accounted_for(found)
