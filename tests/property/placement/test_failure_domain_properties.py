"""Failure domains are as `definitions` has them, pair by pair."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement.network import NetworkView, Node
from tests.property.placement.definitions import apart, looseness, shared

names = st.sampled_from(["", "a", "b", "c", "d"])
nodes = st.lists(st.tuples(names, names, names, names, st.booleans()), min_size=2, max_size=7)


@given(nodes)
def test_pairs_that_may_hold_both_replicas(
    labels: list[tuple[str, str, str, str, bool]],
) -> None:
    view = NetworkView(
        nodes=tuple(
            Node(
                name=f"n{number}",
                position_ms=np.zeros(2),
                application=application,
                machine=machine,
                driver=driver,
                zone=zone,
                hosts_operators=hosts,
            )
            for number, (application, machine, driver, zone, hosts) in enumerate(labels)
        )
    )
    domains = view.domains
    for (i, one), (j, other) in product(enumerate(view.nodes), repeat=2):
        if i == j:
            continue
        assert domains.apart_from(i)[j] == apart(view, one.name, other.name)
        distinct = (domains.distinct[:, i] != domains.distinct[:, j]).all()
        assert distinct == apart(view, one.name, other.name)
        found = domains.looseness_between(np.array([i]), np.array([j]))
        assert found.tolist() == [looseness(view, one.name, other.name)]
        assert {*domains.shared(i, j)} == shared(view, one, other)
