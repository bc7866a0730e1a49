"""Switchover, move, drain and cordons, as a script asks for them."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import pytest
from rich.console import Console

from orchestrator import api
from orchestrator.cli.render.moves import moves_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.records import FragmentRecord, MovePlan, MoveStep, Restarts
from orchestrator.store.protocol import FRAGMENTS, MOVES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def connected(cluster: ObedientCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store)


@pytest.fixture(autouse=True)
def acting(cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinator and hosts act whenever the API waits."""

    sleep, thread = time.sleep, threading.get_ident()

    def act(seconds: float) -> None:
        if threading.get_ident() != thread:
            # Of a library, whose thread has nothing to do with this test.
            sleep(seconds)
            return
        cluster.coordination.run_once(cluster.now_us)
        for host in cluster.hosts.values():
            host.obey()

    monkeypatch.setattr(time, "sleep", act)


def record(cluster: ObedientCluster, name: str = "alerts") -> FragmentRecord:
    return cluster.view().fragments[f"proximity.{name}"].record


def nodes(cluster: ObedientCluster, name: str = "alerts") -> tuple[str, str]:
    found = record(cluster, name)
    assert found.secondary is not None
    return found.primary.node, found.secondary.node


def free(cluster: ObedientCluster) -> str:
    return next(name for name in EXECUTORS if name not in nodes(cluster))


@pytest.mark.parametrize("name", ["alerts", "proximity.alerts"])
def test_switch_is_waited_for(cluster: ObedientCluster, name: str) -> None:
    primary, secondary = nodes(cluster)
    document = api.switch(connected(cluster), name, on_progress=cluster.step)
    assert nodes(cluster) == (secondary, primary)
    (made,) = document.moves
    assert document.done
    assert (made.outcome, made.primary, made.secondary) == (
        "done",
        (primary, secondary),
        (secondary, primary),
    )
    assert made.recovery_ms is not None
    assert made.recovery_ms[1] <= (made.bound_ms or 0.0)


def test_dry_run_writes_nothing(cluster: ObedientCluster) -> None:
    before = dict(cluster.server.entries)
    store = connected(cluster)
    target, (primary, _) = free(cluster), nodes(cluster)
    assert not api.switch(store, "alerts", dry_run=True, on_progress=cluster.step).done
    (planned,) = api.move(
        store, "alerts", "secondary", target, dry_run=True, on_progress=cluster.step
    ).moves
    assert (planned.outcome, planned.secondary[1]) == ("planned", target)
    drained = api.drain(store, primary, dry_run=True, on_progress=cluster.step)
    assert drained.moves
    assert api.cordon(store, primary, dry_run=True).changed
    cluster.settle_coordinator()
    assert dict(cluster.server.entries) == before


def test_a_replica_that_is_there_already_is_not_said_to_be_moved(
    cluster: ObedientCluster,
) -> None:
    primary, secondary = nodes(cluster)
    store = connected(cluster)
    document = api.move(store, "alerts", "primary", primary, dry_run=True, on_progress=cluster.step)
    assert document.moves[0].outcome == "unchanged"
    assert (
        api.move(store, "alerts", "primary", primary, on_progress=cluster.step).moves[0].outcome
        == "unchanged"
    )
    assert api.move(store, "alerts", "secondary", secondary, on_progress=cluster.step).done
    console = Console(width=200)
    with console.capture() as shown:
        console.print(moves_view(document))
    assert "is there already" in shown.get()
    assert nodes(cluster) == (primary, secondary)


def test_move_is_waited_for(cluster: ObedientCluster) -> None:
    target, (primary, secondary) = free(cluster), nodes(cluster)
    document = api.move(connected(cluster), "alerts", "primary", target, on_progress=cluster.step)
    assert document.done
    assert nodes(cluster) == (target, secondary)
    document = api.move(
        connected(cluster), "alerts", "secondary", primary, on_progress=cluster.step
    )
    assert document.done
    assert nodes(cluster) == (target, primary)


