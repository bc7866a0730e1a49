"""Hosts on real Spark executors: killed, failing, stopped."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession

from orchestrator.embedded.java import Java
from orchestrator.embedded.spark_processes import executor_pids, kill_executor
from orchestrator.records import HostSpec, NodeKind
from orchestrator.spark.hosts.pool import (
    ExecutorLost,
    HostEnded,
    HostPool,
    HostSubmitted,
    PoolEvent,
)
from orchestrator.spark.hosts.session import (
    SessionExists,
    SessionSettings,
    start_session,
    stop_session,
)
from tests.conftest import PATIENCE_S, WaitUntil

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Recorder:
    """Keeps the pool's events."""

    def __init__(self) -> None:
        self.events: list[PoolEvent] = []

    def __call__(self, event: PoolEvent) -> None:
        self.events.append(event)

    def about(self, node: str) -> list[PoolEvent]:
        return [event for event in self.events if event.node == node]


def spec(node: str) -> HostSpec:
    return HostSpec(
        cluster="test",
        node=node,
        kind=NodeKind.EXECUTOR,
        region=node,
        zookeeper="",
        secret="",
    )


def counting_host(folder: Path) -> Callable[[HostSpec], None]:
    """A host that notes its pid, then counts until its executor is gone."""

    def run(spec: HostSpec) -> None:
        import os
        import time

        from orchestrator.host.shell.own_process import ParentWatchdog

        parent_watchdog = ParentWatchdog()
        (folder / f"{spec.node}.{os.getpid()}").touch()
        for number in itertools.count():
            (folder / spec.node).write_text(str(number))
            if parent_watchdog.parent_is_gone():
                return
            time.sleep(0.02)

    return run


def pids_of(folder: Path, node: str) -> set[int]:
    """All processes that have been a node's host so far."""
    return {int(file.suffix[1:]) for file in folder.glob(f"{node}.*")}


@pytest.fixture(scope="module")
def session(
    java: Java, tmp_path_factory: pytest.TempPathFactory, no_session: None
) -> Iterator[SparkSession]:
    settings = SessionSettings(
        name="pool test", work_dir=tmp_path_factory.mktemp("spark"), executors=2, java=java
    )
    session = start_session(settings)
    application = session.sparkContext.applicationId
    yield session
    below = psutil.Process().children(recursive=True)
    stop_session(session)
    _, alive = psutil.wait_procs(below, PATIENCE_S)
    assert not alive
    # Where Spark's executors work unless told otherwise.
    assert not (Path(pyspark.__file__).parent / "work" / application).exists()


def test_killed_executor_comes_back_under_its_node_and_spares_the_other(
    session: SparkSession, tmp_path: Path, wait_until: WaitUntil
) -> None:
    recorder = Recorder()
    pool = HostPool(session, [spec("paris"), spec("berlin")], counting_host(tmp_path), recorder)
    pool.start()
    try:
        for node in ("paris", "berlin"):
            wait_until(lambda node=node: len(pids_of(tmp_path, node)) == 1)
        (first,) = pids_of(tmp_path, "paris")
        (other,) = pids_of(tmp_path, "berlin")
        assert not set(executor_pids(first)) & set(executor_pids(other))

        killed = executor_pids(first)
        kill_executor(killed)

        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in killed))
        wait_until(lambda: len(pids_of(tmp_path, "paris")) == 2)
        assert pids_of(tmp_path, "berlin") == {other}
        assert psutil.pid_exists(other)
        submitted, lost, *rest = recorder.about("paris")
        assert submitted == HostSubmitted(node="paris", attempt=1)
        assert isinstance(lost, ExecutorLost)
        assert "Command exited with code 137" in lost.cause
        assert HostSubmitted(node="paris", attempt=2) in rest
        assert recorder.about("berlin") == [HostSubmitted(node="berlin", attempt=1)]
    finally:
        pool.stop()
    hosts = pids_of(tmp_path, "paris") | pids_of(tmp_path, "berlin")
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in hosts))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("host-")]


def test_host_dies_when_only_its_java_process_is_killed(
    session: SparkSession, tmp_path: Path, wait_until: WaitUntil
) -> None:
    recorder = Recorder()
    pool = HostPool(session, [spec("paris")], counting_host(tmp_path), recorder)
    pool.start()
    try:
        wait_until(lambda: len(pids_of(tmp_path, "paris")) == 1)
        (host,) = pids_of(tmp_path, "paris")
        os.kill(executor_pids(host)[0], 9)
        wait_until(lambda: not psutil.pid_exists(host))
    finally:
        pool.stop()


def test_failing_host_is_reported_and_tried_again(
    session: SparkSession, tmp_path: Path, wait_until: WaitUntil
) -> None:
    recorder = Recorder()

    def run(spec: HostSpec) -> None:
        raise ValueError(f"nothing to do on {spec.node}")

    pool = HostPool(session, [spec("paris")], run, recorder)
    pool.start()
    try:
        wait_until(lambda: HostSubmitted(node="paris", attempt=2) in recorder.events)
    finally:
        pool.stop()
    cause = "ValueError: nothing to do on paris"
    assert recorder.events[1] == HostEnded(node="paris", attempt=1, cause=cause)


def test_second_session_is_refused_and_the_first_left_alone(
    session: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SessionExists, match="'pool test'"):
        start_session(SessionSettings(name="second", work_dir=tmp_path, executors=1))
    assert session.range(3).count() == 3


parent = """
import sys, time
from pathlib import Path
from orchestrator.spark.hosts.session import SessionSettings, start_session
session = start_session(SessionSettings(name="orphan", work_dir=Path("spark"), executors=1))
session.range(1).count()
Path("started").touch()
time.sleep(600)
"""


def test_executors_die_with_a_killed_parent(tmp_path: Path, wait_until: WaitUntil) -> None:
    run = subprocess.Popen([sys.executable, "-c", parent], cwd=tmp_path)
    wait_until(lambda: (tmp_path / "started").exists())
    below = psutil.Process(run.pid).children(recursive=True)
    backends = [child for child in below if child.status() != psutil.STATUS_ZOMBIE]
    assert any("ExecutorBackend" in part for child in backends for part in child.cmdline())
    run.kill()
    run.wait()
    wait_until(lambda: not any(child.is_running() for child in below))
