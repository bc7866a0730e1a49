"""Two machines on one: the second is a network namespace, where the system permits that.

The first machine is the one that the tests run on. The second has a network of its own, which one
link connects to the first, and a name of its own. Neither reaches the other's loopback addresses.
Where no namespace can be made (that takes root), both have addresses of the loopback network: then
they are told apart by these only, and the link cannot be cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder, source_root
from orchestrator.embedded.ports import free_port
from tests.conftest import PATIENCE_S

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

EXECUTORS = 4
"""That a machine has room for: all of the cluster's, if the other one is gone."""

_again = """\
trap 'kill $!; wait $!; exit' TERM
while :; do "$@" & wait $!; sleep 1; done
"""
"""Starts a command again whenever it has ended, as whatever runs a machine's services does."""

_zookeeper = """\
tickTime=500
dataDir={folder}/zookeeper
clientPortAddress={address}
clientPort={port}
admin.enableServer=false
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: what runs there has its address.

    Attributes
    ----------
    namespace
        Of its network; None: the one of the tests.
    processes
        What was started there.
    """

    name: str
    address: str
    folder: Path
    java: Java
    namespace: str | None = None
    processes: list[ChildProcess] = field(default_factory=list[ChildProcess])

    @property
    def inside(self) -> tuple[str, ...]:
        """Before a command that is to run there."""
        if self.namespace is None:
            return ()
        named = 'hostname "$0" && exec "$@"'
        inside = ("ip", "netns", "exec", self.namespace)
        return (*inside, "unshare", "--uts", "sh", "-c", named, self.name)

    def start(self, name: str, *command: str, **variables: str) -> None:
        """Run a command there until the tests end or the machine is killed."""
        own = {
            "JAVA_HOME": str(self.java.home),
            "SPARK_HOME": str(pyspark_folder()),
            "SPARK_LOCAL_IP": self.address,
            "PYTHONPATH": str(source_root()),
        }
        log = self.folder / f"{self.name}-{name}.log"
        process = ChildProcess(
            [*self.inside, *command], log=log, env={**os.environ, **own, **variables}
        )
        self.processes.append(process)

    def python(self, module: str, config: Path, **variables: str) -> None:
        """Run one of the entry points there, again whenever it ends."""
        command = (sys.executable, "-m", f"orchestrator.{module}", "--config", str(config))
        name = f"{module.rpartition('.')[2]}-{len(self.processes)}"
        self.start(name, "sh", "-c", _again, "sh", *command, **variables)

    def spark(self, kind: str, *options: str) -> None:
        """Run a process of Spark's standalone cluster there."""
        program = str(pyspark_folder() / "bin" / "spark-class")
        name = kind.rpartition(".")[2].lower()
        self.start(name, program, kind, "--host", self.address, "--webui-port", "0", *options)

    def worker(self, master: str) -> None:
        """Run a worker there, which starts executors."""
        room = ("--cores", str(EXECUTORS), "--memory", f"{EXECUTORS}g")
        folder = self.folder / f"{self.name}-work"
        self.spark(WORKER, *room, "--work-dir", str(folder), master)

    @property
    def works(self) -> bool:
        """Whether the master has its worker."""
        log = (self.folder / f"{self.name}-worker.log").read_text("utf-8")
        return "Successfully registered with master" in log

    def zookeeper(self) -> str:
        """Run a ZooKeeper server there; returns its address for clients."""
        port, settings = free_port(), self.folder / "zoo.cfg"
        settings.write_text(_zookeeper.format(folder=self.folder, address=self.address, port=port))
        jars = str(pyspark_folder() / "jars" / "*")
        self.start("zookeeper", str(self.java.executable), "-cp", jars, ZOOKEEPER, str(settings))
        return f"{self.address}:{port}"

    def cut(self) -> None:
        """Pull the machine's network cable."""
        _ip("link", "set", _outer(self.namespace), "down")

    def join(self) -> None:
        """Put it back."""
        _ip("link", "set", _outer(self.namespace), "up")

    def kill(self) -> None:
        """End everything on the machine at once, as a power cut would."""
        below = [
            process
            for each in self.processes
            for process in psutil.Process(each.pid).children(recursive=True)
        ]
        for process in below:
            process.kill()
        psutil.wait_procs(below, PATIENCE_S)
        self.end()

    def crash(self, variable: str, value: str) -> None:
        """Kill what has a variable of its own in its environment, and all below it at once.

        It is started again as after any end.
        """
        for each in self.processes:
            for shell in psutil.Process(each.pid).children():
                if shell.environ().get(variable) == value:
                    for process in shell.children(recursive=True):
                        process.kill()

    def end(self) -> None:
        """End everything on it, in the opposite order."""
        while self.processes:
            self.processes.pop().stop(PATIENCE_S / 4)


@contextmanager
def two_machines(folder: Path, java: Java) -> Generator[tuple[Machine, Machine]]:
    """Two machines, and nothing of them afterwards."""
    namespace = f"vivace-{os.getpid()}" if _may_make_namespaces() else None
    addresses = ("10.99.0.1", "10.99.0.2") if namespace else ("127.0.0.2", "127.0.0.3")
    first = Machine("first", addresses[0], folder, java)
    second = Machine("second", addresses[1], folder, java, namespace)
    if namespace is not None:
        _connect(namespace, *addresses)
    try:
        yield first, second
    finally:
        second.end()
        first.end()
        if namespace is not None:
            _disconnect(namespace)


@contextmanager
def third_machine(first: Machine, folder: Path) -> Generator[tuple[str, Machine]]:
    """One more machine, which a link of its own connects to the first; the first one's address
    there. There must be namespaces."""
    namespace, here, there = f"vivace-{os.getpid()}c", "10.99.1.1", "10.99.1.2"
    _connect(namespace, here, there)
    try:
        yield here, Machine("third", there, folder, first.java, namespace)
    finally:
        _disconnect(namespace)


def _may_make_namespaces() -> bool:
    if os.geteuid() or shutil.which("ip") is None or shutil.which("unshare") is None:
        return False
    probe = f"vivace-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True).returncode:
        return False
    _ip("netns", "del", probe)
    return True


def _connect(namespace: str, here: str, there: str) -> None:
    outer, inner = _outer(namespace), "lan0"
    _ip("netns", "add", namespace)
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", namespace)
    _ip("addr", "add", f"{here}/24", "dev", outer)
    _ip("link", "set", outer, "up")
    _ip("-n", namespace, "addr", "add", f"{there}/24", "dev", inner)
    for name in ("lo", inner):
        _ip("-n", namespace, "link", "set", name, "up")


def _disconnect(namespace: str) -> None:
    _ip("link", "del", _outer(namespace))
    _ip("netns", "del", namespace)


def _outer(namespace: str | None) -> str:
    """The first machine's end of the link."""
    assert namespace is not None, "machines that share a network have no link to cut"
    return f"vv{namespace.rpartition('-')[2]}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
