"""Two versions side by side: the present one, and a copy that is a step ahead."""

from __future__ import annotations

import logging
import os
import random
import secrets
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator import api
from orchestrator.api.connection import Cluster
from orchestrator.api.versions import versions
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.errors import Refused
from orchestrator.records.versions import RECORDS, WIRE_VERSION, this_version
from orchestrator.results.preflight import obstacles
from orchestrator.store.protocol import ASSIGNMENTS, CLUSTER
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import PATIENCE_S, WaitUntil
from tests.next_version import make_next_version
from tests.pairs import NODES, SITES, Input, answer
from tests.served_cluster import reach

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.long]

SECRET = "known to the cluster"

LOOK_S = 0.2

RECORDING = Input.random(seed=7, seconds=5, every_ms=20.0)

ROUNDS = 200

ROLLED = ("coordinator", "exit", *NODES)
"""Those that take turns. The other sites stay: what comes due of a replay while its site is away is
lost, and the source says so."""

NO_LOSSES = api.WhatIfDocument(assumed=())

_executor = """
import sys
from orchestrator.host.shell.process import run_host
from orchestrator.records import HostSpec, NodeKind
node, zookeeper, secret = sys.argv[1:]
run_host(HostSpec(cluster="pairs", node=node, kind=NodeKind.EXECUTOR, region=node,
                  zookeeper=zookeeper, secret=secret))
"""


class MixedCluster:
    """A cluster, each process of which is of one of several versions.

    Attributes
    ----------
    versions
        How many steps ahead of the present one → where it is imported from.
    """

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder = folder
        self.versions = {0: source_root()}
        self._zookeeper = zookeeper
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        RECORDING.write(folder, repeat=True)
        (folder / "secret").write_text(SECRET)
        (folder / "vivace.yaml").write_text(
            f"manifest: pairs.yaml\nzookeeper: {zookeeper}\nsecretFile: secret\narchive: archive\n"
        )

    def start(self, name: str, version: int) -> None:
        """Start a process of a version."""
        if version not in self.versions:
            ahead = self.folder / f"version+{version}"
            self.versions[version] = make_next_version(ahead, version)
        command = ["-m", f"orchestrator.deploy.{'site' if name in SITES else name}"]
        command = [*command, "--config", "vivace.yaml"]
        if name in NODES:
            command = ["-c", _executor, name, self._zookeeper, SECRET]
        variables = {"PYTHONPATH": str(self.versions[version])}
        if name in SITES:
            variables["VIVACE_SITE"] = name
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env={**os.environ, **variables},
                stdout=log,
                stderr=log,
            )

    def end(self, name: str) -> None:
        """End a process: a coordinator and a site in order, an executor at once."""
        process = self._running.pop(name)
        if name in NODES:
            process.kill()
        else:
            process.terminate()
        process.wait(PATIENCE_S)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[MixedCluster]:
    found = MixedCluster(tmp_path, zookeeper.connect_string)
    yield found
    found.kill()


@pytest.fixture
def opened(zookeeper: EmbeddedZooKeeper) -> Iterator[Cluster]:
    store = ZooKeeperStore(zookeeper.connect_string, "pairs", SECRET)
    yield Cluster(msgspec.structs.replace(reach(), cluster="pairs"), store)
    store.close()


def newest(opened: Cluster) -> set[str]:
    """Names of the processes that speak the next wire."""
    processes = versions(opened).processes
    return {
        "coordinator" if each.kind == "coordinator" else each.name
        for each in processes
        if each.versions.wire[1] > WIRE_VERSION
    }


def settled(opened: Cluster, names: set[str], unread: Collection[str] = ()) -> Callable[[], bool]:
    """Whether just these processes are of the next version, and everything is protected.

    Nothing but the assignments of `unread` needs the next version.
    """

    def holds() -> bool:
        view = read_view(opened.store)
        there = {*view.hosts} == {*NODES, *SITES} and newest(opened) == names
        safe = all(view.protected(found.record) for found in view.fragments.values())
        read = view.broken(ASSIGNMENTS).keys() == {*unread} and len(view.invalid) == len(unread)
        return there and safe and len(view.fragments) > 0 and read

    return holds


def apply(cluster: MixedCluster, opened: Cluster, wait_until: WaitUntil) -> None:
    """Apply the example, as soon as the network is known well enough."""

    def applied() -> bool:
        try:
            api.apply(opened, api.load([cluster.folder / "pairs.yaml"]))
        except Refused as error:
            if not error.guessed:
                raise
            return False
        return True

    wait_until(applied)


