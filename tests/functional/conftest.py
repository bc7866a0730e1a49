"""The real command, as people run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from orchestrator.deploy.context import ClusterContext, claim, publish, started_s


class Vivace(Protocol):
    """Runs the command to its end."""

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]: ...


class Pretend(Protocol):
    """Leaves a context file as a cluster would whose process is this test's."""

    def __call__(self, cluster: str, zookeeper: str) -> None: ...


@pytest.fixture
def vivace(tmp_path: Path) -> Vivace:
    """`vivace` with a home of its own."""
    environment = {**os.environ, "VIVACE_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    environment.pop("VIVACE_CLUSTER", None)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "orchestrator.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=240,
            env=environment,
            check=False,
        )

    return run


@pytest.fixture
def pretend(tmp_path: Path) -> Pretend:
    """Makes `vivace` believe that a cluster runs."""

    def leave(cluster: str, zookeeper: str) -> None:
        context = ClusterContext(
            cluster=cluster,
            pid=os.getpid(),
            started_s=started_s(psutil.Process()),
            folder=str(tmp_path),
            zookeeper=zookeeper,
            secret="secret",
        )
        claim(context, tmp_path / "home")
        publish(context, tmp_path / "home")

    return leave
