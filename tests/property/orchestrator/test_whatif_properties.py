"""What is decided on paper is legal, and nothing assumed changes nothing, wherever hosts are."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.simulation.paper.cluster import PaperCluster
from orchestrator.simulation.paper.losses import possible_losses
from orchestrator.simulation.paper.outlook import PaperReading, fragments, loss_outlook
from orchestrator.store.copied import copy_of
from tests.obedient_cluster import ObedientCluster, aircraft, places_ms

coordinates = st.tuples(st.integers(-30, 30), st.integers(-30, 30))
placed = st.fixed_dictionaries(dict.fromkeys(places_ms, coordinates))


def cluster_at(places: dict[str, tuple[int, int]]) -> ObedientCluster:
    cluster = ObedientCluster()
    for name, host in cluster.hosts.items():
        latencies = {o: math.dist(places[name], places[o]) for o in places if o != name}
        at = host.record.coordinate
        assert at is not None
        position_ms = tuple(map(float, places[name]))
        host.tell(
            latencies_ms=latencies,
            coordinate=type(at)(position_ms=position_ms, cpu_ms=0.0, error=0.1),
        )
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


@given(places=placed, choice=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_on_paper_decisions_are_legal_and_nothing_assumed_changes_nothing(
    places: dict[str, tuple[int, int]], choice: int
) -> None:
    cluster = cluster_at(places)
    revision = cluster.server.revision
    paper = PaperCluster(copy_of(cluster.store), cluster.now_us)
    paper.settle()
    before = PaperReading.of(paper)
    assert not any(each.changes for each in fragments(before, before, ()))
    real = {name: each.record.replicas for name, each in cluster.view().fragments.items()}
    assert real == {name: each.record.replicas for name, each in before.view.fragments.items()}
    losses = [each for each in possible_losses(before.view) if each.kind != "machine"]
    loss = losses[choice % len(losses)]
    paper.lose(loss.hosts)
    after = PaperReading.of(paper)
    outlook = loss_outlook(loss, before, after)
    for name, found in after.view.fragments.items():
        nodes = [replica.node for replica in found.record.replicas]
        assert len(set(nodes)) == len(nodes)
        healed = outlook.unprotected_s is not None or name not in outlook.unhealed
        assert not healed or not set(nodes) & {*loss.hosts}
    assert cluster.server.revision == revision
