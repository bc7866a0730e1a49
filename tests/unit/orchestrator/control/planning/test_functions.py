"""Queries run only where the functions that they call have the code they were placed with."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, relocate
from orchestrator.manifest import Manifests
from orchestrator.store.protocol import FRAGMENTS
from placement.rebalancing.moves import Reason
from streams.expressions import owned
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft
from tests.owned_functions import install

WITH = ("lyon", "frankfurt", "zurich")
"""Hosts that have the function as the leader has it; others lack it or have other code."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ObedientCluster:
    install(monkeypatch, "fahrenheit")
    made = ObedientCluster()
    here = owned.fingerprints(owned.owned_names())
    for name in EXECUTORS:
        functions = {"fahrenheit": "0" * 16} if name == "paris" else {}
        made.hosts[name].tell(functions=here if name in WITH else functions)
    return made


def calling() -> Manifests:
    """The aircraft query; all of its statements but one call the function."""
    manifests = aircraft()
    (query,) = manifests.queries
    statements = query.record.statements.replace("a.x = b.x", "fahrenheit(a.x) = fahrenheit(b.x)")
    record = msgspec.structs.replace(query.record, statements=statements)
    return msgspec.structs.replace(
        manifests, queries=(msgspec.structs.replace(query, record=record),)
    )


def test_a_query_is_placed_where_its_functions_are(cluster: ObedientCluster) -> None:
    cluster.apply(calling())
    cluster.settle()
    found = cluster.view().fragments
    assert {each.node for one in found.values() for each in one.record.replicas} <= {*WITH}
    functions = {name: one.record.functions for name, one in found.items()}
    fingerprint = owned.load("fahrenheit").fingerprint
    assert functions["proximity.alerts"] == {"fahrenheit": fingerprint}
    assert functions["proximity.north_tracks"] == {}
    (alerts,) = [
        each
        for node in WITH
        for each in cluster.assignment(node).fragments
        if each.fragment == "alerts" and each.role == "primary"
    ]
    assert alerts.functions == {"fahrenheit": fingerprint}


def test_a_secondary_that_is_lost_comes_to_a_host_that_has_them(cluster: ObedientCluster) -> None:
    cluster.apply(calling())
    cluster.settle()
    lost = cluster.view().fragments["proximity.alerts"].record.secondary
    assert lost is not None
    cluster.kill(lost.node)
    for found in cluster.view().fragments.values():
        if found.record.secondary == lost:
            cluster.lose_secondary(found.record, found.version)
        elif found.record.primary == lost:
            cluster.take_over(found.record, found.version)
    cluster.settle()
    record = cluster.view().fragments["proximity.alerts"].record
    assert {each.node for each in record.replicas} == {*WITH} - {lost.node}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("amsterdam", "amsterdam lacks function fahrenheit"),
        ("paris", "paris has function fahrenheit with code 0000000000000000, not "),
    ],
)
def test_nothing_is_moved_to_a_host_that_has_them_not(
    cluster: ObedientCluster, node: str, why: str
) -> None:
    cluster.apply(calling())
    cluster.settle()
    view = cluster.view()
    record = view.fragments["proximity.alerts"].record
    with pytest.raises(MoveRefused, match=why) as refused:
        relocate(Planning.of(view), record.key, record.primary.node, node)
    assert refused.value.kind is Reason.FUNCTIONS


def test_what_counts_is_the_code_with_which_a_fragment_was_placed(cluster: ObedientCluster) -> None:
    """A leader that has other code by now does not mix the two."""
    cluster.apply(calling())
    cluster.settle()
    found = cluster.view().fragments["proximity.alerts"]
    older = msgspec.structs.replace(found.record, functions={"fahrenheit": "0" * 16})
    cluster.store.update(FRAGMENTS.key("proximity.alerts"), older, found.version)
    planning = Planning.of(cluster.view())
    assert planning.lacking("proximity").keys() == {*EXECUTORS} - {"paris"}


def test_a_query_whose_functions_no_host_has_is_refused(cluster: ObedientCluster) -> None:
    for name in EXECUTORS:
        cluster.hosts[name].tell(functions={})
    refusal = cluster.propose(calling()).refusal
    assert refusal is not None
    assert "amsterdam lacks function fahrenheit" in refusal.problem + str(refusal.value)
    assert "Install the package that has the function on every host" in refusal.remedy
