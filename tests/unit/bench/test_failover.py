"""What `failover` gives of several systems."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench.failover
from bench.failover import SYSTEMS, failover
from bench.registry import Settings
from bench.silence import Measurement
from orchestrator.errors import VivaceError


def settings(folder: Path, said: list[str]) -> Settings:
    return Settings(quick=True, folder=folder, say=said.append)


def fails(_runs: int, _settings: Settings) -> Measurement:
    raise VivaceError("no output after 240 s")


def succeeds(_runs: int, _settings: Settings) -> Measurement:
    return Measurement(gaps_ms=[30.0, 40.0])


@pytest.mark.slow
def test_a_system_that_gives_nothing_does_not_take_the_others_figures_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    systems = {"spark": fails, "ours": succeeds}
    monkeypatch.setattr(bench.failover, "SYSTEMS", systems)
    found = failover(settings(tmp_path, said))
    assert found["ours.gap_ms_median"] == 35.0
    assert {key: value for key, value in found.items() if key.startswith("spark")} == {
        "spark.failed": 1.0
    }
    assert said == ["spark: no output after 240 s"]


def test_if_no_system_gives_anything_the_first_one_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.failover, "SYSTEMS", dict.fromkeys(SYSTEMS, fails))
    with pytest.raises(VivaceError, match="no output after 240 s"):
        failover(settings(tmp_path, []))