def test_drain_leaves_a_node_free_and_uncordon_admits_it(cluster: ObedientCluster) -> None:
    node, _ = nodes(cluster)
    store = connected(cluster)
    before = {n for n, f in cluster.view().fragments.items() if node in _nodes(f.record)}
    document = api.drain(connected(cluster), node, at_a_time=2, on_progress=cluster.step)
    assert document.done
    assert document.remaining == ()
    assert {each.fragment for each in document.moves} == before
    assert all(node not in _nodes(f.record) for f in cluster.view().fragments.values())
    assert all(cluster.view().settled(f.record) for f in cluster.view().fragments.values())
    (status,) = [each for each in api.status(store).nodes if each.node == node]
    assert (status.cordoned, status.primaries, status.secondaries) == (True, 0, 0)
    with pytest.raises(api.Refused, match="is cordoned"):
        api.move(store, "alerts", "secondary", node, on_progress=cluster.step)
    assert api.uncordon(store, node).changed
    assert not api.uncordon(store, node).changed
    assert api.move(
        store, "alerts", "secondary", node, dry_run=True, on_progress=cluster.step
    ).moves
    api.drain(store, node, on_progress=cluster.step)
    assert api.drain(store, node, on_progress=cluster.step).name is None


def _nodes(record: FragmentRecord) -> list[str]:
    return [replica.node for replica in record.replicas]


def test_drain_that_would_leave_no_place_is_refused_and_cordons_nothing(
    cluster: ObedientCluster,
) -> None:
    primary, secondary = nodes(cluster)
    for name in EXECUTORS:
        if name not in (primary, secondary):
            cluster.kill(name)
    cluster.settle()
    with pytest.raises(api.Refused, match="cannot leave"):
        api.drain(connected(cluster), primary, on_progress=cluster.step)
    assert cluster.view().cordoned == set()


def test_refused_drain_names_the_nodes_that_are_only_cordoned(cluster: ObedientCluster) -> None:
    primary, secondary = nodes(cluster)
    others = [name for name in EXECUTORS if name not in (primary, secondary)]
    for name in others:
        api.cordon(connected(cluster), name)
    with pytest.raises(api.Refused, match=r"every other live node is cordoned") as refused:
        api.drain(connected(cluster), primary, on_progress=cluster.step)
    assert all(name in str(refused.value) for name in others)


def test_a_drill_lets_no_node_be_used_that_an_operator_has_cordoned(
    cluster: ObedientCluster,
) -> None:
    """A drill's cordon has an end; an operator's takes its place."""
    node, store = free(cluster), connected(cluster)
    assert api.cordon(store, node, for_s=600.0).changed
    assert not api.cordon(store, node, for_s=600.0).changed
    cordoned = cluster.view().cordons[node].record
    assert cordoned.until_us == cordoned.since_us + 600_000_000
    assert api.uncordon(store, node, lasting=False).changed
    assert cluster.view().cordoned == set()
    api.cordon(store, node, for_s=600.0)
    assert api.cordon(store, node).changed
    kept = api.uncordon(store, node, lasting=False)
    assert (kept.cordoned, kept.changed) == (True, False)
    assert cluster.view().cordons[node].record.until_us is None
    api.drain(store, nodes(cluster)[0], for_s=600.0, on_progress=cluster.step)
    api.drain(store, node, on_progress=cluster.step)
    assert [each.record.until_us for each in cluster.view().cordons.values()].count(None) == 1


