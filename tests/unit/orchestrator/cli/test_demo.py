"""The demo keeps what explains a bad verdict."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator import api
from orchestrator.cli.main import run
from tests.unit.orchestrator.drills.test_processor_use import demo


class FinishedDemo:
    """Runs nothing, leaves a log, and finds the verdict that is set here."""

    found: api.Verdict

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def run(self, work: Path) -> api.Verdict:
        """Leave a log."""
        (work / "cluster.log").write_text("a log")
        return self.found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo's folder."""
    folder = tmp_path / "vivace-demo-1"
    folder.mkdir()

    def folder_made(prefix: str) -> str:
        assert prefix == "vivace-demo-"
        return str(folder)

    def nothing_loaded(_folder: Path, _speed: float | None) -> None:
        pass

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", folder_made)
    monkeypatch.setattr(api, "Demo", FinishedDemo)
    monkeypatch.setattr(api, "Example", SimpleNamespace(load=nothing_loaded))
    return folder


def test_bad_verdict_keeps_logs_and_archive_and_names_their_folder(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FinishedDemo, "found", demo(recovery_ms=900.0), raising=False)
    assert run(["demo"]) == 1
    assert f"Its logs and archive are kept in {work}\n" in capsys.readouterr().err
    assert (work / "cluster.log").exists()


def test_good_verdict_leaves_no_folder(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FinishedDemo, "found", demo(recovery_ms=100.0), raising=False)
    assert run(["demo"]) == 0
    assert "kept" not in capsys.readouterr().err
    assert not work.exists()