def spoken(opened: Cluster) -> dict[frozenset[str], int]:
    """Two hosts → the wire of the link between them."""
    found = opened.store.list(ASSIGNMENTS).records
    return {
        frozenset((node, peer.node)): peer.wire
        for node, each in found.items()
        for peer in each.record.peers
        if peer.node != node
    }


def needing(opened: Cluster) -> set[str]:
    """Assignments that a process of the present version would leave alone."""
    return {each.path for each in versions(opened).needing if each.needs > RECORDS}


def assert_exact(kept: Delivered, stream: str) -> None:
    """All that was expected up to the last timestamp, each tuple once."""
    assert sequence_faults(kept) == SequenceFaults(lost=0, repeated=0)
    got = answer(kept)
    until = got[-1][0]
    expected = RECORDING.repeated(ROUNDS).expected()[stream]
    assert [row for row in got if row[0] < until] == [row for row in expected if row[0] < until]


def test_every_process_takes_its_turn_to_the_next_version_and_back(
    cluster: MixedCluster, opened: Cluster, wait_until: WaitUntil
) -> None:
    cluster.start("coordinator", 0)
    wait_until(lambda: opened.store.get(CLUSTER) is not None, every_s=LOOK_S)
    for name in (*SITES, *NODES):
        cluster.start(name, 0)
    wait_until(lambda: {*read_view(opened.store).hosts} == {*NODES, *SITES}, every_s=LOOK_S)
    apply(cluster, opened, wait_until)
    seed = secrets.randbits(32)
    rng, done = random.Random(seed), set[str]()
    logging.getLogger(__name__).info("seed %s", seed)
    for version in (1, 0):
        for name in rng.sample(ROLLED, len(ROLLED)):
            wait_until(settled(opened, done), every_s=LOOK_S)
            cluster.end(name)
            cluster.start(name, version)
            done ^= {name}
            # The other sites do not read newer records.
            assert not needing(opened)
        wait_until(settled(opened, done), every_s=LOOK_S)
        for pair, wire in spoken(opened).items():
            assert wire == WIRE_VERSION + (pair <= done)
    for name in SITES:
        cluster.end(name)
    for stream in ("pairs", "pair_counts"):
        assert_exact(read_back(cluster.folder / "archive", stream), stream)


def test_a_version_two_steps_ahead_waits_and_preflight_says_why(
    cluster: MixedCluster, opened: Cluster, wait_until: WaitUntil
) -> None:
    cluster.start("coordinator", 0)
    wait_until(lambda: bool(versions(opened).processes), every_s=LOOK_S)
    cluster.start("west-site", 2)
    wait_until(lambda: "waiting for the end of coordinator" in cluster.log("west-site"))
    assert f"it speaks wire {WIRE_VERSION}, and this version" in cluster.log("west-site")
    assert not read_view(opened.store).hosts
    far = msgspec.structs.replace(this_version(), wire=(WIRE_VERSION + 1, WIRE_VERSION + 2))
    found = obstacles(far, versions(opened), api.status(opened), NO_LOSSES, None)
    assert ["coordinator" in each.why for each in found] == [True]
    cluster.end("coordinator")
    cluster.start("coordinator", 1)
    wait_until(lambda: {*read_view(opened.store).hosts} == {"west-site"}, every_s=LOOK_S)


def test_newer_records_are_written_while_every_process_reads_them_and_no_longer(
    cluster: MixedCluster, opened: Cluster, wait_until: WaitUntil
) -> None:
    every = {*NODES, *SITES}
    cluster.start("coordinator", 1)
    wait_until(lambda: opened.store.get(CLUSTER) is not None, every_s=LOOK_S)
    for name in sorted(every):
        cluster.start(name, 1)
    wait_until(lambda: {*read_view(opened.store).hosts} == every, every_s=LOOK_S)
    apply(cluster, opened, wait_until)
    wait_until(settled(opened, {"coordinator", *every}, unread=every), every_s=LOOK_S)
    assert needing(opened) == {f"assignments/{name}" for name in every}
    against = obstacles(this_version(), versions(opened), api.status(opened), NO_LOSSES, None)
    assert {each.subject for each in against} >= needing(opened)
    # An executor goes back; the leader, which is newer, writes for it as well.
    cluster.end(NODES[0])
    cluster.start(NODES[0], 0)
    wait_until(settled(opened, {"coordinator", *every} - {NODES[0]}), every_s=LOOK_S)
    assert not needing(opened)
    cluster.end("coordinator")
    cluster.start("coordinator", 0)
    wait_until(settled(opened, every - {NODES[0]}), every_s=LOOK_S)
