"""The chart with the aircraft example on it, changed, taken back, its pods killed and its nodes
drained while the query runs. Each test has a release of its own."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples import fetch
from orchestrator.api.connection import Cluster
from orchestrator.api.versions import versions
from orchestrator.control.observe.view import read_view
from orchestrator.embedded.java import Java
from orchestrator.records.versions import WIRE_VERSION
from orchestrator.spark.hosts.kubernetes import APPLICATION_LABEL
from tests.platform.api import is_ready
from tests.platform.client import PATIENCE_S
from tests.platform.flights import Flights, Turn, check_turns, failovers
from tests.platform.kinds import Object, name_of
from tests.platform.network import may_isolate
from tests.platform.released import NEXT, Release, component, released_flights
from tests.platform.rig import NODES, REAL
from tests.platform.tools import TOOLS, Tool
from tests.round_trip.conftest import Say

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        REAL in os.environ or not may_isolate(),
        reason="takes the rig, and namespaces, which take root",
    ),
    pytest.mark.skipif(
        not (fetch.DATA / "latency.csv").exists(), reason="`make data` fetches the recording"
    ),
]

LOOK_S = 0.5

DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s")
"""As docs/operations/install-kubernetes.md says it."""

SINK = "control-centre"

OVER_US = 2_000_000
"""How much longer than its turn a site's outputs may be silent: it starts, and catches up."""

OLDER, NEWER = ([pytest.param(tool, id=tool.name)] for tool in (TOOLS[0], TOOLS[-1]))
"""Each change is made by one helm: `test_release.py` has both do everything that they differ in."""


def executors_of(application: str) -> dict[str, str]:
    """Labels of its executors' pods."""
    return {**component("executor"), APPLICATION_LABEL: application}


@contextmanager
def never_two_away(release: Release, wanted: Callable[[str], int]) -> Generator[None]:
    """Fail if two applications have fewer executors at once than is wanted of each. An executor is
    there from when it is ready for the first time until it ends: on a busy machine, and while the
    store is away, hosts work that do not respond to a probe in time."""
    ending, found = threading.Event(), list[dict[str, set[str]]]()
    served: set[str] = set()

    def there(application: str) -> set[str]:
        pods = release.rig.pods(**executors_of(application))
        served.update(name_of(pod) for pod in pods if is_ready(pod))
        return served & {name_of(pod) for pod in pods if pod["status"]["phase"] == "Running"}

    def looks() -> None:
        while not ending.wait(LOOK_S):
            now = {name: there(name) for name in applications}
            if all(len(now[name]) < wanted(name) for name in applications):
                found.append(now)

    applications = [*release.applications]
    thread = threading.Thread(target=looks, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    assert not found


@contextmanager
def changed(
    playing: Flights, release: Release, what: str, say: Say, *owners: str
) -> Generator[None]:
    """Something that has these take turns: nothing is lost, and outputs are silent no longer than
    the bound, but while their own site is away."""
    begun, begin_us = len(playing.store.history()), playing.now_us()
    before = dict(release.applications)

    def wanted(application: str) -> int:
        return min(before[application], release.applications[application])

    with playing.measured(say) as silences, never_two_away(release, wanted):
        yield
        end_us = playing.now_us()
        playing.await_protected()
        history = playing.store.history()[begun:]
        assert not failovers(history)
        turns = check_turns(history, owners)
        for owner, (begin, end) in turns.items():
            say("turn", f"{owner}, {(end - begin) / 1e6:.1f} s")
        say(what, f"{(end_us - begin_us) / 1e6:.1f} s")
        for at, (begin, end) in enumerate(apart(begin_us, end_us, turns.get(f"site {SINK}"))):
            silences.note(f"{what} {at}", begin, end)


def apart(begin_us: int, end_us: int, away: Turn | None) -> list[Turn]:
    """A time without that in which outputs had nowhere to go."""
    if away is None:
        return [(begin_us, end_us)]
    parts = [(begin_us, away[0]), (away[1] + OVER_US, end_us)]
    return [(begin, end) for begin, end in parts if end - begin > OVER_US]


def all_owners(release: Release) -> list[str]:
    """Whoever takes turns when everything changes."""
    return [*release.applications, *(f"site {site}" for site in release.sites)]


@pytest.mark.parametrize("tool", OLDER)
@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 2)])
def test_an_application_grows_and_shrinks(
    before: int, after: int, tool: Tool, java: Java, tmp_path: Path, say: Say
) -> None:
    with released_flights(java, tool, tmp_path, nodes=before) as (release, playing):
        first = release.values["applications"][0]
        release.resize(after)
        with changed(playing, release, f"{before} to {after} nodes", say, first["name"]):
            release.change("upgrade")
            playing.nodes[:] = release.nodes
        there = {*read_view(playing.store).nodes} - {*release.sites}
        assert there == {*release.nodes}


