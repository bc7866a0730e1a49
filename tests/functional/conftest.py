"""The real command, as people run it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from orchestrator.cli.main import run
from orchestrator.deploy.context import ClusterContext, claim, publish, started_s
from tests.functional.paper_cluster import manifests, store
from tests.web_process import TOKEN, web_process
from vivace.contexts import NAME_VARIABLES

__all__ = ["manifests", "store"]


class Vivace(Protocol):
    """Runs the command to its end."""

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]: ...


class Pretend(Protocol):
    """Leaves a context file as a cluster would whose process is this test's."""

    def __call__(self, cluster: str, zookeeper: str) -> None: ...


@pytest.fixture
def vivace(tmp_path: Path) -> Vivace:
    """`vivace` with a home of its own."""
    return vivace_at(tmp_path / "home")


def vivace_at(home: Path) -> Vivace:
    """`vivace` with this home."""
    environment = {**os.environ, "VIVACE_HOME": str(home), "COLUMNS": "120"}
    for name in NAME_VARIABLES:
        environment.pop(name, None)

    def start(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "orchestrator.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=600,
            env=environment,
            check=False,
        )

    return start


@pytest.fixture
def vivace_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vivace:
    """The same without a process of its own, of which each takes two seconds to begin."""
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    for name in NAME_VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        texts = [str(each) for each in arguments]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(texts)
        return subprocess.CompletedProcess(texts, status, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def pretend(tmp_path: Path) -> Iterator[Pretend]:
    """Makes `vivace` believe that a cluster runs, and serves its API."""
    with contextlib.ExitStack() as served:

        def leave(cluster: str, zookeeper: str) -> None:
            api = served.enter_context(web_process(zookeeper, cluster, "secret", tmp_path))
            context = ClusterContext(
                cluster=cluster,
                pid=os.getpid(),
                started_s=started_s(psutil.Process()),
                folder=str(tmp_path),
                zookeeper=zookeeper,
                secret="secret",
                api=api,
                token=TOKEN,
            )
            claim(context, tmp_path / "home")
            publish(context, tmp_path / "home")

        yield leave
