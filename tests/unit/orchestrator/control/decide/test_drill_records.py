"""What drills ask for by records: links are disturbed, nodes cordoned, and never for good."""

from __future__ import annotations

import pytest

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.drill_records import LONGEST_LINK_FAULT_US
from orchestrator.control.decide.writes import decide
from orchestrator.records import (
    LONGEST_STRIKE_US,
    CordonRecord,
    DisturbedLink,
    LinkFault,
    StrikeKind,
    StrikeRecord,
)
from orchestrator.store.protocol import ASSIGNMENTS, CORDONS, LINKS, STRIKES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

ONE, OTHER = EXECUTORS[:2]


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def disturb(cluster: ObedientCluster, for_us: int) -> DisturbedLink:
    until_us = cluster.now_us + for_us
    record = DisturbedLink(source=ONE, target=OTHER, until_us=until_us, delay_ms=None)
    cluster.store.create(LINKS.key(record.name), record)
    return record


def faults(cluster: ObedientCluster, node: str) -> dict[str, LinkFault]:
    found = cluster.store.get(ASSIGNMENTS.key(node))
    assert found is not None
    return {peer.node: peer.fault for peer in found.record.peers if peer.fault is not None}


def test_only_the_host_that_receives_is_told(cluster: ObedientCluster) -> None:
    record = disturb(cluster, 10_000_000)
    cluster.settle_coordinator()
    assert faults(cluster, OTHER) == {ONE: LinkFault(until_us=record.until_us)}
    assert faults(cluster, ONE) == {}


def test_a_forgotten_one_ends_by_itself(cluster: ObedientCluster) -> None:
    record = disturb(cluster, 10_000_000)
    cluster.settle_coordinator()
    cluster.now_us = record.until_us
    cluster.settle()
    assert cluster.store.get(LINKS.key(record.name)) is None
    assert faults(cluster, OTHER) == {}
    told = [entry.event for entry in cluster.store.history()][-1]
    assert (told.kind, told.subject) == ("link restored", record.name)
    assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()


def test_one_may_last_ten_minutes(cluster: ObedientCluster) -> None:
    record = disturb(cluster, 600_000_000)
    cluster.settle_coordinator()
    assert faults(cluster, OTHER) == {ONE: LinkFault(until_us=record.until_us)}


def test_one_that_would_last_too_long_never_begins(cluster: ObedientCluster) -> None:
    disturb(cluster, LONGEST_LINK_FAULT_US + 10_000_000)
    cluster.settle_coordinator()
    assert faults(cluster, OTHER) == {}
    assert cluster.view().links == {}


def test_a_forgotten_cordon_ends_by_itself(cluster: ObedientCluster) -> None:
    until_us = cluster.now_us + 10_000_000
    cordons = (
        CordonRecord(node=ONE, since_us=cluster.now_us, until_us=until_us),
        CordonRecord(node=OTHER, since_us=cluster.now_us),
    )
    for each in cordons:
        cluster.store.create(CORDONS.key(each.node), each)
    cluster.now_us = until_us - 1
    cluster.settle()
    assert cluster.view().cordoned == {ONE, OTHER}
    cluster.now_us = until_us
    cluster.settle()
    assert cluster.view().cordoned == {OTHER}
    told = [entry.event for entry in cluster.store.history()][-1]
    assert (told.kind, told.subject) == ("uncordoned", ONE)
    assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()


def test_a_forgotten_strike_goes_once_its_fault_is_over(cluster: ObedientCluster) -> None:
    take_by_us, lasts_us = cluster.now_us + 1_000_000, 5_000_000
    record = StrikeRecord(
        kind=StrikeKind.HANG, life="1", take_by_us=take_by_us, lasts_us=lasts_us, by="me"
    )
    cluster.store.create(STRIKES.key(ONE), record)
    cluster.now_us = take_by_us + lasts_us - 1
    cluster.settle_coordinator()
    assert cluster.view().strikes[ONE].record == record
    cluster.now_us = take_by_us + lasts_us
    cluster.settle_coordinator()
    assert cluster.view().strikes == {}
    told = [entry.event for entry in cluster.store.history()][-1]
    assert (told.kind, told.subject, told.detail) == ("strike over", ONE, "hang: its time is over")


def test_a_strike_that_is_asked_for_much_too_early_goes_at_once(cluster: ObedientCluster) -> None:
    take_by_us = cluster.now_us + LONGEST_STRIKE_US + 10_000_000
    record = StrikeRecord(kind=StrikeKind.KILL, life="1", take_by_us=take_by_us)
    cluster.store.create(STRIKES.key(ONE), record)
    cluster.settle_coordinator()
    assert cluster.view().strikes == {}
