"""The alerts of `deploy/monitoring`, by a Prometheus that reads a running cluster.

It reads every second, and the rules are shortened: what must last for minutes must last for seconds
(`SHORTER`), so that a fault of seconds raises an alert; what is silent then, is silent as written.
`make monitoring-live`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import vivace
from bench.cluster import running
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills.processes import zookeeper_processes
from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.ports import free_port
from orchestrator.manifest import load
from orchestrator.store.protocol import NODES
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.test_machines import write_query

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="no prometheus on the path (Debian: prometheus)"
    ),
]

RULES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "alerts.yaml"

SHORTER = (
    (r"for: \d+m", "for: 2s"),
    (r"age_seconds > 30", "age_seconds > 5"),
    (r"timestamp_seconds\[2m\]", "timestamp_seconds[12s]"),
    (r"unkept_seconds > 30", "unkept_seconds > 3"),
)

CLUSTER = """\
kind: Cluster
name: watched
nodes: [one, two]
sites: [source, sink]
executorMemory: 512m
"""

CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: vivace
    authorization: {{credentials_file: token}}
    static_configs: [targets: ["{target}"]]
"""

QUIET_S = 300.0
FAULT_S = 20.0


class Prometheus:
    """Reads a cluster's metrics every second."""

    def __init__(self, folder: Path, cluster: LocalCluster) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        rules = RULES.read_text()
        for written, shorter in SHORTER:
            rules, times = re.subn(written, shorter, rules)
            assert times, written
        (folder / "alerts.yaml").write_text(rules)
        (folder / "token").write_text(cluster.token)
        target = cluster.api.removeprefix("http://")
        (folder / "prometheus.yaml").write_text(CONFIG.format(target=target))
        options = {
            "config.file": folder / "prometheus.yaml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": self.address,
        }
        command = ["prometheus", *(f"--{name}={each}" for name, each in options.items())]
        self.process = ChildProcess(command, log=folder / "prometheus.log")

    def asked(self, path: str, **given: str) -> Any:
        """What it has at a path of its API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[dict[str, str]]:
        """The labels of the series that an expression gives."""
        return [each["metric"] for each in self.asked("query", query=expression)["result"]]

    def fired(self, seconds: float) -> set[str]:
        """The alerts that have fired in the last seconds."""
        lately = f'count_over_time(ALERTS{{alertstate="firing"}}[{max(1, int(seconds))}s])'
        return {each["alertname"] for each in self.query(lately)}

    @property
    def reads(self) -> bool:
        """Whether it has read the cluster's metrics."""
        try:
            return bool(self.query("vivace_problems"))
        except OSError:
            return False


@contextmanager
def watched(
    folder: Path, say: Say, wait_until: WaitUntil
) -> Generator[tuple[LocalCluster, Prometheus]]:
    """A cluster whose query runs protected, and a Prometheus that has seen that for a while."""
    write_query(folder, repeat=True)
    (folder / "cluster.yaml").write_text(CLUSTER)
    manifests = load([folder / "cluster.yaml", folder / "query.yaml"])
    with running(manifests, folder / "work", say) as cluster:
        prometheus = Prometheus(folder, cluster)
        try:
            wait_until(lambda: prometheus.reads)
            wait_until(lambda: not prometheus.fired(10), every_s=1.0)
            yield cluster, prometheus
        finally:
            prometheus.process.stop(10)


def test_what_a_cluster_tells_pleases_prometheus_and_five_quiet_minutes_raise_no_alert(
    tmp_path: Path, say: Say, wait_until: WaitUntil
) -> None:
    with watched(tmp_path, say, wait_until) as (cluster, prometheus):
        text = vivace.connect(cluster.api, cluster.token).text("/metrics")
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        began_s = time.monotonic()
        while (quiet_s := time.monotonic() - began_s) < QUIET_S:
            assert prometheus.fired(quiet_s) == set()
            time.sleep(1.0)
        (group,) = prometheus.asked("rules")["groups"]
        assert {rule["health"] for rule in group["rules"]} == {"ok"}
        assert len(group["rules"]) == len(yaml.safe_load(RULES.read_text())["groups"][0]["rules"])


def test_each_fault_raises_its_alerts(tmp_path: Path, say: Say, wait_until: WaitUntil) -> None:
    with watched(tmp_path, say, wait_until) as (cluster, prometheus):
        client = vivace.connect(cluster.api, cluster.token)

        def host(node: str) -> psutil.Process:
            found = cluster.store.get(NODES.key(node))
            assert found is not None
            return psutil.Process(found.record.pid)

        faults: dict[str, tuple[set[str], Callable[[], object]]] = {
            "kill-executor": (
                {"VivaceFragmentUnprotected"},
                lambda: client.drill("kill-executor"),
            ),
            "hang the site of the output": (
                {"VivaceOutputLate", "VivaceHostMissing"},
                lambda: stopped(host("sink")),
            ),
            "pause ZooKeeper": (
                {"VivaceStoreAway"},
                lambda: stopped(*zookeeper_processes(os.getpid())),
            ),
            "hang the leader": (
                {"VivaceNoLeader"},
                lambda: stopped(*below("orchestrator.deploy.coordinator")),
            ),
            "hang web": ({"VivaceMetricsAbsent"}, lambda: stopped(*below("orchestrator.web"))),
        }
        missing: dict[str, set[str]] = {}
        for name, (expected, fault) in faults.items():
            began_s = time.monotonic()

            def came(expected: set[str] = expected, began_s: float = began_s) -> bool:
                return expected <= prometheus.fired(time.monotonic() - began_s)

            say(name, f"expects {', '.join(sorted(expected))}")
            fault()
            try:
                wait_until(came, 30, every_s=1.0)
            except AssertionError:
                missing[name] = expected
            say(name, f"fired: {', '.join(sorted(prometheus.fired(time.monotonic() - began_s)))}")
            wait_until(lambda: len(client.status().fragments) == 1 and protected(client))
        assert missing == {}


def protected(client: vivace.ClusterClient) -> bool:
    """Whether each fragment has a warm standby."""
    return all(each.redundant for each in client.status().fragments)


def below(module: str) -> Iterator[psutil.Process]:
    """The processes of this one's cluster that run a module."""
    for each in psutil.Process().children(recursive=True):
        if each.cmdline()[1:3] == ["-m", module]:
            yield each


def stopped(*processes: psutil.Process) -> None:
    """Stop processes for a while."""
    assert processes
    for each in processes:
        each.suspend()
    try:
        time.sleep(FAULT_S)
    finally:
        for each in processes:
            each.resume()
