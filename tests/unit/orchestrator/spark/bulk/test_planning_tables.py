"""Tables of nodes and queries become a network and requests, or are refused row by row."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.planning_tables import (
    check_latencies,
    latency_files,
    read_nodes,
    read_queries,
    write_plan,
)
from placement.bulk import plan_in_rounds
from placement.records import Request

QUERY: dict[str, Any] = {
    "query": "near",
    "recovery_bound_ms": 100.0,
    "operators": [
        {"operator": "camera", "node": "a", "cost_us": None, "cores": None, "allowed": None},
        {"operator": "detect", "node": None, "cost_us": 50.0, "cores": 0.5, "allowed": ["b", "c"]},
        {"operator": "screen", "node": "c", "cost_us": None, "cores": None, "allowed": None},
    ],
    "links": [
        {"source": "camera", "target": "detect", "rate_bytes_s": 1e3, "tuples_s": 10.0},
        {"source": "detect", "target": "screen", "rate_bytes_s": 10.0, "tuples_s": None},
    ],
}


def nodes(folder: Path, **columns: list[Any]) -> Path:
    file = folder / "nodes.parquet"
    given = {"node": ["a", "b", "c"], "x0": [0.0, 1.0, 2.0], "x1": [0.0] * 3} | columns
    pq.write_table(pa.table(given), file)
    return file


def queries(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "queries.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), file)
    return file


def read(folder: Path, *rows: dict[str, Any]) -> list[Request]:
    file = nodes(folder)
    return read_queries(queries(folder, *rows), read_nodes(file), file)


def test_nodes_have_the_figures_of_their_columns(tmp_path: Path) -> None:
    file = nodes(
        tmp_path,
        capacity_cores=[4.0, None, 1.0],
        domain=["rack", None, "rack"],
        hosts_operators=[True, True, False],
        operators=[0, 3, 0],
        error=[0.1, 0.1, 0.1],
    )
    view = read_nodes(file)
    assert view.positions_ms.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert [node.capacity_cores for node in view.nodes] == [4, math.inf, 1]
    assert [node.domain for node in view.nodes] == ["rack", "", "rack"]
    assert [node.name for node in view.hosts] == ["a", "b"]
    assert view.nodes[1].operators == 3
    assert (view.nodes[0].cpu_ms, view.nodes[0].error_ms) == (0, 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"node": ["a", "b", "a"]}, "row 3: node: 'a' occurs twice"),
        ({"x1": [0.0, math.nan, 0.0]}, "row 2: x1: nan is no number"),
        ({"cpu_ms": [0.0, 0.0, -1.0]}, "row 3: cpu_ms: -1.0 is below 0"),
        ({"capacity_cores": [1.0, 0.0, 1.0]}, "row 2: capacity_cores: 0.0 is not > 0"),
        ({"hosts_operators": [False] * 3}, "hosts_operators: is false for all nodes"),
    ],
)
def test_a_node_that_cannot_be_used_is_refused_with_its_row(
    tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_nodes(nodes(tmp_path, **columns))


def test_nodes_without_coordinates_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"node": ["a"], "x1": [1.0]}), file)
    with pytest.raises(InvalidInput, match="x0: is missing among the columns node, x1"):
        read_nodes(file)


def test_a_query_has_operators_of_its_own(tmp_path: Path) -> None:
    first, second = read(tmp_path, QUERY, QUERY | {"query": "far"})
    assert first.graph.to_place == ("near.detect",)
    assert second.graph.pinned == {"far.camera": "a", "far.screen": "c"}
    assert (first.deadline_ms, first.recovery_bound_ms, first.detection_ms) == (1e9, 100, 0)
    detect = first.graph.by_name["near.detect"]
    assert (detect.cost_us, detect.cores, detect.allowed) == (50, 0.5, ("b", "c"))
    assert first.graph.input_rate("near.detect") == 1e3


def changed(path: str, value: object) -> dict[str, Any]:
    """Another query, of which one field is otherwise: `links.0.source`."""
    query = copy.deepcopy(QUERY) | {"query": "far"}
    *way, last = path.split(".")
    place: Any = query
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return query


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("query", "near", "row 2: query: 'near' occurs twice"),
        ("recovery_bound_ms", -1.0, "row 2: recovery_bound_ms: -1.0 is below 0"),
        (
            "operators.0.node",
            "d",
            r"row 2: operators.node: 'd' is no node of .*nodes\.parquet\. Known: a, b, c\.",
        ),
        ("operators.1.allowed", ["x"], "row 2: operators.allowed: 'x' is no node"),
        ("operators.1.cost_us", -5.0, "row 2: operators.cost_us: -5.0 is not a number ≥ 0"),
        ("links.0.rate_bytes_s", math.nan, "row 2: links.rate_bytes_s: nan is not a number ≥ 0"),
        ("links.0.rate_bytes_s", None, "row 2: links.rate_bytes_s: is missing"),
        ("links.1.target", None, "row 2: links.target: is missing"),
        (
            "links.0.source",
            "cam",
            "row 2: query far: links: link cam → detect: no operator is named 'cam'",
        ),
        ("links", QUERY["links"][1:], "row 2: query far: operators: operator detect: has no input"),
    ],
)
def test_a_query_that_cannot_be_used_is_refused_with_its_row(
    tmp_path: Path, path: str, value: object, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, QUERY, changed(path, value))


def test_operators_that_are_no_list_of_structs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="row 1: operators: is no list of structs"):
        read(tmp_path, QUERY | {"operators": "camera"})


def test_a_plan_is_written_with_refusals(tmp_path: Path) -> None:
    calm = QUERY | {"detection_ms": 5.0}
    hasty = calm | {"query": "hasty", "recovery_bound_ms": 1.0}
    file = nodes(tmp_path)
    view = read_nodes(file)
    requests = read_queries(queries(tmp_path, calm, hasty), view, file)
    found = plan_in_rounds(requests, view, rng=np.random.default_rng(1))
    write_plan(tmp_path, requests, found)
    (placed,) = pq.read_table(tmp_path / "placements.parquet").to_pylist()
    assert (placed["query"], placed["operator"]) == ("near", "detect")
    assert placed["primary"] != placed["secondary"]
    near, refused = pq.read_table(tmp_path / "queries.parquet").to_pylist()
    assert near["refusal"] is None
    assert near["network_usage_bytes"] > near["standby_usage_bytes"] >= 0
    assert "operator detect: no node can stand by within 1 ms" in refused["refusal"]
    assert refused["network_usage_bytes"] is None


def samples(folder: Path, text: str) -> Path:
    file = folder / "latencies.csv"
    file.write_text(f"node,peer,rtt_ms\n{text}", encoding="utf-8")
    return file


def test_latencies_in_csv_become_parquet(tmp_path: Path) -> None:
    file = samples(tmp_path, "a,b,1.5\nb,c,0\n")
    assert check_latencies(file) == 2
    (copied,) = latency_files(file, tmp_path / "aside")
    assert pq.read_table(copied).to_pydict() == {
        "node": ["a", "b"], "peer": ["b", "c"], "rtt_ms": [1.5, 0.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,-1\n", "row 1: rtt_ms: -1.0 is below 0"),
        ("a,,1\n", "row 1: peer: is missing"),
        ("", "has no rows"),
        ("a,b,0\na,a,5\nb,a,10001\n", "has no sample of two nodes that says something"),
    ],
)
def test_latencies_that_cannot_be_used_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_latencies(samples(tmp_path, text))


def test_nodes_that_are_named_in_two_ways_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "latencies.parquet"
    pq.write_table(pa.table({"node": [1], "peer": ["1"], "rtt_ms": [1.0]}), file)
    with pytest.raises(InvalidInput, match="peer: holds texts"):
        check_latencies(file)
