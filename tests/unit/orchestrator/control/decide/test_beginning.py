"""A cluster that is stopped and started again: whom the leader waits for, and what it says."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.beginning import HOSTS_PATIENCE_US, SETTLE_PATIENCE_US
from orchestrator.records import CordonRecord, Restarts
from orchestrator.store.protocol import CORDONS, FRAGMENTS
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, places_ms

SITES = tuple(name for name in places_ms if name not in EXECUTORS)
STEP_US = 5_000_000


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster(manifest=tuple(places_ms))
    made.apply(aircraft())
    made.settle()
    return made


def wait(cluster: ObedientCluster, span_us: int) -> None:
    for _ in range(span_us // STEP_US):
        cluster.settle()
        cluster.now_us += STEP_US
    cluster.settle()


def placed(cluster: ObedientCluster) -> dict[str, tuple[str, ...]]:
    """Fragment → the nodes of its replicas that live."""
    view = cluster.view()
    return {
        name: tuple(each.node for each in found.record.replicas if view.alive(each))
        for name, found in view.fragments.items()
    }


def events(cluster: ObedientCluster, kind: str) -> list[str]:
    return [e.event.detail for e in cluster.store.history() if e.event.kind == kind]


def problem(cluster: ObedientCluster, words: str) -> str:
    (found,) = [each for each in cluster.coordination.problems if words in each]
    return found


def test_a_cluster_that_is_started_again_has_the_places_of_one_that_is_new(
    cluster: ObedientCluster,
) -> None:
    before = placed(cluster)
    cluster.down()
    for name in (*SITES, *EXECUTORS):
        cluster.up(name)
        wait(cluster, 2 * STEP_US)
        if name != EXECUTORS[-1]:
            assert not any(placed(cluster).values())
    assert placed(cluster) == before
    assert all(not found.record.lacked for found in cluster.view().fragments.values())
    assert not cluster.coordination.problems
    cluster.check_invariants()


def test_it_says_what_it_waits_for_and_that_it_has_come(cluster: ObedientCluster) -> None:
    cluster.down()
    for name in (*SITES, *EXECUTORS[:2]):
        cluster.up(name)
    wait(cluster, STEP_US)
    told = problem(cluster, "the cluster starts")
    assert "5 of 9 registered, without frankfurt, amsterdam, london, zurich" in told
    assert "query proximity is placed once all hosts" in told
    assert "60 s" in told
    assert events(cluster, "start waits") == [
        "5 of 9 registered, without frankfurt, amsterdam, london, zurich"
    ]
    for name in EXECUTORS[2:]:
        cluster.up(name)
    cluster.settle()
    assert not cluster.coordination.problems
    assert events(cluster, "start") == ["all hosts of the manifest are there and measured"]


def test_it_waits_for_measurements_too_but_not_for_long(cluster: ObedientCluster) -> None:
    cluster.down()
    for name in (*SITES, *EXECUTORS):
        cluster.up(name)
    london = cluster.hosts["london"]
    coordinate, latencies_ms = london.record.coordinate, london.record.latencies_ms
    assert coordinate is not None
    london.tell(latencies_ms={})
    wait(cluster, STEP_US)
    assert "64 of 72 links measured" in problem(cluster, "the cluster starts")
    # An error that lasts is no reason to wait for ever.
    wrong = type(coordinate)(position_ms=(300.0, 0.0), cpu_ms=0.0, error=0.9, error_ms=300.0)
    london.tell(latencies_ms=latencies_ms, coordinate=wrong)
    wait(cluster, SETTLE_PATIENCE_US - STEP_US)
    assert "london ±90%" in problem(cluster, "the cluster starts")
    wait(cluster, STEP_US)
    assert all(placed(cluster).values())


def test_when_nothing_more_comes_it_starts_with_what_is_there_and_mends_that_later(
    cluster: ObedientCluster,
) -> None:
    before = placed(cluster)
    cluster.down()
    for name in (*SITES, *EXECUTORS[:2]):
        cluster.up(name)
    wait(cluster, HOSTS_PATIENCE_US - STEP_US)
    assert not any(placed(cluster).values())
    wait(cluster, 2 * STEP_US)
    assert {node for nodes in placed(cluster).values() for node in nodes} == set(EXECUTORS[:2])
    assert "nothing more came for 60 s" in events(cluster, "start")[-1]
    told = problem(cluster, "was placed without")
    assert "frankfurt, amsterdam, london, zurich, which the manifest names" in told
    for name in EXECUTORS[2:]:
        cluster.up(name)
        cluster.settle()
    wait(cluster, 20 * STEP_US)
    assert placed(cluster) == before
    assert not cluster.coordination.problems
    assert len(events(cluster, "placed again")) == 1
    assert len(events(cluster, "complete again")) == 3
    assert len(events(cluster, "state lost")) == 3
    cluster.check_invariants()


def test_what_is_placed_again_leaves_out_a_fragment_that_is_stopped(
    cluster: ObedientCluster,
) -> None:
    cluster.down()
    for name in (*SITES, *EXECUTORS[:2]):
        cluster.up(name)
    wait(cluster, HOSTS_PATIENCE_US + STEP_US)
    found = cluster.view().fragments["proximity.alerts"]
    restarts = Restarts(count=5, last_us=0, failed=5, stopped="poison")
    stopped = msgspec.structs.replace(found.record, restarts=restarts)
    cluster.store.update(FRAGMENTS.key(stopped.key), stopped, found.version)
    for name in EXECUTORS[2:]:
        cluster.up(name)
        cluster.settle()
    wait(cluster, 20 * STEP_US)
    (told,) = cluster.coordination.problems
    assert told.startswith("proximity.alerts is stopped: poison")
    records = {name: each.record for name, each in cluster.view().fragments.items()}
    assert records.pop(stopped.key) == stopped
    assert not any(each.lacked for each in records.values())


def test_a_node_that_never_comes_stays_a_problem_until_the_manifest_lacks_it(
    cluster: ObedientCluster,
) -> None:
    cluster.down()
    for name in (*SITES, *EXECUTORS[:3]):
        cluster.up(name)
    wait(cluster, HOSTS_PATIENCE_US)
    cluster.up("amsterdam")
    cluster.up("london")
    wait(cluster, HOSTS_PATIENCE_US + 20 * STEP_US)
    told = problem(cluster, "was placed without")
    assert "zurich, which the manifest names" in told
    assert {node for nodes in placed(cluster).values() for node in nodes} <= set(EXECUTORS[:5])
    wait(cluster, 4 * HOSTS_PATIENCE_US)
    assert len(events(cluster, "placed again")) <= 1


def test_nobody_waits_for_a_node_that_is_cordoned(cluster: ObedientCluster) -> None:
    cluster.store.create(CORDONS.key("zurich"), CordonRecord(node="zurich", since_us=0))
    cluster.down()
    for name in (*SITES, *EXECUTORS[:5]):
        cluster.up(name)
    wait(cluster, 2 * STEP_US)
    assert all(placed(cluster).values())
    assert not cluster.coordination.problems


def test_both_replicas_lost_while_others_run_are_replaced_without_waiting(
    cluster: ObedientCluster,
) -> None:
    found = cluster.view().fragments["proximity.alerts"].record
    assert found.secondary is not None
    lost = [found.primary.node, found.secondary.node]
    for node in lost:
        cluster.kill(node)
    cluster.settle()
    cluster.now_us += STEP_US
    cluster.settle()
    assert not cluster.view().begins
    assert all(placed(cluster).values())
    assert problem(cluster, "was placed without")
    for node in lost:
        cluster.up(node)
    wait(cluster, 20 * STEP_US)
    assert not cluster.coordination.problems
    assert all(not each.record.lacked for each in cluster.view().fragments.values())


def test_all_executors_lost_with_the_only_application_are_a_start(
    cluster: ObedientCluster,
) -> None:
    before = placed(cluster)
    for name in EXECUTORS:
        cluster.kill(name)
    wait(cluster, 2 * HOSTS_PATIENCE_US)
    for name in EXECUTORS:
        cluster.up(name)
        wait(cluster, STEP_US)
    assert placed(cluster) == before
    assert not cluster.coordination.problems


def test_a_cluster_without_a_manifest_waits_for_nobody() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    cluster.down()
    for name in (*SITES, *EXECUTORS[:2]):
        cluster.up(name)
    wait(cluster, 2 * STEP_US)
    assert all(placed(cluster).values())


def test_a_query_that_is_applied_while_nodes_are_away_is_placed_at_once_and_again_later() -> None:
    complete = ObedientCluster(manifest=tuple(places_ms))
    complete.apply(aircraft())
    complete.settle()
    cluster = ObedientCluster((*SITES, *EXECUTORS[4:]), manifest=tuple(places_ms))
    cluster.apply(aircraft())
    cluster.settle()
    assert {node for nodes in placed(cluster).values() for node in nodes} == set(EXECUTORS[4:])
    assert "paris, lyon" in problem(cluster, "was placed without")
    for name in EXECUTORS[:4]:
        cluster.up(name)
    wait(cluster, 20 * STEP_US)
    assert placed(cluster) == placed(complete)
    assert not cluster.coordination.problems
