"""Starting and ending, with processes that only exist on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import api
from orchestrator.api import lifecycle
from orchestrator.cli.main import run
from orchestrator.deploy.context import ClusterContext
from orchestrator.deploy.local.service import Order
from orchestrator.progress import Progress

TEXT = "kind: Cluster\nname: pair\nnodes: [Paris, London]\nsites: [desk]\n"


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "home"))
    file = tmp_path / "cluster.yaml"
    file.write_text(TEXT)
    return file


def started(order: Order) -> ClusterContext:
    return ClusterContext(
        cluster=order.manifest.name,
        pid=7,
        started_s=0.0,
        folder=str(order.data),
        zookeeper=f"127.0.0.1:{order.zookeeper_port}",
    )


def in_background(order: Order, on_progress: Progress) -> ClusterContext:
    on_progress("Spark", "starting")
    return started(order)


def in_foreground(
    order: Order, on_progress: Progress, on_ready: Callable[[ClusterContext], None]
) -> None:
    on_ready(started(order))


def test_up_says_what_it_does_not_apply(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    assert run(["up", "-f", str(manifest)]) == 0
    assert "Not applied" not in capsys.readouterr().err
    stream = "kind: Stream\nname: s\nsite: desk\ncolumns: {k: int}\nrate: 1 KB/s\n"
    (manifest.parent / "stream.yaml").write_text(stream)
    assert run(["up", "-f", str(manifest.parent)]) == 0
    said = f"Not applied yet: stream s. `vivace apply -f {manifest.parent}` does it."
    assert said in capsys.readouterr().err


def test_up_on_a_folder_with_a_cluster_says_that_it_goes_on(
    manifest: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    data = tmp_path / "data"
    command = ["up", "-f", str(manifest.parent), "--data", str(data)]
    stream = "kind: Stream\nname: s\nsite: desk\ncolumns: {k: int}\nrate: 1 KB/s\n"
    (manifest.parent / "stream.yaml").write_text(stream)
    assert run(command) == 0
    assert "Next: `vivace apply -f" in capsys.readouterr().out
    (data / "zookeeper").mkdir(parents=True)
    assert run(command) == 0
    told = capsys.readouterr()
    assert "Cluster pair is ready, with all that it ran before." in told.out
    assert "Next: `vivace status`" in told.out
    said = f"What ran before goes on. `vivace apply -f {manifest.parent}` would change it to stream"
    assert said in told.err
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["goes_on"] is True


def test_up_says_that_one_node_can_run_no_query(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    assert run(["up", "-f", str(manifest)]) == 0
    assert "which needs two" not in capsys.readouterr().err
    manifest.write_text(TEXT.replace("[Paris, London]", "[Paris]"))
    assert run(["up", "-f", str(manifest)]) == 0
    said = "! Cluster pair has one node: it can run no query, which needs two."
    assert said in capsys.readouterr().err


def test_up_returns_how_to_reach_the_cluster(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    steps: list[str] = []

    def told(step: str, detail: str) -> None:
        steps.append(f"{step}: {detail}")

    document = api.up(api.load([manifest]), data=tmp_path, on_progress=told)
    assert (document.cluster, document.pid, document.nodes, document.sites) == (
        "pair",
        7,
        ("paris", "london"),
        ("desk",),
    )
    assert document.logs == str(tmp_path / "logs")
    assert steps == ["Spark: starting"]


@pytest.mark.parametrize("foreground", [False, True])
def test_command_prints_one_document(
    manifest: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    foreground: bool,
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    monkeypatch.setattr(lifecycle, "run", in_foreground)
    options = ["--foreground"] if foreground else []
    assert run(["up", "-f", str(manifest), "--data", str(tmp_path), "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["example"] == str(tmp_path)
    assert run(["up", "-f", str(manifest), "--data", str(tmp_path), *options]) == 0
    assert "Cluster pair is ready." in capsys.readouterr().out


def test_up_needs_a_cluster_manifest() -> None:
    with pytest.raises(api.InvalidInput, match="holds no manifest of kind Cluster"):
        api.up(api.Manifests(cluster=None, streams=(), queries=()))


@pytest.mark.parametrize(
    ("below", "problem"),
    [("file", "is no folder"), ("file/data", "cannot be made: .*file is no folder")],
)
def test_data_that_can_be_no_folder_are_refused_before_anything_starts(
    manifest: Path, tmp_path: Path, below: str, problem: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(api.InvalidInput, match=f"command line: --data: .* {problem}") as caught:
        api.up(api.load([manifest]), data=tmp_path / below)
    assert (caught.value.field, caught.value.exit_status) == ("--data", 2)


def test_a_name_that_is_too_long_for_a_folder_is_refused(manifest: Path, tmp_path: Path) -> None:
    with pytest.raises(api.InvalidInput, match=r"cannot be made: File name too long\. Name a fold"):
        api.up(api.load([manifest]), data=tmp_path / ("d" * 300))


def test_data_may_be_in_folders_that_are_yet_to_be_made(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle.background, "start", in_background)
    assert api.up(api.load([manifest]), data=tmp_path / "a" / "b").folder.endswith("a/b")


def test_a_port_for_a_zookeeper_that_runs_already_is_refused(manifest: Path) -> None:
    manifest.write_text(TEXT + "zookeeper: zk:2181\n")
    with pytest.raises(api.InvalidInput, match="runs already, so that none is started at port 99"):
        api.up(api.load([manifest]), zookeeper_port=99)
