"""A cluster as pods, with Spark's own executors on Kubernetes: started in any order; evicted,
killed and restarted while the aircraft example plays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples import fetch
from orchestrator.control.observe.view import read_view
from orchestrator.embedded.java import Java
from tests.platform.client import PATIENCE_S
from tests.platform.flights import Flights, check_turns, failovers, flights
from tests.platform.kinds import POD, name_of
from tests.platform.network import may_isolate
from tests.platform.objects import ApiError
from tests.platform.silences import Silences
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor, relies_on

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not may_isolate(), reason="no namespaces can be made here: takes root"),
    pytest.mark.skipif(
        not (fetch.DATA / "latency.csv").exists(), reason="`make data` fetches the recording"
    ),
]

TOO_MANY = 429


@pytest.fixture(scope="module")
def playing(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flights]:
    """One cluster for all tests."""
    with flights(java, tmp_path_factory.mktemp("platform")) as found:
        yield found


def test_processes_that_start_a_minute_before_zookeeper_wait_and_none_ends(
    playing: Flights,
) -> None:
    assert set(playing.restarts.values()) == {0}
    assert not playing.pods.rig.access.refused
    for pod in playing.pods.rig.objects.list(POD):
        variables = pod["spec"]["containers"][0].get("env") or ()
        assert "_SPARK_AUTH_SECRET" not in {each["name"] for each in variables}


def test_evicted_executors_leave_before_they_end_and_their_replacements_come(
    playing: Flights, say: Say
) -> None:
    begun = len(playing.store.history())
    with playing.measured(say) as silences:
        for node in playing.nodes:
            evict(playing, silences, node, say)
        # Each primary has given way before its host ended.
        assert not failovers(playing.store.history()[begun:])
        # With no time to leave, it is a failover.
        evict(playing, silences, playing.nodes[0], say, grace_s=1)


def test_nothing_is_lost_or_repeated_when_each_executors_pod_and_a_driver_are_killed(
    playing: Flights, say: Say
) -> None:
    with playing.measured(say) as silences:
        for node in playing.nodes:
            playing.await_protected()
            say("killed", node)
            with silences.during(f"{node} killed"):
                kill_executor(playing.store, node, playing.pods.kill_host)
        playing.await_protected()
        with silences.during("a driver killed"):
            kill_driver(playing, say)


def test_drivers_and_sites_that_are_told_at_once_to_end_do_so_one_after_the_other(
    playing: Flights, say: Say
) -> None:
    pods, store = playing.pods, playing.store
    playing.check()
    begun = len(store.history())
    before = pods.restarts()
    told = [*pods.applications, *pods.sites]
    names = {name_of(pod) for app in told for pod in pods.rig.pods(app=app)}
    for name in names:
        pods.rig.terminate(name)

    def over() -> bool:
        now, view = pods.restarts(), read_view(store)
        # At every moment, each fragment has a primary.
        assert all(view.listed(found.record.primary) for found in view.fragments.values())
        again = {name for name in names if now[name] == before[name] + 1}
        return again == names and view.slot is None and not view.turns

    pods.rig.wait(over, "all have ended and are replaced", 4 * PATIENCE_S)
    playing.check()
    history = store.history()[begun:]
    assert not failovers(history)
    check_turns(history, [*pods.applications, *(f"site {site}" for site in pods.sites)])
    for each in (entry.event for entry in history):
        if each.kind in ("redundancy restored", "maintenance over"):
            say(each.kind, f"{each.subject}, {(each.lasted_ms or 0) / 1000:.1f} s")


def evict(
    playing: Flights, silences: Silences, node: str, say: Say, grace_s: int | None = None
) -> None:
    """Evict an executor's pod as soon as the budget permits, and wait until another replaces it."""
    view = playing.await_protected()
    platform = playing.pods.rig
    pod = playing.pods.pod_of(view, node)
    incarnation = view.nodes[node].record.incarnation
    application = view.nodes[node].record.labels.application
    before = {name_of(each) for each in playing.pods.executors(application)}

    def permitted() -> bool:
        try:
            platform.evict(name_of(pod), grace_s)
        except ApiError as refused:
            if refused.code != TOO_MANY:
                raise
            return False
        return True

    platform.wait(permitted, "the budget permits it")
    say("evicted", node)
    with silences.during(f"{node} evicted"):
        platform.wait(lambda: platform.objects.find(POD, "default", name_of(pod)) is None)
        ended_us = playing.now_us()
        platform.wait(lambda: not relies_on(read_view(playing.store), incarnation))
    if grace_s is None:
        assert (playing.pods.volume(pod, "run") / "left").exists(), platform.log(pod)

    def replaced() -> bool:
        found = read_view(playing.store).nodes.get(node)
        return found is not None and found.record.incarnation != incarnation

    platform.wait(replaced, f"{node} is there again")
    say("replaced", f"{silences.lasted('after', ended_us, playing.now_us())}")
    # By the first pod that came: none was made for nothing.
    after = {name_of(each) for each in playing.pods.executors(application)}
    assert before - after == {name_of(pod)}
    assert len(after) == len(before)


def kill_driver(playing: Flights, say: Say) -> None:
    """Kill the first application's driver, and wait until nothing relies on its executors."""
    pods, store = playing.pods, playing.store
    application = next(iter(pods.applications))
    before = {name_of(pod) for pod in pods.executors(application)}
    killed = {
        found.record.incarnation
        for found in read_view(store).nodes.values()
        if found.record.labels.application == application
    }
    driver = name_of(pods.driver(application))
    say("killed", driver)
    pods.rig.kill(driver)
    pods.rig.wait(lambda: not before & {name_of(p) for p in pods.rig.pods()}, "its pods are gone")
    pods.rig.wait(
        lambda: not any(relies_on(read_view(store), each) for each in killed),
        "nothing relies on its hosts",
        2 * PATIENCE_S,
    )
