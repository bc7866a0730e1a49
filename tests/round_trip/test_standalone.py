"""What `vivace render standalone` writes runs as it is: three machines, each a network namespace,
with an ensemble of ZooKeeper, two masters, workers, two applications, sites and the HTTP API."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.cluster import await_end
from orchestrator.api import Cluster, apply
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.task import settled
from orchestrator.deploy.config import ProcessConfig, read_config
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.store.protocol import Store
from tests.conftest import WaitUntil
from tests.platform.network import may_isolate, network
from tests.round_trip.conftest import Say
from tests.round_trip.kills import await_view, kill_executor
from tests.round_trip.rendered_machines import (
    VIVACE,
    RenderedMachine,
    environment,
    rendered_machines,
    submission,
)
from tests.round_trip.test_machines import EXECUTORS, check_rows, expected, write_query

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

LENGTH_S = 330
"""All kills take less than that."""

CLUSTER = """\
kind: Cluster
name: rendered
nodes: [one, two, three, four]
sites: [source, sink]
executorMemory: 512m
coordinators: 2
zookeeper: {servers: 3}
applications:
  - {name: east, nodes: [one, two]}
  - {name: west, nodes: [three, four]}
"""

Machines = tuple[RenderedMachine, ...]


@pytest.fixture
def machines(tmp_path: Path, java: Java) -> Iterator[Machines]:
    if not may_isolate():
        pytest.skip("machines are network namespaces, which takes root and ip")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    write_query(tmp_path, repeat=False, length_s=LENGTH_S)
    with (
        network(isolated=True) as net,
        rendered_machines(
            tmp_path, java, net, ("a", "b", "c"), "--place=site-source=b", "--place=site-sink=c"
        ) as started,
    ):
        yield started


def open_when_served(config: ProcessConfig, wait_until: WaitUntil) -> Store:
    """A cluster's store, as soon as it serves."""
    found: list[Store] = []

    def opens() -> bool:
        try:
            found.append(config.open_store())
        except VivaceError:
            return False
        return True

    wait_until(opens)
    return found[0]


def leading(machines: Machines) -> RenderedMachine:
    """The machine whose master leads."""

    def led(machine: RenderedMachine) -> int:
        return machine.log("master").count("I have been elected leader")

    (found,) = (each for each in machines[:2] if led(each))
    return found


def test_what_was_rendered_runs_and_nothing_is_lost_when_its_processes_are_killed(
    machines: Machines, java: Java, tmp_path: Path, say: Say, wait_until: WaitUntil
) -> None:
    first, second, third = machines
    config = read_config(first.folder / "vivace.yaml", {})
    with closing(open_when_served(config, wait_until)) as store:
        await_view(store, "there", *EXECUTORS, "source", "sink")
        say("nodes", str({n: h.record.labels for n, h in read_view(store).nodes.items()}))
        masters = ",".join(f"{each.address}:7077" for each in machines[:2])
        stranger = submission(tmp_path, java, f"spark://{masters}")
        wait_until(lambda: settled(read_view(store).hosts))
        manifests = load([tmp_path / "query.yaml"])
        apply(
            Cluster(read_config(first.folder / "vivace.yaml", {}), store),
            manifests,
            on_progress=say,
        )
        await_view(store, "protected", *EXECUTORS)
        say("killed", "the worker of c, and its executors with it")
        third.kill("deploy.worker.Worker")
        await_view(store, "protected", *EXECUTORS)
        leader = leading(machines)
        other = second if leader is first else first
        say("killed", f"the master that leads, of {leader.name}")
        leader.kill("deploy.master.Master")
        wait_until(lambda: "I have been elected leader" in other.log("master"))
        say("master", f"that of {other.name} leads")
        kill_executor(store, EXECUTORS[0])
        await_view(store, "protected", *EXECUTORS)
        say("killed", "the driver of application east")
        first.kill("orchestrator.deploy.host_pool")
        await_view(store, "protected", *EXECUTORS)
        said = tmp_path / "stranger.log"
        wait_until(lambda: "All masters are unresponsive! Giving up" in said.read_text("utf-8"))
        stranger.stop(1.0)
        told = "".join(each.log("master") for each in machines)
        assert "Registering app vivace-rendered-east" in told
        assert "Expected SaslMessage" in told
        assert "stranger" not in told
        say("refused", "a submission without the secret")
        await_end(store, manifests, say)
    check_rows(third.data / "site-sink", expected(LENGTH_S))
    check_api(first, java)


def check_api(machine: RenderedMachine, java: Java) -> None:
    """The command line reaches the cluster on the machine that has the API."""
    home = machine.data / "home"
    token = machine.folder / "secrets" / "token"
    add = ("config", "add", "here", "http://127.0.0.1:8650", "--token-file", str(token))
    for words in (add, ("status",)):
        command = ("ip", "netns", "exec", machine.namespace, VIVACE)
        subprocess.run(
            [*command, *words],
            env=environment(java, VIVACE_HOME=str(home)), check=True, cwd=source_root(),
        )  # fmt: skip
