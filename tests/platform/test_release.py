"""The chart on the rig, or on a real cluster: installed, tested, scaled and removed, while its
query runs."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.edges.sinks import read_back
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from tests.platform.client import PATIENCE_S, Platform
from tests.platform.helm import Helm
from tests.platform.kinds import CLAIM, KINDS, SECRET, Object, name_of
from tests.platform.network import may_isolate
from tests.platform.rig import REAL, Rig, any_platform
from tests.platform.tools import TOOLS
from tests.round_trip.conftest import Say

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        REAL not in os.environ and not may_isolate(),
        reason="no namespaces can be made here: takes root",
    ),
]

CHART = source_root() / "charts" / "vivace"

DRIVER = "system:serviceaccount:default:r-vivace-driver"
"""The only account that has rights."""

INSTANCE = "app.kubernetes.io/instance"
"""Label of all that belongs to a release."""

WAIT = ("--wait", "--timeout", "900s")

STREAM = """\
kind: Stream
name: readings
site: edge
columns: {sensor: int, celsius: float}
rate: 1 KB/s
from:
  replay:
    path: /readings/readings.csv
    begin: "2026-01-01T00:00:00Z"
    end: "2026-01-01T00:09:59Z"
    repeat: true
"""

QUERY = """\
kind: Query
name: warm
deadline: 5 s
recovery: 5 s
outputs: {warm: edge}
statements: |
  REGISTER QUERY warm RSTREAM(SELECT sensor, celsius FROM readings [NOW] WHERE celsius > 20);
"""

READINGS = "timestamp,sensor,celsius\n" + "".join(
    f"{1767225600000 + 1000 * second},{second % 7},{15 + second % 11}\n" for second in range(600)
)

IMAGE = "PLATFORM_IMAGE"
"""Variable that names the chart's image, as `REPOSITORY:TAG`, for a real cluster."""

VALUES: dict[str, Any] = {
    "cluster": {"name": "plant"},
    "zookeeper": {"replicas": 1, "antiAffinity": "none"},
    "coordinators": {"replicas": 1},
    "web": {"replicas": 1},
    "turnSeconds": 60,
    "sites": [
        {
            "name": "edge",
            "pod": {
                "volumes": [{"name": "readings", "configMap": {"name": "readings"}}],
                "volumeMounts": [{"name": "readings", "mountPath": "/readings"}],
            },
        }
    ],
    "queries": {"manifests": {"readings.yaml": STREAM, "warm.yaml": QUERY}},
    "tests": {"drills": ["switchover"]},
    "pods": {"probes": {"periodSeconds": 2}},
    "extraObjects": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "readings"},
            "data": {"readings.csv": READINGS},
        }
    ],
}


@pytest.fixture
def platform(tmp_path: Path, java: Java) -> Iterator[Platform]:
    with any_platform(tmp_path, java) as found:
        yield found


@pytest.fixture(params=TOOLS, ids=[tool.name for tool in TOOLS])
def helm(request: pytest.FixtureRequest, platform: Platform, tmp_path: Path) -> Helm:
    return Helm(request.param, platform, tmp_path)


def image_values() -> dict[str, Any]:
    """The chart's values that say which image a real cluster fetches."""
    repository, _, tag = os.environ.get(IMAGE, "").rpartition(":")
    return {"image": {"repository": repository, "tag": tag}} if repository else {}


def test_the_chart_is_installed_tested_scaled_and_removed(
    platform: Platform, helm: Helm, tmp_path: Path, say: Say
) -> None:
    def release(verb: str, *nodes: int) -> None:
        values = tmp_path / "values.yaml"
        names = ("one", "two", "three")[: len(nodes)]
        applications = [
            {"name": name, "nodes": number} for name, number in zip(names, nodes, strict=True)
        ]
        given = {**VALUES, **image_values(), "applications": applications}
        values.write_text(yaml.safe_dump(given))
        done = helm.run(verb, "r", str(CHART), "-f", str(values), *WAIT)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{platform.tell()}"
        say(verb, f"{nodes} nodes")
        ready = platform.ready(**{"app.kubernetes.io/component": "executor"})
        assert len(ready) == sum(nodes), platform.tell()

    release("install", 2, 2)

    def numbers() -> list[int]:
        """Of all results in the archive."""
        (site,) = platform.pods(**{"app.kubernetes.io/component": "site"})
        archive = tmp_path / "archive"
        shutil.rmtree(archive, ignore_errors=True)
        try:
            platform.copy(site, "/data/archive", archive)
            rows = read_back(archive, "warm").rows
        except OSError:
            # The site has written nothing yet, or replaces a file.
            return []
        return [row["_seq"] for row in rows.to_pylist()]

    platform.wait(lambda: len(numbers()) > 0, "results come")
    done = helm.run("test", "r", "--timeout", "600s")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{platform.tell()}"

    values = str(tmp_path / "values.yaml")
    done = helm.run("upgrade", "r", str(CHART), "-f", values, "--set", "zookeeper.replicas=3")
    assert done.returncode != 0
    assert "zookeeper.replicas: the ensemble is of 1," in done.stderr

    release("upgrade", 3, 2)
    release("upgrade", 2, 2)

    def pods() -> set[str]:
        """Identifiers of those that another application does not concern: coordinators, which
        tell which nodes there are, and Jobs are others."""
        components = ("driver", "executor", "site", "web", "zookeeper")
        found = [platform.pods(**{"app.kubernetes.io/component": name}) for name in components]
        return {pod["metadata"]["uid"] for each in found for pod in each}

    others = pods()
    release("upgrade", 2, 2, 1)
    assert others < pods()
    before = len(numbers())
    platform.wait(lambda: len(numbers()) > before, "results go on", 2 * PATIENCE_S)
    found = numbers()
    assert found == list(range(len(found)))

    # An uninstallation takes the drivers' rights while they end; executors go with their drivers.
    if isinstance(platform, Rig):
        assert not platform.access.refused
        # Spark deletes the pod of an executor that has failed, and none has here.
        assert platform.access.unused("default") == {f"{DRIVER}: delete pods"}

    done = helm.run("uninstall", "r", *WAIT)
    assert done.returncode == 0, done.stderr
    platform.wait(lambda: not platform.pods(), "all pods are gone", 2 * PATIENCE_S)
    left = {
        f"{kind.kind} {name_of(each)}"
        for kind in KINDS
        if kind.namespaced
        for each in platform.list(kind, **{INSTANCE: "r"})
    }
    assert left == {
        *(f"{CLAIM.kind} data-{name}-0" for name in ("r-vivace-site-edge", "r-vivace-zookeeper")),
        *(f"{SECRET.kind} r-vivace-{name}" for name in ("secret", "token")),
    }


