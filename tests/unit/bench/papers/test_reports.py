"""Which benchmarks are run for the papers, and which reports are taken as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.papers import reports as module
from bench.papers.reports import RUNS, Report, Run, reports
from bench.registry import benchmarks

NOW = "a" * 40


def found(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    commit: str = NOW,
    quick: bool = False,
    reuse: bool = False,
    runs: Sequence[Run] = (
        Run(benchmark="deadline", whole=("--only", "sim")),
        Run(benchmark="cli", quick=None),
        Run(benchmark="none"),
    ),
) -> tuple[dict[str, Report], list[str]]:
    """The reports of two runs, and which of them were measured."""
    measured: list[str] = []

    def measure(name: str, arguments: Sequence[str], path: Path) -> Report:
        measured.append(name)
        report = {"commit": commit, "arguments": list(arguments), "figures": {"x": 1.0}}
        path.write_text(json.dumps(report))
        return report

    monkeypatch.setattr(module, "RUNS", runs)
    monkeypatch.setattr(module, "_measured", measure)
    monkeypatch.setattr(module, "commit", lambda: commit)
    return reports(folder, quick=quick, reuse=reuse, say=lambda _: None), measured


def test_what_was_measured_at_this_commit_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, measured = found(tmp_path, monkeypatch)
    assert sorted(measured) == ["cli", "deadline"]
    again, measured = found(tmp_path, monkeypatch)
    assert (again, measured) == (first, [])


@pytest.mark.parametrize("commit", ["b" * 40, f"{NOW}+"])
def test_another_commit_and_changed_files_are_measured_again_unless_reuse_is_asked_for(
    commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(tmp_path, monkeypatch)
    assert found(tmp_path, monkeypatch, commit=commit, reuse=True)[1] == []
    assert sorted(found(tmp_path, monkeypatch, commit=commit)[1]) == ["cli", "deadline"]


def test_a_quick_run_has_arguments_of_its_own_and_leaves_some_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(tmp_path, monkeypatch)
    quick, measured = found(tmp_path, monkeypatch, quick=True)
    assert measured == ["deadline"]
    assert quick["deadline"]["arguments"] == ["--quick"]
    assert "quick" in quick["cli"]["failed"]


def test_two_runs_of_a_benchmark_have_reports_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (Run(benchmark="deadline"), Run(benchmark="deadline", part="real", quick=None))
    first, measured = found(tmp_path, monkeypatch, runs=runs)
    assert measured == ["deadline", "deadline"]
    assert [*first] == ["deadline", "deadline_real"]
    assert {each["benchmark"] for each in first.values()} == {"deadline"}
    assert found(tmp_path, monkeypatch, runs=runs)[1] == []


def test_a_benchmark_that_does_not_exist_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no benchmark none" in found(tmp_path, monkeypatch)[0]["none"]["failed"]


def test_a_benchmark_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    path = tmp_path / "no.json"
    report = module._measured("no_such_benchmark", (), path)  # pyright: ignore[reportPrivateUsage]
    assert report["status"] == 2
    assert "is not a benchmark" in report["failed"]
    assert not path.exists()


def test_the_kinds_that_are_asked_for_exist() -> None:
    known = benchmarks()
    for run in RUNS:
        if run.benchmark not in known:
            continue
        for arguments in (run.whole, run.quick or ()):
            kinds = [word for word in arguments if not word.startswith("--")]
            assert set(kinds) <= set(known[run.benchmark].kinds)
