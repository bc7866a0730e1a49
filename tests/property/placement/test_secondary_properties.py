"""Secondaries against going through all nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.errors import BoundUnattainable, NoNode
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.records import Secondary
from placement.secondaries import SecondarySearch, StandbyTask, place_secondaries
from tests.property.placement import definitions
from tests.property.placement.random_problems import network, query
from topology.cpu import Linear

DETECTION_MS = 20.0

seeds = st.integers(0, 2**32 - 1)
host_counts = st.integers(2, 9)
sizes = st.integers(1, 4)
bounds_ms = st.floats(20, 120)


class Instance:
    """Primaries anywhere, and the load they make."""

    def __init__(
        self, seed: int, hosts: int, size: int, bound_ms: float, search: SecondarySearch
    ) -> None:
        rng = np.random.default_rng(seed)
        self.view: NetworkView = network(
            rng, hosts, capacity_cores=(0.01, 1.0), labels=int(rng.integers(4))
        )
        self.graph = query(rng, "q", size)
        drawn = rng.choice(self.view.host_indices, size=size)
        names = self.view.names(drawn)
        primaries = dict(zip(self.graph.to_place, names, strict=True))
        pinned = {o.name: o.pinned for o in self.graph.operators if o.pinned is not None}
        self.task = StandbyTask(
            graph=self.graph,
            view=self.view,
            primaries=pinned | primaries,
            detection_ms=DETECTION_MS,
            bound_ms=bound_ms,
            search=search,
        )
        self.load = Load(self.view, operator_load=0.2, cpu=Linear(10))
        for name, node in primaries.items():
            self.load = self.load.with_replicas((node,), self.graph.cores(name))

    def placed(self) -> dict[str, Secondary] | BoundUnattainable | NoNode:
        try:
            return place_secondaries(self.task, self.load, {})
        except (BoundUnattainable, NoNode) as error:
            return error

    def delays_ms(self, operator: str, node: str) -> list[float]:
        """K of every input from the primary upstream."""
        return [
            self.view.one_way_ms(self.task.primaries[link.source], node)
            for link in self.graph.inputs[operator]
        ]


@settings(max_examples=80, deadline=None)
@given(seeds, host_counts, sizes, bounds_ms)
def test_outwards_takes_the_first_legal_node(seed: int, hosts: int, size: int, bound_ms: float):
    """§4.5: nearest to the largest upstream first, CPU axis included, literally."""
    made = Instance(seed, hosts, size, bound_ms, SecondarySearch.OUTWARDS)
    found = made.placed()
    graph, view, load = made.graph, made.view, made.load
    for name in graph.to_place:
        largest = max(graph.inputs[name], key=lambda link: link.rate_bytes_s)
        start = view.node(made.task.primaries[largest.source])
        cpu_ms = load.axis_ms()
        outwards = sorted(
            (node for node in view.hosts if node.name != made.task.primaries[name]),
            key=lambda node: (
                float(np.linalg.norm(node.position_ms - start.position_ms)) ** 2
                + float(cpu_ms[view.index[node.name]]) ** 2
            ),
        )
        legal = [
            node.name
            for node in outwards
            if DETECTION_MS + max(made.delays_ms(name, node.name)) <= bound_ms
        ]
        if not legal:
            assert isinstance(found, BoundUnattainable)
            assert found.operator == name
            best_ms = min(max(made.delays_ms(name, node.name)) for node in outwards)
            assert found.best_ms == DETECTION_MS + best_ms
            return
        if isinstance(found, dict):
            assert found[name].node == legal[0]
            assert found[name].recovery.total_ms <= bound_ms
        load = load.with_replicas((legal[0],), graph.cores(name))
    assert isinstance(found, dict)


@settings(max_examples=80, deadline=None)
@given(seeds, host_counts, sizes, bounds_ms)
def test_cheapest_equals_brute_force(seed: int, hosts: int, size: int, bound_ms: float):
    made = Instance(seed, hosts, size, bound_ms, SecondarySearch.CHEAPEST)
    found = made.placed()
    graph, view, load, primaries = made.graph, made.view, made.load, made.task.primaries
    standbys: dict[str, definitions.Standby] = {}
    for name in graph.to_place:
        home = view.node(primaries[name])
        costs: dict[str, float] = {}
        roomy = load.has_room(graph.cores(name))
        for node in view.hosts:
            if (
                not definitions.apart(view, node.name, home.name)
                or not roomy[view.index[node.name]]
            ):
                continue
            recovery = definitions.recovery(
                graph, name, node.name, primaries, standbys, view, DETECTION_MS
            )
            if recovery.total_ms <= bound_ms:
                costs[node.name] = float(
                    load.price_bytes(graph.mean_input_rate)[view.index[node.name]]
                ) + sum(
                    link.rate_bytes_s * view.one_way_ms(primaries[link.source], node.name) / 1e3
                    for link in graph.inputs[name]
                )
        if not costs:
            assert isinstance(found, (BoundUnattainable, NoNode))
            assert found.operator == name
            return
        best = min(costs, key=costs.__getitem__)
        if isinstance(found, dict):
            assert found[name].node == best
        recovery = definitions.recovery(graph, name, best, primaries, standbys, view, DETECTION_MS)
        standbys[name] = definitions.Standby(node=best, recovery=recovery)
        assert standbys[name].recovery.total_ms <= bound_ms
        load = load.with_operators(graph, {name: (best,)})
    assert isinstance(found, dict)


@settings(max_examples=40, deadline=None)
@given(seeds, host_counts, sizes, bounds_ms, st.sampled_from(SecondarySearch))
def test_what_was_placed_stays(
    seed: int, hosts: int, size: int, bound_ms: float, search: SecondarySearch
):
    """Placing again around what runs changes nothing, as long as it is legal."""
    made = Instance(seed, hosts, size, 200 + bound_ms, search)
    found = made.placed()
    if isinstance(found, dict):
        running = {name: standby.node for name, standby in found.items()}
        again = place_secondaries(made.task, made.load, running)
        assert {name: standby.node for name, standby in again.items()} == running
