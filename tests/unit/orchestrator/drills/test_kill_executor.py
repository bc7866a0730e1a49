"""Which executor a drill kills, and what it reads off the arrivals afterwards."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.control.observe.audit_events import LOST, RESTORED
from orchestrator.control.observe.view import ClusterView
from orchestrator.drills import acting as acting_on
from orchestrator.drills.acting import Acting, DrillFailed
from orchestrator.drills.disturbances import KILL_EXECUTOR
from orchestrator.drills.kill_executor import Killed, Target, choose, fail, unprotected_s
from orchestrator.drills.measurement import failover, outage
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import HistoryEvent
from orchestrator.simulation.world.memory_store import MemoryServer
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.streams_of_numbers import chunk, schema

KILLED_US = 1_000_000
DETECTED_US = 1_010_000


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def killed() -> Killed:
    target = Target(node="n", hosts={"n": "1"}, fragments=("q.f",), bound_ms=300)
    return Killed(
        target=target,
        killed_us=KILLED_US,
        detected_us=DETECTED_US,
        causes=("connection lost",),
        restored_us=9_000_000,
    )


def arriving(*arrived_ms: float) -> Delivered:
    """Timestamps completed so long after the kill."""
    return Delivered.from_deliveries(
        [
            Deliver(
                stream="s",
                epoch=1,
                chunk=chunk(0, [(n, 0)]),
                lost=0,
                arrived_us=KILLED_US + round(1000 * at_ms),
            )
            for n, at_ms in enumerate(arrived_ms)
        ],
        schema,
    )


def test_by_default_the_join_s_primary(cluster: ObedientCluster) -> None:
    view = cluster.view()
    chosen = choose(view, None, KILL_EXECUTOR)
    assert chosen.node == view.fragments["proximity.alerts"].record.primary.node


@pytest.mark.parametrize("target", ["proximity.north_tracks", "north_tracks"])
def test_a_fragment_by_either_name(cluster: ObedientCluster, target: str) -> None:
    record = cluster.view().fragments["proximity.north_tracks"].record
    chosen = choose(cluster.view(), target, KILL_EXECUTOR)
    assert chosen.hosts == {record.primary.node: record.primary.incarnation}


def test_everything_primary_on_the_node_is_affected(cluster: ObedientCluster) -> None:
    view = cluster.view()
    for node in view.executors:
        here = {n for n, f in view.fragments.items() if f.record.primary.node == node}
        chosen = choose(view, node, KILL_EXECUTOR)
        assert set(chosen.fragments) == here
        bounds = [q.recovery_bound_ms for q in view.query_records.values()] if here else []
        assert chosen.bound_ms == min(bounds, default=float("inf"))


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("alrts", "alerts?"),
        ("pariss", "paris?"),
        ("north-receiver", "Known: alerts"),
    ],
)
def test_neither_fragment_nor_executor(cluster: ObedientCluster, target: str, advice: str) -> None:
    problem = f"target: '{target}' is neither a running fragment nor a node. "
    with pytest.raises(InvalidInput, match=re.escape(problem) + ".*" + re.escape(advice)):
        choose(cluster.view(), target, KILL_EXECUTOR)


def test_nothing_runs_to_be_struck() -> None:
    with pytest.raises(InvalidInput, match="drill kill-executor: no fragment runs here"):
        choose(ObedientCluster().view(), None, KILL_EXECUTOR)


def test_nothing_unprotected_is_killed(cluster: ObedientCluster) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    host = cluster.hosts[record.secondary.node]
    host.cold = True
    host.obey()
    with pytest.raises(Refused, match=r"proximity\.alerts, which has no warm secondary"):
        choose(cluster.view(), "proximity.alerts", KILL_EXECUTOR)


def test_times_are_counted_from_the_kill() -> None:
    assert killed().detection_ms == 10.0
    assert killed().redundancy_restored_s == 8.0


def test_recovery_ends_with_the_silence_that_the_kill_began() -> None:
    steady = np.arange(-500, 3000, 20.0)
    hole = steady[(steady <= 0) | (steady >= 90)]
    found = outage(killed(), [arriving(*hole)])
    assert (found.recovery_ms, found.gap_ms) == (100.0, 100.0)


def test_what_healing_does_later_is_gap_but_not_recovery() -> None:
    steady = np.arange(-500, 4000, 20.0)
    holes = steady[((steady <= 0) | (steady >= 90)) & ((steady < 2000) | (steady > 2300))]
    found = outage(killed(), [arriving(*holes)])
    assert found.recovery_ms == 100.0
    assert found.gap_ms > 300


def test_the_sink_that_fared_worst_counts() -> None:
    steady = np.arange(-500, 3000, 20.0)
    hole = steady[(steady <= 0) | (steady >= 90)]
    assert outage(killed(), [arriving(*steady), arriving(*hole)]).recovery_ms == 100.0


@pytest.mark.parametrize("arrived_ms", [(), (-20.0, -10.0)])
def test_a_stream_that_does_not_come_back(arrived_ms: tuple[float, ...]) -> None:
    with pytest.raises(DrillFailed):
        outage(killed(), [arriving(*arrived_ms)])


def test_the_longest_time_without_protection_since_the_kill_counts() -> None:
    store = MemoryServer().connect()
    assert unprotected_s(store, KILLED_US) is None
    for at_us, kind, lasted_ms in (
        (KILLED_US - 1, RESTORED, 9000.0),
        (KILLED_US, LOST, None),
        (KILLED_US + 1, RESTORED, 300.0),
        (KILLED_US + 2, RESTORED, 700.0),
        (KILLED_US + 3, RESTORED, 200.0),
        (KILLED_US + 4, "something else", 8000.0),
    ):
        event = HistoryEvent(at_us=at_us, kind=kind, subject="q.f", detail="", lasted_ms=lasted_ms)
        store.append_history(event)
    assert unprotected_s(store, KILLED_US) == 0.7
    told = replace(killed(), unprotected_s=0.7)
    assert failover(told, [arriving(0, 20, 40)]).unprotected_s == 0.7


def test_a_drill_that_waited_in_vain_says_for_what(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting_on, "HEAL_TIMEOUT_S", 0.2)
    nobody = replace(KILL_EXECUTOR, strike=_nothing)
    view = cluster.view()
    for target, otherwise in (
        ("proximity.alerts", r"has taken over .+ within 0 s: .*proximity\.alerts"),
        (_idle(view), r"not restored .+ within 0 s: {node} has not been replaced"),
    ):
        node = choose(view, target, nobody).node
        told: list[tuple[str, str]] = []
        acting = Acting(
            view=view,
            node=node,
            store=cluster.store,
            on_progress=lambda step, detail, told=told: told.append((step, detail)),
            by="",
        )
        with pytest.raises(DrillFailed, match=otherwise.format(node=node)) as failed:
            fail(nobody, acting)
        assert told[-1] == ("waiting", str(failed.value).partition(" within 0 s: ")[2])


def _nothing(_acting: Acting) -> None:
    """The executor goes on."""


def _idle(view: ClusterView) -> str:
    """A node that runs no primary."""
    primaries = {found.record.primary.node for found in view.fragments.values()}
    return min(view.executors.keys() - primaries)
