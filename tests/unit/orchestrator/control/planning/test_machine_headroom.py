"""Admission counts the services of a machine, and keeps free what a takeover needs."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.measured_load import NODE_SHARE
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.control.planning import utilisation
from orchestrator.control.planning.utilisation import RESTING_CORES, SERVICE_US, PredictedPlace
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import HostLoad, Processors, ServicesRecord, SourceSpec
from orchestrator.records.speed import HOST_CORES
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import SERVICES
from tests.obedient_cluster import EXECUTORS, ObedientCluster
from tests.unit.orchestrator.control.planning.test_load_admission import (
    FIRST,
    STREAMS,
    costing,
    heavy,
    on_machines,
)

TAKEOVER_US = 20_000.0
"""Longer than it takes, so that it counts beside what two streams of positions cost."""

SHARED = Processors(machine="machine-0", shared="boot-0", count=2.0)


@pytest.fixture
def cluster() -> ObedientCluster:
    cluster = ObedientCluster()
    on_machines(cluster, 1)
    return cluster


def take(cluster: ObedientCluster, cores: float, own: Processors = SHARED) -> None:
    """Have Spark take so much of a machine."""
    record = ServicesRecord(processors=own, cores={"spark": cores})
    EphemeralRecord(cluster.store, SERVICES.key("local-1")).publish(record)


def machine(cluster: ObedientCluster) -> PredictedPlace:
    return next(each for each in admit(cluster.view()).places if each.is_machine)


def test_query_for_which_the_services_leave_no_room_is_refused_with_their_figures(
    cluster: ObedientCluster,
) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.12, evaluating_cores=0.0))
    assert admit(cluster.view(), STREAMS, [FIRST]).placements
    take(cluster, 0.4)
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), STREAMS, [FIRST])
    # With what the coordinator and ZooKeeper will take for the query is no part of `used`.
    assert caught.value.figures["services_cores"] == pytest.approx(0.4)
    assert "spark 0.40" in str(caught.value)


@pytest.mark.parametrize(("coordinator", "zookeeper"), [(0.1, 0.02), (0.4, 0.02), (0.1, 0.3)])
def test_what_services_take_for_queries_that_were_just_applied_does_not_count(
    cluster: ObedientCluster, coordinator: float, zookeeper: float
) -> None:
    cores = {"coordinator": coordinator, "zookeeper": zookeeper, "spark": 0.05}
    record = ServicesRecord(processors=SHARED, cores=cores)
    EphemeralRecord(cluster.store, SERVICES.key("local-1")).publish(record)
    counted = min(coordinator + zookeeper, RESTING_CORES)
    assert machine(cluster).services_cores == pytest.approx(counted + 0.05)


def test_services_of_another_machine_take_nothing_of_this_one(cluster: ObedientCluster) -> None:
    take(cluster, 0.4, Processors(machine="far", shared="boot-far", count=2.0))
    assert machine(cluster).services_cores == 0.0


def test_services_take_more_for_replicas_that_nobody_has_reported_yet(
    cluster: ObedientCluster,
) -> None:
    take(cluster, 0.1)
    found = admit(cluster.view(), STREAMS, [costing(5.0)])
    (place,) = (each for each in found.places if each.is_machine)
    replicas = 2 * len(found.plan.placements)
    assert place.services_cores == pytest.approx(0.1 + replicas * SERVICE_US / 1e6)


def test_machine_is_overloaded_by_its_services_too(cluster: ObedientCluster) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.15, evaluating_cores=0.0))
    cluster.settle()
    assert not cluster.coordination.problems
    take(cluster, 0.5)
    cluster.settle()
    (problem,) = cluster.coordination.problems
    assert "its hosts, spark take more than 1.60" in problem


def test_what_the_worst_takeover_needs_stays_free(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utilisation, "TAKEOVER_US", TAKEOVER_US)
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(0.01, "frankfurt"),)))
    cluster.settle()
    view = cluster.view()
    (query,) = view.query_records.values()
    left_ms = query.recovery_bound_ms - view.settings.detection_ms
    places = {each.name: each for each in admit(view).places}
    (lost,) = {found.record.primary.node for found in view.fragments.values()}
    # Nodes that stand by have nothing of what the one that fails takes.
    needed = sum(places[node].takeover_cores for node in view.executors)
    least = len(view.fragments) * TAKEOVER_US / 1e3 / left_ms
    assert least <= needed < 3 * least
    # Of the machine, it takes nothing any longer.
    released = places[lost].predicted_cores - HOST_CORES
    assert 0.0 < machine(cluster).takeover_cores == pytest.approx(needed - released)


def test_a_takeover_needs_nothing_more_where_the_lost_node_took_much(
    cluster: ObedientCluster,
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()
    places = {each.name: each for each in admit(cluster.view()).places}
    assert max(places[node].takeover_cores for node in cluster.view().executors) > 0.0
    assert machine(cluster).takeover_cores == 0.0


def recovering_in(bound_ms: float, *primaries: str, deadline_ms: float = 300.0) -> QueryManifest:
    """A query with a recovery bound."""
    query = costing(5.0, *primaries)
    record = msgspec.structs.replace(
        query.record, recovery_bound_ms=bound_ms, deadline_ms=deadline_ms
    )
    return msgspec.structs.replace(query, record=record)


def test_a_tighter_recovery_bound_needs_more_room(cluster: ObedientCluster) -> None:
    def takeover_cores(bound_ms: float) -> float:
        places = admit(cluster.view(), STREAMS, [recovering_in(bound_ms)]).places
        return max(each.takeover_cores for each in places)

    assert takeover_cores(400.0) > takeover_cores(4000.0) > 0.0


def test_what_is_kept_free_for_secondaries_that_break_the_bound_leaves_room_for_other_queries(
    cluster: ObedientCluster,
) -> None:
    """They are scheduled by their sub-deadlines, which are seconds: nobody catches up with those
    within the bound."""
    on_machines(cluster, 9)
    query = recovering_in(185.0, "frankfurt", deadline_ms=20_000.0)
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(query,)))
    cluster.settle()
    primaries = {found.record.primary.node for found in cluster.view().fragments.values()}
    for lost in sorted(set(EXECUTORS) - primaries - {"london"}):
        cluster.kill(lost)
        cluster.settle()
    records = [found.record for found in cluster.view().fragments.values()]
    assert any(record.timing.standby_lag_ms > 1000 for record in records)
    admission = admit(cluster.view(), STREAMS, [heavy("second", 5.0)])
    assert admission.placements
    assert 0.0 < max(each.takeover_cores for each in admission.places) < NODE_SHARE


def lose(cluster: ObedientCluster, lost: str) -> None:
    """Have the peer replicas of a node record that it is silent."""
    for found in cluster.view().fragments.values():
        record = found.record
        if record.primary.node == lost:
            cluster.take_over(record, found.version)
        elif record.secondary is not None and record.secondary.node == lost:
            cluster.lose_secondary(record, found.version)


@pytest.mark.parametrize("role", ["primary", "secondary"])
@pytest.mark.parametrize("noticed", ["by the store", "by its peers"])
def test_what_healing_is_about_to_place_is_not_given_away(
    cluster: ObedientCluster, role: str, noticed: str
) -> None:
    # They come too rarely for rests, which depend on who else is on a node, to make a difference.
    rare = SourceSpec(driver="replay", together_ms=50.0)
    streams = tuple(
        msgspec.structs.replace(each, record=msgspec.structs.replace(each.record, source=rare))
        for each in STREAMS
    )
    cluster.apply(Manifests(cluster=None, streams=streams, queries=(costing(40.0),)))
    cluster.settle()
    assert machine(cluster).healing_cores == 0.0
    record = cluster.view().fragments["proximity.alerts"].record
    lost = record.primary if role == "primary" else record.secondary
    assert lost is not None
    if noticed == "by its peers":
        lose(cluster, lost.node)
    else:
        cluster.hosts.pop(lost.node).store.close()
    with pytest.raises(Refused) as refused:
        admit(cluster.view(), streams, [heavy("second", 100.0)])
    healing_cores = float(refused.value.figures["healing_cores"])
    assert 0.1 < healing_cores < float(refused.value.figures["predicted_cores"])
    told = f"{healing_cores:.2f} of it by replicas that were lost and come again"
    assert told in str(refused.value)
    expected = machine(cluster)
    for _ in range(3):
        cluster.settle()
        cluster.now_us += AWAITED_US
    cluster.settle()
    healed = machine(cluster)
    assert healed.healing_cores == 0.0
    assert healed.predicted_cores == pytest.approx(expected.predicted_cores)


def test_fragments_that_healing_will_start_over_count_too(cluster: ObedientCluster) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(40.0),)))
    cluster.settle()
    before = machine(cluster)
    for replica in cluster.view().fragments["proximity.alerts"].record.replicas:
        cluster.hosts.pop(replica.node).store.close()
    found = machine(cluster)
    assert found.fragments["alerts"] == pytest.approx(before.fragments["alerts"], rel=0.05)
    assert found.healing_cores > found.fragments["alerts"] / 2
