"""The archive's folder is removed while its site runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from orchestrator.control.observe.view import read_view
from orchestrator.edges.sinks import opener, read_back
from orchestrator.manifest import load
from orchestrator.simulation.world.scenario import Scenario
from tests import drivers
from tests.simulation.test_drivers import LATENCIES, MANIFESTS

drivers.register()


def test_an_archive_that_is_removed_is_begun_anew_and_what_is_gone_counts_as_lost(
    tmp_path: Path,
) -> None:
    manifest, folder = tmp_path / "all.yaml", tmp_path / "edge"
    manifest.write_text(MANIFESTS)
    (tmp_path / "latency.csv").write_text(LATENCIES)
    open_sink = opener(folder)
    scenario = Scenario(load([manifest]), seed=1, open_sink=lambda _, a: open_sink(a))
    scenario.begin()
    scenario.run_for(5.0)
    assert read_back(folder, "kept").rows["number"][0].as_py() == 5
    shutil.rmtree(folder)
    scenario.run_for(5.0)
    # The archive has everything that follows, and says what it lacks.
    numbers = read_back(folder, "kept").rows["number"].to_pylist()
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 5
    assert len(numbers) >= 45
    lost = numbers[0] - 5
    assert sum(read_back(folder, "kept").completed_column("lost")) == lost
    sink = read_view(scenario.store).hosts["edge"].sinks["kept"]
    assert sink.lost == lost
    (problem,) = [p for p in read_view(scenario.store).hosts["edge"].problems if "kept" in p]
    assert f"kept: input lost: {lost} tuples" in problem
    told = [each.event for each in scenario.store.history() if each.event.subject == "kept"]
    (failed,) = [each.detail for each in told if each.kind == "sink failed"]
    assert "was removed or replaced while it was being written" in failed
    (gone,) = [each.detail for each in told if each.kind == "input lost"]
    assert f"{lost} tuples that no producer keeps, from 0 on" in gone
