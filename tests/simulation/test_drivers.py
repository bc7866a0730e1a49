"""A source and a sink that this code base does not know reach a query through a manifest."""

from __future__ import annotations

from pathlib import Path

from orchestrator.edges.sinks import opener, read_back
from orchestrator.manifest import load
from orchestrator.simulation.world.scenario import Scenario
from tests import drivers

drivers.register()

MANIFESTS = """\
kind: Cluster
name: drivers
nodes: [one, two]
sites: [edge]
latencies: latency.csv
---
kind: Stream
name: drawn
site: edge
columns: {number: int}
rate: 1 KB/s
from: {numbers: {every: 100 ms, first: 5}}
---
kind: Query
name: doubling
deadline: 500 ms
recovery: 1 s
outputs:
  doubled: {site: edge, to: {text_file: {separator: ";"}}}
  kept: edge
statements: |
  REGISTER QUERY doubled RSTREAM(SELECT 2 * number AS number FROM drawn [NOW]);
  REGISTER QUERY kept RSTREAM(SELECT number FROM drawn [NOW]);
"""


LATENCIES = ",one,two,edge\none,1,8,6\ntwo,8,1,7\nedge,6,7,1\n"


def test_own_drivers_reach_a_query_through_a_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "all.yaml"
    manifest.write_text(MANIFESTS)
    (tmp_path / "latency.csv").write_text(LATENCIES)
    folder = tmp_path / "edge"
    open_sink = opener(folder)
    scenario = Scenario(load([manifest]), seed=1, open_sink=lambda _, a: open_sink(a))
    scenario.begin()
    scenario.run_for(5.0)
    lines = [line.split(";") for line in (folder / "doubled.txt").read_text().splitlines()]
    numbers = [int(number) for _, number in lines]
    assert len(numbers) >= 45
    assert numbers == [2 * number for number in range(5, 5 + len(numbers))]
    assert {int(at) % 100 for at, _ in lines} == {int(lines[0][0]) % 100}
    # The other output names no sink: it is in the site's archive.
    assert read_back(folder, "kept").rows["number"].to_pylist()[:3] == [5, 6, 7]
