"""Starting and ending Spark within one process."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import psutil
import pytest

from orchestrator.embedded.java import SMALL_JVM, Java
from orchestrator.errors import Unreachable
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session
from tests.conftest import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("no_session")]


def test_session_leaves_no_trace(
    java: Java, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_security` starts a second one in the same process."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    interrupt = signal.getsignal(signal.SIGINT)
    before = dict(os.environ)
    settings = SessionSettings(
        name="first",
        work_dir=tmp_path / "the first",
        executors=1,
        java=java,
        # As `bench.failover` does: options of one's own must not move the temporary files.
        extra={"spark.driver.extraJavaOptions": shlex.join(SMALL_JVM)},
    )
    scratch = settings.work_dir / "scratch"
    session = start_session(settings)
    assert session.sparkContext.appName == "first"
    assert session.range(10).count() == 10
    below = psutil.Process().children(recursive=True)
    assert list(scratch.glob("liblz4*"))
    alive = [process for process in below if process.status() != psutil.STATUS_ZOMBIE]
    java_commands = [process.cmdline() for process in alive if process.name() == "java"]
    assert len(java_commands) == 2
    assert all(f"-Djava.io.tmpdir={scratch}" in command for command in java_commands)
    assert signal.getsignal(signal.SIGINT) is interrupt
    stop_session(session)
    assert not psutil.wait_procs(below, PATIENCE_S)[1]
    assert not scratch.exists()
    assert {name for name in os.environ if os.environ[name] != before.get(name)} <= {
        # Set by Spark for the Python processes it starts.
        "SPARK_AUTH_SOCKET_TIMEOUT",
        "SPARK_BUFFER_SIZE",
    }
    assert not list(Path.cwd().iterdir())
    assert capfd.readouterr() == ("", "")


def test_master_that_cannot_be_had_is_named_with_the_log(java: Java, tmp_path: Path) -> None:
    settings = SessionSettings(
        name="none", work_dir=tmp_path, executors=1, java=java, master="local-cluster[no]"
    )
    with pytest.raises(Unreachable, match=r"Spark at local-cluster\[no\] did not start") as refused:
        start_session(settings)
    assert str(tmp_path / "spark.log") in str(refused.value)
    assert not psutil.Process().children()