def test_who_is_overtaken_by_another_operator_looks_again(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, store = EXECUTORS[0], cluster.store
    create, delete = store.create, store.delete

    def second_create(*given: Any, **options: Any) -> int:
        create(*given, **options)
        return create(*given, **options)

    def second_delete(*given: Any, **options: Any) -> None:
        delete(*given, **options)
        delete(*given, **options)

    monkeypatch.setattr(store, "create", second_create)
    document = api.cordon(connected(cluster), node)
    assert (document.cordoned, document.changed) == (True, False)
    monkeypatch.setattr(store, "create", create)
    monkeypatch.setattr(store, "delete", second_delete)
    document = api.uncordon(connected(cluster), node)
    assert (document.cordoned, document.changed) == (False, False)


def test_unknown_names_are_refused(cluster: ObedientCluster) -> None:
    store = connected(cluster)
    with pytest.raises(api.InvalidInput, match="is not a fragment that runs here"):
        api.switch(store, "alert", on_progress=cluster.step)
    with pytest.raises(api.InvalidInput, match="is not a live node"):
        api.cordon(store, "pariss")
    with pytest.raises(api.InvalidInput, match="is a site"):
        api.drain(store, "control-centre", on_progress=cluster.step)
    with pytest.raises(api.InvalidInput, match="is not being moved"):
        api.withdraw(store, "alerts")


def test_switch_without_a_warm_secondary_is_refused(cluster: ObedientCluster) -> None:
    _, secondary = nodes(cluster)
    cluster.hosts[secondary].cold = True
    cluster.hosts[secondary].obey()
    with pytest.raises(api.Refused, match="no warm secondary"):
        api.switch(connected(cluster), "alerts", on_progress=cluster.step)
    assert cluster.store.list(MOVES).records == {}


def test_drain_of_a_primary_without_a_warm_secondary_cordons_nothing(
    cluster: ObedientCluster,
) -> None:
    primary, secondary = nodes(cluster)
    cluster.hosts[secondary].cold = True
    cluster.hosts[secondary].obey()
    with pytest.raises(api.Refused, match="no warm secondary"):
        api.drain(connected(cluster), primary, on_progress=cluster.step)
    assert cluster.view().cordoned == set()


def test_uncordon_withdraws_a_drain(cluster: ObedientCluster) -> None:
    node, _ = nodes(cluster)
    store = connected(cluster)
    api.drain(store, node, wait=False, on_progress=cluster.step)
    cluster.settle_coordinator()
    assert any(f.record.third for f in cluster.view().fragments.values())
    api.uncordon(store, node)
    cluster.settle()
    view = cluster.view()
    assert all(f.record.third is None for f in view.fragments.values())
    assert all(f.record.ended_us is not None for f in view.moves.values())


def test_a_move_under_way_is_withdrawn(cluster: ObedientCluster) -> None:
    before = record(cluster)
    store = connected(cluster)
    api.move(store, "alerts", "primary", free(cluster), wait=False, on_progress=cluster.step)
    cluster.settle_coordinator()
    assert len(api.withdraw(store, "alerts")) == 1
    cluster.settle()
    assert record(cluster) == before


def stop(cluster: ObedientCluster, name: str = "alerts") -> None:
    """Have a fragment be stopped, as one whose input cannot be evaluated."""
    found = cluster.view().fragments[f"proximity.{name}"]
    restarts = Restarts(count=5, last_us=0, failed=5, stopped="poison")
    stopped = msgspec.structs.replace(found.record, restarts=restarts)
    cluster.store.update(FRAGMENTS.key(stopped.key), stopped, found.version)
    cluster.settle()


@pytest.mark.parametrize("place", [0, 1])
def test_a_drain_passes_over_a_fragment_that_is_stopped(
    cluster: ObedientCluster, place: int
) -> None:
    node = nodes(cluster)[place]
    stop(cluster)
    document = api.drain(connected(cluster), node, on_progress=cluster.step)
    assert document.done
    assert document.remaining == ()
    assert "proximity.alerts" not in [each.fragment for each in document.moves]
    assert node in nodes(cluster), "nothing is written of it"


def test_a_move_of_a_fragment_that_is_stopped_is_refused(cluster: ObedientCluster) -> None:
    stop(cluster)
    for move in (
        lambda: api.switch(connected(cluster), "alerts", on_progress=cluster.step),
        lambda: api.move(
            connected(cluster), "alerts", "secondary", free(cluster), on_progress=cluster.step
        ),
    ):
        with pytest.raises(api.Refused, match="is stopped: poison"):
            move()
    assert not cluster.view().moves


def test_moves_end_whose_query_has_a_stopped_fragment_without_nodes(
    cluster: ObedientCluster,
) -> None:
    stop(cluster)
    gone = nodes(cluster)
    for node in gone:
        cluster.kill(node)
    cluster.settle()
    target = next(n for n in EXECUTORS if n not in (*gone, *nodes(cluster, "north_tracks")))
    step = MoveStep(fragment="proximity.north_tracks", role="primary", node=target)
    plan = MovePlan(name="late", steps=(step,), submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("late"), plan)
    cluster.settle()
    moved = cluster.view().moves["late"].record
    assert moved.ended_us is not None
    assert "alerts of its query is stopped" in (moved.steps[0].failed or "")
