"""`vivace bulk`: what it refuses, and what it makes of tables."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]

NODES = 40

pytestmark = pytest.mark.slow


def latencies(folder: Path, *more: tuple[str, str, float]) -> Path:
    """Round trips among nodes on a line, and some more."""
    file = folder / "latencies.parquet"
    pairs = [(a, b) for a in range(NODES) for b in range(NODES) if a != b and (a + b) % 3 == 0]
    samples = [(f"n{a:02}", f"n{b:02}", 2.0 * abs(a - b)) for a, b in pairs]
    node, peer, rtt_ms = zip(*samples, *more, strict=True)
    pq.write_table(pa.table({"node": node, "peer": peer, "rtt_ms": rtt_ms}), file)
    return file


def nodes(folder: Path) -> Path:
    file = folder / "nodes.parquet"
    names = [f"n{node:02}" for node in range(NODES)]
    pq.write_table(pa.table({"node": names, "x0": np.arange(NODES) * 2.0}), file)
    return file


def queries(folder: Path, *rows: tuple[str, str, str]) -> Path:
    """Queries of one operator to be placed: name, node of the source, node of the sink."""
    file = folder / "queries.parquet"
    given = [
        {
            "query": name,
            "recovery_bound_ms": 200.0,
            "operators": [
                {"operator": "source", "node": source},
                {"operator": "filter", "node": None},
                {"operator": "sink", "node": sink},
            ],
            "links": [
                {"source": "source", "target": "filter", "rate_bytes_s": 1000.0},
                {"source": "filter", "target": "sink", "rate_bytes_s": 100.0},
            ],
        }
        for name, source, sink in rows
    ]
    pq.write_table(pa.Table.from_pylist(given), file)
    return file


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("rtt_ms", [-1.0, float("nan")])
def test_a_sample_that_cannot_be_used_is_refused_and_nothing_written(
    vivace_here: Vivace, tmp_path: Path, rtt_ms: float
) -> None:
    given = latencies(tmp_path, ("n00", "n01", rtt_ms))
    row = pq.read_table(given).num_rows
    before = files(tmp_path)
    done = vivace_here("bulk", "coordinates", given, "--out", tmp_path / "out", "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert (error["file"], error["field"]) == (f"{given}, row {row}", "rtt_ms")
    assert error["remedy"] == "Write a number ≥ 0."
    assert files(tmp_path) == before


def test_an_unknown_node_is_refused_and_nothing_written(
    vivace_here: Vivace, tmp_path: Path
) -> None:
    tables = nodes(tmp_path), queries(tmp_path, ("q1", "n01", "n05"), ("q2", "n1", "n07"))
    before = files(tmp_path)
    done = vivace_here(
        "bulk", "place", "--nodes", tables[0], "--queries", tables[1], "--out", tmp_path / "plan"
    )
    assert done.returncode == 2
    assert f"{tables[1]}, row 2: operators.node: 'n1' is no node of {tables[0]}" in done.stderr
    assert files(tmp_path) == before


def test_a_folder_that_exists_is_refused_before_tables_are_read(
    vivace_here: Vivace, tmp_path: Path
) -> None:
    done = vivace_here("bulk", "coordinates", "absent.parquet", "--out", tmp_path)
    assert done.returncode == 2
    assert f"--out: '{tmp_path}' exists" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "5"), "--sample: 5 has no effect without --check"),
        (("--conf", "memory"), "--conf: 'memory' is no setting"),
    ],
)
def test_options_without_effect_or_sense_are_refused(
    vivace_here: Vivace, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = vivace_here("bulk", "place", "--nodes", "a", "--queries", "b", "--out", "c", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.spark
def test_latencies_become_coordinates_and_these_a_plan(vivace: Vivace, tmp_path: Path) -> None:
    # A sample that says nothing is counted, not refused.
    given = latencies(tmp_path, ("n00", "n00", 0.0))
    asked = queries(tmp_path, *((f"q{i}", f"n{i:02}", f"n{i + 5:02}") for i in range(20)))
    out, plan = tmp_path / "nodes", tmp_path / "plan"
    found = vivace("bulk", "coordinates", given, "--out", out, "--dimensions", "2", "--json")
    assert found.returncode == 0, found.stderr
    coordinates = json.loads(found.stdout)
    assert (coordinates["nodes"], coordinates["rejected"]) == (NODES, 1)
    assert sorted(pq.read_table(out).column_names) == ["error", "node", "x0", "x1"]
    place = ("bulk", "place", "--nodes", out, "--queries", asked, "--out", plan)
    done = vivace(*place, "--round-size", "5", "--check")
    assert done.returncode == 0, done.stderr
    assert "cost beside the sequential planner, on 20 queries; 0 refused" in done.stdout
    placements = pq.read_table(plan / "placements.parquet").to_pylist()
    assert [each["query"] for each in placements] == [f"q{i}" for i in range(20)]
    again = vivace(*place, "--round-size", "5", "--overwrite", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == json.loads((plan / "_result.json").read_text())
    assert pq.read_table(plan / "placements.parquet").to_pylist() == placements
    assert files(tmp_path) == sorted([given.name, asked.name, "nodes", "plan"])
