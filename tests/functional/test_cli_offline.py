"""The real command, where there is no cluster to talk to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.context import ClusterContext, claim, publish, started_s

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]

VERBS = ("up", "down", "apply", "delete", "validate", "plan", "status", "tail", "history")

CLUSTER = """\
kind: Cluster
name: pair
nodes: [Paris, London]
sites: [{name: desk, region: Paris}]
"""

STREAM = """\
kind: Stream
name: positions
site: desk
columns: {icao24: string, altitude: float}
rate: 10 KB/s
"""

QUERY = """\
kind: Query
name: high
deadline: 300 ms
recovery: 300 ms
outputs: {high_ones: desk}
statements: |
  REGISTER QUERY high_ones RSTREAM(
    SELECT icao24 FROM positions [NOW] WHERE altitude > 30000);
"""


@pytest.fixture
def vivace(tmp_path: Path) -> Vivace:
    """Runs `vivace` with a home of its own."""
    environment = {**os.environ, "VIVACE_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    environment.pop("VIVACE_CLUSTER", None)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "orchestrator.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )

    return run


def pretend_cluster(home: Path, zookeeper: str) -> None:
    """A context file as a cluster run by this test's process would leave it."""
    context = ClusterContext(
        cluster="pair",
        pid=os.getpid(),
        started_s=started_s(psutil.Process()),
        folder=str(home),
        zookeeper=zookeeper,
        secret="secret",
    )
    claim(context, home)
    publish(context, home)


def write(folder: Path, **files: str) -> Path:
    """Manifests in a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(vivace: Vivace, verb: str) -> None:
    done = vivace(verb, "--help")
    assert done.returncode == 0
    assert f"Example: vivace {verb}" in " ".join(done.stdout.split())
    assert "--json" in done.stdout


@pytest.mark.slow
def test_help_lists_all_verbs(vivace: Vivace) -> None:
    shown = vivace().stdout
    assert all(verb in shown for verb in VERBS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("status",), ("down",), ("plan",), ("history",), ("tail", "x"), ("delete", "x")]
)
def test_no_cluster(vivace: Vivace, arguments: tuple[str, ...]) -> None:
    done = vivace(*arguments)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "error: no cluster is running here; `vivace up -f …` starts one\n"


@pytest.mark.slow
def test_errors_are_json_too(vivace: Vivace) -> None:
    done = vivace("status", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"], error["exit_status"]) == (3, "NoCluster", 3)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("fly",), ("status", "--fast"), ("tail",)])
def test_wrong_usage(vivace: Vivace, arguments: tuple[str, ...]) -> None:
    done = vivace(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_valid_manifests(vivace: Vivace, tmp_path: Path) -> None:
    folder = write(tmp_path / "all", cluster=CLUSTER, stream=STREAM, query=QUERY)
    done = vivace("validate", "-f", folder, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "cluster": "pair",
        "streams": ["positions"],
        "queries": {"high": {"high_ones": ["positions"]}},
    }
    assert "✓ query   high" in vivace("validate", "-f", folder).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("deadline:", "deadlin:", ("query.yaml:3", "deadlin", "Did you mean deadline?")),
        ("deadline: 300 ms", "deadline: soon", ("query.yaml:3", "deadline", "'soon'")),
        ("statements: |", "statements: {", ("query.yaml", "is not YAML")),
        ("FROM positions", "FROM position", ("query.yaml:8", "statements", "positions")),
        ("{high_ones: desk}", "{high_ones: disk}", ("outputs.high_ones", "'disk'", "desk")),
    ],
)
def test_bad_manifest_is_named_by_file_field_and_value(
    vivace: Vivace, tmp_path: Path, before: str, after: str, said: tuple[str, ...]
) -> None:
    bad = QUERY.replace(before, after)
    folder = write(tmp_path / "all", cluster=CLUSTER, stream=STREAM, query=bad)
    done = vivace("validate", "-f", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    for words in said:
        assert words in done.stderr


@pytest.mark.slow
def test_zookeeper_unreachable(vivace: Vivace, tmp_path: Path) -> None:
    pretend_cluster(tmp_path / "home", "127.0.0.1:1")
    began = time.monotonic()
    done = vivace("status", "--json")
    assert time.monotonic() - began < 15
    assert done.returncode == 3
    error = json.loads(done.stdout)["error"]
    assert "ZooKeeper at 127.0.0.1:1 did not answer" in error["message"]
    assert "vivace down --cluster pair" in error["message"]


@pytest.mark.slow
def test_up_refuses_a_taken_port(vivace: Vivace, tmp_path: Path) -> None:
    folder = write(tmp_path / "all", cluster=CLUSTER)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = vivace("up", "-f", folder, "--zookeeper-port", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: the port is taken" in done.stderr
    assert not list((tmp_path / "home").glob("*"))


@pytest.mark.slow
def test_up_refuses_a_second_cluster_of_a_name(vivace: Vivace, tmp_path: Path) -> None:
    pretend_cluster(tmp_path / "home", "127.0.0.1:1")
    done = vivace("up", "-f", write(tmp_path / "all", cluster=CLUSTER))
    assert done.returncode == 2
    assert "cluster pair runs here already" in done.stderr


@pytest.mark.slow
def test_up_needs_a_cluster_manifest(vivace: Vivace, tmp_path: Path) -> None:
    done = vivace("up", "-f", write(tmp_path / "all", query=QUERY))
    assert done.returncode == 2
    assert "holds no manifest of kind Cluster" in done.stderr
