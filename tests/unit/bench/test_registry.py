"""Finding benchmarks by name, and what is written about a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import registry, report
from bench.__main__ import application
from bench.failover import failover, figures
from bench.registry import Settings, benchmark, benchmarks, find
from bench.silence import Measurement
from orchestrator.errors import InvalidInput


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that the test may add to."""
    monkeypatch.setattr(registry, "_registered", dict(benchmarks()))


def test_failover_is_found_and_described_by_its_docstring() -> None:
    found = find("failover")
    assert found.run is failover
    assert found.summary.startswith("Longest silence at the sink")


def test_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"'failver' is not a benchmark.*failover"):
        find("failver")


@pytest.mark.usefixtures("nothing_else")
def test_two_benchmarks_of_one_name_are_a_bug() -> None:
    with pytest.raises(ValueError, match="two benchmarks are named 'failover'"):
        benchmark("failover")(failover)


def test_figures_are_flat_and_keyed_by_system() -> None:
    measured = Measurement(gaps_ms=[80.0, 100.0, 90.0], counts={"lost": 0, "repeated": 0})
    assert figures({"ours": measured}) == {
        "ours.gap_ms_median": 90.0,
        "ours.gap_ms_min": 80.0,
        "ours.gap_ms_max": 100.0,
        "ours.kills": 3,
        "ours.lost": 0,
        "ours.repeated": 0,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_else")
def test_run_writes_the_report_and_prints_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    @benchmark("trial")
    def trial(settings: Settings) -> Mapping[str, float]:
        """A trial."""
        seen.append(settings)
        settings.say("the first [half]")
        return {"ours.gap_ms_median": 90.5}

    monkeypatch.setattr("bench.__main__.ROOT", tmp_path)
    wanted = tmp_path / "some" / "out.json"
    done = CliRunner().invoke(application, ["run", "trial", "--quick", "--json", str(wanted)])
    assert done.exit_code == 0, done.output
    assert "90.5" in done.output
    # Nobody sees a status line here.
    assert re.search(r"^\d\d:\d\d:\d\d the first \[half\]$", done.stderr, re.M)
    written = json.loads(wanted.read_text())
    assert written == json.loads((tmp_path / "build/bench/trial/trial.json").read_text())
    assert list(written) == ["benchmark", "commit", "machine", "figures"]
    assert written["benchmark"] == "trial"
    assert written["figures"] == {"ours.gap_ms_median": 90.5}
    assert written["machine"]["cores"] >= 1
    assert [settings.quick for settings in seen] == [True]
    assert trial.__doc__ == "A trial."


@pytest.mark.usefixtures("nothing_else")
def test_a_run_whose_results_are_wrong_is_written_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @benchmark("wrong")
    def wrong(_: Settings) -> Mapping[str, float]:
        """A trial."""
        return {"q0.correct": 0.0, "q1.correct": 1.0, "equal": 1.0, "violations": 2.0}

    assert wrong.__doc__
    monkeypatch.setattr("bench.__main__.ROOT", tmp_path)
    done = CliRunner().invoke(application, ["run", "wrong"])
    assert done.exit_code == 1
    assert done.stderr == "error: q0.correct is 0, not 1; violations is 2, not 0\n"
    assert (tmp_path / "build/bench/wrong/wrong.json").exists()


def test_unknown_benchmark_exits_with_2_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.__main__.ROOT", tmp_path)
    done = CliRunner().invoke(application, ["run", "nonesuch"])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nothing_else")
def test_a_matrix_reaches_only_a_benchmark_that_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path | None] = []

    @benchmark("tabled", takes_matrix=True)
    def tabled(settings: Settings) -> Mapping[str, float]:
        """Takes a table."""
        seen.append(settings.matrix)
        return {}

    @benchmark("tableless")
    def tableless(settings: Settings) -> Mapping[str, float]:
        """Takes none."""
        return {}

    monkeypatch.setattr("bench.__main__.ROOT", tmp_path)
    arguments = ["--matrix", str(tmp_path / "rtt.npy")]
    assert CliRunner().invoke(application, ["run", "tabled", *arguments]).exit_code == 0
    assert seen == [tmp_path / "rtt.npy"]
    refused = CliRunner().invoke(application, ["run", "tableless", *arguments])
    assert refused.exit_code == 2
    assert "of no use to tableless" in " ".join(refused.output.split())
    assert {tabled.__doc__, tableless.__doc__} == {"Takes a table.", "Takes none."}


def test_commit_is_empty_outside_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert report.commit() == ""