def test_processes_of_the_chart_wait_without_a_store_and_upgrades_change_no_secret(
    platform: Platform, helm: Helm, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    more = {"zookeeper": {"external": "zookeeper.nowhere:2181"}, "preflight": {"enabled": False}}
    applications = [{"name": "one", "nodes": 1}, {"name": "two", "nodes": 1}]
    given = {**VALUES, **image_values(), **more, "applications": applications, "queries": {}}
    values.write_text(yaml.safe_dump(given))

    def release(verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        return helm.run(verb, "r", str(CHART), "-f", str(values), *options)

    done = release("install")
    assert done.returncode == 0, done.stderr

    def waits() -> bool:
        logs = [platform.log(pod) for pod in platform.pods()]
        return len(logs) == 5 and all("waiting for ZooKeeper" in log for log in logs)

    platform.wait(waits, "all of them wait")
    assert not platform.ready()

    drawn = [platform.get(SECRET, f"r-vivace-{name}")["data"] for name in ("secret", "token")]
    assert release("upgrade").returncode == 0
    assert drawn == [
        platform.get(SECRET, f"r-vivace-{name}")["data"] for name in ("secret", "token")
    ]
    metadata = {"name": "another"}
    secret = base64.b64encode(b"another secret").decode()
    platform.put({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"secret": secret}
    })  # fmt: skip
    for option, sentence in (
        (
            "secret.existing=another",
            'secret.existing: "another" holds another secret than the one in',
        ),
        ("cluster.name=other", 'cluster.name: the cluster\'s name is "plant"'),
    ):
        done = release("upgrade", "--set", option)
        assert done.returncode != 0
        assert sentence in done.stderr


def test_a_release_goes_on_after_a_killed_helm_and_a_query_that_no_plan_keeps(
    platform: Platform, helm: Helm, tmp_path: Path, say: Say
) -> None:
    values = tmp_path / "values.yaml"
    applications = [{"name": "one", "nodes": 1}, {"name": "two", "nodes": 1}]
    # One node of two is away while an executor's application is: `preflight` would refuse.
    more = {"applications": applications, "preflight": {"enabled": False}}

    def options(verb: str, manifests: dict[str, str]) -> tuple[str, ...]:
        given = {**VALUES, **image_values(), **more, "queries": {"manifests": manifests}}
        values.write_text(yaml.safe_dump(given))
        return (verb, "r", str(CHART), "-f", str(values), *WAIT)

    def applied() -> Object:
        """The pod of the Job that applies queries."""
        (pod,) = platform.pods(**{"job-name": "r-vivace-apply"})
        return pod

    def succeeds(*words: str) -> None:
        done = helm.run(*words)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{platform.tell()}"
        say("succeeded", words[0])

    succeeds(*options("install", {}))
    good = {"readings.yaml": STREAM, "warm.yaml": QUERY}
    killed = helm.start(*options("upgrade", good))
    platform.wait(lambda: platform.pods(**{"job-name": "r-vivace-apply"}), "the hook's Job runs")
    killed.kill()
    killed.wait()
    done = helm.run(*options("upgrade", good))
    assert done.returncode != 0
    assert "another operation (install/upgrade/rollback) is in progress" in done.stderr
    # As NOTES.txt says.
    succeeds("rollback", "r", "1", *WAIT)
    succeeds(*options("upgrade", good))

    bad = QUERY.replace("warm", "hot").replace("recovery: 5 s", "recovery: 1 ms")
    # A Job that has failed is in nobody's way.
    for _ in range(2):
        done = helm.run(*options("upgrade", {**good, "hot.yaml": bad}))
        assert done.returncode != 0
    last = platform.log(applied()).rstrip().splitlines()[-1]
    say("refused", last)
    assert "hot" in last
    assert "1 ms" in last
    (status,) = applied()["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"].rstrip().splitlines()[-1] == last
    succeeds(*options("upgrade", good))
