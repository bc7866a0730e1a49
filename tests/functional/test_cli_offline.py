"""The real command, without a running cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.deploy.context import ClusterContext, claim, publish, started_s

pytestmark = pytest.mark.slow

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]
Pretend = Callable[[str, str], None]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster's manifest."""
    file = tmp_path / "cluster.yaml"
    file.write_text("kind: Cluster\nname: pair\nnodes: [Paris, London]\n")
    return file


def test_error_goes_to_standard_error(vivace: Vivace) -> None:
    done = vivace("status")
    assert done.returncode == 3
    assert done.stdout == ""
    said = "`vivace up -f …` starts one, with `--data FOLDER` that of before"
    assert done.stderr == f"error: no cluster is running here; {said}\n"


def test_help(vivace: Vivace) -> None:
    done = vivace("--help")
    assert done.returncode == 0
    assert "tail" in done.stdout


@pytest.fixture
def pretend(tmp_path: Path) -> Pretend:
    """Makes `vivace` believe that a cluster runs whose API does not respond."""

    def leave(cluster: str, _: str) -> None:
        context = ClusterContext(
            cluster=cluster,
            pid=os.getpid(),
            started_s=started_s(psutil.Process()),
            folder=str(tmp_path),
            api="http://127.0.0.1:1",
            token="token",
        )
        claim(context, tmp_path / "home")
        publish(context, tmp_path / "home")

    return leave


def test_an_api_that_is_away_is_waited_for_and_the_cluster_not_ended(
    vivace: Vivace, pretend: Pretend
) -> None:
    pretend("pair", "")
    done = vivace("status", "--json")
    assert done.returncode == 3
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "Unreachable"
    assert "The cluster's HTTP API at http://127.0.0.1:1 does not answer" in error["message"]
    assert "Data flows on in cluster pair" in error["message"]
    assert "logs/cluster.log" in error["remedy"]


def test_up_refuses_a_taken_port(vivace: Vivace, cluster: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = vivace("up", "-f", cluster, "--zookeeper-port", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: the port is taken" in done.stderr
    assert not (tmp_path / "home").exists()


def test_up_refuses_a_second_cluster_of_a_name(
    vivace: Vivace, pretend: Pretend, cluster: Path
) -> None:
    pretend("pair", "127.0.0.1:1")
    done = vivace("up", "-f", cluster)
    assert done.returncode == 2
    assert "cluster pair runs here already" in done.stderr
