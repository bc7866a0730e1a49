"""Hosts that share no wire are named, with what each of them speaks."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.observe.readiness import names
from orchestrator.records.versions import WIRE_VERSION, Versions
from tests.obedient_cluster import ObedientCluster

NEWER = Versions(product="9.0", wire=(WIRE_VERSION + 1, WIRE_VERSION + 2), records=1)
BOTH = msgspec.structs.replace(NEWER, wire=(WIRE_VERSION, WIRE_VERSION + 1))


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.settle()
    return made


def told(cluster: ObedientCluster) -> list[str]:
    cluster.settle()
    return [each for each in cluster.coordination.problems if "nothing is sent between" in each]


def test_hosts_that_share_no_wire_are_a_problem_until_they_do(cluster: ObedientCluster) -> None:
    first, second, *rest = sorted(cluster.hosts)
    assert not told(cluster)
    for name in (first, second):
        cluster.hosts[name].tell(versions=NEWER)
    (problem,) = told(cluster)
    assert problem == (
        f"{names(rest)} speak wire {WIRE_VERSION}, and {first}, {second} wire {WIRE_VERSION + 1} "
        f"to {WIRE_VERSION + 2}: nothing is sent between them. Restart the former or the latter "
        "with a version that speaks a wire of the others (`vivace preflight`)"
    )
    for name in (first, second):
        cluster.hosts[name].tell(versions=BOTH)
    assert not told(cluster)


def test_each_pair_of_versions_that_share_no_wire_is_told(cluster: ObedientCluster) -> None:
    first, second, *_ = sorted(cluster.hosts)
    newest = msgspec.structs.replace(NEWER, wire=(WIRE_VERSION + 2, WIRE_VERSION + 3))
    cluster.hosts[first].tell(versions=NEWER)
    cluster.hosts[second].tell(versions=newest)
    assert len(told(cluster)) == 2
    assert not any(first in each and second in each for each in told(cluster))
