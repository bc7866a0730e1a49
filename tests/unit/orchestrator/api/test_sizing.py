"""What a cluster's processes are said to need."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.pod_memory import PARTS
from bench.state_memory import STATEMENTS
from orchestrator.api.sizing import HEADROOM, STEP_MIB, cluster_sizes, memory_sizes
from orchestrator.errors import EXIT_REFUSED, InvalidInput
from orchestrator.manifest import load
from orchestrator.results.sizing import ProcessSize, SizeDocument, StateEstimate

CLUSTER = """\
kind: Cluster
name: sized
nodes: [a, b, c]
sites: [one, two]
coordinators: 2
zookeeper: {servers: 3}
memory: 64m
executorMemory: 640m
---
kind: Stream
name: s
site: one
columns: {k: int, x: float, t: string}
rate: 40 KB/s
---
kind: Query
name: q
deadline: 1 s
recovery: 1 s
outputs: {f: two}
statements: |
  REGISTER QUERY f %s;
"""

TUPLES_S = 1000.0
"""Of 40 bytes."""


def sized(folder: Path, statement: str, *, old: str = "", new: str = "") -> SizeDocument:
    file = folder / "all.yaml"
    file.write_text((CLUSTER % statement).replace(old, new) if old else CLUSTER % statement)
    return cluster_sizes(load([file]))


def state(folder: Path, statement: str) -> StateEstimate:
    (found,) = sized(folder, statement).states
    return found


def process(document: SizeDocument, name: str) -> ProcessSize:
    return next(each for each in document.processes if each.process == name)


def test_the_benchmarks_print_exactly_what_is_read() -> None:
    of_processes = {f"{part}_mib" for part in PARTS}
    of_states = {f"{way.replace(' ', '_')}.tuple_bytes" for way in STATEMENTS}
    assert memory_sizes().keys() == of_processes | of_states


def test_all_processes_are_counted(tmp_path: Path) -> None:
    document = sized(tmp_path, "RSTREAM(SELECT k FROM s [NOW])")
    assert {each.process: each.count for each in document.processes} == {
        "executor": 3, "driver": 1, "site": 2, "coordinator": 2, "web": 1, "zookeeper": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "name", "count"),
    [
        ("coordinators: 2", "coordinators: 2\napplications: 2", "driver", 2),
        (
            "coordinators: 2",
            "applications: [{name: x, nodes: [a, b]}, {name: y, nodes: [c]}]",
            "driver",
            2,
        ),
        ("zookeeper: {servers: 3}", "zookeeper: zk:2181", "zookeeper", None),
    ],
)
def test_what_the_manifest_starts(
    tmp_path: Path, old: str, new: str, name: str, count: int | None
) -> None:
    document = sized(tmp_path, "RSTREAM(SELECT k FROM s [NOW])", old=old, new=new)
    counts = {each.process: each.count for each in document.processes}
    assert counts.get(name) == count


def test_a_limit_is_the_heap_and_the_raised_sum_of_all_parts(tmp_path: Path) -> None:
    found = process(sized(tmp_path, "RSTREAM(SELECT k FROM s [NOW])"), "executor")
    assert found.heap_mib == 640
    assert found.parts["queues"] == 64.0
    whole = HEADROOM * sum(found.parts.values())
    assert whole <= found.overhead_mib < whole + STEP_MIB
    assert found.limit_mib == found.heap_mib + found.overhead_mib


@pytest.mark.parametrize(
    ("statement", "way", "tuples"),
    [
        ("RSTREAM(SELECT k FROM s [NOW])", "stateless", 0.0),
        ("ISTREAM(SELECT k, x FROM s [RANGE 10 SECONDS])", "stepwise", 10 * TUPLES_S),
        ("ISTREAM(SELECT k, x FROM s [ROWS 70])", "stepwise", 70.0),
        ("ISTREAM(SELECT k, x FROM s [PARTITION BY k ROWS 1])", "newest", None),
        (
            "RSTREAM(SELECT k, count(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k)",
            "panes",
            None,
        ),
    ],
)
def test_tuples_that_windows_hold(
    tmp_path: Path, statement: str, way: str, tuples: float | None
) -> None:
    found = state(tmp_path, statement)
    assert found.way == way
    if way == "panes":
        assert found.tuples is not None
        assert 0 < found.tuples <= 6 * TUPLES_S
    else:
        assert found.tuples == tuples


def test_a_state_takes_its_tuples_width_and_what_their_evaluation_adds(tmp_path: Path) -> None:
    plain = state(tmp_path, "ISTREAM(SELECT k, x FROM s [RANGE 10 SECONDS])")
    wider = state(tmp_path, "ISTREAM(SELECT k, x, t FROM s [RANGE 10 SECONDS])")
    assert (wider.state_mib - plain.state_mib) * 2**20 == pytest.approx(10_000 * 16, rel=0.01)
    grouped = state(tmp_path, "ISTREAM(SELECT k, sum(x) AS t FROM s [RANGE 10 SECONDS] GROUP BY k)")
    added = memory_sizes()["stepwise_groups.tuple_bytes"]
    assert (grouped.state_mib - plain.state_mib) * 2**20 == pytest.approx(10_000 * added, rel=0.01)


def test_a_state_that_nothing_bounds_is_taken_to_be_as_large_as_the_queues(tmp_path: Path) -> None:
    document = sized(tmp_path, "ISTREAM(SELECT k, x FROM s [UNBOUNDED])")
    (found,) = document.states
    assert (found.tuples, found.state_mib) == (None, 64.0)
    assert "q.f" in document.remarks[0]
    assert process(document, "executor").parts["states"] == 64.0


def test_a_stated_selectivity_says_how_many_groups_there_are(tmp_path: Path) -> None:
    statement = "RSTREAM(SELECT k, count(*) AS n FROM s [RANGE 1 DAY SLIDE 1 DAY] GROUP BY k)"
    many = state(tmp_path, statement)
    old, new = "outputs: {f: two}", "outputs: {f: two}\nestimates: {f: {selectivity: 0.00001}}"
    (few,) = sized(tmp_path, statement, old=old, new=new).states
    assert few.state_mib < many.state_mib / 1000


def test_without_a_cluster_there_is_nothing_to_size() -> None:
    with pytest.raises(InvalidInput, match="names no cluster") as refused:
        cluster_sizes(load([Path("examples/aircraft/streams.yaml")]))
    assert refused.value.exit_status == EXIT_REFUSED


def test_nothing_known_bounds_a_loop(tmp_path: Path) -> None:
    """Each tuple of it may give others."""
    loop = "ISTREAM(SELECT k FROM s [NOW] UNION ALL SELECT k FROM f [NOW])<1 SECOND>"
    found = state(tmp_path, loop)
    assert (found.way, found.tuples, found.state_mib) == ("compiled loop", None, 64.0)
