"""The processes of a cluster, started one by one as a chart would."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.control.decide.maintenance import BEGINS, OVER
from orchestrator.control.observe.view import SLOT
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.ports import free_port
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.records import NodeKind
from orchestrator.store.protocol import CLUSTER, LEADER, NODES, TURNS
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import PATIENCE_S, WaitUntil

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

CLUSTER_MANIFEST = """\
kind: Cluster
name: entry
nodes: [{name: a, region: x}, {name: b, region: y}]
sites: [{name: north, region: x}, {name: south, region: y}]
"""

PARSES_WHILE_IT_ENDS = """\
import io, logging, threading, time
from pyarrow import json
from orchestrator.deploy.entry_point import leave

class Lines(io.BytesIO):
    def read(self, *most):
        time.sleep(0.1)
        return super().read(*most)

def parse():
    while True:
        json.read_json(Lines(b'{"a": 1}'))

class Last:  # Gives the thread time while the interpreter ends.
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

last = Last()
logging.basicConfig(format="%(message)s")
threading.Thread(target=parse, daemon=True).start()
time.sleep(0.3)
logging.getLogger().warning("ends")
leave(0)
"""

SECRET = "never-to-be-shown"


class Processes:
    """Entry points in a folder of their own, with their common log."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        (folder / "cluster.yaml").write_text(CLUSTER_MANIFEST)
        (folder / "secret").write_text(SECRET)
        (folder / "vivace.yaml").write_text(
            f"manifest: cluster.yaml\nzookeeper: {zookeeper}\nsecretFile: secret\n"
        )

    def start(self, name: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"orchestrator.deploy.{name}", "--config", "vivace.yaml"]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(source_root()), **variables},
                stdout=log,
                stderr=log,
            )
        self._running.append(process)
        return process

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def processes(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path, zookeeper.connect_string)
    yield started
    started.kill()


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> int:
    process.send_signal(number)
    return process.wait(PATIENCE_S)