@pytest.mark.parametrize("tool", NEWER)
def test_more_memory_is_given_and_taken_back(
    tool: Tool, java: Java, tmp_path: Path, say: Say
) -> None:
    with released_flights(java, tool, tmp_path) as (release, playing):

        def limits() -> set[str]:
            pods = release.rig.pods(**component("executor"))
            return {pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods}

        before = limits()
        release.values["executors"]["memory"] = "640m"
        with changed(playing, release, "memory", say, *all_owners(release)):
            release.change("upgrade")
        say("limits", f"{before} → {limits()}")
        assert len(limits()) == 1
        assert limits() != before
        with changed(playing, release, "rollback", say, *all_owners(release)):
            release.run("rollback", "r", "--wait", "--timeout", "900s")
        assert limits() == before


@pytest.mark.parametrize("tool", NEWER)
def test_the_next_version_is_rolled_out_and_taken_back(
    tool: Tool, java: Java, tmp_path: Path, say: Say
) -> None:
    with released_flights(java, tool, tmp_path, ahead=True) as (release, playing):

        def newest() -> set[int]:
            found = versions(Cluster(release.config(), release.store)).processes
            return {each.versions.wire[1] for each in found}

        assert newest() == {WIRE_VERSION}
        release.values["image"] = {"tag": NEXT}
        with changed(playing, release, "next version", say, *all_owners(release)):
            release.change("upgrade")
        assert newest() == {WIRE_VERSION + 1}
        with changed(playing, release, "rollback", say, *all_owners(release)):
            release.run("rollback", "r", "--wait", "--timeout", "900s")
        assert newest() == {WIRE_VERSION}


@pytest.mark.parametrize("tool", NEWER)
def test_every_pod_is_killed_once(tool: Tool, java: Java, tmp_path: Path, say: Say) -> None:
    with released_flights(java, tool, tmp_path) as (release, playing):
        for kind in ("executor", "coordinator", "driver", "zookeeper", "web"):
            with playing.measured(say) as silences:
                for pod in release.rig.pods(**component(kind)):
                    with silences.during(f"{name_of(pod)} killed"):
                        kill(release, playing, pod, say)
        # While the only site of the outputs is away, they have nowhere to go.
        for pod in release.rig.pods(**component("site")):
            kill(release, playing, pod, say)
            playing.check()


def kill(release: Release, playing: Flights, pod: Object, say: Say) -> None:
    """Kill all processes of a pod, and wait until everything is as before."""
    name = name_of(pod)
    playing.await_protected()
    say("killed", name)
    release.rig.kill(name)
    release.rig.wait(lambda: name not in release.rig.ready(), f"{name} has ended")
    release.rig.wait(lambda: all_serve(release), "all serve again", 2 * PATIENCE_S)
    playing.await_protected()


def all_serve(release: Release) -> bool:
    """Whether each component has all of its pods, and they are ready."""
    wanted = {
        "executor": sum(release.applications.values()),
        "coordinator": 2,
        "driver": len(release.applications),
        "zookeeper": 1,
        "web": 1,
        "site": len(release.sites),
    }
    found = {kind: len(release.rig.ready(**component(kind))) for kind in wanted}
    return found == wanted


def kubectl(release: Release, tool: Tool, *words: str) -> subprocess.Popen[str]:
    """Start it."""
    command = [str(tool.kubectl), "--kubeconfig", str(release.rig.kubeconfig), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def succeeds(release: Release, started: subprocess.Popen[str]) -> None:
    """Wait for it."""
    said, _ = started.communicate()
    assert started.returncode == 0, f"{said}\n{release.rig.tell()}"


def pods_on(release: Release, node: str) -> set[str]:
    """Their identifiers."""
    pods = release.rig.pods()
    return {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node}


@pytest.mark.parametrize("tool", NEWER)
def test_every_node_is_drained_once(tool: Tool, java: Java, tmp_path: Path, say: Say) -> None:
    with released_flights(java, tool, tmp_path) as (release, playing):
        for node in NODES:
            playing.await_protected()
            begun = len(playing.store.history())
            here = pods_on(release, node)
            say("drains", f"{node}, {len(here)} pods")
            # Budgets let one executor of each go.
            with never_two_away(release, lambda _: 1):
                succeeds(release, kubectl(release, tool, "drain", node, *DRAIN))
                release.rig.wait(lambda: all_serve(release), "all serve again", 2 * PATIENCE_S)
                playing.check()
            assert not failovers(playing.store.history()[begun:])
            assert not here & {pod["metadata"]["uid"] for pod in release.rig.pods()}
            succeeds(release, kubectl(release, tool, "uncordon", node))


@pytest.mark.parametrize("tool", NEWER)
def test_a_release_changes_while_a_node_is_drained(
    tool: Tool, java: Java, tmp_path: Path, say: Say
) -> None:
    with released_flights(java, tool, tmp_path) as (release, playing):
        begun, (node, *_) = len(playing.store.history()), NODES
        here = pods_on(release, node)
        release.values["executors"]["memory"] = "640m"
        with never_two_away(release, lambda _: 1):
            drain = kubectl(release, tool, "drain", node, *DRAIN)
            try:
                release.change("upgrade")
                say("upgraded", f"{node} is drained: {drain.poll() is not None}")
                succeeds(release, drain)
            finally:
                drain.kill()
            release.rig.wait(lambda: all_serve(release), "all serve again", 2 * PATIENCE_S)
            playing.await_protected()
            playing.check()
        assert not failovers(playing.store.history()[begun:])
        assert not here & {pod["metadata"]["uid"] for pod in release.rig.pods()}
