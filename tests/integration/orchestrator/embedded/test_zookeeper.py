"""The embedded ZooKeeper, as a real process."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import LOOPBACK, PortTaken
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.errors import Unreachable

pytestmark = pytest.mark.zookeeper

parent = """
import sys, time
from pathlib import Path
from orchestrator.embedded.java import Java
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
server = EmbeddedZooKeeper(Java(home=Path(sys.argv[1]), version=17), Path("zookeeper"))
server.start()
Path("started").touch()
time.sleep(600)
"""


@contextlib.contextmanager
def client_of(server: EmbeddedZooKeeper) -> Generator[KazooClient]:
    client = KazooClient(server.connect_string)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_data_and_port_survive_a_restart(java: Java, tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(java, tmp_path / "with space")
    with server, client_of(server) as client:
        port = server.port
        temporary = tmp_path / "with space" / "tmp"
        assert server.process is not None
        below = psutil.Process(server.process.pid).children(recursive=True)
        assert any(f"-Djava.io.tmpdir={temporary}" in child.cmdline() for child in below)
        client.create_async("/kept", b"value").get()
    assert not temporary.exists()
    with server, client_of(server) as client:
        assert client.get_async("/kept").get()[0] == b"value"
        assert server.port == port


def test_crash_is_followed_by_a_restart_on_the_same_data(java: Java, tmp_path: Path) -> None:
    with EmbeddedZooKeeper(java, tmp_path) as server:
        with client_of(server) as client:
            client.create_async("/kept", b"value").get()
        assert server.process is not None
        server.process.kill()
        server.start()
        with client_of(server) as client:
            assert client.get_async("/kept").get()[0] == b"value"


def test_taken_port_is_named(java: Java, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        port = int(other.getsockname()[1])
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}: the port is taken") as refused:
            EmbeddedZooKeeper(java, tmp_path, port).start()
    assert refused.value.exit_status == 2


def test_failure_to_start_names_the_log(tmp_path: Path) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 3\n")
    (home / "bin" / "java").chmod(0o755)
    server = EmbeddedZooKeeper(Java(home=home, version=17), tmp_path / "zookeeper")
    with pytest.raises(Unreachable, match=r"exit status 3\. Its log is .*zookeeper\.log"):
        server.start()


def test_server_dies_with_a_killed_parent(
    java: Java, tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    run = subprocess.Popen([sys.executable, "-c", parent, str(java.home)], cwd=tmp_path)
    wait_until(lambda: (tmp_path / "started").exists())
    below = psutil.Process(run.pid).children(recursive=True)
    assert any("QuorumPeerMain" in part for child in below for part in child.cmdline())
    run.kill()
    run.wait()
    wait_until(lambda: not any(child.is_running() for child in below))