def health(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except ConnectionRefusedError:
        return 0, "not there yet"


def test_coordinator_and_sites_appear_in_the_store_and_end_in_order(
    zookeeper: EmbeddedZooKeeper, processes: Processes, wait_until: WaitUntil
) -> None:
    # The sites come first: they wait for the coordinator.
    north_port, leader_port = free_port(), free_port()
    north = processes.start("site", VIVACE_SITE="north", VIVACE_HEALTH=str(north_port))
    south = processes.start("site", VIVACE_SITE="south", VIVACE_DOMAIN="mast")
    wait_until(lambda: processes.log.count("waiting for a coordinator") == 2)
    assert health(north_port, "/livez") == (200, "alive\n")
    assert health(north_port, "/readyz") == (503, "unready\n")
    coordinator = processes.start("coordinator", VIVACE_HEALTH=f"0.0.0.0:{leader_port}")

    store = ZooKeeperStore(zookeeper.connect_string, "entry", SECRET)
    try:
        wait_until(lambda: len(store.list(NODES).records) == 2)
        wait_until(lambda: store.get(LEADER) is not None)
        for port in (north_port, leader_port):
            wait_until(lambda port=port: health(port, "/readyz") == (200, "ready\n"))
            assert health(port, "/livez") == (200, "alive\n")
        settings = store.get(CLUSTER)
        assert settings is not None
        assert settings.record.name == "entry"
        sites = {name: found.record for name, found in store.list(NODES).records.items()}
        assert sites["north"].region == "x"
        assert sites["south"].labels.domain == "mast"

        intruder = processes.start("site", VIVACE_SITE="north", VIVACE_SECRET="wrong")
        assert intruder.wait(PATIENCE_S) == 2
        assert "cannot be accessed with the cluster's secret" in processes.log

        assert [end(process) for process in (north, south)] == [0, 0]
        wait_until(lambda: not store.list(NODES).records)
        assert end(coordinator) == 0
        assert store.get(LEADER) is None
    finally:
        store.close()
    assert SECRET not in processes.log


def test_sites_that_are_told_to_end_at_once_are_replaced_one_after_the_other(
    zookeeper: EmbeddedZooKeeper, processes: Processes, wait_until: WaitUntil
) -> None:
    variables = {"VIVACE_CLUSTER": "turns", "VIVACE_GRACE": str(round(2 * PATIENCE_S))}
    coordinator = processes.start("coordinator", **variables)
    names = ("north", "south")
    sites = {name: processes.start("site", VIVACE_SITE=name, **variables) for name in names}
    store = ZooKeeperStore(zookeeper.connect_string, "turns", SECRET)

    def lives() -> dict[str, str]:
        return {name: f.record.incarnation for name, f in store.list(NODES).records.items()}

    try:
        wait_until(lambda: lives().keys() == {*names})
        before = lives()
        for site in sites.values():
            site.send_signal(signal.SIGTERM)
        wait_until(lambda: any(site.poll() is not None for site in sites.values()))
        wait_until(lambda: len(store.list(TURNS).records) == 1)
        (first,) = (name for name, site in sites.items() if site.poll() is not None)
        (second,) = {*names} - {first}
        slot = store.get(SLOT)
        assert slot is not None
        assert slot.record.owner == f"site {first}"
        again = processes.start("site", VIVACE_SITE=first, **variables)
        wait_until(lambda: lives().get(first) not in (None, before[first]))
        # Only then has the other one its turn.
        assert sites[second].wait(PATIENCE_S) == 0
        assert sites[first].returncode == 0
        history = [(each.event.kind, each.event.subject) for each in store.history()]
        turns = [subject for kind, subject in history if kind in (BEGINS, OVER)]
        assert turns == [f"site {first}"] * 3 + [f"site {second}"] * 2
        # A successor that is told at once, while nobody is there for the other one, does not wait.
        assert end(again) == 0
        assert end(coordinator) == 0
    finally:
        store.close()


@pytest.mark.spark
def test_host_pool_runs_a_host_on_each_node_and_ends_them_in_order(
    zookeeper: EmbeddedZooKeeper, processes: Processes, wait_until: WaitUntil
) -> None:
    coordinator = processes.start("coordinator", VIVACE_CLUSTER="pool")
    port = free_port()
    pool = processes.start(
        "host_pool",
        VIVACE_CLUSTER="pool",
        VIVACE_DOMAIN="rack",
        VIVACE_WORK="spark",
        VIVACE_HEALTH=str(port),
    )
    store = ZooKeeperStore(zookeeper.connect_string, "pool", SECRET)
    try:
        wait_until(lambda: {*store.list(NODES).records} == {"a", "b"})
        hosts = [found.record for found in store.list(NODES).records.values()]
        assert {host.kind for host in hosts} == {NodeKind.EXECUTOR}
        # Its executors do not inherit the port.
        wait_until(lambda: health(port, "/readyz") == (200, "ready\n"))
        assert {host.labels.domain for host in hosts} == {"rack"}
        below = psutil.Process(pool.pid).children(recursive=True)
        assert {host.pid for host in hosts} <= {process.pid for process in below}
        # A Java process that starts beside them takes no time of theirs.
        assert all(os.getsid(host.pid) == host.pid for host in hosts)
        sparks = [each.pid for each in below if each.name() == "java"]
        weight = Path(f"/proc/{sparks[0]}/autogroup")
        assert {os.getsid(pid) for pid in sparks} == {os.getsid(sparks[0])} != {os.getsid(pool.pid)}
        if weight.exists():
            wait_until(lambda: weight.read_text().endswith(" nice 10\n"))

        # Nobody else has the slot, and nothing runs that could go elsewhere.
        assert end(pool, signal.SIGTERM) == 0
        assert "application-1 ends: it has left" in processes.log
        assert not psutil.wait_procs(below, PATIENCE_S)[1]
        assert not (processes.folder / "spark" / "scratch").exists()
        assert end(coordinator) == 0
    finally:
        store.close()
    assert SECRET not in processes.log


def test_unknown_field_is_refused_with_exit_status_2(processes: Processes) -> None:
    with (processes.folder / "vivace.yaml").open("a") as file:
        file.write("nodes: [a]\n")
    assert processes.start("coordinator").wait(PATIENCE_S) == 2
    assert "vivace.yaml:4: nodes: " in processes.log


@pytest.mark.parametrize("value", ["9650x", "0.0.0.0:99999"])
def test_a_health_port_that_is_none_is_refused_with_exit_status_2(
    processes: Processes, value: str
) -> None:
    assert processes.start("coordinator", VIVACE_HEALTH=value).wait(PATIENCE_S) == 2
    assert f"environment: VIVACE_HEALTH: '{value}' is no address to listen at" in processes.log


def test_processes_wait_for_zookeeper_and_for_settings(
    java: Java, processes: Processes, tmp_path: Path, wait_until: WaitUntil
) -> None:
    port = free_port()
    variables = {
        "VIVACE_ZOOKEEPER": f"127.0.0.1:{port}",
        "VIVACE_SITE": "north",
        "VIVACE_REGION": "x",
        "VIVACE_WORK": "work",
        "VIVACE_CLUSTER": "late",
    }
    health_port = free_port()
    waiting = processes.start("coordinator", VIVACE_HEALTH=str(health_port), **variables)
    others = [processes.start(name, **variables) for name in ("site", "host_pool")]
    (tmp_path / "bare").mkdir()
    bare = Processes(tmp_path / "bare", variables["VIVACE_ZOOKEEPER"])
    (bare.folder / "vivace.yaml").write_text("cluster: late\nsecretFile: secret\n")
    follower = bare.start("coordinator", **variables)
    try:
        wait_until(lambda: processes.log.count("waiting for ZooKeeper: ZooKeeper at 127.0.0.1") > 2)
        assert health(health_port, "/livez") == (200, "alive\n")
        assert health(health_port, "/readyz") == (503, "unready\n")
        assert [end(each) for each in others] == [0, 0]
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGSTOP)
        with EmbeddedZooKeeper(java, tmp_path / "zookeeper", port=port):
            wait_until(lambda: "for a coordinator to publish the cluster's settings" in bare.log)
            waiting.send_signal(signal.SIGCONT)
            wait_until(lambda: health(health_port, "/readyz") == (200, "ready\n"))
            assert [end(each) for each in (follower, waiting)] == [0, 0]
    finally:
        bare.kill()
    assert SECRET not in processes.log


def test_a_site_ends_in_order_while_a_thread_parses() -> None:
    command = [sys.executable, "-c", PARSES_WHILE_IT_ENDS]
    ended = subprocess.run(command, stderr=subprocess.PIPE, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, b"ends\n")
